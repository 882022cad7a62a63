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

/// No product: what an empty slot says.
pub(super) const NONE: Code = (1 << PAIR_SHIFT) - 1;

/// Two symbols, a product and a bit are a word.
const SYMBOL_BITS: u32 = 21;

/// Ten times as many as the largest vocabulary has.
pub(super) const MAX_SYMBOLS: usize = NO_SYMBOL as usize;

/// Where the pair stands in a slot, above its code.
const PAIR_SHIFT: u32 = SYMBOL_BITS + 1;

const EMPTY: u64 = u64::MAX;

/// So many bits a merge has the filter at least.
const FILTER: usize = 8;

/// An open-addressing table from a pair of symbols to the code of their product.
pub(super) struct Pairs {
    /// Per merge left, right and code; the last slot stays empty, and nothing is looked for from there on.
    slots: Vec<u64>,
    /// `64 - log2(slots)`: the hash's top bits are the place.
    shift: u32,
    /// A bit is set where the hash of a pair says so. Most pairs that are asked for do not merge, and
    /// this is small enough to be at hand.
    filter: Vec<u64>,
    filter_shift: u32,
    /// Drawn per table, so that no file can be made whose pairs all collide.
    factor: u64,
}

/// Two neighbours, left and right.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair(pub(super) Symbol, pub(super) Symbol);

impl Pair {
    /// Two that do not merge.
    pub(super) const NONE: Self = Self(NO_SYMBOL, NO_SYMBOL);

    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self.0) << SYMBOL_BITS | u64::from(self.1)
    }
}

/// A question to the table, and where its answer may stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pair: u64,
    place: u32,
}

impl Asked {
    /// What no two symbols are.
    pub(super) const NOTHING: Self = Self { pair: EMPTY >> PAIR_SHIFT, place: u32::MAX };
}

impl Pairs {
    pub(super) fn with_capacity(merges: usize) -> Self {
        let capacity = (merges + merges / 2 + 1).next_power_of_two().max(2);
        let filter_bits = (merges * FILTER).next_power_of_two().max(64);
        Self {
            slots: vec![EMPTY; capacity + 1],
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

    /// What two symbols merge into, or [`NONE`].
    #[inline(always)]
    pub(super) fn code(&self, left: Symbol, right: Symbol) -> Code {
        self.answer(self.place(Pair(left, right).bits()))
    }

    /// Has the processor fetch what two symbols merge into.
    #[inline(always)]
    pub(super) fn ask(&self, pair: Pair) -> Asked {
        let asked = self.place(pair.bits());
        if let Some(slot) = self.slots.get(asked.place as usize) {
            super::prefetch::read(slot);
        }
        asked
    }

    /// Where a pair is looked for.
    #[inline(always)]
    fn place(&self, pair: u64) -> Asked {
        let hash = self.hash(pair);
        let bit = hash >> self.filter_shift;
        let word = self.filter.get(bit as usize / 64).copied().unwrap_or(0);
        // All ones where it is not there: then it is looked for where an empty slot is found at once.
        let absent = (word >> (bit % 64) & 1).wrapping_sub(1);
        let last = self.slots.len() as u64 - 1;
        let place = hash >> self.shift & !absent | last & absent;
        Asked { pair: pair | absent >> PAIR_SHIFT, place: place as u32 }
    }

    /// The answer to what was asked.
    #[inline(always)]
    pub(super) fn answer(&self, asked: Asked) -> Code {
        let at = asked.place as usize;
        let slot = self.slots.get(at).copied().unwrap_or(EMPTY);
        if slot >> PAIR_SHIFT == asked.pair { slot as Code & NONE } else { self.further(asked) }
    }

    /// The answer where it is not in the first slot.
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

    /// The slot after one, round and round.
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
