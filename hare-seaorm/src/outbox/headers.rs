//! Headers: metadata beside a payload, JSON values by name.

use serde::Serialize;

use super::message::shown;
use crate::error::Error;
use crate::json::{to_text, write_string};

/// Names with their JSON texts, each name once. In the order they were given first.
#[derive(Clone, Default)]
pub(crate) struct Headers(Vec<(String, String)>);

impl Headers {
    /// Sets a header. A name given twice keeps the last value.
    ///
    /// # Errors
    /// [`Error::Validation`] if the name is empty, or the value has no JSON form.
    pub(crate) fn set<T: Serialize + ?Sized>(
        &mut self,
        name: impl Into<String>,
        value: &T,
    ) -> Result<(), Error> {
        let name = name.into();
        if name.is_empty() {
            return Err(Error::validation(
                "a header's name",
                "it is empty; give the header a name",
            ));
        }
        let value = to_text(value)
            .map_err(|error| error.into_validation(format!("the header `{}`", shown(&name))))?;
        self.put(name, value);
        Ok(())
    }

    /// Sets a header to a text.
    #[cfg(feature = "tracing-context")]
    pub(crate) fn put_text(&mut self, name: &str, text: &str) {
        let mut value = String::new();
        write_string(&mut value, text);
        self.put(name.to_owned(), value);
    }

    fn put(&mut self, name: String, value: String) {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, value));
    }

    /// Adds others; of a name that is in both, the other's value counts.
    pub(crate) fn extend(&mut self, others: &Self) {
        for (name, value) in &others.0 {
            self.put(name.clone(), value.clone());
        }
    }

    /// JSON text of an object.
    pub(crate) fn to_json(&self) -> String {
        let mut text = String::from("{");
        for (position, (name, value)) in self.0.iter().enumerate() {
            if position > 0 {
                text.push(',');
            }
            write_string(&mut text, name);
            text.push(':');
            text.push_str(value);
        }
        text.push('}');
        text
    }
}

/// The names alone: values stay out of logs.
impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}
