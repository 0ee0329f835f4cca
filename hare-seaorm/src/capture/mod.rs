//! Change capture: what an entity's events are, and the writes that make them.
//!
//! A captured write goes one way: the entity's method ([`write`]) or SeaORM's hook ([`hooks`]) hands it to the engine,
//! which writes the row and its event as one.

mod behavior;
pub(crate) mod declaration;
mod engine;
mod envelope;
#[doc(hidden)]
pub mod hooks;
#[doc(hidden)]
pub mod write;

pub(crate) use envelope::KEY_LIMIT;

pub use behavior::CaptureBehavior;
pub use declaration::CapturedEntity;
#[doc(hidden)]
pub use declaration::{Declaration, JsonForm, OnPool, Operation, Operations, Payload, Piece, Strategy};
