//! The rules for patterns, so that one reader reads their output back in one way.
//!
//! A row is a *head*, a field for text, and the end of the text; a second text may follow. The head
//! identifies a row, so two heads may never both fit: [`super::ambiguity`] checks this.

use super::{Guarantee, RowSpec, content_block, reasoning};
use crate::error::{Checked, wrong};
use crate::limits::{HOLD_LIMIT, MAX_SUFFIX_BYTES, MAX_WORD_BYTES};
use crate::message::Role;
use crate::pattern::{Field, FieldContent, Piece, is_white, walk};

/// Longer patterns are refused: real ones have about twenty pieces.
const MAX_PIECES: usize = 64;

/// Maximum number of optional parts and cuts of a row. Each doubles the number of ways to read the
/// row.
const MAX_CHOICES: usize = 3;

/// Whether a piece is a field that ends at the next piece, or by its own grammar.
pub(super) fn is_text(piece: &Piece) -> bool {
    matches!(piece, Piece::Field(field, _)
        if matches!(field.holds(), FieldContent::Text | FieldContent::Object | FieldContent::Pairs))
}

/// Whether the end of a field follows from its text, as in JSON.
pub(super) fn ends_itself(piece: &Piece) -> bool {
    matches!(piece, Piece::Field(field, filter)
        if matches!(field.holds(), FieldContent::Object | FieldContent::Pairs) || filter.is_json())
}

pub(crate) fn has_field(pieces: &[Piece], wanted: Field) -> bool {
    walk(pieces).any(|piece| is_field(piece, wanted))
}

/// Whether a piece is a field.
pub(crate) fn is_field(piece: &Piece, wanted: Field) -> bool {
    matches!(piece, Piece::Field(field, _) if *field == wanted)
}

/// Whether a piece is the calls of a message.
pub(super) fn is_calls(piece: &Piece) -> bool {
    is_field(piece, Field::Calls)
}

/// Whether a row is written by its calls alone.
pub(crate) fn is_calls_only(pieces: &[Piece]) -> bool {
    pieces.first().is_some_and(is_calls)
}

/// Whether a row begins with text, possibly after its reasoning. White space before a control token does not
/// count.
pub(crate) fn begins_with_text(pieces: &[Piece]) -> bool {
    let pieces = reasoning::without(pieces);
    let mut pieces = pieces.iter().filter(|piece| **piece != Piece::Cut);
    match pieces.next() {
        Some(Piece::Control(_)) => false,
        Some(Piece::Literal(text)) if is_white(text) => {
            !pieces.next().is_some_and(Piece::is_control)
        }
        _ => true,
    }
}

/// Whether a row reads results that are ordinary text from their beginning to their end: they come after an assistant's
/// message only.
pub(crate) fn is_text_result(row: &RowSpec, guarantee: Guarantee) -> bool {
    guarantee == Guarantee::Ids
        && row.role == Role::Tool
        && row.place.is_read()
        && begins_with_text(&row.pieces)
        && !walk(&row.pieces).any(Piece::is_control)
}

/// The pieces before the first text of a row, in order of writing. An optional part around the text is one of them.
pub(crate) fn head(pieces: &[Piece]) -> Vec<&Piece> {
    walk(pieces).take_while(|piece| !is_text(piece)).collect()
}

/// The pieces after the last matching one, in order of writing.
pub(super) fn after_last(
    pieces: &[Piece],
    is_wanted: impl Fn(&Piece) -> bool,
) -> Option<Vec<&Piece>> {
    let mut after = None;
    for piece in walk(pieces) {
        if is_wanted(piece) {
            after = Some(Vec::new());
        } else if let Some(after) = &mut after {
            after.push(piece);
        }
    }
    after
}

/// The pieces of a row for reading: a system text inside the user's text is content.
pub(crate) fn as_read(pieces: &[Piece], folds_system: bool) -> Vec<Piece> {
    // White space between turns is scaffolding.
    let pieces = match pieces {
        [Piece::Literal(text), rest @ ..]
            if is_white(text) && matches!(rest, [Piece::Control(_), ..]) =>
        {
            rest
        }
        pieces => pieces,
    };
    let is_folded = |piece: &&Piece| {
        folds_system && matches!(piece, Piece::Optional { field: Field::System, .. })
    };
    pieces.iter().filter(|piece| !is_folded(piece)).cloned().collect()
}

