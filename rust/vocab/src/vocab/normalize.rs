//! Normalisation of text before encoding.
//!
//! In: a text. Out: the normalised text, borrowed if nothing changes. One pass without tables
//! recognises nearly every text that does not change. Every normalisation is idempotent.
//!
//! The Unicode forms are those of the Hugging Face tokenizers, from the crate that they use. Its
//! tables are of Unicode 9: it composes and reorders no later character, and neither do we.

use std::borrow::Cow;

use unicode_normalization_alignments::char::canonical_combining_class;
use unicode_normalization_alignments::{
    IsNormalized, UnicodeNormalization, is_nfc_quick, is_nfd_quick, is_nfkc_quick, is_nfkd_quick,
};

use crate::bpe::SPACE_MARK;
use crate::error::place;
use crate::utf8::{char_at, prefix_of_three};

/// A normalisation; applying it twice changes nothing more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Normalizer {
    /// Text stays as it is.
    #[default]
    Identity,
    /// SentencePiece's `remove_extra_whitespaces`.
    CollapseSpaces,
    /// Canonical composition: Qwen.
    Nfc,
    /// Canonical decomposition.
    Nfd,
    /// Compatibility composition.
    Nfkc,
    /// Compatibility decomposition.
    Nfkd,
    /// Every character in lower case, independently.
    Lowercase,
    /// No white space at the start, or at the end.
    Strip {
        /// At the start.
        left: bool,
        /// At the end.
        right: bool,
    },
    /// Every occurrence of one string replaced: see [`Normalizer::replace`].
    Replace {
        /// Looked for, from left to right.
        pattern: String,
        /// Put in its place.
        content: String,
    },
}

impl Normalizer {
    /// The normalisation that replaces a string; `None` unless it is certainly idempotent. It is if
    /// the replacement is not empty and shares no character with the searched string.
    pub(crate) fn replace(pattern: &str, content: &str) -> Option<Self> {
        let is_final = !pattern.is_empty()
            && !content.is_empty()
            && !content.chars().any(|c| pattern.contains(c));
        is_final.then(|| Self::Replace { pattern: pattern.into(), content: content.into() })
    }

    /// The normalised text, borrowed where nothing changes.
    pub(crate) fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self {
            Self::CollapseSpaces => collapse_spaces(text),
            Self::Nfc => compose(text),
            Self::Nfd if text.is_ascii() || is_nfd_quick(text.chars()) == IsNormalized::Yes => {
                Cow::Borrowed(text)
            }
            Self::Nfkc if text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes => {
                Cow::Borrowed(text)
            }
            Self::Nfkd if text.is_ascii() || is_nfkd_quick(text.chars()) == IsNormalized::Yes => {
                Cow::Borrowed(text)
            }
            Self::Nfd => Cow::Owned(text.nfd().map(|(c, _)| c).collect()),
            Self::Nfkc => Cow::Owned(text.nfkc().map(|(c, _)| c).collect()),
            Self::Nfkd => Cow::Owned(text.nfkd().map(|(c, _)| c).collect()),
            // Not `str::to_lowercase`, whose result for a sigma depends on its context.
            Self::Lowercase if text.chars().all(|c| c.to_lowercase().eq([c])) => {
                Cow::Borrowed(text)
            }
            Self::Lowercase => Cow::Owned(text.chars().flat_map(char::to_lowercase).collect()),
            Self::Strip { left, right } => {
                let text = if *left { text.trim_start() } else { text };
                Cow::Borrowed(if *right { text.trim_end() } else { text })
            }
            Self::Replace { pattern, content } if text.contains(pattern) => {
                Cow::Owned(text.replace(pattern, content))
            }
            Self::Identity | Self::Replace { .. } => Cow::Borrowed(text),
        }
    }

    /// Description, for people.
    pub(crate) fn describe(&self) -> String {
        let word = match self {
            Self::Identity => "nothing",
            Self::CollapseSpaces => "runs of spaces become one, none is left at the ends",
            Self::Nfc => "NFC",
            Self::Nfd => "NFD",
            Self::Nfkc => "NFKC",
            Self::Nfkd => "NFKD",
            Self::Lowercase => "lower case",
            Self::Strip { left: true, right: true } => "no white space at the ends",
            Self::Strip { left, .. } if *left => "no white space at the start",
            Self::Strip { .. } => "no white space at the end",
            Self::Replace { pattern, content } => {
                return format!("`{}` becomes `{}`", place(pattern), place(content));
            }
        };
        word.to_owned()
    }

    /// Whether a string is found in a text at the same places before normalisation and after it.
    pub(crate) fn leaves(&self, found: &str) -> bool {
        // White space and most ASCII signs compose with nothing, and no character becomes one of
        // them.
        let is_alone = |c: char| {
            c.is_ascii_whitespace()
                || c.is_ascii_punctuation() && !matches!(c, '<' | '=' | '>' | ';' | '`')
        };
        match self {
            Self::Identity => true,
            Self::Nfc => found.chars().all(is_alone),
            _ => false,
        }
    }

    /// Whether its result depends on the ends of the text, or on white space anywhere in it.
    pub(super) fn is_of_whole_texts(&self) -> bool {
        matches!(self, Self::CollapseSpaces | Self::Strip { .. })
    }

    /// Whether white space is collapsed, which loses text of messages.
    pub(crate) fn collapses_spaces(&self) -> bool {
        matches!(self, Self::CollapseSpaces)
    }
}

