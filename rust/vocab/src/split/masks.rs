//! The classes of 64 bytes, a bit per byte: with AVX2 where the processor has it, and byte by byte elsewhere.
#![allow(unsafe_code)]

use super::blocks::BLOCK;

/// Whether the processor has AVX2.
#[inline(always)]
pub(super) fn has_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        #[cfg(test)]
        return !WITHOUT.get();
        #[cfg(not(test))]
        return true;
    }
    false
}

#[cfg(test)]
thread_local! {
    /// Whether a test runs as on a processor without AVX2.
    pub(super) static WITHOUT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// A function of a block with AVX2 where the processor has it, and a function byte by byte elsewhere.
macro_rules! by_processor {
    ($vectors:path, $bytes:path, $block:ident) => {{
        #[cfg(target_arch = "x86_64")]
        if has_vectors() {
            // SAFETY: the processor has AVX2.
            return unsafe { $vectors($block) };
        }
        $bytes($block)
    }};
}

/// The masks of a block, one for each class of characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Masks {
    /// Not ASCII.
    pub(super) wide: u64,
    /// `[A-Za-z]`
    pub(super) letter: u64,
    /// `[0-9]`
    pub(super) number: u64,
    /// `\s`
    pub(super) space: u64,
    /// `[\r\n]`
    pub(super) newline: u64,
    /// A space itself.
    pub(super) blank: u64,
    pub(super) apostrophe: u64,
}

/// The masks of a block for the most frequent bytes of English text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Prose {
    /// Not ASCII.
    pub(crate) wide: u64,
    /// `[a-z]`
    pub(crate) lower: u64,
    /// A space itself.
    pub(crate) blank: u64,
}

impl Prose {
    #[inline]
    pub(crate) fn of(block: &[u8; BLOCK]) -> Self {
        by_processor!(Self::of_vectors, Self::of_bytes, block)
    }

    /// The same, one byte after another.
    pub(super) fn of_bytes(block: &[u8; BLOCK]) -> Self {
        let mut prose = Self::default();
        for (at, byte) in block.iter().enumerate() {
            prose.wide |= u64::from(!byte.is_ascii()) << at;
            prose.lower |= u64::from(byte.is_ascii_lowercase()) << at;
            prose.blank |= u64::from(*byte == b' ') << at;
        }
        prose
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    #[inline]
    fn of_vectors(block: &[u8; BLOCK]) -> Self {
        use std::arch::x86_64::{_mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_set1_epi8};
        let mut prose = Self::default();
        for (nth, vector) in vectors(block).into_iter().enumerate() {
            let bits = |vector| u64::from(_mm256_movemask_epi8(vector) as u32) << (32 * nth);
            prose.wide |= bits(vector);
            prose.lower |= bits(within(vector, b'a', 26));
            prose.blank |= bits(_mm256_cmpeq_epi8(vector, _mm256_set1_epi8(b' '.cast_signed())));
        }
        prose
    }
}

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m256i;

/// A block as vectors.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn vectors(block: &[u8; BLOCK]) -> [__m256i; BLOCK / 32] {
    let (words, _) = block.as_chunks::<8>();
    let vector = |at: usize| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|nth| i64::from_le_bytes(words[at + nth]));
        std::arch::x86_64::_mm256_set_epi64x(d, c, b, a)
    };
    [vector(0), vector(4)]
}

/// A mask of the bytes in a range that begins at `first`; bytes below it wrap around.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn within(vector: __m256i, first: u8, count: u8) -> __m256i {
    use std::arch::x86_64::{
        _mm256_cmpeq_epi8, _mm256_min_epu8, _mm256_set1_epi8, _mm256_sub_epi8,
    };
    let from = _mm256_sub_epi8(vector, _mm256_set1_epi8(first.cast_signed()));
    _mm256_cmpeq_epi8(_mm256_min_epu8(from, _mm256_set1_epi8((count - 1).cast_signed())), from)
}

