//! An event of one's own, before it is written.

use std::marker::PhantomData;
use std::sync::Arc;

use chrono::Datelike;
use sea_orm::prelude::DateTimeUtc;
use sea_orm::{DbBackend, IdenStatic, Value};
use serde::Serialize;
use uuid::Uuid;

use super::columns::{KEPT, OwnColumns};
use super::entity;
use super::headers::Headers;
use super::model::OutboxEntity;

use crate::capture::KEY_LIMIT;
use crate::context;
use crate::error::{ConfigError, Error};
use crate::json::{contains_nul, to_text};
use crate::store::idempotency::key_of;
use crate::store::insert::NewEvent;
use crate::wakeup::OutboxWakeup;

/// An event of your own, for [`enqueue`](super::enqueue()) and [`enqueue_many`](super::enqueue_many()).
///
/// The payload becomes JSON text here and stays text to the receiver: no digit is lost on the way, and it never passes through
/// `serde_json::Value`. Its form is what serde gives it; [`hare_seaorm::json`](crate::json) has helpers for the forms that captured
/// columns have.
///
/// What can be wrong with a message is told when it is written, before anything is.
///
/// ```
/// use hare_seaorm::OutboxMessage;
/// # fn main() -> Result<(), hare_seaorm::Error> {
/// #[derive(serde::Serialize)]
/// struct LoanCreated { loan_id: i32 }
///
/// let message = OutboxMessage::new("library.loan.created", &LoanCreated { loan_id: 5 })?
///     .ordering_key("loan:5")
///     .idempotency_key("loan:5:created")
///     .header("librarian", &17)?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct OutboxMessage<E = entity::Entity> {
    draft: Draft,
    outbox: PhantomData<fn() -> E>,
}

/// A message as it was given.
#[derive(Clone)]
struct Draft {
    id: Option<Uuid>,
    topic: String,
    payload: String,
    headers: Headers,
    ordering_key: Option<String>,
    idempotency_key: Option<String>,
    not_before: Option<DateTimeUtc>,
    max_attempts: Option<u32>,
    own: OwnColumns,
    wakeup: Option<Arc<dyn OutboxWakeup>>,
}

impl<E> Clone for OutboxMessage<E> {
    fn clone(&self) -> Self {
        Self {
            draft: self.draft.clone(),
            outbox: PhantomData,
        }
    }
}

impl<E> std::fmt::Debug for OutboxMessage<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutboxMessage")
            .field("topic", &self.draft.topic)
            .field("payload", &"[redacted]")
            .finish_non_exhaustive()
    }
}

impl OutboxMessage {
    /// A message under `topic`, for the built-in outbox.
    ///
    /// # Errors
    /// [`Error::Validation`] if the payload has no JSON form: `null` itself, a float that is NaN or infinite at any depth, a map
    /// whose keys are not text, nesting that no JSON reader follows.
    pub fn new<T: Serialize + ?Sized>(topic: impl Into<String>, payload: &T) -> Result<Self, Error> {
        Self::for_outbox(topic, payload)
    }

    /// A message for another outbox: `OutboxMessage::for_outbox::<my_outbox::Entity>(topic, &payload)`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn for_outbox<E: OutboxEntity>(
        topic: impl Into<String>,
        payload: &(impl Serialize + ?Sized),
    ) -> Result<OutboxMessage<E>, Error> {
        let payload = to_text(payload).map_err(|error| error.into_validation("the payload"))?;
        if payload == "null" {
            return Err(Error::validation(
                "the payload",
                "it is null; an event says something, if only `{}`",
            ));
        }
        Ok(OutboxMessage {
            draft: Draft {
                id: None,
                topic: topic.into(),
                payload,
                headers: Headers::default(),
                ordering_key: None,
                idempotency_key: None,
                not_before: None,
                max_attempts: None,
                own: OwnColumns::default(),
                wakeup: None,
            },
            outbox: PhantomData,
        })
    }
}

impl<E: OutboxEntity> OutboxMessage<E> {
    fn with(mut self, change: impl FnOnce(&mut Draft)) -> Self {
        change(&mut self.draft);
        self
    }

