//! Starting, waking, stopping.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hare_seaorm::delivery::{BatchLimits, DeliveryError, OutboxDelivery, Receipt};
use hare_seaorm::outbox::{self, Model};
use hare_seaorm::wakeup::{InProcessWakeup, OutboxWakeup, Signals, WakeupError};
use hare_seaorm::{ConfigError, Error, MemoryDelivery, OutboxMessage, OutboxRelay};
use hare_seaorm_tests::wakeup::RecordingWakeup;
use hare_seaorm_tests::{Backend, TestDb, on_every_backend};
use sea_orm::DatabaseConnection;
use tokio::sync::{Semaphore, oneshot};

use super::bench::{MINUTE, Seen, asking, relay, relay_with_clock, row, sequences, within, write_keys};

/// Writes an event and signals it.
async fn enqueue(t: &TestDb, topic: &str, wakeup: &Arc<InProcessWakeup>) -> i64 {
    let wakeup: Arc<dyn OutboxWakeup> = wakeup.clone();
    let message = OutboxMessage::new(topic, &1).unwrap().wakeup(wakeup);
    outbox::enqueue(&t.db, message).await.unwrap().event.sequence
}

/// Says when it is listened to, and when no more.
#[derive(Default)]
struct Watched {
    inner: InProcessWakeup,
    listening: Arc<AtomicUsize>,
}

struct Listener(Arc<AtomicUsize>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait::async_trait]
impl OutboxWakeup for Watched {
    async fn signal(&self, topics: &[String]) -> Result<(), WakeupError> {
        self.inner.signal(topics).await
    }
    async fn listen(&self, db: &DatabaseConnection, signals: &Signals) -> Result<(), WakeupError> {
        self.listening.fetch_add(1, Ordering::SeqCst);
        let _listener = Listener(Arc::clone(&self.listening));
        self.inner.listen(db, signals).await
    }
}

