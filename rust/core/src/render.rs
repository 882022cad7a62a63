//! The writer by a format: messages to spans, a walk over the format's table. The other writer is `templated`, which
//! runs a chat template.
//!
//! In: messages that were read and linked, a grammar, options. Out: the spans of one text. Cost: linear in the text.
//!
//! A row fits a message when the message has every field that the row needs and the row has a place
//! for every field that the message has. When none fits the message is refused: text is never
//! dropped.

mod calls;
mod choose;
mod declare;
mod generated;
mod keys;
mod media;
mod options;
mod plan;
mod refused;
mod spans;
mod unplaced;

use std::borrow::Cow;

use crate::error::{Error, MessagePart, Result};
use crate::format::{Format, LastWhen, ReasoningWhen, ToolsPlace, word_as_written};
use crate::grammar::{BoundPiece, FixedText, Grammar, Row, Rule};
use crate::json;
use crate::message::{Message, Piece as Part, Role};
use crate::pattern::{self, Field, Filter, Piece};
use crate::span::{Source, SourceField, SpanKind};
use crate::word::wrong_word;
use chatcodec_vocab::Vocab;
use choose::begins_with_calls;
use keys::Key;
use media::check_media;
pub use options::Boundary;
pub(crate) use options::{Before, Follows, Kept, RenderOptions, Rendered};
use plan::{Plan, Step, check_answers};
pub(crate) use unplaced::find_unplaced;

/// Estimated number of bytes of a message beside its content.
const HEADER_BYTES: usize = 48;
const HEADER_SPANS: usize = 6;

/// Renders messages that have been read and linked.
pub(crate) fn render(
    messages: &[Message],
    format: &Format,
    grammar: &Grammar,
    vocab: &Vocab,
    options: &RenderOptions<'_>,
) -> Result<Rendered> {
    check_media(messages, format)?;
    let plan = Plan::new(messages, format, options.tools.is_some(), options.thinks())?;
    check_answers(messages, options.generation_prompt, grammar)?;
    if let Some(at) = results_apart(messages, grammar).next() {
        return Err(result_apart(at));
    }
    let mut renderer = Renderer::new(format, grammar, vocab, options);
    let content: usize = messages.iter().map(|message| message.content.len()).sum();
    renderer.out.text.reserve(content + messages.len() * HEADER_BYTES);
    renderer.out.spans.reserve(messages.len() * HEADER_SPANS);
    renderer.keyed(Key::Begin, |renderer| renderer.scaffold(&grammar.begin));
    let mut previous = None;
    let reasoning_from = reasoning_from(messages, options, format);
    refused::check(messages, reasoning_from, format, options)?;
    let is_empty = messages.is_empty() && options.tools.is_none();
    if format.tools_place() == Some(ToolsPlace::BeforeBegin) {
        renderer.tools(None)?;
    }
    // Messages that declare tools may stand before the format's own first turn.
    let begins = !is_empty && format.begins(messages, options.thinking);
    let mut begins_at = begins.then(|| format.declaring(messages));
    for step in &plan.steps {
        let comes = |at: &mut usize| step.message().is_none_or(|index| index >= *at);
        if begins_at.take_if(comes).is_some() {
            renderer.keyed(Key::BeginTurn, |renderer| renderer.own_turn(&grammar.begin_turn));
        }
        renderer.step(step, messages, reasoning_from, previous)?;
        previous = step.message().or(previous);
    }
    if begins_at.is_some() {
        renderer.keyed(Key::BeginTurn, |renderer| renderer.own_turn(&grammar.begin_turn));
    }
    if options.generation_prompt {
        renderer.out.prompt_at = Some(renderer.out.text.len());
        let prompt = if follows_result(messages, messages.len(), grammar) {
            prompt_after_tool(grammar, options.thinking)
        } else {
            prompt_of(grammar, options.thinking)
        };
        renderer.keyed(renderer.prompt_key(), |renderer| renderer.scaffold(prompt));
    } else if !options.continue_final {
        if options.stop_final {
            renderer.keyed(Key::Stop, |renderer| renderer.stop(messages.len()));
        }
        renderer.keyed(Key::End, |renderer| renderer.scaffold(&grammar.end));
    }
    Ok(renderer.out)
}

/// The generation prompt with or without reasoning, if the format has it.
pub(crate) fn prompt_of(grammar: &Grammar, thinking: Option<bool>) -> &[BoundPiece] {
    let asked = thinking.and_then(|thinking| grammar.thinking[usize::from(!thinking)].as_ref());
    asked.unwrap_or(&grammar.generation_prompt)
}

