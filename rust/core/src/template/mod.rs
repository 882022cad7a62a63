//! Chat templates, jinja2's language, rendered over strings whose every run has an origin: the template, or a path
//! of the caller's data.
//!
//! In: a template's source; messages, tools and variables. Out: the text that jinja2 renders in the environment of
//! transformers, with its runs. Templates are untrusted: work, depth and size are bounded.

#![allow(clippy::cast_precision_loss, reason = "Python converts integers to floats as they are")]
#![allow(
    clippy::single_match_else,
    clippy::similar_names,
    reason = "one arm a case reads best here"
)]

mod access;
mod arithmetic;
mod ast;
pub(crate) mod budget;
mod clock;
mod error;
mod filters;
mod format;
mod frame;
mod functions;
mod given;
mod hidden;
mod input;
mod json;
mod lexer;
mod machine;
mod meter;
mod methods;
mod parser;
mod paths;
mod premises;
mod shape;
mod sort;
mod tests;
mod text;
mod value;
mod watch;

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::message::{Node, Owned};
use ast::{Body, Symbol};
pub use clock::Clock;
use error::{Fault, Problem};
pub(crate) use hidden::{Followed, Hidden, Sought};
use input::Reader;
pub(crate) use input::{Contents, Expected, REASONING_KEYS};
use machine::Machine;
pub(crate) use paths::{Paths, is_free_key};
use premises::Notes;
pub(crate) use premises::Premises;
pub(crate) use shape::ROLES;
use text::{Run, Text};
use value::Value;

/// Largest source of a template, in bytes. Published ones have up to 40,000.
const MAX_SOURCE: usize = 1 << 20;

/// A chat template: parsed once, rendered any number of times, by any thread.
///
/// ```
/// use chatcodec::{Codec, EncodeOptions, Format, Message, Role, Template, Vocab};
///
/// let template = Template::parse(
///     "{% for message in messages %}<|im_start|>{{ message.role }}\n\
///      {{ message.content }}<|im_end|>\n{% endfor %}",
/// )?;
/// let format = Format::built_in("internlm2")?;
/// let codec = Codec::with_template(&template, &[], &format, &Vocab::embedded())?;
/// let messages = vec![Message::new(Role::User, "Hi<|im_end|>")];
/// let encoding = codec.encode(messages, None, &EncodeOptions::default())?;
/// assert_eq!(encoding.ids().iter().filter(|&&id| id == 92542).count(), 1); // the template's
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Template {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// As jinja2 reads it, to show where an error is.
    source: String,
    body: Body,
    names: Vec<Arc<str>>,
}

/// What a template is rendered with, beside messages and tools.
pub struct RenderOptions<'a> {
    /// Whether the prompt of the assistant's turn is written: the variable `add_generation_prompt`.
    pub add_generation_prompt: bool,
    /// Strings of the caller's that are the template's own: `bos_token`, `eos_token` and others by name.
    pub own: &'a [(String, String)],
    /// The text of the time by a format of `strftime`; none for a format that gives none.
    pub now: &'a dyn Fn(&str) -> Option<String>,
}

/// What a rendering is given of a caller's texts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way<'a> {
    AsGiven,
    /// As given, and what the rendering takes for granted of the texts is taken down.
    Noted,
    /// A word of its own for each text.
    Harmless,
    /// The texts, without what these hide.
    Hiding(&'a Hidden),
}

/// A rendered template: its text, and where each part of it comes from.
///
/// ```
/// use chatcodec::{RenderOptions, Template};
/// use serde_json::json;
///
/// let template = Template::parse("{% for m in messages %}[{{ m.content }}]{% endfor %}")?;
/// let options = RenderOptions { add_generation_prompt: false, own: &[], now: &|_| None };
/// let rendered = template.render(&json!([{"role": "user", "content": "Hi"}]), &[], &options)?;
/// assert_eq!(rendered.text(), "[Hi]");
/// let run = &rendered.runs()[1];
/// assert_eq!(&rendered.text()[run.text.clone()], "Hi");
/// assert_eq!(run.path.as_deref(), Some("messages[0].content"));
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RenderedTemplate {
    text: String,
    runs: Vec<Run>,
    messages: Vec<(usize, i32)>,
    generated: Vec<Range<usize>>,
    paths: Paths,
    /// The first content that the template looked at, if it looked at any.
    looked: Option<text::Origin>,
    /// What it took for granted of free texts; none if it looked at something, or nothing was taken down.
    premises: Option<Premises>,
}

