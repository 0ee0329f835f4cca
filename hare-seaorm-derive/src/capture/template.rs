//! Topic and ordering key templates: `{name}` pieces in plain text.

use std::fmt;

use crate::words;

/// Columns of the outbox that hold a topic or key have this many characters.
const LONGEST: usize = 255;

/// What a template makes: each knows its own names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Topic,
    OrderingKey,
}

impl Purpose {
    fn known(self) -> &'static [Name] {
        match self {
            Self::Topic => &[Name::App, Name::Model, Name::Table, Name::Operation],
            Self::OrderingKey => &[Name::Label, Name::PrimaryKey, Name::App, Name::Model, Name::Table],
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Topic => Self::OrderingKey,
            Self::OrderingKey => Self::Topic,
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Topic => "a topic",
            Self::OrderingKey => "an ordering key",
        })
    }
}

/// A name that stands for something else in an event's topic or key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    App,
    Model,
    Table,
    Operation,
    Label,
    PrimaryKey,
}

impl Name {
    fn as_str(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Model => "model",
            Self::Table => "table",
            Self::Operation => "operation",
            Self::Label => "label",
            Self::PrimaryKey => "pk",
        }
    }

    fn find(word: &str, purpose: Purpose) -> Option<Self> {
        purpose.known().iter().copied().find(|name| name.as_str() == word)
    }
}

/// A part of a template, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Name(Name),
}

/// A template that was checked.
pub(crate) type Template = Vec<Piece>;

/// Reads a template; the errors are all of its mistakes.
pub(crate) fn parse(text: &str, purpose: Purpose) -> Result<Template, Vec<String>> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut mistakes = Vec::new();
    let mut plain_length = 0;
    let mut rest = text.chars().peekable();

    while let Some(letter) = rest.next() {
        match letter {
            '{' | '}' if rest.next_if_eq(&letter).is_some() => plain.push(letter),
            '{' => {
                let mut word = String::new();
                let mut closed = false;
                while let Some(letter) = rest.next_if(|letter| *letter != '{') {
                    if letter == '}' {
                        closed = true;
                        break;
                    }
                    word.push(letter);
                }
                if !closed {
                    mistakes.push(format!(
                        "`{{` without its `}}` in {purpose}; {}, and `{{{{` is a brace",
                        knows(purpose)
                    ));
                } else if let Some(name) = Name::find(&word, purpose) {
                    plain_length += plain.chars().count();
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(Piece::Name(name));
                } else {
                    mistakes.push(unknown_name(&word, purpose));
                }
            }
            '}' => {
                mistakes.push(format!(
                    "`}}` without its `{{` in {purpose}; {}, and `}}}}` is a brace",
                    knows(purpose)
                ));
            }
            letter => plain.push(letter),
        }
    }
    plain_length += plain.chars().count();
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }

    if text.is_empty() {
        let instead = match purpose {
            Purpose::Topic => "",
            Purpose::OrderingKey => "; events without one are `unordered`",
        };
        mistakes.push(format!("{purpose} cannot be empty{instead}"));
    }
    if plain_length > LONGEST {
        mistakes.push(format!(
            "{purpose} has at most {LONGEST} characters, the plain text of this one has {plain_length}"
        ));
    }
    if mistakes.is_empty() {
        Ok(pieces)
    } else {
        Err(mistakes)
    }
}

fn unknown_name(word: &str, purpose: Purpose) -> String {
    if Name::find(word, purpose.other()).is_some() {
        return format!(
            "`{{{word}}}` can stand in {} only; {}",
            purpose.other(),
            knows(purpose)
        );
    }
    let names = purpose
        .known()
        .iter()
        .map(|name| name.as_str())
        .collect::<Vec<_>>();
    match words::nearest(word, &names) {
        Some(nearest) => {
            format!(
                "`{{{word}}}` means nothing in {purpose}; did you mean `{{{nearest}}}`? {}",
                knows(purpose)
            )
        }
        None => format!("`{{{word}}}` means nothing in {purpose}; {}", knows(purpose)),
    }
}

