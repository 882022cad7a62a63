//! A chat format: one TOML file, read and checked, before it meets a vocabulary.
//!
//! `docs/formats.md` explains the keys. Loading refuses a wrong file with an error that names the
//! key: an unknown word, an unused or undefined control token, the spelling of a control token
//! inside ordinary text, or a row that is ambiguous or cannot be read back.

pub(crate) mod after_tool;
pub(crate) mod also;
mod ambiguity;
mod answers;
mod between;
pub(crate) mod calls;
pub(crate) mod content_block;
mod declared;
mod evidence;
pub(crate) mod file;
mod id_form;
mod jobs;
pub(crate) mod last;
mod load;
mod losses;
pub(crate) mod media;
mod models;
mod patterns;
mod preamble;
mod prompt;
pub(crate) mod reasoning;
mod reduce;
mod refused;
mod respelled;
mod results;
pub(crate) mod rules;
mod split_turns;
mod table;
pub(crate) mod tags;
mod text_markers;
mod text_rows;
mod tools;
mod tools_end;
pub(crate) mod unmarked_calls;
mod variant;
pub(crate) mod white_space;
mod without_system;
mod work;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use serde::Deserialize;

use crate::call::{Member, ObjectSpec};
use crate::error::KeyProblem;
use crate::error::{Error, Result};
use crate::json;
use crate::message::{CallBody, MediaKind, Message, Node, Owned, Role};
use crate::path::Path;
use crate::pattern::{self, Field, Piece};
pub(crate) use after_tool::AfterToolPrompts;
pub(crate) use also::AlsoSpec;
pub(crate) use answers::Part;
pub(crate) use calls::{CallBodySpec, CallSpec, ListForm, ListSpec};
use chatcodec_vocab::{TokenId, Vocab};
pub use declared::DeclaredTools;
pub(crate) use declared::{ToolsPart, ToolsRun};
pub use evidence::{FolderHints, TemplateSource};
pub use file::{BareCalls, InReasoning};
use file::{BeginWhen, File, ResultsPlace};
pub(crate) use file::{LastWhen, Order, ReasoningWhen, SystemPlace, ToolsPlace};
pub(crate) use id_form::IdForm;
pub(crate) use media::MediaSpec;
pub(crate) use preamble::BeginSpec;
pub(crate) use refused::Refused;
pub(crate) use respelled::Tokens;
use tags::TagSpec;
pub(crate) use tools::{Declaration, KeptTools};
use tools_end::ToolsReasoning;
use variant::Document;
pub(crate) use without_system::{WithoutSystem, word_as_written};
use work::Work;

/// The formats that come with this crate, by name: the files of `formats/`.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/formats.rs"));

/// The names of the built-in formats and of their variants: `deepseek`, `deepseek:v3`.
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let variants = |(name, text): &(&str, &str)| {
        let own = Format::variants(text).into_iter().map(|variant| format!("{name}:{variant}"));
        [(*name).to_owned()].into_iter().chain(own).collect::<Vec<_>>()
    };
    let mut names: Vec<String> = BUILT_IN.iter().flat_map(variants).collect();
    names.sort();
    names
});

/// The built-in formats that were read, in the order of [`NAMES`].
static READ: LazyLock<Vec<OnceLock<Format>>> =
    LazyLock::new(|| NAMES.iter().map(|_| OnceLock::new()).collect());

/// Whether the loader proves that what a file writes can be read in one way only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    Whole,
    None,
}

/// The kind of delimiter between turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Guarantee {
    /// Ids: no text can forge a turn.
    Ids,
    /// Text: markers are ordinary text, and collisions are reported.
    Text,
}

impl Guarantee {
    /// The word for it in a format file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ids => "ids",
            Self::Text => "text",
        }
    }
}

/// A chat format. Frozen, cheap to clone.
///
/// ```
/// use chatcodec::{Format, Guarantee};
///
/// let format = Format::built_in("qwen3")?;
/// assert_eq!(format.guarantee(), Guarantee::Ids);
/// assert_eq!(format.options(), ["thinking"]);
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Clone)]
pub struct Format {
    spec: Arc<Spec>,
    /// Kinds of parts whose tokens a vocabulary lacks.
    without: Vec<MediaKind>,
}

