//! Reader of nested tags, as they come, as the text of a JSON object.
//!
//! What decides a value is its first tag, or its first text that is more than white space: an object or a list by the
//! schema, or else by the key of the first tag, or a text. The reader never goes back: a list whose tags have other keys
//! is a list of these values, and text that a tag interrupts has ended there.

use std::borrow::Cow;
use std::sync::Arc;

use super::super::shape::{ArgumentsReader, Written};
use super::super::unquoted::BareValue;
use super::super::{Ended, Mended};
use super::{MAX_DEPTH, Style, write};
use crate::json;
use crate::limits::HOLD_LIMIT;
use crate::schema::{Kinds, Parameters, Parts};
use chatcodec_vocab::TokenId;

/// What the value between two tags is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    /// Nothing but white space has come.
    New,
    Object,
    List,
    Text,
}

/// A value that is open.
#[derive(Debug, Clone)]
struct Element {
    key: String,
    value: Value,
    /// Number of its members or items.
    count: usize,
    parts: Option<Parts>,
}

/// A tag whose key is being read.
#[derive(Debug, Clone)]
struct Tag {
    is_closing: bool,
    text: String,
}

/// Reads arguments until they are ended.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    style: Arc<Style>,
    parameters: Option<Arc<Parameters>>,
    /// The arguments themselves, and the open values within them, each in the one before.
    open: Vec<Element>,
    tag: Option<Tag>,
    /// The text of the innermost value.
    text: Option<BareValue>,
    /// White space that a value begins with, or text between tags.
    held: String,
    odd: String,
    mended: Option<Mended>,
    is_valid: bool,
    is_done: bool,
}

impl Reader {
    pub(super) fn new(style: Arc<Style>, parameters: Option<Arc<Parameters>>) -> Self {
        let parts = parameters.as_ref().map(|_| Parts::all());
        let all = Element { key: String::new(), value: Value::Object, count: 0, parts };
        Self {
            style,
            parameters,
            open: vec![all],
            tag: None,
            text: None,
            held: String::new(),
            odd: String::new(),
            mended: None,
            is_valid: true,
            is_done: false,
        }
    }

    /// The kinds that the innermost value may have.
    fn kinds(&self) -> Kinds {
        let parts = self.open.last().and_then(|element| element.parts.as_ref());
        let kinds = self.parameters.as_ref().zip(parts).map(|(all, parts)| all.kinds_of(parts));
        kinds.unwrap_or(Kinds::ANY)
    }

    fn is_in_value(&self, value: Value) -> bool {
        self.open.last().is_some_and(|element| element.value == value)
    }

    /// Reads a character of a tag.
    fn read_tag(&mut self, c: char, out: &mut String) {
        let Some(tag) = &mut self.tag else { return };
        tag.text.push(c);
        let end = if tag.is_closing { &self.style.close_end } else { &self.style.open_end };
        let is_closing = tag.is_closing;
        if let Some(key) = tag.text.strip_suffix(&**end) {
            let key = json::trim(key).to_owned();
            self.tag = None;
            if is_closing { self.close(&key, out) } else { self.open(key, out) }
        } else if tag.text.len() > HOLD_LIMIT {
            self.drop_tag();
        }
    }

    /// Reports a tag that has no end.
    fn drop_tag(&mut self) {
        if let Some(tag) = self.tag.take() {
            self.is_valid = false;
            self.odd = tag.text;
        }
    }

    /// Reads a character outside tags, before the text of a value.
    fn read_between(&mut self, c: char, out: &mut String) {
        let is_space = u8::try_from(c).is_ok_and(json::is_space);
        if self.is_in_value(Value::New) && !(is_space && self.held.len() < HOLD_LIMIT) {
            return self.begin_text(c, out);
        }
        self.held.push(c);
        if self.held.len() > HOLD_LIMIT {
            self.is_valid = false;
            self.stop(out);
        }
    }

