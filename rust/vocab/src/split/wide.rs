//! Characters beyond ASCII, as masks of their bytes in a block.
//!
//! ```text
//! l'été     é: two bytes of a letter in lower case
//! 好😀       three bytes of a letter, four of a sign
//! ```
//!
//! Latin and Cyrillic letters of two bytes are found all at once, and so are most ideographs, hiragana and katakana;
//! all other characters one by one, by their classes. White space, a number or `ſ` ends the part of its block that is
//! split at once, and so does a character that the end of the block may cut.

use super::blocks::{BLOCK, Words};
use super::classes::{
    CHINESE, Classes, HAN, LETTER, LOWER, MARK, Mask, NUMBER, SIGN, SPACE, UPPER,
};
use super::masks::{Firsts, Halves, leads};
use crate::utf8::wide_char;

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
            Words::Whole { .. } | Words::BetweenNumbers => {
                byte < 0xC0 || matches!(byte, 0xC3..=0xC9 | 0xD0 | 0xD1)
            }
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
            Words::BetweenNumbers => Self { all: both(c3 | c4_to_c9 | d0 | d1), upper: 0 },
            // `'ſ` is a contraction in some patterns.
            Words::Whole { .. } => {
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

/// The bytes of characters in a block that are not among [`Letters`], by class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Others {
    pub(super) letter: u64,
    /// Letters in upper case, where words depend on the case.
    pub(super) upper: u64,
    /// Letters that words may have as upper and as lower case.
    pub(super) caseless: u64,
    /// Marks, where words have marks among caseless letters.
    pub(super) mark: u64,
    pub(super) sign: u64,
    /// Chinese, and Japanese, where these are pieces of their own.
    pub(super) chinese: u64,
    /// The signs among these, which are pieces too.
    pub(super) chinese_sign: u64,
    /// Characters of no alternative.
    pub(super) unmatched: u64,
    /// The first bytes of characters of two bytes, three, and four.
    twos: u64,
    threes: u64,
    fours: u64,
}

impl Others {
    /// The characters whose bytes are in `wide`, up to the first that ends the part.
    #[inline]
    pub(super) fn of(block: &[u8; BLOCK], wide: u64, words: Words) -> Self {
        let classes = Classes::of_unicode();
        let Firsts { ideographs, kana } = Firsts::of(block);
        let mut others = Self::default();
        // The bytes of characters that the block does not cut.
        let three = |firsts: u64| {
            let whole = firsts & u64::MAX >> 2;
            whole | whole << 1 | whole << 2
        };
        match words {
            Words::Whole { .. } => others.letter = three(ideographs | kana),
            Words::Cased { han: false, .. } => {
                others.letter = three(ideographs | kana);
                others.caseless = others.letter;
            }
            Words::Cased { han: true, .. } => {
                (others.letter, others.chinese) = (three(kana), three(ideographs));
                others.caseless = others.letter;
            }
            Words::BetweenNumbers => others.chinese = three(ideographs | kana),
        }
        let mut firsts = leads(block) & wide & !(others.letter | others.chinese);
        while firsts != 0 {
            let at = firsts.trailing_zeros() as usize;
            firsts &= firsts - 1;
            let has_others = others.sign | others.chinese | others.unmatched != 0;
            if at >= RUN && (wide | 1) == u64::MAX && !has_others {
                break;
            }
            let Some(bytes) = block.get(at..).and_then(|rest| rest.first_chunk()) else { break };
            let (c, length) = wide_char(*bytes);
            let class = classes.of_code_point(c);
            let is = |classes: Mask| class & classes != 0;
            let [is_letter, is_sign, is_chinese, is_unmatched] = match words {
                Words::Whole { marks } => {
                    let is_letter = is(if marks { LETTER | MARK } else { LETTER });
                    [is_letter, !is_letter && !is(SPACE | NUMBER), false, false]
                }
                Words::Cased { han, .. } => {
                    let is_han = han && is(HAN);
                    let is_letter = is(LETTER | MARK) && !is_han;
                    let is_sign = !is_han && !is(LETTER | SPACE | NUMBER | MARK);
                    [is_letter, is_sign, is(LETTER) && is_han, false]
                }
                Words::BetweenNumbers => {
                    let is_letter = is(LETTER | MARK) && !is(CHINESE);
                    let is_sign = is(SIGN) && !is(CHINESE);
                    let is_chinese = is(LETTER | MARK | SIGN) && is(CHINESE);
                    let is_other = is(LETTER | MARK | SIGN | CHINESE | SPACE | NUMBER);
                    [is_letter, is_sign, is_chinese, !is_other]
                }
            };
            if c == LONG_S || !(is_letter | is_sign | is_chinese | is_unmatched) {
                break;
            }
            let bytes = ((1 << length) - 1) << at;
            let if_is = |is: bool, bits: u64| u64::from(is).wrapping_neg() & bits;
            others.letter |= if_is(is_letter, bytes);
            others.sign |= if_is(is_sign, bytes);
            others.chinese |= if_is(is_chinese, bytes);
            others.chinese_sign |= if_is(is_chinese && is(SIGN), bytes);
            others.unmatched |= if_is(is_unmatched, bytes);
            if matches!(words, Words::Cased { .. }) {
                others.upper |= if_is(is_letter && is(UPPER) && !is(LOWER), bytes);
                others.caseless |= if_is(is_letter && is(UPPER) && is(LOWER), bytes);
                others.mark |= if_is(is_letter && is(MARK), bytes);
            }
            others.twos |= u64::from(length == 2) << at;
            others.threes |= u64::from(length == 3) << at;
            others.fours |= u64::from(length == 4) << at;
        }
        others
    }

    /// The places directly after characters whose first bytes are in `bytes`; only of characters found one by one.
    #[inline(always)]
    pub(super) fn after(&self, bytes: u64) -> u64 {
        (bytes & self.twos) << 2 | (bytes & self.threes) << 3 | (bytes & self.fours) << 4
    }

    /// The first bytes of characters that end directly before a byte of `bytes`; only of characters found one by one.
    #[inline(always)]
    pub(super) fn before(&self, bytes: u64) -> u64 {
        self.twos & bytes >> 2 | self.threes & bytes >> 3 | self.fours & bytes >> 4
    }
}

/// A block that begins with so many bytes of letters and has no ASCII but its first byte is not looked at further: text
/// without spaces, as Thai, is faster word by word.
const RUN: usize = 12;

/// `ſ`, whose upper case is `S`: `'ſ` is a contraction in some patterns.
const LONG_S: u32 = 0x17F;
