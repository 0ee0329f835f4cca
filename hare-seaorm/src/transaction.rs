//! A database transaction that sends signals after its commit, and refuses to commit once a captured write in it was cut.
//!
//! SeaORM has no on-commit callback, so the transaction itself carries the signals of the events written in it: joined per
//! topic, kept per savepoint, sent once the outermost commit has succeeded, never after a rollback.
//!
//! Invariant: no spoiled transaction commits. A captured write that is dropped between its row and its event spoils the
//! transaction (or nested transaction) it ran in. Upheld in [`Transaction::commit`]; tested in `tests/it/capture/abort.rs`.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use sea_orm::{
    AccessMode, ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, ExecResult,
    IsolationLevel, QueryResult, Statement, TransactionError, TransactionOptions, TransactionSession,
    TransactionTrait,
};

use tokio::sync::OwnedMutexGuard;

use crate::connection::{self, Conn, Kind};
use crate::error::Error;
use crate::outbox::{self, OutboxEntity};
use crate::wakeup::OutboxWakeup;

/// Begins a transaction whose events wake the relays right after its commit.
///
/// On SQLite it begins `IMMEDIATE`: a transaction that reads before it writes would otherwise fail as busy under concurrency.
///
/// # Errors
/// SeaORM's, if the pool gives no connection or `BEGIN` fails.
/// # Cancel safety
/// Dropped half-way, the transaction is rolled back and its connection goes back to the pool clean.
pub async fn begin(db: &DatabaseConnection) -> Result<Transaction, DbErr> {
    let state = State {
        is_mock: db.is_mock_connection(),
        ..State::default()
    };
    let inner = connection::begin(db).await?;
    Ok(Transaction::new(inner, Turn::default(), state))
}

/// A SeaORM transaction, usable wherever one is, that also carries the signals of its events.
///
/// Dropped without a commit it is rolled back, and signals nothing.
#[derive(Debug)]
pub struct Transaction {
    session: Session,
    state: Arc<State>,
}

/// SeaORM's transaction, and whose turn it is on its connection.
#[derive(Debug)]
struct Session {
    /// Shared with statements that go on to their end when their caller is dropped. There until the transaction ends.
    inner: Option<Arc<DatabaseTransaction>>,
    turn: Turn,
}

/// One at a time on a connection: whatever goes on after its caller is gone holds it, so that nothing else comes in between.
/// Nested transactions share it.
type Turn = Arc<tokio::sync::Mutex<()>>;

/// A nested transaction that nobody has taken yet. Dropped, it is rolled back while it is still its turn: in this order.
struct Begun {
    nested: DatabaseTransaction,
    turn: OwnedMutexGuard<()>,
}

/// What outlives the borrow of a transaction: a write in flight marks it from its own destructor.
#[derive(Debug, Default)]
struct State {
    signals: Mutex<Signalled>,
    spoiled: Mutex<Option<Spoiled>>,
    parent: Option<Arc<State>>,
    /// It belongs to SeaORM's mock, on which capture is off.
    is_mock: bool,
}

/// Why a transaction must not commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoiled {
    /// A captured write was dropped after its row and before its event.
    CutWrite,
    /// The database rolled the whole transaction back.
    Gone,
}

impl Spoiled {
    fn error(self) -> Error {
        let reason = match self {
            Self::CutWrite => {
                "a captured write was dropped half-way in this transaction, so its row may have no event; nothing of the \
                 transaction can be committed, roll it back and run it again"
            }
            Self::Gone => {
                "the transaction is gone: the database ended a deadlock by rolling all of it back; run it again from its \
                 beginning"
            }
        };
        Error::Retryable {
            what: "the transaction",
            reason: reason.to_owned(),
            source: None,
        }
    }
}

/// Topics of written events, by the wakeup that tells of them.
#[derive(Default)]
pub(crate) struct Signalled(Vec<(Arc<dyn OutboxWakeup>, BTreeSet<String>)>);

impl std::fmt::Debug for Signalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(_, topics)| topics))
            .finish()
    }
}

