//! Names of calls in Python, `f(a=1)` and `math.sqrt(x=2)`: which texts are names.

/// Whether a text consists of names with dots between them.
pub(crate) fn is_name(text: &str) -> bool {
    let begins = |part: &str| part.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    text.split('.')
        .all(|part| begins(part) && !part.starts_with('-') && part.bytes().all(is_of_name))
}

/// Whether a name may contain a byte. Names in Python have no hyphens, but names of tools do.
pub(crate) fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_have_parts_that_begin_with_a_letter() {
        for name in ["f", "_", "get-weather", "math.sqrt", "a1.b_2"] {
            assert!(is_name(name), "{name}");
        }
        for text in ["", ".", "f.", ".f", "1f", "-f", "a b", "a:b", "世", "f..g"] {
            assert!(!is_name(text), "{text}");
        }
    }
}
