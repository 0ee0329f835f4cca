//! PostgreSQL's own `LISTEN` and `NOTIFY`: wakes the relays of every process that is connected to the database.
//!
//! Two ways lead to a `NOTIFY`. In a plain SeaORM transaction, whose commit nobody else sees, it is a statement of the
//! transaction itself. Anywhere else it is sent after the commit, gathered with those of other writers ([`Sender`]).
//!
//! Invariant: a writer never waits for a `NOTIFY` that is sent after its commit, nor fails with it; and whatever ends a task that
//! sends, the next signal finds nobody sending and starts one.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sea_orm::sea_query::ArrayType;
use sea_orm::sqlx::Executor;
use sea_orm::sqlx::postgres::{PgListener, PgPool, PgPoolOptions};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseConnectionType, DbBackend, DbErr, Statement, Value,
};
use tokio::runtime::Handle;

use super::{OutboxWakeup, Signals, WakeupError};
use crate::connection::uncut;
use crate::error::ConfigError;
use crate::logs::Chain;

/// How long signals are gathered before they are sent.
const GATHERED: Duration = Duration::from_millis(5);

/// The most topics that one sending names; of more, it names none.
const MOST_PAYLOADS: usize = 1_000;

/// The longest payload is shorter than this, in bytes: <https://www.postgresql.org/docs/current/sql-notify.html>.
const TOO_LONG: usize = 8_000;

/// The longest name of a channel, in bytes: PostgreSQL cuts off the rest of an identifier.
const LONGEST_CHANNEL: usize = 63;

/// How long it may take to open a connection, and then to listen on it.
const CONNECTED_WITHIN: Duration = Duration::from_secs(30);

/// What a listening connection is called in `pg_stat_activity`.
const APPLICATION_NAME: &str = "hare-seaorm listener";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Wakes relays of all processes through PostgreSQL's `LISTEN` and `NOTIFY`, on the channel `hare_outbox`. There is one
/// notification per topic, its payload the topic; an empty payload wakes every relay.
///
/// ```no_run
/// # async fn start(db: sea_orm::DatabaseConnection) -> Result<(), Box<dyn std::error::Error>> {
/// use hare_seaorm::{ListenNotifyWakeup, outbox};
///
/// outbox::set_wakeup(ListenNotifyWakeup::new(&db))?; // once, before the first event is written or a relay started
/// # Ok(())
/// # }
/// ```
///
/// For an outbox of your own, the function in `wakeup = ...` of [`outbox_event`](macro@crate::outbox_event) makes it. It has no
/// argument and is called when the first event is written or a relay started, so the connection is put where it finds it before:
///
/// ```
/// mod billing_outbox {
///     use std::sync::{Arc, OnceLock};
///
///     use hare_seaorm::{ListenNotifyWakeup, OutboxWakeup};
///     use sea_orm::DatabaseConnection;
///
///     #[hare_seaorm::outbox_event(table_name = "billing_outbox", wakeup = wakeup)]
///     pub struct Model {
///         pub origin: Option<String>,
///     }
///
///     /// Set once, at start, right after the connection is made.
///     pub static DB: OnceLock<DatabaseConnection> = OnceLock::new();
///
///     fn wakeup() -> Arc<dyn OutboxWakeup> {
///         Arc::new(ListenNotifyWakeup::new(DB.get().expect("`DB` is set at start")))
///     }
/// }
/// # fn main() {}
/// ```
///
/// Several outboxes may share a channel: one notification then wakes the relays of all of them that want the topic. With
/// [`channel`](Self::channel) each has its own.
///
/// # When it notifies
///
/// On a pool, and in a transaction of [`begin`](crate::begin()), the notifications go out *after* the commit: topics are gathered
/// for a few milliseconds and sent with one statement on the pool that the wakeup was made with, so that a thousand commits make a
/// handful of notifying ones. A transaction that has notified takes a lock over the whole server while it commits, so notifying in
/// each of them would have them wait for each other ([`NOTIFY`](https://www.postgresql.org/docs/current/sql-notify.html) says that
/// the queue keeps the order of commits). What a process has gathered when it dies is lost, and found by the relays' next poll;
/// [`close`](OutboxWakeup::close) sends it.
///
/// In a plain SeaORM transaction nobody sees the commit, so the notification is a statement of the transaction: heard when it
/// commits, never if it is rolled back, and each topic once. Such a transaction cannot be prepared for a commit in two phases.
///
/// # How a relay listens
///
/// On a connection of its own beside the pool, so it needs one more than the pool's size; it shows as `hare-seaorm listener` in
/// `pg_stat_activity`. A lost connection is opened again, and the relay then polls at once, because notifications in between went by
/// unheard. `LISTEN` needs a session: PgBouncer must not pool transactions between the relay and the server.
pub struct ListenNotifyWakeup {
    sender: Arc<Sender>,
    health_check: Duration,
}

