//! Dead letters: looking at them, giving them another chance, removing them.
//!
//! Invariant: nothing here touches a row that is no dead letter when the statement writes; each says so in its own condition,
//! whatever an earlier read has seen. Rows are found without locks and changed by their keys.

use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, QueryResult, Statement, Value};
use uuid::Uuid;

use super::sql::{Fragment, padded};
use super::table::TableNames;
use super::topics::and_topics;
use crate::outbox::topics::TopicFilter;
use crate::outbox::{DeadLetter, OutboxEvent};

/// Some dead letters: those that every part of it names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    pub(crate) topics: Vec<TopicFilter>,
    /// `None` for every one.
    pub(crate) ids: Option<Vec<Uuid>>,
}

impl Selection {
    /// Whether it names none, so that there is nothing to ask.
    fn is_empty(&self) -> bool {
        self.ids.as_ref().is_some_and(Vec::is_empty)
    }
}

/// A dead letter, as far as a change needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) sequence: i64,
    pub(crate) topic: String,
}

/// The first `limit` with a sequence above `after`, in order, without their bodies. Locks nothing.
pub(crate) async fn list(
    db: &DatabaseConnection,
    names: &TableNames,
    selection: &Selection,
    after: i64,
    limit: u64,
) -> Result<Vec<DeadLetter>, DbErr> {
    if selection.is_empty() {
        return Ok(Vec::new());
    }
    let rows = db
        .query_all_raw(list_statement(names, selection, after, limit))
        .await?;
    rows.iter().map(read).collect()
}

fn read(row: &QueryResult) -> Result<DeadLetter, DbErr> {
    Ok(DeadLetter {
        sequence: row.try_get("", "sequence")?,
        id: row.try_get("", "id")?,
        topic: row.try_get("", "topic")?,
        ordering_key: row.try_get("", "ordering_key")?,
        created_at: row.try_get("", "created_at")?,
        dead_lettered_at: row.try_get("", "dead_lettered_at")?,
        attempts: row.try_get("", "attempts")?,
        last_error: row.try_get("", "last_error")?,
        releases_key: row.try_get("", "releases_key")?,
    })
}

fn list_statement(names: &TableNames, selection: &Selection, after: i64, limit: u64) -> Statement {
    const COLUMNS: &str = "o.sequence, o.id, o.topic, o.ordering_key, o.created_at, o.dead_lettered_at, o.attempts, o.last_error, \
                           o.releases_key";
    page(names, COLUMNS, selection, after, limit).into_statement(names.backend)
}

/// The one dead letter that a selection by its id names, whole. Locks nothing.
pub(crate) async fn find<M: OutboxEvent>(
    db: &DatabaseConnection,
    names: &TableNames,
    selection: &Selection,
) -> Result<Option<M>, DbErr> {
    let row = db.query_one_raw(find_statement(names, selection)).await?;
    row.map(|row| M::from_query_result(&row, "")).transpose()
}

fn find_statement(names: &TableNames, selection: &Selection) -> Statement {
    Fragment::fill(
        "SELECT {columns} FROM {table} AS o\nWHERE {selected}",
        &[
            ("columns", &names.columns(Some("o"))),
            ("table", &names.table),
            ("selected", &selected(names, selection)),
        ],
    )
    .into_statement(names.backend)
}

/// The first `limit` with a sequence above `after`, in order. Locks nothing.
pub(crate) async fn places(
    db: &DatabaseConnection,
    names: &TableNames,
    selection: &Selection,
    after: i64,
    limit: u64,
) -> Result<Vec<Place>, DbErr> {
    if selection.is_empty() {
        return Ok(Vec::new());
    }
    let rows = db
        .query_all_raw(places_statement(names, selection, after, limit))
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Place {
                sequence: row.try_get("", "sequence")?,
                topic: row.try_get("", "topic")?,
            })
        })
        .collect()
}

fn places_statement(names: &TableNames, selection: &Selection, after: i64, limit: u64) -> Statement {
    page(names, "o.sequence, o.topic", selection, after, limit).into_statement(names.backend)
}

/// Makes the named dead letters pending again, as if they had not been tried, and answers how many. The error of the last
/// failure stays.
pub(crate) async fn retry(
    db: &DatabaseConnection,
    names: &TableNames,
    sequences: &[i64],
) -> Result<u64, DbErr> {
    let done = db.execute_raw(retry_statement(names, sequences)).await?;
    Ok(done.rows_affected())
}

