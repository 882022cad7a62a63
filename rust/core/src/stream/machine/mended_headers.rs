//! Headers that models write in other ways than a format of frames does: without what opens a turn, without the
//! role, with two channels, or with a token that says of what type a text is and no type after it.
//!
//! Such a marker is read once more with what it lacks, or without what is too much. Where that is no header
//! either, it is read as what it was. What is held of one is bounded, and so is the work.

use super::tentative::{Phase, Tentative};
use super::{Place, Reader};
use crate::call::Mended;
use crate::grammar::{Grammar, Op};
use crate::stream::header::{Held, HeldItem};
use chatcodec_vocab::TokenId;

/// What a recipient begins with.
const RECIPIENT: &str = "to=";

/// The most items of a header that is mended: real ones have about ten.
const MAX_ITEMS: usize = 64;

/// A header as it came, of which another is read.
#[derive(Debug, Clone)]
pub(super) struct Original {
    items: Vec<HeldItem>,
    /// How much of what is held stands for these items.
    read: usize,
}

impl Original {
    /// The control token that it begins with, if that was spelled.
    pub(super) fn spelled(&self) -> Option<TokenId> {
        match self.items.first() {
            Some(&HeldItem::Control { id, spelled: Some(_), .. }) => Some(id),
            _ => None,
        }
    }

    /// Whether what came begins with what `ops` write, and goes on.
    pub(super) fn begins_with(&self, ops: &[Op]) -> bool {
        Held::of(self.items.clone()).after(ops).is_some()
    }

    /// The items as they came, with those that came later.
    pub(super) fn with(mut self, held: Vec<HeldItem>) -> Vec<HeldItem> {
        self.items.extend(held.into_iter().skip(self.read));
        self.items
    }
}

/// How an assistant's turn begins: its token and the role after it.
struct Opener<'g> {
    id: TokenId,
    role: &'g str,
}

/// What opens a turn in a format of frames.
fn opener(grammar: &Grammar) -> Option<Opener<'_>> {
    match &grammar.generation_prompt[..] {
        [Op::Control(ids), Op::Literal(role)] if grammar.has_frames() => {
            Some(Opener { id: ids.first()?.get(), role })
        }
        _ => None,
    }
}

impl Opener<'_> {
    /// The recipient after the role, where what stands between them is not one space.
    fn recipient<'t>(&self, text: &'t str) -> Option<&'t str> {
        let after = text.strip_prefix(self.role)?;
        let word = after.trim_ascii_start();
        let is_begun = word.starts_with(RECIPIENT) || RECIPIENT.starts_with(word);
        (!word.is_empty() && is_begun && after.strip_prefix(' ') != Some(word)).then_some(word)
    }

    /// Text after a turn's token as what it lacks, if it may be a header, and the rest: the role comes before a
    /// recipient, and no white space before the role.
    fn head<'t>(&self, text: &'t str) -> Option<(String, &'t str)> {
        let word = text.trim_ascii_start();
        let may_be = |known: &str| word.starts_with(known) || known.starts_with(word);
        if may_be(self.role) && !word.is_empty() {
            return Some((String::new(), word));
        }
        may_be(RECIPIENT).then(|| (format!("{} ", self.role), word))
    }

    /// A header with what it lacks and without what is too much; nothing, if it is as it should be.
    fn mended(&self, items: &[HeldItem], grammar: &Grammar) -> Option<Vec<HeldItem>> {
        let first = items.first()?.first();
        let text = |text: String| HeldItem::Text { text, first, at: first };
        let mut out: Vec<HeldItem> = Vec::with_capacity(items.len() + 2);
        let begins = matches!(items.first(), Some(HeldItem::Control { id, .. }) if *id == self.id);
        out.push(match items.first() {
            Some(token) if begins => token.clone(),
            _ => HeldItem::Control { id: self.id, at: first, spelled: None },
        });
        let mut rest = &items[usize::from(begins)..];
        let mut is_mended = !begins;
        match rest.split_first()? {
            (HeldItem::Control { id, .. }, _) if grammar.is_in_header(*id) => {
                out.push(text(self.role.to_owned()));
                is_mended = true;
            }
            (HeldItem::Text { .. }, _) if self.recipient(&texts(rest).0).is_some() => {
                let (joined, count, at) = texts(rest);
                let word = self.recipient(&joined)?;
                out.push(text(self.role.to_owned()));
                out.push(HeldItem::Text { text: format!(" {word}"), first: rest[0].first(), at });
                is_mended = true;
                rest = &rest[count..];
            }
            (HeldItem::Text { text: head, first, at }, after) => {
                let (role, word) = self.head(head)?;
                is_mended |= !role.is_empty() || word.len() < head.len();
                if !role.is_empty() {
                    out.push(text(role));
                }
                if !word.is_empty() {
                    out.push(HeldItem::Text { text: word.to_owned(), first: *first, at: *at });
                }
                rest = after;
            }
            _ => return None,
        }
        let kept = out.len();
        for item in rest {
            if let HeldItem::Control { id, .. } = item {
                let same = |known: &HeldItem| matches!(known, HeldItem::Control { id: other, .. } if other == id);
                if let Some(at) = out[kept..].iter().position(same) {
                    // Of what stands twice the last counts.
                    out.truncate(kept + at);
                    is_mended = true;
                } else if let Some(end) = bare_token(&out, kept) {
                    // A token with nothing after it.
                    out.truncate(end);
                    is_mended = true;
                }
            }
            out.push(item.clone());
        }
        is_mended.then_some(out)
    }
}

