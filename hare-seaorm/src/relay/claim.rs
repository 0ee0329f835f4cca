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

impl Share {
    /// The same, of at most `left` events.
    pub(super) fn within(mut self, left: usize) -> Self {
        let request = &mut self.request;
        request.limit = request.limit.min(left);
        request.lane_length = request.lane_length.min(request.limit);
        self
    }
}

/// The claims of a poll, each [within](Share::within) what those before it have left: one event for each receiver that is to be
/// asked again, and then the rest of what may be claimed. None while nothing may.
pub(super) fn shares(options: &RelayOptions, allowance: Allowance) -> Vec<Share> {
    let share = |limit, narrowing, probed| Share {
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
    match allowance {
        Allowance::Full { without, probes } => probes
            .into_iter()
            .map(|probe| share(1, Narrowing::Only(probe.topics), Some(probe.receiver)))
            .chain([share(options.batch_size, Narrowing::Without(without), None)])
            .collect(),
        Allowance::Probe => vec![share(1, Narrowing::Without(Vec::new()), Some(None))],
        Allowance::None { .. } => Vec::new(),
    }
}
