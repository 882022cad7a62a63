//! Ids to events: one machine reads the table of every format, an id at a time.
//!
//! An event covers each id, and no input raises an error. The events of an id depend only on the ids before it, so
//! every split of ids into pushes gives the same events.
//!
//! A control token that opens a turn or a call is *uncertain* until the input after it fits a header of the table.
//! Candidates are read side by side, and the input is held, up to [`HOLD_LIMIT`](crate::HOLD_LIMIT). If no header
//! fits, a notice reports the token, and the rest is read again without it. The end of a text that may be the
//! pattern's own and white space after a call are held too.

mod header;
mod machine;
mod output;
mod pending;
mod spelled;
mod tags;
mod value;

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

use crate::bound::Bound;
use crate::collect::Collector;
use crate::event::{Event, Part, TurnReason};
use crate::format::{BareCalls, InReasoning};
use crate::message::{Message, Role};
use crate::response::{BoundResponse, ResponseState};
use crate::schema::ToolTypes;
use chatcodec_vocab::TextDecoder;
use chatcodec_vocab::{TokenId, TokenKind, Vocab};
use header::HeldItem;
use machine::{Machine, Piece, Reader, Run};
use output::Output;
pub use spelled::MarkerPolicy;
use spelled::Search;
use tags::TagReader;

/// Position of every id of a prompt: before the stream's first.
const PROMPT: u32 = 0;

/// Number of characters of text without ids that the fast path tries at once.
const STRETCH: usize = 64;

/// Position of a stream's first id.
const FIRST: u32 = 1;

/// Reader of a stream of ids. Cheap to copy.
///
/// ```
/// use chatcodec::{Codec, EventKind, Format, Vocab};
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let ids = codec.vocab().encode("Hello");
/// let (mut stream, mut events) = (codec.stream(None).keeping(), Vec::new());
/// for id in ids {
///     stream.push(id, &mut events);
/// }
/// stream.push(92542, &mut events); // <|im_end|>
/// assert!(matches!(events.last().unwrap().kind, EventKind::TurnEnd { .. }));
/// assert_eq!(stream.message().content, "Hello");
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Stream {
    bound: Arc<Bound>,
    state: State,
    kept: Option<Box<Collector>>,
    /// The reader in place of the format's.
    response: Option<Box<ResponseState>>,
}

/// State of a stream between two inputs.
#[derive(Debug, Clone)]
pub(crate) struct State {
    decoder: TextDecoder,
    /// Whether text has begun that is not decoded yet: a character in `decoder`, or a dummy prefix.
    has_begun: bool,
    /// Position where that text began.
    begun: u32,
    /// The position of the next id, from [`FIRST`] on.
    index: u32,
    machine: Machine,
    output: Output,
    /// Search for spelled control tokens, where they count.
    search: Option<Box<Search>>,
    /// Reader of tags, in formats with some.
    tags: Option<Box<TagReader>>,
}

/// Id that emits its own text and does nothing else: most ids do.
///
/// The text depends only on the id, so a caller may cache it by the id.
///
/// ```
/// use chatcodec::{Codec, Format, Part, Vocab};
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let mut stream = codec.stream(None);
/// let id = codec.vocab().encode("a")[0];
/// let plain = stream.push_plain(id).unwrap();
/// assert_eq!((plain.text(codec.vocab()), plain.part), ("a", Part::Text));
/// assert!(stream.push_plain(92542).is_none()); // <|im_end|> is more than text
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain {
    /// The id.
    pub id: TokenId,
    /// The part that its text belongs to.
    pub part: Part,
    /// Positions of ids in the stream.
    pub tokens: Range<u32>,
}

impl Plain {
    /// The id's text.
    pub fn text<'v>(&self, vocab: &'v Vocab) -> &'v str {
        let bytes = vocab.token(self.id).map_or(&b""[..], |(_, bytes)| bytes);
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// The event of the id.
    pub fn into_event(self, vocab: &Vocab) -> Event {
        Event::of_text(self.part, self.text(vocab).to_owned(), self.tokens)
    }
}

impl State {
    /// At the beginning of a conversation.
    fn at_start(bound: &Bound) -> Self {
        let decoder = bound.vocab().text_decoder();
        Self {
            decoder,
            has_begun: false,
            begun: FIRST,
            index: FIRST,
            machine: Machine::at_start(bound),
            output: Output::new(),
            search: Search::of(bound, MarkerPolicy::Ids),
            tags: bound.tags().map(|_| Box::default()),
        }
    }

