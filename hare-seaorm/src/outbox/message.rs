//! An event of one's own, before it is written.

use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;

use crate::capture::KEY_LIMIT;
use crate::error::Error;
use crate::json::{contains_nul, to_text};
use crate::store::insert::NewEvent;
use crate::wakeup::OutboxWakeup;

/// An event of your own, for [`enqueue`](super::enqueue()).
///
/// The payload becomes JSON text here and stays text to the receiver: no digit is lost on the way, and it never passes through
/// `serde_json::Value`.
///
/// ```
/// use hare_seaorm::OutboxMessage;
/// # fn main() -> Result<(), hare_seaorm::Error> {
/// #[derive(serde::Serialize)]
/// struct LoanCreated { loan_id: i32 }
///
/// let message = OutboxMessage::new("library.loan.created", &LoanCreated { loan_id: 5 })?
///     .ordering_key("loan:5")
///     .header("librarian", &17)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct OutboxMessage {
    id: Option<Uuid>,
    topic: String,
    payload: String,
    headers: Vec<(String, String)>,
    ordering_key: Option<String>,
    wakeup: Option<Arc<dyn OutboxWakeup>>,
}

impl std::fmt::Debug for OutboxMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutboxMessage")
            .field("topic", &self.topic)
            .field("payload", &"[redacted]")
            .finish_non_exhaustive()
    }
}

impl OutboxMessage {
    /// A message under `topic`.
    ///
    /// # Errors
    /// [`Error::Validation`] if the payload has no JSON form: `null` itself, a float that is NaN or infinite at any depth, a map
    /// whose keys are not text, nesting that no JSON reader follows.
    pub fn new<T: Serialize + ?Sized>(topic: impl Into<String>, payload: &T) -> Result<Self, Error> {
        let payload = to_text(payload).map_err(|error| error.into_validation("the payload"))?;
        if payload == "null" {
            return Err(Error::validation(
                "the payload",
                "it is null; an event says something, if only `{}`",
            ));
        }
        Ok(Self {
            id: None,
            topic: topic.into(),
            payload,
            headers: Vec::new(),
            ordering_key: None,
            wakeup: None,
        })
    }

    /// Events of one key are delivered strictly in order. At most 255 characters.
    ///
    /// Sequence order is commit order only for writers that exclude each other: lock or write a common row before writing
    /// events that share a key, or a later one may commit, and be delivered, first.
    pub fn ordering_key(mut self, key: impl Into<String>) -> Self {
        self.ordering_key = Some(key.into());
        self
    }

    /// Adds a header: metadata beside the payload, any JSON value. A name given twice keeps the last value.
    ///
    /// # Errors
    /// [`Error::Validation`] if the name is empty, or the value has no JSON form.
    pub fn header<T: Serialize + ?Sized>(
        mut self,
        name: impl Into<String>,
        value: &T,
    ) -> Result<Self, Error> {
        let name = name.into();
        if name.is_empty() {
            return Err(Error::validation(
                "a header's name",
                "it is empty; give the header a name",
            ));
        }
        let value = to_text(value)
            .map_err(|error| error.into_validation(format!("the header `{}`", shown(&name))))?;
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value));
        Ok(self)
    }

    /// The event's id, where the caller knows it already. A UUID of version 7; a new one by default.
    pub fn id(mut self, id: Uuid) -> Self {
        self.id = Some(id);
        self
    }

    /// Tells this wakeup of the event, in place of the outbox's own.
    pub fn wakeup(mut self, wakeup: Arc<dyn OutboxWakeup>) -> Self {
        self.wakeup = Some(wakeup);
        self
    }

    pub(crate) fn own_wakeup(&self) -> Option<Arc<dyn OutboxWakeup>> {
        self.wakeup.clone()
    }

    /// The event, with everything checked that can be checked without the database.
    pub(crate) fn into_event(self, refuse_nul: bool) -> Result<NewEvent, Error> {
        check_key("the topic", &self.topic, refuse_nul)?;
        if let Some(key) = &self.ordering_key {
            check_key("the ordering key", key, refuse_nul)?;
        }
        if let Some(id) = self.id
            && id.get_version_num() != 7
        {
            let reason = format!(
                "{id} is a UUID of version {}; events have version 7, `Uuid::now_v7()`",
                id.get_version_num()
            );
            return Err(Error::validation("the id", reason));
        }
        let headers = object(&self.headers);
        for (what, text) in [("the payload", &self.payload), ("a header", &headers)] {
            if refuse_nul && contains_nul(text) {
                return Err(Error::validation(
                    what,
                    "it holds a NUL character, which PostgreSQL cannot keep in a text",
                ));
            }
        }
        Ok(NewEvent {
            id: self.id.unwrap_or_else(Uuid::now_v7),
            topic: self.topic,
            payload: self.payload,
            headers,
            ordering_key: self.ordering_key,
        })
    }
}

fn check_key(what: &str, text: &str, refuse_nul: bool) -> Result<(), Error> {
    let length = text.chars().count();
    let reason = if text.is_empty() {
        "it is empty".to_owned()
    } else if length > KEY_LIMIT {
        format!(
            "`{}` has {length} characters; at most {KEY_LIMIT} fit",
            shown(text)
        )
    } else if refuse_nul && text.contains('\0') {
        "it holds a NUL character, which PostgreSQL cannot keep in a text".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::validation(what, reason))
}

/// The start of a text, for an error that must stay short.
fn shown(text: &str) -> String {
    const SHOWN: usize = 40;
    let start: String = text.chars().take(SHOWN).collect();
    if start.len() < text.len() {
        format!("{start}...")
    } else {
        start
    }
}

fn object(headers: &[(String, String)]) -> String {
    let mut text = String::from("{");
    for (position, (name, value)) in headers.iter().enumerate() {
        if position > 0 {
            text.push(',');
        }
        crate::json::write_string(&mut text, name);
        text.push(':');
        text.push_str(value);
    }
    text.push('}');
    text
}
