//! The derive macros of `hare-seaorm`, which re-exports them: depend on that crate, not on this one.
//!
//! What is here is read top down: `attributes` turns `#[hare(...)]` into typed values that know where they were written,
//! `capture` checks them against the entity's fields and writes the impls, `behavior` moves a user's own hooks. Every mistake is
//! a compile error at the wrong word, all mistakes of a type come at once, and the impls are written even then, so that
//! the compiler does not bury the mistake under what follows from it.

use proc_macro::TokenStream;

mod attributes;
mod behavior;
mod capture;
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
/// | `topic = "template"` | of `{app}`, `{model}`, `{table}`, `{operation}` | `"{app}.{model}.{operation}"` |
/// | `ordering_key = "template"` | of `{label}`, `{pk}`, `{app}`, `{model}`, `{table}` | `"{label}:{pk}"` |
/// | `unordered` | events without an ordering key | |
/// | `hooks` | the hooks are yours, see [`behavior`](macro@behavior) | the derive writes empty ones |
/// | `no_shadow(insert, update, save, delete, update_without_returning, model_delete)` | methods not to write, because you have one of that name | |
/// | `on_pool = "refuse"`, `"non_atomic"` | inserts and deletes of generic code without a transaction | `"refuse"` |
/// | `strategy = "auto"`, `"portable"` | how writes are carried out | `"auto"` |
///
/// In templates `{{` and `}}` are braces. In `fields` and `exclude`, a relation of `#[sea_orm::model]` that belongs to another
/// entity stands for its key columns.
///
/// # Elsewhere
///
/// - on the struct, beside `capture(...)`: `crate = "path"`, where `hare_seaorm` is found if not under that name;
/// - on a field: `sensitive`, a column held only if `fields` names it; not on the primary key, which is in every event.
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