    /// The state after a prompt.
    pub(crate) fn after_prompt(bound: &Bound, prompt: &[TokenId]) -> Self {
        let mut state = Self::at_start(bound);
        let mut events = Vec::new();
        for &id in prompt {
            state.index = PROMPT;
            if state.pass(bound, id).is_none() {
                state.step(bound, id, &mut events);
                events.clear();
            }
        }
        // Text that stands at the end of a prompt is the prompt's.
        if let Some(text) = state.search.as_mut().and_then(|search| search.end_prompt()) {
            state.read_items(bound, vec![text], &mut events);
        }
        state.end_tags(bound, true, &mut events);
        if state.machine.is_answered() {
            state.reader(bound, &mut events).open_answer();
        }
        state.index = FIRST;
        state.machine.after_prompt(bound, &mut state.output);
        state
    }

    fn next_position(&mut self) -> u32 {
        let at = self.index;
        self.index = at.saturating_add(1);
        at
    }

    /// Sets which input is a control token, from here on.
    fn read_by(&mut self, bound: &Bound, policy: MarkerPolicy) {
        self.search = match (self.search.take(), Search::of(bound, policy)) {
            // The end of the prompt may be the beginning of a marker.
            (Some(mut held), Some(_)) if policy != MarkerPolicy::Text => {
                held.read_by(policy);
                Some(held)
            }
            (_, search) => search,
        };
        let by_text = policy == MarkerPolicy::Text;
        self.output.by_text |= by_text;
        if let Some(tags) = self.tags.as_mut().filter(|tags| tags.is_idle()) {
            **tags = TagReader::new(by_text);
        }
    }

    /// Ends the text before position `at`: reads the rest of an unfinished character, and text that might have
    /// become a control token. Text before a tag may still be held.
    fn end_text(&mut self, bound: &Bound, at: u32, out: &mut Vec<Event>) {
        self.end_character(bound, at, out);
        if let Some(search) = &mut self.search {
            let items = search.finish(bound);
            self.read_items(bound, items, out);
        }
    }

    fn end_character(&mut self, bound: &Bound, at: u32, out: &mut Vec<Event>) {
        self.has_begun = false;
        if let Some(text) = self.decoder.flush() {
            let (first, at) = (self.begun, at.saturating_sub(1));
            self.read_piece(bound, Piece { text, first, at }, out);
        }
    }

    /// Reads text, in which control tokens may be spelled.
    fn read_piece(&mut self, bound: &Bound, piece: Piece<'_>, out: &mut Vec<Event>) {
        let Some(search) = &mut self.search else { return self.read_text(bound, piece, out) };
        if !search.is_by_text() && search.passes(bound, piece.text) {
            return self.read_text(bound, piece, out);
        }
        let items = search.push(bound, piece);
        self.read_items(bound, items, out);
    }

    /// Reads text, which may be that of a tag.
    fn read_text(&mut self, bound: &Bound, piece: Piece<'_>, out: &mut Vec<Event>) {
        let (Some(tags), Some(table)) = (&mut self.tags, bound.tags()) else {
            return self.reader(bound, out).text(piece);
        };
        if tags.passes(table, piece.text) {
            return self.reader(bound, out).text(piece);
        }
        let items = tags.text(table, piece);
        self.read_whole(bound, items, out);
    }

    /// Reads what is no text.
    fn read_token(&mut self, bound: &Bound, item: HeldItem, out: &mut Vec<Event>) {
        if let (Some(tags), Some(table)) = (&mut self.tags, bound.tags()) {
            if let HeldItem::Control { .. } = item
                && let Some(items) = tags.next(table, &item)
            {
                return self.read_whole(bound, items, out);
            }
            if let HeldItem::Control { id, at, spelled: None, .. } = item {
                let items = tags.control(table, id, at);
                return self.read_whole(bound, items, out);
            }
            self.end_tags(bound, false, out);
        }
        self.reader(bound, out).input(item);
    }

