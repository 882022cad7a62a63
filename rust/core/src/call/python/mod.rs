//! Arguments of a call in Python, `a="x", b=True`, to and from a JSON object.
//!
//! ```text
//! city="Rome", days=3, at=None)    {"city": "Rome", "days": 3, "at": null}
//! cmd='sed -n '1p' x')             {"cmd": "sed -n '1p' x"}, mended
//! ```
//!
//! Written: one JSON object becomes keyword arguments. Read, a character at a time: keyword arguments
//! become the text of a JSON object, spaced as `json.dumps` spaces it. Memory: one word and the nesting.

mod ending;
pub(crate) mod names;
pub(super) mod shape;

use std::borrow::Cow;
use std::fmt::Write as _;

use self::ending::{Ending, Inside, Verdict};
use super::shape::ArgumentsReader;
use super::write::check_object;
use super::{Ended, unquoted};
use crate::json::{self, Normalise, Token, Tokens};
use crate::limits::HOLD_LIMIT;
use crate::schema::values::{JSON, Words};
use chatcodec_vocab::TokenId;

/// Deeper values are passed on unchanged, and the call is not complete.
const MAX_DEPTH: usize = 512;

/// Longer keys are refused: a reader holds back a key until its end.
const MAX_KEY_BYTES: usize = 1024;

/// The keyword arguments with the meaning of `arguments`, one JSON value, with these words for true, false and
/// null; texts are normalised.
pub(crate) fn write(
    arguments: &str,
    words: Words,
    normalise: Normalise<'_>,
) -> Result<String, String> {
    check_object(arguments, MAX_DEPTH)?;
    let mut out = String::with_capacity(arguments.len());
    for (depth, token) in Tokens::of(arguments) {
        match token {
            Token::Open(_) | Token::Close(_) if depth == 0 => {}
            Token::Key(raw) if depth == 1 => out.push_str(&keyword(raw, normalise)?),
            Token::Colon if depth == 1 => out.push('='),
            Token::Word(word) => {
                let known = JSON.iter().zip(words).find(|(json, _)| **json == word);
                out.push_str(known.map_or(word, |(_, written)| written));
            }
            token => token.write(normalise, &mut out),
        }
    }
    Ok(out)
}

/// The name of a keyword argument: a key, given as the inside of a JSON string.
fn keyword(raw: &str, normalise: Normalise<'_>) -> Result<String, String> {
    let key = json::unescape(raw);
    let key = normalise(&key);
    if key.len() > MAX_KEY_BYTES {
        return Err(format!("has a key of over {MAX_KEY_BYTES} bytes"));
    }
    if !is_identifier(&key) {
        return Err(format!(
            "has the key {key:?}, expected a name of ASCII letters that Python allows"
        ));
    }
    Ok(key.into_owned())
}

/// One Python literal as JSON.
pub(crate) fn literal(text: &str) -> Option<String> {
    let mut scanner = PairScanner::new();
    let pair = format!("x={text})");
    let (taken, said) = scanner.push(&pair);
    let is_whole = scanner.is_complete(Ended::Closed) && taken == pair.len();
    let value = said.strip_prefix("{\"x\": ")?.strip_suffix('}')?;
    (is_whole && json::is_value(value)).then(|| value.to_owned())
}

fn is_identifier(text: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().next().is_some_and(|byte| rest(byte) && !byte.is_ascii_digit())
        && text.bytes().all(rest)
        && !KEYWORDS.contains(&text)
}

/// Python's reserved words.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A key of the call, or its end.
    Key,
    /// `=` after it.
    Equals,
    /// A value, or the end of its container where that is allowed.
    Value,
    /// After a value: `,`, `:` or an end.
    After,
    /// A number, or a word such as `True`.
    Word,
    /// Number of quotes so far that may begin a string.
    Open(char, u8),
    /// In a string; with three quotes, the number of quotes so far that may end it.
    Text { quote: char, long: bool, quotes: u8 },
    /// After a backslash in a string.
    Escape { quote: char, long: bool },
    /// Number of missing digits of an escape code.
    Code { quote: char, long: bool, missing: u8 },
    /// After the call's closing bracket.
    Done,
    /// Not Python: text is passed on unchanged.
    Broken,
}

