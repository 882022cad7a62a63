//! The row of the message that follows a result: it has no header of its own turn.
//!
//! Its place identifies it. Its text begins where a token ends the result; or the token that opens or closes
//! reasoning begins it, and ends results that are ordinary text. A format has at most one row of this kind, and others
//! that only write what it reads.

use super::file::File;
use super::rules::{after_last, as_read, is_text, is_text_result, open_suffix};
use super::table::Table;
use super::{Guarantee, ResultsSpec, RowSpec, RowUse, reasoning};
use crate::error::{Checked, wrong};
use crate::message::Role;
use crate::pattern::{Field, Filter, Piece, is_white, walk};

/// The prompts after a result: the plain one, and those with and without reasoning. Empty ones where the message
/// begins with its text.
#[derive(Debug, Default)]
pub(crate) struct AfterToolPrompts {
    pub(crate) plain: Vec<Piece>,
    pub(crate) thinking: [Option<Vec<Piece>>; 2],
}

/// White space and the control token that a row begins with, where it begins with these.
pub(crate) fn lead(pieces: &[Piece]) -> Option<(&[Piece], &Piece)> {
    match pieces {
        [token @ Piece::Control(_), ..] => Some((&[], token)),
        [Piece::Literal(white), token @ Piece::Control(_), ..] if is_white(white) => {
            Some((&pieces[..1], token))
        }
        _ => None,
    }
}

/// The prompts after a result, where rows begin with the tokens of reasoning: each is the end of a generation prompt
/// from such a token on, after the white space that the row has before it.
pub(super) fn prompts(
    rows: &[RowSpec],
    plain: &[Piece],
    thinking: &[Option<Vec<Piece>>; 2],
) -> Checked<AfterToolPrompts> {
    let rows = rows.iter().filter(|row| row.place.is_after_tool());
    let leads: Vec<_> = rows.filter_map(|row| lead(&row.pieces)).collect();
    if leads.is_empty() {
        return Ok(AfterToolPrompts::default());
    }
    let after = |key: &str, prompt: &[Piece]| -> Checked<Vec<Piece>> {
        let own = |piece: &Piece| leads.iter().find(|(_, token)| *token == piece);
        let at = prompt.iter().position(|piece| own(piece).is_some());
        let Some((at, (white, _))) = at.and_then(|at| Some((at, own(&prompt[at])?))) else {
            let problem = "has no token that a row of `after_tool.assistant` begins with, expected one: \
                           the prompt after a result begins there";
            return wrong(key, problem);
        };
        Ok([white, &prompt[at..]].concat())
    };
    let asked = |key: &str, prompt: &Option<Vec<Piece>>| {
        prompt.as_ref().map(|prompt| after(key, prompt)).transpose()
    };
    Ok(AfterToolPrompts {
        plain: after("generation.prompt", plain)?,
        thinking: [
            asked("generation.thinking", &thinking[0])?,
            asked("generation.no_thinking", &thinking[1])?,
        ],
    })
}

/// The use of a row after these rows: the first one after a result is read, and further ones write what it reads.
pub(super) fn place(
    place: RowUse,
    key: &str,
    pieces: &[Piece],
    rows: &[RowSpec],
    file: &File,
) -> Checked<RowUse> {
    let first = rows.iter().find(|row| row.place == RowUse::AfterTool);
    let Some(first) = first.filter(|_| place == RowUse::AfterTool) else { return Ok(place) };
    if reasoning::is_read_by(pieces, &first.pieces, &file.calls.after_content) {
        return Ok(RowUse::WrittenAfterTool);
    }
    let problem =
        "is not read by the first row there, expected one that differs in its reasoning only";
    wrong(key, problem)
}

pub(super) fn check(table: &Table<'_>, results: Option<&ResultsSpec>) -> Checked<()> {
    let mut rows = table.rows.iter().filter(|row| row.place == RowUse::AfterTool);
    let Some(row) = rows.next() else { return Ok(()) };
    if table.guarantee == Guarantee::Text {
        return wrong(
            &row.key,
            "has no header under `guarantee = \"text\"`, expected `guarantee = \"ids\"`",
        );
    }
    let pieces = reasoning::without(&as_read(&row.pieces, false));
    let is_value = |filter: &Filter| filter.is_json();
    if !matches!(pieces.first(), Some(Piece::Field(Field::Content, filter)) if !is_value(filter)) {
        return wrong(
            &row.key,
            "begins with something else, expected `{content}` as text, or reasoning and that",
        );
    }
    let rest = after_last(&pieces, is_text).unwrap_or_else(|| walk(&pieces).collect());
    if !rest.into_iter().any(Piece::is_control) {
        return wrong(&row.key, "is closed by no control token, expected one after its text");
    }
    let text_result = table.rows.iter().find(|row| is_text_result(row, table.guarantee));
    match (lead(&row.pieces), text_result) {
        (Some((white, _)), Some(result)) => {
            let takes_white = matches!(result.pieces.last(), Some(Piece::Space));
            if !white.is_empty() && !takes_white {
                let problem = "begins with white space, which reads as the end of the results before it, expected \
                               `{~}` at the end of `results.close`";
                return wrong(&row.key, problem);
            }
            return Ok(());
        }
        (Some(_), None) => {
            let problem = "begins with a control token after results that have one of their own, expected results \
                           of text alone, or reasoning in a guard";
            return wrong(&row.key, problem);
        }
        (None, _) => {}
    }
    let is_closed = match results {
        Some(ResultsSpec { folded: Some(_), .. }) => false,
        Some(results) if !results.close.is_empty() => {
            results.close.last().is_some_and(Piece::is_control)
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
