//! A stream that is read by a response template.
//!
//! In: ids. Out: events. Text of a field comes as soon as it cannot be the begin of an anchor; a call comes when it is
//! closed. State: the open field, the symbols that are held back, and one search for each anchor that may come.

use std::collections::VecDeque;
use std::sync::Arc;

use chatcodec_vocab::{TextDecoder, TokenId, TokenKind};

use super::search::{Found, Search, Symbol, text_of};
use super::value::{self, Data, Parser};
use super::{BoundResponse, Field};
use crate::event::{ActionKind, Event, EventKind, NoticeKind, Part, TurnReason};
use crate::schema::ToolTypes;

/// Position of every id of a prompt.
const PROMPT: u32 = 0;

/// An anchor that may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Open(usize),
    Close(usize),
}

/// A symbol, and the first and last id that it is of.
#[derive(Debug, Clone, Copy)]
struct Placed {
    symbol: Symbol,
    first: u32,
    last: u32,
}

/// State of a stream.
#[derive(Debug, Clone)]
pub(crate) struct ResponseState {
    bound: Arc<BoundResponse>,
    tools: ToolTypes,
    decoder: TextDecoder,
    /// Position of the id in which undecoded bytes begin, if there are any.
    begun: Option<u32>,
    /// Position of the next id, from 1.
    index: u32,
    /// Symbols that are not yet searched.
    input: VecDeque<Placed>,
    /// Symbols that are held back, the first of them at `base`.
    held: VecDeque<Placed>,
    base: usize,
    watched: Vec<(Anchor, Search)>,
    /// The open field; none where text belongs to no field.
    field: Option<usize>,
    is_open: bool,
    captures: Vec<(String, Data)>,
    /// The symbols of the field.
    body: Vec<Symbol>,
    /// White space that is text if more text follows.
    space: Vec<Placed>,
    has_text: bool,
    /// Fields that were closed, in the prompt too.
    closed: Vec<usize>,
    /// Fields that had text.
    said: Vec<usize>,
    /// The numbers behind unknown symbols that no field has yet.
    unknown: VecDeque<String>,
    calls: u32,
    /// Ids before this position have an event.
    covered: u32,
    phase: Phase,
}

/// What a stream reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Prompt,
    Answer,
    Over,
}

impl ResponseState {
    /// The state after a prompt: after the last start of an answer in it.
    pub(crate) fn new(bound: &Arc<BoundResponse>, prompt: &[TokenId]) -> Self {
        let mut state = Self {
            bound: bound.clone(),
            tools: ToolTypes::default(),
            decoder: bound.vocab.text_decoder(),
            begun: None,
            index: PROMPT,
            input: VecDeque::new(),
            held: VecDeque::new(),
            base: 0,
            watched: Vec::new(),
            field: bound.template.inner.implicit,
            is_open: false,
            captures: Vec::new(),
            body: Vec::new(),
            space: Vec::new(),
            has_text: false,
            closed: Vec::new(),
            said: Vec::new(),
            unknown: VecDeque::new(),
            calls: 0,
            covered: 1,
            phase: Phase::Prompt,
        };
        state.watch();
        for &id in prompt {
            state.index = PROMPT;
            state.read(id);
        }
        let symbols: Vec<Symbol> = state.input.iter().map(|placed| placed.symbol).collect();
        let answer = last_end(bound, &symbols).unwrap_or(symbols.len());
        state.input.drain(..answer);
        state.run(&mut Vec::new());
        state.index = 1;
        state.phase = Phase::Answer;
        state.said.clear();
        state
    }

    /// Sets the tools whose schemas say the types of arguments.
    pub(crate) fn typed(&mut self, tools: &ToolTypes) {
        self.tools = tools.clone();
    }

    /// Number of ids read.
    pub(crate) fn position(&self) -> usize {
        self.index.saturating_sub(1) as usize
    }

    /// Reads an id.
    pub(crate) fn push(&mut self, id: TokenId, out: &mut Vec<Event>) {
        self.read(id);
        self.run(out);
    }

    /// Reads a number that is outside the range of ids.
    pub(crate) fn push_unknown(&mut self, id: String, out: &mut Vec<Event>) {
        self.read_unknown(id);
        self.run(out);
    }

    fn read_unknown(&mut self, id: String) {
        self.end_character();
        let at = self.index;
        self.index = at.saturating_add(1);
        self.unknown.push_back(id);
        self.input.push_back(Placed { symbol: Symbol::unknown(), first: at, last: at });
    }

