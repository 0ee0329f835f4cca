//! What an application serialises itself, as JSON text: payloads, headers, extensions.
//!
//! serde_json alone writes `null` for NaN and for infinity, and follows nested data until the stack ends. Both are
//! refused here while the value is being written, so that no event says something else than its sender meant.
//!
//! Invariant: text made here holds every digit the sender gave, and a receiver that parses with serde_json's defaults
//! can read it. Upheld in [`append`]; tested below.

use std::cell::Cell;
use std::fmt;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use serde::ser::{self, Serialize, Serializer};

use crate::error::{Cause, Error};

/// The most lists and objects, one inside the other, that a JSON text of ours may hold.
///
/// It is what serde_json reads without being told otherwise: its parser counts down from 128 and stops at 0
/// (<https://docs.rs/serde_json/latest/serde_json/struct.Deserializer.html#method.disable_recursion_limit>).
pub(crate) const DEPTH_LIMIT: usize = 127;

/// The same for a document inside an image: the envelope and the image around it are two more.
pub(crate) const DOCUMENT_DEPTH_LIMIT: usize = DEPTH_LIMIT - 2;

/// The most calls into nested values. More than [`DEPTH_LIMIT`], since an `Option` or a newtype nests in Rust and not in
/// JSON; few enough for a thread's stack.
const CALL_LIMIT: usize = 4 * DEPTH_LIMIT;

/// A value that has no JSON form. Its text never quotes the value.
#[derive(Debug, Clone)]
pub(crate) struct EncodeError {
    reason: String,
    source: Option<Cause>,
}

impl EncodeError {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            source: None,
        }
    }

    pub(super) fn caused(
        reason: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self {
            reason: reason.into(),
            source: Some(Arc::new(source)),
        }
    }

    fn too_deep(limit: usize) -> Self {
        Self::new(format!(
            "it nests lists and objects deeper than {limit}, which receivers could not parse"
        ))
    }

    /// The error of the library, about `what` the user gave.
    pub(crate) fn into_validation(self, what: impl Into<String>) -> Error {
        Error::Validation {
            what: what.into(),
            reason: self.reason,
            source: self.source,
        }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for EncodeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|cause| cause as _)
    }
}

/// The compact JSON text of a value of the application's own, in serde's form.
///
/// # Errors
/// If the value holds NaN or an infinity, nests deeper than [`DEPTH_LIMIT`], or cannot be serialised; the cause is kept.
pub(crate) fn to_text<T: Serialize + ?Sized>(value: &T) -> Result<String, EncodeError> {
    let mut text = String::new();
    append(&mut text, value, DEPTH_LIMIT)?;
    Ok(text)
}

/// Appends what [`to_text`] gives, nested at most `depth_limit` deep. After an error the end of `out` is meaningless.
pub(super) fn append<T: Serialize + ?Sized>(
    out: &mut String,
    value: &T,
    depth_limit: usize,
) -> Result<(), EncodeError> {
    let start = out.len();
    let fault = Cell::new(None);
    let mut writer = serde_json::Serializer::new(StringWriter(out));
    let written = value.serialize(Checked {
        inner: &mut writer,
        state: State::new(depth_limit, &fault),
    });
    // Asked first, and even after a success: the application's code may have dropped the error on its way.
    match fault.get() {
        Some(Fault::NotFinite) => {
            return Err(EncodeError::new(
                "it holds NaN or an infinity, for which JSON has no number: send `null` or a text in its place",
            ));
        }
        Some(Fault::TooDeep) => return Err(EncodeError::too_deep(depth_limit)),
        Some(Fault::Failed) | None => {}
    }
    written.map_err(|cause| EncodeError::caused("it could not be serialised", cause))?;
    if fault.get().is_some() {
        return Err(EncodeError::new(
            "a part of it could not be serialised, and its `Serialize` went on as if it had been",
        ));
    }
    check_depth(&out[start..], depth_limit)
}

