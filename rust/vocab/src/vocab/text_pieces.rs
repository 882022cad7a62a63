//! Which added pieces are ordinary text: words, and runs of white space or of one sign, where no file calls
//! them special, and the list in `text_pieces.toml`, with a reason for each.
//!
//! A word is a piece without the shape of a marker. Markers are of many shapes, so the rule is the careful one: what
//! looks like a marker in part, or names what markers name, is control.

use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;
use serde::Deserialize;

use crate::bpe::SPACE_MARK;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    text: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    reason: String,
    pieces: Vec<String>,
}

/// Each piece with its reason.
static LISTED: LazyLock<HashMap<String, Arc<str>>> = LazyLock::new(|| {
    let with_reason = |Group { reason, pieces }: Group| {
        let reason = Arc::<str>::from(reason);
        pieces.into_iter().map(move |piece| (piece, reason.clone()))
    };
    // The file is part of this crate and read by a test. With a broken file, every added piece
    // would be control, which is safe.
    toml::from_str::<File>(include_str!("text_pieces.toml"))
        .map(|file| file.text.into_iter().flat_map(with_reason).collect())
        .unwrap_or_default()
});

/// Why runs are text.
const RUN: &str = "white space or one sign repeated, which no file calls special";

/// Why words are text.
const WORD: &str = "a word that no file calls special, without the shape of a marker";

/// What markers name, in small letters: a piece that says one of these, whatever digits and signs are around it, may
/// be a marker.
const NAMED: &[&str] = &[
    "system",
    "user",
    "assistant",
    "human",
    "gpt",
    "bot",
    "chatbot",
    "ai",
    "model",
    "tool",
    "tools",
    "function",
    "functions",
    "developer",
    "environment",
    "observation",
    "ipython",
    "inst",
    "sys",
    "think",
    "response",
    "eos",
    "bos",
    "pad",
    "unk",
    "unknown",
    "cls",
    "sep",
    "mask",
    "gmask",
    "smask",
    "dmask",
    "eot",
    "eod",
    "eom",
    "eop",
    "sop",
    "fim",
    "eoh",
    "eoa",
    "eob",
    "eof",
    "sot",
    "endturn",
];

/// Parts of such names.
const NAMED_IN: &[&str] = &[
    "endof",
    "startof",
    "beginof",
    "unused",
    "reserved",
    "placeholder",
    "sentinel",
    "extraid",
    "madeupword",
    "imstart",
    "imend",
];

/// Whether a piece is text by its shape: of letters, digits and signs, with none of those that markers are made of.
///
/// Angle brackets and bars are in most markers, a pair of other brackets in many; so are colons after a name,
/// number signs and underscores between letters. White space at the beginning or the end does not count, within a
/// piece it is text of several words, which may be a header.
pub(super) fn is_word(piece: &str) -> bool {
    let word = piece.trim_matches(is_space);
    let is_shown = |c: char| c != SPACE_MARK && (c.is_alphanumeric() || is_sign(c));
    let is_marked = |c: char| "<>|｜＜＞〈〉⟨⟩«»‹›¦‖".contains(c);
    let is_bracket = |c: char| "[]{}【】［］｛｝〔〕「」『』《》".contains(c);
    if word.is_empty() || !word.chars().all(is_shown) || word.chars().any(is_marked) {
        return false;
    }
    let has_letters = word.chars().any(char::is_alphanumeric);
    let names = |c: char| "_:：#".contains(c);
    if word.chars().filter(|&c| is_bracket(c)).count() > 1 || has_letters && word.chars().any(names)
    {
        return false;
    }
    // A bracket or a quote of a sentence stands on one side of a word.
    let is_of_sentence = word.starts_with(['(', '[', '{', '"', '\'', '“', '‘', '（'])
        != word.ends_with([')', ']', '}', '"', '\'', '”', '’', '）', '.', ',', ';', '!', '?']);
    let said: String =
        word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    let bare = said.trim_end_matches(|c: char| c.is_ascii_digit());
    (is_of_sentence || !NAMED.contains(&bare)) && !NAMED_IN.iter().any(|part| said.contains(part))
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || c == SPACE_MARK
}

