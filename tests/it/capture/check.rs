//! The check at start-up, against databases that lack one thing or another.

use std::sync::Arc;

use hare_seaorm::capture::{Report, check, check_only};
use hare_seaorm::{Error, InProcessWakeup};
use hare_seaorm_migration::OutboxTable;
use hare_seaorm_tests::shop::outbox::Notifying;
use hare_seaorm_tests::{Backend, Empty, Shop, TestDb, on_backends, on_every_backend};
use sea_orm::TransactionTrait;
use sea_orm_migration::prelude::SchemaManager;

macro_rules! checked {
    ($module:ident, $table:literal, $($capture:tt)*) => {
        mod $module {
            use hare_seaorm::ChangeCapture;
            use sea_orm::entity::prelude::*;

            #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, ChangeCapture)]
            #[sea_orm(table_name = $table)]
            #[hare(capture(app = "checked", $($capture)*))]
            pub struct Model {
                #[sea_orm(primary_key)]
                pub id: i32,
                pub name: String,
            }

            #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
            pub enum Relation {}
        }
    };
}

checked!(
    tenant,
    "checked_tenant",
    outbox = hare_seaorm_tests::shop::outbox::tenants::Entity
);
checked!(
    refused,
    "checked_refused",
    outbox = hare_seaorm_tests::shop::outbox::refusing::Entity
);
checked!(
    accounted,
    "checked_accounted",
    outbox = hare_seaorm_tests::shop::outbox::accounts::Entity
);
checked!(one, "checked_shared",);
checked!(other, "checked_shared",);

async fn of(t: &TestDb, label: &str) -> Report {
    check_only(&t.db, |known| known == label).await.unwrap()
}

/// What one more report says than another.
fn news(before: &mut Report, after: Report) -> Vec<String> {
    let all = |report: &Report| [report.problems(), report.warnings()].concat();
    let known = all(before);
    let news = all(&after)
        .into_iter()
        .filter(|finding| !known.contains(finding))
        .collect();
    *before = after;
    news
}

async fn drop_index(t: &TestDb, index: &str) {
    let on = if t.backend == Backend::MariaDb {
        " ON hare_outbox"
    } else {
        ""
    };
    t.execute(&format!("DROP INDEX {index}{on}")).await;
}