    fn begin_text(&mut self, c: char, out: &mut String) {
        let mut text = BareValue::new(self.kinds().of_text(), out);
        text.push(&std::mem::take(&mut self.held), out);
        text.push(c.encode_utf8(&mut [0; 4]), out);
        self.text = Some(text);
        if let Some(element) = self.open.last_mut() {
            element.value = Value::Text;
        }
    }

    /// Opens a value.
    fn open(&mut self, key: String, out: &mut String) {
        if self.is_in_value(Value::Text) {
            self.end_value(out);
            self.mended = Some(Mended::ValueEnd);
        }
        self.held.clear();
        if self.open.len() > MAX_DEPTH {
            self.is_valid = false;
            return self.stop(out);
        }
        let kinds = self.kinds();
        let is_item = key == self.style.item;
        let Some(parent) = self.open.last_mut() else { return };
        if parent.value == Value::New {
            let is_list = match (kinds.meets(Kinds::ARRAY), kinds.meets(Kinds::OBJECT)) {
                (true, false) => true,
                (false, true) => false,
                _ => is_item,
            };
            parent.value = if is_list { Value::List } else { Value::Object };
        }
        let is_list = parent.value == Value::List;
        out.push_str(match (parent.count, is_list) {
            (0, true) => "[",
            (0, false) => "{",
            _ => ", ",
        });
        if is_list && !is_item {
            // A list has no place for the key. Where a schema says that it is one, the values are all of it.
            self.mended = self.mended.or(Some(Mended::Call));
            self.is_valid &= kinds.meets(Kinds::ARRAY) && !kinds.meets(Kinds::OBJECT);
            self.odd.clone_from(&key);
        } else if !is_list {
            json::quote_into(&key, out);
            out.push_str(": ");
        }
        let parts = self.parameters.as_ref().zip(parent.parts.as_ref()).map(|(all, parts)| {
            if is_list { all.item(parts, parent.count) } else { all.member(parts, &key) }
        });
        parent.count += 1;
        self.open.push(Element { key, value: Value::New, count: 0, parts });
    }

    /// Closes the innermost value with a key, and the values within it; the innermost one if none has the key, which
    /// is reported.
    fn close(&mut self, key: &str, out: &mut String) {
        let found = self.open.iter().skip(1).rposition(|element| element.key == key);
        let is_last = found.is_some_and(|found| found + 2 == self.open.len());
        if !is_last {
            self.mended = Some(Mended::ValueEnd);
        }
        if found.is_none() {
            key.clone_into(&mut self.odd);
        }
        let left = found.map_or(self.open.len().saturating_sub(1).max(1), |found| found + 1);
        while self.open.len() > left {
            self.end_value(out);
        }
    }

    /// Ends the innermost value.
    fn end_value(&mut self, out: &mut String) {
        let kinds = self.kinds();
        let Some(element) = self.open.pop() else { return };
        let text = match element.value {
            Value::Object => return out.push_str(if element.count == 0 { "{}" } else { "}" }),
            Value::List => return out.push(']'),
            Value::Text => self.text.take(),
            Value::New => {
                let held = std::mem::take(&mut self.held);
                let empty = [(Kinds::OBJECT, "{}"), (Kinds::ARRAY, "[]"), (Kinds::NULL, "null")];
                let empty = empty.into_iter().find(|(kind, _)| kinds.meets(*kind));
                if let Some((_, empty)) = empty.filter(|_| !kinds.meets(Kinds::STRING)) {
                    return out.push_str(empty);
                }
                let mut text = BareValue::new(kinds.of_text(), out);
                text.push(&held, out);
                Some(text)
            }
        };
        if let Some(text) = text {
            let whole = text.end(out);
            self.is_valid &= whole.is_understood;
            if whole.is_mended {
                self.mended = Some(Mended::Value);
            }
        }
    }

    /// Reports text between tags.
    fn drop_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        if !json::trim(&held).is_empty() {
            self.odd = held;
        }
    }

    /// Ends the arguments; the held text comes after them.
    fn stop(&mut self, out: &mut String) {
        while !self.open.is_empty() {
            self.end_value(out);
        }
        self.is_done = true;
    }
}

