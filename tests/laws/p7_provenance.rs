//! P7: every id knows where it comes from.

use crate::common::conversation::{Conversation, conversation, options};
use crate::common::template::{Part, Template};
use crate::common::{TestCodec, check, codecs};
use chatcodec::{EncodeOptions, Encoding};
use proptest::prelude::*;

/// Per id the parts of the template that it covers; of an id that covers none, the one it stands
/// before.
fn parts_of_ids(
    codec: &TestCodec,
    conversation: &Conversation,
    options: &EncodeOptions,
    encoding: &Encoding,
) -> Vec<Vec<Part>> {
    let prompt = options.add_generation_prompt.unwrap_or(!conversation.ends_with_assistant());
    let parts = Template::new(codec, conversation, prompt).parts;
    let mut ends = Vec::new();
    let mut at = 0;
    for part in &parts {
        at += part.text.len();
        ends.push(at);
    }
    let covered = |(start, end): (usize, usize)| {
        let first = ends.partition_point(|&e| e <= start);
        let last = ends.partition_point(|&e| e < end.max(start + 1)).min(parts.len() - 1);
        parts[first.min(last)..=last].to_vec()
    };
    encoding.offsets().into_iter().map(covered).collect()
}

#[test]
fn a_source_is_the_field_that_the_bytes_are_from() {
    for codec in codecs() {
        check(&codec.name, 1000, (conversation(codec), options()), |(conversation, options)| {
            let encoding = conversation.encode(codec, &options).expect("in the domain");
            let sources = encoding.sources();
            let parts = parts_of_ids(codec, &conversation, &options, &encoding);
            let is_content = encoding.is_content();
            let indices = encoding.message_indices();
            prop_assert_eq!(sources.len(), encoding.ids().len());
            for (nth, parts) in parts.iter().enumerate() {
                let (start, end) = encoding.offsets()[nth];
                // A token that straddles text of the caller's and of the format's is the caller's.
                let slot = parts.iter().find(|part| !part.path.is_empty() && start < end);
                let path = slot.map_or("", |part| &part.path);
                prop_assert_eq!(sources[nth].to_string(), path, "id {}", nth);
                prop_assert_eq!(sources[nth].is_content(), slot.is_some());
                prop_assert_eq!(is_content[nth] == 1, slot.is_some());
                prop_assert_eq!(indices[nth], slot.unwrap_or(&parts[0]).message, "id {}", nth);
                prop_assert_eq!(sources[nth].message, indices[nth]);
            }
            Ok(())
        });
    }
}

/// From the first id that ends after the generation prompt up to and including the stop id.
#[test]
fn the_assistant_mask_is_what_a_model_generates() {
    for codec in codecs() {
        check(&codec.name, 1000, (conversation(codec), options()), |(conversation, options)| {
            let encoding = conversation.encode(codec, &options).expect("in the domain");
            let parts = parts_of_ids(codec, &conversation, &options, &encoding);
            for (nth, (found, parts)) in
                encoding.assistant_mask().into_iter().zip(parts).enumerate()
            {
                let generated = parts.last().is_some_and(|part| part.generated);
                prop_assert_eq!(found == 1, generated, "id {}", nth);
            }
            let stops = codec.codec.stop_ids();
            let masked = encoding.ids().iter().zip(encoding.assistant_mask());
            let ends = masked.filter(|(id, mask)| *mask == 1 && stops.contains(id)).count();
            let turns = conversation.messages.iter();
            let turns = turns.filter(|message| message.role == chatcodec::Role::Assistant).count();
            prop_assert_eq!(ends, turns, "one stop id for each turn");
            Ok(())
        });
    }
}

/// An open turn is generated to its end, and nothing follows.
#[test]
fn an_open_turn_is_generated_to_its_end() {
    for codec in codecs() {
        check(&codec.name, 300, conversation(codec), |mut conversation| {
            let last = chatcodec::Message::new(chatcodec::Role::Assistant, "so far\nso good");
            conversation.messages.push(last);
            let options = EncodeOptions { continue_final: true, ..EncodeOptions::default() };
            let encoding = conversation.encode(codec, &options).expect("in the domain");
            prop_assert!(encoding.text().ends_with("so far\nso good"));
            let mask = encoding.assistant_mask();
            let open: usize = mask.iter().rev().take_while(|&&is| is == 1).count();
            let ids = &encoding.ids()[mask.len() - open..];
            let text = codec.codec.vocab().decode(ids, chatcodec::Spelling::Spell);
            let text = text.expect("ids of the vocabulary");
            prop_assert!(text.ends_with("so far\nso good") && text.len() <= 16, "{text:?}");
            Ok(())
        });
    }
}
