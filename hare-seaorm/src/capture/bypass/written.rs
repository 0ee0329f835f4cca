//! The tables that a statement's text says it writes; pure.
//!
//! Not a parser of SQL: it reads the head of a statement, where each database names what it writes, and passes over the rest. What it
//! does not know it takes for a statement that writes nothing.

use sea_orm::DbBackend;

use super::BypassKind;
use super::tokens::{Token, Tokens};
use crate::capture::declaration::Operations;

/// A table that a statement writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WrittenTable {
    pub(super) schema: Option<String>,
    pub(super) table: String,
    pub(super) kind: BypassKind,
    /// What it may do to rows: an upsert also updates.
    pub(super) operations: Operations,
}

const INSERT: Operations = Operations {
    insert: true,
    update: false,
    delete: false,
};
const UPDATE: Operations = Operations {
    insert: false,
    update: true,
    delete: false,
};
const DELETE: Operations = Operations {
    insert: false,
    update: false,
    delete: true,
};

/// Every table that the text writes, in its order.
pub(super) fn written_tables(sql: &str, backend: DbBackend) -> Vec<WrittenTable> {
    let tokens: Vec<Token<'_>> = Tokens::of(sql, backend).collect();
    // What a trigger or a procedure does is not done when it is made.
    if Reader::new(&tokens, backend).word_is_any(&["create", "alter", "drop", "do", "prepare", "declare"]) {
        return Vec::new();
    }
    let statements = tokens.split(|token| *token == Token::Mark(';'));
    statements
        .flat_map(|tokens| Reader::new(tokens, backend).statement())
        .collect()
}

/// A name as it was written, its parts apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Name(Vec<String>);

impl Name {
    fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }
}

/// A table in a list of tables, with the name it goes by there.
#[derive(Debug, Clone)]
struct TableRef {
    name: Name,
    alias: Option<String>,
}

impl TableRef {
    /// Whether `name` means this one.
    fn is_meant_by(&self, name: &Name) -> bool {
        match &self.alias {
            Some(alias) => name.0.len() == 1 && alias.eq_ignore_ascii_case(name.last()),
            None => {
                let mut parts = self.name.0.iter().rev().zip(name.0.iter().rev());
                parts.all(|(own, other)| own.eq_ignore_ascii_case(other))
            }
        }
    }
}

/// Reads a statement from its beginning.
#[derive(Debug, Clone)]
struct Reader<'t, 'a> {
    tokens: &'t [Token<'a>],
    backend: DbBackend,
}

