//! What the built-in formats read of what a template writes, and which of them most likely reads its model.
//!
//! In: the formats of the vocabulary's tokens, a template. Out: how many of the probes' answers with calls or reasoning
//! each format reads and misses. Cost: for each format, two renderings of each answer of the probes.

use serde_json::Value;

use super::{Candidates, PROBES, Recognised, encoded, written};
use crate::codec::Codec;
use crate::encode::Encoding;
use crate::event::{Event, EventKind, NoticeKind, TurnReason};
use crate::format::{Format, Guarantee};
use crate::message::{Call, CallBody, Message, Role};
use crate::schema::ToolTypes;
use crate::stream::Stream;
use crate::template::budget;
use chatcodec_vocab::{TokenId, Vocab};

impl Candidates {
    /// What each format reads of what the template writes, the nearest first; formats that misread a text are left out.
    /// A format whose markers are text is never sure of them, and is left out too.
    pub(crate) fn readers<'c>(&'c self, plain: &'c Codec) -> impl Iterator<Item = Reading> + 'c {
        self.0.iter().filter_map(|found| {
            let format = Format::built_in(&found.format).ok()?;
            let codec = reading_codec(plain, &format)?;
            let mut how = [Texts::Exact, Texts::Near].into_iter();
            let (texts, [read, missed]) =
                how.find_map(|texts| Some((texts, parts_read(&codec, texts, Scope::Turns)?)))?;
            let appends = codec.vocab().size() > plain.vocab().size();
            Some(Reading { found: found.clone(), format, texts, read, missed, appends })
        })
    }
}

/// The codec whose format reads what the template of `plain` writes; none for a format whose markers are text.
pub(super) fn reading_codec(plain: &Codec, format: &Format) -> Option<Codec> {
    let is_tried = format.guarantee() == Guarantee::Ids && !budget::is_spent();
    is_tried.then(|| plain.read_by(format).ok()).flatten()
}

/// What has to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Whole conversations, and answers after their prompts.
    Turns,
    /// Answers after their prompts.
    Answers,
    /// Texts of whole conversations, and answers after their prompts.
    Calls,
}

/// How a format reads the texts that a template writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Texts {
    /// With other white space at their ends.
    Near,
    /// As they were given.
    Exact,
}

/// A format that reads the texts that a template writes.
pub(crate) struct Reading {
    pub(crate) found: Recognised,
    pub(crate) format: Format,
    pub(super) texts: Texts,
    /// Answers with calls or reasoning that it reads, and that it does not.
    pub(crate) read: usize,
    pub(super) missed: usize,
    /// Whether the vocabulary lacks some of its control tokens.
    pub(super) appends: bool,
}

impl Reading {
    /// Whether it reads all that the template writes, calls or reasoning among it.
    pub(crate) fn is_whole(&self) -> bool {
        self.texts == Texts::Exact && self.read > 0 && self.missed == 0
    }
}

/// The format that most likely reads a model whose template's calls and reasoning no other does: the one that reads
/// most of them. Of a template that writes none, it is the nearest one if its calls have control tokens of the
/// vocabulary, and no other family as near has such.
pub(crate) fn likely(mut readings: Vec<Reading>, vocab: &Vocab) -> Option<Reading> {
    readings.retain(|reading| !reading.appends);
    let most = readings.iter().map(|reading| reading.read).max()?;
    if most > 0 {
        // Of those that read as many, one that reads reasoning too may read what the model writes beside them.
        readings.retain(|reading| reading.read == most);
        let first = readings.iter().position(|reading| reading.format.has_reasoning());
        return Some(readings.swap_remove(first.unwrap_or(0)));
    }
    let has_tokens =
        |reading: &Reading| reading.missed == 0 && has_tokens_of_calls(&reading.format, vocab);
    let same = readings[0].found.same.len();
    let is_near = |reading: &&Reading| reading.found.same.len() == same && has_tokens(reading);
    let mut near = readings.iter().filter(is_near);
    let family = near.next().map(|first| first.found.family().to_owned())?;
    let is_one = has_tokens(&readings[0]) && near.all(|other| other.found.family() == family);
    is_one.then(|| readings.swap_remove(0))
}

