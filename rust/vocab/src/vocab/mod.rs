//! Bytes to ids and back, with control kept apart.
//!
//! In: the bytes of a vocabulary file. Out: a frozen [`Vocab`], cheap to clone and shared between
//! threads. Its text encoder is built without the control tokens: the pieces that spell one, and
//! every merge that makes or uses one, are not in its tables, so no text reaches them.

mod alphabet;
mod byte_level;
mod canonical;
mod chars;
mod configs;
mod decode;
mod detect;
mod gguf;
mod loader;
mod model;
mod normalize;
mod proto;
mod ranks;
mod registry;
mod report;
mod sentencepiece;
mod sidecar;
mod table;
mod tekken;
mod text_pieces;
mod text_token_report;
mod tokenizer_json;
mod tokens;
mod vocab_merges;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use aho_corasick::{AhoCorasick, MatchKind};
use hashbrown::{HashMap, HashSet};

use crate::bpe::{LONGEST_TEXT, SPACE_MARK, Scratch, Sections};
use crate::error::{Error, Result};
use crate::huge_pages::make_room;
use crate::lock::try_lock;
use crate::stop::Stop;
use crate::token::{ControlId, DummyPrefix, TokenId};
pub use decode::{Spelling, TextDecoder, WholeTexts};
pub use gguf::GgufChat;
use loader::Source;
pub use loader::{VocabFiles, VocabOptions};
use model::Model;
pub use model::Strips;
pub use normalize::may_join;
pub use report::VocabReport;
pub use text_token_report::TextToken;
pub use tokens::TokenKind;
use tokens::Tokens;

/// Number of working memories kept: as many as threads are likely to encode at once.
const MAX_SCRATCHES: usize = 64;

/// Number of bytes of texts that are encoded together.
const JOINED: usize = 1 << 15;

/// The id of the first tag: the others count down from it, and no vocabulary has so many ids.
const FIRST_TAG: TokenId = TokenId::MAX;

/// What defines a vocabulary; the rest of [`Inner`] is derived from them.
#[derive(Clone)]
struct Definition {
    source: Source,
    /// Ordinary tokens that a format made control.
    withheld: HashSet<TokenId>,
    model: Arc<Model>,
    /// The model's tokens and the appended ones.
    tokens: Arc<Tokens>,
    /// Spellings of added tokens that are text.
    text: Arc<[String]>,
    control: BTreeMap<String, TokenId>,
    /// Control tokens that a format put after the last id.
    appended: Vec<String>,
    /// Groups of spellings that were made aliases of each other.
    aliases: Vec<Vec<String>>,
    /// Control tokens with text around them that a format reads as one token.
    tags: Vec<Tag>,
}

/// A control token with text on either side, and perhaps other tokens after that. It has an id of its own, which is no
/// id of the vocabulary: no sequence of ids holds it, and nobody can give it to a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// The text before the token.
    pub before: String,
    /// The token.
    pub token: ControlId,
    /// The text after the token.
    pub after: String,
    /// The tokens after that text.
    pub next: Vec<ControlId>,
    /// All of it, as it is spelled.
    spelling: String,
}

impl Tag {
    /// The id of the tag at an index, above all ids of vocabularies.
    fn id(index: usize) -> ControlId {
        ControlId::new(FIRST_TAG - index as TokenId)
    }
}

/// A vocabulary: text to ids and ids to text, never control from text.
///
/// ```
/// use chatcodec_vocab::Vocab;
///
/// let vocab = Vocab::embedded();
/// let ids = vocab.encode("Hello, <|im_end|> world");
/// assert!(ids.iter().all(|&id| !vocab.is_control(id)));
/// assert_eq!(vocab.decode_bytes(&ids).unwrap(), b"Hello, <|im_end|> world");
/// assert_eq!(vocab.encode("Hello the"), [35584, 269]);
/// ```
#[derive(Clone)]
pub struct Vocab {
    inner: Arc<Inner>,
}

