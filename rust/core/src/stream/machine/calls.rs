//! Calls: reads their bodies, and finds their ends.
//!
//! ```text
//! <tool_call>{"name": "f", "arguments": {"a"    ActionStart(f), ActionDelta({"a")
//! : 1}}                                         ActionDelta(: 1})
//! </tool_call>                                  ActionEnd(complete)
//! ```

use std::borrow::Cow;

use super::uncertain::{PossibleCall, Uncertain, UncertainHeader};
use super::{Piece, Place, Reader, Turn, Within};
use crate::bound::Bound;
use crate::call::{ArgumentsReader, CallScanner, Ended, Mended, Step};
use crate::event::{ActionKind, EventKind, NoticeKind, Part};
use crate::grammar::{Closer, Suffix};
use crate::json;
use crate::limits::HOLD_LIMIT;
use crate::stream::header::{Held, HeldItem};
use crate::stream::pending::Pending;
use crate::stream::spelled::Spelled;
use chatcodec_vocab::TokenId;

/// Most bytes after the arguments of a call in which the next call is looked for.
const NEXT_CALL_BYTES: usize = 256;

/// Call that is open.
#[derive(Debug, Clone)]
pub(super) enum Call {
    /// Code.
    Code(Code),
    /// A JSON object with a name and arguments.
    Object(Object),
    /// Arguments after a header with the name.
    Arguments(Box<Arguments>),
}

/// Call whose body is code.
#[derive(Debug, Clone)]
pub(super) struct Code {
    pub(super) item: usize,
    pub(super) language: Option<String>,
    /// Whether none of the code has been emitted.
    pub(super) is_fresh: bool,
}

/// Call whose body is a JSON object.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) item: usize,
    pub(super) scanner: Box<CallScanner>,
    pub(super) name: Option<String>,
}

/// Call whose body is its arguments.
#[derive(Debug, Clone)]
pub(super) struct Arguments {
    pub(super) item: usize,
    pub(super) body: Box<dyn ArgumentsReader>,
    pub(super) name: String,
    pub(super) id: Option<Box<str>>,
}

/// Beginning of a call.
pub(super) struct CallHead {
    pub(super) item: usize,
    pub(super) kind: ActionKind,
    pub(super) name: Option<String>,
    pub(super) id: Option<String>,
    /// Mending of its missing token.
    pub(super) missing: Option<Mended>,
    /// Positions of its first and its last id.
    pub(super) bounds: (u32, u32),
}

impl Call {
    /// Number of the item of the grammar that reads the call.
    pub(super) fn item(&self) -> usize {
        match self {
            Self::Code(code) => code.item,
            Self::Object(object) => object.item,
            Self::Arguments(arguments) => arguments.item,
        }
    }

    /// The event that starts the call.
    pub(super) fn start(&self, index: u32) -> EventKind {
        let (kind, name, id) = match self {
            Self::Code(code) => (ActionKind::Code, code.language.clone(), None),
            Self::Object(object) => (ActionKind::Function, object.name.clone(), None),
            Self::Arguments(arguments) => {
                let Arguments { name, id, .. } = &**arguments;
                let id = id.as_deref().map(str::to_owned);
                (ActionKind::Function, Some(name.clone()), id)
            }
        };
        EventKind::ActionStart { index, kind, name, id }
    }

    /// Reads text that is emitted as it is. Reads nothing of any other text, and returns `false`.
    pub(super) fn take_same(&mut self, bound: &Bound, text: &str) -> bool {
        match self {
            Self::Code(code) => {
                let closer = closer(bound, code.item);
                !code.is_fresh && closer.is_some_and(|closer| closer.passes(text))
            }
            Self::Object(object) => object.scanner.take_same(text),
            Self::Arguments(arguments) => arguments.body.take_same(text),
        }
    }

    /// Reads text whose only effect is emitted text, which is appended to `out`, or none. Reads nothing of any other
    /// text, and returns `false`.
    pub(super) fn take(&mut self, bound: &Bound, text: &str, out: &mut String) -> bool {
        let is_same = self.take_same(bound, text);
        out.push_str(if is_same { text } else { "" });
        is_same
            || match self {
                Self::Code(_) => false,
                Self::Object(object) => object.scanner.take_joined(text, out),
                Self::Arguments(arguments) => arguments.body.take_joined(text, out),
            }
    }

