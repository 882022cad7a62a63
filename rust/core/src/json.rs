//! JSON text: finds the end of a value in a stream, byte for byte; and writes values as Python's
//! `json.dumps(…, ensure_ascii=False)` does.
//!
//! This module parses no numbers and builds no objects: `1e400`, duplicate keys and deep nesting
//! pass through.

mod mend;
mod strings;
mod tokens;
mod write;

pub(crate) use mend::{Mender, unquoted};
pub(crate) use strings::{
    Normalise, escape_after_escape, escape_into, escape_normalised, escaped_len,
    has_lone_surrogate, normalise_value, quote_into, unescape,
};
pub(crate) use tokens::{Token, Tokens, respace, respace_only};
pub(crate) use write::{write, write_list};

/// Maximum nesting that is checked; a deeper value is passed on but never called valid.
const MAX_DEPTH: usize = 32_768;

pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// `text` without the JSON white space at its ends.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r'])
}

/// Whether `text` is exactly one JSON value, with nothing around it.
pub(crate) fn is_value(text: &str) -> bool {
    check_value(text).is_ok()
}

/// The reason why `text` is not exactly one JSON value, if it is not.
pub(crate) fn check_value(text: &str) -> std::result::Result<(), String> {
    let mut lexer = Lexer::default();
    let is_value = match lexer.push(text.as_bytes()) {
        Some(end) => end == text.len() && lexer.is_valid(),
        None => lexer.is_complete_at_end(),
    };
    match is_value {
        true => Ok(()),
        false if lexer.too_deep => Err(format!("is nested deeper than {MAX_DEPTH}")),
        false => Err("is not valid JSON, expected exactly one JSON value".into()),
    }
}

/// State of the lexer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    /// After `[`: a value or `]`.
    FirstElement,
    /// After `{`: a key or `}`.
    FirstKey,
    Key,
    Colon,
    /// After a value inside a container: `,` or its end.
    After,
    Text,
    Escape,
    /// Within `\u`, with the number of missing hexadecimal digits.
    Hex(u8),
    Number(Number),
    /// Within `true`, `false` or `null`: which word, and how much of it was read.
    Word(&'static [u8], usize),
    /// Not JSON any more; only strings and brackets are followed, to find the end.
    Loose,
    LooseText,
    LooseEscape,
    Ended,
}

impl State {
    /// Whether the lexer is between words, numbers, strings and punctuation, where white space is
    /// free.
    fn is_between(self) -> bool {
        matches!(
            self,
            Self::Value
                | Self::FirstElement
                | Self::FirstKey
                | Self::Key
                | Self::Colon
                | Self::After
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

impl Number {
    fn is_whole(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::Power)
    }

    fn next(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Minus, b'0') => Self::Zero,
            (Self::Minus, b'1'..=b'9') | (Self::Integer, b'0'..=b'9') => Self::Integer,
            (Self::Zero | Self::Integer, b'.') => Self::Point,
            (Self::Zero | Self::Integer | Self::Fraction, b'e' | b'E') => Self::Exponent,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Exponent, b'+' | b'-') => Self::Sign,
            (Self::Exponent | Self::Sign | Self::Power, b'0'..=b'9') => Self::Power,
            _ => return None,
        })
    }
}

/// Result of reading a part of an array or object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    /// Number of bytes read, without the last bracket and bytes that are not JSON.
    pub(crate) read: usize,
    /// How many of them [`Lexer::mend`] leaves unchanged; 0 if it continues earlier text.
    pub(crate) mendable: Option<usize>,
    /// Whether the next byte is the last bracket.
    pub(crate) is_whole: bool,
}

/// Number of bytes that continue a string unchanged.
fn plain(bytes: &[u8]) -> usize {
    let is_plain = |&byte: &u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    bytes.iter().position(|byte| !is_plain(byte)).unwrap_or(bytes.len())
}

/// Finds the end of one JSON value, given in pieces of any size, and checks whether it is valid.
#[derive(Debug, Clone)]
pub(crate) struct Lexer {
    state: State,
    depth: usize,
    /// One bit per open container, set for objects.
    objects: Vec<u64>,
    /// Whether the string being read is a key.
    in_key: bool,
    valid: bool,
    too_deep: bool,
}

impl Default for Lexer {
    fn default() -> Self {
        let state = State::Value;
        Self { state, depth: 0, objects: Vec::new(), in_key: false, valid: true, too_deep: false }
    }
}

