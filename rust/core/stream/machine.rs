//! The machine itself: where the reader stands, and what each id does to it.

mod tentative;

use std::collections::VecDeque;

use super::header::{Header, Held, HeldItem};
use super::pending::Pending;
use super::{FIRST, PROMPT};
use crate::action::{CallScanner, Step};
use crate::codec::Codec;
use crate::event::{ActionKind, Event, EventKind, NoticeKind, TurnReason};
use crate::format::grammar::Row;
use crate::vocab::TokenId;
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
}

/// Where the reader stands, of what is certain.
#[derive(Debug, Clone)]
enum Place {
    /// Between turns.
    Outside,
    /// In the text of a turn.
    Text,
    /// In the code of an action: which way of writing it, the language, and whether none of the code has
    /// been told.
    Source { item: usize, language: Option<String>, fresh: bool },
    /// In the JSON object of an action.
    Call { item: usize, scanner: CallScanner, name: Option<String> },
    /// After an action, in its turn.
    AfterAction,
}

/// A turn that is open.
#[derive(Debug, Clone, Copy)]
struct Turn {
    row: usize,
    actions: u32,
    /// Whether text after an action has been told.
    told: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Machine {
    place: Place,
    turn: Option<Turn>,
    tentative: Option<Tentative>,
    pending: Pending,
    /// Whether a turn has been seen: what begins a conversation comes before.
    begun: bool,
    /// Ids before this position are in the range of some event.
    covered: u32,
    /// Where the last event began: none begins before it, nor in the prompt.
    started: u32,
    /// An action that the prompt left open, told again when the stream begins.
    resumed: Option<EventKind>,
}

/// The machine at work: what it reads with and what it tells.
pub(super) struct Reader<'a> {
    pub(super) codec: &'a Codec,
    pub(super) machine: &'a mut Machine,
    pub(super) out: &'a mut Vec<Event>,
    /// What is to be read next: held items whose marker was none come here again.
    queue: VecDeque<HeldItem>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(codec: &'a Codec, machine: &'a mut Machine, out: &'a mut Vec<Event>) -> Self {
        Self { codec, machine, out, queue: VecDeque::new() }
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
            begun: false,
            covered: FIRST,
            started: FIRST,
            resumed: None,
        }
    }

    /// The prompt has been read: positions count from here.
    pub(super) fn after_prompt(&mut self) {
        (self.started, self.covered) = (FIRST, FIRST);
        self.resume();
    }

    /// An action that is to be told before anything else.
    pub(super) fn take_resumed(&mut self) -> Option<Event> {
        self.resumed.take().map(|kind| Event { kind, tokens: 0..0 })
    }

    /// After a prompt: tells an action that the prompt left open once more.
    fn resume(&mut self) {
        let index = self.turn.map_or(0, |turn| turn.actions.saturating_sub(1));
        let (kind, name) = match &self.place {
            Place::Source { language, .. } => (ActionKind::Code, language.clone()),
            Place::Call { name, .. } => (ActionKind::Function, name.clone()),
            _ => return,
        };
        self.resumed = Some(EventKind::ActionStart { index, kind, name, id: None });
    }
}

