//! SQL text as words, names, literals and marks, as each database reads it; pure.
//!
//! Only as much as it takes to find the tables that a statement writes, and to show the statement without what it holds:
//! comments are left out, and a literal is a literal whatever is in it.

use sea_orm::DbBackend;

/// A piece of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A keyword or a name without quotes.
    Word(&'a str),
    /// A name in quotes, as it is between them: a doubled quote is still doubled. On MySQL a text in double quotes may be either.
    Quoted(&'a str, char),
    /// A text, a number, or bytes.
    Literal,
    /// Anything else, a character at a time.
    Mark(char),
}

/// Reads a statement piece by piece.
#[derive(Debug, Clone)]
pub(super) struct Tokens<'a> {
    sql: &'a str,
    at: usize,
    backend: DbBackend,
    /// Inside a comment of MySQL's that is run: `/*! ... */`.
    in_run_comment: bool,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(sql: &'a str, backend: DbBackend) -> Self {
        Self {
            sql,
            at: 0,
            backend,
            in_run_comment: false,
        }
    }

    fn rest(&self) -> &'a str {
        &self.sql[self.at..]
    }

    /// Moves over space and comments.
    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            let is_mysql = self.backend == DbBackend::MySql;
            // MySQL wants a space after `--`, or it is a difference.
            let is_line = trimmed.starts_with('#') && is_mysql
                || trimmed.strip_prefix("--").is_some_and(|rest| {
                    !is_mysql
                        || rest.is_empty()
                        || rest.starts_with(|c: char| c.is_whitespace() || c.is_control())
                });
            if is_line {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if is_mysql && let Some(length) = run_comment(trimmed) {
                self.in_run_comment = true;
                self.at += length;
            } else if self.in_run_comment && trimmed.starts_with("*/") {
                self.in_run_comment = false;
                self.at += 2;
            } else if trimmed.starts_with("/*") {
                self.at += self.comment_length(trimmed);
            } else {
                return;
            }
        }
    }

    /// The length of a comment with its ends. PostgreSQL's nest.
    fn comment_length(&self, text: &str) -> usize {
        let mut depth = 0;
        let mut at = 0;
        while let Some(found) = text[at..].find(['/', '*']) {
            at += found;
            if text[at..].starts_with("/*") && (depth == 0 || self.backend == DbBackend::Postgres) {
                depth += 1;
                at += 2;
            } else if text[at..].starts_with("*/") {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            } else {
                at += 1;
            }
        }
        text.len()
    }

    /// The next piece and where it is.
    pub(super) fn next_with_place(&mut self) -> Option<(Token<'a>, std::ops::Range<usize>)> {
        self.skip_blank();
        let start = self.at;
        let rest = self.rest();
        let first = rest.chars().next()?;
        let (token, length) = match first {
            '\'' => (Token::Literal, self.quoted_length(rest, '\'')),
            '"' | '`' => self.quoted(rest, first, first),
            '[' if self.backend == DbBackend::Sqlite => self.quoted(rest, '[', ']'),
            '$' => dollar(rest),
            '?' => (Token::Mark('?'), 1 + digits(&rest[1..])),
            _ if first.is_ascii_digit() => (Token::Literal, number_length(rest)),
            _ if is_word_start(first) => self.word(rest),
            _ => (Token::Mark(first), first.len_utf8()),
        };
        self.at += length;
        Some((token, start..self.at))
    }

    fn quoted(&self, rest: &'a str, open: char, close: char) -> (Token<'a>, usize) {
        let length = self.quoted_length(rest, close);
        let end = if length > 1 && rest[..length].ends_with(close) {
            length - 1
        } else {
            length
        };
        (Token::Quoted(&rest[1..end], open), length)
    }

    /// The length of what begins with a quote, with its end. A doubled quote, and on MySQL one after a backslash, is inside.
    fn quoted_length(&self, text: &str, close: char) -> usize {
        let escapes = self.backend == DbBackend::MySql && matches!(close, '\'' | '"');
        quoted_length(text, close, escapes)
    }

    fn word(&self, rest: &'a str) -> (Token<'a>, usize) {
        let length = rest
            .find(|c: char| !is_word_start(c) && !c.is_ascii_digit() && c != '$')
            .unwrap_or(rest.len());
        let word = &rest[..length];
        // `E'..'`, `x'..'`, `N'..'`, `U&'..'`, `_utf8mb4'..'`: a text in another form. Only `E` reads backslashes on PostgreSQL.
        let after = &rest[length..];
        let ampersand = usize::from(word.eq_ignore_ascii_case("u") && after.starts_with("&'"));
        let is_prefix = word.len() == 1 || word.starts_with('_');
        if after[ampersand..].starts_with('\'') && (is_prefix || ampersand == 1) {
            let text = &after[ampersand..];
            let escapes = self.backend == DbBackend::MySql || word.eq_ignore_ascii_case("e");
            return (
                Token::Literal,
                length + ampersand + quoted_length(text, '\'', escapes),
            );
        }
        (Token::Word(word), length)
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.next_with_place().map(|(token, _)| token)
    }
}

fn is_word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_' || !c.is_ascii() && !c.is_whitespace()
}

fn quoted_length(text: &str, close: char, escapes: bool) -> usize {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' && escapes {
            letters.next();
        } else if letter == close {
            if letters.peek().is_some_and(|(_, next)| *next == close) {
                letters.next();
            } else {
                return at + close.len_utf8();
            }
        }
    }
    text.len()
}

