//! One event per idempotency key.

use std::sync::Arc;

use hare_seaorm::outbox::{self, Enqueued, enqueue, enqueue_many};
use hare_seaorm::{Error, MemoryDelivery, OutboxMessage, OutboxRelay};
use hare_seaorm_tests::database::until_someone_waits_for_a_lock;
use hare_seaorm_tests::wakeup::RecordingWakeup;
use hare_seaorm_tests::{Backend, Shop, TestDb, on_backends, on_every_backend};
use sea_orm::{ActiveModelTrait, ConnectionTrait, EntityTrait, IsolationLevel, Set, TransactionTrait};
use serde_json::json;
use uuid::Uuid;

fn message(topic: &str, key: &str) -> OutboxMessage {
    OutboxMessage::new(topic, &json!({"n": 1}))
        .unwrap()
        .idempotency_key(key)
}

/// The key of another table's row that is unique too, for a conflict that is not the key's.
async fn make_topics_unique(t: &TestDb) {
    t.execute("CREATE UNIQUE INDEX one_topic ON hare_outbox (topic)")
        .await;
}

on_every_backend! {
    // catalogue D1, D2, R2
    async fn a_key_has_one_event_ever(t: TestDb) {
        let wakeup = Arc::new(RecordingWakeup::default());
        let first = enqueue(&t.db, message("first", "k").wakeup(wakeup.clone())).await.unwrap();
        assert!(first.is_new);
        t.execute("UPDATE hare_outbox SET attempts = 3").await;
        let other = OutboxMessage::new("second", &json!({"n": 2})).unwrap().idempotency_key("k").ordering_key("o");
        let second = enqueue(&t.db, other.wakeup(wakeup.clone())).await.unwrap();
        assert!(!second.is_new);
        let mut unchanged = first.event;
        unchanged.attempts = 3;
        assert_eq!(second.event, unchanged);
        assert_eq!(second.event, t.outbox().await[0]);
        assert_eq!(t.count("hare_outbox").await, 1);
        assert_eq!(wakeup.take(), [["first"]]);
    }

    // catalogue D3
    async fn a_repetition_leaves_the_transaction_usable(t: Shop) {
        use hare_seaorm_tests::shop::plain;

        let txn = t.db.begin().await.unwrap();
        let first = enqueue(&txn, message("t", "k")).await.unwrap();
        let second = enqueue(&txn, message("t", "k")).await.unwrap();
        assert_eq!((second.is_new, second.event), (false, first.event));
        plain::ActiveModel { name: Set("row".into()), ..Default::default() }.insert(&txn).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!((t.count("plain").await, t.count("hare_outbox").await), (1, 1));
    }

    // catalogue D5, Q7
    async fn a_rollback_frees_the_key(t: TestDb) {
        let txn = t.db.begin().await.unwrap();
        enqueue(&txn, message("undone", "k")).await.unwrap();
        txn.rollback().await.unwrap();
        let again = enqueue(&t.db, message("kept", "k")).await.unwrap();
        assert!(again.is_new);
        assert_eq!(t.event().await.topic, "kept");

        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        let nested = txn.begin().await.unwrap();
        enqueue(&nested, message("undone", "s")).await.unwrap();
        nested.rollback().await.unwrap();
        assert!(enqueue(&txn, message("kept", "s")).await.unwrap().is_new);
        txn.commit().await.unwrap();
        assert_eq!(t.event().await.topic, "kept");
    }

    // catalogue D6
    async fn an_event_holds_its_key_when_it_is_delivered_or_dead(t: TestDb) {
        let done = enqueue(&t.db, message("t", "done")).await.unwrap().event.id;
        let dead = enqueue(&t.db, message("t", "dead")).await.unwrap().event.id;
        t.execute("UPDATE hare_outbox SET published_at = created_at WHERE idempotency_key = 'done'").await;
        t.execute("UPDATE hare_outbox SET dead_lettered_at = created_at WHERE idempotency_key = 'dead'").await;
        for (key, id) in [("done", done), ("dead", dead)] {
            let again = enqueue(&t.db, message("t", key)).await.unwrap();
            assert_eq!((again.is_new, again.event.id), (false, id));
        }
    }

    // catalogue D7
    async fn cleaning_up_frees_the_key(t: TestDb) {
        let first = enqueue(&t.db, message("t", "k")).await.unwrap().event;
        let relay = OutboxRelay::new(t.db.clone(), MemoryDelivery::new());
        relay.flush(10).await.unwrap();
        assert!(!enqueue(&t.db, message("t", "k")).await.unwrap().is_new);
        // By the database's clock, which on SQLite has milliseconds.
        while relay.cleanup_published(std::time::Duration::ZERO).await.unwrap() == 0 {}
        let again = enqueue(&t.db, message("t", "k")).await.unwrap();
        assert!(again.is_new && again.event.id != first.id);
    }

    // catalogue D8, D14
    async fn only_the_key_is_deduplicated(t: TestDb) {
        let first = enqueue(&t.db, message("taken", "k1")).await.unwrap().event;
        let refused = enqueue(&t.db, message("t", "k2").id(first.id)).await.unwrap_err();
        assert!(matches!(&refused, Error::Integrity { source: Some(_), .. }), "{refused:?}");
        assert!(!refused.is_retryable());
        make_topics_unique(&t).await;
        let refused = enqueue(&t.db, message("taken", "k3")).await.unwrap_err();
        assert!(matches!(&refused, Error::Integrity { source: Some(_), .. }), "{refused:?}");
        assert_eq!(t.outbox().await, [first]);
        assert!(enqueue(&t.db, message("t", "k2")).await.unwrap().is_new, "no row holds the refused key");
    }

    // catalogue D8
    async fn what_another_rule_refuses_is_not_answered_with_a_later_event_of_its_key(t: TestDb) {
        make_topics_unique(&t).await;
        enqueue(&t.db, message("taken", "k0")).await.unwrap();
        let error = enqueue_many(&t.db, [message("taken", "k1"), message("free", "k1")]).await.unwrap_err();
        assert!(matches!(&error, Error::Integrity { source: Some(_), .. }), "{error:?}");
        assert_eq!(t.count("hare_outbox").await, 1);
    }

    // catalogue D9
    async fn the_insert_itself_tells_whether_it_is_new(t: TestDb) {
        let wakeup = Arc::new(RecordingWakeup::default());
        let id = Uuid::now_v7();
        for is_new in [true, false] {
            let same = message("t", "k").id(id).wakeup(wakeup.clone());
            let Enqueued { event, is_new: told, .. } = enqueue(&t.db, same).await.unwrap();
            assert_eq!((event.id, told), (id, is_new));
        }
        assert_eq!(wakeup.take(), [["t"]]);
    }

    // catalogue D11, P2
    async fn a_table_that_keeps_no_key_unique_is_refused(t: TestDb) {
        let drop = match t.backend {
            Backend::MariaDb => "DROP INDEX hare_outbox_idempotency_key ON hare_outbox",
            Backend::Postgres | Backend::Sqlite => "DROP INDEX hare_outbox_idempotency_key",
        };
        t.execute(drop).await;
        // A key that is not unique, one that covers more, and one that covers the beginning only, do not help.
        t.execute("CREATE INDEX plain ON hare_outbox (idempotency_key)").await;
        t.execute("CREATE UNIQUE INDEX more ON hare_outbox (idempotency_key, sequence)").await;
        if t.backend == Backend::MariaDb {
            t.execute("CREATE UNIQUE INDEX beginning ON hare_outbox (idempotency_key(100))").await;
        }
        for _ in 0..2 {
            let refused = enqueue(&t.db, message("t", "k")).await.unwrap_err();
            assert!(matches!(refused, Error::Config(_)), "{refused:?}");
            assert!(refused.to_string().contains("no table `hare_outbox` with a unique key of exactly (idempotency_key)"), "{refused}");
        }
        assert_eq!(t.outbox().await, []);
        enqueue(&t.db, OutboxMessage::new("t", &1).unwrap()).await.unwrap();
    }

    // catalogue A7
    async fn keys_are_compared_to_the_letter(t: TestDb) {
        let keys = ["Order-1", "order-1", "order-1 ", "órder-1", "order-1\u{301}", "ORDER-1", "ss", "ß"];
        for key in keys {
            assert!(enqueue(&t.db, message("t", key)).await.unwrap().is_new, "{key}");
        }
        for key in keys {
            let again = enqueue(&t.db, message("t", key)).await.unwrap();
            assert_eq!((again.is_new, again.event.idempotency_key.as_deref()), (false, Some(key)));
        }
        assert_eq!(t.count("hare_outbox").await, i64::try_from(keys.len()).unwrap());
    }

    // catalogue A4, C10, P4
    async fn a_key_is_neither_empty_nor_longer_than_255_characters(t: TestDb) {
        assert!(enqueue(&t.db, message("t", &"ä".repeat(255))).await.unwrap().is_new);
        for key in [String::new(), "ä".repeat(256), "k".repeat(1_000_000)] {
            let error = enqueue(&t.db, message("t", &key)).await.unwrap_err();
            assert!(matches!(&error, Error::Validation { what, .. } if what == "the idempotency key"), "{error}");
            assert!(error.to_string().len() < 200, "shown values are shortened: {error}");
        }
        assert_eq!(t.count("hare_outbox").await, 1);
    }

    // catalogue D4
    async fn a_key_that_another_transaction_writes_is_waited_for(t: TestDb) {
        for ends_in_commit in [true, false] {
            let first = t.db.begin().await.unwrap();
            let ours = enqueue(&first, message("first", "k")).await.unwrap().event;
            let second = tokio::spawn({
                let db = t.db.clone();
                async move {
                    // Its snapshot is from before the first one's commit.
                    let second = db.begin().await.unwrap();
                    if db.get_database_backend() != sea_orm::DbBackend::Sqlite {
                        assert_eq!(outbox::Entity::find().all(&second).await.unwrap(), []);
                    }
                    let enqueued = enqueue(&second, message("second", "k")).await.unwrap();
                    second.commit().await.unwrap();
                    enqueued
                }
            });
            // SQLite does not tell who waits; what comes out is the same.
            if t.backend != Backend::Sqlite {
                until_someone_waits_for_a_lock(&t).await;
                assert!(!second.is_finished());
            }
            if ends_in_commit {
                first.commit().await.unwrap();
                let second = second.await.unwrap();
                assert_eq!((second.is_new, second.event), (false, ours));
            } else {
                first.rollback().await.unwrap();
                let second = second.await.unwrap();
                assert_eq!((second.is_new, second.event.topic.as_str()), (true, "second"));
            }
            assert_eq!(t.take_events().await.len(), 1);
        }
    }
}

