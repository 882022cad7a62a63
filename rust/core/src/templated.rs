//! Messages to spans by a chat template.
//!
//! In: a template, a caller's values, a vocabulary. Out: the spans that a format gives too, so that encodings, sources
//! and masks have one path. A control token is a spelling that lies in the template's own text as a whole; roles of a
//! closed set count as the template's. Cost: one rendering; a second one, of short words, if the template looks at what
//! a text says; a third one, in which it does not find what it looks for, if its control tokens depend on that; none for
//! a conversation of a shape that is known.

mod expected;
mod leaves;
mod places;
mod prompts;
mod stencil;

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;

use crate::conversation::{Dropped, Values};
use crate::encode::{EncodeOptions, End, Note, NoteKind, OnDependent, Trail};
use crate::error::{Error, Result};
use crate::json;
use crate::message::{Node, Owned, Role};
use crate::path::Path;
use crate::render::{Boundary, Rendered};
use crate::span::{Source, SourceField, Span, SpanKind};
use crate::template::{
    Clock, Expected, Followed, Hidden, Part, Paths, Premises, ROLES, RenderOptions,
    RenderedTemplate, Sought, Template, Way, budget,
};
use chatcodec_vocab::{ControlId, TokenId, Vocab};
use leaves::Kind;
pub(crate) use leaves::check_placed;
use places::Places;
pub(crate) use prompts::{Cut, Prompts};
use stencil::{Found, MAX_TIMES, Shape, Stencils, Written};

/// A template as the writing side of a codec.
#[derive(Debug, Clone)]
pub(crate) struct TemplateWriter {
    template: Template,
    /// Special tokens, by the names that the template has for them.
    own: Vec<(String, String)>,
    /// Text of the generation prompt after a question, where messages without one end before it.
    prompt: String,
    /// Whether the template writes arguments that are objects; some write their JSON text alone.
    reads_objects: bool,
    expected: Expected,
    /// Where it writes a caller's texts, once that is asked for.
    places: Arc<OnceLock<Places>>,
    /// What its expressions may look for, once a caller's text says it.
    sought: Arc<OnceLock<Arc<Sought>>>,
    needs: Needs,
    /// Where an answer begins, the text of the prompt: as it is, and with reasoning asked for, and with none, if the
    /// template has a variable for that.
    asked: Vec<String>,
    /// The ids that end an assistant's turn.
    stops: Vec<TokenId>,
    /// What it writes for conversations of shapes that came before.
    stencils: Arc<Stencils>,
}

/// What a template needs beside messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// It fails on a question without tools, or refuses it, and writes one with them.
    Tools,
    /// It fails on a question, with or without tools: with this error.
    More(Error),
}

/// The variables by which templates are asked for reasoning.
const THINKING: [&str; 2] = ["enable_thinking", "thinking"];

/// The vocabulary in which the added words that a template writes itself are control.
pub(crate) fn with_words_of(
    template: &Template,
    own: &[(String, String)],
    vocab: &Vocab,
) -> Result<Vocab> {
    let texts = template.texts();
    let own = own.iter().map(|(_, text)| text);
    Ok(vocab.without_words_of(texts.iter().chain(own).map(String::as_str))?)
}

/// The result of a template: spans, and whether its control tokens depend on the caller's text.
pub(crate) struct Templated {
    pub(crate) rendered: Rendered,
    pub(crate) trail: Trail,
    pub(crate) dependent: Option<Dependent>,
    /// What the template passed over.
    pub(crate) dropped: Vec<Dropped>,
}

/// The control tokens of a template are others than those of a harmless conversation of the same shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependent {
    /// Path of the first text, number or name that the template looks at, if it is known.
    looked: Option<String>,
    /// Whether they are written nevertheless, and not those of a harmless conversation.
    is_followed: bool,
}

impl Dependent {
    /// What is reported of it.
    pub(crate) fn note(&self, tokens: Range<usize>) -> Note {
        let (kind, text) = if self.is_followed {
            (NoteKind::Dependent, "control tokens of the template depend on the caller's text")
        } else {
            (
                NoteKind::Unfollowed,
                "the caller's text asks the template for other control tokens, and was not followed",
            )
        };
        let text = match &self.looked {
            Some(path) => format!("{text}: it looks at `{path}`"),
            None => text.to_owned(),
        };
        Note { kind, text, tokens, message: -1 }
    }

    fn error(self) -> Error {
        let problem = "has text on which the template's control tokens depend, expected text for which the template \
                       writes what it writes for any other; `on_dependent=\"text\"` encodes it";
        Error::message(self.looked.unwrap_or_else(|| "messages".into()), problem)
    }
}

