//! What the tests stand on: a database of its own for each, and the small shop with relations that they share. No assertions.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test's own support may panic")]

pub mod database;

pub use database::{Backend, TestDb};
