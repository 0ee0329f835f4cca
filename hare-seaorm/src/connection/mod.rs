//! Which connection a write goes through, and what may be done on it.
//!
//! Captured writes take any [`sea_orm::ConnectionTrait`]. What they do depends on what it really is: a pool gets a
//! transaction of its own, a transaction a savepoint, and a type that nobody told us about is refused rather than guessed at.

mod conn;
mod exclusive;
mod kind;
pub(crate) mod mark;
mod own;

use sea_orm::DbBackend;

use crate::error::ConfigError;

pub(crate) use conn::{Conn, unknown_connection};
pub(crate) use exclusive::Exclusive;
pub use kind::{ConnectionRef, register};
pub(crate) use kind::{DataStatement, Kind, downcast_statement, sessions};
pub(crate) use own::{begin, in_own_transaction, uncut};

/// Refuses a database whose driver was turned on in SeaORM but not here: its errors could not be told apart, so that a deadlock
/// would go by unnoticed.
pub(crate) fn check_driver(backend: DbBackend) -> Result<(), ConfigError> {
    let (is_on, feature) = match backend {
        DbBackend::Postgres => (cfg!(feature = "sqlx-postgres"), "sqlx-postgres"),
        DbBackend::MySql => (cfg!(feature = "sqlx-mysql"), "sqlx-mysql"),
        _ => (cfg!(feature = "sqlx-sqlite"), "sqlx-sqlite"),
    };
    if is_on {
        return Ok(());
    }
    Err(ConfigError::new(format!(
        "the cargo feature `{feature}` of `hare-seaorm` is off: turn it on, as it is in `sea-orm`"
    )))
}
