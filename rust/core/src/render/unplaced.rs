//! The parts of a conversation without a place in a format.
//!
//! In: messages and tools. Out: the parts to leave out. Cost: that of rendering; a message is rendered again
//! without what was found in it.

use std::collections::HashSet;

use super::plan::{Plan, late_systems};
use super::{RenderOptions, Renderer, reasoning_from, refused, results_apart};
use crate::conversation::leave_out;
use crate::error::{Droppable, MessagePart, Result};
use crate::format::Format;
use crate::grammar::Grammar;
use crate::message::Message;
use chatcodec_vocab::Vocab;

/// Removes the parts without a place from linked messages, and returns them; empty if the conversation can be
/// written. The rest may again have parts without a place.
///
/// # Errors
/// An error about a part that cannot be left out.
pub(crate) fn find_unplaced(
    messages: &mut [Message],
    format: &Format,
    grammar: &Grammar,
    vocab: &Vocab,
    options: &RenderOptions<'_>,
) -> Result<Vec<Droppable>> {
    let late: Vec<_> = late_systems(messages, format)
        .chain(results_apart(messages, grammar))
        .map(|index| Droppable::Part(index, MessagePart::Whole))
        .collect();
    if !late.is_empty() {
        return Ok(late);
    }
    let plan = match Plan::new(messages, format, options.tools.is_some(), options.thinks()) {
        Ok(plan) => plan,
        Err(error) => return error.droppable().map(|found| vec![found]).ok_or(error),
    };
    let mut renderer = Renderer::new(format, grammar, vocab, options);
    let reasoning_from = reasoning_from(messages, options, format);
    let mut found = Vec::new();
    let mut left_out = HashSet::new();
    let mut previous = None;
    for step in &plan.steps {
        while let Err(error) = renderer.step(step, messages, reasoning_from, previous) {
            let Some(Droppable::Part(index, part)) = error.droppable() else { return Err(error) };
            if part == MessagePart::Whole {
                found.push(Droppable::Part(index, part));
                left_out.insert(index);
                break;
            }
            let Some(message) = messages.get_mut(index) else { return Err(error) };
            let before = found.len();
            if let MessagePart::Call(_) = part {
                // All parts of one kind at once, the last first, so that indices stay valid.
                let calls = message.calls.iter().enumerate().rev();
                let unplaced = calls.filter(|(_, call)| renderer.item(call).is_none());
                found.extend(
                    unplaced.map(|(at, _)| Droppable::Part(index, MessagePart::Call(at as u32))),
                );
            } else if leave_out(message, part) {
                found.push(Droppable::Part(index, part));
            }
            for drop in &found[before..] {
                if let Droppable::Part(_, part @ MessagePart::Call(_)) = *drop {
                    leave_out(message, part);
                }
            }
            if found.len() == before {
                return Err(error);
            }
        }
        // A removed message has no influence on the messages after it.
        previous = step.message().filter(|index| !left_out.contains(index)).or(previous);
    }
    if found.is_empty()
        && let Err(error) = refused::check(messages, reasoning_from, format, options)
    {
        return error.droppable().map(|part| vec![part]).ok_or(error);
    }
    Ok(found)
}
