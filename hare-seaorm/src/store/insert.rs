//! Writing events.

use sea_orm::sea_query::{Expr, ExprTrait, InsertStatement, Query, SimpleExpr};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, DbErr, FromQueryResult, Iterable, QueryFilter, QuerySelect,
    QueryTrait,
};
use uuid::Uuid;

use crate::connection::Conn;
use crate::outbox::OutboxEntity;

/// An event about to be written; everything in it has been checked.
#[derive(Clone, PartialEq)]
pub(crate) struct NewEvent {
    pub(crate) id: Uuid,
    pub(crate) topic: String,
    /// JSON text.
    pub(crate) payload: String,
    /// JSON text of an object.
    pub(crate) headers: String,
    pub(crate) ordering_key: Option<String>,
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

/// What one event binds.
const BINDS_PER_EVENT: usize = 5;

/// The most values one statement may bind: SQLite's limit, the smallest of the three
/// (<https://www.sqlite.org/limits.html>, `SQLITE_MAX_VARIABLE_NUMBER`).
const BIND_LIMIT: usize = 32_766;

/// Adds events, in order. Touches no other row.
pub(crate) async fn insert<O: OutboxEntity>(conn: Conn<'_>, events: &[NewEvent]) -> Result<(), DbErr> {
    for chunk in events.chunks(BIND_LIMIT / BINDS_PER_EVENT) {
        conn.execute(&statement::<O>(conn.backend(), chunk)).await?;
    }
    Ok(())
}

/// Adds one event and gives it back as it is stored.
pub(crate) async fn insert_returning<O: OutboxEntity>(
    conn: Conn<'_>,
    event: &NewEvent,
) -> Result<O::Model, DbErr> {
    let mut insert = statement::<O>(conn.backend(), std::slice::from_ref(event));
    let stored = if conn.returns_rows() {
        let columns =
            O::Column::iter().map(|column| column.select_as(column.into_returning_expr(conn.backend())));
        insert.returning(Query::returning().exprs(columns));
        conn.query_one(&insert).await?
    } else {
        conn.execute(&insert).await?;
        let by_id = O::find()
            .filter(ExprTrait::eq(Expr::col("id"), event.id))
            .limit(1)
            .into_query();
        conn.query_one(&by_id).await?
    };
    let row = stored.ok_or(DbErr::RecordNotInserted)?;
    O::Model::from_query_result(&row, "")
}

fn statement<O: OutboxEntity>(backend: DbBackend, events: &[NewEvent]) -> InsertStatement {
    let mut insert = Query::insert();
    insert.into_table(O::default().table_ref()).columns([
        "id",
        "topic",
        "payload",
        "headers",
        "ordering_key",
    ]);
    for event in events {
        insert.values_panic([
            Expr::val(event.id),
            Expr::val(event.topic.as_str()),
            json(backend, &event.payload),
            json(backend, &event.headers),
            Expr::val(event.ordering_key.as_deref()),
        ]);
    }
    insert
}

/// JSON text as the column's type: PostgreSQL takes no text for a `json` column.
fn json(backend: DbBackend, text: &str) -> SimpleExpr {
    match backend {
        DbBackend::Postgres => Expr::val(text).cast_as("json"),
        _ => Expr::val(text),
    }
}
