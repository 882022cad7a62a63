//! Texts of a turn: what the pattern has beside reasoning, and where a text ends.
//!
//! ```text
//! Hi    Text("Hi")
//! \n     held back, where the row has "\n" before its closing token
//! <|im_end|>    TurnEnd: the "\n" was the row's
//! ```

use super::uncertain::{Uncertain, UncertainHeader};
use super::{Piece, Place, Reader, Settings, Thinking, Turn, Within};
use crate::bound::Bound;
use crate::call::Mended;
use crate::event::{EventKind, TurnReason};
use crate::format::{BareCalls, InReasoning};
use crate::grammar::{Closer, Grammar, Suffix};
use crate::limits::HOLD_LIMIT;
use crate::stream::header::Decision;
use crate::stream::value::ValueReader;
use chatcodec_vocab::TokenId;

/// State of a text of a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextState {
    /// What may come next before the text.
    pub(super) lead: Option<Lead>,
    /// Whether the text may begin with a dummy prefix.
    pub(super) is_prefixed: bool,
    /// Whether the beginning of the text was tried as a header, and is none: it ends no turn.
    pub(super) is_refused: bool,
    /// Place in the line.
    pub(super) line: Line,
}

impl TextState {
    /// A text that begins, or continues after something else.
    pub(super) fn new() -> Self {
        Self { lead: None, is_prefixed: false, is_refused: false, line: Line::Start }
    }

    /// Whether the text may begin with something else.
    pub(super) fn may_begin_otherwise(self) -> bool {
        self.is_prefixed || self.lead.is_some()
    }

    /// Whether an unmarked call may begin in `text`.
    pub(super) fn may_call(
        self,
        turn: &Turn,
        settings: &Settings,
        bound: &Bound,
        text: &str,
    ) -> bool {
        let is_anywhere = settings.bare == BareCalls::Anywhere;
        let may_begin =
            |byte: u8| byte == b'\n' || is_anywhere && bound.grammar().may_be_bare(byte);
        settings.looks_for_calls(turn) && (self.line != Line::Within || text.bytes().any(may_begin))
    }
}

/// What may come next before a text: text of the pattern beside reasoning, or a call that begins with text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    /// The token that closes reasoning: nothing of the turn has come.
    Begin,
    /// The pattern's text after the token that opens reasoning.
    Open,
    /// The pattern's text after the token that closes reasoning.
    Close,
    /// The token that opens reasoning once more, after white space or a prompt.
    Again,
    /// A call.
    Call,
    /// The pattern's text after the token that opens the text.
    Block,
    /// The pattern's text after a media part.
    Media,
}

/// Place in a line of text, as far as it decides whether an unmarked call may begin there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// At its beginning, or after white space there.
    Start,
    Within,
    /// Where a call was looked for, and none begins.
    Tried,
}

impl Line {
    /// The place after a byte.
    pub(super) fn after(self, byte: u8) -> Self {
        match byte {
            b'\n' => Self::Start,
            b' ' | b'\t' if self == Self::Start => Self::Start,
            _ => Self::Within,
        }
    }
}

impl From<TextState> for Within {
    fn from(text: TextState) -> Self {
        Self::Text(text)
    }
}

/// The pattern's text that may begin what a lead leads.
fn text_of_lead<'b>(bound: &'b Bound, turn: &Turn, lead: Lead) -> &'b str {
    let (grammar, rule) = (bound.grammar(), &turn.row(bound).rule);
    match lead {
        Lead::Begin | Lead::Call | Lead::Again => "",
        Lead::Open => rule.reasoning.as_ref().map_or("", |reasoning| &reasoning.before),
        Lead::Close => rule.reasoning.as_ref().map_or("", |reasoning| &reasoning.after),
        Lead::Block => rule.block.as_ref().map_or("", |block| &block.before),
        Lead::Media => grammar.media.first().map_or("", |rule| &rule.after),
    }
}

