//! Which tools a model may call, and whether it has to: a request's `tool_choice`.

use serde_json::Value;

use super::tools::Tools;
use crate::error::{Error, Result};
use crate::json;
use crate::message::Node;
use crate::path::Path;

const PATH: Path<'_> = Path::Argument("tool_choice");

/// A choice among tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ToolChoice {
    mode: Mode,
    /// The functions that may be called; `None` allows all.
    names: Option<Vec<String>>,
}

/// Whether there are calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    /// None.
    None,
    /// Some, if the model wants them.
    #[default]
    Auto,
    /// At least one.
    Required,
}

/// Reads `tool_choice` as the clients of OpenAI and Anthropic write it.
pub(super) fn read<N: Node>(choice: &N) -> Result<ToolChoice> {
    let mut text = String::new();
    json::write(choice, PATH, &mut text)?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| Error::message(PATH, format!("cannot be read: {error}")))?;
    let expected = "\"auto\", \"required\", \"none\", or a dict that names functions";
    match &value {
        Value::Null => Ok(ToolChoice::default()),
        Value::String(word) => Ok(ToolChoice { mode: mode(word, PATH)?, names: None }),
        Value::Object(members) => {
            let Some(kind) = members.get("type").and_then(Value::as_str) else {
                let problem = "is missing, expected \"function\" or \"allowed_tools\"";
                return Err(Error::message(PATH.key("type"), problem));
            };
            match kind {
                "function" | "tool" => {
                    let names = Some(vec![name(&value, PATH)?]);
                    Ok(ToolChoice { mode: Mode::Required, names })
                }
                "allowed_tools" => allowed_tools(&value),
                kind => Ok(ToolChoice { mode: mode(kind, PATH.key("type"))?, names: None }),
            }
        }
        value => Err(Error::message(PATH, value.view().expected(expected))),
    }
}

fn mode(word: &str, path: Path<'_>) -> Result<Mode> {
    match word {
        "auto" => Ok(Mode::Auto),
        "required" | "any" => Ok(Mode::Required),
        "none" => Ok(Mode::None),
        word => {
            let problem = format!("is {word:?}, expected \"auto\", \"required\" or \"none\"");
            Err(Error::message(path, problem))
        }
    }
}

/// The name of a function, by itself or within `function`.
fn name(value: &Value, path: Path<'_>) -> Result<String> {
    let function = value.get("function").filter(|function| function.is_object());
    let name = function.unwrap_or(value).get("name").and_then(Value::as_str);
    name.map(str::to_owned)
        .ok_or_else(|| Error::message(path.key("name"), "is missing, expected a function's name"))
}

/// OpenAI's `allowed_tools`: a mode and a list of functions.
fn allowed_tools(value: &Value) -> Result<ToolChoice> {
    let nested = PATH.key("allowed_tools");
    let (path, members) = match value.get("allowed_tools") {
        Some(members) => (nested, members),
        None => (PATH, value),
    };
    let mode = match members.get("mode") {
        None | Some(Value::Null) => Mode::Auto,
        Some(Value::String(word)) => mode(word, path.key("mode"))?,
        Some(other) => {
            return Err(Error::message(path.key("mode"), other.view().expected("a string")));
        }
    };
    let place = path.key("tools");
    let Some(tools) = members.get("tools").and_then(Value::as_array) else {
        return Err(Error::message(place, "is missing, expected a list of functions"));
    };
    let names = tools.iter().enumerate().map(|(at, tool)| name(tool, place.item(at)));
    Ok(ToolChoice { mode, names: Some(names.collect::<Result<_>>()?) })
}

impl ToolChoice {
    /// Whether there has to be a call.
    pub(super) fn is_required(&self) -> bool {
        self.mode == Mode::Required
    }

    /// Whether there is no call.
    pub(super) fn is_none(&self) -> bool {
        self.mode == Mode::None
    }

    /// The tools that may be called.
    pub(super) fn allowed(&self, mut tools: Tools) -> Result<Tools> {
        let names = self.names.as_deref().unwrap_or_default();
        if let Some(name) = names.iter().find(|name| !tools.has(name)) {
            let known: Vec<&str> = tools.functions.iter().map(|tool| &*tool.name).collect();
            let known = if known.is_empty() {
                "but there are no tools".to_owned()
            } else {
                format!("expected one of the tools: `{}`", known.join("`, `"))
            };
            return Err(Error::message(PATH, format!("names `{name}`, {known}")));
        }
        if self.names.is_some() {
            tools.functions.retain(|tool| names.contains(&tool.name));
            tools.has_code = false;
        }
        if self.is_none() {
            tools = Tools::default();
        }
        if self.is_required() && tools.is_empty() {
            return Err(Error::message(PATH, "asks for a call, but there are no tools"));
        }
        Ok(tools)
    }
}
