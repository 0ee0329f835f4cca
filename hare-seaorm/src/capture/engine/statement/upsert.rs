//! A captured INSERT that updates, or skips, rows that are there already: which of its rows were which.
//!
//! PostgreSQL tells it of each row that it gives back. Where it does not (SQLite), or where the row before the update is wanted, the
//! statement is rehearsed: run, undone, the rows that it updated locked and read, and run again. MySQL gives no rows back: there each
//! row is looked up by the table's unique keys, locked, and then written by a statement of its own, unless no row is there at all.
//!
//! Events of inserts come before those of updates. A key that is twice in a statement is inserted and then updated.

use std::collections::{HashMap, HashSet};

use sea_orm::sea_query::{Expr, ExprTrait, InsertStatement, OnConflict, Order, Query, ReturningClause};
use sea_orm::{
    Condition, ConnectionTrait, DbBackend, DbErr, EntityTrait, IdenStatic, Iterable, PrimaryKeyToColumn,
    QueryResult, SqlErr,
};

use super::anatomy::{Assignment, Conflict, Inserted, Rendered};
use super::insert::{Done, change, insert_and_read, not_found_again, plain, reads_whole_rows};
use super::keys::{Key, Seen, by_keys, chunk_of, columns_of};
use super::{Outcome, Want};
use crate::capture::declaration::{CapturedEntity, Operation, Payload};
use crate::capture::engine::portable::{LockFor, key_in, locking, returning_key};
use crate::capture::engine::{events_of, write_events};
use crate::capture::envelope::Change;
use crate::connection::Conn;
use crate::error::Error;
use crate::transaction::Written;

/// How often a rehearsal is repeated because other rows were met meanwhile.
const REHEARSALS: usize = 10;

/// The savepoint that undoes a rehearsal.
const REHEARSAL: &str = "hare_rehearsal";

/// What became of a row.
struct Upserted<E: EntityTrait> {
    row: Seen<E>,
    is_new: bool,
}

/// The rows before the update, by their keys.
type Before<E> = HashMap<Key, Seen<E>>;

/// An upsert on a database that gives its rows back.
pub(super) async fn run<E: CapturedEntity>(
    conn: Conn<'_>,
    statement: &InsertStatement,
    assignments: &[Assignment],
    want: Want,
) -> Result<Written<Outcome>, DbErr> {
    let whole = reads_whole_rows::<E>(want);
    let mut statement = statement.clone();
    statement.returning(marked_returning::<E>(conn.backend(), whole));
    let needs_before = E::declaration().payload == Payload::BeforeAndAfter;
    let (rows, before) = if needs_before || conn.backend() == DbBackend::Sqlite {
        refuse_moves::<E>(assignments)?;
        rehearse::<E>(conn, &statement, needs_before).await?
    } else {
        (conn.query_all(&statement).await?, Before::new())
    };
    let upserted = read::<E>(conn.backend(), &rows, whole, &before)?;
    let events = events_of(&changes(&upserted, &before, assignments));
    drop(upserted);
    Ok(Written {
        signalled: write_events::<E>(conn, events).await?,
        value: Outcome::of_rows(rows, want),
    })
}

