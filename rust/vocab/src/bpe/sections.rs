//! Cache of the sections of long texts, which all threads of a vocabulary share.
//!
//! ```text
//! a file of 300 KB that an agent sends with each turn     five sections of 64 KB, encoded twice, then copied
//! ```
//!
//! A section ends at the first place after a multiple of [`SECTION`] bytes where a text can be split without a change
//! of its ids. When a text grows at its end, only the last section changes.

use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard};

use hashbrown::DefaultHashBuilder;
use lru::LruCache;

use super::seen::Seen;
use super::text_cache::Form;
use crate::lock::try_lock;
use crate::token::TokenId;

/// Distance between the beginnings of sections, in bytes.
pub(super) const SECTION: usize = 1 << 16;

/// A longer section, of a text with few places to split it, is not kept.
const LONGEST: usize = 2 * SECTION;

/// Maximum number of bytes of the sections of a vocabulary; nothing is kept while no long text comes twice.
const ROOM: usize = 1 << 25;

/// Number of bytes that a section takes beside its text and its ids, about.
const ENTRY: usize = 256;

/// Attempts to get the lock, which threads hold for a lookup or to keep a section. After a fork it may be held for ever.
const ATTEMPTS: usize = 100;

#[derive(Default)]
pub(crate) struct Sections {
    kept: Mutex<Kept>,
    /// Keyed, so that collisions are hard to construct; compares are of all bytes.
    hasher: DefaultHashBuilder,
}

struct Section {
    text: Box<str>,
    form: Form,
    ids: Box<[TokenId]>,
}

struct Kept {
    /// Sections by the hash of text and form.
    sections: LruCache<u64, Arc<Section>>,
    size: usize,
    seen: Seen,
}

impl Sections {
    /// Appends the ids of a section; `encode` appends those of a section that did not come twice lately.
    pub(crate) fn recall_or<E>(
        &self,
        text: &str,
        dummy_prefix: bool,
        ids: &mut Vec<TokenId>,
        encode: impl FnOnce(&mut Vec<TokenId>) -> Result<(), E>,
    ) -> Result<(), E> {
        if text.len() > LONGEST {
            return encode(ids);
        }
        let form = Form::of_text(dummy_prefix);
        let hash = self.hasher.hash_one((form, text));
        let found = self.open().and_then(|mut kept| kept.sections.get(&hash).cloned());
        if let Some(found) = found.filter(|found| found.form == form && *found.text == *text) {
            ids.extend_from_slice(&found.ids);
            return Ok(());
        }
        let from = ids.len();
        encode(ids)?;
        if self.open().is_some_and(|mut kept| kept.seen.comes_again(hash)) {
            let section = Section { text: text.into(), form, ids: ids[from..].into() };
            // What makes room is freed without the lock.
            let _dropped = self.open().map(|mut kept| kept.keep(hash, Arc::new(section)));
        }
        Ok(())
    }

    /// What is kept; `None` if another thread holds the lock for long.
    fn open(&self) -> Option<MutexGuard<'_, Kept>> {
        let attempt = |_| {
            try_lock(&self.kept).or_else(|| {
                std::hint::spin_loop();
                None
            })
        };
        (0..ATTEMPTS).find_map(attempt)
    }
}

impl Section {
    fn size(&self) -> usize {
        self.text.len() + size_of_val(&*self.ids) + ENTRY
    }
}

impl Kept {
    /// Keeps a section; returns those that make room, which were asked for the longest ago.
    fn keep(&mut self, hash: u64, section: Arc<Section>) -> Vec<Arc<Section>> {
        self.size += section.size();
        let mut dropped: Vec<_> = self.sections.put(hash, section).into_iter().collect();
        self.size -= dropped.iter().map(|section| section.size()).sum::<usize>();
        while self.size > ROOM
            && let Some((_, oldest)) = self.sections.pop_lru()
        {
            self.size -= oldest.size();
            dropped.push(oldest);
        }
        dropped
    }
}

impl Default for Kept {
    fn default() -> Self {
        Self { sections: LruCache::unbounded(), size: 0, seen: Seen::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::{LONGEST, ROOM, SECTION, Sections};
    use crate::vocab::Vocab;

    /// How many sections of a text are encoded, not copied.
    fn encoded(sections: &Sections, texts: &[&str]) -> usize {
        let (mut count, mut ids) = (0, Vec::new());
        for text in texts {
            let encode = |ids: &mut Vec<i32>| -> Result<(), Infallible> {
                count += 1;
                ids.push(text.len() as i32);
                Ok(())
            };
            let Ok(()) = sections.recall_or(text, false, &mut ids, encode);
        }
        let lengths: Vec<i32> = texts.iter().map(|text| text.len() as i32).collect();
        assert_eq!(ids, lengths, "copied ids are the same");
        count
    }

    #[test]
    fn a_section_is_encoded_twice() {
        let sections = Sections::default();
        let texts = ["a", "ab", "abc"];
        assert_eq!([(); 4].map(|()| encoded(&sections, &texts)), [3, 3, 0, 0]);
        let long = "x".repeat(LONGEST + 1);
        assert_eq!([(); 4].map(|()| encoded(&sections, &[&long])), [1; 4]);
    }

    #[test]
    fn a_lock_that_stays_held_is_passed_over() {
        let sections = Sections::default();
        for _ in 0..3 {
            encoded(&sections, &["a"]);
        }
        let held = sections.kept.lock();
        assert_eq!(encoded(&sections, &["a"]), 1);
        drop(held);
        assert_eq!(encoded(&sections, &["a"]), 0);
    }

    #[test]
    fn memory_is_bounded_and_what_is_asked_for_stays() {
        let sections = Sections::default();
        let text = |nth: usize| nth.to_string() + &"x".repeat(SECTION);
        let stays = text(0);
        for nth in 1..1000 {
            for _ in 0..2 {
                encoded(&sections, &[&text(nth)]);
            }
            let again = encoded(&sections, &[&stays]);
            assert!(nth <= 2 || again == 0, "{nth}");
            let kept = sections.kept.lock().unwrap();
            assert!(kept.size <= ROOM);
            let sizes = kept.sections.iter().map(|(_, section)| section.size());
            assert_eq!(kept.size, sizes.sum::<usize>());
        }
        assert_eq!(encoded(&sections, &[&text(1)]), 1);
        assert_eq!(encoded(&sections, &[&text(999)]), 0);
    }

    #[test]
    fn long_texts_have_the_same_ids_each_time() {
        let vocab = Vocab::embedded();
        let long = "Some words of a text, 你好，世界。 ".repeat(10 * SECTION / 40);
        let lines = long.replace("text, ", "text,\n");
        for text in [&*long, &lines, &long[..long.len() / 2], &"x".repeat(3 * SECTION)] {
            let ids = vocab.try_encode_on(3, text).unwrap();
            for threads in [1, 1, 1, 2, 2, 3, 3] {
                assert_eq!(vocab.try_encode_on(threads, text).unwrap(), ids);
            }
            assert_eq!(vocab.decode_bytes(&ids).unwrap(), text.as_bytes());
        }
    }
}
