//! Escapes in keys: texts in the place of single characters, such as `&quot;` for `"`.
//!
//! An escape begins with a character that is always escaped (`&`), so any key is read back as it was.
//! A reader leaves text that is no escape as it is.

use std::borrow::Cow;

use crate::call::shape::ShapeKeys;
use crate::error::{Checked, wrong};

/// Maximum number of escapes, and of bytes of one.
const MAX_ESCAPES: usize = 16;
const MAX_BYTES: usize = 16;

/// Each character with its escape.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Escapes(Vec<(char, String)>);

impl Escapes {
    /// Reads the key `escapes`.
    pub(super) fn parse(keys: &ShapeKeys<'_>) -> Checked<Self> {
        let Some(value) = keys.table.get("escapes") else { return Ok(Self::default()) };
        let key = format!("{}.escapes", keys.key);
        let escape = |(of, text): (&String, &toml::Value)| {
            let (mut chars, text) = (of.chars(), text.as_str()?);
            let (of, None) = (chars.next()?, chars.next()) else { return None };
            ((2..=MAX_BYTES).contains(&text.len())).then(|| (of, text.to_owned()))
        };
        let table = value.as_table().filter(|table| (1..=MAX_ESCAPES).contains(&table.len()));
        let escapes: Option<Vec<(char, String)>> =
            table.and_then(|table| table.iter().map(escape).collect());
        let Some(escapes) = escapes else {
            let problem = format!(
                "is no table of escapes; expected 1 to {MAX_ESCAPES} characters and the texts of 2 to {MAX_BYTES} bytes for them"
            );
            return wrong(key, problem);
        };
        for (at, (_, text)) in escapes.iter().enumerate() {
            let first = text.chars().next();
            let has_escape = escapes.iter().any(|(of, _)| Some(*of) == first);
            let is_apart = |(_, other): &(char, String)| !other.starts_with(&**text);
            let others = escapes.iter().enumerate().filter(|(other, _)| *other != at);
            if !has_escape || !others.map(|(_, other)| other).all(is_apart) {
                let problem = format!(
                    "has {text:?}, expected a text that begins with a character which has an escape, and begins no other"
                );
                return wrong(key, problem);
            }
        }
        Ok(Self(escapes))
    }

    /// A key as it is written.
    pub(super) fn written<'k>(&self, key: &'k str) -> Cow<'k, str> {
        if !key.contains(|c| self.of(c).is_some()) {
            return Cow::Borrowed(key);
        }
        let mut written = String::with_capacity(key.len() + MAX_BYTES);
        for c in key.chars() {
            match self.of(c) {
                Some(text) => written.push_str(text),
                None => written.push(c),
            }
        }
        Cow::Owned(written)
    }

    /// A key as it is meant.
    pub(super) fn read<'k>(&self, key: &'k str) -> Cow<'k, str> {
        if self.0.is_empty() {
            return Cow::Borrowed(key);
        }
        let mut read = String::with_capacity(key.len());
        let mut rest = key;
        while let Some(c) = rest.chars().next() {
            let found = self.0.iter().find(|(_, text)| rest.starts_with(&**text));
            let (of, length) = found.map_or((c, c.len_utf8()), |(of, text)| (*of, text.len()));
            read.push(of);
            rest = &rest[length..];
        }
        Cow::Owned(read)
    }

    fn of(&self, c: char) -> Option<&str> {
        self.0.iter().find(|(of, _)| *of == c).map(|(_, text)| text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn xml() -> Escapes {
        Escapes(vec![('&', "&amp;".to_owned()), ('"', "&quot;".to_owned())])
    }

    #[test]
    fn what_is_no_escape_stays() {
        for (key, read) in
            [("a&b", "a&b"), ("&amp;quot;", "&quot;"), ("&quot", "&quot"), ("&&amp;", "&&")]
        {
            assert_eq!(xml().read(key), read);
        }
    }

    proptest! {
        #[test]
        fn keys_come_back(key in "[&\"ampquot;x]{0,12}") {
            let written = xml().written(&key).into_owned();
            prop_assert!(!written.contains('"'));
            prop_assert_eq!(xml().read(&written), key);
        }
    }
}
