//! The last two symbols of a token: the pair whose merge makes the token.
//!
//! Short tokens of the same length are merged side by side, in turns: all look up their pairs, then all look up the
//! ranks, then each makes one merge. So the processor waits for the memory of all tokens at once.

use super::heap_merge::{Agenda, NO_RANK};
use super::merger::Token;
use super::pairs::{Asked, NONE, Pair, Pairs, Symbol};
use super::prefetch;

/// Maximum number of tokens side by side.
const LANES: usize = 16;

/// Maximum number of symbols of a token that is merged by scanning.
const SCANNED: usize = 32;

/// Number of tokens of some length that [`LeftOver::two`] takes at once.
pub(super) fn lanes(length: usize) -> usize {
    if length > SCANNED { 1 } else { LANES }
}

/// The merges so far: the product of a pair, and the rank of a product.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) pairs: &'a Pairs,
    pub(super) ranks: &'a [u32],
}

impl Known<'_> {
    /// Rank and product of a pair.
    fn merge(self, left: Symbol, right: Symbol) -> (u32, Symbol) {
        let product = self.pairs.code(left, right);
        (self.rank(product), product)
    }

    #[inline(always)]
    fn rank(self, product: Symbol) -> u32 {
        self.ranks.get(product as usize).copied().unwrap_or(NO_RANK)
    }
}

/// A token that is being merged. Product and rank of a place are those of its symbol with the next one.
#[derive(Clone, Copy)]
struct Lane {
    symbols: [Symbol; SCANNED],
    products: [Symbol; SCANNED],
    ranks: [u32; SCANNED],
    asked: [Asked; SCANNED],
    /// The places whose pairs are to be looked up.
    open: (usize, usize),
    /// Whether no two of its symbols merge.
    is_stuck: bool,
}

/// Working memory.
pub(super) struct LeftOver {
    lanes: [Lane; LANES],
    agenda: Agenda,
    tokens: Vec<Token>,
}

impl Default for LeftOver {
    fn default() -> Self {
        let lane = Lane {
            symbols: [0; SCANNED],
            products: [0; SCANNED],
            ranks: [NO_RANK; SCANNED],
            asked: [Asked::NOTHING; SCANNED],
            open: (0, 0),
            is_stuck: false,
        };
        Self { lanes: [lane; LANES], agenda: Agenda::default(), tokens: Vec::new() }
    }
}

impl LeftOver {
    /// For each of some tokens of the same length, of two symbols or more and no more tokens than [`lanes`] says: the two
    /// symbols that remain before the last merge, if there are exactly two.
    pub(super) fn two<'t>(
        &mut self,
        tokens: impl Iterator<Item = &'t [Symbol]>,
        length: usize,
        known: Known<'_>,
        found: &mut Vec<Option<(Symbol, Symbol)>>,
    ) {
        debug_assert!(length >= 2, "a token of {length} symbols has no merge");
        found.clear();
        if length > SCANNED {
            found.extend(tokens.map(|token| self.two_of_long(token, known)));
            return;
        }
        let mut count = 0;
        for (lane, token) in self.lanes.iter_mut().zip(tokens) {
            lane.symbols[..length].copy_from_slice(token);
            (lane.open, lane.is_stuck) = ((0, length - 1), false);
            count += 1;
        }
        let lanes = &mut self.lanes[..count];
        for left in (3..=length).rev() {
            for lane in &mut *lanes {
                lane.ask(known);
            }
            for lane in &mut *lanes {
                lane.answer(known);
            }
            for lane in &mut *lanes {
                lane.merge(left, known);
            }
        }
        found.extend(lanes.iter().map(|lane| {
            let [left, right, ..] = lane.symbols;
            (!lane.is_stuck).then_some((left, right))
        }));
    }

    fn two_of_long(&mut self, token: &[Symbol], known: Known<'_>) -> Option<(Symbol, Symbol)> {
        self.tokens.clear();
        self.agenda.merge(token, 0, &mut self.tokens, |left, right| known.merge(left, right));
        match self.tokens[..] {
            [Token { symbol: left, .. }, Token { symbol: right, .. }] => Some((left, right)),
            _ => None,
        }
    }
}

