//! The next turn's prompt, from the last one and what a model answered.
//!
//! In: an encoding that ends where a model answers, the ids that it answered with, and new messages. Out: an
//! encoding that begins with exactly these ids. Cost: that of the answer and the new messages; what
//! came before is copied. The ids of a prompt are read once more if it was given as ids, leaves a message
//! open, or is of a format that tells turns apart by text.
//!
//! The answer, read as a message, and the new messages are rendered after a question that stands for all
//! that came before; what follows the answer there is what follows it here. First the ids are taken as what
//! the format writes for the message: the answer and the end of its turn are read, and must give the message
//! in its canonical form. Where a model wrote something else, its ids stay, the end of its turn must leave the
//! message as it was read, and a [`Note`](crate::Note) says what a fresh encode would write. An id that means something
//! else where it stands is refused, by its position.

mod answer;
mod notes;

use crate::codec::{Codec, collect};
use crate::conversation::{Conversation, Linker, OnUnsupported};
use crate::encode::{
    self, EncodeOptions, Encoding, End, Given, Trail, answered, has_reasoning, moves, reasons,
};
use crate::error::{Droppable, Error, MessagePart, Result};
use crate::event::TurnReason;
use crate::format::{Format, ReasoningWhen};
use crate::message::{CallBody, Message, Role};
use crate::render::{Kept, Rendered};
use crate::span::{Span, SpanKind};
use answer::{Answer, Seam, is_end};
use chatcodec_vocab::TokenId;

/// The index of the answer among the messages that are rendered, after the question that stands for all
/// before it.
const ANSWER: i32 = 1;

/// What is done where the ids that were seen are not what the format writes once other messages follow:
/// reasoning of earlier turns, or a system message or tools that move to the last user's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnReasoning {
    /// The ids stay, and [`Encoding::notes`] says what the format would leave out or move.
    #[default]
    Keep,
    /// The conversation is refused, with the reason: it has to be encoded again.
    Template,
}

impl Codec {
    /// An encoding of ids as they came, for [`Codec::extend`]: where they come from is not known. The
    /// messages that follow are counted from those that [`Codec::decode`] gives. Reads all ids.
    pub fn adopt(&self, ids: &[TokenId]) -> Encoding {
        let mut stream = self.read_stream();
        let mut events = Vec::new();
        stream.push_all(ids, &mut events);
        let pushed = events.len();
        let is_answered = stream.is_answered();
        stream.finish(TurnReason::Stop, &mut events);
        let mut messages = collect(&events);
        let last = messages.last().map(|message| message.role);
        let is_open = events[pushed..].iter().any(is_end) && last == Some(Role::Assistant);
        // A turn that begins without a prompt is nothing before it has begun.
        let is_prompted =
            self.generation_prompt().is_empty() && matches!(last, Some(Role::User | Role::Tool));
        let mut linker = Linker::default();
        linker.link(&mut messages, self.format());
        let end = End::new(is_prompted || is_answered, is_open);
        let mut trail = Trail::new(&messages, false, linker, end, self.format());
        trail.moves = moves(self.format(), true, true);
        let mut encoding = Encoding::of_ids(ids, self.grammar(), self.vocab());
        encoding.set_trail(trail);
        encoding
    }

    /// Whether a prompt may be extended with such options.
    fn check_prompt(&self, prompt: &Encoding, options: &EncodeOptions) -> Result<()> {
        if !prompt.is_of(self.grammar()) {
            return Err(Error::message(
                "prompt",
                "is of another codec, expected one of this one's",
            ));
        }
        if prompt.trail().end == End::Closed {
            let problem = "does not end where a model answers, \
                           expected a generation prompt, or a last message that is left open";
            return Err(Error::message("prompt", problem));
        }
        for (option, is_given) in
            [("date", options.date.is_some()), ("effort", options.effort.is_some())]
        {
            if is_given {
                let problem =
                    "stands at the beginning of the prompt, expected none for what follows";
                return Err(Error::message(option, problem));
            }
        }
        Ok(())
    }

