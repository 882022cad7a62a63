//! The differences between an extended conversation and the same messages encoded anew.

use std::ops::Range;

use crate::event::NoticeKind;

/// Kind of a [`Note`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKind {
    /// The format writes the turn without its reasoning once a message follows it.
    Reasoning,
    /// The same text has other ids.
    Ids,
    /// The format writes the message with another text.
    Text,
    /// The turn ends with another id than the format's.
    Stop,
    /// The turn begins with another generation prompt than the format's.
    Prompt,
    /// The format writes the system message or the tools in the last user's turn.
    Moved,
    /// The format cannot write the message.
    Unencodable,
    /// A call has no end, or its arguments are not one JSON value.
    Incomplete,
    /// The whole conversation reads as another message than the completion.
    Reads,
    /// Control tokens of a template depend on what the caller's text says.
    Dependent,
    /// A template would write other control tokens for what the caller's text says; it was not followed.
    Unfollowed,
    /// The stream reports an irregularity in the completion.
    Notice(NoticeKind),
}

impl NoteKind {
    /// The name of the kind.
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
            Self::Dependent => "dependent",
            Self::Unfollowed => "unfollowed",
            Self::Notice(kind) => kind.name(),
        }
    }
}

/// A difference between an extended conversation and the same messages encoded anew.
///
/// ```
/// use chatcodec::{Codec, EncodeOptions, Format, Message, NoteKind, OnReasoning, Role, Vocab};
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let options = EncodeOptions::default();
/// let prompt = codec.encode(vec![Message::new(Role::User, "Hi")], None, &options)?;
/// let mut completion = codec.vocab().encode("a");
/// completion.extend(codec.vocab().encode("b")); // not the ids of "ab"
/// completion.push(92542); // <|im_end|>
/// let next = codec.extend(&prompt, &completion, Vec::new(), &options, OnReasoning::Keep)?;
/// let note = &next.notes()[0];
/// assert_eq!((note.kind, note.tokens.clone()), (NoteKind::Ids, 13..15));
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The kind of the difference.
    pub kind: NoteKind,
    /// Description of the difference, for people.
    pub text: String,
    /// Positions of the affected ids.
    pub tokens: Range<usize>,
    /// Index of the message; -1 for no message.
    pub message: i32,
}
