//! Settling a claim: one statement for what was delivered, one for what failed, one for what is given back.
//!
//! Each is tried a few times, because an outcome that is not recorded is a delivery that is repeated. What cannot be recorded
//! keeps its lease until that ends, and is then delivered again.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use uuid::Uuid;

use super::PollOutcome;
use super::deliver::Verdicts;
use super::lane::Claim;
use super::observer::{self, DeadLettered, Delivered, Report};
use super::policy::{DeadLetterPolicy, Policies};
use super::retry::Backoff;
use super::store_access::Store;
use crate::delivery::DeliveryError;
use crate::error::Error;
use crate::logs::Chain;
use crate::outbox::{OutboxEntity, OutboxEvent};
use crate::store::claim::Unreadable;
use crate::store::settle::Failure;

/// The longest `last_error`, in characters.
const LONGEST_ERROR: usize = 4000;

/// The waits between tries of a statement that failed.
const WAITS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];

/// How failures are counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailureRules<'a> {
    pub(super) backoff: Backoff,
    pub(super) max_attempts: i32,
    pub(super) policies: &'a Policies,
}

/// A failure with what is told of it.
struct Failed {
    record: Failure,
    /// The error with its causes.
    chain: String,
    id: Option<Uuid>,
    topic: String,
    ordering_key: Option<String>,
    attempt: i32,
    /// How long before the claim it was written.
    age: Option<Duration>,
}

/// What was recorded of a claim, or of several.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) outcome: PollOutcome,
    /// For the observer, if there is one.
    pub(super) reports: Vec<Report>,
    /// The first error met.
    pub(super) result: Result<(), Error>,
}

impl Default for Settled {
    fn default() -> Self {
        Self {
            outcome: PollOutcome::default(),
            reports: Vec::new(),
            result: Ok(()),
        }
    }
}

impl Settled {
    pub(super) fn add(&mut self, other: Self) {
        self.outcome += other.outcome;
        self.reports.extend(other.reports);
        if self.result.is_ok() {
            self.result = other.result;
        }
    }
}

/// Records everything that can be recorded. `observed`: when the claim began, if reports are wanted.
pub(super) async fn settle<E: OutboxEntity>(
    store: &Store<E>,
    token: Uuid,
    verdicts: Verdicts<E::Model>,
    unreadable: Vec<(i64, Unreadable)>,
    rules: FailureRules<'_>,
    observed: Option<Instant>,
) -> Settled {
    let mut outcome = PollOutcome::default();
    let mut reports = Vec::new();
    let mut first_error = Ok(());
    let outbox = store.outbox();
    let since_claim = || observed.map(|began| store.clock().monotonic().saturating_duration_since(began));

    let delivered = sorted(verdicts.delivered.iter().map(Claim::sequence).collect());
    match persistently(outbox, || store.publish(&delivered).boxed()).await {
        Ok(()) => {
            outcome.delivered = delivered.len();
            if let Some(since_claim) = since_claim() {
                let reported = verdicts
                    .delivered
                    .iter()
                    .map(|claim| of_success(outbox, claim, since_claim));
                reports.extend(reported);
            }
        }
        Err(error) => first_error = first_error.and(Err(error)),
    }

    let mut failed: Vec<Failed> = verdicts
        .failed
        .iter()
        .map(|(claim, error)| rules.of_delivery(claim, error))
        .collect();
    failed.extend(
        unreadable
            .into_iter()
            .map(|(sequence, error)| rules.of_unreadable(sequence, error)),
    );
    failed.sort_unstable_by_key(|failure| failure.record.sequence);
    let records: Vec<Failure> = failed.iter().map(|failure| failure.record.clone()).collect();
    match persistently(outbox, || store.fail(token, &records).boxed()).await {
        // One that was not recorded is another relay's now: it is not logged, counted or reported here either.
        Ok(recorded) => {
            let since_claim = since_claim();
            failed.retain(|failure| recorded.contains(&failure.record.sequence));
            for failure in failed {
                failure.log(outbox);
                if failure.record.retry_after.is_some() {
                    outcome.failed += 1;
                } else {
                    outcome.dead_lettered += 1;
                }
                reports.extend(since_claim.map(|since_claim| failure.into_report(outbox, since_claim)));
            }
        }
        Err(error) => first_error = first_error.and(Err(error)),
    }

    let released = sorted(verdicts.released);
    match persistently(outbox, || store.release(token, &released).boxed()).await {
        Ok(()) => outcome.released = released.len(),
        Err(error) => first_error = first_error.and(Err(error)),
    }
    Settled {
        outcome,
        reports,
        result: first_error,
    }
}

/// All statements lock rows in the same order.
fn sorted(mut sequences: Vec<i64>) -> Vec<i64> {
    sequences.sort_unstable();
    sequences
}

