//! The integration tests, in one binary that mirrors `hare-seaorm/src`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod capture;
mod connection;
mod error;
mod migration;
mod outbox;
mod relay;
mod transaction;
mod wakeup;
mod wakeup_postgres;