    /// Ends the stream.
    pub(crate) fn finish(&mut self, reason: TurnReason, out: &mut Vec<Event>) {
        if self.phase == Phase::Over {
            return;
        }
        self.end_character();
        self.run(out);
        while let Some((anchor, found)) = self.best(true) {
            self.commit(anchor, &found, out);
            self.run(out);
        }
        self.release(self.base + self.held.len(), out);
        self.close(out);
        let bound = self.bound.clone();
        for (at, field) in bound.fields().iter().enumerate() {
            if field.is_required && !self.closed.contains(&at) {
                let text = format!("field `{}` is missing", chatcodec_vocab::place(&field.name));
                self.remark(NoticeKind::Malformed, text, out);
            }
        }
        let reason = match reason {
            TurnReason::Stop if self.calls > 0 => TurnReason::Action,
            reason => reason,
        };
        let tokens = self.tokens(self.index, self.index.saturating_sub(1));
        self.phase = Phase::Over;
        out.push(Event { kind: EventKind::TurnEnd { reason, id: None }, tokens });
    }

    /// Adds the symbols of an id to the input.
    fn read(&mut self, id: TokenId) {
        let at = self.index;
        let bound = self.bound.clone();
        match bound.vocab.token(id) {
            Some((kind @ (TokenKind::Text | TokenKind::Byte), bytes)) => {
                let first = self.begun.unwrap_or(at);
                let text = self.decoder.push(kind, bytes);
                for character in text.chars() {
                    let symbol = Symbol::of_char(character);
                    self.input.push_back(Placed { symbol, first, last: at });
                }
                self.index = at.saturating_add(1);
                let is_pending = self.decoder.is_pending();
                self.begun = is_pending.then_some(if text.is_empty() { first } else { at });
            }
            Some((TokenKind::Control, _)) => {
                self.end_character();
                self.decoder.begin_text();
                self.index = at.saturating_add(1);
                let symbol = Symbol::of_control(id);
                self.input.push_back(Placed { symbol, first: at, last: at });
            }
            _ => self.read_unknown(id.to_string()),
        }
    }

    fn end_character(&mut self) {
        let first = self.begun.take();
        if let Some(text) = self.decoder.flush() {
            let last = self.index.saturating_sub(1);
            let first = first.unwrap_or(last);
            let made = text.chars().map(Symbol::of_char);
            self.input.extend(made.map(|symbol| Placed { symbol, first, last }));
        }
    }

    /// The anchors that may come: those that open a field, or the one that closes the open field.
    fn watch(&mut self) {
        let bound = &self.bound;
        let implicit = bound.template.inner.implicit;
        let mut anchors = Vec::new();
        if let Some(field) = self.field.filter(|field| Some(*field) != implicit) {
            anchors.push(Anchor::Close(field));
        } else {
            anchors.extend((0..bound.fields().len()).map(Anchor::Open));
            anchors.extend(implicit.map(Anchor::Close));
        }
        let is_there = |anchor: &Anchor| match anchor {
            Anchor::Open(field) => bound.opens[*field].is_some(),
            Anchor::Close(field) => bound.closes[*field].is_some(),
        };
        let anchors = anchors.into_iter().filter(is_there);
        self.watched = anchors.map(|anchor| (anchor, Search::default())).collect();
    }

    /// Reads the input.
    fn run(&mut self, out: &mut Vec<Event>) {
        let bound = self.bound.clone();
        while let Some(placed) = self.input.pop_front() {
            let at = self.base + self.held.len();
            self.held.push_back(placed);
            for (anchor, search) in &mut self.watched {
                let pattern = match anchor {
                    Anchor::Open(field) => &bound.opens[*field],
                    Anchor::Close(field) => &bound.closes[*field],
                };
                let Some(pattern) = pattern else { continue };
                search.push(pattern, placed.symbol, at);
                search.limit(at);
            }
            if let Some((anchor, found)) = self.best(false) {
                self.commit(anchor, &found, out);
                continue;
            }
            let ends = self.watched.iter().map(|(_, search)| {
                let found = search.at_end().map(|found| found.start);
                search.pending().into_iter().chain(found).min().unwrap_or(at + 1)
            });
            let end = ends.min().unwrap_or(at + 1);
            self.release(end, out);
        }
    }

