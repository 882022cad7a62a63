//! What is done to text before it is encoded.

use std::borrow::Cow;

use crate::bpe::SPACE_MARK;

/// A normalisation; applying it twice changes nothing more.
#[derive(Debug, Clone, Default)]
pub(crate) enum Normalizer {
    /// Text stays as it is.
    #[default]
    Identity,
    /// SentencePiece's `remove_extra_whitespaces`.
    CollapseSpaces,
}

impl Normalizer {
    /// The normalised text, borrowed where nothing changes.
    pub(crate) fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self {
            Self::Identity => Cow::Borrowed(text),
            Self::CollapseSpaces => collapse_spaces(text),
        }
    }

    /// Whether white space is collapsed, which loses text of messages.
    pub(crate) fn collapses_spaces(&self) -> bool {
        matches!(self, Self::CollapseSpaces)
    }
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