/// Refuses a JSON text that nests deeper than `limit`. Also sees into the text that a `RawValue` brought along.
pub(crate) fn check_depth(text: &str, limit: usize) -> Result<(), EncodeError> {
    let is_opening = |byte: &u8| matches!(byte, b'[' | b'{');
    // Nearly every text ends here, in a loop that the compiler vectorises.
    if text.bytes().filter(is_opening).count() <= limit {
        return Ok(());
    }
    let (mut depth, mut in_string) = (0_usize, false);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' => {
                bytes.next();
            }
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return Err(EncodeError::too_deep(limit));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// Appends `text` as a JSON string literal, escaped as serde_json does; what is not ASCII stays as it is.
pub(crate) fn write_string(out: &mut String, text: &str) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut written = 0;
    for (position, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0c => "\\f",
            0..0x20 => "",
            _ => continue,
        };
        // Only ASCII is escaped, so both ends lie between characters.
        out.push_str(&text[written..position]);
        if escape.is_empty() {
            // Writing to a `String` does not fail.
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
        written = position + 1;
    }
    out.push_str(&text[written..]);
    out.push('"');
}

/// Whether a string or a key in this JSON text holds the NUL character, which PostgreSQL refuses in `jsonb` and in text
/// (<https://www.postgresql.org/docs/current/datatype-json.html>).
///
/// Valid JSON has NUL in one form only, the escape `\u0000`; in `\\u0000` the backslash itself is escaped.
pub(crate) fn contains_nul(json: &str) -> bool {
    let mut rest = json;
    while let Some(position) = rest.find('\\') {
        let escape = &rest[position + 1..];
        if escape.starts_with("u0000") {
            return true;
        }
        // Steps over the escaped character, which may be a backslash. It is ASCII in valid JSON.
        rest = escape.get(1..).unwrap_or_default();
    }
    false
}

/// What was wrong with the value, noted where it was seen.
#[derive(Debug, Clone, Copy)]
enum Fault {
    NotFinite,
    TooDeep,
    /// Anything else, in a nested value. The text broke off there.
    Failed,
}

/// Where the serialiser stands. Copied into each nested value, so leaving one needs no bookkeeping.
#[derive(Debug, Clone, Copy)]
struct State<'a> {
    fault: &'a Cell<Option<Fault>>,
    depth: usize,
    depth_limit: usize,
    calls: usize,
}

impl<'a> State<'a> {
    fn new(depth_limit: usize, fault: &'a Cell<Option<Fault>>) -> Self {
        Self {
            fault,
            depth: 0,
            depth_limit,
            calls: 0,
        }
    }

    /// One level further down in Rust, `levels` in JSON. Asked before the nested value is touched, so the stack holds.
    fn down<E: ser::Error>(mut self, levels: usize) -> Result<Self, E> {
        self.depth += levels;
        self.calls += 1;
        // One more is let through: serde_json's own raw text and numbers arrive as a struct and nest nothing. What is really
        // too deep by one is seen in the text.
        if self.depth > self.depth_limit + 1 || self.calls > CALL_LIMIT {
            return Err(self.refuse(Fault::TooDeep));
        }
        Ok(self)
    }

    fn finite<E: ser::Error>(self, is_finite: bool) -> Result<(), E> {
        if is_finite {
            Ok(())
        } else {
            Err(self.refuse(Fault::NotFinite))
        }
    }

    fn refuse<E: ser::Error>(self, fault: Fault) -> E {
        self.fault.set(Some(fault));
        E::custom("refused")
    }
}

/// A serialiser that checks floats and depth and hands everything on to `inner`.
struct Checked<'a, S> {
    inner: S,
    state: State<'a>,
}

/// A nested value: serialises through [`Checked`] whatever serialiser it is given.
struct Nested<'a, 'v, T: ?Sized> {
    value: &'v T,
    state: State<'a>,
}

impl<T: Serialize + ?Sized> Serialize for Nested<'_, '_, T> {
    fn serialize<S: Serializer>(&self, inner: S) -> Result<S::Ok, S::Error> {
        let written = self.value.serialize(Checked {
            inner,
            state: self.state,
        });
        if written.is_err() && self.state.fault.get().is_none() {
            self.state.fault.set(Some(Fault::Failed));
        }
        written
    }
}

/// Hands plain values on.
macro_rules! pass {
    ($($method:ident($kind:ty)),+ $(,)?) => {
        $(fn $method(self, value: $kind) -> Result<S::Ok, S::Error> {
            self.inner.$method(value)
        })+
    };
}

