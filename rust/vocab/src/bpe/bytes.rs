//! Text to ids for byte-level vocabularies: text is split into pre-tokens, and bytes merge within
//! each.
//!
//! In: the text tokens, their merges, and text. Out: ids. Long pre-tokens are split further where that is quick, at
//! pairs of characters that no token contains: those that are mostly beyond ASCII always.

use std::ops::Range;

use super::boundaries::Cuts;
use super::key::Key;
use super::known_tokens::Seeds;
use super::lookup::Lookup;
use super::merger::{Merger, NO_ID};
use super::pairs::Symbol;
use super::parallel;
use super::pipeline::{Merging, Scratch, Units};
use super::products::{Ranks, Spelled, merger_of};
use super::sections::SECTION;
use crate::error::{Error, Result};
use crate::split::{Ends, Splitter, leads};
use crate::token::TokenId;
use crate::utf8::char_at;
use aho_corasick::{AhoCorasick, MatchKind};
use hashbrown::HashSet;

/// No token of a real vocabulary is longer.
const MAX_TOKEN_BYTES: usize = 1024;

/// Pre-tokens of up to this many bytes are units: a word of two characters, an emoji after a space. They come
/// again, and splitting one takes longer than finding it.
const SHORT: usize = 8;

/// Bytes are the first symbols.
const BYTES: Symbol = 256;

/// A token of text and its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByteToken<'a> {
    pub(crate) id: TokenId,
    pub(crate) bytes: &'a [u8],
}

/// Which pairs of tokens merge, and in which order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MergeRules<'a> {
    /// Every pair whose concatenation is a token, in the order of the tokens' ids: tiktoken.
    Ranks,
    /// These pairs of ids, in this order; the product is the token with the bytes of both.
    Pairs(&'a [(TokenId, TokenId)]),
}

/// The tables of a byte-level vocabulary's text encoder. Immutable; shared between threads.
pub(crate) struct ByteBpe {
    splitter: Splitter,
    merger: Merger,
    cuts: Cuts,
    seeds: Seeds,
    /// Tokens that no merge makes; a pre-token equal to one of them is that token.
    unmade: Lookup,
    whole: Option<Whole>,
    /// Bytes of text without a token, if there are any.
    lacking: Option<Box<[bool; 256]>>,
}

/// Added tokens that are text: matched before anything else.
struct Whole {
    spellings: AhoCorasick,
    ids: Vec<TokenId>,
    /// The characters in these tokens. A token's match begins at one of them.
    chars: HashSet<char>,
}