/// Whether a format writes control tokens with calls that it does not write with texts.
fn has_tokens_of_calls(format: &Format, vocab: &Vocab) -> bool {
    let Ok(codec) = Codec::new(format, vocab) else { return false };
    let first = |has_calls: bool| {
        let mut probes = PROBES.iter().filter(|probe| probe.has_calls() == has_calls);
        probes.find_map(|probe| written(&codec, probe).ok())
    };
    let (Some(calling), Some(plain)) = (first(true), first(false)) else { return false };
    calling.tokens().any(|token| plain.tokens().all(|known| known != token))
}

/// How many of the probes' answers with calls or reasoning a codec's format reads, and how many it does not. None if it
/// misreads a turn or an answer without them.
pub(super) fn parts_read(codec: &Codec, how: Texts, scope: Scope) -> Option<[usize; 2]> {
    let (mut read, mut missed) = (0, 0);
    for probe in PROBES.iter().filter(|probe| !probe.odd) {
        let (messages, tools) = (probe.messages(), probe.tools.as_ref());
        if scope != Scope::Answers
            && probe.shows.is_none()
            && reads_turns(codec, messages, how) == Some(false)
        {
            return None;
        }
        // Of a format on a vocabulary without some of its tokens, less is known: a result whose control tokens mean
        // nothing to such a format is no text of a turn.
        let result = messages.iter().position(|message| message["role"] == "tool");
        let is_reduced = scope == Scope::Turns && !codec.format().lacking().is_empty();
        if let Some(at) = result.filter(|_| is_reduced) {
            let strays = |messages: &[Value]| {
                let written = encoded(codec, messages, tools, false).ok()?;
                Some(stray_tokens(codec.read_stream(), written.ids()))
            };
            let passes = strays(messages)
                .zip(strays(&messages[..at]))
                .is_some_and(|(all, before)| all > before);
            missed += usize::from(passes);
        }
        for (at, given) in messages.iter().enumerate() {
            if given["role"] != "assistant" {
                continue;
            }
            let Some((answers, written)) = answers_of(codec, &messages[..=at], tools, scope) else {
                continue;
            };
            let calls = given["tool_calls"].as_array().into_iter().flatten();
            let thought = given["reasoning_content"].as_str();
            let has_parts = calls.into_iter().any(|call| is_written(call, &written))
                || thought.is_some_and(|thought| written.contains(thought));
            match answers.iter().any(|answer| is_read(answer, given, &written, how)) {
                true => read += usize::from(has_parts),
                false if has_parts => missed += 1,
                false => return None,
            }
        }
    }
    Some([read, missed])
}

/// Whether a reader leaves control tokens of a conversation out of what it reads.
fn passes_over_tokens(stream: Stream, ids: &[TokenId]) -> bool {
    stray_tokens(stream, ids) > 0
}

/// How many control tokens of a conversation mean nothing to a format.
fn stray_tokens(mut stream: Stream, ids: &[TokenId]) -> usize {
    let mut events = Vec::new();
    stream.push_all(ids, &mut events);
    stream.finish(TurnReason::Stop, &mut events);
    let is_stray = |event: &&Event| {
        matches!(event.kind, EventKind::Notice { kind: NoticeKind::UnexpectedControl, .. })
    };
    events.iter().filter(is_stray).count()
}

