//! Pre-tokenization: text parted into pieces that merges do not cross.

use crate::error::{Error, Result};

/// A way to part text. Immutable; shared between threads.
#[derive(Debug, Clone)]
pub(crate) enum Splitter {
    /// Text stays in one piece.
    Whole,
}

impl Splitter {
    /// The splitter for a regular expression whose matches are the pieces (and what lies between two
    /// matches is a piece too): written by hand for the known ones, a bounded engine for others.
    pub(crate) fn from_pattern(pattern: &str) -> Result<Self> {
        Err(Error::vocab("pre_tokenizer", format!("pattern {pattern:?} is not implemented")))
    }

    /// The splitter of a GGUF file's `tokenizer.ggml.pre`.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        let _ = name;
        None
    }

    /// Calls `each` with every piece of `text`, in order: together they are `text`.
    pub(crate) fn split<'a>(&self, text: &'a str, mut each: impl FnMut(&'a str)) {
        match self {
            Self::Whole => each(text),
        }
    }
}