impl TemplateWriter {
    pub(crate) fn new(template: &Template, own: &[(String, String)]) -> Self {
        let mut writer = Self {
            template: template.clone(),
            own: own.to_vec(),
            prompt: String::new(),
            reads_objects: true,
            expected: Expected::default(),
            places: Arc::default(),
            sought: Arc::default(),
            needs: Needs::Nothing,
            asked: Vec::new(),
            stops: Vec::new(),
            stencils: Arc::default(),
        };
        writer.needs = writer.find_needs();
        writer.prompt = writer.find_prompt().unwrap_or_default();
        writer.reads_objects = writer.find_reads_objects();
        writer.expected = expected::found(&writer);
        let plain = EncodeOptions::default();
        let mut asked = vec![plain.clone()];
        if THINKING.iter().any(|name| template.mentions(name)) {
            asked.extend([true, false].map(|thinks| {
                let mut options = plain.clone();
                let variables = THINKING.map(|name| (name.to_owned(), Owned::Bool(thinks)));
                options.template.variables = variables.into();
                options
            }));
        }
        writer.asked = asked.iter().filter_map(|options| writer.find_header(options)).collect();
        writer
    }

    /// The same, with the ids that end an assistant's turn.
    pub(crate) fn stopped_by(self, stops: Vec<TokenId>) -> Self {
        Self { stops, stencils: Arc::default(), ..self }
    }

    /// The template.
    pub(crate) fn template(&self) -> &Template {
        &self.template
    }

    /// Special tokens, by the names that the template has for them.
    pub(crate) fn own(&self) -> &[(String, String)] {
        &self.own
    }

    /// Gives arguments as engines do: JSON text as an object to a template that writes objects, and an object as JSON
    /// text to one that writes text alone.
    pub(crate) fn with_arguments(&self, messages: &mut Owned) {
        let Owned::List(messages) = messages else { return };
        for message in messages {
            let Some(Owned::List(calls)) = message.get_mut("tool_calls") else { continue };
            for call in calls {
                let function = match call.get("function") {
                    Some(_) => call.get_mut("function"),
                    None => Some(call),
                };
                let arguments = function.and_then(|it| it.get_mut("arguments"));
                if let Some(arguments) = arguments {
                    self.set_arguments(arguments);
                }
            }
        }
    }

    fn set_arguments(&self, arguments: &mut Owned) {
        match arguments {
            Owned::Text(text) if self.reads_objects => {
                if text.trim().is_empty() {
                    *arguments = Owned::Map(Vec::new());
                } else if let object @ Owned::Map(_) = Owned::of_json(text) {
                    *arguments = object;
                }
            }
            Owned::Map(_) if !self.reads_objects => {
                let mut text = String::new();
                // What JSON cannot write is the template's to refuse.
                let path = Path::Argument("arguments");
                if json::write(&&*arguments, path, &mut text).is_ok() {
                    *arguments = Owned::Text(text);
                }
            }
            _ => {}
        }
    }

    fn find_reads_objects(&self) -> bool {
        const JSON: &str = r#"{"kaqz": "vaqz"}"#;
        let text = |text: &str| Owned::Text(text.into());
        let map = |members: &[(&str, Owned)]| {
            Owned::Map(members.iter().map(|(key, value)| (text(key), value.clone())).collect())
        };
        let is_written = |arguments: Owned| {
            let function = map(&[("name", text("fnqz")), ("arguments", arguments)]);
            let call = map(&[
                ("id", text("call00001")),
                ("type", text("function")),
                ("function", function),
            ]);
            let calls = Owned::List(vec![call]);
            let answer =
                map(&[("role", text("assistant")), ("content", text("")), ("tool_calls", calls)]);
            let messages =
                vec![map(&[("role", text("user")), ("content", text("question"))]), answer];
            let values = self.probe(messages);
            let written = self.rendered(&values, false, &EncodeOptions::default(), Way::AsGiven);
            // What Python shows of an object is no JSON: such a template expects text.
            written.is_ok_and(|it| it.text().contains("vaqz") && !it.text().contains("'vaqz'"))
        };
        is_written(Owned::of_json(JSON)) || !is_written(text(JSON))
    }

    /// Where the template writes a caller's texts.
    fn places(&self) -> &Places {
        self.places.get_or_init(|| budget::within(|| Places::found(self)))
    }

