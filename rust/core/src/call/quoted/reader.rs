//! Arguments with bare keys and quoted strings, as they come, as the text of a JSON object.
//!
//! Models also write keys and strings in JSON's or Python's quotes, or without the opening quote, and quotes within
//! strings. A quote ends a string only where the text after it may follow a string: [`Lookahead`] decides. The text
//! up to that decision is held, at most [`HOLD_LIMIT`] signs.

use std::borrow::Cow;

use super::super::shape::ArgumentsReader;
use super::super::{Ended, Mended};
use super::lookahead::{Lookahead, Quote, Sign, Verdict};
use super::{ENDS, MAX_DEPTH};
use crate::json;
use crate::limits::HOLD_LIMIT;
use chatcodec_vocab::TokenId;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a key, or before it.
    Key,
    /// In a key with quotes.
    QuotedKey(Quote),
    /// After the quote that may end a key.
    KeyEnd(Quote),
    /// Before a value.
    Value,
    /// In a number or a word.
    Bare,
    /// In a string.
    Text(Quote),
    /// After what may end a string: a quote, or text without quotes.
    MayEnd(Option<Quote>, Lookahead),
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
pub(crate) struct Reader {
    quotes: Vec<TokenId>,
    state: State,
    /// The key or the bare value that is being read; in a string, an escape that is not complete.
    held: String,
    /// Signs after what may end a key or a string.
    tail: Vec<Sign>,
    /// The quote that opened the string.
    own: Quote,
    /// Whether the text of the string has an odd number of quotes.
    is_odd: bool,
    /// The brackets that close the open objects and lists, outermost first.
    open: Vec<char>,
    /// Whether text of the arguments was read.
    begun: bool,
    before: Before,
    mended: bool,
    /// The brace that closes the arguments, if it was missing.
    missing: Option<Mended>,
}

impl Reader {
    pub(crate) fn new(quotes: Vec<TokenId>) -> Self {
        Self {
            quotes,
            state: State::Key,
            held: String::new(),
            tail: Vec::new(),
            own: Quote::Token,
            is_odd: false,
            open: Vec::new(),
            begun: false,
            before: Before::Opening,
            mended: false,
            missing: None,
        }
    }

    fn begin(&mut self, out: &mut String) {
        if !std::mem::replace(&mut self.begun, true) {
            out.push('{');
        }
    }

    fn is_list(&self) -> bool {
        self.open.last() == Some(&']')
    }

    /// Reads a sign and what it decides.
    fn read(&mut self, sign: Sign, out: &mut String) {
        match sign {
            Sign::Char(c) => while !self.step(c, out) {},
            Sign::Quote => {
                self.quote(out);
            }
        }
    }

