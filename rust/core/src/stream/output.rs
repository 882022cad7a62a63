//! Events as they are emitted, and the positions of the ids that they cover.

use std::borrow::Cow;
use std::ops::Range;

use super::{FIRST, PROMPT};
use crate::call::Mended;
use crate::event::{Event, EventKind, NoticeKind, Part};

/// Positions of a stream, which the next event continues.
#[derive(Debug, Clone)]
pub(super) struct Output {
    /// Ids before this position are in the range of an event.
    covered: u32,
    /// Start of the last event: no later event begins before it.
    started: u32,
    /// Whether text has come since the last control token.
    pub(super) in_run: bool,
    /// Whether positions count characters, not ids.
    pub(super) by_text: bool,
    /// Start of a call that the prompt left open, emitted again when the stream begins.
    resumed: Option<Box<EventKind>>,
}

impl Output {
    /// Positions at the beginning of a conversation.
    pub(super) fn new() -> Self {
        Self { covered: FIRST, started: FIRST, in_run: false, by_text: false, resumed: None }
    }

    /// Counts positions from the end of the prompt, and emits the start of an open call again.
    pub(super) fn after_prompt(&mut self, resumed: Option<EventKind>) {
        (self.started, self.covered) = (FIRST, FIRST);
        self.resumed = resumed.map(Box::new);
    }

    /// Takes the start of a call that comes before all other events.
    pub(super) fn take_resumed(&mut self) -> Option<Event> {
        self.resumed.take().map(|kind| Event { kind: *kind, tokens: 0..0 })
    }

    /// Whether the start of a call is still to be emitted.
    pub(super) fn has_resumed(&self) -> bool {
        self.resumed.is_some()
    }

    /// First position that no event covers.
    pub(super) fn covered(&self) -> u32 {
        self.covered
    }

    /// Last position that an event covers.
    pub(super) fn last(&self) -> u32 {
        self.covered.saturating_sub(1)
    }

    /// Range of text that began at `first` and ends at `last`, which includes all ids not yet covered, and at
    /// most one id already covered.
    pub(super) fn cover(&mut self, first: Option<u32>, last: u32) -> Range<u32> {
        let covered = self.covered;
        let start = first.map_or(covered, |first| first.clamp(covered - FIRST, covered));
        self.cover_until(start, covered.max(last.saturating_add(1)))
    }

    fn cover_until(&mut self, start: u32, end: u32) -> Range<u32> {
        let start = start.max(self.started);
        (self.started, self.covered) = (start, end);
        start - FIRST..end - FIRST
    }
}

/// Writer of events.
pub(super) struct Emitter<'a> {
    pub(super) output: &'a mut Output,
    pub(super) events: &'a mut Vec<Event>,
}

impl Emitter<'_> {
    /// Emits an event that ends at position `last`; `first` is its first position, where the event has ids of
    /// its own.
    pub(super) fn emit(&mut self, kind: EventKind, first: Option<u32>, last: u32) {
        let tokens = self.output.cover(first, last);
        self.events.push(Event { kind, tokens });
    }

    /// Emits an event without ids of its own: what comes next, at `before`, is the reason for it.
    pub(super) fn emit_between(&mut self, kind: EventKind, before: u32) {
        let covered = self.output.covered;
        let tokens = self.output.cover_until(covered, covered.max(before));
        self.events.push(Event { kind, tokens });
    }

    /// Emits text, joined to the event before it where that is of the same part.
    pub(super) fn part(&mut self, part: Part, text: Cow<'_, str>, first: u32, at: u32) {
        let tokens = self.output.cover(Some(first), at);
        Event::append_text(self.events, part, text, tokens);
    }

    /// Emits a notice that ends at position `at`.
    pub(super) fn notice(&mut self, kind: NoticeKind, text: String, first: Option<u32>, at: u32) {
        self.emit(EventKind::Notice { kind, text }, first, at);
    }

    /// Emits a notice without text, before position `before`.
    pub(super) fn notice_between(&mut self, kind: NoticeKind, before: u32) {
        self.emit_between(EventKind::Notice { kind, text: String::new() }, before);
    }

    /// Emits a notice of what was mended, and how it was written.
    pub(super) fn mended_as(&mut self, mended: Mended, written: &str) {
        let (kind, text) = (NoticeKind::Mended, format!("{}: {written}", mended.text()));
        self.emit_between(EventKind::Notice { kind, text }, PROMPT);
    }

    /// Emits a notice of what was mended.
    pub(super) fn mended(&mut self, mended: Option<Mended>) {
        if let Some(mended) = mended {
            let (kind, text) = (NoticeKind::Mended, mended.text().to_owned());
            self.emit_between(EventKind::Notice { kind, text }, PROMPT);
        }
    }
}