/// What braces begin with: the first key of an object, or the first element of a set.
#[derive(Debug, Clone)]
struct First {
    /// Number of brackets that are open in the braces.
    depth: usize,
    /// Its JSON.
    said: String,
    /// Whether it has no quotes.
    is_bare: bool,
}

/// Reads keyword arguments up to the bracket that closes the call.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each says another thing of what has come")]
pub(crate) struct PairScanner {
    state: State,
    /// What is open inside the call: `[`, `(`, `{` before a key, `:` before a value, `s` in a set.
    open: Vec<u8>,
    /// What the string has had that is open.
    inside: Inside,
    /// The text after a quote that may end a string.
    ending: Option<Box<Ending>>,
    /// What braces begin with, until it is known whether it is a key.
    first: Option<First>,
    /// Whether braces have just opened.
    opens: bool,
    /// Whether a quote was read as text.
    has_quote: bool,
    word: String,
    code: u32,
    is_valid: bool,
    begun: bool,
    has_pairs: bool,
    /// Whether a comma was read and not written: JSON has no comma before an end, so it is written
    /// with the next value.
    has_comma: bool,
}

impl PairScanner {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Key,
            open: Vec::new(),
            inside: Inside::default(),
            ending: None,
            first: None,
            opens: false,
            has_quote: false,
            word: String::new(),
            code: 0,
            is_valid: true,
            begun: false,
            has_pairs: false,
            has_comma: false,
        }
    }

    /// Reads a character, and says what it means once that is known; `false` if the new state must read it again.
    fn read(&mut self, c: char, out: &mut String) -> bool {
        let Some(mut ending) = self.ending.take() else {
            self.decide_before(c, out);
            let mut said = String::new();
            let taken = self.step(c, &mut said);
            self.say(&said, out);
            if std::mem::take(&mut self.opens) {
                self.decide_first(b'{', out);
                let depth = self.open.len();
                self.first = Some(First { depth, said: String::new(), is_bare: false });
            }
            return taken;
        };
        match ending.read(c, &self.open) {
            Verdict::More => self.ending = Some(ending),
            Verdict::Yes => self.end_string(&ending, out),
            Verdict::No => {
                let mut text = String::new();
                json::escape_into(ending.quote.encode_utf8(&mut [0; 4]), &mut text);
                self.say(&text, out);
                self.has_quote = true;
                self.inside.quote();
                self.again(&ending.held, out);
            }
        }
        true
    }

    /// Ends a string before the text that was held.
    fn end_string(&mut self, ending: &Ending, out: &mut String) {
        self.say("\"", out);
        self.state = State::After;
        self.again(&ending.held, out);
    }

    /// Reads held text again.
    fn again(&mut self, held: &str, out: &mut String) {
        for c in held.chars() {
            while !self.read(c, out) {}
        }
    }

    /// Emits JSON, or holds it back while it may be a key or an element of a set.
    fn say(&mut self, said: &str, out: &mut String) {
        match &mut self.first {
            Some(first) if first.said.len() + said.len() <= HOLD_LIMIT => first.said.push_str(said),
            Some(_) => {
                self.decide_first(b'{', out);
                out.push_str(said);
            }
            None => out.push_str(said),
        }
    }

    /// Decides what braces are, if a character says so.
    fn decide_before(&mut self, c: char, out: &mut String) {
        let is_here = |first: &First| first.depth == self.open.len();
        let kind = match (self.state, c) {
            (State::Broken, _) => b'{',
            _ if !self.first.as_ref().is_some_and(is_here) => return,
            (State::After, ':') | (State::Value, '}') => b'{',
            (State::After, ',' | '}') => b's',
            _ => return,
        };
        self.decide_first(kind, out);
    }

    /// Begins what braces hold: `{` an object, `s` a set, which is a list in JSON.
    fn decide_first(&mut self, kind: u8, out: &mut String) {
        let Some(First { depth, said, is_bare }) = self.first.take() else { return };
        let is_set = kind == b's';
        // Python has keys that JSON lacks.
        self.is_valid &= is_set || !is_bare;
        out.push(if is_set { '[' } else { '{' });
        out.push_str(&said);
        let open = depth.checked_sub(1).and_then(|at| self.open.get_mut(at));
        if let Some(open) = open.filter(|_| is_set) {
            *open = kind;
        }
    }

    /// Reads a character; `false` if the new state must read it again.
    fn step(&mut self, c: char, out: &mut String) -> bool {
        match self.state {
            State::Key => self.key(c, out),
            State::Equals => match c {
                '=' => {
                    out.push_str(": ");
                    self.state = State::Value;
                }
                c if c.is_ascii_whitespace() => {}
                c => self.broken(c, out),
            },
            State::Value => self.value(c, out),
            State::After => self.after(c, out),
            State::Word => {
                if c.is_alphanumeric() || matches!(c, '_' | '.' | '+' | '-') {
                    self.word.push(c);
                    if self.word.len() > HOLD_LIMIT {
                        out.push_str(&std::mem::take(&mut self.word));
                        self.is_valid = false;
                        self.state = State::Broken;
                    }
                } else {
                    self.end_word(out);
                    return false;
                }
            }
            State::Open(quote, count) => return self.open_text(c, quote, count, out),
            State::Text { quote, long, quotes } => return self.text(c, quote, long, quotes, out),
            State::Escape { quote, long } => self.escape(c, quote, long, out),
            State::Code { quote, long, missing } => {
                return self.digit(c, quote, long, missing, out);
            }
            State::Broken => out.push(c),
            State::Done => {}
        }
        true
    }

    fn key(&mut self, c: char, out: &mut String) {
        match c {
            ')' if self.word.is_empty() => {
                out.push('}');
                self.state = State::Done;
            }
            c if c.is_ascii_whitespace() && self.word.is_empty() => {}
            c if c.is_alphanumeric() || c == '_' => {
                self.word.push(c);
                if self.word.len() > HOLD_LIMIT {
                    let word = std::mem::take(&mut self.word);
                    out.push_str(&word);
                    self.is_valid = false;
                    self.state = State::Broken;
                }
            }
            c if (c == '=' || c.is_ascii_whitespace()) && !self.word.is_empty() => {
                let key = std::mem::take(&mut self.word);
                let between = if self.has_pairs { ", \"" } else { "\"" };
                self.has_pairs = true;
                out.push_str(between);
                json::escape_into(&key, out);
                out.push('"');
                self.state = State::Equals;
                if c == '=' {
                    out.push_str(": ");
                    self.state = State::Value;
                }
            }
            c => {
                let word = std::mem::take(&mut self.word);
                out.push_str(&word);
                self.broken(c, out);
            }
        }
    }

    fn value(&mut self, c: char, out: &mut String) {
        match (c, self.open.last()) {
            (c, _) if c.is_ascii_whitespace() => return,
            (']' | ')', Some(b'[')) | ('}', Some(b'{' | b's')) => {
                self.has_comma = false;
                out.push(if self.open.last() == Some(&b'{') { '}' } else { ']' });
                self.open.pop();
                self.state = State::After;
                return;
            }
            _ => {}
        }
        if std::mem::take(&mut self.has_comma) {
            out.push_str(", ");
        }
        if !matches!(c, '"' | '\'') && self.open.last() == Some(&b'{') {
            match &mut self.first {
                Some(first) if first.depth == self.open.len() => first.is_bare = true,
                // Python has keys that JSON lacks.
                _ => self.is_valid = false,
            }
        }
        match c {
            '"' | '\'' => self.state = State::Open(c, 1),
            '[' | '(' => {
                self.nest(b'[', c, out);
                out.push_str(if self.state == State::Value { "[" } else { "" });
            }
            '{' => {
                self.nest(b'{', c, out);
                self.opens = self.state == State::Value;
            }
            c if c.is_alphanumeric() || matches!(c, '_' | '.' | '+' | '-') => {
                self.word.push(c);
                self.state = State::Word;
            }
            c => self.broken(c, out),
        }
    }

    fn nest(&mut self, kind: u8, c: char, out: &mut String) {
        if self.open.len() >= MAX_DEPTH {
            return self.broken(c, out);
        }
        self.open.push(kind);
    }

    fn after(&mut self, c: char, out: &mut String) {
        match (c, self.open.last().copied()) {
            (c, _) if c.is_ascii_whitespace() => {}
            (',', None) => self.state = State::Key,
            (')', None) => {
                out.push('}');
                self.state = State::Done;
            }
            (',', Some(b'[' | b's')) => self.next_value(),
            (',', Some(b':')) => {
                self.open.pop();
                self.open.push(b'{');
                self.next_value();
            }
            (':', Some(b'{')) => {
                self.open.pop();
                self.open.push(b':');
                out.push_str(": ");
                self.state = State::Value;
            }
            (']' | ')', Some(b'[')) | ('}', Some(b's')) => {
                out.push(']');
                self.open.pop();
            }
            ('}', Some(b':')) => {
                out.push('}');
                self.open.pop();
            }
            (c, _) => self.broken(c, out),
        }
    }

    /// After a comma: a value, or the end of its container.
    fn next_value(&mut self) {
        self.has_comma = true;
        self.state = State::Value;
    }

    fn end_word(&mut self, out: &mut String) {
        let word = std::mem::take(&mut self.word);
        match word.as_str() {
            "True" => out.push_str("true"),
            "False" => out.push_str("false"),
            "None" => out.push_str("null"),
            word if json::is_value(word) => out.push_str(word),
            word => {
                // Python has numbers and names that JSON lacks.
                let number = unquoted::number(word).filter(|number| json::is_value(number));
                self.is_valid &= number.is_some();
                out.push_str(number.as_deref().unwrap_or(word));
            }
        }
        self.state = State::After;
    }

    fn open_text(&mut self, c: char, quote: char, count: u8, out: &mut String) -> bool {
        if c == quote && count == 1 {
            self.state = State::Open(quote, 2);
            return true;
        }
        out.push('"');
        if count == 2 && c != quote {
            // Two quotes were an empty string.
            out.push('"');
            self.state = State::After;
            return false;
        }
        let long = count == 2;
        self.inside = Inside::default();
        self.state = State::Text { quote, long, quotes: 0 };
        long
    }

    fn text(&mut self, c: char, quote: char, long: bool, quotes: u8, out: &mut String) -> bool {
        let state = |quotes| State::Text { quote, long, quotes };
        if c == quote && !long {
            self.ending = Some(Box::new(Ending::new(quote, self.inside)));
            return true;
        }
        if c == quote {
            self.state = state(quotes + 1);
            if quotes == 2 {
                out.push('"');
                self.state = State::After;
            }
            return true;
        }
        for _ in 0..quotes {
            json::escape_into(quote.encode_utf8(&mut [0; 4]), out);
        }
        self.state = state(0);
        self.inside.read(c);
        match c {
            '\\' => self.state = State::Escape { quote, long },
            c => json::escape_into(c.encode_utf8(&mut [0; 4]), out),
        }
        true
    }

    fn escape(&mut self, c: char, quote: char, long: bool, out: &mut String) {
        self.state = State::Text { quote, long, quotes: 0 };
        let code = |missing| State::Code { quote, long, missing };
        let simple = match c {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'a' => '\u{7}',
            'v' => '\u{b}',
            '\\' | '"' | '\'' => c,
            '\n' => return,
            'x' | 'u' | 'U' => {
                self.code = 0;
                self.state = code(match c {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                });
                return;
            }
            // An unknown escape is text, with its backslash.
            c => {
                out.push_str("\\\\");
                c
            }
        };
        json::escape_into(simple.encode_utf8(&mut [0; 4]), out);
    }

    fn digit(&mut self, c: char, quote: char, long: bool, missing: u8, out: &mut String) -> bool {
        let text = State::Text { quote, long, quotes: 0 };
        let Some(digit) = c.to_digit(16) else {
            self.is_valid = false;
            self.state = text;
            return false;
        };
        self.code = self.code << 4 | digit;
        self.state = State::Code { quote, long, missing: missing - 1 };
        if missing == 1 {
            self.state = text;
            match char::from_u32(self.code) {
                Some(c) => json::escape_into(c.encode_utf8(&mut [0; 4]), out),
                // Half of a surrogate pair: JSON can express it too.
                None if self.code <= 0xFFFF => {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\u{:04x}", self.code);
                }
                None => {
                    self.is_valid = false;
                    out.push('\u{FFFD}');
                }
            }
        }
        true
    }

    fn broken(&mut self, c: char, out: &mut String) {
        self.is_valid = false;
        self.state = State::Broken;
        out.push(c);
    }
}

