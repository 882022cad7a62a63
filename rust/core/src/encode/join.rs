//! Joined encodings: a prompt, the ids of a model's completion, and the encoding of the text after
//! it.
//!
//! Cost: the prompt is copied; only the given ids are read.

use std::ops::Range;
use std::sync::Arc;

use super::{Encoding, IdPiece, PieceKind};
use super::{Note, Trail};
use crate::grammar::Grammar;
use crate::render::{Follows, Rendered};
use crate::span::{Source, Span, SpanKind};
use chatcodec_vocab::{DummyPrefix, TokenId, TokenKind, Vocab};

/// Given ids with their sources.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given<'a> {
    pub(crate) ids: &'a [TokenId],
    pub(crate) sources: &'a [Source],
}

impl Encoding {
    /// An encoding of given ids without a message.
    pub(crate) fn of_ids(ids: &[TokenId], grammar: &Arc<Grammar>, vocab: &Vocab) -> Self {
        let mut encoding = Self {
            ids: Arc::new(ids.to_vec()),
            text: String::new(),
            spans: Vec::new(),
            generated: Vec::new(),
            pieces: Vec::new(),
            originals: hashbrown::HashMap::new(),
            paths: None,
            grammar: grammar.clone(),
            vocab: vocab.clone(),
            prompt_at: None,
            trail: Trail::default(),
            notes: Vec::new(),
            dropped: Vec::new(),
        };
        encoding.give(0, ids, |_| Source::NONE);
        encoding
    }

