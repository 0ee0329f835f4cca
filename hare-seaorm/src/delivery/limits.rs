//! What a batch delivery must keep to: how much at once, for how long, and when to begin nothing more.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// How much of a batch may be under way at once, for how long, and whether to begin anything more.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BatchLimits {
    /// Sends under way at once.
    pub concurrency: usize,
    /// The longest one send may take, or a whole batch where the transport takes it at once.
    pub timeout: Duration,
    /// How much longer than its events can take a call may last.
    pub(super) grace: Duration,
    stop: Stop,
}

impl BatchLimits {
    /// These limits, without a relay that could stop.
    pub fn new(concurrency: usize, timeout: Duration) -> Self {
        Self {
            concurrency,
            timeout,
            grace: Duration::from_secs(1),
            stop: Stop::default(),
        }
    }

    /// The limits of a call within a call: it is given up earlier, so that its neighbours' answers are not lost with it.
    pub(super) fn inside(&self) -> Self {
        Self {
            grace: self.grace / 2,
            ..self.clone()
        }
    }

    pub(crate) fn until(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// Whether the relay stops: what was begun may end, for the rest the answer is
    /// [`DeliveryError::not_begun`](super::DeliveryError::not_begun).
    pub fn is_stopping(&self) -> bool {
        self.stop.is_requested()
    }
}

/// A request to stop, seen by everything that one run of a relay does. Clones share it; it is never taken back.
#[derive(Debug, Clone)]
pub(crate) struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Stop {
    pub(crate) fn request(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is requested.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn requested(&self) {
        let mut watched = self.0.subscribe();
        // Only fails once every sender is gone, and `self` is one.
        drop(watched.wait_for(|requested| *requested).await);
    }
}
