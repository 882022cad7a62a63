//! A completion as a message, and the places at which the following ids may join it.

use std::ops::Range;

use super::{ANSWER, End, turn_end, unlinked};
use crate::codec::{Codec, collect};
use crate::encode::Encoding;
use crate::error::{Error, Result};
use crate::event::{ActionKind, Event, EventKind, NoticeKind, TurnReason};
use crate::format::Guarantee;
use crate::message::{Message, Role};
use crate::render::Rendered;
use crate::span::{Source, SourceField, Span, SpanKind};
use crate::stream::Stream;
use chatcodec_vocab::{TokenId, TokenKind};

pub(super) fn is_end(event: &Event) -> bool {
    matches!(event.kind, EventKind::TurnEnd { .. })
}

fn is_malformed(event: &Event) -> bool {
    matches!(event.kind, EventKind::Notice { kind: NoticeKind::Malformed, .. })
}

fn is_notice(event: &Event) -> bool {
    matches!(event.kind, EventKind::Notice { .. })
}

/// An id that errors show: with its spelling, if it is control.
pub(super) fn shown(codec: &Codec, id: TokenId) -> String {
    match codec.vocab().token(id) {
        Some((TokenKind::Control, _)) => format!(" ({id}, `{}`)", codec.vocab().spelling(id)),
        _ => format!(" ({id})"),
    }
}

/// The error for an event that no completion of the format has, with its first id.
fn wrong_at(codec: &Codec, event: &Event, base: u32, completion: &[TokenId]) -> Error {
    let name = codec.format().name();
    let what = match &event.kind {
        EventKind::Notice { kind, .. } => kind.name(),
        _ => "another turn",
    };
    let at = event.tokens.start.saturating_sub(base) as usize;
    let id = completion.get(at).map_or_else(String::new, |&id| shown(codec, id));
    let problem = format!("is not what format `{name}` writes: `{what}` at id {at}{id}");
    Error::message("completion", problem)
}

/// End of a completion's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Not,
    ByControl,
    /// The opener of the next turn.
    ByOpener,
    ByText,
}

/// A place in the rendered text at which an answer may be joined.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seam {
    pub(super) at: usize,
    /// Whether the answer equals the format's spelling up to this place.
    pub(super) is_own: bool,
}

/// Context in which a completion is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// The conversation that contains the completion.
    Conversation,
    /// A prompt; the completion may leave out the rest of the header.
    Prompt,
}

/// A completion that was read.
pub(super) struct Answer {
    pub(super) message: Message,
    pub(super) ended: Ended,
    /// Whether the whole conversation reads differently from the completion alone.
    pub(super) is_read_otherwise: bool,
    /// Whether its end reads as another turn if nothing of that turn follows.
    pub(super) opens_another: bool,
    /// Whether it ends within a call that lacks only its end.
    within_call: bool,
    /// Its events, with positions of ids from `base` on.
    events: Vec<Event>,
    base: u32,
    /// Number of events emitted before the end of the completion.
    pushed: usize,
    /// Number of events of the previous turn before its own events.
    before: usize,
    /// Its end.
    stream: Stream,
    /// Number of its ids up to the end of its turn, and the last of these.
    ids: usize,
    last: Option<TokenId>,
    /// The text after the end of its turn.
    rest: String,
    rest_ids: usize,
}

