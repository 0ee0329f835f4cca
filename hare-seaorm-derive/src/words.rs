//! The wording that compile errors share: the word in backticks, and the nearest one that would have been right.

use std::fmt::Display;

use darling::Error;
use proc_macro2::{Span, TokenStream, TokenTree};
use syn::Ident;
use syn::ext::IdentExt;

/// Lists longer than this are cut: an error is read on a terminal.
const LISTED: usize = 15;

/// An error at one place.
pub(crate) fn error(span: Span, message: impl Display) -> Error {
    Error::custom(message).with_span(&span)
}

/// Where an item begins, after its attributes.
pub(crate) fn first(item: &TokenStream) -> Span {
    let word = item
        .clone()
        .into_iter()
        .find(|token| matches!(token, TokenTree::Ident(_)));
    word.map_or_else(Span::call_site, |token| token.span())
}

/// `type` of `r#type`: the word as users write and read it.
pub(crate) fn plain(ident: &Ident) -> String {
    ident.unraw().to_string()
}

/// "`topc` is not a key of `capture`; did you mean `topic`?", or the known words when none is near.
pub(crate) fn unknown(word: &str, is_not: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(nearest) => format!("`{word}` is not {is_not}; did you mean `{nearest}`?"),
        None => {
            let are = if known.len() == 1 { "is" } else { "are" };
            format!("`{word}` is not {is_not}; known {are} {}", list(known))
        }
    }
}

/// The known word that `word` is most likely a slip of.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= (word.len().max(candidate.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate);
    // `before` is far from `before_and_after` by letters only.
    near.or_else(|| {
        known
            .iter()
            .copied()
            .find(|candidate| word.len() >= 3 && candidate.starts_with(word))
    })
}

/// "`a`, `b`".
pub(crate) fn list(words: &[&str]) -> String {
    let mut listed = words
        .iter()
        .take(LISTED)
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>();
    if words.len() > LISTED {
        listed.push("…".to_owned());
    }
    listed.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word() {
        let known = ["topic", "payload", "ordering_key", "before_and_after", "app"];
        assert_eq!(nearest("topc", &known), Some("topic"));
        assert_eq!(nearest("paylaod", &known), Some("payload"));
        assert_eq!(nearest("ordering_keys", &known), Some("ordering_key"));
        assert_eq!(nearest("ap", &known), Some("app"));
    }

    #[test]
    fn the_beginning_of_a_word_finds_it() {
        assert_eq!(
            nearest("before", &["after", "before_and_after"]),
            Some("before_and_after")
        );
        assert_eq!(nearest("be", &["after", "before_and_after"]), None);
    }

    #[test]
    fn the_nearest_of_several_is_offered() {
        assert_eq!(nearest("insrt", &["update", "insert", "inserts"]), Some("insert"));
    }

    #[test]
    fn a_word_like_none_gets_the_list() {
        assert_eq!(
            unknown("colour", "a key of `capture`", &["topic", "app"]),
            "`colour` is not a key of `capture`; known are `topic`, `app`"
        );
    }

    #[test]
    fn a_long_list_is_cut() {
        let words = vec!["word"; LISTED + 1];
        assert!(list(&words).ends_with("`word`, …"));
    }
}
