//! What is captured of an entity, and how its events look. Made by the derive, read by the engine; no SQL.

use std::borrow::Cow;

use futures_util::future::BoxFuture;
use sea_orm::{ConnectionTrait, DbErr, EntityTrait, IdenStatic, PrimaryKeyToColumn};
use serde::Serialize;

use super::change::CapturedChange;
use super::extension::Extension;
use crate::error::{ConfigError, Error};
use crate::json::{JsonText, document_of};
use crate::outbox::OutboxEntity;

/// An entity whose writes make events. Implemented by `#[derive(ChangeCapture)]`.
#[diagnostic::on_unimplemented(
    message = "the writes of `{Self}` are not captured",
    note = "add `#[derive(ChangeCapture)]` to its `Model`"
)]
pub trait CapturedEntity: EntityTrait {
    /// Where its events are written.
    type Outbox: OutboxEntity;

    /// What is captured. Written and read by the library only.
    #[doc(hidden)]
    fn declaration() -> &'static Declaration<Self>;

    /// What the declaration's code adds to the events of these changes; called if it is [`Code::Extend`].
    #[doc(hidden)]
    fn extend_changes<'c, C: ConnectionTrait>(
        db: &'c C,
        changes: Vec<CapturedChange<Self>>,
    ) -> BoxFuture<'c, Result<Extensions<Self>, DbErr>> {
        let _ = db;
        Box::pin(std::future::ready(Ok(changes.iter().map(|_| None).collect())))
    }

    /// Hands the changes to the declaration's sink; called if its code is [`Code::Sink`].
    #[doc(hidden)]
    fn sink_changes<'c, C: ConnectionTrait>(
        db: &'c C,
        changes: Vec<CapturedChange<Self>>,
    ) -> BoxFuture<'c, Result<(), DbErr>> {
        let _ = (db, changes);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// One for each change, in their order.
pub type Extensions<E> = Vec<Option<Extension<<E as CapturedEntity>::Outbox>>>;

/// What a declaration runs for each statement, in the transaction of the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Nothing: the events are made and written.
    None,
    /// [`CapturedEntity::extend_changes`], before the events are written.
    Extend,
    /// [`CapturedEntity::sink_changes`], in place of writing events.
    Sink,
}

/// What an event holds of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// The primary key alone.
    Keys,
    /// The row as it was left; of a deleted row, as it was.
    After,
    /// The row as it was and as it was left.
    BeforeAndAfter,
}

/// What a write does to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A new row.
    Insert,
    /// A changed row.
    Update,
    /// A removed row.
    Delete,
}

impl Operation {
    /// `insert`, `update` or `delete`: the word in an envelope.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    /// `inserted`, `updated` or `deleted`: the word in a topic.
    pub fn past_tense(self) -> &'static str {
        match self {
            Self::Insert => "inserted",
            Self::Update => "updated",
            Self::Delete => "deleted",
        }
    }
}

/// Which operations make events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operations {
    /// Inserts do.
    pub insert: bool,
    /// Updates do.
    pub update: bool,
    /// Deletes do.
    pub delete: bool,
}

impl Operations {
    /// Inserts, updates and deletes.
    pub const ALL: Self = Self {
        insert: true,
        update: true,
        delete: true,
    };

    /// Whether this one does.
    pub fn contains(self, operation: Operation) -> bool {
        match operation {
            Operation::Insert => self.insert,
            Operation::Update => self.update,
            Operation::Delete => self.delete,
        }
    }
}

/// How an event's payload presents a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeForm {
    /// The envelope by itself.
    Plain,
    /// A [CloudEvent 1.0](https://cloudevents.io) in structured JSON, with the envelope as its `data`.
    ///
    /// | attribute | holds |
    /// |---|---|
    /// | `specversion` | `1.0` |
    /// | `id` | the event's id |
    /// | `source` | the two halves of the label as a path: `/library/Loan` |
    /// | `type` | the topic: `library.loan.updated` |
    /// | `subject` | the primary key, parts joined by `:`; none if it is an empty text |
    /// | `time` | when the row was written, the envelope's `occurred_at` |
    /// | `datacontenttype` | `application/json` |
    /// | `data` | the envelope, with what `extend` adds |
    CloudEvents,
}

/// What generic code may do on a bare pool, where an insert or a delete cannot be one transaction with its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnPool {
    /// An error that says what to do.
    Refuse,
    /// The row and its event are two statements; a crash between them loses the event.
    NonAtomic,
}

/// How captured writes are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The best one that the declaration and the database allow; for now that is the portable one.
    Auto,
    /// Read, write, read, insert the events: the same on every database.
    Portable,
}

/// A part of a topic or key template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// Plain text.
    Text(&'static str),
    /// `{app}`: lower case.
    App,
    /// `{model}`: lower case.
    Model,
    /// `{table}`: as it is.
    Table,
    /// `{operation}`: `inserted`, `updated`, `deleted`.
    Operation,
    /// `{label}`: `library.Loan`.
    Label,
    /// `{pk}`: the parts of the primary key joined by `:`.
    PrimaryKey,
}