    /// What of a conversation the template writes nowhere, in words.
    pub(crate) fn lacking(&self) -> Vec<&'static str> {
        self.places().lacking()
    }

    /// Whether the template is known to write calls.
    pub(crate) fn writes_calls(&self) -> bool {
        self.places().is_known((Some(Role::Assistant), Kind::CallName))
    }

    /// Whether the template is known to write reasoning.
    pub(crate) fn writes_reasoning(&self) -> bool {
        self.places().is_known((Some(Role::Assistant), Kind::Reasoning))
    }

    /// What the template needs beside messages.
    pub(crate) fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Values to try the template with: messages, and tools if it needs them.
    pub(crate) fn probe(&self, messages: Vec<Owned>) -> Values {
        let tools = (self.needs == Needs::Tools).then(probe_tools);
        Values { messages: Owned::List(messages), tools }
    }

    fn find_needs(&self) -> Needs {
        let question = || Owned::List(vec![probe_question()]);
        let fails = |tools: Option<Owned>| {
            let values = Values { messages: question(), tools };
            match self.rendered(&values, true, &EncodeOptions::default(), Way::AsGiven) {
                Err(
                    error @ (Error::Message { .. } | Error::Template { is_of_values: true, .. }),
                ) => Some(error),
                _ => None,
            }
        };
        match fails(None) {
            Some(_) if fails(Some(probe_tools())).is_none() => Needs::Tools,
            Some(error @ Error::Template { .. }) => Needs::More(error),
            // A template may refuse a question, and write one after a system message.
            _ => Needs::Nothing,
        }
    }

    fn find_prompt(&self) -> Option<String> {
        let values = self.probe(vec![probe_question()]);
        let render = |prompted| {
            self.rendered(&values, prompted, &EncodeOptions::default(), Way::AsGiven)
                .map(|it| it.text().to_owned())
        };
        let (with, without) = (render(true).ok()?, render(false).ok()?);
        let same = common_prefix(&with, &without);
        Some(with[same..].to_owned())
    }

    /// The text of a prompt, with the options' variables, from where the turn of an answer begins. A template may
    /// write a prompt whether it is asked for one or not, and what ends a turn with the turn after it.
    fn find_header(&self, options: &EncodeOptions) -> Option<String> {
        let question = self.probe(vec![probe_question()]);
        let asked = self.rendered(&question, true, options, Way::AsGiven).ok()?;
        let answered = self.probe(vec![probe_question(), probe_answer()]);
        let answered = self.rendered(&answered, false, options, Way::AsGiven).ok()?;
        let (text, paths) = (answered.text(), answered.paths());
        let is_answer = |part: &&Part| match part.path {
            Some(path) if part.within < 0 => paths.message(path) == 1,
            _ => part.within == 1,
        };
        let start = answered.parts().iter().find(is_answer)?.text.start;
        asked.text().strip_prefix(text.get(..start)?).map(str::to_owned)
    }

    fn rendered(
        &self,
        values: &Values,
        prompted: bool,
        options: &EncodeOptions,
        way: Way<'_>,
    ) -> Result<RenderedTemplate> {
        let clock = clock_of(options);
        self.rendered_at(values, prompted, options, way, &|format| clock.format(format))
    }

    fn rendered_at(
        &self,
        values: &Values,
        prompted: bool,
        options: &EncodeOptions,
        way: Way<'_>,
        now: &dyn Fn(&str) -> Option<String>,
    ) -> Result<RenderedTemplate> {
        let render = RenderOptions { add_generation_prompt: prompted, own: &self.own, now };
        let mut variables: Vec<(&str, &Owned)> = Vec::new();
        variables.extend(values.tools.as_ref().map(|tools| ("tools", tools)));
        let own = options.template.variables.iter();
        variables.extend(own.map(|(name, value)| (name.as_str(), value)));
        let variables: Vec<(&str, &&Owned)> =
            variables.iter().map(|(name, value)| (*name, value)).collect();
        let messages = &&values.messages;
        self.template.render_as(way, &self.expected, messages, &variables, &render)
    }

    /// Writes a conversation.
    ///
    /// # Errors
    /// [`Error::Message`] for messages that are no list of dicts, that the template refuses, or on whose text its
    /// control depends if the options refuse that; [`Error::Template`] where the template fails.
    pub(crate) fn write(
        &self,
        values: &Values,
        vocab: &Vocab,
        options: &EncodeOptions,
    ) -> Result<Templated> {
        let roles = roles(&values.messages)?;
        let ends_with_assistant = roles.last() == Some(&Some(Role::Assistant));
        let end = end_of(ends_with_assistant, options)?;
        let trail = |roles: Vec<Option<Role>>| Trail {
            roles: roles.into_iter().map(|role| role.unwrap_or(Role::User)).collect(),
            end,
            ..Trail::default()
        };
        let clock = clock_of(options);
        let shape = Shape::new(values, end, options);
        let found = shape.as_ref().map_or(Found::Nothing, |it| self.stencils.find(it, &clock));
        if let (Some(shape), Found::Stencil(stencil)) = (&shape, &found)
            && let Some((rendered, dropped)) = stencil.write(shape, vocab)
        {
            return Ok(Templated { rendered, trail: trail(roles), dependent: None, dropped });
        }
        let times = RefCell::new(Vec::new());
        let written = |way| -> Result<RenderedTemplate> {
            let now = |format: &str| {
                let text = clock.format(format);
                let mut times = times.borrow_mut();
                if times.len() <= MAX_TIMES && times.iter().all(|(known, _)| known != format) {
                    times.push((format.to_owned(), text.clone()));
                }
                text
            };
            let prompted = end == End::Prompted;
            let mut rendered = self.rendered_at(values, prompted, options, way, &now)?;
            if end == End::Open {
                rendered.end_after_message(roles.len() as i32 - 1);
            }
            Ok(rendered)
        };
        let comes_again = matches!(found, Found::Again);
        let mut rendered = written(if comes_again { Way::Noted } else { Way::AsGiven })?;
        let mut dependent = None;
        if rendered.has_looked() {
            let harmless = written(Way::Harmless);
            let depends = |rendered: &RenderedTemplate| {
                harmless.as_ref().map_or(true, |harmless| {
                    let [one, other] =
                        [rendered, harmless].map(|it| Layout::new(it, &roles, vocab));
                    !one.own_control().eq(other.own_control())
                })
            };
            if depends(&rendered) {
                let looked = rendered.first_looked();
                let mut is_followed = true;
                if options.template.on_dependent == OnDependent::Text
                    && let Some(hidden) = self.hidden(values, &roles, vocab, options)
                    && let Ok(hiding) = written(Way::Hiding(&hidden))
                    && !depends(&hiding)
                {
                    rendered = hiding;
                    is_followed = false;
                }
                dependent = Some(Dependent { looked, is_followed });
            }
        }
        if let Some(dependent) = &dependent
            && options.template.on_dependent == OnDependent::Error
        {
            return Err(dependent.clone().error());
        }
        let dropped = leaves::passed_over(&rendered, &roles, |place| self.places().has(place));
        let layout = Layout::new(&rendered, &roles, vocab);
        let given = match options.template.variables[..] {
            [] => None,
            _ => self.find_header(options),
        };
        let own = given.as_ref().or_else(|| self.asked.first()).unwrap_or(&self.prompt);
        let headers = Headers { own, others: &self.asked, stops: &self.stops };
        let prompt = (end == End::Prompted).then_some(self.prompt.as_str());
        let mut written = layout.write(&rendered, &headers, prompt, options.boundary);
        // The time of a prompt that is written for these options alone is not compared.
        let is_timeless = given.is_none() || !self.template.mentions("strftime_now");
        let is_learned = comes_again && is_timeless && !rendered.has_looked();
        if let Some(shape) = shape.filter(|_| is_learned) {
            let premises = layout.premises(&rendered, &headers, prompt);
            let times = times.into_inner();
            self.stencils.learn(
                shape,
                premises,
                &Written { rendered: &written, template: &rendered, times, dropped: &dropped },
            );
        }
        written.paths = Some(Arc::new(rendered.into_paths()));
        Ok(Templated { rendered: written, trail: trail(roles), dependent, dropped })
    }

    /// What the template is not to find in these texts; none where no mark is left for it.
    fn hidden(
        &self,
        values: &Values,
        roles: &[Option<Role>],
        vocab: &Vocab,
        options: &EncodeOptions,
    ) -> Option<Hidden> {
        let followed = |role: &Option<Role>| match role {
            Some(Role::System) => Followed::Switches,
            _ => Followed::Nothing,
        };
        let mut texts = Vec::new();
        values.messages.texts(&mut texts);
        let variables = options.template.variables.iter().map(|(_, value)| value);
        for value in values.tools.iter().chain(variables) {
            value.texts(&mut texts);
        }
        let sought =
            self.sought.get_or_init(|| Arc::new(Sought::new(self.template.strings().into_iter())));
        Hidden::new(vocab, sought, roles.iter().map(followed).collect(), &texts)
    }
}

