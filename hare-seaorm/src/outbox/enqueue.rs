//! Writing an event of one's own.

use sea_orm::{ConnectionTrait, DbBackend};

use super::entity::{Entity, Model};
use super::message::OutboxMessage;
use super::model::{OutboxEntity, OutboxEvent};
use crate::connection::{Conn, Kind, check_driver, uncut, unknown_connection};
use crate::error::Error;
use crate::store;
use crate::transaction::{Signalled, deliver_signals};

/// An event that [`enqueue`] wrote.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Enqueued<M> {
    /// The event as it is stored.
    pub event: M,
}

/// Writes an event on `db`: in a transaction it shares that one's fate, on a pool it commits at once.
///
/// Relays are woken after the commit: by a [`Transaction`](crate::Transaction) of ours, or at once on a pool. In a plain SeaORM
/// transaction, whose commit nobody else sees, only a wakeup that the database carries is told.
///
/// # Errors
/// [`Error::Validation`] before anything is written: topic or ordering key empty or longer than 255 characters, an id that is
/// not of version 7, on PostgreSQL a NUL in any text. [`Error::Integrity`] if the id exists already. On PostgreSQL a statement
/// that fails ends the surrounding transaction, as any does.
/// # Cancel safety
/// Dropped half-way on a pool, the event may be written all the same.
pub async fn enqueue<C: ConnectionTrait>(db: &C, message: OutboxMessage) -> Result<Enqueued<Model>, Error> {
    let conn = Conn::new(db);
    if let Kind::Unknown(type_name) = conn.kind() {
        return Err(unknown_connection(type_name));
    }
    check_driver(conn.backend())?;
    let wakeup = message.own_wakeup().or_else(Entity::wakeup);
    if let Some(wakeup) = &wakeup {
        wakeup.check(conn.backend())?;
    }
    let event = message.into_event(conn.backend() == DbBackend::Postgres)?;
    let stored = match conn.kind() {
        Kind::Pool(pool) => {
            let pool = pool.clone();
            uncut(async move { store::insert::insert_returning::<Entity>(Conn::new(&pool), &event).await })
                .await
        }
        _ => store::insert::insert_returning::<Entity>(conn, &event).await,
    };
    let stored = stored.map_err(|source| Error::database("writing an event", source))?;
    let mut signalled = Signalled::default();
    if let Some(wakeup) = &wakeup {
        signalled.add(wakeup, [stored.topic().to_owned()]);
    }
    match conn.kind() {
        Kind::Pool(_) => signalled.send().await,
        _ => deliver_signals(conn, signalled)
            .await
            .map_err(|source| Error::database("signalling relays", source))?,
    }
    Ok(Enqueued { event: stored })
}
