//! Arguments without quotes, read by what tools say of them: they come back as they were, in any split.

use std::collections::BTreeMap;

use crate::common::dialogue::hostile;
use crate::common::events::{check_stream, read_text};
use crate::common::outside;
use crate::common::table::{Entry, calling, check_each, entries, function};
use crate::common::text::word;
use chatcodec::{
    CallBody, EncodeOptions, EventKind, MarkerPolicy, Message, Role, ToolTypes, TurnReason, collect,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// Formats that write arguments without quotes.
fn tagged() -> impl Iterator<Item = &'static Entry> {
    let is_bare = |loss: &&str| loss.contains("strings that are JSON of another kind");
    entries().iter().filter(move |entry| entry.codec.format().losses().iter().any(is_bare))
}

/// Values that look like each other.
fn value(entry: &'static Entry) -> impl Strategy<Value = Value> {
    let looks = vec![
        "1",
        "-2.5",
        "1.0",
        "1e3",
        "true",
        "True",
        "null",
        "None",
        "[1]",
        "{}",
        "{\"a\": 1}",
        "\"x\"",
        "007",
        "[1, ",
        "",
        " 1",
        "{'a': 1}",
        "NaN",
    ];
    let text = prop_oneof![3 => select(looks).prop_map(str::to_owned), 1 => hostile(entry)];
    prop_oneof![
        4 => text.prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
        1 => select(vec![0.5, -2.25, 1e30]).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => hostile(entry).prop_map(|text| json!([text, 1])),
        1 => hostile(entry).prop_map(|text| json!({"a": text})),
    ]
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A schema that allows the value's kind alone, in one of the ways to say so.
fn schema(value: &Value, way: usize) -> Value {
    let kind = name_of(value);
    match way {
        0 => json!({"type": kind}),
        1 => json!({"type": [kind]}),
        2 => json!({"anyOf": [{"type": kind}]}),
        _ => json!({"$ref": format!("#/$defs/{kind}")}),
    }
}

fn tools(properties: &Map<String, Value>) -> ToolTypes {
    let kinds = ["null", "boolean", "number", "integer", "string", "array", "object"];
    let known: Map<String, Value> =
        kinds.iter().map(|kind| ((*kind).to_owned(), json!({"type": kind}))).collect();
    let parameters = json!({"type": "object", "properties": properties, "$defs": known});
    let function = json!({"name": "f", "parameters": parameters});
    ToolTypes::read(&json!([{"type": "function", "function": function}])).expect("they are tools")
}

#[test]
fn declared_kinds_come_back() {
    assert!(tagged().count() >= 9 || std::env::var_os("CHATCODEC_FORMATS").is_some());
    let inputs = |entry| (vec((word(), value(entry), 0..4usize), 0..4), any::<[Index; 3]>());
    check_each(tagged(), 200, inputs, |entry, (members, cuts)| {
        let members: BTreeMap<String, (Value, usize)> =
            members.into_iter().map(|(key, value, way)| (key, (value, way))).collect();
        let declared = members.iter().map(|(key, (value, way))| (key.clone(), schema(value, *way)));
        let types = tools(&declared.collect());
        let given: Map<String, Value> =
            members.into_iter().map(|(key, (value, _))| (key, value)).collect();
        let given = Value::Object(given);
        let messages = [Message::new(Role::User, "x"), calling(function("f", &given.to_string()))];
        // A value that spells the tag after it is refused.
        let Ok(whole) = entry.encode(&messages, &EncodeOptions::default()) else {
            return outside();
        };
        let decoded = entry.codec.decode_ids(entry.codec.read_stream().typed(&types), whole.ids());
        if is_kept(entry, &given.to_string()) {
            prop_assert_eq!(arguments(&decoded), Some(given));
        }
        let cuts = cuts.map(|cut| cut.index(whole.ids().len() + 1));
        let stream = entry.codec.read_stream().typed(&types);
        let events = check_stream(&stream, whole.ids(), cuts)?;
        prop_assert_eq!(arguments(&collect(&events)), arguments(&decoded));
        Ok(())
    });
}

/// The arguments of the last message's call, if they are JSON.
fn arguments(messages: &[Message]) -> Option<Value> {
    match messages.last()?.calls.first().map(|call| &call.body)? {
        CallBody::Function { arguments, .. } => serde_json::from_str(arguments).ok(),
        CallBody::Code { .. } => None,
    }
}

/// Whether the vocabulary gives text back as it is.
fn is_kept(entry: &Entry, text: &str) -> bool {
    let canonical = entry.codec.canonical(vec![Message::new(Role::User, text)], None);
    canonical.last().is_some_and(|message| message.content.contains(text))
}

/// What a value is by the rule: JSON of a kind that is allowed, a word of Python that means it, or text.
fn meant(entry: &Entry, text: &str, kinds: Option<&[&str]>) -> Value {
    let allows = |kind: &str| kinds.is_none_or(|kinds| kinds.is_empty() || kinds.contains(&kind));
    let is_known = kinds.is_some_and(|kinds| !kinds.is_empty());
    let trimmed = text.trim_matches([' ', '\t', '\n', '\r']);
    let words = [
        ("True", json!(true)),
        ("TRUE", json!(true)),
        ("False", json!(false)),
        ("FALSE", json!(false)),
        ("None", Value::Null),
        ("Null", Value::Null),
        ("NULL", Value::Null),
        ("nil", Value::Null),
    ];
    let word = words.into_iter().find(|(word, _)| *word == trimmed).map(|(_, value)| value);
    // The words that a format writes are read also where a string is allowed.
    let is_own = entry.word(trimmed).is_some();
    let is_read = is_own || is_known && !allows("string");
    if let Some(value) = word.filter(|value| is_read && allows(name_of(value))) {
        return value;
    }
    let fits = |value: &Value| match value {
        Value::String(_) => false,
        Value::Number(number) => {
            let is_whole = number.as_f64().is_some_and(|number| number.fract() == 0.0);
            allows("number") || (allows("integer") && is_whole)
        }
        other => allows(name_of(other)),
    };
    let value = serde_json::from_str(trimmed).ok().filter(fits);
    let is_number = |text: &&str| {
        let is_sign = |c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | 'e' | 'E');
        is_known && !allows("string") && text.chars().all(is_sign)
    };
    let number = Some(trimmed).filter(is_number).and_then(|text| text.parse::<f64>().ok());
    // `1e400` is no number of JSON: `json!` would make it null.
    let number = number.filter(|number| number.is_finite());
    let number = number.map(|number| {
        // As JSON has it: whole numbers without a point.
        if trimmed.contains(['.', 'e', 'E']) || number.abs() > 1e9 {
            json!(number)
        } else {
            json!(number as i64)
        }
    });
    value.or_else(|| number.filter(fits)).unwrap_or_else(|| text.into())
}

