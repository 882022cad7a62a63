//! Input whose meaning is not certain yet: which header it begins, or whether it is a call.
//!
//! ```text
//! <|im_start|>         held back: any turn
//! user                 still any row that begins so
//! \n                   TurnStart(user)
//! <|im_start|>pirate   no row: Notice(unexpected_control), and "pirate" is text
//! ```

use super::calls::{Call, CallHead, Object};
use super::drafts::Draft;
use super::mended_headers::Original;
use super::unmarked_calls::{Opening, close_after_comma};
use super::{Piece, Place, Reader, Within};
use crate::bound::Bound;
use crate::call::{CallScanner, Mended, Step};
use crate::event::{ActionKind, NoticeKind};
use crate::format::CallBodySpec;
use crate::grammar::{Grammar, RuleOf};
use crate::message::Role;
use crate::pattern::Field;
use crate::stream::PROMPT;
use crate::stream::header::{Decision, Fit, Header, Held, HeldItem};
use crate::stream::machine::text::TextState;
use crate::stream::pending::Pending;

/// Input whose meaning is not certain yet.
#[derive(Debug, Clone)]
pub(super) enum Uncertain {
    /// A marker: which pattern it begins.
    Header(Box<UncertainHeader>),
    /// An object that is a call once it has a name or arguments.
    Call(Box<PossibleCall>),
    /// Text that may be a call.
    Opening(Box<Opening>),
    /// Calls in reasoning, which count where the turn ends after them.
    Draft(Box<Draft>),
}

/// Marker that may begin one of several patterns.
#[derive(Debug, Clone)]
pub(super) struct UncertainHeader {
    pub(super) held: Held,
    pub(super) header: Header,
    /// The header as it came, where this one is mended.
    pub(super) original: Option<Original>,
    /// Whether it continues the row of the open turn.
    continues: bool,
}

/// Object that is a call once it has a name or arguments.
#[derive(Debug, Clone)]
pub(super) struct PossibleCall {
    held: Held,
    item: usize,
    scanner: Box<CallScanner>,
    /// Events of the body that wait for the start of the call.
    waiting: Vec<Waiting>,
    /// Mending of its missing token.
    missing: Option<Mended>,
}

/// Event of a body that waits for the start of the call.
#[derive(Debug, Clone)]
enum Waiting {
    Arguments(Pending),
    Notice { kind: NoticeKind, text: String, first: u32, at: u32 },
}

impl Waiting {
    /// The position where it began.
    fn first(&self) -> u32 {
        match self {
            Self::Arguments(pending) => pending.first(),
            Self::Notice { first, .. } => *first,
        }
    }
}

impl Uncertain {
    pub(super) fn header(header: UncertainHeader) -> Self {
        Self::Header(Box::new(header))
    }
}

impl PossibleCall {
    /// An object whose beginning is in `held`.
    pub(super) fn new(held: Held, item: usize, scanner: CallScanner) -> Self {
        Self { held, item, scanner: Box::new(scanner), waiting: Vec::new(), missing: None }
    }

    /// The object, with a mended beginning.
    pub(super) fn with_missing(self, missing: Option<Mended>) -> Self {
        Self { missing, ..self }
    }
}

impl UncertainHeader {
    fn new(header: Header) -> Self {
        Self { held: Held::default(), header, original: None, continues: false }
    }

    /// After a control token that opens something.
    pub(super) fn opened(bound: &Bound) -> Self {
        Self::new(Header::new(&bound.grammar().starts.opened))
    }

    /// For text between turns: the rows that may come after a turn of `last`, if one of them begins with text.
    pub(super) fn texts(bound: &Bound, last: Option<Role>) -> Option<Self> {
        let starts = bound.grammar().texts_after(last);
        (!starts.is_empty()).then(|| Self::new(Header::spaced(bound.grammar(), &starts)))
    }

