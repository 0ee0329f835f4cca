//! Events of one's own in an outbox with columns of its own.

use std::sync::atomic::{AtomicUsize, Ordering};

use hare_seaorm::outbox::{self, enqueue, enqueue_many};
use hare_seaorm::{Error, MemoryDelivery, OutboxMessage, OutboxRelay};
use hare_seaorm_migration::OutboxTable;
use hare_seaorm_tests::shop::customer;
use hare_seaorm_tests::shop::outbox::{audit, billing, tenants};
use hare_seaorm_tests::statements::Statements;
use hare_seaorm_tests::{Backend, Shop, on_backends, on_every_backend};
use sea_orm::prelude::Decimal;
use sea_orm::{ColumnTrait, EntityTrait, IdenStatic, Iterable, QueryFilter, Set, TransactionTrait};
use sea_orm_migration::prelude::{ColumnDef, SchemaManager};

/// An outbox whose entity has hooks of the user's own.
mod hooked {
    use sea_orm::entity::prelude::*;

    #[hare_seaorm::outbox_event(table_name = "audit_outbox", hooks)]
    pub struct Model {}

    #[async_trait::async_trait]
    impl ActiveModelBehavior for ActiveModel {
        async fn before_save<C: ConnectionTrait>(self, _: &C, _: bool) -> Result<Self, DbErr> {
            super::HOOKS.fetch_add(1, super::Ordering::SeqCst);
            Ok(self)
        }

        async fn after_save<C: ConnectionTrait>(model: Model, _: &C, _: bool) -> Result<Model, DbErr> {
            super::HOOKS.fetch_add(1, super::Ordering::SeqCst);
            Ok(model)
        }
    }
}

static HOOKS: AtomicUsize = AtomicUsize::new(0);

/// An outbox without idempotency keys.
mod keyless {
    #[hare_seaorm::outbox_event(table_name = "audit_outbox", conflict())]
    pub struct Model {}
}

/// Its keys are unique by columns of which the database and Rust have several types.
mod graded {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
    #[sea_orm(rs_type = "String", db_type = "Enum", enum_name = "grade")]
    pub enum Grade {
        #[sea_orm(string_value = "high")]
        High,
        #[sea_orm(string_value = "low")]
        Low,
    }

    #[hare_seaorm::outbox_event(table_name = "graded_outbox", conflict(number, grade, idempotency_key))]
    pub struct Model {
        pub number: i32,
        pub grade: Grade,
    }
}

fn bill(topic: &str) -> OutboxMessage<billing::Entity> {
    OutboxMessage::for_outbox(topic, &1).unwrap()
}

fn of_tenant(tenant: &str, key: &str) -> OutboxMessage<tenants::Entity> {
    OutboxMessage::for_outbox("t", &1)
        .unwrap()
        .set(tenants::Column::Tenant, tenant)
        .idempotency_key(key)
}

