//! Bytes → token: some tokens of a byte-level vocabulary in one hash table.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::bytes::ByteToken;
use crate::token::TokenId;

/// Map from bytes to tokens. Of two tokens with equal bytes, the later one counts.
pub(super) struct Lookup {
    /// The bytes of all tokens, one after another.
    bytes: Vec<u8>,
    entries: HashTable<Entry>,
    /// Keyed per table, so that no file can be made whose tokens all collide.
    hasher: DefaultHashBuilder,
    longest: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    start: u32,
    length: u32,
    id: TokenId,
}

impl Entry {
    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..][..self.length as usize]
    }
}

impl Lookup {
    pub(super) fn new<'a>(tokens: impl Iterator<Item = ByteToken<'a>>) -> Self {
        let mut lookup = Self {
            bytes: Vec::new(),
            entries: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            longest: 0,
        };
        for token in tokens {
            lookup.insert(token);
        }
        lookup
    }

    fn insert(&mut self, token: ByteToken<'_>) {
        let Self { bytes, entries, hasher, longest } = self;
        let hash = hasher.hash_one(token.bytes);
        if let Some(entry) = entries.find_mut(hash, |entry| entry.of(bytes) == token.bytes) {
            entry.id = token.id;
            return;
        }
        let start = bytes.len() as u32;
        bytes.extend_from_slice(token.bytes);
        *longest = token.bytes.len().max(*longest);
        let entry = Entry { start, length: token.bytes.len() as u32, id: token.id };
        entries.insert_unique(hash, entry, |entry| hasher.hash_one(entry.of(bytes)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The bytes and the id of every token.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], TokenId)> {
        self.entries.iter().map(|entry| (entry.of(&self.bytes), entry.id))
    }

    /// The token with exactly these bytes.
    pub(super) fn get(&self, bytes: &[u8]) -> Option<TokenId> {
        if bytes.len() > self.longest {
            return None;
        }
        let hash = self.hasher.hash_one(bytes);
        self.entries.find(hash, |entry| entry.of(&self.bytes) == bytes).map(|entry| entry.id)
    }
}
