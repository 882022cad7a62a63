//! Tools as a format declares them: a template writes the list, and each part of its text knows the caller's value.
//!
//! ```toml
//! tools = { declare = "{{ tools | map('tojson') | join('\n') }}" }
//! ```
//! ```text
//! [{"name": "now"}, {"name": "then"}]      a caller's tools
//! {"name": "now"}⏎{"name": "then"}         their declaration
//! ```
//!
//! `tools.declare` is a template, or the name of one in `formats/declare/`. Its variables are `tools`, as the caller
//! gave them; `functions`, the same without the objects around them; the control tokens of the file by their names; and
//! what `tools.with` gives. Text of the template is never a control token, a token's variable alone is one.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::Guarantee;
use super::file::File;
use super::patterns::Patterns;
use crate::error::{Checked, Error, Result, wrong};
use crate::json;
use crate::message::Owned;
use crate::pattern::{self, Piece};
use crate::template::{Part, Paths, RenderedTemplate, Template};
use chatcodec_vocab::Vocab;

/// The templates that have a name.
const NAMED: [(&str, &str); 7] = [
    ("declarations", include_str!("../../formats/declare/declarations.jinja")),
    ("interfaces", include_str!("../../formats/declare/interfaces.jinja")),
    ("lines", include_str!("../../formats/declare/lines.jinja")),
    ("signatures", include_str!("../../formats/declare/signatures.jinja")),
    ("sorted", include_str!("../../formats/declare/sorted.jinja")),
    ("typescript", include_str!("../../formats/declare/typescript.jinja")),
    ("xml", include_str!("../../formats/declare/xml.jinja")),
];

/// The declaration of a file that gives none: the list as JSON.
const LIST: &str = "{{ tools | tojson }}";

const KEY: &str = "tools.declare";
const WITH: &str = "tools.with";

/// Names that the variables of `tools.with` cannot have.
const OWN: [&str; 2] = ["tools", "functions"];

/// How tools are declared.
pub(crate) struct Declaration {
    template: Template,
    /// Whether the template reads functions, without the objects around them.
    pub(crate) reads_functions: bool,
    /// Whether it reads the name of each.
    pub(crate) reads_names: bool,
    /// The control tokens that the template writes, by their variables.
    pub(super) tokens: Vec<Token>,
    /// All variables: the spellings of the tokens first.
    variables: Vec<(String, Owned)>,
    /// Whether a text may spell a marker, whose place is told.
    has_text_markers: bool,
}

/// A control token of a declaration.
pub(super) struct Token {
    pub(super) piece: Piece,
    spelling: String,
}

impl Declaration {
    pub(super) fn new(file: &File, patterns: &Patterns) -> Checked<Self> {
        let declare = file.tools.declare.as_deref().unwrap_or(LIST);
        let named = NAMED.iter().find(|(name, _)| *name == declare);
        if named.is_none() && !declare.contains('{') {
            let known = NAMED.map(|(name, _)| name).join("`, `");
            let problem = format!("is `{declare}`, expected a template, or one of `{known}`");
            return wrong(KEY, problem);
        }
        let source = named.map_or(declare, |(_, source)| *source);
        let template = match Template::parse(source) {
            Ok(template) => template,
            Err(Error::Template { line, column, problem, .. }) => {
                return wrong(
                    KEY,
                    format!("is no template: line {line}, column {column}: {problem}"),
                );
            }
            Err(error) => return wrong(KEY, error.to_string()),
        };
        for text in template.texts() {
            patterns.refuse_spelling(KEY, &text)?;
        }
        let reads_functions = template.mentions("functions");
        if !reads_functions && !template.mentions("tools") {
            return wrong(
                KEY,
                "has neither `tools` nor `functions`, expected one of these variables",
            );
        }
        let is_unknown = |name: &&str| pattern::is_control_name(name) && !patterns.is_defined(name);
        if let Some(name) = template.names().find(is_unknown) {
            let problem = format!("has `{name}`, expected a control token that `control` defines");
            return wrong(KEY, problem);
        }
        let mut tokens = Vec::new();
        let mut variables = Vec::new();
        for (name, spellings) in &patterns.control {
            if !template.mentions(name) {
                continue;
            }
            let pieces = patterns.pieces(KEY, &format!("{{{name}}}"), &[])?;
            let spelling = spellings.first().cloned().unwrap_or_default();
            variables.push((name.clone(), Owned::Text(spelling.clone())));
            tokens.extend(
                pieces.into_iter().map(|piece| Token { piece, spelling: spelling.clone() }),
            );
        }
        for (name, value) in &file.tools.with {
            if OWN.contains(&name.as_str()) || patterns.is_defined(name) {
                return wrong(WITH, format!("has `{name}`, expected another name"));
            }
            if !template.mentions(name) {
                let problem =
                    format!("has `{name}`, which `{KEY}` does not read; expected its variables");
                return wrong(WITH, problem);
            }
            let value = Owned::new(WITH, value).or_else(|error| wrong(WITH, error.to_string()))?;
            variables.push((name.clone(), value));
        }
        let reads_names = source.contains("function.name");
        let has_text_markers = file.guarantee == Guarantee::Text;
        Ok(Self { template, reads_functions, reads_names, tokens, variables, has_text_markers })
    }