on_backends! { [postgres]
    // catalogue D10
    async fn a_key_that_the_snapshot_does_not_show_is_refused_and_can_be_tried_again(t: TestDb) {
        for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
            let txn = t.db.begin_with_config(Some(level), None).await.unwrap();
            assert_eq!(outbox::Entity::find().all(&txn).await.unwrap(), []);
            let hidden = enqueue(&t.db, message("t", "k")).await.unwrap().event;
            let error = enqueue(&txn, message("t", "k")).await.unwrap_err();
            assert!(matches!(&error, Error::Integrity { source: Some(_), .. }), "{error:?}");
            assert!(error.is_retryable());
            txn.rollback().await.unwrap();

            let txn = t.db.begin_with_config(Some(level), None).await.unwrap();
            assert_eq!(enqueue(&txn, message("t", "k")).await.unwrap().event, hidden);
            txn.commit().await.unwrap();
            t.take_events().await;
        }
    }

    // catalogue B10
    async fn a_nul_in_a_key_is_refused_before_the_statement(t: TestDb) {
        let txn = t.db.begin().await.unwrap();
        assert!(matches!(enqueue(&txn, message("t", "a\0b")).await, Err(Error::Validation { .. })));
        assert!(enqueue(&txn, message("t", "ab")).await.unwrap().is_new);
        txn.commit().await.unwrap();
    }
}

