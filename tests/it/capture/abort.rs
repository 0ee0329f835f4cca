//! A captured write that is dropped at any await point: never a row without its event or the reverse, and the caller's other
//! writes fare as the transaction does.

use hare_seaorm::Error;
use hare_seaorm_tests::gate::{drop_after, slow_down};
use hare_seaorm_tests::shop::{plain, widget};
use hare_seaorm_tests::statements::Statements;
use hare_seaorm_tests::{Backend, Shop, TestDb, on_backends, on_every_backend};
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait, Set, TransactionTrait,
    Unchanged,
};

type Widget = widget::both::ActiveModel;

/// What SQLite is slow at.
const SLOW: [(&str, &str); 4] = [
    ("widget", "INSERT"),
    ("widget", "UPDATE"),
    ("widget", "DELETE"),
    ("hare_outbox", "INSERT"),
];

fn own(name: &str) -> plain::ActiveModel {
    plain::ActiveModel {
        name: Set(name.to_owned()),
        ..Default::default()
    }
}

/// The writes whose halves could part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    Insert,
    Update,
    Delete,
    GenericInsert,
    GenericUpdate,
    GenericDelete,
}

const WRITES: [Write; 3] = [Write::Insert, Write::Update, Write::Delete];

/// In a transaction, where generic code may insert and delete too.
const ALL_WRITES: [Write; 6] = [
    Write::Insert,
    Write::Update,
    Write::Delete,
    Write::GenericInsert,
    Write::GenericUpdate,
    Write::GenericDelete,
];

impl Write {
    async fn run<C: ConnectionTrait>(self, db: &C, id: i32) -> Result<(), DbErr> {
        let new = || Widget {
            id: Set(id),
            name: Set("new".to_owned()),
            ..Default::default()
        };
        let changed = || Widget {
            id: Unchanged(id),
            name: Set("changed".to_owned()),
            ..Default::default()
        };
        let gone = || Widget {
            id: Unchanged(id),
            ..Default::default()
        };
        match self {
            Self::Insert => new().insert(db).await.map(drop),
            Self::Update => changed().update(db).await.map(drop),
            Self::Delete => gone().delete(db).await.map(drop),
            Self::GenericInsert => ActiveModelTrait::insert(new(), db).await.map(drop),
            Self::GenericUpdate => ActiveModelTrait::update(changed(), db).await.map(drop),
            Self::GenericDelete => ActiveModelTrait::delete(gone(), db).await.map(drop),
        }
    }

    /// The row before the write, and no event.
    async fn prepare(self, t: &TestDb) -> i32 {
        t.execute("DELETE FROM plain").await;
        t.execute("DELETE FROM widget").await;
        if !matches!(self, Self::Insert | Self::GenericInsert) {
            Widget {
                id: Set(1),
                name: Set("old".to_owned()),
                ..Default::default()
            }
            .insert(&t.db)
            .await
            .unwrap();
        }
        t.execute("DELETE FROM hare_outbox").await;
        1
    }

    async fn happened(self, t: &TestDb) -> bool {
        let row = widget::both::Entity::find_by_id(1).one(&t.db).await.unwrap();
        match self {
            Self::Insert | Self::GenericInsert => row.is_some(),
            Self::Update | Self::GenericUpdate => row.expect("the row stays").name == "changed",
            Self::Delete | Self::GenericDelete => row.is_none(),
        }
    }
}

/// Row and event are there or neither is.
async fn assert_whole(write: Write, polls: usize, t: &TestDb) {
    let events = t.events().await;
    assert_eq!(
        events.len(),
        usize::from(write.happened(t).await),
        "{write:?} dropped after {polls} polls: {events:#?}"
    );
}

/// Runs `case` with every number of polls until the write ends by itself, and says how many there were.
async fn at_every_await<F>(write: Write, t: &TestDb, mut case: F)
where
    F: AsyncFnMut(usize) -> bool,
{
    slow_down(t, &SLOW).await;
    let mut polls = 0;
    loop {
        write.prepare(t).await;
        if case(polls).await {
            break;
        }
        polls += 1;
        assert!(polls < 500, "{write:?} never ends");
    }
    // A savepoint, at least one write, the event, the release; SQLite answers the quick ones before anybody waits.
    let least = if t.backend == Backend::Sqlite { 1 } else { 4 };
    assert!(polls >= least, "{write:?} was dropped at only {polls} points");
}

