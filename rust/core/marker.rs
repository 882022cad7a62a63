//! Markers that are plain text: found in a caller's text, and kept from being the genuine ones.
//!
//! Where a format tells turns apart by text, nothing keeps a caller from writing the same text. What can be
//! done is to find it, and, if asked, to write it with other ids than the genuine marker has: a marker has
//! places in it where none of its own ids ends (`breaks`), and text that is cut at one of them reads as text.

use aho_corasick::{AhoCorasick, MatchKind};

use crate::error::{Error, Result};
use crate::format::grammar::Literal;
use crate::vocab::Vocab;

/// The markers of a format, with the ids of one vocabulary.
#[derive(Debug)]
pub(crate) struct Markers {
    texts: Vec<Literal>,
    finder: AhoCorasick,
    /// What makes a row where a text begins a stretch: a system text that begins with `User: `.
    heads: Vec<Literal>,
}

/// A marker in a stretch of text: bytes of the stretch, and which it is.
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
        let mut texts: Vec<Literal> = texts.iter().map(literal).collect();
        texts.sort_by(|a, b| a.text.cmp(&b.text));
        texts.dedup();
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(texts.iter().map(|literal| &literal.text))
            .map_err(|e| Error::vocab("control", format!("the format's markers: {e}")))?;
        Ok(Self { texts, finder, heads: heads.iter().map(literal).collect() })
    }

    /// Every marker in a stretch of text between two control tokens, those within others included.
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

/// Places in a marker where none of its own ids ends: one for each word of it that has an id of two
/// characters or more, in the middle of the longest.
pub(crate) fn breaks(text: &str, vocab: &Vocab) -> Vec<usize> {
    let Ok(ids) = vocab.try_encode(text) else { return Vec::new() };
    let mut ranges = Vec::with_capacity(ids.len());
    let mut at = 0;
    for (nth, &id) in ids.iter().enumerate() {
        if !text.is_char_boundary(at) {
            at += 1;
            continue;
        }
        let length = match vocab.token_bytes(id) {
            // The dummy prefix covers no text.
            Ok(bytes) if nth == 0 && bytes.first() == Some(&b' ') && !text.starts_with(' ') => {
                vocab.covered_by(&bytes[1..], &text[at..])
            }
            _ => vocab.covered(id, &text[at..]),
        };
        ranges.push(at..at + length);
        at += length;
    }
    let mut breaks = Vec::new();
    let mut start = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        let end = start + word.trim_end().len();
        let inside = ranges.iter().filter_map(|range| {
            let (from, to) = (range.start.max(start), range.end.min(end));
            let cuts: Vec<usize> = (from + 1..to).filter(|&at| text.is_char_boundary(at)).collect();
            // Only within the id: its edges inside the word are no places either.
            cuts.get(cuts.len() / 2).map(|&at| (cuts.len(), at))
        });
        breaks.extend(inside.max_by_key(|&(length, _)| length).map(|(_, at)| at));
        start += word.len();
    }
    breaks
}
