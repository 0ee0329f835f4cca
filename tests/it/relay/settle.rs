//! What is recorded of a delivery, and what is not.

use std::sync::Arc;
use std::time::Duration;

use hare_seaorm::delivery::DeliveryError;
use hare_seaorm::outbox::Model;
use hare_seaorm::{CallableDelivery, Error, MemoryDelivery};
use hare_seaorm_tests::{Backend, TestDb, on_every_backend};

use super::bench::{
    MINUTE, SECOND, asking, at, foreign_token, meddle, relay, relay_with_clock, row, set, within, write_keys,
};
use super::logs;

/// Steals an event from the relay that delivers it.
async fn steal(t: &TestDb, sequence: i64) {
    let until = at(t, 3600.0);
    let token = foreign_token(t);
    set(
        t,
        sequence,
        &format!("lease_token = {token}, lease_until = {until}, leased_by = 'the thief'"),
    )
    .await;
}

on_every_backend! {
    // catalogue J6
    async fn a_success_keeps_what_is_known_of_earlier_failures(t: TestDb) {
        let [event] = write_keys(&t, ["a"]).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_next(1);
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        relay.poll_once().await.unwrap();
        let failed = row(&t, event).await;
        assert_eq!((failed.attempts, failed.lease_token, failed.lease_until, failed.leased_by), (1, None, None, None));
        assert!(failed.last_error.is_some() && failed.next_attempt_at.is_some());
        clock.advance(2 * SECOND);
        relay.poll_once().await.unwrap();
        let published = row(&t, event).await;
        assert!(published.published_at.is_some());
        assert_eq!((published.attempts, published.last_error, published.next_attempt_at), (1, failed.last_error, failed.next_attempt_at));
        assert_eq!((published.lease_token, published.lease_until, published.leased_by, published.claims), (None, None, None, 0));
    }

    // catalogue J7
    async fn a_success_is_recorded_although_the_lease_was_lost(t: TestDb) {
        let [event] = write_keys(&t, ["a"]).await;
        let (delivery, mut sends) = asking();
        let relay = relay(&t.db, delivery);
        let polling = tokio::spawn(async move { relay.poll_once().await });
        let send = sends.next().await;
        steal(&t, event).await;
        send.answer.send(Ok(())).unwrap();
        assert_eq!(polling.await.unwrap().unwrap().delivered, 1);
        let published = row(&t, event).await;
        assert!(published.published_at.is_some());
        assert_eq!(published.lease_token, None);
    }

    // catalogue J7
    async fn the_first_publication_time_stays(t: TestDb) {
        let [event] = write_keys(&t, ["a"]).await;
        let (delivery, mut sends) = asking();
        let relay = relay(&t.db, delivery);
        let polling = tokio::spawn(async move { relay.poll_once().await });
        let send = sends.next().await;
        set(&t, event, &format!("published_at = {}", at(&t, -1000.0))).await;
        let by_hand = row(&t, event).await.published_at;
        send.answer.send(Ok(())).unwrap();
        polling.await.unwrap().unwrap();
        assert_eq!(row(&t, event).await.published_at, by_hand);
    }

    async fn a_dead_letter_that_is_delivered_after_all_is_none_any_more(t: TestDb) {
        let [event] = write_keys(&t, ["a"]).await;
        let (delivery, mut sends) = asking();
        let relay = relay(&t.db, delivery);
        let polling = tokio::spawn(async move { relay.poll_once().await });
        let send = sends.next().await;
        set(&t, event, &format!("dead_lettered_at = {}, lease_token = NULL", at(&t, 0.0))).await;
        send.answer.send(Ok(())).unwrap();
        polling.await.unwrap().unwrap();
        let row = row(&t, event).await;
        assert!(row.published_at.is_some() && row.dead_lettered_at.is_none());
    }

    // catalogue J8
    async fn a_failure_after_the_lease_was_lost_changes_nothing_and_is_not_told(t: TestDb) {
        logs::listen();
        let [stolen, published, own] = write_keys(&t, [""; 3]).await;
        let (delivery, mut sends) = asking();
        let relay = relay(&t.db, delivery);
        let polling = tokio::spawn(async move { relay.poll_once().await });
        let sends = [sends.next().await, sends.next().await, sends.next().await];
        let ids = sends.each_ref().map(|send| send.event.id);
        steal(&t, stolen).await;
        set(&t, published, &format!("published_at = {}", at(&t, 0.0))).await;
        let before = row(&t, stolen).await;
        for send in sends {
            send.answer.send(Err(DeliveryError::failed("refused"))).unwrap();
        }
        let outcome = polling.await.unwrap().unwrap();
        assert_eq!((outcome.claimed, outcome.failed, outcome.dead_lettered), (3, 1, 0));
        assert_eq!(row(&t, stolen).await, before);
        assert_eq!((row(&t, published).await.attempts, row(&t, own).await.attempts), (0, 1));
        let told: Vec<usize> = ids.iter().map(|id| logs::about(id).len()).collect();
        assert_eq!(told, [0, 0, 1]);
    }

    async fn events_are_not_given_back_once_another_holds_them(t: TestDb) {
        let [head, behind] = write_keys(&t, ["a", "a"]).await;
        let (delivery, mut sends) = asking();
        let relay = relay(&t.db, delivery);
        let polling = tokio::spawn(async move { relay.poll_once().await });
        let send = sends.next().await;
        assert_eq!(send.event.sequence, head);
        steal(&t, behind).await;
        let before = row(&t, behind).await;
        send.answer.send(Err(DeliveryError::failed("refused"))).unwrap();
        polling.await.unwrap().unwrap();
        assert_eq!(row(&t, behind).await, before);
    }

    // catalogue J9
    async fn a_failed_event_waits_twice_as_long_each_time_up_to_the_limit(t: TestDb) {
        let [event] = write_keys(&t, ["a"]).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_when(|_: &Model| Some(DeliveryError::failed("refused")));
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        let relay = relay.retry_base(10 * SECOND).retry_max(25 * SECOND);
        let mut shifted = 0;
        for (attempt, wait) in [(1, 10), (2, 20), (3, 25)] {
            assert_eq!(relay.poll_once().await.unwrap().failed, 1);
            let failed = row(&t, event).await;
            assert_eq!((failed.attempts, failed.last_error.as_deref()), (attempt, Some("refused")));
            let next = failed.next_attempt_at.unwrap() - failed.created_at - chrono::TimeDelta::seconds(shifted);
            assert!((wait..wait + 15).contains(&next.num_seconds()), "attempt {attempt}: {next}");
            assert_eq!(relay.poll_once().await.unwrap().claimed, 0);
            clock.advance(Duration::from_secs(40));
            shifted += 40;
        }
    }

    // catalogue J11, L4
    async fn an_event_that_failed_for_the_last_time_is_a_dead_letter(t: TestDb) {
        logs::listen();
        let [event, behind] = write_keys(&t, ["a", "a"]).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_when(|_: &Model| Some(DeliveryError::failed("refused")));
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        let relay = relay.max_delivery_attempts(3);
        for _ in 0..2 {
            let outcome = relay.poll_once().await.unwrap();
            assert_eq!((outcome.failed, outcome.dead_lettered, outcome.released), (1, 0, 1));
            clock.advance(MINUTE);
        }
        let outcome = relay.poll_once().await.unwrap();
        assert_eq!((outcome.failed, outcome.dead_lettered, outcome.released), (0, 1, 1));
        let dead = row(&t, event).await;
        assert!(dead.dead_lettered_at.is_some());
        assert_eq!((dead.attempts, dead.next_attempt_at, dead.lease_token, dead.releases_key), (3, None, None, false));
        receiver.recover();
        clock.advance(60 * MINUTE);
        assert_eq!(relay.poll_once().await.unwrap().claimed, 0, "it holds its key");
        assert_eq!(row(&t, behind).await.attempts, 0);
        let levels: Vec<_> = logs::about(&dead.id).into_iter().map(|line| line.level).collect();
        assert_eq!(levels, [tracing::Level::WARN, tracing::Level::WARN, tracing::Level::ERROR]);
    }

    // catalogue J11
    async fn an_events_own_number_of_attempts_counts_first(t: TestDb) {
        let [once, often] = write_keys(&t, ["", ""]).await;
        set(&t, once, "max_attempts = 1").await;
        set(&t, often, "max_attempts = 100").await;
        let receiver = MemoryDelivery::new();
        receiver.fail_next(2);
        let outcome = relay(&t.db, receiver.clone()).max_delivery_attempts(2).poll_once().await.unwrap();
        assert_eq!((outcome.failed, outcome.dead_lettered), (1, 1));
        assert!(row(&t, once).await.dead_lettered_at.is_some());
        assert!(row(&t, often).await.next_attempt_at.is_some());
    }

    // catalogue J12
    async fn the_last_error_is_the_errors_text_cut_and_without_nul(t: TestDb) {
        let [long, nul, silent] = write_keys(&t, [""; 3]).await;
        #[derive(Debug)]
        struct Silent;
        impl std::fmt::Display for Silent {
            fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                Ok(())
            }
        }
        impl std::error::Error for Silent {}
        let delivery = CallableDelivery::new(move |event: Model| async move {
            Err::<(), _>(if event.sequence == long {
                DeliveryError::failed("ü".repeat(5000))
            } else if event.sequence == nul {
                DeliveryError::failed("before\0after")
            } else {
                DeliveryError::failed(Silent)
            })
        });
        assert_eq!(relay(&t.db, delivery).poll_once().await.unwrap().failed, 3);
        assert_eq!(row(&t, long).await.last_error, Some("ü".repeat(4000)));
        assert_eq!(row(&t, nul).await.last_error.as_deref(), Some("before\\0after"));
        let silent = row(&t, silent).await.last_error.unwrap();
        assert!(silent.ends_with("::Silent"), "{silent}");
    }

    async fn a_receiver_may_ask_for_a_later_try(t: TestDb) {
        let [event] = write_keys(&t, [""]).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_next_with(DeliveryError::failed("busy").retry_after(MINUTE));
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        relay.poll_once().await.unwrap();
        clock.advance(50 * SECOND);
        assert_eq!(relay.poll_once().await.unwrap().claimed, 0);
        clock.advance(11 * SECOND);
        assert_eq!(relay.poll_once().await.unwrap().delivered, 1);
        assert_eq!(row(&t, event).await.attempts, 1);
    }

    // catalogue Q6, L5
    async fn what_cannot_be_recorded_is_an_error_of_the_poll_and_delivered_again(t: TestDb) {
        let [event] = write_keys(&t, ["a"]).await;
        let (delivery, mut sends) = asking();
        let (relay, clock) = relay_with_clock(&t.db, delivery);
        let relay = std::sync::Arc::new(relay);
        let poll = || {
            let relay = std::sync::Arc::clone(&relay);
            tokio::spawn(async move { relay.poll_once().await })
        };
        let polling = poll();
        let first = sends.next().await;
        t.execute("ALTER TABLE hare_outbox RENAME TO elsewhere").await;
        first.answer.send(Ok(())).unwrap();
        let error = polling.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Database { during: "recording deliveries", .. }), "{error:?}");
        t.execute("ALTER TABLE elsewhere RENAME TO hare_outbox").await;
        clock.advance(2 * MINUTE);
        let polling = poll();
        let second = sends.next().await;
        assert_eq!(second.event.id, first.event.id);
        assert_eq!(second.event.claims, 2, "the first claim ended without an outcome");
        second.answer.send(Ok(())).unwrap();
        assert_eq!(within(polling).await.unwrap().unwrap().delivered, 1);
        assert!(row(&t, event).await.published_at.is_some());
    }

    // catalogue R3
    async fn a_poll_tells_what_it_did_and_its_own_failure(t: TestDb) {
        let [_, failing, _] = write_keys(&t, [""; 3]).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_when(move |event: &Model| (event.sequence == failing).then(|| DeliveryError::failed("refused")));
        let relay = relay(&t.db, receiver.clone());
        let outcome = relay.poll_once().await.unwrap();
        assert_eq!((outcome.claimed, outcome.delivered), (3, 2));
        t.execute("DROP TABLE hare_outbox").await;
        assert!(matches!(relay.poll_once().await, Err(Error::Database { during: "claiming events", .. })));
    }

    async fn a_flush_drains_what_is_due_up_to_its_limit(t: TestDb) {
        write_keys(&t, ["a", "a", "a", "b", "", "", ""]).await;
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone()).batch_size(2);
        let outcome = relay.flush(3).await.unwrap();
        assert_eq!((outcome.claimed, outcome.delivered), (3, 3));
        receiver.fail_next(1);
        let outcome = relay.flush(1000).await.unwrap();
        assert_eq!((outcome.claimed, outcome.delivered, outcome.failed), (4, 3, 1));
        assert_eq!(relay.flush(1000).await.unwrap(), Default::default());
    }
}

