//! Placeholders: the ids of media parts, which an engine replaces with embeddings.
//!
//! Cost: one pass over the spans.

use std::ops::Range;

use super::{Encoding, PieceKind};
use crate::message::MediaKind;
use crate::span::{Source, SourceField, SpanKind};

/// The ids of a media part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder {
    /// Source of the ids; [`Encoding::path`] gives its path, such as `messages[0].content[1]`.
    pub source: Source,
    /// Kind of the part.
    pub kind: MediaKind,
    /// Positions of the placeholder ids: from the first to the last, with the ids that separate rows. Empty for a
    /// part without placeholder ids.
    pub ids: Range<usize>,
    /// Positions of all control tokens of the part, with those that open and close it, and of text between them.
    pub around: Range<usize>,
}

impl Encoding {
    /// The placeholders of media parts, in order. Ids that were given as ids have none.
    pub fn placeholders(&self) -> Vec<Placeholder> {
        let mut found: Vec<Placeholder> = Vec::new();
        let is_control = |kind: &PieceKind| matches!(kind, PieceKind::Control);
        let mut pieces = self.pieces.iter().filter(|piece| is_control(&piece.kind)).peekable();
        // Whether placeholder ids of the last one have come, and how many control tokens before them.
        let (mut is_repeated, mut opened) = (false, 0);
        for span in &self.spans {
            let SourceField::Media(kind, _) = span.source.field else { continue };
            let repeats = match span.kind {
                SpanKind::Control(_) => false,
                SpanKind::Repeated(..) => true,
                _ => continue,
            };
            while pieces.next_if(|piece| piece.text.end <= span.text.start).is_some() {}
            let Some(ids) = pieces.peek().map(|piece| piece.ids.clone()) else { break };
            let source = span.source;
            if found.last().is_none_or(|last| last.source != source) {
                (is_repeated, opened) = (false, 0);
                let (none, around) = (ids.start..ids.start, ids.clone());
                found.push(Placeholder { source, kind, ids: none, around });
            }
            let (Some(last), Some(rule)) = (found.last_mut(), self.grammar.media_of(kind)) else {
                continue;
            };
            last.around.end = ids.end;
            if rule.each.is_none() {
                last.ids = last.around.clone();
            } else if repeats {
                let start = if is_repeated { last.ids.start } else { ids.start };
                last.ids = start..ids.end;
                is_repeated = true;
            } else if opened < rule.opens.len() {
                opened += 1;
                last.ids = ids.end..ids.end;
            }
        }
        found
    }
}
