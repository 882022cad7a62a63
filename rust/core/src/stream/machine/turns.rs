//! Turns: where one begins, text around them and after calls, where one ends.
//!
//! ```text
//! <|im_start|>assistant\n    TurnStart(assistant)
//! <|im_end|>                 TurnEnd(stop)
//! \n<|im_start|>             the white space between is scaffolding
//! ```

use super::text::{Lead, TextState};
use super::uncertain::{Uncertain, UncertainHeader};
use super::{Calls, Outside, Piece, Place, Reader, Turn, Within};
use crate::bound::Bound;
use crate::call::{Ended, Mended};
use crate::event::{EventKind, NoticeKind, TurnReason};
use crate::format::unmarked_calls::FENCE;
use crate::grammar::{Op, Row, Suffix};
use crate::limits::HOLD_LIMIT;
use crate::message::Role;
use crate::pattern::Field;
use crate::stream::PROMPT;
use crate::stream::header::Fit;
use crate::stream::pending::Stretch;
use crate::stream::value::ValueReader;
use chatcodec_vocab::TokenId;

/// Role of a text of a row: a system text may be part of a user's row.
pub(super) fn role_of(bound: &Bound, row: usize, text: usize) -> Role {
    let row = &bound.grammar().rows[row];
    match row.rule.texts.get(text) {
        Some(text) if text.field == Field::System => Role::System,
        _ => row.role,
    }
}

