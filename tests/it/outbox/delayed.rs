//! Events that wait for their time, and events with a number of attempts of their own.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, TimeDelta, Utc};
use hare_seaorm::outbox::{enqueue, enqueue_many};
use hare_seaorm::testing::TestClock;
use hare_seaorm::{Error, MemoryDelivery, OutboxMessage, OutboxRelay};
use hare_seaorm_tests::{TestDb, on_backends, on_every_backend};

fn message(topic: &str) -> OutboxMessage {
    OutboxMessage::new(topic, &1).unwrap()
}

fn relay(t: &TestDb) -> (OutboxRelay, MemoryDelivery, TestClock) {
    let (delivery, clock) = (MemoryDelivery::new(), TestClock::new());
    let relay = OutboxRelay::new(t.db.clone(), delivery.clone())
        .retry_spread(0.0)
        .clock(clock.clone());
    (relay, delivery, clock)
}

const HOUR: Duration = Duration::from_secs(3600);

on_every_backend! {
    // catalogue I2
    async fn an_event_is_not_delivered_before_its_time_and_holds_its_key(t: TestDb) {
        let in_an_hour = Utc::now() + TimeDelta::hours(1);
        let delayed = enqueue(&t.db, message("delayed").ordering_key("k").not_before(in_an_hour)).await.unwrap().event;
        let off = (delayed.next_attempt_at.expect("a time") - in_an_hour).num_microseconds().unwrap();
        assert!(off.abs() <= 1, "kept to the microsecond: {off}");
        enqueue(&t.db, message("behind it").ordering_key("k")).await.unwrap();
        enqueue(&t.db, message("free")).await.unwrap();
        let (relay, delivery, clock) = relay(&t);
        relay.flush(10).await.unwrap();
        assert_eq!(delivery.topics(), ["free"]);
        clock.advance(HOUR + Duration::from_secs(60));
        relay.flush(10).await.unwrap();
        assert_eq!(delivery.topics(), ["free", "delayed", "behind it"]);
    }

    // catalogue A11
    async fn a_time_may_be_given_in_any_zone_and_precision(t: TestDb) {
        let zoned: DateTime<chrono::FixedOffset> = "2020-02-29T01:02:03.5+05:30".parse().unwrap();
        let past = SystemTime::UNIX_EPOCH;
        let far: DateTime<Utc> = "9999-12-31T23:59:59Z".parse().unwrap();
        let nanos: DateTime<Utc> = "2020-02-29T01:02:03.000000999Z".parse().unwrap();
        let messages = [message("zoned").not_before(zoned), message("past").not_before(past), message("far").not_before(far), message("nanos").not_before(nanos)];
        let stored = enqueue_many(&t.db, messages).await.unwrap();
        assert_eq!(stored[0].event.next_attempt_at.unwrap(), zoned.to_utc());
        assert_eq!(stored[2].event.next_attempt_at.unwrap(), far);
        let (relay, delivery, _) = relay(&t);
        relay.flush(10).await.unwrap();
        assert_eq!(delivery.topics(), ["zoned", "past", "nanos"]);
    }

    // catalogue P1
    async fn a_time_that_no_database_holds_is_refused(t: TestDb) {
        for time in ["0999-12-31T23:59:59Z", "+10000-01-01T00:00:00Z"] {
            let time: DateTime<Utc> = time.parse().unwrap();
            let error = enqueue(&t.db, message("t").not_before(time)).await.unwrap_err();
            assert!(matches!(&error, Error::Validation { what, .. } if what == "`not_before`"), "{error}");
        }
        assert_eq!(t.count("hare_outbox").await, 0);
    }

    // catalogue R6, P1
    async fn an_events_own_number_of_attempts_beats_the_relays(t: TestDb) {
        let (relay, delivery, clock) = relay(&t);
        let relay = relay.max_delivery_attempts(2);
        enqueue_many(&t.db, [message("eight").max_attempts(8), message("one").max_attempts(1), message("the relay's")]).await.unwrap();
        delivery.fail_next(1000);
        let mut dead = Vec::new();
        for _ in 0..8 {
            relay.poll_once().await.unwrap();
            clock.advance(HOUR);
            dead.push(t.outbox().await.iter().filter(|event| event.dead_lettered_at.is_some()).count());
        }
        assert_eq!(dead, [1, 2, 2, 2, 2, 2, 2, 3]);
        assert_eq!(t.outbox().await.iter().map(|event| event.attempts).collect::<Vec<_>>(), [8, 1, 2]);

        for attempts in [0, 10_001] {
            let error = enqueue(&t.db, message("t").max_attempts(attempts)).await.unwrap_err();
            assert!(matches!(&error, Error::Validation { what, .. } if what == "`max_attempts`"), "{error}");
        }
        assert_eq!(t.count("hare_outbox").await, 3);
    }

    // catalogue I4
    async fn ordering_keys_are_compared_to_the_letter(t: TestDb) {
        let keys = ["Order-1", "order-1", "order-1 ", "órder-1", "order-1\u{301}"];
        for key in keys {
            enqueue(&t.db, message(key).ordering_key(key)).await.unwrap();
            enqueue(&t.db, message("second").ordering_key(key)).await.unwrap();
        }
        let (relay, delivery, _) = relay(&t);
        // Each is the head of a key of its own: the first fails and holds back nobody else.
        delivery.fail_next(1);
        let outcome = relay.poll_once().await.unwrap();
        assert_eq!((outcome.failed, outcome.delivered), (1, 2 * (keys.len() - 1)));
        assert_eq!(delivery.topics().iter().filter(|topic| *topic != "second").collect::<Vec<_>>(), keys[1..].iter().collect::<Vec<_>>());
    }
}

on_backends! { [sqlite]
    // catalogue A11
    async fn a_time_is_text_of_one_width(t: TestDb) {
        for time in ["2026-12-01T12:00:00Z", "2026-12-01T12:00:00.5Z", "2026-12-01T12:00:00.000000999Z"] {
            let time: DateTime<Utc> = time.parse().unwrap();
            enqueue(&t.db, message("t").not_before(time)).await.unwrap();
        }
        let texts = t.rows("SELECT next_attempt_at FROM hare_outbox ORDER BY sequence").await;
        let texts: Vec<String> = texts.iter().map(|row| row.try_get_by_index(0).unwrap()).collect();
        assert_eq!(texts, ["2026-12-01 12:00:00.000000+00:00", "2026-12-01 12:00:00.500000+00:00", "2026-12-01 12:00:00.000000+00:00"]);
    }
}
