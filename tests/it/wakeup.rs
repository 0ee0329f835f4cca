//! Wakeups as captured writes use them.

use std::sync::Arc;

use hare_seaorm::outbox::enqueue;
use hare_seaorm::{ConfigError, Error, OutboxMessage};
use hare_seaorm_tests::wakeup::RecordingWakeup;
use hare_seaorm_tests::{TestDb, on_every_backend};

on_every_backend! {
    // catalogue M4
    async fn a_failing_signal_changes_nothing(t: TestDb) {
        let wakeup = RecordingWakeup { fails: true, ..Default::default() };
        let message = || OutboxMessage::new("a", &1).unwrap().wakeup(Arc::new(wakeup.clone()));
        enqueue(&t.db, message()).await.unwrap();
        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        enqueue(&txn, message()).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(wakeup.take().len(), 2);
        assert_eq!(t.take_events().await.len(), 2);
    }

    // catalogue M8
    async fn a_wakeup_may_refuse_the_database_before_anything_is_written(t: TestDb) {
        let wakeup = RecordingWakeup { refuses: true, ..Default::default() };
        let message = OutboxMessage::new("a", &1).unwrap().wakeup(Arc::new(wakeup.clone()));
        let error = enqueue(&t.db, message).await.unwrap_err();
        assert!(matches!(&error, Error::Config(ConfigError { problems, .. }) if problems == &["this database is refused"]), "{error:?}");
        assert_eq!(t.events().await, []);
        assert_eq!(wakeup.take(), Vec::<Vec<String>>::new());
    }
}
