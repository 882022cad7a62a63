//! Characters as small numbers, the first symbols of merging.

use super::pairs::{NO_SYMBOL, Symbol};

/// Set in the table of characters where one begins a piece that is matched as a whole.
const BEGINS_WHOLE: u32 = 1 << 31;

const PAGE: usize = 256;

/// The symbols of ASCII characters are their codes.
pub(super) const ASCII: Symbol = 128;

/// Character → symbol in two steps: the page of `c / 256`, then the place in it.
pub(super) struct Symbols {
    page_of: Vec<u16>,
    pages: Vec<[u32; PAGE]>,
    count: Symbol,
}

impl Default for Symbols {
    fn default() -> Self {
        let mut symbols = Self {
            page_of: vec![0; 0x11_0000 / PAGE],
            pages: vec![[NO_SYMBOL; PAGE]; 2],
            count: ASCII,
        };
        symbols.page_of[0] = 1;
        for c in 0..ASCII {
            symbols.pages[1][c as usize] = c;
        }
        symbols
    }
}

impl Symbols {
    /// Number of symbols.
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    /// The symbol of a character; creates one for a new character.
    pub(super) fn add(&mut self, c: char) -> Symbol {
        let known = self.get(c.into());
        if known != NO_SYMBOL {
            return known;
        }
        let new = self.count;
        self.count += 1;
        let slot = self.slot(c);
        *slot = *slot & BEGINS_WHOLE | new;
        new
    }

    /// Records that a piece matched as a whole begins with a character.
    pub(super) fn mark_whole(&mut self, c: char) {
        *self.slot(c) |= BEGINS_WHOLE;
    }

    fn slot(&mut self, c: char) -> &mut u32 {
        let page = &mut self.page_of[c as usize / PAGE];
        if *page == 0 {
            *page = self.pages.len() as u16;
            self.pages.push([NO_SYMBOL; PAGE]);
        }
        &mut self.pages[usize::from(*page)][c as usize % PAGE]
    }

    /// The symbol of a character, [`NO_SYMBOL`] if it has none.
    #[inline(always)]
    pub(super) fn get(&self, c: u32) -> Symbol {
        self.entry(c) & !BEGINS_WHOLE
    }

    /// Whether a piece that is matched as a whole begins with a character.
    #[inline(always)]
    pub(super) fn begins_whole(&self, c: u32) -> bool {
        self.entry(c) & BEGINS_WHOLE != 0
    }

    #[inline(always)]
    fn entry(&self, c: u32) -> u32 {
        let page = self.page_of.get(c as usize / PAGE).copied().unwrap_or(0);
        self.pages[usize::from(page)][c as usize % PAGE]
    }
}
