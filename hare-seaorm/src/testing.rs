//! For tests of applications and deliveries.

pub use crate::store::clock::TestClock;
