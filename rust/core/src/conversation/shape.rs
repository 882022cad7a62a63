//! The part of a conversation that may decide its control ids.

use crate::format::Format;
use crate::message::{CallBody, Message, Role};

/// The part of a conversation that may decide its control ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    messages: Vec<MessageShape>,
    tools: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct MessageShape {
    role: Role,
    /// A name that the format lists; other names are text.
    named: Option<String>,
    has_name: bool,
    has_content: bool,
    has_reasoning: bool,
    /// For each call, whether it is code, and whether it has a language.
    calls: Vec<(bool, bool)>,
}

/// The shape of a conversation after [`link`](super::link()).
pub(crate) fn shape(messages: &[Message], tools: bool, format: &Format) -> Shape {
    let messages = messages.iter().map(|message| MessageShape {
        role: message.role,
        named: message.name.clone().filter(|name| format.is_named(name, message.role)),
        has_name: message.name.is_some(),
        has_content: !message.content.is_empty(),
        has_reasoning: message.reasoning.is_some(),
        calls: message
            .calls
            .iter()
            .map(|call| match &call.body {
                CallBody::Function { .. } => (false, false),
                CallBody::Code { language, .. } => (true, language.is_some()),
            })
            .collect(),
    });
    Shape { messages: messages.collect(), tools }
}
