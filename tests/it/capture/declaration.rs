//! What a declaration says, seen in the events.

use hare_seaorm::Error;
use hare_seaorm_tests::shop::{customer, line, order, plain, widget};
use hare_seaorm_tests::statements::Statements;
use hare_seaorm_tests::{Backend, Shop, on_every_backend};
use sea_orm::prelude::Decimal;
use sea_orm::{ActiveModelTrait, DbErr, EntityTrait, IntoActiveModel, Set, TransactionTrait, Unchanged};
use serde_json::json;
use sha2::{Digest, Sha256};

macro_rules! new_widget {
    ($module:ident) => {
        widget::$module::ActiveModel {
            name: Set("nut".to_owned()),
            ..Default::default()
        }
    };
}

on_every_backend! {
    // catalogue F1
    async fn the_default_is_every_operation_with_the_row_after(t: Shop) {
        let row = new_widget!(after).insert(&t.db).await.unwrap();
        let mut changed = row.clone().into_active_model();
        changed.size = Set(8);
        let row = changed.update(&t.db).await.unwrap();
        row.clone().delete(&t.db).await.unwrap();

        let events = t.take_events().await;
        let topics: Vec<_> = events.iter().map(|event| event.topic.as_str()).collect();
        assert_eq!(topics, ["shop.widget.inserted", "shop.widget.updated", "shop.widget.deleted"]);
        for event in &events {
            assert_eq!(event.ordering_key.as_deref(), Some(format!("shop.Widget:{}", row.id).as_str()));
        }
        let whole = json!({"id": row.id, "name": "nut", "size": 8, "note": null});
        assert_eq!(events[1].payload["after"], whole);
        assert_eq!(events[1].payload["before"], json!(null));
        assert_eq!(events[2].payload["before"], whole);
    }

    // catalogue F2
    async fn operations_that_are_not_captured_keep_their_sql(t: Shop) {
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);

        let plain_row = plain::ActiveModel { name: Set("nut".to_owned()), ..Default::default() }.insert(&db).await.unwrap();
        let mut change = plain_row.into_active_model();
        change.size = Set(8);
        change.update(&db).await.unwrap();
        let by_seaorm = statements.take();

        let row = new_widget!(deletes).insert(&db).await.unwrap();
        let mut change = row.clone().into_active_model();
        change.size = Set(8);
        let row = change.update(&db).await.unwrap();
        let by_us: Vec<_> = statements.take().iter().map(|sql| sql.replace("widget", "plain")).collect();
        assert_eq!(by_us, by_seaorm);
        assert_eq!(t.take_events().await, []);

        row.delete(&db).await.unwrap();
        assert_eq!(t.event().await.topic, "shop.widget.deleted");

        let row = new_widget!(none).insert(&db).await.unwrap();
        row.delete(&db).await.unwrap();
        assert_eq!(t.take_events().await, []);
    }

    // catalogue F3
    async fn fields_are_held_in_their_order_and_once(t: Shop) {
        let row = new_widget!(fields).insert(&t.db).await.unwrap();
        let event = t.event().await;
        assert!(event.text.contains(&format!(r#""after":{{"note":null,"id":{}}}"#, row.id)), "{}", event.text);
    }

    // catalogue F4
    async fn sensitive_columns_are_held_only_when_named(t: Shop) {
        let new = customer::ActiveModel {
            name: Set("Ada".to_owned()),
            email: Set(None),
            password: Set("secret".to_owned()),
            credit: Set(Decimal::new(125_000, 4)),
            ..Default::default()
        };
        let row = new.insert(&t.db).await.unwrap();
        let mut change = row.into_active_model();
        change.password = Set("another secret".to_owned());
        let row = change.update(&t.db).await.unwrap();
        row.delete(&t.db).await.unwrap();
        for event in t.take_events().await {
            assert!(!event.text.contains("secret"), "{}", event.text);
            let image = if event.operation() == "delete" { "before" } else { "after" };
            let names: Vec<_> = event.payload[image].as_object().unwrap().keys().cloned().collect();
            assert_eq!(names, ["credit", "email", "id", "name"]);
        }
    }

    // catalogue F5
    async fn excluded_columns_are_left_out(t: Shop) {
        let row = new_widget!(exclude).insert(&t.db).await.unwrap();
        assert_eq!(t.event().await.payload["after"], json!({"id": row.id, "name": "nut"}));
    }

    // catalogue F6
    async fn templates_know_their_names(t: Shop) {
        let row = new_widget!(templates).insert(&t.db).await.unwrap();
        let event = t.event().await;
        assert_eq!(event.topic, "shop/widget/widget/inserted");
        assert_eq!(event.ordering_key.unwrap(), format!("shop|widget|widget|shop.Widget|{}", row.id));

        new_widget!(unordered).insert(&t.db).await.unwrap();
        assert_eq!(t.event().await.ordering_key, None);
    }

    // catalogue F9
    async fn a_long_key_from_a_template_is_shortened(t: Shop) {
        t.create_table(text_key::Entity).await;
        let mut keys = Vec::new();
        for end in ["a", "b"] {
            let name = format!("{}{end}", "ö".repeat(299));
            text_key::ActiveModel { name: Set(name) }.insert(&t.db).await.unwrap();
            keys.push(t.event().await.ordering_key.unwrap());
        }
        for key in &keys {
            assert_eq!(key.chars().count(), 255);
            assert!(key.starts_with("shop.TextKey:ööö"), "{key}");
            assert_eq!(key.chars().nth(190), Some('#'));
        }
        assert_ne!(keys[0], keys[1]);
    }

    // catalogue F12
    async fn before_and_after_needs_nothing_of_the_entity(t: Shop) {
        let row = new_widget!(both).insert(&t.db).await.unwrap();
        let mut change = row.into_active_model();
        change.name = Set("bolt".to_owned());
        change.update(&t.db).await.unwrap();
        let event = t.take_events().await.remove(1);
        assert_eq!((&event.payload["before"]["name"], &event.payload["after"]["name"]), (&json!("nut"), &json!("bolt")));
    }

    // catalogue F16
    async fn an_entity_without_the_derive_runs_seaorms_statements(t: Shop) {
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        let row = plain::ActiveModel { name: Set("nut".to_owned()), ..Default::default() }.insert(&db).await.unwrap();
        let inserted = statements.take();
        assert!(inserted[0].starts_with("INSERT INTO"), "{inserted:?}");
        assert_eq!(inserted.len(), if t.backend == Backend::MariaDb { 2 } else { 1 });
        plain::Entity::delete_by_id(row.id).exec(&db).await.unwrap();
        assert_eq!(statements.take().len(), 1);
        assert_eq!(t.events().await, []);
    }

    async fn every_format_is_captured_under_its_own_name(t: Shop) {
        let customer = customer::ActiveModel {
            name: Set("Ada".to_owned()),
            email: Set(None),
            password: Set("secret".to_owned()),
            ..Default::default()
        };
        let customer = customer.insert(&t.db).await.unwrap();
        let order = order::ActiveModel {
            customer_id: Set(customer.id),
            status: Set(order::Status::Open),
            total: Set(Decimal::ONE),
            ..Default::default()
        };
        let order = order.insert(&t.db).await.unwrap();
        let line = line::ActiveModel {
            order_id: Set(order.id),
            number: Set(1),
            product: Set("nut".to_owned()),
            quantity: Set(3),
        };
        line.insert(&t.db).await.unwrap();
        let topics: Vec<_> = t.take_events().await.into_iter().map(|event| event.topic).collect();
        assert_eq!(topics, ["shop.customer.inserted", "shop.order.inserted", "shop.line.inserted"]);
    }

    // catalogue F7, F9
    async fn a_topic_that_does_not_fit_is_shortened_and_one_that_fits_is_not(t: Shop) {
        new_widget!(long_topic).insert(&t.db).await.unwrap();
        assert_eq!(t.event().await.topic, "widget.very.long.topic.for.a.write.that.fails.inserted");

        t.create_table(long_table::Entity).await;
        let row = long_table::ActiveModel { size: Set(1), ..Default::default() }.insert(&t.db).await.unwrap();
        row.delete(&t.db).await.unwrap();
        let topics: Vec<_> = t.take_events().await.into_iter().map(|event| event.topic).collect();
        let whole = |operation| [[long_table::TABLE; 5].concat(), operation].join(".");
        let short = |whole: String| {
            assert!(whole.len() > 255);
            let hash: String = Sha256::digest(&whole).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{}#{hash}", &whole[..190])
        };
        assert_eq!(topics, ["inserted".to_owned(), "deleted".to_owned()].map(|operation| short(whole(operation))));
        assert!(topics.iter().all(|topic| topic.len() == 255));
    }

    // catalogue B9
    async fn a_value_without_a_json_form_is_an_error_that_names_its_column(t: Shop) {
        t.create_table(document::Entity).await;
        if t.backend == Backend::MariaDb {
            // Its own check of a JSON column nests 32 deep at most.
            t.execute("ALTER TABLE document MODIFY body longtext NOT NULL").await;
        }
        // As deep as a driver still reads it, and deeper than receivers parse it inside an envelope.
        let nested = |depth| (0..depth).fold(json!("a secret"), |inner, _| json!([inner]));
        let new = |depth| document::ActiveModel { body: Set(nested(depth)), ..Default::default() };
        let refuses = |error: DbErr| {
            let ours = Error::find(&error).expect("an error of ours");
            assert!(matches!(ours, Error::Validation { what, .. } if what == "the column `body`"), "{ours:?}");
            assert!(ours.to_string().contains("deeper than"), "{ours}");
            for text in [error.to_string(), format!("{error:?}")] {
                assert!(!text.contains("secret") && !text.contains("[["), "{text}");
            }
        };
        refuses(new(126).insert(&t.db).await.unwrap_err());
        let row = new(125).insert(&t.db).await.unwrap();
        let change = || document::ActiveModel { id: Unchanged(row.id), body: Set(nested(126)) };
        refuses(change().update(&t.db).await.unwrap_err());
        refuses(change().update_without_returning(&t.db).await.unwrap_err());
        let txn = t.db.begin().await.unwrap();
        refuses(new(126).insert(&txn).await.unwrap_err());
        refuses(change().update(&txn).await.unwrap_err());
        txn.commit().await.unwrap();
        assert_eq!(document::Entity::find().all(&t.db).await.unwrap(), [row]);
        assert_eq!(t.event().await.operation(), "insert");
    }
}

mod document {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "document")]
    #[hare(capture(app = "shop"))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        pub body: Json,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod long_table {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    pub const TABLE: &str = "a_table_with_a_name_that_five_times_over_makes_no_topic";

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "a_table_with_a_name_that_five_times_over_makes_no_topic")]
    #[hare(capture(app = "shop", topic = "{table}{table}{table}{table}{table}.{operation}"))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        pub size: i32,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

