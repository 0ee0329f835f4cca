//! Which topics a relay serves.

use crate::wakeup::Pending;

/// The topics of a relay. Exact names, compared with case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Topics {
    /// `None` for every topic.
    pub(super) included: Option<Vec<String>>,
}

impl Topics {
    pub(super) fn problem(&self) -> Option<String> {
        let included = self.included.as_ref()?;
        if included.is_empty() {
            return Some("`topics` is empty: leave it out to serve every topic".to_owned());
        }
        included
            .iter()
            .any(String::is_empty)
            .then(|| "`topics` holds an empty name: no event has one".to_owned())
    }

    /// Whether a hint may be about one of these.
    pub(super) fn concerns(&self, hint: &Pending) -> bool {
        match &self.included {
            Some(included) => hint.any || included.iter().any(|topic| hint.topics.contains(topic)),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // catalogue M5
    #[test]
    fn a_hint_concerns_a_relay_if_it_names_a_topic_of_its_own_or_none() {
        let hint = |any, topics: &[&str]| Pending {
            any,
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        };
        let relay = Topics {
            included: Some(vec!["a".to_owned(), "b".to_owned()]),
        };
        assert!(relay.concerns(&hint(false, &["x", "b"])));
        assert!(!relay.concerns(&hint(false, &["x", "A"])));
        assert!(relay.concerns(&hint(true, &[])));
        assert!(Topics::default().concerns(&hint(false, &["x"])));
    }
}
