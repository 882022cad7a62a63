//! Hand-written scanners of the known patterns: each function returns the end of the match that
//! begins at a place.
//!
//! The alternatives of a pattern are tried in its order, with the result of its quantifiers. Where
//! the expression would backtrack, the function computes the place: so it finds every match in one
//! pass, and reads each character of any text a few times at most.

use super::blocks;
use super::classes::{Classes, LETTER, LOWER, MARK, Mask, NEWLINE, NUMBER, SIGN, SPACE, UPPER};

/// Maximum number of digits in a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Digits {
    One,
    Three,
    Many,
}

/// Which spellings of `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll` and `'d` are pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contractions {
    /// None.
    No,
    /// As spelled here: a case-sensitive pattern.
    Lower,
    /// In either case.
    Ascii,
    /// In either case, and `'ſ`, whose upper case is `S`: a pattern with `(?i)`.
    Folded,
}

/// A family of patterns, with the differences of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// `'s…| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
    Gpt2,
    /// `'s…|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`.
    Cl100k {
        contractions: Contractions,
        digits: Digits,
        /// Whether white space at the end of the text is one piece, newlines and all: `\s++$`.
        whole_end: bool,
    },
    /// `[^\r\n\p{L}\p{N}]?UPPER*LOWER+('s…)?|[^\r\n\p{L}\p{N}]?UPPER+LOWER*('s…)?|\p{N}{1,3}|`
    /// ` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`.
    O200k { contractions: Contractions, digits: Digits },
    /// `[ASCII sign][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|`
    /// `\s*[\r\n]+|\s+(?!\S)|\s+`.
    DeepSeekV3,
}

impl Known {
    /// The pattern in words.
    pub(super) fn describe(self) -> String {
        let digits = |digits| match digits {
            Digits::One => "digits one by one",
            Digits::Three => "digits by threes",
            Digits::Many => "digits together",
        };
        match self {
            Self::Gpt2 => "the pattern of GPT-2".to_owned(),
            Self::Cl100k { digits: many, whole_end, .. } => {
                let end = if whole_end { ", white space at the end together" } else { "" };
                format!("a pattern as cl100k_base has it, {}{end}", digits(many))
            }
            Self::O200k { digits: many, .. } => {
                format!("a pattern as o200k_base has it, {}", digits(many))
            }
            Self::DeepSeekV3 => "the pattern of DeepSeek-V3".to_owned(),
        }
    }

    /// Whether a piece ends between two neighbouring characters in every text, and each side is split
    /// independently.
    pub(super) fn always_parts(self, left: char, right: char) -> bool {
        let classes = Classes::of_unicode();
        let (left, right) =
            (classes.of_code_point(left.into()), classes.of_code_point(right.into()));
        // Newlines join the signs or white space before them; a letter joins them in GPT-2's
        // pattern alone.
        let after_newline = self != Self::Gpt2 && left & NEWLINE != 0 && right & LETTER != 0;
        after_newline || left & LETTER != 0 && right & SPACE != 0
    }
}

/// Calls `each` with the ends of a pattern's matches, and of the text between them, as
/// [`Splitter::ends`](super::Splitter::ends) does.
#[inline]
pub(super) fn ends(known: Known, text: &str, mut each: impl FnMut(usize, u64)) {
    let scanner = Scanner { classes: Classes::of_unicode(), text };
    let next = |at| scanner.class(at).1;
    let mut end = 0;
    let each_piece = |piece: &str| {
        end += piece.len();
        each(end, 1);
    };
    // One loop for each pattern, chosen once.
    match known {
        Known::Gpt2 => pieces(text, |at| scanner.gpt2(at), next, each_piece),
        Known::Cl100k { contractions, digits, whole_end } => {
            scanner.scan_cl100k(contractions, digits, whole_end, each);
        }
        Known::O200k { contractions, digits } => {
            pieces(text, |at| scanner.o200k(at, contractions, digits), next, each_piece);
        }
        Known::DeepSeekV3 => pieces(text, |at| scanner.deepseek_v3(at), next, each_piece),
    }
}

/// Calls `each` with the matches and the text between them. An empty match does not count; then `next`
/// is the place where the next one may begin.
#[inline]
pub(super) fn pieces<'a>(
    text: &'a str,
    end_of_match: impl Fn(usize) -> usize,
    next: impl Fn(usize) -> usize,
    mut each: impl FnMut(&'a str),
) {
    let (mut done, mut at) = (0, 0);
    while at < text.len() {
        let end = end_of_match(at);
        if end == at {
            at = next(at);
            continue;
        }
        if done < at {
            each(&text[done..at]);
        }
        each(&text[at..end]);
        (done, at) = (end, end);
    }
    if done < text.len() {
        each(&text[done..]);
    }
}

