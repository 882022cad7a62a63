//! A format file read naively: the table of its variant, and its patterns as lists of elements.
//!
//! Nothing here uses the crate's own reader of format files, so what the laws expect of a format does not come
//! from the code that they test.

use std::collections::BTreeMap;

/// One element of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Element {
    /// A control token: the names that may stand there, the written one first.
    Control(Vec<String>),
    Literal(String),
    /// A field and its filter.
    Field(String, String),
    /// `{~}`: any white space.
    White,
    /// `{*}`: anything.
    Any,
    /// `{/}`: a cut.
    Cut,
    /// A guard: its field, and what it holds.
    Guard(String, Vec<Element>),
}

pub type Pattern = Vec<Element>;

/// A format's file with the keys of its variant in place.
#[derive(Debug, Clone)]
pub struct Spec {
    pub table: toml::Table,
    /// The spellings of each control token.
    pub control: BTreeMap<String, Vec<String>>,
    /// The patterns of each tag.
    tags: BTreeMap<String, Vec<String>>,
}

impl Spec {
    /// The format of this name, of its file's text.
    pub fn new(name: &str, text: &str) -> Self {
        let mut table: toml::Table = toml::from_str(text).expect("a format file");
        let variants = table.remove("variant");
        if let Some((_, variant)) = name.split_once(':') {
            let variants = variants.as_ref().and_then(toml::Value::as_table).expect("variants");
            merge(&mut table, variants[variant].as_table().expect("a variant"));
        }
        let words = |key: &str| -> BTreeMap<String, Vec<String>> {
            let words = table.get(key).and_then(toml::Value::as_table).into_iter().flatten();
            words.map(|(name, value)| (name.clone(), strings(Some(value)))).collect()
        };
        let (control, tags) = (words("control"), words("tag"));
        Self { table, control, tags }
    }

    /// A value by its path.
    pub fn get(&self, path: &[&str]) -> Option<&toml::Value> {
        let (last, tables) = path.split_last()?;
        let mut table = &self.table;
        for key in tables {
            table = table.get(*key)?.as_table()?;
        }
        table.get(*last)
    }

    /// The patterns of a key: one, a list, or none.
    pub fn patterns(&self, path: &[&str]) -> Vec<Pattern> {
        let texts = strings(self.get(path)).into_iter().flat_map(|text| self.without_tags(text));
        texts.map(|text| pattern(&text)).collect()
    }

    /// The text of a pattern with each tag written out, in each of its ways.
    fn without_tags(&self, text: String) -> Vec<String> {
        let mut texts = vec![text];
        for (name, ways) in &self.tags {
            let tag = format!("{{{name}}}");
            let all = texts.iter().flat_map(|text| {
                let used = if text.contains(&tag) { &ways[..] } else { &ways[..1] };
                used.iter().map(|way| text.replace(&tag, way))
            });
            texts = all.collect();
        }
        texts
    }

    /// The names of the tables in a table.
    pub fn keys(&self, path: &[&str]) -> Vec<String> {
        let table = self.get(path).and_then(toml::Value::as_table);
        table.map(|table| table.keys().cloned().collect()).unwrap_or_default()
    }
}

/// Puts the keys of a variant in place of the file's own; `false` takes a key away.
fn merge(into: &mut toml::Table, with: &toml::Table) {
    for (key, value) in with {
        match (into.get_mut(key), value) {
            (_, toml::Value::Boolean(false)) => {
                into.remove(key);
            }
            (Some(toml::Value::Table(inner)), toml::Value::Table(with)) => merge(inner, with),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// A string or the strings of a list.
pub fn strings(value: Option<&toml::Value>) -> Vec<String> {
    match value {
        Some(toml::Value::String(text)) => vec![text.clone()],
        Some(toml::Value::Array(items)) => {
            items.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

const FIELDS: &[&str] = &[
    "content",
    "system",
    "name",
    "id",
    "calls",
    "tools",
    "call",
    "arguments",
    "key",
    "value",
    "reasoning",
    "language",
    "source",
    "channel",
    "type",
    "date",
    "effort",
    "thinking",
    "index",
    "string",
];

/// A pattern's elements. A brace that begins none of the forms is text.
pub fn pattern(text: &str) -> Pattern {
    let mut elements = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((element, after)) = braced(rest) {
            elements.push(element);
            rest = after;
            continue;
        }
        let (char, after) = rest.split_at(first.len_utf8());
        match elements.last_mut() {
            Some(Element::Literal(literal)) => literal.push_str(char),
            _ => elements.push(Element::Literal(char.to_owned())),
        }
        rest = after;
    }
    elements
}

/// The form in braces that a text begins with, and what comes after it.
fn braced(text: &str) -> Option<(Element, &str)> {
    for (form, element) in [("{~}", Element::White), ("{*}", Element::Any), ("{/}", Element::Cut)] {
        if let Some(rest) = text.strip_prefix(form) {
            return Some((element, rest));
        }
    }
    if let Some(inside) = text.strip_prefix("{?") {
        let (field, inside) = inside.split_once(':')?;
        if !FIELDS.contains(&field) {
            return None;
        }
        let (inside, rest) = inside.split_once("?}")?;
        return Some((Element::Guard(field.to_owned(), pattern(inside)), rest));
    }
    let (word, rest) = text.strip_prefix('{')?.split_once('}')?;
    let is_name =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    if word.split('|').all(is_name) {
        return Some((Element::Control(word.split('|').map(str::to_owned).collect()), rest));
    }
    let (field, filter) = word.split_once(':').unwrap_or((word, ""));
    let is_word = |word: &str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let is_field = FIELDS.contains(&field) && is_word(filter);
    is_field.then(|| (Element::Field(field.to_owned(), filter.to_owned()), rest))
}
