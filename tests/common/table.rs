//! Every built-in format with every vocabulary that it binds to. The formats come from the crate's own
//! list and what they can write is found out by trying, so a format that is added is tested by itself.

use std::collections::HashMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::thread;

use chatcodec::{
    Call, CallBody, Codec, EncodeOptions, Encoding, Format, Guarantee, Message, Role, Spelling,
    TokenId, Vocab, VocabFiles, VocabOptions,
};

use proptest::strategy::Strategy;
use proptest::test_runner::TestCaseError;

use super::spec::Spec;
use super::{declared, model, seed, test_data, try_check};

/// A format bound to a vocabulary.
pub struct Entry {
    /// Both names, for messages.
    pub name: String,
    pub format: &'static str,
    /// The vocabulary's name: entries of one name have the same ids for text.
    pub vocab: String,
    pub codec: Codec,
    /// Whether the vocabulary was made for the format, and is always there.
    pub made: bool,
    pub able: Able,
    /// Texts that the format gives a meaning to: spellings of its control tokens and its literals.
    pub meant: Vec<String>,
    /// The format's file.
    spec: Spec,
}

/// Runs `law` on values made for each entry; failures are told together, each with its smallest value.
pub fn check_each<S: Strategy<Value: Debug>>(
    entries: impl IntoIterator<Item = &'static Entry>,
    short: u32,
    strategy: impl Fn(&'static Entry) -> S,
    law: impl Fn(&'static Entry, S::Value) -> Result<(), TestCaseError>,
) {
    let mut failures = Vec::new();
    for entry in entries {
        // Most for the vocabularies that are made for the format.
        let short = short.div_ceil(if entry.made { 3 } else { 24 });
        let run = try_check(&entry.name, short, strategy(entry), |value| law(entry, value));
        failures.extend(run.err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// What a format has a place for.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a thing that a format has or has not")]
pub struct Able {
    pub system: bool,
    pub user_name: bool,
    pub functions: bool,
    pub codes: bool,
    pub results: bool,
    pub reasoning: bool,
    pub tools: bool,
    /// Names of the closed sets that the file gives.
    pub named: Vec<String>,
    /// Whether a function's name is any text.
    pub free_names: bool,
    /// Whether an assistant's text may be a call, or end reasoning.
    pub bare_calls: bool,
    /// Whether a control token takes the white space beside it.
    pub strips: bool,
}

impl Entry {
    pub fn is_ids(&self) -> bool {
        self.codec.format().guarantee() == Guarantee::Ids
    }

    /// Whether ids tell everything apart: turns, and calls from text.
    pub fn is_certain(&self) -> bool {
        self.is_ids() && !self.able.bare_calls
    }

    /// Whether the system message of a conversation without one comes back with its control tokens as text.
    pub fn spells_default(&self) -> bool {
        self.codec.format().losses().iter().any(|loss| loss.ends_with("its control tokens as text"))
    }

    /// A key of the file's calls, if it has it.
    fn of_calls(&self, key: &str) -> Option<toml::Value> {
        let spec = &self.spec;
        spec.keys(&["call"]).iter().find_map(|kind| spec.get(&["call", kind, key]).cloned())
    }

    /// The texts of the format around a string that is an argument, if it has some.
    pub fn wrap(&self, text: &str) -> Option<(String, String)> {
        let wrap = self.of_calls("wrap")?;
        let mut when = wrap.get("when")?.as_array()?.iter().filter_map(toml::Value::as_str);
        let around = |key| wrap.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        when.any(|when| text.contains(when)).then_some((around("open")?, around("close")?))
    }

    /// What a word of Python's is among the arguments, in formats that write such words.
    pub fn word(&self, text: &str) -> Option<serde_json::Value> {
        self.of_calls("words").filter(|words| words.as_str() == Some("python"))?;
        let text = text.trim_matches([' ', '\t', '\n', '\r']);
        let meant = match text {
            "True" => true.into(),
            "False" => false.into(),
            "None" => serde_json::Value::Null,
            _ => return None,
        };
        Some(meant)
    }

    /// Whether an id names the function that is called: another id is replaced in a conversation.
    pub fn ids_name_functions(&self) -> bool {
        self.of_calls("id").is_some_and(|id| id.as_str().is_some_and(|id| id.contains("{name}")))
    }

    /// Whether the format's own turn comes back with its control tokens as text.
    pub fn spells_own_turn(&self) -> bool {
        let is_own = |loss: &&str| {
            loss.starts_with("that the format's own turn")
                && loss.ends_with("its control tokens as text")
        };
        self.codec.format().losses().iter().any(is_own)
    }

    pub fn encode(
        &self,
        messages: &[Message],
        options: &EncodeOptions,
    ) -> chatcodec::Result<Encoding> {
        self.codec.encode(messages.to_vec(), None, options)
    }

    fn new(format: &'static str, vocab: &str, made: bool, codec: Codec) -> Self {
        let able = Able::of(&codec);
        let meant = meant(codec.format().text());
        let spec = Spec::new(format, codec.format().text());
        let name = format!("{format} on {vocab}");
        Self { name, format, vocab: vocab.to_owned(), codec, made, able, meant, spec }
    }
}

impl Able {
    fn of(codec: &Codec) -> Self {
        let writes = |messages: &[Message], tools: Option<&str>| {
            let tools = declared(codec, tools);
            codec.encode(messages.to_vec(), tools.as_ref(), &EncodeOptions::default()).is_ok()
        };
        let user = Message::new(Role::User, "x");
        let after_user = |message| writes(&[user.clone(), message], None);
        let named = codec.format().text().lines().filter_map(|line| {
            line.strip_prefix("[named.").and_then(|line| line.strip_suffix(']')).map(str::to_owned)
        });
        let turns = vec![user.clone(), Message::new(Role::Assistant, "x"), user.clone()];
        let turns = codec.encode(turns, None, &EncodeOptions::default());
        let plain = codec.encode(vec![user.clone()], None, &EncodeOptions::default());
        let plain = turns.or(plain);
        let plain = plain.unwrap_or_else(|e| panic!("{}: {e}", codec.format().name()));
        let shown = codec.vocab().decode(plain.ids(), Spelling::Spell).expect("ids of its own");
        let result = Message::new(Role::Tool, "x");
        let is_call = |text: &&str| {
            let messages = vec![user.clone(), Message::new(Role::Assistant, *text)];
            codec
                .encode(messages, None, &EncodeOptions::default())
                .is_ok_and(|encoding| !encoding.collisions().is_empty())
        };
        Self {
            system: writes(&[Message::new(Role::System, "x"), user.clone()], None),
            user_name: writes(&[Message { name: Some("a".into()), ..user.clone() }], None),
            functions: after_user(calling(function("f", r#"{"a": 1}"#))),
            codes: after_user(calling(code(None, "x"))),
            results: after_user(result.clone())
                || writes(&[user.clone(), calling(function("f", r#"{"a": 1}"#)), result], None),
            reasoning: after_user(Message {
                reasoning: Some("x".into()),
                ..Message::new(Role::Assistant, "x")
            }),
            tools: writes(std::slice::from_ref(&user), Some("[]")),
            named: named.collect(),
            bare_calls: codec.format().guarantee() == Guarantee::Ids
                && (BARE_CALLS.iter().any(is_call) || has_text_markers(codec.format())),
            free_names: after_user(calling(function("a b", r#"{"a": 1}"#))),
            strips: shown != plain.text(),
        }
    }
}

/// Whether the file, or the variant that is loaded, has markers that are text.
fn has_text_markers(format: &Format) -> bool {
    let of_variant = format.name().split_once(':').is_some_and(|(_, variant)| {
        let quoted = format!("\n[variant.\"{variant}\".text]\n");
        let bare = format!("\n[variant.{variant}.text]\n");
        format.text().contains(&quoted) || format.text().contains(&bare)
    });
    of_variant || format.text().contains("\n[text]\n")
}

/// Calls as some formats write them without a token.
pub const BARE_CALLS: &[&str] = &[
    r#"{"name": "f", "parameters": {"a": 1}}"#,
    r#"{"name": "f", "parameters": {"a": 1}}; {"name": "g", "parameters": {}}"#,
    "[f(a=1, b=\"x\"), g()]",
    r#"functools[{"name": "f", "arguments": {"a": 1}}]"#,
];

pub fn calling(call: Call) -> Message {
    Message { calls: vec![call], ..Message::new(Role::Assistant, "") }
}

pub fn function(name: &str, arguments: &str) -> Call {
    Call { id: None, body: CallBody::Function { name: name.into(), arguments: arguments.into() } }
}

pub fn code(language: Option<&str>, source: &str) -> Call {
    let language = language.map(str::to_owned);
    Call { id: None, body: CallBody::Code { language, source: source.into() } }
}

/// The names of the formats that are tested: all, or those of `CHATCODEC_FORMATS`, parted by commas.
fn format_names() -> impl Iterator<Item = &'static str> {
    let only = std::env::var("CHATCODEC_FORMATS").unwrap_or_default();
    let only: Vec<String> = only.split(',').map(str::to_owned).collect();
    let is_asked = move |name: &&str| only == [""] || only.iter().any(|asked| asked == name);
    Format::names().filter(is_asked)
}

/// A built-in format that refuses nothing: its table writes and reads also what the template of its models writes
/// otherwise.
fn whole(name: &str) -> Format {
    let built_in = Format::built_in(name).unwrap_or_else(|e| panic!("{e}"));
    let lines = built_in.text().lines().filter(|line| !line.starts_with("refuses = "));
    let text = lines.flat_map(|line| [line, "\n"]).collect::<String>();
    let file = name.split(':').next().unwrap_or(name);
    Format::parse_variant(file, &text, built_in.variant()).unwrap_or_else(|e| panic!("{e}"))
}

/// The table, of vocabularies that lose no text.
pub fn entries() -> &'static [Entry] {
    static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
        let of_format = |(nth, name)| {
            let format = whole(name);
            let made = made_for(&control(format.text())).into_iter().map(|(vocab, loaded)| {
                let codec = Codec::new(&format, &loaded);
                let codec = codec.unwrap_or_else(|e| panic!("{name} on {vocab}: {e}"));
                Entry::new(name, vocab, true, codec)
            });
            let real = real().iter().filter(|(_, vocab)| vocab.lossless()).collect();
            let bound = seed::rotated(real, nth).filter_map(|(vocab, loaded)| {
                let codec = Codec::new(&format, loaded).ok()?;
                Some(Entry::new(name, vocab, false, codec))
            });
            let bound = bound.take(seed::most(1));
            made.chain(bound).collect::<Vec<_>>()
        };
        let formats = format_names().enumerate();
        on_all_cores(formats, of_format).into_iter().flatten().collect()
    });
    &ENTRIES
}

/// What is made of each item, on all cores, in the order of the items.
fn on_all_cores<T: Send, R: Send>(
    items: impl Iterator<Item = T>,
    make: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let queue = Mutex::new(items.collect::<Vec<_>>().into_iter().enumerate());
    let results = Mutex::new(Vec::new());
    let work = || {
        while let Some((nth, item)) = next_of(&queue) {
            let result = make(item);
            results.lock().expect("no panic in here").push((nth, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut results = results.into_inner().expect("no panic in here");
    results.sort_by_key(|(nth, _)| *nth);
    results.into_iter().map(|(_, result)| result).collect()
}

fn next_of<I: Iterator>(queue: &Mutex<I>) -> Option<I::Item> {
    queue.lock().expect("no panic in here").next()
}

/// The vocabularies that hold what all formats need, and every format that binds to them.
pub fn shared() -> &'static [Entry] {
    static SHARED: LazyLock<Vec<Entry>> = LazyLock::new(|| {
        let formats = || format_names().map(|name| (name, whole(name)));
        let mut all: Vec<String> =
            formats().flat_map(|(_, format)| control(format.text())).collect();
        all.sort();
        all.dedup();
        let mut entries = Vec::new();
        for (vocab, loaded) in made_for(&all) {
            for (name, format) in formats() {
                let codec = Codec::new(&format, &loaded);
                let codec = codec.unwrap_or_else(|e| panic!("{name} on {vocab}: {e}"));
                entries.push(Entry::new(name, vocab, true, codec));
            }
        }
        entries
    });
    &SHARED
}

/// Every format with vocabularies that have no token for some texts, made and real.
fn lossy() -> &'static [Entry] {
    static LOSSY: LazyLock<Vec<Entry>> = LazyLock::new(|| {
        let of_format = |(nth, name)| {
            let format = whole(name);
            let made = made_lossy(&control(format.text()));
            let made = made.into_iter().map(|(vocab, loaded)| (vocab.to_owned(), loaded));
            let real = real().iter().filter(|(_, vocab)| !vocab.lossless()).cloned();
            let mut entries = Vec::new();
            for (vocab, loaded) in seed::rotated(made.chain(real).collect(), nth) {
                if entries.len() >= seed::most(1) {
                    break;
                }
                assert!(!loaded.lossless(), "{vocab}");
                let Ok(codec) = Codec::new(&format, &loaded) else { continue };
                // What the format itself writes may have no token.
                let plain = vec![Message::new(Role::User, "x")];
                if codec.encode(plain, None, &EncodeOptions::default()).is_ok() {
                    entries.push(Entry::new(name, &vocab, false, codec));
                }
            }
            entries
        };
        let formats = format_names().enumerate();
        let entries: Vec<Entry> = on_all_cores(formats, of_format).into_iter().flatten().collect();
        assert!(entries.len() >= format_names().count() * 2 / 3, "{} are lossy", entries.len());
        entries
    });
    &LOSSY
}

/// The table, and the vocabularies that have no token for some texts: for laws that hold there too.
pub fn with_lossy() -> impl Iterator<Item = &'static Entry> {
    entries().iter().chain(lossy())
}

/// Vocabularies with these control tokens: of bytes without those that emoji begin with; of pieces that the
/// `tokenizers` library runs, of ASCII alone, which it makes lower case.
fn made_lossy(control: &[String]) -> Vec<(&'static str, Vocab)> {
    let is_emoji = |line: &&[u8]| [&b"8A"[..], b"8Q", b"8g", b"8w"].contains(&&line[..2]);
    let lines = ranks().split_inclusive(|&byte| byte == b'\n').filter(|line| !is_emoji(line));
    let without: Vec<u8> = lines.flatten().copied().collect();
    let pieces = Vocab::load(&model::unigram_json(control)).expect("it is made");
    vec![("bytes without emoji", of_ranks(&without, control)), ("pieces of ASCII", pieces)]
}

/// Every format with vocabularies that normalise text, each in another way.
pub fn normalising() -> &'static [Entry] {
    static NORMALISING: LazyLock<Vec<Entry>> = LazyLock::new(|| {
        let of_format = |name| {
            let format = whole(name);
            let control = control(format.text());
            let of_form = |form| {
                let file = model::tokenizer_json(&control, &serde_json::json!({ "type": form }));
                let vocab = Vocab::load(&file).unwrap_or_else(|e| panic!("{name} of {form}: {e}"));
                let codec = Codec::new(&format, &vocab);
                let codec = codec.unwrap_or_else(|e| panic!("{name} of {form}: {e}"));
                Entry::new(name, form, true, codec)
            };
            ["NFC", "NFKC", "NFD", "Lowercase"].map(of_form).into_iter().collect::<Vec<_>>()
        };
        on_all_cores(format_names(), of_format).into_iter().flatten().collect()
    });
    &NORMALISING
}

/// Vocabularies with these control tokens: `SentencePiece` as it is, with a dummy prefix, and of bytes. They are made
/// once for the same tokens: those of a family's variants.
pub fn made_for(control: &[String]) -> Vec<(&'static str, Vocab)> {
    type Made = Arc<OnceLock<Vec<(&'static str, Vocab)>>>;
    static KNOWN: LazyLock<Mutex<HashMap<Vec<String>, Made>>> = LazyLock::new(Mutex::default);
    let made = KNOWN.lock().expect("no panic in here").entry(control.to_vec()).or_default().clone();
    made.get_or_init(|| make_for(control)).clone()
}

fn make_for(control: &[String]) -> Vec<(&'static str, Vocab)> {
    // Read once: a vocabulary with more control tokens shares the pieces of the one that has none.
    static PIECES: LazyLock<[Vocab; 2]> = LazyLock::new(|| {
        let embedded = include_bytes!("../../rust/vocab/src/vocab/embedded.model");
        [&embedded[..], &model::with_dummy_prefix(embedded)]
            .map(|file| Vocab::load(file).expect("it is embedded"))
    });
    let new = control.iter().map(String::as_str).chain(["[UNUSED_TOKEN_9]", "<|reserved|>"]);
    let new: Vec<String> = new.map(str::to_owned).collect();
    let [pieces, prefixed] =
        PIECES.each_ref().map(|vocab| vocab.with_appended(&new).expect("few tokens"));
    vec![("pieces", pieces), ("prefixed pieces", prefixed), ("bytes", of_ranks(ranks(), &new))]
}

/// All the ranks that are made, or some of them, with control tokens after the last.
fn of_ranks(some: &[u8], control: &[String]) -> Vocab {
    let count = ranks().split(|&byte| byte == b'\n').count() - 1;
    let options = VocabOptions {
        special_tokens: control.iter().cloned().zip(i32::try_from(count).expect("few")..).collect(),
        pattern: Some(r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+".to_owned()),
        ..VocabOptions::default()
    };
    let files = VocabFiles { options, ..VocabFiles::one(some) };
    Vocab::load_files(files).unwrap_or_else(|e| panic!("a vocabulary that is made: {e}"))
}

/// Ranks that have tokens for [`words`].
fn ranks() -> &'static [u8] {
    static RANKS: LazyLock<Vec<u8>> = LazyLock::new(|| model::ranks(&words()));
    &RANKS
}

/// What the ranks that are made have tokens for: the words of every format, and of the hostile texts.
fn words() -> Vec<String> {
    let formats = Format::names().filter_map(|name| Format::built_in(name).ok());
    let mut words: Vec<String> = formats.flat_map(|format| meant(format.text())).collect();
    words.extend(["中文", "é", "👩\u{200d}", "\u{2581}", "```", "\"}}", "    "].map(str::to_owned));
    // Not the spellings whole: those are control.
    let formats = Format::names().filter_map(|name| Format::built_in(name).ok());
    let spellings: Vec<String> = formats.flat_map(|format| spellings(format.text())).collect();
    for word in &mut words {
        for spelling in &spellings {
            if let Some(at) = word.find(spelling.as_str()) {
                word.truncate(at + spelling.len());
                word.pop();
            }
        }
        // No vocabulary has longer pieces.
        *word = word.chars().take(200).collect();
    }
    words.sort();
    words.dedup();
    words
}

/// The first spelling of every control token that a format file names, but for those that it appends.
pub fn control(text: &str) -> Vec<String> {
    let table: toml::Table = toml::from_str(text).expect("a format file");
    let appended = table.get("append").and_then(toml::Value::as_array);
    let appended: Vec<&str> =
        appended.into_iter().flatten().filter_map(toml::Value::as_str).collect();
    let first = tokens(&table).filter_map(|spellings| spellings.into_iter().next());
    let mut found: Vec<String> =
        first.filter(|first| !appended.contains(&first.as_str())).collect();
    found.sort();
    found.dedup();
    found
}

/// Every spelling of every control token that a format file names.
fn spellings(text: &str) -> Vec<String> {
    let table: toml::Table = toml::from_str(text).expect("a format file");
    tokens(&table).flatten().collect()
}

/// The spellings of each control token that a format file names, those of its variants too.
fn tokens(table: &toml::Table) -> impl Iterator<Item = Vec<String>> + '_ {
    let variants = table.get("variant").and_then(toml::Value::as_table);
    let variants = variants.into_iter().flat_map(|variants| variants.values());
    let tables = variants.filter_map(toml::Value::as_table).chain([table]);
    let control = tables.filter_map(|table| table.get("control")?.as_table());
    control.flat_map(|control| control.values()).map(|spellings| {
        let one = spellings.as_str().into_iter();
        let many = spellings.as_array().into_iter().flatten().filter_map(toml::Value::as_str);
        one.chain(many).map(str::to_owned).collect()
    })
}

/// The literals between the braces of a format file's strings, and its control spellings.
pub fn meant(text: &str) -> Vec<String> {
    fn walk(value: &toml::Value, found: &mut Vec<String>) {
        match value {
            toml::Value::String(text) => {
                let parts = text.split(['{', '}']).filter(|part| !part.is_empty());
                found.extend(parts.map(str::to_owned));
            }
            toml::Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            toml::Value::Table(table) => {
                let told = ["source", "vocabulary", "guarantee"];
                let values = table.iter().filter(|(key, _)| !told.contains(&key.as_str()));
                values.for_each(|(_, value)| walk(value, found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(&toml::Value::Table(toml::from_str(text).expect("a format file")), &mut found);
    // What turns consist of, in one piece.
    let joined: Vec<String> = found.windows(2).map(<[String]>::concat).collect();
    found.extend(joined);
    found.sort();
    found.dedup();
    found
}

/// The real vocabularies of the test data: every folder, and every file of one that is none by itself.
pub fn real() -> &'static [(String, Vocab)] {
    static REAL: LazyLock<Vec<(String, Vocab)>> = LazyLock::new(|| {
        let Some(folder) = test_data().map(|folder| folder.join("vocab")) else {
            return Vec::new();
        };
        let mut folders = Vec::new();
        for name in names(&folder) {
            let inner = folder.join(&name);
            let within = names(&inner).into_iter().filter(|inside| inner.join(inside).is_dir());
            folders.extend(within.map(|inside| format!("{name}/{inside}")));
            folders.push(name);
        }
        folders.sort();
        folders.retain(|name| folder.join(name).is_dir());
        let sets = folders.into_iter().flat_map(|name| sets(&folder, name));
        let loaded = on_all_cores(sets, |(name, files)| {
            let special_tokens = unnamed(&name);
            let options = VocabOptions { special_tokens, ..VocabOptions::default() };
            Vocab::load_files(VocabFiles { files, options }).ok().map(|vocab| (name, vocab))
        });
        loaded.into_iter().flatten().collect()
    });
    &REAL
}

/// Control tokens that a vocabulary's files do not name: those of DeepSeek-V3's calls and results.
pub fn unnamed(vocab: &str) -> Vec<(String, TokenId)> {
    const FIRST: TokenId = 128_806;
    let words = ["calls▁begin", "calls▁end", "call▁begin", "call▁end", "outputs▁begin"];
    let words = words.into_iter().chain(["outputs▁end", "output▁begin", "output▁end", "sep"]);
    let tokens = words.map(|word| format!("<｜tool▁{word}｜>")).zip(FIRST..);
    tokens.filter(|_| vocab == "deepseek-v3").collect()
}

type Files = Vec<(String, Arc<[u8]>)>;

/// What of a folder may be a vocabulary: all of it together, and each vocabulary file that needs no other.
fn sets(root: &Path, folder: String) -> Vec<(String, Files)> {
    let path = root.join(&folder);
    let read = |name: &String| {
        let bytes = std::fs::read(path.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        (name.clone(), Arc::from(bytes))
    };
    let names: Vec<String> = names(&path)
        .into_iter()
        .filter(|name| VocabFiles::matters(name) && path.join(name).is_file())
        .collect();
    let mut files: Files = names.iter().map(read).collect();
    if folder == "qwen2.5" {
        // Its configuration alone: the vocabulary is its forerunner's.
        for name in ["vocab.json", "merges.txt"] {
            let bytes = std::fs::read(root.join("qwen2").join(name));
            files.extend(bytes.ok().map(|bytes| (name.to_owned(), bytes.into())));
        }
    }
    let alone = |(name, bytes): &(String, Arc<[u8]>)| {
        names.len() > 1
            && VocabFiles::siblings(name, bytes).is_empty()
            && (name.starts_with("tokenizer.model.") || VocabFiles::is_gguf(bytes))
    };
    let mut sets: Vec<(String, Files)> = files
        .iter()
        .filter(|file| alone(file))
        .map(|file| (format!("{folder}/{}", file.0), vec![file.clone()]))
        .collect();
    sets.push((folder, files));
    sets
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
