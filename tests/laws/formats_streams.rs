//! P5 and P6 of every built-in format with every vocabulary that it binds to: any ids give events, in any
//! split the same; a completion is the assistant's message; and no format's ids are another's by mistake.

use crate::common::dialogue::{Dialogue, assistant, dialogue, hostile, options, unnumbered};
use crate::common::events::{
    Start, check_ranges, check_splits, check_stream, check_whole_turns, is_odd, read,
};
use crate::common::table::{Entry, calling, check_each, entries, function, shared, with_lossy};
use crate::common::{is_long, outside};
use chatcodec::{
    Boundary, EncodeOptions, Encoding, Event, EventKind, Format, InReasoning, Message, OnMarker,
    Part, Role, TokenId, TurnReason, collect,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestCaseError;
use std::collections::BTreeMap;

/// Ids as a model might write them, and as it should not: control and text in any order, what the format
/// means something by, bytes, and now and then an id that is none.
pub(crate) fn ids(entry: &'static Entry) -> impl Strategy<Value = Vec<TokenId>> {
    let vocab = entry.codec.vocab();
    let size = i32::try_from(vocab.size()).expect("few ids");
    let own = crate::common::table::control(entry.codec.format().text());
    let own: Vec<TokenId> =
        own.iter().filter_map(|own| vocab.control().get(own)).copied().collect();
    let control: Vec<TokenId> = vocab.control().values().copied().chain(own.clone()).collect();
    let edges = vec![i32::MIN, -1, size - 1, size, i32::MAX];
    let encode = |text: String| vocab.try_encode(&text).unwrap_or_default();
    let piece = prop_oneof![
        6 => select(if own.is_empty() { control.clone() } else { own }).prop_map(|id| vec![id]),
        2 => select(control).prop_map(|id| vec![id]),
        6 => select(&entry.meant[..]).prop_map(encode),
        3 => hostile(entry).prop_map(encode),
        1 => (0..size).prop_map(|id| vec![id]),
        1 => (0..300i32).prop_map(|id| vec![id]),
        1 => select(edges).prop_map(|id| vec![id]),
    ];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// The ids of a conversation, with some taken out, doubled or put elsewhere.
pub(crate) fn shuffled(entry: &'static Entry) -> impl Strategy<Value = Vec<TokenId>> {
    let edits = vec((any::<[Index; 3]>(), 0..3), 0..4);
    (dialogue(entry), options(), edits).prop_map(|(dialogue, options, edits)| {
        let encoding = dialogue.encode(entry, &options);
        let mut ids = encoding.map_or_else(|_| Vec::new(), |encoding| encoding.ids().to_vec());
        for ([from, length, to], kind) in edits {
            let from = from.index(ids.len() + 1);
            let end = (from + length.index(8)).min(ids.len());
            let taken = ids[from..end].to_vec();
            if kind != 0 {
                ids.drain(from..end);
            }
            if kind != 1 {
                let to = to.index(ids.len() + 1);
                ids.splice(to..to, taken);
            }
        }
        ids
    })
}

#[test]
fn any_ids_in_any_split() {
    let inputs = |entry| {
        let in_reasoning = select(&[InReasoning::Text, InReasoning::Call]);
        let ids = prop_oneof![ids(entry), shuffled(entry)];
        (ids, any::<[Index; 4]>(), any::<Index>(), in_reasoning)
    };
    check_each(with_lossy(), 50, inputs, |entry, (ids, cuts, end, in_reasoning)| {
        let cuts = cuts.map(|cut| cut.index(ids.len() + 1));
        if entry.able.reasoning {
            let stream = entry.codec.read_stream().calling_in_reasoning(in_reasoning);
            check_whole_turns(&check_stream(&stream, &ids, cuts)?)?;
        }
        for start in [Start::Conversation, Start::Completion] {
            let events = check_splits(&entry.codec, start, &ids, cuts)?;
            if matches!(start, Start::Conversation) {
                check_whole_turns(&events)?;
            }
        }
        // Cut off anywhere, and read on from anywhere.
        let (head, tail) = ids.split_at(end.index(ids.len() + 1));
        check_whole_turns(&check_splits(&entry.codec, Start::Conversation, head, [])?)?;
        check_splits(&entry.codec, Start::Prompt(head), tail, cuts)?;
        entry.codec.decode(&ids);
        let parsed = entry.codec.parse(tail, Some(head));
        prop_assert!(parsed.rest <= tail.len());
        Ok(())
    });
}

/// A conversation is read without a notice, in splits anywhere; cut off after any id it has begun as it does.
#[test]
fn any_split_of_a_conversation() {
    let inputs = |entry| (dialogue(entry), options(), any::<[Index; 12]>());
    check_each(entries(), 16, inputs, |entry, (dialogue, options, ends)| {
        let Ok(encoding) = dialogue.encode(entry, &options) else { return outside() };
        let ids = encoding.ids();
        let ends = ends.map(|end| end.index(ids.len() + 1));
        let events = check_splits(&entry.codec, Start::Conversation, ids, ends)?;
        check_whole_turns(&events)?;
        let odd = events.iter().find(|event| is_odd(event));
        let is_promised = entry.is_certain()
            || options.on_marker != OnMarker::Report
            || encoding.collisions().is_empty();
        // A turn that a text forges begins with ids of that text.
        if is_promised {
            check_starts(&encoding, &events)?;
        }
        prop_assert!(odd.is_none() || !is_promised, "{odd:?} in {events:?}");
        for end in ends {
            let events = read(entry.codec.read_stream(), &[&ids[..end]], TurnReason::Length);
            check_ranges(&events, end)?;
            check_whole_turns(&events)?;
        }
        Ok(())
    });
}

/// A turn's start holds no id of the text that comes next, but for one that holds both.
fn check_starts(encoding: &Encoding, events: &[Event]) -> Result<(), TestCaseError> {
    let sources = encoding.sources();
    for pair in events.windows(2) {
        let [start, text] = pair else { continue };
        let is_text = matches!(text.kind, EventKind::Text(_) | EventKind::Reasoning(_));
        if matches!(start.kind, EventKind::TurnStart { .. }) && is_text {
            let of_text = text.tokens.end.checked_sub(1).map(|last| sources[last as usize]);
            let (first, end) = (start.tokens.start as usize, start.tokens.end as usize);
            let own = sources[first..end.saturating_sub(1).max(first)]
                .iter()
                .all(|source| !source.is_content() || Some(*source) != of_text);
            prop_assert!(own, "{start:?} holds ids of {text:?}");
        }
    }
    Ok(())
}

/// An answer that begins with any character, after a prompt or within the conversation: the turn's start is
/// empty where no id is its own, and the text has every id of its first character.
#[test]
fn an_answer_has_all_ids_of_its_first_character() {
    let answer =
        select(vec!["①", "🦜", "é", "中", "\u{301}", "🇩🇪", "\u{fffd}", "𒀀", "x", "①{", "🦜["]);
    let inputs = |_: &'static Entry| (answer.clone(), any::<bool>());
    check_each(entries(), 8, inputs, |entry, (answer, is_whole)| {
        let asked = [Message::new(Role::User, "x")];
        let prompted =
            EncodeOptions { add_generation_prompt: Some(true), ..EncodeOptions::default() };
        let Ok(prompt) = entry.encode(&asked, &prompted) else { return outside() };
        let Ok(completion) = entry.codec.vocab().try_encode(answer) else { return outside() };
        let answered = [asked[0].clone(), Message::new(Role::Assistant, "y")];
        let Ok(written) = entry.encode(&answered, &EncodeOptions::default()) else {
            return outside();
        };
        let rest = written.text().strip_prefix(prompt.text()).unwrap_or_default();
        let has_space = rest.starts_with(' ');
        let starts = [Start::Prompt(prompt.ids()), Start::Completion];
        for start in starts.into_iter().take(if is_whole { 0 } else { 2 }) {
            let events = check_splits(&entry.codec, start, &completion, 0..=completion.len())?;
            check_first(entry, &events, 0, (&completion, has_space))?;
        }
        if is_whole {
            let ids = [prompt.ids(), &completion].concat();
            let events = check_splits(&entry.codec, Start::Conversation, &ids, 0..=ids.len())?;
            check_first(entry, &events, prompt.ids().len() as u32, (&completion, has_space))?;
        }
        Ok(())
    });
}

/// What an answer from id `base` on tells first: a start that ends before it, and text that begins there. With
/// `has_space`, the row has a space after the prompt.
fn check_first(
    entry: &Entry,
    events: &[Event],
    base: u32,
    (answer, has_space): (&[TokenId], bool),
) -> Result<(), TestCaseError> {
    let is_told = |event: &&Event| {
        !matches!(event.kind, EventKind::TurnStart { .. } | EventKind::TurnEnd { .. })
            && event.tokens.end > base
    };
    let Some(first) = events.iter().find(is_told) else { return Ok(()) };
    let is_start =
        |event: &&Event| matches!(event.kind, EventKind::TurnStart { role: Role::Assistant, .. });
    let space =
        entry.codec.vocab().token_bytes(answer[0]).is_ok_and(|bytes| bytes.starts_with(b" "));
    let own = base + u32::from(space && has_space);
    if let Some(start) = events.iter().rfind(is_start) {
        prop_assert!(start.tokens.end <= own, "{events:?}");
        if entry.codec.generation_prompt().is_empty() && own == base {
            prop_assert!(start.tokens.is_empty(), "{events:?}");
        }
    }
    // A token that opens reasoning goes with the reasoning.
    prop_assert!(first.tokens.start <= own, "{events:?} of {answer:?}");
    Ok(())
}

/// What follows the prompt is read as the assistant's message, up to an id that stops the model.
#[test]
fn a_completion_is_the_last_message() {
    let inputs = |entry| (dialogue(entry), assistant(entry), any::<usize>());
    check_each(entries(), 120, inputs, |entry, (mut before, last, stop)| {
        // The assistant's turn is the next.
        while before.ends_with_assistant() {
            before.messages.pop();
        }
        if before.messages.is_empty() {
            before.messages.push(Message::new(Role::User, "x"));
        }
        let checked = check_completion(entry, &before, last.clone(), stop);
        // After a prompt that always opens reasoning, an answer has some.
        let may_reason = entry.able.reasoning && last.reasoning.is_none();
        if matches!(checked, Err(TestCaseError::Reject(_))) && may_reason {
            let reasoning = Some("So.".to_owned());
            return check_completion(entry, &before, Message { reasoning, ..last }, stop);
        }
        checked
    });
}

/// Reasoning that may be written as none, after a prompt that opens it, or does not.
#[test]
fn a_completion_with_blank_reasoning_is_the_last_message() {
    let before = Dialogue { messages: vec![Message::new(Role::User, "x")], tools: None };
    let blanks = ["\n", " ", "\n\n", " \n\t", "\u{2581}", "\u{2581} ", "\u{3000}"];
    let (mut within, mut all) = (0, 0);
    for entry in entries().iter().filter(|entry| entry.able.reasoning && entry.made) {
        for (blank, content) in blanks.iter().flat_map(|blank| [(*blank, ""), (*blank, "y")]) {
            let reasoning = Some(blank.to_owned());
            let last = Message { reasoning, ..Message::new(Role::Assistant, content) };
            let checked = check_completion(entry, &before, last, 0);
            if let Err(TestCaseError::Fail(failure)) = &checked {
                panic!("{}, {blank:?}, {content:?}: {failure}", entry.name);
            }
            within += usize::from(checked.is_ok());
            all += 1;
        }
    }
    assert!(2 * within > all, "{within} of {all}");
}

fn check_completion(
    entry: &Entry,
    before: &Dialogue,
    last: Message,
    stop: usize,
) -> Result<(), TestCaseError> {
    let whole = before.with(last);
    let Some(expected) = whole.canonical(entry).pop() else { return outside() };
    let marker = if entry.is_certain() { OnMarker::Report } else { OnMarker::Error };
    // A prompt may ask for reasoning, or for none. White space alone may be written as none.
    let asks = expected.reasoning.as_ref().map(|_| true);
    let options = |add_generation_prompt, thinking| EncodeOptions {
        add_generation_prompt: Some(add_generation_prompt),
        boundary: Boundary::Isolated,
        thinking,
        on_marker: marker,
        ..EncodeOptions::default()
    };
    let Ok(mut prompt) = before.encode(entry, &options(true, asks)) else { return outside() };
    let Ok(encoding) = whole.encode(entry, &options(false, asks)) else { return outside() };
    if asks.is_none() && !encoding.ids().starts_with(prompt.ids()) {
        // The default prompt opens reasoning, and an empty block is spelled otherwise.
        let Ok(without) = before.encode(entry, &options(true, Some(false))) else {
            return outside();
        };
        prompt = without;
    }
    let prompt = prompt.ids();
    let completion = encoding.ids().strip_prefix(prompt);
    let Some(completion) = completion else {
        // With an answer, reasoning before it is left out.
        prop_assert!(!whole.canonical(entry).starts_with(&before.canonical(entry)), "{whole:?}");
        return outside();
    };
    let stops = entry.codec.stop_ids();
    prop_assert!(!stops.is_empty());
    let masked = encoding.assistant_mask();
    let end = completion.iter().zip(&masked[prompt.len()..]).rposition(|(_, &is)| is == 1);
    let mut completion = completion[..end.map_or(0, |end| end + 1)].to_vec();
    if !completion.last().is_some_and(|last| stops.contains(last)) {
        completion.push(stops[stop % stops.len()]);
    }
    let is_default = prompt.ends_with(entry.codec.generation_prompt());
    let by_default = is_default.then_some(Start::Completion);
    for start in by_default.into_iter().chain([Start::Prompt(prompt)]) {
        let given = match start {
            Start::Prompt(prompt) => Some(prompt),
            _ => None,
        };
        let events = check_splits(&entry.codec, start, &completion, [completion.len() / 2])?;
        let told = collect(&events);
        let parsed = entry.codec.parse(&completion, given);
        prop_assert_eq!(unnumbered(&parsed.message), unnumbered(&expected), "{:?}", events);
        prop_assert!(told.len() <= 1, "{:?}", events);
        prop_assert!(
            [TurnReason::Stop, TurnReason::Action].contains(&parsed.finish),
            "{:?}",
            parsed
        );
        prop_assert_eq!(parsed.rest, completion.len(), "{:?}", events);
        let mut stream = given
            .map_or_else(|| entry.codec.stream(None), |prompt| entry.codec.stream(Some(prompt)))
            .keeping();
        let mut events = Vec::new();
        stream.push_all(&completion, &mut events);
        stream.finish(TurnReason::Stop, &mut events);
        prop_assert_eq!(unnumbered(&stream.message()), unnumbered(&expected));
    }
    Ok(())
}

/// What is said of speed rests on it: nearly all ids of long arguments need no more than to be told.
#[test]
fn ids_of_long_arguments_pass_at_once() {
    let arguments = format!("{{\"text\": \"{}\"}}", "some words of a text ".repeat(100));
    let messages = [Message::new(Role::User, "x"), calling(function("write", &arguments))];
    let mut slow = Vec::new();
    let able: Vec<&Entry> = entries().iter().filter(|entry| entry.able.functions).collect();
    assert!(!able.is_empty(), "no format has calls");
    for entry in able {
        let encoding = entry.encode(&messages, &EncodeOptions::default()).expect("it has calls");
        let mut stream = entry.codec.read_stream();
        let mut others = Vec::new();
        let passed = encoding.ids().iter().filter(|&&id| {
            let plain = stream.push_plain(id);
            if plain.is_none() {
                stream.push_slowly(id, &mut others);
            }
            plain.is_some_and(|plain| matches!(plain.part, Part::Action(_)))
        });
        // A default system message may be long too.
        let before = entry.encode(&messages[..1], &EncodeOptions::default()).expect("it has users");
        let (passed, all) = (passed.count(), encoding.ids().len() - before.ids().len());
        if passed * 10 < all * 8 {
            slow.push(format!("{}: {passed} of {all}", entry.name));
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

/// The formats that share the tokens of others: the table `families.toml`.
struct Families {
    /// The family of each format that has another's tokens.
    of: BTreeMap<String, String>,
    /// The formats that are compared with no other.
    alone: Vec<String>,
}

impl Families {
    fn read() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/laws/families.toml");
        let table = std::fs::read_to_string(path).expect("the table");
        let table: toml::Table = table.parse().expect("TOML");
        let rows = |kind: &str| table[kind].as_array().expect("rows").iter();
        let formats = |row: &toml::Value| -> Vec<String> {
            assert!(row["why"].is_str(), "{row:?} has no reason");
            let names = row["formats"].as_array().expect("a list").iter();
            let names: Vec<String> =
                names.map(|name| name.as_str().expect("a name").to_owned()).collect();
            for name in &names {
                let is_format = !name.contains(':') && Format::built_in(name).is_ok();
                assert!(is_format, "{name} is no format without a variant");
            }
            names
        };
        let with_family = |row: &toml::Value| {
            let family = row["name"].as_str().expect("a name").to_owned();
            formats(row).into_iter().map(move |name| (name, family.clone()))
        };
        let families: Vec<(String, String)> = rows("family").flat_map(with_family).collect();
        let of: BTreeMap<String, String> = families.iter().cloned().collect();
        assert_eq!(of.len(), families.len(), "a format is in two families");
        Self { of, alone: rows("alone").flat_map(formats).collect() }
    }

    fn of<'a>(&'a self, entry: &'a Entry) -> &'a str {
        let name = without_variant(entry);
        let by_name = name.split('.').next().unwrap_or_default();
        self.of.get(name).map_or(by_name, String::as_str)
    }

    fn is_alone(&self, entry: &Entry) -> bool {
        self.alone.iter().any(|name| name == without_variant(entry))
    }
}

fn without_variant(entry: &Entry) -> &str {
    entry.format.split(':').next().unwrap_or_default()
}

/// What one format writes, another's reader tells the same, or says that something is odd.
#[test]
fn no_format_is_read_as_another() {
    let families = Families::read();
    let is_beside = |one: &Entry, other: &Entry| {
        // With the same tokens, results stand in a user's turn here, and in turns of their own there, or a newline
        // before a call is text.
        one.format == "qwen3-coder"
            && (other.format == "step3.5" || other.format.starts_with("nemotron3"))
            // The newline before a call is text, where an answer without tokens of its own goes on.
            || one.format == "ernie4.5:thinking" && families.of(other) == "qwen2"
            // A boolean is a word of Python here, which is a text there.
            || one.word("True") != other.word("True")
            // The tags of reasoning are text here, and tokens there.
            || (one.format.starts_with("lfm2") || one.format == "olmo3:think")
                && families.of(other) == "qwen3"
    };
    let options = EncodeOptions::default();
    let of_ids = || shared().iter().filter(|entry| entry.is_ids() && !families.is_alone(entry));
    check_each(of_ids(), 30, dialogue, |entry, dialogue| {
        let others = of_ids().filter(|other| other.vocab == entry.vocab);
        let others = others
            .filter(|other| families.of(other) != families.of(entry))
            .filter(|other| !is_beside(entry, other) && !is_beside(other, entry));
        let Ok(encoding) = dialogue.encode(entry, &options) else { return outside() };
        // A prompt alone may be another format's.
        if dialogue.messages.is_empty() || !encoding.collisions().is_empty() {
            return outside();
        }
        let mine = entry.codec.decode(encoding.ids());
        // In a short run, every other reader; a conversation of another length has others.
        let (turn, of) = (encoding.ids().len(), if is_long() { 1 } else { 2 });
        let others = others.enumerate().filter(|(at, _)| (at + turn) % of == 0);
        for (_, other) in others {
            let events = read(other.codec.read_stream(), &[encoding.ids()], TurnReason::Stop);
            let is_odd = events.iter().any(|event| matches!(event.kind, EventKind::Notice { .. }));
            let theirs = other.codec.decode(encoding.ids());
            // A text may spell a marker of the other format.
            let collides = Dialogue { messages: mine.clone(), tools: None }.encode(other, &options);
            if collides.is_ok_and(|encoding| !encoding.collisions().is_empty()) {
                continue;
            }
            let bare = |messages: &[Message]| -> Vec<Message> {
                messages.iter().map(unnumbered).map(|m| Message { call_id: None, ..m }).collect()
            };
            prop_assert!(
                is_odd || bare(&theirs) == bare(&mine),
                "{} reads {mine:?} as {theirs:?}",
                other.name
            );
        }
        Ok(())
    });
}
