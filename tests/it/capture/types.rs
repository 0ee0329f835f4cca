//! Values of every type, from the row to the envelope.

use hare_seaorm_tests::{Backend, TestDb, on_backends, on_every_backend};
use sea_orm::Set;
use sea_orm::prelude::*;
use serde_json::json;

/// What every database can store.
mod common {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
    #[sea_orm(rs_type = "i32", db_type = "Integer")]
    pub enum Level {
        #[sea_orm(num_value = 3)]
        High,
    }

    #[derive(Clone, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
    #[sea_orm(rs_type = "String", db_type = "Enum", enum_name = "colour")]
    pub enum Colour {
        #[sea_orm(string_value = "red")]
        Red,
    }

    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
    pub struct Address {
        #[serde(rename = "postCode")]
        pub post_code: String,
        pub lines: Vec<String>,
    }

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "common")]
    #[hare(capture(app = "types"))]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i64,
        pub flag: bool,
        pub small: i16,
        pub text: String,
        pub single: f32,
        pub double: f64,
        #[sea_orm(column_type = "Decimal(Some((16, 4)))")]
        pub price: Decimal,
        #[sea_orm(column_type = "VarBinary(StringLen::N(20))")]
        pub bytes: Vec<u8>,
        pub document: Json,
        #[sea_orm(column_type = "Json")]
        pub address: Address,
        pub level: Level,
        pub colour: Colour,
        pub uuid: Uuid,
        pub date: Date,
        pub time: Time,
        pub naive: DateTime,
        pub aware: DateTimeUtc,
        pub nothing: Option<String>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

/// What only PostgreSQL stores.
mod postgres_only {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "postgres_only")]
    #[hare(capture(app = "types"))]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i32,
        pub doubles: Vec<f64>,
        pub texts: Vec<String>,
        pub uuids: Vec<Uuid>,
        #[sea_orm(column_type = "Array(RcOrArc::new(ColumnType::Decimal(Some((10, 3)))))")]
        pub prices: Vec<Decimal>,
        #[sea_orm(column_type = "Custom(\"cidr\".into())")]
        pub network: sea_orm::prelude::IpNetwork,
        pub offset: DateTimeWithTimeZone,
        pub not_a_number: f64,
        pub infinite: f32,
        pub big: BigDecimal,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

/// The same columns through the time crate.
mod timed {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "timed")]
    #[hare(capture(app = "types"))]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i32,
        pub date: TimeDate,
        pub time: TimeTime,
        pub naive: TimeDateTime,
        pub aware: TimeDateTimeWithTimeZone,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

async fn after(t: &TestDb) -> String {
    let event = t.event().await;
    let (_, rest) = event.text.split_once("\"after\":").unwrap();
    rest.split_once(",\"occurred_at\"").unwrap().0.to_owned()
}

