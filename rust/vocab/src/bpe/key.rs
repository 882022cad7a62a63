//! The bytes of a short unit as two words: the key of tables of units.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::DefaultHashBuilder;

/// Units of up to this many bytes have a key.
pub(super) const KEY_BYTES: usize = 15;

/// The bytes of a unit, the rest zero; the last byte is their number and never zero.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Key {
    low: u64,
    high: u64,
}

/// Compares both words at once: a processor cannot predict which of two places has a unit.
impl PartialEq for Key {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        (self.low ^ other.low) | (self.high ^ other.high) == 0
    }
}

/// For each number of bytes, the mask of the sixteen bytes that a key keeps.
const KEPT: [Key; KEY_BYTES + 1] = {
    let mut kept = [Key { low: 0, high: 0 }; KEY_BYTES + 1];
    let mut length = 1;
    while length <= KEY_BYTES {
        kept[length].low = if length < 8 { (1 << (8 * length)) - 1 } else { u64::MAX };
        kept[length].high = if length < 8 { 0 } else { (1 << (8 * (length - 8))) - 1 };
        length += 1;
    }
    kept
};

/// Flag in the last byte of a key: the unit is a part of a pre-token.
const PART: u64 = 1 << 63;

/// Bits in the last byte where a table keeps the number of a unit's ids.
const COUNT: u64 = 7 << COUNT_SHIFT;
const COUNT_SHIFT: u32 = 60;

impl Key {
    /// The key of every unit that is too long for one; no bytes have this key.
    pub(super) const LONG: Self = Self { low: 1, high: 0 };

    /// The same for a part of a pre-token.
    pub(super) const LONG_PART: Self = Self { low: 1, high: PART };

    #[inline(always)]
    pub(super) fn is_long(self) -> bool {
        self.high & !PART == 0
    }

    /// The key of a unit of `text`, which is not empty and short enough.
    #[inline(always)]
    pub(super) fn of(text: &[u8], unit: &Range<usize>) -> Option<Self> {
        let length = unit.end.wrapping_sub(unit.start);
        let kept = KEPT.get(length)?;
        let (low, high) = match text.get(unit.start..).and_then(|rest| rest.first_chunk::<16>()) {
            Some(bytes) => words(bytes),
            None => Self::at_end(text, unit),
        };
        let low = low & kept.low;
        let high = high & kept.high | (length as u64) << 56;
        Some(Self { low, high })
    }

    /// The key of the first `length` of sixteen bytes; `None` for too many.
    #[inline(always)]
    pub(super) fn of_first(bytes: [u8; 16], length: usize) -> Option<Self> {
        let kept = KEPT.get(length)?;
        let (low, high) = words(&bytes);
        let (low, high) = (low & kept.low, high & kept.high | (length as u64) << 56);
        Some(Self { low, high })
    }

    /// Near the end of the text, fewer than sixteen bytes can be read.
    #[cold]
    fn at_end(text: &[u8], unit: &Range<usize>) -> (u64, u64) {
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(&text[unit.clone()]) {
            *to = *from;
        }
        words(&bytes)
    }

    /// The key with a number of ids up to seven in it, for [`matches`](Self::matches) and
    /// [`count`](Self::count).
    #[inline(always)]
    pub(super) fn with_count(self, count: usize) -> Self {
        Self { high: self.high & !COUNT | (count as u64) << COUNT_SHIFT & COUNT, ..self }
    }

    /// The number of ids in the key.
    #[inline(always)]
    pub(super) fn count(self) -> u32 {
        ((self.high & COUNT) >> COUNT_SHIFT) as u32
    }

    /// The key without a number of ids.
    #[inline(always)]
    pub(super) fn bare(self) -> Self {
        self.with_count(0)
    }

    /// Whether the keys are equal, apart from the number of ids. Compares both words at once, as
    /// equality does.
    #[inline(always)]
    pub(super) fn matches(self, bare: Self) -> bool {
        (self.low ^ bare.low) | (self.high ^ bare.high) & !COUNT == 0
    }

    /// The key of the same bytes as a whole pre-token.
    #[inline(always)]
    pub(super) fn whole(self) -> Self {
        Self { high: self.high & !PART, ..self }
    }

    /// The key of the same bytes as a part of a pre-token.
    #[inline(always)]
    pub(super) fn of_part(self) -> Self {
        Self { high: self.high | PART, ..self }
    }

    /// Whether at least half of the unit's bytes are ASCII, for a key as [`of`](Self::of) makes it.
    #[inline(always)]
    pub(super) fn is_mostly_ascii(self) -> bool {
        let wide = |word: u64| (word & 0x8080_8080_8080_8080).count_ones();
        2 * (wide(self.low) + wide(self.high)) <= (self.high >> 56) as u32
    }
}

#[inline(always)]
fn words(bytes: &[u8; 16]) -> (u64, u64) {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    (word(0), word(8))
}

/// A hash of keys with a random seed per table, so that nobody can construct a text or a file whose
/// units all collide.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyHasher {
    low: u64,
    high: u64,
}

impl Default for KeyHasher {
    fn default() -> Self {
        let random = DefaultHashBuilder::default();
        Self { low: random.hash_one(0u8), high: random.hash_one(1u8) | 1 }
    }
}

impl KeyHasher {
    #[inline(always)]
    pub(super) fn hash(&self, key: Key) -> u64 {
        let product = u128::from(key.low ^ self.low) * u128::from(key.high ^ self.high);
        (product as u64) ^ ((product >> 64) as u64)
    }
}
