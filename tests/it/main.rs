//! The integration tests, in one binary that mirrors `hare-seaorm/src`.

mod capture;
mod connection;
mod error;
mod migration;
mod outbox;
mod relay;
mod transaction;
mod wakeup;