impl Reader<'_> {
    /// Reads text between turns: white space is scaffolding, other text begins a turn.
    pub(super) fn text_outside(&mut self, outside: Outside, piece: Piece<'_>) -> Place {
        if outside.answer_row(self.bound.grammar()).is_some() {
            let (turn, within) = self.open_implicit(outside, piece.first);
            return self.text_in(turn, within, piece);
        }
        if self.machine.held.is_empty()
            && let Some(header) = UncertainHeader::texts(self.bound, self.machine.last)
        {
            // A turn may begin with text.
            self.machine.uncertain = Some(Uncertain::header(header));
            self.rest(piece);
            return outside.into();
        }
        match self.machine.held.push_space(piece) {
            Some((text, first, at)) => {
                let (turn, within) = self.open_implicit(outside, first);
                self.text_in(turn, within, Piece { text: &text, first, at })
            }
            None => outside.into(),
        }
    }

    /// Reads text after a call: white space is scaffolding.
    pub(super) fn text_after_call(&mut self, turn: Turn, piece: Piece<'_>) -> Place {
        if turn.calls.is_fenced || !self.bound.grammar().after_calls.texts.is_empty() {
            return self.text_that_may_close(turn, piece);
        }
        match self.machine.held.push_space(piece) {
            Some(text) => self.continue_text(turn, text),
            None => Place::In(turn, Within::AfterCall),
        }
    }

    /// Reads text after a call that may be what closes calls in other formats: that is scaffolding.
    fn text_that_may_close(&mut self, mut turn: Turn, piece: Piece<'_>) -> Place {
        let pending = &mut self.machine.held;
        pending.push(piece);
        let held = pending.text().trim_ascii_start();
        let spaces = pending.len() - held.len();
        let fence = Some(FENCE).filter(|_| turn.calls.is_fenced);
        let texts = self.bound.grammar().after_calls.texts.iter().map(String::as_str).chain(fence);
        if let Some(close) = texts.clone().find(|close| held.starts_with(close)) {
            turn.calls.is_fenced = false;
            pending.take_bytes(spaces + close.len());
            let (rest, first, at) = pending.take_all();
            self.out.mended(Some(Mended::After));
            self.rest(Piece { text: &rest, first, at });
            return Place::In(turn, Within::AfterCall);
        }
        let is_begun = texts.clone().any(|close| close.starts_with(held));
        if is_begun && pending.len() <= HOLD_LIMIT {
            return Place::In(turn, Within::AfterCall);
        }
        let text = pending.take_all();
        self.continue_text(turn, text)
    }

    /// Reads held text after a call, which did not become what closes calls.
    pub(super) fn flush_after_call(&mut self, place: Place) -> Place {
        match place {
            Place::In(turn, Within::AfterCall)
                if !self.machine.held.text().trim_ascii().is_empty() =>
            {
                let text = self.machine.held.take_all();
                self.continue_text(turn, text)
            }
            place => place,
        }
    }

    /// Reads text after a call as text of the turn, and reports that once.
    fn continue_text(&mut self, mut turn: Turn, (text, first, at): Stretch) -> Place {
        turn.calls.is_fenced = false;
        if turn.is_frame(self.bound) {
            // The frame before the call has ended.
            (turn.row, turn.text) = (self.bound.grammar().assistant(), 0);
        }
        if !std::mem::replace(&mut turn.calls.has_text_after, true) {
            self.out.notice_between(NoticeKind::TextAfterAction, first);
        }
        self.text_of_turn(turn, TextState::new(), Piece { text: &text, first, at })
    }

    /// Reads a control token that closes calls, in this format or in another; other tokens return the place.
    pub(super) fn control_after_calls(
        &mut self,
        place: Place,
        id: TokenId,
        at: u32,
    ) -> Result<Place, Place> {
        let grammar = self.bound.grammar();
        match place {
            Place::In(turn, within)
                if turn.has_called() && grammar.after_calls.ids.contains(&id) =>
            {
                let within = self.end_open_call(&turn, within, at.saturating_sub(1));
                self.out.mended(Some(Mended::After));
                Ok(Place::In(turn, within))
            }
            Place::In(mut turn, Within::AfterCall | Within::BetweenCalls { .. })
                if grammar.closes_calls(id) =>
            {
                turn.calls.is_listed = false;
                self.machine.held.clear();
                Ok(Place::In(turn, Within::AfterCall))
            }
            place => Err(place),
        }
    }

    /// Starts a turn before position `before`, unless the prompt did.
    fn start_turn(&mut self, outside: Outside, row: usize, before: u32) -> (Turn, Within) {
        if !outside.is_prompted {
            let Row { role, name, .. } = &self.bound.grammar().rows[row];
            let kind = EventKind::TurnStart { role: *role, name: name.clone() };
            self.out.emit_between(kind, before);
        }
        self.enter(row, 0)
    }

    /// Starts the assistant's turn for something that comes outside a turn.
    pub(super) fn open_implicit(&mut self, outside: Outside, before: u32) -> (Turn, Within) {
        let grammar = self.bound.grammar();
        let row = outside.answer_row(grammar).unwrap_or_else(|| grammar.assistant());
        self.start_turn(outside, row, before)
    }

    /// Starts the message after a prompt that ends with a result.
    pub(in crate::stream) fn open_answer(&mut self) {
        if let Place::Outside(outside) = self.machine.place {
            let outside = Outside { is_prompted: true, ..outside };
            let (turn, within) = self.open_implicit(outside, PROMPT);
            self.machine.place = Place::In(turn, within);
        }
    }

    /// Starts the assistant's turn after a bare generation prompt at `opener` to `last`.
    pub(super) fn open_prompted(&mut self, place: Place, (opener, last): (u32, u32)) -> Place {
        if place.continues_message(self.bound) {
            // The message that is open continues.
            return place;
        }
        self.close_before(place, opener);
        let row = self.bound.grammar().assistant();
        let Row { role, name, .. } = &self.bound.grammar().rows[row];
        self.out.emit(EventKind::TurnStart { role: *role, name: name.clone() }, None, last);
        let (turn, within) = self.enter(row, 0);
        Place::In(turn, within)
    }

    /// Rows that may begin here with text.
    fn text_rows(&self, outside: Outside) -> impl Iterator<Item = usize> + use<'_> {
        let answer = outside.answer_row(self.bound.grammar());
        let others = self.bound.grammar().rows_after(self.machine.last);
        answer.into_iter().chain(others.filter(move |_| answer.is_none()))
    }

    /// Row of an empty turn that the control token closes, or of an answer without a header that the token stops.
    pub(super) fn empty_row(&self, outside: Outside, id: TokenId) -> Option<usize> {
        let is_text = |op: &Op| matches!(op, Op::Field(Field::Content, _));
        let grammar = self.bound.grammar();
        let stops = grammar.stops(id);
        self.text_rows(outside).find(|&row| {
            let rule = &grammar.rows[row].rule;
            let is_stopped = stops && outside.answer_row(grammar) == Some(row);
            rule.read.first().is_some_and(is_text)
                && (is_stopped || rule.closer().is_some_and(|closer| closer.ids.contains(&id)))
        })
    }

    /// Row of an answer without a header that may begin with the token of reasoning.
    pub(super) fn reasoning_row(&self, outside: Outside, id: TokenId) -> Option<usize> {
        self.text_rows(outside).find(|&row| {
            let row = &self.bound.grammar().rows[row];
            row.text_first
                && row.rule.reasoning.as_ref().is_some_and(|reasoning| {
                    reasoning.open.contains(&id)
                        || reasoning.closes_alone && reasoning.text.closer.ids.contains(&id)
                })
        })
    }

    /// Opens and closes an empty turn of a row.
    pub(super) fn empty_turn(&mut self, row: usize, first: u32, at: u32) -> Place {
        let (turn, within) = self.start_turn(Outside::default(), row, at);
        self.close_turn(turn, within, first, at).into()
    }

    /// Starts a turn of a row that begins with reasoning.
    pub(super) fn open_reasoning(
        &mut self,
        outside: Outside,
        row: usize,
        id: TokenId,
        at: u32,
    ) -> Place {
        let (turn, within) = self.start_turn(outside, row, at);
        let place = self.control_of_reasoning(Place::In(turn, within), id);
        place.unwrap_or_else(|place| place)
    }

    /// Begins a text of a row: a turn, or the next text of one.
    pub(super) fn enter(&mut self, row: usize, text: usize) -> (Turn, Within) {
        let grammar = self.bound.grammar();
        let turn = Turn {
            row,
            text: u16::try_from(text).unwrap_or(u16::MAX),
            role: role_of(self.bound, row, text),
            reasoning: None,
            has_block: false,
            calls: Calls::default(),
            frames: 0,
            answers: None,
        };
        // The order of turns is between user and assistant.
        if turn.role != Role::System || self.machine.last.is_none() {
            self.machine.last = Some(turn.role);
        }
        let may_call = turn.is_answer() && grammar.bare_items().next().is_some();
        let rule = &grammar.rows[row].rule;
        let has_tokens = rule.reasoning.is_some() || rule.block.is_some();
        let lead = if may_call { Some(Lead::Call) } else { has_tokens.then_some(Lead::Begin) };
        let within = match turn.text(self.bound) {
            Some(text) if text.is_value => Within::Value(Box::new(ValueReader::new())),
            text => {
                // After a control token the decoder has removed the prefix.
                let is_prefixed = self.out.output.in_run && text.is_some_and(|text| text.prefixed);
                TextState { lead, is_prefixed, ..TextState::new() }.into()
            }
        };
        (turn, within)
    }

    /// Begins a text of a row whose header was read, or ends the row. `last` is the position of the header's last
    /// id, where the header has one. With `continues`, the row is the one of the open turn.
    pub(super) fn begin_row(
        &mut self,
        mut place: Place,
        fit: &Fit,
        row: usize,
        (opener, last): (u32, Option<u32>),
        continues: bool,
    ) -> Place {
        let Row { name, rule, .. } = &self.bound.grammar().rows[row];
        let is_end = fit.op >= rule.read.len();
        let text = if is_end { rule.texts.len().saturating_sub(1) } else { rule.text_at(fit.op) };
        let role = role_of(self.bound, row, text);
        if role == Role::Assistant && place.continues_message(self.bound) {
            return self.next_frame(place, row, text, last.unwrap_or(opener));
        }
        let is_same = matches!(&place, Place::In(turn, Within::Value(_) | Within::Text(_))
            if continues && turn.row == row && turn.role == role);
        if !is_same {
            if !continues {
                place = self.close_before(place, opener).into();
            }
            if role != Role::Assistant || !place.is_prompted() {
                let name = fit.word(Field::Name).or_else(|| name.clone());
                self.emit_at(EventKind::TurnStart { role, name }, opener, last);
            }
        }
        let answers = match place {
            Place::In(turn, _) => turn.answers,
            Place::Outside(_) => None,
        };
        let (mut turn, within) = self.enter(row, text);
        turn.answers = answers;
        let id = fit.word(Field::Id);
        if is_end {
            // The text is part of the row's head, or is a value.
            let id = id.or(turn.take_answers());
            self.emit_at(EventKind::TurnEnd { reason: TurnReason::Stop, id }, opener, last);
            return self.leave(&turn).into();
        }
        if role == Role::Tool {
            turn.answers = id.map(String::into_boxed_str);
        }
        Place::In(turn, within)
    }

    /// Emits an event that ends with a header; a header without ids comes before `opener`.
    fn emit_at(&mut self, kind: EventKind, opener: u32, last: Option<u32>) {
        match last {
            Some(last) => self.out.emit(kind, None, last),
            None => self.out.emit_between(kind, opener),
        }
    }

    /// Closes a turn at its closing token, at `first` to `at`.
    pub(super) fn close_turn(
        &mut self,
        mut turn: Turn,
        within: Within,
        first: u32,
        at: u32,
    ) -> Outside {
        let within = self.end_open_call(&turn, within, first.saturating_sub(1));
        self.end_turn_text(&turn, within);
        self.end_list(&turn);
        let reason = if turn.has_called() { TurnReason::Action } else { TurnReason::Stop };
        let id = turn.take_answers();
        self.out.emit(EventKind::TurnEnd { reason, id }, None, at);
        self.leave(&turn)
    }

    /// Closes a turn at the end of the stream, before position `index`. With `goes_on`, more text may come: the text
    /// has no end, so all of it is the caller's.
    pub(super) fn finish_turn(
        &mut self,
        mut turn: Turn,
        mut within: Within,
        reason: TurnReason,
        index: u32,
        goes_on: bool,
    ) -> Outside {
        if let Within::Call(call) = within {
            let is_stop = reason == TurnReason::Stop;
            let ended = if is_stop { call.ended_by_next(self.bound) } else { Ended::Cut };
            let last = self.out.output.last();
            self.end_call(&turn, call, last, ended);
            within = Within::AfterCall;
        }
        if goes_on {
            self.end_text(&turn, within, &Suffix::default());
        } else {
            self.end_turn_text(&turn, within);
        }
        let is_call = reason == TurnReason::Stop && turn.has_called();
        let reason = if is_call { TurnReason::Action } else { reason };
        let id = turn.take_answers();
        self.out.emit_between(EventKind::TurnEnd { reason, id }, index);
        self.leave(&turn)
    }

    /// Ends the turn that is open before `opener`, where another begins.
    pub(super) fn close_before(&mut self, place: Place, opener: u32) -> Outside {
        let (mut turn, within) = match place {
            Place::In(turn, within) => (turn, within),
            Place::Outside(outside) => {
                self.machine.held.clear();
                return outside;
            }
        };
        let within = self.end_call_before(&turn, within, opener);
        self.end_turn_text(&turn, within);
        self.end_list(&turn);
        // Where no token closes a turn, another turn ends it.
        let reason = match turn.closer(self.bound) {
            _ if turn.has_called() && self.bound.grammar().has_frames() => TurnReason::Action,
            Some(closer) if closer.opener && turn.has_called() => TurnReason::Action,
            Some(closer) if closer.opener => TurnReason::Stop,
            _ => TurnReason::Implicit,
        };
        let id = turn.take_answers();
        self.out.emit_between(EventKind::TurnEnd { reason, id }, opener);
        self.leave(&turn)
    }

    /// Reports a list of calls that nothing has closed.
    fn end_list(&mut self, turn: &Turn) {
        self.out.mended(turn.calls.is_listed.then_some(Mended::ListEnd));
    }

    /// The place after a turn.
    pub(super) fn leave(&mut self, turn: &Turn) -> Outside {
        self.machine.held.clear();
        let grammar = self.bound.grammar();
        let is_answered =
            turn.role == Role::Tool && grammar.after_tool.is_some() && grammar.results_end_alone();
        Outside { is_prompted: false, is_answered }
    }
}
