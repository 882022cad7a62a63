//! White space between turns: after the token that closes one, and before the token that opens the
//! next.
//!
//! A reader treats it as scaffolding. This requires that a token closed the previous turn, and that no turn may
//! begin with it: it would become part of an unclosed turn, or of a turn that begins with text.

use super::rules::{after_last, as_read, begins_with_text, is_calls, is_calls_only, open_suffix};
use super::table::Table;
use super::text_rows::is_bare_first;
use super::{
    BeginSpec, Guarantee, ListForm, ResultsSpec, RowSpec, RowUse, SystemPlace, ToolsPlace,
    ToolsSpec, WithoutSystem,
};
use crate::error::{Checked, wrong};
use crate::message::Role;
use crate::pattern::{FieldContent, Piece, is_white, walk};

/// An element of a conversation: a turn, or the frame around several.
struct Unit {
    key: String,
    /// The role of the turn; `None` for the end of a conversation.
    role: Option<Role>,
    /// Whether white space precedes its first control token.
    before: bool,
    /// Whether the row after a result may follow it.
    is_answered: bool,
    /// Whether it may come between any turns.
    is_anywhere: bool,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Only the next element closes it, or it ends in text.
    Open,
    /// It is closed, and white space may follow.
    Closed { white: bool },
}

/// The patterns beside the rows.
pub(super) struct Beside<'a> {
    pub(super) tools: Option<&'a ToolsSpec>,
    pub(super) results: Option<&'a ResultsSpec>,
    pub(super) begin_turn: Option<&'a BeginSpec>,
    pub(super) without_system: Option<&'a WithoutSystem>,
    /// What begins a conversation, and what ends it.
    pub(super) begin: &'a [Piece],
    pub(super) end: &'a [Piece],
}

impl<'a> Beside<'a> {
    /// The patterns before and after turns, each with its key.
    pub(super) fn frames(&self) -> impl Iterator<Item = (&'static str, &'a [Piece])> {
        let results = self.results.filter(|results| results.folded.is_none());
        let results = results.into_iter().flat_map(|results| {
            [("results.between", &results.between[..]), ("results.close", &results.close[..])]
        });
        [("begin", self.begin), ("end", self.end)].into_iter().chain(results)
    }

    /// The text of the format's own turns.
    pub(super) fn insides(&self) -> impl Iterator<Item = (&'static str, Vec<&'a Piece>)> {
        let begin = self.begin_turn.map(|turn| ("turn.begin", &turn.inside));
        let tools = self.tools.into_iter().flat_map(ToolsSpec::turns);
        let tools = tools.map(|turn| ("turn.tools", &turn.inside));
        let without = self.without_system.into_iter().flat_map(WithoutSystem::turns);
        let without = without.map(|turn| ("turn.without_system", &turn.inside));
        let turns = begin.into_iter().chain(tools).chain(without);
        let declared = self.tools.into_iter().flat_map(|tools| &tools.declaration.tokens);
        let declared = ("tools.declare", declared.map(|token| &token.piece).collect());
        turns.map(|(key, inside)| (key, walk(inside).collect())).chain([declared])
    }
}

pub(super) fn check(table: &Table<'_>, beside: &Beside<'_>) -> Checked<()> {
    check_code(table)?;
    let units = units(table, beside);
    check_first(table, beside, &units)?;
    table.work.count("turn", units.len() * units.len())?;
    check_prompt(table, &units)?;
    for unit in &units {
        let next = || units.iter().filter(|next| next.before && may_follow(table, unit, next));
        match unit.end {
            End::Open => {
                if let Some(next) = next().next() {
                    let problem = format!(
                        "begins with white space, which reads as the end of `{}`, whose last part is text; \
                         expected the white space there, or a control token",
                        unit.key
                    );
                    return wrong(&next.key, problem);
                }
            }
            End::Closed { white } => {
                let spaced = if white { Some(unit) } else { next().next() };
                let Some((spaced, row)) = spaced.zip(taking(table, unit)) else { continue };
                let problem = format!(
                    "has white space before or after its control tokens, which reads as the beginning of \
                     `{}`; expected none",
                    row.key
                );
                return wrong(&spaced.key, problem);
            }
        }
    }
    Ok(())
}

/// A prompt that ends before the token that opens the assistant's turn has no effect: the model writes the token
/// where a reader expects it, after a closed turn.
fn check_prompt(table: &Table<'_>, units: &[Unit]) -> Checked<()> {
    let is_own = |row: &&RowSpec| row.role == Role::Assistant && row.place.is_read();
    let mut rows = table.rows.iter().filter(is_own);
    let has_token = table.prompt.iter().any(Piece::is_control);
    if has_token || rows.any(|row| begins_with_text(&row.pieces)) {
        return Ok(());
    }
    let is_open = |unit: &Unit| match unit.role {
        Some(Role::Assistant) => unit.before,
        Some(role) => unit.end == End::Open && may_come(table, role, Role::Assistant),
        None => false,
    };
    if table.prompt.is_empty() && !units.iter().any(is_open) {
        return Ok(());
    }
    wrong(
        "generation.prompt",
        "stops before the token that opens the assistant's turn, expected that token in it",
    )
}

