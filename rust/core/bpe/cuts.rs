//! Where text may be cut without changing its ids.
//!
//! A merge makes a token, so two neighbouring characters can only end up in one token if some token
//! holds them side by side. The pairs of ASCII characters are kept exactly, all others in a hashed
//! bit set: a false hit there loses a cut, never a merge. Tokens of bytes may begin or end within a
//! character: of such a boundary its two bytes are kept.

const ASCII: usize = 128;
const HASHED_BITS: u32 = 21;
const BYTE_PAIRS: usize = 256 * 256;

pub(super) struct Cuts {
    /// By the two characters: 1 where no token holds them.
    ascii: Box<[u8; ASCII * ASCII]>,
    hashed: Vec<u64>,
    /// By the last byte of the left character and the first of the right one.
    bytes: Vec<u64>,
}

impl Default for Cuts {
    /// A cut everywhere.
    fn default() -> Self {
        Self {
            ascii: Box::new([1; ASCII * ASCII]),
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
                self.ascii[left as usize * ASCII + right as usize] = 0;
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
        if (left | right) < ASCII as u32 {
            self.between_ascii(left as u8, right as u8)
        } else {
            let bit = hash(left, right);
            self.hashed[bit / 64] >> (bit % 64) & 1 == 0
        }
    }

    /// The same for two that are ASCII.
    #[inline(always)]
    pub(super) fn between_ascii(&self, left: u8, right: u8) -> bool {
        self.ascii[usize::from(left & 127) * ASCII + usize::from(right & 127)] != 0
    }

    /// The same where tokens may begin and end within a character; `last` is the left one's last byte
    /// and `first` the right one's first.
    #[inline(always)]
    pub(super) fn between_bytes(&self, left: u32, right: u32, last: u8, first: u8) -> bool {
        let bit = byte_pair(last, first);
        self.between(left, right) && self.bytes[bit / 64] >> (bit % 64) & 1 == 0
    }
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