    /// Reads text that might have become a tag. In a prompt, a tag may go on after it.
    fn end_tags(&mut self, bound: &Bound, is_prompt: bool, out: &mut Vec<Event>) {
        let (Some(tags), Some(table)) = (&mut self.tags, bound.tags()) else { return };
        if !(is_prompt && tags.is_opened()) {
            let items = tags.finish(table, false);
            self.read_whole(bound, items, out);
        }
    }

    fn read_items(&mut self, bound: &Bound, items: Vec<HeldItem>, out: &mut Vec<Event>) {
        if self.tags.is_none() {
            return self.read_whole(bound, items, out);
        }
        for item in items {
            match item {
                // A tag has a token, which text alone has not.
                HeldItem::Text { text, first, .. }
                    if self.output.by_text
                        && !self.tags.as_ref().is_some_and(|t| t.is_opened()) =>
                {
                    self.read_characters(bound, &text, first, out);
                }
                HeldItem::Text { text, first, at } => {
                    self.read_text(bound, Piece { text: &text, first, at }, out);
                }
                item => self.read_token(bound, item, out),
            }
        }
    }

    /// Reads items in which tags were looked for.
    fn read_whole(&mut self, bound: &Bound, items: Vec<HeldItem>, out: &mut Vec<Event>) {
        for item in items {
            match item {
                HeldItem::Text { text, first, .. } if self.output.by_text => {
                    self.read_characters(bound, &text, first, out);
                }
                item => self.reader(bound, out).input(item),
            }
        }
    }

    /// Reads text whose characters have positions of their own.
    fn read_characters(&mut self, bound: &Bound, text: &str, first: u32, out: &mut Vec<Event>) {
        let (mut rest, mut at) = (text, first);
        while !rest.is_empty() {
            // The fast path emits text that does nothing else.
            let cut = rest.char_indices().nth(STRETCH).map_or(rest.len(), |(byte, _)| byte);
            let (head, tail) = rest.split_at(cut);
            let end = at.saturating_add(head.chars().count() as u32);
            if let Some(part) = self.machine.pass(bound, &mut self.output, head) {
                let tokens = self.output.cover(Some(at), end.saturating_sub(1));
                Event::append_text(out, part, head.into(), tokens);
            } else {
                let mut reader = self.reader(bound, out);
                let mut buffer = [0; 4];
                for (character, at) in head.chars().zip(at..end) {
                    let text = &*character.encode_utf8(&mut buffer);
                    reader.text(Piece { text, first: at, at });
                }
            }
            (rest, at) = (tail, end);
        }
    }

