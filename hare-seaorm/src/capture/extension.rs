//! What a declaration's own code adds to an event, and what becomes of its errors.

use std::marker::PhantomData;
use std::sync::Arc;

use sea_orm::{DbErr, Value};
use serde::Serialize;
use uuid::Uuid;

use super::declaration::CapturedEntity;
use super::envelope::ENVELOPE_KEYS;
use crate::error::Error;
use crate::json::{document_of, write_string};
use crate::outbox::{Entity as Outbox, Headers, KEPT, OutboxEntity, OwnColumns, check_id, refuse_nul_in};
use crate::store::insert::NewEvent;

/// Any error of a user's function. A [`DbErr`] or an [`Error`] reaches the caller of the write as it is, any other as the source of
/// an [`Error::Validation`].
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What `extend` or `extend_many` of a declaration adds to the event of a change: keys of its envelope, headers, columns that the
/// outbox has beside the library's.
///
/// ```
/// mod loan {
///     use hare_seaorm::ChangeCapture;
///     use hare_seaorm::capture::{CapturedChange, Extension};
///     use sea_orm::entity::prelude::*;
///
///     #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
///     #[sea_orm(table_name = "loan")]
///     #[hare(capture(app = "library", extend = extend))]
///     pub struct Model {
///         #[sea_orm(primary_key)]
///         pub id: i32,
///         pub branch: String,
///     }
///
///     #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
///     pub enum Relation {}
///
///     /// Runs in the transaction of the write, after its row is written: a query sees the row.
///     async fn extend<C: ConnectionTrait>(db: &C, change: CapturedChange<Entity>) -> Result<Option<Extension>, DbErr> {
///         let Some(branch) = change.after().map(|loan| loan.branch.clone()) else {
///             return Ok(None);
///         };
///         let of_branch = Entity::find().filter(Column::Branch.eq(&branch)).count(db).await?;
///         Ok(Some(Extension::new().envelope("of_branch", &of_branch)?.header("branch", &branch)?))
///     }
/// }
/// ```
#[must_use = "it adds nothing until it is returned"]
pub struct Extension<O = Outbox> {
    id: Option<Uuid>,
    /// JSON texts by name, each name once.
    envelope: Vec<(String, String)>,
    headers: Headers,
    own: OwnColumns,
    outbox: PhantomData<fn() -> O>,
}

impl<O> std::fmt::Debug for Extension<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Extension").finish_non_exhaustive()
    }
}

impl Extension {
    /// Of an event in the built-in outbox.
    pub fn new() -> Self {
        Self::for_outbox()
    }

    /// Of an event in another outbox: `Extension::for_outbox::<my_outbox::Entity>()`.
    pub fn for_outbox<O: OutboxEntity>() -> Extension<O> {
        Extension {
            id: None,
            envelope: Vec::new(),
            headers: Headers::default(),
            own: OwnColumns::default(),
            outbox: PhantomData,
        }
    }
}

impl Default for Extension {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: OutboxEntity> Extension<O> {
    /// Adds a key to the envelope, after the library's own. A name given twice keeps the last value.
    ///
    /// # Errors
    /// [`Error::Validation`] if the name is one of the envelope's own (`model`, `operation`, `pk`, `changed`, `before`, `after`,
    /// `occurred_at`, whatever the payload mode), or the value has no JSON form.
    pub fn envelope<T: Serialize + ?Sized>(
        mut self,
        name: impl Into<String>,
        value: &T,
    ) -> Result<Self, Error> {
        let name = name.into();
        let what = || format!("the key `{name}` of an extension");
        if ENVELOPE_KEYS.contains(&name.as_str()) {
            return Err(Error::validation(
                what(),
                "the envelope has a key of that name; give it another",
            ));
        }
        let value = document_of(value).map_err(|error| error.into_validation(what()))?;
        self.envelope.retain(|(known, _)| *known != name);
        self.envelope.push((name, value.into_string()));
        Ok(self)
    }

    /// Adds a header, any JSON value. A name given twice keeps the last value, and counts more than one of the same name that
    /// [`with_context`](super::with_context) sets around the write.
    ///
    /// # Errors
    /// [`Error::Validation`] if the name is empty, or the value has no JSON form.
    pub fn header<T: Serialize + ?Sized>(
        mut self,
        name: impl Into<String>,
        value: &T,
    ) -> Result<Self, Error> {
        self.headers.set(name, value)?;
        Ok(self)
    }

    /// Sets a column that the outbox has beside the library's, to a value of its field's type; an integer may have another width. A
    /// column that is not set has its default, or NULL. Given twice, the last value counts.
    ///
    /// A column of the library's, or a value of another type, is an [`Error::Validation`] of the write.
    pub fn set(mut self, column: O::Column, value: impl Into<Value>) -> Self {
        self.own.set::<O>(column, value.into());
        self
    }

    /// The event's id. A UUID of version 7, or the write fails; a new one by default.
    pub fn id(mut self, id: Uuid) -> Self {
        self.id = Some(id);
        self
    }

    /// Adds all of it to an event that has the headers of its context.
    ///
    /// # Errors
    /// [`Error::Validation`]: the write that made the event fails.
    pub(crate) fn apply(
        self,
        event: &mut NewEvent,
        context: &Headers,
        refuse_nul: bool,
    ) -> Result<(), Error> {
        check_id(self.id)?;
        self.own.check(refuse_nul, instead)?;
        if let Some(id) = self.id {
            event.id = id;
        }
        let mut headers = context.clone();
        headers.extend(&self.headers);
        event.headers = headers.to_json();
        event.own = self.own.into_values();
        if self.envelope.is_empty() {
            return Ok(());
        }
        // The closing brace; the envelope has keys of its own before it.
        event.payload.pop();
        for (name, value) in &self.envelope {
            let start = event.payload.len();
            event.payload.push(',');
            write_string(&mut event.payload, name);
            event.payload.push(':');
            event.payload.push_str(value);
            if refuse_nul {
                refuse_nul_in("a key of an extension", &event.payload[start..])?;
            }
        }
        event.payload.push('}');
        Ok(())
    }
}

/// How a captured event gets a column of the library's, if it may.
fn instead(column: &str) -> String {
    match column {
        "id" => "use `id(...)` of the extension".to_owned(),
        "headers" => "use `header(name, value)` of the extension".to_owned(),
        "payload" => "use `envelope(name, value)` of the extension".to_owned(),
        "topic" | "ordering_key" => format!("use `{column}_with` of the declaration"),
        "idempotency_key" | "next_attempt_at" | "max_attempts" => {
            "the event of a change has none; write an event of your own with `enqueue`".to_owned()
        }
        _ => KEPT.to_owned(),
    }
}

/// The error of a declaration's function, on its way to the caller of the write.
pub fn refused<E: CapturedEntity>(word: &str, error: impl Into<BoxError>) -> DbErr {
    let error = match error.into().downcast::<DbErr>() {
        Ok(seaorm) => return *seaorm,
        Err(error) => error,
    };
    match error.downcast::<Error>() {
        Ok(ours) => DbErr::from(*ours),
        Err(other) => DbErr::from(Error::Validation {
            what: format!("a change of `{}`", E::declaration().label()),
            reason: format!("`{word}` of its declaration refused it"),
            source: Some(Arc::from(other)),
        }),
    }
}
