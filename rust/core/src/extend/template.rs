//! Extension in a codec of a template: what the template writes after the answer.
//!
//! In: a prompt that knows its messages, the ids of the completion, new messages as the caller gave them. Out: the
//! given ids, and what the template writes of the whole conversation from the end of the answer on. Cost: two
//! renderings of the whole conversation at most, because a template may write any part otherwise once others follow.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use super::OnReasoning;
use super::answer::{is_literal, shown, sources_of};
use super::notes::{SHOWN, apart, irregularity};
use crate::codec::{Codec, collect};
use crate::conversation::{OnUnsupported, Values};
use crate::encode::{
    self, EncodeOptions, Encoding, End, Given, Note, NoteKind, TemplateGiven, Trail, slots_of,
};
use crate::error::{Error, Result};
use crate::event::{Event, EventKind, TurnReason};
use crate::message::{CallBody, Message, Owned, Role, call_id};
use crate::render::Rendered;
use crate::schema::ToolTypes;
use crate::span::{SourceField, Span, SpanKind};
use crate::templated::{self, TemplateWriter, Templated};
use chatcodec_vocab::{Spelling, TokenId, TokenKind, excerpt};

impl Codec {
    /// [`Codec::extend`] by the template: `new` are the messages after the answer.
    pub(super) fn extend_values(
        &self,
        writer: &TemplateWriter,
        prompt: &Encoding,
        completion: &[TokenId],
        new: &Owned,
        options: &EncodeOptions,
        on_reasoning: OnReasoning,
    ) -> Result<Encoding> {
        let given = match &prompt.trail().given {
            Some(given) => given.clone(),
            None => Arc::new(self.given_by_ids(prompt)),
        };
        let index = prompt.trail().answer_index();
        let options = options_of(&given, options);
        let answer = Answer::read(self, prompt, completion, new)?;
        let after = |error: Error| moved(error, index);
        // What the answer says decides little of what follows it: calls without arguments, or a plain text, may stand
        // for it.
        let mut refused = None;
        let text = Message::new(Role::Assistant, "x");
        let stand_ins = without_arguments(&answer.message).into_iter().chain([text]);
        for stands in iter::once(None).chain(stand_ins.map(Some)) {
            let message = stands.as_ref().unwrap_or(&answer.message);
            let values = whole(&given.values, prompt, message, new);
            let written = writer.write(&values, self.vocab(), &options).and_then(|written| {
                // The answer is the model's: its tokens stay, whatever the template writes of it.
                let next = usize::try_from(index + 1).unwrap_or_default();
                templated::check_placed(&written.dropped, next, options.on_unsupported)?;
                Ok(written)
            });
            let written = match written {
                Ok(written) => written,
                Err(error) => {
                    refused.get_or_insert(after(error));
                    continue;
                }
            };
            let Some(turn) = Turn::of(&written.rendered, index, prompt) else { continue };
            if (options.on_unsupported == OnUnsupported::Error || stands.is_some())
                && let Some(nth) = unwritten(&written.rendered, &values, new)
            {
                let problem = "is not in what the template writes after the answer";
                let path = format!("new_messages[{nth}]");
                refused.get_or_insert(Error::message(path, problem));
                continue;
            }
            let next = Next { codec: self, prompt, completion, answer: &answer, turn, index };
            let mut extended = next.joined(&written, &options, on_reasoning)?;
            let values = match stands {
                None => values,
                Some(_) => whole(&given.values, prompt, &answer.message, new),
            };
            let mut template = options.template.clone();
            template.clock = template.clock.or(given.options.clock);
            let given = TemplateGiven { values, options: template, date: options.date.clone() };
            extended.set_trail(Trail { given: Some(Arc::new(given)), ..written.trail });
            return Ok(extended);
        }
        let problem = "is not in what the template writes of the conversation";
        Err(refused.unwrap_or_else(|| Error::message("completion", problem)))
    }

