//! The detector of writes on captured tables that nothing captured: a test tool.
//!
//! Invariant: a statement that a captured write runs is never reported, and any other that writes a captured table is, if SeaORM tells
//! of it. Which is which is told by `connection/mark` and [`expected`], which tables a statement writes by [`written`]; tested in
//! `tests/it/capture/bypass.rs`.

mod expected;
mod tokens;
mod written;

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use sea_orm::DatabaseConnection;
use sea_orm::metric::Info;

use super::declaration::Operations;
use super::registry::{self, TableName};
use crate::connection::mark;

use expected::Watching;
pub(crate) use expected::{expect_delete, expect_insert, expect_no_more};
use written::{WrittenTable, written_tables};

/// Finds statements that change captured tables without being captured: raw SQL, and SeaORM's own `Insert::one`, `Update::many` and the
/// like on a plain connection.
///
/// A tool for tests, and for a look at a running service; it prevents nothing. Each write it finds is kept for
/// [`found`](Self::found), and logged once as `hare.bypass_found`.
///
/// ```
/// # use hare_seaorm::ChangeCapture;
/// # use hare_seaorm_migration::migrations;
/// # use sea_orm_migration::prelude::{MigrationTrait, MigratorTrait};
/// # mod loan {
/// #     use hare_seaorm::ChangeCapture;
/// #     use sea_orm::entity::prelude::*;
/// #     #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
/// #     #[sea_orm(table_name = "loan")]
/// #     #[hare(capture(app = "library"))]
/// #     pub struct Model {
/// #         #[sea_orm(primary_key)]
/// #         pub id: i32,
/// #         pub status: String,
/// #     }
/// #     #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
/// #     pub enum Relation {}
/// # }
/// # struct Migrator;
/// # impl MigratorTrait for Migrator {
/// #     fn migrations() -> Vec<Box<dyn MigrationTrait>> { migrations() }
/// # }
/// use hare_seaorm::capture::BypassDetector;
/// use sea_orm::{ConnectionTrait, Database, Schema, Set, Statement};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let options = sea_orm::ConnectOptions::new("sqlite::memory:").max_connections(1).to_owned();
/// let mut db = Database::connect(options).await?;
/// # Migrator::up(&db, None).await?;
/// # db.execute(&Schema::new(db.get_database_backend()).create_table_from_entity(loan::Entity)).await?;
/// let detector = BypassDetector::new();
/// detector.install(&mut db); // before the connection is cloned
///
/// loan::ActiveModel { status: Set("open".to_owned()), ..Default::default() }.insert(&db).await?;
/// detector.assert_none();
///
/// let sql = "UPDATE loan SET status = 'lost'";
/// db.execute_raw(Statement::from_string(db.get_database_backend(), sql)).await?;
/// assert_eq!(detector.found()[0].sql, "UPDATE loan SET status = ?");
/// # Ok(())
/// # }
/// ```
///
/// # What it cannot see
/// It knows what SeaORM's metric callback tells: not `execute_unprepared`, another process, what a trigger, a procedure or a cascade
/// does inside the database, or a connection that was cloned before the detector was installed, or that is a mock. A view is not the
/// table behind it.
///
/// It reads the table from the statement's text. A table of the same name in another schema is taken for the captured one where the
/// entity or the statement names no schema. An operation that a declaration leaves out is no bypass, unless another entity is
/// declared on the same table. A statement that failed is one: what is wrong is that it was run.
///
/// A generic write whose future is dropped between SeaORM's hook and its statement leaves that statement, values and all, allowed once
/// to its task.
#[derive(Clone, Default)]
pub struct BypassDetector {
    found: Arc<Mutex<Vec<Bypass>>>,
    and_then: Option<Callback>,
}

type Callback = Arc<dyn Fn(&Info<'_>) + Send + Sync>;

impl fmt::Debug for BypassDetector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BypassDetector")
            .field("found", &*self.lock())
            .finish_non_exhaustive()
    }
}

/// A statement that changed a captured table and was not captured.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bypass {
    /// The table, as its entity names it.
    pub table: String,
    /// The labels of the entities that it would have had events of: `library.Loan`.
    pub entities: Vec<String>,
    /// What the statement is.
    pub kind: BypassKind,
    /// Its text, without parameters, literals and comments, at most about 1,000 bytes.
    pub sql: String,
    /// How often it was run.
    pub times: usize,
}

impl fmt::Display for Bypass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            table,
            entities,
            kind,
            sql,
            times,
        } = self;
        write!(
            f,
            "{kind} on `{table}` ({}), {times} times: {sql}",
            entities.join(", ")
        )
    }
}

/// What a statement is that changes a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BypassKind {
    /// `INSERT`, upserts among them, and what loads a file.
    Insert,
    /// `UPDATE`.
    Update,
    /// `DELETE`.
    Delete,
    /// `REPLACE` and `INSERT OR REPLACE`.
    Replace,
    /// `TRUNCATE`.
    Truncate,
    /// `MERGE`.
    Merge,
}

impl BypassKind {
    /// `INSERT`, as SQL says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Replace => "REPLACE",
            Self::Truncate => "TRUNCATE",
            Self::Merge => "MERGE",
        }
    }
}

impl fmt::Display for BypassKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The most different statements that are kept.
const MOST: usize = 1_000;

