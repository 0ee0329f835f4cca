//! Looking at dead letters, giving them another chance, removing them.

use std::sync::Arc;

use hare_seaorm::delivery::DeliveryError;
use hare_seaorm::outbox::Model;
use hare_seaorm::relay::DeadLetterFilter;
use hare_seaorm::{Error, MemoryDelivery, OutboxRelay};
use hare_seaorm_tests::wakeup::RecordingWakeup;
use hare_seaorm_tests::{Backend, TestDb, on_every_backend};
use sea_orm::prelude::Uuid;

use super::bench::{Seen, at, foreign_token, meddle, relay, row, sequences, set, within, write, write_keys};

/// Makes events dead letters by hand, each failed five times.
async fn kill(t: &TestDb, dead: &[i64]) {
    for sequence in dead {
        let dead = at(t, -60.0);
        set(
            t,
            *sequence,
            &format!("dead_lettered_at = {dead}, attempts = 5, claims = 2, last_error = 'refused', releases_key = true, next_attempt_at = {}", at(t, 600.0)),
        )
        .await;
    }
}

async fn ids<const N: usize>(t: &TestDb, all: [i64; N]) -> [Uuid; N] {
    let mut ids = [Uuid::nil(); N];
    for (id, sequence) in ids.iter_mut().zip(all) {
        *id = row(t, sequence).await.id;
    }
    ids
}

async fn listed(relay: &OutboxRelay, filter: &DeadLetterFilter) -> Vec<i64> {
    let page = relay.dead_letters().list(filter, 100, None).await.unwrap();
    page.iter().map(|letter| letter.sequence).collect()
}

