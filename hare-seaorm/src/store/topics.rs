//! A choice of topics as SQL.
//!
//! Compared to the letter everywhere, as [`TopicFilter::includes`] does: `LIKE` ignores case on SQLite and MySQL, and takes `_`
//! and `%` for more than they are. In forms that no index fits: a planner would else read a topic's whole past to find what
//! is pending of it. (PostgreSQL knows better for names, and has no index for `left`.)

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
    // Lengths in the unit that the function counts in.
    let (template, length, prefix_value) = match backend {
        // As bytes, because its texts end at a NUL for `substr`.
        DbBackend::Sqlite => (
            "substr(CAST({topic} AS BLOB), 1, {length}) = {prefix}",
            prefix.len(),
            Value::from(prefix.as_bytes().to_vec()),
        ),
        _ => (
            "left({topic}, {length}) = {prefix}",
            prefix.chars().count(),
            Value::from(prefix),
        ),
    };
    let length = Value::from(i32::try_from(length).unwrap_or(i32::MAX));
    Fragment::fill(
        template,
        &[
            ("topic", topic),
            ("length", &Fragment::value(length)),
            ("prefix", &Fragment::value(prefix_value)),
        ],
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
    fn patterns_are_bound_and_fit_no_index() {
        let (included, excluded) = (["a", "library.*", "b"], ["library.loan.*"]);
        assert_eq!(
            sql(DbBackend::Postgres, &included, &excluded),
            " AND (o.topic IN ($1, $2) OR left(o.topic, $3) = $4) AND NOT (left(o.topic, $5) = $6)"
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