/// An insert on SQLite whose own result is wanted: the rehearsal tells its rows, which are read again after it.
pub(super) async fn with_result<E: CapturedEntity>(
    conn: Conn<'_>,
    statement: &InsertStatement,
    inserted: &Inserted,
) -> Result<Written<Outcome>, DbErr> {
    let assignments = match &inserted.conflict {
        Conflict::Updates(assignments) => assignments.as_slice(),
        Conflict::Fails | Conflict::Skips => &[],
    };
    refuse_moves::<E>(assignments)?;
    let whole = reads_whole_rows::<E>(Want::Result);
    let mut rehearsal = statement.clone();
    rehearsal.returning(returning_key::<E>(conn.backend()));
    conn.execute_unprepared(&format!("SAVEPOINT {REHEARSAL}")).await?;
    let rows = conn.query_all(&rehearsal).await?;
    let keys = rows.iter().map(key_in::<E>).collect::<Result<Vec<_>, _>>()?;
    conn.execute_unprepared(&format!("ROLLBACK TO SAVEPOINT {REHEARSAL}"))
        .await?;
    conn.execute_unprepared(&format!("RELEASE SAVEPOINT {REHEARSAL}"))
        .await?;
    let mut before = Before::new();
    if inserted.may_update() {
        for keys in keys.chunks(chunk_of::<E>()) {
            let needs_before = E::declaration().payload == Payload::BeforeAndAfter;
            before.extend(by_keys::<E>(conn, keys, needs_before, Some(LockFor::Update)).await?);
        }
    }
    let result = conn.execute(statement).await?;
    let distinct: Vec<Key> = keys.iter().cloned().collect::<HashSet<_>>().into_iter().collect();
    let mut after = HashMap::new();
    for keys in distinct.chunks(chunk_of::<E>()) {
        after.extend(by_keys::<E>(conn, keys, whole, None).await?);
    }
    let mut upserted = Vec::with_capacity(keys.len());
    let mut met = HashSet::new();
    for key in keys {
        // Of a key that is twice in the statement, its last row is known.
        let is_last = met.insert(key.clone());
        let is_new = !before.contains_key(&key);
        match after.remove(&key) {
            Some(row) => upserted.push(Upserted { row, is_new }),
            None if is_last => return Err(not_found_again::<E>().into()),
            None => {
                return Err(Error::unsupported(
                    format!("the result of an upsert of `{}` with one key twice", E::declaration().label()),
                    "its rows are read after it, when the first of the two is gone; run it with the entity's own `insert_many`",
                )
                .into());
            }
        }
    }
    let events = events_of(&changes(&upserted, &before, assignments));
    drop(upserted);
    Ok(Written {
        signalled: write_events::<E>(conn, events).await?,
        value: Outcome {
            rows: Vec::new(),
            affected: result.rows_affected(),
            result: Some(result),
        },
    })
}

/// The rows, and on PostgreSQL whether each is new: a row that was updated has been locked by this transaction, which its `xmax`
/// tells (<https://www.postgresql.org/docs/current/ddl-system-columns.html>).
fn marked_returning<E: EntityTrait>(backend: DbBackend, whole: bool) -> ReturningClause {
    use sea_orm::ColumnTrait;
    let columns: Vec<E::Column> = match whole {
        true => E::Column::iter().collect(),
        false => E::PrimaryKey::iter()
            .map(PrimaryKeyToColumn::into_column)
            .collect(),
    };
    let mut exprs: Vec<Expr> = columns
        .into_iter()
        .map(|column| column.select_as(column.into_returning_expr(backend)))
        .collect();
    if backend == DbBackend::Postgres {
        exprs.push(Expr::cust("(xmax = 0)"));
    }
    Query::returning().exprs(exprs)
}

fn read<E: CapturedEntity>(
    backend: DbBackend,
    rows: &[QueryResult],
    whole: bool,
    before: &Before<E>,
) -> Result<Vec<Upserted<E>>, DbErr> {
    let mut met = HashSet::with_capacity(rows.len());
    let read = |row: &QueryResult| {
        let seen = Seen::read(row, whole)?;
        let is_new = if backend == DbBackend::Postgres {
            is_marked_new::<E>(row, whole)?
        } else {
            let key = seen.key();
            !before.contains_key(&key) && met.insert(key)
        };
        Ok(Upserted { row: seen, is_new })
    };
    rows.iter().map(read).collect()
}

fn is_marked_new<E: EntityTrait>(row: &QueryResult, whole: bool) -> Result<bool, DbErr> {
    let place = match whole {
        true => E::Column::iter().count(),
        false => E::PrimaryKey::iter().count(),
    };
    row.try_get_by_index(place)
}

/// Runs the statement, undoes it, locks and reads the rows that it updated, and runs it again.
///
/// The rows that were read are locked, so the second run finds them as they were; if it meets others that came in between, it is
/// repeated with those.
async fn rehearse<E: CapturedEntity>(
    conn: Conn<'_>,
    statement: &InsertStatement,
    whole: bool,
) -> Result<(Vec<QueryResult>, Before<E>), DbErr> {
    conn.execute_unprepared(&format!("SAVEPOINT {REHEARSAL}")).await?;
    let mut before = Before::new();
    let mut looked_up = HashSet::new();
    for _ in 0..REHEARSALS {
        let rows = conn.query_all(statement).await?;
        let unknown = unknown_updates::<E>(conn.backend(), &rows, &looked_up)?;
        if unknown.is_empty() {
            conn.execute_unprepared(&format!("RELEASE SAVEPOINT {REHEARSAL}"))
                .await?;
            return Ok((rows, before));
        }
        conn.execute_unprepared(&format!("ROLLBACK TO SAVEPOINT {REHEARSAL}"))
            .await?;
        for keys in unknown.chunks(chunk_of::<E>()) {
            before.extend(by_keys::<E>(conn, keys, whole, Some(LockFor::Update)).await?);
        }
        looked_up.extend(unknown);
        if conn.backend() == DbBackend::Sqlite {
            // Nobody else writes meanwhile, and new rows may get other keys than at the rehearsal.
            let rows = conn.query_all(statement).await?;
            conn.execute_unprepared(&format!("RELEASE SAVEPOINT {REHEARSAL}"))
                .await?;
            return Ok((rows, before));
        }
    }
    Err(Error::Retryable {
        what: "an upsert",
        reason: "others kept inserting the rows that it updates; nothing of it is left, try it again"
            .to_owned(),
        source: None,
    }
    .into())
}

