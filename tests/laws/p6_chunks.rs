//! P6: however ids are split into pushes, the events are the same.

use crate::common::conversation::{Conversation, conversation, options};
use crate::common::events::{Start, check_texts, is_odd, read, read_by_id};
use crate::common::outside;
use crate::common::streams::ids;
use crate::common::{TestCodec, check, codecs};
use chatcodec::{
    Boundary, EncodeOptions, Event, EventKind, Message, Role, StreamPool, TokenId, TurnReason,
    collect,
};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// The events of ids in any split, and their texts where none has begun in a prompt.
fn check_splits(
    codec: &TestCodec,
    start: Start<'_>,
    ids: &[TokenId],
    cuts: impl IntoIterator<Item = usize>,
) -> Result<Vec<Event>, TestCaseError> {
    let whole = crate::common::events::check_splits(&codec.codec, start, ids, cuts)?;
    if !matches!(start, Start::Prompt(_)) {
        check_texts(&codec.codec, &whole, ids)?;
    }
    Ok(whole)
}

#[test]
fn every_split_of_a_short_stream() {
    for codec in codecs() {
        check(&codec.name, 125, ids(codec), |ids| {
            for start in [Start::Conversation, Start::Completion] {
                check_splits(codec, start, &ids, 0..=ids.len())?;
            }
            Ok(())
        });
    }
}

/// A conversation is read as events in any split; after any of its ids as the prompt too.
#[test]
fn every_split_of_a_conversation() {
    for codec in codecs() {
        let inputs = (conversation(codec), options(), any::<prop::sample::Index>());
        check(&codec.name, 50, inputs, |(conversation, options, prompt)| {
            // Of what is written in another way, such as an object in a string, it is told that it is mended.
            let messages = conversation.canonical(codec);
            let encoding = Conversation { messages, ..conversation }.encode(codec, &options);
            let encoding = encoding.expect("in the domain");
            let ids = encoding.ids();
            let events = check_splits(codec, Start::Conversation, ids, 0..=ids.len())?;
            prop_assert!(!events.iter().any(is_odd), "{events:?}");
            let (prompt, rest) = ids.split_at(prompt.index(ids.len() + 1));
            check_splits(codec, Start::Prompt(prompt), rest, 0..=rest.len())?;
            Ok(())
        });
    }
}

#[test]
fn random_splits_of_long_streams() {
    for codec in codecs() {
        let long = prop::collection::vec(ids(codec), 10..30).prop_map(|streams| streams.concat());
        let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..40);
        check(&codec.name, 40, (long, cuts), |(ids, cuts)| {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(ids.len() + 1)).collect();
            cuts.sort_unstable();
            let whole = check_splits(codec, Start::Conversation, &ids, [])?;
            let mut pushes = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([ids.len()]) {
                pushes.push(&ids[from..cut]);
                from = cut;
            }
            let stream = Start::Conversation.stream(&codec.codec);
            prop_assert_eq!(read(stream, &pushes, TurnReason::Stop), whole);
            Ok(())
        });
    }
}

/// Streams that take turns in a pool, a random few of them in each step, tell what each tells alone.
#[test]
fn streams_in_a_pool_tell_what_they_tell_alone() {
    const STREAMS: usize = 3000;
    for codec in codecs() {
        let kinds = prop::collection::vec((ids(codec), 0..3usize), 40);
        check(&codec.name, 4, (kinds, any::<u64>()), |(kinds, seed)| {
            let prompt = codec.codec.generation_prompt().to_vec();
            let start = |kind: usize| match kind {
                0 => Start::Conversation,
                1 => Start::Completion,
                _ => Start::Prompt(&prompt),
            };
            let alone: Vec<Vec<Event>> = kinds
                .iter()
                .map(|(ids, kind)| {
                    read_by_id(start(*kind).stream(&codec.codec), ids, TurnReason::Stop)
                })
                .collect();
            let mut pool = StreamPool::new(&codec.codec);
            for nth in 0..STREAMS {
                let slot = pool.open(start(kinds[nth % kinds.len()].1).stream(&codec.codec));
                prop_assert_eq!(slot, nth);
            }
            let mut told: Vec<Vec<Event>> = vec![Vec::new(); STREAMS];
            let mut read = vec![0; STREAMS];
            let mut chance = seed;
            while read.iter().enumerate().any(|(nth, &at)| at < kinds[nth % kinds.len()].0.len()) {
                let (mut slots, mut pushed) = (Vec::new(), Vec::new());
                for (nth, at) in read.iter_mut().enumerate() {
                    chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // Some wait, some come twice.
                    for _ in 0..(chance >> 62) {
                        if let Some(&id) = kinds[nth % kinds.len()].0.get(*at) {
                            slots.push(TokenId::try_from(nth).expect("few"));
                            pushed.push(id);
                            *at += 1;
                        }
                    }
                }
                let mut out = Vec::new();
                pool.push(&slots, &pushed, &mut out).expect("all are open");
                for (slot, event) in out {
                    told[slot as usize].push(event.into_event(codec.codec.vocab()));
                }
            }
            for (nth, mut events) in told.into_iter().enumerate() {
                let slot = TokenId::try_from(nth).expect("few");
                pool.close(slot).expect("it is open").finish(TurnReason::Stop, &mut events);
                let expected = &alone[nth % kinds.len()];
                prop_assert_eq!(&crate::common::events::merged(events), expected, "slot {}", nth);
            }
            prop_assert!(pool.is_empty());
            Ok(())
        });
    }
}

