//! Which parts of built-in formats read the answers of a template whose conversations no format reads.
//!
//! In: the codec of a template. Out: a format's part for answers, or its calls with the rows of a derived format; what
//! reads most of the probes' answers with calls or reasoning. Cost: two renderings of each answer of the probes for each
//! format whose calls begin as the template's.

use std::collections::HashSet;

use serde_json::Value;

use super::readings::{Reading, Scope, Texts, numbered, parts_read, reading_codec};
use super::{PROBES, Recognised, has_call, rendered};
use crate::codec::Codec;
use crate::format::{Format, Part, Tokens};
use crate::template::{RenderedTemplate, budget};

/// The built-in format whose part for answers reads most of what a template writes; of those that read as much, one
/// that reads texts exactly. None if no format reads calls or reasoning.
pub(crate) fn best_answers(plain: &Codec) -> Option<Reading> {
    let vocab = plain.vocab();
    let call = written_call(plain);
    let text = call.as_ref().map(RenderedTemplate::text).unwrap_or_default();
    let tokens = Tokens::new(vocab)?;
    let mut best: Option<(Reading, bool)> = None;
    for name in Format::names() {
        let Some(format) = Format::for_answers(name, text, &tokens) else { continue };
        let Some(codec) = reading_codec(plain, &format) else { continue };
        let Ok(codec) = codec.reading_answers(None) else { continue };
        for texts in [Texts::Exact, Texts::Near] {
            let Some([read, missed]) = parts_read(&codec, texts, Scope::Answers) else { continue };
            let found = Recognised::reading(name);
            let reading = Reading { found, format, texts, read, missed, appends: false };
            // Of those that read as many, one that reads reasoning too may read what the model writes beside them.
            let rank = |(reading, writes_call): &(Reading, bool)| {
                (reading.read, reading.format.has_reasoning(), *writes_call, reading.texts)
            };
            let by_format = Codec::new(&reading.format, vocab);
            let writes_call = by_format.is_ok_and(|codec| has_call(&codec, call.as_ref()));
            let found = (reading, writes_call);
            if reads_most(read, missed)
                && best.as_ref().is_none_or(|best| rank(best) < rank(&found))
            {
                best = Some(found);
            }
            break;
        }
    }
    best.map(|(reading, _)| reading)
}

/// How many of the probes' answers with calls or reasoning a format reads that was derived; none if it misreads a text.
pub(crate) fn answers_read(codec: &Codec) -> Option<usize> {
    let mut how = [Texts::Exact, Texts::Near].into_iter();
    how.find_map(|texts| parts_read(codec, texts, Scope::Answers)).map(|[read, _]| read)
}

/// Whether so many answers with calls or reasoning are read, of those that the template writes.
fn reads_most(read: usize, missed: usize) -> bool {
    read > 0 && read >= 3 * missed
}

/// A derived format with the calls of a built-in one.
pub(crate) struct WithCalls {
    pub(crate) format: Format,
    /// The built-in format.
    pub(crate) name: &'static str,
    pub(crate) part: Part,
    pub(crate) read: usize,
}

/// A derived format that reads no calls, with the calls of a built-in format: the one with which it reads most. None if
/// no calls are read so, or a text is misread. Only if no whole format reads calls, the part for answers is tried.
pub(crate) fn best_calls(plain: &Codec, derived: &Format) -> Option<WithCalls> {
    let codec_of = |format: &Format, part| {
        let codec = plain.read_by(format).ok()?;
        if part == Part::Whole { Some(codec) } else { codec.reading_answers(None).ok() }
    };
    let tokens = Tokens::new(plain.vocab())?;
    let call = written_call(plain)?;
    for part in [Part::Whole, Part::Answers] {
        let scope = if part == Part::Whole { Scope::Calls } else { Scope::Answers };
        let mut best: Option<WithCalls> = None;
        // Many formats have the same calls.
        let mut tried = HashSet::new();
        for name in Format::names() {
            let Some(format) = derived.with_calls_of(name, part, call.text(), &tokens) else {
                continue;
            };
            if budget::is_spent() || !tried.insert(format.text().to_owned()) {
                continue;
            }
            let Some(codec) = codec_of(&format, part) else { continue };
            let mut how = [Texts::Exact, Texts::Near].into_iter();
            let read = how.find_map(|texts| parts_read(&codec, texts, scope));
            let Some([read, _]) = read.filter(|[read, missed]| reads_most(*read, *missed)) else {
                continue;
            };
            if best.as_ref().is_none_or(|best| best.read < read) {
                best = Some(WithCalls { format, name, part, read });
            }
        }
        if best.is_some() {
            return best;
        }
    }
    None
}

/// What a template writes of a call.
fn written_call(plain: &Codec) -> Option<RenderedTemplate> {
    let writer = plain.writer()?;
    let (template, own) = (writer.template(), writer.own());
    let probe = PROBES.iter().find(|probe| probe.has_calls())?;
    let numbered = Value::Array(numbered(probe.messages()));
    let mut ways = [&probe.messages, &numbered].into_iter();
    ways.find_map(|messages| rendered(template, messages, probe, own).ok())
}
