//! A value written bare, `5` or `five`, as the JSON that it stands for.
//!
//! Strings stand for themselves, without quotes; anything else is JSON. Which of the two a value is, the
//! tool's schema says; without one, a value is a string unless the whole of it is JSON of another kind.
//! Strings, and containers that the schema announces, come out as they come in. Memory: a value that is
//! not decided yet, up to [`HEAD_LIMIT`], and the nesting.

use crate::json::{self, Lexer};
use crate::stream::HEAD_LIMIT;

/// What a tool's schema says of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// A string.
    Text,
    /// No string.
    Json,
    /// Nothing.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A string, told as it comes.
    Text,
    /// JSON, told as it comes.
    Raw,
    /// Held until it is decided; whether the schema says that it is no string.
    Held { is_json: bool },
}

/// Words of Python that models write where JSON is meant.
const WORDS: [(&str, &str); 3] = [("True", "true"), ("False", "false"), ("None", "null")];

/// Reads one value.
#[derive(Debug, Clone)]
pub(crate) struct BareValue {
    mode: Mode,
    lexer: Lexer,
    /// Whether the JSON in it has ended: only white space may follow.
    ended: bool,
    /// Whether what has come may be JSON.
    is_valid: bool,
    held: String,
    /// Where in that the value begins, after white space.
    start: Option<usize>,
}

impl BareValue {
    /// Begins a value; a string's quote is told at once.
    pub(crate) fn new(kind: ValueKind, out: &mut String) -> Self {
        let mode = match kind {
            ValueKind::Text => Mode::Text,
            ValueKind::Json => Mode::Held { is_json: true },
            ValueKind::Unknown => Mode::Held { is_json: false },
        };
        if mode == Mode::Text {
            out.push('"');
        }
        let lexer = Lexer::default();
        Self { mode, lexer, ended: false, is_valid: true, held: String::new(), start: None }
    }

    /// Whether what comes is told as the inside of a JSON string.
    pub(crate) fn is_text(&self) -> bool {
        self.mode == Mode::Text
    }

    /// Reads some of the value.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) {
        let mut chars = text.chars();
        while let Mode::Held { is_json } = self.mode {
            let Some(c) = chars.next() else { return };
            self.hold(c, is_json, out);
        }
        let rest = chars.as_str();
        match self.mode {
            Mode::Raw => self.raw(rest, out),
            _ => json::escape_into(rest, out),
        }
    }

    /// The value is whole; whether it was understood.
    pub(crate) fn end(mut self, out: &mut String) -> bool {
        match self.mode {
            Mode::Text => out.push('"'),
            Mode::Raw => return self.is_valid && self.lexer.is_complete_at_end(),
            Mode::Held { is_json } => {
                let value = json::trim(&self.held);
                let word = WORDS.iter().find(|(python, _)| is_json && *python == value);
                if let Some((_, word)) = word {
                    out.push_str(word);
                } else if self.lexer.is_complete_at_end() {
                    out.push_str(value);
                } else {
                    self.decide(Mode::Text, out);
                    out.push('"');
                }
            }
        }
        true
    }

    /// The value was cut off: tells what is held of it.
    pub(crate) fn cut(mut self, out: &mut String) {
        if self.start.is_some() && !self.held.is_empty() {
            let mode = if self.is_valid { Mode::Raw } else { Mode::Text };
            self.decide(mode, out);
        }
    }

    fn hold(&mut self, c: char, is_json: bool, out: &mut String) {
        let is_space = u8::try_from(c).is_ok_and(json::is_space);
        let is_first = self.start.is_none() && !is_space;
        if is_first {
            self.start = Some(self.held.len());
        }
        self.held.push(c);
        if let Some(start) = self.start
            && !(is_space && self.ended)
        {
            let end = self.lex(c.encode_utf8(&mut [0; 4]).as_bytes());
            let value = &self.held[start..];
            let word = WORDS.iter().find(|(python, _)| is_json && python.starts_with(value));
            self.ended |= word.is_some_and(|(python, _)| *python == value);
            let goes_on = self.is_valid && (end > 0 || is_space) || word.is_some();
            if !goes_on || (is_first && !is_json && c == '"') {
                return self.decide(Mode::Text, out);
            }
            if is_first && is_json && matches!(c, '{' | '[') {
                return self.decide(Mode::Raw, out);
            }
        }
        if self.held.len() > HEAD_LIMIT {
            let is_raw = self.start.is_some() && self.is_valid;
            self.decide(if is_raw { Mode::Raw } else { Mode::Text }, out);
        }
    }

    fn decide(&mut self, mode: Mode, out: &mut String) {
        let held = std::mem::take(&mut self.held);
        if mode == Mode::Text {
            out.push('"');
            json::escape_into(&held, out);
        } else {
            out.push_str(json::trim(&held));
        }
        self.mode = mode;
    }

    fn raw(&mut self, text: &str, out: &mut String) {
        let end = if self.ended { 0 } else { self.lex(text.as_bytes()) };
        let (value, rest) = text.split_at(end);
        out.push_str(value);
        // White space after a value is none of its own.
        let rest =
            if self.is_valid { rest.trim_start_matches([' ', '\t', '\n', '\r']) } else { rest };
        self.is_valid &= rest.is_empty();
        out.push_str(rest);
    }

    /// Reads on in the value; where it ended.
    fn lex(&mut self, bytes: &[u8]) -> usize {
        let end = self.lexer.push(bytes);
        self.ended |= end.is_some();
        self.is_valid &= self.lexer.is_valid();
        end.unwrap_or(bytes.len())
    }
}
