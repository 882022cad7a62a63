//! Held text: it may be the pattern's own, or scaffolding.
//!
//! ```text
//! "Hi\n" before the row's "\n</s>"    "Hi" is emitted, "\n" is held back until "</s>" comes or does not
//! ```

use super::machine::Piece;
use crate::grammar::{Stop, Suffix};
use crate::json;
use crate::limits::HOLD_LIMIT;

/// Text with the first and the last position of its ids.
pub(super) type Stretch = (String, u32, u32);

/// Held text, with the positions of its ids.
#[derive(Debug, Clone, Default)]
pub(super) struct Pending {
    text: String,
    marks: Vec<Mark>,
    /// Number of bytes of white space at its beginning.
    spaces: usize,
}

/// Positions of the text from byte `start` on: its id is at `at`, its first character began at `first`.
#[derive(Debug, Clone, Copy)]
struct Mark {
    start: usize,
    first: u32,
    at: u32,
}

impl Pending {
    pub(super) fn push(&mut self, piece: Piece<'_>) {
        if !piece.text.is_empty() {
            let Piece { text, first, at } = piece;
            if self.spaces == self.text.len() {
                self.spaces += spaces(text);
            }
            self.marks.push(Mark { start: self.text.len(), first, at });
            self.text.push_str(text);
        }
    }

    /// The position of its first id.
    pub(super) fn first(&self) -> u32 {
        self.marks.first().map_or(0, |mark| mark.first)
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.marks.clear();
        self.spaces = 0;
    }

    /// Removes and returns all text.
    pub(super) fn take_all(&mut self) -> Stretch {
        self.take(self.text.len())
    }

    /// Adds text; returns all held text once that is more than white space.
    pub(super) fn push_space(&mut self, piece: Piece<'_>) -> Option<Stretch> {
        let is_space = piece.text.bytes().all(|byte| byte.is_ascii_whitespace());
        self.push(piece);
        (!is_space || self.text.len() > HOLD_LIMIT).then(|| self.take_all())
    }

    /// Adds text; returns the text that cannot be part of one of `suffixes` at the end. With `fresh`, no text came
    /// before: a suffix may then lack the newline that it begins with.
    pub(super) fn push_until(
        &mut self,
        piece: Piece<'_>,
        suffixes: &[&Suffix],
        fresh: bool,
    ) -> Option<Stretch> {
        self.push(piece);
        if fresh && suffixes.iter().any(|suffix| self.may_become(suffix)) {
            return None;
        }
        let held = suffixes.iter().map(|suffix| {
            let held = held_from(&self.text, suffix);
            if self.text.len() - held <= HOLD_LIMIT {
                return held;
            }
            // Too much white space for the pattern; its end may begin the pattern's text.
            let literal = Suffix { literal: suffix.literal.clone(), space: false };
            held_from(&self.text, &literal)
        });
        let held = held.min().unwrap_or(self.text.len());
        (held > 0).then(|| self.take(held))
    }

    /// Adds text; returns the text that cannot be part of a stop at the end, and the number of a stop that is
    /// complete, which is then at the beginning of the held text. With `by_text`, positions are of characters.
    pub(super) fn push_until_stop(
        &mut self,
        piece: Piece<'_>,
        stops: &[Stop],
        by_text: bool,
    ) -> (Option<Stretch>, Option<usize>) {
        self.push(piece);
        let found = stops.iter().enumerate().filter_map(|(nth, stop)| {
            let mut places = self.text.match_indices(&stop.literal.text);
            let (at, _) = places.find(|&(at, _)| by_text || self.is_genuine(at, stop))?;
            Some((at, nth))
        });
        if let Some((at, nth)) = found.min() {
            return ((at > 0).then(|| self.take(at)), Some(nth));
        }
        let begun = |stop: &Stop| {
            let text = &stop.literal.text;
            let ends = text.char_indices().rev().map(|(at, _)| at);
            ends.filter(|&at| at > 0).find(|&at| self.text.ends_with(&text[..at])).unwrap_or(0)
        };
        let held = stops.iter().map(begun).max().unwrap_or(0);
        let out = self.text.len() - held;
        ((out > 0).then(|| self.take(out)), None)
    }

    /// Whether the marker is split into ids like the genuine one.
    fn is_genuine(&self, at: usize, stop: &Stop) -> bool {
        let is_end = |place: usize| {
            self.marks.windows(2).any(|pair| pair[1].start == place && pair[0].at != pair[1].at)
        };
        !stop.literal.breaks.iter().any(|place| is_end(at + place))
    }

    /// Removes and returns `bytes` bytes.
    pub(super) fn take_bytes(&mut self, bytes: usize) -> Stretch {
        self.take(bytes.min(self.text.len()))
    }

