//! An event's state in one word.

use std::collections::BTreeMap;

use hare_seaorm::OutboxMessage;
use hare_seaorm::outbox::{Entity, Status, enqueue};
use hare_seaorm_tests::{Backend, TestDb, on_every_backend};
use sea_orm::{DbBackend, EntityTrait, PaginatorTrait, QueryFilter, QueryTrait};

on_every_backend! {
    // catalogue R1
    async fn each_event_has_one_status_in_memory_and_in_a_query(t: TestDb) {
        let now = match t.backend {
            Backend::Postgres => "now()",
            Backend::MariaDb => "UTC_TIMESTAMP(6)",
            Backend::Sqlite => "strftime('%Y-%m-%d %H:%M:%f000+00:00', 'now')",
        };
        let states = [
            ("fresh", "claims = 0".to_owned()),
            ("leased", format!("lease_until = {now}, leased_by = 'a relay'")),
            ("failed once", format!("attempts = 1, next_attempt_at = {now}")),
            ("sent", format!("published_at = {now}")),
            ("sent later", format!("published_at = {now}, attempts = 3")),
            ("dead", format!("dead_lettered_at = {now}")),
        ];
        for (topic, change) in &states {
            let event = enqueue(&t.db, OutboxMessage::new(*topic, &1).unwrap()).await.unwrap().event;
            t.execute(&format!("UPDATE hare_outbox SET {change} WHERE sequence = {}", event.sequence)).await;
        }
        let expected = [
            (Status::Pending, "pending", vec!["fresh", "leased", "failed once"]),
            (Status::Published, "published", vec!["sent", "sent later"]),
            (Status::DeadLettered, "dead_lettered", vec!["dead"]),
        ];
        let mut by_status = BTreeMap::<String, Vec<String>>::new();
        for row in t.outbox().await {
            by_status.entry(Status::of(&row).to_string()).or_default().push(row.topic);
        }
        for (status, text, topics) in expected {
            assert_eq!(by_status[text], topics);
            let rows = Entity::find().filter(status.condition::<Entity>());
            assert_eq!(rows.clone().count(&t.db).await.unwrap(), topics.len() as u64);
            let mut found: Vec<_> = rows.all(&t.db).await.unwrap().into_iter().map(|row| (row.sequence, row.topic)).collect();
            found.sort();
            assert_eq!(found.into_iter().map(|(_, topic)| topic).collect::<Vec<_>>(), topics);
        }
        assert_eq!(by_status.len(), 3);
    }
}

// catalogue R1
#[tokio::test]
async fn a_status_is_found_by_the_index_that_was_made_for_it() {
    let t = TestDb::new(Backend::Sqlite).await;
    for (status, index) in [
        (Status::Pending, "hare_outbox_pending"),
        (Status::Published, "hare_outbox_published"),
        (Status::DeadLettered, "hare_outbox_dead"),
    ] {
        let query = Entity::find().filter(status.condition::<Entity>());
        let plan = format!("EXPLAIN QUERY PLAN {}", query.build(DbBackend::Sqlite).sql);
        let detail: String = t.rows(&plan).await[0].try_get("", "detail").unwrap();
        assert!(
            detail.contains(&format!("USING INDEX {index} ")) || detail.ends_with(index),
            "{status}: {detail}"
        );
    }
}
