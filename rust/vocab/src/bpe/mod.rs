//! Text to ids: byte-pair merging, exact, without control tokens.
//!
//! In: the mergeable tokens of a vocabulary (control never gets here, which is why nothing that this
//! module returns can be control) and text. Out: ids. Cost: linear in the text.
//!
//! Two engines share all but their first step, which is to part text into *units* that no merge
//! crosses: [`chars`] cuts between characters that stand side by side in no piece, [`bytes`] follows
//! the vocabulary's pattern. Units go through [`pipeline`]: to ids by a cache of those seen lately, by
//! the tokens that the vocabulary knows, or by [`merger`].

// What is done for every unit of a text is one function in the end; the compiler's own measure parts it.
#![allow(clippy::inline_always)]

mod boundaries;
mod bytes;
mod cache;
mod chars;
mod heap_merge;
mod interleaved_merge;
mod key;
mod known_tokens;
mod lookup;
mod merger;
mod pairs;
mod parallel;
mod pipeline;
mod prefetch;
mod products;
mod symbols;
#[cfg(test)]
mod tests;
mod text_cache;
mod unused;

use crate::token::TokenId;
pub(crate) use bytes::{ByteBpe, ByteToken, MergeRules};
pub(crate) use chars::CharBpe;
pub use pipeline::Scratch;

/// How a space is written inside the pieces of a SentencePiece vocabulary.
pub const SPACE_MARK: char = '\u{2581}';

/// What a piece may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceKind {
    /// Built by merges, and used by them.
    Normal,
    /// Matched as a whole before any merge, and never merged with its neighbours.
    Whole,
    /// The same, but a space and its mark are told apart.
    Verbatim,
    /// Built and used by merges; where one is left over it is taken apart again.
    Unused,
}

impl PieceKind {
    /// Whether merges never meet the piece.
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Self::Whole | Self::Verbatim)
    }
}

/// One piece of text that the encoder may use.
#[derive(Debug, Clone)]
pub(crate) struct Piece<'a> {
    pub(crate) id: TokenId,
    /// The piece as it stands in the vocabulary: spaces are [`SPACE_MARK`].
    pub(crate) text: &'a str,
    /// Higher merges first; of equal scores the leftmost.
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

/// The character that stands for `c` in the tables: a space and its mark are one.
fn unmark(c: char) -> char {
    if c == SPACE_MARK { ' ' } else { c }
}

/// The same of a code point.
#[inline(always)]
fn unmark_point(c: u32) -> u32 {
    if c == SPACE_MARK as u32 { ' ' as u32 } else { c }
}
