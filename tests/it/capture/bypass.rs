//! The detector of uncaptured writes: silent on every captured one, and on nothing else that changes a captured table.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hare_seaorm::capture::{Bypass, BypassDetector, BypassKind};
use hare_seaorm::{OutboxMessage, outbox};
use hare_seaorm_tests::shop::{hooked, line, plain, widget};
use hare_seaorm_tests::{Backend, Shop, TestDb, on_backends, on_every_backend};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelBehavior, ActiveModelTrait, ColumnTrait, ConnectionTrait, DatabaseConnection, DbErr,
    EntityTrait, Insert, IntoActiveModel, ModelTrait, QueryFilter, Set, Statement, TransactionTrait,
    Unchanged, Update,
};

use crate::relay::logs;

type Widget = widget::both::ActiveModel;

/// Only its deletes are captured.
mod parcel {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "parcel")]
    #[hare(capture(app = "shop", operations(delete)))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        #[sea_orm(unique)]
        pub name: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

/// Its hook writes behind the back of the capture.
mod sneaky {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;
    use sea_orm::sea_query::Expr;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "sneaky")]
    #[hare(capture(app = "shop", hooks, on_pool = "non_atomic"))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        pub name: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    #[hare_seaorm::behavior]
    impl ActiveModelBehavior for ActiveModel {
        async fn after_save<C: ConnectionTrait>(model: Model, db: &C, _insert: bool) -> Result<Model, DbErr> {
            let touched = sea_orm::Update::many(Entity).col_expr(Column::Name, Expr::val("touched"));
            touched.exec(db).await?;
            Ok(model)
        }
    }
}

fn new(name: &str) -> Widget {
    Widget {
        name: Set(name.to_owned()),
        ..Default::default()
    }
}

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

async fn watched(t: &TestDb) -> (DatabaseConnection, BypassDetector) {
    let mut db = t.another_pool(5).await;
    let detector = BypassDetector::new();
    detector.install(&mut db);
    (db, detector)
}

async fn raw(db: &impl ConnectionTrait, sql: &str) {
    let statement = Statement::from_string(db.get_database_backend(), sql);
    db.execute_raw(statement).await.unwrap();
}

fn told(found: Vec<Bypass>) -> Vec<(BypassKind, String, usize)> {
    found
        .into_iter()
        .map(|bypass| (bypass.kind, bypass.table, bypass.times))
        .collect()
}

/// Each method of the entities themselves.
async fn methods(db: &impl ConnectionTrait) {
    let row = new("nut").insert(db).await.unwrap();
    let mut change = row.into_active_model();
    change.size = Set(8);
    let row = change.save(db).await.unwrap();
    let change = Widget {
        id: row.id.clone(),
        size: Set(9),
        ..Default::default()
    };
    change.clone().update_without_returning(db).await.unwrap();
    // To the values that are there.
    change.update(db).await.unwrap();
    row.delete(db).await.unwrap();
    Widget {
        id: Unchanged(999),
        size: Set(1),
        ..Default::default()
    }
    .update(db)
    .await
    .unwrap_err();
    Widget {
        id: Set(999),
        ..Default::default()
    }
    .delete(db)
    .await
    .unwrap();

    let number = line::ActiveModel {
        order_id: Set(1),
        number: Set(2),
        product: Set("nut".to_owned()),
        quantity: Set(3),
    };
    number.insert(db).await.unwrap().delete(db).await.unwrap();
    hooked::ActiveModel {
        name: Set(" nut".to_owned()),
        ..Default::default()
    }
    .insert(db)
    .await
    .unwrap()
    .delete(db)
    .await
    .unwrap();
}

/// The same by code that knows no entity.
async fn generic(db: &impl ConnectionTrait) {
    let row = insert(db, new("nut")).await.unwrap();
    let row = update(
        db,
        Widget {
            id: Unchanged(row.id),
            size: Set(8),
            ..Default::default()
        },
    )
    .await
    .unwrap();
    delete(db, row.clone()).await.unwrap();
    // There is nothing left to delete.
    delete(db, row).await.unwrap();
    let number = line::ActiveModel {
        order_id: Set(1),
        number: Set(2),
        product: Set("nut".to_owned()),
        quantity: Set(3),
    };
    let number = insert(db, number).await.unwrap();
    delete(db, number).await.unwrap();
    let row = insert(
        db,
        hooked::ActiveModel {
            name: Set(" nut".to_owned()),
            ..Default::default()
        },
    )
    .await
    .unwrap();
    delete(db, row).await.unwrap();
}

