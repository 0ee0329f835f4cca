//! Writing events.
//!
//! Invariant: events are given their sequences in the order in which they are handed over. Each statement's rows are numbered in
//! the order of its `VALUES`, and statements run one after the other.

use std::collections::HashMap;

use sea_orm::prelude::DateTimeUtc;
use sea_orm::sea_query::{Expr, ExprTrait, InsertStatement, OnConflict, Query, SimpleExpr};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, DbErr, FromQueryResult, Iterable, QueryFilter, QueryTrait,
    SqlErr, Value,
};
use uuid::Uuid;

use super::clock::time_value;
use crate::connection::Conn;
use crate::outbox::{OutboxEntity, OutboxEvent};

/// An event about to be written; everything in it has been checked.
#[derive(Clone, Default)]
pub(crate) struct NewEvent {
    pub(crate) id: Uuid,
    pub(crate) topic: String,
    /// JSON text.
    pub(crate) payload: String,
    /// JSON text of an object.
    pub(crate) headers: String,
    pub(crate) ordering_key: Option<String>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) not_before: Option<DateTimeUtc>,
    pub(crate) max_attempts: Option<i32>,
    /// Columns that the outbox has beside the library's.
    pub(crate) own: Vec<OwnValue>,
}

/// The value of a column that an outbox has beside the library's.
#[derive(Debug, Clone)]
pub(crate) struct OwnValue {
    pub(crate) column: &'static str,
    pub(crate) value: Value,
    /// The value as the column takes it: cast to its enum type, for one.
    pub(crate) expr: SimpleExpr,
    /// Whether it is of the type of the column's field.
    pub(crate) fits: bool,
}

impl std::fmt::Debug for NewEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewEvent")
            .field("id", &self.id)
            .field("topic", &self.topic)
            .field("payload", &"[redacted]")
            .finish_non_exhaustive()
    }
}

impl NewEvent {
    /// Whether both can be written by one statement: with an idempotency key or without, and with the same own columns (one that
    /// is left out has the table's default, which is not null).
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        self.idempotency_key.is_some() == other.idempotency_key.is_some()
            && self.own_columns().eq(other.own_columns())
    }

    fn own_columns(&self) -> impl Iterator<Item = &'static str> {
        self.own.iter().map(|own| own.column)
    }
}

/// The most values one statement may bind: SQLite's limit, the smallest of the three
/// (<https://www.sqlite.org/limits.html>, `SQLITE_MAX_VARIABLE_NUMBER`).
pub(crate) const BIND_LIMIT: usize = 32_766;

/// Adds events that are alike, in order. Touches no other row.
pub(crate) async fn insert<O: OutboxEntity>(conn: Conn<'_>, events: &[NewEvent]) -> Result<(), DbErr> {
    for chunk in chunks(events) {
        conn.execute(&statement::<O>(conn.backend(), chunk)).await?;
    }
    Ok(())
}

/// Adds events that are alike, in order, and gives them back as they are stored, by their id. Touches no other row.
pub(crate) async fn insert_returning<O: OutboxEntity>(
    conn: Conn<'_>,
    events: &[NewEvent],
) -> Result<HashMap<Uuid, O::Model>, DbErr> {
    let mut stored = HashMap::with_capacity(events.len());
    for chunk in chunks(events) {
        let insert = statement::<O>(conn.backend(), chunk);
        stored.extend(run::<O>(conn, insert, chunk).await?);
    }
    Ok(stored)
}

/// What an insert of events with idempotency keys came to.
#[derive(Debug)]
pub(crate) struct InsertedNew<M> {
    /// Those that were written, by their id.
    pub(crate) new: HashMap<Uuid, M>,
    /// What the database said of those that were not, where it says anything.
    pub(crate) refused: HashMap<Uuid, DbErr>,
}

/// Adds those of the events, all alike, whose idempotency keys are new, in order. Touches no other row, and waits for another
/// transaction that is writing one of the keys.
pub(crate) async fn insert_new<O: OutboxEntity>(
    conn: Conn<'_>,
    events: &[NewEvent],
) -> Result<InsertedNew<O::Model>, DbErr> {
    if conn.backend() == DbBackend::MySql {
        return insert_new_by_halves::<O>(conn, events).await;
    }
    let mut new = HashMap::with_capacity(events.len());
    for chunk in chunks(events) {
        let insert = skipping_conflicts::<O>(statement::<O>(conn.backend(), chunk));
        new.extend(run::<O>(conn, insert, chunk).await?);
    }
    Ok(InsertedNew {
        new,
        refused: HashMap::new(),
    })
}

/// MySQL can ignore a conflict only on every unique key alike. So all are tried in one statement, and when that meets a key it
/// knows (the statement is undone, the transaction goes on), its halves are, in order, down to the events that are refused.
async fn insert_new_by_halves<O: OutboxEntity>(
    conn: Conn<'_>,
    events: &[NewEvent],
) -> Result<InsertedNew<O::Model>, DbErr> {
    let mut inserted = InsertedNew {
        new: HashMap::with_capacity(events.len()),
        refused: HashMap::new(),
    };
    let mut parts: Vec<&[NewEvent]> = chunks(events).collect();
    parts.reverse();
    while let Some(part) = parts.pop() {
        match run::<O>(conn, statement::<O>(conn.backend(), part), part).await {
            Ok(new) => inserted.new.extend(new),
            Err(error) if !matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))) => {
                return Err(error);
            }
            Err(error) => match part {
                [event] => drop(inserted.refused.insert(event.id, error)),
                _ => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
            },
        }
    }
    Ok(inserted)
}

