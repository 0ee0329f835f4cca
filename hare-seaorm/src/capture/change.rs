//! A change for the declaration's own code: typed, and owned, so that it may cross an await.

use sea_orm::prelude::DateTimeUtc;
use sea_orm::sea_query::FromValueTuple;
use sea_orm::{EntityTrait, PrimaryKeyTrait, Value};

use super::declaration::{CapturedEntity, Operation, Payload};
use super::envelope::{Change, value_tuple};
use crate::error::Error;
use crate::json::JsonText;

/// What a captured write did to one row, as the functions of a declaration see it: `topic_with`, `ordering_key_with`, `extend`,
/// `extend_many`, a [`ChangeSink`](super::ChangeSink), a [`CaptureProfile`](super::CaptureProfile)'s.
///
/// The rows are models, with every column, also those that events do not hold: `fields`, `exclude` and `sensitive` choose what
/// [`envelope`](Self::envelope) tells, not what is here. So take care what you pass on.
pub struct CapturedChange<E: EntityTrait> {
    operation: Operation,
    key: Vec<Value>,
    changed: Option<Vec<&'static str>>,
    before: Option<E::Model>,
    after: Option<E::Model>,
    occurred_at: DateTimeUtc,
}

impl<E: CapturedEntity> CapturedChange<E> {
    /// Clones what the payload mode holds.
    pub(crate) fn of(change: &Change<'_, E>, occurred_at: DateTimeUtc) -> Self {
        let holds_rows = E::declaration().payload != Payload::Keys;
        let row = |row: Option<&E::Model>| row.filter(|_| holds_rows).cloned();
        Self {
            operation: change.operation,
            key: change.key.clone(),
            changed: change.changed.clone(),
            before: row(change.before),
            after: row(change.after),
            occurred_at,
        }
    }

    fn borrowed(&self) -> Change<'_, E> {
        Change {
            operation: self.operation,
            key: self.key.clone(),
            changed: self.changed.clone(),
            before: self.before.as_ref(),
            after: self.after.as_ref(),
        }
    }

    /// What was done to the row.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Whose row it is: `library.Loan`.
    pub fn label(&self) -> String {
        E::declaration().label()
    }

    /// The row's primary key, as it is stored.
    pub fn pk(&self) -> <E::PrimaryKey as PrimaryKeyTrait>::ValueType {
        // As SeaORM itself makes it, of the same values.
        FromValueTuple::from_value_tuple(value_tuple(self.key.clone()))
    }

    /// The columns that the caller set, by their fields' names, sensitive ones included. `None` for an insert or a delete.
    pub fn changed(&self) -> Option<&[&'static str]> {
        self.changed.as_deref()
    }

    /// The row before: of an update with `payload = "before_and_after"`, of a delete unless the payload is `"keys"`.
    pub fn before(&self) -> Option<&E::Model> {
        self.before.as_ref()
    }

    /// The row after: of an insert or an update, unless the payload is `"keys"`.
    pub fn after(&self) -> Option<&E::Model> {
        self.after.as_ref()
    }

    /// The row as the change left it; of a deleted one, as it was. `None` if the payload is `"keys"`.
    pub fn row(&self) -> Option<&E::Model> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// When it was written, by this process's clock; the same for all changes of a statement.
    pub fn occurred_at(&self) -> DateTimeUtc {
        self.occurred_at
    }

    /// The envelope that an event of this change holds, without what `extend` adds.
    ///
    /// # Errors
    /// [`Error::Validation`] if a value has no JSON form, naming its column.
    pub fn envelope(&self) -> Result<JsonText, Error> {
        let text = self.borrowed().envelope(E::declaration(), self.occurred_at)?;
        Ok(JsonText::from_trusted(text))
    }

    /// The topic that the declaration's template gives, shortened if it does not fit.
    ///
    /// # Errors
    /// [`Error::Validation`] if the topic cannot be told.
    pub fn templated_topic(&self) -> Result<String, Error> {
        self.borrowed().templated_topic(E::declaration())
    }

    /// The ordering key that the declaration's template gives, shortened if it does not fit; `None` if it is unordered.
    ///
    /// # Errors
    /// [`Error::Validation`] if the primary key has no text.
    pub fn templated_ordering_key(&self) -> Result<Option<String>, Error> {
        self.borrowed().templated_ordering_key(E::declaration())
    }
}

/// Without the row: values stay out of logs.
impl<E: EntityTrait> std::fmt::Debug for CapturedChange<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CapturedChange")
            .field("operation", &self.operation)
            .field("changed", &self.changed)
            .field("occurred_at", &self.occurred_at)
            .finish_non_exhaustive()
    }
}
