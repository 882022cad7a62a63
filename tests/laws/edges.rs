//! Single checks that nothing else would miss: each test here fails if one line of the crate is taken out.

use crate::common::events::read_text;
use crate::common::model::tokenizer_json;
use crate::common::table::entries;
use chatcodec::{
    Boundary, Codec, Conversation, EncodeOptions, EventKind, Format, HOLD_LIMIT, MarkerPolicy,
    Message, OnReasoning, Role, Template, TurnReason, Vocab, VocabFiles, VocabOptions,
};
use serde_json::{Value, json};

/// The control tokens of ChatML.
const CONTROL: [&str; 2] = ["<|im_start|>", "<|im_end|>"];

fn spellings(of: &[&str]) -> Vec<String> {
    of.iter().map(|&spelling| spelling.to_owned()).collect()
}

/// A `tokenizer.json` with these tokens, and a change made to it.
fn file(tokens: &[&str], change: impl Fn(&mut Value)) -> Vec<u8> {
    let bytes = tokenizer_json(&spellings(tokens), &Value::Null);
    let mut file: Value = serde_json::from_slice(&bytes).expect("it is JSON");
    change(&mut file);
    file.to_string().into_bytes()
}

fn chatml(vocab: &Vocab) -> Codec {
    let format = Format::built_in("chatml").expect("it is built in");
    Codec::new(&format, vocab).expect("it has the tokens")
}

/// What comes after a completion goes on with the prompt: no dummy prefix stands before it, though it is the first
/// text of what is encoded then.
#[test]
fn what_follows_a_completion_has_no_dummy_prefix() {
    let prefixed = |file: &mut Value| {
        file["pre_tokenizer"] = json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false });
        file["decoder"] = json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false });
        let model = &mut file["model"];
        let signs = "▁abcdefghijklmnopqrstuvwxyzHI\n".chars();
        let vocab: serde_json::Map<String, Value> =
            signs.enumerate().map(|(id, sign)| (sign.to_string(), id.into())).collect();
        model["vocab"] = vocab.into();
        model["unk_token"] = Value::Null;
        for (nth, token) in
            file["added_tokens"].as_array_mut().expect("tokens").iter_mut().enumerate()
        {
            token["id"] = (40 + nth).into();
        }
        // Ids without a gap.
        let count = file["model"]["vocab"].as_object().expect("a table").len();
        for (nth, token) in
            file["added_tokens"].as_array_mut().expect("tokens").iter_mut().enumerate()
        {
            token["id"] = (count + nth).into();
        }
    };
    let vocab = Vocab::load(&file(&CONTROL, prefixed)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(vocab.dummy_prefix(), chatcodec::DummyPrefix::FirstRun);
    let codec = chatml(&vocab);
    let options = EncodeOptions { boundary: Boundary::Isolated, ..EncodeOptions::default() };
    let asked = vec![Message::new(Role::User, "a")];
    let prompt = codec.encode(asked.clone(), None, &options).expect("it has a place");
    let stop = codec.vocab().control()["<|im_end|>"];
    let b = codec.vocab().encode(" b").pop().expect("an id");
    let new = Conversation::new(vec![Message::new(Role::User, "c")], None);
    let next = codec
        .extend_conversation(&prompt, &[b, stop], new, &options, OnReasoning::default())
        .expect("it goes on");
    let answered = [asked, vec![Message::new(Role::Assistant, "b"), Message::new(Role::User, "c")]];
    let whole = codec.encode(answered.concat(), None, &options).expect("it has a place");
    assert_eq!(next.ids(), whole.ids());
}

/// A header of so many bytes as the limit is one; of one byte more it is none.
#[test]
fn a_header_is_waited_for_up_to_the_limit() {
    let internlm2 = Format::built_in("internlm2").expect("it is built in");
    let codec = Codec::new(&internlm2, &Vocab::embedded()).expect("they fit");
    let head = "user name=";
    let read = |length: usize| {
        let name = "x".repeat(length - head.len());
        let text = format!("<|im_start|>{head}{name}\nHi<|im_end|>");
        let stream = codec.read_stream().reading(MarkerPolicy::Text);
        let pushes = (0..text.len()).map(|at| &text[at..=at]);
        let events = read_text(stream, pushes, TurnReason::Stop);
        let start = EventKind::TurnStart { role: Role::User, name: Some(name) };
        events.iter().any(|event| event.kind == start)
    };
    assert!(read(HOLD_LIMIT - 1) && read(HOLD_LIMIT));
    assert!(!read(HOLD_LIMIT + 1) && !read(HOLD_LIMIT + 2));
}

