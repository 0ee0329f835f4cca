//! Settling: recording what became of claimed events, and holding on to them meanwhile.
//!
//! Invariant: a failure, a release and a renewal need the token of the claim, so a relay that lost its lease cannot count,
//! free or take back an event that another one holds. A success needs only that the event is unpublished: it *was* delivered,
//! whoever holds it now, and the first publication time stays.
//!
//! Rows are named by sequence, in chunks, and each statement is one round trip. On MySQL the primary key is forced: on a small
//! table the optimizer would scan all rows, and wait for those that a writer has locked.

use std::collections::HashSet;
use std::time::Duration;

use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, IsolationLevel, Statement, Value};
use uuid::Uuid;

use super::clock::{Clock, no_span, span};
use super::sql::{CHUNK, Fragment, padded};
use super::table::TableNames;
use crate::connection::in_own_transaction;

/// A failed delivery, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) sequence: i64,
    /// What becomes `last_error`.
    pub(crate) error: String,
    /// When it is tried again; `None` for never: it becomes a dead letter.
    pub(crate) retry_after: Option<Duration>,
    /// As a dead letter, whether it lets its key go on without it.
    pub(crate) releases_key: bool,
}

/// What every outcome clears.
const NO_LEASE: &str = "lease_token = NULL, lease_until = NULL, leased_by = NULL";

/// Records deliveries. Touches the named rows that are not published yet, whoever holds them; a dead letter that was delivered
/// after all is none any more.
pub(crate) async fn publish(
    db: &DatabaseConnection,
    names: &TableNames,
    clock: &Clock,
    sequences: &[i64],
) -> Result<(), DbErr> {
    for chunk in sequences.chunks(CHUNK) {
        db.execute_raw(publish_statement(names, clock, chunk)).await?;
    }
    Ok(())
}

fn publish_statement(names: &TableNames, clock: &Clock, sequences: &[i64]) -> Statement {
    Fragment::fill(
        "{update} published_at = {now}, claims = 0, dead_lettered_at = NULL, releases_key = {no}, {no_lease}\
         \nWHERE sequence IN ({sequences}) AND published_at IS NULL",
        &[
            ("update", &update(names)),
            ("now", &clock.now(names.backend)),
            ("no", &Fragment::value(false)),
            ("no_lease", &Fragment::text(NO_LEASE)),
            ("sequences", &padded(sequences)),
        ],
    )
    .into_statement(names.backend)
}

/// Records failed deliveries, and answers which of them were recorded: touches only rows held under `token` and unpublished.
pub(crate) async fn fail(
    db: &DatabaseConnection,
    names: &TableNames,
    clock: &Clock,
    token: Uuid,
    failures: &[Failure],
) -> Result<HashSet<i64>, DbErr> {
    let mut recorded = HashSet::new();
    for chunk in failures.chunks(CHUNK) {
        if names.backend != DbBackend::MySql {
            let rows = db
                .query_all_raw(fail_statement(names, clock, token, chunk))
                .await?;
            recorded.extend(sequences_of::<HashSet<i64>>(&rows)?);
            continue;
        }
        // Without RETURNING: what the lock shows as held is what the update then changes.
        let (names, clock, chunk) = (names.clone(), clock.clone(), chunk.to_vec());
        let held = in_own_transaction(db, Some(IsolationLevel::ReadCommitted), move |transaction| {
            Box::pin(async move {
                let all: Vec<i64> = chunk.iter().map(|failure| failure.sequence).collect();
                let rows = transaction
                    .query_all_raw(held_statement(&names, token, &all, true))
                    .await?;
                let held: HashSet<i64> = sequences_of(&rows)?;
                if !held.is_empty() {
                    transaction
                        .execute_raw(fail_statement(&names, &clock, token, &chunk))
                        .await?;
                }
                Ok(held)
            })
        });
        recorded.extend(held.await?);
    }
    Ok(recorded)
}