on_every_backend! {
    // catalogue J13
    async fn a_relay_polls_on_while_there_is_something_to_do(t: TestDb) {
        write_keys(&t, [""; 10]).await;
        let receiver = MemoryDelivery::new();
        let handle = relay(&t.db, receiver.clone()).batch_size(2).start().unwrap();
        within(receiver.wait_for(10)).await;
        within(handle.stop()).await;
        assert_eq!(receiver.take().len(), 10);
    }

    // catalogue J13, M9
    async fn a_signal_ends_the_wait_and_one_during_a_poll_causes_one_more(t: TestDb) {
        let wakeup = Arc::new(InProcessWakeup::new());
        let (delivery, mut sends) = asking();
        let handle = relay(&t.db, delivery).wakeup(wakeup.clone()).start().unwrap();
        let first = enqueue(&t, "a", &wakeup).await;
        let send = sends.next().await;
        assert_eq!(send.event.sequence, first);
        // Written and signalled while the first is delivered; the interval is a day.
        let second = enqueue(&t, "a", &wakeup).await;
        send.answer.send(Ok(())).unwrap();
        let send = sends.next().await;
        assert_eq!(send.event.sequence, second);
        send.answer.send(Ok(())).unwrap();
        within(handle.stop()).await;
    }

    // catalogue M5
    async fn only_signals_of_its_topics_wake_a_relay(t: TestDb) {
        let wakeup = Arc::new(InProcessWakeup::new());
        let mut db = t.another_pool(2).await;
        let mut seen = Seen::watch(&mut db);
        let receiver = MemoryDelivery::new();
        let handle = relay(&db, receiver.clone()).topics(["mine"]).wakeup(wakeup.clone()).start().unwrap();
        seen.wait_for("FROM").await;
        enqueue(&t, "other", &wakeup).await;
        let mine = enqueue(&t, "mine", &wakeup).await;
        within(receiver.wait_for(1)).await;
        assert_eq!(sequences(&receiver.take()), [mine]);
        // No topic named: every relay wakes.
        let quiet = Arc::new(InProcessWakeup::new());
        enqueue(&t, "mine", &quiet).await;
        wakeup.signal(&[]).await.unwrap();
        within(receiver.wait_for(2)).await;
        within(handle.stop()).await;
    }

    // catalogue Q11
    async fn without_a_wakeup_polling_delivers(t: TestDb) {
        write_keys(&t, ["a", "a"]).await;
        let receiver = MemoryDelivery::new();
        let handle = relay(&t.db, receiver.clone()).poll_interval(Duration::from_millis(50)).start().unwrap();
        within(receiver.wait_for(2)).await;
        write_keys(&t, ["a"]).await;
        within(receiver.wait_for(3)).await;
        within(handle.stop()).await;
    }

    // catalogue J14
    async fn a_failing_poll_does_not_end_the_relay(t: TestDb) {
        let wakeup = Arc::new(InProcessWakeup::new());
        let mut db = t.another_pool(2).await;
        let mut seen = Seen::watch(&mut db);
        t.execute("ALTER TABLE hare_outbox RENAME TO elsewhere").await;
        let receiver = MemoryDelivery::new();
        let handle = relay(&db, receiver.clone()).wakeup(wakeup.clone()).start().unwrap();
        seen.wait_for("FROM").await;
        t.execute("ALTER TABLE elsewhere RENAME TO hare_outbox").await;
        enqueue(&t, "a", &wakeup).await;
        within(receiver.wait_for(1)).await;
        within(handle.stop()).await;
    }

    // catalogue J15
    async fn start_and_stop_may_be_repeated(t: TestDb) {
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone());
        let first = relay.start().unwrap();
        let again = relay.start().unwrap();
        // An interval of a day is no reason to wait.
        within(first.stop()).await;
        within(first.stop()).await;
        within(again.stop()).await;
        write_keys(&t, [""]).await;
        let next = relay.start().unwrap();
        drop(first);
        drop(again);
        within(receiver.wait_for(1)).await;
        within(next.stop()).await;
    }

    // catalogue J16
    async fn stop_finishes_what_is_under_way_gives_the_rest_back_and_closes_last(t: TestDb) {
        let [sent, behind, free] = write_keys(&t, ["a", "a", ""]).await;
        let (delivery, mut sends) = asking();
        let closed = Arc::clone(&sends.closed);
        let wakeup = Arc::new(Watched::default());
        let listening = Arc::clone(&wakeup.listening);
        let relay = relay(&t.db, delivery).concurrency(1).wakeup(wakeup);
        let handle = Arc::new(relay.start().unwrap());
        let send = sends.next().await;
        assert_eq!((send.event.sequence, listening.load(Ordering::SeqCst)), (sent, 1));
        let stopping = tokio::spawn({
            let handle = Arc::clone(&handle);
            async move { handle.stop().await }
        });
        tokio::task::yield_now().await;
        assert!(!stopping.is_finished());
        assert_eq!(closed.available_permits(), 0);
        handle_is_stopping(&handle).await;
        send.answer.send(Ok(())).unwrap();
        within(stopping).await.unwrap();
        assert_eq!((closed.available_permits(), listening.load(Ordering::SeqCst)), (1, 0));
        assert!(row(&t, sent).await.published_at.is_some());
        for sequence in [behind, free] {
            let row = row(&t, sequence).await;
            assert_eq!((row.published_at, row.attempts, row.claims, row.lease_token), (None, 0, 0, None));
        }
        assert!(sends.is_empty());
    }

    // catalogue J16
    async fn a_delivery_that_does_not_close_does_not_keep_the_relay(t: TestDb) {
        struct NeverClosed;

        #[async_trait::async_trait]
        impl OutboxDelivery for NeverClosed {
            async fn deliver(&self, _: &Model) -> Result<Receipt, DeliveryError> {
                Ok(Receipt::default())
            }
            async fn close(&self) -> Result<(), DeliveryError> {
                std::future::pending().await
            }
        }

        let handle = relay(&t.db, NeverClosed).delivery_timeout(Duration::from_millis(50)).start().unwrap();
        within(handle.stop()).await;
    }

    // catalogue Q4
    async fn a_stop_that_is_given_up_loses_no_record(t: TestDb) {
        let [event] = write_keys(&t, ["a"]).await;
        let (delivery, mut sends) = asking();
        let closed = Arc::clone(&sends.closed);
        let handle = relay(&t.db, delivery).start().unwrap();
        let send = sends.next().await;
        assert!(tokio::time::timeout(Duration::from_millis(10), handle.stop()).await.is_err());
        drop(handle);
        send.answer.send(Ok(())).unwrap();
        within(closed.acquire()).await.unwrap().forget();
        assert!(row(&t, event).await.published_at.is_some());
    }

    // catalogue J17, J19
    async fn a_dropped_handle_loses_nothing_but_lease_time(t: TestDb) {
        let [event] = write_keys(&t, ["a"]).await;
        let (delivery, mut sends) = asking();
        let handle = relay(&t.db, delivery).start().unwrap();
        let send = sends.next().await;
        drop(handle);
        // The send is dropped with the relay.
        within(send.answer.is_closed_soon()).await;
        assert!(row(&t, event).await.lease_token.is_some());
        let receiver = MemoryDelivery::new();
        let (other, clock) = relay_with_clock(&t.db, receiver.clone());
        assert_eq!(other.poll_once().await.unwrap().claimed, 0);
        clock.advance(2 * MINUTE);
        assert_eq!(other.poll_once().await.unwrap().delivered, 1);
        assert_eq!(receiver.take()[0].id, send.event.id);
    }

    // catalogue J17
    async fn a_relay_may_run_as_one_future_until_a_shutdown(t: TestDb) {
        write_keys(&t, ["a", "a"]).await;
        let receiver = MemoryDelivery::new();
        let (shut_down, shutdown) = oneshot::channel::<()>();
        let relay = relay(&t.db, receiver.clone());
        let running = relay.run_until(async { drop(shutdown.await) });
        let driving = async {
            receiver.wait_for(2).await;
            shut_down.send(()).unwrap();
        };
        let (result, ()) = within(async { tokio::join!(running, driving) }).await;
        result.unwrap();
        assert!(t.outbox().await.iter().all(|row| row.published_at.is_some()));
    }
}

