//! Rows by their primary keys: told in a condition, locked, read.

use std::collections::HashMap;

use sea_orm::sea_query::{Expr, ExprTrait, Order, SelectStatement};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbErr, EntityTrait, FromQueryResult, Iterable,
    PrimaryKeyToColumn, QueryFilter, QueryOrder, QueryResult, QuerySelect, QueryTrait, Select, Value,
};

use super::anatomy::{Aim, Rendered};
use crate::capture::declaration::CapturedEntity;
use crate::capture::engine::portable::{LockFor, key_in, locking};
use crate::capture::envelope::key_of;
use crate::connection::Conn;

/// The most rows that are held, or told by their keys, at once.
pub(crate) const CHUNK: usize = 5_000;

/// The values of a primary key, in the order of its columns.
pub(crate) type Key = Vec<Value>;

/// A row as an event needs it: whole, or its key alone.
#[derive(Debug)]
pub(crate) enum Seen<E: EntityTrait> {
    Row(E::Model),
    Key(Key),
}

impl<E: EntityTrait> Seen<E> {
    pub(crate) fn read(row: &QueryResult, whole: bool) -> Result<Self, DbErr> {
        Ok(if whole {
            Self::Row(E::Model::from_query_result(row, "")?)
        } else {
            Self::Key(key_in::<E>(row)?)
        })
    }

    pub(crate) fn key(&self) -> Key {
        match self {
            Self::Row(row) => key_of(row),
            Self::Key(key) => key.clone(),
        }
    }

    pub(crate) fn row(&self) -> Option<&E::Model> {
        match self {
            Self::Row(row) => Some(row),
            Self::Key(_) => None,
        }
    }
}

/// As many keys as one statement may bind.
pub(crate) fn chunk_of<E: EntityTrait>() -> usize {
    let columns = E::PrimaryKey::iter().count().max(1);
    CHUNK.min(crate::store::insert::BIND_LIMIT / columns)
}

fn key_columns<E: EntityTrait>() -> Vec<E::Column> {
    E::PrimaryKey::iter()
        .map(PrimaryKeyToColumn::into_column)
        .collect()
}

fn values_of<E: EntityTrait>(key: &[Value]) -> Vec<Expr> {
    let columns = key_columns::<E>().into_iter().zip(key);
    columns
        .map(|(column, value)| column.save_as(Expr::val(value.clone())))
        .collect()
}

/// That a row has one of these keys.
pub(crate) fn is_one_of<E: EntityTrait>(keys: &[Key]) -> Condition {
    let columns = key_columns::<E>();
    let told = match columns.as_slice() {
        [column] => Expr::col(column.as_column_ref()).is_in(keys.iter().flat_map(|key| values_of::<E>(key))),
        _ => Expr::tuple(columns.iter().map(|column| Expr::col(column.as_column_ref())))
            .is_in(keys.iter().map(|key| Expr::tuple(values_of::<E>(key)))),
    };
    Condition::all().add(told)
}

/// That a row comes after this key, in the order of keys.
fn comes_after<E: EntityTrait>(key: &[Value]) -> Expr {
    let columns = key_columns::<E>();
    match (columns.as_slice(), values_of::<E>(key).as_slice()) {
        ([column], [value]) => Expr::col(column.as_column_ref()).gt(value.clone()),
        (columns, values) => Expr::tuple(columns.iter().map(|column| Expr::col(column.as_column_ref())))
            .gt(Expr::tuple(values.iter().cloned())),
    }
}

/// A SELECT of every column, or of the key's alone.
pub(super) fn columns_of<E: EntityTrait>(select: Select<E>, whole: bool) -> SelectStatement {
    if whole {
        return select.into_query();
    }
    select.select_only().columns(key_columns::<E>()).into_query()
}

