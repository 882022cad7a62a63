//! The tables that every reader of vocabulary files returns.

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

/// Output of a reader of vocabulary files.
pub(crate) struct Model {
    /// Kind of the file.
    pub(crate) kind: &'static str,
    /// Text encoder, built without control tokens.
    pub(crate) engine: Engine,
    pub(crate) tokens: Arc<Tokens>,
    /// Control tokens of the file, one entry a spelling.
    pub(crate) spellings: Vec<(String, TokenId)>,
    /// White space that control tokens strip; tokens that strip nothing have no entry.
    pub(crate) strips: HashMap<TokenId, Strips>,
    pub(crate) dummy_prefix: DummyPrefix,
    /// Normalisation of text before encoding.
    pub(crate) normalizer: Normalizer,
    /// Whether U+2581 means a space in tokens.
    pub(crate) space_mark: bool,
    /// Findings of the reader.
    pub(crate) findings: Findings,
}

/// Findings of a reader about a vocabulary, in words for people.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    /// How text is split before tokens merge.
    pub(crate) pre_tokenizer: String,
    /// Source of the splitter.
    pub(crate) known_by: String,
    /// Normalisation by an external library; otherwise the model's `normalizer` applies.
    pub(crate) normalizer: Option<String>,
    /// 64-bit fingerprint of the tokens of a file of ranks.
    pub(crate) fingerprint: Option<String>,
    /// Reason why the built-in engines do not run the vocabulary.
    pub(crate) refused: Option<String>,
    /// Reasons why some texts do not survive a round trip, apart from the model's `normalizer`; empty for
    /// lossless vocabularies.
    pub(crate) losses: Vec<String>,
}

impl Findings {
    /// Findings about a file that names its own splitter.
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

/// White space that a control token strips beside it in a template: `lstrip` and `rstrip` of
/// Hugging Face's added tokens. A caller's text is never stripped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Strips {
    /// The white space before it.
    pub left: bool,
    /// The white space after it.
    pub right: bool,
}

/// Text encoder.
pub(crate) enum Engine {
    /// Merges characters, as SentencePiece does.
    Chars(Box<CharBpe>),
    /// Merges bytes of pre-tokens, as GPT-2 does.
    Bytes(Box<ByteBpe>),
    /// The `tokenizers` library, for every other model.
    #[cfg(feature = "foreign")]
    Foreign(Box<Foreign>),
}

impl Engine {
    /// Appends the ids of `text`, which is normalised; with `dummy_prefix`, the ids of a space and `text`.
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

    /// Appends the ids of texts that lie one after another in `joined`, text `n` up to `ends[n]`, and for each text
    /// the number of all ids up to its end.
    ///
    /// # Errors
    /// As [`Self::encode`]; then `counts` has the texts before the one with the error.
    pub(crate) fn encode_each(
        &self,
        joined: &str,
        ends: &[usize],
        dummy_prefix: bool,
        scratch: &mut Scratch,
        ids: &mut Vec<TokenId>,
        counts: &mut Vec<usize>,
    ) -> Result<()> {
        if let Self::Bytes(bpe) = self
            && !dummy_prefix
            && !bpe.has_whole()
        {
            return bpe.encode_each(joined, ends, scratch, ids, counts);
        }
        let mut start = 0;
        for &end in ends {
            self.encode(&joined[start..end], dummy_prefix, scratch, ids)?;
            counts.push(ids.len());
            start = end;
        }
        Ok(())
    }

    /// Splits a long text into a bounded number of parts. Encoded separately, the parts have the ids of
    /// the whole; only the first part has a dummy prefix.
    pub(crate) fn parts<'a>(&self, text: &'a str, count: usize) -> Vec<&'a str> {
        match self {
            Self::Chars(bpe) => bpe.parts(text, count),
            Self::Bytes(bpe) => bpe.parts(text, count),
            #[cfg(feature = "foreign")]
            Self::Foreign(_) => vec![text],
        }
    }

    /// Splits a long text into sections of similar length, with the same law.
    pub(crate) fn sections<'a>(&self, text: &'a str) -> Vec<&'a str> {
        match self {
            Self::Chars(bpe) => bpe.sections(text),
            Self::Bytes(bpe) => bpe.sections(text),
            #[cfg(feature = "foreign")]
            Self::Foreign(_) => vec![text],
        }
    }

    /// Every merge as the ids of left, right and product; `None` for a text that is not a token.
    pub(crate) fn merge_ids(&self) -> Box<dyn Iterator<Item = [Option<TokenId>; 3]> + '_> {
        match self {
            Self::Chars(bpe) => Box::new(bpe.merge_ids()),
            Self::Bytes(bpe) => Box::new(bpe.merge_ids()),
            #[cfg(feature = "foreign")]
            Self::Foreign(_) => Box::new(std::iter::empty()),
        }
    }
}

/// Policy that decides which added tokens are text, and which ids text cannot produce.
pub(crate) struct Policy<'a> {
    /// Ordinary tokens that a format made control.
    pub(crate) withheld: &'a HashSet<TokenId>,
    /// Spellings of added tokens that the caller declares as text.
    pub(crate) text_tokens: &'a [String],
    /// Special tokens that the caller names: always control.
    pub(crate) special_tokens: &'a [(String, TokenId)],
    /// Spellings that other files of the vocabulary's folder call special.
    pub(crate) special: &'a HashSet<String>,
    /// Added tokens that the policy has accepted as text.
    pub(crate) found: &'a RefCell<BTreeSet<String>>,
}

impl Policy<'_> {
    /// Whether an added token is ordinary text: by the caller, by the list, or a word or a run of one sign or of
    /// white space that no file calls special; `is_special` says whether the token's own file does.
    pub(crate) fn is_text(&self, spelling: &str, is_special: bool) -> bool {
        let is_said = self.text_tokens.iter().any(|text| text == spelling);
        let is_named = || self.special_tokens.iter().any(|(special, _)| special == spelling);
        let is_plain = || !is_special && !self.special.contains(spelling);
        let has_shape = || text_pieces::is_run(spelling) || text_pieces::is_word(spelling);
        let is_known = || text_pieces::is_listed(spelling) || is_plain() && has_shape();
        let is_text = is_said || is_known() && !is_named();
        if is_text {
            self.found.borrow_mut().insert(spelling.to_owned());
        }
        is_text
    }

    /// Whether text cannot produce an id, whatever type the file gives it.
    pub(crate) fn is_withheld(&self, id: TokenId) -> bool {
        self.withheld.contains(&id)
    }
}
