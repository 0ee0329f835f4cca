//! What a relay can be told, and the ranges.

use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::OutboxRelay;
use super::observer::RelayObserver;
use super::policy::{DeadLetterPolicy, Policies};
use super::retry::Backoff;
use super::topics::Topics;
use crate::outbox::OutboxEntity;
use crate::wakeup::OutboxWakeup;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The options of a relay, as given. Checked when a run begins.
#[derive(Debug, Clone)]
pub(super) struct RelayOptions {
    pub(super) batch_size: usize,
    lane_length: Option<usize>,
    pub(super) concurrency: usize,
    pub(super) poll_interval: Duration,
    max_delivery_attempts: u32,
    retry_base: Duration,
    retry_max: Duration,
    retry_spread: f64,
    pub(super) lease: Duration,
    pub(super) delivery_timeout: Duration,
    pub(super) max_unavailable: Option<Duration>,
    pub(super) topics: Topics,
    pub(super) dead_letter_policies: Policies,
    pub(super) name: String,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self {
            batch_size: 100,
            lane_length: None,
            concurrency: 10,
            poll_interval: Duration::from_secs(5),
            max_delivery_attempts: 5,
            retry_base: Duration::from_secs(1),
            retry_max: Duration::from_secs(300),
            retry_spread: 0.1,
            lease: Duration::from_secs(60),
            delivery_timeout: Duration::from_secs(30),
            max_unavailable: Some(DAY),
            topics: Topics::default(),
            dead_letter_policies: Policies::default(),
            name: default_name(),
        }
    }
}

/// Host, process and a random part.
fn default_name() -> String {
    let host = gethostname::gethostname();
    let host: String = host.to_string_lossy().chars().take(200).collect();
    format!("{host}:{}:{:08x}", std::process::id(), rand::random::<u32>())
}

impl RelayOptions {
    pub(super) fn lane_length(&self) -> usize {
        self.lane_length.unwrap_or_else(|| (self.batch_size / 4).max(1))
    }

    pub(super) fn max_attempts(&self) -> i32 {
        i32::try_from(self.max_delivery_attempts).unwrap_or(i32::MAX)
    }

    pub(super) fn backoff(&self) -> Backoff {
        Backoff {
            base: self.retry_base,
            max: self.retry_max,
            spread: self.retry_spread,
        }
    }

    /// Every option out of its range.
    pub(super) fn problems(&self) -> Vec<String> {
        let longest_lease_timeout = self.lease.saturating_sub(Duration::from_nanos(1));
        let instant = Duration::from_nanos(1);
        let checks = [
            check("batch_size", &self.batch_size, 1..=10_000),
            check("lane_length", &self.lane_length(), 1..=self.batch_size.max(1))
                .map(|problem| format!("{problem}, the batch_size")),
            check("concurrency", &self.concurrency, 1..=1_000),
            check("poll_interval", &self.poll_interval, instant..=DAY),
            check("max_delivery_attempts", &self.max_delivery_attempts, 1..=10_000),
            check("retry_base", &self.retry_base, Duration::ZERO..=self.retry_max)
                .map(|problem| format!("{problem}, the retry_max")),
            check("retry_max", &self.retry_max, Duration::ZERO..=DAY),
            check("retry_spread", &self.retry_spread, 0.0..=1.0),
            check("lease", &self.lease, instant..=DAY),
            (self.delivery_timeout.is_zero() || self.delivery_timeout > longest_lease_timeout).then(|| {
                format!(
                    "`delivery_timeout` is {:?}: it must be above zero and below the lease, {:?}",
                    self.delivery_timeout, self.lease
                )
            }),
            (self.max_unavailable == Some(Duration::ZERO))
                .then(|| "`max_unavailable` is zero: it must be above zero, or none".to_owned()),
            check("the length of `name`", &self.name.chars().count(), 1..=255),
        ];
        let topics = self.topics.read().err().unwrap_or_default();
        checks
            .into_iter()
            .flatten()
            .chain(topics)
            .chain(self.dead_letter_policies.problems())
            .collect()
    }
}

