//! Splitters and normalisation of known vocabularies whose files do not state them:
//! `registry.toml`.
//!
//! Files are known by their content, tokenizers by their class, GGUF files by `tokenizer.ggml.pre`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::TokenId;
use super::model::Findings;
use super::normalize::Normalizer;
use super::table::Row;
use crate::error::{Error, Result};
use crate::split::Splitter;

/// The steps before the bytes of a text are merged.
pub(super) struct Reading {
    pub(super) splitter: Splitter,
    pub(super) normalizer: Normalizer,
    /// A pre-token that is a token is that token, whatever its merges make of it.
    pub(super) ignore_merges: bool,
    pub(super) findings: Findings,
}

impl Reading {
    /// The rules of a regular expression, with its source.
    pub(super) fn of_pattern(
        pattern: &str,
        known_by: impl Into<String>,
        normalizer: Normalizer,
    ) -> Result<Self> {
        let splitter = Splitter::from_pattern(pattern)?;
        Ok(Self::new(splitter, known_by.into(), normalizer))
    }

    fn new(splitter: Splitter, known_by: String, normalizer: Normalizer) -> Self {
        let pre_tokenizer = splitter.describe();
        let findings = Findings { pre_tokenizer, known_by, ..Findings::default() };
        Self { splitter, normalizer, ignore_merges: false, findings }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    ranks: Vec<Ranks>,
    class: Vec<Class>,
    gguf: Vec<Gguf>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Normalisation {
    #[default]
    None,
    Nfc,
}

/// A file of ranks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ranks {
    file: String,
    count: usize,
    /// Without a fingerprint, the count alone identifies the file, if no other known file has as
    /// many tokens.
    #[serde(default)]
    fingerprint: Option<String>,
    split: String,
    #[serde(default)]
    normalizer: Normalisation,
    #[serde(default)]
    special: Vec<String>,
    /// The special tokens that the model's code appends: spellings from an id on.
    #[serde(default)]
    added: BTreeMap<String, Vec<String>>,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Class {
    names: Vec<String>,
    split: String,
    #[serde(default)]
    normalizer: Normalisation,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gguf {
    names: Vec<String>,
    #[serde(default)]
    normalizer: Normalisation,
    #[serde(default)]
    ignore_merges: bool,
    #[serde(rename = "reason")]
    _reason: String,
}

static KNOWN: LazyLock<File> = LazyLock::new(|| {
    // The file is part of this crate and read by a test. With a broken file no vocabulary would be
    // known, and callers would be asked for a pattern.
    toml::from_str(include_str!("registry.toml")).unwrap_or_default()
});

impl Normalisation {
    fn normalizer(self) -> Normalizer {
        match self {
            Self::None => Normalizer::Identity,
            Self::Nfc => Normalizer::Nfc,
        }
    }
}

impl Ranks {
    pub(super) fn normalizer(&self) -> Normalizer {
        self.normalizer.normalizer()
    }

    pub(super) fn reading(&self) -> Result<Reading> {
        let Self { file, count, reason, .. } = self;
        let by = if self.fingerprint.is_some() { "fingerprint" } else { "number" };
        let known_by = format!("the {by} of {count} ranks, which are those of {file}: {reason}");
        reading(&self.split, known_by, self.normalizer)
    }

    /// Number of ids in the file.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The special tokens that the model's code appends, in the order of their ids.
    pub(super) fn added(&self) -> impl Iterator<Item = (TokenId, String)> {
        self.added.iter().flat_map(|(first, spellings)| {
            let first = first.parse().unwrap_or(TokenId::MAX);
            (first..).zip(spellings.iter().flat_map(|spelling| numbered(spelling)))
        })
    }

    /// Whether a token among the ranks is special.
    pub(super) fn has_special(&self, token: &[u8]) -> bool {
        self.special.iter().any(|special| special.as_bytes() == token)
    }
}

/// The known file with these ranks, if there is one.
pub(super) fn of_ranks(count: usize, fingerprint: &str) -> Option<&'static Ranks> {
    let mut known = KNOWN.ranks.iter().filter(|known| known.count == count);
    known.find(|known| known.fingerprint.as_ref().is_none_or(|known| known == fingerprint))
}

/// The reading rules of a tokenizer class, `None` for an unknown class.
pub(super) fn of_class(class: &str) -> Result<Option<Reading>> {
    let known = KNOWN.class.iter().find(|known| known.names.iter().any(|name| name == class));
    let read = |known: &Class| {
        let known_by = format!("`tokenizer_class`, which is `{class}`: {}", known.reason);
        reading(&known.split, known_by, known.normalizer)
    };
    known.map(read).transpose()
}

/// The reading rules of a `tokenizer.ggml.pre`, `None` for an unknown name.
pub(super) fn of_gguf(name: &str) -> Option<Reading> {
    let splitter = Splitter::by_name(name)?;
    let known = KNOWN.gguf.iter().find(|known| known.names.iter().any(|known| known == name));
    let normalizer = known.map(|known| known.normalizer.normalizer()).unwrap_or_default();
    let ignore_merges = known.is_some_and(|known| known.ignore_merges);
    let known_by = format!("`tokenizer.ggml.pre`, which is `{name}`");
    Some(Reading { ignore_merges, ..Reading::new(splitter, known_by, normalizer) })
}

fn reading(split: &str, known_by: String, normalizer: Normalisation) -> Result<Reading> {
    let unknown = || Error::new("pre_tokenizer", format!("`{split}` is not implemented"));
    let splitter = Splitter::by_name(split).ok_or_else(unknown)?;
    Ok(Reading::new(splitter, known_by, normalizer.normalizer()))
}

/// The spellings of an entry: several for one with `{0..N}` in it, else the entry itself.
fn numbered(spelling: &str) -> Vec<String> {
    let parts = spelling.split_once("{0..").and_then(|(before, rest)| {
        let (count, after) = rest.split_once('}')?;
        Some((before, count.parse::<usize>().ok()?, after))
    });
    match parts {
        Some((before, count, after)) => {
            (0..count).map(|number| format!("{before}{number}{after}")).collect()
        }
        None => vec![spelling.to_owned()],
    }
}

/// 64-bit hash (FNV-1a) of the tokens in order, each with its length. It tells honest files apart;
/// a forged file gains a known pattern and nothing else.
pub(super) fn fingerprint(rows: &[Row<'_>]) -> String {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    let hash = rows.iter().fold(0xCBF2_9CE4_8422_2325, |hash, row| {
        let hash = (row.text.len() as u32).to_le_bytes().into_iter().fold(hash, mix);
        row.text.iter().copied().fold(hash, mix)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_themselves() {
        assert_eq!(numbered("<|x_{0..2}|>"), ["<|x_0|>", "<|x_1|>"]);
        assert_eq!(numbered("{0..}"), ["{0..}"]);
    }

    #[test]
    fn the_file_reads_and_names_splits_that_are_there() {
        let file: File = toml::from_str(include_str!("registry.toml")).unwrap();
        let splits = file.ranks.iter().map(|ranks| &ranks.split);
        for split in splits.chain(file.class.iter().map(|class| &class.split)) {
            assert!(reading(split, String::new(), Normalisation::None).is_ok(), "{split}");
        }
        for ranks in &file.ranks {
            let ids: Vec<TokenId> = ranks.added().map(|(id, _)| id).collect();
            assert!(ids.is_sorted_by(|a, b| a < b), "{}", ranks.file);
            assert!(ids.iter().all(|&id| id < 1 << 20), "{}", ranks.file);
        }
        for name in file.gguf.iter().flat_map(|gguf| &gguf.names) {
            assert!(of_gguf(name).is_some(), "{name}");
        }
    }
}
