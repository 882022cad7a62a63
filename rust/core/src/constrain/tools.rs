//! The tools of a constraint: their names and the schemas of their arguments, read from a caller's value.

use std::sync::Arc;

use hashbrown::HashSet;
use serde_json::{Value, json};

use super::keywords;
use crate::error::{Error, Result};
use crate::json;
use crate::message::{Node, View};
use crate::path::Path;
use crate::word::wrong_word;

/// More tools than these are refused.
const MAX_TOOLS: usize = 1024;

/// So many bytes of tools are read at most.
const MAX_BYTES: usize = 16 << 20;

/// A function that a model may call.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// The schema of its arguments.
    pub(crate) schema: Arc<Value>,
    /// Whether the caller gave the schema.
    pub(crate) has_schema: bool,
    /// The place of its schema in the caller's value.
    pub(crate) path: String,
}

/// What a model may call.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    pub(crate) functions: Vec<Tool>,
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

const PATH: Path<'_> = Path::Argument("tools");

/// The text of a caller's tools, as JSON; empty without tools.
///
/// # Errors
/// What is no list of tools, and no JSON text.
pub(super) fn text<N: Node>(tools: &N) -> Result<String> {
    let mut text = String::new();
    match tools.view() {
        View::Null => {}
        View::Text(given) => given.clone_into(&mut text),
        View::List(items) => json::write_list(&items, PATH, &mut text)?,
        view => return Err(Error::message(PATH, view.expected("a list of dicts, or JSON text"))),
    }
    if text.len() > MAX_BYTES {
        let problem = format!("are {} bytes long, expected at most {MAX_BYTES}", text.len());
        return Err(Error::message(PATH, problem));
    }
    Ok(text)
}

/// Reads tools from JSON text. Where arguments follow schemas, these are checked.
///
/// # Errors
/// What is no list of functions, and what is no schema, with its place.
pub(super) fn read(text: &str, is_strict: bool) -> Result<Tools> {
    if text.is_empty() {
        return Ok(Tools::default());
    }
    let all: Vec<Value> = serde_json::from_str(text).map_err(|error| {
        Error::message(PATH, format!("cannot be read as a list of functions: {error}"))
    })?;
    if all.len() > MAX_TOOLS {
        let problem = format!("are {}, expected at most {MAX_TOOLS}", all.len());
        return Err(Error::message(PATH, problem));
    }
    let mut names = HashSet::new();
    let mut read = Tools::default();
    let object = Arc::new(json!({"type": "object"}));
    for (at, tool) in all.into_iter().enumerate() {
        let place = PATH.item(at);
        if tool.get("type").is_some_and(|kind| kind == "code_interpreter") {
            read.has_code = true;
            continue;
        }
        let Some(function) = function(tool, place, &object, is_strict)? else { continue };
        if !names.insert(function.name.clone()) {
            let problem = format!("is `{}`, which another tool is called", function.name);
            return Err(Error::message(place.key("name"), problem));
        }
        read.functions.push(function);
    }
    Ok(read)
}

/// One function; none for a tool of another type, which no format writes. `object` is the schema of any arguments.
fn function(
    mut tool: Value,
    place: Path<'_>,
    object: &Arc<Value>,
    is_strict: bool,
) -> Result<Option<Tool>> {
    let Some(members) = tool.as_object_mut() else {
        return Err(Error::message(place, tool.view().expected("a dict")));
    };
    let kind = members.get("type").and_then(Value::as_str);
    if kind.is_some_and(|kind| !matches!(kind, "function" | "custom" | "object"))
        && !members.contains_key("function")
    {
        return Ok(None);
    }
    let inner = place.key("function");
    let is_wrapped = members.get("function").is_some_and(Value::is_object);
    let (place, function) = match members.get_mut("function") {
        Some(Value::Object(function)) if is_wrapped => (inner, function),
        _ => (place, members),
    };
    let Some(name) = function.get("name").and_then(Value::as_str) else {
        return Err(Error::message(place.key("name"), "is missing, expected a string"));
    };
    if let Some(problem) = wrong_word(name) {
        return Err(Error::message(place.key("name"), problem));
    }
    let name = name.to_owned();
    let keys = ["parameters", "input_schema"];
    let key = keys.into_iter().find(|key| function.get(*key).is_some_and(|value| !value.is_null()));
    let path = place.key(key.unwrap_or("parameters"));
    let schema = match key.and_then(|key| function.get_mut(key)) {
        Some(schema) if is_strict => Arc::new(object_schema(schema.take(), path)?),
        Some(schema) => {
            object_schema_type(schema, path)?;
            object.clone()
        }
        None => object.clone(),
    };
    Ok(Some(Tool { name, schema, has_schema: key.is_some(), path: path.to_string() }))
}

/// The schema of arguments, which are an object.
fn object_schema(mut schema: Value, path: Path<'_>) -> Result<Value> {
    object_schema_type(&mut schema, path)?;
    keywords::prepare(path, &mut schema)?;
    Ok(schema)
}

/// Checks that a schema is one of objects, and makes it say so.
fn object_schema_type(schema: &mut Value, path: Path<'_>) -> Result<()> {
    if *schema == Value::Bool(true) {
        *schema = json!({"type": "object"});
    }
    let Some(members) = schema.as_object_mut() else {
        return Err(Error::message(path, schema.view().expected("a JSON schema of an object")));
    };
    let others = ["$ref", "anyOf", "oneOf", "allOf", "enum", "const"];
    let is_open = !others.iter().any(|key| members.contains_key(*key));
    let is_object = match members.get("type") {
        None => !is_open,
        Some(Value::String(kind)) if kind == "object" => return Ok(()),
        Some(Value::String(_)) => false,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => {
            let problem = kind.view().expected("a string or a list of strings");
            return Err(Error::message(path.key("type"), problem));
        }
    };
    match members.get("type") {
        Some(kind) if !is_object => {
            let problem = format!("is {kind}, expected \"object\": arguments are an object");
            return Err(Error::message(path.key("type"), problem));
        }
        None if is_object => {}
        _ => {
            members.insert("type".to_owned(), "object".into());
        }
    }
    Ok(())
}
