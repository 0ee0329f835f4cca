//! One event per idempotency key, whoever writes it first.
//!
//! Invariant: an event is told to be new only if this call's own INSERT added it, and a key that was taken gives back the event
//! that holds it, or an error. Which of the two it was is told by the database, never by comparing ids. Tested in
//! `tests/it/outbox/idempotency.rs`.
//!
//! How a taken key is met differs: PostgreSQL and SQLite skip a conflict on the declared columns and on no other; MySQL cannot, so
//! there the INSERT fails, which undoes that statement alone, and the key is looked up. On all three the INSERT waits for a
//! transaction that is writing the same key.

use std::collections::{HashMap, HashSet};

use sea_orm::{ColumnTrait, ColumnType, DbBackend, DbErr, IdenStatic, ModelTrait, Value};

use super::enqueue::Enqueued;
use super::message::no_unique_key;
use super::model::{OutboxEntity, OutboxEvent};
use crate::connection::Conn;
use crate::error::{ConfigError, Error, Fault, is_invisible_conflict, is_without_unique_key};
use crate::store::idempotency::{find, is_unique, key_of};
use crate::store::insert::{InsertedNew, NewEvent, insert_new, insert_returning};

const DURING: &str = "writing an event";

/// Writes events in order, and answers for each in place.
pub(super) async fn write<E: OutboxEntity>(
    conn: Conn<'_>,
    events: &[NewEvent],
) -> Result<Vec<Enqueued<E::Model>>, Error> {
    if events.iter().any(|event| event.idempotency_key.is_some()) && conn.backend() == DbBackend::MySql {
        check_unique::<E>(conn).await?;
    }
    let mut written: Vec<Option<E::Model>> = Vec::with_capacity(events.len());
    let mut taken = Vec::new();
    for run in runs(events) {
        let InsertedNew { mut new, mut refused } = insert_run::<E>(conn, run).await?;
        for event in run {
            let new = new.remove(&event.id);
            if new.is_none() {
                taken.push(Taken {
                    event,
                    place: written.len(),
                    refused: refused.remove(&event.id),
                });
            }
            written.push(new);
        }
    }
    let mut holders = holders::<E>(conn, &taken).await?;
    let new: HashMap<i64, usize> = written
        .iter()
        .enumerate()
        .filter_map(|(place, new)| Some((new.as_ref()?.sequence(), place)))
        .collect();
    for taken in &taken {
        let holder = holders.get(&taken.place).map(OutboxEvent::sequence);
        taken.check_holder(holder.and_then(|sequence| new.get(&sequence)))?;
    }
    let answers = written.into_iter().enumerate().map(|(place, new)| match new {
        Some(event) => Ok(Enqueued { event, is_new: true }),
        None => holders
            .remove(&place)
            .map(|event| Enqueued { event, is_new: false })
            .ok_or_else(|| Error::database(DURING, DbErr::RecordNotInserted)),
    });
    answers.collect()
}

/// An event that was not written.
struct Taken<'e> {
    event: &'e NewEvent,
    place: usize,
    /// What the database said, where it says anything.
    refused: Option<DbErr>,
}

impl Taken<'_> {
    /// Refuses a holder that the same call wrote at a later place: another rule than its key's has refused this event.
    fn check_holder(&self, written_at: Option<&usize>) -> Result<(), Error> {
        match (&self.refused, written_at) {
            (Some(refused), Some(place)) if *place > self.place => {
                Err(Error::database(DURING, refused.clone()))
            }
            _ => Ok(()),
        }
    }
}

/// Consecutive events that are alike. None of a run has another's id, by which the run's answers are told apart.
fn runs(events: &[NewEvent]) -> impl Iterator<Item = &[NewEvent]> {
    let mut ids = HashSet::new();
    events.chunk_by(move |event, next| {
        ids.insert(event.id);
        let goes_on = event.is_alike(next) && !ids.contains(&next.id);
        if !goes_on {
            ids.clear();
        }
        goes_on
    })
}