/// Any text as a value, under any schema: what the rule says, in any chunks.
#[test]
fn any_value_under_any_schema() {
    let kinds = ["null", "boolean", "number", "integer", "string", "array", "object"];
    let kinds = vec(select(kinds.to_vec()), 0..3);
    let text = |entry| {
        let looks = vec![
            "[1, 2] 3",
            "tru",
            "{\"a\": ",
            "1 2",
            "Nonesuch",
            " 7\n",
            "\n",
            "{}",
            "None",
            " True ",
            "2.0",
            "2.5",
            "1e3",
            "-0",
            "007",
            "+5",
            ".5",
            "-1.",
            "1e",
            "FALSE",
            " NULL\n",
            "null",
            "\"x\"",
            "[[]]",
            "False\n\nx",
        ];
        prop_oneof![2 => select(looks).prop_map(str::to_owned), 1 => hostile(entry)]
    };
    let inputs = move |entry| (text(entry), option::of(kinds.clone()), any::<[Index; 3]>());
    check_each(tagged(), 250, inputs, |entry, (value, kinds, cuts)| {
        let schema = kinds.as_ref().map(|kinds| ("a".to_owned(), json!({"type": kinds})));
        let types = tools(&schema.into_iter().collect());
        let call = function("f", &json!({ "a": value }).to_string());
        let messages = [Message::new(Role::User, "x"), calling(call)];
        let Ok(whole) = entry.encode(&messages, &EncodeOptions::default()) else {
            return outside();
        };
        let cuts = cuts.map(|cut| cut.index(whole.ids().len() + 1));
        let stream = entry.codec.read_stream().typed(&types);
        let told = collect(&check_stream(&stream, whole.ids(), cuts)?);
        if is_kept(entry, &value) {
            let allows = |kinds: &Vec<_>| kinds.is_empty() || kinds.contains(&"string");
            let is_string = kinds.as_ref().is_none_or(allows);
            if !is_string && value.contains('\\') {
                // A reader may resolve escapes where no string is allowed: `\n1e400` as a number.
                return Ok(());
            }
            let expected = if is_string && entry.wrap(&value).is_some() {
                json!({"a": value})
            } else {
                json!({"a": meant(entry, &value, kinds.as_deref())})
            };
            prop_assert_eq!(arguments(&told), Some(expected));
        }
        Ok(())
    });
}

