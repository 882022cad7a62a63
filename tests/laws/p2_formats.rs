//! P2 of files: every format that loads and binds gives its conversations back.
//!
//! The built-in files are mutated where it hurts: in their patterns. Most mutants are refused; those that
//! are not must keep the promise, because the loader said so.

use std::time::{Duration, Instant};

use crate::common::table::{control, made_for};
use crate::common::text::text;
use crate::common::{cases, seed, try_check};
use chatcodec::{
    Call, CallBody, Codec, EncodeOptions, Format, Message, OnMarker, Role, TurnReason, Vocab,
};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// Far more than reading a small file takes.
const GENEROUS: Duration = Duration::from_secs(5);

/// What a mutation puts into a pattern, beside what the files themselves hold.
const FRAGMENTS: &[&str] = &[
    "{content}",
    "{content:trim}",
    "{content:trim_end}",
    "{content:value}",
    "{content:string}",
    "{system}",
    "{name}",
    "{id}",
    "{calls}",
    "{~}",
    "{/}",
    "{?name:",
    "{?system:",
    "{?content:",
    "{?calls:",
    "{?language:",
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
    "{arguments}",
    "{tools}",
    "{?date:",
    "{date}",
    ":month_day}",
    "python",
    "json",
    "first_user",
    "last_user",
    "after_system",
    "alternate",
    "ids",
    "text",
];

