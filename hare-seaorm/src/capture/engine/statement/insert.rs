//! A captured INSERT.

use sea_orm::sea_query::{Expr, ExprTrait, InsertStatement, IntoValueTuple, Query};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbBackend, DbErr, EntityTrait, ExecResult, IdenStatic, Iterable,
    Order, PrimaryKeyToColumn, PrimaryKeyTrait, QueryFilter, QueryOrder, TryFromU64, Value,
};

use super::anatomy::{Conflict, Inserted, Rendered};
use super::keys::{Key, Seen, by_keys, chunk_of, columns_of};
use super::{Outcome, Want, answers_with_its_result, not_understood, upsert};
use crate::capture::declaration::{CapturedEntity, Payload};
use crate::capture::engine::portable::{key_in, returning_key, returning_row};
use crate::capture::engine::{events_of, write_events};
use crate::capture::envelope::Change;
use crate::connection::Conn;
use crate::error::Error;
use crate::transaction::Written;

pub(super) async fn run<E: CapturedEntity>(
    conn: Conn<'_>,
    statement: &InsertStatement,
    want: Want,
) -> Result<Written<Outcome>, DbErr> {
    let backend = conn.backend();
    let inserted = Inserted::of(statement, backend)
        .ok_or_else(|| not_understood::<E>("a REPLACE, or an insert with a WITH,"))?;
    if backend != DbBackend::MySql {
        if answers_with_its_result(conn, want) {
            return upsert::with_result::<E>(conn, statement, &inserted).await;
        }
        return match &inserted.conflict {
            Conflict::Updates(assignments) => upsert::run::<E>(conn, statement, assignments, want).await,
            Conflict::Fails | Conflict::Skips => returning::<E>(conn, statement, want).await,
        };
    }
    if inserted.conflict != Conflict::Fails {
        return upsert::row_by_row::<E>(conn, &inserted, want).await;
    }
    let mut done = insert_and_read::<E>(conn, statement, &inserted).await?;
    let events = events_of(&done.rows.iter().map(change).collect::<Vec<_>>());
    Ok(Written {
        value: done.outcome(want)?,
        signalled: write_events::<E>(conn, events).await?,
    })
}

/// Whether whole rows are read after the insert.
pub(super) fn reads_whole_rows<E: CapturedEntity>(want: Want) -> bool {
    want == Want::Rows || E::declaration().payload != Payload::Keys
}

/// That a row was inserted.
pub(super) fn change<E: CapturedEntity>(row: &Seen<E>) -> Change<'_, E> {
    match row {
        Seen::Row(row) => Change::inserted(row),
        Seen::Key(key) => Change::inserted_key(key.clone()),
    }
}

/// One that gives its rows, in the order in which it inserted them.
async fn returning<E: CapturedEntity>(
    conn: Conn<'_>,
    statement: &InsertStatement,
    want: Want,
) -> Result<Written<Outcome>, DbErr> {
    let whole = reads_whole_rows::<E>(want);
    let mut statement = statement.clone();
    statement.returning(match whole {
        true => returning_row::<E>(conn.backend()),
        false => returning_key::<E>(conn.backend()),
    });
    let rows = conn.query_all(&statement).await?;
    let seen = rows
        .iter()
        .map(|row| Seen::read(row, whole))
        .collect::<Result<Vec<Seen<E>>, _>>()?;
    let events = events_of(&seen.iter().map(change).collect::<Vec<_>>());
    drop(seen);
    Ok(Written {
        signalled: write_events::<E>(conn, events).await?,
        value: Outcome::of_rows(rows, want),
    })
}

/// The rows that were inserted on a database that gives none back.
pub(super) struct Done<E: EntityTrait> {
    pub(super) rows: Vec<Seen<E>>,
    affected: u64,
    results: Vec<ExecResult>,
}

impl<E: EntityTrait> Default for Done<E> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            affected: 0,
            results: Vec::new(),
        }
    }
}

impl<E: CapturedEntity> Done<E> {
    pub(super) fn add(&mut self, rows: Vec<Seen<E>>, result: ExecResult) {
        self.rows.extend(rows);
        self.affected += result.rows_affected();
        self.results.push(result);
    }

    pub(super) fn join(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.affected += other.affected;
        self.results.extend(other.results);
    }

    /// The first of several results that tells a generated key, as the database does for one statement.
    pub(super) fn outcome(&mut self, want: Want) -> Result<Outcome, Error> {
        if want == Want::Result && self.results.len() > 1 {
            return Err(Error::unsupported(
                format!(
                    "the result of an insert of `{}` that takes several statements",
                    E::declaration().label()
                ),
                "this database does not tell which rows an upsert, or an insert with given and generated keys, has written, so it is \
                 done in parts; run it with the entity's own `insert_many`, or in one insert per kind of row",
            ));
        }
        let generated = self
            .results
            .iter()
            .position(|result| result.last_insert_id() != 0);
        let place = generated.unwrap_or_default();
        Ok(Outcome {
            rows: Vec::new(),
            affected: self.affected,
            result: (place < self.results.len()).then(|| self.results.swap_remove(place)),
        })
    }
}