    fn reader<'a>(&'a mut self, bound: &'a Bound, out: &'a mut Vec<Event>) -> Reader<'a> {
        Reader::new(bound, &mut self.machine, &mut self.output, out)
    }

    /// Reads an id that emits its text and does nothing else: the part, the text and the positions.
    #[inline]
    fn pass<'c>(&mut self, bound: &'c Bound, id: TokenId) -> Option<(Part, &'c str, Range<u32>)> {
        let text = self.plain_text(bound, id)?;
        let part = self.machine.pass(bound, &mut self.output, text)?;
        let at = self.next_position();
        self.has_begun = false;
        Some((part, text, self.output.cover(Some(at), at)))
    }

    /// The text of an id that is neither searched for spellings nor held as a part of a tag or a character.
    fn plain_text<'c>(&self, bound: &'c Bound, id: TokenId) -> Option<&'c str> {
        let text = bound.vocab().whole_texts().get(id)?;
        let is_searched = self.search.as_ref().is_some_and(|s| !s.passes(bound, text));
        let is_held =
            self.tags.as_ref().zip(bound.tags()).is_some_and(|(t, all)| !t.passes(all, text));
        let is_plain = !is_searched && !is_held && self.decoder.is_between();
        is_plain.then_some(text)
    }

    /// Reads the ids at the beginning that emit text of a turn or a call, and do nothing else.
    fn pass_run(&mut self, bound: &Bound, ids: &[TokenId]) -> Option<Run> {
        let is_held = self.search.as_ref().is_some_and(|search| !search.is_empty());
        if is_held || !self.decoder.is_between() {
            return None;
        }
        if self.tags.as_ref().is_some_and(|tags| !tags.is_idle()) {
            return None;
        }
        let (texts, tags) = (bound.vocab().whole_texts(), bound.tags());
        let spellings = self.search.as_ref().map(|search| search.spellings(bound));
        let is_plain = |text: &&str| {
            spellings.is_none_or(|spellings| spellings.lacks(text))
                && tags.is_none_or(|tags| !tags.may_begin(text))
        };
        let text_of = |id| texts.get(id).filter(is_plain);
        let first = self.index;
        let run = self.machine.pass_run(bound, &mut self.output, ids, text_of, first)?;
        (self.has_begun, self.index) = (false, first.saturating_add(run.count));
        Some(run)
    }

    fn push_text(&mut self, bound: &Bound, text: &str, out: &mut Vec<Event>) {
        if text.is_empty() {
            return;
        }
        let first = self.index;
        self.end_character(bound, first, out);
        let last = if self.output.by_text {
            first.saturating_add(text.chars().count() as u32).saturating_sub(1)
        } else {
            first
        };
        self.index = last.saturating_add(1);
        if !self.output.by_text {
            return self.read_piece(bound, Piece { text, first, at: last }, out);
        }
        match &self.search {
            Some(search) if !search.passes(bound, text) => {
                self.read_piece(bound, Piece { text, first, at: last }, out);
            }
            _ if self.tags.as_ref().is_some_and(|tags| !tags.is_idle()) => {
                self.read_text(bound, Piece { text, first, at: last }, out);
            }
            _ => self.read_characters(bound, text, first, out),
        }
    }

    fn step(&mut self, bound: &Bound, id: TokenId, out: &mut Vec<Event>) {
        let at = self.next_position();
        let item = match bound.vocab().token(id) {
            Some((kind @ (TokenKind::Text | TokenKind::Byte), bytes)) => {
                let first = if self.has_begun { self.begun } else { at };
                let text = self.decoder.push(kind, bytes);
                // An id without text of its own goes with the text that comes next.
                self.begun = if text.is_empty() { first } else { at };
                self.has_begun = text.is_empty() || self.decoder.is_pending();
                if !text.is_empty() {
                    self.read_piece(bound, Piece { text: &text, first, at }, out);
                }
                return;
            }
            Some((TokenKind::Control, _)) => HeldItem::Control { id, first: at, at, spelled: None },
            _ => HeldItem::Unknown { text: id.to_string(), at },
        };
        self.end_text(bound, at, out);
        if matches!(item, HeldItem::Control { .. }) {
            self.decoder.begin_text();
        }
        self.read_token(bound, item, out);
    }
}

impl Stream {
    /// A stream that continues the prompt of `state`.
    pub(crate) fn after(bound: &Arc<Bound>, mut state: State) -> Self {
        state.machine.call_bare(bound.format().bare_calls(), true);
        Self::new(bound, state)
    }

    /// A stream at the beginning of a conversation.
    pub(crate) fn at_start(bound: &Arc<Bound>) -> Self {
        Self::new(bound, State::at_start(bound))
    }

    fn new(bound: &Arc<Bound>, state: State) -> Self {
        Self { bound: bound.clone(), state, kept: None, response: None }
    }

    /// Reads by a response template, in place of the format.
    pub(crate) fn responding(mut self, bound: &Arc<BoundResponse>, prompt: &[TokenId]) -> Self {
        self.response = Some(Box::new(ResponseState::new(bound, prompt)));
        self
    }

    /// Also collects the message, for [`Stream::message`].
    #[must_use]
    pub fn keeping(mut self) -> Self {
        self.kept = Some(Box::default());
        self
    }

    /// Sets which input is a control token, from here on. In the prompt, only ids are.
    ///
    /// With [`MarkerPolicy::Text`] the stream reads text, by [`Stream::push_text`], and the positions of its
    /// events are in characters. An id counts as one position.
    #[must_use]
    pub fn reading(mut self, policy: MarkerPolicy) -> Self {
        self.state.read_by(&self.bound, policy);
        self
    }

    /// Reads arguments that are written without quotes by the types in the schemas of these tools.
    #[must_use]
    pub fn typed(mut self, types: &ToolTypes) -> Self {
        self.state.machine.read_by(types);
        if let Some(response) = &mut self.response {
            response.typed(types);
        }
        self
    }

    /// Sets the types of arguments and the meaning of calls in reasoning as another stream has them.
    #[must_use]
    pub(crate) fn configured_as(mut self, other: &Self) -> Self {
        if let Some(types) = other.state.machine.types() {
            self = self.typed(types);
        }
        self.calling_in_reasoning(other.state.machine.settings.in_reasoning)
    }

