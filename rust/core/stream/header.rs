//! Which pattern a marker begins: candidates walked side by side, an id or a byte at a time.
//!
//! A candidate that has come to its text waits; it wins when all candidates before it in the table
//! have failed. What it waits for is the position where its text begins.

use super::HEAD_LIMIT;
use crate::format::grammar::{Grammar, Op, Rule};
use crate::format::pattern::{Field, Grammar as FieldGrammar, is_word_byte};
use crate::vocab::TokenId;

/// One thing that a stream is made of, with its position.
#[derive(Debug, Clone)]
pub(super) enum HeldItem {
    Text {
        text: String,
        first: u32,
        at: u32,
    },
    Control {
        id: TokenId,
        at: u32,
    },
    /// An id outside the vocabulary, written out.
    Unknown {
        text: String,
        at: u32,
    },
}

/// What was read since a marker, the marker included.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    items: Vec<HeldItem>,
    bytes: usize,
}

/// A place in what is held: before byte `byte` of item `item`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    item: usize,
    byte: usize,
}

impl Held {
    /// Adds an item; its position.
    pub(super) fn push(&mut self, item: HeldItem) -> Position {
        if let HeldItem::Text { text, .. } = &item {
            self.bytes += text.len();
        }
        self.items.push(item);
        Position { item: self.items.len() - 1, byte: 0 }
    }

    /// Whether more is held than a header may be long.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > HEAD_LIMIT
    }

    /// The positions of the first and the last id.
    pub(super) fn bounds(&self) -> (u32, u32) {
        let at = |item: &HeldItem| match *item {
            HeldItem::Text { at, .. }
            | HeldItem::Control { at, .. }
            | HeldItem::Unknown { at, .. } => at,
        };
        (self.items.first().map_or(0, at), self.items.last().map_or(0, at))
    }

    /// What is held from a place on.
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

    pub(super) fn into_items(self) -> Vec<HeldItem> {
        self.items
    }
}

/// A pattern of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleOf {
    Row(usize),
    Item(usize),
}

impl RuleOf {
    fn rule(self, grammar: &Grammar) -> &Rule {
        match self {
            Self::Row(row) => &grammar.rows[row].rule,
            Self::Item(item) => &grammar.items[item].rule,
        }
    }
}

/// A candidate: a pattern and how far it has been read.
#[derive(Debug, Clone)]
struct Cursor {
    rule: RuleOf,
    op: usize,
    /// Bytes of the literal, or of the word, that have come.
    byte: usize,
    words: Vec<(Field, String)>,
    /// Where its text begins, once it has come to it.
    text_from: Option<Position>,
}

/// The candidates for one marker.
#[derive(Debug, Clone)]
pub(super) struct Header {
    cursors: Vec<Cursor>,
}

/// A pattern that fits.
#[derive(Debug)]
pub(super) struct Fit {
    pub(super) rule: RuleOf,
    /// Where its text begins.
    pub(super) end: Position,
    words: Vec<(Field, String)>,
}

impl Fit {
    /// The word that stood in a field of the header.
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
    pub(super) fn of_turns(grammar: &Grammar) -> Self {
        Self::new((0..grammar.rows.len()).map(RuleOf::Row))
    }

    pub(super) fn of_items(grammar: &Grammar) -> Self {
        Self::new((0..grammar.items.len()).map(RuleOf::Item))
    }

    fn new(rules: impl Iterator<Item = RuleOf>) -> Self {
        let cursor = |rule| Cursor { rule, op: 0, byte: 0, words: Vec::new(), text_from: None };
        Self { cursors: rules.map(cursor).collect() }
    }

    /// Reads the item that was just added to `held` at `position`.
    pub(super) fn step(&mut self, grammar: &Grammar, held: &Held, position: Position) -> Decision {
        let Some(item) = held.items.get(position.item) else { return Decision::Open };
        match item {
            HeldItem::Text { text, .. } => {
                for (byte, value) in text.bytes().enumerate() {
                    let after = Position { byte: byte + 1, ..position };
                    self.advance(grammar, after, |cursor, op| cursor.take_byte(op, value));
                    match self.decision() {
                        Decision::Open => {}
                        decided => return decided,
                    }
                }
            }
            &HeldItem::Control { id, .. } => {
                let after = Position { item: position.item + 1, byte: 0 };
                self.advance(grammar, after, |_, op| take_control(op, id));
            }
            HeldItem::Unknown { .. } => self.advance(grammar, position, |_, _| Taken::No),
        }
        if held.is_full() && matches!(self.decision(), Decision::Open) {
            return self.finish();
        }
        self.decision()
    }

