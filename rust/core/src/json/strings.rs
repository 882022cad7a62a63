//! The inside of JSON strings: escapes, and normalisation of the text between them.
//!
//! A vocabulary normalises text. In JSON, letters and digits end escapes: if the `n` of `\n` composed with
//! the next character, the escape would be destroyed. So each text inside a string is normalised separately,
//! and a character that would compose with an escape before it is written as an escape.

use std::borrow::Cow;
use std::fmt::Write as _;

use chatcodec_vocab::{Vocab, may_join};

/// Normalisation of text; idempotent.
pub(crate) type Normalise<'a> = &'a dyn for<'t> Fn(&'t str) -> Cow<'t, str>;

/// Appends `text` as the inside of a JSON string, with the escapes of `ensure_ascii=False`.
pub(crate) fn escape_into(text: &str, out: &mut String) {
    out.reserve(text.len());
    let mut rest = text;
    // What has an escape is ASCII.
    while let Some(at) = first_escaped(rest.as_bytes()) {
        out.push_str(&rest[..at]);
        escape_char(rest.as_bytes()[at] as char, out);
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

/// Where the first byte is that has an escape. Sixteen bytes are looked at together, without branches.
fn first_escaped(bytes: &[u8]) -> Option<usize> {
    let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    let (chunks, _) = bytes.as_chunks::<16>();
    let has_escaped =
        |chunk: &&[u8; 16]| chunk.iter().fold(false, |found, &byte| found | is_escaped(byte));
    let from = 16 * chunks.iter().take_while(|chunk| !has_escaped(chunk)).count();
    bytes[from..].iter().position(|&byte| is_escaped(byte)).map(|at| from + at)
}

/// Appends `text` as a JSON string: in quotes, with these escapes.
pub(crate) fn quote_into(text: &str, out: &mut String) {
    out.push('"');
    escape_into(text, out);
    out.push('"');
}

fn escape_char(c: char, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\0'..='\u{1f}' => {
            // Two digits are zero, the third 0 or 1.
            out.push_str(if c < '\u{10}' { "\\u000" } else { "\\u001" });
            out.extend(char::from_digit(c as u32 % 16, 16));
        }
        _ => out.push(c),
    }
}

/// Number of bytes that [`escape_into`] writes for a character.
pub(crate) fn escaped_len(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => c.len_utf8(),
    }
}

/// A part of the inside of a string.
enum Part<'a> {
    /// Unescaped text.
    Text(&'a str),
    /// An escape: its spelling and its character.
    Escape(&'a str, char),
    /// An escape of half of a surrogate pair.
    Half(u16),
}

/// The parts of the inside of a string. Invalid escapes are text.
struct Parts<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let rest = self.rest;
        let (length, part) = match rest.find('\\') {
            None if rest.is_empty() => return None,
            None => (rest.len(), Part::Text(rest)),
            Some(0) => escape(rest),
            Some(at) => (at, Part::Text(&rest[..at])),
        };
        self.rest = &rest[length..];
        Some(part)
    }
}

/// The escape at the beginning of a text, or its backslash.
fn escape(text: &str) -> (usize, Part<'_>) {
    let c = match text.as_bytes().get(1) {
        Some(&c @ (b'"' | b'\\' | b'/')) => c as char,
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return code_point(text).unwrap_or((1, Part::Text(&text[..1]))),
        _ => return (1, Part::Text(&text[..1])),
    };
    (2, Part::Escape(&text[..2], c))
}

/// `\uXXXX` or a pair of them.
fn code_point(text: &str) -> Option<(usize, Part<'_>)> {
    let unit = |at: usize| {
        let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
    };
    let first = unit(0)?;
    let second = unit(6).filter(|_| matches!(first, 0xD800..=0xDBFF));
    let decoded = char::decode_utf16([Some(first), second].into_iter().flatten()).next()?;
    let Ok(c) = decoded else { return Some((6, Part::Half(first))) };
    let length = 6 * c.len_utf16();
    Some((length, Part::Escape(&text[..length], c)))
}

