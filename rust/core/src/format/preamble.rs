//! The first turn of every conversation: the format's own text, with words that a caller may set.

use super::file::File;
use super::patterns::Patterns;
use super::{RowSpec, RowUse, results};
use crate::error::{Checked, wrong};
use crate::message::Role;
use crate::pattern::{Field, Filter, Piece, walk};
use crate::word::is_word;

/// The turn, and the row that reads it back.
pub(crate) struct BeginSpec {
    pub(crate) pieces: Vec<Piece>,
    /// The text that the reading row takes as its content.
    pub(crate) inside: Vec<Piece>,
    /// The name of that row: a conversation that begins with a message of this name has its own
    /// first turn.
    pub(crate) name: String,
    /// The words for the reasoning effort; the first is the default.
    pub(crate) efforts: Vec<String>,
}

impl BeginSpec {
    /// Whether its text has control tokens, which are read as their spellings.
    pub(super) fn has_control(&self) -> bool {
        walk(&self.inside).any(|piece| matches!(piece, Piece::Control(_)))
    }
}

/// The text of the format's own turn, if it has one.
pub(super) fn inside(turn: Option<&BeginSpec>) -> &[Piece] {
    turn.map_or(&[], |turn| &turn.inside)
}

pub(super) fn begin(
    file: &File,
    patterns: &Patterns,
    rows: &[RowSpec],
) -> Checked<Option<BeginSpec>> {
    let efforts = file.options.effort.clone();
    let Some(text) = &file.turn.begin else {
        if efforts.is_empty() {
            return Ok(None);
        }
        return wrong("options.effort", "has no place, expected `{effort}` in `turn.begin`");
    };
    let key = "turn.begin";
    let pieces = patterns.pieces(key, text, &[Field::Date, Field::Effort, Field::Tools])?;
    let has_effort = walk(&pieces).any(|piece| *piece == Piece::Field(Field::Effort, Filter::None));
    if has_effort == efforts.is_empty() {
        let problem = "and `{effort}` in `turn.begin` belong together, expected both or neither";
        return wrong("options.effort", problem);
    }
    if let Some(word) = efforts.iter().find(|word| !is_word(word)) {
        let problem = format!("has the word {word:?}, expected letters, digits and `_.:-` only");
        return wrong("options.effort", problem);
    }
    check_optional(key, &pieces, None)?;
    let named = rows.iter().filter(|row| row.role == Role::System && row.place == RowUse::Both);
    let mut named = named.filter_map(|row| Some((row.name.clone()?, &row.pieces)));
    let found = named.find_map(|(name, row)| Some((name, results::inside_of(row, &pieces)?)));
    let Some((name, inside)) = found else {
        let problem =
            "is read back by no row, expected a row `named.X.system` that differs in the text only";
        return wrong(key, problem);
    };
    if walk(&inside).any(|piece| !is_plain(piece)) {
        return wrong(
            key,
            "has more than literals, words and control tokens in its text, expected no `{~}` or `{/}` there",
        );
    }
    Ok(Some(BeginSpec { pieces, inside, name, efforts }))
}

fn is_plain(piece: &Piece) -> bool {
    matches!(
        piece,
        Piece::Literal(_) | Piece::Control(_) | Piece::Field(..) | Piece::Optional { .. }
    )
}

/// Checks that an optional field has an optional part of its own; the part of `tools` is written if there are
/// tools. `around` is the field of the part around the pieces.
pub(super) fn check_optional(key: &str, pieces: &[Piece], around: Option<Field>) -> Checked<()> {
    for piece in pieces {
        match piece {
            Piece::Optional { field: Field::Effort, .. } => {
                return wrong(
                    key,
                    "has a guard of `effort`, which is always given, expected `{effort}` by itself",
                );
            }
            Piece::Optional { field, pieces } => check_optional(key, pieces, Some(*field))?,
            Piece::Field(Field::Tools, _) => {
                return wrong(key, "has `{tools}`, expected only a guard `{?tools:…?}`");
            }
            Piece::Field(Field::Date, _) if around != Some(Field::Date) => {
                return wrong(key, "has `{date}` by itself, expected `{?date:…{date}…?}`");
            }
            _ => {}
        }
    }
    Ok(())
}
