//! Messages to spans: a walk over the format's table.
//!
//! A row fits a message when the message has every field that the row needs and the row has a place
//! for every field that the message has. When none fits the message is refused: text is never
//! dropped.

mod calls;
mod choose;
mod media;
mod plan;
mod refused;
mod unplaced;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::error::{Error, MessagePart, Result};
use crate::format::{
    DeclaredTools, Format, LastWhen, ReasoningWhen, ToolsPart, ToolsPlace, ToolsRun,
    word_as_written,
};
use crate::grammar::{BoundPiece, FixedText, Grammar, Row, Rule};
use crate::json;
use crate::message::{Message, Piece as Part, Role};
use crate::pattern::{self, Field, Filter, Piece};
use crate::span::{Source, SourceField, Span, SpanKind};
use crate::template::Paths;
use crate::word::wrong_word;
use chatcodec_vocab::{ControlId, DummyPrefix, Vocab};
use choose::begins_with_calls;
use media::check_media;
use plan::{Plan, Step, check_answers};
pub(crate) use unplaced::find_unplaced;

/// Estimated number of bytes of a message beside its content.
const HEADER_BYTES: usize = 48;
const HEADER_SPANS: usize = 6;

/// How runs of text are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Boundary {
    /// As the reference: all text between two control tokens is one run.
    #[default]
    Reference,
    /// The generated text is a run of its own, as during generation.
    Isolated,
}

/// Options and arguments of rendering beside the messages.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct RenderOptions<'a> {
    pub(crate) tools: Option<&'a DeclaredTools>,
    pub(crate) generation_prompt: bool,
    /// Whether the generation prompt asks for reasoning.
    pub(crate) thinking: Option<bool>,
    /// The date and the reasoning effort, in formats that write them.
    pub(crate) date: Option<&'a str>,
    pub(crate) effort: Option<&'a str>,
    pub(crate) continue_final: bool,
    pub(crate) stop_final: bool,
    pub(crate) boundary: Boundary,
    pub(crate) before: Before,
    /// A message that is written as if it were the last.
    pub(crate) kept: Option<Kept>,
}

/// What precedes the messages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Before {
    /// Whether an answer of the assistant's does.
    pub(crate) answer: bool,
    /// Whether tools are declared.
    pub(crate) tools: bool,
    /// Number of the messages that stand already: they are written for their ends.
    pub(crate) given: usize,
}

impl<'a> RenderOptions<'a> {
    /// Whether reasoning is asked for, in the turn that begins the conversation.
    fn thinks(&self) -> bool {
        self.thinking == Some(true) && !self.before.answer
    }

    /// The word for a field of the first turn: the caller's, or else the format's. Tools have an empty word, because
    /// they are written elsewhere.
    fn word(&self, field: Field, format: &'a Format) -> Option<&'a str> {
        match field {
            Field::Date => self.date,
            Field::Effort => self.effort.or_else(|| format.default_effort()),
            Field::Tools => self.tools.map(|_| ""),
            _ => None,
        }
    }
}

/// An assistant's message that is written with its reasoning, regardless of later messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) index: i32,
    /// Whether the message is written as the last one.
    pub(crate) is_last: bool,
}

/// What precedes a rendered text: a vocabulary may put a space before the first text, or before each text after a
/// control token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Follows {
    /// Nothing: a conversation begins.
    #[default]
    Nothing,
    /// A control token.
    Control,
    /// Text, which the rendered text continues.
    Text,
}

