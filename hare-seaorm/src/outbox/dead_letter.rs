//! A dead letter as it is listed.

use sea_orm::prelude::DateTimeUtc;
use uuid::Uuid;

/// A dead letter without its body, which may be large, or be what cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Its place in the order of delivery; what a listing goes on after.
    pub sequence: i64,
    /// The event's id.
    pub id: Uuid,
    /// Its topic.
    pub topic: String,
    /// The key that it holds back, unless it [`releases_key`](Self::releases_key).
    pub ordering_key: Option<String>,
    /// When it was written.
    pub created_at: DateTimeUtc,
    /// When it ran out of attempts.
    pub dead_lettered_at: DateTimeUtc,
    /// How often it failed.
    pub attempts: i32,
    /// The error of the last failure.
    pub last_error: Option<String>,
    /// Whether its key goes on without it.
    pub releases_key: bool,
}
