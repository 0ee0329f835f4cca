//! A captured update of one row by its primary key.

use sea_orm::sea_query::UpdateStatement;
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DbErr, EntityTrait, FromQueryResult, PrimaryKeyToColumn, QueryTrait,
    UpdateResult, ValidatedUpdateOne,
};

use super::{LockFor, Target, locked_row, returning_row};
use crate::capture::declaration::{CapturedEntity, Operation, Payload};
use crate::capture::engine::{Written, write_events};
use crate::capture::envelope::Change;
use crate::connection::Conn;

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
        let events = write_events(conn, &[self.change::<E>(before.as_ref(), Some(&after))]);
        Ok(Written {
            signalled: events.await?,
            value: after,
        })
    }

    /// Updates the row and writes its event; reads the row back only if the event holds it.
    pub(crate) async fn run_without_returning<E: CapturedEntity>(
        self,
        conn: Conn<'_>,
    ) -> Result<Written<UpdateResult>, DbErr> {
        let before = self.before::<E>(conn).await?;
        let after = match E::declaration().payload {
            Payload::Keys => {
                self.write(conn).await?;
                None
            }
            Payload::After | Payload::BeforeAndAfter => Some(self.write_and_read::<E>(conn).await?),
        };
        let events = write_events(conn, &[self.change::<E>(before.as_ref(), after.as_ref())]);
        let mut result = UpdateResult::default();
        result.rows_affected = 1;
        Ok(Written {
            signalled: events.await?,
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

    async fn write(&self, conn: Conn<'_>) -> Result<(), DbErr> {
        match conn.execute(&self.statement).await?.rows_affected() {
            0 => Err(DbErr::RecordNotUpdated),
            _ => Ok(()),
        }
    }

    /// The row as the update left it: given back by the update itself, or read again.
    ///
    /// Where it is read again the read locks: an update to the value that was there changes no row in InnoDB, so a plain read
    /// would still see the transaction's snapshot and not what others have committed since.
    async fn write_and_read<E: CapturedEntity>(&self, conn: Conn<'_>) -> Result<E::Model, DbErr> {
        if conn.returns_rows() {
            let mut statement = self.statement.clone();
            statement.returning(returning_row::<E>(conn.backend()));
            let row = conn.query_one(&statement).await?.ok_or(DbErr::RecordNotUpdated)?;
            return E::Model::from_query_result(&row, "");
        }
        self.write(conn).await?;
        locked_row::<E>(conn, &self.target, LockFor::Update)
            .await?
            .ok_or_else(|| DbErr::RecordNotFound("Failed to find updated item".to_owned()))
    }

    fn change<'m, E: CapturedEntity>(
        &self,
        before: Option<&'m E::Model>,
        after: Option<&'m E::Model>,
    ) -> Change<'m, E> {
        Change {
            operation: Operation::Update,
            key: self.target.key.clone(),
            changed: Some(self.changed.clone()),
            before,
            after,
        }
    }
}