/// Code without a closing token ends where something else begins: no text may precede that.
fn check_code(table: &Table<'_>) -> Checked<()> {
    let written = table.calls.iter().filter(|call| call.body.is_code());
    let open =
        written.filter(|call| call.items.first().is_some_and(|item| open_suffix(item).is_some()));
    let Some(open) = open.into_iter().next() else { return Ok(()) };
    let is_text = |pieces: &[Piece]| matches!(pieces.first(), Some(Piece::Literal(_)));
    let refuse = |key: &str| {
        let problem = format!(
            "has text after calls, which reads as the end of `call.{}.item`, expected a control token at \
             the end of that item",
            open.kind
        );
        wrong(key, problem)
    };
    // In formats whose calls begin with text, no call follows code.
    if let Some(list) = table.list.filter(|list| list.form == ListForm::Tokens) {
        for (key, pieces) in
            [("calls.between", &list.between[..]), ("calls.close", list.first_close())]
        {
            if is_text(pieces) {
                return refuse(key);
            }
        }
    }
    for row in table.rows {
        let rest = after_last(&row.pieces, is_calls);
        if rest.is_some_and(|rest| matches!(rest.first(), Some(Piece::Literal(_)))) {
            return refuse(&row.key);
        }
    }
    Ok(())
}

/// A system text without a marker is read only at the beginning, and ends where a marker begins.
fn check_first(table: &Table<'_>, beside: &Beside<'_>, units: &[Unit]) -> Checked<()> {
    let is_bare = |row: &&RowSpec| {
        is_bare_first(row, table) && row.place.is_read() && begins_with_text(&row.pieces)
    };
    let Some(bare) = table.rows.iter().find(is_bare) else { return Ok(()) };
    let is_inside = |unit: &Unit| matches!(&*unit.key, "results.between" | "results.close");
    let may_be_first = |unit: &&Unit| {
        let follows = |role| table.order.follows(None, role);
        unit.before && !is_inside(unit) && unit.role.is_some_and(follows)
    };
    if let Some(first) = units.iter().find(may_be_first).filter(|_| takes_white(&bare.pieces)) {
        let problem = format!(
            "begins with white space, which reads as `{}` at the start of a conversation, expected no white space there",
            bare.key
        );
        return wrong(&first.key, problem);
    }
    if beside.begin_turn.is_some() {
        let problem = format!(
            "stands before `{}`, which begins with text, expected a control token there",
            bare.key
        );
        return wrong("turn.begin", problem);
    }
    let Some(tools) = beside.tools else { return Ok(()) };
    // In the system message's place, tools come first as that does.
    if tools.place != ToolsPlace::System && tools.turns().any(|turn| begins_with_text(&turn.pieces))
    {
        let problem = format!(
            "begins with text, which reads as a part of `{}`, expected a control token",
            bare.key
        );
        return wrong("turn.tools", problem);
    }
    if matches!(tools.place, ToolsPlace::First | ToolsPlace::BeforeBegin) {
        let is_first = tools.place == ToolsPlace::First;
        let place = if is_first { "first" } else { "before_begin" };
        let problem = format!(
            "is `{place}`, before `{}`, which begins with text, expected a control token there, or \
             another place",
            bare.key
        );
        return wrong("place.tools", problem);
    }
    Ok(())
}

fn units(table: &Table<'_>, beside: &Beside<'_>) -> Vec<Unit> {
    // A token closes all results, or each result separately.
    let closes = beside.results.map_or(&[][..], |results| &results.close);
    let is_closed = closes.iter().any(Piece::is_control);
    let unit = |key: &str, role, pieces: &[Piece]| Unit {
        key: key.to_owned(),
        role,
        before: begins_with_white(pieces),
        is_answered: role == Some(Role::Tool) && !is_closed,
        is_anywhere: key == "turn.tools"
            && beside.tools.is_some_and(|tools| {
                matches!(tools.place, ToolsPlace::FirstUser | ToolsPlace::LastUser)
            }),
        end: end(table, role, pieces),
    };
    let folded = beside.results.and_then(|results| results.folded.as_ref());
    let is_own = |row: &&RowSpec| {
        let is_in_text = folded.is_some() && row.role == Role::Tool;
        !matches!(row.place, RowUse::Last) && !is_in_text
    };
    let rows = table.rows.iter().filter(is_own);
    let of_row = |row: &RowSpec| {
        let unit = unit(&row.key, Some(row.role), &row.pieces);
        // White space before a row after results belongs to these.
        Unit { before: unit.before && !row.place.is_after_tool(), ..unit }
    };
    let mut units: Vec<Unit> = rows.map(of_row).collect();
    if let Some(results) = beside.results {
        let role = Some(folded.map_or(Role::Tool, |folded| folded.role));
        // White space between results is not part of their text.
        let frame = |key: &str, pieces: &[Piece]| Unit {
            key: key.to_owned(),
            role,
            before: begins_with_white(pieces) || is_all_white(pieces),
            is_answered: key == "results.close" || !is_closed,
            is_anywhere: false,
            // The opening of results is read with the first result.
            end: End::Closed { white: key != "results.open" && ends_in_white(pieces) },
        };
        if folded.is_some() {
            let end = End::Closed { white: ends_in_white(&results.close) };
            let end = if is_closed { end } else { End::Open };
            let before = begins_with_white(&results.open);
            let (key, is_answered) = ("results".to_owned(), false);
            units.push(Unit { key, role, before, is_answered, is_anywhere: false, end });
        } else {
            for (key, pieces) in [
                ("results.open", &results.open),
                ("results.between", &results.between),
                ("results.close", &results.close),
            ] {
                units.extend((!pieces.is_empty()).then(|| frame(key, pieces)));
            }
        }
    }
    let turns = beside.tools.iter().flat_map(|tools| {
        let role = Some(tools.holds.unwrap_or(Role::System));
        tools.turns().map(move |turn| (turn, role))
    });
    units.extend(turns.map(|(turn, role)| unit("turn.tools", role, &turn.pieces)));
    let begin = beside.begin_turn;
    units.extend(begin.map(|turn| unit("turn.begin", Some(Role::System), &turn.pieces)));
    let turns = beside.without_system.into_iter().flat_map(WithoutSystem::turns);
    units.extend(turns.map(|turn| unit("turn.without_system", Some(Role::System), &turn.pieces)));
    let before = begins_with_white(beside.end) || is_all_white(beside.end);
    let end = End::Closed { white: false };
    let (key, role, is_answered) = ("end".to_owned(), None, false);
    units.push(Unit { key, role, before, is_answered, is_anywhere: false, end });
    units
}

