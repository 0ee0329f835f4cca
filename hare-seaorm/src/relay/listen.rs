//! Listening to a wakeup, and trying again when that fails.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use sea_orm::DatabaseConnection;
use tokio::time::Instant;

use crate::wakeup::{OutboxWakeup, Signals, WakeupError};

/// The waits after a failure, until it is given up at the one after the last.
const WAITS: [Duration; 4] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

/// The wait between tries once it is given up.
const GIVEN_UP: Duration = Duration::from_secs(60);

/// A listener that lasted this long was healthy: its end is a first failure.
const HEALTHY: Duration = Duration::from_secs(60);

/// Listens for as long as it is polled. A listener that fails is started again; after five failures in a row the relay only
/// polls, and tries again every minute.
///
/// # Cancel safety
/// Cancel safe: dropping it unsubscribes.
pub(super) async fn listen(wakeup: &dyn OutboxWakeup, db: &DatabaseConnection, signals: &Signals) -> Infallible {
    let mut failures = 0;
    loop {
        let started = Instant::now();
        let error = match AssertUnwindSafe(wakeup.listen(db, signals)).catch_unwind().await {
            Ok(Err(error)) => error,
            Ok(Ok(())) => WakeupError::new("the listener ended"),
            Err(_) => WakeupError::new("the listener panicked"),
        };
        failures = if started.elapsed() >= HEALTHY { 1 } else { failures + 1 };
        let wait = wait_after(failures, &error);
        tokio::time::sleep(wait).await;
        // What was signalled in between went by unheard.
        signals.merge(&[]);
    }
}

/// Says that it failed, and how long to wait.
fn wait_after(failures: usize, error: &WakeupError) -> Duration {
    let error = error as &dyn std::error::Error;
    match WAITS.get(failures - 1) {
        Some(wait) => {
            tracing::warn!(error, "listening for new events failed, trying again in {wait:?}");
            *wait
        }
        None if failures == WAITS.len() + 1 => {
            tracing::error!(error, "listening for new events failed {failures} times: the relay only polls");
            GIVEN_UP
        }
        None => {
            tracing::debug!(error, "listening for new events still fails");
            GIVEN_UP
        }
    }
}
