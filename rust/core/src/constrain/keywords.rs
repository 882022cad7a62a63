//! Checks of schemas before a backend compiles them. An error names the place of an invalid schema, or of a keyword
//! that the backend does not know. Keywords that do not restrict a value are left out.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::message::Node;
use crate::path::Path;
use crate::schema::values::are_apart;

/// What the value of a keyword has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Schema,
    /// A schema, or a list of them.
    Schemas,
    /// A list of schemas, of one at least.
    List,
    /// Schemas by name.
    Named,
    Values,
    Names,
    Text,
    Count,
    Number,
    Type,
    /// An annotation: it restricts nothing.
    Note,
}

const KEYWORDS: [(&str, Kind); 46] = [
    ("$comment", Kind::Note),
    ("$defs", Kind::Named),
    ("$ref", Kind::Text),
    ("additionalItems", Kind::Schema),
    ("additionalProperties", Kind::Schema),
    ("allOf", Kind::List),
    ("anyOf", Kind::List),
    ("contains", Kind::Schema),
    ("default", Kind::Note),
    ("definitions", Kind::Named),
    ("dependentSchemas", Kind::Named),
    ("deprecated", Kind::Note),
    ("description", Kind::Note),
    ("else", Kind::Schema),
    ("enum", Kind::Values),
    ("example", Kind::Note),
    ("examples", Kind::Note),
    ("exclusiveMaximum", Kind::Number),
    ("exclusiveMinimum", Kind::Number),
    ("format", Kind::Text),
    ("if", Kind::Schema),
    ("items", Kind::Schemas),
    ("maxContains", Kind::Count),
    ("maxItems", Kind::Count),
    ("maxLength", Kind::Count),
    ("maxProperties", Kind::Count),
    ("maximum", Kind::Number),
    ("minContains", Kind::Count),
    ("minItems", Kind::Count),
    ("minLength", Kind::Count),
    ("minProperties", Kind::Count),
    ("minimum", Kind::Number),
    ("multipleOf", Kind::Number),
    ("not", Kind::Schema),
    ("oneOf", Kind::List),
    ("pattern", Kind::Text),
    ("patternProperties", Kind::Named),
    ("prefixItems", Kind::List),
    ("properties", Kind::Named),
    ("propertyNames", Kind::Schema),
    ("readOnly", Kind::Note),
    ("required", Kind::Names),
    ("then", Kind::Schema),
    ("title", Kind::Note),
    ("type", Kind::Type),
    ("writeOnly", Kind::Note),
];

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

fn kind_of(keyword: &str) -> Option<Kind> {
    let at = KEYWORDS.binary_search_by(|(known, _)| (*known).cmp(keyword)).ok()?;
    Some(KEYWORDS[at].1)
}

/// Checks that a value is a schema, and removes keywords that do not restrict values.
///
/// # Errors
/// The first invalid part, with its place.
pub(super) fn prepare(path: Path<'_>, schema: &mut Value) -> Result<()> {
    let mut has_one_of = false;
    prepare_part(path, schema, &mut has_one_of)?;
    if has_one_of {
        let root = schema.clone();
        one_of_to_any_of(schema, &root);
    }
    Ok(())
}

