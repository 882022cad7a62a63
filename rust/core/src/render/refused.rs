//! Messages that a format reads and does not write, because the template of its models writes them otherwise.
//!
//! In: messages, and from which on reasoning is written. Out: an error about the first of a kind that the file of the
//! format names. Cost: one pass for each of these kinds.

use super::RenderOptions;
use super::choose::is_blank;
use crate::error::{Error, MessagePart, Result};
use crate::format::{Format, Refused};
use crate::message::{CallBody, Message, Role};
use crate::pattern::Filter;
use serde_json::{Map, Value};

/// Checks the messages that do not stand already, of which those from `reasons` on have their reasoning written.
///
/// # Errors
/// [`Error::Message`] for the first message of a kind that the format refuses.
pub(super) fn check(
    messages: &[Message],
    reasons: usize,
    format: &Format,
    options: &RenderOptions<'_>,
) -> Result<()> {
    let new = || messages.iter().enumerate().skip(options.before.given);
    for &kind in format.refused() {
        if kind == Refused::SeveralResults
            && let Some(index) = second_result(messages, options.before.given)
        {
            let problem = otherwise("is a result after another", "one result", format);
            return Err(Error::message(format!("messages[{index}].role"), problem));
        }
        if let Some((path, what, expected)) = found_in(kind, options) {
            return Err(Error::message(path, otherwise(what, expected, format)));
        }
        if kind == Refused::MixedReasoning {
            let messages = new().filter(|(index, _)| *index >= reasons);
            check_mixed(messages, format, options)?;
            continue;
        }
        if kind == Refused::CallsWithoutTools
            && let Some(index) = undeclared_call(messages, reasons, options)
        {
            let problem = otherwise("stand in a conversation without tools", "`tools`", format);
            return Err(Error::message(format!("messages[{index}].tool_calls"), problem));
        }
        for (index, message) in new() {
            let is_reasoned = index >= reasons;
            let Some((part, what, expected)) = found(kind, message, is_reasoned) else { continue };
            let path = format!("messages[{index}].{}", part.key().0);
            let problem = otherwise(what, expected, format);
            // An empty message says nothing.
            return Err(match kind {
                Refused::EmptySystem => Error::unplaced(path, problem, index, MessagePart::Whole),
                Refused::EmptyReasoning | Refused::EarlierReasoning | Refused::NamedResults => {
                    Error::unplaced(path, problem, index, part)
                }
                _ => Error::message(path, problem),
            });
        }
    }
    Ok(())
}

/// What the tools and options of a conversation have where, and what is expected there.
fn found_in(
    kind: Refused,
    options: &RenderOptions<'_>,
) -> Option<(&'static str, &'static str, &'static str)> {
    let tools = options.tools?;
    match kind {
        Refused::WideJson if !tools.is_ascii() => {
            Some(("tools", "have characters beyond ASCII", "ASCII"))
        }
        Refused::ToolEscapes if tools.contains('\\') => {
            Some(("tools", "have characters that JSON escapes", "texts without them"))
        }
        Refused::ThinkingBesideTools if options.thinking == Some(true) => {
            Some(("thinking", "is on beside tools", "one of them"))
        }
        _ => None,
    }
}

