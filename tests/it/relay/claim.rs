//! Which events a relay takes.

use hare_seaorm::outbox::Model;
use hare_seaorm::testing::TestClock;
use hare_seaorm::{MemoryDelivery, OutboxRelay};
use hare_seaorm_tests::{Backend, TestDb, on_backends, on_every_backend};
use sea_orm::{ConnectionTrait, TransactionTrait};

use super::bench::{
    Batches, MINUTE, SECOND, Seen, asking, at, foreign_token, open_transactions, relay, relay_with_clock,
    row, sequences, set, within, write, write_keys,
};

on_every_backend! {
    // catalogue I1
    async fn a_batch_is_leased_while_it_is_delivered_and_no_transaction_is_open(t: TestDb) {
        let [first] = write_keys(&t, [""]).await;
        let (delivery, mut sends) = asking();
        let relay = relay(&t.db, delivery).name("the relay").lease(MINUTE);
        let polling = tokio::spawn(async move { relay.poll_once().await });
        let send = sends.next().await;
        let leased = row(&t, first).await;
        assert_eq!(leased.leased_by.as_deref(), Some("the relay"));
        assert_eq!(leased.claims, 1);
        assert_eq!(leased.lease_token, send.event.lease_token);
        let left = leased.lease_until.expect("it is leased") - leased.created_at;
        assert!((59..90).contains(&left.num_seconds()), "{left}");
        assert_eq!(open_transactions(&t).await, 0);
        send.answer.send(Ok(())).unwrap();
        let outcome = polling.await.unwrap().unwrap();
        assert_eq!((outcome.claimed, outcome.delivered), (1, 1));
        let published = row(&t, first).await;
        assert_eq!((published.leased_by, published.lease_token, published.lease_until, published.claims), (None, None, None, 0));
    }

    // catalogue A1, I2
    async fn only_what_can_be_delivered_is_claimed_lowest_sequences_first(t: TestDb) {
        let [published, dead, later, leased, due, expired, fresh, beyond] = write_keys(&t, [""; 8]).await;
        let foreign = write(&t, "other.topic", None).await;
        let (past, future) = (at(&t, -0.5), at(&t, 60.0));
        set(&t, published, &format!("published_at = {past}")).await;
        set(&t, dead, &format!("dead_lettered_at = {past}")).await;
        set(&t, later, &format!("next_attempt_at = {future}")).await;
        set(&t, leased, &format!("lease_until = {future}")).await;
        set(&t, due, &format!("next_attempt_at = {past}")).await;
        set(&t, expired, &format!("lease_until = {past}")).await;
        // The clock of the writer says nothing.
        set(&t, due, &format!("created_at = {future}")).await;
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone()).topics(["shop.order"]).batch_size(3).concurrency(1);
        let outcome = relay.poll_once().await.unwrap();
        assert_eq!((outcome.claimed, outcome.delivered), (3, 3));
        assert_eq!(sequences(&receiver.take()), [due, expired, fresh]);
        relay.flush(100).await.unwrap();
        assert_eq!(sequences(&receiver.take()), [beyond]);
        assert_eq!(row(&t, foreign).await.claims, 0);
    }

    // catalogue A11
    async fn due_times_compare_at_whole_seconds_and_fractions(t: TestDb) {
        let [whole, half, soon] = write_keys(&t, [""; 3]).await;
        set(&t, whole, &format!("next_attempt_at = {}", at(&t, -1.0))).await;
        set(&t, half, &format!("next_attempt_at = {}", at(&t, -0.5))).await;
        set(&t, soon, &format!("next_attempt_at = {}", at(&t, 30.5))).await;
        let receiver = MemoryDelivery::new();
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        let relay = relay.concurrency(1);
        relay.poll_once().await.unwrap();
        assert_eq!(sequences(&receiver.take()), [whole, half]);
        clock.advance(31 * SECOND);
        relay.poll_once().await.unwrap();
        assert_eq!(sequences(&receiver.take()), [soon]);
    }

    // catalogue I4
    async fn an_event_waits_for_every_earlier_unpublished_one_of_its_key(t: TestDb) {
        let future = at(&t, 60.0);
        let states = [
            ("waiting", format!("next_attempt_at = {future}")),
            ("failed", format!("next_attempt_at = {future}, attempts = 1, last_error = 'refused'")),
            ("leased", format!("lease_until = {future}, lease_token = {}", foreign_token(&t))),
            ("dead", format!("dead_lettered_at = {}", at(&t, -1.0))),
        ];
        for (key, state) in &states {
            let held = write(&t, "shop.order", Some(key)).await;
            set(&t, held, state).await;
            write(&t, "shop.order", Some(key)).await;
        }
        let [free, other] = write_keys(&t, ["", "other key"]).await;
        let receiver = MemoryDelivery::new();
        relay(&t.db, receiver.clone()).concurrency(1).poll_once().await.unwrap();
        assert_eq!(sequences(&receiver.take()), [free, other], "a key holds back only itself");
    }

    async fn a_dead_letter_that_releases_its_key_holds_nothing_back(t: TestDb) {
        let [dead, first, second] = write_keys(&t, ["a"; 3]).await;
        set(&t, dead, &format!("dead_lettered_at = {}, releases_key = true", at(&t, -1.0))).await;
        let receiver = MemoryDelivery::new();
        relay(&t.db, receiver.clone()).poll_once().await.unwrap();
        assert_eq!(sequences(&receiver.take()), [first, second]);
    }

    // catalogue I5
    async fn a_batch_holds_a_prefix_of_each_key_and_a_call_one_event_of_a_key(t: TestDb) {
        let [a1, a2, free, a3, b1] = write_keys(&t, ["a", "a", "", "a", "b"]).await;
        let batches = Batches::accepting();
        let seen = batches.seen.clone();
        let outcome = relay(&t.db, batches).poll_once().await.unwrap();
        assert_eq!((outcome.claimed, outcome.delivered), (5, 5));
        assert_eq!(*seen.lock().unwrap(), [vec![a1, free, b1], vec![a2], vec![a3]]);
    }

    async fn no_key_takes_more_than_its_lane(t: TestDb) {
        let [a1, a2, _, _, b1, free] = write_keys(&t, ["a", "a", "a", "a", "b", ""]).await;
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone()).batch_size(4).lane_length(2).concurrency(1);
        assert_eq!(relay.poll_once().await.unwrap().claimed, 4);
        let mut delivered = sequences(&receiver.take());
        delivered.sort_unstable();
        assert_eq!(delivered, [a1, a2, b1, free]);
    }

    async fn a_lane_ends_before_the_first_event_that_cannot_be_delivered(t: TestDb) {
        let [first, waiting, last] = write_keys(&t, ["a"; 3]).await;
        set(&t, waiting, &format!("next_attempt_at = {}", at(&t, 60.0))).await;
        let receiver = MemoryDelivery::new();
        let outcome = relay(&t.db, receiver.clone()).poll_once().await.unwrap();
        assert_eq!((outcome.claimed, sequences(&receiver.take())), (1, vec![first]));
        assert_eq!(row(&t, last).await.claims, 0);
    }

    // catalogue I6
    async fn an_event_waits_for_an_earlier_one_of_a_topic_that_is_not_served(t: TestDb) {
        let foreign = write(&t, "a", Some("key")).await;
        let own = write(&t, "b", Some("key")).await;
        let again = write(&t, "a", Some("key")).await;
        let receiver = MemoryDelivery::new();
        let of_b = relay(&t.db, receiver.clone()).topics(["b"]);
        assert_eq!(of_b.poll_once().await.unwrap().claimed, 0);
        relay(&t.db, receiver.clone()).topics(["a"]).poll_once().await.unwrap();
        assert_eq!(sequences(&receiver.take()), [foreign], "and a lane ends at a foreign topic");
        of_b.poll_once().await.unwrap();
        assert_eq!(sequences(&receiver.take()), [own]);
        assert_eq!(row(&t, again).await.published_at, None);
    }

    // catalogue I7
    async fn a_live_lease_keeps_an_event_and_an_expired_one_frees_it(t: TestDb) {
        let [event] = write_keys(&t, ["a"]).await;
        set(&t, event, &format!("lease_until = {}, leased_by = 'another'", at(&t, 30.0))).await;
        let receiver = MemoryDelivery::new();
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        assert_eq!(relay.poll_once().await.unwrap().claimed, 0);
        clock.advance(31 * SECOND);
        assert_eq!(relay.poll_once().await.unwrap().delivered, 1);
    }

    // catalogue I8
    async fn due_times_and_leases_are_by_the_databases_clock(t: TestDb) {
        let [event] = write_keys(&t, [""]).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_next(1);
        let clock = TestClock::new();
        let relay = relay(&t.db, receiver.clone()).clock(clock.clone()).retry_base(MINUTE);
        relay.poll_once().await.unwrap();
        let failed = row(&t, event).await;
        // `created_at` is the database's too.
        let wait = failed.next_attempt_at.expect("it is tried again") - failed.created_at;
        assert!((60..75).contains(&wait.num_seconds()), "{wait}");
        assert_eq!(relay.poll_once().await.unwrap().claimed, 0);
        clock.advance(60 * MINUTE);
        assert_eq!(relay.poll_once().await.unwrap().delivered, 1);
        let ahead = row(&t, event).await.published_at.expect("it is published") - failed.created_at;
        assert!((60..62).contains(&ahead.num_minutes()), "{ahead}");
    }

    // catalogue I11
    async fn events_are_handed_on_in_sequence_order(t: TestDb) {
        let mut written = Vec::new();
        for number in 0..20 {
            written.push(write(&t, "shop.order", (number % 3 == 0).then(|| format!("key {number}")).as_deref()).await);
        }
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone()).concurrency(1);
        relay.poll_once().await.unwrap();
        assert_eq!(sequences(&receiver.take()), written);
    }

    async fn keys_differ_by_case_and_trailing_space(t: TestDb) {
        let [upper, lower, padded] = write_keys(&t, ["Key", "key", "key "]).await;
        set(&t, upper, &format!("next_attempt_at = {}", at(&t, 60.0))).await;
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone()).concurrency(1);
        relay.poll_once().await.unwrap();
        assert_eq!(sequences(&receiver.take()), [lower, padded]);
        assert_eq!(relay.topics(["Shop.order", "shop.order "]).poll_once().await.unwrap().claimed, 0);
    }

    async fn an_unreadable_row_fails_alone_and_holds_its_key(t: TestDb) {
        if t.backend == Backend::Postgres {
            return; // its `json` type keeps such text out
        }
        let [broken, behind, free] = write_keys(&t, ["a", "a", ""]).await;
        set(&t, broken, "payload = '{not json'").await;
        let receiver = MemoryDelivery::new();
        let outcome = relay(&t.db, receiver.clone()).poll_once().await.unwrap();
        assert_eq!((outcome.claimed, outcome.delivered, outcome.failed, outcome.released), (3, 1, 1, 1));
        assert_eq!(sequences(&receiver.take()), [free]);
        let failed = row_text(&t, broken).await;
        assert!(failed.contains("cannot be read"), "{failed}");
        let _ = behind;
    }
}

