//! Compilation of a regular expression to instructions, each for one place of a text.
//!
//! In: a pattern. Out: a [`Program`] for [`super::matcher`]. Size and compile time are bounded.
//! Features that the instructions cannot express (back references, conditions) are refused: no
//! vocabulary uses them.

use std::ops::RangeInclusive;

use fancy_regex::{Assertion, Expr, LookAround};
use hashbrown::HashMap;

use super::classes::{Classes, Mask, ranges};

/// Limit of instructions, and of parts of a pattern visited during compilation.
const MAX_SIZE: usize = 1 << 14;
/// Limit of different classes of characters.
const MAX_CLASSES: usize = 128;
/// Maximum length of a look-behind expression, in characters.
const MAX_BEHIND: usize = 255;

/// A class of characters: a table, and a bit in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Class {
    pub(super) table: usize,
    pub(super) mask: Mask,
}

#[derive(Debug)]
pub(super) enum Inst {
    /// This character.
    Char(char),
    /// A character of a class.
    One(Class),
    /// Up to `most` characters of a class, greedy; at least `least`.
    Many {
        class: Class,
        least: usize,
        most: usize,
    },
    /// Continues at the first place; if that fails, at the second.
    Split(usize, usize),
    /// Continues at another place.
    Jump(usize),
    Assert(Assertion),
    /// Look-ahead: the instructions up to `end` match here, or do not.
    Ahead {
        negative: bool,
        end: usize,
    },
    /// Look-behind: the same for text of one of these lengths before this place.
    Behind {
        negative: bool,
        lengths: Vec<usize>,
        end: usize,
    },
    /// Atomic group: the instructions up to `end` match, and backtracking does not enter them.
    Atomic {
        end: usize,
    },
    Match,
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) insts: Vec<Inst>,
    pub(super) tables: Vec<Classes>,
    /// The class of word characters.
    pub(super) word: Class,
}

/// The flag of `fancy-regex` for Oniguruma's syntax.
const ONIGURUMA: u32 = 1 << 6;

impl Program {
    /// Compiles a pattern; an error says what is wrong with it.
    pub(super) fn new(pattern: &str, is_oniguruma: bool) -> Result<Self, String> {
        let flags = if is_oniguruma { ONIGURUMA } else { 0 };
        // In Oniguruma, `^` and `$` match at the ends of lines.
        let lines = if is_oniguruma { format!("(?m){pattern}") } else { pattern.to_owned() };
        let tree = Expr::parse_tree_with_flags(&lines, flags);
        let tree = tree.map_err(|error| format!("that is no regular expression: {error}"))?;
        let mut compiler = Compiler::default();
        compiler.emit(&tree.expr)?;
        compiler.push(Inst::Match)?;
        let word = compiler.class(r"\w", false)?;
        let mut tables = Vec::new();
        for eight in compiler.classes.chunks(8) {
            let bits = eight.iter().enumerate().flat_map(|(bit, ranges)| {
                ranges.iter().map(move |range| (1 << bit, range.clone()))
            });
            tables.push(Classes::new(bits));
        }
        Ok(Self { insts: compiler.insts, tables, word })
    }
}

#[derive(Default)]
struct Compiler {
    insts: Vec<Inst>,
    classes: Vec<Vec<RangeInclusive<char>>>,
    known: HashMap<Vec<RangeInclusive<char>>, usize>,
    /// Number of parts visited.
    looks: usize,
}

type Done = Result<(), String>;

impl Compiler {
    /// Adds an instruction; returns its place.
    fn push(&mut self, inst: Inst) -> Result<usize, String> {
        if self.insts.len() >= MAX_SIZE {
            return Err("that is larger than any real one".to_owned());
        }
        self.insts.push(inst);
        Ok(self.insts.len() - 1)
    }

