//! Rows of a table as conversations: which columns hold the messages, and in which shape.
//!
//! In: a record batch and the names of columns. Out: for each row a [`Cell`] of messages and one of tools.
//! Messages of ShareGPT (`from`, `value`) are read in any column; text is JSON where one column holds all
//! messages, and the content of one message where several columns do.

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use chatcodec::{Codec, Conversation, Error, Node as _, ReadOptions};
use serde_json::Value;

use crate::cell::Cell;

/// The columns of a table that hold conversations.
#[derive(Clone)]
pub(crate) struct Columns {
    shape: Shape,
    tools: Option<usize>,
}

#[derive(Clone)]
enum Shape {
    /// A column of messages, and one of a system message.
    Messages { messages: usize, system: Option<usize> },
    /// Columns one after another: messages, or the text of one message.
    Parts(Vec<usize>),
    /// Columns of Alpaca: the user's message is `instruction` and `input`.
    Alpaca { instruction: usize, input: Option<usize>, output: usize, system: Option<usize> },
}

/// A parsed row: JSON that the cells of a row refer to.
#[derive(Default)]
struct Parsed {
    messages: Value,
    tools: Option<Value>,
    calls: Vec<Value>,
}

impl Columns {
    /// Finds the columns of messages and of tools by their names.
    ///
    /// Names of messages that are absent mean the first of these that the table has: `messages`, `conversations`,
    /// `prompt` with `completion`, `instruction` with `output`. Without a name of tools, `tools` is read if the
    /// table has it. The error says what the table has instead.
    pub(crate) fn find(
        schema: &Schema,
        messages: Option<&[String]>,
        tools: Option<&str>,
    ) -> Result<Self, String> {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let find = |name: &str| names.iter().position(|known| *known == name);
        let place_of = |argument: &str, name: &str| {
            find(name).ok_or_else(|| {
                let problem = format!("`{argument}` is {:?}", chatcodec::excerpt(name, 80));
                format!("{problem}; the table has no column of that name{}", has(&names))
            })
        };
        let tools = match tools {
            Some(name) => Some(place_of("tools", name)?),
            None => find("tools"),
        };
        let one = |messages| Shape::Messages { messages, system: None };
        let shape = match messages {
            Some([]) => return Err("`messages` is empty; expected the name of a column".into()),
            Some([name]) => one(place_of("messages", name)?),
            Some(names) => {
                let places = names.iter().map(|name| place_of("messages", name));
                Shape::Parts(places.collect::<Result<_, _>>()?)
            }
            None => Shape::find(&names).ok_or_else(|| {
                format!("the table has {NO_SHAPE}{}; `messages=` names the column", has(&names))
            })?,
        };
        Ok(Self { shape, tools })
    }

