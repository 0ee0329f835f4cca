//! What the tests stand on: a database of its own for each, and the small shop with relations that they share.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test's own support may panic"
)]

pub mod database;
pub mod events;
pub mod gate;
pub mod shop;
pub mod statements;
pub mod wakeup;

pub use database::{Backend, Empty, TestDb};
pub use events::Event;
pub use shop::Shop;
