//! INSERT.

use futures_util::future::BoxFuture;
use sea_orm::sea_query::{InsertStatement, OnConflict};
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DbErr, EntityTrait, InsertManyResult, InsertResult, IntoActiveModel,
    PrimaryKeyTrait, QueryTrait, TryInsertResult,
};

use super::query_trait;
use crate::capture::declaration::CapturedEntity;
use crate::capture::engine::ModelOf;
use crate::capture::engine::statement::{Capturing, Want, Write, count};
use crate::capture::registry::any;
use crate::connection::Conn;

type ColumnOf<A> = <<A as ActiveModelTrait>::Entity as EntityTrait>::Column;
type KeyOf<A> = <<<A as ActiveModelTrait>::Entity as EntityTrait>::PrimaryKey as PrimaryKeyTrait>::ValueType;

/// An insert of one row: SeaORM's [`sea_orm::Insert`], captured.
#[derive(Debug)]
#[must_use = "nothing is inserted before it is executed"]
pub struct Insert<A: ActiveModelTrait> {
    inner: sea_orm::Insert<A>,
}

/// An insert of many rows: SeaORM's [`sea_orm::InsertMany`], captured. One event per row, in the order of the models.
#[derive(Debug)]
#[must_use = "nothing is inserted before it is executed"]
pub struct InsertMany<A: ActiveModelTrait> {
    inner: sea_orm::InsertMany<A>,
    is_empty: bool,
}

/// An insert that may insert nothing: SeaORM's [`sea_orm::TryInsert`], captured. Rows that are skipped make no event.
#[derive(Debug)]
#[must_use = "nothing is inserted before it is executed"]
pub struct TryInsert<A: ActiveModelTrait> {
    inner: sea_orm::TryInsert<A>,
    is_empty: bool,
}

query_trait!(Insert<A: ActiveModelTrait>, InsertStatement);
query_trait!(InsertMany<A: ActiveModelTrait>, InsertStatement);
query_trait!(TryInsert<A: ActiveModelTrait>, InsertStatement);

/// An `exec` of SeaORM's, on a connection that captures.
macro_rules! exec {
    ($(#[$attribute:meta])* $name:ident as $inner:ident -> $answer:ty) => {
        $(#[$attribute])*
        pub fn $name<'a, C>(self, db: &'a C) -> BoxFuture<'a, Result<$answer, DbErr>>
        where
            C: ConnectionTrait,
            A: 'a,
        {
            Box::pin(async move {
                let capturing = Capturing::new(Conn::new(db), any::<A::Entity>(), Want::InsertId);
                self.inner.$inner(&capturing).await
            })
        }
    };
}

/// What both kinds of insert can be told of conflicts.
macro_rules! conflicts {
    ($is_empty:expr) => {
        /// What happens to a row that is there already. Those that are updated make events of updates.
        pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
            self.inner = self.inner.on_conflict(on_conflict);
            self
        }

        /// Leaves a row alone that has one of these values already.
        pub fn on_conflict_do_nothing_on<I>(self, columns: I) -> TryInsert<A>
        where
            I: IntoIterator<Item = ColumnOf<A>>,
        {
            TryInsert {
                is_empty: $is_empty(&self),
                inner: self.inner.on_conflict_do_nothing_on(columns),
            }
        }

        /// Leaves a row alone that has its primary key already.
        pub fn on_conflict_do_nothing(self) -> TryInsert<A> {
            TryInsert {
                is_empty: $is_empty(&self),
                inner: self.inner.on_conflict_do_nothing(),
            }
        }

        /// Answers, instead of failing, when nothing is inserted.
        pub fn try_insert(self) -> TryInsert<A> {
            TryInsert {
                is_empty: $is_empty(&self),
                inner: self.inner.try_insert(),
            }
        }

        /// As SeaORM's.
        #[deprecated(note = "use `try_insert` or the `on_conflict_do_nothing*` methods, as in SeaORM")]
        pub fn do_nothing(self) -> TryInsert<A> {
            self.try_insert()
        }

        /// As SeaORM's.
        #[deprecated(note = "use `try_insert` or the `on_conflict_do_nothing*` methods, as in SeaORM")]
        pub fn on_empty_do_nothing(self) -> TryInsert<A> {
            self.try_insert()
        }
    };
}

impl<A> Insert<A>
where
    A: ActiveModelTrait + Send,
    A::Entity: CapturedEntity,
{
    /// An insert of this model.
    pub fn one<M: IntoActiveModel<A>>(model: M) -> Self {
        Self {
            inner: sea_orm::Insert::one(model),
        }
    }

    conflicts!(|_: &Self| false);

    exec! {
        /// Inserts the row and answers its key.
        exec as exec -> InsertResult<A>
    }

    /// Inserts the row and answers how many there were.
    pub fn exec_without_returning<'a, C>(self, db: &'a C) -> BoxFuture<'a, Result<u64, DbErr>>
    where
        C: ConnectionTrait,
        A: 'a,
    {
        let statement = self.inner.as_query().clone();
        Box::pin(async move {
            match count::<A::Entity>(Conn::new(db), Write::Insert(statement)).await? {
                Some(affected) => Ok(affected),
                None => self.inner.exec_without_returning(db).await,
            }
        })
    }
}