impl ListenNotifyWakeup {
    /// Notifies through this pool. That it is one of PostgreSQL is checked when the first event is written, before it is, and when
    /// a relay starts.
    pub fn new(db: &DatabaseConnection) -> Self {
        Self {
            sender: Arc::new(Sender {
                db: db.clone(),
                channel: "hare_outbox".to_owned(),
                gathered: Mutex::default(),
                sending: tokio::sync::Mutex::default(),
            }),
            health_check: Duration::from_secs(30),
        }
    }

    /// The channel. Default `hare_outbox`, from 1 to 63 bytes. Relays hear only what is notified on theirs.
    #[must_use]
    pub fn channel(self, name: impl Into<String>) -> Self {
        let sender = Sender {
            db: self.sender.db.clone(),
            channel: name.into(),
            gathered: Mutex::default(),
            sending: tokio::sync::Mutex::default(),
        };
        Self {
            sender: Arc::new(sender),
            ..self
        }
    }

    /// How often a listening connection is asked for a sign of life, which it must give within the same time; else it is opened
    /// again. A connection that a firewall has forgotten would be silent for ever. Default 30 s, above zero and at most a day.
    #[must_use]
    pub fn health_check(mut self, every: Duration) -> Self {
        self.health_check = every;
        self
    }

    fn problems(&self) -> Vec<String> {
        let channel = &self.sender.channel;
        let mut problems = Vec::new();
        if pool_of(&self.sender.db).is_none() {
            problems.push(
                "`ListenNotifyWakeup` was made with a connection that is no pool of PostgreSQL".to_owned(),
            );
        }
        if channel.is_empty() || channel.len() > LONGEST_CHANNEL || channel.contains('\0') {
            problems.push(format!(
                "the channel of `ListenNotifyWakeup` is {channel:?}: it must have from 1 to {LONGEST_CHANNEL} bytes, and no NUL"
            ));
        }
        if self.health_check.is_zero() || self.health_check > DAY {
            problems.push(format!(
                "the `health_check` of `ListenNotifyWakeup` is {:?}: it must be above zero and at most a day",
                self.health_check
            ));
        }
        problems
    }
}

impl fmt::Debug for ListenNotifyWakeup {
    /// Without the pool, whose options hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenNotifyWakeup")
            .field("channel", &self.sender.channel)
            .field("health_check", &self.health_check)
            .finish_non_exhaustive()
    }
}

fn pool_of(db: &DatabaseConnection) -> Option<&PgPool> {
    matches!(db.inner, DatabaseConnectionType::SqlxPostgresPoolConnection(_))
        .then(|| db.get_postgres_connection_pool())
}

#[async_trait::async_trait]
impl OutboxWakeup for ListenNotifyWakeup {
    async fn signal(&self, topics: &[String]) -> Result<(), WakeupError> {
        let runtime = Handle::try_current().map_err(WakeupError::new)?;
        let Some(payloads) = payloads(topics) else {
            return Ok(());
        };
        if let Some(turn) = self.sender.gather(payloads) {
            runtime.spawn(turn.take());
        }
        Ok(())
    }

