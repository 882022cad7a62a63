//! Arguments in nested tags, beside a naive reader: a recursive one, of the whole text.

use crate::common::events::{Start, check_stream, read};
use crate::common::model::tokenizer_json;
use crate::common::table::{calling, function};
use crate::common::{check, outside};
use chatcodec::{
    CallBody, Codec, EncodeOptions, EventKind, Format, Message, Role, TokenId, TurnReason, Vocab,
    collect,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The tokens of the format, in its pattern: signs that no text holds.
const TOKENS: [&str; 6] = ["⟦", "⟧", "⟨", "⟩", "◁", "▷"];

static CODEC: LazyLock<Codec> = LazyLock::new(|| {
    let format = r#"
name = "nested"
guarantee = "ids"
source = "the tests"
generation = { prompt = "{START}assistant\n" }
[control]
START = "⟦"
STOP = "⟧"
CALL = "⟨"
CALL_END = "⟩"
KEY = "◁"
KEY_END = "▷"
[turn]
user = "{START}user\n{content}{STOP}"
assistant = "{START}assistant\n{content}{?calls:{calls}?}{STOP}"
[call.function]
item = "{CALL}{name}>{arguments}{CALL_END}"
pair = "{KEY}{key}>{value}{KEY_END}{key}>"
list_item = "item"
"#;
    let tokens = TOKENS.map(str::to_owned);
    let vocab = Vocab::load(tokenizer_json(&tokens, &Value::Null).as_ref());
    let vocab = vocab.unwrap_or_else(|e| panic!("{e}"));
    let format = Format::parse("nested", format).unwrap_or_else(|e| panic!("{e}"));
    Codec::new(&format, &vocab).unwrap_or_else(|e| panic!("{e}"))
});

fn key() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[abc]{1,2}", 1 => Just("item".to_owned()), 1 => "[ab] [ab/<\"]"]
}

