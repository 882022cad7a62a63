//! State of a reader between two inputs: the place in the conversation, and a marker that is not certain yet.
//!
//! [`Place`] is one sum type, and each state has the data that is valid in it. A function that reads input takes
//! the place by value and returns the next place. Input that is left over goes to the front of the queue
//! ([`Reader::again`]), and the next place reads it.
//!
//! ```text
//! Outside ──header──▶ Text, Value ──call──▶ Call ──its end──▶ AfterCall, BetweenCalls ──text──▶ Text
//!    ▲                    │                                        │
//!    └────────────── the end of the turn ──────────────────────────┘        AfterFrame: in a split turn
//! ```
//!
//! While [`Uncertain`] input is held, the place is the one before it. What is held becomes a new place, or is
//! read again in the old one.

mod calls;
mod control;
mod drafts;
mod fast_path;
mod media;
mod mended_headers;
mod split_turns;
mod text;
mod turns;
mod uncertain;
mod unmarked_calls;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::num::NonZeroU32;

use super::header::HeldItem;
use super::output::{Emitter, Output};
use super::pending::Pending;
use super::value::ValueReader;
use crate::bound::Bound;
use crate::event::{Event, NoticeKind, Part, TurnReason};
use crate::format::{BareCalls, InReasoning};
use crate::grammar::{Closer, Grammar, Row, Text};
use crate::message::Role;
use crate::pattern::Field;
use crate::schema::ToolTypes;
use calls::Call;
use chatcodec_vocab::TokenId;
use control::Control;
pub(super) use fast_path::Run;
use media::MediaState;
use text::{Lead, Line, TextState};
use uncertain::{Uncertain, UncertainHeader};

/// Piece of text with the positions of its ids: `first` is where its first character began, all other
/// characters began at `at`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    pub(super) first: u32,
    pub(super) at: u32,
}

impl Piece<'_> {
    fn from(self, byte: usize) -> Self {
        let first = if byte == 0 { self.first } else { self.at };
        Self { text: &self.text[byte..], first, at: self.at }
    }

    fn to(self, byte: usize) -> Self {
        Self { text: &self.text[..byte], ..self }
    }

    fn held(self) -> HeldItem {
        HeldItem::Text { text: self.text.to_owned(), first: self.first, at: self.at }
    }
}

/// Place in the conversation, as far as it is certain.
#[derive(Debug, Clone)]
enum Place {
    /// Between turns.
    Outside(Outside),
    /// In a turn.
    In(Turn, Within),
}

/// Between turns.
#[derive(Debug, Clone, Copy, Default)]
struct Outside {
    /// Whether the prompt has opened the assistant's turn, whose start is then not emitted.
    is_prompted: bool,
    /// Whether a result has ended, and the message after it begins without a header.
    is_answered: bool,
}

/// Place in a turn.
#[derive(Debug, Clone)]
enum Within {
    /// In a text of the turn.
    Text(TextState),
    /// In a text of the turn that is written as JSON.
    Value(Box<ValueReader>),
    /// In a media part.
    Media(Box<MediaState>),
    /// In a call.
    Call(Call),
    /// Between two calls of a list, after a call of this item.
    BetweenCalls { item: usize },
    /// After a call.
    AfterCall,
    /// After a frame, in a message that continues in the next frame.
    AfterFrame {
        /// Whether the text that comes next was tried as a header, and is none.
        is_text: bool,
    },
}

/// Turn that is open.
#[derive(Debug, Clone)]
struct Turn {
    row: usize,
    /// Number of the text of the row.
    text: u16,
    role: Role,
    /// State of the reasoning that is open.
    reasoning: Option<Thinking>,
    /// Whether a token has opened its answer.
    has_block: bool,
    calls: Calls,
    /// Parts of the message that earlier frames had, as bits of their fields.
    frames: u16,
    /// Id of the call that the turn answers.
    answers: Option<Box<str>>,
}

/// Reasoning that is open.
#[derive(Debug, Clone, Copy, Default)]
struct Thinking {
    /// Which of the tokens that open reasoning opened it.
    way: u8,
    /// Whether a call has begun in it that is only drafted.
    has_draft: bool,
}

