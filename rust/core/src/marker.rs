//! Textual markers: found in a caller's text, and encoded differently from the genuine ones on
//! request.
//!
//! Where text separates turns, a caller can write the same text. It can be found, and on request encoded to
//! other ids than the genuine marker has: a marker has places where none of its own ids ends (`breaks`), and
//! text that is split at one of them is read as text.

use std::ops::Deref;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::error::{Error, Result};
use chatcodec_vocab::{TokenId, Vocab};

/// Text of a format. In a marker, `breaks` are places where no id of the genuine marker ends: an id
/// that ends there belongs to a caller's text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Literal {
    pub(crate) text: String,
    pub(crate) breaks: Vec<usize>,
}

impl Deref for Literal {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// The markers of a format, with the ids of one vocabulary.
#[derive(Debug)]
pub(crate) struct Markers {
    texts: Vec<Literal>,
    finder: AhoCorasick,
    /// Markers that begin a row only at the beginning of text: a system text that begins with
    /// `User: `.
    heads: Vec<Literal>,
}

/// A marker in a text: its bytes in the text, and its index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(crate) start: usize,
    pub(crate) marker: &'a Literal,
}

impl Found<'_> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.marker.len()
    }
}

impl Markers {
    pub(crate) fn new(texts: &[String], heads: &[String], vocab: &Vocab) -> Result<Self> {
        let literal = |text: &String| Literal { text: text.clone(), breaks: breaks(text, vocab) };
        // The empty text is not a marker: it would be found everywhere.
        let mut texts: Vec<Literal> =
            texts.iter().filter(|text| !text.is_empty()).map(literal).collect();
        texts.sort_by(|a, b| a.text.cmp(&b.text));
        texts.dedup();
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(texts.iter().map(|literal| &literal.text))
            .map_err(|e| Error::vocab("control", format!("the format's markers: {e}")))?;
        Ok(Self { texts, finder, heads: heads.iter().map(literal).collect() })
    }

    /// Every marker in a text between two control tokens, also those inside others.
    pub(crate) fn find<'a>(&'a self, stretch: &'a str) -> impl Iterator<Item = Found<'a>> + 'a {
        let heads = self.heads.iter().filter(|head| stretch.starts_with(&***head));
        let heads = heads.map(|marker| Found { start: 0, marker });
        let texts = self.finder.find_overlapping_iter(stretch).map(|found| Found {
            start: found.start(),
            marker: &self.texts[found.pattern().as_usize()],
        });
        heads.chain(texts)
    }
}

/// Possible neighbours of a marker: a letter or sign of each kind that merges with its neighbours.
const BEFORE: [&str; 10] = ["", "a", "A", "1", ".", " ", "\n", "世", "]", "é"];
const AFTER: [&str; 9] = ["", "a", "A", "1", ".", " ", "\n", "世", "["];

/// Places in a marker where none of its own ids ends, with any neighbours: one for each word that has
/// such a place, in the middle of the longest run of them.
pub(crate) fn breaks(text: &str, vocab: &Vocab) -> Vec<usize> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    // The ids of letters at the end depend on all of the letters that may follow.
    let settled = text.trim_end_matches(char::is_alphanumeric).len();
    let is_inside = |at: usize| at > 0 && at < text.len() && text.is_char_boundary(at);
    let mut is_place: Vec<bool> =
        (0..=text.len()).map(|at| is_inside(at) && (at < settled || settled == 0)).collect();
    for before in BEFORE {
        for after in AFTER {
            let whole = format!("{before}{text}{after}");
            for end in ends(&whole, vocab) {
                if let Some(place) =
                    end.checked_sub(before.len()).and_then(|at| is_place.get_mut(at))
                {
                    *place = false;
                }
            }
        }
    }
    let mut breaks = Vec::new();
    let mut start = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        let end = start + word.trim_end().len();
        let places: Vec<usize> = (start + 1..end).filter(|&at| is_place[at]).collect();
        let stretches = places.chunk_by(|a, b| text[*a..*b].chars().nth(1).is_none());
        let longest = stretches.max_by_key(|stretch| stretch.len());
        breaks.extend(longest.and_then(|stretch| stretch.get(stretch.len() / 2)));
        start += word.len();
    }
    breaks
}

/// The ends of the ids of a text.
fn ends(text: &str, vocab: &Vocab) -> Vec<usize> {
    let ids = vocab.try_encode(text).unwrap_or_default();
    let bytes = |&id: &TokenId| vocab.token_bytes(id).map_or(0, <[u8]>::len);
    let is_prefixed = ids.iter().map(bytes).sum::<usize>() > text.len();
    let mut at = 0;
    let mut ends = Vec::with_capacity(ids.len());
    for (nth, &id) in ids.iter().enumerate() {
        at += match vocab.token_bytes(id) {
            // The dummy prefix covers no bytes of the text.
            Ok([b' ', rest @ ..]) if nth == 0 && is_prefixed => vocab.covered_by(rest, text),
            _ => vocab.covered(id, text, at),
        };
        ends.push(at);
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::Markers;
    use chatcodec_vocab::Vocab;

    #[test]
    fn no_text_is_no_marker() {
        let texts = ["", "User:"].map(str::to_owned);
        let markers = Markers::new(&texts, &[], &Vocab::embedded()).unwrap();
        let found: Vec<usize> = markers.find("\u{23A} User: é").map(|found| found.start).collect();
        assert_eq!(found, [3]);
    }
}
