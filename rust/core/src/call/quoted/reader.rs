//! Arguments with bare keys and quoted strings, as they come, as the text of a JSON object.

use std::borrow::Cow;

use super::super::Ended;
use super::super::shape::ArgumentsReader;
use super::{ENDS, MAX_DEPTH};
use crate::json;
use crate::limits::HOLD_LIMIT;
use chatcodec_vocab::TokenId;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a key, or before it.
    Key,
    /// Before a value.
    Value,
    /// In a number or a word.
    Bare,
    /// In a string.
    Text,
    /// After a value.
    After,
    /// After the brace that closes the arguments.
    Done,
    /// After something unexpected: text is passed on as it is.
    Broken,
}

/// The position before the next member or value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// After the opening bracket; the object or list may end here.
    Opening,
    /// After a comma, which is written with the next member or value.
    Comma,
    /// A key.
    Key,
}

/// Reads arguments up to the brace that closes them.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    quotes: Vec<TokenId>,
    state: State,
    /// The key or the bare value that is being read.
    held: String,
    /// The brackets that close the open objects and lists, outermost first.
    open: Vec<char>,
    /// Whether text of the arguments was read.
    begun: bool,
    before: Before,
    mended: bool,
}

impl Reader {
    pub(super) fn new(quotes: Vec<TokenId>) -> Self {
        Self {
            quotes,
            state: State::Key,
            held: String::new(),
            open: Vec::new(),
            begun: false,
            before: Before::Opening,
            mended: false,
        }
    }

    fn begin(&mut self, out: &mut String) {
        if !std::mem::replace(&mut self.begun, true) {
            out.push('{');
        }
    }

    /// Reads a character; `false` if the character must be read again in the new state.
    fn step(&mut self, c: char, out: &mut String) -> bool {
        match (self.state, c) {
            (State::Key | State::Bare, _) if self.held.len() > HOLD_LIMIT => return self.fail(out),
            (State::Value | State::After, c) if c.is_ascii_whitespace() => {}
            (State::Key, c) if c.is_ascii_whitespace() && self.held.is_empty() => {}
            (State::Key, '}') if self.held.is_empty() && self.before == Before::Opening => {
                return self.close(c, out);
            }
            (State::Key, ':') if !self.held.is_empty() => {
                self.write_comma(out);
                out.push('"');
                json::escape_into(std::mem::take(&mut self.held).trim_end(), out);
                out.push_str("\": ");
                self.state = State::Value;
            }
            (State::Key, c) if !ENDS.contains(&c) => self.held.push(c),
            (State::Value, '{' | '[') if self.open.len() < MAX_DEPTH => {
                self.write_comma(out);
                out.push(c);
                self.open.push(if c == '{' { '}' } else { ']' });
                self.state = if c == '{' { State::Key } else { State::Value };
                self.before = Before::Opening;
            }
            (State::Value, ']') if self.before == Before::Opening => return self.close(c, out),
            (State::Value, c) if !ENDS.contains(&c) => {
                self.held.push(c);
                self.state = State::Bare;
            }
            (State::Bare, ',' | '}' | ']') => {
                self.end_bare(out);
                return false;
            }
            (State::Bare, c) => self.held.push(c),
            (State::After, ',') => {
                self.before = Before::Comma;
                let is_list = self.open.last() == Some(&']');
                self.state = if is_list { State::Value } else { State::Key };
            }
            (State::After, '}' | ']') => return self.close(c, out),
            (State::Text, c) => json::escape_into(c.encode_utf8(&mut [0; 4]), out),
            (State::Broken, c) => out.push(c),
            (State::Done, _) => {}
            _ => return self.fail(out),
        }
        true
    }

    fn write_comma(&mut self, out: &mut String) {
        if std::mem::replace(&mut self.before, Before::Key) == Before::Comma {
            out.push_str(", ");
        }
    }

    /// Ends an object or a list.
    fn close(&mut self, c: char, out: &mut String) -> bool {
        if self.open.last().copied().unwrap_or('}') != c {
            return self.fail(out);
        }
        out.push(c);
        self.state = if self.open.pop().is_some() { State::After } else { State::Done };
        true
    }

    /// Ends a bare value. One that is not JSON is a string without its quotes.
    fn end_bare(&mut self, out: &mut String) {
        let held = std::mem::take(&mut self.held);
        let value = held.trim_end();
        self.write_comma(out);
        if json::is_value(value) && !value.starts_with('"') {
            out.push_str(value);
        } else {
            self.mended = true;
            json::quote_into(value, out);
        }
        self.state = State::After;
    }

    /// Stops reading: the held text, and all text after it, is passed on unchanged.
    fn fail(&mut self, out: &mut String) -> bool {
        self.write_comma(out);
        out.push_str(&std::mem::take(&mut self.held));
        self.state = State::Broken;
        false
    }
}

impl ArgumentsReader for Reader {
    fn boxed(&self) -> Box<dyn ArgumentsReader> {
        Box::new(self.clone())
    }

    fn is_done(&self) -> bool {
        self.state == State::Done
    }

    fn take_same(&mut self, text: &str) -> bool {
        self.state == State::Text
            && text.bytes().all(|byte| byte >= 0x20 && !matches!(byte, b'"' | b'\\'))
    }

    fn push<'t>(&mut self, text: &'t str) -> (usize, Cow<'t, str>) {
        let mut out = String::with_capacity(text.len() + 2);
        self.begin(&mut out);
        for (at, c) in text.char_indices() {
            if self.is_done() {
                return (at, out.into());
            }
            while !self.step(c, &mut out) {}
        }
        (text.len(), out.into())
    }

    fn push_control(&mut self, id: TokenId) -> (bool, String) {
        let mut out = String::new();
        if !self.quotes.contains(&id) {
            return (false, out);
        }
        match self.state {
            State::Value => {
                self.write_comma(&mut out);
                self.state = State::Text;
            }
            State::Text => self.state = State::After,
            _ => return (false, out),
        }
        out.push('"');
        (true, out)
    }

    fn take_rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    fn is_mended(&self) -> bool {
        self.mended
    }

    fn finish(&mut self, ended: Ended) -> String {
        let mut out = String::new();
        if self.state == State::Bare && ended != Ended::Cut {
            self.end_bare(&mut out);
        }
        out
    }

    fn is_complete(&self, _: Ended) -> bool {
        self.is_done()
    }
}