    fn in_transaction(&self, backend: DbBackend, topics: &[String]) -> Option<Statement> {
        let payloads = payloads(topics)?;
        (backend == DbBackend::Postgres).then(|| notify(&self.sender.channel, payloads))
    }

    fn check(&self, backend: DbBackend) -> Result<(), ConfigError> {
        let mut problems = self.problems();
        if backend != DbBackend::Postgres {
            problems.push(format!(
                "`ListenNotifyWakeup` needs PostgreSQL, not {backend:?}: use `InProcessWakeup` there"
            ));
        }
        ConfigError::all(problems).map_or(Ok(()), Err)
    }

    async fn listen(&self, db: &DatabaseConnection, signals: &Signals) -> Result<(), WakeupError> {
        let pool =
            pool_of(db).ok_or_else(|| WakeupError::new("the relay's database is no pool of PostgreSQL"))?;
        let mut listener = Listener::connect(pool, &self.sender.channel, self.health_check).await?;
        // Anything may have been written before it listened.
        signals.merge(&[]);
        loop {
            let payload = listener.next().await?;
            if payload.is_empty() {
                signals.merge(&[]);
            } else {
                signals.merge(&[payload]);
            }
        }
    }

    async fn close(&self) {
        let sender = Arc::clone(&self.sender);
        let sent = uncut(async move {
            sender.send().await;
            Ok::<_, DbErr>(())
        });
        if let Err(error) = sent.await {
            tracing::warn!(name: "hare.notification_lost", error = %Chain(&error), "gathered notifications may not have been sent");
        }
    }
}

/// What is to be notified of topics: each of them, or one empty payload for none. `None` if no event can have such a topic: it
/// must not fail a transaction.
fn payloads(topics: &[String]) -> Option<Vec<String>> {
    if topics.is_empty() {
        return Some(vec![String::new()]);
    }
    let can_be_notified = |topic: &&String| topic.len() < TOO_LONG && !topic.contains('\0');
    let payloads: Vec<String> = topics.iter().filter(can_be_notified).cloned().collect();
    (!payloads.is_empty()).then_some(payloads)
}

/// One `NOTIFY` per payload.
fn notify(channel: &str, payloads: Vec<String>) -> Statement {
    let payloads = payloads.into_iter().map(Value::from).collect();
    Statement::from_sql_and_values(
        DbBackend::Postgres,
        "SELECT pg_notify(CAST($1 AS text), payload) FROM unnest(CAST($2 AS text[])) AS payload",
        [
            Value::from(channel),
            Value::Array(ArrayType::String, Some(Box::new(payloads))),
        ],
    )
}

/// Sends what many writers signal with few statements.
struct Sender {
    db: DatabaseConnection,
    channel: String,
    gathered: Mutex<Gathered>,
    /// Held while a statement is under way, so that `close` waits for it.
    sending: tokio::sync::Mutex<()>,
}

/// What is to be sent, and whether a task will.
#[derive(Debug, Default)]
struct Gathered {
    payloads: BTreeSet<String>,
    has_task: bool,
}

/// What the task that sends holds: whatever ends it, a runtime that shuts down or a panic, the next signal starts another.
struct Turn {
    sender: Arc<Sender>,
    is_over: bool,
}

