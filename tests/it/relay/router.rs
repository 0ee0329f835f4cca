//! Topics to deliveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hare_seaorm::delivery::{BatchLimits, DeliveryError, OutboxDelivery, Receipt};
use hare_seaorm::outbox::Model;
use hare_seaorm::{CallableDelivery, ConfigError, Error, MemoryDelivery, TopicRouter};
use hare_seaorm_tests::{Backend, TestDb, on_every_backend};

use super::bench::{Batches, MINUTE, asking, relay, relay_with_clock, row, sequences, within, write};

/// Which of several receivers each topic reaches, by their numbers in `routes`; the last is the default.
async fn reached<const N: usize>(t: &TestDb, routes: [&str; N], topics: &[&str]) -> Vec<Vec<String>> {
    let receivers: Vec<MemoryDelivery> = (0..=N).map(|_| MemoryDelivery::new()).collect();
    let mut router = TopicRouter::new().default_route(receivers[N].clone());
    for (pattern, receiver) in routes.iter().zip(&receivers) {
        router = router.route(*pattern, receiver.clone());
    }
    for topic in topics {
        write(t, topic, None).await;
    }
    // One at a time, so that what a receiver got is in the order written.
    let outcome = relay(&t.db, router).concurrency(1).poll_once().await.unwrap();
    assert_eq!(outcome.delivered, topics.len());
    receivers
        .iter()
        .map(|receiver| receiver.take().into_iter().map(|event| event.topic).collect())
        .collect()
}

on_every_backend! {
    // catalogue O1
    async fn the_exact_topic_is_taken_first_then_the_first_pattern_then_the_default(t: TestDb) {
        let topics = ["a.b", "a.c", "a", "z"];
        assert_eq!(reached(&t, ["a.*", "a.b"], &topics).await, [vec!["a.c"], vec!["a.b"], vec!["a", "z"]]);
        assert_eq!(reached(&t, ["a.?", "a*"], &topics).await, [vec!["a.b", "a.c"], vec!["a"], vec!["z"]]);
        assert_eq!(reached(&t, ["a*", "a.?"], &topics).await, [vec!["a.b", "a.c", "a"], vec![], vec!["z"]]);
    }

    // catalogue O2
    async fn patterns_are_shell_globs_over_whole_topics_with_case(t: TestDb) {
        let star = ["shop.order.line.added", "shop.order.", "Shop.order.x", "my.shop.order.x"];
        assert_eq!(reached(&t, ["shop.order.*"], &star).await, [vec!["shop.order.line.added", "shop.order."], vec!["Shop.order.x", "my.shop.order.x"]]);
        assert_eq!(reached(&t, ["v?.[ab]"], &["v1.a", "v1.c", "v.a", "v11.b"]).await, [vec!["v1.a"], vec!["v1.c", "v.a", "v11.b"]]);
        assert_eq!(reached(&t, ["v[!ab]"], &["va", "vc", "v!", "vcc"]).await, [vec!["vc", "v!"], vec!["va", "vcc"]]);
    }

    // catalogue O3
    async fn an_event_without_a_route_fails_naming_its_topic_and_becomes_a_dead_letter(t: TestDb) {
        let lost = write(&t, "shop.lost", None).await;
        let fine = write(&t, "shop.order", None).await;
        let receiver = MemoryDelivery::new();
        let (relay, clock) = relay_with_clock(&t.db, TopicRouter::new().route("shop.order", receiver.clone()));
        let relay = relay.max_delivery_attempts(2);
        let outcome = relay.poll_once().await.unwrap();
        assert_eq!((outcome.delivered, outcome.failed, outcome.dead_lettered), (1, 1, 0));
        assert_eq!(sequences(&receiver.take()), [fine]);
        clock.advance(MINUTE);
        assert_eq!(relay.poll_once().await.unwrap().dead_lettered, 1);
        let lost = row(&t, lost).await;
        assert!(lost.last_error.unwrap().contains("`shop.lost`"));
        assert!(lost.published_at.is_none() && lost.dead_lettered_at.is_some());
    }

    // catalogue O4
    async fn a_batch_is_split_per_delivery_object_and_each_gets_one_batch(t: TestDb) {
        let mut all = Vec::new();
        for topic in ["a.1", "b", "c", "a.2", "b", "x"] {
            all.push(write(&t, topic, None).await);
        }
        let shared = Arc::new(Batches::refusing(&[all[3]]));
        let other = Batches::refusing(&[all[2]]);
        let seen = [Arc::clone(&shared.seen), Arc::clone(&other.seen)];
        let function = CallableDelivery::new(|_: Model| async { Err::<(), _>("the function refuses") });
        let as_trait: Arc<dyn OutboxDelivery> = shared.clone();
        let router = TopicRouter::new().route("a.*", shared.clone()).route("c", other).route("b", as_trait).default_route(function);
        let outcome = relay(&t.db, router).poll_once().await.unwrap();
        assert_eq!((outcome.delivered, outcome.failed), (3, 3));
        assert_eq!(*seen[0].lock().unwrap(), [vec![all[0], all[1], all[3], all[4]]]);
        assert_eq!(*seen[1].lock().unwrap(), [vec![all[2]]]);
        for (sequence, error) in all.into_iter().zip([None, None, Some("refused"), Some("refused"), None, Some("the function refuses")]) {
            assert_eq!(row(&t, sequence).await.last_error.as_deref(), error);
        }
    }

    // catalogue O5, J4
    async fn a_group_that_panics_or_miscounts_fails_only_its_own_events(t: TestDb) {
        let mut all = Vec::new();
        for topic in ["panics", "miscounts", "fine", "panics"] {
            all.push(write(&t, topic, None).await);
        }
        let receiver = MemoryDelivery::new();
        let router = TopicRouter::new()
            .route("panics", Batches::new(|_| panic!("out of cheese")))
            .route("miscounts", Batches::new(|_| Vec::new()))
            .default_route(receiver.clone());
        let outcome = relay(&t.db, router).poll_once().await.unwrap();
        assert_eq!((outcome.delivered, outcome.failed), (1, 3));
        assert_eq!(sequences(&receiver.take()), [all[2]]);
        assert!(row(&t, all[2]).await.published_at.is_some());
        for (sequence, part) in [(all[0], "out of cheese"), (all[1], "0 answers for 1 events"), (all[3], "out of cheese")] {
            let error = row(&t, sequence).await.last_error.unwrap();
            assert!(error.contains(part), "{error}");
        }
    }

    // catalogue O5
    async fn a_group_that_hangs_fails_only_its_own_events(t: TestDb) {
        let hangs = write(&t, "hangs", None).await;
        let fine = write(&t, "fine", None).await;
        let router = TopicRouter::new().route("hangs", Hanging).route("fine", MemoryDelivery::new());
        let relay = relay(&t.db, router).delivery_timeout(Duration::from_millis(50));
        let outcome = within(relay.poll_once()).await.unwrap();
        assert_eq!((outcome.delivered, outcome.failed), (1, 1));
        assert!(row(&t, fine).await.published_at.is_some());
        assert!(row(&t, hangs).await.last_error.unwrap().contains("not delivered within"));
    }
}

