//! Hand-written scanners of the known patterns: each function returns the end of the match that
//! begins at a place.
//!
//! The alternatives of a pattern are tried in its order, with the result of its quantifiers. Where
//! the expression would backtrack, the function computes the place: so it finds every match in one
//! pass, and reads each character of any text a few times at most.

use super::Ends;
use super::blocks::{self, Words};
use super::classes::{
    CHINESE, Classes, HAN, LETTER, LOWER, MARK, Mask, NEWLINE, NUMBER, SIGN, SPACE, UPPER,
};

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
        /// Whether marks belong to letters, `[\p{L}\p{M}]+`: Qwen 3.5.
        marks: bool,
    },
    /// `[^\r\n\p{L}\p{N}]?UPPER*LOWER+('s…)?|[^\r\n\p{L}\p{N}]?UPPER+LOWER*('s…)?|\p{N}{1,3}|`
    /// ` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`.
    O200k {
        contractions: Contractions,
        digits: Digits,
        /// Whether `\p{Han}+` is a piece before all else and no part of a word, and no slash joins newlines after
        /// signs: Kimi K2.
        han: bool,
    },
    /// `[ASCII sign][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|`
    /// `\s*[\r\n]+|\s+(?!\S)|\s+`.
    DeepSeekV3,
    /// DeepSeek-V3's three patterns in turn: `\p{N}{1,3}`, then Chinese and Japanese, then the one above.
    DeepSeekV3Whole,
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
            Self::Cl100k { digits: many, whole_end, marks, .. } => {
                let end = if whole_end { ", white space at the end together" } else { "" };
                let marks = if marks { ", marks with letters" } else { "" };
                format!("a pattern as cl100k_base has it, {}{end}{marks}", digits(many))
            }
            Self::O200k { digits: many, han, .. } => {
                let han = if han { ", Chinese apart" } else { "" };
                format!("a pattern as o200k_base has it, {}{han}", digits(many))
            }
            Self::DeepSeekV3 => "the pattern of DeepSeek-V3".to_owned(),
            Self::DeepSeekV3Whole => {
                "the pattern of DeepSeek-V3, digits by threes, Chinese apart".to_owned()
            }
        }
    }

    /// Whether a piece ends between two neighbouring characters in every text, and each side is split
    /// independently.
    pub(super) fn always_parts(self, left: char, right: char) -> bool {
        let classes = Classes::of_unicode();
        let (before, after) =
            (classes.of_code_point(left.into()), classes.of_code_point(right.into()));
        // Newlines join the signs or white space before them; a letter joins them in GPT-2's
        // pattern alone. No sign joins the letters before it but an apostrophe, in o200k's.
        let after_newline = self != Self::Gpt2 && before & NEWLINE != 0 && after & LETTER != 0;
        let ends_word = after & SPACE != 0 || after & SIGN != 0 && right != '\'';
        after_newline || before & LETTER != 0 && ends_word
    }
}

