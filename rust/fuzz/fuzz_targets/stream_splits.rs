//! However ids are split into pushes, the events are the same, and their ranges cover every id; the short way
//! of ids that are nothing but text, and streams side by side in a pool, tell what the machine tells.
//!
//! The input is a text that a reader can write: its first line names a format, where the stream begins
//! (`start` or `prompt`) and what counts as a marker (`ids`, `ids_or_text` or `text`); what comes after that is
//! generated. A control token is spelled; after the byte 1, its spelling is text. The byte 2 is an id that is none.

#![no_main]

use chatcodec::{Event, MarkerPolicy, Spelling, Stream, StreamPool, TokenId, TurnReason};
use formats::Bound;
use libfuzzer_sys::fuzz_target;

mod formats;

/// What is generated: a control token where one is spelled, bytes that are no UTF-8 one by one.
fn ids(bound: &Bound, mut bytes: &[u8]) -> Vec<TokenId> {
    let mut ids = Vec::new();
    let mut text: Vec<u8> = Vec::new();
    let flush = |text: &mut Vec<u8>, ids: &mut Vec<TokenId>| {
        match std::str::from_utf8(text) {
            Ok(text) => ids.extend(bound.codec.vocab().encode(text)),
            Err(_) => ids.extend(text.iter().map(|&byte| 3 + TokenId::from(byte))),
        }
        text.clear();
    };
    while let Some((&first, rest)) = bytes.split_first() {
        let spelled = |bytes: &[u8]| {
            bound.control.iter().find(|(spelling, _)| bytes.starts_with(spelling.as_bytes()))
        };
        match (first, spelled(rest), spelled(bytes)) {
            (1, Some((spelling, _)), _) => {
                text.extend(spelling.bytes());
                bytes = &rest[spelling.len()..];
            }
            (_, _, Some((spelling, id))) => {
                flush(&mut text, &mut ids);
                ids.push(*id);
                bytes = &bytes[spelling.len()..];
            }
            (2, ..) => {
                flush(&mut text, &mut ids);
                ids.push(TokenId::MAX);
                bytes = rest;
            }
            _ => {
                text.push(first);
                bytes = rest;
            }
        }
    }
    flush(&mut text, &mut ids);
    ids
}

/// Events with neighbouring texts joined.
fn merged(events: impl IntoIterator<Item = Event>) -> Vec<Event> {
    let mut merged: Vec<Event> = Vec::new();
    for event in events {
        let rest = merged.last_mut().map_or(Err(event.clone()), |last| last.join(event));
        merged.extend(rest.err());
    }
    merged
}

/// The events of so many pushes, merged.
fn read<P: Copy>(
    mut stream: Stream,
    pushes: impl Iterator<Item = P>,
    push: impl Fn(&mut Stream, P, &mut Vec<Event>),
) -> Vec<Event> {
    let mut all = Vec::new();
    for pushed in pushes {
        let mut events = Vec::new();
        push(&mut stream, pushed, &mut events);
        all.append(&mut events);
    }
    let mut events = Vec::new();
    stream.finish(TurnReason::Stop, &mut events);
    all.append(&mut events);
    merged(all)
}

/// Two streams in turns, one of them an id behind.
fn in_a_pool(stream: &Stream, ids: &[TokenId]) {
    let mut pool = StreamPool::new(&stream.codec());
    let slots = [pool.open(stream.clone()), pool.open(stream.clone())].map(|slot| slot as TokenId);
    let mut alone = stream.clone();
    let (mut expected, mut out) = (Vec::new(), Vec::new());
    for (at, &id) in ids.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| ids[at]);
        let pushed: Vec<(TokenId, TokenId)> =
            before.map(|before| (slots[1], before)).into_iter().chain([(slots[0], id)]).collect();
        let (to, of): (Vec<_>, Vec<_>) = pushed.into_iter().unzip();
        pool.push(&to, &of, &mut out).expect("both are open");
        let mut events = Vec::new();
        alone.push_slowly(id, &mut events);
        expected.extend(events);
    }
    let told = |slot| -> Vec<Event> {
        let of_slot = out.iter().filter(|(told, _)| *told == slot);
        of_slot.map(|(_, told)| told.clone().into_event(stream.vocab())).collect()
    };
    assert_eq!(told(slots[0]), expected);
    let behind = told(slots[1]);
    assert_eq!(behind[..], expected[..behind.len()]);
}

