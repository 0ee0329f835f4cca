//! The parts of a statement that sea-query keeps to itself: its table, its condition, its rows, what it does on a conflict. Pure.
//!
//! They are read from the statement as sea-query renders it, text and parameters apart. Only what stands outside of quotes and
//! brackets is looked at, and a statement in which something unexpected stands there is reported as not understood, never guessed at.

use std::fmt::Write;

use sea_orm::sea_query::{
    DeleteStatement, Expr, InsertStatement, MysqlQueryBuilder, Order, PostgresQueryBuilder, QueryBuilder,
    QueryStatementWriter, SqlWriter, SqliteQueryBuilder, UpdateStatement,
};
use sea_orm::{DbBackend, Statement, Value};

/// Stands in the text where a parameter does. No SQL text holds it: PostgreSQL refuses it everywhere.
const PARAMETER: char = '\u{0}';

/// A rendered statement, or a part of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rendered {
    text: String,
    parameters: Vec<Value>,
}

impl Write for Rendered {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.text.push_str(text);
        Ok(())
    }
}

impl std::fmt::Display for Rendered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl SqlWriter for Rendered {
    fn push_param<T: QueryBuilder>(&mut self, value: Value, _query_builder: &T) {
        self.text.push(PARAMETER);
        self.parameters.push(value);
    }
    fn as_writer(&mut self) -> &mut dyn Write {
        self
    }
}

