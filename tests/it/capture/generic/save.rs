//! `save` by code that knows no entity: an insert or an update, whichever it comes to.

use hare_seaorm::Error;
use hare_seaorm_tests::shop::widget;
use hare_seaorm_tests::{Shop, on_every_backend};
use sea_orm::{
    ActiveModelBehavior, ActiveModelTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, Set,
    TransactionTrait,
};
use serde_json::json;

async fn save<A, C>(db: &C, model: A) -> Result<A, DbErr>
where
    A: ActiveModelTrait + ActiveModelBehavior + Send,
    <A::Entity as EntityTrait>::Model: IntoActiveModel<A>,
    C: ConnectionTrait,
{
    model.save(db).await
}

/// Both halves of `save`, on any connection.
async fn save_twice<A, C>(db: &C, new: A, change: impl FnOnce(&mut A)) -> Result<A, DbErr>
where
    A: ActiveModelTrait + ActiveModelBehavior + Send,
    <A::Entity as EntityTrait>::Model: IntoActiveModel<A>,
    C: ConnectionTrait,
{
    let mut saved = save(db, new).await?;
    change(&mut saved);
    save(db, saved).await
}

fn new() -> widget::both::ActiveModel {
    widget::both::ActiveModel {
        name: Set("nut".to_owned()),
        ..Default::default()
    }
}

on_every_backend! {
    async fn a_save_is_captured_as_what_it_comes_to(t: Shop) {
        let plain = t.db.begin().await.unwrap();
        let saved = save_twice(&plain, new(), |saved| saved.size = Set(8)).await.unwrap();
        // There is nothing to save.
        save(&plain, saved).await.unwrap();
        plain.commit().await.unwrap();
        let ours = hare_seaorm::begin(&t.db).await.unwrap();
        save_twice(&ours, new(), |saved| saved.size = Set(9)).await.unwrap();
        ours.commit().await.unwrap();

        let told: Vec<_> = t.take_events().await.into_iter().map(|event| (event.operation().to_owned(), event.payload["after"]["size"].clone())).collect();
        let told: Vec<_> = told.iter().map(|(operation, size)| (operation.as_str(), size)).collect();
        assert_eq!(told, [("insert", &json!(7)), ("update", &json!(8)), ("insert", &json!(7)), ("update", &json!(9))]);
    }

    async fn on_the_pool_it_is_captured_or_refused_as_that_is(t: Shop) {
        let error = save(&t.db, new()).await.unwrap_err();
        let ours = Error::find(&error);
        assert!(matches!(ours, Some(Error::Unsupported { what, .. }) if what == "a generic insert of `shop.Widget` on a pool"), "{error}");
        assert!(error.to_string().contains("run it in a transaction"), "{error}");
        assert_eq!((t.count("widget").await, t.count("hare_outbox").await), (0, 0));

        // An update is one transaction of its own.
        let mut saved = new().insert(&t.db).await.unwrap().into_active_model();
        saved.size = Set(8);
        save(&t.db, saved).await.unwrap();
        let operations: Vec<_> = t.take_events().await.iter().map(|event| event.operation().to_owned()).collect();
        assert_eq!(operations, ["insert", "update"]);

        let accepted = widget::non_atomic::ActiveModel { name: Set("nut".to_owned()), ..Default::default() };
        save_twice(&t.db, accepted, |saved| saved.size = Set(8)).await.unwrap();
        let events = t.take_events().await;
        assert_eq!(events.iter().map(|event| event.operation()).collect::<Vec<_>>(), ["insert", "update"]);
        assert_eq!(events[1].payload["before"]["size"], json!(7));
    }

    async fn a_rollback_takes_row_and_event(t: Shop) {
        let plain = t.db.begin().await.unwrap();
        save_twice(&plain, new(), |saved| saved.size = Set(8)).await.unwrap();
        plain.rollback().await.unwrap();
        assert_eq!((t.count("widget").await, t.count("hare_outbox").await), (0, 0));
    }
}
