//! The ids of units seen lately: fixed size, full keys, a newer unit takes an older one's place.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::DefaultHashBuilder;

use crate::vocab::TokenId;

/// The bytes of a short unit and, in the last byte, their number.
pub(super) type Key = u128;

const KEY_BYTES: usize = 15;
/// So many that a place is half a cache line.
const INLINE_IDS: usize = 3;
/// 1 MiB a thread.
const LINES_LOG2: u32 = 14;

#[derive(Clone, Copy, Default)]
struct Slot {
    key: Key,
    ids: [TokenId; INLINE_IDS],
    count: u32,
}

/// The two places that a unit may have, newer first: one cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line([Slot; 2]);

/// A cache of [`LINES_LOG2`] bits of lines, empty until first used.
#[derive(Default)]
pub(super) struct UnitCache {
    lines: Vec<Line>,
    /// Drawn per cache, so that no text can be made whose units all fall into one line.
    factor: u64,
}

impl UnitCache {
    /// The key of a unit of `text` that is short enough to be remembered.
    #[inline]
    pub(super) fn key(text: &[u8], unit: &Range<usize>) -> Option<Key> {
        let length = unit.len();
        if length > KEY_BYTES {
            return None;
        }
        let mut all = [0; KEY_BYTES + 1];
        let bytes = if let Some(bytes) = text.get(unit.start..=unit.start + KEY_BYTES) {
            all.copy_from_slice(bytes);
            // What comes after the unit is masked away.
            Key::from_le_bytes(all) & ((1 << (8 * length)) - 1)
        } else {
            all[..length].copy_from_slice(&text[unit.clone()]);
            Key::from_le_bytes(all)
        };
        Some(bytes | (length as Key) << (8 * KEY_BYTES))
    }

    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&[TokenId]> {
        let line = self.lines.get(self.place(key))?;
        let slot = line.0.iter().find(|slot| slot.key == key)?;
        Some(&slot.ids[..slot.count as usize])
    }

    pub(super) fn insert(&mut self, key: Key, ids: &[TokenId]) {
        if ids.len() > INLINE_IDS {
            return;
        }
        if self.lines.is_empty() {
            self.lines = vec![Line::default(); 1 << LINES_LOG2];
            self.factor = DefaultHashBuilder::default().hash_one(0u8) | 1;
        }
        let place = self.place(key);
        let Line(slots) = &mut self.lines[place];
        slots[1] = slots[0];
        let slot = &mut slots[0];
        slot.key = key;
        slot.count = ids.len() as u32;
        slot.ids[..ids.len()].copy_from_slice(ids);
    }

    fn place(&self, key: Key) -> usize {
        let (low, high) = (key as u64, (key >> 64) as u64);
        let mixed = u128::from(low ^ self.factor) * u128::from(high.rotate_left(23) ^ self.factor);
        let folded = (mixed as u64) ^ ((mixed >> 64) as u64);
        (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - LINES_LOG2)) as usize
    }
}
