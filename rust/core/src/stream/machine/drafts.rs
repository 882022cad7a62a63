//! Calls in reasoning: drafts, unless the turn ends right after them.
//!
//! ```text
//! <think>I could <tool_call>{…}</tool_call>, but</think>Hi    reasoning that holds the call's text, then the answer "Hi"
//! <think>So <tool_call>{…}</tool_call><|im_end|>              reasoning "So ", then the call; mended
//! ```
//!
//! Models draft calls in reasoning, so a call there is read as reasoning. Where the turn ends right after whole calls,
//! the model has left out what closes reasoning, and the calls count. Which of the two it is, only later input tells:
//! until then the calls are held, up to [`DRAFT_LIMIT`] bytes.

use super::text::{Lead, Line, TextState};
use super::uncertain::Uncertain;
use super::{Place, Reader, Within};
use crate::call::Mended;
use crate::event::{Event, EventKind, NoticeKind, Part, TurnReason};
use crate::limits::HOLD_LIMIT;
use crate::pattern::is_white;
use crate::stream::header::HeldItem;
use chatcodec_vocab::TokenId;

/// Most bytes of calls in reasoning that are held: longer ones are reasoning.
const DRAFT_LIMIT: usize = 16 * HOLD_LIMIT;

/// Calls in reasoning that may count.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    items: Vec<HeldItem>,
    bytes: usize,
    /// Whether the last control token closed a call.
    is_closed: bool,
}

impl Draft {
    fn push(&mut self, item: HeldItem) {
        self.bytes += match &item {
            HeldItem::Text { text, .. } | HeldItem::Unknown { text, .. } => text.len(),
            HeldItem::Control { .. } => 1,
        };
        self.items.push(item);
    }
}

