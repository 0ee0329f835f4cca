//! Claiming: which events a relay may deliver next, and the lease that says so.
//!
//! A *head* is a claimable event (unpublished, not dead, due, not leased, of a served topic) before which its ordering key
//! holds nothing unpublished; a keyless event is always one. A claim takes heads in sequence order and, behind each keyed
//! head, the claimable events of the same key up to the first that is not: a *lane*.
//!
//! Invariant: whoever delivers an event of a key has, in the same claim, every earlier event of the key that was not published
//! when the claim looked. So every relay delivers a key in order, starting where the published events end, and the first
//! deliveries of a key are in order whatever relays do to each other.
//!
//! Why it holds while other relays claim, settle and renew:
//! * That everything before a head is published is read from committed data, and publication is final: it cannot become
//!   untrue later. (An exception that its policy wants: a dead letter that released its key, retried by hand.)
//! * The claim's view of the table may be older than a lease. So each row is locked and looked at again, as it is now, before
//!   it is taken: PostgreSQL does so for `FOR NO KEY UPDATE` in READ COMMITTED, InnoDB's locking reads always read the newest
//!   version, SQLite has one writer. A row that is locked elsewhere or no longer claimable is left out, never waited for.
//! * A row left out in the middle of a lane leaves a gap in the lane's positions, which count what the view held. Who
//!   claimed must give back what lies behind a gap ([`Row::position`]); `relay::lane` does.
//! * Locking heads first, within the limit, is for throughput only: relays that claim at once share out the queue.
//!
//! A claim waits for no lock, so it is part of no deadlock. Shapes that a planner could turn into a scan of the whole backlog
//! are avoided: the first event of a key is a scalar subquery with `LIMIT 1` (one probe of the lane index), a lane a lateral
//! query with a limit, and rows are found by an array of sequences.

use std::time::Duration;

use sea_orm::prelude::DateTimeUtc;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, IsolationLevel, QueryResult,
    Statement, Value,
};
use uuid::Uuid;

use super::clock::{Clock, span};
use super::sql::{CHUNK, Fragment, padded};
use super::table::TableNames;
use super::topics::and_topics;
use crate::connection::in_own_transaction;
use crate::outbox::OutboxEvent;
use crate::outbox::topics::TopicFilter;

/// What is to be claimed, and for whom.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The most events.
    pub(crate) limit: usize,
    /// The most events of one ordering key.
    pub(crate) lane_length: usize,
    /// The topics served.
    pub(crate) topics: TopicFilter,
    /// Which of these may be claimed now.
    pub(crate) narrowing: Narrowing,
    pub(crate) lease: Duration,
    /// Who claims, for people who look at the table.
    pub(crate) name: String,
    /// New for each claim: what failures, releases and renewals must show.
    pub(crate) token: Uuid,
}

/// Topics that one claim keeps to or leaves out, of those served. An event that is left out still holds back its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Narrowing {
    Only(Vec<String>),
    Without(Vec<String>),
}

/// What a claim took, in sequence order.
#[derive(Debug)]
pub(crate) struct Claimed<M> {
    pub(crate) rows: Vec<Row<M>>,
}

/// One claimed event.
#[derive(Debug)]
pub(crate) struct Row<M> {
    pub(crate) sequence: i64,
    pub(crate) ordering_key: Option<String>,
    /// Its place in its lane, from 1. Where one is missing, the lane ends before the gap.
    pub(crate) position: i64,
    /// When it was claimed, by the database's clock.
    pub(crate) claimed_at: DateTimeUtc,
    pub(crate) event: Result<M, Unreadable>,
}

/// A row that cannot be read as an event: a column holds what its type does not allow.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) id: Option<Uuid>,
    pub(crate) topic: String,
    pub(crate) ordering_key: Option<String>,
    /// How long before the claim it was written.
    pub(crate) age: Option<Duration>,
    pub(crate) attempts: i32,
    pub(crate) max_attempts: Option<i32>,
    pub(crate) source: DbErr,
}

