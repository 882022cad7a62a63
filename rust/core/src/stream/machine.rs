//! The machine itself: where the reader stands, and what each id does to it.

mod actions;
mod mended_headers;
mod split_turns;
mod tentative;
mod turns;
mod unmarked_calls;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use super::header::HeldItem;
use super::pending::Pending;
use super::spelled::Spelled;
use super::value::ValueReader;
use super::{FIRST, PROMPT};
use crate::bound::Bound;
use crate::call::{ArgumentsReader, CallScanner, Ended, Mended, ToolTypes};
use crate::event::{ActionKind, Event, EventKind, NoticeKind, Part, TurnReason};
use crate::format::{BareCalls, InReasoning};
use crate::grammar::{Closer, Row, Text};
use crate::message::Role;
use crate::pattern::Field;
use chatcodec_vocab::TokenId;
use tentative::{Phase, Tentative};

/// A piece of text with the positions of the ids it came from: `first` is where its first character
/// began, all others began at `at`.
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

/// Where the reader stands, of what is certain.
#[derive(Debug, Clone)]
enum Place {
    /// Between turns.
    Outside,
    /// In a text of a turn.
    Text,
    /// In a text of a turn that is written as JSON.
    Value(Box<ValueReader>),
    /// In the code of an action: which way of writing it, the language, and whether none of the code has
    /// been told.
    Source { item: usize, language: Option<String>, fresh: bool },
    /// In the JSON object of an action.
    Call { item: usize, scanner: Box<CallScanner>, name: Option<String> },
    /// In the arguments of an action whose header has its name.
    Arguments { item: usize, body: Box<dyn ArgumentsReader>, name: String, id: Option<Box<str>> },
    /// Between two actions of a list.
    Between { item: usize },
    /// After an action, in its turn.
    AfterAction,
    /// After a frame, in the message that goes on in the next.
    AfterFrame,
}

/// A turn that is open.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "each says another thing about the turn")]
struct Turn {
    row: usize,
    /// Which text of the row is being read.
    text: u32,
    role: Role,
    actions: u32,
    /// Whether text after an action has been told.
    told: bool,
    /// Whether the text that it begins with has been found to be no header: it ends no turn.
    refused: bool,
    /// Whether it is reasoning that is being read.
    thinking: bool,
    /// Whether that has a call in it, which has been told.
    drafted: bool,
    /// Which parts of the message frames have told, as bits of their fields.
    framed: u16,
}

/// What may come next before text: text of the pattern beside reasoning, or a call that begins with text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// Nothing: none of the text has come.
    Begin,
    /// What stands after the token that opens it.
    Open,
    /// What stands after the token that closes it.
    Close,
    /// The token that opens reasoning once more, after white space or a prompt.
    Again,
    /// A call, or the text itself.
    Call,
}

impl Turn {
    /// The text that is being read.
    fn text_of(self, bound: &Bound) -> Option<&Text> {
        let rule = &bound.grammar().rows[self.row].rule;
        match &rule.reasoning {
            Some(reasoning) if self.thinking => Some(&reasoning.text),
            _ => rule.texts.get(self.text as usize),
        }
    }
}

#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each says another thing about what comes next")]
pub(super) struct Machine {
    place: Place,
    turn: Option<Turn>,
    tentative: Option<Box<Tentative>>,
    pending: Pending,
    /// Whose turn came last.
    last: Option<Role>,
    /// The prompt has opened the assistant's turn, if not all of its header: no start is told.
    promised: bool,
    /// Whether a result has ended, and the message that follows it may begin, which has no header.
    answered: bool,
    /// Whether what is tentative goes on in the row of the open turn.
    within: bool,
    /// Whether text has come since the last control token.
    in_run: bool,
    /// Positions are of characters, not of ids.
    pub(super) by_text: bool,
    /// Whether the text that comes next may begin with a dummy prefix.
    prefixed: bool,
    /// The text that comes next may begin with the pattern's.
    lead: Option<Lead>,
    /// Ids before this position are in the range of some event.
    covered: u32,
    /// Where the last event began: none begins before it, nor in the prompt.
    started: u32,
    /// The id of the call that the open turn answers.
    answers: Option<Box<str>>,
    /// What the arguments of calls are.
    types: Option<ToolTypes>,
    /// An action that the prompt left open, told again when the stream begins.
    resumed: Option<Box<EventKind>>,
    /// Whether calls stand in a list that a control token closes.
    listed: bool,
    /// Whether nothing more comes.
    finishing: bool,
    /// Whether the text that comes next has been found to be no header.
    is_text: bool,
    /// Where a call may begin that nothing marks as one.
    bare: BareCalls,
    /// Whether only a call that is the format's own, but for what marks it.
    is_own_bare: bool,
    /// Whether a fence closes the call that nothing marks.
    fenced: bool,
    /// Where in a line of its text the turn is.
    line: Line,
    /// What of the call that begins next is not there.
    missing: Option<Mended>,
}

