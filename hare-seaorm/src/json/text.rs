//! JSON text as a value: of a message's payload, of an outbox row's field.

use std::fmt;

use sea_orm::sea_query::{ArrayType, ColumnType, Nullable, ValueType, ValueTypeErr};
use sea_orm::{
    ActiveValue, ColIdx, DbErr, IntoActiveValue, QueryResult, TryFromU64, TryGetError, TryGetable, Value,
};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;

use super::encoding::{DEPTH_LIMIT, DOCUMENT_DEPTH_LIMIT, EncodeError, append, check_depth, to_text};
use crate::error::Error;

/// A valid JSON text, kept to the letter: `0.1000` stays `0.1000`, and a number of any length keeps its digits.
///
/// As a field of an entity it is read from a column of type `json`, `jsonb` or text. It is written as text, so PostgreSQL
/// takes it for a `json` column only where the statement casts it, as the library's own do.
///
/// [`Debug`](fmt::Debug) does not show the text, and there is no `Display`, so that payloads stay out of logs by default.
///
/// ```
/// use hare_seaorm::json::JsonText;
///
/// let text = JsonText::of(&("a", 1_u128 << 70))?;
/// assert_eq!(text.as_str(), r#"["a",1180591620717411303424]"#);
/// assert_eq!(text.parse::<(String, u128)>().unwrap().1, 1 << 70);
/// # Ok::<(), hare_seaorm::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonText(String);

impl JsonText {
    /// The compact JSON text of `value`, in the form serde gives it.
    ///
    /// # Errors
    /// [`Error::Validation`] if the value holds NaN or an infinity at any depth, nests more than 127 lists and objects in one
    /// another, or fails to serialise.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        to_text(value)
            .map(Self::from_trusted)
            .map_err(|error| error.into_validation("the value"))
    }

    /// Takes a JSON text as it is.
    ///
    /// # Errors
    /// [`Error::Validation`] if it is not one JSON value, or nests more than 127 lists and objects in one another.
    pub fn from_text(text: impl Into<String>) -> Result<Self, Error> {
        let text = text.into();
        check_syntax(&text)
            .and_then(|()| check_depth(&text, DEPTH_LIMIT))
            .map_err(|error| error.into_validation("the JSON text"))?;
        Ok(Self(text))
    }

    /// Takes a text that this library has just written.
    pub(crate) fn from_trusted(text: String) -> Self {
        debug_assert!(
            check_syntax(&text).is_ok(),
            "the library wrote text that is not JSON"
        );
        Self(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, without copying it.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Reads the text into a type.
    ///
    /// # Errors
    /// serde_json's, if the text has another shape than `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(&self.0)
    }
}

/// The text of a value that stands inside an image.
pub(crate) fn document_of<T: Serialize + ?Sized>(value: &T) -> Result<JsonText, EncodeError> {
    let mut text = String::new();
    append(&mut text, value, DOCUMENT_DEPTH_LIMIT)?;
    Ok(JsonText::from_trusted(text))
}

fn check_syntax(text: &str) -> Result<(), EncodeError> {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(()),
        Err(cause) => Err(EncodeError::caused("it is not JSON", cause)),
    }
}

impl AsRef<str> for JsonText {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonText([redacted; {} bytes])", self.0.len())
    }
}

/// Serialises as the JSON value it holds, to the letter; for serde_json's serialisers only.
impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl From<JsonText> for Value {
    fn from(text: JsonText) -> Self {
        Value::String(Some(text.0))
    }
}

impl Nullable for JsonText {
    fn null() -> Value {
        Value::String(None)
    }
}

impl ValueType for JsonText {
    fn try_from(value: Value) -> Result<Self, ValueTypeErr> {
        match value {
            Value::String(Some(text)) => Self::from_text(text).map_err(|_| ValueTypeErr),
            Value::Json(Some(document)) => Self::of(&document).map_err(|_| ValueTypeErr),
            _ => Err(ValueTypeErr),
        }
    }

    fn type_name() -> String {
        "JsonText".to_owned()
    }

    fn array_type() -> ArrayType {
        ArrayType::String
    }

    fn column_type() -> ColumnType {
        ColumnType::Json
    }
}

impl IntoActiveValue<JsonText> for JsonText {
    fn into_active_value(self) -> ActiveValue<JsonText> {
        ActiveValue::Set(self)
    }
}

/// SeaORM asks for it of every field; a JSON text is never made from a generated key.
impl TryFromU64 for JsonText {
    fn try_from_u64(_: u64) -> Result<Self, DbErr> {
        Err(DbErr::ConvertFromU64("JsonText"))
    }
}

