//! Evidence of a model's folder for or against a format.
//!
//! In: the text of the model's own chat template, which is not run, and the class of its tokenizer. Out: an error
//! for a format that they contradict, with the likely one. A template may build its text from parts, so a format
//! is refused only if the template contains all of another format, and more of it.

use std::sync::Arc;

use serde::Deserialize;

use super::tags::TagSpec;
use super::{Format, Guarantee, WithoutSystem};
use crate::error::{Error, Result};
use crate::message::Role;
use crate::pattern::{Piece, walk};
use chatcodec_vocab::{Vocab, VocabFiles};

/// Name of a model's only template, and of the preferred one of several.
const DEFAULT: &str = "default";

/// Folder of further templates, `NAME.jinja` each.
const FURTHER: &str = "additional_chat_templates/";

/// Shorter pieces of text occur in any template.
const SHORTEST: usize = 4;

/// The hints of a model's folder about its chat format.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderHints {
    /// Templates as they run; the only one of a model has the name `default`.
    sources: Vec<TemplateSource>,
    /// A file that cannot be read, and why.
    broken: Option<(String, String)>,
    /// Special tokens by the names that templates have for them.
    own: Vec<(String, String)>,
    template: Option<String>,
    /// Spellings that the template names by variables, such as `bos_token`.
    variables: Vec<String>,
    tokenizer_class: Option<String>,
    /// The response template, as JSON.
    response: Option<String>,
    /// The ids at which the model's configuration of generation stops.
    stop_ids: Vec<i64>,
}

/// The key of `generation_config.json` that matters here.
#[derive(Deserialize, Default)]
#[serde(default)]
struct GenerationConfig {
    eos_token_id: Option<StopIds>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StopIds {
    One(i64),
    Several(Vec<i64>),
    Other(serde::de::IgnoredAny),
}

impl GenerationConfig {
    /// The ids of a file; an error says what is wrong with it.
    fn stop_ids(text: &str) -> std::result::Result<Vec<i64>, String> {
        let read: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match read.eos_token_id {
            None => Ok(Vec::new()),
            Some(StopIds::One(id)) => Ok(vec![id]),
            Some(StopIds::Several(ids)) => Ok(ids),
            Some(StopIds::Other(_)) => {
                Err("`eos_token_id` is neither an id nor a list of ids".to_owned())
            }
        }
    }
}

/// A chat template of a model's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateSource {
    name: String,
    /// The file that has it.
    pub file: String,
    /// The template.
    pub text: String,
}

