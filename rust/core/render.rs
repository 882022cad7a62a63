//! Messages to spans: a walk over the format's table.
//!
//! A row fits a message when the message has every field that the row needs and the row has a place
//! for every field that the message has. When none fits the message is refused: text is never
//! dropped.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::Format;
use crate::format::grammar::{Grammar, Op, Row, Rule};
use crate::format::pattern::{Field, is_word};
use crate::json;
use crate::message::{Call, CallBody, Message, Role, leading_systems};
use crate::span::{Source, SourceField, Span, SpanKind};
use crate::vocab::Vocab;

/// Names and languages are at most this long: a reader holds a header until it has it all.
pub(crate) const MAX_WORD_BYTES: usize = 1024;

/// How runs of text are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Boundary {
    /// As the reference does: all text between two control tokens is one run.
    #[default]
    Reference,
    /// What the model generates is a run of its own, as it is when it generates.
    Isolated,
}

/// What is rendered beside the messages, and how.
#[derive(Debug, Clone, Default)]
pub(crate) struct RenderOptions<'a> {
    pub(crate) tools: Option<&'a str>,
    pub(crate) generation_prompt: bool,
    pub(crate) continue_final: bool,
    pub(crate) boundary: Boundary,
}

/// A conversation as spans over one text.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) spans: Vec<Span>,
    /// The stretches of `text` that a model generates: an assistant's turn after its generation
    /// prompt, up to and including the token that stops it.
    pub(crate) generated: Vec<Range<usize>>,
}

/// Renders messages that have been read and linked.
pub(crate) fn render(
    messages: &[Message],
    format: &Format,
    grammar: &Grammar,
    vocab: &Vocab,
    options: &RenderOptions<'_>,
) -> Result<Rendered> {
    if options.tools.is_some() && !format.has_tools() {
        let problem = format!("have no place in format `{}`", format.name());
        return Err(Error::message("tools", problem));
    }
    let mut renderer = Renderer { grammar, format, vocab, options, out: Rendered::default() };
    renderer.scaffold(&grammar.begin);
    let tools_at = leading_systems(messages);
    for (index, message) in messages.iter().enumerate() {
        if index == tools_at {
            renderer.tools();
        }
        let open = options.continue_final && index + 1 == messages.len();
        renderer.message(message, index, open)?;
    }
    if tools_at == messages.len() {
        renderer.tools();
    }
    if options.generation_prompt {
        renderer.scaffold(&grammar.generation_prompt);
    } else if !options.continue_final {
        renderer.scaffold(&grammar.end);
    }
    Ok(renderer.out)
}

struct Renderer<'a> {
    grammar: &'a Grammar,
    format: &'a Format,
    vocab: &'a Vocab,
    options: &'a RenderOptions<'a>,
    out: Rendered,
}

/// A message being written: its index, and where its generated part begins.
struct Turn<'a> {
    message: &'a Message,
    index: i32,
    /// For an assistant's turn, the end of what the generation prompt writes.
    generated_from: Option<usize>,
}

impl<'a> Renderer<'a> {
    fn push(&mut self, kind: SpanKind, text: &str, source: Source) {
        if text.is_empty() && kind == SpanKind::Literal {
            return;
        }
        let start = self.out.text.len();
        self.out.text.push_str(text);
        let text = start..self.out.text.len();
        self.out.spans.push(Span { kind, text, source, skipped: 0 });
    }

    fn slot(&mut self, text: &str, source: Source) {
        if !text.is_empty() {
            self.push(SpanKind::Slot { escaped: false }, text, source);
        }
    }

    fn control(&mut self, op: &Op, source: Source) {
        if let Op::Control(ids) = op
            && let Some(&id) = ids.first()
        {
            let vocab = self.vocab;
            self.push(SpanKind::Control(id), vocab.spelling(id.get()), source);
        }
    }

