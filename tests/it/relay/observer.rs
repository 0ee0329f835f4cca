//! What an application is told of its events, and what the log says.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hare_seaorm::delivery::DeliveryError;
use hare_seaorm::outbox::{Entity, Model};
use hare_seaorm::relay::{DeadLettered, Delivered, Failed, RelayObserver};
use hare_seaorm::{CallableDelivery, DeadLetterPolicy, MemoryDelivery, TopicRouter};
use hare_seaorm_tests::{Backend, TestDb, on_every_backend};
use sea_orm::{DatabaseConnection, EntityTrait};

use super::bench::{
    MINUTE, SECOND, asking, at, foreign_token, relay, relay_with_clock, row, set, within, write, write_keys,
};
use super::logs;

/// Reports, each with the row as it was when it was told.
type Reports<R> = Arc<Mutex<Vec<(R, Option<Model>)>>>;

/// What was told.
#[derive(Debug, Clone, Default)]
struct Told {
    db: Option<DatabaseConnection>,
    delivered: Reports<Delivered>,
    failed: Reports<Failed>,
    dead_lettered: Reports<DeadLettered>,
}

impl Told {
    fn reading(db: &DatabaseConnection) -> Self {
        Self {
            db: Some(db.clone()),
            ..Self::default()
        }
    }

    async fn row(&self, sequence: i64) -> Option<Model> {
        let db = self.db.as_ref()?;
        Entity::find_by_id(sequence).one(db).await.ok().flatten()
    }
}

#[async_trait::async_trait]
impl RelayObserver for Told {
    async fn delivered(&self, report: &Delivered) {
        let row = self.row(report.sequence).await;
        self.delivered.lock().unwrap().push((report.clone(), row));
    }
    async fn failed(&self, report: &Failed) {
        let row = self.row(report.sequence).await;
        self.failed.lock().unwrap().push((report.clone(), row));
    }
    async fn dead_lettered(&self, report: &DeadLettered) {
        let row = self.row(report.sequence).await;
        self.dead_lettered.lock().unwrap().push((report.clone(), row));
    }
}

/// Has no method of its own.
struct Idle;

impl RelayObserver for Idle {}