    /// The messages of a prompt that was given as ids, as the format reads them.
    fn given_by_ids(&self, prompt: &Encoding) -> TemplateGiven {
        let messages = self.decode(prompt.ids());
        let messages = Owned::List(messages.iter().map(Owned::of_message).collect());
        TemplateGiven { values: Values { messages, tools: None }, ..TemplateGiven::default() }
    }
}

/// A message with calls of whose arguments nothing is said; `None` for a message without calls.
fn without_arguments(message: &Message) -> Option<Message> {
    let mut message = message.clone();
    for call in &mut message.calls {
        if let CallBody::Function { arguments, .. } = &mut call.body {
            "{}".clone_into(arguments);
        }
    }
    Some(message).filter(|message| !message.calls.is_empty())
}

/// The first new message with a text of which nothing is written.
fn unwritten(rendered: &Rendered, all: &Values, new: &Owned) -> Option<usize> {
    let (Owned::List(all), Owned::List(new)) = (&all.messages, new) else { return None };
    let first = all.len() - new.len();
    let says = |message: &Owned| {
        let text = message.get("content").and_then(Owned::as_str);
        text.is_some_and(|text| !text.trim().is_empty())
    };
    let is_written = |nth: usize| {
        let at = (first + nth) as i32;
        rendered.spans.iter().any(|span| message_of(rendered, span) == at)
    };
    (0..new.len()).find(|&nth| says(&new[nth]) && !is_written(nth))
}

/// Index of the message that a span's value is in, or else of the message that was being written.
fn message_of(rendered: &Rendered, span: &Span) -> i32 {
    match (span.source.field, &rendered.paths) {
        (SourceField::Path(path), Some(paths)) => paths.message(path),
        _ => span.source.message,
    }
}

/// The prompt's options, but for what is given anew.
fn options_of(given: &TemplateGiven, new: &EncodeOptions) -> EncodeOptions {
    let mut options = new.clone();
    let mut variables = given.options.variables.clone();
    variables.retain(|(name, _)| new.template.variables.iter().all(|(other, _)| other != name));
    variables.append(&mut options.template.variables);
    options.template.variables = variables;
    options.template.clock = given.options.clock.or(new.template.clock);
    options.date.clone_from(&given.date);
    options
}

/// The whole conversation: the prompt's messages, the answer, and the new ones.
fn whole(given: &Values, prompt: &Encoding, answer: &Message, new: &Owned) -> Values {
    let items = |value: &Owned| match value {
        Owned::List(items) => items.clone(),
        _ => Vec::new(),
    };
    let mut messages = items(&given.messages);
    if prompt.trail().end == End::Open
        && let Some(Owned::Map(members)) = messages.last_mut()
    {
        resume(members, answer);
    } else {
        messages.push(Owned::of_message(answer));
    }
    messages.extend(items(new));
    Values { messages: Owned::List(messages), tools: given.tools.clone() }
}

/// A message that was left open, with what a model said after it.
fn resume(members: &mut Vec<(Owned, Owned)>, more: &Message) {
    let Owned::Map(said) = Owned::of_message(more) else { return };
    for (key, value) in said {
        let known = members.iter_mut().find(|(known, _)| *known == key);
        match (known, value) {
            (Some((_, Owned::Text(text))), Owned::Text(more)) if key.as_str() != Some("role") => {
                text.push_str(&more);
            }
            (Some((_, Owned::List(items))), Owned::Text(more)) => {
                let text = |text: &str| Owned::Text(text.into());
                let part = vec![(text("type"), text("text")), (text("text"), Owned::Text(more))];
                items.push(Owned::Map(part));
            }
            (Some((_, known @ Owned::Null)), value) => *known = value,
            (Some(_), _) => {}
            (None, value) => members.push((key, value)),
        }
    }
}

/// An error about the whole conversation, with the path in the caller's arguments.
fn moved(error: Error, index: i32) -> Error {
    error.with_path(|path| {
        let place = path.strip_prefix("messages[").and_then(|rest| rest.split_once(']'));
        match place.map(|(at, rest)| (at.parse::<i32>(), rest)) {
            Some((Ok(at), _)) if at == index => "completion".into(),
            Some((Ok(at), rest)) if at > index => format!("new_messages[{}]{rest}", at - index - 1),
            Some(_) => "prompt".into(),
            None if path == "messages" => "new_messages".into(),
            None => path,
        }
    })
}