fn retry_statement(names: &TableNames, sequences: &[i64]) -> Statement {
    let template = match names.backend {
        DbBackend::MySql => "UPDATE {table} FORCE INDEX (PRIMARY) SET {fresh}\nWHERE {named}",
        _ => "UPDATE {table} SET {fresh}\nWHERE {named}",
    };
    let fresh = Fragment::fill(
        "attempts = 0, claims = 0, next_attempt_at = NULL, dead_lettered_at = NULL, releases_key = {no}",
        &[("no", &Fragment::value(false))],
    );
    Fragment::fill(
        template,
        &[
            ("table", &names.table),
            ("fresh", &fresh),
            ("named", &named("", sequences)),
        ],
    )
    .into_statement(names.backend)
}

/// Deletes the named dead letters, and answers how many.
pub(crate) async fn remove(
    db: &DatabaseConnection,
    names: &TableNames,
    sequences: &[i64],
) -> Result<u64, DbErr> {
    let done = db.execute_raw(remove_statement(names, sequences)).await?;
    Ok(done.rows_affected())
}

fn remove_statement(names: &TableNames, sequences: &[i64]) -> Statement {
    // On MySQL in the form for several tables, the only one with an index hint.
    let (template, of) = match names.backend {
        DbBackend::MySql => (
            "DELETE o FROM {table} AS o FORCE INDEX (PRIMARY)\nWHERE {named}",
            "o.",
        ),
        _ => ("DELETE FROM {table}\nWHERE {named}", ""),
    };
    Fragment::fill(
        template,
        &[("table", &names.table), ("named", &named(of, sequences))],
    )
    .into_statement(names.backend)
}

/// Whether a row is one of these and a dead letter now.
fn named(of: &str, sequences: &[i64]) -> Fragment {
    Fragment::fill(
        "{of}sequence IN ({sequences}) AND {of}published_at IS NULL AND {of}dead_lettered_at IS NOT NULL",
        &[("of", &Fragment::text(of)), ("sequences", &padded(sequences))],
    )
}

fn page(names: &TableNames, columns: &str, selection: &Selection, after: i64, limit: u64) -> Fragment {
    // The sequence in a form that no index fits: the primary key begins with what was published long ago.
    Fragment::fill(
        "SELECT {columns} FROM {table} AS o\
         \nWHERE {selected} AND o.sequence + 0 > {after}\
         \nORDER BY o.sequence + 0 LIMIT {limit}",
        &[
            ("columns", &Fragment::text(columns)),
            ("table", &names.table),
            ("selected", &selected(names, selection)),
            ("after", &Fragment::value(after)),
            (
                "limit",
                &Fragment::value(i64::try_from(limit).unwrap_or(i64::MAX)),
            ),
        ],
    )
}

/// Whether the row `o` is a dead letter that the selection names; in the words of the partial index.
fn selected(names: &TableNames, selection: &Selection) -> Fragment {
    let topics = selection
        .topics
        .iter()
        .map(|filter| and_topics(names.backend, "o.", filter));
    let ids = match &selection.ids {
        Some(ids) => {
            let padding = ids.last().into_iter().cycle();
            let ids = ids.iter().chain(padding).take(ids.len().next_power_of_two());
            Fragment::fill(
                " AND o.id IN ({ids})",
                &[("ids", &Fragment::list(ids.copied().map(Value::from)))],
            )
        }
        None => Fragment::default(),
    };
    Fragment::fill(
        "o.published_at IS NULL AND o.dead_lettered_at IS NOT NULL{topics}{ids}",
        &[("topics", &Fragment::joined("", topics)), ("ids", &ids)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox;
    use crate::outbox::topics::TopicPattern;

    fn every_statement(backend: DbBackend) -> String {
        let names = TableNames::of::<outbox::Entity>(backend);
        let shop = TopicFilter {
            included: Some(vec![TopicPattern::Prefix("shop.".to_owned())]),
            excluded: vec![],
        };
        let selection = Selection {
            topics: vec![TopicFilter::default(), shop],
            ids: Some(vec![Uuid::nil()]),
        };
        [
            list_statement(&names, &Selection::default(), 0, 100),
            find_statement(&names, &selection),
            places_statement(&names, &selection, 7, 100),
            retry_statement(&names, &[1, 2]),
            remove_statement(&names, &[1, 2]),
        ]
        .map(|statement| statement.sql)
        .join("\n\n")
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
