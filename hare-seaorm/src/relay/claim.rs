//! What a relay asks for when it claims, and how often.

use std::time::Duration;

use uuid::Uuid;

use super::availability::Allowance;
use super::options::RelayOptions;
use super::store_access::Store;
use crate::error::Error;
use crate::outbox::OutboxEntity;
use crate::store::claim::{Claimed, Request};

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

/// A claim of at most `limit` events, under a token of its own; `None` while nothing may be claimed.
pub(super) fn request(options: &RelayOptions, allowance: Allowance, limit: usize) -> Option<Request> {
    let limit = match allowance {
        Allowance::Full => limit,
        Allowance::Probe => limit.min(1),
        Allowance::None { .. } => 0,
    };
    (limit > 0).then(|| Request {
        limit,
        lane_length: options.lane_length().min(limit),
        topics: options.topics.filter(),
        lease: options.lease,
        name: options.name.clone(),
        token: Uuid::now_v7(),
    })
}
