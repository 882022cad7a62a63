//! Where in an assistant's row the part begins that a model generates: after what a generation prompt writes.

use super::{Renderer, Turn, common_prefix, prompt_after_tool, prompt_of};
use crate::grammar::{BoundPiece, FixedText};
use crate::pattern::{self, Piece};
use crate::span::{Span, SpanKind};

impl Renderer<'_> {
    /// Whether the written text is one token that stops a model.
    pub(super) fn is_stop(&self, spans: &[Span]) -> bool {
        matches!(spans, [Span { kind: SpanKind::Control(id), .. }] if self.grammar.stops(id.get()))
    }

    /// Whether the written text equals a generation prompt.
    pub(super) fn is_prompt(&self, spans: &[Span]) -> bool {
        if spans.iter().any(|span| matches!(span.kind, SpanKind::Slot { .. })) {
            return false;
        }
        let is_control = |piece: &&BoundPiece| matches!(piece, Piece::Control(ids) if ids.first().is_some_and(|id| !id.is_text()));
        let controls =
            spans.iter().filter(|span| matches!(span.kind, SpanKind::Control(_))).count();
        let written: usize = spans.iter().map(|span| span.text.len()).sum();
        self.grammar.prompts().any(|prompt| {
            !prompt.is_empty()
                && controls == prompt.iter().filter(is_control).count()
                && written == prompt.iter().map(|piece| self.written_bytes(piece)).sum::<usize>()
        })
    }

    /// Number of bytes of a row that a generation prompt writes: that of these options if the row begins with all of
    /// it, or else the longest one that it does. Where it begins with none, the beginning that it has in common with
    /// that of these options.
    pub(super) fn prompt_bytes(
        &self,
        turn: &Turn<'_>,
        pieces: &[BoundPiece],
        present: u32,
    ) -> usize {
        let (grammar, thinking) = (self.grammar, self.options.thinking);
        let begun = |prompt| self.begun_bytes(prompt, pieces, present);
        let (own, whole): (_, Option<usize>) = if turn.after_result {
            let (plain, asked) = &grammar.after_tool_prompts;
            let all = [plain].into_iter().chain(asked.iter().flatten());
            let whole = all.filter_map(|prompt| begun(prompt).ok()).max();
            (prompt_after_tool(grammar, thinking), whole)
        } else {
            let whole = grammar.prompts().filter_map(|prompt| begun(prompt).ok()).max();
            (prompt_of(grammar, thinking), whole)
        };
        begun(own).unwrap_or_else(|common| whole.unwrap_or(common))
    }

    /// Number of bytes of a prompt if a row begins with all of it; otherwise, as the error, those of their common
    /// beginning.
    fn begun_bytes(
        &self,
        prompt: &[BoundPiece],
        pieces: &[BoundPiece],
        present: u32,
    ) -> std::result::Result<usize, usize> {
        use FixedText::Encoded;
        let mut bytes = 0;
        let mut row = pattern::written(pieces, |field| present & field.bit() != 0);
        let mut prompt = prompt.iter().peekable();
        while let Some(asked) = prompt.next() {
            match (asked, row.next()) {
                (Piece::Literal(Encoded(text)), Some(Piece::Literal(Encoded(row)))) => {
                    let same = common_prefix(text, row);
                    bytes += same;
                    if same < text.len() || same < row.len() && prompt.peek().is_some() {
                        return Err(bytes);
                    }
                }
                (asked, Some(row)) if asked == row => bytes += self.written_bytes(asked),
                _ => return Err(bytes),
            }
        }
        Ok(bytes)
    }

    /// Number of bytes of a row that a whole prompt writes whose markers are text: its last id ends there.
    pub(super) fn asked_bytes(&self, pieces: &[BoundPiece], present: u32) -> Option<usize> {
        if self.grammar.text_markers.is_empty() {
            return None;
        }
        let begins = |prompt: &[BoundPiece]| {
            let row = pattern::written(pieces, |field| present & field.bit() != 0);
            prompt.iter().zip(row).filter(|(prompt, row)| prompt == row).count() == prompt.len()
        };
        let whole = self.grammar.prompts().filter(|prompt| begins(prompt));
        whole.map(|prompt| prompt.iter().map(|piece| self.written_bytes(piece)).sum()).max()
    }

    pub(super) fn written_bytes(&self, piece: &BoundPiece) -> usize {
        match piece {
            Piece::Control(ids) => ids.first().map_or(0, |&id| {
                self.grammar.text_of(id).unwrap_or_else(|| self.vocab.spelling(id.get())).len()
            }),
            Piece::Literal(FixedText::Encoded(text)) => text.len(),
            Piece::Literal(FixedText::Taken(text)) => text.len(),
            _ => 0,
        }
    }
}
