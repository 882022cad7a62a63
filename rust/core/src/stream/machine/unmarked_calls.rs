//! Calls that begin with text: at the beginning of an assistant's content, after another call, and where a
//! control token may come before a call or before code.
//!
//! ```text
//! {"name": "f", "parameters": {    a call: ActionStart(f)
//! {"name": "Bob", "age": 3}        an answer
//! ```
//!
//! Text is held back while it may become a call. Once it is a call, the scanner of its shape reads the body again.
//! If it is no call, the text is read again as content or code.

use super::calls::{Call, CallHead, Code};
use super::text::{Line, TextState};
use super::uncertain::{PossibleCall, Uncertain};
use super::{Piece, Place, Reader, Turn, Within};
use crate::bound::Bound;
use crate::call::{CallScanner, Mended, Opener, Verdict};
use crate::event::ActionKind;
use crate::format::BareCalls;
use crate::format::unmarked_calls::{FENCE, separator};
use crate::json;
use crate::limits::HOLD_LIMIT;
use crate::schema::ToolTypes;
use crate::stream::header::{Held, HeldItem, Position};
use crate::stream::spelled::Spelled;

/// Text that may become a call.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    held: Held,
    /// Shapes that still fit.
    openers: Vec<Way>,
    /// Beginning of the text in `held`, after control tokens.
    from: Position,
    otherwise: Otherwise,
    /// Whether a bracket may close the list of calls.
    is_in_brackets: bool,
    /// Number of items that came with the prompt: as text, they have been emitted.
    prompted: usize,
}

/// Shape of a call that text may begin.
#[derive(Debug, Clone)]
struct Way {
    item: usize,
    opener: Opener,
    /// Functions that may be called, where only the name marks a call.
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

/// Meaning of text that is no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    /// The content of the turn.
    Content,
    /// Text after a call.
    AfterCall,
    /// Code, read by this item.
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
        Self::new(opener.into_iter().collect(), Otherwise::AfterCall)
    }

    /// In content, for unmarked calls.
    fn bare(bound: &Bound, is_own: bool, functions: Option<&ToolTypes>) -> Self {
        let openers = bound.grammar().bare.iter().filter(|bare| bare.is_own || !is_own);
        let openers = openers
            .map(|bare| Way::of(bare.item, Opener::new(&bare.before, &bare.opening), functions));
        Self::new(openers.collect(), Otherwise::Content)
    }

    fn new(openers: Vec<Way>, otherwise: Otherwise) -> Self {
        let from = Position::default();
        Self { held: Held::default(), openers, from, otherwise, is_in_brackets: false, prompted: 0 }
    }

    /// Reads text, and returns the verdict of the shapes that still fit.
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

    /// Ends the prompt.
    pub(super) fn after_prompt(&mut self) {
        self.prompted = self.held.len();
    }
}

/// Removes a comma and the bracket after it from the beginning of items; whether they were there.
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

