//! What is wrong with a table as it was described, told before anything is done.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::DbBackend;

use super::layout::{COLUMNS, NAME_LIMIT};
use super::{KEY, OutboxTable};

impl OutboxTable {
    pub(super) fn check_create(&self, backend: DbBackend) -> Result<(), DbErr> {
        let mut problems = self.problems_of_names(backend);
        problems.extend(self.problems_of_columns());
        problems.extend(self.problems_of_conflict());
        self.refuse(problems)
    }

    pub(super) fn check_add_key(&self, backend: DbBackend) -> Result<(), DbErr> {
        let mut problems = self.problems_of_names(backend);
        if !self.conflict.iter().any(|column| column == KEY) {
            problems.push(format!("`conflict` does not name `{KEY}`, which is to be added"));
        }
        self.refuse(problems)
    }

    /// All of them in one error.
    fn refuse(&self, problems: Vec<String>) -> Result<(), DbErr> {
        if problems.is_empty() {
            return Ok(());
        }
        Err(DbErr::Migration(format!(
            "outbox table `{}`: {}",
            self.name,
            problems.join("; ")
        )))
    }

    fn problems_of_names(&self, backend: DbBackend) -> Vec<String> {
        let mut problems = Vec::new();
        for (what, name) in [("name", Some(&self.name)), ("schema", self.schema.as_ref())] {
            let Some(name) = name else { continue };
            if name.is_empty() {
                problems.push(format!("its {what} is empty"));
            } else if name.len() > NAME_LIMIT {
                problems.push(format!(
                    "its {what} has {} bytes, and at most {NAME_LIMIT} are kept",
                    name.len()
                ));
            }
        }
        if backend == DbBackend::Sqlite && self.schema.is_some() {
            problems.push("SQLite has no schemas: leave `schema` out there".to_owned());
        }
        problems
    }

    fn problems_of_columns(&self) -> Vec<String> {
        let mut problems = Vec::new();
        // Without regard to case, as MariaDB, MySQL and SQLite compare them.
        let names = self.column_names().map(|name| name.to_ascii_lowercase());
        let names = names.collect::<Vec<_>>();
        for (position, (column, name)) in self.columns.iter().zip(&names).enumerate() {
            if COLUMNS.contains(&name.as_str()) {
                problems.push(format!(
                    "every outbox has a column `{name}`, it is not an extra one"
                ));
            }
            if names[..position].contains(name) {
                problems.push(format!("the column `{name}` is given twice"));
            }
            let spec = column.get_column_spec();
            if spec.primary_key || spec.auto_increment {
                problems.push(format!("`{name}` cannot be the primary key, which is `sequence`"));
            }
        }
        problems
    }

    fn problems_of_conflict(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (position, name) in self.conflict.iter().enumerate() {
            if self.conflict[..position].contains(name) {
                problems.push(format!("`conflict` names `{name}` twice"));
            }
            if name == KEY {
                continue;
            }
            match self.columns.iter().find(|column| column.get_column_name() == *name) {
                None => problems.push(format!("`conflict` names `{name}`, which is not one of its extra columns")),
                Some(column) if column.get_column_spec().nullable != Some(false) => problems.push(format!(
                    "`conflict` names `{name}`, which may be NULL: no two NULLs are equal, so beside them a key could be used twice"
                )),
                Some(_) => {}
            }
        }
        if !self.conflict.is_empty() && !self.conflict.iter().any(|column| column == KEY) {
            problems.push(format!(
                "`conflict` says what idempotency keys are unique by: add `{KEY}`, or name no column for a table without such keys"
            ));
        }
        problems
    }

    fn column_names(&self) -> impl Iterator<Item = String> {
        self.columns.iter().map(ColumnDef::get_column_name)
    }
}
