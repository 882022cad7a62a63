//! An assistant's text that spells a marker of calls or reasoning, in formats whose markers are text.
//!
//! In: a rendered conversation. Out: the slots with such a spelling, where a reader would take it for the marker.
//! Text of others is not searched, as a reader looks for these markers in the assistant's turns only; nor are
//! strings of JSON, within which it looks for none. Cost: linear in the assistant's text, for each marker.

use std::borrow::Cow;
use std::ops::Range;

use super::{Collision, Encoding, code_points};
use crate::grammar::Grammar;
use crate::span::{SourceField, Span, SpanKind};
use chatcodec_vocab::{SPACE_MARK, Vocab};

/// A marker that a slot spells, or a part of it: the number of the span, and the bytes of the rendered text.
struct Spelled<'a> {
    span: usize,
    at: Range<usize>,
    marker: &'a str,
}

/// Where in a slot a marker counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    Anywhere,
    AtStart,
    /// At the beginning, or after white space there.
    First,
}

/// The markers that text of a field may spell; `is_first` if nothing comes before it in its turn.
fn markers_for(grammar: &Grammar, field: SourceField, is_first: bool) -> Vec<(&str, Where)> {
    let answer = grammar.text_opens_answer();
    // White space before a marker that opens an answer is passed over.
    let start = if answer.is_empty() { Where::AtStart } else { Where::First };
    let (anywhere, begins, place) = match field {
        SourceField::Content if is_first => {
            let around = grammar.text_around_any_reasoning();
            (grammar.text_of_calls(), [around, answer].concat(), start)
        }
        SourceField::Content => (grammar.text_of_calls(), answer, Where::First),
        // The marker that opens reasoning may come again.
        SourceField::Reasoning => {
            (grammar.text_within_reasoning(), grammar.text_opens_reasoning(), Where::First)
        }
        SourceField::Arguments(_) if grammar.has_json_calls() => return Vec::new(),
        SourceField::FunctionName(_)
        | SourceField::Arguments(_)
        | SourceField::Id(_)
        | SourceField::Language(_)
        | SourceField::Code(_) => (grammar.text_ends_of_calls(), Vec::new(), Where::AtStart),
        _ => return Vec::new(),
    };
    let anywhere = anywhere.into_iter().map(|marker| (marker, Where::Anywhere));
    anywhere.chain(begins.into_iter().map(|marker| (marker, place))).collect()
}

/// Text as a reader sees it, where a vocabulary has a mark for spaces: with a space for each mark.
struct Shown<'a> {
    text: Cow<'a, str>,
    /// Where in the shown text the spaces for marks are.
    marks: Vec<usize>,
}

impl<'a> Shown<'a> {
    fn new(text: &'a str, vocab: &Vocab) -> Self {
        let shown = vocab.spaced(Cow::Borrowed(text));
        let gone = SPACE_MARK.len_utf8() - 1;
        let given = text.match_indices(SPACE_MARK).filter(|_| matches!(shown, Cow::Owned(_)));
        let marks = given.enumerate().map(|(before, (at, _))| at - before * gone).collect();
        Self { text: shown, marks }
    }

    /// Where a byte of the shown text is in the text.
    fn place(&self, at: usize) -> usize {
        let before = self.marks.partition_point(|&mark| mark < at);
        at + before * (SPACE_MARK.len_utf8() - 1)
    }
}

/// The spellings in the assistant's slots.
fn spelled<'a>(
    text: &'a str,
    spans: &'a [Span],
    generated: &'a [Range<usize>],
    grammar: &'a Grammar,
    vocab: &'a Vocab,
) -> impl Iterator<Item = Spelled<'a>> + 'a {
    // A mark for a space is longer than the space.
    let longest = grammar.text_markers.iter().flatten().map(String::len).max().unwrap_or(0);
    let longest = if vocab.reads_space_mark() { longest * SPACE_MARK.len_utf8() } else { longest };
    let spans = spans.iter().enumerate().filter(move |_| longest > 0);
    spans.flat_map(move |(nth, span)| {
        let slot = &span.text;
        let turn = generated.partition_point(|turn| turn.end <= slot.start);
        let turn = generated.get(turn).filter(|turn| turn.start <= slot.start);
        let turn = turn.filter(|_| matches!(span.kind, SpanKind::Slot { .. }));
        let is_first = turn.is_some_and(|turn| turn.start == slot.start);
        let markers =
            turn.map(|_| markers_for(grammar, span.source.field, is_first)).unwrap_or_default();
        let (mut from, mut to) = (slot.start.saturating_sub(longest), slot.end + longest);
        (from, to) = turn.map_or((0, 0), |turn| (from.max(turn.start), to.min(turn.end)));
        while !text.is_char_boundary(from) {
            from += 1;
        }
        while !text.is_char_boundary(to) {
            to -= 1;
        }
        let near = Shown::new(&text[from..to.max(from)], vocab);
        let mut found = Vec::new();
        for (marker, place) in markers {
            let places = near
                .text
                .match_indices(marker)
                .map(|(at, _)| from + near.place(at)..from + near.place(at + marker.len()));
            let counts = |at: &Range<usize>| match place {
                Where::Anywhere => at.start < slot.end && at.end > slot.start,
                Where::AtStart => at.start == slot.start,
                Where::First => {
                    let before = text.get(slot.start..at.start);
                    let is_white = |before: &str| vocab.spaced(before.into()).trim().is_empty();
                    at.start < slot.end && before.is_some_and(is_white)
                }
            };
            found.extend(places.filter(counts).map(|at| Spelled { span: nth, at, marker }));
        }
        found
    })
}

/// The first slot that spells a marker, and the marker.
pub(super) fn first<'a>(
    text: &'a str,
    spans: &'a [Span],
    generated: &'a [Range<usize>],
    grammar: &'a Grammar,
    vocab: &'a Vocab,
) -> Option<(usize, &'a str)> {
    spelled(text, spans, generated, grammar, vocab).next().map(|found| (found.span, found.marker))
}

impl Encoding {
    /// The parts of an assistant's text that spell a marker.
    pub(super) fn text_markers(&self) -> Vec<Collision> {
        let Self { text, spans, generated, grammar, vocab, .. } = self;
        let mut found: Vec<Spelled<'_>> = spelled(text, spans, generated, grammar, vocab).collect();
        found.sort_by_key(|found| (found.at.start, std::cmp::Reverse(found.at.end)));
        found.dedup_by(|next, kept| next.span == kept.span && next.at == kept.at);
        let collision = |Spelled { span, at, marker }: Spelled<'_>| {
            let span = &self.spans[span];
            let escaped = span.kind == SpanKind::Slot { escaped: true };
            let slot = &text[span.text.clone()];
            let points = |at: usize| {
                let at = at.clamp(span.text.start, span.text.end) - span.text.start;
                span.skipped as usize + code_points(&slot[..at], escaped)
            };
            let (start, end) = (points(at.start), points(at.end));
            Collision { path: span.source, start, end, marker: marker.to_owned() }
        };
        found.into_iter().map(collision).collect()
    }
}
