//! The arguments of `#[outbox_event(...)]` as typed values that know where they were written.
//!
//! Whether the columns in `conflict(...)` exist is checked against the fields, in [`super::columns`].

use darling::error::Accumulator;
use darling::{Error, Result};
use proc_macro2::{Span, TokenStream};
use syn::spanned::Spanned;
use syn::{Ident, Meta, Path};

use crate::attributes::{Keys, argument_keys, default_root, flag, not_empty, path, string_path, words_in};
use crate::words;

const ARGUMENTS: [&str; 6] = [
    "conflict",
    "crate",
    "hooks",
    "schema_name",
    "table_name",
    "wakeup",
];

/// All of `#[outbox_event(...)]`.
#[derive(Debug)]
pub(super) struct Arguments {
    /// Where `hare_seaorm` is found.
    pub(super) root: Path,
    pub(super) table_name: String,
    pub(super) schema_name: Option<String>,
    /// `None`: the relays only poll.
    pub(super) wakeup: Option<Path>,
    /// `None`: `idempotency_key` alone.
    pub(super) conflict: Option<Conflict>,
    pub(super) hooks: bool,
}

/// The columns that idempotency keys are unique by, as written.
#[derive(Debug)]
pub(super) struct Conflict {
    /// The word `conflict`.
    pub(super) span: Span,
    pub(super) columns: Vec<Ident>,
}

impl Arguments {
    /// Reads them, reporting every mistake.
    pub(super) fn read(arguments: TokenStream, errors: &mut Accumulator) -> Self {
        let mut read = Self {
            root: default_root(),
            table_name: String::new(),
            schema_name: None,
            wakeup: None,
            conflict: None,
            hooks: false,
        };
        // A mistake among them may be what became of the table's name.
        let mut mistakes = Error::accumulator();
        let mut keys = Keys::default();
        for argument in argument_keys(arguments, &mut mistakes) {
            let Some((word, meta)) = mistakes.handle(argument) else {
                continue;
            };
            keys.seen(&word, meta.path().span());
            mistakes.handle_in(|| read.argument(&word, &meta));
        }
        keys.report_duplicates(&mut mistakes);
        match mistakes.finish() {
            Err(found) => errors.push(found),
            Ok(()) if read.table_name.is_empty() => errors.push(words::error(
                Span::call_site(),
                "`outbox_event` needs the table's name: `#[outbox_event(table_name = \"...\")]`",
            )),
            Ok(()) => {}
        }
        read
    }

    fn argument(&mut self, word: &str, meta: &Meta) -> Result<()> {
        match word {
            "table_name" => self.table_name = not_empty(word, meta)?,
            "schema_name" => self.schema_name = Some(not_empty(word, meta)?),
            "wakeup" => self.wakeup = Some(path(word, meta, "path::to::function")?),
            "crate" => self.root = string_path(word, meta)?,
            "conflict" => {
                self.conflict = Some(Conflict {
                    span: meta.path().span(),
                    columns: words_in(word, meta, "tenant_id, idempotency_key")?,
                });
            }
            // Also with a mistake: the user's hooks are there, and a second impl would be one error more.
            "hooks" => {
                self.hooks = true;
                flag(word, meta)?;
            }
            word => {
                return Err(words::error(
                    meta.path().span(),
                    words::unknown(word, "an argument of `outbox_event`", &ARGUMENTS),
                ));
            }
        }
        Ok(())
    }
}
