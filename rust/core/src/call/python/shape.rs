//! The call shapes `pair = "python"` and `pair = "json"`: keyword arguments between the brackets of a Python call,
//! with values of Python or of JSON.

use std::sync::Arc;

use serde_json::Value;

use super::{PairScanner, is_identifier, write};
use crate::call::Prefix;
use crate::call::shape::{
    After, ArgumentsReader, BoundShape, Language, Parsed, Shape, ShapeKeys, Written,
};
use crate::error::wrong;
use crate::expression::Rules;
use crate::json;
use crate::path::Path;
use crate::schema::Parameters;
use crate::schema::values::{JSON, Keys, PYTHON, Values, Words};
use chatcodec_vocab::Vocab;

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
    let loss = "arguments: their spelling, they come back as `json.dumps` writes them";
    Ok(Some(Shape {
        after: After::Text(")"),
        may_be_only_read: true,
        prefix: Some(Prefix::python()),
        ..Shape::new(Python { words }, loss)
    }))
}

impl BoundShape for Python {
    fn write(&self, arguments: &str, vocab: &Vocab) -> Result<Vec<Written<'_>>, String> {
        let written = write(arguments, self.words, &|text| vocab.normalise(text))?;
        Ok(vec![Written::Value(written)])
    }

    fn canonical(&self, arguments: &str, vocab: &Vocab) -> String {
        json::respace_only(&json::respace(json::trim(arguments), &|text| vocab.normalise(text)))
    }

    fn expression(&self, schema: &Arc<Value>, rules: &mut Rules, path: Path<'_>) -> Language {
        Values::new(schema, rules, self.words, Vec::new()).arguments_by_key(&KEYS, path)
    }

    fn reader(self: Arc<Self>, _: Option<Arc<Parameters>>) -> Box<dyn ArgumentsReader> {
        Box::new(PairScanner::new())
    }
}
