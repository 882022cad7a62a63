//! Images and other parts: their control tokens are a function of kinds and sizes, each id knows its part, and a
//! conversation comes back, in any chunking. For every format that has placeholders.

use crate::common::dialogue::hostile;
use crate::common::table::{Entry, check_each, entries};
use chatcodec::{
    EncodeOptions, Event, Media, MediaKind, MediaPlace, Message, Piece, Role, SourceField, TokenId,
    TurnReason,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// The kinds of a format, and of each whether it may have several tokens, and several rows.
fn kinds(entry: &Entry) -> Vec<(MediaKind, bool, bool)> {
    let format = entry.codec.format();
    let kinds = format.media();
    let known = MediaKind::ALL.into_iter().filter(|kind| kinds.contains(&kind.name()));
    let takes = |kind, rows, count| {
        let part = Media { kind, at: 0, count, rows, place: MediaPlace::Content(0) };
        let message = Message { media: vec![part], ..Message::new(Role::User, "x") };
        entry.encode(&[message], &EncodeOptions::default()).is_ok()
    };
    known.map(|kind| (kind, takes(kind, 1, 2), takes(kind, 2, 2))).collect()
}

fn seeing() -> impl Iterator<Item = &'static Entry> {
    entries().iter().filter(|entry| !kinds(entry).is_empty())
}

/// A user's message of hostile texts and of parts.
fn message(entry: &'static Entry) -> impl Strategy<Value = Message> {
    let media = (proptest::sample::select(kinds(entry)), 1..5u32, 1..4u32).prop_map(
        |((kind, is_many, has_rows), count, rows)| {
            let count = if is_many { count } else { 1 };
            let rows = if has_rows { rows } else { 1 };
            Media { kind, at: 0, count, rows, place: MediaPlace::Content(0) }
        },
    );
    let part = prop_oneof![hostile(entry).prop_map(Err), media.prop_map(Ok)];
    vec(part, 1..6).prop_map(|parts| {
        let mut message = Message::new(Role::User, "");
        for (nth, part) in parts.into_iter().enumerate() {
            match part {
                Err(text) => message.content.push_str(&text),
                Ok(part) => {
                    let at = message.content.len();
                    let place = MediaPlace::Content(nth as u32);
                    message.media.push(Media { at, place, ..part });
                }
            }
        }
        message
    })
}

/// The same with each text as a letter.
fn harmless(message: &Message) -> Message {
    let mut plain = Message::new(message.role, "");
    for piece in message.pieces() {
        match piece {
            Piece::Text(_) => plain.content.push('x'),
            Piece::Media(part) => plain.media.push(Media { at: plain.content.len(), ..*part }),
        }
    }
    plain
}

fn read(entry: &Entry, pushes: &[&[TokenId]]) -> Vec<Event> {
    let mut stream = entry.codec.stream(Some(&[]));
    let mut events = Vec::new();
    for push in pushes {
        stream.push_all(push, &mut events);
    }
    stream.finish(TurnReason::Stop, &mut events);
    let mut joined: Vec<Event> = Vec::new();
    for event in events {
        let rest = match joined.last_mut() {
            Some(last) => last.join(event),
            None => Err(event),
        };
        joined.extend(rest.err());
    }
    joined
}

#[test]
fn parts_come_back_and_text_moves_none() {
    assert!(seeing().count() > 0);
    let inputs = |entry| (message(entry), any::<Index>());
    check_each(seeing(), 120, inputs, |entry, (message, cut)| {
        let options = EncodeOptions::default();
        let messages = [message];
        let encoding = entry.encode(&messages, &options).expect("what has a place");
        // P1: the control tokens are those of harmless texts.
        let control = |encoding: &chatcodec::Encoding| -> Vec<TokenId> {
            let is_control = encoding.is_control();
            let ids = encoding.ids().iter().zip(is_control);
            ids.filter(|(_, is)| *is == 1).map(|(id, _)| *id).collect()
        };
        let plain = entry.encode(&[harmless(&messages[0])], &options).expect("plain text");
        prop_assert_eq!(control(&encoding), control(&plain));
        // P2: parts and texts come back.
        let canonical = entry.codec.canonical(messages.to_vec(), None);
        prop_assert_eq!(entry.codec.decode(encoding.ids()), canonical);
        // P7: each token of a part has its path, and no other id does.
        let sources = encoding.sources();
        let (is_control, is_content) = (encoding.is_control(), encoding.is_content());
        let placeholders = encoding.placeholders();
        prop_assert_eq!(placeholders.len(), messages[0].media.len());
        for (found, part) in placeholders.iter().zip(&messages[0].media) {
            let field = SourceField::Media(part.kind, part.place);
            prop_assert_eq!((found.source.field, found.kind), (field, part.kind));
            let separators = part.rows as usize - 1;
            prop_assert_eq!(found.ids.len(), (part.count * part.rows) as usize + separators);
            prop_assert!(
                found.around.start <= found.ids.start && found.ids.end <= found.around.end
            );
            for at in found.around.clone() {
                prop_assert_eq!((sources[at], is_content[at]), (found.source, 0));
                // The opener alone may have text.
                prop_assert!(is_control[at] == 1 || at < found.ids.start);
            }
            let own = (0..sources.len()).filter(|at| sources[*at] == found.source);
            let control: Vec<usize> = own.filter(|at| is_control[*at] == 1).collect();
            let ends = [Some(&found.around.start), Some(&(found.around.end - 1))];
            prop_assert_eq!([control.first(), control.last()], ends);
        }
        // P6: any split of the ids gives the same events.
        let ids = encoding.ids();
        let whole = read(entry, &[ids]);
        let (before, after) = ids.split_at(cut.index(ids.len() + 1));
        prop_assert_eq!(&read(entry, &[before, after]), &whole);
        let singly: Vec<&[TokenId]> = ids.chunks(1).collect();
        prop_assert_eq!(&read(entry, &singly), &whole);
        Ok(())
    });
}

#[test]
fn any_tokens_of_parts_are_read() {
    let inputs = |entry: &'static Entry| {
        let control: Vec<TokenId> = entry.codec.vocab().control().values().copied().collect();
        // Text of an opener, whole, half and more, beside other text.
        let texts = ["user\nHi\n\n", "image", "im", "age", "images"];
        let texts = texts.map(|text| entry.codec.vocab().encode(text));
        let ids = prop_oneof![
            4 => proptest::sample::select(control).prop_map(|id| vec![id]),
            1 => proptest::sample::select(texts.to_vec()),
        ];
        (vec(ids, 0..20), any::<Index>())
    };
    check_each(seeing(), 120, inputs, |entry, (parts, cut)| {
        let ids = parts.concat();
        let whole = read(entry, &[&ids]);
        let singly: Vec<&[TokenId]> = ids.chunks(1).collect();
        prop_assert_eq!(&read(entry, &singly), &whole);
        crate::common::events::check_ranges(&whole, ids.len())?;
        let (before, after) = ids.split_at(cut.index(ids.len() + 1));
        prop_assert_eq!(&read(entry, &[before, after]), &whole);
        Ok(())
    });
}