/// A stretch of a rendered text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateRun {
    /// Bytes of the text.
    pub text: Range<usize>,
    /// Path of the caller's value that the text comes from; none for the template's own text.
    pub path: Option<String>,
    /// Index of the message that the text belongs to; -1 for text of none.
    pub message: i32,
}

/// A run of a rendered text, for the encoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// Bytes of the text.
    pub(crate) text: Range<usize>,
    /// Number of the caller's value; none for the template's own text.
    pub(crate) path: Option<u32>,
    /// First byte in the caller's string; none for text that was changed.
    pub(crate) place: Option<usize>,
    /// The message that the template's loop was at; -1 outside of the loop.
    pub(crate) within: i32,
}

impl Template {
    /// Largest source of a template, in bytes.
    pub const MAX_SOURCE_BYTES: usize = MAX_SOURCE;

    /// Parses a template.
    pub fn parse(source: &str) -> Result<Self> {
        if source.len() > MAX_SOURCE {
            let problem = format!("has {} bytes, expected at most {MAX_SOURCE}", source.len());
            let (line, column, snippet) = (0, 0, String::new());
            return Err(Error::Template { line, column, snippet, problem, is_of_values: false });
        }
        let source = lexer::normalized(source);
        match parser::parse(&source) {
            Ok(parser::Parsed { body, names }) => {
                Ok(Self { inner: Arc::new(Inner { source, body, names }) })
            }
            Err(fault) => Err(located(&source, &fault)),
        }
    }

    /// The source, with the line ends that jinja2 gives it.
    pub(crate) fn source(&self) -> &str {
        &self.inner.source
    }

    /// The texts of the template: what it writes as it is, and the strings of its expressions.
    pub(crate) fn texts(&self) -> Vec<String> {
        let tokens = lexer::tokens(&self.inner.source).unwrap_or_default();
        let text = |(token, _)| match token {
            lexer::Token::Text(text) | lexer::Token::Str(text) => Some(text),
            _ => None,
        };
        tokens.into_iter().filter_map(text).collect()
    }

    /// The strings of the template's expressions: what it may look for.
    pub(crate) fn strings(&self) -> Vec<String> {
        let tokens = lexer::tokens(&self.inner.source).unwrap_or_default();
        let text = |(token, _)| match token {
            lexer::Token::Str(text) => Some(text),
            _ => None,
        };
        tokens.into_iter().filter_map(text).collect()
    }

    /// Whether the template mentions a variable.
    pub fn mentions(&self, variable: &str) -> bool {
        self.inner.names.iter().any(|name| **name == *variable)
    }