/// The JSON form of one column of a row.
pub type JsonForm<E> = fn(&<E as EntityTrait>::Model) -> Result<JsonText, Error>;

/// The topic of a change, by a function.
pub type TopicOf<E> = fn(&CapturedChange<E>) -> Result<String, Error>;

/// The ordering key of a change, by a function; `None` is unordered.
pub type OrderingKeyOf<E> = fn(&CapturedChange<E>) -> Result<Option<String>, Error>;

/// What a column's own function answered, as JSON text.
///
/// # Errors
/// [`Error::Validation`] if it has no JSON form, naming the column.
pub fn json_form<T: Serialize + ?Sized>(field: &'static str, value: &T) -> Result<JsonText, Error> {
    document_of(value).map_err(|error| error.into_validation(format!("the column `{field}`")))
}

/// What `topic_with` answered.
///
/// # Errors
/// None; a function of the same form as a profile's.
pub fn topic_of(topic: impl Into<String>) -> Result<String, Error> {
    Ok(topic.into())
}

/// What `ordering_key_with` answered.
///
/// # Errors
/// As [`topic_of`].
pub fn ordering_key_of(key: impl Into<Option<String>>) -> Result<Option<String>, Error> {
    Ok(key.into())
}

/// That a sensitive column is in the primary key. In the expanded format only the entity itself knows its key.
pub fn sensitive_key<E: EntityTrait>(sensitive: &[(&'static str, E::Column)]) -> Option<ConfigError> {
    let is_key = |column: &E::Column| E::PrimaryKey::from_column(*column).is_some();
    let (field, _) = sensitive.iter().find(|(_, column)| is_key(column))?;
    Some(ConfigError::new(format!(
        "`sensitive` cannot keep `{field}` of the table `{}` out of events: it is in the primary key, which every event tells as `pk`",
        E::default().table_name()
    )))
}

/// Everything that one `#[hare(capture(...))]` says.
#[derive(Debug)]
pub struct Declaration<E: EntityTrait> {
    /// `library` of `library.Loan`.
    pub app: &'static str,
    /// `Loan` of `library.Loan`.
    pub name: String,
    /// What an event holds.
    pub payload: Payload,
    /// What is captured.
    pub operations: Operations,
    /// Every stored column by its field's name, in the order of the fields.
    pub stored: &'static [(&'static str, E::Column)],
    /// The columns that images hold, in the order they hold them.
    pub held: &'static [(&'static str, E::Column)],
    /// The functions that give columns of `held` another JSON form than their type's, by their fields' names.
    pub json_with: &'static [(&'static str, JsonForm<E>)],
    /// What the derive could not see: why nothing may be captured under this declaration.
    pub refusal: Option<ConfigError>,
    /// The topic's template.
    pub topic: Cow<'static, [Piece]>,
    /// The function that gives the topic instead.
    pub topic_with: Option<TopicOf<E>>,
    /// The ordering key's template; `None` is unordered.
    pub ordering_key: Option<Cow<'static, [Piece]>>,
    /// The function that gives the ordering key instead.
    pub ordering_key_with: Option<OrderingKeyOf<E>>,
    /// What is run for each statement.
    pub code: Code,
    /// How the payload presents a change.
    pub envelope: EnvelopeForm,
    /// Generic inserts and deletes on a bare pool.
    pub on_pool: OnPool,
    /// How writes are carried out.
    pub strategy: Strategy,
}

impl<E: EntityTrait> Declaration<E> {
    /// `library.Loan`.
    pub fn label(&self) -> String {
        format!("{}.{}", self.app, self.name)
    }

    /// Whether code of the declaration sees changes: they are cloned for it.
    pub(crate) fn shows_changes(&self) -> bool {
        self.code != Code::None || self.topic_with.is_some() || self.ordering_key_with.is_some()
    }

    /// The field of a stored column.
    pub(crate) fn field_of(&self, column: E::Column) -> &'static str {
        let same = |other: &E::Column| IdenStatic::as_str(other) == IdenStatic::as_str(&column);
        self.stored
            .iter()
            .find(|(_, stored)| same(stored))
            .map_or_else(|| column.as_str(), |(field, _)| field)
    }

    /// The function that gives a field its JSON form.
    pub(crate) fn json_form(&self, field: &str) -> Option<JsonForm<E>> {
        let mut forms = self.json_with.iter();
        forms.find(|(known, _)| *known == field).map(|(_, form)| *form)
    }

    /// The entity's table, without its schema.
    pub(crate) fn table(&self) -> String {
        E::default().table_name().to_owned()
    }
}

/// `loan_item` of `crate::entity::loan_item` as `LoanItem`: an entity's name where the declaration gives none.
pub fn name_of_module(module_path: &str) -> String {
    let module = module_path.rsplit("::").next().unwrap_or(module_path);
    module
        .split('_')
        .filter_map(|word| {
            let mut letters = word.trim_start_matches("r#").chars();
            letters
                .next()
                .map(|first| first.to_uppercase().chain(letters).collect::<String>())
        })
        .collect()
}