    /// Reads a character; `false` if the character must be read again in the new state.
    fn step(&mut self, c: char, out: &mut String) -> bool {
        match (self.state, c) {
            (State::Key | State::QuotedKey(_) | State::Bare, _) if self.held.len() > HOLD_LIMIT => {
                return self.fail(out);
            }
            (State::Value | State::After, c) if c.is_ascii_whitespace() => {}
            (State::Key, c) if c.is_ascii_whitespace() && self.held.is_empty() => {}
            (State::Key, '}') if self.held.is_empty() && self.before != Before::Key => {
                return self.close(c, out);
            }
            (State::Key, '"' | '\'') if self.held.is_empty() => {
                self.mended = true;
                self.state = State::QuotedKey(Quote::of(c));
            }
            (State::Key, ':') if !self.held.is_empty() => {
                let key = std::mem::take(&mut self.held);
                self.mended |= key.contains('"');
                self.key(key.trim_end().trim_end_matches('"'), out);
            }
            (State::Key, c) if !ENDS.contains(&c) => self.held.push(c),
            (State::QuotedKey(quote), c) if quote.is(Sign::Char(c)) => {
                self.state = State::KeyEnd(quote);
            }
            (State::KeyEnd(_), c) if c.is_ascii_whitespace() && self.tail.len() <= HOLD_LIMIT => {
                self.tail.push(Sign::Char(c));
            }
            (State::KeyEnd(quote), ':') => {
                self.tail.clear();
                let key = std::mem::take(&mut self.held);
                let unescaped = if quote == Quote::Token { key } else { json::unescape(&key) };
                self.key(&unescaped, out);
            }
            (State::KeyEnd(quote), _) => self.resume_key(quote),
            (State::Value, '"' | '\'') => {
                self.mended = true;
                self.open_text(Quote::of(c), out);
            }
            (State::Value, '{' | '[') if self.open.len() < MAX_DEPTH => {
                self.write_comma(out);
                out.push(c);
                self.open.push(if c == '{' { '}' } else { ']' });
                self.state = if c == '{' { State::Key } else { State::Value };
                self.before = Before::Opening;
            }
            (State::Value, ']') if self.before != Before::Key => return self.close(c, out),
            (State::Value, c) if !ENDS.contains(&c) => {
                self.held.push(c);
                self.is_odd = false;
                self.state = State::Bare;
            }
            (State::Bare, '}' | ']') if is_literal(&self.held) => {
                self.end_bare(false, out);
                return false;
            }
            (State::Bare, ',' | '}' | ']') => {
                self.look(None);
                return false;
            }
            (State::QuotedKey(_) | State::Bare, c) => self.held.push(c),
            (State::After, ',') => {
                self.before = Before::Comma;
                self.state = if self.is_list() { State::Value } else { State::Key };
            }
            (State::After, '}' | ']') => return self.close(c, out),
            (State::After, c) if c != ':' => {
                self.missing_comma();
                return false;
            }
            (State::Text(quote), c) if quote.is(Sign::Char(c)) && self.held.is_empty() => {
                self.look(Some(quote));
            }
            (State::Text(Quote::Token), c) => json::escape_into(c.encode_utf8(&mut [0; 4]), out),
            (State::Text(_), c) => self.escaped(c, out),
            (State::MayEnd(quote, lookahead), c) => {
                self.look_at(quote, lookahead, Sign::Char(c), out);
            }
            (State::Broken, c) => out.push(c),
            (State::Done, _) => {}
            _ => return self.fail(out),
        }
        true
    }

    /// Reads the token around strings; `false` if it means nothing here.
    fn quote(&mut self, out: &mut String) -> bool {
        match self.state {
            State::Value => self.open_text(Quote::Token, out),
            State::Text(quote) => {
                self.end_escape(out);
                self.mended |= quote != Quote::Token;
                self.look(Some(Quote::Token));
            }
            State::Bare => self.look(Some(Quote::Token)),
            State::MayEnd(quote, lookahead) => {
                self.look_at(quote, lookahead, Sign::Quote, out);
            }
            State::Key if self.held.is_empty() => {
                self.mended = true;
                self.state = State::QuotedKey(Quote::Token);
            }
            // The token closes a key that it does not open, or is a quote in it.
            State::Key => {
                self.mended = true;
                self.held.push('"');
            }
            State::QuotedKey(_) => self.state = State::KeyEnd(Quote::Token),
            State::KeyEnd(quote) => {
                self.resume_key(quote);
                return self.quote(out);
            }
            State::After => {
                self.missing_comma();
                return self.quote(out);
            }
            State::Done | State::Broken => return false,
        }
        true
    }

    /// Goes on after a value without a comma.
    fn missing_comma(&mut self) {
        self.mended = true;
        self.before = Before::Comma;
        self.state = if self.is_list() { State::Value } else { State::Key };
    }

    fn write_comma(&mut self, out: &mut String) {
        if std::mem::replace(&mut self.before, Before::Key) == Before::Comma {
            out.push_str(", ");
        }
    }

    fn key(&mut self, key: &str, out: &mut String) {
        self.write_comma(out);
        out.push('"');
        json::escape_into(key, out);
        out.push_str("\": ");
        self.state = State::Value;
    }

    /// Goes on with a key in which there is a quote.
    fn resume_key(&mut self, quote: Quote) {
        self.held.push(quote.char());
        let tail = std::mem::take(&mut self.tail);
        self.held.extend(tail.into_iter().map(Sign::char));
        self.state = State::QuotedKey(quote);
    }

