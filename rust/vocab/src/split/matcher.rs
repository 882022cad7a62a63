//! Runs a [`Program`] and counts its steps.
//!
//! In: a text and a place. Out: the first match from there on, as a backtracking engine finds it. Cost: one step
//! for each instruction and character, within the budget of a text: [`Work`]. A real pattern takes about ten
//! steps for each character of any text; a hostile one would take more than the square of the length.

use std::cell::Cell;
use std::ops::Range;

use fancy_regex::Assertion;

use super::program::{Class, Inst, Program};

/// Budget of steps for a text: a fixed part, and a part for each byte.
const STEPS: u64 = 1 << 21;
const STEPS_A_BYTE: u64 = 512;
/// Largest number of backtracking points.
const MAX_PLACES: usize = 1 << 22;

/// Remaining budget of steps for a text.
#[derive(Debug)]
pub(crate) struct Work {
    left: Cell<u64>,
    /// Whether the budget was exceeded.
    is_spent: Cell<bool>,
}

impl Work {
    /// The whole budget of a text.
    pub(crate) fn of_text(text: &str) -> Self {
        let left = STEPS.saturating_add(STEPS_A_BYTE.saturating_mul(text.len() as u64));
        Self { left: Cell::new(left), is_spent: Cell::new(false) }
    }

    /// A budget of a given number of steps.
    #[cfg(feature = "foreign")]
    pub(crate) fn of_steps(left: u64) -> Self {
        Self { left: Cell::new(left), is_spent: Cell::new(false) }
    }

    /// Whether the text exceeded its budget.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_spent.get()
    }

    /// The steps that are left.
    #[cfg(any(test, feature = "foreign"))]
    pub(crate) fn left(&self) -> u64 {
        self.left.get()
    }

    /// Takes steps from the budget; returns whether it sufficed.
    #[inline]
    fn take(&self, steps: usize) -> bool {
        let left = self.left.get().checked_sub(steps as u64);
        self.left.set(left.unwrap_or(0));
        if left.is_none() {
            self.is_spent.set(true);
        }
        left.is_some()
    }
}

/// Minimum length of a run whose failure is recorded.
const LONG_RUN: usize = if cfg!(test) { 0 } else { 16 };

/// A backtracking point.
enum Place {
    /// An instruction and the place where it continues. The same instruction may continue at each earlier
    /// character, down to `floor`.
    Next { inst: usize, at: usize, floor: usize },
    /// A mark: when it is popped, every continuation after a run of characters has failed.
    Failed { many: usize, start: usize, end: usize },
}

/// A greedy instruction for the characters of a class.
#[derive(Clone, Copy)]
struct Many {
    class: Class,
    least: usize,
    most: usize,
    /// Whether its failures are recorded.
    learns: bool,
}

