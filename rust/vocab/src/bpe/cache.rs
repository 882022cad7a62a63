//! Cache of the ids of recent units: fixed size, full keys; a newer unit replaces an older one.
//!
//! A replaced unit moves once to its second line, where it replaces the older unit: so a few
//! frequent units that share a line do not evict each other repeatedly.

use super::key::{Key, KeyHasher};
use crate::huge_pages::HugePages;
use crate::token::TokenId;

/// Number of ids in a place: half a cache line.
pub(super) const INLINE_IDS: usize = 4;

/// 2 MiB for each thread: larger than a second-level cache, but lines are prefetched.
const LINES_LOG2: u32 = 15;

const LINES: usize = 1 << LINES_LOG2;

/// Up to four ids in one word each.
pub(super) type Ids = [TokenId; INLINE_IDS];

#[derive(Clone, Copy, Default)]
struct Slot {
    /// The key, with the number of ids.
    key: Key,
    ids: Ids,
}

/// The two places of a cache line, the newer first.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line([Slot; 2]);

/// The lines of a cache and the hash that chooses a line: the values that a loop keeps in
/// registers.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    lines: &'a [Line; LINES],
    hasher: KeyHasher,
}

impl Known<'_> {
    /// Prefetches the place of a unit.
    #[inline(always)]
    pub(super) fn ask(self, key: Key) -> u32 {
        let place = place(self.hasher, key);
        super::prefetch::read(&self.lines[place as usize % LINES]);
        place
    }

    /// The ids of a unit and their number, which is zero for an unknown unit; the other ids are
    /// undefined.
    #[inline(always)]
    pub(super) fn get(&self, place: u32, key: Key) -> (&Ids, u32) {
        let Line(slots) = &self.lines[place as usize % LINES];
        let second = slots[1].key.matches(key);
        let first = slots[0].key.matches(key);
        let found = &slots[usize::from(second)];
        (&found.ids, found.key.count() * u32::from(first | second))
    }
}

#[inline(always)]
fn place(hasher: KeyHasher, key: Key) -> u32 {
    (hasher.hash(key) >> (64 - LINES_LOG2)) as u32
}

/// A cache of [`LINES`], empty until first used.
#[derive(Default)]
pub(super) struct UnitCache {
    lines: HugePages<Line>,
    hasher: KeyHasher,
}

impl UnitCache {
    /// Makes the cache ready.
    pub(super) fn open(&mut self) {
        if self.lines.is_empty() {
            self.lines = HugePages::filled(Line::default(), LINES);
        }
    }

    /// The content of a cache that is ready.
    #[inline(always)]
    pub(super) fn known(&self) -> Option<Known<'_>> {
        let lines = self.lines.first_chunk()?;
        Some(Known { lines, hasher: self.hasher })
    }

    /// The second line of a unit.
    #[inline(always)]
    pub(super) fn other_place(&self, key: Key) -> u32 {
        (self.hasher.hash(key) >> (64 - 2 * LINES_LOG2)) as u32 % (1 << LINES_LOG2)
    }

    /// Prefetches a place.
    #[inline(always)]
    pub(super) fn prefetch(&self, place: u32) {
        if let Some(line) = self.lines.get(place as usize) {
            super::prefetch::read(line);
        }
    }

    /// As [`Known::get`].
    #[inline(always)]
    pub(super) fn get(&self, place: u32, key: Key) -> (Ids, u32) {
        let Some(known) = self.known() else { return Default::default() };
        let (ids, count) = known.get(place, key);
        (*ids, count)
    }

    /// Stores a unit in its place; the first `count` ids are its own.
    #[inline]
    pub(super) fn insert(&mut self, at: u32, key: Key, ids: Ids, count: usize) {
        if count == 0 || count > INLINE_IDS {
            return;
        }
        let slot = Slot { key: key.with_count(count), ids };
        let Some(Line(slots)) = self.lines.get_mut(at as usize) else { return };
        let [newer, oldest] = *slots;
        *slots = [slot, newer];
        if oldest.key == Key::default() {
            return;
        }
        let key = oldest.key.bare();
        let (first, second) = (place(self.hasher, key), self.other_place(key));
        let other = if first == at { second } else { first };
        // Writes without reading the line, which may be far.
        if let Some(Line(slots)) = self.lines.get_mut(other as usize) {
            slots[1] = oldest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, UnitCache, place};

    /// The ids of a unit, from any line.
    fn find(cache: &UnitCache, key: Key) -> Option<i32> {
        let places = [place(cache.hasher, key), cache.other_place(key)];
        let found = places.map(|place| cache.get(place, key));
        found.iter().find(|(_, count)| *count > 0).map(|(ids, _)| ids[0])
    }

    #[test]
    fn units_of_one_place_do_not_drive_each_other_out() {
        let mut cache = UnitCache::default();
        cache.open();
        let key = |number: u32| Key::of(&number.to_le_bytes(), &(0..4)).unwrap_or_default();
        let shared = place(cache.hasher, key(0));
        let crowd: Vec<u32> =
            (0..).filter(|&number| place(cache.hasher, key(number)) == shared).take(4).collect();
        for &number in &crowd {
            cache.insert(shared, key(number), [number as i32; 4], 1);
        }
        let found: Vec<_> = crowd.iter().filter_map(|&number| find(&cache, key(number))).collect();
        // Two units share a line; every other unit has a line of its own, except by chance.
        assert!(found.len() >= 3, "{found:?} of {crowd:?}");
        assert!(found.iter().all(|id| crowd.contains(&(*id as u32))));
        assert_eq!(find(&cache, key(crowd[3])), Some(crowd[3] as i32));
    }
}
