//! A caller's values into values of a template, each with its path.

use std::rc::Rc;
use std::sync::Arc;

use super::paths::Paths;
use super::text::{Origin, Text};
use super::value::{Dict, List, ListKind, Value};
use crate::error::{Error, Result};
use crate::message::{MAX_DEPTH, Node, SURROGATE, View};

/// Reads a caller's values, and counts them.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) paths: Paths,
    /// Bytes of all strings.
    pub(super) bytes: usize,
    /// Keys that were met, the first of them: most dicts have the same.
    keys: Vec<Arc<str>>,
}

/// How many keys are shared between dicts.
const SHARED_KEYS: usize = 16;

impl Reader {
    /// An argument of the caller's: `tools`, or a variable by its name.
    pub(super) fn argument<N: Node>(&mut self, name: &str, value: &N) -> Result<Value> {
        let path = self.paths.argument(name);
        self.value(value, path, 0)
    }

    /// The messages: a key without a value is as one that is not there.
    pub(super) fn messages<N: Node>(&mut self, name: &str, value: &N) -> Result<Value> {
        let list = self.paths.argument(name);
        let View::List(items) = value.view() else {
            return self.value(value, list, 0);
        };
        let mut messages = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let path = self.paths.item(list, at, true);
            let mut message = self.value(item, path, 1)?;
            if let Value::Dict(dict) = &mut message
                && let Some(dict) = Rc::get_mut(dict)
            {
                if dict.members.iter().any(|(_, value)| matches!(value, Value::None)) {
                    let members = std::mem::take(&mut dict.members).into_iter();
                    let members = members.filter(|(_, value)| !matches!(value, Value::None));
                    *dict = Dict::new(members, dict.origin);
                }
                dict.message = Some(at as u32);
            }
            messages.push(message);
        }
        Ok(Value::List(Rc::new(List {
            items: messages,
            kind: ListKind::List,
            origin: Origin::data(list),
        })))
    }

    fn value<N: Node>(&mut self, value: &N, path: u32, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            let problem = format!("nests deeper than {MAX_DEPTH}, expected at most that");
            return Err(Error::message(self.paths.text(path), problem));
        }
        let origin = Origin::data(path);
        Ok(match value.view() {
            View::Null => Value::None,
            View::Bool(value) => Value::Bool(value),
            View::Number(text) => self.number(&text, path)?,
            View::Text(text) => {
                self.bytes += text.len();
                let text: Arc<str> = text.into();
                self.paths.keep(path, text.clone());
                Value::Str(Text::data(text, path))
            }
            View::Surrogate => return Err(Error::message(self.paths.text(path), SURROGATE)),
            View::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (at, item) in items.iter().enumerate() {
                    let path = self.paths.item(path, at, false);
                    list.push(self.value(item, path, depth + 1)?);
                }
                Value::List(Rc::new(List { items: list, kind: ListKind::List, origin }))
            }
            View::Map(members) => {
                let mut dict = Dict::with_capacity(members.len(), origin);
                for (key, value) in &members {
                    // A key is a part of its dict.
                    let (name, key) = match key.as_text() {
                        Some(text) => {
                            self.bytes += text.len();
                            let name = self.shared(text);
                            (name.clone(), Value::Str(Text::data(name, path)))
                        }
                        None => {
                            let key = self.value(key, path, depth + 1)?;
                            let name = key.text().ok().map(|text| text.as_str().into());
                            (name.unwrap_or_default(), key)
                        }
                    };
                    let path = self.paths.key(path, name);
                    let value = self.value(value, path, depth + 1)?;
                    if key.check_hashable().is_err() {
                        let problem =
                            format!("has a key that is `{}`, expected a string", key.kind());
                        return Err(Error::message(self.paths.text(path), problem));
                    }
                    dict.insert(key, value);
                }
                Value::Dict(Rc::new(dict))
            }
            other @ (View::Other(_) | View::Object(..)) => {
                let expected = "text, a number, a list or a dict";
                return Err(Error::message(self.paths.text(path), other.expected(expected)));
            }
        })
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

    fn number(&self, text: &str, path: u32) -> Result<Value> {
        let origin = Origin::data(path);
        if text.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
            return match text.parse() {
                Ok(number) => Ok(Value::Int(number, origin)),
                Err(_) => {
                    let problem = "is an integer of more than 64 bits, expected a smaller one";
                    Err(Error::message(self.paths.text(path), problem))
                }
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
