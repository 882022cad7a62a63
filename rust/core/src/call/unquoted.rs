//! An unquoted value, `5` or `five`, as JSON.
//!
//! ```text
//! 5       a number, where the schema allows one; the string "5", where it allows strings alone
//! five    the string "five"
//! True    true, where the schema allows a boolean and no string; mended
//! ```
//!
//! The schema of the tool says which kinds of JSON a value may be. Text that is JSON of another allowed kind than a
//! string is that JSON; any other text is a string. A string is emitted piece by piece where only strings are
//! allowed, and otherwise as soon as the value can be nothing else. An array or object of more than [`HOLD_LIMIT`]
//! bytes is emitted before its end; if it turns out not to be JSON, the rest becomes one more string in it, so that
//! the generated text can be recovered. Memory: an undecided value, up to [`HOLD_LIMIT`] bytes, and the nesting.

use super::python;
use crate::json::{self, Lexer};
use crate::limits::HOLD_LIMIT;
use crate::schema::Kinds;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A string, emitted as it comes.
    Text,
    /// An array or object, emitted as it comes except for its last bracket.
    Raw,
    /// A string at the end of text that was not an array or object, emitted as it comes.
    Mended,
    /// Undecided: held back.
    Held { kinds: Kinds },
}

/// How a value ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Whether it was understood.
    pub(crate) is_understood: bool,
    /// Whether the text was not JSON, and was read as JSON of an allowed kind.
    pub(crate) is_mended: bool,
}

/// The JSON meant by a text that has none of the allowed kinds, where no string is allowed: JSON in quotes, JSON
/// escaped as in quotes, or Python.
fn meant(value: &str, kinds: Kinds) -> Option<String> {
    if kinds.meets(Kinds::STRING) {
        return None;
    }
    let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    let inner = quoted.unwrap_or(value);
    let is_escaped = json::is_value(&format!("\"{inner}\""));
    let unescaped = is_escaped.then(|| json::unescape(inner));
    let written = unescaped.as_deref().unwrap_or(value);
    let is_meant = |text: &str| json::is_value(text) && kinds.have(text);
    let trimmed = json::trim(written);
    if is_meant(trimmed) {
        return Some(trimmed.to_owned());
    }
    let literal = python::literal(trimmed).filter(|literal| is_meant(literal));
    literal.or_else(|| number(trimmed).filter(|number| is_meant(number)))
}

/// The JSON number meant by digits with a plus sign, leading zeros, or no digit on one side of the
/// point.
pub(super) fn number(text: &str) -> Option<String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { "-" } else { "" };
    let end = digits.find(['e', 'E']).unwrap_or(digits.len());
    let (mantissa, exponent) = digits.split_at(end);
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, "")) => (whole, ".0".to_owned()),
        Some((whole, fraction)) => (whole, format!(".{fraction}")),
        None => (mantissa, String::new()),
    };
    let is_number = mantissa.bytes().any(|byte| byte.is_ascii_digit());
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    is_number.then(|| format!("{sign}{whole}{fraction}{exponent}"))
}

/// Reads one value.
#[derive(Debug, Clone)]
pub(crate) struct BareValue {
    mode: Mode,
    lexer: Lexer,
    /// Whether the JSON has ended: only white space may follow.
    ended: bool,
    /// Whether the text so far may be JSON.
    is_valid: bool,
    /// Undecided text: a whole value; in an emitted array or object, the text that could not continue a
    /// string, or the last bracket.
    held: String,
    /// The beginning of the value in that text, after white space.
    start: Option<usize>,
    /// Whether the value was said to be JSON, and may be a string: then one in quotes is that string.
    is_json: bool,
}

impl BareValue {
    /// Begins a value; the quote of a string is emitted at once.
    pub(crate) fn new(kinds: Kinds, out: &mut String) -> Self {
        let mode = if kinds == Kinds::STRING { Mode::Text } else { Mode::Held { kinds } };
        if mode == Mode::Text {
            out.push('"');
        }
        let lexer = Lexer::default();
        Self {
            mode,
            lexer,
            ended: false,
            is_valid: true,
            held: String::new(),
            start: None,
            is_json: false,
        }
    }

    /// Begins a value that was said to be JSON. Text that is none is a string all the same.
    pub(crate) fn json(kinds: Kinds) -> Self {
        let other = kinds & Kinds::OTHER;
        let is_json = kinds.meets(Kinds::STRING);
        let kinds = if other.meets(Kinds::OTHER) { other } else { Kinds::OTHER };
        Self { is_json, ..Self::new(kinds, &mut String::new()) }
    }

