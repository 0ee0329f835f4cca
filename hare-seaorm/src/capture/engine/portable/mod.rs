//! Read, write, read, insert the events: the strategy that works the same on every database.
//!
//! Each write reads no more than its payload mode needs, and every image comes from the row, never from the model in memory.

mod delete;
mod insert;
mod update;

use sea_orm::sea_query::{Expr, IntoValueTuple, LockType, Query, ReturningClause};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, ConnectionTrait, DbBackend, DbErr, EntityName, EntityTrait,
    IdenStatic, Iterable, PrimaryKeyToColumn, PrimaryKeyTrait, QueryFilter, QueryResult, QuerySelect,
    QueryTrait, Select, TryGetableMany, Value,
};

use crate::capture::declaration::{CapturedEntity, Code};
use crate::connection::Conn;

pub(crate) use delete::Delete;
pub(crate) use insert::insert;
pub(crate) use update::Update;

/// The row that a write aims at, by its primary key.
///
/// Taken from the active model once, before the first await: neither models nor active models need to be `Sync`. The key as the
/// caller wrote it finds the row; what an event says is the key as it is stored, or one row's events would have two keys.
#[derive(Debug, Clone)]
pub(crate) struct Target(Condition);

impl Target {
    /// `None` if a part of the primary key is not set.
    pub(crate) fn of<A: ActiveModelTrait>(active_model: &A) -> Option<Self> {
        let mut condition = Condition::all();
        for key in <A::Entity as EntityTrait>::PrimaryKey::iter() {
            let column = key.into_column();
            condition = condition.add(column.eq(active_model.get(column).into_value()?));
        }
        Some(Self(condition))
    }
}

/// Why a row is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockFor {
    /// Its key stays: rows that refer to it need not wait.
    Update,
    /// It goes away.
    Delete,
}

/// Reads the row as it is now, and locks it until the transaction ends.
pub(crate) async fn locked_row<E: CapturedEntity>(
    conn: Conn<'_>,
    target: &Target,
    lock_for: LockFor,
) -> Result<Option<E::Model>, DbErr> {
    locking::<E>(conn, target.0.clone(), lock_for)
        .await?
        .one(&conn)
        .await
}

/// The stored primary key of the row, which is locked until the transaction ends.
async fn locked_key<E: CapturedEntity>(
    conn: Conn<'_>,
    target: &Target,
    lock_for: LockFor,
) -> Result<Option<Vec<Value>>, DbErr> {
    let select = locking::<E>(conn, target.0.clone(), lock_for).await?;
    let key_only = select
        .select_only()
        .columns(E::PrimaryKey::iter().map(PrimaryKeyToColumn::into_column))
        .into_query();
    let row = conn.query_one(&key_only).await?;
    row.map(|row| key_in::<E>(&row)).transpose()
}

/// A SELECT of the rows that meet a condition, which locks them until the transaction ends.
///
/// A deferred SQLite transaction is made a writing one before it reads, by a statement that touches no row: read
/// first and made a writing one later, it would fail as busy whenever another wrote in between.
pub(crate) async fn locking<E: CapturedEntity>(
    conn: Conn<'_>,
    condition: Condition,
    lock_for: LockFor,
) -> Result<Select<E>, DbErr> {
    let select = E::find().filter(condition);
    Ok(match (conn.backend(), lock_for) {
        (DbBackend::Postgres, LockFor::Update) => select.lock(LockType::NoKeyUpdate),
        (DbBackend::Postgres | DbBackend::MySql, _) => select.lock_exclusive(),
        _ => {
            if conn.may_be_deferred() {
                // With a sink there may be no outbox.
                let table = match E::declaration().code {
                    Code::Sink => E::default().table_ref(),
                    _ => E::Outbox::default().table_ref(),
                };
                let touches_nothing = Query::delete()
                    .from_table(table)
                    .and_where(Expr::cust("1 = 0"))
                    .take();
                conn.execute(&touches_nothing).await?;
            }
            select
        }
    })
}

/// The primary key's values in a row that holds its columns, in their order.
pub(crate) fn key_in<E: EntityTrait>(row: &QueryResult) -> Result<Vec<Value>, DbErr> {
    let columns: Vec<String> = E::PrimaryKey::iter().map(|key| key.as_str().to_owned()).collect();
    let key = <E::PrimaryKey as PrimaryKeyTrait>::ValueType::try_get_many(row, "", &columns)?;
    Ok(key.into_value_tuple().into_iter().collect())
}

/// `RETURNING` with the primary key.
pub(crate) fn returning_key<E: EntityTrait>(backend: DbBackend) -> ReturningClause {
    let columns = E::PrimaryKey::iter().map(PrimaryKeyToColumn::into_column);
    Query::returning().exprs(columns.map(|column| column.select_as(column.into_returning_expr(backend))))
}

/// `RETURNING` with every column of an entity, each in the form that its model reads.
pub(crate) fn returning_row<E: EntityTrait>(backend: DbBackend) -> ReturningClause {
    Query::returning()
        .exprs(E::Column::iter().map(|column| column.select_as(column.into_returning_expr(backend))))
}
