//! Which two symbols merge, and into what: one word per merge.
//!
//! Each product is made by one pair alone. The merges within its text do not depend on the
//! neighbouring text until a merge crosses its ends. So they are the merges of that text alone,
//! which has one last merge. All other pairs with the same product are left out. With one merge per
//! product, products are numbered in the order in which they merge, and a merge needs no rank beside
//! its product. Products of equal rank, where the leftmost in the text merges first, have
//! consecutive numbers and are marked.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use crate::huge_pages::HugePages;

/// A number for a character, a byte or a product of merges.
pub(super) type Symbol = u32;

/// A symbol that never merges.
pub(super) const NO_SYMBOL: Symbol = (1 << SYMBOL_BITS) - 2;

/// The result of a merge: twice the product, plus one where other products have the same rank.
/// Lower codes merge first.
pub(super) type Code = u32;

/// No product: the value of an empty slot.
pub(super) const NONE: Code = (1 << PAIR_SHIFT) - 1;

/// Two symbols, a product and a bit fit in one word.
const SYMBOL_BITS: u32 = 21;

/// Ten times as many as the largest vocabulary has.
pub(super) const MAX_SYMBOLS: usize = NO_SYMBOL as usize;

/// Position of the pair in a slot, above its code.
const PAIR_SHIFT: u32 = SYMBOL_BITS + 1;

const EMPTY: u64 = u64::MAX;

/// Minimum number of bits of the filter for each merge.
const FILTER: usize = 8;

/// An open-addressing table from a pair of symbols to the code of their product.
pub(super) struct Pairs {
    /// Left, right and code of each merge. The last slot stays empty, and a search ends there.
    slots: HugePages<u64>,
    /// `64 - log2(slots)`: the hash's top bits are the place.
    shift: u32,
    /// A filter with a bit for each pair's hash. Most pairs that are looked up do not merge, and the
    /// filter is small enough for the cache.
    filter: Vec<u64>,
    filter_shift: u32,
    /// Random for each table, so that nobody can construct a file whose pairs all collide.
    factor: u64,
}

/// Two neighbours, left and right.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair(pub(super) Symbol, pub(super) Symbol);

impl Pair {
    /// Two symbols that do not merge.
    pub(super) const NONE: Self = Self(NO_SYMBOL, NO_SYMBOL);

    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self.0) << SYMBOL_BITS | u64::from(self.1)
    }
}

/// A lookup in the table, and the slot that may have its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pair: u64,
    place: u32,
}

impl Asked {
    /// A value that no pair of symbols has.
    pub(super) const NOTHING: Self = Self { pair: EMPTY >> PAIR_SHIFT, place: u32::MAX };
}

impl Pairs {
    pub(super) fn with_capacity(merges: usize) -> Self {
        let capacity = (merges + merges / 2 + 1).next_power_of_two().max(2);
        let filter_bits = (merges * FILTER).next_power_of_two().max(64);
        Self {
            slots: HugePages::filled(EMPTY, capacity + 1),
            shift: 64 - capacity.trailing_zeros(),
            filter: vec![0; filter_bits / 64],
            filter_shift: 64 - filter_bits.trailing_zeros(),
            factor: DefaultHashBuilder::default().hash_one(0u8) | 1,
        }
    }

    #[inline(always)]
    fn hash(&self, pair: u64) -> u64 {
        pair.wrapping_mul(self.factor)
    }

    /// The code of the product of two symbols, or [`NONE`].
    #[inline(always)]
    pub(super) fn code(&self, left: Symbol, right: Symbol) -> Code {
        self.answer(self.place(Pair(left, right).bits()))
    }

    /// Prefetches the product of two symbols.
    #[inline(always)]
    pub(super) fn ask(&self, pair: Pair) -> Asked {
        let asked = self.place(pair.bits());
        if let Some(slot) = self.slots.get(asked.place as usize) {
            super::prefetch::read(slot);
        }
        asked
    }

    /// The slot of a pair.
    #[inline(always)]
    fn place(&self, pair: u64) -> Asked {
        let hash = self.hash(pair);
        let bit = hash >> self.filter_shift;
        let word = self.filter.get(bit as usize / 64).copied().unwrap_or(0);
        // All ones where the filter rejects the pair: then the search begins at the last slot,
        // which is empty.
        let absent = (word >> (bit % 64) & 1).wrapping_sub(1);
        let last = self.slots.len() as u64 - 1;
        let place = hash >> self.shift & !absent | last & absent;
        Asked { pair: pair | absent >> PAIR_SHIFT, place: place as u32 }
    }

    /// The answer to a lookup.
    #[inline(always)]
    pub(super) fn answer(&self, asked: Asked) -> Code {
        let at = asked.place as usize;
        let slot = self.slots.get(at).copied().unwrap_or(EMPTY);
        if slot >> PAIR_SHIFT == asked.pair { slot as Code & NONE } else { self.further(asked) }
    }

    /// The answer to a lookup that the first slot does not answer.
    #[cold]
    fn further(&self, asked: Asked) -> Code {
        let mut at = asked.place as usize;
        loop {
            let slot = self.slots.get(at).copied().unwrap_or(EMPTY);
            if slot >> PAIR_SHIFT == asked.pair || slot == EMPTY {
                return slot as Code & NONE;
            }
            at = self.after(at);
        }
    }

    /// The next slot, cyclic.
    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 2)
    }

    /// Of two merges with the same pair the later one counts.
    pub(super) fn insert(&mut self, left: Symbol, right: Symbol, code: Code) {
        let pair = Pair(left, right).bits();
        let hash = self.hash(pair);
        let bit = (hash >> self.filter_shift) as usize;
        self.filter[bit / 64] |= 1 << (bit % 64);
        let mut at = (hash >> self.shift) as usize;
        while self.slots[at] != EMPTY && self.slots[at] >> PAIR_SHIFT != pair {
            at = self.after(at);
        }
        self.slots[at] = pair << PAIR_SHIFT | u64::from(code);
    }

    /// Left, right and product of every merge.
    pub(super) fn iter(&self) -> impl Iterator<Item = [Symbol; 3]> + '_ {
        let mask = (1 << SYMBOL_BITS) - 1;
        self.slots.iter().filter(|&&slot| slot != EMPTY).map(move |slot| {
            [2, 1, 0].map(|place| (slot >> (place * SYMBOL_BITS + 1)) as Symbol & mask)
        })
    }
}