impl Reader<'_> {
    /// Reads text of a turn.
    pub(super) fn text_of_turn(
        &mut self,
        turn: Turn,
        mut text: TextState,
        mut piece: Piece<'_>,
    ) -> Place {
        if !piece.text.is_empty() && std::mem::take(&mut text.is_prefixed) {
            piece = piece.from(usize::from(piece.text.starts_with(' ')));
        }
        if piece.text.is_empty() {
            return Place::In(turn, text.into());
        }
        match text.lead {
            Some(Lead::Call) => self.text_that_may_call(turn, text, piece),
            Some(lead) => self.text_after_lead(turn, text, lead, piece),
            None if self.machine.settings.looks_for_calls(&turn) => {
                self.text_that_may_hold_calls(turn, text, piece)
            }
            None => self.plain_text(turn, text, piece),
        }
    }

    /// Removes the pattern's text beside reasoning, if it is there.
    fn text_after_lead(
        &mut self,
        turn: Turn,
        mut text: TextState,
        lead: Lead,
        piece: Piece<'_>,
    ) -> Place {
        let literal = text_of_lead(self.bound, &turn, lead);
        let has_block = turn.row(self.bound).rule.block.is_some();
        let may_wait = lead == Lead::Again
            || has_block && matches!(lead, Lead::Begin | Lead::Close) && !turn.is_thinking();
        let held = &mut self.machine.held;
        held.push(piece);
        let is_white = held.text().trim_ascii().is_empty();
        let is_open = may_wait && is_white && held.len() <= HOLD_LIMIT
            || held.len() < literal.len() && literal.starts_with(held.text());
        if is_open {
            return Place::In(turn, text.into());
        }
        if held.text().starts_with(literal) {
            held.take_bytes(literal.len());
        }
        if lead == Lead::Open && is_white {
            // The token that opens reasoning may come again.
            text.lead = Some(Lead::Again);
            return Place::In(turn, text.into());
        }
        let (rest, first, at) = held.take_all();
        text.lead = None;
        self.text_of_turn(turn, text, Piece { text: &rest, first, at })
    }

    /// Reads text in which no unmarked call begins.
    pub(super) fn plain_text(&mut self, turn: Turn, text: TextState, piece: Piece<'_>) -> Place {
        match turn.closer(self.bound) {
            _ if piece.text.is_empty() => Place::In(turn, text.into()),
            Some(closer) if !closer.stops.is_empty() => {
                self.text_until_stop(turn, text, piece, closer)
            }
            closer => {
                self.text_until_suffix(&turn, piece, closer);
                Place::In(turn, text.into())
            }
        }
    }

    /// Reads text that control tokens end; holds back its end where that may be the pattern's.
    fn text_until_suffix(&mut self, turn: &Turn, piece: Piece<'_>, closer: Option<&Closer>) {
        let has_suffix = |closer: &&Closer| {
            !closer.suffix.literal.is_empty() || !closer.before_call.literal.is_empty()
        };
        let Some(closer) = closer.filter(has_suffix) else {
            return self.emit_text(turn, piece.text, piece.first, piece.at);
        };
        let suffixes = [&closer.suffix, &closer.before_call];
        if let Some((text, first, at)) = self.machine.held.push_until(piece, &suffixes, false) {
            self.emit_text(turn, text, first, at);
        }
    }

    /// Reads text that text ends.
    fn text_until_stop(
        &mut self,
        turn: Turn,
        mut text: TextState,
        piece: Piece<'_>,
        closer: &Closer,
    ) -> Place {
        let by_text = self.out.output.by_text;
        let (before, found) = self.machine.held.push_until_stop(piece, &closer.stops, by_text);
        if let Some((before, first, at)) = before {
            text.is_refused = false;
            self.emit_text(&turn, before, first, at);
        }
        let Some(stop) = found.map(|found| &closer.stops[found]) else {
            return Place::In(turn, text.into());
        };
        if std::mem::take(&mut text.is_refused) && stop.taken == 0 {
            // Text that is no header would be tried as one again: its first character is text.
            let (character, first, at) = self.machine.held.take_char();
            self.emit_text(&turn, character, first, at);
            let (rest, first, at) = self.machine.held.take_all();
            self.rest(Piece { text: &rest, first, at });
            return Place::In(turn, text.into());
        }
        let (taken, _, last) = self.machine.held.take_bytes(stop.taken);
        let (rest, first, at) = self.machine.held.take_all();
        let end = (!taken.is_empty()).then_some(last);
        let place = self.end_of_text(turn, text.into(), end, first);
        self.rest(Piece { text: &rest, first, at });
        place
    }

    /// Continues a row after text has ended one of its texts, up to position `last`; the rest begins at `before`.
    fn end_of_text(
        &mut self,
        mut turn: Turn,
        within: Within,
        last: Option<u32>,
        before: u32,
    ) -> Place {
        let Some(text) = turn.text(self.bound) else { return Place::In(turn, within) };
        let row = turn.row(self.bound);
        let is_last = text.next >= row.rule.read.len();
        if is_last || turn.role != row.role {
            let id = turn.take_answers();
            let kind = EventKind::TurnEnd { reason: TurnReason::Stop, id };
            match last {
                Some(last) => self.out.emit(kind, None, last),
                None => self.out.emit_between(kind, before),
            }
        }
        if is_last {
            return self.leave(&turn).into();
        }
        let header = UncertainHeader::within(self.bound, turn.row, text.next);
        let place = Place::In(turn, within);
        if let Decision::Fits(fit) = header.header.decision(&header.held) {
            // Nothing more need come.
            return self.accept_header(place, header, &fit);
        }
        self.machine.uncertain = Some(Uncertain::header(header));
        place
    }

    /// Reads text that is written as JSON.
    pub(super) fn text_of_value(
        &mut self,
        turn: Turn,
        mut reader: Box<ValueReader>,
        piece: Piece<'_>,
    ) -> Place {
        let (taken, said, has_ended) = reader.push(piece.text);
        let value = piece.to(taken);
        self.emit_text(&turn, said, value.first, value.at);
        if !has_ended {
            return Place::In(turn, Within::Value(reader));
        }
        let place = self.end_of_text(turn, Within::Value(reader), None, piece.at);
        self.rest(piece.from(taken));
        place
    }

    /// Reads a control token that opens or closes reasoning, which goes with what comes next; other tokens return
    /// the place.
    pub(super) fn control_of_reasoning(
        &mut self,
        place: Place,
        id: TokenId,
    ) -> Result<Place, Place> {
        let (mut turn, text) = match place {
            Place::In(turn, Within::Text(text)) => (turn, Some(text)),
            Place::In(turn, Within::AfterCall) => (turn, None),
            place => return Err(place),
        };
        let within = text.map_or(Within::AfterCall, Within::Text);
        let Some(reasoning) = &turn.row(self.bound).rule.reasoning else {
            return Err(Place::In(turn, within));
        };
        let lead = text.and_then(|text| text.lead);
        let (opens, closes) =
            (reasoning.open.contains(&id), reasoning.text.closer.ids.contains(&id));
        // Ordinary text may spell a marker: it opens reasoning only where no content has come.
        let may_open = !Grammar::is_text_marker(id) || lead == Some(Lead::Begin) || text.is_none();
        let lead = match turn.is_thinking() {
            false if opens && may_open => {
                self.end_text(&turn, within, &Suffix::default());
                Lead::Open
            }
            true if closes => {
                self.end_text(&turn, within, &reasoning.text.closer.suffix);
                Lead::Close
            }
            true if opens && matches!(lead, Some(Lead::Open | Lead::Again)) => {
                self.machine.held.clear();
                self.out.mended(Some(Mended::Opener));
                Lead::Open
            }
            // Alone, ordinary text that spells a marker is text.
            false if closes && lead == Some(Lead::Begin) && !Grammar::is_text_marker(id) => {
                self.end_text(&turn, within, &Suffix::default());
                self.out.mended((!reasoning.closes_alone).then_some(Mended::Unopened));
                Lead::Close
            }
            _ => return Err(Place::In(turn, within)),
        };
        let way = reasoning.open.iter().position(|open| *open == id).unwrap_or_default() as u8;
        turn.reasoning = (lead == Lead::Open).then(|| Thinking { way, ..Thinking::default() });
        let text = text.unwrap_or_else(TextState::new);
        Ok(Place::In(turn, TextState { lead: Some(lead), line: super::Line::Start, ..text }.into()))
    }

    /// Reads a control token before or after the text of a turn, which another token closes; other tokens return the
    /// place.
    pub(super) fn control_of_block(&mut self, place: Place, id: TokenId) -> Result<Place, Place> {
        let Place::In(mut turn, Within::Text(text)) = place else { return Err(place) };
        let Some(block) = turn.row(self.bound).rule.block.as_ref().filter(|_| !turn.is_thinking())
        else {
            return Err(Place::In(turn, text.into()));
        };
        if block.open.contains(&id) && matches!(text.lead, Some(Lead::Begin | Lead::Close)) {
            // Nothing but white space has come.
            self.machine.held.clear();
            turn.has_block = true;
            let lead = (!block.before.is_empty()).then_some(Lead::Block);
            return Ok(Place::In(turn, TextState { lead, ..text }.into()));
        }
        // Ordinary text may spell a marker: it closes what such a marker opened.
        if block.close.contains(&id) && (turn.has_block || !Grammar::is_text_marker(id)) {
            self.end_turn_text(&turn, text.into());
            turn.has_block &= block.text.is_none();
            return Ok(Place::In(turn, Within::AfterCall));
        }
        Err(Place::In(turn, text.into()))
    }

    /// Whether a control token belongs to a call that is only drafted, within reasoning.
    pub(super) fn is_draft(&self, place: &Place, id: TokenId) -> bool {
        matches!(place, Place::In(turn, Within::Text(_) | Within::AfterCall) if turn.is_thinking())
            && self.machine.settings.in_reasoning == InReasoning::Text
            && self.bound.grammar().is_of_calls(id)
    }

    /// Reads the control token of a drafted call as text, its spelling.
    pub(super) fn draft(&mut self, mut place: Place, id: TokenId, piece: Piece<'_>) -> Place {
        if let Place::In(Turn { reasoning: Some(thinking), .. }, _) = &mut place
            && self.bound.grammar().opens_item(id)
            && !std::mem::replace(&mut thinking.has_draft, true)
        {
            self.flush_text(&mut place);
            if let Place::In(_, Within::Text(text)) = &mut place {
                text.lead = None;
            }
            self.out.mended(Some(Mended::Draft));
        }
        self.text_at(place, piece)
    }

    /// Ends the text of a turn that ends.
    pub(super) fn end_turn_text(&mut self, turn: &Turn, within: Within) {
        let closer = turn.closer(self.bound).filter(|_| !turn.is_thinking());
        let suffix = closer.map(|closer| closer.suffix.clone()).unwrap_or_default();
        self.drop_white_before_block(turn, &within);
        self.end_text(turn, within, &suffix);
    }

    /// Ends the text of a turn before a call.
    pub(super) fn end_text_before_call(&mut self, turn: &Turn, within: Within) {
        let closer = turn.closer(self.bound).filter(|_| !turn.is_thinking());
        let suffix = closer.map(|closer| closer.before_call.clone()).unwrap_or_default();
        self.drop_white_before_block(turn, &within);
        self.end_text(turn, within, &suffix);
    }

    /// Drops white space after reasoning if the format writes a token before the answer and that token has not come.
    fn drop_white_before_block(&mut self, turn: &Turn, within: &Within) {
        let block = turn.row(self.bound).rule.block.as_ref();
        if let Within::Text(TextState { lead: Some(Lead::Close), .. }) = within
            && block.is_some_and(|block| block.is_own)
            && self.machine.held.text().trim_ascii().is_empty()
        {
            self.machine.held.clear();
        }
    }

    /// Ends a text. Held text is the pattern's if it is all of `suffix`, and otherwise text.
    pub(super) fn end_text(&mut self, turn: &Turn, within: Within, suffix: &Suffix) {
        match within {
            Within::Text(text) => {
                if text.lead == Some(Lead::Again) {
                    let (white, first, at) = self.machine.held.take_all();
                    let piece = Piece { text: &white, first, at };
                    if !white.is_empty() {
                        self.text_until_suffix(turn, piece, turn.closer(self.bound));
                    }
                }
                // Held text that the lead's pattern may begin with is that pattern's first.
                let held = self.machine.held.text();
                let is_of = |lead| text_of_lead(self.bound, turn, lead).starts_with(held);
                if !text.lead.is_some_and(is_of) {
                    self.emit_before(turn, suffix);
                }
                // White space that may be the pattern's beside reasoning is the suffix where it ends the row.
                if !self.machine.held.is(suffix, false) {
                    let (text, first, at) = self.machine.held.take_all();
                    self.emit_text(turn, text, first, at);
                }
            }
            Within::Value(mut reader) => {
                let (text, at) = (reader.finish(), self.out.output.last());
                self.emit_text(turn, text, at, at);
            }
            _ => {}
        }
        self.machine.held.clear();
    }

    /// Emits held text that comes before the end of the pattern: it was held because it could have become
    /// something longer.
    fn emit_before(&mut self, turn: &Turn, suffix: &Suffix) {
        let (literal, held) = (&suffix.literal, &mut self.machine.held);
        let more = held.len().checked_sub(literal.len()).filter(|&more| more > 0);
        let Some(more) = more.filter(|_| !literal.is_empty() && !suffix.space) else { return };
        if held.text().ends_with(&**literal) {
            let (text, first, at) = held.take_bytes(more);
            self.emit_text(turn, text, first, at);
        }
    }

    /// Emits held text that did not become the pattern's. Held white space between turns or after a call is
    /// scaffolding.
    pub(super) fn flush_text(&mut self, place: &mut Place) {
        use super::calls::Call;
        match place {
            Place::In(_, Within::Call(Call::Object(call))) => {
                if let Some((kind, text, first)) = call.scanner.take_odd() {
                    let last = self.out.output.covered().max(first);
                    self.out.notice(kind, text, Some(first), last);
                }
            }
            Place::In(turn, Within::Value(reader)) => {
                let (text, at) = (reader.finish(), self.out.output.last());
                self.emit_text(turn, text, at, at);
            }
            // Held text is the pattern's, or is reported when the call ends.
            Place::In(_, Within::Call(Call::Arguments(_))) => {}
            place => {
                let (text, first, at) = self.machine.held.take_all();
                match place {
                    _ if text.is_empty() => {}
                    Place::In(turn, Within::Text(state)) => {
                        // The held white space is text, so what follows is text too.
                        state.lead = None;
                        self.emit_text(turn, text, first, at);
                    }
                    Place::In(turn, Within::Call(Call::Code(code))) => {
                        code.is_fresh = false;
                        self.delta(turn, text, first, at);
                    }
                    _ => {}
                }
            }
        }
    }
}
