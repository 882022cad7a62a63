//! Latin and Cyrillic letters of two bytes, as masks of their bytes in a block.
//!
//! ```text
//! l'été     é: two bytes of a letter in lower case
//! ```
//!
//! Any other character beyond ASCII ends the part of its block that is split at once, and so does a letter that the end
//! of the block cuts.

use super::blocks::{BLOCK, Words};
use super::masks::Halves;

/// The bytes of known letters in a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Letters {
    pub(super) all: u64,
    /// Those in upper case, where words depend on the case.
    pub(super) upper: u64,
}

impl Letters {
    /// Whether a byte may be ASCII or of a known letter.
    #[inline(always)]
    pub(super) fn may_have(byte: u8, words: Words) -> bool {
        match words {
            Words::BetweenNumbers => byte.is_ascii(),
            Words::Whole => byte < 0xC0 || matches!(byte, 0xC3..=0xC9 | 0xD0 | 0xD1),
            Words::Cased { .. } => byte < 0xC0 || matches!(byte, 0xC3 | 0xD0 | 0xD1),
        }
    }

    /// The known letters of a block of valid UTF-8; `apostrophe` has the places of apostrophes.
    #[inline]
    pub(super) fn of(block: &[u8; BLOCK], words: Words, apostrophe: u64) -> Self {
        let Halves { c3, c4_to_c9, c5, d0, d1, sign, from_9f, from_a0, from_b0 } =
            Halves::of(block);
        // `×` and `÷`.
        let c3 = c3 & !(sign >> 1);
        match words {
            // A letter beyond ASCII may be no part of the word that it follows.
            Words::BetweenNumbers => Self::default(),
            // `'ſ` is a contraction in some patterns.
            Words::Whole => {
                Self { all: both(c3 | c4_to_c9 & !(c5 & apostrophe << 1) | d0 | d1), upper: 0 }
            }
            Words::Cased { .. } => {
                let upper = both(c3 & !(from_9f >> 1) | d0 & !(from_b0 >> 1));
                let lower = both(c3 & from_9f >> 1 | d0 & from_b0 >> 1 | d1 & !(from_a0 >> 1));
                Self { all: upper | lower, upper }
            }
        }
    }
}

/// Both bytes of letters whose first bytes are given, without one that goes on after the block.
#[inline(always)]
fn both(firsts: u64) -> u64 {
    let whole = firsts & u64::MAX >> 1;
    whole | whole << 1
}
