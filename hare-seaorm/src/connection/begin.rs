//! Beginning a transaction on a pool so that being dropped cannot leave one behind.

use sea_orm::{DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, SqliteTransactionMode, TransactionOptions, TransactionTrait};

/// Begins a transaction on the pool; `IMMEDIATE` on SQLite, where a read that is followed by a write may otherwise find that it
/// cannot be.
///
/// It runs as a task of its own: dropped while its `BEGIN` is on the way, sqlx would give the connection back to the pool with
/// that `BEGIN` unanswered and not counted, and the next user's writes would sit in a transaction that nobody commits. The task
/// goes on to the end, and what it began is rolled back when nobody takes it.
pub(crate) async fn begin_pooled(pool: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    let pool = pool.clone();
    let options = TransactionOptions {
        sqlite_transaction_mode: (pool.get_database_backend() == DbBackend::Sqlite).then_some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    let beginning = tokio::spawn(async move { pool.begin_with_options(options).await });
    beginning.await.unwrap_or_else(|join| Err(DbErr::Conn(sea_orm::RuntimeErr::Internal(format!("BEGIN did not finish: {join}")))))
}