/// Calls of a turn.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_excessive_bools, reason = "they are true or not apart from each other")]
struct Calls {
    count: u32,
    /// Whether they are in a list that a control token closes.
    is_listed: bool,
    /// Whether they are in a fence, which closes them.
    is_fenced: bool,
    /// Whether text after a call has been reported.
    has_text_after: bool,
    /// Whether a control token was dropped from the text of the last call.
    lacks_token: bool,
}

impl Default for Place {
    fn default() -> Self {
        Self::Outside(Outside::default())
    }
}

impl From<Outside> for Place {
    fn from(outside: Outside) -> Self {
        Self::Outside(outside)
    }
}

impl Place {
    /// The turn that is open.
    fn turn(&self) -> Option<&Turn> {
        match self {
            Self::Outside(_) => None,
            Self::In(turn, _) => Some(turn),
        }
    }

    /// Whether the prompt has opened the assistant's turn.
    fn is_prompted(&self) -> bool {
        matches!(self, Self::Outside(outside) if outside.is_prompted)
    }
}

impl Outside {
    /// Row of the message that may begin here without a header, after a result.
    fn answer_row(self, grammar: &Grammar) -> Option<usize> {
        grammar.after_tool.filter(|_| self.is_answered)
    }
}

impl Turn {
    fn is_answer(&self) -> bool {
        self.role == Role::Assistant
    }

    fn is_thinking(&self) -> bool {
        self.reasoning.is_some()
    }

    fn row<'b>(&self, bound: &'b Bound) -> &'b Row {
        &bound.grammar().rows[self.row]
    }

    /// The text that is read.
    fn text<'b>(&self, bound: &'b Bound) -> Option<&'b Text> {
        let rule = &self.row(bound).rule;
        match &rule.reasoning {
            Some(reasoning) if self.is_thinking() => Some(&reasoning.text),
            _ if self.has_block => {
                let own = rule.block.as_ref().and_then(|block| block.text.as_ref());
                own.or_else(|| rule.texts.get(self.text as usize))
            }
            _ => rule.texts.get(self.text as usize),
        }
    }

    /// End of the text that is read.
    fn closer<'b>(&self, bound: &'b Bound) -> Option<&'b Closer> {
        self.text(bound).map(|text| &text.closer)
    }

    /// Part of the message that the text belongs to.
    fn part(&self, bound: &Bound) -> Part {
        match self.text(bound) {
            Some(text) if text.field == Field::Reasoning => Part::Reasoning,
            _ => Part::Text,
        }
    }

    /// Number of the last call.
    fn call_index(&self) -> u32 {
        self.calls.count.saturating_sub(1)
    }

    fn has_called(&self) -> bool {
        self.calls.count > 0
    }

    /// Takes the id of the call that the turn answers.
    fn take_answers(&mut self) -> Option<String> {
        self.answers.take().map(String::from)
    }
}

/// Options of a stream.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Types of the arguments of calls.
    types: Option<ToolTypes>,
    /// Where an unmarked call may begin.
    bare: BareCalls,
    /// Whether only unmarked calls in the format's own shape count.
    is_own_bare: bool,
    /// Meaning of a call within reasoning.
    pub(super) in_reasoning: InReasoning,
}

impl Settings {
    /// Whether unmarked calls are looked for in text of a turn.
    fn looks_for_calls(&self, turn: &Turn) -> bool {
        self.bare != BareCalls::Text
            && self.types.as_ref().is_some_and(|types| !types.is_empty())
            && turn.is_answer()
            && !turn.is_thinking()
    }
}

/// State of a reader between two inputs.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    place: Place,
    /// Input whose meaning is not certain yet.
    uncertain: Option<Uncertain>,
    /// Text that may be the pattern's own, or scaffolding.
    held: Pending,
    /// Role of the last turn.
    last: Option<Role>,
    /// Steps that are left, and one. The loader proves that reading ends; a format without that proof needs a bound.
    pub(super) fuel: Option<NonZeroU32>,
    pub(super) settings: Settings,
}

impl Machine {
    /// Before the first turn.
    pub(super) fn at_start(bound: &Bound) -> Self {
        Self {
            place: Place::default(),
            uncertain: None,
            held: Pending::default(),
            last: None,
            fuel: None,
            settings: Settings {
                types: None,
                bare: BareCalls::Text,
                is_own_bare: true,
                in_reasoning: bound.format().calls_in_reasoning(),
            },
        }
    }