impl Masks {
    #[inline]
    pub(super) fn of(block: &[u8; BLOCK]) -> Self {
        by_processor!(Self::of_vectors, Self::of_bytes, block)
    }

    /// The classes, one byte after another.
    pub(super) fn of_bytes(block: &[u8; BLOCK]) -> Self {
        let mut masks = Self::default();
        for (at, byte) in block.iter().enumerate() {
            let set = |mask: &mut u64, is: bool| *mask |= u64::from(is) << at;
            set(&mut masks.wide, !byte.is_ascii());
            set(&mut masks.letter, byte.is_ascii_alphabetic());
            set(&mut masks.number, byte.is_ascii_digit());
            set(&mut masks.space, matches!(byte, b'\t'..=b'\r' | b' '));
            set(&mut masks.newline, matches!(byte, b'\r' | b'\n'));
            set(&mut masks.blank, *byte == b' ');
            set(&mut masks.apostrophe, *byte == b'\'');
        }
        masks
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    #[inline]
    fn of_vectors(block: &[u8; BLOCK]) -> Self {
        use std::arch::x86_64::{
            _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8,
        };
        let mut masks = Self::default();
        for (nth, vector) in vectors(block).into_iter().enumerate() {
            let all = |byte: u8| _mm256_set1_epi8(byte.cast_signed());
            let is = |byte: u8| _mm256_cmpeq_epi8(vector, all(byte));
            let bits = |vector| u64::from(_mm256_movemask_epi8(vector) as u32) << (32 * nth);
            let newline = _mm256_or_si256(is(b'\r'), is(b'\n'));
            let blank = is(b' ');
            masks.wide |= bits(vector);
            masks.letter |= bits(within(_mm256_or_si256(vector, all(0x20)), b'a', 26));
            masks.number |= bits(within(vector, b'0', 10));
            masks.space |= bits(_mm256_or_si256(blank, within(vector, b'\t', 5)));
            masks.newline |= bits(newline);
            masks.blank |= bits(blank);
            masks.apostrophe |= bits(is(b'\''));
        }
        masks
    }
}

/// The first bytes of ideographs, hiragana and katakana.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Firsts {
    /// From U+4E00 to U+9F7F: most of the ideographs.
    pub(super) ideographs: u64,
    /// From U+3041 to U+30FF: the letters of hiragana and katakana.
    pub(super) kana: u64,
}

impl Firsts {
    #[inline(always)]
    pub(super) fn of(block: &[u8; BLOCK]) -> Self {
        by_processor!(Self::of_vectors, Self::of_bytes, block)
    }

