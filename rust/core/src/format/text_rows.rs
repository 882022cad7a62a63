//! Rows that begin with text: their places, the end of the element before them, and that no other row's text is
//! read as their beginning.

use hashbrown::HashSet;

use super::after_tool::lead;
use super::file::{Order, SystemPlace};
use super::rules::{
    after_last, as_read, begins_with_text, control_names, head, is_calls, is_calls_only, is_text,
    is_text_result, open_suffix,
};
use super::table::Table;
use super::{Guarantee, RowSpec, RowUse, ToolsSpec, reasoning};
use crate::error::{Checked, wrong};
use crate::message::Role;
use crate::pattern::{Piece, is_white, walk};

pub(super) fn check(table: &Table<'_>) -> Checked<()> {
    let rows = text_rows(table)?;
    if table.guarantee == Guarantee::Ids {
        check_places(table, &rows)?;
    }
    check_bare_calls(table)?;
    check_open_calls(table, &rows)?;
    let read = |row: &&RowSpec| !is_calls_only(&row.pieces) && row.place.is_read();
    for row in table.rows.iter().filter(read) {
        check_before(row, table, &rows)?;
    }
    Ok(())
}

/// The rows that begin with text, except a system message at the beginning.
fn text_rows<'t>(table: &Table<'t>) -> Checked<Vec<&'t RowSpec>> {
    let mut text_rows: Vec<&RowSpec> = Vec::new();
    for row in table.rows {
        if is_calls_only(&row.pieces) || !begins_with_text(&row.pieces) || !row.place.is_read() {
            continue;
        }
        let is_first = is_bare_first(row, table);
        let is_answer = row.role == Role::Assistant && table.order == Order::Alternate;
        if is_first {
            let is_taken = |other: &&RowSpec| {
                other.role == Role::User && other.place.is_read() && head(&other.pieces).is_empty()
            };
            if head(&row.pieces).is_empty()
                && let Some(user) = table.rows.iter().find(is_taken)
            {
                let problem = format!("can be read as `{}`, expected text before one", user.key);
                return wrong(&row.key, problem);
            }
            continue;
        }
        let read = as_read(&row.pieces, table.folds_system);
        if table.guarantee == Guarantee::Ids && !is_answer && !begins_with_literal(&read) {
            let problem = "begins with a field or a guard; expected a control token or text before it, such as the role's name";
            return wrong(&row.key, problem);
        }
        // A system message of text may precede it, and would become its text.
        let is_system = |other: &&RowSpec| other.role == Role::System;
        let is_alone = table.order == Order::Alternate && !text_rows.iter().any(is_system);
        if !is_alone && !begins_with_literal(&read) {
            let problem = "begins with a field or a guard, expected text before it, or `order` of \
                           `alternate`";
            return wrong(&row.key, problem);
        }
        if is_white_only(&read) {
            let problem = "has nothing but white space around its text, expected a control token or \
                           text that ends it";
            return wrong(&row.key, problem);
        }
        let same = text_rows.iter().find(|other| {
            head(&other.pieces).is_empty() && head(&row.pieces).is_empty() && other.role == row.role
        });
        if let Some(other) = same {
            let problem = format!(
                "can be read as `{}`; expected other text before the text of one of them",
                other.key
            );
            return wrong(&row.key, problem);
        }
        text_rows.push(row);
    }
    Ok(text_rows)
}

/// Under `guarantee = "ids"`, rows that begin with text of their own are apart from all else that may begin with text.
fn check_places(table: &Table<'_>, text_rows: &[&RowSpec]) -> Checked<()> {
    let is_own = |row: &&&RowSpec| begins_with_literal(&as_read(&row.pieces, table.folds_system));
    // Results of text follow an assistant's message, and a token ends them: a system text that comes first is never
    // beside them.
    let is_result = |row: &&&RowSpec| is_text_result(row, table.guarantee);
    let has_others = text_rows.iter().filter(is_own).any(|row| !is_result(&row));
    let Some(own) = text_rows.iter().find(is_own) else { return Ok(()) };
    let is_other = |row: &&RowSpec| {
        let is_read = row.place.is_read() || row.place == RowUse::AfterTool;
        let pieces = as_read(&row.pieces, table.folds_system);
        let is_apart = is_bare_first(row, table)
            || row.place == RowUse::AfterTool && lead(&row.pieces).is_some();
        is_read
            && (has_others || !is_apart)
            && !is_calls_only(&row.pieces)
            && begins_with_text(&pieces)
            && !begins_with_literal(&pieces)
    };
    if let Some(other) = table.rows.iter().find(is_other) {
        let problem = format!(
            "begins with any text, which may be that of `{}`, expected a control token or text of its own",
            own.key
        );
        return wrong(&other.key, problem);
    }
    Ok(())
}

/// Whether only white space surrounds a text.
fn is_white_only(pieces: &[Piece]) -> bool {
    let mut parts = walk(pieces)
        .filter(|piece| matches!(piece, Piece::Literal(_)) || control_names(piece).is_some())
        .peekable();
    parts.peek().is_some() && parts.all(Piece::is_space)
}

/// Checks that a token closes calls, if text may follow.
fn check_open_calls(table: &Table<'_>, text_rows: &[&RowSpec]) -> Checked<()> {
    let after_answer =
        |next: &&&RowSpec| table.order == Order::Free || next.role != Role::Assistant;
    let is_open = |row: &&RowSpec| {
        after_last(&row.pieces, is_calls)
            .is_some_and(|rest| rest.into_iter().all(|piece| control_names(piece).is_none()))
    };
    if text_rows.iter().any(|next| after_answer(&next))
        && let Some(row) = table.rows.iter().find(is_open)
    {
        let problem = "has calls and is closed by no control token, expected one, as what follows it \
                       may begin with text";
        return wrong(&row.key, problem);
    }
    Ok(())
}

