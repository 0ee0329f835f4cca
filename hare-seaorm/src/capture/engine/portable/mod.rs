//! Read, write, read, insert the events: the strategy that works the same on every database.
//!
//! Each write reads no more than its payload mode needs, and every image comes from the row, never from the model in memory.

mod delete;
mod insert;
mod update;

use sea_orm::sea_query::{Expr, LockType, Query, ReturningClause};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, ConnectionTrait, DbBackend, DbErr, EntityName, EntityTrait,
    Iterable, PrimaryKeyToColumn, QueryFilter, QuerySelect, Value,
};

use crate::capture::declaration::CapturedEntity;
use crate::connection::Conn;

pub(crate) use delete::Delete;
pub(crate) use insert::insert;
pub(crate) use update::Update;

/// The row that a write aims at, by its primary key.
///
/// Taken from the active model once, before the first await: neither models nor active models need to be `Sync`.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The primary key's values, in the order of its columns.
    pub(crate) key: Vec<Value>,
    condition: Condition,
}

impl Target {
    /// `None` if a part of the primary key is not set.
    pub(crate) fn of<A: ActiveModelTrait>(active_model: &A) -> Option<Self> {
        let mut target = Self {
            key: Vec::new(),
            condition: Condition::all(),
        };
        for key in <A::Entity as EntityTrait>::PrimaryKey::iter() {
            let column = key.into_column();
            let value = active_model.get(column).into_value()?;
            target.condition = target.condition.add(column.eq(value.clone()));
            target.key.push(value);
        }
        Some(target)
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
///
/// A deferred SQLite transaction is made a writing one before it reads, by a statement on the outbox that touches no row: read
/// first and made a writing one later, it would fail as busy whenever another wrote in between.
pub(crate) async fn locked_row<E: CapturedEntity>(
    conn: Conn<'_>,
    target: &Target,
    lock_for: LockFor,
) -> Result<Option<E::Model>, DbErr> {
    let mut select = E::find().filter(target.condition.clone());
    match (conn.backend(), lock_for) {
        (DbBackend::Postgres, LockFor::Update) => select = select.lock(LockType::NoKeyUpdate),
        (DbBackend::Postgres | DbBackend::MySql, _) => select = select.lock_exclusive(),
        _ => {
            let touches_nothing = Query::delete()
                .from_table(E::Outbox::default().table_ref())
                .and_where(Expr::cust("1 = 0"))
                .take();
            conn.execute(&touches_nothing).await?;
        }
    }
    select.one(&conn).await
}

/// `RETURNING` with every column of an entity, each in the form that its model reads.
fn returning_row<E: EntityTrait>(backend: DbBackend) -> ReturningClause {
    Query::returning()
        .exprs(E::Column::iter().map(|column| column.select_as(column.into_returning_expr(backend))))
}
