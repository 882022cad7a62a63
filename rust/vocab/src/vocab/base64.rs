//! Base 64, the encoding of a token's bytes in files of ranks: standard alphabet, padded.

/// The bytes that `text` encodes, `None` if it is not base 64.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|&&byte| byte == b'=').count();
    let digits = &text[..text.len() - padding];
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for &digit in digits {
        bits = bits << 6 | value(digit)?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    let rest = bits & ((1 << count) - 1);
    let fits = matches!((padding, count), (0, 0) | (1, 2) | (2, 4));
    (fits && rest == 0).then_some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn known_and_broken() {
        assert_eq!(decode(b""), Some(Vec::new()));
        assert_eq!(decode(b"IQ=="), Some(b"!".to_vec()));
        assert_eq!(decode(b"aGk="), Some(b"hi".to_vec()));
        assert_eq!(decode(b"+/+/"), Some(vec![0xFB, 0xFF, 0xBF]));
        for broken in ["I", "IQ", "IQ=", "IR==", "I===", "====", "I Q=", "aGk=aGk=", "aG\u{e9}"] {
            assert_eq!(decode(broken.as_bytes()), None, "{broken}");
        }
    }
}
