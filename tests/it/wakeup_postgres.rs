//! PostgreSQL's LISTEN and NOTIFY. No relay here polls in time: what arrives, a notification brought.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hare_seaorm::outbox::enqueue;
use hare_seaorm::wakeup::{OutboxWakeup, Signals, WakeupError};
use hare_seaorm::{
    ConfigError, Error, ListenNotifyWakeup, MemoryDelivery, OutboxMessage, OutboxRelay, RelayHandle,
};
use hare_seaorm_tests::shop::outbox::Notifying;
use hare_seaorm_tests::shop::widget::notified;
use hare_seaorm_tests::statements::Statements;
use hare_seaorm_tests::wakeup::RecordingWakeup;
use hare_seaorm_tests::{Backend, Shop, TestDb, on_backends};
use sea_orm::sqlx::postgres::PgListener;
use sea_orm::{DatabaseConnection, DbErr, Set, TransactionTrait};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Fails a test that would wait for ever.
async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .expect("what the test waits for happens")
}

fn wakeup(db: &DatabaseConnection) -> Arc<dyn OutboxWakeup> {
    Arc::new(ListenNotifyWakeup::new(db))
}

fn message(topic: &str, wakeup: &Arc<dyn OutboxWakeup>) -> OutboxMessage {
    OutboxMessage::new(topic, &1).unwrap().wakeup(Arc::clone(wakeup))
}

/// Writes an event that notifies nobody.
async fn write_silently(t: &TestDb, topic: &str) {
    let silent: Arc<dyn OutboxWakeup> = Arc::new(RecordingWakeup::default());
    enqueue(&t.db, message(topic, &silent)).await.unwrap();
}

fn new() -> notified::ActiveModel {
    notified::ActiveModel {
        name: Set("nut".to_owned()),
        ..Default::default()
    }
}

/// A listener of the test's own.
struct Ears<'t> {
    t: &'t TestDb,
    listener: PgListener,
}

impl<'t> Ears<'t> {
    async fn on(t: &'t TestDb, channel: &str) -> Self {
        let mut listener = PgListener::connect(&t.url).await.unwrap();
        listener.listen(channel).await.unwrap();
        listener.listen("until here").await.unwrap();
        Self { t, listener }
    }

