//! A chat format: one TOML file, read and checked, before it meets a vocabulary.
//!
//! `docs/formats.md` explains the keys. What a file says wrong is an error when it is loaded, with
//! the key: a word nobody knows, a control token no pattern uses or none defines, the spelling of a
//! control token inside ordinary text, a row that cannot be told from another or read back.

mod file;
pub(crate) mod grammar;
mod load;
pub(crate) mod pattern;
mod rules;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::json::{self, Layout};
use crate::message::{CallBody, Node, Role};
use file::File;
use load::Wrong;
use pattern::Piece;

/// The formats that come with this crate, by name.
const BUILT_IN: &[(&str, &str)] = &[
    ("chatml", include_str!("../formats/chatml.toml")),
    ("internlm2", include_str!("../formats/internlm2.toml")),
];

/// What tells turns apart.
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
#[derive(Clone)]
pub struct Format {
    spec: Arc<Spec>,
}

struct Spec {
    text: Arc<str>,
    name: String,
    guarantee: Guarantee,
    source: String,
    control: Vec<(String, Vec<String>)>,
    roles: BTreeMap<String, Role>,
    begin: Vec<Piece>,
    end: Vec<Piece>,
    generation_prompt: Vec<Piece>,
    tools: Option<ToolsSpec>,
    rows: Vec<RowSpec>,
    calls: Vec<CallSpec>,
}

/// One row of the table: how one shape of message is written and read.
pub(crate) struct RowSpec {
    /// The row's key: `turn.user`, `named.plugin.tool`.
    pub(crate) key: String,
    pub(crate) role: Role,
    pub(crate) name: Option<String>,
    pub(crate) pieces: Vec<Piece>,
}

/// How the turn that declares tools is written.
struct ToolsSpec {
    pieces: Vec<Piece>,
    /// Whether `{"type": "function", "function": {…}}` is written as its function.
    unwrap: bool,
    layout: ToolsLayout,
    /// The name of the system row that reads it back.
    name: Option<String>,
}

#[derive(Debug, Clone)]
enum ToolsLayout {
    /// The list as `json.dumps(tools, indent=4)`.
    Indent,
    /// One line per tool, and what stands between two.
    Line(String),
}

/// One kind of call.
pub(crate) struct CallSpec {
    /// `plugin` of `[call.plugin]`.
    pub(crate) kind: String,
    /// The first is written, all are read.
    pub(crate) items: Vec<Vec<Piece>>,
    /// How `{call}` is written; `None` for code.
    pub(crate) object: Option<ObjectSpec>,
}

/// The keys of a call's JSON object: the first of each is written, all are read.
#[derive(Debug, Clone)]
pub(crate) struct ObjectSpec {
    pub(crate) name: Vec<String>,
    pub(crate) arguments: Vec<String>,
    /// Whether the arguments are written before the name.
    pub(crate) arguments_first: bool,
}

impl Format {
    /// The longest format file that is read.
    pub const MAX_FILE_BYTES: usize = 1 << 20;