/// A completion that was read.
struct Answer {
    message: Message,
    events: Vec<Event>,
    /// Position of its first id in the events.
    base: u32,
    /// How many of its ids are of the turn, and the control token that ends it.
    ids: usize,
    stop: Option<TokenId>,
    /// The text after that.
    rest: String,
    /// Whether all its calls have their ends.
    is_whole: bool,
}

impl Answer {
    fn read(codec: &Codec, prompt: &Encoding, completion: &[TokenId], new: &Owned) -> Result<Self> {
        let vocab = codec.vocab();
        if let Some(at) = completion.iter().position(|&id| vocab.token(id).is_none()) {
            let id = completion[at];
            let problem = format!("has id {at} ({id}), which is none of the vocabulary");
            return Err(Error::message("completion", problem));
        }
        let stops = codec.stop_ids();
        let is_stop = |id: &TokenId| stops.contains(id);
        let stopped = completion.iter().position(is_stop);
        let last = completion.last().copied().filter(|&id| vocab.is_control(id));
        let ids = stopped.map_or(completion.len(), |at| at + 1);
        let rest = &completion[ids..];
        let is_text =
            |&id: &TokenId| matches!(vocab.token(id), Some((TokenKind::Text | TokenKind::Byte, _)));
        let text = rest.iter().all(is_text).then(|| vocab.decode(rest, Spelling::Spell).ok());
        let Some(rest) = text.flatten() else {
            let id = shown(codec, completion[ids]);
            let problem = format!(
                "goes on after its turn has ended: id {ids}{id}, expected its first {ids} ids"
            );
            return Err(Error::message("completion", problem));
        };
        let mut stream = codec.stream(Some(prompt.ids()));
        // A call without a mark is one only of a tool that is declared.
        if let Some(tools) =
            prompt.trail().given.as_ref().and_then(|given| given.values.tools.as_ref())
        {
            stream = stream.typed(&ToolTypes::read(&tools)?);
        }
        let base = stream.position() as u32;
        let mut events = Vec::new();
        stream.push_all(&completion[..ids], &mut events);
        let pushed = events.len();
        stream.finish(TurnReason::Stop, &mut events);
        let is_cut =
            |event: &Event| matches!(event.kind, EventKind::ActionEnd { complete: false, .. });
        let is_ended = |event: &Event| matches!(event.kind, EventKind::ActionEnd { .. });
        let is_whole = !events.iter().any(is_cut) && !events[pushed..].iter().any(is_ended);
        let is_end = |event: &Event| matches!(event.kind, EventKind::TurnEnd { .. });
        let end = events.iter().position(is_end).map_or(events.len(), |at| at + 1);
        events.truncate(end);
        let message = collect(&events).into_iter().next();
        let mut message = message.unwrap_or_else(|| Message::new(Role::Assistant, ""));
        name_calls(&mut message, new);
        message.number_calls();
        let stop = stopped.map(|at| completion[at]).or(last);
        Ok(Self { message, events, base, ids, stop, rest, is_whole })
    }
}

/// Gives calls without ids those of their results, in order, unless these are numbers as `parse` gives: the template may
/// refuse numbers, which no model wrote.
fn name_calls(message: &mut Message, new: &Owned) {
    let Owned::List(new) = new else { return };
    let id_of = |result: &Owned| result.get("tool_call_id")?.as_str().map(str::to_owned);
    let ids: Vec<String> = new.iter().map_while(id_of).collect();
    if (0..message.calls.len()).any(|number| ids.contains(&call_id(number))) {
        return;
    }
    for (call, id) in message.calls.iter_mut().zip(ids) {
        call.id.get_or_insert(id);
    }
}

