//! Text to ids for byte-level vocabularies: text is parted into pre-tokens, and bytes merge within each.
//!
//! In: tokens that are text, which of them merge, and text. Out: ids. Cost: linear in the text; see
//! [`unit`](super::unit) for a pre-token of `n` bytes. Pre-tokens seen lately come from a cache.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use hashbrown::HashMap;

use super::Scratch;
use super::cache::{Key, UnitCache};
use super::lookup::Lookup;
use super::merges::{Merge, Merges, check_count};
use super::symbols::Symbol;
use crate::error::{Error, Result};
use crate::split::Splitter;
use crate::vocab::TokenId;

/// No token of a real vocabulary is longer.
const MAX_TOKEN_BYTES: usize = 1024;

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
    /// A token's symbol is its id.
    merges: Merges,
    lookup: Lookup,
    /// The token of each byte.
    bytes: [TokenId; 256],
    /// Whether a pre-token that is a token is that token.
    ignore_merges: bool,
    whole: Option<Whole>,
}

/// Added tokens that are text: matched before anything else.
struct Whole {
    spellings: AhoCorasick,
    ids: Vec<TokenId>,
}

impl ByteBpe {
    /// Builds the tables. Tokens that are control must not be among `tokens`; `whole` are added tokens
    /// that are text, matched before anything else, leftmost-longest. With `ignore_merges`, and always
    /// with [`MergeRules::Ranks`], a pre-token that is a token is that token, whatever its merges make
    /// of it.
    ///
    /// # Errors
    /// [`Error::Vocab`](crate::Error::Vocab) where a byte of UTF-8 has no token, since text would be lost; for a
    /// token longer, and for more merges, than any real vocabulary has.
    pub(crate) fn new(
        tokens: &[ByteToken<'_>],
        rules: MergeRules<'_>,
        splitter: Splitter,
        ignore_merges: bool,
        whole: &[ByteToken<'_>],
    ) -> Result<Self> {
        check_tokens(tokens)?;
        let lookup = Lookup::new(tokens);
        let bytes = byte_tokens(&lookup)?;
        let (merges, ignore_merges) = match rules {
            MergeRules::Ranks => (merges_of_ranks(tokens, &lookup)?, true),
            MergeRules::Pairs(pairs) => (merges_of_pairs(tokens, pairs, &lookup)?, ignore_merges),
        };
        let merges = Merges::new(merges);
        let whole = Whole::new(whole)?;
        Ok(Self { splitter, merges, lookup, bytes, ignore_merges, whole })
    }

    /// Appends the ids of `text` to `out`; with `dummy_prefix`, of a space and `text`.
    ///
    /// Empty text has no ids, with the prefix or without.
    pub(crate) fn encode(
        &self,
        text: &str,
        dummy_prefix: bool,
        scratch: &mut Scratch,
        out: &mut Vec<TokenId>,
    ) {
        if dummy_prefix && !text.is_empty() {
            let prefixed = [" ", text].concat();
            return self.encode(&prefixed, false, scratch, out);
        }
        let mut done = 0;
        if let Some(whole) = &self.whole {
            for found in whole.spellings.find_iter(text) {
                self.encode_between(&text[done..found.start()], scratch, out);
                out.push(whole.ids[found.pattern().as_usize()]);
                done = found.end();
            }
        }
        self.encode_between(&text[done..], scratch, out);
    }

    /// Every merge as the ids of left, right and product.
    pub(crate) fn merge_ids(&self) -> impl Iterator<Item = [Option<TokenId>; 3]> + '_ {
        self.merges.iter().map(|symbols| symbols.map(|symbol| Some(symbol as TokenId)))
    }

    /// Encodes text in which no token is matched as a whole.
    fn encode_between(&self, text: &str, scratch: &mut Scratch, out: &mut Vec<TokenId>) {
        let mut start = 0;
        self.splitter.split(text, |piece| {
            let end = start + piece.len();
            self.encode_piece(text.as_bytes(), start..end, scratch, out);
            start = end;
        });
    }

    #[inline]
    fn encode_piece(
        &self,
        text: &[u8],
        piece: Range<usize>,
        scratch: &mut Scratch,
        out: &mut Vec<TokenId>,
    ) {
        let key = UnitCache::key(text, &piece);
        if let Some(key) = key
            && let Some(ids) = scratch.cache.get(key)
        {
            return out.extend_from_slice(ids);
        }
        self.encode_new_piece(&text[piece], key, scratch, out);
    }

    #[cold]
    fn encode_new_piece(
        &self,
        piece: &[u8],
        key: Option<Key>,
        scratch: &mut Scratch,
        out: &mut Vec<TokenId>,
    ) {
        let Scratch { cache, unit, ids, .. } = scratch;
        ids.clear();
        if self.ignore_merges
            && let Some(id) = self.lookup.get(piece)
        {
            ids.push(id);
        } else {
            unit.symbols.clear();
            unit.symbols.extend(piece.iter().map(|&byte| self.bytes[usize::from(byte)] as Symbol));
            unit.merge(&self.merges);
            ids.extend(unit.symbols.iter().map(|&symbol| symbol as TokenId));
        }
        out.extend_from_slice(ids);
        if let Some(key) = key {
            cache.insert(key, ids);
        }
    }
}

impl Whole {
    fn new(tokens: &[ByteToken<'_>]) -> Result<Option<Self>> {
        let tokens: Vec<_> = tokens.iter().filter(|token| !token.bytes.is_empty()).collect();
        if tokens.is_empty() {
            return Ok(None);
        }
        let spellings = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(tokens.iter().map(|token| token.bytes))
            .map_err(|error| Error::vocab("added_tokens", error.to_string()))?;
        let ids = tokens.iter().map(|token| token.id).collect();
        Ok(Some(Self { spellings, ids }))
    }
}

fn check_tokens(tokens: &[ByteToken<'_>]) -> Result<()> {
    for ByteToken { id, bytes } in tokens {
        if bytes.len() > MAX_TOKEN_BYTES {
            let length = bytes.len();
            let problem = format!("token {id} has {length} bytes, more than {MAX_TOKEN_BYTES}");
            return Err(Error::vocab("pieces", problem));
        }
        if *id < 0 {
            return Err(Error::vocab("pieces", format!("id {id} is negative")));
        }
    }
    Ok(())
}

fn byte_tokens(lookup: &Lookup) -> Result<[TokenId; 256]> {
    let mut tokens = [-1; 256];
    for (byte, token) in (0..=u8::MAX).zip(&mut tokens) {
        // DeepSeek has no tokens for the bytes that UTF-8 never has.
        let in_text = !matches!(byte, 0xC0 | 0xC1 | 0xF5..);
        match lookup.get(&[byte]) {
            Some(id) => *token = id,
            None if in_text => {
                let problem = format!("no token is byte 0x{byte:02X}; expected one for every byte");
                return Err(Error::vocab("pieces", problem));
            }
            None => {}
        }
    }
    Ok(tokens)
}

type List = Vec<(Symbol, Symbol, Merge)>;

/// Every split of every token into two tokens; the token's id is its rank.
fn merges_of_ranks(tokens: &[ByteToken<'_>], lookup: &Lookup) -> Result<List> {
    let mut merges = Vec::with_capacity(4 * tokens.len());
    for token in tokens {
        if lookup.get(token.bytes) != Some(token.id) {
            continue;
        }
        let merge = Merge { rank: token.id as u32, product: token.id as Symbol };
        for at in 1..token.bytes.len() {
            let (left, right) = token.bytes.split_at(at);
            if let (Some(left), Some(right)) = (lookup.get(left), lookup.get(right)) {
                merges.push((left as Symbol, right as Symbol, merge));
            }
        }
        check_count(merges.len())?;
    }
    Ok(merges)
}

/// The pairs of which both, and what they make, are tokens; their place in the list is the rank.
fn merges_of_pairs(
    tokens: &[ByteToken<'_>],
    pairs: &[(TokenId, TokenId)],
    lookup: &Lookup,
) -> Result<List> {
    check_count(pairs.len())?;
    let bytes_of: HashMap<_, _> = tokens.iter().map(|token| (token.id, token.bytes)).collect();
    let mut merges = Vec::with_capacity(pairs.len());
    let mut product = Vec::new();
    for (rank, (left, right)) in pairs.iter().enumerate() {
        let (Some(left_bytes), Some(right_bytes)) = (bytes_of.get(left), bytes_of.get(right))
        else {
            continue;
        };
        product.clear();
        product.extend_from_slice(left_bytes);
        product.extend_from_slice(right_bytes);
        if let Some(id) = lookup.get(&product) {
            let merge = Merge { rank: rank as u32, product: id as Symbol };
            merges.push((*left as Symbol, *right as Symbol, merge));
        }
    }
    Ok(merges)
}
