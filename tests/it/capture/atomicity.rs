//! A row and its event are written together or not at all.

use hare_seaorm::Error;
use hare_seaorm_tests::shop::{plain, widget};
use hare_seaorm_tests::{Backend, Shop, TestDb, on_every_backend};
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, ModelTrait, Set,
    TransactionTrait, Unchanged,
};

type Widget = widget::both::ActiveModel;

fn new() -> Widget {
    Widget {
        name: Set("nut".to_owned()),
        ..Default::default()
    }
}

fn own() -> plain::ActiveModel {
    plain::ActiveModel {
        name: Set("own".to_owned()),
        ..Default::default()
    }
}

/// Makes every event fail, from now on, while the outbox can still be read.
async fn break_the_outbox(t: &TestDb) {
    match t.backend {
        Backend::Postgres | Backend::Sqlite => {
            t.execute("ALTER TABLE hare_outbox RENAME COLUMN headers TO broken")
                .await
        }
        Backend::MariaDb => {
            t.execute("ALTER TABLE hare_outbox CHANGE headers broken longtext")
                .await
        }
    }
}

async fn rows(t: &TestDb) -> Vec<widget::both::Model> {
    widget::both::Entity::find().all(&t.db).await.unwrap()
}

on_every_backend! {
    // catalogue G32
    async fn on_the_pool_a_failing_event_undoes_the_row(t: Shop) {
        let row = new().insert(&t.db).await.unwrap();
        break_the_outbox(&t).await;
        let error = new().insert(&t.db).await.unwrap_err();
        assert!(matches!(Error::find(&error), Some(Error::Database { .. })), "{error:?}");
        assert_eq!(error.sql_err(), None);
        Widget { id: Unchanged(row.id), size: Set(1), ..Default::default() }.update(&t.db).await.unwrap_err();
        Widget { id: Unchanged(row.id), size: Set(1), ..Default::default() }.update_without_returning(&t.db).await.unwrap_err();
        Widget { id: Unchanged(row.id), size: Set(1), ..Default::default() }.save(&t.db).await.unwrap_err();
        row.clone().delete(&t.db).await.unwrap_err();
        assert_eq!(rows(&t).await, [row]);
    }

    // catalogue G33
    async fn in_a_transaction_a_failing_event_undoes_the_row_and_no_more(t: Shop) {
        let row = new().insert(&t.db).await.unwrap();
        break_the_outbox(&t).await;
        let txn = t.db.begin().await.unwrap();
        own().insert(&txn).await.unwrap();
        new().insert(&txn).await.unwrap_err();
        Widget { id: Unchanged(row.id), size: Set(1), ..Default::default() }.update(&txn).await.unwrap_err();
        row.clone().delete(&txn).await.unwrap_err();
        own().insert(&txn).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(rows(&t).await, [row]);
        assert_eq!(t.count("plain").await, 2);
    }

    // catalogue G33
    async fn in_a_transaction_of_ours_too(t: Shop) {
        break_the_outbox(&t).await;
        let txn = hare_seaorm::begin(&t.db).await.unwrap();
        own().insert(&txn).await.unwrap();
        new().insert(&txn).await.unwrap_err();
        let nested = txn.begin().await.unwrap();
        new().insert(&nested).await.unwrap_err();
        own().insert(&nested).await.unwrap();
        nested.commit().await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(rows(&t).await, []);
        assert_eq!(t.count("plain").await, 2);
    }

    // catalogue G33
    async fn in_generic_code_too(t: Shop) {
        let row = new().insert(&t.db).await.unwrap();
        break_the_outbox(&t).await;
        let txn = t.db.begin().await.unwrap();
        own().insert(&txn).await.unwrap();
        ActiveModelTrait::insert(new(), &txn).await.unwrap_err();
        let change = Widget { id: Unchanged(row.id), size: Set(1), ..Default::default() };
        ActiveModelTrait::update(change, &txn).await.unwrap_err();
        ModelTrait::delete(row.clone(), &txn).await.unwrap_err();
        own().insert(&txn).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(rows(&t).await, [row]);
        assert_eq!(t.count("plain").await, 2);
    }

    // catalogue G33
    async fn a_topic_too_long_for_the_table_leaves_no_row(t: Shop) {
        match t.backend {
            Backend::Postgres => t.execute("ALTER TABLE hare_outbox ALTER topic TYPE varchar(30)").await,
            Backend::MariaDb => t.execute("ALTER TABLE hare_outbox MODIFY topic varchar(30) NOT NULL").await,
            // SQLite keeps no length: a trigger stands in for it.
            Backend::Sqlite => {
                t.execute(
                    "CREATE TRIGGER short_topics BEFORE INSERT ON hare_outbox WHEN length(NEW.topic) > 30 \
                     BEGIN SELECT RAISE(ABORT, 'topic too long'); END",
                )
                .await;
            }
        }
        let new = || widget::long_topic::ActiveModel { name: Set("nut".to_owned()), ..Default::default() };
        new().insert(&t.db).await.unwrap_err();
        for ours in [false, true] {
            let txn = t.db.begin().await.unwrap();
            own().insert(&txn).await.unwrap();
            let error = if ours { new().insert(&txn).await } else { ActiveModelTrait::insert(new(), &txn).await };
            assert!(Error::find(&error.unwrap_err()).is_some());
            txn.commit().await.unwrap();
        }
        assert_eq!(rows(&t).await, []);
        assert_eq!(t.count("plain").await, 2);
        assert_eq!(t.events().await, []);
    }

    // catalogue G32, G33
    async fn a_dropped_outbox_table_leaves_no_row(t: Shop) {
        t.execute("DROP TABLE hare_outbox").await;
        new().insert(&t.db).await.unwrap_err();
        let txn = t.db.begin().await.unwrap();
        new().insert(&txn).await.unwrap_err();
        ActiveModelTrait::insert(new(), &txn).await.unwrap_err();
        own().insert(&txn).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(rows(&t).await, []);
        assert_eq!(t.count("plain").await, 1);
    }

    // catalogue G34
    async fn a_rollback_leaves_neither(t: Shop) {
        let txn = t.db.begin().await.unwrap();
        new().insert(&txn).await.unwrap();
        txn.rollback().await.unwrap();
        assert_eq!((rows(&t).await, t.events().await), (vec![], vec![]));

        let outer = t.db.begin().await.unwrap();
        let kept = new().insert(&outer).await.unwrap();
        let inner = outer.begin().await.unwrap();
        new().insert(&inner).await.unwrap();
        inner.rollback().await.unwrap();
        outer.commit().await.unwrap();
        assert_eq!(rows(&t).await, [kept]);
        assert_eq!(t.take_events().await.len(), 1);
    }

    async fn a_failing_write_between_good_ones_leaves_the_good_ones(t: Shop) {
        let txn = t.db.begin().await.unwrap();
        let row = new().insert(&txn).await.unwrap();
        // Our savepoint undoes the failed statement, on PostgreSQL too.
        let twin = Widget { id: Set(row.id), name: Set("twin".to_owned()), ..Default::default() };
        let error = twin.insert(&txn).await.unwrap_err();
        assert!(matches!(error.sql_err(), Some(sea_orm::SqlErr::UniqueConstraintViolation(_))), "{error:?}");
        assert_eq!(Widget { id: Unchanged(99), size: Set(1), ..Default::default() }.update(&txn).await, Err(DbErr::RecordNotUpdated));
        let mut change = row.into_active_model();
        change.size = Set(9);
        change.update(&txn).await.unwrap();
        txn.commit().await.unwrap();
        let operations: Vec<_> = t.take_events().await.iter().map(|event| event.operation().to_owned()).collect();
        assert_eq!(operations, ["insert", "update"]);
    }

    async fn a_pool_of_one_connection_is_enough(t: Shop) {
        let one = t.another_pool(1).await;
        let row = new().insert(&one).await.unwrap();
        row.delete(&one).await.unwrap();
        one.execute_unprepared("SELECT 1").await.unwrap();
        assert_eq!(t.take_events().await.len(), 2);
    }
}