/// Whether a codec reads more of the probes' conversations than another with the same template, and all that the other
/// reads.
pub(crate) fn reads_more(codec: &Codec, than: &Codec) -> bool {
    let mut reads_more = false;
    for probe in PROBES.iter().filter(|probe| !probe.odd) {
        let tools = probe.tools.as_ref();
        let mut messages = probe.messages().to_vec();
        // A result that is no JSON.
        let results = messages.iter_mut().filter(|message| message["role"] == "tool");
        results.for_each(|result| result["content"] = "21 degrees".into());
        let (messages, numbered) = (messages.as_slice(), numbered(&messages));
        let mut ways = [messages, numbered.as_slice()].into_iter();
        let Some(whole) = ways.find_map(|given| encoded(codec, given, tools, false).ok()) else {
            continue;
        };
        let [reads, other_reads] = [codec, than].map(|codec| {
            // A template may write the declaration of tools within a question.
            let is_compared = |role: &str| {
                role == "assistant" || role == "tool" || role == "user" && tools.is_none()
            };
            let stream = codec.read_stream();
            let types = tools.and_then(|tools| ToolTypes::read(tools).ok());
            let stream = types.map_or(stream.clone(), |types| stream.typed(&types));
            let mut read = codec.decode_ids(stream, whole.ids());
            read.retain(|message| is_compared(message.role.name()));
            let is_given = |given: &&Value| given["role"].as_str().is_some_and(is_compared);
            let given: Vec<&Value> = messages.iter().filter(is_given).collect();
            [Texts::Near, Texts::Exact].map(|how| {
                let is_same = |(read, given): (&Message, &&Value)| {
                    given["role"] == read.role.name() && is_read(read, given, whole.text(), how)
                };
                read.len() == given.len() && read.iter().zip(&given).all(is_same)
            })
        });
        if other_reads.iter().zip(&reads).any(|(other, reads)| *other && !reads) {
            return false;
        }
        reads_more |= reads[0] && !other_reads[0];
    }
    reads_more
}

/// Whether the turns of a conversation of texts are read; none if the template refuses the conversation.
fn reads_turns(codec: &Codec, messages: &[Value], how: Texts) -> Option<bool> {
    let whole = encoded(codec, messages, None, false).ok()?;
    if passes_over_tokens(codec.read_stream(), whole.ids()) {
        return Some(false);
    }
    let mut read = codec.decode(whole.ids());
    read.retain(|message| message.role != Role::System);
    let is_given = |(read, given): (&Message, &Value)| {
        given["role"] == read.role.name() && is_read(read, given, whole.text(), how)
    };
    Some(read.len() == messages.len() && read.iter().zip(messages).all(is_given))
}

/// The last of these messages as it is read, after its prompt or else within the conversation, and what the template
/// writes; none if the template refuses the conversation. Some templates write an answer as several turns, so within a
/// conversation it is the last one, or all of the assistant's at the end. No message where the format passes over
/// control tokens of the answer.
fn answers_of(
    codec: &Codec,
    messages: &[Value],
    tools: Option<&Value>,
    scope: Scope,
) -> Option<(Vec<Message>, String)> {
    let numbered = numbered(messages);
    // Some templates refuse calls without ids.
    let mut ways = [messages, numbered.as_slice()].into_iter();
    let (prompt, whole) = ways.find_map(|messages| {
        let (_, before) = messages.split_last()?;
        let whole = encoded(codec, messages, tools, false).ok()?;
        Some((encoded(codec, before, tools, true).ok()?, whole))
    })?;
    let ids = whole.ids();
    let types =
        tools.filter(|_| scope != Scope::Turns).and_then(|tools| ToolTypes::read(tools).ok());
    let stream = |prompt: &[TokenId]| {
        let stream = codec.stream(Some(prompt));
        if let Some(types) = &types { stream.typed(types) } else { stream }
    };
    let answers = if let Some(completion) = ids.strip_prefix(prompt.ids()) {
        if passes_over_tokens(stream(prompt.ids()), completion) {
            return Some((Vec::new(), whole.text().to_owned()));
        }
        vec![codec.parse_ids(stream(prompt.ids()), completion).message]
    } else if scope != Scope::Turns {
        // A prompt that goes on otherwise than this answer, with a closed block of reasoning for example, or that has
        // other text before its last turn.
        let same = ids.iter().zip(prompt.ids()).take_while(|(one, other)| one == other).count();
        let ways = [Some(same), after_head(ids, &prompt)].into_iter().flatten();
        let read = ways.flat_map(|at| {
            let (head, completion) = ids.split_at(at);
            [head, prompt.ids()].map(|prompt| (prompt, completion))
        });
        let kept = read.filter(|(prompt, ids)| !passes_over_tokens(stream(prompt), ids));
        kept.map(|(prompt, ids)| codec.parse_ids(stream(prompt), ids).message).collect()
    } else {
        let read = codec.decode(ids);
        let last = read.last().cloned();
        last.into_iter().chain(joined_answer(read)).collect()
    };
    (!answers.is_empty()).then(|| (answers, whole.text().to_owned()))
}