impl<'t, 'a> Reader<'t, 'a> {
    fn new(tokens: &'t [Token<'a>], backend: DbBackend) -> Self {
        Self { tokens, backend }
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.first().copied()
    }

    fn skip(&mut self) {
        self.tokens = self.tokens.get(1..).unwrap_or_default();
    }

    fn word_is(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(next)) if next.eq_ignore_ascii_case(word))
    }

    fn word_is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.word_is(word))
    }

    /// Takes this word, if it is next.
    fn take(&mut self, word: &str) -> bool {
        let is_next = self.word_is(word);
        if is_next {
            self.skip();
        }
        is_next
    }

    fn take_mark(&mut self, mark: char) -> bool {
        let is_next = self.peek() == Some(Token::Mark(mark));
        if is_next {
            self.skip();
        }
        is_next
    }

    /// Takes as many of these words as there are.
    fn take_all(&mut self, words: &[&str]) {
        while self.word_is_any(words) {
            self.skip();
        }
    }

    /// Moves on to the first of these words that is in no parentheses. To the end, if there is none.
    fn find(&mut self, words: &[&str]) -> bool {
        let mut depth = 0_usize;
        while let Some(token) = self.peek() {
            match token {
                Token::Mark('(') => depth += 1,
                Token::Mark(')') => depth = depth.saturating_sub(1),
                _ if depth == 0 && self.word_is_any(words) => return true,
                _ => {}
            }
            self.skip();
        }
        false
    }

    /// What is before the first of these words that is in no parentheses, and moves on to it.
    fn before(&mut self, words: &[&str]) -> Reader<'t, 'a> {
        let all = self.tokens;
        self.find(words);
        Reader::new(&all[..all.len() - self.tokens.len()], self.backend)
    }

    /// What is between the parentheses that are next.
    fn parenthesised(&mut self) -> Option<Reader<'t, 'a>> {
        if !self.take_mark('(') {
            return None;
        }
        let inner = self.tokens;
        let mut depth = 1_usize;
        while let Some(token) = self.peek() {
            match token {
                Token::Mark('(') => depth += 1,
                Token::Mark(')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let length = inner.len() - self.tokens.len();
                self.skip();
                return Some(Reader::new(&inner[..length], self.backend));
            }
            self.skip();
        }
        Some(Reader::new(inner, self.backend))
    }

    /// A name without quotes is of lower case on PostgreSQL.
    fn identifier(&mut self) -> Option<String> {
        let identifier = match self.peek()? {
            Token::Word(word) if self.backend == DbBackend::Postgres => word.to_lowercase(),
            Token::Word(word) => word.to_owned(),
            Token::Quoted(text, '[') => text.to_owned(),
            Token::Quoted(text, quote) => text.replace(&format!("{quote}{quote}"), &quote.to_string()),
            Token::Literal | Token::Mark(_) => return None,
        };
        self.skip();
        Some(identifier)
    }

    /// `a`, `b.a`, `c.b.a`, and `a.*` of a DELETE of several tables.
    fn name(&mut self) -> Option<Name> {
        let mut name = Name(vec![self.identifier()?]);
        while self.take_mark('.') {
            if self.take_mark('*') {
                break;
            }
            name.0.push(self.identifier()?);
        }
        Some(name)
    }

    /// `ONLY a *`, `ONLY (a)`: PostgreSQL's, with or without its heirs.
    fn table(&mut self) -> Option<Name> {
        let is_only = self.word_is("only")
            && !matches!(self.tokens.get(1), None | Some(Token::Mark('.' | '*' | ',')))
            && self.backend == DbBackend::Postgres;
        if is_only {
            self.skip();
        }
        let in_parentheses = self.take_mark('(');
        let name = self.name()?;
        if in_parentheses {
            self.take_mark(')');
        }
        self.take_mark('*');
        Some(name)
    }

    fn tables(&mut self) -> Vec<Name> {
        let mut tables = Vec::new();
        while let Some(table) = self.table() {
            tables.push(table);
            if !self.take_mark(',') {
                break;
            }
        }
        tables
    }

    /// The tables of `a AS b JOIN c ON .., (d, e)`, in the whole of what is left.
    fn table_refs(mut self) -> Vec<TableRef> {
        let mut refs = Vec::new();
        let mut expects_table = true;
        while self.peek().is_some() {
            if self.take_mark(',') {
                expects_table = true;
            } else if self.word_is_any(&["join", "straight_join"]) {
                self.skip();
                expects_table = true;
            } else if self.peek() == Some(Token::Mark('(')) {
                let Some(inner) = self.parenthesised() else { break };
                // A list of tables, a query whose tables are only read, or the condition of a join.
                if expects_table && !inner.word_is_any(&["select", "with", "values"]) {
                    refs.extend(inner.table_refs());
                }
                expects_table = false;
            } else if expects_table && !self.take("lateral") {
                let Some(name) = self.name() else { break };
                refs.push(TableRef {
                    name,
                    alias: self.alias(),
                });
                expects_table = false;
            } else {
                self.skip();
            }
        }
        refs
    }

    fn alias(&mut self) -> Option<String> {
        const NO_ALIAS: [&str; 17] = [
            "join",
            "inner",
            "left",
            "right",
            "cross",
            "natural",
            "full",
            "straight_join",
            "on",
            "using",
            "use",
            "force",
            "ignore",
            "partition",
            "where",
            "set",
            "for",
        ];
        self.take("as");
        if self.word_is_any(&NO_ALIAS) {
            return None;
        }
        self.identifier()
    }

    fn statement(mut self) -> Vec<WrittenTable> {
        self.skip_explain();
        let mut written = Vec::new();
        if self.take("with") {
            written = self.common_tables();
        }
        if self.take("insert") {
            written.extend(self.insert());
        } else if self.take("replace") {
            self.take_all(&["low_priority", "delayed", "into"]);
            written.extend(self.table().map(|name| of(BypassKind::Replace, REPLACE, name)));
        } else if self.take("update") {
            written.extend(self.update());
        } else if self.take("delete") {
            written.extend(self.delete());
        } else if self.take("truncate") {
            self.take("table");
            let tables = self.tables();
            written.extend(
                tables
                    .into_iter()
                    .map(|name| of(BypassKind::Truncate, DELETE, name)),
            );
        } else if self.take("merge") {
            written.extend(self.merge());
        } else if self.word_is_any(&["copy", "load"]) {
            written.extend(self.load());
        }
        written
    }

    /// `EXPLAIN ANALYZE` and MariaDB's `ANALYZE` run what they explain; `SET STATEMENT .. FOR` is MariaDB's, too.
    fn skip_explain(&mut self) {
        const RUN: [&str; 7] = ["insert", "replace", "update", "delete", "merge", "with", "select"];
        let mut explained = self.clone();
        if self.word_is_any(&["explain", "analyze"]) {
            let head = explained.before(&RUN).tokens;
            let is_analyze = |token: &Token<'_>| matches!(token, Token::Word(word) if word.eq_ignore_ascii_case("analyze"));
            if head.iter().any(is_analyze) {
                self.tokens = explained.tokens;
            }
        } else if explained.take("set") && explained.take("statement") && explained.find(&["for"]) {
            explained.skip();
            self.tokens = explained.tokens;
        }
    }

    /// What the queries of a `WITH` write, on PostgreSQL; moves on to the statement that it is for.
    fn common_tables(&mut self) -> Vec<WrittenTable> {
        let mut written = Vec::new();
        self.take("recursive");
        loop {
            self.identifier();
            self.parenthesised();
            self.take("as");
            self.take_all(&["not", "materialized"]);
            let Some(query) = self.parenthesised() else { break };
            written.extend(query.statement());
            // `SEARCH` and `CYCLE` of a recursive one.
            if self.word_is_any(&["search", "cycle"]) {
                self.find(&["insert", "update", "delete", "merge", "select"]);
            }
            if !self.take_mark(',') {
                break;
            }
        }
        written
    }

    fn insert(&mut self) -> Option<WrittenTable> {
        let replaces = self.or_action();
        self.take_all(&["low_priority", "delayed", "high_priority", "ignore", "into"]);
        let name = self.table()?;
        if replaces {
            return Some(of(BypassKind::Replace, REPLACE, name));
        }
        let updates = self.clone().upserts();
        Some(of(
            BypassKind::Insert,
            Operations {
                update: updates,
                ..INSERT
            },
            name,
        ))
    }

    /// SQLite's `OR REPLACE` and the like; whether it is that one.
    fn or_action(&mut self) -> bool {
        if !self.take("or") {
            return false;
        }
        let replaces = self.word_is("replace");
        self.skip();
        replaces
    }

    /// Whether a row that is there is updated: `ON CONFLICT .. DO UPDATE`, `ON DUPLICATE KEY UPDATE`.
    fn upserts(mut self) -> bool {
        while self.find(&["on"]) {
            self.skip();
            if self.take("duplicate") {
                return true;
            }
            if self.take("conflict") {
                self.find(&["do"]);
                self.skip();
                if self.word_is("update") {
                    return true;
                }
            }
        }
        false
    }

    fn update(&mut self) -> Vec<WrittenTable> {
        let replaces = self.or_action();
        self.take_all(&["low_priority", "ignore"]);
        let operations = if replaces {
            Operations {
                delete: true,
                ..UPDATE
            }
        } else {
            UPDATE
        };
        if self.backend == DbBackend::MySql {
            let refs = self.before(&["set"]).table_refs();
            self.skip();
            let assigned = self.assigned(&refs);
            return assigned
                .into_iter()
                .map(|name| of(BypassKind::Update, operations, name))
                .collect();
        }
        self.table()
            .map(|name| of(BypassKind::Update, operations, name))
            .into_iter()
            .collect()
    }

    /// Those of the tables that a SET assigns columns of. A column without its table may be any's.
    fn assigned(&mut self, refs: &[TableRef]) -> Vec<Name> {
        let mut assigned = self.before(&["where", "order", "limit", "returning"]);
        let mut tables = vec![false; refs.len()];
        loop {
            let mut column = assigned.name().unwrap_or_default();
            column.0.pop();
            for (table, is_assigned) in refs.iter().zip(&mut tables) {
                *is_assigned |= column.0.is_empty() || table.is_meant_by(&column);
            }
            if !assigned.find_comma() {
                break;
            }
        }
        let assigned = refs.iter().zip(tables).filter(|(_, is_assigned)| *is_assigned);
        assigned.map(|(table, _)| table.name.clone()).collect()
    }

    /// Moves behind the next comma that is in no parentheses.
    fn find_comma(&mut self) -> bool {
        while self.peek().is_some() {
            if self.take_mark(',') {
                return true;
            }
            if self.parenthesised().is_none() {
                self.skip();
            }
        }
        false
    }

    fn delete(&mut self) -> Vec<WrittenTable> {
        self.take_all(&["low_priority", "quick", "ignore"]);
        let names_first = !self.take("from");
        let named = self.tables();
        let mut refs = Vec::new();
        if self.backend == DbBackend::MySql && (names_first && self.take("from") || self.take("using")) {
            refs = self
                .before(&["where", "order", "limit", "returning"])
                .table_refs();
        }
        let meant = |name: Name| {
            let table = refs.iter().find(|table| table.is_meant_by(&name));
            table.map_or(name, |table| table.name.clone())
        };
        let tables = named.into_iter().map(meant);
        tables.map(|name| of(BypassKind::Delete, DELETE, name)).collect()
    }

    fn merge(&mut self) -> Option<WrittenTable> {
        self.take("into");
        let name = self.table()?;
        let mut operations = Operations {
            insert: false,
            ..INSERT
        };
        while self.find(&["then"]) {
            self.skip();
            operations.insert |= self.word_is("insert");
            operations.update |= self.word_is("update");
            operations.delete |= self.word_is("delete");
        }
        Some(of(BypassKind::Merge, operations, name))
    }

    /// PostgreSQL's `COPY t FROM`, MySQL's `LOAD DATA .. INTO TABLE t`.
    fn load(&mut self) -> Option<WrittenTable> {
        if self.take("copy") {
            let name = self.name()?;
            self.parenthesised();
            return self.take("from").then(|| of(BypassKind::Insert, INSERT, name));
        }
        let head = self.before(&["into"]).tokens;
        let replaces = matches!(head.last(), Some(Token::Word(word)) if word.eq_ignore_ascii_case("replace"));
        self.skip();
        self.take("table");
        let name = self.name()?;
        Some(if replaces {
            of(BypassKind::Replace, REPLACE, name)
        } else {
            of(BypassKind::Insert, INSERT, name)
        })
    }
}

