//! Wakeups: a hint that events may be due, never a promise.
//!
//! A relay that misses every hint still delivers everything, at its poll interval. So a signal may be lost, repeated or
//! wrong, and a failing one is logged and changes nothing.

mod in_process;
#[cfg(feature = "sqlx-postgres")]
mod listen_notify;
mod signals;

use std::error::Error as StdError;

use sea_orm::{DatabaseConnection, DbBackend, Statement};

use crate::error::ConfigError;

pub use in_process::InProcessWakeup;
#[cfg(feature = "sqlx-postgres")]
pub use listen_notify::ListenNotifyWakeup;
pub(crate) use signals::Pending;
pub use signals::Signals;

/// Carries the news that events were written to the relays that may want them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an `OutboxWakeup`",
    note = "use `InProcessWakeup::new()`, or implement the trait with `#[async_trait]`"
)]
#[async_trait::async_trait]
pub trait OutboxWakeup: Send + Sync + 'static {
    /// Tells of new events under these topics, each named once. Called after the commit.
    async fn signal(&self, topics: &[String]) -> Result<(), WakeupError>;

    /// A statement that tells of them when the surrounding transaction commits, for a plain SeaORM transaction, whose commit
    /// nobody else can see. `None`: the relay's own poll finds them.
    fn in_transaction(&self, backend: DbBackend, topics: &[String]) -> Option<Statement> {
        let _ = (backend, topics);
        None
    }

    /// Refuses a database that this wakeup cannot work with, before any event is written there.
    fn check(&self, backend: DbBackend) -> Result<(), ConfigError> {
        let _ = backend;
        Ok(())
    }

    /// Listens and merges what it hears into `signals`, until dropped.
    ///
    /// # Cancel safety
    /// Dropped at any await when the last relay stops; what it opened must close by itself.
    async fn listen(&self, db: &DatabaseConnection, signals: &Signals) -> Result<(), WakeupError>;

    /// Releases what [`signal`](Self::signal) and [`listen`](Self::listen) opened, and sends what is still to be sent. For whoever
    /// made the wakeup, at the end of the process: writers and relays share it, so a relay that stops does not call it.
    async fn close(&self) {}
}

/// A signal that could not be sent, or a listener that had to give up.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct WakeupError {
    source: Box<dyn StdError + Send + Sync>,
}

impl WakeupError {
    /// Wraps the transport's error.
    pub fn new(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            source: source.into(),
        }
    }
}
