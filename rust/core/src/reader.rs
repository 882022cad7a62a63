//! The format that reads the completions of a model whose template writes its conversations.
//!
//! In: a template and a vocabulary. Out: the built-in format that writes the same; or else the built-in format that
//! reads all that the template writes; or else a format that was derived from the template, if it reads calls or
//! reasoning; or else the built-in format that most likely reads the model; or else the derived format, or text up to
//! the id that stops the model. Cost: the probes of recognition, and those of derivation.

use std::slice;

use chatcodec_vocab::Vocab;

use crate::codec::Codec;
use crate::conversation::Values;
use crate::derive::{self, DerivedParts};
use crate::encode::EncodeOptions;
use crate::error::{Error, Result};
use crate::format::{Format, Part};
use crate::message::{Message, Owned, Role};
use crate::recognise::{self, Candidates, Recognised, WithCalls, candidates};
use crate::span::SpanKind;
use crate::template::{Template, budget};
use crate::templated::{self, Needs, TemplateWriter};

/// How completions are read.
///
/// ```
/// use chatcodec::{Codec, Template, Vocab};
///
/// let template = Template::parse(
///     "{% for message in messages %}<|im_start|>{{ message.role }}\n\
///      {{ message.content }}<|im_end|>\n{% endfor %}\
///      {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
/// )?;
/// let (codec, _reader) = Codec::of_template(&template, &[], &Vocab::embedded())?;
/// let mut answer = codec.vocab().encode("Hi");
/// answer.push(92542); // <|im_end|>
/// assert_eq!(codec.parse(&answer, None).message.content, "Hi");
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reader {
    /// A built-in format, which writes what the template does, or reads all that the template writes.
    Recognised(Recognised),
    /// A format that was derived from the template: texts of messages, and these parts.
    Derived(DerivedParts),
    /// A format that reads answers alone.
    Answers(Answers),
    /// Text up to the id that stops the model.
    Text,
    /// A format that the caller named.
    Named,
}

/// The part of a built-in format that reads answers, or a format derived for them; and a derived format that reads whole
/// conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// Name of the built-in format; `template` for a derived one.
    pub format: String,
    /// The format file that was derived from the template; none where nobody reads whole conversations.
    pub turns: Option<String>,
}

impl Codec {
    /// Binds a template, and a format that is known to read its completions so.
    ///
    /// # Errors
    /// [`Error::Vocab`] if the vocabulary lacks control tokens of the format.
    pub fn with_reader(
        template: &Template,
        own: &[(String, String)],
        format: &Format,
        vocab: &Vocab,
        reader: &Reader,
    ) -> Result<Self> {
        let codec = Self::with_template(template, own, format, vocab)?;
        let codec = match reader {
            Reader::Text => codec.without_prompts(),
            Reader::Answers(Answers { turns, .. }) => {
                let turns =
                    turns.as_deref().map(|text| Format::parse("template", text)).transpose()?;
                codec.reading_answers(turns.as_ref())?
            }
            _ => codec,
        };
        let gaps = budget::within(|| derive::gaps(&codec));
        let by_gaps = gaps.map(|gaps| codec.with_gaps(gaps));
        Ok(by_gaps.filter(|by_gaps| recognise::reads_more(by_gaps, &codec)).unwrap_or(codec))
    }

    /// Binds a template to a vocabulary; completions are read by the format that fits it.
    ///
    /// # Errors
    /// [`Error::Vocab`] if the vocabulary has no control token that ends a turn.
    pub fn of_template(
        template: &Template,
        own: &[(String, String)],
        vocab: &Vocab,
    ) -> Result<(Self, Reader)> {
        let vocab = &templated::with_words_of(template, own, vocab)?;
        // Each part of the work has a budget of its own, so that a template that spends one still has a reader.
        let known = budget::within(|| candidates(template, own, vocab));
        let (format, reader) = match known.writer() {
            Some(found) => (Format::built_in(&found.format)?, Reader::Recognised(found.clone())),
            None => budget::within(|| found(template, own, vocab, &known))?,
        };
        let codec = Self::with_reader(template, own, &format, vocab, &reader)?;
        Ok((codec, reader))
    }
}

