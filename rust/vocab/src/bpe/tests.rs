//! Byte-level merging against the rules of the references, written down plainly: quadratic and exact.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{ByteBpe, ByteToken, MergeRules, Scratch};
use crate::error::Result;
use crate::split::Splitter;
use crate::token::TokenId;

/// A vocabulary by its tokens' bytes; ids are places.
type Tokens = Vec<Vec<u8>>;

fn byte_tokens(tokens: &Tokens) -> Vec<ByteToken<'_>> {
    let with_id = tokens.iter().enumerate();
    with_id.map(|(id, bytes)| ByteToken { id: id as TokenId, bytes }).collect()
}

fn of_ranks(tokens: &Tokens, splitter: Splitter) -> Result<ByteBpe> {
    ByteBpe::new(&byte_tokens(tokens), MergeRules::Ranks, splitter, false, &[])
}

fn encode(bpe: &ByteBpe, text: &str) -> Vec<TokenId> {
    let mut ids = Vec::new();
    bpe.encode(text, false, &mut Scratch::default(), &mut ids).unwrap();
    ids
}

/// Every byte, in an order that is not theirs, and then `more`.
fn with_bytes(more: impl IntoIterator<Item = Vec<u8>>) -> Tokens {
    let mut tokens: Tokens = (0..=255).map(|byte: u8| vec![byte.wrapping_mul(167)]).collect();
    for token in more {
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    }
    tokens
}

/// tiktoken's rule: a text that is a token is that token; otherwise parts merge, the pair that makes
/// the lowest rank first, the leftmost of equals.
fn naive_ranks(tokens: &Tokens, text: &[u8]) -> Vec<TokenId> {
    let rank = |bytes: &[u8]| tokens.iter().position(|token| token == bytes);
    if let Some(rank) = rank(text) {
        return vec![rank as TokenId];
    }
    let mut parts: Vec<Vec<u8>> = text.iter().map(|&byte| vec![byte]).collect();
    loop {
        let pairs = parts.windows(2).enumerate();
        let ranked = pairs.filter_map(|(at, pair)| Some((rank(&pair.concat())?, at)));
        let Some((_, at)) = ranked.min() else { break };
        let right = parts.remove(at + 1);
        parts[at].extend(right);
    }
    parts.iter().map(|part| rank(part).unwrap() as TokenId).collect()
}

/// Hugging Face's rule: the pair that stands first in the list merges first, the leftmost of equals.
fn naive_pairs(
    tokens: &Tokens,
    pairs: &[(TokenId, TokenId)],
    ignore_merges: bool,
    text: &[u8],
) -> Vec<TokenId> {
    let id = |bytes: &[u8]| tokens.iter().position(|token| token == bytes);
    if let Some(id) = id(text).filter(|_| ignore_merges) {
        return vec![id as TokenId];
    }
    let mut ids: Vec<usize> = text.iter().map(|&byte| id(&[byte]).unwrap()).collect();
    let product = |left: usize, right: usize| id(&[&*tokens[left], &*tokens[right]].concat());
    loop {
        let ranked = ids.windows(2).enumerate().filter_map(|(at, pair)| {
            let wanted = (pair[0] as TokenId, pair[1] as TokenId);
            // Of a pair that is listed twice the second place counts.
            let rank = pairs.iter().rposition(|&listed| listed == wanted)?;
            Some((rank, at, product(pair[0], pair[1])?))
        });
        let Some((_, at, product)) = ranked.min() else { break };
        ids[at] = product;
        ids.remove(at + 1);
    }
    ids.into_iter().map(|id| id as TokenId).collect()
}

/// Tokens of few letters, so that many overlap.
fn letters() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let whole = "[ab]{2,6}|[abc]{2,4}|a{2,9}|[é€]{1,2}".prop_map(String::into_bytes);
    // Tokens of bytes begin and end anywhere.
    let part = ("[aé€中😀]{1,4}", any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let part = part.prop_map(|(text, from, to)| {
        let from = from.index(text.len());
        text.as_bytes()[from..=from + to.index(text.len() - from)].to_vec()
    });
    vec(prop_oneof![2 => whole, 1 => part.prop_filter("one byte", |token| token.len() > 1)], 0..40)
}