fn prepare_part(path: Path<'_>, schema: &mut Value, has_one_of: &mut bool) -> Result<()> {
    let keys = match schema {
        Value::Object(keys) => keys,
        Value::Bool(_) => return Ok(()),
        other => return Err(Error::message(path, other.view().expected("a JSON schema"))),
    };
    keys.retain(|key, value| {
        kind_of(key) != Some(Kind::Note) && (key != "uniqueItems" || *value != Value::Bool(false))
    });
    *has_one_of |= keys.contains_key("oneOf");
    for (key, value) in keys {
        let place = path.key(key);
        let expected = match (kind_of(key), value) {
            (None | Some(Kind::Note), _)
            | (Some(Kind::Values), Value::Array(_))
            | (Some(Kind::Text), Value::String(_))
            | (Some(Kind::Number), Value::Number(_)) => continue,
            (Some(Kind::Schema), value)
            | (Some(Kind::Schemas), value @ (Value::Object(_) | Value::Bool(_))) => {
                prepare_part(place, value, has_one_of)?;
                continue;
            }
            (Some(Kind::List | Kind::Schemas), Value::Array(all)) if !all.is_empty() => {
                for (at, value) in all.iter_mut().enumerate() {
                    prepare_part(place.item(at), value, has_one_of)?;
                }
                continue;
            }
            (Some(Kind::Named), Value::Object(named)) => {
                for (name, value) in named {
                    prepare_part(place.key(name), value, has_one_of)?;
                }
                continue;
            }
            (Some(Kind::Names), Value::Array(names)) if names.iter().all(Value::is_string) => {
                continue;
            }
            (Some(Kind::Count), value) if value.as_f64().is_some_and(is_count) => {
                // `3.0` is the integer 3.
                *value = (value.as_f64().unwrap_or_default() as u64).into();
                continue;
            }
            (Some(Kind::Type), Value::String(kind)) if TYPES.contains(&&**kind) => continue,
            (Some(Kind::Type), Value::Array(kinds))
                if !kinds.is_empty()
                    && kinds
                        .iter()
                        .all(|kind| kind.as_str().is_some_and(|kind| TYPES.contains(&kind))) =>
            {
                continue;
            }
            (Some(Kind::Schemas), other) => other.view().expected("a JSON schema"),
            (Some(Kind::List), other) => other.view().expected("a non-empty list of JSON schemas"),
            (Some(Kind::Named), other) => other.view().expected("a dict of JSON schemas"),
            (Some(Kind::Values), other) => other.view().expected("a list of values"),
            (Some(Kind::Names), other) => other.view().expected("a list of strings"),
            (Some(Kind::Text), other) => other.view().expected("a string"),
            (Some(Kind::Count), other) => other.view().expected("an integer of 0 or more"),
            (Some(Kind::Number), other) => other.view().expected("a number"),
            (Some(Kind::Type), other) => {
                let expected =
                    format!("expected one of `{}`, or a list of them", TYPES.join("`, `"));
                format!("is {other}, {expected}")
            }
        };
        return Err(Error::message(place, expected));
    }
    Ok(())
}

fn is_count(number: f64) -> bool {
    number.fract() == 0.0 && (0.0..9e15).contains(&number)
}

/// Says why a keyword of a schema cannot be expressed, if it cannot: given the schema, the keyword and its value.
pub(super) type Judge<'a> = &'a dyn Fn(&Map<String, Value>, &str, &Value) -> Option<String>;

/// Checks that a schema, and all in it, has none of the keywords that a backend cannot express.
///
/// # Errors
/// The first that it has, with its place.
pub(super) fn check(path: Path<'_>, schema: &Value, judge: Judge<'_>) -> Result<()> {
    let Some(keys) = schema.as_object() else { return Ok(()) };
    for (key, value) in keys {
        let place = path.key(key);
        if let Some(problem) = judge(keys, key, value) {
            return Err(Error::message(
                place,
                format!("{problem}; `strict=False` takes any arguments"),
            ));
        }
        match (kind_of(key), value) {
            (Some(Kind::Named), Value::Object(named)) => {
                for (name, value) in named {
                    check(place.key(name), value, judge)?;
                }
            }
            (Some(Kind::Schema | Kind::Schemas), Value::Object(_)) => check(place, value, judge)?,
            (Some(Kind::List | Kind::Schemas), Value::Array(all)) => {
                for (at, value) in all.iter().enumerate() {
                    check(place.item(at), value, judge)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes `oneOf` as `anyOf` where no value can match two of its schemas.
fn one_of_to_any_of(schema: &mut Value, root: &Value) {
    let Value::Object(keys) = schema else {
        if let Value::Array(all) = schema {
            for schema in all {
                one_of_to_any_of(schema, root);
            }
        }
        return;
    };
    for (key, value) in keys.iter_mut() {
        match (kind_of(key), value) {
            (Some(Kind::Named), Value::Object(named)) => {
                named.values_mut().for_each(|schema| one_of_to_any_of(schema, root));
            }
            (Some(Kind::Schema | Kind::Schemas | Kind::List), value) => {
                one_of_to_any_of(value, root);
            }
            _ => {}
        }
    }
    let is_free = !keys.contains_key("anyOf");
    if let Some(Value::Array(parts)) = keys.get("oneOf")
        && is_free
        && parts.len() <= MAX_PARTS
        && (0..parts.len()).all(|at| parts[..at].iter().all(|one| are_apart(one, &parts[at], root)))
    {
        let parts = keys.shift_remove("oneOf").unwrap_or_default();
        keys.insert("anyOf".to_owned(), parts);
    }
}

/// Maximum number of schemas in `oneOf` that are compared pairwise.
const MAX_PARTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::KEYWORDS;

    #[test]
    fn keywords_are_sorted() {
        assert!(KEYWORDS.is_sorted_by(|(one, _), (other, _)| one < other));
    }
}
