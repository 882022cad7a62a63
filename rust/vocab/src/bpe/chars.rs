//! Text to ids for vocabularies whose merges join characters, as in SentencePiece's BPE.
//!
//! Text is split between two neighbouring characters that no piece contains as neighbours: no merge
//! crosses the split. The units between splits are looked up or merged one by one.

use std::mem;

use hashbrown::HashMap;

use super::boundaries::Cuts;
use super::known_tokens::Seeds;
use super::merger::{Merger, NO_ID};
use super::pairs::Symbol;
use super::parallel;
use super::pipeline::{Merging, Scratch, Units};
use super::products::{Ranks, Spelled, merger_of};
use super::sections::SECTION;
use super::symbols::{ASCII, Symbols};
use super::unused::Unused;
use super::{ListedMerge, Piece, PieceKind, SPACE_MARK, extend_unmarked, unmark, unmark_point};
use crate::error::Result;
use crate::split::{BLOCK, Prose};
use crate::token::TokenId;
use crate::utf8::char_at;

/// The tables of one vocabulary's text encoder. Immutable; shared between threads.
pub(crate) struct CharBpe {
    symbols: Symbols,
    merger: Merger,
    cuts: Cuts,
    seeds: Seeds,
    /// Pieces matched as a whole, by first character.
    whole: HashMap<char, WholePieces>,
    /// Whether one of them begins with an ASCII character.
    ascii_whole: bool,
    /// Length of the longest of them, in characters.
    longest_whole: usize,
    /// The id that each byte falls back to.
    bytes: [TokenId; 256],
    /// The encoder that is used instead for vocabularies with unused pieces.
    unused: Option<Box<Unused>>,
    /// Whether a space at the beginning of text counts as the dummy prefix: Metaspace's rule.
    shares_prefix: bool,
}

/// Pieces that are matched as a whole and begin with the same character.
#[derive(Default)]
struct WholePieces {
    /// Their lengths in characters, ascending.
    lengths: Vec<usize>,
    /// Pieces in which U+2581 is itself.
    verbatim: HashMap<String, TokenId>,
    /// Pieces in which U+2581 and a space are one, spelled with spaces.
    spaced: HashMap<String, TokenId>,
}

impl WholePieces {
    fn get(&self, text: &str) -> Option<TokenId> {
        let spaced = || {
            if text.contains(SPACE_MARK) {
                return self.spaced.get(&text.replace(SPACE_MARK, " "));
            }
            self.spaced.get(text)
        };
        self.verbatim.get(text).or_else(spaced).copied()
    }
}

/// Progress in reading a text.
struct Scan<'a> {
    text: &'a str,
    /// Beginning of the open unit.
    start: usize,
    at: usize,
    /// The character before `at`. NUL is in no piece: text is split after it, as at the beginning.
    previous: u32,
}

impl Scan<'_> {
    /// Reads the next ASCII characters, up to 64; returns whether there were any.
    #[inline(always)]
    fn ascii<M: Merging>(&mut self, cuts: &Cuts, units: &mut Units<'_, M>) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        let mut last_block = [0x80; BLOCK];
        let block = rest.first_chunk().unwrap_or_else(|| {
            // A byte beyond ASCII also marks the end of the text.
            last_block[..rest.len()].copy_from_slice(rest);
            &last_block
        });
        let prose = Prose::of(block);
        let count = prose.wide.trailing_zeros() as usize;
        let mut found = cuts.among_prose(block, prose);
        let (Some(first), Some(last)) = (rest.first(), rest.get(count.wrapping_sub(1))) else {
            return false;
        };
        if self.start < self.at {
            found |= u64::from(cuts.between(self.previous, (*first).into()));
        }
        self.start = units.push_ends(self.start, self.at, found, 0);
        self.at += count;
        self.previous = (*last).into();
        true
    }
}

