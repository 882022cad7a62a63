//! Characters and pieces as small numbers that merges work on.
//!
//! A symbol is a piece that merges may make, or a single character that occurs in one. A character
//! that is no piece itself still has a symbol: two of them may make a piece.

use hashbrown::HashMap;

use super::{Piece, PieceKind, unmark};
use crate::vocab::TokenId;

/// A number for a piece or a character.
pub(super) type Symbol = u32;

/// The symbol of a character that occurs in no piece: it never merges.
pub(super) const NO_SYMBOL: Symbol = u32::MAX >> 1;

/// Set in the table of characters where one begins a piece that is matched as a whole.
const BEGINS_WHOLE: u32 = 1 << 31;

const NO_ID: TokenId = -1;
const UNUSED: TokenId = -2;
const PAGE: usize = 256;

/// What the table of characters says of one: its symbol, and whether a piece that is matched as a
/// whole begins with it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry(u32);

impl Entry {
    #[inline]
    pub(super) fn symbol(self) -> Symbol {
        self.0 & !BEGINS_WHOLE
    }

    #[inline]
    pub(super) fn begins_whole(self) -> bool {
        self.0 & BEGINS_WHOLE != 0
    }
}

pub(super) struct Symbols {
    /// Per symbol its id, or why it has none.
    ids: Vec<TokenId>,
    /// Per symbol its length in characters.
    lengths: Vec<u32>,
    /// Character → symbol in two steps: the page of `c / 256`, then the place in it.
    page_of: Vec<u16>,
    pages: Vec<[Symbol; PAGE]>,
}

impl Symbols {
    pub(super) fn new(pieces: &[Piece<'_>]) -> Self {
        let mut symbols = Self {
            ids: Vec::with_capacity(pieces.len()),
            lengths: Vec::with_capacity(pieces.len()),
            page_of: vec![0; 0x11_0000 / PAGE],
            pages: vec![[NO_SYMBOL; PAGE]],
        };
        for piece in pieces {
            let mut chars = piece.text.chars();
            let only = match (chars.next(), chars.next()) {
                (Some(c), None) => Some(unmark(c)),
                _ => None,
            };
            let id = match piece.kind {
                PieceKind::Normal => piece.id,
                // Left over as a single character, an unused piece falls back to bytes.
                PieceKind::Unused if only.is_some() => NO_ID,
                PieceKind::Unused => UNUSED,
                // Matched before merging, so no merge ever meets it.
                PieceKind::Whole | PieceKind::Verbatim => NO_ID,
            };
            let symbol = symbols.add(id, piece.text.chars().count());
            if let Some(c) = only
                && !piece.kind.is_whole()
            {
                *symbols.slot(c) = symbol;
            }
        }
        for piece in mergeable(pieces) {
            for c in piece.text.chars().map(unmark) {
                if symbols.of_char(c) == NO_SYMBOL {
                    let symbol = symbols.add(NO_ID, 1);
                    *symbols.slot(c) = symbol;
                }
            }
        }
        for piece in pieces.iter().filter(|piece| piece.kind.is_whole()) {
            if let Some(c) = piece.text.chars().next() {
                *symbols.slot(unmark(c)) |= BEGINS_WHOLE;
            }
        }
        symbols
    }

    fn add(&mut self, id: TokenId, length: usize) -> Symbol {
        self.ids.push(id);
        self.lengths.push(length as u32);
        self.ids.len() as Symbol - 1
    }

    fn slot(&mut self, c: char) -> &mut Symbol {
        let page = &mut self.page_of[c as usize / PAGE];
        if *page == 0 {
            *page = self.pages.len() as u16;
            self.pages.push([NO_SYMBOL; PAGE]);
        }
        &mut self.pages[usize::from(*page)][c as usize % PAGE]
    }

    #[inline]
    pub(super) fn entry(&self, c: char) -> Entry {
        Entry(self.pages[usize::from(self.page_of[c as usize / PAGE])][c as usize % PAGE])
    }

    #[inline]
    pub(super) fn of_char(&self, c: char) -> Symbol {
        self.entry(c).symbol()
    }

    /// The id of a symbol, unless it is a mere character or an unused piece.
    #[inline]
    pub(super) fn id(&self, symbol: Symbol) -> Option<TokenId> {
        self.ids.get(symbol as usize).copied().filter(|&id| id >= 0)
    }

    pub(super) fn is_unused(&self, symbol: Symbol) -> bool {
        self.ids.get(symbol as usize) == Some(&UNUSED)
    }

    /// The byte at which `text`, spelled by `left` and what follows it, leaves `left`.
    pub(super) fn split_at(&self, text: &str, left: Symbol) -> usize {
        let length = self.lengths.get(left as usize).map_or(1, |&length| length as usize);
        text.char_indices().nth(length).map_or(text.len(), |(at, _)| at)
    }

    /// Symbols by text, spaces unmarked: every mergeable piece, and every character of one.
    pub(super) fn by_text(&self, pieces: &[Piece<'_>]) -> HashMap<String, Symbol> {
        let mut by_text = HashMap::with_capacity(pieces.len() * 2);
        for (symbol, piece) in pieces.iter().enumerate() {
            if !piece.kind.is_whole() {
                by_text.insert(piece.text.chars().map(unmark).collect(), symbol as Symbol);
            }
        }
        for piece in mergeable(pieces) {
            for c in piece.text.chars().map(unmark) {
                by_text.entry_ref(c.encode_utf8(&mut [0; 4]) as &str).or_insert(self.of_char(c));
            }
        }
        by_text
    }
}

/// The pieces that merges make: of two characters or more, and not matched as a whole.
pub(super) fn mergeable<'a>(pieces: &'a [Piece<'a>]) -> impl Iterator<Item = &'a Piece<'a>> {
    pieces.iter().filter(|piece| !piece.kind.is_whole() && piece.text.chars().nth(1).is_some())
}