struct Spec {
    text: Arc<str>,
    variant: Option<String>,
    name: String,
    guarantee: Guarantee,
    source: String,
    vocabulary: String,
    /// Spellings of control tokens that a vocabulary lacks; the parts that need them are left out.
    lacking: Vec<String>,
    /// Words in the names of its models.
    models: Vec<String>,
    /// Kinds of messages that the template of its models writes otherwise.
    refused: Vec<Refused>,
    /// Tokenizer classes that its models alone have.
    tokenizer_classes: Vec<String>,
    control: Vec<(String, Vec<String>)>,
    /// Control tokens with text around them, by name.
    tags: Vec<(String, Vec<TagSpec>)>,
    /// Control tokens that only forms for reading use; a vocabulary may lack them.
    optional: Vec<(String, Vec<String>)>,
    /// Markers that the assistant's own text spells.
    text_markers: Vec<(String, Vec<String>)>,
    /// Tokens that the vocabulary file lacks: they follow its last id.
    append: Vec<String>,
    /// The id of the first of them in the vocabulary of the model.
    append_at: Option<TokenId>,
    /// Spellings of control tokens that are ordinary words.
    silent: Vec<String>,
    /// Further markers, beside those that the reader looks for.
    markers: Vec<String>,
    roles: BTreeMap<String, Role>,
    begin: Vec<Piece>,
    end: Vec<Piece>,
    /// The first literal text that contains U+2581.
    space_mark: Option<String>,
    generation_prompt: Vec<Piece>,
    /// The generation prompts with and without reasoning.
    thinking: [Option<Vec<Piece>>; 2],
    /// The prompts after a result.
    after_tool: AfterToolPrompts,
    reasoning: ReasoningWhen,
    /// The messages that the rows `last.assistant` write.
    last_when: LastWhen,
    /// Control tokens that stop the model although no row writes them.
    stop: Vec<String>,
    always_prompts: bool,
    order: Order,
    system_place: SystemPlace,
    default_system: Option<String>,
    /// The turn of a conversation without a system message, where it is more than that text.
    without_system: Option<WithoutSystem>,
    /// Whether a system text in a user's turn is read as the user's.
    folds_system: bool,
    tools: Option<ToolsSpec>,
    /// The first turn.
    begin_turn: Option<BeginSpec>,
    rows: Vec<RowSpec>,
    calls: Vec<CallSpec>,
    list: Option<ListSpec>,
    also: AlsoSpec,
    /// The media parts.
    media: Vec<MediaSpec>,
    /// The text between content and the calls after it.
    after_content: String,
    in_reasoning: InReasoning,
    bare_calls: BareCalls,
    results: Option<ResultsSpec>,
    results_place: ResultsPlace,
}

/// A row of the table: writes and reads one shape of message.
pub(crate) struct RowSpec {
    /// The row's key: `turn.user`, `named.plugin.tool`.
    pub(crate) key: String,
    pub(crate) role: Role,
    pub(crate) name: Option<String>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) place: RowUse,
}

/// The use of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowUse {
    /// Written and read.
    Both,
    /// Written; another row reads it.
    Written,
    /// Written for the last message of a conversation; another row reads it.
    WrittenLast,
    /// Written for the default system message; another row reads it.
    WrittenDefault,
    /// Written and read for the message after a result.
    AfterTool,
    /// Written for the message after a result; the row `AfterTool` reads it.
    WrittenAfterTool,
    /// Only read; other patterns write it, in pieces.
    Read,
    /// Only read, where no other row fits.
    Last,
    /// Only read: this part of a message that continues after it.
    Frame(Field),
}

impl RowUse {
    /// Whether it is read wherever a turn may begin.
    pub(crate) fn is_read(self) -> bool {
        matches!(self, Self::Both | Self::Read | Self::Last | Self::Frame(_))
    }

    pub(crate) fn is_frame(self) -> bool {
        matches!(self, Self::Frame(_))
    }

    /// Whether it writes the message after a result.
    pub(crate) fn is_after_tool(self) -> bool {
        matches!(self, Self::AfterTool | Self::WrittenAfterTool)
    }
}

/// The patterns around consecutive results.
pub(crate) struct ResultsSpec {
    pub(crate) open: Vec<Piece>,
    pub(crate) between: Vec<Piece>,
    pub(crate) close: Vec<Piece>,
    /// The row that reads results, if they are read as the text of a turn.
    pub(crate) folded: Option<Folded>,
}