on_every_backend! {
    // catalogue G25
    async fn no_captured_write_is_reported(t: Shop) {
        let (db, detector) = watched(&t).await;
        methods(&db).await;
        let plain = db.begin().await.unwrap();
        methods(&plain).await;
        generic(&plain).await;
        let nested = plain.begin().await.unwrap();
        generic(&nested).await;
        nested.commit().await.unwrap();
        plain.commit().await.unwrap();
        let ours = hare_seaorm::begin(&db).await.unwrap();
        methods(&ours).await;
        generic(&ours).await;
        let nested = ours.begin().await.unwrap();
        methods(&nested).await;
        generic(&nested).await;
        nested.commit().await.unwrap();
        ours.commit().await.unwrap();

        let accepted = widget::non_atomic::ActiveModel { name: Set("nut".to_owned()), ..Default::default() };
        let row = insert(&db, accepted).await.unwrap();
        delete(&db, row).await.unwrap();
        outbox::enqueue(&db, OutboxMessage::new("own", &1).unwrap()).await.unwrap();
        detector.assert_none();
    }

    async fn no_captured_write_that_fails_or_is_refused_is_reported(t: Shop) {
        let (db, detector) = watched(&t).await;
        let row = new("nut").insert(&db).await.unwrap();
        let twin = || Widget { id: Set(row.id), ..new("twin") };
        twin().insert(&db).await.unwrap_err();
        insert(&db, new("refused")).await.unwrap_err();
        for _ in 0..2 {
            let txn = hare_seaorm::begin(&db).await.unwrap();
            insert(&txn, twin()).await.unwrap_err();
            txn.rollback().await.unwrap();
        }
        detector.assert_none();
    }

    async fn no_captured_write_beside_others_is_reported(t: Shop) {
        let (db, detector) = watched(&t).await;
        let write = |name: &'static str| {
            let db = db.clone();
            async move {
                let txn = hare_seaorm::begin(&db).await.unwrap();
                let row = insert(&txn, new(name)).await.unwrap();
                delete(&txn, row).await.unwrap();
                new(name).insert(&txn).await.unwrap();
                txn.commit().await.unwrap();
            }
        };
        // In one task, and each in its own; two are alike to the letter.
        tokio::join!(write("a"), write("b"), write("b"));
        let tasks = ["a", "b", "b"].map(|name| tokio::spawn(write(name)));
        for task in tasks {
            task.await.unwrap();
        }
        detector.assert_none();
        assert_eq!(t.count("widget").await, 6);
    }

    // catalogue G25
    async fn every_other_write_is_reported(t: Shop) {
        use BypassKind::{Delete, Insert as Inserted, Update as Updated};
        let (db, detector) = watched(&t).await;
        raw(&db, "INSERT INTO widget (name) VALUES ('secret')").await;
        raw(&db, "UPDATE widget SET size = 1 WHERE name = 'secret'").await;
        raw(&db, "DELETE FROM widget WHERE name = 'another secret'").await;
        raw(&db, "DELETE FROM widget WHERE name = 'yet another'").await;
        let found = detector.take();
        let widgets: Vec<_> = [(Inserted, 1), (Updated, 1), (Delete, 2)].map(|(kind, times)| (kind, "widget".to_owned(), times)).into();
        assert_eq!(told(found.clone()), widgets);
        assert!(found[0].entities.contains(&"shop.Widget".to_owned()), "{found:?}");
        assert_eq!(found[1].sql, "UPDATE widget SET size = ? WHERE name = ?");
        assert!(!format!("{found:?}").contains("secret"), "{found:?}");

        let txn = db.begin().await.unwrap();
        Insert::one(new("secret")).exec(&txn).await.unwrap();
        Insert::many([new("secret"), new("b")]).exec(&txn).await.unwrap();
        Update::many(widget::both::Entity).col_expr(widget::both::Column::Size, Expr::val(4)).exec(&txn).await.unwrap();
        txn.commit().await.unwrap();
        let ours = hare_seaorm::begin(&db).await.unwrap();
        sea_orm::Delete::many(widget::both::Entity).filter(widget::both::Column::Size.eq(4)).exec(&*ours).await.unwrap();
        line::Entity::delete_many().exec(&*ours).await.unwrap();
        ours.commit().await.unwrap();
        let found = detector.take();
        assert!(!format!("{found:?}").contains("secret"), "{found:?}");
        let tables: Vec<_> = found.iter().map(|bypass| (bypass.kind, bypass.table.as_str())).collect();
        let widget = "widget";
        assert_eq!(tables[..4], [(Inserted, widget), (Inserted, widget), (Updated, widget), (Delete, widget)]);
        assert_eq!(detector.found(), []);
    }

    async fn what_touches_no_captured_table_is_not_reported(t: Shop) {
        t.create_table(parcel::Entity).await;
        let (db, detector) = watched(&t).await;
        plain::ActiveModel { name: Set("nut".to_owned()), ..Default::default() }.insert(&db).await.unwrap();
        raw(&db, "SELECT * FROM widget").await;
        raw(&db, "UPDATE plain SET note = (SELECT MAX(name) FROM widget)").await;
        outbox::Entity::delete_many().exec(&db).await.unwrap();
        // The declaration leaves these out.
        parcel::ActiveModel { name: Set("nut".to_owned()), ..Default::default() }.insert(&db).await.unwrap();
        raw(&db, "UPDATE parcel SET name = 'bolt'").await;
        detector.assert_none();
        raw(&db, "DELETE FROM parcel").await;
        assert_eq!(told(detector.take()), [(BypassKind::Delete, "parcel".to_owned(), 1)]);
    }

    async fn an_upsert_or_a_replacement_is_reported_for_what_it_may_do(t: Shop) {
        t.create_table(parcel::Entity).await;
        let (db, detector) = watched(&t).await;
        if t.backend != Backend::Postgres {
            raw(&db, "REPLACE INTO parcel (name) VALUES ('nut')").await;
            assert_eq!(told(detector.take()), [(BypassKind::Replace, "parcel".to_owned(), 1)]);
        }
        let upsert = if t.backend == Backend::MariaDb {
            "INSERT INTO parcel (name) VALUES ('nut') ON DUPLICATE KEY UPDATE name = 'bolt'"
        } else {
            "INSERT INTO parcel (name) VALUES ('nut') ON CONFLICT (name) DO UPDATE SET name = 'bolt'"
        };
        raw(&db, upsert).await;
        detector.assert_none();
    }

    // Between SeaORM's hooks exactly its own statement is expected.
    async fn a_write_beside_a_generic_one_is_reported(t: Shop) {
        let (db, detector) = watched(&t).await;
        let txn = db.begin().await.unwrap();
        // On another connection, in the same task, to the letter the same.
        let beside = async { Insert::one(new("nut")).exec_without_returning(&db).await };
        if t.backend == Backend::Sqlite {
            // One writer at a time there.
            insert(&txn, new("nut")).await.unwrap();
            txn.commit().await.unwrap();
            beside.await.unwrap();
        } else {
            let (inserted, beside) = tokio::join!(insert(&txn, new("nut")), beside);
            inserted.unwrap();
            beside.unwrap();
            txn.commit().await.unwrap();
        }
        assert_eq!(told(detector.take()), [(BypassKind::Insert, "widget".to_owned(), 1)]);
    }

    // What was not seen to come is not waited for any longer.
    async fn a_generic_write_elsewhere_leaves_nothing_expected(t: Shop) {
        let (db, detector) = watched(&t).await;
        let txn = t.db.begin().await.unwrap();
        let row = insert(&txn, new("nut")).await.unwrap();
        delete(&txn, row.clone()).await.unwrap();
        txn.commit().await.unwrap();
        Insert::one(new("nut")).exec_without_returning(&db).await.unwrap();
        sea_orm::Delete::one(row.into_active_model()).exec(&db).await.unwrap();
        let kinds: Vec<_> = detector.take().iter().map(|bypass| bypass.kind).collect();
        assert_eq!(kinds, [BypassKind::Insert, BypassKind::Delete]);
    }

    // A write that is dropped between the hook and its statement leaves that one statement expected, of its own task.
    async fn a_generic_write_that_was_dropped_hides_no_other(t: Shop) {
        let (db, detector) = watched(&t).await;
        let txn = db.begin().await.unwrap();
        let dropped = ActiveModelBehavior::before_save(new("nut"), &txn, true).await.unwrap();
        txn.rollback().await.unwrap();
        Insert::one(new("bolt")).exec_without_returning(&db).await.unwrap();
        let elsewhere = db.clone();
        let same = Insert::one(dropped.clone());
        tokio::spawn(async move { same.exec_without_returning(&elsewhere).await }).await.unwrap().unwrap();
        assert_eq!(told(detector.take()), [(BypassKind::Insert, "widget".to_owned(), 2)]);
        Insert::one(dropped.clone()).exec_without_returning(&db).await.unwrap();
        detector.assert_none();
        Insert::one(dropped).exec_without_returning(&db).await.unwrap();
        assert_eq!(told(detector.take()), [(BypassKind::Insert, "widget".to_owned(), 1)]);
    }

    async fn what_a_users_hook_writes_is_reported(t: Shop) {
        t.create_table(sneaky::Entity).await;
        let (db, detector) = watched(&t).await;
        let new = || sneaky::ActiveModel { name: Set("nut".to_owned()), ..Default::default() };
        new().insert(&db).await.unwrap();
        insert(&db, new()).await.unwrap();
        let found = detector.take();
        assert_eq!(found[0].entities, ["shop.Sneaky"]);
        assert_eq!(told(found), [(BypassKind::Update, "sneaky".to_owned(), 2)]);
    }

    async fn a_callback_of_the_users_own_is_called_too(t: Shop) {
        t.create_table(parcel::Entity).await;
        let mut db = t.another_pool(1).await;
        let seen = Arc::new(AtomicUsize::new(0));
        let (one, other) = (Arc::clone(&seen), Arc::clone(&seen));
        let detector = BypassDetector::new()
            .and_then(move |_| {
                one.fetch_add(1, Ordering::Relaxed);
            })
            .and_then(move |info| {
                other.fetch_add(100 * usize::from(info.statement.sql == "DELETE FROM parcel"), Ordering::Relaxed);
            });
        db.set_metric_callback(detector.callback());
        raw(&db, "DELETE FROM parcel").await;
        raw(&db, "SELECT 1").await;
        assert_eq!(seen.load(Ordering::Relaxed), 102);
        let found = std::panic::catch_unwind(AssertUnwindSafe(|| detector.assert_none())).unwrap_err();
        let found = found.downcast::<String>().unwrap();
        assert!(found.contains("DELETE on `parcel` (shop.Parcel), 1 times: DELETE FROM parcel"), "{found}");
    }

    async fn what_was_found_is_logged_once(t: Shop) {
        logs::listen();
        let (db, _detector) = watched(&t).await;
        let marker = format!("of_{:?}", t.backend).to_lowercase();
        for secret in ["one", "two"] {
            raw(&db, &format!("UPDATE widget AS {marker} SET note = 'secret {secret}'")).await;
        }
        let lines = logs::about(&marker);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert_eq!((lines[0].name, lines[0].level), ("hare.bypass_found", tracing::Level::WARN));
        assert!(!lines[0].text.contains("secret"), "{lines:#?}");
    }
}

