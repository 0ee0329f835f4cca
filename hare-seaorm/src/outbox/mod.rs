//! The outbox: its row, its table, and writing events of your own.

mod backlog;
mod columns;
mod dead_letter;
mod enqueue;
mod entity;
mod headers;
mod idempotency;
mod message;
mod model;
mod status;
pub(crate) mod topics;

pub use backlog::Backlog;
pub(crate) use columns::{KEPT, OwnColumns};
pub use dead_letter::DeadLetter;
pub use enqueue::{Enqueued, enqueue, enqueue_many};
pub use entity::{ActiveModel, Column, Entity, Model, PrimaryKey, Relation, set_wakeup};
pub(crate) use headers::Headers;
pub use message::OutboxMessage;
pub(crate) use message::{check_id, check_key, refuse_nul_in};
pub use model::{OutboxEntity, OutboxEvent};
pub use status::Status;
