//! One run of a relay: polls while there is something to do, else waits for a hint or the interval.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use sea_orm::DatabaseConnection;
use tokio::time::Instant;

use super::PollOutcome;
use super::availability::{Allowance, Availability};
use super::claim;
use super::deliver::{Rules, deliver};
use super::lane::{Claim, arrange};
use super::lease::{Held, Renewal};
use super::listen::listen;
use super::options::RelayOptions;
use super::settle::{FailureRules, settle};
use super::store_access::Store;
use super::topics::concerns;
use crate::delivery::{OutboxDelivery, Stop};
use crate::error::Error;
use crate::outbox::OutboxEntity;
use crate::store::clock::Clock;
use crate::wakeup::{OutboxWakeup, Signals};

/// A relay with checked options.
pub(super) struct Runner<E: OutboxEntity> {
    store: Store<E>,
    delivery: Arc<dyn OutboxDelivery<E::Model>>,
    options: RelayOptions,
    availability: Arc<Availability>,
}

impl<E: OutboxEntity> Runner<E> {
    pub(super) fn new(
        db: DatabaseConnection,
        clock: Clock,
        delivery: Arc<dyn OutboxDelivery<E::Model>>,
        options: RelayOptions,
        availability: Arc<Availability>,
    ) -> Self {
        Self {
            store: Store::new(db, clock),
            delivery,
            options,
            availability,
        }
    }

    /// Delivers until `stop` is requested; then settles, unsubscribes and closes the delivery, in this order.
    pub(super) async fn run(&self, wakeup: Option<Arc<dyn OutboxWakeup>>, stop: Stop) {
        let signals = Signals::default();
        let listening = async {
            match &wakeup {
                Some(wakeup) => listen(&**wakeup, self.store.db(), &signals).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // The listener first, so that it listens before the first poll looks: an event is seen by one or the other.
            biased;
            never = listening => match never {},
            () = self.poll_until(&stop, &signals) => {}
        }
        if let Err(error) = self.delivery.close().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the delivery was not closed cleanly"
            );
        }
    }

    async fn poll_until(&self, stop: &Stop, signals: &Signals) {
        while !stop.is_requested() {
            let polling = AssertUnwindSafe(self.poll(self.options.batch_size, stop)).catch_unwind();
            match polling.await {
                Ok(Ok(outcome)) if outcome.claimed > 0 && !self.is_paused() => continue,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::error!(error = &error as &dyn std::error::Error, "a poll failed"),
                Err(_) => tracing::error!("a poll panicked"),
            }
            self.wait(stop, signals).await;
        }
    }

    /// Waits for the next poll: a hint or the interval; while the receiver is taken for unreachable, for the end of that.
    async fn wait(&self, stop: &Stop, signals: &Signals) {
        let clock = self.store.clock();
        if let Some(until) = self.paused_until() {
            tokio::select! {
                () = stop.requested() => {}
                () = clock.wait_until(until) => {}
            }
            return;
        }
        tokio::select! {
            () = stop.requested() => {}
            () = clock.wait_until(clock.monotonic() + self.options.poll_interval) => {}
            () = self.hint(signals) => {}
        }
    }

    async fn hint(&self, signals: &Signals) {
        let topics = self.options.topics.filter();
        while !concerns(&topics, &signals.take().await) {}
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused_until().is_some()
    }

    fn paused_until(&self) -> Option<Instant> {
        match self.availability.allowance(self.store.clock().monotonic()) {
            Allowance::None { until } => Some(until),
            Allowance::Full | Allowance::Probe => None,
        }
    }

    /// Claims at most `limit` events, delivers them, and records the outcomes.
    pub(super) async fn poll(&self, limit: usize, stop: &Stop) -> Result<PollOutcome, Error> {
        let (store, options) = (&self.store, &self.options);
        let claimed_from = store.clock().monotonic();
        let Some(request) = claim::request(options, self.availability.allowance(claimed_from), limit) else {
            return Ok(PollOutcome::default());
        };
        let claimed = claim::claim(store, &request).await?;
        if claimed.rows.is_empty() {
            return Ok(PollOutcome::default());
        }
        let count = claimed.rows.len();
        let arranged = arrange(claimed.rows);

        let ours: HashSet<i64> = arranged.lanes.iter().flatten().map(Claim::sequence).collect();
        let held = Arc::new(Held::new(ours, claimed_from + options.lease));
        let renewal = Renewal::start(
            store.clone(),
            request.token,
            Arc::clone(&held),
            claimed_from,
            options.lease,
        );
        let rules = Rules {
            concurrency: options.concurrency,
            timeout: options.delivery_timeout,
            max_unavailable: options.max_unavailable,
            held: &held,
            clock: store.clock(),
            stop,
        };
        let mut verdicts = deliver(&*self.delivery, arranged.lanes, &rules).await;
        renewal.end().await;

        if verdicts.reached {
            self.availability.reached();
        }
        if let Some(error) = &verdicts.unreachable {
            let wait = self.availability.unreachable(store.clock().monotonic());
            tracing::warn!(error, "the receiver cannot be reached, trying again in {wait:?}");
        }
        verdicts.released.extend(arranged.surplus);
        let rules = FailureRules {
            backoff: options.backoff(),
            max_attempts: options.max_attempts(),
        };
        let (mut outcome, result) = settle(store, request.token, verdicts, arranged.unreadable, rules).await;
        outcome.claimed = count;
        result.map(|()| outcome)
    }
}