#[tokio::test]
async fn long_batches_are_settled_in_chunks() {
    let t = TestDb::new(Backend::Sqlite).await;
    for _ in 0..30 {
        write_keys(&t, [""; 20]).await;
    }
    let receiver = MemoryDelivery::new();
    receiver.fail_when(|event: &Model| (event.sequence % 2 == 0).then(|| DeliveryError::failed("refused")));
    let outcome = relay(&t.db, receiver.clone())
        .batch_size(1000)
        .poll_once()
        .await
        .unwrap();
    assert_eq!(
        (outcome.claimed, outcome.delivered, outcome.failed),
        (600, 300, 300)
    );
    let rows = t.outbox().await;
    assert!(
        rows.iter()
            .all(|row| (row.sequence % 2 == 0) == row.published_at.is_none())
    );
    assert!(
        rows.iter()
            .all(|row| row.lease_token.is_none() && (row.attempts == 1) == row.published_at.is_none())
    );
}

/// A statement that fails once is tried again: else a delivery is repeated.
#[tokio::test]
async fn an_outcome_that_is_not_recorded_at_first_is_tried_again() {
    let t = Arc::new(TestDb::new(Backend::Sqlite).await);
    let [event] = write_keys(&t, [""]).await;
    t.execute(
        "CREATE TRIGGER refuses BEFORE UPDATE OF published_at ON hare_outbox BEGIN SELECT RAISE(ABORT, 'not now'); END",
    )
    .await;
    let mut db = t.another_pool(2).await;
    meddle(&mut db, &t, "published_at = ", "DROP TRIGGER refuses".to_owned());
    let outcome = relay(&db, MemoryDelivery::new()).poll_once().await.unwrap();
    assert_eq!(outcome.delivered, 1);
    assert!(row(&t, event).await.published_at.is_some());
}