impl Signalled {
    pub(crate) fn add(&mut self, wakeup: &Arc<dyn OutboxWakeup>, topics: impl IntoIterator<Item = String>) {
        let same = |known: &Arc<dyn OutboxWakeup>| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(wakeup));
        match self.0.iter_mut().find(|(known, _)| same(known)) {
            Some((_, all)) => all.extend(topics),
            None => self.0.push((Arc::clone(wakeup), topics.into_iter().collect())),
        }
    }

    fn join(&mut self, other: Self) {
        for (wakeup, topics) in other.0 {
            self.add(&wakeup, topics);
        }
    }

    /// Tells the relays. A wakeup that fails is logged: the events are committed, and polling finds them.
    pub(crate) async fn send(self) {
        for (wakeup, topics) in self.0 {
            let topics: Vec<String> = topics.into_iter().collect();
            if let Err(error) = wakeup.signal(&topics).await {
                tracing::warn!(error = %error, ?topics, "a wakeup could not be signalled; relays find the events by polling");
            }
        }
    }

    /// What a plain transaction must execute before its commit, for wakeups that the database itself carries.
    pub(crate) fn statements(&self, backend: DbBackend) -> Vec<Statement> {
        self.0
            .iter()
            .filter_map(|(wakeup, topics)| {
                wakeup.in_transaction(backend, &topics.iter().cloned().collect::<Vec<_>>())
            })
            .collect()
    }
}

impl Session {
    #[expect(clippy::expect_used, reason = "only what ends the transaction takes it")]
    fn inner(&self) -> &Arc<DatabaseTransaction> {
        self.inner.as_ref().expect("there until the transaction ends")
    }

    fn turn(&self) -> impl Future<Output = OwnedMutexGuard<()>> + Send + 'static {
        Arc::clone(&self.turn).lock_owned()
    }

    /// The transaction, for its end. Whose turn it is knows that no statement is under way on it.
    fn end(mut self) -> Result<DatabaseTransaction, DbErr> {
        let inner = self.inner.take().and_then(Arc::into_inner);
        inner.ok_or_else(|| DbErr::Custom("the transaction is still in use".to_owned()))
    }
}

impl Drop for Session {
    /// Rolls back when it is its turn. SeaORM cannot while a statement is under way on the connection: it would panic, and leave
    /// the outer transaction's statements in a savepoint that is never released.
    fn drop(&mut self) {
        let Some(inner) = self.inner.take() else {
            return;
        };
        let mut turn = Box::pin(self.turn());
        // Asked for now, so that no later statement comes before it.
        match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(_turn) => drop(inner),
            Poll::Pending => {
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(async move {
                        let _turn = turn.await;
                        drop(inner);
                    });
                }
            }
        }
    }
}

impl Transaction {
    fn new(inner: DatabaseTransaction, turn: Turn, state: State) -> Self {
        let inner = Some(Arc::new(inner));
        Self {
            session: Session { inner, turn },
            state: Arc::new(state),
        }
    }

    /// Keeps signals until the commit.
    pub(crate) fn signal_later(&self, signalled: Signalled) {
        self.state.signals().join(signalled);
    }

    pub(crate) fn is_mock(&self) -> bool {
        self.state.is_mock
    }

    /// Forbids the commit.
    pub(crate) fn spoil(&self, spoiled: Spoiled) {
        self.state.spoil(spoiled);
    }

    fn check(&self) -> Result<(), DbErr> {
        match *self.state.spoiled() {
            Some(spoiled) => Err(spoiled.error().into()),
            None => Ok(()),
        }
    }

    /// Commits, then wakes the relays of the events written in it. A nested one hands its signals to its parent instead.
    ///
    /// # Errors
    /// [`Error::Retryable`] inside the `DbErr` if a captured write was dropped half-way in it, or the database has rolled it
    /// back: nothing was committed. SeaORM's own error if `COMMIT` failed. A wakeup that fails is logged, never returned.
    /// # Cancel safety
    /// Not cancel safe: dropped while `COMMIT` is pending, it may or may not have happened, as with any transaction.
    pub async fn commit(self) -> Result<(), DbErr> {
        if let Err(spoiled) = self.check() {
            // What the server still holds must not stay open; that it may be gone already is what the error says.
            let _ = self.rollback().await;
            return Err(spoiled);
        }
        let Self { session, state } = self;
        let turn = session.turn().await;
        session.end()?.commit().await?;
        drop(turn);
        let signalled = std::mem::take(&mut *state.signals());
        match &state.parent {
            Some(parent) => parent.signals().join(signalled),
            None => signalled.send().await,
        }
        Ok(())
    }

