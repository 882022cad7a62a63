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
    /// The name of the format.
    pub(super) name: String,
    /// Whether ids or ordinary text tell turns apart: `ids` or `text`.
    pub(super) guarantee: Guarantee,
    /// The reference that the file follows.
    pub(super) source: String,
    /// The kind of vocabulary, for people.
    #[serde(default)]
    pub(super) vocabulary: String,
    /// Words in the names of its models.
    #[serde(default)]
    pub(super) models: Vec<String>,
    /// Kinds of conversations that the model's template writes otherwise.
    #[serde(default)]
    pub(super) refuses: Vec<Refused>,
    /// Classes of tokenizers that only its models have.
    #[serde(default)]
    pub(super) tokenizer_classes: Vec<String>,
    /// Before the first message.
    #[serde(default)]
    pub(super) begin: String,
    /// After the last message.
    #[serde(default)]
    pub(super) end: String,
    /// Tokens that the vocabulary's file lacks.
    #[serde(default)]
    pub(super) append: Vec<String>,
    /// The id of the first appended token.
    pub(super) append_at: Option<TokenId>,
    /// Control tokens that are ordinary words: not reported in `neutralized`.
    #[serde(default)]
    pub(super) silent: Vec<String>,
    /// Further markers, for `guarantee = "text"`.
    #[serde(default)]
    pub(super) markers: Vec<String>,
    /// Whether user and assistant must alternate.
    #[serde(default)]
    pub(super) order: Order,
    /// The system message of a conversation without one.
    pub(super) default_system: Option<String>,
    /// What may come back as the text of the turn around it.
    #[serde(default)]
    pub(super) losses: Vec<Loss>,
    /// In which messages reasoning is written.
    #[serde(default)]
    pub(super) reasoning: ReasoningWhen,
    /// Control tokens by name: a spelling, or several of one id.
    pub(super) control: BTreeMap<String, OneOrMany>,
    /// Markers of calls and reasoning that are ordinary text, by name.
    #[serde(default)]
    pub(super) text: BTreeMap<String, OneOrMany>,
    /// Control tokens with text around them, by name.
    #[serde(default)]
    pub(super) tag: BTreeMap<String, OneOrMany>,
    /// The format's own names of roles: word = role.
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
    /// The format `name:V`: this file with other values of these keys; `false` removes a key.
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
    /// Opens the assistant's turn.
    pub(super) prompt: String,
    /// Whether a prompt also follows an answer.
    #[serde(default)]
    pub(super) when: GenerationWhen,
    /// Further tokens that stop the model.
    #[serde(default)]
    pub(super) stop: String,
    /// The prompt for `thinking=True`.
    pub(super) thinking: Option<String>,
    /// The prompt for `thinking=False`.
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
    /// Where the system message stands.
    #[serde(default)]
    pub(super) system: SystemPlace,
    /// Where the tools stand.
    pub(super) tools: Option<ToolsPlace>,
    /// Where results stand.
    #[serde(default)]
    pub(super) results: ResultsPlace,
    /// Which conversations the format's own turn begins.
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
    /// In which messages reasoning is written where tools are given; by default those of `reasoning`.
    pub(super) reasoning: Option<ReasoningWhen>,
}

/// The patterns around a list of calls.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFile {
    /// White space between content and calls.
    #[serde(default)]
    pub(super) after_content: String,
    /// Before a list of calls.
    pub(crate) open: Option<OneOrMany>,
    /// Between two calls.
    #[serde(default)]
    pub(super) between: String,
    /// After a list of calls.
    pub(crate) close: Option<OneOrMany>,
    /// What a call within reasoning is.
    #[serde(default)]
    pub(super) in_reasoning: InReasoning,
    /// Where a call without its token is a call, for streams with `tools=`.
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
    /// Before results that follow each other.
    #[serde(default)]
    pub(crate) open: String,
    /// Between two results.
    #[serde(default)]
    pub(super) between: String,
    /// After the last result.
    #[serde(default)]
    pub(crate) close: String,
}

/// The turns of a message before its last one: reasoning, and text beside its calls.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FramesFile {
    /// The turn of a message's reasoning, in formats with several turns for one message.
    pub(super) reasoning: Option<OneOrMany>,
    /// The turn of the text beside calls.
    pub(super) content: Option<OneOrMany>,
}

/// The options of the first turn.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct OptionsFile {
    /// Values of `effort`, the default first.
    #[serde(default)]
    pub(super) effort: Vec<String>,
}

/// The rows of the last message of a conversation.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct LastFile {
    /// The rows of the last message.
    pub(super) assistant: Option<OneOrMany>,
    /// Which messages these rows write.
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
    /// The rows after a result, where no header begins them.
    pub(super) assistant: Option<OneOrMany>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TurnFile {
    /// The rows of system messages.
    pub(super) system: Option<OneOrMany>,
    /// The rows of users' messages.
    pub(super) user: OneOrMany,
    /// The rows of the assistant's messages.
    pub(super) assistant: OneOrMany,
    /// The rows of results.
    pub(super) tool: Option<OneOrMany>,
    /// The turn that declares tools; a second pattern is for conversations without a system message.
    pub(super) tools: Option<OneOrMany>,
    /// The format's own first turn.
    pub(super) begin: Option<String>,
    /// The turn of the default system message, where it differs.
    pub(super) default_system: Option<String>,
    /// The turn of a conversation without a system message; the second pattern has tools.
    pub(super) without_system: Option<OneOrMany>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedFile {
    /// The rows of system messages with this name.
    pub(super) system: Option<OneOrMany>,
    /// The rows of results with this name.
    pub(super) tool: Option<OneOrMany>,
}

#[derive(Deserialize)]
pub(super) struct CallFile {
    /// How one call is written: the first is written, all are read.
    pub(super) item: OneOrMany,
    /// Further ways that are only read, with a notice `mended`.
    pub(super) also: Option<OneOrMany>,
    /// The form of ids: `alphanumeric9`, or words around `{name}` and `{index}`.
    pub(super) id: Option<String>,
    /// The name of a result: words around `{name}`.
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
    /// Read before an answer, never written.
    pub(super) open: String,
    /// Read after an answer, never written.
    pub(super) close: String,
}

/// Forms of calls that are only read.
#[derive(Deserialize)]
pub(super) struct AlsoFile {
    /// Another way to write a call, which is only read.
    pub(super) item: OneOrMany,
    /// What may follow such a call.
    pub(crate) after: Option<OneOrMany>,
    /// The keys of the call's shape.
    #[serde(flatten)]
    pub(super) shape: toml::Table,
}
