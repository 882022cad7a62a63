//! Which pattern a marker begins: candidates are read side by side, an id or a byte at a time.
//!
//! ```text
//! user\n           fits "{START}user\n{content}", and fits it alone
//! user name=ada\n  the same row with its guard: the name is "ada"
//! ```
//!
//! A candidate that has reached its text waits, and keeps the position where the text begins. It wins when all
//! candidates before it in the table have failed.
//!
//! A candidate is a small value: a word of the header is a range of the held text, and is copied out once, when the
//! candidate wins.

use super::spelled::Spelled;
use crate::call::Mended;
use crate::grammar::{BoundPiece, FixedText, Grammar, Op, RuleOf, Start, steps_from};
use crate::limits::HOLD_LIMIT;
use crate::message::Role;
use crate::pattern::{Field, FieldContent, is_white};
use crate::word::is_word_byte;
use chatcodec_vocab::{ControlId, TokenId};

/// Part of a stream, with its position.
#[derive(Debug, Clone)]
pub(super) enum HeldItem {
    Text {
        text: String,
        first: u32,
        at: u32,
    },
    Control {
        id: TokenId,
        /// Its first position: it may have text of its own, or be spelled.
        first: u32,
        at: u32,
        /// Its spelling, if text spelled the token.
        spelled: Option<Box<Spelled>>,
    },
    /// An id outside the vocabulary, written out.
    Unknown {
        text: String,
        at: u32,
    },
}

impl HeldItem {
    /// Whether it is empty text.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Text { text, .. } if text.is_empty())
    }

    /// Whether it is only text between two calls of a list.
    pub(super) fn is_comma(&self) -> bool {
        matches!(self, Self::Text { text, .. } if text.bytes().all(|b| b == b',' || b == b' '))
    }

    /// The position of the id, or of the last of several.
    pub(super) fn at(&self) -> u32 {
        match *self {
            Self::Text { at, .. } | Self::Control { at, .. } | Self::Unknown { at, .. } => at,
        }
    }

    /// The spelling of a control token that text spelled.
    pub(super) fn spelled(&self) -> Option<&Spelled> {
        match self {
            Self::Control { spelled, .. } => spelled.as_deref(),
            _ => None,
        }
    }

    /// A spelled control token as text.
    pub(super) fn into_text(self) -> Self {
        match self {
            Self::Control { at, spelled: Some(spelled), .. } => {
                Self::Text { text: spelled.text, first: spelled.first, at }
            }
            item => item,
        }
    }

    /// The position of its first id.
    pub(super) fn first(&self) -> u32 {
        match self {
            Self::Text { first, .. } | Self::Control { first, .. } => *first,
            Self::Unknown { at, .. } => *at,
        }
    }
}

/// Input since a marker, and the marker.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    items: Vec<HeldItem>,
    bytes: usize,
}

/// Place in held input: before byte `byte` of item `item`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Position {
    item: usize,
    byte: usize,
}

impl Held {
    pub(super) fn of(items: Vec<HeldItem>) -> Self {
        let mut held = Self::default();
        for item in items {
            held.push(item);
        }
        held
    }

    /// Adds an item, and returns its place.
    pub(super) fn push(&mut self, item: HeldItem) -> Position {
        if let HeldItem::Text { text, .. } = &item {
            self.bytes += text.len();
        }
        self.items.push(item);
        Position { item: self.items.len() - 1, byte: 0 }
    }