    /// The names of variables that the template uses, its own among them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.inner.names.iter().map(|name| &**name)
    }

    /// Renders messages. `tools` and further variables come by name.
    pub fn render<N: Node>(
        &self,
        messages: &N,
        variables: &[(&str, &N)],
        options: &RenderOptions<'_>,
    ) -> Result<RenderedTemplate> {
        let expected = Expected::default();
        self.render_as(Way::AsGiven, &expected, messages, variables, options)
    }

    /// Renders messages as the template expects them.
    pub(crate) fn render_as<N: Node>(
        &self,
        way: Way<'_>,
        expected: &Expected,
        messages: &N,
        variables: &[(&str, &N)],
        options: &RenderOptions<'_>,
    ) -> Result<RenderedTemplate> {
        let hidden = if let Way::Hiding(hidden) = way { Some(hidden) } else { None };
        let reader = Reader::new(expected, hidden, matches!(way, Way::Harmless));
        let is_noted = matches!(way, Way::Noted);
        let mut rendered = self.rendered(reader, is_noted, messages, variables, options)?;
        if let Some(hidden) = hidden {
            hidden.restore(&mut rendered);
        }
        Ok(rendered)
    }

    fn rendered<N: Node>(
        &self,
        mut reader: Reader<'_>,
        is_noted: bool,
        messages: &N,
        variables: &[(&str, &N)],
        options: &RenderOptions<'_>,
    ) -> Result<RenderedTemplate> {
        let mut values: Vec<(&str, Value)> =
            Vec::with_capacity(4 + options.own.len() + variables.len());
        values.push(("add_generation_prompt", Value::Bool(options.add_generation_prompt)));
        // What the reference always passes.
        values.push(("tools", Value::None));
        values.push(("documents", Value::None));
        for (name, text) in options.own {
            values.push((name, Value::Str(Text::source(text))));
        }
        values.push(("messages", reader.messages("messages", messages)?));
        for (name, value) in variables {
            values.push((name, reader.argument(name, *value)?));
        }
        self.run(reader, is_noted, values, options.now).map_err(|fault| match fault.problem() {
            Problem::Raised(problem) => {
                Error::message("messages", format!("refused by the template: {problem}"))
            }
            _ => located(&self.inner.source, &fault),
        })
    }

    /// Renders a declaration of tools: the variables are `tools`, as the caller gave them, `functions`, without what
    /// is around them, and those of the format.
    ///
    /// # Errors
    /// [`Error::Message`] for tools that the template refuses, or that are too much for it.
    pub(crate) fn declare(
        &self,
        tools: &Owned,
        variables: &[(String, Owned)],
    ) -> Result<RenderedTemplate> {
        let expected = Expected::default();
        let mut reader = Reader::new(&expected, None, false);
        let tools = reader.argument("tools", &tools)?;
        let mut functions = Vec::new();
        if let Value::List(tools) = &tools {
            let function = |tool: &Value| match tool {
                Value::Dict(tool) => tool.get_str("function").cloned(),
                _ => None,
            };
            functions.extend(tools.items.iter().map(|tool| function(tool).unwrap_or(tool.clone())));
        }
        let refused = |problem: &Problem| {
            let problem = match problem {
                Problem::Raised(problem) => problem.clone(),
                problem => format!("cannot be declared: {}", problem.text()),
            };
            Error::message("tools", problem)
        };
        let functions = Value::list(functions).map_err(|problem| refused(&problem))?;
        let mut values = vec![("tools", tools), ("functions", functions)];
        for (name, value) in variables {
            values.push((name, reader.argument(name, &value)?));
        }
        let untimed = |_: &str| None;
        self.run(reader, false, values, &untimed).map_err(|fault| refused(fault.problem()))
    }

    fn run(
        &self,
        reader: Reader<'_>,
        is_noted: bool,
        values: Vec<(&str, Value)>,
        now: &dyn Fn(&str) -> Option<String>,
    ) -> std::result::Result<RenderedTemplate, Fault> {
        let inner = &*self.inner;
        let mut known: Vec<(Symbol, Value)> = Vec::with_capacity(values.len());
        for (name, value) in values {
            let Some(symbol) = inner.names.iter().position(|known| **known == *name) else {
                continue;
            };
            let symbol = symbol as Symbol;
            match known.iter_mut().find(|(known, _)| *known == symbol) {
                Some((_, known)) => *known = value,
                None => known.push((symbol, value)),
            }
        }
        let world = machine::World { now };
        let mut machine = Machine::new(&inner.names, &world, reader.paths.len(), reader.bytes);
        machine.notes = is_noted.then(|| Notes::new(&reader.paths));
        let frame = Machine::frame(known);
        machine.run(&inner.body, &frame)?;
        let looked = machine.looked;
        let notes = machine.notes.take().filter(|_| looked.is_none());
        let premises = notes.and_then(Notes::finish);
        let (out, messages, generated) = machine.finish();
        let (text, runs) = out.into_parts();
        budget::spend(text.len());
        Ok(RenderedTemplate {
            text,
            runs,
            messages,
            generated,
            paths: reader.paths,
            looked,
            premises,
        })
    }
}