/// The same after a result, in a format that has a row for the message there.
fn prompt_after_tool(grammar: &Grammar, thinking: Option<bool>) -> &[BoundPiece] {
    let (plain, asked) = &grammar.after_tool_prompts;
    let asked = thinking.and_then(|thinking| asked[usize::from(!thinking)].as_ref());
    asked.unwrap_or(plain)
}

/// Results of text that do not follow an assistant's message or another result. The first message is not among them:
/// what stands before it is not known here.
fn results_apart<'m>(
    messages: &'m [Message],
    grammar: &Grammar,
) -> impl Iterator<Item = usize> + use<'m> {
    let may_be = grammar.has_text_results();
    let is_apart = move |pair: &[Message]| {
        may_be
            && pair[1].role == Role::Tool
            && !matches!(pair[0].role, Role::Assistant | Role::Tool)
    };
    messages.windows(2).enumerate().filter(move |(_, pair)| is_apart(pair)).map(|(at, _)| at + 1)
}

/// The error of a result that follows no assistant's message.
pub(crate) fn result_apart(at: usize) -> Error {
    let problem = "is a result, which can only stand after an assistant's message";
    Error::unplaced(format!("messages[{at}].role"), problem.to_owned(), at, MessagePart::Whole)
}

/// The first message whose reasoning is written.
fn reasoning_from(messages: &[Message], options: &RenderOptions<'_>, format: &Format) -> usize {
    let tools = options.tools.is_some() || options.before.tools;
    let is_own = |message: &Message| message.role == Role::Assistant;
    let after = |at: Option<usize>| at.map_or(0, |at| at + 1);
    if format.last_when() == LastWhen::NoThinking && options.thinking == Some(false) {
        return messages.len();
    }
    match format.reasoning(tools) {
        ReasoningWhen::All => 0,
        ReasoningWhen::None => messages.len(),
        ReasoningWhen::Last => messages.len().saturating_sub(1),
        ReasoningWhen::SinceLastUser => {
            after(messages.iter().rposition(|message| message.role == Role::User))
        }
        ReasoningWhen::SinceLastAnswer => after(messages.iter().rposition(Message::is_answer)),
        ReasoningWhen::UntilAnswered if options.before.answer => 0,
        ReasoningWhen::UntilAnswered => {
            let is_answered =
                messages.iter().rfind(|message| is_own(message)).is_some_and(Message::is_answer);
            if is_answered { after(messages.iter().position(Message::is_answer)) } else { 0 }
        }
    }
}

/// The reasoning of messages that is left out because of where the messages stand.
pub(crate) fn left_out(
    messages: &[Message],
    tools: bool,
    thinking: Option<bool>,
    format: &Format,
) -> Vec<(usize, MessagePart)> {
    if messages.iter().all(|message| message.reasoning.is_none()) {
        return Vec::new();
    }
    let before = Before { tools, ..Before::default() };
    let options = RenderOptions { thinking, before, ..RenderOptions::default() };
    let from = reasoning_from(messages, &options, format);
    let reasons = |message: &Message| message.reasoning.as_ref().is_some_and(|it| !it.is_empty());
    let earlier = messages.iter().take(from).enumerate().filter(|(_, message)| reasons(message));
    earlier.map(|(index, _)| (index, MessagePart::Reasoning)).collect()
}

/// Whether the message at `index` is an assistant's message without a header, because it follows a
/// result.
fn follows_result(messages: &[Message], index: usize, grammar: &Grammar) -> bool {
    let before = index.checked_sub(1).and_then(|before| messages.get(before));
    grammar.after_tool.is_some()
        && before.is_some_and(|message| message.role == Role::Tool)
        && messages.get(index).is_none_or(|message| message.role == Role::Assistant)
}

/// The filters of a message's texts; `None` for a text that is not written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) content: Option<Filter>,
    pub(crate) reasoning: Option<Filter>,
}