    /// Checks the buffers of the columns that are read: offsets, indices and UTF-8.
    pub(crate) fn validate(&self, batch: &RecordBatch) -> Result<(), String> {
        for at in self.all() {
            batch.column(at).to_data().validate_full().map_err(|error| {
                let name = batch.schema_ref().field(at).name().clone();
                format!("column `{}` is no valid Arrow array: {error}", chatcodec::place(&name))
            })?;
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = usize> + '_ {
        let places: Vec<Option<usize>> = match &self.shape {
            Shape::Messages { messages, system } => vec![Some(*messages), *system],
            Shape::Parts(parts) => parts.iter().copied().map(Some).collect(),
            Shape::Alpaca { instruction, input, output, system } => {
                vec![Some(*instruction), *input, Some(*output), *system]
            }
        };
        places.into_iter().chain([self.tools]).flatten()
    }

    /// Reads the conversation of a row.
    pub(crate) fn read(
        &self,
        codec: &Codec,
        batch: &RecordBatch,
        row: usize,
        options: ReadOptions,
    ) -> chatcodec::Result<Conversation> {
        let cell = |at: usize| Cell::Arrow(batch.column(at).as_ref(), row);
        let schema = batch.schema_ref();
        let name = |at: usize| schema.field(at).name().as_str();
        if let Shape::Messages { messages, system: None } = self.shape
            && let Some(text) = cell(messages).text()
        {
            let name = name(messages);
            let parsed = serde_json::from_str(text).map_err(|error| not_json(name, &error))?;
            return match parsed {
                Value::Object(row) => Self::read_object(codec, &row, name, options),
                parsed => {
                    let cell = |at| if at == messages { Cell::Json(&parsed) } else { cell(at) };
                    self.read_cells(codec, cell, |_| name, options)
                }
            };
        }
        self.read_cells(codec, cell, name, options)
    }

    /// Reads the conversation of a row that is an object of JSON: its keys are the columns.
    fn read_object(
        codec: &Codec,
        row: &serde_json::Map<String, Value>,
        column: &str,
        options: ReadOptions,
    ) -> chatcodec::Result<Conversation> {
        let (names, values): (Vec<&str>, Vec<&Value>) =
            row.iter().map(|(name, value)| (name.as_str(), value)).unzip();
        let shape = Shape::find(&names).ok_or_else(|| {
            message_error(column, format!("is an object with {NO_SHAPE}{}", has(&names)))
        })?;
        let tools = names.iter().position(|name| *name == "tools");
        let columns = Self { shape, tools };
        columns.read_cells(codec, |at| Cell::Json(values[at]), |at| names[at], options)
    }

    /// Reads the conversation of a row, given the value and the name of each column.
    fn read_cells<'a>(
        &self,
        codec: &Codec,
        cell: impl Fn(usize) -> Cell<'a>,
        name: impl Fn(usize) -> &'a str,
        options: ReadOptions,
    ) -> chatcodec::Result<Conversation> {
        let mut parsed = Parsed::default();
        let text = self.tools.and_then(|at| cell(at).text());
        let json = text.and_then(|text| serde_json::from_str(text).ok());
        // Other text is written as it is, also where it happens to be JSON.
        parsed.tools = json.filter(|json: &Value| json.is_array() || json.is_null());
        let tools = match &parsed.tools {
            None => self.tools.map(&cell),
            Some(tools) => Some(Cell::Json(tools)),
        };
        match &self.shape {
            Shape::Messages { messages, system } => {
                let name = name(*messages);
                let mut all = cell(*messages);
                if let Some(text) = all.text() {
                    parsed.messages =
                        serde_json::from_str(text).map_err(|error| not_json(name, &error))?;
                    all = Cell::Json(&parsed.messages);
                }
                let turns = all.items();
                let is_sharegpt = turns.iter().flatten().any(is_turn);
                if !is_sharegpt && system.is_none() {
                    return rename(codec.read_conversation(&all, tools.as_ref(), options), name);
                }
                let Some(turns) = turns else {
                    return rename(codec.read_conversation(&all, tools.as_ref(), options), name);
                };
                for (at, turn) in turns.iter().enumerate() {
                    parsed.calls.push(called(turn, name, at)?.unwrap_or_default());
                }
                let mut list: Vec<Cell<'_>> = system
                    .map(&cell)
                    .filter(|text| text.text().is_some_and(|text| !text.is_empty()))
                    .map(|text| message("system", text))
                    .into_iter()
                    .collect();
                let added = list.len();
                for (at, turn) in turns.into_iter().enumerate() {
                    list.push(translated(turn, &parsed.calls[at], name, at)?);
                }
                let read = codec.read_conversation(&Cell::List(list), tools.as_ref(), options);
                rename_turns(read, name, added)
            }
            Shape::Parts(parts) => {
                let mut list = Vec::new();
                for (nth, &at) in parts.iter().enumerate() {
                    let part = cell(at);
                    if part.text().is_some() {
                        let is_last = nth + 1 == parts.len();
                        list.push(message(if is_last { "assistant" } else { "user" }, part));
                    } else if let Some(messages) = part.items() {
                        list.extend(messages);
                    } else if !part.is_null() {
                        let kind = part.view().kind();
                        let problem = format!("is {kind}, expected text or a list of messages");
                        return Err(message_error(name(at), problem));
                    }
                }
                codec.read_conversation(&Cell::List(list), tools.as_ref(), options)
            }
            Shape::Alpaca { instruction, input, output, system } => {
                let text = |at: usize| cell(at).text().filter(|text| !text.is_empty());
                let asked = match (text(*instruction), input.and_then(text)) {
                    (Some(instruction), Some(input)) => {
                        Cell::Joined(format!("{instruction}\n{input}"))
                    }
                    (None, Some(input)) => Cell::Text(input),
                    _ => cell(*instruction),
                };
                let mut list = Vec::new();
                list.extend(system.and_then(text).map(|text| message("system", Cell::Text(text))));
                list.extend([message("user", asked), message("assistant", cell(*output))]);
                codec.read_conversation(&Cell::List(list), tools.as_ref(), options)
            }
        }
    }
}