/// Texts short enough to be scanned, and ones for the heap.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab]{0,12}",
        "[abc]{0,40}",
        "[ab]{30,120}",
        "a{0,100}",
        "[ab é€]{0,60}",
        "[aé€中😀]{0,20}",
        "[aé€中😀]{20,60}"
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ranks_merge_as_in_tiktoken(more in letters(), texts in vec(text(), 1..6)) {
        let tokens = with_bytes(more);
        let bpe = of_ranks(&tokens, Splitter::Whole).unwrap();
        for text in texts.iter().filter(|text| !text.is_empty()) {
            prop_assert_eq!(encode(&bpe, text), naive_ranks(&tokens, text.as_bytes()), "{}", text);
        }
    }

    #[test]
    fn pairs_merge_as_in_tokenizers(
        more in letters(),
        places in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..60),
        is_letter in vec(any::<bool>(), 60),
        ignore_merges: bool,
        texts in vec(text(), 1..6),
    ) {
        let tokens = with_bytes(more);
        // Random pairs seldom make a token, so most are splits of one.
        let by_bytes: HashMap<&[u8], TokenId> =
            byte_tokens(&tokens).into_iter().map(|token| (token.bytes, token.id)).collect();
        let mut pairs = Vec::new();
        for ((left, right), is_letter) in places.iter().zip(is_letter) {
            let token = left.get(&tokens);
            let (a, b) = token.split_at(right.index(token.len()));
            match (by_bytes.get(a), by_bytes.get(b)) {
                (Some(&a), Some(&b)) => pairs.push((a, b)),
                _ if is_letter => pairs.push((by_bytes[&b"a"[..]], by_bytes[&b"b"[..]])),
                _ => pairs.push((left.index(tokens.len()) as TokenId, -1)),
            }
        }
        let rules = MergeRules::Pairs(&pairs);
        let all = byte_tokens(&tokens);
        let bpe = ByteBpe::new(&all, rules, Splitter::Whole, ignore_merges, &[]).unwrap();
        for text in texts.iter().filter(|text| !text.is_empty()) {
            let expected = naive_pairs(&tokens, &pairs, ignore_merges, text.as_bytes());
            prop_assert_eq!(encode(&bpe, text), expected, "{}", text);
        }
    }

    #[test]
    fn what_is_seen_again_has_the_same_ids(more in letters(), words in vec("[ab]{1,20} ?", 1..50)) {
        let bpe = of_ranks(&with_bytes(more), Splitter::by_name("gpt-2").unwrap()).unwrap();
        let text = words.concat();
        let mut scratch = Scratch::default();
        let (mut first, mut again) = (Vec::new(), Vec::new());
        bpe.encode(&text, false, &mut scratch, &mut first).unwrap();
        bpe.encode(&text, false, &mut scratch, &mut again).unwrap();
        prop_assert_eq!(&first, &again);
        prop_assert_eq!(first, encode(&bpe, &text));
    }

    /// Text of several alphabets in blocks, whose units are pushed many at a time.
    #[test]
    fn pre_tokens_are_encoded_as_each_alone(
        more in letters(),
        words in vec(
            select(vec![
                "a", "ab", " ab", "abba", " abab", "é", " é", "aé", "éa", "жж", " aжa", "abababababababab", "é€中😀a",
                " aaaaaaaaaaaaaé", "中é", "😀", "1", "!", "\n", "'s", "  ", "bbbbbbbééééé",
            ]),
            0..60,
        ),
    ) {
        let text = words.concat();
        for name in ["llama3", "o200k"] {
            let splitter = Splitter::by_name(name).unwrap();
            let bpe = of_ranks(&with_bytes(more.clone()), splitter.clone()).unwrap();
            let mut expected = Vec::new();
            splitter.split(&text, |piece| expected.extend(encode(&bpe, piece)));
            prop_assert_eq!(encode(&bpe, &text), expected, "{}: {:?}", name, text);
        }
    }

    #[test]
    fn whole_tokens_are_matched_first_and_longest(
        words in vec(select(vec!["ü", "üb", "übe", "x", " ", "b", "e"]), 0..12),
    ) {
        let tokens = with_bytes(["üb", "be", "üx", " ü"].map(|token| token.as_bytes().to_vec()));
        let whole = ["ü".as_bytes(), "übe".as_bytes()];
        let whole: Vec<_> =
            whole.iter().zip(1000..).map(|(bytes, id)| ByteToken { id, bytes }).collect();
        let all = byte_tokens(&tokens);
        let bpe = ByteBpe::new(&all, MergeRules::Ranks, Splitter::Whole, false, &whole).unwrap();
        let text = words.concat();
        let mut expected = Vec::new();
        for (nth, part) in text.split("übe").enumerate() {
            expected.extend((nth > 0).then_some(1001));
            for (nth, part) in part.split('ü').enumerate() {
                expected.extend((nth > 0).then_some(1000));
                if !part.is_empty() {
                    expected.extend(naive_ranks(&tokens, part.as_bytes()));
                }
            }
        }
        prop_assert_eq!(encode(&bpe, &text), expected);
    }
}

