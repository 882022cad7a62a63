//! The vocabulary in a GGUF file's metadata: SentencePiece-like (`llama`) or byte-level (`gpt2`).
//!
//! In: the file's bytes, or at least those of its metadata, and the files beside it. Out: a [`Model`].
//! Cost: linear in the metadata; weights are not read. Memory for a count is allocated only after that
//! many values were found. Features that are not implemented are refused by name.

use hashbrown::HashMap;

use super::chars::{self, Spaces};
use super::configs::Added;
use super::model::{Model, Policy};
use super::normalize::Normalizer;
use super::registry::{self, Reading};
use super::table::{MAX_IDS, Row, Table, TokenType};
use super::{byte_level, vocab_merges};
use crate::error::{Error, Result};

/// Maximum depth of nested arrays: the format allows nesting, metadata does not use it.
const MAX_DEPTH: usize = 4;

/// Names of `tokenizer.ggml.pre` whose merges are listed and join characters, with marked spaces.
const CHARS: [&str; 4] = ["gemma4", "granite-embed-multi-311m", "mmbert", "sarvam-moe"];

/// The metadata of the vocabulary.
#[derive(Default)]
struct Metadata<'a> {
    model: Option<&'a str>,
    pre: Option<&'a str>,
    tokens: Vec<Text<'a>>,
    scores: Vec<f32>,
    types: Vec<u64>,
    merges: Vec<Text<'a>>,
    add_space_prefix: Option<bool>,
    remove_extra_whitespaces: Option<bool>,
    charsmap: bool,
    chat_template: Option<Text<'a>>,
    /// Ids of special tokens, by the names that templates have for them.
    special: Vec<(&'static str, u32)>,
}

/// Metadata about a chat model that is no part of the vocabulary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GgufChat {
    /// The chat template.
    pub template: Option<String>,
    /// Special tokens, by the names that templates have for them: `bos_token`.
    pub tokens: Vec<(String, String)>,
}

/// Keys of special tokens.
const SPECIAL: [(&[u8], &str); 4] = [
    (b"tokenizer.ggml.bos_token_id", "bos_token"),
    (b"tokenizer.ggml.eos_token_id", "eos_token"),
    (b"tokenizer.ggml.padding_token_id", "pad_token"),
    (b"tokenizer.ggml.unknown_token_id", "unk_token"),
];

/// What the metadata says about chat; nothing if the metadata is broken.
pub(super) fn chat(bytes: &[u8]) -> GgufChat {
    let Ok(metadata) = parse(bytes) else { return GgufChat::default() };
    let text = |text: &Text<'_>| text.utf8().ok().map(str::to_owned);
    let token = |(name, id): &(&str, u32)| {
        Some(((*name).to_owned(), text(metadata.tokens.get(*id as usize)?)?))
    };
    GgufChat {
        template: metadata.chat_template.as_ref().and_then(text),
        tokens: metadata.special.iter().filter_map(token).collect(),
    }
}

/// A string and its offset.
#[derive(Clone, Copy)]
struct Text<'a> {
    bytes: &'a [u8],
    offset: usize,
}

/// Reads the metadata and the files beside it.
pub(super) fn load(bytes: &[u8], added: &Added, policy: &Policy<'_>) -> Result<Model> {
    let metadata = parse(bytes)?;
    let marks_spaces = metadata.pre.is_some_and(|pre| CHARS.contains(&pre));
    match metadata.model {
        Some("gpt2") if marks_spaces => load_chars(&metadata, added, policy),
        Some("llama" | "gemma4") => load_chars(&metadata, added, policy),
        Some("gpt2") => load_bytes(&metadata, added, policy),
        model => {
            let model = model.unwrap_or("none");
            let problem =
                format!("`{model}` is not implemented; expected `llama`, `gpt2` or `gemma4`");
            Err(Error::new("tokenizer.ggml.model", problem))
        }
    }
}

fn load_chars(metadata: &Metadata<'_>, added: &Added, policy: &Policy<'_>) -> Result<Model> {
    if added.pattern.is_some() {
        let problem = "given, but this kind of GGUF file does not part text before merging";
        return Err(Error::new("pattern", problem));
    }
    if metadata.charsmap {
        let problem = "normalization by a table is not implemented; expected none";
        return Err(Error::new("tokenizer.ggml.precompiled_charsmap", problem));
    }
    // Merges are listed, or derived from scores.
    let is_listed = metadata.model != Some("llama");
    if !is_listed && metadata.scores.len() != metadata.tokens.len() {
        return Err(unequal("tokenizer.ggml.scores", metadata.scores.len(), metadata));
    }
    let mut table = Table::default();
    let scores = metadata.scores.iter().copied().chain(std::iter::repeat(0.0));
    for ((token, score), kind) in metadata.tokens.iter().zip(scores).zip(types(metadata)?) {
        table.rows.push(Row { score, offset: Some(token.offset), ..Row::new(token.bytes, kind) });
    }
    let mut ids = HashMap::new();
    if is_listed {
        for (id, token) in (0..).zip(&metadata.tokens) {
            ids.insert(token.utf8()?, id);
        }
    }
    let merges = || byte_level::pairs(metadata.merges.iter().map(Text::utf8), &ids);
    let merges = is_listed.then(merges).transpose()?;
    table.apply(added, policy)?;
    let spaces = Spaces {
        add_dummy_prefix: metadata.add_space_prefix.unwrap_or(!is_listed),
        remove_extra: metadata.remove_extra_whitespaces.unwrap_or(false),
        bare_in_whole: true,
    };
    chars::build("gguf", table, spaces, merges, policy)
}

