//! Wakeups that note what they were told.

use std::sync::{Arc, Mutex};

use hare_seaorm::ConfigError;
use hare_seaorm::wakeup::{OutboxWakeup, Signals, WakeupError};
use sea_orm::{DatabaseConnection, DbBackend};

/// Notes every signal; fails or refuses when told to.
#[derive(Debug, Clone, Default)]
pub struct RecordingWakeup {
    pub heard: Arc<Mutex<Vec<Vec<String>>>>,
    pub fails: bool,
    pub refuses: bool,
}

impl RecordingWakeup {
    pub fn take(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

#[async_trait::async_trait]
impl OutboxWakeup for RecordingWakeup {
    async fn signal(&self, topics: &[String]) -> Result<(), WakeupError> {
        self.heard.lock().unwrap().push(topics.to_vec());
        if self.fails {
            Err(WakeupError::new("the wakeup is told to fail"))
        } else {
            Ok(())
        }
    }

    fn check(&self, _backend: DbBackend) -> Result<(), ConfigError> {
        if self.refuses {
            Err(ConfigError::new("this database is refused"))
        } else {
            Ok(())
        }
    }

    async fn listen(&self, _db: &DatabaseConnection, _signals: &Signals) -> Result<(), WakeupError> {
        std::future::pending().await
    }
}
