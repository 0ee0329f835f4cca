//! Creates the table `hare_outbox` and its indexes.

use sea_orm_migration::prelude::*;

use crate::outbox_table::OutboxTable;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[expect(elided_lifetimes_in_paths, reason = "the trait's own signature leaves it out")]
#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        OutboxTable::new("hare_outbox").create(manager).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        OutboxTable::new("hare_outbox").drop(manager).await
    }

    /// All or nothing on SQLite too. MySQL commits each DDL statement by itself, so there it is one statement.
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
