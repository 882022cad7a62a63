//! Which two tokens of a byte-level vocabulary merge, and into what: one word per merge.
//!
//! A token comes out of one pair alone. What merges within its bytes does not depend on what stands
//! around them until a merge crosses their ends, so it happens as it does for the token's bytes by
//! themselves, and these have one last merge. Every other way to part a token is left out; and with
//! one merge per product, products can be numbered in the order in which they merge, so that a merge
//! needs no rank beside its product.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap};

use super::bytes::{ByteToken, MergeRules};
use super::merges::{Merge, check_count};
use super::symbols::Symbol;
use super::unit::{NEVER, Unit};
use crate::error::{Error, Result};
use crate::vocab::TokenId;

/// The symbols of the bytes are the bytes; those of products follow.
pub(super) const FIRST_PRODUCT: Symbol = 256;

/// What stands in place of the id of a byte that has no token.
pub(super) const NO_ID: TokenId = -1;

/// No product.
pub(super) const NONE: Symbol = Symbol::MAX;

/// Two symbols and their product fit into 63 bits.
const SYMBOL_BITS: u32 = 21;

/// Bits of the filter per slot: of pairs that do not merge, one in ten or less is looked up.
const FILTER_BITS: usize = 8;

/// Ten times as many as the largest vocabulary has.
const MAX_TOKENS: usize = (1 << SYMBOL_BITS) - FIRST_PRODUCT as usize;

const EMPTY: u64 = u64::MAX;

/// An open-addressing table from a pair of symbols to their product.
pub(super) struct Pairs {
    /// Per merge left, right and product.
    slots: Vec<u64>,
    /// `64 - log2(slots)`: the hash's top bits are the place.
    shift: u32,
    /// Drawn per table, so that no file can be made whose pairs all collide.
    factor: u64,
    /// A bit for each pair that merges, by another part of its hash. Most pairs do not: that is known
    /// from these few bytes, which stay in a near cache where the table does not.
    filter: Vec<u64>,
}

/// The merges of a vocabulary.
pub(super) struct Products {
    /// Per symbol its id.
    pub(super) ids: Vec<TokenId>,
    pub(super) pairs: Pairs,
    /// Places among the tokens of those that no merge makes.
    pub(super) unmade: Vec<usize>,
}

impl Pairs {
    fn with_capacity(merges: usize) -> Self {
        let capacity = (merges + merges / 2).next_power_of_two().max(2);
        Self {
            slots: vec![EMPTY; capacity],
            shift: 64 - capacity.trailing_zeros(),
            factor: DefaultHashBuilder::default().hash_one(0u8) | 1,
            filter: vec![0; capacity.div_ceil(64 / FILTER_BITS)],
        }
    }

    #[inline]
    fn hash(&self, pair: u64) -> u64 {
        let mixed = u128::from(pair ^ (pair >> 19)) * u128::from(self.factor);
        let folded = (mixed as u64) ^ ((mixed >> 64) as u64);
        folded.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }

    /// The word of the filter and the bit in it.
    #[inline]
    fn filter_bit(&self, hash: u64) -> (usize, u64) {
        ((hash >> 6) as usize & (self.filter.len() - 1), 1 << (hash & 63))
    }

