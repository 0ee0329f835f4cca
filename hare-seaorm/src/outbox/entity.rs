//! The built-in outbox entity, table `hare_outbox`.

use std::sync::{Arc, OnceLock};

use sea_orm::entity::prelude::*;

use super::model::{OutboxEntity, OutboxEvent};
use crate::error::ConfigError;
use crate::json::JsonText;
use crate::wakeup::{InProcessWakeup, OutboxWakeup};

/// One event. Written by captured writes and by [`enqueue`](super::enqueue()), read by anyone, changed by the relay only.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "hare_outbox")]
#[non_exhaustive]
pub struct Model {
    /// The order of delivery, given by the database.
    #[sea_orm(primary_key)]
    pub sequence: i64,
    /// What a receiver deduplicates by; a UUID of version 7.
    #[sea_orm(unique)]
    pub id: Uuid,
    /// What the event is about, at most 255 characters.
    pub topic: String,
    /// The body: JSON text, kept to the letter.
    #[sea_orm(column_type = "Json")]
    pub payload: JsonText,
    /// A JSON object of metadata, `{}` when there is none.
    #[sea_orm(column_type = "Json")]
    pub headers: JsonText,
    /// Events of one key are delivered strictly in order; `None` is unordered.
    pub ordering_key: Option<String>,
    /// At most one event exists per key.
    #[sea_orm(unique)]
    pub idempotency_key: Option<String>,
    /// When the event was written, by the database's clock.
    pub created_at: DateTimeUtc,
    /// Failed deliveries so far.
    pub attempts: i32,
    /// The most deliveries this event may fail; the relay's number if `None`.
    pub max_attempts: Option<i32>,
    /// The error of the last failed delivery.
    #[sea_orm(column_type = "Text", nullable)]
    pub last_error: Option<String>,
    /// When it is tried again; `None` for at once.
    pub next_attempt_at: Option<DateTimeUtc>,
    /// Until when the relay in `leased_by` holds it.
    pub lease_until: Option<DateTimeUtc>,
    /// The relay that is delivering it.
    pub leased_by: Option<String>,
    /// The claim that is delivering it; a new one each time.
    pub lease_token: Option<Uuid>,
    /// Claims that ended without an outcome.
    pub claims: i32,
    /// A dead letter that no longer holds back its key.
    pub releases_key: bool,
    /// When it was delivered.
    pub published_at: Option<DateTimeUtc>,
    /// When it ran out of attempts.
    pub dead_lettered_at: Option<DateTimeUtc>,
}

/// The outbox has no relations.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

static WAKEUP: OnceLock<Arc<dyn OutboxWakeup>> = OnceLock::new();

/// Sets what the built-in outbox wakes its relays with, in place of the [`InProcessWakeup`] it has by default. Once, at start.
///
/// # Errors
/// If one was set before, or the default was already in use because an event was written or a relay started.
pub fn set_wakeup(wakeup: impl OutboxWakeup) -> Result<(), ConfigError> {
    WAKEUP.set(Arc::new(wakeup)).map_err(|_| {
        ConfigError::new(
            "the wakeup of `hare_seaorm::outbox` is in use already: call `outbox::set_wakeup` once, at start, before the first \
             event is written or a relay is started",
        )
    })
}

impl OutboxEntity for Entity {
    fn wakeup() -> Option<Arc<dyn OutboxWakeup>> {
        Some(Arc::clone(
            WAKEUP.get_or_init(|| Arc::new(InProcessWakeup::new())),
        ))
    }
}

impl OutboxEvent for Model {
    fn sequence(&self) -> i64 {
        self.sequence
    }
    fn id(&self) -> Uuid {
        self.id
    }
    fn topic(&self) -> &str {
        &self.topic
    }
    fn payload(&self) -> &JsonText {
        &self.payload
    }
    fn headers(&self) -> &JsonText {
        &self.headers
    }
    fn ordering_key(&self) -> Option<&str> {
        self.ordering_key.as_deref()
    }
    fn idempotency_key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }
    fn created_at(&self) -> DateTimeUtc {
        self.created_at
    }
    fn attempts(&self) -> i32 {
        self.attempts
    }
    fn max_attempts(&self) -> Option<i32> {
        self.max_attempts
    }
    fn next_attempt_at(&self) -> Option<DateTimeUtc> {
        self.next_attempt_at
    }
    fn claims(&self) -> i32 {
        self.claims
    }
    fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }
    fn published_at(&self) -> Option<DateTimeUtc> {
        self.published_at
    }
    fn dead_lettered_at(&self) -> Option<DateTimeUtc> {
        self.dead_lettered_at
    }
}
