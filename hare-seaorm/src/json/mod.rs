//! JSON text: what payloads, headers and images are made of.
//!
//! Text is written once and stays text on its way to the receiver, so that no digit is lost on the way.

mod column;
mod encoding;
mod text;

pub use text::JsonText;

pub(crate) use column::write_value;
pub(crate) use encoding::{contains_nul, to_text, write_string};