impl ArgumentsReader for Reader {
    fn is_done(&self) -> bool {
        self.is_done
    }

    fn lacks(&self, _: TokenId) -> bool {
        self.tag.is_some() || self.text.is_some()
    }

    fn take_same(&mut self, text: &str) -> bool {
        self.tag.is_none()
            && self.text.as_ref().is_some_and(BareValue::is_text)
            && text.bytes().all(|byte| byte >= 0x20 && !matches!(byte, b'"' | b'\\'))
    }

    fn read_by(&mut self, parameters: Option<Arc<Parameters>>) {
        self.parameters = parameters;
        let mut parts = self.parameters.as_ref().map(|_| Parts::all());
        for at in 0..self.open.len() {
            let next = self.open.get(at + 1).map(|element| element.key.clone()).unwrap_or_default();
            let element = &mut self.open[at];
            element.parts = parts;
            let all = self.parameters.as_ref().zip(element.parts.as_ref());
            parts = all.map(|(all, parts)| match element.value {
                Value::List => all.item(parts, element.count.saturating_sub(1)),
                _ => all.member(parts, &next),
            });
        }
    }

    fn push<'t>(&mut self, text: &'t str) -> (usize, Cow<'t, str>) {
        let mut out = String::with_capacity(text.len() + 2);
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if self.is_done || !self.odd.is_empty() || self.mended.is_some() {
                break;
            }
            let mut taken = c.len_utf8();
            if self.tag.is_some() {
                self.read_tag(c, &mut out);
            } else if let Some(value) = &mut self.text {
                value.push(rest, &mut out);
                taken = rest.len();
            } else {
                self.read_between(c, &mut out);
            }
            rest = &rest[taken..];
        }
        (text.len() - rest.len(), out.into())
    }

    fn push_control(&mut self, id: TokenId) -> (bool, String) {
        let is_closing = self.style.close.contains(&id);
        if self.is_done || !is_closing && !self.style.open.contains(&id) {
            return (false, String::new());
        }
        self.drop_tag();
        if !self.is_in_value(Value::New) {
            self.drop_held();
        }
        self.tag = Some(Tag { is_closing, text: String::new() });
        (true, String::new())
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

    fn finish(&mut self, ended: Ended) -> String {
        let mut out = String::new();
        if self.is_done {
            return out;
        }
        if ended == Ended::Cut {
            self.is_valid = false;
            self.is_done = true;
            if let Some(text) = self.text.take() {
                text.cut(&mut out);
            }
            return out;
        }
        self.drop_tag();
        if !self.is_in_value(Value::New) {
            self.drop_held();
        }
        let [is_within, is_empty] = [self.open.len() > 1, self.open.iter().all(|e| e.count == 0)];
        if ended == Ended::Stopped {
            self.is_valid &= !is_within && !is_empty;
            self.mended = Some(Mended::CallEnd);
        } else if is_within {
            self.mended = Some(Mended::ValueEnd);
        }
        self.stop(&mut out);
        out
    }

    fn is_complete(&self, _: Ended) -> bool {
        self.is_done && self.is_valid
    }
}

/// Arguments after a round trip without a schema; those that cannot be written, as they are.
pub(super) fn canonical(arguments: &str, style: &Style) -> String {
    let Ok(written) = write::write(arguments, style) else { return arguments.to_owned() };
    let mut reader = Reader::new(Arc::new(style.clone()), None);
    let mut out = String::new();
    for piece in &written {
        match piece {
            Written::Text(text) => out.push_str(&reader.push(text).1),
            Written::Value(text) => out.push_str(&reader.push(text).1),
            Written::Control(id) => out.push_str(&reader.push_control(*id).1),
            Written::Given => {}
        }
    }
    out.push_str(&reader.finish(Ended::Closed));
    out
}