/// A copy goes its own way; a stream that keeps its message tells the one that its events tell.
#[test]
fn a_copy_and_a_kept_message_agree_with_the_events() {
    for codec in codecs() {
        let inputs = (ids(codec), any::<prop::sample::Index>());
        check(&codec.name, 300, inputs, |(ids, at)| {
            let at = at.index(ids.len() + 1);
            let mut stream = codec.codec.stream(None).keeping();
            let mut events = Vec::new();
            stream.push_all(&ids[..at], &mut events);
            let mut copy = stream.clone();
            let mut told = events.clone();
            copy.push_all(&ids[..at], &mut told);
            copy.finish(TurnReason::Length, &mut told);
            stream.push_all(&ids[at..], &mut events);
            stream.finish(TurnReason::Stop, &mut events);
            let whole = read(codec.codec.stream(None), &[&ids], TurnReason::Stop);
            prop_assert_eq!(&crate::common::events::merged(events), &whole);
            let mut first = collect(&whole)
                .into_iter()
                .next()
                .unwrap_or_else(|| Message::new(Role::Assistant, ""));
            first.number_calls();
            prop_assert_eq!(stream.message(), first);
            Ok(())
        });
    }
}

/// `decode` and `parse` are the events of the same ids, collected.
#[test]
fn the_whole_parse_is_the_events_collected() {
    for codec in codecs() {
        check(&codec.name, 300, ids(codec), |ids| {
            let parsed = codec.codec.parse(&ids, None);
            let events = read(codec.codec.stream(None), &[&ids], TurnReason::Stop);
            let mut message = collect(&events)
                .into_iter()
                .next()
                .unwrap_or_else(|| Message::new(Role::Assistant, ""));
            message.number_calls();
            prop_assert_eq!(&parsed.message, &message);
            let end = events.iter().find_map(|event| match event.kind {
                EventKind::TurnEnd { reason, .. } => Some((reason, event.tokens.end as usize)),
                _ => None,
            });
            prop_assert_eq!(Some((parsed.finish, parsed.rest)), end);
            Ok(())
        });
    }
}

/// A completion read after its prompt is the last message of the conversation.
#[test]
fn a_completion_is_the_last_message() {
    for codec in codecs() {
        let inputs = (conversation(codec), conversation(codec));
        check(&codec.name, 500, inputs, |(mut before, last)| {
            let last = last.messages.into_iter().find(|message| message.role == Role::Assistant);
            let last = last.unwrap_or_else(|| Message::new(Role::Assistant, "\n\nHello"));
            let prompt =
                EncodeOptions { add_generation_prompt: Some(true), ..EncodeOptions::default() };
            let prompt = before.encode(codec, &prompt).expect("in the domain");
            before.messages.push(last);
            let whole = EncodeOptions { boundary: Boundary::Isolated, ..EncodeOptions::default() };
            let whole = before.encode(codec, &whole).expect("in the domain");
            let Some(completion) = tail(&before, prompt.ids(), whole.ids()) else {
                return outside();
            };
            let events = check_splits(codec, Start::Prompt(prompt.ids()), completion, [])?;
            let told = collect(&events);
            prop_assert_eq!(told.len(), 1, "{:?}", events);
            let expected = before.canonical(codec).pop().expect("a message");
            prop_assert_eq!(unnumbered(&told[0]), unnumbered(&expected));
            let parsed = codec.codec.parse(completion, Some(prompt.ids()));
            prop_assert_eq!(unnumbered(&parsed.message), unnumbered(&expected));
            // The stop id is the last of the message; after it comes the line's end.
            let stop = completion.iter().rposition(|id| codec.codec.stop_ids().contains(id));
            prop_assert_eq!(Some(parsed.rest), stop.map(|stop| stop + 1));
            Ok(())
        });
    }
}

/// What follows the prompt; earlier turns of the assistant are isolated in `whole` only, which may
/// make its prompt another one.
fn tail<'a>(
    conversation: &Conversation,
    prompt: &[TokenId],
    whole: &'a [TokenId],
) -> Option<&'a [TokenId]> {
    let rest = whole.strip_prefix(prompt);
    let (_, earlier) = conversation.messages.split_last()?;
    assert!(rest.is_some() || earlier.iter().any(|message| message.role == Role::Assistant));
    rest
}

fn unnumbered(message: &Message) -> Message {
    let mut message = message.clone();
    message.calls.iter_mut().for_each(|call| call.id = None);
    message
}
