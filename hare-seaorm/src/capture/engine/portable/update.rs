//! A captured update of one row by its primary key.

use sea_orm::sea_query::{ReturningClause, UpdateStatement};
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DbErr, EntityTrait, FromQueryResult, PrimaryKeyToColumn, QueryResult,
    QueryTrait, UpdateResult, ValidatedUpdateOne, Value,
};

use super::{LockFor, Target, key_in, locked_key, locked_row, returning_key, returning_row};
use crate::capture::declaration::{CapturedEntity, Operation, Payload};
use crate::capture::engine::{events_of, write_events};
use crate::capture::envelope::{Change, key_of};
use crate::connection::Conn;
use crate::transaction::Written;

/// An update with what its event needs of the active model.
#[derive(Debug)]
pub(crate) struct Update {
    statement: UpdateStatement,
    target: Target,
    /// The columns that the caller set, by their fields' names.
    changed: Vec<&'static str>,
}

impl Update {
    pub(crate) fn of<A>(active_model: &A, update: ValidatedUpdateOne<A>) -> Result<Self, DbErr>
    where
        A: ActiveModelTrait,
        A::Entity: CapturedEntity,
    {
        let is_named = |column| {
            <A::Entity as EntityTrait>::PrimaryKey::from_column(column).is_none()
                && active_model.get(column).is_set()
        };
        let stored = A::Entity::declaration().stored.iter();
        Ok(Self {
            statement: update.into_query(),
            target: Target::of(active_model).ok_or(DbErr::UpdateGetPrimaryKey)?,
            changed: stored
                .filter(|(_, column)| is_named(*column))
                .map(|(field, _)| *field)
                .collect(),
        })
    }

    /// Updates the row, gives it back as it is stored, and writes its event.
    pub(crate) async fn run<E: CapturedEntity>(self, conn: Conn<'_>) -> Result<Written<E::Model>, DbErr> {
        let before = self.before::<E>(conn).await?;
        let after = self.write_and_read::<E>(conn).await?;
        let change = self.change::<E>(key_of(&after), before.as_ref(), Some(&after));
        let events = events_of(&[change]);
        Ok(Written {
            signalled: write_events::<E>(conn, events).await?,
            value: after,
        })
    }

    /// Updates the row and writes its event; reads the row back only if the event holds it.
    pub(crate) async fn run_without_returning<E: CapturedEntity>(
        self,
        conn: Conn<'_>,
    ) -> Result<Written<UpdateResult>, DbErr> {
        let before = self.before::<E>(conn).await?;
        let events = match E::declaration().payload {
            Payload::Keys => {
                let key = self.write_and_read_key::<E>(conn).await?;
                events_of(&[self.change::<E>(key, None, None)])
            }
            Payload::After | Payload::BeforeAndAfter => {
                let after = self.write_and_read::<E>(conn).await?;
                events_of(&[self.change::<E>(key_of(&after), before.as_ref(), Some(&after))])
            }
        };
        let mut result = UpdateResult::default();
        result.rows_affected = 1;
        Ok(Written {
            signalled: write_events::<E>(conn, events).await?,
            value: result,
        })
    }

    /// The row as it is, if the event holds it. Locked, so that it is still the row that the update meets.
    async fn before<E: CapturedEntity>(&self, conn: Conn<'_>) -> Result<Option<E::Model>, DbErr> {
        match E::declaration().payload {
            Payload::BeforeAndAfter => locked_row::<E>(conn, &self.target, LockFor::Update).await,
            Payload::Keys | Payload::After => Ok(None),
        }
    }

    /// The row as the update left it: given back by the update itself, or read again.
    ///
    /// Where it is read again the read locks: an update to the value that was there changes no row in InnoDB, so a plain read
    /// would still see the transaction's snapshot and not what others have committed since.
    async fn write_and_read<E: CapturedEntity>(&self, conn: Conn<'_>) -> Result<E::Model, DbErr> {
        if conn.returns_rows() {
            let row = self
                .write_returning(conn, returning_row::<E>(conn.backend()))
                .await?;
            return E::Model::from_query_result(&row, "");
        }
        self.write(conn).await?;
        let row = locked_row::<E>(conn, &self.target, LockFor::Update).await?;
        row.ok_or_else(not_found)
    }

    async fn write_and_read_key<E: CapturedEntity>(&self, conn: Conn<'_>) -> Result<Vec<Value>, DbErr> {
        if conn.returns_rows() {
            let row = self
                .write_returning(conn, returning_key::<E>(conn.backend()))
                .await?;
            return key_in::<E>(&row);
        }
        self.write(conn).await?;
        let key = locked_key::<E>(conn, &self.target, LockFor::Update).await?;
        key.ok_or_else(not_found)
    }

    async fn write(&self, conn: Conn<'_>) -> Result<(), DbErr> {
        match conn.execute(&self.statement).await?.rows_affected() {
            0 => Err(DbErr::RecordNotUpdated),
            _ => Ok(()),
        }
    }

    async fn write_returning(
        &self,
        conn: Conn<'_>,
        returning: ReturningClause,
    ) -> Result<QueryResult, DbErr> {
        let mut statement = self.statement.clone();
        statement.returning(returning);
        conn.query_one(&statement).await?.ok_or(DbErr::RecordNotUpdated)
    }

    fn change<'m, E: CapturedEntity>(
        &self,
        key: Vec<Value>,
        before: Option<&'m E::Model>,
        after: Option<&'m E::Model>,
    ) -> Change<'m, E> {
        Change {
            operation: Operation::Update,
            key,
            changed: Some(self.changed.clone()),
            before,
            after,
        }
    }
}

/// As SeaORM says it.
fn not_found() -> DbErr {
    DbErr::RecordNotFound("Failed to find updated item".to_owned())
}