/// The filters of each message's texts; no filter for messages without a place.
pub(crate) fn written(
    messages: &[Message],
    before: Before,
    thinking: Option<bool>,
    format: &Format,
    grammar: &Grammar,
    vocab: &Vocab,
) -> Vec<Written> {
    let as_it_is = Written { content: Some(Filter::None), reasoning: None };
    let mut filters = vec![as_it_is; messages.len()];
    let Ok(plan) = Plan::new(messages, format, false, false) else { return filters };
    let options = RenderOptions { thinking, before, ..RenderOptions::default() };
    let renderer = Renderer::new(format, grammar, vocab, &options);
    let reasoning_from = reasoning_from(messages, &options, format);
    for step in plan.steps {
        let Step::Message { index, system } = step else { continue };
        let turn = Turn {
            system: system.map(|at| (&messages[at], at as i32)),
            after_result: follows_result(messages, index, grammar),
            reasons: messages[index].role != Role::Assistant || index >= reasoning_from,
            ..Turn::new(&messages[index], index as i32)
        };
        let Ok((row, _)) = renderer.row(&turn) else { continue };
        filters[index].content = None;
        for piece in pattern::walk(&row.rule.pieces) {
            match (piece, system) {
                (Piece::Field(Field::Content, filter), _) => filters[index].content = Some(*filter),
                (Piece::Field(Field::System, filter), Some(at)) => {
                    filters[at].content = Some(*filter);
                }
                (Piece::Field(Field::Reasoning, filter), _) => {
                    filters[index].reasoning = Some(*filter).filter(|_| turn.reasons);
                }
                _ => {}
            }
        }
    }
    filters
}

struct Renderer<'a> {
    grammar: &'a Grammar,
    format: &'a Format,
    vocab: &'a Vocab,
    options: &'a RenderOptions<'a>,
    out: Rendered,
    /// Whether text follows the last control token.
    in_run: bool,
    /// Whether the next text is encoded separately.
    cut: bool,
    /// The beginning of the generated text, if it is a run of its own.
    isolate_at: Option<usize>,
    /// Whether the written turn ends at the next token, if that token stops a model.
    ends_at_next: bool,
    /// Number of results after the assistant's last message.
    results: u32,
}

/// A message being written.
#[derive(Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "each says another thing about its place")]
struct Turn<'a> {
    message: &'a Message,
    index: i32,
    /// A system message inside a user's turn.
    system: Option<(&'a Message, i32)>,
    /// The previous message.
    previous: Option<&'a Message>,
    /// Whether it has no header, because it follows a result.
    after_result: bool,
    /// Whether its reasoning is written.
    reasons: bool,
    /// Whether it is the last message.
    is_last: bool,
    /// Whether something else than a result follows.
    is_unanswered: bool,
}

impl<'a> Turn<'a> {
    fn new(message: &'a Message, index: i32) -> Self {
        Self {
            message,
            index,
            system: None,
            previous: None,
            after_result: false,
            reasons: true,
            is_last: false,
            is_unanswered: false,
        }
    }

    /// Whether its calls, without text before them, would be read as calls of the previous message.
    fn joins(&self, row: &Row) -> bool {
        // In formats with frames, an answer ends a message.
        self.previous.is_some_and(|before| {
            before.role == Role::Assistant && (row.calls_only || !before.calls.is_empty())
        })
    }

    fn reasoning(&self) -> Option<&'a str> {
        self.message.reasoning.as_deref().filter(|_| self.reasons)
    }

    /// An error for a part without a place; only a caller's part can be left out.
    fn unplaced(&self, path: String, problem: String, part: MessagePart) -> Error {
        match usize::try_from(self.index) {
            Ok(index) => Error::unplaced(path, problem, index, part),
            Err(_) => Error::message(path, problem),
        }
    }

    fn source(&self, field: SourceField) -> Source {
        if self.index < 0 {
            return Source::NONE;
        }
        Source { message: self.index, field }
    }
}

impl<'a> Renderer<'a> {
    fn new(
        format: &'a Format,
        grammar: &'a Grammar,
        vocab: &'a Vocab,
        options: &'a RenderOptions<'a>,
    ) -> Self {
        Self {
            grammar,
            format,
            vocab,
            options,
            out: Rendered::default(),
            in_run: false,
            cut: false,
            isolate_at: None,
            ends_at_next: false,
            results: 0,
        }
    }

