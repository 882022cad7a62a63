//! Spans of a rendered conversation: the boundary between control and text.
//!
//! A control token is a span of its own kind, and only a [`ControlId`] makes one. Literals of the
//! format and slots of the caller's text are parts of one string; neither can become control.

use std::fmt;
use std::ops::Range;

use crate::message::{MediaKind, MediaPlace};
use chatcodec_vocab::ControlId;

/// Source of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Index of the message; -1 for ids of no message.
    pub message: i32,
    /// The part of the message, or of the call.
    pub field: SourceField,
}

/// Field of a caller's message, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceField {
    /// Text of the format itself.
    Scaffold,
    /// `content`
    Content,
    /// `reasoning`
    Reasoning,
    /// `name`
    Name,
    /// `tool_call_id`
    CallId,
    /// `tool_calls[i].id`
    Id(u32),
    /// `tool_calls[i].function.name`
    FunctionName(u32),
    /// `tool_calls[i].function.arguments`
    Arguments(u32),
    /// `tool_calls[i].code.language`
    Language(u32),
    /// `tool_calls[i].code.source`
    Code(u32),
    /// `content[i]`: a media part.
    Media(MediaKind, MediaPlace),
    /// `tools`
    Tools,
    /// Another value of a caller whose messages a template wrote; [`crate::Encoding::path`] gives
    /// its path.
    Path(u32),
}

impl Source {
    pub(crate) const NONE: Self = Self { message: -1, field: SourceField::Scaffold };

    /// The format's own text beside a field.
    pub(crate) fn scaffold(self) -> Self {
        Self { field: SourceField::Scaffold, ..self }
    }

    /// The source of an id of the format's own: beside the caller's text, or of a media part.
    pub(crate) fn of_own(self) -> Self {
        if self.is_media() { self } else { self.scaffold() }
    }

    /// Whether this is a media part.
    pub fn is_media(self) -> bool {
        matches!(self.field, SourceField::Media(..))
    }

    /// Whether the caller supplied the text.
    pub fn is_content(self) -> bool {
        self.field != SourceField::Scaffold && !self.is_media()
    }
}

/// Path in the caller's arguments, such as `messages[1].content`; empty for the format's own text. Of a
/// [`SourceField::Path`], the message alone.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message;
        let call = |f: &mut fmt::Formatter<'_>, call: u32, field: &str| {
            write!(f, "messages[{message}].tool_calls[{call}].{field}")
        };
        match self.field {
            SourceField::Scaffold => Ok(()),
            SourceField::Content => write!(f, "messages[{message}].content"),
            SourceField::Reasoning => write!(f, "messages[{message}].reasoning"),
            SourceField::Name => write!(f, "messages[{message}].name"),
            SourceField::CallId => write!(f, "messages[{message}].tool_call_id"),
            SourceField::Id(i) => call(f, i, "id"),
            SourceField::FunctionName(i) => call(f, i, "function.name"),
            SourceField::Arguments(i) => call(f, i, "function.arguments"),
            SourceField::Language(i) => call(f, i, "code.language"),
            SourceField::Code(i) => call(f, i, "code.source"),
            SourceField::Media(_, MediaPlace::Content(i)) => {
                write!(f, "messages[{message}].content[{i}]")
            }
            SourceField::Media(_, MediaPlace::Result(i, j)) => {
                write!(f, "messages[{message}].content[{i}].content[{j}]")
            }
            SourceField::Media(_, MediaPlace::Output(i)) => {
                write!(f, "messages[{message}].output[{i}]")
            }
            SourceField::Tools => f.write_str("tools"),
            SourceField::Path(_) if message < 0 => f.write_str("variables"),
            SourceField::Path(_) => write!(f, "messages[{message}]"),
        }
    }
}

/// Kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// One control token; the span's text is its spelling, for people to read.
    Control(ControlId),
    /// A control token several times; the span's text is its spelling, repeated as many times.
    Repeated(ControlId, u32),
    /// Text of the format.
    Literal,
    /// Text of the caller; `escaped` as the inside of a JSON string.
    Slot { escaped: bool },
    /// White space of a template that the adjacent control token removes: it has no ids.
    Taken,
    /// No text: the texts before and after it are encoded separately.
    Cut,
    /// A control token among ids that a model generated; the format did not write it.
    Given,
}

/// A part of the rendered text, with its kind and source.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) kind: SpanKind,
    /// Bytes of the rendered text.
    pub(crate) text: Range<usize>,
    pub(crate) source: Source,
    /// Number of code points of the caller's string before the slot: white space that the format
    /// does not write.
    pub(crate) skipped: u32,
}
