//! However ids are split into pushes, the events are the same, and their ranges cover every id.

#![no_main]

use std::sync::LazyLock;

use chatcodec::{Codec, Event, Format, Stream, TokenId, TurnReason, Vocab};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

static CODEC: LazyLock<Codec> = LazyLock::new(|| {
    let format = Format::built_in("internlm2").expect("it is built in");
    Codec::new(&format, &Vocab::embedded()).expect("they fit")
});

#[derive(Debug, Arbitrary)]
enum Piece<'a> {
    /// One of the eight control tokens that the format knows.
    Control(u8),
    Text(&'a str),
    Byte(u8),
    Id(TokenId),
}

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    from_the_beginning: bool,
    pieces: Vec<Piece<'a>>,
    cuts: Vec<u16>,
}

fn ids(pieces: &[Piece<'_>]) -> Vec<TokenId> {
    let mut ids = Vec::new();
    for piece in pieces {
        match *piece {
            Piece::Control(nth) => {
                ids.push([1, 2, 92538, 92539, 92540, 92541, 92542, 92543][usize::from(nth % 8)])
            }
            Piece::Text(text) => ids.extend(CODEC.vocab().encode(text)),
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

fuzz_target!(|input: Input<'_>| {
    let ids = ids(&input.pieces);
    let stream = if input.from_the_beginning { CODEC.read_stream() } else { CODEC.stream(None) };
    let whole = read(stream.clone(), std::iter::once(&ids[..]));
    assert_eq!(read(stream.clone(), ids.chunks(1)), whole);
    let mut cuts: Vec<usize> =
        input.cuts.iter().map(|&cut| usize::from(cut) % (ids.len() + 1)).collect();
    cuts.extend([0, ids.len()]);
    cuts.sort_unstable();
    assert_eq!(read(stream, cuts.windows(2).map(|pair| &ids[pair[0]..pair[1]])), whole);
    let mut last = 0..0;
    for event in &whole {
        let tokens = event.tokens.clone();
        assert!(tokens.start <= tokens.end && tokens.start >= last.start && tokens.end >= last.end);
        assert!(tokens.start <= last.end && tokens.start + 1 >= last.end, "{last:?} {event:?}");
        last = tokens;
    }
    assert_eq!(last.end as usize, ids.len());
    CODEC.decode(&ids);
});
