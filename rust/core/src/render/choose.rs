//! The row that writes a message.
//!
//! In: a message and where it is located in its conversation. Out: the first row of the table that fits and the
//! fields that the row writes, or an error about the field that has no place. Cost: a few bit operations a row.

use super::{Renderer, Turn};
use crate::error::{Error, MessagePart, Result};
use crate::format::{LastWhen, RowUse};
use crate::grammar::Row;
use crate::message::Role;
use crate::pattern::{self, Field, Filter, Piece};

impl<'a> Renderer<'a> {
    /// Whether the rows `last.assistant` write a message.
    fn is_of_last_rows(&self, turn: &Turn<'_>) -> bool {
        match self.format.last_when() {
            LastWhen::End => turn.is_last,
            LastWhen::Reasoning => turn.is_last || turn.reasons,
            LastWhen::NoThinking => self.options.thinking == Some(false),
        }
    }

    /// Whether a message is the default system message.
    fn is_default(&self, turn: &Turn<'_>) -> bool {
        self.format.default_system().is_some_and(|default| {
            self.vocab.normalise(&turn.message.content) == self.vocab.normalise(default)
        })
    }

    /// The row that fits and the fields of the message, or the fields without a place.
    pub(super) fn row(&self, turn: &Turn<'_>) -> Result<(&'a Row, u32)> {
        let message = turn.message;
        let role = message.role;
        let named = message.name.as_ref().filter(|name| self.format.is_named(name, role));
        let candidates = || {
            let is_own = |row: &&Row| {
                row.role == role
                    && row.name.as_ref() == named
                    && row.place.is_after_tool() == turn.after_result
                    && (row.place != RowUse::WrittenLast || self.is_of_last_rows(turn))
                    && (row.place != RowUse::WrittenDefault || self.is_default(turn))
            };
            let order = self.grammar.write_order.iter();
            order.map(|&row| &self.grammar.rows[row]).filter(is_own)
        };
        let fitting = |blank: Blank, counted: u32| {
            candidates()
                .map(|row| (row, present(turn, row, blank)))
                .find(|(row, present)| row.places.fit(present | counted))
        };
        // If no row fits, missing content counts as empty text. If still no row fits, a text of white
        // space alone counts as missing where it has no place.
        let fitting =
            |blank: Blank| fitting(blank, 0).or_else(|| fitting(blank, Field::Content.bit()));
        let fitting = || fitting(Blank::IsText).or_else(|| fitting(Blank::IsNone));
        let answers = message.call_id.is_some() && role != Role::Tool;
        let row = fitting().filter(|_| !answers);
        let problem = |field: &str, problem: String| {
            Err(Error::message(format!("messages[{}].{field}", turn.index), problem))
        };
        match row {
            Some((row, present)) if begins_with_calls(row, present) && turn.joins(row) => {
                let text = "alone after an assistant's message would read as part of it";
                return problem("tool_calls", text.to_owned());
            }
            // Without a caller's message there may be tools in its place.
            Some((row, present))
                if turn.index >= 0
                    && present & Field::Content.bit() == 0
                    && writes_nothing(row, present) =>
            {
                let path = format!("messages[{}].content", turn.index);
                let text = "is empty, and nothing else would be written".to_owned();
                return Err(turn.unplaced(path, text, MessagePart::Whole));
            }
            Some(found) => return Ok(found),
            None => {}
        }
        let placed: u32 = candidates().fold(0, |all, row| all | row.places.allowed);
        let has = |field: Field| placed & field.bit() != 0;
        let (role_name, format) = (role.name(), self.format.described());
        if has(Field::Id) && message.call_id.is_none() {
            let text = format!("is missing, and {format} writes it");
            return problem("tool_call_id", text);
        }
        if message.name.is_none()
            && has(Field::Name)
            && candidates().all(|row| row.places.required & Field::Name.bit() != 0)
        {
            let text = format!("is missing, and {format} writes it");
            return problem("name", text);
        }
        // The fields without a place in the nearest row.
        let unplaced = candidates().map(|row| unplaced(turn, row)).min_by_key(|it| it.count_ones());
        let unplaced = unplaced.unwrap_or_default();
        let has_content = !is_blank(&message.content);
        let reasons = turn.reasoning().is_some_and(|reasoning| !is_blank(reasoning));
        let (culprit, part) = if reasons && !has(Field::Reasoning) {
            ("reasoning", MessagePart::Reasoning)
        } else if answers {
            ("tool_call_id", MessagePart::CallId)
        } else if !message.calls.is_empty() && !has(Field::Calls) {
            ("tool_calls", MessagePart::Calls)
        } else if message.name.is_some() && named.is_none() && !has(Field::Name) {
            ("name", MessagePart::Name)
        } else if unplaced & Field::Reasoning.bit() != 0 {
            ("reasoning", MessagePart::Reasoning)
        } else if !message.calls.is_empty() && has_content {
            let text = format!("stand beside content, which {format} has no place for");
            let path = format!("messages[{}].tool_calls", turn.index);
            return Err(turn.unplaced(path, text, MessagePart::Content));
        } else {
            ("content", MessagePart::Content)
        };
        let part = if candidates().next().is_none() { MessagePart::Whole } else { part };
        let article = if role == Role::Assistant { "an" } else { "a" };
        let mut text = format!("has no place in {article} {role_name} message of {format}");
        let closed = self.format.names_of(role);
        if culprit == "name" && !closed.is_empty() {
            text.push_str(", expected none or one of `");
            text.push_str(&closed.join("`, `"));
            text.push('`');
        }
        Err(turn.unplaced(format!("messages[{}].{culprit}", turn.index), text, part))
    }
}

