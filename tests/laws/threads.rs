//! Text that threads share, and texts that are encoded together, have the ids that each has alone.

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

#[test]
fn texts_together_have_their_own_ids() {
    // More of them than are joined, once in a while, and some that are long.
    let texts = || (vec(text(), 0..60), prop_oneof![8 => Just(1_usize), 1 => 300..3000_usize]);
    for (name, vocab) in p3_files::vocabs() {
        check(name, 40, texts(), |(mut texts, times)| {
            if let Some(first) = texts.first_mut() {
                *first = first.repeat(times);
            }
            let texts = texts.iter().cycle().take(texts.len() * times.min(30));
            let alone: Vec<_> =
                texts.clone().map_while(|text| vocab.try_encode(text).ok()).collect();
            let (mut ids, mut counts) = (vec![-7], vec![7]);
            let done =
                vocab.try_encode_each(texts.clone().map(String::as_str), &mut ids, &mut counts);
            prop_assert_eq!(done.is_ok(), alone.len() == texts.count());
            prop_assert_eq!(counts.remove(0), 7);
            prop_assert_eq!(counts.len(), alone.len());
            let mut start = 1;
            for (alone, end) in alone.iter().zip(counts) {
                prop_assert_eq!(alone, &ids[start..end]);
                start = end;
            }
            prop_assert_eq!(ids[0], -7);
            prop_assert!(done.is_err() || start == ids.len());
            Ok(())
        });
    }
}
