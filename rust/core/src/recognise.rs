//! Which built-in format writes what a model's own chat template does, or reads what its model writes.
//!
//! In: a template and a vocabulary. Out: the format whose text and control tokens are the template's on a fixed set of
//! conversations, as far as the template has a place for their parts; and what the formats read of the assistant's
//! messages of these conversations as the template writes them. The template is run, so parts that it builds count as
//! well.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use serde::Deserialize;
use serde_json::Value;

use crate::codec::Codec;
use crate::conversation::{OnUnsupported, ReadOptions};
use crate::encode::{EncodeOptions, Encoding};
use crate::error::{Error, Result};
use crate::format::{Format, Guarantee};
use crate::message::{Call, CallBody, Message, Role};
use crate::template::{RenderOptions, RenderedTemplate, Template, budget};
use chatcodec_vocab::Vocab;

/// One conversation that both are given.
#[derive(Deserialize)]
struct Probe {
    name: String,
    messages: Value,
    #[serde(default)]
    tools: Option<Value>,
    #[serde(default)]
    prompt: bool,
    /// A text that the template writes if it has a place for what is probed; none for what every template has.
    #[serde(default)]
    shows: Option<String>,
    /// Whether formats may differ here on purpose: white space at the ends of texts, texts of nothing.
    #[serde(default)]
    odd: bool,
}

impl Probe {
    fn messages(&self) -> &[Value] {
        self.messages.as_array().map_or(&[], Vec::as_slice)
    }

    fn has_calls(&self) -> bool {
        self.messages().iter().any(|message| message.get("tool_calls").is_some())
    }

    /// Whether the template writes the part that the probe is about.
    fn is_shown(&self, written: &RenderedTemplate) -> bool {
        self.shows.as_ref().is_none_or(|shown| written.text().contains(shown))
    }
}

static PROBES: LazyLock<Vec<Probe>> =
    LazyLock::new(|| serde_json::from_str(include_str!("probes.json")).unwrap_or_default());

/// A format that was recognised, and what it was compared on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recognised {
    /// Name of the format.
    pub format: String,
    /// Conversations on which text and control tokens are the same.
    pub same: Vec<String>,
    /// Conversations that both write, and differently.
    pub differs: Vec<String>,
    /// Conversations that the template writes and the format refuses.
    pub refused: Vec<String>,
    /// Conversations with a part that the template leaves out and the format writes.
    pub completes: Vec<String>,
}

impl Recognised {
    /// Whether the format stands for the template: all but odd conversations are the same.
    pub fn is_exact(&self) -> bool {
        self.is_exact_but(&[])
    }

    /// Whether all are the same but odd conversations and these.
    fn is_exact_but(&self, known: &[String]) -> bool {
        let is_odd = |name: &String| PROBES.iter().any(|probe| probe.name == *name && probe.odd);
        let mut others = self.differs.iter().chain(&self.refused);
        !self.same.is_empty() && others.all(|name| is_odd(name) || known.contains(name))
    }

    /// The format without its variant.
    fn family(&self) -> &str {
        self.format.split(':').next().unwrap_or_default()
    }
}

/// What is compared of a rendered conversation: its text, and where its control tokens are.
#[derive(PartialEq)]
struct Written {
    text: String,
    control: Vec<Range<usize>>,
}

impl Written {
    fn of(rendered: &RenderedTemplate, control: &AhoCorasick) -> Self {
        Self { text: rendered.text().into(), control: control_of(rendered, control) }
    }

    /// The spellings of its control tokens.
    fn tokens(&self) -> impl Iterator<Item = &str> {
        self.control.iter().map(|range| &self.text[range.clone()])
    }
}

/// The built-in formats that a vocabulary has the tokens of, compared with a template; the nearest first.
pub(crate) struct Candidates(Vec<Recognised>);

impl Candidates {
    /// The format that writes what the template does, or differs from it only where its file says so. Such a format
    /// reads what the template's model writes. Of a template that passes over calls, it is the one family whose calls
    /// have control tokens of the vocabulary, if there is one.
    pub(crate) fn writer(&self) -> Option<&Recognised> {
        let is_exact = |found: &&Recognised| {
            let format = Format::built_in(&found.format);
            format.is_ok_and(|format| found.is_exact_but(format.differs()))
        };
        let (complete, plain): (Vec<_>, Vec<_>) =
            self.0.iter().filter(is_exact).partition(|found| !found.completes.is_empty());
        let first = complete.first().copied();
        let is_one =
            |first: &&Recognised| complete.iter().all(|found| found.family() == first.family());
        first.filter(is_one).or_else(|| plain.first().copied())
    }

