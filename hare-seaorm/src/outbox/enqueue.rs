//! Writing events of one's own.

use std::sync::Arc;

use sea_orm::{ConnectionTrait, DbBackend, DbErr};

use super::idempotency;
use super::message::OutboxMessage;
use super::model::{OutboxEntity, OutboxEvent};
use crate::connection::{Conn, Kind, check_driver, in_own_transaction, uncut, unknown_connection};
use crate::error::Error;
use crate::store::insert::NewEvent;
use crate::transaction::{Signalled, Written, atomic, deliver_signals};
use crate::wakeup::OutboxWakeup;

const DURING: &str = "writing an event";

/// An event that [`enqueue`] or [`enqueue_many`] was asked to write.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Enqueued<M> {
    /// The event as it is stored.
    pub event: M,
    /// Whether this call wrote it. Otherwise its idempotency key was taken, and it is the event that holds the key, unchanged.
    pub is_new: bool,
}

/// Writes an event on `db`: in a transaction it shares that one's fate, on a pool it commits at once.
///
/// With an [idempotency key](OutboxMessage::idempotency_key) that an event has already, nothing is written and that event is
/// given back: no error, so the surrounding transaction goes on. While another transaction is writing an event under the same
/// key, the call waits for its end: it gives that event back, or writes its own if the other rolled back. None of the entity's
/// hooks run.
///
/// Relays are woken after the commit: by a [`Transaction`](crate::Transaction) of ours, or at once on a pool. In a plain SeaORM
/// transaction, whose commit nobody else sees, only a wakeup that the database carries is told. An event that was there already
/// wakes nobody.
///
/// # Errors
/// Before anything is written: [`Error::Validation`] for a topic or key that is empty or longer than 255 characters, an id that is
/// not of version 7, a column that is the library's, and, on PostgreSQL, a NUL in any text; [`Error::Config`] if the table keeps
/// idempotency keys apart by no unique key, or takes two for one that are not the same to the letter, or the wakeup does not fit the
/// database.
///
/// [`Error::Integrity`] if another unique or foreign key of the table refuses the event (its id, a column of your own), or if the
/// idempotency key is held by an event that this transaction cannot see, because it was committed after the transaction's
/// snapshot; then the error [is retryable](Error::is_retryable). [`Error::Retryable`] after a deadlock. If the database lets no
/// statement wait any longer for a key that another transaction is writing, the error is retryable, too. On PostgreSQL a statement
/// that fails ends the surrounding transaction, as any does; a key that is taken does not.
/// # Cancel safety
/// Dropped half-way on a pool, the event may be written all the same.
pub async fn enqueue<C, E>(db: &C, message: OutboxMessage<E>) -> Result<Enqueued<E::Model>, Error>
where
    C: ConnectionTrait,
    E: OutboxEntity,
{
    let conn = Conn::new(db);
    let Prepared { events, wakeups } = Prepared::of(conn, [message])?;
    let mut written = match conn.kind() {
        Kind::Pool(pool) => {
            let written = if conn.backend() == DbBackend::MySql {
                // There the event is read back by a second statement, whose failure must not leave an event that the caller
                // takes for unwritten, and writes again.
                in_own_transaction(pool, None, move |transaction| {
                    Box::pin(
                        async move { Ok(idempotency::write::<E>(Conn::own(transaction), &events).await?) },
                    )
                })
                .await
            } else {
                let pool = pool.clone();
                uncut(async move { Ok(idempotency::write::<E>(Conn::new(&pool), &events).await?) }).await
            };
            written.map_err(|source| Error::database(DURING, source))?
        }
        _ => idempotency::write::<E>(conn, &events).await?,
    };
    let signalled = signals(&written, &wakeups);
    match conn.kind() {
        Kind::Pool(_) => signalled.send().await,
        _ => deliver_signals(conn, signalled)
            .await
            .map_err(|source| Error::database("signalling relays", source))?,
    }
    written
        .pop()
        .ok_or_else(|| Error::database(DURING, DbErr::RecordNotInserted))
}

