//! A captured DELETE.

use sea_orm::sea_query::{DeleteStatement, Query, ReturningClause};
use sea_orm::{ConnectionTrait, DbBackend, DbErr};

use super::anatomy::Aim;
use super::keys::{CHUNK, Found, Key, Seen, by_keys, chunk_of, find, is_one_of};
use super::{
    Extent, Outcome, TooMany, Want, answers_with_its_result, gives_rows, not_understood, others_came,
};
use crate::capture::declaration::{CapturedEntity, Payload};
use crate::capture::engine::portable::{LockFor, returning_key, returning_row};
use crate::capture::engine::{events_of, write_events};
use crate::capture::envelope::Change;
use crate::connection::{Conn, DataStatement};
use crate::transaction::Written;

pub(super) async fn run<E: CapturedEntity>(
    conn: Conn<'_>,
    statement: &DeleteStatement,
    want: Want,
    extent: Extent,
) -> Result<Written<Outcome>, DbErr> {
    if extent == Extent::Whole && gives_rows(conn, want) {
        return all_at_once::<E>(conn, statement, want).await;
    }
    by_key::<E>(conn, statement, want).await
}

/// Whether events, or the caller, need whole rows.
fn needs_whole_rows<E: CapturedEntity>(want: Want) -> bool {
    want == Want::Rows || E::declaration().payload != Payload::Keys
}

fn returning<E: CapturedEntity>(backend: DbBackend, want: Want) -> ReturningClause {
    if needs_whole_rows::<E>(want) {
        returning_row::<E>(backend)
    } else {
        returning_key::<E>(backend)
    }
}

async fn all_at_once<E: CapturedEntity>(
    conn: Conn<'_>,
    statement: &DeleteStatement,
    want: Want,
) -> Result<Written<Outcome>, DbErr> {
    let mut statement = statement.clone();
    statement.returning(returning::<E>(conn.backend(), want));
    let rows = match want {
        // The caller holds them all, however many.
        Want::Rows => conn.query_all(&statement).await?,
        Want::Count | Want::Result | Want::InsertId => {
            let rows = conn.query_at_most(DataStatement::Delete(&statement), CHUNK);
            rows.await?.ok_or(TooMany)?
        }
    };
    let whole = needs_whole_rows::<E>(want);
    let gone = rows
        .iter()
        .map(|row| Seen::read(row, whole))
        .collect::<Result<Vec<Seen<E>>, _>>()?;
    let events = events_of(&gone.iter().map(deleted).collect::<Vec<_>>());
    Ok(Written {
        signalled: write_events::<E>(conn, events).await?,
        value: Outcome::of_rows(rows, want),
    })
}

fn deleted<E: CapturedEntity>(row: &Seen<E>) -> Change<'_, E> {
    Change::deleted(row.key(), row.row())
}

async fn by_key<E: CapturedEntity>(
    conn: Conn<'_>,
    statement: &DeleteStatement,
    want: Want,
) -> Result<Written<Outcome>, DbErr> {
    let aim = Aim::of_delete(statement, &bare::<E>(), conn.backend())
        .ok_or_else(|| not_understood::<E>("a delete with a WITH"))?;
    let whole = needs_whole_rows::<E>(want);
    let mut written = Written::nothing(Outcome::default());
    match find::<E>(conn, &aim, whole, LockFor::Delete).await? {
        Found::Few(rows) => {
            let narrowed = narrowed(&rows);
            write::<E>(conn, narrowed, rows, want, &mut written).await?;
        }
        // Its result is that of one statement.
        Found::Many(keys) if answers_with_its_result(conn, want) => {
            let rows = rows_of::<E>(conn, &keys, whole).await?;
            write::<E>(conn, statement.clone(), rows, want, &mut written).await?;
            if written.value.affected != keys.len() as u64 {
                return Err(others_came::<E>("a delete").into());
            }
        }
        Found::Many(keys) => {
            for keys in keys.chunks(chunk_of::<E>()) {
                let rows = rows_of::<E>(conn, keys, whole).await?;
                let narrowed = narrowed(&rows);
                write::<E>(conn, narrowed, rows, want, &mut written).await?;
            }
        }
    }
    Ok(written)
}

/// The rows of these keys, as events need them.
async fn rows_of<E: CapturedEntity>(
    conn: Conn<'_>,
    keys: &[Key],
    whole: bool,
) -> Result<Vec<Seen<E>>, DbErr> {
    if !whole {
        return Ok(keys.iter().cloned().map(Seen::Key).collect());
    }
    let mut rows = Vec::with_capacity(keys.len());
    for keys in keys.chunks(chunk_of::<E>()) {
        let mut found = by_keys::<E>(conn, keys, true, Some(LockFor::Delete)).await?;
        rows.extend(keys.iter().filter_map(|key| found.remove(key)));
    }
    Ok(rows)
}

/// A delete of these rows.
fn narrowed<E: CapturedEntity>(rows: &[Seen<E>]) -> DeleteStatement {
    let keys: Vec<Key> = rows.iter().map(Seen::key).collect();
    let mut statement = bare::<E>();
    statement.cond_where(is_one_of::<E>(&keys));
    statement
}

fn bare<E: CapturedEntity>() -> DeleteStatement {
    Query::delete().from_table(E::default().table_ref()).take()
}

/// Deletes these rows, which are locked, and writes their events.
async fn write<E: CapturedEntity>(
    conn: Conn<'_>,
    mut statement: DeleteStatement,
    rows: Vec<Seen<E>>,
    want: Want,
    written: &mut Written<Outcome>,
) -> Result<(), DbErr> {
    if rows.is_empty() && !answers_with_its_result(conn, want) {
        return Ok(());
    }
    let events = events_of(&rows.iter().map(deleted).collect::<Vec<_>>());
    drop(rows);
    if want == Want::Rows && gives_rows(conn, want) {
        statement.returning(returning::<E>(conn.backend(), want));
        let rows = conn.query_all(&statement).await?;
        written.value.affected += rows.len() as u64;
        written.value.rows.extend(rows);
    } else {
        let result = conn.execute(&statement).await?;
        written.value.affected += result.rows_affected();
        written.value.result = answers_with_its_result(conn, want).then_some(result);
    }
    written.signalled.join(write_events::<E>(conn, events).await?);
    Ok(())
}
