//! Which built-in format writes what a model's own chat template does, or reads what its model writes.
//!
//! In: a template and a vocabulary. Out: the format whose text and control tokens are the template's on a fixed set of
//! conversations, as far as the template has a place for their parts; and what each format reads of these conversations.
//! The template is run, so parts that it builds count as well.

mod answers;
mod readings;

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
use crate::template::{RenderOptions, RenderedTemplate, Template, budget};
pub(crate) use answers::{WithCalls, answers_read, best_answers, best_calls};
use chatcodec_vocab::Vocab;
pub(crate) use readings::{likely, reads_more};

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
        let is_odd = |name: &String| PROBES.iter().any(|probe| probe.name == *name && probe.odd);
        let mut others = self.differs.iter().chain(&self.refused);
        !self.same.is_empty() && others.all(is_odd)
    }

    /// A format that was not compared.
    fn reading(name: &str) -> Self {
        Self {
            format: name.into(),
            same: Vec::new(),
            differs: Vec::new(),
            refused: Vec::new(),
            completes: Vec::new(),
        }
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
    /// The format that writes what the template does. Such a format reads what the template's model writes. Of a
    /// template that passes over calls, it is the one family whose calls have control tokens of the vocabulary, if there
    /// is one.
    pub(crate) fn writer(&self) -> Option<&Recognised> {
        let is_exact = |found: &&Recognised| found.is_exact();
        let (complete, plain): (Vec<_>, Vec<_>) =
            self.0.iter().filter(is_exact).partition(|found| !found.completes.is_empty());
        let first = complete.first().copied();
        let is_one =
            |first: &&Recognised| complete.iter().all(|found| found.family() == first.family());
        first.filter(is_one).or_else(|| plain.first().copied())
    }
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
        match rendered(template, &probe.messages, probe, own) {
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
    for (name, codec) in with_tokens_of(vocab) {
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
    let calls = PROBES.iter().zip(rendered).find(|(probe, _)| probe.has_calls());
    has_call(codec, calls.and_then(|(_, theirs)| theirs.as_ref()))
}

/// Whether what a template writes of the first call among the probes has the call as a format writes it.
fn has_call(codec: &Codec, theirs: Option<&RenderedTemplate>) -> bool {
    let probe = PROBES.iter().find(|probe| probe.has_calls());
    let (Some(probe), Some(theirs)) = (probe, theirs) else { return false };
    let Some((_, asked)) = probe.messages().split_last() else { return false };
    // Many formats have no place for tools.
    let texts = [(asked, true), (probe.messages(), false)].map(|(messages, prompted)| {
        encoded(codec, messages, None, prompted).map(|encoding| encoding.text().to_owned())
    });
    let [Ok(asked), Ok(ours)] = texts else { return false };
    ours.strip_prefix(&*asked).is_some_and(|call| theirs.text().contains(call.trim()))
}

/// The built-in formats whose control tokens a vocabulary has, or would get from them. It may lack tokens that only stop
/// a model, and those of media.
fn with_tokens_of(vocab: &Vocab) -> Vec<(&'static str, Codec)> {
    let formats: Vec<(&str, Format)> =
        Format::names().filter_map(|name| Some((name, Format::built_in(name).ok()?))).collect();
    // Spellings are looked up together: one pass over the vocabulary finds all of them.
    let control = formats.iter().flat_map(|(_, format)| format.control());
    let groups: Vec<Vec<String>> = control.map(|(_, group)| group.clone()).collect();
    let mut known = vocab.ids_of(&groups).into_iter();
    let bound = |(name, format): (&'static str, Format)| {
        // All ids of the format are taken, also after a group that has none.
        let mut lacking = 0;
        let mut is_control = true;
        for ((_, group), ids) in format.control().iter().zip(known.by_ref()) {
            let is_appended = group.iter().any(|spelling| format.append().contains(spelling));
            lacking += usize::from(ids.is_empty() && !is_appended);
            is_control &= ids.iter().all(|id| vocab.is_control(*id));
        }
        // Formats whose markers are text have tokens at the ends of a conversation alone. As ordinary pieces of a
        // vocabulary they would be taken from its text: the whole vocabulary would be read again.
        if format.guarantee() == Guarantee::Text && !is_control {
            return None;
        }
        // Most formats lack most of their tokens.
        if lacking * 2 > format.control().len() {
            return None;
        }
        let codec = Codec::new(&format, vocab).ok()?;
        let left = codec.format();
        let is_whole = left.calls().len() == format.calls().len()
            && left.has_reasoning() == format.has_reasoning();
        (lacking == 0 || is_whole && !format.calls().is_empty()).then_some((name, codec))
    };
    formats.into_iter().filter_map(bound).collect()
}

/// What a template writes of messages, with the tools and the prompt of a probe.
fn rendered(
    template: &Template,
    messages: &Value,
    probe: &Probe,
    own: &[(String, String)],
) -> Result<RenderedTemplate> {
    let tools = probe.tools.as_ref().map(|tools| ("tools", tools));
    let variables: Vec<(&str, &Value)> = tools.into_iter().collect();
    // Days differ between two renders; the formats of such templates take theirs from a caller.
    let now = |_: &str| Some("01 Jan 2025".to_owned());
    let options = RenderOptions { add_generation_prompt: probe.prompt, own, now: &now };
    template.render(messages, &variables, &options)
}

fn compared(name: &str, codec: &Codec, rendered: &[Option<RenderedTemplate>]) -> Recognised {
    let mut found = Recognised::reading(name);
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