/// A mutation: where, how much is taken out, and what is put in.
#[derive(Debug, Clone)]
enum Mutation {
    Put(prop::sample::Index, usize, Option<&'static str>),
    /// A pattern, with another pattern of the file in its place.
    Recombine(prop::sample::Index, prop::sample::Index),
    /// A control token's name, with another's in its place.
    Rename(prop::sample::Index, prop::sample::Index),
    /// Two patterns, each in the place of the other.
    Exchange(prop::sample::Index, prop::sample::Index),
    /// A piece of a pattern.
    Piece(prop::sample::Index, Edit),
}

/// What is done to a piece of a pattern.
#[derive(Debug, Clone, Copy)]
enum Edit {
    Drop,
    Double,
    /// It and the next change places.
    Swap,
    /// This is put before it.
    Before(&'static str),
}

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let fragment = prop::option::of(prop::sample::select(FRAGMENTS));
    let edit = prop::sample::select(vec![
        Edit::Drop,
        Edit::Double,
        Edit::Swap,
        Edit::Before("\\n"),
        Edit::Before(" "),
        Edit::Before("x"),
    ]);
    let two = || any::<(prop::sample::Index, prop::sample::Index)>();
    let mutation = prop_oneof![
        4 => (any::<prop::sample::Index>(), 0usize..10, fragment)
            .prop_map(|(place, length, with)| Mutation::Put(place, length, with)),
        2 => two().prop_map(|(a, b)| Mutation::Recombine(a, b)),
        2 => two().prop_map(|(a, b)| Mutation::Rename(a, b)),
        1 => two().prop_map(|(a, b)| Mutation::Exchange(a, b)),
        6 => (any::<prop::sample::Index>(), edit).prop_map(|(at, edit)| Mutation::Piece(at, edit)),
    ];
    prop::collection::vec(mutation, 1..4)
}

/// The file with what stands after its head mutated.
fn mutate(file: &str, mutations: &[Mutation]) -> String {
    let mut file = file.to_owned();
    for mutation in mutations {
        match mutation {
            Mutation::Put(place, length, fragment) => {
                let from = ["begin =", "order =", "generation ="];
                let from = from.iter().filter_map(|key| file.find(key)).min().unwrap_or(0);
                let start = boundary(&file, from + place.index(file.len() - from));
                let end = boundary(&file, (start + length).min(file.len()));
                file.replace_range(start..end, fragment.unwrap_or_default());
            }
            Mutation::Recombine(a, b) => replace(&mut file, &strings, *a, *b),
            Mutation::Rename(a, b) => replace(&mut file, &names, *a, *b),
            Mutation::Exchange(a, b) => exchange(&mut file, *a, *b),
            Mutation::Piece(at, edit) => edit_piece(&mut file, *at, *edit),
        }
    }
    file
}

/// The place, or the one before it where a character begins.
fn boundary(file: &str, at: usize) -> usize {
    (0..=at).rev().find(|&at| file.is_char_boundary(at)).unwrap_or(0)
}

/// Puts one of the stretches of a file in the place of another.
fn replace(
    file: &mut String,
    stretches: &dyn Fn(&str) -> Vec<std::ops::Range<usize>>,
    a: prop::sample::Index,
    b: prop::sample::Index,
) {
    let found = stretches(file);
    if found.is_empty() {
        return;
    }
    let (a, b) = (a.get(&found).clone(), b.get(&found).clone());
    let with = file[b].to_owned();
    file.replace_range(a, &with);
}

/// Puts two patterns in each other's place.
fn exchange(file: &mut String, a: prop::sample::Index, b: prop::sample::Index) {
    let found = strings(file);
    if found.is_empty() {
        return;
    }
    let (a, b) = (a.get(&found).clone(), b.get(&found).clone());
    if a.end <= b.start {
        let (first, second) = (file[a.clone()].to_owned(), file[b.clone()].to_owned());
        file.replace_range(b, &first);
        file.replace_range(a, &second);
    }
}

fn edit_piece(file: &mut String, at: prop::sample::Index, edit: Edit) {
    let found = pieces(file);
    if found.is_empty() {
        return;
    }
    let nth = at.index(found.len());
    let piece = found[nth].clone();
    let text = file[piece.clone()].to_owned();
    match (edit, found.get(nth + 1).filter(|next| next.start == piece.end)) {
        (Edit::Drop, _) => file.replace_range(piece, ""),
        (Edit::Double, _) => file.insert_str(piece.end, &text),
        (Edit::Before(space), _) => file.insert_str(piece.start, space),
        (Edit::Swap, Some(next)) => {
            let swapped = format!("{}{text}", &file[next.clone()]);
            file.replace_range(piece.start..next.end, &swapped);
        }
        (Edit::Swap, None) => {}
    }
}

/// The pieces of a file's patterns: what stands in braces, and the text between.
fn pieces(file: &str) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    for value in strings(file) {
        let mut at = value.start;
        while at < value.end {
            let rest = &file[at..value.end];
            let length = match rest.find(['{', '"']) {
                Some(0) if rest.starts_with('{') => {
                    rest.find('}').map_or(rest.len(), |end| end + 1)
                }
                Some(0) => 1,
                Some(length) => length,
                None => rest.len(),
            };
            if !rest.starts_with('"') {
                found.push(at..at + length);
            }
            at += length;
        }
    }
    found
}

/// The values of a file's lines.
fn strings(file: &str) -> Vec<std::ops::Range<usize>> {
    let mut at = 0;
    let mut found = Vec::new();
    for line in file.split_inclusive('\n') {
        let value = line.find(" = ").map(|equals| equals + 3);
        let begins = |&value: &usize| matches!(line.as_bytes().get(value), Some(b'"' | b'['));
        let listed = line.len() - line.trim_start().len();
        let value = value.or_else(|| line[listed..].starts_with('"').then_some(listed));
        if let Some(value) = value.filter(begins) {
            found.push(at + value..at + line.trim_end().len());
        }
        at += line.len();
    }
    found
}

/// The names of control tokens in patterns.
fn names(file: &str) -> Vec<std::ops::Range<usize>> {
    let opened = file.match_indices('{').filter_map(|(at, _)| {
        let length = file[at + 1..].find('}')?;
        let name = &file[at + 1..at + 1 + length];
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        is_name.then_some(at + 1..at + 1 + length)
    });
    opened.collect()
}

/// The lines of a mutant that the file does not have.
fn changed(file: &str, mutant: &str) -> String {
    let new = mutant.lines().filter(|line| !file.lines().any(|old| old == *line));
    new.collect::<Vec<_>>().join("\n")
}

