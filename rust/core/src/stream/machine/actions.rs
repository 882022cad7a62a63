//! Actions: their bodies as they come, and where they end.

use std::borrow::Cow;

use super::tentative::{Phase, Tentative};
use super::{Line, Piece, Place, Reader};
use crate::call::{CallScanner, Ended, Mended, Step};
use crate::event::{ActionKind, EventKind, NoticeKind, Part};
use crate::json;
use crate::limits::HOLD_LIMIT;
use crate::stream::PROMPT;
use crate::stream::header::{Held, HeldItem};
use crate::stream::pending::Pending;
use crate::stream::spelled::Spelled;
use chatcodec_vocab::TokenId;

/// How much text after the arguments of a call may stand before the next one, with what that begins with.
const NEXT_CALL_BYTES: usize = 256;

impl Reader<'_> {
    pub(super) fn open_action(
        &mut self,
        item: usize,
        opener: u32,
        kind: ActionKind,
        name: Option<String>,
        id: Option<String>,
        last: u32,
    ) {
        let is_answer =
            self.machine.turn.is_some_and(|turn| turn.role == crate::message::Role::Assistant);
        if self.machine.turn.is_some() && !is_answer {
            self.close_before(opener);
        }
        if self.machine.turn.is_none() {
            self.machine.pending.clear();
            self.open_implicit(opener);
        }
        self.end_action_before(opener);
        self.end_text_before_call();
        if let Some(turn) = &mut self.machine.turn {
            turn.actions += 1;
        }
        let is_other = self.bound.grammar().items[item].is_other;
        let missing = self.machine.missing.take();
        self.tell_mending(missing.or(is_other.then_some(Mended::Call)));
        let form = self.bound.format().id_form();
        let is_other = id.as_deref().is_some_and(|id| !form.is_of(id) && form.name_in(id) != id);
        self.tell_mending(is_other.then_some(Mended::Id));
        let index = self.machine.action_index();
        self.tell(EventKind::ActionStart { index, kind, name, id }, None, last);
    }

    pub(super) fn text_of_source(&mut self, piece: Piece<'_>) {
        let bound = self.bound;
        let Place::Source { item, fresh, .. } = self.machine.place else { return };
        let Some(closer) = bound.grammar().items[item].rule.closer() else { return };
        let told = self.machine.pending.push_until(piece, &[&closer.suffix], fresh);
        if let Some((text, first, at)) = told {
            self.source(text, first, at);
        }
    }

    /// Tells some of the code of an action.
    pub(super) fn source(&mut self, text: String, first: u32, at: u32) {
        if let Place::Source { fresh, .. } = &mut self.machine.place {
            *fresh = false;
        }
        self.delta(text, first, at);
    }

    pub(super) fn text_of_call(&mut self, mut piece: Piece<'_>) {
        while !piece.text.is_empty() {
            let bound = self.bound;
            let Place::Call { item, scanner, name } = &mut self.machine.place else { return };
            let item = *item;
            let closer = bound.grammar().items[item].rule.closer();
            let is_fenced =
                closer.is_some_and(|closer| !closer.suffix.literal.trim_ascii().is_empty());
            if is_fenced && scanner.is_done() {
                return self.after_object(piece);
            }
            let Some(keys) = bound.object_of(item) else { return };
            let (taken, step) = scanner.step(piece.text, piece.first, keys);
            let is_done = scanner.is_done();
            let stretch = piece.to(taken);
            piece = piece.from(taken);
            match step {
                Step::More | Step::Broken => {}
                Step::Next => {
                    let (scanner, waiting) = (Box::new(scanner.next()), Vec::new());
                    self.end_action(piece.first.saturating_sub(1), Ended::Closed);
                    let phase = Phase::Call { item, scanner, waiting };
                    let held = Held::default();
                    self.machine.tentative = Some(Box::new(Tentative::new(held, phase)));
                    return self.rest(piece);
                }
                Step::Name(found) => *name = Some(found),
                Step::Arguments(Some(said)) => self.delta(said, stretch.first, stretch.at),
                Step::Arguments(None) => self.delta(stretch.text, stretch.first, stretch.at),
                Step::Notice(kind, text, first) => {
                    self.notice(kind, text, Some(first), stretch.at);
                }
            }
            if is_done && bound.grammar().ends_call(item) {
                self.end_action(stretch.at, Ended::Closed);
                self.machine.place = Place::Between { item };
                return self.rest(piece);
            }
        }
    }

    /// Between two calls of a list: a comma goes on with the next, a bracket ends it.
    pub(super) fn text_between(&mut self, piece: Piece<'_>) {
        let Place::Between { item } = self.machine.place else { return };
        let grammar = self.bound.grammar();
        let is_also = grammar.items[item].is_also;
        let is_json = (is_also || grammar.has_brackets()) && self.bound.object_of(item).is_some();
        if (grammar.ends_calls() || grammar.items[item].is_python()) && !is_json {
            return self.text_after_call(item, piece);
        }
        let spaces = piece.text.bytes().take_while(|&byte| json::is_space(byte)).count();
        let Some(&sign) = piece.text.as_bytes().get(spaces) else {
            // It is text where text comes next.
            self.machine.pending.push(piece);
            return;
        };
        if !is_json {
            self.machine.pending.push(piece.to(spaces));
            self.machine.tentative = Some(Box::new(Tentative::further(self.bound)));
            return self.rest(piece.from(spaces));
        }
        let (text, first, at) = self.machine.pending.take_all();
        let white = Piece { text: &text, first, at };
        match sign {
            b',' => self.next_object(item, white, piece, spaces + 1),
            // Calls that are only read may stand beside each other.
            b';' if is_also => self.next_object(item, white, piece, spaces + 1),
            b'{' if is_also => self.next_object(item, white, piece, spaces),
            b']' if !grammar.items[item].is_bare => {
                self.machine.place = Place::AfterAction;
                self.rest(piece.from(spaces + 1));
            }
            _ => {
                self.machine.place = Place::AfterAction;
                self.rest(piece);
                self.rest(white);
            }
        }
    }

    /// The next object of a list, after what stands between.
    fn next_object(&mut self, item: usize, white: Piece<'_>, piece: Piece<'_>, taken: usize) {
        let mut held = Held::default();
        for before in [white, piece.to(taken)] {
            if !before.text.is_empty() {
                held.push(before.held());
            }
        }
        let (scanner, waiting) = (Box::new(CallScanner::new()), Vec::new());
        let phase = Phase::Call { item, scanner, waiting };
        self.machine.tentative = Some(Box::new(Tentative::new(held, phase)));
        self.rest(piece.from(taken));
    }

    pub(super) fn text_of_arguments(&mut self, mut piece: Piece<'_>) {
        let item = loop {
            let Place::Arguments { item, body, .. } = &mut self.machine.place else { return };
            let item = *item;
            if body.is_done() {
                break item;
            }
            let (taken, said) = body.push(piece.text);
            let stretch = piece.to(taken);
            piece = piece.from(taken);
            if !said.is_empty() {
                self.delta(said, stretch.first, stretch.at);
            }
            self.tell_odd(stretch.at);
            if piece.text.is_empty() {
                break item;
            }
        };
        if self.bound.grammar().ends_call(item) && self.is_action_done() {
            self.end_action(piece.at, Ended::Closed);
            let grammar = self.bound.grammar();
            if grammar.ends_calls() || grammar.items[item].is_python() {
                self.machine.place = Place::Between { item };
            }
            return self.rest(piece);
        }
        self.rest_of_arguments(piece.first);
        // What comes after the arguments is the pattern's, or is told when the call ends.
        self.machine.pending.push(piece);
        if !self.end_in_block() && !self.end_at_next() {
            self.tell_much();
        }
    }

    /// What comes after an object is the pattern's, or is told when the call ends.
    fn after_object(&mut self, piece: Piece<'_>) {
        self.machine.pending.push(piece);
        self.tell_much();
    }

    /// Tells what is too much to be the pattern's.
    fn tell_much(&mut self) {
        if self.machine.pending.len() > HOLD_LIMIT {
            let (text, first, at) = self.machine.pending.take_all();
            self.notice(NoticeKind::Malformed, text, Some(first), at);
        }
    }

    /// Tells what the arguments have that is none of theirs, and what of them was mended; `at` is the position
    /// up to which they have been read.
    fn tell_odd(&mut self, at: u32) {
        let Place::Arguments { body, .. } = &mut self.machine.place else { return };
        let (odd, mended) = (body.take_odd(), body.take_mended());
        if !odd.is_empty() {
            self.notice(NoticeKind::Malformed, odd, None, at);
        }
        self.tell_mending(mended);
    }

    /// Tells what was mended.
    pub(super) fn tell_mending(&mut self, mended: Option<Mended>) {
        if let Some(mended) = mended {
            let (kind, text) = (NoticeKind::Mended, mended.text().to_owned());
            self.tell_between(EventKind::Notice { kind, text }, PROMPT);
        }
    }

    fn is_action_done(&self) -> bool {
        matches!(&self.machine.place, Place::Arguments { body, .. } if body.is_done())
    }

    /// How an action ends that the end of its turn ends, or another call: code may be closed by that.
    pub(super) fn ended_by_next(&self) -> Ended {
        let item = match self.machine.place {
            Place::Source { item, .. } => item,
            Place::Arguments { item, .. } => {
                let shape = &self.bound.grammar().items[item].shape;
                if !shape.as_ref().is_some_and(|shape| shape.ends_at_next()) {
                    return Ended::Stopped;
                }
                item
            }
            _ => return Ended::Stopped,
        };
        let closer = self.bound.grammar().items[item].rule.closer();
        let is_open = closer.is_some_and(|closer| closer.ids.is_empty());
        if is_open { Ended::Closed } else { Ended::Stopped }
    }

    /// A control token in an action: whether it belongs to the arguments.
    pub(super) fn control_of_arguments(&mut self, id: TokenId, at: u32) -> bool {
        let Place::Arguments { body, .. } = &mut self.machine.place else { return false };
        let (accepted, said) = body.push_control(id);
        let before = self.machine.covered.saturating_sub(1);
        if !said.is_empty() {
            let at = if accepted { at } else { before };
            self.delta(said, at, at);
        }
        self.tell_odd(before);
        self.rest_of_arguments(before);
        accepted
    }

    /// Ends a call in a block whose closing text has come.
    fn end_in_block(&mut self) -> bool {
        let Place::Arguments { item, .. } = self.machine.place else { return false };
        let Some(close) = &self.bound.grammar().items[item].close else { return false };
        let Some(end) = self.machine.pending.end_of(close) else { return false };
        let (_, _, last) = self.machine.pending.take_bytes(end);
        let (rest, first, at) = self.machine.pending.take_all();
        self.end_action(last, Ended::Closed);
        self.machine.place = Place::Between { item };
        self.rest(Piece { text: &rest, first, at });
        true
    }

    /// Ends a call after which another begins in the same block: without what closes the first, or without the
    /// token that opens one.
    fn end_at_next(&mut self) -> bool {
        let bound = self.bound;
        let Place::Arguments { item: at, body, .. } = &self.machine.place else { return false };
        let item = &bound.grammar().items[*at];
        let Some(shape) = item.shape.as_ref().filter(|_| body.is_done()) else { return false };
        let pending = &mut self.machine.pending;
        let text = pending.text();
        let cut = (0..=NEXT_CALL_BYTES.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
        let begun = &text[..cut.unwrap_or(0)];
        let Some((end, is_closed)) = shape.next_call(begun) else { return false };
        let next = Place::Between { item: *at };
        let before = pending.first().saturating_sub(1);
        let last = if end > 0 { pending.take_bytes(end).2 } else { before };
        let (text, first, at) = pending.take_all();
        self.tell_mending((!is_closed).then_some(Mended::CallEnd));
        self.end_action(last, Ended::Closed);
        let text = HeldItem::Text { text, first, at };
        if item.close.is_some() {
            self.machine.place = next;
            self.again(vec![text]);
        } else if let Some(id) = item.opener() {
            let spelled = Some(Box::new(Spelled::missing(first, Mended::Several)));
            self.again(vec![HeldItem::Control { id, at: first, spelled }, text]);
        }
        true
    }

    /// Holds what was read and turned out to come after the arguments.
    fn rest_of_arguments(&mut self, at: u32) {
        let Place::Arguments { body, .. } = &mut self.machine.place else { return };
        if body.is_done() {
            let rest = body.take_rest();
            self.machine.pending.push(Piece { text: &rest, first: at, at });
        }
    }

    pub(super) fn delta<'t>(&mut self, text: impl Into<Cow<'t, str>>, first: u32, at: u32) {
        let index = self.machine.action_index();
        self.tell_part(Part::Action(index), text.into(), first, at);
    }

    /// Ends the action that is open, if one is; `last` is the position of what ends it.
    pub(super) fn end_action(&mut self, last: u32, ended: Ended) {
        let bound = self.bound;
        let suffix_of = |item: usize| {
            let rule = &bound.grammar().items[item].rule;
            rule.closer().map(|closer| closer.suffix.clone()).unwrap_or_default()
        };
        // What ends a stream may have been taken off it.
        let is_told = !self.machine.finishing && bound.grammar().list.is_some();
        let is_closed_by_token = |item: usize| {
            let closer = bound.grammar().items[item].rule.closer();
            let ids = closer.map_or(&[][..], |closer| &closer.ids);
            is_told && !ids.is_empty() && !ids.iter().any(|&id| bound.grammar().stops(id))
        };
        let (complete, name, id) = match &mut self.machine.place {
            Place::Source { item, language, fresh } => {
                let suffix = suffix_of(*item);
                let language = language.clone();
                let whole = self.machine.pending.is(&suffix, *fresh);
                let (text, first, at) = self.machine.pending.take_all();
                if !whole && !text.is_empty() {
                    self.delta(text, first, at);
                }
                // Without a fence, only the closing token can tell that the code is whole.
                let is_closed = ended == Ended::Closed;
                let complete = if suffix.literal.is_empty() { is_closed } else { whole };
                (complete, language, None)
            }
            Place::Call { item, scanner, name } => {
                let complete = scanner.is_complete();
                let is_mended = complete
                    && (ended != Ended::Cut && scanner.is_open()
                        || ended == Ended::Stopped && is_closed_by_token(*item));
                let (name, id) = (name.clone(), scanner.id().map(str::to_owned));
                let (suffix, said) = (suffix_of(*item), scanner.finish_arguments());
                let is_python = scanner.is_mended();
                if let Some((held, first)) = scanner.finish() {
                    let last = last.saturating_sub(1).max(first);
                    self.notice(NoticeKind::Malformed, held, Some(first), last);
                }
                let is_own = self.machine.pending.begins(&suffix);
                let (text, first, at) = self.machine.pending.take_all();
                if !said.is_empty() {
                    let at = self.machine.covered.saturating_sub(1);
                    self.delta(said, at, at);
                }
                if !is_own && !text.is_empty() {
                    self.notice(NoticeKind::Malformed, text, Some(first), at);
                }
                self.tell_mending(is_python.then_some(Mended::Python));
                self.tell_mending(is_mended.then_some(Mended::CallEnd));
                (complete, name, id)
            }
            Place::Arguments { item, body, name, id } => {
                let said = body.finish(ended);
                let (cut, odd, mended) = (body.take_rest(), body.take_odd(), body.take_mended());
                let at = self.machine.covered.saturating_sub(1);
                self.machine.pending.push(Piece { text: &cut, first: at, at });
                let (complete, name, id) =
                    (body.is_complete(ended), name.clone(), id.as_deref().map(str::to_owned));
                let is_python = body.is_mended();
                let suffix = suffix_of(*item);
                let is_unclosed = ended == Ended::Stopped
                    && bound.grammar().items[*item].ends_itself
                    && is_closed_by_token(*item);
                let is_own = self.machine.pending.begins(&suffix);
                let (text, first, at) = self.machine.pending.take_all();
                if !said.is_empty() {
                    let at = self.machine.covered.saturating_sub(1);
                    self.delta(said, at, at);
                }
                if !odd.is_empty() {
                    let at = self.machine.covered.saturating_sub(1);
                    self.notice(NoticeKind::Malformed, odd, None, at);
                }
                if !is_own && !text.is_empty() {
                    self.notice(NoticeKind::Malformed, text, Some(first), at);
                }
                self.tell_mending(is_python.then_some(Mended::Python));
                let mended = mended.or(is_unclosed.then_some(Mended::CallEnd));
                self.tell_mending(mended.filter(|_| complete));
                (complete, Some(name), id)
            }
            _ => return,
        };
        let index = self.machine.action_index();
        self.tell(EventKind::ActionEnd { index, complete, name, id }, None, last);
        self.machine.place = Place::AfterAction;
        self.machine.line = Line::Start;
        self.machine.pending = Pending::default();
    }
}
