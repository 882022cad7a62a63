//! Arguments are taken exactly if they are one JSON value. What a format writes of them it reads back; where it
//! writes them as they are, byte for byte.

#![no_main]

use chatcodec::{CallBody, EncodeOptions, OnArguments};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

#[allow(dead_code)]
mod formats;

fuzz_target!(|text: &str| {
    let function = serde_json::json!({ "name": "f", "arguments": text });
    let call = serde_json::json!({ "type": "function", "function": function });
    let user = serde_json::json!({ "role": "user", "content": "x" });
    let messages = serde_json::json!([user, { "role": "assistant", "tool_calls": [call] }]);
    let is_value = serde_json::from_str::<&RawValue>(text).is_ok();
    for bound in formats::BOUND.iter() {
        let codec = &bound.codec;
        let read = codec.read(&messages, OnArguments::Error);
        assert_eq!(read.is_ok(), is_value, "{}: {text:?}", bound.name);
        // Written as a string, any text is.
        assert!(codec.read(&messages, OnArguments::String).is_ok());
        let Ok(messages) = read else { continue };
        let Ok(encoding) = codec.encode(messages.clone(), None, &EncodeOptions::default()) else {
            assert_ne!(bound.name, "internlm2", "it writes any arguments");
            continue;
        };
        if !encoding.collisions().is_empty() {
            continue;
        }
        let decoded = codec.decode(encoding.ids());
        assert_eq!(decoded, codec.canonical(messages, None), "{}: {text:?}", bound.name);
        if bound.name == "internlm2" {
            let CallBody::Function { arguments, .. } = &decoded[1].calls[0].body else {
                panic!("{decoded:?}")
            };
            let expected = text.trim_matches([' ', '\t', '\n', '\r']).replace('\u{2581}', " ");
            assert_eq!(*arguments, expected);
        }
    }
});
