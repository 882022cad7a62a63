//! P2 of whole files made at random: each that loads and binds gives its conversations back, whatever the chunks,
//! and what a model answers after its prompt is read as the answer.
//!
//! `CHATCODEC_FILES` says how many files, where that is to be more than a few.

use std::cell::Cell;

use crate::common::events::{Start, is_odd, read, read_by_id};
use crate::common::files::{Tape, file, spellings};
use crate::common::table::{code, function, made_for, meant};
use crate::common::{cases, check, declared};
use chatcodec::{
    Boundary, Codec, EncodeOptions, Format, Guarantee, Message, OnMarker, Role, TurnReason, Vocab,
};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// How many choices a file and its conversations take at most.
const LENGTH: usize = 420;

/// Conversations tried with each file.
const CONVERSATIONS: usize = 6;

/// What texts are made of beside what the file itself holds.
const TEXTS: &[&str] = &["x", "", "\n", " ", "\n\n", "ab c", "<|e|>", "{\"a\": 1}", "\u{a0}", "é"];

fn a_text(tape: &mut Tape, own: &[String]) -> String {
    let mut text = String::new();
    for _ in 0..=tape.below(3) {
        if tape.may(40) && !own.is_empty() {
            text.push_str(&own[tape.below(own.len())]);
        } else {
            text.push_str(tape.one_of(TEXTS));
        }
    }
    text
}

fn a_message(tape: &mut Tape, own: &[String]) -> Message {
    let text = a_text(tape, own);
    match tape.below(10) {
        0..3 => {
            let name = tape.may(15).then(|| "ada".to_owned());
            Message { name, ..Message::new(Role::User, text) }
        }
        3..7 => {
            let reasoning = tape.may(35).then(|| a_text(tape, own));
            let mut calls = Vec::new();
            if tape.may(35) {
                for _ in 0..=tape.below(2) {
                    let arguments = tape.one_of(&["{\"a\": 1}", "{}", "{\"a\": \"\\nb</p>\"}"]);
                    let is_code = tape.may(30);
                    let source = a_text(tape, own);
                    calls.push(if is_code {
                        code(None, &source)
                    } else {
                        function("f", arguments)
                    });
                }
            }
            let text = if !calls.is_empty() && tape.may(50) { String::new() } else { text };
            Message { reasoning, calls, ..Message::new(Role::Assistant, text) }
        }
        7 => Message::new(Role::System, text),
        _ => {
            let call_id = tape.may(60).then(|| "call_0".to_owned());
            let name = tape.may(40).then(|| "f".to_owned());
            Message { call_id, name, ..Message::new(Role::Tool, text) }
        }
    }
}

struct Talk {
    messages: Vec<Message>,
    tools: Option<String>,
    options: EncodeOptions,
}

impl Talk {
    fn new(tape: &mut Tape, codec: &Codec, own: &[String]) -> Self {
        let prompt = [None, Some(true), Some(false)][tape.below(3)];
        let boundary = if tape.may(30) { Boundary::Isolated } else { Boundary::Reference };
        let is_broken = tape.may(20) && codec.format().guarantee() == Guarantee::Text;
        let on_marker = if is_broken { OnMarker::Break } else { OnMarker::Report };
        let options = EncodeOptions {
            add_generation_prompt: prompt,
            boundary,
            on_marker,
            ..EncodeOptions::default()
        };
        let mut talk = Self { messages: Vec::new(), tools: None, options };
        let plain = EncodeOptions::default();
        let fits = |messages: &[Message]| codec.encode(messages.to_vec(), None, &plain).is_ok();
        if tape.may(35) {
            let system = Message::new(Role::System, a_text(tape, own));
            talk.messages.push(system);
            if !fits(&[talk.messages.clone(), vec![Message::new(Role::User, "x")]].concat()) {
                talk.messages.clear();
            }
        }
        for _ in 0..=tape.below(5) {
            let message = a_message(tape, own);
            talk.messages.push(message);
            if !fits(&talk.messages) {
                talk.messages.pop();
            }
        }
        talk.tools = tape.may(25).then(|| tape.one_of(&["[]", "{\"a\": 1}", "x\n"]).to_owned());
        talk
    }

    fn canonical(&self, codec: &Codec) -> Vec<Message> {
        codec.canonical(self.messages.clone(), declared(codec, self.tools.as_deref()).as_ref())
    }

    /// The round trip, in any chunks; whether it was promised.
    fn check(&self, codec: &Codec, file: &str) -> Result<bool, TestCaseError> {
        let tools = declared(codec, self.tools.as_deref());
        let encoding = codec.encode(self.messages.clone(), tools.as_ref(), &self.options);
        let Ok(encoding) = encoding else { return Ok(false) };
        let is_promised =
            self.options.on_marker == OnMarker::Break || encoding.collisions().is_empty();
        let ids = encoding.ids();
        let events = read(codec.read_stream(), &[ids], TurnReason::Stop);
        let by_id = read_by_id(codec.read_stream(), ids, TurnReason::Stop);
        prop_assert_eq!(&events, &by_id, "id by id of {:?} in\n{}", encoding.text(), file);
        if !is_promised {
            return Ok(false);
        }
        let expected = self.canonical(codec);
        prop_assert_eq!(
            codec.decode(ids),
            expected,
            "{:?} with {:?} in\n{}",
            encoding.text(),
            self.options.add_generation_prompt,
            file
        );
        let odd = events.iter().find(|event| is_odd(event));
        prop_assert!(odd.is_none(), "{:?} of {:?} in\n{}", odd, encoding.text(), file);
        self.check_answer(codec, file)?;
        Ok(true)
    }