    /// Finds the generation prompt at its end: the longest of the texts that it may be.
    pub(crate) fn find_asked<'t>(&mut self, asked: impl Iterator<Item = &'t str>) {
        let text = &self.text;
        let starts = asked.filter_map(|asked| Some(text.strip_suffix(asked)?.len()));
        self.prompt_at = starts.min().filter(|&at| at < text.len());
    }

    /// The part of earlier turns that the next turn depends on.
    pub(crate) fn trail(&self) -> &Trail {
        &self.trail
    }

    pub(crate) fn set_trail(&mut self, trail: Trail) {
        self.trail = trail;
    }

    /// The encoding with further notes.
    pub(crate) fn with_notes(mut self, notes: Vec<Note>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// The text of the generation prompt at its end.
    pub(crate) fn asks(&self) -> Option<&str> {
        self.text.get(self.prompt_at?..)
    }

    /// The position of the id that contains the beginning of the generation prompt.
    pub(crate) fn asks_from(&self) -> usize {
        let at = self.prompt_at.unwrap_or(self.text.len());
        let before = self.pieces.partition_point(|piece| piece.text.end <= at);
        self.pieces.get(before).map_or(self.ids.len(), |piece| piece.ids.start)
    }

    /// Byte of the text at which the generation prompt begins; its end if there is none.
    pub(crate) fn asked_at(&self) -> usize {
        self.prompt_at.unwrap_or(self.text.len())
    }

    /// Whether a codec's grammar wrote it.
    pub(crate) fn is_of(&self, grammar: &Arc<Grammar>) -> bool {
        Arc::ptr_eq(&self.grammar, grammar)
    }

    /// The text of the last turn that a model generates.
    pub(crate) fn last_generated(&self) -> &str {
        self.generated.last().and_then(|turn| self.text.get(turn.start..)).unwrap_or_default()
    }

    /// Whether its first ids were given, so that their sources are unknown.
    pub(crate) fn is_given(&self) -> bool {
        let by_text = |piece: &IdPiece| matches!(piece.kind, PieceKind::Given(_));
        self.spans.first().is_some_and(|span| span.kind == SpanKind::Given)
            || self.pieces.first().is_some_and(by_text)
    }

    /// Whether the last id is text.
    pub(crate) fn ends_in_text(&self) -> bool {
        self.pieces.last().is_some_and(|piece| !matches!(piece.kind, PieceKind::Control))
    }

    /// What text after it follows.
    pub(crate) fn end(&self) -> Follows {
        if self.ends_in_text() { Follows::Text } else { Follows::Control }
    }

    /// This encoding followed by given ids, which a model generates as message `index`. With `resumes` they
    /// continue the last generated turn; otherwise they begin a turn.
    pub(crate) fn answered(&self, given: Given<'_>, index: i32, resumes: bool) -> Self {
        let mut joined = Self { ids: Arc::default(), ..self.clone() };
        if let Some(at) = joined.prompt_at.take() {
            // The generation prompt has become the header of the message.
            let first = joined.spans.partition_point(|span| span.text.start < at);
            for span in &mut joined.spans[first..] {
                span.source.message = index;
            }
        }
        let begun = if resumes { joined.generated.pop() } else { None };
        let start = begun.map_or(self.text.len(), |turn| turn.start);
        joined.give(self.ids.len(), given.ids, |nth| given.sources[nth]);
        joined.generated.push(start..joined.text.len());
        joined.ids = Arc::new([&self.ids[..], given.ids].concat());
        joined
    }

    /// Takes the sources of the given ids after `prompt` from the rendered text up to byte `end`, where both
    /// texts are equal. The rendered indices of messages are lower by `moved`.
    pub(crate) fn written_as(
        &mut self,
        prompt: &Self,
        rendered: &Rendered,
        end: usize,
        moved: i32,
    ) {
        let begin = prompt.text.len();
        let Some(from) = end.checked_sub(self.text.len() - begin) else { return };
        if rendered.text.get(from..end) != self.text.get(begin..) {
            return;
        }
        let is_within = |(_, span): &(usize, &Span)| {
            span.text.start < end && span.text.end > from && !span.text.is_empty()
        };
        let (mut spans, mut originals) = (Vec::new(), Vec::new());
        for (nth, written) in rendered.spans.iter().enumerate().filter(is_within) {
            let text = written.text.start.max(from)..written.text.end.min(end);
            let mut span = written.clone();
            if let SpanKind::Control(_) = span.kind {
                span.kind = SpanKind::Given;
            } else if let SpanKind::Slot { escaped } = span.kind {
                let before = &rendered.text[written.text.start..text.start];
                span.skipped += super::code_points(before, escaped) as u32;
                let original = rendered.originals.get(&nth).filter(|_| text == written.text);
                originals.extend(original.map(|text| (spans.len(), text.clone())));
            }
            span.text = text.start - from + begin..text.end - from + begin;
            span.source.message += moved;
            spans.push(span);
        }
        let controls = |spans: &[Span]| -> Vec<Range<usize>> {
            let given = spans.iter().filter(|span| span.kind == SpanKind::Given);
            given.map(|span| span.text.clone()).collect()
        };
        let kept = prompt.spans.len();
        if controls(&spans) != controls(&self.spans[kept..]) {
            return;
        }
        self.originals.extend(originals.into_iter().map(|(nth, text)| (nth + kept, text)));
        self.spans.truncate(kept);
        self.spans.append(&mut spans);
    }

    /// This encoding followed by another; the last turn here owns its first `written` bytes.
    pub(crate) fn followed_by(mut self, tail: Self, written: usize) -> Self {
        let (ids, bytes, spans) = (self.ids.len(), self.text.len(), self.spans.len());
        if let Some(turn) = self.generated.last_mut() {
            turn.end += written;
        }
        Arc::make_mut(&mut self.ids).extend_from_slice(&tail.ids);
        let moved = |text: Range<usize>| text.start + bytes..text.end + bytes;
        self.prompt_at = tail.prompt_at.map(|at| at + bytes);
        self.text.push_str(&tail.text);
        let placed = |span: Span| Span { text: moved(span.text.clone()), ..span };
        self.spans.extend(tail.spans.into_iter().map(placed));
        self.generated.extend(tail.generated.into_iter().map(moved));
        self.pieces.extend(tail.pieces.into_iter().map(|piece| IdPiece {
            ids: piece.ids.start + ids..piece.ids.end + ids,
            text: moved(piece.text),
            kind: piece.kind,
        }));
        self.originals.extend(tail.originals.into_iter().map(|(nth, text)| (nth + spans, text)));
        self
    }

    /// Adds the text of given ids, which begin at id `first`, with the source of each.
    fn give(&mut self, first: usize, given: &[TokenId], source_of: impl Fn(usize) -> Source) {
        let prefix = self.vocab.dummy_prefix();
        let mut at_start = match prefix {
            DummyPrefix::EveryRun => !self.ends_in_text(),
            DummyPrefix::FirstRun => first == 0,
            DummyPrefix::Never => false,
        };
        let vocab = self.vocab.clone();
        let mut run = Run::with_room(given.len());
        for (nth, &id) in given.iter().enumerate() {
            let token = vocab.token(id);
            let source = source_of(nth);
            if let Some((TokenKind::Control, _)) = token {
                self.give_run(first + nth, &mut run);
                let start = self.text.len();
                self.text.push_str(vocab.spelling(id));
                let text = start..self.text.len();
                let ids = first + nth..first + nth + 1;
                self.spans.push(span(SpanKind::Given, text.clone(), source.scaffold()));
                self.pieces.push(IdPiece { ids, text, kind: PieceKind::Control });
                at_start = prefix == DummyPrefix::EveryRun;
                continue;
            }
            let bytes = match token {
                Some((TokenKind::Text, bytes)) if at_start => {
                    bytes.strip_prefix(b" ").unwrap_or(bytes)
                }
                Some((TokenKind::Text | TokenKind::Byte, bytes)) => bytes,
                _ => b"",
            };
            at_start &= token.is_none_or(|(kind, _)| kind == TokenKind::Unused);
            run.push(bytes, source);
        }
        self.give_run(first + given.len(), &mut run);
    }

    /// Adds a run of text that ends before id `end`, and empties it.
    fn give_run(&mut self, end: usize, run: &mut Run) {
        if run.ends.is_empty() {
            return;
        }
        let ids = end - run.ends.len()..end;
        let begin = self.text.len();
        let places = Places::of(&run.bytes, &mut self.text);
        let covered = places.covered(&run.ends);
        let mut spans: Vec<Span> = Vec::new();
        let mut sources = run.sources.iter().peekable();
        while let Some(&(_, source)) = sources.next() {
            let kind = if source.is_content() {
                SpanKind::Slot { escaped: false }
            } else {
                SpanKind::Literal
            };
            // Neighbours may share an invalid UTF-8 sequence.
            let start = spans.last().map_or(begin, |last| last.text.end);
            let next = sources.peek().map_or(run.ends.len(), |&&(next, _)| next);
            let to = begin + covered[next - 1].end as usize;
            // A character with two sources belongs to the first.
            let to = (to..self.text.len()).find(|&at| self.text.is_char_boundary(at));
            let end = to.unwrap_or(self.text.len()).max(start);
            spans.push(span(kind, start..end, source));
        }
        self.spans.append(&mut spans);
        run.clear();
        let text = begin..self.text.len();
        self.pieces.push(IdPiece { ids, text, kind: PieceKind::Given(covered) });
    }
}