impl ByteBpe {
    /// Builds the tables. Tokens that are control must not be among `tokens`; `whole` are added tokens
    /// that are text, matched before anything else, leftmost-longest. With `ignore_merges`, and always
    /// with [`MergeRules::Ranks`], a pre-token that is a token is that token, whatever its merges make
    /// of it.
    ///
    /// # Errors
    /// [`Error`] for a token longer, and for more merges, than any real vocabulary
    /// has.
    pub(crate) fn new(
        tokens: &[ByteToken<'_>],
        rules: MergeRules<'_>,
        splitter: Splitter,
        ignore_merges: bool,
        whole: &[ByteToken<'_>],
    ) -> Result<Self> {
        check_tokens(tokens)?;
        let bytes = byte_tokens(tokens);
        let ignore_merges = ignore_merges || matches!(rules, MergeRules::Ranks);
        let has_ids = |byte: &u8| bytes[usize::from(*byte)] != NO_ID;
        let is_longer =
            |token: &&ByteToken<'_>| token.bytes.len() > 1 && token.bytes.iter().all(has_ids);
        let longer: Vec<ByteToken<'_>> = tokens.iter().filter(is_longer).copied().collect();
        let mut spelled = Spelled::default();
        let mut cuts = Cuts::default();
        for token in &longer {
            spelled.push(token.id, token.bytes.iter().map(|&byte| byte.into()));
            cuts.join_bytes(token.bytes);
        }
        let ranks = match rules {
            MergeRules::Ranks => {
                Ranks::OfTokens(longer.iter().map(|token| token.id as u32).collect())
            }
            MergeRules::Pairs(pairs) => Ranks::listed(pairs.iter().copied())?,
        };
        let (merger, is_made) = merger_of(bytes.to_vec(), BYTES, &spelled, &ranks)?;
        let unmade = longer.iter().zip(&is_made).filter(|(_, made)| ignore_merges && !**made);
        let unmade = Lookup::new(unmade.map(|(token, _)| *token));
        let single = tokens.iter().filter(|token| token.bytes.len() == 1);
        let made = longer.iter().zip(&is_made).filter(|(_, made)| **made);
        let known = single.chain(made.map(|(token, _)| token)).map(|token| (token.bytes, token.id));
        let seeds = Seeds::new(known, unmade.iter());
        let whole = Whole::new(whole)?;
        let lacking = lacking(&bytes);
        Ok(Self { splitter, merger, cuts, seeds, unmade, whole, lacking })
    }

    /// The bytes of text without a token: text with one of them has no ids.
    pub(crate) fn lacking(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|&byte| self.lacks(byte))
    }

    fn lacks(&self, byte: u8) -> bool {
        self.lacking.as_ref().is_some_and(|lacking| lacking[usize::from(byte)])
    }

    /// Refuses a text with a character that has no token.
    ///
    /// # Errors
    /// [`Error`] with the character.
    pub(crate) fn check(&self, text: &str) -> Result<()> {
        if self.lacking.is_none() {
            return Ok(());
        }
        let mut done = 0;
        for (start, end) in self.whole_in(text).map(|(found, _)| (found.start, found.end)) {
            self.check_between(&text[done..start])?;
            done = end;
        }
        self.check_between(&text[done..])
    }

    fn check_between(&self, text: &str) -> Result<()> {
        let Some(at) = text.bytes().position(|byte| self.lacks(byte)) else { return Ok(()) };
        let found = text.char_indices().take_while(|(start, _)| *start <= at).last();
        let found = found.map(|(_, c)| c.to_string()).unwrap_or_default();
        Err(Error::new("text", format!("no token for {found:?}")))
    }

    /// The positions of tokens that are matched as a whole in a text.
    fn whole_in<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (Range<usize>, TokenId)> + 'a {
        self.whole.iter().flat_map(move |whole| {
            let found = whole.spellings.find_iter(text);
            found.map(|found| (found.start()..found.end(), whole.ids[found.pattern().as_usize()]))
        })
    }

    /// Appends the ids of `text` to `out`; with `dummy_prefix`, of a space and `text`.
    ///
    /// Empty text has no ids, with the prefix or without.
    ///
    /// # Errors
    /// [`Error`] for a text on which the pattern exceeds its budget of steps.
    pub(crate) fn encode(
        &self,
        text: &str,
        dummy_prefix: bool,
        scratch: &mut Scratch,
        out: &mut Vec<TokenId>,
    ) -> Result<()> {
        if dummy_prefix && !text.is_empty() {
            let prefixed = [" ", text].concat();
            return self.encode(&prefixed, false, scratch, out);
        }
        let mut done = 0;
        for (found, id) in self.whole_in(text) {
            self.encode_between(&text[done..found.start], scratch, out)?;
            out.push(id);
            done = found.end;
        }
        self.encode_between(&text[done..], scratch, out)
    }

