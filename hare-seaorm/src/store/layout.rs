//! What the statements on an outbox table count on beside its columns: told to whoever checks the table.
//!
//! The migration crate makes it; that both say the same is tested in `tests/it/capture/check.rs`.

use sea_orm::DbBackend;

/// An index that must be there, or had better be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NeededIndex {
    pub(crate) columns: Vec<&'static str>,
    /// Without it, rows could be written that must not be.
    pub(crate) is_unique: bool,
    /// It holds only what is still of use, however much was delivered.
    pub(crate) is_partial: bool,
}

/// The indexes of an outbox whose idempotency keys are unique by the columns of `conflict`.
pub(crate) fn needed_indexes(backend: DbBackend, conflict: &[&'static str]) -> Vec<NeededIndex> {
    let index = |columns: &[&'static str]| NeededIndex {
        columns: columns.to_vec(),
        is_unique: false,
        is_partial: false,
    };
    let unique = |columns: &[&'static str]| NeededIndex {
        is_unique: true,
        ..index(columns)
    };
    let partial = |columns: &[&'static str]| NeededIndex {
        is_partial: true,
        ..index(columns)
    };
    let mut needed = vec![unique(&["id"])];
    if !conflict.is_empty() {
        needed.push(unique(conflict));
    }
    needed.push(index(&["topic", "sequence"]));
    if backend == DbBackend::MySql {
        needed.extend([
            index(&["published_at", "dead_lettered_at", "sequence"]),
            index(&["ordering_key", "published_at", "sequence"]),
        ]);
    } else {
        needed.extend([
            partial(&["sequence"]),
            partial(&["ordering_key", "sequence"]),
            partial(&["published_at"]),
            partial(&["dead_lettered_at"]),
        ]);
    }
    needed
}
