//! A value written bare, `5` or `five`, as the JSON that it stands for.
//!
//! Strings stand for themselves, without quotes; anything else is JSON. Which of the two a value is, the
//! kinds say that the tool's schema allows: a string, unless the whole of it is JSON of another of them.
//! Strings come out as they come in, where nothing else is allowed, and as soon as they can be nothing else.
//! Memory: a value that is not decided yet, up to [`HEAD_LIMIT`], and the nesting.

use super::kinds::Kinds;
use crate::json::{self, Lexer};
use crate::stream::HEAD_LIMIT;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A string, told as it comes.
    Text,
    /// JSON, told as it comes.
    Raw,
    /// Held until it is decided.
    Held { kinds: Kinds },
}

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
    pub(crate) fn new(kinds: Kinds, out: &mut String) -> Self {
        let mode = if kinds == Kinds::STRING { Mode::Text } else { Mode::Held { kinds } };
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

    /// The value is whole; whether it was understood.
    pub(crate) fn end(mut self, out: &mut String) -> bool {
        match self.mode {
            Mode::Text => out.push('"'),
            Mode::Raw => return self.is_valid && self.lexer.is_complete_at_end(),
            Mode::Held { kinds } => {
                let value = json::trim(&self.held);
                if let Some(word) = kinds.word(value) {
                    out.push_str(word);
                } else if self.lexer.is_complete_at_end() && kinds.have(value) {
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

    fn hold(&mut self, c: char, kinds: Kinds, out: &mut String) {
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
            let is_word = kinds.may_be_word(value);
            self.ended |= kinds.word(value).is_some();
            let is_json =
                self.is_valid && (end > 0 || is_space) && (!is_first || kinds.may_begin(c));
            if !is_json && !is_word {
                return self.decide(Mode::Text, out);
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