impl Lane {
    /// Sends the lookups of the open pairs.
    #[inline(always)]
    fn ask(&mut self, known: Known<'_>) {
        for at in self.open.0..self.open.1 {
            self.asked[at] = known.pairs.ask(Pair(self.symbols[at], self.symbols[at + 1]));
        }
    }

    /// Reads the products of the open pairs, and sends the lookups of the products' ranks.
    #[inline(always)]
    fn answer(&mut self, known: Known<'_>) {
        for at in self.open.0..self.open.1 {
            let product = known.pairs.answer(self.asked[at]);
            self.products[at] = product;
            if let Some(rank) = known.ranks.get(product as usize) {
                prefetch::read(rank);
            }
        }
    }

    /// Makes the first merge of `length` symbols.
    #[inline(always)]
    fn merge(&mut self, length: usize, known: Known<'_>) {
        if self.is_stuck {
            return;
        }
        for at in self.open.0..self.open.1 {
            self.ranks[at] = known.rank(self.products[at]);
        }
        let (mut best, mut at) = (NO_RANK, 0);
        for (place, &rank) in self.ranks[..length - 1].iter().enumerate() {
            // Two moves on a condition, no branch.
            (best, at) = if rank < best { (rank, place) } else { (best, at) };
        }
        if best == NO_RANK {
            (self.open, self.is_stuck) = ((0, 0), true);
            return;
        }
        self.symbols[at] = self.products[at];
        // Some few, so that a loop is quicker than `copy_within`.
        for next in at + 1..length - 1 {
            self.symbols[next] = self.symbols[next + 1];
            self.products[next - 1] = self.products[next];
            self.ranks[next - 1] = self.ranks[next];
        }
        self.open = (at.saturating_sub(1), (at + 1).min(length - 2));
    }
}

const _: () = assert!(NONE as usize > super::pairs::MAX_SYMBOLS, "no product has this number");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Known, LANES, LeftOver, SCANNED, lanes};
    use crate::bpe::heap_merge::NO_RANK;
    use crate::bpe::pairs::{Pairs, Symbol};

    /// The plain rule: the pair of the least rank merges, the leftmost of equals, until two symbols are left; a long
    /// token merges to its end.
    fn plain(token: &[Symbol], merges: &[(Symbol, Symbol)]) -> Option<(Symbol, Symbol)> {
        let mut symbols = token.to_vec();
        let least = if token.len() > SCANNED { 1 } else { 2 };
        while symbols.len() > least {
            let rank =
                |pair: &[Symbol]| merges.iter().position(|merge| *merge == (pair[0], pair[1]));
            let ranked = symbols.windows(2).enumerate();
            let best = ranked.filter_map(|(at, pair)| Some((rank(pair)?, at))).min();
            let Some((rank, at)) = best else { break };
            symbols[at] = rank as Symbol + 3;
            symbols.remove(at + 1);
        }
        if let [left, right] = symbols[..] { Some((left, right)) } else { None }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn tokens_side_by_side_are_merged_as_each_alone(
            merges in prop::collection::hash_set((0..12u32, 0..12u32), 0..40),
            length in 2..SCANNED + 4,
            symbols in prop::collection::vec(0..3u32, LANES * (SCANNED + 4)),
            count in 1..=LANES,
        ) {
            let merges: Vec<_> = merges.into_iter().collect();
            let (mut pairs, mut ranks) = (Pairs::with_capacity(merges.len()), vec![NO_RANK; 3]);
            for (&(left, right), rank) in merges.iter().zip(0..) {
                pairs.insert(left, right, rank + 3);
                ranks.push(rank);
            }
            let known = Known { pairs: &pairs, ranks: &ranks };
            let tokens: Vec<_> = symbols.chunks_exact(length).take(count.min(lanes(length))).collect();
            let (mut left_over, mut found) = (LeftOver::default(), Vec::new());
            for _ in 0..2 {
                left_over.two(tokens.iter().copied(), length, known, &mut found);
                let expected: Vec<_> = tokens.iter().map(|token| plain(token, &merges)).collect();
                prop_assert_eq!(&found, &expected);
            }
        }
    }
}
