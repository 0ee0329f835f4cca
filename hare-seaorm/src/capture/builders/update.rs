//! UPDATE.

use futures_util::future::BoxFuture;
use sea_orm::sea_query::{IntoIden, SimpleExpr, UpdateStatement};
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, QueryTrait, UpdateResult,
};

use super::{query_filter, query_trait};
use crate::capture::declaration::CapturedEntity;
use crate::capture::engine::ModelOf;
use crate::capture::engine::statement::{Capturing, Want, Write, count};
use crate::capture::registry::any;
use crate::connection::Conn;

/// An update of one row by its primary key: SeaORM's [`sea_orm::UpdateOne`], captured.
#[derive(Debug, Clone)]
#[must_use = "nothing is updated before it is executed"]
pub struct UpdateOne<A: ActiveModelTrait> {
    inner: sea_orm::UpdateOne<A>,
}

/// One whose model has its primary key: SeaORM's [`sea_orm::ValidatedUpdateOne`], captured.
#[derive(Debug, Clone)]
#[must_use = "nothing is updated before it is executed"]
pub struct ValidatedUpdateOne<A: ActiveModelTrait> {
    inner: sea_orm::ValidatedUpdateOne<A>,
}

/// An update of every row that meets a condition: SeaORM's [`sea_orm::UpdateMany`], captured. One event per row that is met, also if
/// its values stay the same.
///
/// Where before-images are wanted, and on MySQL and MariaDB, exactly the rows that were read and locked first are updated; one that
/// starts to meet the condition in between is neither updated nor captured. A statement over more than some 5,000 rows is carried out in
/// parts, in one transaction.
#[derive(Debug, Clone)]
#[must_use = "nothing is updated before it is executed"]
pub struct UpdateMany<E: EntityTrait> {
    inner: sea_orm::UpdateMany<E>,
}

query_trait!(ValidatedUpdateOne<A: ActiveModelTrait>, UpdateStatement);
query_filter!(ValidatedUpdateOne<A: ActiveModelTrait>, UpdateStatement);
query_trait!(UpdateMany<E: EntityTrait>, UpdateStatement);
query_filter!(UpdateMany<E: EntityTrait>, UpdateStatement);

impl<A> UpdateOne<A>
where
    A: ActiveModelTrait + Send,
    A::Entity: CapturedEntity,
{
    /// An update with what is set in this model.
    pub fn new(model: A) -> Self {
        Self {
            inner: sea_orm::Update::one(model),
        }
    }

    /// Checks that the primary key is set, and gives a builder that can be filtered.
    ///
    /// # Errors
    /// SeaORM's, if it is not.
    pub fn validate(self) -> Result<ValidatedUpdateOne<A>, DbErr> {
        Ok(ValidatedUpdateOne {
            inner: self.inner.validate()?,
        })
    }

    /// Updates the row; [`DbErr::RecordNotUpdated`] if there is none.
    pub fn exec_without_returning<'a, C>(self, db: &'a C) -> BoxFuture<'a, Result<UpdateResult, DbErr>>
    where
        C: ConnectionTrait,
        A: 'a,
    {
        Box::pin(async move { self.validate()?.exec_without_returning(db).await })
    }

    /// Updates the row and answers it as it is stored; [`DbErr::RecordNotUpdated`] if there is none.
    pub fn exec<'a, C>(self, db: &'a C) -> BoxFuture<'a, Result<ModelOf<A>, DbErr>>
    where
        ModelOf<A>: IntoActiveModel<A>,
        C: ConnectionTrait,
        A: 'a,
    {
        Box::pin(async move { self.validate()?.exec(db).await })
    }
}

impl<A> TryFrom<UpdateOne<A>> for ValidatedUpdateOne<A>
where
    A: ActiveModelTrait + Send,
    A::Entity: CapturedEntity,
{
    type Error = DbErr;

    fn try_from(update: UpdateOne<A>) -> Result<Self, DbErr> {
        update.validate()
    }
}

impl<A> ValidatedUpdateOne<A>
where
    A: ActiveModelTrait + Send,
    A::Entity: CapturedEntity,
{
    /// Updates the row; [`DbErr::RecordNotUpdated`] if there is none.
    pub fn exec_without_returning<'a, C>(self, db: &'a C) -> BoxFuture<'a, Result<UpdateResult, DbErr>>
    where
        C: ConnectionTrait,
        A: 'a,
    {
        Box::pin(async move {
            match updated::<A::Entity, C>(db, self.inner.as_query()).await? {
                Some(0) => Err(DbErr::RecordNotUpdated),
                Some(affected) => Ok(result_of(affected)),
                None => self.inner.exec_without_returning(db).await,
            }
        })
    }

    /// Updates the row and answers it as it is stored; [`DbErr::RecordNotUpdated`] if there is none.
    pub fn exec<'a, C>(self, db: &'a C) -> BoxFuture<'a, Result<ModelOf<A>, DbErr>>
    where
        ModelOf<A>: IntoActiveModel<A>,
        C: ConnectionTrait,
        A: 'a,
    {
        Box::pin(async move {
            let capturing = Capturing::new(Conn::new(db), any::<A::Entity>(), Want::Result);
            self.inner.exec(&capturing).await
        })
    }
}

impl<E: CapturedEntity> UpdateMany<E> {
    /// An update of every row, until it is filtered.
    pub fn new(entity: E) -> Self {
        Self {
            inner: sea_orm::Update::many(entity),
        }
    }

    /// Sets the columns that are set in this model.
    pub fn set<A>(mut self, model: A) -> Self
    where
        A: ActiveModelTrait<Entity = E>,
    {
        self.inner = self.inner.set(model);
        self
    }

    /// Sets a column to an expression.
    pub fn col_expr<T>(mut self, column: T, expr: SimpleExpr) -> Self
    where
        T: IntoIden,
    {
        self.inner = self.inner.col_expr(column, expr);
        self
    }

    /// Updates the rows and answers how many were met.
    pub fn exec<'a, C>(self, db: &'a C) -> BoxFuture<'a, Result<UpdateResult, DbErr>>
    where
        C: ConnectionTrait,
    {
        Box::pin(async move {
            match updated::<E, C>(db, self.inner.as_query()).await? {
                Some(affected) => Ok(result_of(affected)),
                None => self.inner.exec(db).await,
            }
        })
    }

    /// Updates the rows and answers them, where the database gives rows back.
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

/// How many rows were updated; `None` if nothing is captured, or nothing is set, and SeaORM shall do it.
async fn updated<E: CapturedEntity, C: ConnectionTrait>(
    db: &C,
    statement: &UpdateStatement,
) -> Result<Option<u64>, DbErr> {
    if statement.get_values().is_empty() {
        return Ok(None);
    }
    count::<E>(Conn::new(db), Write::Update(statement.clone())).await
}

fn result_of(affected: u64) -> UpdateResult {
    let mut result = UpdateResult::default();
    result.rows_affected = affected;
    result
}