mod text_key {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "text_key")]
    #[hare(capture(app = "shop"))]
    pub struct Model {
        #[sea_orm(
            primary_key,
            auto_increment = false,
            column_type = "String(StringLen::N(400))"
        )]
        pub name: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

/// In the expanded format, where only the entity itself knows its key.
mod expanded {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Copy, Clone, Default, Debug, DeriveEntity)]
    pub struct Entity;

    impl EntityName for Entity {
        fn table_name(&self) -> &'static str {
            "account"
        }
    }

    #[derive(Clone, Debug, PartialEq, Eq, DeriveModel, DeriveActiveModel, ChangeCapture)]
    #[hare(capture(app = "shop", unordered))]
    pub struct Model {
        #[hare(sensitive)]
        pub iban: String,
        pub owner: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveColumn)]
    pub enum Column {
        Iban,
        Owner,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DerivePrimaryKey)]
    pub enum PrimaryKey {
        Iban,
    }

    impl PrimaryKeyTrait for PrimaryKey {
        type ValueType = String;

        fn auto_increment() -> bool {
            false
        }
    }

    impl ColumnTrait for Column {
        type EntityName = Entity;

        fn def(&self) -> ColumnDef {
            ColumnType::String(StringLen::N(40)).def()
        }
    }

    #[derive(Copy, Clone, Debug, EnumIter)]
    pub enum Relation {}

    impl RelationTrait for Relation {
        fn def(&self) -> RelationDef {
            unreachable!("there is none")
        }
    }
}

on_every_backend! {
    // catalogue F4
    async fn a_sensitive_primary_key_that_the_derive_cannot_see_is_refused(t: Shop) {
        t.create_table(expanded::Entity).await;
        let new = || expanded::ActiveModel { iban: Set("DE00".to_owned()), owner: Set("Ada".to_owned()) };
        let change = || expanded::ActiveModel { iban: Unchanged("DE00".to_owned()), owner: Set("Bob".to_owned()) };
        for error in [
            new().insert(&t.db).await.unwrap_err(),
            change().update(&t.db).await.unwrap_err(),
            change().delete(&t.db).await.unwrap_err(),
            sea_orm::ActiveModelTrait::update(change(), &t.db).await.unwrap_err(),
        ] {
            let ours = Error::find(&error).expect("an error of ours");
            assert!(matches!(ours, Error::Config(_)) && ours.to_string().contains("`iban` of the table `account`"), "{ours}");
        }
        assert_eq!((t.count("account").await, t.count("hare_outbox").await), (0, 0));
    }
}
