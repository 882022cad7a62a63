//! A JSON value as models write it: as JSON; as Python, `{'a': None}`; with a comma after its last member; or as
//! an object in quotes, `"{\"a\": 1}"`. The output is the JSON that the value means.
//!
//! JSON comes out unchanged and at once, except that a comma or a backslash waits for the next character. Text that
//! is neither JSON nor Python comes out unchanged too. Memory: a word, white space after a comma up to [`HOLD_LIMIT`], and a string that
//! may hold an object, up to [`QUOTED_LIMIT`].

use std::borrow::Cow;

use super::{Lexer, State, escape_into, has_lone_surrogate, is_space, trim, unescape};
use crate::limits::HOLD_LIMIT;

/// A longer string is never read as an object.
const QUOTED_LIMIT: usize = 16 * HOLD_LIMIT;

/// Words of Python and the JSON that they mean.
const WORDS: [(&str, &str); 3] = [("None", "null"), ("True", "true"), ("False", "false")];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// As the lexer says.
    Json,
    /// In a string between single quotes.
    Single,
    /// In a word of Python.
    Word(usize),
    /// In a string that may hold an object, between such quotes; whether its brace has come, and a backslash last.
    Quoted { quote: char, is_object: bool, is_escape: bool },
}

/// Reads one value up to its end.
#[derive(Debug, Clone)]
pub(crate) struct Mender {
    /// The state of the output.
    lexer: Lexer,
    mode: Mode,
    /// Input that the lexer has not read: a comma with white space, a backslash, part of a word, or a string.
    held: String,
    /// Whether a string may hold an object.
    unquotes: bool,
    mended: bool,
}

impl Default for Mender {
    fn default() -> Self {
        Self { unquotes: true, ..Self::plain() }
    }
}

impl Mender {
    /// A reader that never reads a string as an object.
    pub(crate) fn plain() -> Self {
        let (lexer, mode) = (Lexer::default(), Mode::Json);
        Self { lexer, mode, held: String::new(), unquotes: false, mended: false }
    }

    /// Whether a string is open.
    pub(crate) fn is_in_string(&self) -> bool {
        matches!(self.mode, Mode::Quoted { .. }) || self.lexer.is_in_string()
    }

    /// Whether the output so far is well formed.
    pub(crate) fn is_valid(&self) -> bool {
        self.lexer.is_valid()
    }

    /// Whether the value is complete if the input ends here.
    pub(crate) fn is_complete_at_end(&self) -> bool {
        self.held.is_empty() && self.lexer.is_complete_at_end()
    }

    /// Whether any output differs from its input.
    pub(crate) fn is_mended(&self) -> bool {
        self.mended
    }

    /// Reads a piece if all of it certainly belongs to the value and comes out unchanged.
    pub(crate) fn push_within(&mut self, text: &str) -> bool {
        if self.mode != Mode::Json || !self.held.is_empty() {
            return false;
        }
        if !self.lexer.is_valid() {
            return self.lexer.push_within(text.as_bytes());
        }
        let bytes = text.as_bytes();
        self.lexer.is_within(bytes)
            || !ends_in_comma(bytes) && self.lexer.push_strictly(&[], bytes).is_some()
    }

