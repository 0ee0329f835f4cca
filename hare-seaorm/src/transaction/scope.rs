//! What makes several statements one, a row and its event above all: a transaction on a pool, a savepoint in a transaction.

use futures_util::future::BoxFuture;
use sea_orm::DbErr;

use super::savepoint::Savepoint;
use super::{Signalled, deliver_signals};
use crate::connection::{Conn, Exclusive, Kind, in_own_transaction, mark};

/// What a write gave, and the signals of its events.
#[derive(Debug)]
pub(crate) struct Written<T> {
    pub(crate) value: T,
    pub(crate) signalled: Signalled,
}

impl<T> Written<T> {
    /// A write that made no event.
    pub(crate) fn nothing(value: T) -> Self {
        Self {
            value,
            signalled: Signalled::default(),
        }
    }
}

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
    mark::ours(run(conn, work)).await
}

async fn run<T, W>(conn: Conn<'_>, work: W) -> Result<T, DbErr>
where
    T: Send + 'static,
    W: for<'c> FnOnce(Conn<'c>) -> BoxFuture<'c, Result<Written<T>, DbErr>> + Send + 'static,
{
    if let Kind::Pool(pool) = conn.kind() {
        let written = in_own_transaction(pool, None, move |transaction| work(Conn::own(transaction))).await?;
        mark::not_ours(written.signalled.send()).await;
        return Ok(written.value);
    }
    let exclusive = Exclusive::take(conn).await?;
    let conn = exclusive.conn();
    let savepoint = Savepoint::open(&exclusive).await?;
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
        // Nothing was written, so nothing needs undoing.
        Err(cause @ DbErr::RecordNotUpdated) => {
            savepoint.release().await?;
            Err(cause)
        }
        Err(cause) => Err(savepoint.roll_back(cause).await),
    }
}
