//! Code that is generic over `ActiveModelTrait`, as admin panels and CRUD layers are.

mod entities;
mod save;

use hare_seaorm::Error;
use hare_seaorm_tests::shop::{line, widget};
use hare_seaorm_tests::{Shop, on_every_backend};
use sea_orm::{
    ActiveModelBehavior, ActiveModelTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, ModelTrait,
    Set, TransactionTrait, Unchanged,
};
use serde_json::json;

async fn insert<A, C>(db: &C, new: A) -> Result<<A::Entity as EntityTrait>::Model, DbErr>
where
    A: ActiveModelTrait + ActiveModelBehavior + Send,
    <A::Entity as EntityTrait>::Model: IntoActiveModel<A>,
    C: ConnectionTrait,
{
    new.insert(db).await
}

async fn update<A, C>(db: &C, change: A) -> Result<<A::Entity as EntityTrait>::Model, DbErr>
where
    A: ActiveModelTrait + ActiveModelBehavior + Send,
    <A::Entity as EntityTrait>::Model: IntoActiveModel<A>,
    C: ConnectionTrait,
{
    change.update(db).await
}

async fn delete<M, A, C>(db: &C, row: M) -> Result<u64, DbErr>
where
    M: ModelTrait + IntoActiveModel<A>,
    A: ActiveModelTrait<Entity = M::Entity> + ActiveModelBehavior + Send,
    C: ConnectionTrait,
{
    Ok(row.delete(db).await?.rows_affected)
}

fn new() -> widget::both::ActiveModel {
    widget::both::ActiveModel {
        name: Set("nut".to_owned()),
        ..Default::default()
    }
}

on_every_backend! {
    async fn it_is_captured_once_in_a_transaction(t: Shop) {
        let plain = t.db.begin().await.unwrap();
        let row = insert(&plain, new()).await.unwrap();
        let mut change = row.into_active_model();
        change.size = Set(8);
        let row = update(&plain, change).await.unwrap();
        assert_eq!(row.size, 8);
        assert_eq!(delete(&plain, row.clone()).await.unwrap(), 1);
        plain.commit().await.unwrap();

        let events = t.take_events().await;
        let told: Vec<_> = events.iter().map(|event| (event.operation(), event.payload["changed"].clone())).collect();
        assert_eq!(told, [("insert", json!(null)), ("update", json!(["size"])), ("delete", json!(null))]);
        assert_eq!(events[1].payload["before"]["size"], json!(7));
        assert_eq!(events[2].payload["before"]["size"], json!(8));
    }

    async fn it_is_captured_once_in_a_transaction_of_ours(t: Shop) {
        let ours = hare_seaorm::begin(&t.db).await.unwrap();
        let row = insert(&ours, new()).await.unwrap();
        let nested = ours.begin().await.unwrap();
        delete(&nested, row).await.unwrap();
        nested.commit().await.unwrap();
        ours.commit().await.unwrap();
        let operations: Vec<_> = t.take_events().await.iter().map(|event| event.operation().to_owned()).collect();
        assert_eq!(operations, ["insert", "delete"]);
    }

    async fn what_it_does_not_find_makes_no_event(t: Shop) {
        let txn = t.db.begin().await.unwrap();
        let row = insert(&txn, new()).await.unwrap();
        delete(&txn, row.clone()).await.unwrap();
        assert_eq!(delete(&txn, row.clone()).await.unwrap(), 0);
        let change = widget::both::ActiveModel { id: Unchanged(row.id), size: Set(1), ..Default::default() };
        assert_eq!(update(&txn, change).await, Err(DbErr::RecordNotUpdated));
        assert_eq!(update(&txn, row.into_active_model()).await.unwrap_err().to_string(), "RecordNotFound Error: Failed to find updated item");
        txn.commit().await.unwrap();
        assert_eq!(t.take_events().await.len(), 2);
    }

    async fn an_insert_and_a_delete_on_the_pool_are_refused_before_anything_is_written(t: Shop) {
        let error = insert(&t.db, new()).await.unwrap_err();
        assert!(matches!(Error::find(&error), Some(Error::Unsupported { .. })), "{error}");
        assert!(error.to_string().contains("shop.Widget") && error.to_string().contains("on_pool"), "{error}");
        assert_eq!(widget::both::Entity::find().all(&t.db).await.unwrap(), []);

        let row = new().insert(&t.db).await.unwrap();
        delete(&t.db, row.clone()).await.unwrap_err();
        assert_eq!(widget::both::Entity::find().all(&t.db).await.unwrap(), std::slice::from_ref(&row));
        t.take_events().await;

        // An update is one transaction of its own.
        let change = widget::both::ActiveModel { id: Unchanged(row.id), size: Set(9), ..Default::default() };
        assert_eq!(update(&t.db, change).await.unwrap().size, 9);
        assert_eq!(t.event().await.payload["after"]["size"], json!(9));
    }

    async fn a_declaration_may_accept_the_pool(t: Shop) {
        let new = widget::non_atomic::ActiveModel { name: Set("nut".to_owned()), ..Default::default() };
        let row = insert(&t.db, new).await.unwrap();
        assert_eq!(t.event().await.payload["after"]["name"], json!("nut"));
        assert_eq!(delete(&t.db, row).await.unwrap(), 1);
        assert_eq!(t.event().await.payload["before"]["name"], json!("nut"));
    }

    async fn a_composite_key_is_captured_too(t: Shop) {
        let new = line::ActiveModel { order_id: Set(1), number: Set(2), product: Set("nut".to_owned()), quantity: Set(3) };
        let txn = t.db.begin().await.unwrap();
        let row = insert(&txn, new).await.unwrap();
        delete(&txn, row).await.unwrap();
        txn.commit().await.unwrap();
        for event in t.take_events().await {
            assert_eq!(event.payload["pk"], json!({"order_id": 1, "number": 2}));
        }
    }

    // A statement of SeaORM's that fails between the hooks leaves a usable transaction where the database does.
    async fn a_failing_statement_between_the_hooks_leaves_no_event(t: Shop) {
        let existing = new().insert(&t.db).await.unwrap();
        t.take_events().await;
        let txn = t.db.begin().await.unwrap();
        let same_key = widget::both::ActiveModel { id: Set(existing.id), name: Set("twin".to_owned()), ..Default::default() };
        let error = insert(&txn, same_key).await.unwrap_err();
        assert!(error.sql_err().is_some(), "{error:?}");
        if t.backend != hare_seaorm_tests::Backend::Postgres {
            insert(&txn, new()).await.unwrap();
        }
        let _ = txn.commit().await;
        let expected = if t.backend == hare_seaorm_tests::Backend::Postgres { 0 } else { 1 };
        assert_eq!(t.take_events().await.len(), expected);
        assert_eq!(widget::both::Entity::find().all(&t.db).await.unwrap().len(), 1 + expected);
    }
}