on_every_backend! {
    // catalogue C5, A10
    async fn own_columns_are_filled_with_a_key_and_without(t: Shop) {
        t.create_outboxes().await;
        let ada = customer::ActiveModel { name: Set("Ada".into()), email: Set(None), password: Set("x".into()), credit: Set(Decimal::ONE), ..Default::default() };
        let ada = ada.insert(&t.db).await.unwrap();
        let whole = bill("whole").set(billing::Column::CustomerId, ada.id).set(billing::Column::Origin, "web");
        let keyed = bill("keyed").idempotency_key("k").set(billing::Column::Origin, "phone").set(billing::Column::Origin, "mail");
        let whole = enqueue(&t.db, whole).await.unwrap().event;
        let keyed = enqueue(&t.db, keyed).await.unwrap().event;
        let default = enqueue(&t.db, bill("default")).await.unwrap().event;
        assert_eq!((whole.customer_id, whole.origin.as_str()), (Some(ada.id), "web"));
        assert_eq!((keyed.customer_id, keyed.origin.as_str()), (None, "mail"));
        assert_eq!((default.customer_id, default.origin.as_str()), (None, "till"));
        let stored = billing::Entity::find().filter(billing::Column::CustomerId.eq(ada.id)).all(&t.db).await.unwrap();
        assert_eq!(stored, [whole]);

        let receiver = MemoryDelivery::<billing::Model>::default();
        OutboxRelay::for_outbox::<billing::Entity>(t.db.clone(), receiver.clone()).flush(10).await.unwrap();
        assert_eq!(receiver.events().iter().map(|event| event.origin.as_str()).collect::<Vec<_>>(), ["web", "mail", "till"]);
        assert_eq!(t.outbox().await.len(), 1, "the built-in outbox has the captured customer alone");
    }

    // catalogue C5, E2
    async fn a_required_column_that_is_not_set_is_refused(t: Shop) {
        t.create_outboxes().await;
        let unset: OutboxMessage<tenants::Entity> = OutboxMessage::for_outbox("t", &1).unwrap();
        let error = enqueue(&t.db, unset.clone()).await.unwrap_err();
        // MariaDB's code for it is not one of broken rules.
        assert!(matches!(error, Error::Integrity { .. } | Error::Database { .. }), "{error:?}");
        enqueue_many(&t.db, [of_tenant("a", "k"), unset]).await.unwrap_err();
        assert_eq!(t.count("tenants_outbox").await, 0);
    }

    // catalogue C6, C7, P1
    async fn the_librarys_columns_cannot_be_set_not_even_to_null(t: Shop) {
        t.create_outboxes().await;
        let library = outbox::Column::iter().map(|column| column.as_str());
        for name in library {
            let column: billing::Column = name.parse().unwrap();
            for value in [sea_orm::Value::from(1), sea_orm::Value::Int(None)] {
                let txn = t.db.begin().await.unwrap();
                let error = enqueue(&txn, bill("t").set(column, value)).await.unwrap_err();
                assert!(matches!(&error, Error::Validation { what, .. } if what == &format!("the column `{name}`")), "{error}");
                enqueue(&txn, bill("usable")).await.unwrap();
                txn.rollback().await.unwrap();
            }
        }
        assert_eq!(t.count("billing_outbox").await, 0);
    }

    // catalogue D8
    async fn a_conflict_on_an_own_column_is_not_deduplicated(t: Shop) {
        t.create_outboxes().await;
        let on = if t.is(sea_orm::DbBackend::MySql) { "origin(50)" } else { "origin" };
        t.execute(&format!("CREATE UNIQUE INDEX one_origin ON billing_outbox ({on})")).await;
        let from = |key: &str| bill("t").idempotency_key(key).set(billing::Column::Origin, "web");
        let first = enqueue(&t.db, from("k1")).await.unwrap();
        let error = enqueue(&t.db, from("k2")).await.unwrap_err();
        assert!(matches!(&error, Error::Integrity { source: Some(_), .. }) && !error.is_retryable(), "{error:?}");
        // The key first: the same message again is no conflict at all.
        let again = enqueue(&t.db, from("k1")).await.unwrap();
        assert_eq!((again.is_new, again.event), (false, first.event));
        let error = enqueue_many(&t.db, [bill("t").idempotency_key("k3"), from("k4")]).await.unwrap_err();
        assert!(matches!(error, Error::Integrity { source: Some(_), .. }), "{error:?}");
        assert_eq!(t.count("billing_outbox").await, 1);
    }

    // catalogue D11, P2
    async fn an_outbox_that_declares_no_key_takes_no_keyed_message(t: Shop) {
        t.create_outboxes().await;
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        let message = || OutboxMessage::for_outbox::<keyless::Entity>("t", &1).unwrap();
        let error = enqueue(&db, message().idempotency_key("k")).await.unwrap_err();
        assert!(matches!(&error, Error::Config(_)), "{error:?}");
        assert!(error.to_string().contains("`audit_outbox` declares no unique key"), "{error}");
        enqueue_many(&db, [message(), message().idempotency_key("k")]).await.unwrap_err();
        assert_eq!(statements.take(), Vec::<String>::new());
        enqueue(&db, message()).await.unwrap();
        assert_eq!(t.count("audit_outbox").await, 1);
    }

    // catalogue D12
    async fn a_key_is_used_once_per_tenant(t: Shop) {
        t.create_outboxes().await;
        let acme = enqueue(&t.db, of_tenant("acme", "k")).await.unwrap();
        let other = enqueue(&t.db, of_tenant("other", "k")).await.unwrap();
        assert!(acme.is_new && other.is_new);
        let again = enqueue(&t.db, of_tenant("acme", "k")).await.unwrap();
        assert_eq!((again.is_new, again.event), (false, acme.event.clone()));
        // The tenant to the letter, too.
        assert!(enqueue(&t.db, of_tenant("Acme", "k")).await.unwrap().is_new);
        let many = [of_tenant("other", "k"), of_tenant("acme", "new"), of_tenant("acme", "k"), of_tenant("acme", "new")];
        let many = enqueue_many(&t.db, many).await.unwrap();
        assert_eq!(many.iter().map(|enqueued| enqueued.is_new).collect::<Vec<_>>(), [false, true, false, false]);
        assert_eq!((&many[0].event, &many[2].event), (&other.event, &acme.event));
        assert_eq!(many[3].event, many[1].event);
        assert_eq!(t.count("tenants_outbox").await, 4);
    }

    // catalogue D12
    async fn a_key_without_its_tenant_is_refused(t: Shop) {
        t.create_outboxes().await;
        let unset: OutboxMessage<tenants::Entity> = OutboxMessage::for_outbox("t", &1).unwrap().idempotency_key("k");
        for message in [unset.clone(), unset.set(tenants::Column::Tenant, None::<String>)] {
            let error = enqueue(&t.db, message).await.unwrap_err();
            assert!(matches!(&error, Error::Validation { what, .. } if what == "the idempotency key"), "{error}");
            assert!(error.to_string().contains("tenant, idempotency_key"), "{error}");
        }
        assert_eq!(t.count("tenants_outbox").await, 0);
    }

    // catalogue D12
    async fn another_tenants_key_is_refused_and_not_shown_where_keys_are_unique_across_tenants(t: Shop) {
        t.create_outboxes().await;
        enqueue(&t.db, of_tenant("acme", "k")).await.unwrap();
        t.execute("CREATE UNIQUE INDEX across ON tenants_outbox (idempotency_key)").await;
        let error = enqueue(&t.db, of_tenant("other", "k")).await.unwrap_err();
        assert!(matches!(&error, Error::Integrity { source: Some(_), .. }), "{error:?}");
        assert!(!enqueue(&t.db, of_tenant("acme", "k")).await.unwrap().is_new);
        assert_eq!(t.count("tenants_outbox").await, 1);
    }

    // catalogue D11
    async fn a_unique_key_of_other_columns_does_not_do(t: Shop) {
        t.create_outboxes().await;
        // The table's key is (tenant, idempotency_key), the entity says idempotency_key alone.
        mod narrow {
            #[hare_seaorm::outbox_event(table_name = "tenants_outbox")]
            pub struct Model {
                pub tenant: String,
            }
        }
        let message = OutboxMessage::for_outbox::<narrow::Entity>("t", &1).unwrap().set(narrow::Column::Tenant, "a").idempotency_key("k");
        let error = enqueue(&t.db, message).await.unwrap_err();
        assert!(matches!(error, Error::Config(_)), "{error:?}");
        assert_eq!(t.count("tenants_outbox").await, 0);
    }

    // catalogue D13
    async fn writing_an_event_runs_no_hooks_of_its_entity(t: Shop) {
        t.create_outboxes().await;
        let message = || OutboxMessage::for_outbox::<hooked::Entity>("t", &1).unwrap();
        enqueue(&t.db, message()).await.unwrap();
        enqueue(&t.db, message().idempotency_key("k")).await.unwrap();
        enqueue_many(&t.db, [message(), message().idempotency_key("k")]).await.unwrap();
        assert_eq!(t.count("audit_outbox").await, 3);
        assert_eq!(HOOKS.load(Ordering::SeqCst), 0);
    }

    // catalogue C4
    async fn the_connection_that_is_passed_is_the_one_that_is_written_on(t: Shop) {
        t.create_outboxes().await;
        let txn = t.db.begin().await.unwrap();
        let elsewhere = t.another_pool(1).await;
        if t.is(sea_orm::DbBackend::Sqlite) {
            // One writer: the other connection writes before the transaction does.
            enqueue(&elsewhere, bill("elsewhere")).await.unwrap();
        }
        enqueue(&txn, OutboxMessage::for_outbox::<audit::Entity>("inside", &1).unwrap()).await.unwrap();
        if !t.is(sea_orm::DbBackend::Sqlite) {
            enqueue(&elsewhere, bill("elsewhere")).await.unwrap();
        }
        txn.rollback().await.unwrap();
        assert_eq!((t.count("audit_outbox").await, t.count("billing_outbox").await), (0, 1));
    }
}