impl Reader<'_> {
    /// Reads the first text of content, which may begin with a call.
    pub(super) fn text_that_may_call(
        &mut self,
        turn: Turn,
        text: TextState,
        piece: Piece<'_>,
    ) -> Place {
        let text = TextState { lead: None, ..text };
        // Most answers are no call by their first byte, and need not be held.
        if Opening::content(self.bound).push(piece.text) == Verdict::No {
            return self.text_of_turn(turn, text, piece);
        }
        self.try_call(Opening::content(self.bound));
        self.rest(piece);
        Place::In(turn, text.into())
    }

    /// Reads text of a turn in which an unmarked call may begin.
    pub(super) fn text_that_may_hold_calls(
        &mut self,
        turn: Turn,
        mut text: TextState,
        piece: Piece<'_>,
    ) -> Place {
        let (bound, settings) = (self.bound, &self.machine.settings);
        let is_anywhere = settings.bare == BareCalls::Anywhere;
        for (at, byte) in piece.text.bytes().enumerate() {
            let line = text.line;
            let may_begin = line == Line::Start || line == Line::Within && is_anywhere;
            if may_begin && bound.grammar().may_be_bare(byte) {
                let opening = Opening::bare(bound, settings.is_own_bare, settings.types.as_ref());
                if opening.clone().push(&piece.text[at..]) != Verdict::No {
                    text.line = Line::Tried;
                    let place = self.plain_text(turn, text, piece.to(at));
                    self.try_call(opening);
                    self.rest(piece.from(at));
                    return place;
                }
            }
            text.line = line.after(byte);
        }
        self.plain_text(turn, text, piece)
    }

    fn try_call(&mut self, opening: Opening) {
        self.machine.uncertain = Some(Uncertain::Opening(Box::new(opening)));
    }

    /// The state after a control token that comes before a call or before code.
    pub(super) fn call_or_code(&self, held: Held, item: usize, code: usize) -> Uncertain {
        let mut opening = Opening::next(self.bound, item);
        for way in &mut opening.openers {
            way.opener = way.opener.clone().after_token();
        }
        // A Python call is code unless its name is a function's.
        let functions = self.machine.settings.types.as_ref().filter(|types| !types.is_empty());
        let grammar = self.bound.grammar();
        let in_python = grammar.bare.iter().filter(|bare| grammar.items[bare.item].is_python());
        for bare in in_python.filter(|_| functions.is_some()) {
            let opener = Opener::new(&bare.before, &bare.opening);
            opening.openers.push(Way::of(bare.item, opener, functions));
        }
        let (from, otherwise) = (held.end(), Otherwise::Code(code));
        Uncertain::Opening(Box::new(Opening { held, from, otherwise, ..opening }))
    }

    /// Reads an item while text may become a call.
    pub(super) fn opening(
        &mut self,
        place: Place,
        mut opening: Box<Opening>,
        input: HeldItem,
    ) -> Place {
        let HeldItem::Text { text, .. } = &input else {
            // Other items end the text.
            self.again(vec![input]);
            return self.no_call(place, *opening);
        };
        let verdict = opening.push(text);
        opening.held.push(input);
        match verdict {
            Verdict::Open => {
                self.machine.uncertain = Some(Uncertain::Opening(opening));
                place
            }
            Verdict::No => self.no_call(place, *opening),
            Verdict::Call => self.call(place, *opening),
        }
    }

    /// Reads text that is no call as content or code.
    pub(super) fn no_call(&mut self, mut place: Place, opening: Opening) -> Place {
        let Opening { mut held, otherwise, from, is_in_brackets, prompted, .. } = opening;
        let is_code = matches!(otherwise, Otherwise::Code(_));
        let mut rest = held.split_off(if is_code { from } else { Position::default() });
        let emitted = prompted.saturating_sub(held.len()).min(rest.len());
        rest.drain(..emitted);
        match otherwise {
            Otherwise::Content => {}
            Otherwise::AfterCall => {
                place = match place {
                    Place::In(turn, _) => Place::In(turn, Within::AfterCall),
                    place @ Place::Outside(_) => place,
                };
                let is_sign = |item: &HeldItem| {
                    matches!(item, HeldItem::Text { text, .. }
                        if text.bytes().all(|b| json::is_space(b) || matches!(b, b',' | b';')))
                };
                if rest.iter().all(is_sign) {
                    // The list was cut before its next call.
                    return place;
                }
                if is_in_brackets && close_after_comma(&mut rest) {
                    self.out.mended(Some(Mended::After));
                }
            }
            Otherwise::Code(item) => {
                place = self.open_code(place, item, None, held.missing(), held.bounds());
            }
        }
        self.again(rest);
        place
    }

    /// Starts a call of code.
    pub(super) fn open_code(
        &mut self,
        place: Place,
        item: usize,
        language: Option<String>,
        missing: Option<Mended>,
        bounds: (u32, u32),
    ) -> Place {
        let (kind, name) = (ActionKind::Code, language.clone());
        let head = CallHead { item, kind, name, id: None, missing, bounds };
        let turn = self.open_call(place, head);
        Place::In(turn, Within::Call(Call::Code(Code { item, language, is_fresh: true })))
    }

    /// Reads text that is a call.
    fn call(&mut self, mut place: Place, opening: Opening) -> Place {
        let Opening { mut held, openers, from, otherwise, .. } = opening;
        let Some(Way { item, opener, functions }) = openers.into_iter().next() else {
            return place;
        };
        let way = &self.bound.grammar().items[item];
        let is_fenced = opener.is_after(FENCE);
        if let Place::In(turn, _) = &mut place {
            turn.calls.is_fenced = is_fenced;
        }
        let is_unmarked = functions.is_some() && otherwise == Otherwise::Content;
        let missing = is_unmarked.then_some(Mended::CallOpener);
        let is_tagged = way.shape.as_ref().is_some_and(|shape| !shape.opens().is_empty());
        if let Some(id) = way.opener().filter(|_| is_tagged) {
            // The call is read with the missing token before it.
            let (first, _) = held.bounds();
            let spelled = Some(Box::new(Spelled::missing(first, Mended::CallOpener)));
            let mut items = held.into_items();
            items.insert(0, HeldItem::Control { id, first, at: first, spelled });
            self.again(items);
            return place;
        }
        let body_at = held.after_bytes(from, opener.begins());
        let rest = held.split_off(body_at);
        if self.bound.object_of(item).is_some() {
            let call = PossibleCall::new(held, item, CallScanner::new()).with_missing(missing);
            self.machine.uncertain = Some(Uncertain::Call(Box::new(call)));
        } else {
            let name = opener.into_name();
            let (kind, bounds) = (ActionKind::Function, held.bounds());
            let head = CallHead { item, kind, name: Some(name.clone()), id: None, missing, bounds };
            let turn = self.open_call(place, head);
            place = self.open_arguments(turn, item, name, None, false);
        }
        self.again(rest);
        place
    }

    /// Reads text after a call that has ended by itself, in a list that is not JSON.
    pub(super) fn text_after_own_end(
        &mut self,
        turn: Turn,
        item: usize,
        piece: Piece<'_>,
    ) -> Place {
        let bound = self.bound;
        let between = bound.format().list().and_then(|list| list.between.first());
        let is_python = bound.grammar().items[item].is_python();
        let is_in_brackets = is_python || bound.grammar().has_brackets();
        let sign = if is_python { Some(b',') } else { between.and_then(separator) };
        let spaces = piece.text.bytes().take_while(|&byte| json::is_space(byte)).count();
        let next = piece.text.as_bytes().get(spaces).copied();
        if next.is_some() && next == sign {
            let mut held = Held::default();
            let (text, first, at) = self.machine.held.take_all();
            if !text.is_empty() {
                held.push(HeldItem::Text { text, first, at });
            }
            held.push(piece.to(spaces + 1).held());
            let from = held.end();
            self.try_call(Opening { held, from, is_in_brackets, ..Opening::next(bound, item) });
            self.rest(piece.from(spaces + 1));
            return Place::In(turn, Within::BetweenCalls { item });
        }
        if next.is_none() && self.machine.held.len() + spaces <= HOLD_LIMIT {
            // White space belongs to what comes after it.
            self.machine.held.push(piece);
            return Place::In(turn, Within::BetweenCalls { item });
        }
        if next == Some(b']') && is_in_brackets {
            self.machine.held.clear();
            self.rest(piece.from(spaces + 1));
        } else {
            self.rest(piece);
        }
        Place::In(turn, Within::AfterCall)
    }
}