    /// Whether more is held than a header may be long.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > HOLD_LIMIT
    }

    /// The number of items.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// The place after the last item.
    pub(super) fn end(&self) -> Position {
        Position { item: self.items.len(), byte: 0 }
    }

    /// The place `bytes` bytes of text after the beginning of an item.
    pub(super) fn after_bytes(&self, from: Position, bytes: usize) -> Position {
        let mut byte = bytes;
        for (nth, item) in self.items.iter().enumerate().skip(from.item) {
            match item {
                HeldItem::Text { text, .. } if text.len() <= byte => byte -= text.len(),
                _ => return Position { item: nth, byte },
            }
        }
        self.end()
    }

    /// The positions of the first and the last id.
    pub(super) fn bounds(&self) -> (u32, u32) {
        (self.items.first().map_or(0, HeldItem::first), self.items.last().map_or(0, HeldItem::at))
    }

    /// Whether the input is exactly the text and tokens of `pieces`, which have no field.
    pub(super) fn is(&self, pieces: &[BoundPiece]) -> bool {
        let mut items = self.items.iter().peekable();
        let mut text = String::new();
        // White space between turns is scaffolding.
        let pieces = match pieces {
            [BoundPiece::Literal(FixedText::Encoded(white)), rest @ ..]
                if is_white(white) && matches!(items.peek(), Some(HeldItem::Control { .. })) =>
            {
                rest
            }
            pieces => pieces,
        };
        for (nth, piece) in pieces.iter().enumerate() {
            match piece {
                BoundPiece::Control(ids) => {
                    let is_same = |item: &HeldItem| {
                        matches!(item, HeldItem::Control { id, .. }
                            if ids.iter().any(|known| known.get() == *id))
                    };
                    if !text.is_empty() || !items.next().is_some_and(is_same) {
                        return false;
                    }
                }
                BoundPiece::Literal(FixedText::Encoded(literal)) => {
                    while let Some(HeldItem::Text { text: more, .. }) =
                        items.next_if(|item| matches!(item, HeldItem::Text { .. }))
                    {
                        text.push_str(more);
                    }
                    // White space before a prompt of text, too.
                    let literal = if nth == 0 {
                        text.drain(..text.len() - text.trim_ascii_start().len());
                        literal.trim_ascii_start()
                    } else {
                        literal
                    };
                    match text.strip_prefix(literal) {
                        Some(rest) => text = rest.to_owned(),
                        None => return false,
                    }
                }
                _ => {}
            }
        }
        text.is_empty() && items.next().is_none()
    }

    /// Whether there is nothing but white space between two places.
    fn is_blank(&self, from: Position, to: Position) -> bool {
        let items = self.items.iter().enumerate().take(to.item + 1).skip(from.item);
        items.into_iter().all(|(nth, item)| match item {
            HeldItem::Text { text, .. } => {
                let start = if nth == from.item { from.byte } else { 0 };
                let end = if nth == to.item { to.byte } else { text.len() };
                text.get(start..end.max(start)).is_some_and(is_white)
            }
            _ => nth == to.item,
        })
    }

    /// The end of the text and tokens of `pieces`, which have no field, if the input begins with them and continues.
    pub(super) fn after(&self, pieces: &[BoundPiece]) -> Option<Position> {
        let mut at = Position::default();
        for piece in pieces {
            match (piece, self.items.get(at.item)?) {
                (BoundPiece::Control(ids), HeldItem::Control { id, spelled, .. })
                    if at.byte == 0
                        && (spelled.is_none() || Grammar::is_text_marker(*id))
                        && ids.iter().any(|known| known.get() == *id) =>
                {
                    at.item += 1;
                }
                (BoundPiece::Literal(FixedText::Encoded(literal)), _) => {
                    for byte in literal.bytes() {
                        let HeldItem::Text { text, .. } = self.items.get(at.item)? else {
                            return None;
                        };
                        if text.as_bytes().get(at.byte) != Some(&byte) {
                            return None;
                        }
                        at.byte += 1;
                        if at.byte == text.len() {
                            at = Position { item: at.item + 1, byte: 0 };
                        }
                    }
                }
                _ => return None,
            }
        }
        (at != Position::default() && at.item < self.items.len()).then_some(at)
    }

    /// Whether the last item is text.
    pub(super) fn ends_in_text(&self) -> Option<bool> {
        self.items.last().map(|item| matches!(item, HeldItem::Text { .. }))
    }

    /// Mending of the missing control token at the beginning.
    pub(super) fn missing(&self) -> Option<Mended> {
        self.items.first().and_then(HeldItem::spelled)?.missing
    }

    /// Whether the first item is text.
    pub(super) fn begins_in_text(&self) -> bool {
        matches!(self.items.first(), Some(HeldItem::Text { .. }))
    }

    /// Its first item.
    pub(super) fn first(&self) -> Option<&HeldItem> {
        self.items.first()
    }

    /// The control token at the beginning, if text spelled it.
    pub(super) fn spelled(&self) -> Option<TokenId> {
        match self.items.first() {
            Some(&HeldItem::Control { id, spelled: Some(_), .. }) => Some(id),
            _ => None,
        }
    }

    /// Whether it is only the id that a turn has stopped at.
    pub(super) fn is_stop(&self, grammar: &Grammar) -> bool {
        matches!(self.items[..], [HeldItem::Control { id, spelled: None, .. }] if grammar.stops(id))
    }

    /// Whether it is one item.
    pub(super) fn is_one(&self) -> bool {
        self.items.len() == 1
    }

    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Removes and returns the input from a place on.
    pub(super) fn split_off(&mut self, from: Position) -> Vec<HeldItem> {
        let mut rest = self.items.split_off(from.item.min(self.items.len()));
        if from.byte > 0
            && let Some(HeldItem::Text { text, first, at }) = rest.first_mut()
        {
            let after = text.split_off(from.byte);
            let (head, head_first, at) = (std::mem::replace(text, after), *first, *at);
            *first = at;
            let is_empty = text.is_empty();
            self.items.push(HeldItem::Text { text: head, first: head_first, at });
            if is_empty {
                rest.remove(0);
            }
        }
        self.bytes = self
            .items
            .iter()
            .map(|item| match item {
                HeldItem::Text { text, .. } => text.len(),
                _ => 0,
            })
            .sum();
        rest
    }

    pub(super) fn items(&self) -> &[HeldItem] {
        &self.items
    }

    /// A word of the text.
    fn word(&self, word: Word) -> String {
        let (start, end) = (word.start as usize, (word.start + word.len) as usize);
        let mut out = String::with_capacity(word.len as usize);
        let mut before = 0;
        for item in &self.items {
            let HeldItem::Text { text, .. } = item else { continue };
            let (from, to) = (start.max(before), end.min(before + text.len()));
            if from < to {
                out.push_str(text.get(from - before..to - before).unwrap_or_default());
            }
            before += text.len();
        }
        out
    }

    pub(super) fn into_items(self) -> Vec<HeldItem> {
        self.items
    }
}

