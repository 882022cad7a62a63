//! The patterns around consecutive results, and the part of a turn that is read as another row's
//! content.

use super::file::{File, Loss};
use super::patterns::Patterns;
use super::{Folded, ResultsSpec, RowSpec, RowUse, rules};
use crate::error::{Checked, wrong};
use crate::message::Role;
use crate::pattern::{Field, Filter, Piece, shown, walk};

/// The patterns around consecutive results, and the rows that read them: a result with the opening and one
/// without, if a control token begins it; or the row whose text they become.
pub(super) fn results(
    file: &File,
    patterns: &Patterns,
    rows: &mut Vec<RowSpec>,
) -> Checked<Option<ResultsSpec>> {
    let frame = &file.results;
    if frame.open.is_empty() && frame.close.is_empty() {
        if frame.between.is_empty() {
            return Ok(None);
        }
        return wrong(
            "results.between",
            "is given without `results.open` or `results.close`, expected one of them",
        );
    }
    let open = patterns.pieces("results.open", &frame.open, &[])?;
    let between = patterns.pieces("results.between", &frame.between, &[])?;
    let close = patterns.pieces("results.close", &frame.close, &[])?;
    let Some(at) = rows.iter().position(|row| row.role == Role::Tool) else {
        return wrong("results", "is given without a row for results, expected `turn.tool`");
    };
    let item = rows[at].pieces.clone();
    if file.losses.contains(&Loss::Results) {
        let is_text = |piece: &Piece| matches!(piece, Piece::Literal(_) | Piece::Field(..));
        if !item.iter().chain(&between).all(is_text) {
            return wrong(
                "results",
                "has control tokens within what is read as text, expected literals and `{content}` in `turn.tool` and `results.between`",
            );
        }
        let fields: Vec<&Piece> =
            item.iter().filter(|piece| matches!(piece, Piece::Field(..))).collect();
        let is_content = |piece: &&Piece| matches!(piece, Piece::Field(Field::Content, filter) if !filter.is_json());
        if fields.len() != 1 || !fields.iter().all(is_content) {
            return wrong(
                "results",
                "has other fields within what is read as text, expected `{content}` alone in `turn.tool`",
            );
        }
        let whole: Vec<Piece> = [&open[..], &item, &close].concat();
        let read = rows.iter().filter(|row| {
            row.place == RowUse::Both
                && row.role != Role::System
                && !walk(&row.pieces).any(Piece::is_json)
        });
        let folded = read.filter_map(|row| {
            let inside = read_as(&row.pieces, &whole, Field::Content)?;
            let at = inside.iter().position(|piece| matches!(piece, Piece::Field(..)))?;
            // The part of the frame outside the row is read with the results.
            let item_at = item.iter().position(|piece| matches!(piece, Piece::Field(..)))?;
            let (before, after) = (inside.get(..at)?, inside.get(at + 1..)?);
            let before = strip_end(before, item.get(..item_at)?)?;
            let after = strip_start(after, item.get(item_at + 1..)?)?;
            if before.iter().chain(&after).any(Piece::is_control) {
                return None;
            }
            Some(Folded { role: row.role, before, after })
        });
        let found = folded.into_iter().next();
        let is_cut = |found: &Folded| {
            found.before.iter().chain(&found.after).any(|piece| *piece == Piece::Cut)
        };
        if found.as_ref().is_some_and(is_cut) {
            return wrong(
                "results",
                "has `{/}` within what is read as text, expected it beside the control tokens of `results.open`",
            );
        }
        let folded = found.unwrap_or(Folded { role: Role::Tool, before: vec![], after: vec![] });
        if folded.role == Role::Tool {
            let content = [Piece::Field(Field::Content, Filter::None)];
            let (key, pieces) = ("results.open".to_owned(), [&open[..], &content, &close].concat());
            rules::check_row(&key, &pieces)?;
            let (role, place) = (Role::Tool, RowUse::Read);
            rows.push(RowSpec { key, role, name: None, pieces, place });
        }
        return Ok(Some(ResultsSpec { open, between, close, folded: Some(folded) }));
    }
    if let Some(second) = rows[at + 1..].iter().find(|row| row.role == Role::Tool) {
        let problem = "is a second row for results beside `results`, expected one";
        return wrong(&second.key, problem);
    }
    if !item.first().is_some_and(Piece::is_control) {
        let problem = "begins with text, expected a control token, or `losses` with `results`. If one pair of control \
                       tokens holds all results, write the pair in `turn.tool` in place of `results`, and refuse several \
                       by `refuses = [\"several results\"]`";
        return wrong(&rows[at].key, problem);
    }
    rules::check_row(&rows[at].key, &item)?;
    let first: Vec<Piece> = join(&open, &item);
    rules::check_row("results.open", &first)?;
    rows[at].place = RowUse::Both;
    if !open.is_empty() {
        let (role, key) = (Role::Tool, "results.open".to_owned());
        rows.push(RowSpec { key, role, name: None, pieces: first, place: RowUse::Read });
    }
    Ok(Some(ResultsSpec { open, between, close, folded: None }))
}