impl Rendered {
    pub(crate) fn of<S: QueryStatementWriter>(statement: &S, backend: DbBackend) -> Self {
        let mut rendered = Self::default();
        match backend {
            DbBackend::Postgres => {
                statement.build_collect_into(PostgresQueryBuilder, &mut rendered);
            }
            DbBackend::MySql => {
                statement.build_collect_into(MysqlQueryBuilder, &mut rendered);
            }
            _ => {
                statement.build_collect_into(SqliteQueryBuilder, &mut rendered);
            }
        }
        rendered
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// The one parameter that this is, if it is nothing else.
    pub(crate) fn as_value(&self) -> Option<&Value> {
        (self.text.trim().chars().eq([PARAMETER])).then(|| self.parameters.first())?
    }

    /// Whether this is the SQL word `NULL`, or a parameter that is.
    pub(crate) fn is_null(&self) -> bool {
        self.text.trim().eq_ignore_ascii_case("null")
            || self.as_value().is_some_and(|value| *value == value.as_null())
    }

    /// An `ORDER BY` as the expression and the order of another; `None` if it has parameters.
    pub(crate) fn as_order(&self) -> Option<(Expr, Order)> {
        let text = self.text.trim().strip_prefix("ORDER BY ")?;
        if !self.parameters.is_empty() {
            return None;
        }
        // The order of the last of several expressions; those of the others are in the text.
        let (text, order) = match text.strip_suffix(" DESC") {
            Some(text) => (text, Order::Desc),
            None => (text.strip_suffix(" ASC")?, Order::Asc),
        };
        Some((Expr::cust(text.to_owned()), order))
    }

    /// As an expression of another statement.
    pub(crate) fn into_expr(self, backend: DbBackend) -> Expr {
        let text = self.with_placeholders(backend);
        if self.parameters.is_empty() {
            return Expr::cust(text);
        }
        Expr::cust_with_values(text, self.parameters)
    }

    /// As a statement of its own.
    pub(crate) fn into_statement(self, backend: DbBackend) -> Statement {
        Statement::from_sql_and_values(backend, self.with_placeholders(backend), self.parameters)
    }

    fn with_placeholders(&self, backend: DbBackend) -> String {
        let mut text = String::with_capacity(self.text.len());
        let mut number = 0;
        for letter in self.text.chars() {
            if letter != PARAMETER {
                text.push(letter);
            } else if backend == DbBackend::Postgres {
                number += 1;
                text.push_str(&format!("${number}"));
            } else {
                text.push('?');
            }
        }
        text
    }

    /// This, followed by more text.
    pub(crate) fn followed_by(mut self, more: Self) -> Self {
        self.text.push_str(&more.text);
        self.parameters.extend(more.parameters);
        self
    }

    /// In brackets, so that it can stand beside other conditions.
    pub(crate) fn in_brackets(mut self) -> Self {
        self.text.insert(0, '(');
        self.text.push(')');
        self
    }

    pub(crate) fn from_text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            parameters: Vec::new(),
        }
    }

    fn trimmed(mut self) -> Self {
        self.text.truncate(self.text.trim_end().len());
        self
    }

    /// What follows `head`, which both begin with.
    fn after(&self, head: &Self) -> Option<Self> {
        let text = self.text.strip_prefix(&head.text)?;
        let parameters = self.parameters.get(head.parameters.len()..)?;
        Some(Self {
            text: text.to_owned(),
            parameters: parameters.to_vec(),
        })
    }

    /// Parts it at a byte of its text.
    fn split(&self, at: usize) -> (Self, Self) {
        let (before, after) = self.text.split_at(at);
        let parameters = before.matches(PARAMETER).count();
        let (first, second) = self.parameters.split_at(parameters.min(self.parameters.len()));
        let part = |text: &str, parameters: &[Value]| Self {
            text: text.to_owned(),
            parameters: parameters.to_vec(),
        };
        (part(before, first), part(after, second))
    }

    /// Parts it where one of these words begins, outside of quotes and brackets; the first one that is found counts.
    fn split_at_word(&self, words: &[&str]) -> (Self, Self) {
        let found = outside(&self.text).find(|(at, _)| {
            let rest = &self.text[*at..];
            let starts_here = *at == 0 || self.text[..*at].ends_with([' ', ')', '"', '`', PARAMETER]);
            starts_here && words.iter().any(|word| starts_with_word(rest, word))
        });
        self.split(found.map_or(self.text.len(), |(at, _)| at))
    }

    /// Parts it at every comma outside of quotes and brackets.
    fn split_at_commas(self) -> Vec<Self> {
        let mut commas = outside(&self.text)
            .filter(|(_, letter)| *letter == ',')
            .map(|(at, _)| at)
            .collect::<Vec<_>>()
            .into_iter();
        let mut parameters = self.parameters.into_iter();
        let mut parts = vec![Self::default()];
        let mut comma = commas.next();
        for (at, letter) in self.text.char_indices() {
            if comma == Some(at) {
                comma = commas.next();
                parts.push(Self::default());
            } else if let Some(part) = parts.last_mut() {
                part.text.push(letter);
                if letter == PARAMETER {
                    part.parameters.extend(parameters.next());
                }
            }
        }
        parts
    }

    /// What is inside the brackets that this is.
    fn inside_brackets(self) -> Option<Self> {
        let text = self.text.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(Self {
            text: text.to_owned(),
            parameters: self.parameters,
        })
    }
}

fn starts_with_word(text: &str, word: &str) -> bool {
    text.get(..word.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(word))
        && !text[word.len()..].starts_with(|next: char| next.is_alphanumeric() || next == '_')
}

/// The letters that stand outside of quotes and brackets, with their places. A bracket itself counts as outside.
fn outside(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    let mut depth = 0_usize;
    text.char_indices().filter(move |(_, letter)| {
        if let Some(open) = quote {
            if *letter == open {
                quote = None;
            }
            return false;
        }
        match letter {
            '\'' | '"' | '`' => {
                quote = Some(*letter);
                depth == 0
            }
            '(' => {
                depth += 1;
                depth == 1
            }
            ')' => {
                depth = depth.saturating_sub(1);
                depth == 0
            }
            _ => depth == 0,
        }
    })
}

/// A quoted name at the start of a text, without its quotes, and what follows.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '`'))?;
    let mut name = String::new();
    let mut rest = &text[1..];
    loop {
        let end = rest.find(quote)?;
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        // A doubled quote is one of the name's.
        match rest.strip_prefix(quote) {
            Some(after) => {
                name.push(quote);
                rest = after;
            }
            None => return Some((name, rest)),
        }
    }
}

