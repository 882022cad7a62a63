//! Extension of a conversation: the next turn's prompt, from the last prompt and the model's
//! completion.
//!
//! In: an encoding that ends where a model answers, the ids of the completion, and new messages.
//! Out: an encoding that begins with exactly these ids. Cost: proportional to the answer and the
//! new messages; the prompt is copied. The prompt's ids are read again if the caller gave the
//! prompt as ids, if it leaves a message open, or if the format delimits turns by text.
//!
//! The answer, read as a message, and the new messages are rendered after a placeholder question
//! for the earlier conversation; the text after the answer there is the text after the answer here.
//! First, the ids are treated as the format's own spelling of the message: the answer and the end
//! of its turn are read, and must give the message in its canonical form. If the model wrote
//! another spelling, its ids stay, the end of its turn must leave the message as it was read, and a
//! [`Note`](crate::Note) describes the difference from a new encoding. An id with another meaning
//! in its place is refused, with its position; a tag that was cut at the end of an answer stays.

mod answer;
mod notes;
mod template;

use crate::codec::{Codec, collect};
use crate::conversation::{Conversation, Linker, OnUnsupported};
use crate::encode::{
    self, EncodeOptions, Encoding, End, Given, Reasoned, Trail, answered, has_reasoning, moves,
    reasoned, reasons,
};
use crate::error::{Droppable, Error, MessagePart, Result};
use crate::event::TurnReason;
use crate::format::{Format, ReasoningWhen};
use crate::message::{CallBody, Message, Owned, Role};
use crate::render::{Before, Kept, Rendered};
use crate::span::{Span, SpanKind};
use crate::templated;
use answer::{Answer, Seam, is_end};
use chatcodec_vocab::TokenId;

/// Index of the answer among the rendered messages: it follows the placeholder question.
const ANSWER: i32 = 1;

/// Policy for ids that the format would write differently once other messages follow: reasoning of
/// earlier turns, or a system message or tools that move to the last user's turn.
///
/// ```
/// use chatcodec::{Codec, EncodeOptions, Format, Message, OnReasoning, Role, Vocab};
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let options = EncodeOptions::default();
/// let prompt = codec.encode(vec![Message::new(Role::User, "Hi")], None, &options)?;
/// let mut completion = codec.vocab().encode("Hello");
/// completion.push(92542); // <|im_end|>
/// let next = vec![Message::new(Role::User, "And?")];
/// let next = codec.extend(&prompt, &completion, next, &options, OnReasoning::Keep)?;
/// assert!(next.ids().starts_with(&[prompt.ids(), &completion].concat()));
/// assert!(next.notes().is_empty());
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnReasoning {
    /// The ids stay, and [`Encoding::notes`] lists what the format would leave out or move.
    #[default]
    Keep,
    /// The conversation is refused, with the reason; the caller has to encode all messages again.
    Template,
}