on_every_backend! {
    // catalogue E4, C5
    async fn messages_are_alike_if_they_set_the_same_columns_in_any_order(t: Shop) {
        t.create_outboxes().await;
        let mut db = t.another_pool(1).await;
        let statements = Statements::watch(&mut db);
        let both = |origin: &str| (bill(origin), origin.to_owned());
        let [(one, a), (other, b)] = [both("a"), both("b")];
        let none = None::<i32>;
        let one = one.set(billing::Column::CustomerId, none).set(billing::Column::Origin, a);
        let other = other.set(billing::Column::Origin, b).set(billing::Column::CustomerId, none);
        // A null of another width, which the statement is prepared with.
        enqueue(&db, bill("x").set(billing::Column::CustomerId, None::<i64>)).await.unwrap();
        statements.take();
        // The same number of columns, but others.
        let customer = bill("c").set(billing::Column::CustomerId, 5);
        let origin = bill("d").set(billing::Column::Origin, "d");
        let enqueued = enqueue_many(&db, [one, other, customer, origin]).await.unwrap();
        let inserts = statements.take().iter().filter(|sql| sql.starts_with("INSERT")).count();
        assert_eq!(inserts, 3);
        let origins: Vec<_> = enqueued.iter().map(|enqueued| enqueued.event.origin.as_str()).collect();
        assert_eq!(origins, ["a", "b", "till", "d"]);
        assert_eq!(enqueued[2].event.customer_id, Some(5));
    }

    // catalogue D12
    async fn a_key_holds_whatever_type_its_columns_values_are_given_in(t: Shop) {
        let grade = if t.is(sea_orm::DbBackend::Postgres) {
            t.execute("CREATE TYPE grade AS ENUM ('high', 'low')").await;
            "grade"
        } else {
            "varchar(8)"
        };
        let table = OutboxTable::new("graded_outbox")
            .column(ColumnDef::new("number").integer().not_null())
            .column(ColumnDef::new("grade").custom(grade).not_null())
            .conflict(["number", "grade", "idempotency_key"]);
        table.create(&SchemaManager::new(&t.db)).await.unwrap();
        let of = |number: sea_orm::Value, grade: graded::Grade| {
            OutboxMessage::for_outbox::<graded::Entity>("t", &1)
                .unwrap()
                .set(graded::Column::Number, number)
                .set(graded::Column::Grade, grade)
                .idempotency_key("k")
        };
        // One connection, which prepares each statement once.
        let one = t.another_pool(1).await;
        let first = enqueue(&one, of(7_i32.into(), graded::Grade::High)).await.unwrap();
        for number in [7_i64.into(), 7_i16.into(), 7_u64.into()] {
            let again = enqueue(&one, of(number, graded::Grade::High)).await.unwrap();
            assert_eq!((again.is_new, &again.event), (false, &first.event));
        }
        for number in [7.0_f32.into(), (1_i64 << 40).into(), "7".into()] {
            let error = enqueue(&one, of(number, graded::Grade::High)).await.unwrap_err();
            assert!(matches!(&error, Error::Validation { what, .. } if what == "the column `number`"), "{error:?}");
        }
        let many = [of(7_i64.into(), graded::Grade::Low), of(7_i32.into(), graded::Grade::High), of(7_i16.into(), graded::Grade::Low)];
        let many = enqueue_many(&one, many).await.unwrap();
        assert_eq!([0, 1, 2].map(|place| many[place].is_new), [true, false, false]);
        assert_eq!((&many[1].event, &many[2].event), (&first.event, &many[0].event));
        assert_eq!(many[0].event.grade, graded::Grade::Low);
    }
}

