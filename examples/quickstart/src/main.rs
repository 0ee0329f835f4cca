//! A library lends books. Every write of a loan is announced in the same transaction; a receiver hears of it, in order.
//!
//! `cargo run -p quickstart`: SQLite in a temporary file, no service, no argument. Ends by itself.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hare_seaorm::{CallableDelivery, OutboxMessage, OutboxRelay, outbox};
use sea_orm::{Database, DatabaseConnection, IntoActiveModel, Schema, Set};
use sea_orm_migration::{MigrationTrait, MigratorTrait};

mod book;
mod loan;

struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        hare_seaorm_migration::migrations() // and then the application's own
    }
}

/// The receiver: prints each event, but is down for its first two calls.
async fn receive(event: outbox::Model) -> Result<(), &'static str> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    if CALLS.fetch_add(1, Ordering::Relaxed) < 2 {
        println!("  (the receiver is down: {} waits)", event.topic);
        return Err("the receiver is down");
    }
    println!("{:<24} {}", event.topic, event.payload.as_str());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("library.db");
    let db = Database::connect(format!("sqlite://{}?mode=rwc", file.display())).await?;
    create_tables(&db).await?;

    let book = book::ActiveModel {
        title: Set("Dune".to_owned()),
        ..Default::default()
    };
    let book = book.insert(&db).await?;
    let loan = |reader: &str| loan::ActiveModel {
        book_id: Set(book.id),
        reader: Set(reader.to_owned()),
        status: Set("open".to_owned()),
        ..Default::default()
    };
    let ada = loan("Ada").insert(&db).await?; // the row and its event commit together

    let txn = hare_seaorm::begin(&db).await?;
    loan("Bob").insert(&txn).await?;
    txn.rollback().await?; // a change of mind: neither the row nor its event is left

    let txn = hare_seaorm::begin(&db).await?;
    let mut returned = ada.into_active_model();
    returned.status = Set("returned".to_owned());
    let ada = returned.update(&txn).await?;
    let thanks = OutboxMessage::new("library.mail.thanks", &serde_json::json!({"to": ada.reader}))?;
    outbox::enqueue(&txn, thanks).await?; // an event of one's own
    txn.commit().await?;
    ada.delete(&db).await?;

    // A service would `start()` the relay and let it run. Here it delivers what is due until nothing is left.
    let relay =
        OutboxRelay::new(db.clone(), CallableDelivery::new(receive)).retry_base(Duration::from_millis(50));
    let (mut delivered, mut failed) = (0, 0);
    while delivered < 5 {
        let outcome = relay.flush(100).await?;
        delivered += outcome.delivered;
        failed += outcome.failed;
        tokio::time::sleep(Duration::from_millis(10)).await; // until a failed one is due again
    }
    println!("\n{delivered} events delivered, {failed} tries failed; the rolled-back loan told nothing.");
    Ok(())
}

async fn create_tables(db: &DatabaseConnection) -> Result<(), sea_orm::DbErr> {
    use sea_orm::ConnectionTrait;

    Migrator::up(db, None).await?;
    let schema = Schema::new(db.get_database_backend());
    db.execute(&schema.create_table_from_entity(book::Entity)).await?;
    db.execute(&schema.create_table_from_entity(loan::Entity)).await?;
    Ok(())
}
