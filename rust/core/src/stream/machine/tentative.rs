//! Markers that are not certain yet: which header they begin, and a call before its name is known.

use std::sync::Arc;

use super::mended_headers::Original;
use super::unmarked_calls::{Opening, close_after_comma};
use super::{Place, Reader};
use crate::bound::Bound;
use crate::call::{ArgumentsReader, CallScanner, Mended, Parameters, Step};
use crate::event::{ActionKind, EventKind, NoticeKind, TurnReason};
use crate::format::CallBodySpec;
use crate::grammar::{Grammar, Op, Row};
use crate::message::Role;
use crate::pattern::{Field, Grammar as FieldGrammar};
use crate::stream::PROMPT;
use crate::stream::header::{Decision, Fit, Header, Held, HeldItem, RuleOf};
use crate::stream::machine::Piece;
use crate::stream::pending::Pending;
use chatcodec_vocab::TokenId;

/// A marker that is not certain yet.
#[derive(Debug, Clone)]
pub(super) struct Tentative {
    pub(super) held: Held,
    pub(super) phase: Phase,
    /// What came, where it is read in another way.
    pub(super) original: Option<Original>,
}

#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// Which pattern it is.
    Header(Header),
    /// A call whose name has not come.
    Call { item: usize, scanner: Box<CallScanner>, waiting: Vec<Waiting> },
    /// Text that may be a call.
    Opening(Box<Opening>),
}

/// What waits for its action to begin, in order.
#[derive(Debug, Clone)]
pub(super) enum Waiting {
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

impl Tentative {
    pub(super) fn new(held: Held, phase: Phase) -> Self {
        Self { held, phase, original: None }
    }

    /// After a control token whose call is none as the format writes it: the ways that are only read.
    fn also(bound: &Bound) -> Self {
        let grammar = bound.grammar();
        Self::header(Header::new(grammar, openers(grammar, true)))
    }

    fn header(header: Header) -> Self {
        Self::new(Held::default(), Phase::Header(header))
    }

    /// After a control token that opens something: every row, then every way to write a call.
    pub(super) fn opened(bound: &Bound) -> Self {
        let grammar = bound.grammar();
        let is_opened = |row: &&usize| {
            let row = &grammar.rows[**row];
            !row.calls_only && !row.text_first
        };
        let rows = |rows: &'_ [usize]| -> Vec<RuleOf> {
            rows.iter().filter(is_opened).copied().map(RuleOf::Row).collect()
        };
        let (first, last) = (rows(&grammar.read_order), rows(&grammar.read_last));
        let own = openers(grammar, false).chain(last).chain(openers(grammar, true));
        Self::header(Header::new(grammar, first.into_iter().chain(own)))
    }

    /// Where text stands between turns: the rows that may come now, if one of them begins with text.
    pub(super) fn texts(bound: &Bound, last: Option<Role>) -> Option<Self> {
        let grammar = bound.grammar();
        let rows: Vec<usize> =
            grammar.rows_after(last).filter(|&row| grammar.rows[row].text_first).collect();
        if rows.is_empty() {
            return None;
        }
        Some(Self::header(Header::spaced(grammar, by_head(grammar, rows, []))))
    }

    /// Where a prompt has ended without a word of the assistant's: its rows and calls.
    pub(super) fn answer(bound: &Bound) -> Self {
        let grammar = bound.grammar();
        let is_plain = |row: &usize| {
            grammar.rows[*row].role == Role::Assistant && !grammar.rows[*row].calls_only
        };
        let rows: Vec<usize> = grammar.read_order.iter().copied().filter(is_plain).collect();
        let items = openers(grammar, false).chain(openers(grammar, true));
        Self::header(Header::new(grammar, by_head(grammar, rows, items)))
    }

    /// In a block of calls, after one of them.
    pub(super) fn further(bound: &Bound) -> Self {
        let grammar = bound.grammar();
        let items = (0..grammar.items.len()).filter(|&item| grammar.items[item].is_further());
        Self::header(Header::new(grammar, items.map(RuleOf::Item)))
    }

    /// In a row, from a step on.
    pub(super) fn within(bound: &Bound, row: usize, op: usize) -> Self {
        Self::header(Header::within(bound.grammar(), RuleOf::Row(row), op))
    }
}