    /// Renders a step of the plan, after the message `previous`.
    fn step(
        &mut self,
        step: &Step<'_>,
        messages: &[Message],
        reasoning_from: usize,
        previous: Option<usize>,
    ) -> Result<()> {
        let grammar = self.grammar;
        let (index, system) = match *step {
            Step::Tools => return self.tools(None),
            Step::ToolsIn(index) => {
                return self.tools(Some(&Turn::new(&messages[index], index as i32)));
            }
            Step::ToolsInDefault(_) if grammar.tools_alone.is_some() => return self.tools(None),
            Step::ToolsInDefault(text) => {
                return self.tools(Some(&Turn::new(&Message::new(Role::System, text), -1)));
            }
            Step::DefaultSystem(text) => {
                return self.message(&Turn::new(&Message::new(Role::System, text), -1), false);
            }
            Step::WithoutSystem => {
                let turn = &grammar.without_system[usize::from(self.options.tools.is_some())];
                self.keyed(Key::WithoutSystem, |this| this.own_turn(turn));
                return Ok(());
            }
            Step::Message { index, system } => (index, system),
        };
        let open = self.options.continue_final && index + 1 == messages.len();
        let is_result = |at: Option<usize>| {
            at.and_then(|at| messages.get(at)).is_some_and(|m| m.role == Role::Tool)
        };
        let kept = self.options.kept.filter(|kept| kept.index == index as i32);
        let turn = Turn {
            system: system.map(|at| (&messages[at], at as i32)),
            previous: previous.and_then(|at| messages.get(at)),
            after_result: follows_result(messages, index, grammar),
            // A message of another role has no place here, and is refused.
            reasons: messages[index].role != Role::Assistant
                || index >= reasoning_from
                || kept.is_some(),
            is_last: index + 1 == messages.len() && !self.options.generation_prompt
                || kept.is_some_and(|kept| kept.is_last),
            is_unanswered: match messages.get(index + 1) {
                Some(next) => next.role != Role::Tool,
                None => self.options.generation_prompt,
            },
            ..Turn::new(&messages[index], index as i32)
        };
        let results = grammar.results.as_ref();
        let Some(results) = results.filter(|_| turn.message.role == Role::Tool) else {
            return self.message(&turn, open);
        };
        let goes_on = is_result(index.checked_sub(1));
        if goes_on {
            self.keyed(Key::ResultsBetween, |this| this.frame(&results.between, &turn));
        } else {
            self.keyed(Key::ResultsOpen, |this| this.frame(&results.open, &turn));
        }
        self.message(&turn, open)?;
        if !is_result(Some(index + 1)) {
            self.keyed(Key::ResultsClose, |this| this.frame(&results.close, &turn));
        }
        Ok(())
    }

    /// Writes pieces without a field.
    fn scaffold(&mut self, pieces: &[BoundPiece]) {
        for piece in pieces {
            self.fixed(piece, Source::NONE);
        }
    }

    /// Writes pieces without a field beside a message.
    fn frame(&mut self, pieces: &[BoundPiece], turn: &Turn<'_>) {
        for piece in pieces {
            self.fixed(piece, turn.source(SourceField::Scaffold));
        }
    }

    /// Ends the last message with a stop token, in formats without one at the end of a turn.
    fn stop(&mut self, messages: usize) {
        let begins_end = self.grammar.end.first();
        let is_ended = matches!(begins_end, Some(Piece::Control(ids))
            if ids.first().is_some_and(|id| self.grammar.stops(id.get())));
        if let Some(&id) = self.grammar.stop.first().filter(|_| self.ends_at_next && !is_ended) {
            let message = messages as i32 - 1;
            let source = Source { message, field: SourceField::Scaffold };
            self.control(id, source);
        }
    }

    /// Writes a piece without a field.
    fn fixed(&mut self, piece: &BoundPiece, source: Source) {
        match piece {
            Piece::Control(ids) => {
                if let Some(&id) = ids.first() {
                    self.control(id, source);
                }
            }
            Piece::Literal(FixedText::Encoded(text)) => {
                self.push_text(SpanKind::Literal, text, source);
            }
            Piece::Literal(FixedText::Taken(text)) => self.push(SpanKind::Taken, text, source),
            Piece::Cut => self.cut = true,
            Piece::Field(..) | Piece::Optional { .. } | Piece::Space | Piece::Rest => {}
        }
    }

    /// A turn of the format's own text.
    fn own_turn(&mut self, pieces: &[BoundPiece]) {
        let (options, format) = (self.options, self.format);
        for piece in pattern::written(pieces, |field| options.word(field, format).is_some()) {
            match *piece {
                Piece::Field(field, filter) => {
                    let word =
                        word_as_written(options.word(field, format).unwrap_or_default(), filter);
                    self.push_text(SpanKind::Literal, &word, Source::NONE);
                }
                _ => self.fixed(piece, Source::NONE),
            }
        }
    }