    fn emit(&mut self, expr: &Expr) -> Done {
        self.looks += 1;
        if self.looks > 4 * MAX_SIZE {
            return Err("that is larger than any real one".to_owned());
        }
        match expr {
            Expr::Empty => Ok(()),
            Expr::Literal { val, casei: false } => {
                val.chars().try_for_each(|c| self.push(Inst::Char(c)).map(drop))
            }
            Expr::Literal { val, casei: true } => val.chars().try_for_each(|c| {
                let class = self.class(&regex_syntax::escape(c.encode_utf8(&mut [0; 4])), true)?;
                self.push(Inst::One(class)).map(drop)
            }),
            Expr::Any { .. } | Expr::Delegate { .. } => {
                let class = self.single(expr)?.ok_or("with a class that is not implemented")?;
                self.push(Inst::One(class)).map(drop)
            }
            Expr::Assertion(assertion) => self.push(Inst::Assert(*assertion)).map(drop),
            Expr::Concat(parts) => parts.iter().try_for_each(|part| self.emit(part)),
            Expr::Group(inner) => self.emit(inner),
            Expr::Alt(parts) => self.alternatives(parts),
            Expr::Repeat { child, lo, hi, greedy } => self.repeat(child, *lo, *hi, *greedy),
            Expr::AtomicGroup(inner) => self.sub_program(inner, |end| Inst::Atomic { end }),
            Expr::LookAround(inner, look) => self.look(inner, *look),
            _ => Err("with a reference or a condition, which is not implemented".to_owned()),
        }
    }

    fn alternatives(&mut self, parts: &[Expr]) -> Done {
        let mut jumps = Vec::new();
        let last = parts.len().saturating_sub(1);
        for (nth, part) in parts.iter().enumerate() {
            if nth == last {
                self.emit(part)?;
                break;
            }
            let split = self.push(Inst::Split(0, 0))?;
            self.emit(part)?;
            jumps.push(self.push(Inst::Jump(0))?);
            self.insts[split] = Inst::Split(split + 1, self.insts.len());
        }
        for jump in jumps {
            self.insts[jump] = Inst::Jump(self.insts.len());
        }
        Ok(())
    }

    fn repeat(&mut self, child: &Expr, least: usize, most: usize, greedy: bool) -> Done {
        if greedy && let Some(class) = self.single(child)? {
            return self.push(Inst::Many { class, least, most }).map(drop);
        }
        for _ in 0..least {
            self.emit(child)?;
        }
        let split = |next: usize, after: usize| {
            if greedy { Inst::Split(next, after) } else { Inst::Split(after, next) }
        };
        if most == usize::MAX {
            if least_length(child) == 0 {
                return Err("that repeats what may be nothing".to_owned());
            }
            let again = self.push(Inst::Jump(0))?;
            self.emit(child)?;
            self.push(Inst::Jump(again))?;
            self.insts[again] = split(again + 1, self.insts.len());
            return Ok(());
        }
        let mut splits = Vec::new();
        for _ in least..most {
            splits.push(self.push(Inst::Jump(0))?);
            self.emit(child)?;
        }
        for place in splits {
            self.insts[place] = split(place + 1, self.insts.len());
        }
        Ok(())
    }

    fn look(&mut self, inner: &Expr, look: LookAround) -> Done {
        let negative = matches!(look, LookAround::LookAheadNeg | LookAround::LookBehindNeg);
        match look {
            LookAround::LookAhead | LookAround::LookAheadNeg => {
                self.sub_program(inner, |end| Inst::Ahead { negative, end })
            }
            LookAround::LookBehind | LookAround::LookBehindNeg => {
                let lengths = lengths(inner, MAX_BEHIND)
                    .ok_or("that looks behind at text of any length, which is not implemented")?;
                self.sub_program(inner, |end| Inst::Behind { negative, lengths, end })
            }
        }
    }

    /// An instruction with a sub-program, which follows it and ends with a match.
    fn sub_program(&mut self, inner: &Expr, of_end: impl FnOnce(usize) -> Inst) -> Done {
        let at = self.push(Inst::Match)?;
        self.emit(inner)?;
        let end = self.push(Inst::Match)?;
        self.insts[at] = of_end(end);
        Ok(())
    }

