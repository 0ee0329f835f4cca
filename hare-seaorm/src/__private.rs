//! What the derive macros' output calls. Not for users: it changes without notice.

pub use async_trait::async_trait;
pub use futures_util::future::BoxFuture;
pub use sea_orm;

pub use crate::capture::declaration::name_of_module;
pub use crate::capture::{
    CaptureBehavior, CapturedEntity, Declaration, OnPool, Operations, Payload, Piece, Strategy, hooks, write,
};
