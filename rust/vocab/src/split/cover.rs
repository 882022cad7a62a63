//! Check that the matches of a pattern cover every text, so that no text remains between matches.
//!
//! In: a pattern. Out: true if this is certain. Every place of a text has a match if, for each
//! character, some alternative matches that character alone in any context, and no alternative
//! matches the empty text. Alternatives with look-around are not counted: they can only add
//! matches. Cost: a look at every character.

use regex_syntax::hir::{Hir, HirKind};

use super::known_patterns::KNOWN;

/// Whether every place of every text is part of a match.
pub(crate) fn covers_every_text(pattern: &str) -> bool {
    // Possessive repetition is read by another engine; the patterns that have it are known.
    let is_possessive = pattern.contains("++") || pattern.contains("?+");
    let is_known = || KNOWN.iter().any(|(known, _)| *known == pattern);
    is_possessive && is_known() || covers(pattern).unwrap_or(false)
}

fn covers(pattern: &str) -> Option<bool> {
    let mut singles = Vec::new();
    for alternative in alternatives(pattern) {
        let Ok(hir) = regex_syntax::parse(alternative) else {
            // An alternative with look-around, or in another engine's syntax: it must not match the
            // empty text.
            let class = alternative.split_once("(?").map(|(before, _)| before)?;
            let before = regex_syntax::parse(class).ok()?;
            if before.properties().minimum_len()? == 0 {
                return Some(false);
            }
            continue;
        };
        if hir.properties().minimum_len()? == 0 {
            return Some(false);
        }
        if !hir.properties().look_set().is_empty() {
            continue;
        }
        singles.extend(single(&hir));
    }
    let class = regex_syntax::hir::ClassUnicode::new(singles);
    let mut all = regex_syntax::hir::ClassUnicode::empty();
    all.negate();
    Some(class.ranges() == all.ranges())
}

/// The characters that an expression matches alone.
fn single(hir: &Hir) -> Vec<regex_syntax::hir::ClassUnicodeRange> {
    use regex_syntax::hir::{Class, ClassUnicodeRange};
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => class.ranges().to_vec(),
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).unwrap_or_default();
            let mut chars = text.chars();
            let only = chars.next().filter(|_| chars.next().is_none());
            only.map(|c| ClassUnicodeRange::new(c, c)).into_iter().collect()
        }
        HirKind::Repetition(repetition) if repetition.min <= 1 => single(&repetition.sub),
        HirKind::Capture(capture) => single(&capture.sub),
        HirKind::Alternation(parts) => parts.iter().flat_map(single).collect(),
        // One part matches the character, and the others match nothing.
        HirKind::Concat(parts) => {
            let is_empty = |hir: &Hir| hir.properties().minimum_len() == Some(0);
            let needed: Vec<usize> = (0..parts.len()).filter(|&at| !is_empty(&parts[at])).collect();
            match needed[..] {
                [] => parts.iter().flat_map(single).collect(),
                [one] => single(&parts[one]),
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

/// The alternatives at the top of a pattern.
fn alternatives(pattern: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut depth, mut in_class, mut escaped, mut start) = (0usize, 0usize, false, 0);
    for (at, c) in pattern.char_indices() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match c {
            '\\' => escaped = true,
            '[' => in_class += 1,
            ']' => in_class = in_class.saturating_sub(1),
            _ if in_class > 0 => {}
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                found.push(&pattern[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&pattern[start..]);
    found
}

#[cfg(test)]
mod tests {
    use super::{alternatives, covers_every_text};
    use crate::split::known_patterns::KNOWN;
    use crate::split::scan::Known;

    #[test]
    fn known_patterns_cover_every_text_by_the_rule_too() {
        for (pattern, known) in KNOWN {
            // DeepSeek's pattern leaves digits to another pattern.
            let is_whole = !matches!(known, Known::DeepSeekV3 | Known::DeepSeekV3Whole);
            assert_eq!(covers_every_text(pattern), is_whole, "{pattern}");
        }
    }

    #[test]
    fn what_leaves_a_place_uncovered_is_seen() {
        for pattern in [
            r"\p{L}+|\s+",
            r"'s| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
            r"\s",
            r"[^a]|a*",
            r"[^a]|ab",
            r"^.|\n",
            r".",
            r"(?=a)|\s|\S",
        ] {
            assert!(!covers_every_text(pattern), "{pattern}");
        }
        for pattern in [r"\p{L}+|\P{L}", r"(?s:.)", r"[^a]|(a)b?", r"\s+(?!\S)|\s|\S+"] {
            assert!(covers_every_text(pattern), "{pattern}");
        }
    }

    #[test]
    fn alternatives_are_those_at_the_top() {
        assert_eq!(alternatives(r"a|(b|c)|[|]|\||d"), ["a", "(b|c)", "[|]", r"\|", "d"]);
    }
}
