//! The relay: takes events out of the outbox and hands them to a delivery, at least once each and in the order of their keys;
//! and what an operator does with the queue: [dead letters](DeadLetters), [cleanups](OutboxRelay::cleanup_published), the
//! [backlog](OutboxRelay::backlog), [observers](RelayObserver).
//!
//! `claim -> deliver -> settle`, over and over. A claim leases events (`store::claim` says which, and why that keeps their
//! order), lanes are delivered in rounds (`deliver`), outcomes recorded by one statement each (`settle`).
//!
//! Invariant: between a claim and its settling nothing is held but leases, so a relay that dies at any point loses nothing:
//! its leases end, and its events are delivered again.

mod availability;
mod claim;
mod cleanup;
mod dead_letters;
mod deliver;
mod handle;
mod lane;
mod lease;
mod listen;
mod observer;
mod options;
mod policy;
mod retry;
mod run;
mod settle;
mod store_access;
mod topics;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use sea_orm::DatabaseConnection;

use crate::connection::check_driver;
use crate::delivery::{OutboxDelivery, Stop};
use crate::error::{ConfigError, Error};
use crate::outbox::{self, Backlog, OutboxEntity};
use crate::store::clock::Clock;
use crate::wakeup::{InProcessWakeup, OutboxWakeup};

use availability::Availability;
pub use cleanup::Cleanup;
pub use dead_letters::{DeadLetterFilter, DeadLetters};
use handle::LastRun;
pub use handle::RelayHandle;
pub use observer::{DeadLettered, Delivered, Failed, RelayObserver};
use options::RelayOptions;
pub use policy::DeadLetterPolicy;
use run::Runner;
use store_access::Store;

/// Delivers the events of one outbox table.
///
/// Any number of relays may serve one table, in one process or many. Each event is delivered at least once; events that share
/// an ordering key are delivered strictly in order, and one that fails holds back only its own key.
///
/// ```no_run
/// # use hare_seaorm::{CallableDelivery, OutboxRelay, outbox};
/// # async fn start(db: sea_orm::DatabaseConnection) -> Result<(), Box<dyn std::error::Error>> {
/// let print = CallableDelivery::new(|event: outbox::Model| async move {
///     println!("{} {}", event.topic, event.payload.as_str());
///     Ok::<_, std::io::Error>(())
/// });
/// let relay = OutboxRelay::new(db, print).batch_size(500).start()?;
/// // the application runs
/// relay.stop().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "a relay does nothing until it is started"]
pub struct OutboxRelay<E: OutboxEntity = outbox::Entity> {
    db: DatabaseConnection,
    delivery: Arc<dyn OutboxDelivery<E::Model>>,
    options: RelayOptions,
    clock: Clock,
    /// `None` until it is told: the outbox's own, asked for only when a run begins.
    wakeup: Option<Option<Arc<dyn OutboxWakeup>>>,
    /// Tells the runs of this relay of what it made pending itself.
    own_wakeup: Arc<dyn OutboxWakeup>,
    observer: Option<Arc<dyn RelayObserver>>,
    availability: Arc<Availability>,
    last_run: Mutex<LastRun>,
}

impl<E: OutboxEntity> fmt::Debug for OutboxRelay<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxRelay")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// What one poll did, or a [`flush`](OutboxRelay::flush) in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PollOutcome {
    /// Events claimed. More than the rest together if an outcome was another relay's to record.
    pub claimed: usize,
    /// Events delivered.
    pub delivered: usize,
    /// Events that failed and are tried again.
    pub failed: usize,
    /// Events that failed for the last time.
    pub dead_lettered: usize,
    /// Events given back with nothing counted: behind one that failed, or not sent.
    pub released: usize,
}

impl std::ops::AddAssign for PollOutcome {
    fn add_assign(&mut self, other: Self) {
        self.claimed += other.claimed;
        self.delivered += other.delivered;
        self.failed += other.failed;
        self.dead_lettered += other.dead_lettered;
        self.released += other.released;
    }
}

impl OutboxRelay {
    /// A relay of the built-in outbox. It does nothing until it is started.
    pub fn new(db: DatabaseConnection, delivery: impl OutboxDelivery<outbox::Model>) -> Self {
        Self::for_outbox(db, delivery)
    }

    /// A relay of another outbox: `OutboxRelay::for_outbox::<my_outbox::Entity>(db, delivery)`.
    pub fn for_outbox<E: OutboxEntity>(
        db: DatabaseConnection,
        delivery: impl OutboxDelivery<E::Model>,
    ) -> OutboxRelay<E> {
        OutboxRelay {
            db,
            delivery: Arc::new(delivery),
            options: RelayOptions::default(),
            clock: Clock::default(),
            wakeup: None,
            own_wakeup: Arc::new(InProcessWakeup::new()),
            observer: None,
            availability: Arc::default(),
            last_run: Mutex::default(),
        }
    }
}

