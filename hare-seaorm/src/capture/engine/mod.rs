//! The one place that writes rows and their events.
//!
//! Each entry takes an erased connection, decides whether the write is captured there at all, and hands it to a strategy inside
//! a scope ([`atomic`]) that makes row and event one.
//!
//! Invariant: a captured row and its event are written in one scope, or the caller gets an error and neither is left. Upheld in
//! [`atomic`]; tested in `tests/it/capture/atomicity.rs` and `abort.rs`.

mod events;
mod portable;
pub(crate) mod statement;

use futures_util::future::BoxFuture;
use sea_orm::{
    ActiveModelTrait, DbErr, Delete, DeleteResult, EntityTrait, Insert, IntoActiveModel, Iterable,
    PrimaryKeyToColumn, Update, UpdateResult,
};

use super::declaration::{CapturedEntity, Code, Operation};
use crate::connection::{Conn, Kind, check_driver, unknown_connection};
use crate::error::Error;
use crate::outbox::OutboxEntity;
use crate::transaction::atomic;

pub(crate) use events::{events_of, write_events};
pub(crate) use portable::{LockFor, Target, locked_row};

/// The model of an active model.
pub(crate) type ModelOf<A> = <<A as ActiveModelTrait>::Entity as EntityTrait>::Model;

/// What becomes of a write on this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// The declaration leaves the operation out, or the connection is a mock: SeaORM's own statement, and nothing else.
    Plain,
    /// The row and its event.
    Captured,
}

/// Decides before anything is written.
///
/// # Errors
/// [`Error::Unsupported`] for a connection type that nobody registered; [`Error::Config`] if the declaration cannot be followed, the
/// database's driver is not turned on here, or the outbox's wakeup refuses it.
pub(crate) fn route<E: CapturedEntity>(conn: Conn<'_>, operation: Operation) -> Result<Route, Error> {
    let declaration = E::declaration();
    if !declaration.operations.contains(operation) || conn.is_mock() {
        return Ok(Route::Plain);
    }
    if let Some(refusal) = &declaration.refusal {
        return Err(refusal.clone().into());
    }
    if let Kind::Unknown(type_name) = conn.kind() {
        return Err(unknown_connection(type_name));
    }
    check_driver(conn.backend())?;
    if declaration.code != Code::Sink
        && let Some(wakeup) = E::Outbox::wakeup()
    {
        wakeup.check(conn.backend())?;
    }
    Ok(Route::Captured)
}

/// Whether an update would write nothing: SeaORM then sends no UPDATE, and there is no change to tell of.
pub(crate) fn changes_nothing<A: ActiveModelTrait>(active_model: &A) -> bool {
    <A::Entity as EntityTrait>::Column::iter().all(|column| {
        <A::Entity as EntityTrait>::PrimaryKey::from_column(column).is_some()
            || !active_model.get(column).is_set()
    })
}

/// Inserts a row and gives it back as it is stored.
pub(crate) fn insert<'a, A>(conn: Conn<'a>, active_model: A) -> BoxFuture<'a, Result<ModelOf<A>, DbErr>>
where
    A: ActiveModelTrait + Send + 'static,
    A::Entity: CapturedEntity,
    ModelOf<A>: IntoActiveModel<A> + 'static,
{
    Box::pin(async move {
        match route::<A::Entity>(conn, Operation::Insert)? {
            Route::Plain => Insert::one(active_model).exec_with_returning(&conn).await,
            Route::Captured => atomic(conn, move |conn| Box::pin(portable::insert(conn, active_model))).await,
        }
    })
}

/// Updates a row by its primary key and gives it back as it is stored.
pub(crate) fn update<'a, A>(conn: Conn<'a>, active_model: A) -> BoxFuture<'a, Result<ModelOf<A>, DbErr>>
where
    A: ActiveModelTrait + Send + 'static,
    A::Entity: CapturedEntity,
    ModelOf<A>: IntoActiveModel<A> + 'static,
{
    Box::pin(async move {
        let update = Update::one(active_model.clone()).validate()?;
        if route::<A::Entity>(conn, Operation::Update)? == Route::Plain || changes_nothing(&active_model) {
            return update.exec(&conn).await;
        }
        let update = portable::Update::of(&active_model, update)?;
        atomic(conn, move |conn| Box::pin(update.run::<A::Entity>(conn))).await
    })
}

/// Updates a row by its primary key.
pub(crate) fn update_without_returning<'a, A>(
    conn: Conn<'a>,
    active_model: A,
) -> BoxFuture<'a, Result<UpdateResult, DbErr>>
where
    A: ActiveModelTrait + Send + 'static,
    A::Entity: CapturedEntity,
{
    Box::pin(async move {
        let update = Update::one(active_model.clone()).validate()?;
        if route::<A::Entity>(conn, Operation::Update)? == Route::Plain || changes_nothing(&active_model) {
            return update.exec_without_returning(&conn).await;
        }
        let update = portable::Update::of(&active_model, update)?;
        atomic(conn, move |conn| {
            Box::pin(update.run_without_returning::<A::Entity>(conn))
        })
        .await
    })
}

/// Deletes a row by its primary key.
pub(crate) fn delete<'a, A>(conn: Conn<'a>, active_model: A) -> BoxFuture<'a, Result<DeleteResult, DbErr>>
where
    A: ActiveModelTrait + Send + 'static,
    A::Entity: CapturedEntity,
{
    Box::pin(async move {
        let delete = Delete::one::<A::Entity, A, A>(active_model.clone()).validate()?;
        match route::<A::Entity>(conn, Operation::Delete)? {
            Route::Plain => delete.exec(&conn).await,
            Route::Captured => {
                let delete = portable::Delete::of(&active_model, delete)?;
                atomic(conn, move |conn| Box::pin(delete.run::<A::Entity>(conn))).await
            }
        }
    })
}
