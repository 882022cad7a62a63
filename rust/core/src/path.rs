//! The place of a value in a caller's arguments: `messages[1].tool_calls[0].function.name`.
//!
//! In: the steps of a reader on its way down. Out: the path as text, for errors. A step is a link
//! to the previous step, so it costs nothing.

use std::fmt;

/// A place in a caller's arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Path<'a> {
    /// An argument.
    Argument(&'a str),
    /// An item of a list.
    Item(&'a Path<'a>, usize),
    /// A value of a dict.
    Key(&'a Path<'a>, &'a str),
}

impl<'a> Path<'a> {
    pub(crate) fn item(&'a self, at: usize) -> Self {
        Self::Item(self, at)
    }

    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Self::Key(self, key)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(name) => f.write_str(name),
            Self::Item(list, at) => write!(f, "{list}[{at}]"),
            Self::Key(dict, key) => write!(f, "{dict}.{key}"),
        }
    }
}

impl From<Path<'_>> for String {
    fn from(path: Path<'_>) -> Self {
        path.to_string()
    }
}
