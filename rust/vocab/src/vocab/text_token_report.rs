//! Report of the decisions about a vocabulary's added tokens, for people who check them.
//!
//! In: a vocabulary. Out: the added tokens that are text, each with its reason, and the number of unused
//! ids. Its control tokens are [`Vocab::control`]. Cost: linear in the vocabulary.

use std::collections::BTreeMap;

use super::{SPACE_MARK, TokenId, TokenKind, Vocab, text_pieces};

/// An added token that is ordinary text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextToken {
    /// As the vocabulary's file spells it.
    pub spelling: String,
    /// Its id.
    pub id: TokenId,
    /// Reason why the token is text; `None` if the caller of the loader declared it.
    pub reason: Option<&'static str>,
}

impl Vocab {
    /// The added tokens that are text, in the order of their ids. Every other added token is control.
    #[must_use]
    pub fn text_tokens(&self) -> Vec<TextToken> {
        let bytes = |spelling: &String| {
            let spaced =
                self.inner.definition.model.space_mark.then(|| spelling.replace(SPACE_MARK, " "));
            spaced.unwrap_or_else(|| spelling.clone()).into_bytes()
        };
        // An ordinary token may have the same bytes; added tokens follow it.
        let mut ids: BTreeMap<Vec<u8>, Option<TokenId>> =
            self.inner.definition.text.iter().map(|spelling| (bytes(spelling), None)).collect();
        for (id, bytes) in self.tokens_of(TokenKind::Text) {
            if let Some(last) = ids.get_mut(bytes) {
                *last = Some(id);
            }
        }
        let declared = self.inner.definition.source.text_tokens();
        let token = |spelling: &String| {
            let (spelling, id) = (spelling.clone(), ids.get(&bytes(spelling)).copied().flatten()?);
            let is_declared = declared.contains(&spelling) && text_pieces::is_by_shape(&spelling);
            let reason = text_pieces::reason(&spelling).filter(|_| !is_declared);
            Some(TextToken { spelling, id, reason })
        };
        let mut tokens: Vec<TextToken> =
            self.inner.definition.text.iter().filter_map(token).collect();
        tokens.sort_by_key(|token| token.id);
        tokens
    }

    /// Number of unused ids: neither text nor control.
    #[must_use]
    pub fn unused(&self) -> usize {
        self.tokens_of(TokenKind::Unused).count()
    }

    fn tokens_of(&self, kind: TokenKind) -> impl Iterator<Item = (TokenId, &[u8])> {
        (0..self.size() as TokenId).filter_map(move |id| {
            match self.inner.definition.tokens.get(id) {
                Some((found, bytes)) if found == kind => Some((id, bytes)),
                _ => None,
            }
        })
    }
}