/// Canonical composition. No character before a stable one composes with it. So only runs of
/// unstable characters are normalised, each with the character before it.
fn compose(text: &str) -> Cow<'_, str> {
    // The first bytes of characters from U+0300 on are greater than all other bytes.
    if text.bytes().fold(0, u8::max) < 0xCC {
        return Cow::Borrowed(text);
    }
    let mut composed = String::new();
    // Length of the copied part, and the beginning of the last stable character.
    let (mut done, mut stable) = (0, 0);
    while let Some((at, length)) = next_unstable(text, &mut stable) {
        let rest = &text[at + length..];
        let after = rest.find(is_stable).unwrap_or(rest.len());
        let end = at + length + after;
        let part = &text[stable..end];
        let made = || part.nfc().map(|(c, _)| c);
        // A character that may compose with others mostly has no neighbour that it composes with.
        if is_nfc_quick(part.chars()) != IsNormalized::Yes && !part.chars().eq(made()) {
            composed.push_str(&text[done..stable]);
            composed.extend(made());
            done = end;
        }
        stable = end;
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    composed.push_str(&text[done..]);
    Cow::Owned(composed)
}

/// The first unstable character from `stable` on, as place and length; `stable` becomes the place of
/// the character before it, if there is one.
fn next_unstable(text: &str, stable: &mut usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut at = *stable;
    loop {
        // The last known stable character, which begins here or later.
        let from = at;
        while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<32>())
            && chunk.is_ascii()
        {
            at += 32;
        }
        while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let ascii = (u64::from_le_bytes(*word) & WIDE).trailing_zeros() as usize / 8;
            at += ascii;
            if ascii < 8 {
                break;
            }
        }
        if from < at {
            *stable = at - 1;
        }
        // Runs of characters of three bytes: Chinese and its neighbours; and of four: emoji.
        loop {
            if let Some(prefix) = prefix_of_three(bytes, at)
                && (COMMON[prefix] == u64::MAX || COMMON[prefix] >> (bytes[at + 2] & 63) & 1 != 0)
            {
                *stable = at;
                at += 3;
            } else if let Some(&[0xF0, 0x9F, 0x80..=0xAB, _]) =
                bytes.get(at..).and_then(|rest| rest.first_chunk::<4>())
            {
                *stable = at;
                at += 4;
            } else {
                break;
            }
        }
        if at == bytes.len() {
            return None;
        }
        if bytes[at].is_ascii() {
            *stable = at;
            at += 1;
            continue;
        }
        let (c, length) = char_at(bytes, at);
        if !char::from_u32(c).is_some_and(is_stable) {
            return Some((at, length));
        }
        *stable = at;
        at += length;
    }
}

