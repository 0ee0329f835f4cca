//! A choice of topics as SQL.
//!
//! Compared to the letter everywhere, as [`TopicFilter::includes`] does: `LIKE` ignores case on SQLite and MySQL, and takes `_`
//! and `%` for more than they are. On MySQL and SQLite in forms that no index fits: they would else read a topic's whole past to
//! find what is pending of it. PostgreSQL chooses by its statistics, which `starts_with` lets it use (`left` does not: it would
//! take every prefix for a rare one).

use sea_orm::{DbBackend, Value};

use super::sql::Fragment;
use crate::outbox::topics::{TopicFilter, TopicPattern};

/// ` AND ...`, or nothing where every topic is meant. `of`: the table's alias and a dot, or nothing.
pub(crate) fn and_topics(backend: DbBackend, of: &str, filter: &TopicFilter) -> Fragment {
    let topic = Fragment::text(match backend {
        DbBackend::MySql => format!("CONCAT({of}topic)"),
        DbBackend::Sqlite => format!("+{of}topic"),
        _ => format!("{of}topic"),
    });
    let bare = Fragment::text(format!("{of}topic"));
    let mut conditions = Fragment::default();
    if let Some(included) = &filter.included
        && !included.iter().any(TopicPattern::is_every_topic)
    {
        let any = any_of(backend, &topic, &bare, included);
        conditions = Fragment::fill(" AND ({any})", &[("any", &any)]);
    }
    if !filter.excluded.is_empty() {
        let any = any_of(backend, &topic, &bare, &filter.excluded);
        conditions = Fragment::joined(
            "",
            [conditions, Fragment::fill(" AND NOT ({any})", &[("any", &any)])],
        );
    }
    conditions
}

/// Whether one of the patterns matches. `topic`: the column in a form that no index fits.
fn any_of(backend: DbBackend, topic: &Fragment, bare: &Fragment, patterns: &[TopicPattern]) -> Fragment {
    let mut names = Vec::new();
    let mut parts = Vec::new();
    for pattern in patterns {
        match pattern {
            TopicPattern::Name(name) => names.push(Value::from(name.as_str())),
            TopicPattern::Prefix(prefix) => parts.push(begins_with(backend, bare, prefix)),
        }
    }
    if !names.is_empty() {
        let names = Fragment::list(names);
        let is_named = Fragment::fill("{topic} IN ({names})", &[("topic", topic), ("names", &names)]);
        parts.insert(0, is_named);
    }
    Fragment::joined(" OR ", parts)
}

fn begins_with(backend: DbBackend, topic: &Fragment, prefix: &str) -> Fragment {
    let length = |length| Fragment::value(i32::try_from(length).unwrap_or(i32::MAX));
    // Lengths in the unit that each function counts in.
    let (template, length, prefix) = match backend {
        DbBackend::Postgres => (
            "starts_with({topic}, {prefix})",
            Fragment::default(),
            Value::from(prefix),
        ),
        DbBackend::MySql => (
            "left({topic}, {length}) = {prefix}",
            length(prefix.chars().count()),
            Value::from(prefix),
        ),
        // As bytes, because its texts end at a NUL for `substr`.
        _ => (
            "substr(CAST({topic} AS BLOB), 1, {length}) = {prefix}",
            length(prefix.len()),
            Value::from(prefix.as_bytes().to_vec()),
        ),
    };
    let prefix = Fragment::value(prefix);
    Fragment::fill(
        template,
        &[("topic", topic), ("length", &length), ("prefix", &prefix)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(backend: DbBackend, included: &[&str], excluded: &[&str]) -> String {
        let patterns = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| TopicPattern::parse(text).unwrap())
                .collect()
        };
        let filter = TopicFilter {
            included: Some(patterns(included)),
            excluded: patterns(excluded),
        };
        and_topics(backend, "o.", &filter).into_statement(backend).sql
    }

    #[test]
    fn patterns_are_bound() {
        let (included, excluded) = (["a", "library.*", "b"], ["library.loan.*"]);
        assert_eq!(
            sql(DbBackend::Postgres, &included, &excluded),
            " AND (o.topic IN ($1, $2) OR starts_with(o.topic, $3)) AND NOT (starts_with(o.topic, $4))"
        );
        assert_eq!(
            sql(DbBackend::MySql, &included, &excluded),
            " AND (CONCAT(o.topic) IN (?, ?) OR left(o.topic, ?) = ?) AND NOT (left(o.topic, ?) = ?)"
        );
        assert_eq!(
            sql(DbBackend::Sqlite, &included, &excluded),
            " AND (+o.topic IN (?, ?) OR substr(CAST(o.topic AS BLOB), 1, ?) = ?) \
             AND NOT (substr(CAST(o.topic AS BLOB), 1, ?) = ?)"
        );
        assert_eq!(sql(DbBackend::Postgres, &["a", "*"], &[]), "");
    }
}
