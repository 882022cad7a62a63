//! Whether ids are those that text is encoded to.
//!
//! In: ids. Out: the position of the first id that encoding the text of its run gives otherwise. A run is the ids
//! between two control tokens. Cost: the ids are decoded and encoded once.

use super::{DummyPrefix, TokenId, TokenKind, Vocab, begins_with_space, with_room};

impl Vocab {
    /// Position of the first id that is not the one to which the text of its run is encoded; `None` where all are. An
    /// id outside the vocabulary, or of no text, is such an id. Control tokens separate runs.
    ///
    /// ```
    /// use chatcodec_vocab::Vocab;
    ///
    /// let vocab = Vocab::embedded();
    /// let mut ids = vocab.encode("Hello");
    /// assert_eq!(vocab.first_uncanonical(&ids), None);
    /// ids.splice(.., [vocab.encode("He"), vocab.encode("llo")].concat());
    /// assert_eq!(vocab.first_uncanonical(&ids), Some(0));
    /// ```
    pub fn first_uncanonical(&self, ids: &[TokenId]) -> Option<usize> {
        let kind = |id: TokenId| self.token(id).map(|(kind, _)| kind);
        let is_text = |id: &TokenId| matches!(kind(*id), Some(TokenKind::Text | TokenKind::Byte));
        let mut prefixed = self.dummy_prefix() != DummyPrefix::Never;
        let mut at = 0;
        while let Some(&id) = ids.get(at) {
            let run = ids[at..].iter().take_while(|id| is_text(id)).count();
            if run > 0 {
                if let Some(first) = self.first_other(&ids[at..at + run], prefixed) {
                    return Some(at + first);
                }
                prefixed = false;
                at += run;
            } else if kind(id) == Some(TokenKind::Control) {
                prefixed = self.dummy_prefix() == DummyPrefix::EveryRun;
                at += 1;
            } else {
                return Some(at);
            }
        }
        None
    }

    /// Position of the first id of a run that encoding its text gives otherwise.
    fn first_other(&self, run: &[TokenId], prefixed: bool) -> Option<usize> {
        let mut bytes = Vec::with_capacity(run.len() * 4);
        for (nth, &id) in run.iter().enumerate() {
            let Some((kind, token)) = self.token(id) else { return Some(nth) };
            let is_prefix = nth == 0 && prefixed && kind == TokenKind::Text;
            bytes.extend_from_slice(&token[usize::from(is_prefix && begins_with_space(token))..]);
        }
        // Bytes that are no text become a character that the run does not have.
        let text = String::from_utf8_lossy(&bytes);
        let mut anew = with_room(&text);
        // Where a text has no token, what was encoded before it is compared.
        let encoded = self.with_scratch(|scratch| {
            self.encode_run(1, &self.normalise(&text), prefixed, scratch, &mut anew)
        });
        let same = run.iter().zip(&anew).take_while(|(a, b)| a == b).count();
        let is_same = encoded.is_ok() && anew.len() == run.len() && same == run.len();
        (!is_same).then(|| same.min(run.len() - 1))
    }
}