/// Claims up to `limit` events. Touches only rows that it locked and found claimable; see the module for what guards them.
///
/// # Cancel safety
/// Dropped half-way, it leaves the table as it was, or leases that nobody renews.
pub(crate) async fn claim<M: OutboxEvent>(
    db: &DatabaseConnection,
    names: &TableNames,
    clock: &Clock,
    request: &Request,
) -> Result<Claimed<M>, DbErr> {
    let mut rows: Vec<Row<M>> = match names.backend {
        DbBackend::Postgres => {
            let found = db.query_all_raw(postgres(names, clock, request)).await?;
            found
                .iter()
                .map(|row| read(row, row.try_get("", "hare_position")?))
                .collect::<Result<_, DbErr>>()?
        }
        DbBackend::MySql => {
            let (names, clock, request) = (names.clone(), clock.clone(), request.clone());
            in_own_transaction(db, Some(IsolationLevel::ReadCommitted), move |transaction| {
                Box::pin(async move { claim_in_steps(transaction, &names, &clock, &request).await })
            })
            .await?
        }
        _ => {
            let found = db.query_all_raw(sqlite(names, clock, request)).await?;
            found
                .iter()
                .map(|row| read(row, 0))
                .collect::<Result<_, DbErr>>()?
        }
    };
    rows.sort_unstable_by_key(|row| row.sequence);
    if names.backend != DbBackend::Postgres && names.backend != DbBackend::MySql {
        // One writer: what was chosen was taken, so there are no gaps.
        let mut lengths = std::collections::HashMap::new();
        for row in &mut rows {
            let length = lengths.entry(row.ordering_key.clone()).or_insert(0);
            *length += 1;
            row.position = if row.ordering_key.is_some() { *length } else { 1 };
        }
    }
    Ok(Claimed { rows })
}

fn read<M: OutboxEvent>(row: &QueryResult, position: i64) -> Result<Row<M>, DbErr> {
    let claimed_at: DateTimeUtc = row.try_get("", "hare_claimed_at")?;
    let ordering_key: Option<String> = row.try_get("", "ordering_key")?;
    let event = match M::from_query_result(row, "") {
        Ok(event) => Ok(event),
        Err(source) => Err(Unreadable {
            id: row.try_get("", "id").ok(),
            topic: row.try_get("", "topic").unwrap_or_default(),
            ordering_key: ordering_key.clone(),
            age: row
                .try_get::<DateTimeUtc>("", "created_at")
                .ok()
                .map(|created_at| (claimed_at - created_at).to_std().unwrap_or_default()),
            attempts: row.try_get("", "attempts")?,
            max_attempts: row.try_get("", "max_attempts")?,
            source,
        }),
    };
    Ok(Row {
        sequence: row.try_get("", "sequence")?,
        ordering_key,
        position,
        claimed_at,
        event,
    })
}

/// The parts that the statements have in common.
struct Parts<'a> {
    names: &'a TableNames,
    now: Fragment,
    topics: &'a TopicFilter,
    narrowing: &'a Narrowing,
}

impl<'a> Parts<'a> {
    fn new(names: &'a TableNames, clock: &Clock, request: &'a Request) -> Self {
        Self {
            names,
            now: clock.now(names.backend),
            topics: &request.topics,
            narrowing: &request.narrowing,
        }
    }

    /// The condition that a claim's narrowing adds, if any. Padded to few lengths.
    fn narrowed(&self, of: &Fragment) -> Fragment {
        let (operator, topics) = match self.narrowing {
            Narrowing::Only(topics) => ("IN", topics),
            Narrowing::Without(topics) if topics.is_empty() => return Fragment::default(),
            Narrowing::Without(topics) => ("NOT IN", topics),
        };
        // In a form that no index fits, see `claimable`.
        let topic = match self.names.backend {
            DbBackend::MySql => "CONCAT({of}.topic)",
            DbBackend::Sqlite => "+{of}.topic",
            _ => "{of}.topic",
        };
        Fragment::fill(
            " AND {topic} {operator} ({topics})",
            &[
                ("topic", &Fragment::fill(topic, &[("of", of)])),
                ("operator", &Fragment::text(operator)),
                ("topics", &padded(topics)),
            ],
        )
    }

