//! Which added pieces are ordinary text: the list in `text_pieces.toml`, with a reason for each.

use std::sync::LazyLock;

use hashbrown::HashSet;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    text: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(rename = "reason")]
    _reason: String,
    pieces: Vec<String>,
}

static LISTED: LazyLock<HashSet<String>> = LazyLock::new(|| {
    // The file is part of this crate and read by a test; were it broken, every added piece would be
    // control, which is safe.
    toml::from_str::<File>(include_str!("text_pieces.toml"))
        .map(|file| file.text.into_iter().flat_map(|group| group.pieces).collect())
        .unwrap_or_default()
});

pub(super) fn is_text(piece: &str) -> bool {
    LISTED.contains(piece)
}

#[cfg(test)]
mod tests {
    use super::is_text;

    #[test]
    fn the_list_reads_and_holds_text_only() {
        assert!(is_text("——") && is_text("Ｅ") && is_text("<h1>") && is_text("▁▁"));
        assert!(!is_text("<|im_start|>") && !is_text("[UNUSED_TOKEN_146]") && !is_text("<s>"));
    }
}