    /// Nothing more comes: what waits wins.
    pub(super) fn finish(&mut self) -> Decision {
        self.cursors.retain(|cursor| cursor.text_from.is_some());
        self.decision()
    }

    fn decision(&self) -> Decision {
        match self.cursors.first() {
            None => Decision::None,
            Some(Cursor { text_from: Some(end), rule, words, .. }) => {
                Decision::Fits(Fit { rule: *rule, end: *end, words: words.clone() })
            }
            Some(_) => Decision::Open,
        }
    }

    fn advance(
        &mut self,
        grammar: &Grammar,
        after: Position,
        take: impl Fn(&mut Cursor, &Op) -> Taken,
    ) {
        let mut next = Vec::with_capacity(self.cursors.len());
        for mut cursor in std::mem::take(&mut self.cursors) {
            if cursor.text_from.is_some() {
                next.push(cursor);
                continue;
            }
            let ops = &cursor.rule.rule(grammar).read;
            // A cursor stands at every step it may be at: also after an optional one.
            let Some(op) = ops.get(cursor.op) else { continue };
            match take(&mut cursor, op) {
                Taken::No => {}
                Taken::Within => next.push(cursor),
                Taken::MayEnd => {
                    next.push(cursor.clone());
                    cursor.go_on(ops, after, &mut next);
                }
                Taken::Ended => cursor.go_on(ops, after, &mut next),
            }
        }
        let mut seen: Vec<Cursor> = Vec::with_capacity(next.len());
        next.retain(|cursor| {
            let new = !seen.iter().any(|other| other.is_at(cursor));
            if new {
                seen.push(cursor.clone());
            }
            new
        });
        self.cursors = next;
    }
}

/// What a step did with a byte or an id.
enum Taken {
    /// It does not fit.
    No,
    /// It fits, and the step goes on.
    Within,
    /// It fits, and the step may end here or go on.
    MayEnd,
    /// It fits and ends the step.
    Ended,
}

impl Cursor {
    fn take_byte(&mut self, op: &Op, value: u8) -> Taken {
        match op {
            Op::Literal(text) if text.as_bytes().get(self.byte) == Some(&value) => {
                self.byte += 1;
                if self.byte == text.len() { Taken::Ended } else { Taken::Within }
            }
            Op::Space if value.is_ascii_whitespace() => Taken::MayEnd,
            &Op::Field(field) if field.grammar() == FieldGrammar::Word && is_word_byte(value) => {
                if self.byte == 0 {
                    self.words.push((field, String::new()));
                }
                if let Some((_, word)) = self.words.last_mut() {
                    word.push(char::from(value));
                }
                self.byte += 1;
                Taken::MayEnd
            }
            _ => Taken::No,
        }
    }

    /// Whether both have read as much of the same pattern. One of them is enough, the first: that a
    /// text begins later can only be because white space before it means nothing.
    fn is_at(&self, other: &Self) -> bool {
        let at = |cursor: &Self| (cursor.rule, cursor.op, cursor.byte);
        at(self) == at(other) && self.words == other.words
    }

    /// Moves to the next step, and past every step that may be empty.
    fn go_on(mut self, ops: &[Op], after: Position, next: &mut Vec<Self>) {
        self.op += 1;
        self.byte = 0;
        match ops.get(self.op) {
            Some(Op::Guard { len, .. }) => {
                let mut skipping = self.clone();
                skipping.op += len;
                self.go_on(ops, after, next);
                skipping.go_on(ops, after, next);
            }
            Some(Op::Space) => {
                next.push(self.clone());
                self.go_on(ops, after, next);
            }
            Some(Op::Field(field)) if field.grammar() != FieldGrammar::Word => {
                self.text_from = Some(after);
                next.push(self);
            }
            Some(_) => next.push(self),
            None => {}
        }
    }
}

fn take_control(op: &Op, id: TokenId) -> Taken {
    match op {
        Op::Control(ids) if ids.iter().any(|known| known.get() == id) => Taken::Ended,
        _ => Taken::No,
    }
}