/// Calls that a control token opens, those that are only read or the others: not those that go on in a block,
/// nor those that begin with text.
fn openers(grammar: &Grammar, is_also: bool) -> impl Iterator<Item = RuleOf> + '_ {
    let is_opener = move |&item: &usize| {
        let item = &grammar.items[item];
        let is_marked = item.before.is_none() && !item.is_bare;
        item.is_also == is_also && !item.is_further() && is_marked
    };
    (0..grammar.items.len()).filter(is_opener).map(RuleOf::Item)
}

/// Rows that begin with a marker, calls, then rows that begin with a field.
fn by_head(
    grammar: &Grammar,
    rows: Vec<usize>,
    items: impl IntoIterator<Item = RuleOf>,
) -> Vec<RuleOf> {
    let begins_with_field = |row: &usize| {
        matches!(grammar.rows[*row].rule.read.first(),
            Some(Op::Field(field, _)) if field.grammar() != FieldGrammar::Word)
    };
    let (fields, markers): (Vec<_>, Vec<_>) = rows.into_iter().partition(begins_with_field);
    let rows = |rows: Vec<usize>| rows.into_iter().map(RuleOf::Row);
    rows(markers).chain(items).chain(rows(fields)).collect()
}

impl Reader<'_> {
    /// A reader of the arguments of an item, where they are after a header.
    pub(super) fn reader_of(
        &self,
        item: usize,
        parameters: Option<Arc<Parameters>>,
    ) -> Option<Box<dyn ArgumentsReader>> {
        Some(self.bound.grammar().items[item].shape.as_ref()?.reader(parameters))
    }

    pub(super) fn tentative(&mut self, item: HeldItem) {
        let Some(tentative) = &mut self.machine.tentative else { return };
        match &mut tentative.phase {
            Phase::Header(header)
                if header.is_blank() && !matches!(item, HeldItem::Text { .. }) =>
            {
                self.drop_blank();
                self.again(vec![item]);
            }
            Phase::Header(header) => {
                let position = tentative.held.push(item);
                let decision = header.step(
                    self.bound.grammar(),
                    &tentative.held,
                    position,
                    self.machine.by_text,
                );
                self.decide(decision);
            }
            Phase::Call { item: kind, .. } => {
                let kind = *kind;
                self.tentative_call(kind, item);
            }
            Phase::Opening(_) => self.opening(item),
        }
    }

    /// White space between turns, after which no turn begins with text.
    pub(super) fn drop_blank(&mut self) {
        let Some(tentative) = self.machine.tentative.take() else { return };
        for item in tentative.held.into_items() {
            if let HeldItem::Text { text, first, at } = item {
                self.machine.pending.push(Piece { text: &text, first, at });
            }
        }
    }

    pub(super) fn decide(&mut self, decision: Decision) {
        match decision {
            Decision::Open => {}
            Decision::None => self.reject(),
            Decision::Fits(fit) => {
                let Some(mut tentative) = self.machine.tentative.take() else { return };
                if tentative.original.take().is_some() {
                    self.tell_header();
                }
                let (opener, last) = tentative.held.bounds();
                let rest = tentative.held.split_off(fit.end);
                let head = tentative.held.bounds();
                if let Some(in_run) = tentative.held.ends_in_text() {
                    self.machine.in_run = in_run;
                }
                let head_last =
                    if tentative.held.is_empty() { None } else { Some(head.1.min(last)) };
                if let (Some(id), RuleOf::Row(_)) = (tentative.held.spelled(), fit.rule)
                    && self.bound.grammar().stops(id)
                    && self.machine.turn.is_some_and(|turn| turn.role == Role::Assistant)
                {
                    // The model stopped where it began another's turn, as is known now.
                    self.close_turn(opener, opener);
                }
                self.machine.missing = tentative.held.missing();
                match fit.rule {
                    RuleOf::Row(row) => self.begin_text(row, &fit, opener, head_last),
                    RuleOf::Item(item) => match self.bound.body_of(item) {
                        Some(CallBodySpec::Object(_)) => {
                            if let Some(code) = self.bound.grammar().items[item].or_code {
                                self.try_call_or_code(tentative.held, item, code);
                            } else {
                                let (scanner, waiting) = (Box::new(CallScanner::new()), Vec::new());
                                tentative.phase = Phase::Call { item, scanner, waiting };
                                self.machine.tentative = Some(tentative);
                            }
                        }
                        Some(CallBodySpec::Arguments(_)) => {
                            let id = fit.word(Field::Id);
                            let form = self.bound.format().id_form();
                            let name = fit
                                .word(Field::Name)
                                .or_else(|| id.as_deref().map(|id| form.name_in(id).to_owned()))
                                .unwrap_or_default();
                            let kind = ActionKind::Function;
                            let way = &self.bound.grammar().items[item];
                            self.machine.listed |= way.opened
                                && way.ends_itself
                                && self.bound.grammar().has_list_end();
                            self.open_action(
                                item,
                                opener,
                                kind,
                                Some(name.clone()),
                                id.clone(),
                                head.1,
                            );
                            let types = self.machine.types.as_ref();
                            let parameters = types.and_then(|types| types.of(&name));
                            let Some(body) = self.reader_of(item, parameters) else { return };
                            let id = id.map(String::into_boxed_str);
                            self.machine.place = Place::Arguments { item, body, name, id };
                        }
                        _ => {
                            let language = fit.word(Field::Language);
                            let kind = ActionKind::Code;
                            self.open_action(item, opener, kind, language.clone(), None, head.1);
                            self.machine.place = Place::Source { item, language, fresh: true };
                        }
                    },
                }
                self.again(rest);
            }
        }
    }

    /// A row has been read up to a text of its own, or to its end. `last` is the position of the last id
    /// before that, if there is one.
    fn begin_text(&mut self, row: usize, fit: &Fit, opener: u32, last: Option<u32>) {
        let grammar = self.bound.grammar();
        let Row { name, rule, .. } = &grammar.rows[row];
        let is_end = fit.op >= rule.read.len();
        let text = if is_end { rule.texts.len().saturating_sub(1) } else { rule.text_at(fit.op) };
        let role = self.role_of(row, text);
        let goes_on = self.machine.turn.is_some_and(|turn| turn.row == row && turn.role == role)
            && matches!(self.machine.place, Place::Value(_) | Place::Text)
            && self.machine.within;
        if role == Role::Assistant && self.is_framed() {
            return self.next_frame(row, text, last.unwrap_or(opener));
        }
        if !goes_on {
            if !self.machine.within {
                self.close_before(opener);
            }
            let promised = role == Role::Assistant && std::mem::take(&mut self.machine.promised);
            if !promised {
                let name = fit.word(Field::Name).or_else(|| name.clone());
                let kind = EventKind::TurnStart { role, name };
                match last {
                    Some(last) => self.tell(kind, None, last),
                    None => self.tell_between(kind, opener),
                }
            }
        }
        self.machine.within = false;
        self.enter(row, text);
        if !is_end && role == Role::Tool {
            self.machine.answers = fit.word(Field::Id).map(String::into_boxed_str);
        }
        if is_end {
            // It stands in the row's head, or after a value.
            let id = self.answers();
            let id = fit.word(Field::Id).or(id);
            let kind = EventKind::TurnEnd { reason: TurnReason::Stop, id };
            match last {
                Some(last) => self.tell(kind, None, last),
                None => self.tell_between(kind, opener),
            }
            self.leave();
        }
    }

    /// Decides at once where nothing more need come.
    pub(super) fn settle(&mut self) {
        if let Some(Tentative { phase: Phase::Header(header), .. }) =
            self.machine.tentative.as_deref()
            && let decision @ Decision::Fits(_) = header.decision()
        {
            self.decide(decision);
        }
    }

    /// No header fits: the marker is told as such, what came after it is read without it.
    pub(super) fn reject(&mut self) {
        if self.mend_header() {
            return;
        }
        self.machine.missing = None;
        let Some(mut tentative) = self.machine.tentative.take() else { return };
        let mut original = tentative.original.take();
        let spelled = match &original {
            Some(original) => original.spelled(),
            None => tentative.held.spelled(),
        };
        let within = std::mem::take(&mut self.machine.within);
        if !within && !self.machine.promised && !self.is_framed() {
            let prompt = &self.bound.grammar().generation_prompt;
            if let Some(original) = original.take_if(|original| original.begins_with(prompt)) {
                tentative.held = Held::of(original.with(tentative.held.into_items()));
            }
            // A header that was mended begins with what it lacks: that is no prompt.
            if original.is_none()
                && let Some(end) = tentative.held.after(prompt)
            {
                // The turn that a prompt opens: what follows is its text, without the rest of its header.
                let rest = tentative.held.split_off(end);
                self.machine.tentative = Some(tentative);
                self.open_prompted();
                self.refuse();
                return self.again(rest);
            }
        }
        if within {
            // Its turn has ended where another's text should begin; or it goes on as plain text.
            match self.row() {
                Some(row) if self.machine.turn.is_some_and(|turn| turn.role != row.role) => {
                    self.leave();
                }
                _ => self.machine.place = Place::Text,
            }
        } else if spelled.is_none() && !matches!(self.machine.place, Place::Between { .. }) {
            // White space between two calls is text where no call comes.
            self.flush_text();
        }
        let mut held = tentative.held.into_items();
        if let Some(original) = original {
            held = original.with(held);
            self.machine.is_text = matches!(held.first(), Some(HeldItem::Text { .. }));
        }
        let opens = |id: TokenId| {
            let grammar = self.bound.grammar();
            grammar.opens_turn(id) || grammar.opens_item(id)
        };
        let kind = match held.first() {
            Some(&HeldItem::Control { id, .. }) if !opens(id) => NoticeKind::UnexpectedControl,
            _ => NoticeKind::Malformed,
        };
        held.retain(|item| item.at() != PROMPT || !self.machine.promised);
        if self.machine.promised {
            // The prompt has opened the turn: what came is its text, without the rest of its header.
            self.open_implicit(held.first().map_or(PROMPT, HeldItem::first));
            self.refuse();
            return self.again(held);
        }
        match held.first() {
            Some(HeldItem::Control { spelled: Some(_), .. }) if !within => {
                self.notice_quoted(kind);
                let opener = held.remove(0).into_text();
                if !opener.is_empty() {
                    held.insert(0, opener);
                }
            }
            Some(HeldItem::Control { id, at, .. }) if !within => {
                // A token that has ended the turn before it has been told.
                if *at >= self.machine.covered || *at == PROMPT {
                    let spelling = self.spelling(*id);
                    self.notice(kind, spelling, None, *at);
                }
                held.remove(0);
            }
            Some(&HeldItem::Text { first: at, .. }) => {
                match self.machine.place {
                    Place::Between { item } => {
                        self.machine.place = Place::AfterAction;
                        if self.bound.grammar().has_brackets()
                            && held.iter().all(HeldItem::is_comma)
                        {
                            // The list was cut before its next call.
                            return;
                        }
                        let grammar = self.bound.grammar();
                        let is_list = grammar.has_brackets() || grammar.items[item].is_also;
                        if is_list && close_after_comma(&mut held) {
                            self.tell_mending(Some(Mended::After));
                        }
                    }
                    Place::Outside => {
                        self.open_implicit(at);
                        self.refuse();
                    }
                    _ => {}
                }
                if within {
                    self.notice(NoticeKind::Malformed, String::new(), None, at.saturating_sub(1));
                }
            }
            _ => {}
        }
        self.again(held);
    }

    /// The object of a call before its name is known.
    fn tentative_call(&mut self, item: usize, input: HeldItem) {
        let is_quoted = input.spelled().is_some()
            && matches!(self.machine.tentative.as_deref(), Some(Tentative { phase: Phase::Call { scanner, .. }, .. })
                if scanner.is_in_string());
        let input = if is_quoted { input.into_text() } else { input };
        let HeldItem::Text { text, first, at } = input else {
            let closes = matches!(&input, HeldItem::Control { id, .. }
                if self.bound.grammar().items[item].rule.closer().is_some_and(|c| c.ids.contains(id)));
            if closes && self.has_tentative_arguments() {
                self.confirm_call(None);
                return self.again(vec![input]);
            }
            if let Some(tentative) = &mut self.machine.tentative {
                tentative.held.push(input);
            }
            return self.reject();
        };
        let mut piece = Piece { text: &text, first, at };
        if let Some(tentative) = &mut self.machine.tentative {
            tentative.held.push(HeldItem::Text { text: text.clone(), first, at });
        }
        while !piece.text.is_empty() {
            let bound = self.bound;
            let Some(Tentative { phase: Phase::Call { scanner, waiting, .. }, .. }) =
                self.machine.tentative.as_deref_mut()
            else {
                return self.text_of_place(piece);
            };
            let Some(keys) = bound.object_of(item) else { return };
            let (taken, step) = scanner.step(piece.text, piece.first, keys);
            let stretch = piece.to(taken);
            piece = piece.from(taken);
            match step {
                Step::More => {}
                Step::Name(name) => self.confirm_call(Some((name, stretch.at))),
                Step::Arguments(said) => {
                    if !matches!(waiting.last(), Some(Waiting::Arguments(_))) {
                        waiting.push(Waiting::Arguments(Pending::default()));
                    }
                    if let Some(Waiting::Arguments(arguments)) = waiting.last_mut() {
                        let text = said.as_deref().unwrap_or(stretch.text);
                        arguments.push(Piece { text, ..stretch });
                    }
                }
                Step::Notice(kind, text, first) => {
                    waiting.push(Waiting::Notice { kind, text, first, at: stretch.at });
                }
                // With its arguments begun it is a call all the same, if one without a name.
                Step::Next | Step::Broken if scanner.has_arguments() => self.confirm_call(None),
                Step::Next | Step::Broken => return self.try_also(item),
            }
            if let Some(Tentative { held, .. }) = self.machine.tentative.as_deref()
                && held.is_full()
            {
                if !self.has_tentative_arguments() {
                    return self.reject();
                }
                self.confirm_call(None);
            }
        }
    }

    /// It is no call as the format writes it: it may be one in a way that is only read.
    fn try_also(&mut self, item: usize) {
        let grammar = self.bound.grammar();
        let begins = |tentative: &Tentative| {
            matches!(tentative.held.items(), [HeldItem::Control { .. }, ..])
        };
        let may_be = openers(grammar, true).next().is_some()
            && !grammar.items[item].is_also
            && self.machine.tentative.as_deref().is_some_and(begins);
        if !may_be {
            return self.reject();
        }
        let Some(tentative) = self.machine.tentative.take() else { return };
        self.machine.tentative = Some(Box::new(Tentative::also(self.bound)));
        self.again(tentative.held.into_items());
    }

    fn has_tentative_arguments(&self) -> bool {
        matches!(self.machine.tentative.as_deref(), Some(Tentative { phase: Phase::Call { scanner, .. }, .. })
            if scanner.has_arguments())
    }

    /// The call is one: with its name and where that ended, or without as its arguments grow long.
    pub(super) fn confirm_call(&mut self, name: Option<(String, u32)>) {
        let Some(tentative) = self.machine.tentative.take() else { return };
        let Tentative { held, phase: Phase::Call { item, scanner, waiting }, .. } = *tentative
        else {
            return;
        };
        if held.begins_in_text() && !self.bound.grammar().ends_call(item) {
            self.tell_mending(Some(Mended::Several));
        } else if scanner.is_listed() {
            self.tell_mending(Some(Mended::List));
        }
        let (opener, _) = held.bounds();
        let (name, name_at) = name.map_or((None, opener), |(name, at)| (Some(name), at));
        // What waited comes after the start, so the start ends where that begins.
        let before = waiting.first().map(|first| first.first().saturating_sub(1).max(opener));
        let last = before.map_or(name_at, |before| before.min(name_at));
        self.open_action(item, opener, ActionKind::Function, name.clone(), None, last);
        self.machine.place = Place::Call { item, scanner, name };
        for waited in waiting {
            match waited {
                Waiting::Arguments(mut arguments) => {
                    let (text, first, at) = arguments.take_all();
                    self.delta(text, first, at);
                }
                Waiting::Notice { kind, text, first, at } => {
                    self.notice(kind, text, Some(first), at);
                }
            }
        }
    }
}
