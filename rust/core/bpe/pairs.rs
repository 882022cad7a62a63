//! Which two symbols merge, and into what: one word per merge.
//!
//! A product comes out of one pair alone. What merges within its text does not depend on what stands
//! around it until a merge crosses its ends, so it happens as it does for that text by itself, and
//! this has one last merge. Every other way to part a product is left out; and with one merge per
//! product, products can be numbered in the order in which they merge, so that a merge needs no rank
//! beside its product. Products of equal rank, of which the leftmost in the text comes first, have
//! neighbouring numbers and are marked.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

/// A number for a character, a byte or a product of merges.
pub(super) type Symbol = u32;

/// A symbol that never merges.
pub(super) const NO_SYMBOL: Symbol = (1 << SYMBOL_BITS) - 2;

/// What a pair merges into: twice the product, and one more where others have its rank. Lower ones
/// come first.
pub(super) type Code = u32;

/// No product.
pub(super) const NONE: Code = Code::MAX;

/// Two symbols, a product and a bit are a word.
const SYMBOL_BITS: u32 = 21;

/// Ten times as many as the largest vocabulary has.
pub(super) const MAX_SYMBOLS: usize = NO_SYMBOL as usize;

const EMPTY: u64 = u64::MAX;

/// An open-addressing table from a pair of symbols to the code of their product.
pub(super) struct Pairs {
    /// Per merge left, right and code.
    slots: Vec<u64>,
    /// `64 - log2(slots)`: the hash's top bits are the place.
    shift: u32,
    /// Drawn per table, so that no file can be made whose pairs all collide.
    factor: u64,
}

/// A question to the table, and where its answer may stand.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked {
    pair: u64,
    place: u32,
}

impl Pairs {
    pub(super) fn with_capacity(merges: usize) -> Self {
        let capacity = (merges + merges / 4 + 1).next_power_of_two().max(2);
        Self {
            slots: vec![EMPTY; capacity],
            shift: 64 - capacity.trailing_zeros(),
            factor: DefaultHashBuilder::default().hash_one(0u8) | 1,
        }
    }

    #[inline(always)]
    fn place(&self, pair: u64) -> usize {
        let mixed = u128::from(pair ^ (pair >> 19)) * u128::from(self.factor);
        let folded = (mixed as u64) ^ ((mixed >> 64) as u64);
        (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    /// What two symbols merge into, or [`NONE`].
    #[inline(always)]
    pub(super) fn code(&self, left: Symbol, right: Symbol) -> Code {
        let pair = pair(left, right);
        self.read(pair, self.place(pair))
    }

    /// Has the processor fetch what two symbols merge into.
    #[inline(always)]
    pub(super) fn ask(&self, left: Symbol, right: Symbol) -> Asked {
        let pair = pair(left, right);
        let place = self.place(pair);
        if let Some(slot) = self.slots.get(place) {
            super::prefetch::read(slot);
        }
        Asked { pair, place: place as u32 }
    }

    /// The answer to what was asked.
    #[inline(always)]
    pub(super) fn answer(&self, asked: Asked) -> Code {
        self.read(asked.pair, asked.place as usize)
    }

    #[inline(always)]
    fn read(&self, pair: u64, place: usize) -> Code {
        let mut at = place & (self.slots.len() - 1);
        loop {
            let slot = self.slots[at];
            if slot >> (SYMBOL_BITS + 1) == pair {
                return slot as Code & ((1 << (SYMBOL_BITS + 1)) - 1);
            }
            if slot == EMPTY {
                return NONE;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Of two merges with the same pair the later one counts.
    pub(super) fn insert(&mut self, left: Symbol, right: Symbol, code: Code) {
        let pair = pair(left, right);
        let mut at = self.place(pair);
        while self.slots[at] != EMPTY && self.slots[at] >> (SYMBOL_BITS + 1) != pair {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = pair << (SYMBOL_BITS + 1) | u64::from(code);
    }

    /// Left, right and product of every merge.
    pub(super) fn iter(&self) -> impl Iterator<Item = [Symbol; 3]> + '_ {
        let mask = (1 << SYMBOL_BITS) - 1;
        self.slots.iter().filter(|&&slot| slot != EMPTY).map(move |slot| {
            [2, 1, 0].map(|place| (slot >> (place * SYMBOL_BITS + 1)) as Symbol & mask)
        })
    }
}

#[inline(always)]
fn pair(left: Symbol, right: Symbol) -> u64 {
    u64::from(left) << SYMBOL_BITS | u64::from(right)
}