    /// Sets how many steps the stream takes; it reads nothing after them. For formats that no proof stands behind.
    #[must_use]
    pub(crate) fn with_fuel(mut self, steps: u32) -> Self {
        self.state.machine.fuel = NonZeroU32::new(steps.saturating_add(1));
        self
    }

    /// Sets the meaning of a call within reasoning, in place of the format's. The prompt is read by the format's.
    #[must_use]
    pub fn calling_in_reasoning(mut self, in_reasoning: InReasoning) -> Self {
        self.state.machine.settings.in_reasoning = in_reasoning;
        self
    }

    /// Sets where an unmarked call may begin. Only functions of the tools of [`Stream::typed`] are called in this
    /// way; without tools an unmarked call is text.
    #[must_use]
    pub fn calling_bare(mut self, bare: BareCalls) -> Self {
        self.state.machine.call_bare(bare, false);
        self
    }

    /// The input that is a control token.
    pub fn policy(&self) -> MarkerPolicy {
        self.state.search.as_ref().map_or(MarkerPolicy::Ids, |search| search.policy())
    }

    /// Reads one id and appends its events to `out`, where neighbouring texts are joined.
    pub fn push(&mut self, id: TokenId, out: &mut Vec<Event>) {
        self.push_all(&[id], out);
    }

    /// Reads ids and appends their events to `out`.
    pub fn push_all(&mut self, ids: &[TokenId], out: &mut Vec<Event>) {
        let mut rest = ids;
        while let Some((&id, after)) = rest.split_first() {
            let count = self.push_run(rest, out);
            rest = &rest[count..];
            if count > 0 {
                continue;
            }
            if let Some((part, text, tokens)) = self.pass(id) {
                Event::append_text(out, part, text.into(), tokens);
            } else {
                self.push_slowly(id, out);
            }
            rest = after;
        }
    }

    /// Reads an id that [`Stream::push_plain`] does not read, and appends its events to `out`.
    pub fn push_other(&mut self, id: TokenId, out: &mut Vec<Event>) {
        if self.push_run(&[id], out) == 0 {
            self.push_slowly(id, out);
        }
    }

    /// Reads an id without any fast path, and appends its events to `out`: the law that the fast paths are compared with.
    #[doc(hidden)]
    pub fn push_slowly(&mut self, id: TokenId, out: &mut Vec<Event>) {
        if self.responds(out, |response, out| response.push(id, out)) {
            return;
        }
        self.emitting(out, |state, bound, out| state.step(bound, id, out));
    }

    /// Reads text and appends its events to `out`, for a stream of [`MarkerPolicy::Text`]. The split of text into
    /// pushes does not change the events, except that neighbouring texts may be joined. In a stream of another
    /// policy, the text is one position.
    pub fn push_text(&mut self, text: &str, out: &mut Vec<Event>) {
        self.emitting(out, |state, bound, out| state.push_text(bound, text, out));
    }

    /// Reads an id that emits its text and does nothing else. For any other id, reads nothing and returns `None`:
    /// [`Stream::push_other`] reads the id. Allocates nothing, unless the stream keeps its message.
    pub fn push_plain(&mut self, id: TokenId) -> Option<Plain> {
        self.pass(id).map(|(part, _, tokens)| Plain { id, part, tokens })
    }

    #[inline]
    fn pass(&mut self, id: TokenId) -> Option<(Part, &str, Range<u32>)> {
        if self.response.is_some() {
            return None;
        }
        let passed = self.state.pass(&self.bound, id)?;
        if let Some(kept) = &mut self.kept {
            kept.push_text(passed.0, passed.1);
        }
        Some(passed)
    }

    /// Reads the ids at the beginning that emit text and do nothing else, and appends their events. Returns how many.
    fn push_run(&mut self, ids: &[TokenId], out: &mut Vec<Event>) -> usize {
        if self.response.is_some() {
            return 0;
        }
        let Some(run) = self.state.pass_run(&self.bound, ids) else { return 0 };
        let Run { count, part, text, tokens } = run;
        if !text.is_empty() {
            if let Some(kept) = &mut self.kept {
                kept.push_text(part, &text);
            }
            Event::append_text(out, part, text.into(), tokens);
        }
        count as usize
    }