    /// Rolls back; signals nothing.
    ///
    /// # Errors
    /// SeaORM's own, if `ROLLBACK` failed.
    /// # Cancel safety
    /// Dropped half-way, the transaction is rolled back all the same.
    pub async fn rollback(self) -> Result<(), DbErr> {
        let _turn = self.session.turn().await;
        self.session.end()?.rollback().await
    }

    /// Runs a statement on the transaction underneath.
    ///
    /// On MySQL it goes on to its end when the caller is dropped: sqlx's connection there would take its answer for the next
    /// statement's.
    async fn statement<T, F>(
        &self,
        run: impl FnOnce(Arc<DatabaseTransaction>) -> F + Send,
    ) -> Result<T, DbErr>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DbErr>> + Send + 'static,
    {
        self.check()?;
        let turn = self.session.turn().await;
        let running = run(Arc::clone(self.session.inner()));
        match ConnectionTrait::get_database_backend(&**self) {
            DbBackend::MySql => {
                connection::uncut(async move {
                    let _until_the_end = turn;
                    running.await
                })
                .await
            }
            _ => running.await,
        }
    }

    /// Begins a nested transaction, which is undone if nobody takes it.
    ///
    /// SeaORM's own beginning does not survive being dropped: it rolls back the outer transaction and leaves its handle in
    /// autocommit.
    async fn nest<F>(&self, begin: impl FnOnce(Arc<DatabaseTransaction>) -> F + Send) -> Result<Self, DbErr>
    where
        F: Future<Output = Result<DatabaseTransaction, DbErr>> + Send + 'static,
    {
        self.check()?;
        let turn = self.session.turn().await;
        let beginning = begin(Arc::clone(self.session.inner()));
        let Begun { nested, turn } = connection::uncut(async move {
            Ok(Begun {
                nested: beginning.await?,
                turn,
            })
        })
        .await?;
        drop(turn);
        let parent = Arc::clone(&self.state);
        let state = State {
            is_mock: parent.is_mock,
            parent: Some(parent),
            ..State::default()
        };
        Ok(Self::new(nested, Arc::clone(&self.session.turn), state))
    }

    async fn run<F, T, E>(self, callback: F) -> Result<T, TransactionError<E>>
    where
        F: for<'c> FnOnce(&'c Self) -> Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>> + Send,
        T: Send,
        E: std::fmt::Display + std::fmt::Debug + Send,
    {
        match callback(&self).await {
            Ok(value) => {
                self.commit().await.map_err(TransactionError::Connection)?;
                Ok(value)
            }
            Err(error) => {
                self.rollback().await.map_err(TransactionError::Connection)?;
                Err(TransactionError::Transaction(error))
            }
        }
    }
}

impl State {
    fn signals(&self) -> std::sync::MutexGuard<'_, Signalled> {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spoiled(&self) -> std::sync::MutexGuard<'_, Option<Spoiled>> {
        self.spoiled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cut write is undone with the innermost savepoint; what the database rolled back takes the outer transactions with it.
    fn spoil(&self, spoiled: Spoiled) {
        self.spoiled().get_or_insert(spoiled);
        if spoiled == Spoiled::Gone
            && let Some(parent) = &self.parent
        {
            parent.spoil(spoiled);
        }
    }
}

/// SeaORM's transaction, for what is only there. A captured write through it cannot be watched any more.
impl Deref for Transaction {
    type Target = DatabaseTransaction;

    fn deref(&self) -> &DatabaseTransaction {
        self.session.inner()
    }
}

#[async_trait::async_trait]
impl ConnectionTrait for Transaction {
    fn get_database_backend(&self) -> DbBackend {
        ConnectionTrait::get_database_backend(&**self)
    }
    fn support_returning(&self) -> bool {
        (**self).support_returning()
    }
    fn is_mock_connection(&self) -> bool {
        self.is_mock()
    }
    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.statement(|inner| async move { inner.execute_raw(statement).await })
            .await
    }
    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let sql = sql.to_owned();
        self.statement(|inner| async move { inner.execute_unprepared(&sql).await })
            .await
    }
    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.statement(|inner| async move { inner.query_one_raw(statement).await })
            .await
    }
    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.statement(|inner| async move { inner.query_all_raw(statement).await })
            .await
    }
}