    /// Reads a piece. Returns how many bytes of it belong to the value, the output, and whether the value has ended.
    pub(crate) fn push<'t>(&mut self, text: &'t str) -> (usize, Cow<'t, str>, bool) {
        if self.push_within(text) {
            return (text.len(), Cow::Borrowed(text), false);
        }
        if !self.lexer.is_valid() && self.held.is_empty() {
            let end = self.lexer.push(text.as_bytes());
            let taken = end.unwrap_or(text.len());
            return (taken, Cow::Borrowed(&text[..taken]), end.is_some());
        }
        let mut out = String::with_capacity(text.len());
        if self.push_joined(text, &mut out) {
            return (text.len(), Cow::Owned(out), false);
        }
        for (at, c) in text.char_indices() {
            if self.has_ended() || !self.char(c, &mut out) {
                return (at, Cow::Owned(out), true);
            }
        }
        (text.len(), Cow::Owned(out), self.has_ended())
    }

    /// Reads a piece with a comma before or after it in one step: the comma that is held and its white space, the
    /// piece, and a comma at its end, which is held in its turn. Appends the output, and returns `true`. Reads nothing
    /// of a piece that is not certainly JSON, or has no comma.
    pub(crate) fn push_joined(&mut self, text: &str, out: &mut String) -> bool {
        let bytes = text.as_bytes();
        let is_comma_held = self.held.as_bytes().first() == Some(&b',');
        let has_comma = is_comma_held || self.held.is_empty() && ends_in_comma(bytes);
        if !has_comma || self.mode != Mode::Json || !self.lexer.is_valid() {
            return false;
        }
        let is_short = self.held.len() + text.len() <= HOLD_LIMIT;
        if is_comma_held && bytes.iter().all(|&byte| is_space(byte)) {
            self.held.push_str(if is_short { text } else { "" });
            return is_short;
        }
        if !is_short {
            return false;
        }
        let Some(read) = self.lexer.push_strictly(self.held.as_bytes(), bytes) else {
            return false;
        };
        out.push_str(&self.held);
        out.push_str(&text[..read]);
        self.held.clear();
        self.held.push_str(&text[read..]);
        true
    }

    /// Takes the input that is held back when the value ends early.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    fn has_ended(&self) -> bool {
        self.lexer.state == State::Ended
    }

    /// Reads a character; `false` if the value ended before it.
    fn char(&mut self, c: char, out: &mut String) -> bool {
        if !self.lexer.is_valid() && self.held.is_empty() {
            return self.tell(c, out);
        }
        match self.mode {
            Mode::Quoted { quote, is_object: false, .. } => self.opened(c, quote, out),
            Mode::Quoted { quote, is_escape, .. } => self.quoted(c, quote, is_escape, out),
            Mode::Word(which) => return self.word(c, which, out),
            Mode::Single | Mode::Json if self.held == "\\" => self.escape(c, out),
            Mode::Single | Mode::Json if self.held.starts_with('\\') => self.code(c, out),
            Mode::Single => self.single(c, out),
            Mode::Json if !self.held.is_empty() => return self.after_comma(c, out),
            Mode::Json => return self.json(c, out),
        }
        true
    }

    fn json(&mut self, c: char, out: &mut String) -> bool {
        let is_value = matches!(self.lexer.state, State::Value | State::FirstElement);
        let is_key = matches!(self.lexer.state, State::Key | State::FirstKey);
        match (self.lexer.state, c) {
            (State::Value, '"' | '\'') if self.lexer.depth == 0 && self.unquotes => {
                self.held.push(c);
                self.mode = Mode::Quoted { quote: c, is_object: false, is_escape: false };
            }
            (_, '\'') if is_value || is_key => {
                self.mended = true;
                self.mode = Mode::Single;
                self.tell('"', out);
            }
            (_, 'N' | 'T' | 'F') if is_value => {
                let which = WORDS.iter().position(|(word, _)| word.starts_with(c));
                self.held.push(c);
                self.mode = Mode::Word(which.unwrap_or(0));
            }
            (State::Text, '\\') => self.held.push(c),
            (_, ',') if self.lexer.is_after_value() => self.held.push(c),
            (State::Text, '\0'..='\x1f') => self.tell_escaped(c, out),
            _ => return self.tell(c, out),
        }
        true
    }

    /// After a comma, and white space.
    fn after_comma(&mut self, c: char, out: &mut String) -> bool {
        if u8::try_from(c).is_ok_and(is_space) && self.held.len() < HOLD_LIMIT {
            self.held.push(c);
            return true;
        }
        if c == if self.lexer.in_object() { '}' } else { ']' } {
            self.mended = true;
            self.held.remove(0);
        }
        self.tell_held(out);
        self.json(c, out)
    }

    /// In a string between single quotes.
    fn single(&mut self, c: char, out: &mut String) {
        match c {
            '\'' if self.lexer.state == State::Text => {
                self.mode = Mode::Json;
                self.tell('"', out);
            }
            '\\' if self.lexer.state == State::Text => self.held.push(c),
            '"' | '\0'..='\x1f' => self.tell_escaped(c, out),
            c => {
                self.tell(c, out);
            }
        }
    }

    /// In the code of a character, which has two digits or eight.
    fn code(&mut self, c: char, out: &mut String) {
        let whole = if self.held.starts_with("\\x") { 4 } else { 10 };
        if c.is_ascii_hexdigit() {
            self.held.push(c);
            if self.held.len() < whole {
                return;
            }
        }
        let code = self.held.get("\\U".len()..).filter(|_| self.held.len() == whole);
        let meant = code.and_then(|digits| char::from_u32(u32::from_str_radix(digits, 16).ok()?));
        let held = std::mem::take(&mut self.held);
        if let Some(meant) = meant {
            self.tell_escaped(meant, out);
        } else {
            // An unknown escape is text.
            self.tell('\\', out);
            self.held = held;
            self.tell_held(out);
        }
        if !c.is_ascii_hexdigit() {
            self.char(c, out);
        }
    }

    /// After a backslash.
    fn escape(&mut self, c: char, out: &mut String) {
        if matches!(c, 'x' | 'U') {
            self.mended = true;
            return self.held.push(c);
        }
        self.held.clear();
        self.mended |= !matches!(c, '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' | 'u');
        let written: &[char] = match c {
            '\'' => &[c],
            '\n' => &[],
            'a' => &['\\', 'u', '0', '0', '0', '7'],
            'v' => &['\\', 'u', '0', '0', '0', 'b'],
            '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' | 'u' => &['\\', c],
            '\0'..='\x1f' => {
                self.tell('\\', out);
                self.tell('\\', out);
                return self.tell_escaped(c, out);
            }
            // An unknown escape is text, with its backslash.
            c => &['\\', '\\', c],
        };
        for &c in written {
            self.tell(c, out);
        }
    }

    /// In what may be a word of Python.
    fn word(&mut self, c: char, which: usize, out: &mut String) -> bool {
        let (word, meant) = WORDS[which];
        self.held.push(c);
        if self.held == word {
            self.mended = true;
            meant.clone_into(&mut self.held);
        } else if word.starts_with(&self.held) {
            return true;
        } else {
            self.held.pop();
            self.mode = Mode::Json;
            self.tell_held(out);
            return self.json(c, out);
        }
        self.mode = Mode::Json;
        self.tell_held(out);
        true
    }

    /// Where a string may begin with an object.
    fn opened(&mut self, c: char, quote: char, out: &mut String) {
        self.held.push(c);
        if c == '{' {
            self.mode = Mode::Quoted { quote, is_object: true, is_escape: false };
        } else if !u8::try_from(c).is_ok_and(is_space) || self.held.len() > HOLD_LIMIT {
            self.tell_string(out);
        }
    }

    /// In a string that may hold an object.
    fn quoted(&mut self, c: char, quote: char, is_escape: bool, out: &mut String) {
        self.held.push(c);
        if c == quote && !is_escape {
            return self.unquote(out);
        }
        self.mode = Mode::Quoted { quote, is_object: true, is_escape: c == '\\' && !is_escape };
        if self.held.len() > QUOTED_LIMIT {
            self.tell_string(out);
        }
    }

    /// Ends the string.
    fn unquote(&mut self, out: &mut String) {
        let Some(object) = object_in(&self.held) else { return self.tell_string(out) };
        self.mode = Mode::Json;
        self.mended = true;
        self.held = object;
        self.tell_held(out);
    }

    /// Emits the held text as a string, or as a part of one.
    fn tell_string(&mut self, out: &mut String) {
        (self.mode, self.unquotes) = (Mode::Json, false);
        for c in std::mem::take(&mut self.held).chars() {
            self.char(c, out);
        }
    }

    fn tell_held(&mut self, out: &mut String) {
        for c in std::mem::take(&mut self.held).chars() {
            self.tell(c, out);
        }
    }

    fn tell_escaped(&mut self, c: char, out: &mut String) {
        self.mended |= c != '"';
        let mut escaped = String::new();
        escape_into(c.encode_utf8(&mut [0; 4]), &mut escaped);
        for c in escaped.chars() {
            self.tell(c, out);
        }
    }

    /// Emits a character; `false` if the value ended before it.
    fn tell(&mut self, c: char, out: &mut String) -> bool {
        let mut buffer = [0; 4];
        let text = c.encode_utf8(&mut buffer);
        if self.lexer.push(text.as_bytes()) == Some(0) {
            return false;
        }
        out.push_str(text);
        true
    }
}

