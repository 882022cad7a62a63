//! The bytes and the kind of each id.

use std::sync::{Arc, OnceLock};

use super::TokenId;
use super::decode::WholeTexts;
use crate::bpe::extend_unmarked;

/// Kind of an id.
///
/// ```
/// use chatcodec_vocab::{TokenKind, Vocab};
///
/// let vocab = Vocab::embedded();
/// assert_eq!(vocab.token(92542).unwrap().0, TokenKind::Control);
/// assert_eq!(vocab.token(vocab.encode("a")[0]), Some((TokenKind::Text, &b"a"[..])));
/// assert_eq!(vocab.token(92544), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A piece of text.
    Text,
    /// One byte of text.
    Byte,
    /// A control token; its bytes are its spelling.
    Control,
    /// An id that no encoder produces and no text spells.
    Unused,
}

/// The bytes of all tokens, one after another.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tokens {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    kinds: Vec<TokenKind>,
    /// The texts of these tokens, once somebody asks for them.
    whole: OnceLock<Arc<WholeTexts>>,
}

impl Tokens {
    pub(crate) fn push(&mut self, bytes: &[u8], kind: TokenKind) {
        self.bytes.extend_from_slice(bytes);
        self.end(kind);
    }

    /// Adds a token of text, whose spaces may be marked.
    pub(crate) fn push_marked(&mut self, text: &str) {
        extend_unmarked(&mut self.bytes, text);
        self.end(TokenKind::Text);
    }

    fn end(&mut self, kind: TokenKind) {
        self.ends.push(self.bytes.len() as u32);
        self.kinds.push(kind);
        self.whole.take();
    }

    /// Changes the kind of an id of the vocabulary.
    #[cfg(feature = "testing")]
    pub(crate) fn set_kind(&mut self, id: TokenId, kind: TokenKind) {
        self.kinds[id as usize] = kind;
        self.whole.take();
    }

    /// The texts of the tokens that are whole characters.
    #[inline]
    pub(crate) fn whole_texts(&self) -> &WholeTexts {
        self.whole.get_or_init(|| Arc::new(WholeTexts::new(self)))
    }

    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether an id is text: a piece or a byte.
    #[inline]
    pub(crate) fn is_text(&self, id: TokenId) -> bool {
        // As an index, an id below zero lies beyond the last.
        let kind = self.kinds.get(id as usize);
        matches!(kind, Some(TokenKind::Text | TokenKind::Byte))
    }

    /// The kind and bytes of an id, `None` outside the vocabulary.
    #[inline]
    pub(crate) fn get(&self, id: TokenId) -> Option<(TokenKind, &[u8])> {
        let at = usize::try_from(id).ok()?;
        let kind = *self.kinds.get(at)?;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        Some((kind, &self.bytes[start..self.ends[at] as usize]))
    }
}
