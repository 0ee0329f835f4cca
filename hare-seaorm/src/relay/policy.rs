//! What a dead letter does to its ordering key.

use crate::outbox::topics::TopicPattern;

/// What becomes of an ordering key whose event ran out of attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DeadLetterPolicy {
    /// The dead letter holds back every later event of its key until it is retried or removed: nothing is ever out of order.
    #[default]
    Block,
    /// The key goes on without it. An event that is [retried](super::DeadLetters::retry) later arrives after those it stood before.
    Skip,
}

/// The policies of a relay, in the order in which they were given; a pattern that cannot be read with what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Policies(Vec<(Result<TopicPattern, String>, DeadLetterPolicy)>);

impl Policies {
    pub(super) fn add(&mut self, pattern: &str, policy: DeadLetterPolicy) {
        self.0.push((TopicPattern::parse(pattern), policy));
    }

    pub(super) fn problems(&self) -> impl Iterator<Item = String> {
        self.0
            .iter()
            .filter_map(|(pattern, _)| pattern.as_ref().err())
            .map(|problem| format!("`dead_letter_policy` {problem}"))
    }

    /// An exact name first, wherever it was given; else the first pattern that matches.
    pub(super) fn of(&self, topic: &str) -> DeadLetterPolicy {
        let matching = || {
            self.0
                .iter()
                .filter_map(|(pattern, policy)| Some((pattern.as_ref().ok()?, *policy)))
                .filter(|(pattern, _)| pattern.matches(topic))
        };
        matching()
            .find(|(pattern, _)| matches!(pattern, TopicPattern::Name(_)))
            .or_else(|| matching().next())
            .map_or_else(DeadLetterPolicy::default, |(_, policy)| policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_name_wins_wherever_it_stands_and_else_the_first_pattern() {
        use DeadLetterPolicy::{Block, Skip};
        let mut policies = Policies::default();
        for (pattern, policy) in [
            ("mail.*", Skip),
            ("mail.bill.*", Block),
            ("*", Block),
            ("mail.x", Block),
        ] {
            policies.add(pattern, policy);
        }
        assert_eq!(policies.of("mail.bill.sent"), Skip);
        assert_eq!(policies.of("mail.x"), Block);
        assert_eq!(policies.of("other"), Block);
        assert_eq!(Policies::default().of("other"), Block);
        assert_eq!(policies.problems().count(), 0);
        policies.add("a*b", Skip);
        assert!(
            policies
                .problems()
                .next()
                .is_some_and(|text| text.contains("`dead_letter_policy` holds `a*b`"))
        );
    }
}