/// Writes events that are alike, and gives those that were written, by their id.
async fn insert_run<E: OutboxEntity>(
    conn: Conn<'_>,
    run: &[NewEvent],
) -> Result<InsertedNew<E::Model>, Error> {
    if run.iter().all(|event| event.idempotency_key.is_none()) {
        return match insert_returning::<E>(conn, run).await {
            Ok(new) => Ok(InsertedNew {
                new,
                refused: HashMap::new(),
            }),
            Err(source) => Err(Error::database(DURING, source)),
        };
    }
    match insert_new::<E>(conn, run).await {
        Ok(inserted) => Ok(inserted),
        Err(source) if is_invisible_conflict(&source) => Err(Error::Integrity {
            reason: "its idempotency key is held by an event that this transaction cannot see, because it was committed after \
                     the transaction's snapshot; run the transaction again"
                .to_owned(),
            source: Some(source),
        }),
        Err(source) if is_without_unique_key(&source) => Err(no_unique_key::<E>().into()),
        Err(source) if conn.backend() == DbBackend::Sqlite && Fault::of(&source).is_none() => {
            check_unique::<E>(conn).await?;
            Err(Error::database(DURING, source))
        }
        Err(source) => Err(Error::database(DURING, source)),
    }
}

/// The events that hold the keys of these, by place.
async fn holders<E: OutboxEntity>(
    conn: Conn<'_>,
    taken: &[Taken<'_>],
) -> Result<HashMap<usize, E::Model>, Error> {
    if taken.is_empty() {
        return Ok(HashMap::new());
    }
    let read = |error| Error::database("reading the event of an idempotency key", error);
    let events: Vec<&NewEvent> = taken.iter().map(|taken| taken.event).collect();
    let found = find::<E>(conn, &events, false).await.map_err(read)?;
    let mut by_key: HashMap<Option<&str>, Vec<&E::Model>> = HashMap::new();
    for stored in &found {
        by_key.entry(stored.idempotency_key()).or_default().push(stored);
    }
    let mut holders = HashMap::with_capacity(taken.len());
    for Taken {
        event,
        place,
        refused,
    } in taken
    {
        let same_key = by_key
            .get(&event.idempotency_key.as_deref())
            .into_iter()
            .flatten();
        if let Some(holder) = same_key.into_iter().find(|stored| holds::<E>(stored, event)) {
            holders.insert(*place, (*holder).clone());
            continue;
        }
        // Written differently than it compares, or committed after this transaction's snapshot.
        let mut found = find::<E>(conn, &[event], true).await.map_err(read)?;
        match (found.pop(), refused) {
            (Some(holder), _) => {
                if let Some(column) = column_that_differs::<E>(&holder, event) {
                    return Err(not_to_the_letter::<E>(column).into());
                }
                holders.insert(*place, holder);
            }
            (None, Some(refused)) => return Err(Error::database(DURING, refused.clone())),
            (None, None) => {
                return Err(Error::Retryable {
                    what: DURING,
                    reason: "the event that held its idempotency key was removed at that moment".to_owned(),
                    source: None,
                });
            }
        }
    }
    Ok(holders)
}

fn holds<E: OutboxEntity>(stored: &E::Model, event: &NewEvent) -> bool {
    key_of::<E>(event).is_some_and(|key| key.iter().all(|part| stored.get(part.column) == part.value))
}

/// The column in which a holder of the event's key is written differently. (A `char` column pads what it holds.)
fn column_that_differs<E: OutboxEntity>(holder: &E::Model, event: &NewEvent) -> Option<&'static str> {
    let parts = key_of::<E>(event)?;
    let differing = parts
        .into_iter()
        .find(|part| match (holder.get(part.column), &part.value) {
            (Value::String(Some(stored)), Value::String(Some(given))) => {
                match part.column.def().get_column_type() {
                    ColumnType::Char(_) => stored.trim_end_matches(' ') != given.trim_end_matches(' '),
                    _ => stored != *given,
                }
            }
            _ => false,
        })?;
    Some(differing.column.as_str())
}

/// That two keys are one to this table: the event of the second would be taken for the first one's, and lost.
fn not_to_the_letter<E: OutboxEntity>(column: &str) -> ConfigError {
    ConfigError::new(format!(
        "the column `{column}` of `{}` takes values for one that are written differently, so an event would be taken for another's: \
         give it a collation that compares to the letter, or write such values in one form",
        E::default().table_name()
    ))
}

async fn check_unique<E: OutboxEntity>(conn: Conn<'_>) -> Result<(), Error> {
    match is_unique::<E>(conn).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(no_unique_key::<E>().into()),
        Err(source) => Err(Error::database("reading the unique keys of the outbox", source)),
    }
}
