//! Code that is generic over `EntityTrait`: on a plain connection its statements run no hook, so they pass by, and the detector tells.

use hare_seaorm::capture::{BypassDetector, BypassKind};
use hare_seaorm_tests::shop::widget;
use hare_seaorm_tests::{Shop, on_every_backend};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, Iterable,
    PrimaryKeyToColumn, QueryFilter, Set, TransactionTrait,
};

/// Every way that an entity alone has to write, on any connection.
async fn write_all_ways<E, A, C>(db: &C, new: A, column: E::Column) -> Result<(), DbErr>
where
    E: EntityTrait,
    E::Model: IntoActiveModel<A>,
    A: ActiveModelTrait<Entity = E>,
    C: ConnectionTrait,
{
    E::insert(new.clone()).exec_without_returning(db).await?;
    E::insert_many([new.clone(), new])
        .exec_without_returning(db)
        .await?;
    E::update_many().col_expr(column, Expr::val(8)).exec(db).await?;
    let row = E::find().one(db).await?.expect("there are three");
    let mut change = row.clone().into_active_model();
    change.set(column, 9.into());
    E::update(change).exec(db).await?;
    E::delete(row.into_active_model()).exec(db).await?;
    for key in E::PrimaryKey::iter() {
        E::delete_many()
            .filter(key.into_column().is_not_null())
            .exec(db)
            .await?;
    }
    Ok(())
}

on_every_backend! {
    // catalogue G25
    async fn on_a_plain_connection_they_pass_by_and_are_told(t: Shop) {
        let mut db = t.another_pool(2).await;
        let detector = BypassDetector::new();
        detector.install(&mut db);
        let new = || widget::both::ActiveModel { name: Set("nut".to_owned()), ..Default::default() };
        write_all_ways::<widget::both::Entity, _, _>(&db, new(), widget::both::Column::Size).await.unwrap();
        let txn = db.begin().await.unwrap();
        write_all_ways::<widget::both::Entity, _, _>(&txn, new(), widget::both::Column::Size).await.unwrap();
        txn.commit().await.unwrap();

        assert_eq!(t.take_events().await, []);
        let found = detector.found();
        let kinds: Vec<_> = found.iter().map(|bypass| (bypass.kind, bypass.times)).collect();
        use BypassKind::{Delete, Insert, Update};
        assert_eq!(kinds, [(Insert, 2), (Insert, 2), (Update, 2), (Update, 2), (Delete, 2), (Delete, 2)], "{found:#?}");
        assert!(found.iter().all(|bypass| bypass.table == "widget"), "{found:#?}");
    }
}
