//! The ids of longer units seen lately: bounded, full compares, emptied when full.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::key::KEY_BYTES;
use crate::vocab::TokenId;

/// Longer units are not remembered.
const MOST_BYTES: usize = 256;

/// 512 KiB a thread, and four times as much for the ids at most.
const MAX_BYTES: usize = 1 << 19;

#[derive(Clone, Copy)]
struct Entry {
    text: (u32, u32),
    ids: (u32, u32),
    is_part: bool,
}

/// Units of more bytes than a key holds.
#[derive(Default)]
pub(super) struct LongCache {
    entries: HashTable<Entry>,
    text: Vec<u8>,
    ids: Vec<TokenId>,
    /// Keyed: no text can be made whose units all collide.
    hasher: DefaultHashBuilder,
}

impl LongCache {
    pub(super) fn get(&self, unit: &str, is_part: bool) -> Option<&[TokenId]> {
        if unit.len() > MOST_BYTES || self.entries.is_empty() {
            return None;
        }
        let entry = self.entries.find(self.hasher.hash_one(unit), |entry| {
            entry.is_part == is_part
                && self.text[entry.text.0 as usize..entry.text.1 as usize] == *unit.as_bytes()
        })?;
        Some(&self.ids[entry.ids.0 as usize..entry.ids.1 as usize])
    }

    pub(super) fn insert(&mut self, unit: &str, is_part: bool, ids: &[TokenId]) {
        if unit.len() > MOST_BYTES {
            return;
        }
        debug_assert!(unit.len() > KEY_BYTES, "short units are in the other cache");
        if self.text.len() + unit.len() > MAX_BYTES {
            self.entries.clear();
            self.text.clear();
            self.ids.clear();
        }
        let from = (self.text.len() as u32, self.ids.len() as u32);
        self.text.extend_from_slice(unit.as_bytes());
        self.ids.extend_from_slice(ids);
        let to = (self.text.len() as u32, self.ids.len() as u32);
        let entry = Entry { text: (from.0, to.0), ids: (from.1, to.1), is_part };
        let (text, hasher) = (&self.text, &self.hasher);
        let hash_of = |entry: &Entry| {
            let bytes = &text[entry.text.0 as usize..entry.text.1 as usize];
            hasher.hash_one(std::str::from_utf8(bytes).unwrap_or_default())
        };
        self.entries.insert_unique(hasher.hash_one(unit), entry, hash_of);
    }
}
