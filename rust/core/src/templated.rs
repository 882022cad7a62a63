//! The writer by a chat template: messages to spans. The other writer is `render`, which walks a format's table.
//!
//! In: a template, a caller's values, a vocabulary. Out: the spans that a format gives too, so that encodings, sources
//! and masks have one path. A control token is a spelling that lies in the template's own text as a whole; roles of a
//! closed set count as the template's. Cost: one rendering; a second one, of short words, if the template looks at what
//! a text says; a third one, in which it does not find what it looks for, if its control tokens depend on that; none for
//! a conversation of a shape that is known.

mod expected;
mod layout;
mod leaves;
mod places;
mod prompts;
mod stencil;

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::conversation::{Dropped, Values};
use crate::encode::{EncodeOptions, End, Note, NoteKind, OnDependent, TemplateGiven, Trail};
use crate::error::{Error, Result};
use crate::json;
use crate::message::{Node, Owned, Role};
use crate::path::Path;
use crate::render::Rendered;
use crate::template::{
    Clock, Contents, Expected, Followed, Hidden, Part, RenderOptions, RenderedTemplate, Sought,
    Template, Way, budget,
};
use chatcodec_vocab::{TokenId, Vocab};
use layout::{Headers, Layout};
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
    /// Whether it writes calls beside an empty content alone, once that is asked for.
    needs_content: Arc<OnceLock<bool>>,
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
            needs_content: Arc::default(),
            sought: Arc::default(),
            needs: Needs::Nothing,
            asked: Vec::new(),
            stops: Vec::new(),
            stencils: Arc::default(),
        };
        writer.needs = writer.find_needs();
        writer.expected.contents = expected::contents(&writer);
        if writer.expected.contents == Contents::Parts {
            writer.needs = writer.find_needs();
        }
        writer.expected = expected::found(&writer);
        writer.prompt = writer.find_prompt().unwrap_or_default();
        writer.reads_objects = writer.find_reads_objects();
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

    /// The texts that ask for an answer at the end of a prompt.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &str> {
        self.asked.iter().chain([&self.prompt]).map(String::as_str)
    }

    /// Special tokens, by the names that the template has for them.
    pub(crate) fn own(&self) -> &[(String, String)] {
        &self.own
    }

    /// Gives messages as engines do: with arguments in the form that the template takes, and calls without content with
    /// an empty one, if it writes them beside a content alone.
    pub(crate) fn with_usual_form(&self, messages: &mut Owned) {
        self.with_arguments(messages);
        let Owned::List(messages) = messages else { return };
        let has = |message: &Owned, key| message.get(key).is_some_and(|it| *it != Owned::Null);
        let lacks = |message: &&mut Owned| has(message, "tool_calls") && !has(message, "content");
        for message in messages.iter_mut().filter(lacks) {
            let needs = || budget::within(|| expected::needs_content(self));
            if !*self.needs_content.get_or_init(needs) {
                break;
            }
            match message.get_mut("content") {
                Some(content) => *content = text(""),
                None => message.insert(text("content"), text("")),
            }
        }
    }

    /// Gives arguments as engines do: JSON text as an object to a template that writes objects, and an object as JSON
    /// text to one that writes text alone.
    fn with_arguments(&self, messages: &mut Owned) {
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
        let trail = |roles| trail_of(roles, end);
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
/// The trail of values that a template has written.
pub(crate) fn trail(values: Values, options: &EncodeOptions) -> Result<Trail> {
    let roles = roles(&values.messages)?;
    let end = end_of(roles.last() == Some(&Some(Role::Assistant)), options)?;
    let (template, date) = (options.template.clone(), options.date.clone());
    let given = Some(Arc::new(TemplateGiven { values, options: template, date }));
    Ok(Trail { given, ..trail_of(roles, end) })
}

/// The trail of roles, without what the template was given.
fn trail_of(roles: Vec<Option<Role>>, end: End) -> Trail {
    let roles = roles.into_iter().map(|role| role.unwrap_or(Role::User)).collect();
    Trail { roles, end, ..Trail::default() }
}

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
