//! Whether a format reads what the template writes.

use serde_json::Value;

use super::probe::{Given, Probes, common_start};
use crate::codec::Codec;
use crate::event::{Event, EventKind, NoticeKind};
use crate::message::{CallBody, Message, Role};

/// A message as both sides see it.
#[derive(Debug, PartialEq)]
struct Seen {
    role: Role,
    content: String,
    reasoning: Option<String>,
    calls: Vec<(String, Value)>,
}

impl Seen {
    fn of(message: &Message) -> Self {
        let calls = message.calls.iter().map(|call| match &call.body {
            CallBody::Function { name, arguments } => {
                (name.clone(), serde_json::from_str(arguments).unwrap_or(Value::Null))
            }
            CallBody::Code { source, .. } => (String::new(), Value::String(source.clone())),
        });
        Self {
            role: message.role,
            // White space between a header and calls is no content.
            content: if message.calls.is_empty() {
                message.content.clone()
            } else {
                message.content.trim().to_owned()
            },
            reasoning: message.reasoning.clone(),
            calls: calls.collect(),
        }
    }

    /// A message that the template was given; reasoning only if it is in `text`.
    fn given(message: &Value, text: &str) -> Self {
        let word = |key: &str| message.get(key).and_then(Value::as_str);
        let keys = ["reasoning_content", "reasoning", "thinking"];
        let reasoning =
            keys.iter().find_map(|key| word(key)).filter(|thought| text.contains(thought));
        let calls =
            message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().map(|call| {
                let function = &call["function"];
                let arguments = match &function["arguments"] {
                    Value::String(text) => serde_json::from_str(text).unwrap_or(Value::Null),
                    arguments => arguments.clone(),
                };
                (function["name"].as_str().unwrap_or_default().to_owned(), arguments)
            });
        Self {
            role: word("role").and_then(Role::parse).unwrap_or(Role::User),
            content: word("content").unwrap_or_default().to_owned(),
            reasoning: reasoning.map(str::to_owned),
            calls: calls.collect(),
        }
    }
}

/// Whether the whole of a conversation comes back; with tools, the user's messages may hold their declaration.
pub(super) fn reads_whole(
    codec: &Codec,
    probes: &Probes,
    messages: &[Value],
    given: Given,
) -> bool {
    let Some(encoding) = probes.encoded(messages, given, false) else { return false };
    if probes.answers_only {
        return true;
    }
    let is_compared = |role: Role| role != Role::System && !(given.tools && role == Role::User);
    let mut read: Vec<Seen> = codec.decode(encoding.ids()).iter().map(Seen::of).collect();
    if read.last().is_some_and(|last| {
        last.role == Role::Assistant && last.content.is_empty() && last.calls.is_empty()
    }) {
        read.pop();
    }
    read.retain(|seen| is_compared(seen.role));
    let expected = messages.iter().map(|message| Seen::given(message, encoding.text()));
    read.into_iter().eq(expected.filter(|seen| is_compared(seen.role)))
}

/// Whether a completion is read as the last message; none where the prompt is not what the answer begins with.
pub(super) fn reads_answer(
    codec: &Codec,
    probes: &Probes,
    messages: &[Value],
    given: Given,
) -> Option<bool> {
    let (last, before) = messages.split_last()?;
    let prompt = probes.encoded(before, given, true)?;
    let prompted = probes.text(before, given, true)?;
    let whole = probes.text(messages, given, false)?;
    let (prompt, completion) = if let Some(completion) = whole.strip_prefix(&prompted) {
        (prompt.ids().to_vec(), completion)
    } else if probes.answers_only {
        // A prompt that goes on otherwise than this answer, or has other text before the question.
        let asked = before.last().and_then(|message| message["content"].as_str())?;
        let from = [&whole, &prompted].map(|text| text.rfind(asked).unwrap_or_default());
        let same = common_start(&whole[from[0]..], &prompted[from[1]..]);
        let (begun, completion) = whole.split_at(from[0] + same);
        (probes.ids(begun), completion)
    } else {
        return None;
    };
    let completion = probes.ids(completion);
    let mut events = Vec::new();
    codec.stream(Some(&prompt)).push_all(&completion, &mut events);
    let is_stray = |event: &Event| {
        matches!(event.kind, EventKind::Notice { kind: NoticeKind::UnexpectedControl, .. })
    };
    if probes.answers_only && events.iter().any(is_stray) {
        return Some(false);
    }
    let message = codec.parse(&completion, Some(&prompt)).message;
    Some(Seen::of(&message) == Seen::given(last, &whole))
}

/// Whether the text of an answer right after the prompt is read, as content or as reasoning.
pub(super) fn reads_text(codec: &Codec, probes: &Probes, before: &[Value], text: &str) -> bool {
    let Some(prompt) = probes.encoded(before, Given::default(), true) else { return false };
    let mut completion = probes.ids(text);
    completion.extend(codec.stop_ids().first());
    let message = codec.parse(&completion, Some(prompt.ids())).message;
    message.calls.is_empty()
        && (message.content == text || message.reasoning.as_deref() == Some(text))
}
