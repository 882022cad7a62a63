//! A caller's values into values of a template, each with its path.

use std::rc::Rc;
use std::sync::Arc;

use super::hidden::Hidden;
use super::meter::Meter;
use super::paths::Paths;
use super::shape::{self, Place};
use super::text::{Origin, Text};
use super::value::{Dict, List, ListKind, Missing, Outcome, Value};
use crate::error::{Error, Result};
use crate::message::{MAX_DEPTH, Node, SURROGATE, View};

/// The keys under which clients send reasoning, and templates read it.
pub(crate) const REASONING_KEYS: [&str; 4] =
    ["reasoning_content", "reasoning", "thinking", "thought"];

/// What a template expects of messages, where that is not what every client sends. Paths are the caller's in any case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The keys under which the template reads reasoning. What comes under another key is given under the first.
    pub(crate) reasoning: Vec<&'static str>,
    /// How the template takes contents.
    pub(crate) contents: Contents,
    /// Whether a developer's message is given as a system message.
    pub(crate) has_no_developer: bool,
}

/// How a template takes the contents of messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Contents {
    /// As texts and as lists of parts, or as neither.
    #[default]
    AsGiven,
    /// As texts: the texts of a list of parts are joined.
    Texts,
    /// As lists of parts: a text is given as a part.
    Parts,
}

impl Expected {
    /// The key under which a message's member is given.
    fn key<'k>(&self, key: &'k str, has: impl Fn(&str) -> bool) -> &'k str {
        match self.reasoning.first() {
            Some(read)
                if REASONING_KEYS.contains(&key)
                    && !self.reasoning.contains(&key)
                    && !has(read) =>
            {
                read
            }
            _ => key,
        }
    }
}

/// Reads a caller's values, and counts them.
pub(super) struct Reader<'a> {
    expected: &'a Expected,
    /// What the template is not to find in the caller's texts.
    hidden: Option<&'a Hidden>,
    pub(super) paths: Paths,
    /// Bytes of all strings.
    pub(super) bytes: usize,
    /// What the caller gives is not charged.
    meter: Meter,
    /// Keys that were met, the first of them: most dicts have the same.
    keys: Vec<Arc<str>>,
    /// Whether each content is read as a harmless word or number of its own.
    is_harmless: bool,
    /// Harmless words and numbers that were read.
    words: usize,
}

/// The number before the harmless ones.
const FIRST_NUMBER: i64 = 1;

/// How many keys are shared between dicts.
const SHARED_KEYS: usize = 16;

impl<'a> Reader<'a> {
    /// A reader of the caller's values, or of harmless ones of their shape.
    pub(super) fn new(
        expected: &'a Expected,
        hidden: Option<&'a Hidden>,
        is_harmless: bool,
    ) -> Self {
        Self {
            expected,
            hidden,
            paths: Paths::default(),
            bytes: 0,
            meter: Meter::boundless(),
            keys: Vec::new(),
            is_harmless,
            words: 0,
        }
    }

    /// What the template is given for a text: the text, the text with marks, or a harmless word.
    fn content_of(&mut self, text: &str, path: u32) -> Arc<str> {
        match self.hidden {
            _ if text.is_empty() => text.into(),
            _ if self.is_harmless => self.next_word().into(),
            Some(hidden) => hidden.hide(text, self.paths.message(path)),
            None => text.into(),
        }
    }

    /// The texts of a list of parts as one text, if it is nothing else.
    fn joined<N: Node>(&mut self, parts: &[N], list: u32) -> Result<Option<Value>> {
        if parts.is_empty() || !parts.iter().all(|part| is_text_part(&part.view())) {
            return Ok(None);
        }
        let mut whole = Text::empty();
        for (at, part) in parts.iter().enumerate() {
            let item = self.paths.item(list, at, false);
            let read = match part.view() {
                View::Map(members) => {
                    let texts = members.iter().filter(|(key, _)| key.as_text() == Some("text"));
                    let mut read = Value::None;
                    for (_, text) in texts {
                        let path = self.paths.key(item, "text".into());
                        read = self.value(text, path, 0, Place::Object)?;
                    }
                    read
                }
                _ => self.value(part, item, 0, Place::Object)?,
            };
            if let Value::Str(read) = read {
                whole = whole.concat(&read);
            }
        }
        Ok(Some(Value::Str(whole)))
    }

