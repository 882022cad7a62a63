//! Control tokens of their own around a message's text, inside the turn: the token that closes the turn comes after
//! them.

use super::file::AnswerFile;
use super::patterns::Patterns;
use super::rules::{control_names, is_field};
use super::table::{Reads, Table};
use super::{ListSpec, reasoning};
use crate::error::{Checked, wrong};
use crate::pattern::{Field, Piece, shown, walk};

/// The place of the text between its tokens: a control token before it that does not open the row, and two after it, with
/// calls between these at most.
fn place(pieces: &[Piece]) -> Option<usize> {
    let at = pieces.iter().position(|piece| is_field(piece, Field::Content))?;
    let [Piece::Control(_), Piece::Field(_, filter), Piece::Control(_), rest @ ..] =
        pieces.get(at.checked_sub(1)?..)?
    else {
        return None;
    };
    let has_calls = matches!(rest, [Piece::Optional { field: Field::Calls, .. }, ..]);
    let rest = &rest[usize::from(has_calls)..];
    if !matches!(rest, [Piece::Control(_), ..]) {
        return None;
    }
    (at > 1 && !filter.is_json()).then_some(at)
}

/// The names of the tokens before and after the text.
pub(crate) fn tokens(pieces: &[Piece]) -> Option<[&[String]; 2]> {
    let at = place(pieces)?;
    Some([control_names(pieces.get(at - 1)?)?, control_names(pieces.get(at + 1)?)?])
}

/// The token before the text.
pub(super) fn open(pieces: &[Piece]) -> Option<&Piece> {
    pieces.get(place(pieces)?.checked_sub(1)?)
}

/// Removes the tokens around the text.
pub(super) fn remove(pieces: &mut Vec<Piece>) {
    if let Some(at) = place(pieces) {
        pieces.remove(at + 1);
        pieces.remove(at - 1);
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

/// Checks that the tokens around a text do nothing else.
pub(super) fn check(table: &Table<'_>, reads: &Reads) -> Checked<()> {
    let names = |piece| control_names(piece).unwrap_or_default();
    let thoughts = table.rows.iter().filter_map(|row| reasoning::pieces_of(&row.pieces));
    let thoughts = thoughts.flat_map(|around| [around.open, around.close]);
    let list = table.list.into_iter().flat_map(ListSpec::pieces);
    let others = reads.all().flat_map(|read| walk(&read.pieces)).chain(thoughts).chain(list);
    let others: Vec<&String> = others.flat_map(names).chain(table.stop).collect();
    for row in table.rows {
        let Some([open, close]) = tokens(&row.pieces) else { continue };
        if let Some(name) = open.iter().chain(close).find(|name| others.contains(name)) {
            let problem = format!(
                "has `{{{name}}}` beside `{{content}}`, expected a token that does nothing else where another \
                 token closes the turn"
            );
            return wrong(&row.key, problem);
        }
        if let Some(name) = open.iter().find(|name| close.contains(name)) {
            let problem = format!(
                "has `{{{name}}}` on both sides of `{{content}}`, expected a token for each"
            );
            return wrong(&row.key, problem);
        }
    }
    Ok(())
}