/// The keys of rows that were, or on SQLite may have been, there before, and were not looked up yet.
fn unknown_updates<E: CapturedEntity>(
    backend: DbBackend,
    rows: &[QueryResult],
    known: &HashSet<Key>,
) -> Result<Vec<Key>, DbErr> {
    let mut unknown = Vec::new();
    for row in rows {
        // On PostgreSQL it is rehearsed only where whole rows are read.
        if backend == DbBackend::Postgres && is_marked_new::<E>(row, true)? {
            continue;
        }
        let key = key_in::<E>(row)?;
        if !known.contains(&key) {
            unknown.push(key);
        }
    }
    Ok(unknown)
}

/// Inserts first, then updates; each with the row as it was before, which for a key that is twice in the statement is what its first
/// made of it.
fn changes<'r, E: CapturedEntity>(
    upserted: &'r [Upserted<E>],
    before: &'r Before<E>,
    assignments: &[Assignment],
) -> Vec<Change<'r, E>> {
    let declaration = E::declaration();
    let stored = declaration.stored.iter();
    let changed: Vec<&'static str> = stored
        .filter(|(_, column)| {
            assignments
                .iter()
                .any(|assignment| assignment.column == column.as_str())
        })
        .map(|(field, _)| *field)
        .collect();
    let mut latest: HashMap<Key, &'r Seen<E>> = before.iter().map(|(key, row)| (key.clone(), row)).collect();
    let (mut inserts, mut updates) = (Vec::new(), Vec::new());
    for upserted in upserted {
        let key = upserted.row.key();
        if upserted.is_new {
            inserts.push(change(&upserted.row));
        } else {
            updates.push(Change {
                operation: Operation::Update,
                before: latest.get(&key).and_then(|row| row.row()),
                after: upserted.row.row(),
                changed: Some(changed.clone()),
                key: key.clone(),
            });
        }
        latest.insert(key, &upserted.row);
    }
    let is_captured = |change: &Change<'_, E>| declaration.operations.contains(change.operation);
    inserts.into_iter().chain(updates).filter(is_captured).collect()
}

/// A row whose key an upsert changes would not be found again.
fn refuse_moves<E: CapturedEntity>(assignments: &[Assignment]) -> Result<(), Error> {
    let is_key = |assignment: &&Assignment| {
        E::PrimaryKey::iter().any(|key| key.into_column().as_str() == assignment.column)
    };
    match assignments.iter().find(is_key) {
        Some(assignment) => Err(Error::unsupported(
            format!(
                "an upsert of `{}` that changes the primary key's column `{}`",
                E::declaration().label(),
                assignment.column
            ),
            "which row it was before cannot be told; leave the key out of the columns that are updated",
        )),
        None => Ok(()),
    }
}

/// An upsert on MySQL.
pub(super) async fn row_by_row<E: CapturedEntity>(
    conn: Conn<'_>,
    inserted: &Inserted,
    want: Want,
) -> Result<Written<Outcome>, DbErr> {
    let Some(rows) = &inserted.rows else {
        return Err(Error::unsupported(
            format!("an upsert of `{}` from a SELECT", E::declaration().label()),
            "which of its rows are there already cannot be read beforehand on this database; select the rows first and insert them \
             as values",
        )
        .into());
    };
    let assignments = match &inserted.conflict {
        Conflict::Updates(assignments) => assignments.as_slice(),
        Conflict::Fails | Conflict::Skips => &[],
    };
    refuse_moves::<E>(assignments)?;
    let unique = unique_keys::<E>(conn).await?;
    let mut upsert = RowByRow::<E> {
        conn,
        known: Known {
            inserted,
            unique: &unique,
        },
        new: Done::default(),
        updated: Vec::new(),
        before: Before::new(),
    };
    if !upsert.all_new(rows).await? {
        for row in rows {
            upsert.row(row).await?;
        }
    }
    upsert.finish(assignments, want).await
}