on_every_backend! {
    // catalogue K2
    async fn a_retried_dead_letter_is_as_if_it_had_not_been_tried_and_keeps_its_error(t: TestDb) {
        let [dead, behind, pending, published] = write_keys(&t, ["a", "a", "", ""]).await;
        kill(&t, &[dead]).await;
        set(&t, dead, "releases_key = false").await;
        set(&t, published, &format!("published_at = {}", at(&t, -1.0))).await;
        set(&t, pending, "attempts = 3").await;
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone()).concurrency(1);
        assert_eq!(relay.flush(100).await.unwrap().delivered, 1);
        assert_eq!(sequences(&receiver.take()), [pending]);
        assert_eq!(relay.dead_letters().retry(&DeadLetterFilter::all()).await.unwrap(), 1);
        let again = row(&t, dead).await;
        assert_eq!((again.attempts, again.claims, again.dead_lettered_at, again.next_attempt_at, again.releases_key), (0, 0, None, None, false));
        assert_eq!(again.last_error.as_deref(), Some("refused"));
        assert_eq!(relay.dead_letters().retry(&DeadLetterFilter::all()).await.unwrap(), 0);
        assert_eq!(relay.flush(100).await.unwrap().delivered, 2);
        assert_eq!(sequences(&receiver.take()), [dead, behind], "in the order of the key");
        assert_eq!(row(&t, pending).await.attempts, 3);
    }

    // catalogue K2
    async fn a_retry_wakes_the_running_relay_and_signals_the_topics_retried(t: TestDb) {
        let first = write(&t, "a.one", None).await;
        let second = write(&t, "a.two", None).await;
        let third = write(&t, "a.two", None).await;
        let receiver = MemoryDelivery::new();
        receiver.fail_when(|_: &Model| Some(DeliveryError::failed("refused")));
        let mut db = t.another_pool(2).await;
        let mut seen = Seen::watch(&mut db);
        // This wakeup wakes nobody: the relay's own object does.
        let wakeup = RecordingWakeup::default();
        let relay = relay(&db, receiver.clone()).max_delivery_attempts(1).wakeup(Arc::new(wakeup.clone()));
        let handle = relay.start().unwrap();
        // All have failed, and it has looked once more and found nothing: its next poll is a day away.
        seen.wait_for("attempts = attempts + 1").await;
        seen.wait_for("ordering_key IS NULL OR").await;
        assert_eq!(listed(&relay, &DeadLetterFilter::all()).await, [first, second, third]);
        receiver.recover();
        assert_eq!(relay.dead_letters().retry(&DeadLetterFilter::all()).await.unwrap(), 3);
        assert_eq!(wakeup.take(), [["a.one", "a.two"]]);
        within(receiver.wait_for(3)).await;
        assert_eq!(relay.dead_letters().retry(&DeadLetterFilter::all()).await.unwrap(), 0);
        assert!(wakeup.take().is_empty(), "nothing was retried");
        within(handle.stop()).await;
        for sequence in [first, second, third] {
            assert!(row(&t, sequence).await.published_at.is_some());
        }
    }

    // catalogue K3
    async fn topics_and_ids_combine_within_the_relays_own_topics(t: TestDb) {
        let mut all = Vec::new();
        for topic in ["a.one", "a.two", "a.two", "a.secret.x", "b.one", "A.one"] {
            all.push(write(&t, topic, None).await);
        }
        let all: [i64; 6] = all.try_into().unwrap();
        kill(&t, &all).await;
        let pending = write(&t, "a.one", None).await;
        let [one, two, three, secret, foreign, _] = all;
        let [one_id, two_id, _, secret_id, foreign_id, other_case] = ids(&t, all).await;
        let [pending_id] = ids(&t, [pending]).await;
        let relay = relay(&t.db, MemoryDelivery::new()).topics(["a.*"]).exclude_topics(["a.secret.*"]);
        let everything = DeadLetterFilter::all;

        assert_eq!(listed(&relay, &everything()).await, [one, two, three]);
        assert_eq!(listed(&relay, &everything().topics(["a.two"])).await, [two, three]);
        assert_eq!(listed(&relay, &everything().topics(["a.*"])).await, [one, two, three]);
        assert_eq!(listed(&relay, &everything().topics(["*"])).await, [one, two, three]);
        assert_eq!(listed(&relay, &everything().topics(["a.t*"]).ids([one_id, two_id])).await, [two]);
        assert_eq!(listed(&relay, &everything().ids([pending_id, secret_id, foreign_id, one_id])).await, [one]);
        assert_eq!(listed(&relay, &everything().ids([])).await, [0; 0]);
        for none in [
            everything().topics(["b.*"]),
            everything().topics(["a.secret.*"]),
            everything().ids([]),
            everything().ids([secret_id, foreign_id, pending_id, other_case, Uuid::now_v7()]),
        ] {
            assert_eq!(listed(&relay, &none).await, [0; 0], "{none:?}");
            assert_eq!(relay.dead_letters().retry(&none).await.unwrap(), 0, "{none:?}");
            assert_eq!(relay.dead_letters().remove(&none).await.unwrap(), 0, "{none:?}");
        }
        assert_eq!(relay.dead_letters().show(secret_id).await.unwrap(), None);
        assert_eq!(relay.dead_letters().show(pending_id).await.unwrap(), None);
        assert_eq!(relay.dead_letters().show(two_id).await.unwrap(), Some(row(&t, two).await));

        assert_eq!(relay.dead_letters().remove(&everything().topics(["a.two"]).ids([two_id])).await.unwrap(), 1);
        assert_eq!(relay.dead_letters().retry(&everything().topics(["a.two"])).await.unwrap(), 1);
        assert_eq!(listed(&relay, &everything()).await, [one]);
        assert_eq!(sequences(&t.outbox().await), [one, three, secret, foreign, all[5], pending]);
        assert!(row(&t, secret).await.dead_lettered_at.is_some() && row(&t, foreign).await.dead_lettered_at.is_some());
    }

    async fn a_list_tells_all_but_the_body_page_by_page(t: TestDb) {
        let all = write_keys(&t, ["a", "b", "", "a", "b"]).await;
        kill(&t, &all).await;
        set(&t, all[3], "releases_key = false").await;
        let relay = relay(&t.db, MemoryDelivery::new());
        let dead = relay.dead_letters();
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let page = dead.list(&DeadLetterFilter::all(), 2, after).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.sequence);
            pages.push(page);
        }
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
        let letters = pages.concat();
        for (letter, row) in letters.iter().zip(t.outbox().await) {
            assert_eq!(
                (letter.sequence, letter.id, &letter.topic, &letter.ordering_key, letter.created_at),
                (row.sequence, row.id, &row.topic, &row.ordering_key, row.created_at)
            );
            assert_eq!(
                (Some(letter.dead_lettered_at), letter.attempts, &letter.last_error, letter.releases_key),
                (row.dead_lettered_at, row.attempts, &row.last_error, row.releases_key)
            );
        }
        assert!(!letters[3].releases_key && letters[4].releases_key);
    }

    async fn a_dead_letter_that_cannot_be_read_is_listed_and_can_be_removed(t: TestDb) {
        if t.backend == Backend::Postgres {
            return; // its `json` type keeps such text out
        }
        let [broken, behind] = write_keys(&t, ["a", "a"]).await;
        set(&t, broken, "payload = '{not json'").await;
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone()).max_delivery_attempts(1);
        relay.flush(100).await.unwrap();
        let listed = relay.dead_letters().list(&DeadLetterFilter::all(), 10, None).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert!(listed[0].last_error.as_ref().unwrap().contains("cannot be read"));
        assert!(matches!(relay.dead_letters().show(listed[0].id).await, Err(Error::Database { .. })));
        assert_eq!(relay.dead_letters().remove(&DeadLetterFilter::all().ids([listed[0].id])).await.unwrap(), 1);
        relay.flush(100).await.unwrap();
        assert_eq!(sequences(&receiver.take()), [behind], "its key is free");
    }

    async fn more_than_one_batch_is_retried_and_removed(t: TestDb) {
        let first = write(&t, "many", None).await;
        t.execute(&format!("UPDATE hare_outbox SET dead_lettered_at = {}", at(&t, -1.0))).await;
        // Doubled eleven times: 2048.
        for _ in 0..11 {
            let id = match t.backend {
                Backend::Postgres => "gen_random_uuid()",
                Backend::MariaDb => "UNHEX(REPLACE(UUID(), '-', ''))",
                Backend::Sqlite => "randomblob(16)",
            };
            t.execute(&format!(
                "INSERT INTO hare_outbox (id, topic, payload, headers, dead_lettered_at) SELECT {id}, topic, payload, headers, dead_lettered_at FROM hare_outbox"
            ))
            .await;
        }
        let relay = relay(&t.db, MemoryDelivery::new());
        assert_eq!(relay.dead_letters().retry(&DeadLetterFilter::all()).await.unwrap(), 2048);
        t.execute(&format!("UPDATE hare_outbox SET dead_lettered_at = {} WHERE sequence > {first}", at(&t, -1.0))).await;
        assert_eq!(relay.dead_letters().remove(&DeadLetterFilter::all()).await.unwrap(), 2047);
        assert_eq!(sequences(&t.outbox().await), [first]);
    }

    async fn one_that_is_retried_meanwhile_is_not_removed_and_not_retried_again(t: TestDb) {
        let t = Arc::new(t);
        for removes in [true, false] {
            let [event] = write_keys(&t, [""]).await;
            kill(&t, &[event]).await;
            let mut db = t.another_pool(2).await;
            // Another operator was quicker, and it has failed once since.
            let retried = format!("UPDATE hare_outbox SET dead_lettered_at = NULL, attempts = 1 WHERE sequence = {event}");
            meddle(&mut db, &t, "SELECT o.sequence, o.topic", retried);
            let relay = relay(&db, MemoryDelivery::new());
            let (dead, all) = (relay.dead_letters(), DeadLetterFilter::all());
            let changed = if removes { dead.remove(&all).await } else { dead.retry(&all).await };
            assert_eq!(changed.unwrap(), 0);
            assert_eq!(row(&t, event).await.attempts, 1);
        }
    }

    async fn a_lease_survives_a_retry(t: TestDb) {
        let [event] = write_keys(&t, [""]).await;
        kill(&t, &[event]).await;
        let token = foreign_token(&t);
        set(&t, event, &format!("lease_token = {token}, lease_until = {}, leased_by = 'someone'", at(&t, 600.0))).await;
        let receiver = MemoryDelivery::new();
        let relay = relay(&t.db, receiver.clone());
        assert_eq!(relay.dead_letters().retry(&DeadLetterFilter::all()).await.unwrap(), 1);
        assert_eq!(relay.flush(100).await.unwrap().claimed, 0, "whoever delivers it still does");
    }

    // catalogue J18
    async fn bad_filters_and_pages_are_refused_with_every_problem(t: TestDb) {
        let relay = relay(&t.db, MemoryDelivery::new()).batch_size(0);
        let filter = DeadLetterFilter::all().topics(["a*b", ""]).ids((0..10_001).map(|_| Uuid::now_v7()));
        let problems = |result: Result<(), Error>| match result {
            Err(Error::Config(error)) => error.problems,
            other => panic!("it is refused: {other:?}"),
        };
        let dead = relay.dead_letters();
        let found = problems(dead.list(&filter, 0, None).await.map(drop));
        assert_eq!(found.len(), 5, "{found:?}");
        for part in ["`batch_size` is 0", "`topics` holds `a*b`", "empty pattern", "10001 ids", "`limit` is 0"] {
            assert!(found.iter().any(|problem| problem.contains(part)), "{part}: {found:?}");
        }
        let empty = DeadLetterFilter::all().topics([""; 0]);
        for found in [problems(dead.retry(&empty).await.map(drop)), problems(dead.remove(&empty).await.map(drop))] {
            assert_eq!(found, ["`batch_size` is 0: it must be from 1 to 10000", "`topics` is empty: leave it out"]);
        }
    }
}