/// Which rows an UPDATE or a DELETE aims at.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Aim {
    /// Its condition; `None` is every row.
    pub(crate) condition: Option<Rendered>,
    /// ` ORDER BY ...`, on MySQL.
    pub(crate) order: Option<Rendered>,
    /// ` LIMIT ...`, on MySQL.
    pub(crate) limit: Option<Rendered>,
}

impl Aim {
    /// `None` if the statement has parts beside its table, its assignments and which rows it aims at: a `FROM`, a join, a `WITH`.
    pub(crate) fn of_update(
        statement: &UpdateStatement,
        bare: &UpdateStatement,
        backend: DbBackend,
    ) -> Option<Self> {
        Self::of(&Rendered::of(statement, backend), &Rendered::of(bare, backend))
    }

    /// As [`of_update`](Self::of_update).
    pub(crate) fn of_delete(
        statement: &DeleteStatement,
        bare: &DeleteStatement,
        backend: DbBackend,
    ) -> Option<Self> {
        Self::of(&Rendered::of(statement, backend), &Rendered::of(bare, backend))
    }

    fn of(whole: &Rendered, head: &Rendered) -> Option<Self> {
        let tail = whole.after(head)?;
        let (aim, _returning) = tail.split_at_word(&["RETURNING"]);
        let (aim, limit) = aim.split_at_word(&["LIMIT"]);
        let (aim, order) = aim.split_at_word(&["ORDER BY"]);
        let part = |part: Rendered| (!part.is_empty()).then_some(part);
        let condition = match part(aim) {
            None => None,
            Some(aim) => Some(aim.after(&Rendered::from_text(" WHERE "))?.trimmed()),
        };
        Some(Self {
            condition,
            order: part(order),
            limit: part(limit),
        })
    }
}

/// What an INSERT writes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Inserted {
    /// The names of the columns that it gives.
    pub(crate) columns: Vec<String>,
    /// Its rows, each with a value per column; `None` where they come from a SELECT, or all columns have their defaults.
    pub(crate) rows: Option<Vec<Vec<Rendered>>>,
    /// What it does with rows that are there already.
    pub(crate) conflict: Conflict,
    /// The SELECT that its rows come from, if they do.
    pub(crate) select: Option<Rendered>,
}

/// What an INSERT does with rows that are there already.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Conflict {
    /// It fails.
    Fails,
    /// They stay as they are.
    Skips,
    /// They are updated.
    Updates(Vec<Assignment>),
}

/// What a column of a row that is there already becomes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Assignment {
    pub(crate) column: String,
    pub(crate) expr: Rendered,
}

impl Inserted {
    /// `None` if it is not understood.
    pub(crate) fn of(statement: &InsertStatement, backend: DbBackend) -> Option<Self> {
        let whole = Rendered::of(statement, backend);
        let (whole, _returning) = whole.split_at_word(&["RETURNING"]);
        let (insert, on_conflict) = whole.split_at_word(&["ON CONFLICT", "ON DUPLICATE KEY"]);
        let conflict = conflict_of(&on_conflict)?;
        let (head, source) = insert.split_at_word(&["VALUES", "SELECT", "DEFAULT VALUES"]);
        let columns = column_names(&head.text)?;
        let is_select = starts_with_word(&source.text, "SELECT");
        let rows = match source.after(&Rendered::from_text("VALUES ")) {
            // `VALUES ()`, or `DEFAULT VALUES`: no column is given.
            _ if columns.is_empty() || is_select => None,
            Some(values) => Some(rows_of(values)?),
            None => return None,
        };
        let is_whole = |row: &Vec<Rendered>| row.len() == columns.len();
        rows.iter().flatten().all(is_whole).then_some(Self {
            select: is_select.then_some(source),
            columns,
            rows,
            conflict,
        })
    }

    /// Whether it may update rows that are there already.
    pub(crate) fn may_update(&self) -> bool {
        matches!(self.conflict, Conflict::Updates(_))
    }

    /// The place of a column among those that it gives.
    pub(crate) fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|given| given == column)
    }
}