/// The columns of a unique key; for each how many of its letters count, if not all.
struct UniqueKey(Vec<(String, Option<i64>)>);

/// The unique keys of the entity's table, the primary key first.
async fn unique_keys<E: CapturedEntity>(conn: Conn<'_>) -> Result<Vec<UniqueKey>, DbErr> {
    let entity = E::default();
    let ask = Query::select()
        .expr(Expr::cust("CAST(INDEX_NAME AS CHAR)"))
        .expr(Expr::cust("CAST(COLUMN_NAME AS CHAR)"))
        .expr(Expr::cust("CAST(SUB_PART AS SIGNED)"))
        .from(("information_schema", "STATISTICS"))
        .and_where(Expr::col("TABLE_NAME").eq(entity.table_name()))
        .and_where(match entity.schema_name() {
            Some(schema) => Expr::col("TABLE_SCHEMA").eq(schema),
            None => Expr::cust("TABLE_SCHEMA = DATABASE()"),
        })
        .and_where(Expr::col("NON_UNIQUE").eq(0))
        .order_by_expr(Expr::cust("INDEX_NAME <> 'PRIMARY'"), Order::Asc)
        .order_by("INDEX_NAME", Order::Asc)
        .order_by("SEQ_IN_INDEX", Order::Asc)
        .take();
    let mut keys: Vec<(String, UniqueKey)> = Vec::new();
    for row in conn.query_all(&ask).await? {
        let name: String = row.try_get_by_index(0)?;
        let column: Option<String> = row.try_get_by_index(1)?;
        let letters: Option<i64> = row.try_get_by_index(2)?;
        let part = column.map(|column| (column, letters)).ok_or_else(|| {
            Error::unsupported(
                format!(
                    "an upsert of `{}`, whose table has a unique key on an expression",
                    E::declaration().label()
                ),
                "which rows are there already cannot be looked up by it",
            )
        })?;
        match keys.last_mut().filter(|(last, _)| *last == name) {
            Some((_, key)) => key.0.push(part),
            None => keys.push((name, UniqueKey(vec![part]))),
        }
    }
    Ok(keys.into_iter().map(|(_, key)| key).collect())
}

/// What is known before the first row.
#[derive(Clone, Copy)]
struct Known<'a> {
    inserted: &'a Inserted,
    unique: &'a [UniqueKey],
}

/// The rows that are there already under one of the unique keys of these, locked.
async fn there_already<E: CapturedEntity>(
    conn: Conn<'_>,
    known: Known<'_>,
    rows: &[Vec<Rendered>],
    whole: bool,
) -> Result<Vec<Seen<E>>, DbErr> {
    let mut condition = Condition::any();
    for row in rows {
        for key in known.unique {
            condition = condition.add_option(has_key::<E>(conn, known.inserted, key, row));
        }
    }
    if condition.is_empty() {
        return Ok(Vec::new());
    }
    let select = locking::<E>(conn, Condition::all().add(condition), LockFor::Update).await?;
    let rows = conn.query_all(&columns_of(select, whole)).await?;
    rows.iter().map(|row| Seen::read(row, whole)).collect()
}

/// `None` if the row has no value for a part of the key: it conflicts with none then.
fn has_key<E: CapturedEntity>(
    conn: Conn<'_>,
    inserted: &Inserted,
    key: &UniqueKey,
    row: &[Rendered],
) -> Option<Condition> {
    let mut condition = Condition::all();
    for (column, letters) in &key.0 {
        let value = row
            .get(inserted.position(column)?)
            .filter(|value| !value.is_null())?;
        let value = value.clone().into_expr(conn.backend());
        let column = Expr::col((E::default(), column.clone()));
        condition = condition.add(match letters {
            None => column.eq(value),
            Some(letters) => Expr::cust_with_exprs(
                "LEFT(?, ?) = LEFT(?, ?)",
                [column, Expr::val(*letters), value, Expr::val(*letters)],
            ),
        });
    }
    Some(condition)
}

struct RowByRow<'a, E: EntityTrait> {
    conn: Conn<'a>,
    known: Known<'a>,
    new: Done<E>,
    /// The rows after their updates, in order.
    updated: Vec<Seen<E>>,
    /// The rows as they were before the first of their updates.
    before: Before<E>,
}

