//! Control tokens of their own around a message's text, inside the turn: the token that closes the turn comes after
//! them.

use std::ops::Range;

use super::RowSpec;
use super::file::AnswerFile;
use super::patterns::Patterns;
use super::rules::{control_names, is_field};
use super::table::Table;
use crate::error::{Checked, wrong};
use crate::pattern::{Field, Piece, is_white, shown};

/// Control tokens around a text, with the white space beside them.
pub(crate) struct Block<'p> {
    /// The pieces before the text and after it that belong to the block: a token each, and white space.
    around: [Range<usize>; 2],
    pub(super) open: &'p Piece,
    pub(super) close: &'p Piece,
    /// White space on both sides of the text.
    pub(crate) white: [&'p str; 2],
}

impl<'p> Block<'p> {
    fn has_white(&self) -> bool {
        self.white.iter().any(|text| !text.is_empty())
    }

    /// The names of the tokens before and after the text.
    pub(crate) fn tokens(&self) -> Option<[&'p [String]; 2]> {
        Some([control_names(self.open)?, control_names(self.close)?])
    }
}

/// The tokens around a text: one before it that does not open the row, and two after it, with calls between these at
/// most.
pub(crate) fn block(pieces: &[Piece]) -> Option<Block<'_>> {
    let content = pieces.iter().position(|piece| is_field(piece, Field::Content))?;
    let Piece::Field(_, filter) = &pieces[content] else { return None };
    let is_space =
        |at: usize| matches!(pieces.get(at), Some(Piece::Literal(text)) if is_white(text));
    let open = content.checked_sub(1 + usize::from(content > 0 && is_space(content - 1)))?;
    let close = content + 1 + usize::from(is_space(content + 1));
    let is_spaced = close > content + 1 || content > open + 1;
    // White space after the closing token belongs to the block only where the block has white space inside.
    let end = close + 1 + usize::from(is_spaced && is_space(close + 1));
    let [open_piece, close_piece] = [pieces.get(open)?, pieces.get(close)?];
    let are_control = [open_piece, close_piece].iter().all(|it| matches!(it, Piece::Control(_)));
    let calls = matches!(pieces.get(end), Some(Piece::Optional { field: Field::Calls, .. }));
    let closes = matches!(pieces.get(end + usize::from(calls)), Some(Piece::Control(_)));
    if open == 0 || !are_control || !closes || filter.is_json() {
        return None;
    }
    let text = |range: Range<usize>| match pieces.get(range) {
        Some([Piece::Literal(text)]) => text.as_str(),
        _ => "",
    };
    Some(Block {
        around: [open..content, content + 1..end],
        open: open_piece,
        close: close_piece,
        white: [text(open + 1..content), text(content + 1..close)],
    })
}

/// The names of the tokens before and after the text.
pub(crate) fn tokens(pieces: &[Piece]) -> Option<[&[String]; 2]> {
    block(pieces)?.tokens()
}

/// The token before the text, with white space after it.
pub(super) fn open(pieces: &[Piece]) -> Option<&[Piece]> {
    let [open, _] = block(pieces)?.around;
    pieces.get(open)
}

/// Removes the tokens around the text.
pub(super) fn remove(pieces: &mut Vec<Piece>) {
    if let Some([open, close]) = block(pieces).map(|block| block.around) {
        pieces.drain(close);
        pieces.drain(open);
    }
}

/// The tokens that a model may write around its answer though the format does not: one that opens it and one that
/// closes it, which no other pattern has.
pub(super) fn answer(
    file: Option<&AnswerFile>,
    patterns: &Patterns,
) -> Checked<Option<[Piece; 2]>> {
    let Some(file) = file else { return Ok(None) };
    let used = patterns.used();
    let one = |key: &str, text: &str| -> Checked<Piece> {
        let pieces = patterns.pieces(key, text, &[])?;
        let [piece @ Piece::Control(names)] = &pieces[..] else {
            let problem = format!("is {}, expected one control token or marker", shown(&pieces));
            return wrong(key, problem);
        };
        if let Some(name) = names.iter().find(|name| patterns.is_used(name, &used)) {
            let problem = format!("has `{{{name}}}`, expected a token that does nothing else");
            return wrong(key, problem);
        }
        Ok(piece.clone())
    };
    let [open, close] = [one("answer.open", &file.open)?, one("answer.close", &file.close)?];
    if open == close {
        return wrong("answer.close", "is what opens the answer, expected another token");
    }
    Ok(Some([open, close]))
}

/// A row as a reader has it: without a guard of the system text, so that tokens beside the guard are beside the content.
pub(super) fn without_guard(row: &RowSpec) -> Vec<Piece> {
    let is_guard = |piece: &&Piece| matches!(piece, Piece::Optional { field: Field::System, .. });
    row.pieces.iter().filter(|piece| !is_guard(piece)).cloned().collect()
}

/// Checks the white space between a text and the tokens around it.
pub(super) fn check(table: &Table<'_>) -> Checked<()> {
    let all: Vec<Vec<Piece>> = table.rows.iter().map(without_guard).collect();
    let mut beside: Vec<(&[String], &str, [&str; 2])> = Vec::new();
    for (row, pieces) in table.rows.iter().zip(&all) {
        let Some(own) = block(pieces) else { continue };
        if pieces.len() < row.pieces.len() && own.has_white() {
            let problem = "has `{?system…?}` between a token and `{content}` with white space beside it, expected \
                           the content alone between its tokens";
            return wrong(&row.key, problem);
        }
        let Some([open, _]) = own.tokens() else { continue };
        if let Some((_, key, _)) =
            beside.iter().find(|(known, _, white)| *known == open && *white != own.white)
        {
            let problem = format!(
                "has other white space beside `{{content}}` than `{key}`, expected the same in rows with the same tokens"
            );
            return wrong(&row.key, problem);
        }
        beside.push((open, &row.key, own.white));
    }
    Ok(())
}
