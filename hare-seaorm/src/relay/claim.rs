//! What a relay asks for when it claims.

use uuid::Uuid;

use super::availability::Allowance;
use super::options::RelayOptions;
use crate::store::claim::Request;

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
        topics: options.topics.included.clone(),
        lease: options.lease,
        name: options.name.clone(),
        token: Uuid::now_v7(),
    })
}
