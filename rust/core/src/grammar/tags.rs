//! The tags of a format, control tokens with text around them, as a stream looks for them.

use chatcodec_vocab::{TokenId, Vocab};

/// The tags of a format.
#[derive(Debug)]
pub(crate) struct TagTable {
    /// Those with the most text after their token first, then those with the most tokens after that, then those with the
    /// most text before it.
    pub(crate) tags: Vec<TagToken>,
    /// The length of the longest text before a token.
    longest: usize,
    /// Whether a byte occurs in text before a token.
    before: [bool; 256],
}

/// A control token with text around it.
#[derive(Debug)]
pub(crate) struct TagToken {
    pub(crate) id: TokenId,
    pub(crate) before: String,
    pub(crate) token: TokenId,
    pub(crate) after: String,
    /// The tokens after that text.
    pub(crate) next: Vec<TokenId>,
}

impl TagTable {
    /// The tags of a vocabulary, if it has some.
    pub(crate) fn new(vocab: &Vocab) -> Option<Self> {
        let mut tags: Vec<TagToken> = vocab
            .tags()
            .map(|(id, tag)| TagToken {
                id,
                before: tag.before.clone(),
                token: tag.token.get(),
                after: tag.after.clone(),
                next: tag.next.iter().map(|next| next.get()).collect(),
            })
            .collect();
        tags.sort_by_key(|tag| {
            std::cmp::Reverse((tag.after.len(), tag.next.len(), tag.before.len()))
        });
        let longest = tags.iter().map(|tag| tag.before.len()).max()?;
        let mut before = [false; 256];
        for byte in tags.iter().flat_map(|tag| tag.before.bytes()) {
            before[usize::from(byte)] = true;
        }
        Some(Self { tags, longest, before })
    }

    /// Whether text may end as the text before a token begins.
    #[inline]
    pub(crate) fn may_begin(&self, text: &str) -> bool {
        text.bytes().next_back().is_some_and(|last| self.before[usize::from(last)])
    }

    /// Where the end of `text` begins that may stand before a token.
    pub(crate) fn begun(&self, text: &str) -> usize {
        let earliest = text.len().saturating_sub(self.longest);
        let begins = |&at: &usize| {
            text.get(at..)
                .is_some_and(|end| self.tags.iter().any(|tag| tag.before.starts_with(end)))
        };
        (earliest..text.len()).find(begins).unwrap_or(text.len())
    }
}
