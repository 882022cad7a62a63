//! P8: vocabularies, formats and codecs are shared freely between threads.

use crate::common::conversation::{Conversation, conversation};
use crate::common::text::long_text;
use crate::common::{codecs, seed, vocabs};
use chatcodec::{Codec, EncodeOptions, Encoding, Format, Stream, Vocab};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};

#[test]
fn everything_shared_is_shareable() {
    fn shareable<T: Send + Sync + Clone + 'static>() {}
    shareable::<Vocab>();
    shareable::<Format>();
    shareable::<Codec>();
    shareable::<Encoding>();
    shareable::<Stream>();
}

fn samples<S: Strategy>(strategy: &S, count: usize) -> Vec<S::Value> {
    let config = Config { rng_seed: RngSeed::Fixed(seed::of("samples")), ..Config::default() };
    let mut runner = TestRunner::new(config);
    let mut sample = || strategy.new_tree(&mut runner).map(|tree| tree.current());
    (0..count).map(|_| sample().expect("a value")).collect()
}

/// Runs `work` in several threads at once: all see the same.
fn in_threads<T: Send + PartialEq + std::fmt::Debug>(work: impl Fn() -> T + Sync) -> T {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        let mut seen: Vec<T> =
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let first = seen.remove(0);
        assert!(seen.iter().all(|other| *other == first), "{seen:?}");
        first
    })
}

#[test]
fn threads_encode_the_same_ids() {
    for known in vocabs() {
        let texts = samples(&long_text(), 300);
        let work = || -> Vec<_> { texts.iter().map(|text| known.vocab.encode(text)).collect() };
        assert_eq!(in_threads(work), work());
    }
    for codec in codecs() {
        let conversations: Vec<Conversation> = samples(&conversation(codec), 300);
        let encode = |conversation: &Conversation| {
            let encoding = conversation.encode(codec, &EncodeOptions::default());
            let encoding = encoding.expect("in the domain");
            let messages = codec.codec.decode(encoding.ids());
            (encoding.ids().to_vec(), encoding.neutralized(), messages)
        };
        let work = || -> Vec<_> { conversations.iter().map(encode).collect() };
        assert_eq!(in_threads(work), work());
    }
}

/// What was encoded before, with whatever, changes nothing: a cache is invisible.
#[test]
fn order_does_not_matter() {
    for known in vocabs() {
        let texts = samples(&long_text(), 300);
        let there: Vec<_> = texts.iter().map(|text| known.vocab.encode(text)).collect();
        let mut back: Vec<_> = texts.iter().rev().map(|text| known.vocab.encode(text)).collect();
        back.reverse();
        assert_eq!(there, back, "{}", known.name);
    }
}
