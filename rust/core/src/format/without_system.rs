//! The turn of a conversation that begins without a system message: the format's own text, with the day if a caller
//! gives one.

use std::borrow::Cow;

use super::file::File;
use super::patterns::Patterns;
use super::preamble::check_optional;
use super::{FixedTurn, Guarantee, RowSpec, RowUse, results, rules};
use crate::error::{Checked, wrong};
use crate::message::Role;
use crate::pattern::{Field, Filter, Piece, walk};
use crate::template::Clock;

const KEY: &str = "turn.without_system";

/// The turn, and another one where tools are given.
pub(crate) struct WithoutSystem {
    plain: FixedTurn,
    with_tools: Option<FixedTurn>,
}

impl WithoutSystem {
    /// The turn of a conversation with tools or without.
    pub(crate) fn turn(&self, tools: bool) -> &FixedTurn {
        self.with_tools.as_ref().filter(|_| tools).unwrap_or(&self.plain)
    }

    /// The turn without tools, and the one with tools, if it is another.
    pub(crate) fn turns(&self) -> impl Iterator<Item = &FixedTurn> {
        [&self.plain].into_iter().chain(&self.with_tools)
    }

    fn filters(&self) -> impl Iterator<Item = Filter> {
        let pieces = self.turns().flat_map(|turn| walk(&turn.pieces));
        pieces.filter_map(|piece| match piece {
            Piece::Field(Field::Date, filter) => Some(*filter),
            _ => None,
        })
    }

    /// Whether its text has control tokens, which are read as their spellings.
    pub(crate) fn has_control(&self) -> bool {
        let mut pieces = self.turns().flat_map(|turn| walk(&turn.inside));
        pieces.any(Piece::is_control)
    }

    /// Whether it holds the date.
    pub(crate) fn has_date(&self) -> bool {
        self.filters().next().is_some()
    }

    /// Whether it spells the date out, so that the date must be a day.
    pub(crate) fn spells_day(&self) -> bool {
        self.filters().any(|filter| filter.day_form().is_some())
    }
}

/// A date or another word as a filter writes it.
pub(crate) fn word_as_written(word: &str, filter: Filter) -> Cow<'_, str> {
    if filter == Filter::Capital {
        let mut rest = word.chars();
        let first = rest.next().map(|c| c.to_ascii_uppercase());
        return first.into_iter().chain(rest).collect::<String>().into();
    }
    let day = filter.day_form().and_then(|form| Clock::parse_day(word)?.format(form));
    day.map_or(Cow::Borrowed(word), Cow::Owned)
}

pub(super) fn without_system(
    file: &File,
    patterns: &Patterns,
    rows: &[RowSpec],
) -> Checked<Option<WithoutSystem>> {
    let Some(texts) = file.turn.without_system.clone() else { return Ok(None) };
    if file.default_system.is_some() {
        return wrong(KEY, "is given together with `default_system`, expected one of them");
    }
    if file.guarantee == Guarantee::Text {
        return wrong(KEY, "is given with `guarantee` of `text`, expected `default_system` there");
    }
    let texts = texts.into_vec();
    let turns: Vec<FixedTurn> =
        texts.iter().map(|text| turn(text, patterns, rows)).collect::<Checked<_>>()?;
    let count = turns.len();
    let mut turns = turns.into_iter();
    let (Some(plain), with_tools, None) = (turns.next(), turns.next(), turns.next()) else {
        return wrong(
            KEY,
            format!("has {count} patterns, expected one, or two: the second with tools"),
        );
    };
    if with_tools.is_some() && file.turn.tools.is_none() {
        return wrong(KEY, "has a second pattern without `turn.tools`, expected one pattern");
    }
    Ok(Some(WithoutSystem { plain, with_tools }))
}

fn turn(text: &str, patterns: &Patterns, rows: &[RowSpec]) -> Checked<FixedTurn> {
    let pieces = patterns.pieces(KEY, text, &[Field::Date])?;
    check_optional(KEY, &pieces, None)?;
    rules::check_pieces(KEY, &pieces)?;
    if !pieces.first().is_some_and(Piece::is_control) {
        return wrong(KEY, "begins with text, expected a control token");
    }
    let readers = rows.iter().filter(|row| row.role == Role::System && row.place == RowUse::Both);
    let read = readers.filter_map(|row| Some((row, results::inside_of(&row.pieces, &pieces)?)));
    // A row of a name reads less than the row without a name.
    let Some((row, inside)) = read.max_by_key(|(row, _)| row.name.is_some()) else {
        return wrong(KEY, results::unread(&pieces, rows, Role::System));
    };
    let filter = walk(&row.pieces).find_map(|piece| match piece {
        Piece::Field(Field::Content, filter) => Some(*filter),
        _ => None,
    });
    if inside.is_empty() {
        return wrong(KEY, format!("has no text for `{}`, expected some", row.key));
    }
    // `{content:trim}` reads `  a{TOKEN} b` without the spaces at the beginning: those beside tokens stay.
    for (piece, [before, after]) in [(inside.first(), ["", "x"]), (inside.last(), ["x", ""])] {
        let trims = |text: &str| {
            let text = format!("{before}{text}{after}");
            filter.unwrap_or_default().trim(&text) != text
        };
        match piece {
            Some(Piece::Optional { .. }) => {
                return wrong(
                    KEY,
                    "has a guard at an end of its text, expected a literal or a token there",
                );
            }
            Some(Piece::Literal(text)) if trims(text) => {
                let problem = format!(
                    "has white space at an end of its text, which `{}` trims, expected none",
                    row.key
                );
                return wrong(KEY, problem);
            }
            _ => {}
        }
    }
    rules::check_reads_text(KEY, row)?;
    let name = row.name.clone();
    Ok(FixedTurn { pieces, name, inside })
}
