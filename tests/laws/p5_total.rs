//! P5: total. Any text gives ids or an error that names its field; any ids, events; any file, a
//! vocabulary or an error. Nothing panics, nothing hangs.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::common::conversation::{Conversation, conversation, options};
use crate::common::events::{Start, check_ranges, check_turns, read};
use crate::common::model::model;
use crate::common::streams::ids;
use crate::common::table::{control, made_for};
use crate::common::{TestCodec, cases, check, codecs, vocabs};
use chatcodec::{
    ActionKind, Call, CallBody, Codec, EncodeOptions, Error, EventKind, Format, HOLD_LIMIT,
    Message, OnMarker, OnReasoning, OnUnsupported, Role, TokenId, TurnReason, Vocab,
};
use proptest::prelude::*;

/// Far more than linear work takes, far less than quadratic work on a megabyte.
const GENEROUS: Duration = Duration::from_secs(20);

const REASONS: [TurnReason; 5] = [
    TurnReason::Stop,
    TurnReason::Action,
    TurnReason::Length,
    TurnReason::Implicit,
    TurnReason::Cancelled,
];

/// Any ids, most of them of the vocabulary, control more often than not.
fn any_ids(codec: &TestCodec) -> impl Strategy<Value = Vec<TokenId>> + use<> {
    let size = i32::try_from(codec.codec.vocab().size()).expect("few ids");
    let control: Vec<TokenId> = codec.codec.vocab().control().values().copied().collect();
    let edges = vec![i32::MIN, i32::MIN + 1, -2, -1, size - 1, size, size + 1, i32::MAX];
    let id = prop_oneof![
        4 => 0..size,
        4 => prop::sample::select(control),
        2 => 0..300i32,
        1 => prop::sample::select(edges),
        1 => any::<i32>(),
    ];
    prop::collection::vec(id, 0..60)
}

#[test]
fn any_ids_give_events_that_cover_them() {
    for codec in codecs() {
        let inputs = (any_ids(codec), any_ids(codec), prop::sample::select(&REASONS));
        check(&codec.name, 1500, inputs, |(prompt, ids, reason)| {
            for start in [Start::Conversation, Start::Completion, Start::Prompt(&prompt)] {
                let events = read(start.stream(&codec.codec), &[&ids], reason);
                check_ranges(&events, ids.len())?;
                check_turns(&events.iter().map(|event| &event.kind).collect::<Vec<_>>())?;
            }
            codec.codec.decode(&ids);
            let parsed = codec.codec.parse(&ids, Some(&prompt));
            prop_assert!(parsed.rest <= ids.len());
            Ok(())
        });
    }
}

#[test]
fn any_stream_tells_one_thing_after_another() {
    for codec in codecs() {
        check(&codec.name, 1000, ids(codec), |ids| {
            let events =
                read(Start::Conversation.stream(&codec.codec), &[&ids], TurnReason::Length);
            check_ranges(&events, ids.len())?;
            check_turns(&events.iter().map(|event| &event.kind).collect::<Vec<_>>())
        });
    }
}

/// A stream cut after any id says what it can: what was text in the whole stream and certain then is
/// text there, and the turn ends for the reason that is given.
#[test]
fn a_stream_may_end_after_any_id() {
    for codec in codecs() {
        check(&codec.name, 40, (conversation(codec), options()), |(conversation, options)| {
            let encoding = conversation.encode(codec, &options).expect("in the domain");
            for end in 0..=encoding.ids().len() {
                let ids = &encoding.ids()[..end];
                for reason in [TurnReason::Stop, TurnReason::Length, TurnReason::Cancelled] {
                    let events = read(Start::Conversation.stream(&codec.codec), &[ids], reason);
                    check_ranges(&events, ids.len())?;
                    let mut open = false;
                    let mut ended = None;
                    for event in &events {
                        match &event.kind {
                            EventKind::TurnStart { .. } => open = true,
                            EventKind::TurnEnd { reason, .. } => {
                                open = false;
                                ended = Some(*reason);
                            }
                            _ => {}
                        }
                    }
                    prop_assert!(!open, "a turn is never ended: {:?}", events);
                    if codec.codec.stop_ids().iter().all(|stop| !ids.contains(stop)) {
                        let expected = |ended| match reason {
                            TurnReason::Stop => {
                                [TurnReason::Stop, TurnReason::Action].contains(&ended)
                            }
                            reason => ended == reason,
                        };
                        prop_assert!(ended.is_none_or(expected), "{:?}", events);
                    }
                }
                codec.codec.decode(ids);
            }
            Ok(())
        });
    }
}

