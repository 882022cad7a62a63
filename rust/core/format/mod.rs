//! A chat format: one TOML file, read and checked, before it meets a vocabulary.
//!
//! `docs/formats.md` explains the keys. What a file says wrong is an error when it is loaded, with
//! the key: a word nobody knows, a control token no pattern uses or none defines, the spelling of a
//! control token inside ordinary text, a row that cannot be told from another or read back.

pub(crate) mod grammar;
pub(crate) mod pattern;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::json::{self, Layout};
use crate::message::{CallBody, Node, Role};
use pattern::{Field, Grammar, Piece};

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

// The file as it stands, for serde: unknown keys are refused here.

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    guarantee: Guarantee,
    source: String,
    #[serde(default)]
    begin: String,
    #[serde(default)]
    end: String,
    control: BTreeMap<String, OneOrMany>,
    #[serde(default)]
    roles: BTreeMap<String, String>,
    generation: GenerationFile,
    #[serde(default)]
    place: PlaceFile,
    #[serde(default)]
    tools: ToolsFile,
    turn: TurnFile,
    #[serde(default)]
    named: BTreeMap<String, NamedFile>,
    #[serde(default)]
    call: BTreeMap<String, CallFile>,
}

#[derive(Deserialize, Clone)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GenerationFile {
    prompt: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct PlaceFile {
    tools: Option<ToolsPlace>,
}

