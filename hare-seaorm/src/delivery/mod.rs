//! Deliveries: where one event goes.
//!
//! A delivery sends and answers. It never retries, counts, or touches the outbox: the relay does, so that a delivery by an
//! outside author is as safe as one of ours.

mod batch;
mod callable;
mod glob;
mod limits;
mod memory;
mod one_by_one;
mod router;

use std::any::type_name;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use crate::error::ConfigError;
use crate::outbox::{self, OutboxEvent};

pub(crate) use batch::deliver_batch;
pub use callable::CallableDelivery;
pub use limits::BatchLimits;
pub(crate) use limits::Stop;
pub use memory::MemoryDelivery;
use one_by_one::one_by_one;
pub(crate) use one_by_one::panic_text;
pub use router::TopicRouter;

/// Sends events to one place. Implement [`deliver`](Self::deliver); the rest has defaults that are right for one-by-one sends. A
/// delivery around another one hands on every method.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an `OutboxDelivery<{M}>`",
    label = "does not deliver `{M}`",
    note = "wrap an async function with `CallableDelivery::new`, or implement the trait with `#[async_trait]`",
    note = "for an outbox of your own: `OutboxRelay::for_outbox::<my_outbox::Entity>`, `TopicRouter::<my_outbox::Model>::default()`"
)]
#[async_trait::async_trait]
pub trait OutboxDelivery<M: OutboxEvent = outbox::Model>: Send + Sync + 'static {
    /// Sends one event. `Ok` means that the receiver has it: the relay then records it as published and never sends it again.
    ///
    /// # Errors
    /// [`DeliveryError::failed`] counts as an attempt and is tried again after a backoff; [`DeliveryError::unavailable`] says
    /// that nothing could be sent at all, counts nothing, and stops claiming for a while.
    /// # Cancel safety
    /// The future is dropped when its time is over or the process ends; the event is then delivered again. A receiver
    /// deduplicates by the event's id.
    async fn deliver(&self, event: &M) -> Result<Receipt, DeliveryError>;

    /// Sends several events and answers for each, in place. By default each goes through [`deliver`](Self::deliver),
    /// `limits.concurrency` at a time, each within `limits.timeout`; one that panics fails alone, and once
    /// [`limits.is_stopping()`](BatchLimits::is_stopping) no further one is begun.
    ///
    /// A call holds at most one event per ordering key, unless [`keeps_key_order`](Self::keeps_key_order) is true.
    async fn deliver_batch(&self, events: &[M], limits: BatchLimits) -> Vec<Result<Receipt, DeliveryError>> {
        one_by_one(self, events, limits).await
    }

    /// True only if a refused event can never be overtaken by a later one of its key in the same call of
    /// [`deliver_batch`](Self::deliver_batch). Such a delivery is given several events of a key at once, in order.
    fn keeps_key_order(&self) -> bool {
        false
    }

    /// The JSON column of an own outbox that each attempt's report is for. No delivery of this version has one, and the relay writes
    /// no report yet.
    fn report_column(&self) -> Option<&str> {
        None
    }

    /// Refuses options that cannot work. Asked before a relay claims anything; what it answers is part of the error of the
    /// relay's start.
    fn check(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Which receiver the events of a topic go to, for a delivery that has several: any number that tells them apart, always the
    /// same for a topic. When a receiver cannot be reached, the relay lets only its topics wait. `None`, the default: there is but
    /// one receiver.
    fn receiver_of(&self, topic: &str) -> Option<u64> {
        let _ = topic;
        None
    }

    /// What tells this object from others, through every `Arc` around it.
    #[doc(hidden)]
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Releases what the delivery opened. Called once the relay has stopped and settled everything; using the delivery again
    /// opens it again.
    async fn close(&self) -> Result<(), DeliveryError> {
        Ok(())
    }
}

#[async_trait::async_trait]
impl<M: OutboxEvent, D: OutboxDelivery<M> + ?Sized> OutboxDelivery<M> for Arc<D> {
    async fn deliver(&self, event: &M) -> Result<Receipt, DeliveryError> {
        (**self).deliver(event).await
    }
    async fn deliver_batch(&self, events: &[M], limits: BatchLimits) -> Vec<Result<Receipt, DeliveryError>> {
        (**self).deliver_batch(events, limits).await
    }
    fn keeps_key_order(&self) -> bool {
        (**self).keeps_key_order()
    }
    fn report_column(&self) -> Option<&str> {
        (**self).report_column()
    }
    fn check(&self) -> Result<(), ConfigError> {
        (**self).check()
    }
    fn receiver_of(&self, topic: &str) -> Option<u64> {
        (**self).receiver_of(topic)
    }
    fn address(&self) -> usize {
        (**self).address()
    }
    async fn close(&self) -> Result<(), DeliveryError> {
        (**self).close().await
    }
}

/// What a receiver said of a delivered event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Receipt {
    report: Option<serde_json::Value>,
}

impl Receipt {
    /// Adds what is to be written to the delivery's [`report_column`](OutboxDelivery::report_column).
    #[must_use]
    pub fn report(mut self, report: serde_json::Value) -> Self {
        self.report = Some(report);
        self
    }
}

/// Why an event was not delivered.
///
/// It reaches logs, `last_error` and observers, never the relay's caller: make its text fit for that.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct DeliveryError {
    source: Box<dyn StdError + Send + Sync>,
    /// The type of the source, for errors that have no text.
    type_name: &'static str,
    kind: Kind,
    retry_after: Option<Duration>,
    report: Option<serde_json::Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Failed,
    Unavailable,
    NotBegun,
}

impl DeliveryError {
    /// The receiver refused this event, or did not confirm it in time. Counts as an attempt.
    pub fn failed<S: Into<Box<dyn StdError + Send + Sync>>>(source: S) -> Self {
        Self::new(Kind::Failed, source)
    }

    /// The receiver cannot be reached at all, whatever the event. Counts nothing; everything claimed is given back.
    pub fn unavailable<S: Into<Box<dyn StdError + Send + Sync>>>(source: S) -> Self {
        Self::new(Kind::Unavailable, source)
    }

    /// The answer for an event that was not sent, nor begun to be, because the relay stops. Counts nothing; the event is given
    /// back. For a batch delivery that looks at [`BatchLimits::is_stopping`]; while that is false, it counts as a failure.
    pub fn not_begun() -> Self {
        Self::new(Kind::NotBegun, "the relay stopped before this event was sent")
    }

    fn new<S: Into<Box<dyn StdError + Send + Sync>>>(kind: Kind, source: S) -> Self {
        Self {
            source: source.into(),
            type_name: type_name::<S>(),
            kind,
            retry_after: None,
            report: None,
        }
    }

    /// The receiver named a time to wait. Kept within the relay's own longest wait.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Adds what is to be written to the delivery's [`report_column`](OutboxDelivery::report_column).
    #[must_use]
    pub fn report(mut self, report: serde_json::Value) -> Self {
        self.report = Some(report);
        self
    }

    /// Whether the receiver could not be reached at all.
    pub fn is_unavailable(&self) -> bool {
        self.kind == Kind::Unavailable
    }

    /// Whether the event was not begun to be sent; see [`not_begun`](Self::not_begun).
    pub fn is_not_begun(&self) -> bool {
        self.kind == Kind::NotBegun
    }

    /// The wait that the receiver named.
    pub fn wait(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The text to keep: the error's own, or its type's name if it has none.
    pub(crate) fn text(&self) -> String {
        let text = self.to_string();
        if text.trim().is_empty() {
            self.type_name.to_owned()
        } else {
            text
        }
    }
}
