//! Two ways to the same ids: the encoder, and the quadratic reference of the tests.

#![no_main]

use std::sync::LazyLock;

use chatcodec::Vocab;
use libfuzzer_sys::fuzz_target;
use naive::Naive;

#[path = "../../../tests/common/naive.rs"]
#[allow(dead_code)]
mod naive;

const FILE: &[u8] = include_bytes!("../../vocab/src/vocab/embedded.model");

static BOTH: LazyLock<(Vocab, Naive)> = LazyLock::new(|| {
    let vocab = Vocab::embedded();
    let naive = Naive::read(FILE, |id| !vocab.is_control(id));
    (vocab, naive)
});

fuzz_target!(|text: &str| {
    let (vocab, naive) = &*BOTH;
    let expected = naive.encode(text);
    // Of a text that comes again the ids are kept.
    for _ in 0..3 {
        assert_eq!(vocab.encode(text), expected);
    }
});
