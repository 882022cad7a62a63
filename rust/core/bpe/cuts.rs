//! Where text may be cut without changing its ids.
//!
//! A merge makes a piece, so two neighbouring characters can only end up in one token if some piece
//! holds them side by side. The pairs of ASCII characters are kept exactly, all others in a hashed
//! bit set: a false hit there loses a cut, never a merge.

use super::symbols::mergeable;
use super::{Piece, unmark};

const ASCII: usize = 128;
const HASHED_BITS: u32 = 21;

pub(super) struct Cuts {
    ascii: Box<[u128; ASCII]>,
    hashed: Vec<u64>,
}

impl Cuts {
    pub(super) fn new(pieces: &[Piece<'_>]) -> Self {
        let mut cuts =
            Self { ascii: Box::new([0; ASCII]), hashed: vec![0; 1 << (HASHED_BITS - 6)] };
        for piece in mergeable(pieces) {
            let mut chars = piece.text.chars().map(unmark);
            let Some(mut left) = chars.next() else { continue };
            for right in chars {
                if left.is_ascii() && right.is_ascii() {
                    cuts.ascii[left as usize] |= 1 << (right as u32);
                } else {
                    let bit = hash(left, right);
                    cuts.hashed[bit / 64] |= 1 << (bit % 64);
                }
                left = right;
            }
        }
        cuts
    }

    /// No cut anywhere: the whole text is one unit.
    pub(super) fn none() -> Self {
        let hashed = vec![u64::MAX; 1 << (HASHED_BITS - 6)];
        Self { ascii: Box::new([u128::MAX; ASCII]), hashed }
    }

    /// Whether text may be cut between two neighbouring characters.
    #[inline]
    pub(super) fn between(&self, left: char, right: char) -> bool {
        if left.is_ascii() && right.is_ascii() {
            self.ascii[left as usize] >> (right as u32) & 1 == 0
        } else {
            let bit = hash(left, right);
            self.hashed[bit / 64] >> (bit % 64) & 1 == 0
        }
    }
}

fn hash(left: char, right: char) -> usize {
    let pair = u64::from(left as u32) << 32 | u64::from(right as u32);
    (pair.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - HASHED_BITS)) as usize
}
