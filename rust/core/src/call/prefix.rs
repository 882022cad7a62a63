//! Whether text begins a call that no token marks: `{"name": "f", "parameters": {`, `[f(a=`, `functools[{…`.
//!
//! In: text, piece by piece. Out: a final verdict, call or text, and where the body of the call begins. The verdict
//! "text" comes as soon as the text cannot be a call. The verdict "call" comes late: for a JSON object at the opening
//! brace of its arguments, for a Python call at its first keyword and `=`, or at its closing bracket. The reader
//! holds the text back until the verdict; a text of more than [`HOLD_LIMIT`] bytes is not a call. Cost: linear, one
//! comparison a byte.

use std::sync::Arc;

use super::python::names;
use super::{Member, ObjectSpec};
use crate::expression::escape_regex;
use crate::json;
use crate::limits::HOLD_LIMIT;
use crate::limits::MAX_WORD_BYTES;
use crate::word::is_word_byte;

/// A part of the beginning of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// White space, or none.
    Space,
    /// Literal text.
    Text(String),
    /// One of these keys, and the quote after it; it skips a number of parts. Where there are some, the key may also be
    /// `type`, whose member these parts are.
    Key(Vec<String>, usize),
    /// A header word, and the quote after it.
    Word,
    /// A header word, and this byte after it.
    Until(u8),
    /// A Python name, which may also contain hyphens, and the bracket after it.
    Name,
    /// A closing bracket; or a keyword and a single `=`.
    Pairs,
}

/// The beginning of a call's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prefix {
    parts: Arc<[Part]>,
}

impl Prefix {
    /// The beginning of a JSON object: its name, then its arguments, which are an object. Models may write
    /// the tool's type before the name.
    pub(crate) fn object(object: &ObjectSpec) -> Self {
        let text = |text: &str| Part::Text(text.to_owned());
        let colon = || [Part::Space, text(":"), Part::Space];
        let mut parts = vec![text("{"), Part::Space, text("\"")];
        for (nth, (member, keys)) in object.members.iter().enumerate() {
            let next = [Part::Space, text(","), Part::Space, text("\"")];
            if nth == 0 {
                let mut typed: Vec<Part> = colon().into();
                typed.push(text("\"function\""));
                typed.extend(next);
                parts.push(Part::Key(keys.clone(), typed.len() + 1));
                parts.extend(typed);
            } else {
                parts.extend(next);
            }
            parts.push(Part::Key(keys.clone(), 0));
            parts.extend(colon());
            match member {
                Member::Arguments => parts.push(text("{")),
                _ => parts.extend([text("\""), Part::Word]),
            }
        }
        Self { parts: parts.into() }
    }

    /// The beginning of a call with a tag and its name. The name is in quotes if the tag ends with
    /// one.
    pub(crate) fn tag(open: &str) -> Self {
        let end = open.bytes().last().filter(|byte| matches!(byte, b'"' | b'\''));
        Self { parts: [Part::Text(open.to_owned()), Part::Until(end.unwrap_or(b'>'))].into() }
    }

    /// A regular expression for the text up to the verdict.
    pub(crate) fn regex(&self) -> String {
        let keys = |keys: &[String]| {
            let keys: Vec<String> = keys.iter().map(|key| escape_regex(key)).collect();
            format!("({})", keys.join("|"))
        };
        let mut regex = String::new();
        for part in &*self.parts {
            match part {
                Part::Space => regex.push_str("\\s*"),
                Part::Text(text) => regex.push_str(&escape_regex(text)),
                Part::Key(all, 0) => regex.extend([&*keys(all), "\""]),
                Part::Key(all, _) => {
                    // The member with the type is optional, so the expression leaves it out.
                    regex.extend(["(", &keys(all), "|type)\""]);
                    return regex;
                }
                Part::Word => regex.push_str("[A-Za-z0-9_.:-]+\""),
                // The beginning of a tag decides: fewer states than with its name.
                Part::Until(_) => return regex,
                Part::Name => regex.push_str("[A-Za-z_][A-Za-z0-9_.-]*\\("),
                Part::Pairs => {}
            }
        }
        regex
    }

    /// The first byte, if it is always the same.
    pub(crate) fn first(&self) -> Option<u8> {
        match self.parts.first()? {
            Part::Text(text) => text.bytes().next(),
            _ => None,
        }
    }