/// Where in a line text goes on, as far as a call matters that may begin there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// At its beginning, or after white space there.
    Start,
    Within,
    /// Where no call begins, as is known already.
    Tried,
}

impl Line {
    /// After a byte.
    fn after(self, byte: u8) -> Self {
        match byte {
            b'\n' => Self::Start,
            b' ' | b'\t' if self == Self::Start => Self::Start,
            _ => Self::Within,
        }
    }
}

/// The machine at work: what it reads with and what it tells.
pub(super) struct Reader<'a> {
    pub(super) bound: &'a Bound,
    pub(super) machine: &'a mut Machine,
    pub(super) out: &'a mut Vec<Event>,
    /// What a call within reasoning is.
    in_reasoning: InReasoning,
    /// What is to be read next: held items whose marker was none come here again.
    queue: VecDeque<HeldItem>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        bound: &'a Bound,
        machine: &'a mut Machine,
        in_reasoning: InReasoning,
        out: &'a mut Vec<Event>,
    ) -> Self {
        Self { bound, machine, out, in_reasoning, queue: VecDeque::new() }
    }
}

impl Machine {
    /// Between turns, before any.
    pub(super) fn at_start() -> Self {
        Self {
            place: Place::Outside,
            turn: None,
            tentative: None,
            pending: Pending::default(),
            last: None,
            promised: false,
            answered: false,
            within: false,
            in_run: false,
            by_text: false,
            prefixed: false,
            lead: None,
            covered: FIRST,
            started: FIRST,
            answers: None,
            types: None,
            resumed: None,
            listed: false,
            finishing: false,
            is_text: false,
            bare: BareCalls::Text,
            is_own_bare: true,
            fenced: false,
            line: Line::Start,
            missing: None,
        }
    }

    /// The prompt has been read: positions count from here.
    pub(super) fn after_prompt(&mut self, bound: &Bound) {
        (self.started, self.covered) = (FIRST, FIRST);
        if let Some(Tentative { phase: Phase::Opening(opening), held, .. }) =
            self.tentative.as_deref_mut()
        {
            opening.after_prompt(held);
        }
        match (self.tentative.as_deref_mut(), &self.place) {
            (Some(Tentative { phase: Phase::Header(header), held, .. }), _)
                if held.is(&bound.grammar().generation_prompt) =>
            {
                header.keep_assistants(bound.grammar());
                // The turn before it has ended, if nothing has told so yet.
                (self.turn, self.place) = (None, Place::Outside);
                self.pending.clear();
                self.promised = true;
            }
            // A turn that begins without a prompt.
            (None, Place::Outside) if bound.grammar().begins_answer_with_text() => {
                self.pending.clear();
                self.promised = true;
                self.tentative = Some(Box::new(Tentative::answer(bound)));
            }
            // What is held of a text that the prompt left open has been told with the prompt.
            (None, Place::Text) if matches!(self.lead, None | Some(Lead::Again)) => {
                self.pending.clear();
                self.lead = self.turn.filter(|turn| turn.thinking).map(|_| Lead::Again);
            }
            _ => {}
        }
        self.resume();
    }

    /// Whether a result has ended, and the message that follows it may begin.
    pub(super) fn is_answered(&self) -> bool {
        self.answered && self.tentative.is_none()
    }

    /// What tools say of the arguments of calls, from here on.
    pub(super) fn read_by(&mut self, types: &ToolTypes) {
        if let Place::Arguments { body, name, .. } = &mut self.place {
            body.read_by(types.of(name));
        }
        self.types = Some(types.clone());
    }

    /// Where a call may begin that nothing marks as one, from here on.
    pub(super) fn call_bare(&mut self, bare: BareCalls, is_own: bool) {
        (self.bare, self.is_own_bare) = (bare, is_own);
    }

    /// Whether calls are looked for in the text that comes next.
    fn looks_for_calls(&self) -> bool {
        self.bare != BareCalls::Text
            && self.types.as_ref().is_some_and(|types| !types.is_empty())
            && self.turn.is_some_and(|turn| turn.role == Role::Assistant && !turn.thinking)
    }