/// Number of fields that are words.
const WORDS: usize = 7;

/// Word of a header: a range of the text that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Word {
    field: Field,
    start: u32,
    len: u32,
}

/// Words of a header, in order. A pattern has each field once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Words([Option<Word>; WORDS]);

impl Words {
    fn iter(&self) -> impl Iterator<Item = Word> + '_ {
        self.0.iter().map_while(|word| *word)
    }

    /// The only word, if there is one.
    fn only(&self) -> Option<Word> {
        self.0[0].filter(|_| self.0[1].is_none())
    }

    /// Adds the first byte of a word, at byte `start` of the held text.
    fn begin(&mut self, field: Field, start: u32) {
        if let Some(free) = self.0.iter_mut().find(|word| word.is_none()) {
            *free = Some(Word { field, start, len: 1 });
        }
    }

    /// Adds a byte to the last word.
    fn extend(&mut self) {
        if let Some(last) = self.0.iter_mut().flatten().next_back() {
            last.len += 1;
        }
    }
}

/// Candidate: a pattern and the part of it that has been read.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    rule: RuleOf,
    op: usize,
    /// Bytes of the literal, or of the word, that have come.
    byte: usize,
    words: Words,
    /// Where its text begins, or where it ends, once it has come to that.
    text_from: Option<Position>,
    /// Whether `{*}` took more than white space.
    has_rest: bool,
}

/// Candidates for one marker.
#[derive(Debug, Clone)]
pub(super) struct Header {
    cursors: Vec<Cursor>,
    /// Memory for the cursors after the next byte.
    spare: Vec<Cursor>,
    /// Bytes of held text that have been read.
    read: u32,
    /// Whether white space at the beginning is skipped.
    skips_white: bool,
}

