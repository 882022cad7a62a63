//! What remains of a token before its last merge: two symbols, of which the last merge makes the token.
//!
//! Tokens of the same length are merged side by side, in turns: all look up their pairs, then all look up the ranks,
//! then each makes one merge. So no token waits for memory alone.

use super::heap_merge::{Agenda, NO_RANK};
use super::merger::Token;
use super::pairs::{Asked, NONE, Pair, Pairs, Symbol};
use super::prefetch;

/// Number of tokens side by side.
pub(super) const LANES: usize = 16;

/// Maximum number of symbols of a token that is merged by scanning.
const SCANNED: usize = 32;

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
        Self { lanes: [lane; LANES], agenda: Agenda::default() }
    }
}

impl LeftOver {
    /// For each of at most [`LANES`] tokens of the same length, of two symbols or more: the two that remain before the
    /// last merge, if there are exactly two.
    pub(super) fn two<'t>(
        &mut self,
        tokens: impl Iterator<Item = &'t [Symbol]>,
        length: usize,
        known: Known<'_>,
        found: &mut Vec<Option<(Symbol, Symbol)>>,
    ) {
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
        let mut tokens = Vec::new();
        self.agenda.merge(token, 0, &mut tokens, |left, right| known.merge(left, right));
        match tokens[..] {
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

    /// Reads their products, and sends the lookups of the ranks.
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
        // As one number each, so that the least is found without branches.
        let ranks = self.ranks[..length - 1].iter().zip(0u64..);
        let best = ranks.map(|(rank, at)| u64::from(*rank) << 32 | at).min().unwrap_or(u64::MAX);
        if best >> 32 == u64::from(NO_RANK) {
            (self.open, self.is_stuck) = ((0, 0), true);
            return;
        }
        let at = best as u32 as usize;
        self.symbols[at] = self.products[at];
        self.symbols.copy_within(at + 2..length, at + 1);
        self.products.copy_within(at + 1..length - 1, at);
        self.ranks.copy_within(at + 1..length - 1, at);
        self.open = (at.saturating_sub(1), (at + 1).min(length - 2));
    }
}

const _: () = assert!(NONE as usize > super::pairs::MAX_SYMBOLS, "no product has this number");
