//! Control tokens at a certain place. Each function reads the token and returns the next place, or returns the
//! place as it was, for the next function.
//!
//! ```text
//! in a text      <|im_end|>       TurnEnd(stop)
//! in a text      <|im_start|>     the text's turn ends; a header may follow
//! in a text      <tool_call>      a call may follow
//! anywhere else  <tool_call>      Notice(unexpected_control)
//! ```

use super::calls::Call;
use super::text::TextState;
use super::uncertain::{Uncertain, UncertainHeader};
use super::{Outside, Piece, Place, Reader, Turn, Within};
use crate::bound::Bound;
use crate::call::Ended;
use crate::event::NoticeKind;
use crate::grammar::Grammar;
use crate::message::Role;
use crate::stream::PROMPT;
use crate::stream::header::HeldItem;
use crate::stream::spelled::Spelled;
use chatcodec_vocab::TokenId;

/// Control token, with the positions of its first and its last id.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) id: TokenId,
    pub(super) first: u32,
    pub(super) at: u32,
    /// Its spelling, if text spelled the token.
    pub(super) spelled: Option<Box<Spelled>>,
}

impl Control {
    /// The spelling as text.
    fn piece<'t>(&self, text: &'t str) -> Piece<'t> {
        Piece { text, first: self.first, at: self.at }
    }

    /// Whether it is a marker of text in a turn of others, where such markers mean nothing.
    fn is_of_others(&self, place: &Place) -> bool {
        Grammar::is_text_marker(self.id) && place.turn().is_some_and(|turn| !turn.is_answer())
    }

    fn held(self) -> HeldItem {
        HeldItem::Control { id: self.id, first: self.first, at: self.at, spelled: self.spelled }
    }
}

impl Place {
    /// Whether a spelled control token is part of what is read: of a string, or of code that has its own end.
    fn quotes(&self, reader: &Reader<'_>) -> bool {
        match self {
            Self::In(_, Within::Value(value)) => value.is_in_string(),
            Self::In(_, Within::Call(Call::Object(call))) => call.scanner.is_in_string(),
            Self::In(_, Within::Call(Call::Arguments(call))) => call.body.is_in_string(),
            Self::In(_, Within::Call(Call::Code(code))) => {
                let closer = reader.bound.grammar().items[code.item].rule.closer();
                closer.map(|closer| &closer.suffix).is_some_and(|suffix| {
                    !suffix.literal.is_empty() && !reader.machine.held.is(suffix, code.is_fresh)
                })
            }
            _ => false,
        }
    }

    /// Marks an open call as not complete if a dropped control token stood in its text.
    pub(super) fn lack_token(&mut self, id: TokenId) {
        let Self::In(turn, Within::Call(call)) = self else { return };
        turn.calls.lacks_token |= match call {
            Call::Object(call) => call.scanner.is_within(),
            Call::Arguments(call) => call.body.lacks(id),
            Call::Code(_) => true,
        };
    }
}

impl Turn {
    /// Whether a control token between turns ends the turn, which no token of its own closes.
    fn ends_between(&self, bound: &Bound, id: TokenId) -> bool {
        let grammar = bound.grammar();
        let closer = self.row(bound).rule.closer();
        let is_around = grammar.closes_results(id) || grammar.parts_results(id);
        closer.is_some_and(|closer| closer.ids.is_empty())
            && (grammar.ends(id) || self.role == Role::Tool && is_around)
    }

    /// Whether a control token ends the text, and the row goes on after it.
    pub(super) fn goes_on_after(&self, bound: &Bound, id: TokenId) -> bool {
        self.text(bound).is_some_and(|text| text.goes_on && text.closer.ids.contains(&id))
    }

