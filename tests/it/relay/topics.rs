//! Which topics a relay serves: names, prefixes, exclusions, to the letter.

use std::sync::Arc;

use hare_seaorm::wakeup::{InProcessWakeup, OutboxWakeup};
use hare_seaorm::{Error, MemoryDelivery, OutboxMessage, OutboxRelay, outbox};
use hare_seaorm_tests::{Backend, TestDb, on_every_backend};

use super::bench::{Seen, at, relay, row, set, within, write, write_keys};

/// The topics of what a relay with these patterns delivers of all there is.
async fn served(t: &TestDb, included: &[&str], excluded: &[&str]) -> Vec<String> {
    t.execute(
        "UPDATE hare_outbox SET published_at = NULL, lease_until = NULL, lease_token = NULL, claims = 0",
    )
    .await;
    let receiver = MemoryDelivery::new();
    let mut relay = relay(&t.db, receiver.clone()).concurrency(1);
    if !included.is_empty() {
        relay = relay.topics(included.iter().copied());
    }
    if !excluded.is_empty() {
        relay = relay.exclude_topics(excluded.iter().copied());
    }
    relay.flush(1000).await.unwrap();
    receiver.topics()
}

async fn refused(relay: OutboxRelay) -> String {
    match relay.poll_once().await {
        Err(Error::Config(error)) => error.to_string(),
        other => panic!("it is refused: {other:?}"),
    }
}

