//! The columns, types and indexes of an outbox table on each backend.
//!
//! MariaDB and MySQL compare text without regard to case and trailing spaces by default, which would make `Order-1` and
//! `order-1 ` one idempotency key: text keys and topics get a binary collation that does not pad. Their `JSON` type rounds
//! large integers, so JSON is kept as `LONGTEXT` there. They have no partial index, so plain ones stand in.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{DbBackend, Statement};

/// An outbox table by its name.
pub(crate) struct OutboxTable {
    name: &'static str,
}

/// How one database writes the types that differ.
struct Dialect {
    backend: DbBackend,
    /// A topic or a key: at most 255 characters, compared to the letter.
    key: &'static str,
    json: &'static str,
    time: &'static str,
    /// The database's clock.
    now: &'static str,
}

impl Dialect {
    async fn of(manager: &SchemaManager<'_>) -> Result<Self, DbErr> {
        let backend = manager.get_database_backend();
        Ok(match backend {
            DbBackend::Postgres => Self {
                backend,
                key: "varchar(255)",
                json: "json",
                time: "timestamp with time zone",
                now: "clock_timestamp()",
            },
            DbBackend::MySql => Self {
                backend,
                key: if is_mariadb(manager).await? {
                    "varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
                } else {
                    "varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin"
                },
                json: "longtext CHARACTER SET utf8mb4",
                time: "datetime(6)",
                now: "UTC_TIMESTAMP(6)",
            },
            // SQLite compares times as text: always six digits, whatever the clock gives.
            _ => Self {
                backend,
                key: "varchar(255)",
                json: "json_text",
                time: "timestamp_with_timezone_text",
                now: "strftime('%Y-%m-%d %H:%M:%f000+00:00', 'now')",
            },
        })
    }

    fn has_partial_indexes(&self) -> bool {
        self.backend != DbBackend::MySql
    }

    fn key(&self, name: &'static str) -> ColumnDef {
        ColumnDef::new(name).custom(self.key).take()
    }

    fn json(&self, name: &'static str) -> ColumnDef {
        ColumnDef::new(name).custom(self.json).not_null().take()
    }

    fn time(&self, name: &'static str) -> ColumnDef {
        ColumnDef::new(name).custom(self.time).take()
    }
}

async fn is_mariadb(manager: &SchemaManager<'_>) -> Result<bool, DbErr> {
    let version = Statement::from_string(DbBackend::MySql, "SELECT VERSION()");
    let row = manager.get_connection().query_one_raw(version).await?;
    Ok(match row {
        Some(row) => row.try_get_by_index::<String>(0)?.contains("MariaDB"),
        None => false,
    })
}

impl OutboxTable {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name }
    }

    pub(crate) async fn create(&self, manager: &SchemaManager<'_>) -> Result<(), DbErr> {
        let dialect = Dialect::of(manager).await?;
        let mut table = self.table(&dialect);
        if dialect.has_partial_indexes() {
            manager.create_table(table).await?;
            for mut index in self.indexes() {
                manager.create_index(index.table(self.name).take()).await?;
            }
        } else {
            for mut index in self.plain_indexes() {
                table.index(&mut index);
            }
            manager.create_table(table).await?;
        }
        Ok(())
    }

    pub(crate) async fn drop(&self, manager: &SchemaManager<'_>) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table(self.name).take()).await
    }

    fn table(&self, dialect: &Dialect) -> TableCreateStatement {
        Table::create()
            .table(self.name)
            // AUTOINCREMENT on SQLite, so that a cleaned-up sequence is never given out again.
            .col(
                ColumnDef::new("sequence")
                    .big_integer()
                    .not_null()
                    .auto_increment()
                    .primary_key(),
            )
            .col(ColumnDef::new("id").uuid().not_null())
            .col(dialect.key("topic").not_null())
            .col(dialect.json("payload"))
            .col(dialect.json("headers"))
            .col(dialect.key("ordering_key"))
            .col(dialect.key("idempotency_key"))
            .col(
                dialect
                    .time("created_at")
                    .not_null()
                    .default(Expr::cust(format!("({})", dialect.now))),
            )
            .col(ColumnDef::new("attempts").integer().not_null().default(0))
            .col(ColumnDef::new("max_attempts").integer())
            .col(ColumnDef::new("last_error").text())
            .col(dialect.time("next_attempt_at"))
            .col(dialect.time("lease_until"))
            .col(ColumnDef::new("leased_by").string_len(255))
            .col(ColumnDef::new("lease_token").uuid())
            .col(ColumnDef::new("claims").integer().not_null().default(0))
            .col(ColumnDef::new("releases_key").boolean().not_null().default(false))
            .col(dialect.time("published_at"))
            .col(dialect.time("dead_lettered_at"))
            .take()
    }

    fn index(&self, suffix: &str, columns: &[&'static str]) -> IndexCreateStatement {
        let mut index = Index::create().name(format!("{}_{suffix}", self.name)).take();
        for column in columns {
            index.col(*column);
        }
        index
    }

    fn common_indexes(&self) -> Vec<IndexCreateStatement> {
        vec![
            self.index("id", &["id"]).unique().take(),
            self.index("idempotency_key", &["idempotency_key"])
                .unique()
                .take(),
            self.index("topic", &["topic", "sequence"]),
        ]
    }

    /// For databases with partial indexes: the relay's hold only what is still to deliver, however much was delivered.
    fn indexes(&self) -> Vec<IndexCreateStatement> {
        let unpublished = || Expr::col("published_at").is_null();
        let mut indexes = self.common_indexes();
        indexes.extend([
            self.index("pending", &["sequence"])
                .and_where(unpublished())
                .and_where(Expr::col("dead_lettered_at").is_null())
                .take(),
            // Dead letters included: they hold back their key.
            self.index("lane", &["ordering_key", "sequence"])
                .and_where(unpublished())
                .take(),
            self.index("published", &["published_at"])
                .and_where(Expr::col("published_at").is_not_null())
                .take(),
            self.index("dead", &["dead_lettered_at"])
                .and_where(Expr::col("dead_lettered_at").is_not_null())
                .take(),
        ]);
        indexes
    }

    fn plain_indexes(&self) -> Vec<IndexCreateStatement> {
        let mut indexes = self.common_indexes();
        indexes.extend([
            self.index("pending", &["published_at", "dead_lettered_at", "sequence"]),
            self.index("lane", &["ordering_key", "published_at", "sequence"]),
        ]);
        indexes
    }
}
