//! JSON text: what payloads, headers and images are made of.
//!
//! Text is written once and stays text on its way to the receiver, so that no digit is lost on the way.

mod column;
mod encoding;
mod forms;
mod text;

pub use forms::{as_column, as_seconds};
pub use text::JsonText;
pub(crate) use text::document_of;

pub(crate) use column::write_value;
pub(crate) use encoding::{DEPTH_LIMIT, EncodeError, check_depth, contains_nul, to_text, write_string};