    /// Whether the row `of` may be taken, whatever else its key holds. Says itself that it is unpublished, in the words of
    /// the partial index.
    fn claimable(&self, of: &str) -> Fragment {
        let topics = and_topics(self.names.backend, &format!("{of}."), self.topics);
        let of = Fragment::text(of);
        Fragment::fill(
            "{of}.published_at IS NULL AND {of}.dead_lettered_at IS NULL\
             \n    AND ({of}.next_attempt_at IS NULL OR {of}.next_attempt_at <= {now})\
             \n    AND ({of}.lease_until IS NULL OR {of}.lease_until < {now}){topics}{narrowed}",
            &[
                ("of", &of),
                ("now", &self.now),
                ("topics", &topics),
                ("narrowed", &self.narrowed(&of)),
            ],
        )
    }

    /// Whether the row `of` holds back later events of its key.
    fn holds(&self, of: &str) -> Fragment {
        Fragment::fill(
            "{of}.published_at IS NULL AND ({of}.dead_lettered_at IS NULL OR NOT {of}.releases_key)",
            &[("of", &Fragment::text(of))],
        )
    }

    /// The heads, in order, within the limit; to be followed by how they are locked.
    fn heads(&self, limit: usize) -> Fragment {
        // MySQL may else walk the primary key, whose beginning is what was published long ago.
        let hint = if self.names.backend == DbBackend::MySql {
            " IGNORE INDEX (PRIMARY)"
        } else {
            ""
        };
        Fragment::fill(
            "SELECT o.sequence, o.ordering_key\
             \n  FROM {table} AS o{hint}\
             \n  WHERE {claimable}\
             \n    AND (o.ordering_key IS NULL OR o.sequence = (\
             \n      SELECT e.sequence FROM {table} AS e\
             \n      WHERE e.ordering_key = o.ordering_key AND {holds}\
             \n      ORDER BY e.sequence LIMIT 1))\
             \n  ORDER BY o.sequence LIMIT {limit}",
            &[
                ("table", &self.names.table),
                ("claimable", &self.claimable("o")),
                ("holds", &self.holds("e")),
                ("limit", &number(limit)),
                ("hint", &Fragment::text(hint)),
            ],
        )
    }
}

fn number(number: usize) -> Fragment {
    Fragment::value(i64::try_from(number).unwrap_or(i64::MAX))
}

/// What a claim writes.
fn lease(backend: DbBackend, clock: &Clock, request: &Request) -> Fragment {
    Fragment::fill(
        "lease_token = {token}, lease_until = {until}, leased_by = {name}, claims = claims + 1",
        &[
            ("token", &Fragment::value(request.token)),
            (
                "until",
                &clock.after(backend, &Fragment::value(span(backend, request.lease))),
            ),
            ("name", &Fragment::value(request.name.as_str())),
        ],
    )
}

/// PostgreSQL: everything in one statement. `heads` and `locked` lock what they return, so the UPDATE waits for nothing.
fn postgres(names: &TableNames, clock: &Clock, request: &Request) -> Statement {
    let parts = Parts::new(names, clock, request);
    Fragment::fill(
        "WITH heads AS MATERIALIZED (\
         \n  {heads}\
         \n  FOR NO KEY UPDATE OF o SKIP LOCKED\
         \n), lanes AS (\
         \n  SELECT h.sequence, CAST(1 AS bigint) AS position FROM heads AS h WHERE h.ordering_key IS NULL\
         \n  UNION ALL\
         \n  SELECT l.sequence, l.position FROM heads AS h CROSS JOIN LATERAL (\
         \n    SELECT s.sequence, row_number() OVER (ORDER BY s.sequence) AS position,\
         \n      bool_and(s.claimable) OVER (ORDER BY s.sequence) AS unbroken\
         \n    FROM (\
         \n      SELECT e.sequence, ({claimable_e}) AS claimable FROM {table} AS e\
         \n      WHERE e.ordering_key = h.ordering_key AND e.sequence >= h.sequence AND {holds}\
         \n      ORDER BY e.sequence LIMIT {lane_length}\
         \n    ) AS s\
         \n  ) AS l WHERE l.unbroken\
         \n), chosen AS MATERIALIZED (\
         \n  SELECT l.sequence, l.position FROM lanes AS l ORDER BY l.sequence LIMIT {limit}\
         \n), locked AS MATERIALIZED (\
         \n  SELECT o.sequence FROM {table} AS o\
         \n  WHERE o.sequence = ANY (ARRAY(SELECT c.sequence FROM chosen AS c)) AND {claimable_o}\
         \n  FOR NO KEY UPDATE OF o SKIP LOCKED\
         \n), claimed AS (\
         \n  UPDATE {table} AS o SET {lease}\
         \n  WHERE o.sequence = ANY (ARRAY(SELECT l.sequence FROM locked AS l))\
         \n  RETURNING o.*\
         \n)\
         \nSELECT {columns}, p.position AS hare_position, {now} AS hare_claimed_at\
         \nFROM claimed AS c JOIN chosen AS p ON p.sequence = c.sequence",
        &[
            ("heads", &parts.heads(request.limit)),
            ("claimable_e", &parts.claimable("e")),
            ("claimable_o", &parts.claimable("o")),
            ("holds", &parts.holds("e")),
            ("table", &names.table),
            ("lane_length", &number(request.lane_length)),
            ("limit", &number(request.limit)),
            ("lease", &lease(names.backend, clock, request)),
            ("columns", &names.columns(Some("c"))),
            ("now", &parts.now),
        ],
    )
    .into_statement(names.backend)
}

