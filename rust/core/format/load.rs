//! From the file to the spec: every rule that a format file must keep is checked here.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::file::{CallFile, File, OneOrMany, ToolsShape, ToolsStyle};
use super::pattern::{self, Field, Piece};
use super::{CallSpec, Guarantee, ObjectSpec, RowSpec, Spec, ToolsLayout, ToolsSpec, rules};
use crate::message::Role;

/// More rows, control tokens or ways to write a call are refused.
const MAX_ROWS: usize = 64;
const MAX_CONTROL: usize = 256;
const MAX_ITEMS: usize = 16;

/// A key and what is wrong with it.
pub(super) struct Wrong {
    pub(super) key: String,
    pub(super) problem: String,
}

pub(super) type Checked<T> = std::result::Result<T, Wrong>;

pub(super) fn wrong<T>(key: impl Into<String>, problem: impl Into<String>) -> Checked<T> {
    Err(Wrong { key: key.into(), problem: problem.into() })
}

impl Spec {
    pub(super) fn new(text: &str, file: File) -> Checked<Self> {
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
        if rows.len() > MAX_ROWS {
            let count = rows.len();
            return wrong("named", format!("makes {count} rows, expected at most {MAX_ROWS}"));
        }
        let heads: Vec<(&str, &[Piece])> =
            rows.iter().map(|row| (&*row.key, &row.pieces[..])).collect();
        rules::check_decidable(&heads)?;
        let calls = calls(&file.call, &patterns)?;
        let tools = tools(&file, &patterns, &rows)?;
        let prompt = patterns.pieces("generation.prompt", &file.generation.prompt, &[])?;
        let opens =
            |row: &RowSpec| row.role == Role::Assistant && prompt == rules::head(&row.pieces);
        if !rows.iter().any(opens) {
            let problem = "is not how an assistant row begins, up to its text";
            return wrong("generation.prompt", problem);
        }
        let mut openers: Vec<&Piece> = rows.iter().filter_map(|row| row.pieces.first()).collect();
        for call in &calls {
            for item in &call.items {
                rules::check_call_opener(&format!("call.{}.item", call.kind), item, &openers)?;
            }
        }
        let items = calls.iter().flat_map(|call| call.items.iter());
        openers.extend(items.filter_map(|item| item.first()));
        for row in &rows {
            rules::check_closers(&row.key, &row.pieces, &openers)?;
        }
        for call in &calls {
            for item in &call.items {
                rules::check_closers(&format!("call.{}.item", call.kind), item, &openers)?;
            }
        }
        let begin = patterns.pieces("begin", &file.begin, &[])?;
        rules::check_frame("begin", &begin, &openers)?;
        let end = patterns.pieces("end", &file.end, &[])?;
        rules::check_frame("end", &end, &openers)?;
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
    used: RefCell<Vec<bool>>,
}

impl Patterns {
    fn new(file: &BTreeMap<String, OneOrMany>) -> Checked<Self> {
        let mut control: Vec<(String, Vec<String>)> = Vec::new();
        if file.len() > MAX_CONTROL {
            let count = file.len();
            return wrong("control", format!("has {count} tokens, expected at most {MAX_CONTROL}"));
        }
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

    /// A pattern that can be read back.
    fn row(&self, key: &str, text: &str, allowed: &[Field]) -> Checked<Vec<Piece>> {
        let pieces = self.pieces(key, text, allowed)?;
        rules::check_row(key, &pieces)?;
        Ok(pieces)
    }
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
        if texts.is_empty() || texts.len() > MAX_ITEMS {
            let count = texts.len();
            return wrong(item, format!("has {count} patterns, expected 1 to {MAX_ITEMS}"));
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
    // What is written must not be read by a way that is tried before it.
    let keys: Vec<String> = calls.iter().map(|call| format!("call.{}.item", call.kind)).collect();
    let mut before: Vec<(&str, &[Piece])> = Vec::new();
    for (call, key) in calls.iter().zip(&keys) {
        rules::check_against(key, &call.items[0], &before)?;
        before.extend(call.items.iter().map(|item| (key.as_str(), &item[..])));
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
        if let Some(word) = words.iter().find(|word| !pattern::is_word(word)) {
            let problem = format!("has the key {word:?}, expected letters, digits and `_.:-` only");
            return wrong(key, problem);
        }
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
