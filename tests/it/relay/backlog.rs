//! How much there is to do.

use std::time::Duration;

use hare_seaorm::{Error, MemoryDelivery};
use hare_seaorm_tests::{TestDb, on_every_backend};

use super::bench::{MINUTE, Seen, at, foreign_token, relay, relay_with_clock, set, write, write_keys};

on_every_backend! {
    // catalogue K7
    async fn the_backlog_counts_each_state_in_one_statement(t: TestDb) {
        let mut db = t.another_pool(1).await;
        let mut seen = Seen::watch(&mut db);
        let relay = relay(&db, MemoryDelivery::new());
        let empty = relay.backlog().await.unwrap();
        assert_eq!((empty.pending, empty.oldest_pending_age, empty.dead_lettered), (0, None, 0));
        let [published, dead, released, leased, later, failed, held, fresh] = write_keys(&t, ["", "a", "b", "", "", "", "a", ""]).await;
        set(&t, published, &format!("published_at = {}", at(&t, -1.0))).await;
        set(&t, dead, &format!("dead_lettered_at = {}", at(&t, -1.0))).await;
        set(&t, released, &format!("dead_lettered_at = {}, releases_key = true", at(&t, -1.0))).await;
        set(&t, leased, &format!("lease_until = {}, lease_token = {}", at(&t, 60.0), foreign_token(&t))).await;
        set(&t, later, &format!("next_attempt_at = {}", at(&t, 60.0))).await;
        set(&t, failed, "attempts = 1, last_error = 'refused'").await;
        seen.drain();
        let backlog = relay.backlog().await.unwrap();
        assert_eq!((backlog.pending, backlog.dead_lettered), (5, 2), "{held} and {fresh} too");
        assert_eq!(seen.drain().iter().filter(|sql| sql.contains("hare_outbox")).count(), 1);
    }

    // catalogue K7
    async fn the_age_is_that_of_the_lowest_pending_sequence_by_the_databases_clock(t: TestDb) {
        let [published, dead, first, older] = write_keys(&t, [""; 4]).await;
        set(&t, published, &format!("created_at = {0}, published_at = {0}", at(&t, -90_000.0))).await;
        set(&t, dead, &format!("created_at = {0}, dead_lettered_at = {0}", at(&t, -80_000.0))).await;
        set(&t, first, &format!("created_at = {}", at(&t, -100.0))).await;
        set(&t, older, &format!("created_at = {}", at(&t, -70_000.0))).await;
        let (relay, clock) = relay_with_clock(&t.db, MemoryDelivery::new());
        let age = || async { relay.backlog().await.unwrap().oldest_pending_age.unwrap().as_secs_f64() };
        let at_first = age().await;
        assert!((99.9..130.0).contains(&at_first), "{at_first}");
        clock.advance(60 * MINUTE);
        let an_hour_later = age().await;
        assert!((3699.9..3730.0).contains(&an_hour_later), "{an_hour_later}");
        // One from the future is new.
        set(&t, first, &format!("created_at = {}", at(&t, 720_000.0))).await;
        assert_eq!(relay.backlog().await.unwrap().oldest_pending_age, Some(Duration::ZERO));
    }

    // catalogue K7, I9
    async fn the_backlog_is_that_of_the_relays_topics(t: TestDb) {
        for topic in ["a.x", "a.secret.x", "b", "A.x", "exact"] {
            write(&t, topic, None).await;
            let dead = write(&t, topic, None).await;
            set(&t, dead, &format!("dead_lettered_at = {}", at(&t, -1.0))).await;
        }
        let everything = relay(&t.db, MemoryDelivery::new());
        let backlog = everything.backlog().await.unwrap();
        assert_eq!((backlog.pending, backlog.dead_lettered), (5, 5));
        let own = relay(&t.db, MemoryDelivery::new()).topics(["a.*", "exact"]).exclude_topics(["a.secret.*"]);
        let backlog = own.backlog().await.unwrap();
        assert_eq!((backlog.pending, backlog.dead_lettered), (2, 2));
        let none = relay(&t.db, MemoryDelivery::new()).topics(["c*"]);
        assert_eq!(none.backlog().await.unwrap(), Default::default());
        let bad = relay(&t.db, MemoryDelivery::new()).topics(["c*d"]);
        assert!(matches!(bad.backlog().await, Err(Error::Config(_))));
    }
}
