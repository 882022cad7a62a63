//! Text to ids for byte-level vocabularies: text is parted into pre-tokens, and bytes merge within each.
//!
//! In: tokens that are text, which of them merge, and text. Out: ids. Cost: linear in the text; see
//! [`unit`](super::unit) for a pre-token of `n` bytes. Pre-tokens seen lately come from a cache.

use std::ops::Range;

use super::Scratch;
use super::cache::{Key, UnitCache};
use super::lookup::Lookup;
use super::merges::Merge;
use super::pairs::{FIRST_PRODUCT, NO_ID, NONE, Pairs, Products};
use super::symbols::Symbol;
use super::unit::{NEVER, Unit};
use crate::error::{Error, Result};
use crate::split::Splitter;
use crate::vocab::TokenId;
use aho_corasick::{AhoCorasick, MatchKind};

/// No token of a real vocabulary is longer.
const MAX_TOKEN_BYTES: usize = 1024;

/// Pre-tokens of up to this many bytes are merged by scanning, longer ones with a heap.
const SCANNED: usize = 256;

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
    /// Per symbol its id.
    ids: Vec<TokenId>,
    pairs: Pairs,
    /// What two bytes merge into: where merging begins.
    byte_pairs: Vec<Symbol>,
    /// Tokens that no merge makes, where a pre-token that is one is that token all the same.
    unmade: Lookup,
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
    /// [`Error::Vocab`](crate::Error::Vocab) where a byte of text has no token, since text would be lost; for a
    /// token longer, and for more merges, than any real vocabulary has.
    pub(crate) fn new(
        tokens: &[ByteToken<'_>],
        rules: MergeRules<'_>,
        splitter: Splitter,
        ignore_merges: bool,
        whole: &[ByteToken<'_>],
    ) -> Result<Self> {
        check_tokens(tokens)?;
        let bytes = byte_tokens(tokens)?;
        let ignore_merges = ignore_merges || matches!(rules, MergeRules::Ranks);
        let Products { ids, pairs, unmade } = Products::new(tokens, rules, &bytes)?;
        let unmade = unmade.into_iter().filter(|_| ignore_merges).map(|at| tokens[at]);
        let two =
            (0..FIRST_PRODUCT).flat_map(|left| (0..FIRST_PRODUCT).map(move |right| (left, right)));
        let byte_pairs = two.map(|(left, right)| pairs.product(left, right)).collect();
        let whole = Whole::new(whole)?;
        Ok(Self { splitter, ids, byte_pairs, unmade: Lookup::new(unmade), pairs, whole })
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
        self.pairs.iter().map(|symbols| symbols.map(|symbol| Some(self.ids[symbol as usize])))
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
        unit.symbols.clear();
        unit.symbols.extend(piece.iter().map(|&byte| Symbol::from(byte)));
        if piece.len() <= SCANNED {
            self.merge_scanning(unit);
        } else {
            unit.merge_long(|left, right| match self.pairs.product(left, right) {
                NONE => NEVER,
                product => Merge { rank: product, product },
            });
        }
        ids.clear();
        match self.unmade.get(piece) {
            Some(id) => ids.push(id),
            None => ids.extend(unit.symbols.iter().map(|&symbol| self.ids[symbol as usize])),
        }
        out.extend_from_slice(ids);
        if let Some(key) = key {
            cache.insert(key, ids);
        }
    }

    /// Merges by scanning for the best pair. A product is its own rank, so a scan looks at one number
    /// per pair, several at a time: faster than a heap for far more symbols than one would think.
    fn merge_scanning(&self, unit: &mut Unit) {
        let Unit { symbols, products, .. } = unit;
        products.clear();
        let byte_pairs = symbols.windows(2).map(|pair| pair[0] << 8 | pair[1]);
        products.extend(byte_pairs.map(|pair| self.byte_pairs[pair as usize]));
        loop {
            let best = products.iter().fold(NONE, |best, &product| best.min(product));
            if best == NONE {
                return;
            }
            let Some(at) = products.iter().position(|&product| product == best) else { return };
            symbols[at] = best;
            symbols.remove(at + 1);
            products.remove(at);
            if at > 0 {
                products[at - 1] = self.pairs.product(symbols[at - 1], best);
            }
            if at < products.len() {
                products[at] = self.pairs.product(best, symbols[at + 1]);
            }
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

/// The token of each byte; `DeepSeek` has none, [`NO_ID`], for the bytes that UTF-8 never has.
fn byte_tokens(tokens: &[ByteToken<'_>]) -> Result<[TokenId; 256]> {
    let mut ids = [NO_ID; 256];
    for token in tokens {
        if let &[byte] = token.bytes {
            ids[usize::from(byte)] = token.id;
        }
    }
    let in_text = |byte: &u8| !matches!(byte, 0xC0 | 0xC1 | 0xF5..);
    let missing = |byte: &u8| ids[usize::from(*byte)] == NO_ID;
    if let Some(byte) = (0..=u8::MAX).filter(in_text).find(missing) {
        let problem = format!("no token is byte 0x{byte:02X}; expected one for every byte");
        return Err(Error::vocab("pieces", problem));
    }
    Ok(ids)
}
