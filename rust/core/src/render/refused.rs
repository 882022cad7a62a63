//! Messages that a format reads and does not write, because the template of its models writes them otherwise.
//!
//! In: messages, and the index from which reasoning is written. Out: an error about the first message, tool or option
//! of a kind that the file of the format names. Cost: one pass over the messages for each of these kinds.

use super::RenderOptions;
use super::choose::is_blank;
use crate::error::{Error, MessagePart, Result};
use crate::format::{Format, Refused};
use crate::message::{Call, CallBody, Message, Role};
use crate::pattern::Filter;
use serde_json::{Map, Value};

/// Checks the messages that are to be written; in an extension, the messages before them are not checked. Reasoning is
/// written from the message `reasons` on.
///
/// # Errors
/// [`Error::Message`] for the first part of a kind that the format refuses.
pub(super) fn check(
    messages: &[Message],
    reasons: usize,
    format: &Format,
    options: &RenderOptions<'_>,
) -> Result<()> {
    let given = Given { messages, reasons, options };
    match format.refused().iter().find_map(|&kind| given.first(kind)) {
        Some(found) => Err(found.error(format)),
        None => Ok(()),
    }
}

/// A part that is refused.
struct Found {
    path: String,
    /// The part of a message that may be left out instead.
    droppable: Option<(usize, MessagePart)>,
    what: &'static str,
    expected: &'static str,
}

impl Found {
    fn new(path: impl Into<String>, what: &'static str, expected: &'static str) -> Self {
        Self { path: path.into(), droppable: None, what, expected }
    }

    fn in_message(index: usize, key: &str, what: &'static str, expected: &'static str) -> Self {
        Self::new(format!("messages[{index}].{key}"), what, expected)
    }

    /// The same, for a part that says nothing, or that the template leaves out.
    fn droppable(self, index: usize, part: MessagePart) -> Self {
        Self { droppable: Some((index, part)), ..self }
    }

    fn error(self, format: &Format) -> Error {
        let Self { path, droppable, what, expected } = self;
        let template = format!("the template of the models of {}", format.described());
        let problem = format!("{what}, which {template} writes otherwise, expected {expected}");
        match droppable {
            Some((index, part)) => Error::unplaced(path, problem, index, part),
            None => Error::message(path, problem),
        }
    }
}

/// A conversation that is to be written.
struct Given<'a> {
    messages: &'a [Message],
    /// The first message whose reasoning is written.
    reasons: usize,
    options: &'a RenderOptions<'a>,
}

