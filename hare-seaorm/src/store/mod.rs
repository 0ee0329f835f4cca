//! The outbox table's SQL. One statement per function; nothing else in the crate writes that table.

pub(crate) mod backlog;
pub(crate) mod claim;
pub(crate) mod cleanup;
pub(crate) mod clock;
pub(crate) mod dead_letters;
pub(crate) mod idempotency;
pub(crate) mod insert;
pub(crate) mod layout;
pub(crate) mod settle;
mod sql;
pub(crate) mod table;
pub(crate) mod topics;