impl ArgumentsReader for PairScanner {
    fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// As far as is known.
    fn is_in_string(&self) -> bool {
        self.ending.is_none()
            && matches!(
                self.state,
                State::Open(..) | State::Text { .. } | State::Escape { .. } | State::Code { .. }
            )
    }

    fn lacks(&self, _: TokenId) -> bool {
        !self.is_done()
    }

    fn take_same(&mut self, text: &str) -> bool {
        matches!(self.state, State::Text { quotes: 0, .. })
            && self.ending.is_none()
            && self.first.is_none()
            && text.bytes().all(|byte| byte >= 0x20 && !br#""'\()[]{}"#.contains(&byte))
    }

    fn push<'t>(&mut self, text: &'t str) -> (usize, Cow<'t, str>) {
        let mut out = String::with_capacity(text.len() + 2);
        if !std::mem::replace(&mut self.begun, true) {
            out.push('{');
        }
        for (at, c) in text.char_indices() {
            if self.is_done() {
                return (at, out.into());
            }
            // A word ends before the first character that is not part of it.
            while !self.read(c, &mut out) {}
        }
        (text.len(), out.into())
    }

    fn finish(&mut self, _: Ended) -> String {
        let mut out = String::new();
        if let Some(ending) = self.ending.take() {
            self.end_string(&ending, &mut out);
        }
        if self.state == State::Word {
            let mut word = String::new();
            self.end_word(&mut word);
            self.say(&word, &mut out);
        }
        self.decide_first(b'{', &mut out);
        out
    }