/// The text that the inside of a JSON string means. Invalid escapes stay unchanged; half of a
/// surrogate pair becomes U+FFFD.
pub(crate) fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    for part in (Parts { rest: raw }) {
        match part {
            Part::Text(part) => text.push_str(part),
            Part::Escape(_, c) => text.push(c),
            Part::Half(_) => text.push('\u{FFFD}'),
        }
    }
    text
}

/// Whether the inside of a JSON string has half of a surrogate pair, which is not text.
pub(crate) fn has_lone_surrogate(raw: &str) -> bool {
    Parts { rest: raw }.any(|part| matches!(part, Part::Half(_)))
}

/// One JSON value as a vocabulary encodes it: the texts of its strings are normalised, the rest is
/// unchanged.
pub(crate) fn normalise_value<'a>(value: &'a str, vocab: &Vocab) -> Cow<'a, str> {
    match vocab.normalise(value) {
        Cow::Owned(changed) if changed == value => Cow::Borrowed(value),
        Cow::Owned(_) if !vocab.normalises_whole_texts() => {
            Cow::Owned(normalise(value, &|text| vocab.normalise(text)))
        }
        normal => normal,
    }
}

/// A JSON value with the texts of its strings normalised. Everything else, escapes included, is
/// unchanged.
fn normalise(value: &str, normalise: Normalise<'_>) -> String {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(quote) = rest.find('"') {
        let (before, string) = rest.split_at(quote + 1);
        out.push_str(before);
        let length = inside_length(string);
        let mut inside = Inside { normalise, out: &mut out, after_escape: false };
        for part in (Parts { rest: &string[..length] }) {
            match part {
                Part::Text(text) => inside.text(text),
                Part::Escape(raw, _) => inside.escape(raw),
                Part::Half(unit) => inside.unit(unit),
            }
        }
        rest = &string[length..];
        let end = rest.len().min(1);
        out.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Appends the inside of a JSON string with its text normalised, and with necessary escapes only.
pub(crate) fn respell(raw: &str, normalise: Normalise<'_>, out: &mut String) {
    let mut inside = Inside { normalise, out, after_escape: false };
    let mut text = String::new();
    for part in (Parts { rest: raw }) {
        match part {
            Part::Text(part) => text.push_str(part),
            Part::Escape(_, c) => text.push(c),
            Part::Half(unit) => {
                inside.text(&std::mem::take(&mut text));
                inside.unit(unit);
            }
        }
    }
    inside.text(&text);
}

/// Appends normalised text as [`escape_into`] does; a character that would compose with an escape
/// is an escape.
pub(crate) fn escape_normalised(text: &str, normalise: Normalise<'_>, out: &mut String) {
    Inside { normalise, out, after_escape: false }.text(text);
}

/// Appends the inside of a string that follows an escape, as [`escape_normalised`] does.
pub(crate) fn escape_after_escape(text: &str, normalise: Normalise<'_>, out: &mut String) {
    Inside { normalise, out, after_escape: true }.text(text);
}

/// Number of bytes of the inside of a string, up to its closing quote.
pub(super) fn inside_length(text: &str) -> usize {
    let mut escaped = false;
    let is_end = |byte: u8| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    };
    text.bytes().position(is_end).unwrap_or(text.len())
}

/// Writer of the inside of a string.
struct Inside<'a> {
    normalise: Normalise<'a>,
    out: &'a mut String,
    /// Whether the next text follows an escape.
    after_escape: bool,
}

