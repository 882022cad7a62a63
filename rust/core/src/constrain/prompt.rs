//! What is left of a turn after the part of it that a prompt has written.

use crate::expression::{Expression, Part, Rules};
use crate::grammar::{BoundPiece, FixedText};
use crate::pattern::Piece;
use chatcodec_vocab::TokenId;

/// A part of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written<'p> {
    Id(TokenId),
    Text(&'p str),
}

/// The parts of a generation prompt, which holds no field.
pub(super) fn parts(pieces: &[BoundPiece]) -> Vec<Written<'_>> {
    let parts = pieces.iter().filter_map(|piece| match piece {
        Piece::Control(ids) => ids.first().map(|id| Written::Id(id.get())),
        Piece::Literal(FixedText::Encoded(text)) => Some(Written::Text(&text.text)),
        _ => None,
    });
    parts.collect()
}

/// The language of what follows a prompt in a language; `None`, if the prompt begins nothing of it.
pub(super) fn after(
    expression: Expression,
    prompt: &[Written<'_>],
    rules: &Rules,
) -> Option<Expression> {
    let mut found = Vec::new();
    strip(vec![expression], prompt, rules, &mut found);
    (!found.is_empty()).then(|| Expression::choice(found))
}

/// Collects what follows a prompt in a sequence, whose parts are in reverse.
fn strip(
    mut rest: Vec<Expression>,
    prompt: &[Written<'_>],
    rules: &Rules,
    found: &mut Vec<Expression>,
) {
    let Some((first, others)) = prompt.split_first() else {
        rest.reverse();
        found.push(Expression::sequence(rest));
        return;
    };
    let Some(next) = rest.pop() else { return };
    match next {
        Expression::Sequence(parts) => {
            rest.extend(parts.into_iter().rev());
            strip(rest, prompt, rules, found);
        }
        Expression::Choice(all) => {
            for alternative in all {
                let mut rest = rest.clone();
                rest.push(alternative);
                strip(rest, prompt, rules, found);
            }
        }
        Expression::Repeat(inner, least, most) => {
            if least == 0 {
                strip(rest.clone(), prompt, rules, found);
            }
            if most != Some(0) {
                let (least, most) = (least.saturating_sub(1), most.map(|most| most - 1));
                if most != Some(0) {
                    rest.push(Expression::Repeat(inner.clone(), least, most));
                }
                rest.push(*inner);
                strip(rest, prompt, rules, found);
            }
        }
        Expression::Rule(number) => {
            rest.push(rules.get(number));
            strip(rest, prompt, rules, found);
        }
        Expression::Ids(ids) => {
            if let Written::Id(id) = first
                && ids.contains(id)
            {
                strip(rest, others, rules, found);
            }
        }
        Expression::Literal(text) => {
            strip_text(&text, None, rest, prompt, rules, found);
        }
        Expression::Text(parts) => {
            if let Some((Part::Literal(text), more)) = parts.split_first() {
                let more = Expression::Text(more.to_vec());
                strip_text(text, Some(more), rest, prompt, rules, found);
            }
        }
        Expression::End(_) | Expression::Json(_) => {}
    }
}

/// The same of a literal, and what follows it in its terminal.
fn strip_text(
    text: &str,
    more: Option<Expression>,
    mut rest: Vec<Expression>,
    prompt: &[Written<'_>],
    rules: &Rules,
    found: &mut Vec<Expression>,
) {
    let Some((Written::Text(first), others)) = prompt.split_first() else { return };
    rest.extend(more);
    if let Some(left) = text.strip_prefix(first) {
        if !left.is_empty() {
            rest.push(Expression::literal(left));
        }
        strip(rest, others, rules, found);
    } else if let Some(left) = first.strip_prefix(text) {
        let mut prompt = prompt.to_vec();
        prompt[0] = Written::Text(left);
        strip(rest, &prompt, rules, found);
    }
}