/// What a message of a kind has where, and what is expected there.
fn found(
    kind: Refused,
    message: &Message,
    is_reasoned: bool,
) -> Option<(MessagePart, &'static str, &'static str)> {
    let content = &*message.content;
    let is_answer = message.role == Role::Assistant && message.calls.is_empty();
    let is_nested = |body: &CallBody| match body {
        CallBody::Function { arguments, .. } => has_nested(arguments),
        CallBody::Code { .. } => false,
    };
    let is_ascii = |body: &CallBody| match body {
        CallBody::Function { arguments, .. } => arguments.is_ascii(),
        CallBody::Code { .. } => true,
    };
    match kind {
        Refused::EmptySystem if message.role == Role::System && is_blank(content) => {
            Some((MessagePart::Content, "is empty in a system message", "text, or no message"))
        }
        Refused::EmptyAnswer if is_answer && is_blank(content) && message.media.is_empty() => {
            Some((MessagePart::Content, "is empty in an answer", "text"))
        }
        Refused::EmptyReasoning
            if is_reasoned && message.reasoning.as_deref().is_some_and(is_blank) =>
        {
            Some((MessagePart::Reasoning, "is empty", "text, or none"))
        }
        Refused::WhiteBeforeAnswers
            if message.role == Role::Assistant && content.starts_with(char::is_whitespace) =>
        {
            let what = "begins with white space in an assistant message";
            Some((MessagePart::Content, what, "text without it"))
        }
        Refused::WhiteBesideCalls
            if !message.calls.is_empty() && Filter::Trim.trim(content) != content =>
        {
            let what = "has white space at its ends beside calls";
            Some((MessagePart::Content, what, "text without it"))
        }
        Refused::EarlierReasoning if !is_reasoned && is_answer && message.reasoning.is_some() => {
            Some((MessagePart::Reasoning, "is given in an earlier answer", "none"))
        }
        Refused::NamedResults if message.role == Role::Tool && message.name.is_some() => {
            Some((MessagePart::Name, "is given in a result", "none"))
        }
        Refused::NestedArguments => {
            let at = message.calls.iter().position(|call| is_nested(&call.body))?;
            let what = "has objects or lists in its arguments";
            Some((MessagePart::Call(at as u32), what, "strings, numbers, booleans or null"))
        }
        Refused::WideJson => {
            let at = message.calls.iter().position(|call| !is_ascii(&call.body))?;
            let what = "has characters beyond ASCII in its arguments";
            Some((MessagePart::Call(at as u32), what, "ASCII"))
        }
        _ => None,
    }
}

/// The first message with calls that no tools declare, where reasoning is asked for or given, and an answer stands
/// before those whose reasoning is written.
fn undeclared_call(
    messages: &[Message],
    reasons: usize,
    options: &RenderOptions<'_>,
) -> Option<usize> {
    let is_declared = options.tools.is_some() || options.before.tools;
    let reasoned = |message: &Message| message.reasoning.as_ref().is_some_and(|it| !it.is_empty());
    let is_asked = options.thinking == Some(true) || messages.iter().any(reasoned);
    let is_earlier = messages.iter().take(reasons).any(|it| it.role == Role::Assistant);
    let first = messages.iter().position(|message| !message.calls.is_empty());
    first.filter(|_| !is_declared && is_asked && is_earlier)
}

/// The first result after a result.
fn second_result(messages: &[Message], from: usize) -> Option<usize> {
    let pairs = messages.windows(2).enumerate().skip(from.saturating_sub(1));
    let is_result = |message: &Message| message.role == Role::Tool;
    let mut seconds = pairs.filter(|(_, pair)| pair.iter().all(is_result));
    seconds.next().map(|(index, _)| index + 1)
}

/// Whether an object holds objects or lists.
fn has_nested(arguments: &str) -> bool {
    let members: Option<Map<String, Value>> = serde_json::from_str(arguments).ok();
    members.is_none_or(|members| members.values().any(|it| it.is_object() || it.is_array()))
}

/// Checks that all messages whose reasoning is written have some, or none of them, as `thinking` says.
fn check_mixed<'m>(
    messages: impl Iterator<Item = (usize, &'m Message)>,
    format: &Format,
    options: &RenderOptions<'_>,
) -> Result<()> {
    // A prompt that does not ask for reasoning begins an answer without any.
    let prompted = options.generation_prompt.then(|| options.thinking == Some(true));
    let asked = options.thinking.or(prompted);
    let mut expected = asked;
    for (index, message) in messages.filter(|(_, message)| message.role == Role::Assistant) {
        let has_some = message.reasoning.as_deref().is_some_and(|text| !text.is_empty());
        if *expected.get_or_insert(has_some) != has_some {
            let (what, other) = match (has_some, asked) {
                (true, Some(_)) => ("is given where none is asked for", "`thinking=True`"),
                (false, Some(_)) => ("is missing beside `thinking=True`", "some"),
                (true, None) => ("is given after a message without any", "none"),
                (false, None) => ("is missing after a message that has some", "some"),
            };
            let path = format!("messages[{index}].reasoning");
            return Err(Error::message(path, otherwise(what, other, format)));
        }
    }
    Ok(())
}

fn otherwise(what: &str, expected: &str, format: &Format) -> String {
    let format = format.described();
    format!(
        "{what}, which the template of the models of {format} writes otherwise, expected {expected}"
    )
}