    /// Splits a long text into a limited number of parts. The ids of the parts, encoded separately
    /// and without a dummy prefix after the first part, are the ids of the whole text.
    pub(crate) fn parts<'a>(&self, text: &'a str, count: usize) -> Vec<&'a str> {
        parallel::parts(text, count, |at| self.may_part(text, at))
    }

    /// The same, into sections.
    pub(crate) fn sections<'a>(&self, text: &'a str) -> Vec<&'a str> {
        parallel::sections(text, SECTION, |at| self.may_part(text, at))
    }

    /// Whether the pattern always splits at a place, and no token that is matched as a whole can cross it.
    fn may_part(&self, text: &str, at: usize) -> bool {
        let is_in_whole = |c| self.whole.as_ref().is_some_and(|whole| whole.chars.contains(&c));
        parallel::around(text, at).is_some_and(|(left, right)| {
            !is_in_whole(left) && self.splitter.always_parts(left, right)
        })
    }

    /// Every merge as the ids of left, right and product.
    pub(crate) fn merge_ids(&self) -> impl Iterator<Item = [Option<TokenId>; 3]> + '_ {
        self.merger.merge_ids()
    }

    /// Encodes text without tokens that are matched as a whole.
    fn encode_between(
        &self,
        text: &str,
        scratch: &mut Scratch,
        out: &mut Vec<TokenId>,
    ) -> Result<()> {
        let mut units = Units::new(self, text, scratch, out);
        let parted = self.push_text(text, 0..text.len(), &mut units);
        units.flush();
        parted
    }

    /// Appends the ids of texts that lie one after another in `joined`, text `n` up to `ends[n]`, and for each text
    /// the number of all ids up to its end. Their units share blocks, so short texts are as fast as a long one.
    ///
    /// # Errors
    /// As [`Self::encode`]; then `counts` has the texts before the one with the error.
    pub(crate) fn encode_each(
        &self,
        joined: &str,
        ends: &[usize],
        scratch: &mut Scratch,
        out: &mut Vec<TokenId>,
        counts: &mut Vec<usize>,
    ) -> Result<()> {
        let mut units = Units::new(self, joined, scratch, out);
        let mut start = 0;
        let mut push = |end: usize| {
            let span = std::mem::replace(&mut start, end)..end;
            self.check(&joined[span.clone()])?;
            self.push_text(joined, span, &mut units)?;
            units.end_text();
            Ok(())
        };
        let pushed = ends.iter().try_for_each(|&end| push(end));
        counts.append(&mut units.counts());
        pushed
    }

    /// Whether some tokens are matched as a whole, whatever the text around them.
    pub(crate) fn has_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// The units of a part of `text`, which is split as if it stood alone.
    #[inline(always)]
    fn push_text(&self, text: &str, span: Range<usize>, units: &mut Units<'_, Self>) -> Result<()> {
        let base = span.start;
        let mut start = base;
        self.splitter.ends(&text[span], |Ends { from, places, wide }| {
            let from = base + from;
            if wide == 0 {
                start = units.push_ends(start, from, places, 0);
            } else if start < from {
                let unit = start..from + places.trailing_zeros() as usize;
                start = unit.end;
                self.push_pre_token(text, unit, units);
            } else {
                let cuts = self.cuts_in_long(text, from, places, wide);
                let ends = places | cuts;
                // The units that end at a cut or begin at one.
                let parts = cuts | (!ends).wrapping_add(cuts << 1) & ends;
                let parts = if self.unmade.is_empty() { 0 } else { parts };
                start = units.push_ends(start, from, ends, parts);
            }
        })
    }

    /// The cuts within pre-tokens of more than [`SHORT`] bytes that are mostly beyond ASCII. A pre-token begins at
    /// `from`, and bit `n` of `ends` means that a pre-token ends `n` bytes after; `wide` has the bytes beyond ASCII.
    #[inline(always)]
    fn cuts_in_long(&self, text: &str, from: usize, ends: u64, wide: u64) -> u64 {
        let bytes = text.as_bytes();
        let (mut long, mut within) = (ends_of_long(ends), 0);
        while long != 0 {
            let end = long.trailing_zeros();
            long &= long - 1;
            let before = (1 << end) - 1;
            let start = (ends & before).checked_ilog2().unwrap_or(0);
            let unit = before & u64::MAX << start;
            let is_wide = 2 * (wide & unit).count_ones() > end - start;
            within |= if is_wide { unit } else { 0 };
        }
        let Some(block) = bytes[from..].first_chunk().filter(|_| within != 0) else { return 0 };
        let mut firsts = within & (!wide | leads(block));
        let (mut cuts, mut previous, mut last) = (0, 0, 0);
        while firsts != 0 {
            let at = firsts.trailing_zeros() as usize;
            firsts &= firsts - 1;
            let (c, length) = char_at(bytes, from + at);
            let is_cut = self.cuts.between_bytes(previous, c, last, bytes[from + at]);
            cuts |= u64::from(is_cut) << at;
            (previous, last) = (c, bytes[from + at + length - 1]);
        }
        cuts & !(ends | 1)
    }

    /// A pre-token as a unit, or as its parts.
    #[inline(always)]
    fn push_pre_token(&self, text: &str, unit: Range<usize>, units: &mut Units<'_, Self>) {
        let key = Key::of(text.as_bytes(), &unit);
        if unit.len() <= SHORT || key.is_some_and(Key::is_mostly_ascii) {
            units.push_key(unit, key, false);
        } else {
            self.push_parts(text, unit, units);
        }
    }

    /// Splits a pre-token at pairs of characters that no token contains.
    fn push_parts(&self, text: &str, unit: Range<usize>, units: &mut Units<'_, Self>) {
        let bytes = text.as_bytes();
        let mut start = unit.start;
        let (mut previous, length) = char_at(bytes, unit.start);
        let mut at = unit.start + length;
        // Parts and whole pre-tokens differ only where whole pre-tokens are looked up.
        let minds_parts = !self.unmade.is_empty();
        while at < unit.end {
            // Whether a split is before each character of the next bytes, written without a branch.
            let (from, mut cuts) = (at, 0);
            while at < unit.end && at < from + u64::BITS as usize {
                let (c, length) = char_at(bytes, at);
                let is_cut = self.cuts.between_bytes(previous, c, bytes[at - 1], bytes[at]);
                cuts |= u64::from(is_cut) << ((at - from) % u64::BITS as usize);
                previous = c;
                at += length;
            }
            start = units.push_ends(start, from, cuts, if minds_parts { cuts } else { 0 });
        }
        let rest = start..unit.end;
        let is_part = minds_parts && start > unit.start;
        let key = Key::of(bytes, &rest);
        units.push_key(rest, if is_part { key.map(Key::of_part) } else { key }, is_part);
    }
}