impl Reader<'_> {
    /// Whether a control token of a call in reasoning is held, with what comes after it.
    pub(super) fn may_hold(&self, place: &Place, id: TokenId) -> bool {
        !self.is_settling
            && matches!(place, Place::In(_, Within::Text(_)))
            && self.is_draft(place, id)
            && self.bound.grammar().opens_item(id)
    }

    /// Holds the token that begins a call in reasoning.
    pub(super) fn hold_draft(&mut self, opener: HeldItem) {
        let mut draft = Box::<Draft>::default();
        draft.push(opener);
        self.machine.uncertain = Some(Uncertain::Draft(draft));
    }

    /// Reads an item after a call in reasoning has begun.
    pub(super) fn item_of_draft(
        &mut self,
        place: Place,
        mut draft: Box<Draft>,
        item: HeldItem,
    ) -> Place {
        let goes_on = match &item {
            HeldItem::Control { id, .. } if self.is_draft(&place, *id) => {
                draft.is_closed = self.closes_call(*id);
                true
            }
            HeldItem::Control { id, first, .. } if self.begins_another(&place, *id) => {
                if !self.would_settle(&place, &draft, *first) {
                    return self.refuse_draft(place, *draft, Some(item));
                }
                let place = self.close_reasoning(place);
                self.again(draft.items.into_iter().chain([item]).collect());
                return place;
            }
            HeldItem::Control { id, .. } if self.ends_answer(&place, *id) => {
                let ended = self.settle(place, &draft, |reader| reader.input(item.clone()));
                return ended.unwrap_or_else(|place| self.refuse_draft(place, *draft, Some(item)));
            }
            HeldItem::Text { text, .. } => !draft.is_closed || is_white(text),
            _ => false,
        };
        if !goes_on || draft.bytes > DRAFT_LIMIT {
            return self.refuse_draft(place, *draft, Some(item));
        }
        draft.push(item);
        self.machine.uncertain = Some(Uncertain::Draft(draft));
        place
    }

    /// Reads held calls as calls, and then what ends the turn. If they are not whole, or not alone, nothing has
    /// happened: the place is returned.
    pub(super) fn settle(
        &mut self,
        place: Place,
        draft: &Draft,
        end: impl FnOnce(&mut Self),
    ) -> Result<Place, Place> {
        let before = (self.machine.clone(), self.out.output.clone());
        let told = std::mem::take(self.out.events);
        let queue = std::mem::take(&mut self.queue);
        self.machine.place = self.close_reasoning(place.clone());
        self.again(draft.items.clone());
        self.drain();
        end(self);
        let events = std::mem::replace(self.out.events, told);
        self.queue = queue;
        if !are_whole_calls(&events) {
            (*self.machine, *self.out.output) = before;
            self.is_finishing = false;
            return Err(place);
        }
        for event in events {
            match event.kind {
                EventKind::Reasoning(text) => {
                    Event::append_text(self.out.events, Part::Reasoning, text.into(), event.tokens);
                }
                _ => self.out.events.push(event),
            }
        }
        Ok(std::mem::take(&mut self.machine.place))
    }

    /// Whether held calls count if the turn ends before `index`; nothing has happened.
    fn would_settle(&mut self, place: &Place, draft: &Draft, index: u32) -> bool {
        let before = (self.machine.clone(), self.out.output.clone());
        let told = std::mem::take(self.out.events);
        let end = |reader: &mut Self| reader.finish(TurnReason::Stop, index, false);
        let is_whole = self.settle(place.clone(), draft, end).is_ok();
        (*self.machine, *self.out.output) = before;
        *self.out.events = told;
        self.is_finishing = false;
        is_whole
    }

    /// Reads held calls as reasoning, and then `item`.
    pub(super) fn refuse_draft(
        &mut self,
        place: Place,
        draft: Draft,
        item: Option<HeldItem>,
    ) -> Place {
        let queue = std::mem::take(&mut self.queue);
        self.machine.place = place;
        self.again(draft.items);
        self.is_settling = true;
        self.drain();
        self.is_settling = false;
        self.queue = queue;
        self.again(item.into_iter().collect());
        std::mem::take(&mut self.machine.place)
    }

    /// Ends reasoning that nothing closes.
    fn close_reasoning(&mut self, place: Place) -> Place {
        let Place::In(mut turn, Within::Text(text)) = place else { return place };
        let reasoning = turn.row(self.bound).rule.reasoning.as_ref();
        let suffix = reasoning.map(|reasoning| reasoning.text.closer.suffix.clone());
        self.end_text(&turn, Within::Text(text), &suffix.unwrap_or_default());
        self.out.mended(Some(Mended::Unclosed));
        turn.reasoning = None;
        Place::In(turn, TextState { lead: Some(Lead::Close), line: Line::Start, ..text }.into())
    }

    /// Whether a control token closes a call.
    fn closes_call(&self, id: TokenId) -> bool {
        let grammar = self.bound.grammar();
        !grammar.opens_item(id)
            && (grammar.closes_calls(id)
                || (0..grammar.items.len()).any(|item| grammar.closes_item(item, id)))
    }

    /// Whether a control token ends the turn: it stops the model, or closes the turn.
    fn ends_answer(&self, place: &Place, id: TokenId) -> bool {
        let closer = place.turn().and_then(|turn| turn.row(self.bound).rule.closer());
        self.bound.grammar().stops(id) || closer.is_some_and(|closer| closer.ids.contains(&id))
    }

    /// Whether a control token begins another turn, before this one has ended.
    fn begins_another(&self, place: &Place, id: TokenId) -> bool {
        self.bound.grammar().opens_turn(id) && !self.ends_answer(place, id)
    }
}

/// Whether events tell whole calls, and no text beside them.
fn are_whole_calls(events: &[Event]) -> bool {
    let count = |is: fn(&EventKind) -> bool| events.iter().filter(|event| is(&event.kind)).count();
    let begun = count(|kind| matches!(kind, EventKind::ActionStart { .. }));
    let whole = count(|kind| matches!(kind, EventKind::ActionEnd { complete: true, .. }));
    let is_other = |event: &Event| match &event.kind {
        EventKind::Text(text) => !is_white(text),
        EventKind::Notice { kind, .. } => *kind != NoticeKind::Mended,
        EventKind::Media { .. } => true,
        _ => false,
    };
    begun > 0 && begun == whole && !events.iter().any(is_other)
}
