//! Texts within JSON are normalised, never their JSON: P2 of every format on vocabularies that normalise
//! text, of arguments, keys, results and tools full of what composes with what stands beside it.
//!
//! `serde_json` reads what came back; the vocabulary's own normalisation of single texts is tested elsewhere.

use std::fmt::Write as _;

use crate::common::dialogue::Dialogue;
use crate::common::outside;
use crate::common::table::{Entry, calling, check_each, function, normalising};
use chatcodec::{CallBody, EncodeOptions, Format, Message, Role, Spelling};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::{Map, Value};

/// Letters that end escapes, what composes with them, and what normalisation makes signs of JSON of.
const PARTS: &[&str] = &[
    "a",
    "b",
    "e",
    "f",
    "n",
    "r",
    "t",
    "u",
    "0",
    "1",
    "<",
    ">",
    "=",
    "\"",
    "\\",
    "/",
    "\n",
    "\t",
    "\r",
    "\u{8}",
    "\u{c}",
    "\u{0}",
    "\u{1a}",
    "\u{1f}",
    "\u{7f}",
    " ",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\\n",
    "\\u00e9",
    "\u{301}",
    "\u{307}",
    "\u{30a}",
    "\u{323}",
    "\u{327}",
    "\u{338}",
    "\u{345}",
    "\u{3099}",
    "か",
    "é",
    "Å",
    "\u{212a}",
    "\u{1100}",
    "\u{1161}",
    "\u{11a8}",
    "가",
    "\u{ff02}",
    "\u{ff3c}",
    "\u{ff11}",
    "\u{2460}",
    "ﬁ",
    "\u{a8}",
    "\u{1d157}",
    "\u{1d165}",
    "\u{1d16e}",
    "😀",
    "\u{a0}",
    "\u{37e}",
    "\u{1fef}",
    "É",
    "True",
    "null",
    "[1]",
];

fn text() -> impl Strategy<Value = String> {
    let mark = prop::sample::select(vec!["\u{301}", "\u{307}", "\u{30a}", "\u{323}", "\u{338}"]);
    let piece = prop_oneof![4 => prop::sample::select(PARTS), 2 => mark, 1 => Just("\n")];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => text().prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..3).prop_map(object),
        ]
    })
}

/// An object whose keys stay apart when they are normalised.
fn object(members: Vec<(String, Value)>) -> Value {
    let members = members.into_iter().enumerate();
    Value::Object(members.map(|(nth, (key, value))| (format!("{key}{nth}"), value)).collect())
}

/// Arguments, and how they are written: on one line, on several, with some characters as escapes.
fn arguments(names: bool) -> impl Strategy<Value = Arguments> {
    let key = if names { "[a-z]{1,3}".boxed() } else { text().boxed() };
    let members = prop::collection::vec((key, value()), 0..4).prop_map(object);
    (members, 0usize..6).prop_map(|(value, style)| {
        let text = match style {
            0 => format!("{value:#}"),
            1 => escaped(&value.to_string(), 1),
            2 => escaped(&value.to_string(), 2),
            _ => value.to_string(),
        };
        Arguments { value, text, is_escaped: matches!(style, 1 | 2) }
    })
}

#[derive(Debug, Clone)]
struct Arguments {
    value: Value,
    text: String,
    /// Whether characters are escapes that need not be.
    is_escaped: bool,
}

/// The same JSON with one in so many characters as an escape.
fn escaped(json: &str, every: usize) -> String {
    let mut out = String::new();
    for (nth, c) in json.chars().enumerate() {
        if nth % every == 0 && !c.is_ascii() {
            c.encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| write!(out, "\\u{unit:04x}").expect("a string takes all"));
        } else {
            out.push(c);
        }
    }
    out
}