#[test]
fn a_dummy_prefix_is_a_space_before_text() {
    let bpe = of_ranks(&with_bytes([b" a".to_vec()]), Splitter::Whole).unwrap();
    let mut ids = Vec::new();
    bpe.encode("a", true, &mut Scratch::default(), &mut ids).unwrap();
    assert_eq!(ids, [256]);
    bpe.encode("", true, &mut Scratch::default(), &mut ids).unwrap();
    assert_eq!(ids, [256]);
}

#[test]
fn a_token_that_merges_cannot_make_is_found_whole() {
    let tokens = with_bytes([b"abc".to_vec()]);
    let all = byte_tokens(&tokens);
    assert_eq!(encode(&of_ranks(&tokens, Splitter::Whole).unwrap(), "abc"), [256]);
    for (ignore_merges, count) in [(true, 1), (false, 3)] {
        let rules = MergeRules::Pairs(&[]);
        let bpe = ByteBpe::new(&all, rules, Splitter::Whole, ignore_merges, &[]).unwrap();
        assert_eq!(encode(&bpe, "abc").len(), count);
    }
}

#[test]
fn text_that_needs_a_byte_without_a_token_is_refused() {
    let mut tokens = with_bytes([]);
    tokens.retain(|token| token != b"\x80");
    let bpe = of_ranks(&tokens, Splitter::Whole).unwrap();
    assert!(bpe.lacking().eq([0x80]));
    assert!(bpe.check("a text").is_ok());
    let error = bpe.check("a \u{4000}").err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("vocabulary `text`: no token for \"\u{4000}\""));
    // Bytes that UTF-8 never has are missed by no text.
    let mut tokens = with_bytes([]);
    tokens.retain(|token| token != b"\xC0" && token != b"\xFF");
    assert_eq!(of_ranks(&tokens, Splitter::Whole).unwrap().lacking().count(), 0);
}

#[test]
fn tokens_are_bounded() {
    let tokens = with_bytes([vec![b'a'; 2000]]);
    let error = of_ranks(&tokens, Splitter::Whole).err().map(|error| error.to_string());
    let expected = "vocabulary `pieces`: token 256 has 2000 bytes, more than 1024";
    assert_eq!(error.as_deref(), Some(expected));
    // Tokens as long as may be, each made of the one before it.
    let longest = |letter: u8| (2..=1024).map(move |length| vec![letter; length]);
    let tokens = with_bytes((b'a'..=b'j').flat_map(longest));
    assert!(of_ranks(&tokens, Splitter::Whole).is_ok());
}

#[test]
fn long_units_are_what_merging_by_turns_makes_of_them() {
    let powers = (1..9).flat_map(|log| [b'a', b' '].map(|byte| vec![byte; 1 << log]));
    let odd = [3, 7, 100].map(|count| vec![b'a'; count]);
    let mixed = ["ab", "aab", "abab", "ba", "bb"].map(|token| token.as_bytes().to_vec());
    for more in [powers.clone().chain(odd).collect::<Vec<_>>(), powers.chain(mixed).collect()] {
        let tokens = with_bytes(more);
        let bpe = of_ranks(&tokens, Splitter::Whole).unwrap();
        let check = |unit: &str, length: usize| {
            let text: String = unit.chars().cycle().take(length).collect();
            let expected = naive_long(&tokens, text.as_bytes());
            assert_eq!(encode(&bpe, &text), expected, "{unit} {length}");
        };
        for unit in ["a", " ", "b", "ab", "aab", "aabab", "aaaaaaaaab"] {
            for length in [65, 127, 128, 129, 300, 700] {
                check(unit, length);
            }
        }
        // Runs so long that they are told from shorter ones.
        check("a", 4103);
        check(" ", 4200);
        for unit in ["ab", "aab", "ba ", "aaaaaaaaab", "abababababab"] {
            for length in [4097, 4100, 4103] {
                check(unit, length);
            }
        }
    }
}

#[test]
fn windows_that_do_not_join_are_merged_together() {
    // The pair furthest to the right merges first: the last character decides about all before it.
    let chars: Vec<u8> = (b'!'..=b'~').collect();
    let tokens = with_bytes(chars.windows(2).rev().map(<[u8]>::to_vec));
    let bpe = of_ranks(&tokens, Splitter::Whole).unwrap();
    for end in 1..=chars.len() {
        let text = std::str::from_utf8(&chars[..end]).unwrap();
        assert_eq!(encode(&bpe, text), naive_ranks(&tokens, text.as_bytes()), "{text}");
    }
}

