//! Two ways to the same ids: the encoder of a byte-level vocabulary made of what comes, and tiktoken's
//! rule done plainly.

#![no_main]

use std::collections::HashMap;
use std::sync::LazyLock;

use chatcodec::{TokenId, Vocab, VocabFiles, VocabOptions};
use fancy_regex::Regex;
use libfuzzer_sys::fuzz_target;

/// All text in one piece, and two of the patterns that are parted by hand.
const PATTERNS: [&str; 3] = [
    r"[\s\S]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

static REGEXES: LazyLock<Vec<Regex>> =
    LazyLock::new(|| PATTERNS.iter().map(|pattern| Regex::new(pattern).unwrap()).collect());

fuzz_target!(|input: (u8, Vec<&[u8]>, &str)| {
    let (pattern, more, text) = input;
    let pattern = usize::from(pattern) % PATTERNS.len();
    let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    for token in more.iter().take(300).filter(|token| (2..=100).contains(&token.len())) {
        if !tokens.iter().any(|known| known == token) {
            tokens.push(token.to_vec());
        }
    }
    let file: String =
        tokens.iter().zip(0..).map(|(token, id)| format!("{} {id}\n", base64(token))).collect();
    let options = VocabOptions { pattern: Some(PATTERNS[pattern].into()), ..Default::default() };
    let files = vec![("ranks.tiktoken".to_owned(), file.into_bytes().into())];
    let vocab = Vocab::load_files(VocabFiles { files, options }).unwrap();
    let ranks: HashMap<&[u8], TokenId> = tokens.iter().map(Vec::as_slice).zip(0..).collect();
    let mut expected = Vec::new();
    for piece in REGEXES[pattern].find_iter(text) {
        merge(&ranks, piece.unwrap().as_str().as_bytes(), &mut expected);
    }
    assert_eq!(vocab.encode(text), expected);
    // What has been seen has the same ids.
    assert_eq!(vocab.encode(text), expected);
});

/// The lowest rank merges first, the leftmost of equals; a piece that is a token is that token.
fn merge(ranks: &HashMap<&[u8], TokenId>, piece: &[u8], ids: &mut Vec<TokenId>) {
    if let Some(&id) = ranks.get(piece) {
        return ids.push(id);
    }
    let mut places: Vec<usize> = (0..=piece.len()).collect();
    loop {
        let rank = |at: usize| ranks.get(&piece[places[at]..places[at + 2]]);
        let ranked = (0..places.len().saturating_sub(2)).filter_map(|at| Some((rank(at)?, at)));
        let Some((_, at)) = ranked.min() else { break };
        places.remove(at + 1);
    }
    ids.extend(places.windows(2).map(|pair| ranks[&piece[pair[0]..pair[1]]]));
}

fn base64(bytes: &[u8]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0, |bits, &byte| bits << 8 | u32::from(byte));
        let bits = bits << (8 * (3 - three.len()));
        for nth in 0..4 {
            let digit = digits[(bits >> (18 - 6 * nth)) as usize & 63];
            text.push(if nth <= three.len() { digit.into() } else { '=' });
        }
    }
    text
}