fn text(text: &str) -> Owned {
    Owned::Text(text.into())
}

fn probe_question() -> Owned {
    Owned::Map(vec![(text("role"), text("user")), (text("content"), text("question"))])
}

/// One tool without parameters.
fn probe_tools() -> Owned {
    let schema = Owned::Map(vec![
        (text("type"), text("object")),
        (text("properties"), Owned::Map(Vec::new())),
    ]);
    let function = Owned::Map(vec![
        (text("name"), text("tool")),
        (text("description"), text("description")),
        (text("parameters"), schema),
    ]);
    let tool = Owned::Map(vec![(text("type"), text("function")), (text("function"), function)]);
    Owned::List(vec![tool])
}

fn probe_answer() -> Owned {
    Owned::Map(vec![(text("role"), text("assistant")), (text("content"), text("answer"))])
}

/// The time that a template is given.
fn clock_of(options: &EncodeOptions) -> Clock {
    let day = options.date.as_deref().and_then(Clock::parse_day);
    day.or(options.template.clock).unwrap_or_else(Clock::utc)
}

/// The end of the messages under these options.
fn end_of(ends_with_assistant: bool, options: &EncodeOptions) -> Result<End> {
    if options.continue_final && !ends_with_assistant {
        let problem = "do not end with an assistant's message, which `continue_final` continues";
        return Err(Error::message("messages", problem));
    }
    if options.continue_final && options.add_generation_prompt == Some(true) {
        let problem = "is on beside `continue_final`; expected one of them";
        return Err(Error::message("add_generation_prompt", problem));
    }
    if options.stop_final {
        let problem = "has no place in a template, which writes the ends of its turns itself";
        return Err(Error::message("stop_final", problem));
    }
    let prompted = options.add_generation_prompt.unwrap_or(!ends_with_assistant);
    Ok(End::new(prompted && !options.continue_final, options.continue_final))
}

