//! Reader of tagged pairs, up to their end.
//!
//! Text between pairs is reported as odd, and the reader looks for the next tag. A missing tag is
//! reported as mended. A closing tag that is text closes a value only if another tag, or the end of the call, comes
//! before the next closing tag: until then at most [`HOLD_LIMIT`] bytes are held. In place of pairs a model may write
//! one JSON object.

use std::borrow::Cow;
use std::sync::Arc;

use super::value::Found;
use super::wrap::PairValue;
use super::{SPACES, Tag, TaggedStyle, typed_value, write_key};
use crate::call::json_arguments::RawScanner;
use crate::call::shape::ArgumentsReader;
use crate::call::{Ended, Mended};
use crate::json;
use crate::limits::HOLD_LIMIT;
use crate::schema::{Kinds, Parameters};
use chatcodec_vocab::TokenId;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In consecutive tags: the index of the tag, and the number of its bytes read.
    Tags { place: Place, tag: usize, read: usize },
    /// In a key, which begins at this place of the held text.
    Key { start: usize },
    /// In a value: the amount of white space read that belongs to the tag before it.
    Value { skipped: usize },
    /// After a tag that may close a value, which begins at this place of the held text.
    MayClose { at: usize },
    /// In a JSON object in place of pairs.
    Json,
    /// In text outside pairs: looks for a tag.
    Odd,
    /// After the end of the pairs.
    Done,
}

/// What came of the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Body {
    /// Nothing but white space.
    Empty,
    /// Other text alone.
    Odd,
    Pairs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Open,
    Between,
    Close,
}

const OPEN: State = State::Tags { place: Place::Open, tag: 0, read: 0 };

/// Reads tagged pairs up to their end.
#[derive(Debug, Clone)]
pub(super) struct TaggedScanner {
    style: Arc<TaggedStyle>,
    /// The types of the values. Without any, the spelling of a value decides.
    parameters: Option<Arc<Parameters>>,
    state: State,
    /// The text of the current tags and key, and odd text; in a value, the text that may be the
    /// next tag.
    held: String,
    key: String,
    /// The quote of the key: the style's, or another one that a model wrote, or none.
    quote: Option<char>,
    /// Whether the tag of the key says that the value is a string.
    is_string: Option<bool>,
    value: Option<PairValue>,
    /// Whether nothing of the value was emitted.
    fresh: bool,
    body: Body,
    /// Number of tags in the value that close none.
    closers: usize,
    /// The object in place of pairs.
    json: Option<Box<RawScanner>>,
    is_valid: bool,
    /// Whether a token of a pair came where none belongs, since the last odd text.
    has_stray: bool,
    odd: String,
    mended: Option<Mended>,
}

impl TaggedScanner {
    pub(super) fn new(style: Arc<TaggedStyle>, parameters: Option<Arc<Parameters>>) -> Self {
        Self {
            quote: style.quote(),
            style,
            parameters,
            state: OPEN,
            held: String::new(),
            key: String::new(),
            is_string: None,
            value: None,
            fresh: false,
            body: Body::Empty,
            closers: 0,
            json: None,
            is_valid: true,
            has_stray: false,
            odd: String::new(),
            mended: None,
        }
    }

    fn has_pairs(&self) -> bool {
        self.body == Body::Pairs
    }

    /// The kinds of value that the key may have.
    fn kinds(&self) -> Kinds {
        let given = self.parameters.as_ref().map(|parameters| parameters.kinds(&self.key));
        self.style.read_as(given.unwrap_or(Kinds::ANY))
    }

    /// Reads a part of the text, which begins with a character; returns the number of bytes read.
    fn step(&mut self, c: char, rest: &str, out: &mut String) -> usize {
        match self.state {
            State::Done => return 0,
            State::Tags { place, tag, read } => {
                if !self.tag(c, place, tag, read) {
                    self.no_tag(c, out);
                    return 0;
                }
                self.settle(out);
            }
            State::Key { start } => {
                self.held.push(c);
                if let Some((end, tags)) = self.key_end(start) {
                    self.read_attributes(start, end, tags);
                    self.end_key(start, end, 1);
                    self.settle(out);
                } else if self.held.len() > HOLD_LIMIT {
                    self.stop(out);
                }
            }
            State::Value { skipped } => {
                let taken = self.value(rest, skipped, out);
                self.settle(out);
                return taken;
            }
            State::MayClose { at } => {
                self.held.push(c);
                self.look(at, out);
            }
            State::Json => return self.object(rest, out),
            State::Odd => {
                self.held.push(c);
                self.search(out);
                self.settle(out);
            }
        }
        c.len_utf8()
    }