impl Inside<'_> {
    fn escape(&mut self, raw: &str) {
        self.out.push_str(raw);
        self.after_escape = true;
    }

    /// An escape of four digits.
    fn unit(&mut self, unit: u16) {
        // Writing to a string cannot fail.
        let _ = write!(self.out, "\\u{unit:04x}");
        self.after_escape = true;
    }

    fn text(&mut self, text: &str) {
        let text = (self.normalise)(text);
        let mut rest = &*text;
        while let Some(c) = rest.chars().next() {
            if std::mem::take(&mut self.after_escape) {
                let joining = self.joining(rest);
                for c in joining.chars() {
                    // No character after U+FFFF composes with a letter or digit of ASCII.
                    match u16::try_from(c as u32) {
                        Ok(unit) => self.unit(unit),
                        Err(_) => self.out.push(c),
                    }
                }
                rest = &rest[joining.len()..];
                // The next text composes with nothing here.
                self.after_escape = false;
                if !joining.is_empty() {
                    continue;
                }
            }
            escape_char(c, self.out);
            self.after_escape = escaped_len(c) > c.len_utf8();
            rest = &rest[c.len_utf8()..];
        }
    }

    /// The beginning of a text that would compose with the escape before it.
    fn joining<'t>(&self, text: &'t str) -> &'t str {
        let length = text.find(|c| !may_join(c)).unwrap_or(text.len());
        let joining = &text[..length];
        let last = self.out.chars().next_back().unwrap_or_default();
        let joined = format!("{last}{joining}");
        if joining.is_empty() || (self.normalise)(&joined) == joined { "" } else { joining }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::is_value;
    use super::*;
    use unicode_normalization_alignments::UnicodeNormalization;

    /// A normalisation; a second time changes nothing.
    type Normalizer = fn(&str) -> String;

    const NORMALIZERS: [Normalizer; 6] = [
        |text| text.nfc().map(|(c, _)| c).collect(),
        |text| text.nfd().map(|(c, _)| c).collect(),
        |text| text.nfkc().map(|(c, _)| c).collect(),
        |text| text.nfkd().map(|(c, _)| c).collect(),
        |text| text.chars().flat_map(char::to_lowercase).collect(),
        |text| text.replace("ab", "\"\\"),
    ];

    const NFC: usize = 0;
    const NFKC: usize = 2;
    /// The index of the function that makes some JSON invalid.
    const REPLACE: usize = 5;

    /// Marks, jamo, signs that compose with letters or stand for signs of JSON, and what escapes are made of.
    fn text() -> impl Strategy<Value = String> {
        let sign = "[a-fnrtuåéK가＂＼；①ﬁ<=>\"\\\\\n\t\u{0}\u{1f}/\u{37e}]";
        let mark = "[\u{300}-\u{30c}\u{323}\u{327}\u{338}\u{345}\u{3099}\u{1161}\u{11a8}\u{1d165}\u{1d16e}]";
        let piece = prop_oneof![3 => sign, 4 => mark, 1 => "\\PC"];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![4 => text().prop_map(Value::from), 1 => any::<i32>().prop_map(Value::from)];
        leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::vec((text(), inner), 0..3)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// A value with every text in it changed.
    fn changed(value: &Value, change: &dyn Fn(&str) -> String) -> Value {
        match value {
            Value::String(text) => change(text).into(),
            Value::Array(items) => items.iter().map(|item| changed(item, change)).collect(),
            Value::Object(members) => {
                let members = members.iter();
                Value::Object(
                    members.map(|(key, value)| (change(key), changed(value, change))).collect(),
                )
            }
            other => other.clone(),
        }
    }

    fn read(text: &str) -> Value {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The same with characters written as escapes, one in so many.
    fn escaped(json: &str, every: usize) -> String {
        let mut out = String::new();
        for (nth, c) in json.chars().enumerate() {
            if nth % every == 0 && !c.is_ascii() {
                c.encode_utf16(&mut [0; 2])
                    .iter()
                    .for_each(|unit| write!(out, "\\u{unit:04X}").expect("a string takes all"));
            } else {
                out.push(c);
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn unescape_reverses_escape(text in any::<String>()) {
            let mut escaped = String::new();
            escape_into(&text, &mut escaped);
            prop_assert_eq!(escaped.len(), text.chars().map(escaped_len).sum::<usize>());
            prop_assert_eq!(unescape(&escaped), text);
        }

        #[test]
        fn escapes_are_those_of_serde_json(
            text in prop::collection::vec(prop_oneof![4 => Just('a'), 1 => proptest::char::range('\0', '0'), 1 => any::<char>(), 1 => Just('\\')], 0..80),
        ) {
            let text = String::from_iter(text);
            let mut quoted = String::new();
            quote_into(&text, &mut quoted);
            prop_assert_eq!(quoted, serde_json::to_string(&text).expect("it is a string"));
        }

        #[test]
        fn values_are_normalised_not_their_json(value in value(), pretty in any::<bool>()) {
            let json = if pretty { format!("{value:#}") } else { value.to_string() };
            for (nth, apply) in NORMALIZERS.into_iter().enumerate() {
                let normal = normalise(&json, &|text| apply(text).into());
                prop_assert!(is_value(&normal), "{}", normal);
                prop_assert_eq!(read(&normal), changed(&value, &apply), "{}", nth);
                prop_assert_eq!(normalise(&normal, &|text| apply(text).into()), normal.as_str());
                if nth != REPLACE {
                    prop_assert_eq!(apply(&normal), normal);
                }
            }
        }

        /// A given escape stays an escape; the whole text is the same.
        #[test]
        fn escapes_stay_as_they_are(value in value(), every in 1usize..5) {
            let json = escaped(&value.to_string(), every);
            for apply in [NORMALIZERS[NFC], NORMALIZERS[NFKC]] {
                let normal = normalise(&json, &|text| apply(text).into());
                prop_assert_eq!(changed(&read(&normal), &apply), changed(&value, &apply));
                prop_assert_eq!(apply(&normal), normal.as_str());
                if apply(&json) == json {
                    prop_assert_eq!(normal, json.as_str());
                }
            }
        }

        #[test]
        fn strings_are_spelled_anew(text in text(), every in 1usize..5) {
            let raw = escaped(&Value::from(text.as_str()).to_string(), every);
            let raw = &raw[1..raw.len() - 1];
            for normalizer in NORMALIZERS {
                let mut out = String::from("\"");
                respell(raw, &|text| normalizer(text).into(), &mut out);
                out.push('"');
                prop_assert_eq!(read(&out), Value::from(&*normalizer(&text)));
            }
            let mut plain = String::new();
            respell(raw, &|text| Cow::Borrowed(text), &mut plain);
            let mut expected = String::new();
            escape_into(&text, &mut expected);
            prop_assert_eq!(plain, expected);
        }
    }

    #[test]
    fn halves_of_pairs_stay() {
        let mut out = String::new();
        let raw = "a\\uD800\\u0062\\udE00\\uD83D\\uDE00\\ud83d\u{307}\u{301}";
        respell(raw, &|text| NORMALIZERS[NFC](text).into(), &mut out);
        assert_eq!(out, "a\\ud800b\\ude00😀\\ud83d\\u0307\\u0301");
        assert!(
            has_lone_surrogate("\\ud83d\\\\ude00")
                && !has_lone_surrogate("\\ud83d\\ude00\\\\ud800")
        );
    }

    /// Number of marks after an escape that are checked at once.
    #[test]
    fn marks_after_escapes_take_linear_work() {
        let looked = std::cell::Cell::new(0);
        let count = |text: &str| looked.set(looked.get() + text.len());
        for marks in [1000, 4000] {
            looked.set(0);
            let json = format!("\"\\n{}\"", "\u{30a}".repeat(marks));
            let normal = normalise(&json, &|text| {
                count(text);
                Cow::Owned(NORMALIZERS[NFC](text))
            });
            assert!(is_value(&normal));
            assert!(looked.get() < 3 * json.len(), "{} of {}", looked.get(), json.len());
        }
    }
}
