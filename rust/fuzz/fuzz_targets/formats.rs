//! Every built-in format with a vocabulary that has its control tokens: the embedded one, and what it lacks.

use std::sync::LazyLock;

use chatcodec::{Codec, Format, TokenId, Vocab, VocabFiles, VocabOptions};

#[path = "../../../tests/common/spec.rs"]
#[allow(dead_code)]
mod spec;

pub const FILE: &[u8] = include_bytes!("../../vocab/src/vocab/embedded.model");

/// A format bound, and the spellings of its control tokens, the longest first.
pub struct Bound {
    pub name: &'static str,
    pub codec: Codec,
    pub control: Vec<(String, TokenId)>,
}

/// All formats, in the order of their names.
pub static BOUND: LazyLock<Vec<Bound>> = LazyLock::new(|| Format::names().map(bind).collect());

fn bind(name: &'static str) -> Bound {
    let format = Format::built_in(name).expect("it is built in");
    let spec = spec::Spec::new(name, format.text());
    let appended = spec::strings(spec.get(&["append"]));
    let known = Vocab::load(FILE).expect("it is embedded");
    let lacks = |spelling: &&String| {
        !known.control().contains_key(*spelling) && !appended.contains(spelling)
    };
    let new = spec.control.values().filter_map(|spellings| spellings.first()).filter(lacks);
    let first = TokenId::try_from(known.size()).expect("few ids");
    let special_tokens = new.cloned().zip(first..).collect();
    let options = VocabOptions { special_tokens, ..VocabOptions::default() };
    let vocab = Vocab::load_files(VocabFiles { options, ..VocabFiles::one(FILE) });
    let codec = Codec::new(&format, &vocab.expect("a vocabulary")).expect("it has the tokens");
    let own = spec.control.values().flatten();
    let mut control: Vec<(String, TokenId)> = own
        .filter_map(|spelling| Some((spelling.clone(), *codec.vocab().control().get(spelling)?)))
        .collect();
    control.sort_by_key(|(spelling, _)| std::cmp::Reverse(spelling.len()));
    Bound { name, codec, control }
}

/// The format that a word names; any other word stands for one of them too.
pub fn named(word: &str) -> &'static Bound {
    let sum = word.bytes().fold(0, |sum: usize, byte| sum.wrapping_mul(31) + usize::from(byte));
    BOUND.iter().find(|bound| bound.name == word).unwrap_or(&BOUND[sum % BOUND.len()])
}
