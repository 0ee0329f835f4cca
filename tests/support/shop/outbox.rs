//! Outboxes of the shop's own, on the built-in one's table: the wakeup of the built-in one is the whole process's, theirs are the
//! tests'.

use std::sync::{Arc, LazyLock};

use hare_seaorm::wakeup::OutboxWakeup;
use tokio::sync::{Mutex, MutexGuard};

use crate::wakeup::RecordingWakeup;

/// Its wakeup notes the signals, for whoever holds a [`Heard`].
pub mod recording {
    #[hare_seaorm::outbox_event(table_name = "hare_outbox", wakeup = super::recorded)]
    pub struct Model {}
}

/// Its wakeup refuses every database.
pub mod refusing {
    #[hare_seaorm::outbox_event(table_name = "hare_outbox", wakeup = super::refused)]
    pub struct Model {}
}

static RECORDED: LazyLock<RecordingWakeup> = LazyLock::new(RecordingWakeup::default);

fn recorded() -> Arc<dyn OutboxWakeup> {
    Arc::new(RECORDED.clone())
}

fn refused() -> Arc<dyn OutboxWakeup> {
    Arc::new(RecordingWakeup {
        refuses: true,
        ..Default::default()
    })
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
        RECORDED.take()
    }
}
