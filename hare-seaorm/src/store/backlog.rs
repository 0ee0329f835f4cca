//! Counting what is not delivered.

use sea_orm::prelude::DateTimeUtc;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement};

use super::clock::Clock;
use super::sql::Fragment;
use super::table::TableNames;
use super::topics::and_topics;
use crate::outbox::Backlog;
use crate::outbox::topics::TopicFilter;

/// Counts the events of these topics that are not published. Locks nothing.
pub(crate) async fn backlog(
    db: &DatabaseConnection,
    names: &TableNames,
    clock: &Clock,
    topics: &TopicFilter,
) -> Result<Backlog, DbErr> {
    let row = db.query_one_raw(statement(names, clock, topics)).await?;
    let row = row.ok_or_else(|| DbErr::RecordNotFound("the counts of the backlog".to_owned()))?;
    let count =
        |column| -> Result<u64, DbErr> { Ok(u64::try_from(row.try_get::<i64>("", column)?).unwrap_or(0)) };
    let now: DateTimeUtc = row.try_get("", "hare_now")?;
    let oldest: Option<DateTimeUtc> = row.try_get("", "oldest")?;
    Ok(Backlog {
        pending: count("pending")?,
        // One that was written by a clock ahead of ours is new.
        oldest_pending_age: oldest.map(|oldest| (now - oldest).to_std().unwrap_or_default()),
        dead_lettered: count("dead_lettered")?,
    })
}

fn statement(names: &TableNames, clock: &Clock, topics: &TopicFilter) -> Statement {
    // MySQL may else walk the primary key, whose beginning is what was published long ago.
    let hint = if names.backend == DbBackend::MySql {
        " IGNORE INDEX (PRIMARY)"
    } else {
        ""
    };
    Fragment::fill(
        "SELECT (SELECT COUNT(*) {pending}) AS pending,\
         \n  (SELECT o.created_at {pending} ORDER BY o.sequence LIMIT 1) AS oldest,\
         \n  (SELECT COUNT(*) {dead}) AS dead_lettered,\
         \n  {now} AS hare_now",
        &[
            ("pending", &events(names, hint, "IS NULL", topics)),
            ("dead", &events(names, hint, "IS NOT NULL", topics)),
            ("now", &clock.now(names.backend)),
        ],
    )
    .into_statement(names.backend)
}

/// The unpublished rows of these topics that are, or are not, dead letters; in the words of the partial indexes.
fn events(names: &TableNames, hint: &str, dead: &str, topics: &TopicFilter) -> Fragment {
    Fragment::fill(
        "FROM {table} AS o{hint} WHERE o.published_at IS NULL AND o.dead_lettered_at {dead}{topics}",
        &[
            ("table", &names.table),
            ("hint", &Fragment::text(hint)),
            ("dead", &Fragment::text(dead)),
            ("topics", &and_topics(names.backend, "o.", topics)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox;

    fn sql(backend: DbBackend) -> String {
        let names = TableNames::of::<outbox::Entity>(backend);
        statement(&names, &Clock::default(), &TopicFilter::default()).sql
    }

    #[test]
    fn reviewed_sql_postgres() {
        insta::assert_snapshot!(sql(DbBackend::Postgres));
    }

    #[test]
    fn reviewed_sql_mysql() {
        insta::assert_snapshot!(sql(DbBackend::MySql));
    }

    #[test]
    fn reviewed_sql_sqlite() {
        insta::assert_snapshot!(sql(DbBackend::Sqlite));
    }
}
