//! The check at start-up: whether the database is as the captured entities and their outboxes need it.
//!
//! A problem makes a captured write fail, or an event be lost or written twice; a warning does not. Nothing is written.

mod catalogue;

use std::fmt;

use sea_orm::{ConnectionTrait, DbBackend, DbErr};

use super::registry::{self, AnyCaptured, AnyOutbox, TableName};
use crate::connection::{Conn, check_driver};
use crate::error::{ConfigError, Error};
use crate::store::layout::{NeededIndex, needed_indexes};
use catalogue::Index;

/// What a check found, as sentences: what is wrong, and the way out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a report that nobody reads stops nothing: `into_result` does"]
pub struct Report {
    problems: Vec<String>,
    warnings: Vec<String>,
}

impl Report {
    /// What makes captured writes fail, or events be lost or written twice.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// What works, and is likely not what was meant.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// For the start of a program. Warnings are left out: look at them before.
    ///
    /// # Errors
    /// [`Error::Config`] with every problem, if there is one.
    pub fn into_result(self) -> Result<(), Error> {
        match ConfigError::all(self.problems) {
            Some(problems) => Err(problems.into()),
            None => Ok(()),
        }
    }
}

/// A line each, problems first; one line if there are none.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = self.problems.iter().map(|problem| format!("problem: {problem}"));
        let warnings = self.warnings.iter().map(|warning| format!("warning: {warning}"));
        let lines: Vec<String> = problems.chain(warnings).collect();
        if lines.is_empty() {
            return f.write_str("the database is as its captured entities need it");
        }
        f.write_str(&lines.join("\n"))
    }
}

/// Looks whether the database has what every captured entity of the program needs: its table and columns, its outbox with columns,
/// unique keys and indexes, a wakeup that fits. To be called at start, after the migrations and after
/// [`outbox::set_wakeup`](crate::outbox::set_wakeup).
///
/// An entity is known as soon as its crate is linked in. Where some of them live in another database, use [`check_only`].
///
/// ```
/// # async fn start(db: sea_orm::DatabaseConnection) -> Result<(), hare_seaorm::Error> {
/// let report = hare_seaorm::capture::check(&db).await?;
/// for warning in report.warnings() {
///     eprintln!("{warning}");
/// }
/// report.into_result()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Database`] if the catalogue could not be read. What is wrong in it is in the report.
/// # Cancel safety
/// It only reads.
pub async fn check<C: ConnectionTrait>(db: &C) -> Result<Report, Error> {
    check_only(db, |_| true).await
}

/// As [`check`], of those entities whose label (`library.Loan`) is wanted.
///
/// # Errors
/// As [`check`].
/// # Cancel safety
/// It only reads.
pub async fn check_only<C: ConnectionTrait>(
    db: &C,
    is_wanted: impl Fn(&str) -> bool + Send,
) -> Result<Report, Error> {
    let captured = registry::all()
        .map(Captured::of)
        .filter(|captured| is_wanted(&captured.label));
    let mut captured: Vec<Captured> = captured.collect();
    captured.sort_by(|one, other| (&one.label, &one.table).cmp(&(&other.label, &other.table)));
    let mut check = Check {
        conn: Conn::new(db),
        report: Report::default(),
    };
    let read = check.everything(&captured).await;
    read.map_err(|source| Error::database("reading the database's catalogue", source))?;
    Ok(check.report)
}

/// A captured entity with what is asked of it more than once.
struct Captured {
    entity: &'static dyn AnyCaptured,
    label: String,
    table: TableName,
    outbox: AnyOutbox,
}

impl Captured {
    fn of(entity: &'static dyn AnyCaptured) -> Self {
        Self {
            entity,
            label: entity.label(),
            table: entity.table(),
            outbox: entity.outbox(),
        }
    }
}

/// The ways to an outbox table that has everything.
const MIGRATE: &str =
    "run the migrations of `hare-seaorm-migration`, or for an outbox of your own one with its `OutboxTable`";

struct Check<'a> {
    conn: Conn<'a>,
    report: Report,
}

