//! The derive macros of `hare-seaorm`, which re-exports them: depend on that crate, not on this one.
//!
//! What is here is read top down: `attributes` turns `#[hare(...)]` into typed values that know where they were written,
//! `capture` checks them against the entity's fields and writes the impls, `behavior` moves a user's own hooks, `outbox_event`
//! makes an outbox of a struct of extra columns. Every mistake is a compile error at the wrong word, all mistakes of a type come at once, and the impls are written even then, so that
//! the compiler does not bury the mistake under what follows from it.

use proc_macro::TokenStream;

mod attributes;
mod behavior;
mod capture;
mod outbox_event;
mod words;

/// Captures the writes of an entity: each row that is inserted, updated or deleted makes one event in an outbox, in the
/// transaction of the write.
///
/// Goes on the `Model` of an entity in the compact format (`DeriveEntityModel`), under `#[sea_orm::model]`, or in the expanded
/// format (`DeriveModel`). The line `impl ActiveModelBehavior for ActiveModel {}` goes away: the derive writes it.
///
/// ```text
/// #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
/// #[sea_orm(table_name = "loan")]
/// #[hare(capture(app = "library", payload = "before_and_after"))]
/// pub struct Model {
///     #[sea_orm(primary_key)]
///     pub id: i32,
///     pub status: String,
///     #[hare(sensitive)]
///     pub note: Option<String>,
/// }
/// ```
///
/// # `capture(...)`, on the struct
///
/// All keys are optional, and so is the attribute.
///
/// | key | meaning | default |
/// |---|---|---|
/// | `app = "library"` | the service, first half of the label `library.Loan` | `app` under `[package.metadata.hare]` in Cargo.toml, else the package's name |
/// | `name = "Loan"` | the entity, second half of the label | the module, `mod loan` as `Loan` |
/// | `outbox = path` | the outbox entity | `hare_seaorm::outbox::Entity` |
/// | `payload = "keys"`, `"after"`, `"before_and_after"` | what an event holds | `"after"` |
/// | `operations(insert, update, delete)` | what makes events; `operations()` is nothing | all three |
/// | `fields(a, b)` | the columns held, in this order | every stored column that is not sensitive |
/// | `exclude(a, b)` | columns left out | none |
/// | `profile = path` | a `CaptureProfile`: what a service says once for its entities; the keys here count more | none |
/// | `topic = "template"` | of `{app}`, `{model}`, `{table}`, `{operation}` | `"{app}.{model}.{operation}"` |
/// | `ordering_key = "template"` | of `{label}`, `{pk}`, `{app}`, `{model}`, `{table}` | `"{label}:{pk}"` |
/// | `unordered` | events without an ordering key | |
/// | `topic_with = path`, `ordering_key_with = path` | in place of the template, a function of `&CapturedChange<Entity>`: `Result<String, Error>`, `Result<Option<String>, Error>` | |
/// | `envelope = "plain"`, `"cloudevents"` | the payload is the change, or a CloudEvent 1.0 with the change as its `data` | `"plain"` |
/// | `extend = path` | an `async fn extend<C: ConnectionTrait>(db: &C, change: CapturedChange<Entity>) -> Result<Option<Extension>, E>`: keys, headers and columns added to the event; `None` adds nothing | |
/// | `extend_many = path` | likewise, once for all changes of a statement (of a chunk, if it writes very many rows): `Vec` for `Vec`, in order | |
/// | `sink = path` | a `ChangeSink`, which takes the changes in place of the outbox | |
/// | `hooks` | the hooks are yours, see [`behavior`](macro@behavior) | the derive writes empty ones |
/// | `no_shadow(insert, update, ...)` | methods not to write, because you have one of that name: `insert`, `update`, `save`, `delete`, `update_without_returning`, `delete_links`, `delete_links_self` of the active model, `model_delete` of the model, `entity_insert`, `insert_many`, `entity_update`, `update_many`, `entity_delete`, `delete_many`, `delete_by_id` of the entity | |
/// | `on_pool = "refuse"`, `"non_atomic"` | inserts and deletes of generic code without a transaction | `"refuse"` |
/// | `strategy = "auto"`, `"portable"` | how writes are carried out | `"auto"` |
///
/// In templates `{{` and `}}` are braces. In `fields` and `exclude`, a relation of `#[sea_orm::model]` that belongs to another
/// entity stands for its key columns.
///
/// # Elsewhere
///
/// - on the struct, beside `capture(...)`: `crate = "path"`, where `hare_seaorm` is found if not under that name;
/// - on a field: `sensitive`, a column held only if `fields` names it; not on the primary key, which is in every event;
/// - on a field: `json_with = path`, a function that takes the field's value by reference and answers what is told of it in images,
///   anything that serde can serialise. For types that have no JSON form here, or that shall have another; not on the primary key.
///
/// `fields`, `exclude` and `sensitive` choose whose values an event holds; its `changed` lists the names of all columns that the
/// caller set, sensitive ones included, never their values.
///
/// # What it writes
///
/// The declaration (`CapturedEntity`), SeaORM's `ActiveModelBehavior`, `CaptureBehavior` unless `hooks` is set, and on `ActiveModel`
/// and `Model` inherent methods with the names of SeaORM's writes, which the existing call sites pick up.
///
/// # When the compiler says
///
/// - E0119, conflicting implementations of `ActiveModelBehavior`: remove the empty impl, or, if it has hooks, put
///   `#[hare_seaorm::behavior]` above it and `hooks` into the declaration;
/// - E0119, conflicting implementations of `CaptureBehavior`: the impl is there, `hooks` is missing in the declaration;
/// - E0592, duplicate definitions of a method: name it in `no_shadow(...)`.
#[proc_macro_derive(ChangeCapture, attributes(hare))]
pub fn derive_change_capture(input: TokenStream) -> TokenStream {
    match syn::parse(input) {
        Ok(input) => capture::expand(&input).into(),
        Err(error) => error.into_compile_error().into(),
    }
}

