//! Calls: the shapes in which formats write them.

pub(crate) mod json_arguments;
pub(crate) mod json_object;
mod nested;
pub(crate) mod prefix;
pub(crate) mod python;
mod quoted;
#[cfg(test)]
mod reading;
pub(crate) mod shape;
pub(crate) mod tagged;
mod unquoted;
mod write;

pub(crate) use json_object::{CallScanner, Member, ObjectSpec, Step};
pub(crate) use prefix::{Opener, Prefix, Verdict};
pub(crate) use shape::{ArgumentsReader, BoundShape, Shape, ShapeKeys, Written};
pub(crate) use tagged::CallTags;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// At its closing token or text.
    Closed,
    /// The model stopped, or continued with something else.
    Stopped,
    /// It was cut off.
    Cut,
}

/// What the reader mended in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mended {
    /// A tag inside a pair.
    Tag,
    /// The tag that closes a value.
    ValueEnd,
    /// A tag within a value that closes no value.
    Inner,
    /// The end of a call.
    CallEnd,
    /// A value whose spelling differs from the schema of its tool.
    Value,
    /// The texts around a string.
    Wrap,
    /// A call with a spelling that is not JSON, in a format with calls in JSON.
    Python,
    /// A call within reasoning.
    Draft,
    /// A call in a form that the format reads and never writes.
    Call,
    /// Meaningless text after a call.
    After,
    /// The end of a list of calls.
    ListEnd,
    /// A call id in another form than the format's.
    Id,
    /// A part of a header.
    Header,
    /// A header that holds something that no field of its row reads.
    MoreHeader,
    /// A second token that opens reasoning.
    Opener,
    /// The token that opens reasoning.
    Unopened,
    /// The token that closes reasoning, before calls that end the turn.
    Unclosed,
    /// A single call between the tokens of a list.
    Several,
    /// A call outside a list.
    List,
    /// The beginning of a call.
    CallOpener,
}

impl Mended {
    /// The description of the mended part.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Tag => "a tag of an argument is missing",
            Self::ValueEnd => "the tag that closes an argument is missing",
            Self::Inner => "a tag that closes an argument stands in it",
            Self::CallEnd => "what closes the call is missing",
            Self::Value => "an argument was quoted or written as in Python",
            Self::Wrap => "the texts around an argument are not the format's",
            Self::Python => "the call's JSON is quoted or written as in Python",
            Self::Unopened => "what opens reasoning is missing",
            Self::Unclosed => "what closes reasoning is missing",
            Self::Several => "calls stand in one block",
            Self::List => "calls stand in a list",
            Self::CallOpener => "what opens the call is missing",
            Self::Draft => "a call in reasoning was read as reasoning",
            Self::Call => "the call is written in another way than the format's",
            Self::After => "what closes calls is not the format's",
            Self::ListEnd => "what closes the calls is missing",
            Self::Id => "the id of the call has another form",
            Self::Header => "a part of the header is missing or stands twice",
            Self::MoreHeader => "the header holds more than the format reads",
            Self::Opener => "the token that opens reasoning stands twice",
        }
    }
}