/// The high bit of each byte.
const WIDE: u64 = 0x8080_8080_8080_8080;

/// Whether a character may compose with the one before it, or change places with it.
pub fn may_join(c: char) -> bool {
    !is_stable(c)
}

/// Whether canonical composition leaves a character as it is and joins it with nothing before it.
fn is_stable(c: char) -> bool {
    COMMON.get(c as usize / 64).is_some_and(|word| word >> (c as u32 % 64) & 1 != 0)
        || canonical_combining_class(c) == 0 && is_nfc_quick([c].into_iter()) == IsNormalized::Yes
}

/// A bit for each common character below U+20000: a word for each sixty-four characters, which
/// differ only in their last byte.
static COMMON: [u64; 0x2_0000 / 64] = {
    let mut common = [0; 0x2_0000 / 64];
    let mut c = 0;
    while c < 0x2_0000 {
        if let Some(common_char) = char::from_u32(c)
            && is_common(common_char)
        {
            common[c as usize / 64] |= 1 << (c % 64);
        }
        c += 1;
    }
    common
};

/// Characters that are known to be stable: whole scripts and blocks, without characters that
/// compose, reorder or decompose.
const fn is_common(c: char) -> bool {
    c < '\u{300}'
        || matches!(
            c,
            // Chinese and Japanese, Korean, private use, wide forms.
            '\u{309B}'..='\u{A66E}'
                | '\u{2E00}'..='\u{3029}'
                | '\u{3030}'..='\u{3098}'
                | '\u{ABEE}'..='\u{F8FF}'
                | '\u{FE30}'..='\u{FFFF}'
                // Marks, arrows, signs; emoji and their variation selectors.
                | '\u{2002}'..='\u{20CF}'
                | '\u{2100}'..='\u{2125}'
                | '\u{212C}'..='\u{2328}'
                | '\u{232B}'..='\u{2ADB}'
                | '\u{FB4F}'..='\u{FE1F}'
                | '\u{1F000}'..='\u{1FAFF}'
                // Greek, Cyrillic, Armenian, Hebrew, Arabic, Devanagari, Bengali, Thai, Vietnamese.
                | '\u{388}'..='\u{482}'
                | '\u{488}'..='\u{590}'
                | '\u{5C8}'..='\u{60F}'
                | '\u{61B}'..='\u{64A}'
                | '\u{671}'..='\u{6D5}'
                | '\u{900}'..='\u{93B}'
                | '\u{960}'..='\u{9BB}'
                | '\u{DE0}'..='\u{E37}'
                | '\u{1E00}'..='\u{1F70}'
        )
}

