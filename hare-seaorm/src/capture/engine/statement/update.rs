//! A captured UPDATE.

use std::collections::HashMap;

use sea_orm::sea_query::{Expr, Query, ReturningClause, UpdateStatement};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, IdenStatic, Iterable, PrimaryKeyToColumn,
    QueryResult, Value,
};

use super::anatomy::Aim;
use super::keys::{CHUNK, Found, Key, Seen, by_keys, chunk_of, find, is_one_of};
use super::{
    Extent, Outcome, TooMany, Want, answers_with_its_result, gives_rows, not_understood, others_came,
};
use crate::capture::declaration::{CapturedEntity, Operation, Payload};
use crate::capture::engine::portable::{LockFor, returning_key, returning_row};
use crate::capture::engine::{events_of, write_events};
use crate::capture::envelope::Change;
use crate::connection::{Conn, DataStatement};
use crate::error::Error;
use crate::transaction::Written;

pub(super) async fn run<E: CapturedEntity>(
    conn: Conn<'_>,
    statement: &UpdateStatement,
    want: Want,
    extent: Extent,
) -> Result<Written<Outcome>, DbErr> {
    let update = Update::<E>::of(statement, want);
    if extent == Extent::Whole && update.gives_its_rows(conn) {
        return update.all_at_once(conn).await;
    }
    update.by_keys(conn).await
}

/// An UPDATE with what its events need of it.
struct Update<'s, E: EntityTrait> {
    statement: &'s UpdateStatement,
    want: Want,
    payload: Payload,
    /// The columns that it assigns, by their fields' names.
    changed: Vec<&'static str>,
    /// The parts of the primary key that it assigns, by their places in the key.
    moves: Vec<(usize, NewPart)>,
    entity: std::marker::PhantomData<fn() -> E>,
}

/// What a part of a primary key becomes.
enum NewPart {
    Value(Value),
    /// What only the database can tell.
    Expression,
}

impl NewPart {
    fn of(expr: &Expr) -> Self {
        match expr {
            Expr::Value(value) => Self::Value(value.clone()),
            // Cast to the column's type, as SeaORM does for enums.
            Expr::AsEnum(_, inner) => Self::of(inner),
            _ => Self::Expression,
        }
    }
}

impl<'s, E: CapturedEntity> Update<'s, E> {
    fn of(statement: &'s UpdateStatement, want: Want) -> Self {
        let assigned = |column: &str| {
            // The last one counts, as in the database that allows it twice.
            let mut values = statement.get_values().iter().rev();
            values
                .find(|(assigned, _)| assigned.inner() == column)
                .map(|(_, expr)| expr)
        };
        let declaration = E::declaration();
        let stored = declaration.stored.iter();
        Self {
            statement,
            want,
            payload: declaration.payload,
            changed: stored
                .filter(|(_, column)| assigned(column.as_str()).is_some())
                .map(|(field, _)| *field)
                .collect(),
            moves: E::PrimaryKey::iter()
                .enumerate()
                .filter_map(|(place, key)| Some((place, NewPart::of(assigned(key.into_column().as_str())?))))
                .collect(),
            entity: std::marker::PhantomData,
        }
    }

    /// Whether the UPDATE itself gives all that its events need.
    fn gives_its_rows(&self, conn: Conn<'_>) -> bool {
        gives_rows(conn, self.want) && self.payload != Payload::BeforeAndAfter
    }

    /// Whether whole rows are read after the update.
    fn reads_whole_rows(&self) -> bool {
        self.want == Want::Rows || self.payload != Payload::Keys
    }

    /// `RETURNING` with what events and caller need. PostgreSQL also gives the columns of other tables that the UPDATE names, so
    /// there each column is that of this table.
    fn returning(&self, backend: DbBackend) -> ReturningClause {
        if backend != DbBackend::Postgres {
            return if self.reads_whole_rows() {
                returning_row::<E>(backend)
            } else {
                returning_key::<E>(backend)
            };
        }
        let own = |column: E::Column| column.select_as(Expr::col(column.as_column_ref()));
        if self.reads_whole_rows() {
            Query::returning().exprs(E::Column::iter().map(own))
        } else {
            Query::returning().exprs(E::PrimaryKey::iter().map(|key| own(key.into_column())))
        }
    }