on_backends! { [postgres, sqlite]
    async fn a_statement_that_gives_rows_back_is_reported(t: Shop) {
        use sea_orm::StreamTrait;
        let (db, detector) = watched(&t).await;
        let statement = |sql: &str| Statement::from_string(db.get_database_backend(), sql);
        let row = db.query_one_raw(statement("INSERT INTO widget (name) VALUES ('nut') RETURNING id")).await.unwrap();
        assert!(row.is_some());
        db.query_all_raw(statement("WITH a AS (SELECT 1) UPDATE widget SET size = 2 RETURNING id")).await.unwrap();
        drop(db.stream_raw(statement("DELETE FROM widget RETURNING id")).await.unwrap());
        let kinds: Vec<_> = detector.take().iter().map(|bypass| bypass.kind).collect();
        assert_eq!(kinds, [BypassKind::Insert, BypassKind::Update, BypassKind::Delete]);
    }
}

/// A table with an entity of its own in each of two schemas, and a third that nobody declared.
mod depot {
    macro_rules! depot {
        ($module:ident, $($table:tt)*) => {
            pub(super) mod $module {
                use hare_seaorm::ChangeCapture;
                use sea_orm::entity::prelude::*;

                #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
                #[sea_orm($($table)*)]
                #[hare(capture(app = "shop"))]
                pub struct Model {
                    #[sea_orm(primary_key)]
                    pub id: i32,
                }

                #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
                pub enum Relation {}
            }
        };
    }
    depot!(north, schema_name = "north", table_name = "Depot");
    depot!(south, schema_name = "south", table_name = "Depot");
}

