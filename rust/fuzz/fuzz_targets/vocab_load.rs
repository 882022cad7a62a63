//! Any bytes are a vocabulary or an error; a vocabulary encodes without control, and within bounds.

#![no_main]

use chatcodec::{Error, Vocab};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    match Vocab::load(file) {
        Ok(vocab) => {
            // Every id comes from a piece, and a piece takes two bytes at least.
            assert!(vocab.size() <= file.len() / 2);
            for text in ["", "ab ", "\u{2581}\u{2581}a", "中\0<s></s>"] {
                let ids = vocab.encode(text);
                assert!(ids.iter().all(|&id| !vocab.is_control(id)));
                assert!(ids.len() <= text.len() + 3);
                let bytes = vocab.decode_bytes(&ids).expect("ids of the vocabulary");
                if !vocab.collapses_spaces() {
                    assert_eq!(bytes, text.replace('\u{2581}', " ").as_bytes());
                }
            }
        }
        Err(Error::Vocab { problem, .. }) => assert!(!problem.is_empty()),
        Err(other) => panic!("{other}"),
    }
});