    /// Reads held text again.
    fn again(&mut self, text: &str, out: &mut String) {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if self.is_done() {
                self.held.push_str(rest);
                return;
            }
            rest = &rest[self.step(c, rest, out)..];
        }
    }

    /// Looks for a tag at the end of the text after a tag that may close a value, which begins at a place.
    fn look(&mut self, at: usize, out: &mut String) {
        let core = self.style.close.core();
        let after = &self.held[at + core.len()..];
        if self.style.follows_value(after) {
            self.end_at_closer(at, out);
        } else if after.ends_with(core) || after.len() > HOLD_LIMIT {
            let after = self.held.split_off(at + core.len());
            let told = std::mem::take(&mut self.held);
            self.tell(&told, out);
            self.closers += 1;
            self.state = State::Value { skipped: self.style.between.after.len() };
            self.again(&after, out);
        }
    }

    /// Ends the value at the closing tag that begins at a place, and reads the held text after it.
    fn end_at_closer(&mut self, at: usize, out: &mut String) {
        let after = self.held.split_off(at + self.style.close.core().len());
        self.held.truncate(at);
        self.end_value(true, out);
        self.settle(out);
        self.again(&after, out);
    }

    /// Reads a part of the object in place of pairs; returns the number of bytes read.
    fn object(&mut self, text: &str, out: &mut String) -> usize {
        let Some(json) = &mut self.json else { return 0 };
        let (taken, said) = json.push(text);
        out.push_str(&said);
        if json.is_done() {
            self.is_valid &= json.is_complete(Ended::Closed);
            self.state = State::Odd;
        }
        taken
    }

    /// Ends in a value; returns whether the value is whole.
    fn finish_value(&mut self, ended: Ended, out: &mut String) -> bool {
        if ended != Ended::Cut && self.style.closes_call(&self.held) {
            self.held.clear();
        }
        if ended != Ended::Cut {
            // The end of the call begins a line: the newline belongs to the missing tag.
            let before = &self.style.close.first[..self.style.close.spaces];
            let value = self.held.strip_suffix(before).unwrap_or(&self.held);
            self.held.truncate(value.len());
        }
        let Some(mut value) = self.value.take() else { return false };
        let wrap = self.style.wrap.as_ref();
        value.push(&std::mem::take(&mut self.held), wrap, out);
        if ended == Ended::Cut {
            value.cut(wrap, out);
            return false;
        }
        let (is_understood, _) = value.end(wrap, out);
        self.mended = Some(Mended::ValueEnd);
        is_understood && ended == Ended::Closed
    }

    /// Ends between pairs; returns whether they are whole.
    fn finish_pairs(&mut self, ended: Ended) -> bool {
        self.odd_rest();
        let is_closing = !self.held.is_empty();
        let has_arguments = self.has_pairs() || self.json.is_some();
        let has_only_odd = self.body == Body::Odd && !has_arguments;
        if ended == Ended::Cut {
            return is_closing && !has_only_odd;
        }
        let is_last = self.style.call.close.is_empty() && ended == Ended::Closed;
        if !is_closing && !is_last {
            self.mended = Some(Mended::CallEnd);
        }
        (has_arguments || is_closing || ended == Ended::Closed) && !has_only_odd
    }

    /// Reads a character of a tag; `false` if it does not belong to the tag.
    fn tag(&mut self, c: char, place: Place, tag: usize, read: usize) -> bool {
        let is_space = SPACES.contains(&c);
        let start = self.held.len() - read;
        self.held.push(c);
        let came = &self.held[start..];
        let next = read + c.len_utf8();
        let whole = match self.style.stretch(place).read.get(tag) {
            Some(Tag::Text(text)) if text.starts_with(came) => Some(next == text.len()),
            _ => None,
        };
        if let State::Tags { tag, read, .. } = &mut self.state {
            match whole {
                Some(true) => (*tag, *read) = (*tag + 1, 0),
                Some(false) => *read = next,
                None if is_space && *read == 0 && self.held.len() <= HOLD_LIMIT => {}
                None => {
                    self.held.pop();
                    return false;
                }
            }
        }
        true
    }

    /// Handles text that does not continue a tag.
    fn no_tag(&mut self, c: char, out: &mut String) {
        let State::Tags { place, tag, read } = self.state else { return };
        if place == Place::Open
            && self.style.lacks_quote(tag, read)
            && (c == '\'' || is_key_char(c))
        {
            return self.other_quote(c);
        }
        let is_control = |tag: &Tag| matches!(tag, Tag::Control(_));
        match place {
            // A token cannot be returned as text.
            Place::Open if self.style.open.read[..tag].iter().any(is_control) => self.stop(out),
            Place::Open if self.held.len() > HOLD_LIMIT => self.stop(out),
            Place::Open if c == '{' && tag == 0 && read == 0 && !self.has_pairs() => {
                self.held.clear();
                self.json = Some(Box::default());
                self.mended = Some(Mended::Call);
                self.state = State::Json;
            }
            Place::Open => {
                self.state = State::Odd;
                if self.has_pairs() && self.held.starts_with(&self.style.close.after) {
                    self.held.drain(..self.style.close.after.len());
                }
            }
            // The tag that opens the value is missing.
            Place::Between
                if read == 0 && tag > 0
                    || self.style.between.read[tag..].iter().all(is_control) =>
            {
                self.mended = Some(Mended::Tag);
                self.state = State::Tags { place, tag: self.style.between.read.len(), read: 0 };
                self.settle(out);
            }
            _ => self.stop(out),
        }
    }

    /// The key has another quote than the style's, or none.
    fn other_quote(&mut self, c: char) {
        // The key reads the quote itself.
        self.quote = Some(c).filter(|&c| c == '\'');
        self.mended = Some(Mended::Call);
        self.state = State::Key { start: self.held.len() };
    }

    /// The place where a key begins: after the quote in front of it, if it has another quote than the style's.
    fn after_quote(&self, start: usize) -> usize {
        start + usize::from(self.quote == Some('\''))
    }

    /// The end of a key whose tag ends at a token: without the attribute, or with one that was not read.
    fn end_at_token(&mut self, start: usize) -> usize {
        let Some(kind) = &self.style.kind else { return self.held.len() };
        let start = self.after_quote(start);
        let key = &self.held[start..];
        if let Some(end) = attributes(key, self.quote) {
            let said = &key[end..];
            self.is_string = kind.among(said);
            let words = said[1..].split(SPACES).filter(|word| !word.is_empty());
            if self.is_string.is_none() || words.count() > 1 {
                said.clone_into(&mut self.odd);
            }
            return start + end;
        }
        start + self.quote.and_then(|quote| key.strip_suffix(quote)).unwrap_or(key).len()
    }

    /// Reads the attributes of a key, which are text from byte `end` to byte `tags`.
    fn read_attributes(&mut self, start: usize, end: usize, tags: usize) {
        let attributes = &self.held[end..tags];
        let Some(kind) = &self.style.kind else {
            if attributes.len() > 1 {
                attributes.clone_into(&mut self.odd);
            }
            return;
        };
        let own = kind.at_end(&self.held[start..]);
        self.is_string = own.map(|(_, is_string)| is_string);
        if own.is_none() {
            self.is_string = kind.among(attributes);
            if self.is_string.is_none() && attributes.len() > 1 {
                attributes.clone_into(&mut self.odd);
            } else {
                self.mended = Some(Mended::Tag);
            }
        }
    }

    /// The end of the key, and the beginning of the tags after the key and its attributes.
    fn key_end(&self, start: usize) -> Option<(usize, usize)> {
        let core = self.style.between.core();
        if let Some(kind) = &self.style.kind
            && let Some((length, _)) = kind.at_end(&self.held[start..])
        {
            return Some((start + length, self.held.len() - (core.len() - 1)));
        }
        if self.style.ends_in_token() {
            return None;
        }
        if self.style.quote().is_none() {
            let key = &self.held[start..];
            let end = start + key.strip_suffix(core).filter(|_| !core.is_empty())?.len();
            return Some((end, end));
        }
        let tags = start + self.held[start..].strip_suffix(&core[1..])?.len();
        let start = self.after_quote(start);
        let key = self.held.get(start..tags)?;
        if let Some(end) = attributes(key, self.quote) {
            return Some((start + end, tags));
        }
        let end = self.quote.map_or(Some(key), |quote| key.strip_suffix(quote))?.len();
        Some((start + end, tags))
    }

    /// Continues after complete tags.
    fn settle(&mut self, out: &mut String) {
        let State::Tags { place, tag, .. } = self.state else { return };
        if tag < self.style.stretch(place).read.len() {
            return;
        }
        match place {
            Place::Open => self.state = State::Key { start: self.held.len() },
            Place::Between => {
                self.held.clear();
                if !self.has_pairs() {
                    out.push('{');
                }
                write_key(&self.key, self.has_pairs(), out);
                self.body = Body::Pairs;
                self.fresh = true;
                let kinds = self.kinds();
                let wrap = self.style.wrap.as_ref();
                self.value = Some(match self.is_string.take() {
                    Some(is_string) => PairValue::bare(typed_value(is_string, kinds, out), kinds),
                    None => PairValue::new(kinds, wrap, out),
                });
                self.state = State::Value { skipped: 0 };
            }
            Place::Close => {
                self.held.clear();
                self.state = OPEN;
            }
        }
    }

    /// Handles a complete key, with the number of tags already read after it.
    fn end_key(&mut self, start: usize, end: usize, tags: usize) {
        let start = self.after_quote(start);
        let key = json::trim(&self.held[start..end]);
        let bare = in_quotes(key);
        if bare.is_some() {
            self.mended = Some(Mended::Call);
        }
        self.key = self.style.escapes.read(bare.unwrap_or(key)).into_owned();
        self.quote = self.style.quote();
        self.state = State::Tags { place: Place::Between, tag: tags, read: 0 };
    }

    /// Reads a part of a value; returns the number of bytes read.
    fn value(&mut self, text: &str, skipped: usize, out: &mut String) -> usize {
        let after = &self.style.between.after;
        let Some(c) = text.chars().next() else { return 0 };
        if skipped < after.len() {
            if after[skipped..].starts_with(c) {
                self.state = State::Value { skipped: skipped + c.len_utf8() };
                return c.len_utf8();
            }
            self.end_skip(skipped, out);
            return 0;
        }
        if self.held.is_empty() && !(self.fresh && SPACES.contains(&c)) {
            let plain =
                text.bytes().position(|byte| self.style.stops_at(byte)).unwrap_or(text.len());
            if plain > 0 {
                self.tell(&text[..plain], out);
                return plain;
            }
        }
        self.held.push(c);
        match self.style.end_of_value(&self.held, self.fresh) {
            Some(Found::Close(at)) if self.style.close.read.len() == 1 => {
                self.state = State::MayClose { at };
            }
            Some(Found::Close(at)) => {
                self.held.truncate(at);
                self.end_value(true, out);
            }
            Some(Found::NextPair(at)) => {
                self.held.truncate(at);
                self.end_value(false, out);
                self.mended = Some(Mended::ValueEnd);
                self.style.open.core().clone_into(&mut self.held);
                self.state = State::Tags { place: Place::Open, tag: 1, read: 0 };
            }
            Some(Found::End(at, tag)) => {
                let tag = tag.to_owned();
                self.held.truncate(at);
                self.end_value(false, out);
                self.mended = Some(Mended::ValueEnd);
                self.done(tag, out);
            }
            None => {
                let rest = self.held.split_off(self.style.held_from(&self.held, self.fresh));
                let told = std::mem::replace(&mut self.held, rest);
                self.tell(&told, out);
            }
        }
        c.len_utf8()
    }

    /// The white space at the beginning of a value belongs to the tag only if all of it is there.
    fn end_skip(&mut self, skipped: usize, out: &mut String) {
        let after = &self.style.between.after;
        if skipped < after.len() {
            self.state = State::Value { skipped: after.len() };
            let begun = after[..skipped].to_owned();
            self.tell(&begun, out);
        }
    }

    fn tell(&mut self, text: &str, out: &mut String) {
        if text.is_empty() {
            return;
        }
        self.fresh = false;
        if let Some(value) = &mut self.value {
            value.push(text, self.style.wrap.as_ref(), out);
        }
    }

    /// Ends the value; the held text comes before its end. `closed`: at its closing tag, which may have white
    /// space of its own before it.
    fn end_value(&mut self, closed: bool, out: &mut String) {
        let held = std::mem::take(&mut self.held);
        let before = if closed { &self.style.close.first[..self.style.close.spaces] } else { "" };
        self.tell(held.strip_suffix(before).unwrap_or(&held), out);
        if let Some(value) = self.value.take() {
            let (is_understood, mended) = value.end(self.style.wrap.as_ref(), out);
            self.is_valid &= is_understood;
            self.mended = mended.or(self.mended);
        }
        if std::mem::take(&mut self.closers) > 0 {
            self.mended = self.mended.or(Some(Mended::Inner));
        }
        self.state = State::Tags { place: Place::Close, tag: 1, read: 0 };
    }

    /// Looks for a tag at the end of text outside pairs.
    fn search(&mut self, out: &mut String) {
        let Some((at, is_pair)) = self.style.tag_after(&self.held) else {
            if self.held.len() > HOLD_LIMIT {
                self.stop(out);
            }
            return;
        };
        if is_pair && self.json.is_some() {
            return;
        }
        let tag = self.held[at..].to_owned();
        self.told_odd(at);
        if is_pair {
            self.held = tag;
            self.state = State::Tags { place: Place::Open, tag: 1, read: 0 };
        } else {
            self.done(tag, out);
        }
    }

    /// Reports the held text up to a place as odd, unless it is white space.
    fn told_odd(&mut self, end: usize) {
        let odd = &self.held[..end];
        if !json::trim(odd).is_empty() {
            let own = Some(&*self.style.close.after).filter(|_| self.has_pairs());
            let odd = own.and_then(|own| odd.strip_prefix(own)).unwrap_or(odd);
            // Text beside a tag of a pair was a pair, whose argument is lost. A tag alone stood twice.
            let closer = self.style.close.core();
            let has_tag = self.has_stray || !closer.is_empty() && odd.contains(closer);
            self.is_valid &= !has_tag || is_of_tags(odd);
            odd.clone_into(&mut self.odd);
            self.body = self.body.max(Body::Odd);
        }
        self.has_stray = false;
        self.held.clear();
    }

    /// The same at the end of input: a tag that ends the pairs may have begun.
    fn odd_rest(&mut self) {
        let begun = |&at: &usize| {
            let tail = &self.held[at..];
            self.style.ends().any(|tag| tag.starts_with(tail))
        };
        let at = self.held.char_indices().map(|(at, _)| at).find(begun).unwrap_or(self.held.len());
        let rest = self.held[at..].to_owned();
        self.told_odd(at);
        self.held = rest;
    }

    /// Ends the pairs at a tag.
    fn done(&mut self, tag: String, out: &mut String) {
        self.is_valid &= self.body != Body::Odd || self.json.is_some();
        self.held = tag;
        self.close(out);
        self.state = State::Done;
    }

    /// Ends the pairs at text that cannot be understood.
    fn stop(&mut self, out: &mut String) {
        self.is_valid &= self.state == State::Odd;
        self.close(out);
        self.state = State::Done;
    }

    fn close(&self, out: &mut String) {
        if self.json.is_some() {
            return;
        }
        out.push_str(if self.has_pairs() { "}" } else { "{}" });
    }
}

