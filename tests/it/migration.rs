//! The outbox table: its columns, keys and indexes on each backend.

use hare_seaorm_tests::database::Migrator;
use hare_seaorm_tests::{Backend, Empty, TestDb, on_every_backend};
use sea_orm::{ConnectionTrait, DbErr};
use sea_orm_migration::MigratorTrait;
use uuid::Uuid;

/// Inserts an event as raw SQL: `columns` and their literals.
async fn insert(t: &TestDb, columns: &[(&str, String)]) -> Result<(), DbErr> {
    let id = Uuid::now_v7();
    let id = match t.backend {
        Backend::Postgres => format!("'{id}'"),
        Backend::MariaDb => format!("x'{}'", id.simple()),
        Backend::Sqlite => format!("x'{}'", id.simple()),
    };
    let mut names = vec!["topic", "payload", "headers"];
    let mut values = vec!["'t'".to_owned(), "'{}'".to_owned(), "'{}'".to_owned()];
    if !columns.iter().any(|(name, _)| *name == "id") {
        names.push("id");
        values.push(id);
    }
    for (name, value) in columns {
        match names.iter().position(|known| known == name) {
            Some(position) => values[position] = value.clone(),
            None => {
                names.push(name);
                values.push(value.clone());
            }
        }
    }
    let sql = format!(
        "INSERT INTO hare_outbox ({}) VALUES ({})",
        names.join(", "),
        values.join(", ")
    );
    t.db.execute_unprepared(&sql).await.map(drop)
}

fn text(value: &str) -> String {
    format!("'{value}'")
}

