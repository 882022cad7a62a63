//! Text to ids: byte-pair merging, exact, without control tokens.
//!
//! In: the mergeable tokens of a vocabulary, without control tokens, and text. Out: ids, none of
//! them control. Cost: linear in the text.
//!
//! Two engines differ only in the first step, which splits text into *units* that no merge crosses:
//! [`chars`] splits between characters that no piece contains as neighbours, [`bytes`] follows the
//! vocabulary's pattern. [`pipeline`] turns units into ids: with a cache of recent units, with the
//! vocabulary's known tokens, or with [`merger`].

// The work for each unit is meant to be inlined into one function; the compiler's own limit would
// split it.
#![allow(clippy::inline_always)]

mod boundaries;
mod bytes;
mod cache;
mod chars;
mod heap_merge;
mod interleaved_merge;
mod key;
mod known_tokens;
mod left_over;
mod lookup;
mod merger;
mod pairs;
mod parallel;
mod pipeline;
mod prefetch;
mod products;
mod sections;
mod seen;
mod symbols;
#[cfg(test)]
mod tests;
mod text_cache;
mod unused;

use crate::token::TokenId;
pub(crate) use bytes::{ByteBpe, ByteToken, MergeRules};
pub(crate) use chars::CharBpe;
pub(crate) use pipeline::LONGEST_TEXT;
pub use pipeline::Scratch;
pub(crate) use sections::Sections;

/// How a space is written inside the pieces of a SentencePiece vocabulary.
pub const SPACE_MARK: char = '\u{2581}';

/// How the encoder may use a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceKind {
    /// Made by merges, and used by them.
    Normal,
    /// Matched as a whole before any merge, and never merged with its neighbours.
    Whole,
    /// Matched as a whole, with a difference between a space and its mark.
    Verbatim,
    /// Made and used by merges; split again if it remains at the end.
    Unused,
}

impl PieceKind {
    /// Whether merges never use the piece.
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Self::Whole | Self::Verbatim)
    }
}

/// One piece of text that the encoder may use.
#[derive(Debug, Clone)]
pub(crate) struct Piece<'a> {
    pub(crate) id: TokenId,
    /// The piece as the vocabulary spells it: spaces are [`SPACE_MARK`].
    pub(crate) text: &'a str,
    /// Higher scores merge first; of equal scores the leftmost.
    pub(crate) score: f32,
    pub(crate) kind: PieceKind,
}

/// One merge of a vocabulary that lists its merges, as places in the list of its pieces. It makes the
/// piece with the text of both.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListedMerge {
    pub(crate) left: u32,
    pub(crate) right: u32,
}

/// The character for `c` in the tables: a space and its mark are one character.
fn unmark(c: char) -> char {
    if c == SPACE_MARK { ' ' } else { c }
}

/// The same for a code point.
#[inline(always)]
fn unmark_point(c: u32) -> u32 {
    if c == SPACE_MARK as u32 { ' ' as u32 } else { c }
}

/// Appends a text with a space for each mark.
pub(crate) fn extend_unmarked(out: &mut Vec<u8>, text: &str) {
    for (nth, part) in text.split(SPACE_MARK).enumerate() {
        if nth > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(part.as_bytes());
    }
}