/// Reads the rows of these keys, which are at most a chunk, by their keys. Locks them, unless they are the transaction's own
/// writing anyway.
pub(crate) async fn by_keys<E: CapturedEntity>(
    conn: Conn<'_>,
    keys: &[Key],
    whole: bool,
    lock_for: Option<LockFor>,
) -> Result<HashMap<Key, Seen<E>>, DbErr> {
    let select = match lock_for {
        Some(lock_for) => locking::<E>(conn, is_one_of::<E>(keys), lock_for).await?,
        None => E::find().filter(is_one_of::<E>(keys)),
    };
    let rows = conn.query_all(&columns_of(select, whole)).await?;
    rows.iter()
        .map(|row| Seen::read(row, whole).map(|seen: Seen<E>| (seen.key(), seen)))
        .collect()
}

/// The rows that a statement aims at, locked.
#[derive(Debug)]
pub(crate) enum Found<E: EntityTrait> {
    /// At most a chunk of them, as they are.
    Few(Vec<Seen<E>>),
    /// More: their keys.
    Many(Vec<Key>),
}

/// Locks every row that is aimed at, before any is written: what is written could change which rows those are.
///
/// They are locked in the order of their keys, so that two statements on the same rows wait for each other and do not deadlock;
/// on MySQL with an `ORDER BY` or a `LIMIT` of the statement's own, in that one.
pub(crate) async fn find<E: CapturedEntity>(
    conn: Conn<'_>,
    aim: &Aim,
    whole: bool,
    lock_for: LockFor,
) -> Result<Found<E>, DbErr> {
    let chunk = chunk_of::<E>();
    if aim.order.is_some() || aim.limit.is_some() {
        let select = locking::<E>(conn, Condition::all().add(ordered(aim, conn)), lock_for).await?;
        let rows = conn.query_all(&columns_of(select, whole)).await?;
        let seen = rows
            .iter()
            .map(|row| Seen::read(row, whole))
            .collect::<Result<Vec<Seen<E>>, _>>()?;
        return Ok(if seen.len() <= chunk {
            Found::Few(seen)
        } else {
            Found::Many(seen.iter().map(Seen::key).collect())
        });
    }
    let few = page::<E>(conn, aim, None, chunk + 1, whole, lock_for).await?;
    if few.len() <= chunk {
        return Ok(Found::Few(few));
    }
    let mut keys: Vec<Key> = few.iter().map(Seen::key).collect();
    drop(few);
    loop {
        let last = keys.last().cloned();
        let next = page::<E>(conn, aim, last.as_deref(), chunk, false, lock_for).await?;
        let is_last = next.len() < chunk;
        keys.extend(next.iter().map(Seen::key));
        if is_last {
            return Ok(Found::Many(keys));
        }
    }
}

async fn page<E: CapturedEntity>(
    conn: Conn<'_>,
    aim: &Aim,
    after: Option<&[Value]>,
    most: usize,
    whole: bool,
    lock_for: LockFor,
) -> Result<Vec<Seen<E>>, DbErr> {
    let mut condition = Condition::all();
    if let Some(own) = &aim.condition {
        condition = condition.add(own.clone().in_brackets().into_expr(conn.backend()));
    }
    if let Some(after) = after {
        condition = condition.add(comes_after::<E>(after));
    }
    let mut select = locking::<E>(conn, condition, lock_for).await?.limit(most as u64);
    for column in key_columns::<E>() {
        select = select.order_by(column, Order::Asc);
    }
    let rows = conn.query_all(&columns_of(select, whole)).await?;
    rows.iter().map(|row| Seen::read(row, whole)).collect()
}

/// The condition of an aim with what follows it, in the place of a condition.
fn ordered(aim: &Aim, conn: Conn<'_>) -> Expr {
    let condition = match &aim.condition {
        Some(condition) => condition.clone().in_brackets(),
        None => Rendered::from_text("TRUE"),
    };
    let more = [&aim.order, &aim.limit].into_iter().flatten().cloned();
    more.fold(condition, |text, more| {
        text.followed_by(Rendered::from_text(" ")).followed_by(more)
    })
    .into_expr(conn.backend())
}