impl BypassDetector {
    /// One that watches nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls a metric callback of your own after each statement, too: a connection has only one.
    ///
    /// ```
    /// # fn measure(_elapsed: std::time::Duration) {}
    /// # fn set_up(db: &mut sea_orm::DatabaseConnection) {
    /// let detector = hare_seaorm::capture::BypassDetector::new().and_then(|info| measure(info.elapsed));
    /// detector.install(db);
    /// # }
    /// ```
    #[must_use]
    pub fn and_then(mut self, callback: impl Fn(&Info<'_>) + Send + Sync + 'static) -> Self {
        self.and_then = Some(match self.and_then.take() {
            None => Arc::new(callback),
            Some(first) => Arc::new(move |info| {
                first(info);
                callback(info);
            }),
        });
        self
    }

    /// Watches a pool, in place of the metric callback it had. Do this before the pool is cloned: SeaORM gives each clone a callback of
    /// its own.
    pub fn install(&self, db: &mut DatabaseConnection) {
        db.set_metric_callback(self.callback());
    }

    /// What is to be given to [`DatabaseConnection::set_metric_callback`].
    pub fn callback(&self) -> impl Fn(&Info<'_>) + Send + Sync + 'static {
        let detector = self.clone();
        let watching = Watching::begin();
        move |info| {
            let _ = &watching;
            detector.look_at(info);
            if let Some(and_then) = &detector.and_then {
                and_then(info);
            }
        }
    }

    /// What was found so far: each statement once, in the order in which they were first run; at most 1,000 different ones.
    pub fn found(&self) -> Vec<Bypass> {
        self.lock().clone()
    }

    /// What was found since the last time, which is then forgotten.
    pub fn take(&self) -> Vec<Bypass> {
        std::mem::take(&mut *self.lock())
    }

    /// For a test's end.
    ///
    /// # Panics
    /// If something was found, with all of it.
    #[track_caller]
    pub fn assert_none(&self) {
        let found: Vec<String> = self.lock().iter().map(Bypass::to_string).collect();
        assert!(
            found.is_empty(),
            "captured tables were changed without an event:\n{}",
            found.join("\n")
        );
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Bypass>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_at(&self, info: &Info<'_>) {
        if mark::is_ours() {
            return;
        }
        let statement = info.statement;
        for written in written_tables(&statement.sql, statement.db_backend) {
            let ignores_case = statement.db_backend != sea_orm::DbBackend::Postgres;
            let Some((table, entities)) = captured(&written, ignores_case) else {
                continue;
            };
            if expected::has_come(statement, info.failed) {
                return;
            }
            self.add(Bypass {
                table,
                entities,
                kind: written.kind,
                sql: tokens::without_values(&statement.sql, statement.db_backend),
                times: 1,
            });
        }
    }

    fn add(&self, bypass: Bypass) {
        let mut found = self.lock();
        let is_same = |known: &&mut Bypass| {
            (&known.table, known.kind, &known.sql) == (&bypass.table, bypass.kind, &bypass.sql)
        };
        if let Some(known) = found.iter_mut().find(is_same) {
            known.times += 1;
            return;
        }
        if found.len() >= MOST {
            return;
        }
        let Bypass {
            table,
            entities,
            kind,
            sql,
            ..
        } = &bypass;
        tracing::warn!(name: "hare.bypass_found", %table, ?entities, %kind, %sql, "a captured table was changed without an event");
        found.push(bypass);
    }
}

/// The captured entities by their tables.
struct CapturedTable {
    name: TableName,
    entities: Vec<(String, Operations)>,
}

static TABLES: LazyLock<Vec<CapturedTable>> = LazyLock::new(|| {
    let mut tables: Vec<CapturedTable> = Vec::new();
    for captured in registry::all() {
        let (name, entity) = (captured.table(), (captured.label(), captured.operations()));
        match tables.iter_mut().find(|table| table.name == name) {
            Some(table) => table.entities.push(entity),
            None => tables.push(CapturedTable {
                name,
                entities: vec![entity],
            }),
        }
    }
    tables
});

/// The captured table that is written, and the labels of those entities that capture what is done to it.
fn captured(written: &WrittenTable, ignores_case: bool) -> Option<(String, Vec<String>)> {
    let same = |one: &str, other: &str| one == other || ignores_case && one.eq_ignore_ascii_case(other);
    let mut of_name = TABLES
        .iter()
        .filter(|table| same(&table.name.table, &written.table));
    let same_schema = |table: &&CapturedTable| match (&table.name.schema, &written.schema) {
        (None, None) => true,
        (Some(one), Some(other)) => same(one, other),
        _ => false,
    };
    // Where one of the two names no schema, nobody but the database knows.
    let may_be = |table: &&CapturedTable| table.name.schema.is_none() || written.schema.is_none();
    let table = of_name
        .clone()
        .find(same_schema)
        .or_else(|| of_name.find(may_be))?;
    let Operations {
        insert,
        update,
        delete,
    } = written.operations;
    let captures = |of: Operations| insert && of.insert || update && of.update || delete && of.delete;
    let entities = table
        .entities
        .iter()
        .filter(|(_, operations)| captures(*operations));
    let mut labels: Vec<String> = entities.map(|(label, _)| label.clone()).collect();
    labels.sort();
    labels.dedup();
    (!labels.is_empty()).then(|| (table.name.to_string(), labels))
}