/// A match of `UPPER*LOWER+|UPPER+LOWER*`: it ends where it begins if there is none.
struct Word {
    end: usize,
    /// Whether the first alternative matched.
    is_lower: bool,
}

#[derive(Clone, Copy)]
struct Scanner<'a> {
    classes: &'a Classes,
    text: &'a str,
}

impl Scanner<'_> {
    #[inline]
    fn class(self, at: usize) -> (Mask, usize) {
        self.classes.at(self.text, at)
    }

    #[inline]
    fn run(self, from: usize, classes: Mask) -> usize {
        self.classes.run(self.text, from, classes)
    }

    #[inline]
    fn run_without(self, from: usize, classes: Mask) -> usize {
        self.classes.run_without(self.text, from, classes)
    }

    #[inline]
    fn byte(self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    #[inline]
    fn gpt2(self, at: usize) -> usize {
        let first = self.byte(at);
        if first == b'\'' {
            let end = self.contraction(at, Contractions::Lower);
            if end > at {
                return end;
            }
        }
        let (class, next) = self.class(at);
        let (after_space, start) =
            if first == b' ' { (self.class(next).0, next) } else { (class, at) };
        if after_space & LETTER != 0 {
            return self.run(start, LETTER);
        }
        if after_space & NUMBER != 0 {
            return self.run(start, NUMBER);
        }
        if after_space & SPACE == 0 && start < self.text.len() {
            return self.run_without(start, SPACE | LETTER | NUMBER);
        }
        self.spaces(at)
    }

    /// Calls `each` with the ends of the matches of cl100k's family. Every character is part of a
    /// match.
    #[inline]
    fn scan_cl100k(
        self,
        contractions: Contractions,
        digits: Digits,
        whole_end: bool,
        mut each: impl FnMut(usize, u64),
    ) {
        let bytes = self.text.as_bytes();
        let mut at = 0;
        while let Some(rest) = bytes.get(at..)
            && !rest.is_empty()
        {
            let is_ascii = rest.iter().take(blocks::AHEAD + 1).all(u8::is_ascii);
            if let Some(block) = rest.first_chunk().filter(|_| is_ascii) {
                let starts = blocks::starts(block, digits);
                if let Some(last) = starts.checked_ilog2() {
                    each(at, starts);
                    at += last as usize;
                    continue;
                }
            }
            at = self.cl100k(at, contractions, digits, whole_end);
            each(at, 1);
        }
    }

    #[inline]
    fn cl100k(
        self,
        at: usize,
        contractions: Contractions,
        digits: Digits,
        whole_end: bool,
    ) -> usize {
        let first = self.byte(at);
        if first == b'\'' {
            let end = self.contraction(at, contractions);
            if end > at {
                return end;
            }
        }
        let (class, next) = self.class(at);
        if class & LETTER != 0 {
            return self.run(next, LETTER);
        }
        if class & NUMBER != 0 {
            return self.digits(next, digits);
        }
        let (second, after) = self.class(next);
        if second & LETTER != 0 && class & NEWLINE == 0 {
            return self.run(after, LETTER);
        }
        if class & SPACE == 0 {
            return self.run(self.signs(next), NEWLINE);
        }
        if first == b' ' && second & (SPACE | LETTER | NUMBER) == 0 && next < self.text.len() {
            return self.run(self.signs(after), NEWLINE);
        }
        self.lines_or_spaces(at, whole_end)
    }

    #[inline]
    fn o200k(self, at: usize, contractions: Contractions, digits: Digits) -> usize {
        let (class, next) = self.class(at);
        let end = if class & LETTER != 0 {
            self.word(at).end
        } else if class & (NUMBER | NEWLINE) != 0 {
            at
        } else {
            // The one character that may precede a word. A mark may also be the first character of
            // the word.
            let word = self.word(next);
            match word.end > next {
                true if class & MARK == 0 || word.is_lower => word.end,
                _ if class & MARK != 0 => next,
                _ => at,
            }
        };
        if end > at {
            return self.contraction(end, contractions);
        }
        if class & NUMBER != 0 {
            return self.digits(next, digits);
        }
        let is_slash_or_newline = |from: usize| {
            let bytes = &self.text.as_bytes()[from..];
            let run = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n' | b'/'));
            from + run.unwrap_or(bytes.len())
        };
        if class & SPACE == 0 {
            return is_slash_or_newline(self.signs(next));
        }
        let (second, after) = self.class(next);
        if self.byte(at) == b' '
            && second & (SPACE | LETTER | NUMBER) == 0
            && next < self.text.len()
        {
            return is_slash_or_newline(self.signs(after));
        }
        self.lines_or_spaces(at, false)
    }

    /// The match of `UPPER*LOWER+|UPPER+LOWER*`.
    #[inline]
    fn word(self, from: usize) -> Word {
        // The end of the run of UPPER, and the end of its last character that is also LOWER.
        let (mut at, mut last_both) = (from, None);
        loop {
            let (class, next) = self.class(at);
            if class & UPPER == 0 {
                if class & LOWER != 0 {
                    return Word { end: self.run(next, LOWER), is_lower: true };
                }
                break;
            }
            at = next;
            if class & LOWER != 0 {
                last_both = Some(at);
            }
        }
        // No LOWER follows, so the expression backtracks to a LOWER among the UPPER. Without one, the
        // second alternative takes all of them.
        Word { end: last_both.unwrap_or(at), is_lower: last_both.is_some() }
    }

    #[inline]
    fn deepseek_v3(self, at: usize) -> usize {
        let first = self.byte(at);
        if first.is_ascii_punctuation() {
            let bytes = &self.text.as_bytes()[at + 1..];
            let letters = bytes.iter().position(|byte| !byte.is_ascii_alphabetic());
            let letters = letters.unwrap_or(bytes.len());
            if letters > 0 {
                return at + 1 + letters;
            }
        }
        let (class, next) = self.class(at);
        let end = self.run(at, LETTER | MARK);
        if end > at {
            return end;
        }
        let (second, after) = self.class(next);
        if class & (NEWLINE | SIGN) == 0 && second & (LETTER | MARK) != 0 {
            return self.run(after, LETTER | MARK);
        }
        if class & SIGN != 0 {
            return self.run(self.run(next, SIGN), NEWLINE);
        }
        if first == b' ' && second & SIGN != 0 {
            return self.run(self.run(after, SIGN), NEWLINE);
        }
        if class & SPACE != 0 { self.lines_or_spaces(at, false) } else { at }
    }

    /// The end of `[^\s\p{L}\p{N}]*`.
    #[inline]
    fn signs(self, from: usize) -> usize {
        self.run_without(from, SPACE | LETTER | NUMBER)
    }

    /// The end of the digits; the first one ends at `from`.
    #[inline]
    fn digits(self, from: usize, digits: Digits) -> usize {
        let more = match digits {
            Digits::One => 0,
            Digits::Three => 2,
            Digits::Many => return self.run(from, NUMBER),
        };
        let mut at = from;
        for _ in 0..more {
            let (class, next) = self.class(at);
            if class & NUMBER == 0 {
                break;
            }
            at = next;
        }
        at
    }

    /// The end of `\s*[\r\n]+|\s+(?!\S)|\s+` at white space.
    #[inline]
    fn lines_or_spaces(self, at: usize, whole_end: bool) -> usize {
        let end = self.run(at, SPACE);
        if whole_end && end == self.text.len() {
            return end;
        }
        let spaces = &self.text.as_bytes()[at..end];
        match spaces.iter().rposition(|byte| matches!(byte, b'\r' | b'\n')) {
            Some(newline) => at + newline + 1,
            None => self.without_last(at, end),
        }
    }

    /// The end of `\s+(?!\S)|\s+` at white space.
    #[inline]
    fn spaces(self, at: usize) -> usize {
        self.without_last(at, self.run(at, SPACE))
    }

    /// White space before other text leaves its last character to that text, unless it has only
    /// one.
    #[inline]
    fn without_last(self, at: usize, end: usize) -> usize {
        if end == self.text.len() {
            return end;
        }
        match self.text[at..end].char_indices().next_back() {
            Some((last, _)) if last > 0 => at + last,
            _ => end,
        }
    }

    /// The end of a contraction, or its beginning where there is none.
    #[inline]
    fn contraction(self, at: usize, contractions: Contractions) -> usize {
        if contractions == Contractions::No || self.byte(at) != b'\'' {
            return at;
        }
        let fold = |byte: u8| {
            if contractions == Contractions::Lower { byte } else { byte.to_ascii_lowercase() }
        };
        match (fold(self.byte(at + 1)), fold(self.byte(at + 2))) {
            (b's' | b't' | b'm' | b'd', _) => at + 2,
            (b'r' | b'v', b'e') | (b'l', b'l') => at + 3,
            // `ſ` in UTF-8.
            (0xC5, 0xBF) if contractions == Contractions::Folded => at + 3,
            _ => at,
        }
    }
}