    /// Removes and returns the first character.
    pub(super) fn take_char(&mut self) -> Stretch {
        self.take_bytes(self.text.chars().next().map_or(0, char::len_utf8))
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The end of `text` at the beginning, after white space.
    pub(super) fn end_of(&self, text: &str) -> Option<usize> {
        let spaces = self.spaces;
        self.text[spaces..].starts_with(text).then_some(spaces + text.len())
    }

    /// The number of held bytes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether the held text is `suffix` or its beginning, apart from white space around it.
    pub(super) fn begins(&self, suffix: &Suffix) -> bool {
        suffix.literal.trim_ascii().starts_with(self.text.trim_ascii())
    }

    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether the held text is `suffix`; with `fresh`, also without its first newline.
    pub(super) fn is(&self, suffix: &Suffix, fresh: bool) -> bool {
        let text = if suffix.space { trim_end(&self.text) } else { &self.text };
        text == suffix.literal || (fresh && suffix.literal.strip_prefix('\n') == Some(text))
    }

    /// Whether the held text is, or begins, `suffix` without its first newline.
    fn may_become(&self, suffix: &Suffix) -> bool {
        let Some(literal) = suffix.literal.strip_prefix('\n') else { return false };
        let is_whole = || suffix.space && trim_end(&self.text) == literal;
        self.text.len() <= HOLD_LIMIT && (literal.starts_with(&self.text) || is_whole())
    }

    fn take(&mut self, bytes: usize) -> Stretch {
        let of = |byte: usize, marks: &[Mark]| {
            marks.iter().rev().find(|mark| mark.start <= byte).copied()
        };
        let first = self.first();
        let last = of(bytes.saturating_sub(1), &self.marks).map_or(0, |mark| mark.at);
        let rest = self.text.split_off(bytes);
        self.spaces = match self.spaces.checked_sub(bytes) {
            Some(left) => left,
            None => spaces(&rest),
        };
        let taken = std::mem::replace(&mut self.text, rest);
        if let Some(mark) = of(bytes, &self.marks) {
            // The rest of a piece has characters of the same id.
            let first = if mark.start == bytes { mark.first } else { mark.at };
            self.marks.retain(|mark| mark.start > bytes);
            self.marks.insert(0, Mark { start: bytes, first, at: mark.at });
        }
        self.marks.iter_mut().for_each(|mark| mark.start -= bytes);
        if self.text.is_empty() {
            self.marks.clear();
        }
        (taken, first, last)
    }
}

/// The number of bytes of white space at the beginning of a text.
fn spaces(text: &str) -> usize {
    let spaces = text.bytes().take_while(|&byte| json::is_space(byte)).count();
    #[cfg(test)]
    tests::EXAMINED.with(|examined| examined.set(examined.get() + spaces + 1));
    spaces
}

/// The start of the longest end of `text` that is `suffix` or its beginning.
fn held_from(text: &str, suffix: &Suffix) -> usize {
    let literal = suffix.literal.as_str();
    let whole = if suffix.space { trim_end(text) } else { text };
    if whole.ends_with(literal) {
        return whole.len() - literal.len();
    }
    let begun =
        literal.char_indices().rev().find(|&(at, _)| at > 0 && text.ends_with(&literal[..at]));
    text.len() - begun.map_or(0, |(at, _)| at)
}

fn trim_end(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::PROMPT;
    use super::*;
    use crate::codec::Codec;
    use crate::event::EventKind;
    use crate::format::Format;
    use crate::stream::MarkerPolicy;
    use chatcodec_vocab::{Vocab, VocabFiles, VocabOptions};
    use proptest::prelude::*;

    thread_local! {
        /// Bytes examined for white space.
        pub(super) static EXAMINED: Cell<usize> = const { Cell::new(0) };
    }

    /// Each byte of white space before the end of a call is examined a few times, not once for each id.
    #[test]
    fn white_space_after_arguments_is_looked_at_once() {
        let format = Format::built_in("minimax-m2").unwrap();
        let size = i32::try_from(Vocab::embedded().size()).unwrap();
        let spellings = [
            "]~!b[",
            "]~b]",
            "[e~[",
            "<think>",
            "</think>",
            "<minimax:tool_call>",
            "</minimax:tool_call>",
        ];
        let special_tokens = spellings.map(str::to_owned).into_iter().zip(size..).collect();
        let options = VocabOptions { special_tokens, ..VocabOptions::default() };
        let files = VocabFiles {
            options,
            ..VocabFiles::one(include_bytes!("../../../vocab/src/vocab/embedded.model"))
        };
        let codec = Codec::new(&format, &Vocab::load_files(files).unwrap()).unwrap();
        let mut stream = codec.stream(None).reading(MarkerPolicy::Text);
        let mut events = Vec::new();
        let lines = "\n".repeat(1 << 16);
        stream.push_text("</think><minimax:tool_call><invoke name=\"f\">", &mut events);
        EXAMINED.set(0);
        for at in 0..lines.len() {
            stream.push_text(&lines[at..=at], &mut events);
        }
        assert!(EXAMINED.get() < 4 * lines.len(), "{}", EXAMINED.get());
        stream.push_text("</invoke>", &mut events);
        let is_end = |kind: &EventKind| matches!(kind, EventKind::ActionEnd { .. });
        assert!(events.iter().any(|event| is_end(&event.kind)), "{events:?}");
    }

    proptest! {
        #[test]
        fn white_space_is_counted(work in prop::collection::vec(("[ \n\tab]{0,4}", 0usize..6), 0..12)) {
            let mut pending = Pending::default();
            for (text, taken) in work {
                pending.push(Piece { text: &text, first: PROMPT, at: PROMPT });
                pending.take_bytes(taken);
                let naive = pending.text.len() - pending.text.trim_start_matches([' ', '\n', '\t']).len();
                prop_assert_eq!(pending.spaces, naive);
                if taken == 5 {
                    pending.clear();
                }
            }
        }
    }
}
