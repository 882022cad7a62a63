//! P4 on the way back: nothing of a stream is lost. Every tracer among its ids is told by an event, with any policy of
//! markers, in every format.

use crate::common::dialogue::{dialogue, options};
use crate::common::events::{Start, check_ranges, read, read_by_id, read_text};
use crate::common::outside;
use crate::common::table::{Entry, calling, check_each, entries, function};
use crate::common::tracers::{Places, Symbol, check, places, symbols};
use crate::formats_streams::{ids, shuffled};
use chatcodec::{
    EncodeOptions, Event, EventKind, MarkerPolicy, Message, Role, TokenId, TurnReason,
};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;

const POLICIES: [MarkerPolicy; 2] = [MarkerPolicy::Ids, MarkerPolicy::IdsOrText];

fn check_bytes(
    entry: &Entry,
    places: Places,
    start: Start<'_>,
    ids: &[TokenId],
    policy: MarkerPolicy,
) -> Result<(), TestCaseError> {
    let Some(places) = places.apart_from(entry.codec.vocab(), ids) else { return outside() };
    let ids = &places.put(entry.codec.vocab(), ids);
    let stream = start.stream(&entry.codec).reading(policy);
    let events = read_by_id(stream, ids, TurnReason::Stop);
    check_ranges(&events, ids.len())?;
    let prompt = match start {
        Start::Completion => entry.codec.generation_prompt(),
        _ => &[],
    };
    // Where turns are told apart by text, a completion goes on with that of its prompt.
    let begins = entry.is_ids() || !matches!(start, Start::Completion);
    let symbols =
        symbols(entry.codec.vocab(), &[prompt, ids].concat(), begins || !prompt.is_empty());
    let lost = check(entry, &places, &symbols, &events);
    lost.map_err(|lost| TestCaseError::fail(format!("{lost}\nin {events:#?}")))
}

fn made() -> impl Iterator<Item = &'static Entry> {
    entries().iter().filter(|entry| entry.made)
}

#[test]
fn every_tracer_in_a_conversation_is_told() {
    let inputs = |entry| (dialogue(entry), options(), places(), select(&POLICIES));
    check_each(made(), 16, inputs, |entry, (dialogue, options, places, policy)| {
        let Ok(encoding) = dialogue.encode(entry, &options) else { return outside() };
        check_bytes(entry, places, Start::Conversation, encoding.ids(), policy)
    });
}

/// Calls after a text, with keys that need no quotes and keys that do.
#[test]
fn every_tracer_in_a_call_is_told() {
    const ARGUMENTS: &[&str] = &[
        "{}",
        r#"{"<|": 0, "b": [{"c d": "x"}, null], "\u000e": {"e": true}}"#,
        r#"{"a": "x", "b": "<|im_start|>", "c": "1"}"#,
    ];
    const TEXTS: &[&str] = &["", "x\n", r#"{"name": "f", "parameters": {"#];
    // A vocabulary of bytes has an id for each character of what is rare.
    let able = made().filter(|entry| entry.able.functions && entry.vocab == "bytes");
    let encode = |entry: &Entry, text: &str, arguments: &str| {
        let call = Message { content: text.to_owned(), ..calling(function("f", arguments)) };
        entry.encode(&[Message::new(Role::User, "x"), call], &EncodeOptions::default()).ok()
    };
    let inputs = |entry: &'static Entry| {
        let pairs = TEXTS.iter().flat_map(|text| ARGUMENTS.iter().map(move |json| (*text, *json)));
        let written = pairs.filter_map(|(text, arguments)| encode(entry, text, arguments));
        (select(written.collect::<Vec<_>>()), places())
    };
    check_each(able, 16, inputs, |entry, (written, places)| {
        check_bytes(entry, places, Start::Conversation, written.ids(), MarkerPolicy::Ids)
    });
}

#[test]
fn every_tracer_in_any_ids_is_told() {
    let inputs = |entry| {
        let ids = prop_oneof![ids(entry), shuffled(entry)];
        (ids, places(), select(&POLICIES), any::<bool>())
    };
    check_each(made(), 48, inputs, |entry, (ids, places, policy, is_whole)| {
        let start = if is_whole { Start::Conversation } else { Start::Completion };
        check_bytes(entry, places, start, &ids, policy)
    });
}

/// As text, where every character has a position of its own.
#[test]
fn every_tracer_in_any_text_is_told() {
    let inputs = |entry| (prop_oneof![ids(entry), shuffled(entry)], places());
    check_each(made(), 24, inputs, |entry, (ids, places)| {
        let vocab = entry.codec.vocab();
        let ids: Vec<TokenId> =
            ids.into_iter().filter(|id| vocab.token_bytes(*id).is_ok()).collect();
        let Some(places) = places.apart_from(vocab, &ids) else { return outside() };
        let ids = places.put(vocab, &ids);
        let text = vocab.decode(&ids, chatcodec::Spelling::Spell).expect("ids of its own");
        let stream = Start::Conversation.stream(&entry.codec).reading(MarkerPolicy::Text);
        let pushes = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
        let events = read_text(stream, pushes, TurnReason::Stop);
        let symbols: Vec<Symbol> = text.chars().map(Symbol::Char).collect();
        let lost = check(entry, &places, &symbols, &events);
        lost.map_err(|lost| TestCaseError::fail(format!("{lost}\nin {events:#?}")))
    });
}

/// White space that was held before what became no header and no call, and was not told.
#[test]
fn white_space_before_what_is_no_header_is_told() {
    let cases = [
        ("harmony", "<|start|>\n\nSTART", "\n\nSTART"),
        (
            "phi4-mini",
            "<|assistant|><|tool_call|>[{\"name\": \"f\", \"arguments\": {}}\t, x",
            "\t, x",
        ),
        ("minimax-m2", "]~b]ai\n<minimax:tool_call>\n<invoke name=\"f\">\n</invoke>\n<x", "\n<x"),
    ];
    for (format, text, told) in cases {
        for entry in made().filter(|entry| entry.format == format) {
            let stream = entry.codec.read_stream().reading(MarkerPolicy::Text);
            let pushes = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
            let events = read_text(stream, pushes, TurnReason::Stop);
            // A marker that is spelled may be told with it.
            let is_told = |event: &Event| matches!(&event.kind, EventKind::Text(text) if text.ends_with(told));
            assert!(events.iter().any(is_told), "{}: {events:?}", entry.name);
        }
    }
}

/// White space between turns belongs to the text that a spelled control token begins, where the token means nothing.
#[test]
fn white_space_before_a_spelled_token_is_told() {
    let cases = [("llama4", "\n\n<|image_end|>"), ("qwen3", "\n\n<|vision_start|>")];
    for (format, text) in cases {
        for entry in made().filter(|entry| entry.format == format) {
            let stream = entry.codec.read_stream().reading(MarkerPolicy::IdsOrText);
            let ids = entry.codec.vocab().encode(text);
            let events = read(stream, &[&ids], TurnReason::Stop);
            let told: String = events
                .iter()
                .filter_map(|event| match &event.kind {
                    EventKind::Text(text) => Some(text.as_str()),
                    _ => None,
                })
                .collect();
            assert_eq!(told, text, "{}: {events:?}", entry.name);
        }
    }
}
