//! Where text may be cut without changing its ids.
//!
//! A merge makes a token, so two neighbouring characters can only end up in one token if some token
//! holds them side by side. The pairs of ASCII characters are kept exactly, all others in a hashed
//! bit set: a false hit there loses a cut, never a merge. Tokens of bytes may begin or end within a
//! character: of such a boundary its two bytes are kept.

const ASCII: u32 = 128;
/// The right character is the word's upper half, and has seven bits.
const ASCII_PAIRS: usize = 1 << 15;
const HASHED_BITS: u32 = 21;
const BYTE_PAIRS: usize = 256 * 256;

pub(super) struct Cuts {
    /// By the two characters as they stand in memory, a word: 1 where no token holds them.
    ascii: Box<[u8; ASCII_PAIRS]>,
    hashed: Vec<u64>,
    /// By the last byte of the left character and the first of the right one.
    bytes: Vec<u64>,
}

impl Default for Cuts {
    /// A cut everywhere.
    #[allow(clippy::large_stack_arrays, reason = "it is on the heap")]
    fn default() -> Self {
        Self {
            ascii: Box::new([1; ASCII_PAIRS]),
            hashed: vec![0; 1 << (HASHED_BITS - 6)],
            bytes: vec![0; BYTE_PAIRS / 64],
        }
    }
}

impl Cuts {
    /// No cut between any two neighbours of these characters.
    pub(super) fn join(&mut self, token: impl IntoIterator<Item = char>) {
        let mut chars = token.into_iter();
        let Some(mut left) = chars.next() else { return };
        for right in chars {
            if left.is_ascii() && right.is_ascii() {
                self.ascii[ascii_pair(left as u8, right as u8)] = 0;
            } else {
                let bit = hash(left.into(), right.into());
                self.hashed[bit / 64] |= 1 << (bit % 64);
            }
            left = right;
        }
    }

    /// The same for a token of bytes, which may begin and end within a character.
    pub(super) fn join_bytes(&mut self, token: &[u8]) {
        let mut rest = token;
        // What is no text is parted from what is: at each such boundary its two bytes are kept.
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

    /// Whether text may be cut between two neighbouring characters.
    #[inline(always)]
    pub(super) fn between(&self, left: u32, right: u32) -> bool {
        if (left | right) < ASCII {
            self.between_ascii(left as u8, right as u8)
        } else {
            let bit = hash(left, right);
            self.hashed[bit / 64] >> (bit % 64) & 1 == 0
        }
    }

    /// The same for two that are ASCII.
    #[inline(always)]
    fn between_ascii(&self, left: u8, right: u8) -> bool {
        self.ascii[ascii_pair(left, right)] != 0
    }

    /// A bit for each of up to 64 ASCII characters before which there may be a cut; `previous`, which
    /// is ASCII too, stands before the first.
    #[inline(always)]
    pub(super) fn among_ascii(&self, previous: u8, chars: &[u8]) -> u64 {
        let cut = |left: u8, right: u8| u64::from(self.ascii[ascii_pair(left, right)]);
        let (words, rest) = chars.as_chunks::<8>();
        let (mut found, mut left, mut place) = (0, previous, 0);
        for word in words {
            let mut eight = cut(left, word[0]);
            for at in 1..8 {
                eight |= cut(word[at - 1], word[at]) << at;
            }
            found |= eight << (place % 64);
            place += 8;
            left = word[7];
        }
        for &right in rest {
            found |= cut(left, right) << (place % 64);
            place += 1;
            left = right;
        }
        found
    }

    /// The same where tokens may begin and end within a character; `last` is the left one's last byte
    /// and `first` the right one's first.
    #[inline(always)]
    pub(super) fn between_bytes(&self, left: u32, right: u32, last: u8, first: u8) -> bool {
        let bit = byte_pair(last, first);
        let joined = self.bytes[bit / 64] >> (bit % 64);
        // Both are asked, whatever the first says: what it says cannot be guessed.
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
