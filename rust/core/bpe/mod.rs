//! Text to ids: byte-pair merging over characters, exact, without control pieces.
//!
//! In: the mergeable pieces of a vocabulary (control pieces never get here, which is why nothing
//! that this module returns can be control) and text. Out: ids. Cost: linear in the text; a unit of
//! `n` characters costs `O(n²)` up to [`SHORT`] characters and `O(n log n)` beyond.
//!
//! Every merge result is a piece of the vocabulary, so a boundary between two characters can only be
//! crossed if some piece holds the two side by side. Where none does, the text is cut: the *units*
//! between cuts are encoded one by one and remembered in a bounded cache. The cuts change nothing in
//! the result; they only make it cheap.

mod bytes;
mod cache;
mod cuts;
mod merges;
mod symbols;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use hashbrown::HashMap;

use crate::error::Result;
use crate::vocab::TokenId;
pub(crate) use bytes::{ByteBpe, ByteToken, MergeRules};
use cache::{Key, UnitCache};
use cuts::Cuts;
use merges::{Merge, Merges};
use symbols::{Entry, NO_SYMBOL, Symbol, Symbols};

/// How a space is written inside the pieces of a SentencePiece vocabulary.
pub(crate) const SPACE_MARK: char = '\u{2581}';

/// Units of up to this many characters are merged by scanning, longer ones with a heap.
const SHORT: usize = 32;

/// What a piece may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceKind {
    /// Built by merges, and used by them.
    Normal,
    /// Matched as a whole before any merge, and never merged with its neighbours.
    Whole,
    /// Built and used by merges; where one is left over it is taken apart again.
    Unused,
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

/// The tables of one vocabulary's text encoder. Immutable; shared between threads.
pub(crate) struct Bpe {
    symbols: Symbols,
    merges: Merges,
    cuts: Cuts,
    /// Pieces matched as a whole, by first character, longest first.
    whole: HashMap<char, Vec<(Vec<char>, TokenId)>>,
    /// The id that each byte falls back to.
    bytes: [TokenId; 256],
    /// Where unused pieces exist, how one is taken apart depends on the whole text: no cuts then.
    has_unused: bool,
}

/// Working memory of one encoding thread: reused between texts, bounded.
#[derive(Default)]
pub(crate) struct Scratch {
    cache: UnitCache,
    unit: Unit,
}

/// The characters of a unit, merging: parallel arrays of symbol and first byte.
#[derive(Default)]
struct Unit {
    symbols: Vec<Symbol>,
    starts: Vec<u32>,
    ids: Vec<TokenId>,
    long: LongUnit,
}

/// The linked list and the agenda of a unit too long to scan.
#[derive(Default)]
struct LongUnit {
    next: Vec<u32>,
    previous: Vec<u32>,
    /// Per place the merge of the symbol there with the next one.
    merges: Vec<Merge>,
    /// Ranks and places, in one number: lower ranks first, then the leftmost.
    agenda: BinaryHeap<Reverse<u64>>,
    taken_apart: HashMap<Symbol, (Symbol, Symbol)>,
}

const END: u32 = u32::MAX;

/// No merge.
const NEVER: Merge = Merge { rank: u32::MAX, product: NO_SYMBOL };

/// Working memory for longer units is given back.
const MAX_KEPT_SYMBOLS: usize = 1 << 16;

