//! Wakeups as captured writes use them.

use std::sync::Arc;

use hare_seaorm::outbox::enqueue;
use hare_seaorm::{ConfigError, Error, OutboxMessage};
use hare_seaorm_tests::shop::outbox::Heard;
use hare_seaorm_tests::shop::widget::{after, recorded, refused};
use hare_seaorm_tests::wakeup::RecordingWakeup;
use hare_seaorm_tests::{Shop, TestDb, on_every_backend};
use sea_orm::{
    ActiveModelTrait, DbErr, EntityTrait, IntoActiveModel, ModelTrait, Set, TransactionTrait, Unchanged,
};

const SILENT: Vec<Vec<String>> = Vec::new();

fn new() -> recorded::ActiveModel {
    recorded::ActiveModel {
        name: Set("nut".to_owned()),
        ..Default::default()
    }
}

fn refuses<T: std::fmt::Debug>(outcome: Result<T, DbErr>) {
    let error = outcome.unwrap_err();
    assert!(matches!(Error::find(&error), Some(Error::Config(_))), "{error:?}");
    assert!(error.to_string().contains("this database is refused"), "{error}");
}

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
        assert_eq!(wakeup.take(), SILENT);
    }

    // catalogue M4
    async fn a_captured_write_on_the_pool_signals_once_after_its_commit(t: Shop) {
        let heard = Heard::from_now_on().await;
        let row = new().insert(&t.db).await.unwrap();
        assert_eq!(heard.take(), [["shop.widget.inserted"]]);
        let change = |size| recorded::ActiveModel { id: Unchanged(row.id), size: Set(size), ..Default::default() };
        change(1).update(&t.db).await.unwrap();
        assert_eq!(heard.take(), [["shop.widget.updated"]]);
        change(2).update_without_returning(&t.db).await.unwrap();
        assert_eq!(heard.take(), [["shop.widget.updated"]]);
        ActiveModelTrait::update(change(3), &t.db).await.unwrap();
        assert_eq!(heard.take(), [["shop.widget.updated"]]);
        row.clone().delete(&t.db).await.unwrap();
        assert_eq!(heard.take(), [["shop.widget.deleted"]]);
        assert_eq!(t.take_events().await.len(), 5);

        // No event, no signal.
        change(4).update(&t.db).await.unwrap_err();
        row.delete(&t.db).await.unwrap();
        t.execute("DROP TABLE hare_outbox").await;
        new().insert(&t.db).await.unwrap_err();
        assert_eq!(heard.take(), SILENT);
    }

    // catalogue M4
    async fn captured_writes_in_a_transaction_signal_together_after_its_commit(t: Shop) {
        let heard = Heard::from_now_on().await;
        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        let row = new().insert(&txn).await.unwrap();
        ActiveModelTrait::insert(new(), &txn).await.unwrap();
        let nested = txn.begin().await.unwrap();
        row.delete(&nested).await.unwrap();
        nested.commit().await.unwrap();
        assert_eq!(heard.take(), SILENT);
        txn.commit().await.unwrap();
        assert_eq!(heard.take(), [["shop.widget.deleted", "shop.widget.inserted"]]);
        assert_eq!(t.take_events().await.len(), 3);
    }

    // catalogue M4
    async fn captured_writes_that_are_rolled_back_signal_nothing(t: Shop) {
        let heard = Heard::from_now_on().await;
        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        new().insert(&txn).await.unwrap();
        ActiveModelTrait::insert(new(), &txn).await.unwrap();
        txn.rollback().await.unwrap();
        assert_eq!(heard.take(), SILENT);

        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        let row = new().insert(&txn).await.unwrap();
        let undone = txn.begin().await.unwrap();
        row.delete(&undone).await.unwrap();
        undone.rollback().await.unwrap();
        drop(txn.begin().await.unwrap());
        txn.commit().await.unwrap();
        assert_eq!(heard.take(), [["shop.widget.inserted"]]);
        assert_eq!(t.take_events().await.len(), 1);
    }

    // catalogue M4
    async fn captured_writes_in_a_plain_transaction_signal_nothing(t: Shop) {
        let heard = Heard::from_now_on().await;
        let txn = t.db.begin().await.unwrap();
        let row = new().insert(&txn).await.unwrap();
        ActiveModelTrait::insert(new(), &txn).await.unwrap();
        let mut change = row.into_active_model();
        change.size = Set(8);
        change.update(&txn).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(heard.take(), SILENT);
        assert_eq!(t.take_events().await.len(), 3);
    }

    // catalogue M8
    async fn a_wakeup_may_refuse_the_database_before_a_captured_write(t: Shop) {
        let kept = after::ActiveModel { name: Set("nut".to_owned()), ..Default::default() }.insert(&t.db).await.unwrap();
        t.take_events().await;
        let row = refused::Entity::find_by_id(kept.id).one(&t.db).await.unwrap().unwrap();
        let new = || refused::ActiveModel { name: Set("bolt".to_owned()), ..Default::default() };
        let change = || refused::ActiveModel { id: Unchanged(row.id), size: Set(8), ..Default::default() };

        refuses(new().insert(&t.db).await);
        refuses(new().save(&t.db).await);
        refuses(change().update(&t.db).await);
        refuses(change().save(&t.db).await);
        refuses(change().update_without_returning(&t.db).await);
        refuses(row.clone().into_active_model().delete(&t.db).await);
        refuses(row.clone().delete(&t.db).await);
        refuses(ActiveModelTrait::insert(new(), &t.db).await);
        refuses(ActiveModelTrait::update(change(), &t.db).await);
        refuses(ModelTrait::delete(row.clone(), &t.db).await);

        macro_rules! in_transaction {
            ($txn:expr) => {{
                let txn = $txn;
                refuses(new().insert(&txn).await);
                refuses(change().update(&txn).await);
                refuses(row.clone().delete(&txn).await);
                refuses(ActiveModelTrait::insert(new(), &txn).await);
                refuses(ActiveModelTrait::update(change(), &txn).await);
                refuses(ModelTrait::delete(row.clone(), &txn).await);
                txn.commit().await.unwrap();
            }};
        }
        in_transaction!(t.db.begin().await.unwrap());
        in_transaction!(hare_seaorm::begin(&t.db).await.unwrap());

        assert_eq!(after::Entity::find().all(&t.db).await.unwrap(), [kept]);
        assert_eq!(t.events().await, []);
    }
}
