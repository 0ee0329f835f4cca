//! One call of a delivery, whatever it does: it panics, hangs, or answers for other events than it was given.
//!
//! Invariant: there is one answer per event, in place. What became of events that were not answered for is unknown, so they
//! have failed.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;

use super::{BatchLimits, DeliveryError, OutboxDelivery, Receipt, panic_text};
use crate::outbox::OutboxEvent;

/// Calls [`OutboxDelivery::deliver_batch`], for no longer than a delivery that keeps to its limits can take.
///
/// # Cancel safety
/// Dropped, what was being sent may or may not have arrived.
pub(crate) async fn deliver_batch<M: OutboxEvent>(
    delivery: &dyn OutboxDelivery<M>,
    events: &[M],
    limits: BatchLimits,
) -> Vec<Result<Receipt, DeliveryError>> {
    let longest = longest(events.len(), &limits);
    let inner = limits.inside();
    let sending = AssertUnwindSafe(async { delivery.deliver_batch(events, inner).await }).catch_unwind();
    let refusal = match tokio::time::timeout(longest, sending).await {
        Ok(Ok(answers)) if answers.len() == events.len() => return answers,
        Ok(Ok(answers)) => {
            format!(
                "the delivery gave {} answers for {} events: what became of them is unknown",
                answers.len(),
                events.len()
            )
        }
        Ok(Err(panic)) => panic_text(&*panic),
        Err(_) => format!("the batch was not delivered within {longest:?}"),
    };
    events
        .iter()
        .map(|_| Err(DeliveryError::failed(refusal.clone())))
        .collect()
}

/// The longest a call may take: as long as its events one after the other, `concurrency` at a time, and a little more, so that
/// a delivery that keeps to its limits is never cut off with answers in hand.
fn longest(events: usize, limits: &BatchLimits) -> Duration {
    let turns = u32::try_from(events.div_ceil(limits.concurrency.max(1))).unwrap_or(u32::MAX);
    limits.timeout.saturating_mul(turns).saturating_add(limits.grace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_may_take_as_long_as_its_turns() {
        let seconds = |events, concurrency| {
            longest(events, &BatchLimits::new(concurrency, Duration::from_secs(30))).as_secs()
        };
        assert_eq!(
            [seconds(1, 10), seconds(10, 10), seconds(11, 10), seconds(100, 1)],
            [31, 31, 61, 3001]
        );
    }

    #[test]
    fn a_call_inside_another_ends_first() {
        let limits = BatchLimits::new(10, Duration::from_secs(30));
        assert!(longest(10, &limits.inside()) < longest(10, &limits));
    }
}