/// Where the keys of new rows come from.
enum Keys {
    /// The statement gives them.
    Given(Vec<Key>),
    /// The database generates each of them.
    Generated,
}

/// Rows side by side in a statement, and where their keys come from.
type Run<'r> = (&'r [Vec<Rendered>], Keys);

/// Inserts on MySQL, which gives no rows back, and reads what is there then.
pub(super) async fn insert_and_read<E: CapturedEntity>(
    conn: Conn<'_>,
    statement: &InsertStatement,
    inserted: &Inserted,
) -> Result<Done<E>, DbErr> {
    let mut done = Done::default();
    if let Some(select) = &inserted.select {
        let keys = selected_keys::<E>(conn, inserted, select).await?;
        let result = conn.execute(statement).await?;
        let rows = given_rows::<E>(conn, &keys).await?;
        done.add(rows, result);
        return Ok(done);
    }
    let Some(rows) = &inserted.rows else {
        let result = conn.execute(statement).await?;
        let rows = generated_rows::<E>(conn, &result).await?;
        done.add(rows, result);
        return Ok(done);
    };
    let mut runs = runs::<E>(inserted, rows)?;
    if let [(_, keys)] = runs.as_mut_slice() {
        // One kind of keys: the statement as it is.
        let result = conn.execute(statement).await?;
        let rows = match keys {
            Keys::Given(keys) => given_rows::<E>(conn, keys).await?,
            Keys::Generated => generated_rows::<E>(conn, &result).await?,
        };
        done.add(rows, result);
        return Ok(done);
    }
    for (rows, keys) in runs {
        let result = conn.execute(&plain::<E>(conn, &inserted.columns, rows)).await?;
        let rows = match keys {
            Keys::Given(keys) => given_rows::<E>(conn, &keys).await?,
            Keys::Generated => generated_rows::<E>(conn, &result).await?,
        };
        done.add(rows, result);
    }
    Ok(done)
}

/// An insert of some rows of another, without what that does on a conflict.
pub(super) fn plain<E: EntityTrait>(
    conn: Conn<'_>,
    columns: &[String],
    rows: &[Vec<Rendered>],
) -> InsertStatement {
    let mut insert = Query::insert();
    insert
        .into_table(E::default().table_ref())
        .columns(columns.iter().cloned());
    for row in rows {
        insert.values_panic(row.iter().map(|value| value.clone().into_expr(conn.backend())));
    }
    insert
}

/// Rows side by side whose keys come from the same place: those of a statement are consecutive only if it generates all of them.
fn runs<'r, E: CapturedEntity>(
    inserted: &Inserted,
    rows: &'r [Vec<Rendered>],
) -> Result<Vec<Run<'r>>, Error> {
    let places: Vec<Option<usize>> = E::PrimaryKey::iter()
        .map(|key| inserted.position(key.into_column().as_str()))
        .collect();
    if let ([place], true) = (places.as_slice(), E::PrimaryKey::auto_increment()) {
        let is_generated = |row: &Vec<Rendered>| place.is_none_or(|place| generates(&row[place]));
        return rows
            .chunk_by(|row, next| is_generated(row) == is_generated(next))
            .map(|run| {
                let is_generated = run.first().is_some_and(is_generated);
                Ok((
                    run,
                    if is_generated {
                        Keys::Generated
                    } else {
                        Keys::Given(given_keys::<E>(&places, run)?)
                    },
                ))
            })
            .collect();
    }
    Ok(vec![(rows, Keys::Given(given_keys::<E>(&places, rows)?))])
}

/// Whether MySQL takes this as "the next number": NULL and 0.
fn generates(value: &Rendered) -> bool {
    let is_zero = |value: &Value| {
        matches!(
            value,
            Value::TinyInt(Some(0))
                | Value::SmallInt(Some(0))
                | Value::Int(Some(0))
                | Value::BigInt(Some(0))
                | Value::TinyUnsigned(Some(0))
                | Value::SmallUnsigned(Some(0))
                | Value::Unsigned(Some(0))
                | Value::BigUnsigned(Some(0))
        )
    };
    value.is_null() || value.as_value().is_some_and(is_zero)
}

fn given_keys<E: CapturedEntity>(
    places: &[Option<usize>],
    rows: &[Vec<Rendered>],
) -> Result<Vec<Key>, Error> {
    let key = |row: &Vec<Rendered>| {
        let parts = places.iter().map(|place| row.get((*place)?)?.as_value().cloned());
        parts.collect::<Option<Key>>()
    };
    rows.iter()
        .map(|row| key(row).ok_or_else(unknown_key::<E>))
        .collect()
}

