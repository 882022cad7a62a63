//! The pieces of text under the patterns of cl100k's and o200k's families, 64 bytes at a time.
//!
//! Each class is a mask with a bit for each byte ([`masks`](super::masks), and [`wide`](super::wide) beyond ASCII).
//! The classes of a byte and its neighbours decide where a piece begins, for all 64 places at once. A block begins
//! at the beginning of a piece, so no state is carried between blocks. Near the end of a block, where
//! the next characters would decide, no place is used.

use super::masks::{Cases, Masks, controls, has_vectors};
use super::scan::Digits;
use super::wide::{Letters, Others};

/// Number of bytes in a block.
pub(crate) const BLOCK: usize = 64;

/// Number of following bytes that decide whether a piece begins at a place.
pub(super) const AHEAD: usize = 2;

/// What letters make a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// All letters, with marks or without; a contraction is a piece: cl100k.
    Whole { marks: bool },
    /// `UPPER*LOWER+|UPPER+LOWER*`: o200k, where a contraction joins the word before it if there are any. With `han`,
    /// Chinese is no part of a word.
    Cased { contractions: bool, han: bool },
    /// All letters, and no contractions; white space ends at a number, and at Chinese or Japanese, as at the end of a
    /// text: DeepSeek-V3.
    BetweenNumbers,
}

/// A bit for each place of a block where a piece certainly begins, without the first place; and, if there is such a
/// place, a bit for each byte beyond ASCII.
#[inline(always)]
pub(super) fn starts(block: &[u8; BLOCK], digits: Digits, words: Words) -> (u64, u64) {
    // Without vectors, finding the characters of `Others` costs more than going on word by word.
    let is_further = |byte: &u8| !Letters::may_have(*byte, words);
    let has_vectors = has_vectors();
    if !has_vectors && block[..=AHEAD].iter().any(is_further) {
        return (0, 0);
    }
    let masks = Masks::of(block);
    let first_wide = block.get(masks.wide.trailing_zeros() as usize);
    let letters = match first_wide {
        Some(byte) if Letters::may_have(*byte, words) => {
            Letters::of(block, words, masks.apostrophe)
        }
        // All characters before the first unknown one, or in the whole block, are ASCII.
        _ => Letters::default(),
    };
    let further = masks.wide & !letters.all;
    let others = match further {
        1.. if has_vectors => Others::of(block, further, words),
        _ => Others::default(),
    };
    // A control character is of no alternative.
    let controls = if words == Words::BetweenNumbers { controls(block) } else { 0 };
    let unmatched = others.unmatched | controls;
    let Masks { number, space, newline, blank, apostrophe, .. } = masks;
    let letter = masks.letter | letters.all | others.letter;
    let other = !(letter | number | space | others.chinese | unmatched);
    let (after_space, after_blank) = (space << 1, blank << 1);
    let (after_letter, after_number, after_other) = (letter << 1, number << 1, other << 1);
    let mut unknown = further & !(others.letter | others.sign | others.chinese | others.unmatched);
    // A mark is as a letter, but directly after signs it may join these.
    unknown |= others.mark & after_other;
    // Places after an unknown character are not used.
    let count = unknown.trailing_zeros();
    let Some(before @ 1..) = count.checked_sub(AHEAD as u32) else { return (0, 0) };
    let mut certain = u64::MAX >> (u64::BITS - before);
    // White space except newlines.
    let gap = space & !newline;
    let signs = other & !after_other & !after_blank;
    // A single sign joins the letters after it, and so does the last character of a gap.
    let joined = match words {
        // An ASCII sign joins ASCII letters alone; a character of no alternative joins any letters.
        Words::BetweenNumbers => {
            (gap | controls) << 1 | signs << 1 & masks.letter | others.after(unmatched)
        }
        Words::Whole { .. } | Words::Cased { .. } => {
            (gap | signs) << 1 | others.after(signs & others.sign)
        }
    };
    let first_letters = letter & !after_letter & !joined;
    let numbers = match digits {
        Digits::One => number,
        Digits::Many => number & !after_number,
        Digits::Three => every_third(number),
    };
    // Newlines directly after signs join them.
    let taken = run_from(newline, newline & after_other);
    let gaps = space & !after_space & !taken;
    // The last character of a gap is separate, or joins the next piece.
    let last = match words {
        Words::BetweenNumbers => gap & !((space | number | others.chinese) >> 1),
        Words::Whole { .. } | Words::Cased { .. } => gap & !(space >> 1),
    };
    // A gap after a newline begins a piece unless another newline follows it.
    let after_newline = gap & (newline << 1);
    let ends = gap.wrapping_add(after_newline) & !gap;
    let before_newline = after_newline != 0 && ends & newline != 0;
    let chinese = others.chinese & !others.chinese_sign;
    let chinese = chinese & !(chinese << 1) | others.chinese_sign & !(others.chinese_sign << 1);
    let mut starts = first_letters | signs | numbers | gaps | last | chinese;
    if before_newline {
        // Rare: up to the first such gap.
        certain &= below_first(after_newline);
    } else {
        starts |= after_newline;
    }
    // A gap that may continue after the block: the next character is not known.
    let known = u64::MAX >> (u64::BITS - count);
    let going_on = (!gap & known).checked_ilog2().map_or(0, |last| last + 1);
    if going_on < count {
        certain &= (1 << going_on) - 1;
    }
    match words {
        Words::Whole { .. } => {
            let mut contractions = apostrophe & signs & certain;
            while contractions != 0 {
                let at = contractions.trailing_zeros() as usize;
                contractions &= contractions - 1;
                starts |= contraction(block, at).map_or(0, |length| place(at + length));
            }
        }
        Words::BetweenNumbers => {
            starts |= unmatched & !(unmatched << 1);
            starts |= controls & letter >> 1 | others.before(letter) & unmatched;
            // The letters that a sign joins.
            let ascii = run_from(masks.letter, signs << 1 & masks.letter);
            starts |= ascii << 1 & letter & !masks.letter;
        }
        Words::Cased { contractions, .. } => {
            let Cases { upper, slash } = Cases::of(block);
            let upper = upper & masks.letter | letters.upper | others.upper;
            // A contraction may begin another word.
            let may_part = contractions && apostrophe & after_letter != 0;
            let (ends, unknown) = ends_before(upper, others.caseless, letter, may_part, count);
            starts |= ends;
            certain &= below_first(unknown);
            // Rare: a slash after such newlines joins them.
            certain &= below_first(slash & taken << 1);
            if contractions {
                starts = with_suffixes(block, starts, apostrophe & after_letter & certain);
            }
        }
    }
    (starts & certain & !1, masks.wide)
}