/// Text that is JSON for about as much as a reader holds, and then anything.
fn long_value() -> impl Strategy<Value = String> {
    let begin = select(vec!["[", "{", "{\"k\": [[", "[\"", "[{\"k\": \"", "5", "", "x"]);
    let long = select(vec!["a", " ", "1", "1, ", "{}, ", "[", "\\n", "é"]);
    let parts =
        "] } \" , : 1 - . e true nul \\ \\u00 [ { \n x é \"k\":".split(' ').collect::<Vec<_>>();
    let end = vec(select(parts).prop_map(str::to_owned), 0..6);
    (begin, long, 4080..4100usize, end).prop_map(|(begin, long, length, end)| {
        format!("{begin}{}{}", long.repeat(length / long.len()), end.concat())
    })
}

/// Whatever a model writes as a value: the arguments of a call that is closed are JSON, and a value that is
/// written comes back.
#[test]
fn the_arguments_of_a_closed_call_are_json() {
    const PLACE: &str = "a value";
    let inputs = |_: &'static Entry| (long_value(), 1..6usize);
    check_each(tagged(), 60, inputs, |entry, (value, chars)| {
        let user = Message::new(Role::User, "x");
        let call = |value: &str| calling(function("f", &json!({"a": value}).to_string()));
        let options =
            EncodeOptions { add_generation_prompt: Some(true), ..EncodeOptions::default() };
        let encoded = |messages: &[Message]| entry.encode(messages, &EncodeOptions::default());
        let prompt =
            entry.encode(std::slice::from_ref(&user), &options).expect("it has a place for it");
        let whole = encoded(&[user.clone(), call(PLACE)]);
        let whole = whole.expect("it has a place for calls");
        // A prompt may open reasoning, with which no message is written here.
        let prompt = if whole.text().starts_with(prompt.text()) {
            prompt
        } else {
            let options = EncodeOptions { thinking: Some(false), ..options };
            // A format may have no prompt without reasoning.
            let asked = entry.encode(std::slice::from_ref(&user), &options);
            let Ok(prompt) = asked else { return Ok(()) };
            prompt
        };
        let Some(text) = whole.text().strip_prefix(prompt.text()) else { return outside() };
        // As the format writes it: what it would write with texts around it may else be the beginning of JSON.
        let (open, close) = entry.wrap(&value).unwrap_or_default();
        let written = format!("{open}{value}{close}");
        let text: Vec<char> = text.replace(PLACE, &written).chars().collect();
        let pushes: Vec<String> =
            text.chunks(chars * chars * chars).map(String::from_iter).collect();
        let stream = entry.codec.stream(Some(prompt.ids())).reading(MarkerPolicy::Text);
        let events = read_text(stream, pushes.iter().map(String::as_str), TurnReason::Stop);
        let deltas = events.iter().filter_map(|event| match &event.kind {
            EventKind::ActionDelta { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let told: String = deltas.collect();
        prop_assert!(serde_json::from_str::<Box<RawValue>>(&told).is_ok(), "{told}");
        let is_whole = events
            .iter()
            .any(|event| matches!(event.kind, EventKind::ActionEnd { complete: true, .. }));
        match encoded(&[user.clone(), call(&value)]) {
            // A value that spells the tag after it is none of these.
            Err(refused) => prop_assert!(!is_whole, "{refused}: {told}"),
            Ok(whole) => {
                prop_assert!(is_whole, "{told}");
                let expected = entry.codec.canonical(vec![user, call(&value)], None);
                prop_assert_eq!(entry.codec.decode(whole.ids()), expected);
            }
        }
        Ok(())
    });
}