/// The format that reads what a template writes as no built-in format does.
fn found(
    template: &Template,
    own: &[(String, String)],
    vocab: &Vocab,
    known: &Candidates,
) -> Result<(Format, Reader)> {
    let writer = TemplateWriter::new(template, own);
    check_writes(&writer, vocab)?;
    // What a template that fails on a question lacks is more than the id that stops the model.
    let format = text_format(&writer, vocab).map_err(|error| match writer.needs() {
        Needs::More(cause) => cause.clone(),
        _ => error,
    })?;
    let plain = Codec::with_template(template, own, &format, vocab)?.without_prompts();
    let is_enough = matches!(writer.needs(), Needs::Nothing | Needs::Tools);
    // What a built-in format reads was tried on more than what a template writes.
    let mut others = Vec::new();
    for reading in known.readers(&plain) {
        if reading.is_whole() {
            return Ok((reading.format, Reader::Recognised(reading.found)));
        }
        others.push(reading);
    }
    let derived = is_enough.then(|| derive::derive(&plain)).flatten();
    let reads_parts = derived.as_ref().is_some_and(|(_, parts)| parts.calls || parts.reasoning);
    let reads_all = derived.as_ref().is_some_and(|(_, parts)| {
        (parts.calls || !writer.writes_calls()) && (parts.reasoning || !writer.writes_reasoning())
    });
    let likely = if reads_parts { None } else { recognise::likely(others, vocab) };
    if !reads_all {
        let known = match &likely {
            Some(reading) => Some((reading.read, reading.format.has_reasoning())),
            None => derived.as_ref().and_then(|(format, parts)| {
                Some((recognise::answers_read(&plain.read_by(format).ok()?)?, parts.reasoning))
            }),
        };
        let turns = derived.as_ref().map(|(format, _)| format.text());
        let more = readers_of_answers(&plain, derived.as_ref(), turns);
        let best = more.into_iter().filter(|(read, ..)| *read > known.unwrap_or_default());
        // Of those that read as many, the first.
        if let Some((_, format, reader)) = best.rev().max_by_key(|(read, ..)| *read) {
            return Ok((format, reader));
        }
    }
    if let Some(reading) = likely {
        return Ok((reading.format, Reader::Recognised(reading.found)));
    }
    let Some((format, parts)) = derived else { return Ok((format, Reader::Text)) };
    Ok((format, Reader::Derived(parts)))
}

/// How many answers with calls or reasoning a reader reads, and whether it reads reasoning.
type Read = (usize, bool);

/// What reads calls and reasoning where the derived format does not: a built-in format's part for answers, the derived
/// format with the calls of a built-in one, a derived format that reads answers alone.
fn readers_of_answers(
    plain: &Codec,
    derived: Option<&(Format, DerivedParts)>,
    turns: Option<&str>,
) -> Vec<(Read, Format, Reader)> {
    let answers =
        |format: String| Reader::Answers(Answers { format, turns: turns.map(str::to_owned) });
    let mut found = Vec::new();
    if let Some(best) = recognise::best_answers(plain) {
        let read = (best.read, best.format.has_reasoning());
        found.push((read, best.format, answers(best.found.format)));
    }
    let without_calls = derived.filter(|(_, parts)| !parts.calls);
    if let Some((called, parts)) = without_calls
        .and_then(|(format, parts)| Some((recognise::best_calls(plain, format)?, *parts)))
    {
        let WithCalls { format, name, part, read } = called;
        let reader = match part {
            Part::Whole => Reader::Derived(DerivedParts { calls: true, ..parts }),
            Part::Answers => answers(name.into()),
        };
        found.push(((read, parts.reasoning), format, reader));
    }
    if let Some((format, parts)) = derive::answers(plain) {
        let codec = plain.read_by(&format).and_then(|codec| codec.reading_answers(None)).ok();
        let read = codec.and_then(|codec| recognise::answers_read(&codec));
        let reader = answers(format.name().to_owned());
        found.push(((read.unwrap_or_default(), parts.reasoning), format, reader));
    }
    found
}

