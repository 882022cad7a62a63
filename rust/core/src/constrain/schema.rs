//! Schemas, before a backend compiles them: keywords that it does not know are named with their place.

use serde_json::Value;

use crate::error::{Error, Result};

/// Keywords with one schema.
const SINGLE: [&str; 4] = ["items", "additionalProperties", "additionalItems", "not"];
/// Keywords with a list of schemas.
const LISTS: [&str; 5] = ["anyOf", "oneOf", "allOf", "prefixItems", "items"];
/// Keywords with schemas by name.
const NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

/// Checks that a schema, and all in it, has none of the keywords that a backend cannot express.
///
/// # Errors
/// The first that it has, with its place.
pub(super) fn check(path: &str, schema: &Value, backend: &str, unknown: &[&str]) -> Result<()> {
    let Some(keys) = schema.as_object() else { return Ok(()) };
    if let Some(keyword) = unknown.iter().find(|keyword| keys.contains_key(**keyword)) {
        let problem = format!(
            "has the keyword `{keyword}`, which {backend} cannot express, expected a schema without it; \
             `strict=False` takes any arguments"
        );
        return Err(Error::message(path, problem));
    }
    for (key, value) in keys {
        let inner = |place: String, value: &Value| check(&place, value, backend, unknown);
        let place = format!("{path}.{key}");
        match value {
            Value::Object(named) if NAMED.contains(&&**key) => {
                for (name, value) in named {
                    inner(format!("{place}.{name}"), value)?;
                }
            }
            Value::Object(_) if SINGLE.contains(&&**key) => inner(place, value)?,
            Value::Array(all) if LISTS.contains(&&**key) => {
                for (at, value) in all.iter().enumerate() {
                    inner(format!("{place}[{at}]"), value)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
