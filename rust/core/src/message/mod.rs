//! Messages: the values that both arrows begin and end with, and how a caller's value is looked at.

mod node;

pub(crate) use node::SURROGATE;
pub use node::{Node, View};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Instructions; `developer` is the same.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a call; `function` is the same.
    Tool,
}

impl Role {
    /// OpenAI's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// The role that OpenAI's word names.
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

/// One message of a conversation. Absent and empty content are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// A header word: a user's name, or one of a closed set that the format gives (`plugin`).
    pub name: Option<String>,
    /// The text.
    pub content: String,
    /// What the model thought before it spoke.
    pub reasoning: Option<String>,
    /// What the model called, in order.
    pub calls: Vec<Call>,
    /// Which call a result answers.
    pub call_id: Option<String>,
}

impl Default for Message {
    fn default() -> Self {
        Self::new(Role::User, "")
    }
}

impl Message {
    /// Whether it is the assistant's and calls nothing.
    pub(crate) fn is_answer(&self) -> bool {
        self.role == Role::Assistant && self.calls.is_empty()
    }

    /// Gives calls without an id the ids `call_0…`.
    pub fn number_calls(&mut self) {
        for (number, call) in self.calls.iter_mut().enumerate() {
            call.id.get_or_insert_with(|| format!("call_{number}"));
        }
    }

    /// A message of text only.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            name: None,
            content: content.into(),
            reasoning: None,
            calls: Vec::new(),
            call_id: None,
        }
    }
}

/// One call of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What a result refers to it by.
    pub id: Option<String>,
    /// What is called.
    pub body: CallBody,
}

/// What is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallBody {
    /// A function, with raw JSON text as its arguments.
    Function {
        /// The function's name: any text.
        name: String,
        /// One JSON value, kept byte for byte; white space around it is not written.
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

/// What to do with `arguments` that are not one JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnArguments {
    /// Refuse the message.
    #[default]
    Error,
    /// Write them as a JSON string: for output of a model that was cut short.
    String,
}

/// How many system messages a conversation begins with.
pub(crate) fn leading_systems(messages: &[Message]) -> usize {
    messages.iter().take_while(|message| message.role == Role::System).count()
}
