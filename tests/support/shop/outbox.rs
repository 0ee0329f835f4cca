//! Outboxes of the shop's own. Three are on the built-in one's table: the wakeup of the built-in one is the whole process's, theirs
//! are the tests'. The others have tables of their own, with columns of their own.

use std::sync::{Arc, LazyLock};

use hare_seaorm::wakeup::{OutboxWakeup, Signals, WakeupError};
use hare_seaorm::{ConfigError, InProcessWakeup};
use hare_seaorm_migration::OutboxTable;
use sea_orm::{DatabaseConnection, DbBackend, Statement};
use sea_orm_migration::prelude::{ColumnDef, SchemaManager};
use tokio::sync::{Mutex, MutexGuard};

use crate::TestDb;
use crate::wakeup::RecordingWakeup;

/// Its wakeup notes the signals, for whoever holds a [`Heard`].
pub mod recording {
    #[hare_seaorm::outbox_event(table_name = "hare_outbox", wakeup = super::recorded)]
    pub struct Model {}
}

/// Its wakeup refuses every database.
pub mod refusing {
    #[hare_seaorm::outbox_event(table_name = "hare_outbox", wakeup = super::refused)]
    pub struct Model {}
}

/// Its wakeup is the one that a [`Notifying`] was given.
pub mod notifying {
    #[hare_seaorm::outbox_event(table_name = "hare_outbox", wakeup = super::given)]
    pub struct Model {}
}

/// Events that may be a customer's. Its wakeup is its own.
pub mod billing {
    use sea_orm::entity::prelude::*;

    #[hare_seaorm::outbox_event(table_name = "billing_outbox", wakeup = super::in_process)]
    pub struct Model {
        pub customer_id: Option<i32>,
        #[sea_orm(default_value = "till")]
        pub origin: String,
        #[sea_orm(belongs_to, from = "customer_id", to = "id")]
        pub customer: HasOne<crate::shop::customer::Entity>,
    }
}

/// Without a wakeup: its relays only poll.
pub mod audit {
    #[hare_seaorm::outbox_event(table_name = "audit_outbox")]
    pub struct Model {}
}

/// Each tenant has its own idempotency keys.
pub mod tenants {
    #[hare_seaorm::outbox_event(table_name = "tenants_outbox", conflict(tenant, idempotency_key))]
    pub struct Model {
        pub tenant: String,
    }
}

/// In a schema of its own, where the database has schemas.
pub mod accounts {
    #[hare_seaorm::outbox_event(table_name = "outbox", schema_name = "accounts")]
    pub struct Model {}
}

fn in_process() -> Arc<dyn OutboxWakeup> {
    Arc::new(InProcessWakeup::new())
}

/// The tables of those that have one in every database.
pub fn tables() -> [OutboxTable; 3] {
    [
        OutboxTable::new("billing_outbox")
            .column(ColumnDef::new("customer_id").integer())
            .column(ColumnDef::new("origin").string().not_null().default("till")),
        OutboxTable::new("audit_outbox"),
        OutboxTable::new("tenants_outbox")
            .column(ColumnDef::new("tenant").string().not_null())
            .conflict(["tenant", "idempotency_key"]),
    ]
}

impl TestDb {
    pub async fn create_outboxes(&self) {
        for table in tables() {
            let created = table.create(&SchemaManager::new(&self.db)).await;
            created.expect("the outbox table can be created");
        }
    }
}

static RECORDED: LazyLock<RecordingWakeup> = LazyLock::new(RecordingWakeup::default);

fn recorded() -> Arc<dyn OutboxWakeup> {
    Arc::new(RECORDED.clone())
}

fn refused() -> Arc<dyn OutboxWakeup> {
    Arc::new(RecordingWakeup {
        refuses: true,
        ..Default::default()
    })
}

static GIVEN: std::sync::Mutex<Option<Arc<dyn OutboxWakeup>>> = std::sync::Mutex::new(None);

fn given() -> Arc<dyn OutboxWakeup> {
    Arc::new(Given)
}

/// Passes everything to the wakeup that is given at that moment: an outbox has one for as long as the process lives.
struct Given;

impl Given {
    fn wakeup(&self) -> Arc<dyn OutboxWakeup> {
        let given = GIVEN.lock().expect("no test panics in here");
        given.clone().expect("a `Notifying` is held")
    }
}

#[async_trait::async_trait]
impl OutboxWakeup for Given {
    async fn signal(&self, topics: &[String]) -> Result<(), WakeupError> {
        self.wakeup().signal(topics).await
    }
    fn in_transaction(&self, backend: DbBackend, topics: &[String]) -> Option<Statement> {
        self.wakeup().in_transaction(backend, topics)
    }
    fn check(&self, backend: DbBackend) -> Result<(), ConfigError> {
        self.wakeup().check(backend)
    }
    async fn listen(&self, db: &DatabaseConnection, signals: &Signals) -> Result<(), WakeupError> {
        self.wakeup().listen(db, signals).await
    }
    async fn close(&self) {
        self.wakeup().close().await;
    }
}

/// Gives the outbox [`notifying`] its wakeup, for as long as it is held. One at a time in a process.
#[derive(Debug)]
pub struct Notifying(#[expect(dead_code, reason = "the turn")] MutexGuard<'static, ()>);

impl Notifying {
    pub async fn through(wakeup: Arc<dyn OutboxWakeup>) -> Self {
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        *GIVEN.lock().expect("no test panics in here") = Some(wakeup);
        Self(turn)
    }
}

/// What the wakeup of [`recording`] heard. One at a time in a process, so that no test hears another's.
#[derive(Debug)]
pub struct Heard(#[expect(dead_code, reason = "the turn")] MutexGuard<'static, ()>);

impl Heard {
    pub async fn from_now_on() -> Self {
        static TURN: Mutex<()> = Mutex::const_new(());
        let heard = Self(TURN.lock().await);
        heard.take();
        heard
    }

    /// The signals since the last time, each with its topics.
    pub fn take(&self) -> Vec<Vec<String>> {
        RECORDED.take()
    }
}
