//! Text to ids: byte-pair merging over characters, exact, without control pieces.
//!
//! In: the mergeable pieces of a vocabulary (control pieces never get here, which is why nothing
//! that this module returns can be control) and text. Out: ids. Cost: linear in the text; a unit of
//! `n` characters costs `O(n²)` up to [`SHORT`](unit::SHORT) characters and `O(n log n)` beyond.
//!
//! Every merge result is a piece of the vocabulary, so a boundary between two characters can only be
//! crossed if some piece holds the two side by side. Where none does, the text is cut: the *units*
//! between cuts are encoded one by one and remembered in a bounded cache. The cuts change nothing in
//! the result; they only make it cheap.

mod bytes;
mod cache;
mod cuts;
mod lookup;
mod merges;
mod pairs;
mod symbols;
#[cfg(test)]
mod tests;
mod unit;

use std::cmp::Reverse;
use std::ops::Range;

use hashbrown::HashMap;

use crate::error::Result;
use crate::vocab::TokenId;
pub(crate) use bytes::{ByteBpe, ByteToken, MergeRules};
use cache::{Key, UnitCache};
use cuts::Cuts;
use merges::Merges;
use symbols::{Entry, Symbol, Symbols};
use unit::{NEVER, Unit};

/// How a space is written inside the pieces of a SentencePiece vocabulary.
pub(crate) const SPACE_MARK: char = '\u{2581}';

/// What a piece may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceKind {
    /// Built by merges, and used by them.
    Normal,
    /// Matched as a whole before any merge, and never merged with its neighbours.
    Whole,
    /// The same, but a space and its mark are told apart.
    Verbatim,
    /// Built and used by merges; where one is left over it is taken apart again.
    Unused,
}

impl PieceKind {
    /// Whether merges never meet the piece.
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Self::Whole | Self::Verbatim)
    }
}

/// One piece of text that the encoder may use.
#[derive(Debug, Clone)]
pub(crate) struct Piece<'a> {
    pub(crate) id: TokenId,
    /// The piece as it stands in the vocabulary: spaces are [`SPACE_MARK`].
    pub(crate) text: &'a str,
    /// Higher merges first; of equal scores the leftmost.
    pub(crate) score: f32,
    pub(crate) kind: PieceKind,
}

/// One merge of a vocabulary that lists its merges, as places in the list of its pieces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListedMerge {
    pub(crate) left: u32,
    pub(crate) right: u32,
    pub(crate) product: u32,
}

/// The tables of one vocabulary's text encoder. Immutable; shared between threads.
pub(crate) struct Bpe {
    symbols: Symbols,
    merges: Merges,
    cuts: Cuts,
    /// Pieces matched as a whole, by first character, longest first.
    whole: HashMap<char, Vec<WholePiece>>,
    /// The id that each byte falls back to.
    bytes: [TokenId; 256],
    /// Where unused pieces exist, how one is taken apart depends on the whole text: no cuts then.
    has_unused: bool,
    /// Whether a space that text begins with is the dummy prefix: Metaspace's rule.
    shares_prefix: bool,
}

/// A piece that is matched as a whole.
struct WholePiece {
    chars: Vec<char>,
    is_verbatim: bool,
    id: TokenId,
}

/// Working memory of one encoding thread: reused between texts, bounded.
#[derive(Default)]
pub(crate) struct Scratch {
    cache: UnitCache,
    unit: Unit,
    /// The ids of a unit that was not in the cache.
    ids: Vec<TokenId>,
    /// What unused pieces were last proposed to be made of.
    taken_apart: HashMap<Symbol, (Symbol, Symbol)>,
}

/// Working memory for longer units is given back.
const MAX_KEPT_SYMBOLS: usize = 1 << 16;

