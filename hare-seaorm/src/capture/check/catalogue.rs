//! What the database's catalogue says of a table. Each function is one statement; none touches a row.
//!
//! A table without a schema is the one that a statement with that name would find.

use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement, Value};

use crate::capture::registry::TableName;
use crate::connection::Conn;

/// An index as the database has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// Its columns in order; `None` for an expression, or the beginning of a column.
    pub(super) columns: Vec<Option<String>>,
    pub(super) is_unique: bool,
    pub(super) is_partial: bool,
}

/// The columns of a table or view; none, if there is no such table.
pub(super) async fn columns(conn: Conn<'_>, table: &TableName) -> Result<Vec<String>, DbErr> {
    let sql = match conn.backend() {
        DbBackend::Postgres => {
            "SELECT a.attname::text FROM pg_catalog.pg_attribute a \
             JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relname = $1 AND c.relkind IN ('r', 'p', 'v', 'f') AND a.attnum > 0 AND NOT a.attisdropped \
             AND CASE WHEN $2::text IS NULL THEN pg_catalog.pg_table_is_visible(c.oid) ELSE n.nspname = $2 END \
             ORDER BY a.attnum"
        }
        DbBackend::MySql => {
            "SELECT column_name FROM information_schema.columns \
             WHERE table_name = ? AND table_schema = COALESCE(?, DATABASE()) ORDER BY ordinal_position"
        }
        // `xinfo` lists generated columns too.
        _ => "SELECT name FROM pragma_table_xinfo(?1, ?2) ORDER BY cid",
    };
    let rows = conn.query_all_raw(about(conn, sql, table)).await?;
    rows.iter().map(|row| row.try_get_by_index(0)).collect()
}

/// Whether a SQLite connection has this database attached. To ask for what is in another one is an error.
pub(super) async fn sqlite_has_database(conn: Conn<'_>, name: &str) -> Result<bool, DbErr> {
    let sql = "SELECT COUNT(*) FROM pragma_database_list WHERE name = ?1 COLLATE NOCASE";
    let statement = Statement::from_sql_and_values(conn.backend(), sql, [name.into()]);
    let row = conn.query_one_raw(statement).await?;
    row.map_or(Ok(false), |row| Ok(row.try_get_by_index::<i64>(0)? > 0))
}

/// The indexes of a table, that of its primary key among them where the database lists it.
pub(super) async fn indexes(conn: Conn<'_>, table: &TableName) -> Result<Vec<Index>, DbErr> {
    let sql = match conn.backend() {
        DbBackend::Postgres => {
            "SELECT i.indexrelid::bigint::text, a.attname::text, i.indisunique, i.indpred IS NOT NULL \
             FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place) \
             LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.attnum > 0 \
             WHERE c.relname = $1 AND i.indisvalid AND k.place <= i.indnkeyatts \
             AND CASE WHEN $2::text IS NULL THEN pg_catalog.pg_table_is_visible(c.oid) ELSE n.nspname = $2 END \
             ORDER BY i.indexrelid, k.place"
        }
        DbBackend::MySql => {
            "SELECT index_name, CASE WHEN sub_part IS NULL THEN column_name END, non_unique = 0, FALSE \
             FROM information_schema.statistics WHERE table_name = ? AND table_schema = COALESCE(?, DATABASE()) \
             ORDER BY index_name, seq_in_index"
        }
        _ => {
            "SELECT l.name, i.name, l.\"unique\", l.partial FROM pragma_index_list(?1, ?2) l \
             JOIN pragma_index_info(l.name, ?2) i ORDER BY l.name, i.seqno"
        }
    };
    let rows = conn.query_all_raw(about(conn, sql, table)).await?;
    let mut indexes: Vec<(String, Index)> = Vec::new();
    for row in &rows {
        let name: String = row.try_get_by_index(0)?;
        if indexes.last().is_none_or(|(last, _)| *last != name) {
            let index = Index {
                columns: Vec::new(),
                is_unique: flag(row, 2)?,
                is_partial: flag(row, 3)?,
            };
            indexes.push((name, index));
        }
        if let Some((_, index)) = indexes.last_mut() {
            index.columns.push(row.try_get_by_index(1)?);
        }
    }
    Ok(indexes.into_iter().map(|(_, index)| index).collect())
}

/// MariaDB and SQLite have numbers for it.
fn flag(row: &QueryResult, index: usize) -> Result<bool, DbErr> {
    row.try_get_by_index::<bool>(index)
        .or_else(|_| Ok(row.try_get_by_index::<i64>(index)? != 0))
}

/// Whether a SQLite connection enforces foreign keys. Each connection has its own answer.
pub(super) async fn sqlite_enforces_foreign_keys(conn: Conn<'_>) -> Result<bool, DbErr> {
    let pragma = Statement::from_string(conn.backend(), "PRAGMA foreign_keys");
    let row = conn.query_one_raw(pragma).await?;
    row.map_or(Ok(true), |row| Ok(row.try_get_by_index::<i32>(0)? != 0))
}

fn about(conn: Conn<'_>, sql: &str, table: &TableName) -> Statement {
    let values: [Value; 2] = [table.table.clone().into(), table.schema.clone().into()];
    Statement::from_sql_and_values(conn.backend(), sql, values)
}