    async fn all_at_once(&self, conn: Conn<'_>) -> Result<Written<Outcome>, DbErr> {
        let mut statement = self.statement.clone();
        statement.returning(self.returning(conn.backend()));
        let rows = match self.want {
            // The caller holds them all, however many.
            Want::Rows => conn.query_all(&statement).await?,
            Want::Count | Want::Result | Want::InsertId => {
                let rows = conn.query_at_most(DataStatement::Update(&statement), CHUNK);
                rows.await?.ok_or(TooMany)?
            }
        };
        let events = events_of(&self.changes(&HashMap::new(), &self.read(&rows)?)?);
        Ok(Written {
            signalled: write_events::<E>(conn, events).await?,
            value: Outcome::of_rows(rows, self.want),
        })
    }

    fn read(&self, rows: &[QueryResult]) -> Result<Vec<Seen<E>>, DbErr> {
        let whole = self.reads_whole_rows();
        rows.iter().map(|row| Seen::read(row, whole)).collect()
    }

    async fn by_keys(&self, conn: Conn<'_>) -> Result<Written<Outcome>, DbErr> {
        if self
            .moves
            .iter()
            .any(|(_, part)| matches!(part, NewPart::Expression))
        {
            return Err(Error::unsupported(
                format!("a primary key that an expression changes, of `{}`", E::declaration().label()),
                "its rows are read before they are written, and would not be found again under their new keys; set the key to a \
                 value",
            )
            .into());
        }
        let bare = self.bare();
        let aim = Aim::of_update(self.statement, &bare, conn.backend())
            .ok_or_else(|| not_understood::<E>("an update with a join, or with a WITH,"))?;
        let holds_before = self.payload == Payload::BeforeAndAfter;
        let mut written = Written::nothing(Outcome::default());
        match find::<E>(conn, &aim, holds_before, self.lock()).await? {
            Found::Few(rows) => {
                let keys: Vec<Key> = rows.iter().map(Seen::key).collect();
                let before = rows.into_iter().map(|row| (row.key(), row)).collect();
                let narrowed = self.narrowed(&aim, &keys)?;
                self.write(conn, narrowed, &keys, before, &mut written).await?;
            }
            // Its result is that of one statement.
            Found::Many(keys) if answers_with_its_result(conn, self.want) => {
                let before = self.before(conn, &keys).await?;
                self.write(conn, self.statement.clone(), &keys, before, &mut written)
                    .await?;
                if written.value.affected != keys.len() as u64 {
                    return Err(others_came::<E>("an update").into());
                }
            }
            Found::Many(keys) => {
                for keys in keys.chunks(chunk_of::<E>()) {
                    let before = self.before(conn, keys).await?;
                    let narrowed = self.narrowed(&aim, keys)?;
                    self.write(conn, narrowed, keys, before, &mut written).await?;
                }
            }
        }
        Ok(written)
    }

    /// The rows as they are, if events hold them.
    async fn before(&self, conn: Conn<'_>, keys: &[Key]) -> Result<HashMap<Key, Seen<E>>, DbErr> {
        let mut before = HashMap::new();
        if self.payload == Payload::BeforeAndAfter {
            for keys in keys.chunks(chunk_of::<E>()) {
                before.extend(by_keys::<E>(conn, keys, true, Some(self.lock())).await?);
            }
        }
        Ok(before)
    }

    fn lock(&self) -> LockFor {
        if self.moves.is_empty() {
            LockFor::Update
        } else {
            LockFor::Delete
        }
    }

    /// The statement without its condition.
    fn bare(&self) -> UpdateStatement {
        let mut bare = Query::update().table(E::default().table_ref()).take();
        for (column, expr) in self.statement.get_values() {
            bare.value(column.clone(), (**expr).clone());
        }
        bare
    }

