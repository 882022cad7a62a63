//! Arguments after a header. JSON is passed on byte for byte; arguments in quotes or in Python are passed on as
//! the JSON that they mean.

use std::borrow::Cow;

use crate::json::{self, Mender};

/// Reads one JSON value up to its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawScanner {
    value: Mender,
    begun: bool,
    /// The first character of the value.
    first: Option<char>,
    ended: bool,
}

impl RawScanner {
    /// Whether the value has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.ended
    }

    /// Whether the value has begun and not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.begun && !self.ended
    }

    /// Whether a string has begun and not ended.
    pub(crate) fn is_in_string(&self) -> bool {
        self.value.is_in_string()
    }

    /// Whether text is surely part of the value.
    pub(crate) fn is_same(&mut self, text: &str) -> bool {
        self.begun && !self.ended && self.value.push_within(text)
    }

    /// Reads a comma with the text beside it: see [`Mender::push_joined`].
    pub(crate) fn push_joined(&mut self, text: &str, out: &mut String) -> bool {
        self.is_open() && self.value.push_joined(text, out)
    }

    /// Whether the input so far is one whole JSON value; empty input is not.
    pub(crate) fn is_complete(&self) -> bool {
        if self.ended { self.value.is_valid() } else { self.value.is_complete_at_end() }
    }

    /// Whether the value is no object and no list.
    pub(crate) fn is_scalar(&self) -> bool {
        self.first.is_some_and(|first| !matches!(first, '{' | '['))
    }

    /// Whether the input so far is empty.
    pub(crate) fn is_empty(&self) -> bool {
        !self.begun
    }

    /// Whether the value was mended: its spelling was not JSON.
    pub(crate) fn is_mended(&self) -> bool {
        self.value.is_mended()
    }

    /// The input that is held back when the value ends early.
    pub(crate) fn finish(&mut self) -> String {
        self.value.finish()
    }

    /// Reads text. Returns how many bytes belong to the value, leading white space included, and
    /// the JSON that they mean.
    pub(crate) fn push<'t>(&mut self, text: &'t str) -> (usize, Cow<'t, str>) {
        let mut start = 0;
        if !self.begun {
            start = text.bytes().take_while(|&byte| json::is_space(byte)).count();
            self.begun = start < text.len();
        }
        let rest = &text[start..];
        if rest.is_empty() {
            return (text.len(), Cow::Borrowed(rest));
        }
        let (taken, said, ended) = self.value.push(rest);
        self.ended = ended;
        self.first = self.first.or_else(|| said.chars().next());
        (start + taken, said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The value so far, and whether it is whole.
    fn read(text: &str, chars: usize) -> (String, bool) {
        let mut scanner = RawScanner::default();
        let mut value = String::new();
        for chunk in text.chars().collect::<Vec<_>>().chunks(chars) {
            let chunk: String = chunk.iter().collect();
            if scanner.is_same(&chunk) {
                value.push_str(&chunk);
                continue;
            }
            let (taken, told) = scanner.push(&chunk);
            value.push_str(&told);
            if taken < chunk.len() || scanner.is_done() {
                break;
            }
        }
        (value, scanner.is_complete())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn what_is_complete_is_json_however_it_comes(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "{", "}", "[", "]", "\"a\"", "\"", ":", ",", " ", "\n", "true", "tr", "ue", "null", "1", "-", ".5",
                    "\\u00", "e9", "\\", "n", "é",
                ]),
                0..10),
        ) {
            let text = parts.concat();
            let whole = read(&text, usize::MAX);
            let is_json = serde_json::from_str::<&serde_json::value::RawValue>(&whole.0).is_ok();
            prop_assert_eq!(whole.1, is_json, "{}", &whole.0);
            for chars in 1..5 {
                prop_assert_eq!(read(&text, chars), whole.clone(), "{}", text);
            }
        }
    }
}