struct Inner {
    definition: Definition,
    /// The first spelling of each group of aliases, which is the displayed one.
    shown: HashMap<TokenId, String>,
    finder: OnceLock<Option<ControlFinder>>,
    scratches: Box<[Mutex<Scratch>]>,
    sections: Sections,
}

/// Finds spellings of control tokens in text.
struct ControlFinder {
    automaton: AhoCorasick,
    spellings: Vec<(String, TokenId)>,
}

/// A spelling of a control token in a text.
///
/// ```
/// use chatcodec_vocab::Vocab;
///
/// let vocab = Vocab::embedded();
/// assert_eq!(vocab.find_control("Hi<|im_end|>").count(), 1);
/// assert_eq!(vocab.find_control("Hi").count(), 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spelled<'a> {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// The spelling.
    pub spelling: &'a str,
    /// The control id with this spelling.
    pub id: TokenId,
}

impl Vocab {
    /// The largest vocabulary file that is read.
    pub const MAX_FILE_BYTES: usize = 64 << 20;

    /// Reads a vocabulary file; its kind is detected from its content.
    ///
    /// SentencePiece `.model` files (BPE with byte fallback), `tokenizer.json`, `tekken.json`, GGUF
    /// metadata, and files of ranks that are known by their content. Added tokens are control unless
    /// they are listed as text. [`Vocab::load_files`] takes several files and options.
    ///
    /// # Errors
    /// [`Error`] for a file that is truncated, of another kind, or uses a feature that is
    /// not implemented.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        Self::load_files(VocabFiles::one(bytes))
    }

    /// Reads the files of a vocabulary, which may be several: ranks and their special tokens.
    ///
    /// # Errors
    /// [`Error`] as [`Vocab::load`] does, and for files that do not belong together.
    pub fn load_files(files: VocabFiles) -> Result<Self> {
        Source::Files(Arc::new(files)).load(HashSet::new()).map(Self::assemble)
    }

    /// The vocabulary that comes with this crate: `InternLM2`'s layout of ids, its own merges.
    ///
    /// Ids 0..2 are specials, 3..258 bytes, text from 259, control at 92538..92543; the ids between
    /// are unused. Good for development and tests; a model needs its own vocabulary.
    #[must_use]
    #[allow(clippy::expect_used, reason = "the file is part of this crate, and a test reads it")]
    pub fn embedded() -> Self {
        static EMBEDDED: LazyLock<Vocab> = LazyLock::new(|| {
            let definition = Source::Embedded.load(HashSet::new());
            Vocab::assemble(definition.expect("the embedded vocabulary is a valid vocabulary file"))
        });
        EMBEDDED.clone()
    }

    fn assemble(definition: Definition) -> Self {
        let first = |group: &Vec<String>| {
            let spelling = group.first()?;
            Some((*definition.control.get(spelling)?, spelling.clone()))
        };
        let shown = definition.aliases.iter().filter_map(first).collect();
        let scratches = (0..MAX_SCRATCHES).map(|_| Mutex::default()).collect();
        let inner = Inner {
            definition,
            shown,
            finder: OnceLock::new(),
            scratches,
            sections: Sections::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The files this vocabulary was read from; `None` for the embedded one.
    pub fn source(&self) -> Option<&VocabFiles> {
        match &self.inner.definition.source {
            Source::Embedded => None,
            Source::Files(files) => Some(files),
        }
    }

    /// The kind of its files: `sentencepiece`, `tokenizer.json`, `tiktoken` …
    pub fn kind(&self) -> &'static str {
        self.inner.definition.model.kind
    }

    /// Whether decoding gives back every text, apart from the changes of [`Vocab::normalise`];
    /// [`Vocab::report`] says why not. With [`DummyPrefix::FirstRun`], a space is put before the first text
    /// unless the text begins with one. There [`Vocab::encode`] gives the reference's ids: a text that begins
    /// with a space has the ids of the text without it. The codec of the crate `chatcodec` writes the space.
    pub fn lossless(&self) -> bool {
        self.inner.definition.model.findings.losses.is_empty()
    }

    /// Groups of spellings that a format made aliases of each other. With [`Vocab::source`], they
    /// define this vocabulary.
    #[doc(hidden)]
    pub fn aliases(&self) -> &[Vec<String>] {
        &self.inner.definition.aliases
    }

    /// Control tokens that a format put after the last id. With [`Vocab::source`] and
    /// [`Vocab::aliases`], they define this vocabulary.
    #[doc(hidden)]
    pub fn appended(&self) -> &[String] {
        &self.inner.definition.appended
    }

    /// This vocabulary with the additions that a format made to another one.
    #[doc(hidden)]
    pub fn restore(&self, appended: &[String], aliases: &[Vec<String>]) -> Result<Self> {
        self.with_appended(appended)?.with_aliases(aliases).map(|(vocab, _)| vocab)
    }

    /// This vocabulary with control tokens after its last id, except those that it has already.
    pub fn with_appended(&self, spellings: &[String]) -> Result<Self> {
        let inner = &*self.inner;
        let new: Vec<&String> = spellings
            .iter()
            .filter(|spelling| !inner.definition.control.contains_key(*spelling))
            .collect();
        if new.is_empty() {
            return Ok(self.clone());
        }
        if self.size() + new.len() > TokenId::MAX as usize {
            return Err(Error::new("control", "has no ids left to append"));
        }
        let mut tokens = Tokens::clone(&inner.definition.tokens);
        let (mut control, mut appended) =
            (inner.definition.control.clone(), inner.definition.appended.clone());
        for spelling in new {
            control.insert(spelling.clone(), tokens.len() as TokenId);
            tokens.push(spelling.as_bytes(), TokenKind::Control);
            appended.push(spelling.clone());
        }
        Ok(Self::assemble(Definition {
            tokens: Arc::new(tokens),
            control,
            appended,
            ..inner.definition.clone()
        }))
    }

    /// A broken vocabulary, for tests: `id` is control, and the encoder still makes it of text.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_leaking(&self, id: TokenId) -> Self {
        let inner = &*self.inner;
        let mut tokens = Tokens::clone(&inner.definition.tokens);
        tokens.set_kind(id, TokenKind::Control);
        Self::assemble(Definition { tokens: Arc::new(tokens), ..inner.definition.clone() })
    }

    /// The number of ids, unused ones included.
    pub fn size(&self) -> usize {
        self.inner.definition.tokens.len()
    }

    /// Every spelling of every control token, with its id.
    pub fn control(&self) -> &BTreeMap<String, TokenId> {
        &self.inner.definition.control
    }

    /// Whether an id is never the encoding of text: control, unused, or outside the vocabulary.
    #[inline]
    pub fn is_control(&self, id: TokenId) -> bool {
        !self.inner.definition.tokens.is_text(id)
    }

    /// The first of some ids that is never the encoding of text.
    #[inline]
    pub fn first_control(&self, ids: &[TokenId]) -> Option<TokenId> {
        let tokens = &self.inner.definition.tokens;
        // Checks all ids without a branch.
        let is_text = ids.iter().fold(true, |all, &id| all & tokens.is_text(id));
        if is_text { None } else { ids.iter().copied().find(|&id| self.is_control(id)) }
    }

    /// Whether a space is put before text.
    #[inline]
    pub fn dummy_prefix(&self) -> DummyPrefix {
        self.inner.definition.model.dummy_prefix
    }

    /// Whether the first text gets no space before it if it begins with one.
    #[inline]
    pub fn shares_first_space(&self, text: &str) -> bool {
        self.dummy_prefix() == DummyPrefix::FirstRun && text.starts_with([' ', SPACE_MARK])
    }

    /// Whether white space is collapsed before encoding, which loses text.
    pub fn collapses_spaces(&self) -> bool {
        self.inner.definition.model.normalizer.collapses_spaces()
    }

    /// Text to ids, never control. Linear; the ids of the reference's plain `encode` for every text
    /// that spells no control token.
    ///
    /// # Errors
    /// [`Error`] for a character without a token, in a vocabulary that is not
    /// [lossless](Self::lossless).
    pub fn try_encode(&self, text: &str) -> Result<Vec<TokenId>> {
        self.try_encode_on(1, text)
    }

    /// [`Vocab::try_encode`] with at most `threads` threads. A thread gets at least 256 KiB, and text is
    /// split where that changes no id. The ids are the same for any number of threads.
    ///
    /// # Errors
    /// As there.
    pub fn try_encode_on(&self, threads: usize, text: &str) -> Result<Vec<TokenId>> {
        let mut ids = with_room(text);
        self.with_scratch(|scratch| {
            let prefix = self.dummy_prefix() != DummyPrefix::Never;
            self.encode_run(threads, &self.normalise(text), prefix, scratch, &mut ids)
        })?;
        ids.shrink_to_fit();
        Ok(ids)
    }

    /// [`Vocab::try_encode`] of many texts: appends the ids of each to `ids`, and the number of all ids up to its end
    /// to `counts`. The ids are those of each text alone, sooner: short texts are encoded together.
    ///
    /// # Errors
    /// As there; then `counts` has one more for each text before the one with the error.
    pub fn try_encode_each<'a>(
        &self,
        texts: impl IntoIterator<Item = &'a str>,
        ids: &mut Vec<TokenId>,
        counts: &mut Vec<usize>,
    ) -> Result<()> {
        let prefix = self.dummy_prefix() != DummyPrefix::Never;
        let engine = &self.inner.definition.model.engine;
        let stop = Stop::current();
        self.with_scratch(|scratch| {
            let (mut joined, mut ends) = (String::new(), Vec::new());
            let encode = |joined: &mut String,
                          ends: &mut Vec<usize>,
                          scratch: &mut _,
                          ids: &mut _,
                          counts: &mut _| {
                if stop.as_ref().is_some_and(Stop::is_asked) {
                    return Err(Stop::error());
                }
                engine.encode_each(joined, ends, prefix, scratch, ids, counts)?;
                joined.clear();
                ends.clear();
                Ok(())
            };
            for text in texts {
                let text = self.normalise(text);
                if joined.len() + text.len() > JOINED {
                    encode(&mut joined, &mut ends, scratch, ids, counts)?;
                }
                if text.len() > JOINED {
                    self.encode_sections(&text, prefix, scratch, ids)?;
                    counts.push(ids.len());
                    continue;
                }
                joined.push_str(&text);
                ends.push(joined.len());
            }
            encode(&mut joined, &mut ends, scratch, ids, counts)
        })
    }

    /// Text to ids as [`Vocab::try_encode`], for vocabularies that are [lossless](Self::lossless).
    ///
    /// # Panics
    /// If `try_encode` gives an error. A lossless vocabulary gives one only for a hostile pattern
    /// in its file, when a text takes more steps than with any real pattern.
    #[allow(clippy::expect_used, reason = "says so")]
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        self.try_encode(text).expect("a vocabulary that is lossless encodes every text")
    }

    /// Ids to bytes; control tokens become their spelling.
    ///
    /// # Errors
    /// [`Error`] for an id outside the vocabulary.
    pub fn decode_bytes(&self, ids: &[TokenId]) -> Result<Vec<u8>> {
        decode::decode_bytes(self, ids, Spelling::Spell)
    }

    /// Ids to text; bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// [`Error`] for an id outside the vocabulary.
    pub fn decode(&self, ids: &[TokenId], control: Spelling) -> Result<String> {
        let bytes = decode::decode_bytes(self, ids, control)?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into()))
    }

    /// The bytes of one token: its text, a control token's spelling, nothing for an unused id.
    ///
    /// # Errors
    /// [`Error`] for an id outside the vocabulary.
    pub fn token_bytes(&self, id: TokenId) -> Result<&[u8]> {
        self.token(id).map(|(_, bytes)| bytes).ok_or_else(|| self.unknown_id(id))
    }

    /// The ids that each group of spellings names.
    pub fn ids_of(&self, groups: &[Vec<String>]) -> Vec<Vec<TokenId>> {
        let tokens = &self.inner.definition.tokens;
        let known = |spelling: &String| self.inner.definition.control.contains_key(spelling);
        // A spelling that is not a control token yet may be an ordinary piece; one pass finds all
        // of them.
        let mut ordinary: HashMap<&[u8], Option<TokenId>> =
            groups.iter().flatten().filter(|s| !known(s)).map(|s| (s.as_bytes(), None)).collect();
        if let Some(longest) = ordinary.keys().map(|spelling| spelling.len()).max() {
            let (mut has_length, mut has_first) = (vec![false; longest + 1], [false; 256]);
            for spelling in ordinary.keys() {
                has_length[spelling.len()] = true;
                spelling.first().iter().for_each(|&&first| has_first[usize::from(first)] = true);
            }
            for id in 0..tokens.len() as TokenId {
                if let Some((TokenKind::Text, bytes)) = tokens.get(id)
                    && has_length.get(bytes.len()) == Some(&true)
                    && bytes.first().is_none_or(|&first| has_first[usize::from(first)])
                    && let Some(found) = ordinary.get_mut(bytes)
                {
                    found.get_or_insert(id);
                }
            }
        }
        let id_of = |spelling: &String| {
            let ordinary = || ordinary.get(spelling.as_bytes()).copied().flatten();
            self.inner.definition.control.get(spelling).copied().or_else(ordinary)
        };
        let ids = |group: &Vec<String>| {
            let mut ids: Vec<TokenId> = group.iter().filter_map(id_of).collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        groups.iter().map(ids).collect()
    }

    /// The control tokens that `groups` of spellings name, and the vocabulary in which all spellings
    /// of a group are aliases of its id.
    pub fn with_aliases(&self, groups: &[Vec<String>]) -> Result<(Self, Vec<ControlId>)> {
        let mut ids = Vec::with_capacity(groups.len());
        for (group, known) in groups.iter().zip(self.ids_of(groups)) {
            let spellings = || group.join("`, `");
            let [id] = known[..] else {
                let problem = format!("`{}` name ids {known:?}, expected one", spellings());
                return Err(Error::new("control", problem));
            };
            if ids.contains(&id) {
                let problem = format!("`{}` name id {id}, which has another name", spellings());
                return Err(Error::new("control", problem));
            }
            ids.push(id);
        }
        let vocab = self.without_text(&ids)?.with_groups(groups, &ids);
        Ok((vocab, ids.into_iter().map(ControlId::new).collect()))
    }

    /// This vocabulary with these tags in place of others, text around a control token each; and the ids of the
    /// tags.
    #[must_use]
    pub fn with_tags(
        &self,
        tags: Vec<(String, ControlId, String, Vec<ControlId>)>,
    ) -> (Self, Vec<ControlId>) {
        let tags: Vec<Tag> = tags
            .into_iter()
            .map(|(before, token, after, next)| {
                let end = next.iter().map(|next| self.spelling(next.get())).collect::<String>();
                let spelling = format!("{before}{}{after}{end}", self.spelling(token.get()));
                Tag { before, token, after, next, spelling }
            })
            .collect();
        let ids = (0..tags.len()).map(Tag::id).collect();
        (Self::assemble(Definition { tags, ..self.inner.definition.clone() }), ids)
    }

    /// The tag with an id.
    #[inline]
    pub fn tag(&self, id: TokenId) -> Option<&Tag> {
        let index = usize::try_from(FIRST_TAG.checked_sub(id)?).ok()?;
        self.inner.definition.tags.get(index)
    }

    /// The tags, each with its id.
    pub fn tags(&self) -> impl Iterator<Item = (TokenId, &Tag)> {
        self.inner.definition.tags.iter().enumerate().map(|(at, tag)| (Tag::id(at).get(), tag))
    }

    /// This vocabulary with more aliases; `ids` are control in it.
    fn with_groups(&self, groups: &[Vec<String>], ids: &[TokenId]) -> Self {
        let inner = &*self.inner;
        let mut control = inner.definition.control.clone();
        for (group, &id) in groups.iter().zip(ids) {
            control.extend(group.iter().map(|spelling| (spelling.clone(), id)));
        }
        let mut aliases = inner.definition.aliases.clone();
        aliases.extend(
            groups.iter().filter(|group| !inner.definition.aliases.contains(group)).cloned(),
        );
        Self::assemble(Definition { control, aliases, ..inner.definition.clone() })
    }

    /// This vocabulary with those words control that are text by their shape alone and that these texts spell: what
    /// writes a token as a marker makes it one.
    ///
    /// # Errors
    /// [`Error`] if the vocabulary cannot do without them.
    pub fn without_words_of<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let words = self.text_tokens();
        let words: Vec<(String, TokenId)> = words
            .into_iter()
            .filter(|token| text_pieces::is_by_shape(&token.spelling) && token.reason.is_some())
            .map(|token| (token.spelling.replace(SPACE_MARK, " "), token.id))
            .collect();
        if words.is_empty() {
            return Ok(self.clone());
        }
        let finder = AhoCorasick::new(words.iter().map(|(spelling, _)| spelling.as_str()));
        let finder = finder.map_err(|error| Error::new("added_tokens", error.to_string()))?;
        let mut spelled: Vec<TokenId> = Vec::new();
        for text in texts {
            let found = finder.find_overlapping_iter(text);
            spelled.extend(found.map(|found| words[found.pattern().as_usize()].1));
        }
        self.without_text(&spelled)
    }

    /// This vocabulary with `ids` out of reach for text, which most are already.
    fn without_text(&self, ids: &[TokenId]) -> Result<Self> {
        let inner = &*self.inner;
        let mut withheld = inner.definition.withheld.clone();
        withheld.extend(ids.iter().filter(|&&id| !self.is_control(id)));
        if withheld.len() == inner.definition.withheld.len() {
            return Ok(self.clone());
        }
        let base = Self::assemble(inner.definition.source.clone().load(withheld)?);
        if self.lossless() && !base.lossless() {
            let losses = base.inner.definition.model.findings.losses.join("; ");
            let problem = format!(
                "has tokens that text cannot do without, which the format makes control: {losses}"
            );
            return Err(Error::new("control", problem));
        }
        let base = base.with_appended(&inner.definition.appended)?;
        let known: Vec<TokenId> = inner
            .definition
            .aliases
            .iter()
            .filter_map(|group| inner.definition.control.get(group.first()?))
            .copied()
            .collect();
        Ok(base.with_groups(&inner.definition.aliases, &known))
    }

    /// The normalised text; borrowed where normalisation changes nothing.
    #[inline]
    pub fn normalise<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.inner.definition.model.normalizer.apply(text)
    }

    /// Whether normalising a text may change it otherwise than normalising its parts: white space is collapsed
    /// or stripped.
    #[inline]
    pub fn normalises_whole_texts(&self) -> bool {
        self.inner.definition.model.normalizer.is_of_whole_texts()
    }

    /// `text` after a round trip: normalised, with a space for each space mark.
    pub fn canonical_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.spaced(self.normalise(text))
    }

    /// A decoder of ids to text, at the start of a text.
    pub fn text_decoder(&self) -> TextDecoder {
        TextDecoder::new(self.dummy_prefix())
    }

    /// Whether U+2581 in a text reads back as a space.
    #[inline]
    pub fn reads_space_mark(&self) -> bool {
        self.inner.definition.model.space_mark
    }

    /// Normalised text after a round trip: with a space for each space mark.
    #[inline]
    pub fn spaced<'a>(&self, text: Cow<'a, str>) -> Cow<'a, str> {
        if self.inner.definition.model.space_mark && text.contains(SPACE_MARK) {
            Cow::Owned(text.replace(SPACE_MARK, " "))
        } else {
            text
        }
    }

    /// Runs `work` with a working memory of this vocabulary that no other thread uses meanwhile.
    pub fn with_scratch<T>(&self, work: impl FnOnce(&mut Scratch) -> T) -> T {
        // Never blocks: skips a memory that another thread uses, or used when the process was
        // forked.
        let Some(mut scratch) = self.inner.scratches.iter().find_map(try_lock) else {
            return work(&mut Scratch::default());
        };
        let result = work(&mut scratch);
        if scratch.is_large() {
            *scratch = Scratch::default();
        }
        result
    }

    /// Appends the ids of one run of text between two control tokens, encoded by at most `threads`
    /// threads.
    pub fn encode_run(
        &self,
        threads: usize,
        text: &str,
        dummy_prefix: bool,
        scratch: &mut Scratch,
        ids: &mut Vec<TokenId>,
    ) -> Result<()> {
        let engine = &self.inner.definition.model.engine;
        if threads > 1
            && let [first, rest @ ..] = &engine.parts(text, threads.min(MAX_SCRATCHES))[..]
            && !rest.is_empty()
        {
            return std::thread::scope(|scope| {
                // If the system gives no more threads, this thread does the work.
                let stop = Stop::current();
                let spawn = |part| {
                    let stop = stop.clone();
                    let work = move || Stop::within(stop, || self.encode_part(part));
                    (part, std::thread::Builder::new().spawn_scoped(scope, work).ok())
                };
                let others: Vec<_> = rest.iter().map(|&part| spawn(part)).collect();
                self.encode_sections(first, dummy_prefix, scratch, ids)?;
                for (part, thread) in others {
                    match thread.map(std::thread::ScopedJoinHandle::join) {
                        Some(Ok(part)) => ids.extend(part?),
                        Some(Err(panic)) => std::panic::resume_unwind(panic),
                        None => self.encode_sections(part, false, scratch, ids)?,
                    }
                }
                Ok(())
            });
        }
        scratch.recall_or(text, dummy_prefix, ids, |scratch, ids| {
            self.encode_sections(text, dummy_prefix, scratch, ids)
        })
    }

    /// The ids of a part of a text that is not the first part.
    fn encode_part(&self, part: &str) -> Result<Vec<TokenId>> {
        let mut ids = with_room(part);
        self.with_scratch(|scratch| self.encode_sections(part, false, scratch, &mut ids))?;
        Ok(ids)
    }

    /// Appends the ids of a text; those of a long text section by section, with a check of the stop flag before each.
    fn encode_sections(
        &self,
        text: &str,
        dummy_prefix: bool,
        scratch: &mut Scratch,
        ids: &mut Vec<TokenId>,
    ) -> Result<()> {
        let engine = &self.inner.definition.model.engine;
        if text.len() <= LONGEST_TEXT {
            return engine.encode(text, dummy_prefix, scratch, ids);
        }
        let stop = Stop::current();
        for (nth, section) in engine.sections(text).into_iter().enumerate() {
            if stop.as_ref().is_some_and(Stop::is_asked) {
                return Err(Stop::error());
            }
            let dummy_prefix = dummy_prefix && nth == 0;
            self.inner.sections.recall_or(section, dummy_prefix, ids, |ids| {
                engine.encode(section, dummy_prefix, scratch, ids)
            })?;
        }
        Ok(())
    }

    /// The effect of a control token on adjacent white space in a template.
    #[inline]
    pub fn strips(&self, id: TokenId) -> Strips {
        self.inner.definition.model.strips.get(&id).copied().unwrap_or_default()
    }

    /// Number of bytes of `text` covered by a token that begins at byte `at`, which may be within a
    /// character.
    pub fn covered(&self, id: TokenId, text: &str, at: usize) -> usize {
        let left = text.len().saturating_sub(at);
        match (self.token(id), text.get(at..)) {
            (Some((TokenKind::Byte, _)), _) => left.min(1),
            (Some((TokenKind::Text, bytes)), Some(rest)) => self.covered_by(bytes, rest),
            // Byte-level tokens may begin and end within characters.
            (Some((TokenKind::Text, bytes)), None) => left.min(bytes.len()),
            _ => 0,
        }
    }

    /// Number of bytes of `rest` covered by a token with these `bytes`. Where spaces have a mark,
    /// characters are counted, because a space of a token may be a mark in the text.
    pub fn covered_by(&self, bytes: &[u8], rest: &str) -> usize {
        if !self.inner.definition.model.space_mark {
            return rest.len().min(bytes.len());
        }
        let chars = bytes.iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
        rest.char_indices().nth(chars).map_or(rest.len(), |(at, _)| at)
    }

    /// The texts of the tokens that are whole characters. They are made once for a vocabulary and all that are made
    /// from it with the same tokens.
    #[inline]
    pub fn whole_texts(&self) -> &WholeTexts {
        self.inner.definition.tokens.whole_texts()
    }

    /// The kind of an id, and its bytes; those of a control token are its spelling.
    #[inline]
    pub fn token(&self, id: TokenId) -> Option<(TokenKind, &[u8])> {
        match self.inner.definition.tokens.get(id)? {
            (TokenKind::Control, bytes) => {
                let shown = self.inner.shown.get(&id).map(String::as_bytes);
                Some((TokenKind::Control, shown.unwrap_or(bytes)))
            }
            token => Some(token),
        }
    }

    /// The displayed spelling of a control token, or of a tag.
    #[inline]
    pub fn spelling(&self, id: TokenId) -> &str {
        if let Some(tag) = self.tag(id) {
            return &tag.spelling;
        }
        if let Some(shown) = self.inner.shown.get(&id) {
            return shown;
        }
        let bytes = self.inner.definition.tokens.get(id).map_or(&b""[..], |(_, bytes)| bytes);
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// The error for an id outside the vocabulary.
    pub fn unknown_id(&self, id: TokenId) -> Error {
        let size = self.size();
        Error::new("id", format!("{id} is outside the vocabulary of {size} ids"))
    }

    /// The control token with an id, for an encoder that found its spelling in text of its own; `None`
    /// for an id of text.
    #[inline]
    pub fn control_id(&self, id: TokenId) -> Option<ControlId> {
        self.is_control(id).then(|| ControlId::new(id))
    }

    /// Spellings of control tokens in `text`: leftmost-longest, not overlapping.
    pub fn find_control<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Spelled<'a>> + 'a {
        let finder = &self.inner.finder;
        // Built before it is stored: two threads may both build it, and neither waits for the other,
        // which may not exist in a forked process.
        let built = if finder.get().is_none() { Some(self.build_finder()) } else { None };
        let finder = finder.get_or_init(|| built.unwrap_or_default()).as_ref();
        finder.into_iter().flat_map(move |finder| {
            finder.automaton.find_iter(text).map(move |found| {
                let (spelling, id) = &finder.spellings[found.pattern().as_usize()];
                Spelled { start: found.start(), end: found.end(), spelling, id: *id }
            })
        })
    }

    fn build_finder(&self) -> Option<ControlFinder> {
        let spellings: Vec<(String, TokenId)> = self
            .inner
            .definition
            .control
            .iter()
            .map(|(spelling, &id)| (spelling.clone(), id))
            .collect();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(spellings.iter().map(|(spelling, _)| spelling))
            .ok()?;
        Some(ControlFinder { automaton, spellings })
    }

    /// Every merge of the text encoder as the ids of left, right and product, `None` for a
    /// character without a token. Checks use it to prove that control is out of reach.
    #[doc(hidden)]
    pub fn merge_ids(&self) -> impl Iterator<Item = [Option<TokenId>; 3]> + '_ {
        self.inner.definition.model.engine.merge_ids()
    }
}

impl fmt::Debug for Vocab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocab")
            .field("size", &self.size())
            .field("control", &self.inner.definition.control.len())
            .finish_non_exhaustive()
    }
}

/// An empty list with room for the ids of nearly any text: emoji have up to twelve ids for twenty bytes.
pub fn with_room(text: &str) -> Vec<TokenId> {
    let mut ids = Vec::new();
    make_room(&mut ids, text.len() / 8 * 5);
    ids
}

/// Whether a token's bytes begin with a space, as a dummy prefix would.
pub fn begins_with_space(bytes: &[u8]) -> bool {
    bytes.first() == Some(&b' ')
}
