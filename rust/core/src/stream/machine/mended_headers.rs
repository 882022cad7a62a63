//! Headers that models write in other ways than a format with split turns: without the token that opens a turn,
//! without the role, with two channels, or with the token before a content type and no type.
//!
//! ```text
//! <|channel|>final<|message|>Hi    read as <|start|>assistant<|channel|>final<|message|>Hi; mended
//! ```
//!
//! Such a header is mended and read again: missing parts are added, and repeated parts are removed. If the mended
//! header fits no pattern either, the original is read as it came. The length of a header is bounded, and so is
//! the work.
//!
//! Where nothing is missing or repeated, the header waits for its next control token. Then it is written anew from
//! what it says: the recipient, and the channel if the format knows the channel. Without the token before the text, the
//! text begins after these words.

use super::uncertain::UncertainHeader;
use super::{Place, Reader, Within};
use crate::grammar::{BoundPiece, FixedText, Grammar};
use crate::stream::header::{Held, HeldItem, Position};
use crate::word::is_word_byte;
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
    /// Whether the header was written anew.
    is_anew: bool,
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

    /// The number of items of the mended header that come after those that are held: they wait in the queue.
    pub(super) fn unread(&self, held: &Held) -> usize {
        self.read.saturating_sub(held.items().len())
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
    /// The token before a text.
    before_text: TokenId,
}

/// A header written anew.
enum Anew {
    /// More must come.
    Wait,
    /// The header cannot be understood.
    No,
    Items(Vec<HeldItem>),
}

