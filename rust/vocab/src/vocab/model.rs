//! What vocabulary files say, in tables: the same for every kind of file.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::normalize::Normalizer;
#[cfg(feature = "foreign")]
use super::tokenizer_json::foreign::Foreign;
use super::tokens::Tokens;
use super::{DummyPrefix, TokenId, text_pieces};
use crate::bpe::{ByteBpe, CharBpe, Scratch};
use crate::error::Result;

/// A vocabulary as a reader of one kind of file gives it.
pub(crate) struct Model {
    /// The kind of file it was read from.
    pub(crate) kind: &'static str,
    /// Text to ids, built without control.
    pub(crate) engine: Engine,
    pub(crate) tokens: Arc<Tokens>,
    /// Every control token of the file, once per spelling.
    pub(crate) spellings: Vec<(String, TokenId)>,
    /// What control tokens do to white space beside them; those that do nothing are left out.
    pub(crate) strips: HashMap<TokenId, Strips>,
    pub(crate) dummy_prefix: DummyPrefix,
    /// What is done to text before it is encoded.
    pub(crate) normalizer: Normalizer,
    /// Whether U+2581 stands for a space in tokens.
    pub(crate) space_mark: bool,
    /// What was found out when it was read.
    pub(crate) findings: Findings,
}

/// What was found out about a vocabulary when it was read, in words for people.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    /// How text is parted before tokens merge.
    pub(crate) pre_tokenizer: String,
    /// What says so.
    pub(crate) known_by: String,
    /// What a library that runs it does to text first; otherwise `normalizer` of the model says it.
    pub(crate) normalizer: Option<String>,
    /// 64 bits of the tokens of a file of ranks.
    pub(crate) fingerprint: Option<String>,
    /// Why our own engines do not run it.
    pub(crate) refused: Option<String>,
    /// Why not every text can be decoded again, up to `normalizer` of the model: empty where it can.
    pub(crate) losses: Vec<String>,
}

impl Findings {
    /// Of a file that says itself how text is parted.
    pub(crate) fn of_file(pre_tokenizer: impl Into<String>) -> Self {
        let (pre_tokenizer, known_by) = (pre_tokenizer.into(), "the file".into());
        Self { pre_tokenizer, known_by, ..Self::default() }
    }
}

/// The reason why a vocabulary without tokens for some bytes loses text, if it lacks any.
pub(crate) fn loss_of_bytes(engine: &ByteBpe) -> Option<String> {
    let lacking: Vec<String> = engine.lacking().map(|byte| format!("0x{byte:02X}")).collect();
    let bytes = if lacking.len() == 1 { "byte" } else { "bytes" };
    let loss =
        || format!("no token for the {bytes} {}: text with one is refused", lacking.join(" "));
    (!lacking.is_empty()).then(loss)
}

/// Whether a control token takes the white space beside it in a template: `lstrip` and `rstrip` of
/// Hugging Face's added tokens. It never acts on a caller's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Strips {
    /// The white space before it.
    pub left: bool,
    /// The white space after it.
    pub right: bool,
}

/// Text to ids.
pub(crate) enum Engine {
    /// Merges characters, as SentencePiece does.
    Chars(Box<CharBpe>),
    /// Merges bytes of pre-tokens, as GPT-2 does.
    Bytes(Box<ByteBpe>),
    /// The `tokenizers` library, for what is neither.
    #[cfg(feature = "foreign")]
    Foreign(Box<Foreign>),
}

impl Engine {
    /// Appends the ids of `text`, which is normalised; with `dummy_prefix`, of a space and `text`.
    ///
    /// # Errors
    /// [`crate::Error`] for a text that has no token.
    pub(crate) fn encode(
        &self,
        text: &str,
        dummy_prefix: bool,
        scratch: &mut Scratch,
        ids: &mut Vec<TokenId>,
    ) -> Result<()> {
        match self {
            Self::Chars(bpe) => bpe.encode(text, dummy_prefix, scratch, ids),
            Self::Bytes(bpe) => {
                bpe.check(text)?;
                bpe.encode(text, dummy_prefix, scratch, ids)?;
            }
            #[cfg(feature = "foreign")]
            Self::Foreign(foreign) => foreign.encode(text, dummy_prefix, ids)?,
        }
        Ok(())
    }

    /// The parts of a long text, at most so many: encoded apart, those after the first without a
    /// dummy prefix, they have the ids of the whole.
    pub(crate) fn parts<'a>(&self, text: &'a str, count: usize) -> Vec<&'a str> {
        match self {
            Self::Chars(bpe) => bpe.parts(text, count),
            Self::Bytes(bpe) => bpe.parts(text, count),
            #[cfg(feature = "foreign")]
            Self::Foreign(_) => vec![text],
        }
    }

    /// Every merge as the ids of left, right and product, `None` for what is no token.
    pub(crate) fn merge_ids(&self) -> Box<dyn Iterator<Item = [Option<TokenId>; 3]> + '_> {
        match self {
            Self::Chars(bpe) => Box::new(bpe.merge_ids()),
            Self::Bytes(bpe) => Box::new(bpe.merge_ids()),
            #[cfg(feature = "foreign")]
            Self::Foreign(_) => Box::new(std::iter::empty()),
        }
    }
}

/// Which added tokens are text, and which ids are kept from it.
pub(crate) struct Policy<'a> {
    /// Ordinary tokens that a format made control.
    pub(crate) withheld: &'a HashSet<TokenId>,
    /// Spellings of added tokens that the caller says are text.
    pub(crate) text_tokens: &'a [String],
    /// Special tokens that the caller names: control, whatever is known of such spellings.
    pub(crate) special_tokens: &'a [(String, TokenId)],
    /// Spellings that files beside the vocabulary call special.
    pub(crate) special: &'a HashSet<String>,
    /// The added tokens that turned out to be text.
    pub(crate) found: &'a RefCell<BTreeSet<String>>,
}

impl Policy<'_> {
    /// Whether an added token is ordinary text: by the caller, by the list, or a run of one sign or
    /// of white space that no file calls special; `is_special` says whether the token's own file does.
    pub(crate) fn is_text(&self, spelling: &str, is_special: bool) -> bool {
        let is_said = self.text_tokens.iter().any(|text| text == spelling);
        let is_named = || self.special_tokens.iter().any(|(special, _)| special == spelling);
        let is_run =
            || !is_special && !self.special.contains(spelling) && text_pieces::is_run(spelling);
        let is_known = || text_pieces::is_listed(spelling) || is_run();
        let is_text = is_said || is_known() && !is_named();
        if is_text {
            self.found.borrow_mut().insert(spelling.to_owned());
        }
        is_text
    }

    /// Whether an id is kept from text whatever the file says it is.
    pub(crate) fn is_withheld(&self, id: TokenId) -> bool {
        self.withheld.contains(&id)
    }
}