impl Reader<'_> {
    /// Tells an event that ends at position `last`; `first` is where its text begins, if it has one.
    /// Ids that no event has told yet go with it; of those told already, at most the last.
    fn tell(&mut self, kind: EventKind, first: Option<u32>, last: u32) {
        let covered = self.machine.covered;
        let start = first.map_or(covered, |first| first.clamp(covered - FIRST, covered));
        let end = covered.max(last.saturating_add(1));
        self.tell_until(kind, start, end);
    }

    fn tell_until(&mut self, kind: EventKind, start: u32, end: u32) {
        let start = start.max(self.machine.started);
        (self.machine.started, self.machine.covered) = (start, end);
        let event = Event { kind, tokens: start - FIRST..end - FIRST };
        let rest = match self.out.last_mut() {
            Some(last) => last.join(event),
            None => Err(event),
        };
        if let Err(event) = rest {
            self.out.push(event);
        }
    }

    /// Tells an event that has no ids of its own: it is there because of what comes next.
    fn tell_between(&mut self, kind: EventKind, before: u32) {
        let covered = self.machine.covered;
        self.tell_until(kind, covered, covered.max(before));
    }

    fn notice(&mut self, kind: NoticeKind, text: String, first: Option<u32>, at: u32) {
        self.tell(EventKind::Notice { kind, text }, first, at);
    }

    fn row(&self) -> Option<&'_ Row> {
        self.machine.turn.map(|turn| &self.codec.grammar().rows[turn.row])
    }

    fn spelling(&self, id: TokenId) -> String {
        self.codec.vocab().spelling(id).to_owned()
    }

    // Input: first what is tentative, then the place.

    pub(super) fn input(&mut self, item: HeldItem) {
        self.queue.push_back(item);
        self.drain();
    }

    pub(super) fn text(&mut self, piece: Piece<'_>) {
        if self.machine.tentative.is_none() {
            return self.text_of_place(piece);
        }
        let Piece { text, first, at } = piece;
        self.input(HeldItem::Text { text: text.to_owned(), first, at });
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
                HeldItem::Control { id, at } => self.control(id, at),
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

    fn text_of_place(&mut self, piece: Piece<'_>) {
        match self.machine.place {
            Place::Outside => self.text_outside(piece),
            Place::Text => self.text_of_turn(piece),
            Place::Source { item, fresh, .. } => {
                let codec = self.codec;
                let suffix = &codec.grammar().items[item].rule.closer.suffix;
                let told = self.machine.pending.push_until(piece, suffix, fresh);
                if let Some((text, first, at)) = told {
                    self.source(text, first, at);
                }
            }
            Place::Call { .. } => self.text_of_call(piece),
            Place::AfterAction => self.text_after_action(piece),
        }
    }

    // Outside of turns, and after actions: white space is scaffolding, anything else is text.

    fn text_outside(&mut self, piece: Piece<'_>) {
        if let Some((text, first, at)) = self.machine.pending.push_space(piece) {
            self.open_implicit(first);
            self.text_of_turn(Piece { text: &text, first, at });
        }
    }

    fn text_after_action(&mut self, piece: Piece<'_>) {
        if let Some((text, first, at)) = self.machine.pending.push_space(piece) {
            self.machine.place = Place::Text;
            if let Some(turn) = &mut self.machine.turn
                && !std::mem::replace(&mut turn.told, true)
            {
                let (kind, text) = (NoticeKind::TextAfterAction, String::new());
                self.tell_between(EventKind::Notice { kind, text }, first);
            }
            self.text_of_turn(Piece { text: &text, first, at });
        }
    }

    /// Something outside a turn opens an assistant's.
    fn open_implicit(&mut self, before: u32) {
        let row = self.codec.grammar().assistant();
        let Row { role, name, .. } = &self.codec.grammar().rows[row];
        self.tell_between(EventKind::TurnStart { role: *role, name: name.clone() }, before);
        self.machine.turn = Some(Turn { row, actions: 0, told: false });
        self.machine.place = Place::Text;
        self.machine.begun = true;
    }

    fn text_of_turn(&mut self, piece: Piece<'_>) {
        let codec = self.codec;
        let row = self.machine.turn.map(|turn| &codec.grammar().rows[turn.row]);
        let suffix = row.map(|row| &row.rule.closer.suffix);
        match suffix {
            Some(suffix) if !suffix.literal.is_empty() => {
                if let Some((text, first, at)) =
                    self.machine.pending.push_until(piece, suffix, false)
                {
                    self.tell(EventKind::Text(text), Some(first), at);
                }
            }
            _ => self.tell(EventKind::Text(piece.text.to_owned()), Some(piece.first), piece.at),
        }
    }

    // In a call.

    fn text_of_call(&mut self, mut piece: Piece<'_>) {
        while !piece.text.is_empty() {
            let codec = self.codec;
            let Place::Call { item, scanner, name } = &mut self.machine.place else { return };
            let Some(keys) = codec.object_of(*item) else { return };
            let (taken, step) = scanner.step(piece.text, piece.first, keys);
            let stretch = piece.to(taken);
            piece = piece.from(taken);
            match step {
                Step::More | Step::Broken => {}
                Step::Name(found) => *name = Some(found),
                Step::Arguments => self.delta(stretch.text.to_owned(), stretch.first, stretch.at),
                Step::Notice(kind, text, first) => {
                    self.notice(kind, text, Some(first), stretch.at);
                }
            }
        }
    }

    fn delta(&mut self, text: String, first: u32, at: u32) {
        let index = self.action_index();
        self.tell(EventKind::ActionDelta { index, text }, Some(first), at);
    }

    /// Tells some of the code of an action.
    fn source(&mut self, text: String, first: u32, at: u32) {
        if let Place::Source { fresh, .. } = &mut self.machine.place {
            *fresh = false;
        }
        self.delta(text, first, at);
    }

    fn action_index(&self) -> u32 {
        self.machine.turn.map_or(0, |turn| turn.actions.saturating_sub(1))
    }

    /// Ends the action that is open, if one is; `last` is the position of what ends it, `closed` whether
    /// that is its closing token.
    fn end_action(&mut self, last: u32, closed: bool) {
        let codec = self.codec;
        let (complete, name) = match &mut self.machine.place {
            Place::Source { item, language, fresh } => {
                let suffix = &codec.grammar().items[*item].rule.closer.suffix;
                let language = language.clone();
                let whole = self.machine.pending.is(suffix, *fresh);
                let (text, first, at) = self.machine.pending.take_all();
                if !whole && !text.is_empty() {
                    self.delta(text, first, at);
                }
                // Without a fence, only the closing token can tell that the code is whole.
                let complete = if suffix.literal.is_empty() { closed } else { whole };
                (complete, language)
            }
            Place::Call { scanner, name, .. } => {
                let complete = scanner.is_complete();
                let name = name.clone();
                if let Some((held, first)) = scanner.finish() {
                    let last = last.saturating_sub(1).max(first);
                    self.notice(NoticeKind::Malformed, held, Some(first), last);
                }
                (complete, name)
            }
            _ => return,
        };
        let index = self.action_index();
        self.tell(EventKind::ActionEnd { index, complete, name, id: None }, None, last);
        self.machine.place = Place::AfterAction;
    }

    // Control tokens.

    fn control(&mut self, id: TokenId, at: u32) {
        let grammar = self.codec.grammar();
        let calls_fit = self.row().is_none_or(|row| row.calls);
        if grammar.opens_turn(id) || (grammar.opens_item(id) && calls_fit) {
            let header = if grammar.opens_turn(id) {
                Header::of_turns(grammar)
            } else {
                Header::of_items(grammar)
            };
            let held = Held::default();
            self.machine.tentative = Some(Tentative { held, phase: Phase::Header(header) });
            return self.again(vec![HeldItem::Control { id, at }]);
        }
        match &self.machine.place {
            Place::Source { item, .. } | Place::Call { item, .. }
                if grammar.items[*item].rule.closer.ids.contains(&id) =>
            {
                return self.end_action(at, true);
            }
            Place::Outside => {
                self.machine.pending.clear();
                if (grammar.begins(id) && !self.machine.begun) || grammar.ends(id) {
                    return;
                }
            }
            _ => {}
        }
        if self.row().is_some_and(|row| row.rule.closer.ids.contains(&id)) {
            return self.close_turn(at);
        }
        self.flush_text();
        let spelling = self.spelling(id);
        self.notice(NoticeKind::UnexpectedControl, spelling, None, at);
    }

    fn unknown(&mut self, text: String, at: u32) {
        self.flush_text();
        self.notice(NoticeKind::UnknownId, text, None, at);
    }

    /// Tells text that was held because it might have been the pattern's own. White space that was
    /// held between turns or after an action is scaffolding.
    fn flush_text(&mut self) {
        if let Place::Call { scanner, .. } = &mut self.machine.place {
            if let Some((kind, text, first)) = scanner.take_odd() {
                let last = self.machine.covered.max(first);
                self.notice(kind, text, Some(first), last);
            }
            return;
        }
        let (text, first, at) = self.machine.pending.take_all();
        if text.is_empty() {
            return;
        }
        match self.machine.place {
            Place::Text => self.tell(EventKind::Text(text), Some(first), at),
            Place::Source { .. } => self.source(text, first, at),
            _ => {}
        }
    }

    /// Closes the open turn at its closing token.
    fn close_turn(&mut self, at: u32) {
        self.end_action(at.saturating_sub(1), false);
        self.end_text();
        let acted = matches!(self.machine.place, Place::AfterAction);
        let reason = if acted { TurnReason::Action } else { TurnReason::Stop };
        self.tell(EventKind::TurnEnd(reason), None, at);
        self.leave();
    }

    /// What is held at the end of a turn's text is the pattern's if it is all of it, text if not.
    fn end_text(&mut self) {
        let is_text = match (&self.machine.place, self.row()) {
            (Place::Text, Some(row)) => !self.machine.pending.is(&row.rule.closer.suffix, false),
            _ => false,
        };
        if is_text {
            self.flush_text();
        }
        self.machine.pending.clear();
    }

    fn leave(&mut self) {
        self.machine.turn = None;
        self.machine.place = Place::Outside;
        self.machine.pending.clear();
    }

    /// A turn begins while one is open: it ends before `opener`.
    fn close_implicitly(&mut self, opener: u32) {
        if self.machine.turn.is_none() {
            return self.machine.pending.clear();
        }
        if matches!(self.machine.place, Place::Source { .. } | Place::Call { .. }) {
            self.end_action_before(opener);
        }
        self.end_text();
        self.tell_between(EventKind::TurnEnd(TurnReason::Implicit), opener);
        self.leave();
    }

    fn end_action_before(&mut self, opener: u32) {
        match opener.checked_sub(1) {
            Some(last) => self.end_action(last.max(self.machine.covered.saturating_sub(1)), false),
            None => self.end_action(PROMPT, false),
        }
    }

    fn open_action(&mut self, opener: u32, kind: ActionKind, name: Option<String>, last: u32) {
        if self.machine.turn.is_none() {
            self.machine.pending.clear();
            self.open_implicit(opener);
        }
        self.end_action_before(opener);
        self.end_text();
        if let Some(turn) = &mut self.machine.turn {
            turn.actions += 1;
        }
        let index = self.action_index();
        self.tell(EventKind::ActionStart { index, kind, name, id: None }, None, last);
    }

    // The end.

    pub(super) fn finish(&mut self, reason: TurnReason, index: u32) {
        while let Some(tentative) = &mut self.machine.tentative {
            match &mut tentative.phase {
                Phase::Header(header) => {
                    let decision = header.finish();
                    self.decide(decision);
                }
                Phase::Call { scanner, .. } if scanner.has_arguments() => self.confirm_call(None),
                Phase::Call { .. } => self.reject(),
            }
            self.drain();
        }
        let last = index.saturating_sub(1);
        if self.machine.turn.is_some() {
            self.end_action(self.machine.covered.saturating_sub(1), false);
            self.end_text();
            let acted = matches!(self.machine.place, Place::AfterAction);
            let reason = match reason {
                TurnReason::Stop if acted => TurnReason::Action,
                reason => reason,
            };
            self.tell_between(EventKind::TurnEnd(reason), index);
            self.leave();
        } else if self.machine.covered < index {
            let (text, ..) = self.machine.pending.take_all();
            self.notice(NoticeKind::Trailing, text, None, last);
        }
    }
}
