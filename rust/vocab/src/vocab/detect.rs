//! Detection of a vocabulary's kind, by content; in a directory, in a fixed order of kinds.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::configs::CONFIGS;
use super::loader::has_extension;
use super::{VocabFiles, ranks, sentencepiece, tokenizer_json};
use crate::error::{Error, Result};

/// Files to read, by kind.
pub(super) enum Chosen<'a> {
    TokenizerJson(&'a [u8]),
    Tekken(&'a [u8]),
    SentencePiece(&'a [u8]),
    /// `vocab.json` and `merges.txt`.
    VocabMerges(&'a [u8], &'a [u8]),
    Ranks(&'a [u8]),
    Gguf(&'a [u8]),
}

impl Chosen<'_> {
    /// Whether files of this kind may lack the pattern that splits text before merging.
    pub(super) fn takes_pattern(&self) -> bool {
        matches!(self, Self::VocabMerges(..) | Self::Ranks(_) | Self::Gguf(_))
    }
}

/// Kind of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    TokenizerJson,
    Tekken,
    SentencePiece,
    Vocab,
    Merges,
    Ranks,
    Gguf,
    /// Not a vocabulary; a description of the file instead.
    Other(&'static str),
}

/// Chooses the files of a vocabulary; among several kinds, the most informative one.
pub(super) fn choose(files: &VocabFiles) -> Result<Chosen<'_>> {
    let files: Vec<_> = files
        .files
        .iter()
        .filter(|(name, _)| !CONFIGS.contains(&name.as_str()))
        .map(|(name, bytes)| (name.as_str(), &**bytes, kind_of(name, bytes)))
        .collect();
    let only = |kinds: &dyn Fn(&str, Kind) -> bool| {
        let mut found = files.iter().filter(|(name, _, kind)| kinds(name, *kind));
        let first = found.next();
        match found.next() {
            Some(_) => {
                let found = files.iter().filter(|(name, _, kind)| kinds(name, *kind));
                let names: Vec<_> = found.map(|(name, ..)| *name).collect();
                let problem = format!("`{}`, expected one of them", names.join("`, `"));
                Err(Error::new("files", problem))
            }
            None => Ok(first.map(|&(_, bytes, kind)| (bytes, kind))),
        }
    };
    // A file of ranks named `tokenizer.model` is the model's own vocabulary.
    let is_tiktoken = |name: &str| has_extension(name, "tiktoken");
    if let Some((bytes, _)) = only(&|_, kind| kind == Kind::TokenizerJson)? {
        return Ok(Chosen::TokenizerJson(bytes));
    }
    if let Some((bytes, _)) = only(&|_, kind| kind == Kind::Tekken)? {
        return Ok(Chosen::Tekken(bytes));
    }
    let is_model =
        |name: &str, kind| kind == Kind::SentencePiece || kind == Kind::Ranks && !is_tiktoken(name);
    if let Some((bytes, kind)) = only(&is_model)? {
        return Ok(match kind {
            Kind::Ranks => Chosen::Ranks(bytes),
            _ => Chosen::SentencePiece(bytes),
        });
    }
    let vocab = only(&|_, kind| kind == Kind::Vocab)?;
    let merges = only(&|_, kind| kind == Kind::Merges)?;
    if let (Some((vocab, _)), Some((merges, _))) = (vocab, merges) {
        return Ok(Chosen::VocabMerges(vocab, merges));
    }
    if let Some((bytes, _)) = only(&|_, kind| kind == Kind::Ranks)? {
        return Ok(Chosen::Ranks(bytes));
    }
    if let Some((bytes, _)) = only(&|_, kind| kind == Kind::Gguf)? {
        return Ok(Chosen::Gguf(bytes));
    }
    Err(Error::new("file", nothing(vocab.is_some(), merges.is_some(), &files)))
}

/// Error text for files without a vocabulary.
fn nothing(vocab: bool, merges: bool, files: &[(&str, &[u8], Kind)]) -> String {
    const EXPECTED: &str = "expected a SentencePiece `.model`, a `tokenizer.json`, `tekken.json`, \
                            ranks, `vocab.json` with `merges.txt`, or a GGUF file";
    match (vocab, merges, files) {
        (true, ..) => "`vocab.json`, expected `merges.txt` beside it".into(),
        (_, true, _) => "`merges.txt`, expected `vocab.json` beside it".into(),
        (_, _, [(_, _, Kind::Other(found)), ..]) => format!("{found}; {EXPECTED}"),
        _ => format!("no vocabulary; {EXPECTED}"),
    }
}

fn kind_of(name: &str, bytes: &[u8]) -> Kind {
    match bytes {
        [] => Kind::Other("an empty file"),
        _ if VocabFiles::is_gguf(bytes) => Kind::Gguf,
        _ if sentencepiece::is_model(bytes) => Kind::SentencePiece,
        _ if bytes.trim_ascii_start().starts_with(b"{") => kind_of_json(bytes),
        _ if ranks::is_ranks(bytes) => Kind::Ranks,
        _ if is_merges(name, bytes) => Kind::Merges,
        _ => Kind::Other("a file of unknown kind"),
    }
}

/// Whether the first line is a header of merges, or a merge.
fn is_merges(name: &str, bytes: &[u8]) -> bool {
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let parts = line.split(|&byte| byte == b' ').count();
    bytes.starts_with(b"#version") || name.ends_with("merges.txt") || parts == 2
}

/// Kind of a JSON file, by the first key that decides; the rest is not read.
fn kind_of_json(bytes: &[u8]) -> Kind {
    const UNKNOWN: Kind = Kind::Other("a JSON file of unknown kind");
    let found = Cell::new(UNKNOWN);
    // The visitor stops with an error as soon as a key decides.
    let _ = serde_json::Deserializer::from_slice(bytes).deserialize_map(Keys(&found));
    match found.get() {
        Kind::TokenizerJson if !tokenizer_json::is_tokenizer_json(bytes) => UNKNOWN,
        kind => kind,
    }
}

struct Keys<'a>(&'a Cell<Kind>);

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            // Only `vocab.json` has numbers at its top, and nothing else from its first key on.
            let kind = match key.as_str() {
                "model" => Some(Kind::TokenizerJson),
                "vocab" => Some(Kind::Tekken),
                _ if is_number(map.next_value::<&RawValue>()?) => Some(Kind::Vocab),
                _ => None,
            };
            if let Some(kind) = kind {
                self.0.set(kind);
                return Err(A::Error::custom("known"));
            }
        }
        Ok(())
    }
}

fn is_number(value: &RawValue) -> bool {
    value.get().starts_with(|c: char| c.is_ascii_digit())
}