/// SQLite: one statement, which takes the database's write lock before it reads. The span of a lane ends at its
/// `lane_length`-th event, found by a probe of the lane index.
fn sqlite(names: &TableNames, clock: &Clock, request: &Request) -> Statement {
    let parts = Parts::new(names, clock, request);
    Fragment::fill(
        "WITH heads AS MATERIALIZED (\
         \n  {heads}\
         \n), spans AS (\
         \n  SELECT h.ordering_key, h.sequence AS first, COALESCE((\
         \n    SELECT e.sequence FROM {table} AS e\
         \n    WHERE e.ordering_key = h.ordering_key AND e.sequence >= h.sequence AND {holds}\
         \n    ORDER BY e.sequence LIMIT 1 OFFSET {further}), 9223372036854775807) AS last\
         \n  FROM heads AS h WHERE h.ordering_key IS NOT NULL\
         \n), lanes AS (\
         \n  SELECT e.sequence,\
         \n    MIN({claimable_e}) OVER (PARTITION BY e.ordering_key ORDER BY e.sequence) AS unbroken\
         \n  FROM spans AS s CROSS JOIN {table} AS e\
         \n  WHERE e.ordering_key = s.ordering_key AND e.sequence BETWEEN s.first AND s.last AND {holds}\
         \n), chosen AS (\
         \n  SELECT h.sequence FROM heads AS h WHERE h.ordering_key IS NULL\
         \n  UNION ALL\
         \n  SELECT l.sequence FROM lanes AS l WHERE l.unbroken\
         \n  ORDER BY 1 LIMIT {limit}\
         \n)\
         \nUPDATE {table} SET {lease}\
         \nWHERE sequence IN (SELECT c.sequence FROM chosen AS c)\
         \nRETURNING {columns}, {now} AS hare_claimed_at",
        &[
            ("heads", &parts.heads(request.limit)),
            ("claimable_e", &parts.claimable("e")),
            ("holds", &parts.holds("e")),
            ("table", &names.table),
            ("further", &number(request.lane_length.saturating_sub(1))),
            ("limit", &number(request.limit)),
            ("lease", &lease(names.backend, clock, request)),
            ("columns", &names.columns(None)),
            ("now", &parts.now),
        ],
    )
    .into_statement(names.backend)
}

