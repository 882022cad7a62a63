//! Choice of a vocabulary's files and of their reader, by content.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use hashbrown::HashSet;

use super::configs::{Added, CONFIGS};
use super::gguf::GgufChat;
use super::model::{Model, Policy};
use super::tokens::{TokenKind, Tokens};
use super::{
    Definition, TokenId, Vocab, detect, gguf, ranks, sentencepiece, sidecar, tekken, vocab_merges,
};
use crate::bpe::SPACE_MARK;
use crate::error::{Error, Result};
use detect::Chosen;

/// Contents of a vocabulary's files, with the caller's options.
///
/// ```
/// use chatcodec_vocab::{Vocab, VocabFiles};
///
/// let ranks = b"YQ== 0\nYg== 1\nYWI= 2\n"; // "a", "b" and "ab", as tiktoken writes them
/// assert!(!VocabFiles::is_gguf(ranks));
/// let problem = Vocab::load_files(VocabFiles::one(ranks)).unwrap_err();
/// assert!(!problem.to_string().is_empty()); // which pattern splits text?
/// ```
#[derive(Debug, Clone, Default)]
pub struct VocabFiles {
    /// File name without folder, and content. Names distinguish the files of one vocabulary; the content
    /// decides the kind of a file.
    pub files: Vec<(String, Arc<[u8]>)>,
    /// Facts that the files lack.
    pub options: VocabOptions,
}

/// A caller's options for a vocabulary: facts that its files lack.
///
/// ```
/// use chatcodec_vocab::{Vocab, VocabFiles, VocabOptions};
///
/// let ranks: String = (0..=255u8).map(|byte| {
///     let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
///     let digit = |bits: u8| letters[bits as usize] as char;
///     format!("{}{}== {byte}\n", digit(byte >> 2), digit((byte & 3) << 4))
/// }).collect();
/// let options = VocabOptions {
///     pattern: Some(r"\s+|\S+".into()),
///     special_tokens: vec![("<|end|>".into(), 256)],
///     ..VocabOptions::default()
/// };
/// let vocab = Vocab::load_files(VocabFiles { options, ..VocabFiles::one(ranks.as_bytes()) })?;
/// assert_eq!(vocab.encode("Hi"), [72, 105]);
/// assert!(vocab.is_control(256));
/// # Ok::<(), chatcodec_vocab::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VocabOptions {
    /// Spellings of added tokens that are ordinary text, in addition to the built-in list.
    pub text_tokens: Vec<String>,
    /// Special tokens that the files lack: spelling and id.
    pub special_tokens: Vec<(String, TokenId)>,
    /// Regular expression that splits text before merging, for files of ranks.
    pub pattern: Option<String>,
}

impl VocabFiles {
    /// A single file, without a name.
    pub fn one(bytes: &[u8]) -> Self {
        Self { files: vec![(String::new(), bytes.into())], options: VocabOptions::default() }
    }

    /// Number of bytes to read of a GGUF file: its vocabulary precedes its weights.
    pub const GGUF_HEAD_BYTES: usize = 32 << 20;

    /// What a GGUF file's metadata says about chat; nothing for other files.
    pub fn gguf_chat(bytes: &[u8]) -> GgufChat {
        if Self::is_gguf(bytes) { gguf::chat(bytes) } else { GgufChat::default() }
    }

    /// Whether the beginning of a file says that its first [`GGUF_HEAD_BYTES`](Self::GGUF_HEAD_BYTES)
    /// are enough.
    pub fn is_gguf(bytes: &[u8]) -> bool {
        bytes.starts_with(b"GGUF")
    }

    /// Whether a file's name is one that describes a vocabulary or a part of it.
    pub fn matters(name: &str) -> bool {
        const NAMES: [&str; 5] =
            ["tokenizer.json", "tekken.json", "vocab.json", "merges.txt", "tiktoken.model"];
        NAMES.contains(&name)
            || CONFIGS.contains(&name)
            || name.starts_with("tokenizer.model")
            || has_extension(name, "tiktoken")
            || has_extension(name, "gguf")
    }

    /// Whether a file of a directory is a vocabulary or half of one, by its name. Where there is one, GGUF
    /// files, which are large, need not be read.
    pub fn is_vocabulary(name: &str) -> bool {
        Self::matters(name) && !CONFIGS.contains(&name) && !has_extension(name, "gguf")
    }

    /// The names of the files to read beside a single given file, if they exist: a file of ranks or
    /// of merges is half a vocabulary, every other kind is whole.
    pub fn siblings(name: &str, bytes: &[u8]) -> &'static [&'static str] {
        const OF_RANKS: &[&str] = &CONFIGS;
        const OF_VOCAB: &[&str] = &["merges.txt", CONFIGS[0], CONFIGS[1], CONFIGS[2], CONFIGS[3]];
        const OF_MERGES: &[&str] = &["vocab.json", CONFIGS[0], CONFIGS[1], CONFIGS[2], CONFIGS[3]];
        match bytes {
            // SentencePiece and GGUF.
            [0x0A, ..] => &[],
            _ if Self::is_gguf(bytes) => &[],
            _ if name.ends_with("vocab.json") => OF_VOCAB,
            _ if name.ends_with("merges.txt") => OF_MERGES,
            [b'{', ..] => &[],
            _ => OF_RANKS,
        }
    }
}

