//! What patterns must be so that what they write can be read back, by one reader and in one way.
//!
//! A row is a *head*, one field for text, and a *tail*. The head is what tells rows apart, so two heads
//! may never both fit: that is decided here by walking them side by side over everything both can read.

use hashbrown::HashSet;

use super::load::{Checked, wrong};
use super::pattern::{Field, Grammar, Piece, is_white, is_word_byte};
use crate::render::MAX_WORD_BYTES;
use crate::stream::HEAD_LIMIT;

/// Longer patterns are refused: real ones have about twenty pieces.
const MAX_PIECES: usize = 64;

/// A row's guards may be there or not: so many guards, two to that power ways to read it.
const MAX_GUARDS: usize = 3;

/// The longest literal between a field and what closes it.
const MAX_SUFFIX_BYTES: usize = 1024;

/// Checks one row or one way to write a call.
pub(super) fn check_row(key: &str, pieces: &[Piece]) -> Checked<()> {
    if pieces.len() > MAX_PIECES {
        return wrong(key, format!("has {} pieces, expected at most {MAX_PIECES}", pieces.len()));
    }
    if !matches!(pieces.first(), Some(Piece::Control(_))) {
        return wrong(key, "does not begin with a control token");
    }
    let texts = pieces.iter().filter(|piece| is_text(piece)).count();
    match texts {
        0 => return wrong(key, "has no field for text"),
        1 => {}
        _ => {
            return wrong(key, "has two fields for text, which is not implemented; expected one");
        }
    }
    for (at, piece) in pieces.iter().enumerate() {
        if let Piece::Field(field) = piece
            && pieces[..at].contains(piece)
        {
            return wrong(key, format!("has `{{{}}}` twice", field.name()));
        }
    }
    let (head, rest) = pieces.split_at(head_len(pieces));
    let Some((text, tail)) = rest.split_first() else { return Ok(()) };
    check_head(key, head, text)?;
    check_tail(key, text, tail)
}

fn is_text(piece: &Piece) -> bool {
    matches!(piece, Piece::Field(field)
        if matches!(field.grammar(), Grammar::Text | Grammar::Object))
}

fn head_len(pieces: &[Piece]) -> usize {
    pieces.iter().position(is_text).unwrap_or(pieces.len())
}

/// Before the text: literals, control tokens, header words; words may be guarded.
fn check_head(key: &str, head: &[Piece], text: &Piece) -> Checked<()> {
    if head[1..].contains(&head[0]) {
        return wrong(key, "has the token that opens it a second time before its text");
    }
    let mut bytes = 0;
    let mut guards = 0;
    for (at, piece) in head.iter().enumerate() {
        match piece {
            Piece::Literal(text) => bytes += text.len(),
            Piece::Field(field) if field.grammar() == Grammar::Word => bytes += MAX_WORD_BYTES,
            Piece::Field(field) => {
                return wrong(key, format!("has `{{{}}}` before its text", field.name()));
            }
            Piece::Guard { field, len } => {
                guards += 1;
                let inside = head.get(at + 1..=at + len).unwrap_or_default();
                let is_plain = |piece: &Piece| match piece {
                    Piece::Literal(_) => true,
                    piece => *piece == Piece::Field(*field),
                };
                if !inside.contains(&Piece::Field(*field)) || !inside.iter().all(is_plain) {
                    let name = field.name();
                    let problem =
                        format!("has a guard of `{name}` that holds more or less than it");
                    return wrong(key, problem);
                }
            }
            Piece::Space if head.get(at + 1) == Some(&Piece::Space) => {
                return wrong(key, "has `{~}` twice in a row");
            }
            Piece::Control(_) | Piece::Space | Piece::Cut => {}
        }
    }
    if guards > MAX_GUARDS {
        return wrong(key, format!("has {guards} guards, expected at most {MAX_GUARDS}"));
    }
    if bytes > HEAD_LIMIT {
        let problem = format!("needs {bytes} bytes before its text, expected at most {HEAD_LIMIT}");
        return wrong(key, problem);
    }
    let is_free = matches!(text, Piece::Field(field) if field.grammar() == Grammar::Text);
    if is_free && head.last() == Some(&Piece::Space) {
        return wrong(key, "has `{~}` beside a field for text: where that begins would be unclear");
    }
    Ok(())
}

