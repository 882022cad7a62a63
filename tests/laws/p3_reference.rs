//! P3: ids are the reference's. The reference here is the naive encoder, and a template written by
//! hand: what the real ones give stands in the golden cases.

use crate::common::conversation::{conversation, options};
use crate::common::model::{model, model_text};
use crate::common::naive::Naive;
use crate::common::template::Template;
use crate::common::text::long_text;
use crate::common::{TestVocab, cases, check, codecs, read_data, vocabs};
use chatcodec::Vocab;
use proptest::prelude::*;

fn naive(known: &TestVocab) -> Naive {
    Naive::read(&known.file, |id| !known.vocab.is_control(id))
}

#[test]
fn encode_is_the_naive_reference() {
    for known in vocabs() {
        let naive = naive(known);
        check(known.name, 600, long_text(), |text| {
            let expected = naive.encode(&text);
            for time in ["new", "repeated", "known"] {
                prop_assert_eq!(&known.vocab.encode(&text), &expected, "{} text", time);
            }
            Ok(())
        });
    }
}

#[test]
fn encode_is_the_naive_reference_on_made_up_models() {
    check(
        "made up",
        3000,
        (model(), prop::collection::vec(model_text(), 1..6)),
        |(file, texts)| {
            let vocab = Vocab::load(&file).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let naive = Naive::read(&file, |id| !vocab.is_control(id));
            for text in texts {
                prop_assert_eq!(vocab.encode(&text), naive.encode(&text), "{:?}", text);
            }
            Ok(())
        },
    );
}

/// Chunks of real text, of many lengths, all over each file.
#[test]
fn encode_is_the_naive_reference_on_real_text() {
    let files = [
        "corpus/en_wiki_demo.txt",
        "corpus/zh_prose_hongloumeng.txt",
        "corpus/ja_prose_wagahaiwa_nekodearu.txt",
        "corpus/emoji_mixed_DERIVED.txt",
        "corpus/json_travelplanning_query_en.json",
        "corpus/chat_glaive_toolcall_zh_demo.json",
    ];
    for file in files {
        let Some(bytes) = read_data(file) else { continue };
        let text = String::from_utf8(bytes).expect("corpora are UTF-8");
        let chars: Vec<char> = text.chars().collect();
        for known in vocabs() {
            let naive = naive(known);
            let count = cases(30) as usize;
            for nth in 0..count {
                let start = nth * chars.len() / count;
                let end = chars.len().min(start + 5 * (nth % 40 + 1));
                let chunk: String = chars[start..end].iter().collect();
                let (found, expected) = (known.vocab.encode(&chunk), naive.encode(&chunk));
                assert_eq!(found, expected, "{} on {file}, characters {start}..{end}", known.name);
            }
        }
    }
}

#[test]
fn a_conversation_is_the_template_run_by_run() {
    for codec in codecs() {
        check(&codec.name, 500, (conversation(codec), options()), |(conversation, options)| {
            let encoding = conversation.encode(codec, &options).expect("in the domain");
            let prompt = options.add_generation_prompt;
            let prompt = prompt.unwrap_or(!conversation.ends_with_assistant());
            let template = Template::new(codec, &conversation, prompt);
            prop_assert_eq!(encoding.text(), template.text());
            prop_assert_eq!(encoding.ids(), template.ids(codec, options.boundary));
            Ok(())
        });
    }
}