    /// Declares a list of tools.
    ///
    /// # Errors
    /// [`Error::Message`] for tools that the template refuses, or that are too much for it.
    pub(super) fn declare(&self, mut tools: Owned, vocab: &Vocab) -> Result<DeclaredTools> {
        // A text is normalised on its own: what JSON escapes in it stays escaped.
        tools.change_texts(&|text| vocab.normalise(text));
        let rendered = self.template.declare(&tools, &self.variables)?;
        let spells = |text: &str| vocab.find_control(text).next().is_some();
        let is_told = self.has_text_markers
            || spells(rendered.text())
            || rendered.paths().all().any(|(_, string, _)| string.is_some_and(spells));
        Ok(DeclaredTools::new(rendered, &self.tokens, vocab, !is_told))
    }
}

/// Tools as a format writes them.
///
/// ```
/// use chatcodec::DeclaredTools;
///
/// assert_eq!(DeclaredTools::from("no tools".to_owned()).text(), "no tools");
/// ```
#[derive(Debug, Clone)]
pub struct DeclaredTools {
    written: Arc<Written>,
}

#[derive(Debug, Default)]
struct Written {
    text: String,
    runs: Vec<ToolsRun>,
    paths: Option<Arc<Paths>>,
}

/// A control token of the declaration, or text between two.
#[derive(Debug)]
pub(crate) enum ToolsRun {
    /// By its place among the tokens of the declaration.
    Token(usize),
    Text {
        text: Range<usize>,
        parts: Vec<ToolsPart>,
    },
}

/// A part of a text, with one source.
#[derive(Debug)]
pub(crate) struct ToolsPart {
    /// The bytes of the declaration.
    pub(crate) text: Range<usize>,
    /// The path of the caller's value; none for the template's own text.
    pub(crate) path: Option<u32>,
    /// Code points of the caller's string before the part.
    pub(crate) skipped: u32,
    /// The caller's string, if the part does not show it as it is.
    pub(crate) original: Option<Arc<str>>,
}

impl PartialEq for DeclaredTools {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for DeclaredTools {}

impl From<String> for DeclaredTools {
    /// A caller's text, which is written as it is.
    fn from(text: String) -> Self {
        let whole = 0..text.len();
        let runs = vec![ToolsRun::Text { text: whole, parts: Vec::new() }];
        Self { written: Arc::new(Written { text, runs, paths: None }) }
    }
}

impl DeclaredTools {
    fn new(rendered: RenderedTemplate, tokens: &[Token], vocab: &Vocab, is_joined: bool) -> Self {
        let mut parts = Parts {
            vocab,
            tokens,
            paths: rendered.paths(),
            text: String::with_capacity(rendered.text().len()),
            runs: Vec::new(),
            name: NameAt::default(),
            escaped: None,
            is_joined,
        };
        for part in rendered.parts() {
            parts.push(&part, &rendered.text()[part.text.clone()]);
        }
        let Parts { text, mut runs, .. } = parts;
        if !is_joined {
            keep_shown_once(&mut runs);
        }
        let paths = Some(Arc::new(rendered.into_paths()));
        Self { written: Arc::new(Written { text, runs, paths }) }
    }

    /// The text, with the control tokens spelled out.
    pub fn text(&self) -> &str {
        &self.written.text
    }

    pub(crate) fn runs(&self) -> &[ToolsRun] {
        &self.written.runs
    }

    /// The paths of the caller's values.
    pub(crate) fn paths(&self) -> Option<&Arc<Paths>> {
        self.written.paths.as_ref()
    }
}

/// The parts of a declaration, one after another.
struct Parts<'a> {
    vocab: &'a Vocab,
    tokens: &'a [Token],
    paths: &'a Paths,
    text: String,
    runs: Vec<ToolsRun>,
    name: NameAt,
    /// The string in which JSON escaped the last character.
    escaped: Option<u32>,
    /// Whether parts of one value are one: nobody asks for a place in them.
    is_joined: bool,
}