    /// Reads a number that is outside the range of ids.
    pub fn push_unknown(&mut self, id: String, out: &mut Vec<Event>) {
        if self.response.is_some() {
            self.responds(out, |response, out| response.push_unknown(id, out));
            return;
        }
        self.emitting(out, |state, bound, out| {
            let at = state.next_position();
            state.end_text(bound, at, out);
            state.read_token(bound, HeldItem::Unknown { text: id, at }, out);
        });
    }

    /// Ends the stream: closes the open call and turn, and emits the text that is held back.
    ///
    /// [`TurnReason::Stop`] in a turn with a call becomes [`TurnReason::Action`].
    ///
    /// With another reason, the answer was cut before its stop id, so white space at its end is text. With
    /// [`TurnReason::Stop`], text that the format writes before the stop id is the format's, as an engine may have
    /// removed the id alone.
    pub fn finish(&mut self, reason: TurnReason, out: &mut Vec<Event>) {
        self.end(reason, false, out);
    }

    /// Reads the beginning of a tag that is held back, after the last input: a token that closes a turn may begin a tag.
    pub(crate) fn settle_tags(&mut self, out: &mut Vec<Event>) {
        if self.state.tags.as_ref().is_some_and(|tags| tags.is_opened()) {
            self.emitting(out, |state, bound, out| {
                state.end_text(bound, state.index, out);
                state.end_tags(bound, false, out);
            });
        }
    }

    /// Ends a stream of a whole conversation, whose last turn may be left open.
    pub(crate) fn finish_conversation(&mut self, out: &mut Vec<Event>) {
        self.end(TurnReason::Stop, true, out);
    }

    fn end(&mut self, reason: TurnReason, is_open: bool, out: &mut Vec<Event>) {
        if self.responds(out, |response, out| response.finish(reason, out)) {
            return;
        }
        self.emitting(out, |state, bound, out| {
            let index = state.index;
            state.end_text(bound, index, out);
            state.end_tags(bound, false, out);
            state.reader(bound, out).finish(reason, index, is_open);
        });
    }

    /// The message of the first turn so far; an empty message if the stream does not keep it.
    pub fn message(&self) -> Message {
        let kept = self.kept.clone().map(|kept| kept.into_messages());
        let first = kept.and_then(|messages| messages.into_iter().next());
        let mut message = first.unwrap_or_else(|| Message::new(Role::Assistant, ""));
        message.number_calls();
        message
    }

    /// Whether a result has ended, and the message after it begins without a header.
    pub(crate) fn is_answered(&self) -> bool {
        self.state.machine.is_answered()
    }

    /// The number of ids read.
    pub fn position(&self) -> usize {
        match &self.response {
            Some(response) => response.position(),
            None => (self.state.index - FIRST) as usize,
        }
    }

    pub(crate) fn bound(&self) -> &Arc<Bound> {
        &self.bound
    }

    /// The vocabulary of its ids.
    pub fn vocab(&self) -> &Vocab {
        self.bound.vocab()
    }

    /// Whether the stream keeps its message.
    pub fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// Whether a response template reads; then it does `work`.
    fn responds(
        &mut self,
        out: &mut Vec<Event>,
        work: impl FnOnce(&mut ResponseState, &mut Vec<Event>),
    ) -> bool {
        let Some(response) = &mut self.response else { return false };
        let mut events = Vec::new();
        work(response, &mut events);
        for event in events {
            if let Some(kept) = &mut self.kept {
                kept.push(&event.kind);
            }
            event.push_to(out);
        }
        true
    }

    /// Does `work`, and collects its events if the stream keeps its message.
    fn emitting(
        &mut self,
        out: &mut Vec<Event>,
        work: impl FnOnce(&mut State, &Bound, &mut Vec<Event>),
    ) {
        let resumed = self.state.output.take_resumed();
        let Some(kept) = &mut self.kept else {
            out.extend(resumed);
            return work(&mut self.state, &self.bound, out);
        };
        let mut events: Vec<Event> = resumed.into_iter().collect();
        work(&mut self.state, &self.bound, &mut events);
        for event in events {
            kept.push(&event.kind);
            event.push_to(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Stream;

    #[test]
    fn a_stream_is_small() {
        assert!(size_of::<Stream>() <= 264, "{} bytes", size_of::<Stream>());
    }
}
