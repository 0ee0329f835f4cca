//! Several events of one's own at once.

use std::sync::{Arc, Mutex};

use hare_seaorm::outbox::{self, enqueue, enqueue_many};
use hare_seaorm::wakeup::{OutboxWakeup, Signals, WakeupError};
use hare_seaorm::{Error, MemoryDelivery, OutboxMessage, OutboxRelay};
use hare_seaorm_tests::database::until_someone_waits_for_a_lock;
use hare_seaorm_tests::shop::plain;
use hare_seaorm_tests::statements::Statements;
use hare_seaorm_tests::wakeup::RecordingWakeup;
use hare_seaorm_tests::{Shop, TestDb, on_backends, on_every_backend};
use sea_orm::{
    ActiveModelTrait, DatabaseConnection, DbBackend, EntityTrait, PaginatorTrait, Set, TransactionTrait,
};
use tokio::sync::Barrier;

fn message(topic: impl Into<String>) -> OutboxMessage {
    OutboxMessage::new(topic, &1).unwrap()
}

/// A message under each key; `""` is none. The topic tells the place.
fn keyed(keys: &[&str]) -> Vec<OutboxMessage> {
    keys.iter()
        .enumerate()
        .map(|(place, key)| match *key {
            "" => message(place.to_string()),
            key => message(place.to_string()).idempotency_key(key),
        })
        .collect()
}

fn inserts(statements: &Statements) -> (usize, usize) {
    let seen = statements.take();
    let count = |word| seen.iter().filter(|sql| sql.starts_with(word)).count();
    // What MySQL reads back of its own rows, and its look at the unique keys, are not searches for a key.
    let searches = |sql: &&String| {
        sql.starts_with("SELECT") && sql.contains("WHERE") && sql.contains("idempotency_key") && {
            let condition = sql.split("WHERE").last().unwrap();
            condition.contains("idempotency_key")
        }
    };
    (count("INSERT"), seen.iter().filter(searches).count())
}

/// Notes how many events another connection sees when it is signalled.
struct Looking {
    elsewhere: DatabaseConnection,
    seen: Mutex<Vec<u64>>,
}

#[async_trait::async_trait]
impl OutboxWakeup for Looking {
    async fn signal(&self, _topics: &[String]) -> Result<(), WakeupError> {
        let events = outbox::Entity::find().count(&self.elsewhere).await.unwrap();
        self.seen.lock().unwrap().push(events);
        Ok(())
    }

    async fn listen(&self, _db: &DatabaseConnection, _signals: &Signals) -> Result<(), WakeupError> {
        std::future::pending().await
    }
}

