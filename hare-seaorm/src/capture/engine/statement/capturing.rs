//! A connection that captures the statements of one entity: what SeaORM's own builders are run on.

use sea_orm::{ConnectionTrait, DbBackend, DbErr, ExecResult, QueryResult, Statement, StatementBuilder};

use super::{Want, Write};
use crate::capture::registry::AnyCaptured;
use crate::connection::{Conn, downcast_statement};
use crate::error::Error;

/// A connection on which every writing statement is one on this entity, and captured; others go through.
pub(crate) struct Capturing<'a> {
    conn: Conn<'a>,
    entity: &'static dyn AnyCaptured,
    /// What `execute` has to answer.
    result: Want,
}

impl<'a> Capturing<'a> {
    pub(crate) fn new(conn: Conn<'a>, entity: &'static dyn AnyCaptured, result: Want) -> Self {
        Self { conn, entity, result }
    }

    /// The statement, if it writes and is captured here.
    fn captured<S: StatementBuilder>(&self, statement: &S) -> Result<Option<Write>, Error> {
        let Some(write) = downcast_statement(statement).and_then(Write::of) else {
            return Ok(None);
        };
        Ok(self.entity.captures(self.conn, &write)?.then_some(write))
    }
}

#[async_trait::async_trait]
impl ConnectionTrait for Capturing<'_> {
    fn get_database_backend(&self) -> DbBackend {
        self.conn.backend()
    }
    fn support_returning(&self) -> bool {
        self.conn.returns_rows()
    }
    fn is_mock_connection(&self) -> bool {
        self.conn.is_mock()
    }
    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.conn.execute_raw(statement).await
    }
    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.conn.execute_unprepared(sql).await
    }
    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.conn.query_one_raw(statement).await
    }
    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.conn.query_all_raw(statement).await
    }
    async fn execute<S: StatementBuilder>(&self, statement: &S) -> Result<ExecResult, DbErr> {
        match self.captured(statement)? {
            Some(write) => {
                let outcome = self.entity.run(self.conn, write, self.result).await?;
                outcome.into_result(self.conn).await
            }
            None => self.conn.execute(statement).await,
        }
    }
    async fn query_one<S: StatementBuilder>(&self, statement: &S) -> Result<Option<QueryResult>, DbErr> {
        match self.captured(statement)? {
            Some(write) => {
                let outcome = self.entity.run(self.conn, write, Want::Rows).await?;
                Ok(outcome.rows.into_iter().next())
            }
            None => self.conn.query_one(statement).await,
        }
    }
    async fn query_all<S: StatementBuilder>(&self, statement: &S) -> Result<Vec<QueryResult>, DbErr> {
        match self.captured(statement)? {
            Some(write) => Ok(self.entity.run(self.conn, write, Want::Rows).await?.rows),
            None => self.conn.query_all(statement).await,
        }
    }
}
