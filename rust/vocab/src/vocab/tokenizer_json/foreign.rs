//! The `tokenizers` library as an engine, for models that our own engines do not run: Unigram,
//! `WordPiece`, `WordLevel`, and BPE with components that we lack.
//!
//! In: a parsed file. Out: a [`Model`] that is not lossless: its components drop and change text.
//! Control is out of reach as in our engines. The library's model is built from text tokens alone,
//! with ids of its own, and the table from its ids to ours has no other id. Its unknown token is the
//! empty string, which no text spells; a text whose result contains it is refused.
//!
//! The library panics on some broken files (normalization tables that point outside of themselves),
//! when it is built or when it encodes. `catch_unwind` around every call turns a panic into an
//! error. A call changes no state here, so none can be left inconsistent.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::{AddedToken, AddedVocabulary, Encoding, Model as _, ModelWrapper, OffsetType};

use super::charsmap;
use super::file::{File, VocabTable};
use super::steps::{Budget, Normalizers, Normalizing, PreTokenizers};
use super::table::{Role, Table};
use super::{KIND, byte_of, findings, spellings};
use crate::bpe::SPACE_MARK;
use crate::error::{Error, Result};
use crate::vocab::model::{Engine, Model};
use crate::vocab::normalize::Normalizer;
use crate::vocab::tokens::{TokenKind, Tokens};
use crate::vocab::{DummyPrefix, TokenId, alphabet};

/// Longer tokens are refused: the library's tables are as deep as the longest.
const MAX_TOKEN_BYTES: usize = 1024;
/// `WordPiece` makes the unknown token of longer words; its time grows with the square of the
/// length.
const MAX_WORD_CHARS: usize = 1024;
/// Longer components are refused: components of real files have some hundred kilobytes at most.
const MAX_COMPONENT_BYTES: usize = 4 << 20;
/// Maximum length of a text without a token in an error.
const SHOWN_CHARS: usize = 24;
/// Maximum factor by which normalizers may lengthen a text.
const MAX_GROWTH: usize = 64;

/// The library's unknown token, which no text spells.
const UNREACHABLE: &str = "";

/// A model of the library, with the steps before it.
pub(crate) struct Foreign {
    model: ModelWrapper,
    added: AddedVocabulary,
    normalizers: Normalizers,
    pre_tokenizers: PreTokenizers,
    /// The steps for a text after other tokens, if they differ.
    continued: Option<PreTokenizers>,
    /// Our ids, indexed by the library's.
    ids: Vec<Option<TokenId>>,
}

impl Foreign {
    /// Appends the ids of `text`; `is_first` says that no token precedes it.
    ///
    /// # Errors
    /// [`Error`] that shows the text for which there is no token, and for a text that takes too many
    /// steps of a pattern.
    pub(crate) fn encode(&self, text: &str, is_first: bool, out: &mut Vec<TokenId>) -> Result<()> {
        let encoding = self.run(text, is_first, OffsetType::None)?;
        let start = out.len();
        for &id in encoding.get_ids() {
            if let Some(&Some(id)) = self.ids.get(id as usize) {
                out.push(id);
            } else {
                out.truncate(start);
                return Err(self.unknown(text, is_first));
            }
        }
        Ok(())
    }

    /// The steps of the library's own tokenizer, with a budget.
    fn run(&self, text: &str, is_first: bool, offsets: OffsetType) -> Result<Encoding> {
        let budget = Budget::of_text(text);
        let normalizing = Normalizing { steps: &self.normalizers, budget: &budget };
        let pieces =
            guard("text", || Ok(self.added.extract_and_normalize(Some(&normalizing), text)));
        budget.check("normalizer", text)?;
        let mut pieces = pieces?;
        let pre_tokenizers = match &self.continued {
            Some(continued) if !is_first => continued,
            _ => &self.pre_tokenizers,
        };
        let done = guard("text", || pre_tokenizers.run(&mut pieces, &budget));
        budget.check("pre_tokenizer", text)?;
        done?;
        guard("text", || {
            self.model.tokenize_in_pretokenized(&mut pieces, None)?;
            pieces.into_encoding(None, 0, offsets)
        })
    }

