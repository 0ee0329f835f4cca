//! When a failed event is tried again. Pure.

use std::time::Duration;

/// How the wait grows from one failed attempt to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Backoff {
    pub(super) base: Duration,
    pub(super) max: Duration,
    /// How far the wait may be off, as a part of it: 0 is exact.
    pub(super) spread: f64,
}

impl Backoff {
    /// The wait after the failed attempt number `attempt` (from 1): the base, doubled with each attempt up to the longest wait,
    /// then spread. `chance` in -1..=1 says which way and how far. Never sooner than the receiver asked, within the longest
    /// wait.
    pub(super) fn wait(&self, attempt: i32, asked: Option<Duration>, chance: f64) -> Duration {
        let doublings = u32::try_from(attempt.max(1) - 1).unwrap_or(0);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        let wait = self.base.saturating_mul(factor).min(self.max);
        // After the limit, so that events which failed together for a long time still come back apart.
        let spread = scaled(wait, (1.0 + self.spread * chance.clamp(-1.0, 1.0)).max(0.0));
        spread.max(asked.unwrap_or_default().min(self.max))
    }
}

/// `mul_f64` that does not panic where the product is too long.
fn scaled(wait: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(wait.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(backoff: Backoff, attempt: i32) -> (f64, f64) {
        let wait = |chance| backoff.wait(attempt, None, chance).as_secs_f64();
        (wait(-1.0), wait(1.0))
    }

    fn backoff(base: u64, max: u64, spread: f64) -> Backoff {
        Backoff {
            base: Duration::from_secs(base),
            max: Duration::from_secs(max),
            spread,
        }
    }

    // catalogue J9
    #[test]
    fn the_wait_doubles_up_to_its_limit_and_is_spread() {
        let backoff = backoff(10, 25, 0.1);
        assert_eq!(range(backoff, 1), (9.0, 11.0));
        assert_eq!(range(backoff, 2), (18.0, 22.0));
        assert_eq!(range(backoff, 3), (22.5, 27.5));
    }

    // catalogue J10
    #[test]
    fn thousands_of_attempts_do_not_overflow() {
        for attempt in [31, 32, 33, 34, 64, 65, 2000, i32::MAX] {
            assert_eq!(
                range(backoff(1, 300, 0.1), attempt),
                (270.0, 330.0),
                "attempt {attempt}"
            );
        }
        let longest = Backoff {
            base: Duration::MAX,
            max: Duration::MAX,
            spread: 0.0,
        };
        assert_eq!(longest.wait(i32::MAX, None, 0.0), Duration::MAX);
    }

    // catalogue R5
    #[test]
    fn without_spread_the_waits_are_exact() {
        let waits = (1..=13).map(|attempt| backoff(2, 3600, 0.0).wait(attempt, None, 0.7).as_secs());
        assert_eq!(
            waits.collect::<Vec<_>>(),
            [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600]
        );
    }

    #[test]
    fn a_receiver_may_ask_for_a_longer_wait_within_the_limit() {
        let wait = |asked| {
            backoff(10, 25, 0.0)
                .wait(1, Some(Duration::from_secs(asked)), 0.0)
                .as_secs()
        };
        assert_eq!([wait(3), wait(20), wait(90)], [10, 20, 25]);
    }
}
