use hare_seaorm_tests::shop::{line, plain, widget};
use hare_seaorm_tests::statements::Statements;
use hare_seaorm_tests::{Backend, Shop, on_backends, on_every_backend};
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryTrait, Set, TransactionTrait};
use serde_json::json;

use super::{image, keys, named, new_line, operations, told};

use widget::both::Entity;
type Column = widget::both::Column;

macro_rules! sized {
    ($t:expr, $module:ident, $sizes:expr) => {{
        let rows = $sizes.map(|size| named::<widget::$module::ActiveModel>("nut", size));
        widget::$module::Entity::insert_many(rows)
            .exec_without_returning(&$t.db)
            .await
            .unwrap();
        $t.take_events().await;
    }};
}

on_every_backend! {
    // catalogue G15
    async fn each_row_that_is_met_makes_an_event_also_if_it_stays_the_same(t: Shop) {
        sized!(t, both, [1, 2, 3]);
        let update = Entity::update_many().col_expr(Column::Size, Expr::val(2)).filter(Column::Size.gte(2));
        assert_eq!(update.exec(&t.db).await.unwrap().rows_affected, 2);
        let events = t.take_events().await;
        assert_eq!(told(&events), [
            ("update", json!(2), json!(["size"]), image(2, "nut", 2), image(2, "nut", 2)),
            ("update", json!(3), json!(["size"]), image(3, "nut", 3), image(3, "nut", 2)),
        ]);
        let none = Entity::update_many().col_expr(Column::Size, Expr::val(2)).filter(Column::Size.eq(77));
        assert_eq!(none.exec(&t.db).await.unwrap().rows_affected, 0);
        assert_eq!(t.take_events().await, []);
    }

    async fn expressions_joins_and_subqueries_are_told_by_what_they_did(t: Shop) {
        sized!(t, both, [1, 2, 3]);
        plain::ActiveModel { name: Set("2".to_owned()), ..Default::default() }.insert_plain(&t).await;
        let update = Entity::update_many()
            .col_expr(Column::Size, Expr::col(Column::Size).mul(10))
            .set(widget::both::ActiveModel { note: Set(Some("x".to_owned())), ..Default::default() })
            .filter(Column::Id.in_subquery(Query::select().expr(Expr::col(plain::Column::Id).add(1)).from(plain::Entity).take()));
        update.exec(&t.db).await.unwrap();
        let event = t.event().await;
        assert_eq!(event.payload["changed"], json!(["size", "note"]));
        assert_eq!((&event.payload["before"]["size"], &event.payload["after"]["size"]), (&json!(2), &json!(20)));
        assert_eq!(event.payload["after"]["note"], json!("x"));
    }

    // catalogue G16
    async fn each_mode_runs_no_more_than_it_needs(t: Shop) {
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        sized!(t, after, [1, 2]);
        widget::after::Entity::update_many().col_expr(Column::Size, Expr::val(5)).exec(&db).await.unwrap();
        let sql = statements.take();
        let returns = t.backend != Backend::MariaDb;
        if returns {
            assert_eq!(sql.len(), 2, "{sql:#?}");
            assert!(sql[0].starts_with("UPDATE") && sql[0].contains("RETURNING"), "{}", sql[0]);
            assert!(sql[1].starts_with("INSERT INTO \"hare_outbox\""), "{}", sql[1]);
        } else {
            assert_eq!(sql.len(), 4, "{sql:#?}");
        }
        let events = t.take_events().await;
        assert_eq!(operations(&events), ["update"; 2]);
        assert!(events.iter().all(|event| event.payload["before"] == json!(null) && event.payload["after"]["size"] == 5));

        widget::keys::Entity::update_many().col_expr(Column::Size, Expr::val(5)).exec(&db).await.unwrap();
        let sql = statements.take();
        assert!(sql.iter().all(|sql| !sql.contains("\"note\"") && !sql.contains("`note`")), "{sql:#?}");
        assert_eq!(sql.len(), if returns { 2 } else { 3 }, "{sql:#?}");
        assert_eq!(keys(&t.take_events().await), [json!(1), json!(2)]);

        Entity::update_many().col_expr(Column::Size, Expr::val(6)).exec(&db).await.unwrap();
        let sql = statements.take();
        // Read and locked, written with its rows, told.
        assert_eq!(sql.len(), if returns { 3 } else { 4 }, "{sql:#?}");
        let events = t.take_events().await;
        assert!(events.iter().all(|event| event.payload["before"]["size"] == 5 && event.payload["after"]["size"] == 6));
    }

    async fn the_rows_are_answered_where_the_database_gives_them(t: Shop) {
        sized!(t, both, [1, 2]);
        for filter in [1, 77] {
            let update = Entity::update_many().col_expr(Column::Name, Expr::val("bolt")).filter(Column::Size.eq(filter));
            let rows = update.exec_with_returning(&t.db).await;
            if t.backend == Backend::MariaDb {
                assert!(matches!(rows, Err(DbErr::BackendNotSupported { .. })), "{rows:?}");
            } else {
                let rows = rows.unwrap();
                assert_eq!(rows.len(), usize::from(filter == 1));
                assert!(rows.iter().all(|row| row.name == "bolt"));
            }
        }
        assert_eq!(t.take_events().await.len(), usize::from(t.backend != Backend::MariaDb));
    }

    async fn an_update_of_one_answers_and_fails_as_seaorms(t: Shop) {
        sized!(t, both, [1]);
        let change = |id: i32| widget::both::ActiveModel { id: sea_orm::Unchanged(id), size: Set(9), ..Default::default() };
        let row = Entity::update(change(1)).exec(&t.db).await.unwrap();
        assert_eq!((row.id, row.size), (1, 9));
        let result = Entity::update(change(1)).exec_without_returning(&t.db).await.unwrap();
        assert_eq!(result.rows_affected, 1);
        assert_eq!(operations(&t.take_events().await), ["update", "update"]);

        let missing = Entity::update(change(2)).exec(&t.db).await.unwrap_err();
        assert_eq!(missing, DbErr::RecordNotUpdated);
        let missing = Entity::update(change(2)).exec_without_returning(&t.db).await.unwrap_err();
        assert_eq!(missing, DbErr::RecordNotUpdated);
        let no_key = widget::both::ActiveModel { size: Set(9), ..Default::default() };
        let ours = Entity::update(no_key.clone()).exec(&t.db).await.unwrap_err();
        let theirs = sea_orm::Update::one(no_key).exec(&t.db).await.unwrap_err();
        assert_eq!(ours, theirs);

        // Filtered, it may miss.
        let filtered = Entity::update(change(1)).validate().unwrap().filter(Column::Size.eq(77));
        assert_eq!(filtered.exec(&t.db).await.unwrap_err(), DbErr::RecordNotUpdated);
        // With nothing to set nothing is written, and the row is answered.
        let same = widget::both::ActiveModel { id: sea_orm::Unchanged(1), ..Default::default() };
        assert_eq!(Entity::update(same).exec(&t.db).await.unwrap().size, 9);
        assert_eq!(t.take_events().await, []);
    }

    async fn nothing_set_is_answered_as_seaorm_does(t: Shop) {
        sized!(t, both, [1]);
        let ours = Entity::update_many().exec(&t.db).await;
        let theirs = sea_orm::Update::many(Entity).exec(&t.db).await;
        assert_eq!(ours.map(|result| result.rows_affected), theirs.map(|result| result.rows_affected));
        assert_eq!(t.take_events().await, []);
    }

    // catalogue G20
    async fn a_part_of_a_key_moves_the_row(t: Shop) {
        line::Entity::insert_many([new_line(1, 1, "nut"), new_line(1, 2, "bolt")]).exec_without_returning(&t.db).await.unwrap();
        t.take_events().await;
        let update = line::Entity::update_many()
            .col_expr(line::Column::Number, Expr::val(5))
            .filter(line::Column::Number.eq(1));
        assert_eq!(update.exec(&t.db).await.unwrap().rows_affected, 1);
        let event = t.event().await;
        assert_eq!(event.payload["pk"], json!({"order_id": 1, "number": 5}));
        assert_eq!(event.payload["changed"], json!(["number"]));
        assert_eq!((&event.payload["before"]["number"], &event.payload["after"]["number"]), (&json!(1), &json!(5)));
        assert_eq!(event.ordering_key.as_deref(), Some("shop.Line:1:5"));
    }

    async fn a_single_key_moves_too(t: Shop) {
        sized!(t, both, [1, 2]);
        let update = Entity::update_many().col_expr(Column::Id, Expr::val(70)).filter(Column::Id.eq(2));
        update.exec(&t.db).await.unwrap();
        let event = t.event().await;
        assert_eq!(told(std::slice::from_ref(&event)), [("update", json!(70), json!(["id"]), image(2, "nut", 2), image(70, "nut", 2))]);
    }

    // catalogue G21
    async fn a_key_from_an_expression_needs_a_database_that_gives_rows(t: Shop) {
        sized!(t, both, [1, 2]);
        let moved = |id: i32| Expr::col(Column::Id).add(id);
        let error = Entity::update_many().col_expr(Column::Id, moved(100)).exec(&t.db).await.unwrap_err();
        assert!(matches!(hare_seaorm::Error::find(&error), Some(hare_seaorm::Error::Unsupported { .. })), "{error:?}");
        assert_eq!(t.take_events().await, []);
        let rows = Entity::find().filter(Column::Id.gt(100)).all(&t.db).await.unwrap();
        assert_eq!(rows, []);

        let after = widget::after::Entity::update_many().col_expr(Column::Id, moved(100)).exec(&t.db).await;
        if t.backend == Backend::MariaDb {
            after.unwrap_err();
            assert_eq!(t.take_events().await, []);
        } else {
            after.unwrap();
            assert_eq!(keys(&t.take_events().await), [json!(101), json!(102)]);
        }
    }

    async fn a_failing_update_leaves_neither_rows_nor_events(t: Shop) {
        sized!(t, both, [1, 2]);
        let txn = t.db.begin().await.unwrap();
        Entity::update_many().col_expr(Column::Size, Expr::val(3)).exec(&txn).await.unwrap();
        let twice = Entity::update_many().col_expr(Column::Id, Expr::val(9)).exec(&txn).await;
        twice.unwrap_err();
        Entity::update_many().col_expr(Column::Size, Expr::val(4)).exec(&txn).await.unwrap();
        txn.commit().await.unwrap();
        let sizes: Vec<_> = t.take_events().await.iter().map(|event| event.payload["after"]["size"].clone()).collect();
        assert_eq!(sizes, [json!(3), json!(3), json!(4), json!(4)]);
    }

    async fn an_update_from_another_table_is_refused_where_rows_are_read_first(t: Shop) {
        sized!(t, both, [1]);
        plain::ActiveModel { name: Set("nut".to_owned()), ..Default::default() }.insert_plain(&t).await;
        if t.backend == Backend::MariaDb {
            return;
        }
        let mut update = Entity::update_many().col_expr(Column::Size, Expr::val(5));
        QueryTrait::query(&mut update).from(plain::Entity);
        let update = update.filter(Expr::col((plain::Entity, plain::Column::Name)).equals((Entity, Column::Name)));
        let error = update.exec(&t.db).await.unwrap_err();
        assert!(matches!(hare_seaorm::Error::find(&error), Some(hare_seaorm::Error::Unsupported { .. })), "{error:?}");
        assert_eq!(Entity::find().one(&t.db).await.unwrap().unwrap().size, 1);

        let mut update = widget::after::Entity::update_many().col_expr(Column::Size, Expr::val(5));
        QueryTrait::query(&mut update).from(plain::Entity);
        let update = update.filter(Expr::col((plain::Entity, plain::Column::Name)).equals((Entity, Column::Name)));
        update.exec(&t.db).await.unwrap();
        assert_eq!(t.event().await.payload["after"]["size"], json!(5));
    }

    // catalogue G24
    async fn a_soft_delete_is_an_update_of_its_column(t: Shop) {
        sized!(t, both, [1]);
        Entity::update_many().col_expr(Column::Note, Expr::val("deleted")).exec(&t.db).await.unwrap();
        let event = t.event().await;
        assert_eq!((event.operation(), &event.payload["changed"]), ("update", &json!(["note"])));
    }
}

on_backends! {
    [mariadb]
    // catalogue G19
    async fn order_and_limit_write_and_tell_the_same_rows(t: Shop) {
        sized!(t, both, [5, 3, 9, 1]);
        let mut update = Entity::update_many().col_expr(Column::Note, Expr::val("low")).filter(Column::Size.lt(9));
        QueryTrait::query(&mut update).order_by(Column::Size, Order::Asc).limit(2);
        assert_eq!(update.exec(&t.db).await.unwrap().rows_affected, 2);
        let mut told = keys(&t.take_events().await);
        told.sort_by_key(serde_json::Value::to_string);
        assert_eq!(told, [json!(2), json!(4)]);
        let low = Entity::find().filter(Column::Note.eq("low")).all(&t.db).await.unwrap();
        assert_eq!(low.iter().map(|row| row.size).collect::<Vec<_>>(), [3, 1]);
    }
}

/// An insert on an entity that nobody captures.
trait InsertPlain {
    async fn insert_plain(self, t: &hare_seaorm_tests::TestDb);
}

impl InsertPlain for plain::ActiveModel {
    async fn insert_plain(self, t: &hare_seaorm_tests::TestDb) {
        sea_orm::ActiveModelTrait::insert(self, &t.db).await.unwrap();
    }
}
