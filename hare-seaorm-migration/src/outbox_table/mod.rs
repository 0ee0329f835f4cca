//! An outbox table: made, taken away, and given its idempotency key later.

mod check;
mod dialect;
mod layout;

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

use dialect::Dialect;

/// The column that holds a message's idempotency key.
const KEY: &str = "idempotency_key";

/// The table of an outbox of your own, for your own migrations.
///
/// The columns and indexes that every outbox has are written here; what else the table has is given with
/// [`column`](Self::column), the same columns as in the struct under `#[outbox_event]`. They are given, not read from the struct,
/// so that a released migration never changes with it. A later column is a migration of your own, `ALTER TABLE` as for any table.
///
/// ```
/// use hare_seaorm_migration::OutboxTable;
/// use sea_orm_migration::prelude::*;
///
/// #[derive(DeriveMigrationName)]
/// struct CreateBillingOutbox;
///
/// fn billing_outbox() -> OutboxTable {
///     OutboxTable::new("billing_outbox")
///         .column(ColumnDef::new("tenant_id").integer().not_null())
///         .column(ColumnDef::new("answer").text())
///         .conflict(["tenant_id", "idempotency_key"])
/// }
///
/// #[async_trait::async_trait]
/// impl MigrationTrait for CreateBillingOutbox {
///     async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
///         billing_outbox().create(manager).await
///     }
///
///     async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
///         billing_outbox().drop(manager).await
///     }
///
///     /// The table and its indexes together, on SQLite too.
///     fn use_transaction(&self) -> Option<bool> {
///         Some(true)
///     }
/// }
///
/// # struct Migrator;
/// # impl MigratorTrait for Migrator {
/// #     fn migrations() -> Vec<Box<dyn MigrationTrait>> {
/// #         vec![Box::new(CreateBillingOutbox)]
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), DbErr> {
/// # let db = sea_orm_migration::sea_orm::Database::connect("sqlite::memory:").await?;
/// # Migrator::up(&db, None).await?;
/// # let manager = SchemaManager::new(&db);
/// assert!(manager.has_column("billing_outbox", "payload").await?);
/// assert!(manager.has_column("billing_outbox", "tenant_id").await?);
/// assert!(manager.has_index("billing_outbox", "billing_outbox_idempotency_key").await?);
/// # Migrator::down(&db, None).await?;
/// # assert!(!manager.has_table("billing_outbox").await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct OutboxTable {
    schema: Option<String>,
    name: String,
    columns: Vec<ColumnDef>,
    conflict: Vec<String>,
}

