//! Units to ids, a block at a time: with the cache of recent units, the vocabulary's known tokens,
//! and merging for all other units.
//!
//! Memory latency dominates, so no step waits for memory: a unit's place in the cache is prefetched
//! when the unit is found and read when the block is full; all known tokens of a block are
//! prefetched before the first is read; and units merge side by side.

use std::ops::Range;

use super::cache::{INLINE_IDS, Ids, UnitCache};
use super::interleaved_merge::Lanes;
use super::key::Key;
use super::known_tokens::Seeds;
use super::merger::{Merger, NO_ID, Work};
use super::pairs::Symbol;
use super::text_cache::{Form, TextCache};
use crate::token::TokenId;

/// Number of units in a block.
const BLOCK: usize = 512;

/// Number of bytes that can be read for units that end within the first 64 of them.
const NEAR: usize = 64 + 16;

/// Maximum number of ids of a block, without units that have more ids than a place holds, plus a
/// few that are overwritten.
const LINE: usize = BLOCK * INLINE_IDS + INLINE_IDS;

/// Writes all ids of a place; the undefined ones are overwritten later.
#[inline(always)]
fn put(to: &mut [TokenId; LINE], at: usize, ids: &Ids) {
    let at = at % (BLOCK * INLINE_IDS);
    to[at..at + INLINE_IDS].copy_from_slice(ids);
}

/// Working memory of one encoding thread: reused for other texts, bounded.
#[derive(Default)]
pub struct Scratch {
    cache: UnitCache,
    long: LongUnits,
    texts: TextCache<LONGEST_TEXT, TEXTS_ROOM>,
    work: Work,
    lanes: Lanes,
    block: Vec<Unit>,
    missed: Vec<u32>,
    /// The ids of a block before they are appended.
    line: Vec<TokenId>,
    /// The ids of units with more ids than a place holds.
    many: Vec<TokenId>,
    /// The texts that end in the block: the number of units before each end.
    text_ends: Vec<u32>,
}

/// Cache of units that are too long for a key: twice 512 KiB.
type LongUnits = TextCache<256, { 1 << 19 }>;

/// Longer texts have [`Sections`](super::Sections).
pub(crate) const LONGEST_TEXT: usize = 1 << 16;

/// Cache of whole texts: twice 1 MiB.
const TEXTS_ROOM: usize = 1 << 20;

/// Maximum working memory for long units that is kept.
const MAX_KEPT_SYMBOLS: usize = 1 << 16;

impl Scratch {
    /// Appends the ids of a text, with a dummy prefix or without. A text that was seen twice lately has
    /// cached ids: all messages of a conversation except the last ones. `encode` appends the ids of any
    /// other text.
    pub(crate) fn recall_or<E>(
        &mut self,
        text: &str,
        dummy_prefix: bool,
        ids: &mut Vec<TokenId>,
        encode: impl FnOnce(&mut Self, &mut Vec<TokenId>) -> Result<(), E>,
    ) -> Result<(), E> {
        let form = Form::of_text(dummy_prefix);
        let Some(hash) = self.texts.hash(text, form) else { return encode(self, ids) };
        if !self.texts.recall(hash, text, form, ids) {
            let from = ids.len();
            encode(self, ids)?;
            if self.texts.comes_again(hash) {
                self.texts.keep(hash, text, form, &ids[from..]);
            }
        }
        Ok(())
    }

    /// Whether a very long unit has enlarged the memory: then it is dropped.
    pub(crate) fn is_large(&self) -> bool {
        self.work.is_large(MAX_KEPT_SYMBOLS) || self.many.capacity() > MAX_KEPT_SYMBOLS
    }
}

/// Access of the pipeline to an encoder.
pub(super) trait Merging {
    /// Units with known ids.
    fn seeds(&self) -> &Seeds;

    fn merger(&self) -> &Merger;