    /// Writes steps that hold no field.
    fn scaffold(&mut self, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Control(_) => self.control(op, Source::NONE),
                Op::Literal(text) => self.push(SpanKind::Literal, text, Source::NONE),
                Op::Cut => self.push(SpanKind::Cut, "", Source::NONE),
                Op::Field(_) | Op::Guard { .. } | Op::Space => {}
            }
        }
    }

    fn tools(&mut self) {
        let grammar = self.grammar;
        if let (Some(text), Some(rule)) = (self.options.tools, &grammar.tools) {
            for op in &rule.ops {
                match op {
                    Op::Field(_) => {
                        self.slot(text, Source { message: -1, field: SourceField::Tools });
                    }
                    op => self.scaffold(std::slice::from_ref(op)),
                }
            }
        }
    }

    fn message(&mut self, message: &Message, index: usize, open: bool) -> Result<()> {
        let row = self.row(message, index)?;
        let is_assistant = message.role == Role::Assistant;
        let start = self.out.text.len();
        let prompt = self.grammar.generation_prompt.iter();
        let prompt_bytes: usize = prompt.map(|op| self.written_bytes(op)).sum();
        let turn = Turn {
            message,
            index: index as i32,
            generated_from: is_assistant.then_some(start + prompt_bytes),
        };
        let Rule { ops, open_at, close_at, .. } = &row.rule;
        let ops = if open { &ops[..*open_at] } else { &ops[..] };
        let mut at = 0;
        while let Some(op) = ops.get(at) {
            at += 1;
            if let &Op::Guard { field, len } = op
                && present(message, row) & field.bit() == 0
            {
                at += len;
            }
            self.op(op, &turn)?;
            if at == close_at + 1
                && let Some(from) = turn.generated_from
            {
                self.out.generated.push(from..self.out.text.len());
            }
        }
        if open && let Some(from) = turn.generated_from {
            self.out.generated.push(from..self.out.text.len());
        }
        Ok(())
    }

    fn written_bytes(&self, op: &Op) -> usize {
        match op {
            Op::Control(ids) => ids.first().map_or(0, |&id| self.vocab.spelling(id.get()).len()),
            Op::Literal(text) => text.len(),
            _ => 0,
        }
    }

    fn op(&mut self, op: &Op, turn: &Turn<'_>) -> Result<()> {
        let scaffold = Source { message: turn.index, field: SourceField::Scaffold };
        let source = |field| Source { message: turn.index, field };
        match op {
            Op::Control(_) => self.control(op, scaffold),
            Op::Literal(text) => self.literal(text, turn, scaffold),
            Op::Field(Field::Content) => {
                self.slot(&turn.message.content, source(SourceField::Content));
            }
            Op::Field(Field::Name) => {
                let name = turn.message.name.as_deref().unwrap_or_default();
                check_word(name, &format!("messages[{}].name", turn.index))?;
                self.slot(name, source(SourceField::Name));
            }
            Op::Field(Field::Calls) => {
                for (i, call) in turn.message.calls.iter().enumerate() {
                    self.call(call, i, turn)?;
                }
            }
            Op::Cut => self.push(SpanKind::Cut, "", scaffold),
            Op::Field(_) | Op::Guard { .. } | Op::Space => {}
        }
        Ok(())
    }

    /// Writes ordinary text; what a model generates may be a run of its own.
    fn literal(&mut self, text: &str, turn: &Turn<'_>, source: Source) {
        let start = self.out.text.len();
        let split = turn
            .generated_from
            .filter(|_| self.options.boundary == Boundary::Isolated)
            .and_then(|from| from.checked_sub(start))
            .filter(|&split| split <= text.len());
        let Some(split) = split else { return self.push(SpanKind::Literal, text, source) };
        self.push(SpanKind::Literal, &text[..split], source);
        self.push(SpanKind::Cut, "", source);
        self.push(SpanKind::Literal, &text[split..], source);
    }

    fn call(&mut self, call: &Call, i: usize, turn: &Turn<'_>) -> Result<()> {
        let path = || format!("messages[{}].tool_calls[{i}]", turn.index);
        let spec = self.format.call_spec(&call.body);
        let at = spec.and_then(|spec| self.format.calls().iter().position(|c| c.kind == spec.kind));
        let item = at.and_then(|at| self.grammar.items.iter().find(|item| item.call == at));
        let (Some(spec), Some(item)) = (spec, item) else {
            let problem =
                format!("is of a kind that format `{}` has no place for", self.format.name());
            return Err(Error::message(path(), problem));
        };
        let scaffold = Source { message: turn.index, field: SourceField::Scaffold };
        let number = i as u32;
        let source = |field| Source { message: turn.index, field };
        let mut ops = item.rule.ops.iter();
        while let Some(op) = ops.next() {
            match (op, &call.body) {
                (Op::Control(_), _) => self.control(op, scaffold),
                (Op::Literal(text), _) => self.push(SpanKind::Literal, text, scaffold),
                (Op::Guard { len, .. }, CallBody::Code { language: None, .. }) => {
                    ops.by_ref().take(*len).for_each(drop);
                }
                (Op::Field(Field::Language), CallBody::Code { language: Some(language), .. }) => {
                    check_word(language, &format!("{}.code.language", path()))?;
                    self.slot(language, source(SourceField::Language(number)));
                }
                (Op::Field(Field::Source), CallBody::Code { source: code, .. }) => {
                    self.slot(code, source(SourceField::Code(number)));
                }
                (Op::Field(Field::Call), CallBody::Function { name, arguments }) => {
                    let Some(object) = &spec.object else { continue };
                    check_name(name, path)?;
                    check_arguments(arguments, path)?;
                    let members = [
                        (&object.name, SourceField::FunctionName(number), true),
                        (&object.arguments, SourceField::Arguments(number), false),
                    ];
                    let order = if object.arguments_first { [1, 0] } else { [0, 1] };
                    for (nth, at) in order.into_iter().enumerate() {
                        let (keys, field, is_name) = &members[at];
                        let (open, quote) = (["{", ", "][nth], if *is_name { "\"" } else { "" });
                        let key = keys.first().map_or("", |key| key);
                        self.push(
                            SpanKind::Literal,
                            &format!("{open}\"{key}\": {quote}"),
                            scaffold,
                        );
                        if *is_name {
                            self.escaped_slot(name, source(*field));
                        } else {
                            self.trimmed_slot(arguments, source(*field));
                        }
                        self.push(SpanKind::Literal, quote, scaffold);
                    }
                    self.push(SpanKind::Literal, "}", scaffold);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A slot without the JSON white space around it.
    fn trimmed_slot(&mut self, text: &str, source: Source) {
        let written = json::trim(text);
        self.slot(written, source);
        if let Some(span) = self.out.spans.last_mut() {
            // JSON white space is ASCII: as many code points as bytes.
            span.skipped = text.find(written).unwrap_or(0) as u32;
        }
    }

    fn escaped_slot(&mut self, text: &str, source: Source) {
        if !text.is_empty() {
            let start = self.out.text.len();
            json::escape_into(text, &mut self.out.text);
            let text = start..self.out.text.len();
            let kind = SpanKind::Slot { escaped: true };
            self.out.spans.push(Span { kind, text, source, skipped: 0 });
        }
    }

    /// The row that fits, or what has no place.
    fn row(&self, message: &Message, index: usize) -> Result<&'a Row> {
        let role = message.role;
        let named = message.name.as_ref().filter(|name| self.format.is_named(name, role));
        let candidates = || {
            self.grammar.rows.iter().filter(|row| row.role == role && row.name.as_ref() == named)
        };
        let fits = |row: &&Row, present| {
            let (required, optional) = fields(row);
            present & required == required && present & !(required | optional) == 0
        };
        let exact = candidates().find(|row| fits(row, present(message, row)));
        // Only when none fits does a missing content count as empty text.
        let empty =
            || candidates().find(|row| fits(row, present(message, row) | Field::Content.bit()));
        let answers = message.call_id.is_some() && role != Role::Tool;
        if message.reasoning.is_none()
            && !answers
            && let Some(row) = exact.or_else(empty)
        {
            return Ok(row);
        }
        let placed: u32 = candidates().map(fields).fold(0, |all, (a, b)| all | a | b);
        let has = |field: Field| placed & field.bit() != 0;
        let culprit = if message.reasoning.is_some() {
            "reasoning"
        } else if answers {
            "tool_call_id"
        } else if !message.calls.is_empty() && !has(Field::Calls) {
            "tool_calls"
        } else if message.name.is_some() && named.is_none() && !has(Field::Name) {
            "name"
        } else {
            "content"
        };
        let (role_name, format) = (role.name(), self.format.name());
        let article = if role == Role::Assistant { "an" } else { "a" };
        let mut problem =
            format!("has no place in {article} {role_name} message of format `{format}`");
        let closed = self.format.names_of(role);
        if culprit == "name" && !closed.is_empty() {
            problem.push_str(", expected none or one of `");
            problem.push_str(&closed.join("`, `"));
            problem.push('`');
        }
        Err(Error::message(format!("messages[{index}].{culprit}"), problem))
    }
}

/// The fields that a message has for a row.
fn present(message: &Message, row: &Row) -> u32 {
    let mut present = 0;
    if !message.content.is_empty() {
        present |= Field::Content.bit();
    }
    if message.name.is_some() && message.name != row.name {
        present |= Field::Name.bit();
    }
    if !message.calls.is_empty() {
        present |= Field::Calls.bit();
    }
    present
}

/// The fields that a row needs, and those it has a place for.
fn fields(row: &Row) -> (u32, u32) {
    let (mut required, mut optional) = (0, 0);
    let mut guarded = 0usize;
    for op in &row.rule.ops {
        match op {
            Op::Guard { len, .. } => guarded = len + 1,
            Op::Field(field) if guarded > 0 => optional |= field.bit(),
            Op::Field(field) => required |= field.bit(),
            _ => {}
        }
        guarded = guarded.saturating_sub(1);
    }
    (required, optional)
}

fn check_word(word: &str, path: &str) -> Result<()> {
    if word.len() > MAX_WORD_BYTES {
        let length = word.len();
        let problem = format!("is {length} bytes long, expected at most {MAX_WORD_BYTES}");
        return Err(Error::message(path, problem));
    }
    if !is_word(word) {
        let problem = format!("is {word:?}, expected letters, digits and `_.:-` only");
        return Err(Error::message(path, problem));
    }
    Ok(())
}

/// Arguments that are one value cannot close the call's object or add to it.
fn check_arguments(arguments: &str, path: impl Fn() -> String) -> Result<()> {
    json::check_value(json::trim(arguments))
        .map_err(|problem| Error::message(format!("{}.function.arguments", path()), problem))
}

fn check_name(name: &str, path: impl Fn() -> String) -> Result<()> {
    let length: usize = name.chars().map(json::escaped_len).sum();
    if length > MAX_WORD_BYTES {
        let problem = format!("is {length} bytes long, expected at most {MAX_WORD_BYTES}");
        return Err(Error::message(format!("{}.function.name", path()), problem));
    }
    Ok(())
}

/// Renders steps that hold no field, by themselves.
pub(crate) fn render_scaffold(
    ops: &[Op],
    format: &Format,
    grammar: &Grammar,
    vocab: &Vocab,
) -> Rendered {
    let options = &RenderOptions::default();
    let mut renderer = Renderer { grammar, format, vocab, options, out: Rendered::default() };
    renderer.scaffold(ops);
    renderer.out
}
