//! JSON in which the keys of every object are in order.

use std::borrow::Cow;

use super::schema::check_depth;
use crate::error::{Error, Result};
use crate::json::{self, Layout};
use crate::message::{Node, Owned, SURROGATE, View};
use crate::path::Path;

/// Appends the list of tools as JSON without spaces; the keys of every object are sorted, whatever their case.
pub(super) fn write<N: Node>(tools: &[N], path: Path<'_>, out: &mut String) -> Result<()> {
    let of = |(at, tool)| sorted(tool, path.item(at), 0, &|key| key.to_lowercase().into());
    let tools: Vec<Owned> = tools.iter().enumerate().map(of).collect::<Result<_>>()?;
    let tools: Vec<&Owned> = tools.iter().collect();
    json::write_list(&tools, Layout::Dense, path, out)
}

/// What keys are sorted by.
pub(super) type SortedBy<'a> = &'a dyn Fn(&str) -> Cow<'_, str>;

/// A copy of a value with the keys of every object in order.
pub(super) fn sorted<N: Node>(
    value: &N,
    path: Path<'_>,
    depth: usize,
    by: SortedBy<'_>,
) -> Result<Owned> {
    check_depth(depth, path)?;
    let inner = |value: &N| sorted(value, path, depth + 1, by);
    Ok(match value.view() {
        View::Null => Owned::Null,
        View::Bool(value) => Owned::Bool(value),
        View::Number(text) => Owned::Number(text),
        View::Text(text) => Owned::Text(text.to_owned()),
        View::Surrogate => return Err(Error::message(path, SURROGATE)),
        View::List(items) => Owned::List(items.iter().map(inner).collect::<Result<_>>()?),
        View::Map(members) => {
            let mut copied = Vec::with_capacity(members.len());
            for (key, value) in &members {
                let key = match key.view() {
                    View::Text(key) => key.to_owned(),
                    View::Surrogate => return Err(Error::message(path, SURROGATE)),
                    _ => return Err(Error::message(path, "has a key that is not a string")),
                };
                copied.push((key, inner(value)?));
            }
            copied.sort_by(|(one, _), (other, _)| by(one).cmp(&by(other)));
            let member = |(key, value)| (Owned::Text(key), value);
            Owned::Map(copied.into_iter().map(member).collect())
        }
        View::Other(kind) => Owned::Other(kind, None),
        View::Object(kind, call) => Owned::Other(kind, Some(call)),
    })
}
