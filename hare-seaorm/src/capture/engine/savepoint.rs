//! A raw savepoint around a captured write inside somebody's transaction.
//!
//! Not SeaORM's nested `begin`: dropped while its SAVEPOINT is on the way, that rolls back the caller's transaction and leaves
//! the caller's handle in autocommit.

use std::sync::atomic::{AtomicU64, Ordering};

use sea_orm::{ConnectionTrait, DbBackend, DbErr};

use crate::connection::{Conn, Kind};
use crate::error::{Error, Fault};
use crate::transaction::Spoiled;

/// An open savepoint. Dropped before it is released or rolled back, it marks the transaction: its row may have no event.
#[derive(Debug)]
pub(crate) struct Savepoint<'a> {
    conn: Conn<'a>,
    name: String,
    open: bool,
}

/// The savepoint between two of SeaORM's hooks. One name is enough: only SeaORM's own statement runs inside.
const BETWEEN_HOOKS: &str = "hare_hook";

impl<'a> Savepoint<'a> {
    pub(crate) async fn open(conn: Conn<'a>) -> Result<Self, DbErr> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("hare_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        conn.execute_unprepared(&format!("SAVEPOINT {name}")).await?;
        Ok(Self {
            conn,
            name,
            open: true,
        })
    }

    /// Keeps what was written since.
    pub(crate) async fn release(mut self) -> Result<(), DbErr> {
        let released = self
            .conn
            .execute_unprepared(&format!("RELEASE SAVEPOINT {}", self.name))
            .await;
        if released.is_ok() {
            self.open = false;
        }
        released.map(drop)
    }

    /// Undoes what was written since, because of `cause`, and gives the error that the caller is to see.
    pub(crate) async fn roll_back(mut self, cause: DbErr) -> DbErr {
        let outcome = roll_back_to(self.conn, &self.name, cause).await;
        // Either it is undone, or the database will not let the transaction commit, or it is marked.
        self.open = false;
        outcome
    }
}

impl Drop for Savepoint<'_> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        match self.conn.kind() {
            Kind::Capturing(transaction) => transaction.spoil(Spoiled::CutWrite),
            _ => tracing::error!(
                "a captured write was dropped half-way in a plain transaction: if that is committed, the row may have no event; \
                 roll it back, or use `hare_seaorm::begin`, whose commit then fails"
            ),
        }
    }
}

/// Opens the savepoint that the before-hook leaves to the after-hook.
pub(crate) async fn hold(conn: Conn<'_>) -> Result<(), DbErr> {
    conn.execute_unprepared(&format!("SAVEPOINT {BETWEEN_HOOKS}"))
        .await
        .map(drop)
}

/// Ends the savepoint of [`hold`]: kept if all went well, undone if not.
pub(crate) async fn end_held<T>(conn: Conn<'_>, outcome: Result<T, DbErr>) -> Result<T, DbErr> {
    match outcome {
        Ok(value) => {
            conn.execute_unprepared(&format!("RELEASE SAVEPOINT {BETWEEN_HOOKS}"))
                .await?;
            Ok(value)
        }
        Err(cause) => Err(roll_back_to(conn, BETWEEN_HOOKS, cause).await),
    }
}

async fn roll_back_to(conn: Conn<'_>, name: &str, cause: DbErr) -> DbErr {
    // InnoDB ends a deadlock by rolling back the whole transaction, savepoints too
    // (https://dev.mysql.com/doc/refman/8.4/en/innodb-deadlock-detection.html).
    if conn.backend() == DbBackend::MySql && Fault::of(&cause) == Some(Fault::Retryable) {
        if let Kind::Capturing(transaction) = conn.kind() {
            transaction.spoil(Spoiled::Gone);
        }
        return Error::Retryable {
            what: "a captured write",
            reason: "the transaction is gone: the database ended a deadlock by rolling all of it back; run it again from its \
                     beginning"
                .to_owned(),
            source: Some(cause),
        }
        .into();
    }
    let rolled_back = async {
        conn.execute_unprepared(&format!("ROLLBACK TO SAVEPOINT {name}"))
            .await?;
        conn.execute_unprepared(&format!("RELEASE SAVEPOINT {name}"))
            .await
    };
    if let Err(error) = rolled_back.await {
        tracing::error!(error = %error, "a failed captured write could not be rolled back to its savepoint");
        if let Kind::Capturing(transaction) = conn.kind() {
            transaction.spoil(Spoiled::CutWrite);
        }
    }
    cause
}