/// The error of a fault, with its line, column and the line's text.
fn located(source: &str, fault: &Fault) -> Error {
    let at = fault.at().min(source.len());
    let start = source[..at].rfind('\n').map_or(0, |at| at + 1);
    let end = source[at..].find('\n').map_or(source.len(), |found| at + found);
    let line = source[..at].matches('\n').count() + 1;
    let column = source[start..at].chars().count() + 1;
    let snippet = chatcodec_vocab::excerpt(source[start..end].trim(), 160).to_string();
    let problem = fault.problem().text().to_owned();
    let is_of_values = matches!(fault.problem(), Problem::Value(_));
    Error::Template { line, column, snippet, problem, is_of_values }
}

impl RenderedTemplate {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What `{% generation %}` blocks wrote: ranges of bytes.
    pub fn generated(&self) -> &[Range<usize>] {
        &self.generated
    }

    /// Whether the template looked at what a caller's text says. If not, its own text depends on the conversation's
    /// shape alone.
    pub(crate) fn has_looked(&self) -> bool {
        self.looked.is_some()
    }

    /// Conditions for free texts under which the template writes the same around them; none if they are not known.
    pub(crate) fn premises(&self) -> Option<&Premises> {
        self.premises.as_ref()
    }

    /// Path of the first content that the template looked at, if it is known.
    pub(crate) fn first_looked(&self) -> Option<String> {
        Some(self.paths.text(self.looked?.path()?))
    }

    /// The runs that come from a caller's value and are more than white space. Of each: the number of the value, and
    /// the bytes of the caller's string that the run holds; no bytes where the template changed the string.
    pub(crate) fn seen(&self) -> impl Iterator<Item = (u32, Option<Range<usize>>)> + '_ {
        let starts = std::iter::once(0).chain(self.runs.iter().map(|run| run.end));
        let says = |(run, start): &(&Run, usize)| !self.text[*start..run.end].trim().is_empty();
        self.runs.iter().zip(starts).filter(says).filter_map(|(run, start)| {
            let place = run.place.byte().map(|byte| byte..byte + run.end - start);
            Some((run.origin.path()?, place))
        })
    }

    /// The paths of the caller's values.
    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The paths of the caller's values, without their strings.
    pub(crate) fn into_paths(self) -> Paths {
        self.paths.without_strings()
    }

    /// Cuts off what follows the last text of a message.
    pub(crate) fn end_after_message(&mut self, message: i32) {
        let is_of =
            |run: &&Run| run.origin.path().is_some_and(|path| self.paths.message(path) == message);
        let Some(end) = self.runs.iter().rfind(is_of).map(|run| run.end) else { return };
        self.text.truncate(end);
        self.runs.retain(|run| run.end <= end);
        self.messages.retain(|(from, _)| *from < end.max(1));
        self.generated.retain(|range| range.start < end);
        for range in &mut self.generated {
            range.end = range.end.min(end);
        }
    }

    /// The runs of the text, in order.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::with_capacity(self.runs.len() + self.messages.len());
        let (mut start, mut next) = (0, 0);
        for run in &self.runs {
            let path = run.origin.path();
            let mut at = start;
            while at < run.end {
                while self.messages.get(next).is_some_and(|(from, _)| *from <= at) {
                    next += 1;
                }
                let end = self.messages.get(next).map_or(run.end, |(from, _)| (*from).min(run.end));
                let within = self.messages[next.saturating_sub(1)].1;
                let place = run.place.byte().map(|place| place + at - start);
                parts.push(Part { text: at..end, path, place, within });
                at = end;
            }
            start = run.end;
        }
        parts
    }

    /// The runs of the text, in order; adjacent ones differ in path or message.
    pub fn runs(&self) -> Vec<TemplateRun> {
        let mut runs: Vec<TemplateRun> = Vec::new();
        for part in self.parts() {
            let path = part.path.map(|path| self.paths.text(path));
            let message = part.path.map_or(part.within, |path| self.paths.message(path));
            match runs.last_mut() {
                Some(last) if last.path == path && last.message == message => {
                    last.text.end = part.text.end;
                }
                _ => runs.push(TemplateRun { text: part.text, path, message }),
            }
        }
        runs
    }
}