/// The role whose text the results become, and the part of their frame that is read with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folded {
    pub(crate) role: Role,
    /// The parts before and after the results.
    pub(crate) before: Vec<Piece>,
    pub(crate) after: Vec<Piece>,
}

/// The patterns of the turn that declares tools.
struct ToolsSpec {
    turn: FixedTurn,
    /// The turn for a conversation without a system message, if tools are in the system message's
    /// turn.
    alone: Option<FixedTurn>,
    declaration: Declaration,
    reasoning: Option<ToolsReasoning>,
    /// The message whose turn it replaces.
    holds: Option<Role>,
    place: ToolsPlace,
}

impl ToolsSpec {
    fn turns(&self) -> impl Iterator<Item = &FixedTurn> {
        [&self.turn].into_iter().chain(&self.alone)
    }
}

/// A turn of the format's own text, which may declare tools.
pub(crate) struct FixedTurn {
    pub(crate) pieces: Vec<Piece>,
    /// The name of the row that reads it back.
    pub(crate) name: Option<String>,
    /// The text that this row reads as its content.
    pub(crate) inside: Vec<Piece>,
}

impl Format {
    /// Maximum length of a format file, in bytes.
    pub const MAX_FILE_BYTES: usize = 1 << 20;

    /// A built-in format by name, or a variant of one: `deepseek`, `deepseek:v3`.
    ///
    /// # Errors
    /// [`Error::Format`] with the nearest names, where there is none of this name.
    pub fn built_in(name: &str) -> Result<Self> {
        let (base, variant) = match name.split_once(':') {
            Some((base, variant)) => (base, Some(variant)),
            None => (name, None),
        };
        let file = BUILT_IN.iter().find(|(known, _)| *known == base);
        if let Some((_, text)) = file
            && let Some(at) = Self::names().position(|known| known == name)
        {
            if let Some(format) = READ[at].get() {
                return Ok(format.clone());
            }
            let format = Self::parse_variant(name, text, variant)?;
            return Ok(READ[at].get_or_init(|| format).clone());
        }
        let mut known: Vec<&str> = Self::names().collect();
        let lower = name.to_lowercase();
        known.sort_by_cached_key(|known| {
            (!Self::is_spoken_by(known, name), distance(known, &lower))
        });
        known.truncate(3);
        let known = known.join("`, `");
        let mut problem = format!("no built-in format has this name; similar names: `{known}`");
        if name.contains(['/', '\\', '.']) {
            problem
                .push_str("; `Format.load` reads a format file, `Codec.from_pretrained` a model");
        }
        Err(Error::Format { file: name.into(), key: String::new(), problem })
    }