impl TryGetable for JsonText {
    /// Refuses what is not JSON, but no depth: what another program wrote into the table must stay readable.
    fn try_get_by<I: ColIdx>(row: &QueryResult, index: I) -> Result<Self, TryGetError> {
        #[cfg(feature = "sqlx-postgres")]
        if let Some(row) = row.try_as_pg_row()
            && let Some(text) = json_column(row, index.as_sqlx_postgres_index(), index)?
        {
            return Ok(text);
        }
        #[cfg(feature = "sqlx-mysql")]
        if let Some(row) = row.try_as_mysql_row()
            && let Some(text) = json_column(row, index.as_sqlx_mysql_index(), index)?
        {
            return Ok(text);
        }
        let text = String::try_get_by(row, index)?;
        check_syntax(&text).map_err(|error| DbErr::TryIntoErr {
            from: "String",
            into: "JsonText",
            source: std::sync::Arc::new(error.into_validation(format!("the column {index:?}"))),
        })?;
        Ok(Self(text))
    }
}

/// The text of a column of a JSON type, in which the database sends it as text already. `None` if it is of another type.
#[cfg(any(feature = "sqlx-mysql", feature = "sqlx-postgres"))]
fn json_column<R, I>(row: &R, index: I, name: impl ColIdx) -> Result<Option<JsonText>, TryGetError>
where
    R: sea_orm::sqlx::Row,
    I: sea_orm::sqlx::ColumnIndex<R>,
    sea_orm::sqlx::types::Json<Box<RawValue>>:
        sea_orm::sqlx::Type<R::Database> + for<'r> sea_orm::sqlx::Decode<'r, R::Database>,
{
    use sea_orm::sqlx::{Decode as _, Error as SqlxError, Type as _, ValueRef as _, types::Json};

    let failed = |error: SqlxError| DbErr::Query(sea_orm::RuntimeErr::SqlxError(std::sync::Arc::new(error)));
    let value = row.try_get_raw(index).map_err(failed)?;
    if value.is_null() {
        return Err(TryGetError::Null(format!("{name:?}")));
    }
    if !Json::<Box<RawValue>>::compatible(&value.type_info()) {
        return Ok(None);
    }
    let Json(raw) = Json::<Box<RawValue>>::decode(value).map_err(|source| {
        failed(SqlxError::ColumnDecode {
            index: format!("{name:?}"),
            source,
        })
    })?;
    Ok(Some(JsonText(Box::<str>::from(raw).into())))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sea_orm::entity::prelude::*;
    use serde_json::json;

    use super::*;

    mod note {
        use sea_orm::entity::prelude::*;

        use super::super::JsonText;

        /// An entity with JSON text in a required and in an optional field.
        #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
        #[sea_orm(table_name = "note")]
        pub(super) struct Model {
            #[sea_orm(primary_key)]
            pub id: i32,
            #[sea_orm(column_type = "Json")]
            pub body: JsonText,
            #[sea_orm(column_type = "Json", nullable)]
            pub extra: Option<JsonText>,
        }

        #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
        pub(super) enum Relation {}

        impl ActiveModelBehavior for ActiveModel {}
    }

    const ODD: &str = r#"{"b": 0.1000, "a":1180591620717411303424,"b":1e400}"#;

    fn text(json: &str) -> JsonText {
        JsonText::from_text(json).unwrap()
    }

    // catalogue A5
    #[test]
    fn every_kind_of_value_round_trips() {
        for value in [
            json!({"a": 1}),
            json!([1, "b"]),
            json!("ü"),
            json!(1.5),
            json!(true),
            json!(null),
        ] {
            let text = JsonText::of(&value).unwrap();
            assert_eq!(text.as_str(), value.to_string());
            assert_eq!(text.parse::<serde_json::Value>().unwrap(), value);
        }
    }

    // catalogue B9
    #[test]
    fn text_is_kept_to_the_letter() {
        let kept = text(ODD);
        assert_eq!(kept.as_str(), ODD);
        assert_eq!(kept.as_ref(), ODD);
        assert_eq!(serde_json::to_string(&[&kept]).unwrap(), format!("[{ODD}]"));
        assert_eq!(
            JsonText::of(&BTreeMap::from([("held", &kept)])).unwrap().as_str(),
            format!("{{\"held\":{ODD}}}")
        );
        assert_eq!(kept.into_string(), ODD);
        assert_eq!(JsonText::from_trusted("1".to_owned()), text("1"));
    }

    // catalogue B6
    #[test]
    fn what_is_not_one_json_value_is_refused() {
        for wrong in [
            "",
            " ",
            "{",
            "1 2",
            "NaN",
            "{'a':1}",
            "[1,]",
            "\"\0\"",
            "\u{feff}1",
        ] {
            match JsonText::from_text(wrong) {
                Err(Error::Validation {
                    what,
                    reason,
                    source: Some(_),
                }) => {
                    assert_eq!(
                        (what.as_str(), reason.as_str()),
                        ("the JSON text", "it is not JSON")
                    );
                }
                other => panic!("{wrong}: {other:?}"),
            }
        }
    }

    // catalogue B7
    #[test]
    fn of_refuses_nan_as_validation() {
        let Err(Error::Validation { what, .. }) = JsonText::of(&[1.0, f64::NAN]) else {
            panic!("accepted")
        };
        assert_eq!(what, "the value");
    }

    // catalogue B9
    #[test]
    fn text_that_nests_too_deep_is_refused() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(
            JsonText::from_text(nested(DEPTH_LIMIT))
                .unwrap()
                .parse::<serde_json::Value>()
                .is_ok()
        );
        assert!(JsonText::from_text(nested(DEPTH_LIMIT + 1)).is_err());
        assert!(JsonText::from_text(nested(100_000)).is_err());
    }

    #[test]
    fn debug_shows_the_length_and_not_the_text() {
        assert_eq!(
            format!("{:?}", text(r#""secret""#)),
            "JsonText([redacted; 8 bytes])"
        );
    }

    // catalogue A5
    #[test]
    fn an_entity_holds_it_as_text_in_a_json_column() {
        let body = text(ODD);
        let model = note::Model {
            id: 1,
            body: body.clone(),
            extra: None,
        };
        assert_eq!(model.get(note::Column::Body), Value::String(Some(ODD.to_owned())));
        assert_eq!(model.get(note::Column::Extra), Value::String(None));
        assert_eq!(note::Column::Body.def().get_column_type(), &ColumnType::Json);
        assert!(note::Column::Extra.def().is_null());

        let mut active = note::ActiveModel {
            body: ActiveValue::Set(body.clone()),
            ..Default::default()
        };
        active.set(note::Column::Extra, Value::String(Some("[]".to_owned())));
        assert_eq!(active.extra, ActiveValue::Set(Some(text("[]"))));
        active.set(note::Column::Extra, Value::String(None));
        assert_eq!(active.extra, ActiveValue::Set(None));
        active.set(note::Column::Body, Value::Json(Some(Box::new(json!({"a": 1})))));
        assert_eq!(active.body, ActiveValue::Set(text(r#"{"a":1}"#)));
        assert!(
            active
                .try_set(note::Column::Body, Value::String(Some("no JSON".to_owned())))
                .is_err()
        );
        assert!(active.try_set(note::Column::Body, Value::Int(Some(1))).is_err());
        assert_eq!(body.clone().into_active_value(), ActiveValue::Set(body));
        assert!(JsonText::try_from_u64(1).is_err());
    }

    // catalogue A5
    #[cfg(feature = "mock")]
    #[tokio::test]
    async fn rows_are_read_and_what_is_not_json_is_refused_without_being_shown() {
        use sea_orm::{DatabaseBackend, MockDatabase};

        let row = |body: Option<&str>, extra: Option<&str>| {
            let as_value = |text: Option<&str>| Value::String(text.map(str::to_owned));
            [BTreeMap::from([
                ("id", Value::Int(Some(1))),
                ("body", as_value(body)),
                ("extra", as_value(extra)),
            ])]
        };
        let deep = "[".repeat(500) + &"]".repeat(500);
        let db = MockDatabase::new(DatabaseBackend::Sqlite)
            .append_query_results([
                row(Some(ODD), Some("[]")),
                row(Some(&deep), None),
                row(Some("{secret"), None),
                row(None, None),
            ])
            .into_connection();
        let read = async || note::Entity::find().one(&db).await;

        let model = read().await.unwrap().unwrap();
        assert_eq!((model.body.as_str(), model.extra), (ODD, Some(text("[]"))));
        assert_eq!(read().await.unwrap().unwrap().body.as_str(), deep);

        let error = read().await.unwrap_err();
        assert!(
            matches!(Error::find(&error), Some(Error::Validation { .. })),
            "{error:?}"
        );
        assert!(!format!("{error} {error:?}").contains("secret"));
        assert!(read().await.is_err());
    }
}
