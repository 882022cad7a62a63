//! Many streams side by side, as an engine generates them: in each step, an id for some of the
//! streams.
//!
//! In: slots and ids. Out: the events of each stream, in the order of the ids, equal to the events
//! of the stream alone. Cost: the sum of the streams; most ids allocate nothing. Memory:
//! [`Stream`]'s for each open slot.

use std::fmt;

use crate::codec::Codec;
use crate::event::Event;
use crate::stream::{Plain, Stream};
use chatcodec_vocab::{TokenId, Vocab};

/// Streams of one codec, by slot.
///
/// ```
/// use chatcodec::{Codec, EventKind, Format, StreamPool, Vocab};
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let mut pool = StreamPool::new(&codec);
/// let slots = [pool.open(codec.stream(None)) as i32, pool.open(codec.stream(None)) as i32];
/// let ids = [codec.vocab().encode("a")[0], codec.vocab().encode("b")[0]];
/// let mut out = Vec::new();
/// pool.push(&slots, &ids, &mut out).unwrap();
/// let (slot, event) = out.pop().unwrap();
/// assert_eq!(slot, slots[1]);
/// assert_eq!(event.into_event(codec.vocab()).kind, EventKind::Text("b".into()));
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug)]
pub struct StreamPool {
    codec: Codec,
    slots: Vec<Option<Stream>>,
    free: Vec<usize>,
}

/// Output of one stream of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolEvent {
    /// The text of an id that is only text.
    Plain(Plain),
    /// Any other event.
    Event(Event),
}

impl PoolEvent {
    /// The output as an event.
    pub fn into_event(self, vocab: &Vocab) -> Event {
        match self {
            Self::Plain(plain) => plain.into_event(vocab),
            Self::Event(event) => event,
        }
    }
}

/// Error: no stream is open in the slot.
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

    /// The codec of the streams.
    pub fn codec(&self) -> &Codec {
        &self.codec
    }

    /// Number of open streams.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no stream is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Opens a slot with a stream of the pool's codec.
    pub fn open(&mut self, stream: Stream) -> usize {
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = Some(stream);
            return slot;
        }
        self.slots.push(Some(stream));
        self.slots.len() - 1
    }

    /// Closes a slot and returns its stream.
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

    /// Pushes an id to each slot, in order; a slot may occur several times. Appends the output with
    /// its slot to `out`: for each id no event, one or several.
    ///
    /// # Errors
    /// [`NoStream`] before any id is read.
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

    /// Whether every slot has an open stream.
    pub fn check(&mut self, slots: &[TokenId]) -> Result<(), NoStream> {
        slots.iter().try_for_each(|&slot| self.stream(slot).map(|_| ()))
    }
}
