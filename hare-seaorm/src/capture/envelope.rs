//! A change as an event: its topic, its ordering key and its JSON text. Pure; no SQL.

use sea_orm::prelude::DateTimeUtc;
use sea_orm::sea_query::ValueTuple;
use sea_orm::{EntityTrait, Iterable, ModelTrait, PrimaryKeyToColumn, Value};
use sha2::{Digest, Sha256};

use super::change::CapturedChange;
use super::cloud_events::CloudEvent;
use super::declaration::{CapturedEntity, Declaration, EnvelopeForm, Operation, Payload, Piece};
use crate::error::Error;
use crate::json::{write_string, write_value};
use crate::outbox::check_key;
use crate::store::insert::NewEvent;

/// The most characters that a topic or a key may hold.
pub(crate) const KEY_LIMIT: usize = 255;

/// The keys of an envelope; none else may have their names, whatever the payload mode.
pub(crate) const ENVELOPE_KEYS: [&str; 7] = [
    "model",
    "operation",
    "pk",
    "changed",
    "before",
    "after",
    "occurred_at",
];

/// How much of a too long templated key is kept before the hash of the whole.
const KEPT_OF_LONG_KEY: usize = KEY_LIMIT - 1 - 64;

/// What a write did to one row.
#[derive(Debug)]
pub(crate) struct Change<'a, E: EntityTrait> {
    pub(crate) operation: Operation,
    /// The primary key's values, in the order of its columns.
    pub(crate) key: Vec<Value>,
    /// The columns that the caller named, by their fields' names; `None` where that has no meaning.
    pub(crate) changed: Option<Vec<&'static str>>,
    /// The row before; held only where the payload mode wants it.
    pub(crate) before: Option<&'a E::Model>,
    /// The row after.
    pub(crate) after: Option<&'a E::Model>,
}

/// The primary key's values of a row.
pub(crate) fn key_of<M: ModelTrait>(row: &M) -> Vec<Value> {
    <M::Entity as EntityTrait>::PrimaryKey::iter()
        .map(|key| row.get(key.into_column()))
        .collect()
}

impl<'a, E: CapturedEntity> Change<'a, E> {
    /// A row was inserted, and is this.
    pub(crate) fn inserted(row: &'a E::Model) -> Self {
        Self {
            operation: Operation::Insert,
            key: key_of(row),
            changed: None,
            before: None,
            after: Some(row),
        }
    }

    /// A row of this key was inserted.
    pub(crate) fn inserted_key(key: Vec<Value>) -> Self {
        Self {
            operation: Operation::Insert,
            key,
            changed: None,
            before: None,
            after: None,
        }
    }

    /// The row of this key was deleted, and was this.
    pub(crate) fn deleted(key: Vec<Value>, before: Option<&'a E::Model>) -> Self {
        Self {
            operation: Operation::Delete,
            key,
            changed: None,
            before,
            after: None,
        }
    }

    /// The event of this change, of which the declaration's functions see `shown`.
    ///
    /// # Errors
    /// [`Error::Validation`] if a value has no JSON form, naming its column and never the value, or a function gives a topic or key
    /// that does not fit.
    pub(crate) fn draft(
        &self,
        occurred_at: DateTimeUtc,
        headers: &str,
        shown: Option<&CapturedChange<E>>,
    ) -> Result<Draft, Error> {
        let declaration = E::declaration();
        let event = NewEvent {
            id: uuid::Uuid::now_v7(),
            topic: match (declaration.topic_with, shown) {
                (Some(function), Some(change)) => checked("the topic", function(change)?)?,
                _ => self.templated_topic(declaration)?,
            },
            payload: self.envelope(declaration, occurred_at)?,
            headers: headers.to_owned(),
            ordering_key: match (declaration.ordering_key_with, shown) {
                (Some(function), Some(change)) => function(change)?
                    .map(|key| checked("the ordering key", key))
                    .transpose()?,
                _ => self.templated_ordering_key(declaration)?,
            },
            ..NewEvent::default()
        };
        let cloud_event = match declaration.envelope {
            EnvelopeForm::Plain => None,
            EnvelopeForm::CloudEvents => Some(CloudEvent {
                app: declaration.app,
                name: &declaration.name,
                subject: self.key_text()?,
                occurred_at,
            }),
        };
        Ok(Draft { event, cloud_event })
    }

    pub(super) fn templated_topic(&self, declaration: &Declaration<E>) -> Result<String, Error> {
        Ok(shorten(self.render(declaration, &declaration.topic)?))
    }

    pub(super) fn templated_ordering_key(
        &self,
        declaration: &Declaration<E>,
    ) -> Result<Option<String>, Error> {
        match &declaration.ordering_key {
            Some(template) => Ok(Some(shorten(self.render(declaration, template)?))),
            None => Ok(None),
        }
    }

    pub(super) fn envelope(
        &self,
        declaration: &Declaration<E>,
        occurred_at: DateTimeUtc,
    ) -> Result<String, Error> {
        let mut text = String::with_capacity(256);
        text.push_str("{\"model\":");
        write_string(&mut text, &declaration.label());
        text.push_str(",\"operation\":\"");
        text.push_str(self.operation.as_str());
        text.push_str("\",\"pk\":");
        self.write_key(&mut text, declaration)?;
        text.push_str(",\"changed\":");
        match &self.changed {
            None => text.push_str("null"),
            Some(names) => write_list(&mut text, names),
        }
        if declaration.payload != Payload::Keys {
            text.push_str(",\"before\":");
            write_image(&mut text, declaration, self.before)?;
            text.push_str(",\"after\":");
            write_image(&mut text, declaration, self.after)?;
        }
        text.push_str(",\"occurred_at\":");
        write(&mut text, "occurred_at", &Value::from(occurred_at))?;
        text.push('}');
        Ok(text)
    }