/// MariaDB and MySQL: no RETURNING, no lateral query in MariaDB, and a join's range is not read from an index. So heads are
/// locked, their lanes read without locks, followers locked and looked at again, and all of them leased and read.
async fn claim_in_steps<M: OutboxEvent>(
    transaction: &DatabaseTransaction,
    names: &TableNames,
    clock: &Clock,
    request: &Request,
) -> Result<Vec<Row<M>>, DbErr> {
    let parts = Parts::new(names, clock, request);
    let heads = transaction
        .query_all_raw(mysql_heads(&parts, request.limit))
        .await?
        .iter()
        .map(|row| Ok((row.try_get("", "sequence")?, row.try_get("", "ordering_key")?)))
        .collect::<Result<Vec<(i64, Option<String>)>, DbErr>>()?;
    let chosen = choose_in_steps(transaction, &parts, request, &heads).await?;

    let followers: Vec<i64> = chosen
        .iter()
        .filter(|place| place.position > 1)
        .map(|place| place.sequence)
        .collect();
    let mut taken: Vec<i64> = chosen
        .iter()
        .filter(|place| place.position == 1)
        .map(|place| place.sequence)
        .collect();
    for chunk in followers.chunks(CHUNK) {
        for row in transaction.query_all_raw(mysql_lock(&parts, chunk)).await? {
            taken.push(row.try_get("", "sequence")?);
        }
    }
    taken.sort_unstable();

    let mut rows = Vec::with_capacity(taken.len());
    for chunk in taken.chunks(CHUNK) {
        transaction
            .execute_raw(mysql_lease(names, clock, request, chunk))
            .await?;
        for row in transaction.query_all_raw(mysql_read(&parts, chunk)).await? {
            let sequence: i64 = row.try_get("", "sequence")?;
            let place = chosen.binary_search_by_key(&sequence, |place| place.sequence);
            rows.push(read(&row, place.map_or(0, |index| chosen[index].position))?);
        }
    }
    Ok(rows)
}

/// A row's place in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    sequence: i64,
    position: i64,
}

/// The `limit` lowest places of the lanes behind `heads` (in order), in order.
async fn choose_in_steps(
    transaction: &DatabaseTransaction,
    parts: &Parts<'_>,
    request: &Request,
    heads: &[(i64, Option<String>)],
) -> Result<Vec<Place>, DbErr> {
    let mut chosen: Vec<Place> = heads
        .iter()
        .map(|(sequence, _)| Place {
            sequence: *sequence,
            position: 1,
        })
        .collect();
    if request.lane_length > 1 {
        let keyed: Vec<(i64, &str)> = heads
            .iter()
            .filter_map(|(at, key)| Some((*at, key.as_deref()?)))
            .collect();
        for chunk in keyed.chunks(lanes_per_statement(parts)) {
            // What would only be cut off again is not read.
            let chunk: Vec<_> = match chosen.get(request.limit.saturating_sub(1)) {
                Some(last) => chunk
                    .iter()
                    .filter(|(head, _)| *head < last.sequence)
                    .copied()
                    .collect(),
                None => chunk.to_vec(),
            };
            if chunk.is_empty() {
                break;
            }
            let rows = transaction
                .query_all_raw(mysql_lanes(parts, request.lane_length, &chunk))
                .await?;
            let rows = rows
                .iter()
                .map(|row| {
                    Ok((
                        row.try_get("", "lane")?,
                        row.try_get("", "sequence")?,
                        row.try_get("", "claimable")?,
                    ))
                })
                .collect::<Result<Vec<(i64, i64, i64)>, DbErr>>()?;
            chosen.extend(followers(rows));
            chosen.sort_unstable();
            chosen.truncate(request.limit);
        }
    }
    Ok(chosen)
}

/// What follows the head in each lane, up to the first row that is not claimable, of rows (lane, sequence, claimable).
fn followers(mut rows: Vec<(i64, i64, i64)>) -> Vec<Place> {
    rows.sort_unstable();
    let mut places = Vec::new();
    for lane in rows.chunk_by(|a, b| a.0 == b.0) {
        let unbroken = lane
            .iter()
            .zip(1..)
            .take_while(|((_, _, claimable), _)| *claimable != 0);
        places.extend(unbroken.skip(1).map(|((_, sequence, _), position)| Place {
            sequence: *sequence,
            position,
        }));
    }
    places
}

/// How many lanes one statement reads: 64, or fewer where many topics are named, because each lane binds them all and a statement
/// of MySQL binds at most 65,535 values. A power of two, as lanes are padded to one.
fn lanes_per_statement(parts: &Parts<'_>) -> usize {
    const MOST_LANES: usize = 64;
    const MOST_VALUES: usize = 60_000;
    let lane = 4 + parts.claimable("e").values();
    1 << (MOST_VALUES / lane).clamp(1, MOST_LANES).ilog2()
}

fn mysql_heads(parts: &Parts<'_>, limit: usize) -> Statement {
    // The subquery is not locking: it reads committed rows, skipping none.
    Fragment::fill(
        "{heads} FOR UPDATE SKIP LOCKED",
        &[("heads", &parts.heads(limit))],
    )
    .into_statement(parts.names.backend)
}

