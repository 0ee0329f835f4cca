//! SQL text with its bound values kept beside it, so that a statement reads as SQL and every value is bound.
//!
//! Half of what a claim needs (`FOR UPDATE` inside a `WITH`, `MATERIALIZED`, `FORCE INDEX`) sea-query cannot say, so these
//! statements are text. Values never become text: they are parameters, numbered when the statement is made.

use sea_orm::{DbBackend, Statement, Value};

/// A piece of SQL and the values it binds, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Fragment(Vec<Piece>);

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Value(Value),
}

impl Fragment {
    /// SQL without values. Only for text of this crate and identifiers of [`TableNames`](super::table::TableNames).
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self(vec![Piece::Text(text.into())])
    }

    /// One bound value.
    pub(crate) fn value(value: impl Into<Value>) -> Self {
        Self(vec![Piece::Value(value.into())])
    }

    /// Bound values with commas between them.
    pub(crate) fn list(values: impl IntoIterator<Item = Value>) -> Self {
        Self::joined(", ", values.into_iter().map(Self::value))
    }

    /// Fragments with a text between them.
    pub(crate) fn joined(separator: &str, parts: impl IntoIterator<Item = Self>) -> Self {
        let mut whole = Self::default();
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                whole.0.push(Piece::Text(separator.to_owned()));
            }
            whole.0.extend(part.0);
        }
        whole
    }

    /// Puts each part in place of its `{name}`. The template is text of this crate.
    pub(crate) fn fill(template: &str, parts: &[(&str, &Fragment)]) -> Self {
        let mut whole = Self::default();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, following) = after.split_once('}').unwrap_or((after, ""));
            let part = parts.iter().find(|(known, _)| *known == name);
            debug_assert!(
                part.is_some(),
                "the template names `{name}`, which it was not given"
            );
            whole.0.push(Piece::Text(before.to_owned()));
            whole
                .0
                .extend(part.into_iter().flat_map(|(_, part)| part.0.iter().cloned()));
            rest = following;
        }
        whole.0.push(Piece::Text(rest.to_owned()));
        whole
    }

    /// How many values it binds.
    pub(crate) fn values(&self) -> usize {
        self.0
            .iter()
            .filter(|piece| matches!(piece, Piece::Value(_)))
            .count()
    }

    /// The statement, with the placeholders of `backend`.
    pub(crate) fn into_statement(self, backend: DbBackend) -> Statement {
        let mut sql = String::new();
        let mut values = Vec::new();
        for piece in self.0 {
            match piece {
                Piece::Text(text) => sql.push_str(&text),
                Piece::Value(value) => {
                    values.push(value);
                    match backend {
                        DbBackend::Postgres => {
                            sql.push('$');
                            sql.push_str(&values.len().to_string());
                        }
                        _ => sql.push('?'),
                    }
                }
            }
        }
        Statement::from_sql_and_values(backend, sql, values)
    }
}

/// The most sequences one statement names. Far below every bind limit (SQLite's 32,766 is the smallest), and small enough
/// that a `CASE` over all of them stays cheap.
pub(crate) const CHUNK: usize = 256;

/// The values as a list of 1, 2, 4, .. of them, the last one repeated: few distinct texts, so that the prepared statements
/// of a connection are found again.
pub(crate) fn padded<V: Into<Value> + Clone>(values: &[V]) -> Fragment {
    let length = values.len().next_power_of_two();
    let last = values.last();
    Fragment::list(
        values
            .iter()
            .chain(last.into_iter().cycle())
            .take(length)
            .map(|value| value.clone().into()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_in_the_order_of_the_text() {
        let list = padded(&[7_i64, 8, 9]);
        let whole = Fragment::fill(
            "a = {one} AND b IN ({list})",
            &[("list", &list), ("one", &Fragment::value(5_i64))],
        );
        let postgres = whole.clone().into_statement(DbBackend::Postgres);
        assert_eq!(postgres.sql, "a = $1 AND b IN ($2, $3, $4, $5)");
        assert_eq!(
            postgres.values.map(|values| values.0),
            Some([5_i64, 7, 8, 9, 9].map(Value::from).to_vec())
        );
        assert_eq!(
            whole.into_statement(DbBackend::Sqlite).sql,
            "a = ? AND b IN (?, ?, ?, ?)"
        );
    }

    #[test]
    fn no_sequences_are_no_values() {
        assert_eq!(padded::<i64>(&[]), Fragment::default());
    }
}
