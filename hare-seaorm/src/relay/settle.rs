//! Settling a claim: one statement for what was delivered, one for what failed, one for what is given back.
//!
//! Each is tried a few times, because an outcome that is not recorded is a delivery that is repeated. What cannot be recorded
//! keeps its lease until that ends, and is then delivered again.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use uuid::Uuid;

use super::PollOutcome;
use super::deliver::Verdicts;
use super::lane::Claim;
use super::retry::Backoff;
use super::store_access::Store;
use crate::delivery::DeliveryError;
use crate::error::Error;
use crate::outbox::{OutboxEntity, OutboxEvent};
use crate::store::claim::Unreadable;
use crate::store::settle::Failure;

/// The longest `last_error`, in characters.
const LONGEST_ERROR: usize = 4000;

/// The waits between tries of a statement that failed.
const WAITS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];

/// How failures are counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailureRules {
    pub(super) backoff: Backoff,
    pub(super) max_attempts: i32,
}

/// A failure with what its log line says.
struct Failed {
    record: Failure,
    id: Option<Uuid>,
    topic: String,
    attempt: i32,
}

/// Records everything that can be recorded, and answers the first error met.
pub(super) async fn settle<E: OutboxEntity>(
    store: &Store<E>,
    token: Uuid,
    verdicts: Verdicts<E::Model>,
    unreadable: Vec<(i64, Unreadable)>,
    rules: FailureRules,
) -> (PollOutcome, Result<(), Error>) {
    let mut outcome = PollOutcome::default();
    let mut first_error = Ok(());

    let delivered = sorted(verdicts.delivered.iter().map(Claim::sequence).collect());
    match persistently(|| store.publish(&delivered).boxed()).await {
        Ok(()) => outcome.delivered = delivered.len(),
        Err(error) => first_error = first_error.and(Err(error)),
    }

    let mut failed: Vec<Failed> = verdicts
        .failed
        .iter()
        .map(|(claim, error)| rules.of_delivery(&claim.event, error))
        .collect();
    failed.extend(
        unreadable
            .into_iter()
            .map(|(sequence, error)| rules.of_unreadable(sequence, error)),
    );
    failed.sort_unstable_by_key(|failure| failure.record.sequence);
    let records: Vec<Failure> = failed.iter().map(|failure| failure.record.clone()).collect();
    match persistently(|| store.fail(token, &records).boxed()).await {
        // One that was not recorded is another relay's now: it is not logged or counted here either.
        Ok(recorded) => {
            for failure in failed
                .iter()
                .filter(|failure| recorded.contains(&failure.record.sequence))
            {
                failure.log();
                if failure.record.retry_after.is_some() {
                    outcome.failed += 1;
                } else {
                    outcome.dead_lettered += 1;
                }
            }
        }
        Err(error) => first_error = first_error.and(Err(error)),
    }

    let released = sorted(verdicts.released);
    match persistently(|| store.release(token, &released).boxed()).await {
        Ok(()) => outcome.released = released.len(),
        Err(error) => first_error = first_error.and(Err(error)),
    }
    (outcome, first_error)
}

/// All statements lock rows in the same order.
fn sorted(mut sequences: Vec<i64>) -> Vec<i64> {
    sequences.sort_unstable();
    sequences
}

async fn persistently<'s, T>(statement: impl Fn() -> BoxFuture<'s, Result<T, Error>>) -> Result<T, Error> {
    for wait in WAITS {
        match statement().await {
            Ok(done) => return Ok(done),
            Err(error) => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "an outcome was not recorded, trying again"
                );
                tokio::time::sleep(wait).await;
            }
        }
    }
    statement().await
}

impl FailureRules {
    fn of_delivery<M: OutboxEvent>(&self, event: &M, error: &DeliveryError) -> Failed {
        let attempt = event.attempts().saturating_add(1);
        Failed {
            record: Failure {
                sequence: event.sequence(),
                error: kept_text(&error.text()),
                retry_after: self.retry_after(attempt, event.max_attempts(), error.wait()),
            },
            id: Some(event.id()),
            topic: event.topic().to_owned(),
            attempt,
        }
    }

    fn of_unreadable(&self, sequence: i64, row: Unreadable) -> Failed {
        let attempt = row.attempts.saturating_add(1);
        Failed {
            record: Failure {
                sequence,
                error: kept_text(&format!("the row cannot be read as an event: {}", row.source)),
                retry_after: self.retry_after(attempt, row.max_attempts, None),
            },
            id: row.id,
            topic: row.topic,
            attempt,
        }
    }

    fn retry_after(
        &self,
        attempt: i32,
        max_attempts: Option<i32>,
        asked: Option<Duration>,
    ) -> Option<Duration> {
        let chance = rand::random::<f64>() * 2.0 - 1.0;
        (attempt < max_attempts.unwrap_or(self.max_attempts))
            .then(|| self.backoff.wait(attempt, asked, chance))
    }
}

impl Failed {
    fn log(&self) {
        let Self {
            record,
            id,
            topic,
            attempt,
        } = self;
        let id = id.map(tracing::field::display);
        match record.retry_after {
            Some(wait) => tracing::warn!(
                event_id = id,
                topic,
                attempt,
                error = record.error,
                "delivery failed, trying again in {wait:?}"
            ),
            None => tracing::error!(
                event_id = id,
                topic,
                attempt,
                error = record.error,
                "delivery failed for the last time: the event is a dead letter"
            ),
        }
    }
}

/// An error's text as it is kept: no longer than the limit, and without the NUL that PostgreSQL refuses in text.
fn kept_text(text: &str) -> String {
    text.replace('\0', "\\0").chars().take(LONGEST_ERROR).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // catalogue J12
    #[test]
    fn error_texts_are_cut_by_characters_and_show_nul() {
        assert_eq!(kept_text("a\0b"), "a\\0b");
        assert_eq!(kept_text(&"é".repeat(5000)), "é".repeat(4000));
        #[derive(Debug)]
        struct Silent;
        impl std::fmt::Display for Silent {
            fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                Ok(())
            }
        }
        impl std::error::Error for Silent {}
        assert!(DeliveryError::failed(Silent).text().ends_with("::Silent"));
    }
}
