//! The golden cases of `tests/golden`: what every format writes, reads and tells, by hand, with ids
//! that another library gave. The files say what their keys mean.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use crate::common::events::{Start, check_ranges, read, read_by_id};
use crate::common::read_data;
use chatcodec::{
    Boundary, Codec, EncodeOptions, Encoding, Event, EventKind, Format, InReasoning, LabelOptions,
    Message, OnArguments, TokenId, TurnReason, Vocab, VocabFiles, VocabOptions,
};
use serde_json::Value;

/// The golden files: every format's.
fn files() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let paths =
        std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("it").path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let file: Value = serde_json::from_slice(&std::fs::read(path).expect("it reads"))
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        assert_eq!(string(&file["format"]).replace(':', "-"), stem);
        file
    };
    paths.iter().map(read).collect()
}

/// The files of each vocabulary that cases name.
const VOCABS: &[(&str, &[&str])] = &[
    ("embedded", &[]),
    ("appended", &[]),
    ("chatglm3", &["chatglm3/tokenizer.model"]),
    ("deepseek-llm", &["deepseek-llm/deepseek-llm.gguf"]),
    ("deepseek-v3", &["deepseek-v3/deepseek.tiktoken", "deepseek-v3/specials.json"]),
    ("deepseek-v3.2", &["deepseek-v3.2/tokenizer.json"]),
    ("glm4", &["glm4/tokenizer.model", "glm4/specials.json"]),
    ("gpt-oss", &["gpt-oss/o200k_base.tiktoken", "gpt-oss/specials.json"]),
    ("internlm2", &["internlm2/tokenizer.model"]),
    ("kimi-k2", &["kimi-k2/kimi_k2.tiktoken"]),
    ("llama2", &["llama2/tokenizer.model"]),
    ("llama3", &["llama3/tokenizer.model", "llama3/specials.json"]),
    ("mistral", &["mixtral-8x22b/tokenizer.model.v7"]),
    ("minimax-m1", &["minimax-m1/tokenizer.json"]),
    ("mixtral-8x22b", &["mixtral-8x22b/tokenizer.model.v3"]),
    ("mixtral-8x7b", &["mixtral-8x7b/tokenizer.model.v1"]),
    ("phi3", &["phi3/phi-3/tokenizer.json"]),
    ("phi3-mini", &["phi3/phi-3-mini/tokenizer.json"]),
    ("qwen2", &["qwen2/tokenizer.json"]),
    ("qwen2.5", &["qwen2.5/tokenizer_config.json", "qwen2/vocab.json", "qwen2/merges.txt"]),
    ("qwen3", &["qwen3/tokenizer.json"]),
    ("qwen3.5", &["qwen3.5/tokenizer.json"]),
    ("yi", &["yi/tokenizer.model"]),
];

/// A vocabulary that cases name, if it is there; read once.
fn vocab(name: &str) -> Option<Vocab> {
    static LOADED: LazyLock<Mutex<HashMap<String, Option<Vocab>>>> = LazyLock::new(Mutex::default);
    let mut loaded = LOADED.lock().expect("no test panics while it loads");
    loaded.entry(name.into()).or_insert_with(|| load(name)).clone()
}

fn load(name: &str) -> Option<Vocab> {
    if name == "embedded" {
        return Some(Vocab::embedded());
    }
    let known = VOCABS.iter().find(|(known, _)| *known == name);
    let (_, paths) = known.unwrap_or_else(|| panic!("no vocabulary `{name}`"));
    let mut files = Vec::new();
    for path in *paths {
        let name = path.rsplit('/').next().unwrap_or(path);
        files.push((name.to_owned(), read_data(&format!("vocab/{path}"))?.into()));
    }
    let special_tokens = crate::common::table::unnamed(name);
    let options = VocabOptions { special_tokens, ..VocabOptions::default() };
    let files = VocabFiles { files, options };
    Some(Vocab::load_files(files).unwrap_or_else(|e| panic!("{name}: {e}")))
}

/// The codec of a file's format on a vocabulary, if the vocabulary is there.
fn codec(file: &Value, name: &str) -> Option<Codec> {
    let format = Format::built_in(string(&file["format"])).expect("it is built in");
    let vocab = if name == "appended" { appended(file) } else { vocab(name)? };
    Some(Codec::new(&format, &vocab).expect("they fit"))
}