on_every_backend! {
    // catalogue B2, B3, B4, B5, B13, B16
    async fn an_entity_of_every_common_type_is_this_to_the_letter(t: TestDb) {
        t.create_table(common::Entity).await;
        let day = chrono::NaiveDate::from_ymd_opt(2026, 12, 1).unwrap();
        let new = common::ActiveModel {
            id: Set(9_007_199_254_740_993),
            flag: Set(true),
            small: Set(-7),
            text: Set("Grüße \"zitiert\"\n".to_owned()),
            single: Set(0.1),
            double: Set(1.5e300),
            price: Set(Decimal::new(125_000, 4)),
            bytes: Set(vec![0, 1, 255]),
            document: Set(json!({"a": [1, null, "x"]})),
            address: Set(common::Address { post_code: "1010".to_owned(), lines: vec!["A".to_owned()] }),
            level: Set(common::Level::High),
            colour: Set(common::Colour::Red),
            uuid: Set(Uuid::parse_str("0190163D-8694-739B-AEA5-966C26F8AD91").unwrap()),
            date: Set(day),
            time: Set(chrono::NaiveTime::from_hms_opt(1, 2, 3).unwrap()),
            naive: Set(day.and_hms_opt(12, 0, 0).unwrap()),
            aware: Set(day.and_hms_opt(12, 0, 0).unwrap().and_utc()),
            nothing: Set(None),
        };
        new.insert(&t.db).await.unwrap();
        // SQLite keeps a decimal as a floating-point number, and so forgets its scale.
        let price = if t.backend == Backend::Sqlite { "12.5" } else { "12.5000" };
        let expected = format!(
            r#"{{"id":9007199254740993,"flag":true,"small":-7,"text":"Grüße \"zitiert\"\n","single":0.1,"double":1.5e+300,"price":"{price}","bytes":"AAH/","document":{{"a":[1,null,"x"]}},"address":{{"lines":["A"],"postCode":"1010"}},"level":3,"colour":"red","uuid":"0190163d-8694-739b-aea5-966c26f8ad91","date":"2026-12-01","time":"01:02:03","naive":"2026-12-01T12:00:00","aware":"2026-12-01T12:00:00+00:00","nothing":null}}"#
        );
        let found = after(&t).await;
        assert_eq!(found, expected);
    }

    // catalogue B3
    async fn the_time_crate_gives_the_same_text(t: TestDb) {
        t.create_table(timed::Entity).await;
        let date = TimeDate::from_calendar_date(2026, time::Month::December, 1).unwrap();
        let new = timed::ActiveModel {
            id: Set(1),
            date: Set(date),
            time: Set(TimeTime::from_hms(1, 2, 3).unwrap()),
            naive: Set(TimeDateTime::new(date, TimeTime::from_hms(12, 0, 0).unwrap())),
            aware: Set(TimeDateTime::new(date, TimeTime::from_hms(12, 0, 0).unwrap()).assume_utc()),
        };
        new.insert(&t.db).await.unwrap();
        assert_eq!(
            after(&t).await,
            r#"{"id":1,"date":"2026-12-01","time":"01:02:03","naive":"2026-12-01T12:00:00","aware":"2026-12-01T12:00:00+00:00"}"#
        );
    }
}

on_backends! { [postgres]
    // catalogue B2, B11, B12
    async fn arrays_networks_and_what_is_no_number(t: TestDb) {
        t.create_table(postgres_only::Entity).await;
        let offset = chrono::DateTime::parse_from_rfc3339("2026-12-01T14:00:00.000005+02:00").unwrap();
        let new = postgres_only::ActiveModel {
            id: Set(1),
            doubles: Set(vec![1.0, f64::NAN, f64::NEG_INFINITY]),
            texts: Set(vec!["a\"b".to_owned()]),
            uuids: Set(vec![Uuid::nil()]),
            prices: Set(vec![Decimal::new(1_500, 3), Decimal::new(-5, 1)]),
            network: Set("10.0.0.0/8".parse().unwrap()),
            offset: Set(offset),
            not_a_number: Set(f64::NAN),
            infinite: Set(f32::INFINITY),
            big: Set("12345678901234567890.1230".parse().unwrap()),
        };
        new.insert(&t.db).await.unwrap();
        assert_eq!(
            after(&t).await,
            r#"{"id":1,"doubles":[1.0,"NaN","-Infinity"],"texts":["a\"b"],"uuids":["00000000-0000-0000-0000-000000000000"],"prices":["1.500","-0.500"],"network":"10.0.0.0/8","offset":"2026-12-01T12:00:00.000005+00:00","not_a_number":"NaN","infinite":"Infinity","big":"12345678901234567890.1230"}"#
        );
    }
}

/// A column type whose JSON form is its own function's.
mod money {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;
    use serde::{Serialize, Serializer};

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "money")]
    #[hare(capture(app = "shop"))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        #[hare(json_with = cents)]
        pub price: i64,
        #[hare(json_with = super::money::refusing, sensitive)]
        pub r#type: Option<String>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    #[derive(Serialize)]
    struct Price {
        cents: i64,
        text: String,
    }

    fn cents(price: &i64) -> impl Serialize + use<> {
        Price {
            cents: *price,
            text: format!("{}.{:02}", price / 100, price % 100),
        }
    }

    /// Has no JSON form for one value.
    pub fn refusing(value: &Option<String>) -> Refusing<'_> {
        Refusing(value.as_deref())
    }

    pub struct Refusing<'a>(Option<&'a str>);

    impl Serialize for Refusing<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self.0 {
                Some("none") => f64::NAN.serialize(serializer),
                value => value.serialize(serializer),
            }
        }
    }
}

/// The same table, where the sensitive column is named.
mod named_money {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "money")]
    #[hare(capture(app = "shop", fields(id, r#type)))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        pub price: i64,
        #[hare(json_with = super::money::refusing, sensitive)]
        pub r#type: Option<String>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

