//! Appends spans: control tokens, literals of the format, and slots of a caller's text.
//!
//! In: a text and its source. Out: spans over one text. A slot has the text as the vocabulary normalises it, and
//! remembers the caller's.

use std::borrow::Cow;

use super::Renderer;
use crate::json;
use crate::span::{Source, Span, SpanKind};
use chatcodec_vocab::{ControlId, DummyPrefix};

impl Renderer<'_> {
    pub(super) fn push(&mut self, kind: SpanKind, text: &str, source: Source) {
        let start = self.out.text.len();
        self.out.text.push_str(text);
        let text = start..self.out.text.len();
        self.out.spans.push(Span { kind, text, source, skipped: 0 });
    }

    /// Text of the format or of the caller, after a pending cut.
    pub(super) fn push_text(&mut self, kind: SpanKind, text: &str, source: Source) {
        if text.is_empty() {
            return;
        }
        self.ends_at_next = false;
        let start = self.out.text.len();
        if let Some(at) = self.isolate_at.and_then(|at| at.checked_sub(start))
            && at < text.len()
        {
            self.isolate_at = None;
            self.push_text(kind, &text[..at], source);
            self.push(SpanKind::Cut, "", source);
            return self.push_text(kind, &text[at..], source);
        }
        if std::mem::take(&mut self.cut) && self.in_run {
            self.push(SpanKind::Cut, "", source.scaffold());
            if self.vocab.dummy_prefix() == DummyPrefix::EveryRun {
                self.push(SpanKind::Literal, " ", source.scaffold());
            }
        }
        self.in_run = true;
        self.push(kind, text, source);
    }

    /// The caller's text, normalised by the vocabulary.
    pub(super) fn slot(&mut self, text: &str, source: Source) {
        self.slot_as(text, source, false);
    }

    pub(super) fn slot_as(&mut self, text: &str, source: Source, escaped: bool) {
        if text.is_empty() {
            return;
        }
        let normalised = self.vocab.normalise(text);
        if escaped {
            let mut written = String::with_capacity(normalised.len());
            json::escape_normalised(&normalised, &|text| self.vocab.normalise(text), &mut written);
            self.push_text(SpanKind::Slot { escaped }, &written, source);
        } else {
            self.push_text(SpanKind::Slot { escaped }, &normalised, source);
        }
        self.keep_original(text, normalised);
    }

    /// Keeps the caller's text of the last slot, if normalisation changed it.
    pub(super) fn keep_original(&mut self, given: &str, normalised: Cow<'_, str>) {
        if matches!(normalised, Cow::Owned(changed) if changed != given) {
            self.out.originals.insert(self.out.spans.len() - 1, given.to_owned());
        }
    }

    /// A slot for `whole` without the white space that is not written.
    pub(super) fn part_slot(&mut self, whole: &str, part: &str, source: Source) {
        self.slot(part, source);
        self.skip_before(whole, part);
    }

    /// The same for a JSON value, whose texts are normalised.
    pub(super) fn json_slot(&mut self, whole: &str, source: Source) {
        let part = json::trim(whole);
        let normalised = json::normalise_value(part, self.vocab);
        self.push_text(SpanKind::Slot { escaped: false }, &normalised, source);
        self.keep_original(part, normalised);
        self.skip_before(whole, part);
    }

    /// Records that the last slot is `part`, without the text before it in `whole`.
    fn skip_before(&mut self, whole: &str, part: &str) {
        if !part.is_empty()
            && let Some(span) = self.out.spans.last_mut()
        {
            let before = part.as_ptr() as usize - whole.as_ptr() as usize;
            span.skipped = whole[..before].chars().count() as u32;
        }
    }

    /// A slot for text made of a caller's texts, which are normalised.
    pub(super) fn made_slot(&mut self, text: &str, source: Source) {
        self.push_text(SpanKind::Slot { escaped: false }, text, source);
    }

    pub(super) fn control(&mut self, id: ControlId, source: Source) {
        let (vocab, grammar) = (self.vocab, self.grammar);
        if let Some(text) = grammar.text_of(id) {
            return self.push_text(SpanKind::Literal, text, source);
        }
        if let Some(tag) = vocab.tag(id.get()) {
            self.push_text(SpanKind::Literal, &tag.before, source);
            self.control(tag.token, source);
            self.push_text(SpanKind::Literal, &tag.after, source);
            tag.next.iter().for_each(|&next| self.control(next, source));
            return;
        }
        (self.in_run, self.cut) = (false, false);
        self.push(SpanKind::Control(id), vocab.spelling(id.get()), source);
        if std::mem::take(&mut self.ends_at_next)
            && self.grammar.stops(id.get())
            && let Some(last) = self.out.generated.last_mut()
        {
            last.end = self.out.text.len();
        }
    }
}
