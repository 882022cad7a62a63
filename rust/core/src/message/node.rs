//! Access to a caller's value before it is read as messages.

use crate::error::{Error, Result};
use crate::path::Path;

/// A caller's value: a Python object or parsed JSON.
///
/// ```
/// use chatcodec::{Node, View};
/// use serde_json::json;
///
/// let value = json!({"role": "user"});
/// let View::Map(members) = value.view() else { panic!("is no mapping") };
/// assert_eq!(members[0].0.as_text(), Some("role"));
/// assert_eq!(members[0].1.as_text(), Some("user"));
/// ```
pub trait Node: Sized {
    /// Kind and content of the value; text is borrowed from the value.
    fn view(&self) -> View<'_, Self>;

    /// The text, if the value is text; cheaper than [`Node::view`].
    fn as_text(&self) -> Option<&str> {
        match self.view() {
            View::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Kind and content of a [`Node`].
pub enum View<'a, N> {
    /// `None`, `null`
    Null,
    /// A boolean.
    Bool(bool),
    /// A number as JSON writes it, or one that JSON cannot write, such as `nan`.
    Number(String),
    /// Text.
    Text(&'a str),
    /// A string with half of a surrogate pair: not valid text.
    Surrogate,
    /// A list.
    List(Vec<N>),
    /// A mapping, in order.
    Map(Vec<(N, N)>),
    /// Any other value: the name of its type.
    Other(String),
    /// An object that is not a dict: the name of its type, and the call that converts it to a dict.
    Object(String, &'static str),
}

impl Node for serde_json::Value {
    fn view(&self) -> View<'_, Self> {
        match self {
            Self::Null => View::Null,
            Self::Bool(value) => View::Bool(*value),
            Self::Number(number) => View::Number(number.to_string()),
            Self::String(text) => View::Text(text),
            Self::Array(items) => View::List(items.clone()),
            Self::Object(members) => View::Map(
                members.iter().map(|(key, value)| (key.clone().into(), value.clone())).collect(),
            ),
        }
    }
}

pub(crate) const SURROGATE: &str = "holds half of a surrogate pair, expected text";

impl<'a, N> View<'a, N> {
    /// The kind of the value, for errors: `a number`, `a list`, or the name of another type.
    pub fn kind(&self) -> String {
        match self {
            Self::Null => "none".into(),
            Self::Bool(_) => "a boolean".into(),
            Self::Number(_) => "a number".into(),
            Self::Text(_) | Self::Surrogate => "a string".into(),
            Self::List(_) => "a list".into(),
            Self::Map(_) => "a dict".into(),
            Self::Other(kind) | Self::Object(kind, _) => format!("`{kind}`"),
        }
    }

    /// Error text for a value of an unexpected kind, with the call that converts an object.
    pub(crate) fn expected(&self, expected: &str) -> String {
        let kind = self.kind();
        match self {
            Self::Object(_, call) => {
                format!("is {kind}, expected {expected}; `{call}` makes a dict of it")
            }
            _ => format!("is {kind}, expected {expected}"),
        }
    }

    pub(crate) fn text(self, path: Path<'_>) -> Result<&'a str> {
        self.text_or(path, "a string")
    }

    /// Text, where `expected` may be given.
    pub(crate) fn text_or(self, path: Path<'_>, expected: &str) -> Result<&'a str> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Surrogate => Err(Error::message(path, SURROGATE)),
            other => Err(Error::message(path, other.expected(expected))),
        }
    }

    pub(crate) fn list(self, path: Path<'_>) -> Result<Vec<N>> {
        match self {
            Self::List(items) => Ok(items),
            other => Err(Error::message(path, other.expected("a list"))),
        }
    }

    /// Whether the value is absent: `None` or an empty list.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Null) || matches!(self, Self::List(items) if items.is_empty())
    }
}
