//! Which two symbols merge, how early, and into what: one flat hash table, built once.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use super::symbols::{Symbol, Symbols, mergeable};
use super::{ListedMerge, Piece, unmark};
use crate::error::{Error, Result};

/// Real vocabularies make some hundred thousand; a file can be made to make many more.
const MAX_MERGES: usize = 4 << 20;

/// One merge: lower ranks come first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Merge {
    pub(super) rank: u32,
    pub(super) product: Symbol,
}

#[derive(Clone, Copy)]
struct Slot {
    pair: u64,
    merge: Merge,
}

const EMPTY: u64 = u64::MAX;

/// An open-addressing table from a pair of symbols to its merge.
pub(super) struct Merges {
    slots: Vec<Slot>,
    /// `64 - log2(slots)`: the hash's top bits are the place.
    shift: u32,
    /// Drawn per table, so that no file can be made whose pairs all collide.
    factor: u64,
}

impl Merges {
    /// The merges of a list, in its order. A piece's symbol is its place in the list of pieces.
    pub(super) fn of_list(list: &[ListedMerge]) -> Result<Self> {
        check_count(list.len())?;
        let merge = |(rank, merge): (usize, &ListedMerge)| {
            (merge.left, merge.right, Merge { rank: rank as u32, product: merge.product })
        };
        Ok(Self::new(list.iter().enumerate().map(merge).collect()))
    }

    /// The table of these merges; of two with the same pair the later one.
    pub(super) fn new(merges: Vec<(Symbol, Symbol, Merge)>) -> Self {
        let capacity = (merges.len() * 2).next_power_of_two().max(2);
        let mut table = Self {
            slots: vec![Slot { pair: EMPTY, merge: Merge { rank: 0, product: 0 } }; capacity],
            shift: 64 - capacity.trailing_zeros(),
            factor: DefaultHashBuilder::default().hash_one(0u8) | 1,
        };
        for (left, right, merge) in merges {
            let pair = pair(left, right);
            let mut at = table.place(pair);
            while table.slots[at].pair != EMPTY && table.slots[at].pair != pair {
                at = (at + 1) & (capacity - 1);
            }
            table.slots[at] = Slot { pair, merge };
        }
        table
    }

    /// The merges that make pieces of SentencePiece: every split of every piece into two symbols, with
    /// the rank of the piece's score.
    pub(super) fn of_pieces(pieces: &[Piece<'_>], symbols: &Symbols) -> Result<Self> {
        let by_text = symbols.by_text(pieces);
        let mut scores: Vec<f32> = mergeable(pieces).map(|piece| piece.score).collect();
        scores.sort_unstable_by(|a, b| b.total_cmp(a));
        scores.dedup();
        let mut merges = Vec::new();
        let mut text = String::new();
        for piece in mergeable(pieces) {
            text.clear();
            text.extend(piece.text.chars().map(unmark));
            let rank = scores.partition_point(|&score| score > piece.score) as u32;
            let Some(&product) = by_text.get(text.as_str()) else { continue };
            for (at, _) in text.char_indices().skip(1) {
                let (left, right) = text.split_at(at);
                if let (Some(&left), Some(&right)) = (by_text.get(left), by_text.get(right)) {
                    merges.push((left, right, Merge { rank, product }));
                }
            }
            check_count(merges.len())?;
        }
        Ok(Self::new(merges))
    }

    #[inline]
    fn place(&self, pair: u64) -> usize {
        let mixed = u128::from(pair ^ (pair >> 29)) * u128::from(self.factor);
        let folded = (mixed as u64) ^ ((mixed >> 64) as u64);
        (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[inline]
    pub(super) fn get(&self, left: Symbol, right: Symbol) -> Option<Merge> {
        let pair = pair(left, right);
        if pair == EMPTY {
            return None;
        }
        let mut at = self.place(pair);
        loop {
            let slot = &self.slots[at];
            if slot.pair == pair {
                return Some(slot.merge);
            }
            if slot.pair == EMPTY {
                return None;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Left, right and product of every merge.
    pub(super) fn iter(&self) -> impl Iterator<Item = [Symbol; 3]> + '_ {
        self.slots
            .iter()
            .filter(|slot| slot.pair != EMPTY)
            .map(|slot| [(slot.pair >> 32) as Symbol, slot.pair as Symbol, slot.merge.product])
    }
}

/// Refuses more merges than any real vocabulary makes.
pub(super) fn check_count(merges: usize) -> Result<()> {
    if merges > MAX_MERGES {
        let problem = format!("make over {MAX_MERGES} merges, more than is read");
        return Err(Error::vocab("pieces", problem));
    }
    Ok(())
}

fn pair(left: Symbol, right: Symbol) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}
