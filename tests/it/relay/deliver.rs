//! How claimed events reach the delivery.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hare_seaorm::delivery::{BatchLimits, DeliveryError, OutboxDelivery, Receipt};
use hare_seaorm::outbox::Model;
use hare_seaorm::{CallableDelivery, MemoryDelivery};
use hare_seaorm_tests::{TestDb, on_every_backend};
use sea_orm::{ConnectionTrait, EntityTrait, PaginatorTrait};

use super::bench::{Batches, relay, row, sequences, within, write_keys};

on_every_backend! {
    // catalogue J1
    async fn a_delivery_runs_outside_any_transaction_and_holds_no_connection(t: TestDb) {
        write_keys(&t, ["", "a", "a", "b"]).await;
        let pool = t.another_pool(1).await;
        let in_delivery = pool.clone();
        let delivery = CallableDelivery::new(move |_: Model| {
            let db = in_delivery.clone();
            async move { hare_seaorm::outbox::Entity::find().count(&db).await.map(drop) }
        });
        let outcome = within(relay(&pool, delivery).poll_once()).await.unwrap();
        assert_eq!((outcome.claimed, outcome.delivered), (4, 4));
    }

    // catalogue J2
    async fn so_many_sends_are_under_way_at_once_and_no_more(t: TestDb) {
        write_keys(&t, [""; 12]).await;
        let (under_way, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let together = Arc::new(tokio::sync::Barrier::new(3));
        let seen = Arc::clone(&peak);
        let delivery = CallableDelivery::new(move |_: Model| {
            let (under_way, peak, together) = (Arc::clone(&under_way), Arc::clone(&seen), Arc::clone(&together));
            async move {
                peak.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                together.wait().await;
                under_way.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, DeliveryError>(())
            }
        });
        let outcome = within(relay(&t.db, delivery).concurrency(3).poll_once()).await.unwrap();
        assert_eq!((outcome.delivered, peak.load(Ordering::SeqCst)), (12, 3));
    }

    // catalogue J2
    async fn a_send_that_takes_too_long_fails_alone(t: TestDb) {
        let [slow, fast] = write_keys(&t, ["", ""]).await;
        let delivery = CallableDelivery::new(move |event: Model| async move {
            if event.sequence == slow {
                std::future::pending::<()>().await;
            }
            Ok::<_, DeliveryError>(())
        });
        let relay = relay(&t.db, delivery).delivery_timeout(Duration::from_millis(50));
        let outcome = within(relay.poll_once()).await.unwrap();
        assert_eq!((outcome.delivered, outcome.failed), (1, 1));
        assert_eq!(row(&t, slow).await.last_error.as_deref(), Some("not delivered within 50ms"));
        assert!(row(&t, fast).await.published_at.is_some());
    }

    // catalogue J3
    async fn a_batch_delivery_answers_for_each_event(t: TestDb) {
        let [first, refused, last] = write_keys(&t, [""; 3]).await;
        let batches = Batches::refusing(&[refused]);
        let seen = Arc::clone(&batches.seen);
        let outcome = relay(&t.db, batches).poll_once().await.unwrap();
        assert_eq!((outcome.delivered, outcome.failed), (2, 1));
        assert_eq!(*seen.lock().unwrap(), [vec![first, refused, last]]);
        assert_eq!(row(&t, refused).await.last_error.as_deref(), Some("refused"));
    }

    // catalogue J3
    async fn a_batch_delivery_that_panics_fails_its_events_and_nothing_else(t: TestDb) {
        let [head, behind, free] = write_keys(&t, ["a", "a", ""]).await;
        let outcome = relay(&t.db, Batches::new(|_| panic!("out of cheese"))).poll_once().await.unwrap();
        assert_eq!((outcome.failed, outcome.released), (2, 1));
        for sequence in [head, free] {
            let error = row(&t, sequence).await.last_error.unwrap();
            assert_eq!(error, "the delivery panicked: out of cheese");
        }
        assert_eq!(row(&t, behind).await.attempts, 0);
    }

    // catalogue J3
    async fn a_wrong_number_of_answers_fails_all_and_names_both_counts(t: TestDb) {
        let all = write_keys(&t, [""; 3]).await;
        let short = Batches::new(|events| events.iter().skip(1).map(|_| Ok(Receipt::default())).collect());
        assert_eq!(relay(&t.db, short).poll_once().await.unwrap().failed, 3);
        for sequence in all {
            let error = row(&t, sequence).await.last_error.unwrap();
            assert!(error.contains("2 answers for 3 events"), "{error}");
        }
    }

    async fn an_answer_of_not_begun_without_a_stop_is_a_failure(t: TestDb) {
        let [event] = write_keys(&t, [""]).await;
        let batches = Batches::new(|events| events.iter().map(|_| Err(DeliveryError::not_begun())).collect());
        // Else it would be claimed and given back without an end.
        let outcome = within(relay(&t.db, batches).flush(10)).await.unwrap();
        assert_eq!((outcome.claimed, outcome.failed), (1, 1));
        let row = row(&t, event).await;
        assert_eq!(row.attempts, 1);
        assert!(row.last_error.as_ref().unwrap().contains("although the relay does not stop"));
    }

    // catalogue J4, R7
    async fn a_failing_event_stops_no_other(t: TestDb) {
        let [failing, behind, other, free] = write_keys(&t, ["a", "a", "b", ""]).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_when(move |event: &Model| (event.sequence == failing).then(|| DeliveryError::failed("refused")));
        let outcome = relay(&t.db, receiver.clone()).concurrency(1).poll_once().await.unwrap();
        assert_eq!((outcome.claimed, outcome.delivered, outcome.failed, outcome.released), (4, 2, 1, 1));
        assert_eq!(sequences(&receiver.take()), [other, free]);
        let behind = row(&t, behind).await;
        assert_eq!((behind.attempts, behind.claims, behind.lease_token, behind.last_error), (0, 0, None, None));
    }

    // catalogue J4
    async fn a_panic_in_a_send_fails_that_event_alone(t: TestDb) {
        let [panics, fine] = write_keys(&t, ["", ""]).await;
        let delivery = CallableDelivery::new(move |event: Model| async move {
            assert!(event.sequence != panics, "event {panics} is too much");
            Ok::<_, DeliveryError>(())
        });
        let outcome = relay(&t.db, delivery).poll_once().await.unwrap();
        assert_eq!((outcome.delivered, outcome.failed), (1, 1));
        let error = row(&t, panics).await.last_error.unwrap();
        assert!(error.ends_with("is too much"), "{error}");
        assert!(row(&t, fine).await.published_at.is_some());
    }

    async fn a_delivery_that_keeps_order_gets_whole_lanes(t: TestDb) {
        let [a1, b1, a2, free, a3, b2] = write_keys(&t, ["a", "b", "a", "", "a", "b"]).await;
        let batches = Batches { keeps_order: true, ..Batches::refusing(&[a2, a3]) };
        let seen = Arc::clone(&batches.seen);
        let outcome = relay(&t.db, batches).poll_once().await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [vec![a1, b1, a2, free, a3, b2]]);
        assert_eq!((outcome.delivered, outcome.failed, outcome.released), (4, 1, 1));
        assert_eq!((row(&t, a2).await.attempts, row(&t, a3).await.attempts), (1, 0), "only the first refusal counts");
    }

    // catalogue J7
    async fn a_success_behind_a_refusal_is_recorded_because_it_was_delivered(t: TestDb) {
        let [first, second] = write_keys(&t, ["a", "a"]).await;
        let batches = Batches { keeps_order: true, ..Batches::refusing(&[first]) };
        let outcome = relay(&t.db, batches).poll_once().await.unwrap();
        assert_eq!((outcome.delivered, outcome.failed), (1, 1));
        assert!(row(&t, second).await.published_at.is_some());
    }

    // catalogue Q6
    async fn a_database_error_inside_a_delivery_fails_only_its_event(t: TestDb) {
        let [clashes, fine] = write_keys(&t, ["", ""]).await;
        let db = t.db.clone();
        let delivery = CallableDelivery::new(move |event: Model| {
            let db = db.clone();
            async move {
                if event.sequence == clashes {
                    let sql = format!("INSERT INTO hare_outbox (sequence, id, topic, payload, headers) SELECT sequence, id, topic, payload, headers FROM hare_outbox WHERE sequence = {clashes}");
                    db.execute_unprepared(&sql).await?;
                }
                Ok::<_, sea_orm::DbErr>(())
            }
        });
        let outcome = relay(&t.db, delivery).poll_once().await.unwrap();
        assert_eq!((outcome.delivered, outcome.failed), (1, 1));
        assert!(row(&t, fine).await.published_at.is_some());
    }
}

