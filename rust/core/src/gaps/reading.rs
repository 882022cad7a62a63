//! One conversation that is read by its gaps.

use std::cmp::Reverse;
use std::ops::Range;

use chatcodec_vocab::Vocab;

use super::{Found, Gap, Gaps, Place, ReadsAnswer, Unit, id_of, ids, is_token, text};
use crate::message::{Message, Role};

/// The most places where the first question is looked for.
const MOST_OPENERS: usize = 8;

/// A conversation that is being read.
pub(super) struct Reading<'a> {
    pub(super) gaps: &'a Gaps,
    pub(super) units: &'a [Unit],
    pub(super) vocab: &'a Vocab,
    pub(super) answer: &'a ReadsAnswer<'a>,
}

impl Reading<'_> {
    /// Reads all before the first question as a system message: declarations of tools, for example.
    pub(super) fn after_preamble(&self) -> Option<Vec<Message>> {
        // No answer begins before.
        let is_head = |gap: &&Gap| gap.from == Place::Question && gap.to == Place::Answer;
        let heads = || self.gaps.all.iter().filter(is_head).map(Gap::fixed);
        let is_answer =
            |at: usize| heads().any(|head| !head.is_empty() && self.units[at..].starts_with(head));
        let places = (0..self.units.len()).take_while(|at| !is_answer(*at));
        let openers = places.filter_map(|at| Some((at, self.opener_at(at)?)));
        openers.take(MOST_OPENERS).find_map(|(at, opener)| {
            let mut messages = vec![Message::new(Role::System, self.preamble(at, opener))];
            self.rest(&mut messages, Place::Question, at + opener.len())?;
            Some(messages)
        })
    }

    /// What stands before a question, at a unit.
    fn opener_at(&self, at: usize) -> Option<&[Unit]> {
        let mut openers = self.gaps.questions.iter().map(Vec::as_slice);
        openers.find(|opener| self.units[at..].starts_with(opener))
    }

    /// The text before the first question, without what stands around a system message.
    fn preamble(&self, end: usize, opener: &[Unit]) -> String {
        let mut kept = &self.units[..end];
        let ways = |from, to| {
            let is_way = move |gap: &&Gap| gap.from == from && gap.to == to;
            self.gaps.all.iter().filter(is_way).map(Gap::fixed)
        };
        let head = ways(Place::Start, Place::System).find_map(|head| kept.strip_prefix(head));
        kept = head.unwrap_or(kept);
        let tails = ways(Place::System, Place::Question).filter_map(|gap| gap.strip_suffix(opener));
        let tail = tails.into_iter().find_map(|tail| kept.strip_suffix(tail));
        text(tail.unwrap_or(kept), self.vocab)
    }

    /// Reads the message that begins at a unit, and those after it.
    pub(super) fn rest(
        &self,
        messages: &mut Vec<Message>,
        mut place: Place,
        mut at: usize,
    ) -> Option<()> {
        let mut prompt = 0..at;
        let mut held = Found::default();
        loop {
            let (message, gap) = match place {
                Place::Start => return None,
                Place::End => return Some(()),
                Place::Answer => self.answer(prompt, at)?,
                place => self.text(place, at, held)?,
            };
            messages.push(message);
            let Some(Next { to, start, found, declared }) = gap else { return Some(()) };
            messages.extend(declared.map(|text| Message::new(Role::System, text)));
            prompt = start..found.end;
            (place, at) = (to, found.end);
            held = found;
        }
    }

    /// Reads a text, and the gap after it.
    fn text(&self, place: Place, at: usize, held: Found) -> Option<(Message, Option<Next>)> {
        let control = self.next_token(at);
        let next = self.gaps_at(place, at, control).into_iter().next();
        if next.is_none() && control < self.units.len() {
            return None;
        }
        let end = next.as_ref().map_or(self.units.len(), |next| next.start);
        let mut content = text(&self.units[at..end], self.vocab);
        let mut message = match place {
            Place::System => Message::new(Role::System, ""),
            Place::Result => Message::new(Role::Tool, ""),
            _ => Message::new(Role::User, ""),
        };
        if place == Place::Result {
            (message.call_id, message.name) = (held.id, held.name);
            if self.gaps.escapes_results && next.is_some() {
                content = serde_json::from_str(&format!("\"{content}\"")).ok()?;
            }
        }
        message.content = content;
        Some((message, next))
    }

    /// Reads an answer: up to the first gap that the template writes after one.
    fn answer(&self, prompt: Range<usize>, at: usize) -> Option<(Message, Option<Next>)> {
        let mut from = at;
        loop {
            let control = self.next_token(from);
            let found = self.gaps_at(Place::Answer, at, control);
            // Where a question may stand as well, a result answers a call.
            let is_sure = found.iter().all(|next| next.to == Place::Result);
            for next in found {
                let message = self.answer_between(prompt.clone(), at, next.start)?;
                let is_last = match next.to {
                    Place::Result => is_sure || !message.calls.is_empty(),
                    // Some templates write reasoning as a turn of its own before its answer.
                    Place::Answer => !message.content.is_empty() || !message.calls.is_empty(),
                    _ => true,
                };
                if is_last {
                    return Some((message, Some(next)));
                }
            }
            if control == self.units.len() {
                return Some((self.answer_between(prompt, at, control)?, None));
            }
            from = control + 1;
        }
    }

    fn answer_between(&self, prompt: Range<usize>, at: usize, end: usize) -> Option<Message> {
        let prompt = ids(&self.units[prompt], self.vocab)?;
        let mut answer = ids(&self.units[at..end], self.vocab)?;
        let count = answer.len();
        let close = self.units[end..].iter().copied().find_map(id_of);
        answer.extend(close);
        (self.answer)(&prompt, &answer, count)
    }

    /// The first control token from a unit on, or the end.
    fn next_token(&self, at: usize) -> usize {
        at + self.units[at..].iter().copied().position(is_token).unwrap_or(self.units.len() - at)
    }

    /// The gaps whose first control token is this one, the longest first; of equals, the end of the conversation.
    fn gaps_at(&self, from: Place, at: usize, control: usize) -> Vec<Next> {
        let all = self.units.len();
        let mut next: Vec<Next> = Vec::new();
        for gap in self.gaps.all.iter().filter(|gap| gap.from == from) {
            let start = gap.start(self.units, at, control);
            let found = start.and_then(|start| Some((start, gap.found(self.units, start)?)));
            let Some((start, found)) = found.filter(|(_, found)| found.end >= control) else {
                continue;
            };
            if gap.to != Place::End || found.end == all {
                next.push(Next { to: gap.to, start, found, declared: None });
            }
        }
        if next.is_empty() && from == Place::Answer {
            next.extend(self.declared(at, control));
        }
        next.sort_by_key(|next| (Reverse(next.found.end), next.to != Place::End, next.start));
        next
    }

    /// The next question after a text that is no message's: some templates declare tools before the last question.
    fn declared(&self, at: usize, control: usize) -> Option<Next> {
        let is_end = |gap: &&Gap| gap.from == Place::Answer && gap.to == Place::Question;
        self.gaps.all.iter().filter(is_end).find_map(|gap| {
            let mut openers = self.gaps.questions.iter();
            let end = openers.find_map(|opener| gap.fixed().strip_suffix(opener.as_slice()))?;
            let lead = end.iter().copied().position(is_token)?;
            let start = control.checked_sub(lead).filter(|start| *start >= at)?;
            self.units[start..].strip_prefix(end)?;
            let from = start + end.len();
            // No other answer ends before the question.
            let is_answered = |at: &usize| self.units[*at..].starts_with(end);
            let places = (from..self.units.len()).take_while(|at| !is_answered(at));
            let mut questions = places.filter_map(|at| Some((at, self.opener_at(at)?)));
            let (question, opener) = questions.next()?;
            let declared = Some(text(&self.units[from..question], self.vocab));
            let found = Found { end: question + opener.len(), ..Found::default() };
            Some(Next { to: Place::Question, start, found, declared })
        })
    }
}

/// The next message: after the gap from `start` on.
struct Next {
    to: Place,
    start: usize,
    found: Found,
    /// A text before the message that is no message's.
    declared: Option<String>,
}
