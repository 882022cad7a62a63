//! A rendered template, cut into control and text, and the spans of it.
//!
//! In: the text of a rendering with the source of each part, and the vocabulary. Out: [`Layout`], and from it the spans
//! that the encoder takes. Cost: linear in the text.

use std::ops::Range;

use hashbrown::HashMap;

use super::common_prefix;
use crate::message::Role;
use crate::render::{Boundary, Rendered};
use crate::span::{Source, SourceField, Span, SpanKind};
use crate::template::{Part, Paths, Premises, ROLES, RenderedTemplate};
use chatcodec_vocab::{ControlId, TokenId, Vocab};

/// A stretch of a rendered text.
struct Segment {
    /// Bytes of the rendered text.
    text: Range<usize>,
    kind: SegmentKind,
    /// The message that the template's loop was at; -1 outside of the loop.
    within: i32,
}

#[derive(Clone, Copy)]
enum SegmentKind {
    /// A control token.
    Control { id: ControlId },
    /// The template's own text.
    Own,
    /// White space that a control token takes.
    Taken,
    /// A caller's text, and its first byte in the caller's string if it was not changed.
    Data(u32, Option<usize>),
}

/// A rendered template, cut into control and text.
pub(super) struct Layout<'a> {
    text: &'a str,
    paths: &'a Paths,
    vocab: &'a Vocab,
    segments: Vec<Segment>,
    roles: &'a [Option<Role>],
}

impl<'a> Layout<'a> {
    pub(super) fn new(
        rendered: &'a RenderedTemplate,
        roles: &'a [Option<Role>],
        vocab: &'a Vocab,
    ) -> Self {
        let (text, paths) = (rendered.text(), rendered.paths());
        let parts = rendered.parts();
        let is_own = |part: &Part| part.path.is_none_or(|path| is_role(paths, path));
        let own = joined(parts.iter().filter(|part| is_own(part)).map(|part| part.text.clone()));
        let control = own.iter().flat_map(|range| spelled_in(text, range, vocab));
        let control: Vec<(Range<usize>, TokenId)> = control.collect();
        // A control token parts a text in two.
        let segments = Vec::with_capacity(parts.len() + 2 * control.len());
        let mut layout = Self { text, paths, vocab, segments, roles };
        let mut control = control.into_iter().peekable();
        for part in &parts {
            let is_own = is_own(part);
            let mut at = part.text.start;
            // A control token that began in the part before.
            if let Some(last) = layout.segments.last() {
                at = at.max(last.text.end);
            }
            while let Some((found, id)) = control.next_if(|(found, _)| found.start < part.text.end)
            {
                layout.push_text(at..found.start, part, is_own);
                at = found.end;
                if let Some(id) = vocab.control_id(id) {
                    let kind = SegmentKind::Control { id };
                    layout.segments.push(Segment { text: found, kind, within: part.within });
                }
            }
            layout.push_text(at..part.text.end.max(at), part, is_own);
        }
        layout.take_spaces();
        layout
    }

    fn push_text(&mut self, text: Range<usize>, part: &Part, is_own: bool) {
        if text.is_empty() {
            return;
        }
        let kind = match part.path {
            Some(path) if !is_own => {
                let place = part.place.map(|place| place + text.start - part.text.start);
                SegmentKind::Data(path, place)
            }
            _ => SegmentKind::Own,
        };
        let within = part.within;
        // A value that was written in parts is one slot.
        if let Some(last) = self.segments.last_mut()
            && last.within == within
            && last.text.end == text.start
            && let (SegmentKind::Data(path, from), SegmentKind::Data(same, place)) =
                (&mut last.kind, kind)
            && *path == same
        {
            let length = last.text.len();
            if from.is_none_or(|from| Some(from + length) != place) {
                *from = None;
            }
            last.text.end = text.end;
            return;
        }
        self.segments.push(Segment { text, kind, within });
    }

