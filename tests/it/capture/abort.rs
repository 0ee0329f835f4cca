//! A captured write that is dropped at any await point: never a row without its event or the reverse, and the caller's other
//! writes fare as the transaction does.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use hare_seaorm::Error;
use hare_seaorm_tests::shop::{plain, widget};
use hare_seaorm_tests::{Shop, TestDb, on_every_backend};
use sea_orm::{ActiveModelTrait, ConnectionTrait, DbErr, EntityTrait, Set, TransactionTrait, Unchanged};

type Widget = widget::both::ActiveModel;

/// Polls `work` as a runtime would, and drops it the `polls`-th time that it is pending. `None` if it was dropped.
async fn drop_after<T>(polls: usize, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut left = polls;
    poll_fn(move |context| match work.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

fn own(name: &str) -> plain::ActiveModel {
    plain::ActiveModel { name: Set(name.to_owned()), ..Default::default() }
}

/// The three writes whose halves could part.
#[derive(Debug, Clone, Copy)]
enum Write {
    Insert,
    Update,
    Delete,
}

const WRITES: [Write; 3] = [Write::Insert, Write::Update, Write::Delete];

impl Write {
    async fn run<C: ConnectionTrait>(self, db: &C, id: i32) -> Result<(), DbErr> {
        match self {
            Self::Insert => Widget { id: Set(id), name: Set("new".to_owned()), ..Default::default() }.insert(db).await.map(drop),
            Self::Update => Widget { id: Unchanged(id), name: Set("changed".to_owned()), ..Default::default() }.update(db).await.map(drop),
            Self::Delete => Widget { id: Unchanged(id), ..Default::default() }.delete(db).await.map(drop),
        }
    }

    /// The row before the write, and no event.
    async fn prepare(self, t: &TestDb) -> i32 {
        t.execute("DELETE FROM plain").await;
        t.execute("DELETE FROM widget").await;
        if !matches!(self, Self::Insert) {
            Widget { id: Set(1), name: Set("old".to_owned()), ..Default::default() }.insert(&t.db).await.unwrap();
        }
        t.execute("DELETE FROM hare_outbox").await;
        1
    }

    async fn happened(self, t: &TestDb) -> bool {
        let row = widget::both::Entity::find_by_id(1).one(&t.db).await.unwrap();
        match self {
            Self::Insert => row.is_some(),
            Self::Update => row.expect("the row stays").name == "changed",
            Self::Delete => row.is_none(),
        }
    }
}

/// Row and event are there or neither is.
async fn assert_whole(write: Write, polls: usize, t: &TestDb) {
    let events = t.events().await;
    assert_eq!(events.len(), usize::from(write.happened(t).await), "{write:?} dropped after {polls} polls: {events:#?}");
}

/// Runs `case` with every number of polls until the write ends by itself, and says how many there were.
async fn at_every_await<F>(write: Write, t: &TestDb, mut case: F)
where
    F: AsyncFnMut(usize) -> bool,
{
    let mut polls = 0;
    loop {
        write.prepare(t).await;
        if case(polls).await {
            break;
        }
        polls += 1;
        assert!(polls < 500, "{write:?} never ends");
    }
    assert!(polls >= 3, "{write:?} was dropped at only {polls} points");
}

on_every_backend! {
    // catalogue G35
    async fn on_the_pool_it_is_whole_and_the_connection_clean(t: Shop) {
        let one = t.another_pool(1).await;
        for write in WRITES {
            at_every_await(write, &t, async |polls| {
                let ended = drop_after(polls, write.run(&one, 1)).await.is_some();
                // The pool's only connection: a transaction left open in it would swallow this write.
                own("after").insert(&one).await.unwrap();
                assert_eq!(t.count("plain").await, 1, "{write:?} dropped after {polls} polls");
                assert_whole(write, polls, &t).await;
                ended
            })
            .await;
        }
    }

    // catalogue G35
    async fn a_transaction_of_ours_does_not_commit_after_it(t: Shop) {
        for write in WRITES {
            let mut refused = 0;
            at_every_await(write, &t, async |polls| {
                let txn = hare_seaorm::begin(&t.db).await.unwrap();
                own("before").insert(&txn).await.unwrap();
                let ended = drop_after(polls, write.run(&txn, 1)).await.is_some();
                let after = own("after").insert(&txn).await;
                let committed = txn.commit().await;
                if let Err(error) = &committed {
                    refused += 1;
                    assert!(after.is_err(), "a spoiled transaction takes no further write");
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
    async fn a_nested_transaction_of_ours_is_lost_alone(t: Shop) {
        for write in WRITES {
            at_every_await(write, &t, async |polls| {
                let outer = hare_seaorm::begin(&t.db).await.unwrap();
                own("before").insert(&outer).await.unwrap();
                let inner = outer.begin().await.unwrap();
                own("inside").insert(&inner).await.unwrap();
                let ended = drop_after(polls, write.run(&inner, 1)).await.is_some();
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
        for write in WRITES {
            at_every_await(write, &t, async |polls| {
                let txn = hare_seaorm::begin(&t.db).await.unwrap();
                own("before").insert(&txn).await.unwrap();
                let ended = drop_after(polls, write.run(&txn, 1)).await.is_some();
                txn.rollback().await.unwrap();
                assert_eq!(t.count("plain").await, 0, "{write:?} dropped after {polls} polls");
                assert_eq!((write.happened(&t).await, t.events().await), (false, vec![]));

                let plain = t.db.begin().await.unwrap();
                own("before").insert(&plain).await.unwrap();
                let _ = drop_after(polls, write.run(&plain, 1)).await;
                own("after").insert(&plain).await.unwrap();
                plain.rollback().await.unwrap();
                assert_eq!(t.count("plain").await, 0, "{write:?} dropped after {polls} polls");
                assert_eq!((write.happened(&t).await, t.events().await), (false, vec![]));
                ended
            })
            .await;
        }
    }

    // catalogue G35
    async fn a_plain_transaction_that_commits_keeps_the_callers_other_writes(t: Shop) {
        // Named exception: here the row itself may be left without its event, which nothing can prevent.
        for write in WRITES {
            at_every_await(write, &t, async |polls| {
                let txn = t.db.begin().await.unwrap();
                own("before").insert(&txn).await.unwrap();
                let ended = drop_after(polls, write.run(&txn, 1)).await.is_some();
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

    async fn a_nested_begin_that_is_dropped_forbids_the_commit(t: Shop) {
        let mut polls = 0;
        loop {
            t.execute("DELETE FROM plain").await;
            let txn = hare_seaorm::begin(&t.db).await.unwrap();
            own("before").insert(&txn).await.unwrap();
            let began = drop_after(polls, txn.begin()).await;
            let ended = began.is_some();
            drop(began);
            let committed = txn.commit().await;
            assert_eq!(committed.is_ok(), ended, "{committed:?}");
            assert_eq!(t.count("plain").await, i64::from(ended));
            if ended {
                break;
            }
            polls += 1;
        }
        assert!(polls > 0);
    }

    async fn a_begin_that_is_dropped_leaves_the_pool_clean(t: Shop) {
        let one = t.another_pool(1).await;
        for polls in 0..10 {
            let began = drop_after(polls, hare_seaorm::begin(&one)).await;
            drop(began);
            t.execute("DELETE FROM plain").await;
            own("after").insert(&one).await.unwrap();
            assert_eq!(t.count("plain").await, 1, "dropped after {polls} polls");
        }
    }
}