const REPLACE: Operations = Operations {
    insert: true,
    update: false,
    delete: true,
};

fn of(kind: BypassKind, operations: Operations, mut name: Name) -> WrittenTable {
    let table = name.0.pop().unwrap_or_default();
    WrittenTable {
        // Of `database.schema.table` the schema.
        schema: name.0.pop(),
        table,
        kind,
        operations,
    }
}

#[cfg(test)]
mod tests {
    use sea_orm::DatabaseBackend::{MySql, Postgres, Sqlite};

    use super::*;

    const ALL: &[DbBackend] = &[Postgres, MySql, Sqlite];

    /// `insert t`, `update s.t`; an operation beside the kind's own after a `+`.
    fn told(sql: &str, backend: DbBackend) -> Vec<String> {
        let tell = |written: WrittenTable| {
            let schema = written
                .schema
                .map(|schema| format!("{schema}."))
                .unwrap_or_default();
            let Operations {
                insert,
                update,
                delete,
            } = written.operations;
            let operations = [(insert, "i"), (update, "u"), (delete, "d")];
            let operations: String = operations
                .iter()
                .filter(|(does, _)| *does)
                .map(|(_, word)| *word)
                .collect();
            format!("{} {schema}{} {operations}", written.kind, written.table)
        };
        written_tables(sql, backend).into_iter().map(tell).collect()
    }