/// Whether a piece is text, regardless of its type in the file.
pub(super) fn is_listed(piece: &str) -> bool {
    LISTED.contains_key(piece)
}

/// Whether a piece is white space alone, or one sign repeated. No marker looks like this;
/// vocabularies have these pieces to make indentation and rules short.
pub(super) fn is_run(piece: &str) -> bool {
    let Some(first) = piece.chars().next() else { return false };
    piece.chars().all(is_space) || is_sign(first) && piece.chars().all(|c| c == first)
}

/// Whether a character is a visible sign. Letters, digits, private-use characters and invisible ones
/// may be markers.
fn is_sign(c: char) -> bool {
    !c.is_control()
        && !c.is_alphanumeric()
        && !matches!(
            c,
            '\u{AD}'
                | '\u{61C}'
                | '\u{180E}'
                | '\u{200B}'..='\u{200F}'
                | '\u{202A}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}'
                | '\u{E000}'..='\u{F8FF}'
                | '\u{FE00}'..='\u{FE0F}'
                | '\u{FEFF}'
                | '\u{FFF0}'..='\u{FFFF}'
                | '\u{E0000}'..
        )
}

/// Whether a piece is text by its shape alone: what writes it as a marker makes it control.
pub(super) fn is_by_shape(piece: &str) -> bool {
    !is_listed(piece) && !is_run(piece) && is_word(piece)
}

/// Why a piece is text.
pub(super) fn reason(piece: &str) -> Option<&'static str> {
    let by_shape = || match piece {
        _ if is_run(piece) => Some(RUN),
        _ if is_word(piece) => Some(WORD),
        _ => None,
    };
    LISTED.get(piece).map(AsRef::as_ref).or_else(by_shape)
}

#[cfg(test)]
mod tests {
    use super::{is_listed, is_run, is_word, reason};

    #[test]
    fn the_list_reads_and_holds_text_only() {
        assert!(is_listed("——") && is_listed("Ｅ") && is_listed("<h1>") && is_listed("▁▁"));
        assert!(!is_listed("<|im_start|>") && !is_listed("[UNUSED_TOKEN_146]"));
        assert!(reason("Ｅ").is_some_and(|reason| reason.starts_with("InternLM2")));
        assert_eq!(reason("<s>"), None);
    }

    #[test]
    fn words_have_no_shape_of_a_marker() {
        for word in [
            "covid19",
            "(p",
            "▁\"",
            " \"",
            "don't",
            "SARS-CoV-2",
            "漢字",
            "naïve",
            "e.g.",
            "-3",
            "[p",
            "▁the",
            "ü",
            "C++",
            "Ünïcode",
            "🦜🦉",
            "3D",
            "users",
            "(s",
            "(user",
            "user.",
            "s",
        ] {
            assert!(is_word(word), "{word:?}");
        }
        for piece in [
            "<s>",
            "</think>",
            "<|im_end|>",
            "[INST]",
            "{{x}}",
            "[PAD]",
            "<｜User｜>",
            "｜x｜",
            "User:",
            "▁Assistant:",
            "用户：",
            "=>",
            "a▁b",
            "### Instruction",
            "__en__",
            "eng_Latn",
            "<",
            "im_start",
            "EOS",
            "user",
            "▁assistant",
            "@@UNK@@",
            "gMASK",
            "sop",
            "unused12",
            "reserved",
            "endoftext",
            "madeupword0001",
            "\u{E000}",
            "a\u{200B}",
            "\0",
            "",
            "▁▁",
            "end of turn",
            "【x】",
            "user1",
            "(system)",
            ">>x<<",
        ] {
            assert!(!is_word(piece), "{piece:?}");
        }
    }

    #[test]
    fn runs_are_white_space_or_one_sign() {
        for run in [" ", "    ", "\t\t", "\n\n", "\r\n \t", "▁▁ ", "_", "____", "\"", "🦜🦜", "==="]
        {
            assert!(is_run(run), "{run:?}");
        }
        for piece in [
            "", "<s>", "</s>", "<>", "[]", " _", "\0", "ü", "77", "\u{E000}", "\u{200B}",
            "\u{FEFF}", "=>",
        ] {
            assert!(!is_run(piece), "{piece:?}");
        }
    }
}
