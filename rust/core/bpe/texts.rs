//! The ids of texts seen lately: bounded, full compares; what is asked for again stays.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::vocab::TokenId;

/// What a text is encoded as, which makes a difference to its ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// A unit that no merge crosses.
    Unit,
    /// A unit that is a part of a pre-token.
    Part,
    /// All of a text.
    Text,
    /// All of a text, with a dummy prefix.
    Prefixed,
}

/// Texts of up to `LONGEST` bytes. Memory: `ROOM` bytes twice, and what the tables of entries take.
///
/// Texts stand on two shelves. New ones come to the first, and so does one that is found on the
/// second; when the first is full it becomes the second, and what stood there is forgotten.
#[derive(Default)]
pub(super) struct TextCache<const LONGEST: usize, const ROOM: usize> {
    newer: Shelf,
    older: Shelf,
    /// Keyed: no text can be made whose like all collide.
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
    /// Appends the ids of a text that it has; whether it has it.
    pub(super) fn recall(&mut self, text: &str, form: Form, ids: &mut Vec<TokenId>) -> bool {
        if text.len() > LONGEST {
            return false;
        }
        let hash = self.hash(text, form);
        if let Some(found) = self.newer.find(hash, text, form) {
            ids.extend_from_slice(found);
            return true;
        }
        let Some(found) = self.older.find(hash, text, form) else { return false };
        let from = ids.len();
        ids.extend_from_slice(found);
        self.put(hash, text, form, &ids[from..]);
        true
    }

    /// Keeps the ids of a text that it does not have.
    pub(super) fn keep(&mut self, text: &str, form: Form, ids: &[TokenId]) {
        if text.len() <= LONGEST {
            self.put(self.hash(text, form), text, form, ids);
        }
    }

    fn hash(&self, text: &str, form: Form) -> u64 {
        self.hasher.hash_one((form, text))
    }

    fn put(&mut self, hash: u64, text: &str, form: Form, ids: &[TokenId]) {
        let size = text.len() + size_of_val(ids);
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
        self.text.len() + size_of_val(&self.ids[..])
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
    use super::{Form, TextCache};
    use crate::vocab::TokenId;

    const ROOM: usize = 1000;
    type Small = TextCache<100, ROOM>;

    fn recall(cache: &mut Small, text: &str, form: Form) -> Option<Vec<TokenId>> {
        let mut ids = vec![7];
        let found = cache.recall(text, form, &mut ids);
        assert_eq!(ids[0], 7, "what was there stays");
        found.then(|| ids.split_off(1))
    }

    #[test]
    fn a_text_is_found_as_what_it_was_kept() {
        let mut cache = Small::default();
        cache.keep("a text", Form::Text, &[1, 2]);
        cache.keep("a text", Form::Prefixed, &[3]);
        assert_eq!(recall(&mut cache, "a text", Form::Text), Some(vec![1, 2]));
        assert_eq!(recall(&mut cache, "a text", Form::Prefixed), Some(vec![3]));
        assert_eq!(recall(&mut cache, "a text", Form::Unit), None);
        assert_eq!(recall(&mut cache, "a texu", Form::Text), None);
        cache.keep("nothing", Form::Text, &[]);
        assert_eq!(recall(&mut cache, "nothing", Form::Text), Some(vec![]));
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut cache = Small::default();
        cache.keep("asked for", Form::Text, &[1]);
        cache.keep("left alone", Form::Text, &[2]);
        for nth in 0..200 {
            cache.keep(&format!("text {nth}"), Form::Text, &[nth; 5]);
            assert_eq!(recall(&mut cache, "asked for", Form::Text), Some(vec![1]), "{nth}");
            for shelf in [&cache.newer, &cache.older] {
                assert!(shelf.size() <= ROOM);
            }
        }
        assert_eq!(recall(&mut cache, "left alone", Form::Text), None);
        assert_eq!(recall(&mut cache, "text 199", Form::Text), Some(vec![199; 5]));
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        let mut cache = Small::default();
        let long = "x".repeat(101);
        cache.keep(&long, Form::Text, &[1]);
        assert_eq!(recall(&mut cache, &long, Form::Text), None);
        cache.keep("many ids", Form::Text, &[1; ROOM]);
        assert_eq!(recall(&mut cache, "many ids", Form::Text), None);
    }
}
