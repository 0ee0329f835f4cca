//! Short transactions that a dropped future cannot leave half-way.
//!
//! A future dropped while its BEGIN is on the way can leave a pooled connection inside an open transaction: the driver counts
//! the transaction only once BEGIN was answered, so nothing rolls it back. The whole transaction therefore runs in a task of
//! its own, which ends whatever happens to the caller, and commits only if the caller is still there to use the result.

use futures_util::future::BoxFuture;
use sea_orm::{DatabaseConnection, DatabaseTransaction, DbErr, IsolationLevel, TransactionTrait};
use tokio::sync::oneshot;

/// What is done in a transaction.
pub(super) trait Work<T>:
    for<'t> FnOnce(&'t DatabaseTransaction) -> BoxFuture<'t, Result<T, DbErr>> + Send + 'static
{
}

impl<T, W> Work<T> for W where
    W: for<'t> FnOnce(&'t DatabaseTransaction) -> BoxFuture<'t, Result<T, DbErr>> + Send + 'static
{
}

/// Runs `work` in a READ COMMITTED transaction and commits it; rolls back if it fails, or if the caller has gone.
///
/// # Cancel safety
/// Dropped, the transaction still ends, by a rollback unless its commit had begun.
pub(super) async fn in_transaction<T: Send + 'static>(
    db: &DatabaseConnection,
    work: impl Work<T>,
) -> Result<T, DbErr> {
    let db = db.clone();
    let (answer, answered) = oneshot::channel();
    tokio::spawn(async move {
        let result = run(&db, work, &answer).await;
        // Whoever waited may have gone.
        drop(answer.send(result));
    });
    match answered.await {
        Ok(result) => result,
        Err(_) => Err(DbErr::Custom(
            "the transaction's task ended without an answer".to_owned(),
        )),
    }
}

async fn run<T: Send>(
    db: &DatabaseConnection,
    work: impl Work<T>,
    answer: &oneshot::Sender<Result<T, DbErr>>,
) -> Result<T, DbErr> {
    let transaction = db
        .begin_with_config(Some(IsolationLevel::ReadCommitted), None)
        .await?;
    match work(&transaction).await {
        Ok(done) if !answer.is_closed() => {
            transaction.commit().await?;
            Ok(done)
        }
        Ok(_) => {
            transaction.rollback().await?;
            Err(DbErr::Custom("nobody waits for the transaction".to_owned()))
        }
        Err(error) => {
            // The first error says more than the rollback's; the connection is rolled back when given back anyway.
            drop(transaction.rollback().await);
            Err(error)
        }
    }
}
