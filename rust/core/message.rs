//! Messages: where both arrows begin and end.
//!
//! [`read`] takes a conversation in the shape that OpenAI's clients use and checks it, with the path
//! of whatever is wrong. [`link`] gives calls their ids and results their kinds. [`shape`] is what
//! may decide which control ids a conversation gets; everything else is text.

use hashbrown::HashMap;

use crate::error::{Error, Result};
use crate::format::Format;
use crate::json::{self, Layout};
use crate::path::Path;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Instructions; `developer` is the same.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a call.
    Tool,
}

impl Role {
    /// OpenAI's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// The role that OpenAI's word names.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "system" | "developer" => Some(Self::System),
            "user" => Some(Self::User),
            "assistant" => Some(Self::Assistant),
            "tool" => Some(Self::Tool),
            _ => None,
        }
    }
}

/// One message of a conversation. Absent and empty content are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// A header word: a user's name, or one of a closed set that the format gives (`plugin`).
    pub name: Option<String>,
    /// The text.
    pub content: String,
    /// What the model thought before it spoke.
    pub reasoning: Option<String>,
    /// What the model called, in order.
    pub calls: Vec<Call>,
    /// Which call a result answers.
    pub call_id: Option<String>,
}

impl Message {
    /// Whether it is the assistant's and calls nothing.
    pub(crate) fn is_answer(&self) -> bool {
        self.role == Role::Assistant && self.calls.is_empty()
    }

    /// Gives calls without an id the ids `call_0…`.
    pub fn number_calls(&mut self) {
        for (number, call) in self.calls.iter_mut().enumerate() {
            call.id.get_or_insert_with(|| format!("call_{number}"));
        }
    }

    /// A message of text only.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            name: None,
            content: content.into(),
            reasoning: None,
            calls: Vec::new(),
            call_id: None,
        }
    }
}

/// One call of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What a result refers to it by.
    pub id: Option<String>,
    /// What is called.
    pub body: CallBody,
}

/// What is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallBody {
    /// A function, with raw JSON text as its arguments.
    Function {
        /// The function's name: any text.
        name: String,
        /// One JSON value, kept byte for byte; white space around it is not written.
        arguments: String,
    },
    /// Code to run.
    Code {
        /// A header word such as `python`.
        language: Option<String>,
        /// The code.
        source: String,
    },
}

/// Everything about a conversation that may decide its control ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    messages: Vec<MessageShape>,
    tools: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct MessageShape {
    role: Role,
    /// A name of the format's closed set; other names are text.
    named: Option<String>,
    has_name: bool,
    has_content: bool,
    has_reasoning: bool,
    /// Per call whether it is code, and whether a language is given.
    calls: Vec<(bool, bool)>,
}

/// The shape of a conversation after [`link`].
pub(crate) fn shape(messages: &[Message], tools: bool, format: &Format) -> Shape {
    let messages = messages.iter().map(|message| MessageShape {
        role: message.role,
        named: message.name.clone().filter(|name| format.is_named(name, message.role)),
        has_name: message.name.is_some(),
        has_content: !message.content.is_empty(),
        has_reasoning: message.reasoning.is_some(),
        calls: message
            .calls
            .iter()
            .map(|call| match &call.body {
                CallBody::Function { .. } => (false, false),
                CallBody::Code { language, .. } => (true, language.is_some()),
            })
            .collect(),
    });
    Shape { messages: messages.collect(), tools }
}

/// What to do with `arguments` that are not one JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnArguments {
    /// Refuse the message.
    #[default]
    Error,
    /// Write them as a JSON string: for output of a model that was cut short.
    String,
}

/// A value as a caller has it: a Python object or parsed JSON.
pub trait Node: Sized {
    /// What it is, text as it stands in the value.
    fn view(&self) -> View<'_, Self>;
}

/// What a [`Node`] is.
pub enum View<'a, N> {
    /// `None`, `null`
    Null,
    /// A truth value.
    Bool(bool),
    /// A number as JSON writes it; also what JSON cannot write, such as `nan`.
    Number(String),
    /// Text.
    Text(&'a str),
    /// A string with half of a surrogate pair in it, which is no text.
    Surrogate,
    /// A list.
    List(Vec<N>),
    /// A mapping, in order.
    Map(Vec<(N, N)>),
    /// Anything else: the name of its type.
    Other(String),
}

