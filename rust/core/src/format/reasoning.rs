//! The reasoning of a row: its place in the pattern, the row without it, and the conditions for reading it.

use std::ops::Range;

use super::content_block;
use super::rules::{has_field, is_field};
use crate::error::{Checked, wrong};
use crate::pattern::{Field, Filter, Piece, is_white, walk};

/// The pieces of a row's reasoning: the optional part, or the pieces from the opening token to the closing
/// token and white space after it.
pub(super) fn stretch_of(pieces: &[Piece]) -> Option<Range<usize>> {
    let is_optional = |piece: &Piece| {
        matches!(piece, Piece::Optional { field: Field::Reasoning, pieces }
            if has_field(pieces, Field::Reasoning))
    };
    if let Some(at) = pieces.iter().position(is_optional) {
        return Some(at..at + 1);
    }
    let at = pieces.iter().position(|piece| is_field(piece, Field::Reasoning))?;
    let open = pieces[..at].iter().rposition(Piece::is_control)?;
    let close = at + pieces[at..].iter().position(Piece::is_control)?;
    Some(open..close + 1 + white_after(pieces, close + 1))
}

/// Number of pieces of white space at a place: one or none.
fn white_after(pieces: &[Piece], at: usize) -> usize {
    usize::from(matches!(pieces.get(at), Some(Piece::Literal(text)) if is_white(text)))
}

/// The opening token, the text after it, the text before the closing token, the closing token, and
/// the text after it.
pub(crate) struct Around<'a> {
    pub(crate) open: &'a Piece,
    pub(crate) before: &'a str,
    pub(crate) after: &'a str,
    pub(crate) close: &'a Piece,
    pub(crate) then: &'a str,
}

/// The reasoning of a row, taken apart.
pub(crate) fn pieces_of(pieces: &[Piece]) -> Option<Around<'_>> {
    let stretch = inside(&pieces[stretch_of(pieces)?]);
    let (open, close) =
        (stretch.iter().position(Piece::is_control)?, stretch.iter().rposition(Piece::is_control)?);
    let literal = |at: usize| match stretch.get(at) {
        Some(Piece::Literal(text)) => &**text,
        _ => "",
    };
    Some(Around {
        open: &stretch[open],
        before: literal(open + 1),
        after: close.checked_sub(1).map_or("", literal),
        close: &stretch[close],
        then: literal(close + 1),
    })
}

/// The pieces without the optional part around them.
fn inside(stretch: &[Piece]) -> &[Piece] {
    match stretch {
        [Piece::Optional { pieces, .. }] => pieces,
        stretch => stretch,
    }
}

/// A row without its reasoning, and so without the tokens around it, and without tokens around its content.
pub(crate) fn without(pieces: &[Piece]) -> Vec<Piece> {
    let mut rest = pieces.to_vec();
    content_block::remove(&mut rest);
    if let Some(stretch) = stretch_of(&rest) {
        rest.drain(stretch);
    }
    rest
}

/// A row without the tokens around its content.
fn without_block(pieces: &[Piece]) -> Vec<Piece> {
    let mut rest = pieces.to_vec();
    content_block::remove(&mut rest);
    rest
}

/// Whether a row with reasoning reads another row: they are equal without reasoning, or with empty
/// reasoning between the tokens, or one has a block of its own. `after_content` is the text between content and
/// calls.
pub(super) fn is_read_by(row: &[Piece], other: &[Piece], after_content: &str) -> bool {
    if has_calls_alone(row, other) {
        return true;
    }
    let (row, other) = (&without_block(row)[..], &without_block(other)[..]);
    let Some(Around { open, before, after, close, then }) = pieces_of(other) else {
        return false;
    };
    if closes_alone(row, other) || has_own_block(row, other, after_content) {
        return true;
    }
    let same = |own: Around<'_>| {
        (own.open, own.before, own.after, own.close, own.then) == (open, before, after, close, then)
    };
    if !pieces_of(row).is_none_or(same) {
        return false;
    }
    let mut plain = without(row);
    let inside = Piece::Literal(format!("{before}{after}"));
    let mut block = vec![open.clone(), inside, close.clone(), Piece::Literal(then.to_owned())];
    block.retain(|piece| !matches!(piece, Piece::Literal(text) if text.is_empty()));
    if let Some(at) = plain.windows(block.len()).position(|pieces| pieces == block) {
        plain.drain(at..at + block.len());
    }
    let unfiltered = |pieces: Vec<Piece>| -> Vec<Piece> {
        let plain = |piece| match piece {
            Piece::Field(Field::Reasoning, _) => Piece::Field(Field::Reasoning, Filter::None),
            piece => piece,
        };
        pieces.into_iter().map(plain).collect()
    };
    unfiltered(plain) == unfiltered(without(other))
}