impl Shape {
    /// The first shape that the columns have, by their names.
    fn find(names: &[&str]) -> Option<Self> {
        let find = |name: &str| names.iter().position(|known| *known == name);
        if let Some(messages) = find("messages") {
            return Some(Self::Messages { messages, system: None });
        }
        if let Some(messages) = find("conversations") {
            return Some(Self::Messages { messages, system: find("system") });
        }
        if let (Some(prompt), Some(completion)) = (find("prompt"), find("completion")) {
            return Some(Self::Parts(vec![prompt, completion]));
        }
        let (instruction, output) = (find("instruction")?, find("output")?);
        let (input, system) = (find("input"), find("system"));
        Some(Self::Alpaca { instruction, input, output, system })
    }
}

/// What is wrong with a row that has no shape.
const NO_SHAPE: &str = "none of the columns `messages`, `conversations`, `prompt` with \
                        `completion`, `instruction` with `output`";

fn not_json(column: &str, error: &serde_json::Error) -> Error {
    message_error(column, format!("is no JSON, expected a list of messages: {error}"))
}

/// The columns of a table, for errors.
fn has(names: &[&str]) -> String {
    match names {
        [] => "; it has no columns".to_owned(),
        names => format!("; it has `{}`", chatcodec::excerpt(&names.join("`, `"), 400)),
    }
}

fn message_error(path: &str, problem: String) -> Error {
    Error::Message { path: chatcodec::place(path).into_owned(), problem, droppable: None }
}

/// A message of a role.
fn message<'a>(role: &'a str, content: Cell<'a>) -> Cell<'a> {
    Cell::Map(vec![(Cell::Text("role"), Cell::Text(role)), (Cell::Text("content"), content)])
}

/// The value of a key of a mapping that is not null.
fn get<'a>(cell: &Cell<'a>, wanted: &str) -> Option<Cell<'a>> {
    let members = cell.members()?;
    let found = members.into_iter().find(|(key, _)| key.text() == Some(wanted));
    found.map(|(_, value)| value).filter(|value| !value.is_null())
}

/// Whether a value is a turn of ShareGPT.
fn is_turn(cell: &Cell<'_>) -> bool {
    get(cell, "from").is_some() || get(cell, "value").is_some()
}

/// Roles of ShareGPT and the roles that they mean, as `chatcodec.rows` has them.
const ROLES: [(&str, &str); 13] = [
    ("system", "system"),
    ("human", "user"),
    ("user", "user"),
    ("gpt", "assistant"),
    ("assistant", "assistant"),
    ("chatgpt", "assistant"),
    ("bing", "assistant"),
    ("bard", "assistant"),
    ("model", "assistant"),
    ("function_call", CALL),
    ("observation", "tool"),
    ("tool", "tool"),
    ("function_response", "tool"),
];

/// The role of ShareGPT whose value is calls.
const CALL: &str = "function_call";

