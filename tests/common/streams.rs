//! Streams of ids as a model might write them, and as it should not.

use chatcodec::TokenId;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::TestCodec;
use super::text::{json, long_text};

/// Control tokens and text in any order, calls that go wrong anywhere, bytes that are no UTF-8, and
/// now and then an id that is none.
pub fn ids(codec: &'static TestCodec) -> impl Strategy<Value = Vec<TokenId>> {
    let vocab = codec.codec.vocab();
    let control: Vec<TokenId> = vocab.control().values().copied().collect();
    let piece = prop_oneof![
        4 => select(control).prop_map(|id| vec![id]),
        4 => select(LINES).prop_map(move |line| vocab.encode(line)),
        2 => long_text().prop_map(move |text| vocab.encode(&text)),
        1 => any::<u8>().prop_map(move |byte| vec![codec.naive.bytes[usize::from(byte)]]),
        1 => select(vec![-1, i32::MIN, i32::MAX, 60_000, 92_544]).prop_map(|id| vec![id]),
        4 => action().prop_map(move |parts| {
            let id = |part: &String| vocab.control().get(part).copied();
            let ids = |part| id(&part).map_or_else(|| vocab.encode(&part), |id| vec![id]);
            parts.into_iter().flat_map(ids).collect()
        }),
    ];
    vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// An action, whole or of parts that do not fit together.
fn action() -> impl Strategy<Value = Vec<String>> {
    let part = prop_oneof![
        6 => select(PARTS).prop_map(str::to_owned),
        1 => json(),
        1 => select(CONTROL).prop_map(str::to_owned),
    ];
    let kind = select(vec!["<|plugin|>", "<|interpreter|>"]);
    let space = select(vec!["", "", "\n", " \n\t"]);
    (space, kind, vec(part, 0..7), any::<bool>()).prop_map(|(space, kind, parts, closed)| {
        let opening = ["<|action_start|>", space, kind].map(str::to_owned);
        let closing = closed.then(|| "<|action_end|>".to_owned());
        opening.into_iter().chain(parts).chain(closing).collect()
    })
}

const CONTROL: &[&str] = &[
    "<|action_start|>",
    "<|action_end|>",
    "<|plugin|>",
    "<|interpreter|>",
    "<|im_start|>",
    "<|im_end|>",
];

/// What stands between control tokens.
const LINES: &[&str] = &[
    "assistant\n",
    "user\n",
    "user name=file\n",
    "environment name=",
    "system name=",
    "\n",
    " ",
    "user",
    "critic\n",
    "é中👩\u{200d}🚀",
    "x",
];

/// What calls and code are made of.
const PARTS: &[&str] = &[
    "{",
    "}",
    "\n{\"name\": \"f\"",
    "{\"parameters\": {\"a\": [1, \"}\"]}",
    ", \"arguments\": 1e400",
    ", \"parameters\": ",
    ", \"name\": \"late\"",
    "\"name\": 1",
    ", \"x\": [",
    "]",
    "\"",
    "\\",
    "\\\"",
    ": ",
    ", ",
    " \n",
    "12",
    "tru",
    "{\"name\": \"f\", \"parameters\": {\"a\": \"<|action_end|>\"}}",
    "\n```python\n",
    "```py\nprint(1)\n```",
    "```\n",
    "\n```",
    "\n```\n",
    "``",
    "`",
    "x = 1\n",
    "é中",
    "and more",
];
