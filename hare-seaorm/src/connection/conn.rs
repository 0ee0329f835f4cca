//! Any connection behind one object-safe view, so that the engine is compiled once and not once per connection type.

use futures_util::future::BoxFuture;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult, Statement,
    StatementBuilder,
};

use super::kind::{self, DataStatement, Kind, downcast_statement};
use crate::error::Error;
use crate::transaction::Held;

/// A borrowed connection of any type, with what kind it is.
///
/// Typed statements stay typed on their way through, because some connections (SeaORM's `RestrictedConnection`) refuse raw
/// ones.
#[derive(Clone, Copy)]
pub(crate) struct Conn<'a> {
    inner: &'a dyn DynConnection,
    kind: Kind<'a>,
    may_be_deferred: bool,
    /// How many captured writes it is inside of: their code was given it.
    depth: u8,
}

impl std::fmt::Debug for Conn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conn")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl<'a> Conn<'a> {
    pub(crate) fn new<C: ConnectionTrait>(connection: &'a C) -> Self {
        if let Some(conn) = kind::conn_in(connection) {
            return *conn;
        }
        let kind = kind::of(connection);
        Self {
            inner: match kind {
                // Also where SeaORM's transaction inside ours was given: its statements wait for their turn.
                Kind::Capturing(session) => session,
                _ => connection,
            },
            kind,
            may_be_deferred: matches!(kind, Kind::Transaction(_)),
            depth: 0,
        }
    }

    /// A session whose turn is held.
    pub(crate) fn held(held: &'a Held<'_>) -> Self {
        Self {
            inner: held,
            kind: Kind::Capturing(held.session()),
            may_be_deferred: false,
            depth: 0,
        }
    }

    /// A transaction of our own, which began as a writing one.
    pub(crate) fn own(transaction: &'a DatabaseTransaction) -> Self {
        Self {
            may_be_deferred: false,
            ..Self::new(transaction)
        }
    }

    /// For the code of a captured write that runs on it: what that writes is part of the write, which has the transaction to itself
    /// already.
    pub(crate) fn inside_a_write(self) -> Self {
        Self {
            may_be_deferred: false,
            depth: self.depth.saturating_add(1),
            ..self
        }
    }

    /// How many captured writes it is inside of.
    pub(crate) fn depth(&self) -> u8 {
        self.depth
    }

    /// Whether this may be a SQLite transaction that has not written yet, and may have to start anew to write.
    pub(crate) fn may_be_deferred(&self) -> bool {
        self.may_be_deferred && self.backend() == DbBackend::Sqlite
    }

    pub(crate) fn kind(&self) -> Kind<'a> {
        self.kind
    }

    pub(crate) fn backend(&self) -> DbBackend {
        self.inner.backend()
    }

    /// Whether an INSERT, UPDATE or DELETE can give its rows back.
    ///
    /// Never on the MySQL backend, whatever SeaORM's `mariadb-use-returning` says: sea-query renders no RETURNING there.
    pub(crate) fn returns_rows(&self) -> bool {
        self.backend() != DbBackend::MySql && self.inner.returning()
    }

    /// The rows that a statement gives back; `None` if they are more than `most`. The statement runs to its end in any case.
    ///
    /// Without the feature `stream`, and in a registered transaction type, they are all held meanwhile.
    pub(crate) async fn query_at_most(
        &self,
        statement: DataStatement<'_>,
        most: usize,
    ) -> Result<Option<Vec<QueryResult>>, DbErr> {
        #[cfg(feature = "stream")]
        if let Some(transaction) = self.streaming() {
            return stream_at_most(transaction, statement, most).await;
        }
        let rows = self.inner.query_all_data(statement).await?;
        Ok((rows.len() <= most).then_some(rows))
    }

    /// SeaORM's transaction that the statements go to, unless something stands in between.
    #[cfg(feature = "stream")]
    fn streaming(&self) -> Option<&'a DatabaseTransaction> {
        match self.kind {
            Kind::Transaction(plain) => plain.sea_orm,
            Kind::Capturing(session) => Some(session.sea_orm()),
            Kind::Pool(_) | Kind::Unknown(_) => None,
        }
    }

    /// Whether this is SeaORM's mock connection, on which capture is off.
    pub(crate) fn is_mock(&self) -> bool {
        match self.kind {
            Kind::Pool(pool) => pool.is_mock_connection(),
            Kind::Capturing(session) => session.is_mock(),
            _ => self.inner.mock(),
        }
    }
}

#[cfg(feature = "stream")]
async fn stream_at_most(
    transaction: &DatabaseTransaction,
    statement: DataStatement<'_>,
    most: usize,
) -> Result<Option<Vec<QueryResult>>, DbErr> {
    use futures_util::TryStreamExt;
    use sea_orm::StreamTrait;

    let mut stream = match statement {
        DataStatement::Insert(statement) => transaction.stream(statement),
        DataStatement::Update(statement) => transaction.stream(statement),
        DataStatement::Delete(statement) => transaction.stream(statement),
        DataStatement::Select(statement) => transaction.stream(statement),
        DataStatement::With(statement) => transaction.stream(statement),
    }
    .await?;
    let mut rows = Vec::new();
    let mut is_within = true;
    while let Some(row) = stream.try_next().await? {
        is_within &= rows.len() < most;
        if is_within {
            rows.push(row);
        } else {
            rows.clear();
        }
    }
    Ok(is_within.then_some(rows))
}