/// What is wrong with an option, if it is out of its range.
pub(super) fn check<T: PartialOrd + Debug>(
    option: &str,
    value: &T,
    range: RangeInclusive<T>,
) -> Option<String> {
    let option: &dyn Display = if option.contains(' ') {
        &option
    } else {
        &format!("`{option}`")
    };
    (!range.contains(value)).then(|| {
        format!(
            "{option} is {value:?}: it must be from {:?} to {:?}",
            range.start(),
            range.end()
        )
    })
}

/// Options. Each is checked when a run begins, all together: the error lists every one that is out of its range.
impl<E: OutboxEntity> OutboxRelay<E> {
    fn with(mut self, change: impl FnOnce(&mut RelayOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// The most events claimed at once. Default 100, from 1 to 10,000.
    pub fn batch_size(self, events: usize) -> Self {
        self.with(|options| options.batch_size = events)
    }

    /// The most events of one ordering key in a batch, so that a busy key leaves room for others. Default a quarter of the
    /// batch, at least 1; from 1 to `batch_size`.
    pub fn lane_length(self, events: usize) -> Self {
        self.with(|options| options.lane_length = Some(events))
    }

    /// Sends under way at once. Default 10, from 1 to 1,000. Events of one ordering key are never under way together.
    pub fn concurrency(self, sends: usize) -> Self {
        self.with(|options| options.concurrency = sends)
    }

    /// The wait between polls that found nothing, if no wakeup ends it early. Default 5 s, above zero and at most a day.
    ///
    /// Nothing wakes a relay when a time has come: an event that failed, one with a
    /// [`not_before`](crate::OutboxMessage::not_before), or one whose relay died may be this much later than it is due.
    pub fn poll_interval(self, interval: Duration) -> Self {
        self.with(|options| options.poll_interval = interval)
    }

    /// How often an event may fail before it becomes a dead letter, unless it has a number of its own. Default 5, from 1 to
    /// 10,000.
    pub fn max_delivery_attempts(self, attempts: u32) -> Self {
        self.with(|options| options.max_delivery_attempts = attempts)
    }

    /// The wait after the first failure; each further one doubles it. Default 1 s, at most `retry_max`. A relay that has nothing
    /// else to do sees that it is over at its next poll, `poll_interval` later at most.
    pub fn retry_base(self, wait: Duration) -> Self {
        self.with(|options| options.retry_base = wait)
    }

    /// The longest wait after a failure, before it is spread. Default 300 s, at most a day.
    pub fn retry_max(self, wait: Duration) -> Self {
        self.with(|options| options.retry_max = wait)
    }

    /// How far a wait is moved at random, as a part of it and either way, so that events which failed together come back
    /// apart. Default 0.1, from 0 (exact) to 1.
    pub fn retry_spread(self, part: f64) -> Self {
        self.with(|options| options.retry_spread = part)
    }

    /// How long a claimed event is this relay's without a renewal. It is renewed three times per lease while it is delivered,
    /// so this is how long the events of a relay that died wait for another. Default 60 s, above `delivery_timeout`, at most a
    /// day.
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|options| options.lease = lease)
    }

    /// The longest one send may take; then it has failed. Also the longest that closing the delivery may take when the relay stops.
    /// Default 30 s, above zero and below `lease`.
    pub fn delivery_timeout(self, timeout: Duration) -> Self {
        self.with(|options| options.delivery_timeout = timeout)
    }

    /// How long an event may wait for a receiver that cannot be reached, counted from when it was written or became due;
    /// from then on that counts as a failure. Default 24 h; `None` for ever.
    pub fn max_unavailable(self, longest: impl Into<Option<Duration>>) -> Self {
        let longest = longest.into();
        self.with(|options| options.max_unavailable = longest)
    }

    /// The only topics served: exact names, or beginnings followed by `*`, as in `library.*`; `*` alone is every topic. Compared
    /// to the letter, with case. Default all; at least one.
    ///
    /// They limit what this relay claims, what it is woken for, and what [`backlog`](Self::backlog),
    /// [`dead_letters`](Self::dead_letters) and the cleanups see. An event of a topic that is not served still holds back later
    /// events of its ordering key.
    pub fn topics<T: Into<String>>(self, patterns: impl IntoIterator<Item = T>) -> Self {
        let patterns = patterns.into_iter().map(Into::into).collect();
        self.with(|options| options.topics.included = Some(patterns))
    }

