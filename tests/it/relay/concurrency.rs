//! Several relays on one table.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hare_seaorm::delivery::DeliveryError;
use hare_seaorm::outbox::Model;
use hare_seaorm::{CallableDelivery, MemoryDelivery, OutboxRelay};
use hare_seaorm_tests::{TestDb, on_backends, on_every_backend};
use tokio::task::JoinSet;

use super::bench::{asking, relay, row, sequences, within, write, write_keys};

/// Polls with several relays at once until nothing is left.
async fn drain(t: &TestDb, relays: impl IntoIterator<Item = OutboxRelay>) {
    let mut polling = JoinSet::new();
    for relay in relays {
        let db = t.db.clone();
        polling.spawn(async move {
            loop {
                relay.poll_once().await.unwrap();
                let left = sea_orm::PaginatorTrait::count(
                    sea_orm::QueryFilter::filter(
                        <hare_seaorm::outbox::Entity as sea_orm::EntityTrait>::find(),
                        sea_orm::ColumnTrait::is_null(&hare_seaorm::outbox::Column::PublishedAt),
                    ),
                    &db,
                );
                if left.await.unwrap() == 0 {
                    break;
                }
            }
        });
    }
    within(async { while polling.join_next().await.transpose().unwrap().is_some() {} }).await;
}

on_every_backend! {
    // catalogue Q1
    async fn four_relays_deliver_each_event_once(t: TestDb) {
        let mut written = write_keys(&t, [""; 40]).await.to_vec();
        let receiver = MemoryDelivery::new();
        drain(&t, (0..4).map(|_| relay(&t.db, receiver.clone()).batch_size(5))).await;
        let mut delivered = sequences(&receiver.take());
        delivered.sort_unstable();
        written.sort_unstable();
        assert_eq!(delivered, written);
    }

    // catalogue Q1
    async fn three_relays_deliver_a_key_in_order(t: TestDb) {
        let written = write_keys(&t, ["a"; 10]).await;
        let receiver = MemoryDelivery::new();
        drain(&t, (0..3).map(|_| relay(&t.db, receiver.clone()).batch_size(3))).await;
        assert_eq!(sequences(&receiver.take()), written);
    }

    // catalogue Q2
    async fn what_one_relay_delivers_another_passes_over(t: TestDb) {
        let [first] = write_keys(&t, ["a"]).await;
        let (delivery, mut sends) = asking();
        let busy = relay(&t.db, delivery);
        let polling = tokio::spawn(async move { busy.poll_once().await });
        let send = sends.next().await;
        let [behind, free] = write_keys(&t, ["a", ""]).await;
        let receiver = MemoryDelivery::new();
        let other = relay(&t.db, receiver.clone());
        within(other.poll_once()).await.unwrap();
        assert_eq!(sequences(&receiver.take()), [free]);
        send.answer.send(Ok(())).unwrap();
        within(polling).await.unwrap().unwrap();
        assert!(row(&t, first).await.published_at.is_some());
        other.poll_once().await.unwrap();
        assert_eq!(sequences(&receiver.take()), [behind]);
    }

    // catalogue I9
    async fn relays_of_different_topics_leave_each_other_alone(t: TestDb) {
        let (a, b) = (write(&t, "a", None).await, write(&t, "b", None).await);
        let receiver = MemoryDelivery::new();
        relay(&t.db, receiver.clone()).topics(["a"]).poll_once().await.unwrap();
        assert_eq!(sequences(&receiver.take()), [a]);
        relay(&t.db, receiver.clone()).topics(["b", "c"]).poll_once().await.unwrap();
        assert_eq!(sequences(&receiver.take()), [b]);
    }
}

on_backends! { [postgres, mariadb]
    // Six relays claim, fail, lose leases to each other and settle at once: first deliveries of a key stay in order, and no
    // two relays ever hold the same live lease.
    async fn order_survives_relays_that_steal_from_each_other(t: TestDb) {
        let mut of_key: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for number in 0..240 {
            let key = format!("key {}", number % 7);
            of_key.entry(key.clone()).or_default().push(write(&t, "shop.order", Some(&key)).await);
        }
        let arrivals: Arc<Mutex<Vec<Model>>> = Arc::default();
        let pool = t.another_pool(8).await;
        let relays = (0_u64..6).map(|number| {
            let arrivals = Arc::clone(&arrivals);
            let mut turn = number;
            let turn = Arc::new(Mutex::new(move || {
                turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                turn >> 33
            }));
            let delivery = CallableDelivery::new(move |event: Model| {
                let (arrivals, turn) = (Arc::clone(&arrivals), Arc::clone(&turn));
                async move {
                    let chance = turn.lock().unwrap()() % 100;
                    if chance < 5 {
                        return Err(DeliveryError::failed("refused"));
                    }
                    tokio::time::sleep(std::time::Duration::from_millis(chance % 3)).await;
                    arrivals.lock().unwrap().push(event);
                    Ok(())
                }
            });
            // Every claim's time runs ahead of the others' leases now and then, so that leases are lost in mid-delivery.
            let clock = hare_seaorm::testing::TestClock::new();
            let moved = clock.clone();
            let relay = relay(&pool, delivery)
                .clock(clock)
                .batch_size(20)
                .lane_length(6)
                .max_delivery_attempts(10_000)
                .retry_base(std::time::Duration::ZERO);
            if number % 2 == 0 {
                moved.advance(std::time::Duration::from_secs(120));
            }
            relay
        });
        drain(&t, relays).await;
        let arrivals = std::mem::take(&mut *arrivals.lock().unwrap());
        let mut first: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for event in arrivals {
            let of_key = first.entry(event.ordering_key.unwrap()).or_default();
            if !of_key.contains(&event.sequence) {
                of_key.push(event.sequence);
            }
        }
        assert_eq!(first, of_key);
        pool.close().await.unwrap();
    }
}
