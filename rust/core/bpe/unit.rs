//! The symbols of one unit, merging: best pair first, leftmost among equals.
//!
//! Two ways with one result: a few symbols are scanned for the best pair again and again, more of them
//! stand in a linked list with a heap of candidates.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::merges::Merge;
use super::symbols::{NO_SYMBOL, Symbol};

/// Units of up to this many symbols are merged by scanning, longer ones with a heap.
pub(super) const SHORT: usize = 32;

const END: u32 = u32::MAX;

/// No merge.
pub(super) const NEVER: Merge = Merge { rank: u32::MAX, product: NO_SYMBOL };

/// The symbols of a unit, in order, and working memory for many of them.
#[derive(Default)]
pub(super) struct Unit {
    pub(super) symbols: Vec<Symbol>,
    /// Per pair of neighbours what they merge into, for those who scan for the best.
    pub(super) products: Vec<Symbol>,
    long: LongUnit,
}

/// The linked list and the agenda of a unit too long to scan.
#[derive(Default)]
struct LongUnit {
    next: Vec<u32>,
    previous: Vec<u32>,
    /// Per place the merge of the symbol there with the next one.
    merges: Vec<Merge>,
    /// Ranks and places, in one number: lower ranks first, then the leftmost.
    agenda: BinaryHeap<Reverse<u64>>,
}

impl Unit {
    /// Merges until no pair of neighbours has a merge; `merge` tells that of a pair.
    #[inline]
    pub(super) fn merge(&mut self, merge: impl Fn(Symbol, Symbol) -> Merge) {
        if self.symbols.len() <= SHORT {
            self.merge_short(merge);
        } else {
            self.merge_long(merge);
        }
    }

    /// Merges by scanning for the best pair: quadratic, and the fastest for a few symbols.
    #[inline]
    fn merge_short(&mut self, merge: impl Fn(Symbol, Symbol) -> Merge) {
        let symbols = &mut self.symbols;
        let mut count = symbols.len();
        let mut merges = [NEVER; SHORT];
        for at in 1..count {
            merges[at - 1] = merge(symbols[at - 1], symbols[at]);
        }
        while count > 1 {
            let pairs = &merges[..count - 1];
            let mut best = 0;
            for (at, merge) in pairs.iter().enumerate() {
                if merge.rank < pairs[best].rank {
                    best = at;
                }
            }
            if pairs[best].rank == NEVER.rank {
                break;
            }
            symbols[best] = pairs[best].product;
            symbols.copy_within(best + 2..count, best + 1);
            merges.copy_within(best + 1..count - 1, best);
            count -= 1;
            merges[count - 1] = NEVER;
            if best > 0 {
                merges[best - 1] = merge(symbols[best - 1], symbols[best]);
            }
            if best + 1 < count {
                merges[best] = merge(symbols[best], symbols[best + 1]);
            }
        }
        symbols.truncate(count);
    }

    /// Merges with a heap of candidate pairs over a linked list: `O(n log n)`. Every candidate is asked
    /// for once.
    pub(super) fn merge_long(&mut self, mut merge: impl FnMut(Symbol, Symbol) -> Merge) {
        let Self { symbols, long, .. } = self;
        let LongUnit { next, previous, merges, agenda } = long;
        // The merge of the symbol at a place with the next one.
        let mut merge_at = |symbols: &[Symbol], at: u32, next: &[u32]| {
            let left = symbols[at as usize];
            let right = symbols.get(next[at as usize] as usize);
            right.map_or(NEVER, |&right| merge(left, right))
        };
        let count = symbols.len() as u32;
        next.clear();
        previous.clear();
        next.extend((1..count).chain([END]));
        previous.extend([END].into_iter().chain(0..count.saturating_sub(1)));
        merges.clear();
        merges.extend((0..count).map(|at| merge_at(symbols, at, next)));
        let entry = |merge: Merge, at: u32| Reverse(u64::from(merge.rank) << 32 | u64::from(at));
        let mut entries = std::mem::take(agenda).into_vec();
        entries.clear();
        let candidates =
            (0..count).zip(merges.iter()).filter(|(_, merge)| merge.rank != NEVER.rank);
        entries.extend(candidates.map(|(at, &merge)| entry(merge, at)));
        // Built at once, which takes linear time.
        *agenda = BinaryHeap::from(entries);
        while let Some(Reverse(popped)) = agenda.pop() {
            let left = popped as u32;
            let merge = merges[left as usize];
            if u64::from(merge.rank) != popped >> 32 || merge.rank == NEVER.rank {
                continue; // One of the two has merged with another meanwhile.
            }
            let right = next[left as usize];
            let after = next[right as usize];
            symbols[left as usize] = merge.product;
            merges[right as usize] = NEVER;
            next[left as usize] = after;
            if after != END {
                previous[after as usize] = left;
            }
            for at in [previous[left as usize], left] {
                if at != END {
                    let merge = merge_at(symbols, at, next);
                    merges[at as usize] = merge;
                    if merge.rank != NEVER.rank {
                        agenda.push(entry(merge, at));
                    }
                }
            }
        }
        // Keep what the list still holds, in order.
        let mut kept = 0;
        let mut at = if count == 0 { END } else { 0 };
        while at != END {
            symbols[kept] = symbols[at as usize];
            kept += 1;
            at = next[at as usize];
        }
        symbols.truncate(kept);
    }
}
