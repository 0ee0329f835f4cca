//! Events sent by a job that a timer starts, without a relay that stays: what a Django command in a crontab does.
//!
//! `cargo run -p timer-flush`: SQLite in a temporary file, no service, no argument. Writes some events, sends them in short
//! passes, and ends.
//!
//! With `DATABASE_URL` it is the job itself: for 55 s (`TIMER_FLUSH_SECONDS` says otherwise) a pass every 5 s, 200 events at most in
//! each; a pass that fails is tried three times, 30 s apart, and then the job fails. cron or a Kubernetes CronJob starts it every
//! minute: see `crontab` and `cronjob.yaml` beside it. Two that overlap do no harm: each event is leased by one of them. The job
//! makes no table: the application's migrations do, with `hare_seaorm_migration::migrations()` among them.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example shows what it does"
)]

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hare_seaorm::outbox::{self, Status, enqueue};
use hare_seaorm::{CallableDelivery, OutboxMessage, OutboxRelay};
use sea_orm::{Database, DatabaseConnection, EntityTrait, PaginatorTrait, QueryFilter};
use sea_orm_migration::{MigrationTrait, MigratorTrait};
use timer::Timer;

mod timer;

/// The application's own, as the application has it: it makes the table `hare_outbox`.
struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        hare_seaorm_migration::migrations()
    }
}

/// Where events go. The receiver tells repetitions by the key: the event's idempotency key, or its id if it has none.
async fn publish(event: outbox::Model) -> Result<(), &'static str> {
    static WAS_DOWN: AtomicBool = AtomicBool::new(false);
    let id = event.id.to_string();
    let key = event.idempotency_key.as_deref().unwrap_or(&id);
    if event.topic == "mail.flaky" && !WAS_DOWN.swap(true, Ordering::Relaxed) {
        return Err("the mail server is down");
    }
    println!("  {:<14} key {key}: {}", event.topic, event.payload.as_str());
    Ok(())
}

/// Tries after 2, 4, 8 ... seconds, an hour at most, exactly; a dead letter after the eighth failure.
fn relay(db: &DatabaseConnection) -> OutboxRelay {
    OutboxRelay::new(db.clone(), CallableDelivery::new(publish))
        .retry_base(Duration::from_secs(2))
        .retry_max(Duration::from_secs(3600))
        .retry_spread(0.0)
        .max_delivery_attempts(8)
}

async fn pass(relay: &OutboxRelay, limit: usize) -> Result<(), String> {
    let outcome = relay.flush(limit).await.map_err(|error| with_causes(&error))?;
    if outcome.claimed > 0 {
        println!("{} of {} sent", outcome.delivered, outcome.claimed);
    }
    Ok(())
}

/// What could not be done, and why: what the database said is the cause of the library's own error.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        // Many errors end in the text of their cause.
        if !text.ends_with(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Ok(url) = std::env::var("DATABASE_URL") else {
        return demonstrate().await;
    };
    let seconds = match std::env::var("TIMER_FLUSH_SECONDS") {
        Ok(seconds) => seconds.parse()?,
        Err(_) => 55,
    };
    let db = Database::connect(url).await?;
    let relay = relay(&db);
    let length = Duration::from_secs(seconds);
    Ok(Timer::default()
        .run(length, async |limit| pass(&relay, limit).await)
        .await?)
}

async fn demonstrate() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("mail.db");
    let db = Database::connect(format!("sqlite://{}?mode=rwc", file.display())).await?;
    Migrator::up(&db, None).await?;
    let mail = |topic: &str, to: &str| OutboxMessage::new(topic, &serde_json::json!({"to": to}));
    enqueue(&db, mail("mail.welcome", "Ada")?.idempotency_key("welcome:ada")).await?;
    let again = enqueue(&db, mail("mail.welcome", "Ada")?.idempotency_key("welcome:ada")).await?;
    println!("written again under its key: created {}", again.is_new);
    enqueue(&db, mail("mail.flaky", "Bob")?.max_attempts(3)).await?;
    enqueue(&db, mail("mail.news", "Cleo")?).await?;

    let timer = Timer {
        every: Duration::from_millis(500),
        ..Timer::default()
    };
    let relay = relay(&db);
    // The failed one is due again after exactly 2 s.
    timer
        .run(Duration::from_secs(3), async |limit| pass(&relay, limit).await)
        .await?;
    for status in [Status::Pending, Status::Published, Status::DeadLettered] {
        let events = outbox::Entity::find().filter(status.condition::<outbox::Entity>());
        println!("{status}: {}", events.count(&db).await?);
    }
    Ok(())
}