fn span(kind: SpanKind, text: Range<usize>, source: Source) -> Span {
    Span { kind, text, source, skipped: 0 }
}

/// Text ids between two control tokens: their bytes, where each ends, and the ids with which another source begins.
#[derive(Debug, Default)]
struct Run {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    sources: Vec<(usize, Source)>,
}

impl Run {
    /// No ids yet, with room for some of so many.
    fn with_room(ids: usize) -> Self {
        let ids = ids.min(1024);
        Self {
            bytes: Vec::with_capacity(4 * ids),
            ends: Vec::with_capacity(ids),
            sources: Vec::new(),
        }
    }

    /// Empties it, and keeps its room.
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.sources.clear();
    }

    fn push(&mut self, bytes: &[u8], source: Source) {
        if self.sources.last().is_none_or(|&(_, last)| last != source) {
            self.sources.push((self.ends.len(), source));
        }
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len() as u32);
    }
}

/// Map from bytes to a text in which invalid UTF-8 was replaced.
struct Places {
    /// Replaced bytes, and their text.
    replaced: Vec<(Range<usize>, Range<usize>)>,
}

impl Places {
    /// Appends bytes to a text.
    fn of(bytes: &[u8], text: &mut String) -> Self {
        let begin = text.len();
        let mut replaced = Vec::new();
        if let Ok(valid) = std::str::from_utf8(bytes) {
            text.push_str(valid);
            return Self { replaced };
        }
        let mut at = 0;
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            at += chunk.valid().len();
            let invalid = chunk.invalid().len();
            if invalid > 0 {
                let start = text.len() - begin;
                text.push('\u{FFFD}');
                replaced.push((at..at + invalid, start..text.len() - begin));
                at += invalid;
            }
        }
        Self { replaced }
    }

    /// The text of each id, by where their bytes end.
    fn covered(&self, ends: &[u32]) -> Vec<Range<u32>> {
        let mut at = 0;
        let mut from = |end| std::mem::replace(&mut at, end);
        if self.replaced.is_empty() {
            return ends.iter().map(|&end| from(end)..end).collect();
        }
        let place = |start: u32, end: u32| {
            self.floor(start as usize) as u32..self.ceil(end as usize) as u32
        };
        ends.iter().map(|&end| place(from(end), end)).collect()
    }

    /// The place of a byte, or the beginning of its replacement.
    fn floor(&self, at: usize) -> usize {
        self.place(at, |text| text.start)
    }

    /// The place of a byte, or the end of its replacement.
    fn ceil(&self, at: usize) -> usize {
        self.place(at, |text| text.end)
    }

    fn place(&self, at: usize, within: impl Fn(&Range<usize>) -> usize) -> usize {
        let before = self.replaced.partition_point(|(bytes, _)| bytes.end <= at);
        if let Some((bytes, text)) = self.replaced.get(before)
            && bytes.start < at
        {
            return within(text);
        }
        match before.checked_sub(1).map(|nth| &self.replaced[nth]) {
            Some((bytes, text)) => text.end + (at - bytes.end),
            None => at,
        }
    }
}

impl Rendered {
    /// The encoding from byte `at` on, which follows given ids, with indices of messages higher by `moved`. `at` is inside or after the
    /// first generated turn; `None` if the text cannot be split there.
    pub(crate) fn after(mut self, at: usize, follows: Follows, moved: i32) -> Option<Self> {
        let text = self.text.get(at..)?.to_owned();
        let prompt_at = self.prompt_at.and_then(|prompt| prompt.checked_sub(at));
        let mut rest = Self { text, follows, prompt_at, ..Self::default() };
        for (nth, mut span) in self.spans.into_iter().enumerate() {
            if span.text.end <= at {
                continue;
            }
            if span.text.start < at && span.kind != SpanKind::Literal {
                return None;
            }
            if span.source.message >= 0 {
                span.source.message += moved;
            }
            span.text = span.text.start.saturating_sub(at)..span.text.end - at;
            if let Some(original) = self.originals.remove(&nth) {
                rest.originals.insert(rest.spans.len(), original);
            }
            rest.spans.push(span);
        }
        let generated = self.generated.into_iter().skip(1);
        let generated = generated.map(|turn| Some(turn.start.checked_sub(at)?..turn.end - at));
        rest.generated = generated.collect::<Option<_>>()?;
        Some(rest)
    }
}
