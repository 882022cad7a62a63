//! Events of a stream, in order, each with the ids that it was read from.

use std::borrow::Cow;
use std::ops::Range;

use crate::message::{MediaKind, Role};

/// Kind of a call.
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

/// Part of a turn that a text belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The turn's text.
    Text,
    /// The turn's reasoning.
    Reasoning,
    /// The call with this number.
    Action(u32),
}

/// Why a turn ended.
///
/// ```
/// use chatcodec::TurnReason;
///
/// assert_eq!(TurnReason::parse("length"), Some(TurnReason::Length));
/// assert_eq!(TurnReason::Action.name(), "action");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnReason {
    /// The model stopped.
    Stop,
    /// The model stopped in a turn with a call, whatever text followed the call.
    Action,
    /// The engine stopped at a limit.
    Length,
    /// Another turn began.
    Implicit,
    /// The caller aborted the stream.
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

    /// The name of the reason.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// The reason with a given name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == word).map(|&(_, reason)| reason)
    }
}

/// Kind of an irregularity in a stream. None of them is an error: every id still has its event.
///
/// ```
/// use chatcodec::{Codec, EventKind, Format, NoticeKind, Vocab};
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let (mut stream, mut events) = (codec.stream(None), Vec::new());
/// stream.push(1 << 20, &mut events); // an id that the vocabulary does not have
/// assert!(events.iter().any(|event| matches!(
///     event.kind,
///     EventKind::Notice { kind: NoticeKind::UnknownId, .. }
/// )));
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeKind {
    /// A marker without the content that must follow it, or text that does not fit in a call.
    Malformed,
    /// A control token where the format allows none.
    UnexpectedControl,
    /// An id outside the vocabulary, or an unused one.
    UnknownId,
    /// Text after a call.
    TextAfterAction,
    /// A repeated key of a call.
    DuplicateKey,
    /// An unknown key of a call.
    UnknownKey,
    /// Input at the end that belongs to no other event.
    Trailing,
    /// A spelling that differs from the format's and was read as its intended meaning. The text
    /// says what was mended; the ids of the spelling have other events.
    Mended,
}

impl NoticeKind {
    /// The name of the kind.
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

/// One event of a stream.
///
/// ```
/// use chatcodec::{Codec, EventKind, Format, TurnReason, Vocab};
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let mut ids = codec.vocab().encode("Yes.");
/// ids.push(92542); // <|im_end|>
/// let (mut stream, mut events) = (codec.stream(None), Vec::new());
/// stream.push_all(&ids, &mut events);
/// stream.finish(TurnReason::Stop, &mut events);
/// let text: String = events.iter().filter_map(|event| match &event.kind {
///     EventKind::Text(text) => Some(text.as_str()),
///     _ => None,
/// }).collect();
/// assert_eq!(text, "Yes.");
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// A turn begins.
    TurnStart {
        /// The role of the turn.
        role: Role,
        /// The name in the header.
        name: Option<String>,
    },
    /// Text of the turn.
    Text(String),
    /// Reasoning of the turn.
    Reasoning(String),
    /// A media part of the turn: its placeholder ids. Turns of the assistant have none.
    Media {
        /// The kind of the part.
        kind: MediaKind,
        /// Number of placeholder ids in a row.
        count: u32,
        /// Number of rows.
        rows: u32,
    },
    /// Begin of a call.
    ActionStart {
        /// The number of the call in the turn, from 0.
        index: u32,
        /// The kind of the call.
        kind: ActionKind,
        /// The name of the function, or the language of the code.
        name: Option<String>,
        /// The id that the model wrote for the call.
        id: Option<String>,
    },
    /// A further part of a call's arguments, as raw JSON text, or of its code.
    ActionDelta {
        /// The number of the call.
        index: u32,
        /// The text.
        text: String,
    },
    /// End of a call.
    ActionEnd {
        /// The number of the call.
        index: u32,
        /// Whether its arguments are one whole JSON value, or its code's fence was closed.
        complete: bool,
        /// The name, which may follow the arguments.
        name: Option<String>,
        /// The id that the model wrote for the call.
        id: Option<String>,
    },
    /// A turn ends.
    TurnEnd {
        /// The reason.
        reason: TurnReason,
        /// The id of the call that a result answers, where the format writes the id.
        id: Option<String>,
    },
    /// An irregularity, reported to the caller.
    Notice {
        /// The kind of the irregularity.
        kind: NoticeKind,
        /// The affected text, or the spelling of the token.
        text: String,
    },
}

/// An event and the ids it was read from.
///
/// Ranges are monotone and cover every id. Two neighbours may share one id: InternLM2's `"}}` ends
/// an argument and the call.
///
/// ```
/// use chatcodec::{Event, EventKind};
///
/// let mut event = Event { kind: EventKind::Text("Hel".into()), tokens: 0..1 };
/// event.join(Event { kind: EventKind::Text("lo".into()), tokens: 1..2 }).unwrap();
/// assert_eq!(event, Event { kind: EventKind::Text("Hello".into()), tokens: 0..2 });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The event.
    pub kind: EventKind,
    /// Positions of ids in the stream.
    pub tokens: Range<u32>,
}

impl Event {
    /// Joins `next` to this event if both are text of the same kind, turn and call.
    ///
    /// # Errors
    /// `next`, if the two cannot be joined.
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

    /// Appends the event; joins it to the last event where possible.
    pub(crate) fn push_to(self, events: &mut Vec<Self>) {
        let rest = match events.last_mut() {
            Some(last) => last.join(self),
            None => Err(self),
        };
        events.extend(rest.err());
    }

    /// A piece of text as an event.
    pub(crate) fn of_text(part: Part, text: String, tokens: Range<u32>) -> Self {
        let kind = match part {
            Part::Text => EventKind::Text(text),
            Part::Reasoning => EventKind::Reasoning(text),
            Part::Action(index) => EventKind::ActionDelta { index, text },
        };
        Self { kind, tokens }
    }

    /// Appends a piece of text: to the last event where possible, or as a new event.
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
