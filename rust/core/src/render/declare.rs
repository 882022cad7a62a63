//! Writes the declaration of tools: as a turn of its own, or in the turn of a message.

use std::borrow::Cow;

use super::keys::Key;
use super::{Renderer, Turn};
use crate::error::Result;
use crate::format::{DeclaredTools, ToolsPart, ToolsRun};
use crate::pattern::{self, Field, Piece};
use crate::span::{Source, SourceField, SpanKind};

impl Renderer<'_> {
    /// The turn that declares tools: its own turn, or a message's.
    pub(super) fn tools(&mut self, turn: Option<&Turn<'_>>) -> Result<()> {
        let grammar = self.grammar;
        let alone = grammar.tools_alone.as_ref().filter(|_| turn.is_none());
        let rule = alone.or(grammar.tools.as_ref());
        let (Some(tools), Some(rule)) = (self.options.tools, rule) else { return Ok(()) };
        let scaffold = turn.map_or(Source::NONE, |turn| turn.source(SourceField::Scaffold));
        if let Some(turn) = turn {
            // Its row decides which parts have a place.
            self.row(turn)?;
        }
        let content = turn.map_or("", |turn| &turn.message.content);
        let has_media = turn.is_some_and(|turn| !turn.message.media.is_empty());
        let mut fields = pattern::walk(&rule.pieces);
        let filter = fields.find_map(|piece| match piece {
            Piece::Field(Field::System | Field::Content, filter) => Some(*filter),
            _ => None,
        });
        let has_content = has_media || !filter.unwrap_or_default().trim(content).is_empty();
        let thinks = self.options.thinks();
        let is_present = |field: Field| match field {
            Field::Tools => true,
            Field::Thinking => thinks,
            _ => has_content,
        };
        self.keyed(Key::Tools, |this| {
            for piece in pattern::written(&rule.pieces, is_present) {
                match (piece, turn) {
                    (Piece::Field(Field::Tools, _), _) => {
                        this.keyed(Key::Declaration, |this| this.declare(tools));
                    }
                    (&Piece::Field(_, filter), Some(turn)) => {
                        this.content(turn.message, filter, turn.source(SourceField::Content))?;
                    }
                    (piece, _) => this.fixed(piece, scaffold),
                }
            }
            Ok(())
        })
    }

    /// Writes the declaration of the tools.
    fn declare(&mut self, tools: &DeclaredTools) {
        let grammar = self.grammar;
        let source = Source { message: -1, field: SourceField::Tools };
        for run in tools.runs() {
            match run {
                ToolsRun::Token(nth) => self.fixed(&grammar.declaring[*nth], source.scaffold()),
                ToolsRun::Text { text, parts } => {
                    let whole = &tools.text()[text.clone()];
                    // A vocabulary may normalise a text over the border of two parts.
                    let is_changed = matches!(self.vocab.normalise(whole), Cow::Owned(_));
                    if parts.is_empty() || is_changed {
                        self.slot(whole, source);
                        continue;
                    }
                    for part in parts {
                        self.part_of_tools(&tools.text()[part.text.clone()], part);
                    }
                }
            }
        }
        self.out.paths = tools.paths().cloned();
    }

    fn part_of_tools(&mut self, text: &str, part: &ToolsPart) {
        let source = |field| Source { message: -1, field };
        let Some(path) = part.path else {
            return self.push_text(SpanKind::Literal, text, source(SourceField::Scaffold));
        };
        let kind = SpanKind::Slot { escaped: false };
        self.push_text(kind, text, source(SourceField::Path(path)));
        let nth = self.out.spans.len() - 1;
        if let Some(span) = self.out.spans.last_mut() {
            span.skipped = part.skipped;
        }
        if let Some(original) = &part.original {
            self.out.originals.insert(nth, original.to_string());
        }
    }
}