    /// A built-in format by name.
    ///
    /// # Errors
    /// [`Error::Format`] with the nearest names, where there is none of this name.
    pub fn built_in(name: &str) -> Result<Self> {
        let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
            let mut known: Vec<&str> = Self::names().collect();
            known.sort_by_key(|known| distance(known, name));
            known.truncate(3);
            let known = known.join("`, `");
            let mut problem =
                format!("there is no built-in format of this name; near it: `{known}`");
            if name.contains(['/', '\\', '.']) {
                problem.push_str("; a file is read by `Format.load`");
            }
            return Err(Error::Format { file: name.into(), key: String::new(), problem });
        };
        Self::parse(name, text)
    }

    /// The names of the built-in formats.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Reads a format file. `file` is what errors call it.
    ///
    /// # Errors
    /// [`Error::Format`] with the key and what was expected.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
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
        let on_line = |e: &toml::de::Error| {
            let at = e.span().unwrap_or_default().start.min(text.len());
            let line = text[..at].matches('\n').count() + 1;
            format!("on line {line}: {}", e.message())
        };
        let toml = toml::Deserializer::parse(text)
            .map_err(|e| error(key_of_line(text, e.span()), on_line(&e)))?;
        let parsed: File = serde_path_to_error::deserialize(toml).map_err(|e| {
            // The path ends at the table where a key is missing.
            let missing = e.inner().message().strip_prefix("missing field `");
            let path = e.path().to_string();
            let key = match missing.and_then(|rest| rest.split('`').next()) {
                Some(name) if path == "." => name.to_owned(),
                Some(name) => format!("{path}.{name}"),
                None => path,
            };
            error(&key, on_line(e.inner()))
        })?;
        let spec =
            Spec::new(text, parsed).map_err(|Wrong { key, problem }| error(&key, problem))?;
        Ok(Self { spec: Arc::new(spec) })
    }

    /// The format's name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// What tells its turns apart.
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

    /// What a conversation loses on a round trip, computed from the table: a sentence each.
    pub fn losses(&self) -> Vec<&'static str> {
        let mut losses = vec!["content given as parts: comes back joined"];
        if !self.spec.calls.is_empty() {
            losses.push(
                "arguments: without the white space around them, as JSON text if given as a dict",
            );
            losses.push("call ids: numbered `call_0…` in order, results answer calls in order");
            losses.push("a result's name: it takes the kind of the call that it answers");
        }
        if self.spec.calls.is_empty() && self.has_role(Role::Tool) {
            losses.push("the call that a result answers: its `tool_call_id`");
        }
        if self.spec.tools.is_some() {
            losses.push("`tools`: come back as the system message that declares them");
        }
        losses
    }

    pub(crate) fn control(&self) -> &[(String, Vec<String>)] {
        &self.spec.control
    }

    pub(crate) fn rows(&self) -> &[RowSpec] {
        &self.spec.rows
    }

    pub(crate) fn calls(&self) -> &[CallSpec] {
        &self.spec.calls
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

    pub(crate) fn tools_pieces(&self) -> Option<&[Piece]> {
        self.spec.tools.as_ref().map(|tools| &tools.pieces[..])
    }

    /// The role that a word names, OpenAI's or the format's own, if the format has a turn for it.
    pub(crate) fn role(&self, word: &str) -> Option<Role> {
        let role = Role::parse(word).or_else(|| self.spec.roles.get(word).copied())?;
        self.has_role(role).then_some(role)
    }

    fn has_role(&self, role: Role) -> bool {
        self.spec.rows.iter().any(|row| row.role == role)
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

    /// The kind of call that a body is, if results of its kind have a row of their own.
    pub(crate) fn call_kind(&self, body: &CallBody) -> Option<&str> {
        let spec = self.call_spec(body)?;
        self.is_named(&spec.kind, Role::Tool).then_some(&*spec.kind)
    }

    /// The kind of a result that answers no call.
    pub(crate) fn default_kind(&self) -> Option<&str> {
        self.names_of(Role::Tool).into_iter().find(|name| {
            self.spec.calls.iter().any(|call| call.kind == *name && call.object.is_some())
        })
    }

    /// How a call of this body is written.
    pub(crate) fn call_spec(&self, body: &CallBody) -> Option<&CallSpec> {
        let is_function = matches!(body, CallBody::Function { .. });
        self.spec.calls.iter().find(|call| call.object.is_some() == is_function)
    }

    pub(crate) fn has_tools(&self) -> bool {
        self.spec.tools.is_some()
    }

    /// The name under which the turn that declares tools is read back.
    pub(crate) fn tools_name(&self) -> Option<&str> {
        self.spec.tools.as_ref()?.name.as_deref()
    }

    /// Whether tools are written as bare functions.
    pub(crate) fn unwraps_tools(&self) -> bool {
        self.spec.tools.as_ref().is_none_or(|tools| tools.unwrap)
    }

    pub(crate) fn write_tools<N: Node>(&self, tools: &[N]) -> Result<String> {
        let layout = self.spec.tools.as_ref().map(|tools| tools.layout.clone());
        let mut out = String::new();
        match layout.unwrap_or(ToolsLayout::Indent) {
            ToolsLayout::Indent => json::write_list(tools, Layout::Indent, "tools", &mut out)?,
            ToolsLayout::Line(between) => {
                for (i, tool) in tools.iter().enumerate() {
                    if i > 0 {
                        out.push_str(&between);
                    }
                    json::write(tool, Layout::Line, &format!("tools[{i}]"), &mut out)?;
                }
            }
        }
        Ok(out)
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// The key, or the table, of the line where TOML itself is wrong; empty where there is none.
fn key_of_line(text: &str, span: Option<std::ops::Range<usize>>) -> &str {
    let at = span.unwrap_or_default().start.min(text.len());
    let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let word = text[begin..].split(['=', ']', '\n']).next().unwrap_or_default();
    let key = word.trim_start_matches('[').trim();
    let is_key = key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    if is_key { key } else { "" }
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
