//! Change capture: what an entity's events are, and the writes that make them.
//!
//! A captured write goes one way: the entity's method ([`write`]) or SeaORM's hook ([`hooks`]) hands it to the engine,
//! which writes the row and its event as one.

mod behavior;
pub mod builders;
mod bypass;
mod change;
mod check;
mod cloud_events;
pub(crate) mod declaration;
mod engine;
mod envelope;
mod extension;
#[doc(hidden)]
pub mod hooks;
#[doc(hidden)]
pub mod links;
mod profile;
pub(crate) mod registry;
mod sink;
pub(crate) mod template;
#[doc(hidden)]
pub mod write;

pub(crate) use envelope::KEY_LIMIT;

pub use crate::context::{ContextHeaders, with_context};
pub use behavior::CaptureBehavior;
pub use bypass::{Bypass, BypassDetector, BypassKind};
pub use change::CapturedChange;
pub use check::{Report, check, check_only};
pub use declaration::{CapturedEntity, EnvelopeForm, OnPool, Operation, Operations, Payload, Strategy};
#[doc(hidden)]
pub use declaration::{Code, Declaration, Extensions, JsonForm, OrderingKeyOf, Piece, TopicOf};
#[doc(hidden)]
pub use extension::refused;
pub use extension::{BoxError, Extension};
pub use profile::{CaptureProfile, ProfileFunctions};
#[doc(hidden)]
pub use registry::Registered;
pub use sink::ChangeSink;