/// The error for a connection type that nobody registered.
pub(crate) fn unknown_connection(type_name: &str) -> Error {
    Error::unsupported(
        format!("the connection type `{type_name}`"),
        "whether it is a pool or a transaction decides how a captured write stays atomic; tell it once at start with \
         `hare_seaorm::connection::register`",
    )
}

/// [`ConnectionTrait`], object safe, with one entry per way of running a statement.
trait DynConnection: Sync {
    fn backend(&self) -> DbBackend;
    fn returning(&self) -> bool;
    fn mock(&self) -> bool;
    fn execute_data<'s>(&'s self, statement: DataStatement<'s>) -> BoxFuture<'s, Result<ExecResult, DbErr>>;
    fn query_one_data<'s>(
        &'s self,
        statement: DataStatement<'s>,
    ) -> BoxFuture<'s, Result<Option<QueryResult>, DbErr>>;
    fn query_all_data<'s>(
        &'s self,
        statement: DataStatement<'s>,
    ) -> BoxFuture<'s, Result<Vec<QueryResult>, DbErr>>;
    fn execute_statement<'s>(&'s self, statement: Statement) -> BoxFuture<'s, Result<ExecResult, DbErr>>;
    fn execute_text<'s>(&'s self, sql: &'s str) -> BoxFuture<'s, Result<ExecResult, DbErr>>;
    fn query_one_statement<'s>(
        &'s self,
        statement: Statement,
    ) -> BoxFuture<'s, Result<Option<QueryResult>, DbErr>>;
    fn query_all_statement<'s>(
        &'s self,
        statement: Statement,
    ) -> BoxFuture<'s, Result<Vec<QueryResult>, DbErr>>;
}

macro_rules! typed {
    ($connection:expr, $method:ident, $statement:expr) => {
        match $statement {
            DataStatement::Insert(statement) => $connection.$method(statement),
            DataStatement::Update(statement) => $connection.$method(statement),
            DataStatement::Delete(statement) => $connection.$method(statement),
            DataStatement::Select(statement) => $connection.$method(statement),
            DataStatement::With(statement) => $connection.$method(statement),
        }
    };
}

impl<C: ConnectionTrait> DynConnection for C {
    fn backend(&self) -> DbBackend {
        self.get_database_backend()
    }
    fn returning(&self) -> bool {
        self.support_returning()
    }
    fn mock(&self) -> bool {
        self.is_mock_connection()
    }
    fn execute_data<'s>(&'s self, statement: DataStatement<'s>) -> BoxFuture<'s, Result<ExecResult, DbErr>> {
        typed!(self, execute, statement)
    }
    fn query_one_data<'s>(
        &'s self,
        statement: DataStatement<'s>,
    ) -> BoxFuture<'s, Result<Option<QueryResult>, DbErr>> {
        typed!(self, query_one, statement)
    }
    fn query_all_data<'s>(
        &'s self,
        statement: DataStatement<'s>,
    ) -> BoxFuture<'s, Result<Vec<QueryResult>, DbErr>> {
        typed!(self, query_all, statement)
    }
    fn execute_statement<'s>(&'s self, statement: Statement) -> BoxFuture<'s, Result<ExecResult, DbErr>> {
        self.execute_raw(statement)
    }
    fn execute_text<'s>(&'s self, sql: &'s str) -> BoxFuture<'s, Result<ExecResult, DbErr>> {
        self.execute_unprepared(sql)
    }
    fn query_one_statement<'s>(
        &'s self,
        statement: Statement,
    ) -> BoxFuture<'s, Result<Option<QueryResult>, DbErr>> {
        self.query_one_raw(statement)
    }
    fn query_all_statement<'s>(
        &'s self,
        statement: Statement,
    ) -> BoxFuture<'s, Result<Vec<QueryResult>, DbErr>> {
        self.query_all_raw(statement)
    }
}

#[async_trait::async_trait]
impl ConnectionTrait for Conn<'_> {
    fn get_database_backend(&self) -> DbBackend {
        self.backend()
    }
    fn support_returning(&self) -> bool {
        self.returns_rows()
    }
    fn is_mock_connection(&self) -> bool {
        self.is_mock()
    }
    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.inner.execute_statement(statement).await
    }
    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.inner.execute_text(sql).await
    }
    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.inner.query_one_statement(statement).await
    }
    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.inner.query_all_statement(statement).await
    }
    async fn execute<S: StatementBuilder>(&self, statement: &S) -> Result<ExecResult, DbErr> {
        match downcast_statement(statement) {
            Some(data) => self.inner.execute_data(data).await,
            None => {
                self.inner
                    .execute_statement(self.backend().build(statement))
                    .await
            }
        }
    }
    async fn query_one<S: StatementBuilder>(&self, statement: &S) -> Result<Option<QueryResult>, DbErr> {
        match downcast_statement(statement) {
            Some(data) => self.inner.query_one_data(data).await,
            None => {
                self.inner
                    .query_one_statement(self.backend().build(statement))
                    .await
            }
        }
    }
    async fn query_all<S: StatementBuilder>(&self, statement: &S) -> Result<Vec<QueryResult>, DbErr> {
        match downcast_statement(statement) {
            Some(data) => self.inner.query_all_data(data).await,
            None => {
                self.inner
                    .query_all_statement(self.backend().build(statement))
                    .await
            }
        }
    }
}
