//! The outbox: its row, its table, and writing events of your own.

mod enqueue;
mod entity;
mod idempotency;
mod message;
mod model;

pub use enqueue::{Enqueued, enqueue, enqueue_many};
pub use entity::{ActiveModel, Column, Entity, Model, PrimaryKey, Relation, set_wakeup};
pub use message::OutboxMessage;
pub use model::{OutboxEntity, OutboxEvent};
