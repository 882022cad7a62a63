//! Markers that are spelled: read as the tokens they spell where the stream says so, in any chunking the
//! same; and what only quotes them loses nothing.

use std::time::{Duration, Instant};

use crate::common::dialogue::{assistant, dialogue, hostile};
use crate::common::events::{
    Start, check_ranges, check_stream, check_whole_turns, read, read_text,
};
use crate::common::table::{Entry, calling, check_each, control, entries, function, with_lossy};
use crate::common::{Domain, outside};
use chatcodec::{
    Boundary, CallBody, DummyPrefix, EncodeOptions, Event, EventKind, MarkerPolicy, Message, Role,
    Spelling, TokenId, TurnReason, collect,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Far more than linear work takes, far less than quadratic work on a megabyte.
const GENEROUS: Duration = Duration::from_secs(20);

/// Text as a model might write it: spellings and literals of the format, whole and cut, between any text.
fn spelled(entry: &'static Entry) -> impl Strategy<Value = String> {
    let own = control(entry.codec.format().text());
    let own = if own.is_empty() { vec!["<".to_owned()] } else { own };
    let half = (select(own.clone()), any::<Index>()).prop_map(|(own, cut)| {
        let ends: Vec<usize> = own.char_indices().map(|(at, _)| at).collect();
        own[..ends[cut.index(ends.len())]].to_owned()
    });
    let arguments = r#"{"name": "f", "arguments": {"a": "}"}}"#.to_owned();
    let piece = prop_oneof![
        6 => select(own),
        2 => half,
        6 => select(&entry.meant[..]),
        3 => hostile(entry),
        1 => Just(arguments),
    ];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// The text of events, which is of the text read, in order.
fn told(events: &[Event]) -> String {
    let text = |event: &Event| match &event.kind {
        EventKind::Text(text) | EventKind::Reasoning(text) => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

fn is_within(told: &str, read: &str) -> bool {
    let mut rest = read.chars();
    told.chars().all(|told| rest.any(|read| read == told))
}

fn kinds(events: Vec<Event>) -> Vec<EventKind> {
    events.into_iter().map(|event| event.kind).collect()
}

#[test]
fn any_text_in_any_chunks() {
    let inputs = |entry| (spelled(entry), any::<[Index; 4]>());
    check_each(with_lossy(), 150, inputs, |entry, (text, cuts)| {
        let length = text.chars().count();
        let mut ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        ends.push(text.len());
        let mut cuts = cuts.map(|cut| ends[cut.index(ends.len())]);
        cuts.sort_unstable();
        for start in [Start::Conversation, Start::Completion] {
            let stream = start.stream(&entry.codec).reading(MarkerPolicy::Text);
            let read = |pushes: Vec<&str>| read_text(stream.clone(), pushes, TurnReason::Stop);
            let whole = read(vec![&text]);
            check_ranges(&whole, length)?;
            if matches!(start, Start::Conversation) {
                check_whole_turns(&whole)?;
            }
            // Where a text is written as JSON, what it says is told.
            let is_json = [":value", ":string"];
            if !is_json.iter().any(|filter| entry.codec.format().text().contains(filter)) {
                // The texts of two frames have a line break between them.
                let mut told = told(&whole);
                told.retain(|c| c != '\n' || !entry.format.starts_with("harmony"));
                prop_assert!(is_within(&told, &text), "{whole:?}");
            }
            let each = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).collect();
            prop_assert_eq!(&read(each), &whole, "by character");
            let mut pushes = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([text.len()]) {
                pushes.push(&text[from..cut]);
                from = cut;
            }
            prop_assert_eq!(&read(pushes), &whole, "cut at {:?}", cuts);
        }
        Ok(())
    });
}

/// Ids of markers, and of text that spells them.
fn ids(entry: &'static Entry) -> impl Strategy<Value = Vec<TokenId>> {
    let vocab = entry.codec.vocab();
    let control: Vec<TokenId> = vocab.control().values().copied().collect();
    let piece = prop_oneof![
        1 => select(control).prop_map(|id| vec![id]),
        3 => spelled(entry).prop_map(|text| vocab.try_encode(&text).unwrap_or_default()),
        1 => (0..300i32).prop_map(|id| vec![id]),
        1 => select(vec![-1, i32::MAX]).prop_map(|id| vec![id]),
    ];
    vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

#[test]
fn any_ids_that_may_spell_markers_in_any_split() {
    let inputs = |entry| (ids(entry), any::<[Index; 4]>());
    check_each(with_lossy(), 75, inputs, |entry, (ids, cuts)| {
        let cuts = cuts.map(|cut| cut.index(ids.len() + 1));
        for start in [Start::Conversation, Start::Completion] {
            let stream = start.stream(&entry.codec).reading(MarkerPolicy::IdsOrText);
            let events = check_stream(&stream, &ids, cuts)?;
            if matches!(start, Start::Conversation) {
                check_whole_turns(&events)?;
            }
        }
        Ok(())
    });
}

/// Where no text spells a marker, what is read is what the ids alone say.
#[test]
fn ids_without_spelled_markers_are_read_alike() {
    let text = |entry: &'static Entry| {
        let vocab = entry.codec.vocab();
        let control: Vec<TokenId> = vocab.control().values().copied().collect();
        let piece = prop_oneof![
            1 => select(control).prop_map(|id| vec![id]),
            3 => select(vec!["<", "<|", "<tool", "\n", "assistant\n", "x", "{\"name\": \"f\"", ", \"a\": 1}", "]"])
                .prop_map(|text| vocab.try_encode(text).unwrap_or_default()),
            1 => (0..300i32).prop_map(|id| vec![id]),
        ];
        vec(piece, 0..10).prop_map(|pieces| pieces.concat())
    };
    check_each(with_lossy(), 150, text, |entry, ids| {
        let vocab = entry.codec.vocab();
        let mut stretches = ids.split(|&id| vocab.is_control(id));
        let spells = |stretch: &[TokenId]| {
            let text = vocab.decode(stretch, Spelling::Skip).unwrap_or_default();
            vocab.control().keys().any(|spelling| text.contains(spelling.as_str()))
        };
        if stretches.any(spells) {
            return outside();
        }
        for start in [Start::Conversation, Start::Completion] {
            let stream = start.stream(&entry.codec);
            let expected = read(stream.clone(), &[&ids], TurnReason::Stop);
            let stream = stream.reading(MarkerPolicy::IdsOrText);
            prop_assert_eq!(read(stream, &[&ids], TurnReason::Stop), expected);
        }
        Ok(())
    });
}

/// What a completion says by its ids, its text says too; also as text that is encoded as such, where a
/// format's markers are ids.
#[test]
fn a_completion_is_read_by_its_text() {
    let domain = Domain::default();
    let inputs = |entry| (dialogue(entry), assistant(entry));
    // Text after a token that takes the white space beside it is not what the format writes.
    let is_kept = |entry: &&Entry| !entry.able.strips || entry.is_ids();
    check_each(entries().iter().filter(is_kept), 200, inputs, |entry, (before, last)| {
        domain.try_one();
        let options = |prompt| EncodeOptions {
            add_generation_prompt: Some(prompt),
            boundary: Boundary::Isolated,
            ..EncodeOptions::default()
        };
        let Ok(prompt) = before.encode(entry, &options(true)) else { return Ok(()) };
        let Ok(whole) = before.with(last).encode(entry, &options(false)) else { return Ok(()) };
        let Some(completion) = whole.ids().strip_prefix(prompt.ids()) else { return Ok(()) };
        let Some(text) = whole.text().strip_prefix(prompt.text()) else { return Ok(()) };
        let vocab = entry.codec.vocab();
        // White space that a token takes is shown, and has no ids.
        let decoded = vocab.decode(completion, Spelling::Spell).expect("ids of its own");
        let text = if entry.able.strips { &decoded } else { text };
        let kept = vocab.try_encode(text).and_then(|ids| vocab.decode(&ids, Spelling::Spell));
        let is_kept = kept.is_ok_and(|kept| kept.trim_start() == text.trim_start());
        // A text and the format's own beside it may spell a token together.
        let (offsets, is_control) = (whole.offsets(), whole.is_control());
        let is_genuine = |(start, ..): &(usize, usize, TokenId)| {
            let known = offsets.iter().zip(is_control.iter());
            known.into_iter().any(|(at, &is_control)| is_control == 1 && at.0 == *start)
        };
        let spells = !whole.spelled_control().iter().all(is_genuine);
        if spells || !whole.neutralized().is_empty() || !whole.collisions().is_empty() || !is_kept {
            return Ok(());
        }
        let by_ids = entry.codec.stream(Some(prompt.ids()));
        domain.is_within();
        let by_text = by_ids.clone().reading(MarkerPolicy::Text);
        let expected = kinds(read(by_ids.clone(), &[completion], TurnReason::Stop));
        let told = kinds(read_text(by_text, [text], TurnReason::Stop));
        prop_assert_eq!(&told, &expected, "of {:?}", text);
        Ok(())
    });
    domain.check(12);
}

/// A call that is spelled with ordinary ids is a call where spellings count, and text where they do not.
#[test]
fn a_spelled_call() {
    let arguments = r#"{"a": "</tool_call>", "b": [1, {}]}"#;
    let mut read_as_call = 0;
    for entry in entries().iter().filter(|entry| entry.is_ids() && entry.able.functions) {
        let messages =
            [Message::new(Role::User, "x"), calling(function("f", r#"{"a": "x", "b": [1, {}]}"#))];
        let options =
            EncodeOptions { add_generation_prompt: Some(true), ..EncodeOptions::default() };
        let prompt = entry.encode(&messages[..1], &options).expect("it has a place for it");
        let whole = entry.encode(&messages, &EncodeOptions::default()).expect("and for a call");
        let Some(text) = whole.text().strip_prefix(prompt.text()) else { continue };
        let text = text.replace(r#"{"a": "x", "b": [1, {}]}"#, arguments);
        if text.starts_with(' ') && entry.codec.vocab().dummy_prefix() == DummyPrefix::EveryRun {
            // Encoded by itself, it would begin with two.
            continue;
        }
        if text.starts_with("</") && entry.codec.vocab().dummy_prefix() != DummyPrefix::Never {
            // It would begin with a space, which is the answer's text before what closes reasoning.
            continue;
        }
        let Ok(ids) = entry.codec.vocab().try_encode(&text) else { continue };
        let shown = entry.codec.vocab().decode(&ids, Spelling::Spell).expect("ids of its own");
        if shown.trim_start() != text.trim_start() {
            // Spellings with U+2581 come back with spaces there, where that stands for one.
            continue;
        }
        let stream = entry.codec.stream(Some(prompt.ids()));
        let by = |policy| read(stream.clone().reading(policy), &[&ids], TurnReason::Stop);
        for events in [
            by(MarkerPolicy::IdsOrText),
            read_text(stream.clone().reading(MarkerPolicy::Text), [&*text], TurnReason::Stop),
        ] {
            let told = collect(&events).into_iter().next().expect("a message");
            let bodies: Vec<&CallBody> = told.calls.iter().map(|call| &call.body).collect();
            let name = "f".to_owned();
            let is_call = |body: &CallBody| matches!(body, CallBody::Function { name: called, .. } if *called == name);
            assert!(bodies.len() == 1 && is_call(bodies[0]), "{}: {events:?}", entry.name);
            assert_eq!(told.content.trim(), "", "{}: {events:?}", entry.name);
        }
        let starts = by(MarkerPolicy::Ids);
        let is_start = |event: &Event| matches!(event.kind, EventKind::ActionStart { .. });
        if whole.ids()[prompt.ids().len()..].iter().any(|&id| entry.codec.vocab().is_control(id)) {
            read_as_call += usize::from(!starts.iter().any(is_start));
        }
    }
    assert!(read_as_call > 0 || std::env::var_os("CHATCODEC_FORMATS").is_some());
}

/// What quotes a marker is told whole, as the text that it is.
#[test]
fn a_quoted_marker_loses_nothing() {
    for entry in entries().iter().filter(|entry| entry.codec.format().name() == "qwen3") {
        let prompt = entry
            .encode(
                &[Message::new(Role::User, "x")],
                &EncodeOptions { add_generation_prompt: Some(true), ..EncodeOptions::default() },
            )
            .expect("it has a place for it");
        for text in [
            "Write <tool_call> to call.",
            "Write `<tool_call>` and `</tool_call>`",
            "Write <tool_call>\n{\"name\": 1}\n</tool_call>, or not.",
            "Not \n<tool_call>",
            "</tool_call>",
            "a </tool_response> b",
            "<tool_call",
            "<<tool_call><|im_",
            "<tool_call><tool_call>",
            "<|im_start|>nobody says this",
        ] {
            let ids = entry.codec.vocab().encode(text);
            let stream = entry.codec.stream(Some(prompt.ids()));
            // A dummy prefix may stand before them.
            let plain = told(&read(stream.clone(), &[&ids], TurnReason::Stop));
            let by_ids = stream.clone().reading(MarkerPolicy::IdsOrText);
            let by_text = stream.clone().reading(MarkerPolicy::Text);
            for (events, expected) in [
                (read(by_ids, &[&ids], TurnReason::Stop), &*plain),
                (read_text(by_text, [text], TurnReason::Stop), text),
            ] {
                assert_eq!(told(&events), expected, "{}: {events:?}", entry.name);
                let ends = |event: &&Event| matches!(event.kind, EventKind::TurnEnd { .. });
                assert_eq!(events.iter().filter(ends).count(), 1, "{}: {events:?}", entry.name);
            }
        }
    }
}

#[test]
fn a_megabyte_of_half_markers() {
    let Some(entry) = entries().first() else { return };
    let marker = control(entry.codec.format().text()).into_iter().max_by_key(String::len);
    let marker = marker.unwrap_or_else(|| "<".into());
    for piece in ["<", &marker[..marker.len() - 1], &marker, "\n"] {
        let text = piece.repeat((1 << 20) / piece.len());
        let stream = entry.codec.stream(None).reading(MarkerPolicy::Text);
        let begun = Instant::now();
        let whole = read_text(stream.clone(), [&*text], TurnReason::Stop);
        check_ranges(&whole, text.len()).expect("all of it is told");
        let each = (0..text.len()).map(|at| &text[at..=at]);
        assert!(read_text(stream, each, TurnReason::Stop) == whole, "{piece:?}");
        let took = begun.elapsed();
        assert!(took < GENEROUS, "{piece:?} took {took:?}");
    }
}