impl<E: CapturedEntity> RowByRow<'_, E> {
    /// Inserts all rows at once if none of them is there already. Otherwise nothing is done.
    async fn all_new(&mut self, rows: &[Vec<Rendered>]) -> Result<bool, DbErr> {
        if rows.len() < 2 {
            return Ok(false);
        }
        let there = there_already::<E>(self.conn, self.known, rows, false).await?;
        if !there.is_empty() {
            return Ok(false);
        }
        drop(there);
        Ok(self.insert(rows).await?.is_none())
    }

    async fn row(&mut self, row: &Vec<Rendered>) -> Result<(), DbErr> {
        let rows = std::slice::from_ref(row);
        let whole = E::declaration().payload == Payload::BeforeAndAfter;
        let mut conflict = None;
        for _ in 0..REHEARSALS {
            let mut there = there_already::<E>(self.conn, self.known, rows, whole).await?;
            let Some(before) = there.pop() else {
                // Another may have inserted it meanwhile; then it is found, and locked, the next time.
                conflict = self.insert(rows).await?;
                if conflict.is_none() {
                    return Ok(());
                }
                continue;
            };
            if !there.is_empty() {
                return Err(Error::unsupported(
                    format!(
                        "an upsert of `{}` that meets several rows",
                        E::declaration().label()
                    ),
                    "the database updates one of them only, and does not tell which",
                )
                .into());
            }
            return self.update(rows, before).await;
        }
        // Its key has a value that the statement does not give.
        conflict.map_or(Ok(()), Err)
    }

    /// What the database says if a key was there after all; nothing was inserted then.
    async fn insert(&mut self, rows: &[Vec<Rendered>]) -> Result<Option<DbErr>, DbErr> {
        let columns = &self.known.inserted.columns;
        let alone = Inserted {
            columns: columns.clone(),
            rows: Some(rows.to_vec()),
            conflict: Conflict::Fails,
            select: None,
        };
        let statement = plain::<E>(self.conn, columns, rows);
        match insert_and_read::<E>(self.conn, &statement, &alone).await {
            Ok(done) => {
                self.new.join(done);
                Ok(None)
            }
            Err(error) if matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))) => {
                Ok(Some(error))
            }
            Err(error) => Err(error),
        }
    }

    async fn update(&mut self, rows: &[Vec<Rendered>], before: Seen<E>) -> Result<(), DbErr> {
        let mut statement = plain::<E>(self.conn, &self.known.inserted.columns, rows);
        let (updates, on_conflict) = match &self.known.inserted.conflict {
            Conflict::Updates(assignments) => {
                let mut on_conflict = OnConflict::new();
                for Assignment { column, expr } in assignments {
                    on_conflict.value(column.clone(), expr.clone().into_expr(self.conn.backend()));
                }
                (true, on_conflict)
            }
            Conflict::Fails | Conflict::Skips => {
                let key = E::PrimaryKey::iter().map(|key| key.into_column().as_str());
                (false, OnConflict::new().do_nothing_on(key).to_owned())
            }
        };
        statement.on_conflict(on_conflict);
        let result = self.conn.execute(&statement).await?;
        self.new.add(Vec::new(), result);
        if !updates {
            return Ok(());
        }
        let whole = reads_whole_rows::<E>(Want::Count);
        let key = before.key();
        let mut after = by_keys::<E>(
            self.conn,
            std::slice::from_ref(&key),
            whole,
            Some(LockFor::Update),
        )
        .await?;
        self.updated.extend(after.remove(&key));
        // The first of its updates, unless this statement inserted it.
        let is_new = self.new.rows.iter().any(|row| row.key() == key);
        if !is_new {
            self.before.entry(key).or_insert(before);
        }
        Ok(())
    }

    async fn finish(mut self, assignments: &[Assignment], want: Want) -> Result<Written<Outcome>, DbErr> {
        let outcome = self.new.outcome(want)?;
        let inserts = self
            .new
            .rows
            .into_iter()
            .map(|row| Upserted { row, is_new: true });
        let updates = self
            .updated
            .into_iter()
            .map(|row| Upserted { row, is_new: false });
        let upserted: Vec<_> = inserts.chain(updates).collect();
        let events = events_of(&changes(&upserted, &self.before, assignments));
        drop(upserted);
        Ok(Written {
            signalled: write_events::<E>(self.conn, events).await?,
            value: outcome,
        })
    }
}
