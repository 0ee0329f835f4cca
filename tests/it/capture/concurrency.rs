//! Captured writes of one row by many at once.

use std::pin::Pin;

use hare_seaorm_tests::database::until_someone_waits_for_a_lock;
use hare_seaorm_tests::shop::{customer, line, order, widget};
use hare_seaorm_tests::{Shop, TestDb, on_backends};
use sea_orm::prelude::Decimal;
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DatabaseConnection, DbErr, Set, TransactionTrait, Unchanged,
};
use serde_json::json;

/// An update to a size, in a transaction or by itself, until its commit.
type Way = fn(
    DatabaseConnection,
    widget::both::ActiveModel,
) -> Pin<Box<dyn Future<Output = Result<(), DbErr>> + Send>>;

const ON_THE_POOL: Way = |db, change| Box::pin(async move { change.update(&db).await.map(drop) });

const ON_THE_POOL_WITHOUT_RETURNING: Way =
    |db, change| Box::pin(async move { change.update_without_returning(&db).await.map(drop) });

const IN_A_PLAIN_TRANSACTION: Way = |db, change| {
    Box::pin(async move {
        let txn = db.begin().await?;
        change.update(&txn).await?;
        txn.commit().await
    })
};

const IN_A_TRANSACTION_OF_OURS: Way = |db, change| {
    Box::pin(async move {
        let txn = hare_seaorm::begin(&db).await?;
        change.update(&txn).await?;
        txn.commit().await
    })
};

const BY_GENERIC_CODE: Way = |db, change| {
    Box::pin(async move {
        let txn = db.begin().await?;
        ActiveModelTrait::update(change, &txn).await?;
        txn.commit().await
    })
};

async fn a_row(t: &TestDb) -> i32 {
    let new = widget::both::ActiveModel {
        name: Set("nut".to_owned()),
        size: Set(0),
        ..Default::default()
    };
    let row = new.insert(&t.db).await.unwrap();
    t.take_events().await;
    row.id
}

/// Each of so many tasks sets the row's size to a number of its own.
async fn update_at_once(t: &TestDb, ways: &[Way]) {
    const TASKS: usize = 40;
    let id = a_row(t).await;
    let tasks: Vec<_> = (1..=TASKS)
        .map(|task| {
            let change = widget::both::ActiveModel {
                id: Unchanged(id),
                size: Set(i32::try_from(task).unwrap()),
                ..Default::default()
            };
            tokio::spawn(ways[task % ways.len()](t.db.clone(), change))
        })
        .collect();
    let mut failed = Vec::new();
    for task in tasks {
        failed.extend(task.await.unwrap().err());
    }
    assert!(
        failed.is_empty(),
        "{} of {TASKS} failed: {}",
        failed.len(),
        failed[0]
    );

    let mut size = json!(0);
    let events = t.take_events().await;
    assert_eq!(events.len(), TASKS);
    for event in events {
        assert_eq!(
            event.payload["before"]["size"], size,
            "each tells what the one before it left"
        );
        size = event.payload["after"]["size"].clone();
    }
}

on_backends! { [postgres, mariadb]
    // catalogue G9
    async fn an_update_tells_what_another_committed_while_it_waited(t: Shop) {
        for way in [
            ON_THE_POOL,
            ON_THE_POOL_WITHOUT_RETURNING,
            IN_A_PLAIN_TRANSACTION,
            IN_A_TRANSACTION_OF_OURS,
            BY_GENERIC_CODE,
        ] {
            let id = a_row(&t).await;
            let other = t.db.begin().await.unwrap();
            other.execute_unprepared(&format!("UPDATE widget SET size = 500 WHERE id = {id}")).await.unwrap();
            let change = widget::both::ActiveModel { id: Unchanged(id), size: Set(501), ..Default::default() };
            let updating = tokio::spawn(way(t.db.clone(), change));
            until_someone_waits_for_a_lock(&t).await;
            other.commit().await.unwrap();
            updating.await.unwrap().unwrap();
            let event = t.event().await;
            assert_eq!((&event.payload["before"]["size"], &event.payload["after"]["size"]), (&json!(500), &json!(501)));
        }
    }
}

on_backends! { [postgres]
    async fn a_row_that_refers_to_an_updated_one_need_not_wait(t: Shop) {
        t.execute("ALTER TABLE order_line ADD FOREIGN KEY (order_id) REFERENCES \"order\" (id)").await;
        let customer = customer::ActiveModel {
            name: Set("Ada".to_owned()),
            email: Set(None),
            password: Set("secret".to_owned()),
            ..Default::default()
        };
        let customer = customer.insert(&t.db).await.unwrap();
        let order = order::ActiveModel {
            customer_id: Set(customer.id),
            status: Set(order::Status::Open),
            total: Set(Decimal::ONE),
            ..Default::default()
        };
        let order = order.insert(&t.db).await.unwrap();

        // `order` is locked before it is updated, `customer` by its update alone.
        let updating = t.db.begin().await.unwrap();
        let paid = order::ActiveModel { id: Unchanged(order.id), status: Set(order::Status::Paid), ..Default::default() };
        paid.update(&updating).await.unwrap();

        let inserting = t.db.begin().await.unwrap();
        inserting.execute_unprepared("SET LOCAL lock_timeout = '1s'").await.unwrap();
        let line = line::ActiveModel { order_id: Set(order.id), number: Set(1), product: Set("nut".to_owned()), quantity: Set(3) };
        line.insert(&inserting).await.expect("the check of the foreign key does not wait");
        inserting.commit().await.unwrap();
        updating.commit().await.unwrap();
        let models: Vec<_> = t.take_events().await.iter().map(|event| event.payload["model"].clone()).collect();
        assert_eq!(models.len(), 4);
    }
}

on_backends! { [sqlite]
    // A transaction that begins deferred and reads before it writes cannot write once another has.
    async fn plain_transactions_that_update_at_once_all_succeed(t: Shop) {
        update_at_once(&t, &[IN_A_PLAIN_TRANSACTION]).await;
        update_at_once(&t, &[BY_GENERIC_CODE]).await;
    }

    async fn transactions_of_ours_that_update_at_once_all_succeed(t: Shop) {
        update_at_once(&t, &[ON_THE_POOL]).await;
        update_at_once(&t, &[ON_THE_POOL_WITHOUT_RETURNING]).await;
        update_at_once(&t, &[IN_A_TRANSACTION_OF_OURS]).await;
    }
}

on_backends! { [postgres, mariadb, sqlite]
    async fn updates_at_once_tell_each_what_the_one_before_left(t: Shop) {
        let ways = [ON_THE_POOL, IN_A_PLAIN_TRANSACTION, IN_A_TRANSACTION_OF_OURS, BY_GENERIC_CODE];
        update_at_once(&t, &ways).await;
    }
}
