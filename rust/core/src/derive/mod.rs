//! A format derived from a chat template, by rendering short conversations.
//!
//! In: a codec that writes by the template. Out: a format that reads what the template writes, and the parts of a
//! conversation that it was seen to read. Each candidate is loaded, bound, and has to read back what the template
//! wrote. Cost: some thirty short renderings, and at most some hundreds of candidates.

mod calls;
mod draft;
mod gaps;
mod probe;
mod proof;
mod rows;
mod thought;

use crate::codec::Codec;
use crate::format::Format;
use draft::Draft;
pub(crate) use gaps::gaps;
use probe::{ANSWER, Given, LATER, Probes, QUESTION, SECOND, assistant, user};
use serde_json::Value;

/// The most candidates that are loaded for plain rows, and for the parts beside texts.
const MOST: usize = 200;

/// The most cuts of the plain rows to which other parts are added.
const BASES: usize = 2;

/// The parts of a conversation that a derived format reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each part is there or not")]
pub struct DerivedParts {
    /// Calls of the assistant's messages.
    pub calls: bool,
    /// Results of calls.
    pub results: bool,
    /// Reasoning of the assistant's messages.
    pub reasoning: bool,
    /// Whether this is all that the template writes.
    pub is_all: bool,
}

impl DerivedParts {
    fn count(self) -> usize {
        [self.calls, self.results, self.reasoning].into_iter().filter(|is_read| *is_read).count()
    }
}

/// Derives a format from the template of a codec.
pub(crate) fn derive(plain: &Codec) -> Option<(Format, DerivedParts)> {
    let probes = Probes::new(plain);
    best(&rows::candidates(&probes)?, &probes)
}

/// Derives a format that reads answers alone.
pub(crate) fn answers(plain: &Codec) -> Option<(Format, DerivedParts)> {
    let probes = Probes::of_answers(plain);
    best(&rows::of_answers(&probes)?, &probes)
}

/// The draft that reads most, as a format.
fn best(drafts: &[Draft], probes: &Probes) -> Option<(Format, DerivedParts)> {
    let mut left = MOST;
    let mut best: Option<(Draft, DerivedParts)> = None;
    let mut begun: Vec<&Draft> = Vec::new();
    let mut bases = 0;
    for draft in drafts {
        if left == 0 || bases == BASES || best.as_ref().is_some_and(|(_, parts)| parts.is_all) {
            break;
        }
        left -= 1;
        let Some(codec) = draft.load(probes) else { continue };
        if reads_plain(&codec, probes) {
            bases += 1;
            keep_better(&mut best, with_parts(draft, probes));
        } else if begun.len() < BASES && is_begun(&codec, probes) {
            begun.push(draft);
        }
    }
    // Some answers are read only where reasoning is: those that have an empty block of it.
    for draft in begun {
        if best.is_some() {
            break;
        }
        let (draft, parts) = with_parts(draft, probes);
        if is_plain(&draft, probes) {
            keep_better(&mut best, (draft, parts));
        }
    }
    let (draft, parts) = best?;
    Some((Format::parse("template", &draft.file(probes)).ok()?, parts))
}

fn keep_better(best: &mut Option<(Draft, DerivedParts)>, found: (Draft, DerivedParts)) {
    if best.as_ref().is_none_or(|(_, known)| known.count() < found.1.count()) {
        *best = Some(found);
    }
}

/// Whether a conversation that ends with a question is read.
fn is_begun(codec: &Codec, probes: &Probes) -> bool {
    proof::reads_whole(codec, probes, &texts()[..3], Given::default())
}

/// Conversations of texts.
fn texts() -> [Value; 4] {
    [user(QUESTION), assistant(ANSWER), user(LATER), assistant(SECOND)]
}

fn is_plain(draft: &Draft, probes: &Probes) -> bool {
    draft.load(probes).is_some_and(|codec| reads_plain(&codec, probes))
}

/// Whether texts of messages are read: in conversations, and as a completion.
fn reads_plain(codec: &Codec, probes: &Probes) -> bool {
    let (texts, given) = (texts(), Given::default());
    let answer = proof::reads_answer(codec, probes, &texts[..2], given);
    answer.unwrap_or_else(|| proof::reads_text(codec, probes, &texts[..1], ANSWER))
        && proof::reads_whole(codec, probes, &texts[..3], given)
        && (probes.encoded(&texts, given, false).is_none()
            || proof::reads_whole(codec, probes, &texts, given))
}

/// Adds what the template writes beside texts.
fn with_parts(base: &Draft, probes: &Probes) -> (Draft, DerivedParts) {
    let left = &mut { MOST };
    let mut draft = base.clone();
    let mut parts = DerivedParts { is_all: true, ..DerivedParts::default() };
    if let Some(thought) = thought::find(probes, &draft) {
        let found = thought.candidates.into_iter().take_while(|_| spend(left)).find(|draft| {
            draft.load(probes).is_some_and(|codec| {
                reads_plain(&codec, probes) && thought::reads(&codec, probes, thought.key)
            })
        });
        parts.reasoning = found.is_some();
        parts.is_all = found.is_some();
        draft = found.unwrap_or(draft);
    }
    let found = calls::find(probes, &draft);
    parts.is_all &= found.is_empty();
    for calls in found {
        let reads = |codec: &Codec| {
            (!parts.reasoning || thought::reads_some(codec, probes))
                && reads_plain(codec, probes)
                && calls::reads(codec, probes, calls.given)
        };
        let mut candidates = calls.candidates.into_iter().take_while(|_| spend(left));
        let Some(found) =
            candidates.find(|draft| draft.load(probes).is_some_and(|codec| reads(&codec)))
        else {
            continue;
        };
        draft = found;
        parts.calls = true;
        parts.is_all = parts.reasoning || thought::find(probes, &draft).is_none();
        let results = calls::results(probes, &draft, calls.given);
        if let Some(results) = results.filter(|_| !probes.answers_only) {
            let found = results.into_iter().take_while(|_| spend(left)).find(|draft| {
                draft.load(probes).is_some_and(|codec| {
                    reads(&codec) && calls::reads_results(&codec, probes, calls.given)
                })
            });
            parts.results = found.is_some();
            parts.is_all &= found.is_some();
            draft = found.unwrap_or(draft);
        }
        break;
    }
    (draft, parts)
}

/// Whether another candidate may be loaded.
fn spend(left: &mut usize) -> bool {
    let is_left = *left > 0;
    *left = left.saturating_sub(1);
    is_left
}