impl Codec {
    /// An encoding of given ids, for [`Codec::extend`]. The sources of the ids are unknown. Indices
    /// of new messages continue those that [`Codec::decode`] gives. Reads all ids.
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
        // A turn that begins without a prompt is empty before its first id.
        let is_prompted =
            self.generation_prompt().is_empty() && matches!(last, Some(Role::User | Role::Tool));
        let mut linker = Linker::default();
        linker.link(&mut messages, self.format());
        let end = End::new(is_prompted || is_answered, is_open);
        // Where text alone says it, only whether notes are told depends on it: the ids are given.
        let tools = self.format().declares_tools(&messages);
        let mut trail = Trail::new(&messages, tools, linker, end, self.format());
        trail.moves = moves(self.format(), true, true);
        let mut encoding = Encoding::of_ids(ids, self.grammar(), self.vocab());
        encoding.set_trail(trail);
        encoding
    }

    /// An encoding of given ids, for [`Codec::extend`], of messages that are known: the ids that a model saw for
    /// them. The sources of the ids are unknown. No id is read, and nothing is encoded.
    ///
    /// `options` are those with which the ids were encoded. A template is given the messages when it writes what
    /// follows, so a codec that reads no conversations can extend these ids too.
    ///
    /// # Errors
    /// [`Error::Message`] for options that the format or the template has no place for.
    pub fn adopt_conversation(
        &self,
        ids: &[TokenId],
        conversation: Conversation,
        options: &EncodeOptions,
    ) -> Result<Encoding> {
        let trail = match conversation.values {
            Some(values) => templated::trail(*values, options)?,
            None => self.known_trail(conversation, options)?,
        };
        let mut encoding = Encoding::of_ids(ids, self.grammar(), self.vocab());
        if trail.end == End::Prompted {
            encoding.find_asked(self.asked());
        }
        encoding.set_trail(trail);
        Ok(encoding)
    }

    /// The trail of messages that a format has written.
    fn known_trail(&self, conversation: Conversation, options: &EncodeOptions) -> Result<Trail> {
        let Conversation { mut messages, tools, given, .. } = conversation;
        let mut linker = Linker::default();
        linker.link(&mut messages, self.format());
        let end = self.end_of(&messages, options)?;
        let mut trail = Trail::new(&messages, tools.is_some(), linker, end, self.format());
        trail.add_more(given as i32 - messages.len() as i32);
        Ok(trail)
    }

    /// Whether the options allow the extension of a prompt.
    fn check_prompt(&self, prompt: &Encoding, options: &EncodeOptions) -> Result<()> {
        if !prompt.is_of(self.grammar()) {
            return Err(Error::message(
                "prompt",
                "is of another codec, expected one of this one's",
            ));
        }
        let is_ids = prompt.trail().given.is_none();
        if self.writer().is_some() && is_ids && !self.streams_conversations() {
            let problem = "is ids, which no format of this codec reads; expected an `Encoding`";
            return Err(Error::message("prompt", problem));
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

    /// [`Codec::extend`], with the caller's indices of messages.
    ///
    /// # Errors
    /// The errors of [`Codec::extend`].
    pub fn extend_conversation(
        &self,
        prompt: &Encoding,
        completion: &[TokenId],
        mut new: Conversation,
        options: &EncodeOptions,
        on_reasoning: OnReasoning,
    ) -> Result<Encoding> {
        if let Some(writer) = self.writer() {
            self.check_prompt(prompt, options)?;
            let none = Owned::List(Vec::new());
            let new = new.values.as_ref().map_or(&none, |values| &values.messages);
            return self.extend_values(writer, prompt, completion, new, options, on_reasoning);
        }
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
            // The error names one part; one search finds all other parts of its kind.
            let found = self.unplaced_after(prompt, completion, &new.messages, options);
            let found = found.unwrap_or_default();
            let found = if found.contains(&part) { found } else { vec![part] };
            new.leave_out(found.into_iter().map(|(at, part)| Droppable::Part(at, part)).collect());
        }
    }

    /// The parts of new messages that cannot be written after a completion.
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
        let before = Before { given: ANSWER as usize + 1, ..trail.before() };
        let found = self.find_unplaced(before, &mut turns, None, end, options)?;
        Ok(found.into_iter().filter_map(|part| after_answer(Some(part))).collect())
    }

    /// The rendered messages: a placeholder question, the answer, and the new messages.
    fn turns(
        &self,
        prompt: &Encoding,
        completion: &[TokenId],
        messages: Vec<Message>,
    ) -> Result<(Vec<Message>, Answer)> {
        let answer = Answer::read(self, prompt, completion)?;
        let asks =
            if prompt.trail().answers_result(self.grammar()) { Role::Tool } else { Role::User };
        let is_named = asks == Role::Tool && self.format().names_results();
        let name = is_named.then(|| "x".to_owned());
        let question = Message { name, ..Message::new(asks, "x") };
        let mut turns = vec![question, answer.message.clone()];
        turns.extend(messages);
        Ok((turns, answer))
    }

    /// The next turn's prompt: the ids of `prompt` and of `completion` unchanged, then the end of
    /// the turn if the completion lacks it, then `messages` as [`Codec::encode`] writes them.
    ///
    /// The completion is the message after the prompt's last one, or continues that message if it
    /// is open. `completion` is the generated ids, with or without the id that stopped the model.
    /// Results answer its calls by the ids that [`Codec::parse`] gives the calls, or by their
    /// order. [`Encoding::notes`] lists the differences from a new encoding of the whole
    /// conversation.
    ///
    /// # Errors
    /// [`Error::Message`] with the path `prompt`, `completion`, or `new_messages[i]…`, for an id of
    /// the completion that has another meaning in its place, and for messages that the format
    /// cannot write.
    pub fn extend(
        &self,
        prompt: &Encoding,
        completion: &[TokenId],
        messages: Vec<Message>,
        options: &EncodeOptions,
        on_reasoning: OnReasoning,
    ) -> Result<Encoding> {
        self.check_prompt(prompt, options)?;
        if let Some(writer) = self.writer() {
            let new = Owned::List(messages.iter().map(Owned::of_message).collect());
            return self.extend_values(writer, prompt, completion, &new, options, on_reasoning);
        }
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

/// A part of a message after the answer, with the message's index among the new ones.
fn after_answer(part: Option<Droppable>) -> Option<(usize, MessagePart)> {
    match part? {
        Droppable::Part(index, part) => index.checked_sub(ANSWER as usize + 1).map(|at| (at, part)),
        Droppable::Read | Droppable::Tools => None,
    }
}

/// Difference between the ids and the format's spelling once other messages follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rewritten {
    /// The format writes the system message or the tools in the last user's turn.
    Moved(&'static str),
    /// The format writes earlier turns without their reasoning.
    Earlier,
    /// The format writes the answer without its reasoning.
    Answer,
}

/// An extension in progress: a completion and the messages after it.
struct Next<'a> {
    codec: &'a Codec,
    prompt: &'a Encoding,
    completion: &'a [TokenId],
    options: &'a EncodeOptions,
    answer: Answer,
    /// The placeholder question, the answer, and the new messages.
    turns: Vec<Message>,
    end: End,
    /// Index of the answer in the conversation.
    index: i32,
}