/// Calls `each` with the ends of a pattern's matches, and of the text between them, as
/// [`Splitter::ends`](super::Splitter::ends) does.
#[inline]
pub(super) fn ends(known: Known, text: &str, mut each: impl FnMut(Ends)) {
    let scanner = Scanner { classes: Classes::of_unicode(), text };
    let next = |at| scanner.class(at).1;
    let mut end = 0;
    let each_piece = |piece: &str| {
        end += piece.len();
        each(Ends::one(end));
    };
    // One loop for each pattern, chosen once.
    match known {
        Known::Gpt2 => pieces(text, |at| scanner.gpt2(at), next, each_piece),
        Known::Cl100k { contractions, digits, whole_end, marks: false } => scanner.blocks(
            |block| blocks::starts(block, digits, Words::Whole { marks: false }),
            |at| scanner.cl100k(at, LETTER, contractions, digits, whole_end),
            each,
        ),
        Known::Cl100k { contractions, digits, whole_end, marks: true } => scanner.blocks(
            |block| blocks::starts(block, digits, Words::Whole { marks: true }),
            |at| scanner.cl100k(at, LETTER | MARK, contractions, digits, whole_end),
            each,
        ),
        Known::O200k { contractions, digits, han } => {
            let words = Words::Cased { contractions: contractions != Contractions::No, han };
            scanner.blocks(
                |block| blocks::starts(block, digits, words),
                |at| {
                    if han {
                        scanner.kimi_k2(at, contractions, digits)
                    } else {
                        scanner.o200k(at, contractions, digits)
                    }
                },
                each,
            );
        }
        Known::DeepSeekV3 => pieces(text, |at| scanner.deepseek_v3(at), next, each_piece),
        Known::DeepSeekV3Whole => {
            // The end of the Chinese, or of the text between numbers and Chinese, that was looked at last.
            let mut section = 0;
            scanner.blocks(
                |block| blocks::starts(block, Digits::Three, Words::BetweenNumbers),
                |at| scanner.deepseek_v3_whole(at, &mut section),
                each,
            );
        }
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

    /// Calls `each` with the ends of the matches of a pattern: of a block at once, by `starts`, and elsewhere by
    /// `end_of_match`, which also gives the ends of characters of no match.
    #[inline(always)]
    fn blocks(
        self,
        starts: impl Fn(&[u8; blocks::BLOCK]) -> (u64, u64),
        mut end_of_match: impl FnMut(usize) -> usize,
        mut each: impl FnMut(Ends),
    ) {
        let bytes = self.text.as_bytes();
        let mut at = 0;
        while let Some(rest) = bytes.get(at..)
            && !rest.is_empty()
        {
            if let Some(block) = rest.first_chunk() {
                let (starts, wide) = starts(block);
                if let Some(last) = starts.checked_ilog2() {
                    each(Ends { from: at, places: starts, wide });
                    at += last as usize;
                    continue;
                }
            }
            at = end_of_match(at);
            each(Ends::one(at));
        }
    }

    #[inline]
    fn cl100k(
        self,
        at: usize,
        letters: Mask,
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
        if class & letters != 0 {
            return self.run(next, letters);
        }
        if class & NUMBER != 0 {
            return self.digits(next, digits);
        }
        let (second, after) = self.class(next);
        if second & letters != 0 && class & NEWLINE == 0 {
            return self.run(after, letters);
        }
        let signs = |from| self.run_without(from, SPACE | NUMBER | letters);
        if class & SPACE == 0 {
            return self.run(signs(next), NEWLINE);
        }
        if first == b' ' && second & (SPACE | NUMBER | letters) == 0 && next < self.text.len() {
            return self.run(signs(after), NEWLINE);
        }
        self.lines_or_spaces(at, whole_end)
    }

    #[inline]
    fn kimi_k2(self, at: usize, contractions: Contractions, digits: Digits) -> usize {
        let end = self.run(at, HAN);
        if end > at {
            return end;
        }
        let is_newline = |byte: &u8| matches!(byte, b'\r' | b'\n');
        self.cased(at, |from| self.word(from, HAN), contractions, digits, is_newline)
    }

    #[inline]
    fn o200k(self, at: usize, contractions: Contractions, digits: Digits) -> usize {
        let is_slash_or_newline = |byte: &u8| matches!(byte, b'\r' | b'\n' | b'/');
        self.cased(at, |from| self.word(from, 0), contractions, digits, is_slash_or_newline)
    }

    /// The end of o200k's match. `word` finds words, and what `joins` directly after signs joins them.
    #[inline(always)]
    fn cased(
        self,
        at: usize,
        word: impl Fn(usize) -> Word,
        contractions: Contractions,
        digits: Digits,
        joins: impl Fn(&u8) -> bool,
    ) -> usize {
        let (class, next) = self.class(at);
        let end = if class & LETTER != 0 {
            word(at).end
        } else if class & (NUMBER | NEWLINE) != 0 {
            at
        } else {
            // The one character that may precede a word. A mark may also be the first character of
            // the word.
            let Word { end, is_lower } = word(next);
            match end > next {
                true if class & MARK == 0 || is_lower => end,
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
        let with_joined = |from: usize| {
            let bytes = &self.text.as_bytes()[from..];
            let run = bytes.iter().position(|byte| !joins(byte));
            from + run.unwrap_or(bytes.len())
        };
        if class & SPACE == 0 {
            return with_joined(self.signs(next));
        }
        let (second, after) = self.class(next);
        if self.byte(at) == b' '
            && second & (SPACE | LETTER | NUMBER) == 0
            && next < self.text.len()
        {
            return with_joined(self.signs(after));
        }
        self.lines_or_spaces(at, false)
    }

    /// The match of `UPPER*LOWER+|UPPER+LOWER*`, of characters that are in none of the classes `without`.
    #[inline(always)]
    fn word(self, from: usize, without: Mask) -> Word {
        // The end of the run of UPPER, and the end of its last character that is also LOWER.
        let (mut at, mut last_both) = (from, None);
        loop {
            let (class, next) = self.class(at);
            if class & without != 0 {
                break;
            }
            if class & UPPER == 0 {
                if class & LOWER != 0 {
                    return Word { end: self.run_of(next, LOWER, without), is_lower: true };
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

    /// The end of the characters from a place on that are in `classes` and in none of `without`.
    #[inline(always)]
    fn run_of(self, from: usize, classes: Mask, without: Mask) -> usize {
        if without == 0 {
            return self.run(from, classes);
        }
        let mut at = from;
        loop {
            let (class, next) = self.class(at);
            if class & classes == 0 || class & without != 0 {
                return at;
            }
            at = next;
        }
    }

    /// The end of the piece that begins at a place: a match, or the text before the next one.
    #[inline]
    fn deepseek_v3_whole(self, at: usize, section: &mut usize) -> usize {
        let (class, next) = self.class(at);
        if class & NUMBER != 0 {
            return self.digits(next, Digits::Three);
        }
        if at >= *section {
            let is_chinese = class & CHINESE != 0;
            *section = if is_chinese {
                self.run(next, CHINESE)
            } else {
                self.run_without(next, NUMBER | CHINESE)
            };
        }
        let within = Self { text: &self.text[..*section], ..self };
        let end = within.deepseek_v3(at);
        if end > at {
            return end;
        }
        let mut end = next;
        while end < *section && within.deepseek_v3(end) == end {
            end = self.class(end).1;
        }
        end
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
