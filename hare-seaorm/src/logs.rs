#![doc = include_str!("docs/logs.md")]

use std::error::Error;
use std::fmt;

/// An error with its causes, each said once, `: ` between them.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = self.0.to_string();
        f.write_str(&last)?;
        let mut next = self.0.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            // Many errors end in the text of their cause.
            if !last.ends_with(&text) {
                write!(f, ": {text}")?;
                last = text;
            }
            next = cause.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::delivery::DeliveryError;

    #[derive(Debug, thiserror::Error)]
    #[error("no answer")]
    struct Outer(#[source] std::io::Error);

    // catalogue L4
    #[test]
    fn a_chain_says_each_cause_once() {
        let chain = |error: &(dyn Error + 'static)| Chain(error).to_string();
        let reset = || std::io::Error::other("connection reset");
        assert_eq!(chain(&DeliveryError::failed("refused")), "refused");
        assert_eq!(
            chain(&DeliveryError::failed(Outer(reset()))),
            "no answer: connection reset"
        );
        assert_eq!(chain(&DeliveryError::failed(reset())), "connection reset");
    }

    fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }

    /// Level, name and sorted fields of an event.
    type Listed = (String, String, Vec<String>);

    fn listed<'a>(level: &str, name: &str, fields: impl Iterator<Item = &'a str>) -> Listed {
        let mut fields: Vec<String> = fields
            .map(|field| field.trim().trim_matches(['`', '?', '%']).to_owned())
            .filter(|field| !field.is_empty())
            .collect();
        fields.sort();
        (level.to_uppercase(), name.to_owned(), fields)
    }

    /// Everything that the library logs.
    fn logged() -> BTreeSet<Listed> {
        let mut files = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        let mut all = BTreeSet::new();
        for file in files.iter().filter(|file| !file.ends_with("logs.rs")) {
            let text = std::fs::read_to_string(file).unwrap();
            for level in ["error", "warn", "info", "debug", "trace"] {
                for (at, call) in text.match_indices(&format!("tracing::{level}!(")) {
                    let arguments = text[at + call.len()..].trim_start();
                    let (name, rest) = arguments
                        .strip_prefix("name: \"")
                        .and_then(|rest| rest.split_once('"'))
                        .unwrap_or_else(|| {
                            panic!("an event without a name in {}: {arguments:.60}", file.display())
                        });
                    // Up to the message.
                    let fields = rest.split('"').next().unwrap().split(',');
                    all.insert(listed(
                        level,
                        name,
                        fields.map(|field| field.split('=').next().unwrap()),
                    ));
                }
            }
        }
        all
    }

    // catalogue L4
    #[test]
    fn the_table_lists_every_event_that_is_logged_with_its_level_and_fields() {
        let table: BTreeSet<Listed> = include_str!("docs/logs.md")
            .lines()
            .filter(|line| line.starts_with("| `hare."))
            .map(|line| {
                let cells: Vec<&str> = line.split('|').map(str::trim).collect();
                listed(cells[2], cells[1].trim_matches('`'), cells[3].split(','))
            })
            .collect();
        assert_eq!(table, logged());
    }
}