    /// The beginning of a call in Python.
    pub(crate) fn python() -> Self {
        Self { parts: [Part::Name, Part::Pairs].into() }
    }
}

/// The verdict on a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Undecided: more text is needed.
    Open,
    /// Not a call.
    No,
    /// A call.
    Call,
}

/// Reads up to the verdict.
#[derive(Debug, Clone)]
pub(crate) struct Opener {
    /// The parts before the body: white space, text, white space.
    before: Arc<str>,
    body: Prefix,
    /// The index of the current part; the first three are the parts before the body.
    part: usize,
    /// The text of the current part, where it matters: a key, a word, a name or a keyword.
    word: String,
    /// Number of bytes read of a literal.
    byte: usize,
    /// Number of bytes read in all, and before the body.
    read: usize,
    begins: usize,
    name: String,
    pairs: Pairs,
    /// Whether a control token precedes the text. Then an object may end after its name, use other quotes, and
    /// have its arguments in quotes.
    is_marked: bool,
}

/// How much of a first pair was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pairs {
    Open,
    Keyword,
    /// After white space that follows a keyword.
    After,
    /// After `=`.
    Equals,
}

/// The result of one byte for the current part.
enum Taken {
    /// It does not fit.
    No,
    /// The part ends before the byte.
    Before,
    /// It fits, and the part continues.
    Within,
    /// It fits and ends the part.
    Ended,
    /// This is a call.
    Sure,
}

/// The key of the type of a tool.
const TYPE: &str = "type";

/// White space, text and white space before a body.
const BEFORE: usize = 3;

impl Opener {
    /// A reader for a body with `before` before it.
    pub(crate) fn new(before: &Arc<str>, body: &Prefix) -> Self {
        Self {
            before: before.clone(),
            body: body.clone(),
            part: 0,
            word: String::new(),
            byte: 0,
            read: 0,
            begins: 0,
            name: String::new(),
            pairs: Pairs::Open,
            is_marked: false,
        }
    }

    /// A reader for text after a control token, where a name alone makes it a call.
    pub(crate) fn after_token(mut self) -> Self {
        self.is_marked = true;
        self
    }

    /// The beginning of the body: the brace of an object, or the text after the bracket of Python
    /// arguments.
    pub(crate) fn begins(&self) -> usize {
        self.begins
    }

    /// Whether the text before the body begins with this text.
    pub(crate) fn is_after(&self, text: &str) -> bool {
        self.before.starts_with(text)
    }

    /// The call's name, once it is one.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The call's name.
    pub(crate) fn into_name(self) -> String {
        self.name
    }

    /// Reads text. A verdict is final; the caller reads no more text after it.
    pub(crate) fn push(&mut self, text: &str) -> Verdict {
        for byte in text.bytes() {
            match self.byte(byte) {
                Verdict::Open => {}
                verdict => return verdict,
            }
        }
        Verdict::Open
    }

    fn byte(&mut self, byte: u8) -> Verdict {
        if self.read >= HOLD_LIMIT {
            return Verdict::No;
        }
        loop {
            match self.step(byte) {
                Taken::No => return Verdict::No,
                Taken::Sure => return Verdict::Call,
                Taken::Before => self.next_part(),
                Taken::Within => break,
                Taken::Ended => {
                    self.read += 1;
                    self.next_part();
                    let is_last = self.part == BEFORE + self.body.parts.len();
                    return if is_last { Verdict::Call } else { Verdict::Open };
                }
            }
        }
        self.read += 1;
        Verdict::Open
    }

    fn next_part(&mut self) {
        self.part += 1;
        self.byte = 0;
        self.word.clear();
        if self.part == BEFORE {
            self.begins = self.read;
        }
    }