/// The answer's turn in what was rendered.
struct Turn {
    /// Where what the model generates begins.
    start: usize,
    /// Where the last of its data ends.
    said: usize,
    /// Where the next message begins.
    next: usize,
    /// What asked for the answer is how the template begins the turn.
    is_asked_so: bool,
}

fn is_control(span: &Span) -> bool {
    matches!(span.kind, SpanKind::Control(_))
}

impl Turn {
    fn of(rendered: &Rendered, index: i32, prompt: &Encoding) -> Option<Self> {
        let is_slot =
            |span: &&Span| matches!(span.kind, SpanKind::Slot { .. }) && !span.text.is_empty();
        let is_own = |span: &&Span| span.source.message == index;
        let first = rendered.spans.iter().find(is_own)?;
        let generated = rendered.generated.iter().rfind(|turn| turn.start >= first.text.start);
        let asked = prompt.asks().unwrap_or_default();
        let is_resumed = prompt.trail().end == End::Open;
        // What asked for the answer may begin before the answer's own text: with the end of the turn before.
        let from = if rendered.text.starts_with(prompt.text()) {
            Some(prompt.text().len())
        } else {
            let begins = rendered.text[first.text.start..].starts_with(asked);
            begins.then(|| first.text.start + asked.len())
        };
        let is_asked_so = is_resumed || from.is_some();
        let generated = rendered
            .generated
            .iter()
            .find(|turn| turn.start >= first.text.start)
            .or(generated)
            .map(|turn| turn.start);
        // A template may write the names of calls again, in the results' headers.
        let is_later =
            |span: &&Span| span.source.message > index && span.text.start >= first.text.end;
        let later = rendered.spans.iter().find(is_later).map_or(usize::MAX, |span| span.text.start);
        let slots = || rendered.spans.iter().filter(is_own).filter(is_slot);
        let slot = slots().rfind(|slot| slot.text.end <= later).or_else(|| slots().next_back());
        let begins = if is_resumed { generated } else { from.or(generated) };
        let said = slot.map_or_else(|| begins.or(generated), |slot| Some(slot.text.end))?;
        let start = begins.unwrap_or(first.text.start).min(said);
        let prompt_at = rendered.prompt_at.unwrap_or(rendered.text.len()).max(said);
        let after = rendered.spans.iter().filter(|span| span.text.start >= said);
        // The turn's text may be of no message, where the template has no loop over them.
        let has_owner = rendered.spans.iter().filter(is_own).any(|span| !is_slot(&span));
        let mut others = after.filter(|span| {
            let is_other = span.source.message != index;
            is_other && (has_owner || is_slot(span))
        });
        let next = others.next().map_or(rendered.text.len(), |span| span.text.start);
        Some(Self { start, said, next: next.min(prompt_at), is_asked_so })
    }
}

/// The control tokens with which messages begin.
fn openers(rendered: &Rendered) -> impl Iterator<Item = &Span> {
    let groups = rendered.spans.chunk_by(|a, b| a.source.message == b.source.message);
    let firsts = groups.filter_map(|group| group.first());
    firsts.filter(|span| span.source.message >= 0 && is_control(span))
}

/// An extension in progress.
struct Next<'a> {
    codec: &'a Codec,
    prompt: &'a Encoding,
    completion: &'a [TokenId],
    answer: &'a Answer,
    turn: Turn,
    index: i32,
}

