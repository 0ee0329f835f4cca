//! The outbox table's SQL. One statement per function; nothing else in the crate writes that table.

pub(crate) mod insert;