/// The role of each message; none for a role outside the known ones.
fn roles(messages: &Owned) -> Result<Vec<Option<Role>>> {
    let Owned::List(items) = messages else {
        return Err(Error::message("messages", (&messages).view().expected("a list")));
    };
    let role = |(at, item): (usize, &Owned)| {
        let path = || format!("messages[{at}]");
        match item {
            Owned::Map(_) => Ok(item.get("role").and_then(Owned::as_str).and_then(known_role)),
            Owned::Surrogate => Err(Error::message(path(), "is a string, expected a dict")),
            other => Err(Error::message(path(), (&other).view().expected("a dict"))),
        }
    };
    items.iter().enumerate().map(role).collect()
}

/// The role of a word that a client or a template has for it.
pub(crate) fn known_role(word: &str) -> Option<Role> {
    match word {
        "model" | "gpt" | "bot" => Some(Role::Assistant),
        "human" => Some(Role::User),
        "ipython" | "observation" | "environment" | "tool_response" => Some(Role::Tool),
        word => Role::parse(word),
    }
}

/// Length of the longest common beginning, in bytes.
fn common_prefix(one: &str, other: &str) -> usize {
    let pairs = one.chars().zip(other.chars());
    pairs.take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum()
}

/// A stretch of a rendered text.
struct Segment {
    /// Bytes of the rendered text.
    text: Range<usize>,
    kind: SegmentKind,
    /// The message that the template's loop was at; -1 outside of the loop.
    within: i32,
}

#[derive(Clone, Copy)]
enum SegmentKind {
    /// A control token.
    Control { id: ControlId },
    /// The template's own text.
    Own,
    /// White space that a control token takes.
    Taken,
    /// A caller's text, and its first byte in the caller's string if it was not changed.
    Data(u32, Option<usize>),
}

/// A rendered template, cut into control and text.
struct Layout<'a> {
    text: &'a str,
    paths: &'a Paths,
    vocab: &'a Vocab,
    segments: Vec<Segment>,
    roles: &'a [Option<Role>],
}

impl<'a> Layout<'a> {
    fn new(rendered: &'a RenderedTemplate, roles: &'a [Option<Role>], vocab: &'a Vocab) -> Self {
        let (text, paths) = (rendered.text(), rendered.paths());
        let parts = rendered.parts();
        let is_own = |part: &Part| part.path.is_none_or(|path| is_role(paths, path));
        let own = joined(parts.iter().filter(|part| is_own(part)).map(|part| part.text.clone()));
        let control = own.iter().flat_map(|range| spelled_in(text, range, vocab));
        let control: Vec<(Range<usize>, TokenId)> = control.collect();
        // A control token parts a text in two.
        let segments = Vec::with_capacity(parts.len() + 2 * control.len());
        let mut layout = Self { text, paths, vocab, segments, roles };
        let mut control = control.into_iter().peekable();
        for part in &parts {
            let is_own = is_own(part);
            let mut at = part.text.start;
            // A control token that began in the part before.
            if let Some(last) = layout.segments.last() {
                at = at.max(last.text.end);
            }
            while let Some((found, id)) = control.next_if(|(found, _)| found.start < part.text.end)
            {
                layout.push_text(at..found.start, part, is_own);
                at = found.end;
                if let Some(id) = vocab.control_id(id) {
                    let kind = SegmentKind::Control { id };
                    layout.segments.push(Segment { text: found, kind, within: part.within });
                }
            }
            layout.push_text(at..part.text.end.max(at), part, is_own);
        }
        layout.take_spaces();
        layout
    }

    fn push_text(&mut self, text: Range<usize>, part: &Part, is_own: bool) {
        if text.is_empty() {
            return;
        }
        let kind = match part.path {
            Some(path) if !is_own => {
                let place = part.place.map(|place| place + text.start - part.text.start);
                SegmentKind::Data(path, place)
            }
            _ => SegmentKind::Own,
        };
        let within = part.within;
        // A value that was written in parts is one slot.
        if let Some(last) = self.segments.last_mut()
            && last.within == within
            && last.text.end == text.start
            && let (SegmentKind::Data(path, from), SegmentKind::Data(same, place)) =
                (&mut last.kind, kind)
            && *path == same
        {
            let length = last.text.len();
            if from.is_none_or(|from| Some(from + length) != place) {
                *from = None;
            }
            last.text.end = text.end;
            return;
        }
        self.segments.push(Segment { text, kind, within });
    }