    fn step(&mut self, byte: u8) -> Taken {
        let is_quote = self.is_marked && byte == b'\'' && !self.is_python();
        let byte = if is_quote { b'"' } else { byte };
        let space = if json::is_space(byte) { Taken::Within } else { Taken::Before };
        let part = match self.part {
            0 | 2 => return space,
            1 => return expect(&self.before, &mut self.byte, byte),
            part => self.body.parts.get(part - BEFORE),
        };
        match part {
            None => Taken::No,
            Some(Part::Space) => space,
            Some(Part::Text(text)) if self.is_marked && self.ends_early(text, byte) => Taken::Sure,
            Some(Part::Text(text)) => expect(text, &mut self.byte, byte),
            Some(Part::Key(keys, skipped)) if byte == b'"' => {
                let is_key = keys.contains(&self.word);
                let is_type = *skipped > 0 && self.word == TYPE;
                self.part += if is_key { *skipped } else { 0 };
                if is_key || is_type { Taken::Ended } else { Taken::No }
            }
            Some(Part::Key(keys, skipped)) => {
                self.word.push(char::from(byte));
                let is_begun = keys.iter().any(|key| key.starts_with(&self.word))
                    || *skipped > 0 && TYPE.starts_with(&self.word);
                if is_begun { Taken::Within } else { Taken::No }
            }
            Some(Part::Word) if byte == b'"' && !self.word.is_empty() => self.end_name(),
            Some(&Part::Until(end)) if byte == end && !self.word.is_empty() => self.end_name(),
            Some(Part::Word | Part::Until(_)) => self.name_byte(is_word_byte(byte), byte),
            Some(Part::Name) if byte == b'(' && names::is_name(&self.word) => {
                self.name = std::mem::take(&mut self.word);
                self.begins = self.read + 1;
                Taken::Ended
            }
            Some(Part::Name) => {
                let begins = begins_word(byte) || !self.word.is_empty();
                self.name_byte(begins && names::is_of_name(byte), byte)
            }
            Some(Part::Pairs) => self.pair(byte),
        }
    }

    fn end_name(&mut self) -> Taken {
        self.name = std::mem::take(&mut self.word);
        Taken::Ended
    }

    fn is_python(&self) -> bool {
        matches!(self.body.parts.first(), Some(Part::Name))
    }

    /// Whether an object after a token is a call already: it ends after its name, or has its arguments in quotes.
    fn ends_early(&self, text: &str, byte: u8) -> bool {
        let before = self.part.checked_sub(BEFORE + 2).and_then(|part| self.body.parts.get(part));
        byte == b'}' && matches!(before, Some(Part::Word)) && self.byte == 0
            || byte == b'"' && text == "{" && self.part > BEFORE
    }

    fn name_byte(&mut self, fits: bool, byte: u8) -> Taken {
        if !fits || self.word.len() >= MAX_WORD_BYTES {
            return Taken::No;
        }
        self.word.push(char::from(byte));
        Taken::Within
    }

    fn pair(&mut self, byte: u8) -> Taken {
        let is_letter = begins_word(byte);
        self.pairs = match (self.pairs, byte) {
            (Pairs::Equals, b'=') => return Taken::No,
            (Pairs::Equals, _) | (Pairs::Open, b')') => return Taken::Sure,
            (Pairs::Open, byte) if json::is_space(byte) => Pairs::Open,
            (Pairs::Open, _) if is_letter => Pairs::Keyword,
            (Pairs::Keyword, byte) if is_letter || byte.is_ascii_digit() => Pairs::Keyword,
            (Pairs::Keyword | Pairs::After, b'=') => Pairs::Equals,
            (Pairs::Keyword | Pairs::After, byte) if json::is_space(byte) => Pairs::After,
            _ => return Taken::No,
        };
        Taken::Within
    }
}

/// The next byte of a literal, of which `at` bytes were read.
fn expect(text: &str, at: &mut usize, byte: u8) -> Taken {
    match text.as_bytes().get(*at) {
        None => Taken::Before,
        Some(expected) if *expected == byte => {
            *at += 1;
            if *at == text.len() { Taken::Ended } else { Taken::Within }
        }
        Some(_) => Taken::No,
    }
}

