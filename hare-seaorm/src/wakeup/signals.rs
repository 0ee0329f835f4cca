//! The one type that carries hints to a relay: merging, and safe to wait on and to drop.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Hints that have arrived and were not yet taken. Clones share them.
///
/// Hints merge: a hundred of them before the next poll are one poll.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    pending: Mutex<Pending>,
    arrived: Notify,
}

/// What is known of events written since the last poll.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    /// A hint that named no topic: anything may be due.
    pub(crate) any: bool,
    pub(crate) topics: BTreeSet<String>,
}

impl Signals {
    /// Merges a hint in. No topics means that anything may be due. Never waits.
    pub fn merge(&self, topics: &[String]) {
        let mut pending = self.inner.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.any |= topics.is_empty();
        pending.topics.extend(topics.iter().cloned());
        drop(pending);
        self.inner.arrived.notify_one();
    }

    /// Whether both share the same hints.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Waits until there is a hint and takes all there are.
    ///
    /// # Cancel safety
    /// Dropped while waiting, it has taken nothing.
    pub(crate) async fn take(&self) -> Pending {
        loop {
            let arrived = self.inner.arrived.notified();
            {
                let mut pending = self.inner.pending.lock().unwrap_or_else(PoisonError::into_inner);
                if pending.any || !pending.topics.is_empty() {
                    return std::mem::take(&mut pending);
                }
            }
            arrived.await;
        }
    }
}