impl Node for serde_json::Value {
    fn view(&self) -> View<'_, Self> {
        match self {
            Self::Null => View::Null,
            Self::Bool(value) => View::Bool(*value),
            Self::Number(number) => View::Number(number.to_string()),
            Self::String(text) => View::Text(text),
            Self::Array(items) => View::List(items.clone()),
            Self::Object(members) => View::Map(
                members.iter().map(|(key, value)| (key.clone().into(), value.clone())).collect(),
            ),
        }
    }
}

pub(crate) const SURROGATE: &str = "holds half of a surrogate pair, expected text";

impl<'a, N> View<'a, N> {
    fn kind(&self) -> String {
        match self {
            Self::Null => "none".into(),
            Self::Bool(_) => "a truth value".into(),
            Self::Number(_) => "a number".into(),
            Self::Text(_) | Self::Surrogate => "a string".into(),
            Self::List(_) => "a list".into(),
            Self::Map(_) => "a dict".into(),
            Self::Other(kind) => format!("`{kind}`"),
        }
    }

    fn text(self, path: Path<'_>) -> Result<&'a str> {
        self.text_or(path, "a string")
    }

    /// Text, where `expected` may be given.
    fn text_or(self, path: Path<'_>, expected: &str) -> Result<&'a str> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Surrogate => Err(Error::message(path, SURROGATE)),
            other => Err(Error::message(path, format!("is {}, expected {expected}", other.kind()))),
        }
    }

    fn list(self, path: Path<'_>) -> Result<Vec<N>> {
        match self {
            Self::List(items) => Ok(items),
            other => Err(Error::message(path, format!("is {}, expected a list", other.kind()))),
        }
    }

    /// Absent: none, or a list with nothing in it.
    fn is_absent(&self) -> bool {
        matches!(self, Self::Null) || matches!(self, Self::List(items) if items.is_empty())
    }
}

/// Reads and checks a conversation.
pub(crate) fn read<N: Node>(
    messages: &N,
    format: &Format,
    on_arguments: OnArguments,
) -> Result<Vec<Message>> {
    let path = Path::Argument("messages");
    let nodes = messages.view().list(path)?;
    let reader = Reader { format, on_arguments };
    let mut read = Vec::with_capacity(nodes.len());
    for (i, node) in nodes.iter().enumerate() {
        read.push(reader.message(node, path.item(i))?);
    }
    Ok(read)
}

/// Reads `tools`: text as it is, or a list of functions written as the format writes them.
pub(crate) fn read_tools<N: Node>(tools: &N, format: &Format) -> Result<Option<String>> {
    let functions = match tools.view() {
        view if view.is_absent() => return Ok(None),
        View::Text("") => return Ok(None),
        View::List(functions) => functions,
        View::Text(text) => return Ok(Some(text.to_owned())),
        View::Surrogate => return Err(Error::message("tools", SURROGATE)),
        view => {
            let problem = format!("is {}, expected a list of dicts, or a string", view.kind());
            return Err(Error::message("tools", problem));
        }
    };
    let unwrapped: Vec<N> = functions
        .into_iter()
        .enumerate()
        .map(|(i, tool)| unwrap_tool(tool, Path::Argument("tools").item(i), format))
        .collect::<Result<_>>()?;
    format.write_tools(&unwrapped).map(Some)
}

fn unwrap_tool<N: Node>(tool: N, path: Path<'_>, format: &Format) -> Result<N> {
    let View::Map(members) = tool.view() else {
        let problem = format!("is {}, expected a dict", tool.view().kind());
        return Err(Error::message(path, problem));
    };
    if !format.unwraps_tools() {
        return Ok(tool);
    }
    let mut function = None;
    let mut odd = None;
    for (key, value) in members {
        match key.view() {
            View::Text("function") => function = Some(value),
            View::Text(key) if key != "type" && !value.view().is_absent() => {
                odd = Some(key.to_owned());
            }
            _ => {}
        }
    }
    match (function, odd) {
        (None, _) => Ok(tool),
        (Some(_), Some(key)) => {
            Err(unknown_key(path.key(&key), "a tool beside `function`", "`type`"))
        }
        (Some(function), None) if matches!(function.view(), View::Map(_)) => Ok(function),
        (Some(function), None) => {
            let problem = format!("is {}, expected a dict", function.view().kind());
            Err(Error::message(path.key("function"), problem))
        }
    }
}

