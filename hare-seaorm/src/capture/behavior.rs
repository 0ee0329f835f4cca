//! The user's own hooks, for entities whose `ActiveModelBehavior` the derive writes.

use sea_orm::{ActiveModelTrait, ConnectionTrait, DbErr, EntityTrait};

/// SeaORM's `ActiveModelBehavior`, for a captured entity: the same four methods and `new`, called exactly as often, with the
/// caller's connection, outside the savepoint that keeps a row and its event together.
///
/// Written by the derive unless the declaration says `hooks`:
///
/// ```
/// # mod loan {
/// use hare_seaorm::ChangeCapture;
/// use sea_orm::entity::prelude::*;
///
/// #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
/// #[sea_orm(table_name = "loan")]
/// #[hare(capture(app = "library", hooks))]
/// pub struct Model {
///     #[sea_orm(primary_key)]
///     pub id: i32,
///     pub status: String,
/// }
///
/// #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
/// pub enum Relation {}
///
/// #[hare_seaorm::behavior]
/// impl ActiveModelBehavior for ActiveModel {
///     async fn before_save<C: ConnectionTrait>(mut self, _db: &C, _insert: bool) -> Result<Self, DbErr> {
///         self.status = self.status.take().map_or(sea_orm::NotSet, |status: String| sea_orm::Set(status.trim().to_owned()));
///         Ok(self)
///     }
/// }
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no `CaptureBehavior`",
    note = "its declaration says `hooks`: put `#[hare_seaorm::behavior]` above `impl ActiveModelBehavior for ActiveModel`"
)]
#[async_trait::async_trait]
pub trait CaptureBehavior: ActiveModelTrait {
    /// A new active model with the entity's own defaults.
    fn new() -> Self {
        <Self as ActiveModelTrait>::default()
    }

    /// Before an insert or update; may change the model.
    async fn before_save<C>(self, db: &C, insert: bool) -> Result<Self, DbErr>
    where
        C: ConnectionTrait,
    {
        let _ = (db, insert);
        Ok(self)
    }

    /// After an insert or update.
    async fn after_save<C>(
        model: <Self::Entity as EntityTrait>::Model,
        db: &C,
        insert: bool,
    ) -> Result<<Self::Entity as EntityTrait>::Model, DbErr>
    where
        C: ConnectionTrait,
    {
        let _ = (db, insert);
        Ok(model)
    }

    /// Before a delete.
    async fn before_delete<C>(self, db: &C) -> Result<Self, DbErr>
    where
        C: ConnectionTrait,
    {
        let _ = db;
        Ok(self)
    }

    /// After a delete.
    async fn after_delete<C>(self, db: &C) -> Result<Self, DbErr>
    where
        C: ConnectionTrait,
    {
        let _ = db;
        Ok(self)
    }
}
