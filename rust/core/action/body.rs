//! Arguments that stand after a header with the name: one way to read them for each way to write them.

use std::borrow::Cow;

use super::pairs::PairScanner;
use super::raw::RawScanner;

/// Reads the arguments of one call.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// Keyword arguments of a Python call.
    Python(PairScanner),
    /// A JSON value.
    Raw(RawScanner),
}

impl Body {
    /// Whether the arguments have ended by themselves.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Python(scanner) => scanner.is_done(),
            Self::Raw(scanner) => scanner.is_done(),
        }
    }

    /// Whether a string has begun and not ended: what stands in it ends nothing.
    pub(crate) fn is_in_string(&self) -> bool {
        match self {
            Self::Python(scanner) => scanner.is_in_string(),
            Self::Raw(scanner) => scanner.is_in_string(),
        }
    }

    /// Whether text is part of the arguments and says in JSON what it says here.
    pub(crate) fn is_same(&mut self, text: &str) -> bool {
        match self {
            Self::Python(scanner) => scanner.is_same(text),
            Self::Raw(scanner) => scanner.is_same(text),
        }
    }

    /// Reads text: how much of it belongs to the arguments, and the JSON that it says.
    pub(crate) fn push<'t>(&mut self, text: &'t str) -> (usize, Cow<'t, str>) {
        match self {
            Self::Python(scanner) => {
                let (taken, said) = scanner.push(text);
                (taken, said.into())
            }
            Self::Raw(scanner) => {
                let (taken, said) = scanner.push(text);
                (taken, said.into())
            }
        }
    }

    /// What is held and will not be finished.
    pub(crate) fn finish(&mut self) -> String {
        match self {
            Self::Python(scanner) => scanner.finish(),
            Self::Raw(_) => String::new(),
        }
    }

    /// Whether the arguments are whole, where a token has `closed` the call or not.
    pub(crate) fn is_complete(&self, closed: bool) -> bool {
        match self {
            Self::Python(scanner) => scanner.is_complete(),
            Self::Raw(scanner) if scanner.is_empty() => closed,
            Self::Raw(scanner) => scanner.is_complete(),
        }
    }
}