    /// A text as a list of one part, whose text comes from the content itself.
    fn parted(&mut self, text: Value, path: u32) -> Result<Value> {
        let origin = Origin::structure(path);
        let word = |word: &str| Value::Str(Text::data(word.into(), origin));
        let members = [(word("type"), word("text")), (word("text"), text)];
        let part = Dict::new(members, origin, &self.meter);
        let part = Value::Dict(Rc::new(self.checked(path, part)?));
        let list = List::new(vec![part], ListKind::List, origin);
        Ok(Value::List(Rc::new(self.checked(path, list)?)))
    }

    /// What stands for a content in a harmless conversation.
    fn next_word(&mut self) -> String {
        self.words += 1;
        shape::word(self.words)
    }

    /// An argument of the caller's: `tools`, or a variable by its name.
    pub(super) fn argument<N: Node>(&mut self, name: &str, value: &N) -> Result<Value> {
        let path = self.paths.argument(name);
        self.value(value, path, 0, Place::of_variable(name))
    }

    /// The messages: a key without a value is as one that is not there, but for `content`.
    pub(super) fn messages<N: Node>(&mut self, name: &str, value: &N) -> Result<Value> {
        let list = self.paths.argument(name);
        let View::List(items) = value.view() else {
            return self.value(value, list, 0, Place::Object);
        };
        let mut messages = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let path = self.paths.item(list, at, true);
            let mut message = self.value(item, path, 1, Place::Message)?;
            if let Value::Dict(dict) = &mut message
                && let Some(dict) = Rc::get_mut(dict)
            {
                if dict.members.iter().any(|(_, value)| matches!(value, Value::None)) {
                    let members = std::mem::take(&mut dict.members).into_iter();
                    let members = members.filter_map(|(key, value)| match (&key, &value) {
                        (Value::Str(name), Value::None) if name.as_str() == "content" => {
                            Some((key, Value::Undefined(Missing::Null)))
                        }
                        (_, Value::None) => None,
                        _ => Some((key, value)),
                    });
                    let given = Dict::new(members, dict.origin, &self.meter);
                    *dict = self.checked(path, given)?;
                }
                dict.message = Some(at as u32);
            }
            messages.push(message);
        }
        let messages = List::new(messages, ListKind::List, Origin::structure(list));
        Ok(Value::List(Rc::new(self.checked(list, messages)?)))
    }

    fn value<N: Node>(
        &mut self,
        value: &N,
        path: u32,
        depth: usize,
        place: Place,
    ) -> Result<Value> {
        if depth > MAX_DEPTH {
            let problem = format!("nests deeper than {MAX_DEPTH}, expected at most that");
            return Err(Error::message(self.paths.text(path), problem));
        }
        let origin = Origin::structure(path);
        Ok(match value.view() {
            View::Null => Value::None,
            View::Bool(value) => Value::Bool(value),
            View::Number(text) => self.number(&text, path, place)?,
            View::Text(text) => {
                let is_content = !place.is_known(text);
                let text: Arc<str> = match text {
                    "developer" if place == Place::Role && self.expected.has_no_developer => {
                        "system".into()
                    }
                    text if is_content => self.content_of(text, path),
                    text => text.into(),
                };
                self.bytes += text.len();
                self.paths.keep(path, text.clone(), is_content);
                let origin = if is_content { Origin::content(path) } else { origin };
                Value::Str(Text::data(text, origin))
            }
            View::Surrogate => return Err(Error::message(self.paths.text(path), SURROGATE)),
            View::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (at, item) in items.iter().enumerate() {
                    let path = self.paths.item(path, at, false);
                    list.push(self.value(item, path, depth + 1, place)?);
                }
                let list = List::new(list, ListKind::List, origin);
                Value::List(Rc::new(self.checked(path, list)?))
            }
            View::Map(members) => {
                let mut dict = Dict::with_capacity(members.len(), origin);
                let is_message = place == Place::Message;
                let has = |key: &str| members.iter().any(|(known, _)| known.as_text() == Some(key));
                for (key, value) in &members {
                    // A key is a part of its dict.
                    let (name, key, place) = match key.as_text() {
                        Some(text) if place.is_field(text) => {
                            self.bytes += text.len();
                            let name = self.shared(text);
                            let given = match place {
                                Place::Message => self.expected.key(text, has),
                                _ => text,
                            };
                            let given = if given == text { name.clone() } else { given.into() };
                            let place = place.of_member(text);
                            (name, Value::Str(Text::data(given, origin)), place)
                        }
                        Some(text) => {
                            // Equal names of two dicts are two strings, as harmless ones are.
                            let given = self.content_of(text, path);
                            self.bytes += given.len();
                            let name = if self.is_harmless { given.clone() } else { text.into() };
                            let key = Text::data(given, Origin::content(path));
                            (name, Value::Str(key), place.of_member(text))
                        }
                        None => {
                            let key = self.value(key, path, depth + 1, Place::Key)?;
                            let name = key.text(&self.meter).ok().map(|text| text.as_str().into());
                            (name.unwrap_or_default(), key, place.of_member(""))
                        }
                    };
                    let is_content = is_message && *name == *"content";
                    let path = self.paths.key(path, name);
                    let contents = self.expected.contents;
                    let joined = match value.view() {
                        View::List(parts) if is_content && contents == Contents::Texts => {
                            self.joined(&parts, path)?
                        }
                        _ => None,
                    };
                    let value = match joined {
                        Some(joined) => joined,
                        None => self.value(value, path, depth + 1, place)?,
                    };
                    let value = match value {
                        Value::Str(_) if is_content && contents == Contents::Parts => {
                            self.parted(value, path)?
                        }
                        value => value,
                    };
                    if key.hash(&self.meter).is_err() {
                        let problem =
                            format!("has a key that is `{}`, expected a string", key.kind());
                        return Err(Error::message(self.paths.text(path), problem));
                    }
                    let is_set = dict.insert(key, value, &self.meter);
                    self.checked(path, is_set)?;
                }
                Value::Dict(Rc::new(dict))
            }
            other @ (View::Other(_) | View::Object(..)) => {
                let expected = "text, a number, a list or a dict";
                return Err(Error::message(self.paths.text(path), other.expected(expected)));
            }
        })
    }

    /// What was made of the value at a path.
    fn checked<T>(&self, path: u32, made: Outcome<T>) -> Result<T> {
        made.map_err(|problem| Error::message(self.paths.text(path), problem.text()))
    }

    fn shared(&mut self, key: &str) -> Arc<str> {
        if let Some(known) = self.keys.iter().find(|known| ***known == *key) {
            return known.clone();
        }
        let key: Arc<str> = key.into();
        if self.keys.len() < SHARED_KEYS {
            self.keys.push(key.clone());
        }
        key
    }

    fn number(&mut self, text: &str, path: u32, place: Place) -> Result<Value> {
        let number = self.read_number(text, path)?;
        // Whether it is 0 belongs to the shape, as whether a text is empty.
        if place == Place::Key || !number.is_true() {
            return Ok(number);
        }
        let origin = Origin::content(path);
        self.paths.set_content(path);
        self.words += usize::from(self.is_harmless);
        let word = FIRST_NUMBER + self.words as i64;
        Ok(match number {
            Value::Int(..) | Value::Long(..) if self.is_harmless => Value::Int(word, origin),
            Value::Float(..) if self.is_harmless => Value::Float(word as f64 + 0.5, origin),
            Value::Int(number, _) => Value::Int(number, origin),
            Value::Long(number, _) => Value::Long(number, origin),
            Value::Float(number, _) => Value::Float(number, origin),
            other => other,
        })
    }

    fn read_number(&self, text: &str, path: u32) -> Result<Value> {
        let origin = Origin::structure(path);
        if text.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
            return match text.parse() {
                Ok(number) => Ok(Value::Int(number, origin)),
                Err(_) => Ok(Value::Long(text.into(), origin)),
            };
        }
        let number = match text {
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            text => text.parse(),
        };
        let wrong =
            || Error::message(self.paths.text(path), format!("is `{text}`, expected a number"));
        Ok(Value::Float(number.map_err(|_| wrong())?, origin))
    }
}

/// Whether a part is text and nothing else.
fn is_text_part<N: Node>(part: &View<'_, N>) -> bool {
    const KINDS: [&str; 3] = ["text", "input_text", "output_text"];
    let View::Map(members) = part else { return matches!(part, View::Text(_)) };
    let is_text = |(key, value): &(N, N)| match key.as_text() {
        Some("type") => value.as_text().is_some_and(|kind| KINDS.contains(&kind)),
        Some("text") => value.as_text().is_some(),
        Some("cache_control" | "annotations") => true,
        _ => false,
    };
    let has = |name: &str| members.iter().any(|(key, _)| key.as_text() == Some(name));
    members.iter().all(is_text) && has("type") && has("text")
}
