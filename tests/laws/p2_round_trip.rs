//! P2: `decode(encode(m)) == canonical(m)`, for any text in any field.

use std::collections::HashMap;

use crate::common::conversation::{Conversation, conversation, options};
use crate::common::text::text;
use crate::common::{check, codecs};
use chatcodec::{Boundary, Call, CallBody, EncodeOptions, Message, Role};
use proptest::prelude::*;

#[test]
fn decode_reverses_encode() {
    for codec in codecs() {
        check(&codec.name, 2000, (conversation(codec), options()), |(conversation, options)| {
            let encoding = conversation.encode(codec, &options).expect("in the domain");
            prop_assert_eq!(codec.codec.decode(encoding.ids()), conversation.canonical(codec));
            Ok(())
        });
    }
}

/// An open turn is one too; one with nothing in it is a generation prompt.
#[test]
fn decode_reverses_encode_of_an_open_turn() {
    for codec in codecs() {
        let inputs = (conversation(codec), text(), any::<bool>());
        check(&codec.name, 1000, inputs, |(mut conversation, text, isolated)| {
            if !conversation.ends_with_assistant() {
                conversation.messages.push(Message::new(Role::Assistant, text));
            }
            let boundary = if isolated { Boundary::Isolated } else { Boundary::Reference };
            let options =
                EncodeOptions { continue_final: true, boundary, ..EncodeOptions::default() };
            let encoding = conversation.encode(codec, &options).expect("in the domain");
            let mut expected = conversation.canonical(codec);
            expected.pop_if(|last| *last == Message::new(Role::Assistant, ""));
            prop_assert_eq!(codec.codec.decode(encoding.ids()), expected);
            Ok(())
        });
    }
}

/// Some vocabularies read U+2581 as a space. Here the arguments are a string: U+2581, then an object.
#[test]
fn a_string_that_holds_an_object_after_the_mark_of_a_space() {
    let arguments = "\"\u{2581}{\\\"a\\\": 1}\"".to_owned();
    let body = CallBody::Function { name: String::new(), arguments };
    let calls = vec![Call { id: None, body }];
    let message = Message { calls, ..Message::new(Role::Assistant, "") };
    let conversation = Conversation::new(vec![message]);
    for codec in codecs().iter().filter(|codec| codec.codec.format().name() == "internlm2") {
        let encoding = conversation.encode(codec, &EncodeOptions::default()).expect("a call");
        assert_eq!(codec.codec.decode(encoding.ids()), conversation.canonical(codec));
    }
}

#[test]
fn canonical_is_idempotent_and_changes_no_id() {
    for codec in codecs() {
        check(&codec.name, 1000, (conversation(codec), options()), |(conversation, options)| {
            if has_text_arguments(&conversation) {
                return Ok(());
            }
            let canonical = Conversation::new(conversation.canonical(codec));
            prop_assert_eq!(&canonical.canonical(codec), &canonical.messages);
            let ids = conversation.encode(codec, &options).expect("in the domain");
            let again = canonical.encode(codec, &options).expect("in the domain");
            // Tools come back as a message of their own, so a conversation of tools alone still asks
            // for a generation prompt where one that ends with the assistant's does not.
            prop_assert_eq!(again.ids(), ids.ids());
            Ok(())
        });
    }
}

/// Whether a call's arguments are a text: an object in it is read as the arguments.
fn has_text_arguments(conversation: &Conversation) -> bool {
    let calls = conversation.messages.iter().flat_map(|message| &message.calls);
    let is_text = |call: &Call| matches!(&call.body, CallBody::Function { arguments, .. } if arguments.trim_start().starts_with('"'));
    calls.into_iter().any(is_text)
}

/// What `canonical` may change: the space's mark, white space around arguments, ids of calls, names
/// of results, and where tools stand. All other text comes back as it was.
#[test]
fn canonical_loses_nothing_else() {
    let plain = |text: &str| text.replace('\u{2581}', " ");
    for codec in codecs() {
        check(&codec.name, 1000, conversation(codec), |conversation| {
            let mut canonical = conversation.canonical(codec);
            if let Some(tools) = &conversation.tools {
                let systems = conversation.messages.iter().take_while(|m| m.role == Role::System);
                let declared = canonical.remove(systems.count());
                prop_assert_eq!(declared.content, plain(tools));
                prop_assert_eq!(
                    (declared.role, declared.name.as_deref()),
                    (Role::System, Some("plugin"))
                );
            }
            prop_assert_eq!(canonical.len(), conversation.messages.len());
            if has_text_arguments(&conversation) {
                return Ok(());
            }
            for (after, before) in canonical.iter().zip(&conversation.messages) {
                prop_assert_eq!(after.role, before.role);
                prop_assert_eq!(&after.content, &plain(&before.content));
                if before.role != Role::Tool {
                    prop_assert_eq!(&after.name, &before.name);
                }
                prop_assert_eq!(after.calls.len(), before.calls.len());
                for (after, before) in after.calls.iter().zip(&before.calls) {
                    let before = match &before.body {
                        CallBody::Function { name, arguments } => CallBody::Function {
                            name: plain(name),
                            arguments: plain(arguments.trim_matches([' ', '\t', '\n', '\r'])),
                        },
                        CallBody::Code { language, source } => {
                            CallBody::Code { language: language.clone(), source: plain(source) }
                        }
                    };
                    prop_assert_eq!(&after.body, &before);
                }
            }
            Ok(())
        });
    }
}

/// Ids tell conversations apart: the same ids only where the canonical forms are the same.
///
/// Short texts of few letters, so that two conversations do come to have the same ids.
#[test]
fn the_same_ids_mean_the_same_conversation() {
    for codec in codecs() {
        let mut seen: HashMap<Vec<i32>, Vec<Message>> = HashMap::new();
        let mut met_again = 0;
        let roles = [Role::System, Role::User, Role::Assistant];
        let texts = ["", " ", "\u{2581}", "\n", "user\n", "\n\n", "a", "<s>", "\u{2581} "];
        for (first, second) in roles.iter().flat_map(|a| roles.iter().map(move |b| (*a, *b))) {
            for (one, two) in texts.iter().flat_map(|a| texts.iter().map(move |b| (*a, *b))) {
                let messages = vec![Message::new(first, one), Message::new(second, two)];
                let conversation = Conversation::new(messages);
                let encoding = conversation.encode(codec, &EncodeOptions::default()).expect("fits");
                let canonical = conversation.canonical(codec);
                if let Some(known) = seen.insert(encoding.ids().to_vec(), canonical.clone()) {
                    assert_eq!(known, canonical, "{}: {conversation:?}", codec.name);
                    met_again += 1;
                }
            }
        }
        assert!(met_again > 0, "the space's mark makes some conversations equal");
    }
}
