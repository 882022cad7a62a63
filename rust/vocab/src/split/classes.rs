//! Classes of characters, as the regular expressions of vocabularies define them.
//!
//! One table for all of Unicode, built on first use from the data of Rust's `regex`. tiktoken's
//! pre-tokenizer uses the same data; Hugging Face's agrees with it on every character.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use regex_syntax::hir::{Class, Hir, HirKind};

use crate::utf8::{PREFIXES, char_at, prefix_of_three};

/// Classes of characters, one bit each.
pub(super) type Mask = u16;

/// `\p{L}`
pub(super) const LETTER: Mask = 1;
/// `\p{N}`
pub(super) const NUMBER: Mask = 1 << 1;
/// `\s`
pub(super) const SPACE: Mask = 1 << 2;
/// `\p{M}`
pub(super) const MARK: Mask = 1 << 3;
/// `[\p{P}\p{S}]`
pub(super) const SIGN: Mask = 1 << 4;
/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
pub(super) const UPPER: Mask = 1 << 5;
/// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
pub(super) const LOWER: Mask = 1 << 6;
/// `[\r\n]`
pub(super) const NEWLINE: Mask = 1 << 7;

/// `\p{Han}`
pub(super) const HAN: Mask = 1 << 8;

/// Chinese and Japanese, as DeepSeek-V3 separates them.
pub(super) const CHINESE: Mask = 1 << 9;

const PATTERNS: [(Mask, &str); 10] = [
    (LETTER, r"\p{L}"),
    (NUMBER, r"\p{N}"),
    (SPACE, r"\s"),
    (MARK, r"\p{M}"),
    (SIGN, r"[\p{P}\p{S}]"),
    (UPPER, r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"),
    (LOWER, r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"),
    (NEWLINE, r"[\r\n]"),
    (HAN, r"\p{Han}"),
    (CHINESE, r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]"),
];

const CHARS: usize = 0x11_0000;
const PAGE: usize = 256;

/// Character → classes in two steps: the page of `c / 256`, then the place in it.
#[derive(Debug)]
pub(super) struct Classes {
    page_of: Vec<u16>,
    pages: Vec<[Mask; PAGE]>,
    /// The classes of ASCII characters, by byte; none for the other bytes.
    ascii: [Mask; 256],
    /// The classes shared by all characters with the same first two of three bytes.
    shared: Box<[Mask; PREFIXES]>,
}

impl Classes {
    /// The classes that the patterns of vocabularies name.
    pub(super) fn of_unicode() -> &'static Self {
        static CLASSES: LazyLock<Classes> = LazyLock::new(|| {
            let classes = PATTERNS.iter().flat_map(|&(mask, pattern)| {
                let hir = regex_syntax::parse(pattern).ok();
                let ranges = hir.as_ref().and_then(ranges).unwrap_or_default();
                ranges.into_iter().map(move |range| (mask, range))
            });
            Classes::new(classes)
        });
        &CLASSES
    }

    /// The classes with the given ranges of characters. All characters of most pages have the same classes, and are not
    /// looked at one by one.
    pub(super) fn new(classes: impl Iterator<Item = (Mask, RangeInclusive<char>)>) -> Self {
        // For each page, the classes of all its characters, and those of some.
        let mut whole = [0; CHARS / PAGE];
        let mut parts = vec![Vec::new(); CHARS / PAGE];
        for (mask, range) in classes {
            let (first, last) = (*range.start() as usize, *range.end() as usize);
            for page in first / PAGE..=last / PAGE {
                let part = first.saturating_sub(page * PAGE)..=(last - page * PAGE).min(PAGE - 1);
                if part == (0..=PAGE - 1) {
                    whole[page] |= mask;
                } else {
                    parts[page].push((mask, part));
                }
            }
        }
        let (mut pages, mut page_of) = (Vec::new(), Vec::with_capacity(CHARS / PAGE));
        // The pages whose characters are of the same classes: one for all that have these classes.
        let mut even: Vec<(Mask, u16)> = Vec::new();
        for (whole, parts) in whole.into_iter().zip(parts) {
            let known = even.iter().find(|(classes, _)| *classes == whole && parts.is_empty());
            if let Some((_, page)) = known {
                page_of.push(*page);
                continue;
            }
            let mut page = [whole; PAGE];
            let at = pages.len() as u16;
            if parts.is_empty() {
                even.push((whole, at));
            }
            for (mask, part) in parts {
                page[part].iter_mut().for_each(|entry| *entry |= mask);
            }
            page_of.push(at);
            pages.push(page);
        }
        let of = |page: usize| &pages[usize::from(page_of[page])];
        let mut ascii = [0; 256];
        ascii[..128].copy_from_slice(&of(0)[..128]);
        let blocks = (0..).flat_map(|page| of(page).as_chunks::<64>().0);
        let mut shared = Box::new([0; PREFIXES]);
        for (shared, chars) in shared.iter_mut().zip(blocks) {
            *shared = chars.iter().fold(Mask::MAX, |shared, mask| shared & mask);
        }
        Self { page_of, pages, ascii, shared }
    }

    #[inline]
    pub(super) fn of_code_point(&self, c: u32) -> Mask {
        let page = self.page_of.get(c as usize / PAGE).copied().unwrap_or(0);
        self.pages[usize::from(page)][c as usize % PAGE]
    }

    /// The classes of the character at a place, and the place after it; at the end of the text no
    /// class, and the same place.
    #[inline]
    pub(super) fn at(&self, text: &str, at: usize) -> (Mask, usize) {
        match text.as_bytes().get(at) {
            Some(&byte) if byte.is_ascii() => (self.ascii[usize::from(byte)], at + 1),
            Some(_) => self.at_wide(text, at),
            None => (0, at),
        }
    }

    #[inline]
    fn at_wide(&self, text: &str, at: usize) -> (Mask, usize) {
        let (c, length) = char_at(text.as_bytes(), at);
        (self.of_code_point(c), at + length)
    }

    /// The end of the characters from a place on that are in one of the classes.
    #[inline]
    pub(super) fn run(&self, text: &str, from: usize, classes: Mask) -> usize {
        let bytes = text.as_bytes();
        let mut at = from;
        loop {
            while let Some(&byte) = bytes.get(at)
                && self.ascii[usize::from(byte)] & classes != 0
            {
                at += 1;
            }
            while let Some(prefix) = prefix_of_three(bytes, at)
                && self.shared[prefix] & classes != 0
            {
                at += 3;
            }
            let (found, next) = self.at(text, at);
            if found & classes == 0 {
                return at;
            }
            at = next;
        }
    }

    /// The end of the characters from a place on that are in none of the classes.
    #[inline]
    pub(super) fn run_without(&self, text: &str, from: usize, classes: Mask) -> usize {
        let mut at = from;
        loop {
            let (found, next) = self.at(text, at);
            if found & classes != 0 || next == at {
                return at;
            }
            at = next;
        }
    }
}

/// The ranges of characters of an expression that is a class, `None` for any other.
pub(super) fn ranges(hir: &Hir) -> Option<Vec<RangeInclusive<char>>> {
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            Some(class.iter().map(|range| range.start()..=range.end()).collect())
        }
        HirKind::Literal(literal) => {
            let mut chars = std::str::from_utf8(&literal.0).ok()?.chars();
            let (Some(c), None) = (chars.next(), chars.next()) else { return None };
            Some(vec![c..=c])
        }
        _ => None,
    }
}
