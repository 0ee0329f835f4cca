//! The relay: what it claims, how it delivers, what it records, and what it survives.

mod bench;
mod cancel;
mod claim;
mod concurrency;
mod crash;
mod deliver;
mod lease;
mod lifecycle;
mod logs;
mod settle;
mod unavailable;