impl Answer {
    pub(super) fn read(codec: &Codec, prompt: &Encoding, completion: &[TokenId]) -> Result<Self> {
        if prompt.trail().answers_result(codec.grammar()) {
            // The turn begins with the completion in any case.
            return Self::read_after(codec, prompt, completion, After::Prompt);
        }
        let read = Self::read_after(codec, prompt, completion, After::Conversation);
        if prompt.trail().end != End::Prompted {
            return read;
        }
        let stands_for_all = stands_for_all(codec, prompt);
        let told = codec.parse(completion, (!stands_for_all).then_some(prompt.ids())).message;
        let is_same = |read: &Self| unlinked(told.clone()) == unlinked(read.message.clone());
        if read.as_ref().is_ok_and(is_same) || codec.generation_prompt().is_empty() {
            return read;
        }
        let alone = Self::read_after(codec, prompt, completion, After::Prompt);
        match (read, alone) {
            (_, Ok(alone)) => Ok(Self { is_read_otherwise: true, ..alone }),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    fn read_after(
        codec: &Codec,
        prompt: &Encoding,
        completion: &[TokenId],
        after: After,
    ) -> Result<Self> {
        let mut events = Vec::new();
        let mut stream = match after {
            After::Prompt => codec.stream(Some(prompt.ids())),
            After::Conversation => codec.read_stream(),
        };
        if after == After::Conversation {
            let before = if stands_for_all(codec, prompt) { codec.prompt() } else { prompt.ids() };
            stream.push_all(before, &mut events);
        }
        let (base, asked) = (stream.position() as u32, events.len());
        stream.push_all(completion, &mut events);
        let mut pushed = events.len();
        // The last text must not be joined to earlier text.
        let mut last = Vec::new();
        stream.clone().finish(TurnReason::Stop, &mut last);
        events.append(&mut last);
        let begun = match after {
            After::Prompt => asked,
            After::Conversation => begin_of(codec, &events, asked..pushed, base, completion)?,
        };
        events.drain(..begun);
        let before = begun.saturating_sub(pushed);
        pushed = pushed.saturating_sub(begun);
        let end = events.iter().position(is_end);
        let length = completion.len();
        let ids_to =
            |end: usize| (events[end].tokens.end.saturating_sub(base) as usize).min(length);
        let is_start = |event: &Event| matches!(event.kind, EventKind::TurnStart { .. });
        let opens_another =
            end.is_some_and(|end| end >= pushed && events[end + 1..].iter().any(is_start));
        // While a header may go on, an end is told late: ids may follow it.
        let is_late = |end: usize| ids_to(end) < length && !opens_another;
        let is_ended = end.is_some_and(|end| end < pushed || is_late(end));
        let ids = end.filter(|_| is_ended).map_or(length, ids_to);
        let last = completion[..ids].last().copied();
        let is_control = last.is_some_and(|last| codec.vocab().is_control(last));
        let ended = match last {
            _ if !is_ended => Ended::Not,
            Some(last) if is_control && codec.grammar().opens_turn(last) => Ended::ByOpener,
            _ if is_control => Ended::ByControl,
            _ => Ended::ByText,
        };
        let rest = rest_of(codec, completion, ids, ended)?;
        events.truncate(end.map_or(events.len(), |end| end + 1));
        pushed = pushed.min(events.len());
        let mut within_call = false;
        let mut is_rejected = false;
        for (nth, event) in events.iter().enumerate() {
            match &event.kind {
                EventKind::ActionEnd { .. } => within_call |= nth >= pushed,
                EventKind::Notice { kind: NoticeKind::Malformed, .. } => is_rejected = true,
                // After an incomplete call, only its end may follow.
                EventKind::Notice { kind: NoticeKind::UnexpectedControl, .. } if is_rejected => {}
                // The last tokens may be the beginning of a tag that was cut.
                EventKind::Notice { kind: NoticeKind::UnexpectedControl, .. }
                    if nth >= pushed && !is_ended => {}
                // A token without a meaning at its place cannot stay.
                EventKind::Notice {
                    kind: NoticeKind::UnexpectedControl | NoticeKind::UnknownId,
                    ..
                } => return Err(wrong_at(codec, event, base, completion)),
                _ => {}
            }
        }
        let message = collect(&events).into_iter().next();
        let mut message = message.unwrap_or_else(|| Message::new(Role::Assistant, ""));
        if !codec.format().writes_ids() {
            message.number_calls();
        }
        let rest_ids = completion.len() - ids;
        Ok(Self {
            message,
            ended,
            is_read_otherwise: false,
            opens_another,
            within_call,
            before,
            events,
            base,
            pushed,
            stream,
            ids,
            last,
            rest,
            rest_ids,
        })
    }

    /// Number of given ids of the completion: all, except a last one that opens the next turn.
    pub(super) fn given(&self, is_followed: bool) -> usize {
        self.ids + self.rest_ids - usize::from(self.ended == Ended::ByOpener && is_followed)
    }

    /// The reason why nothing can follow it.
    pub(super) fn refused(&self, codec: &Codec, completion: &[TokenId]) -> Error {
        if let Some(&first) = completion.get(self.ids) {
            return goes_on(codec, self.ids, first);
        }
        let (name, at) = (codec.format().name(), self.ids.saturating_sub(1));
        let id = self.last.map_or_else(String::new, |id| shown(codec, id));
        let problem = if self.ended == Ended::ByOpener {
            format!(
                "ends with the id that opens another turn than that of the new messages: id {at}{id}"
            )
        } else {
            format!("is read as another message in format `{name}` with what follows id {at}{id}")
        };
        Error::message("completion", problem)
    }

    /// The source of each of its first ids, as message `index`.
    pub(super) fn sources(&self, ids: usize, index: i32) -> Vec<Source> {
        sources_of(&self.events, self.base, ids, index)
    }

    /// The places in the rendered text that may follow an answer with the text `said`, which begins
    /// at `start`.
    pub(super) fn seams(&self, rendered: &Rendered, start: usize, said: &str) -> Vec<Seam> {
        let Some(turn) = rendered.generated.first() else { return Vec::new() };
        let next = turn_end(rendered, start);
        let mut seams: Vec<Seam> = Vec::new();
        let mut add = |at: usize, is_own: bool| {
            if seams.iter().all(|seam| seam.at != at) {
                seams.push(Seam { at, is_own });
            }
        };
        match self.ended {
            Ended::ByControl => {
                let end = turn.end.min(next);
                if is_literal(rendered, end, &self.rest) {
                    add(end + self.rest.len(), self.rest.is_empty());
                }
                return seams;
            }
            Ended::ByOpener => {
                add(next, true);
                return seams;
            }
            Ended::Not | Ended::ByText => {}
        }
        // The answer may be a part of the format's own text; the rest is added.
        let generated = &rendered.text[start..next.max(start)];
        if generated.starts_with(said) {
            add(start + said.len(), true);
        }
        let control = |span: &&Span| matches!(span.kind, SpanKind::Control(_));
        if self.ended == Ended::Not && !self.within_call {
            let is_closer = |span: &&Span| span.text.end == turn.end && control(span);
            let closer = rendered.spans.iter().find(is_closer).filter(|_| turn.end <= next);
            // A message of several turns continues until another message begins, so it may have its
            // closing token.
            let is_last = |span: &&Span| matches!(span.kind, SpanKind::Control(id) if Some(id.get()) == self.last);
            if closer.is_some_and(|closer| is_last(&closer)) {
                add(turn.end, true);
            }
            add(closer.map_or(next, |closer| closer.text.start), true);
        }
        // The end of its calls may be missing.
        let is_slot = |span: &&Span| matches!(span.kind, SpanKind::Slot { .. });
        let within = |span: &&Span| (start..next).contains(&span.text.start);
        let slot = rendered.spans.iter().filter(within).rfind(is_slot);
        let from = slot.map_or(start, |slot| slot.text.end);
        for span in rendered.spans.iter().filter(within).filter(control) {
            if span.text.start >= from {
                add(span.text.start, false);
            }
        }
        add(turn.end.min(next), false);
        add(next, false);
        seams
    }

    /// The message with these ids after it, up to the end of its turn.
    pub(super) fn events_with(&self, tail: &[TokenId]) -> Vec<Event> {
        let mut events = self.events[..self.pushed].to_vec();
        let mut stream = self.stream.clone();
        let is_over = |events: &[Event]| events.iter().skip(self.before).any(is_end);
        for &id in tail {
            if is_over(&events) {
                break;
            }
            stream.push(id, &mut events);
        }
        if !is_over(&events) {
            stream.finish(TurnReason::Stop, &mut events);
        }
        events.drain(..self.before.min(events.len()));
        let end = events.iter().position(is_end).map_or(events.len(), |end| end + 1);
        events.truncate(end);
        events
    }

    /// Whether the answer with these ids after the first `given` is the canonical message without a notice; or
    /// else the same message as before without a new notice.
    pub(super) fn is_ended_by(
        &self,
        tail: &[TokenId],
        canonical: Option<&Message>,
        given: usize,
    ) -> bool {
        let mut tail = tail;
        if self.ended == Ended::ByOpener && given < self.ids {
            let Some((first, rest)) = tail.split_first() else { return false };
            if Some(*first) != self.last {
                return false;
            }
            tail = rest;
        }
        let events = self.events_with(tail);
        let odd = |events: &[Event]| events.iter().filter(|event| is_notice(event)).count();
        let allowed = if canonical.is_some() { 0 } else { odd(&self.events) };
        if odd(&events) > allowed {
            return false;
        }
        let read = collect(&events).into_iter().next();
        let read = read.unwrap_or_else(|| Message::new(Role::Assistant, ""));
        unlinked(read) == unlinked(canonical.unwrap_or(&self.message).clone())
    }

    /// Position of an event among the completion's ids.
    pub(super) fn place(&self, event: &Event) -> std::ops::Range<usize> {
        let place = |at: u32| (at.saturating_sub(self.base) as usize).min(self.ids);
        place(event.tokens.start)..place(event.tokens.end)
    }
}

/// Whether a prompt that ends with the generation prompt can replace this one.
fn stands_for_all(codec: &Codec, prompt: &Encoding) -> bool {
    // Calls after the previous message's calls may be read as part of that message.
    let follows_own = prompt.trail().roles.last() == Some(&Role::Assistant);
    prompt.trail().end == End::Prompted
        && codec.format().guarantee() == Guarantee::Ids
        && !follows_own
        && prompt.ids().ends_with(codec.generation_prompt())
}

/// The first event of the answer. Its turn begins before the completion or with it, and no other event
/// comes between. `pushed` are the events of its ids.
fn begin_of(
    codec: &Codec,
    events: &[Event],
    pushed: Range<usize>,
    base: u32,
    completion: &[TokenId],
) -> Result<usize> {
    let asked = pushed.start;
    let is_start =
        |event: &Event| matches!(event.kind, EventKind::TurnStart { role: Role::Assistant, .. });
    let is_before = |event: &Event| is_start(event) && event.tokens.start < base;
    let begun = events.iter().rposition(is_before);
    // Unless the turn has ended before.
    let begun = begun.filter(|&at| !events[at.min(asked)..asked].iter().any(is_end));
    // A turn that begins without a prompt.
    let begun = begun.or_else(|| Some(asked + events[asked..].iter().position(is_start)?));
    let Some(begun) = begun else {
        // The answer is empty, or became part of the previous turn.
        return match events[asked..].iter().find(|event| !is_end(event)) {
            // A call that was cut in its head is all that was said.
            Some(said) if is_malformed(said) && pushed.is_empty() => Ok(asked),
            Some(said) => Err(wrong_at(codec, said, base, completion)),
            None => Ok(events.len()),
        };
    };
    // Before an answer that opens its own turn, only the end of the previous turn may come.
    match events[asked.min(begun)..begun].iter().find(|event| !is_end(event)) {
        Some(stray) if is_malformed(stray) && pushed.is_empty() => Ok(asked),
        Some(stray) => Err(wrong_at(codec, stray, base, completion)),
        None => Ok(begun),
    }
}

/// The text after the end of a turn, as far as it is the format's text between turns.
fn rest_of(codec: &Codec, completion: &[TokenId], ids: usize, ended: Ended) -> Result<String> {
    let rest = &completion[ids..];
    let Some(&first) = rest.first() else { return Ok(String::new()) };
    let is_text = |&id: &TokenId| {
        matches!(codec.vocab().token(id), Some((TokenKind::Text | TokenKind::Byte, _)))
    };
    let bytes = rest.iter().all(is_text).then(|| codec.vocab().decode_bytes(rest).ok()).flatten();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.filter(|_| ended == Ended::ByControl).ok_or_else(|| goes_on(codec, ids, first))
}

/// What each of the first ids from `base` on is of, as message `index`.
pub(super) fn sources_of(events: &[Event], base: u32, ids: usize, index: i32) -> Vec<Source> {
    let source = |field| Source { message: index, field };
    let mut sources = vec![source(SourceField::Scaffold); ids];
    let mut kind = ActionKind::Function;
    for event in events {
        let field = match &event.kind {
            EventKind::ActionStart { kind: of, .. } => {
                kind = *of;
                continue;
            }
            EventKind::Text(_) => SourceField::Content,
            EventKind::Reasoning(_) => SourceField::Reasoning,
            EventKind::ActionDelta { index, .. } if kind == ActionKind::Code => {
                SourceField::Code(*index)
            }
            EventKind::ActionDelta { index, .. } => SourceField::Arguments(*index),
            _ => continue,
        };
        let place = |at: u32| (at.saturating_sub(base) as usize).min(ids);
        sources[place(event.tokens.start)..place(event.tokens.end)].fill(source(field));
    }
    sources
}

fn goes_on(codec: &Codec, ids: usize, first: TokenId) -> Error {
    let id = shown(codec, first);
    let problem =
        format!("goes on after its turn has ended: id {ids}{id}, expected its first {ids} ids");
    Error::message("completion", problem)
}

/// Whether the rendered text continues with `text` at `start`, in whole literals of the format. A literal that
/// spells a control token is not that token.
pub(super) fn is_literal(rendered: &Rendered, start: usize, text: &str) -> bool {
    let end = start + text.len();
    let is_within = |span: &&Span| start < span.text.end && span.text.start < end;
    let mut spans = rendered.spans.iter().filter(is_within);
    rendered.text[start..].starts_with(text)
        && spans.all(|span| {
            matches!(span.kind, SpanKind::Literal | SpanKind::Taken) && span.text.end <= end
        })
}

/// Whether the rendered answer has its reasoning.
pub(super) fn has_reasoning_in(rendered: &Rendered) -> bool {
    let reasoning = Source { message: ANSWER, field: SourceField::Reasoning };
    rendered.spans.iter().any(|span| span.source == reasoning && !span.text.is_empty())
}
