//! Merging of several short units at once.
//!
//! A merge looks up two new pairs and waits for memory. Therefore several units merge in turns: in
//! each round, all units read their answers and merge, and then all send their next lookups. No
//! decision of a round waits for a lookup of the same round.

use super::key::KEY_BYTES;
use super::merger::{LAST, NO_ID, key, place_of, product_of};
use super::pairs::{Asked, NO_SYMBOL, Pair, Pairs, Symbol};
use super::pipeline::Merging;
use crate::token::TokenId;

/// Number of units that merge at once.
const LANES: usize = 16;

/// A unit with a key has fewer symbols: one place is left.
const MOST: usize = KEY_BYTES + 1;

/// The bit of the place after the last symbol.
const END: u32 = 1 << MOST;

/// A unit in the middle of merging. The symbols begin at place 1, between two sentinels that never
/// merge: the first and the last symbol need no check.
#[derive(Clone, Copy)]
struct Lane {
    symbols: [Symbol; 2 * MOST],
    /// The code and place of each pair of neighbours, as one number.
    keys: [u32; MOST],
    /// A bit for each remaining symbol, and for the two sentinels.
    left: u32,
    /// The pairs to look up with their places, and the pending lookups.
    pairs: [(Pair, usize); 2],
    asked: [Asked; 2],
    nth: usize,
}

/// Working memory.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    found: Vec<(u32, u32)>,
}

impl Lanes {
    /// The range of each unit's ids among the appended ids.
    pub(super) fn found(&self) -> impl Iterator<Item = &(u32, u32)> {
        self.found.iter()
    }

    /// Appends the ids of `count` units with keys, in any order; [`found`](Self::found) gives their
    /// ranges.
    pub(super) fn merge<'a, M: Merging>(
        &mut self,
        merging: &M,
        count: usize,
        unit: impl Fn(usize) -> &'a str,
        ids: &mut Vec<TokenId>,
    ) {
        let Self { lanes, found } = self;
        found.clear();
        found.resize(count, (0, 0));
        lanes.resize(LANES, Lane::EMPTY);
        let Some(lanes) = lanes.first_chunk_mut::<LANES>() else { return };
        let mut next = 0;
        for lane in lanes.iter_mut().take(count) {
            lane.begin(merging, unit(next), next);
            next += 1;
        }
        // The lanes that hold a unit are the first ones.
        let mut busy: [usize; LANES] = std::array::from_fn(|at| at);
        let mut open = next;
        while open > 0 {
            let mut at = 0;
            while at < open {
                let lane = &mut lanes[busy[at % LANES] % LANES];
                if lane.step(merging) {
                    at += 1;
                    continue;
                }
                let from = ids.len() as u32;
                lane.finish(merging, unit(lane.nth), ids);
                found[lane.nth] = (from, ids.len() as u32);
                if next < count {
                    lane.begin(merging, unit(next), next);
                    next += 1;
                    at += 1;
                } else {
                    open -= 1;
                    busy.swap(at % LANES, open % LANES);
                }
            }
            for &at in &busy[..open % (LANES + 1)] {
                lanes[at % LANES].ask(merging.merger().pairs());
            }
        }
    }
}

impl Lane {
    const EMPTY: Self = Self {
        symbols: [NO_SYMBOL; 2 * MOST],
        keys: [LAST; MOST],
        left: 0,
        pairs: [(Pair::NONE, 0); 2],
        asked: [Asked::NOTHING; 2],
        nth: 0,
    };

    #[inline(always)]
    fn begin<M: Merging>(&mut self, merging: &M, unit: &str, nth: usize) {
        let merger = merging.merger();
        self.keys = [LAST; MOST];
        let mut count = 0;
        let mut previous = NO_SYMBOL;
        for symbol in merging.symbols(unit).take(KEY_BYTES) {
            if count > 0 {
                self.keys[count] = key(merger.first_code(previous, symbol), count);
            }
            count += 1;
            self.symbols[count] = symbol;
            previous = symbol;
        }
        self.left = ((2 << count) - 1) | END;
        self.pairs = [(Pair::NONE, 0); 2];
        self.asked = [Asked::NOTHING; 2];
        self.nth = nth;
    }

    /// Looks up the pairs that the last merge created.
    #[inline(always)]
    fn ask(&mut self, pairs: &Pairs) {
        self.asked = self.pairs.map(|(pair, _)| pairs.ask(pair));
    }

    /// Makes the next merge; returns whether one was made.
    #[inline(always)]
    fn step<M: Merging>(&mut self, merging: &M) -> bool {
        let (merger, pairs) = (merging.merger(), merging.merger().pairs());
        for (asked, (_, place)) in self.asked.into_iter().zip(self.pairs) {
            self.keys[place % MOST] = key(pairs.answer(asked), place);
        }
        let Some(best) = merger.next_merge::<MOST>(&self.keys) else { return false };
        let (place, product) = (place_of(best) % MOST, product_of(best));
        // Removes the symbol to the right.
        let after = self.left & (u32::MAX << place << 1);
        let right = after.trailing_zeros() as usize % MOST;
        let after = (after & after.wrapping_sub(1)).trailing_zeros() as usize % (2 * MOST);
        let before = self.left & ((1 << place) - 1);
        let before = before.checked_ilog2().unwrap_or(0) as usize % MOST;
        self.left &= !(1 << right);
        self.keys[right] = LAST;
        self.symbols[place] = product;
        merger.prefetch_id(product);
        let next = self.symbols[after];
        self.pairs = [(Pair(product, next), place), (Pair(self.symbols[before], product), before)];
        true
    }

    #[inline(always)]
    fn finish<M: Merging>(&self, merging: &M, unit: &str, ids: &mut Vec<TokenId>) {
        let mut left = self.left & !END & !1;
        while left != 0 {
            let place = left.trailing_zeros() as usize % MOST;
            left &= left - 1;
            match merging.merger().id(self.symbols[place]) {
                // A symbol that is no token is one character.
                NO_ID => {
                    if let Some(c) = unit.chars().nth(place - 1) {
                        merging.fall_back(c, ids);
                    }
                }
                id => ids.push(id),
            }
        }
    }
}
