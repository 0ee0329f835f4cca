//! How each database writes the types that differ.
//!
//! MariaDB and MySQL compare text without regard to case and trailing spaces by default, which would make `Order-1` and
//! `order-1 ` one idempotency key: text keys and topics get a binary collation that does not pad. Their `JSON` type rounds
//! large integers, so JSON is kept as `LONGTEXT` there. They have no partial index, so plain ones stand in.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{DbBackend, Statement};

/// The types of one database.
pub(super) struct Dialect {
    pub(super) backend: DbBackend,
    /// The character set and collation of text that is compared to the letter; nothing where that is how text is compared.
    to_the_letter: &'static str,
    json: &'static str,
    time: &'static str,
    /// The database's clock.
    pub(super) now: &'static str,
}

impl Dialect {
    pub(super) async fn of(manager: &SchemaManager<'_>) -> Result<Self, DbErr> {
        let backend = manager.get_database_backend();
        Ok(match backend {
            DbBackend::Postgres => Self {
                backend,
                to_the_letter: "",
                json: "json",
                time: "timestamp with time zone",
                now: "clock_timestamp()",
            },
            DbBackend::MySql => Self {
                backend,
                to_the_letter: if is_mariadb(manager).await? {
                    " CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
                } else {
                    " CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin"
                },
                json: "longtext CHARACTER SET utf8mb4",
                time: "datetime(6)",
                now: "UTC_TIMESTAMP(6)",
            },
            // SQLite compares times as text: always six digits, whatever the clock gives.
            _ => Self {
                backend,
                to_the_letter: "",
                json: "json_text",
                time: "timestamp_with_timezone_text",
                now: "strftime('%Y-%m-%d %H:%M:%f000+00:00', 'now')",
            },
        })
    }

    pub(super) fn has_partial_indexes(&self) -> bool {
        self.backend != DbBackend::MySql
    }

    /// A topic or a key: at most 255 characters, compared to the letter.
    pub(super) fn key(&self, name: &'static str) -> ColumnDef {
        let varchar = format!("varchar(255){}", self.to_the_letter);
        ColumnDef::new(name).custom(varchar).take()
    }

    pub(super) fn json(&self, name: &'static str) -> ColumnDef {
        ColumnDef::new(name).custom(self.json).not_null().take()
    }

    pub(super) fn time(&self, name: &'static str) -> ColumnDef {
        ColumnDef::new(name).custom(self.time).take()
    }

    /// An extra column of the unique key: text in it is compared to the letter, as the key beside it is.
    pub(super) fn compared_to_the_letter(&self, mut column: ColumnDef) -> ColumnDef {
        let varchar = match column.get_column_type() {
            _ if self.to_the_letter.is_empty() => return column,
            Some(ColumnType::String(StringLen::N(length))) => format!("varchar({length})"),
            Some(ColumnType::String(StringLen::None)) => "varchar(255)".to_owned(),
            Some(ColumnType::Char(length)) => format!("char({})", length.unwrap_or(1)),
            _ => return column,
        };
        column.custom(format!("{varchar}{}", self.to_the_letter)).take()
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
