//! One receiver of several that cannot be reached: only its events wait.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hare_seaorm::delivery::DeliveryError;
use hare_seaorm::outbox::Model;
use hare_seaorm::testing::TestClock;
use hare_seaorm::{MemoryDelivery, OutboxRelay, TopicRouter};
use hare_seaorm_tests::{Backend, TestDb, on_every_backend};

use super::bench::{MINUTE, SECOND, asking, at, relay_with_clock, row, sequences, set, within, write};

fn away(_: &Model) -> Option<DeliveryError> {
    Some(DeliveryError::unavailable("connection refused"))
}

/// A relay with a receiver for `live.*` and one for `dead.*` that is away.
fn relay(t: &TestDb) -> (OutboxRelay, TestClock, MemoryDelivery, MemoryDelivery) {
    let (live, dead) = (MemoryDelivery::new(), MemoryDelivery::new());
    dead.fail_when(away);
    let router = TopicRouter::new()
        .route("live.*", live.clone())
        .route("dead.*", dead.clone());
    let (relay, clock) = relay_with_clock(&t.db, router);
    (relay.concurrency(1), clock, live, dead)
}

async fn write_all(t: &TestDb, topic: &str, count: usize) -> Vec<i64> {
    let mut sequences = Vec::new();
    for _ in 0..count {
        sequences.push(write(t, topic, None).await);
    }
    sequences
}