/// Pattern that fits.
#[derive(Debug)]
pub(super) struct Fit {
    pub(super) rule: RuleOf,
    /// Number of the step at which its text begins; the number of steps if no text follows.
    pub(super) op: usize,
    /// Where its text begins.
    pub(super) end: Position,
    /// Whether the header holds something that the pattern does not tell.
    pub(super) has_rest: bool,
    words: Vec<(Field, String)>,
}

impl Fit {
    /// The word in a field of the header.
    pub(super) fn word(&self, field: Field) -> Option<String> {
        self.words.iter().find(|(known, _)| *known == field).map(|(_, word)| word.clone())
    }
}

#[derive(Debug)]
pub(super) enum Decision {
    /// More must come.
    Open,
    /// No pattern fits.
    None,
    Fits(Fit),
}

impl Header {
    /// Patterns from these steps, in the order in which they are tried.
    pub(super) fn new(starts: &[Start]) -> Self {
        let first = Position::default();
        let cursors = starts.iter().map(|start| Cursor {
            rule: start.rule,
            op: start.op,
            byte: 0,
            words: Words::default(),
            text_from: start.is_text.then_some(first),
            has_rest: false,
        });
        Self { cursors: cursors.collect(), spare: Vec::new(), read: 0, skips_white: false }
    }

    /// As [`Header::new`], after optional white space if no pattern begins with white space.
    pub(super) fn spaced(grammar: &Grammar, starts: &[Start]) -> Self {
        let skips_white = starts.iter().all(|start| {
            let op = start.rule.rule(grammar).read.get(start.op);
            // A dummy prefix is a space too.
            matches!(op, Some(Op::Prefix))
                || matches!(op, Some(Op::Literal(text))
                    if text.bytes().next().is_some_and(|first| !first.is_ascii_whitespace()))
        });
        Self { skips_white, ..Self::new(starts) }
    }

    /// Whether only optional white space has come.
    pub(super) fn is_blank(&self) -> bool {
        self.skips_white
    }

    /// Keeps the assistant's patterns: the prompt has opened the assistant's turn.
    pub(super) fn keep_assistants(&mut self, grammar: &Grammar) {
        self.cursors.retain(|cursor| match cursor.rule {
            RuleOf::Row(row) => grammar.rows[row].role == Role::Assistant,
            RuleOf::Item(_) => true,
        });
    }

    /// Reads the item that was just added to `held` at `position`.
    ///
    /// With `by_text`, positions are not of ids.
    pub(super) fn step(
        &mut self,
        grammar: &Grammar,
        held: &Held,
        position: Position,
        by_text: bool,
    ) -> Decision {
        let Some(item) = held.items.get(position.item) else { return Decision::Open };
        match item {
            HeldItem::Text { text, .. } => {
                let before = position.item.checked_sub(1).and_then(|item| held.items.get(item));
                let is_new_id = !by_text && before.is_some_and(|before| before.at() != item.at());
                for (byte, value) in text.bytes().enumerate() {
                    let at = self.read;
                    self.read = at.saturating_add(1);
                    if self.skips_white && value.is_ascii_whitespace() {
                        continue;
                    }
                    self.skips_white = false;
                    let before = Position { byte, ..position };
                    let after = Position { byte: byte + 1, ..position };
                    let begins_id = is_new_id && byte == 0;
                    self.advance(grammar, held, [before, after], |cursor, op| {
                        cursor.take_byte(op, value, begins_id, at)
                    });
                    match self.decision_in(grammar, held, after) {
                        Decision::Open => {}
                        decided => return decided,
                    }
                }
            }
            &HeldItem::Control { id, .. } => {
                for cursor in &mut self.cursors {
                    cursor.reach_reasoning(grammar, id, position);
                }
                let after = Position { item: position.item + 1, byte: 0 };
                self.advance(grammar, held, [position, after], |cursor, op| {
                    cursor.take_control(op, id)
                });
            }
            HeldItem::Unknown { .. } => {
                self.advance(grammar, held, [position; 2], |_, _| Taken::No);
            }
        }
        match self.decision_in(grammar, held, held.end()) {
            Decision::Open if held.is_full() => self.finish(held),
            decision => decision,
        }
    }