on_every_backend! {
    async fn nothing_is_wrong_with_a_database_that_was_migrated(t: Shop) {
        t.create_outboxes().await;
        t.create_table(tenant::Entity).await;
        for label in ["shop.Customer", "shop.Order", "shop.Line", "shop.Hooked", "checked.Tenant"] {
            let report = of(&t, label).await;
            assert_eq!((report.problems(), report.warnings()), ([].as_slice(), [].as_slice()), "{label}");
            assert_eq!(report.to_string(), "the database is as its captured entities need it");
            report.into_result().unwrap();
        }
        let txn = t.db.begin().await.unwrap();
        check_only(&txn, |label| label == "shop.Order").await.unwrap().into_result().unwrap();
        let ours = hare_seaorm::begin(&t.db).await.unwrap();
        check_only(&ours, |label| label == "shop.Order").await.unwrap().into_result().unwrap();
    }

    async fn missing_tables_are_problems_and_all_are_told(t: Empty) {
        let report = of(&t, "shop.Customer").await;
        assert_eq!(report.problems().len(), 2, "{report}");
        assert!(report.problems()[0].contains("`hare_outbox`, for the events of `shop.Customer`, is missing"), "{report}");
        assert!(report.problems()[1].contains("the table `customer` of `shop.Customer` is missing"), "{report}");
        let text = report.to_string();
        assert_eq!(text.lines().filter(|line| line.starts_with("problem: ")).count(), 2, "{text}");
        let error = report.clone().into_result().unwrap_err();
        let Error::Config(error) = error else { panic!("{error}") };
        assert_eq!(error.problems, report.problems());
        let _wakeup = Notifying::through(Arc::new(InProcessWakeup::new())).await;
        // Every entity of this program, each problem once.
        let all = check(&t.db).await.unwrap();
        for table in ["customer", "order", "checked_tenant", "tenants_outbox"] {
            let named = all.problems().iter().filter(|problem| problem.contains(&format!("table `{table}`")));
            assert_eq!(named.count(), 1, "{table}: {all}");
        }
    }

    async fn missing_columns_are_problems(t: Shop) {
        t.execute("ALTER TABLE hare_outbox DROP COLUMN claims").await;
        t.execute("ALTER TABLE hare_outbox DROP COLUMN last_error").await;
        t.execute("ALTER TABLE customer DROP COLUMN name").await;
        let report = of(&t, "shop.Customer").await;
        assert_eq!(report.warnings(), [] as [String; 0], "{report}");
        assert_eq!(report.problems().len(), 2, "{report}");
        assert!(report.problems()[0].contains("`hare_outbox` has no column `last_error`, `claims`"), "{report}");
        assert!(report.problems()[1].contains("the table `customer` has no column `name`, which `shop.Customer` has"), "{report}");
    }

    async fn a_missing_unique_key_is_a_problem_and_a_missing_index_a_warning(t: Shop) {
        let mut report = of(&t, "shop.Customer").await;
        let unique = [("id", "`id`"), ("idempotency_key", "`idempotency_key`")];
        for (suffix, columns) in unique {
            drop_index(&t, &format!("hare_outbox_{suffix}")).await;
            let news = news(&mut report, of(&t, "shop.Customer").await);
            assert_eq!(news.len(), 1, "{news:?}");
            assert!(news[0].contains(&format!("no unique key of {columns}:")), "{news:?}");
            assert!(report.problems().contains(&news[0]));
        }
        let plain: &[(&str, &str)] = if t.backend == Backend::MariaDb {
            &[
                ("topic", "no index on `topic`, `sequence`"),
                ("pending", "no index on `published_at`, `dead_lettered_at`, `sequence`"),
                ("lane", "no index on `ordering_key`, `published_at`, `sequence`"),
            ]
        } else {
            &[
                ("topic", "no index on `topic`, `sequence`"),
                ("pending", "no partial index on `sequence`"),
                ("lane", "no partial index on `ordering_key`, `sequence`"),
                ("published", "no partial index on `published_at`"),
                ("dead", "no partial index on `dead_lettered_at`"),
            ]
        };
        for (suffix, missing) in plain {
            drop_index(&t, &format!("hare_outbox_{suffix}")).await;
            let news = news(&mut report, of(&t, "shop.Customer").await);
            assert_eq!(news.len(), 1, "{news:?}");
            assert!(news[0].contains(missing), "{news:?}");
            assert!(report.warnings().contains(&news[0]));
        }
        assert_eq!(report.problems().len(), 2);

        // What is unique by more, or not unique, or an index by more, and then what is right under another name.
        t.execute("CREATE UNIQUE INDEX a ON hare_outbox (id, sequence)").await;
        t.execute("CREATE INDEX b ON hare_outbox (id)").await;
        assert_eq!(of(&t, "shop.Customer").await.problems(), report.problems());
        t.execute("CREATE UNIQUE INDEX c ON hare_outbox (id)").await;
        t.execute("CREATE INDEX d ON hare_outbox (topic, sequence, id)").await;
        let better = of(&t, "shop.Customer").await;
        assert_eq!((better.problems().len(), better.warnings().len()), (1, report.warnings().len() - 1), "{better}");
    }

    async fn an_outbox_of_ones_own_has_its_own_unique_key(t: Shop) {
        t.create_table(tenant::Entity).await;
        let table = OutboxTable::new("tenants_outbox").column(sea_orm_migration::prelude::ColumnDef::new("tenant").string().not_null());
        table.create(&SchemaManager::new(&t.db)).await.unwrap();
        let report = of(&t, "checked.Tenant").await;
        assert_eq!(report.problems().len(), 1, "{report}");
        assert!(report.problems()[0].contains("`tenants_outbox` has no unique key of `tenant`, `idempotency_key`"), "{report}");
    }

    async fn a_wakeup_that_does_not_fit_is_a_problem(t: Shop) {
        t.create_table(refused::Entity).await;
        let report = of(&t, "checked.Refused").await;
        assert_eq!(
            report.problems(),
            ["the wakeup of the outbox `hare_outbox` does not fit this database: this database is refused"]
        );
    }

    async fn a_declaration_that_cannot_be_followed_is_a_problem(t: Shop) {
        t.execute("CREATE TABLE account (iban varchar(40) PRIMARY KEY, owner varchar(40) NOT NULL)").await;
        let report = of(&t, "shop.Expanded").await;
        assert_eq!(report.problems().len(), 1, "{report}");
        let problem = &report.problems()[0];
        assert!(problem.starts_with("nothing is captured of `shop.Expanded`: `sensitive` cannot keep `iban`"), "{report}");
    }

    async fn two_entities_of_one_table_are_a_warning(t: Shop) {
        t.create_table(one::Entity).await;
        assert_eq!(of(&t, "checked.One").await.warnings(), [] as [String; 0]);
        let both = check_only(&t.db, |label| matches!(label, "checked.One" | "checked.Other")).await.unwrap();
        assert_eq!(both.warnings().len(), 1, "{both}");
        assert!(both.warnings()[0].contains("`checked_shared` is captured by 2 entities, `checked.One`, `checked.Other`"), "{both}");
        both.into_result().unwrap();
    }
}

