//! P4 on the way back: nothing of a stream is lost. Every character of its ids is in the text of an event, or is
//! what the format's file declares at that place. In any split, with any policy of markers, in every format.

use crate::common::account::{Account, Scaffold, Symbol, symbols};
use crate::common::dialogue::{dialogue, options};
use crate::common::events::{Start, merged, read, read_text};
use crate::common::outside;
use crate::common::table::{Entry, calling, check_each, entries, function};
use crate::formats_streams::{ids, shuffled};
use chatcodec::{
    EncodeOptions, Event, EventKind, MarkerPolicy, Message, Role, Stream, TokenId, TurnReason,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestCaseError;

const POLICIES: [MarkerPolicy; 2] = [MarkerPolicy::Ids, MarkerPolicy::IdsOrText];

/// The events of each push, not joined.
fn by_id(mut stream: Stream, ids: &[TokenId], reason: TurnReason) -> Vec<Event> {
    let mut events = Vec::new();
    for &id in ids {
        let mut new = Vec::new();
        stream.push(id, &mut new);
        events.append(&mut new);
    }
    let mut new = Vec::new();
    stream.finish(reason, &mut new);
    events.append(&mut new);
    events
}

fn check_bytes(
    entry: &Entry,
    start: Start<'_>,
    ids: &[TokenId],
    policy: MarkerPolicy,
    cut: usize,
) -> Result<(), TestCaseError> {
    let stream = start.stream(&entry.codec).reading(policy);
    let events = by_id(stream.clone(), ids, TurnReason::Stop);
    let (head, tail) = ids.split_at(cut);
    let split = read(stream, &[head, tail], TurnReason::Stop);
    prop_assert_eq!(merged(events.clone()), split);
    let prompt = match start {
        Start::Completion => entry.codec.generation_prompt(),
        _ => &[],
    };
    // Where turns are told apart by text, a completion goes on with that of its prompt.
    let begins = entry.is_ids() || !matches!(start, Start::Completion);
    let symbols =
        symbols(entry.codec.vocab(), &[prompt, ids].concat(), begins || !prompt.is_empty());
    let is_spelled = policy != MarkerPolicy::Ids;
    let account = Account { entry, scaffold: Scaffold::of(entry), is_spelled };
    let lost = account.check(&symbols, &events);
    lost.map_err(|lost| {
        TestCaseError::fail(format!(
            "{lost}
in {events:#?}"
        ))
    })
}

fn made() -> impl Iterator<Item = &'static Entry> {
    entries().iter().filter(|entry| entry.made)
}

#[test]
fn every_character_of_a_conversation_is_told_or_declared() {
    let inputs = |entry| (dialogue(entry), options(), any::<Index>(), select(&POLICIES));
    check_each(made(), 30, inputs, |entry, (dialogue, options, cut, policy)| {
        let Ok(encoding) = dialogue.encode(entry, &options) else { return outside() };
        let ids = encoding.ids();
        let cut = cut.index(ids.len() + 1);
        check_bytes(entry, Start::Conversation, ids, policy, cut)
    });
}

/// Calls after a text, with keys that need no quotes and keys that do.
#[test]
fn every_character_of_a_call_is_told_or_declared() {
    let arguments = [
        "{}",
        r#"{"<|": 0, "b": [{"c d": "x"}, null], "\u000e": {"e": true}}"#,
        r#"{"a": "x", "b": "<|im_start|>", "c": "1"}"#,
    ];
    let texts = ["", "x\n", r#"{"name": "f", "parameters": {"#];
    // A vocabulary of bytes has an id for each character of what is rare.
    for entry in made().filter(|entry| entry.able.functions && entry.vocab == "bytes") {
        let mut written = 0;
        for (text, arguments) in texts.iter().flat_map(|text| arguments.map(|a| (*text, a))) {
            let call = Message { content: text.to_owned(), ..calling(function("f", arguments)) };
            let messages = [Message::new(Role::User, "x"), call];
            let Ok(encoding) = entry.encode(&messages, &EncodeOptions::default()) else { continue };
            written += 1;
            let ids = encoding.ids();
            check_bytes(entry, Start::Conversation, ids, MarkerPolicy::Ids, ids.len() / 2)
                .unwrap_or_else(|e| panic!("{}, {text:?}, {arguments}: {e}", entry.name));
        }
        assert!(written >= 2, "{}: {written} are written", entry.name);
    }
}

#[test]
fn every_character_of_any_ids_is_told_or_declared() {
    let inputs = |entry| {
        let ids = prop_oneof![ids(entry), shuffled(entry)];
        (ids, any::<Index>(), select(&POLICIES), any::<bool>())
    };
    check_each(made(), 80, inputs, |entry, (ids, cut, policy, is_whole)| {
        let cut = cut.index(ids.len() + 1);
        let start = if is_whole { Start::Conversation } else { Start::Completion };
        check_bytes(entry, start, &ids, policy, cut)
    });
}

/// As text, where every character has a position of its own.
#[test]
fn every_character_of_any_text_is_told_or_declared() {
    let inputs = |entry| prop_oneof![ids(entry), shuffled(entry)];
    check_each(made(), 40, inputs, |entry, ids| {
        let vocab = entry.codec.vocab();
        let ids: Vec<TokenId> =
            ids.into_iter().filter(|id| vocab.token_bytes(*id).is_ok()).collect();
        let text = vocab.decode(&ids, chatcodec::Spelling::Spell).expect("ids of its own");
        let mut stream = Start::Conversation.stream(&entry.codec).reading(MarkerPolicy::Text);
        let mut events = Vec::new();
        let mut buffer = [0; 4];
        for character in text.chars() {
            let mut new = Vec::new();
            stream.push_text(character.encode_utf8(&mut buffer), &mut new);
            events.append(&mut new);
        }
        stream.finish(TurnReason::Stop, &mut events);
        let symbols: Vec<Symbol> = text.chars().map(Symbol::Char).collect();
        let account = Account { entry, scaffold: Scaffold::of(entry), is_spelled: true };
        let lost = account.check(&symbols, &events);
        lost.map_err(|lost| {
            TestCaseError::fail(format!(
                "{lost}
in {events:#?}"
            ))
        })
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