/// Moves an entity's own hooks to where a captured entity has them.
///
/// Stands above the entity's `impl ActiveModelBehavior for ActiveModel`, with or without `#[async_trait]` there, and makes it
/// an `impl CaptureBehavior for ActiveModel` with the same methods. The declaration needs `hooks`, or the compiler
/// reports two implementations of `CaptureBehavior` (E0119).
///
/// ```text
/// #[hare_seaorm::behavior]
/// impl ActiveModelBehavior for ActiveModel {
///     async fn before_save<C: ConnectionTrait>(self, db: &C, insert: bool) -> Result<Self, DbErr> {
///         ...
///     }
/// }
/// ```
///
/// `#[behavior(crate = "path")]` says where `hare_seaorm` is found if not under that name.
#[proc_macro_attribute]
pub fn behavior(arguments: TokenStream, item: TokenStream) -> TokenStream {
    behavior::expand(arguments.into(), item.into()).into()
}

/// Makes an outbox of a project's own: a table beside the built-in one, with columns and relations of its own.
///
/// Stands above a struct `Model` that has the extra columns and relations and nothing else. The columns that every outbox has
/// come before them, as in `hare_seaorm::outbox::Model`, and the struct becomes an entity in the format of `#[sea_orm::model]`:
/// that line, its derives and `impl ActiveModelBehavior for ActiveModel` are written here.
///
/// ```text
/// pub mod billing_outbox {
///     use std::sync::Arc;
///
///     use hare_seaorm::{InProcessWakeup, OutboxWakeup};
///     use sea_orm::entity::prelude::*;
///
///     #[hare_seaorm::outbox_event(
///         table_name = "billing_outbox",
///         wakeup = wakeup,
///         conflict(tenant_id, idempotency_key)
///     )]
///     pub struct Model {
///         pub tenant_id: i32,
///         #[sea_orm(belongs_to, from = "tenant_id", to = "id")]
///         pub tenant: HasOne<super::tenant::Entity>,
///     }
///
///     fn wakeup() -> Arc<dyn OutboxWakeup> {
///         Arc::new(InProcessWakeup::new())
///     }
/// }
/// ```
///
/// The table is made by `OutboxTable` of `hare-seaorm-migration`, with the same extra columns and the same unique key. Captured
/// writes go to this outbox with `#[hare(capture(outbox = billing_outbox::Entity))]`, and its relays are made by
/// `OutboxRelay::for_outbox`.
///
/// # Arguments
///
/// | argument | meaning | default |
/// |---|---|---|
/// | `table_name = "billing_outbox"` | the table | needed |
/// | `schema_name = "billing"` | its schema | the connection's |
/// | `wakeup = path` | a function that makes the `Arc<dyn OutboxWakeup>` of its writers and relays; called once in a process, when the first event is written or a relay started | none: the relays only poll |
/// | `conflict(a, idempotency_key)` | what idempotency keys are unique by: `idempotency_key` and columns of the outbox's own that are never NULL; `conflict()` is an outbox without such keys | `idempotency_key` alone |
/// | `hooks` | the `impl ActiveModelBehavior for ActiveModel` is yours | an empty one is written |
/// | `crate = "path"` | where `hare_seaorm` is found if not under that name | |
///
/// Extra columns take SeaORM's attributes, and their types are `Clone`, `Debug` and `PartialEq`. Captured writes do not fill
/// them: there, they need a default or must be nullable. More derives go into
/// `#[sea_orm(model_attrs(derive(...)))]`, below this attribute.
///
/// # What it writes
///
/// Everything of `#[sea_orm::model]` (`Entity`, `Model`, `ActiveModel`, `Column`, `PrimaryKey`, `Relation`, `ModelEx` and so on),
/// `OutboxEntity` for the entity and `OutboxEvent` for the model. An event's id is found by `Entity::find_by_event_id`, because
/// `find_by_id` goes by the primary key, `sequence`.
///
/// # When the compiler says
///
/// - E0119, conflicting implementations of `ActiveModelBehavior`: remove the empty impl, or, if it has hooks, add `hooks`.
#[proc_macro_attribute]
pub fn outbox_event(arguments: TokenStream, item: TokenStream) -> TokenStream {
    outbox_event::expand(arguments.into(), item.into()).into()
}
