//! How much there is to do.

use std::time::Duration;

/// What of an outbox is not delivered, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// Events still to be delivered: also those that are being delivered, wait for another attempt, or stand behind another
    /// event of their key.
    pub pending: u64,
    /// How long ago the first of them, by sequence, was written; `None` if nothing is pending.
    pub oldest_pending_age: Option<Duration>,
    /// Dead letters.
    pub dead_lettered: u64,
}
