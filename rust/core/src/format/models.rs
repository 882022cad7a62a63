//! The built-in format of a model, by the name that people type.
//!
//! In: a name such as `Qwen/Qwen3-8B`. Out: the name of a format, from the table `models.toml`, and for a format that the
//! table does not have from `models` of its own file. Cost: one pass over the table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

use super::{BUILT_IN, Format, distance};
use crate::error::{Error, Result};

/// The longest name of a model that is looked up, in bytes.
const MAX_NAME: usize = 512;

/// Number of names in an error.
const SHOWN: usize = 3;

#[derive(Deserialize)]
struct Table {
    others: Vec<String>,
    models: BTreeMap<String, String>,
}

/// The key of a format file that matters here.
#[derive(Deserialize, Default)]
#[serde(default)]
struct File {
    models: Vec<String>,
}

/// A word as its letters and numbers.
type Word = Vec<String>;

/// Keys as their words, with the format's name.
type Entry = (Vec<Word>, String, String);

/// Words of models with formats of their own, and the entries of the table.
static TABLE: LazyLock<(Vec<Word>, Vec<Entry>)> = LazyLock::new(|| {
    let table = toml::from_str::<Table>(include_str!("models.toml"));
    let entry = |(key, format): (String, String)| {
        let words = key.split(' ').map(parts).collect();
        (words, key, format)
    };
    let Ok(Table { others, mut models }) = table else { return (Vec::new(), Vec::new()) };
    let others = others.iter().map(|word| parts(word)).collect();
    models.extend(own_models(&models));
    (others, models.into_iter().map(entry).collect())
});

/// The models of the built-in formats that a table does not have, as their files name them.
fn own_models(table: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let base = |format: &String| format.split(':').next().unwrap_or_default().to_owned();
    let known: BTreeSet<String> = table.values().map(base).collect();
    let files = BUILT_IN.iter().filter(|(name, _)| !known.contains(*name));
    let models = files.flat_map(|(name, text)| {
        let file = toml::from_str::<File>(text).unwrap_or_default();
        file.models.into_iter().map(|model| (model, (*name).to_owned()))
    });
    models.filter(|(model, _)| !table.contains_key(model)).collect()
}

impl Format {
    /// The built-in format that a model was trained on, by the model's name: `Qwen/Qwen3-8B`, `gpt-oss-120b`.
    ///
    /// # Errors
    /// [`Error::Format`] with the nearest names where no built-in format is known for the name.
    pub fn for_model(name: &str) -> Result<Self> {
        let refused =
            |problem: String| Error::Format { file: shown(name), key: String::new(), problem };
        if name.len() > MAX_NAME {
            let problem = format!(
                "is a model's name of {} bytes; expected at most {MAX_NAME} bytes",
                name.len()
            );
            return Err(refused(problem));
        }
        let own = name.rsplit('/').find(|part| !part.is_empty()).unwrap_or(name);
        let given = parts(own);
        if let Some(format) = format_of(&given) {
            return Self::built_in(format);
        }
        let near = near(&own.to_lowercase()).join("`, `");
        let or_near =
            if near.is_empty() { String::new() } else { format!("a name such as `{near}`, or ") };
        Err(refused(format!(
            "no built-in format is known for this model; expected {or_near}the name of a format; without one, \
             `Codec.from_pretrained` uses the model's own chat template, and `chatcodec derive MODEL` shows what it reads"
        )))
    }
}

/// The keys nearest to a name that have a format; none that differ from its beginning in half of their characters.
fn near(name: &str) -> Vec<&'static str> {
    let apart = |key: &str| {
        let length = key.chars().count();
        let begin: String = name.chars().take(length).collect();
        let apart = distance(key, &begin);
        (2 * apart < length).then_some(apart)
    };
    let known = TABLE.1.iter().filter(|(_, _, format)| !format.is_empty());
    let mut keys: Vec<_> = known.filter_map(|(_, key, _)| Some((apart(key)?, &**key))).collect();
    keys.sort_unstable();
    keys.into_iter().take(SHOWN).map(|(_, key)| key).collect()
}

/// The format of the longest key that a name has; none where keys of equal length name several, or none. A word of
/// models with formats of their own is in the key too.
fn format_of(given: &[String]) -> Option<&'static str> {
    let (others, entries) = &*TABLE;
    let has_word = |name: &[String], word: &Word| has(name, std::slice::from_ref(word));
    let of_others: Vec<&Word> = others.iter().filter(|word| has_word(given, word)).collect();
    let fits = |(words, ..): &&Entry| {
        has(given, words)
            && of_others.iter().all(|other| words.iter().any(|word| has_word(word, other)))
    };
    let found: Vec<_> = entries.iter().filter(fits).collect();
    let size = |(words, ..): &Entry| words.iter().map(Vec::len).sum::<usize>();
    let most = found.iter().map(|entry| size(entry)).max()?;
    let mut formats = found.iter().filter(|entry| size(entry) == most).map(|entry| &*entry.2);
    let first = formats.next().filter(|format| !format.is_empty())?;
    formats.all(|format| format == first).then_some(first)
}

/// The letters and the numbers of a name, in lower case; a number may have dots in it.
fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut last = ' ';
    let chars: Vec<char> = name.to_lowercase().chars().collect();
    for (at, &char) in chars.iter().enumerate() {
        let is_dot = char == '.'
            && last.is_ascii_digit()
            && chars.get(at + 1).is_some_and(char::is_ascii_digit);
        let is_same = char.is_alphabetic() && last.is_alphabetic()
            || (char.is_ascii_digit() || is_dot) && (last.is_ascii_digit() || last == '.');
        match parts.last_mut() {
            Some(part) if is_same => part.push(char),
            _ if char.is_alphanumeric() => parts.push(char.into()),
            _ => {}
        }
        // A dot that is in no number separates.
        last = if char == '.' && !is_dot { ' ' } else { char };
    }
    parts
}

/// Whether a name has all words, in their order.
fn has(name: &[String], words: &[Vec<String>]) -> bool {
    let mut rest = name;
    words.iter().all(|word| {
        let at = rest.windows(word.len().max(1)).position(|parts| parts == word);
        rest = at.map_or(&[], |at| &rest[at + word.len()..]);
        at.is_some()
    })
}

/// A name as an error shows it.
fn shown(name: &str) -> String {
    let short: String = name.chars().take(64).collect();
    if short.len() == name.len() { short } else { format!("{short}…") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_a_built_in_format() {
        let (others, entries) = &*TABLE;
        assert!(others.len() > 10 && entries.len() > 40);
        for (words, key, format) in entries {
            assert!(words.iter().all(|word| !word.is_empty()), "{key}");
            if format.is_empty() {
                assert!(Format::for_model(key).is_err(), "{key}");
                continue;
            }
            assert!(Format::names().any(|known| known == format), "{key}");
            let found = Format::for_model(key).unwrap();
            assert_eq!(found.name(), format, "{key}");
        }
    }
}
