//! Any bytes are a vocabulary or an error; a vocabulary encodes without control, and within bounds.

#![no_main]

use chatcodec::{DummyPrefix, Vocab};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    match Vocab::load(file) {
        Ok(vocab) => {
            assert!(vocab.size() <= 4 << 20);
            for text in ["", "ab ", "\u{2581}\u{2581}a", "中\0<s></s>"] {
                let Ok(ids) = vocab.try_encode(text) else {
                    assert!(!vocab.lossless());
                    continue;
                };
                assert!(ids.iter().all(|&id| !vocab.is_control(id)));
                let is_whole = vocab.dummy_prefix() != DummyPrefix::FirstRun;
                if is_whole && vocab.lossless() && !vocab.collapses_spaces() {
                    let spaced = |text: &str| text.replace('\u{2581}', " ");
                    let bytes = vocab.decode_bytes(&ids).expect("ids of the vocabulary");
                    let decoded = String::from_utf8(bytes).expect("text");
                    assert_eq!(spaced(&decoded), spaced(&vocab.normalise(text)));
                }
            }
        }
        Err(error) => assert!(!error.problem.is_empty()),
    }
});