async fn persistently<'s, T>(
    outbox: &'static str,
    statement: impl Fn() -> BoxFuture<'s, Result<T, Error>>,
) -> Result<T, Error> {
    for wait in WAITS {
        match statement().await {
            Ok(done) => return Ok(done),
            Err(error) => {
                tracing::debug!(name: "hare.outcome_not_recorded", outbox, error = %Chain(&error), "an outcome was not recorded, trying again");
                tokio::time::sleep(wait).await;
            }
        }
    }
    statement().await
}

/// How long before it was claimed an event was written.
fn age<M: OutboxEvent>(claim: &Claim<M>) -> Duration {
    (claim.claimed_at - claim.event.created_at())
        .to_std()
        .unwrap_or_default()
}

fn of_success<M: OutboxEvent>(outbox: &'static str, claim: &Claim<M>, since_claim: Duration) -> Report {
    let event = &claim.event;
    Report::Delivered(Delivered {
        outbox,
        sequence: event.sequence(),
        event_id: event.id(),
        topic: event.topic().to_owned(),
        ordering_key: event.ordering_key().map(str::to_owned),
        attempts: event.attempts(),
        delay: age(claim) + since_claim,
    })
}

impl FailureRules<'_> {
    fn of_delivery<M: OutboxEvent>(&self, claim: &Claim<M>, error: &DeliveryError) -> Failed {
        let event = &claim.event;
        let attempt = event.attempts().saturating_add(1);
        let text = error.text();
        Failed {
            record: Failure {
                sequence: event.sequence(),
                retry_after: self.retry_after(attempt, event.max_attempts(), error.wait()),
                releases_key: self.releases_key(event.topic()),
                error: kept_text(&text),
            },
            chain: chain_text(error),
            id: Some(event.id()),
            topic: event.topic().to_owned(),
            ordering_key: event.ordering_key().map(str::to_owned),
            attempt,
            age: Some(age(claim)),
        }
    }

    fn of_unreadable(&self, sequence: i64, row: Unreadable) -> Failed {
        let attempt = row.attempts.saturating_add(1);
        let text = |source: &dyn std::fmt::Display| format!("the row cannot be read as an event: {source}");
        Failed {
            record: Failure {
                sequence,
                error: kept_text(&text(&row.source)),
                retry_after: self.retry_after(attempt, row.max_attempts, None),
                releases_key: self.releases_key(&row.topic),
            },
            chain: kept_text(&text(&Chain(&row.source))),
            id: row.id,
            topic: row.topic,
            ordering_key: row.ordering_key,
            attempt,
            age: row.age,
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

    fn releases_key(&self, topic: &str) -> bool {
        self.policies.of(topic) == DeadLetterPolicy::Skip
    }
}

impl Failed {
    fn log(&self, outbox: &'static str) {
        let Failure {
            sequence,
            retry_after,
            releases_key,
            ..
        } = self.record;
        let event_id = self.id.map(tracing::field::display);
        let (topic, attempt, error) = (&self.topic, self.attempt, &self.chain);
        match retry_after {
            Some(wait) => {
                let retry_after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                tracing::warn!(
                    name: "hare.delivery_failed",
                    outbox, sequence, event_id, topic, attempt, error, retry_after_ms,
                    "delivery failed, trying again in {wait:?}"
                );
            }
            None => tracing::error!(
                name: "hare.dead_lettered",
                outbox, sequence, event_id, topic, attempt, error, releases_key,
                "delivery failed for the last time: the event is a dead letter"
            ),
        }
    }

    fn into_report(self, outbox: &'static str, since_claim: Duration) -> Report {
        let Self { record, .. } = self;
        let delay = self.age.map(|age| age + since_claim);
        match record.retry_after {
            Some(retry_after) => Report::Failed(observer::Failed {
                outbox,
                sequence: record.sequence,
                event_id: self.id,
                topic: self.topic,
                ordering_key: self.ordering_key,
                attempts: self.attempt,
                delay,
                error: record.error,
                retry_after,
            }),
            None => Report::DeadLettered(DeadLettered {
                outbox,
                sequence: record.sequence,
                event_id: self.id,
                topic: self.topic,
                ordering_key: self.ordering_key,
                attempts: self.attempt,
                delay,
                error: record.error,
                releases_key: record.releases_key,
            }),
        }
    }
}

/// An error's text as it is kept and logged: no longer than the limit, and without the NUL that PostgreSQL refuses in text.
fn kept_text(text: &str) -> String {
    text.replace('\0', "\\0").chars().take(LONGEST_ERROR).collect()
}

/// A delivery's error with its causes, as it is logged.
pub(super) fn chain_text(error: &DeliveryError) -> String {
    let chain = Chain(error).to_string();
    if chain.trim().is_empty() {
        kept_text(&error.text())
    } else {
        kept_text(&chain)
    }
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
