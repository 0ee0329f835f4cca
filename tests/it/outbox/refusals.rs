//! What is wrong with a message is told before anything is written, and the transaction goes on.

use std::collections::BTreeMap;

use hare_seaorm::outbox::{enqueue, enqueue_many};
use hare_seaorm::{Error, OutboxMessage};
use hare_seaorm_tests::statements::Statements;
use hare_seaorm_tests::{Backend, TestDb, on_every_backend};
use sea_orm::TransactionTrait;
use uuid::Uuid;

fn message() -> OutboxMessage {
    OutboxMessage::new("t", &1).unwrap()
}

/// Each mistake that a message can hold until it is written, and what the error names.
fn mistakes() -> Vec<(OutboxMessage, &'static str)> {
    let long = || "ä".repeat(256);
    vec![
        (OutboxMessage::new("", &1).unwrap(), "the topic"),
        (OutboxMessage::new(long(), &1).unwrap(), "the topic"),
        (
            OutboxMessage::new("x".repeat(1_000_000), &1).unwrap(),
            "the topic",
        ),
        (message().ordering_key(""), "the ordering key"),
        (message().ordering_key(long()), "the ordering key"),
        (message().idempotency_key(""), "the idempotency key"),
        (message().idempotency_key(long()), "the idempotency key"),
        (message().id(Uuid::nil()), "the id"),
        (
            message().id(Uuid::from_u128(0x9c5b_94b1_35ad_49bb_b118_8e8f_c24a_bf80)),
            "the id",
        ),
        (message().max_attempts(0), "`max_attempts`"),
        (message().max_attempts(10_001), "`max_attempts`"),
        (
            message().not_before(chrono::DateTime::<chrono::Utc>::MAX_UTC),
            "`not_before`",
        ),
    ]
}

fn is_validation_of(error: &Error, name: &str) {
    assert!(
        matches!(error, Error::Validation { what, .. } if what == name),
        "{name}: {error:?}"
    );
    assert!(!error.is_retryable());
    let shown = error.to_string();
    assert!(
        shown.contains(name) && shown.len() < 250,
        "it names what is wrong, shortly: {shown}"
    );
}

on_every_backend! {
    // catalogue P1, P4, C9, E7
    async fn every_mistake_is_named_and_leaves_the_transaction_usable(t: TestDb) {
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        let txn = db.begin().await.unwrap();
        for (wrong, name) in mistakes() {
            is_validation_of(&enqueue(&txn, wrong.clone()).await.unwrap_err(), name);
            is_validation_of(&enqueue_many(&txn, [message(), wrong]).await.unwrap_err(), name);
        }
        assert_eq!(statements.take(), Vec::<String>::new());
        enqueue(&txn, message()).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(t.take_events().await.len(), 1);
    }

    // catalogue P1, B6, B7
    async fn a_payload_or_header_without_a_json_form_is_no_message(t: TestDb) {
        let nested = |depth| (0..depth).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
        for refused in [
            OutboxMessage::new("t", &None::<i32>),
            OutboxMessage::new("t", &[f64::NAN]),
            OutboxMessage::new("t", &BTreeMap::from([((1, 2), 3)])),
            OutboxMessage::new("t", &nested(128)),
        ] {
            is_validation_of(&refused.unwrap_err(), "the payload");
        }
        for refused in [
            message().header("h", &f64::INFINITY),
            message().header("h", &BTreeMap::from([((1, 2), 3)])),
            message().header("h", &nested(128)),
        ] {
            is_validation_of(&refused.unwrap_err(), "the header `h`");
        }
        is_validation_of(&message().header("", &1).unwrap_err(), "a header's name");
        assert_eq!(t.count("hare_outbox").await, 0);
    }

    // catalogue P4
    async fn no_error_shows_a_payload_or_a_key_that_was_not_wrong(t: TestDb) {
        let secret = || OutboxMessage::new("t", &"a secret").unwrap().idempotency_key("a secret").header("h", &"a secret").unwrap();
        t.execute("CREATE UNIQUE INDEX one_topic ON hare_outbox (topic)").await;
        enqueue(&t.db, message()).await.unwrap();
        let mut errors = vec![
            enqueue(&t.db, secret()).await.unwrap_err(),
            enqueue_many(&t.db, [secret()]).await.unwrap_err(),
            enqueue(&t.db, secret().ordering_key("")).await.unwrap_err(),
        ];
        t.execute("DROP TABLE hare_outbox").await;
        errors.push(enqueue(&t.db, secret()).await.unwrap_err());
        for error in errors {
            let shown = format!("{error} {error:?}");
            // MariaDB's own text quotes the key that it refused.
            assert!(!shown.contains("a secret") || t.backend == Backend::MariaDb, "{shown}");
        }
        assert!(!format!("{:?}", secret()).contains("a secret"));
    }
}
