//! Units of vocabularies with unused pieces. Merges make and use unused pieces; one that remains at
//! the end is split again.
//!
//! SentencePiece splits an unused piece into the two symbols of its last proposal, which depends on
//! the whole text and on merges that are never made. So these vocabularies are encoded without
//! splits and without a cache, and their table has every pair that makes a piece.

use hashbrown::HashMap;

use super::heap_merge::{Agenda, NO_RANK};
use super::merger::{NO_ID, Token};
use super::pairs::Symbol;
use super::{Piece, PieceKind, unmark};
use crate::error::{Error, Result};
use crate::token::TokenId;

/// Limit of pairs. Real vocabularies have some hundred thousand; a hostile file could have many
/// more.
const MAX_MERGES: usize = 4 << 20;

/// The id of an unused piece.
const UNUSED: TokenId = -2;

/// The symbol of a character that occurs in no piece.
const NO_SYMBOL: Symbol = Symbol::MAX;

/// The tables of merging with unused pieces.
pub(super) struct Unused {
    chars: HashMap<char, Symbol>,
    /// Rank and product of every pair that makes a piece.
    merges: HashMap<(Symbol, Symbol), (u32, Symbol)>,
    /// The id of each symbol, and its length in characters.
    symbols: Vec<(TokenId, u32)>,
}

impl Unused {
    pub(super) fn new(pieces: &[Piece<'_>], rank: impl Fn(&Piece<'_>) -> u32) -> Result<Self> {
        let mut table = Self { chars: HashMap::new(), merges: HashMap::new(), symbols: Vec::new() };
        let mut by_text: HashMap<String, Symbol> = HashMap::new();
        let merging = || pieces.iter().filter(|piece| !piece.kind.is_whole());
        for piece in merging() {
            let text: String = piece.text.chars().map(unmark).collect();
            let length = text.chars().count() as u32;
            let id = match piece.kind {
                PieceKind::Unused if length > 1 => UNUSED,
                // An unused piece of a single character that remains falls back to bytes.
                PieceKind::Unused => NO_ID,
                _ => piece.id,
            };
            let symbol = table.symbols.len() as Symbol;
            table.symbols.push((id, length));
            if let (1, Some(c)) = (length, text.chars().next()) {
                table.chars.insert(c, symbol);
            }
            by_text.insert(text, symbol);
        }
        for c in merging().flat_map(|piece| piece.text.chars().map(unmark)) {
            let symbol = *table.chars.entry(c).or_insert_with(|| {
                table.symbols.push((NO_ID, 1));
                table.symbols.len() as Symbol - 1
            });
            by_text.entry_ref(c.encode_utf8(&mut [0; 4]) as &str).or_insert(symbol);
        }
        for piece in merging() {
            let text: String = piece.text.chars().map(unmark).collect();
            let Some(&product) = by_text.get(text.as_str()) else { continue };
            for (at, _) in text.char_indices().skip(1) {
                let (left, right) = text.split_at(at);
                if let (Some(&left), Some(&right)) = (by_text.get(left), by_text.get(right)) {
                    table.merges.insert((left, right), (rank(piece), product));
                }
            }
            if table.merges.len() > MAX_MERGES {
                let problem = format!("make over {MAX_MERGES} merges, more than is read");
                return Err(Error::new("pieces", problem));
            }
        }
        Ok(table)
    }

    /// Appends the ids of a text in which no piece is matched as a whole.
    pub(super) fn encode(&self, text: &str, bytes: &[TokenId; 256], ids: &mut Vec<TokenId>) {
        let symbol = |c| self.chars.get(&unmark(c)).copied().unwrap_or(NO_SYMBOL);
        let symbols: Vec<Symbol> = text.chars().map(symbol).collect();
        // The two symbols of each unused piece's last proposal.
        let mut proposed: HashMap<Symbol, (Symbol, Symbol)> = HashMap::new();
        let mut tokens: Vec<Token> = Vec::new();
        Agenda::default().merge(&symbols, 0, &mut tokens, |left, right| {
            let merge = self.merges.get(&(left, right)).copied().unwrap_or((NO_RANK, 0));
            if merge.0 != NO_RANK && self.id(merge.1) == UNUSED {
                proposed.insert(merge.1, (left, right));
            }
            merge
        });
        let mut rest = text;
        for token in tokens {
            let (text, after) = rest.split_at(self.split_at(rest, token.symbol));
            rest = after;
            // Splits an unused piece into the symbols of its last proposal, recursively.
            let mut parts = vec![(token.symbol, text)];
            while let Some((symbol, text)) = parts.pop() {
                let id = self.id(symbol);
                if id >= 0 {
                    ids.push(id);
                } else if let Some(&(left, right)) = proposed.get(&symbol) {
                    let split = self.split_at(text, left);
                    parts.push((right, &text[split..]));
                    parts.push((left, &text[..split]));
                } else {
                    ids.extend(text.bytes().map(|byte| bytes[usize::from(byte)]));
                }
            }
        }
    }

    /// Every merge as the ids of left, right and product; `None` where a symbol has no id.
    pub(super) fn merge_ids(&self) -> impl Iterator<Item = [Option<TokenId>; 3]> + '_ {
        let id = |symbol| Some(self.id(symbol)).filter(|&id| id >= 0);
        self.merges
            .iter()
            .map(move |(&(left, right), &(_, product))| [left, right, product].map(id))
    }

    fn id(&self, symbol: Symbol) -> TokenId {
        self.symbols.get(symbol as usize).map_or(NO_ID, |&(id, _)| id)
    }

    /// The byte at which `text`, spelled by `left` and what follows it, leaves `left`.
    fn split_at(&self, text: &str, left: Symbol) -> usize {
        let length = self.symbols.get(left as usize).map_or(1, |&(_, length)| length as usize);
        text.char_indices().nth(length).map_or(text.len(), |(at, _)| at)
    }
}