fn fail_statement(names: &TableNames, clock: &Clock, token: Uuid, failures: &[Failure]) -> Statement {
    let backend = names.backend;
    let sequences: Vec<i64> = failures.iter().map(|failure| failure.sequence).collect();
    let dead: Vec<i64> = failures
        .iter()
        .filter(|f| f.retry_after.is_none())
        .map(|f| f.sequence)
        .collect();
    let skipped: Vec<i64> = failures
        .iter()
        .filter(|f| f.retry_after.is_none() && f.releases_key)
        .map(|f| f.sequence)
        .collect();
    let by_sequence = |value: &dyn Fn(&Failure) -> Value| {
        let padding = failures.last().into_iter().cycle();
        let cases = failures
            .iter()
            .chain(padding)
            .take(failures.len().next_power_of_two())
            .map(|failure| {
                Fragment::fill(
                    " WHEN {sequence} THEN {value}",
                    &[
                        ("sequence", &Fragment::value(failure.sequence)),
                        ("value", &Fragment::value(value(failure))),
                    ],
                )
            });
        Fragment::fill(
            "CASE sequence{cases} END",
            &[("cases", &Fragment::joined("", cases))],
        )
    };
    let delays = by_sequence(&|failure| match failure.retry_after {
        Some(delay) => span(backend, delay),
        None => no_span(backend),
    });
    let dead_lettered_at = if dead.is_empty() {
        Fragment::text("NULL")
    } else {
        Fragment::fill(
            "CASE WHEN sequence IN ({dead}) THEN {now} END",
            &[("dead", &padded(&dead)), ("now", &clock.now(backend))],
        )
    };
    let releases_key = if skipped.is_empty() {
        Fragment::value(false)
    } else {
        Fragment::fill("sequence IN ({skipped})", &[("skipped", &padded(&skipped))])
    };
    let returning = if backend == DbBackend::MySql {
        ""
    } else {
        "\nRETURNING sequence"
    };
    Fragment::fill(
        "{update} attempts = attempts + 1,\
         \n  last_error = {errors},\
         \n  next_attempt_at = {next},\
         \n  dead_lettered_at = {dead_lettered_at},\
         \n  releases_key = {releases_key},\
         \n  claims = 0, {no_lease}\
         \nWHERE sequence IN ({sequences}) AND lease_token = {token} AND published_at IS NULL{returning}",
        &[
            ("update", &update(names)),
            (
                "errors",
                &by_sequence(&|failure| Value::from(failure.error.as_str())),
            ),
            ("next", &clock.after(backend, &delays)),
            ("dead_lettered_at", &dead_lettered_at),
            ("releases_key", &releases_key),
            ("no_lease", &Fragment::text(NO_LEASE)),
            ("sequences", &padded(&sequences)),
            ("token", &Fragment::value(token)),
            ("returning", &Fragment::text(returning)),
        ],
    )
    .into_statement(backend)
}

/// Gives events back as if they had not been claimed. Touches only rows held under `token` and unpublished.
pub(crate) async fn release(
    db: &DatabaseConnection,
    names: &TableNames,
    token: Uuid,
    sequences: &[i64],
) -> Result<(), DbErr> {
    for chunk in sequences.chunks(CHUNK) {
        db.execute_raw(release_statement(names, token, chunk)).await?;
    }
    Ok(())
}

fn release_statement(names: &TableNames, token: Uuid, sequences: &[i64]) -> Statement {
    Fragment::fill(
        "{update} claims = CASE WHEN claims > 0 THEN claims - 1 ELSE 0 END, {no_lease}\
         \nWHERE sequence IN ({sequences}) AND lease_token = {token} AND published_at IS NULL",
        &[
            ("update", &update(names)),
            ("no_lease", &Fragment::text(NO_LEASE)),
            ("sequences", &padded(sequences)),
            ("token", &Fragment::value(token)),
        ],
    )
    .into_statement(names.backend)
}

