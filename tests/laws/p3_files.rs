//! P3 for every kind of vocabulary file: the reference's ids, the same from every file of one
//! vocabulary, and never control from text; what is broken or contradicts itself is an error.

use std::sync::{Arc, LazyLock};

use crate::common::outside;
use crate::common::{cases, check, read_data, test_data};
use chatcodec::{Error, Spelling, TokenId, Vocab, VocabFiles, VocabOptions};
use proptest::prelude::*;

type Files = Vec<(String, Arc<[u8]>)>;

/// Files of the test data by their own names; `None` where one is not there.
fn files(paths: &[&str]) -> Option<Files> {
    let read = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        Some((name, read_data(&format!("vocab/{path}"))?.into()))
    };
    paths.iter().map(read).collect()
}

/// What of a folder of the test data is about a vocabulary.
fn folder(name: &str) -> Option<Files> {
    let folder = test_data()?.join("vocab").join(name);
    let mut files: Files = std::fs::read_dir(folder)
        .ok()?
        .map(|entry| entry.expect("a folder that can be read").path())
        .filter(|path| path.is_file())
        .map(|path| {
            (path.file_name().expect("a file").to_str().expect("a name in UTF-8").to_owned(), path)
        })
        .filter(|(name, _)| VocabFiles::matters(name))
        .map(|(name, path)| (name, std::fs::read(path).expect("a file that can be read").into()))
        .collect();
    files.sort();
    Some(files)
}

fn load(files: Files) -> Result<Vocab, Error> {
    Ok(Vocab::load_files(VocabFiles { files, options: VocabOptions::default() })?)
}

fn load_with(files: Files, options: VocabOptions) -> Result<Vocab, Error> {
    Ok(Vocab::load_files(VocabFiles { files, options })?)
}

/// The vocabularies of the test data, as their files or folders.
pub(crate) fn vocabs() -> &'static [(&'static str, Vocab)] {
    static VOCABS: LazyLock<Vec<(&'static str, Vocab)>> = LazyLock::new(load_vocabs);
    &VOCABS
}

fn load_vocabs() -> Vec<(&'static str, Vocab)> {
    let folders = [
        "chatglm3",
        "command-r-gguf",
        "deepseek-coder",
        "deepseek-llm",
        "deepseek-v3",
        "deepseek-v3.2",
        "falcon-gguf",
        "glm4",
        "gpt-oss",
        "hunyuan-a13b",
        "internlm2",
        "kimi-k2",
        "llama2",
        "llama3",
        "minimax-m1",
        "mixtral-8x7b",
        "phi2",
        "phi3",
        "phi3/phi-3",
        "phi3/phi-3-medium",
        "phi3/phi-3-mini",
        "phi3/phi-3-small",
        "phi3/phi-3-vision",
        "qwen2",
        "qwen3",
        "qwen3.5",
        "starcoder",
        "starcoder-gguf",
        "telechat",
        "yi",
    ];
    let single: [(&str, &[&str]); 7] = [
        ("qwen2.5 as json", &["qwen2/tokenizer.json", "qwen2.5/tokenizer_config.json"]),
        ("llama2 as gguf", &["llama2/llama-spm.gguf"]),
        ("mixtral v2", &["mixtral-8x22b/tokenizer.model.v2"]),
        ("mixtral v3", &["mixtral-8x22b/tokenizer.model.v3"]),
        ("mixtral v7", &["mixtral-8x22b/tokenizer.model.v7"]),
        ("qwen2 as ranks", &["qwen2/qwen.tiktoken", "qwen2/tokenizer_config.json"]),
        ("qwen2.5 as merges", &QWEN25_MERGES),
    ];
    let folders = folders.map(|name| (name, folder(name)));
    let single = single.map(|(name, paths)| (name, files(paths)));
    folders
        .into_iter()
        .chain(single)
        .filter_map(|(name, files)| {
            Some((name, load(files?).unwrap_or_else(|e| panic!("{name}: {e}"))))
        })
        .collect()
}

const QWEN2_MERGES: [&str; 3] =
    ["qwen2/vocab.json", "qwen2/merges.txt", "qwen2/tokenizer_config.json"];
const QWEN25_MERGES: [&str; 3] =
    ["qwen2/vocab.json", "qwen2/merges.txt", "qwen2.5/tokenizer_config.json"];

/// Real texts, or none.
fn corpus() -> Vec<(String, String)> {
    let Some(folder) = test_data().map(|folder| folder.join("corpus")) else { return Vec::new() };
    let limit = cases(100) as usize * 1000;
    let mut texts: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder that can be read")
        .map(|entry| entry.expect("a folder that can be read").path())
        .map(|path| {
            let mut text = std::fs::read_to_string(&path).expect("text");
            text = text.chars().take(limit).collect();
            (path.display().to_string(), text)
        })
        .collect();
    texts.sort();
    texts
}

/// Texts of any characters, and of those that ways to part text tell apart.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ \t\r\n\u{3000}a-zA-Z0-9'üé中日\u{301}\u{2581}<>|/.,!_-]{0,40}",
        "([ ]{0,3}(don't|WE'LL|İstanbul|[0-9]{1,5}|\\r?\\n|[一-三]{1,3}|👩‍👩‍👧|ſ|e\u{301})){0,12}",
    ]
}

