//! SeaORM's builders, captured: what `Entity::insert_many`, `Entity::update_many` and their like answer for a captured entity.
//!
//! They take what SeaORM's take, answer what SeaORM's answer and fail as SeaORM's fail; a function that names their type names these
//! instead. Each statement that one runs, and its events, commit together or not at all: on a pool in a transaction of its own, in a
//! transaction in a savepoint.
//!
//! # Cancel safety
//! As for every captured write: dropped half-way on a pool, it is rolled back; in a [`Transaction`](crate::Transaction), that one can
//! only be rolled back any more.

mod delete;
mod insert;
mod update;

pub use delete::{DeleteMany, DeleteOne, ValidatedDeleteOne};
pub use insert::{Insert, InsertMany, TryInsert};
pub use update::{UpdateMany, UpdateOne, ValidatedUpdateOne};

/// Gives a builder SeaORM's access to its statement.
macro_rules! query_trait {
    ($builder:ident<$parameter:ident: $bound:path>, $statement:ty) => {
        impl<$parameter: $bound> sea_orm::QueryTrait for $builder<$parameter> {
            type QueryStatement = $statement;

            fn query(&mut self) -> &mut $statement {
                sea_orm::QueryTrait::query(&mut self.inner)
            }
            fn as_query(&self) -> &$statement {
                self.inner.as_query()
            }
            fn into_query(self) -> $statement {
                self.inner.into_query()
            }
        }
    };
}

/// Lets a builder be filtered.
macro_rules! query_filter {
    ($builder:ident<$parameter:ident: $bound:path>, $statement:ty) => {
        impl<$parameter: $bound> sea_orm::QueryFilter for $builder<$parameter> {
            type QueryStatement = $statement;

            fn query(&mut self) -> &mut $statement {
                sea_orm::QueryTrait::query(&mut self.inner)
            }
        }
    };
}

use {query_filter, query_trait};