    /// The same, one byte after another.
    pub(super) fn of_bytes(block: &[u8; BLOCK]) -> Self {
        let mut firsts = Self::default();
        for (at, &byte) in block.iter().enumerate() {
            let second = block.get(at + 1).copied().unwrap_or_default();
            let is_ideograph = match byte {
                0xE4 => second >= 0xB8,
                0xE5..=0xE8 => true,
                0xE9 => second < 0xBE,
                _ => false,
            };
            let third = block.get(at + 2).copied().unwrap_or_default();
            let is_kana = byte == 0xE3 && (0x81..=0x83).contains(&second);
            let is_other = match second {
                0x81 => third == 0x80,
                0x82 => (0x97..=0x9C).contains(&third) || third == 0xA0,
                _ => third == 0xBB,
            };
            let set = |mask: &mut u64, is: bool| *mask |= u64::from(is) << at;
            set(&mut firsts.ideographs, is_ideograph);
            set(&mut firsts.kana, is_kana && !is_other);
        }
        firsts
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    #[inline]
    fn of_vectors(block: &[u8; BLOCK]) -> Self {
        use std::arch::x86_64::{
            _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8,
        };
        let mut firsts = Self::default();
        let [mut e3, mut e4, mut e9, mut high, mut highest] = [0; 5];
        let [mut x80, mut x81, mut x82, mut x83, mut marks, mut dot] = [0; 6];
        for (nth, vector) in vectors(block).into_iter().enumerate() {
            let is = |byte: u8| _mm256_cmpeq_epi8(vector, _mm256_set1_epi8(byte.cast_signed()));
            let from = |byte: u8| within(vector, byte, u8::MAX - byte + 1);
            let bits = |vector| u64::from(_mm256_movemask_epi8(vector) as u32) << (32 * nth);
            firsts.ideographs |= bits(within(vector, 0xE5, 4));
            e3 |= bits(is(0xE3));
            e4 |= bits(is(0xE4));
            e9 |= bits(is(0xE9));
            high |= bits(from(0xB8));
            highest |= bits(from(0xBE));
            x80 |= bits(is(0x80));
            x81 |= bits(is(0x81));
            x82 |= bits(is(0x82));
            x83 |= bits(is(0x83));
            marks |= bits(_mm256_or_si256(within(vector, 0x97, 6), is(0xA0)));
            dot |= bits(is(0xBB));
        }
        firsts.ideographs |= e4 & high >> 1 | e9 & !(highest >> 1);
        let second = |mask: u64, others: u64| e3 & mask >> 1 & !(others >> 2);
        firsts.kana = second(x81, x80) | second(x82, marks) | second(x83, dot);
        firsts
    }
}

/// The first bytes of characters beyond ASCII.
#[inline(always)]
pub(crate) fn leads(block: &[u8; BLOCK]) -> u64 {
    by_processor!(leads_of_vectors, leads_of_bytes, block)
}

/// The first bytes of characters beyond ASCII, eight bytes after another.
pub(super) fn leads_of_bytes(block: &[u8; BLOCK]) -> u64 {
    const HIGHEST: u64 = 0x8080_8080_8080_8080;
    // Moves the lowest bit of each byte into the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (words, _) = block.as_chunks::<8>();
    let mut leads = 0;
    for (nth, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let both = word & word << 1 & HIGHEST;
        leads |= (both >> 7).wrapping_mul(GATHER) >> 56 << (8 * nth);
    }
    leads
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn leads_of_vectors(block: &[u8; BLOCK]) -> u64 {
    use std::arch::x86_64::{_mm256_and_si256, _mm256_movemask_epi8, _mm256_slli_epi16};
    let mut leads = 0;
    for (nth, vector) in vectors(block).into_iter().enumerate() {
        // The two highest bits of a first byte are set.
        let both = _mm256_and_si256(vector, _mm256_slli_epi16::<1>(vector));
        leads |= u64::from(_mm256_movemask_epi8(both) as u32) << (32 * nth);
    }
    leads
}

/// What o200k's patterns ask beside [`Masks`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cases {
    /// Upper case, of the letters; undefined for other characters.
    pub(super) upper: u64,
    pub(super) slash: u64,
}

impl Cases {
    #[inline(always)]
    pub(super) fn of(block: &[u8; BLOCK]) -> Self {
        by_processor!(Self::of_vectors, Self::of_bytes, block)
    }

    /// The same, one byte after another.
    pub(super) fn of_bytes(block: &[u8; BLOCK]) -> Self {
        let mut cases = Self::default();
        for (at, byte) in block.iter().enumerate() {
            cases.upper |= u64::from(byte & 0x20 == 0) << at;
            cases.slash |= u64::from(*byte == b'/') << at;
        }
        cases
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    #[inline]
    fn of_vectors(block: &[u8; BLOCK]) -> Self {
        use std::arch::x86_64::{
            _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_set1_epi8, _mm256_slli_epi16,
        };
        let mut cases = Self::default();
        for (nth, vector) in vectors(block).into_iter().enumerate() {
            let bits = |vector| u64::from(_mm256_movemask_epi8(vector) as u32) << (32 * nth);
            // The bit of lower case becomes the highest of its byte.
            cases.upper |= bits(_mm256_slli_epi16::<2>(vector));
            cases.slash |= bits(_mm256_cmpeq_epi8(vector, _mm256_set1_epi8(b'/'.cast_signed())));
        }
        cases.upper = !cases.upper;
        cases
    }
}

/// The bytes of Latin and Cyrillic letters of two bytes: first bytes, and bounds of second bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Halves {
    pub(super) c3: u64,
    pub(super) c4_to_c9: u64,
    pub(super) c5: u64,
    pub(super) d0: u64,
    pub(super) d1: u64,
    /// The second bytes of `×` and `÷`.
    pub(super) sign: u64,
    pub(super) from_9f: u64,
    pub(super) from_a0: u64,
    pub(super) from_b0: u64,
}

impl Halves {
    #[inline(always)]
    pub(super) fn of(block: &[u8; BLOCK]) -> Self {
        by_processor!(Self::of_vectors, Self::of_bytes, block)
    }

