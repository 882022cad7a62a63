//! Markers that are not certain yet: which header they begin, and a call before its name is known.

use super::{Place, Reader, Turn};
use crate::action::{CallScanner, Step};
use crate::event::{ActionKind, EventKind, NoticeKind};
use crate::format::grammar::Row;
use crate::format::pattern::Field;
use crate::stream::header::{Decision, Header, Held, HeldItem, RuleOf};
use crate::stream::machine::Piece;
use crate::stream::pending::Pending;

/// A marker that is not certain yet.
#[derive(Debug, Clone)]
pub(super) struct Tentative {
    pub(super) held: Held,
    pub(super) phase: Phase,
}

#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// Which pattern it is.
    Header(Header),
    /// A call whose name has not come.
    Call { item: usize, scanner: CallScanner, waiting: Vec<Waiting> },
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

impl Reader<'_> {
    pub(super) fn tentative(&mut self, item: HeldItem) {
        let Some(tentative) = &mut self.machine.tentative else { return };
        match &mut tentative.phase {
            Phase::Header(header) => {
                let position = tentative.held.push(item);
                let decision = header.step(self.codec.grammar(), &tentative.held, position);
                self.decide(decision);
            }
            Phase::Call { item: kind, .. } => {
                let kind = *kind;
                self.tentative_call(kind, item);
            }
        }
    }

    pub(super) fn decide(&mut self, decision: Decision) {
        match decision {
            Decision::Open => {}
            Decision::None => self.reject(),
            Decision::Fits(fit) => {
                let Some(mut tentative) = self.machine.tentative.take() else { return };
                let (opener, last) = tentative.held.bounds();
                let rest = tentative.held.split_off(fit.end);
                let head_last = tentative.held.bounds().1.min(last);
                let grammar = self.codec.grammar();
                match fit.rule {
                    RuleOf::Row(row) => {
                        self.close_implicitly(opener);
                        let Row { role, name, .. } = &grammar.rows[row];
                        let name = fit.word(Field::Name).or_else(|| name.clone());
                        self.tell(EventKind::TurnStart { role: *role, name }, None, head_last);
                        self.machine.turn = Some(Turn { row, actions: 0, told: false });
                        self.machine.place = Place::Text;
                        self.machine.begun = true;
                    }
                    RuleOf::Item(item) if self.codec.object_of(item).is_some() => {
                        let (scanner, waiting) = (CallScanner::new(), Vec::new());
                        tentative.phase = Phase::Call { item, scanner, waiting };
                        self.machine.tentative = Some(tentative);
                    }
                    RuleOf::Item(item) => {
                        let language = fit.word(Field::Language);
                        self.open_action(opener, ActionKind::Code, language.clone(), head_last);
                        self.machine.place = Place::Source { item, language, fresh: true };
                    }
                }
                self.again(rest);
            }
        }
    }

    /// No header fits: the marker is told as such, what came after it is read without it.
    pub(super) fn reject(&mut self) {
        let Some(tentative) = self.machine.tentative.take() else { return };
        self.flush_text();
        let mut held = tentative.held.into_items();
        if let Some(HeldItem::Control { id, at }) = held.first() {
            let spelling = self.spelling(*id);
            self.notice(NoticeKind::Malformed, spelling, None, *at);
            held.remove(0);
        }
        self.again(held);
    }

    /// The object of a call before its name is known.
    fn tentative_call(&mut self, item: usize, input: HeldItem) {
        let HeldItem::Text { text, first, at } = input else {
            let closes = matches!(&input, HeldItem::Control { id, .. }
                if self.codec.grammar().items[item].rule.closer.ids.contains(id));
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
            let codec = self.codec;
            let Some(Tentative { phase: Phase::Call { scanner, waiting, .. }, .. }) =
                &mut self.machine.tentative
            else {
                return self.text_of_place(piece);
            };
            let Some(keys) = codec.object_of(item) else { return };
            let (taken, step) = scanner.step(piece.text, piece.first, keys);
            let stretch = piece.to(taken);
            piece = piece.from(taken);
            match step {
                Step::More => {}
                Step::Name(name) => self.confirm_call(Some((name, stretch.at))),
                Step::Arguments => {
                    if !matches!(waiting.last(), Some(Waiting::Arguments(_))) {
                        waiting.push(Waiting::Arguments(Pending::default()));
                    }
                    if let Some(Waiting::Arguments(arguments)) = waiting.last_mut() {
                        arguments.push(stretch);
                    }
                }
                Step::Notice(kind, text, first) => {
                    waiting.push(Waiting::Notice { kind, text, first, at: stretch.at });
                }
                // With its arguments begun it is a call all the same, if one without a name.
                Step::Broken if scanner.has_arguments() => self.confirm_call(None),
                Step::Broken => return self.reject(),
            }
            if let Some(Tentative { held, .. }) = &self.machine.tentative
                && held.is_full()
            {
                if !self.has_tentative_arguments() {
                    return self.reject();
                }
                self.confirm_call(None);
            }
        }
    }

    fn has_tentative_arguments(&self) -> bool {
        matches!(&self.machine.tentative, Some(Tentative { phase: Phase::Call { scanner, .. }, .. })
            if scanner.has_arguments())
    }

    /// The call is one: with its name and where that ended, or without as its arguments grow long.
    pub(super) fn confirm_call(&mut self, name: Option<(String, u32)>) {
        let Some(Tentative { held, phase: Phase::Call { item, scanner, waiting } }) =
            self.machine.tentative.take()
        else {
            return;
        };
        let (opener, _) = held.bounds();
        let (name, name_at) = name.map_or((None, opener), |(name, at)| (Some(name), at));
        // What waited comes after the start, so the start ends where that begins.
        let before = waiting.first().map(|first| first.first().saturating_sub(1).max(opener));
        let last = before.map_or(name_at, |before| before.min(name_at));
        self.open_action(opener, ActionKind::Function, name.clone(), last);
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