on_every_backend! {
    // catalogue A2
    async fn a_cleaned_up_sequence_is_never_used_again(t: TestDb) {
        insert(&t, &[]).await.unwrap();
        insert(&t, &[]).await.unwrap();
        let last = t.outbox().await.last().unwrap().sequence;
        t.execute("DELETE FROM hare_outbox").await;
        insert(&t, &[]).await.unwrap();
        assert!(t.outbox().await[0].sequence > last);
    }

    // catalogue A3
    async fn an_id_is_unique(t: TestDb) {
        let id = if t.backend == Backend::Postgres {
            text("0190163d-8694-739b-aea5-966c26f8ad91")
        } else {
            "x'0190163d8694739baea5966c26f8ad91'".to_owned()
        };
        insert(&t, &[("id", id.clone())]).await.unwrap();
        insert(&t, &[("id", id)]).await.unwrap_err();
    }

    // catalogue A4
    async fn topic_and_keys_hold_255_characters(t: TestDb) {
        let long = text(&"ä".repeat(255));
        insert(&t, &[("topic", long.clone()), ("ordering_key", long.clone()), ("idempotency_key", long.clone()), ("leased_by", long)])
            .await
            .unwrap();
        assert_eq!(t.outbox().await[0].topic.chars().count(), 255);
    }

    // catalogue A7
    async fn an_idempotency_key_is_unique_and_nulls_are_not(t: TestDb) {
        for _ in 0..3 {
            insert(&t, &[]).await.unwrap();
        }
        insert(&t, &[("idempotency_key", text("k"))]).await.unwrap();
        insert(&t, &[("idempotency_key", text("k"))]).await.unwrap_err();
        // Other letters, other accents, a trailing space: other keys.
        for other in ["K", "k ", "ķ"] {
            insert(&t, &[("idempotency_key", text(other))]).await.unwrap();
        }
        assert_eq!(t.count("hare_outbox").await, 7);
    }

    // catalogue A8
    async fn a_fresh_row_is_untouched(t: TestDb) {
        let before = chrono::Utc::now();
        insert(&t, &[]).await.unwrap();
        let row = t.outbox().await.remove(0);
        let age = row.created_at - before;
        assert!(age.num_seconds().abs() < 5, "created_at is now, in UTC: {} beside {before}", row.created_at);
        assert_eq!((row.attempts, row.claims, row.releases_key, row.max_attempts), (0, 0, false, None));
        assert_eq!((row.last_error, row.leased_by, row.lease_token), (None, None, None));
        assert_eq!((row.next_attempt_at, row.lease_until, row.published_at, row.dead_lettered_at), (None, None, None, None));
    }

    // catalogue A9
    async fn the_indexes_are_there(t: TestDb) {
        let sql = match t.backend {
            Backend::Postgres => "SELECT indexname || ' ' || indexdef FROM pg_indexes WHERE tablename = 'hare_outbox'",
            Backend::MariaDb => {
                "SELECT CONCAT(INDEX_NAME, ' ', IF(NON_UNIQUE, '', 'UNIQUE '), GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX)) \
                 FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'hare_outbox' \
                 GROUP BY INDEX_NAME, NON_UNIQUE"
            }
            Backend::Sqlite => "SELECT name || ' ' || sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'hare_outbox'",
        };
        let indexes: Vec<String> =
            t.rows(sql).await.iter().map(|row| row.try_get_by_index::<String>(0).unwrap().replace('"', "")).collect();
        let expected: &[(&str, &[&str])] = if t.backend == Backend::MariaDb {
            &[
                ("hare_outbox_id ", &["UNIQUE", "id"]),
                ("hare_outbox_idempotency_key ", &["UNIQUE", "idempotency_key"]),
                ("hare_outbox_topic ", &["topic,sequence"]),
                ("hare_outbox_pending ", &["published_at,dead_lettered_at,sequence"]),
                ("hare_outbox_lane ", &["ordering_key,published_at,sequence"]),
            ]
        } else {
            &[
                ("hare_outbox_id ", &["UNIQUE", "(id)"]),
                ("hare_outbox_idempotency_key ", &["UNIQUE", "(idempotency_key)"]),
                ("hare_outbox_topic ", &["(topic, sequence)"]),
                ("hare_outbox_pending ", &["(sequence)", "WHERE", "published_at IS NULL", "dead_lettered_at IS NULL"]),
                ("hare_outbox_lane ", &["(ordering_key, sequence)", "WHERE", "published_at IS NULL"]),
                ("hare_outbox_published ", &["(published_at)", "published_at IS NOT NULL"]),
                ("hare_outbox_dead ", &["(dead_lettered_at)", "dead_lettered_at IS NOT NULL"]),
            ]
        };
        for (name, parts) in expected {
            let index = indexes.iter().find(|index| index.starts_with(name));
            let index = index.unwrap_or_else(|| panic!("no index {name}among {indexes:#?}"));
            for part in *parts {
                assert!(index.contains(part), "{index} has no {part}");
            }
        }
    }

    // catalogue A11
    async fn times_compare_at_whole_seconds_and_between(t: TestDb) {
        let due = |seconds: &str| match t.backend {
            Backend::Postgres => format!("timestamptz '2026-12-01 00:00:00+00' + interval '{seconds} seconds'"),
            Backend::MariaDb => format!("'2026-12-01 00:00:00' + INTERVAL {seconds} SECOND"),
            Backend::Sqlite => format!("strftime('%Y-%m-%d %H:%M:%f000+00:00', '2026-12-01 00:00:00', '{seconds} seconds')"),
        };
        for seconds in ["1", "0.5", "1.5", "0"] {
            insert(&t, &[("next_attempt_at", due(seconds)), ("topic", text(seconds))]).await.unwrap();
        }
        let sql = format!("SELECT topic FROM hare_outbox WHERE next_attempt_at <= {} ORDER BY next_attempt_at", due("1"));
        let in_order: Vec<String> = t.rows(&sql).await.iter().map(|row| row.try_get_by_index(0).unwrap()).collect();
        assert_eq!(in_order, ["0", "0.5", "1"]);
        let rows = t.outbox().await;
        assert_eq!(rows[1].next_attempt_at.unwrap().timestamp_subsec_millis(), 500);
    }

    async fn down_takes_the_table_away_and_up_brings_it_back(t: Empty) {
        Migrator::up(&t.db, None).await.unwrap();
        insert(&t, &[]).await.unwrap();
        Migrator::down(&t.db, None).await.unwrap();
        insert(&t, &[]).await.unwrap_err();
        Migrator::up(&t.db, None).await.unwrap();
        assert_eq!(t.count("hare_outbox").await, 0);
    }
}

#[test]
fn every_migration_says_hare_in_its_name() {
    for migration in hare_seaorm_migration::migrations() {
        assert!(migration.name().contains("hare"), "{}", migration.name());
    }
}
