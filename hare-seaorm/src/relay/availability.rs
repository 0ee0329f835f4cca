//! Whether the receiver can be reached: a pause after it could not, and one event that asks again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// What is known of the receiver. In memory only: a relay that starts asks at once.
#[derive(Debug, Default)]
pub(super) struct Availability(Mutex<Option<Pause>>);

#[derive(Debug, Clone, Copy)]
struct Pause {
    length: Duration,
    until: Instant,
}

/// How much may be claimed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowance {
    Full,
    /// One event, to see whether the receiver is back.
    Probe,
    None {
        until: Instant,
    },
}

impl Availability {
    fn pause(&self) -> MutexGuard<'_, Option<Pause>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn allowance(&self, now: Instant) -> Allowance {
        match *self.pause() {
            None => Allowance::Full,
            Some(Pause { until, .. }) if now < until => Allowance::None { until },
            Some(_) => Allowance::Probe,
        }
    }

    /// The receiver answered, whatever it said.
    pub(super) fn reached(&self) {
        *self.pause() = None;
    }

    /// The receiver could not be reached: the next pause, twice as long as the last.
    pub(super) fn unreachable(&self, now: Instant) -> Duration {
        let mut pause = self.pause();
        let length = pause.map_or(SHORTEST, |last| (last.length * 2).min(LONGEST));
        *pause = Some(Pause {
            length,
            until: now + length,
        });
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_a_minute_and_end_with_the_first_answer() {
        let availability = Availability::default();
        let now = Instant::now();
        assert_eq!(availability.allowance(now), Allowance::Full);
        let lengths: Vec<u64> = (0..8).map(|_| availability.unreachable(now).as_secs()).collect();
        assert_eq!(lengths, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(
            availability.allowance(now),
            Allowance::None { until: now + LONGEST }
        );
        assert_eq!(availability.allowance(now + LONGEST), Allowance::Probe);
        availability.reached();
        assert_eq!(availability.allowance(now), Allowance::Full);
        assert_eq!(availability.unreachable(now), SHORTEST);
    }
}
