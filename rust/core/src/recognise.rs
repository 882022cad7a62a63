//! Which built-in format writes what a model's own chat template does, or reads what its model writes.
//!
//! In: a template and a vocabulary. Out: the format whose text and control tokens are the
//! template's on a fixed set of conversations. The template is run, so parts that it builds count as well.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use serde::Deserialize;
use serde_json::Value;

use crate::codec::Codec;
use crate::conversation::ReadOptions;
use crate::encode::EncodeOptions;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::template::{RenderOptions, RenderedTemplate, Template};
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
}

/// What is compared of a rendered conversation: its text, and where its control tokens are.
#[derive(PartialEq)]
struct Written {
    text: String,
    control: Vec<Range<usize>>,
}

/// The built-in format that writes what a template does, or differs from it only where its file says so. Such a
/// format reads what the template's model writes.
pub(crate) fn recognise_reader(
    template: &Template,
    own: &[(String, String)],
    vocab: &Vocab,
) -> Option<Recognised> {
    candidates(template, own, vocab).into_iter().find(|found| {
        let format = Format::built_in(&found.format);
        format.is_ok_and(|format| found.is_exact_but(format.differs()))
    })
}

/// The built-in formats that a vocabulary has the tokens of, compared with a template; the nearest first.
fn candidates(template: &Template, own: &[(String, String)], vocab: &Vocab) -> Vec<Recognised> {
    let mut written: Vec<Option<RenderedTemplate>> = Vec::with_capacity(PROBES.len());
    for probe in PROBES.iter() {
        match rendered(template, probe, own) {
            Ok(rendered) => written.push(Some(rendered)),
            // A template that fails from the beginning would take all its steps each time.
            Err(Error::Template { .. }) if written.iter().flatten().next().is_none() => {
                return Vec::new();
            }
            Err(_) => written.push(None),
        }
    }
    let rendered = written;
    let mut all: Vec<Recognised> = Vec::new();
    for name in Format::names() {
        let Ok(format) = Format::built_in(name) else { continue };
        if !has_tokens(&format, vocab) {
            continue;
        }
        let Ok(codec) = Codec::new(&format, vocab) else { continue };
        let found = compared(name, &codec, &rendered);
        if found.differs.len() + found.refused.len() < PROBES.len() {
            all.push(found);
        }
    }
    // The one that writes most as the template does.
    all.sort_by_key(|found| {
        let others = found.differs.len() + found.refused.len();
        (!found.is_exact(), usize::MAX - found.same.len(), others)
    });
    all
}

/// Whether a vocabulary has a format's control tokens, or would get them from it.
fn has_tokens(format: &Format, vocab: &Vocab) -> bool {
    let groups: Vec<Vec<String>> =
        format.control().iter().map(|(_, group)| group.clone()).collect();
    let ids = vocab.ids_of(&groups);
    let is_appended =
        |group: &[String]| group.iter().any(|spelling| format.append().contains(spelling));
    groups.iter().zip(&ids).all(|(group, ids)| !ids.is_empty() || is_appended(group))
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
    };
    let Some(control) = control_spellings(codec) else { return found };
    for (probe, theirs) in PROBES.iter().zip(rendered) {
        let Some(theirs) = theirs else { continue };
        let is_shown = probe.shows.as_ref().is_none_or(|shown| theirs.text().contains(shown));
        let ours = written(codec, probe);
        let list = match ours {
            Ok(ours)
                if ours
                    == Written {
                        text: theirs.text().into(),
                        control: control_of(theirs, &control),
                    } =>
            {
                &mut found.same
            }
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

/// What a format writes of a conversation.
fn written(codec: &Codec, probe: &Probe) -> Result<Written> {
    let conversation =
        codec.read_conversation(&probe.messages, probe.tools.as_ref(), ReadOptions::default())?;
    let options =
        EncodeOptions { add_generation_prompt: Some(probe.prompt), ..EncodeOptions::default() };
    let encoding = codec.encode_conversation(conversation, &options)?;
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
