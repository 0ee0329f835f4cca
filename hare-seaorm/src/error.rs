//! The errors of the library, and how they travel inside SeaORM's.
//!
//! Captured writes return SeaORM's [`DbErr`], so that call sites stay as they are. An error of ours travels inside it, as
//! the source of the one variant that carries any error, and is found again with [`Error::find`].
//!
//! Invariant: an error of ours never makes [`DbErr::sql_err`] answer, so a conflict in the outbox is never taken for one in
//! the user's own table. Tested in `tests/it/error.rs`.

use std::sync::Arc;

use sea_orm::DbErr;

/// What can go wrong in this library.
///
/// Each variant says what a caller can do about it; [`Error::is_retryable`] answers the most common question.
///
/// Its text leaves out the cause, which is what the database said (a table that is missing, a lost connection): log it with its
/// [`source`](std::error::Error::source), or by `{:?}`. The same goes for a [`DbErr`] of a captured write that holds one.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value cannot become an event: too long, not representable, reserved. Nothing was written.
    #[error("{what} is not valid: {reason}")]
    Validation {
        /// The thing that was refused, by the name the user gave it.
        what: String,
        /// Why, and the way out.
        reason: String,
        /// The cause, where another library found the fault.
        #[source]
        source: Option<Cause>,
    },
    /// The set-up is wrong, whatever the values are.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// This connection, database or call cannot do what was asked. Nothing was written.
    #[error("{what} is not supported: {reason}")]
    Unsupported {
        /// What was asked.
        what: String,
        /// Why it cannot be done here, and what can.
        reason: String,
    },
    /// A rule of the outbox table refused the event: a unique or foreign key, a `NOT NULL` or a check of a column of your own. The
    /// write that made it is undone.
    ///
    /// Retryable if the key belongs to an event that the transaction cannot see.
    #[error("the outbox refused the event: {reason}")]
    Integrity {
        /// What was being done. Which rule was broken is in the database's own error, where there is one.
        reason: String,
        /// The database's own error.
        #[source]
        source: Option<DbErr>,
    },
    /// The database gave up a transaction that may succeed when tried again: a deadlock, a serialisation failure, a busy file.
    #[error("{what} can be tried again: {reason}")]
    Retryable {
        /// What was being done.
        what: &'static str,
        /// What happened, and what of the transaction is left.
        reason: String,
        /// The database's own error, where it is what was seen.
        #[source]
        source: Option<DbErr>,
    },
    /// A statement failed. Safe to retry when [`Error::is_retryable`] says so.
    #[error("the database failed while {during}")]
    Database {
        /// What was being done.
        during: &'static str,
        /// The database's own error.
        #[source]
        source: DbErr,
    },
}

/// An error kept as the cause of another, cheap to clone.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Options or declarations that cannot work. Lists everything that is wrong, so that one start shows all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.join("; "))]
#[non_exhaustive]
pub struct ConfigError {
    /// One sentence a problem: the option, its value, and what it may be.
    pub problems: Vec<String>,
}

impl ConfigError {
    /// One problem.
    pub fn new(problem: impl Into<String>) -> Self {
        Self {
            problems: vec![problem.into()],
        }
    }

    /// Several problems found together. `None` if there are none.
    pub fn all(problems: Vec<String>) -> Option<Self> {
        (!problems.is_empty()).then_some(Self { problems })
    }
}

impl Error {
    /// The error of ours inside a [`DbErr`], if there is one.
    ///
    /// ```
    /// # use hare_seaorm::Error;
    /// # fn handle(error: sea_orm::DbErr) {
    /// match Error::find(&error) {
    ///     Some(Error::Validation { what, .. }) => eprintln!("the event was refused because of {what}"),
    ///     Some(ours) if ours.is_retryable() => eprintln!("try the transaction again"),
    ///     _ => eprintln!("SeaORM's own error: {error}"),
    /// }
    /// # }
    /// ```
    pub fn find(error: &DbErr) -> Option<&Error> {
        match error {
            DbErr::TryIntoErr { source, .. } => source.downcast_ref(),
            _ => None,
        }
    }

    /// Whether the same work, done again in a new transaction, may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Retryable { .. } => true,
            Error::Database { source, .. } if is_lock_timeout(source) => true,
            Error::Database { source, .. }
            | Error::Integrity {
                source: Some(source), ..
            } => Fault::of(source) == Some(Fault::Retryable),
            _ => false,
        }
    }

    pub(crate) fn validation(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Validation {
            what: what.into(),
            reason: reason.into(),
            source: None,
        }
    }

    pub(crate) fn unsupported(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Unsupported {
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// Gives a failed statement on the *outbox* its place: a broken key, something to retry, or a plain failure. An error of ours
    /// that SeaORM's carries stays what it is; but a stored text that is not JSON is a failed statement.
    pub(crate) fn database(during: &'static str, source: DbErr) -> Self {
        match Self::find(&source) {
            None | Some(Self::Validation { .. }) => {}
            Some(ours) => return ours.clone(),
        }
        match Fault::of(&source) {
            Some(Fault::Integrity) => Self::Integrity {
                reason: format!("a key or another rule of its table does not allow it (while {during})"),
                source: Some(source),
            },
            Some(Fault::Retryable) => Self::Retryable {
                what: during,
                reason: given_up(&source).to_owned(),
                source: Some(source),
            },
            None => Self::Database { during, source },
        }
    }
}

impl From<Error> for DbErr {
    fn from(error: Error) -> Self {
        DbErr::TryIntoErr {
            from: "a captured write",
            into: "an outbox event",
            source: Arc::new(error),
        }
    }
}

/// What is left of a transaction in which MySQL ended a deadlock.
pub(crate) const GONE: &str = "the transaction is gone: the database ended a deadlock by rolling all of it back; run it again from its \
                               beginning";

/// What is left of a transaction that the database gave up.
fn given_up(error: &DbErr) -> &'static str {
    if mysql_number(error).is_some() {
        GONE
    } else {
        "the database gave it up for another; roll the transaction back and run it again"
    }
}

