//! The fast path: ids that emit their text and do nothing else, which most ids do.
//!
//! The law: where the fast path reads an id, [`Reader::input`](super::Reader::input) would emit the same event and
//! reach the same state. The tests of streams read every input both ways; `Stream::push_slowly` is the slow way.

use std::ops::Range;

use super::calls::Call;
use super::{Machine, Place, Within};
use crate::bound::Bound;
use crate::event::Part;
use crate::grammar::Closer;
use crate::stream::output::Output;
use chatcodec_vocab::TokenId;

/// Ids that emitted nothing but text, and the text.
pub(in crate::stream) struct Run {
    pub(in crate::stream) count: usize,
    pub(in crate::stream) part: Part,
    pub(in crate::stream) text: String,
    pub(in crate::stream) tokens: Range<u32>,
}

impl Machine {
    /// Reads text, if the text is emitted as it is and nothing else happens: returns the part that it belongs to.
    #[inline]
    pub(in crate::stream) fn pass(
        &mut self,
        bound: &Bound,
        output: &mut Output,
        text: &str,
    ) -> Option<Part> {
        if self.is_busy(output) {
            return None;
        }
        let passes = |closer: Option<&Closer>| closer.is_some_and(|closer| closer.passes(text));
        let Place::In(turn, within) = &mut self.place else { return None };
        let (is_plain, part) = match within {
            Within::Text(state) => {
                let begins_otherwise = state.may_begin_otherwise()
                    || state.may_call(turn, &self.settings, bound, text);
                let is_plain = !begins_otherwise && passes(turn.closer(bound));
                (is_plain, turn.part(bound))
            }
            Within::Call(call) => {
                let is_plain = match call {
                    Call::Code(code) => {
                        !code.is_fresh && passes(bound.grammar().items[code.item].rule.closer())
                    }
                    Call::Object(call) => call.scanner.push_arguments(text),
                    Call::Arguments(call) => call.body.take_same(text),
                };
                (is_plain, Part::Action(turn.call_index()))
            }
            _ => return None,
        };
        output.in_run |= is_plain;
        is_plain.then_some(part)
    }

    /// Reads a comma between JSON arguments, or the text after the comma. Returns the part and the emitted text: nothing
    /// for a comma, which is held back until the next text.
    pub(in crate::stream) fn pass_joined(
        &mut self,
        output: &mut Output,
        text: &str,
    ) -> Option<(Part, String)> {
        if self.is_busy(output) {
            return None;
        }
        let Place::In(turn, Within::Call(call)) = &mut self.place else { return None };
        let said = match call {
            Call::Object(call) => call.scanner.push_joined(text),
            Call::Arguments(call) => call.body.take_joined(text),
            Call::Code(_) => None,
        }?;
        output.in_run = true;
        Some((Part::Action(turn.call_index()), said))
    }

    /// Reads the ids that emit their text, in a text of a turn: all their text, if there are any. `text_of` returns
    /// the text of an id, `first` is the position of the first id.
    pub(in crate::stream) fn pass_run<'t>(
        &self,
        bound: &Bound,
        output: &mut Output,
        ids: &[TokenId],
        text_of: impl Fn(TokenId) -> Option<&'t str>,
        first: u32,
    ) -> Option<Run> {
        let (part, closer) = self.in_text(bound, output)?;
        let mut text = String::new();
        let mut count = 0;
        for &id in ids {
            let Some(said) = text_of(id).filter(|said| closer.passes(said)) else { break };
            text.push_str(said);
            count += 1;
        }
        let last = first.saturating_add(u32::try_from(count).ok()?.checked_sub(1)?);
        // The range of the joined events of the single ids.
        output.in_run = true;
        let start = output.cover(Some(first), last.saturating_sub(1).max(first)).start;
        let end = output.cover(Some(last), last).end;
        Some(Run { count, part, text, tokens: start..end })
    }

    /// Part and end of the text that is read, where nothing is held and text comes next.
    fn in_text<'b>(&self, bound: &'b Bound, output: &Output) -> Option<(Part, &'b Closer)> {
        match &self.place {
            Place::In(turn, Within::Text(text))
                if !self.is_busy(output)
                    && !text.may_begin_otherwise()
                    && !self.settings.looks_for_calls(turn) =>
            {
                Some((turn.part(bound), turn.closer(bound)?))
            }
            _ => None,
        }
    }

    /// Whether the next input may do more than emit its text.
    fn is_busy(&self, output: &Output) -> bool {
        self.uncertain.is_some() || output.has_resumed() || !self.held.is_empty()
    }
}
