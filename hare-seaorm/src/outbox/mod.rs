//! The outbox: its row, its table, and writing events of your own.

mod enqueue;
mod entity;
mod message;
mod model;
pub(crate) mod topics;

pub use enqueue::{Enqueued, enqueue};
pub use entity::{ActiveModel, Column, Entity, Model, PrimaryKey, Relation, set_wakeup};
pub use message::OutboxMessage;
pub use model::{OutboxEntity, OutboxEvent};