/// [`naive_ranks`] with a table of the tokens.
fn naive_long(tokens: &Tokens, text: &[u8]) -> Vec<TokenId> {
    let ranks: HashMap<&[u8], usize> = tokens.iter().map(Vec::as_slice).zip(0..).collect();
    // Where parts begin, and the end.
    let mut places: Vec<usize> = (0..=text.len()).collect();
    loop {
        let rank = |at: usize| ranks.get(&text[places[at]..places[at + 2]]);
        let ranked = (0..places.len().saturating_sub(2)).filter_map(|at| Some((rank(at)?, at)));
        let Some((_, at)) = ranked.min() else { break };
        places.remove(at + 1);
    }
    places.windows(2).map(|pair| ranks[&text[pair[0]..pair[1]]] as TokenId).collect()
}

#[test]
fn long_pre_tokens_are_linear() {
    let tokens = with_bytes((1..8).flat_map(|log| [b'a', b' '].map(|byte| vec![byte; 1 << log])));
    let bpe = of_ranks(&tokens, Splitter::Whole).unwrap();
    for (filling, count) in [("a", 8192), (" ", 8192), ("ab", 1 << 20), ("aab", 700_000)] {
        let text = filling.repeat((1 << 20) / filling.len());
        let started = Instant::now();
        let ids = encode(&bpe, &text);
        assert!(ids.len() <= count, "{filling:?} became {} ids", ids.len());
        let took = started.elapsed();
        assert!(took.as_secs() < 5, "{filling:?} took {took:?}");
    }
}

/// Files of ranks, and how their text is parted.
const REAL: [(&str, &str); 5] = [
    ("vocab/qwen2/qwen.tiktoken", "qwen2"),
    ("vocab/llama3/tokenizer.model", "llama3"),
    ("vocab/gpt-oss/o200k_base.tiktoken", "o200k"),
    ("vocab/glm4/tokenizer.model", "glm4"),
    ("vocab/deepseek-v3/deepseek.tiktoken", "deepseek-v3"),
];

/// A file or folder of the test data, which need not be there.
fn data(path: &str) -> PathBuf {
    let folder = std::env::var_os("CHATCODEC_TEST_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    folder.join(path)
}

/// A vocabulary of the test data: ids are ranks.
fn ranks(path: &str) -> Option<Tokens> {
    let file = std::fs::read_to_string(data(path)).ok()?;
    let mut tokens = Tokens::new();
    for line in file.lines().filter(|line| !line.is_empty()) {
        let (token, rank) = line.split_once(' ').unwrap();
        assert_eq!(rank.parse::<usize>().unwrap(), tokens.len());
        tokens.push(BASE64_STANDARD.decode(token).unwrap());
    }
    Some(tokens)
}

/// How fast a real vocabulary encodes real text, in the processor's time: the first time that it is
/// seen, and again. Run with `cargo test --release --lib -- --ignored --nocapture speed_of`.
#[test]
#[ignore = "measures, and decides nothing"]
#[allow(clippy::print_stdout, reason = "what it measures is all that it is for")]
fn speed_of_encoding() {
    let cpu_seconds = || {
        let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let nanos = times.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok());
        nanos.unwrap_or_default() / 1e9
    };
    for (path, name) in REAL {
        let Some(tokens) = ranks(path) else { continue };
        let started = cpu_seconds();
        let splitter = Splitter::by_name(name).unwrap();
        let bpe = of_ranks(&tokens, splitter.clone()).unwrap();
        println!("{path}: loaded in {:.0} ms", (cpu_seconds() - started) * 1e3);
        for file in [
            "chat_fastchat_dummy_conversation.json",
            "chat_glaive_toolcall_en_demo.json",
            "en_wiki_demo.txt",
            "zh_prose_hongloumeng.txt",
        ] {
            let text = std::fs::read_to_string(data("corpus").join(file)).unwrap();
            let mut speeds = Vec::new();
            let mut timed = |work: &mut dyn FnMut()| {
                let started = cpu_seconds();
                work();
                let bytes = f64::from(u32::try_from(text.len()).unwrap());
                speeds.push((bytes / (cpu_seconds() - started) / 1e6).round());
            };
            timed(&mut || splitter.split(&text, |piece| assert!(!piece.is_empty())));
            let mut scratch = Scratch::default();
            let mut ids = Vec::with_capacity(text.len());
            for _ in 0..2 {
                timed(&mut || bpe.encode(&text, false, &mut scratch, &mut ids).unwrap());
            }
            println!("  {file}: MB/s of splitting, of fresh text, again, again: {speeds:?}");
        }
    }
}
