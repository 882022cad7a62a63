//! The core by itself, without Python: `cargo bench`, for day-to-day use.
//!
//! The embedded vocabulary on the project's own pages, and InternLM2's on real text where the test
//! data is there. *Fresh* is a new instance for each call, loaded before the clock starts; *hot* is
//! the same text by the same instance again. How this compares to others is told by
//! `python -m benches`.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use chatcodec::{Codec, EncodeOptions, Format, Message, Role, TokenId, Vocab};
use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};

const MESSAGE_BYTES: usize = 2_800;
const DOCUMENT_BYTES: usize = 1 << 20;
const PAGES: [&str; 3] = [
    include_str!("../README.md"),
    include_str!("../docs/formats.md"),
    include_str!("../ARCHITECTURE.md"),
];

/// What is measured: a vocabulary and a text for it.
struct Case {
    name: &'static str,
    model: Vec<u8>,
    text: String,
}

impl Case {
    fn vocab(&self) -> Vocab {
        Vocab::load(&self.model).expect("a SentencePiece model")
    }

    fn codec(&self) -> Codec {
        let format = Format::built_in("internlm2").expect("a built-in format");
        Codec::new(&format, &self.vocab()).expect("a vocabulary of this format")
    }

    fn text(&self, bytes: usize) -> &str {
        let mut end = bytes.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        &self.text[..end]
    }
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    // `Vocab::embedded` is one instance for the whole process, and so never fresh.
    let model = include_bytes!("../rust/vocab/src/vocab/embedded.model").to_vec();
    let embedded = Case { name: "embedded", model, text: PAGES.concat() };
    [Some(embedded), internlm2()].into_iter().flatten().collect()
});

/// InternLM2's vocabulary and Wikipedia, where the test data is.
fn internlm2() -> Option<Case> {
    let data = std::env::var_os("CHATCODEC_TEST_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let model = fs::read(data.join("vocab/internlm2/tokenizer.model")).ok()?;
    let text = fs::read_to_string(data.join("corpus/en_wiki_demo.txt")).ok()?;
    Some(Case { name: "internlm2", model, text })
}

fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

fn case(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).expect("one of `names`")
}

fn ids(case: &Case, vocab: &Vocab) -> Vec<TokenId> {
    vocab.encode(case.text(MESSAGE_BYTES))
}

fn main() {
    divan::main();
}

#[divan::bench(args = names(), sample_count = 10, sample_size = 1)]
fn load(bencher: Bencher, name: &str) {
    let case = case(name);
    bencher.bench(|| case.vocab());
}

#[divan::bench(args = names(), sample_count = 10, sample_size = 1)]
fn encode_document_fresh(bencher: Bencher, name: &str) {
    let case = case(name);
    let text = case.text(DOCUMENT_BYTES);
    bencher
        .counter(BytesCount::of_str(text))
        .with_inputs(|| case.vocab())
        .bench_refs(|vocab| vocab.encode(black_box(text)));
}

#[divan::bench(args = names(), sample_count = 10, sample_size = 1)]
fn encode_document_hot(bencher: Bencher, name: &str) {
    let case = case(name);
    let vocab = case.vocab();
    let text = case.text(DOCUMENT_BYTES);
    vocab.encode(text);
    bencher.counter(BytesCount::of_str(text)).bench(|| vocab.encode(black_box(text)));
}

#[divan::bench(args = names())]
fn encode_message_hot(bencher: Bencher, name: &str) {
    let case = case(name);
    let vocab = case.vocab();
    let text = case.text(MESSAGE_BYTES);
    vocab.encode(text);
    bencher.counter(BytesCount::of_str(text)).bench(|| vocab.encode(black_box(text)));
}

#[divan::bench(args = names())]
fn conversation_hot(bencher: Bencher, name: &str) {
    let case = case(name);
    let codec = case.codec();
    let options = EncodeOptions::default();
    let messages: Vec<Message> =
        (0..10).map(|at| Message::new(Role::User, &case.text(2_000)[at * 150..][..150])).collect();
    bencher
        .with_inputs(|| messages.clone())
        .bench_values(|messages| codec.encode(messages, None, &options));
}

#[divan::bench(args = names())]
fn stream_ids(bencher: Bencher, name: &str) {
    let case = case(name);
    let codec = case.codec();
    let ids = ids(case, codec.vocab());
    bencher
        .counter(ItemsCount::new(ids.len()))
        .with_inputs(|| (codec.stream(None), Vec::new()))
        .bench_refs(|(stream, events)| {
            for &id in &ids {
                stream.push(id, events);
            }
        });
}

#[divan::bench(args = names())]
fn parse(bencher: Bencher, name: &str) {
    let case = case(name);
    let codec = case.codec();
    let ids = ids(case, codec.vocab());
    bencher.counter(ItemsCount::new(ids.len())).bench(|| codec.parse(black_box(&ids), None));
}