/// SentencePiece's `remove_extra_whitespaces`: no space at either end, one at a time between.
fn collapse_spaces(text: &str) -> Cow<'_, str> {
    let is_space = |c: char| c == ' ' || c == SPACE_MARK;
    let trimmed = text.trim_start_matches(' ').trim_end_matches(is_space);
    if !trimmed.contains("  ") {
        return Cow::Borrowed(trimmed);
    }
    let mut collapsed = String::with_capacity(trimmed.len());
    for c in trimmed.chars() {
        if c != ' ' || !collapsed.ends_with(' ') {
            collapsed.push(c);
        }
    }
    Cow::Owned(collapsed)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;
    use unicode_normalization_alignments::UnicodeNormalization;

    use unicode_normalization_alignments::char::canonical_combining_class;
    use unicode_normalization_alignments::{IsNormalized, is_nfc_quick};

    use super::{Normalizer, is_stable};

    fn all() -> Vec<Normalizer> {
        let strip = |left, right| Normalizer::Strip { left, right };
        let mut all = vec![Normalizer::Nfc, Normalizer::Nfd, Normalizer::Nfkc, Normalizer::Nfkd];
        all.extend([Normalizer::Lowercase, strip(true, false), strip(false, true)]);
        all.extend(Normalizer::replace("<>", "▁▁"));
        all
    }

    /// Characters that compose, reorder and expand; jamo, and signs newer than the tables.
    fn text() -> impl Strategy<Value = String> {
        let odd = "[a-fÅéΩΣσςİıſK中か。\u{3099}\u{300}-\u{345}\u{958}\u{9be}\u{9c7}\u{1100}-\u{11ff}가-각ﬁ①Ⅷ\u{11383}-\u{113c9}<> \u{1d157}-\u{1d165}😀\u{1faff}]{0,12}";
        let mixed = "([a-z ]{0,40}[é中😀\u{301}か\u{3099}]{0,3}){0,4}";
        prop_oneof![4 => odd, 2 => mixed, 1 => "\\PC{0,12}", 1 => any::<String>()]
    }

    proptest! {
        #[test]
        fn a_second_time_changes_nothing(text in text()) {
            for normalizer in all() {
                let once = normalizer.apply(&text).into_owned();
                prop_assert_eq!(normalizer.apply(&once), once.as_str(), "{:?}", normalizer);
            }
        }

        #[test]
        fn what_is_borrowed_is_normalised(text in text()) {
            let slow = |normalizer: &Normalizer| -> String {
                match normalizer {
                    Normalizer::Nfc => text.nfc().map(|(c, _)| c).collect(),
                    Normalizer::Nfd => text.nfd().map(|(c, _)| c).collect(),
                    Normalizer::Nfkc => text.nfkc().map(|(c, _)| c).collect(),
                    Normalizer::Nfkd => text.nfkd().map(|(c, _)| c).collect(),
                    _ => text.chars().flat_map(char::to_lowercase).collect(),
                }
            };
            for normalizer in &all()[..5] {
                prop_assert_eq!(normalizer.apply(&text), slow(normalizer), "{:?}", normalizer);
            }
        }

        #[test]
        fn what_is_composed_is_not_copied(text in text()) {
            let composed: String = text.nfc().map(|(c, _)| c).collect();
            prop_assert!(matches!(Normalizer::Nfc.apply(&composed), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn characters_are_stable_by_the_table_as_without_it() {
        for c in '\0'..=char::MAX {
            let is_first = canonical_combining_class(c) == 0;
            let is_left = is_nfc_quick([c].into_iter()) == IsNormalized::Yes;
            assert_eq!(is_stable(c), is_first && is_left, "{c:?}");
        }
    }

    #[test]
    fn nothing_composes_with_a_stable_character() {
        for c in ('\0'..=char::MAX).filter(|&c| is_stable(c)) {
            for before in ["e", "e\u{323}", "\u{1100}", "\u{AC00}", "か", "\u{9C7}"] {
                let text = format!("{before}{c}");
                let apart = before.nfc().map(|(c, _)| c).chain([c]);
                assert!(text.nfc().map(|(c, _)| c).eq(apart), "{before:?} {c:?}");
            }
        }
    }

    #[test]
    fn every_character_is_normalised_once_and_for_all() {
        for c in '\0'..=char::MAX {
            let text = c.to_string();
            for normalizer in all() {
                let once = normalizer.apply(&text).into_owned();
                assert_eq!(normalizer.apply(&once), once, "{normalizer:?} {c:?}");
            }
        }
    }

    #[test]
    fn examples() {
        assert_eq!(Normalizer::Nfc.apply("e\u{301}"), "é");
        assert_eq!(Normalizer::Nfkc.apply("ﬁ①"), "fi1");
        assert_eq!(Normalizer::Lowercase.apply("ΑΣ"), "ας".replace('ς', "σ"));
        assert!(matches!(Normalizer::Nfc.apply("naïve 中文"), Cow::Borrowed(_)));
        assert_eq!(Normalizer::replace("ab", "b"), None);
        assert_eq!(Normalizer::replace("ab", ""), None);
    }
}
