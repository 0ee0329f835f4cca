//! The columns that an outbox has beside the library's, with the values that an event gives them.

use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait, ColumnTrait, IdenStatic, Iterable, Value};

use super::entity;
use super::message::NUL;
use super::model::OutboxEntity;
use crate::error::Error;
use crate::store::insert::OwnValue;

/// What is said of a column that nobody sets.
pub(crate) const KEPT: &str =
    "it is kept by the library; set only columns that the outbox has beside the library's";

/// Values by column, each column once.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnColumns(Vec<OwnValue>);

impl OwnColumns {
    /// Sets a column to a value of its field's type; an integer may have another width. Given twice, the last value counts.
    pub(crate) fn set<E: OutboxEntity>(&mut self, column: E::Column, value: Value) {
        let fitting = fitting::<E>(column, &value);
        let fits = fitting.is_some() || value == value.as_null();
        let value = fitting.unwrap_or(value);
        let own = OwnValue {
            column: column.as_str(),
            expr: column.save_as(Expr::val(value.clone())),
            value,
            fits,
        };
        self.0.retain(|known| known.column != own.column);
        self.0.push(own);
    }

    /// The columns of the library are the library's: some are set in another way, which `instead` tells, the rest only by the
    /// relay.
    ///
    /// # Errors
    /// [`Error::Validation`] for such a column, and for a value that is not of the type of its column's field.
    pub(crate) fn check(&self, refuse_nul: bool, instead: fn(&str) -> String) -> Result<(), Error> {
        for OwnValue {
            column, value, fits, ..
        } in &self.0
        {
            let what = || format!("the column `{column}`");
            // The built-in outbox has the library's columns and no others.
            if entity::Column::iter().any(|library| library.as_str() == *column) {
                return Err(Error::validation(what(), instead(column)));
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

    /// In one order, so that events with the same columns are alike.
    pub(crate) fn into_values(self) -> Vec<OwnValue> {
        let mut own = self.0;
        own.sort_unstable_by_key(|own| own.column);
        own
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