/// Checks that a template writes a question, after a system message at least. A template that needs more than
/// messages and tools may write it with that.
fn check_writes(writer: &TemplateWriter, vocab: &Vocab) -> Result<()> {
    let question = message(Role::User, QUESTION);
    let options = EncodeOptions::default();
    let written = |messages: &[Message]| writer.write(&values(writer, messages), vocab, &options);
    let rendered = written(slice::from_ref(&question))
        .or_else(|error| written(&[message(Role::System, SYSTEM), question]).map_err(|_| error));
    let problem = match rendered {
        Ok(written) if !written.rendered.text.is_empty() => return Ok(()),
        Ok(_) => "writes nothing of a user's question".to_owned(),
        Err(Error::Template { is_of_values: true, .. }) => return Ok(()),
        Err(error @ Error::Template { .. }) => return Err(error),
        Err(error) => format!("refuses a user's question: {error}"),
    };
    let problem = format!("{problem}; expected a chat template, or `format=`");
    Err(Error::Format { file: "template".into(), key: String::new(), problem })
}

/// Texts of letters alone, which no template changes.
const SYSTEM: &str = "Sqwz";
const QUESTION: &str = "Qwzk";
const ANSWER: &str = "Awzk";
const LATER: &str = "Lwzk";

fn message(role: Role, text: &str) -> Message {
    Message::new(role, text)
}

fn values(writer: &TemplateWriter, messages: &[Message]) -> Values {
    writer.probe(messages.iter().map(Owned::of_message).collect())
}

/// The format that reads text up to the control token that ends an answer.
fn text_format(writer: &TemplateWriter, vocab: &Vocab) -> Result<Format> {
    let history = [
        message(Role::User, QUESTION),
        message(Role::Assistant, ANSWER),
        message(Role::User, LATER),
    ];
    let options = EncodeOptions { add_generation_prompt: Some(false), ..EncodeOptions::default() };
    // What follows the answer in a conversation, or else at its end.
    let after = |history: &[Message]| {
        let rendered = writer.write(&values(writer, history), vocab, &options).ok()?.rendered;
        let said = rendered.text.find(ANSWER)?;
        rendered.spans.iter().find_map(|span| match span.kind {
            SpanKind::Control(id) if span.text.start > said => Some(id.get()),
            _ => None,
        })
    };
    let control = after(&history).or_else(|| after(&history[..2]));
    let own = writer.own().iter().find(|(name, _)| name == "eos_token");
    let own = own.and_then(|(_, text)| vocab.control().get(text).copied());
    let stop = control.or(own);
    let Some(stop) = stop else {
        let problem = "has no control token that ends the template's turns; expected the model's own vocabulary, or \
                       `reader=`, a format";
        return Err(Error::vocab("control", problem));
    };
    // The format has to have heads of turns, which are never read: text, if there is no other control token.
    let other = vocab.control().values().copied().find(|id| *id != stop);
    let spelled = |id| serde_json::to_string(vocab.spelling(id)).unwrap_or_default();
    let (guarantee, head, other) = match other {
        Some(id) => ("\"ids\"", "{HEAD}", format!("HEAD = {}\n", spelled(id))),
        None => ("\"text\"\nmarkers = [\"user\\n\", \"assistant\\n\"]", "", String::new()),
    };
    let file = format!(
        "name = \"text\"\nguarantee = {guarantee}\nsource = \"a chat template\"\nvocabulary = \"the model's\"\n\
         generation = {{ prompt = \"{head}assistant\\n\" }}\n[control]\nSTOP = {}\n{other}[turn]\n\
         user = \"{head}user\\n{{content}}{{STOP}}\"\n\
         assistant = \"{head}assistant\\n{{content}}{{STOP}}\"\n",
        spelled(stop),
    );
    Format::parse("text", &file)
}
