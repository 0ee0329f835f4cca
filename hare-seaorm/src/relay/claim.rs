//! What a relay asks for when it claims, and how often.

use std::time::Duration;

use uuid::Uuid;

use super::availability::{Allowance, Receiver};
use super::options::RelayOptions;
use super::store_access::Store;
use crate::error::Error;
use crate::outbox::OutboxEntity;
use crate::store::claim::{Claimed, Narrowing, Request};

/// The waits between tries where another session was in the way: a serialisation failure, a busy file.
const WAITS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];

/// Claims, again where that may help.
pub(super) async fn claim<E: OutboxEntity>(
    store: &Store<E>,
    request: &Request,
) -> Result<Claimed<E::Model>, Error> {
    for wait in WAITS {
        match store.claim(request).await {
            Err(error) if error.is_retryable() => tokio::time::sleep(wait).await,
            result => return result,
        }
    }
    store.claim(request).await
}

/// A part of a poll: a claim, under a token of its own.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) request: Request,
    /// The receiver that it asks whether it is back.
    pub(super) probed: Option<Receiver>,
}

/// The claims of a poll, of at most `limit` events together: one event for each receiver that is to be asked again, and the
/// rest of what may be claimed. None while nothing may.
pub(super) fn shares(options: &RelayOptions, allowance: Allowance, limit: usize) -> Vec<Share> {
    let share = |limit: usize, narrowing, probed| Share {
        request: Request {
            limit,
            lane_length: options.lane_length().min(limit),
            topics: options.topics.filter(),
            narrowing,
            lease: options.lease,
            name: options.name.clone(),
            token: Uuid::now_v7(),
        },
        probed,
    };
    let anything = Narrowing::Without(Vec::new());
    let mut shares = match allowance {
        Allowance::Full { without, probes } => {
            let asking = probes.len().min(limit);
            let mut shares: Vec<Share> = probes
                .into_iter()
                .take(asking)
                .map(|probe| share(1, Narrowing::Only(probe.topics), Some(probe.receiver)))
                .collect();
            shares.push(share(limit - asking, Narrowing::Without(without), None));
            shares
        }
        Allowance::Probe => vec![share(limit.min(1), anything, Some(None))],
        Allowance::None { .. } => Vec::new(),
    };
    shares.retain(|share| share.request.limit > 0);
    shares
}
