//! Ids to bytes to text, with unfinished UTF-8 held back.
//!
//! A character may be spread over several ids; the decoder emits it with its last byte. Bytes that
//! are not UTF-8 become U+FFFD, one for each maximal part, as with Python's `errors="replace"`. The
//! text does not depend on how the ids were split.

use std::borrow::Cow;

use super::tokens::Tokens;
use super::{DummyPrefix, TokenId, TokenKind, Vocab, begins_with_space};
use crate::error::Result;

/// What decoding writes for a control token.
///
/// ```
/// use chatcodec_vocab::{Spelling, Vocab};
///
/// let vocab = Vocab::embedded();
/// let mut ids = vocab.encode("Hi");
/// ids.push(92542);
/// assert_eq!(vocab.decode(&ids, Spelling::Spell)?, "Hi<|im_end|>");
/// assert_eq!(vocab.decode(&ids, Spelling::Skip)?, "Hi");
/// # Ok::<(), chatcodec_vocab::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// Its spelling, for people to read. Encoding that again does not give the token back.
    Spell,
    /// Nothing.
    Skip,
}

/// Ids to bytes; one dummy prefix is taken off each text between control tokens.
pub(super) fn decode_bytes(vocab: &Vocab, ids: &[TokenId], control: Spelling) -> Result<Vec<u8>> {
    let prefixed = vocab.dummy_prefix() == DummyPrefix::EveryRun;
    let mut bytes = Vec::with_capacity(ids.len() * 4);
    let mut at_start = vocab.dummy_prefix() != DummyPrefix::Never;
    for &id in ids {
        let (kind, token) = vocab.token(id).ok_or_else(|| vocab.unknown_id(id))?;
        match kind {
            TokenKind::Text | TokenKind::Byte => {
                let skip =
                    usize::from(at_start && kind == TokenKind::Text && begins_with_space(token));
                bytes.extend_from_slice(&token[skip..]);
                at_start = false;
            }
            TokenKind::Control => {
                if control == Spelling::Spell {
                    bytes.extend_from_slice(token);
                }
                at_start = prefixed;
            }
            TokenKind::Unused => {}
        }
    }
    Ok(bytes)
}

/// The texts of the tokens that are whole characters, by id. Memory: the texts, and four bytes for
/// each id.
///
/// ```
/// use chatcodec_vocab::Vocab;
///
/// let vocab = Vocab::embedded();
/// let a = vocab.encode("a")[0];
/// assert_eq!(vocab.whole_texts().get(a), Some("a"));
/// ```
#[derive(Debug)]
pub struct WholeTexts {
    text: String,
    /// The end of the text of each id; an id without text has the end of the previous one.
    ends: Vec<u32>,
}

impl WholeTexts {
    /// The texts of these tokens. Cost: one walk over them.
    pub(super) fn new(tokens: &Tokens) -> Self {
        let mut text = String::new();
        let mut ends = Vec::with_capacity(tokens.len());
        for id in 0..tokens.len() as TokenId {
            if let Some((TokenKind::Text | TokenKind::Byte, bytes)) = tokens.get(id) {
                text.push_str(std::str::from_utf8(bytes).unwrap_or_default());
            }
            ends.push(text.len() as u32);
        }
        Self { text, ends }
    }

    /// The text of an id; `None` for part of a character, for control and for ids outside the vocabulary.
    #[inline]
    pub fn get(&self, id: TokenId) -> Option<&str> {
        let at = usize::try_from(id).ok()?;
        let end = *self.ends.get(at)? as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.text.get(start..end).filter(|text| !text.is_empty())
    }
}

/// Longer tokens are copied to the heap where a character has begun before them.
const SHORT: usize = 32;