/// Answers no batch, whatever it is limited to.
struct Hanging;

#[async_trait::async_trait]
impl OutboxDelivery for Hanging {
    async fn deliver(&self, _: &Model) -> Result<Receipt, DeliveryError> {
        unreachable!("batches only")
    }
    async fn deliver_batch(&self, _: &[Model], _: BatchLimits) -> Vec<Result<Receipt, DeliveryError>> {
        std::future::pending().await
    }
}

// catalogue O4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_delivered_at_the_same_time() {
    let t = TestDb::new(Backend::Sqlite).await;
    for topic in ["a", "b"] {
        write(&t, topic, None).await;
    }
    let together = Arc::new(tokio::sync::Barrier::new(2));
    let meeting = || {
        let together = Arc::clone(&together);
        CallableDelivery::new(move |_: Model| {
            let together = Arc::clone(&together);
            async move {
                together.wait().await;
                Ok::<_, DeliveryError>(())
            }
        })
    };
    let router = TopicRouter::new().route("a", meeting()).route("b", meeting());
    let outcome = within(relay(&t.db, router).concurrency(1).poll_once())
        .await
        .unwrap();
    assert_eq!(outcome.delivered, 2);
}

/// Takes everything; counts how often it is closed, and says what it is told to then.
struct Closing {
    closed: Arc<AtomicUsize>,
    error: Option<&'static str>,
}

#[async_trait::async_trait]
impl OutboxDelivery for Closing {
    async fn deliver(&self, _: &Model) -> Result<Receipt, DeliveryError> {
        Ok(Receipt::default())
    }
    async fn close(&self) -> Result<(), DeliveryError> {
        self.closed.fetch_add(1, Ordering::SeqCst);
        match self.error {
            None => Ok(()),
            Some("panic") => panic!("it panicked"),
            Some(error) => Err(DeliveryError::failed(error)),
        }
    }
}

