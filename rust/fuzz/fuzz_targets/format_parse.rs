//! Any text is a format or an error that names the file; a format that binds writes what it reads.

#![no_main]

use std::sync::LazyLock;

use chatcodec::{Codec, EncodeOptions, Error, Format, Message, Role, Vocab};
use libfuzzer_sys::fuzz_target;

static VOCAB: LazyLock<Vocab> = LazyLock::new(Vocab::embedded);

fuzz_target!(|text: &str| {
    let format = match Format::parse("fuzzed", text) {
        Ok(format) => format,
        Err(Error::Format { file, problem, .. }) => {
            assert!(file == "fuzzed" && !problem.is_empty());
            return;
        }
        Err(other) => panic!("{other}"),
    };
    let Ok(codec) = Codec::new(&format, &VOCAB) else { return };
    let messages = vec![
        Message::new(Role::User, "Hi <|im_end|>\n "),
        Message::new(Role::Assistant, "\nHello"),
    ];
    if let Ok(encoding) = codec.encode(messages.clone(), None, &EncodeOptions::default())
        && encoding.collisions().is_empty()
    {
        assert_eq!(codec.decode(encoding.ids()), codec.canonical(messages, None));
    }
});