impl ArgumentsReader for TaggedScanner {
    fn is_done(&self) -> bool {
        self.state == State::Done
    }

    fn is_in_string(&self) -> bool {
        self.json.as_ref().is_some_and(|json| json.is_in_string())
    }

    fn lacks(&self, id: TokenId) -> bool {
        // A token of a tag may stand twice before the text begins.
        let is_twice = |is_fresh: bool| is_fresh && self.style.has_control(id);
        match self.state {
            State::Key { start } => !is_twice(self.held[start..].trim().is_empty()),
            State::Value { .. } => !is_twice(self.fresh && self.held.trim().is_empty()),
            State::MayClose { .. } => true,
            _ => self.json.as_ref().is_some_and(|json| json.lacks(id)),
        }
    }

    fn take_same(&mut self, text: &str) -> bool {
        let style = &self.style;
        let is_plain =
            |byte: u8| byte >= 0x20 && !matches!(byte, b'"' | b'\\') && !style.stops_at(byte);
        matches!(self.state, State::Value { skipped } if skipped == style.between.after.len())
            && self.held.is_empty()
            && !self.fresh
            && text.bytes().all(is_plain)
            && self.value.as_ref().is_some_and(|value| value.is_same(text, style.wrap.as_ref()))
    }

    fn read_by(&mut self, parameters: Option<Arc<Parameters>>) {
        self.parameters = parameters;
    }