fn rows_of(source: Rendered) -> Option<Vec<Vec<Rendered>>> {
    let rows = source.split_at_commas().into_iter();
    rows.map(|row| row.inside_brackets().map(Rendered::split_at_commas))
        .collect()
}

/// The names in the brackets after the table's name. None are `()` or nothing at all.
fn column_names(head: &str) -> Option<Vec<String>> {
    let Some((open, _)) = outside(head).find(|(_, letter)| *letter == '(') else {
        return Some(Vec::new());
    };
    let mut rest = head[open + 1..].trim_start();
    let mut names = Vec::new();
    while !rest.starts_with(')') {
        let (name, after) = quoted_name(rest)?;
        names.push(name);
        rest = after.trim_start_matches([',', ' ']);
    }
    Some(names)
}

fn conflict_of(on_conflict: &Rendered) -> Option<Conflict> {
    if on_conflict.is_empty() {
        return Some(Conflict::Fails);
    }
    let (_, nothing) = on_conflict.split_at_word(&["DO NOTHING"]);
    if !nothing.is_empty() {
        return Some(Conflict::Skips);
    }
    let (_, update) = on_conflict.split_at_word(&["DO UPDATE SET ", "UPDATE "]);
    let assignments = ["DO UPDATE SET ", "UPDATE "]
        .iter()
        .find_map(|words| update.after(&Rendered::from_text(*words)))?;
    let (assignments, _condition) = assignments.split_at_word(&["WHERE"]);
    let assignments = assignments
        .split_at_commas()
        .into_iter()
        .map(Assignment::of)
        .collect::<Option<Vec<_>>>()?;
    // How SeaORM says on MySQL that nothing shall be done.
    let skips = assignments.iter().all(Assignment::changes_nothing);
    Some(if skips {
        Conflict::Skips
    } else {
        Conflict::Updates(assignments)
    })
}

impl Assignment {
    fn of(rendered: Rendered) -> Option<Self> {
        let (column, rest) = quoted_name(&rendered.text)?;
        let head = rendered.text.len() - rest.strip_prefix(" = ")?.len();
        Some(Self {
            column,
            expr: rendered.split(head).1,
        })
    }