impl Turn {
    /// Sends until nothing is left.
    async fn take(mut self) {
        while !self.is_over {
            tokio::time::sleep(GATHERED).await;
            self.sender.send().await;
            let mut gathered = self.sender.gathered();
            self.is_over = gathered.payloads.is_empty();
            gathered.has_task = !self.is_over;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_over {
            self.sender.gathered().has_task = false;
        }
    }
}

impl Sender {
    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds payloads. The turn to send them, if nobody has it.
    fn gather(self: &Arc<Self>, payloads: Vec<String>) -> Option<Turn> {
        let mut gathered = self.gathered();
        gathered.payloads.extend(payloads);
        if gathered.payloads.len() > MOST_PAYLOADS {
            // The empty one wakes all that these would.
            gathered.payloads = BTreeSet::from([String::new()]);
        }
        let is_free = !std::mem::replace(&mut gathered.has_task, true);
        is_free.then(|| Turn {
            sender: Arc::clone(self),
            is_over: false,
        })
    }

    /// Sends what is gathered. A failure is logged: the events are committed, and polling finds them.
    async fn send(&self) {
        let _sending = self.sending.lock().await;
        let payloads = std::mem::take(&mut self.gathered().payloads);
        if payloads.is_empty() {
            return;
        }
        let statement = notify(&self.channel, payloads.into_iter().collect());
        if let Err(error) = self.db.execute_raw(statement).await {
            tracing::warn!(
                name: "hare.notification_failed",
                error = %Chain(&error),
                channel = self.channel,
                "relays could not be notified; they find the events by polling"
            );
        }
    }
}

/// A connection that listens. Dropped, it is closed, by the runtime that opened it.
struct Listener {
    inner: Option<PgListener>,
    /// The connection's own; closed before it, so that it is not kept.
    pool: PgPool,
    runtime: Handle,
    health_check: Duration,
}

impl Listener {
    async fn connect(pool: &PgPool, channel: &str, health_check: Duration) -> Result<Self, WakeupError> {
        let runtime = Handle::try_current().map_err(WakeupError::new)?;
        let options = (*pool.connect_options())
            .clone()
            .application_name(APPLICATION_NAME);
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .acquire_timeout(CONNECTED_WITHIN)
            .connect_lazy_with(options);
        let inner = PgListener::connect_with(&pool).await.map_err(WakeupError::new)?;
        let mut listener = Self {
            inner: Some(inner),
            pool,
            runtime,
            health_check,
        };
        let inner = listener.inner()?;
        // Opened again here it would lose what was notified in between, and nobody would know.
        inner.eager_reconnect(false);
        match tokio::time::timeout(CONNECTED_WITHIN, inner.listen(channel)).await {
            Ok(listening) => listening.map_err(WakeupError::new)?,
            Err(_) => return Err(silent()),
        }
        Ok(listener)
    }

    fn inner(&mut self) -> Result<&mut PgListener, WakeupError> {
        self.inner.as_mut().ok_or_else(lost)
    }

    /// The next payload.
    ///
    /// # Cancel safety
    /// Cancel safe.
    async fn next(&mut self) -> Result<String, WakeupError> {
        let health_check = self.health_check;
        let inner = self.inner()?;
        loop {
            match tokio::time::timeout(health_check, inner.try_recv()).await {
                Ok(Ok(Some(notification))) => return Ok(notification.payload().to_owned()),
                Ok(Ok(None)) => return Err(lost()),
                Ok(Err(error)) => return Err(WakeupError::new(error)),
                // What is notified meanwhile is kept for the next call.
                Err(_) => match tokio::time::timeout(health_check, inner.execute("SELECT 1")).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => return Err(WakeupError::new(error)),
                    Err(_) => return Err(silent()),
                },
            }
        }
    }
}

fn lost() -> WakeupError {
    WakeupError::new("the connection that listens was closed")
}

fn silent() -> WakeupError {
    WakeupError::new("the connection that listens does not answer any more")
}

impl Drop for Listener {
    /// sqlx closes a connection in a task, for which it needs a runtime; this may be dropped where there is none.
    fn drop(&mut self) {
        let _entered = self.runtime.enter();
        // Only this call matters, not what it answers: the pool is closed from now on.
        drop(self.pool.close());
        self.inner = None;
    }
}
