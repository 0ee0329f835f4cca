//! The errors of ours inside SeaORM's.

use hare_seaorm::{Error, OutboxMessage, outbox};
use hare_seaorm_tests::shop::{plain, widget};
use hare_seaorm_tests::{Shop, on_backends, on_every_backend};
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DbErr, EntityTrait, Set, SqlErr, TransactionTrait, Unchanged,
};

on_every_backend! {
    // catalogue D8
    async fn a_conflict_in_the_outbox_is_not_taken_for_one_of_the_users(t: Shop) {
        // The next event meets an existing sequence.
        t.execute("CREATE UNIQUE INDEX one_topic ON hare_outbox (topic)").await;
        let new = || widget::after::ActiveModel { name: Set("nut".to_owned()), ..Default::default() };
        new().insert(&t.db).await.unwrap();
        let error = new().insert(&t.db).await.unwrap_err();
        assert_eq!(error.sql_err(), None);
        let ours = Error::find(&error).expect("an error of ours");
        assert!(matches!(ours, Error::Integrity { source: Some(_), .. }), "{ours:?}");
        assert!(!ours.is_retryable());
        assert_eq!(widget::after::Entity::find().all(&t.db).await.unwrap().len(), 1);
        // An event of one's own says the same, through the same type.
        let message = OutboxMessage::new("shop.widget.inserted", &1).unwrap();
        let error = outbox::enqueue(&t.db, message).await.unwrap_err();
        assert!(matches!(error, Error::Integrity { source: Some(_), .. }) && !error.is_retryable(), "{error:?}");
    }

    async fn a_conflict_of_the_users_is_not_taken_for_one_in_the_outbox(t: Shop) {
        t.execute(if t.is(sea_orm::DbBackend::MySql) { "CREATE UNIQUE INDEX one_name ON widget (name(50))" } else { "CREATE UNIQUE INDEX one_name ON widget (name)" }).await;
        let new = || widget::after::ActiveModel { name: Set("nut".to_owned()), ..Default::default() };
        let kept = new().insert(&t.db).await.unwrap();
        let error = new().insert(&t.db).await.unwrap_err();
        assert!(matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))), "{error:?}");
        assert!(Error::find(&error).is_none(), "{error:?}");
        let txn = t.db.begin().await.unwrap();
        let error = new().insert(&txn).await.unwrap_err();
        assert!(matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))), "{error:?}");
        widget::after::ActiveModel { id: Unchanged(kept.id), size: Set(9), ..Default::default() }.update(&txn).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(t.events().await.len(), 2);
    }
}

on_backends! { [mariadb]
    async fn a_deadlock_says_that_the_transaction_is_gone_and_forbids_the_commit(t: Shop) {
        let new = |name: &str| widget::both::ActiveModel { name: Set(name.to_owned()), ..Default::default() };
        let (a, b) = (new("a").insert(&t.db).await.unwrap(), new("b").insert(&t.db).await.unwrap());
        t.take_events().await;
        let change = |id| widget::both::ActiveModel { id: Unchanged(id), size: Set(1), ..Default::default() };

        let heavy = t.db.begin().await.unwrap();
        // More changes make it the one that the database keeps.
        for _ in 0..5 {
            plain::ActiveModel { name: Set("weight".to_owned()), ..Default::default() }.insert(&heavy).await.unwrap();
        }
        heavy.execute_unprepared(&format!("UPDATE widget SET size = 2 WHERE id = {}", b.id)).await.unwrap();

        let light = hare_seaorm::begin(&t.db).await.unwrap();
        change(a.id).update(&light).await.unwrap();
        let heavy = tokio::spawn({
            let id = a.id;
            async move {
                heavy.execute_unprepared(&format!("UPDATE widget SET size = 2 WHERE id = {id}")).await.unwrap();
                heavy.commit().await.unwrap();
            }
        });
        hare_seaorm_tests::database::until_someone_waits_for_a_lock(&t).await;
        let error = change(b.id).update(&light).await.unwrap_err();
        heavy.await.unwrap();
        let ours = Error::find(&error).expect("an error of ours");
        assert!(matches!(ours, Error::Retryable { .. }) && ours.to_string().contains("the transaction is gone"), "{ours}");

        assert!(matches!(plain::ActiveModel { name: Set("lost".to_owned()), ..Default::default() }.insert(&light).await, Err(DbErr::TryIntoErr { .. })));
        light.commit().await.unwrap_err();
        assert_eq!(t.events().await, []);
        assert_eq!(t.count("plain").await, 5);
        assert_eq!(widget::both::Entity::find_by_id(a.id).one(&t.db).await.unwrap().unwrap().size, 2);
    }
}
