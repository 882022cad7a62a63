//! Runs of characters of one class: patterns such as `\p{N}{1,3}`, `[\r\n]` and `\s?\p{P}+`, whatever
//! the class, without an engine.

use std::sync::Arc;

use regex_syntax::hir::{Hir, HirKind, Repetition};

use super::classes::{Classes, Mask, ranges};
use super::scan::pieces;

const MEMBER: Mask = 1;
const LEAD: Mask = 2;

/// `LEAD?MEMBER{1,most}`, with the two classes in one table.
#[derive(Debug, Clone)]
pub(crate) struct Runs {
    classes: Arc<Classes>,
    most: Option<u32>,
    pattern: Arc<str>,
}

impl Runs {
    /// The splitter for a pattern of that form, `None` for any other.
    pub(super) fn from_pattern(pattern: &str) -> Option<Self> {
        let hir = regex_syntax::parse(pattern).ok()?;
        let (lead, run) = match hir.kind() {
            HirKind::Concat(parts) => match parts.as_slice() {
                [lead, run] => (optional(lead)?, run),
                _ => return None,
            },
            _ => (Vec::new(), &hir),
        };
        let (members, most) = match run.kind() {
            HirKind::Repetition(Repetition { min: 1, max, greedy: true, sub }) => {
                (ranges(sub)?, *max)
            }
            _ => (ranges(run)?, Some(1)),
        };
        let members = members.into_iter().map(|range| (MEMBER, range));
        let lead = lead.into_iter().map(|range| (LEAD, range));
        let classes = Arc::new(Classes::new(members.chain(lead)));
        Some(Self { classes, most, pattern: pattern.into() })
    }

    /// The pattern itself.
    pub(super) fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Calls `each` with the matches and the text between them.
    pub(super) fn split<'a>(&self, text: &'a str, each: &mut dyn FnMut(&'a str)) {
        pieces(text, |at| self.end_of_match(text, at), |at| self.classes.at(text, at).1, each);
    }

    /// Whether a match may contain a character.
    pub(super) fn knows(&self, c: char) -> bool {
        self.classes.of_code_point(c.into()) & (MEMBER | LEAD) != 0
    }

    /// The end of the match that begins at a place; the place itself without a match.
    fn end_of_match(&self, text: &str, at: usize) -> usize {
        let (class, next) = self.classes.at(text, at);
        let end = if class & LEAD != 0 { self.run(text, next) } else { at };
        match class & MEMBER {
            _ if end > next => end,
            0 => at,
            _ => self.run(text, at),
        }
    }

    /// The end of the run of members that begins at a place.
    fn run(&self, text: &str, from: usize) -> usize {
        let Some(most) = self.most else { return self.classes.run(text, from, MEMBER) };
        let mut at = from;
        for _ in 0..most {
            let (class, next) = self.classes.at(text, at);
            if class & MEMBER == 0 {
                break;
            }
            at = next;
        }
        at
    }
}

/// The class of an expression `CLASS?`.
fn optional(hir: &Hir) -> Option<Vec<std::ops::RangeInclusive<char>>> {
    match hir.kind() {
        HirKind::Repetition(Repetition { min: 0, max: Some(1), greedy: true, sub }) => ranges(sub),
        _ => None,
    }
}
