//! Arguments are taken exactly if they are one JSON value, and then come back byte for byte.

#![no_main]

use std::sync::LazyLock;

use chatcodec::{CallBody, Codec, EncodeOptions, Format, OnArguments, Vocab};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

static CODEC: LazyLock<Codec> = LazyLock::new(|| {
    let format = Format::built_in("internlm2").expect("it is built in");
    Codec::new(&format, &Vocab::embedded()).expect("they fit")
});

fuzz_target!(|text: &str| {
    let function = serde_json::json!({ "name": "f", "arguments": text });
    let call = serde_json::json!({ "type": "function", "function": function });
    let messages = serde_json::json!([{ "role": "assistant", "tool_calls": [call] }]);
    let read = CODEC.read(&messages, OnArguments::Error);
    assert_eq!(read.is_ok(), serde_json::from_str::<&RawValue>(text).is_ok(), "{text:?}");
    // Written as a string, any text is.
    assert!(CODEC.read(&messages, OnArguments::String).is_ok());
    let Ok(messages) = read else { return };
    let encoding = CODEC.encode(messages, None, &EncodeOptions::default()).expect("in the domain");
    let decoded = CODEC.decode(encoding.ids());
    let CallBody::Function { arguments, .. } = &decoded[0].calls[0].body else {
        panic!("{decoded:?}")
    };
    let expected = text.trim_matches([' ', '\t', '\n', '\r']).replace('\u{2581}', " ");
    assert_eq!(*arguments, expected);
});
