//! The identifiers of an outbox table. Nothing else makes any.

use sea_orm::sea_query::{Alias, Asterisk, Expr, Query, SelectStatement};
use sea_orm::{ColumnTrait, DbBackend, IdenStatic, Iterable};

use super::sql::Fragment;
use crate::outbox::OutboxEntity;

/// The quoted name of an outbox table and the list of its columns, for one backend.
#[derive(Debug, Clone)]
pub(crate) struct TableNames {
    pub(crate) backend: DbBackend,
    pub(crate) table: Fragment,
    columns: fn(DbBackend, Option<&str>) -> String,
}

impl TableNames {
    pub(crate) fn of<E: OutboxEntity>(backend: DbBackend) -> Self {
        let table = rendered(
            backend,
            Query::select().column(Asterisk).from(E::default().table_ref()),
        );
        let table = table.strip_prefix("SELECT * FROM ").unwrap_or(&table).to_owned();
        Self {
            backend,
            table: Fragment::text(table),
            columns: columns::<E>,
        }
    }

    /// Every column of the entity under its own name, as SeaORM reads it (enumerations as text on PostgreSQL).
    pub(crate) fn columns(&self, of: Option<&str>) -> Fragment {
        Fragment::text((self.columns)(self.backend, of))
    }
}

fn columns<E: OutboxEntity>(backend: DbBackend, of: Option<&str>) -> String {
    let mut select = Query::select();
    for column in E::Column::iter() {
        let expr = match of {
            Some(of) => Expr::col((Alias::new(of), column)),
            None => Expr::col(column),
        };
        select.expr_as(column.select_as(expr), Alias::new(column.as_str()));
    }
    let text = rendered(backend, &select);
    text.strip_prefix("SELECT ").unwrap_or(&text).to_owned()
}

/// The text of a query without values.
fn rendered(backend: DbBackend, query: &SelectStatement) -> String {
    backend.build(query).sql
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox;

    #[test]
    fn names_are_quoted_for_the_backend() {
        let names = TableNames::of::<outbox::Entity>(DbBackend::Postgres);
        assert_eq!(names.table, Fragment::text(r#""hare_outbox""#));
        let names = TableNames::of::<outbox::Entity>(DbBackend::MySql);
        assert_eq!(names.table, Fragment::text("`hare_outbox`"));
    }
}
