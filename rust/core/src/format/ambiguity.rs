//! Whether two heads are distinguishable: both are walked side by side, over all input that both
//! can read.

use std::rc::Rc;

use hashbrown::HashSet;

use super::rules::{ends_itself, is_text};
use super::work::Work;
use crate::error::{Checked, wrong};
use crate::pattern::{Field, Piece, is_white, walk};
use crate::word::is_word_byte;

/// A head as a list of alternatives: every way to read it.
pub(super) struct Head {
    ways: Vec<Vec<Step>>,
}

impl Head {
    /// The ways to read a head, with and without the space that a vocabulary may put after a cut.
    pub(super) fn new(key: &str, pieces: &[Piece], work: &Work) -> Checked<Self> {
        Ok(Self { ways: ways(key, pieces, true, work)? })
    }

    /// Whether some input reaches the text of one head while it also fits the other.
    pub(super) fn meets(&self, other: &Self, key: &str, work: &Work) -> Checked<bool> {
        for way in &self.ways {
            for other in &other.ways {
                if both_fit(way, other, key, work)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Checks that a head is read in one way: words and white space end, and optional parts are
/// distinguishable. With `ends_word`, no word goes on after the head.
pub(super) fn check_ways(key: &str, pieces: &[Piece], ends_word: bool, work: &Work) -> Checked<()> {
    // A dummy prefix after a cut is always read.
    let own = ways(key, pieces, false, work)?;
    let before_value = walk(pieces).find(|piece| is_text(piece)).is_some_and(ends_itself);
    for way in &own {
        for (at, step) in way.iter().enumerate().filter(|(_, step)| step.repeats) {
            let ends = match way.get(at + 1) {
                Some(next) => !next.class.meets(&step.class),
                None => {
                    ends_word && step.class == Class::Word
                        || before_value && step.class == Class::Space
                }
            };
            if !ends {
                return wrong(
                    key,
                    "has a word or `{~}` whose end could be read in two ways, expected text after it that \
                     cannot be part of it",
                );
            }
        }
    }
    for (at, way) in own.iter().enumerate() {
        for other in &own[..at] {
            if both_fit(way, other, key, work)? {
                return wrong(
                    key,
                    "can be read in two ways, with a guard and without, expected a guard that begins \
                     otherwise than what follows it",
                );
            }
        }
    }
    Ok(())
}

/// Checks that nothing is written right after a word that could be part of it: `{~}` is written as nothing. With
/// `ends_word`, no word goes on after the head.
pub(super) fn check_written_words(
    key: &str,
    pieces: &[Piece],
    ends_word: bool,
    work: &Work,
) -> Checked<()> {
    let is_space = |step: &&Step| step.class == Class::Space;
    for way in ways(key, pieces, false, work)? {
        for (at, step) in way.iter().enumerate().filter(|(_, step)| step.repeats) {
            let goes_on = match way[at + 1..].iter().find(|step| !is_space(step)) {
                Some(next) => next.class.meets(&step.class),
                None => !ends_word,
            };
            if step.class == Class::Word && goes_on {
                let problem = "has a word that is written right before text that may be part of it, expected text or a \
                               token between them: `{~}` is written as nothing";
                return wrong(key, problem);
            }
        }
    }
    Ok(())
}

/// Whether two patterns can be confused. Loading compared them before, within its budget of steps.
pub(super) fn meets(a: &[Piece], b: &[Piece]) -> bool {
    let work = Work::unlimited();
    let heads = Head::new("", a, &work).and_then(|a| Ok((a, Head::new("", b, &work)?)));
    heads.and_then(|(a, b)| a.meets(&b, "", &work)).unwrap_or_default()
}

/// The input of a step of a head.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Class {
    Byte(u8),
    Word,
    Space,
    Control(Rc<[String]>),
}

impl Class {
    fn is_control(&self) -> bool {
        matches!(self, Self::Control(_))
    }

    /// Number of comparisons of control tokens.
    fn choices(&self, other: &Self) -> usize {
        match (self, other) {
            (Self::Control(a), Self::Control(b)) => a.len() * b.len(),
            _ => 0,
        }
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

/// A step of a head: one item of a class, or any number of them.
#[derive(Debug, Clone)]
struct Step {
    class: Class,
    repeats: bool,
}

/// A head as steps, once for every choice of its optional parts; with `prefixes`, also with and without a
/// space after every cut.
fn ways(key: &str, pieces: &[Piece], prefixes: bool, work: &Work) -> Checked<Vec<Vec<Step>>> {
    let text = pieces.iter().position(|piece| walk(std::slice::from_ref(piece)).any(is_text));
    let head = &pieces[..text.unwrap_or(pieces.len())];
    let is_object = matches!(pieces.get(head.len()), Some(Piece::Field(Field::Call, _)));
    let mut ways = vec![Vec::new()];
    for (at, piece) in head.iter().enumerate() {
        if let Piece::Optional { pieces, .. } = piece {
            let inside: Vec<Step> = pieces.iter().flat_map(steps).collect();
            fork(&mut ways, &inside, key, work)?;
            continue;
        }
        if *piece == Piece::Cut && prefixes {
            fork(&mut ways, &[Step { class: Class::Byte(b' '), repeats: false }], key, work)?;
            continue;
        }
        // White space before an object is ignored.
        let is_free = is_object && at + 1 == head.len();
        let steps = match piece {
            Piece::Literal(text) if is_free && is_white(text) => steps(&Piece::Space),
            piece => steps(piece),
        };
        work.count(key, steps.len() * ways.len())?;
        for way in &mut ways {
            way.extend(steps.iter().cloned());
        }
    }
    Ok(ways)
}

/// Every alternative, followed by these steps.
fn fork(ways: &mut Vec<Vec<Step>>, steps: &[Step], key: &str, work: &Work) -> Checked<()> {
    work.count(key, ways.iter().map(|way| way.len() + steps.len()).sum())?;
    let mut with = ways.clone();
    for way in &mut with {
        way.extend(steps.iter().cloned());
    }
    ways.extend(with);
    Ok(())
}

fn steps(piece: &Piece) -> Vec<Step> {
    let one = |class| Step { class, repeats: false };
    let many = |class| Step { class, repeats: true };
    match piece {
        Piece::Control(names) => vec![one(Class::Control(names.clone().into()))],
        Piece::Literal(text) => text.bytes().map(|byte| one(Class::Byte(byte))).collect(),
        Piece::Field(..) => vec![one(Class::Word), many(Class::Word)],
        Piece::Space => vec![many(Class::Space)],
        Piece::Optional { .. } | Piece::Cut | Piece::Rest => Vec::new(),
    }
}

/// Whether some input reaches the text of one head while it also fits the other.
fn both_fit(a: &[Step], b: &[Step], key: &str, work: &Work) -> Checked<bool> {
    // Every place that is reached by skipping optional steps.
    let reached = |steps: &[Step], from: usize| -> std::ops::RangeInclusive<usize> {
        let skipped = steps[from..].iter().take_while(|step| step.repeats).count();
        from..=from + skipped
    };
    let mut seen = HashSet::new();
    let mut open = vec![(0, 0)];
    while let Some((from_a, from_b)) = open.pop() {
        for at_a in reached(a, from_a) {
            for at_b in reached(b, from_b) {
                work.count(key, 1)?;
                let (step_a, step_b) = match (a.get(at_a), b.get(at_b)) {
                    (Some(step_a), Some(step_b)) => (step_a, step_b),
                    // When one head has reached its text, its input is not a control token of the
                    // other.
                    (None, Some(step)) | (Some(step), None) if step.class.is_control() => continue,
                    _ => return Ok(true),
                };
                work.count(key, step_a.class.choices(&step_b.class))?;
                let next = |step: &Step, at| if step.repeats { at } else { at + 1 };
                let next = (next(step_a, at_a), next(step_b, at_b));
                if step_a.class.meets(&step_b.class) && seen.insert(next) {
                    open.push(next);
                }
            }
        }
    }
    Ok(false)
}