    /// Cuts off the white space of the template that a control token beside it takes.
    fn take_spaces(&mut self) {
        let takes = |segment: &Segment| match segment.kind {
            SegmentKind::Control { id, .. } => self.vocab.strips(id.get()),
            _ => chatcodec_vocab::Strips::default(),
        };
        let none = |strips: chatcodec_vocab::Strips| !strips.left && !strips.right;
        if self.segments.iter().all(|segment| none(takes(segment))) {
            return;
        }
        let mut cut: Vec<Segment> = Vec::with_capacity(self.segments.len());
        for (at, segment) in self.segments.iter().enumerate() {
            let Segment { text, kind, within } = segment;
            let SegmentKind::Own = kind else {
                cut.push(Segment { text: text.clone(), kind: *kind, within: *within });
                continue;
            };
            let shown = &self.text[text.clone()];
            let before = at.checked_sub(1).map(|at| takes(&self.segments[at]));
            let after = self.segments.get(at + 1).map(takes);
            let mut kept = text.clone();
            if before.is_some_and(|strips| strips.right) {
                kept.start += shown.len() - shown.trim_start().len();
            }
            if after.is_some_and(|strips| strips.left) {
                let end = text.start + shown.trim_end().len();
                kept.end = end.max(kept.start);
            }
            let parts = [
                (text.start..kept.start, SegmentKind::Taken),
                (kept.clone(), SegmentKind::Own),
                (kept.end..text.end, SegmentKind::Taken),
            ];
            let parts = parts.into_iter().filter(|(text, _)| !text.is_empty());
            cut.extend(parts.map(|(text, kind)| Segment { text, kind, within: *within }));
        }
        self.segments = cut;
    }

    /// The control tokens of the template itself.
    pub(super) fn own_control(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.segments.iter().filter_map(|segment| match segment.kind {
            SegmentKind::Control { id } => Some(id.get()),
            _ => None,
        })
    }

    /// The message that a segment belongs to.
    fn owner(&self, segment: &Segment) -> i32 {
        match segment.kind {
            SegmentKind::Data(path, _) if segment.within < 0 => self.paths.message(path),
            _ => segment.within,
        }
    }

    /// Where the template's text after the last message begins.
    fn prompt_start(&self) -> Option<usize> {
        let is_of_none = |segment: &Segment| {
            segment.within < 0 && !matches!(segment.kind, SegmentKind::Data(..))
        };
        let last = self.segments.iter().rposition(|segment| !is_of_none(segment))?;
        let first = self.segments.get(last + 1)?;
        Some(first.text.start)
    }

    /// The spans; `prompt` is the text of the prompt that is written.
    pub(super) fn write(
        &self,
        rendered: &RenderedTemplate,
        headers: &Headers<'_>,
        prompt: Option<&str>,
        boundary: Boundary,
    ) -> Rendered {
        let generated = match rendered.generated() {
            [] => self.answers(headers),
            tagged => tagged.to_vec(),
        };
        let prompt_at = prompt.and_then(|prompt| {
            let ends = !prompt.is_empty() && self.text.ends_with(prompt);
            if ends { Some(self.text.len() - prompt.len()) } else { self.prompt_start() }
        });
        let mut out = Rendered::default();
        out.text.reserve(self.text.len());
        out.spans.reserve(self.segments.len());
        // Positions in the rendered text, and where they are in the text that is encoded.
        let mut places: Vec<(usize, usize)> = Vec::with_capacity(self.segments.len() + 1);
        let mut counted = Counted::default();
        let mut rest = &self.segments[..];
        while let [first, ..] = rest {
            let is_text = |segment: &&Segment| {
                matches!(segment.kind, SegmentKind::Own | SegmentKind::Data(..))
            };
            let count = rest.iter().take_while(is_text).count();
            if count == 0 {
                places.push((first.text.start, out.text.len()));
                let kind = match first.kind {
                    SegmentKind::Control { id, .. } => SpanKind::Control(id),
                    _ => SpanKind::Taken,
                };
                out.push(kind, &self.text[first.text.clone()], self.source(first), 0);
                rest = &rest[1..];
                continue;
            }
            let (texts, after) = rest.split_at(count);
            rest = after;
            self.write_texts(texts, &mut out, &mut places, &mut counted);
        }
        places.push((self.text.len(), out.text.len()));
        let place = |at: usize| {
            let next = places.partition_point(|(from, _)| *from <= at);
            let Some(&(from, to)) = next.checked_sub(1).and_then(|next| places.get(next)) else {
                return 0;
            };
            let end = places.get(next).map_or(out.text.len(), |(_, end)| *end);
            let mut moved = (to + at - from).min(end);
            while !out.text.is_char_boundary(moved) {
                moved -= 1;
            }
            moved
        };
        out.generated =
            generated.iter().map(|range| place(range.start)..place(range.end)).collect();
        out.prompt_at = prompt_at.map(place);
        if boundary == Boundary::Isolated {
            out.cut_at_generated();
        }
        out
    }

