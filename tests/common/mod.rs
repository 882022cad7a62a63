//! What the laws share: test data, vocabularies and codecs to try them on, and how many cases.
//!
//! Real vocabularies are not part of the project. They are found in `../shared`, or where
//! `CHATCODEC_TEST_DATA` points; a law skips those that are not there and says so. The embedded
//! vocabulary is always tried. `CHATCODEC_LONG=1` runs ten times as many cases; [`seed`] says which.

#![allow(unreachable_pub, reason = "the tests are no crate that others use")]

pub mod conversation;
pub mod dialogue;
pub mod endless;
pub mod events;
pub mod files;
pub mod model;
pub mod naive;
pub mod seed;
pub mod spec;
pub mod streams;
pub mod table;
pub mod template;
pub mod text;
pub mod tracers;

use std::fmt::Debug;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Once};

use chatcodec::{Codec, DeclaredTools, Format, TokenId, Vocab};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

/// The tools that a text declares.
pub fn declared(codec: &Codec, tools: Option<&str>) -> Option<DeclaredTools> {
    let read = |text: &str| codec.read_tools(&serde_json::Value::from(text)).ok().flatten();
    tools.map(|text| read(text).unwrap_or_else(|| text.to_owned().into()))
}

/// The folder with `vocab/` and `corpus/`, if there is one.
pub fn test_data() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("CHATCODEC_TEST_DATA") {
        let folder = PathBuf::from(given);
        assert!(folder.is_dir(), "`CHATCODEC_TEST_DATA` names no folder: {}", folder.display());
        return Some(folder);
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    folder.is_dir().then_some(folder)
}

/// The bytes of a file of the test data; the first absent one is named, once in a run.
pub fn read_data(path: &str) -> Option<Vec<u8>> {
    let file = test_data().map(|folder| folder.join(path)).filter(|file| file.exists());
    let Some(file) = file else {
        static NAMED: Once = Once::new();
        NAMED.call_once(|| {
            // Not `eprintln!`: the test harness shows its lines only where a test fails.
            let _ = writeln!(
                std::io::stderr(),
                "no test data `{path}` in `../shared` or `CHATCODEC_TEST_DATA`: the laws skip \
                 every vocabulary that is absent; `make test-data` fetches those that are public"
            );
        });
        return None;
    };
    Some(std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display())))
}

/// A vocabulary with its file, which the naive reference reads by itself.
pub struct TestVocab {
    pub name: &'static str,
    pub file: Vec<u8>,
    pub vocab: Vocab,
}

/// The embedded vocabulary, the same with a dummy prefix, and the real ones that are there.
pub fn vocabs() -> &'static [TestVocab] {
    static VOCABS: LazyLock<Vec<TestVocab>> = LazyLock::new(|| {
        let embedded = include_bytes!("../../rust/vocab/src/vocab/embedded.model").to_vec();
        let prefixed = model::with_chat_tokens_and_dummy_prefix(&embedded);
        let vocab = Vocab::load(&prefixed).unwrap_or_else(|e| panic!("prefixed: {e}"));
        let mut vocabs = vec![
            TestVocab { name: "embedded", file: embedded, vocab: Vocab::embedded() },
            TestVocab { name: "prefixed", file: prefixed, vocab },
        ];
        for (name, path) in [
            ("internlm2", "vocab/internlm2/tokenizer.model"),
            ("yi", "vocab/yi/tokenizer.model"),
            ("llama2", "vocab/llama2/tokenizer.model"),
            ("chatglm3", "vocab/chatglm3/tokenizer.model"),
            ("mixtral-8x7b", "vocab/mixtral-8x7b/tokenizer.model.v1"),
        ] {
            if let Some(file) = read_data(path) {
                let vocab = Vocab::load(&file).unwrap_or_else(|e| panic!("{path}: {e}"));
                vocabs.push(TestVocab { name, file, vocab });
            }
        }
        vocabs
    });
    &VOCABS
}

/// A format for vocabularies that have no chat tokens but `<s>` and `</s>`.
pub const PLAIN_FORMAT: &str = r#"
name = "plain"
guarantee = "ids"
source = "the tests"
generation = { prompt = "{START}assistant\n" }
[control]
START = "<s>"
STOP = "</s>"
[turn]
system = "{START}system\n{content}{STOP}\n"
user = "{START}user\n{content}{STOP}\n"
assistant = "{START}assistant\n{content}{STOP}\n"
"#;

/// A format whose turns are told apart by one token each, so that the caller's text begins its run:
/// there a dummy prefix stands right before it.
pub const TERSE_FORMAT: &str = r#"
name = "terse"
guarantee = "ids"
source = "the tests"
begin = "{BOS}"
generation = { prompt = "{ASSISTANT}" }
[control]
BOS = "<s>"
STOP = "</s>"
SYSTEM = ["<|plugin|>", "[UNUSED_TOKEN_141]"]
USER = ["<|im_start|>", "[UNUSED_TOKEN_146]"]
ASSISTANT = ["<|action_start|>", "[UNUSED_TOKEN_144]"]
[turn]
system = "{SYSTEM}{content}{STOP}"
user = "{USER}{content}{STOP}"
assistant = "{ASSISTANT}{content}{STOP}"
"#;