    /// Cuts off the white space of the template that a control token beside it takes.
    fn take_spaces(&mut self) {
        let takes = |segment: &Segment| match segment.kind {
            SegmentKind::Control { id, .. } => self.vocab.strips(id.get()),
            _ => chatcodec_vocab::Strips::default(),
        };
        let none = |strips: chatcodec_vocab::Strips| !strips.left && !strips.right;
        if self.segments.iter().all(|segment| none(takes(segment))) {
            return;
        }
        let mut cut: Vec<Segment> = Vec::with_capacity(self.segments.len());
        for (at, segment) in self.segments.iter().enumerate() {
            let Segment { text, kind, within } = segment;
            let SegmentKind::Own = kind else {
                cut.push(Segment { text: text.clone(), kind: *kind, within: *within });
                continue;
            };
            let shown = &self.text[text.clone()];
            let before = at.checked_sub(1).map(|at| takes(&self.segments[at]));
            let after = self.segments.get(at + 1).map(takes);
            let mut kept = text.clone();
            if before.is_some_and(|strips| strips.right) {
                kept.start += shown.len() - shown.trim_start().len();
            }
            if after.is_some_and(|strips| strips.left) {
                let end = text.start + shown.trim_end().len();
                kept.end = end.max(kept.start);
            }
            let parts = [
                (text.start..kept.start, SegmentKind::Taken),
                (kept.clone(), SegmentKind::Own),
                (kept.end..text.end, SegmentKind::Taken),
            ];
            let parts = parts.into_iter().filter(|(text, _)| !text.is_empty());
            cut.extend(parts.map(|(text, kind)| Segment { text, kind, within: *within }));
        }
        self.segments = cut;
    }

    /// The control tokens of the template itself.
    fn own_control(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.segments.iter().filter_map(|segment| match segment.kind {
            SegmentKind::Control { id } => Some(id.get()),
            _ => None,
        })
    }

    /// The message that a segment belongs to.
    fn owner(&self, segment: &Segment) -> i32 {
        match segment.kind {
            SegmentKind::Data(path, _) if segment.within < 0 => self.paths.message(path),
            _ => segment.within,
        }
    }

    /// Where the template's text after the last message begins.
    fn prompt_start(&self) -> Option<usize> {
        let is_of_none = |segment: &Segment| {
            segment.within < 0 && !matches!(segment.kind, SegmentKind::Data(..))
        };
        let last = self.segments.iter().rposition(|segment| !is_of_none(segment))?;
        let first = self.segments.get(last + 1)?;
        Some(first.text.start)
    }

    /// The spans; `prompt` is the text of the prompt that is written.
    fn write(
        &self,
        rendered: &RenderedTemplate,
        headers: &Headers<'_>,
        prompt: Option<&str>,
        boundary: Boundary,
    ) -> Rendered {
        let generated = match rendered.generated() {
            [] => self.answers(headers),
            tagged => tagged.to_vec(),
        };
        let prompt_at = prompt.and_then(|prompt| {
            let ends = !prompt.is_empty() && self.text.ends_with(prompt);
            if ends { Some(self.text.len() - prompt.len()) } else { self.prompt_start() }
        });
        let mut out = Rendered::default();
        out.text.reserve(self.text.len());
        out.spans.reserve(self.segments.len());
        // Positions in the rendered text, and where they are in the text that is encoded.
        let mut places: Vec<(usize, usize)> = Vec::with_capacity(self.segments.len() + 1);
        let mut counted = Counted::default();
        let mut rest = &self.segments[..];
        while let [first, ..] = rest {
            let is_text = |segment: &&Segment| {
                matches!(segment.kind, SegmentKind::Own | SegmentKind::Data(..))
            };
            let count = rest.iter().take_while(is_text).count();
            if count == 0 {
                places.push((first.text.start, out.text.len()));
                let kind = match first.kind {
                    SegmentKind::Control { id, .. } => SpanKind::Control(id),
                    _ => SpanKind::Taken,
                };
                out.push(kind, &self.text[first.text.clone()], self.source(first), 0);
                rest = &rest[1..];
                continue;
            }
            let (texts, after) = rest.split_at(count);
            rest = after;
            self.write_texts(texts, &mut out, &mut places, &mut counted);
        }
        places.push((self.text.len(), out.text.len()));
        let place = |at: usize| {
            let next = places.partition_point(|(from, _)| *from <= at);
            let Some(&(from, to)) = next.checked_sub(1).and_then(|next| places.get(next)) else {
                return 0;
            };
            let end = places.get(next).map_or(out.text.len(), |(_, end)| *end);
            let mut moved = (to + at - from).min(end);
            while !out.text.is_char_boundary(moved) {
                moved -= 1;
            }
            moved
        };
        out.generated =
            generated.iter().map(|range| place(range.start)..place(range.end)).collect();
        out.prompt_at = prompt_at.map(place);
        if boundary == Boundary::Isolated {
            out.cut_at_generated();
        }
        out
    }

    /// Conditions for free texts under which the same is written around them; none if they are not known.
    fn premises(
        &self,
        rendered: &RenderedTemplate,
        headers: &Headers<'_>,
        prompt: Option<&str>,
    ) -> Option<Premises> {
        let premises = rendered.premises()?.clone();
        let is_free = |segment: &&Segment| matches!(segment.kind, SegmentKind::Data(path, _) if self.paths.is_free(path));
        let last = self.segments.iter().rfind(is_free).map_or(0, |segment| segment.text.end);
        let end = &self.text[last..];
        if prompt.is_some_and(|prompt| prompt.len() > end.len() && prompt.ends_with(end)) {
            return None;
        }
        let mut begins = Vec::new();
        let groups = self.segments.chunk_by(|one, next| self.owner(one) == self.owner(next));
        for group in groups.filter(|_| rendered.generated().is_empty()) {
            let (Some(first), Some(free)) = (group.first(), group.iter().find(is_free)) else {
                continue;
            };
            begins.extend(headers.beginnings(&self.text[first.text.start..free.text.start]));
        }
        Some(premises.without_first(&begins))
    }

