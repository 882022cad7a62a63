//! Pre-tokenization: splits text into pieces that merges do not cross.
//!
//! In: text. Out: its pieces, in order; their concatenation is the text, byte for byte. Cost: linear, for
//! the patterns that real vocabularies have; others are matched by a bounded engine, see [`regex`].

// The loop over a text's blocks and its scanner become one function for each pattern.
#![allow(clippy::inline_always)]

mod blocks;
mod classes;
mod cover;
mod known_patterns;
mod masks;
mod matcher;
mod program;
mod regex;
mod runs;
mod scan;
#[cfg(test)]
mod tests;
mod threes;
mod wide;

use crate::error::{Error, Result, place};
pub(crate) use blocks::BLOCK;
pub(crate) use cover::covers_every_text;
use known_patterns::{CL100K, CL100K_ONIGURUMA, DEEPSEEK_CHINESE, KNOWN, NAMES, UP_TO_THREE};
pub(crate) use masks::{Prose, leads};
pub(crate) use matcher::Work;
use regex::Dialect;
pub(crate) use regex::Regex;
use runs::Runs;
use scan::Known;
use threes::Threes;

/// A pre-tokenizer. Immutable; shared between threads.
#[derive(Debug, Clone)]
pub(crate) enum Splitter {
    /// Text stays in one piece.
    Whole,
    /// Digits are pieces: each digit, or each run of digits. Hugging Face's `Digits`.
    Digits { individual: bool },
    /// The matches of a pattern that real vocabularies have.
    Known(Known),
    /// Digits by threes, counted from the right.
    Threes(Threes),
    /// Runs of characters of one class, and the text between two of them.
    Runs(Runs),
    /// The matches of any other regular expression, and the text between two matches.
    Regex(Regex),
    /// Splitters in sequence: each splits the pieces of the previous one.
    Sequence(Vec<Splitter>),
}

/// The ends of one piece or more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) from: usize,
    /// Bit `n`: a piece ends `n` bytes after `from`.
    pub(crate) places: u64,
    /// Bit `n`: the byte `n` bytes after `from` may be beyond ASCII.
    pub(crate) wide: u64,
}

impl Ends {
    /// The end of one piece.
    fn one(at: usize) -> Self {
        Self { from: at - 1, places: 1 << 1, wide: 1 }
    }
}

impl Splitter {
    /// The splitter for a regular expression. Its matches are pieces, and so is the text between two
    /// matches. Known patterns have hand-written scanners; others run on a bounded engine.
    ///
    /// # Errors
    /// [`Error`] for an invalid regular expression, or one that is larger than any real
    /// one.
    pub(crate) fn from_pattern(pattern: &str) -> Result<Self> {
        Self::in_dialect(pattern, Dialect::Rust)
    }

    /// [`from_pattern`](Self::from_pattern) for Hugging Face's files, whose patterns are Oniguruma's.
    ///
    /// # Errors
    /// As there, and for an expression with another meaning in Oniguruma.
    pub(crate) fn from_oniguruma(pattern: &str) -> Result<Self> {
        if pattern == CL100K {
            return Ok(Self::Known(CL100K_ONIGURUMA));
        }
        if Threes::from_pattern(pattern).is_none() {
            regex::check_oniguruma(pattern)?;
        }
        Self::in_dialect(pattern, Dialect::Oniguruma)
    }

    fn in_dialect(pattern: &str, dialect: Dialect) -> Result<Self> {
        if let Some((_, known)) = KNOWN.iter().find(|(text, _)| *text == pattern) {
            return Ok(Self::Known(*known));
        }
        if let Some(threes) = Threes::from_pattern(pattern) {
            return Ok(Self::Threes(threes));
        }
        regex::check_length(pattern)?;
        match Runs::from_pattern(pattern) {
            Some(runs) => Ok(Self::Runs(runs)),
            None => Regex::new(pattern, dialect).map(Self::Regex),
        }
    }

