//! Merging of symbols: best pair first, the leftmost of equal pairs first, for units of any length.
//!
//! In: the symbols of a unit. Out: the remaining symbols and their positions. Up to [`WINDOW`]
//! symbols merge in place, on the stack. A longer unit is merged window by window; each window
//! begins with the last token of the previous one, and [`Merger::merge`] explains why the result is
//! exact. Cost: linear in the unit, unless tokens are longer than a window.

use super::heap_merge::{Agenda, NO_RANK};
use super::pairs::{Code, NONE, Pairs, Symbol};
use crate::token::TokenId;

/// Number of symbols that merge on the stack: one bit of a word each.
pub(super) const WINDOW: usize = 64;

const POSITION_BITS: u32 = WINDOW.trailing_zeros();

/// Factor by which a window grows where a smaller one is not sufficient.
const GROWTH: usize = 16;

/// Number of symbols from which a run is recognised.
const RUN: usize = 2048;

/// Maximum number of symbols that repeat in a run: an emoji with a joiner has ten bytes.
const MAX_PERIOD: usize = 12;

/// The id of a symbol that is not a token.
pub(super) const NO_ID: TokenId = -1;

/// The tables of merging.
pub(super) struct Merger {
    pairs: Pairs,
    /// Products of pairs of first symbols: most merging begins with these.
    grid: Vec<Code>,
    side: Symbol,
    /// The id of each symbol, [`NO_ID`] if it is not a token.
    ids: Vec<TokenId>,
    /// The first and last code of each group of products with equal rank.
    ties: Vec<(Code, Code)>,
}

/// A remaining symbol, and the index of the unit's symbol that it begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) symbol: Symbol,
    pub(super) start: u32,
}

/// Working memory for units.
#[derive(Default)]
pub(super) struct Work {
    /// The symbols of the unit.
    pub(super) symbols: Vec<Symbol>,
    /// The result of merging.
    pub(super) tokens: Vec<Token>,
    agenda: Agenda,
}

impl Work {
    pub(super) fn is_large(&self, most: usize) -> bool {
        self.symbols.capacity() > most
            || self.tokens.capacity() > most
            || self.agenda.is_large(most)
    }
}

/// The symbols of a window, and for each pair of neighbours its code and place as one number.
struct Window {
    symbols: [Symbol; WINDOW],
    keys: [u32; WINDOW],
    /// A bit for each remaining symbol.
    left: u64,
}

impl Merger {
    pub(super) fn new(
        pairs: Pairs,
        side: Symbol,
        ids: Vec<TokenId>,
        ties: Vec<(Code, Code)>,
    ) -> Self {
        let mut grid = vec![NONE; (side * side) as usize];
        for [left, right, _] in pairs.iter() {
            if left < side && right < side {
                grid[(left * side + right) as usize] = pairs.code(left, right);
            }
        }
        Self { pairs, grid, side, ids, ties }
    }

    /// The id of a symbol, [`NO_ID`] if it is not a token.
    #[inline(always)]
    pub(super) fn id(&self, symbol: Symbol) -> TokenId {
        self.ids.get(symbol as usize).copied().unwrap_or(NO_ID)
    }

    /// Prefetches a symbol's id.
    #[inline(always)]
    pub(super) fn prefetch_id(&self, symbol: Symbol) {
        if let Some(id) = self.ids.get(symbol as usize) {
            super::prefetch::read(id);
        }
    }