    /// Text between two control tokens, normalised as one.
    fn write_texts(
        &self,
        texts: &[Segment],
        out: &mut Rendered,
        places: &mut Vec<(usize, usize)>,
        counted: &mut Counted,
    ) {
        let (Some(first), Some(last)) = (texts.first(), texts.last()) else { return };
        let whole = &self.text[first.text.start..last.text.end];
        let normalised = self.vocab.normalise(whole);
        let is_same = *normalised == *whole;
        let mut from = 0;
        for (nth, segment) in texts.iter().enumerate() {
            let raw = &self.text[segment.text.clone()];
            // A border is where the text up to it ends, normalised with the segment before it alone.
            let to = if is_same {
                from + raw.len()
            } else if nth + 1 == texts.len() {
                normalised.len()
            } else {
                let before = nth.checked_sub(1).map_or(segment, |before| &texts[before]);
                let alone = &self.text[before.text.start..segment.text.start];
                let both = &self.text[before.text.start..segment.text.end];
                let [alone, both] = [alone, both].map(|text| self.vocab.normalise(text).len());
                let mut to = (from + both).saturating_sub(alone).clamp(from, normalised.len());
                while !normalised.is_char_boundary(to) {
                    to -= 1;
                }
                to.max(from)
            };
            let shown = &normalised[from..to];
            from = to;
            places.push((segment.text.start, out.text.len()));
            let source = self.source(segment);
            match segment.kind {
                SegmentKind::Data(path, place) => {
                    let given = self.paths.string(path);
                    let skipped = place
                        .zip(given)
                        .map_or(0, |(place, given)| counted.points(path, place, given));
                    let kind = SpanKind::Slot { escaped: false };
                    // A text that was changed is searched as the caller gave it.
                    let original = match (place, given) {
                        (Some(_), _) if shown == raw => None,
                        (Some(_), _) => Some(raw),
                        (None, given) => given.filter(|given| *given != shown),
                    };
                    if let Some(original) = original {
                        out.originals.insert(out.spans.len(), original.to_owned());
                    }
                    out.push(kind, shown, source, skipped);
                }
                _ => out.push(SpanKind::Literal, shown, source, 0),
            }
        }
    }

    fn source(&self, segment: &Segment) -> Source {
        match segment.kind {
            SegmentKind::Data(path, _) => {
                let field = match self.paths.key_of_message(path) {
                    Some("content") => SourceField::Content,
                    _ => SourceField::Path(path),
                };
                Source { message: self.paths.message(path), field }
            }
            _ => Source { message: self.owner(segment), field: SourceField::Scaffold },
        }
    }

    /// The text that a model generates of each message of the assistant's: after the generation prompt, up to the
    /// token that stops it.
    fn answers(&self, headers: &Headers<'_>) -> Vec<Range<usize>> {
        let mut turns: Vec<Option<Range<usize>>> = vec![None; self.roles.len()];
        let mut from = 0;
        for group in self.segments.chunk_by(|one, next| self.owner(one) == self.owner(next)) {
            from += group.len();
            let Some(first) = group.first() else { continue };
            let Ok(message) = usize::try_from(self.owner(first)) else { continue };
            if self.roles.get(message).copied().flatten() == Some(Role::Assistant) {
                turns[message] = Some(self.answer(group, &self.segments[from..], headers));
            }
        }
        turns.into_iter().flatten().collect()
    }

    /// The text that a model generates of the segments of a message, which others follow.
    fn answer(
        &self,
        group: &[Segment],
        following: &[Segment],
        headers: &Headers<'_>,
    ) -> Range<usize> {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return 0..0 };
        let is_data = |segment: &&Segment| matches!(segment.kind, SegmentKind::Data(..));
        let text = &self.text[first.text.start..last.text.end];
        let mut start = first.text.start + headers.length(text);
        if let Some(data) = group.iter().find(is_data) {
            start = start.min(data.text.start);
        }
        // A control token is generated as a whole or not at all.
        let cut = group.iter().find(|segment| {
            segment.is_control() && segment.text.start < start && start < segment.text.end
        });
        start = cut.map_or(start, |segment| segment.text.start);
        let data = group.iter().rposition(|segment| is_data(&segment));
        let tail = &group[data.map_or(0, |at| at + 1)..];
        let is_after = |segment: &&Segment| segment.is_control() && segment.text.start >= start;
        let is_stop = |segment: &&Segment| segment.stops(headers.stops);
        let own = tail.iter().filter(is_after).find(is_stop);
        let stop = own
            .or_else(|| self.first_control(following).filter(is_stop))
            .or_else(|| tail.iter().rfind(is_after));
        start..stop.unwrap_or(last).text.end.max(start)
    }

    /// The control token that comes first in what follows an answer, after white space of the template's at most.
    fn first_control<'s>(&self, following: &'s [Segment]) -> Option<&'s Segment> {
        let is_white = |segment: &&Segment| {
            matches!(segment.kind, SegmentKind::Own | SegmentKind::Taken)
                && self.text[segment.text.clone()].trim().is_empty()
        };
        following.iter().find(|segment| !is_white(segment)).filter(|segment| segment.is_control())
    }
}