impl<'a, S: Serializer> Serializer for Checked<'a, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Checked<'a, S::SerializeSeq>;
    type SerializeTuple = Checked<'a, S::SerializeTuple>;
    type SerializeTupleStruct = Checked<'a, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Checked<'a, S::SerializeTupleVariant>;
    type SerializeMap = Checked<'a, S::SerializeMap>;
    type SerializeStruct = Checked<'a, S::SerializeStruct>;
    type SerializeStructVariant = Checked<'a, S::SerializeStructVariant>;

    pass!(
        serialize_bool(bool),
        serialize_i8(i8),
        serialize_i16(i16),
        serialize_i32(i32),
        serialize_i64(i64),
        serialize_i128(i128),
        serialize_u8(u8),
        serialize_u16(u16),
        serialize_u32(u32),
        serialize_u64(u64),
        serialize_u128(u128),
        serialize_char(char),
        serialize_str(&str),
        serialize_bytes(&[u8]),
        serialize_unit_struct(&'static str),
    );

    fn serialize_f32(self, value: f32) -> Result<S::Ok, S::Error> {
        self.state.finite(value.is_finite())?;
        self.inner.serialize_f32(value)
    }

    fn serialize_f64(self, value: f64) -> Result<S::Ok, S::Error> {
        self.state.finite(value.is_finite())?;
        self.inner.serialize_f64(value)
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_none()
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.serialize_some(&Nested {
            value,
            state: self.state.down(0)?,
        })
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_variant(name, index, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_newtype_struct(
            name,
            &Nested {
                value,
                state: self.state.down(0)?,
            },
        )
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let nested = Nested {
            value,
            state: self.state.down(1)?,
        };
        self.inner
            .serialize_newtype_variant(name, index, variant, &nested)
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        Ok(Checked {
            state: self.state.down(1)?,
            inner: self.inner.serialize_seq(len)?,
        })
    }

    fn serialize_tuple(self, len: usize) -> Result<Self::SerializeTuple, S::Error> {
        Ok(Checked {
            state: self.state.down(1)?,
            inner: self.inner.serialize_tuple(len)?,
        })
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        Ok(Checked {
            state: self.state.down(1)?,
            inner: self.inner.serialize_tuple_struct(name, len)?,
        })
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        let state = self.state.down(2)?;
        Ok(Checked {
            state,
            inner: self.inner.serialize_tuple_variant(name, index, variant, len)?,
        })
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        Ok(Checked {
            state: self.state.down(1)?,
            inner: self.inner.serialize_map(len)?,
        })
    }

    fn serialize_struct(self, name: &'static str, len: usize) -> Result<Self::SerializeStruct, S::Error> {
        Ok(Checked {
            state: self.state.down(1)?,
            inner: self.inner.serialize_struct(name, len)?,
        })
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        let state = self.state.down(2)?;
        Ok(Checked {
            state,
            inner: self.inner.serialize_struct_variant(name, index, variant, len)?,
        })
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.collect_str(value)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// The parts of a list, one method each.
macro_rules! list {
    ($($role:ident :: $method:ident),+ $(,)?) => {
        $(impl<C: ser::$role> ser::$role for Checked<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
                self.inner.$method(&Nested { value, state: self.state })
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        })+
    };
}

/// The fields of a struct, one method each.
macro_rules! fields {
    ($($role:ident),+ $(,)?) => {
        $(impl<C: ser::$role> ser::$role for Checked<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), C::Error> {
                self.inner.serialize_field(key, &Nested { value, state: self.state })
            }

            fn skip_field(&mut self, key: &'static str) -> Result<(), C::Error> {
                self.inner.skip_field(key)
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        })+
    };
}

list!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
);
fields!(SerializeStruct, SerializeStructVariant);

impl<C: ser::SerializeMap> ser::SerializeMap for Checked<'_, C> {
    type Ok = C::Ok;
    type Error = C::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), C::Error> {
        self.inner.serialize_key(&Nested {
            value: key,
            state: self.state,
        })
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
        self.inner.serialize_value(&Nested {
            value,
            state: self.state,
        })
    }

    fn serialize_entry<K: Serialize + ?Sized, V: Serialize + ?Sized>(
        &mut self,
        key: &K,
        value: &V,
    ) -> Result<(), C::Error> {
        self.inner.serialize_entry(
            &Nested {
                value: key,
                state: self.state,
            },
            &Nested {
                value,
                state: self.state,
            },
        )
    }

    fn end(self) -> Result<C::Ok, C::Error> {
        self.inner.end()
    }
}

