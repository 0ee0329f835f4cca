//! What makes a row and its event one: a transaction on a pool, a savepoint in a transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use sea_orm::{DatabaseConnection, DbErr};

use super::events::Written;
use super::savepoint::Savepoint;
use crate::connection::{Conn, Kind, begin, uncut};
use crate::transaction::deliver_signals;

/// Runs `work` so that all it writes is kept or none of it.
///
/// On the pool its signals go out after the commit; in a transaction they are handed to whoever commits.
///
/// # Cancel safety
/// Dropped half-way on a pool: rolled back, soon. In a [`crate::Transaction`]: that one can only be rolled back any more. In a
/// plain transaction: logged, because nothing can run there before its commit.
pub(crate) async fn atomic<T, W>(conn: Conn<'_>, work: W) -> Result<T, DbErr>
where
    T: Send + 'static,
    W: for<'c> FnOnce(Conn<'c>) -> BoxFuture<'c, Result<Written<T>, DbErr>> + Send + 'static,
{
    if let Kind::Pool(pool) = conn.kind() {
        let caller = Caller::default();
        return uncut(in_own_transaction(pool.clone(), caller.watch(), work)).await;
    }
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

async fn in_own_transaction<T, W>(pool: DatabaseConnection, caller: Watched, work: W) -> Result<T, DbErr>
where
    W: for<'c> FnOnce(Conn<'c>) -> BoxFuture<'c, Result<Written<T>, DbErr>> + Send,
{
    let transaction = begin(&pool).await?;
    let cause = match work(Conn::new(&transaction)).await {
        Ok(written) if caller.is_there() => {
            transaction.commit().await?;
            written.signalled.send().await;
            return Ok(written.value);
        }
        Ok(_) => DbErr::Custom("the caller of a captured write was dropped; it is rolled back".to_owned()),
        Err(cause) => cause,
    };
    if let Err(error) = transaction.rollback().await {
        tracing::warn!(error = %error, "a failed captured write could not be rolled back; the end of its connection does it");
    }
    Err(cause)
}

/// Who waits for a write that runs as a task of its own. Dropped, the write is not committed any more.
#[derive(Debug, Default)]
struct Caller(Arc<AtomicBool>);

#[derive(Debug)]
struct Watched(Arc<AtomicBool>);

impl Caller {
    fn watch(&self) -> Watched {
        Watched(Arc::clone(&self.0))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Watched {
    fn is_there(&self) -> bool {
        !self.0.load(Ordering::Acquire)
    }
}