/// The length of `/*!50100 ` or `/*M!100100 `, what is behind which is run.
fn run_comment(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("/*!").or_else(|| text.strip_prefix("/*M!"))?;
    Some(text.len() - rest.len() + digits(rest))
}

/// `$1` is a parameter, `$tag$ .. $tag$` a text.
fn dollar(rest: &str) -> (Token<'_>, usize) {
    let tag = rest[1..].find(|c: char| !is_word_start(c) && !c.is_ascii_digit());
    if let Some(tag) = tag
        && rest[1 + tag..].starts_with('$')
        && !rest[1..].starts_with(|c: char| c.is_ascii_digit())
    {
        let delimiter = &rest[..tag + 2];
        let end = rest[delimiter.len()..].find(delimiter);
        return (
            Token::Literal,
            end.map_or(rest.len(), |end| end + 2 * delimiter.len()),
        );
    }
    (Token::Mark('$'), 1 + digits(&rest[1..]))
}

/// How many digits a text begins with.
fn digits(text: &str) -> usize {
    text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len()
}

fn number_length(text: &str) -> usize {
    let mut last = '0';
    text.find(|c: char| {
        let is_exponent_sign = matches!(c, '+' | '-') && matches!(last, 'e' | 'E');
        let goes_on = c.is_ascii_alphanumeric() || matches!(c, '.' | '_') || is_exponent_sign;
        last = c;
        !goes_on
    })
    .unwrap_or(text.len())
}

/// The most bytes of a statement that are shown.
const SHOWN: usize = 1_000;

/// The statement without its comments, each literal as `?`, cut where it is long.
pub(super) fn without_values(sql: &str, backend: DbBackend) -> String {
    let mut tokens = Tokens::of(sql, backend);
    let mut shown = String::new();
    let mut end = 0;
    while let Some((token, place)) = tokens.next_with_place() {
        if place.start > end && !shown.is_empty() {
            shown.push(' ');
        }
        end = place.end;
        match token {
            Token::Literal => shown.push('?'),
            // A text there, unless the session says otherwise.
            Token::Quoted(_, '"') if backend == DbBackend::MySql => shown.push('?'),
            _ => shown.push_str(&sql[place]),
        }
        if shown.len() > SHOWN {
            shown.truncate(shown.floor_char_boundary(SHOWN));
            shown.push('…');
            break;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [DbBackend; 3] = [DbBackend::Postgres, DbBackend::MySql, DbBackend::Sqlite];

    #[test]
    fn no_value_is_shown() {
        for (sql, shown) in [
            (
                "UPDATE t SET a = 'it''s', b = 1.5e-3 WHERE c = -7",
                "UPDATE t SET a = ?, b = ? WHERE c = -?",
            ),
            (
                "INSERT INTO t VALUES (x'00ff', N'a', 'a''')",
                "INSERT INTO t VALUES (?, ?, ?)",
            ),
            (
                "DELETE\n  FROM t -- secret\nWHERE /* secret */ a1 = 'b'",
                "DELETE FROM t WHERE a1 = ?",
            ),
            ("DELETE FROM t WHERE a = 'never ends", "DELETE FROM t WHERE a = ?"),
            ("DELETE FROM t /* never ends", "DELETE FROM t"),
            ("", ""),
        ] {
            for backend in ALL {
                assert_eq!(without_values(sql, backend), shown, "{backend:?}");
            }
        }
    }

    #[test]
    fn each_database_has_its_own_texts_and_comments() {
        use sea_orm::DatabaseBackend::{MySql, Postgres, Sqlite};
        for (backend, sql, shown) in [
            (
                Postgres,
                r#"UPDATE "a""b" SET c = $1"#,
                r#"UPDATE "a""b" SET c = $1"#,
            ),
            (Postgres, r"SET a = 'x\', b = 'y'", "SET a = ?, b = ?"),
            (Postgres, r"SET a = E'x\'y', b = U&'\0041'", "SET a = ?, b = ?"),
            (
                Postgres,
                "SET a = $$x'y$$, b = $t$ $$ $t$, c = $12",
                "SET a = ?, b = ?, c = $12",
            ),
            (Postgres, "DELETE /* a /* b */ c */ FROM t", "DELETE FROM t"),
            (
                MySql,
                r"SET a = 'x\'y', b = _utf8mb4'z', c = 1",
                "SET a = ?, b = ?, c = ?",
            ),
            (MySql, r#"SET a = "secret", `b` = ?"#, "SET a = ?, `b` = ?"),
            (MySql, "DELETE FROM t # secret", "DELETE FROM t"),
            (MySql, "SET a = 1--1", "SET a = ?--?"),
            (
                MySql,
                "DELETE /*!50100 IGNORE */ FROM t /*M!100100 WHERE a = 1 */",
                "DELETE IGNORE FROM t WHERE a = ?",
            ),
            (Sqlite, "UPDATE [a b] SET `c` = ?1", "UPDATE [a b] SET `c` = ?1"),
            (Sqlite, "DELETE /* a /* b */ FROM t", "DELETE FROM t"),
        ] {
            assert_eq!(without_values(sql, backend), shown, "{backend:?}");
        }
    }

    #[test]
    fn a_long_statement_is_cut_between_letters() {
        let long = format!("UPDATE {}", "ä".repeat(SHOWN));
        let shown = without_values(&long, DbBackend::Sqlite);
        assert!(
            shown.len() <= SHOWN + '…'.len_utf8() && shown.ends_with("ä…"),
            "{shown}"
        );
    }
}
