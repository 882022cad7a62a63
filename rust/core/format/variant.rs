//! A format file and the variants that it offers: the same file with some keys replaced.

use serde::Deserialize;

use super::file::File;
use super::load::Wrong;

/// Reads a file, or one of its variants.
pub(super) fn read(text: &str, variant: Option<&str>) -> Result<File, Wrong> {
    let on_line = |e: &toml::de::Error| {
        let at = e.span().unwrap_or_default().start.min(text.len());
        let line = text[..at].matches('\n').count() + 1;
        format!("on line {line}: {}", e.message())
    };
    let toml = toml::Deserializer::parse(text)
        .map_err(|e| Wrong { key: key_of_line(text, e.span()).to_owned(), problem: on_line(&e) })?;
    let file = serde_path_to_error::deserialize(toml).map_err(|e| Wrong {
        key: key_of(e.path(), e.inner().message()),
        problem: on_line(e.inner()),
    })?;
    let Some(variant) = variant else { return Ok(file) };
    let mut table: toml::Table = toml::from_str(text)
        .map_err(|e| Wrong { key: String::new(), problem: e.message().to_owned() })?;
    let mut variants = match table.remove("variant") {
        Some(toml::Value::Table(variants)) => variants,
        _ => toml::Table::new(),
    };
    let Some(toml::Value::Table(changes)) = variants.remove(variant) else {
        let known: Vec<&str> = variants.keys().map(String::as_str).collect();
        let problem = match &known[..] {
            [] => format!("has no `{variant}`: the file offers no variants"),
            known => format!("has no `{variant}`, expected one of `{}`", known.join("`, `")),
        };
        return Err(Wrong { key: "variant".to_owned(), problem });
    };
    merge(&mut table, changes, &mut format!("variant.{variant}"))?;
    serde_path_to_error::deserialize(toml::Value::Table(table)).map_err(|e| {
        let message = e.inner().message();
        let key = format!("variant.{variant}.{}", key_of(e.path(), message));
        Wrong { key, problem: message.to_owned() }
    })
}

/// The names of the variants of a file, in its order.
pub(super) fn names(text: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Variants {
        #[serde(default)]
        variant: toml::Table,
    }
    toml::from_str::<Variants>(text)
        .map(|file| file.variant.keys().cloned().collect())
        .unwrap_or_default()
}

/// Puts the keys of `changes` in place of those of `table`, tables within tables likewise; `false` takes
/// a key away.
fn merge(table: &mut toml::Table, changes: toml::Table, path: &mut String) -> Result<(), Wrong> {
    let length = path.len();
    for (key, value) in changes {
        path.push('.');
        path.push_str(&key);
        match (table.get_mut(&key), value) {
            (Some(_), toml::Value::Boolean(false)) => {
                table.remove(&key);
            }
            (None, toml::Value::Boolean(false)) => {
                let problem = "takes a key away that the file does not have".to_owned();
                return Err(Wrong { key: path.clone(), problem });
            }
            (Some(toml::Value::Table(inner)), toml::Value::Table(changes)) => {
                merge(inner, changes, path)?;
            }
            (_, value) => {
                table.insert(key, value);
            }
        }
        path.truncate(length);
    }
    Ok(())
}

/// The key that an error of reading is about: its path ends at the table where a key is missing.
fn key_of(path: &serde_path_to_error::Path, message: &str) -> String {
    let missing = message.strip_prefix("missing field `");
    let path = path.to_string();
    match missing.and_then(|rest| rest.split('`').next()) {
        Some(name) if path == "." => name.to_owned(),
        Some(name) => format!("{path}.{name}"),
        None => path,
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