    /// The next turn's prompt, as [`Codec::extend`] makes it, with the indices that messages have for the caller.
    ///
    /// # Errors
    /// As [`Codec::extend`].
    pub fn extend_conversation(
        &self,
        prompt: &Encoding,
        completion: &[TokenId],
        mut new: Conversation,
        options: &EncodeOptions,
        on_reasoning: OnReasoning,
    ) -> Result<Encoding> {
        let first = prompt.trail().answer_index() + 1;
        let drops = options.on_unsupported == OnUnsupported::Drop;
        loop {
            let messages =
                if drops { new.messages.clone() } else { std::mem::take(&mut new.messages) };
            let count = messages.len() as i32;
            let error = match self.extend(prompt, completion, messages, options, on_reasoning) {
                Ok(mut extended) => {
                    extended.set_messages(new, count, first);
                    return Ok(extended);
                }
                Err(error) => error,
            };
            let part = after_answer(error.droppable().filter(|_| drops));
            let Some(part) = part.filter(|&(at, part)| new.has(at, part)) else {
                return Err(new.error_at_origin(error));
            };
            // The error tells of one part; the others that are like it are found in one go.
            let found = self.unplaced_after(prompt, completion, &new.messages, options);
            let found = found.unwrap_or_default();
            let found = if found.contains(&part) { found } else { vec![part] };
            new.leave_out(found.into_iter().map(|(at, part)| Droppable::Part(at, part)).collect());
        }
    }

    /// The parts of new messages that have no place after a completion.
    fn unplaced_after(
        &self,
        prompt: &Encoding,
        completion: &[TokenId],
        messages: &[Message],
        options: &EncodeOptions,
    ) -> Result<Vec<(usize, MessagePart)>> {
        let trail = prompt.trail();
        let (mut turns, _) = self.turns(prompt, completion, messages.to_vec())?;
        trail.linker.clone().link(&mut turns[1..], self.format());
        let end = self.end_of(&turns, options)?;
        let found = self.find_unplaced(trail.has_answer, &mut turns, None, end, options)?;
        Ok(found.into_iter().filter_map(|part| after_answer(Some(part))).collect())
    }

    /// What is rendered: a question that stands for all before the answer, the answer, and new messages.
    fn turns(
        &self,
        prompt: &Encoding,
        completion: &[TokenId],
        messages: Vec<Message>,
    ) -> Result<(Vec<Message>, Answer)> {
        let answer = Answer::read(self, prompt, completion)?;
        let asks =
            if prompt.trail().answers_result(self.grammar()) { Role::Tool } else { Role::User };
        let mut turns = vec![Message::new(asks, "x"), answer.message.clone()];
        turns.extend(messages);
        Ok((turns, answer))
    }

    /// The next turn's prompt: the ids of `prompt` and of `completion` as they are, what ends the turn if the
    /// completion did not, then `messages` as [`Codec::encode`] writes them.
    ///
    /// The completion is the message after the prompt's last, or goes on with that if it was left open; its
    /// ids are what the model generated, with the id that stopped it or without. Results answer its calls by
    /// the ids that [`Codec::parse`] gives them, or by their order. [`Encoding::notes`] says where these ids are
    /// not those that the whole conversation is encoded as.
    ///
    /// # Errors
    /// [`Error::Message`] with `prompt`, `completion`, or `new_messages[i]…` as the path, and why: an id of the
    /// completion that means something else where it stands, or messages that the format has no place for.
    pub fn extend(
        &self,
        prompt: &Encoding,
        completion: &[TokenId],
        messages: Vec<Message>,
        options: &EncodeOptions,
        on_reasoning: OnReasoning,
    ) -> Result<Encoding> {
        self.check_prompt(prompt, options)?;
        let trail = prompt.trail();
        let (mut turns, answer) = self.turns(prompt, completion, messages)?;
        let mut linker = trail.linker.clone();
        linker.link(&mut turns[1..], self.format());
        let end = self.end_of(&turns, options).map_err(renamed)?;
        let index = trail.answer_index();
        let next = Next { codec: self, prompt, completion, options, answer, turns, end, index };
        let rewritten = next.rewritten();
        if on_reasoning == OnReasoning::Template
            && let Some(rewritten) = rewritten
        {
            return Err(Error::message("new_messages", next.why(rewritten)));
        }
        let joined = next.joined(rewritten)?;
        let notes = next.notes(&joined, rewritten);
        let mut extended = joined.with_notes(notes);
        extended.set_trail(next.trail(linker));
        Ok(extended)
    }
}

