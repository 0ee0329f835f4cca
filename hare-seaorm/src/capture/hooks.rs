//! Layer 2: what the derive's `ActiveModelBehavior` does, for code that is generic over `ActiveModelTrait`.
//!
//! SeaORM runs a hook, its own statement, and another hook; nothing is shared between the two, and nothing needs to be:
//!
//! - update: the before-hook runs the captured update itself and hands back the row with nothing set, so that SeaORM's own
//!   statement has nothing to do;
//! - insert: the before-hook opens a savepoint, the after-hook has the row, writes its event and ends the savepoint;
//! - delete: the before-hook locks and reads the row and hands it back all `Unchanged`, which is how the after-hook knows it.
//!
//! What a delete's before-hook does not find is not captured, though SeaORM's own statement may still delete a row that another
//! session inserted in between. An update to the values that are there returns, on MySQL, what SeaORM reads afterwards, which is
//! the transaction's snapshot; its event has the row as it is.
//!
//! On a bare pool an insert and a delete cannot be one transaction with their event here: refused, unless the declaration
//! says `on_pool = "non_atomic"`.

use futures_util::future::BoxFuture;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, Iterable,
    TryIntoModel,
};

use super::CaptureBehavior;
use super::bypass::{expect_delete, expect_insert, expect_no_more};
use super::declaration::{CapturedEntity, OnPool, Operation};
use super::engine::{
    self, LockFor, ModelOf, Route, Target, changes_nothing, events_of, locked_row, route, write_events,
};
use super::envelope::{Change, key_of};
use crate::connection::{Conn, Exclusive, Kind};
use crate::error::Error;
use crate::transaction::{Resumed, Savepoint, deliver_signals};

/// How the two halves of a generic insert or delete stay one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Halves {
    /// Not captured here.
    Plain,
    /// In a transaction: a savepoint is held between the hooks.
    Savepoint,
    /// On a bare pool, by the declaration's own wish: nothing holds them together.
    NonAtomic,
}

fn halves<E: CapturedEntity>(conn: Conn<'_>, operation: Operation) -> Result<Halves, Error> {
    if route::<E>(conn, operation)? == Route::Plain {
        return Ok(Halves::Plain);
    }
    let declaration = E::declaration();
    match (conn.kind(), declaration.on_pool) {
        (Kind::Pool(_), OnPool::Refuse) => Err(Error::unsupported(
            format!(
                "a generic {} of `{}` on a pool",
                operation.as_str(),
                declaration.label()
            ),
            "SeaORM runs it as a statement of its own, which cannot be one transaction with its event; run it in a transaction, \
             call the entity's own method, or accept it with `on_pool = \"non_atomic\"` in `#[hare(capture(...))]`",
        )),
        (Kind::Pool(_), OnPool::NonAtomic) => Ok(Halves::NonAtomic),
        _ => Ok(Halves::Savepoint),
    }
}

/// `ActiveModelBehavior::before_save`.
pub async fn before_save<A, C>(active_model: A, db: &C, insert: bool) -> Result<A, DbErr>
where
    A: ActiveModelTrait + CaptureBehavior + Send + 'static,
    A::Entity: CapturedEntity,
    ModelOf<A>: IntoActiveModel<A> + 'static,
    C: ConnectionTrait,
{
    let conn = Conn::new(db);
    if insert {
        let halves = halves::<A::Entity>(conn, Operation::Insert)?;
        let active_model = CaptureBehavior::before_save(active_model, db, true).await?;
        if halves == Halves::Savepoint {
            let exclusive = Exclusive::take(conn).await?;
            Savepoint::open_between_hooks(&exclusive).await?.hand_over();
        }
        if halves != Halves::Plain {
            expect_insert(conn.backend(), &active_model);
        }
        return Ok(active_model);
    }
    let captured = route::<A::Entity>(conn, Operation::Update)? == Route::Captured;
    let active_model = CaptureBehavior::before_save(active_model, db, false).await?;
    if !captured || !active_model.is_update() || changes_nothing(&active_model) {
        return Ok(active_model);
    }
    Ok(engine::update(conn, active_model).await?.into_active_model())
}