    /// The class of an expression that matches one character.
    fn single(&mut self, expr: &Expr) -> Result<Option<Class>, String> {
        match expr {
            Expr::Any { newline: true } => self.class("(?s:.)", false).map(Some),
            Expr::Any { newline: false } => self.class(".", false).map(Some),
            Expr::Delegate { inner, casei, .. } => self.class(inner, *casei).map(Some),
            Expr::Literal { val, casei } if val.chars().nth(1).is_none() && !val.is_empty() => {
                self.class(&regex_syntax::escape(val), *casei).map(Some)
            }
            Expr::Group(inner) => self.single(inner),
            _ => Ok(None),
        }
    }

    /// The class of an expression of Rust's `regex`.
    fn class(&mut self, pattern: &str, folds: bool) -> Result<Class, String> {
        let parser =
            regex_syntax::ParserBuilder::new().case_insensitive(folds).build().parse(pattern);
        let hir = parser.map_err(|error| format!("that is no regular expression: {error}"))?;
        let ranges = ranges(&hir).ok_or("with a class that is not implemented")?;
        let at = match self.known.get(&ranges) {
            Some(&at) => at,
            None if self.classes.len() >= MAX_CLASSES => {
                return Err("that is larger than any real one".to_owned());
            }
            None => {
                self.known.insert(ranges.clone(), self.classes.len());
                self.classes.push(ranges);
                self.classes.len() - 1
            }
        };
        Ok(Class { table: at / 8, mask: 1 << (at % 8) })
    }
}

/// Minimum number of characters that an expression matches.
fn least_length(expr: &Expr) -> usize {
    match expr {
        Expr::Any { .. } | Expr::Delegate { .. } => 1,
        Expr::Literal { val, .. } => val.chars().count(),
        Expr::Concat(parts) => parts.iter().map(least_length).sum(),
        Expr::Alt(parts) => parts.iter().map(least_length).min().unwrap_or(0),
        Expr::Group(inner) | Expr::AtomicGroup(inner) => least_length(inner),
        Expr::Repeat { child, lo, .. } => least_length(child).saturating_mul(*lo),
        _ => 0,
    }
}

/// The lengths of an expression's matches, in characters, shortest first; `None` if they are
/// unbounded.
fn lengths(expr: &Expr, most: usize) -> Option<Vec<usize>> {
    let sum = |left: &[usize], right: &[usize]| -> Option<Vec<usize>> {
        let sums = left.iter().flat_map(|a| right.iter().map(move |b| a + b));
        let mut sums: Vec<usize> = sums.collect();
        sums.sort_unstable();
        sums.dedup();
        (sums.last().is_none_or(|&longest| longest <= most)).then_some(sums)
    };
    match expr {
        Expr::Empty | Expr::Assertion(_) | Expr::LookAround(..) => Some(vec![0]),
        Expr::Any { .. } | Expr::Delegate { .. } => Some(vec![1]),
        Expr::Literal { val, .. } => Some(vec![val.chars().count()]),
        Expr::Concat(parts) => {
            let mut all = vec![0];
            for part in parts {
                all = sum(&all, &lengths(part, most)?)?;
            }
            Some(all)
        }
        Expr::Alt(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(lengths(part, most)?);
            }
            all.sort_unstable();
            all.dedup();
            Some(all)
        }
        Expr::Group(inner) | Expr::AtomicGroup(inner) => lengths(inner, most),
        Expr::Repeat { child, lo, hi, .. } if *hi <= most => {
            let child = lengths(child, most)?;
            let (mut all, mut some) = (Vec::new(), vec![0]);
            for count in 0..=*hi {
                if count >= *lo {
                    all.extend(&some);
                }
                if count < *hi {
                    some = sum(&some, &child)?;
                }
            }
            all.sort_unstable();
            all.dedup();
            Some(all)
        }
        _ => None,
    }
}
