//! Which connection a write goes through, and what may be done on it.
//!
//! Captured writes take any [`sea_orm::ConnectionTrait`]. What they do depends on what it really is: a pool gets a
//! transaction of its own, a transaction a savepoint, and a type that nobody told us about is refused rather than guessed at.

mod conn;
mod exclusive;
mod kind;
mod own;

pub(crate) use conn::{Conn, unknown_connection};
pub(crate) use exclusive::Exclusive;
pub use kind::{ConnectionRef, register};
pub(crate) use kind::{Kind, sessions};
pub(crate) use own::{begin, in_own_transaction, uncut};