/// The stop was asked for: a second asker sees it too.
async fn handle_is_stopping(handle: &hare_seaorm::RelayHandle) {
    assert!(
        tokio::time::timeout(Duration::from_millis(1), handle.stop())
            .await
            .is_err()
    );
}

trait ClosedSoon {
    async fn is_closed_soon(&self);
}

impl<T> ClosedSoon for oneshot::Sender<T> {
    async fn is_closed_soon(&self) {
        while !self.is_closed() {
            tokio::task::yield_now().await;
        }
    }
}

/// Notes how many calls are under way at once.
#[derive(Clone, Default)]
struct Peak {
    under_way: Arc<AtomicUsize>,
    peak: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
    go_on: Option<Arc<Semaphore>>,
}

#[async_trait::async_trait]
impl OutboxDelivery for Peak {
    async fn deliver(&self, _: &Model) -> Result<Receipt, DeliveryError> {
        unreachable!("batches only")
    }
    async fn deliver_batch(&self, events: &[Model], _: BatchLimits) -> Vec<Result<Receipt, DeliveryError>> {
        self.peak.fetch_max(
            self.under_way.fetch_add(1, Ordering::SeqCst) + 1,
            Ordering::SeqCst,
        );
        if let Some(go_on) = &self.go_on {
            go_on.acquire().await.unwrap().forget();
        }
        self.calls.fetch_add(events.len(), Ordering::SeqCst);
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        events.iter().map(|_| Ok(Receipt::default())).collect()
    }
}