on_backends! { [mariadb]
    // catalogue D10, D14
    async fn a_key_committed_after_the_snapshot_is_found_all_the_same(t: TestDb) {
        let txn = t.db.begin_with_config(Some(IsolationLevel::RepeatableRead), None).await.unwrap();
        assert_eq!(outbox::Entity::find().all(&txn).await.unwrap(), []);
        let hidden = enqueue(&t.db, message("t", "k")).await.unwrap().event;
        let found = enqueue(&txn, message("t", "k")).await.unwrap();
        assert_eq!((found.is_new, found.event), (false, hidden));
        txn.commit().await.unwrap();
    }
}

on_backends! { [postgres, mariadb]
    // catalogue A7, D1
    async fn an_event_is_not_lost_to_one_whose_key_only_compares_as_equal(t: TestDb) {
        match t.backend {
            Backend::MariaDb => {
                t.execute("ALTER TABLE hare_outbox MODIFY idempotency_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NULL").await;
            }
            _ => {
                t.execute("CREATE COLLATION lax (provider = icu, locale = 'und-u-ks-level2', deterministic = false)").await;
                t.execute("ALTER TABLE hare_outbox ALTER COLUMN idempotency_key TYPE VARCHAR(255) COLLATE lax").await;
            }
        }
        assert!(enqueue(&t.db, message("first", "Order-1")).await.unwrap().is_new);
        assert!(!enqueue(&t.db, message("again", "Order-1")).await.unwrap().is_new);
        let error = enqueue(&t.db, message("another", "order-1")).await.unwrap_err();
        assert!(matches!(error, Error::Config(_)) && error.to_string().contains("to the letter"), "{error:?}");
        let error = enqueue_many(&t.db, [message("one", "k"), message("another", "K")]).await.unwrap_err();
        assert!(matches!(error, Error::Config(_)), "{error:?}");
        assert_eq!(t.event().await.topic, "first");
    }

    // catalogue D4
    async fn a_wait_that_the_database_ends_can_be_tried_again(t: TestDb) {
        let first = t.db.begin().await.unwrap();
        enqueue(&first, message("first", "k")).await.unwrap();
        let second = t.db.begin().await.unwrap();
        let limit = if t.backend == Backend::MariaDb { "SET innodb_lock_wait_timeout = 1" } else { "SET LOCAL lock_timeout = '100ms'" };
        second.execute_unprepared(limit).await.unwrap();
        let error = enqueue(&second, message("second", "k")).await.unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
        second.rollback().await.unwrap();
        first.commit().await.unwrap();
        assert_eq!(t.event().await.topic, "first");
    }

    // catalogue P3, Q7
    async fn a_deadlock_forbids_the_commit_of_a_transaction_of_ours(t: TestDb) {
        let both_hold_one = Arc::new(tokio::sync::Barrier::new(2));
        let call = |first: &'static str, second: &'static str| {
            let (db, barrier) = (t.db.clone(), Arc::clone(&both_hold_one));
            tokio::spawn(async move {
                let txn = hare_seaorm::begin(&db).await.unwrap();
                enqueue(&txn, message("t", first)).await.unwrap();
                barrier.wait().await;
                let Err(error) = enqueue(&txn, message("t", second)).await else {
                    txn.commit().await.unwrap();
                    return None;
                };
                // The transaction's statements are refused, rather than run in one that has ended.
                let after = enqueue(&txn, message("after", "after")).await.unwrap_err();
                let committed = txn.commit().await;
                Some((error, after, committed))
            })
        };
        let (one, other) = (call("a", "b"), call("b", "a"));
        let mut gave_way: Vec<_> = [one.await.unwrap(), other.await.unwrap()].into_iter().flatten().collect();
        assert_eq!(gave_way.len(), 1);
        let (error, after, committed) = gave_way.remove(0);
        assert!(matches!(error, Error::Retryable { .. }), "{error:?}");
        if t.backend == Backend::MariaDb {
            assert!(error.to_string().contains("the transaction is gone"), "{error}");
            assert!(matches!(after, Error::Retryable { .. }), "{after:?}");
            assert!(committed.is_err());
        }
        assert_eq!(t.count("hare_outbox").await, 2);
    }
}

