//! Text that threads share has the ids that one thread gives it.

use crate::common::check;
use crate::common::text::text;
use crate::p3_files;
use proptest::collection::vec;
use proptest::prelude::*;

/// Texts of this length are shared by two threads and more.
const LONG: usize = 600 << 10;

#[test]
fn threads_change_no_id() {
    // What a place to part is looked for among, again and again.
    let stretches = || vec(text(), 1..40).prop_filter("text", |texts| !texts.concat().is_empty());
    for (name, vocab) in p3_files::vocabs() {
        check(name, 3, (stretches(), 2_usize..5), |(texts, threads)| {
            let stretch = texts.concat();
            let long = stretch.repeat(LONG.div_ceil(stretch.len()));
            let whole = vocab.try_encode(&long);
            let shared = vocab.try_encode_on(threads, &long);
            prop_assert!(whole == shared, "{} threads, {:?}", threads, stretch);
            Ok(())
        });
    }
}