impl<E: OutboxEntity> OutboxRelay<E> {
    /// Starts delivering, in a task of the current tokio runtime, until [`RelayHandle::stop`].
    ///
    /// Started again while it runs, it answers another handle of the same run. Started while it stops, the new run begins when
    /// the old one has ended.
    ///
    /// # Errors
    /// [`ConfigError`] lists every option that is out of its range, what the delivery's own
    /// [`check`](OutboxDelivery::check) says, a wakeup that cannot work with this database, or a call outside a tokio runtime.
    pub fn start(&self) -> Result<RelayHandle, ConfigError> {
        let wakeup = self.checked()?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
            ConfigError::new("`start` was called outside a tokio runtime: call it inside, or use `run_until`")
        })?;
        let mut last_run = self.last_run.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(last_run.go_on_or(|| {
            let runner = self.runner();
            let stop = Stop::default();
            (
                stop.clone(),
                runtime,
                async move { runner.run(wakeup, stop).await },
            )
        }))
    }

    /// Delivers until `shutdown` is ready, then stops as [`RelayHandle::stop`] does. One future, nothing spawned but the
    /// renewal of leases.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    /// # Cancel safety
    /// Dropped, it ends at its next await and leaves its leases to expire; what was being delivered is delivered again.
    pub async fn run_until(&self, shutdown: impl Future<Output = ()>) -> Result<(), ConfigError> {
        let wakeup = self.checked()?;
        let stop = Stop::default();
        let runner = self.runner();
        let running = runner.run(wakeup, stop.clone());
        tokio::pin!(running, shutdown);
        tokio::select! {
            () = &mut running => {}
            () = shutdown => {
                stop.request();
                running.await;
            }
        }
        Ok(())
    }

    /// Claims one batch, delivers it and records the outcomes.
    ///
    /// While the receiver is taken for unreachable (after a [`DeliveryError::unavailable`](crate::delivery::DeliveryError::unavailable),
    /// for 1 s at first) it claims nothing; of several receivers, nothing that goes to that one.
    ///
    /// # Errors
    /// [`Error::Config`] for bad options. [`Error::Database`] or [`Error::Retryable`] if events could not be claimed, or an
    /// outcome not be recorded: those events are delivered again once their leases have ended. A failing delivery is no error
    /// but counted.
    /// # Cancel safety
    /// Dropped, it leaves its leases to expire; what was being delivered is delivered again.
    pub async fn poll_once(&self) -> Result<PollOutcome, Error> {
        self.check_options()?;
        self.runner()
            .poll(self.options.batch_size, &Stop::default())
            .await
    }

    /// Polls until nothing is due, at most `limit` events were claimed, or the receiver (of several, all that events are due for)
    /// cannot be reached; for a job that runs now and then instead of a relay that stays.
    ///
    /// # Errors
    /// As [`poll_once`](Self::poll_once); what was recorded before stays recorded.
    /// # Cancel safety
    /// As [`poll_once`](Self::poll_once).
    pub async fn flush(&self, limit: usize) -> Result<PollOutcome, Error> {
        self.check_options()?;
        let runner = self.runner();
        let mut sum = PollOutcome::default();
        while sum.claimed < limit {
            let outcome = runner
                .poll(self.options.batch_size.min(limit - sum.claimed), &Stop::default())
                .await?;
            sum += outcome;
            if outcome.claimed == 0 {
                break;
            }
        }
        Ok(sum)
    }

    /// Counts what is not delivered of this relay's topics, in one statement; for a gauge or a health check. On a large
    /// backlog it reads all of it: once in a while, not at every request.
    ///
    /// # Errors
    /// [`Error::Config`] for bad options. [`Error::Database`].
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn backlog(&self) -> Result<Backlog, Error> {
        self.check_options()?;
        self.store().backlog(self.options.topics.filter()).await
    }

    fn store(&self) -> Store<E> {
        Store::new(self.db.clone(), self.clock.clone())
    }

    /// What is wrong with the options and with the delivery.
    fn problems(&self) -> Vec<String> {
        let mut problems = self.options.problems();
        if let Err(error) = self.delivery.check() {
            problems.extend(error.problems);
        }
        problems
    }

    fn check_options(&self) -> Result<(), ConfigError> {
        ConfigError::all(self.problems()).map_or(Ok(()), Err)
    }

    fn checked(&self) -> Result<Option<Arc<dyn OutboxWakeup>>, ConfigError> {
        let mut problems = self.problems();
        if let Err(error) = check_driver(self.db.get_database_backend()) {
            problems.extend(error.problems);
        }
        let wakeup = self.wakeup.clone().unwrap_or_else(E::wakeup);
        if let Some(Err(error)) = wakeup
            .as_ref()
            .map(|wakeup| wakeup.check(self.db.get_database_backend()))
        {
            problems.extend(error.problems);
        }
        ConfigError::all(problems).map_or(Ok(wakeup), Err)
    }

    fn runner(&self) -> Runner<E> {
        Runner::new(
            self.store(),
            Arc::clone(&self.delivery),
            self.options.clone(),
            Arc::clone(&self.availability),
            Arc::clone(&self.own_wakeup),
            self.observer.clone(),
        )
    }
}