    /// Stops at odd or mended text, and at the end of the pairs.
    fn push<'t>(&mut self, text: &'t str) -> (usize, Cow<'t, str>) {
        let mut out = String::with_capacity(text.len() + 2);
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if self.is_done() || !self.odd.is_empty() || self.mended.is_some() {
                break;
            }
            rest = &rest[self.step(c, rest, &mut out)..];
        }
        (text.len() - rest.len(), out.into())
    }

    fn push_control(&mut self, id: TokenId) -> (bool, String) {
        let mut out = String::new();
        if let State::MayClose { at } = self.state {
            self.end_at_closer(at, &mut out);
        }
        match self.state {
            State::Tags { place, tag, read: 0 } => {
                let Some(skipped) = self.style.stretch(place).find_control(tag, id) else {
                    self.has_stray |= self.style.has_control(id);
                    return (false, out);
                };
                if skipped > 0 {
                    self.mended = Some(Mended::Tag);
                }
                self.state = State::Tags { place, tag: tag + skipped + 1, read: 0 };
            }
            State::Key { start } => {
                let Some(skipped) = self.style.between.find_control(0, id) else {
                    return (false, out);
                };
                if skipped > 0 {
                    self.mended = Some(Mended::Tag);
                }
                let end = self.end_at_token(start);
                self.end_key(start, end, skipped + 1);
            }
            State::Value { skipped } if self.style.close.is_control(0, id) => {
                self.end_skip(skipped, &mut out);
                self.end_value(true, &mut out);
            }
            State::Value { skipped } if self.style.open.is_control(0, id) => {
                self.end_skip(skipped, &mut out);
                let line = self.held.trim_end_matches([' ', '\t']);
                self.held.truncate(line.strip_suffix('\n').unwrap_or(line).len());
                self.end_value(false, &mut out);
                self.mended = Some(Mended::ValueEnd);
                self.state = State::Tags { place: Place::Open, tag: 1, read: 0 };
            }
            State::Odd if self.style.open.is_control(0, id) && self.json.is_none() => {
                self.told_odd(self.held.len());
                self.state = State::Tags { place: Place::Open, tag: 1, read: 0 };
            }
            _ => {
                self.has_stray |= self.style.has_control(id);
                return (false, out);
            }
        }
        self.settle(&mut out);
        (true, out)
    }

    fn take_rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    fn take_odd(&mut self) -> String {
        std::mem::take(&mut self.odd)
    }

    fn take_mended(&mut self) -> Option<Mended> {
        self.mended.take()
    }

    fn is_mended(&self) -> bool {
        self.json.as_ref().is_some_and(|json| json.is_mended())
    }

    /// If the call was closed, or the model stopped, the emitted text becomes complete JSON.
    fn finish(&mut self, ended: Ended) -> String {
        let mut out = String::new();
        let is_cut = ended == Ended::Cut;
        if let State::MayClose { at } = self.state {
            self.end_at_closer(at, &mut out);
        }
        let is_valid = match self.state {
            State::Done => return out,
            State::Value { skipped } => {
                self.end_skip(skipped, &mut out);
                self.finish_value(ended, &mut out)
            }
            State::Tags { place: Place::Open, tag: 0, read: 0 } | State::Odd => {
                self.finish_pairs(ended)
            }
            State::Json => {
                out.extend(self.json.as_mut().map(|json| json.finish(ended)));
                false
            }
            _ => false,
        };
        self.is_valid &= is_valid;
        if self.is_valid || !is_cut {
            self.close(&mut out);
        }
        self.state = State::Done;
        out
    }

    fn is_complete(&self, _: Ended) -> bool {
        self.is_done() && self.is_valid
    }
}

/// Whether a text has nothing beside tags and white space.
fn is_of_tags(text: &str) -> bool {
    let mut ends = text.split('>');
    let last = ends.next_back().unwrap_or_default();
    json::trim(last).is_empty() && ends.all(|text| json::trim(text).starts_with('<'))
}

/// The text inside quotes, if the whole key is quoted.
pub(super) fn in_quotes(key: &str) -> Option<&str> {
    let bare = key.strip_prefix('"')?.strip_suffix('"')?;
    (!bare.is_empty() && json::trim(bare) == bare && !bare.contains('"')).then_some(bare)
}

/// Whether a key without quotes may begin with a character.
fn is_key_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The end of a key with attributes after it, with this quote or without: `a" type="string"`.
pub(super) fn attributes(key: &str, quote: Option<char>) -> Option<usize> {
    let Some(quote) = quote else { return key.find(SPACES) };
    let end = key.find(quote)?;
    key[end + quote.len_utf8()..].starts_with(SPACES).then_some(end)
}