    /// What follows the prompt is read as the last message, if that is an answer.
    fn check_answer(&self, codec: &Codec, file: &str) -> Result<(), TestCaseError> {
        let Some((last, before)) = self.messages.split_last() else { return Ok(()) };
        if last.role != Role::Assistant || codec.format().guarantee() == Guarantee::Text {
            return Ok(());
        }
        if before.is_empty() || before.last().is_some_and(|m| m.role == Role::Assistant) {
            // What is written before the answer, or closes the answer before it, is not a prompt's.
            return Ok(());
        }
        let options = |prompt| EncodeOptions {
            add_generation_prompt: Some(prompt),
            boundary: Boundary::Isolated,
            ..EncodeOptions::default()
        };
        let tools = declared(codec, self.tools.as_deref());
        let tools = tools.as_ref();
        let Ok(prompt) = codec.encode(before.to_vec(), tools, &options(true)) else {
            return Ok(());
        };
        let whole = codec.encode(self.messages.clone(), tools, &options(false));
        let Ok(whole) = whole else { return Ok(()) };
        if !whole.collisions().is_empty() {
            return Ok(());
        }
        let Some(answer) = whole.ids().strip_prefix(prompt.ids()) else { return Ok(()) };
        let mask = &whole.assistant_mask()[prompt.ids().len()..];
        let end = mask.iter().rposition(|&is| is == 1).map_or(0, |end| end + 1);
        let expected = self.canonical(codec).pop().expect("a message");
        let start = Start::Prompt(prompt.ids());
        let events = read(start.stream(codec), &[&answer[..end]], TurnReason::Stop);
        let by_id = read_by_id(start.stream(codec), &answer[..end], TurnReason::Stop);
        prop_assert_eq!(
            &events,
            &by_id,
            "id by id of the answer in {:?} in\n{}",
            whole.text(),
            file
        );
        let parsed = codec.parse(&answer[..end], Some(prompt.ids())).message;
        let told = |message: &Message| {
            let bodies: Vec<_> = message.calls.iter().map(|call| call.body.clone()).collect();
            (message.content.clone(), message.reasoning.clone(), bodies)
        };
        prop_assert_eq!(
            told(&parsed),
            told(&expected),
            "the answer of {:?} in\n{}",
            whole.text(),
            file
        );
        Ok(())
    }
}

#[derive(Default)]
struct Counts {
    files: Cell<u32>,
    loaded: Cell<u32>,
    bound: Cell<u32>,
    talks: Cell<u32>,
    promised: Cell<u32>,
}

fn add(count: &Cell<u32>) {
    count.set(count.get() + 1);
}

#[test]
#[allow(clippy::print_stderr, reason = "a long run says what it did")]
fn a_file_at_random_gives_its_conversations_back() {
    let vocabs: Vec<Vocab> = made_for(&spellings()).into_iter().map(|(_, vocab)| vocab).collect();
    let asked = std::env::var("CHATCODEC_FILES").ok().and_then(|count| count.parse().ok());
    let files = asked.map_or(4_000, |asked: u32| asked / cases(1));
    let counts = Counts::default();
    check("files", files, Tape::any(LENGTH), |mut tape| {
        let text = file(&mut tape);
        add(&counts.files);
        let Ok(format) = Format::parse("random", &text) else { return Ok(()) };
        add(&counts.loaded);
        let vocab = &vocabs[tape.below(vocabs.len())];
        let Ok(codec) = Codec::new(&format, vocab) else { return Ok(()) };
        add(&counts.bound);
        let own = meant(&text);
        for _ in 0..CONVERSATIONS {
            let talk = Talk::new(&mut tape, &codec, &own);
            add(&counts.talks);
            if talk.check(&codec, &text)? {
                add(&counts.promised);
            }
        }
        Ok(())
    });
    let Counts { files, loaded, bound, talks, promised } = counts;
    let [files, loaded, bound] = [files, loaded, bound].map(Cell::into_inner);
    let [talks, promised] = [talks, promised].map(Cell::into_inner);
    eprintln!(
        "{files} files, {loaded} load, {bound} bind; {talks} conversations, {promised} read back"
    );
    // About a fifth of the files load; a generator that makes hardly any that load would prove nothing.
    assert!(loaded * 8 > files, "{loaded} of {files} files load");
    assert!(promised * 3 > talks, "{promised} of {talks} conversations are promised");
}