on_every_backend! {
    async fn a_dead_route_waits_alone_and_is_asked_by_one_event_after_each_pause(t: TestDb) {
        let (relay, clock, live, dead) = relay(&t);
        let relay = relay.batch_size(4);
        let waiting = write_all(&t, "dead.a", 6).await;
        write_all(&t, "live.a", 6).await;
        let poll = async || {
            let outcome = relay.poll_once().await.unwrap();
            (outcome.claimed, outcome.delivered, outcome.released)
        };
        assert_eq!(poll().await, (4, 0, 4));
        // The others go on, as many at once as before.
        assert_eq!([poll().await, poll().await, poll().await], [(4, 4, 0), (2, 2, 0), (0, 0, 0)]);
        for pause in [1, 2, 4] {
            clock.advance(Duration::from_secs(pause) - Duration::from_millis(500));
            assert_eq!(poll().await, (0, 0, 0), "within {pause} s");
            clock.advance(Duration::from_millis(501));
            write_all(&t, "live.b", 5).await;
            assert_eq!(poll().await, (4, 3, 1), "after {pause} s: one asks, the others go on");
            assert_eq!([poll().await, poll().await], [(2, 2, 0), (0, 0, 0)]);
        }
        for sequence in &waiting {
            let row = row(&t, *sequence).await;
            assert_eq!((row.attempts, row.claims, row.last_error, row.lease_token), (0, 0, None, None));
        }
        dead.recover();
        clock.advance(MINUTE);
        assert_eq!([poll().await, poll().await, poll().await], [(1, 1, 0), (4, 4, 0), (1, 1, 0)]);
        assert_eq!(sequences(&dead.take()), waiting);
        assert_eq!(live.take().len(), 21);
        // It is free again: its next pause is the first.
        dead.fail_when(away);
        write_all(&t, "dead.a", 2).await;
        assert_eq!(poll().await, (2, 0, 2));
        dead.recover();
        clock.advance(SECOND);
        assert_eq!(poll().await, (1, 1, 0));
    }

    async fn a_topic_that_was_not_known_costs_one_claim_and_nothing_is_counted(t: TestDb) {
        let (relay, clock, _, dead) = relay(&t);
        write_all(&t, "dead.a", 1).await;
        assert_eq!(relay.poll_once().await.unwrap().released, 1);
        let new = write(&t, "dead.b", None).await;
        let live = write(&t, "live.a", None).await;
        let outcome = relay.poll_once().await.unwrap();
        assert_eq!((outcome.claimed, outcome.delivered, outcome.released), (2, 1, 1));
        assert!(row(&t, live).await.published_at.is_some());
        for _ in 0..3 {
            assert_eq!(relay.poll_once().await.unwrap().claimed, 0);
        }
        let new = row(&t, new).await;
        assert_eq!((new.attempts, new.claims, new.last_error, new.lease_token), (0, 0, None, None));
        dead.recover();
        clock.advance(SECOND);
        assert_eq!(relay.flush(100).await.unwrap().delivered, 2);
    }

    async fn an_event_of_a_dead_route_holds_back_its_key_and_no_other(t: TestDb) {
        let (relay, clock, live, dead) = relay(&t);
        let mut all = Vec::new();
        for (topic, key) in [("live.a", "k"), ("dead.a", "k"), ("live.a", "k"), ("live.a", "other"), ("dead.b", "third"), ("live.b", "third")] {
            all.push(write(&t, topic, Some(key)).await);
        }
        let outcome = relay.flush(100).await.unwrap();
        assert_eq!(outcome.delivered, 2);
        assert_eq!(sequences(&live.take()), [all[0], all[3]]);
        // Also once its topics are known, and when its events come first.
        clock.advance(Duration::from_millis(10));
        assert_eq!(relay.flush(100).await.unwrap().delivered, 0);
        dead.recover();
        clock.advance(SECOND);
        assert_eq!(relay.flush(100).await.unwrap().delivered, 4);
        assert_eq!(sequences(&dead.take()), [all[1], all[4]]);
        assert_eq!(sequences(&live.take()), [all[2], all[5]]);
    }

    async fn a_route_that_nothing_is_left_for_takes_no_share_of_a_batch(t: TestDb) {
        let (relay, clock, live, dead) = relay(&t);
        let relay = relay.batch_size(1);
        let gone = write(&t, "dead.a", None).await;
        assert_eq!(relay.poll_once().await.unwrap().released, 1);
        // Another relay reached it.
        set(&t, gone, &format!("published_at = {}", at(&t, 0.0))).await;
        clock.advance(MINUTE);
        write_all(&t, "live.a", 2).await;
        assert_eq!(relay.flush(100).await.unwrap().delivered, 2);
        assert_eq!(live.take().len(), 2);
        dead.recover();
        write_all(&t, "dead.a", 1).await;
        write_all(&t, "dead.b", 1).await;
        assert_eq!(relay.flush(100).await.unwrap().delivered, 2);
    }

    // catalogue I4
    async fn keys_stay_in_order_while_routes_come_and_go_under_two_relays(t: TestDb) {
        let is_away = Arc::new(AtomicBool::new(false));
        let delivered = Arc::new(Mutex::new(Vec::new()));
        let clock = TestClock::new();
        let relay = || {
            let notes = || {
                let delivered = Arc::clone(&delivered);
                move |event: &Model| {
                    delivered.lock().unwrap().push((event.ordering_key.clone(), event.sequence));
                    None
                }
            };
            let (live, dead) = (MemoryDelivery::new(), MemoryDelivery::new());
            live.fail_when(notes());
            let (note, is_away) = (notes(), Arc::clone(&is_away));
            dead.fail_when(move |event| if is_away.load(Ordering::SeqCst) { away(event) } else { note(event) });
            let router = TopicRouter::new().route("live.*", live).route("dead.*", dead);
            super::super::bench::relay(&t.db, router).clock(clock.clone()).batch_size(10).lane_length(4)
        };
        let (one, two) = (relay(), relay());
        // Not random, but without a pattern that fits the batches.
        let mixed = |number: usize| (number * number + number / 7) % 11;
        for number in 0..120 {
            let topic = ["live.a", "dead.a", "live.b", "dead.b"][mixed(number) % 4];
            let key = ["k", "l", "m", "n", "o"][mixed(number + 3) % 5];
            write(&t, topic, Some(key)).await;
        }
        for round in 0.. {
            is_away.store(round % 5 < 3, Ordering::SeqCst);
            clock.advance(Duration::from_millis(700));
            let (first, second) = tokio::join!(one.poll_once(), two.poll_once());
            assert_eq!((first.unwrap().failed, second.unwrap().failed), (0, 0));
            if delivered.lock().unwrap().len() == 120 {
                break;
            }
            assert!(round < 500, "everything is delivered in the end");
        }
        let mut delivered = delivered.lock().unwrap().clone();
        let as_delivered = delivered.clone();
        delivered.sort_by_key(|(_, sequence)| *sequence);
        for key in ["k", "l", "m", "n", "o"] {
            let of = |all: &[(Option<String>, i64)]| -> Vec<i64> {
                all.iter().filter(|(of, _)| of.as_deref() == Some(key)).map(|(_, sequence)| *sequence).collect()
            };
            assert_eq!(of(&as_delivered), of(&delivered), "the key {key}");
        }
        assert!(t.outbox().await.iter().all(|row| row.published_at.is_some() && row.attempts == 0));
    }

    async fn a_flush_delivers_what_it_can_and_ends(t: TestDb) {
        let (relay, _, live, _) = relay(&t);
        for number in 0..10 {
            write(&t, &format!("dead.{number}"), None).await;
            write(&t, "live.a", None).await;
        }
        let outcome = within(relay.batch_size(3).flush(1000)).await.unwrap();
        assert_eq!((outcome.delivered, live.take().len()), (10, 10));
        assert_eq!(outcome.claimed, 20, "each of the others was met once");
    }

    async fn an_event_that_waited_too_long_for_its_route_fails_when_it_asks(t: TestDb) {
        let (relay, clock, ..) = relay(&t);
        let relay = relay.max_unavailable(60 * MINUTE);
        let [old, fresh] = [write(&t, "dead.a", None).await, write(&t, "dead.a", None).await];
        assert_eq!(relay.poll_once().await.unwrap().released, 2);
        set(&t, old, &format!("created_at = {}", at(&t, -7200.0))).await;
        clock.advance(SECOND);
        assert_eq!(relay.poll_once().await.unwrap().failed, 1);
        assert_eq!(row(&t, old).await.last_error.as_deref(), Some("connection refused"));
        assert_eq!(row(&t, fresh).await.attempts, 0);
    }

    async fn two_dead_routes_are_asked_apart_within_the_limit(t: TestDb) {
        let (first, second) = (MemoryDelivery::new(), MemoryDelivery::new());
        for receiver in [&first, &second] {
            receiver.fail_when(away);
        }
        let router = TopicRouter::new().route("a", first.clone()).default_route(second.clone());
        let (relay, clock) = relay_with_clock(&t.db, router);
        for topic in ["a", "b", "a", "b"] {
            write(&t, topic, None).await;
        }
        assert_eq!(relay.poll_once().await.unwrap().released, 4);
        clock.advance(SECOND);
        second.recover();
        let outcome = relay.poll_once().await.unwrap();
        assert_eq!((outcome.claimed, outcome.delivered, outcome.released), (2, 1, 1));
        assert_eq!(relay.poll_once().await.unwrap().delivered, 1);
        clock.advance(MINUTE);
        let outcome = relay.flush(1).await.unwrap();
        assert_eq!((outcome.claimed, outcome.released), (1, 1));
        assert!(first.events().is_empty());
    }

    async fn a_route_that_is_slow_to_say_whether_it_is_back_keeps_no_other_from_being_recorded(t: TestDb) {
        let (delivery, mut sends) = asking();
        let live = MemoryDelivery::new();
        let (relay, clock) = relay_with_clock(&t.db, TopicRouter::new().route("dead", delivery).default_route(live.clone()));
        let relay = Arc::new(relay);
        let dead = write(&t, "dead", None).await;
        let poll = || {
            let relay = Arc::clone(&relay);
            tokio::spawn(async move { relay.poll_once().await.unwrap() })
        };
        let first = poll();
        sends.next().await.answer.send(Err(DeliveryError::unavailable("away"))).unwrap();
        assert_eq!(within(first).await.unwrap().released, 1);
        let other = write(&t, "live", None).await;
        clock.advance(SECOND);
        let second = poll();
        let probe = sends.next().await;
        within(async {
            while row(&t, other).await.published_at.is_none() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert!(row(&t, dead).await.lease_token.is_some());
        probe.answer.send(Ok(())).unwrap();
        assert_eq!(within(second).await.unwrap().delivered, 2);
    }

    async fn a_dead_route_that_has_nothing_to_ask_with_takes_no_others_place(t: TestDb) {
        let (relay, clock, live, _) = relay(&t);
        let relay = relay.batch_size(1);
        let gone = write(&t, "dead.a", None).await;
        assert_eq!(relay.poll_once().await.unwrap().released, 1);
        set(&t, gone, &format!("published_at = {}", at(&t, 0.0))).await;
        let sequence = write(&t, "live.a", None).await;
        clock.advance(SECOND);
        assert_eq!(relay.poll_once().await.unwrap().delivered, 1);
        assert_eq!(sequences(&live.take()), [sequence]);
        // One that has keeps to the limit.
        write_all(&t, "dead.a", 1).await;
        write_all(&t, "live.a", 1).await;
        let polls = [relay.poll_once().await.unwrap(), relay.poll_once().await.unwrap()];
        assert_eq!(polls.map(|poll| (poll.claimed, poll.delivered)), [(1, 0), (1, 1)]);
    }

    async fn a_started_relay_asks_again_when_the_pause_of_a_route_is_over(t: TestDb) {
        let (relay, clock, live, dead) = relay(&t);
        let asked = Arc::new(tokio::sync::Semaphore::new(0));
        let count = Arc::clone(&asked);
        dead.fail_when(move |event| {
            count.add_permits(1);
            away(event)
        });
        write_all(&t, "dead.a", 3).await;
        write_all(&t, "live.a", 3).await;
        // Its interval is a day.
        let handle = relay.start().unwrap();
        within(live.wait_for(3)).await;
        within(asked.acquire()).await.unwrap().forget();
        dead.recover();
        // The pause has begun when what was not sent is given back.
        within(async { while t.count("hare_outbox WHERE lease_until IS NOT NULL").await > 0 {} }).await;
        clock.advance(Duration::from_secs(1));
        within(dead.wait_for(3)).await;
        within(handle.stop()).await;
    }
}

/// It would else sleep until its interval is over, a day.
#[tokio::test]
async fn a_pause_that_ends_while_a_poll_finds_nothing_is_not_slept_through() {
    let t = TestDb::new(Backend::Sqlite).await;
    let mut db = t.another_pool(2).await;
    let (receiver, clock, claims) = (MemoryDelivery::new(), TestClock::new(), AtomicUsize::new(0));
    receiver.fail_next_with(DeliveryError::unavailable("away"));
    let moving = clock.clone();
    db.set_metric_callback(move |info| {
        // The first claims the event, the second leaves it out.
        if info.statement.sql.contains("ordering_key IS NULL OR")
            && claims.fetch_add(1, Ordering::SeqCst) == 1
        {
            moving.advance(SECOND);
        }
    });
    write(&t, "a", None).await;
    let router = TopicRouter::new().default_route(receiver.clone());
    let handle = super::bench::relay(&db, router).clock(clock).start().unwrap();
    within(receiver.wait_for(1)).await;
    within(handle.stop()).await;
}

/// A router behind a router has receivers of its own.
#[tokio::test]
async fn of_a_router_behind_a_router_only_the_dead_route_waits() {
    let t = TestDb::new(Backend::Sqlite).await;
    let (live, dead) = (MemoryDelivery::new(), MemoryDelivery::new());
    dead.fail_when(away);
    let inner = TopicRouter::new()
        .route("in.live", live.clone())
        .route("in.dead", dead);
    let relay = super::bench::relay(&t.db, TopicRouter::new().route("in.*", inner));
    write(&t, "in.dead", None).await;
    assert_eq!(relay.poll_once().await.unwrap().released, 1);
    write(&t, "in.live", None).await;
    assert_eq!(relay.poll_once().await.unwrap().delivered, 1);
}

/// What was found by one event need not be found by the next of the same poll.
#[tokio::test]
async fn a_receiver_that_is_away_is_not_asked_again_in_the_same_poll() {
    let t = TestDb::new(Backend::Sqlite).await;
    let (relay, _, _, dead) = relay(&t);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    dead.fail_when(move |event| {
        count.fetch_add(1, Ordering::SeqCst);
        away(event)
    });
    for (topic, key) in [("dead.a", None), ("live.a", Some("k")), ("dead.a", Some("k"))] {
        write(&t, topic, key).await;
    }
    let outcome = relay.poll_once().await.unwrap();
    assert_eq!((outcome.claimed, outcome.delivered, outcome.released), (3, 1, 2));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

/// A claim may take its time; what the same poll claimed before is served meanwhile, while its lease is fresh.
#[tokio::test]
async fn what_asks_is_sent_while_the_rest_is_still_claimed() {
    let t = TestDb::new(Backend::Postgres).await; // a claim is one statement there, and its answer can be held back
    let (mut db, gate) = t.gated_pool(5).await;
    let (closes, is_armed) = (gate.clone(), Arc::new(AtomicBool::new(false)));
    let armed = Arc::clone(&is_armed);
    db.set_metric_callback(move |info| {
        if info.statement.sql.contains("ordering_key IS NULL OR") && armed.swap(false, Ordering::SeqCst) {
            closes.close();
        }
    });
    let (delivery, mut sends) = asking();
    let router = TopicRouter::new()
        .route("dead", delivery)
        .default_route(MemoryDelivery::new());
    let (relay, clock) = relay_with_clock(&db, router);
    let relay = Arc::new(relay);
    let poll = || {
        let relay = Arc::clone(&relay);
        tokio::spawn(async move { relay.poll_once().await.unwrap() })
    };
    write(&t, "dead", None).await;
    let first = poll();
    let send = sends.next().await;
    send.answer.send(Err(DeliveryError::unavailable("away"))).unwrap();
    assert_eq!(within(first).await.unwrap().released, 1);
    write(&t, "live", None).await;
    clock.advance(SECOND);
    is_armed.store(true, Ordering::SeqCst);
    let second = poll();
    let send = sends.next().await;
    assert!(!is_armed.load(Ordering::SeqCst), "the second claim is held back");
    gate.open();
    send.answer.send(Ok(())).unwrap();
    assert_eq!(within(second).await.unwrap().delivered, 2);
}

/// A relay cannot leave out any number of topics. It still ends, delivers to others now and then, and loses nothing.
#[tokio::test]
async fn a_dead_route_of_very_many_topics_makes_others_wait_but_is_not_claimed_over_and_over() {
    let t = TestDb::new(Backend::Sqlite).await;
    let (relay, clock, live, dead) = relay(&t);
    for number in 0..700 {
        write(&t, &format!("dead.{number}"), None).await;
    }
    write(&t, "live.a", None).await;
    let outcome = within(relay.flush(100_000)).await.unwrap();
    assert_eq!(
        (outcome.claimed, outcome.released),
        (600, 600),
        "as many as can be left out, and a batch more"
    );
    assert_eq!(relay.poll_once().await.unwrap().claimed, 0, "everything waits");
    clock.advance(SECOND);
    dead.recover();
    let outcome = within(relay.flush(100_000)).await.unwrap();
    assert_eq!(
        (outcome.delivered, dead.take().len(), live.take().len()),
        (701, 700, 1)
    );
}
