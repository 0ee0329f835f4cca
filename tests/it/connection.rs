//! Which connections a captured write takes, and which it refuses.

use hare_seaorm::Error;
use hare_seaorm::connection::{ConnectionRef, register};
use hare_seaorm_tests::shop::widget;
use hare_seaorm_tests::{Shop, on_every_backend};
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DatabaseConnection, DatabaseExecutor, DatabaseTransaction, DbBackend,
    DbErr, EntityTrait, ExecResult, MockDatabase, MockExecResult, QueryResult, Set, Statement,
    TransactionError, TransactionTrait,
};

fn new() -> widget::after::ActiveModel {
    widget::after::ActiveModel {
        name: Set("nut".to_owned()),
        ..Default::default()
    }
}

macro_rules! wrapper {
    ($name:ident, $inner:ty) => {
        struct $name($inner);

        #[async_trait::async_trait]
        impl ConnectionTrait for $name {
            fn get_database_backend(&self) -> DbBackend {
                ConnectionTrait::get_database_backend(&self.0)
            }
            async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
                self.0.execute_raw(statement).await
            }
            async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
                self.0.execute_unprepared(sql).await
            }
            async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
                self.0.query_one_raw(statement).await
            }
            async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
                self.0.query_all_raw(statement).await
            }
        }
    };
}

wrapper!(Stranger, DatabaseConnection);
wrapper!(KnownPool, DatabaseConnection);
wrapper!(KnownTransaction, DatabaseTransaction);

#[expect(unsafe_code, reason = "neither type has a lifetime parameter")]
fn register_wrappers() {
    // SAFETY: neither type has a lifetime parameter.
    unsafe {
        register::<KnownPool>(|known| ConnectionRef::Pool(&known.0));
        register::<KnownTransaction>(|_| ConnectionRef::Transaction);
    }
}

on_every_backend! {
    async fn a_type_that_nobody_registered_is_refused(t: Shop) {
        let error = new().insert(&Stranger(t.db.clone())).await.unwrap_err();
        let found = Error::find(&error);
        assert!(matches!(found, Some(Error::Unsupported { .. })), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("Stranger") && text.contains("hare_seaorm::connection::register"), "{text}");
        assert_eq!(widget::after::Entity::find().all(&t.db).await.unwrap(), []);
        let message = hare_seaorm::OutboxMessage::new("t", &1).unwrap();
        hare_seaorm::outbox::enqueue(&Stranger(t.db.clone()), message).await.unwrap_err();
    }

    async fn a_registered_type_is_what_it_was_said_to_be(t: Shop) {
        register_wrappers();
        new().insert(&KnownPool(t.db.clone())).await.unwrap();
        let txn = KnownTransaction(t.db.begin().await.unwrap());
        new().insert(&txn).await.unwrap();
        txn.0.commit().await.unwrap();
        assert_eq!(t.take_events().await.len(), 2);
    }

    async fn executors_are_looked_into(t: Shop) {
        new().insert(&DatabaseExecutor::from(&t.db)).await.unwrap();
        let txn = t.db.begin().await.unwrap();
        new().insert(&DatabaseExecutor::from(&txn)).await.unwrap();
        txn.rollback().await.unwrap();
        assert_eq!(t.take_events().await.len(), 1);
        let error = ActiveModelTrait::insert(new(), &DatabaseExecutor::from(&t.db)).await.unwrap_err();
        assert!(matches!(Error::find(&error), Some(Error::Unsupported { .. })), "a pool behind an executor is a pool");
    }

    async fn closures_of_transactions_take_captured_writes(t: Shop) {
        let done = t.db.transaction::<_, _, DbErr>(|txn| Box::pin(async move { new().insert(txn).await }));
        done.await.unwrap();
        let ours = hare_seaorm::begin(&t.db).await.unwrap();
        let failed: Result<(), TransactionError<DbErr>> = ours
            .transaction(|txn| Box::pin(async move {
                new().insert(txn).await?;
                Err(DbErr::Custom("given up".to_owned()))
            }))
            .await;
        assert!(matches!(failed, Err(TransactionError::Transaction(_))));
        ours.transaction::<_, _, DbErr>(|txn| Box::pin(async move { new().insert(txn).await })).await.unwrap();
        ours.commit().await.unwrap();
        assert_eq!(t.take_events().await.len(), 2);
    }
}

// SeaORM's mock keeps exactly the statements it would have without capture.
#[tokio::test]
async fn on_a_mock_connection_capture_is_off() {
    let row = widget::after::Model {
        id: 1,
        name: "nut".to_owned(),
        size: 7,
        note: None,
    };
    let mock = MockDatabase::new(DbBackend::Postgres)
        .append_query_results([[row.clone()], [row.clone()]])
        .append_exec_results([MockExecResult {
            last_insert_id: 0,
            rows_affected: 1,
        }]);
    let db = mock.into_connection();
    assert_eq!(new().insert(&db).await.unwrap(), row);
    assert_eq!(ActiveModelTrait::insert(new(), &db).await.unwrap(), row);
    assert_eq!(row.delete(&db).await.unwrap().rows_affected, 1);
    let log: Vec<String> = db
        .into_transaction_log()
        .iter()
        .flat_map(|entry| entry.statements().to_vec())
        .map(|statement| statement.sql)
        .collect();
    assert_eq!(log.len(), 3, "{log:#?}");
    assert!(
        log[0].starts_with(r#"INSERT INTO "widget""#) && log[0] == log[1] && log[2].starts_with("DELETE"),
        "{log:#?}"
    );
}

#[tokio::test]
async fn in_a_transaction_of_ours_on_a_mock_connection_it_is_off_too() {
    let row = widget::after::Model {
        id: 1,
        name: "nut".to_owned(),
        size: 7,
        note: None,
    };
    let db = MockDatabase::new(DbBackend::Postgres)
        .append_query_results([[row.clone()]])
        .into_connection();
    let txn = hare_seaorm::begin(&db).await.unwrap();
    assert_eq!(new().insert(&txn).await.unwrap(), row);
    txn.commit().await.unwrap();
    let log = db.into_transaction_log();
    assert_eq!(log[0].statements().len(), 3, "BEGIN, INSERT, COMMIT: {log:#?}");
}