    /// Topics not served although [`topics`](Self::topics) names them, in the same patterns. Default none; not `*`.
    pub fn exclude_topics<T: Into<String>>(self, patterns: impl IntoIterator<Item = T>) -> Self {
        let patterns = patterns.into_iter().map(Into::into).collect();
        self.with(|options| options.topics.excluded = Some(patterns))
    }

    /// What becomes of an ordering key whose event of such a topic ran out of attempts. `pattern` is a topic's name, or its
    /// beginning followed by `*`, as for [`topics`](Self::topics). Given as often as there are patterns: an exact name wins wherever
    /// it was given, else the first pattern that matches. Default [`DeadLetterPolicy::Block`].
    pub fn dead_letter_policy(self, pattern: impl AsRef<str>, policy: DeadLetterPolicy) -> Self {
        self.with(|options| options.dead_letter_policies.add(pattern.as_ref(), policy))
    }

    /// What `leased_by` says of events that this relay holds, for people. Default host, process id and a random part; 1 to 255
    /// characters.
    pub fn name(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.with(|options| options.name = name)
    }

    /// What ends the wait between polls early, in place of the outbox's own.
    pub fn wakeup(mut self, wakeup: Arc<dyn OutboxWakeup>) -> Self {
        self.wakeup = Some(Some(wakeup));
        self
    }

    /// Listens to nothing: polls at its interval only.
    pub fn without_wakeup(mut self) -> Self {
        self.wakeup = Some(None);
        self
    }

    /// Who is told what became of each event. Default nobody. One observer: given again, it replaces the one before.
    pub fn observer(mut self, observer: impl RelayObserver) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Moves this relay's time, in a test.
    #[cfg(feature = "testing")]
    pub fn clock(mut self, clock: crate::testing::TestClock) -> Self {
        self.clock = clock.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // catalogue J18
    #[test]
    fn every_option_out_of_its_range_is_named_at_once() {
        let options = RelayOptions {
            batch_size: 10_001,
            lane_length: Some(0),
            concurrency: 0,
            poll_interval: Duration::ZERO,
            max_delivery_attempts: 0,
            retry_base: Duration::from_secs(301),
            retry_spread: f64::NAN,
            lease: Duration::from_secs(30),
            max_unavailable: Some(Duration::ZERO),
            topics: Topics {
                included: Some(Vec::new()),
                excluded: Some(vec!["a*b".to_owned()]),
            },
            dead_letter_policies: {
                let mut policies = Policies::default();
                policies.add("x?", DeadLetterPolicy::Skip);
                policies
            },
            name: String::new(),
            ..RelayOptions::default()
        };
        let text = options.problems().join("; ");
        for part in [
            "`batch_size` is 10001: it must be from 1 to 10000",
            "`lane_length` is 0: it must be from 1 to 10001, the batch_size",
            "`concurrency` is 0",
            "`poll_interval` is 0ns",
            "`max_delivery_attempts` is 0",
            "`retry_base` is 301s: it must be from 0ns to 300s, the retry_max",
            "`retry_spread` is NaN",
            "`delivery_timeout` is 30s: it must be above zero and below the lease, 30s",
            "`max_unavailable` is zero",
            "`topics` is empty",
            "`exclude_topics` holds `a*b`",
            "`dead_letter_policy` holds `x?`",
            "the length of `name` is 0: it must be from 1 to 255",
        ] {
            assert!(text.contains(part), "{part} is missing in: {text}");
        }
        assert_eq!(RelayOptions::default().problems(), Vec::<String>::new());
    }

    // catalogue I11
    #[test]
    fn default_names_differ_and_fit() {
        let (one, two) = (default_name(), default_name());
        assert_ne!(one, two);
        assert!(one.contains(&format!(":{}:", std::process::id())) && one.chars().count() <= 255);
    }

    #[test]
    fn a_lane_is_a_quarter_of_the_batch_but_not_nothing() {
        let lane = |batch_size| {
            RelayOptions {
                batch_size,
                ..RelayOptions::default()
            }
            .lane_length()
        };
        assert_eq!([lane(100), lane(3), lane(1)], [25, 1, 1]);
    }
}