    /// The decision after the input up to `read`. Where arguments in JSON may begin, text other than white space
    /// belongs to the shapes that are only read.
    fn decision_in(&self, grammar: &Grammar, held: &Held, read: Position) -> Decision {
        let Some((own, others)) = self.cursors.split_first() else { return Decision::None };
        let (Some(end), true) = (own.text_from, own.is_own_json(grammar)) else {
            return self.decision(held);
        };
        let mut others = others.iter().filter(|other| other.is_also(grammar));
        let is_further = |other: &&Cursor| match other.text_from {
            Some(at) => !held.is_blank(end, at),
            None => other.has_words_ahead(grammar) || !held.is_blank(end, read),
        };
        match others.find(is_further) {
            Some(Cursor { text_from: None, .. }) => Decision::Open,
            Some(other) => other.fit(held),
            None => own.fit(held),
        }
    }

    /// The decision if nothing follows: a waiting candidate wins.
    pub(super) fn finish(&mut self, held: &Held) -> Decision {
        self.cursors.retain(|cursor| cursor.text_from.is_some());
        self.decision(held)
    }

    /// The first candidate, if it has come to its text.
    pub(super) fn decision(&self, held: &Held) -> Decision {
        match self.cursors.first() {
            None => Decision::None,
            Some(cursor) => cursor.fit(held),
        }
    }

    fn advance(
        &mut self,
        grammar: &Grammar,
        held: &Held,
        [before, after]: [Position; 2],
        take: impl Fn(&mut Cursor, &Op) -> Taken,
    ) {
        let mut next = std::mem::take(&mut self.spare);
        next.clear();
        for mut cursor in self.cursors.iter().copied() {
            if cursor.text_from.is_some() {
                next.push(cursor);
                continue;
            }
            let ops = &cursor.rule.rule(grammar).read;
            // There is a cursor at each possible step, also after an optional one.
            let Some(op) = ops.get(cursor.op) else { continue };
            match take(&mut cursor, op) {
                Taken::No => {}
                Taken::Within => next.push(cursor),
                Taken::MayEnd => {
                    next.push(cursor);
                    if !cursor.is_reserved(grammar, held) {
                        cursor.go_on(ops, after, &mut next);
                    }
                }
                Taken::Ended => cursor.go_on(ops, after, &mut next),
                Taken::Before => cursor.go_on(ops, before, &mut next),
            }
        }
        let mut kept = 0;
        for at in 0..next.len() {
            // Cursors of a pattern are neighbours.
            let mut same = next[..kept].iter().rev().take_while(|c| c.rule == next[at].rule);
            if !same.any(|other| other.is_at(&next[at])) {
                next.swap(kept, at);
                kept += 1;
            }
        }
        next.truncate(kept);
        self.spare = std::mem::replace(&mut self.cursors, next);
    }
}

/// Result of a step for a byte or an id.
enum Taken {
    /// It does not fit.
    No,
    /// It fits, and the step goes on.
    Within,
    /// It fits, and the step may end here or go on.
    MayEnd,
    /// It fits and ends the step.
    Ended,
    /// It ends the step, and is part of what comes next.
    Before,
}

impl Cursor {
    /// Reads a byte, which is at byte `at` of the held text.
    fn take_byte(&mut self, op: &Op, value: u8, begins_id: bool, at: u32) -> Taken {
        match op {
            // A marker that was cut where no id of it ends is not the genuine one.
            Op::Literal(text) if begins_id && text.breaks.contains(&self.byte) => Taken::No,
            Op::Literal(text) if text.as_bytes().get(self.byte) == Some(&value) => {
                self.byte += 1;
                if self.byte == text.len() { Taken::Ended } else { Taken::Within }
            }
            Op::Space if value.is_ascii_whitespace() => Taken::MayEnd,
            Op::Prefix if value == b' ' => Taken::Ended,
            Op::Brace if value == b'{' => Taken::Before,
            // A word before it ends, and is not a key.
            Op::Rest(_) if self.byte > 0 || !is_word_byte(value) && value != b'=' => {
                self.byte = 1;
                self.has_rest |= !value.is_ascii_whitespace();
                Taken::MayEnd
            }
            &Op::Field(field, _) if field.holds() == FieldContent::Word && is_word_byte(value) => {
                if self.byte == 0 {
                    self.words.begin(field, at);
                } else {
                    self.words.extend();
                }
                self.byte += 1;
                Taken::MayEnd
            }
            _ => Taken::No,
        }
    }

