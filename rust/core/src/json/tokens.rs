//! The tokens of a JSON value, and the value with the spaces of Python's `json.dumps`.
//!
//! ```text
//! {"a":[1,"b"]}    Open('{') Key("a") Colon Open('[') Word("1") Comma Text("b") Close(']') Close('}')
//! ```

use std::borrow::Cow;

use super::strings::{Normalise, inside_length, respell};

/// A token of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    /// `{` or `[`.
    Open(char),
    /// `}` or `]`.
    Close(char),
    /// The inside of a string that a colon follows, with its escapes.
    Key(&'t str),
    /// The inside of another string.
    Text(&'t str),
    /// A number, `true`, `false` or `null`.
    Word(&'t str),
    /// `:`.
    Colon,
    /// `,`.
    Comma,
}

impl Token<'_> {
    /// Appends the token as `json.dumps(…, ensure_ascii=False)` writes it, with normalised texts and unchanged numbers.
    pub(crate) fn write(self, normalise: Normalise<'_>, out: &mut String) {
        match self {
            Self::Open(bracket) | Self::Close(bracket) => out.push(bracket),
            Self::Key(raw) | Self::Text(raw) => {
                out.push('"');
                respell(raw, normalise, out);
                out.push('"');
            }
            Self::Word(word) => out.push_str(word),
            Self::Colon => out.push_str(": "),
            Self::Comma => out.push_str(", "),
        }
    }
}

/// The tokens of a value in order, each with the number of objects and lists around it.
pub(crate) struct Tokens<'t> {
    value: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Tokens<'t> {
    /// The tokens of one value.
    pub(crate) fn of(value: &'t str) -> Self {
        Self { value, at: 0, depth: 0 }
    }

    /// The end of the last token.
    pub(crate) fn at(&self) -> usize {
        self.at
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = (usize, Token<'t>);

    fn next(&mut self) -> Option<Self::Item> {
        let spaces = [' ', '\t', '\n', '\r'];
        let text = self.value[self.at..].trim_start_matches(spaces);
        let first = text.chars().next()?;
        let is_end = |c: char| matches!(c, ',' | '}' | ']') || spaces.contains(&c);
        let mut depth = self.depth;
        let (length, token) = match first {
            '"' => {
                let raw = &text[1..=inside_length(&text[1..])];
                let length = text.len().min(raw.len() + 2);
                let is_key = text[length..].trim_start_matches(spaces).starts_with(':');
                (length, if is_key { Token::Key(raw) } else { Token::Text(raw) })
            }
            '{' | '[' => {
                self.depth += 1;
                (1, Token::Open(first))
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                self.depth = depth;
                (1, Token::Close(first))
            }
            ':' => (1, Token::Colon),
            ',' => (1, Token::Comma),
            _ => {
                let length = text.find(is_end).unwrap_or(text.len());
                (length, Token::Word(&text[..length]))
            }
        };
        self.at = self.value.len() - text.len() + length;
        Some((depth, token))
    }
}

/// A JSON value with the spaces and escapes of `json.dumps(…, ensure_ascii=False)`; numbers are unchanged, texts
/// normalised.
pub(crate) fn respace(value: &str, normalise: Normalise<'_>) -> String {
    let mut out = String::with_capacity(value.len());
    Tokens::of(value).for_each(|(_, token)| token.write(normalise, &mut out));
    out
}

/// The same with unchanged texts.
pub(crate) fn respace_only(value: &str) -> String {
    respace(value, &|text| Cow::Borrowed(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tokens_know_what_is_around_them() {
        let value = "{\"a\\\"\" :[1 , \"b\"]}";
        let mut tokens = Tokens::of(value);
        let found: Vec<_> = tokens.by_ref().collect();
        assert_eq!(
            found,
            [
                (0, Token::Open('{')),
                (1, Token::Key("a\\\"")),
                (1, Token::Colon),
                (1, Token::Open('[')),
                (2, Token::Word("1")),
                (2, Token::Comma),
                (2, Token::Text("b")),
                (1, Token::Close(']')),
                (0, Token::Close('}')),
            ]
        );
        assert_eq!(tokens.at(), value.len());
    }

    #[test]
    fn spaces_are_those_of_json_dumps() {
        let value = json!({"a": [1, null, {}], "b": {"c": "d: e, f", "g": []}});
        let spaced = r#"{"a": [1, null, {}], "b": {"c": "d: e, f", "g": []}}"#;
        for text in [value.to_string(), format!("{value:#}")] {
            assert_eq!(respace_only(&text), spaced);
        }
    }
}
