//! One transaction's session with the database: whose turn it is, and whether it may still commit.
//!
//! Invariant: between the savepoint of a write of ours and its release no other statement runs on the session, so that undoing
//! the write undoes nothing else. The write holds the session's turn meanwhile ([`Held`]). SeaORM's own statement between its two
//! hooks cannot be told from others; there the session remembers that a write is open ([`Session::hand_over`]), counts what else
//! is written, and refuses to commit rather than undo it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult, Statement};
use tokio::sync::OwnedMutexGuard;

use super::Signalled;
use crate::connection::{self, sessions};
use crate::error::{Error, Fault, GONE};

/// One at a time on a connection. Nested transactions share it.
pub(super) type Turn = Arc<tokio::sync::Mutex<()>>;

/// SeaORM's transaction, with what we know of it. Found again by the address of SeaORM's transaction (see `connection/kind.rs`),
/// so that it also guards a write that was given that one.
#[derive(Debug)]
pub(crate) struct Session {
    /// Shared with statements that go on to their end when their caller is dropped. There until the transaction ends.
    inner: Option<Arc<DatabaseTransaction>>,
    turn: Turn,
    state: Arc<State>,
}

/// What outlives the transaction's handle.
#[derive(Debug, Default)]
pub(super) struct State {
    signals: Mutex<Signalled>,
    spoiled: Mutex<Option<Spoiled>>,
    /// A write whose statement is SeaORM's, between its two hooks.
    open_write: Mutex<Option<OpenWrite>>,
    pub(super) parent: Option<Arc<State>>,
    /// It belongs to SeaORM's mock, on which capture is off.
    is_mock: bool,
}

#[derive(Debug, Default)]
struct OpenWrite {
    /// Statements since, reads left out. One is SeaORM's.
    statements: usize,
}

/// Why a transaction must not commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoiled {
    /// A captured write was dropped after its row and before its event, or between two of several events.
    CutWrite,
    /// Undoing a generic write would undo another statement that ran beside it.
    SharedWrite,
    /// A savepoint of ours could not be ended.
    LostSavepoint,
    /// The database rolled the whole transaction back.
    Gone,
}

impl Spoiled {
    /// The error that says so; `cause` is the database's own, where it is what was seen.
    pub(super) fn error(self, cause: Option<DbErr>) -> Error {
        let reason = match self {
            Self::CutWrite => {
                "a captured write, or a call that writes several events, was not brought to its end in this transaction, so an event \
                 may be missing; nothing of the transaction can be committed, roll it back and run it again"
            }
            Self::SharedWrite => {
                "the event of a generic write failed while another statement ran beside it in the same transaction, so the one \
                 cannot be undone without the other; nothing of the transaction can be committed, roll it back and run it again"
            }
            Self::LostSavepoint => {
                "a savepoint of a captured write could not be ended in this transaction; nothing of it can be committed, roll it \
                 back and run it again"
            }
            Self::Gone => GONE,
        };
        Error::Retryable {
            what: "the transaction",
            reason: reason.to_owned(),
            source: cause,
        }
    }
}

impl State {
    pub(super) fn of_pool(is_mock: bool) -> Self {
        Self {
            is_mock,
            ..Self::default()
        }
    }

    pub(super) fn nested_in(parent: Arc<Self>) -> Self {
        Self {
            is_mock: parent.is_mock,
            parent: Some(parent),
            ..Self::default()
        }
    }