fn leaf() -> impl Strategy<Value = Value> {
    let looks =
        vec!["1", "-2.5", "007", "true", "True", "null", "[1]", "{}", "\"x\"", "", " 1", "\n"];
    let text = prop_oneof![
        select(looks).prop_map(str::to_owned),
        "[ab<>/ \n\"\\\\]{0,6}",
        select(vec!["◁a>", "▷a>", "⟩", "⟧"]).prop_map(str::to_owned),
    ];
    prop_oneof![
        3 => text.prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn arguments() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(key(), value(), 0..4)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

/// The ids of a call after the generation prompt, up to the end of its turn.
fn answer(arguments: &Value) -> Option<Vec<TokenId>> {
    let messages =
        vec![Message::new(Role::User, "x"), calling(function("f", &arguments.to_string()))];
    let options = |is_prompt| EncodeOptions {
        add_generation_prompt: Some(is_prompt),
        ..EncodeOptions::default()
    };
    let prompt = CODEC.encode(messages[..1].to_vec(), None, &options(true)).expect("a prompt");
    let whole = CODEC.encode(messages, None, &options(false)).ok()?;
    Some(whole.ids()[prompt.ids().len()..].to_vec())
}

/// A part of the input as a naive reader has it.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    Tag { key: String, inner: Vec<Node> },
    Text(String),
}

/// The nodes up to a closing tag, and the rest after that tag's token.
fn nodes(mut rest: &[(bool, String)]) -> (Vec<Node>, &[(bool, String)]) {
    let mut all = Vec::new();
    while let Some((is_token, text)) = rest.first() {
        match (is_token, text.as_str()) {
            (true, "◁") => {
                let (key, begun) = rest[1].1.split_once('>').expect("a key has an end");
                let mut within = rest[1..].to_vec();
                begun.clone_into(&mut within[0].1);
                let (inner, after) = nodes(&within);
                let used = within.len() - after.len();
                all.push(Node::Tag { key: key.to_owned(), inner });
                // The closing tag's key is no text.
                rest = &rest[1 + used..];
                let (_, text) = rest[0].1.split_once('>').expect("a key has an end");
                if !text.is_empty() {
                    all.push(Node::Text(text.to_owned()));
                }
                rest = &rest[1..];
            }
            (true, _) => return (all, &rest[1..]),
            (false, text) => {
                if !text.is_empty() {
                    all.push(Node::Text(text.to_owned()));
                }
                rest = &rest[1..];
            }
        }
    }
    (all, rest)
}

/// What nodes mean: an object, a list, or a text.
fn meaning(nodes: &[Node]) -> Value {
    let tags: Vec<(&str, &[Node])> = nodes
        .iter()
        .filter_map(|node| match node {
            Node::Tag { key, inner } => Some((&**key, &**inner)),
            Node::Text(_) => None,
        })
        .collect();
    match (tags.first(), nodes) {
        (Some(("item", _)), _) => tags.iter().map(|(_, inner)| meaning(inner)).collect(),
        (Some(_), _) => {
            let members = tags.iter().map(|(key, inner)| ((*key).to_owned(), meaning(inner)));
            Value::Object(members.collect())
        }
        (None, [Node::Text(text)]) => {
            let value = serde_json::from_str::<Value>(text).ok();
            let value = value.filter(|value| value.is_number() || value.is_boolean());
            value.unwrap_or_else(|| text.clone().into())
        }
        (None, _) => "".into(),
    }
}

/// The tokens and the texts of ids.
fn pieces(ids: &[TokenId]) -> Vec<(bool, String)> {
    let vocab = CODEC.vocab();
    let mut all: Vec<(bool, String)> = Vec::new();
    let mut text = Vec::new();
    let spelled = |ids: &mut Vec<TokenId>| {
        let text = vocab.decode(ids, chatcodec::Spelling::Spell).expect("its own ids");
        ids.clear();
        text
    };
    for &id in ids {
        if vocab.is_control(id) {
            // Between two tokens there is a text, which may be empty.
            all.push((false, spelled(&mut text)));
            all.push((true, vocab.spelling(id).to_owned()));
        } else {
            text.push(id);
        }
    }
    all.push((false, spelled(&mut text)));
    all
}

fn read_arguments(messages: &[Message]) -> Option<String> {
    match messages.last()?.calls.first().map(|call| &call.body)? {
        CallBody::Function { arguments, .. } => Some(arguments.clone()),
        CallBody::Code { .. } => None,
    }
}

/// What is written reads as a naive reader has it, and as the canonical form says, in any chunks.
#[test]
fn nested_tags_mean_what_a_naive_reader_says() {
    check("arguments", 300, (arguments(), any::<[Index; 3]>()), |(arguments, cuts)| {
        let Some(ids) = answer(&arguments) else { return outside() };
        let stream = CODEC.stream(None);
        let events = check_stream(&stream, &ids, cuts.map(|cut| cut.index(ids.len() + 1)))?;
        let decoded = collect(&events);
        let read = read_arguments(&decoded).expect("a call");
        let read: Value = serde_json::from_str(&read).expect("they are JSON");
        let all = pieces(&ids);
        let call =
            all.iter().position(|(is_token, text)| *is_token && text == "⟨").expect("a call");
        let mut within = all[call + 1..].to_vec();
        within[0].1 = within[0].1.split_once('>').expect("a name").1.to_owned();
        let (tags, _) = nodes(&within);
        let naive = if tags.is_empty() {
            json!({})
        } else {
            let members = tags.iter().filter_map(|node| match node {
                Node::Tag { key, inner } => Some((key.clone(), meaning(inner))),
                Node::Text(_) => None,
            });
            Value::Object(members.collect::<Map<_, _>>())
        };
        prop_assert_eq!(&read, &naive);
        let given = vec![calling(function("f", &arguments.to_string()))];
        let canonical = read_arguments(&CODEC.canonical(given, None)).expect("a call");
        prop_assert_eq!(serde_json::from_str::<Value>(&canonical).expect("it is JSON"), read);
        Ok(())
    });
}

/// Ids that end anywhere: what is told is the beginning of what the whole says, and JSON where the call was closed.
#[test]
fn half_a_call_is_the_beginning_of_one() {
    check("arguments", 200, (arguments(), any::<Index>()), |(arguments, cut)| {
        let Some(ids) = answer(&arguments) else { return outside() };
        let told = |ids: &[TokenId], reason| {
            let events = read(Start::Completion.stream(&CODEC), &[ids], reason);
            let mut text = String::new();
            let mut is_complete = None;
            for event in events {
                match event.kind {
                    EventKind::ActionDelta { text: part, .. } => text.push_str(&part),
                    EventKind::ActionEnd { complete, .. } => is_complete = Some(complete),
                    _ => {}
                }
            }
            (text, is_complete)
        };
        let (whole, is_complete) = told(&ids, TurnReason::Stop);
        prop_assert_eq!(is_complete, Some(true));
        let half = &ids[..cut.index(ids.len())];
        let (begun, _) = told(half, TurnReason::Length);
        // The end of it may be half a character, or a text that may still be a number or a boolean.
        let is_open = |c: char| c.is_ascii_alphanumeric() || "\".-\u{fffd}".contains(c);
        prop_assert!(whole.starts_with(begun.trim_end_matches(is_open)), "{} of {}", begun, whole);
        let (closed, is_complete) = told(half, TurnReason::Stop);
        if is_complete.is_some() {
            prop_assert!(serde_json::from_str::<Value>(&closed).is_ok(), "{}", closed);
        }
        Ok(())
    });
}
