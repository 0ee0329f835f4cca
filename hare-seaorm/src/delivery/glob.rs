//! Shell patterns over topics. Pure.
//!
//! `*` stands for any characters (dots too, or none), `?` for one, `[abc]` for one of these, `[a-z]` for one of a range, `[!abc]`
//! for one that is none of these; every other character for itself. A `]` that comes first in brackets is one of them, so
//! `[]]`, `[[]` and `[*]` say a special character plainly. Case counts, and a pattern stands for whole topics.
//!
//! Invariant: matching takes time in proportion to the length of the pattern times that of the topic, whatever they hold: a
//! mismatch goes back to the last `*` only, because an earlier one could do nothing that the last cannot.

use std::ops::RangeInclusive;

/// A checked pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob(Vec<Token>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// Any characters, or none.
    Any,
    /// One character, whatever it is.
    One,
    This(char),
    Set {
        ranges: Vec<RangeInclusive<char>>,
        is_negated: bool,
    },
}

impl Glob {
    /// # Errors
    /// What is wrong with the pattern: it is empty, a bracket is not closed, a range ends before it begins.
    pub(super) fn parse(pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() {
            return Err("it is empty, and no topic is".to_owned());
        }
        let mut rest = pattern.chars();
        let mut tokens = Vec::new();
        while let Some(next) = rest.next() {
            tokens.push(match next {
                '*' => Token::Any,
                '?' => Token::One,
                '[' => {
                    let (set, after) = set(rest.as_str())?;
                    rest = after.chars();
                    set
                }
                plain => Token::This(plain),
            });
        }
        Ok(Self(tokens))
    }

    /// Whether the pattern stands for one topic only, by its own name.
    pub(super) fn is_exact(&self) -> bool {
        self.0.iter().all(|token| matches!(token, Token::This(_)))
    }

    pub(super) fn matches(&self, topic: &str) -> bool {
        let mut tokens = self.0.as_slice();
        let mut rest = topic.chars();
        // Where to go on if what follows the last `*` does not fit: with that `*` standing for one character more.
        let mut again = None;
        loop {
            match tokens.split_first() {
                Some((Token::Any, following)) => {
                    tokens = following;
                    again = Some((tokens, rest.clone()));
                    continue;
                }
                Some((token, following)) => {
                    if let Some(next) = rest.next()
                        && token.accepts(next)
                    {
                        tokens = following;
                        continue;
                    }
                }
                None if rest.as_str().is_empty() => return true,
                None => {}
            }
            let Some((following, from)) = &mut again else {
                return false;
            };
            if from.next().is_none() {
                return false;
            }
            tokens = *following;
            rest = from.clone();
        }
    }
}

impl Token {
    fn accepts(&self, character: char) -> bool {
        match self {
            Token::Any | Token::One => true,
            Token::This(this) => *this == character,
            Token::Set { ranges, is_negated } => {
                ranges.iter().any(|range| range.contains(&character)) != *is_negated
            }
        }
    }
}

