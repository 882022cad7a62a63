//! What the text of an answer is: a request's `response_format`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::keywords;
use crate::error::{Error, Result};
use crate::json as json_text;
use crate::message::Node;
use crate::path::Path;

const PATH: Path<'_> = Path::Argument("response_format");

/// JSON that an answer is, with the place of its schema.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) schema: Arc<Value>,
    pub(super) path: String,
    /// Whether the caller gave the schema.
    pub(super) has_schema: bool,
}

/// The text of a caller's `response_format`, as JSON.
///
/// # Errors
/// What JSON cannot write.
pub(super) fn text<N: Node>(given: &N) -> Result<String> {
    let mut written = String::new();
    json_text::write(given, PATH, &mut written)?;
    Ok(written)
}

/// Reads `response_format` as OpenAI's clients write it; `None` for text. Where the answer follows its schema, the
/// schema is checked.
///
/// # Errors
/// An invalid response format or an invalid schema, with its place.
pub(super) fn read(text: &str, is_strict: bool) -> Result<Option<Answer>> {
    if text.is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_str(text)
        .map_err(|error| Error::message(PATH, format!("cannot be read: {error}")))?;
    let kind = match &value {
        Value::Null => return Ok(None),
        Value::String(kind) => kind,
        Value::Object(members) => {
            let Some(Value::String(kind)) = members.get("type") else {
                let problem = "is missing, expected \"text\", \"json_object\" or \"json_schema\"";
                return Err(Error::message(PATH.key("type"), problem));
            };
            kind
        }
        other => return Err(Error::message(PATH, other.view().expected("a dict"))),
    };
    match &**kind {
        "text" => Ok(None),
        "json_object" => Ok(Some(Answer {
            schema: Arc::new(json!({"type": "object"})),
            path: PATH.to_string(),
            has_schema: false,
        })),
        "json_schema" => {
            let inner = PATH.key("json_schema");
            let (place, members) = match value.get("json_schema") {
                Some(members) => (inner, members),
                None => (PATH, &value),
            };
            let place = place.key("schema");
            match members.get("schema") {
                Some(schema @ (Value::Object(_) | Value::Bool(true))) => {
                    let mut schema = schema.clone();
                    if is_strict {
                        keywords::prepare(place, &mut schema)?;
                    } else {
                        schema = json!({});
                    }
                    let (schema, path) = (Arc::new(schema), place.to_string());
                    Ok(Some(Answer { schema, path, has_schema: true }))
                }
                Some(other) => Err(Error::message(place, other.view().expected("a JSON schema"))),
                None => Err(Error::message(place, "is missing, expected a JSON schema")),
            }
        }
        kind => {
            let problem =
                format!("is {kind:?}, expected \"text\", \"json_object\" or \"json_schema\"");
            Err(Error::message(PATH.key("type"), problem))
        }
    }
}

impl Answer {
    /// Whether no JSON of the schema begins as a call does that nothing marks as one: with these names.
    pub(super) fn is_no_call(&self) -> bool {
        let properties = self.schema.get("properties").and_then(Value::as_object);
        let is_closed = self.schema.get("additionalProperties") == Some(&Value::Bool(false));
        let has = |key: &str| self.schema.get(key).is_some();
        is_closed
            && !["$ref", "anyOf", "oneOf", "allOf", "enum", "const"].iter().any(|key| has(key))
            && self.schema.get("type").is_none_or(|kind| kind == "object")
            && properties.is_some_and(|named| {
                !["name", "type", "function"].iter().any(|name| named.contains_key(*name))
            })
    }
}