impl Next<'_> {
    fn format(&self) -> &Format {
        self.codec.format()
    }

    /// Difference between the indices of messages and those of the rendered messages.
    fn moved(&self) -> i32 {
        self.index - ANSWER
    }

    fn render(&self, turns: &[Message], end: End, kept: Option<Kept>) -> Result<Rendered> {
        let before = Before { given: ANSWER as usize + 1, ..self.prompt.trail().before() };
        self.codec.render_after(before, turns, None, end, self.options, kept).map_err(renamed)
    }

    /// Whether the format writes the earlier ids differently once these messages follow.
    fn rewritten(&self) -> Option<Rewritten> {
        let trail = self.prompt.trail();
        let has_user = self.turns[2..].iter().any(|message| message.role == Role::User);
        if let Some(what) = trail.moves.filter(|_| has_user) {
            return Some(Rewritten::Moved(what));
        }
        let now = answered(&self.turns[1..]);
        let leaves_out = match self.format().reasoning(trail.tools) {
            ReasoningWhen::SinceLastUser => trail.reasons && has_user,
            ReasoningWhen::UntilAnswered => {
                trail.reasoned != Reasoned::No
                    && trail.answered.is_some_and(|then| Some(then) != now)
            }
            ReasoningWhen::SinceLastAnswer => {
                let answer = self.turns[1..].iter().rposition(Message::is_answer);
                let has_own = |last: usize| has_reasoning(&self.turns[1..][..=last]);
                let is_earlier = trail.reasoned == Reasoned::After;
                if answer.is_some_and(has_own) && !is_earlier {
                    return Some(Rewritten::Answer);
                }
                answer.is_some() && is_earlier
            }
            ReasoningWhen::All | ReasoningWhen::Last | ReasoningWhen::None => false,
        };
        if leaves_out {
            return Some(Rewritten::Earlier);
        }
        // A format may write a turn differently once others follow: without its reasoning, or
        // without an empty frame.
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

    /// The given ids, and the ids after them.
    fn joined(&self, rewritten: Option<Rewritten>) -> Result<Encoding> {
        let as_now = None;
        let with_reasoning = Some(Kept { index: ANSWER, is_last: false });
        let as_last = Some(Kept { index: ANSWER, is_last: true });
        let ways = match rewritten {
            None | Some(Rewritten::Moved(_)) => [as_now, with_reasoning, as_last],
            Some(_) => [with_reasoning, as_last, as_now],
        };
        let mut expected = self.turns[..=ANSWER as usize].to_vec();
        expected = self.codec.canonical_after(self.prompt.trail().before(), expected);
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
        // The ids are not the format's own spelling.
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

    /// Stand-ins for the answer, after which the end of the turn and the new messages are rendered: the
    /// answer, its calls with arguments that every format writes, or a text.
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

    /// The ids of the answer and the encoding after it, if together they read as expected: as
    /// `canonical`, or else as the answer alone.
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
            let Some(rest) = rendered.clone().after(at, answered.end(), self.moved()) else {
                continue;
            };
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

    /// The place in the rendered text after the prompt.
    fn start_in(&self, rendered: &Rendered) -> usize {
        let start = rendered.generated.first().map_or(0, |turn| turn.start);
        let is_answer = |span: &&Span| span.source.message == ANSWER;
        let turn = rendered.spans.iter().find(is_answer).map(|span| span.text.start);
        let (Some(turn), Some(asked)) = (turn, self.prompt.asks()) else { return start };
        let is_same = rendered.text.get(turn..).is_some_and(|text| text.starts_with(asked));
        if is_same { turn + asked.len() } else { start }
    }

    /// The trail that the turn after the new messages depends on.
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
            reasoned: reasoned(&self.turns[1..], trail.reasoned),
            tools: trail.tools,
            given: None,
        }
    }
}

/// The generated part of the answer without its stop token: a format may have different stop tokens for the
/// last message and for others.
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

/// The end of the answer's turn, which contains `start`.
fn turn_end(rendered: &Rendered, start: usize) -> usize {
    let is_next = |span: &&Span| span.text.start >= start && span.source.message != ANSWER;
    rendered.spans.iter().find(is_next).map_or(rendered.text.len(), |span| span.text.start)
}

/// A message without the ids of its calls.
fn unlinked(mut message: Message) -> Message {
    for call in &mut message.calls {
        call.id = None;
    }
    message
}

/// An error about rendered messages, with the path in the caller's arguments.
fn renamed(error: Error) -> Error {
    moved_back(error, 0)
}

/// An error with the indices of messages `moved` higher.
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
