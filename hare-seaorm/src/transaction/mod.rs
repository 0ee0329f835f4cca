//! A database transaction that sends signals after its commit, and refuses to commit once a captured write in it was cut.
//!
//! SeaORM has no on-commit callback, so the transaction itself carries the signals of the events written in it: joined per
//! topic, kept per savepoint, sent once the outermost commit has succeeded, never after a rollback.
//!
//! Invariant: no spoiled transaction commits. A captured write that is dropped between its row and its event spoils the
//! transaction (or nested transaction) it ran in. Upheld in [`Transaction::commit`]; tested in `tests/it/capture/abort.rs`.

mod savepoint;
mod scope;
mod session;
mod signalled;

use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use sea_orm::{
    AccessMode, ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, ExecResult,
    IsolationLevel, QueryResult, Statement, TransactionError, TransactionOptions, TransactionSession,
    TransactionTrait,
};
use tokio::sync::OwnedMutexGuard;

use crate::connection::{self, Conn, Kind};
use crate::error::Error;
use crate::outbox::{self, OutboxEntity};

pub(crate) use savepoint::{Resumed, Savepoint};
pub(crate) use scope::{Written, atomic};
use session::Spoiled;
pub(crate) use session::{Held, Session};
use session::{State, Turn};
pub(crate) use signalled::Signalled;

/// Begins a transaction whose events wake the relays right after its commit.
///
/// On SQLite it begins `IMMEDIATE`: a transaction that reads before it writes would otherwise fail as busy under concurrency.
///
/// # Errors
/// SeaORM's, if the pool gives no connection or `BEGIN` fails.
/// # Cancel safety
/// Dropped half-way, the transaction is rolled back and its connection goes back to the pool clean.
pub async fn begin(db: &DatabaseConnection) -> Result<Transaction, DbErr> {
    let state = State::of_pool(db.is_mock_connection());
    let inner = connection::begin(db).await?;
    Ok(Transaction {
        session: Session::new(inner, Turn::default(), state),
    })
}

/// A SeaORM transaction, usable wherever one is, that also carries the signals of its events.
///
/// Dropped without a commit it is rolled back, and signals nothing. It dereferences to SeaORM's own transaction, so a function
/// that takes `&DatabaseTransaction` takes it too, and captured writes in there are still guarded; other statements there, the own
/// ones of generic writes among them, are SeaORM's alone.
///
/// Run one write at a time in it. A captured write keeps other statements waiting until it is done; only a generic write, whose
/// statement is SeaORM's, cannot.
#[derive(Debug)]
#[must_use = "a transaction that is dropped is rolled back"]
pub struct Transaction {
    session: Box<Session>,
}

/// A nested transaction that nobody has taken yet. Dropped, it is rolled back while it is still its turn: in this order.
struct Begun {
    nested: DatabaseTransaction,
    turn: OwnedMutexGuard<()>,
}

impl Transaction {
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Commits, then wakes the relays of the events written in it. A nested one hands its signals to its parent instead.
    ///
    /// # Errors
    /// [`Error::Retryable`] inside the `DbErr` if a captured write was dropped half-way in it, or the database has rolled it
    /// back: nothing was committed. SeaORM's own error if `COMMIT` failed. A wakeup that fails is logged, never returned.
    /// # Cancel safety
    /// Not cancel safe: dropped while `COMMIT` is pending, it may or may not have happened, as with any transaction.
    pub async fn commit(mut self) -> Result<(), DbErr> {
        if let Err(spoiled) = self.session.check_commit() {
            // What the server still holds must not stay open; that it may be gone already is what the error says.
            let _ = self.rollback().await;
            return Err(spoiled);
        }
        let state = Arc::clone(self.session.state());
        let turn = self.session.turn().await;
        self.session.end()?.commit().await?;
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
    pub async fn rollback(mut self) -> Result<(), DbErr> {
        let _turn = self.session.turn().await;
        self.session.end()?.rollback().await
    }

    /// Begins a nested transaction, which is undone if nobody takes it.
    ///
    /// SeaORM's own beginning does not survive being dropped: it rolls back the outer transaction and leaves its handle in
    /// autocommit.
    async fn nest<F>(&self, begin: impl FnOnce(Arc<DatabaseTransaction>) -> F + Send) -> Result<Self, DbErr>
    where
        F: Future<Output = Result<DatabaseTransaction, DbErr>> + Send + 'static,
    {
        let turn = self.session.turn().await;
        self.session.check()?;
        let beginning = begin(Arc::clone(self.session.inner()));
        let Begun { nested, turn } = connection::uncut(async move {
            Ok(Begun {
                nested: beginning.await?,
                turn,
            })
        })
        .await?;
        drop(turn);
        let state = State::nested_in(Arc::clone(self.session.state()));
        Ok(Self {
            session: Session::new(nested, self.session.shared_turn(), state),
        })
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

impl Deref for Transaction {
    type Target = DatabaseTransaction;

    fn deref(&self) -> &DatabaseTransaction {
        self.session.inner()
    }
}

#[async_trait::async_trait]
impl ConnectionTrait for Transaction {
    fn get_database_backend(&self) -> DbBackend {
        self.session.get_database_backend()
    }
    fn support_returning(&self) -> bool {
        self.session.support_returning()
    }
    fn is_mock_connection(&self) -> bool {
        self.session.is_mock_connection()
    }
    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.session.execute_raw(statement).await
    }
    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.session.execute_unprepared(sql).await
    }
    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.session.query_one_raw(statement).await
    }
    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.session.query_all_raw(statement).await
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
        match self.session.check() {
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
        Kind::Capturing(session) => session.signal_later(signalled),
        _ => {
            for statement in signalled.statements(conn.backend()) {
                conn.execute_raw(statement).await?;
            }
        }
    }
    Ok(())
}
