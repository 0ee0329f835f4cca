//! The outbox table: its columns, keys and indexes on each backend.

use hare_seaorm_migration::OutboxTable;
use hare_seaorm_tests::database::Migrator;
use hare_seaorm_tests::{Backend, Empty, TestDb, on_every_backend};
use sea_orm::{DatabaseConnection, DbErr};
use sea_orm_migration::MigratorTrait;
use sea_orm_migration::prelude::{ColumnDef, SchemaManager};

/// Inserts an event as raw SQL: `columns` and their literals.
async fn insert(t: &TestDb, columns: &[(&str, String)]) -> Result<(), DbErr> {
    t.insert_event("hare_outbox", columns).await
}

/// What changes a schema uses one connection: SQLite's others know a column that is gone until they next read the table.
async fn one_connection(t: &TestDb) -> DatabaseConnection {
    t.another_pool(1).await
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

    // catalogue A12
    async fn a_table_with_events_gets_an_idempotency_key(t: Empty) {
        const LEGACY: &str = "legacy_outbox";
        let db = one_connection(&t).await;
        let manager = SchemaManager::new(&db);
        let table = OutboxTable::new(LEGACY);
        table.create(&manager).await.unwrap();
        table.drop_idempotency_key(&manager).await.unwrap();
        assert!(!manager.has_column(LEGACY, "idempotency_key").await.unwrap());
        let key = |key: &str| [("idempotency_key", text(key))];
        t.insert_event(LEGACY, &key("k")).await.unwrap_err();
        for _ in 0..3 {
            t.insert_event(LEGACY, &[("ordering_key", text("before"))]).await.unwrap();
        }
        let before = t.rows("SELECT * FROM legacy_outbox").await.len();

        table.add_idempotency_key(&manager).await.unwrap();
        for _ in 0..2 {
            t.insert_event(LEGACY, &[]).await.unwrap();
        }
        t.insert_event(LEGACY, &key("k")).await.unwrap();
        t.insert_event(LEGACY, &key("k")).await.unwrap_err();
        for other in ["K", "k ", "ķ"] {
            t.insert_event(LEGACY, &key(other)).await.unwrap();
        }
        t.insert_event(LEGACY, &key(&"ä".repeat(255))).await.unwrap();
        assert_eq!(t.count(LEGACY).await, i64::try_from(before).unwrap() + 7);
        assert_eq!(t.count("legacy_outbox WHERE idempotency_key IS NULL AND ordering_key = 'before'").await, 3);

        // As an outbox that had the column from the start.
        OutboxTable::new("fresh_outbox").create(&manager).await.unwrap();
        let shape = |table: &'static str| {
            let (t, sql) = (&t, match t.backend {
                Backend::Postgres => format!(
                    "SELECT format_type(a.atttypid, a.atttypmod) || a.attnotnull FROM pg_attribute a \
                     WHERE a.attrelid = '{table}'::regclass AND a.attname = 'idempotency_key'"
                ),
                Backend::MariaDb => format!(
                    "SELECT CONCAT(COLUMN_TYPE, ' ', COLLATION_NAME, ' ', IS_NULLABLE, ' ', COLUMN_KEY) FROM information_schema.COLUMNS \
                     WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{table}' AND COLUMN_NAME = 'idempotency_key'"
                ),
                Backend::Sqlite => format!(
                    "SELECT type || \"notnull\" FROM pragma_table_info('{table}') WHERE name = 'idempotency_key'"
                ),
            });
            async move { t.rows(&sql).await[0].try_get_by_index::<String>(0).unwrap() }
        };
        assert_eq!(shape(LEGACY).await, shape("fresh_outbox").await);
        assert!(manager.has_index(LEGACY, "legacy_outbox_idempotency_key").await.unwrap());

        table.drop_idempotency_key(&manager).await.unwrap();
        assert!(!manager.has_column(LEGACY, "idempotency_key").await.unwrap());
        assert!(!manager.has_index(LEGACY, "legacy_outbox_idempotency_key").await.unwrap());
        table.add_idempotency_key(&manager).await.unwrap();
    }

    // catalogue A12
    async fn a_table_with_events_gets_a_key_per_tenant(t: Empty) {
        let db = one_connection(&t).await;
        let manager = SchemaManager::new(&db);
        let table = OutboxTable::new("legacy_outbox")
            .column(ColumnDef::new("tenant").string_len(40).not_null().default("acme"))
            .conflict(["tenant", "idempotency_key"]);
        table.create(&manager).await.unwrap();
        t.insert_event("legacy_outbox", &[("tenant", text("acme"))]).await.unwrap();
        t.insert_event("legacy_outbox", &[("tenant", text("acme"))]).await.unwrap();
        // On MariaDB what is left of the key would be the tenants alone, which are not unique.
        table.drop_idempotency_key(&manager).await.unwrap();
        table.add_idempotency_key(&manager).await.unwrap();
        let event = |tenant: &str| [("tenant", text(tenant)), ("idempotency_key", text("k"))];
        for tenant in ["acme", "Acme", "acme "] {
            t.insert_event("legacy_outbox", &event(tenant)).await.unwrap();
        }
        t.insert_event("legacy_outbox", &event("acme")).await.unwrap_err();
    }

    async fn an_outbox_without_keys_has_the_column_and_no_unique_key(t: Empty) {
        let db = one_connection(&t).await;
        let manager = SchemaManager::new(&db);
        OutboxTable::new("keyless").conflict([]).create(&manager).await.unwrap();
        for _ in 0..2 {
            t.insert_event("keyless", &[("idempotency_key", text("k"))]).await.unwrap();
        }
    }

    async fn what_is_wrong_with_a_table_is_told_before_anything_is_done(t: Empty) {
        let db = one_connection(&t).await;
        let manager = SchemaManager::new(&db);
        let column = |name: &'static str| ColumnDef::new(name).integer().not_null().take();
        let wrong = OutboxTable::new("own")
            .column(column("Topic"))
            .column(column("tenant"))
            .column(column("TENANT"))
            .column(ColumnDef::new("number").integer().primary_key())
            .column(ColumnDef::new("region").integer())
            .conflict(["tenant", "tenant", "region", "topic"]);
        let DbErr::Migration(told) = wrong.create(&manager).await.unwrap_err() else {
            panic!("a mistake of the migration");
        };
        for problem in [
            "every outbox has a column `topic`",
            "the column `tenant` is given twice",
            "`number` cannot be the primary key",
            "`conflict` names `tenant` twice",
            "`conflict` names `region`, which may be NULL",
            "`conflict` names `topic`, which is not one of its extra columns",
            "add `idempotency_key`",
        ] {
            assert!(told.contains(problem), "{told}");
        }
        assert!(!manager.has_table("own").await.unwrap());

        let refused = |table: OutboxTable| {
            let manager = &manager;
            async move { table.create(manager).await.unwrap_err().to_string() }
        };
        assert!(refused(OutboxTable::new("")).await.contains("its name is empty"));
        assert!(refused(OutboxTable::new("t".repeat(64))).await.contains("64 bytes"));
        let without = OutboxTable::new("own").conflict(["tenant"]).add_idempotency_key(&manager).await;
        assert!(without.unwrap_err().to_string().contains("does not name `idempotency_key`"));
    }

    async fn tables_with_long_names_have_indexes_of_their_own(t: Empty) {
        let db = one_connection(&t).await;
        let manager = SchemaManager::new(&db);
        let names = ["billing", "refunds"].map(|end| format!("an_outbox_of_the_department_of_very_long_names_for_the_{end}"));
        for name in &names {
            assert!(name.len() <= 63);
            OutboxTable::new(name).create(&manager).await.unwrap();
            t.insert_event(name, &[("idempotency_key", text("k"))]).await.unwrap();
            t.insert_event(name, &[("idempotency_key", text("k"))]).await.unwrap_err();
        }
        for name in &names {
            let table = OutboxTable::new(name);
            table.drop_idempotency_key(&manager).await.unwrap();
            table.add_idempotency_key(&manager).await.unwrap();
            t.insert_event(name, &[("idempotency_key", text("k"))]).await.unwrap();
            t.insert_event(name, &[("idempotency_key", text("k"))]).await.unwrap_err();
            table.drop(&manager).await.unwrap();
        }
    }

    async fn a_table_in_a_schema(t: Empty) {
        let db = one_connection(&t).await;
        let manager = SchemaManager::new(&db);
        let schema = match t.backend {
            Backend::Postgres => {
                t.execute("CREATE SCHEMA billing").await;
                "billing".to_owned()
            }
            // A schema is a database there: this one, from the outside.
            Backend::MariaDb => t.rows("SELECT DATABASE()").await[0].try_get_by_index(0).unwrap(),
            Backend::Sqlite => {
                let refused = OutboxTable::new("own").schema("main").create(&manager).await.unwrap_err();
                assert!(refused.to_string().contains("SQLite has no schemas"), "{refused}");
                return;
            }
        };
        let table = OutboxTable::new("own").schema(&schema);
        table.create(&manager).await.unwrap();
        table.drop_idempotency_key(&manager).await.unwrap();
        table.add_idempotency_key(&manager).await.unwrap();
        let name = format!("{schema}.own");
        t.insert_event(&name, &[("idempotency_key", text("k"))]).await.unwrap();
        t.insert_event(&name, &[("idempotency_key", text("k"))]).await.unwrap_err();
        table.drop(&manager).await.unwrap();
        t.insert_event(&name, &[]).await.unwrap_err();
    }
}

#[test]
fn every_migration_says_hare_in_its_name() {
    for migration in hare_seaorm_migration::migrations() {
        assert!(migration.name().contains("hare"), "{}", migration.name());
    }
}
