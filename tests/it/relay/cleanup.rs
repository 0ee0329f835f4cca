//! Deleting old events.

use std::sync::Arc;
use std::time::Duration;

use hare_seaorm::{Error, MemoryDelivery, OutboxMessage, outbox};
use hare_seaorm_tests::{Backend, TestDb, on_every_backend};
use sea_orm::{ConnectionTrait, TransactionTrait};

use super::bench::{
    MINUTE, SECOND, Seen, at, meddle, relay, relay_with_clock, sequences, set, within, write, write_keys,
};

async fn published(t: &TestDb, sequence: i64, seconds: f64) {
    set(t, sequence, &format!("published_at = {}", at(t, seconds))).await;
}

async fn dead(t: &TestDb, sequence: i64, seconds: f64) {
    set(t, sequence, &format!("dead_lettered_at = {}", at(t, seconds))).await;
}

on_every_backend! {
    // catalogue K4
    async fn published_events_are_deleted_batch_by_batch_once_they_are_old_enough(t: TestDb) {
        let [old, older, oldest, recent, pending, given_up] = write_keys(&t, [""; 6]).await;
        published(&t, old, -3700.0).await;
        published(&t, older, -7200.0).await;
        published(&t, oldest, -720_000.0).await;
        published(&t, recent, -3500.0).await;
        dead(&t, given_up, -720_000.0).await;
        let mut db = t.another_pool(2).await;
        let mut seen = Seen::watch(&mut db);
        let relay = relay(&db, MemoryDelivery::new());
        assert_eq!(relay.cleanup_published(60 * MINUTE).batch_size(1).await.unwrap(), 3);
        assert_eq!(sequences(&t.outbox().await), [recent, pending, given_up]);
        let deletes = seen.drain().iter().filter(|sql| sql.starts_with("DELETE")).count();
        assert!(deletes >= 3, "one each: {deletes}");
        assert_eq!(relay.cleanup_published(60 * MINUTE).await.unwrap(), 0);
    }

    // catalogue K4
    async fn what_is_old_is_told_strictly_and_by_the_databases_clock(t: TestDb) {
        let [event] = write_keys(&t, [""]).await;
        let (relay, clock) = relay_with_clock(&t.db, MemoryDelivery::new());
        relay.flush(1).await.unwrap();
        assert_eq!(relay.cleanup_published(MINUTE).await.unwrap(), 0);
        clock.advance(MINUTE - SECOND);
        assert_eq!(relay.cleanup_published(MINUTE).await.unwrap(), 0);
        // Not by the clock of the row's writer.
        set(&t, event, &format!("created_at = {}", at(&t, -720_000.0))).await;
        assert_eq!(relay.cleanup_published(10 * MINUTE).await.unwrap(), 0);
        for beyond_all_time in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_secs(1 << 40)] {
            assert_eq!(relay.cleanup_published(beyond_all_time).await.unwrap(), 0);
            assert_eq!(relay.cleanup_dead_lettered(beyond_all_time).await.unwrap(), 0);
        }
        // Published now is not longer ago than nothing, unless time has passed.
        published(&t, event, 3600.0).await;
        assert_eq!(relay.cleanup_published(Duration::ZERO).await.unwrap(), 0);
        published(&t, event, 0.0).await;
        clock.advance(2 * SECOND);
        assert_eq!(relay.cleanup_published(MINUTE).await.unwrap(), 1);
    }

    // catalogue K5
    async fn removing_an_old_dead_letter_frees_its_key(t: TestDb) {
        let [old, behind, recent, held] = write_keys(&t, ["a", "a", "b", "b"]).await;
        dead(&t, old, -3700.0).await;
        dead(&t, recent, -3500.0).await;
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone());
        assert_eq!(relay.flush(100).await.unwrap().claimed, 0);
        assert_eq!(relay.cleanup_published(Duration::ZERO).await.unwrap(), 0);
        assert_eq!(relay.cleanup_dead_lettered(60 * MINUTE).batch_size(1).await.unwrap(), 1);
        relay.flush(100).await.unwrap();
        assert_eq!(sequences(&receiver.take()), [behind]);
        assert_eq!(sequences(&t.outbox().await), [behind, recent, held]);
    }

    // catalogue K6, I9
    async fn cleanups_honour_topics_and_exclusions(t: TestDb) {
        let mut kept = Vec::new();
        for (topic, stays) in [("a.x", false), ("a.secret.x", true), ("b", true), ("A.x", true), ("exact", false)] {
            for state in ["published_at", "dead_lettered_at"] {
                let sequence = write(&t, topic, None).await;
                set(&t, sequence, &format!("{state} = {}", at(&t, -100.0))).await;
                if stays {
                    kept.push(sequence);
                }
            }
        }
        let relay = relay(&t.db, MemoryDelivery::new()).topics(["a.*", "exact"]).exclude_topics(["a.secret.*"]);
        assert_eq!(relay.cleanup_published(SECOND).await.unwrap(), 2);
        assert_eq!(relay.cleanup_dead_lettered(SECOND).await.unwrap(), 2);
        assert_eq!(sequences(&t.outbox().await), kept);
    }

    // catalogue K6
    async fn the_batch_size_of_a_cleanup_has_a_range(t: TestDb) {
        let relay = relay(&t.db, MemoryDelivery::new());
        for bad in [0, 10_001] {
            for cleanup in [relay.cleanup_published(SECOND), relay.cleanup_dead_lettered(SECOND)] {
                match cleanup.batch_size(bad).await {
                    Err(Error::Config(error)) => assert_eq!(
                        error.problems,
                        [format!("the `batch_size` of the cleanup is {bad}: it must be from 1 to 10000")]
                    ),
                    other => panic!("it is refused: {other:?}"),
                }
            }
        }
        assert_eq!(relay.cleanup_published(SECOND).batch_size(10_000).await.unwrap(), 0);
    }

    // catalogue K6
    async fn a_running_relay_deletes_nothing_by_itself(t: TestDb) {
        let [old, given_up, next] = write_keys(&t, [""; 3]).await;
        published(&t, old, -720_000.0).await;
        dead(&t, given_up, -720_000.0).await;
        let receiver = MemoryDelivery::new();
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        let handle = relay.start().unwrap();
        within(receiver.wait_for(1)).await;
        clock.advance(1000 * MINUTE);
        within(handle.stop()).await;
        assert_eq!(sequences(&t.outbox().await), [old, given_up, next]);
    }

    async fn a_cleanup_does_not_wait_for_a_writer(t: TestDb) {
        if t.backend == Backend::Sqlite {
            return; // it has one writer
        }
        let [old] = write_keys(&t, [""]).await;
        published(&t, old, -100.0).await;
        let writer = t.db.begin().await.unwrap();
        outbox::enqueue(&writer, OutboxMessage::new("a", &1).unwrap()).await.unwrap();
        let relay = relay(&t.db, MemoryDelivery::new());
        let cleaning = async { relay.cleanup_published(SECOND).await };
        assert_eq!(within(cleaning).await.unwrap(), 1);
        // And the other way round: nothing that it locked is in a writer's way.
        outbox::enqueue(&writer, OutboxMessage::new("a", &1).unwrap()).await.unwrap();
        writer.commit().await.unwrap();
    }

    async fn a_dead_letter_that_is_retried_meanwhile_stays(t: TestDb) {
        let t = Arc::new(t);
        let [event] = write_keys(&t, [""]).await;
        dead(&t, event, -100.0).await;
        let retried = format!("UPDATE hare_outbox SET dead_lettered_at = NULL WHERE sequence = {event}");
        match t.backend {
            // Found, and retried before it is deleted.
            Backend::MariaDb => {
                let mut db = t.another_pool(2).await;
                meddle(&mut db, &t, "SELECT o.sequence FROM", retried);
                assert_eq!(relay(&db, MemoryDelivery::new()).cleanup_dead_lettered(SECOND).await.unwrap(), 0);
            }
            // One statement: the retry has not committed when it looks.
            Backend::Postgres => {
                let operator = t.db.begin().await.unwrap();
                operator.execute_unprepared(&retried).await.unwrap();
                let relay = relay(&t.db, MemoryDelivery::new());
                let cleaning = async { relay.cleanup_dead_lettered(SECOND).await };
                assert_eq!(within(cleaning).await.unwrap(), 0, "and it does not wait");
                operator.commit().await.unwrap();
            }
            Backend::Sqlite => return, // it has one writer
        }
        assert_eq!(sequences(&t.outbox().await), [event]);
    }
}