// catalogue J13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_signals_never_polls_twice_at_once() {
    let t = TestDb::new(Backend::Sqlite).await;
    let wakeup = Arc::new(InProcessWakeup::new());
    let go_on = Arc::new(Semaphore::new(0));
    let delivery = Peak {
        go_on: Some(Arc::clone(&go_on)),
        ..Peak::default()
    };
    let handle = relay(&t.db, delivery.clone())
        .batch_size(1)
        .wakeup(wakeup.clone())
        .start()
        .unwrap();
    for _ in 0..50 {
        enqueue(&t, "a", &wakeup).await;
    }
    go_on.add_permits(50);
    within(async {
        while delivery.calls.load(Ordering::SeqCst) < 50 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    within(handle.stop()).await;
    assert_eq!(delivery.peak.load(Ordering::SeqCst), 1);
}

// catalogue J16
#[tokio::test]
async fn a_stop_begins_no_further_round() {
    let t = TestDb::new(Backend::Sqlite).await;
    let [sent, behind] = write_keys(&t, ["a", "a"]).await;
    let go_on = Arc::new(Semaphore::new(0));
    // It does not ask whether the relay stops.
    let delivery = Peak {
        go_on: Some(Arc::clone(&go_on)),
        ..Peak::default()
    };
    let handle = Arc::new(relay(&t.db, delivery.clone()).start().unwrap());
    within(async {
        while delivery.under_way.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    handle_is_stopping(&handle).await;
    go_on.add_permits(2);
    within(handle.stop()).await;
    assert_eq!(delivery.calls.load(Ordering::SeqCst), 1);
    assert!(row(&t, sent).await.published_at.is_some());
    let behind = row(&t, behind).await;
    assert_eq!(
        (behind.published_at, behind.claims, behind.lease_token),
        (None, 0, None)
    );
}

// catalogue J18
#[tokio::test]
async fn bad_options_fail_every_way_of_starting() {
    let t = TestDb::new(Backend::Sqlite).await;
    let bad = |size| {
        relay(&t.db, MemoryDelivery::new())
            .batch_size(size)
            .concurrency(0)
    };
    for size in [0, 10_001] {
        let text = bad(size).start().unwrap_err().to_string();
        assert!(
            text.contains("`batch_size`") && text.contains("`concurrency`"),
            "{text}"
        );
        assert!(matches!(bad(size).poll_once().await, Err(Error::Config(_))));
        assert!(matches!(bad(size).flush(1).await, Err(Error::Config(_))));
        assert!(bad(size).run_until(std::future::pending()).await.is_err());
    }
    let none: [&str; 0] = [];
    assert!(relay(&t.db, MemoryDelivery::new()).topics(none).start().is_err());
}

// catalogue M8, M11
#[tokio::test]
async fn a_wakeup_that_does_not_fit_fails_the_start() {
    let t = TestDb::new(Backend::Sqlite).await;
    let refusing = Arc::new(RecordingWakeup {
        refuses: true,
        ..RecordingWakeup::default()
    });
    let error = relay(&t.db, MemoryDelivery::new())
        .wakeup(refusing)
        .start()
        .unwrap_err();
    assert_eq!(error, ConfigError::new("this database is refused"));
}

#[test]
fn starting_outside_a_runtime_is_an_error() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let t = runtime.block_on(TestDb::new(Backend::Sqlite));
    let error = OutboxRelay::new(t.db.clone(), MemoryDelivery::new())
        .start()
        .unwrap_err();
    assert!(error.to_string().contains("tokio runtime"), "{error}");
    drop(runtime);
}

// catalogue M1, M9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_is_woken_by_the_outboxs_own_wakeup() {
    let t = TestDb::new(Backend::Sqlite).await;
    let receiver = MemoryDelivery::new();
    let relay = OutboxRelay::new(t.db.clone(), receiver.clone()).poll_interval(60 * MINUTE);
    let handle = relay.start().unwrap();
    outbox::enqueue(&t.db, OutboxMessage::new("a", &1).unwrap())
        .await
        .unwrap();
    within(receiver.wait_for(1)).await;
    within(handle.stop()).await;
}

// catalogue M7, M9
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
        let (first, second) = (runtime(), runtime());
        let t = first.block_on(TestDb::new(Backend::Sqlite));
        let wakeup = Arc::new(InProcessWakeup::new());
        let start = |runtime: &tokio::runtime::Runtime| {
            let receiver = MemoryDelivery::new();
            let handle = runtime.block_on(async {
                let db = t.another_pool(2).await;
                let relay = OutboxRelay::new(db, receiver.clone())
                    .wakeup(wakeup.clone())
                    .poll_interval(60 * MINUTE);
                relay.start().unwrap()
            });
            (handle, receiver)
        };
        let (a, a_receiver) = start(&first);
        let (b, b_receiver) = start(&second);
        let (stopping, going_on, receiver) = if first_stops_first {
            (a, b, b_receiver)
        } else {
            (b, a, a_receiver)
        };
        first.block_on(within(stopping.stop()));
        // Written on a runtime that is neither's.
        runtime().block_on(async {
            let db = t.another_pool(1).await;
            let message = OutboxMessage::new("a", &1).unwrap().wakeup(wakeup.clone());
            outbox::enqueue(&db, message).await.unwrap();
        });
        first.block_on(within(receiver.wait_for(1)));
        first.block_on(within(going_on.stop()));
    }
}