fn check_ranges(events: &[Event], count: usize) {
    let mut last = 0..0;
    for event in events {
        let tokens = event.tokens.clone();
        assert!(tokens.start <= tokens.end && tokens.start >= last.start && tokens.end >= last.end);
        assert!(tokens.start <= last.end && tokens.start + 1 >= last.end, "{last:?} {event:?}");
        last = tokens;
    }
    assert_eq!(last.end as usize, count);
}

/// A few places to cut at, which the input decides.
fn cuts(bytes: &[u8], length: usize) -> Vec<usize> {
    let mut seed = bytes.iter().fold(17, |seed: u64, &byte| {
        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(byte) + 1)
    });
    let mut cuts = vec![0, length];
    for _ in 0..4 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        cuts.push((seed >> 33) as usize % (length + 1));
    }
    cuts.sort_unstable();
    cuts
}

/// As text, where every character has a position of its own.
fn check_text(stream: &Stream, text: &str, bytes: &[u8]) {
    let push = |stream: &mut Stream, text: &str, out: &mut Vec<Event>| stream.push_text(text, out);
    let whole = read(stream.clone(), std::iter::once(text), push);
    let mut ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    check_ranges(&whole, ends.len());
    ends.push(text.len());
    let each = ends.windows(2).map(|pair| &text[pair[0]..pair[1]]);
    assert_eq!(read(stream.clone(), each, push), whole);
    let cuts: Vec<usize> = cuts(bytes, ends.len() - 1).into_iter().map(|nth| ends[nth]).collect();
    let pushes = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]);
    assert_eq!(read(stream.clone(), pushes, push), whole);
}

fuzz_target!(|bytes: &[u8]| {
    let line = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(0);
    let (head, generated) = bytes.split_at(line);
    let head = String::from_utf8_lossy(head);
    let mut words = head.split(' ');
    let bound = formats::named(words.next().unwrap_or_default());
    let codec = &bound.codec;
    let ids = ids(bound, generated.get(1..).unwrap_or_default());
    let is_whole = words.next() == Some("start");
    let stream = if is_whole { codec.read_stream() } else { codec.stream(None) };
    let stream = match words.next() {
        Some("ids_or_text") => stream.reading(MarkerPolicy::IdsOrText),
        Some("text") => {
            let stream = stream.reading(MarkerPolicy::Text);
            let known = |id: &TokenId| codec.vocab().token_bytes(*id).is_ok();
            let ids: Vec<TokenId> = ids.into_iter().filter(known).collect();
            let text = codec.vocab().decode(&ids, Spelling::Spell).expect("its own ids");
            return check_text(&stream, &text, bytes);
        }
        _ => stream,
    };
    let push =
        |stream: &mut Stream, ids: &[TokenId], out: &mut Vec<Event>| stream.push_all(ids, out);
    let whole = read(stream.clone(), std::iter::once(&ids[..]), push);
    assert_eq!(read(stream.clone(), ids.chunks(1), push), whole);
    let cuts = cuts(bytes, ids.len());
    assert_eq!(
        read(stream.clone(), cuts.windows(2).map(|pair| &ids[pair[0]..pair[1]]), push),
        whole
    );
    let push_slowly = |stream: &mut Stream, ids: &[TokenId], out: &mut Vec<Event>| {
        for &id in ids {
            stream.push_slowly(id, out);
        }
    };
    assert_eq!(read(stream.clone(), ids.chunks(1), push_slowly), whole);
    assert_eq!(read(stream.clone().keeping(), ids.chunks(2), push), whole);
    in_a_pool(&stream, &ids);
    check_ranges(&whole, ids.len());
    codec.decode(&ids);
});
