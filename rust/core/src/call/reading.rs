//! What the tests of readers share: a reader is given text and tokens, in pieces of any size.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use super::json_arguments::RawScanner;
use super::python::PairScanner;
use super::shape::ArgumentsReader;
use super::{Ended, Mended, quoted};
use crate::json;
use crate::schema::{Parameters, ToolTypes};
use chatcodec_vocab::TokenId;

/// A part of what a model generates.
#[derive(Debug, Clone)]
pub(super) enum Item {
    Text(String),
    Control(TokenId),
}

impl From<&str> for Item {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// What a reader made of items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) json: String,
    /// The text after the arguments, with `#` for each token that is not of the arguments.
    pub(super) rest: String,
    pub(super) is_whole: bool,
    /// What was mended before the end.
    pub(super) mended: Vec<Mended>,
}

/// Reads items in pieces of some characters. Text that comes out unchanged is read by the short way, and the long way
/// gives the same.
pub(super) fn read(
    mut reader: Box<dyn ArgumentsReader>,
    items: &[Item],
    chars: usize,
    ended: Ended,
) -> Read {
    let (mut json, mut rest, mut mended) = (String::new(), String::new(), Vec::new());
    for item in items {
        let text = match item {
            Item::Text(text) => text,
            Item::Control(id) => {
                let (is_own, said) = reader.push_control(*id);
                json.push_str(&said);
                rest.push_str(if is_own { "" } else { "#" });
                mended.extend(reader.take_mended());
                continue;
            }
        };
        for piece in pieces(text, chars) {
            let mut left = piece.as_str();
            while !left.is_empty() && !reader.is_done() {
                let mut short = reader.clone();
                let is_same = short.take_same(left);
                let (taken, said) = reader.push(left);
                json.push_str(&said);
                if is_same {
                    assert_eq!((taken, &*said), (left.len(), left));
                    reader = short;
                }
                let is_odd = !reader.take_odd().is_empty();
                let newly = reader.take_mended();
                left = &left[taken..];
                assert!(left.is_empty() || reader.is_done() || is_odd || newly.is_some());
                mended.extend(newly);
            }
            if reader.is_done() {
                rest.push_str(&reader.take_rest());
            }
            rest.push_str(left);
        }
    }
    json.push_str(&reader.finish(ended));
    let (rest, is_whole) = (reader.take_rest() + &rest, reader.is_complete(ended));
    Read { json, rest, is_whole, mended }
}

/// The pieces of a text that have some characters.
pub(super) fn pieces(text: &str, chars: usize) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    all.chunks(chars).map(|piece| piece.iter().collect()).collect()
}

/// The parameters of a schema.
pub(super) fn parameters(schema: &Value) -> Option<Arc<Parameters>> {
    ToolTypes::read(&serde_json::json!([{"name": "f", "parameters": schema}])).ok()?.of("f")
}

/// A JSON value with such texts, also as keys.
pub(super) fn json_value(
    text: impl Strategy<Value = String> + Clone + 'static,
) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f32>().prop_map(Into::into),
        text.clone().prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec((text.clone(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Parts of arguments as models write them: of JSON, of Python, and without quotes.
const PARTS: [&str; 44] = [
    "{", "}", "[", "]", "(", ")", ":", ",", ", ", "=", " ", "\n", "a=", "b", "a:", "\"a\"", "'x'",
    "\"y\"", "\"", "'", "'''", "\\", "n", "\\u00", "e9", "\\u00e9", "\\ud83d", "true", "tr", "ue",
    "True", "None", "null", "nan", "1", "-", ".5", "1.5", "é", "x", "\"{", "}\"", "\\n", ")\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6000))]

    #[test]
    fn what_is_whole_is_json_however_it_comes(
        begin in prop::sample::select(vec!["", "{", "[", "a=", "a:"]),
        parts in prop::collection::vec(prop::sample::select(PARTS.to_vec()), 0..12),
        end in prop::sample::select(vec!["", ")", "}"]),
    ) {
        let text = [begin, &parts.concat(), end].concat();
        let readers: [Box<dyn ArgumentsReader>; 3] = [
            Box::new(RawScanner::default()),
            Box::new(PairScanner::new()),
            Box::new(quoted::Reader::new(vec![1])),
        ];
        for (nth, reader) in readers.into_iter().enumerate() {
            let whole = read(reader.clone(), &[text.as_str().into()], usize::MAX, Ended::Cut);
            let is_json = json::is_value(&whole.json);
            prop_assert!(!whole.is_whole || is_json, "{:?} of {}", whole, text);
            // JSON alone may be whole without a sign that closes a call.
            prop_assert!(whole.is_whole || !is_json || nth > 0, "{:?} of {}", whole, text);
            for chars in 1..5 {
                let cut = read(reader.clone(), &[text.as_str().into()], chars, Ended::Cut);
                prop_assert_eq!(&cut, &whole, "{}", text);
            }
        }
    }
}
