//! Deleting old events. No relay does it by itself: how long they are kept is the application's to say.

use std::pin::Pin;
use std::time::Duration;

use super::OutboxRelay;
use super::options::check;
use crate::error::{ConfigError, Error};
use crate::outbox::OutboxEntity;
use crate::store::cleanup::{Old, Over};

/// A cleanup that is about to run: await it. From [`OutboxRelay::cleanup_published`] and
/// [`OutboxRelay::cleanup_dead_lettered`].
#[must_use = "a cleanup does nothing until it is awaited"]
pub struct Cleanup<'r, E: OutboxEntity> {
    relay: &'r OutboxRelay<E>,
    over: Over,
    older_than: Duration,
    batch_size: u64,
}

impl<E: OutboxEntity> std::fmt::Debug for Cleanup<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cleanup")
            .field("over", &self.over)
            .field("older_than", &self.older_than)
            .field("batch_size", &self.batch_size)
            .finish_non_exhaustive()
    }
}

impl<E: OutboxEntity> OutboxRelay<E> {
    /// Deletes the events of this relay's topics that were published longer ago than this, by the database's clock, and answers
    /// how many. A deleted event's idempotency key may be used again.
    ///
    /// It deletes batch by batch, each at once and for good, and waits for no writer, save on MySQL for one that has locked a row
    /// that is to go. The relay need not run.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use hare_seaorm::{MemoryDelivery, OutboxRelay};
    /// # async fn clean(db: sea_orm::DatabaseConnection) -> Result<(), hare_seaorm::Error> {
    /// # let relay = OutboxRelay::new(db, MemoryDelivery::new());
    /// const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
    /// let deleted = relay.cleanup_published(WEEK).await?;
    /// let deleted_in_small_steps = relay.cleanup_published(WEEK).batch_size(100).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] for bad options or a bad batch size. [`Error::Database`] or [`Error::Retryable`] with a part of them
    /// deleted: calling again goes on with the rest.
    pub fn cleanup_published(&self, older_than: Duration) -> Cleanup<'_, E> {
        self.cleanup(Over::Published, older_than)
    }

    /// Deletes the dead letters of this relay's topics that have been so for longer than this, as
    /// [`cleanup_published`](Self::cleanup_published) does. What waited behind them is delivered.
    ///
    /// # Errors
    /// As [`cleanup_published`](Self::cleanup_published).
    pub fn cleanup_dead_lettered(&self, older_than: Duration) -> Cleanup<'_, E> {
        self.cleanup(Over::DeadLettered, older_than)
    }

    fn cleanup(&self, over: Over, older_than: Duration) -> Cleanup<'_, E> {
        Cleanup {
            relay: self,
            over,
            older_than,
            batch_size: 1000,
        }
    }
}

impl<E: OutboxEntity> Cleanup<'_, E> {
    /// The most events deleted by one statement. Default 1,000, from 1 to 10,000.
    pub fn batch_size(mut self, events: u64) -> Self {
        self.batch_size = events;
        self
    }

    async fn run(self) -> Result<u64, Error> {
        let mut problems = self.relay.options.problems();
        problems.extend(check(
            "the `batch_size` of the cleanup",
            &self.batch_size,
            1..=10_000,
        ));
        ConfigError::all(problems).map_or(Ok(()), Err)?;
        let store = self.relay.store();
        let old = Old {
            over: self.over,
            older_than: self.older_than,
            topics: self.relay.options.topics.filter(),
        };
        let mut deleted = 0;
        loop {
            let batch = store.delete_old(&old, self.batch_size).await?;
            deleted += batch.deleted;
            if batch.is_last {
                return Ok(deleted);
            }
        }
    }
}

impl<'r, E: OutboxEntity> IntoFuture for Cleanup<'r, E> {
    type Output = Result<u64, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'r>>;

    /// # Cancel safety
    /// Dropped half-way, a part of them is deleted.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