/// The set that begins after an opening bracket, and what follows its closing one.
fn set(after_bracket: &str) -> Result<(Token, &str), String> {
    let (is_negated, mut rest) = match after_bracket.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, after_bracket),
    };
    let mut ranges = Vec::new();
    loop {
        let mut characters = rest.chars();
        let first = characters
            .next()
            .ok_or_else(|| "a `[` is not closed (for the character itself write `[[]`)".to_owned())?;
        let after_first = characters.as_str();
        if first == ']' && !ranges.is_empty() {
            return Ok((Token::Set { ranges, is_negated }, after_first));
        }
        let last = match (characters.next(), characters.next()) {
            (Some('-'), Some(last)) if last != ']' => {
                rest = characters.as_str();
                last
            }
            _ => {
                rest = after_first;
                first
            }
        };
        if last < first {
            return Err(format!("the range `{first}-{last}` ends before it begins"));
        }
        ranges.push(first..=last);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    fn glob(pattern: &str) -> Glob {
        Glob::parse(pattern).unwrap_or_else(|problem| panic!("{pattern}: {problem}"))
    }

    // catalogue O2
    #[test]
    fn each_kind_of_pattern() {
        for (pattern, fits, fits_not) in [
            (
                "library.*",
                &["library.", "library.loan.inserted"][..],
                &["library", "Library.loan"][..],
            ),
            (
                "*.inserted",
                &["library.loan.inserted", ".inserted"],
                &["inserted", "a.inserted.b"],
            ),
            ("*", &["", "a", "a.b", "ä/\\{}\n"], &[]),
            (
                "a*b*c",
                &["abc", "a-b-b-c-c", "abcbc"],
                &["ab", "abcd", "xabc", "acb"],
            ),
            ("a**c", &["ac", "abc"], &["a"]),
            ("a?c", &["abc", "a.c", "aéc"], &["ac", "abbc", "abc."]),
            ("a[bc]d", &["abd", "acd"], &["ad", "abcd", "aBd", "a[bc]d"]),
            ("a[!bc]d", &["axd", "a!d", "aBd"], &["abd", "acd", "ad"]),
            ("v[0-9].*", &["v1.x"], &["v.x", "va.x", "v-.x"]),
            ("[!a-cx]", &["d", "-"], &["a", "b", "c", "x"]),
            ("[]]", &["]"], &["[]]", ""]),
            ("[!]]", &["a"], &["]"]),
            ("[[]*[*][?]", &["[*?", "[abc*?"], &["[a"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[-a]", &["a", "-"], &["b"]),
            ("[a!]", &["a", "!"], &["b"]),
            // Nothing else is special.
            ("a/b", &["a/b"], &["a.b"]),
            ("{a,b}", &["{a,b}"], &["a", "b"]),
            ("a\\*", &["a\\", "a\\b"], &["a*"]),
            ("a]-b", &["a]-b"], &["a"]),
            ("**/a", &["/a", "b/c/a"], &["a"]),
        ] {
            for topic in fits {
                assert!(glob(pattern).matches(topic), "{pattern} stands for {topic}");
            }
            for topic in fits_not {
                assert!(
                    !glob(pattern).matches(topic),
                    "{pattern} does not stand for {topic}"
                );
            }
        }
    }

    #[test]
    fn a_pattern_without_special_characters_is_exact() {
        assert!(glob("library.loan").is_exact() && glob("a]b!c-\\{}").is_exact());
        for pattern in ["a*", "a?", "[a]"] {
            assert!(!glob(pattern).is_exact(), "{pattern}");
        }
    }

    // catalogue P2
    #[test]
    fn bad_patterns_say_what_is_wrong() {
        for (pattern, part) in [
            ("", "it is empty"),
            ("a[", "not closed"),
            ("a[]", "not closed"),
            ("a[!]", "not closed"),
            ("a[!", "not closed"),
            ("[abc", "not closed"),
            ("[a-", "not closed"),
            ("[z-a]", "the range `z-a` ends before it begins"),
        ] {
            let problem = Glob::parse(pattern).unwrap_err();
            assert!(problem.contains(part), "{pattern}: {problem}");
        }
    }

    /// The meaning, without a thought for speed.
    fn obviously(tokens: &[Token], topic: &[char]) -> bool {
        match (tokens.split_first(), topic.split_first()) {
            (None, None) => true,
            (Some((Token::Any, after)), None) => obviously(after, topic),
            (Some((Token::Any, after)), Some((_, rest))) => {
                obviously(after, topic) || obviously(tokens, rest)
            }
            (Some((token, after)), Some((next, rest))) => token.accepts(*next) && obviously(after, rest),
            _ => false,
        }
    }

    #[test]
    fn random_patterns_match_what_they_obviously_match() {
        let mut random = StdRng::seed_from_u64(7);
        let mut word = |letters: &[char], longest: usize| -> String {
            let length = random.random_range(0..=longest);
            (0..length)
                .map(|_| letters[random.random_range(0..letters.len())])
                .collect()
        };
        let (mut fitting, mut others) = (0, 0);
        for _ in 0..200_000 {
            let Ok(pattern) = Glob::parse(&word(&['*', '*', '?', 'a', 'b', '.', '[', ']', '!', '-'], 9))
            else {
                continue;
            };
            let topic = word(&['a', 'b', '.', ']'], 9);
            let expected = obviously(&pattern.0, &topic.chars().collect::<Vec<_>>());
            assert_eq!(pattern.matches(&topic), expected, "{pattern:?} and {topic}");
            *(if expected { &mut fitting } else { &mut others }) += 1;
        }
        assert!(fitting > 5_000 && others > 5_000, "{fitting} and {others}");
    }

    #[test]
    fn many_stars_take_no_longer() {
        let pattern = glob(&"*a".repeat(120));
        let topic = "a".repeat(119) + &"b".repeat(136);
        let started = Instant::now();
        assert!(!pattern.matches(&topic));
        assert!(
            started.elapsed() < Duration::from_secs(1),
            "backtracking would take years"
        );
    }
}
