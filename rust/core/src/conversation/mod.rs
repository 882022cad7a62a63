//! Reading of a caller's value as a conversation.
//!
//! [`read()`] takes a conversation as the clients of OpenAI and Anthropic send it and checks it; an
//! error has the path of the invalid part. [`link()`] gives calls their ids and results their
//! kinds. [`shape()`] is the part that may decide the control ids of a conversation; everything
//! else is text.

mod items;
mod link;
mod media;
mod parts;
mod read;
mod shape;
mod tools;

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

pub(crate) use link::{Linker, link};
pub(crate) use read::read;
pub use shape::Shape;
pub(crate) use shape::shape;
pub(crate) use tools::read_tools;

use crate::error::{Droppable, Error, MessagePart};
use crate::format::DeclaredTools;
use crate::message::{CallBody, Message, OnArguments, Owned};

/// Options for reading a caller's value.
///
/// ```
/// use chatcodec::{Codec, Format, OnUnknown, ReadOptions, Vocab};
/// use serde_json::json;
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let messages = json!([{"role": "user", "content": "Hi", "score": 1}]);
/// assert!(codec.read_conversation(&messages, None, ReadOptions::default()).is_err());
/// let options = ReadOptions { on_unknown: OnUnknown::Ignore, ..ReadOptions::default() };
/// let conversation = codec.read_conversation(&messages, None, options)?;
/// assert_eq!(conversation.dropped[0].path, "messages[0].score");
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Policy for arguments that are not JSON.
    pub on_arguments: OnArguments,
    /// Policy for unknown keys.
    pub on_unknown: OnUnknown,
    /// Policy for parts that the format cannot write.
    pub on_unsupported: OnUnsupported,
    /// Policy for markup in an assistant's text.
    pub markup: Markup,
}

impl From<OnArguments> for ReadOptions {
    fn from(on_arguments: OnArguments) -> Self {
        Self { on_arguments, ..Self::default() }
    }
}

/// Policy for unknown keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUnknown {
    /// The conversation is refused.
    #[default]
    Error,
    /// The key is left out, and [`Conversation::dropped`] lists it.
    Ignore,
}

/// Policy for reasoning and calls that are spelled in an assistant's content, as public data has them.
///
/// ```
/// use chatcodec::{Codec, Format, Markup, ReadOptions, Vocab};
/// use serde_json::json;
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let call = r#"<|action_start|><|plugin|>{"name": "clock", "parameters": {}}<|action_end|>"#;
/// let messages = json!([{"role": "assistant", "content": call}]);
/// let options = ReadOptions { markup: Markup::Parse, ..ReadOptions::default() };
/// let conversation = codec.read_conversation(&messages, None, options)?;
/// assert_eq!(conversation.messages[0].calls.len(), 1);
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Markup {
    /// They are ordinary text.
    #[default]
    Text,
    /// They are read as in a completion: into reasoning and calls.
    Parse,
    /// The conversation is refused.
    Error,
}

/// Policy for parts of a conversation that the format cannot write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUnsupported {
    /// The conversation is refused.
    #[default]
    Error,
    /// The part is left out, and [`Conversation::dropped`] lists it.
    Drop,
}

/// A part of a caller's conversation that was left out.
///
/// ```
/// use chatcodec::{Codec, Format, OnUnsupported, ReadOptions, Vocab, Why};
/// use serde_json::json;
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let messages = json!([{"role": "assistant", "reasoning": "Hm.", "content": "Hi"}]);
/// let options = ReadOptions { on_unsupported: OnUnsupported::Drop, ..ReadOptions::default() };
/// let conversation = codec.read_conversation(&messages, None, options)?;
/// let encoding = codec.encode_conversation(conversation, &chatcodec::EncodeOptions {
///     on_unsupported: OnUnsupported::Drop,
///     ..Default::default()
/// })?;
/// assert_eq!(encoding.dropped()[0].path, "messages[0].reasoning");
/// assert_eq!(encoding.dropped()[0].why, Why::Unsupported);
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Path of the part: `messages[2].reasoning`.
    pub path: String,
    /// Kind of the part: `reasoning`, `name`, `image_url`, `unknown`.
    pub what: String,
    /// Why it was left out.
    pub why: Why,
}

