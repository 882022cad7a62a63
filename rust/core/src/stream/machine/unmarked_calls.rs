//! Calls that begin with text: at the beginning of an assistant's content, after another call, and where a
//! control token may stand before a call or before code.
//!
//! Text is held while it may become a call. Once it is one, its opener is told and its body read again by
//! the scanner of its kind; once it is none, it is read again as what it is without.

use super::tentative::{Phase, Tentative};
use super::{Line, Machine, Piece, Place, Reader};
use crate::bound::Bound;
use crate::call::{CallScanner, Mended, Opener, ToolTypes, Verdict};
use crate::event::ActionKind;
use crate::format::BareCalls;
use crate::format::unmarked_calls::{FENCE, separator};
use crate::json;
use crate::limits::HOLD_LIMIT;
use crate::stream::header::{Held, HeldItem, Position};
use crate::stream::spelled::Spelled;

/// Text that may become a call.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    /// The ways to read it that are left.
    openers: Vec<Way>,
    /// Where in what is held it begins, after control tokens.
    from: Position,
    otherwise: Otherwise,
    /// Whether a bracket may close what it is in.
    is_in_brackets: bool,
    /// How many items came with the prompt: as text, they have been told.
    prompted: usize,
}

/// A way to read it.
#[derive(Debug, Clone)]
struct Way {
    item: usize,
    opener: Opener,
    /// The functions that may be called, where only their names mark a call.
    functions: Option<ToolTypes>,
}

impl Way {
    fn new(item: usize, opener: Opener) -> Self {
        Self { item, opener, functions: None }
    }

    fn of(item: usize, opener: Opener, functions: Option<&ToolTypes>) -> Self {
        Self { item, opener, functions: functions.cloned() }
    }
}

/// What text is that turns out to be no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    /// The content of the turn.
    Content,
    /// What stands after a call.
    AfterAction,
    /// Code, by a way to write it.
    Code(usize),
}

impl Opening {
    /// At the beginning of content.
    fn content(bound: &Bound) -> Self {
        let grammar = bound.grammar();
        let openers = grammar.bare_items().filter_map(|item| {
            let way = &grammar.items[item];
            Some(Way::new(item, Opener::new(way.before.as_ref()?, way.opening.as_ref()?)))
        });
        Self::new(openers.collect(), Otherwise::Content)
    }

    /// After the sign that follows a call.
    fn next(bound: &Bound, item: usize) -> Self {
        let opening = bound.grammar().items[item].opening.as_ref();
        let opener = opening.map(|opening| Way::new(item, Opener::new(&"".into(), opening)));
        Self::new(opener.into_iter().collect(), Otherwise::AfterAction)
    }

    /// In content, of a call that nothing marks as one.
    fn bare(bound: &Bound, is_own: bool, functions: Option<&ToolTypes>) -> Self {
        let openers = bound.grammar().bare.iter().filter(|bare| bare.is_own || !is_own);
        let openers = openers
            .map(|bare| Way::of(bare.item, Opener::new(&bare.before, &bare.opening), functions));
        Self::new(openers.collect(), Otherwise::Content)
    }

    fn new(openers: Vec<Way>, otherwise: Otherwise) -> Self {
        let from = Position::default();
        Self { openers, from, otherwise, is_in_brackets: false, prompted: 0 }
    }

    /// Reads text: the verdict, and which way of those that are left has it.
    fn push(&mut self, text: &str) -> Verdict {
        let mut found = None;
        self.openers.retain_mut(|Way { item, opener, functions }| {
            let mut verdict = if found.is_some() { Verdict::Open } else { opener.push(text) };
            let is_other = functions.as_ref().is_some_and(|known| !known.has(opener.name()));
            if verdict == Verdict::Call && is_other {
                verdict = Verdict::No;
            }
            found = found.or((verdict == Verdict::Call).then_some(*item));
            verdict != Verdict::No
        });
        match found {
            Some(found) => {
                self.openers.retain(|way| way.item == found);
                Verdict::Call
            }
            None if self.openers.is_empty() => Verdict::No,
            None => Verdict::Open,
        }
    }

    /// The prompt ends here.
    pub(super) fn after_prompt(&mut self, held: &Held) {
        self.prompted = held.len();
    }
}

