//! Text to ids for byte-level vocabularies: text is parted into pre-tokens, and bytes merge within each.

use hashbrown::HashMap;

use super::Scratch;
use crate::error::Result;
use crate::split::Splitter;
use crate::vocab::TokenId;

/// A token of text and its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByteToken<'a> {
    pub(crate) id: TokenId,
    pub(crate) bytes: &'a [u8],
}

/// Which pairs of tokens merge, and how early.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MergeRules<'a> {
    /// Every pair whose bytes together are a token, in the order of the tokens' ids: tiktoken.
    Ranks,
    /// These pairs of ids, in this order; the product is the token with the bytes of both.
    Pairs(&'a [(TokenId, TokenId)]),
}

/// The tables of a byte-level vocabulary's text encoder. Immutable; shared between threads.
pub(crate) struct ByteBpe {
    splitter: Splitter,
    merges: HashMap<(TokenId, TokenId), (u32, TokenId)>,
    by_bytes: HashMap<Vec<u8>, TokenId>,
    bytes: [TokenId; 256],
    ignore_merges: bool,
}

impl ByteBpe {
    /// Builds the tables. Tokens that are control must not be among `tokens`; `whole` are added tokens
    /// that are text, matched before anything else, leftmost-longest. With `ignore_merges` a pre-token
    /// that is a token is that token, whatever its merges make of it.
    ///
    /// # Errors
    /// [`Error::Vocab`](crate::Error::Vocab) where a byte has no token: text would be lost.
    pub(crate) fn new(
        tokens: &[ByteToken<'_>],
        rules: MergeRules<'_>,
        splitter: Splitter,
        ignore_merges: bool,
        whole: &[ByteToken<'_>],
    ) -> Result<Self> {
        let _ = (tokens, rules, splitter, ignore_merges, whole);
        Err(crate::error::Error::vocab("pieces", "byte-level merging is not implemented"))
    }

    /// Appends the ids of `text` to `out`; with `dummy_prefix`, of a space and `text`.
    pub(crate) fn encode(
        &self,
        text: &str,
        dummy_prefix: bool,
        scratch: &mut Scratch,
        out: &mut Vec<TokenId>,
    ) {
        let _ = (self, text, dummy_prefix, scratch, out);
    }

    /// Every merge as the ids of left, right and product.
    pub(crate) fn merge_ids(&self) -> impl Iterator<Item = [Option<TokenId>; 3]> + '_ {
        self.merges.iter().map(|(&(a, b), &(_, c))| [Some(a), Some(b), Some(c)])
    }
}