/// Whether a row is another one without its reasoning, and with its calls in the place of its content, which has tokens
/// around it.
fn has_calls_alone(row: &[Piece], other: &[Piece]) -> bool {
    let is_calls = |piece: &Piece| is_field(piece, Field::Calls);
    let plain = without(other);
    let place = plain.iter().position(|piece| is_field(piece, Field::Content));
    let (Some(at), Some(place)) = (row.iter().position(is_calls), place) else { return false };
    content_block::tokens(other).is_some()
        && at == place
        && row[..at] == plain[..at]
        && row[at + 1..] == plain[at + 1..]
}

/// Whether a row has the tokens of the other row's reasoning with other white space, which a reader removes: an empty
/// block without the text before or after reasoning, or without the text after the block; or a block with nothing but
/// calls after it.
pub(crate) fn has_own_block(row: &[Piece], other: &[Piece], after_content: &str) -> bool {
    let (row, other) = (&without_block(row)[..], &without_block(other)[..]);
    let (Some(stretch), Some(Around { open, before, after, close, then })) =
        (stretch_of(other), pieces_of(other))
    else {
        return false;
    };
    let Some([first, block @ ..]) = row.strip_prefix(&other[..stretch.start]) else { return false };
    let Some(end) = block.iter().position(|piece| piece == close).filter(|_| first == open) else {
        return false;
    };
    let (inside, rest) = (&block[..end], &block[end + 1..]);
    let is_empty = match inside {
        [] => true,
        [Piece::Literal(text)] => *text == before || *text == format!("{before}{after}"),
        _ => false,
    };
    let has_reasoning =
        || pieces_of(row).is_some_and(|own| (own.before, own.after) == (before, after));
    let (white, rest) = match rest {
        [Piece::Literal(white), rest @ ..] if is_white(white) => (white.as_str(), rest),
        rest => ("", rest),
    };
    match (rest, &other[stretch.end..]) {
        (
            [Piece::Field(Field::Content, own), rest @ ..],
            [Piece::Field(Field::Content, _), tail @ ..],
        ) => {
            // White space at the beginning of content would be read as the white space after the block.
            let is_trimmed = !own.is_json() && own.trim(&format!("{then}x")) == "x";
            is_empty && rest == tail && (white == then || white.is_empty() && is_trimmed)
        }
        (
            [Piece::Field(Field::Calls, _), rest @ ..],
            [Piece::Field(Field::Content, _), tail @ ..],
        ) => {
            let tail = match tail.split_first() {
                Some((Piece::Optional { field: Field::Calls, .. }, tail)) => tail,
                _ => tail,
            };
            let is_read =
                white.is_empty() || white == then || white == format!("{then}{after_content}");
            (is_empty || has_reasoning()) && rest == tail && is_read
        }
        _ => false,
    }
}

/// Whether a row has only the closing token in place of the other row's reasoning.
pub(crate) fn closes_alone(row: &[Piece], other: &[Piece]) -> bool {
    let (Some(stretch), Some(Around { close, then, .. })) = (stretch_of(other), pieces_of(other))
    else {
        return false;
    };
    let mut alone = vec![close.clone(), Piece::Literal(then.to_owned())];
    alone.retain(|piece| !matches!(piece, Piece::Literal(text) if text.is_empty()));
    let mut pieces = other.to_vec();
    pieces.splice(stretch, alone);
    pieces == row
}

/// Checks that reasoning is between two control tokens, directly before content; literals may be
/// beside it.
pub(super) fn check_row(key: &str, pieces: &[Piece]) -> Checked<()> {
    let stretch = stretch_of(pieces).unwrap_or_default();
    let inside = inside(pieces.get(stretch.clone()).unwrap_or_default());
    let is_reasoning = |piece: &Piece| is_field(piece, Field::Reasoning);
    let at = inside.iter().position(is_reasoning).unwrap_or_default();
    let (before, after) = (&inside[..at], inside.get(at + 1..).unwrap_or_default());
    let fits = matches!(before, [Piece::Control(_)] | [Piece::Control(_), Piece::Literal(_)])
        && matches!(
            after,
            [Piece::Control(_)]
                | [Piece::Control(_), Piece::Literal(_)]
                | [Piece::Literal(_), Piece::Control(_)]
                | [Piece::Literal(_), Piece::Control(_), Piece::Literal(_)]
        );
    if !fits {
        return wrong(
            key,
            "has other things around `{reasoning}`; expected `{OPEN}{reasoning}{CLOSE}`, where OPEN and CLOSE are names of \
             `control` or `text`, and at most literals beside them",
        );
    }
    let follows = pieces.get(stretch.end..).unwrap_or_default();
    let is_content = matches!(
        follows,
        [Piece::Field(Field::Content, _), ..]
            | [Piece::Literal(_), Piece::Field(Field::Content, _), ..]
    );
    if is_content && !walk(follows).any(Piece::is_json) {
        Ok(())
    } else {
        wrong(
            key,
            "has something else after its guard of reasoning; expected `{content}` there, without a filter of JSON, or a \
             literal and `{content}`. A row without `{content}` has no such guard: write `{OPEN}{reasoning}{CLOSE}`, \
             and messages without reasoning in a row of their own",
        )
    }
}
