//! The format file for serde: unknown keys and words are refused here.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Guarantee;
use super::media::MediaFile;
use super::refused::Refused;
use crate::message::Role;
use chatcodec_vocab::TokenId;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) guarantee: Guarantee,
    pub(super) source: String,
    #[serde(default)]
    pub(super) vocabulary: String,
    #[serde(default)]
    pub(super) models: Vec<String>,
    #[serde(default)]
    pub(super) refuses: Vec<Refused>,
    #[serde(default)]
    pub(super) tokenizer_classes: Vec<String>,
    #[serde(default)]
    pub(super) begin: String,
    #[serde(default)]
    pub(super) end: String,
    #[serde(default)]
    pub(super) append: Vec<String>,
    pub(super) append_at: Option<TokenId>,
    #[serde(default)]
    pub(super) silent: Vec<String>,
    #[serde(default)]
    pub(super) markers: Vec<String>,
    #[serde(default)]
    pub(super) order: Order,
    pub(super) default_system: Option<String>,
    #[serde(default)]
    pub(super) losses: Vec<Loss>,
    #[serde(default)]
    pub(super) reasoning: ReasoningWhen,
    pub(super) control: BTreeMap<String, OneOrMany>,
    #[serde(default)]
    pub(super) text: BTreeMap<String, OneOrMany>,
    #[serde(default)]
    pub(super) tag: BTreeMap<String, OneOrMany>,
    #[serde(default)]
    pub(super) roles: BTreeMap<String, String>,
    pub(super) generation: GenerationFile,
    #[serde(default)]
    pub(super) place: PlaceFile,
    #[serde(default)]
    pub(super) tools: ToolsFile,
    pub(super) answer: Option<AnswerFile>,
    #[serde(default)]
    pub(super) calls: ListFile,
    #[serde(default)]
    pub(super) results: FrameFile,
    pub(super) frame: Option<FramesFile>,
    #[serde(default)]
    pub(super) options: OptionsFile,
    pub(super) turn: TurnFile,
    #[serde(default)]
    pub(super) last: LastFile,
    #[serde(default)]
    pub(super) after_tool: AfterToolFile,
    #[serde(default)]
    pub(super) named: BTreeMap<String, NamedFile>,
    #[serde(default)]
    pub(super) call: BTreeMap<String, CallFile>,
    #[serde(default)]
    pub(super) also: BTreeMap<String, AlsoFile>,
    #[serde(default)]
    pub(super) media: BTreeMap<String, MediaFile>,
    /// See [`super::variant`], which reads them.
    #[serde(default, rename = "variant")]
    pub(super) _variant: IgnoredAny,
}

#[derive(Deserialize, Clone)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(super) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

/// Which roles may follow each other.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Any.
    #[default]
    Free,
    /// User, assistant, user …; calls and results count as the assistant's.
    Alternate,
}

impl Order {
    /// Whether a turn of `next` may follow one of `last`.
    pub(crate) fn follows(self, last: Option<Role>, next: Role) -> bool {
        if self == Self::Free || next == Role::System {
            return true;
        }
        match last {
            None | Some(Role::System) => next == Role::User,
            Some(Role::User) => next == Role::Assistant,
            Some(Role::Assistant) => matches!(next, Role::User | Role::Tool),
            Some(Role::Tool) => matches!(next, Role::Tool | Role::Assistant),
        }
    }
}

/// The losses that a file permits.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Loss {
    /// A system text is read as the user's text.
    System,
    /// A result is read as the text of its turn.
    Results,
}

/// The messages whose reasoning is written.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReasoningWhen {
    /// In all.
    #[default]
    All,
    /// In messages after the last user's message.
    SinceLastUser,
    /// In the last message of the conversation.
    Last,
    /// In all messages; if the last message of the assistant is an answer, only after the first.
    UntilAnswered,
    /// In messages after the last answer: after the last message of the assistant without calls.
    SinceLastAnswer,
    /// In none.
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GenerationFile {
    pub(super) prompt: String,
    #[serde(default)]
    pub(super) when: GenerationWhen,
    #[serde(default)]
    pub(super) stop: String,
    pub(super) thinking: Option<String>,
    pub(super) no_thinking: Option<String>,
}

/// The default for writing the generation prompt.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GenerationWhen {
    /// On request; by default unless the last message is the assistant's.
    #[default]
    Asked,
    /// Unless it is refused.
    Always,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct PlaceFile {
    #[serde(default)]
    pub(super) system: SystemPlace,
    pub(super) tools: Option<ToolsPlace>,
    #[serde(default)]
    pub(super) results: ResultsPlace,
    #[serde(default)]
    pub(super) begin: BeginWhen,
}

/// The conversations that the format's own turn begins.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BeginWhen {
    /// All of them.
    #[default]
    Always,
    /// Those in which reasoning is not refused.
    Thinking,
}