/// Why a part of a conversation was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Why {
    /// Nothing writes such a part: an error, unless the caller asked for it to be left out.
    #[default]
    Unsupported,
    /// The model's chat template, or the format, leaves it out of this conversation; of another, it writes such a part.
    Policy,
    /// The model's chat template leaves out a part of the text, and writes the rest.
    Cut,
}

impl Why {
    /// The word of an interface: `unsupported`, `policy` or `cut`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unsupported => "unsupported",
            Self::Policy => "policy",
            Self::Cut => "cut",
        }
    }
}

impl Dropped {
    pub(crate) fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into(), why: Why::Unsupported }
    }

    /// The index of the message that the part is in.
    pub(crate) fn message(&self) -> Option<usize> {
        part_of(&self.path).map(|at| at as usize)
    }
}

/// A part of a message under a key other than its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alias {
    pub(crate) message: usize,
    pub(crate) part: MessagePart,
    /// The path of the part.
    pub(crate) path: String,
}

/// Messages and tools, read from a caller's value.
///
/// ```
/// use chatcodec::{Codec, EncodeOptions, Format, ReadOptions, Vocab};
/// use serde_json::json;
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let messages = json!([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]);
/// let conversation = codec.read_conversation(&messages, None, ReadOptions::default())?;
/// assert_eq!(conversation.messages[0].content, "Hi");
/// let encoding = codec.encode_conversation(conversation, &EncodeOptions::default())?;
/// assert_eq!(encoding.text(), "<s><|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversation {
    /// The messages.
    pub messages: Vec<Message>,
    /// The tools, as the format declares them.
    pub tools: Option<DeclaredTools>,
    /// The parts that were left out.
    pub dropped: Vec<Dropped>,
    /// The caller's index of each message, if the indices differ.
    pub(crate) origins: Option<Vec<u32>>,
    /// Number of messages that the caller gave.
    pub(crate) given: usize,
    /// Paths of message parts under keys other than their own.
    pub(crate) aliases: Vec<Alias>,
    /// The caller's values as they are, for a template.
    pub(crate) values: Option<Box<Values>>,
}

/// A caller's values, copied for a template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Values {
    pub(crate) messages: Owned,
    pub(crate) tools: Option<Owned>,
}

impl Values {
    fn count(&self) -> usize {
        if let Owned::List(messages) = &self.messages { messages.len() } else { 0 }
    }
}

impl Conversation {
    /// A conversation for a template, which reads the caller's values itself.
    pub(crate) fn of_values(values: Values) -> Self {
        Self { given: values.count(), values: Some(Box::new(values)), ..Self::default() }
    }

    /// Bytes of the values for a template.
    pub fn value_bytes(&self) -> usize {
        let Some(values) = &self.values else { return 0 };
        values.messages.text_bytes() + values.tools.as_ref().map_or(0, Owned::text_bytes)
    }

    /// The role of each message; of a message for a template, its `role` as the caller gave it.
    pub fn roles(&self) -> Vec<String> {
        let Some(values) = &self.values else {
            return self.messages.iter().map(|message| message.role.name().to_owned()).collect();
        };
        let Owned::List(messages) = &values.messages else { return Vec::new() };
        let role = |message: &Owned| match message.get("role") {
            Some(Owned::Text(role)) => role.clone(),
            _ => String::new(),
        };
        messages.iter().map(role).collect()
    }

    /// A conversation of messages and tools without dropped parts.
    pub fn new(messages: Vec<Message>, tools: Option<DeclaredTools>) -> Self {
        Self { given: messages.len(), messages, tools, ..Self::default() }
    }

    /// The caller's indices of all messages.
    pub(crate) fn caller_indices(&self) -> Vec<usize> {
        let count = self.values.as_ref().map_or(self.messages.len(), |values| values.count());
        (0..count).map(|at| self.origin(at)).collect()
    }

    /// The first message that is not a system message, and the beginnings of turns: that message,
    /// and each user's message after it.
    pub(crate) fn turns(&self) -> (usize, Vec<usize>) {
        let roles = self.roles();
        let is_system = |role: &&String| matches!(role.as_str(), "system" | "developer");
        let first = roles.iter().take_while(is_system).count();
        let users = (first + 1..roles.len()).filter(|&at| roles[at] == "user");
        (first, (first..roles.len().min(first + 1)).chain(users).collect())
    }