fn load_bytes(metadata: &Metadata<'_>, added: &Added, policy: &Policy<'_>) -> Result<Model> {
    if metadata.pre == Some("whitespace") {
        let problem = "`whitespace` is not implemented: it drops white space; give the model's `tokenizer.json`";
        return Err(Error::new("tokenizer.ggml.pre", problem));
    }
    if metadata.add_space_prefix == Some(true) {
        let problem = "is not implemented where tokens are bytes; expected it off";
        return Err(Error::new("tokenizer.ggml.add_space_prefix", problem));
    }
    let known = metadata.pre.and_then(registry::of_gguf);
    let reading = match (&added.pattern, known) {
        (Some(pattern), known) => {
            let normalizer = known.map_or(Normalizer::Identity, |known| known.normalizer);
            Reading::of_pattern(pattern, added.pattern_from, normalizer)?
        }
        (None, Some(known)) => known,
        (None, None) => {
            let pre = metadata.pre.unwrap_or("none");
            let problem = format!("`{pre}` is not implemented; give `pattern=`");
            return Err(Error::new("tokenizer.ggml.pre", problem));
        }
    };
    let mut table = Table::default();
    let mut ids = HashMap::with_capacity(metadata.tokens.len());
    for (id, (text, kind)) in (0..).zip(metadata.tokens.iter().zip(types(metadata)?)) {
        let token = text.utf8()?;
        let row = match kind {
            // A token typed as text whose spelling is not in the alphabet of bytes is text, and no
            // merge makes it.
            TokenType::Normal => match vocab_merges::row(token) {
                row if row.kind == TokenType::Control => Row::new(token.as_bytes(), TokenType::Raw),
                row => row,
            },
            kind => Row::new(token.as_bytes(), kind),
        };
        table.put(id, Row { offset: Some(text.offset), ..row })?;
        // An added token may be spelled in the alphabet of bytes; merges mean the ordinary token.
        if kind == TokenType::Normal {
            ids.insert(token, id);
        }
    }
    table.apply(added, policy)?;
    let pairs = byte_level::pairs(metadata.merges.iter().map(Text::utf8), &ids)?;
    byte_level::build("gguf", table, Some(pairs), reading, policy)
}

/// The type of every token.
fn types(metadata: &Metadata<'_>) -> Result<impl Iterator<Item = TokenType>> {
    const KEY: &str = "tokenizer.ggml.token_type";
    if metadata.types.len() != metadata.tokens.len() {
        return Err(unequal(KEY, metadata.types.len(), metadata));
    }
    let of_number = |&number: &u64| {
        TokenType::of_number(number)
            .ok_or_else(|| Error::new(KEY, format!("unknown type {number}")))
    };
    Ok(metadata.types.iter().map(of_number).collect::<Result<Vec<_>>>()?.into_iter())
}

fn unequal(key: &'static str, found: usize, metadata: &Metadata<'_>) -> Error {
    Error::new(
        key,
        format!("{found} of them, expected one for each of {} tokens", metadata.tokens.len()),
    )
}

impl<'a> Text<'a> {
    fn utf8(&self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes).map_err(|_| Error {
            offset: Some(self.offset),
            component: "metadata",
            problem: "a string that is not UTF-8".into(),
        })
    }
}

