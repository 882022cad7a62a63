//! Turns and their texts: where one begins, what belongs to it, where it ends.

use super::tentative::Tentative;
use super::{Lead, Line, Piece, Place, Reader, Turn};
use crate::call::Mended;
use crate::event::{EventKind, NoticeKind, TurnReason};
use crate::format::InReasoning;
use crate::format::unmarked_calls::FENCE;
use crate::grammar::{Closer, Op, Row, Suffix};
use crate::limits::HOLD_LIMIT;
use crate::message::Role;
use crate::pattern::Field;
use crate::stream::PROMPT;
use crate::stream::pending::Stretch;
use crate::stream::value::ValueReader;
use chatcodec_vocab::TokenId;

impl Reader<'_> {
    // Outside of turns, and after actions: white space is scaffolding, anything else is text.

    pub(super) fn text_outside(&mut self, piece: Piece<'_>) {
        if self.answer_row().is_some() {
            self.open_implicit(piece.first);
            return self.text_of_turn(piece);
        }
        if self.machine.pending.is_empty()
            && let Some(tentative) = Tentative::texts(self.bound, self.machine.last)
        {
            // A turn may begin with text.
            self.machine.tentative = Some(Box::new(tentative));
            return self.rest(piece);
        }
        if let Some((text, first, at)) = self.machine.pending.push_space(piece) {
            self.open_implicit(first);
            self.text_of_turn(Piece { text: &text, first, at });
        }
    }

    pub(super) fn text_after_action(&mut self, piece: Piece<'_>) {
        if self.machine.fenced || !self.bound.grammar().after_calls.texts.is_empty() {
            return self.text_that_may_close(piece);
        }
        if let Some(text) = self.machine.pending.push_space(piece) {
            self.tell_after_action(text);
        }
    }

    /// Text after a call that may be what closes calls elsewhere: that is passed over.
    fn text_that_may_close(&mut self, piece: Piece<'_>) {
        let pending = &mut self.machine.pending;
        pending.push(piece);
        let held = pending.text().trim_ascii_start();
        let spaces = pending.len() - held.len();
        let fence = Some(FENCE).filter(|_| self.machine.fenced);
        let texts = self.bound.grammar().after_calls.texts.iter().map(String::as_str).chain(fence);
        if let Some(close) = texts.clone().find(|close| held.starts_with(close)) {
            self.machine.fenced = false;
            pending.take_bytes(spaces + close.len());
            let (rest, first, at) = pending.take_all();
            self.tell_mending(Some(Mended::After));
            return self.rest(Piece { text: &rest, first, at });
        }
        let is_begun = texts.clone().any(|close| close.starts_with(held));
        if !is_begun || pending.len() > HOLD_LIMIT {
            let text = pending.take_all();
            self.tell_after_action(text);
        }
    }

    /// What is held after a call and did not become what closes calls is text.
    pub(super) fn flush_after_call(&mut self) {
        let is_text = matches!(self.machine.place, Place::AfterAction)
            && !self.machine.pending.text().trim_ascii().is_empty();
        if is_text {
            let text = self.machine.pending.take_all();
            self.tell_after_action(text);
        }
    }

    /// A control token that closes calls, here or elsewhere: whether it does.
    pub(super) fn closes_calls(&mut self, id: TokenId, at: u32) -> bool {
        let grammar = self.bound.grammar();
        if self.has_called() && grammar.after_calls.ids.contains(&id) {
            self.end_action(at.saturating_sub(1), self.ended_by_next());
            self.tell_mending(Some(Mended::After));
            return true;
        }
        let closes = self.has_acted() && grammar.closes_calls(id);
        if closes {
            self.machine.listed = false;
            self.machine.pending.clear();
            self.machine.place = Place::AfterAction;
        }
        closes
    }

    /// Text after a call is text of the turn, which is told once.
    fn tell_after_action(&mut self, (text, first, at): Stretch) {
        self.machine.place = Place::Text;
        self.machine.fenced = false;
        if let Some(turn) = &mut self.machine.turn
            && !std::mem::replace(&mut turn.told, true)
        {
            let (kind, text) = (NoticeKind::TextAfterAction, String::new());
            self.tell_between(EventKind::Notice { kind, text }, first);
        }
        self.text_of_turn(Piece { text: &text, first, at });
    }

    /// Something outside a turn opens an assistant's.
    pub(super) fn open_implicit(&mut self, before: u32) {
        let row = self.answer_row().unwrap_or_else(|| self.bound.grammar().assistant());
        if std::mem::take(&mut self.machine.promised) {
            return self.enter(row, 0);
        }
        let Row { role, name, .. } = &self.bound.grammar().rows[row];
        self.tell_between(EventKind::TurnStart { role: *role, name: name.clone() }, before);
        self.enter(row, 0);
    }

    /// The prompt ends with a result: the message that follows it begins.
    pub(in crate::stream) fn open_answer(&mut self) {
        self.machine.promised = true;
        self.open_implicit(PROMPT);
    }

    /// The row of the message that may begin here, where it follows a result and so has no header.
    fn answer_row(&self) -> Option<usize> {
        self.bound.grammar().after_tool.filter(|_| self.machine.answered)
    }

    /// The rows that may begin here with text.
    fn text_rows(&self) -> impl Iterator<Item = usize> + use<'_> {
        let answer = self.answer_row();
        let others = self.bound.grammar().rows_after(self.machine.last);
        answer.into_iter().chain(others.filter(move |_| answer.is_none()))
    }

    /// The bare generation prompt opens an assistant's turn, and nothing comes after it.
    pub(super) fn open_prompted(&mut self) {
        let Some(tentative) = self.machine.tentative.take() else { return };
        if self.is_framed() {
            // It goes on with the message that is open.
            return;
        }
        let (opener, last) = tentative.held.bounds();
        self.close_before(opener);
        let row = self.bound.grammar().assistant();
        let Row { role, name, .. } = &self.bound.grammar().rows[row];
        self.tell(EventKind::TurnStart { role: *role, name: name.clone() }, None, last);
        self.enter(row, 0);
    }

    /// A control token that closes a turn of which nothing else is written: whether there is one.
    pub(super) fn open_empty(&mut self, id: TokenId, at: u32) -> bool {
        let grammar = self.bound.grammar();
        let row = self.text_rows().find(|&row| {
            let row = &grammar.rows[row];
            let is_text = |op: &Op| matches!(op, Op::Field(Field::Content, _));
            row.rule.read.first().is_some_and(is_text)
                && row.rule.closer().is_some_and(|closer| closer.ids.contains(&id))
        });
        let Some(row) = row else { return false };
        let Row { role, name, .. } = &grammar.rows[row];
        self.tell_between(EventKind::TurnStart { role: *role, name: name.clone() }, at);
        self.enter(row, 0);
        true
    }

    /// The id of the call that the turn answers, which its header has told.
    pub(super) fn answers(&mut self) -> Option<String> {
        self.machine.answers.take().map(String::from)
    }

    /// Reasoning begins between turns, where an answer without a header may: whether it does.
    pub(super) fn open_reasoning(&mut self, id: TokenId, at: u32) -> bool {
        let grammar = self.bound.grammar();
        let row = self.text_rows().find(|&row| {
            let row = &grammar.rows[row];
            row.text_first
                && row.rule.reasoning.as_ref().is_some_and(|reasoning| {
                    reasoning.open.contains(&id)
                        || reasoning.closes_alone && reasoning.text.closer.ids.contains(&id)
                })
        });
        let Some(row) = row else { return false };
        let Row { role, name, .. } = &grammar.rows[row];
        if !std::mem::take(&mut self.machine.promised) {
            self.tell_between(EventKind::TurnStart { role: *role, name: name.clone() }, at);
        }
        self.enter(row, 0);
        self.reasoning(id)
    }

    /// A turn, or the next text of one, begins.
    pub(super) fn enter(&mut self, row: usize, text: usize) {
        let role = self.role_of(row, text);
        let text = u32::try_from(text).unwrap_or(u32::MAX);
        self.machine.turn = Some(Turn {
            row,
            text,
            role,
            actions: 0,
            told: false,
            refused: false,
            thinking: false,
            drafted: false,
            framed: 0,
        });
        self.machine.answered = false;
        self.machine.line = Line::Start;
        let grammar = self.bound.grammar();
        let reasoning = grammar.rows[row].rule.reasoning.as_ref();
        let may_call = role == Role::Assistant && grammar.bare_items().next().is_some();
        self.machine.lead =
            if may_call { Some(Lead::Call) } else { reasoning.map(|_| Lead::Begin) };
        // Who follows whom is between user and assistant.
        if role != Role::System || self.machine.last.is_none() {
            self.machine.last = Some(role);
        }
        let text = self.turn_text();
        // After a control token the prefix is taken off already.
        self.machine.prefixed = self.machine.in_run && text.is_some_and(|text| text.prefixed);
        self.machine.place = match text {
            Some(text) if text.is_value => Place::Value(Box::new(ValueReader::new())),
            _ => Place::Text,
        };
    }

    /// Who says a text of a row: a system text may stand in a user's.
    pub(super) fn role_of(&self, row: usize, text: usize) -> Role {
        let row = &self.bound.grammar().rows[row];
        match row.rule.texts.get(text) {
            Some(text) if text.field == Field::System => Role::System,
            _ => row.role,
        }
    }

    /// A control token that opens or closes reasoning: whether it does. It goes with what comes next.
    pub(super) fn reasoning(&mut self, id: TokenId) -> bool {
        let (Some(turn), Some(row)) = (self.machine.turn, self.row()) else { return false };
        let Some(reasoning) = &row.rule.reasoning else { return false };
        let (opens, lead) = match (turn.thinking, &self.machine.place) {
            (false, Place::Text | Place::AfterAction) if reasoning.open.contains(&id) => {
                self.end_text(&Suffix::default());
                (true, Lead::Open)
            }
            (true, Place::Text | Place::AfterAction) if reasoning.text.closer.ids.contains(&id) => {
                self.end_text(&reasoning.text.closer.suffix);
                (false, Lead::Close)
            }
            (true, Place::Text)
                if matches!(self.machine.lead, Some(Lead::Open | Lead::Again))
                    && reasoning.open.contains(&id) =>
            {
                self.machine.pending.clear();
                self.tell_mending(Some(Mended::Opener));
                (true, Lead::Open)
            }
            (false, Place::Text)
                if self.machine.lead == Some(Lead::Begin)
                    && reasoning.text.closer.ids.contains(&id) =>
            {
                self.tell_mending((!reasoning.closes_alone).then_some(Mended::Unopened));
                (false, Lead::Close)
            }
            _ => return false,
        };
        if let Some(turn) = &mut self.machine.turn {
            (turn.thinking, turn.drafted) = (opens, false);
        }
        self.machine.line = Line::Start;
        self.machine.place = Place::Text;
        self.machine.lead = Some(lead);
        true
    }

    /// Whether a control token belongs to a call that is only drafted, within reasoning.
    pub(super) fn is_draft(&self, id: TokenId) -> bool {
        self.in_reasoning == InReasoning::Text
            && self.machine.turn.is_some_and(|turn| turn.thinking)
            && matches!(self.machine.place, Place::Text | Place::AfterAction)
            && self.bound.grammar().is_of_calls(id)
    }

    /// Reads a control token of such a call as its spelling.
    pub(super) fn draft(&mut self, id: TokenId, piece: Piece<'_>) {
        let opens = self.bound.grammar().opens_item(id);
        if let Some(turn) = &mut self.machine.turn
            && opens
            && !std::mem::replace(&mut turn.drafted, true)
        {
            self.flush_text();
            self.machine.lead = None;
            self.tell_mending(Some(Mended::Draft));
        }
        self.text_of_place(piece);
    }

    /// Takes off what the pattern has beside reasoning, if it is there.
    fn text_after_lead(&mut self, lead: Lead, piece: Piece<'_>) {
        let reasoning = self.row().and_then(|row| row.rule.reasoning.as_ref());
        let literal = reasoning.map_or("", |reasoning| match lead {
            Lead::Begin | Lead::Call | Lead::Again => "",
            Lead::Open => &reasoning.before,
            Lead::Close => &reasoning.after,
        });
        let pending = &mut self.machine.pending;
        pending.push(piece);
        let is_white = pending.text().trim_ascii().is_empty();
        if lead == Lead::Again && is_white && pending.len() <= HOLD_LIMIT {
            return;
        }
        if pending.len() < literal.len() && literal.starts_with(pending.text()) {
            return;
        }
        if pending.text().starts_with(literal) {
            pending.take_bytes(literal.len());
        }
        if lead == Lead::Open && is_white {
            // The token that opens it may come again.
            self.machine.lead = Some(Lead::Again);
            return;
        }
        let (text, first, at) = pending.take_all();
        self.machine.lead = None;
        self.text_of_turn(Piece { text: &text, first, at });
    }

    pub(super) fn text_of_turn(&mut self, mut piece: Piece<'_>) {
        if self.machine.prefixed && !piece.text.is_empty() {
            self.machine.prefixed = false;
            if piece.text.starts_with(' ') {
                piece = piece.from(1);
            }
        }
        if piece.text.is_empty() {
            return;
        }
        match self.machine.lead {
            Some(Lead::Call) => return self.text_that_may_call(piece),
            Some(lead) => return self.text_after_lead(lead, piece),
            None if self.machine.looks_for_calls() => return self.text_that_may_hold_calls(piece),
            None => {}
        }
        self.plain_text(piece);
    }

    /// Text in which no call begins that nothing marks.
    pub(super) fn plain_text(&mut self, piece: Piece<'_>) {
        if piece.text.is_empty() {
            return;
        }
        match self.closer() {
            Some(closer) if !closer.stops.is_empty() => self.text_until_stop(piece, closer),
            Some(closer)
                if !closer.suffix.literal.is_empty() || !closer.before_call.literal.is_empty() =>
            {
                let suffixes = [&closer.suffix, &closer.before_call];
                let told = self.machine.pending.push_until(piece, &suffixes, false);
                if let Some((text, first, at)) = told {
                    self.tell_text(text, first, at);
                }
            }
            _ => self.tell_text(piece.text, piece.first, piece.at),
        }
    }

    /// The text that the open turn begins with has been found to be no header.
    pub(super) fn refuse(&mut self) {
        if let Some(turn) = &mut self.machine.turn {
            turn.refused = true;
        }
    }

    /// Whether it has, and no text has been told since.
    fn take_refused(&mut self) -> bool {
        self.machine.turn.as_mut().is_some_and(|turn| std::mem::take(&mut turn.refused))
    }

    fn text_until_stop(&mut self, piece: Piece<'_>, closer: &Closer) {
        let (told, found) =
            self.machine.pending.push_until_stop(piece, &closer.stops, self.machine.by_text);
        if let Some((text, first, at)) = told {
            self.take_refused();
            self.tell_text(text, first, at);
        }
        let Some(stop) = found.map(|found| &closer.stops[found]) else { return };
        if self.take_refused() && stop.taken == 0 {
            // What was refused as a header would be refused again: its first character is text.
            let (text, first, at) = self.machine.pending.take_char();
            self.tell_text(text, first, at);
            let (rest, first, at) = self.machine.pending.take_all();
            return self.rest(Piece { text: &rest, first, at });
        }
        let (taken, _, last) = self.machine.pending.take_bytes(stop.taken);
        let (rest, first, at) = self.machine.pending.take_all();
        let end = (!taken.is_empty()).then_some(last);
        self.end_of_text(end, first);
        self.rest(Piece { text: &rest, first, at });
    }

    /// A text has been ended by text, up to position `last`; `before` is where the rest begins.
    fn end_of_text(&mut self, last: Option<u32>, before: u32) {
        let (Some(turn), Some(row), Some(text)) = (self.machine.turn, self.row(), self.turn_text())
        else {
            return;
        };
        let is_last = text.next >= row.rule.read.len();
        if is_last || turn.role != row.role {
            let kind = EventKind::TurnEnd { reason: TurnReason::Stop, id: self.answers() };
            match last {
                Some(last) => self.tell(kind, None, last),
                None => self.tell_between(kind, before),
            }
        }
        if is_last {
            return self.leave();
        }
        self.machine.within = true;
        self.machine.tentative = Some(Box::new(Tentative::within(self.bound, turn.row, text.next)));
        self.settle();
    }

    pub(super) fn text_of_value(&mut self, piece: Piece<'_>) {
        let Place::Value(reader) = &mut self.machine.place else { return };
        let (taken, said, ended) = reader.push(piece.text);
        let value = piece.to(taken);
        self.tell_text(said, value.first, value.at);
        if ended {
            self.end_of_text(None, piece.at);
            self.rest(piece.from(taken));
        }
    }

    /// Closes the open turn at its closing token, which is at `first` to `at`.
    pub(super) fn close_turn(&mut self, first: u32, at: u32) {
        self.end_action(first.saturating_sub(1), self.ended_by_next());
        self.end_turn_text();
        self.end_list();
        let reason = if self.has_called() { TurnReason::Action } else { TurnReason::Stop };
        let id = self.answers();
        self.tell(EventKind::TurnEnd { reason, id }, None, at);
        self.leave();
    }

    /// Tells that nothing has closed a list of calls.
    pub(super) fn end_list(&mut self) {
        let listed = std::mem::take(&mut self.machine.listed);
        self.tell_mending(listed.then_some(Mended::ListEnd));
    }

    /// Ends the text of a turn that ends.
    pub(super) fn end_turn_text(&mut self) {
        let closer = self.closer().filter(|_| self.machine.turn.is_none_or(|turn| !turn.thinking));
        self.end_text(&closer.map(|closer| closer.suffix.clone()).unwrap_or_default());
    }

    /// Ends the text of a turn before a call.
    pub(super) fn end_text_before_call(&mut self) {
        let closer = self.closer().filter(|_| self.machine.turn.is_none_or(|turn| !turn.thinking));
        self.end_text(&closer.map(|closer| closer.before_call.clone()).unwrap_or_default());
    }

    /// What is held at the end of a text is the pattern's if it is all of that, text if not.
    fn end_text(&mut self, suffix: &Suffix) {
        if self.machine.lead == Some(Lead::Again) {
            self.machine.lead = None;
            let (text, first, at) = self.machine.pending.take_all();
            self.text_of_turn(Piece { text: &text, first, at });
        }
        let is_text = match &self.machine.place {
            Place::Text if self.machine.lead.is_some() => true,
            Place::Text => {
                self.tell_before(suffix);
                !self.machine.pending.is(suffix, false)
            }
            Place::Value(_) => true,
            _ => false,
        };
        if is_text {
            self.flush_text();
        }
        self.machine.lead = None;
        self.machine.pending.clear();
    }

    /// Where more is held than the end of the pattern, as it could have become something longer, what stands
    /// before that is text.
    fn tell_before(&mut self, suffix: &Suffix) {
        let literal = &suffix.literal;
        let more = self.machine.pending.len().checked_sub(literal.len()).filter(|&more| more > 0);
        let Some(more) = more.filter(|_| !literal.is_empty() && !suffix.space) else { return };
        if self.machine.pending.text().ends_with(&**literal) {
            let (text, first, at) = self.machine.pending.take_bytes(more);
            self.tell_text(text, first, at);
        }
    }

    pub(super) fn leave(&mut self) {
        let grammar = self.bound.grammar();
        let is_result = self.machine.turn.is_some_and(|turn| turn.role == Role::Tool);
        self.machine.answered =
            is_result && grammar.after_tool.is_some() && grammar.results_end_alone();
        self.machine.turn = None;
        self.machine.place = Place::Outside;
        self.machine.pending.clear();
    }

    /// A turn begins while one is open: it ends before `opener`.
    pub(super) fn close_before(&mut self, opener: u32) {
        if self.machine.turn.is_none() {
            return self.machine.pending.clear();
        }
        let is_action = !matches!(
            self.machine.place,
            Place::Text | Place::AfterAction | Place::AfterFrame | Place::Outside
        );
        if is_action {
            self.end_action_before(opener);
        }
        self.end_turn_text();
        self.end_list();
        // Where no token closes a turn, this is how it ends.
        let reason = match self.closer() {
            _ if self.has_called() && self.bound.grammar().has_frames() => TurnReason::Action,
            Some(closer) if closer.opener && self.has_called() => TurnReason::Action,
            Some(closer) if closer.opener => TurnReason::Stop,
            _ => TurnReason::Implicit,
        };
        let id = self.answers();
        self.tell_between(EventKind::TurnEnd { reason, id }, opener);
        self.leave();
    }

    /// Tells text that was held because it might have been the pattern's own. White space that was
    /// held between turns or after an action is scaffolding.
    pub(super) fn flush_text(&mut self) {
        match &mut self.machine.place {
            Place::Call { scanner, .. } => {
                if let Some((kind, text, first)) = scanner.take_odd() {
                    let last = self.machine.covered.max(first);
                    self.notice(kind, text, Some(first), last);
                }
                return;
            }
            Place::Value(reader) => {
                let text = reader.finish();
                let at = self.machine.covered.saturating_sub(1);
                return self.tell_text(text, at, at);
            }
            // What is held is the pattern's, or is told when the call ends.
            Place::Arguments { .. } => return,
            _ => {}
        }
        let (text, first, at) = self.machine.pending.take_all();
        if text.is_empty() {
            return;
        }
        match self.machine.place {
            Place::Text => self.tell_text(text, first, at),
            Place::Source { .. } => self.source(text, first, at),
            _ => {}
        }
    }
}