on_backends! { [postgres]
    // catalogue B10
    async fn a_nul_in_an_own_column_is_refused_before_the_statement(t: Shop) {
        t.create_outboxes().await;
        let txn = t.db.begin().await.unwrap();
        let error = enqueue(&txn, bill("t").set(billing::Column::Origin, "a\0b")).await.unwrap_err();
        assert!(matches!(&error, Error::Validation { what, .. } if what == "the column `origin`"), "{error}");
        enqueue(&txn, bill("usable")).await.unwrap();
        txn.commit().await.unwrap();
    }
}

on_backends! { [postgres, mariadb]
    // catalogue D12
    async fn a_tenants_key_is_not_answered_with_that_of_one_written_differently(t: Shop) {
        t.create_outboxes().await;
        if t.backend == Backend::MariaDb {
            t.execute("ALTER TABLE tenants_outbox MODIFY tenant VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL").await;
        } else {
            t.execute("CREATE COLLATION lax (provider = icu, locale = 'und-u-ks-level2', deterministic = false)").await;
            t.execute("ALTER TABLE tenants_outbox ALTER COLUMN tenant TYPE VARCHAR(255) COLLATE lax").await;
        }
        enqueue(&t.db, of_tenant("acme", "k")).await.unwrap();
        for error in [
            enqueue(&t.db, of_tenant("Acme", "k")).await.unwrap_err(),
            enqueue_many(&t.db, [of_tenant("ACME", "k")]).await.unwrap_err(),
        ] {
            assert!(matches!(&error, Error::Config(_)) && error.to_string().contains("`tenant` of `tenants_outbox`"), "{error}");
        }
        assert!(!enqueue(&t.db, of_tenant("acme", "k")).await.unwrap().is_new);
        assert_eq!(t.count("tenants_outbox").await, 1);
    }
}
