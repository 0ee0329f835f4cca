//! For payloads of one's own: serde helpers that give values the form which captured columns have.
//!
//! serde's own forms differ from type to type and from crate to crate: bytes are a list of numbers, a duration is an object, a time
//! ends in `Z`. A receiver that reads captured events and events of one's own may want one form for both.

use std::time::Duration;

use sea_orm::Value;
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;

use super::column::write_value;

/// Serialises a field as a captured column of its type is told: a decimal as text with its scale, bytes as base64, a time with six
/// digits or none and `+00:00`, an active enum as its database value, a float that is no number as `"NaN"`. For any type that
/// SeaORM can write to a column, and for serde_json's serialisers only.
///
/// ```
/// use sea_orm::prelude::{DateTimeUtc, Decimal};
///
/// #[derive(serde::Serialize)]
/// struct Paid {
///     #[serde(serialize_with = "hare_seaorm::json::as_column")]
///     fee: Decimal,
///     #[serde(serialize_with = "hare_seaorm::json::as_column")]
///     receipt: Vec<u8>,
///     #[serde(serialize_with = "hare_seaorm::json::as_column")]
///     at: Option<DateTimeUtc>,
/// }
///
/// let paid = Paid { fee: "12.50".parse()?, receipt: vec![0, 1], at: Some("2026-12-01T12:00:00Z".parse()?) };
/// let text = r#"{"fee":"12.50","receipt":"AAE=","at":"2026-12-01T12:00:00+00:00"}"#;
/// assert_eq!(serde_json::to_string(&paid)?, text);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The serialiser's, if the value has no such form.
pub fn as_column<T, S>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Clone + Into<Value>,
    S: Serializer,
{
    let mut text = String::new();
    write_value(&mut text, &value.clone().into()).map_err(S::Error::custom)?;
    raw(text, serializer)
}

/// Serialises a duration as its seconds, a number with as many digits as it needs: 120, 1.5. For serde_json's serialisers only.
///
/// ```
/// use std::time::Duration;
///
/// #[derive(serde::Serialize)]
/// struct Overdue {
///     #[serde(serialize_with = "hare_seaorm::json::as_seconds")]
///     by: Duration,
///     #[serde(serialize_with = "hare_seaorm::json::as_seconds")]
///     reminded_after: Option<Duration>,
/// }
///
/// let overdue = Overdue { by: Duration::from_millis(1500), reminded_after: None };
/// assert_eq!(serde_json::to_string(&overdue)?, r#"{"by":1.5,"reminded_after":null}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
/// The serialiser's.
pub fn as_seconds<T, S>(duration: &T, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Clone + Into<Option<Duration>>,
    S: Serializer,
{
    match duration.clone().into() {
        Some(duration) => raw(seconds(duration), serializer),
        None => serializer.serialize_none(),
    }
}

fn seconds(duration: Duration) -> String {
    let text = format!("{}.{:09}", duration.as_secs(), duration.subsec_nanos());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn raw<S: Serializer>(text: String, serializer: S) -> Result<S::Ok, S::Error> {
    RawValue::from_string(text)
        .map_err(S::Error::custom)?
        .serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::JsonText;

    // catalogue B4
    #[test]
    fn a_duration_is_its_seconds() {
        let text = |duration| seconds(duration);
        assert_eq!(text(Duration::from_secs(120)), "120");
        assert_eq!(text(Duration::from_millis(1500)), "1.5");
        assert_eq!(text(Duration::ZERO), "0");
        assert_eq!(text(Duration::new(100, 1)), "100.000000001");
        assert_eq!(text(Duration::MAX), "18446744073709551615.999999999");
    }

    // catalogue B2, B3, B4, B11
    #[test]
    fn own_payloads_can_have_the_form_of_columns() {
        #[derive(serde::Serialize)]
        struct Own<T: Clone + Into<Value>>(#[serde(serialize_with = "as_column")] T);

        let text = |own: Result<JsonText, _>| own.unwrap().as_str().to_owned();
        assert_eq!(text(JsonText::of(&Own(vec![0_u8, 1]))), r#""AAE=""#);
        assert_eq!(text(JsonText::of(&Own(f64::NAN))), r#""NaN""#);
        assert_eq!(text(JsonText::of(&Own(None::<i64>))), "null");
        assert_eq!(text(JsonText::of(&Own("größe".to_owned()))), r#""größe""#);
        let at: sea_orm::prelude::DateTimeUtc = "2026-12-01T12:00:00.000005Z".parse().unwrap();
        assert_eq!(
            text(JsonText::of(&Own(at))),
            r#""2026-12-01T12:00:00.000005+00:00""#
        );
        assert_eq!(
            text(JsonText::of(&Own(uuid::Uuid::nil()))),
            r#""00000000-0000-0000-0000-000000000000""#
        );
    }
}