    /// The error for a text that holds something without a token.
    fn unknown(&self, text: &str, is_first: bool) -> Error {
        let found = self.run(text, is_first, OffsetType::Byte).ok().and_then(|encoding| {
            let mut tokens = encoding.get_ids().iter().zip(encoding.get_offsets());
            let is_known = |id: u32| matches!(self.ids.get(id as usize), Some(Some(_)));
            let (_, &(start, end)) = tokens.find(|&(&id, _)| !is_known(id))?;
            text.get(start..end)
        });
        let found: String = found.unwrap_or(text).chars().take(SHOWN_CHARS).collect();
        Error::new("text", format!("no token for {found:?}"))
    }
}

/// Calls the library; its errors and its panics are errors.
pub(super) fn guard<T>(
    component: &'static str,
    call: impl FnOnce() -> tokenizers::Result<T>,
) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| Error::new(component, error.to_string())),
        Err(_) => Err(Error::new(component, "the `tokenizers` library panicked")),
    }
}

/// Builds the library's tokenizer for a file that our engines refused.
pub(super) fn load(file: &File<'_>, table: &Table<'_>, ours: &Error) -> Result<Model> {
    for row in &table.rows {
        if row.text.len() > MAX_TOKEN_BYTES {
            let problem =
                format!("a token of {} bytes, expected at most {MAX_TOKEN_BYTES}", row.text.len());
            return Err(Error::new("model", problem));
        }
    }
    check_components(file)?;
    let decoding = Decoding::read(file)?;
    let value = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).unwrap_or_default();
    let normalizer = file.normalizer.map(value).unwrap_or_default();
    let normalizers = Normalizers::read(&normalizer)?;
    let mut pre_tokenizer = file.pre_tokenizer.map(value).unwrap_or_default();
    let pre_tokenizers = PreTokenizers::read(&pre_tokenizer)?;
    let is_other = without_first(&mut pre_tokenizer);
    let continued = is_other.then(|| PreTokenizers::read(&pre_tokenizer)).transpose()?;
    let (model, mut ids) = model(file, table)?;
    let added = add_tokens(&model, &normalizers, table, &mut ids)?;
    let dummy_prefix = match &continued {
        Some(_) => DummyPrefix::FirstRun,
        None if decoding.begins_with_space => DummyPrefix::EveryRun,
        None => DummyPrefix::Never,
    };
    Ok(Model {
        kind: KIND,
        engine: Engine::Foreign(Box::new(Foreign {
            model,
            added,
            normalizers,
            pre_tokenizers,
            continued,
            ids,
        })),
        tokens: Arc::new(decoding.tokens(table)),
        spellings: spellings(table, decoding.spelling == Spelling::Alphabet),
        strips: table.strips.clone(),
        dummy_prefix,
        normalizer: Normalizer::Identity,
        space_mark: decoding.spelling == Spelling::Marked,
        findings: findings::of(file, ours),
    })
}

/// Refuses components without a bound on the library's work.
fn check_components(file: &File<'_>) -> Result<()> {
    if let Some(raw) = file.pre_tokenizer {
        check_length("pre_tokenizer", raw.get())?;
    }
    let Some(raw) = file.normalizer else { return Ok(()) };
    check_length("normalizer", raw.get())?;
    let normalizer: Value = serde_json::from_str(raw.get()).unwrap_or_default();
    let mut growth = 1usize;
    for_each_component(&normalizer, &mut |component| {
        if let Some(table) = component.get("precompiled_charsmap").and_then(Value::as_str) {
            charsmap::check(table).map_err(|problem| {
                Error::new("normalizer", format!("`precompiled_charsmap` {problem}"))
            })?;
        }
        let length = |pointer| component.pointer(pointer).and_then(Value::as_str).map(str::len);
        if let Some(content) = length("/content") {
            let pattern = length("/pattern/String").unwrap_or(0);
            growth = growth.saturating_mul((content / pattern.max(1)).max(1));
        }
        if growth > MAX_GROWTH {
            let problem = format!("makes text over {MAX_GROWTH} times longer");
            return Err(Error::new("normalizer", problem));
        }
        Ok(())
    })
}