fn begins_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn llama() -> Prefix {
        let members = vec![
            (Member::Name, vec!["name".to_owned()]),
            (Member::Arguments, vec!["parameters".to_owned(), "arguments".to_owned()]),
        ];
        Prefix::object(&ObjectSpec { members, several: false, by_name: false, within: None })
    }

    /// The verdict on a text, the number of bytes read, the beginning of the body, and the name.
    fn read(before: &str, body: &Prefix, text: &str) -> (Verdict, usize, usize, String) {
        let mut opener = Opener::new(&before.into(), body);
        for (at, c) in text.char_indices() {
            let verdict = opener.push(c.encode_utf8(&mut [0; 4]));
            if verdict != Verdict::Open {
                return (verdict, at + c.len_utf8(), opener.begins(), opener.into_name());
            }
        }
        (Verdict::Open, text.len(), opener.begins(), opener.into_name())
    }

    #[test]
    fn calls_are_known_by_their_first_argument() {
        for (before, body, text, begins, name) in [
            ("", llama(), r#"{"name": "f", "parameters": {"#, 0, "f"),
            ("", llama(), " \n{ \"name\" :\t\"a.b-c:d_1\" ,\"arguments\":{", 2, "a.b-c:d_1"),
            ("functools[", llama(), "functools[ {\"name\": \"f\", \"arguments\": {", 11, "f"),
            ("", llama(), r#"{"type": "function", "name": "f", "parameters": {"#, 0, "f"),
            ("", llama(), "{ \"type\":\"function\" ,\n\"name\":\"f\",\"arguments\": {", 0, "f"),
            ("[", Prefix::python(), "[f()", 3, "f"),
            ("[", Prefix::python(), "[ g.h( a = ", 6, "g.h"),
            ("[", Prefix::python(), "[get-it(_a1=[", 8, "get-it"),
        ] {
            let expected = (Verdict::Call, text.len(), begins, name.to_owned());
            assert_eq!(read(before, &body, text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_call_is_known_at_once() {
        for (before, body, text) in [
            ("", llama(), "x"),
            ("", llama(), "{\"n\": "),
            ("", llama(), "{\"name\": 5"),
            ("", llama(), "{\"type\": \"object\""),
            ("", llama(), "{\"type\": \"function\"}"),
            ("", llama(), "{\"type\": \"function\", \"type"),
            ("", llama(), "{\"types"),
            ("", llama(), "{\"name\": \"Bob\", \"ag"),
            ("", llama(), "{\"name\": \"f\", \"parameters\": 3"),
            ("", llama(), "{\"name\": \"Bob "),
            ("", llama(), "{\"name\": \"\""),
            ("", llama(), "{\"name\": \"f\"}"),
            ("", llama(), "{\"parameters"),
            ("", llama(), "{}"),
            ("", llama(), "[{"),
            ("functools[", llama(), "functools i"),
            ("functools[", llama(), "functools[1"),
            ("[", Prefix::python(), "[1"),
            ("[", Prefix::python(), "[]"),
            ("[", Prefix::python(), "[link]"),
            ("[", Prefix::python(), "[f(x)"),
            ("[", Prefix::python(), "[f(x,"),
            ("[", Prefix::python(), "[f(a=="),
            ("[", Prefix::python(), "[f ("),
            ("[", Prefix::python(), "[.f("),
            ("[", Prefix::python(), "[f.("),
            ("[", Prefix::python(), "[f(["),
            ("[", Prefix::python(), "[f('"),
            ("[", Prefix::python(), "[世"),
        ] {
            assert_eq!(read(before, &body, text).0, Verdict::No, "{text}");
        }
    }

    #[test]
    fn the_wait_is_bounded() {
        for (before, body, head, filling) in [
            ("", llama(), "{", " "),
            ("", llama(), "", "\n"),
            ("", llama(), "{\"name\": \"", "f"),
            ("[", Prefix::python(), "[", "f"),
            ("[", Prefix::python(), "[f(", "a"),
        ] {
            let text = format!("{head}{}", filling.repeat(1 << 16));
            let (verdict, taken, ..) = read(before, &body, &text);
            assert_eq!(verdict, Verdict::No, "{head}");
            assert!(taken <= HOLD_LIMIT + 1, "{head}: {taken}");
        }
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "{", "\"name\"", "\"type\": \"function\", ", "\"", ":", " ", "f", ",", "\"arguments\"", "[", "(", "=", ")", "a", "é",
                ]),
                0..16),
            is_object in any::<bool>(),
            chars in 1usize..5,
        ) {
            let text = parts.concat();
            let (before, body) = if is_object { ("", llama()) } else { ("[", Prefix::python()) };
            let mut opener = Opener::new(&before.into(), &body);
            let chunks: Vec<char> = text.chars().collect();
            let mut verdict = Verdict::Open;
            for chunk in chunks.chunks(chars) {
                verdict = opener.push(&chunk.iter().collect::<String>());
                if verdict != Verdict::Open {
                    break;
                }
            }
            let (expected, _, begins, name) = read(before, &body, &text);
            prop_assert_eq!((verdict, opener.begins(), opener.into_name()), (expected, begins, name));
        }
    }
}