/// The capitals directly after the end of a word. The second mask has the first capital of which the block does not tell.
#[inline(always)]
fn ends_before(upper: u64, caseless: u64, letter: u64, may_part: bool, count: u32) -> (u64, u64) {
    let lower = letter & !upper & !caseless;
    let after_lower = upper & lower << 1;
    let doubtful = upper & caseless << 1;
    if doubtful == 0 || may_part {
        return (after_lower, doubtful);
    }
    // The word's part in lower case has begun.
    let begun = doubtful & run_from(caseless, caseless & lower << 1) << 1;
    let (ends, unknown) = after_caseless(doubtful & !begun, upper, letter, count);
    (after_lower | begun | ends, unknown)
}

/// The same two masks for `capitals`, each after a caseless letter in the word's part in upper case.
///
/// The last letter of `UPPER*LOWER+` is no capital: the word goes on if the capitals have another letter after them.
#[inline(never)]
fn after_caseless(mut capitals: u64, upper: u64, letter: u64, count: u32) -> (u64, u64) {
    let mut ends = 0;
    while capitals != 0 {
        let at = capitals.trailing_zeros();
        capitals &= capitals - 1;
        let after = at + (upper >> at).trailing_ones();
        if after >= count {
            return (ends, 1 << at);
        }
        ends |= (!letter >> after & 1) << at;
    }
    (ends, 0)
}

/// All places below the first of a mask; all places if it is empty.
#[inline(always)]
fn below_first(mask: u64) -> u64 {
    (mask & mask.wrapping_neg()).wrapping_sub(1)
}

/// The beginnings of pieces where contractions are suffixes, after letters, of the word before them.
#[inline(always)]
fn with_suffixes(block: &[u8; BLOCK], mut starts: u64, mut apostrophes: u64) -> u64 {
    let mut end = 0;
    while apostrophes != 0 {
        let at = apostrophes.trailing_zeros() as usize;
        apostrophes &= apostrophes - 1;
        // The letter before it may end a contraction, which has no second suffix.
        if at != end
            && let Some(length) = contraction(block, at)
        {
            end = at + length;
            starts = starts & !(place(end).wrapping_sub(place(at))) | place(end);
        }
    }
    starts
}

/// The bit of a place; none for places after the block.
#[inline(always)]
fn place(at: usize) -> u64 {
    1u64.checked_shl(at as u32).unwrap_or(0)
}

/// The runs of bits that begin with a bit of `firsts`.
#[inline]
fn run_from(bits: u64, firsts: u64) -> u64 {
    bits & (bits ^ bits.wrapping_add(firsts))
}

/// The first of each run of digits, and every third after it.
#[inline]
fn every_third(number: u64) -> u64 {
    let mut all = number & !(number << 1);
    let fourth = number & number << 1 & number << 2 & number << 3;
    let mut next = all << 3 & fourth;
    while next != 0 {
        all |= next;
        next = next << 3 & fourth;
    }
    all
}

/// The length of a contraction at a given place, if there is one.
#[inline(always)]
fn contraction(block: &[u8; BLOCK], at: usize) -> Option<usize> {
    let letter = |at: usize| block.get(at).map_or(0, u8::to_ascii_lowercase);
    match (letter(at + 1), letter(at + 2)) {
        (b's' | b't' | b'm' | b'd', _) => Some(2),
        (b'r' | b'v', b'e') | (b'l', b'l') => Some(3),
        _ => None,
    }
}
