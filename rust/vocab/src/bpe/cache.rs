//! The ids of units seen lately: fixed size, full keys, a newer unit takes an older one's place.
//!
//! A unit that must go is put into another line once more, where the one that was seen longest ago goes
//! for it: so that a few words that share a line do not drive each other out again and again.

use super::key::{Key, KeyHasher};
use crate::token::TokenId;

/// As many ids as a place holds, which is half a cache line.
pub(super) const INLINE_IDS: usize = 4;

/// 2 MiB a thread: more than a second-level cache holds, but what is not there has been asked for.
const LINES_LOG2: u32 = 15;

const LINES: usize = 1 << LINES_LOG2;

/// Up to four ids in one word each.
pub(super) type Ids = [TokenId; INLINE_IDS];

#[derive(Clone, Copy, Default)]
struct Slot {
    /// With the number of ids.
    key: Key,
    ids: Ids,
}

/// The two places that a unit may have, newer first: one cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line([Slot; 2]);

/// The lines of a cache, and how they are chosen: what a loop has at hand.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    lines: &'a [Line; LINES],
    hasher: KeyHasher,
}

impl Known<'_> {
    /// The place of a unit, which the processor is asked to have at hand soon.
    #[inline(always)]
    pub(super) fn ask(self, key: Key) -> u32 {
        let place = place(self.hasher, key);
        super::prefetch::read(&self.lines[place as usize % LINES]);
        place
    }

    /// The ids of a unit and their number, which is zero for a unit that is not there; the rest of the
    /// ids is anything.
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
    lines: Vec<Line>,
    hasher: KeyHasher,
}

impl UnitCache {
    /// Makes the cache ready.
    pub(super) fn open(&mut self) {
        if self.lines.is_empty() {
            self.lines = vec![Line::default(); LINES];
        }
    }

    /// What is in a cache that is ready.
    #[inline(always)]
    pub(super) fn known(&self) -> Option<Known<'_>> {
        let lines = self.lines.first_chunk()?;
        Some(Known { lines, hasher: self.hasher })
    }

    /// Where a unit may be that is not in its place.
    #[inline(always)]
    pub(super) fn other_place(&self, key: Key) -> u32 {
        (self.hasher.hash(key) >> (64 - 2 * LINES_LOG2)) as u32 % (1 << LINES_LOG2)
    }

    /// Asks the processor to have a place at hand soon.
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

    /// Puts a unit into its place; `count` of the ids are its own.
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
        // Written without looking at the line, which may be far.
        if let Some(Line(slots)) = self.lines.get_mut(other as usize) {
            slots[1] = oldest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, UnitCache, place};

    /// The ids of a unit, wherever it stands.
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
        // Two stand in the line they share, each other one in a line of its own, but by chance.
        assert!(found.len() >= 3, "{found:?} of {crowd:?}");
        assert!(found.iter().all(|id| crowd.contains(&(*id as u32))));
        assert_eq!(find(&cache, key(crowd[3])), Some(crowd[3] as i32));
    }
}
