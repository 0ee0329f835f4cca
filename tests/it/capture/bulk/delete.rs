use hare_seaorm_tests::shop::{line, plain, widget};
use hare_seaorm_tests::statements::Statements;
use hare_seaorm_tests::{Backend, Shop, on_backends, on_every_backend};
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query};
use sea_orm::{ColumnTrait, DbErr, QueryFilter, QueryTrait, Set};
use serde_json::json;

use super::{image, keys, named, new_line, operations, told};

use widget::both::Entity;
type Column = widget::both::Column;

macro_rules! sized {
    ($t:expr, $sizes:expr) => {{
        let rows = $sizes.map(|size| named::<widget::both::ActiveModel>("nut", size));
        Entity::insert_many(rows)
            .exec_without_returning(&$t.db)
            .await
            .unwrap();
        $t.take_events().await;
    }};
}

on_every_backend! {
    // catalogue G22
    async fn each_row_that_is_deleted_makes_an_event(t: Shop) {
        sized!(t, [1, 2, 3]);
        let result = Entity::delete_many().filter(Column::Size.gte(2)).exec(&t.db).await.unwrap();
        assert_eq!(result.rows_affected, 2);
        let null = json!(null);
        assert_eq!(told(&t.take_events().await), [
            ("delete", json!(2), null.clone(), image(2, "nut", 2), null.clone()),
            ("delete", json!(3), null.clone(), image(3, "nut", 3), null.clone()),
        ]);
        assert_eq!(Entity::delete_many().filter(Column::Size.eq(77)).exec(&t.db).await.unwrap().rows_affected, 0);
        assert_eq!(t.take_events().await, []);
        Entity::delete_many().exec(&t.db).await.unwrap();
        assert_eq!(keys(&t.take_events().await), [json!(1)]);
    }

    async fn by_ids_and_by_subqueries(t: Shop) {
        sized!(t, [1, 2, 3]);
        Entity::delete_many().filter_by_ids([3, 1]).exec(&t.db).await.unwrap();
        let mut gone = keys(&t.take_events().await);
        gone.sort_by_key(serde_json::Value::to_string);
        assert_eq!(gone, [json!(1), json!(3)]);
        line::Entity::insert_many([new_line(1, 1, "nut"), new_line(1, 2, "bolt"), new_line(2, 1, "nail")]).exec_without_returning(&t.db).await.unwrap();
        t.take_events().await;
        line::Entity::delete_many().filter_by_ids([(1, 2), (2, 1)]).exec(&t.db).await.unwrap();
        assert_eq!(operations(&t.take_events().await), ["delete"; 2]);
        let plain = plain::ActiveModel { name: Set("2".to_owned()), ..Default::default() };
        sea_orm::ActiveModelTrait::insert(plain, &t.db).await.unwrap();
        let some = Query::select().expr(Expr::col(plain::Column::Id).add(1)).from(plain::Entity).take();
        Entity::delete_many().filter(Column::Id.in_subquery(some)).exec(&t.db).await.unwrap();
        assert_eq!(keys(&t.take_events().await), [json!(2)]);
    }

    async fn a_delete_of_one_answers_as_seaorms(t: Shop) {
        sized!(t, [1, 2, 3, 4]);
        assert_eq!(Entity::delete_by_id(1).exec(&t.db).await.unwrap().rows_affected, 1);
        assert_eq!(Entity::delete_by_id(1).exec(&t.db).await.unwrap().rows_affected, 0);
        let row = widget::both::ActiveModel { id: Set(2), ..Default::default() };
        assert_eq!(Entity::delete(row).exec(&t.db).await.unwrap().rows_affected, 1);
        let no_key = || widget::both::ActiveModel::default();
        let ours = Entity::delete(no_key()).exec(&t.db).await.unwrap_err();
        assert_eq!(ours, sea_orm::Delete::one::<Entity, _, _>(no_key()).exec(&t.db).await.unwrap_err());
        let filtered = Entity::delete_by_id(3).filter(Column::Size.eq(77));
        assert_eq!(filtered.exec(&t.db).await.unwrap().rows_affected, 0);
        assert_eq!(keys(&t.take_events().await), [json!(1), json!(2)]);
        let row = Entity::delete_by_id(3).exec_with_returning(&t.db).await;
        let rows = Entity::delete_many().exec_with_returning(&t.db).await;
        if t.backend == Backend::MariaDb {
            assert!(matches!(row, Err(DbErr::BackendNotSupported { .. })), "{row:?}");
            assert!(matches!(rows, Err(DbErr::BackendNotSupported { .. })), "{rows:?}");
            assert_eq!(t.take_events().await, []);
        } else {
            assert_eq!(row.unwrap().unwrap().size, 3);
            assert_eq!(rows.unwrap()[0].size, 4);
            assert_eq!(keys(&t.take_events().await), [json!(3), json!(4)]);
        }
    }

    async fn each_mode_runs_no_more_than_it_needs(t: Shop) {
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        sized!(t, [1, 2]);
        widget::keys::Entity::delete_many().filter(Column::Id.eq(1)).exec(&db).await.unwrap();
        let sql = statements.take();
        assert!(sql.iter().all(|sql| !sql.contains("\"note\"") && !sql.contains("`note`")), "{sql:#?}");
        let most = if t.backend == Backend::MariaDb { 3 } else { 2 };
        assert_eq!(sql.len(), most, "{sql:#?}");
        widget::after::Entity::delete_many().exec(&db).await.unwrap();
        let sql = statements.take();
        assert_eq!(sql.len(), most, "{sql:#?}");
        let events = t.take_events().await;
        assert_eq!(events[1].payload["before"]["size"], json!(2));
    }

    async fn a_failing_event_undoes_the_delete(t: Shop) {
        sized!(t, [1, 2]);
        t.execute("DROP TABLE hare_outbox").await;
        Entity::delete_many().exec(&t.db).await.unwrap_err();
        assert_eq!(t.count("widget").await, 2);
    }
}

on_backends! {
    [mariadb]
    async fn order_and_limit_delete_and_tell_the_same_rows(t: Shop) {
        sized!(t, [5, 3, 9, 1]);
        let mut delete = Entity::delete_many();
        QueryTrait::query(&mut delete).order_by(Column::Size, Order::Desc).limit(2);
        assert_eq!(delete.exec(&t.db).await.unwrap().rows_affected, 2);
        let mut gone = keys(&t.take_events().await);
        gone.sort_by_key(serde_json::Value::to_string);
        assert_eq!(gone, [json!(1), json!(3)]);
    }
}
