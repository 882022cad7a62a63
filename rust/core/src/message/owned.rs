//! A caller's value, copied: it can be read later, and by another thread.

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::node::{Node, View};
use super::{Call, CallBody, Media, Message, Piece};
use crate::error::{Error, Result};

/// Deepest nesting of a caller's value.
pub(crate) const MAX_DEPTH: usize = 200;

/// A copy of a caller's value. A reference to it is a [`Node`].
///
/// ```
/// use chatcodec::Owned;
/// use serde_json::json;
///
/// let copy = Owned::new("messages", &json!(["Hi", 1, null]))?;
/// assert_eq!(copy, Owned::List(vec![
///     Owned::Text("Hi".into()),
///     Owned::Number("1".into()),
///     Owned::Null,
/// ]));
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Owned {
    /// `None`, `null`
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A number as JSON writes it.
    Number(String),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Owned>),
    /// A mapping, in order.
    Map(Vec<(Owned, Owned)>),
    /// A string that is not valid text.
    Surrogate,
    /// Any other value: the name of its type, and the call that converts it to a dict.
    Other(String, Option<&'static str>),
}

impl Owned {
    /// Copies a value. `name` is the argument's name, for errors.
    ///
    /// # Errors
    /// [`Error::Message`] for a value that nests deeper than 200 levels.
    pub fn new<N: Node>(name: &str, value: &N) -> Result<Self> {
        Self::at_depth(name, value, 0)
    }

    fn at_depth<N: Node>(name: &str, value: &N, depth: usize) -> Result<Self> {
        if depth > MAX_DEPTH {
            let problem = format!("nests deeper than {MAX_DEPTH}, expected at most that");
            return Err(Error::message(name, problem));
        }
        let inner = |value: &N| Self::at_depth(name, value, depth + 1);
        Ok(match value.view() {
            View::Null => Self::Null,
            View::Bool(value) => Self::Bool(value),
            View::Number(text) => Self::Number(text),
            View::Text(text) => Self::Text(text.to_owned()),
            View::Surrogate => Self::Surrogate,
            View::List(items) => Self::List(items.iter().map(inner).collect::<Result<_>>()?),
            View::Map(members) => {
                let member = |(key, value): &(N, N)| Ok((inner(key)?, inner(value)?));
                Self::Map(members.iter().map(member).collect::<Result<_>>()?)
            }
            View::Other(kind) => Self::Other(kind, None),
            View::Object(kind, call) => Self::Other(kind, Some(call)),
        })
    }

