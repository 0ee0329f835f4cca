//! Change capture: what an entity's events are, and the writes that make them.

mod behavior;
mod declaration;
mod engine;
mod envelope;
pub(crate) mod hooks;
pub(crate) mod write;

pub use behavior::CaptureBehavior;
pub use declaration::{CapturedEntity, Declaration, OnPool, Operation, Operations, Payload, Piece, Strategy};
