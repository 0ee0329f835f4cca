//! Beginning a transaction on a pool so that being dropped cannot leave one behind.

use sea_orm::{
    DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, RuntimeErr, SqliteTransactionMode,
    TransactionOptions, TransactionTrait,
};
use tokio::task::JoinHandle;
use tracing::Instrument;

/// Begins a transaction on the pool; `IMMEDIATE` on SQLite, where a read that is followed by a write may otherwise find that it
/// cannot be. To be awaited to its end: see [`uncut`].
pub(crate) async fn begin(pool: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    let is_sqlite = pool.get_database_backend() == DbBackend::Sqlite;
    let options = TransactionOptions {
        sqlite_transaction_mode: is_sqlite.then_some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    pool.begin_with_options(options).await
}

/// Runs database work as a task of its own, which goes on to its end when the caller is dropped.
///
/// sqlx's connections do not all survive a future that is dropped while a statement is on the way. PostgreSQL's goes back to
/// the pool with a `BEGIN` that nobody counts, so that the next user's writes sit in a transaction that nobody commits. MySQL's
/// takes the answer of a cut statement for that of the next one.
pub(crate) async fn uncut<T, F>(work: F) -> Result<T, DbErr>
where
    F: Future<Output = Result<T, DbErr>> + Send + 'static,
    T: Send + 'static,
{
    let task: JoinHandle<_> = tokio::spawn(work.in_current_span());
    match task.await {
        Ok(result) => result,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(DbErr::Conn(RuntimeErr::Internal(
                "the runtime shut down during a write".to_owned(),
            ))),
        },
    }
}
