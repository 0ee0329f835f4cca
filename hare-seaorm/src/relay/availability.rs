//! Whether receivers can be reached: a pause after one could not, and one event that asks again.
//!
//! A delivery has one receiver, or several and says which topic goes where. Of several, one that cannot be reached waits alone:
//! claims leave out its topics, as far as they are known. An event of a topic that was not known is given back uncounted and its
//! topic remembered, so it costs one claim.
//!
//! Invariant: nothing is sent to a receiver that is waited for but one event at a time, once its pause is over; and no event is
//! claimed over and over meanwhile. The topics kept are bounded: beyond that, everything waits for the receiver.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// The most topics remembered, of all receivers together: each is bound in every claim, on MariaDB once per lane.
const MOST_TOPICS: usize = 512;

/// As the delivery tells them apart; `None` if it has but one.
pub(super) type Receiver = Option<u64>;

/// Topics by where they go.
pub(super) type Topics = BTreeMap<Receiver, BTreeSet<String>>;

/// What is known of the receivers. In memory only: a relay that starts asks at once.
#[derive(Debug, Default)]
pub(super) struct Availability(Mutex<BTreeMap<Receiver, Pause>>);

#[derive(Debug)]
struct Pause {
    length: Duration,
    until: Instant,
    /// Its topics, as far as they were met. Never empty, unless it is the only receiver.
    topics: BTreeSet<String>,
    /// It has more topics than can be remembered.
    has_more: bool,
}

/// How much may be claimed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Allowance {
    /// Anything but the topics of receivers that are waited for, and one event of each receiver that is to be asked again.
    Full {
        without: Vec<String>,
        probes: Vec<Probe>,
    },
    /// One event, whatever it is, to see whether the only receiver is back.
    Probe,
    None {
        until: Instant,
    },
}

/// A receiver to be asked again, by an event of one of these topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) receiver: Receiver,
    pub(super) topics: Vec<String>,
}