    /// How the call ends at the end of its turn, or at another call: that may be what closes code.
    pub(super) fn ended_by_next(&self, bound: &Bound) -> Ended {
        let item = &bound.grammar().items[self.item()];
        let may_close = match self {
            Self::Code(_) => true,
            Self::Object(_) => false,
            Self::Arguments(_) => item.shape.as_ref().is_some_and(|shape| shape.ends_at_next()),
        };
        let is_open = item.rule.closer().is_some_and(|closer| closer.ids.is_empty());
        if may_close && is_open { Ended::Closed } else { Ended::Stopped }
    }
}

fn closer(bound: &Bound, item: usize) -> Option<&Closer> {
    bound.grammar().items[item].rule.closer()
}

fn suffix(bound: &Bound, item: usize) -> Suffix {
    closer(bound, item).map(|closer| closer.suffix.clone()).unwrap_or_default()
}

impl Reader<'_> {
    /// Starts a call, in the assistant's turn: ends what is open before it.
    pub(super) fn open_call(&mut self, place: Place, head: CallHead) -> Turn {
        let (opener, last) = head.bounds;
        let (mut turn, within) = match place {
            Place::In(turn, within) if turn.is_answer() => (turn, within),
            place => {
                let outside = self.close_before(place, opener);
                self.open_implicit(outside, opener)
            }
        };
        let within = self.end_call_before(&turn, within, opener);
        self.end_text_before_call(&turn, within);
        turn.calls.count += 1;
        turn.calls.lacks_token = false;
        let is_other = self.bound.grammar().items[head.item].is_other;
        self.out.mended(head.missing.or(is_other.then_some(Mended::Call)));
        let form = self.bound.format().id_form();
        let CallHead { kind, name, id, .. } = head;
        let is_other = id
            .as_deref()
            .is_some_and(|id| name.as_deref().is_some_and(|name| form.is_other(id, name)));
        self.out.mended(is_other.then_some(Mended::Id));
        self.out.emit(
            EventKind::ActionStart { index: turn.call_index(), kind, name, id },
            None,
            last,
        );
        turn
    }

    /// Starts a call whose arguments come after its header.
    pub(super) fn open_arguments(
        &mut self,
        turn: Turn,
        item: usize,
        name: String,
        id: Option<String>,
        is_typed: bool,
    ) -> Place {
        let types = self.machine.settings.types.as_ref().filter(|_| is_typed);
        let parameters = types.and_then(|types| types.of(&name));
        let within = match &self.bound.grammar().items[item].shape {
            Some(shape) => {
                let (body, id) = (shape.clone().reader(parameters), id.map(String::into_boxed_str));
                Within::Call(Call::Arguments(Box::new(Arguments { item, body, name, id })))
            }
            None => Within::AfterCall,
        };
        Place::In(turn, within)
    }

    /// Reads text in a call.
    pub(super) fn text_of_call(&mut self, turn: Turn, call: Call, piece: Piece<'_>) -> Place {
        match call {
            Call::Code(code) => self.text_of_code(turn, code, piece),
            Call::Object(object) => self.text_of_object(turn, object, piece),
            Call::Arguments(arguments) => self.text_of_arguments(turn, arguments, piece),
        }
    }

    fn text_of_code(&mut self, turn: Turn, mut code: Code, piece: Piece<'_>) -> Place {
        if let Some(closer) = closer(self.bound, code.item) {
            let held = &mut self.machine.held;
            if let Some((text, first, at)) =
                held.push_until(piece, &[&closer.suffix], code.is_fresh)
            {
                code.is_fresh = false;
                self.delta(&turn, text, first, at);
            }
        }
        Place::In(turn, Within::Call(Call::Code(code)))
    }

    fn text_of_object(&mut self, turn: Turn, mut call: Object, mut piece: Piece<'_>) -> Place {
        let (bound, item) = (self.bound, call.item);
        let has_fence = |closer: &Closer| !closer.suffix.literal.trim_ascii().is_empty();
        let is_fenced = closer(bound, item).is_some_and(has_fence);
        let keys = bound.object_of(item);
        while let Some(keys) = keys.filter(|_| !piece.text.is_empty()) {
            if is_fenced && call.scanner.is_done() {
                // Text after an object is the pattern's, or is reported when the call ends.
                self.machine.held.push(piece);
                self.report_excess();
                break;
            }
            let (taken, step) = call.scanner.step(piece.text, piece.first, keys);
            let is_done = call.scanner.is_done();
            let stretch = piece.to(taken);
            piece = piece.from(taken);
            match step {
                Step::More | Step::Broken => {}
                Step::Next => {
                    let next = PossibleCall::new(Held::default(), item, call.scanner.next());
                    let last = piece.first.saturating_sub(1);
                    self.end_call(&turn, Call::Object(call), last, Ended::Closed);
                    self.machine.uncertain = Some(Uncertain::Call(Box::new(next)));
                    self.rest(piece);
                    return Place::In(turn, Within::AfterCall);
                }
                Step::Name(found) => call.name = Some(found),
                Step::Arguments(Some(said)) => {
                    self.delta(&turn, said, stretch.first, stretch.at);
                }
                Step::Arguments(None) => {
                    self.delta(&turn, stretch.text, stretch.first, stretch.at);
                }
                Step::Notice(kind, text, first) => {
                    self.out.notice(kind, text, Some(first), stretch.at);
                }
            }
            if is_done && bound.grammar().ends_call(item) {
                self.end_call(&turn, Call::Object(call), stretch.at, Ended::Closed);
                self.rest(piece);
                return Place::In(turn, Within::BetweenCalls { item });
            }
        }
        Place::In(turn, Within::Call(Call::Object(call)))
    }

    /// Reads text between two calls of a list: a comma continues it, a bracket ends it.
    pub(super) fn text_between(&mut self, turn: Turn, item: usize, piece: Piece<'_>) -> Place {
        let grammar = self.bound.grammar();
        let is_also = grammar.items[item].is_also;
        let is_json = (is_also || grammar.has_brackets()) && self.bound.object_of(item).is_some();
        if (grammar.ends_calls() || grammar.items[item].is_python()) && !is_json {
            return self.text_after_own_end(turn, item, piece);
        }
        let spaces = piece.text.bytes().take_while(|&byte| json::is_space(byte)).count();
        let between = Within::BetweenCalls { item };
        let Some(&sign) = piece.text.as_bytes().get(spaces) else {
            // White space is text where text comes next.
            self.machine.held.push(piece);
            return Place::In(turn, between);
        };
        if !is_json {
            self.machine.held.push(piece.to(spaces));
            let header = UncertainHeader::further(self.bound);
            self.machine.uncertain = Some(Uncertain::header(header));
            self.rest(piece.from(spaces));
            return Place::In(turn, between);
        }
        let (text, first, at) = self.machine.held.take_all();
        let white = Piece { text: &text, first, at };
        let next = match sign {
            b',' => Some(spaces + 1),
            // Calls in another format's shape may follow each other without a comma.
            b';' if is_also => Some(spaces + 1),
            b'{' if is_also => Some(spaces),
            _ => None,
        };
        if let Some(taken) = next {
            let pieces = [white, piece.to(taken)];
            let before = pieces.into_iter().filter(|piece| !piece.text.is_empty());
            let held = Held::of(before.map(Piece::held).collect());
            let next = PossibleCall::new(held, item, CallScanner::new());
            self.machine.uncertain = Some(Uncertain::Call(Box::new(next)));
            self.rest(piece.from(taken));
            return Place::In(turn, between);
        }
        if sign == b']' && !grammar.items[item].is_bare {
            self.rest(piece.from(spaces + 1));
        } else {
            self.rest(piece);
            self.rest(white);
        }
        Place::In(turn, Within::AfterCall)
    }

    fn text_of_arguments(
        &mut self,
        turn: Turn,
        mut call: Box<Arguments>,
        mut piece: Piece<'_>,
    ) -> Place {
        while !call.body.is_done() {
            let (taken, said) = call.body.push(piece.text);
            let stretch = piece.to(taken);
            piece = piece.from(taken);
            if !said.is_empty() {
                self.delta(&turn, said, stretch.first, stretch.at);
            }
            self.report_odd(&mut call, stretch.at);
            if piece.text.is_empty() {
                break;
            }
        }
        let (grammar, item) = (self.bound.grammar(), call.item);
        if grammar.ends_call(item) && call.body.is_done() {
            self.end_call(&turn, Call::Arguments(call), piece.at, Ended::Closed);
            self.rest(piece);
            let way = &grammar.items[item];
            let is_between = grammar.ends_calls() || way.is_python() || way.ends_in_block();
            let between = Within::BetweenCalls { item };
            return Place::In(turn, if is_between { between } else { Within::AfterCall });
        }
        self.hold_rest(&mut call, piece.first);
        // Text after the arguments is the pattern's, or is reported when the call ends.
        self.machine.held.push(piece);
        if let Some(end) = self.end_in_block(item) {
            let last = self.machine.held.take_bytes(end).2;
            let (rest, first, at) = self.machine.held.take_all();
            self.end_call(&turn, Call::Arguments(call), last, Ended::Closed);
            self.rest(Piece { text: &rest, first, at });
            return Place::In(turn, Within::BetweenCalls { item });
        }
        if let Some((end, is_closed)) = self.end_at_next(&call) {
            return self.next_in_block(turn, call, end, is_closed);
        }
        self.report_excess();
        Place::In(turn, Within::Call(Call::Arguments(call)))
    }

    /// Reports text after a call that is too long to be the pattern's.
    fn report_excess(&mut self) {
        if self.machine.held.len() > HOLD_LIMIT {
            let (text, first, at) = self.machine.held.take_all();
            self.out.notice(NoticeKind::Malformed, text, Some(first), at);
        }
    }

    /// Reports text within the arguments that is not part of them, and mended text; `at` is the position up to
    /// which the arguments were read.
    fn report_odd(&mut self, call: &mut Arguments, at: u32) {
        let (odd, mended) = (call.body.take_odd(), call.body.take_mended());
        if !odd.is_empty() {
            self.out.notice(NoticeKind::Malformed, odd, None, at);
        }
        self.out.mended(mended);
    }

    /// Reads a control token in arguments: whether it belongs to them.
    pub(super) fn control_of_arguments(
        &mut self,
        turn: &Turn,
        call: &mut Arguments,
        id: TokenId,
        at: u32,
    ) -> bool {
        let (accepted, said) = call.body.push_control(id);
        let before = self.out.output.last();
        if !said.is_empty() {
            let at = if accepted { at } else { before };
            self.delta(turn, said, at, at);
        }
        self.report_odd(call, before);
        self.hold_rest(call, before);
        accepted
    }

    /// End of the text that closes a call in a block, if that text is held.
    fn end_in_block(&self, item: usize) -> Option<usize> {
        let close = self.bound.grammar().items[item].close.as_ref();
        let close = close.filter(|close| !close.is_empty())?;
        self.machine.held.end_of(close)
    }

    /// End of a call after which another begins in the same block, if that is held: without the text that closes
    /// the first, or without the token that opens the next. Also whether the first is closed.
    fn end_at_next(&self, call: &Arguments) -> Option<(usize, bool)> {
        let item = &self.bound.grammar().items[call.item];
        let shape = item.shape.as_ref().filter(|_| call.body.is_done())?;
        let text = self.machine.held.text();
        let cut = (0..=NEXT_CALL_BYTES.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
        shape.next_call(&text[..cut.unwrap_or(0)])
    }

    /// Ends a call where another begins in the same block.
    fn next_in_block(
        &mut self,
        turn: Turn,
        call: Box<Arguments>,
        end: usize,
        is_closed: bool,
    ) -> Place {
        let item = call.item;
        let held = &mut self.machine.held;
        let before = held.first().saturating_sub(1);
        let last = if end > 0 { held.take_bytes(end).2 } else { before };
        let (text, first, at) = held.take_all();
        self.out.mended((!is_closed).then_some(Mended::CallEnd));
        self.end_call(&turn, Call::Arguments(call), last, Ended::Closed);
        let text = HeldItem::Text { text, first, at };
        let way = &self.bound.grammar().items[item];
        if way.close.is_some() {
            self.again(vec![text]);
            return Place::In(turn, Within::BetweenCalls { item });
        }
        if let Some(id) = way.opener() {
            let spelled = Some(Box::new(Spelled::missing(first, Mended::Several)));
            self.again(vec![HeldItem::Control { id, first, at: first, spelled }, text]);
        }
        Place::In(turn, Within::AfterCall)
    }

    /// Holds text that was read and comes after the arguments.
    fn hold_rest(&mut self, call: &mut Arguments, at: u32) {
        if call.body.is_done() {
            let rest = call.body.take_rest();
            self.machine.held.push(Piece { text: &rest, first: at, at });
        }
    }

    /// Emits a part of the last call of a turn.
    pub(super) fn delta<'t>(
        &mut self,
        turn: &Turn,
        text: impl Into<Cow<'t, str>>,
        first: u32,
        at: u32,
    ) {
        self.out.part(Part::Action(turn.call_index()), text.into(), first, at);
    }

    /// Ends the call that is open, if there is one, before `opener`.
    pub(super) fn end_call_before(&mut self, turn: &Turn, within: Within, opener: u32) -> Within {
        // Position 0 is the prompt's.
        let last = opener.checked_sub(1).map(|last| last.max(self.out.output.last()));
        self.end_open_call(turn, within, last.unwrap_or(opener))
    }

    /// Ends the open call, if there is one, at the end of the turn or at another call. `last` is the last
    /// position of the call.
    pub(super) fn end_open_call(&mut self, turn: &Turn, within: Within, last: u32) -> Within {
        let Within::Call(call) = within else { return within };
        let ended = call.ended_by_next(self.bound);
        self.end_call(turn, call, last, ended);
        Within::AfterCall
    }

    /// Ends a call; `last` is its last position.
    pub(super) fn end_call(&mut self, turn: &Turn, call: Call, last: u32, ended: Ended) {
        let (complete, name, id) = match call {
            Call::Code(code) => self.end_code(turn, code, ended),
            Call::Object(object) => self.end_object(turn, object, last, ended),
            Call::Arguments(arguments) => self.end_arguments(turn, *arguments, ended),
        };
        let index = turn.call_index();
        let complete = complete && !turn.calls.lacks_token;
        self.out.emit(EventKind::ActionEnd { index, complete, name, id }, None, last);
        self.machine.held = Pending::default();
    }

    fn end_code(&mut self, turn: &Turn, code: Code, ended: Ended) -> Ending {
        let suffix = suffix(self.bound, code.item);
        let whole = self.machine.held.is(&suffix, code.is_fresh);
        let (text, first, at) = self.machine.held.take_all();
        if !whole && !text.is_empty() {
            self.delta(turn, text, first, at);
        }
        // Without a fence, only the closing token can tell that the code is whole.
        let complete = if suffix.literal.is_empty() { ended == Ended::Closed } else { whole };
        (complete, code.language, None)
    }

    fn end_object(&mut self, turn: &Turn, call: Object, last: u32, ended: Ended) -> Ending {
        let Object { item, mut scanner, name } = call;
        let complete = scanner.is_complete();
        let is_unclosed = ended != Ended::Cut && scanner.is_open()
            || ended == Ended::Stopped && self.is_closed_by_token(item);
        let id = scanner.id().map(str::to_owned);
        let said = scanner.finish_arguments();
        let is_python = scanner.is_mended();
        if let Some((held, first)) = scanner.finish() {
            let last = last.saturating_sub(1).max(first);
            self.out.notice(NoticeKind::Malformed, held, Some(first), last);
        }
        if !said.is_empty() {
            // The held text may be of all ids up to the one that closes the call.
            let first = self.out.output.last();
            let at = if ended == Ended::Closed { last.saturating_sub(1) } else { last };
            self.delta(turn, said, first, at.max(first));
        }
        self.emit_end(turn, item, String::new(), String::new());
        self.out.mended(is_python.then_some(Mended::Python));
        self.out.mended((complete && is_unclosed).then_some(Mended::CallEnd));
        (complete, name, id)
    }

    fn end_arguments(&mut self, turn: &Turn, call: Arguments, ended: Ended) -> Ending {
        let Arguments { item, mut body, name, id } = call;
        let said = body.finish(ended);
        let (cut, odd, mended) = (body.take_rest(), body.take_odd(), body.take_mended());
        let at = self.out.output.last();
        self.machine.held.push(Piece { text: &cut, first: at, at });
        let is_unclosed = ended == Ended::Stopped
            && self.bound.grammar().items[item].ends_itself
            && self.is_closed_by_token(item);
        let has_more = self.emit_end(turn, item, said, odd);
        let complete = body.is_complete(ended) && !(has_more && body.is_scalar());
        self.out.mended(body.is_mended().then_some(Mended::Python));
        let mended = mended.or(is_unclosed.then_some(Mended::CallEnd));
        self.out.mended(mended.filter(|_| complete));
        (complete, Some(name), id.map(String::from))
    }

    /// Emits the end of a body, text in the body that is not part of it, and held text after the body that is not
    /// the pattern's. Returns whether that text is more than white space.
    fn emit_end(&mut self, turn: &Turn, item: usize, said: String, odd: String) -> bool {
        let is_own = self.machine.held.begins(&suffix(self.bound, item));
        let (text, first, at) = self.machine.held.take_all();
        if !said.is_empty() {
            let at = self.out.output.last();
            self.delta(turn, said, at, at);
        }
        if !odd.is_empty() {
            let at = self.out.output.last();
            self.out.notice(NoticeKind::Malformed, odd, None, at);
        }
        let has_more = !is_own && !text.trim_ascii().is_empty();
        if !is_own && !text.is_empty() {
            self.out.notice(NoticeKind::Malformed, text, Some(first), at);
        }
        has_more
    }

    /// Whether a control token must close calls of an item. A token that ends the stream may be missing.
    fn is_closed_by_token(&self, item: usize) -> bool {
        let grammar = self.bound.grammar();
        let ids = closer(self.bound, item).map_or(&[][..], |closer| &closer.ids);
        !self.is_finishing
            && grammar.list.is_some()
            && !ids.is_empty()
            && !ids.iter().any(|&id| grammar.stops(id))
    }
}

/// Whether a call is complete, its name and its id.
type Ending = (bool, Option<String>, Option<String>);