on_backends! { [postgres]
    async fn a_table_is_told_by_its_schema_and_its_case(t: Shop) {
        for schema in ["north", "south", "west"] {
            t.execute(&format!("CREATE SCHEMA {schema}")).await;
            t.execute(&format!(r#"CREATE TABLE {schema}."Depot" (id serial PRIMARY KEY)"#)).await;
            t.execute(&format!("CREATE TABLE {schema}.depot (id serial PRIMARY KEY)")).await;
        }
        let (db, detector) = watched(&t).await;
        depot::north::ActiveModel { ..Default::default() }.insert(&db).await.unwrap();
        for schema in ["north", "south", "west"] {
            raw(&db, &format!("DELETE FROM {schema}.Depot")).await;
        }
        raw(&db, r#"DELETE FROM west."Depot""#).await;
        detector.assert_none();
        raw(&db, r#"DELETE FROM ONLY "south"."Depot" USING widget"#).await;
        raw(&db, "TRUNCATE widget, plain").await;
        raw(&db, "WITH gone AS (DELETE FROM hooked RETURNING *) INSERT INTO plain (name) SELECT name FROM gone").await;
        raw(&db, "MERGE INTO public.widget USING plain ON widget.id = plain.id WHEN MATCHED THEN DELETE").await;
        let tables: Vec<_> = detector.take().into_iter().map(|bypass| bypass.table).collect();
        assert_eq!(tables, ["south.Depot", "widget", "hooked", "widget"]);
    }
}