    /// Skips white space of the pattern that is missing before a token of reasoning.
    fn reach_reasoning(&mut self, grammar: &Grammar, id: TokenId, at: Position) {
        let rule = self.rule.rule(grammar);
        let is_beside = rule.reasoning.as_ref().is_some_and(|reasoning| reasoning.is_beside(id));
        let is_text =
            |op: &Op| matches!(op, Op::Field(field, _) if field.holds() != FieldContent::Word);
        if let [Op::Literal(literal), text, ..] = rule.read.get(self.op..).unwrap_or_default()
            && self.text_from.is_none()
            && is_beside
            && is_text(text)
            && literal.get(self.byte..).is_some_and(is_white)
        {
            (self.op, self.byte, self.text_from) = (self.op + 1, 0, Some(at));
        }
    }

    fn take_control(&mut self, op: &Op, id: TokenId) -> Taken {
        let has = |ids: &[ControlId]| ids.iter().any(|known| known.get() == id);
        match op {
            Op::Control(ids) if has(ids) => Taken::Ended,
            Op::Rest(ids) if has(ids) => {
                self.byte = 1;
                self.has_rest = true;
                Taken::MayEnd
            }
            _ => Taken::No,
        }
    }

    /// The fit, once the candidate has come to its text.
    fn fit(&self, held: &Held) -> Decision {
        let &Self { rule, op, words, has_rest, .. } = self;
        self.text_from.map_or(Decision::Open, |end| {
            let words = words.iter().map(|word| (word.field, held.word(word))).collect();
            Decision::Fits(Fit { rule, op, end, has_rest, words })
        })
    }

    /// Whether it is a shape of calls that is only read.
    fn is_also(&self, grammar: &Grammar) -> bool {
        matches!(self.rule, RuleOf::Item(item) if grammar.items[item].is_also)
    }

    /// Whether it is the format's own shape of calls, with JSON arguments after the name.
    fn is_own_json(&self, grammar: &Grammar) -> bool {
        let RuleOf::Item(item) = self.rule else { return false };
        let (item, op) = (&grammar.items[item], self.rule.rule(grammar).read.get(self.op));
        !item.is_also && item.ends_itself && matches!(op, Some(Op::Field(Field::Arguments, _)))
    }

    /// Whether more than white space comes before its text.
    fn has_words_ahead(&self, grammar: &Grammar) -> bool {
        let ahead = self.rule.rule(grammar).read.get(self.op..).unwrap_or_default();
        let is_word = |op: &Op| match op {
            Op::Literal(text) => !is_white(text),
            Op::Field(field, _) => field.holds() == FieldContent::Word,
            _ => false,
        };
        ahead.iter().take_while(|op| !matches!(op, Op::Brace | Op::Control(_))).any(is_word)
    }

    /// Whether its first word begins other patterns.
    fn is_reserved(&self, grammar: &Grammar, held: &Held) -> bool {
        let RuleOf::Row(row) = self.rule else { return false };
        let reserved = &grammar.rows[row].reserved;
        if reserved.is_empty() {
            return false;
        }
        self.words.only().is_some_and(|word| {
            let word = held.word(word);
            reserved.iter().any(|reserved| reserved.has(&word))
        })
    }

    /// Whether both have read equally much of the same pattern. The first one is enough: their
    /// texts differ only in meaningless white space at the beginning.
    fn is_at(&self, other: &Self) -> bool {
        let at = |cursor: &Self| (cursor.rule, cursor.op, cursor.byte);
        at(self) == at(other) && self.words == other.words
    }

    /// Adds itself at the next step, and at the steps after it where that may be empty.
    fn go_on(self, ops: &[Op], after: Position, next: &mut Vec<Self>) {
        steps_from(ops, self.op + 1, &mut |op, is_text| {
            next.push(Self { op, byte: 0, text_from: is_text.then_some(after), ..self });
        });
    }
}