/// Calls `check` with a component and the components inside it.
fn for_each_component(
    component: &Value,
    check: &mut impl FnMut(&Value) -> Result<()>,
) -> Result<()> {
    check(component)?;
    let inside = component.get("normalizers").and_then(Value::as_array);
    inside.into_iter().flatten().try_for_each(|component| for_each_component(component, check))
}

fn check_length(component: &'static str, raw: &str) -> Result<()> {
    if raw.len() > MAX_COMPONENT_BYTES {
        let problem = format!("is longer than {MAX_COMPONENT_BYTES} bytes");
        return Err(Error::new(component, problem));
    }
    Ok(())
}

/// Turns a pre-tokenizer into the one for a text after other tokens; returns whether they differ.
/// Metaspace puts its prefix before the first text alone, and the library sees one text at a time.
fn without_first(value: &mut Value) -> bool {
    let mut found = false;
    if let Some(scheme) = value.get_mut("prepend_scheme").filter(|scheme| *scheme == "first") {
        *scheme = "never".into();
        found = true;
    }
    let inner = value.get_mut("pretokenizers").and_then(Value::as_array_mut);
    for value in inner.into_iter().flatten() {
        found |= without_first(value);
    }
    found
}

/// The library's model of a file's text tokens, and our ids indexed by the library's.
fn model(file: &File<'_>, table: &Table<'_>) -> Result<(ModelWrapper, Vec<Option<TokenId>>)> {
    let model = &file.model;
    let kind = model.kind();
    if let ("Unigram", VocabTable::Scores(scores)) = (kind, &model.vocab) {
        // Positions are ids here, and the lowest score matters: control tokens keep their position and score.
        let text = |id: usize, text: &str| {
            let text = if table.is_text(id as TokenId) { text } else { UNREACHABLE };
            text.to_owned()
        };
        let mut pieces: Vec<(String, f64)> = scores
            .iter()
            .enumerate()
            .map(|(id, (piece, score))| (text(id, piece), *score))
            .collect();
        let is_text = |id: &TokenId| table.is_text(*id);
        let mut ids: Vec<_> =
            (0..pieces.len()).map(|id| Some(id as TokenId).filter(is_text)).collect();
        let unknown = pieces.len();
        pieces.push((UNREACHABLE.to_owned(), f64::INFINITY));
        ids.push(None);
        let byte_fallback = model.byte_fallback == Some(true);
        let unigram = guard("model", || Unigram::from(pieces, Some(unknown), byte_fallback))?;
        return Ok((unigram.into(), ids));
    }
    if !matches!(model.vocab, VocabTable::Ids(_)) {
        return Err(Error::new("model", format!("a list of scores in a model of type `{kind}`")));
    }
    let rows = (0..).zip(&table.rows).filter(|(id, row)| row.in_model && table.is_text(*id));
    let mut ids = Vec::new();
    let mut names: Vec<(String, u32)> = Vec::new();
    for (id, row) in rows {
        names.push((row.text.to_owned(), ids.len() as u32));
        ids.push(Some(id));
    }
    names.push((UNREACHABLE.to_owned(), ids.len() as u32));
    ids.push(None);
    let prefix = model.continuing_subword_prefix.as_deref();
    let unknown = UNREACHABLE.to_owned();
    let built: ModelWrapper = match kind {
        "BPE" => bpe(file, table, names)?.into(),
        "WordPiece" => {
            let most = model.max_input_chars_per_word.unwrap_or(100);
            if most > MAX_WORD_CHARS {
                let problem =
                    format!("`max_input_chars_per_word` is {most}, at most {MAX_WORD_CHARS}");
                return Err(Error::new("model", problem));
            }
            let builder = WordPiece::builder()
                .vocab(names.into_iter().collect::<tokenizers::models::bpe::Vocab>())
                .unk_token(unknown)
                .continuing_subword_prefix(prefix.unwrap_or("##").to_owned())
                .max_input_chars_per_word(most);
            guard("model", || builder.build())?.into()
        }
        "WordLevel" => {
            let builder =
                WordLevel::builder().vocab(names.into_iter().collect()).unk_token(unknown);
            guard("model", || builder.build())?.into()
        }
        kind => {
            let problem = format!("model type `{kind}` is not implemented");
            return Err(Error::new("model", problem));
        }
    };
    Ok((built, ids))
}