impl Next<'_> {
    /// The given ids, and the ids of what the template writes after them.
    fn joined(
        &self,
        written: &Templated,
        options: &EncodeOptions,
        on_reasoning: OnReasoning,
    ) -> Result<Encoding> {
        let rendered = &written.rendered;
        let rewritten = self.rewritten(rendered);
        let at = self.seam(rendered)?;
        self.check_order(rendered, at)?;
        let codec = self.codec;
        let resumes = self.prompt.trail().end == End::Open;
        let sources =
            sources_of(&self.answer.events, self.answer.base, self.completion.len(), self.index);
        let given = Given { ids: self.completion, sources: &sources };
        let mut answered = self.prompt.answered(given, self.index, resumes);
        if let Some(paths) = &rendered.paths {
            answered.lead_to(paths);
        }
        let told = self.turn.start + answered.last_generated().len();
        answered.written_as(self.prompt, rendered, told, 0);
        let mut rest = rendered.clone();
        // The answer is the first turn that is generated; what was before it is given. An empty one begins where the next
        // message does.
        let is_after = |turn: &Range<usize>| turn.start > self.turn.next;
        let own = rendered.generated.iter().rfind(|turn| !is_after(turn)).cloned();
        rest.generated.retain(is_after);
        rest.generated.insert(0, own.clone().unwrap_or(at..at));
        let Some(rest) = rest.after(at, answered.end(), 0) else {
            let problem = "ends within what the template writes as one";
            return Err(Error::message("completion", problem));
        };
        let tail = encode::encode(
            rest,
            codec.grammar(),
            codec.vocab(),
            options.on_marker,
            options.threads,
        );
        let tail = tail.map_err(|error| moved(error, self.index))?;
        let length = own.map_or(0, |own| own.end.saturating_sub(at));
        let joined = answered.followed_by(tail, length);
        let is_rewritten = !rewritten.is_empty();
        let notes = self.notes(&joined, written, rewritten, options);
        let mut reasons = notes.iter();
        if on_reasoning == OnReasoning::Template
            && let Some(note) =
                reasons.find(|note| is_rewritten || note.kind == NoteKind::Reasoning)
        {
            let problem = format!("follow a turn that is then written otherwise: {}", note.text);
            return Err(Error::message("new_messages", problem));
        }
        Ok(joined.with_notes(notes))
    }

    /// The place in what was rendered from which on it follows the answer.
    fn seam(&self, rendered: &Rendered) -> Result<usize> {
        let Turn { said, next, .. } = self.turn;
        let answer = self.answer;
        let within = |span: &&Span| (said..next).contains(&span.text.start) && is_control(span);
        let is_id = |span: &Span, id| matches!(span.kind, SpanKind::Control(of) if of.get() == id);
        let closers = || rendered.spans.iter().filter(within);
        self.check_openers(rendered)?;
        let Some(stop) = answer.stop else { return Ok(self.open_seam(rendered)) };
        if let Some(closer) = closers().rfind(|span| is_id(span, stop)) {
            return self.after_rest(rendered, closer.text.end);
        }
        let after =
            rendered.spans.iter().find(|span| span.text.start >= next && !span.text.is_empty());
        if let Some(opener) = after.filter(|span| is_id(span, stop)) {
            return self.after_rest(rendered, opener.text.end);
        }
        if openers(rendered).any(|span| is_id(span, stop)) {
            let at = answer.ids.saturating_sub(1);
            let id = shown(self.codec, stop);
            let problem = format!(
                "ends with the id that opens another turn than that of the new messages: id {at}{id}"
            );
            return Err(Error::message("completion", problem));
        }
        let is_stop = self.codec.stop_ids().contains(&stop);
        if !is_stop {
            return Ok(self.open_seam(rendered));
        }
        // It ended with another id than the template's.
        let end = closers().next_back().map_or(said, |closer| closer.text.end);
        self.after_rest(rendered, end)
    }

    /// After the text that the completion has beyond its end.
    fn after_rest(&self, rendered: &Rendered, at: usize) -> Result<usize> {
        let rest = &self.answer.rest;
        if is_literal(rendered, at, rest) {
            return Ok(at + rest.len());
        }
        let ids = self.answer.ids;
        let id = shown(self.codec, self.completion[ids.min(self.completion.len() - 1)]);
        let problem =
            format!("goes on after its turn has ended: id {ids}{id}, expected its first {ids} ids");
        Err(Error::message("completion", problem))
    }

    /// The place from which on an answer without its end is followed.
    fn open_seam(&self, rendered: &Rendered) -> usize {
        let Turn { said, next, .. } = self.turn;
        let within = |span: &&Span| (said..next).contains(&span.text.start) && is_control(span);
        let closer = rendered.spans.iter().rfind(within);
        let end = closer.map_or(next, |closer| closer.text.start);
        let ends = &rendered.text[said..end];
        let text = self.codec.vocab().decode(self.completion, Spelling::Spell).unwrap_or_default();
        let mut lengths = ends.char_indices().map(|(at, c)| at + c.len_utf8());
        let told = lengths.rfind(|&length| text.ends_with(&ends[..length])).unwrap_or(0);
        let has_calls = !self.answer.message.calls.is_empty();
        match closer {
            Some(_) if has_calls && self.answer.is_whole => end,
            _ => said + told,
        }
    }

    /// Refuses messages that the template writes before the end of the answer, where no id may come any more.
    fn check_order(&self, rendered: &Rendered, at: usize) -> Result<()> {
        let is_early = |span: &&Span| {
            let is_text = matches!(span.kind, SpanKind::Slot { .. }) && !span.text.is_empty();
            is_text && message_of(rendered, span) > self.index && span.text.start < at
        };
        let Some(early) = rendered.spans.iter().find(is_early) else { return Ok(()) };
        let message = message_of(rendered, early) - self.index - 1;
        let path = format!("new_messages[{message}]");
        let problem =
            "is what the template writes before the end of the answer, expected a message after it";
        Err(Error::message(path, problem))
    }

    /// Refuses an id within the completion that opens a turn.
    fn check_openers(&self, rendered: &Rendered) -> Result<()> {
        let Some(last) = self.answer.ids.checked_sub(1) else { return Ok(()) };
        let is_of =
            |span: &Span, id: TokenId| matches!(span.kind, SpanKind::Control(of) if of.get() == id);
        // A message without a header begins with what a model generates: a call, for example.
        let is_generated =
            |span: &Span| rendered.generated.iter().any(|turn| turn.contains(&span.text.start));
        let is_opener = |id: TokenId| {
            openers(rendered).any(|span| is_of(span, id))
                && !rendered.spans.iter().any(|span| is_of(span, id) && is_generated(span))
        };
        let control = |id: &TokenId| self.codec.vocab().is_control(*id);
        let mut ids = self.completion[..last].iter().copied();
        if let Some(at) = ids.position(|id| control(&id) && is_opener(id)) {
            let id = shown(self.codec, self.completion[at]);
            let problem = format!("opens another turn: id {at}{id}, expected one answer");
            return Err(Error::message("completion", problem));
        }
        Ok(())
    }

    /// What the template writes otherwise of the messages before the answer.
    fn rewritten(&self, rendered: &Rendered) -> Vec<Note> {
        let prompt = self.prompt;
        let before = prompt.asked_at();
        if rendered.text.starts_with(&prompt.text()[..before]) {
            return Vec::new();
        }
        let (then, now) = (prompt.slots(), slots_of(rendered));
        let known = |note: &Note| {
            prompt.notes().iter().any(|it| it.kind == note.kind && it.message == note.message)
        };
        let mut notes = Vec::new();
        let text_now = |path: &String| now.get(path).map_or("", |slot| slot.text.as_str());
        let mut others: Vec<_> =
            then.iter().filter(|(path, slot)| text_now(path) != slot.text).collect();
        let is_said = !others.is_empty();
        others.sort_by_key(|(_, slot)| slot.tokens.start);
        for (path, slot) in others {
            if slot.message == self.index {
                continue;
            }
            let key = path.rsplit('.').next().unwrap_or_default();
            let is_reasoning = matches!(key, "reasoning" | "reasoning_content" | "thinking");
            let left = text_now(path);
            let shortened = slot.text.trim_end().strip_suffix(left.trim()).unwrap_or_default();
            let (kind, text) = if is_reasoning || shortened.trim_end().ends_with("</think>") {
                let text = "the template leaves out the reasoning of this turn".to_owned();
                (NoteKind::Reasoning, text)
            } else if left.is_empty() {
                (NoteKind::Text, format!("the template leaves out `{path}`"))
            } else {
                (NoteKind::Text, format!("the template writes another part of `{path}`"))
            };
            let note = Note { kind, text, tokens: slot.tokens.clone(), message: slot.message };
            if !known(&note) {
                notes.push(note);
            }
        }
        let is_known = prompt.notes().iter().any(|note| note.kind != NoteKind::Ids);
        if !is_said && !is_known {
            let same = prompt.text().bytes().zip(rendered.text.bytes()).take_while(|(a, b)| a == b);
            let from = prompt.id_at(same.count());
            let to = prompt.asks_from().max(from);
            let text = "the template writes this part elsewhere or otherwise".to_owned();
            notes.push(Note { kind: NoteKind::Moved, text, tokens: from..to, message: -1 });
        }
        notes
    }

    /// The differences between this conversation and a new encoding of it.
    fn notes(
        &self,
        joined: &Encoding,
        written: &Templated,
        rewritten: Vec<Note>,
        options: &EncodeOptions,
    ) -> Vec<Note> {
        let mut notes = rewritten;
        let codec = self.codec;
        let base = self.prompt.ids().len();
        let end = joined.ids().len();
        if !self.turn.is_asked_so
            && let Some(asked) = self.prompt.asks()
        {
            let text =
                format!("`encode` does not begin this turn with {:?}", excerpt(asked, SHOWN));
            let tokens = self.prompt.asks_from()..base;
            notes.push(Note { kind: NoteKind::Prompt, text, tokens, message: self.index });
        }
        let fresh = encode::encode(
            written.rendered.clone(),
            codec.grammar(),
            codec.vocab(),
            encode::OnMarker::Report,
            options.threads,
        );
        if let Ok(fresh) = fresh {
            notes.extend(self.difference(joined, &fresh));
            if notes.is_empty() && fresh.ids() != joined.ids() {
                let text = "`encode` gives the text around the prompt's end other ids".to_owned();
                let tokens = base.saturating_sub(1)..base;
                notes.push(Note { kind: NoteKind::Ids, text, tokens, message: self.index });
            }
        }
        if let Some(dependent) = &written.dependent {
            notes.push(dependent.note(base..end));
        }
        let place =
            |at: u32| base + (at.saturating_sub(self.answer.base) as usize).min(self.answer.ids);
        for event in &self.answer.events {
            let Some((kind, text)) = irregularity(&event.kind) else { continue };
            let tokens = place(event.tokens.start)..place(event.tokens.end);
            notes.push(Note { kind, text, tokens, message: self.index });
        }
        notes
    }

    /// Differences between the ids after the prompt and those of a new encoding.
    fn difference(&self, joined: &Encoding, fresh: &Encoding) -> Option<Note> {
        let base = self.prompt.ids().len();
        let vocab = self.codec.vocab();
        let seen = &joined.ids()[base..];
        let anew = &fresh.ids()[fresh.id_at(self.turn.start)..];
        if seen == anew {
            return None;
        }
        let (ours, theirs) = apart(seen, anew);
        let text_of = |ids: &[TokenId]| vocab.decode(ids, Spelling::Spell).unwrap_or_default();
        let control = |ids: &[TokenId]| matches!(ids, [id] if vocab.is_control(*id));
        let shown = text_of(&anew[theirs.clone()]);
        let reasoning = self.answer.message.reasoning.as_deref().unwrap_or_default().trim();
        let turn = fresh.text().get(self.turn.start..).unwrap_or_default();
        let (kind, text) = if !reasoning.is_empty() && !turn.contains(reasoning) {
            let text = "the template leaves out the reasoning of this turn".to_owned();
            (NoteKind::Reasoning, text)
        } else if text_of(seen) == text_of(anew) {
            (NoteKind::Ids, "`encode` gives this text other ids".to_owned())
        } else if control(&seen[ours.clone()]) && control(&anew[theirs]) {
            (NoteKind::Stop, format!("`encode` writes `{shown}` here"))
        } else {
            (NoteKind::Text, format!("`encode` writes {:?} here", excerpt(&shown, SHOWN)))
        };
        let tokens = ours.start + base..ours.end + base;
        Some(Note { kind, text, tokens, message: self.index })
    }
}
