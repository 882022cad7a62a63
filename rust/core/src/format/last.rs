//! Rows that are tried after all other rows and after calls: rows with a word where others have a literal,
//! and rows that are only read.

use super::ambiguity::meets;
use super::calls::{self, Reserved};
use super::rules;
use super::table::Table;
use super::{CallSpec, ListSpec, RowSpec, RowUse};
use crate::message::Role;
use crate::pattern::{Field, FieldContent, Filter, Piece, walk};

/// Whether a word comes first in a row, after the token that opens it.
pub(crate) fn is_word_first(pieces: &[Piece]) -> bool {
    matches!(pieces, [Piece::Control(_), Piece::Field(field, _), ..]
        if field.holds() == FieldContent::Word)
}

/// Whether a row after another one of its role and name is never written: it reads more than can be
/// written, or the other one fits whenever it does.
pub(super) fn is_only_read(pieces: &[Piece], before: &[Piece]) -> bool {
    let content = |pieces: &[Piece]| {
        walk(pieces).find_map(|piece| match piece {
            &Piece::Field(Field::Content, filter) => Some(filter),
            _ => None,
        })
    };
    let is_kept = |filter: Option<Filter>| filter.is_some_and(|filter| !filter.is_json());
    let is_same = fields(pieces) == fields(before)
        && is_kept(content(before))
        && content(pieces) == content(before);
    pieces.first().is_some_and(Piece::is_control) && (is_same || pieces.contains(&Piece::Rest))
}

/// The fields that a message must have for a row, and those that it may have.
fn fields(pieces: &[Piece]) -> [u32; 2] {
    let bits = |pieces: &[Piece]| {
        walk(pieces).fold(0, |bits, piece| match piece {
            Piece::Field(field, _) => bits | field.bit(),
            _ => bits,
        })
    };
    pieces.iter().fold([0, 0], |[required, optional], piece| match piece {
        Piece::Optional { pieces, .. } => [required, optional | bits(pieces)],
        Piece::Field(field, _) => [required | field.bit(), optional],
        _ => [required, optional],
    })
}

/// Words that a row cannot begin with, because other rows begin with them.
pub(crate) fn reserved(
    row: &RowSpec,
    rows: &[RowSpec],
    calls: &[CallSpec],
    list: Option<&ListSpec>,
) -> Vec<Reserved> {
    if !is_word_first(&row.pieces) {
        return Vec::new();
    }
    let items = calls.iter().flat_map(|call| &call.items);
    let items = items.flat_map(|item| calls::items_as_read(item, list));
    let is_other = |other: &&RowSpec| {
        let is_tried_before = other.place.is_read() && other.place != RowUse::Last;
        is_tried_before && !std::ptr::eq(*other, row) && !rules::is_calls_only(&other.pieces)
    };
    let is_taken = |other: &&RowSpec| {
        // A beginning of the assistant's turn belongs to no other role.
        other.role == Role::Assistant
            || row.place != RowUse::Last && meets(&row.pieces, &other.pieces)
    };
    let rows = rows.iter().filter(is_other).filter(is_taken).map(|other| other.pieces.clone());
    let mut reserved: Vec<Reserved> = Vec::new();
    for other in items.map(|(item, _)| item).chain(rows) {
        let word = calls::reserved(&row.pieces, &other);
        reserved.extend(word.filter(|word| !reserved.contains(word)));
    }
    reserved
}

/// Whether the common input of two patterns belongs to one alone, because the other excludes its
/// word.
pub(super) fn is_apart(row: &[Piece], other: &[Piece]) -> bool {
    is_word_first(row) && !is_word_first(other) && calls::reserved(row, other).is_some()
}

/// Whether a row of this key is only read.
pub(super) fn is_last(key: &str, table: &Table<'_>) -> bool {
    table.rows.iter().any(|row| row.place == RowUse::Last && row.key == key)
}

/// The rows that are tried before calls and may read a call.
pub(crate) fn rows_before_calls<'r>(
    rows: &'r [RowSpec],
    item: &'r [Piece],
) -> impl Iterator<Item = &'r Vec<Piece>> {
    let is_first = |row: &&RowSpec| {
        row.place.is_read()
            && row.place != RowUse::Last
            && !rules::is_calls_only(&row.pieces)
            && !is_word_first(&row.pieces)
    };
    rows.iter().filter(is_first).map(|row| &row.pieces).filter(|row| meets(item, row))
}