/// The error of a row that cannot be read whole.
async fn row_text(t: &TestDb, sequence: i64) -> String {
    let sql = format!("SELECT last_error FROM hare_outbox WHERE sequence = {sequence}");
    t.rows(&sql).await[0].try_get_by_index(0).unwrap()
}

on_backends! { [postgres, mariadb]
    // catalogue I3, Q2
    async fn a_row_locked_elsewhere_is_passed_over_at_once(t: TestDb) {
        let [locked, free, key_first, key_locked, key_last] = write_keys(&t, ["", "", "a", "a", "a"]).await;
        let other = t.db.begin().await.unwrap();
        other
            .execute_unprepared(&format!("UPDATE hare_outbox SET claims = claims WHERE sequence IN ({locked}, {key_locked})"))
            .await
            .unwrap();
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone()).concurrency(1);
        let outcome = within(relay.poll_once()).await.unwrap();
        // What stands behind the gap was claimed, and given back.
        assert_eq!((outcome.claimed, outcome.delivered, outcome.released), (3, 2, 1));
        assert_eq!(sequences(&receiver.take()), [free, key_first]);
        let last = row(&t, key_last).await;
        assert_eq!((last.claims, last.lease_until, last.attempts), (0, None, 0));
        other.rollback().await.unwrap();
        relay.poll_once().await.unwrap();
        assert_eq!(sequences(&receiver.take()), [locked, key_locked, key_last]);
    }

    async fn an_uncommitted_event_is_neither_claimed_nor_waited_for(t: TestDb) {
        let [first] = write_keys(&t, ["a"]).await;
        let other = t.db.begin().await.unwrap();
        let message = hare_seaorm::OutboxMessage::new("shop.order", &1).unwrap().ordering_key("b");
        let pending = hare_seaorm::outbox::enqueue(&other, message).await.unwrap().event.sequence;
        let [last] = write_keys(&t, ["a"]).await;
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone());
        within(relay.poll_once()).await.unwrap();
        assert_eq!(sequences(&receiver.take()), [first, last]);
        other.commit().await.unwrap();
        relay.poll_once().await.unwrap();
        assert_eq!(sequences(&receiver.take()), [pending], "a lower sequence that commits later comes later");
    }
}