struct Reader<'a> {
    format: &'a Format,
    on_arguments: OnArguments,
}

impl Reader<'_> {
    fn message<N: Node>(&self, node: &N, path: Path<'_>) -> Result<Message> {
        const KEYS: &str = "`role`, `content`, `name`, `tool_calls`, `tool_call_id`, `reasoning`, \
                            `reasoning_content`";
        let mut role = None;
        let mut message = Message::new(Role::User, "");
        for_each_key(node, path, |key, _, value| {
            let path = path.key(key);
            match key {
                "role" => role = Some(self.role(value, path)?),
                "content" => message.content = content(value, path)?,
                "name" => message.name = non_empty(value.text(path)?),
                "tool_calls" => {
                    let calls = value.list(path)?;
                    let calls = calls.iter().enumerate();
                    let calls = calls.map(|(i, call)| self.call(call, path.item(i)));
                    message.calls = calls.collect::<Result<_>>()?;
                }
                "tool_call_id" => message.call_id = non_empty(value.text(path)?),
                "reasoning" | "reasoning_content" => {
                    let text = non_empty(value.text(path)?);
                    if text.is_some() && message.reasoning.is_some() && text != message.reasoning {
                        let problem = "differs from the message's other key for reasoning";
                        return Err(Error::message(path, problem));
                    }
                    message.reasoning = text.or(message.reasoning.take());
                }
                _ => return Err(unknown_key(path, "a message", KEYS)),
            }
            Ok(())
        })?;
        message.role = role.ok_or_else(|| Error::message(path.key("role"), "is missing"))?;
        Ok(message)
    }

    fn role<N>(&self, value: View<'_, N>, path: Path<'_>) -> Result<Role> {
        let word = value.text(path)?;
        self.format.role(word).ok_or_else(|| {
            let known = self.format.role_names().join("`, `");
            Error::message(path, format!("is {word:?}, expected one of `{known}`"))
        })
    }

    fn call<N: Node>(&self, node: &N, path: Path<'_>) -> Result<Call> {
        let mut call =
            Call { id: None, body: CallBody::Code { language: None, source: String::new() } };
        let mut body = None;
        let mut kind = None;
        for_each_key(node, path, |key, node, value| {
            let path = path.key(key);
            match key {
                "id" => call.id = non_empty(value.text(path)?),
                "type" => kind = Some(value.text(path)?.to_owned()),
                "function" | "code" if body.is_some() => {
                    return Err(Error::message(path, "stands beside another body of the call"));
                }
                "function" => body = Some(("function", self.function(node, path)?)),
                "code" => body = Some(("code", code(node, path)?)),
                _ => return Err(unknown_key(path, "a call", "`id`, `type`, `function`, `code`")),
            }
            Ok(())
        })?;
        let (found, body) =
            body.ok_or_else(|| Error::message(path, "has no body, expected `function` or `code`"))?;
        if let Some(kind) = kind
            && kind != found
        {
            let problem = format!("is {kind:?}, expected \"{found}\" beside `{found}`");
            return Err(Error::message(path.key("type"), problem));
        }
        call.body = body;
        Ok(call)
    }

    fn function<N: Node>(&self, node: &N, path: Path<'_>) -> Result<CallBody> {
        let (mut name, mut arguments) = (None, None);
        for_each_key(node, path, |key, node, value| {
            let path = path.key(key);
            match key {
                "name" => name = Some(value.text(path)?.to_owned()),
                "arguments" => arguments = Some(self.arguments(node, value, path)?),
                _ => return Err(unknown_key(path, "a function call", "`name`, `arguments`")),
            }
            Ok(())
        })?;
        let missing = |key| Error::message(path.key(key), "is missing");
        let name = name.ok_or_else(|| missing("name"))?;
        let arguments = arguments.ok_or_else(|| missing("arguments"))?;
        Ok(CallBody::Function { name, arguments })
    }

    fn arguments<N: Node>(&self, node: &N, value: View<'_, N>, path: Path<'_>) -> Result<String> {
        if matches!(value, View::Map(_)) {
            let mut text = String::new();
            json::write(node, Layout::Line, path, &mut text)?;
            return Ok(text);
        }
        let text = value.text_or(path, "a string or a dict")?;
        let Err(problem) = json::check_value(json::trim(text)) else { return Ok(text.to_owned()) };
        match self.on_arguments {
            OnArguments::Error => Err(Error::message(path, problem)),
            OnArguments::String => {
                let mut quoted = String::with_capacity(text.len() + 2);
                quoted.push('"');
                json::escape_into(text, &mut quoted);
                quoted.push('"');
                Ok(quoted)
            }
        }
    }
}