    /// Whether a call may begin in a text of the turn, or after it.
    fn may_call(&self, bound: &Bound, text: &str) -> bool {
        let is_anywhere = self.bare == BareCalls::Anywhere;
        let may_begin =
            |byte: u8| byte == b'\n' || is_anywhere && bound.grammar().may_be_bare(byte);
        self.looks_for_calls() && (self.line != Line::Within || text.bytes().any(may_begin))
    }

    /// What comes is text that no ids are known of.
    pub(super) fn read_text(&mut self) {
        self.by_text = true;
    }

    /// An action that is to be told before anything else.
    pub(super) fn take_resumed(&mut self) -> Option<Event> {
        self.resumed.take().map(|kind| Event { kind: *kind, tokens: 0..0 })
    }

    /// After a prompt: tells an action that the prompt left open once more.
    fn resume(&mut self) {
        let index = self.action_index();
        let (kind, name) = match &self.place {
            Place::Source { language, .. } => (ActionKind::Code, language.clone()),
            Place::Call { name, .. } => (ActionKind::Function, name.clone()),
            Place::Arguments { name, .. } => (ActionKind::Function, Some(name.clone())),
            _ => return,
        };
        let id = match &self.place {
            Place::Arguments { id, .. } => id.as_deref().map(str::to_owned),
            _ => None,
        };
        self.resumed = Some(Box::new(EventKind::ActionStart { index, kind, name, id }));
    }

    /// Takes the text of a token, if all that it does is to be told. What it does otherwise
    /// needs a [`Reader`].
    #[inline]
    pub(super) fn pass(&mut self, bound: &Bound, text: &str) -> bool {
        if self.is_busy() {
            return false;
        }
        let passes = |closer: Option<&Closer>| closer.is_some_and(|closer| closer.passes(text));
        let begins_text = self.begins_text() || self.may_call(bound, text);
        let is_plain = match (&mut self.place, self.turn) {
            (Place::Text, Some(turn)) if !begins_text => {
                passes(turn.text_of(bound).map(|text| &text.closer))
            }
            (Place::Source { item, fresh: false, .. }, _) => {
                passes(bound.grammar().items[*item].rule.closer())
            }
            (Place::Call { scanner, .. }, _) => scanner.push_arguments(text),
            (Place::Arguments { body, .. }, _) => body.take_same(text),
            _ => false,
        };
        self.in_run |= is_plain;
        is_plain
    }

    /// Where text of the turn comes next and nothing is held: what it is part of, and what ends it.
    pub(super) fn in_text<'c>(&self, bound: &'c Bound) -> Option<(Part, &'c Closer)> {
        let goes_on = !self.is_busy() && !self.begins_text() && !self.looks_for_calls();
        let is_text = matches!(self.place, Place::Text) && goes_on;
        let text = self.turn.filter(|_| is_text)?.text_of(bound)?;
        let is_reasoning = text.field == Field::Reasoning;
        Some((if is_reasoning { Part::Reasoning } else { Part::Text }, &text.closer))
    }

    /// Text has been told.
    pub(super) fn passed(&mut self) {
        self.in_run = true;
    }

    /// Whether what comes next may do more than go on.
    fn is_busy(&self) -> bool {
        self.tentative.is_some() || self.resumed.is_some() || !self.pending.is_empty()
    }

    /// Whether the text of the turn that comes next may begin with what is none of it.
    fn begins_text(&self) -> bool {
        self.prefixed || self.lead.is_some()
    }

    /// What the text of the turn is part of that comes now.
    fn part_of_turn(&self, bound: &Bound) -> Part {
        match self.turn.and_then(|turn| turn.text_of(bound)) {
            Some(text) if text.field == Field::Reasoning => Part::Reasoning,
            _ => Part::Text,
        }
    }

    /// What the text is part of that comes now.
    pub(super) fn part(&self, bound: &Bound) -> Part {
        match self.place {
            Place::Source { .. } | Place::Call { .. } | Place::Arguments { .. } => {
                Part::Action(self.action_index())
            }
            _ => self.part_of_turn(bound),
        }
    }

    fn action_index(&self) -> u32 {
        self.turn.map_or(0, |turn| turn.actions.saturating_sub(1))
    }

    /// The range of text that began at `first` and ends at `last`: ids that no event has told yet go with it,
    /// of those told already at most the last.
    pub(super) fn cover(&mut self, first: Option<u32>, last: u32) -> Range<u32> {
        let covered = self.covered;
        let start = first.map_or(covered, |first| first.clamp(covered - FIRST, covered));
        self.cover_until(start, covered.max(last.saturating_add(1)))
    }

    fn cover_until(&mut self, start: u32, end: u32) -> Range<u32> {
        let start = start.max(self.started);
        (self.started, self.covered) = (start, end);
        start - FIRST..end - FIRST
    }
}

