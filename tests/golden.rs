//! The golden cases of `tests/golden`: what every format writes, reads and tells, by hand, with ids
//! that another library gave. The files say what their keys mean.

mod common;

use chatcodec::{
    Boundary, Codec, EncodeOptions, Event, EventKind, Format, Message, OnArguments, TokenId,
    TurnReason, Vocab,
};
use common::events::{Start, check_ranges, read, read_by_id};
use common::read_data;
use serde_json::Value;

const FILES: &[(&str, &str)] = &[
    ("internlm2", include_str!("golden/internlm2.json")),
    ("chatml", include_str!("golden/chatml.json")),
];

/// The codec of a format on a vocabulary that cases name, if the vocabulary is there.
fn codec(format: &str, vocab: &str) -> Option<Codec> {
    let vocab = match vocab {
        "embedded" => Vocab::embedded(),
        name => {
            Vocab::load(&read_data(&format!("vocab/{name}/tokenizer.model"))?).expect("it loads")
        }
    };
    let format = Format::built_in(format).expect("it is built in");
    Some(Codec::new(&format, &vocab).expect("they fit"))
}

/// Runs `test` on every case of a list, with every vocabulary whose ids it has.
fn for_each_case(list: &str, test: impl Fn(&Codec, &Value, &[TokenId], &str)) {
    let mut count = 0;
    for (format, text) in FILES {
        let file: Value = serde_json::from_str(text).expect("the file is JSON");
        assert_eq!(file["format"], *format);
        for vocab in ["embedded", "internlm2", "yi"] {
            let cases = array(&file[list]);
            let named: Vec<_> = cases.iter().filter(|case| !case["ids"][vocab].is_null()).collect();
            let Some(codec) = (!named.is_empty()).then(|| codec(format, vocab)).flatten() else {
                continue;
            };
            for case in named {
                let what = format!("{format} on {vocab}: {}", case["name"]);
                let ids: Vec<TokenId> = array(&case["ids"][vocab]).iter().map(id).collect();
                test(&codec, case, &ids, &what);
                count += 1;
            }
        }
    }
    assert!(count > 0);
}

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

fn id(value: &Value) -> TokenId {
    let id = value.as_i64().and_then(|id| TokenId::try_from(id).ok());
    id.unwrap_or_else(|| panic!("no id: {value}"))
}

