//! A started relay, seen from outside.

use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::delivery::Stop;

/// A relay that runs. Stop it before the process ends; dropped, it ends at once and leaves its leases to expire.
#[derive(Debug)]
#[must_use = "a relay ends when its handle is dropped"]
pub struct RelayHandle {
    run: Arc<Run>,
}

#[derive(Debug)]
struct Run {
    stop: Stop,
    ended: Stop,
    task: AbortHandle,
}

impl RelayHandle {
    /// Stops the relay: sends that have begun end within their time and are recorded, everything else that was claimed is given
    /// back, the relay no longer listens, and the delivery is closed. Ends a wait at once. Calling it again only waits.
    ///
    /// It does not deliver what is pending first: that stays in the table for another relay, or for the next start.
    ///
    /// # Cancel safety
    /// Cancel safe: dropped, the relay stops all the same, and records what it sent.
    pub async fn stop(&self) {
        self.run.stop.request();
        self.run.ended.requested().await;
    }
}

impl Drop for Run {
    /// One that was told to stop is left to do so.
    fn drop(&mut self) {
        if !self.stop.is_requested() {
            self.task.abort();
        }
    }
}

/// What a relay remembers of its last run, so that it never runs twice at once.
#[derive(Debug, Default)]
pub(super) struct LastRun {
    run: Weak<Run>,
    ended: Option<Stop>,
}

impl LastRun {
    /// A handle of the run that is under way, or of a new one, which begins when the last has ended.
    pub(super) fn go_on_or<F>(&mut self, new: impl FnOnce() -> (Stop, Handle, F)) -> RelayHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if let Some(run) = self.run.upgrade()
            && !run.stop.is_requested()
            && !run.ended.is_requested()
        {
            return RelayHandle { run };
        }
        let (stop, runtime, running) = new();
        let ended = Stop::default();
        let at_the_end = AtTheEnd(ended.clone());
        let last = self.ended.replace(ended.clone());
        let task = runtime.spawn(async move {
            let _at_the_end = at_the_end;
            if let Some(last) = last {
                last.requested().await;
            }
            running.await;
        });
        let run = Arc::new(Run {
            stop,
            ended,
            task: task.abort_handle(),
        });
        self.run = Arc::downgrade(&run);
        RelayHandle { run }
    }
}

/// Tells of the end also when the task panics or is aborted.
struct AtTheEnd(Stop);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        self.0.request();
    }
}
