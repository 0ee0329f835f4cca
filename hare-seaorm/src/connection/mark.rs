//! Whose statement it is that runs at this moment, for the detector of uncaptured writes.
//!
//! SeaORM tells of a statement where it ends, on the thread that polls it. So what marks a statement is set only while its future is
//! polled, or dropped: other futures of the same task do not see it, and nothing is left behind. A task that we spawn for a
//! statement is told what the spawning one knows ([`as_here`], in [`uncut`](super::uncut)).
//!
//! Invariant: a statement is marked if and only if a captured write, or writing events, runs it. User code that is called in between
//! ([`not_ours`]) is not.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::ThreadId;

/// What is known of the statement that a thread is running.
#[derive(Debug, Clone, Copy, Default)]
struct Running {
    is_ours: bool,
    /// Where a task that we spawned was spawned from.
    origin: Option<Origin>,
}

thread_local! {
    static RUNNING: Cell<Running> = const { Cell::new(Running { is_ours: false, origin: None }) };
}

/// The task that a piece of work belongs to, or the thread, outside of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Task(tokio::task::Id),
    Thread(ThreadId),
}

impl Origin {
    /// The one that is polled on this thread.
    pub(crate) fn current() -> Self {
        RUNNING.get().origin.unwrap_or_else(|| {
            tokio::task::try_id().map_or_else(|| Self::Thread(std::thread::current().id()), Self::Task)
        })
    }
}

/// Whether the statement that is polled on this thread is ours.
pub(crate) fn is_ours() -> bool {
    RUNNING.get().is_ours
}

/// Marks what `work` runs as ours.
pub(crate) async fn ours<F: Future>(work: F) -> F::Output {
    polled(work, |surrounding| Running {
        is_ours: true,
        ..surrounding
    })
    .await
}

/// Takes the mark from what `work` runs: code of a user's that a captured write calls.
pub(crate) async fn not_ours<F: Future>(work: F) -> F::Output {
    polled(work, |surrounding| Running {
        is_ours: false,
        ..surrounding
    })
    .await
}

/// Marks what `work` runs as it would be here, wherever it is polled.
pub(crate) fn as_here<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let here = Running {
        is_ours: is_ours(),
        origin: Some(Origin::current()),
    };
    polled(work, move |_| here)
}

async fn polled<F: Future>(work: F, running: impl Fn(Running) -> Running) -> F::Output {
    let mut marked = Marked {
        work: Some(Box::pin(work)),
        running,
    };
    std::future::poll_fn(|context| marked.poll(context)).await
}

/// A future under a mark, and its end too: SeaORM tells of a stream of rows when that is dropped.
struct Marked<F, R: Fn(Running) -> Running> {
    /// There until it is dropped.
    work: Option<Pin<Box<F>>>,
    running: R,
}

impl<F: Future, R: Fn(Running) -> Running> Marked<F, R> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        let _restored = set(&self.running);
        match &mut self.work {
            Some(work) => work.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

impl<F, R: Fn(Running) -> Running> Drop for Marked<F, R> {
    fn drop(&mut self) {
        let _restored = set(&self.running);
        self.work = None;
    }
}

fn set(running: impl Fn(Running) -> Running) -> Restored {
    let surrounding = RUNNING.get();
    RUNNING.set(running(surrounding));
    Restored(surrounding)
}

/// Sets the thread back, also after a panic.
struct Restored(Running);

impl Drop for Restored {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn mark() -> (bool, Origin) {
        tokio::task::yield_now().await;
        (is_ours(), Origin::current())
    }

    #[tokio::test]
    async fn the_mark_is_of_what_is_polled_and_of_nothing_beside_it() {
        let (marked, unmarked, taken) = tokio::join!(ours(mark()), mark(), ours(not_ours(mark())));
        assert_eq!((marked.0, unmarked.0, taken.0), (true, false, false));
        assert!(!is_ours());
    }

    #[tokio::test]
    async fn a_spawned_task_has_the_mark_and_the_origin_of_its_spawner() {
        let here = Origin::current();
        let spawned = ours(async { tokio::spawn(as_here(mark())).await.unwrap() }).await;
        assert_eq!(spawned, (true, here));
        let alone = tokio::spawn(mark()).await.unwrap();
        assert!(!alone.0 && alone.1 != here);
    }

    #[tokio::test]
    async fn what_is_dropped_half_way_is_marked_to_its_end() {
        struct Ends<'a>(&'a Cell<Option<bool>>);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.set(Some(is_ours()));
            }
        }
        let marked = Cell::new(None);
        let mut work = Box::pin(ours(async {
            let _ends = Ends(&marked);
            std::future::pending::<()>().await;
        }));
        let polled = work
            .as_mut()
            .poll(&mut Context::from_waker(std::task::Waker::noop()));
        assert!(polled.is_pending() && marked.get().is_none());
        drop(work);
        assert_eq!((marked.get(), is_ours()), (Some(true), false));
    }

    #[tokio::test]
    async fn a_panic_leaves_no_mark() {
        let panicking = ours(async { panic!("on purpose") });
        let caught = futures_util::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(panicking)).await;
        assert!(caught.is_err() && !is_ours());
    }
}