/// Where a token stands that has white space at most after it, of the items from `kept` on.
fn bare_token(items: &[HeldItem], kept: usize) -> Option<usize> {
    let is_white = |item: &HeldItem| matches!(item, HeldItem::Text { text, .. } if text.bytes().all(|b| b.is_ascii_whitespace()));
    let last = items.iter().rposition(|item| !is_white(item))?;
    (last >= kept && matches!(items[last], HeldItem::Control { .. })).then_some(last)
}

/// The text that items begin with: of how many, and the position of the last.
fn texts(items: &[HeldItem]) -> (String, usize, u32) {
    let mut joined = (String::new(), 0, 0);
    for item in items {
        let HeldItem::Text { text, at, .. } = item else { break };
        joined.0.push_str(text);
        (joined.1, joined.2) = (joined.1 + 1, *at);
    }
    joined
}

impl Reader<'_> {
    /// Whether a control token stands within headers, and one of the assistant's may begin here without what
    /// opens a turn.
    pub(super) fn begins_header(&self, id: TokenId) -> bool {
        let grammar = self.bound.grammar();
        let is_place = match self.machine.place {
            Place::Outside | Place::AfterFrame | Place::AfterAction => true,
            _ => self.is_in_frame(),
        };
        is_place && grammar.is_in_header(id) && opener(grammar).is_some()
    }

    /// Whether text after a frame may be a header.
    pub(super) fn may_be_header(&mut self, text: &str) -> bool {
        let is_text = std::mem::take(&mut self.machine.is_text);
        let opener = opener(self.bound.grammar());
        !is_text && opener.is_some_and(|opener| opener.head(text).is_some())
    }

    /// No header fits: reads it again as it may be meant. Whether it may.
    pub(super) fn mend_header(&mut self) -> bool {
        let grammar = self.bound.grammar();
        let Some(opener) = opener(grammar) else { return false };
        let Some(tentative) = self.machine.tentative.as_deref_mut() else { return false };
        let is_header = matches!(tentative.phase, Phase::Header(_)) && !self.machine.within;
        if !is_header || tentative.held.items().len() > MAX_ITEMS {
            return false;
        }
        let read = tentative.original.as_ref().map_or(0, |original| original.read);
        let left = read.saturating_sub(tentative.held.items().len());
        // What is left of a header that was mended before goes with it.
        let left: Vec<HeldItem> = self.queue.drain(..left.min(self.queue.len())).collect();
        for item in left {
            tentative.held.push(item);
        }
        let Some(mended) = opener.mended(tentative.held.items(), grammar) else { return false };
        let held = std::mem::take(&mut tentative.held).into_items();
        let items = match tentative.original.take() {
            Some(original) => original.with(held),
            None => held,
        };
        let mut next = Tentative::opened(self.bound);
        if self.machine.promised
            && let Phase::Header(header) = &mut next.phase
        {
            header.keep_assistants(grammar);
        }
        if items.len() > MAX_ITEMS {
            tentative.original = Some(Original { items, read: 0 });
            return false;
        }
        next.original = Some(Original { items, read: mended.len() });
        self.machine.tentative = Some(Box::new(next));
        self.again(mended);
        true
    }

    /// Tells that a header was mended.
    pub(super) fn tell_header(&mut self) {
        self.tell_mending(Some(Mended::Header));
    }
}
