//! P4: nothing is lost. The bytes of the ids are the bytes of the text, and offsets say which.

use crate::common::conversation::{Conversation, conversation, options};
use crate::common::template::{Part, Template};
use crate::common::text::{long_text, text};
use crate::common::{TestCodec, check, codecs, vocabs};
use chatcodec::{Boundary, DummyPrefix, EncodeOptions, Encoding, Spelling};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// Text as it comes back: the mark that stands for a space is one.
fn plain(text: &str) -> String {
    text.replace('\u{2581}', " ")
}

#[test]
fn a_vocabulary_gives_every_text_back() {
    for known in vocabs() {
        let vocab = &known.vocab;
        // Where a vocabulary collapses white space, that is lost by its own rule.
        let expected = |text: &str| {
            if !vocab.collapses_spaces() {
                return plain(text);
            }
            let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
            plain(&words.join(" ")).trim_end_matches(' ').to_owned()
        };
        check(known.name, 1000, long_text(), |text| {
            let ids = vocab.encode(&text);
            let expected = expected(&text);
            let bytes = vocab.decode_bytes(&ids).expect("ids of the vocabulary");
            prop_assert_eq!(bytes, expected.as_bytes());
            for control in [Spelling::Spell, Spelling::Skip] {
                let decoded = vocab.decode(&ids, control).expect("ids of the vocabulary");
                prop_assert_eq!(&decoded, &expected);
            }
            Ok(())
        });
    }
}

/// Offsets are consecutive and in order, cover everything, and each id's stretch of the text is its
/// bytes; a dummy prefix covers none.
fn check_offsets(codec: &TestCodec, encoding: &Encoding) -> Result<(), TestCaseError> {
    let text = encoding.text().as_bytes();
    let offsets = encoding.offsets();
    prop_assert_eq!(offsets.len(), encoding.ids().len());
    let mut at = 0;
    for (&id, &(start, end)) in encoding.ids().iter().zip(&offsets) {
        prop_assert_eq!(start, at, "id {} does not begin where the one before ends", id);
        prop_assert!(start <= end && end <= text.len());
        at = end;
    }
    prop_assert_eq!(at, text.len(), "the end of the text is in no id");
    let is_control = encoding.is_control();
    let is_prefixed = codec.codec.vocab().dummy_prefix() == DummyPrefix::EveryRun;
    for (nth, (&id, &(start, end))) in encoding.ids().iter().zip(&offsets).enumerate() {
        let bytes = codec.codec.vocab().token_bytes(id).expect("an id of the vocabulary");
        let covered = unmarked(&text[start..end]);
        let begins_run = nth == 0 || is_control[nth - 1] == 1;
        let bytes = match bytes.strip_prefix(b" ") {
            Some(rest) if begins_run && is_prefixed => rest,
            _ => bytes,
        };
        prop_assert_eq!(covered, bytes, "id {} at {}", id, nth);
    }
    Ok(())
}

/// Bytes with the space's mark as a space; the mark may be spread over three ids, its bytes then
/// stay.
fn unmarked(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix("\u{2581}".as_bytes()) {
            plain.push(b' ');
            rest = after;
        } else {
            plain.push(byte);
            rest = after;
        }
    }
    plain
}

#[test]
fn offsets_tile_the_text() {
    for codec in codecs() {
        check(&codec.name, 1000, (conversation(codec), options()), |(conversation, options)| {
            let encoding = conversation.encode(codec, &options).expect("in the domain");
            check_offsets(codec, &encoding)
        });
    }
}

#[test]
fn char_offsets_are_the_code_points_of_offsets() {
    for codec in codecs() {
        check(&codec.name, 500, (conversation(codec), options()), |(conversation, options)| {
            let encoding = conversation.encode(codec, &options).expect("in the domain");
            let text = encoding.text();
            // Per byte the code point that it is part of.
            let point_of: Vec<usize> =
                text.chars().enumerate().flat_map(|(nth, c)| vec![nth; c.len_utf8()]).collect();
            let count = text.chars().count();
            for ((start, end), found) in encoding.offsets().into_iter().zip(encoding.char_offsets())
            {
                let first = point_of.get(start).copied().unwrap_or(count);
                let expected =
                    if start == end { (first, first) } else { (first, point_of[end - 1] + 1) };
                prop_assert_eq!(found, expected, "bytes {}..{}", start, end);
            }
            Ok(())
        });
    }
}

/// Of each slot, the bytes of the ids that cover it are its text; only at its ends may an id hold
/// some of the format's own.
#[test]
fn the_ids_of_a_slot_are_its_text() {
    for codec in codecs() {
        check(&codec.name, 500, conversation(codec), |conversation| {
            let options =
                EncodeOptions { add_generation_prompt: Some(false), ..Default::default() };
            let encoding = conversation.encode(codec, &options).expect("in the domain");
            let offsets = encoding.offsets();
            for (part, start, end) in slots(codec, &conversation) {
                let within = |&(from, to): &(usize, usize)| from < end && to > start;
                let first = offsets.iter().position(within).expect("a slot has ids");
                let last = offsets.iter().rposition(within).expect("a slot has ids");
                let (from, to) = (offsets[first].0, offsets[last].1);
                let ids = &encoding.ids()[first..=last];
                let bytes = codec.codec.vocab().decode_bytes(ids).expect("ids of the vocabulary");
                let around = plain(&encoding.text()[from..to]);
                let text = plain(&part.text);
                prop_assert!(around.contains(&text), "{} is not all there", part.path);
                // `decode_bytes` takes a leading space for the dummy prefix where there is one.
                let found = String::from_utf8(bytes).expect("whole characters");
                prop_assert!(found == around || format!(" {found}") == around, "{}", part.path);
            }
            Ok(())
        });
    }
}

/// Each slot with its place in the rendered text.
fn slots(codec: &TestCodec, conversation: &Conversation) -> Vec<(Part, usize, usize)> {
    let mut at = 0;
    let mut slots = Vec::new();
    for part in Template::new(codec, conversation, false).parts {
        let start = at;
        at += part.text.len();
        if !part.path.is_empty() {
            slots.push((part, start, at));
        }
    }
    slots
}

/// What the model generates is encoded as when it generates: by itself.
#[test]
fn isolated_text_of_the_assistant_is_encoded_by_itself() {
    for codec in codecs() {
        check(&codec.name, 300, text(), |text| {
            let message = chatcodec::Message::new(chatcodec::Role::Assistant, text.clone());
            let options = EncodeOptions { boundary: Boundary::Isolated, ..Default::default() };
            let encoding = Conversation::new(vec![message]).encode(codec, &options).expect("fits");
            let prompt = codec.codec.generation_prompt();
            // Where the prompt ends with a control token, the text begins a run, prefix and all.
            let begins = prompt.last().is_some_and(|&id| codec.codec.vocab().is_control(id));
            let text = codec.naive.encode_run(&text, begins);
            let joined = [prompt, &text[..]].concat();
            let begin = encoding.ids().iter().position(|id| *id == joined[0]).expect("the opener");
            prop_assert!(encoding.ids()[begin..].starts_with(&joined));
            Ok(())
        });
    }
}