fn bpe(file: &File<'_>, table: &Table<'_>, names: Vec<(String, u32)>) -> Result<BPE> {
    let model = &file.model;
    if model.dropout.is_some_and(|dropout| dropout != 0.0) {
        return Err(Error::new("model", "`dropout`, which makes ids random, expected none"));
    }
    let Some(listed) = &model.merges else {
        return Err(Error::new("merges", "none, expected a list"));
    };
    let prefix = model.continuing_subword_prefix.as_deref().unwrap_or_default();
    let mut merges = Vec::with_capacity(listed.0.len());
    let mut product = String::new();
    for (left, right) in &listed.0 {
        let (left, right) = (&**left, &**right);
        let Some(rest) = right.strip_prefix(prefix) else {
            let problem = format!(
                "a right side `{right}` without the prefix `{prefix}`, expected one with it"
            );
            return Err(Error::new("merges", problem));
        };
        product.clear();
        product.push_str(left);
        product.push_str(rest);
        let mut is_text = true;
        for token in [left, right, &product] {
            let Some(&id) = table.ids.get(token) else {
                let problem = format!("`{left}` and `{right}`, but no token `{token}`");
                return Err(Error::new("merges", problem));
            };
            is_text &= table.is_text(id);
        }
        if is_text {
            merges.push((left.to_owned(), right.to_owned()));
        }
    }
    let mut builder = BPE::builder()
        .vocab_and_merges(names.into_iter().collect::<tokenizers::models::bpe::Vocab>(), merges)
        .unk_token(UNREACHABLE.to_owned())
        .fuse_unk(model.fuse_unk == Some(true))
        .byte_fallback(model.byte_fallback == Some(true))
        .ignore_merges(model.ignore_merges == Some(true));
    if !prefix.is_empty() {
        builder = builder.continuing_subword_prefix(prefix.to_owned());
    }
    if let Some(suffix) = model.end_of_word_suffix.as_deref().filter(|suffix| !suffix.is_empty()) {
        builder = builder.end_of_word_suffix(suffix.to_owned());
    }
    guard("model", || builder.build())
}

/// The added tokens that are text; those that the model lacks get the library's next ids.
fn add_tokens(
    model: &ModelWrapper,
    normalizers: &Normalizers,
    table: &Table<'_>,
    ids: &mut Vec<Option<TokenId>>,
) -> Result<AddedVocabulary> {
    let mut vocabulary = AddedVocabulary::new();
    for &(id, token) in &table.added {
        let content = token.content.to_string();
        let added = AddedToken::from(content.clone(), token.special)
            .single_word(token.single_word)
            .lstrip(token.lstrip)
            .rstrip(token.rstrip)
            .normalized(token.normalized);
        let budget = Budget::of_text(&content);
        let normalizing = Normalizing { steps: normalizers, budget: &budget };
        let done =
            guard("added_tokens", || vocabulary.add_tokens([added], model, Some(&normalizing)));
        budget.check("normalizer", &content)?;
        done?;
        let place = vocabulary.token_to_id(&content, model).map(|place| place as usize);
        match place {
            Some(place) if place == ids.len() => ids.push(Some(id)),
            Some(place) if ids.get(place) == Some(&Some(id)) => {}
            _ => {
                let problem = format!("`{content}` has no id of its own");
                return Err(Error::new("added_tokens", problem));
            }
        }
    }
    Ok(vocabulary)
}

