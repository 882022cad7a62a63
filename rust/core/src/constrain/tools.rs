//! The tools of a constraint: their names and the schemas of their arguments, read from a caller's value.

use std::sync::Arc;

use hashbrown::HashSet;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::json::{self, Layout};
use crate::message::{Node, View};
use crate::path::Path;
use crate::word::wrong_word;

/// More tools than these are refused.
const MAX_TOOLS: usize = 1024;

/// So many bytes of tools are read at most.
const MAX_BYTES: usize = 16 << 20;

/// A function that a model may call.
#[derive(Debug, Clone)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// The schema of its arguments.
    pub(crate) schema: Arc<Value>,
    /// Whether the caller gave the schema.
    pub(crate) has_schema: bool,
    /// The place of its schema in the caller's value.
    pub(crate) path: String,
}

impl PartialEq for Tool {
    /// Schemas with their members in the same order: arguments follow it.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.has_schema == other.has_schema
            && self.path == other.path
            && is_same(&self.schema, &other.schema)
    }
}

/// Whether two schemas are the same, with their members in the same order.
pub(super) fn is_same(first: &Value, second: &Value) -> bool {
    match (first, second) {
        (Value::Object(first), Value::Object(second)) => {
            let mut pairs = first.iter().zip(second);
            first.len() == second.len()
                && pairs.all(|((key, value), (other, its))| key == other && is_same(value, its))
        }
        (Value::Array(first), Value::Array(second)) => {
            let mut pairs = first.iter().zip(second);
            first.len() == second.len() && pairs.all(|(value, its)| is_same(value, its))
        }
        (first, second) => first == second,
    }
}

/// What a model may call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tools {
    pub(crate) functions: Vec<Tool>,
    /// The size of the caller's value as JSON, in bytes.
    pub(super) bytes: usize,
    /// Whether it may write code to run.
    pub(crate) has_code: bool,
}

impl Tools {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.functions.iter().any(|tool| tool.name == name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty() && !self.has_code
    }
}

/// The tools of a caller's value: a list of functions, or JSON text of one.
pub(crate) fn read<N: Node>(tools: &N) -> Result<Tools> {
    let path = Path::Argument("tools");
    let mut text = String::new();
    match tools.view() {
        View::Null => return Ok(Tools::default()),
        View::Text(given) => given.clone_into(&mut text),
        View::List(items) => json::write_list(&items, Layout::Line, path, &mut text)?,
        view => return Err(Error::message(path, view.expected("a list of dicts, or JSON text"))),
    }
    if text.len() > MAX_BYTES {
        let problem = format!("are {} bytes long, expected at most {MAX_BYTES}", text.len());
        return Err(Error::message(path, problem));
    }
    let all: Vec<Value> = serde_json::from_str(&text).map_err(|error| {
        Error::message(path, format!("cannot be read as a list of functions: {error}"))
    })?;
    if all.len() > MAX_TOOLS {
        let problem = format!("are {}, expected at most {MAX_TOOLS}", all.len());
        return Err(Error::message(path, problem));
    }
    let mut names = HashSet::new();
    let mut read = Tools { bytes: text.len(), ..Tools::default() };
    for (at, tool) in all.iter().enumerate() {
        let place = path.item(at);
        if tool.get("type").is_some_and(|kind| kind == "code_interpreter") {
            read.has_code = true;
            continue;
        }
        let Some(function) = function(tool, place)? else { continue };
        if !names.insert(function.name.clone()) {
            let problem = format!("is `{}`, which another tool is called", function.name);
            return Err(Error::message(place.key("name"), problem));
        }
        read.functions.push(function);
    }
    Ok(read)
}

/// One function; none for a tool of another type, which no format writes.
fn function(tool: &Value, place: Path<'_>) -> Result<Option<Tool>> {
    let Some(members) = tool.as_object() else {
        return Err(Error::message(place, tool.view().expected("a dict")));
    };
    let kind = members.get("type").and_then(Value::as_str);
    if kind.is_some_and(|kind| !matches!(kind, "function" | "custom" | "object"))
        && !members.contains_key("function")
    {
        return Ok(None);
    }
    let is_wrapped = members.get("function").is_some_and(Value::is_object);
    let inner = place.key("function");
    let (place, function) = if is_wrapped { (inner, &members["function"]) } else { (place, tool) };
    let Some(name) = function.get("name").and_then(Value::as_str) else {
        return Err(Error::message(place.key("name"), "is missing, expected a string"));
    };
    if let Some(problem) = wrong_word(name) {
        return Err(Error::message(place.key("name"), problem));
    }
    let keys = ["parameters", "input_schema"];
    let key = keys.into_iter().find(|key| function.get(key).is_some_and(|value| !value.is_null()));
    let path = place.key(key.unwrap_or("parameters"));
    let schema = match key {
        None => json!({"type": "object"}),
        Some(key) => object_schema(&function[key], path)?,
    };
    let (name, path) = (name.to_owned(), path.to_string());
    Ok(Some(Tool { name, schema: Arc::new(schema), has_schema: key.is_some(), path }))
}

/// The schema of arguments, which are an object.
fn object_schema(schema: &Value, path: Path<'_>) -> Result<Value> {
    let Some(members) = schema.as_object() else {
        return match schema {
            Value::Bool(true) => Ok(json!({"type": "object"})),
            _ => Err(Error::message(path, schema.view().expected("a JSON schema of an object"))),
        };
    };
    let is_open = |members: &Map<String, Value>| {
        let others = ["$ref", "anyOf", "oneOf", "allOf", "enum", "const"];
        !others.iter().any(|key| members.contains_key(*key))
    };
    let is_object = match members.get("type") {
        None if is_open(members) => {
            let mut members = members.clone();
            members.insert("type".to_owned(), "object".into());
            return Ok(Value::Object(members));
        }
        None => true,
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => {
            let problem = kind.view().expected("a string or a list of strings");
            return Err(Error::message(path.key("type"), problem));
        }
    };
    if !is_object {
        let problem =
            format!("is {}, expected \"object\": arguments are an object", members["type"]);
        return Err(Error::message(path.key("type"), problem));
    }
    let mut members = members.clone();
    if members.get("type").is_some_and(Value::is_array) {
        members.insert("type".to_owned(), "object".into());
    }
    Ok(Value::Object(members))
}
