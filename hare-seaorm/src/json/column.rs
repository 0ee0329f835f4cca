//! A column's value, as SeaORM holds it, as JSON text: what images are made of.
//!
//! One form a type, whatever the backend: decimals, dates, UUIDs and addresses as text, bytes as base64, a float that is no
//! number as a text in its place. SeaORM's own conversion is no help here: it quotes dates as SQL does, rounds decimals and
//! cannot write bytes.
//!
//! JSON columns arrive as SeaORM's `Json`, a parsed document, so its limits hold for them: a number beyond 64 bits was
//! rounded, a repeated key dropped and a NaN in a typed column turned into `null` before this module sees the value.
//!
//! Invariant: no error text holds a column's value. Upheld in [`refuse`]; tested below.

use std::fmt::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{Datelike, Offset as _, Timelike};
use sea_orm::Value;
use sea_orm::sea_query::OptionEnum;

use super::encoding::{DOCUMENT_DEPTH_LIMIT, EncodeError, append, write_string};

/// Appends a captured value as JSON.
///
/// # Errors
/// If the value has no JSON form: a type of a feature that is off, a decimal or a document past its limit. Then the end of
/// `out` is meaningless.
pub(crate) fn write_value(out: &mut String, value: &Value) -> Result<(), EncodeError> {
    write_nested(out, value, DOCUMENT_DEPTH_LIMIT)
}

/// `room` is how many lists and objects may still open, one inside the other.
fn write_nested(out: &mut String, value: &Value, room: usize) -> Result<(), EncodeError> {
    match value {
        Value::Bool(Some(value)) => out.push_str(if *value { "true" } else { "false" }),
        Value::TinyInt(Some(value)) => put(out, format_args!("{value}")),
        Value::SmallInt(Some(value)) => put(out, format_args!("{value}")),
        Value::Int(Some(value)) => put(out, format_args!("{value}")),
        Value::BigInt(Some(value)) => put(out, format_args!("{value}")),
        Value::TinyUnsigned(Some(value)) => put(out, format_args!("{value}")),
        Value::SmallUnsigned(Some(value)) => put(out, format_args!("{value}")),
        Value::Unsigned(Some(value)) => put(out, format_args!("{value}")),
        Value::BigUnsigned(Some(value)) => put(out, format_args!("{value}")),
        Value::Float(Some(value)) => write_f32(out, *value)?,
        Value::Double(Some(value)) => match not_a_number(*value) {
            Some(text) => out.push_str(text),
            None => append(out, value, room)?,
        },
        Value::String(Some(value)) => write_string(out, value),
        Value::Enum(OptionEnum::Some(value)) => write_string(out, &value.value),
        Value::Char(Some(value)) => write_string(out, value.encode_utf8(&mut [0; 4])),
        Value::Bytes(Some(value)) => quoted(out, |out| STANDARD.encode_string(value, out)),
        Value::Json(Some(value)) => append(out, &**value, room)?,
        Value::ChronoDate(Some(value)) => quoted(out, |out| date(out, value)),
        Value::ChronoTime(Some(value)) => quoted(out, |out| time_of_day(out, value)),
        Value::ChronoDateTime(Some(value)) => quoted(out, |out| date_time(out, value)),
        Value::ChronoDateTimeUtc(Some(value)) => quoted(out, |out| {
            date_time(out, value);
            offset(out, 0);
        }),
        Value::ChronoDateTimeLocal(Some(value)) => quoted(out, |out| {
            date_time(out, value);
            offset(out, value.offset().fix().local_minus_utc());
        }),
        Value::ChronoDateTimeWithTimeZone(Some(value)) => quoted(out, |out| {
            date_time(out, value);
            offset(out, value.offset().local_minus_utc());
        }),
        #[cfg(feature = "with-time")]
        Value::TimeDate(Some(value)) => quoted(out, |out| {
            write_date(
                out,
                value.year(),
                u8::from(value.month()).into(),
                value.day().into(),
            );
        }),
        #[cfg(feature = "with-time")]
        Value::TimeTime(Some(value)) => quoted(out, |out| {
            let (hour, minute, second, nanosecond) = value.as_hms_nano();
            write_time(out, hour.into(), minute.into(), second.into(), nanosecond);
        }),
        #[cfg(feature = "with-time")]
        Value::TimeDateTime(Some(value)) => quoted(out, |out| {
            write_date(
                out,
                value.year(),
                u8::from(value.month()).into(),
                value.day().into(),
            );
            out.push('T');
            let (hour, minute, second, nanosecond) = value.as_hms_nano();
            write_time(out, hour.into(), minute.into(), second.into(), nanosecond);
        }),
        #[cfg(feature = "with-time")]
        Value::TimeDateTimeWithTimeZone(Some(value)) => quoted(out, |out| {
            write_date(
                out,
                value.year(),
                u8::from(value.month()).into(),
                value.day().into(),
            );
            out.push('T');
            let (hour, minute, second, nanosecond) = value.to_hms_nano();
            write_time(out, hour.into(), minute.into(), second.into(), nanosecond);
            offset(out, value.offset().whole_seconds());
        }),
        Value::Uuid(Some(value)) => {
            quoted(out, |out| {
                out.push_str(value.hyphenated().encode_lower(&mut [0; 36]))
            });
        }
        #[cfg(feature = "with-rust_decimal")]
        Value::Decimal(Some(value)) => put(out, format_args!("\"{value}\"")),
        #[cfg(feature = "with-bigdecimal")]
        Value::BigDecimal(Some(value)) => write_big_decimal(out, value)?,
        #[cfg(feature = "postgres-array")]
        Value::Array(_, Some(elements)) => {
            let room = room
                .checked_sub(1)
                .ok_or_else(|| EncodeError::new("it nests lists deeper than receivers could parse"))?;
            list(out, elements.iter(), |out, element| {
                write_nested(out, element, room)
            })?;
        }
        #[cfg(feature = "postgres-vector")]
        Value::Vector(Some(elements)) => {
            list(out, elements.as_slice().iter(), |out, element| {
                write_f32(out, *element)
            })?;
        }
        // As PostgreSQL's cast to text gives it: the `/32` of a single host stays.
        #[cfg(feature = "with-ipnetwork")]
        Value::IpNetwork(Some(value)) => put(out, format_args!("\"{value}\"")),
        // Lower case and colons, as PostgreSQL prints it.
        #[cfg(feature = "with-mac_address")]
        Value::MacAddress(Some(value)) => {
            let [a, b, c, d, e, f] = value.bytes();
            put(
                out,
                format_args!("\"{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}\""),
            );
        }
        // Every NULL, and the variants that SeaORM has in this build and the library does not know.
        other if *other == other.as_null() => out.push_str("null"),
        other => return Err(refuse(other)),
    }
    Ok(())
}

