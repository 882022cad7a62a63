//! Calls: the shapes in which formats write them, and the schemas of their arguments.

pub(crate) mod json_arguments;
pub(crate) mod json_object;
mod numbers;
pub(crate) mod prefix;
pub(crate) mod python;
mod quoted;
mod schema;
pub(crate) mod shape;
mod strings;
pub(crate) mod tagged;
mod unquoted;
pub(crate) mod values;

pub(crate) use json_object::{CallScanner, Member, ObjectSpec, Step};
pub(crate) use prefix::{Opener, Prefix, Verdict};
pub use schema::ToolTypes;
pub(crate) use shape::{ArgumentsReader, BoundShape, Shape, ShapeKeys, Written};
pub(crate) use tagged::CallTags;

/// How an action ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// At what closes it.
    Closed,
    /// The model stopped, or went on with something else.
    Stopped,
    /// It was cut off.
    Cut,
}

/// What of a call was mended as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mended {
    /// A tag within a pair.
    Tag,
    /// The tag that closes a value.
    ValueEnd,
    /// What closes a call.
    CallEnd,
    /// A value that was not written as the schema of its tool says.
    Value,
    /// A call in JSON that was not written as JSON.
    Python,
    /// A call within reasoning.
    Draft,
    /// A call that was written in a way that is only read.
    Call,
    /// What stands after a call and means nothing.
    After,
    /// What closes a list of calls.
    ListEnd,
    /// The id of a call that has another form than the format's.
    Id,
    /// A part of a header.
    Header,
    /// The token that opens reasoning, after another.
    Opener,
    /// The token that opens reasoning.
    Unopened,
    /// One call in what opens and closes a call.
    Several,
    /// A call that stands in no list.
    List,
    /// What opens a call.
    CallOpener,
}

impl Mended {
    /// What was mended, in words.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Tag => "a tag of an argument is missing",
            Self::ValueEnd => "the tag that closes an argument is missing",
            Self::CallEnd => "what closes the call is missing",
            Self::Value => "an argument was quoted or written as in Python",
            Self::Python => "the call's JSON is quoted or written as in Python",
            Self::Unopened => "what opens reasoning is missing",
            Self::Several => "calls stand in one block",
            Self::List => "calls stand in a list",
            Self::CallOpener => "what opens the call is missing",
            Self::Draft => "a call in reasoning was read as reasoning",
            Self::Call => "the call is written in another way than the format's",
            Self::After => "what closes calls is not the format's",
            Self::ListEnd => "what closes the calls is missing",
            Self::Id => "the id of the call has another form",
            Self::Header => "a part of the header is missing or stands twice",
            Self::Opener => "the token that opens reasoning stands twice",
        }
    }
}
