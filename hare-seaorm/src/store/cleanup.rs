//! Deleting what is over, a batch at a time.
//!
//! Invariant: a row is deleted only if it is published, or a dead letter, and has been for longer than asked *when it is
//! deleted*: one that is retried meanwhile stays. A batch finds its rows without waiting and names them by their keys.

use std::time::Duration;

use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement};

use super::clock::Clock;
use super::sql::{Fragment, padded};
use super::table::TableNames;
use super::topics::and_topics;
use crate::outbox::topics::TopicFilter;

/// What is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Published,
    DeadLettered,
}

/// The rows that a cleanup is about.
#[derive(Debug, Clone)]
pub(crate) struct Old {
    pub(crate) over: Over,
    pub(crate) older_than: Duration,
    pub(crate) topics: TopicFilter,
}

/// What one batch did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) deleted: u64,
    /// Nothing was left to find.
    pub(crate) is_last: bool,
}

/// Deletes at most `limit` of the oldest rows.
pub(crate) async fn delete(
    db: &DatabaseConnection,
    names: &TableNames,
    clock: &Clock,
    old: &Old,
    limit: u64,
) -> Result<Batch, DbErr> {
    if names.backend != DbBackend::MySql {
        let deleted = db
            .execute_raw(delete_statement(names, clock, old, limit))
            .await?
            .rows_affected();
        return Ok(Batch {
            deleted,
            is_last: deleted < limit,
        });
    }
    // A DELETE that searched for its rows would lock all that it passes, gaps included, and wait for writers.
    let rows = db.query_all_raw(find_statement(names, clock, old, limit)).await?;
    let found = rows
        .iter()
        .map(|row| row.try_get("", "sequence"))
        .collect::<Result<Vec<i64>, DbErr>>()?;
    let deleted = match found.is_empty() {
        true => 0,
        false => db
            .execute_raw(mysql_delete_statement(names, clock, old, &found))
            .await?
            .rows_affected(),
    };
    Ok(Batch {
        deleted,
        is_last: (found.len() as u64) < limit,
    })
}

/// Whether the row `of` is to go; in the words of the partial indexes.
fn condition(names: &TableNames, clock: &Clock, old: &Old) -> Fragment {
    let template = match old.over {
        Over::Published => "o.published_at IS NOT NULL AND o.published_at < {before}{topics}",
        Over::DeadLettered => {
            "o.published_at IS NULL AND o.dead_lettered_at IS NOT NULL AND o.dead_lettered_at < {before}{topics}"
        }
    };
    Fragment::fill(
        template,
        &[
            ("before", &clock.before(names.backend, old.older_than)),
            ("topics", &and_topics(names.backend, "o.", &old.topics)),
        ],
    )
}

fn find(names: &TableNames, clock: &Clock, old: &Old, limit: u64) -> Fragment {
    let since = match old.over {
        Over::Published => "o.published_at",
        Over::DeadLettered => "o.dead_lettered_at",
    };
    Fragment::fill(
        "SELECT o.sequence FROM {table} AS o\
         \n  WHERE {condition}\
         \n  ORDER BY {since} LIMIT {limit}",
        &[
            ("table", &names.table),
            ("condition", &condition(names, clock, old)),
            ("since", &Fragment::text(since)),
            (
                "limit",
                &Fragment::value(i64::try_from(limit).unwrap_or(i64::MAX)),
            ),
        ],
    )
}

fn find_statement(names: &TableNames, clock: &Clock, old: &Old, limit: u64) -> Statement {
    find(names, clock, old, limit).into_statement(names.backend)
}

/// One statement. On PostgreSQL the rows are locked as they are found, so that one that has changed meanwhile is looked at again,
/// and one that somebody holds is left for the next time.
fn delete_statement(names: &TableNames, clock: &Clock, old: &Old, limit: u64) -> Statement {
    let template = match names.backend {
        DbBackend::Postgres => {
            "DELETE FROM {table} WHERE sequence = ANY (ARRAY(\
             \n  {find}\
             \n  FOR UPDATE OF o SKIP LOCKED))"
        }
        _ => "DELETE FROM {table} WHERE sequence IN (\n  {find})",
    };
    Fragment::fill(
        template,
        &[("table", &names.table), ("find", &find(names, clock, old, limit))],
    )
    .into_statement(names.backend)
}

/// Deletes rows by their keys, if they are still to go. In the form for several tables, the only one with an index hint.
fn mysql_delete_statement(names: &TableNames, clock: &Clock, old: &Old, sequences: &[i64]) -> Statement {
    Fragment::fill(
        "DELETE o FROM {table} AS o FORCE INDEX (PRIMARY)\
         \nWHERE o.sequence IN ({sequences}) AND {condition}",
        &[
            ("table", &names.table),
            ("sequences", &padded(sequences)),
            ("condition", &condition(names, clock, old)),
        ],
    )
    .into_statement(names.backend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox;

    fn every_statement(backend: DbBackend) -> String {
        let names = TableNames::of::<outbox::Entity>(backend);
        let clock = Clock::default();
        let statements = [Over::Published, Over::DeadLettered].map(|over| {
            let old = Old {
                over,
                older_than: Duration::from_secs(60),
                topics: TopicFilter::default(),
            };
            if backend == DbBackend::MySql {
                vec![
                    find_statement(&names, &clock, &old, 1000).sql,
                    mysql_delete_statement(&names, &clock, &old, &[1, 2]).sql,
                ]
            } else {
                vec![delete_statement(&names, &clock, &old, 1000).sql]
            }
        });
        statements.concat().join("\n\n")
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
