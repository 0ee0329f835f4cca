//! Outboxes of the shop's own, on the built-in one's table: the wakeup of the built-in one is the whole process's, theirs are the
//! tests'.

use std::sync::{Arc, LazyLock};

use hare_seaorm::wakeup::OutboxWakeup;
use tokio::sync::{Mutex, MutexGuard};

use crate::wakeup::RecordingWakeup;

macro_rules! outbox {
    ($(#[$doc:meta])* $module:ident, $wakeup:expr) => {
        $(#[$doc])*
        pub mod $module {
            use std::sync::Arc;

            use hare_seaorm::json::JsonText;
            use hare_seaorm::outbox::{OutboxEntity, OutboxEvent};
            use hare_seaorm::wakeup::OutboxWakeup;
            use sea_orm::entity::prelude::*;

            #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
            #[sea_orm(table_name = "hare_outbox")]
            pub struct Model {
                #[sea_orm(primary_key)]
                pub sequence: i64,
                pub id: Uuid,
                pub topic: String,
                #[sea_orm(column_type = "Json")]
                pub payload: JsonText,
                #[sea_orm(column_type = "Json")]
                pub headers: JsonText,
                pub ordering_key: Option<String>,
                pub idempotency_key: Option<String>,
                pub created_at: DateTimeUtc,
                pub attempts: i32,
                pub max_attempts: Option<i32>,
                pub last_error: Option<String>,
                pub next_attempt_at: Option<DateTimeUtc>,
                pub claims: i32,
                pub published_at: Option<DateTimeUtc>,
                pub dead_lettered_at: Option<DateTimeUtc>,
            }

            #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
            pub enum Relation {}

            impl ActiveModelBehavior for ActiveModel {}

            impl OutboxEntity for Entity {
                fn wakeup() -> Option<Arc<dyn OutboxWakeup>> {
                    Some($wakeup)
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
        }
    };
}

outbox!(
    /// Its wakeup notes the signals, for whoever holds a `Heard`.
    recording,
    super::shared(&super::RECORDED)
);
outbox!(
    /// Its wakeup refuses every database.
    refusing,
    super::shared(&super::REFUSED)
);

outbox!(
    /// Its wakeup is the one that a `Notifying` was given.
    notifying,
    super::given()
);

static GIVEN: std::sync::Mutex<Option<Arc<dyn OutboxWakeup>>> = std::sync::Mutex::new(None);

fn given() -> Arc<dyn OutboxWakeup> {
    let given = GIVEN.lock().expect("no test panics in here");
    given.clone().expect("a `Notifying` is held")
}

/// Gives the outbox [`notifying`] its wakeup, for as long as it is held. One at a time in a process.
#[derive(Debug)]
pub struct Notifying(#[expect(dead_code, reason = "the turn")] MutexGuard<'static, ()>);

impl Notifying {
    pub async fn through(wakeup: Arc<dyn OutboxWakeup>) -> Self {
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        *GIVEN.lock().expect("no test panics in here") = Some(wakeup);
        Self(turn)
    }
}

/// A wakeup, and the one object that every write of its outbox gets.
type Shared = LazyLock<(RecordingWakeup, Arc<dyn OutboxWakeup>)>;

static RECORDED: Shared = LazyLock::new(|| both(RecordingWakeup::default()));
static REFUSED: Shared = LazyLock::new(|| {
    both(RecordingWakeup {
        refuses: true,
        ..Default::default()
    })
});

fn both(wakeup: RecordingWakeup) -> (RecordingWakeup, Arc<dyn OutboxWakeup>) {
    (wakeup.clone(), Arc::new(wakeup))
}

fn shared(wakeup: &'static Shared) -> Arc<dyn OutboxWakeup> {
    Arc::clone(&wakeup.1)
}

/// What the wakeup of [`recording`] heard. One at a time in a process, so that no test hears another's.
#[derive(Debug)]
pub struct Heard(#[expect(dead_code, reason = "the turn")] MutexGuard<'static, ()>);

impl Heard {
    pub async fn from_now_on() -> Self {
        static TURN: Mutex<()> = Mutex::const_new(());
        let heard = Self(TURN.lock().await);
        heard.take();
        heard
    }

    /// The signals since the last time, each with its topics.
    pub fn take(&self) -> Vec<Vec<String>> {
        RECORDED.0.take()
    }
}