/// The rules by which tokens spell text: the file's decoder.
struct Decoding {
    spelling: Spelling,
    /// Whether the first space of a text is dropped.
    begins_with_space: bool,
    has_bytes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Spelling {
    /// Unchanged.
    Plain,
    /// In GPT-2's alphabet of bytes.
    Alphabet,
    /// With a mark for the space.
    Marked,
    /// Words with spaces between them; a token that continues a word begins with this prefix.
    Words { continued: Option<String> },
    /// A token that ends a word has this suffix.
    Ended(String),
}

impl Decoding {
    fn read(file: &File<'_>) -> Result<Self> {
        let Some(raw) = file.decoder else {
            // Without a decoder, the library puts a space between any two tokens.
            let spelling = Spelling::Words { continued: None };
            return Ok(Self { spelling, begins_with_space: true, has_bytes: false });
        };
        check_length("decoder", raw.get())?;
        let value: Value = serde_json::from_str(raw.get())
            .map_err(|error| Error::new("decoder", error.to_string()))?;
        let mut decoding =
            Self { spelling: Spelling::Plain, begins_with_space: false, has_bytes: false };
        decoding.apply(&value);
        Ok(decoding)
    }

    /// Applies a decoder, and the decoders inside it.
    fn apply(&mut self, decoder: &Value) {
        let text = |key: &str| decoder.get(key).and_then(Value::as_str);
        match text("type") {
            Some("Sequence") => {
                let decoders = decoder.get("decoders").and_then(Value::as_array);
                decoders.into_iter().flatten().for_each(|decoder| self.apply(decoder));
            }
            Some("ByteLevel") => self.spelling = Spelling::Alphabet,
            Some("ByteFallback") => self.has_bytes = true,
            Some("Metaspace") => {
                self.spelling = Spelling::Marked;
                let never = decoder.get("add_prefix_space").and_then(Value::as_bool) == Some(false)
                    || text("prepend_scheme") == Some("never");
                self.begins_with_space = !never;
            }
            Some("Replace") if text("content") == Some(" ") => self.spelling = Spelling::Marked,
            Some("Strip") if text("content") == Some(" ") => {
                let start = decoder.get("start").and_then(Value::as_u64);
                self.begins_with_space |= start.is_some_and(|start| start > 0);
            }
            Some("WordPiece") => {
                let continued = Some(text("prefix").unwrap_or("##").to_owned());
                self.spelling = Spelling::Words { continued };
                self.begins_with_space = true;
            }
            Some("BPEDecoder") => {
                self.spelling = Spelling::Ended(text("suffix").unwrap_or("</w>").to_owned());
            }
            _ => {}
        }
    }

    fn tokens(&self, table: &Table<'_>) -> Tokens {
        let mut tokens = Tokens::default();
        for row in &table.rows {
            match row.role {
                Role::Absent => tokens.push(b"", TokenKind::Unused),
                Role::Control | Role::Withheld => {
                    tokens.push(row.text.as_bytes(), TokenKind::Control);
                }
                Role::Added => tokens.push(row.text.as_bytes(), TokenKind::Text),
                Role::Text => match byte_of(row.text) {
                    Some(byte) if self.has_bytes => tokens.push(&[byte], TokenKind::Byte),
                    _ => tokens.push(&self.bytes(row.text), TokenKind::Text),
                },
            }
        }
        tokens
    }

    /// The bytes of a token.
    fn bytes(&self, token: &str) -> Vec<u8> {
        let text = match &self.spelling {
            Spelling::Plain => token.to_owned(),
            Spelling::Alphabet => match alphabet::bytes_of(token) {
                Some(bytes) => return bytes,
                None => token.to_owned(),
            },
            Spelling::Marked => token.replace(SPACE_MARK, " "),
            Spelling::Words { continued } => {
                let rest = continued.as_ref().and_then(|prefix| token.strip_prefix(&**prefix));
                rest.map_or_else(|| format!(" {token}"), str::to_owned)
            }
            Spelling::Ended(suffix) => {
                let word = token.strip_suffix(&**suffix);
                word.map_or_else(|| token.to_owned(), |word| format!("{word} "))
            }
        };
        text.into_bytes()
    }
}