/// A part of a message that comes after the answer, with its index among the new ones.
fn after_answer(part: Option<Droppable>) -> Option<(usize, MessagePart)> {
    match part? {
        Droppable::Part(index, part) => index.checked_sub(ANSWER as usize + 1).map(|at| (at, part)),
        Droppable::Read | Droppable::Tools => None,
    }
}

/// How the format would write otherwise what was seen, now that other messages follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rewritten {
    /// The system message or the tools stand in the last user's turn.
    Moved(&'static str),
    /// Earlier turns are written without their reasoning.
    Earlier,
    /// The answer is.
    Answer,
}

/// A completion and what is said after it, being put together.
struct Next<'a> {
    codec: &'a Codec,
    prompt: &'a Encoding,
    completion: &'a [TokenId],
    options: &'a EncodeOptions,
    answer: Answer,
    /// The question that stands for all before it, the answer, and the new messages.
    turns: Vec<Message>,
    end: End,
    /// The index of the answer in the conversation.
    index: i32,
}

impl Next<'_> {
    fn format(&self) -> &Format {
        self.codec.format()
    }

    /// How much higher the indices of messages are than those of what is rendered.
    fn moved(&self) -> i32 {
        self.index - ANSWER
    }

    fn render(&self, turns: &[Message], end: End, kept: Option<Kept>) -> Result<Rendered> {
        let answered = self.prompt.trail().has_answer;
        self.codec.render_after(answered, turns, None, end, self.options, kept).map_err(renamed)
    }

    /// Whether a format writes what was seen otherwise once these messages follow.
    fn rewritten(&self) -> Option<Rewritten> {
        let trail = self.prompt.trail();
        let has_user = self.turns[2..].iter().any(|message| message.role == Role::User);
        if let Some(what) = trail.moves.filter(|_| has_user) {
            return Some(Rewritten::Moved(what));
        }
        let now = answered(&self.turns[1..]);
        let leaves_out = match self.format().reasoning() {
            ReasoningWhen::SinceLastUser => trail.reasons && has_user,
            ReasoningWhen::UntilAnswered => {
                trail.reasoned && trail.answered.is_some_and(|then| Some(then) != now)
            }
            ReasoningWhen::All | ReasoningWhen::Last | ReasoningWhen::None => false,
        };
        if leaves_out {
            return Some(Rewritten::Earlier);
        }
        // A format may write a turn otherwise once others follow: without its reasoning, or the frame around none.
        let alone = self.render(&self.turns[..2], End::Closed, None);
        let (Ok(alone), Ok(rendered)) = (alone, self.render(&self.turns, self.end, None)) else {
            return None;
        };
        (written(&alone) != written(&rendered)).then_some(Rewritten::Answer)
    }

    fn why(&self, rewritten: Rewritten) -> String {
        let name = self.format().name();
        match rewritten {
            Rewritten::Moved(what) => {
                format!("hold a user's message, into which format `{name}` moves {what}")
            }
            Rewritten::Earlier | Rewritten::Answer => {
                format!("follow a turn that format `{name}` then writes in another way")
            }
        }
    }

    /// The ids as they were seen, and what follows them.
    fn joined(&self, rewritten: Option<Rewritten>) -> Result<Encoding> {
        let as_now = None;
        let with_reasoning = Some(Kept { index: ANSWER, is_last: false });
        let as_last = Some(Kept { index: ANSWER, is_last: true });
        let ways = match rewritten {
            None | Some(Rewritten::Moved(_)) => [as_now, with_reasoning, as_last],
            Some(_) => [with_reasoning, as_last, as_now],
        };
        let mut expected = self.turns[..=ANSWER as usize].to_vec();
        expected = self.codec.canonical_after(self.prompt.trail().has_answer, expected);
        let canonical = expected.pop();
        let mut refused = None;
        for (nth, &kept) in ways.iter().enumerate() {
            if nth > 0 && rewritten.is_none() {
                break;
            }
            match self.render(&self.turns, self.end, kept) {
                Ok(rendered) => {
                    if let Some(joined) =
                        self.attempt(&rendered, canonical.as_ref(), &mut refused)?
                    {
                        return Ok(joined);
                    }
                }
                Err(error) => {
                    refused.get_or_insert(error);
                }
            }
        }
        // As something else than the format writes.
        for turns in self.stand_ins() {
            for kept in ways {
                let rendered = match self.render(&turns, self.end, kept) {
                    Ok(rendered) => rendered,
                    Err(error) => {
                        refused.get_or_insert(error);
                        continue;
                    }
                };
                if let Some(joined) = self.attempt(&rendered, None, &mut refused)? {
                    return Ok(joined);
                }
            }
        }
        Err(refused.unwrap_or_else(|| self.answer.refused(self.codec, self.completion)))
    }

    /// What the turn's end and the new messages may be rendered after: the answer, its calls with arguments
    /// that any format writes, or a text.
    fn stand_ins(&self) -> Vec<Vec<Message>> {
        let with = |answer: Message| {
            let mut turns = self.turns.clone();
            turns[ANSWER as usize] = answer;
            turns
        };
        let answer = &self.turns[ANSWER as usize];
        let mut plain = Message { content: String::new(), reasoning: None, ..answer.clone() };
        for call in &mut plain.calls {
            match &mut call.body {
                CallBody::Function { name, arguments } => {
                    "{}".clone_into(arguments);
                    if name.is_empty() || name.contains(|c: char| !c.is_ascii_graphic()) {
                        "f".clone_into(name);
                    }
                }
                CallBody::Code { source, .. } => "x".clone_into(source),
            }
        }
        let text = Message::new(Role::Assistant, "x");
        vec![self.turns.clone(), with(plain), with(text)]
    }

    /// The answer's ids and what follows it in what was rendered, if it is then read as it is to be: as
    /// `canonical`, or else as it was read alone.
    fn attempt(
        &self,
        rendered: &Rendered,
        canonical: Option<&Message>,
        refused: &mut Option<Error>,
    ) -> Result<Option<Encoding>> {
        let answer = &self.answer;
        let (index, resumes) = (self.index, self.prompt.trail().end == End::Open);
        let given =
            &self.completion[..answer.given(self.turns.len() > 2 || self.end != End::Closed)];
        let sources = answer.sources(given.len(), index);
        let mut answered =
            self.prompt.answered(Given { ids: given, sources: &sources }, index, resumes);
        let start = self.start_in(rendered);
        let told = start + answered.last_generated().len();
        answered.written_as(self.prompt, rendered, told, self.moved());
        for Seam { at, is_own } in answer.seams(rendered, start, answered.last_generated()) {
            if canonical.is_some() && !is_own {
                continue;
            }
            let Some(rest) = rendered.clone().after(at, self.moved()) else { continue };
            let first = rest.spans.iter().find(|span| span.kind != SpanKind::Taken);
            let is_control = |kind| matches!(kind, SpanKind::Control(_));
            if canonical.is_some()
                && answered.ends_in_text()
                && let Some(first) = first.filter(|first| !is_control(first.kind))
            {
                let text = &rest.text[first.text.clone()];
                let last = given.len().saturating_sub(1);
                let why = format!(
                    "ends in text at id {last}, which {text:?} after it would be encoded with"
                );
                refused.get_or_insert(Error::message("completion", why));
                continue;
            }
            let next = encode::encode(
                rest,
                self.codec.grammar(),
                self.codec.vocab(),
                self.options.on_marker,
                self.options.threads,
            );
            let next = match next {
                Ok(next) => next,
                Err(error) if canonical.is_some() => return Err(moved_back(error, self.moved())),
                Err(error) => {
                    refused.get_or_insert(moved_back(error, self.moved()));
                    continue;
                }
            };
            if answer.is_ended_by(next.ids(), canonical, given.len()) {
                let written = rendered.generated.first().map_or(0, |turn| turn.end);
                return Ok(Some(answered.followed_by(next, written.saturating_sub(at))));
            }
        }
        Ok(None)
    }

    /// Where in what was rendered stands what comes after the prompt.
    fn start_in(&self, rendered: &Rendered) -> usize {
        let start = rendered.generated.first().map_or(0, |turn| turn.start);
        let is_answer = |span: &&Span| span.source.message == ANSWER;
        let turn = rendered.spans.iter().find(is_answer).map(|span| span.text.start);
        let (Some(turn), Some(asked)) = (turn, self.prompt.asks()) else { return start };
        let is_same = rendered.text.get(turn..).is_some_and(|text| text.starts_with(asked));
        if is_same { turn + asked.len() } else { start }
    }

    /// What the turn after the new messages depends on.
    fn trail(&self, linker: Linker) -> Trail {
        let trail = self.prompt.trail();
        let mut roles = trail.roles.clone();
        roles.truncate(roles.len() - usize::from(trail.end == End::Open));
        roles.extend(self.turns[1..].iter().map(|message| message.role));
        Trail {
            roles,
            more: trail.more,
            end: self.end,
            linker,
            moves: trail.moves,
            reasons: reasons(&self.turns[1..], trail.reasons),
            answered: answered(&self.turns[1..]),
            has_answer: trail.has_answer || self.turns[1..].iter().any(Message::is_answer),
            reasoned: trail.reasoned || has_reasoning(&self.turns[1..]),
        }
    }
}

