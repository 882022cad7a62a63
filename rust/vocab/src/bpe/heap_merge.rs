//! Merging with a heap of candidate pairs over a linked list, for units without small windows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::merger::Token;
use super::pairs::Symbol;

/// The rank of a pair that does not merge.
pub(super) const NO_RANK: u32 = u32::MAX;

const END: u32 = u32::MAX;

/// Working memory, bounded by the longest unit; [`Agenda::is_large`] says when to drop it.
#[derive(Default)]
pub(super) struct Agenda {
    symbols: Vec<Symbol>,
    next: Vec<u32>,
    previous: Vec<u32>,
    /// For each place, the rank and product of the symbol there with the next one.
    merges: Vec<(u32, Symbol)>,
    /// Ranks and places as single numbers: lower ranks first, then the leftmost place.
    candidates: BinaryHeap<Reverse<u64>>,
}

impl Agenda {
    /// Whether a very long unit has enlarged the memory.
    pub(super) fn is_large(&self, most: usize) -> bool {
        self.symbols.capacity() > most
    }

    /// Merges symbols, the first of them at a given place in the unit: `O(n log n)`. `merge`
    /// returns the rank and product of a pair, [`NO_RANK`] for a pair that does not merge. Each
    /// candidate is looked up once.
    pub(super) fn merge(
        &mut self,
        unit: &[Symbol],
        at: usize,
        tokens: &mut Vec<Token>,
        mut merge: impl FnMut(Symbol, Symbol) -> (u32, Symbol),
    ) {
        let Self { symbols, next, previous, merges, candidates } = self;
        symbols.clear();
        symbols.extend_from_slice(unit);
        // The merge of the symbol at a place with the next one.
        let mut merge_at = |symbols: &[Symbol], at: u32, next: &[u32]| {
            let left = symbols[at as usize];
            let right = symbols.get(next[at as usize] as usize);
            right.map_or((NO_RANK, 0), |&right| merge(left, right))
        };
        let count = symbols.len() as u32;
        next.clear();
        previous.clear();
        next.extend((1..count).chain([END]));
        previous.extend([END].into_iter().chain(0..count.saturating_sub(1)));
        merges.clear();
        merges.extend((0..count).map(|at| merge_at(symbols, at, next)));
        let entry = |rank: u32, at: u32| Reverse(u64::from(rank) << 32 | u64::from(at));
        let mut entries = std::mem::take(candidates).into_vec();
        entries.clear();
        let found = (0..count).zip(merges.iter()).filter(|(_, (rank, _))| *rank != NO_RANK);
        entries.extend(found.map(|(at, &(rank, _))| entry(rank, at)));
        // Building the heap at once takes linear time.
        *candidates = BinaryHeap::from(entries);
        while let Some(Reverse(popped)) = candidates.pop() {
            let left = popped as u32;
            let (rank, product) = merges[left as usize];
            if u64::from(rank) != popped >> 32 || rank == NO_RANK {
                continue; // One of the two symbols has merged since.
            }
            let right = next[left as usize];
            let after = next[right as usize];
            symbols[left as usize] = product;
            merges[right as usize] = (NO_RANK, 0);
            next[left as usize] = after;
            if after != END {
                previous[after as usize] = left;
            }
            for at in [previous[left as usize], left] {
                if at != END {
                    let merge = merge_at(symbols, at, next);
                    merges[at as usize] = merge;
                    if merge.0 != NO_RANK {
                        candidates.push(entry(merge.0, at));
                    }
                }
            }
        }
        let mut place = if count == 0 { END } else { 0 };
        while place != END {
            let start = at as u32 + place;
            tokens.push(Token { symbol: symbols[place as usize], start });
            place = next[place as usize];
        }
    }
}