on_backends! { [mariadb]
    async fn an_event_that_cannot_be_read_back_is_not_left_behind(t: TestDb) {
        mod numbered {
            #[hare_seaorm::outbox_event(table_name = "hare_outbox")]
            pub struct Model {
                pub number: i32,
            }
        }
        // The entity says that it is never null.
        t.execute("ALTER TABLE hare_outbox ADD number INT NULL").await;
        let message = OutboxMessage::for_outbox::<numbered::Entity>("t", &1).unwrap();
        let error = enqueue(&t.db, message).await.unwrap_err();
        assert!(matches!(error, Error::Database { .. }), "{error:?}");
        assert_eq!(t.count("hare_outbox").await, 0);
    }
}

on_backends! { [sqlite]
    // catalogue P3
    async fn a_transaction_that_has_read_before_another_wrote_is_told_to_try_again(t: TestDb) {
        let txn = t.db.begin().await.unwrap();
        assert_eq!(outbox::Entity::find().all(&txn).await.unwrap(), []);
        enqueue(&t.db, message("t", "k")).await.unwrap();
        let error = enqueue(&txn, message("t", "k")).await.unwrap_err();
        assert!(matches!(error, Error::Retryable { .. }) && error.is_retryable(), "{error:?}");
        let error = enqueue_many(&txn, [message("t", "other")]).await.unwrap_err();
        assert!(matches!(error, Error::Retryable { .. }), "{error:?}");
        txn.rollback().await.unwrap();
        assert_eq!(t.count("hare_outbox").await, 1);
    }
}