impl Availability {
    fn pauses(&self) -> MutexGuard<'_, BTreeMap<Receiver, Pause>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn allowance(&self, now: Instant) -> Allowance {
        let pauses = self.pauses();
        let everything_waits = pauses
            .iter()
            .filter(|(receiver, pause)| (receiver.is_none() || pause.has_more) && now < pause.until)
            .map(|(_, pause)| pause.until)
            .max();
        if let Some(until) = everything_waits {
            return Allowance::None { until };
        }
        if pauses.contains_key(&None) {
            return Allowance::Probe;
        }
        Allowance::Full {
            without: pauses
                .values()
                .flat_map(|pause| pause.topics.iter().cloned())
                .collect(),
            probes: pauses
                .iter()
                .filter(|(_, pause)| pause.until <= now && !pause.topics.is_empty())
                .map(|(receiver, pause)| Probe {
                    receiver: *receiver,
                    topics: pause.topics.iter().cloned().collect(),
                })
                .collect(),
        }
    }

    /// The receivers that are waited for, or being asked again.
    pub(super) fn waited_for(&self) -> BTreeSet<Receiver> {
        self.pauses().keys().copied().collect()
    }

    /// When the next pause ends, or ended, after `time`.
    pub(super) fn next_end(&self, time: Instant) -> Option<Instant> {
        let pauses = self.pauses();
        pauses
            .values()
            .map(|pause| pause.until)
            .filter(|until| time < *until)
            .min()
    }

    /// The receiver answered, whatever it said. Its topics are forgotten.
    pub(super) fn reached(&self, receiver: Receiver) {
        self.pauses().remove(&receiver);
    }

    /// The receiver could not be reached: the next pause, twice as long as the last.
    pub(super) fn unreachable(&self, receiver: Receiver, now: Instant) -> Duration {
        let mut pauses = self.pauses();
        let pause = pauses.entry(receiver).or_insert(Pause {
            length: Duration::ZERO,
            until: now,
            topics: BTreeSet::new(),
            has_more: false,
        });
        pause.length = (pause.length * 2).clamp(SHORTEST, LONGEST);
        pause.until = now + pause.length;
        pause.length
    }

    /// Remembers which topics go to receivers that are waited for, of those that were just met. If they become too many,
    /// the latest are kept: there are events of them to ask with.
    pub(super) fn remember(&self, met: Topics) {
        let mut pauses = self.pauses();
        let mut known: usize = pauses.values().map(|pause| pause.topics.len()).sum();
        for (receiver, topics) in met {
            let Some(pause) = pauses.get_mut(&receiver).filter(|_| receiver.is_some()) else {
                continue;
            };
            let new = topics.difference(&pause.topics).count();
            if known + new > MOST_TOPICS {
                pause.has_more = true;
                known -= pause.topics.len();
                let room = MOST_TOPICS.saturating_sub(known).max(1);
                pause.topics = topics.into_iter().take(room).collect();
                known += pause.topics.len();
            } else {
                known += new;
                pause.topics.extend(topics);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONLY: Receiver = None;
    const FIRST: Receiver = Some(1);
    const SECOND: Receiver = Some(2);

    fn full() -> Allowance {
        Allowance::Full {
            without: Vec::new(),
            probes: Vec::new(),
        }
    }

    fn topics(receiver: Receiver, topics: impl IntoIterator<Item = impl Into<String>>) -> Topics {
        Topics::from([(receiver, topics.into_iter().map(Into::into).collect())])
    }

    #[test]
    fn pauses_double_to_a_minute_and_end_with_the_first_answer() {
        let availability = Availability::default();
        let now = Instant::now();
        assert_eq!(availability.allowance(now), full());
        let lengths: Vec<u64> = (0..8)
            .map(|_| availability.unreachable(ONLY, now).as_secs())
            .collect();
        assert_eq!(lengths, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(
            availability.allowance(now),
            Allowance::None { until: now + LONGEST }
        );
        assert_eq!(availability.allowance(now + LONGEST), Allowance::Probe);
        availability.reached(ONLY);
        assert_eq!(availability.allowance(now), full());
        assert_eq!(availability.unreachable(ONLY, now), SHORTEST);
    }

    #[test]
    fn of_several_receivers_one_waits_alone_and_is_asked_with_its_own_topics() {
        let availability = Availability::default();
        let now = Instant::now();
        availability.unreachable(FIRST, now);
        availability.unreachable(FIRST, now);
        availability.unreachable(SECOND, now);
        availability.remember(topics(FIRST, ["a", "b"]));
        availability.remember(topics(SECOND, ["c"]));
        availability.remember(topics(Some(3), ["of a receiver that is there"]));
        let without = || ["a", "b", "c"].map(str::to_owned).to_vec();
        let probe = |receiver, topics: &[&str]| Probe {
            receiver,
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        };
        let allowed = |probes| Allowance::Full {
            without: without(),
            probes,
        };
        assert_eq!(availability.allowance(now), allowed(vec![]));
        assert_eq!(availability.next_end(now), Some(now + SHORTEST));
        let later = now + SHORTEST;
        assert_eq!(
            availability.allowance(later),
            allowed(vec![probe(SECOND, &["c"])])
        );
        assert_eq!(availability.next_end(later), Some(now + 2 * SHORTEST));
        let both = vec![probe(FIRST, &["a", "b"]), probe(SECOND, &["c"])];
        assert_eq!(availability.allowance(now + LONGEST), allowed(both));
        assert_eq!(availability.next_end(now + LONGEST), None);
        availability.reached(SECOND);
        availability.reached(FIRST);
        assert_eq!(availability.allowance(now), full());
    }

    #[test]
    fn topics_beyond_the_bound_make_everything_wait_and_leave_something_to_ask_with() {
        let availability = Availability::default();
        let now = Instant::now();
        let many = |from: usize, count: usize| (from..from + count).map(|number| format!("{number:05}"));
        for receiver in [FIRST, SECOND] {
            availability.unreachable(receiver, now);
        }
        availability.remember(topics(FIRST, many(0, MOST_TOPICS)));
        assert!(
            matches!(availability.allowance(now), Allowance::Full { without, .. } if without.len() == MOST_TOPICS)
        );
        availability.remember(topics(FIRST, many(1_000, 2)));
        assert_eq!(
            availability.allowance(now),
            Allowance::None {
                until: now + SHORTEST
            }
        );
        availability.remember(topics(FIRST, many(2_000, 10_000)));
        availability.remember(topics(SECOND, ["z"]));
        let Allowance::Full { without, probes } = availability.allowance(now + SHORTEST) else {
            panic!("the pauses are over");
        };
        assert_eq!(without.len(), MOST_TOPICS + 1);
        assert_eq!(probes[0].topics[0], "02000");
        assert_eq!(probes[1].topics, ["z"]);
    }
}