on_every_backend! {
    // catalogue E1, E9
    async fn events_come_back_in_the_order_of_the_messages(t: TestDb) {
        let messages = (0..1000).map(|n| message(format!("topic {n}")).ordering_key(format!("key {}", n % 7)));
        let enqueued = enqueue_many(&t.db, messages).await.unwrap();
        assert_eq!(enqueued.len(), 1000);
        for (n, enqueued) in enqueued.iter().enumerate() {
            assert!(enqueued.is_new);
            assert_eq!(enqueued.event.topic, format!("topic {n}"));
        }
        let stored = t.outbox().await;
        assert_eq!(enqueued.into_iter().map(|enqueued| enqueued.event).collect::<Vec<_>>(), stored);
    }

    // catalogue E1
    async fn no_messages_are_no_statement_and_no_signal(t: TestDb) {
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        let none: [OutboxMessage; 0] = [];
        assert_eq!(enqueue_many(&db, none).await.unwrap(), []);
        assert_eq!(statements.take(), Vec::<String>::new());
    }

    // catalogue E2
    async fn all_or_none_is_written_and_the_transaction_goes_on(t: Shop) {
        t.execute("CREATE UNIQUE INDEX one_topic ON hare_outbox (topic)").await;
        enqueue(&t.db, message("2")).await.unwrap();
        let five = || keyed(&["a", "", "", "b", ""]);

        let error = enqueue_many(&t.db, five()).await.unwrap_err();
        assert!(matches!(error, Error::Integrity { source: Some(_), .. }), "{error:?}");
        assert_eq!(t.count("hare_outbox").await, 1);

        let txn = t.db.begin().await.unwrap();
        plain::ActiveModel { name: Set("row".into()), ..Default::default() }.insert(&txn).await.unwrap();
        enqueue_many(&txn, five()).await.unwrap_err();
        enqueue(&txn, message("after")).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(t.count("plain").await, 1);
        let topics: Vec<_> = t.events().await.into_iter().map(|event| event.topic).collect();
        assert_eq!(topics, ["2", "after"]);

        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        enqueue_many(&txn, five()).await.unwrap_err();
        enqueue_many(&txn, [message("ours")]).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(t.events().await.last().unwrap().topic, "ours");
        assert_eq!(t.count("hare_outbox").await, 3);
    }

    // catalogue E3
    async fn runs_of_either_kind_keep_the_order_of_their_key(t: TestDb) {
        let messages = keyed(&["d", "b", "", "", "c", "", "a", ""]).into_iter().map(|message| message.ordering_key("one"));
        enqueue_many(&t.db, messages).await.unwrap();
        let delivery = MemoryDelivery::new();
        OutboxRelay::new(t.db.clone(), delivery.clone()).flush(100).await.unwrap();
        assert_eq!(delivery.topics(), ["0", "1", "2", "3", "4", "5", "6", "7"]);
    }

    // catalogue E4
    async fn each_run_of_alike_messages_is_one_insert(t: TestDb) {
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        enqueue_many(&db, (0..100).map(|n| message(n.to_string()))).await.unwrap();
        assert_eq!(inserts(&statements), (1, 0));
        enqueue_many(&db, keyed(&["a", "b", "", "", "c"])).await.unwrap();
        assert_eq!(inserts(&statements), (3, 0));
        // What only some messages set makes no run of its own, and is set on these alone.
        let time = chrono::DateTime::UNIX_EPOCH + chrono::TimeDelta::days(365 * 100);
        let some = [message("x"), message("y").max_attempts(3), message("z").not_before(time)];
        let some = enqueue_many(&db, some).await.unwrap();
        assert_eq!(inserts(&statements), (1, 0));
        assert_eq!([0, 1, 2].map(|place| some[place].event.max_attempts), [None, Some(3), None]);
        assert_eq!([0, 1, 2].map(|place| some[place].event.next_attempt_at), [None, None, Some(time)]);
    }

    // catalogue E4
    async fn more_rows_than_a_statement_binds_are_written_in_parts(t: TestDb) {
        let enqueued = enqueue_many(&t.db, (0..9000).map(|n| message(n.to_string()))).await.unwrap();
        assert!(enqueued.iter().enumerate().all(|(n, enqueued)| enqueued.event.topic == n.to_string()));
        assert!(enqueued.is_sorted_by_key(|enqueued| enqueued.event.sequence));
        assert_eq!(t.count("hare_outbox").await, 9000);
    }

    // catalogue E4
    async fn more_text_than_a_statement_holds_is_written_in_parts(t: TestDb) {
        let long = "x".repeat(1_000_000);
        let messages = (0..20).map(|n| OutboxMessage::new(n.to_string(), &long).unwrap());
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        let unkeyed = enqueue_many(&db, messages.clone()).await.unwrap();
        assert_eq!(inserts(&statements).0, 5);
        let keyed = enqueue_many(&db, messages.enumerate().map(|(n, message)| message.idempotency_key(n.to_string()))).await.unwrap();
        assert_eq!(inserts(&statements).0, 5);
        for enqueued in [unkeyed, keyed] {
            assert!(enqueued.iter().enumerate().all(|(n, enqueued)| enqueued.event.topic == n.to_string()));
            assert!(enqueued.is_sorted_by_key(|enqueued| enqueued.event.sequence));
        }
        assert_eq!(t.count("hare_outbox").await, 40);
    }

    // catalogue E5
    async fn a_key_that_is_taken_or_given_twice_gives_its_one_event(t: TestDb) {
        let known: Vec<_> = enqueue_many(&t.db, keyed(&["k1", "k2", "k3"])).await.unwrap();
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        let enqueued = enqueue_many(&db, keyed(&["k2", "new", "", "k3", "new", "k1", "k2"])).await.unwrap();
        assert_eq!(inserts(&statements).1, 1, "all known events are read by one SELECT");
        let is_new: Vec<bool> = enqueued.iter().map(|enqueued| enqueued.is_new).collect();
        assert_eq!(is_new, [false, true, true, false, false, false, false]);
        for (place, holder) in [(0, 1), (3, 2), (5, 0), (6, 1)] {
            assert_eq!(enqueued[place].event, known[holder].event);
        }
        assert_eq!(enqueued[4].event, enqueued[1].event);
        assert_eq!(t.count("hare_outbox").await, 5);
    }

    // catalogue D9, E5
    async fn an_id_given_twice_is_not_taken_for_another_messages_event(t: TestDb) {
        let known = enqueue(&t.db, message("known").idempotency_key("k")).await.unwrap().event;
        let id = uuid::Uuid::now_v7();
        let with = |topic: &str, key: &str| message(topic).id(id).idempotency_key(key);
        let told = enqueue_many(&t.db, [with("taken", "k"), with("new", "n"), with("again", "n")]).await.unwrap();
        assert_eq!([0, 1, 2].map(|place| told[place].is_new), [false, true, false]);
        assert_eq!([0, 1, 2].map(|place| told[place].event.topic.as_str()), ["known", "new", "new"]);
        assert_eq!((&told[0].event, told[1].event.id), (&known, id));
    }

    // catalogue D8, D14
    async fn of_several_the_one_that_breaks_another_rule_is_refused_for_that(t: TestDb) {
        let known = enqueue(&t.db, message("known").idempotency_key("k")).await.unwrap().event;
        let broken = message("t").idempotency_key("broken").id(known.id);
        let around = |broken| [message("t").idempotency_key("k"), message("t"), broken, message("t"), message("t").idempotency_key("k")];
        let error = enqueue_many(&t.db, around(broken)).await.unwrap_err();
        let Error::Integrity { source: Some(source), .. } = &error else { panic!("{error:?}") };
        assert!(!error.is_retryable());
        let names_the_id = ["hare_outbox_id", "hare_outbox.id"].iter().any(|name| source.to_string().contains(name));
        assert!(names_the_id, "the rule that is broken: {source}");
        assert_eq!(t.outbox().await, [known]);
    }

    // catalogue C3, E6
    async fn relays_are_told_after_the_commit_and_each_by_its_events_wakeup(t: TestDb) {
        let looking = Arc::new(Looking { elsewhere: t.another_pool(1).await, seen: Mutex::default() });
        enqueue_many(&t.db, [message("a").wakeup(looking.clone()), message("b")]).await.unwrap();
        enqueue(&t.db, message("c").wakeup(looking.clone())).await.unwrap();
        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        enqueue_many(&txn, [message("d").wakeup(looking.clone())]).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(std::mem::take(&mut *looking.seen.lock().unwrap()), [2, 3, 4]);

        let (one, other) = (Arc::new(RecordingWakeup::default()), Arc::new(RecordingWakeup::default()));
        enqueue_many(&t.db, [message("x").wakeup(one.clone()), message("y").wakeup(other.clone())]).await.unwrap();
        assert_eq!((one.take(), other.take()), (vec![vec!["x".to_owned()]], vec![vec!["y".to_owned()]]));
    }

    // catalogue E6
    async fn one_signal_names_the_topics_that_were_written(t: TestDb) {
        let wakeup = Arc::new(RecordingWakeup::default());
        let told = |topic: &str, key: &str| message(topic).idempotency_key(key).wakeup(wakeup.clone());
        enqueue(&t.db, message("t").idempotency_key("known")).await.unwrap();
        enqueue_many(&t.db, [told("b", "1"), told("duplicate", "known"), told("a", "2"), told("b", "3")]).await.unwrap();
        assert_eq!(wakeup.take(), [["a", "b"]]);
        enqueue_many(&t.db, [told("c", "1"), told("d", "known")]).await.unwrap();
        assert_eq!(wakeup.take(), Vec::<Vec<String>>::new());

        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        enqueue_many(&txn, [told("e", "4")]).await.unwrap();
        assert_eq!(wakeup.take(), Vec::<Vec<String>>::new());
        txn.commit().await.unwrap();
        assert_eq!(wakeup.take(), [["e"]]);
    }

    // catalogue E7
    async fn every_message_is_checked_before_anything_is_written(t: TestDb) {
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        let error = enqueue_many(&db, [message("a"), message("b"), message("c").ordering_key("")]).await.unwrap_err();
        assert!(matches!(error, Error::Validation { .. }), "{error:?}");
        let refusing = Arc::new(RecordingWakeup { refuses: true, ..Default::default() });
        let error = enqueue_many(&db, [message("a"), message("b").wakeup(refusing)]).await.unwrap_err();
        assert!(matches!(error, Error::Config(_)), "{error:?}");
        assert_eq!(statements.take(), Vec::<String>::new());
        assert_eq!(t.count("hare_outbox").await, 0);
    }
}

