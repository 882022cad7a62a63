//! Control tokens of their own around a message's text, inside the turn: the token that closes the turn comes after
//! them.

use super::rules::{control_names, is_field};
use super::table::{Reads, Table};
use super::{ListSpec, reasoning};
use crate::error::{Checked, wrong};
use crate::pattern::{Field, Piece, walk};

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
