//! The ids of units seen lately: fixed size, full keys, a newer unit takes an older one's place.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use crate::vocab::TokenId;

/// The bytes of a short unit and, in the last byte, their number.
pub(super) type Key = u128;

const KEY_BYTES: usize = 15;
const INLINE_IDS: usize = 4;
const SLOTS_LOG2: u32 = 15;

#[derive(Clone, Copy, Default)]
struct Slot {
    key: Key,
    ids: [TokenId; INLINE_IDS],
    count: u8,
}

/// A direct-mapped cache of [`SLOTS_LOG2`] bits of places, empty until first used.
#[derive(Default)]
pub(super) struct UnitCache {
    slots: Vec<Slot>,
    factor: u64,
}

impl UnitCache {
    /// The key of a unit short enough to be remembered.
    pub(super) fn key(unit: &str) -> Option<Key> {
        let bytes = unit.as_bytes();
        if bytes.len() > KEY_BYTES {
            return None;
        }
        let mut key = [0; KEY_BYTES + 1];
        key[..bytes.len()].copy_from_slice(bytes);
        key[KEY_BYTES] = bytes.len() as u8;
        Some(Key::from_le_bytes(key))
    }

    pub(super) fn get(&self, key: Key) -> Option<&[TokenId]> {
        let slot = self.slots.get(self.place(key))?;
        (slot.key == key).then(|| &slot.ids[..usize::from(slot.count)])
    }

    pub(super) fn insert(&mut self, key: Key, ids: &[TokenId]) {
        if ids.len() > INLINE_IDS {
            return;
        }
        if self.slots.is_empty() {
            self.slots = vec![Slot::default(); 1 << SLOTS_LOG2];
            self.factor = DefaultHashBuilder::default().hash_one(0u8) | 1;
        }
        let place = self.place(key);
        let slot = &mut self.slots[place];
        slot.key = key;
        slot.count = ids.len() as u8;
        slot.ids[..ids.len()].copy_from_slice(ids);
    }

    fn place(&self, key: Key) -> usize {
        let (low, high) = (key as u64, (key >> 64) as u64);
        let mixed = u128::from(low ^ self.factor) * u128::from(high.rotate_left(23) ^ self.factor);
        let folded = (mixed as u64) ^ ((mixed >> 64) as u64);
        (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SLOTS_LOG2)) as usize
    }
}
