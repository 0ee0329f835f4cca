//! Layer 1: the writes that the derive's inherent methods hand over. The user's hooks run here, around the engine.

use futures_util::future::BoxFuture;
use sea_orm::{ActiveModelTrait, ConnectionTrait, DbErr, DeleteResult, EntityTrait, IntoActiveModel, UpdateResult};

use super::{CaptureBehavior, CapturedEntity};

/// The model of an active model.
pub(crate) type ModelOf<A> = <<A as ActiveModelTrait>::Entity as EntityTrait>::Model;
