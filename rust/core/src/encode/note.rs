//! The differences between an extended conversation and the same messages encoded anew.

use std::ops::Range;

use crate::event::NoticeKind;

/// What a [`Note`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKind {
    /// The format writes the turn without its reasoning once a message follows.
    Reasoning,
    /// The same text has other ids.
    Ids,
    /// The format writes the message with another text.
    Text,
    /// The turn ends with another id than the format writes there.
    Stop,
    /// The turn begins otherwise than the format writes it: with another generation prompt.
    Prompt,
    /// The format writes the system message or the tools in the last user's turn.
    Moved,
    /// The format cannot write the message.
    Unencodable,
    /// A call has no end, or its arguments are not one JSON value.
    Incomplete,
    /// The whole conversation reads as another message than the completion.
    Reads,
    /// What a reader notices in the completion.
    Notice(NoticeKind),
}

impl NoteKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reasoning => "reasoning",
            Self::Ids => "ids",
            Self::Text => "text",
            Self::Stop => "stop",
            Self::Prompt => "prompt",
            Self::Moved => "moved",
            Self::Unencodable => "unencodable",
            Self::Incomplete => "incomplete",
            Self::Reads => "reads",
            Self::Notice(kind) => kind.name(),
        }
    }
}

/// A difference between an extended conversation and the same messages encoded anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub kind: NoteKind,
    /// What differs, for people to read.
    pub text: String,
    /// Positions of the ids in question.
    pub tokens: Range<usize>,
    /// The index of the message; -1 for what belongs to none.
    pub message: i32,
}