fn parse(bytes: &[u8]) -> Result<Metadata<'_>> {
    let mut reader = Reader { bytes, at: 4 };
    let version = reader.u32()?;
    if version != 2 && version != 3 {
        let problem = match version.swap_bytes() {
            2 | 3 => "big-endian, which is not implemented".to_owned(),
            _ => format!("version {version} is not implemented; expected 2 or 3"),
        };
        return Err(Error::new("file", problem));
    }
    let _tensors = reader.u64()?;
    let mut metadata = Metadata::default();
    let mut seen = hashbrown::HashSet::new();
    for _ in 0..reader.u64()? {
        let key = reader.string()?;
        if !seen.insert(key.bytes) {
            return Err(
                reader.error(format!("`{}` stands twice", String::from_utf8_lossy(key.bytes)))
            );
        }
        let kind = reader.u32()?;
        match (key.bytes, kind) {
            (b"tokenizer.ggml.model", Reader::STRING) => {
                metadata.model = Some(reader.string()?.utf8()?);
            }
            (b"tokenizer.ggml.pre", Reader::STRING) => {
                metadata.pre = Some(reader.string()?.utf8()?);
            }
            (b"tokenizer.ggml.tokens", Reader::ARRAY) => metadata.tokens = reader.strings()?,
            (b"tokenizer.ggml.merges", Reader::ARRAY) => metadata.merges = reader.strings()?,
            (b"tokenizer.ggml.scores", Reader::ARRAY) => {
                metadata.scores = reader.numbers(Reader::F32, f32::from_bits)?;
            }
            (b"tokenizer.ggml.token_type", Reader::ARRAY) => {
                metadata.types = reader.numbers(Reader::I32, u64::from)?;
            }
            (b"tokenizer.ggml.add_space_prefix", Reader::BOOL) => {
                metadata.add_space_prefix = Some(reader.take(1)? != [0]);
            }
            (b"tokenizer.ggml.remove_extra_whitespaces", Reader::BOOL) => {
                metadata.remove_extra_whitespaces = Some(reader.take(1)? != [0]);
            }
            (b"tokenizer.chat_template", Reader::STRING) => {
                metadata.chat_template = Some(reader.string()?);
            }
            (key, Reader::U32) if SPECIAL.iter().any(|(known, _)| *known == key) => {
                let id = reader.u32()?;
                let names = SPECIAL.iter().filter(|(known, _)| *known == key);
                metadata.special.extend(names.map(|(_, name)| (*name, id)));
            }
            (key, kind) => {
                metadata.charsmap |= key == b"tokenizer.ggml.precompiled_charsmap";
                reader.skip(kind, 0)?;
            }
        }
    }
    if metadata.tokens.is_empty() || metadata.tokens.len() > MAX_IDS {
        let problem = format!("{} of them, expected 1 to {MAX_IDS}", metadata.tokens.len());
        return Err(Error::new("tokenizer.ggml.tokens", problem));
    }
    Ok(metadata)
}

/// A position in the file. Lengths are checked against the remaining bytes before memory is
/// allocated.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    const U32: u32 = 4;
    const I32: u32 = 5;
    const F32: u32 = 6;
    const BOOL: u32 = 7;
    const STRING: u32 = 8;
    const ARRAY: u32 = 9;

    fn error(&self, problem: impl Into<String>) -> Error {
        Error { offset: Some(self.at), component: "metadata", problem: problem.into() }
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let taken = taken.ok_or_else(|| {
            self.error(format!("a value of {length} bytes where {} are left", rest.len()))
        })?;
        self.at += taken.len();
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn string(&mut self) -> Result<Text<'a>> {
        let length = self.u64()?;
        let offset = self.at;
        Ok(Text { bytes: self.take(length)?, offset })
    }

    fn strings(&mut self) -> Result<Vec<Text<'a>>> {
        self.expect(Self::STRING)?;
        (0..self.u64()?).map(|_| self.string()).collect()
    }

    /// An array of numbers of four bytes.
    fn numbers<T>(&mut self, kind: u32, of_bits: impl Fn(u32) -> T) -> Result<Vec<T>> {
        self.expect(kind)?;
        let length = self.u64()?.saturating_mul(4);
        let (numbers, _) = self.take(length)?.as_chunks();
        Ok(numbers.iter().map(|&bytes| of_bits(u32::from_le_bytes(bytes))).collect())
    }

    fn expect(&mut self, kind: u32) -> Result<()> {
        match self.u32()? {
            found if found == kind => Ok(()),
            found => Err(self.error(format!("an array of type {found}, expected {kind}"))),
        }
    }

    /// Skips a value.
    fn skip(&mut self, kind: u32, depth: usize) -> Result<()> {
        if let Some(size) = size_of(kind) {
            return self.take(size).map(|_| ());
        }
        match kind {
            Self::STRING => self.string().map(|_| ()),
            Self::ARRAY if depth < MAX_DEPTH => {
                let kind = self.u32()?;
                let count = self.u64()?;
                match size_of(kind) {
                    Some(size) => self.take(size.saturating_mul(count)).map(|_| ()),
                    None => (0..count).try_for_each(|_| self.skip(kind, depth + 1)),
                }
            }
            Self::ARRAY => Err(self.error(format!("arrays nested deeper than {MAX_DEPTH}"))),
            _ => Err(self.error(format!("a value of unknown type {kind}"))),
        }
    }
}

/// The bytes of a number or truth value, `None` for strings, arrays and unknown types.
fn size_of(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}
