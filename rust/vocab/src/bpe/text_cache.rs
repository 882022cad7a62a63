//! Cache of the ids of recent texts: bounded, with full compares. A text that is looked up again
//! stays.
//!
//! The caller computes the hash of a text once, for all lookups of that text.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::seen::Seen;
use crate::token::TokenId;

/// The role of a text in encoding, which decides its ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// A unit that no merge crosses.
    Unit,
    /// A unit that is a part of a pre-token.
    Part,
    /// A whole text.
    Text,
    /// A whole text, with a dummy prefix.
    Prefixed,
}

impl Form {
    /// The form of a whole text.
    pub(super) fn of_text(dummy_prefix: bool) -> Self {
        if dummy_prefix { Self::Prefixed } else { Self::Text }
    }
}

/// Cache of texts of up to `LONGEST` bytes. Memory: twice `ROOM` bytes for texts, ids and entries; at
/// most six times `ROOM`, with the reserve of lists and tables.
///
/// The cache has two generations. A new text goes to the first, and so does a text that is found in
/// the second. A full first generation replaces the second, which is dropped.
#[derive(Default)]
pub(super) struct TextCache<const LONGEST: usize, const ROOM: usize> {
    newer: Shelf,
    older: Shelf,
    seen: Seen,
    /// Keyed, so that collisions are hard to construct; compares are of all bytes.
    hasher: DefaultHashBuilder,
}

#[derive(Default)]
struct Shelf {
    entries: HashTable<Entry>,
    text: Vec<u8>,
    ids: Vec<TokenId>,
}

struct Entry {
    hash: u64,
    form: Form,
    text: Range<u32>,
    ids: Range<u32>,
}

impl<const LONGEST: usize, const ROOM: usize> TextCache<LONGEST, ROOM> {
    /// The hash of a text, `None` for one that is too long.
    pub(super) fn hash(&self, text: &str, form: Form) -> Option<u64> {
        (text.len() <= LONGEST).then(|| self.hasher.hash_one((form, text)))
    }

    /// Appends the ids of a cached text; returns whether the text is cached.
    pub(super) fn recall(
        &mut self,
        hash: u64,
        text: &str,
        form: Form,
        ids: &mut Vec<TokenId>,
    ) -> bool {
        if let Some(found) = self.newer.find(hash, text, form) {
            ids.extend_from_slice(found);
            return true;
        }
        let Some(found) = self.older.find(hash, text, form) else { return false };
        let from = ids.len();
        ids.extend_from_slice(found);
        self.keep(hash, text, form, &ids[from..]);
        true
    }

    /// Whether a text with this hash was seen lately; records it.
    pub(super) fn comes_again(&mut self, hash: u64) -> bool {
        self.seen.comes_again(hash)
    }

    /// Caches the ids of a new text.
    pub(super) fn keep(&mut self, hash: u64, text: &str, form: Form, ids: &[TokenId]) {
        let size = text.len() + size_of_val(ids) + size_of::<Entry>();
        if self.newer.size() + size > ROOM {
            if size > ROOM {
                return;
            }
            std::mem::swap(&mut self.newer, &mut self.older);
            self.newer.clear();
        }
        self.newer.push(hash, text, form, ids);
    }
}

impl Shelf {
    fn size(&self) -> usize {
        let entries = self.entries.len() * size_of::<Entry>();
        self.text.len() + size_of_val(&self.ids[..]) + entries
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.text.clear();
        self.ids.clear();
    }

    fn find(&self, hash: u64, text: &str, form: Form) -> Option<&[TokenId]> {
        let entry = self.entries.find(hash, |entry| {
            let is_it = || self.text.get(range(&entry.text)) == Some(text.as_bytes());
            entry.hash == hash && entry.form == form && is_it()
        })?;
        self.ids.get(range(&entry.ids))
    }

    fn push(&mut self, hash: u64, text: &str, form: Form, ids: &[TokenId]) {
        let from = (self.text.len() as u32, self.ids.len() as u32);
        self.text.extend_from_slice(text.as_bytes());
        self.ids.extend_from_slice(ids);
        let text = from.0..self.text.len() as u32;
        let ids = from.1..self.ids.len() as u32;
        self.entries.insert_unique(hash, Entry { hash, form, text, ids }, |entry| entry.hash);
    }
}

fn range(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

#[cfg(test)]
mod tests {
    use super::{Form, Shelf, TextCache};
    use crate::token::TokenId;

    const ROOM: usize = 1000;
    type Small = TextCache<100, ROOM>;

    fn recall(cache: &mut Small, text: &str, form: Form) -> Option<Vec<TokenId>> {
        let mut ids = vec![7];
        let hash = cache.hash(text, form)?;
        let found = cache.recall(hash, text, form, &mut ids);
        assert_eq!(ids[0], 7, "what was there stays");
        found.then(|| ids.split_off(1))
    }

    fn keep(cache: &mut Small, text: &str, form: Form, ids: &[TokenId]) {
        if let Some(hash) = cache.hash(text, form) {
            cache.keep(hash, text, form, ids);
        }
    }

    #[test]
    fn a_text_is_found_as_what_it_was_kept() {
        let mut cache = Small::default();
        keep(&mut cache, "a text", Form::Text, &[1, 2]);
        keep(&mut cache, "a text", Form::Prefixed, &[3]);
        assert_eq!(recall(&mut cache, "a text", Form::Text), Some(vec![1, 2]));
        assert_eq!(recall(&mut cache, "a text", Form::Prefixed), Some(vec![3]));
        assert_eq!(recall(&mut cache, "a text", Form::Unit), None);
        assert_eq!(recall(&mut cache, "a texu", Form::Text), None);
        keep(&mut cache, "nothing", Form::Text, &[]);
        assert_eq!(recall(&mut cache, "nothing", Form::Text), Some(vec![]));
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut cache = Small::default();
        keep(&mut cache, "asked for", Form::Text, &[1]);
        keep(&mut cache, "left alone", Form::Text, &[2]);
        for nth in 0..200 {
            keep(&mut cache, &format!("text {nth}"), Form::Text, &[nth; 5]);
            assert_eq!(recall(&mut cache, "asked for", Form::Text), Some(vec![1]), "{nth}");
            for shelf in [&cache.newer, &cache.older] {
                assert!(shelf.size() <= ROOM);
            }
        }
        assert_eq!(recall(&mut cache, "left alone", Form::Text), None);
        assert_eq!(recall(&mut cache, "text 199", Form::Text), Some(vec![199; 5]));
    }

    /// Reserved memory counts, that of entries too.
    fn memory(cache: &Small) -> usize {
        let shelves = [&cache.newer, &cache.older].into_iter();
        let lists = |shelf: &Shelf| shelf.text.capacity() + 4 * shelf.ids.capacity();
        shelves.map(|shelf| lists(shelf) + shelf.entries.allocation_size()).sum()
    }

    #[test]
    fn memory_is_bounded_for_short_and_long_texts() {
        let mut cache = Small::default();
        for length in [0, 1, 10, 90] {
            for nth in 0..1000 {
                keep(&mut cache, &format!("{nth:length$}"), Form::Text, &[nth]);
                assert!(memory(&cache) <= 6 * ROOM, "{}", memory(&cache));
            }
        }
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        let mut cache = Small::default();
        let long = "x".repeat(101);
        keep(&mut cache, &long, Form::Text, &[1]);
        assert_eq!(recall(&mut cache, &long, Form::Text), None);
        keep(&mut cache, "many ids", Form::Text, &[1; ROOM]);
        assert_eq!(recall(&mut cache, "many ids", Form::Text), None);
    }
}