    /// Events of one key are delivered strictly in order. At most 255 characters.
    ///
    /// Sequence order is commit order only for writers that exclude each other: lock or write a common row before writing
    /// events that share a key, or a later one may commit, and be delivered, first.
    pub fn ordering_key(self, key: impl Into<String>) -> Self {
        let key = key.into();
        self.with(|draft| draft.ordering_key = Some(key))
    }

    /// At most one event exists per key: the first one written under it stays, and writing again gives that one back. At most
    /// 255 characters, compared to the letter.
    ///
    /// A key is used for as long as its event is in the table, delivered or not. Cleaning up frees it, so the time that delivered
    /// events are kept is the time in which a repetition is recognised.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        let key = key.into();
        self.with(|draft| draft.idempotency_key = Some(key))
    }

    /// The event is not delivered before this time, and holds back later ones of its ordering key until then like any that is
    /// undelivered. Compared with the database's clock. From the year 1000 to 9999. A relay finds that the time has come at its next
    /// poll, its [`poll_interval`](crate::OutboxRelay::poll_interval) later at most if it has nothing else to do.
    pub fn not_before(self, time: impl Into<DateTimeUtc>) -> Self {
        let time = time.into();
        self.with(|draft| draft.not_before = Some(time))
    }

    /// How often the event may fail before it is a dead letter, in place of the relay's own number. From 1 to 10,000.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.with(|draft| draft.max_attempts = Some(attempts))
    }

    /// Adds a header: metadata beside the payload, any JSON value. A name given twice keeps the last value, and counts more than
    /// one of the same name that [`with_context`](crate::capture::with_context) sets around the call.
    ///
    /// # Errors
    /// [`Error::Validation`] if the name is empty, or the value has no JSON form.
    pub fn header<T: Serialize + ?Sized>(self, name: impl Into<String>, value: &T) -> Result<Self, Error> {
        let mut message = self;
        message.draft.headers.set(name, value)?;
        Ok(message)
    }

    /// Sets a column that the outbox has beside the library's, to a value of its field's type; an integer may have another width. A
    /// column that is not set has its default, or NULL. Given twice, the last value counts.
    pub fn set(self, column: E::Column, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.with(|draft| draft.own.set::<E>(column, value))
    }

    /// The event's id, where the caller knows it already. A UUID of version 7; a new one by default.
    pub fn id(self, id: Uuid) -> Self {
        self.with(|draft| draft.id = Some(id))
    }

    /// Tells this wakeup of the event, in place of the outbox's own.
    pub fn wakeup(self, wakeup: Arc<dyn OutboxWakeup>) -> Self {
        self.with(|draft| draft.wakeup = Some(wakeup))
    }

    /// Who is told of the event: the wakeup of this call, or the outbox's own.
    pub(crate) fn wakeup_or_default(&self) -> Option<Arc<dyn OutboxWakeup>> {
        self.draft.wakeup.clone().or_else(E::wakeup)
    }

    /// The event, with everything checked that can be checked without the database.
    pub(crate) fn into_event(self, backend: DbBackend) -> Result<NewEvent, Error> {
        let refuse_nul = backend == DbBackend::Postgres;
        let draft = self.draft;
        check_key("the topic", &draft.topic, refuse_nul)?;
        if let Some(key) = &draft.ordering_key {
            check_key("the ordering key", key, refuse_nul)?;
        }
        if let Some(key) = &draft.idempotency_key {
            check_key("the idempotency key", key, refuse_nul)?;
        }
        check_id(draft.id)?;
        check_not_before(draft.not_before)?;
        let max_attempts = checked_max_attempts(draft.max_attempts)?;
        draft.own.check(refuse_nul, instead)?;
        let mut headers = context::headers();
        headers.extend(&draft.headers);
        let headers = headers.to_json();
        if refuse_nul {
            refuse_nul_in("the payload", &draft.payload)?;
            refuse_nul_in("a header", &headers)?;
        }
        let event = NewEvent {
            id: draft.id.unwrap_or_else(Uuid::now_v7),
            topic: draft.topic,
            payload: draft.payload,
            headers,
            ordering_key: draft.ordering_key,
            idempotency_key: draft.idempotency_key,
            not_before: draft.not_before,
            max_attempts,
            own: draft.own.into_values(),
        };
        check_conflict_columns::<E>(&event)?;
        Ok(event)
    }
}

pub(super) const NUL: &str = "it holds a NUL character, which PostgreSQL cannot keep in a text";