/// Where the turn that declares tools stands.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum ToolsPlace {
    /// After the system messages that the conversation begins with.
    AfterSystem,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct ToolsFile {
    shape: Option<ToolsShape>,
    style: Option<ToolsStyle>,
    between: Option<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum ToolsShape {
    Openai,
    Function,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum ToolsStyle {
    Line,
    Indent,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnFile {
    system: Option<String>,
    user: String,
    assistant: String,
    tool: Option<String>,
    tools: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedFile {
    system: Option<String>,
    tool: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallFile {
    item: OneOrMany,
    object: Option<toml::Table>,
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
            let problem = format!(
                "there is no built-in format of this name; near it: `{}`",
                known.join("`, `")
            );
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
        let parsed: File = toml::from_str(text).map_err(|e| {
            let at = e.span().unwrap_or_default().start.min(text.len());
            let line = text[..at].matches('\n').count() + 1;
            // The key of the line, or of what begins there.
            let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
            let word = text[begin..].split(['=', ']', '\n']).next().unwrap_or_default();
            let key = word.trim_matches(|c: char| c == '[' || c.is_whitespace());
            error(key, format!("on line {line}: {}", e.message()))
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
        let mut losses = Vec::new();
        if !self.spec.calls.is_empty() {
            losses.push("call ids: numbered `call_0…` in order, results answer calls in order");
            losses.push("a result's name: it takes the kind of the call that it answers");
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

/// A key and what is wrong with it.
struct Wrong {
    key: String,
    problem: String,
}

type Checked<T> = std::result::Result<T, Wrong>;

fn wrong<T>(key: impl Into<String>, problem: impl Into<String>) -> Checked<T> {
    Err(Wrong { key: key.into(), problem: problem.into() })
}

impl Spec {
    fn new(text: &str, file: File) -> Checked<Self> {
        if file.guarantee == Guarantee::Text {
            return wrong("guarantee", "is `text`, which is not implemented; expected `ids`");
        }
        let patterns = Patterns::new(&file.control)?;
        let mut rows = Vec::new();
        let mut row = |key: &str, role, name: Option<&String>, text: Option<&String>| {
            if let Some(text) = text {
                let pieces = patterns.row(key, text, allowed(role))?;
                rows.push(RowSpec { key: key.into(), role, name: name.cloned(), pieces });
            }
            Ok(())
        };
        row("turn.system", Role::System, None, file.turn.system.as_ref())?;
        row("turn.user", Role::User, None, Some(&file.turn.user))?;
        row("turn.assistant", Role::Assistant, None, Some(&file.turn.assistant))?;
        row("turn.tool", Role::Tool, None, file.turn.tool.as_ref())?;
        for (name, named) in &file.named {
            row(&format!("named.{name}.system"), Role::System, Some(name), named.system.as_ref())?;
            row(&format!("named.{name}.tool"), Role::Tool, Some(name), named.tool.as_ref())?;
        }
        refuse_undecidable(&rows)?;
        let calls = calls(&file.call, &patterns)?;
        let tools = tools(&file, &patterns, &rows)?;
        let prompt = patterns.pieces("generation.prompt", &file.generation.prompt, &[])?;
        let opens = |row: &RowSpec| row.role == Role::Assistant && is_prefix(&prompt, &row.pieces);
        if !rows.iter().any(opens) {
            return wrong("generation.prompt", "is not how an assistant row begins");
        }
        let begin = patterns.pieces("begin", &file.begin, &[])?;
        let end = patterns.pieces("end", &file.end, &[])?;
        patterns.refuse_unused()?;
        Ok(Self {
            text: text.into(),
            name: file.name,
            guarantee: file.guarantee,
            source: file.source,
            roles: roles(&file.roles)?,
            begin,
            end,
            generation_prompt: prompt,
            tools,
            rows,
            calls,
            control: patterns.control,
        })
    }
}

/// The fields that a message of a role may have a place for.
fn allowed(role: Role) -> &'static [Field] {
    match role {
        Role::User => &[Field::Content, Field::Name],
        Role::Assistant => &[Field::Content, Field::Calls],
        Role::System | Role::Tool => &[Field::Content],
    }
}

/// Reads patterns and keeps account of the control tokens that they use.
struct Patterns {
    control: Vec<(String, Vec<String>)>,
    used: std::cell::RefCell<Vec<bool>>,
}

impl Patterns {
    fn new(file: &BTreeMap<String, OneOrMany>) -> Checked<Self> {
        let mut control: Vec<(String, Vec<String>)> = Vec::new();
        for (name, spellings) in file {
            let key = || format!("control.{name}");
            if !pattern::is_control_name(name) {
                return wrong(key(), "is not a name, expected upper-case letters, digits and `_`");
            }
            let spellings = spellings.clone().into_vec();
            if spellings.is_empty() || spellings.iter().any(String::is_empty) {
                return wrong(key(), "has no spelling, expected one or more");
            }
            let taken = |spelling| control.iter().find(|(_, known)| known.contains(spelling));
            if let Some((other, _)) = spellings.iter().find_map(taken) {
                return wrong(key(), format!("has a spelling of `control.{other}` too"));
            }
            control.push((name.clone(), spellings));
        }
        let used = vec![false; control.len()].into();
        Ok(Self { control, used })
    }

    fn pieces(&self, key: &str, text: &str, allowed: &[Field]) -> Checked<Vec<Piece>> {
        let pieces = pattern::parse(text).or_else(|problem| wrong(key, problem))?;
        for piece in &pieces {
            match piece {
                Piece::Control(names) => {
                    for name in names {
                        self.use_control(key, name)?;
                    }
                }
                Piece::Literal(text) => self.refuse_spelling(key, text)?,
                Piece::Field(field) | Piece::Guard { field, .. } if !allowed.contains(field) => {
                    let names: Vec<&str> = allowed.iter().map(|field| field.name()).collect();
                    let problem = match &names[..] {
                        [] => format!("has `{{{}}}`, expected no field", field.name()),
                        names => {
                            let names = names.join("}`, `{");
                            format!("has `{{{}}}`, expected only `{{{names}}}`", field.name())
                        }
                    };
                    return wrong(key, problem);
                }
                _ => {}
            }
        }
        Ok(pieces)
    }

    fn use_control(&self, key: &str, name: &str) -> Checked<()> {
        let Some(at) = self.control.iter().position(|(known, _)| known == name) else {
            let known: Vec<&str> = self.control.iter().map(|(name, _)| &**name).collect();
            let problem = format!(
                "has `{{{name}}}`, which `control` does not define; expected one of `{}`",
                known.join("`, `")
            );
            return wrong(key, problem);
        };
        self.used.borrow_mut()[at] = true;
        Ok(())
    }

    fn refuse_spelling(&self, key: &str, text: &str) -> Checked<()> {
        for (name, spellings) in &self.control {
            if let Some(spelling) = spellings.iter().find(|spelling| text.contains(*spelling)) {
                let problem = format!("spells `{spelling}` as text, expected `{{{name}}}`");
                return wrong(key, problem);
            }
        }
        Ok(())
    }

    fn refuse_unused(&self) -> Checked<()> {
        match self.used.borrow().iter().position(|used| !used) {
            Some(at) => wrong(format!("control.{}", self.control[at].0), "is used by no pattern"),
            None => Ok(()),
        }
    }

    /// A row: begins with a control token, and every stretch between two holds one text field.
    fn row(&self, key: &str, text: &str, allowed: &[Field]) -> Checked<Vec<Piece>> {
        let pieces = self.pieces(key, text, allowed)?;
        if !matches!(pieces.first(), Some(Piece::Control(_))) {
            return wrong(key, "does not begin with a control token");
        }
        check_stretches(key, &pieces)?;
        Ok(pieces)
    }
}

/// Checks that what a row writes can be read: one text field, closed by a control token, with no
/// hole for white space beside it and only white space after that token.
fn check_stretches(key: &str, pieces: &[Piece]) -> Checked<()> {
    let is_text = |piece: &Piece| matches!(piece, Piece::Field(field) if matches!(field.grammar(), Grammar::Text | Grammar::Object));
    let mut texts = pieces.iter().enumerate().filter(|(_, piece)| is_text(piece));
    let Some((at, _)) = texts.next() else {
        return wrong(key, "has no field for text");
    };
    if texts.next().is_some() {
        return wrong(key, "has two fields for text, which is not implemented; expected one");
    }
    let beside = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
    if matches!(&pieces[at], Piece::Field(field) if field.grammar() == Grammar::Text)
        && beside.filter_map(|at| pieces.get(at)).any(|piece| *piece == Piece::Space)
    {
        return wrong(key, "has `{~}` beside a field for text: where that ends would be unclear");
    }
    let Some(close) = pieces[at..].iter().position(|piece| matches!(piece, Piece::Control(_)))
    else {
        return wrong(key, "has no control token after its text");
    };
    let is_white = |piece: &Piece| match piece {
        Piece::Literal(text) => text.chars().all(char::is_whitespace),
        piece => *piece == Piece::Space,
    };
    if !pieces[at + close + 1..].iter().all(is_white) {
        return wrong(key, "goes on after the end of its text, which is not implemented");
    }
    Ok(())
}

/// Two rows that read the same up to their text could not be told apart.
fn refuse_undecidable(rows: &[RowSpec]) -> Checked<()> {
    for (at, row) in rows.iter().enumerate() {
        if let Some(other) =
            rows[..at].iter().find(|other| head(&other.pieces) == head(&row.pieces))
        {
            let problem = format!("begins as `{}` does: they could not be told apart", other.key);
            return wrong(&row.key, problem);
        }
    }
    Ok(())
}

/// What stands before the text of a row.
fn head(pieces: &[Piece]) -> &[Piece] {
    let is_field =
        |piece: &Piece| matches!(piece, Piece::Field(field) if field.grammar() == Grammar::Text);
    &pieces[..pieces.iter().position(is_field).unwrap_or(pieces.len())]
}

fn is_prefix(prefix: &[Piece], pieces: &[Piece]) -> bool {
    let Some((last, before)) = prefix.split_last() else { return true };
    let last_fits = match (last, pieces.get(before.len())) {
        (Piece::Literal(prefix), Some(Piece::Literal(text))) => text.starts_with(prefix),
        (last, piece) => Some(last) == piece,
    };
    last_fits && pieces.starts_with(before)
}

fn roles(file: &BTreeMap<String, String>) -> Checked<BTreeMap<String, Role>> {
    file.iter()
        .map(|(word, role)| match Role::parse(role) {
            Some(role) => Ok((word.clone(), role)),
            None => wrong(
                format!("roles.{word}"),
                format!("is `{role}`, expected `system`, `user`, `assistant` or `tool`"),
            ),
        })
        .collect()
}

fn tools(file: &File, patterns: &Patterns, rows: &[RowSpec]) -> Checked<Option<ToolsSpec>> {
    let Some(text) = &file.turn.tools else {
        return match file.place.tools {
            Some(_) => wrong("place.tools", "places a turn that `turn.tools` does not define"),
            None => Ok(None),
        };
    };
    if file.place.tools.is_none() {
        return wrong("turn.tools", "has no place, expected `place.tools`");
    }
    let pieces = patterns.row("turn.tools", text, &[Field::Tools])?;
    let Some(row) =
        rows.iter().find(|row| row.role == Role::System && same_text(&row.pieces, &pieces))
    else {
        let problem = "is read back by no system row, expected one that differs in the field only";
        return wrong("turn.tools", problem);
    };
    let layout = match (file.tools.style, &file.tools.between) {
        (Some(ToolsStyle::Indent), None) => ToolsLayout::Indent,
        (Some(ToolsStyle::Indent), Some(_)) => {
            return wrong(
                "tools.between",
                "stands beside `style = \"indent\"`, which writes a list",
            );
        }
        (None | Some(ToolsStyle::Line), between) => {
            ToolsLayout::Line(between.clone().unwrap_or_default())
        }
    };
    let unwrap = file.tools.shape == Some(ToolsShape::Function);
    Ok(Some(ToolsSpec { pieces, unwrap, layout, name: row.name.clone() }))
}

/// Whether two rows differ in the field of their text only.
fn same_text(row: &[Piece], tools: &[Piece]) -> bool {
    let same = |(a, b): (&Piece, &Piece)| match (a, b) {
        (Piece::Field(Field::Content), Piece::Field(Field::Tools)) => true,
        (a, b) => a == b,
    };
    row.len() == tools.len() && row.iter().zip(tools).all(same)
}

fn calls(file: &BTreeMap<String, CallFile>, patterns: &Patterns) -> Checked<Vec<CallSpec>> {
    let mut calls = Vec::new();
    for (kind, call) in file {
        let key = format!("call.{kind}");
        let object = call.object.as_ref().map(|object| object_spec(&key, object)).transpose()?;
        let allowed: &[Field] = match object {
            Some(_) => &[Field::Call],
            None => &[Field::Language, Field::Source],
        };
        let item = format!("{key}.item");
        let texts = call.item.clone().into_vec();
        if texts.is_empty() {
            return wrong(item, "has no pattern, expected one or more");
        }
        let items: Checked<_> =
            texts.iter().map(|text| patterns.row(&item, text, allowed)).collect();
        calls.push(CallSpec { kind: kind.clone(), items: items?, object });
    }
    for (what, has_object) in [("a function", true), ("code", false)] {
        let mut same = calls.iter().filter(|call| call.object.is_some() == has_object);
        if let (Some(first), Some(second)) = (same.next(), same.next()) {
            let problem = format!("is a second way beside `call.{}` to call {what}", first.kind);
            return wrong(format!("call.{}", second.kind), problem);
        }
    }
    Ok(calls)
}

fn object_spec(key: &str, table: &toml::Table) -> Checked<ObjectSpec> {
    let key = format!("{key}.object");
    let mut spec = ObjectSpec { name: vec![], arguments: vec![], arguments_first: false };
    for (member, value) in table {
        let key = format!("{key}.{member}");
        let Ok(words) = OneOrMany::deserialize(value.clone()) else {
            return wrong(key, "is no key, expected a string or a list of strings");
        };
        let words = words.into_vec();
        match member.as_str() {
            "name" => spec.name = words,
            "arguments" => {
                spec.arguments_first = spec.name.is_empty();
                spec.arguments = words;
            }
            _ => return wrong(key, "is unknown, expected `name` or `arguments`"),
        }
    }
    if spec.name.is_empty() || spec.arguments.is_empty() {
        return wrong(key, "lacks a key, expected `name` and `arguments`");
    }
    if spec.name.iter().any(|word| spec.arguments.contains(word)) {
        return wrong(key, "has one key for both `name` and `arguments`");
    }
    Ok(spec)
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
