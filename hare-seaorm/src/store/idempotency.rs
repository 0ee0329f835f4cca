//! Finding the events that hold idempotency keys, and whether the table keeps such keys unique.

use sea_orm::sea_query::{Alias, Condition, Expr, ExprTrait, LockType, Query, SelectStatement, SimpleExpr};
use sea_orm::{
    ConnectionTrait, DbBackend, DbErr, EntityName, FromQueryResult, IdenStatic, QueryFilter, QueryTrait,
    Statement, Value,
};

use super::insert::{BIND_LIMIT, NewEvent};
use super::sql::Fragment;
use crate::connection::Conn;
use crate::outbox::OutboxEntity;

/// What a column of the key must hold.
pub(crate) struct KeyPart<C> {
    pub(crate) column: C,
    pub(crate) value: Value,
    expr: SimpleExpr,
}

/// The key that `event` falls under; `None` if the event does not say what a column of it holds.
pub(crate) fn key_of<O: OutboxEntity>(event: &NewEvent) -> Option<Vec<KeyPart<O::Column>>> {
    O::conflict_columns()
        .into_iter()
        .map(|column| {
            if column.as_str() == "idempotency_key" {
                let key = event.idempotency_key.as_deref()?;
                return Some(KeyPart {
                    column,
                    value: Value::from(key),
                    expr: Expr::val(key),
                });
            }
            let own = event.own.iter().find(|own| own.column == column.as_str())?;
            (own.value != own.value.as_null()).then(|| KeyPart {
                column,
                value: own.value.clone(),
                expr: own.expr.clone(),
            })
        })
        .collect()
}

/// Reads the events that hold the keys of `events`, in no order. With `as_they_are_now` MySQL reads what others have committed
/// since the transaction's snapshot, too, and locks it; the others have no such read and need none.
pub(crate) async fn find<O: OutboxEntity>(
    conn: Conn<'_>,
    events: &[&NewEvent],
    as_they_are_now: bool,
) -> Result<Vec<O::Model>, DbErr> {
    let width = O::conflict_columns().len().max(1);
    let mut found = Vec::with_capacity(events.len());
    for chunk in events.chunks(BIND_LIMIT / width) {
        let select = find_statement::<O>(conn.backend(), chunk, as_they_are_now);
        for row in conn.query_all(&select).await? {
            found.push(O::Model::from_query_result(&row, "")?);
        }
    }
    Ok(found)
}

fn find_statement<O: OutboxEntity>(
    backend: DbBackend,
    events: &[&NewEvent],
    as_they_are_now: bool,
) -> SelectStatement {
    let mut select = O::find().filter(holds_one_of::<O>(events)).into_query();
    if as_they_are_now && backend == DbBackend::MySql {
        select.lock(LockType::Share);
    }
    select
}

fn holds_one_of<O: OutboxEntity>(events: &[&NewEvent]) -> Condition {
    let keys: Vec<Vec<KeyPart<O::Column>>> = events.iter().filter_map(|event| key_of::<O>(event)).collect();
    if let [column] = O::conflict_columns().as_slice() {
        let keys = keys.into_iter().flatten().map(|part| part.expr);
        return Condition::all().add(Expr::col(*column).is_in(keys));
    }
    keys.into_iter().fold(Condition::any(), |any, key| {
        any.add(key.into_iter().fold(Condition::all(), |all, part| {
            all.add(ExprTrait::eq(Expr::col(part.column), part.expr))
        }))
    })
}

/// Whether the table has a unique key of exactly the conflict columns. Asked where the insert does not find out by itself: MySQL
/// would write a second event, SQLite's error says no more than that the statement is wrong.
pub(crate) async fn is_unique<O: OutboxEntity>(conn: Conn<'_>) -> Result<bool, DbErr> {
    let table = O::default();
    let columns = O::conflict_columns();
    let columns: Vec<&str> = columns.iter().map(IdenStatic::as_str).collect();
    if columns.is_empty() {
        return Ok(false);
    }
    let row = match conn.backend() {
        DbBackend::MySql => conn.query_one(&mysql_unique_keys(&table, &columns)).await?,
        DbBackend::Sqlite => conn.query_one_raw(sqlite_unique_keys(&table, &columns)).await?,
        _ => return Ok(true),
    };
    Ok(row.is_some())
}

/// <https://mariadb.com/docs/server/reference/system-tables/information-schema/information-schema-tables/information-schema-statistics-table>
fn mysql_unique_keys(table: &impl EntityName, columns: &[&str]) -> SelectStatement {
    let schema = match table.schema_name() {
        Some(schema) => Expr::val(schema),
        None => Expr::cust("DATABASE()"),
    };
    let count = i64::try_from(columns.len()).unwrap_or(i64::MAX);
    Query::select()
        .column("INDEX_NAME")
        .from((Alias::new("information_schema"), Alias::new("STATISTICS")))
        .and_where(ExprTrait::eq(Expr::col("TABLE_SCHEMA"), schema))
        .and_where(ExprTrait::eq(Expr::col("TABLE_NAME"), table.table_name()))
        .and_where(ExprTrait::eq(Expr::col("NON_UNIQUE"), 0))
        .group_by_col("INDEX_NAME")
        .and_having(ExprTrait::eq(Expr::cust("COUNT(*)"), count))
        .and_having(ExprTrait::eq(
            Expr::col("COLUMN_NAME").is_in(columns.iter().copied()).sum(),
            count,
        ))
        // A key of the columns' beginnings is not one of the columns.
        .and_having(ExprTrait::eq(Expr::col("SUB_PART").count(), 0))
        .limit(1)
        .take()
}

/// <https://www.sqlite.org/pragma.html#pragma_index_list>
fn sqlite_unique_keys(table: &impl EntityName, columns: &[&str]) -> Statement {
    let count = Fragment::value(i64::try_from(columns.len()).unwrap_or(i64::MAX));
    let of = [Some(table.table_name()), table.schema_name()];
    Fragment::fill(
        "SELECT k.name FROM pragma_index_list({of}) AS k\
         \nWHERE k.\"unique\" AND NOT k.partial\
         \n  AND (SELECT COUNT(*) FROM pragma_index_info(k.name)) = {count}\
         \n  AND (SELECT COUNT(*) FROM pragma_index_info(k.name) AS c WHERE c.name IN ({columns})) = {count}\
         \nLIMIT 1",
        &[
            ("of", &Fragment::list(of.into_iter().flatten().map(Value::from))),
            ("count", &count),
            (
                "columns",
                &Fragment::list(columns.iter().map(|column| Value::from(*column))),
            ),
        ],
    )
    .into_statement(DbBackend::Sqlite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox;

    fn every_statement(backend: DbBackend) -> String {
        let event = NewEvent {
            idempotency_key: Some("k".to_owned()),
            ..NewEvent::default()
        };
        let find = |as_they_are_now| {
            let select = find_statement::<outbox::Entity>(backend, &[&event, &event], as_they_are_now);
            backend.build(&select).sql
        };
        let unique = match backend {
            DbBackend::MySql => {
                backend
                    .build(&mysql_unique_keys(
                        &outbox::Entity,
                        &["tenant_id", "idempotency_key"],
                    ))
                    .sql
            }
            _ => sqlite_unique_keys(&outbox::Entity, &["tenant_id", "idempotency_key"]).sql,
        };
        [find(false), find(true), unique].join("\n\n")
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
