//! A transaction to oneself, for a captured write: between its savepoint and its release nothing else may write there, or undoing
//! the one would undo the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use sea_orm::DbErr;
use tokio::sync::OwnedMutexGuard;

use super::{Conn, Kind};
use crate::transaction::Held;

/// A transaction that no other captured write uses meanwhile; in one of ours, nothing else at all.
#[derive(Debug)]
pub(crate) struct Exclusive<'a> {
    conn: Conn<'a>,
    held: Option<Held<'a>>,
    _alone: Option<OwnedMutexGuard<()>>,
}

impl<'a> Exclusive<'a> {
    /// Waits for its turn.
    ///
    /// # Errors
    /// In a transaction of ours: that it is spoiled, or that a generic write is unfinished in it.
    pub(crate) async fn take(conn: Conn<'a>) -> Result<Self, DbErr> {
        match conn.kind() {
            // The write that it is inside of has the transaction to itself.
            _ if conn.depth() > 0 => Ok(Self {
                conn,
                held: None,
                _alone: None,
            }),
            Kind::Capturing(session) => Ok(Self::held(conn, session.hold().await?)),
            Kind::Transaction(plain) => Ok(Self {
                conn,
                held: None,
                _alone: Some(lock_of(plain.address).lock_owned().await),
            }),
            Kind::Pool(_) | Kind::Unknown(_) => Ok(Self {
                conn,
                held: None,
                _alone: None,
            }),
        }
    }

    pub(crate) fn held(conn: Conn<'a>, held: Held<'a>) -> Self {
        Self {
            conn,
            held: Some(held),
            _alone: None,
        }
    }

    /// The connection, for the statements of the write.
    pub(crate) fn conn(&self) -> Conn<'_> {
        match &self.held {
            Some(held) => Conn::held(held),
            None => self.conn,
        }
    }
}

type Locks = Mutex<HashMap<usize, Weak<tokio::sync::Mutex<()>>>>;

/// The lock of a plain transaction, which is told by its address: it is borrowed for as long as a write uses it.
fn lock_of(address: usize) -> Arc<tokio::sync::Mutex<()>> {
    static LOCKS: OnceLock<Locks> = OnceLock::new();
    const FEW: usize = 64;
    let mut locks = LOCKS
        .get_or_init(Locks::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(lock) = locks.get(&address).and_then(Weak::upgrade) {
        return lock;
    }
    if locks.len() >= FEW {
        locks.retain(|_, lock| lock.strong_count() > 0);
    }
    let lock = Arc::default();
    locks.insert(address, Arc::downgrade(&lock));
    lock
}