    /// Left, right and product of every merge, by their ids.
    pub(super) fn merge_ids(&self) -> impl Iterator<Item = [Option<TokenId>; 3]> + '_ {
        let id = |symbol| Some(self.id(symbol)).filter(|&id| id != NO_ID);
        self.pairs.iter().map(move |symbols| symbols.map(id))
    }

    pub(super) fn pairs(&self) -> &Pairs {
        &self.pairs
    }

    #[inline(always)]
    pub(super) fn first_code(&self, left: Symbol, right: Symbol) -> Code {
        if left < self.side && right < self.side {
            self.grid[(left * self.side + right) as usize]
        } else {
            self.pairs.code(left, right)
        }
    }

    /// The first and the last code of equal rank, if there are several.
    fn tie(&self, code: Code) -> (Code, Code) {
        let at = self.ties.partition_point(|&(_, last)| last < code);
        self.ties.get(at).copied().unwrap_or((code, code))
    }

    /// The first code of equal rank, which is the rank.
    fn rank(&self, code: Code) -> u32 {
        match code {
            NONE => NO_RANK,
            code if code & 1 == 0 => code,
            code => self.tie(code).0,
        }
    }

    /// Merges `work.symbols` into `work.tokens`.
    ///
    /// Merging a text gives a sequence of tokens exactly if merging the text of each two neighbours
    /// gives these two: the first merge across a boundary depends on the two tokens at it alone. All
    /// neighbours in the result of a window have this property. So two windows can be joined at a
    /// token that both contain. Where the next window has another token at that place, it is merged
    /// again with a larger size.
    #[inline(always)]
    pub(super) fn merge(&self, work: &mut Work) {
        let Work { symbols, tokens, agenda } = work;
        tokens.clear();
        if symbols.len() <= WINDOW {
            self.merge_window(symbols, 0, tokens);
        } else if !self.merge_run(symbols, tokens, agenda) {
            self.merge_long(symbols, tokens, agenda);
        }
    }

    /// Merges a long run that repeats a few symbols, if this is one and its result repeats a token.
    ///
    /// Where a token is its own neighbour, it can be repeated any number of times, because no new
    /// pair of neighbours appears. So a shorter run is merged, with fewer repetitions, and the
    /// missing tokens are inserted. The token consists of whole periods, so the tokens after it do
    /// not change.
    #[inline(never)]
    fn merge_run(&self, symbols: &[Symbol], tokens: &mut Vec<Token>, agenda: &mut Agenda) -> bool {
        if symbols.len() <= 2 * RUN {
            return false;
        }
        let repeats = |&period: &usize| symbols[period..].iter().zip(symbols).all(|(a, b)| a == b);
        let Some(period) = (1..=MAX_PERIOD).find(repeats) else { return false };
        let repeated = |tokens: &[Token]| {
            let is_twice = |pair: &[Token]| {
                let length = (pair[1].start - pair[0].start) as usize;
                pair[0].symbol == pair[1].symbol && length.is_multiple_of(period)
            };
            tokens.windows(2).position(is_twice)
        };
        let mut count = RUN;
        // The first pass finds the token that repeats; the second merges a run that lacks a whole
        // number of it.
        for _ in 0..2 {
            tokens.clear();
            self.merge_by_agenda(&symbols[..count], 0, tokens, agenda);
            let Some(at) = repeated(tokens) else { return false };
            let length = (tokens[at + 1].start - tokens[at].start) as usize;
            let lacking = symbols.len() - count;
            if !lacking.is_multiple_of(length) {
                count += lacking % length;
                continue;
            }
            let token = tokens[at];
            let more = (1..=lacking / length)
                .map(|nth| Token { start: token.start + (nth * length) as u32, ..token });
            let after = tokens.split_off(at + 1);
            tokens.extend(more);
            let moved = |token: Token| Token { start: token.start + lacking as u32, ..token };
            tokens.extend(after.into_iter().map(moved));
            return true;
        }
        false
    }

    /// Merges more symbols than a window on the stack holds; the first one is at a given place in
    /// the unit.
    fn merge_by_agenda(
        &self,
        symbols: &[Symbol],
        at: usize,
        tokens: &mut Vec<Token>,
        agenda: &mut Agenda,
    ) {
        agenda.merge(symbols, at, tokens, |left, right| {
            let code = self.first_code(left, right);
            (self.rank(code), code >> 1)
        });
    }

    #[inline(never)]
    fn merge_long(&self, symbols: &[Symbol], tokens: &mut Vec<Token>, agenda: &mut Agenda) {
        let mut size = WINDOW;
        // Where the window begins, and how many tokens come before it.
        let (mut at, mut kept) = (0_usize, 0);
        // The same for the previous window, and its size.
        let mut last: Option<(usize, usize, usize)> = None;
        loop {
            let end = symbols.len().min(at.saturating_add(size));
            let expected = tokens.get(kept).copied().filter(|_| at > 0);
            tokens.truncate(kept);
            if end - at <= WINDOW {
                self.merge_window(&symbols[at..end], at, tokens);
            } else {
                self.merge_by_agenda(&symbols[at..end], at, tokens, agenda);
            }
            if expected.is_some_and(|expected| tokens[kept] != expected) {
                // The two windows do not join: merges again from the beginning of the last one, or
                // everything at once.
                let (start, before, less) = last.take().unwrap_or((0, 0, symbols.len()));
                (at, kept, size) = (start, before, less.saturating_mul(GROWTH));
                tokens.truncate(kept + 1);
                continue;
            }
            if end == symbols.len() {
                return;
            }
            // The symbols after a window can change its last tokens, so the next window begins
            // before them.
            let latest = at + (end - at) / 2;
            let more = tokens[kept..].iter().rposition(|token| token.start as usize <= latest);
            if let Some(more @ 1..) = more {
                last = Some((at, kept, size));
                kept += more;
                at = tokens[kept].start as usize;
                tokens.truncate(kept + 1);
            } else {
                tokens.truncate(kept);
                tokens.extend(expected);
                size = size.saturating_mul(GROWTH);
            }
        }
    }

    /// Merges up to [`WINDOW`] symbols; the first one is at a given place in the unit.
    #[inline(always)]
    fn merge_window(&self, symbols: &[Symbol], at: usize, tokens: &mut Vec<Token>) {
        let count = symbols.len().min(WINDOW);
        if count == 0 {
            return;
        }
        let mut window = Window {
            symbols: [0; WINDOW],
            keys: [LAST; WINDOW],
            left: u64::MAX >> (WINDOW - count),
        };
        window.symbols[..count].copy_from_slice(&symbols[..count]);
        for place in 1..count {
            let code = self.first_code(symbols[place - 1], symbols[place]);
            window.keys[place - 1] = key(code, place - 1);
        }
        if count <= 8 {
            self.merge_among::<8>(&mut window);
        } else if count <= 16 {
            self.merge_among::<16>(&mut window);
        } else if count <= 32 {
            self.merge_among::<32>(&mut window);
        } else {
            self.merge_among::<WINDOW>(&mut window);
        }
        let mut left = window.left;
        while left != 0 {
            let place = left.trailing_zeros() as usize % WINDOW;
            tokens.push(Token { symbol: window.symbols[place], start: (at + place) as u32 });
            left &= left - 1;
        }
    }

    /// Merges a window whose pairs are among its first `N`.
    #[inline(always)]
    fn merge_among<const N: usize>(&self, window: &mut Window) {
        let Window { symbols, keys, left } = window;
        loop {
            let Some(best) = self.next_merge::<N>(keys) else { return };
            let (place, product) = (place_of(best), product_of(best));
            // Removes the symbol to the right.
            let after_place = *left & (u64::MAX << place << 1);
            let right = after_place.trailing_zeros() as usize % WINDOW;
            *left &= !(1 << right);
            keys[right] = LAST;
            symbols[place] = product;
            let after = after_place & (after_place - 1);
            keys[place] = if after == 0 {
                LAST
            } else {
                let next = symbols[after.trailing_zeros() as usize % WINDOW];
                key(self.pairs.code(product, next), place)
            };
            let before = *left & ((1 << place) - 1);
            if before != 0 {
                let previous = (WINDOW - 1 - before.leading_zeros() as usize) % WINDOW;
                keys[previous] = key(self.pairs.code(symbols[previous], product), previous);
            }
        }
    }

    /// The smallest key; of equal ones the leftmost. `None` if no pair merges.
    #[inline(always)]
    pub(super) fn next_merge<const N: usize>(&self, keys: &[u32]) -> Option<u32> {
        let keys: &[u32; N] = keys.first_chunk()?;
        let best = least(keys);
        if best >= LAST {
            None
        } else if best >> POSITION_BITS & 1 == 0 {
            Some(best)
        } else {
            Some(self.leftmost_of_tied(keys, best))
        }
    }

    #[cold]
    fn leftmost_of_tied(&self, keys: &[u32], best: u32) -> u32 {
        let (_, last) = self.tie(code_of(best));
        let equals = keys.iter().find(|&&key| key < LAST && code_of(key) <= last);
        equals.copied().unwrap_or(best)
    }
}