on_backends! { [postgres, mariadb]
    // catalogue E8, P3, Q7
    async fn of_two_calls_that_cross_one_is_told_to_try_again(t: TestDb) {
        let both_hold_one = Arc::new(Barrier::new(2));
        let call = |first: &'static str, second: &'static str| {
            let (db, barrier) = (t.db.clone(), Arc::clone(&both_hold_one));
            tokio::spawn(async move {
                let txn = db.begin().await.unwrap();
                enqueue(&txn, message("t").idempotency_key(first)).await.unwrap();
                barrier.wait().await;
                match enqueue_many(&txn, [message("t").idempotency_key(second)]).await {
                    Ok(_) => txn.commit().await.map_err(|error| error.to_string()).map_err(|_| unreachable!()),
                    Err(error) => {
                        drop(txn.rollback().await);
                        Err(error)
                    }
                }
            })
        };
        let (one, other) = (call("a", "b"), call("b", "a"));
        let results = [one.await.unwrap(), other.await.unwrap()];
        let errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        assert_eq!(errors.len(), 1, "exactly one gives way: {errors:?}");
        assert!(matches!(errors[0], Error::Retryable { .. }) && errors[0].is_retryable(), "{errors:?}");
        assert_eq!(errors[0].to_string().contains("the transaction is gone"), t.is(DbBackend::MySql), "{}", errors[0]);
        // Its retry finds both.
        let again = enqueue_many(&t.db, keyed(&["a", "b"])).await.unwrap();
        assert!(again.iter().all(|enqueued| !enqueued.is_new));
        assert_eq!(t.count("hare_outbox").await, 2);
    }

    // catalogue E8
    async fn calls_that_take_keys_in_one_order_do_not_cross(t: TestDb) {
        for round in 0..100 {
            let barrier = Arc::new(Barrier::new(2));
            let calls = [0, 1].map(|_| {
                let (db, barrier) = (t.db.clone(), Arc::clone(&barrier));
                tokio::spawn(async move {
                    let messages = (0..5).map(|n| message("t").idempotency_key(format!("{round}-{n}")));
                    let messages: Vec<_> = messages.collect();
                    barrier.wait().await;
                    enqueue_many(&db, messages).await
                })
            });
            let mut new = 0;
            for call in calls {
                let enqueued = call.await.unwrap().unwrap();
                new += enqueued.iter().filter(|enqueued| enqueued.is_new).count();
            }
            assert_eq!(new, 5);
        }
    }

    // catalogue E8, D4
    async fn a_call_waits_for_the_key_that_another_writes(t: TestDb) {
        let first = t.db.begin().await.unwrap();
        let theirs = enqueue(&first, message("theirs").idempotency_key("b")).await.unwrap().event;
        let second = tokio::spawn({
            let db = t.db.clone();
            async move { enqueue_many(&db, keyed(&["a", "b", "c"])).await }
        });
        until_someone_waits_for_a_lock(&t).await;
        assert!(!second.is_finished());
        first.commit().await.unwrap();
        let enqueued = second.await.unwrap().unwrap();
        assert_eq!(enqueued.iter().map(|enqueued| enqueued.is_new).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(enqueued[1].event, theirs);
    }
}