    /// The one value of a key, or an object by field for a composite one.
    fn write_key(&self, text: &mut String, declaration: &Declaration<E>) -> Result<(), Error> {
        let names = key_names(declaration);
        if let [value] = self.key.as_slice() {
            return write(text, names.first().copied().unwrap_or_default(), value);
        }
        for (position, (name, value)) in names.iter().zip(&self.key).enumerate() {
            text.push(if position == 0 { '{' } else { ',' });
            write_string(text, name);
            text.push(':');
            write(text, name, value)?;
        }
        text.push('}');
        Ok(())
    }

    fn render(&self, declaration: &Declaration<E>, template: &[Piece]) -> Result<String, Error> {
        let mut text = String::new();
        for piece in template {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::App => text.push_str(&declaration.app.to_lowercase()),
                Piece::Model => text.push_str(&declaration.name.to_lowercase()),
                Piece::Table => text.push_str(&declaration.table()),
                Piece::Operation => text.push_str(self.operation.past_tense()),
                Piece::Label => text.push_str(&declaration.label()),
                Piece::PrimaryKey => text.push_str(&self.key_text()?),
            }
        }
        Ok(text)
    }

    /// The parts of the primary key joined by `:`.
    fn key_text(&self) -> Result<String, Error> {
        let mut text = String::new();
        for (position, value) in self.key.iter().enumerate() {
            if position > 0 {
                text.push(':');
            }
            text.push_str(&plain_text(value)?);
        }
        Ok(text)
    }
}

/// An event to which the declaration's code may still add.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) event: NewEvent,
    cloud_event: Option<CloudEvent>,
}

impl Draft {
    /// The event as it is written.
    ///
    /// # Errors
    /// [`Error::Validation`] if its payload nests deeper than receivers read.
    pub(crate) fn finish(mut self) -> Result<NewEvent, Error> {
        if let Some(cloud_event) = &self.cloud_event {
            cloud_event.wrap(&mut self.event)?;
        }
        Ok(self.event)
    }
}

/// A function's topic or key is not shortened: it says what it says.
fn checked(what: &str, text: String) -> Result<String, Error> {
    check_key(what, &text, false)?;
    Ok(text)
}

/// A key's values in SeaORM's form.
pub(super) fn value_tuple(mut key: Vec<Value>) -> ValueTuple {
    if key.len() > 3 {
        return ValueTuple::Many(key);
    }
    let mut next = key.drain(..);
    match (next.next(), next.next(), next.next()) {
        (Some(a), Some(b), Some(c)) => ValueTuple::Three(a, b, c),
        (Some(a), Some(b), None) => ValueTuple::Two(a, b),
        (Some(a), ..) => ValueTuple::One(a),
        (None, ..) => ValueTuple::Many(Vec::new()),
    }
}

/// The fields of the primary key, in the order of its columns.
fn key_names<E: EntityTrait>(declaration: &Declaration<E>) -> Vec<&'static str> {
    E::PrimaryKey::iter()
        .map(|key| declaration.field_of(key.into_column()))
        .collect()
}

fn write_image<E: CapturedEntity>(
    text: &mut String,
    declaration: &Declaration<E>,
    row: Option<&E::Model>,
) -> Result<(), Error> {
    let Some(row) = row else {
        text.push_str("null");
        return Ok(());
    };
    text.push('{');
    for (position, (name, column)) in declaration.held.iter().enumerate() {
        if position > 0 {
            text.push(',');
        }
        write_string(text, name);
        text.push(':');
        match declaration.json_form(name) {
            Some(form) => text.push_str(form(row)?.as_str()),
            None => write(text, name, &row.get(*column))?,
        }
    }
    text.push('}');
    Ok(())
}

fn write_list(text: &mut String, names: &[&str]) {
    text.push('[');
    for (position, name) in names.iter().enumerate() {
        if position > 0 {
            text.push(',');
        }
        write_string(text, name);
    }
    text.push(']');
}

fn write(text: &mut String, field: &str, value: &Value) -> Result<(), Error> {
    write_value(text, value).map_err(|error| error.into_validation(format!("the column `{field}`")))
}

/// A key's value as a person would write it: its JSON form, without the quotes of a text.
fn plain_text(value: &Value) -> Result<String, Error> {
    if let Value::String(Some(text)) = value {
        return Ok(text.clone());
    }
    let mut json = String::new();
    write(&mut json, "primary key", value)?;
    if json.starts_with('"') {
        json = serde_json::from_str(&json).unwrap_or(json);
    }
    Ok(json)
}

/// A templated key that is too long keeps its start and ends in `#` and the SHA-256 of the whole, so that two that differ
/// anywhere stay two.
fn shorten(key: String) -> String {
    if key.len() <= KEY_LIMIT || key.chars().count() <= KEY_LIMIT {
        return key;
    }
    let mut short: String = key.chars().take(KEPT_OF_LONG_KEY).collect();
    short.push('#');
    for byte in Sha256::digest(key.as_bytes()) {
        short.push_str(&format!("{byte:02x}"));
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    // catalogue F9
    #[test]
    fn a_long_key_keeps_its_start_and_the_hash_of_the_whole() {
        let long = "ä".repeat(300);
        let short = shorten(long.clone());
        assert_eq!(short.chars().count(), KEY_LIMIT);
        assert!(short.starts_with(&"ä".repeat(190)));
        let hash: String = Sha256::digest(long.as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(short, format!("{}#{hash}", "ä".repeat(190)));
        assert_ne!(short, shorten(format!("{}b", "ä".repeat(299))));
        assert_eq!(shorten("ä".repeat(255)), "ä".repeat(255));
    }
}