impl Bpe {
    /// Builds the tables. `bytes[b]` is the id that byte `b` falls back to.
    ///
    /// # Errors
    /// [`Error::Vocab`](crate::Error::Vocab) for pieces that make more merges than any real vocabulary.
    pub(crate) fn new(pieces: &[Piece<'_>], bytes: &[TokenId; 256]) -> Result<Self> {
        let symbols = Symbols::new(pieces);
        let merges = Merges::of_pieces(pieces, &symbols)?;
        Ok(Self::with_merges(pieces, symbols, merges, bytes))
    }

    /// Builds the tables of a vocabulary that lists its merges, earlier ones first; of a pair that
    /// stands twice the last counts. The pieces' scores say nothing, and none is unused.
    ///
    /// # Errors
    /// [`Error::Vocab`](crate::Error::Vocab) for more merges than any real vocabulary has.
    pub(crate) fn with_listed_merges(
        pieces: &[Piece<'_>],
        merges: &[ListedMerge],
        bytes: &[TokenId; 256],
    ) -> Result<Self> {
        let symbols = Symbols::new(pieces);
        let merges = Merges::of_list(merges)?;
        Ok(Self::with_merges(pieces, symbols, merges, bytes))
    }

    /// The same, but text that begins with a space gets no other one before it.
    pub(crate) fn sharing_prefix(self) -> Self {
        Self { shares_prefix: true, ..self }
    }

    fn with_merges(
        pieces: &[Piece<'_>],
        symbols: Symbols,
        merges: Merges,
        bytes: &[TokenId; 256],
    ) -> Self {
        let has_unused = pieces.iter().any(|piece| piece.kind == PieceKind::Unused);
        let cuts = if has_unused { Cuts::none() } else { Cuts::new(pieces) };
        let mut whole: HashMap<char, Vec<WholePiece>> = HashMap::new();
        for piece in pieces.iter().filter(|piece| piece.kind.is_whole()) {
            let is_verbatim = piece.kind == PieceKind::Verbatim;
            let chars = piece.text.chars().map(|c| if is_verbatim { c } else { unmark(c) });
            let chars: Vec<char> = chars.collect();
            if let Some(&first) = chars.first() {
                let piece = WholePiece { chars, is_verbatim, id: piece.id };
                whole.entry(unmark(first)).or_default().push(piece);
            }
        }
        for candidates in whole.values_mut() {
            candidates.sort_by_key(|piece| Reverse(piece.chars.len()));
        }
        Self { symbols, merges, cuts, whole, bytes: *bytes, has_unused, shares_prefix: false }
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
        let shared = self.shares_prefix && text.starts_with([' ', SPACE_MARK]);
        if !dummy_prefix || text.is_empty() || shared {
            return self.encode_units(text, scratch, out);
        }
        // The space can only merge into the first unit, so only that unit is copied; pieces matched
        // as a whole may start at the space and reach further.
        let first = if self.whole.is_empty() { self.first_cut(text) } else { text.len() };
        let mut prefixed = String::with_capacity(first + 1);
        prefixed.push(' ');
        prefixed.push_str(&text[..first]);
        self.encode_units(&prefixed, scratch, out);
        self.encode_units(&text[first..], scratch, out);
    }

    /// Every merge as the ids of left, right and product; `None` where a symbol has no id.
    pub(crate) fn merge_ids(&self) -> impl Iterator<Item = [Option<TokenId>; 3]> + '_ {
        self.merges.iter().map(|symbols| symbols.map(|symbol| self.symbols.id(symbol)))
    }

    /// The end of the first unit of a text that is not empty.
    fn first_cut(&self, text: &str) -> usize {
        let mut chars = text.char_indices();
        let mut previous = chars.next().map_or(' ', |(_, c)| unmark(c));
        for (at, c) in chars {
            let c = unmark(c);
            if self.cuts.between(previous, c) {
                return at;
            }
            previous = c;
        }
        text.len()
    }

    fn encode_units(&self, text: &str, scratch: &mut Scratch, out: &mut Vec<TokenId>) {
        let mut start = 0;
        // NUL is in no piece: there is a cut after it, as there is at the beginning.
        let (mut previous, mut previous_entry) = ('\0', Entry::default());
        // Whether the unit that begins at `start` is `previous` alone.
        let mut is_single = false;
        let mut chars = text.chars();
        loop {
            let rest = chars.as_str();
            let at = text.len() - rest.len();
            let Some(c) = chars.next().map(unmark) else { break };
            let entry = self.symbols.entry(c);
            if entry.begins_whole()
                && let Some((length, id)) = self.match_whole(rest, c)
            {
                self.encode_unit(text, start..at, scratch, out);
                out.push(id);
                start = at + length;
                (previous, is_single) = ('\0', false);
                chars = text[start..].chars();
                continue;
            }
            if self.cuts.between(previous, c) {
                match self.symbols.id(previous_entry.symbol()) {
                    Some(id) if is_single => out.push(id),
                    _ => self.encode_unit(text, start..at, scratch, out),
                }
                (start, is_single) = (at, true);
            } else {
                is_single = false;
            }
            (previous, previous_entry) = (c, entry);
        }
        self.encode_unit(text, start..text.len(), scratch, out);
    }

    /// The longest piece matched as a whole that `text` begins with: its bytes and id.
    fn match_whole(&self, text: &str, first: char) -> Option<(usize, TokenId)> {
        self.whole.get(&first)?.iter().find_map(|piece| {
            let mut rest = text.chars();
            let read = |c| if piece.is_verbatim { c } else { unmark(c) };
            let fits = piece.chars.iter().all(|&want| rest.next().map(read) == Some(want));
            fits.then(|| (text.len() - rest.as_str().len(), piece.id))
        })
    }

    #[inline]
    fn encode_unit(
        &self,
        text: &str,
        unit: Range<usize>,
        scratch: &mut Scratch,
        out: &mut Vec<TokenId>,
    ) {
        if unit.is_empty() {
            return;
        }
        let key = UnitCache::key(text.as_bytes(), &unit);
        if let Some(key) = key
            && let Some(ids) = scratch.cache.get(key)
        {
            return out.extend_from_slice(ids);
        }
        self.encode_new_unit(&text[unit], key, scratch, out);
    }

    #[cold]
    fn encode_new_unit(
        &self,
        unit: &str,
        key: Option<Key>,
        scratch: &mut Scratch,
        out: &mut Vec<TokenId>,
    ) {
        scratch.ids.clear();
        self.merge(unit, scratch);
        out.extend_from_slice(&scratch.ids);
        if let Some(key) = key {
            scratch.cache.insert(key, &scratch.ids);
        }
    }

    /// Merges one unit and appends its ids to `scratch.ids`.
    fn merge(&self, unit: &str, scratch: &mut Scratch) {
        let Scratch { unit: work, ids, taken_apart, .. } = scratch;
        work.symbols.clear();
        work.symbols.extend(unit.chars().map(|c| self.symbols.of_char(unmark(c))));
        taken_apart.clear();
        let merge = |left, right| self.merges.get(left, right).unwrap_or(NEVER);
        if self.has_unused {
            work.merge_long(|left, right| {
                let merge = merge(left, right);
                if self.symbols.is_unused(merge.product) {
                    taken_apart.insert(merge.product, (left, right));
                }
                merge
            });
        } else {
            work.merge(merge);
        }
        let mut rest = unit;
        for &symbol in &work.symbols {
            let (text, after) = rest.split_at(self.symbols.split_at(rest, symbol));
            rest = after;
            match self.symbols.id(symbol) {
                Some(id) => ids.push(id),
                None => self.take_apart(symbol, text, taken_apart, ids),
            }
        }
    }

    /// Appends the ids of a symbol without one: of its parts if it is unused, of its bytes otherwise.
    fn take_apart(
        &self,
        symbol: Symbol,
        text: &str,
        taken_apart: &HashMap<Symbol, (Symbol, Symbol)>,
        ids: &mut Vec<TokenId>,
    ) {
        // An unused piece is taken apart into what it was last seen made of, each part again.
        let mut parts = vec![(symbol, text)];
        while let Some((symbol, text)) = parts.pop() {
            if let Some(id) = self.symbols.id(symbol) {
                ids.push(id);
            } else if let Some(&(left, right)) = taken_apart.get(&symbol) {
                let split = self.symbols.split_at(text, left);
                parts.push((right, &text[split..]));
                parts.push((left, &text[..split]));
            } else {
                ids.extend(text.bytes().map(|byte| self.bytes[usize::from(byte)]));
            }
        }
    }
}

impl Scratch {
    /// Whether a very long unit has left it large: then it is not kept.
    pub(crate) fn is_large(&self) -> bool {
        self.unit.symbols.capacity() > MAX_KEPT_SYMBOLS
    }
}

/// The character that stands for `c` in the tables: a space and its mark are one.
fn unmark(c: char) -> char {
    if c == SPACE_MARK { ' ' } else { c }
}
