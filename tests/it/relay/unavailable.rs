//! A receiver that cannot be reached is not one that refuses.

use std::time::Duration;

use hare_seaorm::MemoryDelivery;
use hare_seaorm::delivery::DeliveryError;
use hare_seaorm::outbox::Model;
use hare_seaorm_tests::{TestDb, on_every_backend};

use super::bench::{MINUTE, SECOND, at, relay_with_clock, row, sequences, set, within, write_keys};
use super::logs;

fn away(_: &Model) -> Option<DeliveryError> {
    Some(DeliveryError::unavailable("connection refused"))
}

on_every_backend! {
    async fn an_unreachable_receiver_counts_nothing_and_is_asked_by_one_event_after_a_pause(t: TestDb) {
        let all = write_keys(&t, ["a", "a", "b", ""]).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_when(away);
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        let relay = relay.concurrency(1);
        let outcome = relay.poll_once().await.unwrap();
        assert_eq!((outcome.claimed, outcome.released, outcome.failed), (4, 4, 0));
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            clock.advance(Duration::from_secs(pause) - Duration::from_millis(500));
            assert_eq!(relay.poll_once().await.unwrap().claimed, 0, "within {pause} s");
            clock.advance(Duration::from_millis(501));
            assert_eq!(relay.poll_once().await.unwrap().claimed, 1, "after {pause} s");
        }
        for sequence in all {
            let row = row(&t, sequence).await;
            assert_eq!((row.attempts, row.claims, row.last_error, row.lease_token), (0, 0, None, None));
        }
        receiver.recover();
        clock.advance(MINUTE);
        assert_eq!(relay.poll_once().await.unwrap().delivered, 1);
        assert_eq!(relay.poll_once().await.unwrap().delivered, 3);
        let delivered = sequences(&receiver.take());
        assert_eq!(delivered[0], all[0]);
        assert_eq!(delivered.len(), 4);
    }

    async fn the_log_says_why_and_no_more_than_is_kept(t: TestDb) {
        logs::listen();
        write_keys(&t, [""]).await;
        let receiver = MemoryDelivery::new();
        let mark = sea_orm::prelude::Uuid::now_v7().to_string();
        let text = format!("{mark} {}", "é".repeat(10_000));
        receiver.fail_when(move |_: &Model| Some(DeliveryError::unavailable(text.clone())));
        relay_with_clock(&t.db, receiver).0.poll_once().await.unwrap();
        let lines = logs::about(&mark);
        assert_eq!((lines.len(), lines[0].name), (1, "hare.receiver_unavailable"));
        assert_eq!(lines[0].fields["error"].chars().count(), 4000);
    }

    async fn what_was_delivered_before_the_receiver_went_away_is_recorded(t: TestDb) {
        let [first, second, third] = write_keys(&t, ["a", "a", "a"]).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_when(move |event: &Model| (event.sequence >= second).then(|| DeliveryError::unavailable("away")));
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        let outcome = relay.flush(100).await.unwrap();
        assert_eq!((outcome.claimed, outcome.delivered, outcome.released), (3, 1, 2));
        assert!(row(&t, first).await.published_at.is_some());
        assert_eq!(row(&t, third).await.claims, 0);
        receiver.recover();
        clock.advance(SECOND);
        assert_eq!(relay.flush(100).await.unwrap().delivered, 2);
    }

    async fn an_event_that_waited_too_long_for_its_receiver_fails_like_any_other(t: TestDb) {
        let [old, fresh, delayed] = write_keys(&t, ["", "", ""]).await;
        set(&t, old, &format!("created_at = {}", at(&t, -7200.0))).await;
        set(&t, delayed, &format!("created_at = {}, next_attempt_at = {}", at(&t, -7200.0), at(&t, -1.0))).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_when(away);
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        let relay = relay.max_unavailable(60 * MINUTE);
        let outcome = relay.poll_once().await.unwrap();
        assert_eq!((outcome.failed, outcome.released), (1, 2));
        let failed = row(&t, old).await;
        assert_eq!((failed.attempts, failed.last_error.as_deref()), (1, Some("connection refused")));
        for sequence in [fresh, delayed] {
            assert_eq!(row(&t, sequence).await.attempts, 0);
        }
        assert_eq!(relay.poll_once().await.unwrap().claimed, 0, "the receiver is still away");
        // Since its last failure it has not waited long.
        clock.advance(MINUTE);
        set(&t, fresh, &format!("published_at = {}", at(&t, 0.0))).await;
        let outcome = relay.poll_once().await.unwrap();
        assert_eq!((outcome.claimed, outcome.failed, outcome.released), (1, 0, 1));
        assert_eq!(row(&t, old).await.attempts, 1);
    }

    async fn a_started_relay_waits_out_the_pause_and_goes_on(t: TestDb) {
        write_keys(&t, ["a", "a", "b"]).await;
        let receiver = MemoryDelivery::new();
        let asked = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
        let count = std::sync::Arc::clone(&asked);
        receiver.fail_when(move |event| {
            count.add_permits(1);
            away(event)
        });
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        let handle = relay.concurrency(1).start().unwrap();
        within(asked.acquire()).await.unwrap().forget();
        receiver.recover();
        // The pause has begun when what was not sent is given back.
        within(async { while t.count("hare_outbox WHERE lease_until IS NOT NULL").await > 0 {} }).await;
        clock.advance(Duration::from_secs(1));
        within(receiver.wait_for(3)).await;
        within(handle.stop()).await;
    }
}
