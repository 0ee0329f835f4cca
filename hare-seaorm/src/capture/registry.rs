//! Which entities are captured: known to whoever sees only a type or a table, and not the entity itself.
//!
//! The derive registers each entity where it is declared, so an entity is here as soon as its crate is linked in.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use sea_orm::{DbErr, EntityTrait, IdenStatic, Iterable};

use super::declaration::{CapturedEntity, Operations};
use super::engine::statement::{Outcome, Want, Write, is_captured, run};
use crate::connection::Conn;
use crate::error::{ConfigError, Error};
use crate::outbox::OutboxEntity;
use crate::wakeup::OutboxWakeup;

/// A table by its name, and its schema if the entity names one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TableName {
    pub(crate) schema: Option<String>,
    pub(crate) table: String,
}

impl TableName {
    pub(crate) fn of<E: EntityTrait>() -> Self {
        let entity = E::default();
        Self {
            schema: entity.schema_name().map(str::to_owned),
            table: entity.table_name().to_owned(),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        f.write_str(&self.table)
    }
}

/// A captured entity without its type.
pub(crate) trait AnyCaptured: Sync {
    fn entity(&self) -> TypeId;
    fn table(&self) -> TableName;
    /// `library.Loan`.
    fn label(&self) -> String;
    fn operations(&self) -> Operations;
    /// The names of its columns in the database.
    fn columns(&self) -> Vec<&'static str>;
    /// Where its events are written.
    fn outbox(&self) -> AnyOutbox;
    /// Why nothing may be captured under its declaration.
    fn refusal(&self) -> Option<&'static ConfigError>;
    /// Whether this statement on it makes events.
    fn captures(&self, conn: Conn<'_>, write: &Write) -> Result<bool, Error>;
    /// Runs a statement on it, and writes its events.
    fn run<'c>(&self, conn: Conn<'c>, write: Write, want: Want) -> BoxFuture<'c, Result<Outcome, DbErr>>;
}

/// An outbox without its type.
pub(crate) struct AnyOutbox {
    pub(crate) entity: TypeId,
    pub(crate) table: TableName,
    /// The names of its columns in the database.
    pub(crate) columns: Vec<&'static str>,
    /// Those of the unique key that an idempotency key falls under.
    pub(crate) conflict_columns: Vec<&'static str>,
    pub(crate) wakeup: Option<Arc<dyn OutboxWakeup>>,
}

impl AnyOutbox {
    fn of<O: OutboxEntity>() -> Self {
        Self {
            entity: TypeId::of::<O>(),
            table: TableName::of::<O>(),
            columns: columns_of::<O>(),
            conflict_columns: O::conflict_columns().iter().map(IdenStatic::as_str).collect(),
            wakeup: O::wakeup(),
        }
    }
}

fn columns_of<E: EntityTrait>() -> Vec<&'static str> {
    E::Column::iter().map(|column| column.as_str()).collect()
}

struct Of<E>(PhantomData<fn() -> E>);

impl<E: CapturedEntity> AnyCaptured for Of<E> {
    fn entity(&self) -> TypeId {
        TypeId::of::<E>()
    }
    fn table(&self) -> TableName {
        TableName::of::<E>()
    }
    fn label(&self) -> String {
        E::declaration().label()
    }
    fn operations(&self) -> Operations {
        E::declaration().operations
    }
    fn columns(&self) -> Vec<&'static str> {
        columns_of::<E>()
    }
    fn outbox(&self) -> AnyOutbox {
        AnyOutbox::of::<E::Outbox>()
    }
    fn refusal(&self) -> Option<&'static ConfigError> {
        E::declaration().refusal.as_ref()
    }
    fn captures(&self, conn: Conn<'_>, write: &Write) -> Result<bool, Error> {
        is_captured::<E>(conn, write)
    }
    fn run<'c>(&self, conn: Conn<'c>, write: Write, want: Want) -> BoxFuture<'c, Result<Outcome, DbErr>> {
        run::<E>(conn, write, want)
    }
}

/// An entity without its type.
pub(crate) const fn any<E: CapturedEntity>() -> &'static dyn AnyCaptured {
    const { &Of::<E>(PhantomData) }
}

/// The captured entity of this type, if it is one.
pub(crate) fn of_entity<E: EntityTrait>() -> Option<&'static dyn AnyCaptured> {
    all().find(|captured| captured.entity() == TypeId::of::<E>())
}

/// An entry of the registry; written by the derive.
pub struct Registered(&'static dyn AnyCaptured);

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registered").field(&self.0.label()).finish()
    }
}

inventory::collect!(Registered);

impl Registered {
    /// The entry of this entity.
    pub const fn of<E: CapturedEntity>() -> Self {
        Self(any::<E>())
    }
}

/// Every captured entity that is linked into this program.
pub(crate) fn all() -> impl Iterator<Item = &'static dyn AnyCaptured> {
    inventory::iter::<Registered>
        .into_iter()
        .map(|registered| registered.0)
}