    /// After a prompt that has no word of the assistant.
    pub(super) fn answer(bound: &Bound) -> Self {
        Self::new(Header::new(&bound.grammar().starts.answer))
    }

    /// In a block of calls, after one of them.
    pub(super) fn further(bound: &Bound) -> Self {
        Self::new(Header::new(&bound.grammar().starts.further))
    }

    /// In a row, from a step on.
    pub(super) fn within(bound: &Bound, row: usize, op: usize) -> Self {
        let starts = bound.grammar().row_from(row, op);
        Self { continues: true, ..Self::new(Header::new(&starts)) }
    }

    /// Whether another header may be read instead: not in a row.
    pub(super) fn may_be_mended(&self) -> bool {
        !self.continues
    }
}

impl Reader<'_> {
    /// Reads an item while something is uncertain.
    pub(super) fn uncertain(
        &mut self,
        place: Place,
        uncertain: Uncertain,
        item: HeldItem,
    ) -> Place {
        match uncertain {
            Uncertain::Header(header)
                if header.header.is_blank() && !matches!(item, HeldItem::Text { .. }) =>
            {
                self.drop_blank(*header);
                self.again(vec![item]);
                place
            }
            Uncertain::Header(mut header) => {
                let position = header.held.push(item);
                let by_text = self.out.output.by_text;
                let grammar = self.bound.grammar();
                let decision = header.header.step(grammar, &header.held, position, by_text);
                // Whether the token that stopped a turn begins another, the next one tells.
                let decision = if self.is_stop_alone(&header) { Decision::Open } else { decision };
                self.decide(place, header, decision)
            }
            Uncertain::Call(call) => self.possible_call(place, call, item),
            Uncertain::Opening(opening) => self.opening(place, opening, item),
            Uncertain::Draft(draft) => self.item_of_draft(place, draft, item),
        }
    }

    /// Ends what is uncertain, at the end of the stream.
    pub(super) fn finish_uncertain(
        &mut self,
        place: Place,
        uncertain: Uncertain,
        is_cut: bool,
    ) -> Place {
        match uncertain {
            Uncertain::Header(header) if header.header.is_blank() => {
                self.drop_blank(*header);
                place
            }
            Uncertain::Header(header) => self.finish_header(place, header),
            // A name may come after the arguments where the stream is cut. Where the turn ends, none comes: the object
            // is text, as before a token that ends the turn.
            Uncertain::Call(call) if is_cut && call.scanner.has_arguments() => {
                self.confirm_call(place, *call, None)
            }
            Uncertain::Call(call) => self.reject(place, call.held, None, false),
            Uncertain::Opening(opening) => self.no_call(place, *opening),
            Uncertain::Draft(draft) => self.refuse_draft(place, *draft, None),
        }
    }

    fn finish_header(&mut self, place: Place, mut header: Box<UncertainHeader>) -> Place {
        let grammar = self.bound.grammar();
        let decision = header.header.finish(&header.held);
        let held = &header.held;
        if self.is_stop_alone(&header) {
            // The turn that the token stops has ended.
            return place;
        }
        let is_stop = held.is_one() && held.spelled().is_some_and(|id| grammar.stops(id));
        let place = match place {
            Place::In(turn, within) if is_stop && turn.is_answer() => {
                let (first, at) = held.bounds();
                return self.close_turn(turn, within, first, at).into();
            }
            place => place,
        };
        let is_prompt = !place.is_prompted()
            && !self.bound.generation_prompt().is_empty()
            && held.is(&grammar.generation_prompt);
        if is_prompt {
            return self.open_prompted(place, held.bounds());
        }
        self.decide(place, header, decision)
    }

    /// Whether it is only the token at which the turn before it has stopped.
    fn is_stop_alone(&self, header: &UncertainHeader) -> bool {
        let held = &header.held;
        held.bounds().1 < self.out.output.covered() && held.is_stop(self.bound.grammar())
    }

    /// Holds white space between turns, after which no turn begins with text.
    fn drop_blank(&mut self, header: UncertainHeader) {
        for item in header.held.into_items() {
            if let HeldItem::Text { text, first, at } = item {
                self.machine.held.push(Piece { text: &text, first, at });
            }
        }
    }

    fn decide(&mut self, place: Place, header: Box<UncertainHeader>, decision: Decision) -> Place {
        match decision {
            Decision::Open => {
                self.machine.uncertain = Some(Uncertain::Header(header));
                place
            }
            Decision::None => self.reject_header(place, header),
            Decision::Fits(fit) => self.accept_header(place, *header, &fit),
        }
    }

    /// Reads what a header begins.
    pub(super) fn accept_header(
        &mut self,
        mut place: Place,
        header: UncertainHeader,
        fit: &Fit,
    ) -> Place {
        let UncertainHeader { mut held, original, continues, .. } = header;
        let (opener, last) = held.bounds();
        let items = || held.items().to_vec();
        let as_it_came = match original {
            Some(original) => {
                let unread = original.unread(&held);
                Some((Mended::Header, original.with(items()), unread))
            }
            None => fit.has_rest.then(|| (Mended::MoreHeader, items(), 0)),
        };
        let rest = held.split_off(fit.end);
        if let Some((mended, came, unread)) = as_it_came {
            let rest: Vec<_> = rest.iter().chain(self.queue.iter().take(unread)).cloned().collect();
            self.tell_mended_header(mended, &came, &rest);
        }
        let head = held.bounds().1;
        if let Some(in_run) = held.ends_in_text() {
            self.out.output.in_run = in_run;
        }
        place = match fit.rule {
            RuleOf::Row(row) => {
                let stops = held.spelled().is_some_and(|id| self.bound.grammar().stops(id));
                if let Place::In(turn, within) = place {
                    place = if stops && turn.is_answer() {
                        // The model stopped where it began another's turn, as is known now.
                        self.close_turn(turn, within, opener, opener).into()
                    } else {
                        Place::In(turn, within)
                    };
                }
                let head_last = (!held.is_empty()).then(|| head.min(last));
                self.begin_row(place, fit, row, (opener, head_last), continues)
            }
            RuleOf::Item(item) => self.begin_call(place, held, item, fit, opener),
        };
        self.again(rest);
        place
    }

    /// Reports that a header was mended, and how it was written: all that came before `rest`.
    fn tell_mended_header(&mut self, mended: Mended, came: &[HeldItem], rest: &[HeldItem]) {
        let (came, rest) = (self.written(came), self.written(rest));
        let header = came.strip_suffix(&rest).unwrap_or(&came).trim();
        self.out.mended_as(mended, header);
    }

    /// The text of items, with the spellings of their control tokens.
    fn written(&self, items: &[HeldItem]) -> String {
        let of = |item: &HeldItem| match item {
            HeldItem::Text { text, .. } | HeldItem::Unknown { text, .. } => text.clone(),
            HeldItem::Control { spelled: Some(spelled), .. } => spelled.text.clone(),
            HeldItem::Control { id, .. } => self.spelling(*id),
        };
        items.iter().map(of).collect()
    }

    /// Reads the body of a call after its header.
    fn begin_call(
        &mut self,
        place: Place,
        held: Held,
        item: usize,
        fit: &Fit,
        opener: u32,
    ) -> Place {
        let (way, missing) = (&self.bound.grammar().items[item], held.missing());
        let bounds = (opener, held.bounds().1);
        match self.bound.body_of(item) {
            Some(CallBodySpec::Object(_)) => {
                self.machine.uncertain = Some(if let Some(code) = way.or_code {
                    self.call_or_code(held, item, code)
                } else {
                    let call = PossibleCall::new(held, item, CallScanner::new());
                    Uncertain::Call(Box::new(call.with_missing(missing)))
                });
                place
            }
            Some(CallBodySpec::Arguments(_)) => {
                let id = fit.word(Field::Id);
                let form = self.bound.format().id_form();
                let types = self.machine.settings.types.as_ref();
                let is_tool = |name: &str| types.is_some_and(|types| types.has(name));
                let of_id = || id.as_deref().map(|id| form.tool_in(id, is_tool).to_owned());
                let name = fit.word(Field::Name).or_else(of_id).unwrap_or_default();
                let kind = ActionKind::Function;
                let (named, id_of) = (Some(name.clone()), id.clone());
                let call = CallHead { item, kind, name: named, id: id_of, missing, bounds };
                let mut turn = self.open_call(place, call);
                turn.calls.is_listed |=
                    way.opened && way.ends_itself && self.bound.grammar().has_list_end();
                self.open_arguments(turn, item, name, id, true)
            }
            _ => self.open_code(place, item, fit.word(Field::Language), missing, bounds),
        }
    }

    /// No header fits.
    fn reject_header(&mut self, place: Place, header: Box<UncertainHeader>) -> Place {
        match self.mend_header(place.is_prompted(), header) {
            Ok(mended) => {
                self.machine.uncertain = Some(Uncertain::Header(mended));
                place
            }
            Err(header) => {
                let UncertainHeader { held, original, continues, .. } = *header;
                self.reject(place, held, original, continues)
            }
        }
    }

    /// Reports a marker that begins nothing, and reads what came after it without it.
    fn reject(
        &mut self,
        mut place: Place,
        mut held: Held,
        mut original: Option<Original>,
        continues: bool,
    ) -> Place {
        let spelled = match &original {
            Some(original) => original.spelled(),
            None => held.spelled(),
        };
        let spelled = spelled.filter(|&id| !self.is_of_turns(&place, id));
        if !continues && !place.is_prompted() && !place.continues_message(self.bound) {
            let prompt = &self.bound.grammar().generation_prompt;
            if let Some(original) = original.take_if(|original| original.begins_with(prompt)) {
                held = Held::of(original.with(held.into_items()));
            }
            // A mended header begins with the part that was missing: that is no prompt.
            if original.is_none()
                && let Some(end) = held.after(prompt)
            {
                // The turn that a prompt opens: the rest is its text, without the rest of its header.
                let rest = held.split_off(end);
                place = self.open_prompted(place, held.bounds());
                place.refuse();
                self.again(rest);
                return place;
            }
        }
        let ends_text =
            |id| continues && place.turn().is_some_and(|turn| turn.goes_on_after(self.bound, id));
        let is_end = matches!(held.first(), Some(&HeldItem::Control { id, .. }) if ends_text(id));
        if continues {
            place = self.end_row(place);
        } else if spelled.is_none() && !matches!(place, Place::In(_, Within::BetweenCalls { .. })) {
            // White space between two calls is text where no call comes.
            self.flush_text(&mut place);
        }
        let mut items = held.into_items();
        if let Some(original) = original {
            items = original.with(items);
            if let Place::In(_, Within::AfterFrame { is_text }) = &mut place {
                *is_text = matches!(items.first(), Some(HeldItem::Text { .. }));
            }
        }
        if let Place::Outside(outside) = place
            && outside.is_prompted
        {
            // The prompt has opened the turn: what came is its text, without the rest of its header.
            items.retain(|item| item.at() != PROMPT);
            let (turn, within) =
                self.open_implicit(outside, items.first().map_or(PROMPT, HeldItem::first));
            place = Place::In(turn, within);
            place.refuse();
            self.again(items);
            return place;
        }
        place = match items.first() {
            Some(&HeldItem::Text { first, .. }) => {
                self.reject_text(place, &mut items, first, continues)
            }
            Some(HeldItem::Control { .. }) if !continues || is_end => {
                self.reject_control(&mut place, &mut items);
                place
            }
            _ => place,
        };
        self.again(items);
        place
    }

    /// A row ends where another of its texts should begin; or its text continues as plain text.
    fn end_row(&mut self, place: Place) -> Place {
        match place {
            Place::In(turn, _) if turn.role != turn.row(self.bound).role => {
                self.leave(&turn).into()
            }
            Place::In(turn, Within::Text(text)) => Place::In(turn, text.into()),
            Place::In(turn, _) => Place::In(turn, TextState::new().into()),
            place @ Place::Outside(_) => place,
        }
    }

    /// Reports the control token that began no header.
    fn reject_control(&mut self, place: &mut Place, items: &mut Vec<HeldItem>) {
        let HeldItem::Control { id, first, at, spelled } = items.remove(0) else { return };
        let grammar = self.bound.grammar();
        let is_opener = grammar.opens_turn(id) || grammar.opens_item(id);
        let kind = if is_opener { NoticeKind::Malformed } else { NoticeKind::UnexpectedControl };
        if spelled.is_some() && !self.is_of_turns(place, id) {
            // Ordinary text may spell a marker that is text.
            if !Grammar::is_text_marker(id) {
                self.out.notice_between(kind, PROMPT);
            }
            let text = HeldItem::Control { id, first, at, spelled }.into_text();
            if !text.is_empty() {
                items.insert(0, text);
            }
        } else if at >= self.out.output.covered() || at == PROMPT {
            // A token that has ended the turn before it is covered by that event.
            place.lack_token(id);
            let spelling = match spelled {
                Some(spelled) => spelled.text,
                None => self.spelling(id),
            };
            self.out.notice(kind, spelling, None, at);
        }
    }

    /// Reads text that began no header.
    fn reject_text(
        &mut self,
        place: Place,
        items: &mut Vec<HeldItem>,
        first: u32,
        continues: bool,
    ) -> Place {
        let grammar = self.bound.grammar();
        let place = match place {
            Place::In(turn, Within::BetweenCalls { item }) => {
                let is_list = grammar.has_brackets() || grammar.items[item].is_also;
                if grammar.has_brackets() && items.iter().all(HeldItem::is_comma) {
                    // The list was cut before its next call.
                    items.clear();
                } else if is_list && close_after_comma(items) {
                    self.out.mended(Some(Mended::After));
                }
                Place::In(turn, Within::AfterCall)
            }
            Place::Outside(outside) => {
                let (turn, within) = self.open_implicit(outside, first);
                let mut place = Place::In(turn, within);
                place.refuse();
                place
            }
            place @ Place::In(..) => place,
        };
        if continues {
            let at = first.saturating_sub(1);
            self.out.notice(NoticeKind::Malformed, String::new(), None, at);
        }
        place
    }

    /// Reads an item in an object that may be a call.
    fn possible_call(
        &mut self,
        place: Place,
        mut call: Box<PossibleCall>,
        input: HeldItem,
    ) -> Place {
        let item = call.item;
        let is_quoted = input.spelled().is_some() && call.scanner.is_in_string();
        let input = if is_quoted { input.into_text() } else { input };
        let HeldItem::Text { text, first, at } = input else {
            let closer = self.bound.grammar().items[item].rule.closer();
            let is_end = matches!(&input, HeldItem::Control { id, .. }
                if closer.is_some_and(|closer| closer.ids.contains(id)));
            if is_end && call.scanner.has_arguments() {
                let place = self.confirm_call(place, *call, None);
                self.again(vec![input]);
                return place;
            }
            call.held.push(input);
            return self.reject(place, call.held, None, false);
        };
        call.held.push(HeldItem::Text { text: text.clone(), first, at });
        let mut piece = Piece { text: &text, first, at };
        let keys = self.bound.object_of(item);
        while let Some(keys) = keys.filter(|_| !piece.text.is_empty()) {
            let (taken, step) = call.scanner.step(piece.text, piece.first, keys);
            let stretch = piece.to(taken);
            piece = piece.from(taken);
            let confirmed = match step {
                Step::More => None,
                Step::Name(name) => Some(Some((name, stretch.at))),
                Step::Arguments(said) => {
                    call.wait_for_arguments(Piece {
                        text: said.as_deref().unwrap_or(stretch.text),
                        ..stretch
                    });
                    None
                }
                Step::Notice(kind, text, first) => {
                    call.waiting.push(Waiting::Notice { kind, text, first, at: stretch.at });
                    None
                }
                // With its arguments begun it is a call without a name.
                Step::Next | Step::Broken if call.scanner.has_arguments() => Some(None),
                Step::Next | Step::Broken => return self.try_also(place, *call),
            };
            if confirmed.is_none() && call.held.is_full() && !call.scanner.has_arguments() {
                return self.reject(place, call.held, None, false);
            }
            if confirmed.is_some() || call.held.is_full() {
                let place = self.confirm_call(place, *call, confirmed.flatten());
                return match piece.text {
                    "" => place,
                    _ => self.text_at(place, piece),
                };
            }
        }
        self.machine.uncertain = Some(Uncertain::Call(call));
        place
    }

    /// Reads an object that is not written as the format writes a call in the shapes that are only read.
    fn try_also(&mut self, place: Place, call: PossibleCall) -> Place {
        let grammar = self.bound.grammar();
        let may_be = grammar.reads_other_calls()
            && !grammar.items[call.item].is_also
            && matches!(call.held.items(), [HeldItem::Control { .. }, ..]);
        if !may_be {
            return self.reject(place, call.held, None, false);
        }
        self.machine.uncertain =
            Some(Uncertain::header(UncertainHeader::new(Header::new(&grammar.starts.also))));
        self.again(call.held.into_items());
        place
    }

    /// Starts a call: with its name and the position where that ended, or without a name.
    fn confirm_call(
        &mut self,
        place: Place,
        call: PossibleCall,
        name: Option<(String, u32)>,
    ) -> Place {
        let PossibleCall { held, item, scanner, waiting, missing } = call;
        if held.begins_in_text() && !self.bound.grammar().ends_call(item) {
            self.out.mended(Some(Mended::Several));
        } else if scanner.is_listed() {
            self.out.mended(Some(Mended::List));
        }
        let (opener, _) = held.bounds();
        let (name, name_at) = name.map_or((None, opener), |(name, at)| (Some(name), at));
        // The start ends where the events that waited for it begin.
        let before = waiting.first().map(|first| first.first().saturating_sub(1).max(opener));
        let last = before.map_or(name_at, |before| before.min(name_at));
        let (kind, bounds) = (ActionKind::Function, (opener, last));
        let head = CallHead { item, kind, name: name.clone(), id: None, missing, bounds };
        let turn = self.open_call(place, head);
        for waited in waiting {
            match waited {
                Waiting::Arguments(mut arguments) => {
                    let (text, first, at) = arguments.take_all();
                    self.delta(&turn, text, first, at);
                }
                Waiting::Notice { kind, text, first, at } => {
                    self.out.notice(kind, text, Some(first), at);
                }
            }
        }
        Place::In(turn, Within::Call(Call::Object(Object { item, scanner, name })))
    }
}

impl PossibleCall {
    /// Keeps arguments until the call starts.
    fn wait_for_arguments(&mut self, piece: Piece<'_>) {
        if let Some(Waiting::Arguments(arguments)) = self.waiting.last_mut() {
            return arguments.push(piece);
        }
        let mut arguments = Pending::default();
        arguments.push(piece);
        self.waiting.push(Waiting::Arguments(arguments));
    }
}

impl Place {
    /// Notes that the text that comes next was tried as a header, and is none.
    fn refuse(&mut self) {
        if let Self::In(_, Within::Text(text)) = self {
            text.is_refused = true;
        }
    }
}