/// The place after the head of the last answer: after the last control token of its prompt, and what follows that; or
/// else after what it has in common with the prompt, from the last control token of both.
fn after_head(ids: &[TokenId], prompt: &Encoding) -> Option<usize> {
    let marks = || (0..prompt.ids().len()).rev().filter(|at| prompt.is_control()[*at] == 1);
    let head = &prompt.ids()[marks().next()?..];
    let whole =
        ids.windows(head.len()).rposition(|window| window == head).map(|at| at + head.len());
    whole.or_else(|| {
        marks().find_map(|mark| {
            let head = &prompt.ids()[mark..];
            let at = ids.iter().rposition(|id| *id == head[0])?;
            Some(at + ids[at..].iter().zip(head).take_while(|(one, other)| one == other).count())
        })
    })
}

/// Messages whose calls have ids of nine characters, as their results.
pub(super) fn numbered(messages: &[Value]) -> Vec<Value> {
    let id = |index: usize| Value::from(format!("call{index:05}"));
    let mut results = 0;
    let mut numbered = messages.to_vec();
    for message in &mut numbered {
        if let Some(calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) {
            calls.iter_mut().enumerate().for_each(|(index, call)| call["id"] = id(index));
            results = 0;
        } else if message["role"] == "tool" {
            message["tool_call_id"] = id(results);
            results += 1;
        }
    }
    numbered
}

/// The assistant's messages at the end, as one.
fn joined_answer(read: Vec<Message>) -> Option<Message> {
    let asked = read.iter().rposition(|message| message.role != Role::Assistant);
    let answers = read.into_iter().skip(asked.map_or(0, |at| at + 1));
    answers.reduce(|mut answer, more| {
        answer.content += &more.content;
        answer.reasoning = answer.reasoning.or(more.reasoning);
        answer.calls.extend(more.calls);
        answer
    })
}

/// Whether a message was read as it was given. Texts that the template did not write are not compared.
fn is_read(message: &Message, given: &Value, written: &str, how: Texts) -> bool {
    let text = |key: &str| {
        given[key].as_str().filter(|text| written.contains(text.trim())).unwrap_or_default()
    };
    let calls = given["tool_calls"].as_array().into_iter().flatten();
    let calls: Vec<&Value> = calls.filter(|call| is_written(call, written)).collect();
    let is_call = |(read, given): (&Call, &&Value)| {
        let CallBody::Function { name, arguments } = &read.body else { return false };
        let given = &given["function"];
        given["name"] == **name
            && serde_json::from_str::<Value>(arguments)
                .is_ok_and(|read| are_same(&read, &given["arguments"]))
    };
    // Some templates write the text beside calls as reasoning, and line breaks between that text and the calls, which
    // other formats of the family do not have.
    let texts = [message.content.as_str(), message.reasoning.as_deref().unwrap_or_default()];
    let given_texts = [text("content"), text("reasoning_content")];
    let texts = if how == Texts::Near { texts.map(str::trim) } else { texts };
    let is_beside_calls = || texts.map(str::trim_end).concat() == given_texts.concat();
    (texts == given_texts || !calls.is_empty() && is_beside_calls())
        && message.calls.len() == calls.len()
        && message.calls.iter().zip(&calls).all(is_call)
}

/// Whether arguments are those that were given, or their texts, where a template writes all values as strings.
fn are_same(read: &Value, given: &Value) -> bool {
    match (read, given) {
        (Value::Object(read), Value::Object(given)) => {
            let is_same = |(key, value)| given.get(key).is_some_and(|given| are_same(value, given));
            read.len() == given.len() && read.iter().all(is_same)
        }
        (Value::String(text), given) if !given.is_string() => {
            serde_json::from_str::<Value>(text).is_ok_and(|read| read == *given)
        }
        (read, given) => read == given,
    }
}

/// Whether a text holds the name of a call and the texts of its arguments.
fn is_written(call: &Value, text: &str) -> bool {
    let function = &call["function"];
    let arguments = function["arguments"].as_object().into_iter().flatten();
    let texts = arguments.filter_map(|(_, value)| value.as_str()).chain(function["name"].as_str());
    texts.into_iter().all(|part| text.contains(part))
}
