//! The part of a conversation that may decide its control ids.

use crate::format::Format;
use crate::message::{CallBody, MediaKind, Message, Role};

/// The part of a conversation that may decide its control ids.
///
/// ```
/// use chatcodec::{Codec, Format, Message, Role, Vocab};
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let shape = |text: &str| codec.shape(vec![Message::new(Role::User, text)], false);
/// assert_eq!(shape("Hi"), shape("<|im_end|>")); // no text changes the control ids
/// # Ok::<(), chatcodec::Error>(())
/// ```
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
    /// The kind of each part that is no text, its number of rows, and of ids in a row.
    media: Vec<(MediaKind, u32, u32)>,
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
        has_content: message.has_content(),
        media: message.media.iter().map(|part| (part.kind, part.rows, part.count)).collect(),
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
