use hare_seaorm_tests::shop::{line, widget};
use hare_seaorm_tests::statements::Statements;
use hare_seaorm_tests::{Backend, Shop, on_backends, on_every_backend};
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{
    ActiveModelTrait, DbErr, EntityTrait, IntoActiveModel, QueryTrait, Set, TransactionTrait, TryInsertResult,
};
use serde_json::json;

use super::{image, keys, named, new_line, new_part, new_widget, operations, part, told};

on_every_backend! {
    // catalogue G13
    async fn each_row_of_many_makes_an_event_with_its_key_in_their_order(t: Shop) {
        let rows = [9, 5, 7].map(|size| new_widget("nut", size));
        let result = widget::both::Entity::insert_many(rows).exec(&t.db).await.unwrap();
        let events = t.take_events().await;
        let expected: Vec<_> = (1..).zip([9, 5, 7]).map(|(id, size)| {
            ("insert", json!(id), json!(null), json!(null), image(id, "nut", size))
        }).collect();
        assert_eq!(told(&events), expected);
        // MariaDB tells the first key that a statement generates.
        assert_eq!(result.last_insert_id, Some(if t.backend == Backend::MariaDb { 1 } else { 3 }));
    }

    async fn given_keys_stay_in_the_order_of_the_models(t: Shop) {
        let rows = [9, 5, 7].map(|id| widget::both::ActiveModel { id: Set(id), ..new_widget("nut", 1) });
        let count = widget::both::Entity::insert_many(rows).exec_without_returning(&t.db).await.unwrap();
        assert_eq!(count, 3);
        assert_eq!(keys(&t.take_events().await), [json!(9), json!(5), json!(7)]);

        let rows = [(2, 1), (1, 2), (1, 1)].map(|(order, number)| new_line(order, number, "nut"));
        line::Entity::insert_many(rows).exec_without_returning(&t.db).await.unwrap();
        let key = |order, number| json!({"order_id": order, "number": number});
        assert_eq!(keys(&t.take_events().await), [key(2, 1), key(1, 2), key(1, 1)]);
    }

    async fn generated_and_given_keys_in_one_statement_are_told_as_they_are(t: Shop) {
        let rows = [None, Some(50), None, None, Some(60)].map(|id: Option<i32>| widget::both::ActiveModel {
            id: id.map_or(sea_orm::NotSet, Set),
            ..new_widget("nut", 1)
        });
        let inserted = widget::both::Entity::insert_many(rows).exec_without_returning(&t.db).await;
        let events = t.take_events().await;
        if t.backend == Backend::Postgres {
            // SeaORM writes NULL for the keys that are not given, which PostgreSQL refuses.
            assert!(inserted.is_err());
            assert_eq!(events, []);
            return;
        }
        inserted.unwrap();
        let mut told: Vec<_> = keys(&events).iter().map(|key| key.as_i64().unwrap()).collect();
        let mut stored: Vec<_> = widget::both::Entity::find().all(&t.db).await.unwrap().iter().map(|row| i64::from(row.id)).collect();
        assert_eq!((told[1], told[4]), (50, 60));
        told.sort_unstable();
        stored.sort_unstable();
        assert_eq!(told, stored);
    }

    async fn each_way_to_insert_one_answers_as_seaorm_does(t: Shop) {
        type Entity = widget::both::Entity;
        let result = Entity::insert(new_widget("a", 1)).exec(&t.db).await.unwrap();
        assert_eq!(result.last_insert_id, 1);
        assert_eq!(Entity::insert(new_widget("b", 2)).exec_without_returning(&t.db).await.unwrap(), 1);
        let row = Entity::insert(new_widget("c", 3)).exec_with_returning(&t.db).await.unwrap();
        assert_eq!((row.id, row.size, row.note), (3, 3, None));
        let keys = Entity::insert(new_widget("d", 4)).exec_with_returning_keys(&t.db).await;
        let rows = Entity::insert(new_widget("e", 5)).exec_with_returning_many(&t.db).await;
        if t.backend == Backend::MariaDb {
            assert!(matches!(keys, Err(DbErr::BackendNotSupported { .. })), "{keys:?}");
            assert!(matches!(rows, Err(DbErr::BackendNotSupported { .. })), "{rows:?}");
            assert_eq!(operations(&t.take_events().await), ["insert"; 3]);
        } else {
            assert_eq!(keys.unwrap(), [4]);
            assert_eq!(rows.unwrap()[0].id, 5);
            assert_eq!(operations(&t.take_events().await), ["insert"; 5]);
        }
    }

    async fn each_way_to_insert_many_answers_as_seaorm_does(t: Shop) {
        type Entity = widget::both::Entity;
        let two = || [new_widget("a", 1), new_widget("b", 2)];
        let result = Entity::insert_many(two()).exec(&t.db).await.unwrap();
        let theirs = sea_orm::Insert::many(two()).exec(&t.db).await.unwrap();
        let distance = theirs.last_insert_id.unwrap() - result.last_insert_id.unwrap();
        assert_eq!(distance, 2, "{result:?}, and theirs {theirs:?}");
        assert_eq!(Entity::insert_many(two()).exec_without_returning(&t.db).await.unwrap(), 2);
        assert_eq!(operations(&t.take_events().await), ["insert"; 4]);
        let rows = Entity::insert_many(two()).exec_with_returning(&t.db).await;
        let keys = Entity::insert_many(two()).exec_with_returning_keys(&t.db).await;
        if t.backend == Backend::MariaDb {
            assert!(matches!(rows, Err(DbErr::BackendNotSupported { .. })), "{rows:?}");
            assert!(matches!(keys, Err(DbErr::BackendNotSupported { .. })), "{keys:?}");
            assert_eq!(t.take_events().await, []);
        } else {
            let names: Vec<_> = rows.unwrap().into_iter().map(|row| (row.id, row.name)).collect();
            assert_eq!(names, [(7, "a".to_owned()), (8, "b".to_owned())]);
            assert_eq!(keys.unwrap(), [9, 10]);
            assert_eq!(operations(&t.take_events().await), ["insert"; 4]);
        }
    }

    async fn of_no_models_nothing_is_run(t: Shop) {
        type Entity = widget::both::Entity;
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        let none = || Vec::<widget::both::ActiveModel>::new();
        assert_eq!(Entity::insert_many(none()).exec(&db).await.unwrap().last_insert_id, None);
        assert_eq!(Entity::insert_many(none()).exec_without_returning(&db).await.unwrap(), 0);
        assert_eq!(statements.take(), Vec::<String>::new());
        let empty = Entity::insert_many(none()).try_insert();
        assert!(matches!(empty.exec_without_returning(&db).await.unwrap(), TryInsertResult::Empty));
        assert_eq!(statements.take(), Vec::<String>::new());
    }

    async fn each_mode_tells_its_own_and_reads_no_more(t: Shop) {
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        let mut told = Vec::new();
        let rows = || [1, 2].map(|size| named::<widget::keys::ActiveModel>("nut", size));
        widget::keys::Entity::insert_many(rows()).exec_without_returning(&db).await.unwrap();
        let sql = statements.take();
        told.extend(t.take_events().await);
        assert!(told.iter().all(|event| event.payload.get("after").is_none()));
        match t.backend {
            Backend::Postgres | Backend::Sqlite => {
                assert_eq!(sql.len(), 2, "{sql:#?}");
                assert!(sql[0].ends_with(r#"RETURNING "id""#) || sql[0].contains(r#"RETURNING CAST("id""#), "{}", sql[0]);
            }
            // The insert, the keys, the events.
            Backend::MariaDb => {
                assert_eq!(sql.len(), 3, "{sql:#?}");
                assert!(!sql[1].contains("`name`"), "{}", sql[1]);
            }
        }
        let rows = [1, 2].map(|size| named::<widget::after::ActiveModel>("nut", size));
        widget::after::Entity::insert_many(rows).exec_without_returning(&db).await.unwrap();
        assert_eq!(statements.take().len(), if t.backend == Backend::MariaDb { 3 } else { 2 });
        assert!(t.take_events().await.iter().all(|event| event.payload["after"]["name"] == "nut"));
    }

    async fn defaults_and_expressions_are_told_as_they_are_stored(t: Shop) {
        let mut insert = widget::both::Entity::insert(new_widget("nut", 1));
        *QueryTrait::query(&mut insert) = Query::insert()
            .into_table(widget::both::Entity)
            .columns([widget::both::Column::Name, widget::both::Column::Size])
            .values_panic([Expr::val("a"), Expr::val(20).add(2)])
            .values_panic([Expr::val("b"), Expr::val(4)])
            .take();
        insert.exec_without_returning(&t.db).await.unwrap();
        let events = t.take_events().await;
        let after: Vec<_> = events.iter().map(|event| event.payload["after"]["size"].clone()).collect();
        assert_eq!(after, [json!(22), json!(4)]);
    }

    // catalogue G33
    async fn a_failing_insert_of_many_leaves_neither_rows_nor_events(t: Shop) {
        t.create_table(part::Entity).await;
        let txn = t.db.begin().await.unwrap();
        part::Entity::insert(super::new_part("kept", 1)).exec(&txn).await.unwrap();
        let twice = part::Entity::insert_many([super::new_part("a", 1), super::new_part("b", 1), super::new_part("a", 1)]);
        let error = twice.exec_without_returning(&txn).await.unwrap_err();
        assert!(matches!(error.sql_err(), Some(sea_orm::SqlErr::UniqueConstraintViolation(_))), "{error:?}");
        part::Entity::insert(super::new_part("too", 1)).exec(&txn).await.unwrap();
        txn.commit().await.unwrap();
        assert_eq!(t.count("part").await, 2);
        assert_eq!(operations(&t.take_events().await), ["insert", "insert"]);
    }

    async fn a_failing_event_undoes_every_row(t: Shop) {
        t.execute("DROP TABLE hare_outbox").await;
        let many = widget::both::Entity::insert_many([new_widget("a", 1), new_widget("b", 1)]);
        many.exec(&t.db).await.unwrap_err();
        assert_eq!(t.count("widget").await, 0);
    }

    // catalogue G24
    async fn rows_from_a_select_make_an_event_each(t: Shop) {
        line::Entity::insert_many([new_line(1, 1, "nut"), new_line(1, 2, "bolt"), new_line(2, 1, "nail")]).exec_without_returning(&t.db).await.unwrap();
        t.take_events().await;
        let mut insert = line::Entity::insert(new_line(0, 0, ""));
        let select = Query::select()
            .expr(Expr::col(line::Column::OrderId).add(10))
            .columns([line::Column::Number, line::Column::Product, line::Column::Quantity])
            .from(line::Entity)
            .and_where(Expr::col(line::Column::OrderId).eq(1))
            .take();
        *QueryTrait::query(&mut insert) = Query::insert()
            .into_table(line::Entity)
            .columns([line::Column::OrderId, line::Column::Number, line::Column::Product, line::Column::Quantity])
            .select_from(select)
            .unwrap()
            .take();
        assert_eq!(insert.exec_without_returning(&t.db).await.unwrap(), 2);
        let mut after: Vec<_> = t.take_events().await.iter().map(|event| {
            (event.operation().to_owned(), event.payload["after"]["order_id"].clone(), event.payload["after"]["product"].clone())
        }).collect();
        after.sort_by_key(|(_, _, product)| product.to_string());
        assert_eq!(after, [("insert".to_owned(), json!(11), json!("bolt")), ("insert".to_owned(), json!(11), json!("nut"))]);
    }

    async fn what_is_not_captured_runs_seaorms_statements(t: Shop) {
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        let new = || [1, 2].map(|size| named::<widget::deletes::ActiveModel>("nut", size));
        widget::deletes::Entity::insert_many(new()).exec(&db).await.unwrap();
        let ours = statements.take();
        sea_orm::Insert::many(new()).exec(&db).await.unwrap();
        assert_eq!(ours, statements.take());
        assert_eq!(t.take_events().await, []);
    }

    async fn a_model_of_a_type_of_its_own_goes_in(t: Shop) {
        let row = widget::both::Model { id: 5, name: "nut".to_owned(), size: 1, note: None };
        widget::both::Entity::insert(row.into_active_model().reset_all()).exec(&t.db).await.unwrap();
        assert_eq!(t.event().await.payload["pk"], json!(5));
    }
}

on_backends! {
    [mariadb]
    async fn a_key_that_the_database_computes_is_refused_before_anything_is_written(t: Shop) {
        let mut insert = line::Entity::insert(new_line(0, 0, ""));
        *QueryTrait::query(&mut insert) = Query::insert()
            .into_table(line::Entity)
            .columns([line::Column::OrderId, line::Column::Number, line::Column::Product, line::Column::Quantity])
            .values_panic([Expr::val(1).add(1), Expr::val(1), Expr::val("nut"), Expr::val(1)])
            .take();
        let error = insert.exec_without_returning(&t.db).await.unwrap_err();
        let told = hare_seaorm::Error::find(&error).unwrap().to_string();
        assert!(told.contains("shop.Line") && told.contains("primary key"), "{told}");
        assert_eq!(t.count("order_line").await, 0);
    }
}