impl Check<'_> {
    async fn everything(&mut self, captured: &[Captured]) -> Result<(), DbErr> {
        if let Err(error) = check_driver(self.conn.backend()) {
            self.problem(error.to_string());
        }
        self.outboxes(captured).await?;
        for (position, one) in captured.iter().enumerate() {
            if let Some(refusal) = one.entity.refusal() {
                self.problem(format!("nothing is captured of `{}`: {refusal}", one.label));
            }
            if !captured[..position].iter().any(|other| other.table == one.table) {
                self.tables_of_several(captured, one);
            }
            self.captured_table(one).await?;
        }
        self.enforcement().await
    }

    fn problem(&mut self, problem: String) {
        // Of two entities that share everything.
        if !self.report.problems.contains(&problem) {
            self.report.problems.push(problem);
        }
    }

    async fn outboxes(&mut self, captured: &[Captured]) -> Result<(), DbErr> {
        for (position, one) in captured.iter().enumerate() {
            let is_same = |other: &&Captured| other.outbox.entity == one.outbox.entity;
            if captured[..position].iter().any(|other| is_same(&other)) {
                continue;
            }
            let mut labels: Vec<String> = captured
                .iter()
                .filter(is_same)
                .map(|other| quoted(&other.label))
                .collect();
            labels.dedup();
            self.outbox(&one.outbox, &labels.join(", ")).await?;
        }
        Ok(())
    }

    /// One outbox, with the entities that write to it.
    async fn outbox(&mut self, outbox: &AnyOutbox, writers: &str) -> Result<(), DbErr> {
        let AnyOutbox { table, wakeup, .. } = outbox;
        let backend = self.conn.backend();
        if let Some(wakeup) = wakeup
            && let Err(error) = wakeup.check(backend)
        {
            self.problem(format!(
                "the wakeup of the outbox `{table}` does not fit this database: {error}"
            ));
        }
        let columns = self.columns(table).await?;
        if columns.is_empty() {
            self.problem(format!(
                "the outbox table `{table}`, for the events of {writers}, is missing: {MIGRATE}"
            ));
            return Ok(());
        }
        let missing = self.missing(&columns, &outbox.columns);
        if !missing.is_empty() {
            self.problem(format!(
                "the outbox table `{table}` has no column {missing}: {MIGRATE}"
            ));
        }
        let indexes = catalogue::indexes(self.conn, table).await?;
        for needed in needed_indexes(backend, &outbox.conflict_columns) {
            if !indexes.iter().any(|index| self.serves(index, &needed)) {
                self.index_is_missing(table, &needed);
            }
        }
        Ok(())
    }

    fn index_is_missing(&mut self, table: &TableName, needed: &NeededIndex) {
        let columns: Vec<String> = needed.columns.iter().map(|column| quoted(column)).collect();
        let columns = columns.join(", ");
        if needed.is_unique {
            self.problem(format!(
                "the outbox table `{table}` has no unique key of {columns}: {MIGRATE}"
            ));
            return;
        }
        let partial = if needed.is_partial {
            "partial index"
        } else {
            "index"
        };
        self.report.warnings.push(format!(
            "the outbox table `{table}` has no {partial} on {columns}, so relays and cleanups read more of it than they need: {MIGRATE}"
        ));
    }

    /// A longer index serves as well, but not a longer unique key.
    fn serves(&self, index: &Index, needed: &NeededIndex) -> bool {
        let is = |column: &Option<String>, name: &str| {
            column.as_ref().is_some_and(|column| self.same(column, name))
        };
        if needed.is_unique {
            let in_key = |name: &&str| index.columns.iter().any(|column| is(column, name));
            return index.is_unique
                && !index.is_partial
                && index.columns.len() == needed.columns.len()
                && needed.columns.iter().all(in_key);
        }
        let mut pairs = index.columns.iter().zip(&needed.columns);
        index.is_partial == needed.is_partial
            && index.columns.len() >= needed.columns.len()
            && pairs.all(|(column, name)| is(column, name))
    }

    async fn captured_table(&mut self, captured: &Captured) -> Result<(), DbErr> {
        let Captured { label, table, .. } = captured;
        let columns = self.columns(table).await?;
        if columns.is_empty() {
            self.problem(format!(
                "the table `{table}` of `{label}` is missing: run the application's migrations, or leave it out with \
                 `capture::check_only` if it is in another database"
            ));
            return Ok(());
        }
        let missing = self.missing(&columns, &captured.entity.columns());
        if !missing.is_empty() {
            self.problem(format!(
                "the table `{table}` has no column {missing}, which `{label}` has: run the application's migrations"
            ));
        }
        Ok(())
    }

    fn tables_of_several(&mut self, captured: &[Captured], one: &Captured) {
        let same = captured.iter().filter(|other| other.table == one.table);
        let labels: Vec<String> = same.map(|other| quoted(&other.label)).collect();
        if labels.len() > 1 {
            self.report.warnings.push(format!(
                "the table `{}` is captured by {} entities, {}: a write makes the events of the one it goes through, and of no other",
                one.table,
                labels.len(),
                labels.join(", ")
            ));
        }
    }

    async fn enforcement(&mut self) -> Result<(), DbErr> {
        if self.conn.backend() == DbBackend::Sqlite
            && !catalogue::sqlite_enforces_foreign_keys(self.conn).await?
        {
            self.report.warnings.push(
                "`PRAGMA foreign_keys` is off: the database enforces no foreign key, so rows stay that a delete would otherwise take with it"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// None, if there is no such table.
    async fn columns(&self, table: &TableName) -> Result<Vec<String>, DbErr> {
        if self.conn.backend() == DbBackend::Sqlite
            && let Some(schema) = &table.schema
            && !catalogue::sqlite_has_database(self.conn, schema).await?
        {
            return Ok(Vec::new());
        }
        catalogue::columns(self.conn, table).await
    }

    /// Those of the columns that are not there.
    fn missing(&self, there: &[String], wanted: &[&'static str]) -> String {
        let is_there = |name: &str| there.iter().any(|column| self.same(column, name));
        let missing = wanted.iter().filter(|name| !is_there(name));
        missing.map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
    }

    /// MariaDB, MySQL and SQLite compare the names of columns without regard to case.
    fn same(&self, one: &str, other: &str) -> bool {
        one == other || self.conn.backend() != DbBackend::Postgres && one.eq_ignore_ascii_case(other)
    }
}

fn quoted(name: &str) -> String {
    format!("`{name}`")
}