/// Refuses JSON text that PostgreSQL would not keep.
pub(crate) fn refuse_nul_in(what: &str, json: &str) -> Result<(), Error> {
    if contains_nul(json) {
        return Err(Error::validation(what, NUL));
    }
    Ok(())
}

/// Refuses a topic or key that is empty or does not fit.
pub(crate) fn check_key(what: &str, text: &str, refuse_nul: bool) -> Result<(), Error> {
    let length = text.chars().count();
    let reason = if text.is_empty() {
        "it is empty".to_owned()
    } else if length > KEY_LIMIT {
        format!(
            "`{}` has {length} characters; at most {KEY_LIMIT} fit",
            shown(text)
        )
    } else if refuse_nul && text.contains('\0') {
        NUL.to_owned()
    } else {
        return Ok(());
    };
    Err(Error::validation(what, reason))
}

pub(crate) fn check_id(id: Option<Uuid>) -> Result<(), Error> {
    match id {
        Some(id) if id.get_version_num() != 7 => Err(Error::validation(
            "the id",
            format!(
                "{id} is a UUID of version {}; events have version 7, `Uuid::now_v7()`",
                id.get_version_num()
            ),
        )),
        _ => Ok(()),
    }
}

fn check_not_before(time: Option<DateTimeUtc>) -> Result<(), Error> {
    match time {
        Some(time) if !(1000..=9999).contains(&time.year()) => Err(Error::validation(
            "`not_before`",
            format!("{time} is outside the years 1000 to 9999, which every database can hold"),
        )),
        _ => Ok(()),
    }
}

fn checked_max_attempts(attempts: Option<u32>) -> Result<Option<i32>, Error> {
    match attempts {
        None => Ok(None),
        Some(attempts @ 1..=10_000) => Ok(i32::try_from(attempts).ok()),
        Some(attempts) => Err(Error::validation(
            "`max_attempts`",
            format!("{attempts} is not from 1 to 10000"),
        )),
    }
}

/// How a message sets a column of the library's, if it may.
fn instead(column: &str) -> String {
    match column {
        "topic" | "payload" => "it is an argument of the message itself".to_owned(),
        "headers" => "use `header(name, value)` of the message".to_owned(),
        "next_attempt_at" => "use `not_before(time)` of the message".to_owned(),
        "id" | "ordering_key" | "idempotency_key" | "max_attempts" => {
            format!("use `{column}(...)` of the message")
        }
        _ => KEPT.to_owned(),
    }
}

/// An idempotency key that falls under no unique key would deduplicate nothing.
fn check_conflict_columns<E: OutboxEntity>(event: &NewEvent) -> Result<(), Error> {
    if event.idempotency_key.is_none() {
        return Ok(());
    }
    if E::conflict_columns().is_empty() {
        return Err(no_unique_key::<E>().into());
    }
    if key_of::<E>(event).is_none() {
        return Err(Error::validation(
            "the idempotency key",
            format!(
                "it is unique together with other columns of `{}` ({}), and one of these is not set or null: `set` each of them",
                E::default().table_name(),
                conflict_column_names::<E>()
            ),
        ));
    }
    Ok(())
}

/// The columns of the unique key, as a list for people.
fn conflict_column_names<E: OutboxEntity>() -> String {
    let columns = E::conflict_columns();
    let names: Vec<&str> = columns.iter().map(IdenStatic::as_str).collect();
    names.join(", ")
}

/// That keys cannot be told apart in this table.
pub(super) fn no_unique_key<E: OutboxEntity>() -> ConfigError {
    let columns = conflict_column_names::<E>();
    let table = E::default();
    let table = table.table_name();
    ConfigError::new(if columns.is_empty() {
        format!(
            "the outbox `{table}` declares no unique key for idempotency keys: name its columns in `conflict_columns`, or write \
             messages without an idempotency key"
        )
    } else {
        format!(
            "there is no table `{table}` with a unique key of exactly ({columns}): add one, or write messages without an idempotency key"
        )
    })
}

/// The start of a text, for an error that must stay short.
pub(super) fn shown(text: &str) -> String {
    const SHOWN: usize = 40;
    let start: String = text.chars().take(SHOWN).collect();
    if start.len() < text.len() {
        format!("{start}...")
    } else {
        start
    }
}