impl Lexer {
    /// Whether a string is open.
    pub(crate) fn is_in_string(&self) -> bool {
        matches!(
            self.state,
            State::Text | State::Escape | State::Hex(_) | State::LooseText | State::LooseEscape
        )
    }

    /// Reads further. Returns `Some(n)` when the value has ended: its last byte is before
    /// `bytes[n]`.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if self.state == State::Ended {
                return Some(at);
            }
            if self.state == State::Text {
                at += plain(&bytes[at..]);
                if at == bytes.len() {
                    break;
                }
            }
            // A number or a malformed scalar ends before the byte that does not belong to it.
            if self.step(bytes[at]) {
                at += 1;
            } else {
                self.state = State::Ended;
                return Some(at);
            }
        }
        (self.state == State::Ended).then_some(at)
    }

    /// Reads all bytes if they are certainly within the value.
    pub(crate) fn push_within(&mut self, bytes: &[u8]) -> bool {
        if self.state == State::Text && plain(bytes) == bytes.len() {
            return true;
        }
        // Ending a value takes a bracket for each level.
        let is_within = self.depth > bytes.len()
            || (self.depth > 0 && !bytes.iter().any(|byte| matches!(byte, b'}' | b']')));
        is_within && self.push(bytes).is_none()
    }

    /// Whether the bytes continue a string, a number or white space, so that nothing changes.
    fn is_within(&self, bytes: &[u8]) -> bool {
        match self.state {
            State::Text => plain(bytes) == bytes.len(),
            _ if self.depth == 0 => false,
            State::Number(Number::Integer | Number::Fraction | Number::Power) => {
                bytes.iter().all(u8::is_ascii_digit)
            }
            state => state.is_between() && bytes.iter().all(|&byte| is_space(byte)),
        }
    }

    /// Reads `held`, which is white space and commas, and the bytes, if all of them are JSON inside an array or object
    /// and certain: no backslash comes last. A comma after a value, with nothing but white space after it, is left, as
    /// it may be one too many. Returns how many of the bytes were read. Reads nothing otherwise.
    fn push_strictly(&mut self, held: &[u8], bytes: &[u8]) -> Option<usize> {
        if self.depth == 0 {
            return None;
        }
        // Only brackets change the kinds of levels, and a few of them those of a few.
        let is_bracket = |byte: &u8| matches!(byte, b'{' | b'[' | b'}' | b']');
        let count = bytes.iter().filter(|byte| is_bracket(byte)).count();
        let lowest = self.depth.saturating_sub(count) / 64;
        if count > 0 && (self.depth + count) / 64 > lowest + 1 {
            return None;
        }
        let words = match count {
            0 => [None; 2],
            _ => [lowest, lowest + 1].map(|at| self.objects.get(at).copied()),
        };
        let before = (self.state, self.depth, self.in_key, self.too_deep);
        let mut is_sure = held.iter().all(|&byte| self.step_strictly(byte));
        let mut read = 0;
        while is_sure && read < bytes.len() {
            let rest = &bytes[read..];
            if rest[0] == b',' && self.is_after_value() && rest[1..].iter().all(|&b| is_space(b)) {
                break;
            }
            is_sure = self.step_strictly(rest[0]);
            read += 1;
        }
        if is_sure && self.state != State::Escape {
            return Some(read);
        }
        (self.state, self.depth, self.in_key, self.too_deep) = before;
        self.valid = true;
        for (at, word) in words.into_iter().enumerate() {
            if let (Some(word), Some(place)) = (word, self.objects.get_mut(lowest + at)) {
                *place = word;
            }
        }
        None
    }

    /// Takes one byte; `false` if the value has ended or is no JSON.
    fn step_strictly(&mut self, byte: u8) -> bool {
        self.step(byte);
        self.valid && self.state != State::Ended
    }

    /// Whether a value within an object or a list has ended, or may end here.
    fn is_after_value(&self) -> bool {
        match self.state {
            State::Number(number) => number.is_whole() && self.depth > 0,
            state => state == State::After,
        }
    }

    /// Continues an array or object, up to its last bracket or a byte that does not continue it.
    pub(crate) fn push_valid(&mut self, bytes: &[u8]) -> Stretch {
        let mut stretch = Stretch { read: 0, mendable: None, is_whole: false };
        while stretch.read < bytes.len() {
            if self.state == State::Text {
                stretch.read += plain(&bytes[stretch.read..]);
                stretch.mendable = Some(stretch.read);
                if stretch.read == bytes.len() {
                    break;
                }
            }
            let before = (self.state, self.depth);
            self.step(bytes[stretch.read]);
            stretch.is_whole = self.state == State::Ended && self.valid;
            if stretch.is_whole || !self.valid {
                (self.state, self.depth) = before;
                (self.valid, self.too_deep) = (true, false);
                break;
            }
            stretch.read += 1;
            if self.is_mendable() {
                stretch.mendable = Some(stretch.read);
            }
        }
        stretch
    }

    /// Whether a string continues here, or may begin, after one sign at most.
    fn is_mendable(&self) -> bool {
        match self.state {
            State::Number(number) => number.is_whole(),
            State::Escape | State::Hex(_) | State::Word(..) => false,
            _ => true,
        }
    }

    /// Begins a string at the last mendable place. Its content is `held`, which was read since, and the
    /// following text. Returns the JSON before it.
    pub(crate) fn mend(&mut self, held: &str) -> &'static str {
        self.state = match self.state {
            State::Escape | State::Hex(_) => State::Text,
            State::Word(..) => State::Value,
            State::Number(_) if held.starts_with('-') => State::Value,
            State::Number(_) => State::After,
            state => state,
        };
        let before = match (self.state, self.in_object()) {
            (State::Text, _) => "",
            (State::Colon, _) => ": \"",
            (State::FirstKey | State::Key, _) => "\"\": \"",
            (State::After, true) => ", \"\": \"",
            (State::After, false) => ", \"",
            _ => "\"",
        };
        self.state = State::Text;
        before
    }

    /// Appends the closing quote and brackets that the open value needs.
    pub(crate) fn close_into(&mut self, out: &mut String) {
        out.push_str(if self.in_key { "\": null" } else { "\"" });
        while self.depth > 0 {
            out.push(if self.in_object() { '}' } else { ']' });
            self.depth -= 1;
        }
    }

    /// Whether the input so far is well formed.
    pub(crate) fn is_valid(&self) -> bool {
        self.valid
    }

    /// Whether the value is complete if the input ends here.
    pub(crate) fn is_complete_at_end(&self) -> bool {
        let whole = match self.state {
            State::Ended => true,
            State::Number(number) => self.depth == 0 && number.is_whole(),
            _ => false,
        };
        whole && self.valid
    }

    /// Takes one byte; `false` if the value ended before it.
    fn step(&mut self, byte: u8) -> bool {
        match self.state {
            State::Number(number) => match number.next(byte) {
                Some(number) => self.state = State::Number(number),
                None if !number.is_whole() => return self.loosen(byte),
                None if self.depth == 0 => return false,
                None => {
                    self.state = State::After;
                    return self.step(byte);
                }
            },
            State::Word(word, at) if word[at] == byte => {
                self.state = State::Word(word, at + 1);
                if at + 1 == word.len() {
                    self.end_value();
                }
            }
            State::Text => match byte {
                b'"' if self.in_key => {
                    self.in_key = false;
                    self.state = State::Colon;
                }
                b'"' => self.end_value(),
                b'\\' => self.state = State::Escape,
                0x20.. => {}
                _ => return self.loosen(byte),
            },
            State::Escape => match byte {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.state = State::Text,
                b'u' => self.state = State::Hex(4),
                _ => return self.loosen(byte),
            },
            State::Hex(missing) if byte.is_ascii_hexdigit() => {
                self.state = if missing == 1 { State::Text } else { State::Hex(missing - 1) };
            }
            State::Loose | State::LooseText | State::LooseEscape => return self.step_loose(byte),
            state if is_space(byte) && self.depth > 0 && state.is_between() => {}
            _ => return self.step_structure(byte),
        }
        true
    }

    fn step_structure(&mut self, byte: u8) -> bool {
        let in_object = self.in_object();
        match (self.state, byte) {
            (State::Value | State::FirstElement, _) if self.begin_value(byte) => {}
            (State::FirstElement, b']') | (State::FirstKey, b'}') => self.close(),
            (State::FirstKey | State::Key, b'"') => {
                self.in_key = true;
                self.state = State::Text;
            }
            (State::Colon, b':') => self.state = State::Value,
            (State::After, b',') => self.state = if in_object { State::Key } else { State::Value },
            (State::After, b'}') if in_object => self.close(),
            (State::After, b']') if !in_object => self.close(),
            _ => return self.loosen(byte),
        }
        true
    }

    fn begin_value(&mut self, byte: u8) -> bool {
        self.state = match byte {
            b'{' => return self.open(true),
            b'[' => return self.open(false),
            b'"' => State::Text,
            b'-' => State::Number(Number::Minus),
            b'0' => State::Number(Number::Zero),
            b'1'..=b'9' => State::Number(Number::Integer),
            b't' => State::Word(b"true", 1),
            b'f' => State::Word(b"false", 1),
            b'n' => State::Word(b"null", 1),
            _ => return false,
        };
        true
    }

    fn open(&mut self, object: bool) -> bool {
        if self.depth == MAX_DEPTH {
            self.too_deep = true;
            return false;
        }
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.objects.len() {
            self.objects.push(0);
        }
        self.objects[word] = self.objects[word] & !(1 << bit) | u64::from(object) << bit;
        self.depth += 1;
        self.state = if object { State::FirstKey } else { State::FirstElement };
        true
    }

    fn in_object(&self) -> bool {
        self.depth > 0 && self.objects[(self.depth - 1) / 64] >> ((self.depth - 1) % 64) & 1 == 1
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.end_value();
    }

    fn end_value(&mut self) {
        self.state = if self.depth == 0 { State::Ended } else { State::After };
    }

    /// Stops checking for JSON: from here on the lexer follows strings and brackets only.
    fn loosen(&mut self, byte: u8) -> bool {
        self.valid = false;
        self.state = match self.state {
            State::Text | State::Hex(_) => State::LooseText,
            State::Escape => State::LooseEscape,
            _ => State::Loose,
        };
        self.step_loose(byte)
    }

    fn step_loose(&mut self, byte: u8) -> bool {
        match (self.state, byte) {
            (State::LooseEscape, _) | (State::Loose, b'"') => self.state = State::LooseText,
            (State::LooseText, b'\\') => self.state = State::LooseEscape,
            (State::LooseText, b'"') => {
                self.state = if self.depth == 0 { State::Ended } else { State::Loose };
            }
            (State::LooseText, _) => {}
            (_, b'{' | b'[') => self.depth += 1,
            (_, b'}' | b']' | b',') if self.depth == 0 => return false,
            (_, b'}' | b']') => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.state = State::Ended;
                }
            }
            _ => {}
        }
        true
    }
}