on_backends! { [postgres, mariadb]
    async fn a_table_is_looked_for_in_its_schema(t: Empty) {
        // On MariaDB a schema is a database, which would be every test's.
        if t.backend == Backend::MariaDb {
            let report = of(&t, "checked.Accounted").await;
            assert!(report.problems()[0].contains("`accounts.outbox`"), "{report}");
            return;
        }
        t.create_table(accounted::Entity).await;
        OutboxTable::new("outbox").create(&SchemaManager::new(&t.db)).await.unwrap();
        t.execute("CREATE SCHEMA accounts").await;
        let report = of(&t, "checked.Accounted").await;
        assert!(report.problems()[0].contains("`accounts.outbox`, for the events of `checked.Accounted`, is missing"), "{report}");
        OutboxTable::new("outbox").schema("accounts").create(&SchemaManager::new(&t.db)).await.unwrap();
        of(&t, "checked.Accounted").await.into_result().unwrap();
    }
}

on_backends! { [sqlite]
    async fn foreign_keys_that_are_not_enforced_are_a_warning(t: Shop) {
        let db = t.another_pool(1).await;
        sea_orm::ConnectionTrait::execute_unprepared(&db, "PRAGMA foreign_keys = OFF").await.unwrap();
        let report = check_only(&db, |label| label == "shop.Order").await.unwrap();
        assert_eq!((report.problems().len(), report.warnings().len()), (0, 1), "{report}");
        assert!(report.to_string().starts_with("warning: `PRAGMA foreign_keys` is off"), "{report}");
    }
}

on_backends! { [postgres]
    async fn a_partial_unique_key_is_none(t: Shop) {
        drop_index(&t, "hare_outbox_id").await;
        t.execute("CREATE UNIQUE INDEX a ON hare_outbox (id) WHERE published_at IS NULL").await;
        t.execute("CREATE UNIQUE INDEX b ON hare_outbox ((id::text))").await;
        t.execute("CREATE UNIQUE INDEX c ON hare_outbox (topic) INCLUDE (id)").await;
        assert_eq!(of(&t, "shop.Customer").await.problems().len(), 1);
        t.execute("CREATE UNIQUE INDEX d ON hare_outbox (id) INCLUDE (topic)").await;
        of(&t, "shop.Customer").await.into_result().unwrap();
    }
}

#[tokio::test]
async fn a_catalogue_that_cannot_be_read_is_an_error() {
    let t = Shop::make(Backend::Sqlite).await;
    let db = t.another_pool(1).await;
    db.close_by_ref().await.unwrap();
    let error = check(&db).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Database {
                during: "reading the database's catalogue",
                ..
            }
        ),
        "{error}"
    );
}