/// The most text of one statement. MariaDB takes no more than 16 MiB by default, and ends the connection
/// (<https://mariadb.com/docs/server/server-management/variables-and-modes/server-system-variables#max_allowed_packet>).
const TEXT_LIMIT: usize = 4 * 1024 * 1024;

/// As many at once as one statement can bind and hold, in order.
fn chunks(events: &[NewEvent]) -> impl Iterator<Item = &[NewEvent]> {
    const LIBRARY_COLUMNS: usize = 8;
    let binds = LIBRARY_COLUMNS + events.first().map_or(0, |event| event.own.len());
    let most = (BIND_LIMIT / binds).max(1);
    let text = |event: &NewEvent| event.payload.len() + event.headers.len();
    let (mut rows, mut length) = (0, 0);
    events.chunk_by(move |event, next| {
        if rows == 0 {
            (rows, length) = (1, text(event));
        }
        rows += 1;
        length += text(next);
        let fits = rows <= most && length <= TEXT_LIMIT;
        if !fits {
            rows = 0;
        }
        fits
    })
}

/// Runs an insert of `events` and gives what it added, by id.
///
/// SQLite's RETURNING needs no feature of SeaORM's here: the library asks for a version that has it.
async fn run<O: OutboxEntity>(
    conn: Conn<'_>,
    mut insert: InsertStatement,
    events: &[NewEvent],
) -> Result<HashMap<Uuid, O::Model>, DbErr> {
    let rows = if conn.backend() == DbBackend::MySql {
        conn.execute(&insert).await?;
        let by_id = O::find()
            .filter(Expr::col("id").is_in(events.iter().map(|event| event.id)))
            .into_query();
        conn.query_all(&by_id).await?
    } else {
        let columns =
            O::Column::iter().map(|column| column.select_as(column.into_returning_expr(conn.backend())));
        insert.returning(Query::returning().exprs(columns));
        conn.query_all(&insert).await?
    };
    rows.iter()
        .map(|row| O::Model::from_query_result(row, "").map(|event| (event.id(), event)))
        .collect()
}

/// The columns of a statement: those that every event has, and those that one of these needs.
fn statement<O: OutboxEntity>(backend: DbBackend, events: &[NewEvent]) -> InsertStatement {
    let is_keyed = events.iter().any(|event| event.idempotency_key.is_some());
    let is_delayed = events.iter().any(|event| event.not_before.is_some());
    let is_limited = events.iter().any(|event| event.max_attempts.is_some());
    let mut columns = vec!["id", "topic", "payload", "headers", "ordering_key"];
    columns.extend(is_keyed.then_some("idempotency_key"));
    columns.extend(is_delayed.then_some("next_attempt_at"));
    columns.extend(is_limited.then_some("max_attempts"));
    columns.extend(events.first().into_iter().flat_map(NewEvent::own_columns));

    let mut insert = Query::insert();
    insert.into_table(O::default().table_ref()).columns(columns);
    for event in events {
        let mut values = vec![
            Expr::val(event.id),
            Expr::val(event.topic.as_str()),
            json(backend, &event.payload),
            json(backend, &event.headers),
            Expr::val(event.ordering_key.as_deref()),
        ];
        values.extend(is_keyed.then(|| Expr::val(event.idempotency_key.as_deref())));
        values.extend(is_delayed.then(|| Expr::val(time_value(backend, event.not_before))));
        values.extend(is_limited.then(|| Expr::val(event.max_attempts)));
        values.extend(event.own.iter().map(|own| own.expr.clone()));
        insert.values_panic(values);
    }
    insert
}

/// Leaves out events whose idempotency keys are taken, and no others.
fn skipping_conflicts<O: OutboxEntity>(mut insert: InsertStatement) -> InsertStatement {
    let conflict = OnConflict::columns(O::conflict_columns()).do_nothing().to_owned();
    insert.on_conflict(conflict).to_owned()
}

/// JSON text as the column's type: PostgreSQL takes no text for a `json` column.
fn json(backend: DbBackend, text: &str) -> SimpleExpr {
    match backend {
        DbBackend::Postgres => Expr::val(text).cast_as("json"),
        _ => Expr::val(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox;

    fn every_statement(backend: DbBackend) -> String {
        let plain = NewEvent::default();
        let whole = NewEvent {
            idempotency_key: Some("k".to_owned()),
            not_before: Some(DateTimeUtc::UNIX_EPOCH),
            max_attempts: Some(3),
            own: vec![OwnValue {
                column: "tenant_id",
                value: Value::from(7),
                expr: Expr::val(7),
                fits: true,
            }],
            ..NewEvent::default()
        };
        let whole = statement::<outbox::Entity>(backend, &[whole]);
        let mut statements = vec![
            statement::<outbox::Entity>(backend, &[plain.clone(), plain]),
            whole.clone(),
        ];
        if backend != DbBackend::MySql {
            statements.push(skipping_conflicts::<outbox::Entity>(whole));
        }
        let texts: Vec<_> = statements
            .iter()
            .map(|statement| backend.build(statement).sql)
            .collect();
        texts.join("\n\n")
    }

    #[test]
    fn reviewed_sql_postgres() {
        insta::assert_snapshot!(every_statement(DbBackend::Postgres));
    }

    #[test]
    fn reviewed_sql_mysql() {
        insta::assert_snapshot!(every_statement(DbBackend::MySql));
    }

    #[test]
    fn reviewed_sql_sqlite() {
        insta::assert_snapshot!(every_statement(DbBackend::Sqlite));
    }
}
