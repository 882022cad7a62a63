//! Which added pieces are ordinary text: runs of white space or of one sign where no file calls them
//! special, and the list in `text_pieces.toml`, with a reason for each.

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

/// Whether a piece is text, regardless of its type in the file.
pub(super) fn is_listed(piece: &str) -> bool {
    LISTED.contains_key(piece)
}

/// Whether a piece is white space alone, or one sign repeated. No marker looks like this;
/// vocabularies have these pieces to make indentation and rules short.
pub(super) fn is_run(piece: &str) -> bool {
    let is_space = |c: char| c.is_whitespace() || c == SPACE_MARK;
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

/// Why a piece is text.
pub(super) fn reason(piece: &str) -> Option<&'static str> {
    LISTED.get(piece).map(AsRef::as_ref).or_else(|| is_run(piece).then_some(RUN))
}

#[cfg(test)]
mod tests {
    use super::{is_listed, is_run, reason};

    #[test]
    fn the_list_reads_and_holds_text_only() {
        assert!(is_listed("——") && is_listed("Ｅ") && is_listed("<h1>") && is_listed("▁▁"));
        assert!(!is_listed("<|im_start|>") && !is_listed("[UNUSED_TOKEN_146]"));
        assert!(reason("Ｅ").is_some_and(|reason| reason.starts_with("InternLM2")));
        assert_eq!(reason("<s>"), None);
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
