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

/// A part of a poll.
#[derive(Debug)]
pub(super) struct Share {
    /// The most events.
    most: usize,
    narrowing: Narrowing,
    /// The receiver that it asks whether it is back.
    pub(super) probed: Option<Receiver>,
}

/// The shares of a poll: one event of each receiver that is to be asked again, then the rest of what may be claimed. None while
/// nothing may.
pub(super) fn shares(allowance: Allowance) -> Vec<Share> {
    match allowance {
        Allowance::Full { without, probes } => {
            let probes = probes.into_iter().map(|probe| Share {
                most: 1,
                narrowing: Narrowing::Only(probe.topics),
                probed: Some(probe.receiver),
            });
            let rest = Share {
                most: usize::MAX,
                narrowing: Narrowing::Without(without),
                probed: None,
            };
            probes.chain([rest]).collect()
        }
        Allowance::Probe => vec![Share {
            most: 1,
            narrowing: Narrowing::Without(Vec::new()),
            probed: Some(None),
        }],
        Allowance::None { .. } => Vec::new(),
    }
}

/// The claim of a share, of at most `limit` events, under a token of its own.
pub(super) fn request(options: &RelayOptions, share: &Share, limit: usize) -> Request {
    let limit = limit.min(share.most);
    Request {
        limit,
        lane_length: options.lane_length().min(limit),
        topics: options.topics.filter(),
        narrowing: share.narrowing.clone(),
        lease: options.lease,
        name: options.name.clone(),
        token: Uuid::now_v7(),
    }
}