/// Reads the lanes behind some heads, without locks: one index range each. Padded to few lengths with lanes of no key.
fn mysql_lanes(parts: &Parts<'_>, lane_length: usize, heads: &[(i64, &str)]) -> Statement {
    let heads = heads.iter().map(|(head, key)| (*head, Some((*key).to_owned())));
    let padding = std::iter::repeat((0, None));
    let lanes = heads
        .clone()
        .chain(padding)
        .take(heads.len().next_power_of_two())
        .zip(0_i64..)
        .map(|((head, key), lane)| {
            Fragment::fill(
                "(SELECT {lane} AS lane, e.sequence, ({claimable}) AS claimable FROM {table} AS e\
             \n  WHERE e.ordering_key = {key} AND e.sequence >= {head} AND {holds}\
             \n  ORDER BY e.sequence LIMIT {lane_length})",
                &[
                    ("lane", &Fragment::value(lane)),
                    ("claimable", &parts.claimable("e")),
                    ("table", &parts.names.table),
                    ("key", &Fragment::value(Value::String(key))),
                    ("head", &Fragment::value(head)),
                    ("holds", &parts.holds("e")),
                    ("lane_length", &number(lane_length)),
                ],
            )
        });
    Fragment::joined("\nUNION ALL\n", lanes).into_statement(parts.names.backend)
}

/// Locks the followers that are still claimable, as they are now.
fn mysql_lock(parts: &Parts<'_>, sequences: &[i64]) -> Statement {
    Fragment::fill(
        "SELECT o.sequence FROM {table} AS o FORCE INDEX (PRIMARY)\
         \nWHERE o.sequence IN ({sequences}) AND {claimable}\
         \nFOR UPDATE SKIP LOCKED",
        &[
            ("table", &parts.names.table),
            ("sequences", &padded(sequences)),
            ("claimable", &parts.claimable("o")),
        ],
    )
    .into_statement(parts.names.backend)
}

/// Leases rows that this transaction has locked. `FORCE INDEX`: on a small table the optimizer would scan, lock and wait for
/// all of its rows.
fn mysql_lease(names: &TableNames, clock: &Clock, request: &Request, sequences: &[i64]) -> Statement {
    Fragment::fill(
        "UPDATE {table} FORCE INDEX (PRIMARY) SET {lease}\nWHERE sequence IN ({sequences})",
        &[
            ("table", &names.table),
            ("lease", &lease(names.backend, clock, request)),
            ("sequences", &padded(sequences)),
        ],
    )
    .into_statement(names.backend)
}

