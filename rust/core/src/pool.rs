//! Many streams side by side, as an engine generates them: an id for each of some of them, a step at a time.
//!
//! In: slots and ids. Out: what each says, as its stream alone would, in the order of the ids. Cost: that of
//! the streams alone; most ids allocate nothing. Memory: [`Stream`]'s for each open slot.

use std::fmt;

use crate::codec::Codec;
use crate::event::Event;
use crate::stream::{Plain, Stream};
use chatcodec_vocab::{TokenId, Vocab};

/// Streams of one codec, by slot.
#[derive(Debug)]
pub struct StreamPool {
    codec: Codec,
    slots: Vec<Option<Stream>>,
    free: Vec<usize>,
}

/// What a stream of a pool says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolEvent {
    /// An id that is nothing but text.
    Plain(Plain),
    /// Any other event.
    Event(Event),
}

impl PoolEvent {
    /// As an event.
    pub fn into_event(self, vocab: &Vocab) -> Event {
        match self {
            Self::Plain(plain) => plain.into_event(vocab),
            Self::Event(event) => event,
        }
    }
}

/// No stream is open in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoStream {
    /// The slot.
    pub slot: TokenId,
}

impl fmt::Display for NoStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} holds no stream, expected one that `open` gave", self.slot)
    }
}

impl std::error::Error for NoStream {}

impl StreamPool {
    /// A pool without streams.
    pub fn new(codec: &Codec) -> Self {
        Self { codec: codec.clone(), slots: Vec::new(), free: Vec::new() }
    }

    /// The codec of its streams.
    pub fn codec(&self) -> &Codec {
        &self.codec
    }

    /// How many streams are open.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no stream is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a stream of the pool's codec into a slot: one that was closed, or a new one.
    pub fn open(&mut self, stream: Stream) -> usize {
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = Some(stream);
            return slot;
        }
        self.slots.push(Some(stream));
        self.slots.len() - 1
    }

    /// Takes the stream out of a slot.
    pub fn close(&mut self, slot: TokenId) -> Result<Stream, NoStream> {
        let at = usize::try_from(slot).map_err(|_| NoStream { slot })?;
        let stream = self.slots.get_mut(at).and_then(Option::take).ok_or(NoStream { slot })?;
        self.free.push(at);
        Ok(stream)
    }

    /// The stream in a slot.
    pub fn stream(&mut self, slot: TokenId) -> Result<&mut Stream, NoStream> {
        let at = usize::try_from(slot).ok();
        let stream = at.and_then(|at| self.slots.get_mut(at)?.as_mut());
        stream.ok_or(NoStream { slot })
    }

    /// Gives each slot its id, in order; a slot may come again. Appends what the streams say to `out`, with
    /// the slot: an event for each id, or several, or none.
    ///
    /// # Errors
    /// [`NoStream`] before anything is read.
    pub fn push(
        &mut self,
        slots: &[TokenId],
        ids: &[TokenId],
        out: &mut Vec<(TokenId, PoolEvent)>,
    ) -> Result<(), NoStream> {
        self.check(slots)?;
        let mut events = Vec::new();
        for (&slot, &id) in slots.iter().zip(ids) {
            let stream = self.stream(slot)?;
            if let Some(plain) = stream.push_plain(id) {
                out.push((slot, PoolEvent::Plain(plain)));
                continue;
            }
            stream.push_other(id, &mut events);
            out.extend(events.drain(..).map(|event| (slot, PoolEvent::Event(event))));
        }
        Ok(())
    }

    /// Whether a stream is open in each slot.
    pub fn check(&mut self, slots: &[TokenId]) -> Result<(), NoStream> {
        slots.iter().try_for_each(|&slot| self.stream(slot).map(|_| ()))
    }
}
