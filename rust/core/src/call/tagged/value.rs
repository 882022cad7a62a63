//! The end of a value: its closing tag, or another tag that can only come after it.
//!
//! A model that forgets a closing tag writes the next tag on a new line. So a tag that opens a pair, or
//! opens or closes a call, ends a value if it begins a line. A tag that closes a call also ends a value if
//! only the end of the call follows. Written values contain none of these.

use super::{SPACES, TaggedStyle};

/// Maximum amount of white space before or after a tag that ends a value.
const MAX_INDENT: usize = 64;

/// White space inside a line.
const INDENT: [char; 2] = [' ', '\t'];

/// The end of a value, with its place in the held text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found<'s> {
    /// The closing tag, which begins here.
    Close(usize),
    /// A tag that opens the next pair; the value ends here.
    NextPair(usize),
    /// A tag that does not belong to a pair; the value ends here.
    End(usize, &'s str),
}

impl TaggedStyle {
    /// Whether a byte may begin the end of a value.
    pub(super) fn stops_at(&self, byte: u8) -> bool {
        let is_first = |tag: &str| tag.as_bytes().first() == Some(&byte);
        byte == b'\n' || is_first(&self.close.first) || self.any_tag(is_first)
    }

    /// Whether any tag that ends a value passes a test.
    fn any_tag(&self, test: impl Fn(&str) -> bool) -> bool {
        let own = [self.close.core(), self.open.core()].into_iter();
        own.filter(|tag| !tag.is_empty()).chain(self.ends()).any(test)
    }

    /// The tags that end a value if they begin a line.
    pub(super) fn line_tags(&self) -> impl Iterator<Item = &str> {
        let open = Some(self.open.core()).filter(|tag| !tag.is_empty());
        open.into_iter().chain(self.ends())
    }

    /// The end of the value at the end of `held`; `fresh`: nothing of the value precedes `held`.
    pub(super) fn end_of_value(&self, held: &str, fresh: bool) -> Option<Found<'_>> {
        let core = self.close.core();
        if !core.is_empty() && held.ends_with(core) {
            return Some(Found::Close(held.len() - core.len()));
        }
        let found = |tag: &'_ str| {
            let line = held.strip_suffix(tag)?.trim_end_matches(INDENT);
            let begins_line = line.ends_with('\n') || fresh && line.is_empty();
            begins_line.then(|| line.len() - usize::from(line.ends_with('\n')))
        };
        self.line_tags().find_map(|tag| {
            let at = found(tag)?;
            let is_pair = tag == self.open.core();
            Some(if is_pair { Found::NextPair(at) } else { Found::End(at, tag) })
        })
    }

    /// The place in `held` where the end of the value may begin; the text before it belongs to the
    /// value.
    pub(super) fn held_from(&self, held: &str, fresh: bool) -> usize {
        let may_end = |&at: &usize| {
            let tail = &held[at..];
            self.close.first.starts_with(tail)
                || self.close.core().starts_with(tail)
                || self.may_begin_line(tail, fresh && at == 0)
                || self.call.close.iter().any(|tag| may_close(tag, tail))
        };
        held.char_indices().map(|(at, _)| at).find(may_end).unwrap_or(held.len())
    }

    /// Whether text ends in a tag that may follow a value, whatever quote it has.
    pub(super) fn follows_value(&self, text: &str) -> bool {
        self.line_tags().any(|tag| text.ends_with(tag.trim_end_matches('"')))
    }

    /// Whether text is, or begins, a newline and a tag; at the beginning of a value, a tag.
    fn may_begin_line(&self, text: &str, is_first: bool) -> bool {
        let line = text.strip_prefix('\n');
        let Some(line) = line.or(Some(text).filter(|_| is_first)) else { return false };
        let rest = line.trim_start_matches(INDENT);
        line.len() - rest.len() <= MAX_INDENT && self.line_begins(rest)
    }

    fn line_begins(&self, rest: &str) -> bool {
        rest.is_empty() || self.line_tags().any(|tag| tag.starts_with(rest))
    }

    /// The place of the tag that closes the call, in `held`, which the end of the call follows.
    pub(super) fn closes_call(&self, held: &str) -> bool {
        self.call.close.iter().any(|tag| held.len() >= tag.len() && may_close(tag, held))
    }

    /// The first tag that begins a line of a written value and would end it.
    pub(super) fn tag_in(&self, value: &str) -> Option<&str> {
        let begins = |line: &str| {
            let rest = line.trim_start_matches(INDENT);
            self.line_tags().find(|tag| rest.starts_with(tag))
        };
        value.split('\n').find_map(begins)
    }

    /// The first tag in text outside pairs, and whether it opens a pair.
    pub(super) fn tag_after(&self, text: &str) -> Option<(usize, bool)> {
        let at = |tag: &str| text.ends_with(tag).then(|| text.len() - tag.len());
        let open = self.open.core();
        let pair = Some(open).filter(|open| !open.is_empty()).and_then(at);
        pair.map(|at| (at, true)).or_else(|| self.ends().find_map(at).map(|at| (at, false)))
    }
}

/// Whether text is, or begins, a tag and white space.
fn may_close(tag: &str, text: &str) -> bool {
    tag.starts_with(text)
        || text.strip_prefix(tag).is_some_and(|rest| {
            rest.len() <= MAX_INDENT && rest.trim_start_matches(SPACES).is_empty()
        })
}