/// Whether white space stands before the first control token.
fn begins_with_white(pieces: &[Piece]) -> bool {
    matches!(pieces, [first, Piece::Control(_), ..] if first.is_space())
}

fn is_all_white(pieces: &[Piece]) -> bool {
    !pieces.is_empty() && pieces.iter().all(Piece::is_space)
}

fn ends_in_white(pieces: &[Piece]) -> bool {
    walk(pieces).last().is_some_and(Piece::is_space)
}

fn end(table: &Table<'_>, role: Option<Role>, pieces: &[Piece]) -> End {
    let Some(suffix) = open_suffix(&as_read(pieces, table.folds_system)) else {
        // White space that follows a literal is read as a part of the literal, which the format does not have.
        let is_text = |piece: &Piece| matches!(piece, Piece::Literal(text) if !is_white(text));
        if walk(pieces).last().is_some_and(is_text) {
            return End::Open;
        }
        return End::Closed { white: ends_in_white(pieces) };
    };
    // If text may follow, a literal ends it.
    let is_text_format = table.guarantee == Guarantee::Text;
    let is_looked_for = |row: &RowSpec| table.order.follows(role, row.role);
    let is_ended =
        is_text_format && !is_white(&suffix) && text_rows(table, role, false).any(is_looked_for);
    if is_ended { End::Closed { white: false } } else { End::Open }
}

/// Whether a turn may directly follow another.
fn may_follow(table: &Table<'_>, unit: &Unit, next: &Unit) -> bool {
    if matches!(&*unit.key, "results.open" | "results.between") {
        // A result begins with a control token.
        return false;
    }
    if matches!(&*next.key, "results.between" | "results.close") {
        return unit.role == Some(Role::Tool) && unit.key != "results.close";
    }
    if next.is_anywhere {
        return true;
    }
    match (unit.role, next.role) {
        (Some(last), Some(next)) => may_come(table, last, next),
        _ => unit.role.is_some(),
    }
}

fn may_come(table: &Table<'_>, last: Role, next: Role) -> bool {
    if next == Role::System {
        return table.system == SystemPlace::Own || last == Role::System;
    }
    // Any role may precede a system message in the middle.
    last == Role::System && table.system == SystemPlace::Own
        || table.order.follows(Some(last), next)
}

/// The rows that begin with text and may follow a turn.
fn text_rows<'t>(
    table: &'t Table<'_>,
    last: Option<Role>,
    is_answered: bool,
) -> impl Iterator<Item = &'t RowSpec> {
    table.rows.iter().filter(move |row| {
        let is_answer = row.place == RowUse::AfterTool && is_answered;
        let is_first = is_bare_first(row, table);
        let may_come = last.is_some_and(|last| may_come(table, last, row.role));
        let is_read = row.place.is_read() && !is_calls_only(&row.pieces) && !is_first && may_come;
        (is_answer || is_read) && begins_with_text(&row.pieces)
    })
}

/// The row that would read white space after a turn as its own beginning.
fn taking<'t>(table: &'t Table<'_>, unit: &Unit) -> Option<&'t RowSpec> {
    text_rows(table, unit.role, unit.is_answered).find(|row| takes_white(&row.pieces))
}

/// Whether a row that begins with text may begin with white space.
fn takes_white(pieces: &[Piece]) -> bool {
    match pieces.iter().find(|piece| **piece != Piece::Cut) {
        Some(Piece::Literal(text)) => text.starts_with(|c: char| c.is_ascii_whitespace()),
        Some(Piece::Field(field, _)) => field.holds() != FieldContent::Word,
        _ => true,
    }
}