/// The literals and control tokens between the text of a row and the token that closes it, if tokens are among them. A
/// row that ends in a literal is closed by none.
pub(crate) fn tokens_after_text(pieces: &[Piece]) -> Option<&[Piece]> {
    let is_end = |piece: &Piece| matches!(piece, Piece::Literal(text) if !is_white(text));
    let at = pieces.iter().position(|piece| is_field(piece, Field::Content))?;
    let end = match pieces.last()? {
        last if is_end(last) => pieces.len(),
        _ => pieces.iter().rposition(Piece::is_control)?,
    };
    let between = pieces.get(at + 1..end)?;
    let is_plain = |piece: &Piece| piece.is_control() || matches!(piece, Piece::Literal(_));
    (between.iter().any(Piece::is_control) && between.iter().all(is_plain)).then_some(between)
}

/// A row in which the tokens between its text and the token that closes it are text: a reader reads control tokens
/// in a system text as their spellings.
pub(crate) fn with_spelled_tokens(
    pieces: &[Piece],
    spelling: impl Fn(&[String]) -> String,
) -> Vec<Piece> {
    let at = pieces.iter().position(|piece| is_field(piece, Field::Content));
    let (Some(between), Some(at)) = (tokens_after_text(pieces), at) else {
        return pieces.to_vec();
    };
    let text = |piece: &Piece| match piece {
        Piece::Literal(text) => text.clone(),
        piece => control_names(piece).map(&spelling).unwrap_or_default(),
    };
    let spelled = Piece::Literal(between.iter().map(text).collect());
    [&pieces[..=at], &[spelled], &pieces[at + 1 + between.len()..]].concat()
}

/// Checks the shape of a single row.
pub(super) fn check_row(key: &str, pieces: &[Piece]) -> Checked<()> {
    check_pieces(key, pieces)?;
    if content_block::tokens(pieces).is_some() {
        let mut pieces = pieces.to_vec();
        content_block::remove(&mut pieces);
        return check_row(key, &pieces);
    }
    if has_field(pieces, Field::Reasoning) {
        reasoning::check_row(key, pieces)?;
        return check_row(key, &reasoning::without(pieces));
    }
    if is_calls_only(pieces) {
        let rest: Vec<&Piece> = walk(&pieces[1..]).collect();
        return check_after_text(key, &rest, false);
    }
    if !has_field(pieces, Field::Content) && !has_field(pieces, Field::Tools) {
        return wrong(key, "has no field for text, expected `{content}`");
    }
    let pieces: Vec<&Piece> = walk(pieces).collect();
    let texts: Vec<usize> = (0..pieces.len()).filter(|&at| is_text(pieces[at])).collect();
    if texts.len() > 2 {
        return wrong(key, "has more than two fields for text, expected two at most");
    }
    let first = texts.first().copied();
    check_head(key, &pieces[..first.unwrap_or(pieces.len())], first.map(|at| pieces[at]))?;
    if let [first, second] = texts[..] {
        check_between(key, &pieces[first + 1..second])?;
    }
    let Some(&last) = texts.last() else { return Ok(()) };
    let mut rest = &pieces[last + 1..];
    if ends_itself(pieces[last]) {
        // The pieces after a value are read like a head: literals and words up to a control token.
        let words = rest.iter().position(|piece| piece.is_control());
        let (before, after) = rest.split_at(words.unwrap_or(rest.len()));
        check_words(key, before)?;
        // Another token may close the turn.
        rest = match after {
            [Piece::Control(_), Piece::Control(_), ..] => &after[1..],
            after => after,
        };
    }
    check_after_text(key, rest, true)
}

/// Checks that the row which reads a pattern back reads text, not JSON.
/// The problem of a row or a call with more after its last token.
pub(super) const GOES_ON: &str = "goes on after the token that closes it; expected white space only there: text belongs \
                                  before that token, or at the beginning of the next row";

pub(super) fn check_reads_text(key: &str, row: &RowSpec) -> Checked<()> {
    let is_json = |piece: &Piece| matches!(piece, Piece::Field(Field::Content, it) if it.is_json());
    if walk(&row.pieces).any(is_json) {
        let problem = format!(
            "is read as JSON by `{}`; expected a row whose `{{content}}` has no filter of JSON",
            row.key
        );
        return wrong(key, problem);
    }
    Ok(())
}

