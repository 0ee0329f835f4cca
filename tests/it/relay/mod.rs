//! The relay: what it claims, how it delivers, what it records, and what it survives.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests may panic like tests"
)]

mod bench;
mod cancel;
mod claim;
mod concurrency;
mod crash;
mod deliver;
mod lease;
mod lifecycle;
mod logs;
mod router;
mod routes;
mod settle;
mod topics;
mod unavailable;
