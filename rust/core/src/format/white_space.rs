//! Heads of calls with other white space than the format writes.
//!
//! In: the pieces of a call. Out: the same pieces, where white space beside control tokens and literals is free. What
//! is read so is tried after everything else, so it takes no input from the format's own forms.

use super::rules::{head, is_text};
use crate::pattern::{Field, FieldContent, Piece, walk};

/// The form with free white space before its body; `None` if that reads nothing more.
///
/// White space between two words stays, and there is none between the text of a tag and a field that is a word.
pub(crate) fn loose(pieces: &[Piece]) -> Option<Vec<Piece>> {
    let is_plain = !walk(pieces).any(|piece| matches!(piece, Piece::Optional { .. } | Piece::Rest));
    let begins = pieces.first().is_some_and(Piece::is_control);
    let body = pieces.iter().position(is_text).filter(|_| is_plain && begins)?;
    if matches!(pieces[body], Piece::Field(Field::Source, _)) || head(pieces).len() != body {
        return None;
    }
    let mut out: Vec<Piece> = Vec::with_capacity(2 * pieces.len());
    for at in 0..body {
        match &pieces[at] {
            Piece::Literal(text) => {
                let [before, after] = [at.checked_sub(1), Some(at + 1)];
                let is_word = |at: Option<usize>| at.is_some_and(|at| is_word(&pieces[at]));
                push_literal(text, is_word(before), is_word(after), &mut out);
            }
            Piece::Control(_) => {
                push_space(&mut out);
                out.push(pieces[at].clone());
                push_space(&mut out);
            }
            Piece::Space => push_space(&mut out),
            piece => out.push(piece.clone()),
        }
    }
    if !matches!(out.last(), Some(Piece::Literal(_))) {
        push_space(&mut out);
    }
    out.extend_from_slice(&pieces[body..]);
    (out != pieces).then_some(out)
}

fn is_word(piece: &Piece) -> bool {
    matches!(piece, Piece::Field(field, _) if field.holds() == FieldContent::Word)
}

fn push_space(out: &mut Vec<Piece>) {
    if !matches!(out.last(), None | Some(Piece::Space)) {
        out.push(Piece::Space);
    }
}

/// Adds a literal with free white space within it, and at its ends where it touches no word.
fn push_literal(text: &str, word_before: bool, word_after: bool, out: &mut Vec<Piece>) {
    let is_word =
        |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let Some((first, last)) = words.first().zip(words.last()) else { return push_space(out) };
    if !(word_before && text.starts_with(first)) {
        push_space(out);
    }
    for (nth, word) in words.iter().enumerate() {
        let before = nth.checked_sub(1).and_then(|before| words.get(before));
        if let Some(before) = before {
            if is_word(before.bytes().last()) && is_word(word.bytes().next()) {
                out.push(Piece::Literal(" ".to_owned()));
            }
            push_space(out);
        }
        out.push(Piece::Literal((*word).to_owned()));
    }
    if !word_after || !text.ends_with(last) || last.ends_with('[') {
        push_space(out);
    }
}