/// Two patterns as one.
fn join(first: &[Piece], second: &[Piece]) -> Vec<Piece> {
    let mut pieces = first.to_vec();
    let mut second = second.to_vec();
    if let (Some(Piece::Literal(text)), Some(Piece::Literal(more))) =
        (pieces.last_mut(), second.first())
    {
        text.push_str(more);
        second.remove(0);
    }
    pieces.extend(second);
    pieces
}

/// Pieces without a suffix, whose first piece may be the end of a literal.
fn strip_end(pieces: &[Piece], end: &[Piece]) -> Option<Vec<Piece>> {
    let Some((first, rest)) = end.split_first() else { return Some(pieces.to_vec()) };
    let before = pieces.strip_suffix(rest)?;
    match (before.split_last()?, first) {
        ((last, before), first) if last == first => Some(before.to_vec()),
        ((Piece::Literal(last), before), Piece::Literal(first)) => {
            let kept = last.strip_suffix(&**first)?;
            Some(before.iter().cloned().chain([Piece::Literal(kept.to_owned())]).collect())
        }
        _ => None,
    }
}

/// Pieces without a prefix, whose last piece may be the beginning of a literal.
fn strip_start(pieces: &[Piece], start: &[Piece]) -> Option<Vec<Piece>> {
    let Some((last, rest)) = start.split_last() else { return Some(pieces.to_vec()) };
    let after = pieces.strip_prefix(rest)?;
    match (after.split_first()?, last) {
        ((first, after), last) if first == last => Some(after.to_vec()),
        ((Piece::Literal(first), after), Piece::Literal(last)) => {
            let kept = first.strip_prefix(&**last)?;
            Some(
                [Piece::Literal(kept.to_owned())]
                    .into_iter()
                    .chain(after.iter().cloned())
                    .collect(),
            )
        }
        _ => None,
    }
}

/// The content that a row reads of a pattern that differs only in its content, and has a field
/// there.
pub(super) fn read_as(row: &[Piece], pieces: &[Piece], field: Field) -> Option<Vec<Piece>> {
    inside_of(row, pieces).filter(|inside| rules::has_field(inside, field))
}

/// The problem of a turn that no row reads, with a row that would read it.
pub(super) fn unread(turn: &[Piece], rows: &[RowSpec], role: Role) -> String {
    let is_own =
        |row: &&RowSpec| row.role == role && row.name.is_none() && row.place == RowUse::Both;
    let own = rows.iter().find(is_own).map(|row| {
        format!("the beginning and the end of `{}`, which is {}", row.key, shown(&row.pieces))
    });
    // A row with the header of another would be read as that row.
    let is_other = |row: &Vec<Piece>| {
        let mut heads = rows.iter().map(|other| rules::head(&other.pieces));
        role == Role::System && heads.all(|head| head != rules::head(row))
    };
    let named = reader_of(turn).filter(is_other).map(|row| {
        let table = if own.is_some() { "[named.NAME]" } else { "[turn]" };
        format!("`{table}` with `system = {}`", shown(&row))
    });
    let expected: Vec<String> = own.into_iter().chain(named).collect();
    let expected = if expected.is_empty() {
        "a row with these control tokens and `{content}`".to_owned()
    } else {
        expected.join(", or a row of its own: ")
    };
    format!("is read back by no row; expected {expected}")
}

/// A row that reads a turn: its header, `{content}` and the token at its end.
fn reader_of(turn: &[Piece]) -> Option<Vec<Piece>> {
    let mut row = Vec::new();
    let mut pieces = turn.iter().peekable();
    while let Some(piece) = pieces.next() {
        match piece {
            Piece::Control(_) => row.push(piece.clone()),
            Piece::Literal(text)
                if text.starts_with('\n') || text.contains('\n') && row.len() == 1 =>
            {
                let line = text.split_inclusive('\n').next().unwrap_or_default();
                row.push(Piece::Literal(line.to_owned()));
                break;
            }
            Piece::Literal(text)
                if !text.contains('\n')
                    && pieces.peek().is_some_and(|piece| piece.is_control()) =>
            {
                row.push(piece.clone());
            }
            _ => break,
        }
    }
    if row.is_empty() {
        return None;
    }
    row.push(Piece::Field(Field::Content, Filter::None));
    let end = turn.iter().rposition(Piece::is_control);
    row.extend_from_slice(end.filter(|&end| end > 0).map_or(&[], |end| &turn[end..]));
    inside_of(&row, turn).map(|_| row)
}

/// The content that a row reads of a pattern that differs only in its content.
pub(super) fn inside_of(row: &[Piece], pieces: &[Piece]) -> Option<Vec<Piece>> {
    let at = row.iter().position(|piece| matches!(piece, Piece::Field(Field::Content, _)))?;
    let (head, tail) = (&row[..at], &row[at + 1..]);
    strip_end(&strip_start(pieces, head)?, tail)
}
