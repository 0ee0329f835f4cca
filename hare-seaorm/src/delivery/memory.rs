//! A delivery that keeps what it is given, for tests and examples.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::{DeliveryError, OutboxDelivery, Receipt};
use crate::outbox::{self, OutboxEvent};

/// Keeps delivered events in memory, in the order in which they arrived. Clones share them.
///
/// Failures can be scripted, to see how an application behaves when its receiver refuses.
///
/// ```
/// use hare_seaorm::{MemoryDelivery, OutboxDelivery, outbox};
///
/// let receiver = MemoryDelivery::new();
/// receiver.fail_next(1); // the first send fails, the relay tries again
/// // let relay = OutboxRelay::new(db, receiver.clone()).start()?;
/// assert!(receiver.events().is_empty());
/// # fn is_delivery(_: &impl OutboxDelivery) {} is_delivery(&receiver);
/// ```
pub struct MemoryDelivery<M = outbox::Model> {
    inner: Arc<Inner<M>>,
}

struct Inner<M> {
    state: Mutex<State<M>>,
    /// How many events have arrived in all.
    arrived: watch::Sender<usize>,
}

type Refusal<M> = Box<dyn FnMut(&M) -> Option<DeliveryError> + Send>;

struct State<M> {
    events: Vec<M>,
    next_failures: VecDeque<DeliveryError>,
    refusal: Option<Refusal<M>>,
}

impl<M> Clone for MemoryDelivery<M> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<M> Default for MemoryDelivery<M> {
    fn default() -> Self {
        let state = State {
            events: Vec::new(),
            next_failures: VecDeque::new(),
            refusal: None,
        };
        Self {
            inner: Arc::new(Inner {
                state: Mutex::new(state),
                arrived: watch::Sender::new(0),
            }),
        }
    }
}

impl<M> fmt::Debug for MemoryDelivery<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryDelivery")
            .field("events", &self.state().events.len())
            .finish_non_exhaustive()
    }
}

impl MemoryDelivery {
    /// A delivery of the built-in outbox's events that has received nothing and refuses nothing. For another outbox:
    /// `MemoryDelivery::<my_outbox::Model>::default()`.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<M> MemoryDelivery<M> {
    fn state(&self) -> MutexGuard<'_, State<M>> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails the next `count` sends, whatever they are.
    pub fn fail_next(&self, count: usize) {
        let failures = (0..count).map(|_| DeliveryError::failed("a failure that the test asked for"));
        self.state().next_failures.extend(failures);
    }

    /// Fails the next send with this error.
    pub fn fail_next_with(&self, error: DeliveryError) {
        self.state().next_failures.push_back(error);
    }

    /// From now on asks `refusal` about each event: an error fails it, `None` lets it arrive. Replaces the one before.
    pub fn fail_when(&self, refusal: impl FnMut(&M) -> Option<DeliveryError> + Send + 'static) {
        self.state().refusal = Some(Box::new(refusal));
    }

    /// Refuses nothing any more.
    pub fn recover(&self) {
        let mut state = self.state();
        state.refusal = None;
        state.next_failures.clear();
    }

    /// Waits until `count` events have arrived since the start, taken ones included.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_for(&self, count: usize) {
        let mut arrived = self.inner.arrived.subscribe();
        // Only fails once the sender is gone, and `self` holds it.
        drop(arrived.wait_for(|arrived| *arrived >= count).await);
    }

    /// What has arrived and was not yet taken, and forgets it.
    pub fn take(&self) -> Vec<M> {
        std::mem::take(&mut self.state().events)
    }
}

impl<M: OutboxEvent> MemoryDelivery<M> {
    /// What has arrived and was not taken.
    pub fn events(&self) -> Vec<M> {
        self.state().events.clone()
    }

    /// The topics of what has arrived and was not taken.
    pub fn topics(&self) -> Vec<String> {
        self.state()
            .events
            .iter()
            .map(|event| event.topic().to_owned())
            .collect()
    }
}

#[async_trait::async_trait]
impl<M: OutboxEvent> OutboxDelivery<M> for MemoryDelivery<M> {
    async fn deliver(&self, event: &M) -> Result<Receipt, DeliveryError> {
        {
            let mut state = self.state();
            if let Some(error) = state.next_failures.pop_front() {
                return Err(error);
            }
            if let Some(error) = state.refusal.as_mut().and_then(|refusal| refusal(event)) {
                return Err(error);
            }
            state.events.push(event.clone());
        }
        self.inner.arrived.send_modify(|arrived| *arrived += 1);
        Ok(Receipt::default())
    }
}
