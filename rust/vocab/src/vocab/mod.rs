//! Bytes to ids and back, with control kept apart.
//!
//! In: the bytes of a vocabulary file. Out: a frozen [`Vocab`], cheap to clone and shared between
//! threads. Its text encoder is built without the control tokens: the pieces that spell one, and
//! every merge that makes or uses one, are not in its tables, so no text reaches them.

mod alphabet;
mod base64;
mod byte_level;
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
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, TryLockError};

use aho_corasick::{AhoCorasick, MatchKind};
use hashbrown::{HashMap, HashSet};

use crate::bpe::{SPACE_MARK, Scratch};
use crate::error::{Error, Result};
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

/// As many working memories are kept as threads are likely to encode at once.
const MAX_SCRATCHES: usize = 64;

/// So much text is encoded between two looks at whether to stop: it takes some hundredths of a second.
const STRETCH: usize = 1 << 20;

/// The parts that decide what a vocabulary is; the rest of [`Inner`] is derived from them.
#[derive(Clone)]
struct Parts {
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
/// ```
#[derive(Clone)]
pub struct Vocab {
    inner: Arc<Inner>,
}

struct Inner {
    parts: Parts,
    /// The first spelling of each group of aliases, which is the one that is shown.
    shown: HashMap<TokenId, String>,
    finder: OnceLock<Option<ControlFinder>>,
    scratches: Box<[Mutex<Scratch>]>,
}

/// Finds spellings of control tokens in text.
struct ControlFinder {
    automaton: AhoCorasick,
    spellings: Vec<(String, TokenId)>,
}

/// A spelling of a control token in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spelled<'a> {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// The spelling.
    pub spelling: &'a str,
    /// The control id that the spelling is of.
    pub id: TokenId,
}

impl Vocab {
    /// The largest vocabulary file that is read.
    pub const MAX_FILE_BYTES: usize = 64 << 20;