/// A search in one text.
pub(super) struct Search<'a> {
    program: &'a Program,
    text: &'a str,
    work: &'a Work,
    places: Vec<Place>,
    /// For each greedy instruction, the last run in which the rest of the pattern matched at no place. A
    /// search that begins within that run can skip it: every continuation has failed.
    failed: Vec<(usize, usize)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(program: &'a Program, text: &'a str, work: &'a Work) -> Self {
        Self { program, text, work, places: Vec::new(), failed: Vec::new() }
    }

    /// The first match that begins at `from` or later; `None` also when the budget is exhausted.
    pub(super) fn find(&mut self, from: usize) -> Option<Range<usize>> {
        let mut start = from;
        // The first instruction, if every match begins with it.
        let first = match self.program.insts[0] {
            Inst::One(class) | Inst::Many { class, least: 1.., .. } => Some(class),
            _ => None,
        };
        loop {
            if let Some(class) = first {
                let table = &self.program.tables[class.table];
                start = table.run_without(self.text, start, class.mask);
            }
            if let Some(end) = self.run(0, start, None) {
                return Some(start..end);
            }
            if self.work.is_spent() {
                return None;
            }
            start += self.text[start..].chars().next()?.len_utf8();
        }
    }

    /// The end of the match that begins at a place; with `goal`, of a match that ends there.
    fn run(&mut self, inst: usize, at: usize, goal: Option<usize>) -> Option<usize> {
        let base = self.places.len();
        let (mut inst, mut at) = (inst, at);
        loop {
            if !self.work.take(1) || self.places.len() > MAX_PLACES {
                self.work.is_spent.set(true);
                self.places.truncate(base);
                return None;
            }
            let next = match &self.program.insts[inst] {
                Inst::Match if goal.is_none_or(|goal| goal == at) => {
                    self.places.truncate(base);
                    return Some(at);
                }
                Inst::Match => None,
                Inst::Char(c) => {
                    self.text[at..].starts_with(*c).then(|| (inst + 1, at + c.len_utf8()))
                }
                Inst::One(class) => self.one(*class, at).map(|end| (inst + 1, end)),
                Inst::Many { class, least, most } => {
                    // A failure to end at the goal is not a failure elsewhere.
                    let learns = goal.is_none() && *least <= 1 && *most == usize::MAX;
                    let many = Many { class: *class, least: *least, most: *most, learns };
                    self.many(many, inst, at).map(|end| (inst + 1, end))
                }
                &Inst::Split(first, second) => {
                    self.places.push(Place::Next { inst: second, at, floor: at });
                    Some((first, at))
                }
                &Inst::Jump(to) => Some((to, at)),
                Inst::Assert(assertion) => self.holds(*assertion, at).then_some((inst + 1, at)),
                &Inst::Ahead { negative, end } => {
                    let found = self.run(inst + 1, at, None).is_some();
                    (found != negative).then_some((end + 1, at))
                }
                Inst::Behind { negative, lengths, end } => {
                    let found = lengths.iter().any(|&length| {
                        let start = self.back(at, length);
                        start.is_some_and(|start| self.run(inst + 1, start, Some(at)).is_some())
                    });
                    (found != *negative).then_some((end + 1, at))
                }
                &Inst::Atomic { end } => self.run(inst + 1, at, None).map(|at| (end + 1, at)),
            };
            // With an exhausted budget, a missing match says nothing.
            (inst, at) = match next.filter(|_| !self.work.is_spent()) {
                Some(next) => next,
                None => self.go_back(base)?,
            };
        }
    }

    /// The last backtracking point, above those of the caller.
    fn go_back(&mut self, base: usize) -> Option<(usize, usize)> {
        while self.places.len() > base {
            match self.places.pop()? {
                Place::Next { inst, at, floor } => {
                    if at > floor {
                        let before = self.back(at, 1)?;
                        self.places.push(Place::Next { inst, at: before, floor });
                    }
                    return Some((inst, at));
                }
                Place::Failed { many, start, end } if !self.work.is_spent() => {
                    self.failed.resize(self.program.insts.len(), (1, 0));
                    self.failed[many] = (start, end);
                }
                Place::Failed { .. } => {}
            }
        }
        None
    }

    /// The place `count` characters before another.
    fn back(&self, at: usize, count: usize) -> Option<usize> {
        if count == 0 {
            return Some(at);
        }
        self.text[..at].char_indices().rev().nth(count - 1).map(|(start, _)| start)
    }

    #[inline]
    fn one(&self, class: Class, at: usize) -> Option<usize> {
        let (mask, end) = self.program.tables[class.table].at(self.text, at);
        (mask & class.mask != 0).then_some(end)
    }

    /// The end of a run of characters of a class; with fewer characters, backtracking continues the
    /// next instruction.
    fn many(&mut self, many: Many, inst: usize, at: usize) -> Option<usize> {
        let Many { class, least, most, learns } = many;
        if learns && self.failed.get(inst).is_some_and(|&(start, end)| start <= at && at < end) {
            return None;
        }
        let mut end = at;
        let (mut count, mut floor) = (0, at);
        while count < most && (count < least || most != usize::MAX) {
            let Some(after) = self.one(class, end) else { break };
            end = after;
            count += 1;
            if count <= least {
                floor = end;
            }
        }
        if count < least {
            self.work.take(count);
            return None;
        }
        if most == usize::MAX {
            end = self.program.tables[class.table].run(self.text, end, class.mask);
        }
        self.work.take(end - at);
        if learns && end - at > LONG_RUN {
            self.places.push(Place::Failed { many: inst, start: at, end });
        }
        if end > floor {
            let before = self.back(end, 1)?;
            self.places.push(Place::Next { inst: inst + 1, at: before, floor });
        }
        Some(end)
    }

    fn holds(&self, assertion: Assertion, at: usize) -> bool {
        let (before, after) = self.text.split_at(at);
        let is_word = |c: Option<char>| {
            let table = &self.program.tables[self.program.word.table];
            c.is_some_and(|c| table.of_code_point(c.into()) & self.program.word.mask != 0)
        };
        let words = || (is_word(before.chars().next_back()), is_word(after.chars().next()));
        match assertion {
            Assertion::StartText => before.is_empty(),
            Assertion::EndText => after.is_empty(),
            Assertion::StartLine { crlf } => {
                before.is_empty()
                    || before.ends_with('\n')
                    || crlf && before.ends_with('\r') && !after.starts_with('\n')
            }
            Assertion::EndLine { crlf: false } => after.is_empty() || after.starts_with('\n'),
            Assertion::EndLine { crlf: true } => {
                let is_end = after.is_empty() || after.starts_with('\r');
                is_end || after.starts_with('\n') && !before.ends_with('\r')
            }
            Assertion::LeftWordBoundary => words() == (false, true),
            Assertion::RightWordBoundary => words() == (true, false),
            Assertion::LeftWordHalfBoundary => !words().0,
            Assertion::RightWordHalfBoundary => !words().1,
            Assertion::WordBoundary => words().0 != words().1,
            Assertion::NotWordBoundary => words().0 == words().1,
        }
    }
}