fn code<N: Node>(node: &N, path: Path<'_>) -> Result<CallBody> {
    let (mut language, mut source) = (None, None);
    for_each_key(node, path, |key, _, value| {
        let path = path.key(key);
        match key {
            "language" => language = non_empty(value.text(path)?),
            "source" => source = Some(value.text(path)?.to_owned()),
            _ => return Err(unknown_key(path, "a code call", "`language`, `source`")),
        }
        Ok(())
    })?;
    let source = source.ok_or_else(|| Error::message(path.key("source"), "is missing"))?;
    Ok(CallBody::Code { language, source })
}

/// Text, or text parts joined: joined first, so that nothing can hide between two of them.
fn content<N: Node>(value: View<'_, N>, path: Path<'_>) -> Result<String> {
    let View::List(parts) = value else {
        return value.text_or(path, "a string or a list of text parts").map(str::to_owned);
    };
    let mut joined = String::new();
    for (i, part) in parts.iter().enumerate() {
        let path = path.item(i);
        let mut kind = None;
        let mut text = None;
        for_each_key(part, path, |key, _, value| {
            let path = path.key(key);
            match key {
                "type" => kind = Some(value.text(path)?.to_owned()),
                "text" => text = Some(value.text(path)?.to_owned()),
                _ if kind.as_deref().is_some_and(|kind| kind != "text") => {}
                _ => return Err(unknown_key(path, "a text part", "`type`, `text`")),
            }
            Ok(())
        })?;
        if let Some(kind) = kind.filter(|kind| kind != "text") {
            let problem = format!("is {kind:?}, expected \"text\"");
            return Err(Error::message(path.key("type"), problem));
        }
        let text = text.ok_or_else(|| Error::message(path.key("text"), "is missing"))?;
        joined.push_str(&text);
    }
    Ok(joined)
}

