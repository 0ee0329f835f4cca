//! The events of a write: made from its changes, written with one INSERT.

use sea_orm::DbErr;
use sea_orm::prelude::DateTimeUtc;

use crate::capture::declaration::CapturedEntity;
use crate::capture::envelope::Change;
use crate::connection::Conn;
use crate::error::Error;
use crate::outbox::OutboxEntity;
use crate::store;
use crate::store::insert::NewEvent;
use crate::transaction::Signalled;

/// The events of these changes, in order, with one moment for all of them. Made before any await, so that no row is borrowed
/// over one.
///
/// # Errors
/// [`Error::Validation`] if a value cannot be told.
pub(crate) fn events_of<E: CapturedEntity>(changes: &[Change<'_, E>]) -> Result<Vec<NewEvent>, Error> {
    let occurred_at: DateTimeUtc = chrono::Utc::now();
    changes.iter().map(|change| change.event(occurred_at)).collect()
}

/// Writes the events of a write to the outbox of its entity.
pub(crate) async fn write_events<E: CapturedEntity>(
    conn: Conn<'_>,
    events: Result<Vec<NewEvent>, Error>,
) -> Result<Signalled, DbErr> {
    let events = events?;
    store::insert::insert::<E::Outbox>(conn, &events)
        .await
        .map_err(|source| Error::database("writing the event of a captured write", source))?;
    let mut signalled = Signalled::default();
    if let Some(wakeup) = E::Outbox::wakeup() {
        signalled.add(&wakeup, events.into_iter().map(|event| event.topic));
    }
    Ok(signalled)
}
