//! One message in several turns: reasoning, and text beside calls, are in *frames* before the answer or
//! the calls. Calls are turns themselves, or stand in a row of the assistant's.
//!
//! ```text
//! <|begin|>assistant<|think|>Hm.<|end|>            frame.reasoning
//! <|begin|>assistant<|content|>Yes.<|end|>         turn.assistant
//! ```
//!
//! For reading, the frames and the answer are separate rows with one text each. For writing, they are
//! joined here: the frames for the parts of the message, then the answer or the calls.

use super::file::{File, OneOrMany};
use super::patterns::Patterns;
use super::{RowSpec, RowUse, rules};
use crate::error::{Checked, wrong};
use crate::message::Role;
use crate::pattern::{Field, Filter, Piece, walk};

/// Adds the rows of a file's frames, and replaces the assistant's own rows by the joined ones.
pub(super) fn frames(file: &File, patterns: &Patterns, rows: &mut Vec<RowSpec>) -> Checked<()> {
    let Some(frame) = &file.frame else { return Ok(()) };
    let reasoning = read("reasoning", Field::Reasoning, frame.reasoning.as_ref(), patterns)?;
    let content = read("content", Field::Content, frame.content.as_ref(), patterns)?;
    let is_own = |row: &&RowSpec| row.role == Role::Assistant;
    for row in rows.iter().filter(is_own) {
        if rules::has_field(&row.pieces, Field::Reasoning) {
            let problem =
                "has `{reasoning}`, expected `{content}` or `{calls}`, as `frame` is given";
            return wrong(&row.key, problem);
        }
        if !is_closed(&row.pieces) {
            return wrong(
                &row.key,
                "is closed by no control token, expected one after its text, as `frame` is given",
            );
        }
    }
    let written = |row: &RowSpec, place: RowUse| {
        let thought = optional(Field::Reasoning, &reasoning).into_iter();
        let pieces = thought.chain(row.pieces.clone()).collect();
        RowSpec { key: row.key.clone(), role: row.role, name: None, pieces, place }
    };
    let has_calls = |row: &&RowSpec| rules::has_field(&row.pieces, Field::Calls);
    let is_written = |row: &&RowSpec| is_own(row) && row.place == RowUse::Both;
    let answer = rows.iter().filter(is_written).find(|row| !has_calls(row));
    let calling = rows.iter().filter(is_written).find(has_calls);
    let last = rows.iter().filter(|row| row.place == RowUse::WrittenLast);
    let mut all = answer.into_iter().chain(calling).chain(last.clone());
    if let Some(row) = all.find(|row| !is_writable(&row.pieces)) {
        return wrong(&row.key, NOT_WRITABLE);
    }
    let mut made: Vec<RowSpec> =
        answer.into_iter().map(|row| written(row, RowUse::Written)).collect();
    made.extend(last.map(|row| written(row, RowUse::WrittenLast)));
    if let Some(row) = calling {
        made.push(written(row, RowUse::Written));
    } else if !file.call.is_empty() {
        let thought = optional(Field::Reasoning, &reasoning);
        let before = thought.into_iter().chain(optional(Field::Content, &content));
        let pieces = before.chain([Piece::Field(Field::Calls, Filter::None)]).collect();
        let (key, role, place) = ("frame".to_owned(), Role::Assistant, RowUse::Written);
        made.push(RowSpec { key, role, name: None, pieces, place });
    }
    rows.retain(|row| !is_own(&row) || row.place == RowUse::Both);
    for row in rows.iter_mut().filter(|row| row.role == Role::Assistant) {
        row.place = RowUse::Read;
    }
    rows.extend(made);
    for (field, frames) in [(Field::Reasoning, reasoning), (Field::Content, content)] {
        for pieces in frames {
            let key = format!("frame.{}", field.name());
            let pieces = pieces.into_iter().map(as_content).collect::<Vec<_>>();
            rules::check_row(&key, &pieces)?;
            let (role, place) = (Role::Assistant, RowUse::Frame(field));
            rows.push(RowSpec { key, role, name: None, pieces, place });
        }
    }
    Ok(())
}

/// The patterns of a frame. The first is written, all are read.
fn read(
    name: &str,
    field: Field,
    texts: Option<&OneOrMany>,
    patterns: &Patterns,
) -> Checked<Vec<Vec<Piece>>> {
    let key = format!("frame.{name}");
    let mut frames = Vec::new();
    for text in texts.cloned().map(OneOrMany::into_vec).unwrap_or_default() {
        let pieces = patterns.pieces(&key, &text, &[field, Field::Channel, Field::Type])?;
        if !rules::has_field(&pieces, field) {
            return wrong(key, format!("has no field for its text, expected `{{{name}}}`"));
        }
        if !is_closed(&pieces) {
            return wrong(key, "is closed by no control token, expected one after its text");
        }
        let is_json =
            |piece: &Piece| matches!(piece, Piece::Field(_, Filter::Value | Filter::String));
        if walk(&pieces).any(is_json) {
            let problem = format!("writes its text as JSON, expected `{{{name}}}`");
            return wrong(key, problem);
        }
        frames.push(pieces);
    }
    if frames.first().is_some_and(|written| !is_writable(written)) {
        return wrong(key, NOT_WRITABLE);
    }
    Ok(frames)
}

/// The problem of a written pattern that is not [`is_writable`].
pub(super) const NOT_WRITABLE: &str =
    "is written, and has a `{channel}` or `{type}` that no message has, expected it in a guard";

/// Whether a pattern can be written: words that no message has are optional.
pub(super) fn is_writable(pieces: &[Piece]) -> bool {
    !pieces.iter().any(|piece| matches!(piece, Piece::Field(field, _) if field.is_silent()))
}

fn is_closed(pieces: &[Piece]) -> bool {
    let rest = rules::after_last(pieces, rules::is_text);
    let mut rest = rest.unwrap_or_else(|| walk(pieces).collect()).into_iter();
    rest.any(Piece::is_control)
}

/// The written frame, if the message has its part.
fn optional(field: Field, frames: &[Vec<Piece>]) -> Option<Piece> {
    let pieces = frames.first().filter(|pieces| !pieces.is_empty())?.clone();
    Some(Piece::Optional { field, pieces })
}

/// A frame is read as a row of one text.
fn as_content(piece: Piece) -> Piece {
    match piece {
        Piece::Field(Field::Reasoning, filter) => Piece::Field(Field::Content, filter),
        Piece::Optional { field, pieces } => {
            Piece::Optional { field, pieces: pieces.into_iter().map(as_content).collect() }
        }
        piece => piece,
    }
}
