//! Headers that models write in other ways than a format with split turns: without the token that opens a turn,
//! without the role, with two channels, or with the token before a content type and no type.
//!
//! Such a header is mended and read again: missing parts are added, and repeated parts are removed. If the mended
//! header fits no pattern either, the original is read as it came. The length of a header is bounded, and so is
//! the work.

use super::uncertain::UncertainHeader;
use super::{Place, Reader, Within};
use crate::grammar::{BoundPiece, FixedText, Grammar};
use crate::stream::header::{Held, HeldItem};
use chatcodec_vocab::TokenId;

/// Beginning of a recipient.
const RECIPIENT: &str = "to=";

/// Most items of a header that is mended: headers have about ten.
const MAX_ITEMS: usize = 64;

/// Header as it came, where a mended header is read.
#[derive(Debug, Clone)]
pub(super) struct Original {
    items: Vec<HeldItem>,
    /// Number of items of the mended header that replace these.
    read: usize,
}

impl Original {
    /// The control token at the beginning, if text spelled it.
    pub(super) fn spelled(&self) -> Option<TokenId> {
        match self.items.first() {
            Some(&HeldItem::Control { id, spelled: Some(_), .. }) => Some(id),
            _ => None,
        }
    }

    /// Whether the header begins with `pieces` and continues.
    pub(super) fn begins_with(&self, pieces: &[BoundPiece]) -> bool {
        Held::of(self.items.clone()).after(pieces).is_some()
    }

    /// The items as they came, and later items.
    pub(super) fn with(mut self, held: Vec<HeldItem>) -> Vec<HeldItem> {
        self.items.extend(held.into_iter().skip(self.read));
        self.items
    }
}

/// Beginning of an assistant's turn: its token and the role after it.
struct Opener<'g> {
    id: TokenId,
    role: &'g str,
}

/// Beginning of an assistant's turn in a format with split turns.
fn opener(grammar: &Grammar) -> Option<Opener<'_>> {
    match &grammar.generation_prompt[..] {
        [BoundPiece::Control(ids), BoundPiece::Literal(FixedText::Encoded(role))]
            if grammar.has_frames() =>
        {
            Some(Opener { id: ids.first()?.get(), role })
        }
        _ => None,
    }
}

impl Opener<'_> {
    /// The recipient after the role, where they are not separated by one space.
    fn recipient<'t>(&self, text: &'t str) -> Option<&'t str> {
        let after = text.strip_prefix(self.role)?;
        let word = after.trim_ascii_start();
        let is_begun = word.starts_with(RECIPIENT) || RECIPIENT.starts_with(word);
        (!word.is_empty() && is_begun && after.strip_prefix(' ') != Some(word)).then_some(word)
    }

    /// Missing role and the rest of text after a turn's token, if the text may be a header: the role comes before a
    /// recipient, and no white space before the role.
    fn head<'t>(&self, text: &'t str) -> Option<(String, &'t str)> {
        let word = text.trim_ascii_start();
        let may_be = |known: &str| word.starts_with(known) || known.starts_with(word);
        if may_be(self.role) && !word.is_empty() {
            return Some((String::new(), word));
        }
        may_be(RECIPIENT).then(|| (format!("{} ", self.role), word))
    }

    /// Mended header; `None` if nothing is missing or repeated.
    fn mended(&self, items: &[HeldItem], grammar: &Grammar) -> Option<Vec<HeldItem>> {
        let first = items.first()?.first();
        let text = |text: String| HeldItem::Text { text, first, at: first };
        let mut out: Vec<HeldItem> = Vec::with_capacity(items.len() + 2);
        let begins = matches!(items.first(), Some(HeldItem::Control { id, .. }) if *id == self.id);
        out.push(match items.first() {
            Some(token) if begins => token.clone(),
            _ => HeldItem::Control { id: self.id, first, at: first, spelled: None },
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
                    // The last of two counts.
                    out.truncate(kept + at);
                    is_mended = true;
                } else if let Some(end) = bare_token(&out, kept) {
                    // A token with no text after it.
                    out.truncate(end);
                    is_mended = true;
                }
            }
            out.push(item.clone());
        }
        is_mended.then_some(out)
    }
}

/// Place of the last token, of the items from `kept` on, if only white space comes after it.
fn bare_token(items: &[HeldItem], kept: usize) -> Option<usize> {
    let is_white = |item: &HeldItem| matches!(item, HeldItem::Text { text, .. } if text.bytes().all(|b| b.is_ascii_whitespace()));
    let last = items.iter().rposition(|item| !is_white(item))?;
    (last >= kept && matches!(items[last], HeldItem::Control { .. })).then_some(last)
}

/// Text at the beginning of the items, their number, and the position of the last.
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
    /// Whether a control token within headers begins one of the assistant's here, without the token that opens a
    /// turn.
    pub(super) fn begins_header(&self, place: &Place, id: TokenId) -> bool {
        let grammar = self.bound.grammar();
        let is_place = match place {
            Place::Outside(_) | Place::In(_, Within::AfterFrame { .. } | Within::AfterCall) => true,
            Place::In(turn, within) => turn.is_in_frame(within, self.bound),
        };
        is_place && grammar.is_in_header(id) && opener(grammar).is_some()
    }

    /// Whether text after a frame may be a header.
    pub(super) fn may_be_header(&self, text: &str) -> bool {
        opener(self.bound.grammar()).is_some_and(|opener| opener.head(text).is_some())
    }

    /// Mends a header that fits no pattern, to be read again; returns any other as it is.
    pub(super) fn mend_header(
        &mut self,
        is_prompted: bool,
        mut header: Box<UncertainHeader>,
    ) -> Result<Box<UncertainHeader>, Box<UncertainHeader>> {
        let grammar = self.bound.grammar();
        let is_short = header.held.items().len() <= MAX_ITEMS;
        let opener = opener(grammar).filter(|_| header.may_be_mended() && is_short);
        let Some(opener) = opener else { return Err(header) };
        let read = header.original.as_ref().map_or(0, |original| original.read);
        let left = read.saturating_sub(header.held.items().len());
        // The rest of a header that was mended before belongs to it.
        for item in self.queue.drain(..left.min(self.queue.len())) {
            header.held.push(item);
        }
        let Some(mended) = opener.mended(header.held.items(), grammar) else {
            return Err(header);
        };
        let held = std::mem::take(&mut header.held).into_items();
        let items = match header.original.take() {
            Some(original) => original.with(held),
            None => held,
        };
        if items.len() > MAX_ITEMS {
            header.original = Some(Original { items, read: 0 });
            return Err(header);
        }
        let mut next = Box::new(UncertainHeader::opened(self.bound));
        if is_prompted {
            next.header.keep_assistants(grammar);
        }
        next.original = Some(Original { items, read: mended.len() });
        self.again(mended);
        Ok(next)
    }
}