    /// What each format reads of what the template writes, the nearest first; formats that misread a text are left out.
    /// A format whose markers are text is never sure of them, and is left out too.
    pub(crate) fn readers<'c>(
        &'c self,
        template: &'c Template,
        own: &'c [(String, String)],
        vocab: &'c Vocab,
    ) -> impl Iterator<Item = Reading> + 'c {
        self.0.iter().filter_map(|found| {
            let format = Format::built_in(&found.format).ok()?;
            if format.guarantee() != Guarantee::Ids || budget::is_spent() {
                return None;
            }
            let codec = Codec::with_template(template, own, &format, vocab).ok()?;
            let [read, missed] = parts_read(&codec)?;
            let appends = codec.vocab().size() > vocab.size();
            Some(Reading { found: found.clone(), format, read, missed, appends })
        })
    }
}

/// A format that reads the texts that a template writes.
pub(crate) struct Reading {
    pub(crate) found: Recognised,
    pub(crate) format: Format,
    /// Answers with calls or reasoning that it reads, and that it does not.
    read: usize,
    missed: usize,
    /// Whether the vocabulary lacks some of its control tokens.
    appends: bool,
}

impl Reading {
    /// Whether it reads all that the template writes, calls or reasoning among it.
    pub(crate) fn is_whole(&self) -> bool {
        self.read > 0 && self.missed == 0
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
fn parts_read(codec: &Codec) -> Option<[usize; 2]> {
    let (mut read, mut missed) = (0, 0);
    for probe in PROBES.iter().filter(|probe| !probe.odd) {
        let (messages, tools) = (probe.messages(), probe.tools.as_ref());
        if probe.shows.is_none() && reads_turns(codec, messages) == Some(false) {
            return None;
        }
        for (at, given) in messages.iter().enumerate() {
            if given["role"] != "assistant" {
                continue;
            }
            let Some((answers, written)) = answers_of(codec, &messages[..=at], tools) else {
                continue;
            };
            let calls = given["tool_calls"].as_array().into_iter().flatten();
            let thought = given["reasoning_content"].as_str();
            let has_parts = calls.into_iter().any(|call| is_written(call, &written))
                || thought.is_some_and(|thought| written.contains(thought));
            match answers.iter().any(|answer| is_read(answer, given, &written)) {
                true => read += usize::from(has_parts),
                false if has_parts => missed += 1,
                false => return None,
            }
        }
    }
    Some([read, missed])
}

/// Whether the turns of a conversation of texts are read; none if the template refuses the conversation.
fn reads_turns(codec: &Codec, messages: &[Value]) -> Option<bool> {
    let whole = encoded(codec, messages, None, false).ok()?;
    let mut read = codec.decode(whole.ids());
    read.retain(|message| message.role != Role::System);
    let is_given = |(read, given): (&Message, &Value)| {
        given["role"] == read.role.name() && is_read(read, given, whole.text())
    };
    Some(read.len() == messages.len() && read.iter().zip(messages).all(is_given))
}

/// The last of these messages as it is read, after its prompt or else within the conversation, and what the template
/// writes; none if the template refuses the conversation. Some templates write an answer as several turns, so within a
/// conversation it is the last one, or all of the assistant's at the end.
fn answers_of(
    codec: &Codec,
    messages: &[Value],
    tools: Option<&Value>,
) -> Option<(Vec<Message>, String)> {
    let (_, before) = messages.split_last()?;
    let prompt = encoded(codec, before, tools, true).ok()?;
    let whole = encoded(codec, messages, tools, false).ok()?;
    let answers = if let Some(completion) = whole.ids().strip_prefix(prompt.ids()) {
        vec![codec.parse(completion, Some(prompt.ids())).message]
    } else {
        let read = codec.decode(whole.ids());
        let last = read.last().cloned();
        last.into_iter().chain(joined_answer(read)).collect()
    };
    Some((answers, whole.text().to_owned())).filter(|(answers, _)| !answers.is_empty())
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

/// Whether a message was read as it was given, but for texts that were not written.
fn is_read(message: &Message, given: &Value, written: &str) -> bool {
    let text = |key: &str| {
        given[key].as_str().filter(|text| written.contains(text.trim())).unwrap_or_default()
    };
    let calls = given["tool_calls"].as_array().into_iter().flatten();
    let calls: Vec<&Value> = calls.filter(|call| is_written(call, written)).collect();
    let is_call = |(read, given): (&Call, &&Value)| {
        let CallBody::Function { name, arguments } = &read.body else { return false };
        let given = &given["function"];
        given["name"] == **name
            && serde_json::from_str::<Value>(arguments).is_ok_and(|read| read == given["arguments"])
    };
    // Some templates write the text beside calls as reasoning.
    let texts = [message.content.as_str(), message.reasoning.as_deref().unwrap_or_default()];
    let texts = texts.map(str::trim);
    let given_texts = [text("content"), text("reasoning_content")];
    (texts == given_texts || !calls.is_empty() && texts.concat() == given_texts.concat())
        && message.calls.len() == calls.len()
        && message.calls.iter().zip(&calls).all(is_call)
}

/// Whether a text holds the name of a call and the texts of its arguments.
fn is_written(call: &Value, text: &str) -> bool {
    let function = &call["function"];
    let arguments = function["arguments"].as_object().into_iter().flatten();
    let texts = arguments.filter_map(|(_, value)| value.as_str()).chain(function["name"].as_str());
    texts.into_iter().all(|part| text.contains(part))
}

/// Compares the built-in formats with a template.
pub(crate) fn candidates(
    template: &Template,
    own: &[(String, String)],
    vocab: &Vocab,
) -> Candidates {
    let mut written: Vec<Option<RenderedTemplate>> = Vec::with_capacity(PROBES.len());
    for probe in PROBES.iter() {
        if budget::is_spent() {
            return Candidates(Vec::new());
        }
        match rendered(template, probe, own) {
            Ok(rendered) => written.push(Some(rendered)),
            // Another conversation may have what this one lacks: tools.
            Err(Error::Message { .. } | Error::Template { is_of_values: true, .. }) => {
                written.push(None);
            }
            // A template that passes a bound from the beginning would take all its steps each time.
            Err(_) if written.iter().flatten().next().is_none() => return Candidates(Vec::new()),
            Err(_) => written.push(None),
        }
    }
    if budget::is_spent() {
        return Candidates(Vec::new());
    }
    let rendered = written;
    let mut all: Vec<(Recognised, bool)> = Vec::new();
    for (name, format) in with_tokens_of(vocab) {
        let Ok(codec) = Codec::new(&format, vocab) else { continue };
        let found = compared(name, &codec, &rendered);
        if found.differs.len() + found.refused.len() < PROBES.len() {
            all.push((found, has_call_of(&codec, &rendered)));
        }
    }
    // The one that writes most as the template does; of those that write as much, one with the same calls.
    all.sort_by_key(|(found, has_call)| {
        let others = found.differs.len() + found.refused.len();
        (!found.is_exact(), usize::MAX - found.same.len(), !has_call, others)
    });
    Candidates(all.into_iter().map(|(found, _)| found).collect())
}

/// Whether the template writes a call as a format does.
fn has_call_of(codec: &Codec, rendered: &[Option<RenderedTemplate>]) -> bool {
    let mut calls = PROBES.iter().zip(rendered).filter(|(probe, _)| probe.has_calls());
    let Some((probe, Some(theirs))) = calls.next() else { return false };
    let Some((_, asked)) = probe.messages().split_last() else { return false };
    // Many formats have no place for tools.
    let texts = [(asked, true), (probe.messages(), false)].map(|(messages, prompted)| {
        encoded(codec, messages, None, prompted).map(|encoding| encoding.text().to_owned())
    });
    let [Ok(asked), Ok(ours)] = texts else { return false };
    ours.strip_prefix(&*asked).is_some_and(|call| theirs.text().contains(call.trim()))
}

/// The built-in formats whose control tokens a vocabulary has, or would get from them.
fn with_tokens_of(vocab: &Vocab) -> Vec<(&'static str, Format)> {
    let formats: Vec<(&str, Format)> =
        Format::names().filter_map(|name| Some((name, Format::built_in(name).ok()?))).collect();
    // Spellings are looked up together: one pass over the vocabulary finds all of them.
    let control = formats.iter().flat_map(|(_, format)| format.control());
    let groups: Vec<Vec<String>> = control.map(|(_, group)| group.clone()).collect();
    let mut known = vocab.ids_of(&groups).into_iter();
    let has_tokens = |(_, format): &(&str, Format)| {
        let mut lacking = 0;
        for ((_, group), ids) in format.control().iter().zip(known.by_ref()) {
            let is_appended = group.iter().any(|spelling| format.append().contains(spelling));
            lacking += usize::from(ids.is_empty() && !is_appended);
        }
        lacking == 0
    };
    formats.into_iter().filter(has_tokens).collect()
}

fn rendered(
    template: &Template,
    probe: &Probe,
    own: &[(String, String)],
) -> Result<RenderedTemplate> {
    let tools = probe.tools.as_ref().map(|tools| ("tools", tools));
    let variables: Vec<(&str, &Value)> = tools.into_iter().collect();
    // Days differ between two renders; the formats of such templates take theirs from a caller.
    let now = |_: &str| Some("01 Jan 2025".to_owned());
    let options = RenderOptions { add_generation_prompt: probe.prompt, own, now: &now };
    template.render(&probe.messages, &variables, &options)
}

fn compared(name: &str, codec: &Codec, rendered: &[Option<RenderedTemplate>]) -> Recognised {
    let mut found = Recognised {
        format: name.into(),
        same: Vec::new(),
        differs: Vec::new(),
        refused: Vec::new(),
        completes: Vec::new(),
    };
    let Some(control) = control_spellings(codec) else { return found };
    let pairs =
        || PROBES.iter().zip(rendered).filter_map(|(probe, it)| Some((probe, it.as_ref()?)));
    // Where calls are passed over, results are no part of a conversation either.
    let writes_calls = pairs()
        .find(|(probe, _)| probe.has_calls())
        .is_none_or(|(probe, theirs)| probe.is_shown(theirs));
    let may_complete = !writes_calls && calls_have_tokens(codec, &control, pairs());
    for (probe, theirs) in pairs() {
        let is_shown = probe.is_shown(theirs) && (writes_calls || !probe.has_calls());
        let list = match written(codec, probe) {
            Ok(ours) if ours == Written::of(theirs, &control) => &mut found.same,
            Ok(_) if !is_shown && may_complete => &mut found.completes,
            Ok(_) => &mut found.differs,
            // What the template leaves out, a format may refuse.
            Err(_) if !is_shown => continue,
            Err(_) => &mut found.refused,
        };
        list.push(probe.name.clone());
        // A format that is nothing like the template is not compared to the end.
        if found.same.is_empty() && found.differs.len() > 2 {
            break;
        }
    }
    found
}

/// Whether the calls of a format have control tokens that the template writes nowhere: they say which family the
/// vocabulary's model is of.
fn calls_have_tokens<'r>(
    codec: &Codec,
    control: &AhoCorasick,
    rendered: impl Iterator<Item = (&'r Probe, &'r RenderedTemplate)>,
) -> bool {
    let Some(call) = PROBES.iter().find(|probe| probe.has_calls()) else { return false };
    let Ok(calling) = written(codec, call) else { return false };
    let theirs: Vec<Written> = rendered.map(|(_, theirs)| Written::of(theirs, control)).collect();
    let is_known =
        |token: &str| theirs.iter().any(|written| written.tokens().any(|it| it == token));
    calling.tokens().any(|token| !is_known(token))
}

/// What a codec writes of messages.
fn encoded(
    codec: &Codec,
    messages: &[Value],
    tools: Option<&Value>,
    prompted: bool,
) -> Result<Encoding> {
    let messages = Value::Array(messages.to_vec());
    let conversation = codec.read_conversation(&messages, tools, ReadOptions::default())?;
    // What the template passes over says nothing of what it writes.
    let on_unsupported =
        if codec.template().is_some() { OnUnsupported::Drop } else { OnUnsupported::Error };
    let options = EncodeOptions {
        add_generation_prompt: Some(prompted),
        on_unsupported,
        ..EncodeOptions::default()
    };
    codec.encode_conversation(conversation, &options)
}

/// What a format writes of a conversation.
fn written(codec: &Codec, probe: &Probe) -> Result<Written> {
    let encoding = encoded(codec, probe.messages(), probe.tools.as_ref(), probe.prompt)?;
    let offsets = encoding.offsets();
    let is_control = encoding.is_control();
    let control = offsets
        .iter()
        .zip(&is_control)
        .filter(|(_, is)| **is == 1)
        .map(|(&(start, end), _)| start..end);
    Ok(Written { control: control.collect(), text: encoding.text().to_owned() })
}

fn control_spellings(codec: &Codec) -> Option<AhoCorasick> {
    let spellings = codec.vocab().control().keys().filter(|spelling| !spelling.is_empty());
    AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(spellings).ok()
}

/// Where the template's own text spells control tokens; roles of the closed set count as its own.
fn control_of(rendered: &RenderedTemplate, control: &AhoCorasick) -> Vec<Range<usize>> {
    let mut own: Vec<Range<usize>> = Vec::new();
    for run in rendered.runs() {
        let is_role = run
            .path
            .as_deref()
            .is_some_and(|path| path.starts_with("messages[") && path.ends_with("].role"));
        if run.path.is_some() && !is_role {
            continue;
        }
        match own.last_mut() {
            Some(last) if last.end == run.text.start => last.end = run.text.end,
            _ => own.push(run.text),
        }
    }
    let text = rendered.text();
    let within = own.into_iter().flat_map(|range| {
        let found = control.find_iter(&text[range.clone()]);
        found
            .map(|found| range.start + found.start()..range.start + found.end())
            .collect::<Vec<_>>()
    });
    within.collect()
}
