//! Messages, and access to a caller's value.

mod media;
mod node;
mod owned;

pub(crate) use media::pieces;
pub use media::{Media, MediaKind, MediaPlace, Piece};
pub(crate) use node::SURROGATE;
pub use node::{Node, View};
pub(crate) use owned::MAX_DEPTH;
pub use owned::Owned;

use std::borrow::Cow;

/// Role of a message's author.
///
/// ```
/// use chatcodec::Role;
///
/// assert_eq!(Role::parse("developer"), Some(Role::System));
/// assert_eq!(Role::Tool.name(), "tool");
/// assert_eq!(Role::parse("critic"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Instructions; `developer` is a synonym.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The result of a call; `function` is a synonym.
    Tool,
}

impl Role {
    /// OpenAI's name of the role.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// The role with OpenAI's name.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "system" | "developer" => Some(Self::System),
            "user" => Some(Self::User),
            "assistant" => Some(Self::Assistant),
            "tool" | "function" => Some(Self::Tool),
            _ => None,
        }
    }
}

/// One message of a conversation. Absent and empty content are equal.
///
/// ```
/// use chatcodec::{Codec, EncodeOptions, Format, Message, Role, Vocab};
///
/// let user = Message { name: Some("user_0".into()), ..Message::new(Role::User, "Hi") };
/// assert_eq!(user.content, "Hi");
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let messages = vec![Message::new(Role::System, "Be brief."), Message::new(Role::User, "Hi")];
/// let ids = codec.encode(messages.clone(), None, &EncodeOptions::default())?;
/// assert_eq!(codec.decode(ids.ids()), messages);
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The role of the author.
    pub role: Role,
    /// A header word: a user's name, or one of a closed set that the format gives (`plugin`).
    pub name: Option<String>,
    /// The text.
    pub content: String,
    /// The parts of the content that are no text, in order: images.
    pub media: Vec<Media>,
    /// The reasoning of the model before its text.
    pub reasoning: Option<String>,
    /// The calls of the model, in order.
    pub calls: Vec<Call>,
    /// The id of the call that a result answers.
    pub call_id: Option<String>,
}

impl Default for Message {
    fn default() -> Self {
        Self::new(Role::User, "")
    }
}

impl Message {
    /// The texts and the other parts of the content, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        pieces(&self.content, &self.media)
    }

    /// Whether there is text or another part.
    pub(crate) fn has_content(&self) -> bool {
        !self.content.is_empty() || !self.media.is_empty()
    }

    /// Changes each text of the content; the other parts stay between them.
    pub(crate) fn change_texts(&mut self, change: impl Fn(&str) -> Cow<'_, str>) {
        if self.media.is_empty() {
            if let Cow::Owned(changed) = change(&self.content) {
                self.content = changed;
            }
            return;
        }
        let mut changed = Self::new(self.role, "");
        for piece in self.pieces() {
            match piece {
                Piece::Text(text) => changed.content.push_str(&change(text)),
                Piece::Media(part) => changed.push_content("", &[Media { at: 0, ..*part }]),
            }
        }
        (self.content, self.media) = (changed.content, changed.media);
    }

    /// Appends text and other parts to the content.
    pub(crate) fn push_content(&mut self, text: &str, media: &[Media]) {
        let before = self.content.len();
        self.content.push_str(text);
        self.media.extend(media.iter().map(|part| Media { at: part.at + before, ..*part }));
    }

    /// Whether this is a message of the assistant without calls.
    pub(crate) fn is_answer(&self) -> bool {
        self.role == Role::Assistant && self.calls.is_empty()
    }

    /// Gives calls without an id the ids `call_0…`.
    pub fn number_calls(&mut self) {
        for (number, call) in self.calls.iter_mut().enumerate() {
            call.id.get_or_insert_with(|| call_id(number));
        }
    }

    /// A message with text only.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            name: None,
            content: content.into(),
            media: Vec::new(),
            reasoning: None,
            calls: Vec::new(),
            call_id: None,
        }
    }
}

/// One call of a message.
///
/// ```
/// use chatcodec::{Call, CallBody, Codec, EncodeOptions, Format, Message, Role, Vocab};
///
/// let body = CallBody::Function { name: "clock".into(), arguments: "{}".into() };
/// let mut message = Message::new(Role::Assistant, "");
/// message.calls.push(Call { id: None, body });
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let messages = vec![Message::new(Role::User, "What time is it?"), message];
/// let ids = codec.encode(messages, None, &EncodeOptions::default())?;
/// assert!(ids.text().contains("<|plugin|>"));
/// assert_eq!(codec.decode(ids.ids())[1].calls.len(), 1);
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The id that a result refers to.
    pub id: Option<String>,
    /// The called function or code.
    pub body: CallBody,
}

/// The id of a call that has none, by its number.
pub(crate) fn call_id(number: usize) -> String {
    format!("call_{number}")
}

/// The called function or code.
///
/// ```
/// use chatcodec::CallBody;
///
/// let body = CallBody::Code { language: Some("python".into()), source: "1 + 1".into() };
/// assert!(matches!(body, CallBody::Code { source, .. } if source == "1 + 1"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallBody {
    /// A function, with raw JSON text as its arguments.
    Function {
        /// The function's name: any text.
        name: String,
        /// One JSON value, kept byte for byte; the white space around it is not written.
        arguments: String,
    },
    /// Code to run.
    Code {
        /// A header word such as `python`.
        language: Option<String>,
        /// The code.
        source: String,
    },
}

/// Policy for `arguments` that are not one JSON value.
///
/// ```
/// use chatcodec::{CallBody, Codec, Format, OnArguments, Vocab};
/// use serde_json::json;
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let call = json!({"function": {"name": "f", "arguments": "{\"a\": "}}); // cut by a limit
/// let messages = json!([{"role": "assistant", "tool_calls": [call]}]);
/// assert!(codec.read(&messages, OnArguments::Error).is_err());
/// let read = codec.read(&messages, OnArguments::String)?;
/// let CallBody::Function { arguments, .. } = &read[0].calls[0].body else { panic!("is code") };
/// assert_eq!(arguments, r#""{\"a\": ""#);
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnArguments {
    /// Refuses the message.
    #[default]
    Error,
    /// Writes them as a JSON string: for truncated output of a model.
    String,
}

/// Number of system messages at the beginning of a conversation.
pub(crate) fn leading_systems(messages: &[Message]) -> usize {
    messages.iter().take_while(|message| message.role == Role::System).count()
}
