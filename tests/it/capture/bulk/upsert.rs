use hare_seaorm_tests::shop::line;
use hare_seaorm_tests::{Backend, Shop, TestDb, on_every_backend};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{EntityTrait, Set, TransactionTrait, TryInsertResult};
use serde_json::{Value as Json, json};

use super::{keys, new_line, new_part, operations, part, told};

async fn stocked(t: &TestDb) {
    t.create_table(part::Entity).await;
    part::Entity::insert_many([new_part("a", 1), new_part("b", 2)])
        .exec_without_returning(&t.db)
        .await
        .unwrap();
    t.take_events().await;
}

fn image(id: i32, code: &str, stock: i32) -> Json {
    json!({"id": id, "code": code, "stock": stock})
}

/// Where the row is there already, its stock is replaced.
fn replaced() -> OnConflict {
    OnConflict::column(part::Column::Code)
        .update_column(part::Column::Stock)
        .to_owned()
}

async fn id_of(t: &TestDb, code: &str) -> i32 {
    use sea_orm::{ColumnTrait, QueryFilter};
    let found = part::Entity::find()
        .filter(part::Column::Code.eq(code))
        .one(&t.db)
        .await;
    found.unwrap().expect("it was inserted").id
}

on_every_backend! {
    // catalogue G14
    async fn an_upsert_tells_inserted_from_updated_rows(t: Shop) {
        stocked(&t).await;
        let models = [new_part("b", 20), new_part("new", 30), new_part("a", 10), new_part("newer", 40)];
        part::Entity::insert_many(models).on_conflict(replaced()).exec_without_returning(&t.db).await.unwrap();
        let (new, newer) = (id_of(&t, "new").await, id_of(&t, "newer").await);
        let null = json!(null);
        let insert = |id, code, stock| ("insert", json!(id), null.clone(), null.clone(), image(id, code, stock));
        let update = |id, code, was, is| ("update", json!(id), json!(["stock"]), image(id, code, was), image(id, code, is));
        let events = t.take_events().await;
        assert_eq!(told(&events), [insert(new, "new", 30), insert(newer, "newer", 40), update(2, "b", 2, 20), update(1, "a", 1, 10)]);
    }

    async fn one_row_upserted_answers_as_seaorm_does(t: Shop) {
        stocked(&t).await;
        let row = part::Entity::insert(new_part("a", 10)).on_conflict(replaced()).exec_with_returning(&t.db).await;
        let event = t.event().await;
        assert_eq!(told(std::slice::from_ref(&event)), [("update", json!(1), json!(["stock"]), image(1, "a", 1), image(1, "a", 10))]);
        if t.backend != Backend::MariaDb {
            assert_eq!(row.unwrap(), part::Model { id: 1, code: "a".to_owned(), stock: 10 });
        }
        part::Entity::insert(new_part("c", 3)).on_conflict(replaced()).exec(&t.db).await.unwrap();
        assert_eq!(operations(&t.take_events().await), ["insert"]);
        let count = part::Entity::insert(new_part("d", 3)).on_conflict(replaced()).exec_without_returning(&t.db).await.unwrap();
        assert_eq!(count, 1);
        assert_eq!(operations(&t.take_events().await), ["insert"]);
    }

    async fn what_a_conflict_sets_may_be_an_expression(t: Shop) {
        stocked(&t).await;
        let added = OnConflict::column(part::Column::Code)
            .value(part::Column::Stock, Expr::col((part::Entity, part::Column::Stock)).add(100))
            .to_owned();
        part::Entity::insert_many([new_part("a", 10), new_part("c", 3)]).on_conflict(added).exec_without_returning(&t.db).await.unwrap();
        let c = id_of(&t, "c").await;
        let events = t.take_events().await;
        assert_eq!(told(&events), [
            ("insert", json!(c), json!(null), json!(null), image(c, "c", 3)),
            ("update", json!(1), json!(["stock"]), image(1, "a", 1), image(1, "a", 101)),
        ]);
    }

    // catalogue G14
    async fn skipped_rows_make_no_event(t: Shop) {
        stocked(&t).await;
        let models = [new_part("a", 10), new_part("new", 30), new_part("b", 20)];
        let nothing = OnConflict::column(part::Column::Code).do_nothing_on([part::Column::Id]).to_owned();
        part::Entity::insert_many(models).on_conflict(nothing).exec_without_returning(&t.db).await.unwrap();
        let new = id_of(&t, "new").await;
        let events = t.take_events().await;
        assert_eq!(told(&events), [("insert", json!(new), json!(null), json!(null), image(new, "new", 30))]);
        assert_eq!(t.rows("SELECT id FROM part WHERE stock IN (10, 20)").await.len(), 0);

        let models = || [new_part("a", 10), new_part("b", 20)];
        let none = part::Entity::insert_many(models()).on_conflict_do_nothing_on([part::Column::Code]);
        let answer = none.exec_without_returning(&t.db).await.unwrap();
        assert_eq!(t.take_events().await, []);
        let theirs = sea_orm::Insert::many(models()).on_conflict_do_nothing_on([part::Column::Code]);
        let theirs = theirs.exec_without_returning(&t.db).await.unwrap();
        assert_eq!(format!("{answer:?}"), format!("{theirs:?}"));
    }

    async fn an_insert_that_may_be_skipped_answers_as_seaorm_does(t: Shop) {
        t.create_table(part::Entity).await;
        let of_key = |id: i32, stock: i32| part::ActiveModel { id: Set(id), ..new_part(&format!("p{id}"), stock) };
        let new = part::Entity::insert(of_key(5, 1)).on_conflict_do_nothing().exec(&t.db).await.unwrap();
        assert!(matches!(new, TryInsertResult::Inserted(ref inserted) if inserted.last_insert_id == 5), "{new:?}");
        let old = part::Entity::insert(of_key(5, 2)).on_conflict_do_nothing().exec(&t.db).await;
        let theirs = sea_orm::Insert::one(of_key(5, 2)).on_conflict_do_nothing().exec(&t.db).await;
        assert_eq!(format!("{old:?}"), format!("{theirs:?}"));
        let old = part::Entity::insert(of_key(5, 2)).on_conflict_do_nothing().exec_with_returning(&t.db).await;
        let theirs = sea_orm::Insert::one(of_key(5, 2)).on_conflict_do_nothing().exec_with_returning(&t.db).await;
        assert_eq!(format!("{old:?}"), format!("{theirs:?}"));
        assert_eq!(keys(&t.take_events().await), [json!(5)]);
        assert_eq!(t.count("part").await, 1);
    }

    // catalogue G14
    async fn one_key_twice_is_inserted_and_then_updated(t: Shop) {
        stocked(&t).await;
        let twice = || part::Entity::insert_many([new_part("c", 10), new_part("c", 20)]).on_conflict(replaced());
        let outcome = twice().exec_without_returning(&t.db).await;
        let events = t.take_events().await;
        if t.backend == Backend::Postgres {
            // It refuses to touch a row twice.
            outcome.unwrap_err();
            assert_eq!(events, []);
            return;
        }
        outcome.unwrap();
        assert_eq!(operations(&events), ["insert", "update"]);
        assert_eq!(events[1].payload["after"]["stock"], json!(20));
        // Between the two it was never seen: its value is the last one, or the first.
        assert!([json!(10), json!(20)].contains(&events[0].payload["after"]["stock"]), "{}", events[0].text);
    }

    async fn a_composite_key_decides_too(t: Shop) {
        let numbered = |number: i32, product: &str| new_line(1, number, product);
        line::Entity::insert_many([numbered(1, "nut"), numbered(2, "bolt")]).exec_without_returning(&t.db).await.unwrap();
        t.take_events().await;
        let replaced = OnConflict::columns([line::Column::OrderId, line::Column::Number]).update_column(line::Column::Product).to_owned();
        line::Entity::insert_many([numbered(2, "nail"), numbered(3, "screw")]).on_conflict(replaced).exec_without_returning(&t.db).await.unwrap();
        let events = t.take_events().await;
        let told: Vec<_> = events.iter().map(|event| (event.operation(), event.payload["pk"]["number"].clone(), event.payload["before"]["product"].clone(), event.payload["after"]["product"].clone())).collect();
        assert_eq!(told, [("insert", json!(3), json!(null), json!("screw")), ("update", json!(2), json!("bolt"), json!("nail"))]);
    }

    async fn a_failing_upsert_leaves_neither_rows_nor_events(t: Shop) {
        stocked(&t).await;
        let txn = t.db.begin().await.unwrap();
        let models = [new_part("a", 7), part::ActiveModel { id: Set(2), ..new_part("other", 1) }];
        // The second collides with another key than the one that is looked at.
        let outcome = part::Entity::insert_many(models).on_conflict(replaced()).exec_without_returning(&txn).await;
        if t.backend == Backend::MariaDb {
            // There any key counts.
            outcome.unwrap();
            txn.rollback().await.unwrap();
        } else {
            outcome.unwrap_err();
            part::Entity::insert(new_part("kept", 1)).exec(&txn).await.unwrap();
            txn.commit().await.unwrap();
            assert_eq!(operations(&t.take_events().await), ["insert"]);
            assert_eq!(t.count("part").await, 3);
        }
        assert_eq!(t.rows("SELECT id FROM part WHERE stock = 7").await.len(), 0);
    }
}