/// Calls `each` for every member that is not absent.
fn for_each_key<N: Node>(
    node: &N,
    path: Path<'_>,
    mut each: impl FnMut(&str, &N, View<'_, N>) -> Result<()>,
) -> Result<()> {
    let members = match node.view() {
        View::Map(members) => members,
        other => {
            return Err(Error::message(path, format!("is {}, expected a dict", other.kind())));
        }
    };
    for (key, value) in &members {
        let View::Text(key) = key.view() else {
            return Err(Error::message(path, "has a key that is no string"));
        };
        let view = value.view();
        if !view.is_absent() {
            each(key, value, view)?;
        }
    }
    Ok(())
}

fn unknown_key(path: Path<'_>, of: &str, known: &str) -> Error {
    // The key is the caller's: it may hold anything.
    Error::message(
        path.to_string().escape_debug().to_string(),
        format!("is not a key of {of}, expected one of {known}"),
    )
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Gives calls their ids, and results the kind and id of the call they answer.
///
/// Where ids are not written, calls are numbered through the conversation, and a result answers by its
/// order the calls of the last message that made some. A result that names no kind of the format's takes
/// that of the call its own id refers to, or else of the one it answers by order.
pub(crate) fn link(messages: &mut [Message], format: &Format) -> Linker {
    let mut linker = Linker::default();
    linker.link(messages, format);
    linker
}

/// Which calls have been made, as far as what comes next may refer to them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Linker {
    made: Vec<Made>,
    by_given: HashMap<String, usize>,
    answered: usize,
    number: usize,
}

#[derive(Debug, Clone)]
struct Made {
    id: String,
    kind: Option<String>,
    /// Who its result comes from, and the name of the function.
    name: Option<String>,
    function: Option<String>,
    is_answered: bool,
}

impl Linker {
    /// As [`link`], of messages that come after those it has seen.
    pub(crate) fn link(&mut self, messages: &mut [Message], format: &Format) {
        let writes_ids = format.writes_ids();
        let has_kinds = !format.names_of(Role::Tool).is_empty();
        let has_names = format.names_results();
        let Self { made, by_given, answered, number } = self;
        for message in messages {
            if !message.calls.is_empty() {
                made.clear();
                by_given.clear();
                *answered = 0;
                for call in &mut message.calls {
                    // Nine letters and digits, as formats that write ids expect them.
                    let own = if writes_ids {
                        format!("call{number:05}")
                    } else {
                        format!("call_{number}")
                    };
                    *number += 1;
                    let given = call.id.take();
                    let name = match &call.body {
                        CallBody::Function { name, .. } => name,
                        CallBody::Code { .. } => "",
                    };
                    let fitted = format.id_form().fit(given.as_deref(), name, *number - 1);
                    let id = fitted.filter(|_| writes_ids).unwrap_or(own);
                    call.id = Some(id.clone());
                    if let Some(given) = given {
                        by_given.entry(given).or_insert(made.len());
                    }
                    let kind = format.call_kind(&call.body).map(str::to_owned);
                    let name = has_names.then(|| format.answerer(&call.body)).flatten();
                    let function = match &call.body {
                        CallBody::Function { name, .. } => Some(name.clone()),
                        CallBody::Code { .. } => None,
                    };
                    made.push(Made { id, kind, name, function, is_answered: false });
                }
            } else if message.role == Role::Tool && has_names {
                answer_by_name(message, made, by_given);
            } else if message.role == Role::Tool {
                let by_id = message.call_id.as_ref().and_then(|id| by_given.get(id));
                let by_order = made.get(*answered);
                let answers = by_id.map(|&at| &made[at]).or(by_order);
                let kind = answers.and_then(|made| made.kind.clone());
                if !has_kinds {
                    message.name = None;
                } else if !message
                    .name
                    .as_ref()
                    .is_some_and(|name| format.is_named(name, Role::Tool))
                {
                    let kind = kind.or_else(|| format.default_kind().map(str::to_owned));
                    message.name = kind.or(message.name.take());
                }
                message.call_id = match message.call_id.take().filter(|_| writes_ids) {
                    None => by_order.map(|made| made.id.clone()),
                    Some(given) => match by_id {
                        Some(&at) => Some(made[at].id.clone()),
                        None if !format.id_form().has_name() => {
                            format.id_form().fit(Some(&given), "", 0)
                        }
                        None if format.id_form().name(&given) == given => {
                            by_order.map(|made| made.id.clone()).or(Some(given))
                        }
                        None => Some(given),
                    },
                };
                *answered += 1;
            }
        }
    }
}

/// Gives a result the name that answers its call: the one its id refers to, or else the first of its name, or
/// of the function that it names, or of any, without a result. Only the name is written, so that is what tells
/// its call.
fn answer_by_name(message: &mut Message, made: &mut [Made], by_given: &HashMap<String, usize>) {
    let by_id = message.call_id.take().and_then(|id| by_given.get(&id));
    let open = |made: &&Made| !made.is_answered;
    message.name = match by_id {
        Some(&at) => made[at].name.clone().or(message.name.take()),
        None => match message.name.take() {
            Some(given) => {
                let is_known = made.iter().any(|made| made.name.as_ref() == Some(&given));
                let mut of_function =
                    made.iter().filter(|made| made.function.as_ref() == Some(&given));
                let known = of_function.next().filter(|_| !is_known);
                known.and_then(|made| made.name.clone()).or(Some(given))
            }
            None => made.iter().find(open).and_then(|made| made.name.clone()),
        },
    };
    let is_same = |made: &&mut Made| !made.is_answered && made.name == message.name;
    if let Some(answered) = made.iter_mut().find(is_same).filter(|made| made.name.is_some()) {
        answered.is_answered = true;
        message.call_id = Some(answered.id.clone());
    }
}

/// How many system messages a conversation begins with.
pub(crate) fn leading_systems(messages: &[Message]) -> usize {
    messages.iter().take_while(|message| message.role == Role::System).count()
}
