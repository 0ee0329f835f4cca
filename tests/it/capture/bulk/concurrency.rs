//! Two sessions on the same rows.

use hare_seaorm_tests::database::until_someone_waits_for_a_lock;
use hare_seaorm_tests::shop::widget;
use hare_seaorm_tests::{Shop, on_backends};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, TransactionTrait};
use serde_json::json;

use super::{keys, new_part, new_widget, operations, part};

use widget::both::Entity;
type Column = widget::both::Column;

on_backends! {
    // One writer at a time on SQLite: there is no gap.
    [postgres, mariadb]
    // catalogue G18
    // catalogue Q9
    async fn a_row_that_starts_to_match_in_between_is_neither_written_nor_told(t: Shop) {
        Entity::insert_many([new_widget("in", 1), new_widget("out", 2)]).exec_without_returning(&t.db).await.unwrap();
        t.take_events().await;
        // Another session holds the second row, and makes it match before it lets go.
        let other = t.db.begin().await.unwrap();
        let matching = sea_orm::Update::many(Entity).col_expr(Column::Name, Expr::val("in")).filter(Column::Size.eq(2));
        matching.exec(&other).await.unwrap();
        let sized = new_widget("in", 3);
        sea_orm::Insert::one(sized).exec(&other).await.unwrap();

        let update = Entity::update_many().col_expr(Column::Note, Expr::val("met")).filter(Column::Name.eq("in"));
        let (updated, ()) = tokio::join!(
            async { update.exec(&t.db).await.unwrap().rows_affected },
            async {
                if t.backend == hare_seaorm_tests::Backend::MariaDb {
                    // There the read waits for the row that is held.
                    until_someone_waits_for_a_lock(&t).await;
                }
                other.commit().await.unwrap();
            },
        );
        let events = t.take_events().await;
        let met = Entity::find().filter(Column::Note.eq("met")).all(&t.db).await.unwrap();
        assert_eq!(updated, u64::try_from(met.len()).unwrap());
        let mut told = keys(&events);
        told.sort_by_key(serde_json::Value::to_string);
        assert_eq!(told, met.iter().map(|row| json!(row.id)).collect::<Vec<_>>());
        assert!(events.iter().all(|event| event.payload["before"]["note"].is_null() && event.payload["after"]["note"] == "met"));
    }

    async fn a_row_that_is_gone_when_its_turn_comes_is_left_out(t: Shop) {
        Entity::insert_many([new_widget("a", 1), new_widget("b", 2)]).exec_without_returning(&t.db).await.unwrap();
        t.take_events().await;
        let other = t.db.begin().await.unwrap();
        sea_orm::Delete::many(Entity).filter(Column::Id.eq(1)).exec(&other).await.unwrap();
        let update = Entity::update_many().col_expr(Column::Size, Expr::val(9));
        let (updated, ()) = tokio::join!(
            async { update.exec(&t.db).await.unwrap().rows_affected },
            async {
                until_someone_waits_for_a_lock(&t).await;
                other.commit().await.unwrap();
            },
        );
        assert_eq!(updated, 1);
        let events = t.take_events().await;
        assert_eq!(keys(&events), [json!(2)]);
    }

    // Each waits for the other's rows in the order of keys, so none is the victim of a deadlock.
    async fn two_updates_of_the_same_rows_follow_each_other(t: Shop) {
        Entity::insert_many((1..=20).map(|size| new_widget("nut", size))).exec_without_returning(&t.db).await.unwrap();
        t.take_events().await;
        let update = |size: i32| {
            let db = t.db.clone();
            async move {
                let update = Entity::update_many().col_expr(Column::Size, Expr::val(size));
                update.exec(&db).await.unwrap().rows_affected
            }
        };
        for round in 0..10 {
            let counts = tokio::join!(update(2 * round), update(2 * round + 1));
            assert_eq!(counts, (20, 20));
            // Per row the second event begins where the first ended.
            let events = t.take_events().await;
            for id in 1..=20 {
                let of_row: Vec<_> = events.iter().filter(|event| event.payload["pk"] == id).collect();
                assert_eq!(of_row.len(), 2);
                assert_eq!(of_row[0].payload["after"], of_row[1].payload["before"]);
            }
        }
    }

    async fn an_upsert_against_an_insert_of_the_same_key_is_told_as_what_it_became(t: Shop) {
        t.create_table(part::Entity).await;
        let conflict = sea_orm::sea_query::OnConflict::column(part::Column::Code).update_column(part::Column::Stock).to_owned();
        let other = hare_seaorm::begin(&t.db).await.unwrap();
        part::Entity::insert(new_part("a", 1)).exec(&other).await.unwrap();
        let upsert = part::Entity::insert(new_part("a", 2)).on_conflict(conflict);
        let ((), ()) = tokio::join!(
            async { upsert.exec_without_returning(&t.db).await.map(drop).unwrap() },
            async {
                until_someone_waits_for_a_lock(&t).await;
                other.commit().await.unwrap();
            },
        );
        let events = t.take_events().await;
        assert_eq!(operations(&events), ["insert", "update"]);
        assert_eq!((&events[1].payload["before"]["stock"], &events[1].payload["after"]["stock"]), (&json!(1), &json!(2)));
    }
}