/// Formats into a `String`, which cannot fail.
fn put(out: &mut String, text: fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// A string literal around a text that needs no escape.
fn quoted(out: &mut String, write: impl FnOnce(&mut String)) {
    out.push('"');
    write(out);
    out.push('"');
}

#[cfg(any(feature = "postgres-array", feature = "postgres-vector"))]
fn list<T>(
    out: &mut String,
    elements: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut String, T) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    out.push('[');
    for (position, element) in elements.enumerate() {
        if position > 0 {
            out.push(',');
        }
        write(out, element)?;
    }
    out.push(']');
    Ok(())
}

/// Not by way of `f64`, which would give 0.1 more digits than the column has.
fn write_f32(out: &mut String, value: f32) -> Result<(), EncodeError> {
    match not_a_number(value.into()) {
        Some(text) => out.push_str(text),
        None => append(out, &value, 0)?,
    }
    Ok(())
}

/// The text that stands for a float JSON has no number for.
fn not_a_number(value: f64) -> Option<&'static str> {
    if value.is_finite() {
        None
    } else if value.is_nan() {
        Some(r#""NaN""#)
    } else if value > 0.0 {
        Some(r#""Infinity""#)
    } else {
        Some(r#""-Infinity""#)
    }
}

// chrono's date-times answer for their own offset, and do so without overflow at the ends of their range; their
// `naive_local` would panic there.

fn date(out: &mut String, value: &impl Datelike) {
    write_date(out, value.year(), value.month(), value.day());
}

fn time_of_day(out: &mut String, value: &impl Timelike) {
    write_time(
        out,
        value.hour(),
        value.minute(),
        value.second(),
        value.nanosecond(),
    );
}

fn date_time<T: Datelike + Timelike>(out: &mut String, value: &T) {
    date(out, value);
    out.push('T');
    time_of_day(out, value);
}

/// A year outside four digits carries its sign, as ISO 8601 asks.
fn write_date(out: &mut String, year: i32, month: u32, day: u32) {
    if (0..=9999).contains(&year) {
        put(out, format_args!("{year:04}-{month:02}-{day:02}"));
    } else {
        put(out, format_args!("{year:+05}-{month:02}-{day:02}"));
    }
}

/// Six fraction digits, or none when they are zero: databases keep microseconds, so what is smaller is cut off.
fn write_time(out: &mut String, hour: u32, minute: u32, second: u32, nanosecond: u32) {
    // chrono keeps a leap second as a second that lasts for two.
    let (second, nanosecond) = if nanosecond < 1_000_000_000 {
        (second, nanosecond)
    } else {
        (second + 1, nanosecond - 1_000_000_000)
    };
    put(out, format_args!("{hour:02}:{minute:02}:{second:02}"));
    let microsecond = nanosecond / 1_000;
    if microsecond > 0 {
        put(out, format_args!(".{microsecond:06}"));
    }
}

/// Always a number, never `Z`; with seconds only where there are some.
fn offset(out: &mut String, seconds: i32) {
    let sign = if seconds < 0 { '-' } else { '+' };
    let (minutes, seconds) = (seconds.abs() / 60, seconds.abs() % 60);
    put(out, format_args!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
    if seconds > 0 {
        put(out, format_args!(":{seconds:02}"));
    }
}

/// The digits that PostgreSQL's `numeric` may have before the decimal point, and after it
/// (<https://www.postgresql.org/docs/current/datatype-numeric.html>). No backend has wider decimals.
#[cfg(feature = "with-bigdecimal")]
const DECIMAL_DIGITS: (usize, usize) = (131_072, 16_383);

/// In plain notation with its scale. The crate's own formatting changes to exponents for long numbers.
#[cfg(feature = "with-bigdecimal")]
fn write_big_decimal(out: &mut String, value: &sea_orm::prelude::BigDecimal) -> Result<(), EncodeError> {
    let (most_before, most_after) = DECIMAL_DIGITS;
    let too_long = || {
        EncodeError::new(format!(
            "a decimal has at most {most_before} digits before and {most_after} after the decimal point"
        ))
    };
    let (unscaled, scale) = value.as_bigint_and_scale();
    // Four bits a digit is more than there are: a number this long is refused before its digits are worked out.
    if unscaled.bits() > 4 * (most_before + most_after) as u64 {
        return Err(too_long());
    }
    let unscaled = unscaled.to_string();
    let (sign, digits) = match unscaled.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", unscaled.as_str()),
    };
    // A scale below zero stands for zeros before the decimal point.
    let (zeros, after) = if scale < 0 {
        (if digits == "0" { 0 } else { scale.unsigned_abs() }, 0)
    } else {
        (0, scale.unsigned_abs())
    };
    let zeros = usize::try_from(zeros)
        .ok()
        .filter(|zeros| *zeros <= most_before)
        .ok_or_else(too_long)?;
    let after = usize::try_from(after)
        .ok()
        .filter(|after| *after <= most_after)
        .ok_or_else(too_long)?;
    let before = (digits.len() + zeros).saturating_sub(after);
    if before > most_before {
        return Err(too_long());
    }
    out.push('"');
    out.push_str(sign);
    if before == 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', after - digits.len()));
        out.push_str(digits);
    } else {
        let (whole, fraction) = digits.split_at(digits.len() - after);
        out.push_str(whole);
        out.extend(std::iter::repeat_n('0', zeros));
        if after > 0 {
            out.push('.');
            out.push_str(fraction);
        }
    }
    out.push('"');
    Ok(())
}

/// The error for a variant that is not written above: its name and a way out, never its value.
fn refuse(value: &Value) -> EncodeError {
    /// Takes the first word and stops the formatting there, before it comes to the value.
    struct FirstWord(String);

    impl fmt::Write for FirstWord {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let end = text.find(|c: char| !c.is_ascii_alphanumeric());
            self.0.push_str(&text[..end.unwrap_or(text.len())]);
            if end.is_some() { Err(fmt::Error) } else { Ok(()) }
        }
    }

    let mut variant = FirstWord(String::new());
    // Ends with the error that `FirstWord` raises.
    let _ = write!(variant, "{value:?}");
    let FirstWord(variant) = variant;
    let way_out = match feature_of(&variant) {
        Some(feature) => format!("turn on the feature `{feature}` of hare-seaorm"),
        None => "leave the field out with `exclude`, or give it a JSON form with `json_with`".to_owned(),
    };
    EncodeError::new(format!(
        "a column value of the kind `{variant}` has no JSON form in this build: {way_out}"
    ))
}

