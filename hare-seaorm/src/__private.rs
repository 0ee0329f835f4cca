//! What the derive macros' output calls. Not for users: it changes without notice.

pub use async_trait::async_trait;
pub use futures_util::future::BoxFuture;
pub use inventory;
pub use sea_orm;
pub use uuid::Uuid;

pub use crate::capture::declaration::{json_form, name_of_module, ordering_key_of, sensitive_key, topic_of};
pub use crate::capture::template::{check_ordering_key, check_topic, ordering_key_pieces, topic_pieces};
pub use crate::capture::{
    CaptureBehavior, CaptureProfile, CapturedChange, CapturedEntity, ChangeSink, Code, Declaration,
    EnvelopeForm, Extensions, JsonForm, OnPool, Operations, Payload, Piece, ProfileFunctions, Registered,
    Strategy, builders, hooks, links, refused, write,
};
pub use crate::json::JsonText;
pub use crate::outbox::{OutboxEntity, OutboxEvent};
pub use crate::wakeup::OutboxWakeup;

/// Tells at compile time whether an entity is an outbox: `Probe::<Entity>::IS_OUTBOX` is the constant below where `Entity` is an
/// [`OutboxEntity`], and else the trait's, which has to be in scope.
#[derive(Debug)]
pub struct Probe<E>(std::marker::PhantomData<fn() -> E>);

impl<E: OutboxEntity> Probe<E> {
    pub const IS_OUTBOX: bool = true;
}

/// What [`Probe`] says of any other type.
pub trait NoOutbox {
    const IS_OUTBOX: bool = false;
}

impl<E> NoOutbox for Probe<E> {}
