//! Deliveries: where one event goes.
//!
//! A delivery sends and answers. It never retries, counts, or touches the outbox: the relay does, so that a delivery by an
//! outside author is as safe as one of ours.

use std::error::Error as StdError;
use std::time::Duration;

use crate::outbox::{self, OutboxEvent};

/// Sends events to one place. Implement [`deliver`](Self::deliver); the rest has defaults that are right for one-by-one sends.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an `OutboxDelivery`",
    note = "wrap an async function with `CallableDelivery::new`, or implement the trait with `#[async_trait]`"
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
    /// `limits.concurrency` at a time, each within `limits.timeout`; one that panics fails alone.
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

    /// The JSON column of an own outbox that each attempt's report is written to, by the relay, after settling.
    fn report_column(&self) -> Option<&str> {
        None
    }

    /// Releases what the delivery opened. Called once the relay has stopped and settled everything; using the delivery again
    /// opens it again.
    async fn close(&self) -> Result<(), DeliveryError> {
        Ok(())
    }
}

/// How much of a batch may be under way at once, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchLimits {
    /// Sends under way at once.
    pub concurrency: usize,
    /// The longest one send may take, or a whole batch where the transport takes it at once.
    pub timeout: Duration,
}

impl BatchLimits {
    /// These limits.
    pub fn new(concurrency: usize, timeout: Duration) -> Self {
        Self { concurrency, timeout }
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
    unavailable: bool,
    retry_after: Option<Duration>,
    report: Option<serde_json::Value>,
}

impl DeliveryError {
    /// The receiver refused this event, or did not confirm it in time. Counts as an attempt.
    pub fn failed(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: source.into(), unavailable: false, retry_after: None, report: None }
    }

    /// The receiver cannot be reached at all, whatever the event. Counts nothing; everything claimed is given back.
    pub fn unavailable(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { unavailable: true, ..Self::failed(source) }
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
        self.unavailable
    }

    /// The wait that the receiver named.
    pub fn wait(&self) -> Option<Duration> {
        self.retry_after
    }
}
