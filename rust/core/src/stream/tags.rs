//! Tags: one control token with text around it, or two with text between them, read as the one token that the table has.
//!
//! Input: text in pieces of any size, and control tokens. Output: the same, with one token in the place of each tag. Text
//! that may be the beginning of a tag is held back, and so is text after a tag's token, until it decides which tag it is.
//! If no tag fits, the token is passed on as it is, and the text as text. Of several tags that fit, the
//! one with the most text after its token is taken, then the one with the most text before it. Memory: the longest
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
}

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
    pub(super) fn text(&mut self, table: &TagTable, piece: Piece<'_>) -> Vec<HeldItem> {
        let mut items = Vec::new();
        if let Some(opened) = &mut self.opened {
            opened.after.push(piece);
            self.decide(table, false, &mut items);
        } else {
            self.before.push(piece);
            self.keep(table, &mut items);
        }
        items
    }

    /// Reads the second token of a tag: the tag, if there is one.
    pub(super) fn second(
        &mut self,
        table: &TagTable,
        token: TokenId,
        at: u32,
    ) -> Option<Vec<HeldItem>> {
        let opened = self.opened.as_ref()?;
        let (before, after) = (self.before.text(), opened.after.text());
        let tag = table.tags.iter().find(|tag| {
            tag.next == Some(token)
                && tag.token == opened.token
                && tag.after == after
                && before.ends_with(&*tag.before)
        })?;
        let opened_at = opened.at;
        let mut items = Vec::new();
        let first = self.take_before(tag, opened_at, &mut items);
        items.push(HeldItem::Control { id: tag.id, first, at, spelled: None });
        self.opened = None;
        Some(items)
    }

    /// Reads a control token: the items that are certain.
    pub(super) fn control(&mut self, table: &TagTable, token: TokenId, at: u32) -> Vec<HeldItem> {
        let mut items = self.finish(table, true);
        if table.tags.iter().any(|tag| tag.token == token) {
            self.opened = Some(Opened { token, at, after: self.before.empty() });
            self.decide(table, false, &mut items);
        } else {
            self.before.take_all(&mut items);
            items.push(HeldItem::Control { id: token, first: at, at, spelled: None });
        }
        items
    }

    /// Decides about the token that has come, and returns what is held; `keeps`: without text that may stand before
    /// a token which comes next.
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
    fn decide(&mut self, table: &TagTable, is_last: bool, items: &mut Vec<HeldItem>) {
        let Some(opened) = &self.opened else { return };
        let (before, after) = (self.before.text(), opened.after.text());
        let fits = |tag: &&TagToken| tag.token == opened.token && before.ends_with(&*tag.before);
        let tags = || table.tags.iter().filter(fits);
        let may_go_on = |tag: &TagToken| {
            tag.after.starts_with(after) && (tag.after.len() > after.len() || tag.next.is_some())
        };
        if !is_last && tags().any(may_go_on) {
            return;
        }
        let found = tags().find(|tag| tag.next.is_none() && after.starts_with(&*tag.after));
        let (token, at) = (opened.token, opened.at);
        let Some(mut opened) = self.opened.take() else { return };
        let Some(tag) = found else {
            self.before.take_all(items);
            items.push(HeldItem::Control { id: token, first: at, at, spelled: None });
            self.before = opened.after;
            return self.keep(table, items);
        };
        let first = self.take_before(tag, at, items);
        let last = opened.after.skip(tag.after.len()).map_or(at, |(_, last)| last);
        items.push(HeldItem::Control { id: tag.id, first, at: last, spelled: None });
        self.before = opened.after;
        self.keep(table, items);
    }
}
