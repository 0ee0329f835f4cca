//! Own events whose writing is dropped at any await point: of several all or none, and the caller's other writes fare as the
//! transaction does.

use hare_seaorm::outbox::{enqueue, enqueue_many};
use hare_seaorm::{Error, OutboxMessage};
use hare_seaorm_tests::gate::{Gate, drop_after, slow_down};
use hare_seaorm_tests::shop::plain;
use hare_seaorm_tests::statements::Statements;
use hare_seaorm_tests::{Backend, Shop, TestDb, on_every_backend};
use sea_orm::{ActiveModelTrait, ConnectionTrait, Set, TransactionTrait};

/// Three statements: a key that is new, one without, one that is taken. Each round has names of its own, because work on a pool that
/// was dropped may end later.
fn several(round: usize) -> Vec<OutboxMessage> {
    let message = |name: &str| OutboxMessage::new(format!("{round}:{name}"), &1).unwrap();
    vec![
        message("a").idempotency_key(format!("{round}:a")),
        message("b"),
        message("c").idempotency_key("taken"),
        message("d").idempotency_key(format!("{round}:d")),
    ]
}

/// How many of them are new.
const NEW: i64 = 3;

async fn prepare(t: &TestDb) {
    t.execute("DELETE FROM plain").await;
    t.execute("DELETE FROM hare_outbox").await;
    enqueue(
        &t.db,
        OutboxMessage::new("c", &1).unwrap().idempotency_key("taken"),
    )
    .await
    .unwrap();
}

async fn insert<C: ConnectionTrait>(db: &C, name: &str) -> Result<plain::Model, sea_orm::DbErr> {
    let row = plain::ActiveModel {
        name: Set(name.to_owned()),
        ..Default::default()
    };
    row.insert(db).await
}

/// Runs `case` with every number of polls until the work ends by itself.
async fn at_every_await(t: &TestDb, mut case: impl AsyncFnMut(usize) -> bool) {
    slow_down(t, &[("hare_outbox", "INSERT")]).await;
    let mut polls = 0;
    loop {
        prepare(t).await;
        if case(polls).await {
            break;
        }
        polls += 1;
        assert!(polls < 500, "it never ends");
    }
    let least = if t.backend == Backend::Sqlite { 1 } else { 4 };
    assert!(polls >= least, "it was dropped at only {polls} points");
}

/// How many of a round's are there.
async fn written(t: &TestDb, round: usize) -> i64 {
    t.count(&format!("hare_outbox WHERE topic LIKE '{round}:%'"))
        .await
}

async fn dropped<C: ConnectionTrait>(gate: &Gate, polls: usize, db: &C) -> bool {
    drop_after(gate, polls, enqueue_many(db, several(polls)))
        .await
        .is_none()
}

on_every_backend! {
    // catalogue E2
    async fn on_the_pool_all_or_none_is_written_and_the_connection_clean(t: Shop) {
        slow_down(&t, &[("hare_outbox", "INSERT")]).await;
        let mut one = t.another_pool(1).await;
        let mut ended_statements = Statements::count(&mut one);
        for statements in 0.. {
            prepare(&t).await;
            ended_statements.mark_unchanged();
            let start = *ended_statements.borrow();
            let ended = tokio::select! {
                biased;
                _ = ended_statements.wait_for(|count| count - start >= statements) => false,
                result = enqueue_many(&one, several(statements)) => { result.unwrap(); true }
            };
            // The pool's only connection: a transaction left open in it would swallow this write.
            insert(&one, "after").await.unwrap();
            assert_eq!(t.count("plain").await, 1, "dropped after {statements} statements");
            let written = written(&t, statements).await;
            assert!(written == NEW || !ended && written == 0, "{written} after {statements} statements");
            if ended {
                assert!(statements >= 4, "it was dropped after {statements} statements at most");
                break;
            }
        }
    }

    // catalogue E2
    async fn a_transaction_of_ours_commits_all_or_nothing(t: Shop) {
        let (db, gate) = t.gated_pool(5).await;
        let mut refused = 0;
        at_every_await(&t, async |polls| {
            let txn = hare_seaorm::begin(&db).await.unwrap();
            insert(&txn, "before").await.unwrap();
            let was_dropped = dropped(&gate, polls, &txn).await;
            let committed = txn.commit().await;
            if let Err(error) = &committed {
                refused += 1;
                assert!(was_dropped);
                assert!(Error::find(error).is_some_and(Error::is_retryable), "{error:?}");
            }
            assert_eq!(t.count("plain").await, i64::from(committed.is_ok()), "dropped after {polls} polls");
            let written = written(&t, polls).await;
            assert!(written == NEW && committed.is_ok() || written == 0, "{written} after {polls} polls");
            !was_dropped
        })
        .await;
        assert!(refused > 0, "it was never cut between its statements");
    }

    // catalogue E2, Q7
    async fn a_nested_transaction_of_ours_is_lost_alone(t: Shop) {
        let (db, gate) = t.gated_pool(5).await;
        at_every_await(&t, async |polls| {
            let outer = hare_seaorm::begin(&db).await.unwrap();
            insert(&outer, "before").await.unwrap();
            let inner = outer.begin().await.unwrap();
            let was_dropped = dropped(&gate, polls, &inner).await;
            let committed = inner.commit().await;
            insert(&outer, "after").await.unwrap();
            outer.commit().await.unwrap();
            assert_eq!(t.count("plain").await, 2, "dropped after {polls} polls: {committed:?}");
            let written = written(&t, polls).await;
            assert!(written == NEW && committed.is_ok() || written == 0, "{written} after {polls} polls");
            !was_dropped
        })
        .await;
    }

    // catalogue D5
    async fn one_event_on_the_pool_is_there_or_not_and_its_key_with_it(t: Shop) {
        let (one, gate) = t.gated_pool(1).await;
        slow_down(&t, &[("hare_outbox", "INSERT")]).await;
        for polls in 0.. {
            prepare(&t).await;
            let message = || OutboxMessage::new(format!("{polls}:a"), &1).unwrap().idempotency_key(format!("{polls}:a"));
            let ended = drop_after(&gate, polls, enqueue(&one, message())).await.is_some();
            insert(&one, "after").await.unwrap();
            let again = enqueue(&one, message()).await.unwrap();
            assert!(!(ended && again.is_new));
            assert_eq!((t.count("plain").await, written(&t, polls).await), (1, 1), "dropped after {polls} polls");
            if ended {
                break;
            }
        }
    }
}