/// The feature of ours that teaches the library a variant of [`Value`].
fn feature_of(variant: &str) -> Option<&'static str> {
    Some(match variant {
        "Array" => "postgres-array",
        "Vector" => "postgres-vector",
        "BigDecimal" => "with-bigdecimal",
        "Decimal" => "with-rust_decimal",
        "IpNetwork" => "with-ipnetwork",
        "MacAddress" => "with-mac_address",
        "TimeDate" | "TimeTime" | "TimeDateTime" | "TimeDateTimeWithTimeZone" => "with-time",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, FixedOffset, Local, NaiveDate, NaiveDateTime, NaiveTime, TimeZone as _, Utc};
    use sea_orm::sea_query::Enum;
    use serde_json::json;

    use super::*;

    fn written(value: impl Into<Value>) -> String {
        let mut out = "kept:".to_owned();
        write_value(&mut out, &value.into()).unwrap();
        let text = out.strip_prefix("kept:").unwrap().to_owned();
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
        text
    }

    fn refused(value: impl Into<Value>) -> String {
        let error = write_value(&mut String::new(), &value.into()).unwrap_err();
        error.to_string()
    }

    /// `depth` lists in one another.
    fn nested(depth: usize) -> serde_json::Value {
        (1..depth).fold(json!([]), |inner, _| serde_json::Value::Array(vec![inner]))
    }

    fn at(text: &str) -> NaiveDateTime {
        text.parse().unwrap()
    }

    // catalogue B16
    #[test]
    fn null_is_null_whatever_the_type() {
        let values = [
            Value::Bool(None),
            Value::TinyInt(None),
            Value::SmallInt(None),
            Value::Int(None),
            Value::BigInt(None),
            Value::TinyUnsigned(None),
            Value::SmallUnsigned(None),
            Value::Unsigned(None),
            Value::BigUnsigned(None),
            Value::Float(None),
            Value::Double(None),
            Value::String(None),
            Value::Enum(OptionEnum::None("colour".into())),
            Value::Char(None),
            Value::Bytes(None),
            Value::Json(None),
            Value::ChronoDate(None),
            Value::ChronoTime(None),
            Value::ChronoDateTime(None),
            Value::ChronoDateTimeUtc(None),
            Value::ChronoDateTimeLocal(None),
            Value::ChronoDateTimeWithTimeZone(None),
            #[cfg(feature = "with-time")]
            Value::TimeDate(None),
            #[cfg(feature = "with-time")]
            Value::TimeTime(None),
            #[cfg(feature = "with-time")]
            Value::TimeDateTime(None),
            #[cfg(feature = "with-time")]
            Value::TimeDateTimeWithTimeZone(None),
            Value::Uuid(None),
            #[cfg(feature = "with-rust_decimal")]
            Value::Decimal(None),
            #[cfg(feature = "with-bigdecimal")]
            Value::BigDecimal(None),
            #[cfg(feature = "postgres-array")]
            Value::Array(sea_orm::sea_query::ArrayType::Int, None),
            #[cfg(feature = "postgres-vector")]
            Value::Vector(None),
            #[cfg(feature = "with-ipnetwork")]
            Value::IpNetwork(None),
            #[cfg(feature = "with-mac_address")]
            Value::MacAddress(None),
        ];
        for value in values {
            assert_eq!(written(value.clone()), "null", "{value:?}");
        }
    }

    // catalogue B16
    #[test]
    fn booleans_and_integers_are_themselves() {
        assert_eq!(written(true), "true");
        assert_eq!(written(false), "false");
        assert_eq!(written(i8::MIN), "-128");
        assert_eq!(written(i16::MIN), "-32768");
        assert_eq!(written(i32::MIN), "-2147483648");
        assert_eq!(written(i64::MIN), "-9223372036854775808");
        assert_eq!(written(u8::MAX), "255");
        assert_eq!(written(u16::MAX), "65535");
        assert_eq!(written(u32::MAX), "4294967295");
        assert_eq!(written(u64::MAX), "18446744073709551615");
    }

    // catalogue B16
    #[test]
    fn finite_floats_have_their_own_shortest_digits() {
        assert_eq!(written(0.1_f32), "0.1");
        assert_eq!(written(0.1_f64), "0.1");
        assert_eq!(written(0.1_f32 as f64), "0.10000000149011612");
        assert_eq!(written(1.0_f64), "1.0");
        assert_eq!(written(-0.0_f64), "-0.0");
        for value in [
            1.5,
            -2.25,
            1e16,
            1e300,
            5e-324,
            f64::MAX,
            f64::EPSILON,
            123_456.789,
        ] {
            assert_eq!(written(value), serde_json::to_string(&value).unwrap());
            assert_eq!(written(value).parse::<f64>().unwrap(), value);
            let narrow = value as f32;
            if narrow.is_finite() {
                assert_eq!(written(narrow), serde_json::to_string(&narrow).unwrap());
                assert_eq!(written(narrow).parse::<f32>().unwrap(), narrow);
            }
        }
    }

    // catalogue B11
    #[test]
    fn floats_that_are_no_numbers_are_texts() {
        for (value, text) in [
            (f64::NAN, r#""NaN""#),
            (-f64::NAN, r#""NaN""#),
            (f64::INFINITY, r#""Infinity""#),
            (f64::NEG_INFINITY, r#""-Infinity""#),
        ] {
            assert_eq!(written(value), text);
            assert_eq!(written(value as f32), text);
        }
    }

    // catalogue B11
    #[cfg(feature = "postgres-array")]
    #[test]
    fn floats_that_are_no_numbers_are_texts_inside_arrays() {
        assert_eq!(written(vec![1.0, f64::NAN]), r#"[1.0,"NaN"]"#);
        assert_eq!(written(vec![f32::NEG_INFINITY, 0.1]), r#"["-Infinity",0.1]"#);
        let rows = [vec![f64::INFINITY], vec![]].map(Value::from).to_vec();
        let nested = Value::Array(sea_orm::sea_query::ArrayType::Double, Some(Box::new(rows)));
        assert_eq!(written(nested), r#"[["Infinity"],[]]"#);
    }

    // catalogue B16
    #[test]
    fn text_is_escaped_as_serde_json_does() {
        for text in ["", "a\"\\b", "ü\n\0\u{1f}", "\u{1f407}"] {
            assert_eq!(written(text), serde_json::to_string(text).unwrap());
        }
        for letter in ['a', '"', '\0', 'ü', '\u{1f407}'] {
            assert_eq!(written(letter), serde_json::to_string(&letter).unwrap());
        }
    }

    // catalogue B5
    #[test]
    fn an_enum_is_its_value() {
        let colour = Enum {
            type_name: "colour".into(),
            value: "da\"rk red".into(),
        };
        assert_eq!(
            written(Value::Enum(OptionEnum::Some(Box::new(colour)))),
            r#""da\"rk red""#
        );
    }

    // catalogue B4
    #[test]
    fn bytes_are_padded_base64() {
        assert_eq!(written(vec![0_u8, 1]), r#""AAE=""#);
        assert_eq!(written(vec![0xfb_u8, 0xff, 0xfe]), r#""+//+""#);
        assert_eq!(written(Vec::<u8>::new()), r#""""#);
    }

    // catalogue B13
    #[test]
    fn a_json_column_is_its_document() {
        let document = json!({"ключ": [1, 2.5, null, "\0"], "a": u64::MAX, "b": {"c": true}});
        assert_eq!(written(document.clone()), document.to_string());
        assert_eq!(written(json!(null)), "null");

        #[derive(
            Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, sea_orm::FromJsonQueryResult,
        )]
        struct Address {
            #[serde(rename = "zipCode")]
            zip: String,
        }
        assert_eq!(
            written(Address {
                zip: "01067".to_owned()
            }),
            r#"{"zipCode":"01067"}"#
        );
    }

    // catalogue B9
    #[test]
    fn a_document_is_readable_inside_its_envelope() {
        let document = written(nested(DOCUMENT_DEPTH_LIMIT));
        let envelope = format!(r#"{{"after":{{"document":{document}}}}}"#);
        assert!(serde_json::from_str::<serde_json::Value>(&envelope).is_ok());
        assert!(refused(nested(DOCUMENT_DEPTH_LIMIT + 1)).contains("deeper than"));

        let deep = nested(100_000);
        let mut out = String::new();
        let value = Value::Json(Some(Box::new(deep)));
        assert!(write_value(&mut out, &value).is_err());
        // Its own `drop` would recurse as deep.
        std::mem::forget(value);
    }

    // catalogue B9
    #[cfg(feature = "postgres-array")]
    #[test]
    fn a_document_in_an_array_has_one_level_less() {
        assert!(written(vec![nested(DOCUMENT_DEPTH_LIMIT - 1)]).starts_with("[["));
        assert!(refused(vec![nested(DOCUMENT_DEPTH_LIMIT)]).contains("deeper than"));
        let arrays = |depth| {
            (0..depth).fold(Value::from(1), |inner, _| {
                Value::Array(sea_orm::sea_query::ArrayType::Int, Some(Box::new(vec![inner])))
            })
        };
        assert!(written(arrays(DOCUMENT_DEPTH_LIMIT)).contains("[1]"));
        assert!(refused(arrays(DOCUMENT_DEPTH_LIMIT + 1)).contains("deeper than"));
    }

    // catalogue B3
    #[test]
    fn aware_date_times_end_in_a_numeric_offset() {
        let noon = at("2024-02-29T12:00:00");
        assert_eq!(written(noon.and_utc()), r#""2024-02-29T12:00:00+00:00""#);
        let later = noon + chrono::TimeDelta::microseconds(5);
        assert_eq!(written(later.and_utc()), r#""2024-02-29T12:00:00.000005+00:00""#);

        let zoned = |seconds| {
            FixedOffset::east_opt(seconds)
                .unwrap()
                .from_local_datetime(&noon)
                .unwrap()
        };
        for (seconds, offset) in [
            (0, "+00:00"),
            (7_200, "+02:00"),
            (-12_600, "-03:30"),
            (20_700, "+05:45"),
            (-1, "-00:00:01"),
            (1_172, "+00:19:32"),
            (-18_123, "-05:02:03"),
            (86_399, "+23:59:59"),
        ] {
            assert_eq!(
                written(zoned(seconds)),
                format!(r#""2024-02-29T12:00:00{offset}""#)
            );
        }
    }

    // catalogue B3
    #[test]
    fn local_date_times_are_the_same_instant() {
        let instant = at("2024-07-01T10:20:30.400000").and_utc();
        let text = written(instant.with_timezone(&Local));
        let read = DateTime::parse_from_rfc3339(text.trim_matches('"')).unwrap();
        assert_eq!(read, instant);
        assert!(!text.contains('Z') && text.contains(".400000"), "{text}");
    }

    // catalogue B3
    #[test]
    fn naive_dates_and_times_have_no_offset() {
        assert_eq!(
            written(at("2024-01-02T03:04:05.600000")),
            r#""2024-01-02T03:04:05.600000""#
        );
        assert_eq!(written(at("2024-01-02T00:00:00")), r#""2024-01-02T00:00:00""#);
        assert_eq!(written(at("2024-01-02T03:04:05").date()), r#""2024-01-02""#);
        assert_eq!(
            written(at("2024-01-02T03:04:05.000120").time()),
            r#""03:04:05.000120""#
        );
        assert_eq!(written(NaiveTime::MIN), r#""00:00:00""#);
    }

    // catalogue B3
    #[test]
    fn fractions_are_six_digits_cut_off_or_none() {
        for (nanosecond, fraction) in [
            (0, ""),
            (1, ""),
            (999, ""),
            (1_000, ".000001"),
            (1_999, ".000001"),
            (500_000_000, ".500000"),
            (999_999_999, ".999999"),
        ] {
            let time = NaiveTime::from_hms_nano_opt(23, 59, 59, nanosecond).unwrap();
            assert_eq!(written(time), format!("\"23:59:59{fraction}\""));
        }
    }

    // catalogue B3
    #[test]
    fn leap_seconds_are_written() {
        let leap = NaiveTime::from_hms_nano_opt(23, 59, 59, 1_250_000_000).unwrap();
        assert_eq!(written(leap), r#""23:59:60.250000""#);
        let leap = NaiveDate::from_ymd_opt(2016, 12, 31)
            .unwrap()
            .and_time(leap)
            .and_utc();
        assert_eq!(written(leap), r#""2016-12-31T23:59:60.250000+00:00""#);
        let whole = NaiveTime::from_hms_nano_opt(23, 59, 59, 1_000_000_000).unwrap();
        assert_eq!(written(whole), r#""23:59:60""#);
    }

    // catalogue B3
    #[test]
    fn years_outside_four_digits_carry_a_sign() {
        for (year, text) in [
            (0, "0000"),
            (1, "0001"),
            (9_999, "9999"),
            (10_000, "+10000"),
            (12_345, "+12345"),
            (-1, "-0001"),
            (-12_345, "-12345"),
        ] {
            let date = NaiveDate::from_ymd_opt(year, 6, 7).unwrap();
            assert_eq!(written(date), format!("\"{text}-06-07\""));
        }
    }

    // catalogue B3
    #[test]
    fn the_ends_of_the_calendar_do_not_panic() {
        for date in [NaiveDate::MIN, NaiveDate::MAX] {
            assert!(written(date).len() > 10);
        }
        for instant in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC] {
            written(instant);
            for seconds in [-86_399, 86_399] {
                written(instant.with_timezone(&FixedOffset::east_opt(seconds).unwrap()));
            }
            written(instant.with_timezone(&Local));
        }
    }

    // catalogue B3
    #[cfg(feature = "with-time")]
    #[test]
    fn the_time_crate_has_the_same_forms() {
        use sea_orm::prelude::{TimeDate, TimeTime};
        use sea_orm::sea_query::value::prelude::time::UtcOffset;

        let date = |year, month: u8, day| {
            TimeDate::from_calendar_date(year, month.try_into().unwrap(), day).unwrap()
        };
        let time = TimeTime::from_hms_nano(3, 4, 5, 600_000_999).unwrap();
        assert_eq!(written(date(2024, 2, 29)), r#""2024-02-29""#);
        assert_eq!(written(date(-1, 12, 1)), r#""-0001-12-01""#);
        assert_eq!(written(TimeDate::MIN).len(), TimeDate::MIN.to_string().len() + 2);
        assert_eq!(written(time), r#""03:04:05.600000""#);
        assert_eq!(written(TimeTime::MIDNIGHT), r#""00:00:00""#);
        let naive = date(2024, 2, 29).with_time(time);
        assert_eq!(written(naive), r#""2024-02-29T03:04:05.600000""#);
        assert_eq!(
            written(naive.assume_utc()),
            r#""2024-02-29T03:04:05.600000+00:00""#
        );
        for (seconds, offset) in [
            (-12_600, "-03:30"),
            (1_172, "+00:19:32"),
            (-1, "-00:00:01"),
            (0, "+00:00"),
        ] {
            let zone = UtcOffset::from_whole_seconds(seconds).unwrap();
            let aware = date(2024, 2, 29).midnight().assume_offset(zone);
            assert_eq!(written(aware), format!(r#""2024-02-29T00:00:00{offset}""#));
        }
    }

    // catalogue B2
    #[test]
    fn uuids_are_hyphenated_and_lower_case() {
        let id = sea_orm::prelude::Uuid::from_u128(0x0190_ABCD_0000_7000_8000_0000_0000_00EF);
        assert_eq!(written(id), r#""0190abcd-0000-7000-8000-0000000000ef""#);
    }

    // catalogue B2
    #[cfg(feature = "with-rust_decimal")]
    #[test]
    fn decimals_keep_their_scale() {
        use sea_orm::prelude::Decimal;

        for text in [
            "12.50",
            "0",
            "0.00",
            "-0.001",
            "1000",
            "79228162514264337593543950335",
            "-7.9228162514264337593543950335",
            "0.0000000000000000000000000001",
        ] {
            assert_eq!(written(text.parse::<Decimal>().unwrap()), format!("\"{text}\""));
        }
        assert_eq!(written(Decimal::new(1250, 2)), r#""12.50""#);
    }

    #[cfg(feature = "with-bigdecimal")]
    fn big(digits: &str, scale: i64) -> Value {
        let unscaled: sea_orm::prelude::BigDecimal = digits.parse().unwrap();
        sea_orm::prelude::BigDecimal::new(unscaled.into_bigint_and_scale().0, scale).into()
    }

    // catalogue B2
    #[cfg(feature = "with-bigdecimal")]
    #[test]
    fn big_decimals_are_plain_and_keep_their_scale() {
        for (digits, scale, text) in [
            ("1250", 2, "12.50"),
            ("0", 0, "0"),
            ("0", 2, "0.00"),
            ("0", -5, "0"),
            ("0", i64::MIN, "0"),
            ("-1", 3, "-0.001"),
            ("-123", 3, "-0.123"),
            ("-1234", 3, "-1.234"),
            ("12", 3, "0.012"),
            ("1", 0, "1"),
            ("-15", -3, "-15000"),
            ("1", 40, "0.0000000000000000000000000000000000000001"),
            (
                "123456789012345678901234567890",
                5,
                "1234567890123456789012345.67890",
            ),
        ] {
            assert_eq!(
                written(big(digits, scale)),
                format!("\"{text}\""),
                "{digits} with {scale}"
            );
        }
        for text in ["1e30", "1e-30", "-2.50e2", "0.1000"] {
            let value: sea_orm::prelude::BigDecimal = text.parse().unwrap();
            assert_eq!(written(value.clone()), format!("\"{}\"", value.to_plain_string()));
        }
    }

    // catalogue B2
    #[cfg(feature = "with-bigdecimal")]
    #[test]
    fn big_decimals_are_bounded_by_what_a_database_holds() {
        let (before, after) = DECIMAL_DIGITS;
        assert_eq!(written(big("1", 1 - before as i64)).len(), before + 2);
        assert_eq!(written(big("1", after as i64)).len(), after + 4);
        let widest = "9".repeat(before + after);
        assert_eq!(written(big(&widest, after as i64)).len(), before + after + 3);

        for value in [
            big("1", -(before as i64)),
            big("-1", -1_000_000),
            big("7", i64::MIN),
            big("7", i64::MAX),
            big("0", i64::MAX),
            big("1", after as i64 + 1),
            big(&"9".repeat(before + 1), 0),
            big(&"9".repeat(before + after + 1), after as i64),
            big(&"7".repeat(2 * (before + after)), 0),
        ] {
            assert_eq!(
                refused(value),
                "a decimal has at most 131072 digits before and 16383 after the decimal point"
            );
        }
    }

    // catalogue B12
    #[cfg(feature = "postgres-array")]
    #[test]
    fn an_array_is_a_list_of_its_elements_in_their_own_forms() {
        use sea_orm::sea_query::ArrayType;

        let array = |kind, elements: Vec<Value>| Value::Array(kind, Some(Box::new(elements)));
        assert_eq!(written(Vec::<i32>::new()), "[]");
        assert_eq!(written(vec![1, 2, 3]), "[1,2,3]");
        assert_eq!(written(vec!["a\"".to_owned(), "ü".to_owned()]), r#"["a\"","ü"]"#);
        assert_eq!(written(vec![vec![0_u8, 1]]), r#"["AAE="]"#);
        assert_eq!(
            written(array(ArrayType::Int, vec![1.into(), Value::Int(None)])),
            "[1,null]"
        );
        let id = sea_orm::prelude::Uuid::nil();
        assert_eq!(written(vec![id, id]), format!(r#"["{id}","{id}"]"#));
        assert_eq!(
            written(vec![at("2024-01-02T03:04:05").and_utc()]),
            r#"["2024-01-02T03:04:05+00:00"]"#
        );
        let rows = array(ArrayType::Int, vec![vec![1, 2].into(), vec![3].into()]);
        assert_eq!(written(rows), "[[1,2],[3]]");
        #[cfg(feature = "with-rust_decimal")]
        assert_eq!(
            written(vec![sea_orm::prelude::Decimal::new(1250, 2)]),
            r#"["12.50"]"#
        );
    }

    // catalogue B11, B12
    #[cfg(feature = "postgres-vector")]
    #[test]
    fn a_vector_is_a_list_of_numbers() {
        use sea_orm::prelude::PgVector;

        assert_eq!(written(PgVector::from(vec![0.1, 1.0, -2.5])), "[0.1,1.0,-2.5]");
        assert_eq!(written(PgVector::from(vec![])), "[]");
        assert_eq!(written(PgVector::from(vec![f32::NAN, 1.0])), r#"["NaN",1.0]"#);
    }

    // catalogue B2
    #[cfg(feature = "with-ipnetwork")]
    #[test]
    fn addresses_and_networks_are_their_text() {
        use sea_orm::prelude::IpNetwork;

        for text in [
            "10.0.0.0/8",
            "10.0.0.1/32",
            "192.168.1.5/24",
            "2001:db8::/32",
            "::1/128",
        ] {
            assert_eq!(written(text.parse::<IpNetwork>().unwrap()), format!("\"{text}\""));
        }
    }

    // catalogue B2
    #[cfg(feature = "with-mac_address")]
    #[test]
    fn mac_addresses_are_lower_case_with_colons() {
        use sea_orm::sea_query::value::prelude::MacAddress;

        assert_eq!(
            written(MacAddress::new([8, 0, 0x2b, 0xAB, 0xCD, 0xEF])),
            r#""08:00:2b:ab:cd:ef""#
        );
    }

    // catalogue B6
    #[test]
    fn an_unknown_variant_is_named_with_its_way_out_and_without_its_value() {
        // Any value does: only variants of another build come here.
        let error = refuse(&Value::String(Some("secret".to_owned()))).to_string();
        assert_eq!(
            error,
            "a column value of the kind `String` has no JSON form in this build: leave the field out with `exclude`, \
             or give it a JSON form with `json_with`"
        );
        for (variant, feature) in [
            ("Array", "postgres-array"),
            ("Vector", "postgres-vector"),
            ("BigDecimal", "with-bigdecimal"),
            ("Decimal", "with-rust_decimal"),
            ("IpNetwork", "with-ipnetwork"),
            ("MacAddress", "with-mac_address"),
            ("TimeDateTimeWithTimeZone", "with-time"),
        ] {
            assert_eq!(feature_of(variant), Some(feature));
        }
        assert_eq!(feature_of("JiffDate"), None);
    }
}
