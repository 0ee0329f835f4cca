//! DELETE.

use futures_util::future::BoxFuture;
use sea_orm::sea_query::DeleteStatement;
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DbErr, DeleteResult, EntityTrait, IntoActiveModel, PrimaryKeyTrait,
    QueryTrait,
};

use super::{query_filter, query_trait};
use crate::capture::declaration::CapturedEntity;
use crate::capture::engine::statement::{Capturing, Want, Write, count};
use crate::capture::registry::any;
use crate::connection::Conn;

/// A delete of one row by its primary key: SeaORM's [`sea_orm::DeleteOne`], captured.
#[derive(Debug, Clone)]
#[must_use = "nothing is deleted before it is executed"]
pub struct DeleteOne<E: EntityTrait> {
    inner: sea_orm::DeleteOne<E>,
}

/// One whose model has its primary key: SeaORM's [`sea_orm::ValidatedDeleteOne`], captured.
#[derive(Debug, Clone)]
#[must_use = "nothing is deleted before it is executed"]
pub struct ValidatedDeleteOne<E: EntityTrait> {
    inner: sea_orm::ValidatedDeleteOne<E>,
}

/// A delete of every row that meets a condition: SeaORM's [`sea_orm::DeleteMany`], captured. One event per row.
#[derive(Debug, Clone)]
#[must_use = "nothing is deleted before it is executed"]
pub struct DeleteMany<E: EntityTrait> {
    inner: sea_orm::DeleteMany<E>,
}

query_trait!(ValidatedDeleteOne<E: EntityTrait>, DeleteStatement);
query_filter!(ValidatedDeleteOne<E: EntityTrait>, DeleteStatement);
query_trait!(DeleteMany<E: EntityTrait>, DeleteStatement);
query_filter!(DeleteMany<E: EntityTrait>, DeleteStatement);

impl<E: CapturedEntity> DeleteOne<E> {
    /// A delete of this model's row.
    pub fn new<A, M>(model: M) -> Self
    where
        A: ActiveModelTrait<Entity = E>,
        M: IntoActiveModel<A>,
    {
        Self {
            inner: sea_orm::Delete::one(model),
        }
    }

    /// Checks that the primary key is set, and gives a builder that can be filtered.
    ///
    /// # Errors
    /// SeaORM's, if it is not.
    pub fn validate(self) -> Result<ValidatedDeleteOne<E>, DbErr> {
        Ok(ValidatedDeleteOne {
            inner: self.inner.validate()?,
        })
    }

    /// Deletes the row and answers how many there were.
    pub fn exec<'a, C>(self, db: &'a C) -> BoxFuture<'a, Result<DeleteResult, DbErr>>
    where
        C: ConnectionTrait,
    {
        Box::pin(async move { self.validate()?.exec(db).await })
    }

    /// Deletes the row and answers it as it was, where the database gives rows back.
    pub fn exec_with_returning<'a, C>(self, db: &'a C) -> BoxFuture<'a, Result<Option<E::Model>, DbErr>>
    where
        C: ConnectionTrait,
    {
        Box::pin(async move { self.validate()?.exec_with_returning(db).await })
    }
}

impl<E: CapturedEntity> TryFrom<DeleteOne<E>> for ValidatedDeleteOne<E> {
    type Error = DbErr;

    fn try_from(delete: DeleteOne<E>) -> Result<Self, DbErr> {
        delete.validate()
    }
}

impl<E: CapturedEntity> ValidatedDeleteOne<E> {
    /// A delete of the row of this key.
    pub fn by_id<T>(key: T) -> Self
    where
        T: Into<<E::PrimaryKey as PrimaryKeyTrait>::ValueType>,
    {
        Self {
            inner: <E as EntityTrait>::delete_by_id(key),
        }
    }

    /// Deletes the row and answers how many there were.
    pub fn exec<'a, C>(self, db: &'a C) -> BoxFuture<'a, Result<DeleteResult, DbErr>>
    where
        C: ConnectionTrait,
    {
        Box::pin(async move {
            match deleted::<E, C>(db, self.inner.as_query()).await? {
                Some(result) => Ok(result),
                None => self.inner.exec(db).await,
            }
        })
    }

    /// Deletes the row and answers it as it was, where the database gives rows back.
    pub fn exec_with_returning<'a, C>(self, db: &'a C) -> BoxFuture<'a, Result<Option<E::Model>, DbErr>>
    where
        C: ConnectionTrait,
    {
        Box::pin(async move {
            let capturing = Capturing::new(Conn::new(db), any::<E>(), Want::Result);
            self.inner.exec_with_returning(&capturing).await
        })
    }
}

impl<E: CapturedEntity> DeleteMany<E> {
    /// A delete of every row, until it is filtered.
    pub fn new(entity: E) -> Self {
        Self {
            inner: sea_orm::Delete::many(entity),
        }
    }

    /// Narrows it to the rows of these keys.
    pub fn filter_by_ids<I>(mut self, keys: I) -> Self
    where
        I: IntoIterator<Item = <E::PrimaryKey as PrimaryKeyTrait>::ValueType>,
    {
        self.inner = self.inner.filter_by_ids(keys);
        self
    }

    /// As SeaORM's: for its own junctions.
    #[doc(hidden)]
    pub fn filter_by_value_tuples(
        mut self,
        keys: &[sea_orm::sea_query::ValueTuple],
        backend: sea_orm::DbBackend,
    ) -> Self {
        self.inner = self.inner.filter_by_value_tuples(keys, backend);
        self
    }

    /// Deletes the rows and answers how many there were.
    pub fn exec<'a, C>(self, db: &'a C) -> BoxFuture<'a, Result<DeleteResult, DbErr>>
    where
        C: ConnectionTrait,
    {
        Box::pin(async move {
            match deleted::<E, C>(db, self.inner.as_query()).await? {
                Some(result) => Ok(result),
                None => self.inner.exec(db).await,
            }
        })
    }

    /// Deletes the rows and answers them as they were, where the database gives rows back.
    pub fn exec_with_returning<'a, C>(self, db: &'a C) -> BoxFuture<'a, Result<Vec<E::Model>, DbErr>>
    where
        C: ConnectionTrait,
    {
        Box::pin(async move {
            let capturing = Capturing::new(Conn::new(db), any::<E>(), Want::Result);
            self.inner.exec_with_returning(&capturing).await
        })
    }
}

/// How many rows were deleted; `None` if nothing is captured, and SeaORM shall do it.
async fn deleted<E: CapturedEntity, C: ConnectionTrait>(
    db: &C,
    statement: &DeleteStatement,
) -> Result<Option<DeleteResult>, DbErr> {
    let affected = count::<E>(Conn::new(db), Write::Delete(statement.clone())).await?;
    Ok(affected.map(|affected| {
        let mut result = DeleteResult::empty();
        result.rows_affected = affected;
        result
    }))
}
