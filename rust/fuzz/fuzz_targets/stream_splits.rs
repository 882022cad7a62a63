//! However ids are split into pushes, the events are the same, and their ranges cover every id; the short way
//! of ids that are nothing but text, and streams side by side in a pool, tell what the machine tells.

#![no_main]

use std::sync::LazyLock;

use chatcodec::{Codec, Event, Format, Stream, StreamPool, TokenId, TurnReason, Vocab};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// Every format that binds to the embedded vocabulary, with its control tokens.
static CODECS: LazyLock<Vec<(Codec, Vec<TokenId>)>> = LazyLock::new(|| {
    let bind = |name| {
        let format = Format::built_in(name).expect("it is built in");
        let codec = Codec::new(&format, &Vocab::embedded()).ok()?;
        let mut control: Vec<TokenId> = codec.vocab().control().values().copied().collect();
        control.sort_unstable();
        control.dedup();
        Some((codec, control))
    };
    Format::names().filter_map(bind).collect()
});

#[derive(Debug, Arbitrary)]
enum Piece<'a> {
    /// A control token that the format knows.
    Control(u8),
    Text(&'a str),
    Byte(u8),
    Id(TokenId),
}

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    codec: u8,
    from_the_beginning: bool,
    pieces: Vec<Piece<'a>>,
    cuts: Vec<u16>,
}

fn ids((codec, control): &(Codec, Vec<TokenId>), pieces: &[Piece<'_>]) -> Vec<TokenId> {
    let mut ids = Vec::new();
    for piece in pieces {
        match *piece {
            Piece::Control(nth) => {
                ids.push(control[usize::from(nth) % control.len()]);
            }
            Piece::Text(text) => ids.extend(codec.vocab().encode(text)),
            Piece::Byte(byte) => ids.push(3 + TokenId::from(byte)),
            Piece::Id(id) => ids.push(id),
        }
    }
    ids
}

/// Events with neighbouring texts joined.
fn read<'a>(mut stream: Stream, pushes: impl Iterator<Item = &'a [TokenId]>) -> Vec<Event> {
    let mut merged: Vec<Event> = Vec::new();
    let mut take = |events: Vec<Event>| {
        for event in events {
            let rest = merged.last_mut().map_or(Err(event.clone()), |last| last.join(event));
            merged.extend(rest.err());
        }
    };
    for ids in pushes {
        let mut events = Vec::new();
        stream.push_all(ids, &mut events);
        take(events);
    }
    let mut events = Vec::new();
    stream.finish(TurnReason::Stop, &mut events);
    take(events);
    merged
}

/// Two streams in turns, one of them an id behind.
fn in_a_pool(stream: &Stream, ids: &[TokenId]) {
    let mut pool = StreamPool::new(stream.codec());
    let slots = [pool.open(stream.clone()), pool.open(stream.clone())].map(|slot| slot as TokenId);
    let mut alone = stream.clone().thorough();
    let (mut expected, mut out) = (Vec::new(), Vec::new());
    for (at, &id) in ids.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| ids[at]);
        let pushed: Vec<(TokenId, TokenId)> =
            before.map(|before| (slots[1], before)).into_iter().chain([(slots[0], id)]).collect();
        let (to, of): (Vec<_>, Vec<_>) = pushed.into_iter().unzip();
        pool.push(&to, &of, &mut out).expect("both are open");
        let mut events = Vec::new();
        alone.push(id, &mut events);
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

fuzz_target!(|input: Input<'_>| {
    let bound = &CODECS[usize::from(input.codec) % CODECS.len()];
    let (codec, ids) = (&bound.0, ids(bound, &input.pieces));
    let stream = if input.from_the_beginning { codec.read_stream() } else { codec.stream(None) };
    let whole = read(stream.clone(), std::iter::once(&ids[..]));
    assert_eq!(read(stream.clone(), ids.chunks(1)), whole);
    let mut cuts: Vec<usize> =
        input.cuts.iter().map(|&cut| usize::from(cut) % (ids.len() + 1)).collect();
    cuts.extend([0, ids.len()]);
    cuts.sort_unstable();
    assert_eq!(read(stream.clone(), cuts.windows(2).map(|pair| &ids[pair[0]..pair[1]])), whole);
    assert_eq!(read(stream.clone().thorough(), ids.chunks(1)), whole);
    let kept = stream.clone().keeping();
    assert_eq!(read(kept, ids.chunks(2)), whole);
    in_a_pool(&stream, &ids);
    let mut last = 0..0;
    for event in &whole {
        let tokens = event.tokens.clone();
        assert!(tokens.start <= tokens.end && tokens.start >= last.start && tokens.end >= last.end);
        assert!(tokens.start <= last.end && tokens.start + 1 >= last.end, "{last:?} {event:?}");
        last = tokens;
    }
    assert_eq!(last.end as usize, ids.len());
    codec.decode(&ids);
});