/// A codec, the vocabulary it is bound to, and the reference for its text.
pub struct TestCodec {
    pub name: String,
    pub format: &'static str,
    pub codec: Codec,
    pub naive: naive::Naive,
}

impl TestCodec {
    /// Whether the format has calls, results and names.
    pub fn has_calls(&self) -> bool {
        self.format == "internlm2"
    }

    pub fn control_id(&self, spelling: &str) -> TokenId {
        self.codec.vocab().control()[spelling]
    }
}

/// Every vocabulary with every format that fits it.
pub fn codecs() -> &'static [TestCodec] {
    static CODECS: LazyLock<Vec<TestCodec>> = LazyLock::new(|| {
        let mut codecs = Vec::new();
        for TestVocab { name, file, vocab } in vocabs() {
            let formats: &[&str] = match *name {
                "embedded" => &["internlm2", "chatml", "terse"],
                "prefixed" => &["internlm2", "terse"],
                "internlm2" => &["internlm2"],
                "yi" => &["chatml"],
                _ => &["plain"],
            };
            for format in formats {
                let name = format!("{format} on {name}");
                let loaded = match *format {
                    "plain" => Format::parse("plain", PLAIN_FORMAT),
                    "terse" => Format::parse("terse", TERSE_FORMAT),
                    format => Format::built_in(format),
                };
                let codec = loaded.and_then(|format| Codec::new(&format, vocab));
                let codec = codec.unwrap_or_else(|e| panic!("{name}: {e}"));
                let naive = naive::Naive::read(file, |id| !codec.vocab().is_control(id));
                codecs.push(TestCodec { name, format, codec, naive });
            }
        }
        codecs
    });
    &CODECS
}

pub fn is_long() -> bool {
    std::env::var_os("CHATCODEC_LONG").is_some_and(|value| value == "1")
}

/// How many cases to run where a short run has `short`.
pub fn cases(short: u32) -> u32 {
    if is_long() { short * 10 } else { short }
}

/// How many values may be outside of a law's domain for one within it: a law that mostly has nothing to say fails.
const OUTSIDE: u32 = 3;

/// What a law says of a value that is outside of its domain: another one is tried in its place.
pub fn outside() -> Result<(), TestCaseError> {
    Err(TestCaseError::reject("outside of the law's domain"))
}

/// How many values a law was tried on, and how many of them it had something to say of. For domains that are too
/// thin for [`outside`].
#[derive(Default)]
pub struct Domain {
    tried: AtomicUsize,
    within: AtomicUsize,
}

impl Domain {
    pub fn try_one(&self) {
        self.tried.fetch_add(1, Ordering::Relaxed);
    }

    /// The value is within the domain: to be called where the law's last assertion is.
    pub fn is_within(&self) {
        self.within.fetch_add(1, Ordering::Relaxed);
    }

    /// Fails where less than `percent` of the values were within.
    pub fn check(&self, percent: usize) {
        let (tried, within) =
            (self.tried.load(Ordering::Relaxed), self.within.load(Ordering::Relaxed));
        assert!(
            within * 100 >= tried * percent,
            "{within} of {tried} values were within the domain\n{}",
            seed::repeat(None)
        );
    }
}

/// Runs `law` on values of `strategy`; a failure is told with its smallest value. Of values [`outside`] of its domain
/// there may be [`OUTSIDE`] times as many as within.
pub fn check<S: Strategy<Value: Debug>>(
    what: &str,
    short: u32,
    strategy: S,
    law: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    try_check(what, short, strategy, law).unwrap_or_else(|failure| panic!("{failure}"));
}

/// As [`check`]; the failure is for the caller to tell.
pub fn try_check<S: Strategy<Value: Debug>>(
    what: &str,
    short: u32,
    strategy: S,
    law: impl Fn(S::Value) -> Result<(), TestCaseError>,
) -> Result<(), String> {
    if !seed::is_asked(what) {
        return Ok(());
    }
    let cases = cases(short);
    let max_shrink_iters =
        std::env::var("SHRINK").ok().and_then(|s| s.parse().ok()).unwrap_or(cases.max(3000));
    let config = Config {
        cases,
        max_shrink_iters,
        // Of a few values, chance may put more outside.
        max_global_rejects: OUTSIDE * cases + 30,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed::of(what)),
        ..Config::default()
    };
    let failure = match TestRunner::new(config).run(&strategy, law) {
        Ok(()) => return Ok(()),
        Err(TestError::Fail(reason, value)) => format!("{reason}\nfor {value:#?}"),
        Err(TestError::Abort(reason)) => reason.to_string(),
    };
    Err(format!("{what}: {failure}\n{}", seed::repeat(Some(what))))
}
