//! Any text is a format or an error that names the file; a format that binds writes what it reads.

#![no_main]

use std::sync::LazyLock;

use chatcodec::{
    Call, CallBody, Codec, EncodeOptions, Error, Format, Message, Role, TokenId, Vocab, VocabFiles,
    VocabOptions,
};
use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
mod formats;

/// A vocabulary with the control tokens of every built-in format: what is parsed are mostly changes of these.
static VOCAB: LazyLock<Vocab> = LazyLock::new(|| {
    let known = Vocab::load(formats::FILE).expect("it is embedded");
    let all = formats::BOUND.iter().flat_map(|bound| &bound.control);
    let mut new: Vec<String> = all.map(|(spelling, _)| spelling.clone()).collect();
    // What a format appends follows by itself.
    let appended: Vec<&String> =
        formats::BOUND.iter().flat_map(|bound| bound.codec.vocab().appended()).collect();
    new.retain(|spelling| !known.control().contains_key(spelling) && !appended.contains(&spelling));
    new.sort();
    new.dedup();
    let first = TokenId::try_from(known.size()).expect("few ids");
    let special_tokens = new.into_iter().zip(first..).collect();
    let options = VocabOptions { special_tokens, ..VocabOptions::default() };
    let files = VocabFiles { options, ..VocabFiles::one(formats::FILE) };
    Vocab::load_files(files).expect("a vocabulary")
});

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
    let function = CallBody::Function { name: "f".into(), arguments: "{\"a\": \"b\"}".into() };
    let calls = vec![Call { id: None, body: function }];
    let user = Message::new(Role::User, "Hi <|im_end|>\n ");
    for answer in [
        Message::new(Role::Assistant, "\nHello"),
        Message { reasoning: Some("Hm.".into()), ..Message::new(Role::Assistant, "Hello") },
        Message { calls, ..Message::new(Role::Assistant, "") },
    ] {
        let messages = vec![user.clone(), answer];
        if let Ok(encoding) = codec.encode(messages.clone(), None, &EncodeOptions::default())
            && encoding.collisions().is_empty()
        {
            assert_eq!(codec.decode(encoding.ids()), codec.canonical(messages, None));
        }
    }
});
