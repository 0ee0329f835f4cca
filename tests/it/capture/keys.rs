//! One row has one key in all its events, however a caller writes it: the one that is stored.

use hare_seaorm_tests::{TestDb, on_backends};
use sea_orm::prelude::Decimal;
use sea_orm::{Set, Unchanged};
use serde_json::{Value as Json, json};

/// One table, an entity per payload.
macro_rules! keyed {
    ($module:ident, $table:literal, $key:ty, $column_type:literal) => {
        mod $module {
            keyed!(@ keys, "keys", $table, $key, $column_type);
            keyed!(@ after, "after", $table, $key, $column_type);
            keyed!(@ both, "before_and_after", $table, $key, $column_type);
        }
    };
    (@ $module:ident, $payload:literal, $table:literal, $key:ty, $column_type:literal) => {
        pub mod $module {
            use hare_seaorm::ChangeCapture;
            use sea_orm::entity::prelude::*;

            #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
            #[sea_orm(table_name = $table)]
            #[hare(capture(app = "shop", name = "Keyed", payload = $payload))]
            pub struct Model {
                #[sea_orm(primary_key, auto_increment = false, column_type = $column_type)]
                pub key: $key,
                pub size: i32,
            }

            #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
            pub enum Relation {}
        }
    };
}

keyed!(text, "text_keyed", String, "String(StringLen::N(20))");
keyed!(decimal, "decimal_keyed", Decimal, "Decimal(Some((16, 4)))");

/// An insert, an update of each kind and a delete, each with the key as its caller writes it.
macro_rules! a_life {
    ($t:expr, $($entity:ident)::+, $inserted:expr, $updated:expr, $deleted:expr) => {{
        use $($entity)::+::ActiveModel;

        ActiveModel { key: Set($inserted), size: Set(1) }.insert(&$t.db).await.unwrap();
        let change = |size| ActiveModel { key: Unchanged($updated), size: Set(size) };
        change(2).update(&$t.db).await.unwrap();
        change(3).update_without_returning(&$t.db).await.unwrap();
        let gone = ActiveModel { key: Set($deleted), ..Default::default() };
        assert_eq!(gone.delete(&$t.db).await.unwrap().rows_affected, 1);
        has_one_key(&$t, stringify!($($entity)::+)).await
    }};
}

/// The key in all events so far.
async fn has_one_key(t: &TestDb, entity: &str) -> Json {
    let events = t.take_events().await;
    let operations: Vec<_> = events.iter().map(|event| event.operation()).collect();
    assert_eq!(operations, ["insert", "update", "update", "delete"], "{entity}");
    let keys: Vec<_> = events.iter().map(|event| event.payload["pk"].clone()).collect();
    assert_eq!(keys, vec![keys[0].clone(); 4], "{entity}");
    let ordering_keys: Vec<_> = events
        .iter()
        .map(|event| event.ordering_key.as_deref().unwrap())
        .collect();
    assert_eq!(
        ordering_keys,
        vec![format!("shop.Keyed:{}", keys[0].as_str().unwrap()); 4],
        "{entity}"
    );
    keys[0].clone()
}

on_backends! { [mariadb]
    // catalogue G6
    async fn a_key_that_is_equal_in_another_case_is_told_as_it_is_stored(t: TestDb) {
        t.create_table(text::keys::Entity).await;
        for column in ["varchar(20)", "char(20)"] {
            t.execute(&format!(
                "ALTER TABLE text_keyed MODIFY `key` {column} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL"
            ))
            .await;
            let [abc, lower, upper] = ["Abc", "abc", "ABC"].map(|key| move || key.to_owned());
            assert_eq!(a_life!(t, text::keys, abc(), lower(), upper()), json!("Abc"));
            assert_eq!(a_life!(t, text::after, abc(), lower(), upper()), json!("Abc"));
            assert_eq!(a_life!(t, text::both, abc(), lower(), upper()), json!("Abc"));
        }
    }
}

on_backends! { [postgres, mariadb]
    // catalogue G6
    async fn a_decimal_key_is_told_with_the_scale_it_is_stored_with(t: TestDb) {
        t.create_table(decimal::keys::Entity).await;
        let short = || Decimal::new(15, 1);
        assert_eq!(a_life!(t, decimal::keys, short(), short(), short()), json!("1.5000"));
        assert_eq!(a_life!(t, decimal::after, short(), short(), short()), json!("1.5000"));
        assert_eq!(a_life!(t, decimal::both, short(), short(), short()), json!("1.5000"));
    }
}