on_backends! { [mariadb]
    // catalogue I12
    async fn a_claim_on_mysql_needs_no_returning(t: TestDb) {
        let [a1, a2, free] = write_keys(&t, ["a", "a", ""]).await;
        let mut db = t.another_pool(2).await;
        let statements = hare_seaorm_tests::statements::Statements::watch(&mut db);
        let receiver = MemoryDelivery::new();
        receiver.fail_when(move |event: &Model| (event.sequence == a2).then(|| hare_seaorm::delivery::DeliveryError::failed("no")));
        let outcome = relay(&db, receiver.clone()).concurrency(1).poll_once().await.unwrap();
        assert_eq!((outcome.claimed, outcome.delivered, outcome.failed), (3, 2, 1));
        assert_eq!(sequences(&receiver.take()), [a1, free]);
        let statements = statements.take();
        assert!(!statements.is_empty() && statements.iter().all(|sql| !sql.to_uppercase().contains("RETURNING")));
    }
}

on_every_backend! {
    // catalogue J6
    async fn a_batch_costs_a_claim_and_one_statement_per_outcome(t: TestDb) {
        let [_, _, failing, _, _] = write_keys(&t, ["a", "a", "b", "b", ""]).await;
        let mut db = t.another_pool(2).await;
        let mut seen = Seen::watch(&mut db);
        let outcome = OutboxRelay::new(db.clone(), Batches::refusing(&[failing])).poll_once().await.unwrap();
        assert_eq!((outcome.claimed, outcome.delivered, outcome.failed, outcome.released), (5, 3, 1, 1));
        let statements = seen.drain();
        let count = |part: &str| statements.iter().filter(|sql| sql.contains(part)).count();
        assert_eq!([count("published_at = "), count("attempts = attempts + 1"), count("claims - 1")], [1, 1, 1]);
        let claim = if t.backend == Backend::MariaDb { 5 } else { 1 };
        let lookup = usize::from(t.backend == Backend::MariaDb);
        assert_eq!(statements.len(), claim + 3 + lookup, "{statements:#?}");
    }
}
