//! What a template expects of messages, found by what it writes.
//!
//! In: a template. Out: the keys under which it reads reasoning, how it takes contents, and whether it knows developers'
//! messages. Cost: a dozen short renderings, once.

use std::slice;

use super::{THINKING, TemplateWriter, probe_answer, probe_question, text};
use crate::encode::EncodeOptions;
use crate::message::Owned;
use crate::template::{Contents, Expected, REASONING_KEYS, Way};

/// A text that no template has.
const WORD: &str = "kaqzv";

/// What a template expects beside the kind of contents, which the writer knows.
pub(super) fn found(writer: &TemplateWriter) -> Expected {
    Expected {
        reasoning: reasoning(writer),
        contents: writer.expected.contents,
        has_no_developer: has_no_developer(writer),
    }
}

/// What the template writes of messages, with reasoning asked for.
fn written(writer: &TemplateWriter, messages: Vec<Owned>, thinks: bool) -> Option<String> {
    let mut options = EncodeOptions::default();
    if thinks {
        let variables = THINKING.map(|name| (name.to_owned(), Owned::Bool(true)));
        options.template.variables = variables.into();
    }
    let values = writer.probe(messages);
    let rendered = writer.rendered(&values, false, &options, Way::AsGiven).ok()?;
    Some(rendered.text().to_owned())
}

fn with(message: Owned, key: &str, value: Owned) -> Owned {
    let Owned::Map(mut members) = message else { return message };
    members.retain(|(known, _)| known.as_str() != Some(key));
    members.push((text(key), value));
    Owned::Map(members)
}

fn is_shown(writer: &TemplateWriter, messages: &[Owned]) -> bool {
    let shows = |thinks| {
        let text = written(writer, messages.to_vec(), thinks);
        text.is_some_and(|text| text.contains(WORD))
    };
    shows(false) || shows(true)
}

/// The keys whose text the template writes; those that its source names where no conversation shows one.
fn reasoning(writer: &TemplateWriter) -> Vec<&'static str> {
    let source = writer.template().source();
    let named: Vec<&'static str> =
        REASONING_KEYS.into_iter().filter(|key| names(source, key)).collect();
    let is_read = |key: &&'static str| {
        let answer = with(probe_answer(), key, text(WORD));
        is_shown(writer, &[probe_question(), answer.clone()])
            || is_shown(writer, &[probe_question(), calling(answer, "value")])
    };
    let read: Vec<&'static str> = named.iter().copied().filter(is_read).collect();
    if read.is_empty() { named.into_iter().take(1).collect() } else { read }
}

/// Whether a source has a key as a string or as an attribute: a variable is no key.
fn names(source: &str, key: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    source.match_indices(key).any(|(at, _)| {
        let (before, after) = (&source[..at], &source[at + key.len()..]);
        before.ends_with(['.', '\'', '"']) && !is_letter(after.chars().next())
    })
}

fn calling(answer: Owned, value: &str) -> Owned {
    let function = vec![
        (text("name"), text("tool")),
        (text("arguments"), Owned::Map(vec![(text("key"), text(value))])),
    ];
    let call = Owned::Map(vec![
        (text("id"), text("call00001")),
        (text("type"), text("function")),
        (text("function"), Owned::Map(function)),
    ]);
    with(answer, "tool_calls", Owned::List(vec![call]))
}

/// How the template takes contents, by where a text is written: as a question's content, and as a part of it.
pub(super) fn contents(writer: &TemplateWriter) -> Contents {
    let part = Owned::Map(vec![(text("type"), text("text")), (text("text"), text(WORD))]);
    let question = |content| vec![with(probe_question(), "content", content)];
    let in_parts = written(writer, question(Owned::List(vec![part])), false);
    // What Python shows of a part has its keys.
    let is_read = in_parts.is_some_and(|it| it.contains(WORD) && !it.contains("'text'"));
    match (is_read, is_shown(writer, &question(text(WORD)))) {
        (false, true) => Contents::Texts,
        (true, false) => Contents::Parts,
        _ => Contents::AsGiven,
    }
}

/// Whether a call is written beside an empty content alone: beside none, the template fails or passes over the call, at
/// the end or before a result.
pub(super) fn needs_content(writer: &TemplateWriter) -> bool {
    let result = Owned::Map(vec![
        (text("role"), text("tool")),
        (text("name"), text("tool")),
        (text("tool_call_id"), text("call00001")),
        (text("content"), text("result")),
    ]);
    let is_written = |content: Owned, after: &[Owned]| {
        let answer = with(calling(probe_answer(), WORD), "content", content);
        let mut messages = vec![probe_question(), answer];
        messages.extend_from_slice(after);
        let mut messages = Owned::List(messages);
        writer.with_arguments(&mut messages);
        let Owned::List(messages) = messages else { return false };
        written(writer, messages, false).is_some_and(|text| text.contains(WORD))
    };
    [&[][..], slice::from_ref(&result)]
        .into_iter()
        .any(|after| is_written(text(""), after) && !is_written(Owned::Null, after))
}

/// Whether the template writes a system message, and fails on a developer's or passes over it.
fn has_no_developer(writer: &TemplateWriter) -> bool {
    let first = |role: &str| {
        let message = vec![(text("role"), text(role)), (text("content"), text(WORD))];
        is_shown(writer, &[Owned::Map(message), probe_question()])
    };
    !first("developer") && first("system")
}
