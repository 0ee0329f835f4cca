//! The events of a write: made from its changes, written with one INSERT.

use futures_util::future::BoxFuture;
use sea_orm::DbErr;
use sea_orm::prelude::DateTimeUtc;

use crate::capture::declaration::CapturedEntity;
use crate::capture::envelope::Change;
use crate::connection::Conn;
use crate::error::Error;
use crate::outbox::OutboxEntity;
use crate::store;
use crate::transaction::Signalled;

/// What a write gave, and the signals of its events.
#[derive(Debug)]
pub(crate) struct Written<T> {
    pub(crate) value: T,
    pub(crate) signalled: Signalled,
}

impl<T> Written<T> {
    /// A write that made no event.
    pub(crate) fn nothing(value: T) -> Self {
        Self {
            value,
            signalled: Signalled::default(),
        }
    }
}

/// Writes the events of these changes, in order, with one moment for all of them.
///
/// The events are made at once and only written when awaited, so that no row is borrowed over an await.
///
/// # Errors
/// [`Error::Validation`] before anything is written if a value cannot be told; else what the INSERT failed with.
pub(crate) fn write_events<'c, E: CapturedEntity>(
    conn: Conn<'c>,
    changes: &[Change<'_, E>],
) -> BoxFuture<'c, Result<Signalled, DbErr>> {
    let occurred_at: DateTimeUtc = chrono::Utc::now();
    let events = changes
        .iter()
        .map(|change| change.event(occurred_at))
        .collect::<Result<Vec<_>, Error>>();
    Box::pin(async move {
        let events = events?;
        store::insert::insert::<E::Outbox>(conn, &events)
            .await
            .map_err(|source| Error::database("writing the event of a captured write", source))?;
        let mut signalled = Signalled::default();
        if let Some(wakeup) = E::Outbox::wakeup() {
            signalled.add(&wakeup, events.into_iter().map(|event| event.topic));
        }
        Ok(signalled)
    })
}