/// Added to every code so that a key's bits are a normal floating-point number: see [`least`].
const NORMAL: u32 = 1 << 22;

/// The key of a pair that does not merge, greater than the key of any pair that does.
pub(super) const LAST: u32 = (NONE + NORMAL) << POSITION_BITS;

/// A code and a place as one number: the pair with the smallest number merges next.
#[inline(always)]
pub(super) fn key(code: Code, place: usize) -> u32 {
    (code + NORMAL) << POSITION_BITS | place as u32
}

/// The place in a number.
#[inline(always)]
pub(super) fn place_of(key: u32) -> usize {
    key as usize % WINDOW
}

/// The product in a number.
#[inline(always)]
pub(super) fn product_of(key: u32) -> Symbol {
    code_of(key) >> 1
}

#[inline(always)]
fn code_of(key: u32) -> Code {
    (key >> POSITION_BITS) - NORMAL
}

/// The smallest of some keys; `N` is a multiple of eight. The keys are ordered as the floating-point numbers
/// with the same bits, which are all normal: a processor has an instruction for the minimum of several such
/// numbers.
#[inline(always)]
fn least<const N: usize>(keys: &[u32; N]) -> u32 {
    let smaller = |a: f32, b: f32| if a < b { a } else { b };
    let mut four = [f32::INFINITY; 4];
    for some in keys.as_chunks::<4>().0 {
        for (least, &key) in four.iter_mut().zip(some) {
            *least = smaller(*least, f32::from_bits(key));
        }
    }
    smaller(smaller(four[0], four[1]), smaller(four[2], four[3])).to_bits()
}
