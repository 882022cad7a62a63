//! Text written as a JSON value: a string means its content, any other value means itself.
//!
//! ```text
//! "a\"b"     the content a"b
//! {"a": 1}   the content {"a": 1}
//! ```

use crate::json::{self, Lexer};

/// Reader of one value as it comes. Memory: one escape.
#[derive(Debug, Clone)]
pub(super) struct ValueReader {
    lexer: Lexer,
    is_string: Option<bool>,
    /// Escape that is not complete.
    escape: String,
}

impl ValueReader {
    pub(super) fn new() -> Self {
        Self { lexer: Lexer::default(), is_string: None, escape: String::new() }
    }

    /// Reads text: the number of bytes that belong to the value, the text that they mean, and whether the value has
    /// ended.
    pub(super) fn push(&mut self, text: &str) -> (usize, String, bool) {
        let end = self.lexer.push(text.as_bytes());
        let taken = end.unwrap_or(text.len());
        let mut part = &text[..taken];
        let is_string = if let Some(is_string) = self.is_string {
            is_string
        } else {
            part = part.trim_start_matches([' ', '\t', '\n', '\r']);
            if part.is_empty() {
                return (taken, String::new(), end.is_some());
            }
            let is_string = part.starts_with('"');
            self.is_string = Some(is_string);
            part = part.strip_prefix('"').unwrap_or(part);
            is_string
        };
        if !is_string {
            return (taken, part.to_owned(), end.is_some());
        }
        if end.is_some() {
            part = part.strip_suffix('"').unwrap_or(part);
        }
        self.escape.push_str(part);
        let whole = if end.is_some() { self.escape.len() } else { whole_escapes(&self.escape) };
        let rest = self.escape.split_off(whole);
        let said = json::unescape(&std::mem::replace(&mut self.escape, rest));
        (taken, said, end.is_some())
    }

    /// Whether a string has begun and not ended.
    pub(super) fn is_in_string(&self) -> bool {
        self.lexer.is_in_string()
    }

    /// The incomplete escape at the end.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.escape)
    }
}

/// The length of the inside of a string without an incomplete escape, or half a surrogate pair, at its end.
fn whole_escapes(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        let mut digits = bytes.iter().skip(at + 2).take(4);
        let is_code = bytes.get(at + 1) == Some(&b'u') && digits.all(u8::is_ascii_hexdigit);
        let length = if is_code { 6 } else { 2 };
        if at + length > bytes.len() {
            return at;
        }
        let is_high = is_code
            && matches!(bytes[at + 2], b'd' | b'D')
            && matches!(bytes[at + 3], b'8' | b'9' | b'a' | b'A' | b'b' | b'B');
        let after = &bytes[at + length..];
        if is_high && (after.is_empty() || (after[0] == b'\\' && after.len() < 6)) {
            return at;
        }
        at += length;
        while at < bytes.len() && !text.is_char_boundary(at) {
            at += 1;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str, chars: usize) -> (usize, String) {
        let mut reader = ValueReader::new();
        let (mut taken, mut out) = (0, String::new());
        for chunk in text.chars().collect::<Vec<_>>().chunks(chars) {
            let chunk: String = chunk.iter().collect();
            let (length, said, ended) = reader.push(&chunk);
            taken += length;
            out.push_str(&said);
            if ended {
                break;
            }
        }
        (taken, out + &reader.finish())
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "\"", "\\", "u", "d83d", "\\ud83d", "\\ude00", "\\n", "é", "x", "1", " ", "{", "}", ",",
                ]),
                0..12),
            quote in "\"?",
            chars in 1usize..4,
        ) {
            let text = quote + &parts.concat();
            prop_assert_eq!(read(&text, chars), read(&text, usize::MAX), "{}", text);
        }
    }
}
