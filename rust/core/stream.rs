//! Ids to events: the format's table walked by one machine, an id at a time.
//!
//! Whatever comes, each id is accounted for by an event and nothing is raised. What the machine does
//! with an id depends on the ids before it alone, so any way of pushing them gives the same events.
//!
//! A control token that opens a turn or an action is *tentative* until what follows fits a header of
//! the table: candidates are walked side by side and what was read is held, up to [`HEAD_LIMIT`].
//! If none fits, the token is told as a notice and the rest is read again as what it is without it.
//! Held besides: the end of a text that may be the pattern's own, and white space after an action.

mod header;
mod machine;
mod pending;
mod value;

use crate::codec::Codec;
use crate::collect::Collector;
use crate::decode::TextDecoder;
use crate::event::{Event, TurnReason};
use crate::message::{Message, Role};
use crate::vocab::{TokenId, TokenKind, text_decoder};
use header::HeldItem;
use machine::{Machine, Piece, Reader};

/// The longest header that is waited for, in bytes.
pub const HEAD_LIMIT: usize = 4096;

/// The position of every id of a prompt: before the stream's first.
const PROMPT: u32 = 0;

/// The position of a stream's first id.
const FIRST: u32 = 1;

/// A stream of ids being read. Cheap to copy.
#[derive(Debug, Clone)]
pub struct Stream {
    codec: Codec,
    decoder: TextDecoder,
    /// Where the character that `decoder` holds began.
    char_start: u32,
    machine: Machine,
    /// The position of the next id, from [`FIRST`] on.
    index: u32,
    kept: Option<Collector>,
}

impl Stream {
    /// A stream that begins where a prompt ends: with none, directly after the generation prompt.
    pub(crate) fn after_prompt(codec: &Codec, prompt: Option<&[TokenId]>) -> Self {
        let mut stream = Self::at_start(codec);
        let mut told = Vec::new();
        for &id in prompt.unwrap_or(codec.any_prompt()) {
            stream.index = PROMPT;
            stream.step(id, &mut told);
            told.clear();
        }
        stream.index = FIRST;
        stream.machine.after_prompt(codec);
        stream
    }

    /// A stream at the beginning of a conversation.
    pub(crate) fn at_start(codec: &Codec) -> Self {
        Self {
            decoder: text_decoder(codec.vocab()),
            codec: codec.clone(),
            char_start: FIRST,
            machine: Machine::at_start(),
            index: FIRST,
            kept: None,
        }
    }

    /// Also collects the message, for [`Stream::message`].
    #[must_use]
    pub fn keeping(mut self) -> Self {
        self.kept = Some(Collector::default());
        self
    }

    /// Reads one id and appends its events to `out`; texts that follow each other there are joined.
    pub fn push(&mut self, id: TokenId, out: &mut Vec<Event>) {
        self.telling(out, |stream, out| stream.step(id, out));
    }

    /// Reads ids and appends their events to `out`.
    pub fn push_all(&mut self, ids: &[TokenId], out: &mut Vec<Event>) {
        self.telling(out, |stream, out| {
            for &id in ids {
                stream.step(id, out);
            }
        });
    }

    /// Reads an id that is too large or too small to be one.
    pub fn push_unknown(&mut self, id: String, out: &mut Vec<Event>) {
        self.telling(out, |stream, out| {
            let at = stream.next_position();
            stream.end_text(at, out);
            stream.reader(out).input(HeldItem::Unknown { text: id, at });
        });
    }

    /// Ends the stream: what is open is closed, what is held comes out.
    ///
    /// [`TurnReason::Stop`] after an action becomes [`TurnReason::Action`].
    pub fn finish(&mut self, reason: TurnReason, out: &mut Vec<Event>) {
        self.telling(out, |stream, out| {
            let index = stream.index;
            stream.end_text(index, out);
            stream.reader(out).finish(reason, index);
        });
    }

    /// The message of the first turn so far; an empty one where the stream does not keep it.
    pub fn message(&self) -> Message {
        let kept = self.kept.clone().map(Collector::into_messages);
        let first = kept.and_then(|messages| messages.into_iter().next());
        let mut message = first.unwrap_or_else(|| Message::new(Role::Assistant, ""));
        message.number_calls();
        message
    }

    /// How many ids have been read.
    pub fn position(&self) -> usize {
        (self.index - FIRST) as usize
    }

    /// Whether the stream keeps its message.
    pub fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// Does `work`, and keeps the events it makes where the stream keeps its message.
    fn telling(&mut self, out: &mut Vec<Event>, work: impl FnOnce(&mut Self, &mut Vec<Event>)) {
        let resumed = self.machine.take_resumed();
        if self.kept.is_none() {
            out.extend(resumed);
            return work(self, out);
        }
        let mut events: Vec<Event> = resumed.into_iter().collect();
        work(self, &mut events);
        if let Some(kept) = &mut self.kept {
            for event in &events {
                kept.push(&event.kind);
            }
        }
        out.append(&mut events);
    }

    fn reader<'a>(&'a mut self, out: &'a mut Vec<Event>) -> Reader<'a> {
        Reader::new(&self.codec, &mut self.machine, out)
    }

    fn next_position(&mut self) -> u32 {
        let at = self.index;
        self.index = at.saturating_add(1);
        at
    }

    /// Ends the text before position `at`: what is left of an unfinished character comes out.
    fn end_text(&mut self, at: u32, out: &mut Vec<Event>) {
        if let Some(text) = self.decoder.flush() {
            let (first, at) = (self.char_start, at.saturating_sub(1));
            self.reader(out).text(Piece { text, first, at });
        }
    }

    fn step(&mut self, id: TokenId, out: &mut Vec<Event>) {
        let at = self.next_position();
        let item = match self.codec.vocab().token(id) {
            Some((kind @ (TokenKind::Text | TokenKind::Byte), bytes)) => {
                let was_pending = self.decoder.is_pending();
                let first = if was_pending { self.char_start } else { at };
                let text = self.decoder.push(kind, bytes);
                let finished = !text.is_empty();
                if finished {
                    let (codec, machine) = (&self.codec, &mut self.machine);
                    Reader::new(codec, machine, out).text(Piece { text, first, at });
                }
                if finished || !was_pending {
                    self.char_start = at;
                }
                return;
            }
            Some((TokenKind::Control, _)) => HeldItem::Control { id, at },
            _ => HeldItem::Unknown { text: id.to_string(), at },
        };
        self.end_text(at, out);
        if matches!(item, HeldItem::Control { .. }) {
            self.decoder.begin_text();
        }
        self.reader(out).input(item);
    }
}
