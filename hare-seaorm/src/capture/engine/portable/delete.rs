//! A captured delete of one row by its primary key.

use sea_orm::sea_query::DeleteStatement;
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DbErr, DeleteResult, FromQueryResult, QueryTrait, ValidatedDeleteOne,
    Value,
};

use super::{LockFor, Target, key_in, locked_key, locked_row, returning_key, returning_row};
use crate::capture::declaration::{CapturedEntity, Payload};
use crate::capture::engine::{events_of, write_events};
use crate::capture::envelope::{Change, key_of};
use crate::connection::Conn;
use crate::transaction::Written;

/// A delete with what its event needs of the active model.
#[derive(Debug)]
pub(crate) struct Delete {
    statement: DeleteStatement,
    target: Target,
}

impl Delete {
    pub(crate) fn of<A: ActiveModelTrait>(
        active_model: &A,
        delete: ValidatedDeleteOne<A::Entity>,
    ) -> Result<Self, DbErr> {
        let target = Target::of(active_model).ok_or(DbErr::PrimaryKeyNotSet { ctx: "DeleteOne" })?;
        Ok(Self {
            statement: delete.into_query(),
            target,
        })
    }

    /// Deletes the row, with its event if there was one.
    pub(crate) async fn run<E: CapturedEntity>(
        mut self,
        conn: Conn<'_>,
    ) -> Result<Written<DeleteResult>, DbErr> {
        let keys_only = E::declaration().payload == Payload::Keys;
        let events = if keys_only {
            let key = self.delete_key::<E>(conn).await?;
            key.map(|key| events_of(&[Change::<E>::deleted(key, None)]))
        } else {
            let row = self.delete_row::<E>(conn).await?;
            row.map(|row| events_of(&[Change::<E>::deleted(key_of(&row), Some(&row))]))
        };
        let mut result = DeleteResult::empty();
        let Some(events) = events else {
            return Ok(Written::nothing(result));
        };
        result.rows_affected = 1;
        Ok(Written {
            signalled: write_events::<E>(conn, events).await?,
            value: result,
        })
    }

    /// Deletes the row and gives it back as it was.
    async fn delete_row<E: CapturedEntity>(&mut self, conn: Conn<'_>) -> Result<Option<E::Model>, DbErr> {
        if conn.returns_rows() {
            self.statement.returning(returning_row::<E>(conn.backend()));
            let row = conn.query_one(&self.statement).await?;
            return row.map(|row| E::Model::from_query_result(&row, "")).transpose();
        }
        let row = locked_row::<E>(conn, &self.target, LockFor::Delete).await?;
        if row.is_some() {
            conn.execute(&self.statement).await?;
        }
        Ok(row)
    }

    /// Deletes the row and gives back its stored key.
    async fn delete_key<E: CapturedEntity>(&mut self, conn: Conn<'_>) -> Result<Option<Vec<Value>>, DbErr> {
        if conn.returns_rows() {
            self.statement.returning(returning_key::<E>(conn.backend()));
            let row = conn.query_one(&self.statement).await?;
            return row.map(|row| key_in::<E>(&row)).transpose();
        }
        let key = locked_key::<E>(conn, &self.target, LockFor::Delete).await?;
        if key.is_some() {
            conn.execute(&self.statement).await?;
        }
        Ok(key)
    }
}
