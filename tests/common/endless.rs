//! Streams that never come to what they began: every kind of place that a reader can be in, filled
//! with the same again and again.

use chatcodec::{Codec, TokenId};

/// Control tokens and text, with their ids.
pub struct Stretch {
    pub parts: &'static [&'static str],
    pub ids: Vec<TokenId>,
}

const ACT: &str = "<|action_start|>";
const PLUGIN: &str = "<|plugin|>";
const CODE: &str = "<|interpreter|>";

const OPENINGS: &[&[&str]] = &[
    &[],
    &["<|im_start|>"],
    &["<|im_start|>", "user name="],
    &["<|im_end|>"],
    &[ACT],
    &[ACT, PLUGIN],
    &[ACT, PLUGIN, "{\"name\": \""],
    &[ACT, PLUGIN, "{\"name\": \"f\", \"parameters\": [\""],
    &[ACT, PLUGIN, "{\"name\": \"f\", \""],
    &[ACT, PLUGIN, "{\"name\": \"f\", \"parameters\""],
    &[ACT, PLUGIN, "{\"name\": \"f\", \"parameters\": "],
    &[ACT, PLUGIN, "{\"name\": \"f\", \"x\": "],
    &[ACT, PLUGIN, "{\"name\": \"f\", \"parameters\": {}"],
    &[ACT, PLUGIN, "{\"name\": \"f\", \"parameters\": {}}"],
    &[ACT, PLUGIN, "{\"parameters\": "],
    &[ACT, PLUGIN, "{\"parameters\": {}, \"name\": "],
    &[ACT, CODE],
    &[ACT, CODE, "\n```"],
    &[ACT, CODE, "\n```python\n\n```"],
    &[ACT, CODE, "\n```python\nx\n```", "<|action_end|>"],
];

const FILLINGS: &[&[&str]] = &[
    &["\n"],
    &[" "],
    &["a"],
    &["["],
    &["\\"],
    &["\"x\", "],
    &["\"a\": 1, "],
    &["``"],
    &["\n```"],
    &[ACT],
    &["<|im_start|>"],
    &["<|im_start|>", "u"],
];

/// What opens a place, and what it is filled with.
pub fn places(codec: &Codec) -> impl Iterator<Item = (Stretch, Stretch)> {
    OPENINGS.iter().flat_map(move |opening| {
        FILLINGS.iter().map(move |filling| (stretch(codec, opening), stretch(codec, filling)))
    })
}

fn stretch(codec: &Codec, parts: &'static [&'static str]) -> Stretch {
    let vocab = codec.vocab();
    let ids = |part: &&str| match vocab.control().get(*part) {
        Some(&id) => vec![id],
        None => vocab.encode(part),
    };
    Stretch { parts, ids: parts.iter().flat_map(ids).collect() }
}