    /// Ends the prompt: positions count from here.
    pub(super) fn after_prompt(&mut self, bound: &Bound, output: &mut Output) {
        let grammar = bound.grammar();
        if let Some(Uncertain::Opening(opening)) = &mut self.uncertain {
            opening.after_prompt();
        }
        // A call that the prompt's reasoning leaves open is drafted.
        let draft = self.uncertain.take_if(|uncertain| matches!(uncertain, Uncertain::Draft(_)));
        if let (Some(_), Place::In(Turn { reasoning: Some(thinking), .. }, Within::Text(text))) =
            (draft, &mut self.place)
        {
            thinking.has_draft = true;
            text.lead = None;
        }
        match (&mut self.uncertain, &mut self.place) {
            (Some(Uncertain::Header(header)), place)
                if header.held.is(&grammar.generation_prompt) =>
            {
                header.header.keep_assistants(grammar);
                // The turn before the prompt has ended, if no event has said so yet.
                *place = match place {
                    Place::Outside(outside) => Outside { is_prompted: true, ..*outside }.into(),
                    Place::In(..) => Outside { is_prompted: true, is_answered: false }.into(),
                };
                self.held.clear();
            }
            // A turn that begins without a prompt.
            (uncertain @ None, Place::Outside(outside)) if grammar.begins_answer_with_text() => {
                self.held.clear();
                outside.is_prompted = true;
                *uncertain = Some(Uncertain::header(UncertainHeader::answer(bound)));
            }
            // The held end of a text that the prompt left open belongs to the prompt.
            (None, Place::In(turn, Within::Text(text)))
                if matches!(text.lead, None | Some(Lead::Again)) =>
            {
                self.held.clear();
                text.lead = turn.is_thinking().then_some(Lead::Again);
            }
            _ => {}
        }
        let resumed = match &self.place {
            Place::In(turn, Within::Call(call)) => Some(call.start(turn.call_index())),
            _ => None,
        };
        output.after_prompt(resumed);
    }

    /// Whether a result has ended, and the message after it begins without a header.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.place, Place::Outside(outside) if outside.is_answered)
            && self.uncertain.is_none()
    }

    /// Sets the types of the arguments of calls, from here on.
    pub(super) fn read_by(&mut self, types: &ToolTypes) {
        if let Place::In(_, Within::Call(Call::Arguments(call))) = &mut self.place {
            call.body.read_by(types.of(&call.name));
        }
        self.settings.types = Some(types.clone());
    }

    /// The types of arguments that were set.
    pub(super) fn types(&self) -> Option<&ToolTypes> {
        self.settings.types.as_ref()
    }

    /// Sets where an unmarked call may begin, from here on.
    pub(super) fn call_bare(&mut self, bare: BareCalls, is_own: bool) {
        (self.settings.bare, self.settings.is_own_bare) = (bare, is_own);
    }
}