/// What a model generates of the answer, without the token that stops it: a format may have one for the last
/// message and another for all others.
fn written(rendered: &Rendered) -> &str {
    let start = rendered.generated.first().map_or(0, |turn| turn.start);
    let end = turn_end(rendered, start).max(start);
    let is_control = |span: &&Span| matches!(span.kind, SpanKind::Control(_));
    let closer = rendered
        .spans
        .iter()
        .rfind(|span| (start..end).contains(&span.text.start) && is_control(span));
    &rendered.text[start..closer.map_or(end, |closer| closer.text.start)]
}

/// Where the answer's turn ends, of which a part begins at `start`.
fn turn_end(rendered: &Rendered, start: usize) -> usize {
    let is_next = |span: &&Span| span.text.start >= start && span.source.message != ANSWER;
    rendered.spans.iter().find(is_next).map_or(rendered.text.len(), |span| span.text.start)
}

/// A message without what numbers its calls.
fn unlinked(mut message: Message) -> Message {
    for call in &mut message.calls {
        call.id = None;
    }
    message
}

/// An error of what was rendered, with the path in the caller's arguments.
fn renamed(error: Error) -> Error {
    moved_back(error, 0)
}

/// An error whose messages have indices that are `moved` higher.
fn moved_back(error: Error, moved: i32) -> Error {
    error.with_path(|path| {
        let index = path.strip_prefix("messages[").and_then(|rest| rest.split_once(']'));
        match index.map(|(index, rest)| (index.parse::<i32>(), rest)) {
            Some((Ok(index), _)) if index - moved <= ANSWER => "completion".into(),
            Some((Ok(index), rest)) => {
                format!("new_messages[{}]{rest}", index - moved - ANSWER - 1)
            }
            _ if path == "messages" => "new_messages".into(),
            _ => path,
        }
    })
}
