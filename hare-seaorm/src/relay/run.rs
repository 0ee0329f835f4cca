//! One run of a relay: polls while there is something to do, else waits for a hint or the interval.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::PollOutcome;
use super::availability::{Allowance, Availability};
use super::claim;
use super::deliver::{Rules, deliver};
use super::lane::{Claim, arrange};
use super::lease::{Held, Renewal};
use super::listen::listen;
use super::observer::{RelayObserver, tell};
use super::options::RelayOptions;
use super::settle::{FailureRules, settle};
use super::store_access::Store;
use super::topics::concerns;
use crate::delivery::{OutboxDelivery, Stop};
use crate::error::Error;
use crate::logs::Chain;
use crate::outbox::OutboxEntity;
use crate::wakeup::{OutboxWakeup, Signals};

/// A relay with checked options.
pub(super) struct Runner<E: OutboxEntity> {
    store: Store<E>,
    delivery: Arc<dyn OutboxDelivery<E::Model>>,
    options: RelayOptions,
    availability: Arc<Availability>,
    /// Carries what this relay's own object made pending.
    own_wakeup: Arc<dyn OutboxWakeup>,
    observer: Option<Arc<dyn RelayObserver>>,
}

impl<E: OutboxEntity> Runner<E> {
    pub(super) fn new(
        store: Store<E>,
        delivery: Arc<dyn OutboxDelivery<E::Model>>,
        options: RelayOptions,
        availability: Arc<Availability>,
        own_wakeup: Arc<dyn OutboxWakeup>,
        observer: Option<Arc<dyn RelayObserver>>,
    ) -> Self {
        Self {
            store,
            delivery,
            options,
            availability,
            own_wakeup,
            observer,
        }
    }

    /// Delivers until `stop` is requested; then settles, unsubscribes and closes the delivery, in this order.
    pub(super) async fn run(&self, wakeup: Option<Arc<dyn OutboxWakeup>>, stop: Stop) {
        let signals = Signals::default();
        let (db, outbox) = (self.store.db(), self.store.outbox());
        let listening = async {
            match &wakeup {
                Some(wakeup) => listen(&**wakeup, outbox, db, &signals).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // The listener first, so that it listens before the first poll looks: an event is seen by one or the other.
            biased;
            never = listening => match never {},
            never = listen(&*self.own_wakeup, outbox, db, &signals) => match never {},
            () = self.poll_until(&stop, &signals) => {}
        }
        if let Err(error) = self.delivery.close().await {
            tracing::warn!(name: "hare.delivery_not_closed", outbox, error = %Chain(&error), "the delivery was not closed cleanly");
        }
    }

    async fn poll_until(&self, stop: &Stop, signals: &Signals) {
        let outbox = self.store.outbox();
        while !stop.is_requested() {
            let polling = AssertUnwindSafe(self.poll(self.options.batch_size, stop)).catch_unwind();
            match polling.await {
                Ok(Ok(outcome)) if outcome.claimed > 0 && !self.is_paused() => continue,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    tracing::error!(name: "hare.poll_failed", outbox, error = %Chain(&error), "a poll failed");
                }
                Err(_) => tracing::error!(name: "hare.poll_panicked", outbox, "a poll panicked"),
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
            let outbox = store.outbox();
            tracing::warn!(name: "hare.receiver_unavailable", outbox, error, "the receiver cannot be reached, trying again in {wait:?}");
        }
        verdicts.released.extend(arranged.surplus);
        let rules = FailureRules {
            backoff: options.backoff(),
            max_attempts: options.max_attempts(),
            policies: &options.dead_letter_policies,
        };
        let observed = self.observer.as_ref().map(|_| claimed_from);
        let settled = settle(
            store,
            request.token,
            verdicts,
            arranged.unreadable,
            rules,
            observed,
        )
        .await;
        if let Some(observer) = &self.observer {
            tell(
                &**observer,
                store.outbox(),
                &settled.reports,
                options.delivery_timeout,
            )
            .await;
        }
        let mut outcome = settled.outcome;
        outcome.claimed = count;
        settled.result.map(|()| outcome)
    }
}