/// Appends to a `String` what serde_json writes: whole characters, so nothing is copied to be checked.
struct StringWriter<'a>(&'a mut String);

impl io::Write for StringWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text =
            std::str::from_utf8(bytes).map_err(|cause| io::Error::new(io::ErrorKind::InvalidData, cause))?;
        self.0.push_str(text);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};
    use std::error::Error as _;

    use serde::Serialize;
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    /// One of every shape serde knows, around a value.
    #[derive(Serialize)]
    enum Shape<T> {
        Unit,
        Newtype(T),
        Tuple(T, T),
        Struct { field: T },
    }

    #[derive(Serialize)]
    struct Newtype<T>(T);

    #[derive(Serialize)]
    struct Tuple<T>(T, T);

    #[derive(Serialize)]
    struct UnitStruct;

    #[derive(Serialize)]
    struct Struct<T> {
        #[serde(rename = "Größe")]
        field: T,
        #[serde(skip_serializing_if = "Option::is_none")]
        skipped: Option<T>,
    }

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn nested(depth: usize) -> String {
        "[".repeat(depth) + &"]".repeat(depth)
    }

    /// `depth` lists in one another, outside of any parser's limit.
    fn nested_lists(depth: usize) -> Value {
        (1..depth).fold(json!([]), |inner, _| Value::Array(vec![inner]))
    }

    /// Every way to hold a value that serialises.
    fn holders<T: Serialize + Clone>(value: T) -> Vec<Result<String, EncodeError>> {
        vec![
            to_text(&value),
            to_text(&Some(&value)),
            to_text(&vec![&value]),
            to_text(&(0, &value)),
            to_text(&Newtype(&value)),
            to_text(&Tuple(&value, &value)),
            to_text(&Struct {
                field: &value,
                skipped: None,
            }),
            to_text(&BTreeMap::from([("key", &value)])),
            to_text(&Shape::Newtype(&value)),
            to_text(&Shape::Tuple(&value, &value)),
            to_text(&Shape::Struct { field: &value }),
            to_text(&BTreeMap::from([("key", vec![Some(Newtype(&value))])])),
        ]
    }

    // catalogue B1
    #[test]
    fn text_is_compact_and_keeps_what_is_not_ascii() {
        let value = Struct {
            field: "ß\u{1F407}\u{7f}",
            skipped: None,
        };
        assert_eq!(to_text(&value).unwrap(), "{\"Größe\":\"ß\u{1F407}\u{7f}\"}");
        let map = BTreeMap::from([("ключ", vec![1, 2])]);
        assert_eq!(to_text(&map).unwrap(), r#"{"ключ":[1,2]}"#);
    }

    // catalogue B1
    #[test]
    fn every_shape_is_written_as_serde_json_writes_it() {
        macro_rules! same {
            ($($value:expr),+ $(,)?) => {
                $(assert_eq!(to_text(&$value).unwrap(), serde_json::to_string(&$value).unwrap());)+
            };
        }
        same!(
            (true, false, 'x', '"', "text", ()),
            (1_i8, 2_i16, 3_i32, 4_i64, 5_u8, 6_u16, 7_u32, 8_u64),
            (0.1_f32, 0.1_f64, -0.0_f64, 1e300, f64::MIN_POSITIVE, f32::MAX),
            Shape::<u8>::Unit,
            Shape::Newtype(1),
            Shape::Tuple(1, 2),
            Shape::Struct {
                field: [Some(1), None]
            },
            Newtype(Newtype(3)),
            Tuple("a", "b"),
            UnitStruct,
            Struct {
                field: 1,
                skipped: Some(2)
            },
            BTreeMap::from([(1_u64, "a"), (2, "b")]),
            BTreeMap::from([('a', 1.5_f32)]),
            b"bytes",
            std::net::Ipv6Addr::LOCALHOST,
            uuid::Uuid::max(),
            json!({"a": [1, -2, 3.5, "x", null, {"b": {}}], "c": u64::MAX}),
        );
    }

    // catalogue B7
    #[test]
    fn nan_and_infinity_are_refused_in_every_position() {
        for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for refused in holders(float).into_iter().chain(holders(float as f32)) {
                let error = refused.unwrap_err();
                assert!(error.to_string().contains("NaN or an infinity"), "{error}");
            }
        }
        for accepted in holders(1.5_f64).into_iter().chain(holders(1.5_f32)) {
            assert!(accepted.unwrap().contains("1.5"));
        }
    }

    // catalogue B7
    #[test]
    fn nan_two_levels_deep_and_as_a_key_is_refused() {
        let value = HashMap::from([("lines", vec![HashMap::from([("price", f64::NAN)])])]);
        assert!(to_text(&value).is_err());

        struct Key;
        impl Serialize for Key {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_f64(f64::INFINITY)
            }
        }
        struct Keyed;
        impl Serialize for Keyed {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map([(Key, 1)])
            }
        }
        assert!(
            to_text(&Keyed)
                .unwrap_err()
                .to_string()
                .contains("NaN or an infinity")
        );
    }

    // catalogue B6, B7
    #[test]
    fn a_fault_whose_error_the_application_dropped_is_still_refused() {
        struct Careless<T>(T);
        impl<T: Serialize> Serialize for Careless<T> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeSeq as _;
                let mut list = serializer.serialize_seq(None)?;
                let _ = list.serialize_element(&self.0);
                list.end()
            }
        }
        assert!(
            to_text(&Careless(f64::NAN))
                .unwrap_err()
                .to_string()
                .contains("NaN")
        );
        assert!(
            to_text(&Careless(HashMap::from([(vec![1], 1)])))
                .unwrap_err()
                .to_string()
                .contains("a part of it")
        );
        assert_eq!(to_text(&Careless(1)).unwrap(), "[1]");
    }

    // catalogue B6
    #[test]
    fn a_failing_serialisation_keeps_its_cause() {
        let error = to_text(&HashMap::from([(vec![1], "a key that is a list")])).unwrap_err();
        assert_eq!(error.to_string(), "it could not be serialised");
        assert_eq!(error.source().unwrap().to_string(), "key must be a string");

        match error.into_validation("the payload") {
            Error::Validation { what, reason, source } => {
                assert_eq!(
                    (what.as_str(), reason.as_str()),
                    ("the payload", "it could not be serialised")
                );
                assert!(source.unwrap().downcast_ref::<serde_json::Error>().is_some());
            }
            other => panic!("{other:?}"),
        }
    }

    // catalogue B9
    #[test]
    fn integers_beyond_64_bits_keep_every_digit() {
        assert_eq!(to_text(&(1_u128 << 70)).unwrap(), "1180591620717411303424");
        assert_eq!(
            to_text(&[i128::MIN]).unwrap(),
            "[-170141183460469231731687303715884105728]"
        );
        assert_eq!(
            to_text(&Some(u128::MAX)).unwrap(),
            "340282366920938463463374607431768211455"
        );
        assert_eq!(
            to_text(&(u64::MAX, i64::MIN)).unwrap(),
            "[18446744073709551615,-9223372036854775808]"
        );
    }

    // catalogue B9
    #[test]
    fn raw_text_passes_to_the_letter() {
        for text in [
            "1e400",
            "1180591620717411303424",
            "0.1000",
            r#"{"b":1, "a":[ 2 ],"b":3}"#,
            r#""\u00e9""#,
        ] {
            assert_eq!(to_text(&raw(text)).unwrap(), text);
            let held = to_text(&Struct {
                field: vec![raw(text)],
                skipped: None,
            })
            .unwrap();
            assert_eq!(held, format!("{{\"Größe\":[{text}]}}"));
        }
    }

    // catalogue B9
    #[test]
    fn what_is_accepted_at_the_depth_limit_is_what_serde_json_parses() {
        for depth in [1, DEPTH_LIMIT - 1, DEPTH_LIMIT, DEPTH_LIMIT + 1, DEPTH_LIMIT + 2] {
            let parses = serde_json::from_str::<Value>(&nested(depth)).is_ok();
            assert_eq!(parses, depth <= DEPTH_LIMIT);
            let written = to_text(&nested_lists(depth));
            assert_eq!(written.is_ok(), parses, "{depth} lists");
            assert_eq!(
                to_text(&raw(&nested(depth))).is_ok(),
                parses,
                "{depth} lists in raw text"
            );
            assert_eq!(check_depth(&nested(depth), DEPTH_LIMIT).is_ok(), parses);
        }
        assert!(
            to_text(&[raw(&nested(DEPTH_LIMIT))]).is_err(),
            "raw text nests inside what holds it"
        );
    }

    // catalogue B9
    #[test]
    fn a_raw_number_is_no_deeper_than_another() {
        let around = |inner: Value| (1..DEPTH_LIMIT).fold(json!([inner]), |inner, _| json!([inner]));
        assert!(to_text(&around(json!(1))).is_ok());

        struct Lists(usize);
        impl Serialize for Lists {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self.0 {
                    0 => raw("1e400").serialize(serializer),
                    _ => serializer.collect_seq([Lists(self.0 - 1)]),
                }
            }
        }
        assert!(to_text(&Lists(DEPTH_LIMIT)).unwrap().contains("[1e400]"));
        assert!(to_text(&Lists(DEPTH_LIMIT + 1)).is_err());
    }

    // catalogue B9
    #[test]
    fn a_hundred_thousand_nested_lists_are_an_error_and_no_crash() {
        let lists = nested_lists(100_000);
        let refused = to_text(&lists);
        // Its own `drop` would recurse as deep.
        std::mem::forget(lists);
        assert!(refused.unwrap_err().to_string().contains("deeper than 127"));
        assert!(to_text(&raw(&nested(100_000))).is_err());
    }

    // catalogue B9
    #[test]
    fn endless_nesting_that_writes_nothing_is_an_error_and_no_crash() {
        #[derive(Clone, Copy)]
        enum Endless {
            Some,
            Newtype,
            Variant,
            Map,
        }
        impl Serialize for Endless {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    Self::Some => serializer.serialize_some(self),
                    Self::Newtype => serializer.serialize_newtype_struct("Endless", self),
                    Self::Variant => serializer.serialize_newtype_variant("Endless", 0, "Variant", self),
                    Self::Map => serializer.collect_map([("key", self)]),
                }
            }
        }
        for endless in [Endless::Some, Endless::Newtype, Endless::Variant, Endless::Map] {
            assert!(to_text(&endless).unwrap_err().to_string().contains("deeper than"));
        }
    }

    // catalogue B9
    #[test]
    fn brackets_in_strings_are_not_nesting() {
        let text = to_text(&["[{".repeat(500), "\"[\\{".repeat(500)]).unwrap();
        assert_eq!(
            text,
            serde_json::to_string(&["[{".repeat(500), "\"[\\{".repeat(500)]).unwrap()
        );
        let wide: Vec<Vec<u8>> = vec![vec![]; 500];
        assert!(to_text(&wide).is_ok());
    }

    // catalogue B1
    #[test]
    fn string_literals_are_those_of_serde_json() {
        let all: String = ('\0'..='\u{2100}').chain("\u{fffd}\u{1f407}".chars()).collect();
        for text in [
            "",
            "plain",
            "a\"b\\c/d",
            "\n\r\t\u{8}\u{c}\u{1}\u{1f}\u{7f}\0",
            "\"",
            "é\né",
            &all,
        ] {
            let mut out = "kept:".to_owned();
            write_string(&mut out, text);
            assert_eq!(out, format!("kept:{}", serde_json::to_string(text).unwrap()));
        }
    }

    // catalogue B10
    #[test]
    fn an_escaped_nul_is_told_from_an_escaped_backslash() {
        for (text, has_nul) in [
            ("a\0b", true),
            ("\0", true),
            ("\\\0", true),
            ("\\u0000", false),
            ("\\\\u0000", false),
            ("\u{1}\u{10}\n\\", false),
            ("u0000", false),
            ("", false),
            ("é\\", false),
        ] {
            assert_eq!(contains_nul(&to_text(text).unwrap()), has_nul, "{text:?}");
            assert_eq!(
                contains_nul(&to_text(&BTreeMap::from([(text, 1)])).unwrap()),
                has_nul,
                "{text:?} as a key"
            );
        }
        // Every run of backslashes and the letters after it, against what a parser says.
        for backslashes in 0..6 {
            for tail in ["u0000", "u0001", "n", "\\u0000", ""] {
                let text = format!("\"{}{tail}\"", "\\".repeat(backslashes));
                if let Ok(parsed) = serde_json::from_str::<String>(&text) {
                    assert_eq!(contains_nul(&text), parsed.contains('\0'), "{text}");
                }
            }
        }
    }
}
