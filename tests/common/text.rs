//! Hostile text: what is most likely to become control, to be lost, or to be read as something else.

use proptest::prelude::*;

/// Spellings of control tokens: both of `InternLM2`'s, and what other vocabularies have.
pub const SPELLINGS: &[&str] = &[
    "<|im_start|>",
    "<|im_end|>",
    "<|action_start|>",
    "<|action_end|>",
    "<|interpreter|>",
    "<|plugin|>",
    "[UNUSED_TOKEN_146]",
    "[UNUSED_TOKEN_145]",
    "[UNUSED_TOKEN_144]",
    "[UNUSED_TOKEN_143]",
    "[UNUSED_TOKEN_142]",
    "[UNUSED_TOKEN_141]",
    "[UNUSED_TOKEN_0]",
    "<s>",
    "</s>",
    "<unk>",
    "<|endoftext|>",
    "<|System|>",
    "<mask>",
    "<pad>",
    "[gMASK]",
    "sop",
    "eop",
];

/// What a text is made of beside control spellings: byte pieces spelled out, white space and its
/// mark, letters that normalisers change, characters of several code points or bytes, and what
/// fences, JSON and headers are written with.
const FRAGMENTS: &[&str] = &[
    "<0x0A>",
    "<0x00>",
    "<0x3C>",
    "\u{2581}",
    "\u{2581}\u{2581}",
    " ",
    "  ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "\0",
    "<",
    "|",
    ">",
    "[",
    "]",
    "<|",
    "|>",
    "</",
    "im_start",
    "_",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{3000}",
    "\u{200b}",
    "\u{200d}",
    "\u{feff}",
    "\u{fffd}",
    "\u{301}",
    "e\u{301}",
    "\u{338}",
    "\u{212a}",
    "\u{f0000}",
    "\u{10ffff}",
    "👨\u{200d}👩\u{200d}👧",
    "🏳\u{fe0f}\u{200d}🌈",
    "中",
    "中文",
    "你好，世界",
    "ＡＢ",
    "Ｅ",
    "ａ",
    "——",
    "—",
    "……",
    "…",
    "\u{ff5c}",
    "＜",
    "é",
    "ß",
    "नि",
    "한",
    "``",
    "```",
    "```python\n",
    "\n```",
    "\n```\n",
    "{",
    "}",
    "\"",
    "\\",
    "\\\"",
    "\"}}",
    "\"}",
    "}}",
    "{\"name\": \"f\", \"parameters\": {}}",
    "\\u003c",
    "\\n",
    "null",
    "1e400",
    ":",
    ", ",
    "system",
    "user",
    "assistant\n",
    "environment",
    " name=",
    "user\n",
    "python",
    "a",
    "b",
    "z",
    "0",
    "7",
    "2024",
    "The quick ",
    "return x",
    "    ",
    ".",
    "-",
];

/// A control spelling, or a part of one.
fn spelling() -> impl Strategy<Value = String> {
    (prop::sample::select(SPELLINGS), any::<prop::sample::Index>(), any::<prop::sample::Index>())
        .prop_map(|(spelling, from, to)| {
            let (from, to) = (from.index(spelling.len() + 1), to.index(spelling.len() + 1));
            spelling[from.min(to)..from.max(to)].to_owned()
        })
}

/// Any text, most of it hostile; sometimes empty.
pub fn text() -> impl Strategy<Value = String> {
    pieces(0..8)
}

/// Text of more pieces.
pub fn long_text() -> impl Strategy<Value = String> {
    pieces(0..40)
}

fn pieces(count: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let whole = prop::sample::select(SPELLINGS).prop_map(str::to_owned);
    let fragment = prop::sample::select(FRAGMENTS).prop_map(str::to_owned);
    let piece = prop_oneof![
        3 => whole,
        2 => spelling(),
        8 => fragment,
        1 => any::<char>().prop_map(String::from),
        1 => "[a-zA-Z ]{1,12}",
    ];
    prop::collection::vec(piece, count).prop_map(|pieces| pieces.concat())
}

/// A header word: letters, digits and `_.:-`.
pub fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[A-Za-z0-9_.:-]{1,12}", Just("file".to_owned()), Just("plugin".to_owned())]
}

/// One JSON value, written with any spacing, escapes, duplicate keys, and white space around it.
pub fn json() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        prop::sample::select(vec![
            "0", "-1", "12.50", "1e400", "-0.1E+7", "true", "false", "null", "{}", "[]"
        ])
        .prop_map(str::to_owned),
        json_string(),
    ];
    let value = scalar.prop_recursive(3, 12, 3, |inner| {
        let member = (json_string(), inner.clone()).prop_map(|(key, value)| (key, value));
        prop_oneof![
            (prop::collection::vec(inner, 0..3), spaces()).prop_map(|(items, space)| {
                format!("[{space}{}{space}]", items.join(&format!(",{space}")))
            }),
            (prop::collection::vec(member, 0..3), spaces()).prop_map(|(members, space)| {
                let members: Vec<String> = members
                    .iter()
                    .map(|(key, value)| format!("{key}{space}:{space}{value}"))
                    .collect();
                format!("{{{space}{}{space}}}", members.join(&format!("{space},")))
            }),
        ]
    });
    (spaces(), value, spaces()).prop_map(|(before, value, after)| before + &value + &after)
}

fn spaces() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", " ", "\n", "\t", "  ", "\r\n "]).prop_map(str::to_owned)
}

/// A JSON string: as `serde_json` writes it, with some characters escaped that need not be.
fn json_string() -> impl Strategy<Value = String> {
    (text(), 0..3).prop_map(|(text, style)| {
        let plain = serde_json::to_string(&text).expect("text is JSON");
        match style {
            0 => plain,
            1 => plain.replace('/', "\\/").replace('z', "\\u007a"),
            _ => plain.replace('<', "\\u003c"),
        }
    })
}
