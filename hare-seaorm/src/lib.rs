//! Transactional outbox and change capture for SeaORM 2.
#![cfg_attr(docsrs, feature(doc_cfg))]

// Lets the derive macros' `::hare_seaorm` paths work inside this crate too.
extern crate self as hare_seaorm;

pub mod capture;
pub mod connection;
pub mod delivery;
mod error;
pub mod json;
pub mod outbox;
mod relay;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod transaction;
pub mod wakeup;

pub use capture::CaptureBehavior;
pub use delivery::{CallableDelivery, MemoryDelivery, OutboxDelivery};
pub use error::{Cause, ConfigError, Error};
#[cfg(feature = "macros")]
pub use hare_seaorm_derive::{ChangeCapture, behavior};
pub use outbox::OutboxMessage;
pub use relay::{OutboxRelay, PollOutcome, RelayHandle};
pub use transaction::{Transaction, begin, signal_after_commit};
pub use wakeup::{InProcessWakeup, OutboxWakeup};

#[doc(hidden)]
pub mod __private;
