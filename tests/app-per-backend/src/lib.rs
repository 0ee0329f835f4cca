//! An application that knows only the public API. It is compiled with each backend alone, never run.

use hare_seaorm::{CallableDelivery, ChangeCapture, OutboxMessage, OutboxRelay, outbox};
use sea_orm::entity::prelude::*;
use sea_orm::{IntoActiveModel, Set};
use sea_orm_migration::{MigrationTrait, MigratorTrait};

/// A captured entity.
pub mod loan {
    use super::*;

    /// A loan.
    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
    #[sea_orm(table_name = "loan")]
    #[hare(capture(app = "library", payload = "before_and_after"))]
    pub struct Model {
        /// Its key.
        #[sea_orm(primary_key)]
        pub id: i32,
        /// What it costs.
        pub fee: Decimal,
        /// Nobody else's business.
        #[hare(sensitive)]
        pub note: Option<String>,
    }
}

/// The application's migrations.
#[derive(Debug)]
pub struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        hare_seaorm_migration::migrations()
    }
}

/// Everything that an application does with the library.
///
/// # Errors
/// Whatever goes wrong.
pub async fn run(db: DatabaseConnection) -> Result<(), Box<dyn std::error::Error>> {
    Migrator::up(&db, None).await?;
    let nowhere = CallableDelivery::new(|_: outbox::Model| async { Ok::<_, std::io::Error>(()) });
    let relay = OutboxRelay::new(db.clone(), nowhere).start()?;
    let txn = hare_seaorm::begin(&db).await?;
    let loan = loan::ActiveModel {
        fee: Set(Decimal::ONE),
        ..Default::default()
    }
    .insert(&txn)
    .await?;
    let mut change = loan.into_active_model();
    change.note = Set(Some("late".to_owned()));
    change.update(&txn).await?.delete(&txn).await?;
    outbox::enqueue(&txn, OutboxMessage::new("library.done", &serde_json::json!({}))?).await?;
    txn.commit().await?;
    relay.stop().await;
    Ok(())
}