impl Parts<'_> {
    fn push(&mut self, part: &Part, shown: &str) {
        if let Some(nth) = part.path.and_then(|path| self.token(path)) {
            let spelling = &self.tokens[nth].spelling;
            let count = shown.len() / spelling.len();
            if *shown == spelling.repeat(count) {
                self.runs.extend((0..count).map(|_| ToolsRun::Token(nth)));
                self.text.push_str(shown);
                return;
            }
        }
        let given = part.path.and_then(|path| self.paths.string(path));
        let skipped = match (part.place, given) {
            (Some(at), Some(given)) => given[..at].chars().count(),
            (Some(at), None) => self.name.points_before(at, shown),
            (None, _) => self.name.escaped(shown),
        };
        let start = self.text.len();
        let is_after_escape = part.place.is_some() && part.path == self.escaped;
        self.escaped = part.path.filter(|_| part.place.is_none() && ends_in_escape(shown));
        if is_after_escape {
            // A character may compose with the letter or digit at the end of the escape.
            let vocab = self.vocab;
            json::escape_after_escape(shown, &|text| vocab.normalise(text), &mut self.text);
        } else {
            self.text.push_str(shown);
        }
        let bytes = start..self.text.len();
        let is_changed = !self.is_joined && part.place.is_none();
        let original = given.filter(|given| is_changed && *given != shown);
        let original = original.map(Arc::from);
        let added =
            ToolsPart { text: bytes.clone(), path: part.path, skipped: skipped as u32, original };
        match self.runs.last_mut() {
            Some(ToolsRun::Text { text, parts }) => {
                text.end = bytes.end;
                match parts.last_mut() {
                    Some(last) if self.is_joined && last.path == added.path => {
                        last.text.end = bytes.end;
                    }
                    _ => parts.push(added),
                }
            }
            _ => self.runs.push(ToolsRun::Text { text: bytes, parts: vec![added] }),
        }
    }

    /// The token whose variable a path leads to.
    fn token(&self, path: u32) -> Option<usize> {
        let name = self.paths.argument_name(path)?;
        let is_of =
            |token: &Token| matches!(&token.piece, Piece::Control(names) if names[0] == name);
        self.tokens.iter().position(is_of)
    }
}

/// The end of what is shown of the name of a member, whose string the paths do not have.
#[derive(Default)]
struct NameAt {
    byte: usize,
    points: usize,
}

impl NameAt {
    /// Code points of the name before byte `at`, where a part of it is shown. JSON escapes characters of one byte.
    fn points_before(&mut self, at: usize, shown: &str) -> usize {
        let points = self.points + at.saturating_sub(self.byte);
        (self.byte, self.points) = (at + shown.len(), points + shown.chars().count());
        points
    }

    /// Passes over what JSON writes around names and for characters in them: a quote begins the next name.
    fn escaped(&mut self, shown: &str) -> usize {
        if json_units(shown).any(|unit| unit == "\"") {
            *self = Self::default();
        }
        0
    }
}

/// Whether the last that JSON writes here is an escape.
fn ends_in_escape(shown: &str) -> bool {
    json_units(shown).last().is_some_and(|unit| unit.starts_with('\\'))
}

/// The characters and escapes of JSON text.
fn json_units(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let length = match rest.as_bytes() {
            [b'\\', b'u', ..] => 6,
            [b'\\', ..] => 2,
            _ => first.len_utf8(),
        };
        let (unit, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        rest = after;
        Some(unit)
    })
}

/// A string that is shown in several parts is searched in those that show it as it is.
fn keep_shown_once(runs: &mut [ToolsRun]) {
    let parts = |run: &ToolsRun| match run {
        ToolsRun::Text { parts, .. } => parts.iter().map(|part| part.path).collect(),
        ToolsRun::Token(_) => Vec::new(),
    };
    let mut shown: BTreeMap<Option<u32>, usize> = BTreeMap::new();
    for path in runs.iter().flat_map(parts) {
        *shown.entry(path).or_default() += 1;
    }
    for run in runs {
        let ToolsRun::Text { parts, .. } = run else { continue };
        for part in parts.iter_mut().filter(|part| shown.get(&part.path) != Some(&1)) {
            part.original = None;
        }
    }
}

/// Most lists of tools that are kept, and most bytes of their JSON.
const MAX_KEPT: usize = 64;
const MAX_BYTES: usize = 4 << 20;

/// The lists of tools that a codec declared last, by their JSON, the newest at the end: conversations have the same
/// tools again and again.
#[derive(Debug, Default)]
pub(crate) struct KeptTools {
    lists: Mutex<Vec<(String, DeclaredTools)>>,
}

impl KeptTools {
    /// The declaration of a list of tools: a kept one, or one that `declare` makes.
    pub(super) fn get_or_make(
        &self,
        json: String,
        declare: impl FnOnce() -> Result<DeclaredTools>,
    ) -> Result<DeclaredTools> {
        if let Some(known) = self.get(&json) {
            return Ok(known);
        }
        let made = declare()?;
        self.add(json, made.clone());
        Ok(made)
    }

    fn get(&self, json: &str) -> Option<DeclaredTools> {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let at = lists.iter().rposition(|(known, _)| known == json)?;
        lists[at..].rotate_left(1);
        lists.last().map(|(_, tools)| tools.clone())
    }

    fn add(&self, json: String, made: DeclaredTools) {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.push((json, made));
        let mut bytes = 0;
        let is_kept = |(json, _): &&(String, DeclaredTools)| {
            bytes += json.len();
            bytes <= MAX_BYTES
        };
        let kept = lists.iter().rev().take(MAX_KEPT).take_while(is_kept).count();
        let gone = lists.len() - kept;
        lists.drain(..gone);
    }
}
