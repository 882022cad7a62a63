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

use std::sync::{Mutex, PoisonError};

use super::Guarantee;
use super::declared::DeclaredTools;
use super::file::File;
use super::patterns::Patterns;
use crate::error::{Checked, Error, Result, wrong};
use crate::message::Owned;
use crate::pattern::{self, Piece};
use crate::template::Template;
use chatcodec_vocab::Vocab;

/// The templates that have a name: the files of `formats/declare/`.
const NAMED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/declare.rs"));

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
    /// Whether the format has markers of ordinary text: positions in strings are then reported.
    has_text_markers: bool,
}

/// A control token of a declaration.
pub(super) struct Token {
    pub(super) piece: Piece,
    pub(super) spelling: String,
}

impl Declaration {
    pub(super) fn new(file: &File, patterns: &Patterns) -> Checked<Self> {
        let declare = file.tools.declare.as_deref().unwrap_or(LIST);
        let named = NAMED.iter().find(|(name, _)| *name == declare);
        if named.is_none() && !declare.contains('{') {
            let known: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
            let known = known.join("`, `");
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
            let Some(value) = value_of(value) else {
                let problem = format!(
                    "has a date in `{name}`, or a number that is not finite, expected JSON"
                );
                return wrong(WITH, problem);
            };
            let mut texts = Vec::new();
            value.texts(&mut texts);
            texts.into_iter().try_for_each(|text| patterns.refuse_spelling(WITH, text))?;
            variables.push((name.clone(), value));
        }
        let reads_names = source.contains("function.name");
        let has_text_markers = file.guarantee == Guarantee::Text;
        Ok(Self { template, reads_functions, reads_names, tokens, variables, has_text_markers })
    }

    /// Declares a list of tools, which is given as JSON too.
    ///
    /// # Errors
    /// [`Error::Message`] for tools that the template refuses, or that are too much for it.
    pub(super) fn declare(
        &self,
        json: String,
        mut tools: Owned,
        vocab: &Vocab,
    ) -> Result<DeclaredTools> {
        // A text is normalised on its own: what JSON escapes in it stays escaped.
        let mut changed = Vec::new();
        tools.change_texts(&|text| vocab.normalise(text), &mut changed);
        let rendered = self.template.declare(&tools, &self.variables)?;
        let spells = |text: &str| vocab.find_control(text).next().is_some();
        let asks_for_places = self.has_text_markers
            || !changed.is_empty()
            || spells(rendered.text())
            || rendered.paths().all().any(|(_, string, _)| string.is_some_and(spells));
        let as_given = asks_for_places.then(|| changed.into_iter().collect());
        Ok(DeclaredTools::new(json, rendered, &self.tokens, vocab, as_given.as_ref()))
    }
}

/// A value of TOML, where JSON has it too.
fn value_of(value: &toml::Value) -> Option<Owned> {
    Some(match value {
        toml::Value::String(text) => Owned::Text(text.clone()),
        toml::Value::Integer(number) => Owned::Number(number.to_string()),
        toml::Value::Float(number) if number.is_finite() => Owned::Number(format!("{number:?}")),
        toml::Value::Boolean(value) => Owned::Bool(*value),
        toml::Value::Array(items) => {
            Owned::List(items.iter().map(value_of).collect::<Option<_>>()?)
        }
        toml::Value::Table(members) => {
            let member = |(key, value): (&String, &toml::Value)| {
                Some((Owned::Text(key.clone()), value_of(value)?))
            };
            Owned::Map(members.iter().map(member).collect::<Option<_>>()?)
        }
        toml::Value::Float(_) | toml::Value::Datetime(_) => return None,
    })
}

/// Most lists of tools that are kept, and most bytes of their JSON.
const MAX_KEPT: usize = 64;
const MAX_BYTES: usize = 1 << 20;

/// The lists of tools that a codec declared last, the newest at the end: conversations have the same tools again and
/// again.
#[derive(Debug, Default)]
pub(crate) struct KeptTools {
    lists: Mutex<Vec<DeclaredTools>>,
}

impl KeptTools {
    /// The declaration of a list of tools in JSON: a kept one, or one that `declare` makes.
    pub(super) fn get_or_make(
        &self,
        json: String,
        declare: impl FnOnce(String) -> Result<DeclaredTools>,
    ) -> Result<DeclaredTools> {
        if let Some(known) = self.get(&json) {
            return Ok(known);
        }
        let made = declare(json)?;
        self.add(made.clone());
        Ok(made)
    }

    fn get(&self, json: &str) -> Option<DeclaredTools> {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let at = lists.iter().rposition(|known| known.json() == json)?;
        lists[at..].rotate_left(1);
        lists.last().cloned()
    }

    fn add(&self, made: DeclaredTools) {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.push(made);
        let mut bytes = 0;
        let is_kept = |known: &&DeclaredTools| {
            bytes += known.json().len();
            bytes <= MAX_BYTES
        };
        let kept = lists.iter().rev().take(MAX_KEPT).take_while(is_kept).count();
        let gone = lists.len() - kept;
        lists.drain(..gone);
    }
}
