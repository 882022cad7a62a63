//! Short units merging side by side.
//!
//! A merge asks the table of pairs for two more, and waits for memory. So several units merge in
//! turns: each asks for its pairs, and reads the answers when the others have asked for theirs.

use super::key::KEY_BYTES;
use super::merger::{NO_ID, key, place_of, product_of};
use super::pairs::{Asked, NONE, Symbol};
use super::units::Merging;
use crate::vocab::TokenId;

/// So many units merge at a time.
const LANES: usize = 16;

/// No unit with a key has more symbols, which is a power of two.
const MOST: usize = (KEY_BYTES + 1).next_power_of_two();

/// A unit in the middle of merging.
#[derive(Clone, Copy)]
struct Lane<'a> {
    symbols: [Symbol; MOST],
    /// Per pair of neighbours its code and place, as one number.
    keys: [u32; MOST],
    /// A bit for each symbol that is left.
    left: u32,
    /// What the table of pairs was asked for, and for which places; none at `MOST`.
    asked: [(Asked, usize); 2],
    unit: &'a str,
    nth: usize,
}

/// Working memory.
#[derive(Default)]
pub(super) struct Lanes {
    found: Vec<(u32, u32)>,
}

impl Lanes {
    /// Where the ids of each unit stand among those appended.
    pub(super) fn found(&self) -> impl Iterator<Item = &(u32, u32)> {
        self.found.iter()
    }

    /// Appends the ids of units, each of which has a key; in any order, [`found`](Self::found) says where.
    pub(super) fn merge<'a, M: Merging>(
        &mut self,
        merging: &M,
        units: impl ExactSizeIterator<Item = &'a str>,
        ids: &mut Vec<TokenId>,
    ) {
        self.found.clear();
        self.found.resize(units.len(), (0, 0));
        let mut units = units.enumerate();
        let mut lanes: [Option<Lane<'a>>; LANES] = [None; LANES];
        let mut open = 0;
        loop {
            while open < LANES
                && let Some((nth, unit)) = units.next()
            {
                lanes[open] = Some(Lane::new(merging, unit, nth));
                open += 1;
            }
            if open == 0 {
                return;
            }
            let mut at = 0;
            while at < open {
                let Some(lane) = &mut lanes[at] else { return };
                if lane.step(merging) {
                    at += 1;
                    continue;
                }
                let from = ids.len() as u32;
                lane.finish(merging, ids);
                self.found[lane.nth] = (from, ids.len() as u32);
                if let Some((nth, unit)) = units.next() {
                    *lane = Lane::new(merging, unit, nth);
                    at += 1;
                } else {
                    open -= 1;
                    lanes.swap(at, open);
                }
            }
        }
    }
}

impl<'a> Lane<'a> {
    #[inline(always)]
    fn new<M: Merging>(merging: &M, unit: &'a str, nth: usize) -> Self {
        let mut lane = Self {
            symbols: [0; MOST],
            keys: [NONE; MOST],
            left: 0,
            asked: [(Asked::default(), MOST); 2],
            unit,
            nth,
        };
        let mut count = 0;
        for (slot, symbol) in lane.symbols.iter_mut().zip(merging.symbols(unit)) {
            *slot = symbol;
            count += 1;
        }
        lane.left = (1 << count) - 1;
        for place in 1..count {
            let code = merging.merger().first_code(lane.symbols[place - 1], lane.symbols[place]);
            lane.keys[place - 1] = key(code, place - 1);
        }
        lane
    }

    /// Makes the next merge; whether there was one.
    #[inline(always)]
    fn step<M: Merging>(&mut self, merging: &M) -> bool {
        let pairs = merging.merger().pairs();
        for (asked, place) in self.asked {
            if let Some(slot) = self.keys.get_mut(place) {
                *slot = key(pairs.answer(asked), place);
            }
        }
        let mut best = NONE;
        for &key in &self.keys {
            best = best.min(key);
        }
        if best == NONE {
            return false;
        }
        best = merging.merger().leftmost_of_equals(&self.keys, best);
        let (place, product) = (place_of(best) % MOST, product_of(best));
        // The symbol to the right goes.
        let after_place = self.left & (u32::MAX << place << 1);
        let right = after_place.trailing_zeros() as usize % MOST;
        self.left &= !(1 << right);
        self.keys[right] = NONE;
        self.keys[place] = NONE;
        self.symbols[place] = product;
        let after = after_place & after_place.wrapping_sub(1);
        let before = self.left & ((1 << place) - 1);
        self.asked = [(Asked::default(), MOST); 2];
        if after != 0 {
            let next = self.symbols[after.trailing_zeros() as usize % MOST];
            self.asked[0] = (pairs.ask(product, next), place);
        }
        if before != 0 {
            let previous = before.ilog2() as usize % MOST;
            self.keys[previous] = NONE;
            self.asked[1] = (pairs.ask(self.symbols[previous], product), previous);
        }
        true
    }

    #[inline(always)]
    fn finish<M: Merging>(&self, merging: &M, ids: &mut Vec<TokenId>) {
        let mut left = self.left;
        while left != 0 {
            let place = left.trailing_zeros() as usize % MOST;
            left &= left - 1;
            match merging.merger().id(self.symbols[place]) {
                // A symbol that is no token is one character.
                NO_ID => {
                    let c = self.unit.chars().nth(place);
                    if let Some(c) = c {
                        merging.fall_back(c, ids);
                    }
                }
                id => ids.push(id),
            }
        }
    }
}
