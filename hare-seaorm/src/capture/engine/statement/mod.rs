//! Captured statements, over any number of rows: what a builder or a capturing connection runs.
//!
//! A statement that gives its rows back does so here too, and there is nothing to read before it; where before-images are wanted,
//! or the database gives no rows back, the rows are locked and read first, and exactly those are written.
//!
//! Invariant: an event tells of exactly the rows that the statement wrote, as they were and as they are. Memory is bounded: a
//! statement over more rows than a chunk locks their keys first, and writes them chunk by chunk.

pub(crate) mod anatomy;
mod capturing;
mod delete;
mod insert;
mod keys;
mod update;
mod upsert;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sea_orm::sea_query::{DeleteStatement, InsertStatement, UpdateStatement};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, ExecResult, QueryResult, Statement};

use self::anatomy::Inserted;
pub(crate) use self::capturing::Capturing;
use super::{Route, route};
use crate::capture::declaration::{CapturedEntity, Operation};
use crate::connection::{Conn, DataStatement};
use crate::error::Error;
use crate::transaction::{Written, atomic};

/// A statement that writes.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    Insert(InsertStatement),
    Update(UpdateStatement),
    Delete(DeleteStatement),
}

impl Write {
    /// The statement, if it writes.
    pub(crate) fn of(statement: DataStatement<'_>) -> Option<Self> {
        match statement {
            DataStatement::Insert(insert) => Some(Self::Insert(insert.clone())),
            DataStatement::Update(update) => Some(Self::Update(update.clone())),
            DataStatement::Delete(delete) => Some(Self::Delete(delete.clone())),
            DataStatement::Select(_) | DataStatement::With(_) => None,
        }
    }
}

/// What its caller wants of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// How many rows there were.
    Count,
    /// The database's own result of one statement over all of them.
    Result,
    /// The database's own result, as far as it tells the key of an inserted row.
    InsertId,
    /// The rows: all their columns, in the form that the entity's model reads.
    Rows,
}

impl Want {
    /// Whether the result has to come from a statement that gives no rows back.
    fn is_result(self) -> bool {
        matches!(self, Self::Result | Self::InsertId)
    }
}

/// What it gave.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) rows: Vec<QueryResult>,
    pub(crate) affected: u64,
    /// The database's own result. On PostgreSQL, where the rows are given back instead, it is asked for afterwards.
    pub(crate) result: Option<ExecResult>,
}

impl Outcome {
    fn of_rows(rows: Vec<QueryResult>, want: Want) -> Self {
        Self {
            affected: rows.len() as u64,
            rows: match want {
                Want::Rows => rows,
                Want::Count | Want::Result | Want::InsertId => Vec::new(),
            },
            result: None,
        }
    }

    /// As SeaORM's own result, which only the database can make.
    async fn into_result(self, conn: Conn<'_>) -> Result<ExecResult, DbErr> {
        if let Some(result) = self.result {
            return Ok(result);
        }
        // PostgreSQL counts the rows of a SELECT as it does those of an UPDATE.
        let count = format!("SELECT FROM generate_series(1, {})", self.affected);
        conn.execute_raw(Statement::from_string(conn.backend(), count))
            .await
    }
}

/// Whether the caller gets the result of the one statement that wrote the rows.
fn answers_with_its_result(conn: Conn<'_>, want: Want) -> bool {
    want.is_result() && !gives_rows(conn, want)
}

/// Whether a statement gives back the rows that it wrote.
fn gives_rows(conn: Conn<'_>, want: Want) -> bool {
    match conn.backend() {
        DbBackend::Postgres => true,
        // Its own result, then, would not be had.
        DbBackend::Sqlite => !want.is_result(),
        _ => false,
    }
}

/// How much a statement may touch before it has to go by keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    ByKeys,
}

/// That a statement touched more rows than can be held. It is undone and done again by keys.
#[derive(Debug, thiserror::Error)]
#[error("more rows than can be held at once")]
struct TooMany;

impl From<TooMany> for DbErr {
    fn from(too_many: TooMany) -> Self {
        DbErr::TryIntoErr {
            from: "a statement",
            into: "chunks",
            source: Arc::new(too_many),
        }
    }
}

impl TooMany {
    fn is(error: &DbErr) -> bool {
        matches!(error, DbErr::TryIntoErr { source, .. } if source.is::<Self>())
    }
}

/// Whether a statement on this entity makes events.
pub(crate) fn is_captured<E: CapturedEntity>(conn: Conn<'_>, write: &Write) -> Result<bool, Error> {
    let operation = match write {
        Write::Insert(_) => Operation::Insert,
        Write::Update(_) => Operation::Update,
        Write::Delete(_) => Operation::Delete,
    };
    if route::<E>(conn, operation)? == Route::Captured {
        return Ok(true);
    }
    Ok(match write {
        Write::Insert(statement) => {
            route::<E>(conn, Operation::Update)? == Route::Captured
                && Inserted::of(statement, conn.backend()).is_none_or(|inserted| inserted.may_update())
        }
        Write::Update(_) | Write::Delete(_) => false,
    })
}

/// Runs a captured statement on this entity and tells how many rows it wrote; `None` if it is not captured here.
pub(crate) async fn count<E: CapturedEntity>(conn: Conn<'_>, write: Write) -> Result<Option<u64>, DbErr> {
    if !is_captured::<E>(conn, &write)? {
        return Ok(None);
    }
    Ok(Some(run::<E>(conn, write, Want::Count).await?.affected))
}

/// Runs a statement on this entity, and writes its events.
///
/// # Errors
/// The statement's own; [`Error::Unsupported`] for one that cannot be told row by row: nothing of it is left.
pub(crate) fn run<E: CapturedEntity>(
    conn: Conn<'_>,
    write: Write,
    want: Want,
) -> BoxFuture<'_, Result<Outcome, DbErr>> {
    Box::pin(async move {
        let write = Arc::new(write);
        match atomic(conn, attempt::<E>(&write, want, Extent::Whole)).await {
            Err(error) if TooMany::is(&error) => {
                atomic(conn, attempt::<E>(&write, want, Extent::ByKeys)).await
            }
            outcome => outcome,
        }
    })
}

fn attempt<E: CapturedEntity>(
    write: &Arc<Write>,
    want: Want,
    extent: Extent,
) -> impl for<'c> FnOnce(Conn<'c>) -> BoxFuture<'c, Result<Written<Outcome>, DbErr>> + Send + 'static {
    let write = Arc::clone(write);
    move |conn| {
        Box::pin(async move {
            match &*write {
                Write::Insert(statement) => insert::run::<E>(conn, statement, want).await,
                Write::Update(statement) => update::run::<E>(conn, statement, want, extent).await,
                Write::Delete(statement) => delete::run::<E>(conn, statement, want, extent).await,
            }
        })
    }
}

/// That a statement is not one whose rows can be told.
fn not_understood<E: CapturedEntity>(what: &str) -> Error {
    Error::unsupported(
        format!("{what} of `{}`", E::declaration().label()),
        "which rows it writes cannot be read before it writes them; name them in its condition, or by their keys",
    )
}

/// That a statement over many rows met others than those that were locked.
fn others_came<E: CapturedEntity>(what: &str) -> Error {
    Error::Retryable {
        what: "a statement over many rows",
        reason: format!(
            "{what} of `{}` met other rows than those that were there before it; nothing of it is left, try it again",
            E::declaration().label()
        ),
        source: None,
    }
}