pub(super) fn check_pieces(key: &str, pieces: &[Piece]) -> Checked<()> {
    let head = head(pieces).len();
    let pieces: Vec<&Piece> = walk(pieces).collect();
    if pieces.len() > MAX_PIECES {
        return wrong(key, format!("has {} pieces, expected at most {MAX_PIECES}", pieces.len()));
    }
    let cuts_nothing = |pieces: &[&Piece]| match pieces {
        [Piece::Cut, Piece::Control(_), ..] | [Piece::Control(_), Piece::Cut, ..] => true,
        [Piece::Cut, Piece::Literal(text), Piece::Control(_), ..] => is_white(text),
        _ => false,
    };
    if (0..pieces.len()).any(|at| cuts_nothing(&pieces[at..])) {
        return wrong(key, "has `{/}` beside a control token, expected it between texts");
    }
    if pieces.first() == Some(&&Piece::Space) {
        return wrong(key, "begins with `{~}`, expected it after a token or text");
    }
    let cuts_word = |pair: &[&Piece]| match pair {
        [Piece::Cut, Piece::Field(field, _) | Piece::Optional { field, .. }] => {
            field.holds() == FieldContent::Word
        }
        _ => false,
    };
    if pieces.windows(2).any(cuts_word) {
        return wrong(key, "has `{/}` before a word or its guard, expected it before other text");
    }
    for (at, &piece) in pieces.iter().enumerate() {
        if let Piece::Field(field, _) = piece
            && pieces[..at].iter().any(|before| is_field(before, *field))
        {
            return wrong(key, format!("has `{{{}}}` twice, expected it once", field.name()));
        }
        if *piece == Piece::Rest
            && !(pieces.get(at + 1).is_some_and(|piece| piece.is_control()) && at < head)
        {
            return wrong(
                key,
                "has `{*}` in another place, expected it right before a control token that stands before the text",
            );
        }
        if let Piece::Optional { field, pieces: inside } = piece {
            let is_plain = |piece: &Piece| match piece {
                Piece::Literal(_) => true,
                Piece::Field(inner, _) => inner == field,
                Piece::Control(_) => matches!(field, Field::Reasoning | Field::Thinking),
                Piece::Space => field.holds() == FieldContent::Word,
                _ => false,
            };
            // A condition has no text; a field that is ignored may be a literal.
            let is_whole = field.is_silent() || has_field(inside, *field) != field.is_condition();
            if !is_whole || !inside.iter().all(is_plain) {
                let name = field.name();
                let problem = format!(
                    "has a guard of `{name}` with something else in it, expected `{{{name}}}` and literals"
                );
                return wrong(key, problem);
            }
        }
    }
    let is_choice = |piece: &&&Piece| matches!(piece, Piece::Optional { .. } | Piece::Cut);
    let choices = pieces.iter().filter(is_choice).count();
    if choices > MAX_CHOICES {
        let problem = format!("has {choices} guards and cuts, expected at most {MAX_CHOICES}");
        return wrong(key, problem);
    }
    Ok(())
}

fn check_words(key: &str, pieces: &[&Piece]) -> Checked<()> {
    for piece in pieces {
        match piece {
            Piece::Literal(_) | Piece::Space => {}
            Piece::Field(field, _) if field.holds() == FieldContent::Word => {}
            _ => {
                return wrong(
                    key,
                    "has something else after its value, expected literals and words up to a control token",
                );
            }
        }
    }
    Ok(())
}

/// Checks the pieces before a text: literals, control tokens and header words. Words may be optional.
pub(super) fn check_head(key: &str, head: &[&Piece], text: Option<&Piece>) -> Checked<()> {
    if let Some((first @ Piece::Control(_), rest)) = head.split_first()
        && rest.contains(first)
    {
        return wrong(
            key,
            "has the token that opens it a second time before its text, expected it once: a row is one turn, and a turn \
             of the format's own before all others is `turn.begin`",
        );
    }
    for piece in head {
        match piece {
            Piece::Field(field, _) if field.holds() != FieldContent::Word => {
                let problem = format!(
                    "has `{{{}}}` before its text, expected literals, control tokens and words",
                    field.name()
                );
                return wrong(key, problem);
            }
            Piece::Optional { field, .. }
                if field.holds() != FieldContent::Word && !field.is_condition() =>
            {
                let name = field.name();
                let problem = format!(
                    "has a guard of `{name}` before its first text, expected guards of words and \
                     `tools` there"
                );
                return wrong(key, problem);
            }
            _ => {}
        }
    }
    check_head_bytes(key, head)?;
    let is_free = text.is_some_and(|text| !ends_itself(text));
    if is_free && head.last() == Some(&&Piece::Space) {
        return wrong(
            key,
            "has `{~}` beside a field for text, expected a literal or a control token between them",
        );
    }
    Ok(())
}

/// Checks that a head fits into the memory of a reader, which holds back a head until its end.
pub(super) fn check_head_bytes(key: &str, head: &[&Piece]) -> Checked<()> {
    let bytes = |piece: &&Piece| match piece {
        Piece::Literal(text) => text.len(),
        Piece::Field(field, _) if field.holds() == FieldContent::Word => MAX_WORD_BYTES,
        _ => 0,
    };
    let bytes: usize = head.iter().map(bytes).sum();
    if bytes > HOLD_LIMIT {
        let problem = format!("needs {bytes} bytes before its text, expected at most {HOLD_LIMIT}");
        return wrong(key, problem);
    }
    Ok(())
}