on_every_backend! {
    // catalogue B15
    async fn a_column_may_have_a_json_form_of_its_own(t: TestDb) {
        t.create_table(money::Entity).await;
        money::ActiveModel { price: Set(1250), ..Default::default() }.insert(&t.db).await.unwrap();
        assert_eq!(t.event().await.payload["after"], serde_json::json!({"id": 1, "price": {"cents": 1250, "text": "12.50"}}));
        let row = named_money::ActiveModel { price: Set(1), r#type: Set(Some("cash".into())), ..Default::default() };
        row.insert(&t.db).await.unwrap();
        assert_eq!(t.event().await.payload["after"], serde_json::json!({"id": 2, "type": "cash"}));
    }

    // catalogue B8, B15
    async fn a_value_that_has_no_form_fails_the_write(t: TestDb) {
        t.create_table(money::Entity).await;
        let row = named_money::ActiveModel { price: Set(1), r#type: Set(Some("none".into())), ..Default::default() };
        let error = row.insert(&t.db).await.unwrap_err();
        let ours = hare_seaorm::Error::find(&error).expect("an error of ours");
        assert!(matches!(ours, hare_seaorm::Error::Validation { what, .. } if what == "the column `type`"), "{ours:?}");
        assert_eq!((t.count("money").await, t.count("hare_outbox").await), (0, 0));
    }
}

/// Columns whose values are made of others.
mod nested {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Part {
        #[serde(rename = "partNo")]
        pub number: i32,
        pub tags: (String, bool),
    }

    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
    pub struct Parts(pub Vec<Part>);

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "nested")]
    #[hare(capture(app = "shop"))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        pub price: i32,
        pub parts: Parts,
        /// Made by the database.
        pub gross: Option<i32>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
}

/// A range, which SeaORM knows as text only.
mod seats {
    use hare_seaorm::ChangeCapture;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "seats")]
    #[hare(capture(app = "shop"))]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i32,
        #[sea_orm(
            column_type = "custom(\"int4range\")",
            select_as = "text",
            save_as = "int4range"
        )]
        #[hare(json_with = range)]
        pub taken: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    fn range(text: &str) -> serde_json::Value {
        let inside = text.trim_matches(['[', ']', '(', ')']);
        let (lower, upper) = inside.split_once(',').unwrap_or_default();
        serde_json::json!({
            "lower": lower.parse::<i32>().ok(),
            "upper": upper.parse::<i32>().ok(),
            "lower_inc": text.starts_with('['),
            "upper_inc": text.ends_with(']'),
            "is_empty": text == "empty",
        })
    }
}

on_every_backend! {
    // catalogue B14
    async fn lists_of_structs_and_generated_columns_have_the_form_of_what_they_hold(t: TestDb) {
        let (key, json) = match t.backend {
            Backend::Postgres => ("serial PRIMARY KEY", "json"),
            Backend::MariaDb => ("int AUTO_INCREMENT PRIMARY KEY", "json"),
            Backend::Sqlite => ("integer PRIMARY KEY", "json_text"),
        };
        t.execute(&format!(
            "CREATE TABLE nested (id {key}, price int NOT NULL, parts {json} NOT NULL, gross int GENERATED ALWAYS AS (price * 2) STORED)"
        )).await;
        let part = |number| nested::Part { number, tags: ("new".to_owned(), true) };
        let row = nested::ActiveModel { price: Set(21), parts: Set(nested::Parts(vec![part(1), part(2)])), ..Default::default() };
        row.insert(&t.db).await.unwrap();
        let parts = json!([{"partNo": 1, "tags": ["new", true]}, {"partNo": 2, "tags": ["new", true]}]);
        assert_eq!(t.event().await.payload["after"], json!({"id": 1, "price": 21, "parts": parts, "gross": 42}));
    }
}

on_backends! { [postgres]
    // catalogue B14, B15
    async fn a_range_has_the_form_that_its_function_gives(t: TestDb) {
        t.execute("CREATE TABLE seats (id serial PRIMARY KEY, taken int4range NOT NULL)").await;
        seats::ActiveModel { taken: Set("[1,4]".to_owned()), ..Default::default() }.insert(&t.db).await.unwrap();
        let range = json!({"lower": 1, "upper": 5, "lower_inc": true, "upper_inc": false, "is_empty": false});
        assert_eq!(t.event().await.payload["after"], json!({"id": 1, "taken": range}));
    }
}