    /// The id of a unit without a key that is a token, regardless of its merges.
    fn whole(&self, unit: &str) -> Option<TokenId>;

    /// The first symbols of merging.
    fn symbols(&self, unit: &str) -> impl Iterator<Item = Symbol>;

    /// Appends the ids of a character without a token.
    fn fall_back(&self, c: char, ids: &mut Vec<TokenId>);

    /// The ids of a unit without a key.
    #[inline(never)]
    fn merge_long(
        &self,
        unit: &str,
        key: Key,
        long: &mut LongUnits,
        work: &mut Work,
        many: &mut Vec<TokenId>,
    ) -> (Ids, u32) {
        let form = if key == Key::LONG_PART { Form::Part } else { Form::Unit };
        let from = many.len();
        let hash = long.hash(unit, form);
        if !hash.is_some_and(|hash| long.recall(hash, unit, form, many)) {
            match self.whole(unit).filter(|_| form == Form::Unit) {
                Some(id) => many.push(id),
                None => self.merge(unit, work, many),
            }
            if let Some(hash) = hash {
                long.keep(hash, unit, form, &many[from..]);
            }
        }
        ([from as TokenId, many.len() as TokenId, 0, 0], MANY)
    }

    /// Merges a unit of any length and appends its ids.
    fn merge(&self, unit: &str, work: &mut Work, ids: &mut Vec<TokenId>) {
        let merger = self.merger();
        work.symbols.clear();
        work.symbols.extend(self.symbols(unit));
        merger.merge(work);
        let (mut chars, mut next) = (unit.chars(), 0);
        for token in &work.tokens {
            match merger.id(token.symbol) {
                // A symbol that is no token is one character.
                NO_ID => {
                    let at = (token.start - next) as usize;
                    if let Some(c) = chars.nth(at) {
                        self.fall_back(c, ids);
                    }
                    next = token.start + 1;
                }
                id => ids.push(id),
            }
        }
    }
}

/// A unit and its ids.
#[derive(Clone, Copy, Default)]
pub(super) struct Unit {
    key: Key,
    ids: Ids,
    /// Number of ids; [`MANY`] if they are stored elsewhere: then `ids` holds their range.
    count: u32,
    place: u32,
    start: usize,
    end: usize,
}

const MANY: u32 = u32::MAX;

impl Unit {
    fn number_of_ids(&self) -> usize {
        if self.count == MANY { (self.ids[1] - self.ids[0]) as usize } else { self.count as usize }
    }
}

/// The units of one text in the pipeline, or of several that lie one after another.
pub(super) struct Units<'a, M> {
    merging: &'a M,
    text: &'a str,
    scratch: &'a mut Scratch,
    out: &'a mut Vec<TokenId>,
    count: usize,
    /// For each text that has ended, the number of ids up to its end; without those that end in the block.
    counts: Vec<usize>,
}

impl<'a, M: Merging> Units<'a, M> {
    pub(super) fn new(
        merging: &'a M,
        text: &'a str,
        scratch: &'a mut Scratch,
        out: &'a mut Vec<TokenId>,
    ) -> Self {
        scratch.cache.open();
        scratch.block.resize(BLOCK, Unit::default());
        scratch.text_ends.clear();
        Self { merging, text, scratch, out, count: 0, counts: Vec::new() }
    }

    /// A text ends after the units so far.
    pub(super) fn end_text(&mut self) {
        self.scratch.text_ends.push(self.count as u32);
    }

    /// For each text that has ended, the number of all ids up to its end.
    pub(super) fn counts(mut self) -> Vec<usize> {
        self.flush();
        self.counts
    }

    /// The next unit, which is not empty.
    #[inline(always)]
    pub(super) fn push(&mut self, unit: Range<usize>) {
        let key = Key::of(self.text.as_bytes(), &unit);
        self.push_key(unit, key, false);
    }