    /// Whether a marker of text closes reasoning that another marker than this turn's opened: of markers in a choice,
    /// each closes what the one at its place opened. Where none did, the first closes.
    fn is_closed_otherwise(&self, bound: &Bound, id: TokenId) -> bool {
        let Some(reasoning) = &self.row(bound).rule.reasoning else { return false };
        let ids = &reasoning.text.closer.ids;
        let way = self.reasoning.map_or(0, |thinking| usize::from(thinking.way));
        Grammar::is_text_marker(id)
            && ids.len() == reasoning.open.len()
            && ids.iter().position(|close| *close == id).is_some_and(|place| place != way)
    }

    /// Whether a control token closes the text that is read, or the row.
    fn is_closed_by(&self, bound: &Bound, id: TokenId) -> bool {
        let last = self.row(bound).rule.closer();
        let mut ends = self.closer(bound).into_iter().chain(last);
        ends.any(|closer| closer.ids.contains(&id))
    }
}

impl Reader<'_> {
    /// Reads a control token.
    pub(super) fn control(&mut self, place: Place, token: Control) -> Place {
        if self.may_hold(&place, token.id) {
            self.hold_draft(token.held());
            return place;
        }
        if let Some(spelled) = token.spelled.as_deref()
            && (token.is_of_others(&place)
                || place.turn().is_some_and(|turn| turn.is_closed_otherwise(self.bound, token.id))
                || place.quotes(self)
                || Grammar::is_text_marker(token.id) && self.is_draft(&place, token.id))
        {
            return self.text_at(place, token.piece(&spelled.text));
        }
        if self.is_draft(&place, token.id) {
            let spelling = self.as_written(&token);
            return self.draft(place, token.id, token.piece(&spelling));
        }
        self.out.output.in_run = false;
        let (place, token) = match self.control_of_media(place, token) {
            Ok(place) => return place,
            Err(other) => other,
        };
        let place = self.flush_after_call(place);
        self.meaning(place, token).unwrap_or_else(|(place, token)| self.unexpected(place, &token))
    }

    /// Reads a control token that means something at a place.
    fn meaning(&mut self, place: Place, token: Control) -> Result<Place, (Place, Control)> {
        let Control { id, first, at, .. } = token;
        let place = match self.control_in_arguments(place, id, at) {
            Ok(place) => return Ok(place),
            Err(place) => place,
        };
        let place = self.end_of_text_results(place, &token);
        let may_answer = place.turn().is_none_or(Turn::is_answer);
        let (place, token) = self.control_of_opener(place, token, may_answer);
        let Some(token) = token else { return Ok(place) };
        let place = self.control_in_call(place, id, at);
        let place = place.or_else(|place| self.control_outside(place, id, first, at));
        let place = place.or_else(|place| {
            if may_answer { self.control_of_reasoning(place, id) } else { Err(place) }
        });
        let place = place.or_else(|place| self.control_of_block(place, id));
        let place = match place.or_else(|place| self.control_after_calls(place, id, at)) {
            Ok(place) => return Ok(place),
            Err(place) => place,
        };
        let is_spelled = !may_answer && self.bound.grammar().is_spelled(id);
        if may_answer && self.begins_header(&place, id) {
            return Ok(self.try_header(place, token));
        }
        match place {
            Place::In(turn, Within::Text(text))
                if is_spelled && !turn.is_closed_by(self.bound, id) =>
            {
                // As any text is read: some vocabularies have one token for a space and for U+2581.
                let spelling = self.bound.vocab().spaced(self.as_written(&token).into());
                Ok(self.text_of_turn(turn, text, Piece { text: &spelling, first: at, at }))
            }
            Place::In(turn, within) if turn.goes_on_after(self.bound, id) => {
                Ok(self.end_within_row(turn, within, token))
            }
            Place::In(turn, within) => {
                let end = self.control_at_end(turn, within, id, (first, at));
                end.map_err(|place| (place, token))
            }
            // A text that begins the conversation may begin with a token that is read as its spelling.
            Place::Outside(outside) if self.begins_text(id) => {
                let spelling = self.bound.vocab().spaced(self.as_written(&token).into());
                Ok(self.text_outside(outside, Piece { text: &spelling, first: at, at }))
            }
            place @ Place::Outside(_) => Err((place, token)),
        }
    }

    /// Whether a control token outside a turn begins the text of a row that stands first.
    fn begins_text(&self, id: TokenId) -> bool {
        let grammar = self.bound.grammar();
        let mut rows = grammar.rows_after(None).map(|row| &grammar.rows[row]);
        self.machine.last.is_none()
            && grammar.is_spelled(id)
            && rows.any(|row| row.first_only && row.text_first)
    }

    /// Ends results of text before the token that begins the message after them.
    fn end_of_text_results(&mut self, place: Place, token: &Control) -> Place {
        let is_end = place.turn().is_some_and(|turn| {
            turn.row(self.bound).answer_only && self.bound.grammar().opens_answer(token.id)
        });
        if !is_end || token.spelled.is_some() {
            return place;
        }
        let outside = self.close_before(place, token.first);
        Outside { is_answered: true, ..outside }.into()
    }

    fn control_in_arguments(&mut self, place: Place, id: TokenId, at: u32) -> Result<Place, Place> {
        let Place::In(turn, Within::Call(Call::Arguments(mut call))) = place else {
            return Err(place);
        };
        let is_own = self.control_of_arguments(&turn, &mut call, id, at);
        let place = Place::In(turn, Within::Call(Call::Arguments(call)));
        if is_own { Ok(place) } else { Err(place) }
    }

    /// Reads a control token that may begin a turn or a call; returns other tokens.
    fn control_of_opener(
        &mut self,
        place: Place,
        token: Control,
        may_answer: bool,
    ) -> (Place, Option<Control>) {
        let (grammar, id, at) = (self.bound.grammar(), token.id, token.at);
        let opens_turn = grammar.opens_turn(id);
        if !(opens_turn || grammar.opens_item(id) && may_answer) {
            return (place, Some(token));
        }
        let place = match place {
            // The model stops where it begins another's turn.
            Place::In(turn, within)
                if opens_turn && may_answer && grammar.stops(id) && token.spelled.is_none() =>
            {
                self.close_turn(turn, within, at, at).into()
            }
            place => place,
        };
        (self.try_header(place, token), None)
    }

    /// Reads a control token as the beginning of a header.
    fn try_header(&mut self, place: Place, token: Control) -> Place {
        self.machine.uncertain = Some(Uncertain::header(UncertainHeader::opened(self.bound)));
        self.again(vec![token.held()]);
        place
    }

    /// Reads a control token that closes the call that is open, or its list.
    fn control_in_call(&mut self, place: Place, id: TokenId, at: u32) -> Result<Place, Place> {
        let Place::In(mut turn, Within::Call(call)) = place else { return Err(place) };
        let grammar = self.bound.grammar();
        let closes_calls = grammar.closes_calls(id);
        let ended = match &call {
            call if grammar.closes_item(call.item(), id) => Ended::Closed,
            _ if grammar.has_brackets() && closes_calls => Ended::Closed,
            Call::Object(_) | Call::Arguments(_) if closes_calls => Ended::Stopped,
            _ => return Err(Place::In(turn, Within::Call(call))),
        };
        turn.calls.is_listed &= !closes_calls;
        self.end_call(&turn, call, at, ended);
        Ok(Place::In(turn, Within::AfterCall))
    }

    /// Reads a control token between turns.
    fn control_outside(
        &mut self,
        place: Place,
        id: TokenId,
        first: u32,
        at: u32,
    ) -> Result<Place, Place> {
        let Place::Outside(outside) = place else { return Err(place) };
        let grammar = self.bound.grammar();
        let is_after_result = self.machine.last == Some(Role::Tool);
        // An answer after results that have been closed may be empty.
        let closes_results = is_after_result && !outside.is_answered && grammar.closes_results(id);
        let is_scaffold = (grammar.begins(id) && self.machine.last.is_none())
            || grammar.ends(id)
            || closes_results
            || is_after_result && grammar.parts_results(id);
        if is_scaffold {
            self.machine.held.clear();
            let begins = closes_results && grammar.after_tool.is_some();
            return Ok(Outside { is_answered: outside.is_answered || begins, ..outside }.into());
        }
        if let Some(row) = self.reasoning_row(outside, id) {
            self.machine.held.clear();
            return Ok(self.open_reasoning(outside, row, id, at));
        }
        match self.empty_row(outside, id) {
            Some(row) => {
                self.machine.held.clear();
                Ok(self.empty_turn(row, first, at))
            }
            // White space that is held belongs to the text that the spelling of the token begins.
            None => Err(place),
        }
    }

    /// Reads a control token that ends a text, after which the row goes on up to another token.
    fn end_within_row(&mut self, turn: Turn, within: Within, token: Control) -> Place {
        self.end_turn_text(&turn, within);
        let next = turn.text(self.bound).map_or(0, |text| text.next);
        let header = UncertainHeader::within(self.bound, turn.row, next);
        self.machine.uncertain = Some(Uncertain::header(header));
        self.again(vec![token.held()]);
        Place::In(turn, TextState::new().into())
    }

    /// Reads a control token that ends a turn or a frame, at these first and last positions.
    fn control_at_end(
        &mut self,
        turn: Turn,
        within: Within,
        id: TokenId,
        (first, at): (u32, u32),
    ) -> Result<Place, Place> {
        let (bound, grammar) = (self.bound, self.bound.grammar());
        if turn.ends_between(bound, id) {
            let outside = self.close_turn(turn, within, first, at);
            let begins = grammar.closes_results(id) && grammar.after_tool.is_some();
            return Ok(Outside { is_answered: outside.is_answered || begins, ..outside }.into());
        }
        let closes = turn.is_closed_by(bound, id);
        let stops = turn.is_answer() && grammar.stops(id);
        if closes && !stops && turn.is_in_frame(&within, bound) {
            return Ok(self.end_frame(turn, within));
        }
        if stops || closes && !matches!(within, Within::AfterFrame { .. }) {
            return Ok(self.close_turn(turn, within, first, at).into());
        }
        Err(Place::In(turn, within))
    }

    /// Whether a control token that text spells is one of turns, where no text of a turn is read, in a stream of text
    /// alone. Where it means nothing, it is no text either.
    pub(super) fn is_of_turns(&self, place: &Place, id: TokenId) -> bool {
        let grammar = self.bound.grammar();
        let is_between = match place {
            Place::Outside(outside) => !outside.is_prompted,
            Place::In(_, within) => matches!(within, Within::AfterFrame { .. } | Within::AfterCall),
        };
        self.out.output.by_text
            && is_between
            && !Grammar::is_text_marker(id)
            && (grammar.stops(id) || grammar.opens_turn(id))
    }

    /// The spelling that text has for a control token, or that of its id.
    fn as_written(&self, token: &Control) -> String {
        match &token.spelled {
            Some(spelled) => spelled.text.clone(),
            None => self.spelling(token.id),
        }
    }

    /// Reads a control token that means nothing at a place: a spelled token is text, any other is reported.
    fn unexpected(&mut self, mut place: Place, token: &Control) -> Place {
        if let Some(spelled) = token.spelled.as_deref()
            && !self.is_of_turns(&place, token.id)
        {
            if !Grammar::is_text_marker(token.id) {
                self.out.notice_between(NoticeKind::UnexpectedControl, PROMPT);
            }
            return self.text_at(place, token.piece(&spelled.text));
        }
        self.flush_text(&mut place);
        place.lack_token(token.id);
        let spelling = self.as_written(token);
        self.out.notice(NoticeKind::UnexpectedControl, spelling, None, token.at);
        place
    }
}