fn mysql_read(parts: &Parts<'_>, sequences: &[i64]) -> Statement {
    Fragment::fill(
        "SELECT {columns}, {now} AS hare_claimed_at FROM {table} FORCE INDEX (PRIMARY)\nWHERE sequence IN ({sequences})",
        &[
            ("columns", &parts.names.columns(None)),
            ("now", &parts.now),
            ("table", &parts.names.table),
            ("sequences", &padded(sequences)),
        ],
    )
    .into_statement(parts.names.backend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox;
    use crate::outbox::topics::TopicPattern;

    fn request() -> Request {
        Request {
            limit: 100,
            lane_length: 25,
            topics: TopicFilter {
                included: Some(vec![TopicPattern::Name("shop.order.created".to_owned())]),
                excluded: vec![TopicPattern::Prefix("shop.test.".to_owned())],
            },
            narrowing: Narrowing::Without(Vec::new()),
            lease: Duration::from_secs(60),
            name: "host:1:a".to_owned(),
            token: Uuid::nil(),
        }
    }

    #[test]
    fn reviewed_sql_postgres() {
        let names = TableNames::of::<outbox::Entity>(DbBackend::Postgres);
        insta::assert_snapshot!(postgres(&names, &Clock::default(), &request()).sql);
    }

    #[test]
    fn reviewed_sql_sqlite() {
        let names = TableNames::of::<outbox::Entity>(DbBackend::Sqlite);
        insta::assert_snapshot!(sqlite(&names, &Clock::default(), &request()).sql);
    }

    #[test]
    fn reviewed_sql_mysql() {
        let names = TableNames::of::<outbox::Entity>(DbBackend::MySql);
        let (clock, request) = (Clock::default(), request());
        let parts = Parts::new(&names, &clock, &request);
        let steps = [
            mysql_heads(&parts, request.limit),
            mysql_lanes(&parts, request.lane_length, &[(1, "a")]),
            mysql_lock(&parts, &[2, 3]),
            mysql_lease(&names, &clock, &request, &[1, 2]),
            mysql_read(&parts, &[1, 2]),
        ];
        insta::assert_snapshot!(steps.map(|step| step.sql).join("\n\n-- next step\n"));
    }

    #[test]
    fn a_narrowing_is_one_more_condition_wherever_a_row_is_looked_at() {
        let topics = ["a", "b", "c"].map(str::to_owned).to_vec();
        let with = |narrowing| Request {
            narrowing,
            ..request()
        };
        let (only, without) = (
            with(Narrowing::Only(topics.clone())),
            with(Narrowing::Without(topics)),
        );
        let (clock, plain) = (Clock::default(), request());
        let postgres = |request| {
            let names = TableNames::of::<outbox::Entity>(DbBackend::Postgres);
            let sql = postgres(&names, &clock, request).sql;
            sql.replace(|letter: char| letter.is_ascii_digit(), "")
        };
        for (of, times) in [("o", 2), ("e", 1)] {
            for (request, operator) in [(&only, "IN"), (&without, "NOT IN")] {
                let condition = format!(" AND {of}.topic {operator} ($, $, $, $)");
                assert_eq!(postgres(request).matches(&condition).count(), times);
                assert!(!postgres(&plain).contains(&condition));
            }
        }
        let sqlite = |request| {
            let names = TableNames::of::<outbox::Entity>(DbBackend::Sqlite);
            sqlite(&names, &clock, request).sql
        };
        for of in ["o", "e"] {
            assert!(sqlite(&only).contains(&format!(" AND +{of}.topic IN (?, ?, ?, ?)")));
            assert!(sqlite(&without).contains(&format!(" AND +{of}.topic NOT IN (?, ?, ?, ?)")));
        }
        let names = TableNames::of::<outbox::Entity>(DbBackend::MySql);
        for (request, operator) in [(&only, "IN"), (&without, "NOT IN")] {
            let parts = Parts::new(&names, &clock, request);
            for (of, step) in [
                ("o", mysql_heads(&parts, 1)),
                ("e", mysql_lanes(&parts, 2, &[(1, "a")])),
                ("o", mysql_lock(&parts, &[2])),
            ] {
                assert!(
                    step.sql
                        .contains(&format!(" AND CONCAT({of}.topic) {operator} (?, ?, ?, ?)"))
                );
            }
        }
    }

    #[test]
    fn a_statement_reads_no_more_lanes_than_it_can_bind() {
        let names = TableNames::of::<outbox::Entity>(DbBackend::MySql);
        let lanes = |topics: usize| {
            let topic = |number| TopicPattern::Name(format!("topic.{number}"));
            let topics = TopicFilter {
                included: Some((0..topics).map(topic).collect()),
                excluded: vec![],
            };
            let request = Request { topics, ..request() };
            let clock = Clock::default();
            let parts = Parts::new(&names, &clock, &request);
            let lanes = lanes_per_statement(&parts);
            let statement = mysql_lanes(&parts, 25, &vec![(1, "key"); lanes]);
            let values = statement.values.map_or(0, |values| values.0.len());
            assert!(values <= 65_535, "{values} for {lanes} lanes");
            lanes
        };
        assert_eq!(
            [lanes(1), lanes(900), lanes(1_200), lanes(40_000)],
            [64, 64, 32, 1]
        );
    }

    #[test]
    fn a_lane_ends_before_the_first_row_that_is_not_claimable() {
        let rows = vec![
            (1, 12, 1),
            (0, 10, 1),
            (0, 11, 1),
            (0, 13, 0),
            (0, 14, 1),
            (1, 15, 1),
            (2, 16, 0),
        ];
        let places = [(11, 2), (15, 2)].map(|(sequence, position)| Place { sequence, position });
        assert_eq!(followers(rows), places);
    }
}