/// Whether the last byte that is not white space is a comma.
fn ends_in_comma(bytes: &[u8]) -> bool {
    bytes.iter().rfind(|&&byte| !is_space(byte)) == Some(&b',')
}

/// The object inside a string, if the string holds nothing else.
fn object_in(string: &str) -> Option<String> {
    let string = whole(string)?;
    let inner = &string[1..string.len() - 1];
    if has_lone_surrogate(inner) {
        return None;
    }
    whole(trim(&unescape(inner)))
}

/// The JSON that a text means, if the text is exactly one value.
fn whole(text: &str) -> Option<String> {
    let mut mender = Mender::plain();
    let (taken, said, _) = mender.push(text);
    (taken == text.len() && mender.is_complete_at_end()).then(|| said.into_owned())
}

/// The object inside a value that is a string, if the string holds nothing else.
pub(crate) fn unquoted(value: &str) -> Option<String> {
    let mut mender = Mender::default();
    let (_, said, _) = mender.push(value);
    mender.is_mended().then(|| said.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::is_value;
    use proptest::prelude::*;

    /// The result of reading in pieces of `size` characters: bytes read, output, and whether the
    /// value ended, is whole, and is mended.
    fn read(text: &str, chars: usize) -> (usize, String, bool, bool, bool) {
        let (mut mender, mut taken, mut said, mut is_end) =
            (Mender::default(), 0, String::new(), false);
        for chunk in text.chars().collect::<Vec<_>>().chunks(chars) {
            let chunk: String = chunk.iter().collect();
            let (length, text, ended) = mender.push(&chunk);
            taken += length;
            said.push_str(&text);
            is_end = ended;
            if ended {
                break;
            }
        }
        let is_whole = if is_end { mender.is_valid() } else { mender.is_complete_at_end() };
        said.push_str(&mender.finish());
        (taken, said, is_end, is_whole, mender.is_mended())
    }

    #[test]
    fn what_is_meant_comes_out() {
        for (text, json) in [
            (
                "{'a': 'b', 'n': None, 't': [True, False]}",
                r#"{"a": "b", "n": null, "t": [true, false]}"#,
            ),
            (r#"{'a': 'it\'s "x"', "b": "it\'s"}"#, r#"{"a": "it's \"x\"", "b": "it's"}"#),
            (r#"{'a': "it's", 'b': '\x41\d\n\\'}"#, r#"{"a": "it's", "b": "A\\d\n\\"}"#),
            (r"{'a': '\U0001F600\U0001\U11111111'}", r#"{"a": "😀\\U0001\\U11111111"}"#),
            ("{\"a\": 1,}", r#"{"a": 1}"#),
            ("{\"a\": [1, 2 ,\n], }", "{\"a\": [1, 2 \n] }"),
            ("{\"a\": \"x\ny\t\"}", r#"{"a": "x\ny\t"}"#),
            (r#""{\"a\": \"b\"}""#, r#"{"a": "b"}"#),
            (r#""{'a': None,}""#, r#"{"a": null}"#),
            (r#"'{"a": "b\\n"}'"#, r#"{"a": "b\n"}"#),
            (r#""\u007b""#, r#""\u007b""#),
            (r#"" {\"a\": 1}\n""#, r#"{"a": 1}"#),
            ("'{x'", r#""{x""#),
            ("''", r#""""#),
            ("None", "null"),
        ] {
            for chars in [1, 2, usize::MAX] {
                let (taken, said, _, is_whole, is_mended) = read(text, chars);
                assert_eq!((taken, &*said, is_whole), (text.len(), json, true), "{text}");
                assert_eq!(is_mended, text != json, "{text}");
            }
        }
    }

    #[test]
    fn what_is_neither_comes_out_as_it_is() {
        for text in [
            "{'a': 'it's'}",
            "{\"a\": tru}",
            "{\"a\": Nil}",
            "[1,,]",
            "{,}",
            "{\"a\" 1}",
            "[NaN]",
            "{\"a\": 1,",
            "\"{\\\"a\\\"",
            "[Tru",
            "[\"\\",
            "[Falsehood]",
        ] {
            let (taken, said, _, is_whole, _) = read(text, usize::MAX);
            let same = |text: &str| text.replace('\'', "\"").replace("False", "false");
            assert_eq!((taken, same(&said), is_whole), (text.len(), same(text), false));
        }
    }

    #[test]
    fn strings_that_hold_none_are_strings() {
        for text in [
            r#""{""#,
            r#""{} x""#,
            r#""[1]""#,
            r#""{\"a\": }""#,
            r#""""#,
            r#""{\"a\": \"\ud800\"}""#,
        ] {
            assert_eq!(read(text, 1), (text.len(), text.into(), true, true, false));
            assert_eq!(unquoted(text), None);
        }
        let long = format!("\"{{{}}}\"", " ".repeat(QUOTED_LIMIT));
        assert_eq!(read(&long, 7), (long.len(), long.clone(), true, true, false));
    }

    #[test]
    fn ordinary_json_takes_the_short_way() {
        let text = "1, 22 ,[-3.5e2,\n\"b, c\"], true, {\"d\": null , \"é\": {}}, 0";
        for chars in 1..6 {
            let (mut mender, mut out) = (Mender::default(), String::new());
            mender.push("{\"a\": [");
            for piece in text.chars().collect::<Vec<_>>().chunks(chars) {
                let piece: String = piece.iter().collect();
                if mender.push_within(&piece) {
                    out.push_str(&piece);
                } else {
                    assert!(mender.push_joined(&piece, &mut out), "{piece:?} by {chars}");
                }
            }
            assert_eq!(out, text);
        }
    }

    /// The parts of values in JSON and in Python.
    const PARTS: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "\n",
        "\"",
        "'",
        "\"a\"",
        "'a'",
        "'b': ",
        "\"b\": ",
        "None",
        "True",
        "Fals",
        "true",
        "nul",
        "1",
        "-2.5e3",
        "\\",
        "\\n",
        "\\'",
        "\\\"",
        "\\x4",
        "\\u00e",
        "é",
        "x",
        "\t",
        ", ",
        "\"{",
        "}\"",
        "{\\\"a\\\": 1}",
    ];

    fn text() -> impl Strategy<Value = String> {
        (
            prop::sample::select(vec!["", "{", "[", "\"", "\"{", "{\"a\": "]),
            prop::collection::vec(prop::sample::select(PARTS), 0..12),
        )
            .prop_map(|(begin, parts)| begin.to_owned() + &parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn any_split_reads_the_same(text in text()) {
            let whole = read(&text, usize::MAX);
            for chars in 1..6 {
                prop_assert_eq!(read(&text, chars), whole.clone(), "{} by {}", text, chars);
            }
            let (taken, said, _, is_whole, is_mended) = whole;
            prop_assert_eq!(is_whole, is_value(&said), "{}", said);
            if !is_mended {
                prop_assert_eq!(&said, &text[..taken]);
            }
            // Only Python has strings in single quotes; one that never ends is all of the text.
            if !is_mended && !text.trim_start().starts_with('\'') {
                let (mut lexer, bytes) = (Lexer::default(), text.as_bytes());
                prop_assert_eq!(lexer.push(bytes).unwrap_or(bytes.len()), taken);
            }
        }

        /// JSON is not changed, except that a string that holds an object becomes the object.
        #[test]
        fn json_is_itself(parts in prop::collection::vec(text(), 0..4), chars in 1usize..9) {
            let texts: Vec<_> = parts.iter().map(|part| serde_json::Value::from(part.as_str())).collect();
            for value in [serde_json::json!({"a": texts, "b": {"c": [true, null, 1.5]}}), serde_json::json!(texts)] {
                for json in [value.to_string(), format!("{value:#}")] {
                    prop_assert_eq!(read(&json, chars), (json.len(), json.clone(), true, true, false));
                    let quoted = serde_json::Value::from(json.as_str()).to_string();
                    let expected = if json.starts_with('{') { json } else { quoted.clone() };
                    let is_mended = expected != quoted;
                    prop_assert_eq!(unquoted(&quoted), is_mended.then(|| expected.clone()));
                    prop_assert_eq!(read(&quoted, chars), (quoted.len(), expected, true, true, is_mended));
                }
            }
        }

        /// The fast path equals the slow path after any input.
        #[test]
        fn the_short_way_is_the_same(text in text(), cuts in prop::collection::vec(0usize..20, 0..6)) {
            let chars: Vec<char> = text.chars().collect();
            let (mut long, mut short) = (Mender::default(), Mender::default());
            let (mut at, mut told) = (0, [String::new(), String::new()]);
            for cut in cuts {
                let end = (at + cut).min(chars.len());
                let piece: String = chars[at..end].iter().collect();
                at = end;
                if short.push_within(&piece) {
                    told[0].push_str(&piece);
                } else {
                    told[0].push_str(&short.push(&piece).1);
                }
                for c in piece.chars() {
                    told[1].push_str(&long.push(c.encode_utf8(&mut [0; 4])).1);
                }
                if short.has_ended() || long.has_ended() {
                    prop_assert!(short.has_ended() && long.has_ended());
                    break;
                }
                prop_assert_eq!(&told[0], &told[1]);
            }
        }
    }
}