    /// The first anchor, if no further symbol can change that it is the first; at the end none can.
    fn best(&self, is_end: bool) -> Option<(Anchor, Found)> {
        let mut best: Option<(Anchor, &Found)> = None;
        let mut pending = usize::MAX;
        let order = |anchor: Anchor, found: &Found| {
            let (is_close, field) = match anchor {
                Anchor::Open(field) => (false, field),
                Anchor::Close(field) => (true, field),
            };
            let name = self.bound.fields()[field].name.clone();
            (found.start, std::cmp::Reverse(found.end), is_close, name)
        };
        for (anchor, search) in &self.watched {
            let found = if is_end { search.at_end() } else { search.settled() };
            match found {
                Some(found) => {
                    let is_better = |(known, other): (Anchor, &Found)| {
                        order(*anchor, found) < order(known, other)
                    };
                    if best.is_none_or(is_better) {
                        best = Some((*anchor, found));
                    }
                }
                None if !is_end => {
                    pending = search.pending().map_or(pending, |start| pending.min(start));
                }
                None => {}
            }
        }
        best.filter(|(_, found)| found.start < pending)
            .map(|(anchor, found)| (anchor, found.clone()))
    }

    /// Opens or closes a field at an anchor; what follows the anchor is input again.
    fn commit(&mut self, anchor: Anchor, found: &Found, out: &mut Vec<Event>) {
        self.release(found.start, out);
        let length = found.end - self.base;
        let matched: Vec<Placed> = self.held.drain(..length).collect();
        self.base = found.end;
        while let Some(placed) = self.held.pop_back() {
            self.input.push_front(placed);
        }
        self.close(out);
        if let Anchor::Open(field) = anchor {
            let bound = self.bound.clone();
            if let Some(pattern) = &bound.opens[field] {
                let groups = found.groups(pattern).map(|(name, place)| {
                    let place = place.start - found.start..place.end - found.start;
                    let symbols: Vec<Symbol> = matched[place].iter().map(|p| p.symbol).collect();
                    (name.to_owned(), Data::Text(text_of(&symbols, &bound.vocab)))
                });
                self.captures = groups.collect();
            }
            self.field = Some(field);
            self.is_open = true;
        }
        self.watch();
    }

    /// Gives the held symbols before a place to the field.
    fn release(&mut self, end: usize, out: &mut Vec<Event>) {
        while self.base < end
            && let Some(placed) = self.held.pop_front()
        {
            self.base += 1;
            self.put(placed, out);
        }
    }

    /// Gives a symbol to the open field.
    fn put(&mut self, placed: Placed, out: &mut Vec<Event>) {
        if placed.symbol.is_unknown() {
            let number = self.unknown.pop_front().unwrap_or_default();
            return self.notice(NoticeKind::UnknownId, number, placed.last, out);
        }
        let bound = self.bound.clone();
        let field = self.field.map(|at| (&bound.fields()[at], &bound.parsers[at]));
        let part = field.and_then(|(field, _)| field.part);
        let (Some((field, parser)), Some(part @ (Part::Text | Part::Reasoning))) = (field, part)
        else {
            // What no anchor opens begins with text, not with white space.
            self.is_open |= !placed.symbol.is_space();
            if self.is_open {
                self.body.push(placed.symbol);
            }
            return;
        };
        let Some(character) = placed.symbol.char() else {
            return self.odd(placed, out);
        };
        let is_stripped = !matches!(parser, Parser::Text { is_stripped: false });
        if is_stripped && character.is_whitespace() {
            if self.has_text {
                self.space.push(placed);
            }
            return;
        }
        self.is_open = true;
        if !std::mem::replace(&mut self.has_text, true) {
            self.join(field, part, placed, out);
        }
        let space = std::mem::take(&mut self.space);
        for placed in space.into_iter().chain([placed]) {
            let Some(character) = placed.symbol.char() else { continue };
            self.text(part, character.encode_utf8(&mut [0; 4]), placed, out);
        }
    }

    /// What joins the texts of a field that comes again.
    fn join(&mut self, field: &Field, part: Part, placed: Placed, out: &mut Vec<Event>) {
        let Some(at) = self.field else { return };
        let is_again = self.said.contains(&at);
        if let Some(join) = field.join.as_ref().filter(|join| is_again && !join.is_empty()) {
            self.text(part, join, placed, out);
        }
        self.said.push(at);
    }

    fn text(&mut self, part: Part, text: &str, placed: Placed, out: &mut Vec<Event>) {
        if self.phase == Phase::Prompt {
            return;
        }
        let tokens = self.tokens(placed.first, placed.last);
        Event::append_text(out, part, text.into(), tokens);
    }