    fn message(&mut self, turn: &Turn<'_>, open: bool) -> Result<()> {
        let (row, present) = self.row(turn)?;
        self.keyed(self.row_key(row), |this| this.message_by(row, present, turn, open))
    }

    /// Writes a message by its row.
    fn message_by(
        &mut self,
        row: &Row,
        mut present: u32,
        turn: &Turn<'_>,
        open: bool,
    ) -> Result<()> {
        if self.options.tools.is_some() {
            present |= Field::Tools.bit();
        }
        if turn.index <= 0 && self.options.thinks() {
            present |= Field::Thinking.bit();
        }
        let calls_in_turn = present & Field::Calls.bit() != 0 && self.format.answers_in_turn();
        let is_assistant = turn.message.role == Role::Assistant;
        let first_span = self.out.spans.len();
        let is_after_open = self.ends_at_next;
        let mut generated_from = self.out.text.len();
        if is_assistant {
            generated_from += if begins_with_calls(row, present) {
                // Its calls begin with the prompt.
                self.grammar
                    .generation_prompt
                    .iter()
                    .map(|piece| self.written_bytes(piece))
                    .sum::<usize>()
            } else {
                self.prompt_bytes(turn, &row.rule.pieces, present)
            };
            if self.options.boundary == Boundary::Isolated {
                let asked = self.asked_bytes(&row.rule.pieces, present).unwrap_or(0);
                self.isolate_at = Some(generated_from.max(self.out.text.len() + asked));
            }
        }
        match turn.message.role {
            Role::Assistant => self.results = 0,
            Role::Tool => self.results += 1,
            _ => {}
        }
        check_reserved(turn, row)?;
        let Rule { pieces, open_at, text_at, close_at, .. } = &row.rule;
        let mut end = None;
        if open {
            let has_calls = present & Field::Calls.bit() != 0;
            let open_at = if has_calls { open_at } else { text_at };
            self.pieces(&pieces[..*open_at], turn, present)?;
        } else {
            let (before, closer) = pieces.split_at(*close_at);
            self.pieces(before, turn, present)?;
            if calls_in_turn {
                // Results go on in its turn: the token that begins them closes it.
                if let Some(&id) = self.grammar.stop.first().filter(|_| turn.is_unanswered) {
                    self.control(id, turn.source(SourceField::Scaffold));
                    end = Some(self.out.text.len());
                }
            } else if let Some((closer, after)) = closer.split_first() {
                self.piece(closer, turn, present)?;
                end = Some(self.out.text.len());
                self.pieces(after, turn, present)?;
            }
        }
        self.isolate_at = None;
        if is_after_open && turn.is_last && self.is_stop(&self.out.spans[first_span..]) {
            let problem = "is empty, and what would be written is the token that stops the turn before it; expected \
                           some text, or `add_generation_prompt`";
            return Err(Error::message(format!("messages[{}].content", turn.index), problem));
        }
        if is_assistant {
            let written = &self.out.spans[first_span..];
            if turn.is_last && !open && end.is_none() && self.is_prompt(written) {
                let problem = "is empty, and what would be written is a generation prompt; expected some text, \
                               or `add_generation_prompt`";
                return Err(Error::message(format!("messages[{}].content", turn.index), problem));
            }
            // The next row closes a row without a closing token.
            self.ends_at_next = !open && end.is_none();
            let end = end.unwrap_or(self.out.text.len());
            self.out.generated.push(generated_from.min(end)..end);
        }
        Ok(())
    }

    /// Writes the pieces of a row for the fields that are present.
    fn pieces(&mut self, pieces: &[BoundPiece], turn: &Turn<'_>, present: u32) -> Result<()> {
        pattern::written(pieces, |field| present & field.bit() != 0)
            .try_for_each(|piece| self.piece(piece, turn, present))
    }