#[test]
fn reference_vectors() {
    let vectors = [
        ("deepseek-coder", "deepseek-coder/deepseek-coder.gguf"),
        ("deepseek-llm", "deepseek-llm/deepseek-llm.gguf"),
        ("llama2", "llama2/llama-spm.gguf"),
        ("llama2 as gguf", "llama2/llama-spm.gguf"),
        ("llama3", "llama3/llama-bpe"),
        ("command-r-gguf", "command-r-gguf/ggml-vocab-command-r.gguf"),
        ("falcon-gguf", "falcon-gguf/ggml-vocab-falcon.gguf"),
        ("starcoder-gguf", "starcoder-gguf/ggml-vocab-starcoder.gguf"),
        ("phi3", "phi3/phi-3.gguf"),
        ("qwen2", "qwen2/qwen2"),
        ("qwen2 as ranks", "qwen2/qwen2"),
        ("qwen2.5 as merges", "qwen2/qwen2"),
    ];
    let vocabs = vocabs();
    for (name, path) in vectors {
        let texts = read_data(&format!("vocab/{path}.inp"));
        let ids = read_data(&format!("vocab/{path}.out"));
        let (Some(texts), Some(ids)) = (texts, ids) else { continue };
        let (texts, ids) = (String::from_utf8(texts).unwrap(), String::from_utf8(ids).unwrap());
        let texts: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").collect();
        let ids: Vec<Vec<TokenId>> = ids
            .lines()
            .map(|line| line.split_whitespace().map(|id| id.parse().unwrap()).collect())
            .collect();
        assert!(texts.len() >= ids.len() && ids.len() > 40, "{name}");
        let (_, vocab) = vocabs.iter().find(|(known, _)| *known == name).unwrap();
        for (text, ids) in texts.iter().zip(&ids) {
            assert_eq!(&vocab.encode(text), ids, "{name}: {text:?}");
        }
    }
}

/// That two vocabularies give the same ids, and decode them alike.
fn assert_same(what: &str, one: &Vocab, other: &Vocab) {
    // GGUF files fill up with `[PAD…]`, and two models may share their text.
    if what.starts_with("qwen") || what.starts_with("llama2:") {
        assert_eq!((one.size(), one.control()), (other.size(), other.control()), "{what}");
    }
    for (name, text) in corpus() {
        assert_eq!(one.encode(&text), other.encode(&text), "{what}: {name}");
    }
    check(what, 500, text(), |text| {
        let ids = one.encode(&text);
        prop_assert_eq!(&ids, &other.encode(&text));
        prop_assert_eq!(one.decode_bytes(&ids), other.decode_bytes(&ids));
        Ok(())
    });
}

