//! One run of a relay: polls while there is something to do, else waits for a hint or the interval.

use std::collections::{BTreeSet, HashSet};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::time::Instant;
use uuid::Uuid;

use super::PollOutcome;
use super::availability::{Allowance, Availability, Receiver, Topics};
use super::claim;
use super::deliver::{Rules, Unreachable, deliver};
use super::lane::{Claim, Lane, arrange};
use super::lease::{Leases, Renewal};
use super::listen::listen;
use super::observer::{RelayObserver, tell};
use super::options::RelayOptions;
use super::settle::{FailureRules, Settled, settle};
use super::store_access::Store;
use super::topics::concerns;
use crate::delivery::{DeliveryError, OutboxDelivery, Stop};
use crate::error::Error;
use crate::logs::Chain;
use crate::outbox::{OutboxEntity, OutboxEvent};
use crate::store::claim::Claimed;
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
        let closing = tokio::time::timeout(self.options.delivery_timeout, self.delivery.close());
        let closed = closing.await.unwrap_or_else(|_| {
            let limit = self.options.delivery_timeout;
            Err(DeliveryError::failed(format!(
                "it was not closed within {limit:?}"
            )))
        });
        if let Err(error) = closed {
            tracing::warn!(name: "hare.delivery_not_closed", outbox, error = %Chain(&error), "the delivery was not closed cleanly");
        }
    }

    async fn poll_until(&self, stop: &Stop, signals: &Signals) {
        let outbox = self.store.outbox();
        while !stop.is_requested() {
            let polled_at = self.store.clock().monotonic();
            let polling = AssertUnwindSafe(self.poll(self.options.batch_size, stop)).catch_unwind();
            match polling.await {
                Ok(Ok(outcome)) if outcome.claimed > 0 => continue,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    tracing::error!(name: "hare.poll_failed", outbox, error = %Chain(&error), "a poll failed");
                }
                Err(_) => tracing::error!(name: "hare.poll_panicked", outbox, "a poll panicked"),
            }
            self.wait(polled_at, stop, signals).await;
        }
    }

    /// Waits for the next poll: a hint, the interval, or the end of a receiver's pause; while everything waits for a receiver, for
    /// the end of that only.
    async fn wait(&self, polled_at: Instant, stop: &Stop, signals: &Signals) {
        let clock = self.store.clock();
        if let Some(until) = self.paused_until() {
            tokio::select! {
                () = stop.requested() => {}
                () = clock.wait_until(until) => {}
            }
            return;
        }
        let interval_end = clock.monotonic() + self.options.poll_interval;
        // Of a pause that has ended since that poll looked, too: nobody has asked that receiver yet.
        let pause_end = self.availability.next_end(polled_at).unwrap_or(interval_end);
        tokio::select! {
            () = stop.requested() => {}
            () = clock.wait_until(interval_end.min(pause_end)) => {}
            () = self.hint(signals) => {}
        }
    }

    async fn hint(&self, signals: &Signals) {
        let topics = self.options.topics.filter();
        while !concerns(&topics, &signals.take().await) {}
    }

    /// Until when everything waits for a receiver, if it does.
    fn paused_until(&self) -> Option<Instant> {
        match self.availability.allowance(self.store.clock().monotonic()) {
            Allowance::None { until } => Some(until),
            Allowance::Full { .. } | Allowance::Probe => None,
        }
    }

    /// Claims at most `limit` events, delivers them, records the outcomes, and tells of them.
    ///
    /// Receivers that are asked whether they are back do not keep each other or the rest waiting, nor do they use up the limit
    /// where there is nothing to ask with.
    pub(super) async fn poll(&self, limit: usize, stop: &Stop) -> Result<PollOutcome, Error> {
        let allowance = self.availability.allowance(self.store.clock().monotonic());
        let mut settled = Settled::default();
        let mut serving = FuturesUnordered::new();
        let mut left = limit;
        // One after the other: on MariaDB a claim skips what another is just looking at.
        for share in claim::shares(&self.options, allowance) {
            if left == 0 || stop.is_requested() {
                break;
            }
            let share = share.within(left);
            let waited_for = self.availability.waited_for();
            let claimed_from = self.store.clock().monotonic();
            let mut claiming = pin!(claim::claim(&self.store, &share.request));
            // What was claimed before is served meanwhile: its leases run.
            let claimed = loop {
                tokio::select! {
                    biased;
                    claimed = &mut claiming => break claimed,
                    Some(served) = serving.next() => settled.add(served),
                }
            };
            match claimed {
                Ok(claimed) if claimed.rows.is_empty() => {}
                Ok(claimed) => {
                    left = left.saturating_sub(claimed.rows.len());
                    let probed = share.probed;
                    let token = share.request.token;
                    serving.push(self.serve(token, probed, claimed, claimed_from, waited_for, stop));
                }
                Err(error) => {
                    settled.result = settled.result.and(Err(error));
                    break;
                }
            }
        }
        while let Some(served) = serving.next().await {
            settled.add(served);
        }
        if let Some(observer) = &self.observer {
            let limit = self.options.delivery_timeout;
            tell(&**observer, self.store.outbox(), &settled.reports, limit).await;
        }
        settled.result.map(|()| settled.outcome)
    }

    /// Delivers what a share of a poll claimed, and records the outcomes. Sends nothing to receivers that are `waited_for`,
    /// unless the share asks whether it is back.
    async fn serve(
        &self,
        token: Uuid,
        probed: Option<Receiver>,
        claimed: Claimed<E::Model>,
        claimed_from: Instant,
        mut waited_for: BTreeSet<Receiver>,
        stop: &Stop,
    ) -> Settled {
        let (store, options) = (&self.store, &self.options);
        if let Some(probed) = probed {
            waited_for.remove(&probed);
        }
        let count = claimed.rows.len();
        let arranged = arrange(claimed.rows);
        let met = self.topics_of(&arranged.lanes);

        let ours: HashSet<i64> = arranged.lanes.iter().flatten().map(Claim::sequence).collect();
        let leases = Arc::new(Leases::new(ours, claimed_from + options.lease));
        let renewal = Renewal::start(
            store.clone(),
            token,
            Arc::clone(&leases),
            claimed_from,
            options.lease,
        );
        let rules = Rules {
            concurrency: options.concurrency,
            timeout: options.delivery_timeout,
            max_unavailable: options.max_unavailable,
            waited_for: &waited_for,
            leases: &leases,
            clock: store.clock(),
            stop,
        };
        let mut verdicts = deliver(&*self.delivery, arranged.lanes, &rules).await;
        renewal.end().await;

        for receiver in &verdicts.reached {
            self.availability.reached(*receiver);
        }
        for (receiver, Unreachable { topic, error }) in &verdicts.unreachable {
            let wait = self
                .availability
                .unreachable(*receiver, store.clock().monotonic());
            let outbox = store.outbox();
            tracing::warn!(name: "hare.receiver_unavailable", outbox, topic, error, "the receiver cannot be reached, trying again in {wait:?}");
        }
        self.availability.remember(met);
        verdicts.released.extend(arranged.surplus);
        let rules = FailureRules {
            backoff: options.backoff(),
            max_attempts: options.max_attempts(),
            policies: &options.dead_letter_policies,
        };
        let observed = self.observer.as_ref().map(|_| claimed_from);
        let mut settled = settle(store, token, verdicts, arranged.unreadable, rules, observed).await;
        settled.outcome.claimed = count;
        settled
    }

    /// The topics of these events, by receiver; nothing if there is but one.
    fn topics_of(&self, lanes: &[Lane<E::Model>]) -> Topics {
        let mut topics = Topics::new();
        for claim in lanes.iter().flatten() {
            let topic = claim.event.topic();
            let receiver = self.delivery.receiver_of(topic);
            if receiver.is_some() {
                topics.entry(receiver).or_default().insert(topic.to_owned());
            }
        }
        topics
    }
}