    /// The conversation without a range of messages.
    pub(crate) fn without(&self, range: Range<usize>) -> Self {
        let mut left = self.clone();
        if let Some(values) = &mut left.values
            && let Owned::List(messages) = &mut values.messages
        {
            left.given -= range.len();
            left.origins = Some(
                (0..messages.len()).filter(|at| !range.contains(at)).map(|at| at as u32).collect(),
            );
            messages.drain(range);
            // The messages have other indices now.
            left.aliases.clear();
        } else {
            left.leave_out_messages(&range.collect());
        }
        left
    }

    /// The caller's index of a message.
    pub(crate) fn origin(&self, index: usize) -> usize {
        match &self.origins {
            Some(origins) => origins.get(index).map_or(index, |&origin| origin as usize),
            None => index,
        }
    }

    /// Adds the message at the caller's index `origin`.
    pub(super) fn push(&mut self, message: Message, origin: usize) {
        let index = self.messages.len();
        if origin != index && self.origins.is_none() {
            self.origins = Some((0..index as u32).collect());
        }
        if let Some(origins) = &mut self.origins {
            origins.push(origin as u32);
        }
        self.messages.push(message);
    }

    /// Records the paths of parts of the last message; their calls come after `calls` others.
    pub(super) fn place(&mut self, places: Vec<(MessagePart, String)>, calls: u32) {
        let message = self.messages.len().saturating_sub(1);
        let alias = |(part, path)| {
            let part = match part {
                MessagePart::Call(at) => MessagePart::Call(calls + at),
                part => part,
            };
            Alias { message, part, path }
        };
        self.aliases.extend(places.into_iter().map(alias));
    }

    /// The caller's path of a part of a message.
    pub(crate) fn path_of(&self, index: usize, part: MessagePart) -> String {
        let own = self.aliases_of(index).iter().find(|alias| alias.part == part);
        own.map_or_else(
            || format!("messages[{}].{}", self.origin(index), part.key().0),
            |alias| alias.path.clone(),
        )
    }

    /// The caller's path of a value for a template: a part that was read in a text has the path of the text.
    pub(crate) fn given_path(&self, path: String) -> String {
        let of_text = || {
            let (index, key) = path.strip_prefix("messages[")?.split_once("].")?;
            let parts = [("reasoning", MessagePart::Reasoning), ("tool_calls", MessagePart::Calls)];
            let (_, part) = parts.into_iter().find(|(name, _)| key.starts_with(name))?;
            let own = self.aliases_of(index.parse().ok()?);
            own.iter().find(|alias| alias.part == part).map(|alias| alias.path.clone())
        };
        of_text().unwrap_or(path)
    }

    /// Records that parts of a message were given at one path.
    pub(crate) fn add_aliases(
        &mut self,
        message: usize,
        parts: impl Iterator<Item = MessagePart>,
        path: &str,
    ) {
        let end = self.aliases.partition_point(|alias| alias.message <= message);
        let new = parts.map(|part| Alias { message, part, path: path.to_owned() });
        self.aliases.splice(end..end, new);
    }

    /// The paths of parts of a message; parts are in the order of their messages.
    fn aliases_of(&self, index: usize) -> &[Alias] {
        let start = self.aliases.partition_point(|alias| alias.message < index);
        let end = self.aliases.partition_point(|alias| alias.message <= index);
        &self.aliases[start..end]
    }

    /// An error about one of the messages, with the caller's index.
    pub(crate) fn error_at_origin(&self, error: Error) -> Error {
        if self.origins.is_none() {
            return error;
        }
        error.with_path(|path| self.path_at_origin(&path).unwrap_or(path))
    }

    /// A path in the messages, with the caller's index.
    pub(crate) fn path_at_origin(&self, path: &str) -> Option<String> {
        let (before, rest) = path.split_once("messages[")?;
        let (index, rest) = rest.split_once(']')?;
        Some(format!("{before}messages[{}]{rest}", self.origin(index.parse().ok()?)))
    }

    /// Leaves out unsupported parts, in the order in which they were found.
    pub(crate) fn leave_out(&mut self, found: Vec<Droppable>) {
        let mut whole = Vec::new();
        for part in found {
            match part {
                Droppable::Tools => {
                    self.tools = None;
                    self.dropped.push(Dropped::new("tools", "tools"));
                }
                Droppable::Part(index, MessagePart::Whole) => whole.push(index),
                Droppable::Part(index, part) => self.leave_out_part(index, part),
                Droppable::Read => {}
            }
        }
        self.leave_out_messages(&whole.into_iter().collect());
    }