#[test]
fn two_files_of_one_vocabulary_give_one_result() {
    type Pair = (&'static str, &'static [&'static str], &'static [&'static str]);
    let pairs: [Pair; 8] = [
        (
            "qwen2: ranks, merges",
            &["qwen2/qwen.tiktoken", "qwen2/tokenizer_config.json"],
            &QWEN2_MERGES,
        ),
        ("qwen2: merges, json", &QWEN2_MERGES, &["qwen2/tokenizer.json"]),
        (
            "qwen2.5: merges, json",
            &QWEN25_MERGES,
            &["qwen2/tokenizer.json", "qwen2.5/tokenizer_config.json"],
        ),
        (
            "qwen3: ranks, json",
            &["qwen2/qwen.tiktoken", "qwen3/tokenizer_config.json"],
            &["qwen3/tokenizer.json"],
        ),
        ("llama2: model, gguf", &["llama2/tokenizer.model"], &["llama2/llama-spm.gguf"]),
        ("llama2, phi-3 gguf", &["llama2/tokenizer.model"], &["phi3/phi-3.gguf"]),
        ("phi-3: gguf, json", &["phi3/phi-3.gguf"], &["phi3/phi-3/tokenizer.json"]),
        ("phi-3-mini: gguf, json", &["phi3/phi-3.gguf"], &["phi3/phi-3-mini/tokenizer.json"]),
    ];
    for (what, one, other) in pairs {
        let (Some(one), Some(other)) = (files(one), files(other)) else { continue };
        assert_same(what, &load(one).unwrap(), &load(other).unwrap());
    }
}

/// The ids of a text; none where a vocabulary that says so lacks a token for it.
fn encoded(vocab: &Vocab, text: &str) -> Option<Vec<TokenId>> {
    match vocab.try_encode(text) {
        Ok(ids) => Some(ids),
        Err(error) => {
            assert!(!vocab.lossless() && error.to_string().contains("no token for"), "{error}");
            None
        }
    }
}

#[test]
fn text_is_never_control() {
    for (name, vocab) in vocabs() {
        assert!(!vocab.control().is_empty(), "{name}");
        let safe = |text: &str| {
            let Some(ids) = encoded(vocab, text) else { return };
            assert!(ids.iter().all(|&id| !vocab.is_control(id)), "{name}: {text:?} is {ids:?}");
        };
        for spelling in vocab.control().keys() {
            for text in [
                spelling.clone(),
                format!("x{spelling}y"),
                format!("  {spelling}  \n"),
                spelling.repeat(2),
                spelling.replace('\u{2581}', " "),
            ] {
                safe(&text);
            }
        }
        // By tables: no merge makes or uses one.
        for merge in vocab.merge_ids() {
            assert!(merge.iter().flatten().all(|&id| !vocab.is_control(id)), "{name}: {merge:?}");
        }
    }
}

#[test]
fn text_comes_back() {
    for (name, vocab) in vocabs() {
        check(name, 200, text(), |text| {
            let Some(ids) = encoded(vocab, &text) else { return outside() };
            let normalised = vocab.normalise(&text).replace('\u{2581}', " ");
            let decoded = vocab.decode(&ids, Spelling::Spell).unwrap().replace('\u{2581}', " ");
            prop_assert_eq!(decoded, normalised);
            Ok(())
        });
    }
}

#[test]
fn control_by_hand() {
    let spelled: [(&str, &[(&str, TokenId)]); 8] = [
        ("chatglm3", &[("sop", 64792), ("<|observation|>", 64797)]),
        ("deepseek-coder", &[("<|EOT|>", 32021), ("[PAD32022]", 32022)]),
        ("deepseek-v3", &[("<｜begin▁of▁sentence｜>", 0), ("<think>", 128_798)]),
        ("glm4", &[("<|endoftext|>", 151_329), ("<|user|>", 151_336)]),
        ("gpt-oss", &[("<|call|>", 200_012)]),
        ("internlm2", &[("<|im_start|>", 92543), ("[UNUSED_TOKEN_146]", 92543)]),
        ("phi3", &[("</s>", 2), ("<|placeholder6|>", 32009), ("[PAD32063]", 32063)]),
        ("qwen2.5 as merges", &[("<tool_call>", 151_657), ("<|im_end|>", 151_645)]),
    ];
    let vocabs = vocabs();
    for (name, spelled) in spelled {
        let Some((_, vocab)) = vocabs.iter().find(|(known, _)| *known == name) else { continue };
        for (spelling, id) in spelled {
            assert_eq!(vocab.control().get(*spelling), Some(id), "{name}: {spelling}");
        }
    }
    let sizes = [
        ("chatglm3", 64798, "sentencepiece"),
        ("deepseek-v3", 128_805, "tiktoken"),
        ("glm4", 151_343, "tiktoken"),
        ("gpt-oss", 200_019, "tiktoken"),
        ("llama3", 128_256, "tiktoken"),
        ("phi3", 32064, "gguf"),
        ("phi3/phi-3-small", 100_352, "tiktoken"),
        ("qwen2.5 as merges", 151_665, "vocab.json"),
    ];
    for (name, size, kind) in sizes {
        let Some((_, vocab)) = vocabs.iter().find(|(known, _)| *known == name) else { continue };
        assert_eq!((vocab.size(), vocab.kind()), (size, kind), "{name}");
    }
}

/// The bytes of all single-byte ranks, and `more` after them.
fn ranks(more: &[(&str, TokenId)]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let line = |bytes: &[u8], id: TokenId| {
        let mut text: String = bytes
            .chunks(3)
            .flat_map(|chunk| {
                let bits = chunk.iter().fold(0, |bits, &b| bits << 8 | u32::from(b));
                let bits = bits << (8 * (3 - chunk.len()));
                let digit = move |at: usize| DIGITS[(bits >> (18 - 6 * at)) as usize & 63] as char;
                (0..4).map(move |at| if at > chunk.len() { '=' } else { digit(at) })
            })
            .collect();
        text.extend([" ", &id.to_string(), "\n"]);
        text
    };
    let bytes = (0..=255u8).map(|byte| line(&[byte], byte.into()));
    let more = more.iter().map(|(token, id)| line(token.as_bytes(), *id));
    bytes.chain(more).collect::<String>().into_bytes()
}

fn file(name: &str, bytes: impl AsRef<[u8]>) -> (String, Arc<[u8]>) {
    (name.to_owned(), bytes.as_ref().into())
}

fn options(change: impl FnOnce(&mut VocabOptions)) -> VocabOptions {
    let mut options = VocabOptions { pattern: Some(r"\w+|\W+".into()), ..VocabOptions::default() };
    change(&mut options);
    options
}

/// The error that loading ends with.
fn refused(files: Files, options: VocabOptions) -> String {
    load_with(files, options).map_or_else(|error| error.to_string(), |vocab| format!("{vocab:?}"))
}

#[test]
fn ranks_and_what_stands_beside_them() {
    let tokens = ranks(&[("ab", 256), ("<s>", 257), ("abc", 260)]);
    let vocab = |files: Files, options| load_with(files, options).unwrap();
    let alone = vec![file("", &tokens)];
    let plain = vocab(alone.clone(), options(|_| ()));
    assert_eq!(plain.encode("abc<s>"), [260, 60, 115, 62]);
    assert_eq!((plain.size(), plain.is_control(258)), (261, true));

    let special = options(|o| o.special_tokens = vec![("<s>".into(), 257), ("</s>".into(), 258)]);
    let given = vocab(alone.clone(), special);
    assert!(
        given.control().iter().map(|(s, &id)| (s.as_str(), id)).eq([("</s>", 258), ("<s>", 257)])
    );
    assert!(given.encode("</s><s>").iter().all(|&id| id < 256));

    // A name without an id is that of a token; a second spelling of an id is an alias.
    let beside = [
        file(
            "special_tokens_map.json",
            r#"{"eos_token": {"content": "abc"}, "extra_tokens": ["no"]}"#,
        ),
        file("added_tokens.json", r#"{"[END]": 258, "</s>": 258}"#),
    ];
    let files: Files = alone.iter().cloned().chain(beside).collect();
    let named = vocab(files.clone(), options(|_| ()));
    assert_eq!(named.encode("abc"), [256, 99]);
    assert_eq!(named.control()["[END]"], 258);
    assert_eq!(named.control()["</s>"], 258);
    let files = vec![alone[0].clone(), file("added_tokens.json", r#"{"[END]": 258}"#)];
    let text = vocab(files, options(|o| o.text_tokens = vec!["[END]".into(), "abc".into()]));
    assert_eq!(text.encode("abc[END]"), [260, 258]);
}

#[test]
fn a_caller_may_say_what_is_text() {
    let text = |spelling: &str| VocabOptions {
        text_tokens: vec![spelling.into()],
        ..VocabOptions::default()
    };
    if let Some(files) = files(&["mixtral-8x22b/tokenizer.model.v3"]) {
        let vocab = load_with(files.clone(), text("[REFERENCE_DOC_0]")).unwrap();
        assert!(vocab.encode("a[REFERENCE_DOC_0]").contains(&770));
        assert!(!vocab.is_control(770) && vocab.is_control(751));
        let control = "vocabulary `text_tokens`: `[INST]` is no added token of this vocabulary";
        assert_eq!(refused(files, text("[INST]")), control);
    }
    // As the file spells it, or as text does.
    for spelling in ["▁▁", "  "] {
        let Some(files) = files(&["yi/tokenizer.model"]) else { continue };
        assert!(load_with(files, text(spelling)).is_ok());
    }
    if let Some(files) = files(&["qwen2/tokenizer.json"]) {
        let vocab = load_with(files, text("<|im_end|>")).unwrap();
        assert_eq!(vocab.encode("<|im_end|>"), [151_645]);
    }
}

#[test]
fn contradictions_and_what_is_missing_are_named() {
    let tokens = ranks(&[("ab", 256)]);
    let with = |name: &str, text: &str| vec![file("r", &tokens), file(name, text)];
    let none = VocabOptions::default;
    let class = r#"{"tokenizer_class": "Strange"}"#;
    let lone_vocab = vec![file("vocab.json", r#"{"!": 0}"#)];
    let merges =
        vec![file("vocab.json", r#"{"!": 0}"#), file("merges.txt", "#version: 0.2\n! !\n")];
    for (what, error) in [
        (
            refused(vec![file("r", &tokens)], none()),
            "vocabulary `pattern`: how these 257 ranks part text is not known; give `pattern=`",
        ),
        (
            refused(with("tokenizer_config.json", class), none()),
            "vocabulary `pattern`: how these 257 ranks part text is not known; give `pattern=`",
        ),
        (
            refused(with("added_tokens.json", r#"{"x": 300, "x": 301}"#), none()),
            "vocabulary `added_tokens.json`: `x` has id 301, in `added_tokens.json` 300",
        ),
        (
            refused(with("specials.json", r#"{"special_tokens": {"x": 256}}"#), options(|_| ())),
            "vocabulary `specials.json`: `x` has id 256, which is `ab`",
        ),
        (
            refused(
                with("specials.json", r#"{"special_tokens": {"x": 1048576}}"#),
                options(|_| ()),
            ),
            "vocabulary `pieces`: `x` has id 1048576, expected one below 1048576",
        ),
        (
            refused(with("added_tokens.json", r#"{"x": -1}"#), none()),
            "vocabulary `added_tokens.json`: `x` has id -1, expected one from 0",
        ),
        (
            refused(with("added_tokens.json", "{"), none()),
            "vocabulary `added_tokens.json`: EOF while parsing an object at line 1 column 1",
        ),
        (
            refused(with("other.tiktoken", "IQ== 0\n"), none()),
            "vocabulary `pattern`: how these 257 ranks part text is not known; give `pattern=`",
        ),
        (
            refused(with("tokenizer.model", "IQ== 0\n"), none()),
            "vocabulary `files`: `r`, `tokenizer.model`, expected one of them",
        ),
        (
            refused(vec![file("r", &tokens)], options(|o| o.text_tokens = vec!["zz".into()])),
            "vocabulary `text_tokens`: `zz` is no added token of this vocabulary",
        ),
        (
            refused(
                vec![file("r", &tokens)],
                options(|o| o.special_tokens = vec![("s".into(), 300), ("s".into(), 301)]),
            ),
            "vocabulary `special_tokens`: `s` has id 301, in `special_tokens` 300",
        ),
        (
            refused(lone_vocab, none()),
            "vocabulary `file`: `vocab.json`, expected `merges.txt` beside it",
        ),
        (
            refused(merges, none()),
            "vocabulary `pattern`: how `no class` parts text is not known; expected `tokenizer_class` in `tokenizer_config.json` to be a known one, or `pattern=`",
        ),
        (
            refused(vec![file("", [])], none()),
            "vocabulary `file`: an empty file; expected a SentencePiece `.model`, a `tokenizer.json`, `tekken.json`, ranks, `vocab.json` with `merges.txt`, or a GGUF file",
        ),
        (
            refused(vec![file("r", "IQ== 0\nIQ= 1\n")], none()),
            "vocabulary `ranks` at byte 7: a line that is not base 64, a space and a rank",
        ),
        (
            refused(vec![file("r", "IQ== 0\nIg== 0\n")], none()),
            "vocabulary `pieces` at byte 7: `!` and `\"` have id 0",
        ),
    ] {
        assert_eq!(what, error);
    }
}

#[test]
fn of_several_candidates_none_is_guessed() {
    let Some(files) = folder("mixtral-8x22b") else { return };
    let error = refused(files, VocabOptions::default());
    assert_eq!(
        error,
        "vocabulary `files`: `tokenizer.model.v2`, `tokenizer.model.v3`, `tokenizer.model.v7`, expected one of them"
    );
}

#[test]
fn broken_files_are_errors() {
    let broken: Vec<(&str, Files)> = [
        ("ranks", files(&["phi3/phi-3-small/cl100k_base.tiktoken"])),
        ("merges", files(&QWEN2_MERGES)),
        ("gguf of pieces", files(&["phi3/phi-3.gguf"])),
        ("gguf of bytes", files(&["deepseek-coder/deepseek-coder.gguf"])),
        (
            "model and what is beside",
            files(&[
                "internlm2/tokenizer.model",
                "internlm2/specials.json",
                "internlm2/tokenizer_config.json",
            ]),
        ),
    ]
    .into_iter()
    .filter_map(|(what, files)| Some((what, files?)))
    .collect();
    for (what, files) in &broken {
        let count = files.len();
        let damage = (0..count, any::<prop::sample::Index>(), 0..5u8, any::<u8>());
        check(what, 60, damage, |(which, at, how, byte)| {
            let mut files = files.clone();
            let mut bytes = files[which].1.to_vec();
            // The beginning is where counts and lengths are.
            let at =
                if how % 2 == 0 { at.index(bytes.len()) } else { at.index(600.min(bytes.len())) };
            match how {
                0 | 1 => bytes.truncate(at),
                2 | 3 => bytes[at] = byte,
                _ => bytes[at..].iter_mut().take(8).for_each(|b| *b = 0xFF),
            }
            files[which].1 = bytes.into();
            // Either still a vocabulary, which keeps the promise, or an error.
            if let Ok(vocab) = load(files) {
                let spellings: String = vocab.control().keys().take(50).cloned().collect();
                prop_assert!(vocab.encode(&spellings).iter().all(|&id| !vocab.is_control(id)));
            }
            Ok(())
        });
    }
}

/// A GGUF file of version 3 with these values, each written as it stands there.
fn gguf(values: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(0u64.to_le_bytes());
    bytes.extend((values.len() as u64).to_le_bytes());
    for (key, kind, value) in values {
        bytes.extend((key.len() as u64).to_le_bytes());
        bytes.extend(key.as_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(*value);
    }
    bytes
}

#[test]
fn absurd_lengths_cost_nothing() {
    let string = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let array = |kind: u32, count: u64| [&kind.to_le_bytes()[..], &count.to_le_bytes()].concat();
    let nested = [array(9, 1), array(9, 1), array(9, 1), array(9, 1), array(9, 1)].concat();
    for (bytes, error) in [
        (
            gguf(&[("k", 8, &u64::MAX.to_le_bytes())]),
            "vocabulary `metadata` at byte 45: a value of 18446744073709551615 bytes where 0 are left",
        ),
        (
            gguf(&[("k", 9, &array(10, u64::MAX))]),
            "vocabulary `metadata` at byte 49: a value of 18446744073709551615 bytes where 0 are left",
        ),
        (
            gguf(&[("k", 9, &array(8, u64::MAX))]),
            "vocabulary `metadata` at byte 49: a value of 8 bytes where 0 are left",
        ),
        (
            gguf(&[("k", 9, &nested)]),
            "vocabulary `metadata` at byte 85: arrays nested deeper than 4",
        ),
        (gguf(&[("k", 99, &[])]), "vocabulary `metadata` at byte 37: a value of unknown type 99"),
        (
            gguf(&[("tokenizer.ggml.tokens", 9, &array(8, u64::MAX))]),
            "vocabulary `metadata` at byte 69: a value of 8 bytes where 0 are left",
        ),
        (
            gguf(&[("tokenizer.ggml.scores", 9, &array(6, u64::MAX))]),
            "vocabulary `metadata` at byte 69: a value of 18446744073709551615 bytes where 0 are left",
        ),
        (
            gguf(&[("a", 0, &[1]), ("a", 0, &[1])]),
            "vocabulary `metadata` at byte 47: `a` stands twice",
        ),
        (gguf(&[]), "vocabulary `tokenizer.ggml.tokens`: 0 of them, expected 1 to 1048576"),
        (b"GGUF\0\0\0\x03".to_vec(), "vocabulary `file`: big-endian, which is not implemented"),
        (
            b"GGUF\x01\0\0\0".to_vec(),
            "vocabulary `file`: version 1 is not implemented; expected 2 or 3",
        ),
        (b"GGUF".to_vec(), "vocabulary `metadata` at byte 4: a value of 4 bytes where 0 are left"),
        (
            gguf(&[
                ("tokenizer.ggml.model", 8, &string("bert")),
                ("tokenizer.ggml.tokens", 9, &[array(8, 1), string("a")].concat()),
            ]),
            "vocabulary `tokenizer.ggml.model`: `bert` is not implemented; expected `llama`, `gpt2` or `gemma4`",
        ),
        (
            gguf(&[
                ("tokenizer.ggml.model", 8, &string("gpt2")),
                ("tokenizer.ggml.pre", 8, &string("whitespace")),
                ("tokenizer.ggml.tokens", 9, &[array(8, 1), string("a")].concat()),
            ]),
            "vocabulary `tokenizer.ggml.pre`: `whitespace` is not implemented: it drops white space; give the model's `tokenizer.json`",
        ),
    ] {
        assert_eq!(refused(vec![file("x.gguf", bytes)], VocabOptions::default()), error);
    }
}
