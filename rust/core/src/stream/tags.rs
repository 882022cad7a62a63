//! Tags: one control token with text around it, or several with text after the first, read as the one token that the table
//! has.
//!
//! ```text
//! </ DSML invoke>     the tag CALL_END = "</{DSML}invoke>"
//! </ DSML x           the text "</", the token DSML, and the text "x"
//! ```
//!
//! Input: text in pieces of any size, and control tokens. Output: the same, with one token in the place of each tag. Text
//! that may be the beginning of a tag is held back, and so is text after a tag's token, until it decides which tag it is.
//! If no tag fits, the token is passed on as it is, and the text as text. Of several tags that fit, the
//! one with the most text after its token is taken, then the one with the most tokens, then the one with the most text
//! before it. Memory: the longest
//! tag. Time: linear in the text, times the number of tags.

use super::header::HeldItem;
use super::machine::Piece;
use super::spelled::Stretch;
use crate::grammar::{TagTable, TagToken};
use chatcodec_vocab::TokenId;

/// Reads input up to the next tag.
#[derive(Debug, Clone, Default)]
pub(super) struct TagReader {
    /// Text that may stand before a token.
    before: Stretch,
    opened: Option<Opened>,
}

/// A token of tags, while the text after it does not decide.
#[derive(Debug, Clone)]
struct Opened {
    token: TokenId,
    at: u32,
    after: Stretch,
    /// The tokens after that text.
    next: Vec<HeldItem>,
}

impl Opened {
    /// Whether the tokens after the text are those of a tag, or some of them.
    fn reads(&self, tag: &TagToken) -> bool {
        let mut ids = self.next.iter().zip(&tag.next);
        self.next.len() <= tag.next.len() && ids.all(|(item, id)| id_of(item) == Some(*id))
    }

    /// Whether what has come is all of a tag, perhaps with more after it.
    fn holds(&self, tag: &TagToken) -> bool {
        let after = self.after.text();
        if tag.next.is_empty() {
            return after.starts_with(&*tag.after);
        }
        let mut ids = tag.next.iter().zip(&self.next);
        tag.after == after
            && tag.next.len() <= self.next.len()
            && ids.all(|(id, item)| id_of(item) == Some(*id))
    }

    /// Whether what has come is less than a tag.
    fn may_become(&self, tag: &TagToken) -> bool {
        let after = self.after.text();
        if self.next.is_empty() && tag.after.len() > after.len() {
            return tag.after.starts_with(after);
        }
        tag.after == after && self.reads(tag) && tag.next.len() > self.next.len()
    }
}

/// The id of a control token.
fn id_of(item: &HeldItem) -> Option<TokenId> {
    match item {
        HeldItem::Control { id, .. } => Some(*id),
        _ => None,
    }
}

// What looks at tags is not inlined, so that text without any takes the short way.
impl TagReader {
    pub(super) fn new(by_text: bool) -> Self {
        Self { before: Stretch::new(by_text), opened: None }
    }

    /// Whether the text is plain: nothing is held, and none of it may stand before a token.
    #[inline]
    pub(super) fn passes(&self, table: &TagTable, text: &str) -> bool {
        self.is_idle() && !table.may_begin(text)
    }

