//! The outbox table of [`hare-seaorm`](https://docs.rs/hare-seaorm), as migrations for a SeaORM `Migrator`.
//!
//! ```
//! use sea_orm_migration::prelude::*;
//!
//! struct Migrator;
//!
//! impl MigratorTrait for Migrator {
//!     fn migrations() -> Vec<Box<dyn MigrationTrait>> {
//!         let mut migrations = hare_seaorm_migration::migrations();
//!         // migrations.push(Box::new(m20270101_000001_create_loan::Migration));
//!         migrations
//!     }
//! }
//! ```
//!
//! The table of an outbox of your own is made by a migration of your own, with [`OutboxTable`].
//!
//! A migration's name holds `hare`, so it never meets one of the application's in the table SeaORM keeps them in. A released
//! migration never changes; a new version adds one.

mod m20261201_000001_hare_create_outbox;
mod outbox_table;

use sea_orm_migration::MigrationTrait;

pub use outbox_table::OutboxTable;

/// Every migration of the built-in outbox table `hare_outbox`, oldest first. Put them before the application's own.
#[must_use]
pub fn migrations() -> Vec<Box<dyn MigrationTrait>> {
    vec![Box::new(m20261201_000001_hare_create_outbox::Migration)]
}
