//! A raw savepoint around a write of ours inside somebody's transaction: a captured one, or several events.
//!
//! Not SeaORM's nested `begin`: dropped while its SAVEPOINT is on the way, that rolls back the caller's transaction and leaves
//! the caller's handle in autocommit.

use std::borrow::Cow;

use sea_orm::{ConnectionTrait, DbBackend, DbErr};

use super::Spoiled;
use crate::connection::{Conn, Exclusive, Kind};
use crate::error::{Error, Fault};
use crate::logs::Chain;

/// The savepoint's name. One is enough: no two captured writes run at once in a transaction, unless one is inside the other, which
/// has a number more. And it keeps the text of the statement the same, for whoever counts statements by their text.
const NAME: &str = "hare_write";

/// The savepoint between two of SeaORM's hooks, in which another captured write may run.
const NAME_BETWEEN_HOOKS: &str = "hare_hook";

/// MySQL forgets a savepoint when another gets its name.
fn named(name: &'static str, conn: Conn<'_>) -> Cow<'static, str> {
    match conn.depth() {
        0 => Cow::Borrowed(name),
        depth => Cow::Owned(format!("{name}_{depth}")),
    }
}

/// An open savepoint. Dropped before it is released or rolled back, it marks the transaction: its row may have no event.
#[derive(Debug)]
pub(crate) struct Savepoint<'a> {
    conn: Conn<'a>,
    name: Cow<'static, str>,
    open: bool,
    /// Others may have written since, and would be undone with it.
    is_shared: bool,
}

impl<'a> Savepoint<'a> {
    pub(crate) async fn open(exclusive: &'a Exclusive<'_>) -> Result<Self, DbErr> {
        Self::begin(exclusive.conn(), NAME).await
    }

    async fn begin(conn: Conn<'a>, name: &'static str) -> Result<Self, DbErr> {
        let name = named(name, conn);
        conn.execute_unprepared(&format!("SAVEPOINT {name}")).await?;
        Ok(Self {
            conn,
            name,
            open: true,
            is_shared: false,
        })
    }

    /// One that is left open for a statement of SeaORM's.
    pub(crate) async fn open_between_hooks(exclusive: &'a Exclusive<'_>) -> Result<Self, DbErr> {
        Self::begin(exclusive.conn(), NAME_BETWEEN_HOOKS).await
    }

    /// Leaves it to the after-hook.
    pub(crate) fn hand_over(mut self) {
        self.open = false;
        if let Kind::Capturing(session) = self.conn.kind()
            && self.conn.depth() == 0
        {
            session.hand_over();
        }
    }

    /// Takes it over from the before-hook.
    pub(crate) fn resume(exclusive: &'a Resumed<'_>) -> Self {
        let conn = exclusive.exclusive.conn();
        Self {
            conn,
            name: named(NAME_BETWEEN_HOOKS, conn),
            open: true,
            is_shared: exclusive.is_shared,
        }
    }

    /// Keeps what was written since.
    pub(crate) async fn release(mut self) -> Result<(), DbErr> {
        let released = self
            .conn
            .execute_unprepared(&format!("RELEASE SAVEPOINT {}", self.name))
            .await;
        self.open = false;
        if released.is_err() {
            self.spoil(Spoiled::LostSavepoint);
        }
        released.map(drop)
    }

    /// Undoes what was written since, because of `cause`, and gives the error that the caller is to see.
    pub(crate) async fn roll_back(mut self, cause: DbErr) -> DbErr {
        let outcome = self.undo(cause).await;
        // Either it is undone, or the transaction is marked, or the database will not let it commit.
        self.open = false;
        outcome
    }

    async fn undo(&self, cause: DbErr) -> DbErr {
        // The whole transaction is gone already, savepoints too.
        if self.conn.backend() == DbBackend::MySql && Fault::of(&cause) == Some(Fault::Retryable) {
            self.spoil(Spoiled::Gone);
            // An error of ours says so already.
            if Error::find(&cause).is_some() {
                return cause;
            }
            return Spoiled::Gone.error(Some(cause)).into();
        }
        if self.is_shared {
            self.spoil(Spoiled::SharedWrite);
            return cause;
        }
        let rolled_back = async {
            self.conn
                .execute_unprepared(&format!("ROLLBACK TO SAVEPOINT {}", self.name))
                .await?;
            self.conn
                .execute_unprepared(&format!("RELEASE SAVEPOINT {}", self.name))
                .await
        };
        if let Err(error) = rolled_back.await {
            tracing::error!(name: "hare.savepoint_lost", error = %Chain(&error), "a failed write could not be rolled back to its savepoint");
            self.spoil(Spoiled::LostSavepoint);
        }
        cause
    }

    fn spoil(&self, spoiled: Spoiled) {
        if let Kind::Capturing(session) = self.conn.kind() {
            session.spoil(spoiled);
        }
    }
}

impl Drop for Savepoint<'_> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        match self.conn.kind() {
            Kind::Capturing(session) => session.spoil(Spoiled::CutWrite),
            _ => tracing::error!(
                name: "hare.write_cut",
                "a captured write, or a call that writes several events, was dropped half-way in a plain transaction: if that is \
                 committed, an event may be missing; roll it back, or use `hare_seaorm::begin`, whose commit then fails"
            ),
        }
    }
}

/// The transaction in the after-hook.
#[derive(Debug)]
pub(crate) struct Resumed<'a> {
    exclusive: Exclusive<'a>,
    is_shared: bool,
}

impl<'a> Resumed<'a> {
    /// Goes on with a write that was handed over.
    pub(crate) async fn take(conn: Conn<'a>) -> Result<Self, DbErr> {
        match conn.kind() {
            Kind::Capturing(session) if conn.depth() == 0 => {
                let (held, is_shared) = session.resume().await?;
                Ok(Self {
                    exclusive: Exclusive::held(conn, held),
                    is_shared,
                })
            }
            _ => Ok(Self {
                exclusive: Exclusive::take(conn).await?,
                is_shared: false,
            }),
        }
    }

    pub(crate) fn conn(&self) -> Conn<'_> {
        self.exclusive.conn()
    }
}