fn messages(codec: &Codec, value: &Value) -> Vec<Message> {
    codec.read(value, OnArguments::Error).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn conversations_are_written_as_the_reference_writes_them() {
    for_each_case("encode", |codec, case, ids, what| {
        let given = messages(codec, &case["messages"]);
        let tools = codec.read_tools(&case["tools"]).expect("tools");
        let options = &case["options"];
        let isolated = options["boundary"] == "isolated";
        let options = EncodeOptions {
            add_generation_prompt: options["add_generation_prompt"].as_bool(),
            continue_final: options["continue_final"] == true,
            boundary: if isolated { Boundary::Isolated } else { Boundary::Reference },
            ..EncodeOptions::default()
        };
        let encoding = codec.encode(given, tools.as_deref(), &options).expect("in the domain");
        let text: String = array(&case["parts"]).iter().flat_map(spellings).collect();
        assert_eq!(encoding.text(), text, "{what}");
        assert_eq!(encoding.ids(), ids, "{what}");
        let expected =
            [&case["decoded"], &case["messages"]].into_iter().find(|value| !value.is_null());
        let expected = messages(codec, expected.expect("messages"));
        assert_eq!(codec.decode(ids), expected, "{what}");
    });
}

/// The text of a part: a control token's spelling, or what stands there.
fn spellings(part: &Value) -> Vec<&str> {
    match part {
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        text => text.as_str().into_iter().collect(),
    }
}

#[test]
fn transcripts_are_read() {
    for_each_case("read", |codec, case, ids, what| {
        assert_eq!(ids_of(codec, &case["parts"], false), ids, "{what}");
        assert_eq!(codec.decode(ids), messages(codec, &case["messages"]), "{what}");
    });
}

/// Every transcript cut after every id: what is left is told, all of it, and no turn stays open.
#[test]
fn transcripts_may_end_after_any_id() {
    for list in ["encode", "read"] {
        for_each_case(list, |codec, _, ids, what| {
            for end in 0..=ids.len() {
                let events = read(codec.read_stream(), &[&ids[..end]], TurnReason::Length);
                check_ranges(&events, end).unwrap_or_else(|e| panic!("{what} cut at {end}: {e}"));
                let of = |is: fn(&EventKind) -> bool| events.iter().filter(|e| is(&e.kind)).count();
                let started = of(|kind| matches!(kind, EventKind::TurnStart { .. }));
                assert_eq!(
                    started,
                    of(|kind| matches!(kind, EventKind::TurnEnd { .. })),
                    "{what} at {end}"
                );
            }
        });
    }
}

/// Parts as ids: text as the vocabulary's tokens, or byte by byte.
fn ids_of(codec: &Codec, parts: &Value, by_bytes: bool) -> Vec<TokenId> {
    let vocab = codec.vocab();
    let mut ids = Vec::new();
    let mut run = String::new();
    for part in array(parts).iter().chain([&Value::Array(Vec::new())]) {
        match part {
            Value::String(text) => run.push_str(text),
            items if by_bytes => {
                ids.extend(run.bytes().map(|byte| 3 + TokenId::from(byte)));
                ids.extend(array(items).iter().map(|item| control_id(codec, item)));
                run.clear();
            }
            items => {
                ids.extend(vocab.encode(&run));
                ids.extend(array(items).iter().map(|item| control_id(codec, item)));
                run.clear();
            }
        }
    }
    ids
}

fn control_id(codec: &Codec, item: &Value) -> TokenId {
    match item.as_str() {
        Some(spelling) => codec.vocab().control()[spelling],
        None => id(item),
    }
}

#[test]
fn streams_tell_these_events_in_any_split() {
    for (format, text) in FILES {
        let file: Value = serde_json::from_str(text).expect("the file is JSON");
        for (vocab, by_bytes) in
            [("embedded", false), ("embedded", true), ("internlm2", false), ("internlm2", true)]
        {
            let codec = if (*format, vocab) == ("chatml", "internlm2") {
                None
            } else {
                codec(format, vocab)
            };
            let Some(codec) = codec else { continue };
            let mut wrong = Vec::new();
            for case in array(&file["stream"]) {
                let what = format!("{format} on {vocab}, by bytes {by_bytes}: {}", case["name"]);
                if let Err(problem) = check_stream(&codec, case, by_bytes) {
                    wrong.push(format!("{what}\n{problem}"));
                }
            }
            assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
        }
    }
}

fn check_stream(codec: &Codec, case: &Value, by_bytes: bool) -> Result<(), String> {
    let ids = ids_of(codec, &case["parts"], by_bytes);
    let prompt = case["after"].is_array().then(|| ids_of(codec, &case["after"], by_bytes));
    let start = match (&case["after"], &prompt) {
        (_, Some(prompt)) => Start::Prompt(prompt),
        (Value::String(after), _) if after == "conversation" => Start::Conversation,
        _ => Start::Completion,
    };
    let reason = case["reason"].as_str().map_or(Some(TurnReason::Stop), TurnReason::parse);
    let reason = reason.expect("a reason");
    let stream = start.stream(codec);
    let whole = read(stream.clone(), &[&ids], reason);
    check_ranges(&whole, ids.len()).map_err(|e| format!("{e}: {whole:#?}"))?;
    let expected = array(&case["events"]);
    let found: Vec<Value> = whole.iter().map(json).collect();
    let same = found.len() == expected.len()
        && found.iter().zip(expected).all(|(found, expected)| is_event(found, expected));
    if !same {
        let lines = |events: &[Value]| -> String {
            events.iter().flat_map(|event| ["  ".into(), event.to_string(), "\n".into()]).collect()
        };
        return Err(format!("expected\n{}found\n{}", lines(expected), lines(&found)));
    }
    if read_by_id(stream.clone(), &ids, reason) != whole {
        return Err("differs id by id".into());
    }
    for cut in 0..=ids.len() {
        if read(stream.clone(), &[&ids[..cut], &ids[cut..]], reason) != whole {
            return Err(format!("differs when cut at {cut}"));
        }
    }
    Ok(())
}

/// Whether an event has all that is expected; what is not named is null, `tokens` may be left out.
fn is_event(found: &Value, expected: &Value) -> bool {
    let (found, expected) =
        (found.as_object().expect("a map"), expected.as_object().expect("a map"));
    let known = expected.keys().all(|key| found.contains_key(key));
    known
        && found.iter().all(|(key, value)| match expected.get(key) {
            Some(expected) => value == expected,
            None => key == "tokens" || value.is_null(),
        })
}

/// An event as the golden files write it.
fn json(event: &Event) -> Value {
    let tokens = [event.tokens.start, event.tokens.end];
    let mut value = match &event.kind {
        EventKind::TurnStart { role, name } => {
            serde_json::json!({ "event": "TurnStart", "role": role.name(), "name": name })
        }
        EventKind::Text(text) => serde_json::json!({ "event": "Text", "text": text }),
        EventKind::Reasoning(text) => serde_json::json!({ "event": "Reasoning", "text": text }),
        EventKind::ActionStart { index, kind, name, id } => serde_json::json!({
            "event": "ActionStart", "index": index, "kind": kind.name(), "name": name, "id": id
        }),
        EventKind::ActionDelta { index, text } => {
            serde_json::json!({ "event": "ActionDelta", "index": index, "text": text })
        }
        EventKind::ActionEnd { index, complete, name, id } => serde_json::json!({
            "event": "ActionEnd", "index": index, "complete": complete, "name": name, "id": id
        }),
        EventKind::TurnEnd { reason, .. } => {
            serde_json::json!({ "event": "TurnEnd", "reason": reason.name() })
        }
        EventKind::Notice { kind, text } => {
            serde_json::json!({ "event": "Notice", "kind": kind.name(), "text": text })
        }
    };
    value["tokens"] = serde_json::json!(tokens);
    value
}
