//! Outboxes of a project's own, beside each other and beside the built-in one.

use std::sync::Arc;
use std::time::Duration;

use hare_seaorm::outbox::{self, OutboxEntity};
use hare_seaorm::{MemoryDelivery, OutboxRelay};
use hare_seaorm_migration::OutboxTable;
use hare_seaorm_tests::shop::outbox::{accounts, audit, billing, tenants};
use hare_seaorm_tests::shop::{customer, widget};
use hare_seaorm_tests::{Shop, TestDb, on_backends, on_every_backend};
use sea_orm::prelude::Decimal;
use sea_orm::{
    ColumnTrait, DatabaseConnection, EntityTrait, IdenStatic, Iterable, ModelTrait, QueryFilter, Set,
};
use sea_orm_migration::SchemaManager;
use tokio::sync::mpsc;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

macro_rules! insert_widget {
    ($t:expr, $module:ident) => {
        widget::$module::ActiveModel {
            name: Set("nut".to_owned()),
            ..Default::default()
        }
        .insert(&$t.db)
        .await
        .unwrap()
    };
}

/// A relay that after its first poll waits for its wakeup.
fn relay<E: OutboxEntity>(db: &DatabaseConnection, receiver: &MemoryDelivery<E::Model>) -> OutboxRelay<E> {
    OutboxRelay::for_outbox::<E>(db.clone(), receiver.clone()).poll_interval(DAY)
}

/// A pool, and what is told of each statement that has read or written the table.
async fn watched(t: &TestDb, table: &'static str) -> (DatabaseConnection, mpsc::UnboundedReceiver<()>) {
    let mut db = t.another_pool(2).await;
    let (sender, receiver) = mpsc::unbounded_channel();
    db.set_metric_callback(move |info| {
        if info.statement.sql.contains(table) {
            let _ = sender.send(());
        }
    });
    (db, receiver)
}

async fn within<F: Future>(future: F) -> F::Output {
    let waited = tokio::time::timeout(Duration::from_secs(30), future).await;
    waited.expect("what the test waits for happens")
}

fn text(value: &str) -> String {
    format!("'{value}'")
}