    fn open_text(&mut self, quote: Quote, out: &mut String) {
        self.write_comma(out);
        out.push('"');
        (self.own, self.is_odd) = (quote, false);
        self.state = State::Text(quote);
    }

    /// Reads a character of a string in JSON's or Python's quotes.
    fn escaped(&mut self, c: char, out: &mut String) {
        if self.held.is_empty() && c != '\\' {
            return json::escape_into(c.encode_utf8(&mut [0; 4]), out);
        }
        let is_code = self.held.starts_with("\\u");
        if is_code && !c.is_ascii_hexdigit() {
            self.end_escape(out);
            return self.escaped(c, out);
        }
        self.held.push(c);
        match self.held.len() {
            1 => {}
            2 if c == 'u' => {}
            6.. => out.push_str(&std::mem::take(&mut self.held)),
            _ if is_code => {}
            _ if "\"\\/bfnrt".contains(c) => out.push_str(&std::mem::take(&mut self.held)),
            _ => {
                if c == '\'' {
                    self.held.remove(0);
                }
                self.end_escape(out);
            }
        }
    }

    /// Passes on what looked like an escape.
    fn end_escape(&mut self, out: &mut String) {
        if matches!(self.state, State::Text(_)) {
            json::escape_into(&std::mem::take(&mut self.held), out);
        }
    }

    /// Looks for what may follow a string after its possible end: a quote, or what ends text without quotes.
    fn look(&mut self, quote: Option<Quote>) {
        let is_list = self.is_list();
        self.state = State::MayEnd(quote, Lookahead::new(is_list, self.is_odd));
    }

    fn look_at(
        &mut self,
        quote: Option<Quote>,
        mut lookahead: Lookahead,
        sign: Sign,
        out: &mut String,
    ) {
        self.tail.push(sign);
        let is_quote = sign == Sign::Quote || self.is_in_text() && self.own.is(sign);
        match lookahead.read(sign, is_quote, &self.open) {
            Verdict::More if self.tail.len() <= HOLD_LIMIT => {
                self.state = State::MayEnd(quote, lookahead);
            }
            Verdict::More if !lookahead.is_closed() => self.resume_text(quote, out),
            Verdict::No => self.resume_text(quote, out),
            Verdict::Yes | Verdict::More => self.end_text(quote, out),
        }
    }

    /// Goes on with a string in which there is a quote.
    fn resume_text(&mut self, quote: Option<Quote>, out: &mut String) {
        let mut tail = std::mem::take(&mut self.tail).into_iter();
        let is_bare = !self.is_in_text();
        if is_bare {
            let sign = quote.map(|quote| Sign::Char(quote.char())).or_else(|| tail.next());
            self.held.extend(sign.map(Sign::char));
            self.state = State::Bare;
        } else if let Some(quote) = quote {
            json::escape_into(quote.char().encode_utf8(&mut [0; 4]), out);
            self.state = State::Text(self.own);
        }
        self.is_odd ^= quote.is_some();
        self.mended |= quote.is_some();
        tail.for_each(|sign| self.read(sign, out));
    }

    /// Ends a string, and reads the signs after it.
    fn end_text(&mut self, quote: Option<Quote>, out: &mut String) {
        if self.is_in_text() {
            out.push('"');
            self.state = State::After;
        } else {
            self.end_bare(quote.is_some(), out);
        }
        let tail = std::mem::take(&mut self.tail);
        for sign in tail {
            if self.state == State::Done {
                self.held.push(sign.char());
            } else {
                self.read(sign, out);
            }
        }
    }

    /// Whether the string that may have ended was emitted as it came; text without quotes is held.
    fn is_in_text(&self) -> bool {
        self.held.is_empty()
    }

    /// Ends an object or a list.
    fn close(&mut self, c: char, out: &mut String) -> bool {
        if self.open.last().copied().unwrap_or('}') != c {
            return self.fail(out);
        }
        self.mended |= self.before == Before::Comma;
        self.before = Before::Key;
        out.push(c);
        self.state = if self.open.pop().is_some() { State::After } else { State::Done };
        true
    }