/// Checks the pieces between two texts: a literal that is not white space. The second text may be optional.
fn check_between(key: &str, between: &[&Piece]) -> Checked<()> {
    let ([Piece::Literal(literal)]
    | [Piece::Literal(literal), Piece::Optional { .. }]
    | [Piece::Literal(literal), Piece::Optional { .. }, Piece::Literal(_)]) = between
    else {
        return wrong(key, "has two fields for text side by side, expected a literal between them");
    };
    if literal.len() > MAX_SUFFIX_BYTES {
        let problem =
            format!("has a long literal after its text, expected at most {MAX_SUFFIX_BYTES} bytes");
        return wrong(key, problem);
    }
    Ok(())
}

/// After the last text: calls, a literal, white space, and a control token with white space after it, or
/// the end of the row.
pub(super) fn check_after_text(key: &str, tail: &[&Piece], free: bool) -> Checked<()> {
    let mut rest = tail;
    let mut has_calls = false;
    if let Some(Piece::Optional { field: Field::Calls, pieces }) = rest.first() {
        has_calls = true;
        if !matches!(&pieces[..], [calls] if is_calls(calls)) {
            return wrong(
                key,
                "has a guard of `calls` with something else in it, expected `{?calls:{calls}?}`",
            );
        }
        rest = &rest[2..];
    }
    let is_free = free && !has_calls;
    let mut white = false;
    if let Some((Piece::Literal(suffix), after)) = rest.split_first() {
        if suffix.len() > MAX_SUFFIX_BYTES {
            let problem = format!(
                "has a long literal after its text, expected at most {MAX_SUFFIX_BYTES} bytes"
            );
            return wrong(key, problem);
        }
        if !is_free && !is_white(suffix) {
            return wrong(key, "has text between its calls and its end, expected white space only");
        }
        white = suffix.ends_with(|c: char| c.is_ascii_whitespace());
        rest = after;
    } else if rest.first() == Some(&&Piece::Space) && free {
        return wrong(
            key,
            "has `{~}` beside a field for text, expected a literal or a control token between them",
        );
    }
    if let Some((Piece::Space, after)) = rest.split_first() {
        if white && free {
            return wrong(
                key,
                "has white space before `{~}`, expected a literal that does not end in white space",
            );
        }
        rest = after;
    }
    let after = match rest.split_first() {
        None => return Ok(()),
        Some((Piece::Control(_), after)) => after,
        Some(_) => {
            return wrong(
                key,
                "has something else after its text; expected at most `{calls}`, a literal, `{~}` and a control token, in \
                 this order",
            );
        }
    };
    let is_scaffold = |piece: &&Piece| match piece {
        Piece::Literal(text) => is_white(text),
        piece => **piece == Piece::Space,
    };
    // The text may end before a literal and the token that closes the row.
    let after = match after {
        [Piece::Literal(text), Piece::Control(_), after @ ..]
            if is_free && text.len() <= MAX_SUFFIX_BYTES =>
        {
            after
        }
        after => after,
    };
    if !after.iter().all(is_scaffold) {
        return wrong(key, GOES_ON);
    }
    Ok(())
}

/// Whether a row has more than one control token after its text.
pub(super) fn goes_on(pieces: &[Piece]) -> bool {
    let after = after_last(pieces, is_text).unwrap_or_default();
    after.iter().filter(|piece| piece.is_control()).count() > 1
}

/// Whether a row reads the output of another: it may have more alternatives for each control token, and white space
/// after the last one.
pub(super) fn reads(row: &[Piece], written: &[Piece]) -> bool {
    let row = match row {
        [before @ .., Piece::Literal(text)] if is_white(text) && before.len() == written.len() => {
            before
        }
        row => row,
    };
    let fits = |(piece, written): (&Piece, &Piece)| match (piece, written) {
        (Piece::Control(known), Piece::Control(names)) => {
            names.iter().all(|name| known.contains(name))
        }
        (piece, written) => piece == written,
    };
    row.len() == written.len() && row.iter().zip(written).all(fits)
}

/// The literal at the end of a row without a closing control token.
pub(super) fn open_suffix(pieces: &[Piece]) -> Option<String> {
    let rest = after_last(pieces, is_text)?;
    if rest.iter().any(|piece| piece.is_control()) {
        return None;
    }
    let literals = rest.iter().filter_map(|piece| match piece {
        Piece::Literal(text) => Some(text.as_str()),
        _ => None,
    });
    Some(literals.collect())
}

/// The names of a control token.
pub(crate) fn control_names(piece: &Piece) -> Option<&[String]> {
    match piece {
        Piece::Control(names) => Some(names),
        _ => None,
    }
}
