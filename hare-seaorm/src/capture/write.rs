//! Layer 1: the writes that the derive's inherent methods hand over. The user's hooks run here, around the engine.
//!
//! The hooks get the caller's own connection and run outside the savepoint, as they would under SeaORM: an error in
//! `after_save` leaves the row, and its event.

use futures_util::future::BoxFuture;
use sea_orm::{ActiveModelTrait, ConnectionTrait, DbErr, DeleteResult, IntoActiveModel, UpdateResult};

use super::engine::{self, ModelOf};
use super::{CaptureBehavior, CapturedEntity};
use crate::connection::Conn;

/// `ActiveModel::insert`.
pub fn insert<'a, A, C>(active_model: A, db: &'a C) -> BoxFuture<'a, Result<ModelOf<A>, DbErr>>
where
    A: ActiveModelTrait + CaptureBehavior + Send + 'static,
    A::Entity: CapturedEntity,
    ModelOf<A>: IntoActiveModel<A> + 'static,
    C: ConnectionTrait,
{
    Box::pin(async move {
        let active_model = CaptureBehavior::before_save(active_model, db, true).await?;
        let row = engine::insert(Conn::new(db), active_model).await?;
        <A as CaptureBehavior>::after_save(row, db, true).await
    })
}

/// `ActiveModel::update`.
pub fn update<'a, A, C>(active_model: A, db: &'a C) -> BoxFuture<'a, Result<ModelOf<A>, DbErr>>
where
    A: ActiveModelTrait + CaptureBehavior + Send + 'static,
    A::Entity: CapturedEntity,
    ModelOf<A>: IntoActiveModel<A> + 'static,
    C: ConnectionTrait,
{
    Box::pin(async move {
        let active_model = CaptureBehavior::before_save(active_model, db, false).await?;
        let row = engine::update(Conn::new(db), active_model).await?;
        <A as CaptureBehavior>::after_save(row, db, false).await
    })
}

/// `ActiveModel::update_without_returning`: like SeaORM's, it runs no `after_save`.
pub fn update_without_returning<'a, A, C>(
    active_model: A,
    db: &'a C,
) -> BoxFuture<'a, Result<UpdateResult, DbErr>>
where
    A: ActiveModelTrait + CaptureBehavior + Send + 'static,
    A::Entity: CapturedEntity,
    C: ConnectionTrait,
{
    Box::pin(async move {
        let active_model = CaptureBehavior::before_save(active_model, db, false).await?;
        engine::update_without_returning(Conn::new(db), active_model).await
    })
}

/// `ActiveModel::save`: an insert while the primary key is not set, else an update.
pub fn save<'a, A, C>(active_model: A, db: &'a C) -> BoxFuture<'a, Result<A, DbErr>>
where
    A: ActiveModelTrait + CaptureBehavior + Send + 'static,
    A::Entity: CapturedEntity,
    ModelOf<A>: IntoActiveModel<A> + 'static,
    C: ConnectionTrait,
{
    let saved = if active_model.is_update() {
        update(active_model, db)
    } else {
        insert(active_model, db)
    };
    Box::pin(async move { Ok(saved.await?.into_active_model()) })
}

/// `ActiveModel::delete` and `Model::delete`.
pub fn delete<'a, A, C>(active_model: A, db: &'a C) -> BoxFuture<'a, Result<DeleteResult, DbErr>>
where
    A: ActiveModelTrait + CaptureBehavior + Send + 'static,
    A::Entity: CapturedEntity,
    C: ConnectionTrait,
{
    Box::pin(async move {
        let active_model = CaptureBehavior::before_delete(active_model, db).await?;
        let result = engine::delete(Conn::new(db), active_model.clone()).await?;
        CaptureBehavior::after_delete(active_model, db).await?;
        Ok(result)
    })
}
