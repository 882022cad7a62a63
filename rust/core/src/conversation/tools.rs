//! Reading of `tools`: text is taken unchanged, a list of functions is declared by the format.

use std::borrow::Cow;

use super::read::unknown_key;
use crate::error::{Error, Result};
use crate::format::{DeclaredTools, Format, KeptTools};
use crate::json;
use crate::message::{Node, Owned, SURROGATE, View};
use crate::path::Path;
use chatcodec_vocab::Vocab;

/// Reads `tools`: text is taken unchanged, a list of functions is declared by the format.
pub(crate) fn read_tools<N: Node>(
    tools: &N,
    format: &Format,
    kept: &KeptTools,
    vocab: &Vocab,
) -> Result<Option<DeclaredTools>> {
    match tools.view() {
        view if view.is_absent() => Ok(None),
        View::Text("") => Ok(None),
        View::List(functions) => {
            for (i, tool) in functions.iter().enumerate() {
                check_tool(tool, Path::Argument("tools").item(i), format)?;
            }
            format.declare(&functions, kept, vocab).map(Some)
        }
        View::Text(text) => {
            // A list of functions in JSON, where its declaration has control tokens, which no text has.
            if format.declaring_tokens().next().is_some()
                && let list @ Owned::List(_) = Owned::of_json(text)
                && list != Owned::List(Vec::new())
                && let Ok(Some(declared)) = read_tools(&&list, format, kept, vocab)
            {
                return Ok(Some(declared));
            }
            // JSON text stays as it is.
            let is_json =
                matches!(vocab.normalise(text), Cow::Owned(_)) && json::is_value(json::trim(text));
            let text = if is_json { json::normalise_value(text, vocab) } else { text.into() };
            Ok(Some(text.into_owned().into()))
        }
        View::Surrogate => Err(Error::message("tools", SURROGATE)),
        view => Err(Error::message("tools", view.expected("a list of dicts, or a string"))),
    }
}

/// Checks a tool; in a format that declares functions it is one, with or without an object around it.
fn check_tool<N: Node>(tool: &N, path: Path<'_>, format: &Format) -> Result<()> {
    let View::Map(members) = tool.view() else {
        return Err(Error::message(path, tool.view().expected("a dict")));
    };
    let Some(declaration) = format.declaration().filter(|it| it.reads_functions) else {
        return Ok(());
    };
    let is_function = |(key, _): &&(N, N)| key.as_text() == Some("function");
    let Some((_, function)) = members.iter().find(is_function) else {
        return if declaration.reads_names { check_name(&members, path) } else { Ok(()) };
    };
    let key = path.key("function");
    let View::Map(named) = function.view() else {
        return Err(Error::message(key, function.view().expected("a dict")));
    };
    let is_odd = |(key, value): &&(N, N)| {
        !matches!(key.as_text(), Some("function" | "type") | None) && !value.view().is_absent()
    };
    if let Some(odd) = members.iter().find(is_odd).and_then(|(key, _)| key.as_text()) {
        return Err(unknown_key(path.key(odd), "a tool beside `function`", "`type`"));
    }
    if declaration.reads_names { check_name(&named, key) } else { Ok(()) }
}

fn check_name<N: Node>(function: &[(N, N)], path: Path<'_>) -> Result<()> {
    let is_name = |(key, _): &&(N, N)| key.as_text() == Some("name");
    match function.iter().find(is_name).map(|(_, name)| name.view()) {
        None => Err(Error::message(path.key("name"), "is missing, expected a string")),
        Some(View::Text(_)) => Ok(()),
        Some(View::Surrogate) => Err(Error::message(path.key("name"), SURROGATE)),
        Some(name) => Err(Error::message(path.key("name"), name.expected("a string"))),
    }
}