    /// Conditions for free texts under which the same is written around them; none if they are not known.
    pub(super) fn premises(
        &self,
        rendered: &RenderedTemplate,
        headers: &Headers<'_>,
        prompt: Option<&str>,
    ) -> Option<Premises> {
        let premises = rendered.premises()?.clone();
        let is_free = |segment: &&Segment| matches!(segment.kind, SegmentKind::Data(path, _) if self.paths.is_free(path));
        let last = self.segments.iter().rfind(is_free).map_or(0, |segment| segment.text.end);
        let end = &self.text[last..];
        if prompt.is_some_and(|prompt| prompt.len() > end.len() && prompt.ends_with(end)) {
            return None;
        }
        let mut begins = Vec::new();
        let groups = self.segments.chunk_by(|one, next| self.owner(one) == self.owner(next));
        for group in groups.filter(|_| rendered.generated().is_empty()) {
            let (Some(first), Some(free)) = (group.first(), group.iter().find(is_free)) else {
                continue;
            };
            begins.extend(headers.beginnings(&self.text[first.text.start..free.text.start]));
        }
        Some(premises.without_first(&begins))
    }

    /// Text between two control tokens, normalised as one.
    fn write_texts(
        &self,
        texts: &[Segment],
        out: &mut Rendered,
        places: &mut Vec<(usize, usize)>,
        counted: &mut Counted,
    ) {
        let (Some(first), Some(last)) = (texts.first(), texts.last()) else { return };
        let whole = &self.text[first.text.start..last.text.end];
        let normalised = self.vocab.normalise(whole);
        let is_same = *normalised == *whole;
        let mut from = 0;
        for (nth, segment) in texts.iter().enumerate() {
            let raw = &self.text[segment.text.clone()];
            // A border is where the text up to it ends, normalised with the segment before it alone.
            let to = if is_same {
                from + raw.len()
            } else if nth + 1 == texts.len() {
                normalised.len()
            } else {
                let before = nth.checked_sub(1).map_or(segment, |before| &texts[before]);
                let alone = &self.text[before.text.start..segment.text.start];
                let both = &self.text[before.text.start..segment.text.end];
                let [alone, both] = [alone, both].map(|text| self.vocab.normalise(text).len());
                let mut to = (from + both).saturating_sub(alone).clamp(from, normalised.len());
                while !normalised.is_char_boundary(to) {
                    to -= 1;
                }
                to.max(from)
            };
            let shown = &normalised[from..to];
            from = to;
            places.push((segment.text.start, out.text.len()));
            let source = self.source(segment);
            match segment.kind {
                SegmentKind::Data(path, place) => {
                    let given = self.paths.string(path);
                    let skipped = place
                        .zip(given)
                        .map_or(0, |(place, given)| counted.points(path, place, given));
                    let kind = SpanKind::Slot { escaped: false };
                    // A text that was changed is searched as the caller gave it.
                    let original = match (place, given) {
                        (Some(_), _) if shown == raw => None,
                        (Some(_), _) => Some(raw),
                        (None, given) => given.filter(|given| *given != shown),
                    };
                    if let Some(original) = original {
                        out.originals.insert(out.spans.len(), original.to_owned());
                    }
                    out.push(kind, shown, source, skipped);
                }
                _ => out.push(SpanKind::Literal, shown, source, 0),
            }
        }
    }

