//! What makes a row and its event one: a transaction on a pool, a savepoint in a transaction.

use futures_util::future::BoxFuture;
use sea_orm::DbErr;

use super::events::Written;
use super::savepoint::Savepoint;
use crate::connection::{Conn, Kind, begin_pooled};
use crate::transaction::deliver_signals;

/// Runs `work` so that all it writes is kept or none of it.
///
/// On the pool its signals go out after the commit; in a transaction they are handed to whoever commits.
///
/// # Cancel safety
/// Dropped half-way on a pool: rolled back. In a [`crate::Transaction`]: that one can only be rolled back any more. In a plain
/// transaction: logged, because nothing can run there before its commit.
pub(crate) async fn atomic<'a, T, W>(conn: Conn<'a>, work: W) -> Result<T, DbErr>
where
    W: for<'c> FnOnce(Conn<'c>) -> BoxFuture<'c, Result<Written<T>, DbErr>> + Send,
{
    match conn.kind() {
        Kind::Pool(pool) => {
            let transaction = begin_pooled(pool).await?;
            match work(Conn::new(&transaction)).await {
                Ok(written) => {
                    transaction.commit().await?;
                    written.signalled.send().await;
                    Ok(written.value)
                }
                Err(cause) => {
                    if let Err(error) = transaction.rollback().await {
                        tracing::warn!(error = %error, "a failed captured write could not be rolled back; its connection ends it");
                    }
                    Err(cause)
                }
            }
        }
        _ => {
            let savepoint = Savepoint::open(conn).await?;
            let written = async {
                let written = work(conn).await?;
                deliver_signals(conn, written.signalled).await?;
                Ok(written.value)
            };
            match written.await {
                Ok(value) => {
                    savepoint.release().await?;
                    Ok(value)
                }
                Err(cause) => Err(savepoint.roll_back(cause).await),
            }
        }
    }
}
