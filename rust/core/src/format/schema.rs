//! Schemas of functions and their parameters, as the styles read them in which tools are written.

use crate::error::{Error, Result};
use crate::json::MAX_WRITE_DEPTH;
use crate::message::{Node, Owned, SURROGATE, View};
use crate::path::Path;

/// Whether a value counts as true in Python and in templates.
pub(super) fn is_true(value: &Owned) -> bool {
    match value {
        Owned::Null => false,
        Owned::Bool(value) => *value,
        Owned::Number(text) => text.parse::<f64>().is_ok_and(|number| number != 0.0),
        Owned::Text(text) => !text.is_empty(),
        Owned::List(items) => !items.is_empty(),
        Owned::Map(members) => !members.is_empty(),
        Owned::Surrogate | Owned::Other(..) => true,
    }
}

/// The members of a dict; none for other values.
pub(super) struct Schema<N>(pub(super) Vec<(N, N)>);

impl<N: Node> Schema<N> {
    pub(super) fn new(node: &N) -> Self {
        match node.view() {
            View::Map(members) => Self(members),
            _ => Self(Vec::new()),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&N> {
        let is_key = |node: &N| matches!(node.view(), View::Text(text) if text == key);
        self.0.iter().find(|(name, _)| is_key(name)).map(|(_, value)| value)
    }

    pub(super) fn list(&self, key: &str) -> Option<Vec<N>> {
        match self.get(key)?.view() {
            View::List(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|node| matches!(node.view(), View::Bool(true)))
    }

    /// The text of a key, if it has one; `path` is that of the function, for errors.
    pub(super) fn text_of(&self, key: &str, path: Path<'_>) -> Result<Option<&str>> {
        self.get(key).map_or(Ok(None), |node| text(node, path))
    }
}

/// The text of a node, if it is text.
///
/// # Errors
/// [`Error::Message`] for half of a surrogate pair.
pub(super) fn text<'s, N: Node>(node: &'s N, path: Path<'_>) -> Result<Option<&'s str>> {
    match node.view() {
        View::Text(text) => Ok(Some(text)),
        View::Surrogate => Err(Error::message(path, SURROGATE)),
        _ => Ok(None),
    }
}

/// Refuses a schema that is nested too deep.
pub(super) fn check_depth(depth: usize, function: Path<'_>) -> Result<()> {
    if depth > MAX_WRITE_DEPTH {
        let problem = format!("is nested deeper than {MAX_WRITE_DEPTH}");
        return Err(Error::message(function.key("parameters"), problem));
    }
    Ok(())
}