on_every_backend! {
    // catalogue G35
    async fn on_the_pool_it_is_whole_and_the_connection_clean(t: Shop) {
        slow_down(&t, &SLOW).await;
        let mut one = t.another_pool(1).await;
        let mut ended_statements = Statements::count(&mut one);
        for write in WRITES {
            for statements in 0.. {
                write.prepare(&t).await;
                ended_statements.mark_unchanged();
                let start = *ended_statements.borrow();
                let ended = tokio::select! {
                    biased;
                    _ = ended_statements.wait_for(|count| count - start >= statements) => false,
                    result = write.run(&one, 1) => { result.unwrap(); true }
                };
                // The pool's only connection: a transaction left open in it would swallow this write.
                own("after").insert(&one).await.unwrap();
                assert_eq!(t.count("plain").await, 1, "{write:?} dropped after {statements} statements");
                assert_whole(write, statements, &t).await;
                if ended {
                    assert!(statements >= 2, "{write:?} was dropped after {statements} statements at most");
                    break;
                }
            }
        }
    }

    // catalogue G35
    async fn on_the_pool_it_is_whole_at_every_await_of_the_caller(t: Shop) {
        let (one, gate) = t.gated_pool(1).await;
        for write in WRITES {
            slow_down(&t, &SLOW).await;
            for polls in 0.. {
                write.prepare(&t).await;
                let ended = drop_after(&gate, polls, write.run(&one, 1)).await.is_some();
                own("after").insert(&one).await.unwrap();
                assert_eq!(t.count("plain").await, 1, "{write:?} dropped after {polls} polls");
                assert_whole(write, polls, &t).await;
                if ended {
                    break;
                }
            }
        }
    }

    // catalogue G35
    async fn a_transaction_of_ours_does_not_commit_after_it(t: Shop) {
        let (db, gate) = t.gated_pool(5).await;
        for write in ALL_WRITES {
            let mut refused = 0;
            at_every_await(write, &t, async |polls| {
                let txn = hare_seaorm::begin(&db).await.unwrap();
                own("before").insert(&txn).await.unwrap();
                let ended = drop_after(&gate, polls, write.run(&txn, 1)).await.is_some();
                let after = own("after").insert(&txn).await;
                let committed = txn.commit().await;
                if let Err(error) = &committed {
                    refused += 1;
                    // Between two hooks, a further write cannot be told from SeaORM's own.
                    let is_generic = !WRITES.contains(&write);
                    assert!(after.is_err() || is_generic, "a spoiled transaction takes no further write");
                    assert!(!ended);
                    assert!(Error::find(error).is_some_and(Error::is_retryable), "{error:?}");
                }
                let kept = if committed.is_ok() { 2 } else { 0 };
                assert_eq!(t.count("plain").await, kept, "{write:?} dropped after {polls} polls: {committed:?}");
                assert_whole(write, polls, &t).await;
                ended
            })
            .await;
            assert!(refused > 0, "{write:?} was never cut between its row and its event");
        }
    }

    // catalogue G35
    async fn neither_does_one_whose_inner_transaction_was_passed_on(t: Shop) {
        async fn service(write: Write, txn: &DatabaseTransaction) -> Result<(), DbErr> {
            write.run(txn, 1).await
        }
        let (db, gate) = t.gated_pool(5).await;
        // SeaORM's own statement of a generic write is not ours to bring to its end there, which MariaDB needs.
        let writes = if t.backend == Backend::MariaDb { &WRITES[..] } else { &ALL_WRITES[..] };
        for write in writes.iter().copied() {
            let mut refused = 0;
            at_every_await(write, &t, async |polls| {
                let txn = hare_seaorm::begin(&db).await.unwrap();
                own("before").insert(&txn).await.unwrap();
                let ended = drop_after(&gate, polls, service(write, &txn)).await.is_some();
                let committed = txn.commit().await;
                refused += usize::from(committed.is_err());
                assert_eq!(t.count("plain").await, i64::from(committed.is_ok()), "{write:?} dropped after {polls} polls");
                assert_whole(write, polls, &t).await;
                ended
            })
            .await;
            assert!(refused > 0, "{write:?} was never cut between its row and its event");
        }
    }

    // catalogue G35
    async fn a_nested_transaction_of_ours_is_lost_alone(t: Shop) {
        let (db, gate) = t.gated_pool(5).await;
        for write in ALL_WRITES {
            at_every_await(write, &t, async |polls| {
                let outer = hare_seaorm::begin(&db).await.unwrap();
                own("before").insert(&outer).await.unwrap();
                let inner = outer.begin().await.unwrap();
                own("inside").insert(&inner).await.unwrap();
                let ended = drop_after(&gate, polls, write.run(&inner, 1)).await.is_some();
                let committed = inner.commit().await;
                own("after").insert(&outer).await.unwrap();
                outer.commit().await.unwrap();
                let kept = if committed.is_ok() { 3 } else { 2 };
                assert_eq!(t.count("plain").await, kept, "{write:?} dropped after {polls} polls: {committed:?}");
                assert_whole(write, polls, &t).await;
                ended
            })
            .await;
        }
    }

    // catalogue G35
    async fn a_rolled_back_transaction_keeps_nothing(t: Shop) {
        let (db, gate) = t.gated_pool(5).await;
        for write in ALL_WRITES {
            at_every_await(write, &t, async |polls| {
                let txn = hare_seaorm::begin(&db).await.unwrap();
                own("before").insert(&txn).await.unwrap();
                let ended = drop_after(&gate, polls, write.run(&txn, 1)).await.is_some();
                txn.rollback().await.unwrap();
                assert_eq!(t.count("plain").await, 0, "{write:?} dropped after {polls} polls");
                assert_eq!((write.happened(&t).await, t.events().await), (false, vec![]));

                if t.backend != Backend::MariaDb {
                    let plain = db.begin().await.unwrap();
                    own("before").insert(&plain).await.unwrap();
                    let _ = drop_after(&gate, polls, write.run(&plain, 1)).await;
                    own("after").insert(&plain).await.unwrap();
                    plain.rollback().await.unwrap();
                }
                assert_eq!(t.count("plain").await, 0, "{write:?} dropped after {polls} polls");
                assert_eq!((write.happened(&t).await, t.events().await), (false, vec![]));
                ended
            })
            .await;
        }
    }

    async fn a_nested_begin_that_is_dropped_leaves_the_outer_transaction_whole(t: Shop) {
        let (db, gate) = t.gated_pool(5).await;
        for polls in 0.. {
            t.execute("DELETE FROM plain").await;
            let txn = hare_seaorm::begin(&db).await.unwrap();
            own("before").insert(&txn).await.unwrap();
            let ended = drop_after(&gate, polls, txn.begin()).await.is_some();
            own("after").insert(&txn).await.unwrap();
            txn.commit().await.unwrap();
            assert_eq!(t.count("plain").await, 2, "dropped after {polls} polls");
            if ended {
                assert!(polls > 0 || t.backend == Backend::Sqlite);
                break;
            }
        }
    }

    async fn a_begin_that_is_dropped_leaves_the_pool_clean(t: Shop) {
        let (one, gate) = t.gated_pool(1).await;
        for polls in 0..10 {
            let began = drop_after(&gate, polls, hare_seaorm::begin(&one)).await;
            drop(began);
            t.execute("DELETE FROM plain").await;
            own("after").insert(&one).await.unwrap();
            assert_eq!(t.count("plain").await, 1, "dropped after {polls} polls");
        }
    }
}

// Not on MariaDB: sqlx's MySQL connection takes one statement's answer for another's once a statement on it was dropped, whoever
// wrote it. A transaction of ours ends such a connection; a plain one cannot be watched.
on_backends! { [postgres, sqlite]
    // catalogue G35
    async fn a_plain_transaction_that_commits_keeps_the_callers_other_writes(t: Shop) {
        let (db, gate) = t.gated_pool(5).await;
        // Named exception: here the row itself may be left without its event, which nothing can prevent.
        for write in WRITES {
            at_every_await(write, &t, async |polls| {
                let txn = db.begin().await.unwrap();
                own("before").insert(&txn).await.unwrap();
                let ended = drop_after(&gate, polls, write.run(&txn, 1)).await.is_some();
                own("after").insert(&txn).await.unwrap();
                txn.commit().await.unwrap();
                assert_eq!(t.count("plain").await, 2, "{write:?} dropped after {polls} polls");
                let events = t.events().await.len();
                assert!(events <= usize::from(write.happened(&t).await), "an event without its row");
                ended
            })
            .await;
        }
    }
}
