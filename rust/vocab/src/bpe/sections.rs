//! Cache of the sections of long texts, which all threads of a vocabulary share.
//!
//! ```text
//! a file of 300 KB that an agent sends with each turn     five sections of 64 KB, encoded twice, then copied
//! ```
//!
//! A section ends at the first place after a multiple of [`SECTION`] bytes where a text can be split without a change
//! of its ids. When a text grows at its end, only the last section changes.

use std::hash::BuildHasher;
use std::sync::Mutex;

use hashbrown::DefaultHashBuilder;

use super::text_cache::{Form, TextCache};
use crate::lock::try_lock;
use crate::token::TokenId;

/// Distance between the beginnings of sections, in bytes.
pub(super) const SECTION: usize = 1 << 16;

/// A longer section, of a text with few places to split it, is not kept.
const LONGEST: usize = 2 * SECTION;

/// Sections are spread over shelves, so that threads rarely ask for the same one.
const SHELVES: usize = 1 << SHELVES_LOG2;

const SHELVES_LOG2: u32 = 3;

/// Twice 2 MiB for a shelf: a vocabulary keeps 32 MiB at most, and nothing while no long text comes twice.
type Shelf = TextCache<LONGEST, { 1 << 21 }>;

#[derive(Default)]
pub(crate) struct Sections {
    shelves: [Mutex<Shelf>; SHELVES],
    /// Keyed, so that collisions are hard to construct; compares are of all bytes.
    hasher: DefaultHashBuilder,
}

impl Sections {
    /// Appends the ids of a section; `encode` appends those of a section that did not come twice lately.
    pub(crate) fn recall_or<E>(
        &self,
        section: &str,
        dummy_prefix: bool,
        ids: &mut Vec<TokenId>,
        encode: impl FnOnce(&mut Vec<TokenId>) -> Result<(), E>,
    ) -> Result<(), E> {
        if section.len() > LONGEST {
            return encode(ids);
        }
        let form = Form::of_text(dummy_prefix);
        let hash = self.hasher.hash_one((form, section));
        let place = (hash >> (u64::BITS - SHELVES_LOG2)) as usize;
        // A shelf that another thread reads is passed over: encoding takes as long as waiting might.
        let open = || try_lock(&self.shelves[place]);
        if open().is_some_and(|mut texts| texts.recall(hash, section, form, ids)) {
            return Ok(());
        }
        let from = ids.len();
        encode(ids)?;
        if let Some(mut texts) = open()
            && texts.comes_again(hash)
        {
            texts.keep(hash, section, form, &ids[from..]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::{LONGEST, SECTION, Sections};
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
    fn a_shelf_in_use_is_passed_over() {
        let sections = Sections::default();
        for _ in 0..3 {
            encoded(&sections, &["a"]);
        }
        let held: Vec<_> = sections.shelves.iter().map(|shelf| shelf.lock()).collect();
        assert_eq!(encoded(&sections, &["a"]), 1);
        drop(held);
        assert_eq!(encoded(&sections, &["a"]), 0);
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