impl OutboxTable {
    /// The table of this name, at most 63 bytes.
    ///
    /// Its indexes are called by it: `billing_outbox_topic`. Where that would be longer than 63 bytes, a hash stands for the end of
    /// the table's name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            schema: None,
            name: name.into(),
            columns: Vec::new(),
            conflict: vec![KEY.to_owned()],
        }
    }

    /// The schema it is in, which exists already; by default the connection's own. On MariaDB and MySQL it is a database. Not on
    /// SQLite.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// An extra column, after those that every outbox has.
    ///
    /// Captured writes do not fill it: if they go to this outbox, it must be nullable or have a default.
    pub fn column(mut self, column: impl IntoColumnDef) -> Self {
        self.columns.push(column.into_column_def());
        self
    }

    /// The columns that idempotency keys are unique by, as in `conflict(...)` of `#[outbox_event]`: by default `idempotency_key`
    /// alone. The others are extra columns that are never NULL. None at all: the table has no such key.
    ///
    /// On MariaDB and MySQL a `string` or `char` column among them is compared to the letter, like the key itself; a column of a
    /// custom type as that type says.
    pub fn conflict<'a>(mut self, columns: impl IntoIterator<Item = &'a str>) -> Self {
        self.conflict = columns.into_iter().map(str::to_owned).collect();
        self
    }

    /// Makes the table and its indexes.
    ///
    /// # Errors
    /// [`DbErr::Migration`] before anything is done: for a name that is empty or too long, an extra column that every outbox has, one
    /// given twice or as primary key, a column in the unique key that is not there or may be NULL. Otherwise the database's.
    /// # Cancel safety
    /// As the migration around it: outside a transaction, and on MariaDB and MySQL always, what was made stays. There it is one
    /// statement.
    pub async fn create(&self, manager: &SchemaManager<'_>) -> Result<(), DbErr> {
        self.check_create(manager.get_database_backend())?;
        let dialect = Dialect::of(manager).await?;
        let mut table = self.table(&dialect);
        if dialect.has_partial_indexes() {
            manager.create_table(table).await?;
            for mut index in self.indexes() {
                manager.create_index(index.table(self.table_ref()).take()).await?;
            }
        } else {
            for mut index in self.plain_indexes() {
                table.index(&mut index);
            }
            manager.create_table(table).await?;
        }
        Ok(())
    }

    /// Takes the table away, with every event in it.
    ///
    /// # Errors
    /// The database's.
    /// # Cancel safety
    /// One statement, which the database may run to its end all the same.
    pub async fn drop(&self, manager: &SchemaManager<'_>) -> Result<(), DbErr> {
        manager
            .drop_table(Table::drop().table(self.table_ref()).take())
            .await
    }

    /// Gives an outbox table that was made without one its column `idempotency_key`, and the unique key over the columns of
    /// [`conflict`](Self::conflict). Events that are in the table have no key and stay as they are.
    ///
    /// The unique key is built over the whole table; on PostgreSQL writers wait meanwhile.
    ///
    /// The other columns of [`conflict`](Self::conflict) are there already and stay as they are: that they are never NULL is not
    /// checked, and on MariaDB and MySQL text in them is compared as it was made. Under a collation that ignores case or trailing
    /// spaces the tenants `acme` and `Acme` would share their keys, and the second event would be taken for the first: change such
    /// a column before, to `utf8mb4_nopad_bin` (MySQL: `utf8mb4_0900_bin`).
    ///
    /// ```
    /// # use hare_seaorm_migration::OutboxTable;
    /// # use sea_orm_migration::prelude::*;
    /// # async fn up(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    /// OutboxTable::new("billing_outbox").add_idempotency_key(manager).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`DbErr::Migration`] before anything is done, for a name that is empty or too long, or a `conflict` without
    /// `idempotency_key`. Otherwise the database's.
    /// # Cancel safety
    /// As [`create`](Self::create).
    pub async fn add_idempotency_key(&self, manager: &SchemaManager<'_>) -> Result<(), DbErr> {
        self.check_add_key(manager.get_database_backend())?;
        let dialect = Dialect::of(manager).await?;
        let mut column = Table::alter()
            .table(self.table_ref())
            .add_column(dialect.key(KEY))
            .take();
        if dialect.backend == DbBackend::MySql {
            // One statement, because each commits by itself; sea-query has no index in an ALTER TABLE.
            let names = self
                .conflict
                .iter()
                .map(|column| quoted(column))
                .collect::<Vec<_>>();
            let sql = format!(
                "{}, ADD UNIQUE INDEX {} ({})",
                column.to_string(MysqlQueryBuilder),
                quoted(&self.index_name(KEY)),
                names.join(", ")
            );
            manager.get_connection().execute_unprepared(&sql).await?;
            return Ok(());
        }
        manager.alter_table(column.take()).await?;
        if let Some(mut index) = self.key_index() {
            manager.create_index(index.table(self.table_ref()).take()).await?;
        }
        Ok(())
    }

    /// Undoes [`add_idempotency_key`](Self::add_idempotency_key): the column is gone, with every key in it.
    ///
    /// # Errors
    /// The database's.
    /// # Cancel safety
    /// As [`create`](Self::create).
    pub async fn drop_idempotency_key(&self, manager: &SchemaManager<'_>) -> Result<(), DbErr> {
        let index = self.index_name(KEY);
        let mut column = Table::alter().table(self.table_ref()).drop_column(KEY).take();
        match manager.get_database_backend() {
            // Without the index first, or what is left of it would have to be unique.
            DbBackend::MySql => {
                let sql = format!(
                    "{}, DROP INDEX {}",
                    column.to_string(MysqlQueryBuilder),
                    quoted(&index)
                );
                manager.get_connection().execute_unprepared(&sql).await?;
                return Ok(());
            }
            // It takes no column from under an index; PostgreSQL drops the index with it.
            DbBackend::Sqlite => manager.drop_index(Index::drop().name(index).to_owned()).await?,
            _ => {}
        }
        manager.alter_table(column.take()).await
    }
}

/// A name as MariaDB and MySQL quote it.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
