//! A poll that is dropped at any await leaves leases at most: never a lock, never an open transaction in the pool.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use hare_seaorm::MemoryDelivery;
use hare_seaorm_tests::{TestDb, on_every_backend};
use sea_orm::ConnectionTrait;

use super::bench::{MINUTE, open_transactions, relay_with_clock, within, write_keys};

/// Polls a future so many times, then drops it; whether it ended.
async fn give_up_after<F: Future>(polls: usize, future: F) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

on_every_backend! {
    async fn a_poll_dropped_at_any_await_leaves_no_transaction_open(t: TestDb) {
        let pool = t.another_pool(1).await;
        let receiver = MemoryDelivery::new();
        let (relay, clock) = relay_with_clock(&pool, receiver.clone());
        let mut ended = 0;
        for polls in 0..120 {
            write_keys(&t, ["a", "a", ""]).await;
            ended += usize::from(within(give_up_after(polls, relay.poll_once())).await);
            // Its only connection is given out again, as good as new.
            within(pool.execute_unprepared("SELECT 1")).await.unwrap();
            assert_eq!(open_transactions(&t).await, 0, "after {polls} polls");
            // Another session can write, so no lock was left behind.
            within(t.execute("UPDATE hare_outbox SET topic = topic")).await;
            clock.advance(2 * MINUTE);
            if ended > 3 {
                break;
            }
        }
        assert!(ended > 0, "some poll came to its end");
        clock.advance(2 * MINUTE);
        within(relay.flush(100_000)).await.unwrap();
        assert!(t.outbox().await.iter().all(|row| row.published_at.is_some()), "nothing was lost");
    }
}