/// "known are `{app}`, `{model}`".
fn knows(purpose: Purpose) -> String {
    let names = purpose
        .known()
        .iter()
        .map(|name| format!("{{{}}}", name.as_str()))
        .collect::<Vec<_>>();
    format!(
        "known are {}",
        words::list(&names.iter().map(String::as_str).collect::<Vec<_>>())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    fn mistake(template: &str, purpose: Purpose) -> String {
        let mistakes = parse(template, purpose).expect_err("a mistake");
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
        mistakes.into_iter().next().unwrap_or_default()
    }

    #[test]
    fn names_and_text_alternate() {
        assert_eq!(
            parse("{app}.{model}-{table}.{operation}!", Purpose::Topic),
            Ok(vec![
                Piece::Name(Name::App),
                text("."),
                Piece::Name(Name::Model),
                text("-"),
                Piece::Name(Name::Table),
                text("."),
                Piece::Name(Name::Operation),
                text("!"),
            ])
        );
        assert_eq!(
            parse("{label}:{pk}", Purpose::OrderingKey),
            Ok(vec![
                Piece::Name(Name::Label),
                text(":"),
                Piece::Name(Name::PrimaryKey)
            ])
        );
    }

    #[test]
    fn plain_text_is_a_template() {
        assert_eq!(parse("loans", Purpose::Topic), Ok(vec![text("loans")]));
    }

    #[test]
    fn double_braces_are_braces() {
        assert_eq!(
            parse("{{{app}}}", Purpose::Topic),
            Ok(vec![text("{"), Piece::Name(Name::App), text("}")])
        );
        assert_eq!(parse("{{app}}", Purpose::Topic), Ok(vec![text("{app}")]));
    }

    #[test]
    fn a_name_of_the_other_template_is_refused() {
        assert!(
            mistake("{pk}", Purpose::Topic)
                .starts_with("`{pk}` can stand in an ordering key only; known are `{app}`")
        );
        assert!(
            mistake("{operation}", Purpose::OrderingKey)
                .starts_with("`{operation}` can stand in a topic only")
        );
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest() {
        assert_eq!(
            mistake("{modle}", Purpose::Topic),
            "`{modle}` means nothing in a topic; did you mean `{model}`? known are `{app}`, `{model}`, `{table}`, `{operation}`"
        );
        for unknown in ["{nope}", "{0}", "{}", "{ app }", "{App}"] {
            assert!(
                mistake(unknown, Purpose::Topic).contains("means nothing in a topic"),
                "{unknown}"
            );
        }
    }

    #[test]
    fn a_lone_brace_is_refused() {
        assert!(mistake("{", Purpose::Topic).starts_with("`{` without its `}`"));
        assert!(mistake("loan {app", Purpose::Topic).starts_with("`{` without its `}`"));
        assert!(mistake("}", Purpose::Topic).starts_with("`}` without its `{`"));
        assert!(mistake("{app}}", Purpose::Topic).starts_with("`}` without its `{`"));
        assert!(mistake("{a{app}", Purpose::Topic).starts_with("`{` without its `}`"));
    }

    #[test]
    fn an_empty_template_is_refused() {
        assert_eq!(mistake("", Purpose::Topic), "a topic cannot be empty");
        assert!(mistake("", Purpose::OrderingKey).ends_with("events without one are `unordered`"));
    }

    #[test]
    fn plain_text_is_measured_in_characters() {
        assert!(parse(&"é".repeat(255), Purpose::Topic).is_ok());
        assert!(mistake(&"é".repeat(256), Purpose::Topic).ends_with("the plain text of this one has 256"));
        assert!(
            mistake(
                &format!("{}{{app}}{}", "a".repeat(200), "b".repeat(56)),
                Purpose::Topic
            )
            .contains("256")
        );
    }

    #[test]
    fn all_mistakes_come_at_once() {
        assert_eq!(
            parse("{nope}.{pk}.{", Purpose::Topic)
                .expect_err("mistakes")
                .len(),
            3
        );
    }
}