/// That the keys of new rows cannot be known here.
fn unknown_key<E: CapturedEntity>() -> Error {
    Error::unsupported(
        format!(
            "an insert of `{}` whose primary key the database computes",
            E::declaration().label()
        ),
        "this database does not give inserted rows back, so they are found by their keys; give the primary key as a value, or let it \
         be AUTO_INCREMENT",
    )
}

/// The keys that an INSERT from a SELECT will write. Its rows are locked, so that the insert meets the same.
async fn selected_keys<E: CapturedEntity>(
    conn: Conn<'_>,
    inserted: &Inserted,
    select: &Rendered,
) -> Result<Vec<Key>, DbErr> {
    let names: Vec<&str> = E::PrimaryKey::iter()
        .map(|key| key.into_column().as_str())
        .collect();
    if names.iter().any(|name| inserted.position(name).is_none()) {
        return Err(unknown_key::<E>().into());
    }
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let list = |names: &mut dyn Iterator<Item = &str>| names.map(quoted).collect::<Vec<_>>().join(", ");
    let head = format!(
        "WITH `hare_rows` ({}) AS (",
        list(&mut inserted.columns.iter().map(String::as_str))
    );
    let tail = format!(
        " LOCK IN SHARE MODE) SELECT {} FROM `hare_rows`",
        list(&mut names.iter().copied())
    );
    let whole = Rendered::from_text(head)
        .followed_by(select.clone())
        .followed_by(Rendered::from_text(tail));
    let rows = conn.query_all_raw(whole.into_statement(conn.backend())).await?;
    rows.iter().map(key_in::<E>).collect()
}

/// The rows of these keys as they are stored, in the order of the keys.
async fn given_rows<E: CapturedEntity>(conn: Conn<'_>, keys: &[Key]) -> Result<Vec<Seen<E>>, DbErr> {
    let whole = reads_whole_rows::<E>(Want::Count);
    let mut rows = Vec::with_capacity(keys.len());
    for keys in keys.chunks(chunk_of::<E>()) {
        let mut found = by_keys::<E>(conn, keys, whole, None).await?;
        if found.len() != keys.len() {
            return Err(not_found_again::<E>().into());
        }
        rows.extend(keys.iter().filter_map(|key| found.remove(key)));
        // Stored in another form than given: their order is lost, not they.
        rows.extend(found.into_values());
    }
    Ok(rows)
}

pub(super) fn not_found_again<E: CapturedEntity>() -> Error {
    Error::unsupported(
        format!(
            "a row of `{}` that is not found under its key after its insert",
            E::declaration().label()
        ),
        "the database stored its primary key in another form; give it in the form that is stored",
    )
}

/// The rows whose keys the statement generated, which are consecutive: InnoDB reserves the numbers of a statement at once, in every
/// `innodb_autoinc_lock_mode`, where it knows how many there are
/// (<https://dev.mysql.com/doc/refman/8.4/en/innodb-auto-increment-handling.html>).
async fn generated_rows<E: CapturedEntity>(
    conn: Conn<'_>,
    result: &ExecResult,
) -> Result<Vec<Seen<E>>, DbErr> {
    let whole = reads_whole_rows::<E>(Want::Count);
    let count = result.rows_affected();
    let first = <E::PrimaryKey as PrimaryKeyTrait>::ValueType::try_from_u64(result.last_insert_id());
    let first: Vec<Value> = first
        .map_err(|_| unknown_key::<E>())?
        .into_value_tuple()
        .into_iter()
        .collect();
    let (Some(key), [first_value]) = (E::PrimaryKey::iter().next(), first.as_slice()) else {
        return Err(unknown_key::<E>().into());
    };
    if result.last_insert_id() == 0 {
        return Err(unknown_key::<E>().into());
    }
    let column = key.into_column();
    let condition = if count <= 1 {
        Condition::all().add(column.eq(first_value.clone()))
    } else {
        let last = Expr::cust_with_values(
            "? + ? * @@auto_increment_increment",
            [first_value.clone(), Value::from(count - 1)],
        );
        let steps = Expr::cust_with_exprs(
            "(? - ?) % @@auto_increment_increment = 0",
            [Expr::col(column.as_column_ref()), Expr::val(first_value.clone())],
        );
        Condition::all()
            .add(column.gte(first_value.clone()))
            .add(Expr::col(column.as_column_ref()).lte(last))
            .add(steps)
    };
    let select = E::find().filter(condition).order_by(column, Order::Asc);
    let rows = conn.query_all(&columns_of(select, whole)).await?;
    if rows.len() as u64 != count {
        return Err(not_found_again::<E>().into());
    }
    rows.iter().map(|row| Seen::read(row, whole)).collect()
}