    /// What two symbols merge into, or [`NONE`].
    #[inline]
    pub(super) fn product(&self, left: Symbol, right: Symbol) -> Symbol {
        let pair = pair(left, right);
        let hash = self.hash(pair);
        let (word, bit) = self.filter_bit(hash);
        if self.filter[word] & bit == 0 {
            return NONE;
        }
        let mut at = self.place(hash);
        loop {
            let slot = self.slots[at];
            if slot >> SYMBOL_BITS == pair {
                return slot as Symbol & ((1 << SYMBOL_BITS) - 1);
            }
            if slot == EMPTY {
                return NONE;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Of two merges with the same pair the later one counts.
    fn insert(&mut self, left: Symbol, right: Symbol, product: Symbol) {
        let pair = pair(left, right);
        let hash = self.hash(pair);
        let (word, bit) = self.filter_bit(hash);
        self.filter[word] |= bit;
        let mut at = self.place(hash);
        while self.slots[at] != EMPTY && self.slots[at] >> SYMBOL_BITS != pair {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = pair << SYMBOL_BITS | u64::from(product);
    }

    /// Left, right and product of every merge.
    pub(super) fn iter(&self) -> impl Iterator<Item = [Symbol; 3]> + '_ {
        let mask = (1 << SYMBOL_BITS) - 1;
        self.slots.iter().filter(|&&slot| slot != EMPTY).map(move |slot| {
            [2, 1, 0].map(|place| (slot >> (place * SYMBOL_BITS)) as Symbol & mask)
        })
    }
}

fn pair(left: Symbol, right: Symbol) -> u64 {
    u64::from(left) << SYMBOL_BITS | u64::from(right)
}

impl Products {
    /// Finds the one merge of every token. Costs about one encoding per token.
    pub(super) fn new(
        tokens: &[ByteToken<'_>],
        rules: MergeRules<'_>,
        bytes: &[TokenId; 256],
    ) -> Result<Self> {
        if tokens.len() > MAX_TOKENS {
            let problem = format!("are over {MAX_TOKENS}, more than is read");
            return Err(Error::vocab("pieces", problem));
        }
        let listed = match rules {
            MergeRules::Ranks => None,
            MergeRules::Pairs(pairs) => Some(ranks(pairs)?),
        };
        let is_longer = |at: &usize| {
            let token = tokens[*at].bytes;
            token.len() > 1 && token.iter().all(|&byte| bytes[usize::from(byte)] != NO_ID)
        };
        let mut longer: Vec<usize> = (0..tokens.len()).filter(is_longer).collect();
        // What stands within a token is shorter, so its merge is known by then.
        longer.sort_by_key(|&at| tokens[at].bytes.len());
        let mut ids = bytes.to_vec();
        ids.extend(longer.iter().map(|&at| tokens[at].id));
        let mut found = Pairs::with_capacity(longer.len());
        // Per product its rank and what it is made of.
        let mut made: Vec<Option<(u32, Symbol, Symbol)>> = vec![None; ids.len()];
        let mut unit = Unit::default();
        for (product, &at) in (FIRST_PRODUCT..).zip(&longer) {
            unit.symbols.clear();
            unit.symbols.extend(tokens[at].bytes.iter().map(|&byte| Symbol::from(byte)));
            unit.merge(|left, right| {
                let product = found.product(left, right);
                let rank = made.get(product as usize).copied().flatten();
                rank.map_or(NEVER, |(rank, ..)| Merge { rank, product })
            });
            let &[left, right] = unit.symbols.as_slice() else { continue };
            let rank = match &listed {
                None => Some(tokens[at].id as u32),
                Some(ranks) => ranks.get(&(ids[left as usize], ids[right as usize])).copied(),
            };
            if let Some(rank) = rank {
                made[product as usize] = Some((rank, left, right));
                found.insert(left, right, product);
            }
        }
        let unmade = longer.iter().zip(&made[FIRST_PRODUCT as usize..]);
        let unmade = unmade.filter(|(_, made)| made.is_none()).map(|(&at, _)| at).collect();
        Ok(Self::by_rank(&made, &ids, unmade))
    }

    /// Numbers the products by rank.
    fn by_rank(
        made: &[Option<(u32, Symbol, Symbol)>],
        ids: &[TokenId],
        unmade: Vec<usize>,
    ) -> Self {
        let products = made.iter().zip(0..).filter_map(|(made, old)| Some(((*made)?, old)));
        let mut products: Vec<((u32, Symbol, Symbol), Symbol)> = products.collect();
        products.sort_unstable_by_key(|&((rank, ..), _)| rank);
        let mut new: Vec<Symbol> = (0..made.len() as Symbol).collect();
        let mut ids_by_rank = ids[..FIRST_PRODUCT as usize].to_vec();
        for &(_, old) in &products {
            new[old as usize] = ids_by_rank.len() as Symbol;
            ids_by_rank.push(ids[old as usize]);
        }
        let mut pairs = Pairs::with_capacity(products.len());
        for ((_, left, right), old) in products {
            pairs.insert(new[left as usize], new[right as usize], new[old as usize]);
        }
        Self { ids: ids_by_rank, pairs, unmade }
    }
}

/// The place of each pair in the list; the last one of a pair that is listed twice.
fn ranks(pairs: &[(TokenId, TokenId)]) -> Result<HashMap<(TokenId, TokenId), u32>> {
    check_count(pairs.len())?;
    Ok(pairs.iter().copied().zip(0..).collect())
}