    /// The same, one byte after another.
    pub(super) fn of_bytes(block: &[u8; BLOCK]) -> Self {
        let mut halves = Self::default();
        for (at, &byte) in block.iter().enumerate() {
            let set = |mask: &mut u64, is: bool| *mask |= u64::from(is) << at;
            set(&mut halves.c3, byte == 0xC3);
            set(&mut halves.c4_to_c9, (0xC4..=0xC9).contains(&byte));
            set(&mut halves.c5, byte == 0xC5);
            set(&mut halves.d0, byte == 0xD0);
            set(&mut halves.d1, byte == 0xD1);
            set(&mut halves.sign, byte == 0x97 || byte == 0xB7);
            set(&mut halves.from_9f, byte >= 0x9F);
            set(&mut halves.from_a0, byte >= 0xA0);
            set(&mut halves.from_b0, byte >= 0xB0);
        }
        halves
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    #[inline]
    fn of_vectors(block: &[u8; BLOCK]) -> Self {
        use std::arch::x86_64::{
            _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8,
        };
        let mut halves = Self::default();
        for (nth, vector) in vectors(block).into_iter().enumerate() {
            let is = |byte: u8| _mm256_cmpeq_epi8(vector, _mm256_set1_epi8(byte.cast_signed()));
            let from = |byte: u8| within(vector, byte, u8::MAX - byte + 1);
            let bits = |vector| u64::from(_mm256_movemask_epi8(vector) as u32) << (32 * nth);
            halves.c3 |= bits(is(0xC3));
            halves.c4_to_c9 |= bits(within(vector, 0xC4, 6));
            halves.c5 |= bits(is(0xC5));
            halves.d0 |= bits(is(0xD0));
            halves.d1 |= bits(is(0xD1));
            halves.sign |= bits(_mm256_or_si256(is(0x97), is(0xB7)));
            halves.from_9f |= bits(from(0x9F));
            halves.from_a0 |= bits(from(0xA0));
            halves.from_b0 |= bits(from(0xB0));
        }
        halves
    }
}

/// ASCII's control characters that are no white space.
#[inline(always)]
pub(super) fn controls(block: &[u8; BLOCK]) -> u64 {
    by_processor!(controls_of_vectors, controls_of_bytes, block)
}

/// The same, one byte after another.
pub(super) fn controls_of_bytes(block: &[u8; BLOCK]) -> u64 {
    let is_control = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\t'..=b'\r');
    let bits = block.iter().enumerate().map(|(at, byte)| u64::from(is_control(byte)) << at);
    bits.fold(0, |all, bit| all | bit)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn controls_of_vectors(block: &[u8; BLOCK]) -> u64 {
    use std::arch::x86_64::{
        _mm256_andnot_si256, _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_or_si256,
        _mm256_set1_epi8,
    };
    let mut controls = 0;
    for (nth, vector) in vectors(block).into_iter().enumerate() {
        let delete = _mm256_cmpeq_epi8(vector, _mm256_set1_epi8(0x7F));
        let all = _mm256_or_si256(within(vector, 0, 0x20), delete);
        let found = _mm256_andnot_si256(within(vector, b'\t', 5), all);
        controls |= u64::from(_mm256_movemask_epi8(found) as u32) << (32 * nth);
    }
    controls
}
