//! Listening to a wakeup, and trying again when that fails.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use sea_orm::DatabaseConnection;
use tokio::time::Instant;

use crate::logs::Chain;
use crate::wakeup::{OutboxWakeup, Signals, WakeupError};

/// The waits after a failure, until it is given up at the one after the last.
const WAITS: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// The wait between tries once it is given up.
const GIVEN_UP: Duration = Duration::from_secs(60);

/// A listener that lasted this long was healthy: its end is a first failure.
const HEALTHY: Duration = Duration::from_secs(60);

/// Listens for as long as it is polled. A listener that fails is started again; after five failures in a row the relay only
/// polls, and tries again every minute.
///
/// # Cancel safety
/// Cancel safe: dropping it unsubscribes.
pub(super) async fn listen(
    wakeup: &dyn OutboxWakeup,
    outbox: &'static str,
    db: &DatabaseConnection,
    signals: &Signals,
) -> Infallible {
    let mut failures = 0;
    loop {
        let started = Instant::now();
        let error = match AssertUnwindSafe(wakeup.listen(db, signals)).catch_unwind().await {
            Ok(Err(error)) => error,
            Ok(Ok(())) => WakeupError::new("the listener ended"),
            Err(_) => WakeupError::new("the listener panicked"),
        };
        failures = if started.elapsed() >= HEALTHY {
            1
        } else {
            failures + 1
        };
        let wait = wait_after(failures, outbox, &error);
        tokio::time::sleep(wait).await;
        // What was signalled in between went by unheard.
        signals.merge(&[]);
    }
}

/// Says that it failed, and how long to wait.
fn wait_after(failures: usize, outbox: &'static str, error: &WakeupError) -> Duration {
    let error = tracing::field::display(Chain(error));
    match WAITS.get(failures - 1) {
        Some(wait) => {
            tracing::warn!(name: "hare.listener_failed", outbox, error, "listening for new events failed, trying again in {wait:?}");
            *wait
        }
        None if failures == WAITS.len() + 1 => {
            tracing::error!(
                name: "hare.listener_given_up",
                outbox,
                error,
                failures,
                "listening for new events failed {failures} times: the relay only polls"
            );
            GIVEN_UP
        }
        None => {
            tracing::debug!(name: "hare.listener_still_failing", outbox, error, "listening for new events still fails");
            GIVEN_UP
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;

    /// Fails each time, after `lasts`; keeps when it was tried.
    struct Failing {
        lasts: Duration,
        tries: Mutex<Vec<Instant>>,
    }

    #[async_trait::async_trait]
    impl OutboxWakeup for Failing {
        async fn signal(&self, _: &[String]) -> Result<(), WakeupError> {
            Ok(())
        }
        async fn listen(&self, _: &DatabaseConnection, _: &Signals) -> Result<(), WakeupError> {
            self.tries.lock().unwrap().push(Instant::now());
            tokio::time::sleep(self.lasts).await;
            Err(WakeupError::new("refused"))
        }
    }

    /// Keeps the levels of what is logged.
    #[derive(Clone, Default)]
    struct Levels(Arc<Mutex<Vec<Level>>>);

    impl Subscriber for Levels {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target().starts_with("hare_seaorm")
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            self.0.lock().unwrap().push(*event.metadata().level());
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    /// When it was tried within `time`, in milliseconds, and what was logged.
    async fn tries_within(time: Duration, lasts: Duration) -> (Vec<u128>, Vec<Level>) {
        let levels = Levels::default();
        let _logged = tracing::subscriber::set_default(levels.clone());
        let wakeup = Failing {
            lasts,
            tries: Mutex::default(),
        };
        let start = Instant::now();
        let (db, signals) = (DatabaseConnection::default(), Signals::default());
        assert!(
            tokio::time::timeout(time, listen(&wakeup, "hare_outbox", &db, &signals))
                .await
                .is_err()
        );
        let tries = wakeup
            .tries
            .lock()
            .unwrap()
            .iter()
            .map(|at| at.duration_since(start).as_millis())
            .collect();
        let levels = levels.0.lock().unwrap().clone();
        (tries, levels)
    }

    // catalogue M6
    #[tokio::test(start_paused = true)]
    async fn a_failing_listener_is_given_up_after_five_failures_and_tried_every_minute() {
        let (tries, levels) = tries_within(Duration::from_secs(130), Duration::ZERO).await;
        assert_eq!(tries, [0, 500, 1_500, 3_500, 7_500, 67_500, 127_500]);
        let count = |level| levels.iter().filter(|logged| **logged == level).count();
        assert_eq!((count(Level::WARN), count(Level::ERROR)), (4, 1));
    }

    // catalogue M6
    #[tokio::test(start_paused = true)]
    async fn a_minute_of_health_forgets_earlier_failures() {
        let (tries, levels) = tries_within(Duration::from_secs(700), Duration::from_secs(60)).await;
        assert_eq!(tries.len(), 12, "half a second after each minute: {tries:?}");
        assert!(levels.iter().all(|level| *level == Level::WARN));
    }

    #[tokio::test(start_paused = true)]
    async fn what_went_by_unheard_may_be_anything() {
        let wakeup = Failing {
            lasts: Duration::ZERO,
            tries: Mutex::default(),
        };
        let (db, signals) = (DatabaseConnection::default(), Signals::default());
        let heard = tokio::select! {
            never = listen(&wakeup, "hare_outbox", &db, &signals) => match never {},
            heard = tokio::time::timeout(Duration::from_secs(1), signals.take()) => heard,
        };
        assert!(heard.is_ok_and(|pending| pending.any));
    }
}
