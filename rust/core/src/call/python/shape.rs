//! The call shapes `pair = "python"` and `pair = "json"`: keyword arguments between the brackets of a Python call,
//! with values of Python or of JSON.

use std::sync::Arc;

use serde_json::Value;

use super::{PairScanner, is_identifier, write};
use crate::call::shape::{ArgumentsReader, BoundShape, Parsed, Shape, ShapeKeys, Written};
use crate::call::{CallTags, Prefix};
use crate::error::{self, Checked, wrong};
use crate::expression::{Expression, Rules};
use crate::json;
use crate::path::Path;
use crate::pattern::Piece;
use crate::schema::Parameters;
use crate::schema::values::{JSON, Keys, PYTHON, Values, Words};
use chatcodec_vocab::{ControlId, Vocab};

/// The bracket that closes a call; the reader of arguments consumes it.
const CLOSE: &str = ")";

/// The keys of keyword arguments.
const KEYS: Keys<'_> = Keys {
    is_key: &is_identifier,
    any: "[A-Za-z_][A-Za-z0-9_]{0,63}",
    between: "=",
    problem: "is no name of Python's, which calls have here, expected one",
};

/// Keyword arguments.
#[derive(Debug, Clone, Copy)]
struct Python {
    /// The words for true, false and null, as they are written; both spellings are read.
    words: Words,
}

pub(crate) fn parse(keys: &ShapeKeys<'_>) -> Parsed {
    let words = match keys.text("pair")? {
        Some("python") => PYTHON,
        Some("json") => JSON,
        _ => return Ok(None),
    };
    if keys.table.contains_key("wrap") {
        let problem =
            "is given beside a call in Python, expected it beside a pattern of tagged pairs";
        return wrong(format!("{}.wrap", keys.key), problem);
    }
    Ok(Some(Arc::new(Python { words })))
}

impl Shape for Python {
    fn check_after<'p>(&self, key: &str, after: &'p [Piece]) -> Checked<&'p [Piece]> {
        match after {
            [Piece::Literal(close), rest @ ..] if close.starts_with(CLOSE) => Ok(rest),
            _ => wrong(key, "has no `)` after its arguments, expected text that begins with `)`"),
        }
    }

    fn own_end(&self) -> &'static str {
        CLOSE
    }

    fn may_be_only_read(&self) -> bool {
        true
    }

    fn prefix(&self) -> Option<Prefix> {
        Some(Prefix::python())
    }

    fn loss(&self) -> &'static str {
        "arguments: their spelling, they come back as `json.dumps` writes them"
    }

    fn bind(
        &self,
        _: CallTags,
        _: &dyn Fn(&Piece) -> Vec<ControlId>,
        _: &Vocab,
    ) -> Result<Arc<dyn BoundShape>, String> {
        Ok(Arc::new(*self))
    }
}

impl BoundShape for Python {
    fn write(&self, arguments: &str, vocab: &Vocab) -> Result<Vec<Written<'_>>, String> {
        let written = write(arguments, self.words, &|text| vocab.normalise(text))?;
        Ok(vec![Written::Value(written)])
    }

    fn canonical(&self, arguments: &str, vocab: &Vocab) -> String {
        json::respace_only(&json::respace(json::trim(arguments), &|text| vocab.normalise(text)))
    }

    fn expression(
        &self,
        schema: &Arc<Value>,
        rules: &mut Rules,
        path: Path<'_>,
    ) -> error::Result<Expression> {
        Values::new(schema, rules, self.words, Vec::new()).arguments_by_key(&KEYS, path)
    }

    fn reader(&self, _: Option<Arc<Parameters>>) -> Box<dyn ArgumentsReader> {
        Box::new(PairScanner::new())
    }
}