    fn is_mended(&self) -> bool {
        self.has_quote
    }

    fn is_complete(&self, _: Ended) -> bool {
        self.is_done() && self.is_valid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::reading::{self, json_value};
    use crate::schema::values::PYTHON;
    use proptest::prelude::*;

    fn read(text: &str, chars: usize) -> (String, bool) {
        let read = reading::read(Box::new(PairScanner::new()), &[text.into()], chars, Ended::Cut);
        (read.json, read.is_whole)
    }

    #[test]
    fn python_is_read_as_json() {
        for (python, json) in [
            (")", "{}"),
            ("a='x'))", r#"{"a": "x"}"#),
            (
                "location=\"beijing\", unit='celsius')",
                r#"{"location": "beijing", "unit": "celsius"}"#,
            ),
            (
                "a=True, b=[1, 2.5, None], c={'x': (1,), \"y\": {}})",
                r#"{"a": true, "b": [1, 2.5, null], "c": {"x": [1], "y": {}}}"#,
            ),
            (
                "s='it\\'s', t=\"\", u='''a\"b''', v=\"\\u4e16\\x41\")",
                r#"{"s": "it's", "t": "", "u": "a\"b", "v": "世A"}"#,
            ),
        ] {
            for cuts in 1..5 {
                assert_eq!(read(python, cuts), (json.to_owned(), true), "{python}");
            }
        }
    }

    #[test]
    fn what_is_no_python_is_passed_on() {
        for text in [
            "1)",
            "a b)",
            "a=x)",
            "a=[1}",
            "a=;",
            "a='\\xg'",
            "a={1: 2})",
            "a={'b': 1, 2})",
            "a=[,])",
        ] {
            assert!(!read(text, 1).1, "{text}");
        }
    }

    /// Texts with the signs of Python.
    fn texts() -> BoxedStrategy<String> {
        prop_oneof!["\\PC*", "[\"'\\\\\n\u{0}\u{1F}a{}\\[\\],:=()]*"].boxed()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn what_is_written_reads_back(
            members in prop::collection::vec(("[a-z_][a-z0-9_]{0,5}_", json_value(texts())), 0..4),
            cuts in 1usize..7,
            pretty in any::<bool>(),
        ) {
            let object = serde_json::Value::Object(members.into_iter().collect());
            let text = if pretty { format!("{object:#}") } else { object.to_string() };
            for words in [PYTHON, JSON] {
                let written = write(&text, words, &|text| Cow::Borrowed(text)).unwrap();
                prop_assert_eq!(read(&format!("{written})\n```"), cuts), (json::respace_only(&text), true));
            }
        }
    }
}
