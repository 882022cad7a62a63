//! Characters of text that is known to be UTF-8, by their place.

/// The code point of the character that begins at a place, and its length in bytes. At the end of the
/// text, NUL and 1.
#[inline]
pub(crate) fn char_at(text: &[u8], at: usize) -> (u32, usize) {
    let byte = |ahead: usize| u32::from(text.get(at + ahead).copied().unwrap_or(0));
    let more = |ahead: usize| byte(ahead) & 0x3F;
    match byte(0) {
        first @ ..0x80 => (first, 1),
        first @ ..0xE0 => ((first & 0x1F) << 6 | more(1), 2),
        first @ ..0xF0 => ((first & 0x0F) << 12 | more(1) << 6 | more(2), 3),
        first => ((first & 0x07) << 18 | more(1) << 12 | more(2) << 6 | more(3), 4),
    }
}