/// What a database error means, where the answer decides what a caller may do.
#[cfg_attr(
    not(feature = "_sqlx"),
    expect(dead_code, reason = "only a driver tells errors apart")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Integrity,
    Retryable,
}

impl Fault {
    /// Reads the SQLSTATE (or SQLite's result code), of the cause where the error is one of ours; `None` where neither applies.
    ///
    /// PostgreSQL: class 23 and `40001`, `40P01` (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
    /// MariaDB: `23000`, and `40001` for a deadlock. SQLite: 5 `BUSY`, 6 `LOCKED`, 19 `CONSTRAINT`, with the extended code in
    /// the higher bytes (<https://www.sqlite.org/rescode.html>).
    pub(crate) fn of(error: &DbErr) -> Option<Self> {
        if let Some(
            Error::Database { source, .. }
            | Error::Integrity {
                source: Some(source), ..
            }
            | Error::Retryable {
                source: Some(source), ..
            },
        ) = Error::find(error)
        {
            return Self::of(source);
        }
        #[cfg(feature = "_sqlx")]
        {
            let database = sqlx_database_error(error)?;
            let code = database.code()?;
            if let Ok(number) = code.parse::<u32>()
                && code.len() < 5
            {
                return match number & 0xff {
                    5 | 6 => Some(Self::Retryable),
                    19 => Some(Self::Integrity),
                    _ => None,
                };
            }
            match code.as_ref() {
                "40001" | "40P01" => Some(Self::Retryable),
                code if code.starts_with("23") => Some(Self::Integrity),
                _ => None,
            }
        }
        #[cfg(not(feature = "_sqlx"))]
        {
            let _ = error;
            None
        }
    }
}

/// Whether PostgreSQL found a row that conflicts with an INSERT and that the transaction's snapshot does not show.
///
/// It is a serialisation failure like others, and told from them by the function that raises it, as the server names it.
pub(crate) fn is_invisible_conflict(error: &DbErr) -> bool {
    postgres_code(error) == Some(("40001", Some("ExecCheckTupleVisible")))
}

/// Whether a statement waited for a lock for as long as it may: PostgreSQL's `lock_not_available`, MySQL's error 1205.
///
/// Not among [`Fault`]s, because on MySQL it leaves the transaction as it was.
fn is_lock_timeout(error: &DbErr) -> bool {
    postgres_code(error).is_some_and(|(code, _)| code == "55P03") || mysql_number(error) == Some(1205)
}

/// Whether PostgreSQL found no unique key for an `ON CONFLICT` (`invalid_column_reference`).
pub(crate) fn is_without_unique_key(error: &DbErr) -> bool {
    postgres_code(error).is_some_and(|(code, _)| code == "42P10")
}

/// The SQLSTATE of an error of PostgreSQL's, and the server's function that raised it.
fn postgres_code(error: &DbErr) -> Option<(&str, Option<&str>)> {
    #[cfg(feature = "sqlx-postgres")]
    {
        use sea_orm::sqlx::postgres::PgDatabaseError;
        let error = sqlx_database_error(error)?.try_downcast_ref::<PgDatabaseError>()?;
        Some((error.code(), error.routine()))
    }
    #[cfg(not(feature = "sqlx-postgres"))]
    {
        let _ = error;
        None
    }
}

/// The number of an error of MySQL's.
fn mysql_number(error: &DbErr) -> Option<u16> {
    #[cfg(feature = "sqlx-mysql")]
    {
        use sea_orm::sqlx::mysql::MySqlDatabaseError;
        let error = sqlx_database_error(error)?.try_downcast_ref::<MySqlDatabaseError>()?;
        Some(error.number())
    }
    #[cfg(not(feature = "sqlx-mysql"))]
    {
        let _ = error;
        None
    }
}

#[cfg(feature = "_sqlx")]
fn sqlx_database_error(error: &DbErr) -> Option<&(dyn sea_orm::sqlx::error::DatabaseError + 'static)> {
    use sea_orm::RuntimeErr;
    match error {
        DbErr::Exec(RuntimeErr::SqlxError(inner))
        | DbErr::Query(RuntimeErr::SqlxError(inner))
        | DbErr::Conn(RuntimeErr::SqlxError(inner)) => inner.as_database_error(),
        _ => None,
    }
}
