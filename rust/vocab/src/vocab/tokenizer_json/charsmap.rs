//! Check of the table of a `Precompiled` normalizer: `tokenizers` reads it unchecked, and panics where it
//! points outside of itself.
//!
//! In: the table in base 64. Out: an error that says what is wrong. The table consists of a length, that many
//! bytes of a double array in units of four, and texts that end in NUL. Cost: a visit of each node that a
//! character can lead to, for each byte that may follow.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// Only shorter texts are looked up: graphemes of fewer than six bytes.
const MAX_DEPTH: usize = 6;

/// A unit of the double array.
#[derive(Clone, Copy)]
struct Unit(u32);

impl Unit {
    fn has_leaf(self) -> bool {
        self.0 >> 8 & 1 == 1
    }

    fn value(self) -> usize {
        (self.0 & 0x7FFF_FFFF) as usize
    }

    fn label(self) -> u32 {
        self.0 & 0x8000_00FF
    }

    fn offset(self) -> usize {
        (self.0 as usize >> 10) << ((self.0 & 1 << 9) >> 6)
    }
}

/// Checks a table.
pub(super) fn check(table: &str) -> Result<(), &'static str> {
    let bytes = BASE64_STANDARD.decode(table).map_err(|_| "is no base 64")?;
    let (length, rest) = bytes.split_first_chunk().ok_or("has no length")?;
    // The library reads whole units, and takes the rest of the length as text.
    let length = u32::from_le_bytes(*length) as usize / 4 * 4;
    let (units, texts) = rest.split_at_checked(length).ok_or("is shorter than it says")?;
    let texts = std::str::from_utf8(texts).map_err(|_| "has texts that are no UTF-8")?;
    let units: Vec<Unit> =
        units.as_chunks().0.iter().map(|&b| Unit(u32::from_le_bytes(b))).collect();
    let root = units.first().ok_or("has no units")?;
    check_node(&units, texts, root.offset())
}

/// Checks the node at `root` and those that a character leads to from it.
fn check_node(units: &[Unit], texts: &str, root: usize) -> Result<(), &'static str> {
    let mut seen = vec![false; units.len()];
    let mut level = vec![root];
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for node in level {
            for byte in 1..=255usize {
                let unit = units.get(node ^ byte).ok_or("points outside of its units")?;
                if unit.label() != byte as u32 {
                    continue;
                }
                let to = (node ^ byte) ^ unit.offset();
                if unit.has_leaf() {
                    let value = units.get(to).ok_or("points outside of its units")?.value();
                    if !texts.is_char_boundary(value) {
                        return Err("points outside of its texts");
                    }
                }
                // A node outside of the units is refused when its bytes are looked at.
                if !seen.get_mut(to).is_some_and(|seen| std::mem::replace(seen, true)) {
                    next.push(to);
                }
            }
        }
        level = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for chunk in bytes.chunks(3) {
            let bits = chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
                << (8 * (3 - chunk.len()));
            for nth in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * nth) & 63) as usize];
                text.push(if nth <= chunk.len() { char::from(digit) } else { '=' });
            }
        }
        text
    }

    fn table(units: &[u32], texts: &[u8]) -> String {
        let mut bytes = (units.len() as u32 * 4).to_le_bytes().to_vec();
        bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend(texts);
        encoded(&bytes)
    }

    /// `A` leads to a text.
    fn units(value: u32) -> Vec<u32> {
        let mut units = vec![0; 0x400];
        units[0] = 0x100 << 10;
        units[0x141] = 0x41 | 1 << 8 | (0x200 ^ 0x141) << 10;
        units[0x200] = value | 1 << 31;
        units
    }

    #[test]
    fn tables_are_checked() {
        assert_eq!(check(&table(&units(0), "a\0é\0".as_bytes())), Ok(()));
        assert_eq!(check(&table(&units(2), "a\0é\0".as_bytes())), Ok(()));
        assert!(check(&table(&units(3), "a\0é\0".as_bytes())).is_err());
        assert!(check(&table(&units(99), b"a\0")).is_err());
        assert!(check(&table(&units(0)[..300], b"a\0")).is_err());
        assert!(check(&table(&[], b"a\0")).is_err());
        assert!(check(&table(&units(0), b"\xff\0")).is_err());
        assert!(check(&encoded(&[255; 8])).is_err());
        assert!(check("AAA").is_err());
        assert!(check("").is_err());
    }
}
