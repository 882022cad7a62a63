//! The ids of units seen lately: fixed size, full keys, a newer unit takes an older one's place.

use super::key::{Key, KeyHasher};
use crate::vocab::TokenId;

/// As many ids as a place holds, which is half a cache line.
pub(super) const INLINE_IDS: usize = 4;

/// 2 MiB a thread: more than a second-level cache holds, but what is not there has been asked for.
const LINES_LOG2: u32 = 15;

/// Up to four ids in one word each; how many there are stands in the top bits of the first.
pub(super) type Ids = [TokenId; INLINE_IDS];

/// Ids are below two to this power.
const ID_BITS: u32 = 28;

#[derive(Clone, Copy, Default)]
struct Slot {
    key: Key,
    ids: Ids,
}

/// The two places that a unit may have, newer first: one cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line([Slot; 2]);

/// A cache of [`LINES_LOG2`] bits of lines, empty until first used.
#[derive(Default)]
pub(super) struct UnitCache {
    lines: Vec<Line>,
    hasher: KeyHasher,
}

impl UnitCache {
    /// Makes the cache ready.
    pub(super) fn open(&mut self) {
        if self.lines.is_empty() {
            self.lines = vec![Line::default(); 1 << LINES_LOG2];
        }
    }

    #[inline(always)]
    pub(super) fn place(&self, key: Key) -> u32 {
        (self.hasher.hash(key) >> (64 - LINES_LOG2)) as u32
    }

    /// Asks the processor to have a place at hand soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, place: u32) {
        if let Some(line) = self.lines.get(place as usize) {
            super::prefetch::read(line);
        }
    }

    /// The ids of a unit and their number, which is zero for a unit that is not there; the rest of the
    /// ids is anything.
    #[inline(always)]
    pub(super) fn get(&self, place: u32, key: Key) -> (Ids, u32) {
        let Some(Line(slots)) = self.lines.get(place as usize) else { return Default::default() };
        let second = slots[1].key == key;
        let first = slots[0].key == key;
        let mut ids = slots[usize::from(second)].ids;
        let count = (ids[0] >> ID_BITS) as u32 + 1;
        ids[0] &= (1 << ID_BITS) - 1;
        (ids, count * u32::from(first | second))
    }

    #[inline]
    pub(super) fn insert(&mut self, place: u32, key: Key, ids: &[TokenId]) {
        let Some(Line(slots)) = self.lines.get_mut(place as usize) else { return };
        if ids.is_empty() || ids.len() > INLINE_IDS || ids[0] >> ID_BITS != 0 {
            return;
        }
        slots[1] = slots[0];
        let slot = &mut slots[0];
        slot.key = key;
        slot.ids[..ids.len()].copy_from_slice(ids);
        slot.ids[0] |= ((ids.len() - 1) as TokenId) << ID_BITS;
    }
}
