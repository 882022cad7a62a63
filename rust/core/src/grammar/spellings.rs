//! The spellings of a format's control tokens, as text that a stream may be given.

use aho_corasick::{AhoCorasick, MatchKind};

use super::Grammar;
use crate::format::Format;
use chatcodec_vocab::{ControlId, TokenId, Vocab};

/// The spellings of a format's control tokens.
#[derive(Debug)]
pub(crate) struct Spellings {
    pub(crate) known: Vec<(String, TokenId)>,
    /// `None` without spellings.
    pub(crate) finder: Option<AhoCorasick>,
    firsts: [bool; 256],
    longest: usize,
}

impl Spellings {
    /// All spellings: of control tokens, and of markers that are text.
    pub(crate) fn all(format: &Format, grammar: &Grammar, vocab: &Vocab) -> Self {
        let control = format.control().iter().chain(format.optional_control());
        let control = control.chain(format.text_markers());
        let spellings = control.flat_map(|(_, group)| group);
        let is_word = |spelling: &&String| format.silent().contains(spelling);
        let known = spellings
            .filter(|spelling| !spelling.is_empty() && !is_word(spelling))
            .filter_map(|spelling| Some((spelling.clone(), *vocab.control().get(spelling)?)));
        let mut known: Vec<(String, TokenId)> = known.collect();
        let mut tags = Vec::new();
        for (id, tag) in vocab.tags() {
            tags.push((vocab.spelling(id).to_owned(), id));
            let end: String = tag.next.iter().map(|next| vocab.spelling(next.get())).collect();
            for (token, _) in known.iter().filter(|(_, of)| *of == tag.token.get()) {
                tags.push((format!("{}{token}{}{end}", tag.before, tag.after), id));
            }
        }
        known.extend(tags);
        known.extend(of_text(grammar));
        Self::new(known)
    }

    /// The texts of markers that are text.
    pub(crate) fn of_text(grammar: &Grammar) -> Self {
        Self::new(of_text(grammar).collect())
    }

    fn new(mut known: Vec<(String, TokenId)>) -> Self {
        known.sort_unstable();
        known.dedup();
        let texts = || known.iter().map(|(text, _)| text.as_str());
        let mut firsts = [false; 256];
        for first in texts().filter_map(|text| text.bytes().next()) {
            firsts[usize::from(first)] = true;
        }
        let longest = texts().map(str::len).max().unwrap_or(0);
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts());
        Self { finder: finder.ok(), firsts, longest, known }
    }

    /// Whether text lacks the first byte of every spelling.
    #[inline]
    pub(crate) fn lacks(&self, text: &str) -> bool {
        !text.bytes().any(|byte| self.firsts[usize::from(byte)])
    }

    /// The beginning, from `from` on, of the end of `text` that may become a spelling or a longer
    /// one.
    pub(crate) fn begun(&self, text: &str, from: usize) -> usize {
        let bytes = text.as_bytes();
        let earliest = text.len().saturating_sub(self.longest.saturating_sub(1)).max(from);
        let may_become = |&start: &usize| {
            let end = &bytes[start..];
            self.firsts[usize::from(end[0])]
                && self
                    .known
                    .iter()
                    .any(|(text, _)| text.len() > end.len() && text.as_bytes().starts_with(end))
        };
        (earliest..text.len()).find(may_become).unwrap_or(text.len())
    }
}

/// The texts of markers, with their stand-ins.
fn of_text(grammar: &Grammar) -> impl Iterator<Item = (String, TokenId)> + '_ {
    let markers = grammar.text_markers.iter().enumerate();
    markers.flat_map(|(nth, texts)| {
        let id = ControlId::of_text(nth as u16).get();
        texts.iter().map(move |text| (text.clone(), id))
    })
}