impl<A> Insert<A>
where
    A: ActiveModelTrait + Send,
    A::Entity: CapturedEntity,
    ModelOf<A>: IntoActiveModel<A>,
{
    exec! {
        /// Inserts the row and answers it as it is stored.
        exec_with_returning as exec_with_returning -> ModelOf<A>
    }
    exec! {
        /// Inserts the row and answers its key, where the database gives rows back.
        exec_with_returning_keys as exec_with_returning_keys -> Vec<KeyOf<A>>
    }
    exec! {
        /// Inserts the row and answers it, where the database gives rows back.
        exec_with_returning_many as exec_with_returning_many -> Vec<ModelOf<A>>
    }
}

impl<A> InsertMany<A>
where
    A: ActiveModelTrait + Send,
    A::Entity: CapturedEntity,
{
    /// An insert of these models.
    pub fn many<M, I>(models: I) -> Self
    where
        M: IntoActiveModel<A>,
        I: IntoIterator<Item = M>,
    {
        let mut models = models.into_iter().peekable();
        Self {
            is_empty: models.peek().is_none(),
            inner: sea_orm::Insert::many(models),
        }
    }

    conflicts!(|this: &Self| this.is_empty);

    exec! {
        /// Inserts the rows and answers the key of the last. Of no models, nothing is run.
        exec as exec -> InsertManyResult<A>
    }

    /// Inserts the rows and answers how many there were. Of no models, nothing is run.
    pub fn exec_without_returning<'a, C>(self, db: &'a C) -> BoxFuture<'a, Result<u64, DbErr>>
    where
        C: ConnectionTrait,
        A: 'a,
    {
        let statement = self.inner.as_query().clone();
        Box::pin(async move {
            if self.is_empty {
                return Ok(0);
            }
            match count::<A::Entity>(Conn::new(db), Write::Insert(statement)).await? {
                Some(affected) => Ok(affected),
                None => self.inner.exec_without_returning(db).await,
            }
        })
    }
}

impl<A> InsertMany<A>
where
    A: ActiveModelTrait + Send,
    A::Entity: CapturedEntity,
    ModelOf<A>: IntoActiveModel<A>,
{
    exec! {
        /// Inserts the rows and answers them, where the database gives rows back.
        exec_with_returning as exec_with_returning -> Vec<ModelOf<A>>
    }
    exec! {
        /// As SeaORM's.
        #[deprecated(note = "use `exec_with_returning`, as in SeaORM")]
        exec_with_returning_many as exec_with_returning -> Vec<ModelOf<A>>
    }
    exec! {
        /// Inserts the rows and answers their keys, where the database gives rows back.
        exec_with_returning_keys as exec_with_returning_keys -> Vec<KeyOf<A>>
    }
}

impl<A> TryInsert<A>
where
    A: ActiveModelTrait + Send,
    A::Entity: CapturedEntity,
{
    /// An insert of this model.
    pub fn one<M: IntoActiveModel<A>>(model: M) -> Self {
        Insert::one(model).try_insert()
    }

    /// An insert of these models.
    pub fn many<M, I>(models: I) -> Self
    where
        M: IntoActiveModel<A>,
        I: IntoIterator<Item = M>,
    {
        InsertMany::many(models).try_insert()
    }

    /// What happens to a row that is there already. Those that are updated make events of updates.
    pub fn on_conflict(self, on_conflict: OnConflict) -> Insert<A> {
        Insert {
            inner: self.inner.on_conflict(on_conflict),
        }
    }

    /// Leaves a row alone that has its primary key already.
    pub fn on_conflict_do_nothing(mut self) -> Self {
        self.inner = self.inner.on_conflict_do_nothing();
        self
    }

    /// Leaves a row alone that has one of these values already.
    pub fn on_conflict_do_nothing_on<I>(mut self, columns: I) -> Self
    where
        I: IntoIterator<Item = ColumnOf<A>>,
    {
        self.inner = self.inner.on_conflict_do_nothing_on(columns);
        self
    }

    exec! {
        /// Inserts what is not there and answers the key.
        exec as exec -> TryInsertResult<InsertResult<A>>
    }

    /// Inserts what is not there and answers how many there were.
    pub fn exec_without_returning<'a, C>(
        self,
        db: &'a C,
    ) -> BoxFuture<'a, Result<TryInsertResult<u64>, DbErr>>
    where
        C: ConnectionTrait,
        A: 'a,
    {
        let statement = self.inner.as_query().clone();
        Box::pin(async move {
            if self.is_empty {
                return Ok(TryInsertResult::Empty);
            }
            match count::<A::Entity>(Conn::new(db), Write::Insert(statement)).await? {
                Some(affected) => Ok(TryInsertResult::Inserted(affected)),
                None => self.inner.exec_without_returning(db).await,
            }
        })
    }
}

impl<A> TryInsert<A>
where
    A: ActiveModelTrait + Send,
    A::Entity: CapturedEntity,
    ModelOf<A>: IntoActiveModel<A>,
{
    exec! {
        /// Inserts what is not there and answers it.
        exec_with_returning as exec_with_returning -> TryInsertResult<ModelOf<A>>
    }
    exec! {
        /// Inserts what is not there and answers the keys, where the database gives rows back.
        exec_with_returning_keys as exec_with_returning_keys -> TryInsertResult<Vec<KeyOf<A>>>
    }
    exec! {
        /// Inserts what is not there and answers the rows, where the database gives rows back.
        exec_with_returning_many as exec_with_returning_many -> TryInsertResult<Vec<ModelOf<A>>>
    }
}
