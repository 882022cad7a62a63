//! Whether two heads can be told apart: they are walked side by side, over everything that both can read.

use hashbrown::HashSet;

use super::load::{Checked, wrong};
use super::pattern::{Field, Piece, is_white, is_word_byte};
use super::rules::{ends_itself, head};

/// Checks that a head is read in one way: words and white space end, guards can be told.
pub(super) fn check_ways(key: &str, pieces: &[Piece]) -> Checked<()> {
    // Where a cut has a dummy prefix after it, that is always taken.
    let own = ways(pieces, false);
    let text = pieces.get(head(pieces).len());
    let before_value = text.is_some_and(ends_itself);
    for way in &own {
        for (at, step) in way.iter().enumerate().filter(|(_, step)| step.repeats) {
            let ends = match way.get(at + 1) {
                Some(next) => !next.class.meets(&step.class),
                None => before_value && step.class == Class::Space,
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
    }
    Ok(())
}

/// Whether something brings one of two heads to its text while it also fits the other.
pub(super) fn meets(a: &[Piece], b: &[Piece]) -> bool {
    let (a, b) = (ways(a, true), ways(b, true));
    a.iter().any(|way| b.iter().any(|other| both_fit(way, other)))
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
    fn is_control(&self) -> bool {
        matches!(self, Self::Control(_))
    }

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

/// A head as steps, once for every choice of its guards; with `prefixes`, also for every cut with the
/// space that a vocabulary may put after it and without.
fn ways(pieces: &[Piece], prefixes: bool) -> Vec<Vec<Step>> {
    let head = head(pieces);
    let is_object = matches!(pieces.get(head.len()), Some(Piece::Field(Field::Call, _)));
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
        if *piece == Piece::Cut && prefixes {
            let mut with = ways.clone();
            for way in &mut with {
                way.push(Step { class: Class::Byte(b' '), repeats: false });
            }
            ways.extend(with);
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
        Piece::Field(..) => vec![one(Class::Word), many(Class::Word)],
        Piece::Space => vec![many(Class::Space)],
        Piece::Guard { .. } | Piece::Cut | Piece::Rest => Vec::new(),
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
                let (step_a, step_b) = match (a.get(at_a), b.get(at_b)) {
                    (Some(step_a), Some(step_b)) => (step_a, step_b),
                    // Where one has come to its text, no text is the other's control token.
                    (None, Some(step)) | (Some(step), None) if step.class.is_control() => continue,
                    _ => return true,
                };
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
