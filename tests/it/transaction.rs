//! The transaction that carries signals.

use std::sync::Arc;

use hare_seaorm::outbox::enqueue;
use hare_seaorm::{OutboxMessage, Transaction};
use hare_seaorm_tests::wakeup::RecordingWakeup;
use hare_seaorm_tests::{TestDb, on_every_backend};
use sea_orm::{StreamTrait, TransactionTrait};
use serde_json::json;

const SILENT: Vec<Vec<String>> = Vec::new();

fn told(topic: &str, wakeup: &RecordingWakeup) -> OutboxMessage {
    OutboxMessage::new(topic, &json!(1))
        .unwrap()
        .wakeup(Arc::new(wakeup.clone()))
}

on_every_backend! {
    // catalogue M2, M3
    async fn signals_are_joined_per_topic_and_kept_per_savepoint(t: TestDb) {
        let recorded = RecordingWakeup::default();
        let shared: Arc<dyn hare_seaorm::OutboxWakeup> = Arc::new(recorded.clone());
        let told = |topic: &str| OutboxMessage::new(topic, &1).unwrap().wakeup(Arc::clone(&shared));

        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        enqueue(&txn, told("a")).await.unwrap();
        let undone = txn.begin().await.unwrap();
        enqueue(&undone, told("b")).await.unwrap();
        undone.rollback().await.unwrap();
        let kept = txn.begin().await.unwrap();
        enqueue(&kept, told("c")).await.unwrap();
        enqueue(&kept, told("a")).await.unwrap();
        kept.commit().await.unwrap();
        assert_eq!(recorded.take(), SILENT);
        txn.commit().await.unwrap();
        assert_eq!(recorded.take(), [["a", "c"]]);
    }

    // catalogue M3
    async fn dropped_or_rolled_back_it_signals_nothing(t: TestDb) {
        let wakeup = RecordingWakeup::default();
        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        enqueue(&txn, told("a", &wakeup)).await.unwrap();
        drop(txn);
        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        enqueue(&txn, told("a", &wakeup)).await.unwrap();
        let nested = txn.begin().await.unwrap();
        enqueue(&nested, told("b", &wakeup)).await.unwrap();
        drop(nested);
        txn.rollback().await.unwrap();
        // A plain transaction does not tell of its commit.
        let plain = t.db.begin().await.unwrap();
        enqueue(&plain, told("a", &wakeup)).await.unwrap();
        plain.commit().await.unwrap();
        assert_eq!(wakeup.take(), SILENT);
        assert_eq!(t.take_events().await.len(), 1);
    }

    async fn it_is_a_transaction_like_seaorms(t: TestDb) {
        use futures_util::TryStreamExt;
        use sea_orm::{EntityTrait, TransactionSession};

        async fn end<S: TransactionSession>(session: S) {
            session.commit().await.unwrap();
        }
        let txn: Transaction = hare_seaorm::begin(&t.db).await.unwrap();
        enqueue(&txn, OutboxMessage::new("a", &1).unwrap()).await.unwrap();
        let streamed: Vec<_> = hare_seaorm::outbox::Entity::find().stream(&txn).await.unwrap().try_collect().await.unwrap();
        assert_eq!(streamed.len(), 1);
        assert_eq!(StreamTrait::get_database_backend(&txn), t.db.get_database_backend());
        end(txn).await;
        assert_eq!(t.event().await.topic, "a");
    }
}