/// Whether a file name has an ending, in any case.
pub(super) fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

/// Origin of a vocabulary: the input to load it again.
#[derive(Clone)]
pub(super) enum Source {
    Embedded,
    Files(Arc<VocabFiles>),
}

impl Source {
    /// The added tokens that the caller declares as text.
    pub(super) fn text_tokens(&self) -> &[String] {
        match self {
            Self::Embedded => &[],
            Self::Files(files) => &files.options.text_tokens,
        }
    }

    /// Reads the vocabulary; text cannot produce the ids in `withheld`.
    pub(super) fn load(self, withheld: HashSet<TokenId>) -> Result<Definition> {
        let embedded;
        let files = match &self {
            Self::Embedded => {
                embedded = VocabFiles::one(include_bytes!("embedded.model"));
                &embedded
            }
            Self::Files(files) => files,
        };
        let VocabOptions { text_tokens, special_tokens, .. } = &files.options;
        let found = RefCell::default();
        check_length(files)?;
        let added = Added::read(files)?;
        let special = &added.special;
        let policy =
            Policy { withheld: &withheld, text_tokens, special_tokens, special, found: &found };
        let model = load_model(files, &added, &policy)?;
        let text = found.into_inner().into_iter().collect();
        let mut control: BTreeMap<_, _> = model.spellings.iter().cloned().collect();
        let tokens = match &self {
            Self::Embedded => Arc::new(append_control(&model.tokens, &mut control)),
            Self::Files(_) => model.tokens.clone(),
        };
        let (source, model) = (self, Arc::new(model));
        let (appended, aliases, tags) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Definition { source, withheld, model, tokens, text, control, appended, aliases, tags })
    }
}

/// Refuses files that are longer than any vocabulary, before one is read.
fn check_length(files: &VocabFiles) -> Result<()> {
    let total: usize = files.files.iter().map(|(_, bytes)| bytes.len()).sum();
    if total > Vocab::MAX_FILE_BYTES {
        let limit = Vocab::MAX_FILE_BYTES;
        let problem = format!("is longer than {limit} bytes, the most that is read");
        return Err(Error::new("file", problem));
    }
    Ok(())
}

fn load_model(files: &VocabFiles, added: &Added, policy: &Policy<'_>) -> Result<Model> {
    let options = &files.options;
    let chosen = detect::choose(files)?;
    if options.pattern.is_some() && !chosen.takes_pattern() {
        let problem = "given, but the file says itself how text is parted";
        return Err(Error::new("pattern", problem));
    }
    let is_both = |spelling: &&String| options.special_tokens.iter().any(|(s, _)| s == *spelling);
    if let Some(spelling) = options.text_tokens.iter().find(is_both) {
        let problem = format!("`{spelling}` is one of `special_tokens`, too");
        return Err(Error::new("text_tokens", problem));
    }
    let model = match chosen {
        Chosen::TokenizerJson(bytes) => sidecar::load_tokenizer_json(bytes, added, policy),
        Chosen::SentencePiece(bytes) => sentencepiece::load(bytes, added, policy),
        Chosen::Tekken(bytes) => tekken::load(bytes, added, policy),
        Chosen::Ranks(bytes) => ranks::load(bytes, added, policy),
        Chosen::VocabMerges(vocab, merges) => vocab_merges::load(vocab, merges, added, policy),
        Chosen::Gguf(bytes) => gguf::load(bytes, added, policy),
    }?;
    // A token that a format made control stays control, whatever the caller's options are.
    if policy.withheld.is_empty() {
        check_text_tokens(&options.text_tokens, &model)?;
    }
    Ok(model)
}

/// Refuses a text token of the caller's options that the vocabulary lacks.
fn check_text_tokens(spellings: &[String], model: &Model) -> Result<()> {
    let unmarked = |spelling: &String| {
        if model.space_mark { spelling.replace(SPACE_MARK, " ") } else { spelling.clone() }
    };
    let mut missing: HashSet<String> = spellings.iter().map(unmarked).collect();
    for id in 0..model.tokens.len() as TokenId {
        if missing.is_empty() {
            break;
        }
        if let Some((TokenKind::Text, bytes)) = model.tokens.get(id)
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            missing.remove(text);
        }
    }
    match spellings.iter().find(|spelling| missing.contains(&unmarked(spelling))) {
        None => Ok(()),
        Some(spelling) => {
            let problem = format!("`{spelling}` is no added token of this vocabulary");
            Err(Error::new("text_tokens", problem))
        }
    }
}

/// The tokens of the embedded vocabulary's file, and the control tokens that `InternLM2` has.
fn append_control(tokens: &Tokens, control: &mut BTreeMap<String, TokenId>) -> Tokens {
    const FIRST: usize = 92_538;
    const SPELLINGS: [&str; 6] = [
        "<|plugin|>",
        "<|interpreter|>",
        "<|action_end|>",
        "<|action_start|>",
        "<|im_end|>",
        "<|im_start|>",
    ];
    let mut tokens = tokens.clone();
    for _ in tokens.len()..FIRST {
        tokens.push(b"", TokenKind::Unused);
    }
    for spelling in SPELLINGS {
        control.insert(spelling.to_owned(), tokens.len() as TokenId);
        tokens.push(spelling.as_bytes(), TokenKind::Control);
    }
    tokens
}
