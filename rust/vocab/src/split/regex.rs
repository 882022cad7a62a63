//! Any regular expression as a splitter, with bounded work: patterns come from untrusted files.
//!
//! Look-around needs backtracking, which is linear for the patterns of vocabularies and worse for
//! hostile ones. The steps of a text are counted over all its pieces; a text that exceeds the steps
//! of any real pattern is refused.

#[cfg(feature = "foreign")]
use std::ops::Range;
use std::sync::Arc;

use super::matcher::{Search, Work};
use super::program::Program;
use crate::error::{Error, Result};

/// Limit of a pattern's length; real patterns have some hundred bytes.
const MAX_PATTERN_BYTES: usize = 16 << 10;

/// The regular expression engine that a pattern is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Rust's `regex` and `fancy-regex`: tiktoken.
    Rust,
    /// Oniguruma: Hugging Face's `tokenizers`. `^` and `$` match at the ends of lines.
    Oniguruma,
}

/// Refuses syntax with another meaning in Oniguruma: there `a{1,3}+` is a repetition of an interval
/// and not a possessive interval, `(?m)` lets a dot match newlines, and word characters differ.
pub(super) fn check_oniguruma(pattern: &str) -> Result<()> {
    let is_interval = |before: &str| {
        before.rsplit_once('{').is_some_and(|(_, counts)| {
            !counts.is_empty() && counts.bytes().all(|byte| byte.is_ascii_digit() || byte == b',')
        })
    };
    let repeats_interval =
        pattern.match_indices("}+").any(|(at, _)| is_interval(&pattern[..at])).then_some("}+");
    // A backslash and the character after it, which may be a backslash too.
    let mut escaped = pattern.split('\\').skip(1);
    let mut escape = None;
    while let Some(part) = escaped.next() {
        match part.chars().next() {
            None => _ = escaped.next(),
            Some(c @ ('w' | 'W' | 'b' | 'B' | 'h' | 'H' | 'v' | 'R' | 'X' | 'K' | 'G' | 'O')) => {
                escape = Some(format!("\\{c}"));
            }
            Some(_) => {}
        }
    }
    let flag = pattern.contains("(?m").then_some("(?m");
    match repeats_interval.or(flag).map(str::to_owned).or(escape) {
        None => Ok(()),
        Some(what) => {
            let problem = format!("has a pattern with `{what}`, which is not implemented");
            Err(Error::new("pre_tokenizer", problem))
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Regex {
    program: Arc<Program>,
    pattern: Arc<str>,
}

/// Refuses a pattern that is longer than any real one.
pub(super) fn check_length(pattern: &str) -> Result<()> {
    if pattern.len() > MAX_PATTERN_BYTES {
        let problem = format!("has a pattern longer than {MAX_PATTERN_BYTES} bytes");
        return Err(Error::new("pre_tokenizer", problem));
    }
    Ok(())
}

impl Regex {
    pub(super) fn new(pattern: &str, dialect: Dialect) -> Result<Self> {
        check_length(pattern)?;
        let program = Program::new(pattern, dialect == Dialect::Oniguruma)
            .map_err(|problem| Error::new("pre_tokenizer", format!("has a pattern {problem}")))?;
        Ok(Self { program: Arc::new(program), pattern: pattern.into() })
    }

    /// A pattern of Hugging Face's files.
    ///
    /// # Errors
    /// [`Error`] for a pattern that is invalid, or has another meaning in Oniguruma.
    #[cfg(feature = "foreign")]
    pub(crate) fn of_oniguruma(pattern: &str) -> Result<Self> {
        check_oniguruma(pattern)?;
        Self::new(pattern, Dialect::Oniguruma)
    }

    /// Calls `each` with every match, in Oniguruma's order: no empty match at the end of the previous one.
    /// Stops when the budget is exhausted.
    #[cfg(feature = "foreign")]
    pub(crate) fn matches(&self, text: &str, work: &Work, each: &mut dyn FnMut(Range<usize>)) {
        let (mut from, mut last) = (0, None);
        let mut search = Search::new(&self.program, text, work);
        while let Some(found) = search.find(from) {
            if found.is_empty() && last == Some(found.end) {
                let Some(next) = text[from..].chars().next() else { break };
                from += next.len_utf8();
                continue;
            }
            from = found.end;
            last = Some(from);
            each(found);
        }
    }

    /// The pattern.
    pub(super) fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Calls `each` with the matches and the text between them; with the rest when the budget is
    /// exhausted.
    pub(super) fn split<'a>(&self, text: &'a str, work: &Work, each: &mut dyn FnMut(&'a str)) {
        let mut done = 0;
        let mut from = 0;
        let mut search = Search::new(&self.program, text, work);
        while let Some(found) = search.find(from) {
            from = found.end;
            if found.is_empty() {
                // An empty match: a piece ends here, and the search continues after the next
                // character.
                if done < from {
                    each(&text[done..from]);
                    done = from;
                }
                let Some(next) = text[from..].chars().next() else { break };
                from += next.len_utf8();
                continue;
            }
            if done < found.start {
                each(&text[done..found.start]);
            }
            done = found.end;
            each(&text[found]);
        }
        if done < text.len() {
            each(&text[done..]);
        }
    }
}