#[cfg(feature = "stream")]
impl sea_orm::StreamTrait for Transaction {
    type Stream<'a> = <DatabaseTransaction as sea_orm::StreamTrait>::Stream<'a>;

    fn get_database_backend(&self) -> DbBackend {
        ConnectionTrait::get_database_backend(&**self)
    }

    fn stream_raw<'a>(
        &'a self,
        statement: Statement,
    ) -> Pin<Box<dyn Future<Output = Result<Self::Stream<'a>, DbErr>> + 'a + Send>> {
        match self.check() {
            Ok(()) => (**self).stream_raw(statement),
            Err(spoiled) => Box::pin(std::future::ready(Err(spoiled))),
        }
    }
}

#[async_trait::async_trait]
impl TransactionSession for Transaction {
    async fn commit(self) -> Result<(), DbErr> {
        self.commit().await
    }
    async fn rollback(self) -> Result<(), DbErr> {
        self.rollback().await
    }
}

#[async_trait::async_trait]
impl TransactionTrait for Transaction {
    type Transaction = Self;

    async fn begin(&self) -> Result<Self, DbErr> {
        self.nest(|inner| async move { inner.begin().await }).await
    }
    async fn begin_with_config(
        &self,
        isolation_level: Option<IsolationLevel>,
        access_mode: Option<AccessMode>,
    ) -> Result<Self, DbErr> {
        self.nest(move |inner| async move { inner.begin_with_config(isolation_level, access_mode).await })
            .await
    }
    async fn begin_with_options(&self, options: TransactionOptions) -> Result<Self, DbErr> {
        self.nest(move |inner| async move { inner.begin_with_options(options).await })
            .await
    }
    async fn transaction<F, T, E>(&self, callback: F) -> Result<T, TransactionError<E>>
    where
        F: for<'c> FnOnce(&'c Self) -> Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>> + Send,
        T: Send,
        E: std::fmt::Display + std::fmt::Debug + Send,
    {
        let nested = self.begin().await.map_err(TransactionError::Connection)?;
        nested.run(callback).await
    }
    async fn transaction_with_config<F, T, E>(
        &self,
        callback: F,
        isolation_level: Option<IsolationLevel>,
        access_mode: Option<AccessMode>,
    ) -> Result<T, TransactionError<E>>
    where
        F: for<'c> FnOnce(&'c Self) -> Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>> + Send,
        T: Send,
        E: std::fmt::Display + std::fmt::Debug + Send,
    {
        let nested = self
            .begin_with_config(isolation_level, access_mode)
            .await
            .map_err(TransactionError::Connection)?;
        nested.run(callback).await
    }
}

/// Tells the relays of the built-in outbox about events under these topics: for events written in a plain SeaORM transaction,
/// whose commit nobody but its owner sees.
///
/// On a pool it signals at once: call it after the commit. In a [`Transaction`] it is sent after that one's commit. In a plain
/// transaction only a wakeup that the database carries can be told, and is; for others nothing happens, and relays find the
/// events at their next poll.
///
/// # Errors
/// [`Error::Database`] if a statement that carries the signal failed. A wakeup that fails is logged.
/// # Cancel safety
/// Dropped half-way, the signal may be lost, which costs a relay one poll interval.
pub async fn signal_after_commit<C, T>(
    db: &C,
    topics: impl IntoIterator<Item = T> + Send,
) -> Result<(), Error>
where
    C: ConnectionTrait,
    T: Into<String>,
{
    let topics: Vec<String> = topics.into_iter().map(Into::into).collect();
    let mut signalled = Signalled::default();
    if let Some(wakeup) = outbox::Entity::wakeup() {
        signalled.add(&wakeup, topics);
    }
    let conn = Conn::new(db);
    match conn.kind() {
        Kind::Pool(_) => signalled.send().await,
        _ => deliver_signals(conn, signalled)
            .await
            .map_err(|source| Error::database("signalling relays", source))?,
    }
    Ok(())
}

/// Hands the signals of events written inside a transaction to whoever can send them at its commit.
pub(crate) async fn deliver_signals(conn: Conn<'_>, signalled: Signalled) -> Result<(), DbErr> {
    match conn.kind() {
        Kind::Capturing(transaction) => transaction.signal_later(signalled),
        _ => {
            for statement in signalled.statements(conn.backend()) {
                conn.execute_raw(statement).await?;
            }
        }
    }
    Ok(())
}