/// A retry of more than one batch, while what it retries fails again at once.
#[tokio::test]
async fn each_dead_letter_is_met_once() {
    let t = TestDb::new(Backend::Sqlite).await;
    write(&t, "many", None).await;
    let now = at(&t, -1.0);
    t.execute(&format!("UPDATE hare_outbox SET dead_lettered_at = {now}"))
        .await;
    for _ in 0..11 {
        t.execute(
            "INSERT INTO hare_outbox (id, topic, payload, headers, dead_lettered_at) \
             SELECT randomblob(16), topic, payload, headers, dead_lettered_at FROM hare_outbox",
        )
        .await;
    }
    t.execute(&format!(
        "CREATE TRIGGER fails AFTER UPDATE ON hare_outbox WHEN NEW.dead_lettered_at IS NULL BEGIN \
         UPDATE hare_outbox SET dead_lettered_at = {now} WHERE sequence = NEW.sequence; END"
    ))
    .await;
    let relay = relay(&t.db, MemoryDelivery::new());
    let retried = within(async { relay.dead_letters().retry(&DeadLetterFilter::all()).await }).await;
    assert_eq!(retried.unwrap(), 2048);
}

/// A handler of a web framework, or a spawned task, retries and removes: the futures are `Send`.
#[tokio::test]
async fn retrying_and_removing_may_run_in_a_task() {
    fn may_be_spawned(_: impl Future<Output = ()> + Send + 'static) {}
    let db = sea_orm::Database::connect("sqlite::memory:").await.unwrap();
    let relay = std::sync::Arc::new(hare_seaorm::OutboxRelay::new(
        db,
        hare_seaorm::MemoryDelivery::new(),
    ));
    may_be_spawned(async move {
        let all = hare_seaorm::relay::DeadLetterFilter::all();
        relay.dead_letters().retry(&all).await.unwrap();
        relay.dead_letters().remove(&all).await.unwrap();
    });
}
