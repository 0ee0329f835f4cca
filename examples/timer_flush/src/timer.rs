//! Passes at fixed times, one after the other, each tried again when it fails.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

/// When passes run, and what happens when one fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer {
    /// From the start of one pass to the start of the next; one that takes longer is followed at once.
    pub(crate) every: Duration,
    /// The most events of a pass.
    pub(crate) limit: usize,
    /// How often a pass is tried.
    pub(crate) tries: u32,
    /// From a failed try to the next.
    pub(crate) pause: Duration,
}

impl Default for Timer {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(5),
            limit: 200,
            tries: 3,
            pause: Duration::from_secs(30),
        }
    }
}

impl Timer {
    /// Runs passes for `length`, the first at once. Fails with the error of the last try of the first pass that cannot be done.
    pub(crate) async fn run<E: std::fmt::Display>(
        &self,
        length: Duration,
        mut pass: impl AsyncFnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = Instant::now() + length;
        loop {
            let next = self.try_pass(&mut pass).await? + self.every;
            if next > end {
                return Ok(());
            }
            sleep_until(next).await;
        }
    }

    /// Runs a pass until it is done, and says when its last try began.
    async fn try_pass<E: std::fmt::Display>(
        &self,
        pass: &mut impl AsyncFnMut(usize) -> Result<(), E>,
    ) -> Result<Instant, E> {
        for next in 2..=self.tries {
            let began = Instant::now();
            match pass(self.limit).await {
                Ok(()) => return Ok(began),
                Err(error) => eprintln!(
                    "a pass failed, try {next} of {} in {:?}: {error}",
                    self.tries, self.pause
                ),
            }
            sleep(self.pause).await;
        }
        let began = Instant::now();
        pass(self.limit).await?;
        Ok(began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When passes ran within `length`, in seconds, with these results in turn and success from then on.
    async fn passes(
        length: u64,
        results: &[Result<(), &'static str>],
    ) -> (Vec<u64>, Result<(), &'static str>) {
        let start = Instant::now();
        let mut results = results.iter().copied();
        let mut times = Vec::new();
        let pass = async |limit| {
            assert_eq!(limit, 200);
            times.push(start.elapsed().as_secs());
            results.next().unwrap_or(Ok(()))
        };
        let result = Timer::default().run(Duration::from_secs(length), pass).await;
        (times, result)
    }

    // catalogue R3
    #[tokio::test(start_paused = true)]
    async fn a_pass_runs_every_five_seconds() {
        assert_eq!(passes(0, &[]).await, (vec![0], Ok(())));
        assert_eq!(passes(20, &[]).await, (vec![0, 5, 10, 15, 20], Ok(())));
    }

    // catalogue R3
    #[tokio::test(start_paused = true)]
    async fn a_failed_pass_is_tried_three_times_thirty_seconds_apart() {
        let recovers = [Ok(()), Err("down"), Err("down"), Ok(())];
        assert_eq!(passes(70, &recovers).await, (vec![0, 5, 35, 65, 70], Ok(())));
        let stays_down = [Err("1"), Err("2"), Err("3")];
        assert_eq!(passes(600, &stays_down).await, (vec![0, 30, 60], Err("3")));
    }
}
