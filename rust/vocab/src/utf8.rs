//! Decoding of single characters in valid UTF-8.

/// The code point of the character at a byte offset, and its length in bytes. At the end of the
/// text: NUL and 1.
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

/// The code point and the length of a whole character beyond ASCII, without a branch.
#[inline]
pub(crate) fn wide_char(bytes: [u8; 4]) -> (u32, usize) {
    let [first, second, third, fourth] = bytes.map(u32::from);
    let more = |byte: u32| byte & 0x3F;
    let length = 2 + usize::from(first >= 0xE0) + usize::from(first >= 0xF0);
    let all = (first & 0x1F) << 18 | more(second) << 12 | more(third) << 6 | more(fourth);
    (all >> (6 * (4 - length)) & 0x1F_FFFF, length)
}

/// The last bytes of a text, padded with NUL.
#[cold]
fn last_bytes(text: &[u8], at: usize) -> [u8; 4] {
    let mut bytes = [0; 4];
    for (to, from) in bytes.iter_mut().zip(text.get(at..).unwrap_or_default()) {
        *to = *from;
    }
    bytes
}

/// Index, below [`PREFIXES`], of the first two bytes of a three-byte character. The 64 characters that
/// differ only in their last byte share it.
#[inline]
pub(crate) fn prefix_of_three(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at..)?.first_chunk()? {
        &[first @ 0xE0..=0xEF, second, _] => {
            Some(usize::from(first & 15) << 6 | usize::from(second & 63))
        }
        _ => None,
    }
}

/// Number of first-two-byte prefixes: the index of a character is its code point divided by 64.
pub(crate) const PREFIXES: usize = 1024;