    fn source(&self, segment: &Segment) -> Source {
        match segment.kind {
            SegmentKind::Data(path, _) => {
                let field = match self.paths.key_of_message(path) {
                    Some("content") => SourceField::Content,
                    _ => SourceField::Path(path),
                };
                Source { message: self.paths.message(path), field }
            }
            _ => Source { message: self.owner(segment), field: SourceField::Scaffold },
        }
    }

    /// The text that a model generates of each message of the assistant's: after the generation prompt, up to the
    /// token that stops it.
    fn answers(&self, headers: &Headers<'_>) -> Vec<Range<usize>> {
        let mut turns: Vec<Option<Range<usize>>> = vec![None; self.roles.len()];
        let mut from = 0;
        for group in self.segments.chunk_by(|one, next| self.owner(one) == self.owner(next)) {
            from += group.len();
            let Some(first) = group.first() else { continue };
            let Ok(message) = usize::try_from(self.owner(first)) else { continue };
            if self.roles.get(message).copied().flatten() == Some(Role::Assistant) {
                turns[message] = Some(self.answer(group, &self.segments[from..], headers));
            }
        }
        turns.into_iter().flatten().collect()
    }

    /// The text that a model generates of the segments of a message, which others follow.
    fn answer(
        &self,
        group: &[Segment],
        following: &[Segment],
        headers: &Headers<'_>,
    ) -> Range<usize> {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return 0..0 };
        let is_data = |segment: &&Segment| matches!(segment.kind, SegmentKind::Data(..));
        let text = &self.text[first.text.start..last.text.end];
        let mut start = first.text.start + headers.length(text);
        if let Some(data) = group.iter().find(is_data) {
            start = start.min(data.text.start);
        }
        // A control token is generated as a whole or not at all.
        let cut = group.iter().find(|segment| {
            segment.is_control() && segment.text.start < start && start < segment.text.end
        });
        start = cut.map_or(start, |segment| segment.text.start);
        let data = group.iter().rposition(|segment| is_data(&segment));
        let tail = &group[data.map_or(0, |at| at + 1)..];
        let is_after = |segment: &&Segment| segment.is_control() && segment.text.start >= start;
        let is_stop = |segment: &&Segment| segment.stops(headers.stops);
        let own = tail.iter().filter(is_after).find(is_stop);
        let stop = own
            .or_else(|| self.first_control(following).filter(is_stop))
            .or_else(|| tail.iter().rfind(is_after));
        start..stop.unwrap_or(last).text.end.max(start)
    }

    /// The control token that comes first in what follows an answer, after white space of the template's at most.
    fn first_control<'s>(&self, following: &'s [Segment]) -> Option<&'s Segment> {
        let is_white = |segment: &&Segment| {
            matches!(segment.kind, SegmentKind::Own | SegmentKind::Taken)
                && self.text[segment.text.clone()].trim().is_empty()
        };
        following.iter().find(|segment| !is_white(segment)).filter(|segment| segment.is_control())
    }
}

/// The generation prompts of a template, and the ids that end what a model generates after them.
pub(super) struct Headers<'a> {
    /// The text of the one with the options of the conversation.
    pub(super) own: &'a str,
    /// Those with other options.
    pub(super) others: &'a [String],
    pub(super) stops: &'a [TokenId],
}