on_every_backend! {
    // catalogue I9
    async fn patterns_limit_what_is_claimed_and_exclusions_subtract(t: TestDb) {
        for topic in ["library", "library.loan.created", "library.book.created", "library.", "shop.order", "library.loan"] {
            write(&t, topic, None).await;
        }
        assert_eq!(
            served(&t, &["library.*"], &["library.loan.*"]).await,
            ["library.book.created", "library.", "library.loan"]
        );
        assert_eq!(served(&t, &["shop.order", "library"], &[]).await, ["library", "shop.order"]);
        assert_eq!(served(&t, &["shop.order", "library.l*"], &["library.loan"]).await, ["library.loan.created", "shop.order"]);
        assert_eq!(served(&t, &["*"], &["library*"]).await, ["shop.order"]);
        assert_eq!(served(&t, &[], &["library*", "nothing"]).await, ["shop.order"]);
        assert_eq!(served(&t, &["*"], &[]).await.len(), 6);
        assert_eq!(served(&t, &["a", "*"], &[]).await.len(), 6);
    }

    // catalogue I10
    async fn patterns_are_compared_to_the_letter(t: TestDb) {
        let topics = [
            "a_b", "axb", "a%b", "Library.x", "library.x", "library.x ", "größe.x", "gr\u{f6}\u{df}e", "gro\u{308}ße.x", "e\u{301}.x", "é.x",
            "\u{1f407}.x", "[a]", "a\\b", "ab",
        ];
        for topic in topics {
            write(&t, topic, None).await;
        }
        let patterns: [&[&str]; 15] = [
            &["a_*"], &["a%*"], &["library.*"], &["Library.*"], &["library.x"], &["LIBRARY.X"], &["größe*"], &["größe"], &["é*"], &["\u{1f407}*"],
            &["\u{1f407}.*"], &["[a]*"], &["a\\*"], &["a*"], &["library.x *"],
        ];
        let mut counts = Vec::new();
        for included in patterns {
            let delivered = served(&t, included, &[]).await;
            // What the receiver got is what the pattern says, read plainly.
            let plainly: Vec<&str> = topics
                .into_iter()
                .filter(|topic| included.iter().any(|pattern| match pattern.strip_suffix('*') {
                    Some(prefix) => topic.as_bytes().starts_with(prefix.as_bytes()),
                    None => topic == pattern,
                }))
                .collect();
            assert_eq!(delivered, plainly, "{included:?}");
            counts.push(delivered.len());
            // And the exclusion is its complement.
            assert_eq!(served(&t, &[], included).await.len(), topics.len() - plainly.len(), "{included:?}");
        }
        assert_eq!(counts, [1, 1, 2, 1, 1, 0, 2, 1, 1, 1, 1, 1, 1, 5, 1]);
    }

    // catalogue I10
    async fn a_nul_in_a_topic_is_a_letter_like_any_other(t: TestDb) {
        if t.backend == Backend::Postgres {
            return; // its texts hold none
        }
        for topic in ["n\0a", "n\0b", "n", "na"] {
            write(&t, topic, None).await;
        }
        assert_eq!(served(&t, &["n\0*"], &[]).await, ["n\0a", "n\0b"]);
        assert_eq!(served(&t, &["n*"], &["n\0a*", "n"]).await, ["n\0b", "na"]);
    }

    // catalogue I10, J18
    async fn bad_patterns_are_refused_all_at_once(t: TestDb) {
        let receiver = MemoryDelivery::new();
        let text = refused(relay(&t.db, receiver.clone()).batch_size(0).topics(["a*b", "ok", "what?", ""]).exclude_topics(["*x"])).await;
        for part in ["`batch_size` is 0", "`topics` holds `a*b`", "`topics` holds `what?`", "an empty pattern", "`exclude_topics` holds `*x`"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = refused(relay(&t.db, receiver.clone()).topics([""; 0]).exclude_topics([""; 0])).await;
        assert!(text.contains("`topics` is empty") && text.contains("`exclude_topics` is empty"), "{text}");
        let text = refused(relay(&t.db, receiver.clone()).exclude_topics(["*"])).await;
        assert!(text.contains("nothing would be left"), "{text}");
        let error = relay(&t.db, receiver).topics(["a*b"]).start().unwrap_err();
        assert!(error.to_string().contains("`a*b`"), "{error}");
    }

    // catalogue I6
    async fn an_event_of_a_topic_that_is_not_served_holds_its_key(t: TestDb) {
        let foreign = write(&t, "a.foreign", Some("k")).await;
        let own = write(&t, "a.own", Some("k")).await;
        write(&t, "a.foreign", Some("k")).await;
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone()).topics(["a.*"]).exclude_topics(["a.f*"]);
        assert_eq!(relay.flush(100).await.unwrap().claimed, 0);
        set(&t, foreign, &format!("published_at = {}", at(&t, 0.0))).await;
        assert_eq!(relay.flush(100).await.unwrap().delivered, 1);
        assert!(row(&t, own).await.published_at.is_some());
    }

    // catalogue M5
    async fn only_signals_of_its_patterns_wake_a_relay(t: TestDb) {
        let wakeup = Arc::new(InProcessWakeup::new());
        let mut db = t.another_pool(2).await;
        let mut seen = Seen::watch(&mut db);
        let receiver = MemoryDelivery::new();
        let relay = relay(&db, receiver.clone()).topics(["mine.*"]).exclude_topics(["mine.not.*"]).wakeup(wakeup.clone());
        let handle = relay.start().unwrap();
        seen.wait_for("FROM").await;
        // Written without a signal: a relay that wakes for anything delivers it.
        write(&t, "mine.first", None).await;
        for other in ["other", "mine", "Mine.x", "mine.not.x"] {
            wakeup.signal(&[other.to_owned()]).await.unwrap();
        }
        let own: Arc<dyn OutboxWakeup> = wakeup.clone();
        let message = OutboxMessage::new("mine.second", &1).unwrap().wakeup(own);
        outbox::enqueue(&t.db, message).await.unwrap();
        within(receiver.wait_for(2)).await;
        within(handle.stop()).await;
        // One that found both, and one that found nothing more unless the stop came first.
        let polls = seen.drain().iter().filter(|sql| sql.contains("ordering_key IS NULL OR")).count();
        assert!((1..=2).contains(&polls), "{polls}");
    }

    async fn a_relay_may_name_very_many_topics(t: TestDb) {
        for number in 0..40 {
            let key = format!("key {number}");
            write(&t, "shop.order", Some(&key)).await;
            write(&t, "shop.order", Some(&key)).await;
        }
        let topics = (0..1_500).map(|number| format!("topic.{number}")).chain(["shop.order".to_owned()]);
        let relay = relay(&t.db, MemoryDelivery::new()).topics(topics);
        assert_eq!(relay.poll_once().await.unwrap().delivered, 80);
    }

    async fn a_relay_of_few_topics_finds_them_behind_many_others(t: TestDb) {
        write_keys(&t, [""; 30]).await;
        write(&t, "rare.one", None).await;
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone()).topics(["rare.*"]).batch_size(2);
        assert_eq!(relay.poll_once().await.unwrap().delivered, 1);
    }
}
