//! Leases: renewed while an event is delivered, never taken back.

use std::sync::Arc;

use hare_seaorm::MemoryDelivery;
use hare_seaorm::delivery::DeliveryError;
use hare_seaorm_tests::{TestDb, on_every_backend};

use super::bench::{
    MINUTE, SECOND, Seen, asking, at, foreign_token, relay, relay_with_clock, row, sequences, set, within,
    write_keys,
};
use super::logs;

const RENEWAL: &str = "SET lease_until = ";

on_every_backend! {
    // catalogue J5
    async fn a_lease_is_renewed_three_times_per_length_while_delivering(t: TestDb) {
        let [event, behind] = write_keys(&t, ["a", "a"]).await;
        let mut db = t.another_pool(3).await;
        let mut seen = Seen::watch(&mut db);
        let (delivery, mut sends) = asking();
        let (first, clock) = relay_with_clock(&db, delivery);
        let first = first.lease(3 * MINUTE);
        let polling = tokio::spawn(async move { first.poll_once().await });
        let send = sends.next().await;
        let receiver = MemoryDelivery::new();
        let (second, others_clock) = relay_with_clock(&t.db, receiver.clone());
        for _ in 0..4 {
            let before = (row(&t, event).await.lease_until, row(&t, behind).await.lease_until);
            clock.advance(MINUTE + SECOND);
            seen.wait_for(RENEWAL).await;
            let after = (row(&t, event).await.lease_until, row(&t, behind).await.lease_until);
            assert!(after.0 > before.0 && after.1 > before.1, "{before:?} {after:?}");
            others_clock.advance(MINUTE);
            assert_eq!(second.poll_once().await.unwrap().claimed, 0);
        }
        send.answer.send(Ok(())).unwrap();
        sends.next().await.answer.send(Ok(())).unwrap();
        assert_eq!(within(polling).await.unwrap().unwrap().delivered, 2);
        assert_eq!(receiver.events(), []);
    }

    // catalogue J5
    async fn a_stolen_lease_is_not_taken_back_and_the_event_not_begun(t: TestDb) {
        logs::listen();
        let [event, behind] = write_keys(&t, ["a", "a"]).await;
        let mut db = t.another_pool(3).await;
        let mut seen = Seen::watch(&mut db);
        let (delivery, mut sends) = asking();
        let (relay, clock) = relay_with_clock(&db, delivery);
        let relay = relay.lease(3 * MINUTE);
        let polling = tokio::spawn(async move { relay.poll_once().await });
        let send = sends.next().await;
        let stolen = format!("lease_token = {}, lease_until = {}", foreign_token(&t), at(&t, 3600.0));
        set(&t, event, &stolen).await;
        set(&t, behind, &stolen).await;
        let before = [row(&t, event).await, row(&t, behind).await];
        clock.advance(MINUTE + SECOND);
        seen.wait_for(RENEWAL).await;
        let token = send.event.lease_token.unwrap();
        within(async {
            while logs::about(&token).is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!([row(&t, event).await, row(&t, behind).await], before);
        send.answer.send(Ok(())).unwrap();
        let outcome = within(polling).await.unwrap().unwrap();
        assert_eq!((outcome.claimed, outcome.delivered), (2, 1));
        assert!(sends.is_empty(), "the one behind is another's now");
        assert_eq!(row(&t, behind).await, before[1]);
    }

    // catalogue J5
    async fn a_renewal_that_failed_is_tried_again(t: TestDb) {
        let [event] = write_keys(&t, ["a"]).await;
        let mut db = t.another_pool(3).await;
        let mut seen = Seen::watch(&mut db);
        let (delivery, mut sends) = asking();
        let (relay, clock) = relay_with_clock(&db, delivery);
        let relay = relay.lease(3 * MINUTE);
        let polling = tokio::spawn(async move { relay.poll_once().await });
        let send = sends.next().await;
        t.execute("ALTER TABLE hare_outbox RENAME TO elsewhere").await;
        clock.advance(MINUTE + SECOND);
        seen.wait_for(RENEWAL).await;
        t.execute("ALTER TABLE elsewhere RENAME TO hare_outbox").await;
        let before = row(&t, event).await.lease_until;
        clock.advance(MINUTE + SECOND);
        seen.wait_for(RENEWAL).await;
        assert!(row(&t, event).await.lease_until > before);
        send.answer.send(Ok(())).unwrap();
        assert_eq!(within(polling).await.unwrap().unwrap().delivered, 1);
    }

    async fn an_event_whose_lease_has_run_out_is_not_begun(t: TestDb) {
        let [_, behind] = write_keys(&t, ["a", "a"]).await;
        let pool = t.another_pool(1).await;
        let (delivery, mut sends) = asking();
        let (relay, clock) = relay_with_clock(&pool, delivery);
        let relay = relay.lease(3 * MINUTE);
        let polling = tokio::spawn(async move { relay.poll_once().await });
        let send = sends.next().await;
        // No connection is left for a renewal.
        let held = sea_orm::TransactionTrait::begin(&pool).await.unwrap();
        clock.advance(4 * MINUTE);
        send.answer.send(Ok(())).unwrap();
        tokio::task::yield_now().await;
        held.rollback().await.unwrap();
        let outcome = within(polling).await.unwrap().unwrap();
        assert_eq!((outcome.delivered, outcome.released), (1, 1));
        assert_eq!(row(&t, behind).await.published_at, None);
    }

    // catalogue Q5
    async fn a_lease_that_ends_in_mid_delivery_gives_a_duplicate_and_one_publication(t: TestDb) {
        let [event] = write_keys(&t, ["a"]).await;
        let (delivery, mut sends) = asking();
        let first = Arc::new(relay(&t.db, delivery));
        let polling = tokio::spawn({
            let first = Arc::clone(&first);
            async move { first.poll_once().await }
        });
        let send = sends.next().await;
        let receiver = MemoryDelivery::new();
        let (second, clock) = relay_with_clock(&t.db, receiver.clone());
        clock.advance(2 * MINUTE);
        assert_eq!(second.poll_once().await.unwrap().delivered, 1);
        assert_eq!(sequences(&receiver.take()), [event]);
        let published = row(&t, event).await;
        send.answer.send(Err(DeliveryError::failed("too late"))).unwrap();
        let outcome = within(polling).await.unwrap().unwrap();
        assert_eq!((outcome.claimed, outcome.failed, outcome.dead_lettered), (1, 0, 0));
        assert_eq!(row(&t, event).await, published, "the late failure changes nothing");
    }
}