    pub(super) fn signals(&self) -> MutexGuard<'_, Signalled> {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spoiled(&self) -> MutexGuard<'_, Option<Spoiled>> {
        self.spoiled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_write(&self) -> MutexGuard<'_, Option<OpenWrite>> {
        self.open_write.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Session {
    /// Boxed, because it is found by its address.
    pub(super) fn new(inner: DatabaseTransaction, turn: Turn, state: State) -> Box<Self> {
        let session = Box::new(Self {
            inner: Some(Arc::new(inner)),
            turn,
            state: Arc::new(state),
        });
        sessions::add(session.inner(), &session);
        session
    }

    #[expect(clippy::expect_used, reason = "only what ends the transaction takes it")]
    pub(super) fn inner(&self) -> &Arc<DatabaseTransaction> {
        self.inner.as_ref().expect("there until the transaction ends")
    }

    /// SeaORM's own, for a statement under a turn that is held.
    #[cfg(feature = "stream")]
    pub(crate) fn sea_orm(&self) -> &DatabaseTransaction {
        self.inner()
    }

    pub(super) fn state(&self) -> &Arc<State> {
        &self.state
    }

    pub(super) fn shared_turn(&self) -> Turn {
        Arc::clone(&self.turn)
    }

    pub(super) fn turn(&self) -> impl Future<Output = OwnedMutexGuard<()>> + Send + 'static {
        Arc::clone(&self.turn).lock_owned()
    }

    pub(crate) fn is_mock(&self) -> bool {
        self.state.is_mock
    }

    /// Keeps signals until the commit.
    pub(crate) fn signal_later(&self, signalled: Signalled) {
        self.state.signals().join(signalled);
    }

    /// Forbids the commit.
    pub(crate) fn spoil(&self, spoiled: Spoiled) {
        self.state.spoil(spoiled);
    }

    /// Whether statements may still run.
    pub(super) fn check(&self) -> Result<(), DbErr> {
        match *self.state.spoiled() {
            Some(spoiled) => Err(spoiled.error(None).into()),
            None => Ok(()),
        }
    }

    /// Whether it may commit: a write that was left open between two hooks may have a row and no event.
    pub(super) fn check_commit(&self) -> Result<(), DbErr> {
        if self.state.open_write().is_some() {
            self.spoil(Spoiled::CutWrite);
        }
        self.check()
    }

    /// The transaction, for its end. Whose turn it is knows that no statement is under way on it.
    pub(super) fn end(&mut self) -> Result<DatabaseTransaction, DbErr> {
        let inner = self.take().and_then(Arc::into_inner);
        inner.ok_or_else(|| DbErr::Custom("the transaction is still in use".to_owned()))
    }

    fn take(&mut self) -> Option<Arc<DatabaseTransaction>> {
        let inner = self.inner.take()?;
        sessions::remove(&inner);
        Some(inner)
    }

    /// Takes the session's turn for a write of ours, from its savepoint to its release.
    pub(crate) async fn hold(&self) -> Result<Held<'_>, DbErr> {
        let turn = Arc::new(self.turn().await);
        self.check()?;
        if self.state.open_write().is_some() {
            return Err(Error::unsupported(
                "a captured write, or writing several events, while a generic write is unfinished in the same transaction",
                "the statement of the other has not ended, or failed after it wrote; run one write at a time in a transaction, \
                 and roll back after a failed one",
            )
            .into());
        }
        Ok(Held { session: self, turn })
    }

    /// Leaves a write open for SeaORM's own statement; [`resume`](Self::resume) goes on.
    pub(crate) fn hand_over(&self) {
        *self.state.open_write() = Some(OpenWrite::default());
    }

    /// Goes on with the write that was handed over, and tells whether others wrote beside it.
    pub(crate) async fn resume(&self) -> Result<(Held<'_>, bool), DbErr> {
        let turn = Arc::new(self.turn().await);
        self.check()?;
        let Some(open) = self.state.open_write().take() else {
            self.spoil(Spoiled::CutWrite);
            return Err(Spoiled::CutWrite.error(None).into());
        };
        Ok((Held { session: self, turn }, open.statements > 1))
    }

    /// Runs a statement in its turn.
    async fn statement<T, F>(
        &self,
        writes: bool,
        run: impl FnOnce(Arc<DatabaseTransaction>) -> F + Send,
    ) -> Result<T, DbErr>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DbErr>> + Send + 'static,
    {
        let turn = Arc::new(self.turn().await);
        self.check()?;
        if writes && let Some(open) = self.state.open_write().as_mut() {
            open.statements += 1;
        }
        let outcome = self.run(turn, run).await;
        if outcome.is_err() {
            // SeaORM's statement failed and wrote nothing; no after-hook will come.
            self.state.open_write().take();
        }
        outcome
    }

