//! What an outbox table and its rows are to the rest of the library, whatever else a project adds to them.

use std::str::FromStr;
use std::sync::Arc;

use sea_orm::prelude::DateTimeUtc;
use sea_orm::{EntityTrait, FromQueryResult, ModelTrait};
use uuid::Uuid;

use crate::json::JsonText;
use crate::wakeup::OutboxWakeup;

/// An outbox table: the built-in one, or one of your own, beside it, with columns and relations of its own.
///
/// An outbox of your own is made with [`outbox_event`](macro@crate::outbox_event), its table by a migration of your own:
///
/// ```
/// mod billing_outbox {
///     use std::sync::Arc;
///
///     use hare_seaorm::{InProcessWakeup, OutboxWakeup};
///
///     #[hare_seaorm::outbox_event(table_name = "billing_outbox", wakeup = wakeup)]
///     pub struct Model {
///         pub origin: String,
///     }
///
///     fn wakeup() -> Arc<dyn OutboxWakeup> {
///         Arc::new(InProcessWakeup::new())
///     }
/// }
///
/// mod invoice {
///     use hare_seaorm::ChangeCapture;
///     use sea_orm::entity::prelude::*;
///
///     #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
///     #[sea_orm(table_name = "invoice")]
///     #[hare(capture(app = "billing", outbox = super::billing_outbox::Entity))]
///     pub struct Model {
///         #[sea_orm(primary_key)]
///         pub id: i32,
///         pub total: i64,
///     }
///
///     #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
///     pub enum Relation {}
/// }
///
/// use hare_seaorm::{MemoryDelivery, OutboxRelay};
/// use hare_seaorm_migration::OutboxTable;
/// use sea_orm::{ConnectOptions, ConnectionTrait, Database, Schema, Set};
/// use sea_orm_migration::prelude::{ColumnDef, SchemaManager};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = Database::connect(ConnectOptions::new("sqlite::memory:").max_connections(1).to_owned()).await?;
/// # let manager = &SchemaManager::new(&db);
/// // In a migration:
/// OutboxTable::new("billing_outbox")
///     .column(ColumnDef::new("origin").string().not_null().default("till"))
///     .create(manager)
///     .await?;
/// # db.execute(&Schema::new(db.get_database_backend()).create_table_from_entity(invoice::Entity)).await?;
///
/// let delivery = MemoryDelivery::<billing_outbox::Model>::default();
/// let relay = OutboxRelay::for_outbox::<billing_outbox::Entity>(db.clone(), delivery.clone()).start()?;
///
/// let new = invoice::ActiveModel { total: Set(995), ..Default::default() };
/// new.insert(&db).await?;
///
/// delivery.wait_for(1).await;
/// assert_eq!(delivery.events()[0].origin, "till");
/// relay.stop().await;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an outbox",
    label = "not an outbox entity",
    note = "use the built-in `hare_seaorm::outbox::Entity`, or make an outbox with `#[hare_seaorm::outbox_event]`"
)]
pub trait OutboxEntity: EntityTrait<Model: OutboxEvent> {
    /// Tells relays of new events. `None`: they only poll.
    fn wakeup() -> Option<Arc<dyn OutboxWakeup>>;

    /// The columns of the unique key that an idempotency key falls under: by default `idempotency_key` alone, so that a key
    /// is used once in the whole table. With a column of the outbox's own beside it, as in `(tenant_id, idempotency_key)`, once
    /// per value of that one. None: the table has no such key, and messages with an idempotency key are refused.
    fn conflict_columns() -> Vec<Self::Column> {
        Self::Column::from_str("idempotency_key").into_iter().collect()
    }
}

/// One event as stored: what a delivery may read.
pub trait OutboxEvent: ModelTrait + FromQueryResult + Clone + Send + Sync + 'static {
    /// The order of delivery within an ordering key.
    fn sequence(&self) -> i64;
    /// What a receiver deduplicates by.
    fn id(&self) -> Uuid;
    /// What the event is about; deliveries route by it.
    fn topic(&self) -> &str;
    /// The body, as it was written.
    fn payload(&self) -> &JsonText;
    /// A JSON object of metadata.
    fn headers(&self) -> &JsonText;
    /// Events of one key are delivered strictly in order.
    fn ordering_key(&self) -> Option<&str>;
    /// At most one event exists per key.
    fn idempotency_key(&self) -> Option<&str>;
    /// When the event was written, by the database's clock.
    fn created_at(&self) -> DateTimeUtc;
    /// Failed deliveries so far.
    fn attempts(&self) -> i32;
    /// The most deliveries this event may fail before it is dead-lettered; the relay's number if `None`.
    fn max_attempts(&self) -> Option<i32>;
    /// When it is tried again after a failure.
    fn next_attempt_at(&self) -> Option<DateTimeUtc>;
    /// Claims that ended without an outcome.
    fn claims(&self) -> i32;
    /// The error of the last failed delivery.
    fn last_error(&self) -> Option<&str>;
    /// When it was delivered.
    fn published_at(&self) -> Option<DateTimeUtc>;
    /// When it ran out of attempts.
    fn dead_lettered_at(&self) -> Option<DateTimeUtc>;
}