/// Beginning of an assistant's turn in a format with split turns.
fn opener(grammar: &Grammar) -> Option<Opener<'_>> {
    match &grammar.generation_prompt[..] {
        [BoundPiece::Control(ids), BoundPiece::Literal(FixedText::Encoded(role))]
            if grammar.has_frames() =>
        {
            Some(Opener { id: ids.first()?.get(), role, before_text: grammar.text_token()? })
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

    fn is_of_header(&self, id: TokenId, grammar: &Grammar) -> bool {
        id == self.before_text || grammar.is_in_header(id)
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
                    // The last of two counts, unless a text stands between them.
                    if !are_words(&out[kept + at..], grammar) {
                        return None;
                    }
                    out.truncate(kept + at);
                    is_mended = true;
                } else if let Some(end) =
                    bare_token(&out, kept).filter(|_| self.is_of_header(*id, grammar))
                {
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

impl Opener<'_> {
    /// Whether a text may be the role twice.
    fn is_twice(&self, text: &str) -> bool {
        let after = text.trim_ascii_start().strip_prefix(self.role).map(str::trim_ascii_start);
        after.is_some_and(|after| {
            let again = after.strip_prefix(self.role).is_some_and(|rest| rest.trim().is_empty());
            !after.is_empty() && (again || self.role.starts_with(after))
        })
    }

    /// Whether a text before the first token within a header is the role, once or twice, and a recipient at most.
    fn is_head(&self, text: &str) -> bool {
        let mut rest = text.trim_ascii();
        for _ in 0..2 {
            rest = rest.strip_prefix(self.role).unwrap_or(rest).trim_ascii_start();
        }
        let recipient = rest.strip_prefix(RECIPIENT).unwrap_or_default();
        rest.is_empty() || !recipient.is_empty() && recipient.bytes().all(is_word_byte)
    }

    /// The header written anew from its recipient and its channel, once its next control token has come.
    fn anew(&self, items: &[HeldItem], grammar: &Grammar, may_wait: bool) -> Anew {
        let is_in_header = |item: &HeldItem| matches!(item, HeldItem::Control { id, .. } if grammar.is_in_header(*id));
        let begins = matches!(items.first(), Some(HeldItem::Control { id, .. }) if *id == self.id);
        let head = &items[usize::from(begins)..];
        let Some(first) = items.first() else { return Anew::No };
        let has_place = may_wait && items.len() < MAX_ITEMS - 1;
        if !head.iter().any(is_in_header) {
            let may_be = begins && has_place && self.is_twice(&texts(head).0);
            return if may_be { Anew::Wait } else { Anew::No };
        }
        let is_end = |item: &HeldItem| match item {
            HeldItem::Control { id, .. } => *id == self.before_text || !grammar.is_in_header(*id),
            _ => false,
        };
        let end = head.iter().position(is_end);
        if end.is_none() && has_place {
            return Anew::Wait;
        }
        let words = &head[..end.unwrap_or(head.len())];
        let channel_at = words.iter().position(
            |item| matches!(item, HeldItem::Control { id, .. } if grammar.opens_channel(*id)),
        );
        let channel = channel_at.and_then(|at| {
            let text = texts(&words[at + 1..]).0;
            Some((at, grammar.channel_of(text.trim_ascii_start())?))
        });
        let has_token = end.is_some_and(
            |end| matches!(head[end], HeldItem::Control { id, .. } if id == self.before_text),
        );
        let text_from = if has_token {
            None
        } else {
            let last = words.iter().rposition(is_in_header).unwrap_or(0);
            let from = words.iter().position(is_in_header).unwrap_or(0);
            let is_head = !words.is_empty() && self.is_head(&texts(words).0);
            if !is_head || !are_words(&words[from..last], grammar) {
                return Anew::No;
            }
            let is_channel = Some(last) == channel_at;
            let said = texts(&words[last + 1..]).0;
            Some((last + 1, header_length(&said, is_channel, channel.map(|(_, word)| word))))
        };
        let said: String = match text_from {
            None => all_texts(words),
            Some((from, length)) => {
                let last = texts(&words[from..]).0;
                format!("{}{}", all_texts(&words[..from]), &last[..length])
            }
        };
        let recipient = said.rfind(RECIPIENT).map(|at| {
            let word = &said[at + RECIPIENT.len()..];
            &word[..word.bytes().take_while(|&byte| is_word_byte(byte)).count()]
        });
        let at = first.first();
        let mut out = vec![match first {
            token if begins => token.clone(),
            _ => HeldItem::Control { id: self.id, first: at, at, spelled: None },
        }];
        let role = match recipient.filter(|word| !word.is_empty()) {
            Some(word) => format!("{} {RECIPIENT}{word}", self.role),
            None => self.role.to_owned(),
        };
        out.push(HeldItem::Text { text: role, first: at, at });
        if let Some((token, word)) = channel {
            let at = words[token].at();
            out.push(words[token].clone());
            out.push(HeldItem::Text { text: word.to_owned(), first: at, at });
        }
        match text_from {
            None => out.extend_from_slice(&head[end.unwrap_or(head.len())..]),
            Some((from, length)) => {
                let (before, text) = split_text(&head[from..], length);
                let at = before.last().or(words.get(from - 1)).map_or(at, HeldItem::at);
                let id = self.before_text;
                out.push(HeldItem::Control { id, first: at, at, spelled: None });
                out.extend(text);
            }
        }
        Anew::Items(out)
    }
}

/// The length of the words of a header at the beginning of a text that goes on: the channel, a recipient, the type of a
/// body in JSON, and white space after them.
fn header_length(text: &str, is_channel: bool, channel: Option<&str>) -> usize {
    let word = |text: &str| text.bytes().take_while(|&byte| is_word_byte(byte)).count();
    let mut rest = text.trim_ascii_start();
    rest = match channel {
        Some(channel) if is_channel => rest.strip_prefix(channel).unwrap_or(rest),
        _ if is_channel => rest,
        _ => &rest[word(rest)..],
    };
    if let Some(recipient) = rest.trim_ascii_start().strip_prefix(RECIPIENT) {
        rest = &recipient[word(recipient)..];
    }
    let kind = rest.trim_ascii_start();
    let body = kind[word(kind)..].trim_ascii_start();
    if body.starts_with('{') {
        return text.len() - body.len();
    }
    text.len() - rest.trim_ascii_start().len()
}

/// Whether the texts after the tokens of a header are words of it: a channel that the format knows, a recipient, a type.
fn are_words(items: &[HeldItem], grammar: &Grammar) -> bool {
    items.iter().enumerate().all(|(at, item)| {
        let HeldItem::Control { id, .. } = item else { return true };
        let said = texts(&items[at + 1..]).0;
        let channel = grammar.channel_of(said.trim_ascii_start());
        header_length(&said, grammar.opens_channel(*id), channel) == said.len()
    })
}

/// The texts among the items, with a space for each token.
fn all_texts(items: &[HeldItem]) -> String {
    let text = |item: &HeldItem| match item {
        HeldItem::Text { text, .. } => text.clone(),
        _ => " ".to_owned(),
    };
    items.iter().map(text).collect()
}

/// Splits items after a number of bytes of the text at their beginning.
fn split_text(items: &[HeldItem], bytes: usize) -> (Vec<HeldItem>, Vec<HeldItem>) {
    let mut held = Held::of(items.to_vec());
    let rest = held.split_off(held.after_bytes(Position::default(), bytes));
    (held.into_items(), rest)
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
        let unread = header.original.as_ref().map_or(0, |original| original.unread(&header.held));
        // The rest of a header that was mended before belongs to it.
        for item in self.queue.drain(..unread.min(self.queue.len())) {
            header.held.push(item);
        }
        let is_anew = header.original.as_ref().is_some_and(|original| original.is_anew);
        let items = header.held.items();
        let (mended, is_anew) = match opener.mended(items, grammar).filter(|_| !is_anew) {
            Some(mended) => (mended, false),
            None if is_anew => return Err(header),
            None => match opener.anew(items, grammar, self.may_wait) {
                Anew::Items(mended) => (mended, true),
                Anew::Wait => return Ok(header),
                Anew::No => return Err(header),
            },
        };
        let held = std::mem::take(&mut header.held).into_items();
        let items = match header.original.take() {
            Some(original) => original.with(held),
            None => held,
        };
        if items.len() > MAX_ITEMS {
            header.original = Some(Original { items, read: 0, is_anew });
            return Err(header);
        }
        let mut next = Box::new(UncertainHeader::opened(self.bound));
        if is_prompted {
            next.header.keep_assistants(grammar);
        }
        next.original = Some(Original { items, read: mended.len(), is_anew });
        self.again(mended);
        Ok(next)
    }
}