    fn check(cases: &[(&[DbBackend], &str, &[&str])]) {
        for (backends, sql, expected) in cases {
            for backend in *backends {
                assert_eq!(told(sql, *backend), *expected, "{backend:?}: {sql}");
            }
        }
    }

    #[test]
    fn inserts() {
        check(&[
            (ALL, "INSERT INTO t (a) VALUES (1)", &["INSERT t i"]),
            (ALL, "insert into s . t select * from b", &["INSERT s.t i"]),
            (
                &[Postgres],
                r#"INSERT INTO "S"."T" ("a") VALUES ($1) RETURNING "a""#,
                &["INSERT S.T i"],
            ),
            (&[Postgres], "INSERT INTO S.T VALUES (1)", &["INSERT s.t i"]),
            (&[Sqlite], "INSERT INTO [a b] VALUES (1)", &["INSERT a b i"]),
            (&[MySql], "INSERT t VALUES (1)", &["INSERT t i"]),
            (
                &[MySql],
                "INSERT LOW_PRIORITY IGNORE INTO `a``b` SET c = 1",
                &["INSERT a`b i"],
            ),
            (
                &[Sqlite],
                "INSERT OR REPLACE INTO t VALUES (1)",
                &["REPLACE t id"],
            ),
            (&[Sqlite], "INSERT OR IGNORE INTO t VALUES (1)", &["INSERT t i"]),
            (&[MySql, Sqlite], "REPLACE INTO t VALUES (1)", &["REPLACE t id"]),
            (&[MySql], "REPLACE DELAYED t VALUES (1)", &["REPLACE t id"]),
            (
                &[Postgres, Sqlite],
                "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING",
                &["INSERT t i"],
            ),
            (
                &[Postgres, Sqlite],
                "INSERT INTO t SELECT 1 FROM a JOIN b ON a.c = b.c WHERE true ON CONFLICT (id) WHERE x > 1 DO UPDATE SET a = 1",
                &["INSERT t iu"],
            ),
            (
                &[MySql],
                "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 1",
                &["INSERT t iu"],
            ),
            (&[Postgres], "COPY s.t (a, b) FROM '/tmp/x'", &["INSERT s.t i"]),
            (&[Postgres], "COPY t TO '/tmp/x'", &[]),
            (
                &[MySql],
                "LOAD DATA INFILE 'x' INTO TABLE t FIELDS TERMINATED BY ','",
                &["INSERT t i"],
            ),
            (
                &[MySql],
                "LOAD DATA LOCAL INFILE 'x' REPLACE INTO TABLE t",
                &["REPLACE t id"],
            ),
        ]);
    }

