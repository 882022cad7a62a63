//! Reading of `tools`: text is taken unchanged, functions are rendered by the format.

use std::borrow::Cow;

use super::read::unknown_key;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::json;
use crate::message::{Node, SURROGATE, View};
use crate::path::Path;
use chatcodec_vocab::Vocab;

/// Reads `tools`: text is taken unchanged, a list of functions is rendered by the format.
pub(crate) fn read_tools<N: Node>(
    tools: &N,
    format: &Format,
    vocab: &Vocab,
) -> Result<Option<String>> {
    let functions = match tools.view() {
        view if view.is_absent() => return Ok(None),
        View::Text("") => return Ok(None),
        View::List(functions) => functions,
        View::Text(text) => {
            // JSON text stays as it is.
            let is_json =
                matches!(vocab.normalise(text), Cow::Owned(_)) && json::is_value(json::trim(text));
            let text = if is_json { json::normalise_value(text, vocab) } else { text.into() };
            return Ok(Some(text.into_owned()));
        }
        View::Surrogate => return Err(Error::message("tools", SURROGATE)),
        view => {
            return Err(Error::message("tools", view.expected("a list of dicts, or a string")));
        }
    };
    let unwrapped: Vec<N> = functions
        .into_iter()
        .enumerate()
        .map(|(i, tool)| unwrap_tool(tool, Path::Argument("tools").item(i), format))
        .collect::<Result<_>>()?;
    format.write_tools(&unwrapped, vocab).map(Some)
}

fn unwrap_tool<N: Node>(tool: N, path: Path<'_>, format: &Format) -> Result<N> {
    let View::Map(members) = tool.view() else {
        return Err(Error::message(path, tool.view().expected("a dict")));
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
            Err(Error::message(path.key("function"), function.view().expected("a dict")))
        }
    }
}
