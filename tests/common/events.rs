//! Events as the laws compare them: neighbouring texts joined, and ranges that account for every id.

use std::ops::Range;

use chatcodec::{Codec, Event, EventKind, NoticeKind, Stream, StreamPool, TokenId, TurnReason};
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

/// The events of text pushed as `pushes`, merged.
pub fn read_text<'a>(
    mut stream: Stream,
    pushes: impl IntoIterator<Item = &'a str>,
    reason: TurnReason,
) -> Vec<Event> {
    let mut events = Vec::new();
    for text in pushes {
        let mut new = Vec::new();
        stream.push_text(text, &mut new);
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

/// A text without its control characters, raw and in the escapes of JSON.
fn without_controls(text: &str) -> String {
    let mut kept = text.replace(|c: char| c.is_control(), "");
    for short in ["\\n", "\\r", "\\t", "\\b", "\\f"] {
        kept = kept.replace(short, "");
    }
    for code in 0..0x20 {
        kept = kept.replace(&format!("\\u{code:04x}"), "");
    }
    kept
}

/// The text of an event is from the ids of its range. Right after a notice, it may be from the ids of the notice too:
/// a token without meaning is reported before the text that was held back.
pub fn check_texts(codec: &Codec, events: &[Event], ids: &[TokenId]) -> Result<(), TestCaseError> {
    let is_notice = |event: &&Event| matches!(event.kind, EventKind::Notice { .. });
    for (nth, event) in events.iter().enumerate() {
        let (EventKind::Text(text) | EventKind::ActionDelta { text, .. }) = &event.kind else {
            continue;
        };
        let notices = events[..nth].iter().rev().take_while(is_notice);
        let start = notices.map(|notice| notice.tokens.start).min().unwrap_or(u32::MAX);
        let range = start.min(event.tokens.start) as usize..event.tokens.end as usize;
        let bytes: Vec<u8> = ids[range]
            .iter()
            .filter(|&&id| !codec.vocab().is_control(id))
            .flat_map(|&id| codec.vocab().token_bytes(id).unwrap_or_default().to_vec())
            .collect();
        // A control character within a string of arguments is escaped, as JSON wants it.
        let escaped = matches!(event.kind, EventKind::ActionDelta { .. });
        let plain = |text: &str| if escaped { without_controls(text) } else { text.to_owned() };
        let text = plain(text);
        // A character that is not whole may have begun before, or stand for several bytes.
        let whole: Vec<&str> = text.split('\u{fffd}').collect();
        let found = plain(&String::from_utf8_lossy(&bytes));
        // Arguments may be written within a string.
        let in_string = |part: &str| {
            let string = serde_json::to_string(part).expect("text is JSON");
            escaped && found.contains(&string[1..string.len() - 1])
        };
        prop_assert!(
            whole.iter().all(|part| found.contains(part) || in_string(part)),
            "{event:?} is not of {found:?}"
        );
    }
    Ok(())
}

/// The events of ids pushed at once, which ids one by one and ids cut anywhere must give too.
pub fn check_splits(
    codec: &Codec,
    start: Start<'_>,
    ids: &[TokenId],
    cuts: impl IntoIterator<Item = usize>,
) -> Result<Vec<Event>, TestCaseError> {
    check_stream(&start.stream(codec), ids, cuts)
}

/// As [`check_splits`], of any stream.
pub fn check_stream(
    stream: &Stream,
    ids: &[TokenId],
    cuts: impl IntoIterator<Item = usize>,
) -> Result<Vec<Event>, TestCaseError> {
    let whole = read(stream.clone(), &[ids], TurnReason::Stop);
    check_ranges(&whole, ids.len())?;
    prop_assert_eq!(&read_by_id(stream.clone(), ids, TurnReason::Stop), &whole, "id by id");
    check_short_way(stream, ids.chunks(1))?;
    for cut in cuts {
        let (head, tail) = ids.split_at(cut.min(ids.len()));
        check_short_way(stream, [head, tail])?;
        let split = read(stream.clone(), &[head, tail], TurnReason::Stop);
        prop_assert_eq!(&split, &whole, "cut at {}", cut);
    }
    Ok(whole)
}

/// The short way of ids that are nothing but text tells what the machine tells, push by push.
fn check_short_way<'a>(
    stream: &Stream,
    pushes: impl IntoIterator<Item = &'a [TokenId]>,
) -> Result<(), TestCaseError> {
    let (mut short, mut pool) = (stream.clone(), StreamPool::new(&stream.codec()));
    let (mut long, slot) = (stream.clone(), pool.open(stream.clone()));
    let slot = TokenId::try_from(slot).expect("one slot");
    for ids in pushes {
        let mut expected = Vec::new();
        for &id in ids {
            long.push_slowly(id, &mut expected);
        }
        let mut events = Vec::new();
        short.push_all(ids, &mut events);
        prop_assert_eq!(&events, &expected, "{:?}", ids);
        let mut told = Vec::new();
        pool.push(&vec![slot; ids.len()], ids, &mut told).expect("it is open");
        let told = told.into_iter().map(|(_, told)| told.into_event(stream.vocab()));
        prop_assert_eq!(merged(told.collect()), merged(expected), "in a pool: {:?}", ids);
    }
    let mut expected = Vec::new();
    long.finish(TurnReason::Stop, &mut expected);
    for stream in [&mut short, pool.stream(slot).expect("it is open")] {
        let mut events = Vec::new();
        stream.finish(TurnReason::Stop, &mut events);
        prop_assert_eq!(&events, &expected, "at the end");
    }
    Ok(())
}

/// Turns and actions are told one after another: nothing begins before what came before has ended,
/// nothing ends that has not begun, and deltas are of the action that is open.
pub fn check_turns(events: &[&EventKind]) -> Result<(), TestCaseError> {
    let mut turns = 0;
    let mut action = None;
    let mut next_action = 0;
    for event in events {
        match *event {
            EventKind::TurnStart { .. } => {
                prop_assert_eq!(action, None, "a turn begins in an action: {:?}", events);
                turns += 1;
                next_action = 0;
            }
            EventKind::TurnEnd { .. } => {
                prop_assert_eq!(action, None, "a turn ends in an action: {:?}", events);
            }
            EventKind::ActionStart { index, .. } => {
                prop_assert_eq!(action, None, "an action begins in an action: {:?}", events);
                // After a prompt that ends in a turn, its actions are counted on.
                prop_assert!(turns == 0 || *index == next_action, "{:?}", events);
                next_action = index + 1;
                action = Some(*index);
            }
            EventKind::ActionDelta { index, text } => {
                prop_assert_eq!(action, Some(*index), "{:?}", events);
                prop_assert!(!text.is_empty(), "{:?}", events);
            }
            EventKind::ActionEnd { index, .. } => {
                prop_assert_eq!(action.take(), Some(*index), "{:?}", events);
            }
            EventKind::Text(text) | EventKind::Reasoning(text) => {
                prop_assert_eq!(action, None, "text in an action: {:?}", events);
                prop_assert!(!text.is_empty(), "{:?}", events);
            }
            EventKind::Media { .. } => {
                prop_assert_eq!(action, None, "a part in an action: {:?}", events);
            }
            EventKind::Notice { .. } => {}
        }
    }
    prop_assert_eq!(action, None, "an action is never ended: {:?}", events);
    Ok(())
}

/// As [`check_turns`], of a stream from the beginning of a conversation: no turn begins in a turn, and what
/// has begun ends.
pub fn check_whole_turns(events: &[Event]) -> Result<(), TestCaseError> {
    check_turns(&events.iter().map(|event| &event.kind).collect::<Vec<_>>())?;
    let mut open = false;
    for event in events {
        match event.kind {
            EventKind::TurnStart { .. } => {
                prop_assert!(!open, "a turn begins in a turn: {events:?}");
                open = true;
            }
            EventKind::TurnEnd { .. } => open = false,
            _ => {}
        }
    }
    prop_assert!(!open, "a turn is never ended: {:?}", events);
    Ok(())
}

/// In what was encoded nothing is odd; what begins a conversation or ends its last line may be left
/// at the end.
pub fn is_odd(event: &Event) -> bool {
    match &event.kind {
        EventKind::Notice { kind: NoticeKind::Trailing, text } => !text.trim().is_empty(),
        EventKind::Notice { .. } => true,
        _ => false,
    }
}