/// Pushes the lease to `lease` from now, and answers which rows are still held: only those under `token` and unpublished.
pub(crate) async fn renew(
    db: &DatabaseConnection,
    names: &TableNames,
    clock: &Clock,
    token: Uuid,
    lease: Duration,
    sequences: &[i64],
) -> Result<HashSet<i64>, DbErr> {
    let mut held = HashSet::new();
    for chunk in sequences.chunks(CHUNK) {
        let statement = renew_statement(names, clock, token, lease, chunk);
        if names.backend != DbBackend::MySql {
            held.extend(sequences_of::<HashSet<i64>>(&db.query_all_raw(statement).await?)?);
        } else if db.execute_raw(statement).await?.rows_affected() == chunk.len() as u64 {
            // sqlx asks MySQL for the rows found, not those changed.
            held.extend(chunk);
        } else {
            let rows = db
                .query_all_raw(held_statement(names, token, chunk, false))
                .await?;
            held.extend(sequences_of::<HashSet<i64>>(&rows)?);
        }
    }
    Ok(held)
}

fn renew_statement(
    names: &TableNames,
    clock: &Clock,
    token: Uuid,
    lease: Duration,
    sequences: &[i64],
) -> Statement {
    let returning = if names.backend == DbBackend::MySql {
        ""
    } else {
        "\nRETURNING sequence"
    };
    Fragment::fill(
        "{update} lease_until = {until}\
         \nWHERE sequence IN ({sequences}) AND lease_token = {token} AND published_at IS NULL{returning}",
        &[
            ("update", &update(names)),
            (
                "until",
                &clock.after(names.backend, &Fragment::value(span(names.backend, lease))),
            ),
            ("sequences", &padded(sequences)),
            ("token", &Fragment::value(token)),
            ("returning", &Fragment::text(returning)),
        ],
    )
    .into_statement(names.backend)
}

/// MySQL: which rows are held under `token` and unpublished; locked, if their outcome is to be written.
fn held_statement(names: &TableNames, token: Uuid, sequences: &[i64], lock: bool) -> Statement {
    Fragment::fill(
        "SELECT sequence FROM {table} FORCE INDEX (PRIMARY)\
         \nWHERE sequence IN ({sequences}) AND lease_token = {token} AND published_at IS NULL{lock}",
        &[
            ("table", &names.table),
            ("sequences", &padded(sequences)),
            ("token", &Fragment::value(token)),
            ("lock", &Fragment::text(if lock { "\nFOR UPDATE" } else { "" })),
        ],
    )
    .into_statement(names.backend)
}

fn update(names: &TableNames) -> Fragment {
    let template = match names.backend {
        DbBackend::MySql => "UPDATE {table} FORCE INDEX (PRIMARY) SET",
        _ => "UPDATE {table} SET",
    };
    Fragment::fill(template, &[("table", &names.table)])
}

fn sequences_of<C: FromIterator<i64>>(rows: &[sea_orm::QueryResult]) -> Result<C, DbErr> {
    rows.iter().map(|row| row.try_get("", "sequence")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox;

    fn every_statement(backend: DbBackend) -> String {
        let names = TableNames::of::<outbox::Entity>(backend);
        let (clock, token) = (Clock::default(), Uuid::nil());
        let failures = [
            Failure {
                sequence: 1,
                error: "refused".to_owned(),
                retry_after: Some(Duration::from_secs(1)),
                releases_key: false,
            },
            Failure {
                sequence: 2,
                error: "refused".to_owned(),
                retry_after: None,
                releases_key: true,
            },
        ];
        [
            publish_statement(&names, &clock, &[1, 2]),
            fail_statement(&names, &clock, token, &failures),
            fail_statement(&names, &clock, token, &failures[..1]),
            release_statement(&names, token, &[1, 2]),
            renew_statement(&names, &clock, token, Duration::from_secs(60), &[1, 2]),
            held_statement(&names, token, &[1, 2], true),
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