    #[inline(always)]
    pub(super) fn push_key(&mut self, unit: Range<usize>, key: Option<Key>, is_part: bool) {
        let key = key.unwrap_or(if is_part { Key::LONG_PART } else { Key::LONG });
        let Scratch { cache, block, .. } = &mut *self.scratch;
        let Some(known) = cache.known() else { return };
        if let Some(slot) = block.get_mut(self.count) {
            slot.place = known.ask(key);
            slot.key = key;
            slot.start = unit.start;
            slot.end = unit.end;
        }
        self.count += 1;
        if self.count == BLOCK {
            self.flush();
        }
    }

    /// Adds the next units; the first begins at `start`. Bit `n` of `ends` means that a unit ends
    /// `n` bytes after `from`; a unit whose end is in `parts` is a part of a pre-token. Returns the end of the last unit.
    #[inline(always)]
    pub(super) fn push_ends(
        &mut self,
        mut start: usize,
        from: usize,
        mut ends: u64,
        parts: u64,
    ) -> usize {
        while ends != 0 {
            let rest = self.text.as_bytes().get(from..).and_then(|rest| rest.first_chunk());
            if let (Some(bytes), Some(at)) = (rest, start.checked_sub(from)) {
                return from + self.push_near(bytes, at, from, ends, parts);
            }
            // Units that began before these bytes, and units near the end of the text.
            let place = ends.trailing_zeros();
            let (end, is_part) = (from + place as usize, parts >> place & 1 != 0);
            ends &= ends - 1;
            let key = Key::of(self.text.as_bytes(), &(start..end));
            let key = if is_part { key.map(Key::of_part) } else { key };
            self.push_key(start..end, key, is_part);
            start = end;
        }
        start
    }

    /// The next units, all of them within the first 64 bytes, from `at` on.
    #[inline(always)]
    fn push_near(
        &mut self,
        bytes: &[u8; NEAR],
        mut at: usize,
        from: usize,
        mut ends: u64,
        parts: u64,
    ) -> usize {
        if self.count > BLOCK - 64 {
            self.flush();
        }
        let Scratch { cache, block, .. } = &mut *self.scratch;
        let (Some(known), Some(block)) = (cache.known(), block.first_chunk_mut::<BLOCK>()) else {
            return at;
        };
        let mut count = self.count;
        while ends != 0 {
            let end = ends.trailing_zeros() as usize;
            ends &= ends - 1;
            let mut first = [0; 16];
            first.copy_from_slice(&bytes[at % 64..at % 64 + 16]);
            let key = Key::of_first(first, end.wrapping_sub(at)).unwrap_or(Key::LONG);
            let key = if parts >> end & 1 != 0 { key.of_part() } else { key };
            let unit = &mut block[count % BLOCK];
            unit.place = known.ask(key);
            unit.key = key;
            unit.start = from + at;
            unit.end = from + end;
            count += 1;
            at = end;
        }
        self.count = count;
        at
    }

    /// Adds an id after the units so far.
    pub(super) fn push_id(&mut self, id: TokenId) {
        self.flush();
        self.out.push(id);
    }

    /// Appends the ids of the units so far.
    pub(super) fn flush(&mut self) {
        let from = self.out.len();
        self.append();
        if !self.scratch.text_ends.is_empty() {
            self.count_ids(from);
        }
    }

    /// Counts the ids of texts that end in the block, whose ids begin at `from`.
    fn count_ids(&mut self, from: usize) {
        let Scratch { block, text_ends, .. } = &mut *self.scratch;
        let (mut units, mut ids) = (block.iter(), from);
        let mut done = 0;
        for end in text_ends.drain(..) {
            let between = units.by_ref().take((end - done) as usize);
            ids += between.map(Unit::number_of_ids).sum::<usize>();
            done = end;
            self.counts.push(ids);
        }
    }