    fn piece(&mut self, piece: &BoundPiece, turn: &Turn<'_>, present: u32) -> Result<()> {
        let message = turn.message;
        match piece {
            &Piece::Field(Field::Content, filter) => {
                self.content(message, filter, turn.source(SourceField::Content))?;
            }
            &Piece::Field(Field::Reasoning, filter) => {
                let reasoning = turn.reasoning().unwrap_or_default();
                self.text(reasoning, filter, turn.source(SourceField::Reasoning));
            }
            &Piece::Field(Field::System, filter) => {
                if let Some((system, index)) = turn.system {
                    let source = Source { message: index, field: SourceField::Content };
                    self.content(system, filter, source)?;
                }
            }
            Piece::Field(Field::Name, _) => {
                let name = message.name.as_deref().unwrap_or_default();
                let source = turn.source(SourceField::Name);
                if let Some(problem) = wrong_word(name) {
                    let path = source.to_string();
                    return Err(turn.unplaced(path, problem, MessagePart::Name));
                }
                self.slot(name, source);
            }
            Piece::Field(Field::Id, _) => {
                let id = message.call_id.as_deref().unwrap_or_default();
                let source = turn.source(SourceField::CallId);
                check_word(id, source)?;
                self.slot(id, source);
            }
            Piece::Field(Field::Index, _) => {
                let source = turn.source(SourceField::Scaffold);
                self.push_text(SpanKind::Literal, &self.results.to_string(), source);
            }
            Piece::Field(Field::Calls, _) => {
                if present & Field::Content.bit() != 0 {
                    let (scaffold, text) =
                        (turn.source(SourceField::Scaffold), &self.grammar.after_content);
                    self.keyed(Key::AfterContent, |this| {
                        this.push_text(SpanKind::Literal, text, scaffold);
                    });
                }
                self.calls(&message.calls, turn)?;
            }
            piece => self.fixed(piece, turn.source(SourceField::Scaffold)),
        }
        Ok(())
    }

    /// A content: each of its texts through the filter, and between them its other parts.
    fn content(&mut self, message: &Message, filter: Filter, source: Source) -> Result<()> {
        if source.message < 0 {
            self.keyed(Key::DefaultSystem, |this| this.text(&message.content, filter, source));
            return Ok(());
        }
        if message.media.is_empty() {
            self.text(&message.content, filter, source);
            return Ok(());
        }
        for piece in message.pieces() {
            match piece {
                Part::Text(text) => {
                    self.part_slot(&message.content, filter.trim(text), source);
                }
                Part::Media(media) => self.media(media, filter, source)?,
            }
        }
        Ok(())
    }

    /// A field for any text, through its filter.
    fn text(&mut self, text: &str, filter: Filter, source: Source) {
        if !filter.is_json() {
            return self.part_slot(text, filter.trim(text), source);
        }
        if filter == Filter::Value
            && let Some(value) = bare_value(text, self.vocab)
        {
            self.push_text(SpanKind::Slot { escaped: false }, &value, source);
            return self.keep_original(text, value);
        }
        self.push_text(SpanKind::Literal, "\"", source.scaffold());
        self.slot_as(text, source, true);
        self.push_text(SpanKind::Literal, "\"", source.scaffold());
    }
}

/// Length of the longest common beginning, in bytes.
fn common_prefix(one: &str, other: &str) -> usize {
    let pairs = one.chars().zip(other.chars());
    pairs.take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum()
}

/// Content that reads back as JSON other than a string, as it is written.
pub(crate) fn bare_value<'a>(text: &'a str, vocab: &Vocab) -> Option<Cow<'a, str>> {
    if json::is_bare_value(text) {
        return Some(json::normalise_value(text, vocab));
    }
    let text = vocab.normalise(text);
    json::is_bare_value(&vocab.spaced(Cow::Borrowed(&text))).then_some(text)
}

/// Checks a word of a header; an error has the path of the word's source.
fn check_word(word: &str, source: Source) -> Result<()> {
    wrong_word(word).map_or(Ok(()), |problem| Err(Error::message(source.to_string(), problem)))
}

/// Checks a word of a header that is an argument.
pub(crate) fn check_word_at(word: &str, argument: &'static str) -> Result<()> {
    wrong_word(word).map_or(Ok(()), |problem| Err(Error::message(argument, problem)))
}

/// Checks that the name at the beginning of a row does not begin another row.
fn check_reserved(turn: &Turn<'_>, row: &Row) -> Result<()> {
    let name = turn.message.name.as_deref().unwrap_or_default();
    if row.reserved.iter().any(|reserved| reserved.has(name)) {
        let problem = format!("is `{name}`, which begins another's turn here");
        return Err(Error::message(turn.source(SourceField::Name).to_string(), problem));
    }
    Ok(())
}

/// Renders pieces without a field.
pub(crate) fn render_scaffold(
    pieces: &[BoundPiece],
    format: &Format,
    grammar: &Grammar,
    vocab: &Vocab,
) -> Rendered {
    let options = &RenderOptions::default();
    let mut renderer = Renderer::new(format, grammar, vocab, options);
    renderer.scaffold(pieces);
    renderer.out
}
