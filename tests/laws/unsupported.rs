//! What a format has no place for, left out: the ids are those of the conversation without what `dropped` lists.

use chatcodec::{
    Call, CallBody, Conversation, DeclaredTools, EncodeOptions, Message, OnReasoning,
    OnUnsupported, Role, Why,
};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use crate::common::table::{check_each, entries};
use crate::common::text::text;

/// A message with anything in it, whatever the format has a place for.
fn message() -> impl Strategy<Value = Message> {
    let role = select(vec![
        Role::System,
        Role::User,
        Role::User,
        Role::Assistant,
        Role::Assistant,
        Role::Tool,
    ]);
    let name = select(vec!["bob", "get_weather", "plugin", "two words"]).prop_map(str::to_owned);
    let function = text().prop_map(|_| CallBody::Function {
        name: "f".to_owned(),
        arguments: "{\"a\": 1}".to_owned(),
    });
    let code = (weighted(0.5, Just("python".to_owned())), text())
        .prop_map(|(language, source)| CallBody::Code { language, source });
    let call = prop_oneof![2 => function, 1 => code].prop_map(|body| Call { id: None, body });
    let calls = prop_oneof![2 => Just(Vec::new()), 1 => vec(call, 1..4)];
    let content = prop_oneof![1 => Just(String::new()), 3 => text()];
    let id = weighted(0.2, Just("abcDEF123".to_owned()));
    (role, weighted(0.2, name), content, weighted(0.3, text()), calls, id).prop_map(
        |(role, name, content, reasoning, calls, call_id)| {
            let reasoning = reasoning.filter(|text| !text.is_empty());
            Message { role, name, content, media: Vec::new(), reasoning, calls, call_id }
        },
    )
}

/// Messages as they came, without what was left out.
fn without(messages: &[Message], dropped: &[(String, String)]) -> Vec<Message> {
    let mut kept: Vec<Option<Message>> = messages.iter().cloned().map(Some).collect();
    for (path, _) in dropped.iter().filter(|(path, _)| path != "tools") {
        let rest = path.strip_prefix("messages[").expect("a path of a message");
        let (index, rest) = rest.split_once(']').expect("an index");
        let slot = &mut kept[index.parse::<usize>().expect("an index")];
        let message = slot.as_mut().expect("what is there");
        match rest {
            "" => *slot = None,
            ".content" => message.content.clear(),
            ".reasoning" => message.reasoning = None,
            ".name" => message.name = None,
            ".tool_call_id" => message.call_id = None,
            ".tool_calls" => message.calls.clear(),
            call => {
                let call = call.strip_prefix(".tool_calls[").expect("a call");
                let (at, rest) = call.split_once(']').expect("a number");
                let at: usize = at.parse().expect("a number");
                if rest.is_empty() {
                    message.calls.remove(at);
                } else if let CallBody::Code { language, .. } = &mut message.calls[at].body {
                    *language = None;
                }
            }
        }
    }
    kept.into_iter().flatten().collect()
}

#[test]
fn what_is_left_out_is_what_is_listed() {
    let given =
        || (vec(message(), 0..7), weighted(0.3, Just(DeclaredTools::from("[]".to_owned()))));
    check_each(
        entries(),
        128,
        |_| given(),
        |entry, (messages, tools)| {
            let drop =
                EncodeOptions { on_unsupported: OnUnsupported::Drop, ..EncodeOptions::default() };
            let conversation = || Conversation::new(messages.clone(), tools.clone());
            let strict = entry.codec.encode_conversation(conversation(), &EncodeOptions::default());
            let Ok(encoding) = entry.codec.encode_conversation(conversation(), &drop) else {
                prop_assert!(strict.is_err(), "refused where it has a place");
                return Ok(());
            };
            // What a format leaves out by its rules, it leaves out of both.
            let unsupported = encoding.dropped().iter().filter(|it| it.why == Why::Unsupported);
            let dropped: Vec<_> =
                unsupported.map(|it| (it.path.clone(), it.what.clone())).collect();
            if let Ok(strict) = strict {
                prop_assert!(dropped.is_empty(), "{dropped:?}");
                prop_assert_eq!(strict.ids(), encoding.ids());
                return Ok(());
            }
            prop_assert!(!dropped.is_empty());
            let kept = without(&messages, &dropped);
            let tools = tools.filter(|_| dropped.iter().all(|(path, _)| path != "tools"));
            let expected = entry.codec.encode(kept, tools.as_ref(), &EncodeOptions::default());
            let expected = expected.expect("what is left can be written");
            prop_assert_eq!(expected.ids(), encoding.ids());
            // Indices are those of the messages as they came.
            let gone: Vec<_> = (0..messages.len())
                .filter(|at| dropped.contains(&(format!("messages[{at}]"), "message".to_owned())))
                .collect();
            for index in encoding.message_indices() {
                prop_assert!(index < messages.len() as i32 && !gone.contains(&(index as usize)));
            }
            Ok(())
        },
    );
}

#[test]
fn what_is_left_out_after_an_answer_is_what_is_listed() {
    check_each(
        entries(),
        64,
        |_| vec(message(), 1..7),
        |entry, messages| {
            let codec = &entry.codec;
            let drop =
                EncodeOptions { on_unsupported: OnUnsupported::Drop, ..EncodeOptions::default() };
            let strict = EncodeOptions::default();
            let asked = vec![Message::new(Role::User, "x")];
            let prompt = codec.encode(asked, None, &strict).expect("it has a place");
            let answer = codec.vocab().encode("x");
            let extend = |messages: Vec<Message>, options: &EncodeOptions| {
                let new = Conversation::new(messages, None);
                codec.extend_conversation(&prompt, &answer, new, options, OnReasoning::default())
            };
            let refused = extend(messages.clone(), &strict);
            let Ok(encoding) = extend(messages.clone(), &drop) else {
                prop_assert!(refused.is_err(), "refused where it has a place");
                return Ok(());
            };
            let dropped: Vec<_> =
                encoding.dropped().iter().map(|it| (it.path.clone(), it.what.clone())).collect();
            prop_assert_eq!(dropped.is_empty(), refused.is_ok());
            let kept = without(&messages, &dropped);
            let expected = extend(kept, &strict).expect("what is left can be written");
            prop_assert_eq!(expected.ids(), encoding.ids());
            Ok(())
        },
    );
}
