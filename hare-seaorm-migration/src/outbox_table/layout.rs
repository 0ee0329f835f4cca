//! The columns and indexes of an outbox table.

use sea_orm_migration::prelude::*;

use super::dialect::Dialect;
use super::{KEY, OutboxTable};

/// The longest name PostgreSQL keeps (<https://www.postgresql.org/docs/current/limits.html>, identifier length), in bytes.
pub(super) const NAME_LIMIT: usize = 63;

/// What every outbox table has. Never given as extra columns.
pub(super) const COLUMNS: [&str; 19] = [
    "sequence",
    "id",
    "topic",
    "payload",
    "headers",
    "ordering_key",
    KEY,
    "created_at",
    "attempts",
    "max_attempts",
    "last_error",
    "next_attempt_at",
    "lease_until",
    "leased_by",
    "lease_token",
    "claims",
    "releases_key",
    "published_at",
    "dead_lettered_at",
];

impl OutboxTable {
    /// The table with its schema.
    pub(super) fn table_ref(&self) -> TableRef {
        match &self.schema {
            Some(schema) => (schema.clone(), self.name.clone()).into_table_ref(),
            None => self.name.clone().into_table_ref(),
        }
    }

    pub(super) fn table(&self, dialect: &Dialect) -> TableCreateStatement {
        let mut table = Table::create()
            .table(self.table_ref())
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
            .col(dialect.key(KEY))
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
            .take();
        for column in &self.columns {
            let in_key = self.conflict.contains(&column.get_column_name());
            table.col(if in_key {
                dialect.compared_to_the_letter(column.clone())
            } else {
                column.clone()
            });
        }
        table
    }

    fn index(&self, suffix: &str, columns: &[&str]) -> IndexCreateStatement {
        let mut index = Index::create().name(self.index_name(suffix)).take();
        for column in columns {
            index.col((*column).to_owned());
        }
        index
    }

    /// `billing_outbox_topic`. A name that would be too long has the end of the table's replaced by its hash, or two tables that
    /// begin alike would share it: index names are unique in a schema.
    pub(super) fn index_name(&self, suffix: &str) -> String {
        let whole = format!("{}_{suffix}", self.name);
        if whole.len() <= NAME_LIMIT {
            return whole;
        }
        let end = format!("_{:08x}_{suffix}", fnv1a(&self.name));
        let start = self.name.floor_char_boundary(NAME_LIMIT - end.len());
        format!("{}{end}", &self.name[..start])
    }

    /// The unique key that idempotency keys fall under, if the table has one.
    pub(super) fn key_index(&self) -> Option<IndexCreateStatement> {
        let columns = self.conflict.iter().map(String::as_str).collect::<Vec<_>>();
        (!columns.is_empty()).then(|| self.index(KEY, &columns).unique().take())
    }

    fn common_indexes(&self) -> Vec<IndexCreateStatement> {
        let mut indexes = vec![self.index("id", &["id"]).unique().take()];
        indexes.extend(self.key_index());
        indexes.push(self.index("topic", &["topic", "sequence"]));
        indexes
    }

    /// For databases with partial indexes: the relay's hold only what is still to deliver, however much was delivered.
    pub(super) fn indexes(&self) -> Vec<IndexCreateStatement> {
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

    pub(super) fn plain_indexes(&self) -> Vec<IndexCreateStatement> {
        let mut indexes = self.common_indexes();
        indexes.extend([
            self.index("pending", &["published_at", "dead_lettered_at", "sequence"]),
            self.index("lane", &["ordering_key", "published_at", "sequence"]),
        ]);
        indexes
    }
}

/// FNV-1a of 32 bits (<http://www.isthe.com/chongo/tech/comp/fnv/>): the same in every version of this crate.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv1a(""), 0x811c_9dc5);
        assert_eq!(fnv1a("foobar"), 0xbf9c_f968);
    }

    #[test]
    fn an_index_name_that_fits_is_the_tables_with_its_suffix() {
        assert_eq!(
            OutboxTable::new("hare_outbox").index_name(KEY),
            "hare_outbox_idempotency_key"
        );
        let longest = "t".repeat(NAME_LIMIT - "_idempotency_key".len());
        assert_eq!(
            OutboxTable::new(&longest).index_name(KEY),
            format!("{longest}_idempotency_key")
        );
    }

    #[test]
    fn an_index_name_that_does_not_fit_is_shortened_and_stays_the_tables_own() {
        let one = "an_outbox_of_the_department_of_very_long_names_for_billing";
        let other = "an_outbox_of_the_department_of_very_long_names_for_refunds";
        let name = |table: &str| OutboxTable::new(table).index_name(KEY);
        assert_eq!(
            name(one),
            "an_outbox_of_the_department_of_very_lo_6987f760_idempotency_key"
        );
        assert_eq!(name(one).len(), NAME_LIMIT);
        assert_ne!(name(one), name(other));
        assert_eq!(OutboxTable::new(one).index_name("id"), format!("{one}_id"));
    }

    #[test]
    fn a_name_is_not_cut_inside_a_letter() {
        let name = OutboxTable::new("ä".repeat(30)).index_name(KEY);
        assert!(name.len() <= NAME_LIMIT && name.starts_with("ää"), "{name}");
    }
}
