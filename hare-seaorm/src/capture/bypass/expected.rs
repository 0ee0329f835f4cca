//! The statements that SeaORM runs between its two hooks, which are captured although they are not ours.
//!
//! Nothing ties a statement to the hooks around it. So the before-hook tells the very statement that SeaORM is about to run, text and
//! values, and the task it will come from; the first such statement is the one. The after-hook takes back what never came, because it
//! ran on a connection that no detector watches.
//!
//! A write whose future is dropped between the two leaves its statement expected: the task may run it once, unseen.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sea_orm::{ActiveModelTrait, DbBackend, Delete, EntityTrait, Insert, QueryTrait, Statement};

use crate::capture::declaration::Operation;
use crate::capture::registry::TableName;
use crate::connection::mark::Origin;

#[derive(Debug)]
struct Expected {
    origin: Origin,
    table: TableName,
    operation: Operation,
    /// What SeaORM will run, but for a RETURNING.
    statement: Statement,
    has_come: bool,
}

impl Expected {
    fn is(&self, seen: &Statement) -> bool {
        let rest = seen.sql.strip_prefix(&self.statement.sql);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" RETURNING "))
            && seen.values == self.statement.values
    }
}

/// How many detectors watch a connection. Without any, nothing is expected, and nothing is spent on it.
static DETECTORS: AtomicUsize = AtomicUsize::new(0);

/// Counted from its making to its end.
#[derive(Debug)]
pub(super) struct Watching(());

impl Watching {
    pub(super) fn begin() -> Self {
        DETECTORS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        DETECTORS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Of the oldest writes that were dropped half-way, no more than this are kept.
const MOST: usize = 1_024;

fn expected() -> MutexGuard<'static, VecDeque<Expected>> {
    static EXPECTED: Mutex<VecDeque<Expected>> = Mutex::new(VecDeque::new());
    EXPECTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// SeaORM is about to insert this.
pub(crate) fn expect_insert<A: ActiveModelTrait>(backend: DbBackend, active_model: &A) {
    if DETECTORS.load(Ordering::Relaxed) > 0 {
        let statement = Insert::one(active_model.clone()).build(backend);
        expect::<A::Entity>(Operation::Insert, statement);
    }
}

/// SeaORM is about to delete this.
pub(crate) fn expect_delete<A: ActiveModelTrait>(backend: DbBackend, active_model: &A) {
    if DETECTORS.load(Ordering::Relaxed) == 0 {
        return;
    }
    // Without a key SeaORM runs nothing.
    if let Ok(delete) = Delete::one::<A::Entity, A, A>(active_model.clone()).validate() {
        expect::<A::Entity>(Operation::Delete, delete.build(backend));
    }
}

fn expect<E: EntityTrait>(operation: Operation, statement: Statement) {
    let mut expected = expected();
    if expected.len() >= MOST {
        expected.pop_front();
    }
    expected.push_back(Expected {
        origin: Origin::current(),
        table: TableName::of::<E>(),
        operation,
        statement,
        has_come: false,
    });
}

/// SeaORM has run one: whatever of it is still expected is not any more.
pub(crate) fn expect_no_more<E: EntityTrait>(operation: Operation) {
    if DETECTORS.load(Ordering::Relaxed) == 0 {
        return;
    }
    let (origin, table) = (Origin::current(), TableName::of::<E>());
    let mut expected = expected();
    let is_of =
        |entry: &Expected| entry.origin == origin && entry.operation == operation && entry.table == table;
    let done = expected.iter().position(|entry| is_of(entry) && entry.has_come);
    if let Some(done) = done.or_else(|| expected.iter().position(is_of)) {
        expected.remove(done);
    }
}

/// Whether this statement of this task is expected, which it then is no more. No after-hook comes after one that failed.
pub(super) fn has_come(statement: &Statement, failed: bool) -> bool {
    let origin = Origin::current();
    let mut expected = expected();
    let is_it = |entry: &Expected| entry.origin == origin && !entry.has_come && entry.is(statement);
    let Some(at) = expected.iter().position(is_it) else {
        return false;
    };
    if failed {
        expected.remove(at);
    } else {
        expected[at].has_come = true;
    }
    true
}
