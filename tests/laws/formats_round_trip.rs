//! P2 and P4 of every built-in format with every vocabulary that it binds to: what is encoded comes back,
//! and nothing of it is lost.

use std::collections::{BTreeSet, HashMap};

use crate::common::dialogue::{Dialogue, assistant, dialogue, hostile, options};
use crate::common::table::{Entry, calling, check_each, entries, function, normalising};
use crate::common::{Domain, outside};
use chatcodec::{
    Boundary, Call, CallBody, DummyPrefix, EncodeOptions, Encoding, EventKind, Message, OnMarker,
    Role, Spelling, TurnReason, collect,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;

/// Whether the round trip is promised of this encoding.
fn is_promised(entry: &Entry, encoding: &Encoding, on_marker: OnMarker) -> bool {
    entry.is_certain() || on_marker != OnMarker::Report || encoding.collisions().is_empty()
}

/// Whether an empty message after an answer would be the token that stops the answer, and nothing else.
fn is_stop_alone(
    entry: &Entry,
    dialogue: &Dialogue,
    options: &EncodeOptions,
    error: &chatcodec::Error,
) -> bool {
    let ends_so = matches!(dialogue.messages.as_slice(), [.., before, last]
        if before.role == Role::Assistant && last.role == Role::User && last.content.trim().is_empty());
    ends_so
        && options.add_generation_prompt == Some(false)
        && entry.format.starts_with("glm4.5:")
        && error.to_string().contains("the token that stops the turn before it")
}

/// What `on_marker` may refuse is refused in formats whose markers are text alone.
fn encode(
    entry: &Entry,
    dialogue: &Dialogue,
    options: &EncodeOptions,
) -> Result<Option<Encoding>, TestCaseError> {
    match dialogue.encode(entry, options) {
        Ok(encoding) => Ok(Some(encoding)),
        Err(_) if !entry.is_certain() && options.on_marker != OnMarker::Report => Ok(None),
        // A prompt that is asked for has its place after a user's message only, where turns alternate.
        Err(error) if error.to_string().starts_with("`add_generation_prompt`") => Ok(None),
        Err(error) if is_stop_alone(entry, dialogue, options, &error) => Ok(None),
        Err(error) => Err(TestCaseError::fail(format!("{error} of a dialogue that was written"))),
    }
}

/// Least number of formats that bind to a real vocabulary of the test data.
const MIN_REAL: usize = 35;

/// The table is what it is meant to be: each format has vocabularies that are always there.
#[test]
fn every_format_is_in_the_table() {
    for name in chatcodec::Format::names() {
        let of_format = || entries().iter().filter(|entry| entry.format == name);
        assert!(of_format().filter(|entry| entry.made).count() >= 3, "{name}");
    }
    let real: BTreeSet<&str> =
        entries().iter().filter(|entry| !entry.made).map(|entry| entry.format).collect();
    assert!(
        real.len() >= MIN_REAL || crate::common::test_data().is_none(),
        "{real:?} bind to real vocabularies"
    );
    let able = |has: fn(&Entry) -> bool| entries().iter().any(has);
    assert!(able(|e| e.able.functions) && able(|e| e.able.codes) && able(|e| e.able.results));
    assert!(able(|e| e.able.tools) && able(|e| e.able.user_name) && able(|e| e.able.system));
}

#[test]
fn decode_reverses_encode() {
    let inputs = |entry| (dialogue(entry), options());
    check_each(entries(), 200, inputs, |entry, (dialogue, options)| {
        let Some(encoding) = encode(entry, &dialogue, &options)? else { return outside() };
        if !is_promised(entry, &encoding, options.on_marker) {
            return outside();
        }
        prop_assert_eq!(entry.codec.decode(encoding.ids()), dialogue.canonical(entry));
        Ok(())
    });
}

/// A prompt that asks for reasoning, or for none, is no message; an empty answer that would be written as one is
/// refused.
#[test]
fn decode_reverses_encode_with_any_prompt() {
    let domain = Domain::default();
    let inputs = |entry| (dialogue(entry), options(), any::<bool>(), any::<(bool, bool)>());
    check_each(
        entries(),
        60,
        inputs,
        |entry, (dialogue, options, thinking, (prompt, is_empty))| {
            let options = EncodeOptions {
                thinking: Some(thinking),
                add_generation_prompt: Some(prompt),
                ..options
            };
            let empty = Message::new(Role::Assistant, "");
            let dialogue = if is_empty { dialogue.with(empty) } else { dialogue };
            domain.try_one();
            let Ok(encoding) = dialogue.encode(entry, &options) else { return Ok(()) };
            if !is_promised(entry, &encoding, options.on_marker) {
                return Ok(());
            }
            domain.is_within();
            let canonical = dialogue.canonical_with(entry, &options);
            prop_assert_eq!(entry.codec.decode(encoding.ids()), canonical);
            Ok(())
        },
    );
    domain.check(10);
}

/// The canonical form of a conversation that ends with an open turn.
fn open(mut messages: Vec<Message>) -> Vec<Message> {
    messages.pop_if(|last| *last == Message::new(Role::Assistant, ""));
    messages
}

/// An open turn is one too; one with nothing in it is a generation prompt. However the stream of it is
/// ended, its message is the same.
#[test]
fn decode_reverses_encode_of_an_open_turn() {
    let inputs = |entry| (dialogue(entry), assistant(entry), options());
    check_each(entries(), 100, inputs, |entry, (dialogue, last, options)| {
        let options =
            EncodeOptions { continue_final: true, add_generation_prompt: None, ..options };
        let dialogue = if dialogue.ends_with_assistant() { dialogue } else { dialogue.with(last) };
        let Ok(encoding) = dialogue.encode(entry, &options) else { return outside() };
        if !is_promised(entry, &encoding, options.on_marker) {
            return outside();
        }
        let expected = open(dialogue.canonical(entry));
        let decoded = entry.codec.decode(encoding.ids());
        // A header that says more than the prompt does is told, though nothing follows it.
        let mut told = decoded.clone();
        told.pop_if(|last| *last == Message::new(Role::Assistant, ""));
        prop_assert!(
            decoded == expected || told == expected,
            "{:?} is not {:?}",
            decoded,
            expected
        );
        let mut stream = entry.codec.read_stream();
        let mut events = Vec::new();
        stream.push_all(encoding.ids(), &mut events);
        stream.finish(TurnReason::Length, &mut events);
        let mut told = collect(&events);
        told.pop_if(|last| *last == Message::new(Role::Assistant, ""));
        let texts = |messages: &[Message]| {
            messages.iter().map(|m| (m.role, m.content.clone(), m.calls.len())).collect::<Vec<_>>()
        };
        prop_assert_eq!(texts(&told), texts(&expected));
        if expected.last().is_some_and(|last| last.role == Role::Assistant) {
            let end = events.iter().rev().find_map(|event| match event.kind {
                EventKind::TurnEnd { reason, .. } => Some(reason),
                _ => None,
            });
            prop_assert_eq!(end, Some(TurnReason::Length));
        }
        Ok(())
    });
}

/// Words and white space, with white space at the ends more often than not.
fn spaced() -> impl Strategy<Value = String> {
    let piece =
        select(&["Hi", "there.", " ", "  ", "\n", "\n\n", "\t", " \n", "\u{85}", "\u{3000}"]);
    vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

/// An answer that is cut before its stop id has all of its text, with the white space at its end.
#[test]
fn a_cut_answer_is_its_text() {
    let domain = Domain::default();
    let inputs =
        |_| (spaced(), any::<bool>(), select(&[TurnReason::Length, TurnReason::Cancelled]));
    check_each(entries(), 12, inputs, |entry, (text, reasons, reason)| {
        domain.try_one();
        let asked = Dialogue { messages: vec![Message::new(Role::User, "x")], tools: None };
        let reasoning = (reasons && entry.able.reasoning).then(|| "r".to_owned());
        // A prompt may open reasoning, which an answer without reasoning does not follow.
        let thinking = entry.able.reasoning.then_some(reasoning.is_some());
        let whole = asked.with(Message { reasoning, ..Message::new(Role::Assistant, text) });
        let options = EncodeOptions { boundary: Boundary::Isolated, ..EncodeOptions::default() };
        let prompt = [thinking, None].into_iter().find_map(|thinking| {
            let options = EncodeOptions { thinking, ..options.clone() };
            asked
                .encode(entry, &EncodeOptions { add_generation_prompt: Some(true), ..options })
                .ok()
        });
        let open = whole.encode(entry, &EncodeOptions { continue_final: true, ..options });
        let (Some(prompt), Ok(open)) = (prompt, open) else { return Ok(()) };
        let Some(completion) = open.ids().strip_prefix(prompt.ids()) else { return Ok(()) };
        if !is_promised(entry, &open, OnMarker::Report) {
            return Ok(());
        }
        domain.is_within();
        let expected = whole.canonical(entry).pop().map(|message| message.content);
        let mut stream = entry.codec.stream(Some(prompt.ids())).keeping();
        let mut events = Vec::new();
        stream.push_all(completion, &mut events);
        stream.finish(reason, &mut events);
        prop_assert_eq!(Some(stream.message().content), expected);
        Ok(())
    });
    domain.check(60);
}

/// Removes reasoning where tools decide whether it is written: they come back as a message, which decides nothing.
fn without_reasoning_by_tools(entry: &Entry, dialogue: &mut Dialogue) {
    let decide = |line: &str| line.starts_with("tools = {") && line.contains("reasoning =");
    if dialogue.tools.is_some() && entry.codec.format().text().lines().any(decide) {
        dialogue.messages.iter_mut().for_each(|message| message.reasoning = None);
    }
}

#[test]
fn canonical_is_idempotent() {
    check_each(entries(), 80, dialogue, |entry, mut dialogue| {
        without_reasoning_by_tools(entry, &mut dialogue);
        // A mark at the edge becomes a space, which the next time is trimmed.
        let is_trimmed = |loss: &&str| loss.starts_with("white space around content");
        // Nor is a system text that is trimmed only once it is the user's.
        let is_trimmed_user = |loss: &&str| loss.starts_with("a system message: comes back");
        if entry.codec.format().losses().iter().any(is_trimmed_user) {
            dialogue.messages.retain(|message| message.role != Role::System);
        }
        // A result's markers are its text, and get markers of their own the next time.
        let is_folded = |loss: &&str| loss.starts_with("that a text was a result");
        if entry.codec.format().losses().iter().any(is_folded) {
            dialogue.messages.retain(|message| message.role != Role::Tool);
        }
        let is_trimmed = entry.codec.format().losses().iter().any(is_trimmed);
        if is_trimmed {
            for message in &mut dialogue.messages {
                message.content = message.content.replace('\u{2581}', " ");
                let reasoning = message.reasoning.take();
                message.reasoning = reasoning.map(|text| text.replace('\u{2581}', " "));
            }
        }
        let mut canonical = Dialogue { messages: dialogue.canonical(entry), tools: None };
        for message in canonical.messages.iter_mut().filter(|_| is_trimmed) {
            // What declares tools may begin or end in white space.
            let is_space = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
            message.content = message.content.trim_matches(is_space).to_owned();
        }
        prop_assert_eq!(&canonical.canonical(entry), &canonical.messages);
        Ok(())
    });
}

/// What is lost of a round trip the first time is written otherwise the second: in these formats markers
/// become text, or text becomes JSON of another kind.
fn changes_ids(entry: &Entry, dialogue: &Dialogue) -> bool {
    let loses =
        |begins: &str| entry.codec.format().losses().iter().any(|loss| loss.starts_with(begins));
    let has = |role| dialogue.messages.iter().any(|message| message.role == role);
    let is_default = dialogue.messages.first().is_some_and(|first| first.role != Role::System);
    // A text in the turn of another is normalised with it, and trimmed with it.
    // Arguments that are a text with an object in it are read as the object.
    let calls = dialogue.messages.iter().flat_map(|message| &message.calls);
    let is_text = |call: &Call| matches!(&call.body, CallBody::Function { arguments, .. } if arguments.trim_start().starts_with('"'));
    dialogue.tools.is_some()
        || calls.into_iter().any(is_text)
        || is_default && entry.spells_default()
        || entry.spells_own_turn()
        || loses("that a text was a result") && has(Role::Tool)
        || loses("a system message: comes back as the beginning") && has(Role::System)
        || loses("arguments: their spelling, and strings that are JSON")
            && dialogue.messages.iter().any(|message| !message.calls.is_empty())
}

/// `canonical` gives what `encode` takes, and it has the same ids.
#[test]
fn a_canonical_conversation_is_written_as_the_one_it_is_of() {
    for entries in [entries(), normalising()] {
        let inputs = |entry| (dialogue(entry), prop::collection::vec(blank(), 4), options());
        check_each(entries, 120, inputs, |entry, (mut dialogue, blanks, options)| {
            let mut blanks = blanks.into_iter();
            for message in &mut dialogue.messages {
                // A mark at the edge becomes a space, which is trimmed the next time.
                message.content = message.content.replace('\u{2581}', " ");
                let reasoning = message.reasoning.take();
                message.reasoning = reasoning.map(|text| text.replace('\u{2581}', " "));
                if let Some(Some(blank)) = blanks.next() {
                    message.content = blank;
                }
            }
            // What is broken or refused of a marker is so by the message that it is in.
            let on_marker = if entry.is_certain() { options.on_marker } else { OnMarker::Report };
            let options = EncodeOptions { on_marker, ..options };
            without_reasoning_by_tools(entry, &mut dialogue);
            let Ok(encoding) = dialogue.encode(entry, &options) else { return outside() };
            let canonical = Dialogue { messages: dialogue.canonical(entry), tools: None };
            let again = canonical.encode(entry, &options);
            let again =
                again.map_err(|error| TestCaseError::fail(format!("{error} of {canonical:?}")))?;
            if !changes_ids(entry, &dialogue) && entry.vocab != "Lowercase" && entry.vocab != "NFKC"
            {
                prop_assert_eq!(again.ids(), encoding.ids(), "of {:?}", canonical);
                prop_assert_eq!(&canonical.canonical(entry), &canonical.messages);
            }
            Ok(())
        });
    }
}

/// White space alone, or `None` for what a text is.
fn blank() -> impl Strategy<Value = Option<String>> {
    let blank =
        proptest::sample::select(vec!["", " ", "\n", "\n\n", " \t", "\u{a0}", "\u{3000}\n"]);
    proptest::option::weighted(0.3, blank.prop_map(str::to_owned))
}

/// White space alone is no reason to refuse a message that is written without it.
#[test]
fn white_space_alone_is_written_or_none() {
    let blanks = ["", " ", "\n", "\n\n", " \n\t", "\u{a0}", "\u{3000}"];
    for entry in entries().iter().chain(normalising()) {
        let write = |dialogue: &Dialogue| dialogue.encode(entry, &EncodeOptions::default());
        let user = Message::new(Role::User, "x");
        let calls = calling(function("f", "{\"a\": 1}"));
        let answers =
            [Message::new(Role::Assistant, "x"), Message::new(Role::Assistant, ""), calls];
        let before = [vec![user.clone()], vec![user.clone(), answers[0].clone(), user.clone()]];
        let after = [vec![], vec![user.clone()], vec![Message::new(Role::Tool, "x")]];
        for (before, answer, after) in before.iter().flat_map(|before| {
            let after = &after;
            answers.iter().flat_map(move |a| after.iter().map(move |after| (before, a, after)))
        }) {
            let with = |message: &Message| Dialogue {
                messages: [&before[..], std::slice::from_ref(message), after].concat(),
                tools: None,
            };
            for blank in blanks {
                let mut messages =
                    vec![Message { reasoning: Some(blank.to_owned()), ..answer.clone() }];
                if answer.content.is_empty() {
                    let content = Message { content: blank.to_owned(), ..answer.clone() };
                    messages.push(Message { reasoning: Some(blank.to_owned()), ..content.clone() });
                    messages.push(content);
                }
                let Ok(_) = write(&with(answer)) else { continue };
                for message in messages {
                    let dialogue = with(&message);
                    let encoding = write(&dialogue)
                        .unwrap_or_else(|error| panic!("{}: {error} of {dialogue:?}", entry.name));
                    if is_promised(entry, &encoding, OnMarker::Report) {
                        let decoded = entry.codec.decode(encoding.ids());
                        assert_eq!(decoded, dialogue.canonical(entry), "{}", entry.name);
                    }
                }
            }
        }
    }
}

/// Where a message is refused, what is refused is not what is white space alone.
#[test]
fn blame_is_not_on_white_space() {
    for entry in entries().iter().filter(|entry| entry.able.functions) {
        for calls in [true, false] {
            let answer = if calls {
                calling(function("f", "{}"))
            } else {
                Message::new(Role::Assistant, "x")
            };
            let message =
                Message { name: Some("nobody".into()), reasoning: Some("\n".into()), ..answer };
            let messages = [Message::new(Role::User, "x"), message];
            if let Err(error) = entry.encode(&messages, &EncodeOptions::default()) {
                let told = error.to_string();
                assert!(!told.contains("reasoning"), "{}: {told}", entry.name);
            }
        }
    }
}

/// The same ids only where the canonical forms are the same: short texts of few letters and of what the
/// format itself writes, so that conversations do come to have the same ids.
#[test]
fn the_same_ids_mean_the_same_conversation() {
    for entry in entries().iter().filter(|entry| entry.made) {
        let mut seen: HashMap<Vec<i32>, (Vec<Message>, Dialogue)> = HashMap::new();
        let mut texts: Vec<&str> = vec!["", " ", "\u{2581}", "\n", "\n\n", "a", "a "];
        let stride = entry.meant.len().div_ceil(6);
        texts.extend(entry.meant.iter().step_by(stride).map(String::as_str));
        let turn = |role| texts.iter().map(move |text| Message::new(role, *text));
        let firsts: Vec<Message> = turn(Role::System).chain(turn(Role::User)).collect();
        let seconds: Vec<Message> =
            turn(Role::User).chain(turn(Role::Assistant)).chain(turn(Role::Tool)).collect();
        let pairs =
            firsts.iter().flat_map(|a| seconds.iter().map(move |b| vec![a.clone(), b.clone()]));
        let alone = firsts.iter().map(|message| vec![message.clone()]);
        for messages in pairs.chain(alone) {
            let dialogue = Dialogue { messages, tools: None };
            let options = EncodeOptions { on_marker: OnMarker::Error, ..EncodeOptions::default() };
            let Ok(encoding) = dialogue.encode(entry, &options) else { continue };
            let canonical = dialogue.canonical(entry);
            let known = seen.insert(encoding.ids().to_vec(), (canonical.clone(), dialogue.clone()));
            if let Some((known, other)) = known {
                assert_eq!(known, canonical, "{}: {dialogue:?} and {other:?}", entry.name);
            }
        }
        assert!(seen.len() > 50, "{}: {} conversations", entry.name, seen.len());
    }
}

/// Text as it comes back: where a mark stands for a space, it is one.
fn plain(entry: &Entry, text: &str) -> String {
    let vocab = entry.codec.vocab();
    let mark = vocab.try_encode("a\u{2581}a").expect("any text");
    let has_mark = vocab.decode(&mark, Spelling::Spell).is_ok_and(|text| text == "a a");
    if has_mark { text.replace('\u{2581}', " ") } else { text.to_owned() }
}

/// Offsets tile the text, each id's stretch is its bytes, and the whole decodes to the text.
#[test]
fn the_ids_are_the_text() {
    let entries = entries().iter().filter(|entry| !entry.able.strips);
    let inputs = |entry| (dialogue(entry), options());
    check_each(entries, 80, inputs, |entry, (dialogue, options)| {
        let vocab = entry.codec.vocab();
        let Some(encoding) = encode(entry, &dialogue, &options)? else { return outside() };
        let text = encoding.text();
        let (ids, is_control) = (encoding.ids(), encoding.is_control());
        let (mut at, mut run) = (0, 0);
        let mut expected = String::new();
        for (nth, (&id, (start, end))) in ids.iter().zip(encoding.offsets()).enumerate() {
            prop_assert_eq!(start, at, "id {} does not begin where the one before ends", nth);
            prop_assert!(start <= end && end <= text.len());
            at = end;
            if is_control[nth] == 1 {
                expected.push_str(&plain(entry, &text[run..start]));
                expected.push_str(&text[start..end]);
                run = end;
                continue;
            }
            let begins = nth == 0 || is_control[nth - 1] == 1;
            let bytes = vocab.token_bytes(id).expect("an id of the vocabulary");
            let bytes = match bytes.strip_prefix(b" ") {
                Some(rest) if begins && vocab.dummy_prefix() != DummyPrefix::Never => rest,
                _ => bytes,
            };
            // A mark that is spread over three ids is not a space in any of them.
            if let Some(covered) = text.get(start..end) {
                let is_same = covered.as_bytes() == bytes;
                prop_assert!(is_same || plain(entry, covered).as_bytes() == bytes, "id {nth}");
            }
        }
        prop_assert_eq!(at, text.len(), "the end of the text is in no id");
        expected.push_str(&plain(entry, &text[run..]));
        let decoded = vocab.decode(ids, Spelling::Spell).expect("ids of the vocabulary");
        prop_assert_eq!(decoded, expected);
        Ok(())
    });
}

/// The bytes of a slot's ids hold the caller's text, normalised and trimmed, whole.
#[test]
fn the_ids_of_a_slot_are_its_text() {
    let inputs = |entry| (hostile(entry), any::<bool>());
    check_each(entries(), 80, inputs, |entry, (text, isolated)| {
        let vocab = entry.codec.vocab();
        let boundary = if isolated { Boundary::Isolated } else { Boundary::Reference };
        let options = EncodeOptions { boundary, ..EncodeOptions::default() };
        let messages = [Message::new(Role::User, text.clone())];
        let Ok(encoding) = entry.encode(&messages, &options) else {
            // What writes nothing is refused.
            prop_assert!(text.trim().is_empty());
            return Ok(());
        };
        let sources = encoding.sources();
        let is_slot = |nth: &usize| sources[*nth].to_string() == "messages[0].content";
        let slot: Vec<i32> =
            (0..sources.len()).filter(is_slot).map(|nth| encoding.ids()[nth]).collect();
        let decoded = vocab.decode(&slot, Spelling::Spell).expect("ids of the vocabulary");
        let canonical = entry.codec.canonical(messages.to_vec(), None);
        let content = &canonical.last().expect("a message").content;
        prop_assert!(
            // `decode` takes a leading space for the dummy prefix where there is one.
            decoded.contains(content) || format!(" {decoded}").contains(content),
            "{decoded:?} is not {content:?}"
        );
        Ok(())
    });
}