/// Reader of input: the machine at work.
pub(super) struct Reader<'a> {
    bound: &'a Bound,
    machine: &'a mut Machine,
    out: Emitter<'a>,
    /// Input to read next: held items that began no marker come here again.
    queue: VecDeque<HeldItem>,
    /// Whether the stream has ended: a token that ends it may be missing.
    is_finishing: bool,
    /// Whether more input may come.
    may_wait: bool,
    /// Whether held calls in reasoning are read as reasoning.
    is_settling: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        bound: &'a Bound,
        machine: &'a mut Machine,
        output: &'a mut Output,
        events: &'a mut Vec<Event>,
    ) -> Self {
        let out = Emitter { output, events };
        Self {
            bound,
            machine,
            out,
            queue: VecDeque::new(),
            is_finishing: false,
            may_wait: true,
            is_settling: false,
        }
    }

    /// Emits text of a turn.
    fn emit_text<'t>(&mut self, turn: &Turn, text: impl Into<Cow<'t, str>>, first: u32, at: u32) {
        let text = text.into();
        if !text.is_empty() {
            self.out.part(turn.part(self.bound), text, first, at);
        }
    }

    fn spelling(&self, id: TokenId) -> String {
        self.bound.vocab().spelling(id).to_owned()
    }

    /// Reads an item.
    pub(super) fn input(&mut self, item: HeldItem) {
        self.queue.push_back(item);
        self.drain();
    }

    /// Reads text.
    pub(super) fn text(&mut self, piece: Piece<'_>) {
        if self.machine.uncertain.is_some() {
            return self.input(piece.held());
        }
        let place = std::mem::take(&mut self.machine.place);
        self.machine.place = self.text_at(place, piece);
        if !self.queue.is_empty() {
            self.drain();
        }
    }

    fn drain(&mut self) {
        while let Some(item) = self.queue.pop_front() {
            if let Some(fuel) = &mut self.machine.fuel {
                match NonZeroU32::new(fuel.get() - 1) {
                    Some(left) => *fuel = left,
                    None => return self.queue.clear(),
                }
            }
            let place = std::mem::take(&mut self.machine.place);
            self.machine.place = match self.machine.uncertain.take() {
                Some(uncertain) => self.uncertain(place, uncertain, item),
                None => self.item(place, item),
            };
        }
    }

    fn item(&mut self, place: Place, item: HeldItem) -> Place {
        match item {
            HeldItem::Text { text, first, at } => {
                self.text_at(place, Piece { text: &text, first, at })
            }
            HeldItem::Control { id, first, at, spelled } => {
                self.control(place, Control { id, first, at, spelled })
            }
            HeldItem::Unknown { text, at } => {
                let place = self.settle_media(place);
                let mut place = self.flush_after_call(place);
                self.flush_text(&mut place);
                self.out.notice(NoticeKind::UnknownId, text, None, at);
                place
            }
        }
    }

    /// Reads items before the queue.
    fn again(&mut self, items: Vec<HeldItem>) {
        for item in items.into_iter().rev() {
            self.queue.push_front(item);
        }
    }

    /// Reads the rest of a piece next.
    fn rest(&mut self, piece: Piece<'_>) {
        if !piece.text.is_empty() {
            self.queue.push_front(piece.held());
        }
    }

    /// Reads text at a place.
    fn text_at(&mut self, place: Place, piece: Piece<'_>) -> Place {
        match place {
            Place::Outside(outside) => self.text_outside(outside, piece),
            Place::In(turn, within) => {
                self.out.output.in_run |= !piece.text.is_empty();
                self.text_in(turn, within, piece)
            }
        }
    }

    /// Reads text in a turn.
    fn text_in(&mut self, turn: Turn, within: Within, piece: Piece<'_>) -> Place {
        match within {
            Within::Text(text) => self.text_of_turn(turn, text, piece),
            Within::Value(reader) => self.text_of_value(turn, reader, piece),
            Within::Media(media) => self.text_of_media(turn, media, piece),
            Within::Call(call) => self.text_of_call(turn, call, piece),
            Within::BetweenCalls { item } => self.text_between(turn, item, piece),
            Within::AfterCall => self.text_after_call(turn, piece),
            Within::AfterFrame { is_text } => self.text_after_frame(turn, is_text, piece),
        }
    }

    /// Ends the stream before position `index`. With `is_open`, a turn that no token has closed goes on: what
    /// comes before its closing token has not come.
    pub(super) fn finish(&mut self, reason: TurnReason, index: u32, is_open: bool) {
        self.may_wait = false;
        while let Some(uncertain) = self.machine.uncertain.take() {
            let mut place = std::mem::take(&mut self.machine.place);
            if let (Uncertain::Draft(draft), TurnReason::Stop) = (&uncertain, reason) {
                let end = |reader: &mut Self| reader.finish(reason, index, is_open);
                place = match self.settle(place, draft, end) {
                    Ok(place) => {
                        self.machine.place = place;
                        return;
                    }
                    Err(place) => place,
                };
            }
            let is_cut = reason != TurnReason::Stop;
            self.machine.place = self.finish_uncertain(place, uncertain, is_cut);
            self.drain();
        }
        let place = std::mem::take(&mut self.machine.place);
        let place = self.settle_media(place);
        let Place::In(turn, within) = self.flush_after_call(place) else {
            if self.out.output.covered() < index {
                let (text, ..) = self.machine.held.take_all();
                self.out.notice(NoticeKind::Trailing, text, None, index.saturating_sub(1));
            }
            return;
        };
        self.is_finishing = true;
        let is_cut = reason != TurnReason::Stop;
        // Where the next turn closes one, its end is written with it, or never.
        let has_end = || turn.row(self.bound).rule.closer().is_some_and(|closer| !closer.opener);
        let goes_on = is_cut || is_open && has_end();
        self.machine.place = self.finish_turn(turn, within, reason, index, goes_on).into();
    }
}