    /// Whether the next text is emitted as the inside of a JSON string.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.mode, Mode::Text | Mode::Mended)
    }

    /// Reads a part of the value.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) {
        let mut chars = text.chars();
        while let Mode::Held { kinds } = self.mode {
            let Some(c) = chars.next() else { return };
            self.hold(c, kinds, out);
        }
        let rest = chars.as_str();
        match self.mode {
            Mode::Raw => self.raw(rest, out),
            _ => json::escape_into(rest, out),
        }
    }

    /// Ends a whole value.
    pub(crate) fn end(mut self, out: &mut String) -> Whole {
        let mut is_mended = false;
        match self.mode {
            Mode::Text => out.push('"'),
            Mode::Raw if self.ended => out.push_str(json::trim(&self.held)),
            Mode::Raw | Mode::Mended => {
                self.mend("", out);
                self.lexer.close_into(out);
                return Whole { is_understood: false, is_mended: false };
            }
            Mode::Held { kinds } => {
                let value = json::trim(&self.held);
                if let Some(word) = kinds.word(value) {
                    out.push_str(word);
                    is_mended = !kinds.is_own_word(value);
                } else if self.is_valid && self.lexer.is_complete_at_end() && kinds.have(value)
                    || self.is_json && json::is_value(value)
                {
                    out.push_str(value);
                } else if let Some(meant) = meant(value, kinds) {
                    out.push_str(&meant);
                    is_mended = true;
                } else {
                    is_mended = self.is_json;
                    self.text(out);
                    out.push('"');
                }
            }
        }
        Whole { is_understood: true, is_mended }
    }

    /// Ends a truncated value: emits the held part.
    pub(crate) fn cut(mut self, out: &mut String) {
        match self.mode {
            Mode::Held { .. } if self.start.is_none() => {}
            Mode::Held { .. } if !self.is_valid => self.text(out),
            _ => out.push_str(json::trim(&self.held)),
        }
    }

    fn hold(&mut self, c: char, kinds: Kinds, out: &mut String) {
        let is_space = u8::try_from(c).is_ok_and(json::is_space);
        let is_first = self.start.is_none() && !is_space;
        if is_first {
            self.start = Some(self.held.len());
        }
        self.held.push(c);
        if let Some(start) = self.start
            && !self.is_valid
            && kinds.meets(Kinds::STRING)
        {
            // No JSON, so a word so far.
            let value = &self.held[start..];
            if !kinds.may_be_word(value) && kinds.word(json::trim(value)).is_none() {
                return self.text(out);
            }
        } else if let Some(start) = self.start
            && self.is_valid
            && !(is_space && self.ended)
        {
            let end = self.lex(c.encode_utf8(&mut [0; 4]).as_bytes());
            let value = &self.held[start..];
            let is_word = kinds.may_be_word(value);
            self.ended |= kinds.word(value).is_some();
            let is_json =
                self.is_valid && (end > 0 || is_space) && (!is_first || kinds.may_begin(c));
            if !is_json && !is_word {
                if kinds.meets(Kinds::STRING) {
                    return self.text(out);
                }
                // It may still become JSON, in quotes or in Python.
                self.is_valid = false;
            }
        }
        if self.held.len() > HOLD_LIMIT {
            let value = self.held[self.start.unwrap_or(self.held.len())..].to_owned();
            if self.is_valid && value.starts_with(['[', '{']) {
                self.held.clear();
                (self.mode, self.lexer, self.ended) = (Mode::Raw, Lexer::default(), false);
                self.raw(&value, out);
            } else {
                self.text(out);
            }
        }
    }

    /// Decides that the value is a string.
    fn text(&mut self, out: &mut String) {
        out.push('"');
        json::escape_into(&std::mem::take(&mut self.held), out);
        self.mode = Mode::Text;
    }

    /// Reads a part of an array or object.
    fn raw(&mut self, text: &str, out: &mut String) {
        let mut rest = text;
        if !self.ended {
            let stretch = self.lexer.push_valid(text.as_bytes());
            let (value, after) = text.split_at(stretch.read);
            let (told, held) = value.split_at(stretch.mendable.unwrap_or(0));
            if stretch.mendable.is_some() {
                out.push_str(&self.held);
                self.held.clear();
            }
            out.push_str(told);
            self.held.push_str(held);
            self.ended = stretch.is_whole;
            rest = after;
        }
        if self.ended {
            let bracket = usize::from(self.held.is_empty()).min(rest.len());
            let spaces = rest[bracket..].bytes().take_while(|&byte| json::is_space(byte)).count();
            let (value, after) = rest.split_at(bracket + spaces);
            self.held.push_str(value);
            rest = after;
        }
        if !rest.is_empty() || self.held.len() > HOLD_LIMIT {
            self.mend(rest, out);
        }
    }

    /// Treats the held text and the following text as a string.
    fn mend(&mut self, text: &str, out: &mut String) {
        if self.mode == Mode::Raw {
            let held = std::mem::take(&mut self.held);
            out.push_str(self.lexer.mend(&held));
            json::escape_into(&held, out);
            self.mode = Mode::Mended;
        }
        json::escape_into(text, out);
    }

    /// Continues the value; returns its end.
    fn lex(&mut self, bytes: &[u8]) -> usize {
        let end = self.lexer.push(bytes);
        self.ended |= end.is_some();
        self.is_valid &= self.lexer.is_valid();
        end.unwrap_or(bytes.len())
    }
}