/// A row without a closing token ends where a row of text begins.
fn check_before(row: &RowSpec, table: &Table<'_>, text_rows: &[&RowSpec]) -> Checked<()> {
    let read = reasoning::without(&as_read(&row.pieces, table.folds_system));
    let texts = walk(&read).filter(|piece| is_text(piece)).count();
    if texts > 1 && table.guarantee == Guarantee::Ids {
        let problem = "has two fields for text, expected one as `guarantee` is `ids`";
        return wrong(&row.key, problem);
    }
    let Some(suffix) = open_suffix(&read) else { return Ok(()) };
    let is_cut = |next: &&&RowSpec| next.pieces.first() == Some(&Piece::Cut);
    if (suffix.is_empty() || suffix.ends_with(|c: char| c.is_ascii_whitespace()))
        && let Some(next) = text_rows.iter().find(is_cut)
    {
        let problem = format!(
            "begins with `{{/}}` and so maybe with a space, which reads as the end of `{}`, expected \
                 other text there, or no `{{/}}`",
            row.key
        );
        return wrong(&next.key, problem);
    }
    let next: Vec<&&RowSpec> = text_rows
        .iter()
        .filter(|next| row.role == Role::Assistant || !is_text_result(next, table.guarantee))
        .filter(|next| table.order == Order::Free || next.role != row.role)
        .filter(|next| {
            table.order == Order::Free || row.role != Role::System || next.role == Role::User
        })
        .collect();
    if next.is_empty() {
        return Ok(());
    }
    if table.guarantee == Guarantee::Ids {
        return wrong(
            &row.key,
            "is closed by no control token; expected one at its end, as what follows it may begin with text and would be \
             its text",
        );
    }
    if is_white(&suffix)
        && next.iter().any(|next| !begins_with_literal(&as_read(&next.pieces, table.folds_system)))
    {
        return wrong(
            &row.key,
            "is closed by white space or nothing, expected text, as what follows it may begin with a field \
                 or white space",
        );
    }
    Ok(())
}

/// Whether a row is that of a system message which is first because nothing marks it.
pub(super) fn is_bare_first(row: &RowSpec, table: &Table<'_>) -> bool {
    let is_marked = table.guarantee == Guarantee::Ids
        && begins_with_literal(&as_read(&row.pieces, table.folds_system));
    row.role == Role::System && table.system == SystemPlace::First && !is_marked
}

/// Whether a row begins with text that is more than white space.
fn begins_with_literal(pieces: &[Piece]) -> bool {
    let is_first = |piece: &&Piece| **piece != Piece::Cut && !piece.is_space();
    matches!(pieces.iter().find(is_first), Some(Piece::Literal(_)))
}

/// Checks that calls without a row's opener follow turns that a token closes, or begin with a token that opens the
/// assistant's turn.
fn check_bare_calls(table: &Table<'_>) -> Checked<()> {
    let mut rows = table.rows.iter().filter(|row| row.place.is_read());
    let open = |row: &&RowSpec| row.role != Role::Assistant && open_suffix(&row.pieces).is_some();
    let Some(open) = rows.find(open) else { return Ok(()) };
    let answers = table.rows.iter().filter(|row| row.role == Role::Assistant);
    let opener = |pieces: &'_ [Piece]| walk(pieces).find_map(control_names).map(<[String]>::to_vec);
    let openers: HashSet<String> =
        answers.filter_map(|row| opener(&row.pieces)).flatten().collect();
    let items = table.calls.iter().flat_map(|call| &call.items);
    let is_own = |item: &Vec<Piece>| {
        opener(item).is_some_and(|names| names.iter().any(|name| openers.contains(name)))
    };
    if table.list.is_none() && items.clone().all(is_own) {
        return Ok(());
    }
    let Some(row) = table.rows.iter().find(|row| is_calls_only(&row.pieces)) else { return Ok(()) };
    let problem = format!(
        "begins with calls, which no token tells from the text of `{}`, expected one that closes that",
        open.key
    );
    wrong(&row.key, problem)
}

/// Checks that the text around a turn's tools is not the beginning of a turn of text.
pub(super) fn check_tools(table: &Table<'_>, tools: Option<&ToolsSpec>) -> Checked<()> {
    if table.guarantee == Guarantee::Ids {
        return Ok(());
    }
    let turns = || tools.into_iter().flat_map(ToolsSpec::turns).map(|turn| &turn.pieces);
    let rows = table.rows.iter().filter(|row| begins_with_text(&row.pieces));
    let heads = rows.filter_map(|row| match head(&row.pieces).first()? {
        Piece::Literal(text) if !is_white(text) => Some((row, text.trim())),
        _ => None,
    });
    for (row, begins) in heads {
        let holds = |piece: &Piece| matches!(piece, Piece::Literal(text) if text.contains(begins));
        let is_within = |pieces: &Vec<Piece>| {
            walk(pieces).skip(head(pieces).len()).any(holds)
                || walk(pieces).position(holds).is_some_and(|at| at > 0)
        };
        if turns().any(is_within) {
            let problem = format!("has {begins:?} in its text, with which `{}` begins", row.key);
            return wrong("turn.tools", problem);
        }
    }
    Ok(())
}