/// A conversation as spans over one text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) spans: Vec<Span>,
    /// The parts of `text` that a model generates: an assistant's turn after its generation prompt,
    /// up to and including the stop token.
    pub(crate) generated: Vec<Range<usize>>,
    /// The caller's text of spans that normalisation changed.
    pub(crate) originals: HashMap<usize, String>,
    /// What precedes it in the conversation.
    pub(crate) follows: Follows,
    /// The beginning of the generation prompt in `text`, if there is one.
    pub(crate) prompt_at: Option<usize>,
    /// Paths of the values of a template.
    pub(crate) paths: Option<Arc<Paths>>,
}

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
    renderer.scaffold(&grammar.begin);
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
            renderer.own_turn(&grammar.begin_turn);
        }
        renderer.step(step, messages, reasoning_from, previous)?;
        previous = step.message().or(previous);
    }
    if begins_at.is_some() {
        renderer.own_turn(&grammar.begin_turn);
    }
    if options.generation_prompt {
        renderer.out.prompt_at = Some(renderer.out.text.len());
        renderer.scaffold(if follows_result(messages, messages.len(), grammar) {
            prompt_after_tool(grammar, options.thinking)
        } else {
            prompt_of(grammar, options.thinking)
        });
    } else if !options.continue_final {
        if options.stop_final {
            renderer.stop(messages.len());
        }
        renderer.scaffold(&grammar.end);
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
                self.own_turn(&grammar.without_system[usize::from(self.options.tools.is_some())]);
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
        self.frame(if goes_on { &results.between } else { &results.open }, &turn);
        self.message(&turn, open)?;
        if !is_result(Some(index + 1)) {
            self.frame(&results.close, &turn);
        }
        Ok(())
    }

    fn push(&mut self, kind: SpanKind, text: &str, source: Source) {
        let start = self.out.text.len();
        self.out.text.push_str(text);
        let text = start..self.out.text.len();
        self.out.spans.push(Span { kind, text, source, skipped: 0 });
    }

    /// Text of the format or of the caller, after a pending cut.
    fn push_text(&mut self, kind: SpanKind, text: &str, source: Source) {
        if text.is_empty() {
            return;
        }
        self.ends_at_next = false;
        let start = self.out.text.len();
        if let Some(at) = self.isolate_at.and_then(|at| at.checked_sub(start))
            && at < text.len()
        {
            self.isolate_at = None;
            self.push_text(kind, &text[..at], source);
            self.push(SpanKind::Cut, "", source);
            return self.push_text(kind, &text[at..], source);
        }
        if std::mem::take(&mut self.cut) && self.in_run {
            self.push(SpanKind::Cut, "", source.scaffold());
            if self.vocab.dummy_prefix() == DummyPrefix::EveryRun {
                self.push(SpanKind::Literal, " ", source.scaffold());
            }
        }
        self.in_run = true;
        self.push(kind, text, source);
    }

    /// The caller's text, normalised by the vocabulary.
    fn slot(&mut self, text: &str, source: Source) {
        self.slot_as(text, source, false);
    }

    fn slot_as(&mut self, text: &str, source: Source, escaped: bool) {
        if text.is_empty() {
            return;
        }
        let normalised = self.vocab.normalise(text);
        if escaped {
            let mut written = String::with_capacity(normalised.len());
            json::escape_normalised(&normalised, &|text| self.vocab.normalise(text), &mut written);
            self.push_text(SpanKind::Slot { escaped }, &written, source);
        } else {
            self.push_text(SpanKind::Slot { escaped }, &normalised, source);
        }
        self.keep_original(text, normalised);
    }

    /// Keeps the caller's text of the last slot, if normalisation changed it.
    fn keep_original(&mut self, given: &str, normalised: Cow<'_, str>) {
        if matches!(normalised, Cow::Owned(changed) if changed != given) {
            self.out.originals.insert(self.out.spans.len() - 1, given.to_owned());
        }
    }

    /// A slot for `whole` without the white space that is not written.
    fn part_slot(&mut self, whole: &str, part: &str, source: Source) {
        self.slot(part, source);
        self.skip_before(whole, part);
    }

    /// The same for a JSON value, whose texts are normalised.
    fn json_slot(&mut self, whole: &str, source: Source) {
        let part = json::trim(whole);
        let normalised = json::normalise_value(part, self.vocab);
        self.push_text(SpanKind::Slot { escaped: false }, &normalised, source);
        self.keep_original(part, normalised);
        self.skip_before(whole, part);
    }

    /// Records that the last slot is `part`, without the text before it in `whole`.
    fn skip_before(&mut self, whole: &str, part: &str) {
        if !part.is_empty()
            && let Some(span) = self.out.spans.last_mut()
        {
            let before = part.as_ptr() as usize - whole.as_ptr() as usize;
            span.skipped = whole[..before].chars().count() as u32;
        }
    }

    /// A slot for text made of a caller's texts, which are normalised.
    fn made_slot(&mut self, text: &str, source: Source) {
        self.push_text(SpanKind::Slot { escaped: false }, text, source);
    }

    fn control(&mut self, id: ControlId, source: Source) {
        let (vocab, grammar) = (self.vocab, self.grammar);
        if let Some(text) = grammar.text_of(id) {
            return self.push_text(SpanKind::Literal, text, source);
        }
        if let Some(tag) = vocab.tag(id.get()) {
            self.push_text(SpanKind::Literal, &tag.before, source);
            self.control(tag.token, source);
            self.push_text(SpanKind::Literal, &tag.after, source);
            tag.next.iter().for_each(|&next| self.control(next, source));
            return;
        }
        (self.in_run, self.cut) = (false, false);
        self.push(SpanKind::Control(id), vocab.spelling(id.get()), source);
        if std::mem::take(&mut self.ends_at_next)
            && self.grammar.stops(id.get())
            && let Some(last) = self.out.generated.last_mut()
        {
            last.end = self.out.text.len();
        }
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

    /// The turn that declares tools: its own turn, or a message's.
    fn tools(&mut self, turn: Option<&Turn<'_>>) -> Result<()> {
        let grammar = self.grammar;
        let alone = grammar.tools_alone.as_ref().filter(|_| turn.is_none());
        let rule = alone.or(grammar.tools.as_ref());
        let (Some(tools), Some(rule)) = (self.options.tools, rule) else { return Ok(()) };
        let scaffold = turn.map_or(Source::NONE, |turn| turn.source(SourceField::Scaffold));
        if let Some(turn) = turn {
            // Its row decides which parts have a place.
            self.row(turn)?;
        }
        let content = turn.map_or("", |turn| &turn.message.content);
        let has_media = turn.is_some_and(|turn| !turn.message.media.is_empty());
        let mut fields = pattern::walk(&rule.pieces);
        let filter = fields.find_map(|piece| match piece {
            Piece::Field(Field::System | Field::Content, filter) => Some(*filter),
            _ => None,
        });
        let has_content = has_media || !filter.unwrap_or_default().trim(content).is_empty();
        let thinks = self.options.thinks();
        let is_present = |field: Field| match field {
            Field::Tools => true,
            Field::Thinking => thinks,
            _ => has_content,
        };
        for piece in pattern::written(&rule.pieces, is_present) {
            match (piece, turn) {
                (Piece::Field(Field::Tools, _), _) => self.declare(tools),
                (&Piece::Field(_, filter), Some(turn)) => {
                    self.content(turn.message, filter, turn.source(SourceField::Content))?;
                }
                (piece, _) => self.fixed(piece, scaffold),
            }
        }
        Ok(())
    }

    /// Writes the declaration of the tools.
    fn declare(&mut self, tools: &DeclaredTools) {
        let grammar = self.grammar;
        let source = Source { message: -1, field: SourceField::Tools };
        for run in tools.runs() {
            match run {
                ToolsRun::Token(nth) => self.fixed(&grammar.declaring[*nth], source.scaffold()),
                ToolsRun::Text { text, parts } => {
                    let whole = &tools.text()[text.clone()];
                    // A vocabulary may normalise a text over the border of two parts.
                    let is_changed = matches!(self.vocab.normalise(whole), Cow::Owned(_));
                    if parts.is_empty() || is_changed {
                        self.slot(whole, source);
                        continue;
                    }
                    for part in parts {
                        self.part_of_tools(&tools.text()[part.text.clone()], part);
                    }
                }
            }
        }
        self.out.paths = tools.paths().cloned();
    }

    fn part_of_tools(&mut self, text: &str, part: &ToolsPart) {
        let source = |field| Source { message: -1, field };
        let Some(path) = part.path else {
            return self.push_text(SpanKind::Literal, text, source(SourceField::Scaffold));
        };
        let kind = SpanKind::Slot { escaped: false };
        self.push_text(kind, text, source(SourceField::Path(path)));
        let nth = self.out.spans.len() - 1;
        if let Some(span) = self.out.spans.last_mut() {
            span.skipped = part.skipped;
        }
        if let Some(original) = &part.original {
            self.out.originals.insert(nth, original.to_string());
        }
    }

    fn message(&mut self, turn: &Turn<'_>, open: bool) -> Result<()> {
        let (row, mut present) = self.row(turn)?;
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

    /// Whether the written text is one token that stops a model.
    fn is_stop(&self, spans: &[Span]) -> bool {
        matches!(spans, [Span { kind: SpanKind::Control(id), .. }] if self.grammar.stops(id.get()))
    }

    /// Whether the written text equals a generation prompt.
    fn is_prompt(&self, spans: &[Span]) -> bool {
        if spans.iter().any(|span| matches!(span.kind, SpanKind::Slot { .. })) {
            return false;
        }
        let is_control = |piece: &&BoundPiece| matches!(piece, Piece::Control(ids) if ids.first().is_some_and(|id| !id.is_text()));
        let controls =
            spans.iter().filter(|span| matches!(span.kind, SpanKind::Control(_))).count();
        let written: usize = spans.iter().map(|span| span.text.len()).sum();
        self.grammar.prompts().any(|prompt| {
            !prompt.is_empty()
                && controls == prompt.iter().filter(is_control).count()
                && written == prompt.iter().map(|piece| self.written_bytes(piece)).sum::<usize>()
        })
    }

    /// Number of bytes of a row that a generation prompt writes: that of these options if the row begins with all of
    /// it, or else the longest one that it does. Where it begins with none, the beginning that it has in common with
    /// that of these options.
    fn prompt_bytes(&self, turn: &Turn<'_>, pieces: &[BoundPiece], present: u32) -> usize {
        let (grammar, thinking) = (self.grammar, self.options.thinking);
        let begun = |prompt| self.begun_bytes(prompt, pieces, present);
        let (own, whole): (_, Option<usize>) = if turn.after_result {
            let (plain, asked) = &grammar.after_tool_prompts;
            let all = [plain].into_iter().chain(asked.iter().flatten());
            let whole = all.filter_map(|prompt| begun(prompt).ok()).max();
            (prompt_after_tool(grammar, thinking), whole)
        } else {
            let whole = grammar.prompts().filter_map(|prompt| begun(prompt).ok()).max();
            (prompt_of(grammar, thinking), whole)
        };
        begun(own).unwrap_or_else(|common| whole.unwrap_or(common))
    }

    /// Number of bytes of a prompt if a row begins with all of it; otherwise, as the error, those of their common
    /// beginning.
    fn begun_bytes(
        &self,
        prompt: &[BoundPiece],
        pieces: &[BoundPiece],
        present: u32,
    ) -> std::result::Result<usize, usize> {
        use FixedText::Encoded;
        let mut bytes = 0;
        let mut row = pattern::written(pieces, |field| present & field.bit() != 0);
        let mut prompt = prompt.iter().peekable();
        while let Some(asked) = prompt.next() {
            match (asked, row.next()) {
                (Piece::Literal(Encoded(text)), Some(Piece::Literal(Encoded(row)))) => {
                    let same = common_prefix(text, row);
                    bytes += same;
                    if same < text.len() || same < row.len() && prompt.peek().is_some() {
                        return Err(bytes);
                    }
                }
                (asked, Some(row)) if asked == row => bytes += self.written_bytes(asked),
                _ => return Err(bytes),
            }
        }
        Ok(bytes)
    }

    /// Number of bytes of a row that a whole prompt writes whose markers are text: its last id ends there.
    fn asked_bytes(&self, pieces: &[BoundPiece], present: u32) -> Option<usize> {
        if self.grammar.text_markers.is_empty() {
            return None;
        }
        let begins = |prompt: &[BoundPiece]| {
            let row = pattern::written(pieces, |field| present & field.bit() != 0);
            prompt.iter().zip(row).filter(|(prompt, row)| prompt == row).count() == prompt.len()
        };
        let whole = self.grammar.prompts().filter(|prompt| begins(prompt));
        whole.map(|prompt| prompt.iter().map(|piece| self.written_bytes(piece)).sum()).max()
    }

    fn written_bytes(&self, piece: &BoundPiece) -> usize {
        match piece {
            Piece::Control(ids) => ids.first().map_or(0, |&id| {
                self.grammar.text_of(id).unwrap_or_else(|| self.vocab.spelling(id.get())).len()
            }),
            Piece::Literal(FixedText::Encoded(text)) => text.len(),
            Piece::Literal(FixedText::Taken(text)) => text.len(),
            _ => 0,
        }
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
                    let scaffold = turn.source(SourceField::Scaffold);
                    self.push_text(SpanKind::Literal, &self.grammar.after_content, scaffold);
                }
                self.calls(&message.calls, turn)?;
            }
            piece => self.fixed(piece, turn.source(SourceField::Scaffold)),
        }
        Ok(())
    }

    /// A content: each of its texts through the filter, and between them its other parts.
    fn content(&mut self, message: &Message, filter: Filter, source: Source) -> Result<()> {
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