    #[inline(never)]
    fn append(&mut self) {
        let count = std::mem::take(&mut self.count).min(BLOCK);
        let Scratch { cache, missed, block, line, .. } = &mut *self.scratch;
        missed.resize(BLOCK, 0);
        line.resize(LINE, 0);
        let (Some(known), Some(block), Some(misses), Some(to)) = (
            cache.known(),
            block.first_chunk_mut::<BLOCK>(),
            missed.first_chunk_mut::<BLOCK>(),
            line.first_chunk_mut::<LINE>(),
        ) else {
            return;
        };
        let (mut missing, mut filled) = (0, 0);
        for at in 0..count {
            let unit = &mut block[at % BLOCK];
            let (ids, number) = known.get(unit.place, unit.key);
            (unit.ids, unit.count) = (*ids, number);
            put(to, filled, ids);
            filled += number as usize;
            misses[missing % BLOCK] = at as u32;
            missing += usize::from(number == 0);
        }
        if missing == 0 {
            self.out.extend_from_slice(&line[..filled]);
            return;
        }
        missed.truncate(missing);
        self.find();
        self.write(count);
    }

    /// Appends the ids of the block's units.
    fn write(&mut self, count: usize) {
        let Scratch { block, many, line, .. } = &mut *self.scratch;
        let Some(to) = line.first_chunk_mut::<LINE>() else { return };
        let mut filled = 0;
        for unit in &block[..count] {
            if unit.count == MANY {
                self.out.extend_from_slice(&to[..filled]);
                filled = 0;
                let ids = &many[unit.ids[0] as usize..unit.ids[1] as usize];
                self.out.extend_from_slice(ids);
                continue;
            }
            put(to, filled, &unit.ids);
            filled += unit.count as usize;
        }
        self.out.extend_from_slice(&to[..filled]);
        many.clear();
    }

    /// Finds the ids of the units that the cache lacks.
    #[inline(never)]
    fn find(&mut self) {
        let Scratch { cache, long, work, lanes, block, missed, many, .. } = &mut *self.scratch;
        let seeds = self.merging.seeds();
        for &at in &*missed {
            let key = block[at as usize].key;
            cache.prefetch(cache.other_place(key));
            seeds.prefetch(key);
        }
        let mut unknown = 0;
        for nth in 0..missed.len() {
            let at = missed[nth];
            let unit = &mut block[at as usize];
            if unit.key.is_long() {
                let text = &self.text[unit.start..unit.end];
                (unit.ids, unit.count) = self.merging.merge_long(text, unit.key, long, work, many);
                continue;
            }
            (unit.ids, unit.count) = cache.get(cache.other_place(unit.key), unit.key);
            if unit.count > 0 {
                cache.insert(unit.place, unit.key, unit.ids, unit.count as usize);
            } else if let Some(id) = seeds.get(unit.key) {
                (unit.ids, unit.count) = ([id; INLINE_IDS], 1);
                cache.insert(unit.place, unit.key, unit.ids, 1);
            } else {
                missed[unknown] = at;
                unknown += 1;
            }
        }
        missed.truncate(unknown);
        let text = self.text;
        let unit = |nth: usize| {
            let unit = &block[missed[nth] as usize];
            &text[unit.start..unit.end]
        };
        lanes.merge(self.merging, missed.len(), unit, many);
        // Makes room so that a full place can be read for every unit, without a call.
        many.extend_from_slice(&[0; INLINE_IDS]);
        for (&at, &(from, to)) in missed.iter().zip(lanes.found()) {
            let unit = &mut block[at as usize];
            let count = (to - from) as usize;
            match many[from as usize..].first_chunk() {
                Some(ids) if count <= INLINE_IDS => {
                    (unit.ids, unit.count) = (*ids, count as u32);
                    cache.insert(unit.place, unit.key, unit.ids, count);
                }
                _ => (unit.ids, unit.count) = ([from as TokenId, to as TokenId, 0, 0], MANY),
            }
        }
    }
}