/// Takes everything and notes what it was limited to.
struct Limits(tokio::sync::mpsc::UnboundedSender<BatchLimits>);

#[async_trait::async_trait]
impl OutboxDelivery for Limits {
    async fn deliver(&self, _: &Model) -> Result<Receipt, DeliveryError> {
        unreachable!("batches only")
    }
    async fn deliver_batch(
        &self,
        events: &[Model],
        limits: BatchLimits,
    ) -> Vec<Result<Receipt, DeliveryError>> {
        self.0.send(limits).unwrap();
        events.iter().map(|_| Ok(Receipt::default())).collect()
    }
}

#[tokio::test]
async fn a_shared_delivery_is_asked_like_the_one_inside() {
    let t = TestDb::new(hare_seaorm_tests::Backend::Sqlite).await;
    write_keys(&t, [""]).await;
    let (sender, mut limits) = tokio::sync::mpsc::unbounded_channel();
    let shared: Arc<dyn OutboxDelivery> = Arc::new(Limits(sender));
    relay(&t.db, shared)
        .concurrency(7)
        .delivery_timeout(Duration::from_secs(3))
        .poll_once()
        .await
        .unwrap();
    let limits = limits.recv().await.unwrap();
    assert_eq!(
        (limits.concurrency, limits.timeout, limits.is_stopping()),
        (7, Duration::from_secs(3), false)
    );
}

#[tokio::test]
async fn a_function_may_answer_with_any_error_and_its_own_delivery_error() {
    let t = TestDb::new(hare_seaorm_tests::Backend::Sqlite).await;
    let [text] = write_keys(&t, [""]).await;
    relay(
        &t.db,
        CallableDelivery::new(|_: Model| async { Err::<(), _>("just text") }),
    )
    .poll_once()
    .await
    .unwrap();
    assert_eq!(row(&t, text).await.last_error.as_deref(), Some("just text"));
    let [away] = write_keys(&t, [""]).await;
    let unavailable =
        CallableDelivery::new(|_: Model| async { Err::<(), _>(DeliveryError::unavailable("away")) });
    let outcome = relay(&t.db, unavailable).poll_once().await.unwrap();
    assert_eq!((outcome.failed, outcome.released), (0, 1));
    assert_eq!(row(&t, away).await.attempts, 0);
}