/// The generation prompts of a template, and the ids that end what a model generates after them.
struct Headers<'a> {
    /// The text of the one with the options of the conversation.
    own: &'a str,
    /// Those with other options.
    others: &'a [String],
    stops: &'a [TokenId],
}

impl Headers<'_> {
    /// Number of bytes of a turn that a prompt writes: that of these options if the turn begins with all of it, or
    /// else the longest one that it does. Where it begins with none, the beginning that it has in common with that
    /// of these options.
    fn length(&self, turn: &str) -> usize {
        if turn.starts_with(self.own) {
            return self.own.len();
        }
        let whole = self.others.iter().filter(|prompt| turn.starts_with(prompt.as_str()));
        let whole = whole.map(String::len).max().filter(|&length| length > 0);
        whole.unwrap_or_else(|| common_prefix(turn, self.own))
    }

    /// The first characters of texts on which [`Self::length`] may depend, where a turn begins so and a text follows.
    fn beginnings(&self, turn: &str) -> Vec<char> {
        let others = || self.others.iter().map(String::as_str);
        let whole = others().filter(|prompt| !prompt.is_empty() && turn.starts_with(prompt));
        let whole = whole.map(str::len).max();
        let is_in_each = match whole {
            Some(length) => length == turn.len(),
            None => self.own.starts_with(turn),
        };
        if turn.starts_with(self.own) || is_in_each {
            return Vec::new();
        }
        let prompts = std::iter::once(self.own).chain(others());
        prompts.filter_map(|prompt| prompt.strip_prefix(turn)?.chars().next()).collect()
    }
}

impl Segment {
    fn is_control(&self) -> bool {
        matches!(self.kind, SegmentKind::Control { .. })
    }

    /// Whether it is a token that ends an assistant's turn.
    fn stops(&self, stops: &[TokenId]) -> bool {
        matches!(self.kind, SegmentKind::Control { id, .. } if stops.contains(&id.get()))
    }
}

/// Code points before a byte of a caller's string. Each string is counted once if its parts come in order.
#[derive(Default)]
struct Counted {
    /// By path: a byte, and the code points before it.
    places: HashMap<u32, (usize, u32)>,
}

impl Counted {
    fn points(&mut self, path: u32, byte: usize, text: &str) -> u32 {
        let known = self.places.get(&path).copied().filter(|(at, _)| *at <= byte);
        let (at, before) = known.unwrap_or_default();
        let more = text.get(at..byte).map_or(0, |text| text.chars().count() as u32);
        self.places.insert(path, (byte, before + more));
        before + more
    }
}

/// Whether a value is the role of a message, of the closed set.
fn is_role(paths: &Paths, path: u32) -> bool {
    paths.key_of_message(path) == Some("role")
        && paths.string(path).is_some_and(|role| ROLES.contains(&role))
}

/// Ranges, with those that meet as one.
fn joined(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

/// Control tokens that a stretch of text spells.
fn spelled_in<'a>(
    text: &'a str,
    range: &Range<usize>,
    vocab: &'a Vocab,
) -> impl Iterator<Item = (Range<usize>, TokenId)> + 'a {
    let start = range.start;
    let found = vocab.find_control(&text[range.clone()]);
    found.map(move |found| (start + found.start..start + found.end, found.id))
}

impl Rendered {
    fn push(&mut self, kind: SpanKind, text: &str, source: Source, skipped: u32) {
        let start = self.text.len();
        self.text.push_str(text);
        self.spans.push(Span { kind, text: start..self.text.len(), source, skipped });
    }

    /// Encodes what a model generates apart from what is before it, as generation does.
    fn cut_at_generated(&mut self) {
        let starts: Vec<usize> = self.generated.iter().map(|range| range.start).collect();
        let mut spans = Vec::with_capacity(self.spans.len() + starts.len());
        let mut originals = hashbrown::HashMap::new();
        let mut starts = starts.into_iter().peekable();
        for (nth, span) in std::mem::take(&mut self.spans).into_iter().enumerate() {
            let mut span = span;
            while let Some(at) = starts.next_if(|at| *at < span.text.end) {
                let mut before = span.clone();
                if at > span.text.start {
                    before.text.end = at;
                    span.text.start = at;
                    spans.push(before);
                }
                let (kind, text) = (SpanKind::Cut, at..at);
                spans.push(Span { kind, text, source: span.source, skipped: 0 });
            }
            if let Some(original) = self.originals.remove(&nth) {
                originals.insert(spans.len(), original);
            }
            spans.push(span);
        }
        self.spans = spans;
        self.originals = originals;
    }
}