impl<'a> Reader<'a> {
    /// Tells an event that ends at position `last`; `first` is where it begins, if ids of its own are known.
    fn tell(&mut self, kind: EventKind, first: Option<u32>, last: u32) {
        let tokens = self.machine.cover(first, last);
        self.out.push(Event { kind, tokens });
    }

    /// Tells an event that has no ids of its own: it is there because of what comes next.
    fn tell_between(&mut self, kind: EventKind, before: u32) {
        let covered = self.machine.covered;
        let tokens = self.machine.cover_until(covered, covered.max(before));
        self.out.push(Event { kind, tokens });
    }

    /// Tells text of the turn, or of the action that is open, joined to what was told of it just before.
    fn tell_part(&mut self, part: Part, text: Cow<'_, str>, first: u32, at: u32) {
        let tokens = self.machine.cover(Some(first), at);
        Event::append_text(self.out, part, text, tokens);
    }

    fn tell_text<'t>(&mut self, text: impl Into<Cow<'t, str>>, first: u32, at: u32) {
        let text = text.into();
        if !text.is_empty() {
            let part = self.machine.part_of_turn(self.bound);
            self.tell_part(part, text, first, at);
        }
    }

    fn notice(&mut self, kind: NoticeKind, text: String, first: Option<u32>, at: u32) {
        self.tell(EventKind::Notice { kind, text }, first, at);
    }

    fn row(&self) -> Option<&'a Row> {
        let bound = self.bound;
        self.machine.turn.map(|turn| &bound.grammar().rows[turn.row])
    }

    /// The text of the turn that is open.
    fn turn_text(&self) -> Option<&'a Text> {
        self.machine.turn?.text_of(self.bound)
    }

    fn closer(&self) -> Option<&'a Closer> {
        self.turn_text().map(|text| &text.closer)
    }

    fn spelling(&self, id: TokenId) -> String {
        self.bound.vocab().spelling(id).to_owned()
    }

    // Input: first what is tentative, then the place.

    pub(super) fn input(&mut self, item: HeldItem) {
        self.queue.push_back(item);
        self.drain();
    }

    pub(super) fn text(&mut self, piece: Piece<'_>) {
        if self.machine.tentative.is_some() {
            return self.input(piece.held());
        }
        self.text_of_place(piece);
        if !self.queue.is_empty() {
            self.drain();
        }
    }

    fn drain(&mut self) {
        while let Some(item) = self.queue.pop_front() {
            if self.machine.tentative.is_some() {
                self.tentative(item);
                continue;
            }
            match item {
                HeldItem::Text { text, first, at } => {
                    self.text_of_place(Piece { text: &text, first, at });
                }
                HeldItem::Control { id, at, spelled } => self.control(id, at, spelled),
                HeldItem::Unknown { text, at } => self.unknown(text, at),
            }
        }
    }

    /// Reads items before what is queued already.
    fn again(&mut self, items: Vec<HeldItem>) {
        for item in items.into_iter().rev() {
            self.queue.push_front(item);
        }
    }

    /// Reads the rest of a piece in the place that has been reached.
    fn rest(&mut self, piece: Piece<'_>) {
        if !piece.text.is_empty() {
            self.again(vec![piece.held()]);
        }
    }

    fn text_of_place(&mut self, piece: Piece<'_>) {
        self.machine.in_run |=
            !piece.text.is_empty() && !matches!(self.machine.place, Place::Outside);
        match &self.machine.place {
            Place::Outside => self.text_outside(piece),
            Place::Text => self.text_of_turn(piece),
            Place::Value(_) => self.text_of_value(piece),
            Place::Source { .. } => self.text_of_source(piece),
            Place::Call { .. } => self.text_of_call(piece),
            Place::Arguments { .. } => self.text_of_arguments(piece),
            Place::Between { .. } => self.text_between(piece),
            Place::AfterAction => self.text_after_action(piece),
            Place::AfterFrame => self.text_after_frame(piece),
        }
    }

    // Control tokens.

    fn control(&mut self, id: TokenId, at: u32, spelled: Option<Box<Spelled>>) {
        let first = spelled.as_deref().map_or(at, |spelled| spelled.first);
        if let Some(spelled) = spelled.as_deref()
            && self.is_quoted()
        {
            return self.text_of_place(Piece { text: &spelled.text, first, at });
        }
        if self.is_draft(id) {
            let text = spelled.map_or_else(|| self.spelling(id), |spelled| spelled.text);
            return self.draft(id, Piece { text: &text, first, at });
        }
        self.machine.in_run = false;
        self.flush_after_call();
        if self.control_of_arguments(id, at) {
            return;
        }
        let grammar = self.bound.grammar();
        let is_answer = self.machine.turn.is_none_or(|turn| turn.role == Role::Assistant);
        let opens_turn = grammar.opens_turn(id);
        if opens_turn || (grammar.opens_item(id) && is_answer) {
            if opens_turn
                && self.machine.turn.is_some()
                && is_answer
                && grammar.stops(id)
                && spelled.is_none()
            {
                // The model stops where it begins another's turn.
                self.close_turn(at, at);
            }
            self.machine.tentative = Some(Box::new(Tentative::opened(self.bound)));
            return self.again(vec![HeldItem::Control { id, at, spelled }]);
        }
        match &self.machine.place {
            Place::Source { item, .. }
            | Place::Call { item, .. }
            | Place::Arguments { item, .. }
                if grammar.closes_item(*item, id)
                    || (grammar.has_brackets() && grammar.closes_calls(id)) =>
            {
                self.machine.listed &= !grammar.closes_calls(id);
                return self.end_action(at, Ended::Closed);
            }
            Place::Call { .. } | Place::Arguments { .. } if grammar.closes_calls(id) => {
                self.machine.listed = false;
                return self.end_action(at, Ended::Stopped);
            }
            Place::Outside => {
                self.machine.pending.clear();
                let is_answered = self.machine.last == Some(Role::Tool);
                // An answer after results that have been closed may be empty.
                let closes_results =
                    is_answered && !self.machine.answered && grammar.closes_results(id);
                if (grammar.begins(id) && self.machine.last.is_none())
                    || grammar.ends(id)
                    || closes_results
                    || is_answered && grammar.parts_results(id)
                {
                    self.machine.answered |= closes_results && grammar.after_tool.is_some();
                    return;
                }
                if self.open_reasoning(id, at) {
                    return;
                }
                if self.open_empty(id, at) {
                    return self.close_turn(first, at);
                }
            }
            _ => {}
        }
        if is_answer && self.reasoning(id) {
            return;
        }
        if self.closes_calls(id, at) {
            return;
        }
        if !is_answer && matches!(self.machine.place, Place::Text) && grammar.is_spelled(id) {
            let text = self.spelling(id);
            return self.text_of_turn(Piece { text: &text, first: at, at });
        }
        if is_answer && self.begins_header(id) {
            self.machine.tentative = Some(Box::new(Tentative::opened(self.bound)));
            return self.again(vec![HeldItem::Control { id, at, spelled }]);
        }
        if self.is_ended_between(id) {
            return self.close_between(id, first, at);
        }
        let last = self.row().and_then(|row| row.rule.closer());
        let mut ends = self.closer().into_iter().chain(last);
        let closes = ends.any(|closer| closer.ids.contains(&id));
        let stops = is_answer && self.machine.turn.is_some() && grammar.stops(id);
        if closes && !stops && self.is_in_frame() {
            return self.end_frame();
        }
        if stops || closes && !matches!(self.machine.place, Place::AfterFrame) {
            return self.close_turn(first, at);
        }
        if let Some(spelled) = spelled {
            self.notice_quoted(NoticeKind::UnexpectedControl);
            return self.text_of_place(Piece { text: &spelled.text, first, at });
        }
        self.flush_text();
        let spelling = self.spelling(id);
        self.notice(NoticeKind::UnexpectedControl, spelling, None, at);
    }

    fn close_between(&mut self, id: TokenId, first: u32, at: u32) {
        self.close_turn(first, at);
        let grammar = self.bound.grammar();
        self.machine.answered |= grammar.closes_results(id) && grammar.after_tool.is_some();
    }

    /// Whether a control token that stands between turns ends one that none of its own closes.
    fn is_ended_between(&self, id: TokenId) -> bool {
        let grammar = self.bound.grammar();
        let closer = self.row().and_then(|row| row.rule.closer());
        let is_result = self.machine.turn.is_some_and(|turn| turn.role == Role::Tool);
        let is_around = grammar.closes_results(id) || grammar.parts_results(id);
        closer.is_some_and(|closer| closer.ids.is_empty())
            && (grammar.ends(id) || is_result && is_around)
    }

    /// Whether a control token that is spelled here is part of what is being read: in a string, or in code
    /// that has an end of its own.
    fn is_quoted(&self) -> bool {
        match &self.machine.place {
            Place::Value(reader) => reader.is_in_string(),
            Place::Call { scanner, .. } => scanner.is_in_string(),
            Place::Arguments { body, .. } => body.is_in_string(),
            Place::Source { item, fresh, .. } => {
                let closer = self.bound.grammar().items[*item].rule.closer();
                let suffix = closer.map(|closer| &closer.suffix);
                suffix.is_some_and(|suffix| {
                    !suffix.literal.is_empty() && !self.machine.pending.is(suffix, *fresh)
                })
            }
            _ => false,
        }
    }

    /// A control token that is spelled where it means nothing is text, which is told by itself.
    fn notice_quoted(&mut self, kind: NoticeKind) {
        let text = String::new();
        self.tell_between(EventKind::Notice { kind, text }, PROMPT);
    }

    fn unknown(&mut self, text: String, at: u32) {
        self.flush_after_call();
        self.flush_text();
        self.notice(NoticeKind::UnknownId, text, None, at);
    }

    // The end.

    pub(super) fn finish(&mut self, reason: TurnReason, index: u32) {
        while let Some(tentative) = self.machine.tentative.as_deref_mut() {
            match &mut tentative.phase {
                Phase::Header(header) if header.is_blank() => self.drop_blank(),
                Phase::Header(header) => {
                    let decision = header.finish();
                    let is_told = tentative.held.bounds().1 < self.machine.covered;
                    if is_told && tentative.held.is_stop(self.bound.grammar()) {
                        // The turn that it stops has ended.
                        self.machine.tentative = None;
                        return self.finish(reason, index);
                    }
                    let is_stop = tentative.held.is_one()
                        && tentative
                            .held
                            .spelled()
                            .is_some_and(|id| self.bound.grammar().stops(id));
                    if is_stop && self.machine.turn.is_some_and(|t| t.role == Role::Assistant) {
                        let (first, at) = tentative.held.bounds();
                        self.machine.tentative = None;
                        return self.close_turn(first, at);
                    }
                    let is_prompt = !self.machine.promised
                        && !self.bound.generation_prompt().is_empty()
                        && tentative.held.is(&self.bound.grammar().generation_prompt);
                    if is_prompt {
                        self.open_prompted();
                    } else {
                        self.decide(decision);
                    }
                }
                Phase::Call { scanner, .. } if scanner.has_arguments() => self.confirm_call(None),
                Phase::Call { .. } => self.reject(),
                Phase::Opening(_) => self.no_call(),
            }
            self.drain();
        }
        self.flush_after_call();
        let last = index.saturating_sub(1);
        if self.machine.turn.is_some() {
            let is_stop = reason == TurnReason::Stop;
            let ended = if is_stop { self.ended_by_next() } else { Ended::Cut };
            (self.machine.listed, self.machine.finishing) = (false, true);
            self.end_action(self.machine.covered.saturating_sub(1), ended);
            self.end_turn_text();
            self.end_list();
            let reason = match reason {
                TurnReason::Stop if self.has_called() => TurnReason::Action,
                reason => reason,
            };
            let id = self.answers();
            self.tell_between(EventKind::TurnEnd { reason, id }, index);
            self.leave();
        } else if self.machine.covered < index {
            let (text, ..) = self.machine.pending.take_all();
            self.notice(NoticeKind::Trailing, text, None, last);
        }
    }

    /// Whether there is a call in the turn, whatever came after it.
    fn has_called(&self) -> bool {
        self.machine.turn.is_some_and(|turn| turn.actions > 0)
    }

    fn has_acted(&self) -> bool {
        matches!(self.machine.place, Place::AfterAction | Place::Between { .. })
    }

    fn end_action_before(&mut self, opener: u32) {
        let ended = self.ended_by_next();
        match opener.checked_sub(1) {
            Some(last) => self.end_action(last.max(self.machine.covered.saturating_sub(1)), ended),
            None => self.end_action(PROMPT, ended),
        }
    }
}
