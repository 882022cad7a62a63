//! Which added pieces are ordinary text: the list in `text_pieces.toml`, with a reason for each.

use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;
use serde::Deserialize;

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
    // The file is part of this crate and read by a test; were it broken, every added piece would be
    // control, which is safe.
    toml::from_str::<File>(include_str!("text_pieces.toml"))
        .map(|file| file.text.into_iter().flat_map(with_reason).collect())
        .unwrap_or_default()
});

pub(super) fn is_text(piece: &str) -> bool {
    LISTED.contains_key(piece)
}

/// Why a piece is text.
pub(super) fn reason(piece: &str) -> Option<&'static str> {
    LISTED.get(piece).map(AsRef::as_ref)
}

#[cfg(test)]
mod tests {
    use super::{is_text, reason};

    #[test]
    fn the_list_reads_and_holds_text_only() {
        assert!(is_text("——") && is_text("Ｅ") && is_text("<h1>") && is_text("▁▁"));
        assert!(!is_text("<|im_start|>") && !is_text("[UNUSED_TOKEN_146]") && !is_text("<s>"));
        assert!(reason("Ｅ").is_some_and(|reason| reason.starts_with("InternLM2")));
        assert_eq!(reason("<s>"), None);
    }
}
