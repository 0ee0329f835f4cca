//! Transactional outbox and change capture for SeaORM 2.
//!
//! Writing a row and announcing it are two operations: between them, announcements get lost or lie. Here every ORM write of an
//! annotated entity also writes an *event*, a row of the table `hare_outbox`, in the same transaction, and a *relay* delivers
//! each committed event at least once, in order per key.
//!
//! ```
//! mod loan {
//!     use hare_seaorm::ChangeCapture;
//!     use sea_orm::entity::prelude::*;
//!
//!     #[derive(Clone, Debug, PartialEq, DeriveEntityModel, ChangeCapture)]
//!     #[sea_orm(table_name = "loan")]
//!     #[hare(capture(app = "library", payload = "before_and_after"))]
//!     pub struct Model {
//!         #[sea_orm(primary_key)]
//!         pub id: i32,
//!         pub status: String,
//!     }
//!
//!     #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
//!     pub enum Relation {}
//!     // no `impl ActiveModelBehavior`: the derive writes it
//! }
//!
//! # use sea_orm_migration::{MigrationTrait, MigratorTrait};
//! struct Migrator;
//!
//! impl MigratorTrait for Migrator {
//!     fn migrations() -> Vec<Box<dyn MigrationTrait>> {
//!         hare_seaorm_migration::migrations() // and then the application's own
//!     }
//! }
//!
//! use hare_seaorm::{MemoryDelivery, OutboxRelay};
//! use sea_orm::{ConnectOptions, ConnectionTrait, Database, IntoActiveModel, Schema, Set};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let db = Database::connect(ConnectOptions::new("sqlite::memory:").max_connections(1).to_owned()).await?;
//! Migrator::up(&db, None).await?;
//! db.execute(&Schema::new(db.get_database_backend()).create_table_from_entity(loan::Entity)).await?;
//!
//! let delivery = MemoryDelivery::new();
//! let relay = OutboxRelay::new(db.clone(), delivery.clone()).start()?;
//!
//! let new = loan::ActiveModel { status: Set("open".to_owned()), ..Default::default() };
//! let mut returned = new.insert(&db).await?.into_active_model(); // the row and its event commit together
//! returned.status = Set("returned".to_owned());
//! returned.update(&db).await?;
//!
//! delivery.wait_for(2).await;
//! assert_eq!(delivery.topics(), ["library.loan.inserted", "library.loan.updated"]);
//! relay.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | capturing an entity's writes, hooks of your own | [`ChangeCapture`], [`CaptureBehavior`] |
//! | events of your own, one or many, with idempotency keys, delayed | [`outbox::enqueue()`], [`outbox::enqueue_many()`], [`OutboxMessage`] |
//! | an outbox table of your own, with columns of its own | [`outbox_event`], [`outbox::OutboxEntity`] |
//! | delivering events, each topic where it belongs | [`OutboxRelay`], [`delivery`], [`TopicRouter`] |
//! | dead letters, cleanups, the backlog | [`OutboxRelay::dead_letters`], [`OutboxRelay::cleanup_published`], [`OutboxRelay::backlog`] |
//! | metrics, alarms, logs | [`relay::RelayObserver`], [`logs`] |
//! | a transaction that wakes the relays when it commits | [`begin`], [`Transaction`], [`wakeup`] |
//! | what can go wrong | [`Error`], [`Error::find`] |
//! | a connection type of your own | [`connection::register`] |
//!
//! # What is guaranteed
//!
//! A captured write and its event commit together or not at all: also when the caller catches the error and goes on in the
//! transaction, and when the future is dropped half-way.
//!
//! In a transaction of [`begin`] this always holds: a write that was cut, or that cannot be undone alone, forbids the commit. In a
//! *plain* SeaORM transaction that is then committed there are exceptions, because nobody can watch its commit: a captured write
//! whose future was dropped half-way; one that fails while another task writes in the same transaction at the same moment (both
//! are undone); on MariaDB and MySQL, anything after a statement that was dropped half-way or after a deadlock, captured or not.
//!
//! # Features
//!
//! | feature | |
//! |---|---|
//! | `macros` (default) | the derive macros |
//! | `testing` | a clock that tests can move |
//! | `tracing-context` | the current span's `traceparent` and `tracestate` in the headers of every event; for `tracing-opentelemetry` 0.34 |
//! | `sqlx-postgres`, `sqlx-mysql`, `sqlx-sqlite` | SeaORM's drivers; turn on here what you turn on there, or captured writes are refused. `sqlx-postgres` has `ListenNotifyWakeup` |
//! | `runtime-*`, `mock`, `stream`, `sqlite-use-returning-for-3_35`, `mariadb-use-returning` | SeaORM's, passed through |
//! | `with-*`, `postgres-array`, `postgres-vector` | SeaORM's column types; turn on here what you turn on there, or their values cannot be captured |
//!
//! The runtime is tokio.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(unreachable_pub)]

pub mod capture;
pub mod connection;
mod context;
pub mod delivery;
mod error;
pub mod json;
pub mod logs;
pub mod outbox;
pub mod relay;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod transaction;
pub mod wakeup;

pub use capture::CaptureBehavior;
pub use delivery::{CallableDelivery, MemoryDelivery, OutboxDelivery, TopicRouter};
pub use error::{Cause, ConfigError, Error};
#[cfg(feature = "macros")]
pub use hare_seaorm_derive::{ChangeCapture, behavior, outbox_event};
pub use outbox::OutboxMessage;
pub use relay::{DeadLetterPolicy, OutboxRelay, PollOutcome, RelayHandle, RelayObserver};
pub use transaction::{Transaction, begin, signal_after_commit};
#[cfg(feature = "sqlx-postgres")]
pub use wakeup::ListenNotifyWakeup;
pub use wakeup::{InProcessWakeup, OutboxWakeup};

#[doc(hidden)]
pub mod __private;

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