/// What the caller names is control, though it is listed as text; what nobody names is text.
#[test]
fn special_tokens_may_name_a_text_piece() {
    let bytes = file(&["<|im_start|>", "<|im_end|>", "<!--"], |_| {});
    let load = |special_tokens: Vec<(String, i32)>| {
        let options = VocabOptions { special_tokens, ..VocabOptions::default() };
        Vocab::load_files(VocabFiles { options, ..VocabFiles::one(&bytes) }).expect("it loads")
    };
    let listed = load(Vec::new());
    assert!(!listed.control().contains_key("<!--"));
    assert!(listed.encode("a<!--b").contains(&258));
    let named = load(vec![("<!--".to_owned(), 258)]);
    assert_eq!(named.control().get("<!--"), Some(&258));
    assert!(named.is_control(258) && !named.encode("a<!--b").contains(&258));
}

/// A token that takes the white space beside it: what a pattern has there is shown, and has no ids.
#[test]
fn white_space_that_a_control_token_takes_has_no_ids() {
    let format = |row: &str| {
        format!(
            "name = \"spaced\"\nguarantee = \"ids\"\nsource = \"the tests\"\n\
             generation = {{ prompt = \"{{START}}assistant\\n\" }}\n\
             [control]\nSTART = \"<|im_start|>\"\nSTOP = \"<|im_end|>\"\n[turn]\n\
             user = \"{{START}}user\\n{{content}}{row}\"\n\
             assistant = \"{{START}}assistant\\n{{content}}{{STOP}}\\n\"\n"
        )
    };
    let strips = |left: bool, right: bool, beside: bool| {
        let tokens = file(&CONTROL, |file| {
            if !beside {
                file["added_tokens"][1]["lstrip"] = left.into();
                file["added_tokens"][1]["rstrip"] = right.into();
            }
        });
        let config = json!({ "added_tokens_decoder": { "257": {
            "content": "<|im_end|>", "lstrip": left, "rstrip": right, "special": true,
        } } });
        let mut files = vec![("tokenizer.json".to_owned(), tokens.into())];
        if beside {
            let config = config.to_string().into_bytes();
            files.push(("tokenizer_config.json".to_owned(), config.into()));
        }
        let options = VocabOptions::default();
        let vocab = Vocab::load_files(VocabFiles { files, options }).expect("it loads");
        let format = Format::parse("spaced", &format("\\n.\\n{STOP}\\n")).expect("a format");
        let codec = Codec::new(&format, &vocab).expect("it has the tokens");
        let options =
            EncodeOptions { add_generation_prompt: Some(false), ..EncodeOptions::default() };
        let encoding = codec.encode(vec![Message::new(Role::User, "a")], None, &options);
        let encoding = encoding.expect("it has a place");
        assert_eq!(encoding.text(), "<|im_start|>user\na\n.\n<|im_end|>\n");
        let decoded = codec.decode(encoding.ids());
        assert_eq!(decoded[0].content, "a", "{decoded:?}");
        codec.vocab().decode(encoding.ids(), chatcodec::Spelling::Spell).expect("its own ids")
    };
    for beside in [false, true] {
        assert_eq!(strips(false, false, beside), "<|im_start|>user\na\n.\n<|im_end|>\n");
        assert_eq!(strips(true, false, beside), "<|im_start|>user\na\n.<|im_end|>\n");
        assert_eq!(strips(false, true, beside), "<|im_start|>user\na\n.\n<|im_end|>");
    }
}

/// A template is given the list, whatever the format that reads would have written of it.
#[test]
fn tools_that_were_read_come_to_a_template_as_they_were_given() {
    let source =
        "{% for tool in tools %}[{{ tool.function.name }}]{% endfor %}{{ messages[0].content }}";
    let template = Template::parse(source).expect("it is one");
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    for name in ["qwen3", "qwen3-coder", "gemma4", "functiongemma", "kimi-k2.5"] {
        let entry = entries().iter().find(|entry| entry.format == name).expect("it is built in");
        let format = Format::built_in(name).expect("it is built in");
        let codec = Codec::with_template(&template, &[], &format, entry.codec.vocab());
        let codec = codec.expect("they fit");
        let read = codec.read_tools(&tools).expect("they are tools");
        let messages = vec![Message::new(Role::User, "x")];
        let options = EncodeOptions { add_generation_prompt: Some(false), ..Default::default() };
        let encoding = codec.encode(messages, read.as_ref(), &options).expect("it is written");
        assert_eq!(encoding.text(), "[f]x", "{name}");
    }
}
