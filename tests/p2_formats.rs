//! P2 of files: every format that loads and binds gives its conversations back.
//!
//! The built-in files are mutated where it hurts: in their patterns. Most mutants are refused; those that
//! are not must keep the promise, because the loader said so.

mod common;

use chatcodec::{Call, CallBody, Codec, EncodeOptions, Format, Message, Role, TurnReason, Vocab};
use common::check;
use common::text::text;
use proptest::prelude::*;

/// What a mutation puts into a pattern.
const FRAGMENTS: &[&str] = &[
    "{START}",
    "{STOP}",
    "{STOP|EOS}",
    "{ACT}",
    "{PLUGIN}",
    "{DONE}",
    "{content}",
    "{name}",
    "{calls}",
    "{~}",
    "{/}",
    "{?name:",
    "{?calls:",
    "?}",
    " name={name}",
    "\\n",
    " ",
    "system",
    "user",
    "assistant",
    "x",
    ":",
    "{",
    "}",
    "\"",
    "```",
    "{source}",
    "{language}",
    "{call}",
    "{tools}",
];

/// A mutation: where, how much is taken out, and what is put in.
type Mutation = (prop::sample::Index, usize, Option<&'static str>);

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let fragment = prop::option::of(prop::sample::select(FRAGMENTS));
    prop::collection::vec((any::<prop::sample::Index>(), 0usize..10, fragment), 1..4)
}

/// The file with its patterns, which stand after `[turn]`, mutated.
fn mutate(file: &str, mutations: &[Mutation]) -> String {
    let mut file = file.to_owned();
    for (place, length, fragment) in mutations {
        let from = file.find("begin =").or_else(|| file.find("generation =")).unwrap_or(0);
        let mut start = from + place.index(file.len() - from);
        let mut end = (start + length).min(file.len());
        while !file.is_char_boundary(start) {
            start -= 1;
        }
        while !file.is_char_boundary(end) {
            end -= 1;
        }
        file.replace_range(start..end.max(start), fragment.unwrap_or_default());
    }
    file
}

/// A conversation with `text` in every field that takes any.
fn conversations(text: &str) -> Vec<Vec<Message>> {
    let message = |role| Message::new(role, text);
    let named = |role, name: &str| Message { name: Some(name.into()), ..Message::new(role, text) };
    let call = |body| Message {
        calls: vec![Call { id: None, body }],
        ..Message::new(Role::Assistant, text)
    };
    let function = CallBody::Function { name: text.into(), arguments: "{\"a\": 1}".into() };
    let code = CallBody::Code { language: Some("python".into()), source: text.into() };
    let plain = CallBody::Code { language: None, source: text.into() };
    vec![
        vec![message(Role::System), message(Role::User), message(Role::Assistant)],
        vec![named(Role::User, "a.b"), named(Role::User, "system"), message(Role::User)],
        vec![message(Role::User), call(function), message(Role::Tool)],
        vec![call(code), named(Role::Tool, "interpreter"), call(plain)],
        vec![named(Role::System, "plugin")],
    ]
}

#[test]
fn a_format_that_loads_gives_its_conversations_back() {
    let vocab = Vocab::embedded();
    for name in Format::names() {
        let file = Format::built_in(name).expect("it is built in").text().to_owned();
        check(name, 4000, (mutations(), text()), |(mutations, text)| {
            let mutant = mutate(&file, &mutations);
            let Ok(format) = Format::parse("mutant", &mutant) else { return Ok(()) };
            let Ok(codec) = Codec::new(&format, &vocab) else { return Ok(()) };
            for messages in conversations(&text) {
                let options = EncodeOptions::default();
                let Ok(encoding) = codec.encode(messages.clone(), None, &options) else { continue };
                let expected = codec.canonical(messages, None);
                prop_assert_eq!(codec.decode(encoding.ids()), expected, "{}", mutant);
            }
            let completion = codec.vocab().encode(&text);
            let read = |prompt: Option<&[i32]>| {
                let (mut stream, mut events) = (codec.stream(prompt), Vec::new());
                stream.push_all(&completion, &mut events);
                stream.finish(TurnReason::Stop, &mut events);
                events
            };
            prop_assert_eq!(read(None), read(Some(codec.generation_prompt())), "{}", mutant);
            Ok(())
        });
    }
}
