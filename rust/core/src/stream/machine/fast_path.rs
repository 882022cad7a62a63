//! The fast path: ids that emit their text and do nothing else, which most ids do.
//!
//! The law: where the fast path reads an id, [`Reader::input`](super::Reader::input) would emit the same event and
//! reach the same state. The tests of streams read every input both ways; `Stream::push_slowly` is the slow way.

use std::ops::Range;

use super::{Machine, Place, Within};
use crate::bound::Bound;
use crate::event::Part;
use crate::grammar::Closer;
use crate::stream::output::Output;
use chatcodec_vocab::TokenId;

/// Ids that emitted nothing but text, and the text: none, if all of it is held back.
pub(in crate::stream) struct Run {
    pub(in crate::stream) count: u32,
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
            Within::Call(call) => (call.take_same(bound, text), Part::Action(turn.call_index())),
            _ => return None,
        };
        output.in_run |= is_plain;
        is_plain.then_some(part)
    }

    /// Reads the ids that emit their text, in a text of a turn or in a call: all their text, if there are any. A comma
    /// of JSON arguments emits nothing until the next value: a closing bracket after the comma would drop it. `text_of`
    /// returns the text of an id, `first` is the position of the first id.
    pub(in crate::stream) fn pass_run<'t>(
        &mut self,
        bound: &Bound,
        output: &mut Output,
        ids: &[TokenId],
        text_of: impl Fn(TokenId) -> Option<&'t str>,
        first: u32,
    ) -> Option<Run> {
        if self.is_busy(output) {
            return None;
        }
        let Place::In(turn, within) = &mut self.place else { return None };
        let part = match within {
            Within::Call(_) => Part::Action(turn.call_index()),
            _ => turn.part(bound),
        };
        let closer = match within {
            Within::Text(text) => {
                let is_plain = !text.may_begin_otherwise() && !self.settings.looks_for_calls(turn);
                Some(turn.closer(bound).filter(|_| is_plain)?)
            }
            _ => None,
        };
        let (mut text, mut count) = (String::new(), 0);
        // Positions of the first and the last id that emitted text.
        let mut said: Option<(u32, u32)> = None;
        for &id in ids {
            let Some(own) = text_of(id) else { break };
            let before = text.len();
            let is_read = match (&mut *within, closer) {
                (Within::Call(call), _) => call.take(bound, own, &mut text),
                (_, Some(closer)) if closer.passes(own) => {
                    text.push_str(own);
                    true
                }
                _ => false,
            };
            if !is_read {
                break;
            }
            if text.len() > before {
                let at = first.saturating_add(count);
                said = Some((said.map_or(at, |(first, _)| first), at));
            }
            count += 1;
        }
        if count == 0 {
            return None;
        }
        // The range of the joined events of the single ids.
        output.in_run = true;
        let tokens = said.map_or(0..0, |(first, last)| {
            let start = output.cover(Some(first), last.saturating_sub(1).max(first)).start;
            start..output.cover(Some(last), last).end
        });
        Some(Run { count, part, text, tokens })
    }

    /// Whether the next input may do more than emit its text.
    fn is_busy(&self, output: &Output) -> bool {
        self.uncertain.is_some() || output.has_resumed() || !self.held.is_empty()
    }
}
