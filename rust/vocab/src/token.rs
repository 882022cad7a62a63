//! Token ids, and the ids that only a vocabulary can make.

/// A token id. Signed, because arrays of ids are signed in every framework.
pub type TokenId = i32;

/// The id of a control token. Only a [`Vocab`](crate::Vocab) makes one, from its table of control tokens:
/// no function turns text into this type.
///
/// ```
/// use chatcodec_vocab::Vocab;
///
/// let vocab = Vocab::embedded();
/// let end = vocab.control_id(92542).unwrap();
/// assert_eq!(vocab.spelling(end.get()), "<|im_end|>");
/// assert!(vocab.control_id(vocab.encode("a")[0]).is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ControlId(TokenId);

impl ControlId {
    /// An id from the table of control tokens of a vocabulary.
    pub(crate) fn new(id: TokenId) -> Self {
        Self(id)
    }

    /// The stand-in of a marker that a format writes as ordinary text, by its number: readers find the text, and
    /// then read this. It is no id: the number is negative, no vocabulary has it, and an encoder refuses it.
    pub fn of_text(marker: u16) -> Self {
        Self(-1 - TokenId::from(marker))
    }

    /// Whether this is no id of the vocabulary, but stands for a format's marker that is ordinary text.
    #[inline]
    pub fn is_text(self) -> bool {
        self.0 < 0
    }

    /// The id itself.
    #[inline]
    pub fn get(self) -> TokenId {
        self.0
    }
}

/// Where a vocabulary puts a space before text, as SentencePiece's `add_dummy_prefix` does.
///
/// ```
/// use chatcodec_vocab::{DummyPrefix, Vocab};
///
/// assert_eq!(Vocab::embedded().dummy_prefix(), DummyPrefix::Never);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DummyPrefix {
    /// Before every run of text between two control tokens.
    EveryRun,
    /// Before text that begins a sequence.
    FirstRun,
    /// Nowhere.
    Never,
}
