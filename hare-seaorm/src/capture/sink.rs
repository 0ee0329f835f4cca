//! Where changes go that do not go to an outbox.

use sea_orm::ConnectionTrait;

use super::change::CapturedChange;
use super::declaration::CapturedEntity;
use super::extension::BoxError;

/// Takes the changes of an entity in place of the outbox: `#[hare(capture(sink = AuditTrail))]`. No event is written, no relay is
/// woken.
///
/// ```
/// use hare_seaorm::capture::{BoxError, CapturedChange, CapturedEntity, ChangeSink};
/// use sea_orm::{ActiveModelTrait, ConnectionTrait, Set};
/// # mod audit {
/// #     use sea_orm::entity::prelude::*;
/// #     #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
/// #     #[sea_orm(table_name = "audit")]
/// #     pub struct Model { #[sea_orm(primary_key)] pub id: i32, pub what: String }
/// #     #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
/// #     pub enum Relation {}
/// #     impl ActiveModelBehavior for ActiveModel {}
/// # }
///
/// struct AuditTrail;
///
/// /// Of whatever entity; `impl ChangeSink<loan::Entity>` for one, whose models it then sees.
/// impl<E: CapturedEntity> ChangeSink<E> for AuditTrail {
///     async fn write<C: ConnectionTrait>(db: &C, changes: Vec<CapturedChange<E>>) -> Result<(), BoxError> {
///         for change in changes {
///             let what = format!("{} of {}", change.operation().as_str(), change.label());
///             audit::ActiveModel { what: Set(what), ..Default::default() }.insert(db).await?;
///         }
///         Ok(())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no sink for the changes of `{E}`",
    note = "write `impl ChangeSink<{E}> for {Self}`, or `impl<E: CapturedEntity> ChangeSink<E> for {Self}` for every entity"
)]
pub trait ChangeSink<E: CapturedEntity> {
    /// Writes the changes of one statement, or of one chunk of a large one, in order. Called after the rows are written, on the
    /// write's own connection and in its transaction: all it writes there is kept or undone with the rows.
    ///
    /// An error undoes the write, and reaches its caller. Captured writes and own events are welcome on `db`; relays find their
    /// events at the latest at their next poll. Dropped half-way, the write is undone as any that is dropped.
    fn write<C: ConnectionTrait>(
        db: &C,
        changes: Vec<CapturedChange<E>>,
    ) -> impl Future<Output = Result<(), BoxError>> + Send;
}
