//! Work on a pool's connection that being dropped cannot leave half-way.
//!
//! sqlx's connections do not all survive a future that is dropped while a statement is on the way. PostgreSQL's and MySQL's go
//! back to the pool with a `BEGIN` that nobody counts, so that the next user's writes sit in a transaction that nobody commits;
//! MySQL's also takes the answer of a cut statement for that of the next one. So our own work on a pool runs as a task, which
//! goes on to its end when the caller is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use sea_orm::{
    DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, IsolationLevel, RuntimeErr,
    SqliteTransactionMode, TransactionOptions, TransactionTrait,
};
use tracing::Instrument;

use super::mark;
use crate::context::carried;
use crate::logs::Chain;

/// Runs database work as a task of its own, in the caller's span and context. Dropped, the work goes on to its end, and its result
/// is dropped.
pub(crate) async fn uncut<T, F>(work: F) -> Result<T, DbErr>
where
    F: Future<Output = Result<T, DbErr>> + Send + 'static,
    T: Send + 'static,
{
    match tokio::spawn(carried(mark::as_here(work)).in_current_span()).await {
        Ok(result) => result,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(DbErr::Conn(RuntimeErr::Internal(
                "the runtime shut down during a statement".to_owned(),
            ))),
        },
    }
}

/// Begins a transaction on the pool. Dropped half-way, it is rolled back.
pub(crate) async fn begin(pool: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    let pool = pool.clone();
    uncut(async move { begin_here(&pool, None).await }).await
}

/// `IMMEDIATE` on SQLite, where a read that is followed by a write may otherwise find that it cannot be.
async fn begin_here(
    pool: &DatabaseConnection,
    isolation_level: Option<IsolationLevel>,
) -> Result<DatabaseTransaction, DbErr> {
    let is_sqlite = pool.get_database_backend() == DbBackend::Sqlite;
    let options = TransactionOptions {
        isolation_level,
        sqlite_transaction_mode: is_sqlite.then_some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    pool.begin_with_options(options).await
}

/// Runs `work` in a transaction of its own and commits it; rolls back if it fails, or if the caller is gone by then.
///
/// # Cancel safety
/// Dropped, the transaction still ends: by a rollback, unless its commit had begun.
pub(crate) async fn in_own_transaction<T, W>(
    pool: &DatabaseConnection,
    isolation_level: Option<IsolationLevel>,
    work: W,
) -> Result<T, DbErr>
where
    T: Send + 'static,
    W: for<'t> FnOnce(&'t DatabaseTransaction) -> BoxFuture<'t, Result<T, DbErr>> + Send + 'static,
{
    let pool = pool.clone();
    let caller = Caller::default();
    let is_gone = Arc::clone(&caller.is_gone);
    uncut(async move {
        let transaction = begin_here(&pool, isolation_level).await?;
        let cause = match work(&transaction).await {
            Ok(value) if !is_gone.load(Ordering::Acquire) => {
                transaction.commit().await?;
                return Ok(value);
            }
            Ok(_) => DbErr::Custom("nobody waits for this write any more; it is rolled back".to_owned()),
            Err(cause) => cause,
        };
        if let Err(error) = transaction.rollback().await {
            tracing::warn!(name: "hare.rollback_failed", error = %Chain(&error), "a transaction could not be rolled back; the end of its connection does it");
        }
        Err(cause)
    })
    .await
}

/// Who waits for work that runs as a task. Gone, the work is not committed any more.
#[derive(Debug, Default)]
struct Caller {
    is_gone: Arc<AtomicBool>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.is_gone.store(true, Ordering::Release);
    }
}