impl Bpe {
    /// Builds the tables. `bytes[b]` is the id that byte `b` falls back to.
    ///
    /// # Errors
    /// [`Error::Vocab`](crate::Error::Vocab) for pieces that make more merges than any real vocabulary.
    pub(crate) fn new(pieces: &[Piece<'_>], bytes: &[TokenId; 256]) -> Result<Self> {
        let symbols = Symbols::new(pieces);
        let merges = Merges::new(pieces, &symbols)?;
        let has_unused = pieces.iter().any(|piece| piece.kind == PieceKind::Unused);
        let cuts = if has_unused { Cuts::none() } else { Cuts::new(pieces) };
        let mut whole: HashMap<char, Vec<(Vec<char>, TokenId)>> = HashMap::new();
        for piece in pieces.iter().filter(|piece| piece.kind == PieceKind::Whole) {
            let chars: Vec<char> = piece.text.chars().map(unmark).collect();
            if let Some(&first) = chars.first() {
                whole.entry(first).or_default().push((chars, piece.id));
            }
        }
        for candidates in whole.values_mut() {
            candidates.sort_by_key(|(chars, _)| Reverse(chars.len()));
        }
        Ok(Self { symbols, merges, cuts, whole, bytes: *bytes, has_unused })
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
        if !dummy_prefix || text.is_empty() {
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
        self.whole.get(&first)?.iter().find_map(|(chars, id)| {
            let mut rest = text.chars();
            let fits = chars.iter().all(|&want| rest.next().map(unmark) == Some(want));
            fits.then(|| (text.len() - rest.as_str().len(), *id))
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
        let Scratch { cache, unit: work } = scratch;
        work.ids.clear();
        self.merge(unit, work);
        out.extend_from_slice(&work.ids);
        if let Some(key) = key {
            cache.insert(key, &work.ids);
        }
    }

    /// Merges one unit and appends its ids to `work.ids`.
    fn merge(&self, unit: &str, work: &mut Unit) {
        work.symbols.clear();
        work.starts.clear();
        for (at, c) in unit.char_indices() {
            work.symbols.push(self.symbols.of_char(unmark(c)));
            work.starts.push(at as u32);
        }
        if work.symbols.len() <= SHORT && !self.has_unused {
            self.merge_short(&mut work.symbols, &mut work.starts);
        } else {
            self.merge_long(work);
        }
        for (at, &symbol) in work.symbols.iter().enumerate() {
            let end = work.starts.get(at + 1).map_or(unit.len(), |&end| end as usize);
            let text = &unit[work.starts[at] as usize..end];
            match self.symbols.id(symbol) {
                Some(id) => work.ids.push(id),
                None => self.take_apart(symbol, text, &work.long.taken_apart, &mut work.ids),
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

    /// Merges by scanning for the best pair: quadratic, and the fastest for a few characters.
    fn merge_short(&self, symbols: &mut Vec<Symbol>, starts: &mut Vec<u32>) {
        let mut count = symbols.len();
        let mut merges = [NEVER; SHORT];
        let merge = |left, right| self.merges.get(left, right).unwrap_or(NEVER);
        for at in 1..count {
            merges[at - 1] = merge(symbols[at - 1], symbols[at]);
        }
        while count > 1 {
            let pairs = &merges[..count - 1];
            let mut best = 0;
            for (at, merge) in pairs.iter().enumerate() {
                if merge.rank < pairs[best].rank {
                    best = at;
                }
            }
            if pairs[best].rank == NEVER.rank {
                break;
            }
            symbols[best] = pairs[best].product;
            symbols.copy_within(best + 2..count, best + 1);
            starts.copy_within(best + 2..count, best + 1);
            merges.copy_within(best + 1..count - 1, best);
            count -= 1;
            merges[count - 1] = NEVER;
            if best > 0 {
                merges[best - 1] = merge(symbols[best - 1], symbols[best]);
            }
            if best + 1 < count {
                merges[best] = merge(symbols[best], symbols[best + 1]);
            }
        }
        symbols.truncate(count);
        starts.truncate(count);
    }

    /// Merges with a heap of candidate pairs over a linked list: `O(n log n)`.
    fn merge_long(&self, work: &mut Unit) {
        let Unit { symbols, starts, long, .. } = work;
        let LongUnit { next, previous, merges, agenda, taken_apart } = long;
        let count = symbols.len() as u32;
        taken_apart.clear();
        next.clear();
        previous.clear();
        next.extend((1..count).chain([END]));
        previous.extend([END].into_iter().chain(0..count - 1));
        merges.clear();
        merges.extend((0..count as usize).map(|at| self.merge_at(symbols, at, next, taken_apart)));
        let entry = |merge: Merge, at: u32| Reverse(u64::from(merge.rank) << 32 | u64::from(at));
        let mut entries = std::mem::take(agenda).into_vec();
        entries.clear();
        let candidates =
            (0..count).zip(merges.iter()).filter(|(_, merge)| merge.rank != NEVER.rank);
        entries.extend(candidates.map(|(at, &merge)| entry(merge, at)));
        // Built at once, which takes linear time.
        *agenda = BinaryHeap::from(entries);
        while let Some(Reverse(popped)) = agenda.pop() {
            let left = popped as u32;
            let merge = merges[left as usize];
            if u64::from(merge.rank) != popped >> 32 || merge.rank == NEVER.rank {
                continue; // One of the two has merged with another meanwhile.
            }
            let right = next[left as usize];
            let after = next[right as usize];
            symbols[left as usize] = merge.product;
            merges[right as usize] = NEVER;
            next[left as usize] = after;
            if after != END {
                previous[after as usize] = left;
            }
            for at in [previous[left as usize], left] {
                if at != END {
                    let merge = self.merge_at(symbols, at as usize, next, taken_apart);
                    merges[at as usize] = merge;
                    if merge.rank != NEVER.rank {
                        agenda.push(entry(merge, at));
                    }
                }
            }
        }
        // Keep what the list still holds, in order.
        let mut kept = 0;
        let mut at = 0;
        while at != END {
            symbols[kept] = symbols[at as usize];
            starts[kept] = starts[at as usize];
            kept += 1;
            at = next[at as usize];
        }
        symbols.truncate(kept);
        starts.truncate(kept);
    }

    /// The merge of the symbol at a place with the next one.
    fn merge_at(
        &self,
        symbols: &[Symbol],
        at: usize,
        next: &[u32],
        taken_apart: &mut HashMap<Symbol, (Symbol, Symbol)>,
    ) -> Merge {
        let Some(&right) = symbols.get(next[at] as usize) else { return NEVER };
        let Some(merge) = self.merges.get(symbols[at], right) else { return NEVER };
        if self.has_unused && self.symbols.is_unused(merge.product) {
            taken_apart.insert(merge.product, (symbols[at], right));
        }
        merge
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
