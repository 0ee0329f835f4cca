//! What a dead letter does to its key, and how many attempts an event has.

use hare_seaorm::delivery::DeliveryError;
use hare_seaorm::outbox::Model;
use hare_seaorm::{DeadLetterPolicy, Error, MemoryDelivery};
use hare_seaorm_tests::{Backend, TestDb, on_every_backend};

use super::bench::{MINUTE, relay, relay_with_clock, row, sequences, set, write, write_keys};
use super::logs;

on_every_backend! {
    // catalogue K1
    async fn by_default_a_dead_letter_holds_back_its_key_and_nothing_else(t: TestDb) {
        let [dead, behind, other, free] = write_keys(&t, ["a", "a", "b", ""]).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_when(move |event: &Model| (event.sequence == dead).then(|| DeliveryError::failed("refused")));
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        let relay = relay.max_delivery_attempts(1).dead_letter_policy("another.*", DeadLetterPolicy::Skip).concurrency(1);
        assert_eq!(relay.flush(100).await.unwrap().dead_lettered, 1);
        clock.advance(60 * MINUTE);
        receiver.recover();
        assert_eq!(relay.flush(100).await.unwrap().claimed, 0);
        assert_eq!(sequences(&receiver.take()), [other, free]);
        assert!(!row(&t, dead).await.releases_key);
        assert_eq!(row(&t, behind).await.attempts, 0);
    }

    // catalogue K1
    async fn a_skipped_dead_letter_lets_its_key_go_on(t: TestDb) {
        let mut all = Vec::new();
        for topic in ["mail.sent", "mail.sent", "mail.sent", "bill.due", "bill.due", "mail.kept", "mail.kept"] {
            all.push(write(&t, topic, Some(topic)).await);
        }
        let first = [all[0], all[3], all[5]];
        let receiver = MemoryDelivery::new();
        receiver.fail_when(move |event: &Model| first.contains(&event.sequence).then(|| DeliveryError::failed("refused")));
        let relay = relay(&t.db, receiver.clone())
            .max_delivery_attempts(1)
            .dead_letter_policy("mail.*", DeadLetterPolicy::Skip)
            .dead_letter_policy("*", DeadLetterPolicy::Block)
            .dead_letter_policy("mail.kept", DeadLetterPolicy::Block)
            .concurrency(1);
        let outcome = relay.flush(100).await.unwrap();
        assert_eq!((outcome.dead_lettered, outcome.delivered), (3, 2));
        assert_eq!(sequences(&receiver.take()), [all[1], all[2]]);
        let mut released = Vec::new();
        for sequence in first {
            released.push(row(&t, sequence).await.releases_key);
        }
        assert_eq!(released, [true, false, false]);
        // Tried again by hand, it arrives out of order, and holds nothing back meanwhile.
        receiver.recover();
        assert_eq!(relay.dead_letters().retry(&hare_seaorm::relay::DeadLetterFilter::all().topics(["mail.sent"])).await.unwrap(), 1);
        assert!(!row(&t, first[0]).await.releases_key);
        assert_eq!(relay.flush(100).await.unwrap().delivered, 1);
        assert_eq!(sequences(&receiver.take()), [all[0]]);
    }

    // catalogue K1
    async fn a_skipped_event_that_fails_before_its_last_attempt_holds_its_key(t: TestDb) {
        let [_, behind] = write_keys(&t, ["a", "a"]).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_next(2);
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        let relay = relay.max_delivery_attempts(2).dead_letter_policy("*", DeadLetterPolicy::Skip);
        relay.flush(100).await.unwrap();
        assert_eq!(receiver.take(), []);
        clock.advance(MINUTE);
        relay.flush(100).await.unwrap();
        assert_eq!(sequences(&receiver.take()), [behind]);
    }

    // catalogue K1
    async fn an_unreadable_event_follows_the_policy_too(t: TestDb) {
        if t.backend == Backend::Postgres {
            return; // its `json` type keeps such text out
        }
        let [broken, behind] = write_keys(&t, ["a", "a"]).await;
        set(&t, broken, "payload = '{not json'").await;
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone()).max_delivery_attempts(1).dead_letter_policy("shop.*", DeadLetterPolicy::Skip);
        let outcome = relay.flush(100).await.unwrap();
        assert_eq!((outcome.dead_lettered, outcome.delivered), (1, 1));
        assert_eq!(sequences(&receiver.take()), [behind]);
    }

    // catalogue R6
    async fn an_event_with_eight_attempts_of_its_own_is_given_up_at_the_eighth(t: TestDb) {
        logs::listen();
        let [own, relays] = write_keys(&t, ["a", "b"]).await;
        set(&t, own, "max_attempts = 8").await;
        let receiver = MemoryDelivery::new();
        receiver.fail_when(|_: &Model| Some(DeliveryError::failed("refused")));
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        let relay = relay.max_delivery_attempts(2);
        let mut dead = Vec::new();
        for attempt in 1..=9 {
            relay.poll_once().await.unwrap();
            for sequence in [own, relays] {
                if row(&t, sequence).await.dead_lettered_at.is_some() && !dead.iter().any(|(_, known)| *known == sequence) {
                    dead.push((attempt, sequence));
                }
            }
            clock.advance(60 * MINUTE);
        }
        assert_eq!(dead, [(2, relays), (8, own)]);
        let row = row(&t, own).await;
        assert_eq!((row.attempts, row.last_error.as_deref()), (8, Some("refused")));
        let lines = logs::about(&row.id);
        let names: Vec<_> = lines.iter().map(|line| line.name).collect();
        assert_eq!(names, [["hare.delivery_failed"; 7].as_slice(), &["hare.dead_lettered"]].concat());
        assert_eq!(lines[7].level, tracing::Level::ERROR);
        assert_eq!(lines[7].fields["attempt"], "8");
    }

    // catalogue J18
    async fn a_bad_pattern_of_a_policy_is_refused(t: TestDb) {
        let relay = relay(&t.db, MemoryDelivery::new()).dead_letter_policy("a*b", DeadLetterPolicy::Skip).dead_letter_policy("", DeadLetterPolicy::Skip);
        let error = relay.poll_once().await.unwrap_err();
        assert!(matches!(&error, Error::Config(error) if error.problems.len() == 2), "{error}");
    }
}