    #[test]
    fn updates() {
        check(&[
            (
                ALL,
                "UPDATE t SET a = 1 WHERE b IN (SELECT b FROM c)",
                &["UPDATE t u"],
            ),
            (
                ALL,
                "UPDATE t AS x SET a = (SELECT max(a) FROM b), c = 2",
                &["UPDATE t u"],
            ),
            (
                &[Postgres],
                "UPDATE ONLY t * AS x SET a = 1 FROM b",
                &["UPDATE t u"],
            ),
            (&[Postgres], "UPDATE ONLY (t) SET a = 1", &["UPDATE t u"]),
            (&[Postgres], "UPDATE only SET a = 1", &["UPDATE set u"]),
            (&[Sqlite], "UPDATE OR IGNORE t SET a = 1 FROM b", &["UPDATE t u"]),
            (&[Sqlite], "UPDATE OR REPLACE t SET a = 1", &["UPDATE t ud"]),
            (
                &[MySql],
                "UPDATE LOW_PRIORITY IGNORE `t` SET `a` = ?",
                &["UPDATE t u"],
            ),
            (
                &[MySql],
                "UPDATE a, b SET a.x = b.x WHERE a.id = b.id",
                &["UPDATE a u"],
            ),
            (
                &[MySql],
                "UPDATE a x JOIN s.b AS y ON x.id = y.id SET y.c = f(1, 2), y.d = 1",
                &["UPDATE s.b u"],
            ),
            (
                &[MySql],
                "UPDATE a JOIN (SELECT * FROM b) c USING (id) SET a.x = 1, s.a.y = 2",
                &["UPDATE a u"],
            ),
            (
                &[MySql],
                "UPDATE (a, b) LEFT JOIN c ON a.id = c.id SET a.x = 1, c.y = 1",
                &["UPDATE a u", "UPDATE c u"],
            ),
            (&[MySql], "UPDATE a, b SET x = 1", &["UPDATE a u", "UPDATE b u"]),
            (&[MySql], r#"UPDATE "t" SET a = 1"#, &["UPDATE t u"]),
        ]);
    }

    #[test]
    fn deletes() {
        check(&[
            (ALL, "DELETE FROM t WHERE a = 1", &["DELETE t d"]),
            (ALL, "DELETE FROM s.t", &["DELETE s.t d"]),
            (
                &[Postgres],
                "DELETE FROM ONLY a AS x USING b, c WHERE x.id = b.id",
                &["DELETE a d"],
            ),
            (
                &[MySql],
                "DELETE QUICK IGNORE FROM t ORDER BY a LIMIT 1",
                &["DELETE t d"],
            ),
            (
                &[MySql],
                "DELETE x, b FROM a AS x JOIN b ON x.id = b.id WHERE x.c = 1",
                &["DELETE a d", "DELETE b d"],
            ),
            (
                &[MySql],
                "DELETE s.a.*, c.* FROM s.a JOIN b JOIN c",
                &["DELETE s.a d", "DELETE c d"],
            ),
            (
                &[MySql],
                "DELETE FROM x USING a AS x JOIN b WHERE x.id = b.id",
                &["DELETE a d"],
            ),
            (&[MySql], "DELETE a FROM s.a, b", &["DELETE s.a d"]),
            (&[Postgres, MySql], "TRUNCATE TABLE t", &["TRUNCATE t d"]),
            (
                &[Postgres],
                "TRUNCATE ONLY a, s.b * RESTART IDENTITY",
                &["TRUNCATE a d", "TRUNCATE s.b d"],
            ),
        ]);
    }

    #[test]
    fn merges_by_what_they_do() {
        check(&[
            (
                &[Postgres],
                "MERGE INTO ONLY t AS x USING b ON x.id = b.id WHEN MATCHED AND b.c > 1 THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (1)",
                &["MERGE t id"],
            ),
            (
                &[Postgres],
                "MERGE INTO t USING b ON true WHEN MATCHED THEN UPDATE SET a = 1 WHEN NOT MATCHED THEN DO NOTHING",
                &["MERGE t u"],
            ),
        ]);
    }

    #[test]
    fn what_is_inside_a_with() {
        check(&[
            (
                ALL,
                "WITH RECURSIVE a (x, y) AS (SELECT 1), b AS (SELECT 2) UPDATE t SET a = 1",
                &["UPDATE t u"],
            ),
            (
                &[Postgres],
                "WITH gone AS NOT MATERIALIZED (DELETE FROM a RETURNING *), n AS (INSERT INTO b SELECT * FROM gone) SELECT 1",
                &["DELETE a d", "INSERT b i"],
            ),
            (
                &[Postgres],
                "WITH RECURSIVE a AS (SELECT 1) SEARCH DEPTH FIRST BY x SET y INSERT INTO t SELECT 1",
                &["INSERT t i"],
            ),
            (ALL, "WITH a AS (SELECT 1) SELECT * FROM a", &[]),
        ]);
    }

    #[test]
    fn what_an_explain_runs() {
        check(&[
            (
                &[Postgres],
                "EXPLAIN (ANALYZE, BUFFERS) UPDATE t SET a = 1",
                &["UPDATE t u"],
            ),
            (&[MySql], "ANALYZE FORMAT=JSON DELETE FROM t", &["DELETE t d"]),
            (
                &[MySql],
                "SET STATEMENT max_statement_time=1 FOR DELETE FROM t",
                &["DELETE t d"],
            ),
            (ALL, "EXPLAIN DELETE FROM t", &[]),
            (&[Postgres, Sqlite], "ANALYZE t", &[]),
            (&[MySql], "SET names = 'utf8mb4'", &[]),
        ]);
    }

    #[test]
    fn what_writes_no_row_of_a_table_it_names() {
        check(&[
            (ALL, "SELECT * FROM t FOR UPDATE", &[]),
            (ALL, "SELECT 'UPDATE t SET a = 1'", &[]),
            (ALL, "/* UPDATE t SET a = 1 */ SELECT 1 -- ; DELETE FROM t", &[]),
            (ALL, "CREATE TABLE t (a int)", &[]),
            (
                ALL,
                "CREATE TRIGGER x AFTER INSERT ON t BEGIN UPDATE t SET a = 1; END",
                &[],
            ),
            (ALL, "SAVEPOINT hare_write", &[]),
            (ALL, "", &[]),
        ]);
    }

    #[test]
    fn comments_and_several_statements() {
        check(&[
            (ALL, "/* a */ UPDATE /* b */ t -- c\n SET a = 1", &["UPDATE t u"]),
            (
                ALL,
                "SELECT 1; DELETE FROM a; INSERT INTO b VALUES (';')",
                &["DELETE a d", "INSERT b i"],
            ),
            (&[MySql], "/*!50000 DELETE */ FROM t # x", &["DELETE t d"]),
        ]);
    }

    #[test]
    fn no_text_makes_it_panic() {
        let pieces = [
            "UPDATE", "DELETE", "FROM", "(", ")", ",", ".", "*", "t", "'", "\"", "$a$", "WITH", "AS", "SET",
            ";", "ON", "/*", "ä",
        ];
        for first in pieces {
            for second in pieces {
                for third in pieces {
                    for backend in ALL {
                        written_tables(&format!("{first} {second} {third}"), *backend);
                        written_tables(&format!("INSERT {first}{second}{third}"), *backend);
                        written_tables(&format!("WITH a AS {first} {second} {third}"), *backend);
                    }
                }
            }
        }
    }
}
