//! GPT-2's alphabet: a printable character for every byte, which makes tokens of bytes text in
//! JSON.

/// The bytes that `token` spells, `None` if one of its characters spells no byte.
pub(super) fn bytes_of(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte_of).collect()
}

/// The byte that a character stands for: printable Latin-1 for itself, and from U+0100 on the bytes
/// that are not printable, in order.
fn byte_of(c: char) -> Option<u8> {
    match c as u32 {
        code @ (0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) => u8::try_from(code).ok(),
        code @ 0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        code @ 0x121..=0x142 => u8::try_from(code - 0x121 + 0x7F).ok(),
        0x143 => Some(0xAD),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let mut bytes: Vec<u8> = ('\0'..'\u{200}').filter_map(byte_of).collect();
        assert_eq!(bytes.len(), 256);
        bytes.sort_unstable();
        assert!(bytes.into_iter().eq(0..=255));
        assert_eq!(bytes_of("Ġt"), Some(b" t".to_vec()));
        assert_eq!(bytes_of("ĊŃĀł"), Some(b"\n\xAD\x00\xA0".to_vec()));
        assert_eq!(bytes_of("<｜User｜>"), None);
    }
}