/// Whether `text` is a JSON value that is not a string, with nothing around it.
pub(crate) fn is_bare_value(text: &str) -> bool {
    !text.starts_with('"') && is_value(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_and_others() {
        for text in [
            "{}",
            "[]",
            "0",
            "-1.5e+7",
            "1e400",
            "\"\\u00e9\\n\"",
            "null",
            "[1, {\"a\": []}]",
            "{\"a\": 1, \"a\": 2}",
            "{\"a\":\n\t[true,false]}",
        ] {
            assert!(is_value(text), "{text}");
        }
        for text in [
            "",
            " {}",
            "{} ",
            "{}, \"name\": \"g\"",
            "01",
            "1.",
            "-",
            "tru",
            "nul",
            "'a'",
            "[1,]",
            "{\"a\"}",
            "{,}",
            "{\"a\": 1,}",
            "[}",
            "\"\n\"",
            "\"\\x\"",
            "NaN",
            "[NaN]",
            "[-Infinity]",
            "{\"a\": 1]",
            "[tr ue]",
            "[nu\nll]",
            "[\"\\u00 e9\"]",
            "[\"\\u00e\t9\"]",
            "[- 1]",
            "[1 2]",
            "{\"a\" 1}",
            "\u{feff}{}",
            "[\u{a0}1]",
        ] {
            assert!(!is_value(text), "{text}");
        }
    }

    #[test]
    fn the_end_is_found_in_what_is_not_json_too() {
        for (text, end) in [
            ("{\"a\": tru}}", 10),
            ("{\"a\": \"x}\"}}", 11),
            ("{\"a\": \"\\x}\"}}", 12),
            ("tru, \"b\"", 3),
            ("12}", 2),
            ("{'a': 1}}", 8),
        ] {
            assert_eq!(Lexer::default().push(text.as_bytes()), Some(end), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded_but_the_end_is_found() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(is_value(&deep(MAX_DEPTH)));
        let mut lexer = Lexer::default();
        let text = deep(MAX_DEPTH + 1);
        assert_eq!(lexer.push(text.as_bytes()), Some(text.len()));
        assert!(!lexer.is_valid());
    }

    /// The parts of values, and near misses.
    const PARTS: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        " ",
        "\t",
        "\n",
        "\r",
        "true",
        "false",
        "null",
        "0",
        "-",
        "1",
        ".",
        "e",
        "E",
        "+",
        "u",
        "\\u",
        "00e9",
        "d83d",
        "\\ud83d\\ude00",
        "\\n",
        "\"a\"",
        "\"\": ",
        "é",
        "\u{301}",
        "\u{7f}",
        "\u{1f}",
        "\u{a0}",
        "\u{feff}",
        "NaN",
        "Infinity",
        "/",
        "'",
        "//",
        "t",
        "n",
    ];

    /// One value, as `serde_json` writes it or with other spaces.
    fn value() -> impl Strategy<Value = String> {
        let text = prop::collection::vec(prop::sample::select(PARTS), 0..4)
            .prop_map(|parts| parts.concat());
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i32>().prop_map(Into::into),
            any::<f32>().prop_map(Into::into),
            text.clone().prop_map(Into::into),
        ];
        let value = leaf.prop_recursive(3, 12, 3, move |inner| {
            let members = prop::collection::vec((text.clone(), inner.clone()), 0..3);
            prop_oneof![
                prop::collection::vec(inner, 0..3).prop_map(Into::into),
                members
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        });
        (value, any::<bool>()).prop_map(|(value, pretty)| {
            if pretty { format!("{value:#}") } else { value.to_string() }
        })
    }

    /// A value with some characters removed and others inserted.
    fn mutant() -> impl Strategy<Value = String> {
        let index = any::<prop::sample::Index>;
        let mutation = (index(), 0usize..3, prop::option::of(prop::sample::select(PARTS)));
        (value(), prop::collection::vec(mutation, 0..3)).prop_map(|(mut text, mutations)| {
            for (at, length, with) in mutations {
                let mut places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
                places.push(text.len());
                let start = at.index(places.len());
                let end = (start + length).min(places.len() - 1);
                text.replace_range(places[start]..places[end], with.unwrap_or_default());
            }
            text
        })
    }

    fn many() -> ProptestConfig {
        ProptestConfig::with_cases(4000)
    }

    proptest! {
        #![proptest_config(many())]

        #[test]
        fn agrees_with_serde(text in prop_oneof![
            mutant(),
            prop::collection::vec(prop::sample::select(PARTS), 0..8).prop_map(|parts| parts.concat()),
        ]) {
            let expected = trim(&text) == text
                && serde_json::from_str::<Box<serde_json::value::RawValue>>(&text).is_ok();
            prop_assert_eq!(is_value(&text), expected);
        }

        #[test]
        fn any_split_finds_the_same(text in mutant()) {
            let read = |cuts: &[usize]| {
                let (mut lexer, mut start) = (Lexer::default(), 0);
                for &cut in cuts.iter().chain([&text.len()]) {
                    if let Some(end) = lexer.push(&text.as_bytes()[start..cut]) {
                        return (Some(start + end), lexer.is_valid(), lexer.is_complete_at_end());
                    }
                    start = cut;
                }
                (None, lexer.is_valid(), lexer.is_complete_at_end())
            };
            let whole = read(&[]);
            for cut in 0..=text.len() {
                prop_assert_eq!(read(&[cut]), whole, "cut at {}", cut);
            }
            let each: Vec<usize> = (0..text.len()).collect();
            prop_assert_eq!(read(&each), whole);
        }

        #[test]
        fn a_stretch_of_an_array_is_what_may_begin_one(text in mutant()) {
            let text = format!("[{text}]");
            let read = |cuts: &[usize]| {
                let (mut lexer, mut start) = (Lexer::default(), 0);
                for &cut in cuts.iter().chain([&text.len()]) {
                    let stretch = lexer.push_valid(&text.as_bytes()[start..cut]);
                    start += stretch.read;
                    if stretch.is_whole || start < cut {
                        return (start, stretch.is_whole);
                    }
                }
                (start, false)
            };
            let whole = read(&[]);
            let first = serde_json::Deserializer::from_str(&text).into_iter::<serde::de::IgnoredAny>().next();
            prop_assert_eq!(whole.1, first.is_some_and(|first| first.is_ok()));
            for cut in 0..=text.len() {
                prop_assert_eq!(read(&[cut]), whole, "cut at {}", cut);
            }
        }
    }
}
