//! Layer 1 for the rows of junctions: SeaORM's nested deletes remove them with a statement of their own, without hooks.

use futures_util::future::BoxFuture;
use sea_orm::{ActiveModelTrait, ConnectionTrait, DbErr, DeleteResult, EntityTrait, Related, RelatedSelfVia};

use super::engine::statement::{Capturing, Want};
use super::registry;
use crate::connection::Conn;

/// `ActiveModelTrait::delete_links`.
pub fn delete_links<'a, A, J, C>(
    active_model: &'a A,
    junction: J,
    db: &'a C,
) -> BoxFuture<'a, Result<DeleteResult, DbErr>>
where
    A: ActiveModelTrait + Sync,
    J: EntityTrait + Related<A::Entity>,
    C: ConnectionTrait,
{
    Box::pin(async move {
        match registry::of_entity::<J>() {
            Some(captured) => {
                let capturing = Capturing::new(Conn::new(db), captured, Want::Result);
                ActiveModelTrait::delete_links(active_model, junction, &capturing).await
            }
            None => ActiveModelTrait::delete_links(active_model, junction, db).await,
        }
    })
}

/// `ActiveModelTrait::delete_links_self`.
pub fn delete_links_self<'a, A, J, C>(
    active_model: &'a A,
    junction: J,
    db: &'a C,
) -> BoxFuture<'a, Result<DeleteResult, DbErr>>
where
    A: ActiveModelTrait + Sync,
    A::Entity: RelatedSelfVia<J>,
    J: EntityTrait,
    C: ConnectionTrait,
{
    Box::pin(async move {
        match registry::of_entity::<J>() {
            Some(captured) => {
                let capturing = Capturing::new(Conn::new(db), captured, Want::Result);
                ActiveModelTrait::delete_links_self(active_model, junction, &capturing).await
            }
            None => ActiveModelTrait::delete_links_self(active_model, junction, db).await,
        }
    })
}
