//! Split turns: one message of the assistant in several turns of the format, its frames.
//!
//! ```text
//! <|channel|>analysis<|message|>Hm.<|end|>                  reasoning "Hm."
//! <|start|>assistant<|channel|>final<|message|>Hi<|return|>  content "Hi": one message
//! ```
//!
//! The end of a frame does not end the message. The next frame, the answer or a call continues it. The end of an
//! answer ends the message; after a call only calls continue it.

use super::uncertain::{Uncertain, UncertainHeader};
use super::{Piece, Place, Reader, Turn, Within};
use crate::bound::Bound;
use crate::event::NoticeKind;
use crate::format::RowUse;
use crate::pattern::Field;

impl Turn {
    /// Field of the frame that is read.
    fn frame(&self, bound: &Bound) -> Option<Field> {
        match self.row(bound).place {
            RowUse::Frame(field) => Some(field),
            _ => None,
        }
    }

    /// Whether its row is a frame.
    pub(super) fn is_frame(&self, bound: &Bound) -> bool {
        self.frame(bound).is_some()
    }

    /// Whether the text of a frame is read.
    pub(super) fn is_in_frame(&self, within: &Within, bound: &Bound) -> bool {
        matches!(within, Within::Text(_)) && !self.has_called() && self.frame(bound).is_some()
    }
}

impl Place {
    /// Whether the next turn of the assistant continues the message that is open.
    pub(super) fn continues_message(&self, bound: &Bound) -> bool {
        match self {
            Self::In(_, Within::AfterFrame { .. }) => true,
            Self::In(turn, within) => turn.is_in_frame(within, bound),
            Self::Outside(_) => false,
        }
    }
}

impl Reader<'_> {
    /// Reads the token that closes a frame: the token goes with what comes next.
    pub(super) fn end_frame(&mut self, turn: Turn, within: Within) -> Place {
        self.end_turn_text(&turn, within);
        Place::In(turn, Within::AfterFrame { is_text: false })
    }

    /// Begins the next turn of a message, whose header ends at `last`. A field that an earlier frame had continues
    /// in a line of its own.
    pub(super) fn next_frame(&mut self, place: Place, row: usize, text: usize, last: u32) -> Place {
        let mut before = 0;
        if let Place::In(turn, within) = place {
            before = turn.frame(self.bound).map_or(0, Field::bit) as u16 | turn.frames;
            self.end_turn_text(&turn, within);
        }
        let (mut turn, within) = self.enter(row, text);
        turn.frames = before;
        let field = turn.frame(self.bound).unwrap_or(Field::Content);
        if u32::from(before) & field.bit() != 0 {
            self.emit_text(&turn, "\n", last, last);
        }
        Place::In(turn, within)
    }

    /// Reads text between two frames. White space is scaffolding, other text is the answer's.
    pub(super) fn text_after_frame(
        &mut self,
        turn: Turn,
        is_text: bool,
        piece: Piece<'_>,
    ) -> Place {
        let Some((text, first, at)) = self.machine.held.push_space(piece) else {
            return Place::In(turn, Within::AfterFrame { is_text });
        };
        let piece = Piece { text: &text, first, at };
        if !is_text && self.may_be_header(&text) {
            self.machine.uncertain = Some(Uncertain::header(UncertainHeader::opened(self.bound)));
            self.rest(piece);
            return Place::In(turn, Within::AfterFrame { is_text });
        }
        self.out.notice_between(NoticeKind::Malformed, first);
        let (turn, within) = self.enter(self.bound.grammar().assistant(), 0);
        self.text_in(turn, within, piece)
    }
}