    /// Whether a message has a part.
    pub(crate) fn has(&self, index: usize, part: MessagePart) -> bool {
        let message = self.messages.get(index);
        message.is_some_and(|message| {
            part == MessagePart::Whole || leave_out(&mut message.clone(), part)
        })
    }

    fn leave_out_part(&mut self, index: usize, part: MessagePart) {
        let Some(message) = self.messages.get_mut(index) else { return };
        leave_out(message, part);
        self.tell_dropped(index, part, Why::Unsupported);
    }

    /// Lists a part of a message as dropped, by the paths under which the caller gave it.
    pub(crate) fn tell_dropped(&mut self, index: usize, part: MessagePart, why: Why) {
        let is_part = |alias: &&Alias| {
            let is_call = part == MessagePart::Calls && matches!(alias.part, MessagePart::Call(_));
            alias.part == part || is_call
        };
        let own = self.aliases_of(index).iter().filter(is_part);
        let known: Vec<String> = own.map(|alias| alias.path.clone()).collect();
        let (key, what) = part.key();
        let told = |path: String| Dropped { why, ..Dropped::new(path, what) };
        if known.is_empty() {
            let path = format!("messages[{}].{key}", self.origin(index));
            self.dropped.push(told(path));
        }
        self.dropped.extend(known.into_iter().map(told));
    }

    fn leave_out_messages(&mut self, indices: &BTreeSet<usize>) {
        if indices.is_empty() {
            return;
        }
        let origins: Vec<u32> = (0..self.messages.len()).map(|at| self.origin(at) as u32).collect();
        // Number of messages left out before each message.
        let mut before = Vec::with_capacity(origins.len());
        let mut count = 0;
        for at in 0..origins.len() {
            before.push(count);
            count += usize::from(indices.contains(&at));
        }
        let gone: HashSet<u32> =
            indices.iter().filter_map(|&at| origins.get(at).copied()).collect();
        self.aliases.retain(|alias| !indices.contains(&alias.message));
        for alias in &mut self.aliases {
            alias.message -= before.get(alias.message).copied().unwrap_or_default();
        }
        keep(&mut self.messages, indices);
        // Parts of a message that is left out are not listed.
        self.dropped.retain(|dropped| !part_of(&dropped.path).is_some_and(|at| gone.contains(&at)));
        for &at in indices {
            let Some(origin) = origins.get(at) else { continue };
            self.dropped.push(Dropped::new(format!("messages[{origin}]"), "message"));
        }
        let mut origins = origins;
        keep(&mut origins, indices);
        self.origins = Some(origins);
    }
}

/// Keeps all items except those at some indices.
fn keep<T>(items: &mut Vec<T>, left_out: &BTreeSet<usize>) {
    let mut at = 0;
    items.retain(|_| {
        at += 1;
        !left_out.contains(&(at - 1))
    });
}

/// The index in the path of a part of a message: 2 of `messages[2].reasoning`.
fn part_of(path: &str) -> Option<u32> {
    let (index, _) = path.strip_prefix("messages[")?.split_once("].")?;
    index.parse().ok()
}

/// Removes a part of a message; returns whether the part existed.
pub(crate) fn leave_out(message: &mut Message, part: MessagePart) -> bool {
    match part {
        MessagePart::Whole => true,
        MessagePart::Content => {
            let has_content = message.has_content();
            message.content.clear();
            message.media.clear();
            has_content
        }
        MessagePart::Reasoning => message.reasoning.take().is_some(),
        MessagePart::Name => message.name.take().is_some(),
        MessagePart::CallId => message.call_id.take().is_some(),
        MessagePart::Calls => !std::mem::take(&mut message.calls).is_empty(),
        MessagePart::Call(at) => {
            let is_there = (at as usize) < message.calls.len();
            if is_there {
                message.calls.remove(at as usize);
            }
            is_there
        }
        MessagePart::Language(at) => match message.calls.get_mut(at as usize) {
            Some(call) => match &mut call.body {
                CallBody::Code { language, .. } => language.take().is_some(),
                CallBody::Function { .. } => false,
            },
            None => false,
        },
    }
}
