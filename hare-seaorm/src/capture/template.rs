//! Topic and key templates of profiles, read while the program is compiled. (Those in attributes are read by the derive.)

use super::declaration::Piece;

/// What a template makes: each knows its own names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Topic,
    OrderingKey,
}

/// The first piece of a template, and what comes after it.
struct Step {
    piece: Result<Piece, &'static str>,
    rest: &'static str,
}

/// Fails the compilation if `template` is no topic template.
pub const fn check_topic(template: &'static str) {
    check(template, Purpose::Topic);
}

/// Fails the compilation if `template` is no ordering key template.
pub const fn check_ordering_key(template: Option<&'static str>) {
    if let Some(template) = template {
        check(template, Purpose::OrderingKey);
    }
}

const fn check(template: &'static str, purpose: Purpose) {
    if template.is_empty() {
        match purpose {
            Purpose::Topic => panic!("`TOPIC` of a profile cannot be empty"),
            Purpose::OrderingKey => {
                panic!("`ORDERING_KEY` of a profile cannot be empty; events without one have `None`")
            }
        }
    }
    let mut rest = template;
    while !rest.is_empty() {
        let step = step(rest, purpose);
        if let Err(mistake) = step.piece {
            panic!("{}", mistake);
        }
        rest = step.rest;
    }
}

/// The pieces of a topic template.
pub fn topic_pieces(template: &'static str) -> Vec<Piece> {
    pieces(template, Purpose::Topic)
}

/// The pieces of an ordering key template.
pub fn ordering_key_pieces(template: &'static str) -> Vec<Piece> {
    pieces(template, Purpose::OrderingKey)
}

/// Of a template that was checked: there are no mistakes in it.
fn pieces(template: &'static str, purpose: Purpose) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let step = step(rest, purpose);
        pieces.extend(step.piece);
        rest = step.rest;
    }
    pieces
}

const fn step(text: &'static str, purpose: Purpose) -> Step {
    let bytes = text.as_bytes();
    if bytes.len() > 1 && (bytes[0] == b'{' || bytes[0] == b'}') && bytes[0] == bytes[1] {
        let (both, rest) = text.split_at(2);
        let (brace, _) = both.split_at(1);
        return Step {
            piece: Ok(Piece::Text(brace)),
            rest,
        };
    }
    if bytes[0] == b'}' {
        let (_, rest) = text.split_at(1);
        let mistake = match purpose {
            Purpose::Topic => "`TOPIC` of a profile has a `}` without its `{`; `}}` is a brace",
            Purpose::OrderingKey => "`ORDERING_KEY` of a profile has a `}` without its `{`; `}}` is a brace",
        };
        return Step {
            piece: Err(mistake),
            rest,
        };
    }
    if bytes[0] == b'{' {
        return name(text, purpose);
    }
    let mut end = 1;
    while end < bytes.len() && bytes[end] != b'{' && bytes[end] != b'}' {
        end += 1;
    }
    let (plain, rest) = text.split_at(end);
    Step {
        piece: Ok(Piece::Text(plain)),
        rest,
    }
}

/// `{name}` at the beginning of `text`.
const fn name(text: &'static str, purpose: Purpose) -> Step {
    let bytes = text.as_bytes();
    let mut end = 1;
    while end < bytes.len() && bytes[end] != b'}' && bytes[end] != b'{' {
        end += 1;
    }
    if end == bytes.len() || bytes[end] == b'{' {
        let (_, rest) = text.split_at(end);
        let mistake = match purpose {
            Purpose::Topic => "`TOPIC` of a profile has a `{` without its `}`; `{{` is a brace",
            Purpose::OrderingKey => "`ORDERING_KEY` of a profile has a `{` without its `}`; `{{` is a brace",
        };
        return Step {
            piece: Err(mistake),
            rest,
        };
    }
    let (word, rest) = text.split_at(end + 1);
    let piece = match word.as_bytes() {
        b"{app}" => Ok(Piece::App),
        b"{model}" => Ok(Piece::Model),
        b"{table}" => Ok(Piece::Table),
        b"{operation}" if matches!(purpose, Purpose::Topic) => Ok(Piece::Operation),
        b"{label}" if matches!(purpose, Purpose::OrderingKey) => Ok(Piece::Label),
        b"{pk}" if matches!(purpose, Purpose::OrderingKey) => Ok(Piece::PrimaryKey),
        _ => Err(match purpose {
            Purpose::Topic => {
                "`TOPIC` of a profile has a name in braces that means nothing in a topic; known are `{app}`, `{model}`, `{table}`, \
                 `{operation}`"
            }
            Purpose::OrderingKey => {
                "`ORDERING_KEY` of a profile has a name in braces that means nothing in an ordering key; known are `{label}`, `{pk}`, \
                 `{app}`, `{model}`, `{table}`"
            }
        }),
    };
    Step { piece, rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    const _: () = check_topic("{app}.{{é}}.{model}{table}/{operation}");
    const _: () = check_ordering_key(Some("{label}:{pk}"));
    const _: () = check_ordering_key(None);

    #[test]
    fn names_and_text_alternate() {
        assert_eq!(
            topic_pieces("{app}.{{é}}.{operation}!"),
            [
                Piece::App,
                Piece::Text("."),
                Piece::Text("{"),
                Piece::Text("é"),
                Piece::Text("}"),
                Piece::Text("."),
                Piece::Operation,
                Piece::Text("!")
            ]
        );
        assert_eq!(
            ordering_key_pieces("{label}|{pk}|{table}"),
            [
                Piece::Label,
                Piece::Text("|"),
                Piece::PrimaryKey,
                Piece::Text("|"),
                Piece::Table
            ]
        );
    }

    // catalogue F7
    #[test]
    fn a_mistake_is_no_piece() {
        for (template, purpose) in [
            ("{nope}", Purpose::Topic),
            ("{0}", Purpose::Topic),
            ("{", Purpose::Topic),
            ("}", Purpose::Topic),
            ("{a{app}", Purpose::Topic),
            ("{pk}", Purpose::Topic),
            ("{operation}", Purpose::OrderingKey),
            ("{}", Purpose::OrderingKey),
        ] {
            assert!(step(template, purpose).piece.is_err(), "{template}");
            assert!(
                std::panic::catch_unwind(|| check(template, purpose)).is_err(),
                "{template}"
            );
        }
        assert!(std::panic::catch_unwind(|| check_topic("")).is_err());
    }
}
