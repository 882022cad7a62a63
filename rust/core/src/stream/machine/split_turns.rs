//! Frames: one message of the assistant's in several turns of the format.
//!
//! A frame that ends does not end its message. What comes next goes on with it: another frame, the answer, or
//! a call. An answer ends the message where it ends; after a call only calls belong to it.

use super::tentative::Tentative;
use super::{Piece, Place, Reader};
use crate::event::{EventKind, NoticeKind};
use crate::format::RowUse;
use crate::pattern::Field;

impl Reader<'_> {
    /// Whether it is the text of a frame that is being read.
    pub(super) fn is_in_frame(&self) -> bool {
        matches!(self.machine.place, Place::Text)
            && self.machine.turn.is_some_and(|turn| turn.actions == 0)
            && self.framed().is_some()
    }

    /// Whether the next turn of the assistant's goes on with the message that is open.
    pub(super) fn is_framed(&self) -> bool {
        matches!(self.machine.place, Place::AfterFrame) || self.is_in_frame()
    }

    /// What the frame holds that is being read.
    fn framed(&self) -> Option<Field> {
        match self.row()?.place {
            RowUse::Frame(field) => Some(field),
            _ => None,
        }
    }

    /// The token has come that closes a frame: it goes with what comes next.
    pub(super) fn end_frame(&mut self) {
        self.end_turn_text();
        self.machine.place = Place::AfterFrame;
    }

    /// The next turn of a message, whose header ends at `last`. A part that has been told before goes on in a
    /// line of its own.
    pub(super) fn next_frame(&mut self, row: usize, text: usize, last: u32) {
        self.end_turn_text();
        let before = self.framed().map_or(0, Field::bit) as u16;
        let before = before | self.machine.turn.map_or(0, |turn| turn.framed);
        self.enter(row, text);
        if let Some(turn) = &mut self.machine.turn {
            turn.framed = before;
        }
        let field = self.framed().unwrap_or(Field::Content);
        if u32::from(before) & field.bit() != 0 {
            self.tell_text("\n", last, last);
        }
    }

    /// Between two frames stands nothing: text there is the answer's.
    pub(super) fn text_after_frame(&mut self, piece: Piece<'_>) {
        let Some((text, first, at)) = self.machine.pending.push_space(piece) else { return };
        if self.may_be_header(&text) {
            self.machine.tentative = Some(Box::new(Tentative::opened(self.bound)));
            return self.rest(Piece { text: &text, first, at });
        }
        let kind = NoticeKind::Malformed;
        self.tell_between(EventKind::Notice { kind, text: String::new() }, first);
        self.enter(self.bound.grammar().assistant(), 0);
        self.text_of_turn(Piece { text: &text, first, at });
    }
}
