//! Leases: which claimed events are still this relay's, and renewing them while they are delivered.
//!
//! Invariant: an event whose lease is known or presumed to be lost is not begun to be sent. (What was begun may end, and its
//! success is recorded: it was delivered.)

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

use super::store_access::Store;
use crate::delivery::Stop;
use crate::logs::Chain;
use crate::outbox::OutboxEntity;

/// The events of one claim that are still held.
#[derive(Debug)]
pub(super) struct Leases(Mutex<Held>);

#[derive(Debug)]
struct Held {
    sequences: HashSet<i64>,
    /// Until when they are ours if no renewal succeeds, by this process's clock; read before the statement that said so, so it
    /// is never later than what the table says.
    until: Instant,
}

impl Leases {
    pub(super) fn new(sequences: HashSet<i64>, until: Instant) -> Self {
        Self(Mutex::new(Held { sequences, until }))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn contains(&self, sequence: i64, now: Instant) -> bool {
        let held = self.held();
        now < held.until && held.sequences.contains(&sequence)
    }

    fn sequences(&self) -> Vec<i64> {
        let mut sequences: Vec<i64> = self.held().sequences.iter().copied().collect();
        sequences.sort_unstable();
        sequences
    }

    fn renewed(&self, still_held: HashSet<i64>, until: Instant) {
        *self.held() = Held {
            sequences: still_held,
            until,
        };
    }
}

/// Renews a claim three times per lease length, in a task of its own: a delivery that blocks its thread does not stop it.
/// Dropped, it stops at its next await.
#[derive(Debug)]
pub(super) struct Renewal {
    over: Stop,
    task: JoinHandle<()>,
}

impl Renewal {
    /// `since`: from when on they are held, by this process's clock.
    pub(super) fn start<E: OutboxEntity>(
        store: Store<E>,
        token: Uuid,
        leases: Arc<Leases>,
        since: Instant,
        lease: Duration,
    ) -> Self {
        let over = Stop::default();
        let task = tokio::spawn(renew(store, token, leases, since, lease, over.clone()));
        Self { over, task }
    }

    /// Ends it, and waits for a renewal that is under way, so that none meets the settling of its own events.
    pub(super) async fn end(mut self) {
        self.over.request();
        // Only fails if the task panicked, which ended it too.
        drop((&mut self.task).await);
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn renew<E: OutboxEntity>(
    store: Store<E>,
    token: Uuid,
    leases: Arc<Leases>,
    since: Instant,
    lease: Duration,
    over: Stop,
) {
    let mut next = since + lease / 3;
    loop {
        tokio::select! {
            biased;
            () = over.requested() => return,
            () = store.clock().wait_until(next) => {}
        }
        let sequences = leases.sequences();
        if sequences.is_empty() {
            return;
        }
        let started = store.clock().monotonic();
        match store.renew(token, lease, &sequences).await {
            Ok(still_held) => {
                let lost = sequences.len() - still_held.len();
                leases.renewed(still_held, started + lease);
                if lost > 0 {
                    let outbox = store.outbox();
                    tracing::warn!(name: "hare.leases_lost", outbox, lost, lease_token = %token, "leases were lost to another relay");
                }
            }
            Err(error) => {
                let outbox = store.outbox();
                tracing::warn!(name: "hare.leases_not_renewed", outbox, error = %Chain(&error), "leases were not renewed, trying again");
            }
        }
        next = started + lease / 3;
    }
}