impl Headers<'_> {
    /// Number of bytes of a turn that a prompt writes: that of these options if the turn begins with all of it, or
    /// else the longest one that it does. Where it begins with none, the beginning that it has in common with that
    /// of these options.
    fn length(&self, turn: &str) -> usize {
        if turn.starts_with(self.own) {
            return self.own.len();
        }
        let whole = self.others.iter().filter(|prompt| turn.starts_with(prompt.as_str()));
        let whole = whole.map(String::len).max().filter(|&length| length > 0);
        whole.unwrap_or_else(|| common_prefix(turn, self.own))
    }

    /// The first characters of texts on which [`Self::length`] may depend, where a turn begins so and a text follows.
    fn beginnings(&self, turn: &str) -> Vec<char> {
        let others = || self.others.iter().map(String::as_str);
        let whole = others().filter(|prompt| !prompt.is_empty() && turn.starts_with(prompt));
        let whole = whole.map(str::len).max();
        let is_in_each = match whole {
            Some(length) => length == turn.len(),
            None => self.own.starts_with(turn),
        };
        if turn.starts_with(self.own) || is_in_each {
            return Vec::new();
        }
        let prompts = std::iter::once(self.own).chain(others());
        prompts.filter_map(|prompt| prompt.strip_prefix(turn)?.chars().next()).collect()
    }
}

impl Segment {
    fn is_control(&self) -> bool {
        matches!(self.kind, SegmentKind::Control { .. })
    }

    /// Whether it is a token that ends an assistant's turn.
    fn stops(&self, stops: &[TokenId]) -> bool {
        matches!(self.kind, SegmentKind::Control { id, .. } if stops.contains(&id.get()))
    }
}

/// Code points before a byte of a caller's string. Each string is counted once if its parts come in order.
#[derive(Default)]
struct Counted {
    /// By path: a byte, and the code points before it.
    places: HashMap<u32, (usize, u32)>,
}

impl Counted {
    fn points(&mut self, path: u32, byte: usize, text: &str) -> u32 {
        let known = self.places.get(&path).copied().filter(|(at, _)| *at <= byte);
        let (at, before) = known.unwrap_or_default();
        let more = text.get(at..byte).map_or(0, |text| text.chars().count() as u32);
        self.places.insert(path, (byte, before + more));
        before + more
    }
}

/// Whether a value is the role of a message, of the closed set.
fn is_role(paths: &Paths, path: u32) -> bool {
    paths.key_of_message(path) == Some("role")
        && paths.string(path).is_some_and(|role| ROLES.contains(&role))
}

/// Ranges, with those that meet as one.
fn joined(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

/// Control tokens that a stretch of text spells.
fn spelled_in<'a>(
    text: &'a str,
    range: &Range<usize>,
    vocab: &'a Vocab,
) -> impl Iterator<Item = (Range<usize>, TokenId)> + 'a {
    let start = range.start;
    let found = vocab.find_control(&text[range.clone()]);
    found.map(move |found| (start + found.start..start + found.end, found.id))
}

impl Rendered {
    fn push(&mut self, kind: SpanKind, text: &str, source: Source, skipped: u32) {
        let start = self.text.len();
        self.text.push_str(text);
        self.spans.push(Span { kind, text: start..self.text.len(), source, skipped });
    }

    /// Encodes what a model generates apart from what is before it, as generation does.
    fn cut_at_generated(&mut self) {
        let starts: Vec<usize> = self.generated.iter().map(|range| range.start).collect();
        let mut spans = Vec::with_capacity(self.spans.len() + starts.len());
        let mut originals = hashbrown::HashMap::new();
        let mut starts = starts.into_iter().peekable();
        for (nth, span) in std::mem::take(&mut self.spans).into_iter().enumerate() {
            let mut span = span;
            while let Some(at) = starts.next_if(|at| *at < span.text.end) {
                let mut before = span.clone();
                if at > span.text.start {
                    before.text.end = at;
                    span.text.start = at;
                    spans.push(before);
                }
                let (kind, text) = (SpanKind::Cut, at..at);
                spans.push(Span { kind, text, source: span.source, skipped: 0 });
            }
            if let Some(original) = self.originals.remove(&nth) {
                originals.insert(spans.len(), original);
            }
            spans.push(span);
        }
        self.spans = spans;
        self.originals = originals;
    }
}
