//! Control tokens that text spells, found as the text comes.
//!
//! ```text
//! Hi<|im_en    "Hi" is emitted, "<|im_en" is held back
//! d|>          the token <|im_end|>
//! ```
//!
//! Input: text in pieces of any size. Output: the text, and its spellings as control tokens, leftmost and longest;
//! the split into pieces does not change them. An end that may become a spelling is held back: less than the
//! longest spelling. Time: linear in the text.

use aho_corasick::Input;

use super::header::HeldItem;
use super::machine::Piece;
use crate::bound::Bound;
use crate::call::Mended;
use crate::grammar::Spellings;

/// What counts as a control token of the format.
///
/// ```
/// use chatcodec::{Codec, Format, MarkerPolicy, Vocab};
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let stream = codec.stream(None).reading(MarkerPolicy::Text);
/// let parsed = codec.parse_text(stream, "Hello<|im_end|>rest");
/// assert_eq!(parsed.message.content, "Hello");
/// assert_eq!(parsed.rest, "Hello<|im_end|>".len());
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MarkerPolicy {
    /// Its id alone: text is never control. Where a format's markers are text (`[text]`), also that text.
    #[default]
    Ids,
    /// Its id, and its spelling in the text of other ids.
    IdsOrText,
    /// Its spelling: the stream is given text, not ids.
    Text,
}

/// Spelling of a control token, and the position where it begins.
#[derive(Debug, Clone)]
pub(super) struct Spelled {
    pub(super) text: String,
    pub(super) first: u32,
    /// Mending, if the token is missing.
    pub(super) missing: Option<Mended>,
}

impl Spelled {
    /// Token that is missing before text.
    pub(super) fn missing(first: u32, mended: Mended) -> Self {
        Self { text: String::new(), first, missing: Some(mended) }
    }
}

/// Text that may become a spelling.
#[derive(Debug, Clone)]
pub(super) struct Search {
    held: Stretch,
    policy: MarkerPolicy,
    /// Number of bytes of the text that the reader has already: the end of a prompt.
    known: usize,
}

/// Text that is held, in pieces. In a stream of text, every character has its own position; in a stream of ids, a
/// character has the position of its id.
#[derive(Debug, Clone, Default)]
pub(super) struct Stretch {
    text: String,
    pieces: Vec<Mark>,
    by_text: bool,
}

impl Stretch {
    pub(super) fn new(by_text: bool) -> Self {
        Self { text: String::new(), pieces: Vec::new(), by_text }
    }

    /// No text, of the same kind of stream.
    pub(super) fn empty(&self) -> Self {
        Self::new(self.by_text)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn push(&mut self, piece: Piece<'_>) {
        let Piece { text, first, at } = piece;
        self.pieces.push(Mark { start: self.text.len(), first, at });
        self.text.push_str(text);
    }

    /// Takes the text up to byte `end`: one item for each piece of ids.
    pub(super) fn take(&mut self, end: usize, items: &mut Vec<HeldItem>) {
        if end == 0 {
            return;
        }
        let (text, pieces) = (std::mem::take(&mut self.text), std::mem::take(&mut self.pieces));
        let mut cursor = Cursor { text: &text, pieces: &pieces, piece: 0, byte: 0, chars: 0 };
        cursor.add_text(end, self.by_text, items);
        (self.text, self.pieces) = (text[end..].to_owned(), cursor.rest(self.by_text));
    }

    pub(super) fn take_all(&mut self, items: &mut Vec<HeldItem>) {
        self.take(self.text.len(), items);
    }

    /// Leaves out the text up to byte `end`: the positions of its first and last character, if there are some.
    pub(super) fn skip(&mut self, end: usize) -> Option<(u32, u32)> {
        if end == 0 {
            return None;
        }
        let (text, pieces) = (std::mem::take(&mut self.text), std::mem::take(&mut self.pieces));
        let mut cursor = Cursor { text: &text, pieces: &pieces, piece: 0, byte: 0, chars: 0 };
        let found = cursor.go_to(end, self.by_text);
        (self.text, self.pieces) = (text[end..].to_owned(), cursor.rest(self.by_text));
        Some(found)
    }
}

/// Positions of the text from byte `start` on: the first character began at `first`, the others are at `at`.
#[derive(Debug, Clone, Copy)]
struct Mark {
    start: usize,
    first: u32,
    at: u32,
}

impl Search {
    pub(super) fn new(policy: MarkerPolicy) -> Self {
        let held = Stretch::new(policy == MarkerPolicy::Text);
        Self { held, policy, known: 0 }
    }

    /// The search that a policy needs; none where only ids count.
    pub(super) fn of(bound: &Bound, policy: MarkerPolicy) -> Option<Box<Self>> {
        let is_needed = policy != MarkerPolicy::Ids || !bound.grammar().text_markers.is_empty();
        is_needed.then(|| Box::new(Self::new(policy)))
    }

    /// Sets the policy, from here on.
    pub(super) fn read_by(&mut self, policy: MarkerPolicy) {
        self.policy = policy;
        self.held.by_text = policy == MarkerPolicy::Text;
    }

    pub(super) fn policy(&self) -> MarkerPolicy {
        self.policy
    }

    /// Whether every character has its own position.
    pub(super) fn is_by_text(&self) -> bool {
        self.held.by_text
    }

