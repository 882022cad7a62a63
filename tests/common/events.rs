//! Events as the laws compare them: neighbouring texts joined, and ranges that account for every id.

use std::ops::Range;

use chatcodec::{Codec, Event, Stream, TokenId, TurnReason};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// Joins neighbouring text of one kind, their ranges united.
pub fn merged(events: Vec<Event>) -> Vec<Event> {
    let mut merged: Vec<Event> = Vec::new();
    for event in events {
        match merged.last_mut() {
            Some(last) => {
                if let Err(event) = last.join(event) {
                    merged.push(event);
                }
            }
            None => merged.push(event),
        }
    }
    merged
}

/// Where a stream begins.
#[derive(Debug, Clone, Copy)]
pub enum Start<'a> {
    /// At the beginning of a conversation.
    Conversation,
    /// After the generation prompt.
    Completion,
    /// After this prompt.
    Prompt(&'a [TokenId]),
}

impl Start<'_> {
    pub fn stream(self, codec: &Codec) -> Stream {
        match self {
            Self::Conversation => codec.read_stream(),
            Self::Completion => codec.stream(None),
            Self::Prompt(ids) => codec.stream(Some(ids)),
        }
    }
}

/// The events of ids pushed as `pushes`, merged.
pub fn read(mut stream: Stream, pushes: &[&[TokenId]], reason: TurnReason) -> Vec<Event> {
    let mut events = Vec::new();
    for ids in pushes {
        // Each push has its own list, as for a caller who takes the events as they come.
        let mut new = Vec::new();
        stream.push_all(ids, &mut new);
        events.append(&mut new);
    }
    let mut new = Vec::new();
    stream.finish(reason, &mut new);
    events.append(&mut new);
    merged(events)
}

/// The events of ids pushed one by one, merged.
pub fn read_by_id(mut stream: Stream, ids: &[TokenId], reason: TurnReason) -> Vec<Event> {
    let mut events = Vec::new();
    for &id in ids {
        let mut new = Vec::new();
        stream.push(id, &mut new);
        events.append(&mut new);
    }
    stream.finish(reason, &mut events);
    merged(events)
}

/// Ranges are monotone, cover every id, and two neighbours share one id at most.
pub fn check_ranges(events: &[Event], ids: usize) -> Result<(), TestCaseError> {
    let mut last: Range<u32> = 0..0;
    for event in events {
        let Range { start, end } = event.tokens;
        prop_assert!(start <= end, "a range runs backwards: {event:?}");
        prop_assert!(start >= last.start && end >= last.end, "not monotone: {last:?} {event:?}");
        prop_assert!(start <= last.end, "ids {}..{start} are in no event", last.end);
        prop_assert!(start + 1 >= last.end, "shares more than one id: {last:?} {event:?}");
        last = start..end;
    }
    prop_assert_eq!(last.end as usize, ids, "the last ids are in no event");
    Ok(())
}