    /// A control token that no anchor has.
    fn odd(&mut self, placed: Placed, out: &mut Vec<Event>) {
        let Some(id) = placed.symbol.control() else { return };
        if !self.bound.stops.contains(&id) {
            let text = self.bound.vocab.spelling(id).to_owned();
            self.notice(NoticeKind::UnexpectedControl, text, placed.last, out);
        }
    }

    fn notice(&mut self, kind: NoticeKind, text: String, at: u32, out: &mut Vec<Event>) {
        if self.phase == Phase::Prompt {
            return;
        }
        let tokens = self.tokens(at, at);
        out.push(Event { kind: EventKind::Notice { kind, text }, tokens });
    }

    /// The ids of an event, with those before it that have none.
    fn tokens(&mut self, first: u32, last: u32) -> std::ops::Range<u32> {
        let start = self.covered.min(first.max(1));
        let end = last.saturating_add(1).min(self.index).max(start);
        self.covered = self.covered.max(end);
        // Positions of events begin with 0.
        start - 1..end - 1
    }

    /// A notice about ids that have their events.
    fn remark(&mut self, kind: NoticeKind, text: String, out: &mut Vec<Event>) {
        if self.phase != Phase::Prompt {
            let at = self.covered - 1;
            out.push(Event { kind: EventKind::Notice { kind, text }, tokens: at..at });
        }
    }

    /// Closes the open field.
    fn close(&mut self, out: &mut Vec<Event>) {
        let bound = self.bound.clone();
        let body = std::mem::take(&mut self.body);
        let captures = std::mem::take(&mut self.captures);
        let field = self.field;
        self.space.clear();
        self.has_text = false;
        self.field = bound.template.inner.implicit;
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let last = self.index.saturating_sub(1);
        let Some(at) = field else {
            let is_stop =
                |symbol: &Symbol| symbol.control().is_some_and(|id| bound.stops.contains(&id));
            if !body.iter().all(|symbol| symbol.is_space() || is_stop(symbol)) {
                let text = text_of(&body, &bound.vocab);
                self.notice(NoticeKind::Trailing, text, last, out);
            }
            return;
        };
        let field = &bound.fields()[at];
        match field.part {
            Some(Part::Action(_)) => {
                let text = text_of(&body, &bound.vocab);
                let value = bound.parsers[at].parse(&body, &bound.vocab);
                let value = value.and_then(|content| {
                    let name = captures.clone();
                    value::of_field(content, field.transform.as_ref(), field.is_each, name)
                });
                let called = value.and_then(|value| value::calls_of(&value, &self.tools));
                match called {
                    Ok(calls) => calls.into_iter().for_each(|call| {
                        self.call(Some(call.name), call.id, call.arguments, true, out);
                    }),
                    Err(problem) => {
                        let name = captures.into_iter().find(|(name, _)| name == "name");
                        let name = name.and_then(|(_, name)| match name {
                            Data::Text(name) => Some(name),
                            _ => None,
                        });
                        self.call(name, None, text, false, out);
                        self.remark(NoticeKind::Malformed, problem.to_owned(), out);
                    }
                }
            }
            Some(_) => {}
            None => {
                let text = text_of(&body, &bound.vocab);
                self.notice(NoticeKind::UnknownKey, text, last, out);
            }
        }
        self.closed.push(at);
    }

    fn call(
        &mut self,
        name: Option<String>,
        id: Option<String>,
        arguments: String,
        complete: bool,
        out: &mut Vec<Event>,
    ) {
        if self.phase == Phase::Prompt {
            return;
        }
        let index = self.calls;
        self.calls += 1;
        let last = self.index.saturating_sub(1);
        let tokens = self.tokens(self.covered, last);
        let end = tokens.end..tokens.end;
        let kind = ActionKind::Function;
        out.push(Event {
            kind: EventKind::ActionStart { index, kind, name: name.clone(), id: id.clone() },
            tokens: tokens.start..tokens.start,
        });
        out.push(Event { kind: EventKind::ActionDelta { index, text: arguments }, tokens });
        out.push(Event { kind: EventKind::ActionEnd { index, complete, name, id }, tokens: end });
    }
}

/// Where the last start of an answer ends.
fn last_end(bound: &BoundResponse, symbols: &[Symbol]) -> Option<usize> {
    super::search::find_all(&bound.start, symbols).last().map(|(place, _)| place.end)
}
