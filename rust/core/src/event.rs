//! What a stream of ids says: events, in order, each with the ids it was read from.

use std::borrow::Cow;
use std::ops::Range;

use crate::message::Role;

/// What an action is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionKind {
    /// A function with JSON arguments.
    Function,
    /// Code to run.
    Code,
}

impl ActionKind {
    /// `"function"` or `"code"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Code => "code",
        }
    }
}

/// What a stretch of text is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The turn's text.
    Text,
    /// The turn's reasoning.
    Reasoning,
    /// The action of this number.
    Action(u32),
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnReason {
    /// The model stopped.
    Stop,
    /// The model stopped in a turn with an action, whatever came after that.
    Action,
    /// The engine stopped at a limit.
    Length,
    /// Another turn began.
    Implicit,
    /// The caller gave up.
    Cancelled,
}

impl TurnReason {
    const ALL: [(&'static str, Self); 5] = [
        ("stop", Self::Stop),
        ("action", Self::Action),
        ("length", Self::Length),
        ("implicit", Self::Implicit),
        ("cancelled", Self::Cancelled),
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// The reason that a word names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == word).map(|&(_, reason)| reason)
    }
}

/// What is odd about a stream. Nothing here is an error: the ids are all accounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeKind {
    /// A marker that nothing fitting followed, or text that does not fit in a call.
    Malformed,
    /// A control token where the format has none.
    UnexpectedControl,
    /// An id outside the vocabulary, or an unused one.
    UnknownId,
    /// Text came after an action.
    TextAfterAction,
    /// A key of a call came a second time.
    DuplicateKey,
    /// A key that calls do not have.
    UnknownKey,
    /// What was left at the end that belongs to no event.
    Trailing,
    /// The model wrote it in another way than the format does, and it was read all the same. The text says
    /// what was mended: no id is without an event besides.
    Mended,
}

impl NoticeKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnexpectedControl => "unexpected_control",
            Self::UnknownId => "unknown_id",
            Self::TextAfterAction => "text_after_action",
            Self::DuplicateKey => "duplicate_key",
            Self::UnknownKey => "unknown_key",
            Self::Trailing => "trailing",
            Self::Mended => "mended",
        }
    }
}

/// One thing that a stream says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// A turn begins.
    TurnStart {
        /// Who speaks.
        role: Role,
        /// The name in the header.
        name: Option<String>,
    },
    /// Text of the turn.
    Text(String),
    /// Reasoning of the turn.
    Reasoning(String),
    /// An action begins.
    ActionStart {
        /// Its number in the turn, from 0.
        index: u32,
        /// What it is.
        kind: ActionKind,
        /// The function's name, or the code's language.
        name: Option<String>,
        /// The id that the model gave it.
        id: Option<String>,
    },
    /// More of an action's arguments, raw JSON text, or of its code.
    ActionDelta {
        /// The action's number.
        index: u32,
        /// The text.
        text: String,
    },
    /// An action ends.
    ActionEnd {
        /// Its number.
        index: u32,
        /// Whether its arguments are one whole JSON value, or its code's fence was closed.
        complete: bool,
        /// The name, which may have come after the arguments.
        name: Option<String>,
        /// The id that the model gave it.
        id: Option<String>,
    },
    /// A turn ends.
    TurnEnd {
        /// Why.
        reason: TurnReason,
        /// The id of the call that a result answers, where the format writes it.
        id: Option<String>,
    },
    /// Something odd.
    Notice {
        /// What is odd.
        kind: NoticeKind,
        /// The text in question, or the spelling of the token.
        text: String,
    },
}

/// An event and the ids it was read from.
///
/// Ranges are monotone and cover every id. Two neighbours may share one id: InternLM2's `"}}` ends
/// an argument and the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What it says.
    pub kind: EventKind,
    /// Positions of ids in the stream.
    pub tokens: Range<u32>,
}

impl Event {
    /// Joins `next` to this event if both are the same kind of text: of one turn, or of one action.
    ///
    /// # Errors
    /// `next`, where they cannot be joined.
    pub fn join(&mut self, next: Self) -> Result<(), Self> {
        match (&mut self.kind, &next.kind) {
            (EventKind::Text(text), EventKind::Text(more))
            | (EventKind::Reasoning(text), EventKind::Reasoning(more)) => text.push_str(more),
            (
                EventKind::ActionDelta { index, text },
                EventKind::ActionDelta { index: same, text: more },
            ) if index == same => text.push_str(more),
            _ => return Err(next),
        }
        self.tokens.end = next.tokens.end;
        Ok(())
    }

    /// Appends the event, joined to the last one where they can be.
    pub(crate) fn push_to(self, events: &mut Vec<Self>) {
        let rest = match events.last_mut() {
            Some(last) => last.join(self),
            None => Err(self),
        };
        events.extend(rest.err());
    }

    /// A stretch of text as an event.
    pub(crate) fn of_text(part: Part, text: String, tokens: Range<u32>) -> Self {
        let kind = match part {
            Part::Text => EventKind::Text(text),
            Part::Reasoning => EventKind::Reasoning(text),
            Part::Action(index) => EventKind::ActionDelta { index, text },
        };
        Self { kind, tokens }
    }

    /// Appends a stretch of text to the last event, or as an event of its own.
    pub(crate) fn append_text(
        events: &mut Vec<Self>,
        part: Part,
        text: Cow<'_, str>,
        tokens: Range<u32>,
    ) {
        if let Some(last) = events.last_mut() {
            let joined = match &mut last.kind {
                EventKind::Text(joined) if part == Part::Text => Some(joined),
                EventKind::Reasoning(joined) if part == Part::Reasoning => Some(joined),
                EventKind::ActionDelta { index, text } if part == Part::Action(*index) => {
                    Some(text)
                }
                _ => None,
            };
            if let Some(joined) = joined {
                joined.push_str(&text);
                last.tokens.end = tokens.end;
                return;
            }
        }
        events.push(Self::of_text(part, text.into_owned(), tokens));
    }
}