    /// Runs a statement under a turn that is held.
    ///
    /// On MySQL it goes on to its end when the caller is dropped, and keeps the turn until then: sqlx's connection there would
    /// take its answer for the next statement's.
    async fn run<T, F>(
        &self,
        turn: Arc<OwnedMutexGuard<()>>,
        run: impl FnOnce(Arc<DatabaseTransaction>) -> F + Send,
    ) -> Result<T, DbErr>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DbErr>> + Send + 'static,
    {
        let running = run(Arc::clone(self.inner()));
        if self.get_database_backend() != DbBackend::MySql {
            return running.await;
        }
        let state = Arc::clone(&self.state);
        connection::uncut(async move {
            let _until_the_end = turn;
            let outcome = running.await;
            // InnoDB ends a deadlock by rolling back the whole transaction, savepoints too: what came next would commit by itself
            // (https://dev.mysql.com/doc/refman/8.4/en/innodb-deadlock-detection.html).
            if outcome
                .as_ref()
                .is_err_and(|error| Fault::of(error) == Some(Fault::Retryable))
            {
                state.spoil(Spoiled::Gone);
            }
            outcome
        })
        .await
    }
}

impl Drop for Session {
    /// Rolls back when it is its turn. SeaORM cannot while a statement is under way on the connection: it would panic, and leave
    /// the outer transaction's statements in a savepoint that is never released.
    fn drop(&mut self) {
        let Some(inner) = self.take() else { return };
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

fn is_read(sql: &str) -> bool {
    sql.get(..6)
        .is_some_and(|start| start.eq_ignore_ascii_case("select"))
}

#[async_trait::async_trait]
impl ConnectionTrait for Session {
    fn get_database_backend(&self) -> DbBackend {
        ConnectionTrait::get_database_backend(&**self.inner())
    }
    fn support_returning(&self) -> bool {
        self.inner().support_returning()
    }
    fn is_mock_connection(&self) -> bool {
        self.is_mock()
    }
    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        let writes = !is_read(&statement.sql);
        self.statement(writes, |inner| async move { inner.execute_raw(statement).await })
            .await
    }
    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let sql = sql.to_owned();
        self.statement(!is_read(&sql), |inner| async move {
            inner.execute_unprepared(&sql).await
        })
        .await
    }
    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        let writes = !is_read(&statement.sql);
        self.statement(
            writes,
            |inner| async move { inner.query_one_raw(statement).await },
        )
        .await
    }
    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        let writes = !is_read(&statement.sql);
        self.statement(
            writes,
            |inner| async move { inner.query_all_raw(statement).await },
        )
        .await
    }
}

/// A session whose turn a captured write holds.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    session: &'a Session,
    turn: Arc<OwnedMutexGuard<()>>,
}

impl<'a> Held<'a> {
    pub(crate) fn session(&self) -> &'a Session {
        self.session
    }

    fn turn(&self) -> Arc<OwnedMutexGuard<()>> {
        Arc::clone(&self.turn)
    }
}

#[async_trait::async_trait]
impl ConnectionTrait for Held<'_> {
    fn get_database_backend(&self) -> DbBackend {
        self.session.get_database_backend()
    }
    fn support_returning(&self) -> bool {
        self.session.support_returning()
    }
    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        let run = |inner: Arc<DatabaseTransaction>| async move { inner.execute_raw(statement).await };
        self.session.run(self.turn(), run).await
    }
    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let sql = sql.to_owned();
        let run = |inner: Arc<DatabaseTransaction>| async move { inner.execute_unprepared(&sql).await };
        self.session.run(self.turn(), run).await
    }
    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        let run = |inner: Arc<DatabaseTransaction>| async move { inner.query_one_raw(statement).await };
        self.session.run(self.turn(), run).await
    }
    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        let run = |inner: Arc<DatabaseTransaction>| async move { inner.query_all_raw(statement).await };
        self.session.run(self.turn(), run).await
    }
}
