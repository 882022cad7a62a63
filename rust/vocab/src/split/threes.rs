//! Digits by threes from the end of their run, as numbers are read: `1234567` is `1`, `234` and `567`.
//!
//! In: a text. Out: its pieces. Cost: linear. The patterns for this rule look ahead over the rest of the run
//! at each digit, which is quadratic.

use super::classes::{Classes, Mask, ranges};
use std::sync::LazyLock;

const DIGIT: Mask = 1;
const NUMBER: Mask = 2;
const WORD: Mask = 4;

/// The word characters of Oniguruma's `\b`: without joiners, and with the six other numbers of
/// Latin-1.
pub(super) const ONIGURUMA_WORD: &str = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}²³¹¼½¾]";

/// The classes of characters in these patterns.
static CLASSES: LazyLock<Classes> = LazyLock::new(|| {
    let patterns = [(DIGIT, r"\d"), (NUMBER, r"\p{N}"), (WORD, ONIGURUMA_WORD)];
    let classes = patterns.iter().flat_map(|&(mask, pattern)| {
        let hir = regex_syntax::parse(pattern).ok();
        let ranges = hir.as_ref().and_then(ranges).unwrap_or_default();
        ranges.into_iter().map(move |range| (mask, range))
    });
    Classes::new(classes)
});

/// A rule for digits by threes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threes {
    /// Numbers of any script and kind, in any context: the model `AFMoE`.
    Numbers,
    /// Digits that no letter follows.
    BeforeBoundary,
    /// The places before the last three digits of a run, the last six, and so on.
    Places,
}

/// Each rule, and its pattern, if it has one.
const PATTERNS: [(&str, Threes); 2] =
    [(r"\d{1,3}(?=(?:\d{3})*\b)", Threes::BeforeBoundary), (r"(?=(\d{3})+(?!\d))", Threes::Places)];

impl Threes {
    pub(super) fn from_pattern(pattern: &str) -> Option<Self> {
        PATTERNS.iter().find(|(known, _)| *known == pattern).map(|(_, threes)| *threes)
    }

    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Numbers => "numbers by threes from the right",
            Self::BeforeBoundary => "digits that no letter follows by threes from the right",
            Self::Places => "before each three digits from the right",
        }
    }

    /// Calls `each` with every piece.
    pub(super) fn split<'a>(self, text: &'a str, each: &mut dyn FnMut(&'a str)) {
        let class = if self == Self::Numbers { NUMBER } else { DIGIT };
        let (mut done, mut at) = (0, 0);
        let mut cut = |place: usize| {
            if done < place {
                each(&text[done..place]);
                done = place;
            }
        };
        while at < text.len() {
            let start = CLASSES.run_without(text, at, class);
            let end = CLASSES.run(text, start, class);
            at = end;
            let is_word = CLASSES.at(text, end).0 & WORD != 0;
            if start == end || self == Self::BeforeBoundary && is_word {
                continue;
            }
            let count = text[start..end].chars().count();
            let places = text[start..end].char_indices().enumerate();
            let groups = places.filter(|(nth, _)| (count - nth).is_multiple_of(3));
            if self != Self::Places {
                cut(start);
            }
            groups.for_each(|(_, (place, _))| cut(start + place));
            if self != Self::Places {
                cut(end);
            }
        }
        cut(text.len());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ONIGURUMA_WORD, PATTERNS, Threes};

    fn pieces(threes: Threes, text: &str) -> Vec<&str> {
        let mut pieces = Vec::new();
        threes.split(text, &mut |piece| pieces.push(piece));
        pieces
    }

    proptest! {
        #[test]
        fn threes_are_their_patterns(text in "[0-9٣½Ⅷ中a_é\u{301}\u{200d} .,]{0,24}") {
            for (pattern, threes) in PATTERNS {
                // A word ends here: digits precede, and no word character follows.
                let pattern = pattern.replace(r"\b", &format!("(?!{ONIGURUMA_WORD})"));
                let regex = fancy_regex::Regex::new(&pattern).unwrap();
                let mut expected = vec![0];
                for found in regex.find_iter(&text) {
                    let found = found.unwrap();
                    expected.extend([found.start(), found.end()]);
                }
                expected.push(text.len());
                expected.dedup();
                let expected: Vec<&str> =
                    expected.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect();
                prop_assert_eq!(pieces(threes, &text), expected, "{}", pattern);
            }
        }

        #[test]
        fn numbers_stand_by_threes(text in "[0-9٣½Ⅷa .]{0,24}") {
            let regex = fancy_regex::Regex::new(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))").unwrap();
            let mut done = 0;
            let mut expected = Vec::new();
            for found in regex.find_iter(&text) {
                let found = found.unwrap();
                expected.extend([&text[done..found.start()], found.as_str()]);
                done = found.end();
            }
            expected.push(&text[done..]);
            expected.retain(|piece| !piece.is_empty());
            prop_assert_eq!(pieces(Threes::Numbers, &text), expected);
        }
    }

    #[test]
    fn examples() {
        let all = ["a", "1", "234", "567", " ", "12", ".", "345", "b"];
        assert_eq!(pieces(Threes::Numbers, "a1234567 12.345b"), all);
        let all = ["a", "1", "234", "567", " ", "12", ".345b"];
        assert_eq!(pieces(Threes::BeforeBoundary, "a1234567 12.345b"), all);
        let all = ["a1", "234", "567 12.", "345b"];
        assert_eq!(pieces(Threes::Places, "a1234567 12.345b"), all);
    }
}
