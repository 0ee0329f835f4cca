//! The language of topic patterns, and a choice of topics made in it. Pure.
//!
//! A pattern is a topic's exact name, or a prefix followed by `*`; `*` alone is every topic. Everything else is plain.
//!
//! Invariant: [`TopicFilter::includes`] says of every topic what the SQL of [`crate::store::topics`] says of it, to the letter:
//! what wakes a relay is what it claims, counts and cleans up. Tested in `tests/it/relay/topics.rs`.

/// A topic's name, or the beginning of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TopicPattern {
    Name(String),
    Prefix(String),
}

impl TopicPattern {
    /// Reads a pattern, or answers what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (prefix, is_prefix) = match text.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        if text.is_empty() {
            Err("holds an empty pattern: no event has an empty topic".to_owned())
        } else if prefix.contains(['*', '?']) {
            Err(format!(
                "holds `{text}`: a pattern is a topic's name, or its beginning with one `*` at the end; `?` means nothing"
            ))
        } else if is_prefix {
            Ok(Self::Prefix(prefix.to_owned()))
        } else {
            Ok(Self::Name(text.to_owned()))
        }
    }

    pub(crate) fn matches(&self, topic: &str) -> bool {
        match self {
            Self::Name(name) => topic == name,
            Self::Prefix(prefix) => topic.starts_with(prefix),
        }
    }

    /// Whether it is `*`.
    pub(crate) fn is_every_topic(&self) -> bool {
        matches!(self, Self::Prefix(prefix) if prefix.is_empty())
    }
}

/// Some topics, less some others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TopicFilter {
    /// `None` for every topic.
    pub(crate) included: Option<Vec<TopicPattern>>,
    pub(crate) excluded: Vec<TopicPattern>,
}

impl TopicFilter {
    pub(crate) fn includes(&self, topic: &str) -> bool {
        let any = |patterns: &[TopicPattern]| patterns.iter().any(|pattern| pattern.matches(topic));
        self.included.as_deref().is_none_or(any) && !any(&self.excluded)
    }
}

/// Reads the patterns given to `option`; answers every problem with the option's name.
pub(crate) fn read_patterns(option: &str, given: &[String]) -> Result<Vec<TopicPattern>, Vec<String>> {
    if given.is_empty() {
        return Err(vec![format!("`{option}` is empty: leave it out")]);
    }
    let (mut patterns, mut problems) = (Vec::new(), Vec::new());
    for text in given {
        match TopicPattern::parse(text) {
            Ok(pattern) => patterns.push(pattern),
            Err(problem) => problems.push(format!("`{option}` {problem}")),
        }
    }
    if problems.is_empty() {
        Ok(patterns)
    } else {
        Err(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // catalogue I10
    #[test]
    fn a_star_may_only_stand_at_the_end_and_a_question_mark_nowhere() {
        for wrong in ["", "a*b", "*a", "**", "a**", "a?", "?", "a?*"] {
            let problem = TopicPattern::parse(wrong).unwrap_err();
            assert!(
                wrong.is_empty() || problem.contains(&format!("`{wrong}`")),
                "{problem}"
            );
        }
        for plain in ["a", "a_%[b].\\", "a_*", "*"] {
            TopicPattern::parse(plain).unwrap();
        }
    }

    // catalogue I9, I10
    #[test]
    fn patterns_match_to_the_letter() {
        let matches = |pattern: &str, topic: &str| TopicPattern::parse(pattern).unwrap().matches(topic);
        assert!(matches("library.*", "library.loan") && matches("library.*", "library."));
        assert!(!matches("library.*", "library") && !matches("library.*", "Library.loan"));
        assert!(!matches("a_*", "axb") && matches("a_*", "a_b") && !matches("a%*", "axb"));
        assert!(!matches("a", "a ") && !matches("a", "A") && matches("*", "anything"));
    }
}