impl Merging for ByteBpe {
    fn seeds(&self) -> &Seeds {
        &self.seeds
    }

    fn merger(&self) -> &Merger {
        &self.merger
    }

    fn whole(&self, unit: &str) -> Option<TokenId> {
        self.unmade.get(unit.as_bytes())
    }

    #[inline(always)]
    fn symbols(&self, unit: &str) -> impl Iterator<Item = Symbol> {
        unit.bytes().map(Symbol::from)
    }

    /// Every byte of a text that was checked is a token.
    fn fall_back(&self, _: char, _: &mut Vec<TokenId>) {}
}

impl Whole {
    fn new(tokens: &[ByteToken<'_>]) -> Result<Option<Self>> {
        let tokens: Vec<_> = tokens.iter().filter(|token| !token.bytes.is_empty()).collect();
        if tokens.is_empty() {
            return Ok(None);
        }
        let spellings = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(tokens.iter().map(|token| token.bytes))
            .map_err(|error| Error::new("added_tokens", error.to_string()))?;
        let ids = tokens.iter().map(|token| token.id).collect();
        let text = |token: &&ByteToken<'_>| String::from_utf8_lossy(token.bytes).into_owned();
        let chars = tokens.iter().map(text).flat_map(|text| text.chars().collect::<Vec<_>>());
        let chars = chars.collect();
        Ok(Some(Self { spellings, ids, chars }))
    }
}

/// The ends of pre-tokens of more than [`SHORT`] bytes; the first begins at place 0.
#[inline(always)]
fn ends_of_long(ends: u64) -> u64 {
    const { assert!(SHORT == 8, "the shifts add up to it") }
    let near = (ends | 1) << 1;
    let near = near | near << 1;
    let near = near | near << 2;
    ends & !(near | near << 4)
}

fn check_tokens(tokens: &[ByteToken<'_>]) -> Result<()> {
    for ByteToken { id, bytes } in tokens {
        if bytes.len() > MAX_TOKEN_BYTES {
            let length = bytes.len();
            let problem = format!("token {id} has {length} bytes, more than {MAX_TOKEN_BYTES}");
            return Err(Error::new("pieces", problem));
        }
        if *id < 0 {
            return Err(Error::new("pieces", format!("id {id} is negative")));
        }
    }
    Ok(())
}

/// The token of each byte, [`NO_ID`] for a byte without one.
fn byte_tokens(tokens: &[ByteToken<'_>]) -> [TokenId; 256] {
    let mut ids = [NO_ID; 256];
    for token in tokens {
        if let &[byte] = token.bytes {
            ids[usize::from(byte)] = token.id;
        }
    }
    ids
}

/// The bytes of text without a token. `DeepSeek` lacks tokens for bytes that UTF-8 never uses; no
/// text needs these.
fn lacking(ids: &[TokenId; 256]) -> Option<Box<[bool; 256]>> {
    let mut lacking = Box::new(ids.map(|id| id == NO_ID));
    for byte in [0xC0, 0xC1].into_iter().chain(0xF5..=0xFF) {
        lacking[byte] = false;
    }
    lacking.contains(&true).then_some(lacking)
}
