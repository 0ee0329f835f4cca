//! An event's payload as a CloudEvent 1.0 in structured JSON (<https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md>),
//! with the envelope as its `data`. Pure.

use sea_orm::Value;
use sea_orm::prelude::DateTimeUtc;

use crate::error::Error;
use crate::json::{DEPTH_LIMIT, check_depth, write_string, write_value};
use crate::store::insert::NewEvent;

/// What a CloudEvent says of an event beside the event's own columns.
#[derive(Debug)]
pub(super) struct CloudEvent {
    pub(super) app: &'static str,
    pub(super) name: &'static str,
    /// The primary key as text. One that is empty is left out: the attribute may not be.
    pub(super) subject: String,
    pub(super) occurred_at: DateTimeUtc,
}

impl CloudEvent {
    /// Puts the event's payload into the CloudEvent, which becomes its payload.
    ///
    /// # Errors
    /// [`Error::Validation`] if it would nest deeper than receivers read.
    pub(super) fn wrap(&self, event: &mut NewEvent) -> Result<(), Error> {
        let refused = |error: crate::json::EncodeError| error.into_validation("the CloudEvent");
        let mut text = String::with_capacity(event.payload.len() + 256);
        text.push_str("{\"specversion\":\"1.0\",\"id\":");
        write_string(&mut text, &event.id.to_string());
        text.push_str(",\"source\":");
        write_string(
            &mut text,
            &format!("/{}/{}", segment(self.app), segment(self.name)),
        );
        text.push_str(",\"type\":");
        write_string(&mut text, &event.topic);
        if !self.subject.is_empty() {
            text.push_str(",\"subject\":");
            write_string(&mut text, &self.subject);
        }
        text.push_str(",\"time\":");
        write_value(&mut text, &Value::from(self.occurred_at)).map_err(refused)?;
        text.push_str(",\"datacontenttype\":\"application/json\",\"data\":");
        text.push_str(&event.payload);
        text.push('}');
        check_depth(&text, DEPTH_LIMIT).map_err(refused)?;
        event.payload = text;
        Ok(())
    }
}

/// A segment of a URI's path (<https://www.rfc-editor.org/rfc/rfc3986#section-3.3>): what has a meaning there, or none at all, is
/// escaped.
fn segment(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_path_whatever_the_names_are() {
        assert_eq!(segment("library"), "library");
        assert_eq!(segment("a b/ä?"), "a%20b%2F%C3%A4%3F");
    }
}
