//! Characters of text that is known to be UTF-8, by their place.

/// The code point of the character that begins at a place, and its length in bytes. At the end of the
/// text, NUL and 1.
#[inline]
pub(crate) fn char_at(text: &[u8], at: usize) -> (u32, usize) {
    let bytes = match text.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(bytes) => *bytes,
        None => last_bytes(text, at),
    };
    let [first, second, third, fourth] = bytes.map(u32::from);
    let more = |byte: u32| byte & 0x3F;
    match first {
        0..0x80 => (first, 1),
        0x80..0xE0 => ((first & 0x1F) << 6 | more(second), 2),
        0xE0..0xF0 => ((first & 0x0F) << 12 | more(second) << 6 | more(third), 3),
        _ => ((first & 0x07) << 18 | more(second) << 12 | more(third) << 6 | more(fourth), 4),
    }
}

/// What is left of a text, and NUL after it.
#[cold]
fn last_bytes(text: &[u8], at: usize) -> [u8; 4] {
    let mut bytes = [0; 4];
    for (to, from) in bytes.iter_mut().zip(text.get(at..).unwrap_or_default()) {
        *to = *from;
    }
    bytes
}

/// Where in a table of [`PREFIXES`] places the first two bytes of a character of three stand, which the
/// 64 characters have in common that differ in their last byte.
#[inline]
pub(crate) fn prefix_of_three(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at..)?.first_chunk()? {
        &[first @ 0xE0..=0xEF, second, _] => {
            Some(usize::from(first & 15) << 6 | usize::from(second & 63))
        }
        _ => None,
    }
}

/// So many first two bytes there are: the place of a character is its code point by 64.
pub(crate) const PREFIXES: usize = 1024;