    /// The payloads that were notified before now.
    async fn heard(&mut self) -> Vec<String> {
        self.t.execute(r#"NOTIFY "until here""#).await;
        let mut heard = Vec::new();
        loop {
            let notification = within(self.listener.recv()).await.unwrap();
            if notification.channel() == "until here" {
                heard.sort();
                return heard;
            }
            heard.push(notification.payload().to_owned());
        }
    }
}

/// The sessions of this database that listen for a relay.
async fn listening(t: &TestDb) -> BTreeSet<i32> {
    listeners(t, "(query LIKE 'LISTEN%' OR query = 'SELECT 1')").await
}

/// The sessions of this database that were opened to listen, and are as told.
async fn listeners(t: &TestDb, condition: &str) -> BTreeSet<i32> {
    let sql = format!(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
         AND application_name = 'hare-seaorm listener' AND {condition}"
    );
    let rows = t.rows(&sql).await;
    rows.iter().map(|row| row.try_get_by_index(0).unwrap()).collect()
}

/// Waits until the server says that they are as told.
async fn until_listening(t: &TestDb, wanted: impl Fn(&BTreeSet<i32>) -> bool) -> BTreeSet<i32> {
    within(async {
        loop {
            let listening = listening(t).await;
            if wanted(&listening) {
                return listening;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

/// A relay of this pool that only a wakeup can make poll again.
fn relay(db: &DatabaseConnection, wakeup: &Arc<dyn OutboxWakeup>, receiver: &MemoryDelivery) -> OutboxRelay {
    OutboxRelay::new(db.clone(), receiver.clone())
        .wakeup(Arc::clone(wakeup))
        .poll_interval(HOUR)
}

/// Starts a relay and waits until it listens and has looked once: an event that nobody told of was seen.
async fn started(t: &TestDb, relay: OutboxRelay, receiver: &MemoryDelivery) -> RelayHandle {
    let before = listening(t).await;
    let handle = relay.start().unwrap();
    until_listening(t, |now| now.len() > before.len()).await;
    write_silently(t, "first").await;
    // Its first poll, or the one after it began to listen, or else this, brings it.
    t.execute("NOTIFY hare_outbox").await;
    within(receiver.wait_for(1)).await;
    receiver.take();
    handle
}

/// Listens through a pool that is not the relay's.
struct ListensElsewhere(ListenNotifyWakeup, DatabaseConnection);

#[async_trait::async_trait]
impl OutboxWakeup for ListensElsewhere {
    async fn signal(&self, topics: &[String]) -> Result<(), WakeupError> {
        self.0.signal(topics).await
    }
    async fn listen(&self, _: &DatabaseConnection, signals: &Signals) -> Result<(), WakeupError> {
        self.0.listen(&self.1, signals).await
    }
    async fn close(&self) {
        self.0.close().await;
    }
}

on_backends! { [postgres]
    // catalogue M10
    async fn in_a_plain_transaction_each_topic_is_heard_once_when_it_commits(t: Shop) {
        let wakeup = wakeup(&t.db);
        let _notifying = Notifying::through(wakeup.clone()).await;
        let mut ears = Ears::on(&t, "hare_outbox").await;
        let odd = r#"it's "odd" \ $1 %s é"#;
        let txn = t.db.begin().await.unwrap();
        for topic in [odd, "b", odd, "b"] {
            enqueue(&txn, message(topic, &wakeup)).await.unwrap();
        }
        new().insert(&txn).await.unwrap();
        new().insert(&txn).await.unwrap();
        wakeup.close().await;
        assert_eq!(ears.heard().await, [""; 0]);
        txn.commit().await.unwrap();
        assert_eq!(ears.heard().await, ["b", odd, "shop.widget.inserted"]);

        let txn = t.db.begin().await.unwrap();
        enqueue(&txn, message("a", &wakeup)).await.unwrap();
        new().insert(&txn).await.unwrap();
        txn.rollback().await.unwrap();
        let txn = t.db.begin().await.unwrap();
        let undone = txn.begin().await.unwrap();
        enqueue(&undone, message("undone", &wakeup)).await.unwrap();
        undone.rollback().await.unwrap();
        enqueue(&txn, message("kept", &wakeup)).await.unwrap();
        txn.commit().await.unwrap();
        wakeup.close().await;
        assert_eq!(ears.heard().await, ["kept"]);
    }

    // catalogue M2, M10
    async fn a_transaction_of_ours_notifies_after_its_commit_with_one_statement(t: Shop) {
        let mut db = t.another_pool(3).await;
        let statements = Statements::watch(&mut db);
        let wakeup = wakeup(&db);
        let _notifying = Notifying::through(wakeup.clone()).await;
        let mut ears = Ears::on(&t, "hare_outbox").await;
        let notifying = || statements.take().iter().filter(|sql| sql.contains("pg_notify")).count();

        let txn = hare_seaorm::begin(&db).await.unwrap();
        enqueue(&txn, message("a", &wakeup)).await.unwrap();
        let undone = txn.begin().await.unwrap();
        enqueue(&undone, message("b", &wakeup)).await.unwrap();
        undone.rollback().await.unwrap();
        enqueue(&txn, message("c", &wakeup)).await.unwrap();
        enqueue(&txn, message("a", &wakeup)).await.unwrap();
        new().insert(&txn).await.unwrap();
        wakeup.close().await;
        assert_eq!((notifying(), ears.heard().await), (0, vec![]));
        txn.commit().await.unwrap();
        wakeup.close().await;
        assert_eq!(ears.heard().await, ["a", "c", "shop.widget.inserted"]);
        assert_eq!(notifying(), 1);

        let txn = hare_seaorm::begin(&db).await.unwrap();
        enqueue(&txn, message("a", &wakeup)).await.unwrap();
        txn.rollback().await.unwrap();
        let txn = hare_seaorm::begin(&db).await.unwrap();
        enqueue(&txn, message("a", &wakeup)).await.unwrap();
        drop(txn);
        wakeup.close().await;
        assert_eq!((notifying(), ears.heard().await), (0, vec![]));
    }

    // catalogue M4, M10
    async fn on_a_pool_it_notifies_after_the_commit(t: Shop) {
        let wakeup = wakeup(&t.db);
        let _notifying = Notifying::through(wakeup.clone()).await;
        let mut ears = Ears::on(&t, "hare_outbox").await;
        enqueue(&t.db, message("a", &wakeup)).await.unwrap();
        new().insert(&t.db).await.unwrap();
        // No event can have such topics: they must not fail the others.
        let odd = ["a\0b".to_owned(), "x".repeat(8_000)];
        wakeup.signal(&odd).await.unwrap();
        wakeup.close().await;
        assert_eq!(ears.heard().await, ["a", "shop.widget.inserted"]);
        assert!(wakeup.in_transaction(sea_orm::DbBackend::Postgres, &odd).is_none());
        wakeup.signal(&[]).await.unwrap();
        wakeup.close().await;
        assert_eq!(ears.heard().await, [""]);
        // Without `close` they are sent as well, soon.
        wakeup.signal(&["soon".to_owned()]).await.unwrap();
        let notification = within(ears.listener.recv()).await.unwrap();
        assert_eq!(notification.payload(), "soon");
    }

    // catalogue M4
    async fn a_notification_that_fails_harms_no_writer(t: TestDb) {
        let closed = t.another_pool(1).await;
        let wakeup = wakeup(&closed);
        closed.close().await.unwrap();
        enqueue(&t.db, message("a", &wakeup)).await.unwrap();
        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        enqueue(&txn, message("a", &wakeup)).await.unwrap();
        txn.commit().await.unwrap();
        within(wakeup.close()).await;
        assert_eq!(t.events().await.len(), 2);
    }

    // catalogue M5, M10
    async fn relays_of_two_processes_are_woken_by_their_topics_or_by_none(t: TestDb) {
        let receivers = [MemoryDelivery::new(), MemoryDelivery::new()];
        let mut handles = Vec::new();
        let mut pools = Vec::new();
        for (receiver, topic) in receivers.iter().zip(["one", "two"]) {
            // A pool of one connection is enough: listening takes none of it.
            let db = t.another_pool(1).await;
            write_silently(&t, topic).await;
            let handle = relay(&db, &wakeup(&db), receiver).topics([topic]).start().unwrap();
            within(receiver.wait_for(1)).await;
            handles.push(handle);
            pools.push(db);
        }
        until_listening(&t, |now| now.len() == 2).await;
        // What they missed until they listened, they look for: these are for later.
        for db in &pools {
            let writer = wakeup(db);
            let txn = db.begin().await.unwrap();
            enqueue(&txn, message("one", &writer)).await.unwrap();
            enqueue(&txn, message("two", &writer)).await.unwrap();
            txn.commit().await.unwrap();
        }
        for receiver in &receivers {
            within(receiver.wait_for(3)).await;
        }
        write_silently(&t, "one").await;
        write_silently(&t, "two").await;
        t.execute("NOTIFY hare_outbox").await;
        for receiver in &receivers {
            within(receiver.wait_for(4)).await;
        }
        for handle in handles {
            within(handle.stop()).await;
        }
    }

    async fn a_channel_of_its_own_is_heard_by_its_relays_only(t: TestDb) {
        let name = r#"My "own" channel"#;
        let wakeup: Arc<dyn OutboxWakeup> = Arc::new(ListenNotifyWakeup::new(&t.db).channel(name));
        let (mut ears, mut others) = (Ears::on(&t, name).await, Ears::on(&t, "hare_outbox").await);
        let receiver = MemoryDelivery::new();
        let handle = relay(&t.db, &wakeup, &receiver).start().unwrap();
        until_listening(&t, |now| now.len() == 1).await;
        enqueue(&t.db, message("a", &wakeup)).await.unwrap();
        within(receiver.wait_for(1)).await;
        wakeup.close().await;
        assert_eq!(ears.heard().await, ["a"]);
        assert_eq!(others.heard().await, [""; 0]);
        within(handle.stop()).await;
    }

    // catalogue M12
    async fn a_terminated_listener_listens_again_and_misses_nothing(t: TestDb) {
        let wakeup = wakeup(&t.db);
        let receiver = MemoryDelivery::new();
        let handle = started(&t, relay(&t.db, &wakeup, &receiver), &receiver).await;
        for round in 1..=2 {
            let before = listening(&t).await;
            for pid in &before {
                t.execute(&format!("SELECT pg_terminate_backend({pid})")).await;
            }
            // Nobody is told of this one.
            write_silently(&t, "in between").await;
            within(receiver.wait_for(2 * round)).await;
            until_listening(&t, |now| now.len() == 1 && now.is_disjoint(&before)).await;
            enqueue(&t.db, message("again", &wakeup)).await.unwrap();
            within(receiver.wait_for(2 * round + 1)).await;
        }
        within(handle.stop()).await;
    }

    // catalogue Q11
    async fn what_is_written_before_it_listens_is_found_once_it_does(t: TestDb) {
        let mut db = t.another_pool(2).await;
        let statements = Statements::watch(&mut db);
        let (gated, gate) = t.gated_pool(1).await;
        gate.close();
        let late: Arc<dyn OutboxWakeup> = Arc::new(ListensElsewhere(ListenNotifyWakeup::new(&t.db), gated));
        let receiver = MemoryDelivery::new();
        write_silently(&t, "first").await;
        let handle = relay(&db, &late, &receiver).start().unwrap();
        // It has looked once more after the first event, and now waits for a day.
        let mut claims = 0;
        within(async {
            while claims < 2 {
                claims += statements.take().iter().filter(|sql| sql.contains("SKIP LOCKED")).count();
                tokio::task::yield_now().await;
            }
        })
        .await;
        enqueue(&t.db, message("unheard", &late)).await.unwrap();
        late.close().await;
        assert_eq!((receiver.events().len(), listening(&t).await), (1, BTreeSet::new()));
        gate.open();
        within(receiver.wait_for(2)).await;
        within(handle.stop()).await;
    }

    async fn no_signal_is_lost_between_many_writers(t: TestDb) {
        let wakeup = wakeup(&t.db);
        let mut ears = Ears::on(&t, "hare_outbox").await;
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let wakeup = Arc::clone(&wakeup);
                tokio::spawn(async move {
                    for number in 0..100 {
                        wakeup.signal(&[format!("{writer} {number:02}")]).await.unwrap();
                        if number % 10 == 9 {
                            tokio::time::sleep(Duration::from_millis(3)).await;
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        // Without `close`: whoever sends must see what came while it did.
        let mut heard = BTreeSet::new();
        while heard.len() < 400 {
            let notification = within(ears.listener.recv()).await.unwrap();
            assert!(heard.insert(notification.payload().to_owned()), "each is sent once");
        }
    }

    // catalogue M12
    async fn a_listener_that_gives_no_sign_of_life_is_replaced(t: TestDb) {
        let (gated, gate) = t.gated_pool(2).await;
        let listening_through: Arc<dyn OutboxWakeup> =
            Arc::new(ListenNotifyWakeup::new(&t.db).health_check(Duration::from_millis(100)));
        let receiver = MemoryDelivery::new();
        let handle = started(&t, relay(&gated, &listening_through, &receiver), &receiver).await;
        let before = listening(&t).await;
        gate.close();
        // The server sees another come, though its answer does not pass: the first was given up.
        within(async {
            while listeners(&t, "true").await.is_subset(&before) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        gate.open();
        until_listening(&t, |now| now.len() == 1 && now.is_disjoint(&before)).await;
        enqueue(&t.db, message("again", &listening_through)).await.unwrap();
        within(receiver.wait_for(2)).await;
        within(handle.stop()).await;
    }

    // catalogue M7
    async fn a_relay_that_ends_leaves_no_connection_behind(t: TestDb) {
        let wakeup = wakeup(&t.db);
        let receiver = MemoryDelivery::new();
        let stopped = started(&t, relay(&t.db, &wakeup, &receiver), &receiver).await;
        within(stopped.stop()).await;
        until_listening(&t, BTreeSet::is_empty).await;
        let dropped = relay(&t.db, &wakeup, &receiver).start().unwrap();
        until_listening(&t, |now| now.len() == 1).await;
        drop(dropped);
        until_listening(&t, BTreeSet::is_empty).await;
        // The other goes on.
        let [first, second] = [0, 1].map(|_| relay(&t.db, &wakeup, &receiver).start().unwrap());
        until_listening(&t, |now| now.len() == 2).await;
        within(first.stop()).await;
        until_listening(&t, |now| now.len() == 1).await;
        enqueue(&t.db, message("a", &wakeup)).await.unwrap();
        within(receiver.wait_for(2)).await;
        within(second.stop()).await;
        until_listening(&t, BTreeSet::is_empty).await;
    }
}

on_backends! { [mariadb, sqlite]
    // catalogue M8, M11, P2
    async fn on_another_database_nothing_is_written_and_no_relay_starts(t: Shop) {
        let wakeup = wakeup(&t.db);
        let _notifying = Notifying::through(wakeup.clone()).await;
        let refused = |error: &Error| {
            let text = error.to_string();
            assert!(matches!(error, Error::Config(_)) && text.contains("needs PostgreSQL"), "{text}");
        };
        let inside = |error: DbErr| refused(Error::find(&error).expect("an error of ours"));
        refused(&enqueue(&t.db, message("a", &wakeup)).await.unwrap_err());
        inside(new().insert(&t.db).await.unwrap_err());
        let txn = t.db.begin().await.unwrap();
        refused(&enqueue(&txn, message("a", &wakeup)).await.unwrap_err());
        inside(new().insert(&txn).await.unwrap_err());
        txn.commit().await.unwrap();
        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        refused(&enqueue(&txn, message("a", &wakeup)).await.unwrap_err());
        inside(new().insert(&txn).await.unwrap_err());
        txn.commit().await.unwrap();
        assert_eq!((t.events().await.len(), t.count("widget").await), (0, 0));
        let error = relay(&t.db, &wakeup, &MemoryDelivery::new()).start().unwrap_err();
        assert!(error.to_string().contains("needs PostgreSQL"), "{error}");
    }
}

// catalogue M12, P2
#[tokio::test]
async fn options_that_cannot_work_are_named_before_an_event_is_written() {
    let t = TestDb::new(Backend::Postgres).await;
    let with = |wakeup: ListenNotifyWakeup| Arc::new(wakeup) as Arc<dyn OutboxWakeup>;
    let on = |channel: &str| with(ListenNotifyWakeup::new(&t.db).channel(channel));
    let long = "é".repeat(32);
    for (wakeup, part) in [
        (on(""), r#"is "": it must have from 1 to 63 bytes"#),
        (on(&long), long.as_str()),
        (on("a\0b"), r#"is "a\0b""#),
        (
            with(ListenNotifyWakeup::new(&t.db).health_check(Duration::ZERO)),
            "`health_check`",
        ),
        (
            with(ListenNotifyWakeup::new(&t.db).health_check(25 * HOUR)),
            "`health_check`",
        ),
    ] {
        let Err(Error::Config(ConfigError { problems, .. })) = enqueue(&t.db, message("a", &wakeup)).await
        else {
            panic!("{part}: it is refused");
        };
        assert!(problems.len() == 1 && problems[0].contains(part), "{problems:?}");
        let error = relay(&t.db, &wakeup, &MemoryDelivery::new()).start().unwrap_err();
        assert_eq!(error.problems, problems);
    }
    assert_eq!(t.events().await, []);
    enqueue(&t.db, message("a", &on(&long[..62]))).await.unwrap();
    let elsewhere = TestDb::new(Backend::Sqlite).await;
    let error = enqueue(&t.db, message("a", &wakeup(&elsewhere.db)))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no pool of PostgreSQL"), "{error}");
}

#[tokio::test]
async fn a_thousand_signals_are_one_statement() {
    let t = TestDb::new(Backend::Postgres).await;
    let mut db = t.another_pool(1).await;
    let statements = Statements::watch(&mut db);
    let wakeup = wakeup(&db);
    let mut ears = Ears::on(&t, "hare_outbox").await;
    // Nothing else runs on this thread meanwhile.
    for number in 0..1000 {
        wakeup.signal(&[format!("topic {}", number % 3)]).await.unwrap();
    }
    wakeup.close().await;
    assert_eq!(statements.take().len(), 1);
    assert_eq!(ears.heard().await, ["topic 0", "topic 1", "topic 2"]);
    // Of very many topics none is named: that wakes every relay.
    for number in 0..1001 {
        wakeup.signal(&[format!("topic {number}")]).await.unwrap();
    }
    wakeup.close().await;
    assert_eq!(ears.heard().await, [""]);
}

// catalogue M7
#[test]
fn a_runtime_that_shuts_down_loses_no_later_signal() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let lasting = runtime();
    let _entered = lasting.enter();
    let t = lasting.block_on(TestDb::new(Backend::Postgres));
    let wakeup = lasting.block_on(async { wakeup(&t.another_pool(1).await) });
    let mut ears = lasting.block_on(Ears::on(&t, "hare_outbox"));
    let ending = runtime();
    ending.block_on(wakeup.signal(&["before".to_owned()])).unwrap();
    drop(ending);
    lasting.block_on(async {
        wakeup.signal(&["after".to_owned()]).await.unwrap();
        for expected in ["after", "before"] {
            assert_eq!(within(ears.listener.recv()).await.unwrap().payload(), expected);
        }
    });
}

// catalogue M7
#[test]
fn relays_of_two_runtimes_share_a_wakeup_whichever_stops_first() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    };
    for first_stops_first in [true, false] {
        let (first, second, own) = (runtime(), runtime(), runtime());
        let t = own.block_on(TestDb::new(Backend::Postgres));
        let wakeup = wakeup(&t.db);
        let start = |runtime: &tokio::runtime::Runtime| {
            let receiver = MemoryDelivery::new();
            let handle = runtime.block_on(async {
                let db = t.another_pool(2).await;
                relay(&db, &wakeup, &receiver).start().unwrap()
            });
            (handle, receiver)
        };
        let (a, a_receiver) = start(&first);
        let (b, b_receiver) = start(&second);
        own.block_on(until_listening(&t, |now| now.len() == 2));
        let (stopping, going_on, receiver) = if first_stops_first {
            (a, b, b_receiver)
        } else {
            (b, a, a_receiver)
        };
        own.block_on(async {
            within(stopping.stop()).await;
            until_listening(&t, |now| now.len() == 1).await;
            enqueue(&t.db, message("a", &wakeup)).await.unwrap();
            within(receiver.wait_for(1)).await;
            within(going_on.stop()).await;
            until_listening(&t, BTreeSet::is_empty).await;
        });
    }
}

// catalogue M7
#[test]
fn a_relay_may_be_dropped_where_there_is_no_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let t = runtime.block_on(TestDb::new(Backend::Postgres));
    let relay = relay(&t.db, &wakeup(&t.db), &MemoryDelivery::new());
    let mut running = Box::pin(relay.run_until(std::future::pending()));
    runtime.block_on(async {
        tokio::select! {
            result = &mut running => panic!("it runs for ever: {result:?}"),
            _ = until_listening(&t, |now| now.len() == 1) => {}
        }
    });
    drop(running);
    runtime.block_on(until_listening(&t, BTreeSet::is_empty));
}