/// The fields when a text of white space alone counts as missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blank {
    IsText,
    IsNone,
}

/// Whether a text is white space alone.
pub(super) fn is_blank(text: &str) -> bool {
    Filter::Trim.trim(text).is_empty()
}

/// The fields that a message has for a row.
fn present(turn: &Turn<'_>, row: &Row, blank: Blank) -> u32 {
    let message = turn.message;
    let has = |text: &str, filter: Option<Filter>| match filter {
        _ if text.is_empty() => false,
        Some(filter) => !filter.trim(text).is_empty(),
        None => blank == Blank::IsText || !is_blank(text),
    };
    let mut present = 0;
    if !message.media.is_empty() || has(&message.content, row.places.content) {
        present |= Field::Content.bit();
    }
    if has(turn.reasoning().unwrap_or_default(), row.places.reasoning) {
        present |= Field::Reasoning.bit();
    }
    // A result always has its number.
    present |= Field::Index.bit() & row.places.allowed;
    if turn.system.is_some() {
        present |= Field::System.bit();
    }
    if message.name.is_some() && message.name != row.name {
        present |= Field::Name.bit();
    }
    if !message.calls.is_empty() {
        present |= Field::Calls.bit();
    }
    // Formats that do not write ids identify results by their order.
    if message.call_id.is_some() && row.places.allowed & Field::Id.bit() != 0 {
        present |= Field::Id.bit();
    }
    present
}

/// The fields that a message has and a row has no place for.
fn unplaced(turn: &Turn<'_>, row: &Row) -> u32 {
    present(turn, row, Blank::IsNone) & !row.places.allowed
}

/// Whether a row begins with its calls.
pub(super) fn begins_with_calls(row: &Row, present: u32) -> bool {
    let mut pieces = pattern::written(&row.rule.pieces, |field| present & field.bit() != 0);
    matches!(pieces.next(), Some(Piece::Field(Field::Calls, _)))
}

/// Whether a row has nothing but its content and absent fields, so that an empty content would not be read back.
fn writes_nothing(row: &Row, present: u32) -> bool {
    pattern::written(&row.rule.pieces, |field| present & field.bit() != 0)
        .all(|piece| matches!(piece, Piece::Field(Field::Content, _) | Piece::Cut))
}