    /// The statement, for the rows of these keys.
    fn narrowed(&self, aim: &Aim, keys: &[Key]) -> Result<UpdateStatement, Error> {
        let mut statement = self.bare();
        statement.cond_where(is_one_of::<E>(keys));
        if let Some(order) = &aim.order {
            // The order may keep a unique key free for the next row.
            let order = order.as_order();
            let (expr, order) = order.ok_or_else(|| not_understood::<E>("an update ordered by values"))?;
            statement.order_by_expr(expr, order);
        }
        Ok(statement)
    }

    /// Updates the rows of these keys, which are locked, and writes their events.
    async fn write(
        &self,
        conn: Conn<'_>,
        mut statement: UpdateStatement,
        keys: &[Key],
        before: HashMap<Key, Seen<E>>,
        written: &mut Written<Outcome>,
    ) -> Result<(), DbErr> {
        if keys.is_empty() && !answers_with_its_result(conn, self.want) {
            return Ok(());
        }
        let after = if gives_rows(conn, self.want) {
            statement.returning(self.returning(conn.backend()));
            let rows = conn.query_all(&statement).await?;
            let after = self.read(&rows)?;
            written.value.affected += rows.len() as u64;
            if self.want == Want::Rows {
                written.value.rows.extend(rows);
            }
            after
        } else {
            let result = conn.execute(&statement).await?;
            written.value.affected += result.rows_affected();
            written.value.result = Some(result);
            self.read_again(conn, keys).await?
        };
        let before = before
            .into_iter()
            .map(|(key, row)| (self.moved(&key), row))
            .collect();
        let events = events_of(&self.changes(&before, &after)?);
        drop((before, after));
        written.signalled.join(write_events::<E>(conn, events).await?);
        Ok(())
    }

    /// The key of a row after the update.
    fn moved(&self, key: &[Value]) -> Key {
        let mut moved = key.to_vec();
        for (place, part) in &self.moves {
            if let (NewPart::Value(value), Some(part)) = (part, moved.get_mut(*place)) {
                *part = value.clone();
            }
        }
        moved
    }

    /// The rows as the update left them, in the order of their keys before it. Locked, or a row that was set to its own values
    /// would be read as the transaction's snapshot has it.
    async fn read_again(&self, conn: Conn<'_>, keys: &[Key]) -> Result<Vec<Seen<E>>, DbErr> {
        if !self.reads_whole_rows() && self.moves.is_empty() {
            return Ok(keys.iter().cloned().map(Seen::Key).collect());
        }
        let mut after = Vec::with_capacity(keys.len());
        for keys in keys.chunks(chunk_of::<E>()) {
            let moved: Vec<Key> = keys.iter().map(|key| self.moved(key)).collect();
            let mut rows = by_keys::<E>(conn, &moved, self.reads_whole_rows(), Some(self.lock())).await?;
            after.extend(moved.iter().filter_map(|key| rows.remove(key)));
        }
        Ok(after)
    }

    /// What happened to each row; `before` by the key that the row has now.
    fn changes<'r>(
        &self,
        before: &'r HashMap<Key, Seen<E>>,
        after: &'r [Seen<E>],
    ) -> Result<Vec<Change<'r, E>>, Error> {
        let change = |after: &'r Seen<E>| {
            let key = after.key();
            let before = before.get(&key).and_then(Seen::row);
            if self.payload == Payload::BeforeAndAfter && before.is_none() {
                return Err(Error::unsupported(
                    format!(
                        "a primary key that the database stores in another form, of `{}`",
                        E::declaration().label()
                    ),
                    "the row is not found again under the key that it was set to; set it to the form that is stored",
                ));
            }
            Ok(Change {
                operation: Operation::Update,
                key,
                changed: Some(self.changed.clone()),
                before,
                after: after.row(),
            })
        };
        after.iter().map(change).collect()
    }
}