/// Writes several events, all or none of them, and answers for each in the order of the messages.
///
/// As [`enqueue`] for each, with few statements: one INSERT for each run of messages that are alike (with an idempotency key or
/// without, with the same columns of your own), and one SELECT for all events whose keys were taken. Sequences follow the order
/// of the messages, so the events of an ordering key are delivered in it. Two messages with the same idempotency key are one
/// event. On a pool it is a transaction of its own, in a transaction a savepoint: if it fails there, nothing of it is left and the
/// transaction goes on. No messages: nothing happens.
///
/// Keys are taken in the order of the messages. Two calls that take the same keys in different orders may deadlock; one of them
/// then gets [`Error::Retryable`].
///
/// ```no_run
/// # use hare_seaorm::{Error, OutboxMessage, outbox};
/// # async fn write(db: sea_orm::DatabaseConnection, paid: Vec<i64>) -> Result<(), Error> {
/// // A message that cannot be made is an error before any is written.
/// let messages = paid
///     .iter()
///     .map(|id| Ok(OutboxMessage::new("billing.invoice.paid", id)?.ordering_key(format!("invoice:{id}"))))
///     .collect::<Result<Vec<_>, Error>>()?;
/// outbox::enqueue_many(&db, messages).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`enqueue`]; every message is checked before anything is written.
/// # Cancel safety
/// Dropped half-way on a pool, all or none of it is written. In a [`Transaction`](crate::Transaction) of ours, that one can then
/// only be rolled back; in a plain one some events may be written and others not, so roll it back.
pub async fn enqueue_many<C, E>(
    db: &C,
    messages: impl IntoIterator<Item = OutboxMessage<E>> + Send,
) -> Result<Vec<Enqueued<E::Model>>, Error>
where
    C: ConnectionTrait,
    E: OutboxEntity,
{
    let conn = Conn::new(db);
    let Prepared { events, wakeups } = Prepared::of(conn, messages)?;
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let write = atomic(conn, move |conn| {
        Box::pin(async move {
            let written = idempotency::write::<E>(conn, &events).await?;
            let signalled = signals(&written, &wakeups);
            Ok(Written {
                value: written,
                signalled,
            })
        })
    });
    write
        .await
        .map_err(|source| Error::database("writing events", source))
}

/// Messages with everything checked that can be checked without the database, and who is told of each.
struct Prepared {
    events: Vec<NewEvent>,
    wakeups: Vec<Option<Arc<dyn OutboxWakeup>>>,
}

impl Prepared {
    fn of<E: OutboxEntity>(
        conn: Conn<'_>,
        messages: impl IntoIterator<Item = OutboxMessage<E>>,
    ) -> Result<Self, Error> {
        if let Kind::Unknown(type_name) = conn.kind() {
            return Err(unknown_connection(type_name));
        }
        check_driver(conn.backend())?;
        let mut prepared = Self {
            events: Vec::new(),
            wakeups: Vec::new(),
        };
        for message in messages {
            let wakeup = message.wakeup_or_default();
            if let Some(wakeup) = &wakeup {
                wakeup.check(conn.backend())?;
            }
            prepared.wakeups.push(wakeup);
            prepared.events.push(message.into_event(conn.backend())?);
        }
        Ok(prepared)
    }
}

/// The topics of the events that were written now.
fn signals<M: OutboxEvent>(written: &[Enqueued<M>], wakeups: &[Option<Arc<dyn OutboxWakeup>>]) -> Signalled {
    let mut signalled = Signalled::default();
    for (enqueued, wakeup) in written.iter().zip(wakeups) {
        if let Some(wakeup) = wakeup
            && enqueued.is_new
        {
            signalled.add(wakeup, [enqueued.event.topic().to_owned()]);
        }
    }
    signalled
}
