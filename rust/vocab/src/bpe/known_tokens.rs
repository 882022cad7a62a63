//! Unit → id: the tokens of a vocabulary whose text, alone, becomes that one token. Built once.
//!
//! Some tokens are not the result of merging their own text. A whole pre-token with such a text is
//! that token if the vocabulary says so; a part of a pre-token never is.

use super::key::{Key, KeyHasher};
use super::prefetch;
use crate::huge_pages::HugePages;
use crate::token::TokenId;

/// Minimum number of bits of the filter for each token.
const FILTER: usize = 8;

pub(super) struct Seeds {
    keys: HugePages<Key>,
    ids: Vec<TokenId>,
    hasher: KeyHasher,
    /// `64 - log2(places)`.
    shift: u32,
    /// A filter with a bit for each token's hash: it rejects most units that are not tokens, and it
    /// is small enough for the cache.
    filter: Vec<u64>,
    filter_shift: u32,
}

impl Seeds {
    /// Builds the table from the tokens that merging makes and the tokens that it does not. Of two
    /// tokens with the same text the later one counts. Texts too long for a key are left out.
    pub(super) fn new<'a>(
        made: impl Iterator<Item = (&'a [u8], TokenId)>,
        unmade: impl Iterator<Item = (&'a [u8], TokenId)>,
    ) -> Self {
        // Tokens that merging does not make are stored as the complement of their id.
        let unmade = unmade.map(|(text, id)| (text, !id));
        let key = |(text, id): (&[u8], TokenId)| Some((Key::of(text, &(0..text.len()))?, id));
        let units: Vec<(Key, TokenId)> = made.chain(unmade).filter_map(key).collect();
        let capacity = (units.len() + units.len() / 4 + 1).next_power_of_two().max(2);
        let filter_bits = (units.len() * FILTER).next_power_of_two().max(64);
        let mut seeds = Self {
            keys: HugePages::filled(Key::default(), capacity),
            ids: vec![0; capacity],
            hasher: KeyHasher::default(),
            shift: 64 - capacity.trailing_zeros(),
            filter: vec![0; filter_bits / 64],
            filter_shift: 64 - filter_bits.trailing_zeros(),
        };
        for (key, id) in units {
            let hash = seeds.hasher.hash(key);
            let bit = (hash >> seeds.filter_shift) as usize;
            seeds.filter[bit / 64] |= 1 << (bit % 64);
            let mut at = (hash >> seeds.shift) as usize;
            while seeds.keys[at] != Key::default() && seeds.keys[at] != key {
                at = (at + 1) & (capacity - 1);
            }
            seeds.keys[at] = key;
            seeds.ids[at] = id;
        }
        seeds
    }

    /// The place of a unit, and a bit that says whether it may be there.
    #[inline(always)]
    fn place(&self, key: Key) -> (usize, usize) {
        let hash = self.hasher.hash(key);
        let bit = (hash >> self.filter_shift) as usize;
        let word = self.filter.get(bit / 64).copied().unwrap_or(0);
        ((hash >> self.shift) as usize, (word >> (bit % 64) & 1) as usize)
    }

    /// Prefetches the place of a unit.
    #[inline(always)]
    pub(super) fn prefetch(&self, key: Key) {
        let (at, may_be) = self.place(key.whole());
        // For a unit that the filter rejects, the first place: a branch would wait for the filter.
        let at = at * may_be;
        if let (Some(key), Some(id)) = (self.keys.get(at), self.ids.get(at)) {
            prefetch::read(key);
            prefetch::read(id);
        }
    }

    /// The token of a unit.
    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<TokenId> {
        let whole = key.whole();
        let (mut at, may_be) = self.place(whole);
        if may_be == 0 {
            return None;
        }
        loop {
            let found = self.keys[at];
            if found == whole {
                break;
            }
            if found == Key::default() {
                return None;
            }
            at = (at + 1) & (self.keys.len() - 1);
        }
        match self.ids[at] {
            id @ 0.. => Some(id),
            unmade => (whole == key).then_some(!unmade),
        }
    }
}
