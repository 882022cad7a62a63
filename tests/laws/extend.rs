//! The next turn's prompt of every built-in format: it begins with the ids that were seen, and reads as the
//! whole conversation; where a model wrote what the format writes, it is the whole conversation's.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::Domain;
use crate::common::dialogue::{Dialogue, assistant, dialogue, hostile, unnumbered};
use crate::common::events::read;
use crate::common::table::{Entry, check_each, entries};
use chatcodec::{
    Boundary, EncodeOptions, Encoding, Error, EventKind, LabelOptions, Message, NoteKind,
    NoticeKind, OnMarker, OnReasoning, Role, TokenId, TurnReason,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestCaseError;

fn options(entry: &Entry, add_generation_prompt: Option<bool>) -> EncodeOptions {
    EncodeOptions {
        add_generation_prompt,
        boundary: Boundary::Isolated,
        on_marker: if entry.is_certain() { OnMarker::Report } else { OnMarker::Error },
        ..EncodeOptions::default()
    }
}

/// A conversation that asks, an answer, and what is said then.
#[derive(Debug)]
struct Turns {
    before: Dialogue,
    answer: Message,
    after: Vec<Message>,
}

impl Turns {
    fn answered(&self) -> Dialogue {
        self.before.with(self.answer.clone())
    }

    fn whole(&self) -> Dialogue {
        self.after.iter().fold(self.answered(), |whole, message| whole.with(message.clone()))
    }

    /// The prompt, and what the format writes after it for the answer, up to what stops a model.
    fn written(&self, entry: &Entry) -> Option<(Encoding, Vec<TokenId>)> {
        let prompt = self.before.encode(entry, &options(entry, Some(true))).ok()?;
        let answered = self.answered().encode(entry, &options(entry, Some(false))).ok()?;
        let mask = answered.assistant_mask();
        let end = mask.iter().rposition(|&is| is == 1).map_or(0, |last| last + 1);
        // What came before may be longer while it is the last message.
        let completion =
            answered.ids().get(..end.max(prompt.ids().len()))?.strip_prefix(prompt.ids())?;
        Some((prompt, completion.to_vec()))
    }
}

fn turns(entry: &'static Entry) -> impl Strategy<Value = Turns> {
    let after = prop_oneof![dialogue(entry).prop_map(|dialogue| dialogue.messages), results(entry)];
    (dialogue(entry), assistant(entry), after).prop_map(move |(before, mut answer, mut after)| {
        for (number, call) in answer.calls.iter_mut().enumerate() {
            // As the caller is told them.
            call.id = Some(format!("call_{number}"));
        }
        if ["kimi-k2", "command-a"].iter().any(|name| entry.format.starts_with(name)) {
            // Its calls are told by ids that hold their names or numbers: others are known to the whole conversation
            // only.
            for call in &mut answer.calls {
                call.id = None;
            }
            for message in &mut after {
                message.call_id = None;
            }
        }
        let mut turns = Turns { before, answer, after: Vec::new() };
        // As much of it as can be said then.
        while !after.is_empty() {
            turns.after.clone_from(&after);
            if turns.whole().encode(entry, &options(entry, None)).is_ok() {
                return turns;
            }
            after.pop();
        }
        turns.after.clear();
        turns
    })
}

/// Results of calls, by their order or the ids that were told, and a question.
fn results(entry: &'static Entry) -> impl Strategy<Value = Vec<Message>> {
    let id = select(vec![None, Some("call_0".to_owned()), Some("call_1".to_owned())]);
    let result = (id, hostile(entry))
        .prop_map(|(call_id, text)| Message { call_id, ..Message::new(Role::Tool, text) });
    let question = hostile(entry).prop_map(|text| Message::new(Role::User, text));
    (vec(result, 1..3), proptest::option::of(question))
        .prop_map(|(results, question)| results.into_iter().chain(question).collect())
}

/// Whether what the conversation has is written in its last user's turn, and there is another.
fn is_moved(entry: &Entry, turns: &Turns) -> bool {
    let moves = |what: &str| {
        let place = entry.codec.format().text().lines().find(|line| line.starts_with("place"));
        let inherits = ["mistral:v11", "mistral:small3", "mistral:small3.2"];
        (!entry.format.contains(':') || inherits.contains(&entry.format))
            && place.is_some_and(|place| place.contains(&format!("{what} = \"last_user\"")))
    };
    let is_system = |message: &Message| message.role == Role::System;
    let is_user = |message: &Message| message.role == Role::User;
    turns.after.iter().any(is_user)
        && (moves("tools") && turns.before.tools.is_some()
            || moves("system") && turns.before.messages.iter().any(is_system))
}

/// Whether something follows where turns are written otherwise then.
fn is_reasoned(entry: &Entry, turns: &Turns) -> bool {
    let text = entry.codec.format().text();
    let leaves_out = ["since_last_user", "reasoning = \"last\""];
    text.contains("until_answered")
        || text.contains("since_last_answer")
        || leaves_out.iter().any(|words| text.contains(words)) && !turns.after.is_empty()
}

fn path_of(error: &Error) -> &str {
    match error {
        Error::Message { path, .. } => path,
        _ => "",
    }
}

fn check_prefix(
    extended: &Encoding,
    prompt: &Encoding,
    completion: &[TokenId],
) -> Result<(), TestCaseError> {
    let seen = [prompt.ids(), completion].concat();
    prop_assert!(extended.ids().starts_with(&seen));
    prop_assert!(extended.text().starts_with(prompt.text()));
    let (ids, old) = (extended.ids().len(), prompt.ids().len());
    let offsets = extended.offsets();
    prop_assert_eq!(offsets.len(), ids);
    prop_assert_eq!(&offsets[..old], &prompt.offsets()[..]);
    prop_assert!(offsets.iter().is_sorted_by_key(|(start, _)| *start));
    // The generation prompt has become the header of a message.
    for (new, old) in extended.sources().iter().zip(prompt.sources()) {
        prop_assert!(*new == old || !new.is_content() && !old.is_content() && old.message == -1);
    }
    prop_assert_eq!(extended.message_indices().len(), ids);
    prop_assert_eq!(extended.is_control().len(), ids);
    prop_assert_eq!(extended.char_offsets().len(), ids);
    check_places(extended)
}

/// What is found in the caller's text and the model's is within the text.
fn check_places(extended: &Encoding) -> Result<(), TestCaseError> {
    let points = extended.text().chars().count();
    for found in extended.neutralized() {
        prop_assert!(found.start < found.end && found.end <= points, "{found:?}");
    }
    for found in extended.collisions() {
        prop_assert!(found.start <= found.end && found.end <= points, "{found:?}");
    }
    Ok(())
}

/// Whether an answer is written as it was once it is read: a text ` 0` may read as the number.
fn is_written_again(entry: &Entry, turns: &Turns, read: Message) -> bool {
    let text_of = |whole: &Dialogue| {
        let encoded = whole.encode(entry, &options(entry, None)).ok();
        encoded.map(|encoded| encoded.text().to_owned())
    };
    text_of(&turns.before.with(read)) == text_of(&turns.answered())
}

/// What a model writes as the format does gives what the format writes of it all.
#[test]
fn the_next_prompt_is_that_of_the_whole_conversation() {
    let domain = Domain::default();
    let (extended, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    check_each(
        entries(),
        120,
        |entry| (turns(entry), any::<Index>(), 0..3),
        |entry, (turns, index, stop)| {
            domain.try_one();
            let Some((prompt, mut completion)) = turns.written(entry) else { return Ok(()) };
            let stops = entry.codec.stop_ids();
            let own = completion.last().copied().filter(|last| stops.contains(last));
            // As it was written; without the id that stopped it; with another.
            let ends_otherwise =
                ["harmony", "olmo3"].iter().any(|name| entry.format.starts_with(name));
            let mut is_own = !ends_otherwise || turns.after.is_empty();
            if stop > 0 && own.is_some() {
                completion.pop();
            }
            if stop == 2 {
                let other = stops[index.index(stops.len())];
                is_own &= Some(other) == own;
                completion.push(other);
            }
            let after = turns.after.clone();
            let result = entry.codec.extend(
                &prompt,
                &completion,
                after,
                &options(entry, None),
                OnReasoning::Keep,
            );
            let whole = turns.whole();
            let whole_options = options(entry, None);
            let encoded = whole.encode(entry, &whole_options);
            let told = entry.codec.parse(&completion, Some(prompt.ids())).message;
            let next = match result {
                Ok(next) => next,
                Err(error) => {
                    refused.fetch_add(1, Ordering::Relaxed);
                    prop_assert!(!is_own, "{error} for {completion:?}");
                    return Ok(());
                }
            };
            extended.fetch_add(1, Ordering::Relaxed);
            check_prefix(&next, &prompt, &completion)?;
            check_history(entry, &turns, &told, &next)?;
            let read = whole.canonical(entry);
            if !next.notes().is_empty() {
                // Written, U+2581 is no white space that rows trim; read, it is a space.
                let is_odd = format!("{:?}", turns.answer).contains('\u{2581}');
                // Without what stops it, the end of a text may be read as the format's own.
                let meant = turns.answered().canonical(entry).pop();
                let is_told =
                    meant.as_ref().is_some_and(|meant| unnumbered(meant) == unnumbered(&told));
                let is_stable = meant.is_some_and(|meant| is_written_again(entry, &turns, meant));
                let is_expected = !is_own || encoded.is_err() || is_odd || !is_told || !is_stable;
                let is_expected =
                    is_expected || is_moved(entry, &turns) || is_reasoned(entry, &turns);
                // After the assistant's calls an answer may be read as more of that message.
                let follows_calls =
                    turns.before.messages.last().is_some_and(|last| !last.calls.is_empty());
                let is_expected = is_expected || follows_calls;
                prop_assert!(is_expected, "{:?} for {completion:?}", next.notes());
                return Ok(());
            }
            // A system message of nothing leaves no trace, and one with a name has rows of its own.
            let has_text =
                |m: &Message| m.role != Role::System || m.name.is_none() && !m.content.is_empty();
            prop_assert!(!is_moved(entry, &turns) || !turns.before.messages.iter().all(has_text));
            if !read.starts_with(&turns.answered().canonical(entry)) {
                // With what follows, reasoning is written that was not.
                return Ok(());
            }
            prop_assert_eq!(entry.codec.decode(next.ids()), read);
            let Ok(encoded) = encoded else { return Ok(()) };
            domain.is_within();
            if is_own {
                prop_assert_eq!(next.ids(), encoded.ids());
                // Of ids only the space is known that some vocabularies write for U+2581.
                if encoded.text().contains('\u{2581}') {
                    let spaced = |text: &str| text.replace('\u{2581}', " ");
                    prop_assert_eq!(spaced(next.text()), spaced(encoded.text()));
                } else {
                    prop_assert_eq!(next.text(), encoded.text());
                    prop_assert_eq!(next.offsets(), encoded.offsets());
                    prop_assert_eq!(next.char_offsets(), encoded.char_offsets());
                }
                prop_assert_eq!(next.is_control(), encoded.is_control());
                prop_assert_eq!(next.assistant_mask(), encoded.assistant_mask());
                prop_assert_eq!(next.message_indices(), encoded.message_indices());
                // White space alone may be read as the format's own.
                if entry.codec.parse(&completion, None).message.content == turns.answer.content {
                    prop_assert_eq!(next.sources(), encoded.sources());
                }
                let options = LabelOptions { last_only: true, ..LabelOptions::default() };
                prop_assert_eq!(next.labels(&options), encoded.labels(&options));
            }
            Ok(())
        },
    );
    let (extended, refused) = (extended.into_inner(), refused.into_inner());
    assert!(extended > 4 * refused, "{extended} were extended, {refused} refused");
    domain.check(40);
}

/// The whole reads as what came before, the answer as it was read alone, and what came after; or a note says what
/// differs.
fn check_history(
    entry: &Entry,
    turns: &Turns,
    told: &Message,
    next: &Encoding,
) -> Result<(), TestCaseError> {
    let is_about = |kinds: &[NoteKind]| next.notes().iter().any(|note| kinds.contains(&note.kind));
    for note in next.notes() {
        prop_assert!(note.tokens.start <= note.tokens.end, "{note:?}");
        prop_assert!(note.tokens.end <= next.ids().len(), "{note:?}");
        prop_assert!(note.message >= -1 && !note.text.is_empty(), "{note:?}");
    }
    // An answer of nothing may read as the prompt alone.
    if *told == Message::new(Role::Assistant, "") || is_about(&[NoteKind::Reads, NoteKind::Moved]) {
        return Ok(());
    }
    let read = entry.codec.decode(next.ids());
    let as_told = turns.before.with(told.clone());
    let mut answered = as_told.canonical(entry);
    let whole = turns.after.iter().fold(as_told, |whole, message| whole.with(message.clone()));
    let after = whole.canonical(entry).split_off(answered.len());
    let canonical = answered.pop();
    // Reasoning that an answer ends, and what follows brings back, is as the prompt has it.
    let prompted = turns.before.canonical(entry);
    let messages = |before: &[Message], answer: &Message| -> Vec<Message> {
        before.iter().chain([answer]).chain(&after).cloned().collect()
    };
    // Which result answers which call depends on ids that only some formats write; an answer of nothing may read
    // as the prompt alone.
    let plain = |messages: Vec<Message>| -> Vec<Message> {
        let plain = messages.iter().map(unnumbered);
        let plain = plain.map(|message| Message { call_id: None, ..message });
        // Reasoning that stays, where `encode` would leave it out, is told by a note.
        let keeps_reasoning = is_about(&[NoteKind::Reasoning]);
        let plain = plain.map(|message| {
            let reasoning = message.reasoning.clone().filter(|_| !keeps_reasoning);
            Message { reasoning, ..message }
        });
        plain.filter(|message| *message != Message::new(Role::Assistant, "")).collect()
    };
    let read = plain(read);
    // What ends it may be read as the format's own: then it is the canonical message.
    let answers: Vec<&Message> = canonical.iter().chain([told]).collect();
    let is_read =
        |before: &[Message]| answers.iter().any(|answer| read == plain(messages(before, answer)));
    if !is_read(&prompted) && !is_read(&answered) {
        prop_assert_eq!(read, plain(messages(&answered, told)), "notes: {:?}", next.notes());
    }
    Ok(())
}

/// Of what a model wrote, and was taken, no id is one that means nothing where it is.
fn check_no_stray(
    entry: &Entry,
    extended: &Encoding,
    from: usize,
    length: usize,
) -> Result<(), TestCaseError> {
    let events = read(entry.codec.read_stream(), &[extended.ids()], TurnReason::Stop);
    for event in events {
        let is_within = (from..from + length).contains(&(event.tokens.start as usize));
        let kinds = [NoticeKind::UnexpectedControl, NoticeKind::UnknownId];
        let is_stray =
            matches!(&event.kind, EventKind::Notice { kind, .. } if kinds.contains(kind));
        let at = event.tokens.start as usize;
        let is_noted = extended.notes().iter().any(|note| match note.kind {
            // Left of a call that is none, and noted.
            NoteKind::Notice(NoticeKind::UnexpectedControl) => note.tokens.contains(&at),
            // A token that ends what has not begun is mended right before it.
            NoteKind::Notice(NoticeKind::Mended) => note.tokens == (at..at),
            _ => false,
        });
        let is_read_otherwise = extended.notes().iter().any(|note| note.kind == NoteKind::Reads);
        prop_assert!(!is_within || !is_stray || is_noted || is_read_otherwise, "{event:?}");
    }
    Ok(())
}

/// Whatever a model writes: what is not refused begins with it and reads as what it was parsed as.
#[test]
fn whatever_a_model_writes() {
    let domain = Domain::default();
    let pieces = |entry: &'static Entry| {
        let own: Vec<TokenId> = entry.codec.vocab().control().values().copied().collect();
        let size = i32::try_from(entry.codec.vocab().size()).expect("few ids");
        let encode = |text: String| entry.codec.vocab().try_encode(&text).unwrap_or_default();
        let piece = prop_oneof![
            6 => hostile(entry).prop_map(encode),
            2 => select(&entry.meant[..]).prop_map(encode),
            1 => select(own).prop_map(|id| vec![id]),
            1 => select(entry.codec.stop_ids()).prop_map(|id| vec![id]),
            2 => (0..size).prop_map(|id| vec![id]),
            1 => (0..300i32).prop_map(|id| vec![id]),
        ];
        vec(piece, 0..5).prop_map(|pieces| pieces.concat())
    };
    check_each(
        entries(),
        100,
        |entry| (turns(entry), pieces(entry)),
        |entry, (mut turns, completion)| {
            domain.try_one();
            let Some((prompt, _)) = turns.written(entry) else { return Ok(()) };
            let options = options(entry, None);
            let next = match entry.codec.extend(
                &prompt,
                &completion,
                turns.after.clone(),
                &options,
                OnReasoning::Keep,
            ) {
                Ok(next) => next,
                Err(error) => {
                    let path = path_of(&error);
                    let is_told = ["completion", "new_messages", "add_generation_prompt"];
                    prop_assert!(is_told.iter().any(|told| path.starts_with(told)), "{error}");
                    return Ok(());
                }
            };
            domain.is_within();
            check_prefix(&next, &prompt, &completion)?;
            check_no_stray(entry, &next, prompt.ids().len(), completion.len())?;
            let told = entry.codec.parse(&completion, Some(prompt.ids())).message;
            check_history(entry, &turns, &told, &next)?;
            turns.answer = told;
            if next.notes().is_empty() && turns.answer != Message::new(Role::Assistant, "") {
                prop_assert_eq!(entry.codec.decode(next.ids()), turns.whole().canonical(entry));
            }
            let adopted = entry.codec.adopt(prompt.ids());
            let adopted = entry.codec.extend(
                &adopted,
                &completion,
                turns.after.clone(),
                &options,
                OnReasoning::Keep,
            );
            // Ids that calls had before they were written are not among those of the prompt.
            let is_told = turns.before.messages.iter().all(|message| message.calls.is_empty());
            if is_told
                && !is_moved(entry, &turns)
                && let Ok(adopted) = adopted
            {
                prop_assert_eq!(adopted.ids(), next.ids());
            }
            Ok(())
        },
    );
    domain.check(40);
}

/// A model that goes on as the next user: the vocabulary puts a space before text after a control token, and none
/// where the user's text goes on after that header.
#[test]
fn a_text_after_a_header_that_the_model_wrote() {
    let entry = entries().iter().find(|entry| entry.name == "ernie4.5 on prefixed pieces");
    let entry = entry.expect("an entry");
    let codec = &entry.codec;
    let options = options(entry, Some(true));
    let turn = |role, text: &str| Message::new(role, text);
    let prompt = entry.encode(&[turn(Role::User, "x")], &options).expect("a prompt");
    let stop = codec.vocab().control()["<|end_of_sentence|>"];
    let completion = [codec.vocab().encode("a"), vec![stop], codec.vocab().encode("User: ")];
    let new = vec![turn(Role::User, "b")];
    let next = codec
        .extend(&prompt, &completion.concat(), new, &options, OnReasoning::Keep)
        .expect("a text");
    let told = [turn(Role::User, "x"), turn(Role::Assistant, " a"), turn(Role::User, "b")];
    assert_eq!(codec.decode(next.ids()), told);
}
