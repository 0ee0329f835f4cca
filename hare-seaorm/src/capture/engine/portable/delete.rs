//! A captured delete of one row by its primary key.

use sea_orm::sea_query::DeleteStatement;
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DbErr, DeleteResult, FromQueryResult, QueryTrait, ValidatedDeleteOne,
};

use super::{LockFor, Target, locked_row, returning_row};
use crate::capture::declaration::{CapturedEntity, Payload};
use crate::capture::engine::{Written, write_events};
use crate::capture::envelope::Change;
use crate::connection::Conn;

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
        let mut result = DeleteResult::empty();
        let mut before: Option<E::Model> = None;
        match E::declaration().payload {
            Payload::Keys => result.rows_affected = conn.execute(&self.statement).await?.rows_affected(),
            Payload::After | Payload::BeforeAndAfter if conn.returns_rows() => {
                self.statement.returning(returning_row::<E>(conn.backend()));
                if let Some(row) = conn.query_one(&self.statement).await? {
                    before = Some(E::Model::from_query_result(&row, "")?);
                    result.rows_affected = 1;
                }
            }
            Payload::After | Payload::BeforeAndAfter => {
                before = locked_row::<E>(conn, &self.target, LockFor::Delete).await?;
                result.rows_affected = conn.execute(&self.statement).await?.rows_affected();
            }
        }
        if result.rows_affected == 0 {
            return Ok(Written::nothing(result));
        }
        let events = write_events(conn, &[Change::<E>::deleted(self.target.key, before.as_ref())]);
        Ok(Written {
            signalled: events.await?,
            value: result,
        })
    }
}