    /// The splitter of a GGUF file's `tokenizer.ggml.pre`, `None` for a name that is not known.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        let (_, patterns) = NAMES.iter().find(|(names, _)| names.contains(&name))?;
        // A test checks that each of them is valid.
        let splitter = |pattern: &&str| match *pattern {
            known_patterns::NUMBERS_BY_THREES => Some(Self::Threes(Threes::Numbers)),
            pattern => Self::from_pattern(pattern).ok(),
        };
        Some(Self::sequence(patterns.iter().map(splitter).collect::<Option<_>>()?))
    }

    /// Splitters in sequence: each splits the pieces of the previous one.
    pub(crate) fn sequence(mut splitters: Vec<Self>) -> Self {
        splitters.retain(|splitter| !matches!(splitter, Self::Whole));
        if let [Self::Runs(numbers), Self::Runs(chinese), Self::Known(Known::DeepSeekV3)] =
            splitters.as_slice()
            && numbers.pattern() == UP_TO_THREE
            && DEEPSEEK_CHINESE.contains(&chinese.pattern())
        {
            return Self::Known(Known::DeepSeekV3Whole);
        }
        match splitters.len() {
            0 => Self::Whole,
            1 => splitters.swap_remove(0),
            _ => Self::Sequence(splitters),
        }
    }

    /// Description of the splitter, for people.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Whole => "not at all".to_owned(),
            Self::Digits { individual: true } => "digits one by one".to_owned(),
            Self::Digits { individual: false } => "digits from the rest".to_owned(),
            Self::Known(known) => known.describe(),
            Self::Threes(threes) => threes.describe().to_owned(),
            Self::Runs(runs) => format!("`{}`", place(runs.pattern())),
            Self::Regex(regex) => format!("`{}`", place(regex.pattern())),
            Self::Sequence(splitters) => {
                let steps: Vec<String> = splitters.iter().map(Self::describe).collect();
                steps.join(", then ")
            }
        }
    }

    /// Splits digits from everything else, and from each other if `individual`.
    pub(crate) fn digits(individual: bool) -> Self {
        Self::Digits { individual }
    }

    /// Whether a piece always ends between two neighbouring characters, whatever the text around them, and
    /// each side is split independently.
    pub(crate) fn always_parts(&self, left: char, right: char) -> bool {
        match self {
            Self::Known(known) => known.always_parts(left, right),
            // A splitter that matches neither character leaves the boundary to the others.
            Self::Sequence(splitters) => {
                let parts = |splitter: &Self| splitter.always_parts(left, right);
                let is_blind = |splitter: &Self| matches!(splitter, Self::Runs(runs) if !runs.knows(left) && !runs.knows(right));
                splitters.iter().any(parts) && splitters.iter().all(|s| parts(s) || is_blind(s))
            }
            _ => false,
        }
    }

    /// Calls `each` with the ends of pieces, in order. Each piece begins at the end of the previous one, and the last
    /// one ends at the end of `text`; no piece is empty.
    ///
    /// # Errors
    /// [`Error`] for a text that takes more steps than any real pattern does.
    pub(crate) fn ends(&self, text: &str, mut each: impl FnMut(Ends)) -> Result<()> {
        match self {
            _ if text.is_empty() => {}
            // The most frequent pattern has a loop of its own, into which `each` is inlined.
            Self::Known(known) => scan::ends(*known, text, each),
            _ => {
                let (mut end, work) = (0, Work::of_text(text));
                self.split_dyn(text, &work, &mut |piece| {
                    end += piece.len();
                    each(Ends::one(end));
                });
                if work.is_spent() {
                    return Err(too_many_steps("pre_tokenizer", text));
                }
            }
        }
        Ok(())
    }

    /// Calls `each` with every piece.
    #[cfg(test)]
    pub(crate) fn split<'a>(&self, text: &'a str, mut each: impl FnMut(&'a str)) {
        let mut start = 0;
        let done = self.ends(text, |ends| {
            for end in places(ends) {
                each(&text[start..end]);
                start = end;
            }
        });
        done.unwrap_or_else(|error| panic!("{}: {error}", self.describe()));
    }

    /// Calls `each` with every piece; with fewer when the budget is exhausted.
    pub(crate) fn split_dyn<'a>(&self, text: &'a str, work: &Work, each: &mut dyn FnMut(&'a str)) {
        match self {
            Self::Whole => each(text),
            Self::Digits { individual } => split_digits(text, *individual, each),
            Self::Known(known) => {
                let mut start = 0;
                scan::ends(*known, text, |ends| {
                    for end in places(ends) {
                        each(&text[start..end]);
                        start = end;
                    }
                });
            }
            Self::Threes(threes) => threes.split(text, each),
            Self::Runs(runs) => runs.split(text, each),
            Self::Regex(regex) => regex.split(text, work, each),
            Self::Sequence(splitters) => split_in_turn(splitters, text, work, each),
        }
    }
}

/// The error of a text that takes more steps than a pattern of this component may.
pub(crate) fn too_many_steps(component: &'static str, text: &str) -> Error {
    let length = text.len();
    let problem = format!(
        "a text of {length} bytes takes more steps of its pattern than any real pattern takes"
    );
    Error::new(component, problem)
}

/// The places of ends.
fn places(Ends { from, mut places, .. }: Ends) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (places != 0).then(|| places.trailing_zeros())?;
        places &= places - 1;
        Some(from + at as usize)
    })
}

fn split_in_turn<'a>(
    splitters: &[Splitter],
    text: &'a str,
    work: &Work,
    each: &mut dyn FnMut(&'a str),
) {
    match splitters {
        [] => each(text),
        [first, rest @ ..] => {
            first.split_dyn(text, work, &mut |piece| split_in_turn(rest, piece, work, each));
        }
    }
}

fn split_digits<'a>(text: &'a str, individual: bool, each: &mut dyn FnMut(&'a str)) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = if first.is_numeric() && individual {
            first.len_utf8()
        } else {
            rest.find(|c: char| c.is_numeric() != first.is_numeric()).unwrap_or(rest.len())
        };
        let (piece, after) = rest.split_at(end);
        each(piece);
        rest = after;
    }
}