    fn changes_nothing(&self) -> bool {
        quoted_name(&self.expr.text).is_some_and(|(name, rest)| name == self.column && rest.trim().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use sea_orm::sea_query::{ExprTrait, OnConflict, Query};

    use super::*;

    const BACKENDS: [DbBackend; 3] = [DbBackend::Postgres, DbBackend::MySql, DbBackend::Sqlite];

    fn bare() -> UpdateStatement {
        Query::update()
            .table("t")
            .value("a", Expr::cust_with_values("a || ?", ["WHERE"]))
            .take()
    }

    #[test]
    fn the_condition_of_an_update_is_read_with_its_values() {
        for backend in [DbBackend::MySql, DbBackend::Sqlite] {
            let mut update = bare();
            update
                .and_where(Expr::col(("t", "b")).eq("x ORDER BY"))
                .and_where(
                    Expr::col("c").in_subquery(
                        Query::select()
                            .column("c")
                            .from("u")
                            .and_where(Expr::col("d").gt(7))
                            .limit(1)
                            .take(),
                    ),
                );
            let aim = Aim::of_update(&update, &bare(), backend).unwrap();
            let condition = aim.condition.clone().unwrap();
            let values = &condition.parameters;
            assert_eq!(values[..2], [Value::from("x ORDER BY"), Value::from(7)]);
            assert_eq!((aim.order, aim.limit), (None, None));

            // Into another statement it goes as it came out.
            let select = Query::select()
                .column("id")
                .from("t")
                .and_where(condition.clone().into_expr(backend))
                .take();
            let rendered = Rendered::of(&select, backend);
            let (_, again) = rendered.split_at_word(&["WHERE"]);
            assert_eq!(again.after(&Rendered::from_text("WHERE ")).unwrap(), condition);
        }
    }

    #[test]
    fn order_and_limit_of_mysql_are_told_from_the_condition() {
        let mut update = bare();
        update
            .and_where(Expr::col("b").eq(1))
            .order_by("b", Order::Desc)
            .limit(3);
        let aim = Aim::of_update(&update, &bare(), DbBackend::MySql).unwrap();
        assert_eq!(aim.condition.unwrap().text, "`b` = \u{0}");
        assert_eq!(aim.order.unwrap().text.trim(), "ORDER BY `b` DESC");
        assert_eq!(aim.limit.unwrap().parameters, [Value::from(3_u64)]);

        let mut every = bare();
        every.limit(2);
        let aim = Aim::of_update(&every, &bare(), DbBackend::MySql).unwrap();
        assert_eq!(aim.condition, None);
        assert!(aim.limit.is_some());
    }

    #[test]
    fn an_update_with_a_from_is_not_understood() {
        for backend in BACKENDS {
            let mut update = bare();
            update
                .from("u")
                .and_where(Expr::col(("u", "id")).equals(("t", "id")));
            assert_eq!(Aim::of_update(&update, &bare(), backend), None);
        }
    }

    #[test]
    fn a_delete_of_everything_aims_at_everything() {
        for backend in BACKENDS {
            let delete = Query::delete().from_table("t").take();
            let mut returning = delete.clone();
            returning.returning_all();
            assert_eq!(Aim::of_delete(&returning, &delete, backend), Some(Aim::default()));
        }
    }

    fn insert() -> InsertStatement {
        Query::insert()
            .into_table("t")
            .columns(["a,(", "b"])
            .values_panic([Expr::val(1), Expr::val("x), (")])
            .values_panic([Expr::val(2), Expr::cust("coalesce(null, ',)')")])
            .take()
    }

    #[test]
    fn the_rows_of_an_insert_are_read() {
        for backend in BACKENDS {
            let inserted = Inserted::of(&insert(), backend).unwrap();
            assert_eq!(inserted.columns, ["a,(", "b"]);
            assert_eq!(inserted.conflict, Conflict::Fails);
            let rows = inserted.rows.unwrap();
            assert_eq!(rows.len(), 2);
            assert_eq!(rows[0][1].as_value(), Some(&Value::from("x), (")));
            assert_eq!(rows[1][0].as_value(), Some(&Value::from(2)));
            assert_eq!(rows[1][1].text.trim(), "coalesce(null, ',)')");
        }
    }

    #[test]
    fn an_insert_of_defaults_has_no_rows_to_read() {
        for backend in BACKENDS {
            let defaults = Query::insert().into_table("t").or_default_values().take();
            let inserted = Inserted::of(&defaults, backend).unwrap();
            assert_eq!((inserted.columns, inserted.rows), (Vec::new(), None));
            let select = Query::select().column("a").column("b").from("u").take();
            let from_select = Query::insert()
                .into_table("t")
                .columns(["a", "b"])
                .select_from(select)
                .unwrap()
                .take();
            let inserted = Inserted::of(&from_select, backend).unwrap();
            assert_eq!((inserted.columns.len(), inserted.rows), (2, None));
        }
    }

    #[test]
    fn what_happens_on_a_conflict_is_read() {
        for backend in BACKENDS {
            let with = |on_conflict: &mut OnConflict| {
                let mut statement = insert();
                statement.on_conflict(on_conflict.to_owned()).returning_all();
                Inserted::of(&statement, backend).unwrap()
            };
            let updates = with(
                OnConflict::column("a,(")
                    .update_columns(["b", "c"])
                    .value("d", Expr::val("x, y")),
            );
            let Conflict::Updates(assignments) = &updates.conflict else {
                panic!("{updates:?}");
            };
            let columns: Vec<_> = assignments
                .iter()
                .map(|assignment| assignment.column.as_str())
                .collect();
            assert_eq!(columns, ["b", "c", "d"]);
            assert_eq!(assignments[2].expr.as_value(), Some(&Value::from("x, y")));
            assert_eq!(updates.rows.unwrap().len(), 2);
            let skips = with(OnConflict::column("a,(").do_nothing_on(["a,(", "b"]));
            assert_eq!(skips.conflict, Conflict::Skips);
        }
    }
}