/// What is longer than a header may be, and what a reader could not tell, is refused with its path.
#[test]
fn what_has_no_place_is_refused_with_its_path() {
    let codec = codecs().iter().find(|codec| codec.has_calls()).expect("the embedded one");
    let long = "x".repeat(HOLD_LIMIT);
    let call = |body| Message {
        calls: vec![Call { id: None, body }],
        ..Message::new(Role::Assistant, "")
    };
    let named = |role| Message { name: Some(long.clone()), ..Message::new(role, "") };
    let function = CallBody::Function { name: long.clone(), arguments: "{}".into() };
    let code = CallBody::Code { language: Some(long.clone()), source: String::new() };
    let thinking = |role| Message { reasoning: Some("hm".into()), ..Message::new(role, "") };
    let spliced = CallBody::Function { name: "f".into(), arguments: "{}, \"name\": \"g\"".into() };
    let misplaced = Message { role: Role::User, ..call(function.clone()) };
    for (message, path) in [
        (named(Role::User), "name"),
        (named(Role::System), "name"),
        (named(Role::Assistant), "name"),
        (call(function), "tool_calls[0].function.name"),
        (call(spliced), "tool_calls[0].function.arguments"),
        (call(code), "tool_calls[0].code.language"),
        (thinking(Role::Assistant), "reasoning"),
        (thinking(Role::User), "reasoning"),
        (misplaced, "tool_calls"),
    ] {
        let messages = vec![Message::new(Role::User, "Hi"), message];
        match Conversation::new(messages).encode(codec, &EncodeOptions::default()) {
            Err(Error::Message { path: found, .. }) => {
                assert_eq!(found, format!("messages[1].{path}"));
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}

/// A name is waited for, but not for ever: arguments that grow long are told without it, and the end
/// tells the name.
#[test]
fn a_name_that_comes_late() {
    let codec = &codecs()[0];
    let (act, plugin) = (codec.control_id("<|action_start|>"), codec.control_id("<|plugin|>"));
    for length in [HOLD_LIMIT / 2, 2 * HOLD_LIMIT] {
        let arguments = format!("{{\"a\": \"{}\"}}", "x".repeat(length));
        let text = format!("{{\"parameters\": {arguments}, \"name\": \"f\"}}");
        let ids = [vec![act, plugin], codec.codec.vocab().encode(&text)].concat();
        let events = read(codec.codec.stream(None), &[&ids], TurnReason::Stop);
        let (name, known) = (Some("f".to_owned()), length < HOLD_LIMIT);
        let kinds: Vec<EventKind> = events.into_iter().map(|event| event.kind).collect();
        let expected = [
            EventKind::ActionStart {
                index: 0,
                kind: ActionKind::Function,
                name: name.clone().filter(|_| known),
                id: None,
            },
            EventKind::ActionDelta { index: 0, text: arguments.clone() },
            EventKind::ActionEnd { index: 0, complete: true, name: name.clone(), id: None },
            EventKind::TurnEnd { reason: TurnReason::Action, id: None },
        ];
        assert_eq!(kinds, expected);
        let body = CallBody::Function { name: "f".into(), arguments };
        assert_eq!(codec.codec.parse(&ids, None).message.calls[0].body, body);
    }
}

#[test]
fn a_megabyte_of_one_character() {
    for character in ["a", " ", "\n", "\0", "<", "=", "0", "\u{2581}", "中", "—", "\u{301}", "🚀"]
    {
        for known in vocabs() {
            // A megabyte on the embedded vocabulary, enough to show a square on all others.
            let bytes = if known.name == "embedded" { 1 << 20 } else { 1 << 17 };
            let text = character.repeat(bytes / character.len());
            let begun = Instant::now();
            let ids = known.vocab.encode(&text);
            let took = begun.elapsed();
            assert!(took < GENEROUS, "{}: {character:?} took {took:?}", known.name);
            if !known.vocab.collapses_spaces() {
                let bytes = known.vocab.decode_bytes(&ids).expect("ids of the vocabulary");
                assert_eq!(bytes, text.replace('\u{2581}', " ").as_bytes());
            }
        }
    }
}

#[test]
fn a_megabyte_in_a_conversation() {
    let codec = &codecs()[0];
    for character in ["a", "\n", "<|im_end|>", "\u{2581}", "🚀"] {
        // In four fields.
        let text = character.repeat((1 << 18) / character.len());
        let begun = Instant::now();
        let messages = vec![
            Message::new(Role::User, text.clone()),
            Message { calls: calls(&text), ..Message::new(Role::Assistant, text) },
        ];
        let conversation = Conversation::new(messages);
        let encoding = conversation.encode(codec, &EncodeOptions::default()).expect("fits");
        assert_eq!(encoding.char_offsets().len(), encoding.ids().len());
        assert_eq!(encoding.sources().len(), encoding.ids().len());
        assert_eq!(encoding.assistant_mask().len(), encoding.ids().len());
        encoding.neutralized();
        assert_eq!(codec.codec.decode(encoding.ids()), conversation.canonical(codec));
        let took = begun.elapsed();
        assert!(took < GENEROUS, "{character:?} took {took:?}");
    }
}

fn calls(text: &str) -> Vec<Call> {
    let function = CallBody::Function {
        name: "f".into(),
        arguments: serde_json::to_string(text).expect("text is JSON"),
    };
    let code = CallBody::Code { language: None, source: text.into() };
    [function, code].into_iter().map(|body| Call { id: None, body }).collect()
}

/// Streams that never come to what they began.
#[test]
fn a_place_that_never_ends() {
    let codec = &codecs()[0].codec;
    for (opening, filling) in crate::common::endless::places(codec) {
        let begun = Instant::now();
        let filled = filling.ids.iter().copied().cycle().take(cases(20_000) as usize);
        let ids: Vec<TokenId> = opening.ids.into_iter().chain(filled).collect();
        let events = read(codec.stream(None), &[&ids], TurnReason::Length);
        check_ranges(&events, ids.len()).expect("all ids are told");
        let took = begun.elapsed();
        assert!(took < GENEROUS, "{:?} {:?} took {took:?}", opening.parts, filling.parts);
    }
}

#[test]
fn a_vocabulary_file_may_be_cut_anywhere() {
    // The one with a dummy prefix has pieces at its end, which may be cut off whole.
    for known in vocabs().iter().filter(|known| known.name != "prefixed") {
        let length = known.file.len();
        let places = (0..60).map(|nth| nth * length / 60).chain(length.saturating_sub(40)..length);
        for end in places {
            match Vocab::load(&known.file[..end]) {
                Err(error) => assert!(!error.problem.is_empty()),
                // The model's last part is no more than a self test.
                Ok(vocab) => {
                    assert_eq!(vocab.size(), known.vocab.size(), "{} at {end}", known.name);
                }
            }
        }
    }
}

#[test]
fn a_vocabulary_file_may_be_anything() {
    let change = (any::<prop::sample::Index>(), any::<u8>(), 0..4);
    let changes = prop::collection::vec(change, 1..6);
    check("made up", 3000, (model(), changes), |(mut file, changes)| {
        for (at, byte, kind) in changes {
            let at = at.index(file.len());
            match kind {
                0 => file[at] = byte,
                1 => file[at] ^= 1 << (byte % 8),
                2 => file.truncate(at.max(1)),
                _ => file.insert(at, byte),
            }
        }
        if let Ok(vocab) = Vocab::load(&file) {
            let ids = vocab.encode("ab \u{2581}中<s>\0");
            prop_assert!(ids.iter().all(|&id| !vocab.is_control(id)));
        }
        Ok(())
    });
    check("bytes", 3000, prop::collection::vec(any::<u8>(), 0..64), |file| {
        prop_assert!(Vocab::load(&file).is_err());
        Ok(())
    });
}

/// A format file with a part taken out, doubled or replaced: a format or an error, and what loads
/// binds or says why not.
#[test]
fn a_format_file_may_be_anything() {
    let built_in = prop::sample::select(vec!["internlm2", "chatml"]);
    let edit = (
        any::<(prop::sample::Index, prop::sample::Index)>(),
        0..3,
        "[{}a-zA-Z?:~/|\"\\n= \\[\\].]{0,6}",
    );
    let inputs = (built_in, prop::collection::vec(edit, 1..3));
    check("format", 1500, inputs, |(name, edits)| {
        let mut text = Format::built_in(name).expect("it is built in").text().to_owned();
        for ((from, to), kind, with) in edits {
            let mut places = text.char_indices().map(|(at, _)| at).collect::<Vec<_>>();
            places.push(text.len());
            let from = places[from.index(places.len())];
            // Mostly small changes: a file that is half gone says little.
            let to = places.into_iter().find(|&at| at >= (from + to.index(12)).min(text.len()));
            let to = to.unwrap_or(text.len()).max(from);
            match kind {
                0 => text.replace_range(from..to, &with),
                1 => drop(text.drain(from..to)),
                _ => text = [&text[..to], &text[from..]].concat(),
            }
        }
        match Format::parse("edited", &text) {
            Ok(format) => {
                if let Ok(codec) = Codec::new(&format, &Vocab::embedded()) {
                    let messages = vec![Message::new(Role::User, "Hi<|im_end|>")];
                    if let Ok(encoding) = codec.encode(messages, None, &EncodeOptions::default()) {
                        codec.decode(encoding.ids());
                    }
                }
            }
            Err(error) => {
                let is_named = matches!(&error, Error::Format { file, .. } if file == "edited");
                prop_assert!(is_named, "{error:?}");
                prop_assert!(error.to_string().starts_with("format `edited`"));
            }
        }
        Ok(())
    });
}

/// How many times as long work takes for four times as much, in time of the processor. Other programs slow a run down,
/// so a growth that is too large is measured again.
fn growth(work: impl Fn(usize), size: usize) -> f64 {
    let timed = |size: usize| {
        let begun = processor_time();
        // The system counts in ticks: a time is of many of them.
        for count in 1.. {
            work(size);
            let took = processor_time().saturating_sub(begun);
            if took > Duration::from_millis(150) {
                return took / count;
            }
        }
        Duration::MAX
    };
    let mut least = [Duration::MAX; 2];
    for _ in 0..8 {
        least = [least[0].min(timed(size)), least[1].min(timed(size * 4))];
        if least[1].as_secs_f64() < LINEAR * least[0].as_secs_f64() {
            break;
        }
    }
    least[1].as_secs_f64() / least[0].as_secs_f64()
}

/// How long this thread has run; where the system does not tell, how long the program has.
fn processor_time() -> Duration {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|told| told.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| BEGUN.elapsed(), Duration::from_nanos)
}

/// Far more than linear work grows, far less than the sixteen of quadratic work.
const LINEAR: f64 = 10.0;

#[test]
fn results_are_linked_in_linear_time() {
    for name in ["harmony", "internlm2", "kimi-k2", "mistral"] {
        let format = Format::built_in(name).expect("it is built in");
        let codec = table_codec(&format);
        let work = |count: usize| {
            let call = |nth: usize| Call {
                id: Some(format!("call{nth:05}")),
                body: CallBody::Function { name: format!("f{nth}"), arguments: "{}".into() },
            };
            let calls = (0..count).map(call).collect();
            let mut messages = vec![
                Message::new(Role::User, "x"),
                Message { calls, ..Message::new(Role::Assistant, "") },
            ];
            // The last of them first; and some that answer none.
            let result = |nth: usize| Message {
                call_id: nth.is_multiple_of(2).then(|| format!("call{nth:05}")),
                name: (nth % 2 == 1).then(|| format!("f{nth}")),
                ..Message::new(Role::Tool, "x")
            };
            messages.extend((0..count).rev().map(result));
            codec.shape(messages, false);
        };
        let growth = growth(work, 8000);
        assert!(growth < LINEAR, "{name}: {growth}");
    }
}

#[test]
fn markers_are_broken_in_linear_time() {
    for (name, marker) in
        [("llama2", "[INST] x"), ("deepseek", "User: x"), ("mixtral-8x7b", "x [/INST]")]
    {
        let format = Format::built_in(name).expect("it is built in");
        let codec = table_codec(&format);
        let options = EncodeOptions { on_marker: OnMarker::Break, ..EncodeOptions::default() };
        let turn = |role| Message::new(role, marker.repeat(4));
        let turns = |count: usize| {
            (0..count / 8).flat_map(|_| [turn(Role::User), turn(Role::Assistant)]).collect()
        };
        let many = |count: usize| vec![Message::new(Role::User, marker.repeat(count))];
        let made: [&dyn Fn(usize) -> Vec<Message>; 2] = [&turns, &many];
        for made in made {
            let work = |count| {
                codec.encode(made(count), None, &options).expect("it breaks");
            };
            // More text than is known whole.
            let growth = growth(work, 10_000);
            assert!(growth < LINEAR, "{name}: {growth}");
        }
    }
}

#[test]
fn what_has_no_place_is_left_out_in_linear_time() {
    let reasoning =
        || Message { reasoning: Some("x".into()), ..Message::new(Role::Assistant, "x") };
    let late = || Message::new(Role::System, "x");
    let call =
        || Call { id: None, body: CallBody::Function { name: "f".into(), arguments: "{}".into() } };
    let calls = || Message { calls: vec![call(), call()], ..Message::new(Role::Assistant, "x") };
    let made: [&dyn Fn() -> Message; 3] = [&reasoning, &late, &calls];
    for name in ["deepseek", "llama2", "internlm2"] {
        let format = Format::built_in(name).expect("it is built in");
        let codec = table_codec(&format);
        let options =
            EncodeOptions { on_unsupported: OnUnsupported::Drop, ..EncodeOptions::default() };
        let asked = || Message::new(Role::User, "x");
        let prompt = codec.encode(vec![asked()], None, &options).expect("it has a place");
        let completion = codec.vocab().encode("x");
        for (nth, made) in made.iter().enumerate() {
            let turns = |count: usize| {
                let mut messages = vec![asked()];
                for _ in 0..count {
                    let odd = made();
                    let answers = odd.role == Role::Assistant;
                    messages.push(odd);
                    messages.extend((!answers).then(|| Message::new(Role::Assistant, "x")));
                    messages.push(asked());
                }
                chatcodec::Conversation::new(messages, None)
            };
            let encode = |count| {
                codec.encode_conversation(turns(count), &options).expect("it is left out");
            };
            let extend = |count| {
                let new = turns(count);
                let on_reasoning = OnReasoning::default();
                codec
                    .extend_conversation(&prompt, &completion, new, &options, on_reasoning)
                    .expect("it is left out");
            };
            for work in [&encode as &dyn Fn(usize), &extend] {
                let growth = growth(work, 500);
                assert!(growth < LINEAR, "{name}, {nth}: {growth}");
            }
        }
    }
}

/// A format on a vocabulary that is made for it.
fn table_codec(format: &Format) -> Codec {
    let (_, vocab) = made_for(&control(format.text())).remove(0);
    Codec::new(format, &vocab).expect("it is made for the format")
}
