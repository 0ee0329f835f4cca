//! The relay: what it claims, how it delivers, what it records, and what it survives.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests may panic like tests"
)]

mod backlog;
mod bench;
mod cancel;
mod claim;
mod cleanup;
mod concurrency;
mod crash;
mod dead_letters;
mod deliver;
mod lease;
mod lifecycle;
pub(crate) mod logs;
mod observer;
mod policy;
mod router;
mod routes;
mod settle;
mod topics;
mod unavailable;
