//! A format file and the variants that it offers: the same file with some keys replaced.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use toml::de::DeTable;

use super::file::File;
use super::work::Work;
use crate::error::KeyProblem;
use crate::word::is_word;

/// Maximum number of variants.
const MAX_VARIANTS: usize = 64;

/// A parsed file with its variants.
pub(super) struct Document {
    pub(super) file: File,
    /// The file's own keys, where it has variants.
    own: toml::Table,
    variants: toml::Table,
}

impl Document {
    pub(super) fn read(text: &str) -> Result<Self, KeyProblem> {
        let mut toml = DeTable::parse(text).map_err(|e| not_toml(text, &e))?;
        let key = || "variant".to_owned();
        let (mut own, mut variants) = (toml::Table::new(), toml::Table::new());
        // Taken out before the rest is copied: variants may be most of a file.
        if let Some((_, listed)) = toml.get_mut().remove_entry("variant") {
            let listed = toml::Value::deserialize(listed.into_deserializer());
            let toml::Value::Table(listed) = listed.map_err(|e| not_toml(text, &e))? else {
                let problem = "is no table, expected one of variants by name".to_owned();
                return Err(KeyProblem { key: key(), problem });
            };
            variants = listed;
            own = toml::Table::deserialize(toml::Deserializer::from(toml.clone()))
                .map_err(|e| not_toml(text, &e))?;
        }
        let file: File =
            serde_path_to_error::deserialize(toml::Deserializer::from(toml)).map_err(|e| {
                KeyProblem {
                    key: key_of(e.path(), e.inner().message()),
                    problem: on_line(text, e.inner()),
                }
            })?;
        if variants.len() > MAX_VARIANTS {
            let problem =
                format!("has {} variants, expected at most {MAX_VARIANTS}", variants.len());
            return Err(KeyProblem { key: key(), problem });
        }
        for (name, changes) in &variants {
            if !is_word(name) || name.contains(':') {
                let problem =
                    format!("has the name {name:?}, expected letters, digits and `_.-` only");
                return Err(KeyProblem { key: key(), problem });
            }
            if !changes.is_table() {
                let key = format!("variant.{name}");
                return Err(KeyProblem {
                    key,
                    problem: "is no table, expected one of keys".to_owned(),
                });
            }
        }
        Ok(Self { file, own, variants })
    }

    /// The names of the variants, in the order of the file.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.variants.keys().map(String::as_str)
    }

    /// The file with the keys of a variant in place of its own.
    pub(super) fn variant(&self, name: &str, work: &Work) -> Result<File, KeyProblem> {
        let Some(toml::Value::Table(changes)) = self.variants.get(name) else {
            let known: Vec<&str> = self.names().collect();
            let problem = match &known[..] {
                [] => format!("has no `{name}`: the file offers no variants"),
                known => format!("has no `{name}`, expected one of `{}`", known.join("`, `")),
            };
            return Err(KeyProblem { key: "variant".to_owned(), problem });
        };
        let mut path = format!("variant.{name}");
        work.count(&path, size(&self.own) + size(changes))?;
        let mut table = self.own.clone();
        merge(&mut table, changes, &mut path)?;
        serde_path_to_error::deserialize(toml::Value::Table(table)).map_err(|e| {
            let message = e.inner().message();
            let key = format!("{path}.{}", key_of(e.path(), message));
            KeyProblem { key, problem: message.to_owned() }
        })
    }
}

/// The keys of a parsed file, or of one of its variants.
pub(super) fn keys(text: &str, variant: Option<&str>) -> Option<toml::Table> {
    let mut own: toml::Table = toml::from_str(text).ok()?;
    let variants = own.remove("variant");
    if let Some(variant) = variant {
        let changes = variants.as_ref()?.get(variant)?.as_table()?;
        merge(&mut own, changes, &mut String::new()).ok()?;
    }
    Some(own)
}

/// The size of a table: its bytes, and a constant for each key.
fn size(table: &toml::Table) -> usize {
    const KEY: usize = 16;
    let of_value = |value: &toml::Value| match value {
        toml::Value::String(text) => text.len(),
        toml::Value::Table(inner) => size(inner),
        toml::Value::Array(items) => {
            items.iter().map(|item| KEY + item.as_str().map_or(KEY, str::len)).sum()
        }
        _ => 0,
    };
    table.iter().map(|(key, value)| KEY + key.len() + of_value(value)).sum()
}

/// Replaces keys of `table` by those of `changes`, recursively; `false` removes a key.
fn merge(
    table: &mut toml::Table,
    changes: &toml::Table,
    path: &mut String,
) -> Result<(), KeyProblem> {
    let length = path.len();
    for (key, value) in changes {
        path.push('.');
        path.push_str(key);
        match (table.get_mut(key), value) {
            (Some(_), toml::Value::Boolean(false)) => {
                table.remove(key);
            }
            (None, toml::Value::Boolean(false)) => {
                let problem =
                    "is `false`, which takes a key away, expected a key that the file has"
                        .to_owned();
                return Err(KeyProblem { key: path.clone(), problem });
            }
            (Some(toml::Value::Table(inner)), toml::Value::Table(changes)) => {
                merge(inner, changes, path)?;
            }
            (_, value) => {
                table.insert(key.clone(), value.clone());
            }
        }
        path.truncate(length);
    }
    Ok(())
}

/// The error for a text that is not TOML.
fn not_toml(text: &str, e: &toml::de::Error) -> KeyProblem {
    if ["recursion limit", "cannot recurse further"].iter().any(|m| e.message().starts_with(m)) {
        let problem = "nests keys, tables or lists too deep, expected at most 80 levels".to_owned();
        return KeyProblem { key: String::new(), problem };
    }
    let key = e.span().map_or("", |span| key_of_line(text, span));
    KeyProblem { key: key.to_owned(), problem: on_line(text, e) }
}

/// The problem and its line.
fn on_line(text: &str, e: &toml::de::Error) -> String {
    let Some(span) = e.span() else { return e.message().to_owned() };
    let line = text[..span.start.min(text.len())].matches('\n').count() + 1;
    format!("on line {line}: {}{}", e.message(), way_out(e.message()))
}

/// What to write for a key that every file has, where it is missing.
fn way_out(message: &str) -> &'static str {
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    match missing {
        Some("name") => "; expected `name = \"mychat\"` at the beginning",
        Some("guarantee") => {
            "; expected `guarantee = \"ids\"`, or `\"text\"` where text alone tells turns apart"
        }
        Some("source") => "; expected `source = \"…\"`: where the format is defined",
        Some("generation") => {
            "; expected `generation = { prompt = \"…\" }`: what opens the assistant's turn"
        }
        Some("prompt") => "; expected the pattern that opens the assistant's turn",
        Some("turn") => "; expected `[turn]` with a row for each role",
        _ => "",
    }
}

/// The key of a reading error; for a missing key, the path of its table.
fn key_of(path: &serde_path_to_error::Path, message: &str) -> String {
    let missing = message.strip_prefix("missing field `");
    let path = path.to_string();
    match missing.and_then(|rest| rest.split('`').next()) {
        Some(name) if path == "." => name.to_owned(),
        Some(name) => format!("{path}.{name}"),
        None => path,
    }
}

/// The key or table of the line with a syntax error; empty without one.
fn key_of_line(text: &str, span: std::ops::Range<usize>) -> &str {
    let at = span.start.min(text.len());
    let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let word = text[begin..].split(['=', ']', '\n']).next().unwrap_or_default();
    let key = word.trim_start_matches('[').trim();
    let is_key = key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    if is_key { key } else { "" }
}