    /// Ends a bare value. One that is not JSON, or has a quote after it, is a string without its quotes.
    fn end_bare(&mut self, is_quoted: bool, out: &mut String) {
        let end = self.held.find([',', '}', ']']);
        if !is_quoted && end.is_some_and(|end| is_literal(&self.held[..end])) {
            // A comma or bracket after a literal is no text.
            self.fail(out);
            return;
        }
        let held = std::mem::take(&mut self.held);
        let value = held.trim_end();
        self.write_comma(out);
        if !is_quoted && is_literal(value) {
            out.push_str(value);
        } else {
            self.mended = true;
            let python = PYTHON.iter().find(|(word, _)| *word == value && !is_quoted);
            match python {
                Some((_, meant)) => out.push_str(meant),
                None => json::quote_into(if is_quoted { &held } else { value }, out),
            }
        }
        self.state = State::After;
    }

    /// Stops reading: the held text, and all text after it, is passed on unchanged.
    fn fail(&mut self, out: &mut String) -> bool {
        self.write_comma(out);
        if let State::QuotedKey(quote) | State::KeyEnd(quote) = self.state {
            out.push(quote.char());
        }
        out.push_str(&std::mem::take(&mut self.held));
        self.state = State::Broken;
        false
    }

    /// Decides on held signs after which no more of the arguments come.
    fn settle(&mut self, out: &mut String) {
        if let State::MayEnd(quote, _) = self.state {
            self.end_text(quote, out);
        }
    }
}

/// The literals of Python that JSON writes otherwise.
const PYTHON: [(&str, &str); 3] = [("True", "true"), ("False", "false"), ("None", "null")];

/// Whether a bare value is JSON.
fn is_literal(value: &str) -> bool {
    let value = value.trim_end();
    json::is_value(value) && !value.starts_with('"')
}

impl ArgumentsReader for Reader {
    fn is_done(&self) -> bool {
        self.state == State::Done
    }

    fn lacks(&self, _: TokenId) -> bool {
        match self.state {
            State::Key => !self.held.is_empty(),
            State::Value | State::After | State::Done | State::Broken => false,
            _ => true,
        }
    }

    fn take_same(&mut self, text: &str) -> bool {
        self.state == State::Text(Quote::Token)
            && text.bytes().all(|byte| byte >= 0x20 && !matches!(byte, b'"' | b'\\'))
    }

    fn push<'t>(&mut self, text: &'t str) -> (usize, Cow<'t, str>) {
        let mut out = String::with_capacity(text.len() + 2);
        self.begin(&mut out);
        for (at, c) in text.char_indices() {
            if self.is_done() {
                return (at, out.into());
            }
            self.read(Sign::Char(c), &mut out);
        }
        (text.len(), out.into())
    }

    fn push_control(&mut self, id: TokenId) -> (bool, String) {
        let mut out = String::new();
        if self.quotes.contains(&id) {
            self.begin(&mut out);
            return (self.quote(&mut out), out);
        }
        if matches!(self.state, State::MayEnd(_, lookahead) if lookahead.is_closed()) {
            self.settle(&mut out);
        }
        (false, out)
    }

    fn take_rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    fn take_mended(&mut self) -> Option<Mended> {
        self.missing.take()
    }

    fn is_mended(&self) -> bool {
        self.mended
    }

    fn finish(&mut self, ended: Ended) -> String {
        let mut out = String::new();
        match self.state {
            State::MayEnd(None, lookahead) if ended == Ended::Cut && !lookahead.is_closed() => {
                let tail = std::mem::take(&mut self.tail);
                self.held.extend(tail.into_iter().map(Sign::char));
            }
            State::MayEnd(..) => self.settle(&mut out),
            State::Text(_) => self.end_escape(&mut out),
            _ => {}
        }
        match self.state {
            State::Bare if ended != Ended::Cut => self.end_bare(false, &mut out),
            State::QuotedKey(quote) | State::KeyEnd(quote) => self.held.insert(0, quote.char()),
            _ => {}
        }
        if self.state == State::After && self.open.is_empty() && ended == Ended::Closed {
            self.missing = self.close('}', &mut out).then_some(Mended::CallEnd);
        }
        out
    }

    fn is_complete(&self, _: Ended) -> bool {
        self.is_done()
    }
}
