//! Events of one's own.

use std::collections::BTreeMap;
use std::sync::Arc;

use hare_seaorm::outbox::{self, enqueue};
use hare_seaorm::{Error, OutboxMessage};
use hare_seaorm_tests::wakeup::RecordingWakeup;
use hare_seaorm_tests::{Shop, TestDb, on_backends, on_every_backend};
use sea_orm::{EntityTrait, TransactionTrait};
use serde_json::json;
use uuid::Uuid;

fn message(topic: &str) -> OutboxMessage {
    OutboxMessage::new(topic, &json!({"n": 1})).unwrap()
}

on_every_backend! {
    // catalogue C1
    async fn an_event_shares_the_fate_of_its_transaction(t: TestDb) {
        let txn = t.db.begin().await.unwrap();
        enqueue(&txn, message("undone")).await.unwrap();
        txn.rollback().await.unwrap();
        assert_eq!(t.events().await, []);

        let txn = t.db.begin().await.unwrap();
        enqueue(&txn, message("kept")).await.unwrap();
        let elsewhere = t.another_pool(1).await;
        assert_eq!(outbox::Entity::find().all(&elsewhere).await.unwrap(), []);
        txn.commit().await.unwrap();
        assert_eq!(t.event().await.topic, "kept");

        enqueue(&t.db, message("at once")).await.unwrap();
        assert_eq!(outbox::Entity::find().one(&elsewhere).await.unwrap().unwrap().topic, "at once");
    }

    // catalogue C2
    async fn it_returns_the_event_as_stored(t: TestDb) {
        let message = message("t").ordering_key("k").header("author", &"ä").unwrap();
        let enqueued = enqueue(&t.db, message).await.unwrap();
        assert!(enqueued.event.sequence > 0);
        assert_eq!(enqueued.event, t.outbox().await[0]);
        assert_eq!(enqueued.event.ordering_key.as_deref(), Some("k"));
    }

    // catalogue C3
    async fn it_signals_its_topic_after_the_commit_and_never_after_a_rollback(t: TestDb) {
        let wakeup = RecordingWakeup::default();
        let told = |topic| message(topic).wakeup(Arc::new(wakeup.clone()));
        enqueue(&t.db, told("at once")).await.unwrap();
        assert_eq!(wakeup.take(), [["at once"]]);

        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        enqueue(&txn, told("later")).await.unwrap();
        assert_eq!(wakeup.take(), Vec::<Vec<String>>::new());
        txn.commit().await.unwrap();
        assert_eq!(wakeup.take(), [["later"]]);

        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        enqueue(&txn, told("never")).await.unwrap();
        txn.rollback().await.unwrap();
        assert_eq!(wakeup.take(), Vec::<Vec<String>>::new());
    }

    // catalogue A3
    async fn an_id_has_version_7_and_is_used_once(t: TestDb) {
        let event = enqueue(&t.db, message("t")).await.unwrap().event;
        assert_eq!(event.id.get_version_num(), 7);

        let version_4 = Uuid::parse_str("9c5b94b1-35ad-49bb-b118-8e8fc24abf80").unwrap();
        let refused = enqueue(&t.db, message("t").id(version_4)).await.unwrap_err();
        assert!(matches!(&refused, Error::Validation { what, .. } if what == "the id"), "{refused}");
        assert_eq!(t.count("hare_outbox").await, 1);

        let own = Uuid::now_v7();
        assert_eq!(enqueue(&t.db, message("t").id(own)).await.unwrap().event.id, own);
        let refused = enqueue(&t.db, message("t").id(own)).await.unwrap_err();
        assert!(matches!(refused, Error::Integrity { .. }), "{refused:?}");
        assert_eq!(t.count("hare_outbox").await, 2);
    }

    // catalogue A4, C10
    async fn topic_and_key_are_neither_empty_nor_longer_than_255_characters(t: TestDb) {
        let limit = "ä".repeat(255);
        enqueue(&t.db, message(&limit).ordering_key(limit.clone())).await.unwrap();
        let over = "ä".repeat(256);
        for (refused, name) in [
            (message(&over), "the topic"),
            (message("t").ordering_key(over.clone()), "the ordering key"),
            (message(""), "the topic"),
            (message("t").ordering_key(""), "the ordering key"),
        ] {
            let error = enqueue(&t.db, refused).await.unwrap_err();
            assert!(matches!(&error, Error::Validation { what, .. } if what == name), "{error}");
            assert!(error.to_string().len() < 200, "shown values are shortened: {error}");
        }
        assert_eq!(t.count("hare_outbox").await, 1);
    }

    // catalogue A5
    async fn every_kind_of_payload_comes_back_as_it_was(t: TestDb) {
        for payload in [json!({"a": [1, null]}), json!([1, 2]), json!("text"), json!(1.5), json!(true), json!(false), json!(0)] {
            let event = enqueue(&t.db, OutboxMessage::new("t", &payload).unwrap()).await.unwrap().event;
            assert_eq!(event.payload.as_str(), payload.to_string());
        }
        OutboxMessage::new("t", &json!(null)).unwrap_err();
        OutboxMessage::new("t", &None::<i32>).unwrap_err();
        OutboxMessage::new("t", &()).unwrap_err();
    }

    // catalogue A6, C8
    async fn headers_are_an_object_of_named_values(t: TestDb) {
        assert_eq!(enqueue(&t.db, message("t")).await.unwrap().event.headers.as_str(), "{}");
        let with = message("t").header("none", &json!(null)).unwrap().header("who", &json!({"id": 1})).unwrap();
        let event = enqueue(&t.db, with.header("none", &2).unwrap()).await.unwrap().event;
        assert_eq!(event.headers.as_str(), r#"{"who":{"id":1},"none":2}"#);
        let event = enqueue(&t.db, message("t").header("none", &json!(null)).unwrap()).await.unwrap().event;
        assert_eq!(event.headers.as_str(), r#"{"none":null}"#);
        assert!(matches!(message("t").header("", &1), Err(Error::Validation { .. })));
    }

    // catalogue B1
    async fn text_is_compact_and_not_escaped(t: TestDb) {
        let payload = BTreeMap::from([("größe", "12 €")]);
        let event = enqueue(&t.db, OutboxMessage::new("t", &payload).unwrap()).await.unwrap().event;
        assert_eq!(event.payload.as_str().as_bytes(), "{\"größe\":\"12 €\"}".as_bytes());
    }

    // catalogue B9
    async fn no_digit_is_lost(t: TestDb) {
        let payload = (1_i128 << 70, i64::MAX, u64::MAX);
        let event = enqueue(&t.db, OutboxMessage::new("t", &payload).unwrap()).await.unwrap().event;
        assert_eq!(event.payload.as_str(), "[1180591620717411303424,9223372036854775807,18446744073709551615]");
        let raw = serde_json::value::RawValue::from_string("{\"a\": 0.1000, \"a\": 1e400}".to_owned()).unwrap();
        let event = enqueue(&t.db, OutboxMessage::new("t", &raw).unwrap()).await.unwrap().event;
        assert_eq!(event.payload.as_str(), raw.get());
    }

    // catalogue B7, B6
    async fn what_json_cannot_say_is_refused_before_anything_is_written(t: TestDb) {
        let nan = OutboxMessage::new("t", &json!([1])).unwrap().header("rate", &[Some(f64::INFINITY)]);
        assert!(matches!(nan, Err(Error::Validation { .. })));
        let nan = OutboxMessage::new("t", &BTreeMap::from([("a", vec![BTreeMap::from([("b", f32::NAN)])])]));
        assert!(matches!(nan, Err(Error::Validation { .. })));
        let keys = OutboxMessage::new("t", &BTreeMap::from([(vec![1], 1)])).unwrap_err();
        assert!(std::error::Error::source(&keys).is_some(), "the cause is kept: {keys:?}");
        assert!(matches!(message("t").header("h", &BTreeMap::from([(vec![1], 1)])), Err(Error::Validation { .. })));
        assert_eq!(t.count("hare_outbox").await, 0);
    }

    // catalogue C9
    async fn a_refused_event_leaves_the_transaction_usable(t: TestDb) {
        let txn = t.db.begin().await.unwrap();
        enqueue(&txn, message("")).await.unwrap_err();
        enqueue(&txn, message("good")).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(t.event().await.topic, "good");
    }

    // catalogue C5, C6, C7
    async fn a_message_sets_its_own_columns_and_none_of_the_relays(t: TestDb) {
        // The builder has no way to name another column, so what the relay keeps starts as the table has it.
        let event = enqueue(&t.db, message("t").ordering_key("k").header("h", &1).unwrap()).await.unwrap().event;
        assert_eq!((event.attempts, event.claims, event.releases_key), (0, 0, false));
        assert_eq!((event.next_attempt_at, event.published_at, event.dead_lettered_at), (None, None, None));
        assert_eq!((event.last_error, event.lease_until, event.leased_by), (None, None, None));
    }
}

on_backends! { [postgres, mariadb]
    // catalogue C11
    async fn writers_that_lock_a_common_row_commit_in_sequence_order(t: Shop) {
        use hare_seaorm_tests::shop::plain;
        use sea_orm::{ActiveModelTrait, QuerySelect, Set};

        let row = plain::ActiveModel { name: Set("common".into()), ..Default::default() }.insert(&t.db).await.unwrap();
        let first = t.db.begin().await.unwrap();
        plain::Entity::find_by_id(row.id).lock_exclusive().one(&first).await.unwrap();
        enqueue(&first, message("first").ordering_key("k")).await.unwrap();

        let db = t.db.clone();
        let second = tokio::spawn(async move {
            let second = db.begin().await.unwrap();
            plain::Entity::find_by_id(row.id).lock_exclusive().one(&second).await.unwrap();
            enqueue(&second, message("second").ordering_key("k")).await.unwrap();
            second.commit().await.unwrap();
        });
        hare_seaorm_tests::database::until_someone_waits_for_a_lock(&t).await;
        assert!(!second.is_finished());
        first.commit().await.unwrap();
        second.await.unwrap();
        let topics: Vec<_> = t.events().await.into_iter().map(|event| event.topic).collect();
        assert_eq!(topics, ["first", "second"]);
    }
}

on_backends! { [postgres]
    // catalogue B10
    async fn a_nul_is_refused_before_the_statement(t: TestDb) {
        let txn = t.db.begin().await.unwrap();
        for refused in [
            OutboxMessage::new("t", "a\0b").unwrap(),
            message("a\0b"),
            message("t").ordering_key("a\0b"),
            message("t").header("h", "a\0b").unwrap(),
        ] {
            assert!(matches!(enqueue(&txn, refused).await, Err(Error::Validation { .. })));
        }
        enqueue(&txn, OutboxMessage::new("t", r"no \u0000 here").unwrap()).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(t.event().await.payload, r"no \u0000 here");
    }
}

on_backends! { [mariadb, sqlite]
    // catalogue B10
    async fn a_nul_is_kept(t: TestDb) {
        enqueue(&t.db, OutboxMessage::new("t", "a\0b").unwrap()).await.unwrap();
        assert_eq!(t.event().await.payload, "a\0b");
    }
}
