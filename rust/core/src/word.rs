//! Header words: names, languages and ids that a format writes between its markers.

use crate::limits::MAX_WORD_BYTES;

/// Whether a header word may contain a byte.
pub(crate) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-')
}

/// Whether a text is a header word of any length.
pub(crate) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_word_byte)
}

/// Why a text is not a header word, for an error; `None` for a header word.
pub(crate) fn wrong_word(word: &str) -> Option<String> {
    if word.len() > MAX_WORD_BYTES {
        let length = word.len();
        return Some(format!("is {length} bytes long, expected at most {MAX_WORD_BYTES}"));
    }
    (!is_word(word)).then(|| format!("is {word:?}, expected letters, digits and `_.:-` only"))
}