    /// A message as clients of OpenAI write it, with arguments as values.
    pub(crate) fn of_message(message: &Message) -> Self {
        let text = |text: &str| Self::Text(text.to_owned());
        let map = |members: Vec<(&str, Self)>| {
            Self::Map(members.into_iter().map(|(key, value)| (text(key), value)).collect())
        };
        let size = |media: &Media| {
            let number = |number: u32| Self::Number(number.to_string());
            match media.rows {
                1 => number(media.count),
                rows => Self::List(vec![number(rows), number(media.count)]),
            }
        };
        let part = |piece: Piece<'_>| match piece {
            Piece::Text(said) => map(vec![("type", text("text")), ("text", text(said))]),
            Piece::Media(media) => {
                map(vec![("type", text(media.kind.name())), ("tokens", size(media))])
            }
        };
        let content = match &message.media[..] {
            [] => text(&message.content),
            _ => Self::List(message.pieces().map(part).collect()),
        };
        let mut members = vec![("role", text(message.role.name())), ("content", content)];
        members.extend(message.name.as_deref().map(|name| ("name", text(name))));
        members.extend(message.reasoning.as_deref().map(|it| ("reasoning_content", text(it))));
        members.extend(message.call_id.as_deref().map(|id| ("tool_call_id", text(id))));
        if !message.calls.is_empty() {
            let call = |call: &Call| {
                let (name, arguments) = match &call.body {
                    CallBody::Function { name, arguments } => {
                        (name.as_str(), Self::of_json(arguments))
                    }
                    CallBody::Code { language, source } => {
                        (language.as_deref().unwrap_or("python"), text(source))
                    }
                };
                let function = map(vec![("name", text(name)), ("arguments", arguments)]);
                let mut members = vec![("type", text("function")), ("function", function)];
                members.extend(call.id.as_deref().map(|id| ("id", text(id))));
                map(members)
            };
            members.push(("tool_calls", Self::List(message.calls.iter().map(call).collect())));
        }
        map(members)
    }

    /// The value of JSON text, with numbers as they are written; other text unchanged.
    pub(crate) fn of_json(text: &str) -> Self {
        Self::parsed(text, 0).unwrap_or_else(|| Self::Text(text.to_owned()))
    }

    /// The value of JSON text that nests at most [`MAX_DEPTH`] levels. Each level reads the text within it once.
    fn parsed(text: &str, depth: usize) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        let text = text.trim_matches([' ', '\t', '\n', '\r']);
        Some(match text.as_bytes().first()? {
            b'{' => {
                let Members(members) = serde_json::from_str(text).ok()?;
                let member = |(key, value): (String, &RawValue)| {
                    Some((Self::Text(key), Self::parsed(value.get(), depth + 1)?))
                };
                Self::Map(members.into_iter().map(member).collect::<Option<_>>()?)
            }
            b'[' => {
                let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                Self::List(
                    items
                        .into_iter()
                        .map(|item| Self::parsed(item.get(), depth + 1))
                        .collect::<Option<_>>()?,
                )
            }
            b'"' => Self::Text(serde_json::from_str(text).ok()?),
            b't' | b'f' => Self::Bool(serde_json::from_str(text).ok()?),
            b'n' => serde_json::from_str::<()>(text).map(|()| Self::Null).ok()?,
            _ => Self::Number(serde_json::from_str::<&RawValue>(text).ok()?.get().to_owned()),
        })
    }

    /// The value of a key of a mapping, to be changed.
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let Self::Map(members) = self else { return None };
        let is_key =
            |(known, _): &&mut (Self, Self)| matches!(known, Self::Text(text) if text == key);
        members.iter_mut().find(is_key).map(|(_, value)| value)
    }

    /// Adds a key that a mapping lacks.
    pub(crate) fn insert(&mut self, key: Self, value: Self) {
        if let Self::Map(members) = self {
            members.push((key, value));
        }
    }

    /// The value of a key of a mapping.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(members) = self else { return None };
        let is_key = |(known, _): &&(Self, Self)| matches!(known, Self::Text(text) if text == key);
        members.iter().find(is_key).map(|(_, value)| value)
    }

    /// The text, if the value is text.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Adds all strings.
    pub(crate) fn texts<'t>(&'t self, all: &mut Vec<&'t str>) {
        match self {
            Self::Text(text) => all.push(text),
            Self::List(items) => items.iter().for_each(|item| item.texts(all)),
            Self::Map(members) => members.iter().for_each(|(key, value)| {
                key.texts(all);
                value.texts(all);
            }),
            _ => {}
        }
    }

    /// Changes all strings, and gives those that changed: as they are, and as they were. A name that would be another
    /// member's stays.
    pub(crate) fn change_texts(
        &mut self,
        change: &impl Fn(&str) -> Cow<'_, str>,
        changed: &mut Vec<(String, String)>,
    ) {
        match self {
            Self::Text(text) => {
                if let Cow::Owned(new) = change(text) {
                    changed.push((new.clone(), std::mem::replace(text, new)));
                }
            }
            Self::List(items) => {
                for item in items {
                    item.change_texts(change, changed);
                }
            }
            Self::Map(members) => {
                let mut names: Option<HashSet<String>> = None;
                for at in 0..members.len() {
                    if let Some(Cow::Owned(new)) = members[at].0.as_str().map(change) {
                        let all = || members.iter().filter_map(|(name, _)| name.as_str());
                        let names = names.get_or_insert_with(|| all().map(str::to_owned).collect());
                        if names.insert(new.clone()) {
                            let old =
                                std::mem::replace(&mut members[at].0, Self::Text(new.clone()));
                            changed.extend(old.as_str().map(|old| (new, old.to_owned())));
                        }
                    }
                    members[at].1.change_texts(change, changed);
                }
            }
            _ => {}
        }
    }

    /// Bytes of all strings.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::List(items) => items.iter().map(Self::text_bytes).sum(),
            Self::Map(members) => {
                members.iter().map(|(key, value)| key.text_bytes() + value.text_bytes()).sum()
            }
            _ => 0,
        }
    }
}

/// The members of a JSON object in order; of two with one key the later value stays, as in Python.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members<'de>;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut members: Vec<(String, &RawValue)> = Vec::new();
                let mut places: HashMap<String, usize> = HashMap::new();
                while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                    if let Some(&at) = places.get(&key) {
                        members[at].1 = value;
                    } else {
                        places.insert(key.clone(), members.len());
                        members.push((key, value));
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

impl Node for &Owned {
    fn view(&self) -> View<'_, Self> {
        match self {
            Owned::Null => View::Null,
            Owned::Bool(value) => View::Bool(*value),
            Owned::Number(text) => View::Number(text.clone()),
            Owned::Text(text) => View::Text(text),
            Owned::Surrogate => View::Surrogate,
            Owned::List(items) => View::List(items.iter().collect()),
            Owned::Map(members) => {
                View::Map(members.iter().map(|(key, value)| (key, value)).collect())
            }
            Owned::Other(kind, None) => View::Other(kind.clone()),
            Owned::Other(kind, Some(call)) => View::Object(kind.clone(), call),
        }
    }

    fn as_text(&self) -> Option<&str> {
        self.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::Owned;

    fn text(text: &str) -> Owned {
        Owned::Text(text.into())
    }

    #[test]
    fn json_text_becomes_its_value() {
        let read = Owned::of_json(
            r#" {"a": 1.10, "b": [12345678901234567890123, null, true], "a": "\u00e9"} "#,
        );
        let list =
            vec![Owned::Number("12345678901234567890123".into()), Owned::Null, Owned::Bool(true)];
        assert_eq!(read, Owned::Map(vec![(text("a"), text("é")), (text("b"), Owned::List(list))]));
        assert_eq!(Owned::of_json("1.10"), Owned::Number("1.10".into()));
    }

    #[test]
    fn other_text_stays() {
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        for given in ["", "{", "{\"a\": }", "tru", "01", "NaN", "{} {}", "\"\\ud800\"", &deep] {
            assert_eq!(Owned::of_json(given), text(given), "{given:.20}");
        }
    }
}