impl CharBpe {
    /// Builds the tables. `bytes[b]` is the id that byte `b` falls back to.
    ///
    /// # Errors
    /// [`Error`](crate::Error) for more pieces than any real vocabulary has.
    pub(crate) fn new(pieces: &[Piece<'_>], bytes: &[TokenId; 256]) -> Result<Self> {
        // Of pieces with equal scores the leftmost in the text comes first: one rank.
        let longer = |piece: &&Piece<'_>| !piece.kind.is_whole() && is_longer(piece.text);
        let mut scores: Vec<f32> = pieces.iter().filter(longer).map(|piece| piece.score).collect();
        scores.sort_unstable_by(|a, b| b.total_cmp(a));
        scores.dedup();
        let rank = |piece: &Piece<'_>| scores.partition_point(|&score| score > piece.score) as u32;
        // Most files list their pieces by score: the rank after the last one is tried first.
        let mut next = 0;
        let ranks = pieces.iter().filter(longer).map(|piece| {
            let is_next = scores.get(next as usize) == Some(&piece.score);
            let found = if is_next { next } else { rank(piece) };
            next = found + 1;
            found
        });
        let ranks = ranks.collect();
        let mut tables = Self::with_ranks(pieces, &Ranks::OfTokens(ranks), bytes)?;
        if pieces.iter().any(|piece| piece.kind == PieceKind::Unused) {
            tables.unused = Some(Box::new(Unused::new(pieces, rank)?));
        }
        Ok(tables)
    }

    /// Builds the tables of a vocabulary that lists its merges, earlier merges first; the last
    /// entry of a repeated pair counts. The pieces' scores are not used.
    ///
    /// # Errors
    /// [`Error`](crate::Error) for more merges than any real vocabulary has.
    pub(crate) fn with_listed_merges(
        pieces: &[Piece<'_>],
        merges: &[ListedMerge],
        bytes: &[TokenId; 256],
    ) -> Result<Self> {
        let id = |place: u32| pieces.get(place as usize).map_or(NO_ID, |piece| piece.id);
        let ranks = Ranks::listed(merges.iter().map(|merge| (id(merge.left), id(merge.right))))?;
        Self::with_ranks(pieces, &ranks, bytes)
    }

    /// Variant of the tables that adds no space before text that begins with a space.
    pub(crate) fn sharing_prefix(self) -> Self {
        Self { shares_prefix: true, ..self }
    }

    fn with_ranks(pieces: &[Piece<'_>], ranks: &Ranks, bytes: &[TokenId; 256]) -> Result<Self> {
        let mut symbols = Symbols::default();
        let mut cuts = Cuts::default();
        let mut spelled = Spelled::default();
        for piece in pieces.iter().filter(|piece| !piece.kind.is_whole()) {
            let chars = || piece.text.chars().map(unmark);
            for c in chars() {
                symbols.add(c);
            }
            if is_longer(piece.text) {
                spelled.push(piece.id, chars().map(|c| symbols.get(c.into())));
                cuts.join(chars());
            }
        }
        let mut firsts = vec![NO_ID; symbols.len()];
        for piece in pieces.iter().filter(|piece| !piece.kind.is_whole()) {
            if let Some(c) = only(piece.text) {
                firsts[symbols.get(unmark(c).into()) as usize] = piece.id;
            }
        }
        let (merger, is_made) = merger_of(firsts, ASCII, &spelled, ranks)?;
        let seeds = seeds(pieces, &is_made);
        let whole = whole(pieces, &mut symbols);
        let ascii_whole = whole.keys().any(char::is_ascii);
        let lengths = whole.values().filter_map(|pieces| pieces.lengths.last());
        let longest_whole = lengths.max().copied().unwrap_or(0);
        let bytes = *bytes;
        Ok(Self {
            symbols,
            merger,
            cuts,
            seeds,
            whole,
            ascii_whole,
            longest_whole,
            bytes,
            unused: None,
            shares_prefix: false,
        })
    }

    /// Appends the ids of `text` to `out`; with `dummy_prefix`, of a space and `text`.
    ///
    /// Empty text has no ids, with the prefix or without.
    pub(crate) fn encode(
        &self,
        text: &str,
        dummy_prefix: bool,
        scratch: &mut Scratch,
        out: &mut Vec<TokenId>,
    ) {
        let shared = self.shares_prefix && text.starts_with([' ', SPACE_MARK]);
        if !dummy_prefix || text.is_empty() || shared {
            return self.encode_units(text, scratch, out);
        }
        // The space can only merge into the first unit, so only that unit is copied; pieces matched
        // as a whole may start at the space and reach further, and vocabularies with unused pieces
        // have no splits.
        let is_cut = self.whole.is_empty() && self.unused.is_none();
        let first = if is_cut { self.first_cut(text) } else { text.len() };
        let mut prefixed = String::with_capacity(first + 1);
        prefixed.push(' ');
        prefixed.push_str(&text[..first]);
        self.encode_units(&prefixed, scratch, out);
        self.encode_units(&text[first..], scratch, out);
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

    /// Whether no merge crosses a place, and no piece that is matched as a whole can cross it.
    fn may_part(&self, text: &str, at: usize) -> bool {
        let Some((left, right)) = parallel::around(text, at) else { return false };
        let mut before = text[..at].chars().rev().take(self.longest_whole);
        self.unused.is_none()
            && self.cuts.between(unmark(left).into(), unmark(right).into())
            && !before.any(|c| self.symbols.begins_whole(unmark(c).into()))
    }

    /// Every merge as the ids of left, right and product; `None` where a symbol has no id.
    pub(crate) fn merge_ids(&self) -> Box<dyn Iterator<Item = [Option<TokenId>; 3]> + '_> {
        match &self.unused {
            Some(unused) => Box::new(unused.merge_ids()),
            None => Box::new(self.merger.merge_ids()),
        }
    }

    /// The end of the first unit of a text that is not empty.
    fn first_cut(&self, text: &str) -> usize {
        let mut chars = text.char_indices();
        let mut previous = chars.next().map_or(' ', |(_, c)| unmark(c));
        for (at, c) in chars {
            let c = unmark(c);
            if self.cuts.between(previous.into(), c.into()) {
                return at;
            }
            previous = c;
        }
        text.len()
    }

    fn encode_units(&self, text: &str, scratch: &mut Scratch, out: &mut Vec<TokenId>) {
        if let Some(unused) = &self.unused {
            return self.encode_unused(unused, text, out);
        }
        let mut units = Units::new(self, text, scratch, out);
        let mut scan = Scan { text, start: 0, at: 0, previous: 0 };
        while scan.at < text.len() {
            if self.ascii_whole || !scan.ascii(&self.cuts, &mut units) {
                self.scan_wide(&mut scan, &mut units);
            }
        }
        if scan.start < text.len() {
            units.push(scan.start..text.len());
        }
        units.flush();
    }

    /// Reads characters beyond ASCII, up to some splits or a piece that is matched as a whole.
    #[inline(always)]
    fn scan_wide(&self, scan: &mut Scan<'_>, units: &mut Units<'_, Self>) {
        let bytes = scan.text.as_bytes();
        // Whether a split is before each character of the next bytes, written without a branch.
        let (from, mut cuts) = (scan.at, 0);
        let mut whole = None;
        while let Some(byte) = bytes.get(scan.at)
            && (!byte.is_ascii() || self.ascii_whole)
            && scan.at < from + u64::BITS as usize
        {
            let (c, length) = char_at(bytes, scan.at);
            let c = unmark_point(c);
            if self.symbols.begins_whole(c) {
                whole = self.match_whole(&scan.text[scan.at..]);
                if whole.is_some() {
                    break;
                }
            }
            let is_cut = self.cuts.between(scan.previous, c);
            cuts |= u64::from(is_cut) << ((scan.at - from) % u64::BITS as usize);
            scan.previous = c;
            scan.at += length;
        }
        // The text may begin with a split, and so may the text after a piece that is matched as a
        // whole.
        if scan.start == from {
            cuts &= !1;
        }
        scan.start = units.push_ends(scan.start, from, cuts, 0);
        if let Some((length, id)) = whole {
            if scan.start < scan.at {
                units.push(scan.start..scan.at);
            }
            units.push_id(id);
            scan.at += length;
            (scan.start, scan.previous) = (scan.at, 0);
        }
    }

    /// Encodes text between pieces that are matched as a whole.
    fn encode_unused(&self, unused: &Unused, text: &str, out: &mut Vec<TokenId>) {
        let (mut start, mut at) = (0, 0);
        while let Some(c) = text[at..].chars().next() {
            if let Some((length, id)) = self.match_whole(&text[at..]) {
                unused.encode(&text[start..at], &self.bytes, out);
                out.push(id);
                at += length;
                start = at;
            } else {
                at += c.len_utf8();
            }
        }
        unused.encode(&text[start..], &self.bytes, out);
    }

    /// The longest piece matched as a whole at the beginning of `text`: its length in bytes and its
    /// id.
    fn match_whole(&self, text: &str) -> Option<(usize, TokenId)> {
        let pieces = self.whole.get(&unmark(text.chars().next()?))?;
        let mut found = None;
        let mut ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
        let mut read = 0;
        for &length in &pieces.lengths {
            let Some(end) = ends.nth(length - read - 1) else { break };
            read = length;
            found = pieces.get(&text[..end]).map(|id| (end, id)).or(found);
        }
        found
    }
}

impl Merging for CharBpe {
    fn seeds(&self) -> &Seeds {
        &self.seeds
    }

    fn merger(&self) -> &Merger {
        &self.merger
    }

    fn whole(&self, _: &str) -> Option<TokenId> {
        None
    }

    #[inline(always)]
    fn symbols(&self, unit: &str) -> impl Iterator<Item = Symbol> {
        unit.chars().map(|c| self.symbols.get(unmark(c).into()))
    }

    #[cold]
    fn fall_back(&self, c: char, ids: &mut Vec<TokenId>) {
        let mut bytes = [0; 4];
        ids.extend(c.encode_utf8(&mut bytes).bytes().map(|byte| self.bytes[usize::from(byte)]));
    }
}

/// Pieces that the merges make of the piece's own text. Spaces are spelled as in text.
fn seeds(pieces: &[Piece<'_>], is_made: &[bool]) -> Seeds {
    let mut is_made = is_made.iter();
    let mut made = |piece: &&Piece<'_>| {
        !is_longer(piece.text) || is_made.next().is_some_and(|&is_made| is_made)
    };
    let merging = pieces.iter().filter(|piece| !piece.kind.is_whole());
    let made = merging.filter(|piece| made(piece));
    let (mut texts, mut ends) = (Vec::new(), Vec::new());
    for piece in made {
        extend_unmarked(&mut texts, piece.text);
        ends.push((texts.len(), piece.id));
    }
    let mut start = 0;
    let made = ends.into_iter().map(|(end, id)| (&texts[mem::replace(&mut start, end)..end], id));
    Seeds::new(made, std::iter::empty())
}

fn whole(pieces: &[Piece<'_>], symbols: &mut Symbols) -> HashMap<char, WholePieces> {
    let mut whole: HashMap<char, WholePieces> = HashMap::new();
    for piece in pieces.iter().filter(|piece| piece.kind.is_whole()) {
        let Some(first) = piece.text.chars().next() else { continue };
        symbols.mark_whole(unmark(first));
        let same = whole.entry(unmark(first)).or_default();
        same.lengths.push(piece.text.chars().count());
        let (known, text) = if piece.kind == PieceKind::Verbatim {
            (&mut same.verbatim, piece.text.to_owned())
        } else {
            (&mut same.spaced, piece.text.replace(SPACE_MARK, " "))
        };
        known.entry(text).or_insert(piece.id);
    }
    for pieces in whole.values_mut() {
        pieces.lengths.sort_unstable();
        pieces.lengths.dedup();
    }
    whole
}

/// The only character of a text, if it has exactly one.
fn only(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

fn is_longer(text: &str) -> bool {
    text.chars().nth(1).is_some()
}
