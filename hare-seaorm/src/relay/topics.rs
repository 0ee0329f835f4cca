//! Which topics a relay serves.

use crate::outbox::topics::{TopicFilter, TopicPattern, read_patterns};
use crate::wakeup::Pending;

/// The topics of a relay, as given: patterns of [`TopicPattern`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Topics {
    /// `None` for every topic.
    pub(super) included: Option<Vec<String>>,
    /// `None` for none.
    pub(super) excluded: Option<Vec<String>>,
}

impl Topics {
    /// What was given, read; or every problem with it.
    pub(super) fn read(&self) -> Result<TopicFilter, Vec<String>> {
        let patterns = |option, given: &Option<Vec<String>>| {
            given
                .as_deref()
                .map(|given| read_patterns(option, given))
                .transpose()
        };
        let mut problems = Vec::new();
        let mut known = |result: Result<_, Vec<String>>| result.map_err(|found| problems.extend(found)).ok();
        let included = known(patterns("topics", &self.included)).flatten();
        let excluded = known(patterns("exclude_topics", &self.excluded)).flatten();
        if let Some(excluded) = &excluded
            && excluded.iter().any(TopicPattern::is_every_topic)
        {
            problems.push("`exclude_topics` holds `*`: nothing would be left to serve".to_owned());
        }
        if problems.is_empty() {
            Ok(TopicFilter {
                included,
                excluded: excluded.unwrap_or_default(),
            })
        } else {
            Err(problems)
        }
    }

    /// Of options that were checked: what was given, read.
    pub(super) fn filter(&self) -> TopicFilter {
        // Nothing, rather than everything, if the check was left out.
        self.read().unwrap_or(TopicFilter {
            included: Some(Vec::new()),
            excluded: Vec::new(),
        })
    }
}

/// Whether a hint may be about one of these.
pub(super) fn concerns(filter: &TopicFilter, hint: &Pending) -> bool {
    hint.any || hint.topics.iter().any(|topic| filter.includes(topic))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(included: &[&str], excluded: &[&str]) -> Topics {
        let owned = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
        Topics {
            included: owned(included),
            excluded: owned(excluded),
        }
    }

    // catalogue M5
    #[test]
    fn a_hint_concerns_a_relay_if_it_names_a_topic_of_its_own_or_none() {
        let hint = |any, topics: &[&str]| Pending {
            any,
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        };
        let relay = topics(&["a", "b.*"], &["b.secret.*"]).filter();
        assert!(concerns(&relay, &hint(false, &["x", "a"])));
        assert!(concerns(&relay, &hint(false, &["b.open"])));
        assert!(!concerns(&relay, &hint(false, &["x", "A", "b.secret.x"])));
        assert!(concerns(&relay, &hint(true, &[])));
        assert!(concerns(&TopicFilter::default(), &hint(false, &["x"])));
    }

    // catalogue I10
    #[test]
    fn every_bad_pattern_is_named() {
        let problems = topics(&["a*b", "", "ok"], &["x?"]).read().unwrap_err();
        assert_eq!(problems.len(), 3, "{problems:?}");
        for part in [
            "`topics` holds `a*b`",
            "`topics` holds an empty",
            "`exclude_topics` holds `x?`",
        ] {
            assert!(
                problems.iter().any(|problem| problem.contains(part)),
                "{part}: {problems:?}"
            );
        }
        assert_eq!(topics(&["a"], &["b", "*"]).read().unwrap_err().len(), 1);
        let problems = topics(&[], &[]).read().unwrap_err();
        assert_eq!(
            problems,
            [
                "`topics` is empty: leave it out",
                "`exclude_topics` is empty: leave it out"
            ]
        );
    }
}
