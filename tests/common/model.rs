//! Small SentencePiece models made up on the spot: few letters, many merges, ties, pieces of every
//! type. What real vocabularies do seldom, these do in every word.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

const UNKNOWN: u8 = 2;
const CONTROL: u8 = 3;
const USER_DEFINED: u8 = 4;
const BYTE: u8 = 6;

/// The bytes of a model file.
pub fn model() -> impl Strategy<Value = Vec<u8>> {
    // Normal, with some unused; only the listed pieces are text where a model's user defined them.
    let kind = prop_oneof![8 => Just(1u8), 1 => Just(5u8)];
    let score = prop_oneof![(0i8..4).prop_map(f32::from), Just(-1.5f32), Just(-0.0), Just(1e9)];
    let pieces =
        btree_map("[ab\u{2581}中]{1,2}|[abc\u{2581}中]{2,6}", (score.clone(), kind), 1..24);
    let added = vec(select(vec!["——", "\u{2581}\u{2581}", "<b>", "0", "ab", "<|x|>"]), 0..4);
    (pieces, added, score, any::<(bool, bool)>()).prop_map(
        |(pieces, mut added, score, (prefix, collapse))| {
            let mut model = Vec::new();
            put_piece(&mut model, "<unk>", 0.0, UNKNOWN);
            put_piece(&mut model, "<s>", 0.0, CONTROL);
            put_piece(&mut model, "</s>", 0.0, CONTROL);
            for byte in 0..=255u8 {
                put_piece(&mut model, &format!("<0x{byte:02X}>"), 0.0, BYTE);
            }
            added.sort_unstable();
            added.dedup();
            for piece in &added {
                put_piece(&mut model, piece, score, USER_DEFINED);
            }
            let known = |piece: &str| added.contains(&piece) || piece == "\u{2581}";
            put_piece(&mut model, "\u{2581}", -9.0, 1);
            for (piece, (score, kind)) in pieces.iter().filter(|(piece, _)| !known(piece)) {
                put_piece(&mut model, piece, *score, *kind);
            }
            // model_type = BPE, byte_fallback
            put(&mut model, 2, &[0x18, 2, 0x98, 0x02, 1]);
            // add_dummy_prefix, remove_extra_whitespaces
            put(&mut model, 3, &[0x18, u8::from(prefix), 0x20, u8::from(collapse)]);
            model
        },
    )
}

/// Text that the pieces of such a model are about.
pub fn model_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => "[abc \u{2581}中]{1,6}",
        1 => select(vec!["——", "—", "<b>", "<|x|>", "<s>", "0", "\0", "é", "\n", "\u{301}"])
            .prop_map(str::to_owned),
    ];
    vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

/// A model with `InternLM2`'s chat tokens after its pieces, that puts a space before every text.
pub fn with_chat_tokens_and_dummy_prefix(model: &[u8]) -> Vec<u8> {
    let mut model = model.to_vec();
    for number in 141..=146 {
        put_piece(&mut model, &format!("[UNUSED_TOKEN_{number}]"), 0.0, USER_DEFINED);
    }
    // Of a field that comes twice, the last counts: add_dummy_prefix, no remove_extra_whitespaces.
    put(&mut model, 3, &[0x18, 1, 0x20, 0]);
    model
}

/// The same model, but it puts a space before every text.
pub fn with_dummy_prefix(model: &[u8]) -> Vec<u8> {
    let mut model = model.to_vec();
    put(&mut model, 3, &[0x18, 1, 0x20, 0]);
    model
}

/// A file of ranks: every byte, and every beginning of the words, shorter ones first.
pub fn ranks(words: &[String]) -> Vec<u8> {
    let mut tokens: Vec<Vec<u8>> = (0..=255u8).map(|byte| vec![byte]).collect();
    let beginnings = |word: &[u8]| (2..=word.len()).map(|end| word[..end].to_vec()).collect();
    let mut longer: Vec<Vec<u8>> =
        words.iter().flat_map(|word| -> Vec<Vec<u8>> { beginnings(word.as_bytes()) }).collect();
    // Tokens that begin within a character, and reach into the next.
    for word in words.iter().filter(|word| !word.is_ascii()) {
        longer.extend(beginnings(&word.as_bytes()[1..]));
    }
    longer.sort_by_key(|token| (token.len(), token.clone()));
    longer.dedup();
    tokens.extend(longer);
    let lines =
        tokens.iter().enumerate().map(|(rank, token)| format!("{} {rank}\n", base64(token)));
    lines.collect::<String>().into_bytes()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group
            .iter()
            .chain([&0, &0])
            .take(3)
            .fold(0, |bits, &byte| bits << 8 | usize::from(byte));
        let digits = [18, 12, 6, 0].map(|shift| char::from(DIGITS[bits >> shift & 63]));
        text.extend(&digits[..=group.len()]);
        text.push_str(&"=="[..3 - group.len()]);
    }
    text
}

fn put_piece(model: &mut Vec<u8>, text: &str, score: f32, kind: u8) {
    let mut piece = Vec::new();
    put(&mut piece, 1, text.as_bytes());
    piece.push(0x15);
    piece.extend(score.to_le_bytes());
    piece.extend([0x18, kind]);
    put(model, 1, &piece);
}

/// A field of bytes; lengths here are below 128.
fn put(message: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    message.push(field << 3 | 2);
    message.push(u8::try_from(bytes.len()).expect("short"));
    message.extend(bytes);
}

/// A `tokenizer.json` of the bytes alone, with these tokens added and a normalizer.
pub fn tokenizer_json(control: &[String], normalizer: &serde_json::Value) -> Vec<u8> {
    // The alphabet of byte-level models: printable bytes are themselves, others come after U+0100.
    let is_printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let odd: Vec<u8> = (0..=255).filter(|byte| !is_printable(byte)).collect();
    let letter = |byte: u8| match odd.iter().position(|other| *other == byte) {
        Some(at) => char::from_u32(0x100 + at as u32).expect("a character").to_string(),
        None => char::from(byte).to_string(),
    };
    let vocab: serde_json::Map<_, _> =
        (0..=255u8).map(|byte| (letter(byte), byte.into())).collect();
    let added = control.iter().zip(256..).map(added_token);
    let file = serde_json::json!({
        "version": "1.0",
        "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    });
    file.to_string().into_bytes()
}

/// A control token of a `tokenizer.json`.
fn added_token((content, id): (&String, usize)) -> serde_json::Value {
    serde_json::json!({
        "id": id, "content": content, "special": true, "normalized": false, "lstrip": false,
        "rstrip": false, "single_word": false,
    })
}

/// A `tokenizer.json` of a Unigram model: ASCII alone, of which it makes lower case, and these tokens added.
pub fn unigram_json(control: &[String]) -> Vec<u8> {
    let chars = (' '..='~').chain(['\n', '\t']).map(String::from);
    let words = ["user", "assistant", "system", "the", "{\"name\": \""].map(str::to_owned);
    let pieces: Vec<_> = [("<unk>".to_owned(), 0.0)]
        .into_iter()
        .chain(chars.map(|piece| (piece, -9.0)))
        .chain(words.map(|piece| (piece, -2.0)))
        .collect();
    let added = control.iter().zip(pieces.len()..).map(added_token);
    let file = serde_json::json!({
        "version": "1.0",
        "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": {"type": "Lowercase"},
        "decoder": {"type": "Fuse"},
        "model": {"type": "Unigram", "unk_id": 0, "vocab": pieces},
    });
    file.to_string().into_bytes()
}