    /// Whether nothing is held.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.opened.is_none() && self.before.is_empty()
    }

    /// Whether the token of a tag has come.
    pub(super) fn is_opened(&self) -> bool {
        self.opened.is_some()
    }

    /// Reads text: the items that are certain.
    #[inline(never)]
    pub(super) fn text(&mut self, table: &TagTable, piece: Piece<'_>) -> Vec<HeldItem> {
        let mut items = Vec::new();
        // No text comes between the tokens at the end of a tag.
        while self.opened.as_ref().is_some_and(|opened| !opened.next.is_empty()) {
            self.decide(table, true, &mut items);
        }
        if let Some(opened) = &mut self.opened {
            opened.after.push(piece);
            self.decide(table, false, &mut items);
        } else {
            self.before.push(piece);
            self.keep(table, &mut items);
        }
        items
    }

    /// Reads a token after the first of a tag: the items that are certain, if a tag goes on with it.
    #[inline(never)]
    pub(super) fn next(&mut self, table: &TagTable, item: &HeldItem) -> Option<Vec<HeldItem>> {
        let opened = self.opened.as_mut()?;
        let before = self.before.text();
        let fits = |tag: &TagToken| {
            tag.token == opened.token
                && before.ends_with(&*tag.before)
                && tag.after == opened.after.text()
                && opened.reads(tag)
                && tag.next.get(opened.next.len()) == id_of(item).as_ref()
        };
        if !table.tags.iter().any(fits) {
            return None;
        }
        opened.next.push(item.clone());
        let mut items = Vec::new();
        self.decide(table, false, &mut items);
        Some(items)
    }

    /// Reads a control token: the items that are certain.
    #[inline(never)]
    pub(super) fn control(&mut self, table: &TagTable, token: TokenId, at: u32) -> Vec<HeldItem> {
        let mut items = self.finish(table, true);
        if table.tags.iter().any(|tag| tag.token == token) {
            self.opened = Some(Opened { token, at, after: self.before.empty(), next: Vec::new() });
            self.decide(table, false, &mut items);
        } else {
            self.before.take_all(&mut items);
            items.push(HeldItem::Control { id: token, first: at, at, spelled: None });
        }
        items
    }

    /// Decides about the token that has come, and returns what is held; `keeps`: without text that may stand before
    /// a token which comes next.
    #[inline(never)]
    pub(super) fn finish(&mut self, table: &TagTable, keeps: bool) -> Vec<HeldItem> {
        let mut items = Vec::new();
        while self.opened.is_some() {
            self.decide(table, true, &mut items);
        }
        if !keeps {
            self.before.take_all(&mut items);
        }
        items
    }

    /// Takes the text before a tag whose token is at `at`, and returns where the tag begins.
    fn take_before(&mut self, tag: &TagToken, at: u32, items: &mut Vec<HeldItem>) -> u32 {
        self.before.take(self.before.text().len() - tag.before.len(), items);
        self.before.skip(tag.before.len()).map_or(at, |(first, _)| first)
    }

    /// Keeps the text that may stand before a token.
    fn keep(&mut self, table: &TagTable, items: &mut Vec<HeldItem>) {
        let at = table.begun(self.before.text());
        self.before.take(at, items);
    }

    /// Decides which tag it is, if that is certain.
    #[inline(never)]
    fn decide(&mut self, table: &TagTable, is_last: bool, items: &mut Vec<HeldItem>) {
        let Some(opened) = &self.opened else { return };
        let before = self.before.text();
        let fits = |tag: &&TagToken| tag.token == opened.token && before.ends_with(&*tag.before);
        let tags = || table.tags.iter().filter(fits);
        if !is_last && tags().any(|tag| opened.may_become(tag)) {
            return;
        }
        let found = tags().find(|tag| opened.holds(tag));
        let Some(mut opened) = self.opened.take() else { return };
        let (token, at) = (opened.token, opened.at);
        let rest = if let Some(tag) = found {
            let first = self.take_before(tag, at, items);
            let last = opened.after.skip(tag.after.len()).map_or(at, |(_, last)| last);
            let rest = opened.next.split_off(tag.next.len());
            let last = match opened.next.last() {
                Some(&HeldItem::Control { at, .. }) => at,
                _ => last,
            };
            items.push(HeldItem::Control { id: tag.id, first, at: last, spelled: None });
            rest
        } else {
            self.before.take_all(items);
            items.push(HeldItem::Control { id: token, first: at, at, spelled: None });
            opened.next
        };
        self.before = opened.after;
        self.keep(table, items);
        for item in rest {
            self.again(table, item, items);
        }
    }

    /// Reads a token that belongs to no tag after all, and may begin one.
    fn again(&mut self, table: &TagTable, item: HeldItem, items: &mut Vec<HeldItem>) {
        match item {
            HeldItem::Control { id, at, spelled: None, .. } => {
                items.extend(self.control(table, id, at));
            }
            item => {
                items.extend(self.finish(table, false));
                items.push(item);
            }
        }
    }
}