/// After the text: calls, a literal, white space, a control token, and white space.
fn check_tail(key: &str, text: &Piece, tail: &[Piece]) -> Checked<()> {
    let mut rest = tail;
    let has_calls = rest.first() == Some(&Piece::Guard { field: Field::Calls, len: 1 });
    if has_calls {
        if rest.get(1) != Some(&Piece::Field(Field::Calls)) {
            return wrong(key, "has a guard of `calls` that holds more or less than it");
        }
        rest = &rest[2..];
    }
    if let Some((Piece::Literal(suffix), after)) = rest.split_first() {
        if suffix.len() > MAX_SUFFIX_BYTES {
            let problem = format!("has over {MAX_SUFFIX_BYTES} bytes of literal after its text");
            return wrong(key, problem);
        }
        let is_object = *text == Piece::Field(Field::Call);
        if (has_calls || is_object) && !is_white(suffix) {
            return wrong(key, "has a literal between its calls and its end, expected white space");
        }
        rest = after;
    } else if rest.first() == Some(&Piece::Space)
        && !has_calls
        && *text != Piece::Field(Field::Call)
    {
        return wrong(key, "has `{~}` beside a field for text: where that ends would be unclear");
    }
    if let Some((Piece::Space, after)) = rest.split_first() {
        let suffix = tail.len() - rest.len();
        if let Some(Piece::Literal(suffix)) = suffix.checked_sub(1).and_then(|at| tail.get(at))
            && suffix.ends_with(|c: char| c.is_ascii_whitespace())
            && *text != Piece::Field(Field::Call)
        {
            return wrong(key, "has white space before `{~}`: where that begins would be unclear");
        }
        rest = after;
    }
    let Some((Piece::Control(_), after)) = rest.split_first() else {
        return wrong(key, "has no control token after its text, or something else before it");
    };
    let is_scaffold = |piece: &Piece| match piece {
        Piece::Literal(text) => is_white(text),
        piece => *piece == Piece::Space,
    };
    if !after.iter().all(is_scaffold) {
        return wrong(key, "goes on after the end of its text, which is not implemented");
    }
    Ok(())
}

/// Whether one of `names` opens a turn or a call.
fn opens(names: &[String], openers: &[&Piece]) -> bool {
    openers.iter().any(|opener| {
        matches!(opener, Piece::Control(open) if open.iter().any(|name| names.contains(name)))
    })
}

/// Checks that what closes the text of a row opens nothing.
pub(super) fn check_closers(key: &str, pieces: &[Piece], openers: &[&Piece]) -> Checked<()> {
    for piece in &pieces[head_len(pieces)..] {
        if let Piece::Control(names) = piece
            && opens(names, openers)
        {
            return wrong(key, "is closed by a token that opens a turn or a call");
        }
    }
    Ok(())
}

/// Checks that no token opens both a turn and a call.
pub(super) fn check_call_opener(key: &str, item: &[Piece], turns: &[&Piece]) -> Checked<()> {
    match item.first() {
        Some(Piece::Control(names)) if opens(names, turns) => {
            wrong(key, "begins with a token that opens a turn")
        }
        _ => Ok(()),
    }
}

/// What stands before the text of a row.
pub(super) fn head(pieces: &[Piece]) -> &[Piece] {
    &pieces[..head_len(pieces)]
}

