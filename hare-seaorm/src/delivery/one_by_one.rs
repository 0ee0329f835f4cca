//! A batch as single sends: what a delivery does that says nothing else.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::{FutureExt, StreamExt, stream};

use super::{BatchLimits, DeliveryError, OutboxDelivery, Receipt};
use crate::outbox::OutboxEvent;

/// Sends each event through [`OutboxDelivery::deliver`], `limits.concurrency` at a time, each within `limits.timeout`, begun in
/// order. Answers in place. One that panics or takes too long fails alone; once the relay stops, no further one is begun.
pub(crate) async fn one_by_one<M: OutboxEvent, D: OutboxDelivery<M> + ?Sized>(
    delivery: &D,
    events: &[M],
    limits: BatchLimits,
) -> Vec<Result<Receipt, DeliveryError>> {
    let sends = (0..events.len()).map(|index| send(delivery, index, &events[index], &limits));
    // Unordered, so that a slow send holds back the answers of others, but not their start.
    let mut answers: Vec<_> = stream::iter(sends)
        .buffer_unordered(limits.concurrency.max(1))
        .collect()
        .await;
    answers.sort_unstable_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

async fn send<M: OutboxEvent, D: OutboxDelivery<M> + ?Sized>(
    delivery: &D,
    index: usize,
    event: &M,
    limits: &BatchLimits,
) -> (usize, Result<Receipt, DeliveryError>) {
    if limits.is_stopping() {
        return (index, Err(DeliveryError::not_begun()));
    }
    let sending = AssertUnwindSafe(async { delivery.deliver(event).await }).catch_unwind();
    let answer = match tokio::time::timeout(limits.timeout, sending).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) => Err(DeliveryError::failed(panic_text(&*panic))),
        Err(_) => Err(DeliveryError::failed(format!(
            "not delivered within {:?}",
            limits.timeout
        ))),
    };
    (index, answer)
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the delivery panicked: {}", said.unwrap_or("no text"))
}