/// The place of a system message.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SystemPlace {
    /// In a turn of its own, anywhere.
    #[default]
    Own,
    /// In a turn of its own, before everything else.
    First,
    /// In the first user's turn.
    FirstUser,
    /// In the last user's turn.
    LastUser,
}

/// The place of results.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResultsPlace {
    /// In turns of their own.
    #[default]
    Own,
    /// In the turn of the assistant that called.
    Assistant,
}

/// The place of the turn that declares tools.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolsPlace {
    /// Before everything else.
    First,
    /// The same, and before the format's own turn.
    BeforeBegin,
    /// After the system messages at the beginning of the conversation.
    AfterSystem,
    /// Before the first user's turn.
    FirstUser,
    /// Before the last user's turn.
    LastUser,
    /// In the turn of the system message at the beginning of the conversation.
    System,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolsFile {
    /// A template, or the name of one.
    pub(super) declare: Option<String>,
    /// Variables of the template.
    #[serde(default)]
    pub(super) with: BTreeMap<String, toml::Value>,
    pub(super) reasoning: Option<ReasoningWhen>,
}

/// The patterns around a list of calls.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFile {
    #[serde(default)]
    pub(super) after_content: String,
    pub(crate) open: Option<OneOrMany>,
    #[serde(default)]
    pub(super) between: String,
    pub(crate) close: Option<OneOrMany>,
    #[serde(default)]
    pub(super) in_reasoning: InReasoning,
    #[serde(default)]
    pub(super) bare: BareCalls,
}

/// The places in an answer where an unmarked call may begin, in a stream that knows the tools.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "lowercase")]
pub enum BareCalls {
    /// Nowhere: it is text.
    #[default]
    Text,
    /// At the beginning of a line.
    Line,
    /// Anywhere.
    Anywhere,
}

/// The meaning of a call inside reasoning.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "lowercase")]
pub enum InReasoning {
    /// Reasoning, with its control tokens as their spellings, unless the turn ends right after whole calls.
    #[default]
    Text,
    /// A call.
    Call,
}

/// The patterns around consecutive results.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct FrameFile {
    #[serde(default)]
    pub(crate) open: String,
    #[serde(default)]
    pub(super) between: String,
    #[serde(default)]
    pub(crate) close: String,
}

/// The turns of a message before its last one: reasoning, and text beside its calls.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FramesFile {
    pub(super) reasoning: Option<OneOrMany>,
    pub(super) content: Option<OneOrMany>,
}

/// The options of the first turn.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct OptionsFile {
    #[serde(default)]
    pub(super) effort: Vec<String>,
}

/// The rows of the last message of a conversation.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct LastFile {
    pub(super) assistant: Option<OneOrMany>,
    #[serde(default)]
    pub(super) when: LastWhen,
}

/// The messages that the rows `last.assistant` write.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LastWhen {
    /// The last message of a conversation.
    #[default]
    End,
    /// Messages whose reasoning is written.
    Reasoning,
    /// All messages, where no reasoning is asked for: they have none.
    NoThinking,
}

/// The row of the message that follows a result.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct AfterToolFile {
    pub(super) assistant: Option<OneOrMany>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TurnFile {
    pub(super) system: Option<OneOrMany>,
    pub(super) user: OneOrMany,
    pub(super) assistant: OneOrMany,
    pub(super) tool: Option<OneOrMany>,
    pub(super) tools: Option<OneOrMany>,
    pub(super) begin: Option<String>,
    pub(super) default_system: Option<String>,
    pub(super) without_system: Option<OneOrMany>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedFile {
    pub(super) system: Option<OneOrMany>,
    pub(super) tool: Option<OneOrMany>,
}

#[derive(Deserialize)]
pub(super) struct CallFile {
    pub(super) item: OneOrMany,
    pub(super) also: Option<OneOrMany>,
    pub(super) id: Option<String>,
    pub(super) result: Option<String>,
    /// The keys of the call's shape.
    #[serde(flatten)]
    pub(super) shape: toml::Table,
}

/// The keys of a `[call.X]` table beside those of a shape.
pub(super) const CALL_KEYS: &[&str] = &["item", "also", "id", "result"];

/// The keys of an `[also.X]` table beside those of a shape.
pub(super) const ALSO_KEYS: &[&str] = &["item", "after"];

/// The tokens that a model may write around its answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerFile {
    pub(super) open: String,
    pub(super) close: String,
}

/// Forms of calls that are only read.
#[derive(Deserialize)]
pub(super) struct AlsoFile {
    pub(super) item: OneOrMany,
    pub(crate) after: Option<OneOrMany>,
    /// The keys of the call's shape.
    #[serde(flatten)]
    pub(super) shape: toml::Table,
}
