//! The user's own hooks: the same four, as often as under SeaORM, around the captured write.

use hare_seaorm_tests::shop::hooked::{self, hooks_of};
use hare_seaorm_tests::{Shop, on_every_backend};
use sea_orm::{
    ActiveModelBehavior, ActiveModelTrait, EntityTrait, IntoActiveModel, NotSet, Set, TransactionTrait,
    Unchanged,
};
use serde_json::json;

fn new(name: &str) -> hooked::ActiveModel {
    hooked::ActiveModel {
        id: NotSet,
        name: Set(name.to_owned()),
    }
}

on_every_backend! {
    async fn they_run_once_each_and_may_change_the_model(t: Shop) {
        let (row, ran) = hooks_of(new("  nut ").insert(&t.db)).await;
        let row = row.unwrap();
        assert_eq!(row.name, "nut");
        assert_eq!(ran, ["before_save true", "after_save true nut"]);
        assert_eq!(t.event().await.payload["after"]["name"], json!("nut"));

        let mut change = row.into_active_model();
        change.name = Set(" bolt".to_owned());
        let (row, ran) = hooks_of(change.update(&t.db)).await;
        assert_eq!(ran, ["before_save false", "after_save false bolt"]);
        assert_eq!(t.event().await.payload["after"]["name"], json!("bolt"));

        let row = row.unwrap();
        let change = hooked::ActiveModel { id: Unchanged(row.id), name: Set("nail".to_owned()) };
        let (_, ran) = hooks_of(change.update_without_returning(&t.db)).await;
        assert_eq!(ran, ["before_save false"]);
        assert_eq!(t.event().await.operation(), "update");

        let (_, ran) = hooks_of(row.delete(&t.db)).await;
        assert_eq!(ran, ["before_delete", "after_delete"]);
        assert_eq!(t.event().await.payload["before"]["name"], json!("nail"));
    }

    async fn they_run_as_often_in_generic_code(t: Shop) {
        let txn = t.db.begin().await.unwrap();
        let (row, ran) = hooks_of(ActiveModelTrait::insert(new(" nut"), &txn)).await;
        assert_eq!(ran, ["before_save true", "after_save true nut"]);
        let mut change = row.unwrap().into_active_model();
        change.name = Set("bolt".to_owned());
        let (row, ran) = hooks_of(ActiveModelTrait::update(change, &txn)).await;
        assert_eq!(ran, ["before_save false", "after_save false bolt"]);
        let (_, ran) = hooks_of(ActiveModelTrait::delete(row.unwrap().into_active_model(), &txn)).await;
        assert_eq!(ran, ["before_delete", "after_delete"]);
        txn.commit().await.unwrap();
        let operations: Vec<_> = t.take_events().await.iter().map(|event| event.operation().to_owned()).collect();
        assert_eq!(operations, ["insert", "update", "delete"]);
    }

    // An error in `after_save` leaves the row, as it does in SeaORM, and then the event too.
    async fn an_error_after_the_write_leaves_row_and_event(t: Shop) {
        let txn = t.db.begin().await.unwrap();
        new("refuse").insert(&txn).await.unwrap_err();
        ActiveModelTrait::insert(new("refuse"), &txn).await.unwrap_err();
        txn.commit().await.unwrap();
        assert_eq!(hooked::Entity::find().all(&t.db).await.unwrap().len(), 2);
        assert_eq!(t.take_events().await.len(), 2);
    }
}

#[test]
fn new_is_the_users_own() {
    assert_eq!(hooked::ActiveModel::new(), new("fresh"));
}