    /// Reads a vocabulary file; its kind is detected from its content.
    ///
    /// SentencePiece `.model` files (BPE with byte fallback), `tokenizer.json`, `tekken.json`, GGUF
    /// metadata, and files of ranks that are known by their content. Added tokens are control unless
    /// they are listed as text. What needs more than one file, or a word from the caller, is for
    /// [`Vocab::load_files`].
    ///
    /// # Errors
    /// [`Error`] for a file that is cut, of another kind, or uses what is not implemented.
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
            let parts = Source::Embedded.load(HashSet::new());
            Vocab::assemble(parts.expect("the embedded vocabulary is a valid vocabulary file"))
        });
        EMBEDDED.clone()
    }

    fn assemble(parts: Parts) -> Self {
        let first = |group: &Vec<String>| {
            let spelling = group.first()?;
            Some((*parts.control.get(spelling)?, spelling.clone()))
        };
        let shown = parts.aliases.iter().filter_map(first).collect();
        let scratches = (0..MAX_SCRATCHES).map(|_| Mutex::default()).collect();
        let inner = Inner { parts, shown, finder: OnceLock::new(), scratches };
        Self { inner: Arc::new(inner) }
    }

    /// The files this vocabulary was read from; `None` for the embedded one.
    pub fn source(&self) -> Option<&VocabFiles> {
        match &self.inner.parts.source {
            Source::Embedded => None,
            Source::Files(files) => Some(files),
        }
    }

    /// The kind of its files: `sentencepiece`, `tokenizer.json`, `tiktoken` …
    pub fn kind(&self) -> &'static str {
        self.inner.parts.model.kind
    }

    /// Whether decoding gives back every text, up to what [`Vocab::normalise`] changes; why not,
    /// [`Vocab::report`] says. Where a space is put before the first text alone, unless it begins with one
    /// ([`DummyPrefix::FirstRun`]), [`Vocab::encode`] gives the reference's ids, and a text that begins with a
    /// space those of the text without it; the codec of the crate `chatcodec` writes the space.
    pub fn lossless(&self) -> bool {
        self.inner.parts.model.findings.losses.is_empty()
    }

    /// Groups of spellings that a format made aliases of each other: with [`Vocab::source`] what is
    /// needed to make this vocabulary again.
    #[doc(hidden)]
    pub fn aliases(&self) -> &[Vec<String>] {
        &self.inner.parts.aliases
    }

    /// Control tokens that a format put after the last id: with [`Vocab::source`] and
    /// [`Vocab::aliases`] what is needed to make this vocabulary again.
    #[doc(hidden)]
    pub fn appended(&self) -> &[String] {
        &self.inner.parts.appended
    }

    /// This vocabulary with what a format added to another.
    #[doc(hidden)]
    pub fn restore(&self, appended: &[String], aliases: &[Vec<String>]) -> Result<Self> {
        self.with_appended(appended)?.with_aliases(aliases).map(|(vocab, _)| vocab)
    }

    /// This vocabulary with control tokens after its last id, those left out that it has already.
    pub fn with_appended(&self, spellings: &[String]) -> Result<Self> {
        let inner = &*self.inner;
        let new: Vec<&String> = spellings
            .iter()
            .filter(|spelling| !inner.parts.control.contains_key(*spelling))
            .collect();
        if new.is_empty() {
            return Ok(self.clone());
        }
        if self.size() + new.len() > TokenId::MAX as usize {
            return Err(Error::new("control", "has no ids left to append"));
        }
        let mut tokens = Tokens::clone(&inner.parts.tokens);
        let (mut control, mut appended) =
            (inner.parts.control.clone(), inner.parts.appended.clone());
        for spelling in new {
            control.insert(spelling.clone(), tokens.len() as TokenId);
            tokens.push(spelling.as_bytes(), TokenKind::Control);
            appended.push(spelling.clone());
        }
        Ok(Self::assemble(Parts {
            tokens: Arc::new(tokens),
            control,
            appended,
            ..inner.parts.clone()
        }))
    }

    /// A broken vocabulary: `id` is control, and the encoder, which does not know, still makes it of text.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_leaking(&self, id: TokenId) -> Self {
        let inner = &*self.inner;
        let mut tokens = Tokens::clone(&inner.parts.tokens);
        tokens.set_kind(id, TokenKind::Control);
        Self::assemble(Parts { tokens: Arc::new(tokens), ..inner.parts.clone() })
    }

    /// The number of ids, unused ones included.
    pub fn size(&self) -> usize {
        self.inner.parts.tokens.len()
    }

    /// Every spelling of every control token, with its id.
    pub fn control(&self) -> &BTreeMap<String, TokenId> {
        &self.inner.parts.control
    }

    /// Whether an id is never the encoding of text: control, unused, or outside the vocabulary.
    #[inline]
    pub fn is_control(&self, id: TokenId) -> bool {
        !self.inner.parts.tokens.is_text(id)
    }

    /// The first of some ids that is never the encoding of text.
    #[inline]
    pub fn first_control(&self, ids: &[TokenId]) -> Option<TokenId> {
        let tokens = &self.inner.parts.tokens;
        // All are looked at, whatever is found: no branch has to be waited for.
        let is_text = ids.iter().fold(true, |all, &id| all & tokens.is_text(id));
        if is_text { None } else { ids.iter().copied().find(|&id| self.is_control(id)) }
    }

    /// Whether a space is put before text.
    #[inline]
    pub fn dummy_prefix(&self) -> DummyPrefix {
        self.inner.parts.model.dummy_prefix
    }

    /// Whether a text that no token stands before gets no space put before it, because it begins with one.
    #[inline]
    pub fn shares_first_space(&self, text: &str) -> bool {
        self.dummy_prefix() == DummyPrefix::FirstRun && text.starts_with([' ', SPACE_MARK])
    }

    /// Whether white space is collapsed before encoding, which loses text.
    pub fn collapses_spaces(&self) -> bool {
        self.inner.parts.model.normalizer.collapses_spaces()
    }

    /// Text to ids, never control. Linear; the ids of the reference's plain `encode` for every text
    /// that spells no control token.
    ///
    /// # Errors
    /// [`Error`] for a character that a vocabulary which is not [lossless](Self::lossless) has
    /// no token for.
    pub fn try_encode(&self, text: &str) -> Result<Vec<TokenId>> {
        self.try_encode_on(1, text)
    }

    /// [`Vocab::try_encode`] by so many threads, or fewer: a thread gets a quarter of a megabyte at least,
    /// and text is parted where that changes no id. The ids are the same for any number of threads.
    ///
    /// # Errors
    /// As there.
    pub fn try_encode_on(&self, threads: usize, text: &str) -> Result<Vec<TokenId>> {
        let mut ids = with_room(text);
        self.with_scratch(|scratch| {
            let prefix = self.dummy_prefix() != DummyPrefix::Never;
            self.encode_run(threads, &self.normalise(text), prefix, scratch, &mut ids)
        })?;
        Ok(ids)
    }

    /// Text to ids as [`Vocab::try_encode`], for vocabularies that are [lossless](Self::lossless).
    ///
    /// # Panics
    /// Where `try_encode` gives an error; a lossless vocabulary never does, but for a hostile pattern in its
    /// file, of which a text takes more steps than of any real one.
    #[allow(clippy::expect_used, reason = "says so")]
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        self.try_encode(text).expect("a vocabulary that is lossless encodes every text")
    }

    /// Ids to the bytes they stand for, control tokens as their spelling.
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

    /// Per group of spellings the ids that they name.
    pub fn ids_of(&self, groups: &[Vec<String>]) -> Vec<Vec<TokenId>> {
        let tokens = &self.inner.parts.tokens;
        let known = |spelling: &String| self.inner.parts.control.contains_key(spelling);
        // What is no control token yet may be an ordinary piece: one pass finds all of them.
        let mut ordinary: HashMap<&[u8], Option<TokenId>> =
            groups.iter().flatten().filter(|s| !known(s)).map(|s| (s.as_bytes(), None)).collect();
        if !ordinary.is_empty() {
            for id in 0..tokens.len() as TokenId {
                if let Some((TokenKind::Text, bytes)) = tokens.get(id)
                    && let Some(found) = ordinary.get_mut(bytes)
                {
                    found.get_or_insert(id);
                }
            }
        }
        let id_of = |spelling: &String| {
            let ordinary = || ordinary.get(spelling.as_bytes()).copied().flatten();
            self.inner.parts.control.get(spelling).copied().or_else(ordinary)
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

    /// This vocabulary with more aliases; `ids` are control in it.
    fn with_groups(&self, groups: &[Vec<String>], ids: &[TokenId]) -> Self {
        let inner = &*self.inner;
        let mut control = inner.parts.control.clone();
        for (group, &id) in groups.iter().zip(ids) {
            control.extend(group.iter().map(|spelling| (spelling.clone(), id)));
        }
        let mut aliases = inner.parts.aliases.clone();
        aliases.extend(groups.iter().filter(|group| !inner.parts.aliases.contains(group)).cloned());
        Self::assemble(Parts { control, aliases, ..inner.parts.clone() })
    }

    /// This vocabulary with `ids` out of reach for text, which most are already.
    fn without_text(&self, ids: &[TokenId]) -> Result<Self> {
        let inner = &*self.inner;
        let mut withheld = inner.parts.withheld.clone();
        withheld.extend(ids.iter().filter(|&&id| !self.is_control(id)));
        if withheld.len() == inner.parts.withheld.len() {
            return Ok(self.clone());
        }
        let base = Self::assemble(inner.parts.source.clone().load(withheld)?);
        if self.lossless() && !base.lossless() {
            let losses = base.inner.parts.model.findings.losses.join("; ");
            let problem = format!(
                "has tokens that text cannot do without, which the format makes control: {losses}"
            );
            return Err(Error::new("control", problem));
        }
        let base = base.with_appended(&inner.parts.appended)?;
        let known: Vec<TokenId> = inner
            .parts
            .aliases
            .iter()
            .filter_map(|group| inner.parts.control.get(group.first()?))
            .copied()
            .collect();
        Ok(base.with_groups(&inner.parts.aliases, &known))
    }

    /// The text that is encoded for `text`: borrowed where normalisation changes nothing.
    #[inline]
    pub fn normalise<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.inner.parts.model.normalizer.apply(text)
    }

    /// Whether normalising a text may change it otherwise than normalising its parts: white space is collapsed
    /// or stripped.
    #[inline]
    pub fn normalises_whole_texts(&self) -> bool {
        self.inner.parts.model.normalizer.is_of_whole_texts()
    }

    /// What `text` reads as after a round trip: normalised, and the mark that stands for a space is one.
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
        self.inner.parts.model.space_mark
    }

    /// What normalised text reads as after a round trip: the mark that stands for a space is one.
    #[inline]
    pub fn spaced<'a>(&self, text: Cow<'a, str>) -> Cow<'a, str> {
        if self.inner.parts.model.space_mark && text.contains(SPACE_MARK) {
            Cow::Owned(text.replace(SPACE_MARK, " "))
        } else {
            text
        }
    }

    /// Runs `work` with a working memory of this vocabulary that no other thread uses meanwhile.
    pub fn with_scratch<T>(&self, work: impl FnOnce(&mut Scratch) -> T) -> T {
        // Nobody waits: a memory that another thread works with, or worked with when the process was
        // forked, is passed over.
        let Some(mut scratch) = self.inner.scratches.iter().find_map(try_lock) else {
            return work(&mut Scratch::default());
        };
        let result = work(&mut scratch);
        if scratch.is_large() {
            *scratch = Scratch::default();
        }
        result
    }

    /// Appends the ids of one run of text between two control tokens, encoded by at most so many threads.
    pub fn encode_run(
        &self,
        threads: usize,
        text: &str,
        dummy_prefix: bool,
        scratch: &mut Scratch,
        ids: &mut Vec<TokenId>,
    ) -> Result<()> {
        let engine = &self.inner.parts.model.engine;
        if threads > 1
            && let [first, rest @ ..] = &engine.parts(text, threads.min(MAX_SCRATCHES))[..]
            && !rest.is_empty()
        {
            return std::thread::scope(|scope| {
                // Where the system gives no more threads, this one does the work.
                let stop = Stop::current();
                let spawn = |part| {
                    let stop = stop.clone();
                    let work = move || Stop::within(stop, || self.encode_part(part));
                    (part, std::thread::Builder::new().spawn_scoped(scope, work).ok())
                };
                let others: Vec<_> = rest.iter().map(|&part| spawn(part)).collect();
                self.encode_stretches(first, dummy_prefix, scratch, ids)?;
                for (part, thread) in others {
                    match thread.map(std::thread::ScopedJoinHandle::join) {
                        Some(Ok(part)) => ids.extend(part?),
                        Some(Err(panic)) => std::panic::resume_unwind(panic),
                        None => self.encode_stretches(part, false, scratch, ids)?,
                    }
                }
                Ok(())
            });
        }
        scratch.recall_or(text, dummy_prefix, ids, |scratch, ids| {
            self.encode_stretches(text, dummy_prefix, scratch, ids)
        })
    }

    /// The ids of a part of a text, which is not its first.
    fn encode_part(&self, part: &str) -> Result<Vec<TokenId>> {
        let mut ids = with_room(part);
        self.with_scratch(|scratch| self.encode_stretches(part, false, scratch, &mut ids))?;
        Ok(ids)
    }

    /// Appends the ids of a text; one that may be asked to stop looks for that now and then.
    fn encode_stretches(
        &self,
        text: &str,
        dummy_prefix: bool,
        scratch: &mut Scratch,
        ids: &mut Vec<TokenId>,
    ) -> Result<()> {
        let engine = &self.inner.parts.model.engine;
        let Some(stop) = Stop::current().filter(|_| text.len() > STRETCH) else {
            return engine.encode(text, dummy_prefix, scratch, ids);
        };
        for (nth, part) in engine.parts(text, text.len() / STRETCH + 1).into_iter().enumerate() {
            if stop.is_asked() {
                return Err(Stop::error());
            }
            engine.encode(part, dummy_prefix && nth == 0, scratch, ids)?;
        }
        Ok(())
    }

    /// What a control token does to the white space beside it in a template.
    #[inline]
    pub fn strips(&self, id: TokenId) -> Strips {
        self.inner.parts.model.strips.get(&id).copied().unwrap_or_default()
    }

    /// How many bytes of `text` a token covers that begins at byte `at`, which may be within a character.
    pub fn covered(&self, id: TokenId, text: &str, at: usize) -> usize {
        let left = text.len().saturating_sub(at);
        match (self.token(id), text.get(at..)) {
            (Some((TokenKind::Byte, _)), _) => left.min(1),
            (Some((TokenKind::Text, bytes)), Some(rest)) => self.covered_by(bytes, rest),
            // Of byte-level tokens any number of bytes may stand within characters.
            (Some((TokenKind::Text, bytes)), None) => left.min(bytes.len()),
            _ => 0,
        }
    }

    /// How many bytes of `rest` a token covers that stands for `bytes`; where spaces have a mark as many
    /// characters, because a space in a token may be its mark in the text.
    pub fn covered_by(&self, bytes: &[u8], rest: &str) -> usize {
        if !self.inner.parts.model.space_mark {
            return rest.len().min(bytes.len());
        }
        let chars = bytes.iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
        rest.char_indices().nth(chars).map_or(rest.len(), |(at, _)| at)
    }

    /// What an id is, and its bytes: a control token's are its spelling.
    #[inline]
    pub fn token(&self, id: TokenId) -> Option<(TokenKind, &[u8])> {
        match self.inner.parts.tokens.get(id)? {
            (TokenKind::Control, bytes) => {
                let shown = self.inner.shown.get(&id).map(String::as_bytes);
                Some((TokenKind::Control, shown.unwrap_or(bytes)))
            }
            token => Some(token),
        }
    }

    /// The spelling that is shown for a control token.
    #[inline]
    pub fn spelling(&self, id: TokenId) -> &str {
        if let Some(shown) = self.inner.shown.get(&id) {
            return shown;
        }
        let bytes = self.inner.parts.tokens.get(id).map_or(&b""[..], |(_, bytes)| bytes);
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// The error about an id outside the vocabulary.
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
        // Built before it is put in place: where two threads do it at once, nobody waits for the other,
        // who may be gone in a process that was forked.
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
        let spellings: Vec<(String, TokenId)> =
            self.inner.parts.control.iter().map(|(spelling, &id)| (spelling.clone(), id)).collect();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(spellings.iter().map(|(spelling, _)| spelling))
            .ok()?;
        Some(ControlFinder { automaton, spellings })
    }

    /// Every merge of the text encoder as the ids of left, right and product, `None` for characters
    /// that are no token: what a check that control is out of reach looks at.
    #[doc(hidden)]
    pub fn merge_ids(&self) -> impl Iterator<Item = [Option<TokenId>; 3]> + '_ {
        self.inner.parts.model.engine.merge_ids()
    }
}

impl fmt::Debug for Vocab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocab")
            .field("size", &self.size())
            .field("control", &self.inner.parts.control.len())
            .finish_non_exhaustive()
    }
}

/// No ids yet, with room for those of nearly any text: emoji have more than one for three bytes.
pub fn with_room(text: &str) -> Vec<TokenId> {
    Vec::with_capacity(text.len() / 5 * 2)
}

/// What a mutex holds, if no other thread has it.
fn try_lock<T: Default>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(error)) => {
            // Whoever had it has left it half done.
            mutex.clear_poison();
            let mut guard = error.into_inner();
            *guard = T::default();
            Some(guard)
        }
    }
}

/// Whether a token's bytes begin with the space that a dummy prefix would be.
pub fn begins_with_space(bytes: &[u8]) -> bool {
    bytes.first() == Some(&b' ')
}