/// A value with all its texts normalised by the vocabulary.
fn normal(entry: &Entry, value: &Value) -> Value {
    let text = |text: &str| entry.codec.vocab().normalise(text).into_owned();
    match value {
        Value::String(inner) => text(inner).into(),
        Value::Array(items) => items.iter().map(|item| normal(entry, item)).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| (text(key), normal(entry, value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// What tagged pairs give back without a schema: a text that is JSON of another kind is that, unless it holds a text
/// that calls for a wrap.
fn untagged(entry: &Entry, value: Value) -> Value {
    let Value::Object(members) = value else { return value };
    let bare = |value: Value| match &value {
        Value::String(text) if entry.wrap(text).is_some() => value,
        Value::String(text) if entry.word(text).is_some() => entry.word(text).unwrap_or_default(),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(Value::String(_)) | Err(_) => value,
            Ok(other) => other,
        },
        _ => value,
    };
    Value::Object(members.into_iter().map(|(key, value)| (key, bare(value))).collect())
}

fn has_loss(entry: &Entry, begins: &str) -> bool {
    entry.codec.format().losses().iter().any(|loss| loss.starts_with(begins))
}

/// What comes back of a conversation, if it is written: its canonical form.
fn round_trip(entry: &Entry, dialogue: &Dialogue) -> Result<Option<Vec<Message>>, TestCaseError> {
    let encoding = match dialogue.encode(entry, &EncodeOptions::default()) {
        Ok(encoding) => encoding,
        Err(error) => {
            // What is refused is refused for what it is.
            let why = error.to_string();
            prop_assert!(
                !why.contains("no JSON object") && !why.contains("one JSON value"),
                "{why}"
            );
            return Ok(None);
        }
    };
    let canonical = dialogue.canonical(entry);
    if !entry.is_certain() && !encoding.collisions().is_empty() {
        return Ok(None);
    }
    // A normalizer may make white space of a sign at an end, after a filter has trimmed it.
    let vocab = entry.codec.vocab();
    let ends_in_white = |message: &Message| {
        let ids = vocab.encode(message.content.trim());
        vocab.decode(&ids, Spelling::Spell).is_ok_and(|text| text.trim() != text)
    };
    if dialogue.messages.iter().any(ends_in_white) {
        return Ok(None);
    }
    let decoded = entry.codec.decode(encoding.ids());
    prop_assert_eq!(&decoded, &canonical);
    Ok(Some(decoded))
}

#[test]
fn arguments_come_back_with_their_texts_normalised() {
    // What nested tags keep has laws of its own.
    let is_kept = |entry: &&Entry| !has_loss(entry, "arguments: their spelling, members");
    let entries = || normalising().iter().filter(|entry| entry.able.functions).filter(is_kept);
    assert!(entries().count() > 60 || std::env::var_os("CHATCODEC_FORMATS").is_some());
    let inputs =
        |entry: &Entry| arguments(has_loss(entry, "arguments: their spelling, they come back"));
    check_each(entries(), 250, inputs, |entry, given| {
        let Arguments { value, text: arguments, is_escaped } = given;
        let messages = vec![Message::new(Role::User, "x"), calling(function("f", &arguments))];
        let dialogue = Dialogue { messages, tools: None };
        let Some(decoded) = round_trip(entry, &dialogue)? else { return outside() };
        let call = decoded.iter().flat_map(|message| &message.calls).next();
        let Some(CallBody::Function { arguments: back, .. }) = call.map(|call| &call.body) else {
            return Err(TestCaseError::fail(format!("no call in {decoded:?}")));
        };
        let read: Value = serde_json::from_str(back)
            .map_err(|error| TestCaseError::fail(format!("{error}: {back}")))?;
        let mut expected = normal(entry, &value);
        let is_tagged = has_loss(entry, "arguments: their spelling, and strings");
        if is_tagged {
            expected = untagged(entry, expected);
        }
        // An escape that was given stays as it was, and says what it says.
        prop_assert_eq!(normal(entry, &read), expected.clone());
        if !is_escaped {
            prop_assert_eq!(&read, &expected);
        }
        let text = entry.codec.vocab().normalise(&arguments);
        let is_kept = has_loss(entry, "arguments: without the white space around them");
        if text == arguments.as_str() && is_kept {
            prop_assert_eq!(back, &arguments);
        }
        // A text that is JSON of another kind is spaced anew then; the format's own words are lower case.
        let is_same = entry.vocab != "Lowercase" && !entry.spells_default();
        if !is_same || is_tagged && read != normal(entry, &value) {
            return Ok(());
        }
        let again = Dialogue { messages: decoded, tools: None };
        let options = EncodeOptions::default();
        let ids = |dialogue: &Dialogue| dialogue.encode(entry, &options).map(|e| e.ids().to_vec());
        prop_assert_eq!(ids(&again).ok(), ids(&dialogue).ok());
        Ok(())
    });
}

#[test]
fn results_and_texts_come_back() {
    let entries = || normalising().iter().filter(|entry| entry.able.results);
    let json = || prop_oneof![value().prop_map(|value| value.to_string()), text()];
    let inputs = |_: &Entry| (json(), json(), text());
    check_each(entries(), 150, inputs, |entry, (result, other, text)| {
        let messages = vec![
            Message::new(Role::User, text.clone()),
            calling(function("f", "{}")),
            Message::new(Role::Tool, result),
            Message::new(Role::Tool, other),
            Message::new(Role::Assistant, text),
        ];
        round_trip(entry, &Dialogue { messages, tools: None }).map(|_| ())
    });
}

#[test]
fn tools_come_back_as_json() {
    let entries = || normalising().iter().filter(|entry| entry.able.tools);
    let inputs = |_: &Entry| (prop::collection::vec((text(), text(), value()), 1..3), text());
    check_each(entries(), 100, inputs, |entry, (tools, text)| {
        let of_tool = |(name, description, extra): (String, String, Value)| {
            serde_json::json!({"type": "function", "function": {
                "name": format!("f{name}"), "description": description, "extra": extra,
            }})
        };
        let tools: Vec<Value> = tools.into_iter().map(of_tool).collect();
        let written = entry.codec.read_tools(&Value::from(tools.clone()));
        let written = written.expect("they are tools").expect("there are some");
        // Whatever is written between them, each of them is JSON in it.
        let format = Format::built_in(entry.format).expect("it is");
        let others =
            ["typescript", "\"xml\"", "signatures", "interfaces", "declarations", ".description"];
        let is_json = !others.iter().any(|style| format.text().contains(style));
        let found = |text: &str| -> Vec<Value> {
            let mut rest = text;
            let mut found = Vec::new();
            while let Some(at) = rest.find('{') {
                let mut values = serde_json::Deserializer::from_str(&rest[at..]).into_iter();
                let Some(Ok(value)) = values.next() else { break };
                found.push(value);
                rest = &rest[at + values.byte_offset()..];
            }
            found
        };
        if is_json {
            let normal = |tool: &Value| normal(entry, tool);
            let expected: Vec<Value> = tools.iter().map(normal).collect();
            let functions: Vec<Value> =
                tools.iter().map(|tool| normal(&tool["function"])).collect();
            let found = found(written.text());
            prop_assert!(found == expected || found == functions, "{}", written.text());
        }
        let messages = vec![Message::new(Role::User, text)];
        let dialogue = Dialogue { messages, tools: Some(written.text().to_owned()) };
        if let Some(decoded) = round_trip(entry, &dialogue)? {
            let written = entry.codec.vocab().normalise(written.text().trim());
            // As declarations, tools are not read back as JSON.
            let file = Format::built_in(entry.format).expect("it is");
            let is_declared = file.text().contains("\"declarations\"");
            let is_told = |message: &Message| message.content.contains(&*written);
            prop_assert!(is_declared || decoded.iter().any(is_told));
        }
        Ok(())
    });
}