on_every_backend! {
    // catalogue A10
    async fn a_relay_leaves_the_events_of_other_outboxes_alone(t: Shop) {
        t.create_outboxes().await;
        let built_in = insert_widget!(t, after);
        let billed = insert_widget!(t, billed);
        let audited = insert_widget!(t, audited);

        let receiver = MemoryDelivery::<billing::Model>::default();
        let outcome = relay::<billing::Entity>(&t.db, &receiver).flush(10).await.unwrap();
        assert_eq!((outcome.claimed, outcome.delivered), (1, 1));
        let keys: Vec<_> = receiver.take().into_iter().map(|event| event.ordering_key).collect();
        assert_eq!(keys, [Some(format!("shop.Widget:{}", billed.id))]);

        let others = audit::Entity::find().one(&t.db).await.unwrap().unwrap();
        assert_eq!(others.ordering_key, Some(format!("shop.Widget:{}", audited.id)));
        assert_eq!((others.published_at, others.leased_by, others.claims), (None, None, 0));
        let others = t.outbox().await.remove(0);
        assert_eq!(others.ordering_key, Some(format!("shop.Widget:{}", built_in.id)));
        assert_eq!((others.published_at, others.leased_by, others.claims), (None, None, 0));

        let receiver = MemoryDelivery::<audit::Model>::default();
        assert_eq!(relay::<audit::Entity>(&t.db, &receiver).flush(10).await.unwrap().delivered, 1);
        let receiver = MemoryDelivery::<outbox::Model>::default();
        assert_eq!(relay::<outbox::Entity>(&t.db, &receiver).flush(10).await.unwrap().delivered, 1);
        assert!(billing::Entity::find().one(&t.db).await.unwrap().unwrap().published_at.is_some());
    }

    // catalogue A10, M1
    async fn a_relay_is_woken_by_its_outboxs_own_wakeup_and_without_one_only_polls(t: Shop) {
        t.create_outboxes().await;
        let one = billing::Entity::wakeup().unwrap();
        assert!(Arc::ptr_eq(&one, &billing::Entity::wakeup().unwrap()));
        assert!(!Arc::ptr_eq(&one, &outbox::Entity::wakeup().unwrap()));
        assert!(audit::Entity::wakeup().is_none());

        let (db, mut polled) = watched(&t, "billing_outbox").await;
        let bills = MemoryDelivery::<billing::Model>::default();
        let billing = relay::<billing::Entity>(&db, &bills).start().unwrap();
        within(polled.recv()).await;
        let (db, mut polled) = watched(&t, "audit_outbox").await;
        let audits = MemoryDelivery::<audit::Model>::default();
        let auditing = relay::<audit::Entity>(&db, &audits);
        let running = auditing.start().unwrap();
        within(polled.recv()).await;

        insert_widget!(t, audited);
        for arrived in 1..=5 {
            insert_widget!(t, billed);
            within(bills.wait_for(arrived)).await;
        }
        assert!(audits.take().is_empty());
        within(running.stop()).await;
        within(billing.stop()).await;
        assert_eq!(auditing.poll_once().await.unwrap().delivered, 1);
    }

    // catalogue A10
    async fn extra_columns_and_relations_are_read_from_a_delivered_event(t: Shop) {
        t.create_outboxes().await;
        let ada = customer::ActiveModel {
            name: Set("Ada".to_owned()),
            email: Set(None),
            password: Set("secret".to_owned()),
            credit: Set(Decimal::ONE),
            ..Default::default()
        };
        let ada = ada.insert(&t.db).await.unwrap();
        insert_widget!(t, billed);
        let of_ada = [("customer_id", ada.id.to_string()), ("origin", text("web"))];
        t.insert_event("billing_outbox", &of_ada).await.unwrap();

        let receiver = MemoryDelivery::<billing::Model>::default();
        let outcome = relay::<billing::Entity>(&t.db, &receiver).flush(10).await.unwrap();
        assert_eq!(outcome.delivered, 2);
        let events = receiver.take();
        assert_eq!((events[0].customer_id, &*events[0].origin), (None, "till"));
        assert_eq!((events[1].customer_id, &*events[1].origin), (Some(ada.id), "web"));
        assert_eq!(events[0].find_related(customer::Entity).one(&t.db).await.unwrap(), None);
        assert_eq!(events[1].find_related(customer::Entity).one(&t.db).await.unwrap(), Some(ada.clone()));

        let loaded = billing::Entity::load()
            .filter(billing::Column::CustomerId.eq(ada.id))
            .with(customer::Entity)
            .one(&t.db)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(loaded.customer.into_option().map(|customer| customer.name), Some("Ada".to_owned()));
        let by_id = billing::Entity::find_by_event_id(events[1].id).one(&t.db).await.unwrap().unwrap();
        let by_key = billing::Entity::find_by_id(events[1].sequence).one(&t.db).await.unwrap().unwrap();
        assert_eq!((by_id.origin, by_key.origin), ("web".to_owned(), "web".to_owned()));
    }

    // catalogue D12
    async fn a_key_that_is_a_tenants_own_is_compared_to_the_letter_with_its_tenant(t: Shop) {
        t.create_outboxes().await;
        let conflict: Vec<_> = tenants::Entity::conflict_columns().iter().map(IdenStatic::as_str).collect();
        assert_eq!(conflict, ["tenant", "idempotency_key"]);
        let event = |tenant: &str, key: &str| [("tenant", text(tenant)), ("idempotency_key", text(key))];
        for tenant in ["acme", "Acme", "acme ", "öcme", "ocme"] {
            t.insert_event("tenants_outbox", &event(tenant, "k")).await.unwrap();
        }
        t.insert_event("tenants_outbox", &event("acme", "K")).await.unwrap();
        t.insert_event("tenants_outbox", &event("acme", "k")).await.unwrap_err();
        for _ in 0..2 {
            t.insert_event("tenants_outbox", &[("tenant", text("acme"))]).await.unwrap();
        }
        assert_eq!(t.count("tenants_outbox").await, 8);
    }
}

on_backends! { [postgres]
    async fn an_outbox_in_a_schema_takes_captured_writes_and_is_relayed(t: Shop) {
        t.execute("CREATE SCHEMA accounts").await;
        OutboxTable::new("outbox").schema("accounts").create(&SchemaManager::new(&t.db)).await.unwrap();
        insert_widget!(t, accounted);
        let receiver = MemoryDelivery::<accounts::Model>::default();
        assert_eq!(relay::<accounts::Entity>(&t.db, &receiver).flush(10).await.unwrap().delivered, 1);
        assert_eq!(t.count("accounts.outbox WHERE published_at IS NOT NULL").await, 1);
    }
}

/// What every outbox has is one and the same.
#[test]
fn the_columns_of_every_outbox_are_those_of_the_built_in_one() {
    let own = billing::Column::iter().map(|column| (column.as_str(), column.def()));
    let built_in = outbox::Column::iter().map(|column| (column.as_str(), column.def()));
    for ((name, own), (built_in_name, built_in)) in own.zip(built_in) {
        assert_eq!(name, built_in_name);
        assert_eq!(own.get_column_type(), built_in.get_column_type(), "{name}");
        assert_eq!(own.is_null(), built_in.is_null(), "{name}");
    }
    let names: Vec<_> = billing::Column::iter()
        .skip(19)
        .map(|column| column.as_str())
        .collect();
    assert_eq!(names, ["customer_id", "origin"]);
    assert_eq!(outbox::Column::iter().count(), 19);
}