    /// The names of the built-in formats, and of their variants after a colon.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(String::as_str)
    }

    /// Reads a format file. `file` is its name in errors.
    ///
    /// # Errors
    /// [`Error::Format`] with the key and what was expected.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        Self::parse_variant(file, text, None)
    }

    /// Reads one of the variants that a format file offers: the file with the keys of its table
    /// `[variant.X]` in place of its own.
    ///
    /// # Errors
    /// [`Error::Format`] with the key and what was expected.
    pub fn parse_variant(file: &str, text: &str, variant: Option<&str>) -> Result<Self> {
        Self::read(file, text, variant, Proof::Whole)
    }

    /// Reads a format file without the proof that what it writes can be read in one way only.
    ///
    /// # Errors
    /// [`Error::Format`] for a file that is no format even so.
    pub(crate) fn unproved(file: &str, text: &str, variant: Option<&str>) -> Result<Self> {
        Self::read(file, text, variant, Proof::None)
    }

    fn read(file: &str, text: &str, variant: Option<&str>, proof: Proof) -> Result<Self> {
        let error = |key: &str, problem: String| Error::Format {
            file: file.into(),
            key: key.into(),
            problem,
        };
        if text.len() > Self::MAX_FILE_BYTES {
            let limit = Self::MAX_FILE_BYTES;
            let problem = format!("is longer than {limit} bytes, the most that is read");
            return Err(error("", problem));
        }
        let wrong = |KeyProblem { key, problem }: KeyProblem| error(&key, problem);
        let document = Document::read(text).map_err(wrong)?;
        let (text, work): (Arc<str>, Work) = (text.into(), Work::new());
        let read = |variant: &str| -> std::result::Result<Spec, KeyProblem> {
            Spec::new(&text, document.variant(variant, &work)?, &work, proof)
        };
        let spec = if let Some(variant) = variant {
            let mut spec = read(variant).map_err(wrong)?;
            spec.name = format!("{}:{variant}", spec.name);
            spec.variant = Some(variant.to_owned());
            spec
        } else {
            // A variant that does not load is an error of the file.
            let variants = document.names().try_for_each(|variant| read(variant).map(|_| ()));
            let own = Spec::new(&text, document.file, &work, proof).map_err(wrong)?;
            variants.map_err(wrong)?;
            own
        };
        Ok(Self { spec: Arc::new(spec), without: Vec::new() })
    }

    /// The names of the variants that a format file offers.
    pub fn variants(text: &str) -> Vec<String> {
        let document = Document::read(text).ok();
        document.map_or_else(Vec::new, |document| document.names().map(str::to_owned).collect())
    }

    /// The format without the parts that need missing control tokens, given by their names in the file:
    /// calls, results, tools, reasoning. `None` if the rest is not a format.
    pub(crate) fn without(&self, missing: &[String]) -> Option<Self> {
        // The remaining forms of calls may not be distinguishable from text.
        let mut spec = [false, true].into_iter().find_map(|calls| {
            let mut keys = variant::keys(&self.spec.text, self.variant())?;
            let file = reduce::reduce(&mut keys, missing, calls)
                .then(|| File::deserialize(toml::Value::Table(keys)).ok());
            Spec::new(&self.spec.text, file??, &Work::new(), Proof::Whole).ok()
        })?;
        spec.name.clone_from(&self.spec.name);
        spec.variant.clone_from(&self.spec.variant);
        let spellings = self.spec.control.iter().filter(|(name, _)| missing.contains(name));
        spec.lacking = spellings.filter_map(|(_, group)| group.first().cloned()).collect();
        Some(Self { spec: Arc::new(spec), without: Vec::new() })
    }

    /// The format as errors name it when it has no place for something: with the tokens that the
    /// vocabulary lacks for that.
    pub(crate) fn described(&self) -> String {
        format!("format `{}`{}", self.name(), self.lacking())
    }

    /// The control tokens that the vocabulary lacks, as the end of an error; empty where there are none.
    pub(crate) fn lacking(&self) -> String {
        match &self.spec.lacking[..] {
            [] => String::new(),
            lacking => format!(" on a vocabulary without `{}`", lacking.join("`, `")),
        }
    }

    /// The format on a vocabulary without the tokens of these kinds of parts.
    pub(crate) fn without_media(&self, kinds: Vec<MediaKind>) -> Self {
        Self { without: kinds, ..self.clone() }
    }

    /// The media parts.
    pub(crate) fn media_specs(&self) -> &[MediaSpec] {
        &self.spec.media
    }

    /// How a media part is written; none where the format has no place for it, or the vocabulary no tokens.
    pub(crate) fn media_spec(&self, kind: MediaKind) -> Option<&MediaSpec> {
        let mut specs = self.spec.media.iter().filter(|spec| !self.without.contains(&spec.kind));
        specs.find(|spec| spec.kind == kind)
    }

    /// The kinds of media parts that have placeholders: `image`, `video`, `audio`.
    pub fn media(&self) -> Vec<&'static str> {
        let kinds = MediaKind::ALL.into_iter();
        kinds.filter(|kind| self.media_spec(*kind).is_some()).map(MediaKind::name).collect()
    }

    /// The control tokens of a kind of part that the vocabulary lacks, as the end of an error; empty where the format
    /// has none for it.
    pub(crate) fn lacking_media(&self, kind: MediaKind) -> String {
        let spec = self.spec.media.iter().find(|spec| spec.kind == kind);
        let Some(spec) = spec else { return String::new() };
        let known = &self.spec.optional;
        let spelled = spec.names().filter_map(|name| {
            let (_, group) = known.iter().find(|(known, _)| known == name)?;
            group.first().cloned()
        });
        let spelled: Vec<String> = spelled.collect();
        format!(": the vocabulary lacks `{}`", spelled.join("` or `"))
    }

    /// The name of its variant.
    pub fn variant(&self) -> Option<&str> {
        self.spec.variant.as_deref()
    }

    /// The kinds of vocabulary that it is made for, in words.
    pub fn vocabulary(&self) -> &str {
        &self.spec.vocabulary
    }

    /// The format's name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The kind of delimiter between its turns.
    pub fn guarantee(&self) -> Guarantee {
        self.spec.guarantee
    }

    /// The reference it follows.
    pub fn source(&self) -> &str {
        &self.spec.source
    }

    /// The file's text.
    pub fn text(&self) -> &str {
        &self.spec.text
    }

    /// Whether the ids of calls are written.
    pub(crate) fn writes_ids(&self) -> bool {
        let writes = |call: &CallSpec| match &call.body {
            CallBodySpec::Object(object) => object.has(Member::Id),
            _ => call.items.first().is_some_and(|item| rules::has_field(item, Field::Id)),
        };
        self.spec.calls.iter().any(writes)
    }

    /// Whether the name of the called function precedes a result.
    pub(crate) fn names_results(&self) -> bool {
        let is_named = |row: &RowSpec| rules::has_field(&row.pieces, Field::Name);
        self.spec.rows.iter().any(|row| row.role == Role::Tool && is_named(row))
    }

    /// The first literal text that contains U+2581, which some vocabularies decode as a space.
    pub(crate) fn space_mark(&self) -> Option<&str> {
        self.spec.space_mark.as_deref()
    }

    /// The first turn.
    pub(crate) fn begin_turn(&self) -> Option<&BeginSpec> {
        self.spec.begin_turn.as_ref()
    }

    /// The default reasoning effort.
    pub(crate) fn default_effort(&self) -> Option<&str> {
        self.efforts().first().map(String::as_str)
    }

    /// Whether a conversation has a first turn of its own.
    pub(crate) fn has_begun(&self, messages: &[Message]) -> bool {
        let message = messages.get(self.declaring(messages));
        message.zip(self.begin_turn()).is_some_and(|(message, begin)| begin.is_given(message))
    }

    /// Whether the format writes its first turn. `thinking`: whether reasoning is asked for.
    pub(crate) fn begins(&self, messages: &[Message], thinking: Option<bool>) -> bool {
        let is_wanted = |begin: &BeginSpec| match begin.when {
            BeginWhen::Always => true,
            BeginWhen::Thinking => thinking != Some(false),
        };
        self.begin_turn().is_some_and(is_wanted) && !self.has_begun(messages)
    }

    /// Number of messages that declare tools before the first turn.
    pub(crate) fn declaring(&self, messages: &[Message]) -> usize {
        let tools = self.spec.tools.as_ref();
        let Some(tools) = tools.filter(|tools| tools.place == ToolsPlace::BeforeBegin) else {
            return 0;
        };
        let is_own =
            |message: &&Message| message.role == Role::System && message.name == tools.turn.name;
        messages.iter().take_while(is_own).count()
    }

    /// The caller's system message, after the format's own.
    pub(crate) fn first_system(&self, messages: &[Message]) -> Option<usize> {
        let at = self.declaring(messages) + usize::from(self.has_begun(messages));
        let message = messages.get(at)?;
        let is_named = message.name.as_ref().is_some_and(|name| self.is_named(name, Role::System));
        (message.role == Role::System && !is_named).then_some(at)
    }

    /// The words for the reasoning effort.
    pub(crate) fn efforts(&self) -> &[String] {
        self.begin_turn().map_or(&[], |begin| &begin.efforts)
    }

    /// Whether the format writes a date.
    pub(crate) fn has_date(&self) -> bool {
        let begins = self.begin_turn().map(|begin| &begin.pieces);
        begins.is_some_and(|pieces| rules::has_field(pieces, Field::Date))
            || self.without_system().is_some_and(WithoutSystem::has_date)
    }

    /// Whether the format spells the date out, so that the date must be a day.
    pub(crate) fn spells_day(&self) -> bool {
        let begins = self.begin_turn().into_iter().flat_map(|begin| pattern::walk(&begin.pieces));
        let is_spelled =
            |piece: &Piece| matches!(piece, Piece::Field(_, filter) if filter.day_form().is_some());
        begins.into_iter().any(is_spelled)
            || self.without_system().is_some_and(WithoutSystem::spells_day)
    }

    /// The options for encoding a conversation: a selection of `thinking`, `date` and `effort`.
    pub fn options(&self) -> Vec<&'static str> {
        let known = [
            ("thinking", self.has_reasoning()),
            ("date", self.has_date()),
            ("effort", !self.efforts().is_empty()),
        ];
        known.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
    }

    /// Kinds of messages that it reads and does not write.
    pub(crate) fn refused(&self) -> &[Refused] {
        &self.spec.refused
    }

    pub(crate) fn append(&self) -> &[String] {
        &self.spec.append
    }

    pub(crate) fn silent(&self) -> &[String] {
        &self.spec.silent
    }

    pub(crate) fn markers(&self) -> &[String] {
        &self.spec.markers
    }

    pub(crate) fn stop(&self) -> &[String] {
        &self.spec.stop
    }

    pub(crate) fn order(&self) -> Order {
        self.spec.order
    }

    pub(crate) fn always_prompts(&self) -> bool {
        self.spec.always_prompts
    }

    pub(crate) fn system_place(&self) -> SystemPlace {
        self.spec.system_place
    }

    pub(crate) fn default_system(&self) -> Option<&str> {
        self.spec.default_system.as_deref()
    }

    /// The system message of a conversation without one: the default, or an empty one where its turn says that
    /// reasoning is asked for.
    pub(crate) fn absent_system(&self, thinking: bool) -> Option<&str> {
        self.default_system().or_else(|| (thinking && self.tells_thinking()).then_some(""))
    }

    /// The turn of a conversation without a system message, where it is more than a text.
    pub(crate) fn without_system(&self) -> Option<&WithoutSystem> {
        self.spec.without_system.as_ref()
    }

    pub(crate) fn folds_system(&self) -> bool {
        self.spec.folds_system
    }

    pub(crate) fn list(&self) -> Option<&ListSpec> {
        self.spec.list.as_ref()
    }

    pub(crate) fn tools_place(&self) -> Option<ToolsPlace> {
        self.spec.tools.as_ref().map(|tools| tools.place)
    }

    /// Whether a turn of tools comes before the system message.
    pub(crate) fn begins_with_tools(&self) -> bool {
        matches!(self.tools_place(), Some(ToolsPlace::First | ToolsPlace::BeforeBegin))
    }

    /// The turns that declare tools: with the message whose turn it is, and without one.
    pub(crate) fn tools_turns(&self) -> (Option<&FixedTurn>, Option<&FixedTurn>) {
        let tools = self.spec.tools.as_ref();
        (tools.map(|tools| &tools.turn), tools.and_then(|tools| tools.alone.as_ref()))
    }

    /// The role whose turn has the tools, if they have no turn of their own.
    pub(crate) fn tools_in(&self) -> Option<Role> {
        self.spec.tools.as_ref()?.holds
    }

    /// The control tokens in the text of the tools.
    pub(crate) fn declaring_tokens(&self) -> impl Iterator<Item = &Piece> {
        let tokens = self.spec.tools.iter().flat_map(|tools| &tools.declaration.tokens);
        tokens.map(|token| &token.piece)
    }

    /// Whether the turn of the system says that reasoning is asked for.
    pub(crate) fn tells_thinking(&self) -> bool {
        let mut rows = self.spec.rows.iter().filter(|row| row.role == Role::System);
        let is_guard =
            |piece: &Piece| matches!(piece, Piece::Optional { field: Field::Thinking, .. });
        rows.any(|row| row.pieces.iter().any(is_guard))
    }

    /// Whether results are written in the assistant's turn.
    pub(crate) fn answers_in_turn(&self) -> bool {
        self.spec.results_place == ResultsPlace::Assistant
    }

    /// The messages whose reasoning is written, with tools or without.
    pub(crate) fn reasoning(&self, tools: bool) -> ReasoningWhen {
        match self.tools_reasoning() {
            Some(reasoning) if tools => reasoning.when,
            _ => self.spec.reasoning,
        }
    }

    fn tools_reasoning(&self) -> Option<&ToolsReasoning> {
        self.spec.tools.as_ref()?.reasoning.as_ref()
    }

    /// Whether the system message of a conversation declares tools, in a format in which they decide what else is
    /// written.
    pub(crate) fn declares_tools(&self, messages: &[Message]) -> bool {
        self.tools_reasoning().is_some_and(|reasoning| reasoning.are_declared(messages))
    }

    /// The messages that the rows `last.assistant` write.
    pub(crate) fn last_when(&self) -> LastWhen {
        self.spec.last_when
    }

    /// Whether reasoning has a place.
    pub fn has_reasoning(&self) -> bool {
        self.spec.rows.iter().any(|row| rules::has_field(&row.pieces, Field::Reasoning))
    }

    pub(crate) fn results(&self) -> Option<&ResultsSpec> {
        self.spec.results.as_ref()
    }

    pub(crate) fn after_content(&self) -> &str {
        &self.spec.after_content
    }

    /// The meaning of a call inside reasoning.
    pub fn calls_in_reasoning(&self) -> InReasoning {
        self.spec.in_reasoning
    }

    /// The places where an unmarked call may begin.
    pub fn bare_calls(&self) -> BareCalls {
        self.spec.bare_calls
    }

    pub(crate) fn control(&self) -> &[(String, Vec<String>)] {
        &self.spec.control
    }

    /// Markers of reasoning and calls that are ordinary text: their names and texts.
    pub(crate) fn text_markers(&self) -> &[(String, Vec<String>)] {
        &self.spec.text_markers
    }

    /// Control tokens with text around them, by name: the first way is written, all are read.
    pub(crate) fn tags(&self) -> &[(String, Vec<TagSpec>)] {
        &self.spec.tags
    }

    /// How a control token, a marker or a tag is spelled where it is written; none for an unknown name.
    pub(crate) fn written_spelling(&self, name: &str) -> Option<Cow<'_, str>> {
        let of_token = |name: &str| {
            let mut known = self.control().iter().chain(self.text_markers());
            let known = known.find(|(known, _)| known == name);
            known.and_then(|(_, spellings)| spellings.first()).map(String::as_str)
        };
        if let Some((_, ways)) = self.tags().iter().find(|(known, _)| known == name) {
            let way = ways.first()?;
            let token = of_token(&way.token)?;
            let next = way.next.iter().map(|next| of_token(next)).collect::<Option<String>>()?;
            return Some(format!("{}{token}{}{next}", way.before, way.after).into());
        }
        of_token(name).map(Cow::Borrowed)
    }

    pub(crate) fn rows(&self) -> &[RowSpec] {
        &self.spec.rows
    }

    pub(crate) fn calls(&self) -> &[CallSpec] {
        &self.spec.calls
    }

    /// The tokens that a model may write around its answer, though the format does not.
    pub(crate) fn answer(&self) -> Option<&[Piece; 2]> {
        self.spec.also.answer.as_ref()
    }

    /// The forms of calls that are only read.
    pub(crate) fn also(&self) -> &AlsoSpec {
        &self.spec.also
    }

    /// A form of a call by its index: the format's own first, then those that are only read.
    pub(crate) fn call_as_read(&self, call: usize) -> Option<&CallSpec> {
        let also = self.also();
        self.calls().iter().chain(&also.calls).chain(&also.bare).nth(call)
    }

    /// The keys of an unmarked call that is an object.
    pub(crate) fn bare_object(&self) -> Option<&ObjectSpec> {
        match &self.also().bare.first()?.body {
            CallBodySpec::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Control tokens that a vocabulary may lack.
    pub(crate) fn optional_control(&self) -> &[(String, Vec<String>)] {
        &self.spec.optional
    }

    pub(crate) fn begin(&self) -> &[Piece] {
        &self.spec.begin
    }

    pub(crate) fn end(&self) -> &[Piece] {
        &self.spec.end
    }

    pub(crate) fn generation_prompt(&self) -> &[Piece] {
        &self.spec.generation_prompt
    }

    /// The generation prompt with or without reasoning.
    pub(crate) fn thinking_prompt(&self, thinking: bool) -> Option<&[Piece]> {
        self.spec.thinking[usize::from(!thinking)].as_deref()
    }

    /// Whether the generation prompt leaves room for reasoning.
    pub(crate) fn may_reason(&self) -> bool {
        self.has_reasoning() && self.thinking_prompt(false) != Some(self.generation_prompt())
    }

    /// The prompts after a result.
    pub(crate) fn after_tool(&self) -> &AfterToolPrompts {
        &self.spec.after_tool
    }

    /// The role that a word names, OpenAI's or the format's own, if the format has a turn for it.
    pub(crate) fn role(&self, word: &str) -> Option<Role> {
        let role = Role::parse(word).or_else(|| self.spec.roles.get(word).copied())?;
        self.has_role(role).then_some(role)
    }

    fn has_role(&self, role: Role) -> bool {
        let in_user =
            matches!(self.spec.system_place, SystemPlace::FirstUser | SystemPlace::LastUser);
        self.spec.rows.iter().any(|row| row.role == role) || (in_user && role == Role::System)
    }

    pub(crate) fn role_names(&self) -> Vec<&str> {
        let own = self.spec.roles.iter().map(|(word, &role)| (word.as_str(), role));
        ["system", "developer", "user", "assistant", "tool"]
            .into_iter()
            .filter_map(|word| Role::parse(word).map(|role| (word, role)))
            .chain(own)
            .filter(|&(_, role)| self.has_role(role))
            .map(|(word, _)| word)
            .collect()
    }

    /// Whether `name` is of the closed set that the format gives to messages of this role.
    pub(crate) fn is_named(&self, name: &str, role: Role) -> bool {
        self.spec.rows.iter().any(|row| row.role == role && row.name.as_deref() == Some(name))
    }

    /// The names of the closed set for a role.
    pub(crate) fn names_of(&self, role: Role) -> Vec<&str> {
        let rows = self.spec.rows.iter().filter(|row| row.role == role);
        rows.filter_map(|row| row.name.as_deref()).collect()
    }

    /// The kind of a call's body, if results of this kind have a row of their own.
    pub(crate) fn call_kind(&self, body: &CallBody) -> Option<&str> {
        let spec = self.call_spec(body)?;
        self.is_named(&spec.kind, Role::Tool).then_some(&*spec.kind)
    }

    /// The kind of a result without a call.
    pub(crate) fn default_kind(&self) -> Option<&str> {
        self.names_of(Role::Tool).into_iter().find(|name| {
            self.spec.calls.iter().any(|call| call.kind == *name && !call.body.is_code())
        })
    }

    /// The author of a result of a call with this body.
    pub(crate) fn answerer(&self, body: &CallBody) -> Option<String> {
        match body {
            CallBody::Function { name, .. } => {
                let result = self.call_spec(body).map(|call| &call.result);
                Some(result.map_or_else(|| name.clone(), |result| result.of(name)))
            }
            // The recipient of code is in the place of its language.
            CallBody::Code { language, .. } => language.clone(),
        }
    }

    /// The form of call ids.
    pub(crate) fn id_form(&self) -> &IdForm {
        let function = self.spec.calls.iter().find(|call| !call.body.is_code());
        function.map_or(&IdForm::Any, |call| &call.id)
    }

    /// The form of a call with this body.
    pub(crate) fn call_spec(&self, body: &CallBody) -> Option<&CallSpec> {
        let is_code = matches!(body, CallBody::Code { .. });
        self.spec.calls.iter().find(|call| call.body.is_code() == is_code)
    }

    /// How tools are declared, in a format that has a place for them.
    pub(crate) fn declaration(&self) -> Option<&Declaration> {
        self.spec.tools.as_ref().map(|tools| &tools.declaration)
    }

    /// The declaration of a list of tools; one that was made before is kept in `kept`.
    ///
    /// # Errors
    /// [`Error::Message`] for tools that have no declaration.
    pub(crate) fn declare<N: Node>(
        &self,
        tools: &[N],
        kept: &KeptTools,
        vocab: &Vocab,
    ) -> Result<DeclaredTools> {
        let mut list = String::new();
        for (at, tool) in tools.iter().enumerate() {
            list.push(if at > 0 { ',' } else { '[' });
            json::write(tool, Path::Argument("tools").item(at), &mut list)?;
        }
        list.push(']');
        match self.declaration() {
            Some(declaration) => kept.get_or_make(list, |list| {
                let tools = tools.iter().map(|tool| Owned::new("tools", tool));
                declaration.declare(list, Owned::List(tools.collect::<Result<_>>()?), vocab)
            }),
            None => Ok(list.into()),
        }
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// The edit distance of two short words, for suggestions.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