/// The calls of a turn of ShareGPT whose value is calls, as a list of JSON.
fn called(turn: &Cell<'_>, column: &str, at: usize) -> chatcodec::Result<Option<Value>> {
    if get(turn, "from").and_then(|from| from.text()) != Some(CALL) {
        return Ok(None);
    }
    let Some(text) = get(turn, "value").and_then(|value| value.text()) else { return Ok(None) };
    let path = format!("{column}[{at}].value");
    let value: Value = serde_json::from_str(text)
        .map_err(|error| message_error(&path, format!("is no JSON, expected a call: {error}")))?;
    let calls = match value {
        Value::Array(calls) => calls,
        call => vec![call],
    };
    let calls = calls.into_iter().map(|call| {
        let wrong = || {
            message_error(&path, "is no call, expected `{\"name\": …, \"arguments\": …}`".into())
        };
        let Value::Object(mut call) = call else { return Err(wrong()) };
        let name = call.remove("name").filter(Value::is_string).ok_or_else(wrong)?;
        let (arguments, parameters) = (call.remove("arguments"), call.remove("parameters"));
        let arguments = arguments.or(parameters).unwrap_or_else(|| Value::Object(<_>::default()));
        let id = call.remove("id").unwrap_or_default();
        if !call.is_empty() {
            return Err(wrong());
        }
        let function = serde_json::json!({"name": name, "arguments": arguments});
        Ok(serde_json::json!({"id": id, "type": "function", "function": function}))
    });
    calls.collect::<chatcodec::Result<_>>().map(|calls| Some(Value::Array(calls)))
}

/// A turn of ShareGPT as a message; any other value as it is.
fn translated<'a>(
    turn: Cell<'a>,
    calls: &'a Value,
    column: &str,
    at: usize,
) -> chatcodec::Result<Cell<'a>> {
    if !is_turn(&turn) {
        return Ok(turn);
    }
    let path = |key: &str| format!("{column}[{at}].{key}");
    let said = get(&turn, "from").and_then(|from| from.text());
    let Some((_, role)) = ROLES.iter().find(|(known, _)| Some(*known) == said) else {
        let known: Vec<_> = ROLES.iter().map(|(known, _)| *known).collect();
        let said = said.map_or_else(
            || "is missing or no string".to_owned(),
            |said| format!("is {:?}", chatcodec::excerpt(said, 80)),
        );
        let problem = format!("{said}, expected one of `{}`", known.join("`, `"));
        return Err(message_error(&path("from"), problem));
    };
    let Some(value) = get(&turn, "value").filter(|value| value.text().is_some()) else {
        return Err(message_error(
            &path("value"),
            "is no string, expected the text of a turn".into(),
        ));
    };
    let mut members = match *role {
        CALL => vec![
            (Cell::Text("role"), Cell::Text("assistant")),
            (Cell::Text("tool_calls"), Cell::Json(calls)),
        ],
        role => vec![(Cell::Text("role"), Cell::Text(role)), (Cell::Text("content"), value)],
    };
    let others = turn.members().unwrap_or_default();
    members.extend(
        others.into_iter().filter(|(key, _)| !matches!(key.text(), Some("from" | "value"))),
    );
    Ok(Cell::Map(members))
}

/// A path in `messages`, as a path in a column of another name.
fn rename(read: chatcodec::Result<Conversation>, column: &str) -> chatcodec::Result<Conversation> {
    read.map_err(|error| {
        error.with_path(|path| match path.strip_prefix("messages") {
            Some(rest) => format!("{}{rest}", chatcodec::place(column)),
            None => path,
        })
    })
}

/// A path in messages that a system message may come before, as a path in the turns of a column.
fn rename_turns(
    read: chatcodec::Result<Conversation>,
    column: &str,
    added: usize,
) -> chatcodec::Result<Conversation> {
    read.map_err(|error| {
        error.with_path(|path| {
            let turn = path.strip_prefix("messages[").and_then(|rest| rest.split_once(']'));
            let turn = turn.and_then(|(at, rest)| Some((at.parse::<usize>().ok()?, rest)));
            match turn {
                Some((at, rest)) if at < added => format!("system{rest}"),
                Some((at, rest)) => format!("{}[{}]{rest}", chatcodec::place(column), at - added),
                None => path,
            }
        })
    })
}