/// Token bytes in, whole characters out.
///
/// ```
/// use chatcodec_vocab::Vocab;
///
/// let vocab = Vocab::embedded();
/// let (mut decoder, mut text) = (vocab.text_decoder(), String::new());
/// for id in vocab.encode("é") {
///     let (kind, bytes) = vocab.token(id).unwrap();
///     text.push_str(&decoder.push(kind, bytes)); // whole characters only
/// }
/// assert_eq!(text, "é");
/// ```
#[derive(Debug, Clone)]
pub struct TextDecoder {
    /// Bytes that began a character and do not finish it: at most three.
    pending: [u8; 3],
    pending_len: u8,
    /// Whether the vocabulary puts a space before every text, and whether one may be next.
    prefixed: bool,
    at_start: bool,
}

impl TextDecoder {
    /// A decoder at the start of a text.
    pub fn new(prefix: DummyPrefix) -> Self {
        Self {
            pending: [0; 3],
            pending_len: 0,
            prefixed: prefix == DummyPrefix::EveryRun,
            at_start: prefix != DummyPrefix::Never,
        }
    }

    /// Whether bytes of an unfinished character are held.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.pending_len > 0
    }

    /// Whether a token of whole characters is emitted unchanged: no bytes of an unfinished character are held,
    /// and no prefix may be next.
    #[inline]
    pub fn is_between(&self) -> bool {
        self.pending_len == 0 && !self.at_start
    }

    /// Begins a new text, after a control token.
    #[inline]
    pub fn begin_text(&mut self) {
        self.at_start = self.prefixed;
    }

    /// The characters that a token finishes.
    #[inline]
    pub fn push<'t>(&mut self, kind: TokenKind, mut token: &'t [u8]) -> Cow<'t, str> {
        if std::mem::take(&mut self.at_start) && kind == TokenKind::Text {
            token = token.strip_prefix(b" ").unwrap_or(token);
        }
        if self.pending_len == 0
            && let Ok(text) = std::str::from_utf8(token)
        {
            return Cow::Borrowed(text);
        }
        let mut text = String::new();
        let (mut short, long);
        let bytes = match usize::from(std::mem::take(&mut self.pending_len)) {
            0 => token,
            held if held + token.len() <= SHORT => {
                short = [0; SHORT];
                short[..held].copy_from_slice(&self.pending[..held]);
                short[held..held + token.len()].copy_from_slice(token);
                &short[..held + token.len()]
            }
            held => {
                long = [&self.pending[..held], token].concat();
                &long
            }
        };
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            if invalid.is_empty() {
                continue;
            }
            if chunks.peek().is_none() && is_unfinished(invalid) {
                self.pending[..invalid.len()].copy_from_slice(invalid);
                self.pending_len = invalid.len() as u8;
            } else {
                text.push('\u{FFFD}');
            }
        }
        Cow::Owned(text)
    }

    /// Emits the held bytes of an unfinished character as U+FFFD.
    #[inline]
    pub fn flush(&mut self) -> Option<&'static str> {
        (std::mem::take(&mut self.pending_len) > 0).then_some("\u{FFFD}")
    }
}

/// Whether bytes that are not UTF-8 could become so with more bytes after them.
fn is_unfinished(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::{DummyPrefix, TextDecoder, TokenKind};
    use proptest::prelude::*;

    fn decode(bytes: &[u8], cuts: &[usize]) -> String {
        let mut decoder = TextDecoder::new(DummyPrefix::Never);
        let mut text = String::new();
        let mut start = 0;
        for &cut in cuts.iter().chain([&bytes.len()]) {
            text.push_str(&decoder.push(TokenKind::Text, &bytes[start..cut]));
            start = cut;
        }
        text.push_str(decoder.flush().unwrap_or_default());
        text
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_text(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x80u8..0xC0, 0xE0u8..0xF5], 0..24),
            mut cuts in prop::collection::vec(0usize..24, 0..6),
        ) {
            cuts.retain(|&cut| cut <= bytes.len());
            cuts.sort_unstable();
            prop_assert_eq!(decode(&bytes, &cuts), String::from_utf8_lossy(&bytes));
        }
    }
}
