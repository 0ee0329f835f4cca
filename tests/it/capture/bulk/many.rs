//! More rows than are held at once.

use std::collections::BTreeSet;

use hare_seaorm::outbox;
use hare_seaorm_tests::shop::{line, widget};
use hare_seaorm_tests::statements::Statements;
use hare_seaorm_tests::{Backend, Shop, TestDb, on_every_backend};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};

use super::new_line;

const ROWS: i32 = 12_345;

/// Widgets with their sizes from 0 on, by SQL: no events.
async fn filled(t: &TestDb) {
    for start in (0..ROWS).step_by(1_000) {
        let rows: Vec<_> = (start..Ord::min(ROWS, start + 1_000))
            .map(|size| format!("('nut', {size})"))
            .collect();
        t.execute(&format!(
            "INSERT INTO widget (name, size) VALUES {}",
            rows.join(", ")
        ))
        .await;
    }
}

async fn keys_told(t: &TestDb) -> Vec<i64> {
    t.events()
        .await
        .iter()
        .map(|event| event.payload["pk"].as_i64().unwrap())
        .collect()
}

on_every_backend! {
    async fn an_update_goes_by_keys_and_tells_each_row_once(t: Shop) {
        filled(&t).await;
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        for module in ["both", "after", "keys"] {
            macro_rules! update {
                ($module:ident) => {
                    widget::$module::Entity::update_many()
                        .col_expr(widget::$module::Column::Size, Expr::col(widget::$module::Column::Size).add(100_000))
                        .filter(widget::$module::Column::Size.gt(44))
                        .exec(&db).await.unwrap().rows_affected
                };
            }
            let affected = match module { "both" => update!(both), "after" => update!(after), _ => update!(keys) };
            assert_eq!(affected, 12_300);
            let sql = statements.take();
            assert!(sql.len() < 60, "{}", sql.len());
            let told = keys_told(&t).await;
            assert_eq!(told.len(), 12_300);
            assert_eq!(told.iter().collect::<BTreeSet<_>>().len(), 12_300);
            if module == "both" {
                let events = t.events().await;
                assert!(events.iter().all(|event| {
                    let size = |image: &str| event.payload[image]["size"].as_i64().unwrap();
                    size("before") + 100_000 == size("after")
                }));
            }
            outbox::Entity::delete_many().exec(&t.db).await.unwrap();
        }
    }

    async fn a_delete_goes_by_keys_and_tells_each_row_once(t: Shop) {
        filled(&t).await;
        let result = widget::after::Entity::delete_many().filter(widget::after::Column::Size.gt(44)).exec(&t.db).await.unwrap();
        assert_eq!(result.rows_affected, 12_300);
        let told = keys_told(&t).await;
        assert_eq!(told.iter().collect::<BTreeSet<_>>().len(), 12_300);
        assert_eq!(told.len(), 12_300);
        assert_eq!(t.count("widget").await, 45);
    }

    async fn a_composite_key_goes_by_its_parts(t: Shop) {
        for start in (0..ROWS).step_by(1_000) {
            let rows: Vec<_> = (start..Ord::min(ROWS, start + 1_000)).map(|at| format!("({}, {}, 'nut', 1)", at / 100, at % 100)).collect();
            t.execute(&format!("INSERT INTO order_line (order_id, number, product, quantity) VALUES {}", rows.join(", "))).await;
        }
        let update = line::Entity::update_many().col_expr(line::Column::Quantity, Expr::val(2));
        assert_eq!(update.exec(&t.db).await.unwrap().rows_affected, u64::try_from(ROWS).unwrap());
        let events = t.take_events().await;
        let told: BTreeSet<_> = events.iter().map(|event| event.payload["pk"].to_string()).collect();
        assert_eq!((events.len(), told.len()), (12_345, 12_345));
        assert!(events.iter().all(|event| event.payload["before"]["quantity"] == 1 && event.payload["after"]["quantity"] == 2));
    }

    async fn many_more_rows_than_parameters_are_inserted_in_statements_of_seaorms(t: Shop) {
        // As many as one statement may bind.
        let most = match t.backend { Backend::Sqlite => 8_000, _ => 16_000 };
        let rows = (0..most).map(|number| new_line(1, number, "nut"));
        line::Entity::insert_many(rows).exec_without_returning(&t.db).await.unwrap();
        assert_eq!(outbox::Entity::find().count(&t.db).await.unwrap(), u64::try_from(most).unwrap());
        let events = t.take_events().await;
        let numbers: Vec<_> = events.iter().map(|event| event.payload["pk"]["number"].as_i64().unwrap()).collect();
        assert!(numbers.is_sorted());
    }

    // The statement's own failure leaves nothing, however far it came.
    async fn one_row_that_fails_undoes_all(t: Shop) {
        filled(&t).await;
        t.execute(if t.backend == Backend::Sqlite {
            "CREATE TRIGGER small BEFORE UPDATE ON widget WHEN NEW.size >= 112000 BEGIN SELECT RAISE(ABORT, 'small'); END"
        } else {
            "ALTER TABLE widget ADD CONSTRAINT small CHECK (size < 112000)"
        }).await;
        let update = widget::both::Entity::update_many()
            .col_expr(widget::both::Column::Size, Expr::col(widget::both::Column::Size).add(100_000));
        update.exec(&t.db).await.unwrap_err();
        assert_eq!(t.take_events().await, []);
        assert_eq!(t.rows("SELECT id FROM widget WHERE size >= 100000").await.len(), 0);
    }
}
