//! Telling an application what became of its events.
//!
//! Invariant: a report follows the stored outcome, when every lease of its batch is settled: an observer that reads the row sees
//! what it is told, and one that is slow, or panics, holds back the next poll at most and no event.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use crate::delivery::panic_text;

/// Is told what became of each event, for metrics and alarms. Every method does nothing by default.
///
/// The reports of a poll come one after the other when all of its outcomes are stored. They are awaited: the next poll begins
/// after them. Together they may take as long as the relay's `delivery_timeout`; what is not told by then is dropped and logged. A
/// panic is logged too and stops nothing. Each outcome is reported by the relay that recorded it; a relay that dies between
/// storing and telling reports nothing.
///
/// ```
/// use hare_seaorm::relay::{DeadLettered, RelayObserver};
///
/// struct Alarm;
///
/// #[async_trait::async_trait]
/// impl RelayObserver for Alarm {
///     async fn dead_lettered(&self, report: &DeadLettered) {
///         eprintln!("event {:?} of {} was given up: {}", report.event_id, report.topic, report.error);
///     }
/// }
/// # fn is_observer(_: impl RelayObserver) {} is_observer(Alarm);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `RelayObserver`",
    note = "implement the trait with `#[async_trait]`; every method has a default"
)]
#[async_trait::async_trait]
pub trait RelayObserver: Send + Sync + 'static {
    /// An event was delivered, and is recorded as published: by this relay, or by another that delivered it too and was first.
    async fn delivered(&self, report: &Delivered) {
        let _ = report;
    }

    /// A delivery failed and will be tried again.
    async fn failed(&self, report: &Failed) {
        let _ = report;
    }

    /// A delivery failed for the last time.
    async fn dead_lettered(&self, report: &DeadLettered) {
        let _ = report;
    }
}

/// A delivery that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivered {
    /// The name of the outbox table.
    pub outbox: &'static str,
    /// The event's place in the order of delivery.
    pub sequence: i64,
    /// The event's id.
    pub event_id: Uuid,
    /// Its topic.
    pub topic: String,
    /// Its ordering key.
    pub ordering_key: Option<String>,
    /// How often it had failed before.
    pub attempts: i32,
    /// How long after it was written the outcome was stored.
    pub delay: Duration,
}

/// A delivery that failed and will be tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failed {
    /// The name of the outbox table.
    pub outbox: &'static str,
    /// The event's place in the order of delivery.
    pub sequence: i64,
    /// The event's id; `None` if the row cannot be read.
    pub event_id: Option<Uuid>,
    /// Its topic; empty if that cannot be read.
    pub topic: String,
    /// Its ordering key.
    pub ordering_key: Option<String>,
    /// How often it has failed, this time included.
    pub attempts: i32,
    /// How long after it was written the outcome was stored; `None` if the row cannot be read.
    pub delay: Option<Duration>,
    /// The error's text, as in the row's `last_error`.
    pub error: String,
    /// The wait until the event is due again; the relay's next poll finds it then.
    pub retry_after: Duration,
}

/// A delivery that failed for the last time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLettered {
    /// The name of the outbox table.
    pub outbox: &'static str,
    /// The event's place in the order of delivery.
    pub sequence: i64,
    /// The event's id; `None` if the row cannot be read.
    pub event_id: Option<Uuid>,
    /// Its topic; empty if that cannot be read.
    pub topic: String,
    /// Its ordering key.
    pub ordering_key: Option<String>,
    /// How often it has failed, this time included.
    pub attempts: i32,
    /// How long after it was written the outcome was stored; `None` if the row cannot be read.
    pub delay: Option<Duration>,
    /// The error's text, as in the row's `last_error`.
    pub error: String,
    /// Whether its key goes on without it.
    pub releases_key: bool,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    Delivered(Delivered),
    Failed(Failed),
    DeadLettered(DeadLettered),
}

/// Tells an observer, within `limit` for all.
///
/// # Cancel safety
/// Dropped half-way, the rest is not told.
pub(super) async fn tell(
    observer: &dyn RelayObserver,
    outbox: &'static str,
    reports: &[Report],
    limit: Duration,
) {
    let until = Instant::now() + limit;
    for (told, report) in reports.iter().enumerate() {
        let telling = AssertUnwindSafe(async {
            match report {
                Report::Delivered(report) => observer.delivered(report).await,
                Report::Failed(report) => observer.failed(report).await,
                Report::DeadLettered(report) => observer.dead_lettered(report).await,
            }
        });
        match timeout_at(until, telling.catch_unwind()).await {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => log_panic(outbox, &*panic),
            Err(_) => {
                let untold = reports.len() - told;
                tracing::warn!(name: "hare.observer_too_slow", outbox, untold, "the observer took longer than {limit:?}");
                return;
            }
        }
    }
}

fn log_panic(outbox: &'static str, panic: &(dyn Any + Send)) {
    let error = panic_text(panic);
    tracing::warn!(name: "hare.observer_panicked", outbox, error, "the observer panicked");
}
