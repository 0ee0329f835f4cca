//! A library lends books. Every write of a loan is announced in the same transaction; a receiver hears of it, in order.
//!
//! `cargo run -p quickstart`: SQLite in a temporary file, no service, no argument. Ends by itself.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hare_seaorm::{CallableDelivery, OutboxMessage, OutboxRelay, outbox};
use sea_orm::{ConnectionTrait, Database, DbErr, EntityTrait, IntoActiveModel, PaginatorTrait, Schema, Set};
use sea_orm_migration::{MigrationTrait, MigratorTrait};

mod book;
mod loan;

struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        hare_seaorm_migration::migrations() // and then the application's own
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let db = Database::connect(format!(
        "sqlite://{}?mode=rwc",
        folder.path().join("library.db").display()
    ))
    .await?;
    Migrator::up(&db, None).await?;
    let schema = Schema::new(db.get_database_backend());
    db.execute(&schema.create_table_from_entity(book::Entity)).await?;
    db.execute(&schema.create_table_from_entity(loan::Entity)).await?;

    // The receiver: prints each event, but is down for its first two calls.
    let calls = Arc::new(AtomicU32::new(0));
    let received = Arc::new(AtomicU32::new(0));
    let receiver = CallableDelivery::new({
        let (calls, received) = (Arc::clone(&calls), Arc::clone(&received));
        move |event: outbox::Model| {
            let is_down = calls.fetch_add(1, Ordering::Relaxed) < 2;
            let received = Arc::clone(&received);
            async move {
                if is_down {
                    println!("  (the receiver is down: {} waits)", event.topic);
                    return Err("the receiver is down");
                }
                received.fetch_add(1, Ordering::Relaxed);
                println!("{:<24} {}", event.topic, event.payload.as_str());
                Ok(())
            }
        }
    });
    let relay = OutboxRelay::new(db.clone(), receiver)
        .retry_base(Duration::from_millis(100))
        .poll_interval(Duration::from_millis(50));
    let running = relay.start()?;

    let book = book::ActiveModel {
        title: Set("Dune".to_owned()),
        ..Default::default()
    }
    .insert(&db)
    .await?;
    let loan = loan::ActiveModel {
        book_id: Set(book.id),
        reader: Set("Ada".to_owned()),
        status: Set("open".to_owned()),
        ..Default::default()
    };
    let loan = loan.insert(&db).await?;

    // A change of mind: neither the row nor its event is left.
    let txn = hare_seaorm::begin(&db).await?;
    loan::ActiveModel {
        book_id: Set(book.id),
        reader: Set("Bob".to_owned()),
        status: Set("open".to_owned()),
        ..Default::default()
    }
    .insert(&txn)
    .await?;
    txn.rollback().await?;

    // An update and an event of one's own, together.
    let txn = hare_seaorm::begin(&db).await?;
    let mut returned = loan.into_active_model();
    returned.status = Set("returned".to_owned());
    let loan = returned.update(&txn).await?;
    let thanks = OutboxMessage::new("library.mail.thanks", &serde_json::json!({"to": loan.reader}))?;
    outbox::enqueue(&txn, thanks.ordering_key(format!("loan:{}", loan.id))).await?;
    txn.commit().await?;
    loan.delete(&db).await?;

    while undelivered(&db).await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    running.stop().await;

    let (received, calls) = (received.load(Ordering::Relaxed), calls.load(Ordering::Relaxed));
    println!("\n{received} events delivered with {calls} calls; the rolled-back loan told nothing.");
    assert_eq!(received, 5, "a book, a loan, its return, a mail, its end");
    Ok(())
}

async fn undelivered<C: ConnectionTrait>(db: &C) -> Result<u64, DbErr> {
    use sea_orm::{ColumnTrait, QueryFilter};
    outbox::Entity::find()
        .filter(outbox::Column::PublishedAt.is_null())
        .count(db)
        .await
}
