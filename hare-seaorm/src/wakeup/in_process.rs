//! Wakes the relays of this process, from any thread and any runtime.

use std::sync::{Mutex, PoisonError};

use sea_orm::DatabaseConnection;

use super::{OutboxWakeup, Signals, WakeupError};

/// Wakes every relay of this process that listens to it, right after the commit.
///
/// Other processes are not reached: their relays find the events at their poll interval.
#[derive(Debug, Default)]
pub struct InProcessWakeup {
    listeners: Mutex<Vec<Signals>>,
}

impl InProcessWakeup {
    /// A wakeup that nobody listens to yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn listeners(&self) -> std::sync::MutexGuard<'_, Vec<Signals>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes its listener off the list again, also when the listening future is dropped.
struct Subscription<'a> {
    wakeup: &'a InProcessWakeup,
    signals: Signals,
}

impl Drop for Subscription<'_> {
    fn drop(&mut self) {
        self.wakeup
            .listeners()
            .retain(|listener| !listener.is_same(&self.signals));
    }
}

#[async_trait::async_trait]
impl OutboxWakeup for InProcessWakeup {
    async fn signal(&self, topics: &[String]) -> Result<(), WakeupError> {
        for listener in self.listeners().iter() {
            listener.merge(topics);
        }
        Ok(())
    }

    async fn listen(&self, _db: &DatabaseConnection, signals: &Signals) -> Result<(), WakeupError> {
        self.listeners().push(signals.clone());
        let _subscription = Subscription {
            wakeup: self,
            signals: signals.clone(),
        };
        std::future::pending().await
    }
}
