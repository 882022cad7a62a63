//! Places where text can be split without changing its ids.
//!
//! A merge makes a token, so two neighbouring characters can only be in one token if some token
//! contains them as neighbours. The pairs of ASCII characters are kept exactly, all others in a
//! hashed bit set: a false hit there loses a split, never a merge. Tokens of bytes may begin or end
//! within a character: for these boundaries the set holds the two bytes.

use crate::split::{BLOCK, Prose};

const ASCII: u32 = 128;
/// The right character is the word's upper half, and has seven bits.
const ASCII_PAIRS: usize = 1 << 15;
const HASHED_BITS: u32 = 21;
const HASHED: usize = 1 << (HASHED_BITS - 6);
const BYTE_PAIRS: usize = 256 * 256;

pub(super) struct Cuts {
    /// Indexed by the two characters as a word in memory: 1 if no token contains the pair.
    ascii: Box<[u8; ASCII_PAIRS]>,
    hashed: Box<[u64; HASHED]>,
    /// Whether text can be split before every space that follows a lower-case letter.
    before_space: bool,
    /// Whether some token contains a lower-case letter followed by a space.
    joins_space: bool,
    /// Indexed by the last byte of the left character and the first byte of the right one.
    bytes: Box<[u64; BYTE_PAIRS / 64]>,
}

impl Default for Cuts {
    /// Splits between all characters.
    #[allow(clippy::large_stack_arrays, reason = "it is on the heap")]
    fn default() -> Self {
        Self {
            ascii: Box::new([1; ASCII_PAIRS]),
            hashed: Box::new([0; HASHED]),
            before_space: true,
            joins_space: false,
            bytes: Box::new([0; BYTE_PAIRS / 64]),
        }
    }
}

impl Cuts {
    /// Removes the splits between neighbours in these characters.
    pub(super) fn join(&mut self, token: impl IntoIterator<Item = char>) {
        let mut chars = token.into_iter();
        let Some(mut left) = chars.next() else { return };
        for right in chars {
            if left.is_ascii() && right.is_ascii() {
                self.ascii[ascii_pair(left as u8, right as u8)] = 0;
                self.before_space &= !(left.is_ascii_lowercase() && right == ' ');
                self.joins_space |= left == ' ' && right.is_ascii_lowercase();
            } else {
                let bit = hash(left.into(), right.into());
                self.hashed[bit / 64] |= 1 << (bit % 64);
            }
            left = right;
        }
    }

    /// [`Self::join`] for a token of bytes, which may begin and end within a character.
    pub(super) fn join_bytes(&mut self, token: &[u8]) {
        if let Ok(token) = std::str::from_utf8(token) {
            return self.join(token.chars());
        }
        let mut rest = token;
        // Splits at the ends of invalid UTF-8: the set keeps the two bytes of each boundary.
        while !rest.is_empty() {
            let chunk = rest.utf8_chunks().next();
            let (valid, invalid) =
                chunk.map_or(("", &[][..]), |chunk| (chunk.valid(), chunk.invalid()));
            self.join(valid.chars());
            let done = token.len() - rest.len();
            let after = done + valid.len() + invalid.len();
            for at in [done, done + valid.len(), after] {
                if 0 < at && at < token.len() {
                    let bit = byte_pair(token[at - 1], token[at]);
                    self.bytes[bit / 64] |= 1 << (bit % 64);
                }
            }
            rest = &token[after..];
        }
    }

    /// Whether text can be split between two neighbouring characters.
    #[inline(always)]
    pub(super) fn between(&self, left: u32, right: u32) -> bool {
        if (left | right) < ASCII {
            self.ascii[ascii_pair(left as u8, right as u8)] != 0
        } else {
            let bit = hash(left, right);
            self.hashed[bit / 64] >> (bit % 64) & 1 == 0
        }
    }

    /// A bit for each ASCII character at the beginning of a block, except the first: set if text
    /// can be split before it. Some rare splits are left out: lower-case letters stay together.
    #[inline(always)]
    pub(super) fn among_prose(&self, block: &[u8; BLOCK], prose: Prose) -> u64 {
        let Prose { wide, lower, blank } = prose;
        let joined = lower & (lower << 1 | if self.joins_space { blank << 1 } else { 0 });
        let mut found = if self.before_space { blank & lower << 1 } else { 0 };
        let ascii = !wide & wide.wrapping_sub(1);
        let mut asked = !(joined | found | 1) & ascii;
        while asked != 0 {
            let at = asked.trailing_zeros() as usize % BLOCK;
            asked &= asked - 1;
            let cut = self.ascii[ascii_pair(block[(at + BLOCK - 1) % BLOCK], block[at])];
            found |= u64::from(cut) << at;
        }
        found & ascii
    }

    /// Whether text can be split where tokens may begin and end within a character; `last` is the
    /// last byte of the left character and `first` the first byte of the right one.
    #[inline(always)]
    pub(super) fn between_bytes(&self, left: u32, right: u32, last: u8, first: u8) -> bool {
        let bit = byte_pair(last, first);
        let joined = self.bytes[bit / 64] >> (bit % 64);
        // Both lookups run always: a branch on the first would be unpredictable.
        u64::from(self.between(left, right)) & !joined & 1 != 0
    }
}

#[inline(always)]
fn ascii_pair(left: u8, right: u8) -> usize {
    usize::from(u16::from_le_bytes([left, right])) % ASCII_PAIRS
}

#[inline(always)]
fn hash(left: u32, right: u32) -> usize {
    let pair = u64::from(left) << 32 | u64::from(right);
    (pair.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - HASHED_BITS)) as usize
}

#[inline(always)]
fn byte_pair(last: u8, first: u8) -> usize {
    usize::from(last) << 8 | usize::from(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BLOCK, Cuts, Prose};

    proptest! {
        /// Every split of the fast path is a split. It leaves out only splits between lower-case
        /// letters and splits after a space.
        #[test]
        fn cuts_in_prose_are_cuts(
            tokens in prop::collection::vec("[abC .<é]{1,3}", 0..6),
            text in "[abC .<]{0,63}é?[abC .<]{64}",
        ) {
            let mut cuts = Cuts::default();
            for token in &tokens {
                cuts.join(token.chars());
            }
            let Some(block) = text.as_bytes().first_chunk::<BLOCK>() else { return Ok(()) };
            let prose = Prose::of(block);
            let found = cuts.among_prose(block, prose);
            for at in 0..BLOCK {
                if at == 0 || at >= prose.wide.trailing_zeros() as usize {
                    prop_assert_eq!(found >> at & 1, 0);
                    continue;
                }
                let (left, right) = (block[at - 1], block[at]);
                let is_cut = cuts.between(left.into(), right.into());
                let is_kept =
                    right.is_ascii_lowercase() && (left.is_ascii_lowercase() || left == b' ');
                if found >> at & 1 != 0 {
                    prop_assert!(is_cut, "a cut that is none at {}", at);
                } else {
                    prop_assert!(!is_cut || is_kept, "no cut at {}", at);
                }
            }
        }
    }
}