/// Takes a comma and the bracket after it off the beginning, if that is what it is.
pub(super) fn close_after_comma(items: &mut Vec<HeldItem>) -> bool {
    let mut texts = items.iter().map_while(|item| match item {
        HeldItem::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let is_own = |c: char| c == ',' || c.is_ascii_whitespace();
    let Some((nth, sign)) =
        texts.by_ref().enumerate().find_map(|(nth, text)| Some((nth, text.find(|c| !is_own(c))?)))
    else {
        return false;
    };
    let Some(HeldItem::Text { text, first, at }) = items.get_mut(nth) else { return false };
    if text.as_bytes().get(sign) != Some(&b']') {
        return false;
    }
    (*text, *first) = (text.split_off(sign + 1), *at);
    let is_empty = text.is_empty();
    items.drain(..nth + usize::from(is_empty));
    true
}

impl Machine {
    fn bare_opening(&self, bound: &Bound) -> Opening {
        Opening::bare(bound, self.is_own_bare, self.types.as_ref())
    }
}

impl Reader<'_> {
    /// The first text of content that may begin with a call.
    pub(super) fn text_that_may_call(&mut self, piece: Piece<'_>) {
        self.machine.lead = None;
        // Most answers are none by their first byte: those need not be held.
        if Opening::content(self.bound).push(piece.text) == Verdict::No {
            return self.text_of_turn(piece);
        }
        self.try_call(Held::default(), Opening::content(self.bound));
        self.rest(piece);
    }

    /// Text of the turn in which a call may begin that nothing marks as one.
    pub(super) fn text_that_may_hold_calls(&mut self, piece: Piece<'_>) {
        let bound = self.bound;
        let is_anywhere = self.machine.bare == BareCalls::Anywhere;
        for (at, byte) in piece.text.bytes().enumerate() {
            let line = self.machine.line;
            let may_begin = line == Line::Start || line == Line::Within && is_anywhere;
            if may_begin && bound.grammar().may_be_bare(byte) {
                let opening = self.machine.bare_opening(bound);
                if opening.clone().push(&piece.text[at..]) != Verdict::No {
                    self.plain_text(piece.to(at));
                    self.machine.line = Line::Tried;
                    self.try_call(Held::default(), opening);
                    return self.rest(piece.from(at));
                }
            }
            self.machine.line = line.after(byte);
        }
        self.plain_text(piece);
    }

    fn try_call(&mut self, held: Held, opening: Opening) {
        let phase = Phase::Opening(Box::new(opening));
        self.machine.tentative = Some(Box::new(Tentative::new(held, phase)));
    }

    /// A control token has come that stands before a call, or before code.
    pub(super) fn try_call_or_code(&mut self, held: Held, item: usize, code: usize) {
        let mut opening = Opening::next(self.bound, item);
        for way in &mut opening.openers {
            way.opener = way.opener.clone().after_token();
        }
        // A call in Python is code, but for its name.
        let functions = self.machine.types.as_ref().filter(|types| !types.is_empty());
        let grammar = self.bound.grammar();
        let in_python = grammar.bare.iter().filter(|bare| grammar.items[bare.item].is_python());
        for bare in in_python.filter(|_| functions.is_some()) {
            let opener = Opener::new(&bare.before, &bare.opening);
            opening.openers.push(Way::of(bare.item, opener, functions));
        }
        let (from, otherwise) = (held.end(), Otherwise::Code(code));
        self.try_call(held, Opening { from, otherwise, ..opening });
    }

    /// Something comes while text may become a call.
    pub(super) fn opening(&mut self, input: HeldItem) {
        let Some(Tentative { held, phase: Phase::Opening(opening), .. }) =
            self.machine.tentative.as_deref_mut()
        else {
            return;
        };
        let HeldItem::Text { text, .. } = &input else {
            // What is no text ends it.
            self.again(vec![input]);
            return self.no_call();
        };
        let verdict = opening.push(text);
        held.push(input);
        match verdict {
            Verdict::Open => {}
            Verdict::No => self.no_call(),
            Verdict::Call => self.call(),
        }
    }

    /// What is held is no call: it is read as what it is otherwise.
    pub(super) fn no_call(&mut self) {
        let Some(tentative) = self.machine.tentative.take() else { return };
        let Tentative { mut held, phase: Phase::Opening(opening), .. } = *tentative else { return };
        let is_code = matches!(opening.otherwise, Otherwise::Code(_));
        let mut rest = held.split_off(if is_code { opening.from } else { Position::default() });
        let told = opening.prompted.saturating_sub(held.len()).min(rest.len());
        rest.drain(..told);
        match opening.otherwise {
            Otherwise::Content => {}
            Otherwise::AfterAction => {
                self.machine.place = Place::AfterAction;
                let is_sign = |item: &HeldItem| {
                    matches!(item, HeldItem::Text { text, .. }
                        if text.bytes().all(|b| json::is_space(b) || matches!(b, b',' | b';')))
                };
                if rest.iter().all(is_sign) {
                    // It was cut before its next call.
                    return;
                }
                if opening.is_in_brackets && close_after_comma(&mut rest) {
                    self.tell_mending(Some(Mended::After));
                }
            }
            Otherwise::Code(item) => {
                let (opener, last) = held.bounds();
                self.open_action(item, opener, ActionKind::Code, None, None, last);
                self.machine.place = Place::Source { item, language: None, fresh: true };
            }
        }
        self.again(rest);
    }

    /// What is held is a call.
    fn call(&mut self) {
        let Some(mut tentative) = self.machine.tentative.take() else { return };
        let Phase::Opening(opening) = tentative.phase else { return };
        let Some(Way { item, opener, functions }) = opening.openers.into_iter().next() else {
            return;
        };
        let way = &self.bound.grammar().items[item];
        self.machine.fenced = opener.is_after(FENCE);
        let is_unmarked = functions.is_some() && opening.otherwise == Otherwise::Content;
        self.machine.missing = is_unmarked.then_some(Mended::CallOpener);
        let is_tagged = way.shape.as_ref().is_some_and(|shape| !shape.opens().is_empty());
        if let Some(id) = way.opener().filter(|_| is_tagged) {
            // It is read as if the token stood before it.
            let (first, _) = tentative.held.bounds();
            let spelled = Some(Box::new(Spelled::missing(first, Mended::CallOpener)));
            let mut items = tentative.held.into_items();
            items.insert(0, HeldItem::Control { id, at: first, spelled });
            return self.again(items);
        }
        let body_at = tentative.held.after_bytes(opening.from, opener.begins());
        let rest = tentative.held.split_off(body_at);
        let (first, last) = tentative.held.bounds();
        if self.bound.object_of(item).is_some() {
            let (scanner, waiting) = (Box::new(CallScanner::new()), Vec::new());
            tentative.phase = Phase::Call { item, scanner, waiting };
            self.machine.tentative = Some(tentative);
        } else {
            let name = opener.into_name();
            let kind = ActionKind::Function;
            self.open_action(item, first, kind, Some(name.clone()), None, last);
            let Some(body) = self.reader_of(item, None) else { return };
            self.machine.place = Place::Arguments { item, body, name, id: None };
        }
        self.again(rest);
    }

    /// After a call that has ended by itself, in what is no list in JSON.
    pub(super) fn text_after_call(&mut self, item: usize, piece: Piece<'_>) {
        let bound = self.bound;
        let between = bound.format().list().and_then(|list| list.between.first());
        let is_python = bound.grammar().items[item].is_python();
        let sign = if is_python { Some(b',') } else { between.and_then(separator) };
        let spaces = piece.text.bytes().take_while(|&byte| json::is_space(byte)).count();
        let next = piece.text.as_bytes().get(spaces).copied();
        if next.is_some() && next == sign {
            let mut held = Held::default();
            let (text, first, at) = self.machine.pending.take_all();
            if !text.is_empty() {
                held.push(HeldItem::Text { text, first, at });
            }
            held.push(piece.to(spaces + 1).held());
            let is_in_brackets = is_python || bound.grammar().has_brackets();
            let from = held.end();
            let opening = Opening { from, is_in_brackets, ..Opening::next(bound, item) };
            self.try_call(held, opening);
            return self.rest(piece.from(spaces + 1));
        }
        if next.is_none() && self.machine.pending.len() + spaces <= HOLD_LIMIT {
            // White space belongs to what comes after it.
            return self.machine.pending.push(piece);
        }
        self.machine.place = Place::AfterAction;
        if next == Some(b']') && (is_python || bound.grammar().has_brackets()) {
            self.machine.pending.clear();
            return self.rest(piece.from(spaces + 1));
        }
        self.rest(piece);
    }
}
