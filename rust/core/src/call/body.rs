//! Arguments that stand after a header with the name: one way to read them for each way to write them.

use std::borrow::Cow;
use std::sync::Arc;

use super::json_arguments::RawScanner;
use super::python::PairScanner;
use super::schema::{Kinds, Parameters};
use super::tagged::{TaggedScanner, TaggedStyle};
use super::{Ended, Mended};
use chatcodec_vocab::TokenId;

/// Reads the arguments of one call.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// Keyword arguments of a Python call.
    Python(PairScanner),
    /// A JSON value.
    Raw(RawScanner),
    /// Tagged pairs of key and value.
    Tagged(TaggedScanner, Arc<TaggedStyle>, Option<Arc<Parameters>>),
}

/// What a key's value may be. Without a schema, values are what they look like.
fn kinds_of(parameters: Option<&Parameters>, key: &str) -> Kinds {
    parameters.map_or(Kinds::ANY, |parameters| parameters.kinds(key))
}

impl Body {
    /// Whether the arguments have ended by themselves.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Python(scanner) => scanner.is_done(),
            Self::Raw(scanner) => scanner.is_done(),
            Self::Tagged(scanner, ..) => scanner.is_done(),
        }
    }

    /// Whether a string has begun and not ended: what stands in it ends nothing.
    pub(crate) fn is_in_string(&self) -> bool {
        match self {
            Self::Python(scanner) => scanner.is_in_string(),
            Self::Raw(scanner) => scanner.is_in_string(),
            // What is spelled there is the pairs' own.
            Self::Tagged(..) => false,
        }
    }

    /// Whether text is part of the arguments and says in JSON what it says here.
    pub(crate) fn is_same(&mut self, text: &str) -> bool {
        match self {
            Self::Python(scanner) => scanner.is_same(text),
            Self::Raw(scanner) => scanner.is_same(text),
            Self::Tagged(scanner, style, _) => scanner.is_same(text, style),
        }
    }

    /// From here on, values are read as what these say of them.
    pub(crate) fn read_by(&mut self, types: Option<Arc<Parameters>>) {
        if let Self::Tagged(.., parameters) = self {
            *parameters = types;
        }
    }

    /// Reads text: how much of it belongs to the arguments, and the JSON that it says.
    pub(crate) fn push<'t>(&mut self, text: &'t str) -> (usize, Cow<'t, str>) {
        match self {
            Self::Python(scanner) => {
                let (taken, said) = scanner.push(text);
                (taken, said.into())
            }
            Self::Raw(scanner) => scanner.push(text),
            Self::Tagged(scanner, style, parameters) => {
                let kinds_of = |key: &str| kinds_of(parameters.as_deref(), key);
                let (taken, said) = scanner.push(text, style, &kinds_of);
                (taken, said.into())
            }
        }
    }

    /// Reads a control token: whether it belongs to the arguments, and the JSON that it says.
    pub(crate) fn push_control(&mut self, id: TokenId) -> (bool, String) {
        match self {
            Self::Tagged(scanner, style, parameters) => {
                let kinds_of = |key: &str| kinds_of(parameters.as_deref(), key);
                scanner.push_control(id, style, &kinds_of)
            }
            _ => (false, String::new()),
        }
    }

    /// What was read and turned out to be none of the arguments.
    pub(crate) fn take_rest(&mut self) -> String {
        match self {
            Self::Tagged(scanner, ..) => scanner.take_rest(),
            _ => String::new(),
        }
    }

    /// Text between the arguments that is none of theirs.
    pub(crate) fn take_odd(&mut self) -> String {
        match self {
            Self::Tagged(scanner, ..) => scanner.take_odd(),
            _ => String::new(),
        }
    }

    /// What was mended just now.
    pub(crate) fn take_mended(&mut self) -> Option<Mended> {
        match self {
            Self::Tagged(scanner, ..) => scanner.take_mended(),
            _ => None,
        }
    }

    /// Whether they are JSON that was not written as such.
    pub(crate) fn is_mended(&self) -> bool {
        matches!(self, Self::Raw(scanner) if scanner.is_mended())
    }

    /// What is held and will not be finished.
    pub(crate) fn finish(&mut self, ended: Ended) -> String {
        match self {
            Self::Python(scanner) => scanner.finish(),
            Self::Raw(scanner) => scanner.finish(),
            Self::Tagged(scanner, style, _) => scanner.finish(style, ended),
        }
    }

    /// Whether the arguments are whole, once they have been finished.
    pub(crate) fn is_complete(&self, ended: Ended) -> bool {
        match self {
            Self::Python(scanner) => scanner.is_complete(),
            Self::Raw(scanner) if scanner.is_empty() => ended == Ended::Closed,
            Self::Raw(scanner) => scanner.is_complete(),
            Self::Tagged(scanner, ..) => scanner.is_complete(),
        }
    }
}