// catalogue O4
#[tokio::test]
async fn closing_closes_each_delivery_once_and_all_even_if_some_fail() {
    let closed: Vec<Arc<AtomicUsize>> = (0..4).map(|_| Arc::default()).collect();
    let closing = |number: usize, error| {
        Arc::new(Closing {
            closed: Arc::clone(&closed[number]),
            error,
        })
    };
    let (failing, shared) = (closing(0, Some("the first failed")), closing(1, None));
    let router = TopicRouter::new()
        .route("a", failing.clone())
        .route("b", shared.clone())
        .route("c*", failing)
        .route("d", closing(2, Some("panic")))
        .route("e", closing(3, None))
        .default_route(shared);
    let error = router.close().await.unwrap_err().to_string();
    assert!(
        error.contains("the first failed") && error.contains("it panicked"),
        "{error}"
    );
    assert!(
        closed.iter().all(|closed| closed.load(Ordering::SeqCst) == 1),
        "{closed:?}"
    );
}

// catalogue P2
#[tokio::test]
async fn bad_routes_fail_every_way_of_starting() {
    let t = TestDb::new(Backend::Sqlite).await;
    let event = write(&t, "a", None).await;
    let inner = TopicRouter::new().route("[", MemoryDelivery::new());
    let router = || {
        TopicRouter::new()
            .route("", MemoryDelivery::new())
            .route("a[b", MemoryDelivery::new())
            .route("a", MemoryDelivery::new())
            .route("a", MemoryDelivery::new())
            .default_route(MemoryDelivery::new())
    };
    let ConfigError { problems, .. } = relay(&t.db, router().route("inner", inner))
        .batch_size(0)
        .start()
        .unwrap_err();
    for part in [
        "`batch_size`",
        "the route `` ",
        "the route `a[b` ",
        "the route `a` is given twice",
        "the route `[` ",
    ] {
        assert!(
            problems.iter().any(|problem| problem.contains(part)),
            "{part} is missing in {problems:?}"
        );
    }
    assert!(matches!(
        relay(&t.db, router()).poll_once().await,
        Err(Error::Config(_))
    ));
    assert!(matches!(
        relay(&t.db, router()).flush(1).await,
        Err(Error::Config(_))
    ));
    assert!(
        relay(&t.db, router())
            .run_until(std::future::pending())
            .await
            .is_err()
    );
    assert!(
        relay(&t.db, TopicRouter::new()).start().is_err(),
        "a router without a route"
    );
    let untouched = row(&t, event).await;
    assert_eq!((untouched.attempts, untouched.claims), (0, 0));
    // Called by itself, it sends nothing either.
    assert!(
        router()
            .deliver(&untouched)
            .await
            .unwrap_err()
            .to_string()
            .contains("`a[b`")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_reaches_the_deliveries_behind_the_router() {
    let t = TestDb::new(Backend::Sqlite).await;
    let [sent, waiting] = [write(&t, "a", None).await, write(&t, "a", None).await];
    let (delivery, mut sends) = asking();
    let closed = Arc::clone(&sends.closed);
    let handle = Arc::new(
        relay(&t.db, TopicRouter::new().route("a", delivery))
            .concurrency(1)
            .start()
            .unwrap(),
    );
    let send = sends.next().await;
    let stopping = tokio::spawn({
        let handle = Arc::clone(&handle);
        async move { handle.stop().await }
    });
    // A second asker sees that the stop was asked for.
    assert!(
        tokio::time::timeout(Duration::from_millis(1), handle.stop())
            .await
            .is_err()
    );
    send.answer.send(Ok(())).unwrap();
    within(stopping).await.unwrap();
    assert!(sends.is_empty() && closed.available_permits() == 1);
    assert!(row(&t, sent).await.published_at.is_some());
    assert_eq!(
        (
            row(&t, waiting).await.attempts,
            row(&t, waiting).await.lease_token
        ),
        (0, None)
    );
}

/// Takes everything, and has reports written to a column.
struct Reporting(Option<&'static str>);

#[async_trait::async_trait]
impl OutboxDelivery for Reporting {
    async fn deliver(&self, _: &Model) -> Result<Receipt, DeliveryError> {
        Ok(Receipt::default())
    }
    fn report_column(&self) -> Option<&str> {
        self.0
    }
}

#[test]
fn a_router_reports_to_the_one_column_of_its_deliveries() {
    let router = |columns: [Option<&'static str>; 3]| {
        columns
            .into_iter()
            .zip(["a", "b", "c"])
            .fold(TopicRouter::new(), |router, (column, topic)| {
                router.route(topic, Reporting(column))
            })
    };
    let one = router([None, Some("result"), Some("result")]);
    assert_eq!((one.report_column(), one.check()), (Some("result"), Ok(())));
    assert_eq!(router([None; 3]).report_column(), None);
    let error = router([Some("result"), None, Some("answer")])
        .check()
        .unwrap_err();
    assert!(error.to_string().contains("`answer` and `result`"), "{error}");
}

#[test]
fn a_router_never_keeps_the_order_of_keys() {
    let ordered = Batches {
        keeps_order: true,
        ..Batches::accepting()
    };
    assert!(!TopicRouter::new().route("a", ordered).keeps_key_order());
}