/// The keys of `tokenizer_config.json` and `chat_template.json` that matter here.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    chat_template: Option<Templates>,
    tokenizer_class: Option<Token>,
    bos_token: Option<Token>,
    eos_token: Option<Token>,
    pad_token: Option<Token>,
    unk_token: Option<Token>,
    sep_token: Option<Token>,
    cls_token: Option<Token>,
    mask_token: Option<Token>,
    response_template: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Named(Vec<Named>),
    Other(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
    template: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Token {
    Text(String),
    Object { content: String },
    Other(serde::de::IgnoredAny),
}

impl Templates {
    /// Templates by name.
    fn sources(&self, file: &str) -> Vec<TemplateSource> {
        let source = |name: &str, text: &str| TemplateSource {
            name: name.to_owned(),
            file: file.to_owned(),
            text: text.to_owned(),
        };
        match self {
            Self::One(text) => vec![source(DEFAULT, text)],
            Self::Named(named) => named.iter().map(|of| source(&of.name, &of.template)).collect(),
            Self::Other(_) => Vec::new(),
        }
    }

    /// The text of a template; several named ones count as one.
    fn into_text(self) -> Option<String> {
        let join = |all: Vec<Named>| {
            all.into_iter().map(|named| named.template).collect::<Vec<_>>().join("\n")
        };
        match self {
            Self::One(text) => Some(text),
            Self::Named(named) => Some(join(named)),
            Self::Other(_) => None,
        }
    }
}

impl Config {
    /// The special tokens, by name.
    fn named_tokens(&self) -> impl Iterator<Item = (String, String)> + use<> {
        let tokens = [
            ("bos_token", &self.bos_token),
            ("eos_token", &self.eos_token),
            ("pad_token", &self.pad_token),
            ("unk_token", &self.unk_token),
            ("sep_token", &self.sep_token),
            ("cls_token", &self.cls_token),
            ("mask_token", &self.mask_token),
        ];
        let tokens = tokens.map(|(name, token)| match token {
            Some(Token::Text(text) | Token::Object { content: text }) => {
                Some((name.to_owned(), text.clone()))
            }
            _ => None,
        });
        tokens.into_iter().flatten()
    }
}

impl Token {
    fn into_text(self) -> Option<String> {
        match self {
            Self::Text(content) | Self::Object { content } => Some(content),
            Self::Other(_) => None,
        }
    }
}

impl FolderHints {
    /// The folder of further templates, beside these files.
    pub const FURTHER: &'static str = FURTHER;

    /// The files of a folder that are read for hints.
    pub const FILES: [&'static str; 5] = [
        "chat_template.jinja",
        "chat_template.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "generation_config.json",
    ];

    /// Reads hints from files, given by name and content, and the metadata of a GGUF file.
    pub fn of_files(files: &[(String, Arc<[u8]>)]) -> Self {
        let content = |name: &str| {
            let (_, bytes) = files.iter().find(|(known, _)| known == name)?;
            str::from_utf8(bytes).ok()
        };
        let is_text = |(name, bytes): &&(String, Arc<[u8]>)| {
            Self::is_hint(name) && str::from_utf8(bytes).is_err()
        };
        let unread = files.iter().find(is_text);
        let mut broken = unread.map(|(name, _)| (name.clone(), "it is not UTF-8".to_owned()));
        let mut config = |name: &str| -> Config {
            let Some(text) = content(name) else { return Config::default() };
            let read: Config = serde_json::from_str(text).unwrap_or_else(|error| {
                broken.get_or_insert((name.to_owned(), error.to_string()));
                Config::default()
            });
            if let Some(Templates::Other(_)) = &read.chat_template {
                let problem = "`chat_template` is neither text nor a list of named templates";
                broken.get_or_insert((name.to_owned(), problem.to_owned()));
            }
            read
        };
        let [jinja, json_file, main_file, map, generation] = Self::FILES;
        let (main, map) = (config(main_file), config(map));
        // It says nothing beside the template itself.
        let is_beside = content(jinja).is_some();
        let json = if is_beside { Config::default() } else { config(json_file) };
        let stops = content(generation).map(GenerationConfig::stop_ids).transpose();
        let stop_ids = stops.unwrap_or_else(|problem| {
            broken.get_or_insert((generation.to_owned(), problem));
            None
        });
        let gguf = files.iter().find(|(_, bytes)| VocabFiles::is_gguf(bytes));
        let gguf = gguf.map(|(_, bytes)| VocabFiles::gguf_chat(bytes)).unwrap_or_default();
        let one = |file: &str, text: &str| Templates::One(text.to_owned()).sources(file);
        let gguf_file = files.iter().find(|(_, bytes)| VocabFiles::is_gguf(bytes));
        let gguf_file = gguf_file.map_or("", |(name, _)| name.as_str());
        let mut sources = content(jinja)
            .map(|text| one(jinja, text))
            .or_else(|| Some(json.chat_template.as_ref()?.sources(json_file)))
            .or_else(|| Some(main.chat_template.as_ref()?.sources(main_file)))
            .or_else(|| gguf.template.as_deref().map(|text| one(gguf_file, text)))
            .unwrap_or_default();
        for (file, bytes) in files {
            let name = file.strip_prefix(FURTHER).and_then(|name| name.strip_suffix(".jinja"));
            if let (Some(name), Ok(text)) = (name, str::from_utf8(bytes)) {
                let (name, text) = (name.to_owned(), text.to_owned());
                sources.push(TemplateSource { name, file: file.clone(), text });
            }
        }
        let own = main.named_tokens().chain(map.named_tokens()).chain(gguf.tokens).collect();
        let template = content(jinja)
            .map(str::to_owned)
            .or_else(|| json.chat_template?.into_text())
            .or_else(|| main.chat_template?.into_text());
        let unescaped =
            |text: String| text.replace("\\n", "\n").replace("\\'", "'").replace("\\\"", "\"");
        let tokens = [main.bos_token, main.eos_token, main.pad_token, main.unk_token];
        let response = main.response_template.filter(|response| !response.is_null());
        Self {
            sources,
            broken,
            own,
            response: response.map(|response| response.to_string()),
            stop_ids: stop_ids.unwrap_or_default(),
            template: template.map(unescaped),
            variables: tokens.into_iter().flatten().filter_map(Token::into_text).collect(),
            tokenizer_class: main.tokenizer_class.and_then(Token::into_text),
        }
    }

    /// The ids at which the model's configuration of generation stops: `eos_token_id` of `generation_config.json`,
    /// as the file has them.
    pub fn stop_ids(&self) -> &[i64] {
        &self.stop_ids
    }

    /// The model's response template, as JSON, if it has one.
    pub fn response(&self) -> Option<&str> {
        self.response.as_deref()
    }

    /// Whether a file of a folder is read for hints.
    fn is_hint(name: &str) -> bool {
        Self::FILES.contains(&name) || name.starts_with(FURTHER)
    }

    /// The same with a file that cannot be read.
    #[must_use]
    pub fn with_broken(mut self, file: &str, problem: &str) -> Self {
        self.broken.get_or_insert((file.to_owned(), problem.to_owned()));
        self
    }

    /// The source of a chat template, by name or the model's default.
    ///
    /// # Errors
    /// [`Error::Format`] if there is no template, none of this name, or several and none is the default; or if a
    /// file that says something about it is broken.
    pub fn source(&self, name: Option<&str>) -> Result<&TemplateSource> {
        let refused = |file: &str, problem: String| Error::Format {
            file: file.into(),
            key: String::new(),
            problem,
        };
        if let Some((file, problem)) = &self.broken {
            return Err(refused(file, format!("is broken: {problem}")));
        }
        let names: Vec<String> =
            self.sources.iter().map(|source| format!("`{}`", source.name)).collect();
        let names = names.join(", ");
        let wanted = name.unwrap_or(DEFAULT);
        let found = self.sources.iter().find(|source| source.name == wanted);
        match (found, &self.sources[..], name) {
            (Some(source), ..) | (None, [source], None) => Ok(source),
            (None, [], None) => {
                let problem = "has no chat template, expected one in `chat_template.jinja` or `tokenizer_config.json`; \
                               or `format=`, a built-in format's name or a `Format`";
                Err(refused("model", problem.into()))
            }
            (None, [], Some(name)) => {
                let name = chatcodec_vocab::place(name);
                Err(refused("model", format!("has no chat template `{name}`, and no other")))
            }
            (None, _, None) => {
                let problem = format!(
                    "has the chat templates {names}, and none of the name `default`; expected `template=`, one of these"
                );
                Err(refused("model", problem))
            }
            (None, _, Some(name)) => {
                let name = chatcodec_vocab::place(name);
                let problem = format!("has no chat template `{name}`, expected one of {names}");
                Err(refused("model", problem))
            }
        }
    }

    /// Special tokens by the names that templates have for them: `bos_token`.
    pub fn own(&self) -> &[(String, String)] {
        &self.own
    }

    /// Whether they say anything.
    pub fn is_empty(&self) -> bool {
        self.template.is_none() && self.tokenizer_class.is_none()
    }
}

/// The parts of a format that a template contains.
struct Fit {
    /// Bytes of the format's control tokens and texts that are in the template.
    support: usize,
    /// Bytes of those that are not in the template.
    lacking: Vec<String>,
}

impl Format {
    /// Refuses a format that the files of the model's folder contradict, and names the likely one: by the
    /// template, or without one, by the class of the tokenizer.
    ///
    /// # Errors
    /// [`Error::Format`] if the template lacks parts of this format and contains all of another built-in
    /// format, with more text; or if the class belongs to another format alone.
    pub fn check_hints(&self, hints: &FolderHints) -> Result<()> {
        let refused = |why: String, likely: &str| {
            let problem = format!("{why}; expected `{likely}`, or `check_template=False`");
            Err(Error::Format { file: self.name().into(), key: String::new(), problem })
        };
        let Some(template) = &hints.template else {
            return match hints.tokenizer_class.as_deref().and_then(of_class) {
                Some((class, likely)) if !self.is_of_class(class) => {
                    refused(format!("is not what models with a `{class}` speak"), likely)
                }
                _ => Ok(()),
            };
        };
        let own = self.fit(template, &hints.variables);
        let Some(lacking) = own.lacking.first() else { return Ok(()) };
        match likely(template, &hints.variables) {
            Some((likely, support)) if support > own.support => {
                let why = "is not what the chat template of the model writes, which has no";
                refused(format!("{why} {lacking:?}"), likely)
            }
            _ => Ok(()),
        }
    }

    /// Refuses a vocabulary of another model: one that lacks the tokens of `append` and would give them other ids
    /// than the file says.
    ///
    /// # Errors
    /// [`Error::Format`] that names the first such token, the id that it would get and the expected one.
    pub fn check_appended(&self, vocab: &Vocab) -> Result<()> {
        let Some(expected) = self.spec.append_at else { return Ok(()) };
        let lacks = |spelling: &&String| !vocab.control().contains_key(*spelling);
        let Some(first) = self.append().iter().find(lacks) else { return Ok(()) };
        let found = vocab.size();
        if usize::try_from(expected).is_ok_and(|expected| expected == found) {
            return Ok(());
        }
        let problem = format!(
            "the vocabulary lacks {first:?} and has {found} ids; expected the model's own, with \
             {expected} ids before the appended tokens, or `check_template=False`"
        );
        Err(Error::Format { file: self.name().into(), key: "append_at".into(), problem })
    }

    fn is_of_class(&self, class: &str) -> bool {
        self.spec.tokenizer_classes.iter().any(|known| known == class)
    }

    /// The built-in format with the most control tokens, among formats with the guarantee `ids` whose tokens are
    /// all in a vocabulary.
    pub(crate) fn with_tokens_of(vocab: &Vocab) -> Option<&'static str> {
        let formats: Vec<(&str, Self)> = Self::names()
            .filter_map(|name| Some((name, Self::built_in(name).ok()?)))
            .filter(|(_, format)| {
                format.guarantee() == Guarantee::Ids && format.append().is_empty()
            })
            .collect();
        let groups = formats.iter().flat_map(|(_, format)| format.control());
        let groups: Vec<Vec<String>> = groups.map(|(_, group)| group.clone()).collect();
        // One pass over the vocabulary for all formats.
        let ids = vocab.ids_of(&groups);
        let mut rest = &ids[..];
        let count = |(name, format): (&'static str, Self)| {
            let of_format = rest.split_off(..format.control().len())?;
            of_format.iter().all(|ids| !ids.is_empty()).then_some((name, of_format.len()))
        };
        let counted: Vec<(&str, usize)> = formats.into_iter().filter_map(count).collect();
        let most = counted.iter().map(|(_, count)| *count).max()?;
        counted.into_iter().find(|(_, count)| *count == most).map(|(name, _)| name)
    }

    /// Whether a name given for a format is the name of a model of that format.
    pub(super) fn is_spoken_by(format: &str, name: &str) -> bool {
        let plain = |name: &str| -> String {
            name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase()
        };
        let name = plain(name);
        let models = Self::built_in(format).map(|format| format.spec.models.clone());
        let mut models = models.unwrap_or_default().into_iter().map(|model| plain(&model));
        !name.is_empty() && models.any(|model| name.contains(&model))
    }

    fn fit(&self, template: &str, variables: &[String]) -> Fit {
        let mut fit = Fit { support: 0, lacking: Vec::new() };
        let (control, texts) = self.written();
        for spellings in control {
            match spellings.iter().find(|spelling| template.contains(&***spelling)) {
                Some(spelling) => fit.support += spelling.len(),
                None if spellings.iter().any(|spelling| variables.contains(spelling)) => {}
                None => fit.lacking.extend(spellings.first().cloned()),
            }
        }
        for text in texts {
            if template.contains(&text) {
                fit.support += text.len();
            } else {
                fit.lacking.push(text);
            }
        }
        fit
    }

    /// The spellings of each control token, and the pieces of text, in the first pattern for each kind of
    /// message, of calls, of tools, and of the frames around them.
    fn written(&self) -> (Vec<&[String]>, Vec<String>) {
        let (mut control, mut texts) = (Vec::new(), Vec::new());
        for piece in self.patterns().into_iter().flat_map(walk) {
            match piece {
                Piece::Control(names) => {
                    let tag = self.tags().iter().find(|(name, _)| Some(name) == names.first());
                    let way = tag.and_then(|(_, ways)| ways.first());
                    let of_tag = way.into_iter().flat_map(TagSpec::tokens);
                    let plain = names.first().filter(|_| way.is_none());
                    for token in plain.into_iter().chain(of_tag) {
                        let mut known = self.control().iter().chain(self.text_markers());
                        let known = known.find(|(name, _)| name == token);
                        control.extend(known.map(|(_, spellings)| &spellings[..]));
                    }
                    let around = way.into_iter().flat_map(|way| [&way.before, &way.after]);
                    texts.extend(around.flat_map(|text| fragments(text)));
                }
                Piece::Literal(text) => texts.extend(fragments(text)),
                _ => {}
            }
        }
        texts.extend(self.default_system().into_iter().flat_map(fragments));
        control.sort();
        control.dedup();
        texts.sort();
        texts.dedup();
        (control, texts)
    }

    fn patterns(&self) -> Vec<&[Piece]> {
        let first = |role| {
            let mut rows = self.rows().iter();
            rows.find(|row| row.role == role && row.name.is_none() && row.place.is_read())
        };
        let roles = [Role::System, Role::User, Role::Assistant, Role::Tool];
        let rows = roles.into_iter().filter_map(first).map(|row| &row.pieces[..]);
        let (tools, alone) = self.tools_turns();
        let tools = tools.into_iter().chain(alone).map(|turn| &turn.pieces[..]);
        let absent = self.without_system().into_iter().flat_map(WithoutSystem::turns);
        let absent = absent.map(|turn| &turn.pieces[..]);
        let mut patterns: Vec<&[Piece]> = rows.chain(tools).chain(absent).collect();
        patterns.push(self.generation_prompt());
        for call in self.calls() {
            patterns.extend(call.items.first().map(|item| &item[..]));
            let own = call.body.shape().into_iter().flat_map(|shape| &shape.patterns);
            patterns.extend(own.map(|pattern| &pattern[..]));
        }
        if let Some(list) = self.list() {
            patterns.extend([list.first_open(), list.first_close()]);
        }
        if let Some(results) = self.results() {
            patterns.extend([&results.open[..], &results.close]);
        }
        patterns
    }
}

/// The built-in format that a template contains completely, with the most text; the first of
/// several.
fn likely(template: &str, variables: &[String]) -> Option<(&'static str, usize)> {
    let fits = Format::names().filter_map(|name| {
        let fit = Format::built_in(name).ok()?.fit(template, variables);
        fit.lacking.is_empty().then_some((name, fit.support))
    });
    fits.reduce(|best, other| if other.1 > best.1 { other } else { best })
}

/// A class of tokenizers that models of a built-in format alone have, and that format.
fn of_class(class: &str) -> Option<(&str, &'static str)> {
    let is_of = |name: &&str| Format::built_in(name).is_ok_and(|format| format.is_of_class(class));
    Format::names().find(is_of).map(|name| (class, name))
}

/// The parts of a text that are contiguous in a template: without newlines and quotes.
fn fragments(text: &str) -> impl Iterator<Item = String> + '_ {
    let is_name = |word: &str| Role::parse(word).is_some() || word == "model";
    text.split(['\n', '"', '\'', '\\'])
        .map(str::trim)
        .filter(move |piece| piece.len() >= SHORTEST && !is_name(piece))
        .map(str::to_owned)
}