impl<'a> Given<'a> {
    /// The messages that are to be written, with their indices.
    fn new_messages(&self) -> impl Iterator<Item = (usize, &'a Message)> + use<'a> {
        self.messages.iter().enumerate().skip(self.options.before.given)
    }

    /// The first part of a kind.
    fn first(&self, kind: Refused) -> Option<Found> {
        match kind {
            Refused::ThinkingBesideTools => (self.options.tools.is_some()
                && self.options.thinking == Some(true))
            .then(|| Found::new("thinking", "is on beside tools", "one of them")),
            Refused::MixedReasoning => self.mixed_reasoning(),
            Refused::CallsWithoutTools => self.undeclared_call(),
            Refused::SeveralResults => self.second_result(),
            _ => self.first_message(kind),
        }
    }

    /// The first message of a kind that depends on that message alone.
    fn first_message(&self, kind: Refused) -> Option<Found> {
        self.new_messages().find_map(|(index, message)| {
            let is_reasoned = index >= self.reasons;
            refused_part(kind, index, message, is_reasoned)
        })
    }

    /// The first message that lacks reasoning where another has some, or has some where another lacks it; a prompt, and
    /// `thinking`, count as the first.
    fn mixed_reasoning(&self) -> Option<Found> {
        let RenderOptions { thinking, generation_prompt, .. } = *self.options;
        // A prompt that does not ask for reasoning begins an answer without any.
        let asked = thinking.or_else(|| generation_prompt.then_some(false));
        let mut expected = asked;
        let mut reasoned = self
            .new_messages()
            .filter(|(index, message)| *index >= self.reasons && message.role == Role::Assistant);
        reasoned.find_map(|(index, message)| {
            let has_some = has_reasoning(message);
            let (what, other) = match (has_some, asked) {
                _ if *expected.get_or_insert(has_some) == has_some => return None,
                (true, Some(_)) => ("is given where none is asked for", "`thinking=True`"),
                (false, Some(_)) => ("is missing beside `thinking=True`", "some"),
                (true, None) => ("is given after a message without any", "none"),
                (false, None) => ("is missing after a message that has some", "some"),
            };
            Some(Found::in_message(index, "reasoning", what, other))
        })
    }

    /// The first message with calls that no tools declare, where reasoning is asked for or given, and an answer comes
    /// before the messages whose reasoning is written.
    fn undeclared_call(&self) -> Option<Found> {
        let is_declared = self.options.tools.is_some() || self.options.before.tools;
        let is_asked =
            self.options.thinking == Some(true) || self.messages.iter().any(has_reasoning);
        let mut earlier = self.messages.iter().take(self.reasons);
        let is_earlier = earlier.any(|message| message.role == Role::Assistant);
        let first = self.messages.iter().position(|message| !message.calls.is_empty());
        let index = first.filter(|_| !is_declared && is_asked && is_earlier)?;
        let what = "stand in a conversation without tools";
        Some(Found::in_message(index, "tool_calls", what, "`tools`"))
    }

    /// The first result after a result.
    fn second_result(&self) -> Option<Found> {
        let is_second = |index: usize| {
            let pair = index.checked_sub(1).and_then(|before| self.messages.get(before..=index));
            pair.is_some_and(|pair| pair.iter().all(|message| message.role == Role::Tool))
        };
        let (index, _) = self.new_messages().find(|(index, _)| is_second(*index))?;
        Some(Found::in_message(index, "role", "is a result after another", "one result"))
    }
}

/// The part of a message that makes the message one of a kind.
fn refused_part(
    kind: Refused,
    index: usize,
    message: &Message,
    is_reasoned: bool,
) -> Option<Found> {
    let content = &*message.content;
    let is_answer = message.role == Role::Assistant && message.calls.is_empty();
    let found = |key, what, expected| Some(Found::in_message(index, key, what, expected));
    let call = |is_of: fn(&str) -> bool, what, expected| {
        let at = message.calls.iter().position(|call| arguments(call).is_some_and(is_of))?;
        Some(Found::in_message(index, &format!("tool_calls[{at}]"), what, expected))
    };
    match kind {
        Refused::EmptySystem | Refused::BlankSystem
            if message.role == Role::System
                && (content.is_empty() || kind == Refused::BlankSystem && is_blank(content)) =>
        {
            let found = found("content", "is empty in a system message", "text, or no message")?;
            Some(found.droppable(index, MessagePart::Whole))
        }
        Refused::EmptyAnswer if is_answer && is_blank(content) && message.media.is_empty() => {
            found("content", "is empty in an answer", "text")
        }
        Refused::EmptyReasoning
            if is_reasoned && message.reasoning.as_deref().is_some_and(is_blank) =>
        {
            let found = found("reasoning", "is empty", "text, or none")?;
            Some(found.droppable(index, MessagePart::Reasoning))
        }
        Refused::EarlierReasoning if !is_reasoned && is_answer && message.reasoning.is_some() => {
            let found = found("reasoning", "is given in an earlier answer", "none")?;
            Some(found.droppable(index, MessagePart::Reasoning))
        }
        Refused::NamedResults if message.role == Role::Tool && message.name.is_some() => {
            let found = found("name", "is given in a result", "none")?;
            Some(found.droppable(index, MessagePart::Name))
        }
        Refused::WhiteBeforeAnswers
            if message.role == Role::Assistant && content.starts_with(char::is_whitespace) =>
        {
            let what = "begins with white space in an assistant message";
            found("content", what, "text without it")
        }
        Refused::LineBreakBeforeAnswers
            if message.role == Role::Assistant && content.starts_with('\n') =>
        {
            let what = "begins with a line break in an assistant message";
            found("content", what, "text without it")
        }
        Refused::WhiteBesideCalls
            if !message.calls.is_empty() && Filter::Trim.trim(content) != content =>
        {
            found("content", "has white space at its ends beside calls", "text without it")
        }
        Refused::NestedArguments => {
            let expected = "strings, numbers, booleans or null";
            call(has_nested, "has objects or lists in its arguments", expected)
        }
        Refused::WideJson => {
            let is_wide = |arguments: &str| !arguments.is_ascii();
            call(is_wide, "has characters beyond ASCII in its arguments", "ASCII")
        }
        _ => None,
    }
}

/// The arguments of a call, unless the call is code.
fn arguments(call: &Call) -> Option<&str> {
    match &call.body {
        CallBody::Function { arguments, .. } => Some(arguments),
        CallBody::Code { .. } => None,
    }
}

/// Whether an object holds objects or lists.
fn has_nested(arguments: &str) -> bool {
    let members: Option<Map<String, Value>> = serde_json::from_str(arguments).ok();
    members.is_none_or(|members| members.values().any(|it| it.is_object() || it.is_array()))
}

fn has_reasoning(message: &Message) -> bool {
    message.reasoning.as_deref().is_some_and(|reasoning| !reasoning.is_empty())
}
