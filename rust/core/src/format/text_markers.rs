//! Markers of the table `[text]`: the assistant's own text opens and closes reasoning and calls with them. A marker
//! stands where a control token stands in a pattern: it is written as its text, and a reader finds the text within
//! the assistant's turns.
//!
//! The turn itself begins and ends with control tokens, so such a marker can forge no turn. Text that spells one is
//! told in `Encoding::collisions`.

use super::patterns::Patterns;
use super::{CallSpec, Guarantee, ListSpec, RowSpec, rules};
use crate::error::{Checked, wrong};
use crate::message::Role;
use crate::pattern::{Field, Piece, walk};

/// Keys whose patterns may have a marker: those of the assistant's turn.
const PLACES: [&str; 9] = [
    "turn.assistant",
    "last.assistant",
    "generation.prompt",
    "generation.thinking",
    "generation.no_thinking",
    "calls.open",
    "calls.close",
    "answer.open",
    "answer.close",
];

/// Whether the patterns of a key may have a marker.
pub(super) fn may_stand_in(key: &str) -> bool {
    let plain = key.split_once('[').map_or(key, |(key, _)| key);
    let is_pair = plain.rsplit('.').next() == Some("pair");
    let is_call = |prefix| plain.starts_with(prefix) && !is_pair;
    PLACES.contains(&plain) || ["call.", "also."].into_iter().any(is_call)
}

/// Checks the texts of markers: no two can overlap in a text, but where one begins with the other.
pub(super) fn check_texts(text: &[(String, Vec<String>)]) -> Checked<()> {
    let all = || text.iter().flat_map(|(name, texts)| texts.iter().map(move |text| (name, text)));
    for (name, one) in all() {
        let key = || format!("text.{name}");
        if one.trim() != one {
            return wrong(key(), format!("is {one:?}, expected no white space around it"));
        }
        for (other_name, other) in all() {
            if one != other && one.get(1..).is_some_and(|rest| rest.contains(&**other)) {
                let problem = format!(
                    "is {one:?}, which has {other:?} of `text.{other_name}` within it, expected none"
                );
                return wrong(key(), problem);
            }
            let ends = one.char_indices().skip(1).map(|(at, _)| &one[at..]);
            if let Some(end) = ends.into_iter().find(|end| other.starts_with(end)) {
                let problem = format!(
                    "is {one:?}, which ends in {end:?} as {other:?} of `text.{other_name}` begins, \
                     expected texts that cannot overlap"
                );
                return wrong(key(), problem);
            }
        }
    }
    Ok(())
}

/// Checks the places of markers in rows, calls and the list around calls.
pub(super) fn check(
    patterns: &Patterns,
    guarantee: Guarantee,
    rows: &[RowSpec],
    calls: &[CallSpec],
    list: Option<&ListSpec>,
) -> Checked<()> {
    if patterns.text().is_empty() {
        return Ok(());
    }
    if guarantee == Guarantee::Text {
        return wrong("guarantee", "is `text` where `[text]` has markers, expected `ids`");
    }
    let is_marker = |piece: &Piece| patterns.is_text(piece);
    let texts = || patterns.text().iter().flat_map(|(_, texts)| texts);
    for row in rows {
        let spells = |piece: &Piece| match piece {
            Piece::Literal(text) => texts().find(|marker| text.contains(marker.as_str())),
            _ => None,
        };
        if let Some(marker) = rules::head(&row.pieces).into_iter().find_map(spells) {
            let problem = format!(
                "has {marker:?} before its text, which a reader takes for a marker of `text`; expected \
                 another text there, or another marker"
            );
            return wrong(&row.key, problem);
        }
    }
    for row in rows.iter().filter(|row| row.role == Role::Assistant) {
        let is_body = |piece: &Piece| {
            rules::is_field(piece, Field::Content) || rules::is_field(piece, Field::Calls)
        };
        let pieces: Vec<&Piece> = walk(&row.pieces).collect();
        let body = pieces.iter().position(|piece| is_body(piece)).unwrap_or(pieces.len());
        let mut markers = (0..pieces.len()).filter(|&at| is_marker(pieces[at]));
        if markers.any(|at| at == 0 || at > body) {
            return wrong(
                &row.key,
                "has a marker of `text` first or after its text, expected the marker around `{reasoning}` only, and \
                 a control token that opens the turn before it",
            );
        }
    }
    for call in calls {
        let key = format!("call.{}.item", call.kind);
        for item in &call.items {
            let pieces: Vec<&Piece> = walk(item).collect();
            let is_within =
                |at: usize| at > 0 && pieces[at + 1..].iter().any(|piece| is_text_field(piece));
            if (0..pieces.len()).any(|at| is_marker(pieces[at]) && is_within(at)) {
                let problem =
                    "has a marker of `text` within it, expected it at its beginning or end";
                return wrong(key, problem);
            }
        }
    }
    let between = list.into_iter().flat_map(|list| &list.between);
    if between.into_iter().any(is_marker) {
        return wrong("calls.between", "has a marker of `text`, expected none");
    }
    Ok(())
}

/// Whether a piece is the body of a call.
fn is_text_field(piece: &Piece) -> bool {
    [Field::Call, Field::Arguments, Field::Source]
        .iter()
        .any(|&field| rules::is_field(piece, field))
}
