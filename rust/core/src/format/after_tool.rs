//! The row of the message that follows a result: it has no header, so its text begins where the result ends.
//!
//! Its place alone identifies it. So a token must end the turn before it, and a format has at most
//! one row of this kind.

use super::rules::{after_last, control_names, is_text, open_suffix};
use super::table::{Reads, Table};
use super::{Guarantee, ResultsSpec, RowUse, reasoning};
use crate::error::{Checked, wrong};
use crate::message::Role;
use crate::pattern::{Field, Filter, Piece, walk};

pub(super) fn check(
    table: &Table<'_>,
    reads: &Reads,
    results: Option<&ResultsSpec>,
) -> Checked<()> {
    let mut rows = table.rows.iter().filter(|row| row.place == RowUse::AfterTool);
    let Some(row) = rows.next() else { return Ok(()) };
    if let Some(second) = rows.next() {
        return wrong(&second.key, "is a second row, expected one row at most");
    }
    if table.guarantee == Guarantee::Text {
        return wrong(
            &row.key,
            "has no header under `guarantee = \"text\"`, expected `guarantee = \"ids\"`",
        );
    }
    let pieces = reasoning::without(&row.pieces);
    let is_value = |filter: &Filter| filter.is_json();
    if !matches!(pieces.first(), Some(Piece::Field(Field::Content, filter)) if !is_value(filter)) {
        return wrong(
            &row.key,
            "begins with something else, expected `{content}` as text, or reasoning and that",
        );
    }
    let rest = after_last(&pieces, is_text).unwrap_or_else(|| walk(&pieces).collect());
    let closers: Vec<&String> = rest.into_iter().filter_map(control_names).flatten().collect();
    if closers.is_empty() {
        return wrong(&row.key, "is closed by no control token, expected one after its text");
    }
    let openers = reads.all().filter_map(|read| walk(&read.pieces).find_map(control_names));
    if openers.flatten().any(|name| closers.contains(&name)) {
        return wrong(
            &row.key,
            "is closed by a token that opens a turn or a call, expected a token that opens none",
        );
    }
    let is_closed = match results {
        Some(ResultsSpec { folded: Some(_), .. }) => false,
        Some(results) if !results.close.is_empty() => {
            matches!(results.close.last(), Some(Piece::Control(_)))
        }
        _ => {
            let tools = || table.rows.iter().filter(|row| row.role == Role::Tool);
            tools().next().is_some() && tools().all(|row| open_suffix(&row.pieces).is_none())
        }
    };
    if !is_closed {
        return wrong(
            &row.key,
            "follows results that no control token ends, expected one in `turn.tool` or `results.close`",
        );
    }
    Ok(())
}