/// The embedded vocabulary with tokens that the file names after its last.
fn appended(file: &Value) -> Vocab {
    let spellings =
        array(&file["special_tokens"]).iter().map(|spelling| string(spelling).to_owned());
    let first = i32::try_from(Vocab::embedded().size()).expect("few ids");
    let special_tokens = spellings.zip(first..).collect();
    let options = VocabOptions { special_tokens, ..VocabOptions::default() };
    let embedded = include_bytes!("../../rust/vocab/src/vocab/embedded.model");
    Vocab::load_files(VocabFiles { options, ..VocabFiles::one(embedded) }).expect("a vocabulary")
}

/// How many conversations and how many streams of each format are golden, at least.
const LEAST: usize = 3;

#[test]
fn every_format_has_golden_cases() {
    let files = files();
    let found: Vec<&str> = files.iter().map(|file| string(&file["format"])).collect();
    for name in Format::names() {
        assert!(found.contains(&name), "{name}");
    }
    for file in &files {
        let count = |list: &str| array(&file[list]).len();
        let (written, told) = (count("encode"), count("stream"));
        assert!(written >= LEAST && told >= LEAST, "{}: {written}, {told}", file["format"]);
    }
}

/// Runs `test` on every case of a list, with every vocabulary whose ids it has.
fn for_each_case(list: &str, test: impl Fn(&Codec, &Value, &[TokenId], &str)) {
    let mut count = 0;
    for file in files() {
        let format = string(&file["format"]);
        for (vocab, _) in VOCABS {
            let cases = array(&file[list]);
            let named: Vec<_> = cases.iter().filter(|case| !case["ids"][vocab].is_null()).collect();
            let Some(codec) = (!named.is_empty()).then(|| codec(&file, vocab)).flatten() else {
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

fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
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
            stop_final: options["stop_final"] == true,
            thinking: options["thinking"].as_bool(),
            effort: options["effort"].as_str().map(str::to_owned),
            date: options["date"].as_str().map(str::to_owned),
            ..EncodeOptions::default()
        };
        let encoding = codec.encode(given, tools.as_ref(), &options).expect("in the domain");
        let text: String = array(&case["parts"]).iter().flat_map(spellings).collect();
        // A vocabulary's dummy prefix or normaliser may be seen in the text.
        assert_eq!(encoding.text(), case["text"].as_str().unwrap_or(&text), "{what}");
        assert_eq!(encoding.ids(), ids, "{what}");
        if let Some(trained) = case["trained"].as_str() {
            assert_eq!(trained_text(&encoding), trained, "{what}");
        }
        let expected =
            [&case["decoded"], &case["messages"]].into_iter().find(|value| !value.is_null());
        let expected = messages(codec, expected.expect("messages"));
        assert_eq!(codec.decode(ids), expected, "{what}");
    });
}

/// What of the text is trained on.
fn trained_text(encoding: &Encoding) -> String {
    let labels = encoding.labels(&LabelOptions::default());
    let places = labels.into_iter().zip(encoding.offsets());
    places.filter(|(label, _)| *label >= 0).map(|(_, (s, e))| &encoding.text()[s..e]).collect()
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
    for file in files() {
        let format = string(&file["format"]);
        for vocab in array(&file["vocabs"]).iter().map(string) {
            let Some(codec) = codec(&file, vocab) else { continue };
            // Where 3 + b is the byte b, and no space stands before text.
            let has_bytes = ["embedded", "appended", "internlm2"].contains(&vocab);
            let mut wrong = Vec::new();
            for by_bytes in [false, true] {
                for case in array(&file["stream"]) {
                    let what =
                        format!("{format} on {vocab}, by bytes {by_bytes}: {}", case["name"]);
                    if by_bytes && !has_bytes {
                        continue;
                    }
                    if let Err(problem) = check_stream(&codec, case, by_bytes) {
                        wrong.push(format!("{what}\n{problem}"));
                    }
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
    let stream = match case["calls_in_reasoning"].as_str() {
        Some("call") => start.stream(codec).calling_in_reasoning(InReasoning::Call),
        Some(_) => start.stream(codec).calling_in_reasoning(InReasoning::Text),
        None => start.stream(codec),
    };
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
    let mut kept = stream.clone().keeping();
    let mut told = Vec::new();
    kept.push_all(&ids, &mut told);
    kept.finish(TurnReason::Stop, &mut told);
    let parsed = codec.parse_ids(stream.clone(), &ids).message;
    if kept.message() != parsed {
        return Err(format!("the stream kept {:?}, parsed is {parsed:?}", kept.message()));
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
        EventKind::Media { kind, count, rows } => {
            let kind = kind.name();
            serde_json::json!({ "event": "Media", "kind": kind, "count": count, "rows": rows })
        }
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
