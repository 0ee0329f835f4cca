//! The outbox: its row, its table, and writing events of your own.

mod backlog;
mod dead_letter;
mod enqueue;
mod entity;
mod idempotency;
mod message;
mod model;
mod status;
pub(crate) mod topics;

pub use backlog::Backlog;
pub use dead_letter::DeadLetter;
pub use enqueue::{Enqueued, enqueue, enqueue_many};
pub use entity::{ActiveModel, Column, Entity, Model, PrimaryKey, Relation, set_wakeup};
pub use message::OutboxMessage;
pub use model::{OutboxEntity, OutboxEvent};
pub use status::Status;