/// Checks what stands around a conversation: control tokens that open nothing, and white space.
pub(super) fn check_frame(key: &str, pieces: &[Piece], openers: &[&Piece]) -> Checked<()> {
    for piece in pieces {
        match piece {
            Piece::Control(names) if opens(names, openers) => {
                return wrong(key, "has a token that opens a turn or a call");
            }
            Piece::Literal(text) if !is_white(text) => {
                return wrong(key, "has text, expected control tokens and white space only");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that no two of the rows can be read as each other, and none in two ways.
pub(super) fn check_decidable(rows: &[(&str, &[Piece])]) -> Checked<()> {
    for (at, (key, pieces)) in rows.iter().enumerate() {
        check_against(key, pieces, &rows[..at])?;
    }
    Ok(())
}

/// Checks that what one pattern writes cannot be read by another that is tried before it.
pub(super) fn check_against(
    key: &str,
    pieces: &[Piece],
    before: &[(&str, &[Piece])],
) -> Checked<()> {
    let own = ways(pieces);
    let before_object = pieces.get(head_len(pieces)) == Some(&Piece::Field(Field::Call));
    for way in &own {
        for (at, step) in way.iter().enumerate().filter(|(_, step)| step.repeats) {
            let ends = match way.get(at + 1) {
                Some(next) => !next.class.meets(&step.class),
                None => before_object && step.class == Class::Space,
            };
            if !ends {
                return wrong(key, "has a word or `{~}` whose end could be read in two ways");
            }
        }
    }
    for (at, way) in own.iter().enumerate() {
        if own[..at].iter().any(|other| both_fit(way, other)) {
            return wrong(key, "can be read in two ways, with a guard and without");
        }
        let other = before.iter().find(|(_, other)| ways(other).iter().any(|o| both_fit(way, o)));
        if let Some((other, _)) = other {
            return wrong(key, format!("can be read as `{other}`: they could not be told apart"));
        }
    }
    Ok(())
}

/// What a step of a head reads.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Class {
    Byte(u8),
    Word,
    Space,
    Control(Vec<String>),
}

impl Class {
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Byte(a), Self::Byte(b)) => a == b,
            (Self::Byte(byte), Self::Word) | (Self::Word, Self::Byte(byte)) => is_word_byte(*byte),
            (Self::Byte(byte), Self::Space) | (Self::Space, Self::Byte(byte)) => {
                byte.is_ascii_whitespace()
            }
            (Self::Control(a), Self::Control(b)) => a.iter().any(|name| b.contains(name)),
            (a, b) => a == b,
        }
    }
}

/// A step of a head: one of a class, or any number of them.
#[derive(Debug, Clone)]
struct Step {
    class: Class,
    repeats: bool,
}

/// A head as steps, once for every choice of its guards.
fn ways(pieces: &[Piece]) -> Vec<Vec<Step>> {
    let head = head(pieces);
    let is_object = pieces.get(head.len()) == Some(&Piece::Field(Field::Call));
    let mut ways = vec![Vec::new()];
    let mut at = 0;
    while let Some(piece) = head.get(at) {
        at += 1;
        if let Piece::Guard { len, .. } = piece {
            let inside = head.get(at..at + len).unwrap_or_default();
            let mut with = ways.clone();
            for way in &mut with {
                way.extend(inside.iter().flat_map(steps));
            }
            ways.extend(with);
            at += len;
            continue;
        }
        // White space before an object means nothing.
        let is_free = is_object && at == head.len();
        let steps = match piece {
            Piece::Literal(text) if is_free && is_white(text) => steps(&Piece::Space),
            piece => steps(piece),
        };
        for way in &mut ways {
            way.extend(steps.iter().cloned());
        }
    }
    ways
}

fn steps(piece: &Piece) -> Vec<Step> {
    let one = |class| Step { class, repeats: false };
    let many = |class| Step { class, repeats: true };
    match piece {
        Piece::Control(names) => vec![one(Class::Control(names.clone()))],
        Piece::Literal(text) => text.bytes().map(|byte| one(Class::Byte(byte))).collect(),
        Piece::Field(_) => vec![one(Class::Word), many(Class::Word)],
        Piece::Space => vec![many(Class::Space)],
        Piece::Guard { .. } | Piece::Cut => Vec::new(),
    }
}

/// Whether something brings one of two heads to its text while it also fits the other.
fn both_fit(a: &[Step], b: &[Step]) -> bool {
    // Every place that is reached by skipping steps that may be empty.
    let reached = |steps: &[Step], from: usize| -> Vec<usize> {
        let skipped = steps[from..].iter().take_while(|step| step.repeats).count();
        (from..=from + skipped).collect()
    };
    let mut seen = HashSet::new();
    let mut open = vec![(0, 0)];
    while let Some((from_a, from_b)) = open.pop() {
        for at_a in reached(a, from_a) {
            for at_b in reached(b, from_b) {
                let (Some(step_a), Some(step_b)) = (a.get(at_a), b.get(at_b)) else { return true };
                let next = |step: &Step, at| if step.repeats { at } else { at + 1 };
                let next = (next(step_a, at_a), next(step_b, at_b));
                if step_a.class.meets(&step_b.class) && seen.insert(next) {
                    open.push(next);
                }
            }
        }
    }
    false
}