/// Conversations with `text` in every field that takes any.
fn conversations(text: &str) -> Vec<Vec<Message>> {
    let message = |role| Message::new(role, text);
    let named = |role, name: &str| Message { name: Some(name.into()), ..Message::new(role, text) };
    let calling = |content: &str, body| Message {
        calls: vec![Call { id: None, body }],
        ..Message::new(Role::Assistant, content)
    };
    let function =
        |name: &str| CallBody::Function { name: name.into(), arguments: "{\"a\": 1}".into() };
    let code = CallBody::Code { language: Some("python".into()), source: text.into() };
    let plain = CallBody::Code { language: None, source: text.into() };
    let (user, answer) = (|| message(Role::User), || message(Role::Assistant));
    vec![
        vec![message(Role::System), user(), answer()],
        vec![user(), answer(), user(), answer()],
        vec![named(Role::User, "a.b"), named(Role::User, "system"), user()],
        vec![user(), calling(text, function(text)), message(Role::Tool)],
        vec![user(), calling("", function("f")), message(Role::Tool), answer()],
        vec![calling(text, code.clone()), named(Role::Tool, "interpreter"), calling("", plain)],
        vec![user(), calling("", code), message(Role::Tool), user()],
        vec![named(Role::System, "plugin")],
        vec![named(Role::System, "tools"), user()],
    ]
}

/// The round trip of every conversation that a mutant writes.
fn check_mutant(codec: &Codec, text: &str, mutant: &str) -> Result<(), TestCaseError> {
    for messages in conversations(text) {
        for tools in [None, Some(text.to_owned().into())] {
            for on_marker in [OnMarker::Report, OnMarker::Break] {
                let options = EncodeOptions { on_marker, ..EncodeOptions::default() };
                let encoding = codec.encode(messages.clone(), tools.as_ref(), &options);
                let Ok(encoding) = encoding else { continue };
                if on_marker == OnMarker::Break || encoding.collisions().is_empty() {
                    let expected = codec.canonical(messages.clone(), tools.as_ref());
                    prop_assert_eq!(codec.decode(encoding.ids()), expected, "{}", mutant);
                }
            }
        }
    }
    let completion = codec.vocab().encode(text);
    let asked = codec.encode(vec![Message::new(Role::User, "")], None, &EncodeOptions::default());
    let Ok(asked) = asked else { return Ok(()) };
    let read = |prompt: Option<&[i32]>| {
        let (mut stream, mut events) = (codec.stream(prompt), Vec::new());
        stream.push_all(&completion, &mut events);
        stream.finish(TurnReason::Stop, &mut events);
        events
    };
    prop_assert_eq!(read(None), read(Some(asked.ids())), "{}", mutant);
    Ok(())
}

#[test]
fn a_format_that_loads_gives_its_conversations_back() {
    let mut failures = Vec::new();
    for name in Format::names().filter(|name| seed::is_asked(name)) {
        let built_in = Format::built_in(name).expect("it is built in");
        let (file, variant) = (built_in.text(), built_in.variant());
        let vocabs: Vec<Vocab> =
            made_for(&control(file)).into_iter().map(|(_, vocab)| vocab).collect();
        let read = std::cell::Cell::new(0);
        let inputs = (mutations(), text(), 0..vocabs.len());
        let failed = try_check(name, 200, inputs, |(mutations, text, vocab)| {
            let mutant = mutate(file, &mutations);
            let begun = Instant::now();
            let format = Format::parse_variant("mutant", &mutant, variant);
            let took = begun.elapsed();
            prop_assert!(took < GENEROUS, "{took:?} for {mutant}");
            let Ok(codec) = format.and_then(|format| Codec::new(&format, &vocabs[vocab])) else {
                return Ok(());
            };
            read.set(read.get() + 1);
            check_mutant(&codec, &text, &changed(file, &mutant))
        });
        let is_read = failed.is_err() || read.get() > cases(4);
        failures.extend(failed.err());
        assert!(is_read, "{name}: {} mutants were read", read.get());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
