//! The database's clock, which every due time and lease is computed by and compared with.
//!
//! Hosts whose clocks differ so neither steal nor hold leases. A test moves time by an offset, which is one bound parameter.

use std::time::Duration;

use sea_orm::prelude::DateTimeUtc;
use sea_orm::{DbBackend, Value};
use tokio::time::Instant;

use super::sql::Fragment;

/// What a relay takes for now: the database's clock, shifted only by a test.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    #[cfg(feature = "testing")]
    shift: Option<TestClock>,
}

/// SQLite compares times as text: always this width.
const SQLITE_TIME: &str = "'%Y-%m-%d %H:%M:%f000+00:00', 'now'";

impl Clock {
    /// The expression for now.
    pub(crate) fn now(&self, backend: DbBackend) -> Fragment {
        match self.offset() {
            Some(offset) => plus(backend, None, &Fragment::value(span(backend, offset))),
            None => bare(backend),
        }
    }

    /// The expression for `span` from now, where `span` is a value or expression made with [`span`]; null if that is null.
    pub(crate) fn after(&self, backend: DbBackend, span_from_now: &Fragment) -> Fragment {
        plus(backend, self.offset(), span_from_now)
    }

    /// The expression for `length` before now. More than a thousand years are a thousand: databases have a first day.
    pub(crate) fn before(&self, backend: DbBackend, length: Duration) -> Fragment {
        const LONGEST: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);
        let length = length.min(LONGEST);
        let back = match backend {
            DbBackend::Sqlite => Value::from(format!(
                "-{}.{:06} seconds",
                length.as_secs(),
                length.subsec_micros()
            )),
            _ => Value::from(-i64::try_from(length.as_micros()).unwrap_or(i64::MAX)),
        };
        plus(backend, self.offset(), &Fragment::value(back))
    }

    fn offset(&self) -> Option<Duration> {
        #[cfg(feature = "testing")]
        return self.shift.as_ref().map(TestClock::offset);
        #[cfg(not(feature = "testing"))]
        None
    }

    /// This process's own clock, for waits that nobody else sees. A test moves it along.
    pub(crate) fn monotonic(&self) -> Instant {
        Instant::now() + self.offset().unwrap_or_default()
    }

    /// Waits until [`monotonic`](Self::monotonic) has reached `deadline`.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing but the wait is lost.
    pub(crate) async fn wait_until(&self, deadline: Instant) {
        #[cfg(feature = "testing")]
        if let Some(shift) = &self.shift {
            loop {
                let moved = shift.0.moved.notified();
                tokio::pin!(moved);
                // Before the look at the clock, so that no move between the two is missed.
                moved.as_mut().enable();
                let left = deadline.saturating_duration_since(self.monotonic());
                if tokio::time::timeout(left, moved).await.is_err() {
                    return;
                }
            }
        }
        tokio::time::sleep_until(deadline).await;
    }
}

/// A length of time as a value that [`Clock::after`] can add; rounded up to what the database can tell apart.
pub(crate) fn span(backend: DbBackend, length: Duration) -> Value {
    match backend {
        DbBackend::Sqlite => Value::from(format!(
            "+{}.{:06} seconds",
            length.as_secs(),
            length.subsec_micros()
        )),
        _ => Value::from(i64::try_from(length.as_micros()).unwrap_or(i64::MAX)),
    }
}

/// The null that stands for no [`span`].
pub(crate) fn no_span(backend: DbBackend) -> Value {
    match backend {
        DbBackend::Sqlite => Value::String(None),
        _ => Value::BigInt(None),
    }
}

/// A time of the writer's own as the time columns hold it: on SQLite as text of their fixed width, on MySQL as text too, because a
/// bound time is a `TIMESTAMP` there, which ends in 2038 and is null from then on.
pub(crate) fn time_value(backend: DbBackend, time: Option<DateTimeUtc>) -> Value {
    let text = |format| Value::from(time.map(|time| time.format(format).to_string()));
    match backend {
        DbBackend::Postgres => Value::from(time),
        DbBackend::MySql => text("%Y-%m-%d %H:%M:%S%.6f"),
        _ => text("%Y-%m-%d %H:%M:%S%.6f+00:00"),
    }
}

fn bare(backend: DbBackend) -> Fragment {
    match backend {
        DbBackend::Postgres => Fragment::text("now()"),
        DbBackend::MySql => Fragment::text("UTC_TIMESTAMP(6)"),
        _ => Fragment::fill("strftime({time})", &[("time", &Fragment::text(SQLITE_TIME))]),
    }
}

fn plus(backend: DbBackend, offset: Option<Duration>, more: &Fragment) -> Fragment {
    let spans = offset
        .map(|offset| Fragment::value(span(backend, offset)))
        .into_iter()
        .chain([more.clone()]);
    match backend {
        DbBackend::Postgres => {
            let spans = spans
                .map(|span| Fragment::fill(" + ({span}) * interval '1 microsecond'", &[("span", &span)]));
            Fragment::fill("(now(){spans})", &[("spans", &Fragment::joined("", spans))])
        }
        DbBackend::MySql => {
            let spans =
                spans.map(|span| Fragment::fill(" + INTERVAL ({span}) MICROSECOND", &[("span", &span)]));
            Fragment::fill(
                "(UTC_TIMESTAMP(6){spans})",
                &[("spans", &Fragment::joined("", spans))],
            )
        }
        _ => Fragment::fill(
            "strftime({time}, {spans})",
            &[
                ("time", &Fragment::text(SQLITE_TIME)),
                ("spans", &Fragment::joined(", ", spans)),
            ],
        ),
    }
}

/// Moves a relay's time in tests: what is due, whose lease has ended, how long to wait. Clones share it.
///
/// It shifts the database's clock in each of the relay's statements; the database itself and other relays are not touched.
#[cfg(feature = "testing")]
#[derive(Debug, Clone, Default)]
pub struct TestClock(std::sync::Arc<Shift>);

#[cfg(feature = "testing")]
#[derive(Debug, Default)]
struct Shift {
    micros: std::sync::atomic::AtomicU64,
    moved: tokio::sync::Notify,
}

#[cfg(feature = "testing")]
impl TestClock {
    /// A clock that shows the database's time until it is moved.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves time forward.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.0.micros.fetch_add(by, std::sync::atomic::Ordering::SeqCst);
        self.0.moved.notify_waiters();
    }

    fn offset(&self) -> Duration {
        Duration::from_micros(self.0.micros.load(std::sync::atomic::Ordering::SeqCst))
    }
}

#[cfg(feature = "testing")]
impl From<TestClock> for Clock {
    fn from(clock: TestClock) -> Self {
        Self { shift: Some(clock) }
    }
}