    /// The spellings that it looks for.
    #[inline]
    pub(super) fn spellings<'b>(&self, bound: &'b Bound) -> &'b Spellings {
        match self.policy {
            MarkerPolicy::Ids => bound.text_markers(),
            MarkerPolicy::IdsOrText | MarkerPolicy::Text => bound.spellings(),
        }
    }

    /// Whether the text is plain: nothing is held, and it begins no spelling.
    #[inline]
    pub(super) fn passes(&self, bound: &Bound, text: &str) -> bool {
        self.is_empty() && self.spellings(bound).lacks(text)
    }

    /// Whether nothing is held.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Adds a piece, and returns the items that are certain.
    pub(super) fn push(&mut self, bound: &Bound, piece: Piece<'_>) -> Vec<HeldItem> {
        self.held.push(piece);
        self.take(self.spellings(bound), false)
    }

    /// Ends the text, and returns the rest of the items.
    pub(super) fn finish(&mut self, bound: &Bound) -> Vec<HeldItem> {
        if self.is_empty() { Vec::new() } else { self.take(self.spellings(bound), true) }
    }

    /// The held end of a prompt as text, for the reader. It stays held, because the answer may complete a marker.
    pub(super) fn end_prompt(&mut self) -> Option<HeldItem> {
        self.known = self.held.text.len();
        let at = self.held.pieces.last()?.at;
        (!self.is_empty()).then(|| HeldItem::Text { text: self.held.text.clone(), first: at, at })
    }

    fn take(&mut self, spellings: &Spellings, is_last: bool) -> Vec<HeldItem> {
        let by_text = self.held.by_text;
        let text = std::mem::take(&mut self.held.text);
        let begun = |from| if is_last { text.len() } else { spellings.begun(&text, from) };
        let pieces = std::mem::take(&mut self.held.pieces);
        let mut cursor = Cursor { text: &text, pieces: &pieces, piece: 0, byte: 0, chars: 0 };
        let mut items = Vec::new();
        let mut hold = begun(0);
        let find = |from| {
            let found = spellings.finder.as_ref()?.find(Input::new(&text).range(from..))?;
            Some((found.start(), found.end(), found.pattern().as_usize()))
        };
        while let Some((start, end, which)) = find(cursor.byte).filter(|found| found.0 < hold) {
            cursor.pass(self.known.min(start), by_text);
            cursor.add_text(start, by_text, &mut items);
            let (first, at) = cursor.go_to(end, by_text);
            let (spelling, id) = &spellings.known[which];
            let text = spelling[self.known.saturating_sub(start).min(spelling.len())..].to_owned();
            let spelled = Box::new(Spelled { text, first, missing: None });
            items.push(HeldItem::Control { id: *id, first, at, spelled: Some(spelled) });
            if hold < end {
                hold = begun(end);
            }
        }
        cursor.pass(self.known.min(hold), by_text);
        cursor.add_text(hold, by_text, &mut items);
        self.held.pieces = cursor.rest(by_text);
        text[hold..].clone_into(&mut self.held.text);
        self.known = self.known.saturating_sub(hold);
        items
    }
}

/// Place in pieces of text.
struct Cursor<'a> {
    text: &'a str,
    pieces: &'a [Mark],
    /// Number of the piece that has `byte`.
    piece: usize,
    byte: usize,
    chars: u32,
}

impl Cursor<'_> {
    /// The end of the piece.
    fn piece_end(&self) -> usize {
        self.pieces.get(self.piece + 1).map_or(self.text.len(), |next| next.start)
    }

    /// The position of the next character.
    fn position(&self, by_text: bool) -> u32 {
        let Some(piece) = self.pieces.get(self.piece) else { return 0 };
        match self.chars {
            0 => piece.first,
            chars if by_text => piece.first.saturating_add(chars),
            _ => piece.at,
        }
    }

    /// Moves to byte `end`, if that comes.
    fn pass(&mut self, end: usize, by_text: bool) {
        if self.byte < end {
            self.go_to(end, by_text);
        }
    }

    /// Adds text up to byte `end` to the items: one item for each piece of ids.
    fn add_text(&mut self, end: usize, by_text: bool, items: &mut Vec<HeldItem>) {
        while self.byte < end {
            let to = if by_text { end } else { self.piece_end().min(end) };
            let text = self.text[self.byte..to].to_owned();
            let (first, at) = self.go_to(to, by_text);
            items.push(HeldItem::Text { text, first, at });
        }
    }

    /// Moves to byte `end`, and returns the positions of the first and the last character before it.
    fn go_to(&mut self, end: usize, by_text: bool) -> (u32, u32) {
        let first = self.position(by_text);
        let mut last = first;
        while self.byte < end {
            let to = self.piece_end().min(end);
            let passed = self.text[self.byte..to].chars().count() as u32;
            last = match self.pieces.get(self.piece) {
                Some(piece) if by_text => {
                    piece.first.saturating_add(self.chars).saturating_add(passed.saturating_sub(1))
                }
                Some(piece) => piece.at,
                None => last,
            };
            self.chars += passed;
            self.byte = to;
            if to == self.piece_end() {
                (self.piece, self.chars) = (self.piece + 1, 0);
            }
        }
        (first, last)
    }

    /// The pieces from the cursor on.
    fn rest(&self, by_text: bool) -> Vec<Mark> {
        let first = self.position(by_text);
        let mut rest: Vec<Mark> = self.pieces.get(self.piece..).unwrap_or_default().to_vec();
        if let Some(begun) = rest.first_mut() {
            (begun.start, begun.first) = (self.byte, first);
        }
        for piece in &mut rest {
            piece.start -= self.byte;
        }
        rest
    }
}