/// `ActiveModelBehavior::after_save`.
pub async fn after_save<A, C>(row: ModelOf<A>, db: &C, insert: bool) -> Result<ModelOf<A>, DbErr>
where
    A: ActiveModelTrait + CaptureBehavior + Send + 'static,
    A::Entity: CapturedEntity,
    C: ConnectionTrait,
{
    if insert {
        expect_no_more::<A::Entity>(Operation::Insert);
        let halves = halves::<A::Entity>(Conn::new(db), Operation::Insert)?;
        let telling = tell(Conn::new(db), halves, Change::<A::Entity>::inserted(&row));
        telling.await?;
    }
    <A as CaptureBehavior>::after_save(row, db, insert).await
}

/// `ActiveModelBehavior::before_delete`.
pub async fn before_delete<A, C>(active_model: A, db: &C) -> Result<A, DbErr>
where
    A: ActiveModelTrait + CaptureBehavior + Send + 'static,
    A::Entity: CapturedEntity,
    ModelOf<A>: IntoActiveModel<A> + 'static,
    C: ConnectionTrait,
{
    let conn = Conn::new(db);
    let halves = halves::<A::Entity>(conn, Operation::Delete)?;
    let active_model = CaptureBehavior::before_delete(active_model, db).await?;
    let Some(target) = Target::of(&active_model).filter(|_| halves != Halves::Plain) else {
        return Ok(active_model);
    };
    let active_model = lock_row(conn, halves, &target, active_model).await?;
    expect_delete(conn.backend(), &active_model);
    Ok(active_model)
}

/// The row that a delete is about to remove, all `Unchanged`; nothing is, if there is no row.
async fn lock_row<A>(conn: Conn<'_>, halves: Halves, target: &Target, active_model: A) -> Result<A, DbErr>
where
    A: ActiveModelTrait + Send + 'static,
    A::Entity: CapturedEntity,
    ModelOf<A>: IntoActiveModel<A> + 'static,
{
    if halves == Halves::NonAtomic {
        let found = locked_row::<A::Entity>(conn, target, LockFor::Delete).await?;
        return Ok(found.map_or_else(|| active_model.reset_all(), IntoActiveModel::into_active_model));
    }
    let exclusive = Exclusive::take(conn).await?;
    let savepoint = Savepoint::open_between_hooks(&exclusive).await?;
    match locked_row::<A::Entity>(exclusive.conn(), target, LockFor::Delete).await {
        Ok(Some(row)) => {
            savepoint.hand_over();
            Ok(row.into_active_model())
        }
        // Nothing to capture: no column `Unchanged`, so the after-hook leaves it alone, and no savepoint.
        Ok(None) => {
            savepoint.release().await?;
            Ok(active_model.reset_all())
        }
        Err(error) => Err(savepoint.roll_back(error).await),
    }
}

/// `ActiveModelBehavior::after_delete`.
pub async fn after_delete<A, C>(active_model: A, db: &C) -> Result<A, DbErr>
where
    A: ActiveModelTrait + CaptureBehavior + TryIntoModel<ModelOf<A>> + Send + 'static,
    A::Entity: CapturedEntity,
    C: ConnectionTrait,
{
    expect_no_more::<A::Entity>(Operation::Delete);
    let halves = halves::<A::Entity>(Conn::new(db), Operation::Delete)?;
    let was_read = |column| matches!(active_model.get(column), ActiveValue::Unchanged(_));
    if halves != Halves::Plain && <A::Entity as EntityTrait>::Column::iter().all(was_read) {
        let row = active_model.clone().try_into_model()?;
        let telling = tell(
            Conn::new(db),
            halves,
            Change::<A::Entity>::deleted(key_of(&row), Some(&row)),
        );
        telling.await?;
    }
    CaptureBehavior::after_delete(active_model, db).await
}

/// Writes the event of the statement that SeaORM ran between the hooks, and ends the savepoint held since.
fn tell<'c, E: CapturedEntity>(
    conn: Conn<'c>,
    halves: Halves,
    change: Change<'_, E>,
) -> BoxFuture<'c, Result<(), DbErr>> {
    if halves == Halves::Plain {
        return Box::pin(std::future::ready(Ok(())));
    }
    let events = events_of(&[change]);
    Box::pin(async move {
        if halves == Halves::NonAtomic {
            write_events::<E>(conn, events).await?.send().await;
            return Ok(());
        }
        let resumed = Resumed::take(conn).await?;
        let conn = resumed.conn();
        let savepoint = Savepoint::resume(&resumed);
        let written = async { deliver_signals(conn, write_events::<E>(conn, events).await?).await };
        match written.await {
            Ok(()) => savepoint.release().await,
            Err(cause) => Err(savepoint.roll_back(cause).await),
        }
    })
}
