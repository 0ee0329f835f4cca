//! An event of one's own, before it is written.

use std::marker::PhantomData;
use std::sync::Arc;

use chrono::Datelike;
use sea_orm::prelude::DateTimeUtc;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait, ColumnTrait, DbBackend, IdenStatic, Iterable, Value};
use serde::Serialize;
use uuid::Uuid;

use super::entity;
use super::model::OutboxEntity;

use crate::capture::KEY_LIMIT;
use crate::error::{ConfigError, Error};
use crate::json::{contains_nul, to_text};
use crate::store::idempotency::key_of;
use crate::store::insert::{NewEvent, OwnValue};
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
    headers: Vec<(String, String)>,
    ordering_key: Option<String>,
    idempotency_key: Option<String>,
    not_before: Option<DateTimeUtc>,
    max_attempts: Option<u32>,
    own: Vec<OwnValue>,
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
                headers: Vec::new(),
                ordering_key: None,
                idempotency_key: None,
                not_before: None,
                max_attempts: None,
                own: Vec::new(),
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

    /// Adds a header: metadata beside the payload, any JSON value. A name given twice keeps the last value.
    ///
    /// # Errors
    /// [`Error::Validation`] if the name is empty, or the value has no JSON form.
    pub fn header<T: Serialize + ?Sized>(self, name: impl Into<String>, value: &T) -> Result<Self, Error> {
        let name = name.into();
        if name.is_empty() {
            return Err(Error::validation(
                "a header's name",
                "it is empty; give the header a name",
            ));
        }
        let value = to_text(value)
            .map_err(|error| error.into_validation(format!("the header `{}`", shown(&name))))?;
        Ok(self.with(|draft| {
            draft.headers.retain(|(known, _)| *known != name);
            draft.headers.push((name, value));
        }))
    }

    /// Sets a column that the outbox has beside the library's, to a value of its field's type; an integer may have another width. A
    /// column that is not set has its default, or NULL. Given twice, the last value counts.
    pub fn set(self, column: E::Column, value: impl Into<Value>) -> Self {
        let value = value.into();
        let fitting = fitting::<E>(column, &value);
        let fits = fitting.is_some() || value == value.as_null();
        let value = fitting.unwrap_or(value);
        let own = OwnValue {
            column: column.as_str(),
            expr: column.save_as(Expr::val(value.clone())),
            value,
            fits,
        };
        self.with(|draft| {
            draft.own.retain(|known| known.column != own.column);
            draft.own.push(own);
        })
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
        check_own(&draft.own, refuse_nul)?;
        let headers = object(&draft.headers);
        for (what, text) in [("the payload", &draft.payload), ("a header", &headers)] {
            if refuse_nul && contains_nul(text) {
                return Err(Error::validation(what, NUL));
            }
        }
        let mut own = draft.own;
        // One order, so that messages with the same columns are alike.
        own.sort_unstable_by_key(|own| own.column);
        let event = NewEvent {
            id: draft.id.unwrap_or_else(Uuid::now_v7),
            topic: draft.topic,
            payload: draft.payload,
            headers,
            ordering_key: draft.ordering_key,
            idempotency_key: draft.idempotency_key,
            not_before: draft.not_before,
            max_attempts,
            own,
        };
        check_conflict_columns::<E>(&event)?;
        Ok(event)
    }
}

/// The value in the type of the column's field.
///
/// Of another type it must not be bound: sqlx prepares a statement on PostgreSQL once per text, with the types of the first values, and
/// sends later ones in the bytes of their own type, which the server takes for one of the first.
fn fitting<E: OutboxEntity>(column: E::Column, value: &Value) -> Option<Value> {
    let mut row = <E::ActiveModel as ActiveModelTrait>::default();
    [value.clone()]
        .into_iter()
        .chain(integers(value))
        .find_map(|value| {
            row.try_set(column, value).ok()?;
            row.get(column).into_value()
        })
}

/// An integer, or the null of one, in every width that holds it.
fn integers(value: &Value) -> Vec<Value> {
    fn wide(integer: Option<impl Into<i128>>) -> Option<i128> {
        integer.map(Into::into)
    }
    fn of<T: TryFrom<i128>>(integer: Option<i128>) -> Option<Value>
    where
        Option<T>: Into<Value>,
    {
        let narrow = integer.map(T::try_from).transpose().ok()?;
        Some(narrow.into())
    }
    let integer = match *value {
        Value::TinyInt(integer) => wide(integer),
        Value::SmallInt(integer) => wide(integer),
        Value::Int(integer) => wide(integer),
        Value::BigInt(integer) => wide(integer),
        Value::TinyUnsigned(integer) => wide(integer),
        Value::SmallUnsigned(integer) => wide(integer),
        Value::Unsigned(integer) => wide(integer),
        Value::BigUnsigned(integer) => wide(integer),
        _ => return Vec::new(),
    };
    let widths = [
        of::<i8>, of::<i16>, of::<i32>, of::<i64>, of::<u8>, of::<u16>, of::<u32>, of::<u64>,
    ];
    widths.iter().filter_map(|width| width(integer)).collect()
}

const NUL: &str = "it holds a NUL character, which PostgreSQL cannot keep in a text";

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
        NUL.to_owned()
    } else {
        return Ok(());
    };
    Err(Error::validation(what, reason))
}

fn check_id(id: Option<Uuid>) -> Result<(), Error> {
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

/// The columns of the library are the library's: some are set by methods, the rest only by the relay.
fn check_own(own: &[OwnValue], refuse_nul: bool) -> Result<(), Error> {
    for OwnValue {
        column, value, fits, ..
    } in own
    {
        let what = || format!("the column `{column}`");
        // The built-in outbox has the library's columns and no others.
        if entity::Column::iter().any(|library| library.as_str() == *column) {
            let reason = match *column {
                "topic" | "payload" => "it is an argument of the message itself".to_owned(),
                "headers" => "use `header(name, value)` of the message".to_owned(),
                "next_attempt_at" => "use `not_before(time)` of the message".to_owned(),
                "id" | "ordering_key" | "idempotency_key" | "max_attempts" => {
                    format!("use `{column}(...)` of the message")
                }
                _ => "it is kept by the library; set only columns that the outbox has beside the library's"
                    .to_owned(),
            };
            return Err(Error::validation(what(), reason));
        }
        if !fits {
            return Err(Error::validation(
                what(),
                "its field is of another type than the value",
            ));
        }
        if let Value::String(Some(text)) = value
            && refuse_nul
            && text.contains('\0')
        {
            return Err(Error::validation(what(), NUL));
        }
    }
    Ok(())
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