/// Panics, or never ends, for some topics or sequences.
struct Bad {
    panics_at: i64,
    hangs_at: i64,
    told: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl RelayObserver for Bad {
    async fn delivered(&self, report: &Delivered) {
        assert_ne!(report.sequence, self.panics_at, "the observer is told to panic");
        if report.sequence == self.hangs_at {
            std::future::pending::<()>().await;
        }
        self.told.fetch_add(1, Ordering::SeqCst);
    }
}

/// Counts, at each report, the events that are leased and those that are published.
struct Counting {
    db: DatabaseConnection,
    seen: Arc<Mutex<Vec<(usize, usize)>>>,
}

#[async_trait::async_trait]
impl RelayObserver for Counting {
    async fn delivered(&self, _: &Delivered) {
        let rows = Entity::find().all(&self.db).await.unwrap();
        let count = |is: fn(&Model) -> bool| rows.iter().filter(|row| is(row)).count();
        let counts = (
            count(|row| row.lease_token.is_some()),
            count(|row| row.published_at.is_some()),
        );
        self.seen.lock().unwrap().push(counts);
    }
}

on_every_backend! {
    // catalogue L1, L3
    async fn a_delivery_is_told_after_it_is_stored_with_the_failures_before_it(t: TestDb) {
        let [event] = write_keys(&t, ["a"]).await;
        set(&t, event, &format!("created_at = {}", at(&t, -100.0))).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_next(1);
        let told = Told::reading(&t.db);
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        let relay = relay.observer(Idle).observer(told.clone());
        relay.poll_once().await.unwrap();
        assert!(told.delivered.lock().unwrap().is_empty());
        clock.advance(60 * SECOND);
        relay.poll_once().await.unwrap();
        let reports = told.delivered.lock().unwrap().clone();
        assert_eq!(reports.len(), 1);
        let (report, seen) = &reports[0];
        let row = row(&t, event).await;
        assert_eq!(
            (report.outbox, report.sequence, report.event_id, report.topic.as_str(), report.ordering_key.as_deref(), report.attempts),
            ("hare_outbox", event, row.id, "shop.order", Some("a"), 1)
        );
        let delay = report.delay.as_secs_f64();
        assert!((159.9..190.0).contains(&delay), "{delay}");
        let seen = seen.as_ref().unwrap();
        assert!(seen.published_at.is_some() && seen.lease_token.is_none(), "the outcome is stored when it is told");
    }

    // catalogue L1
    async fn the_delay_counts_the_time_that_the_delivery_took(t: TestDb) {
        write_keys(&t, [""]).await;
        let (delivery, mut sends) = asking();
        let told = Told::default();
        let (relay, clock) = relay_with_clock(&t.db, delivery);
        let relay = relay.observer(told.clone());
        let polling = tokio::spawn(async move { relay.poll_once().await });
        let send = sends.next().await;
        clock.advance(10 * SECOND);
        send.answer.send(Ok(())).unwrap();
        polling.await.unwrap().unwrap();
        let delay = told.delivered.lock().unwrap()[0].0.delay.as_secs_f64();
        assert!((10.0..40.0).contains(&delay), "{delay}");
    }

    // catalogue L1
    async fn a_delivery_is_told_although_another_relay_published_it_first(t: TestDb) {
        let [event] = write_keys(&t, ["a"]).await;
        let (delivery, mut sends) = asking();
        let told = Told::default();
        let relay = relay(&t.db, delivery).observer(told.clone());
        let polling = tokio::spawn(async move { relay.poll_once().await });
        let send = sends.next().await;
        set(&t, event, &format!("published_at = {}, lease_token = NULL", at(&t, -10.0))).await;
        send.answer.send(Ok(())).unwrap();
        polling.await.unwrap().unwrap();
        assert_eq!(told.delivered.lock().unwrap().len(), 1);
    }

    // catalogue L2, L3, L5
    async fn failures_are_told_with_their_number_and_the_last_as_a_dead_letter(t: TestDb) {
        let [event] = write_keys(&t, ["a"]).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_when(|_: &Model| Some(DeliveryError::failed("refused")));
        let told = Told::reading(&t.db);
        let (relay, clock) = relay_with_clock(&t.db, receiver.clone());
        let relay = relay.max_delivery_attempts(3).dead_letter_policy("*", DeadLetterPolicy::Skip).observer(told.clone());
        for _ in 0..3 {
            relay.poll_once().await.expect("a failing delivery is no error of the poll");
            clock.advance(MINUTE);
        }
        let id = row(&t, event).await.id;
        let failed = told.failed.lock().unwrap().clone();
        let expected = [(1, SECOND), (2, 2 * SECOND)];
        assert_eq!(failed.iter().map(|(report, _)| (report.attempts, report.retry_after)).collect::<Vec<_>>(), expected);
        for (report, seen) in &failed {
            assert_eq!(
                (report.outbox, report.sequence, report.event_id, report.topic.as_str(), report.ordering_key.as_deref(), report.error.as_str()),
                ("hare_outbox", event, Some(id), "shop.order", Some("a"), "refused")
            );
            let seen = seen.as_ref().unwrap();
            assert_eq!((seen.attempts, seen.lease_token), (report.attempts, None));
        }
        let dead = told.dead_lettered.lock().unwrap().clone();
        assert_eq!(dead.len(), 1);
        let (report, seen) = &dead[0];
        assert_eq!((report.attempts, report.event_id, report.error.as_str(), report.releases_key), (3, Some(id), "refused", true));
        assert!(report.delay.unwrap() >= 2 * MINUTE);
        assert!(seen.as_ref().unwrap().dead_lettered_at.is_some());
    }

    // catalogue L2
    async fn an_unreadable_event_is_told_by_what_of_it_can_be_read(t: TestDb) {
        if t.backend == Backend::Postgres {
            return; // its `json` type keeps such text out
        }
        let [broken] = write_keys(&t, ["a"]).await;
        let id = row(&t, broken).await.id;
        set(&t, broken, "payload = '{not json'").await;
        let told = Told::default();
        relay(&t.db, MemoryDelivery::new()).observer(told.clone()).poll_once().await.unwrap();
        let failed = told.failed.lock().unwrap().clone();
        let (report, _) = &failed[0];
        assert_eq!((report.sequence, report.event_id, report.topic.as_str(), report.ordering_key.as_deref()), (broken, Some(id), "shop.order", Some("a")));
        assert!(report.delay.is_some() && report.error.contains("cannot be read"));
    }

    // catalogue J8, L3
    async fn a_failure_that_was_not_recorded_is_not_told(t: TestDb) {
        let [stolen, own] = write_keys(&t, ["", ""]).await;
        let (delivery, mut sends) = asking();
        let told = Told::default();
        let relay = relay(&t.db, delivery).observer(told.clone());
        let polling = tokio::spawn(async move { relay.poll_once().await });
        let sends = [sends.next().await, sends.next().await];
        set(&t, stolen, &format!("lease_token = {}", foreign_token(&t))).await;
        for send in sends {
            send.answer.send(Err(DeliveryError::failed("refused"))).unwrap();
        }
        polling.await.unwrap().unwrap();
        let failed: Vec<_> = told.failed.lock().unwrap().iter().map(|(report, _)| report.sequence).collect();
        assert_eq!(failed, [own]);
    }

    // catalogue L3
    async fn nothing_is_told_before_everything_of_the_poll_is_stored(t: TestDb) {
        let (delivery, mut sends) = asking();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let observer = Counting { db: t.db.clone(), seen: Arc::clone(&seen) };
        let router = TopicRouter::new().route("dead", delivery).default_route(MemoryDelivery::new());
        let (relay, clock) = relay_with_clock(&t.db, router);
        let relay = Arc::new(relay.observer(observer));
        let poll = || {
            let relay = Arc::clone(&relay);
            tokio::spawn(async move { relay.poll_once().await.unwrap() })
        };
        let dead = write(&t, "dead", None).await;
        let first = poll();
        sends.next().await.answer.send(Err(DeliveryError::unavailable("away"))).unwrap();
        within(first).await.unwrap();
        let live = write(&t, "live", None).await;
        clock.advance(SECOND);
        // Two claims, of which one is recorded long before the other.
        let second = poll();
        let send = sends.next().await;
        within(async {
            while row(&t, live).await.published_at.is_none() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        send.answer.send(Ok(())).unwrap();
        assert_eq!(within(second).await.unwrap().delivered, 2);
        assert_eq!(*seen.lock().unwrap(), [(0, 2), (0, 2)]);
        assert!(row(&t, dead).await.published_at.is_some());
    }

    // catalogue L3
    async fn an_observer_that_panics_is_logged_and_stops_nothing(t: TestDb) {
        logs::listen();
        let all = write_keys(&t, ["", "", ""]).await;
        let told = Arc::new(AtomicUsize::new(0));
        let observer = Bad { panics_at: all[1], hangs_at: 0, told: told.clone() };
        let relay = relay(&t.db, MemoryDelivery::new()).observer(observer);
        assert_eq!(relay.poll_once().await.unwrap().delivered, 3);
        assert_eq!(told.load(Ordering::SeqCst), 2);
        let lines = logs::about(&"the observer is told to panic");
        assert!(lines.iter().any(|line| line.name == "hare.observer_panicked" && line.level == tracing::Level::WARN), "{lines:?}");
    }

    // catalogue L3
    async fn an_observer_that_never_ends_is_cut_off_with_every_lease_settled(t: TestDb) {
        logs::listen();
        let all = write_keys(&t, ["", "", ""]).await;
        let told = Arc::new(AtomicUsize::new(0));
        let observer = Bad { panics_at: 0, hangs_at: all[1], told: told.clone() };
        let relay = relay(&t.db, MemoryDelivery::new()).concurrency(1).delivery_timeout(Duration::from_millis(300)).observer(observer);
        let outcome = within(relay.poll_once()).await.unwrap();
        assert_eq!(outcome.delivered, 3);
        assert_eq!(told.load(Ordering::SeqCst), 1);
        for sequence in all {
            assert!(row(&t, sequence).await.published_at.is_some());
        }
        assert!(logs::about(&"the observer took longer").iter().any(|line| line.name == "hare.observer_too_slow" && line.fields["untold"] == "2"));
    }

    // catalogue L4
    async fn failures_are_logged_under_fixed_names_with_every_cause(t: TestDb) {
        #[derive(Debug)]
        struct NoAnswer(std::io::Error);
        impl std::fmt::Display for NoAnswer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("no answer")
            }
        }
        impl std::error::Error for NoAnswer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        logs::listen();
        let [event] = write_keys(&t, ["a"]).await;
        let delivery = CallableDelivery::new(|_: Model| async { Err::<(), _>(NoAnswer(std::io::Error::other("connection reset"))) });
        let (relay, clock) = relay_with_clock(&t.db, delivery);
        let relay = relay.max_delivery_attempts(2);
        relay.poll_once().await.unwrap();
        clock.advance(MINUTE);
        relay.poll_once().await.unwrap();
        let row = row(&t, event).await;
        assert_eq!(row.last_error.as_deref(), Some("no answer"));
        let lines = logs::about(&row.id);
        assert_eq!(lines.len(), 2);
        let table = include_str!("../../../hare-seaorm/src/docs/logs.md");
        for (line, (name, level, last)) in lines.iter().zip([
            ("hare.delivery_failed", tracing::Level::WARN, ("retry_after_ms", "1000")),
            ("hare.dead_lettered", tracing::Level::ERROR, ("releases_key", "false")),
        ]) {
            assert_eq!((line.name, line.level), (name, level));
            let attempt = if level == tracing::Level::WARN { "1" } else { "2" };
            let (sequence, id) = (event.to_string(), row.id.to_string());
            let expected = [
                ("outbox", "hare_outbox"), ("sequence", &sequence), ("event_id", &id), ("topic", "shop.order"), ("attempt", attempt),
                ("error", "no answer: connection reset"), last,
            ];
            for (field, value) in expected {
                assert_eq!(line.fields.get(field).map(String::as_str), Some(value), "{field}");
            }
            // And the documented fields are those, no more and no fewer.
            let documented = table.lines().find(|row| row.starts_with(&format!("| `{name}`"))).unwrap().split('|').nth(3).unwrap();
            let mut documented: Vec<_> = documented.split(',').map(|field| field.trim().trim_matches('`')).collect();
            documented.sort_unstable();
            let logged: Vec<_> = line.fields.keys().copied().filter(|field| *field != "message").collect();
            assert_eq!(logged, documented, "{name}");
        }
    }
}
