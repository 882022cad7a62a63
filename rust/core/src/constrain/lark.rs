//! Expressions in llguidance's Lark.

use std::fmt::Write;

use hashbrown::HashMap;
use serde_json::{Map, Value, json};

use super::{Constraint, keywords, repeated};
use crate::error::Result;
use crate::expression::{Expression, Part};
use crate::path::Path;
use crate::schema::values::wrong_pattern;
use chatcodec_vocab::TokenId;

/// White space between the tokens of JSON: none or one space.
const SPACE: &str = "[ ]?";

/// Lets text be any tokens that spell it. Otherwise llguidance asks for the tokens of the text that is sure to follow,
/// which are others than those of the whole text: `="a` alone and `="ab` are split in different places.
const OPTIONS: &str = "%llguidance {\"no_forcing\": true}\n";

/// Keywords of schemas that llguidance 1.9 refuses.
const UNKNOWN: [&str; 16] = [
    "not",
    "if",
    "then",
    "else",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
    "$recursiveRef",
    "dependencies",
];

/// Formats of strings that llguidance 1.9 knows.
const FORMATS: [&str; 11] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "time",
    "unknown",
    "uri",
    "uuid",
];

/// Why llguidance cannot express a keyword, if it cannot. `root` is the whole schema.
fn problem(root: &Value, keys: &Map<String, Value>, key: &str, value: &Value) -> Option<String> {
    let is_string = match keys.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        Some(kind) => kind == "string",
    };
    let text = value.as_str().unwrap_or_default();
    match key {
        "$ref" => {
            let mut at = value;
            for _ in 0..16 {
                let pointer = at.as_str().and_then(|pointer| pointer.strip_prefix('#'));
                let Some(found) = pointer.and_then(|pointer| root.pointer(pointer)) else {
                    return Some(format!(
                        "is {at}, expected the place of a schema in this one, as `#/$defs/a`"
                    ));
                };
                match found.get("$ref") {
                    None => return None,
                    Some(next) => at = next,
                }
            }
            Some("refers to itself without an end, expected a schema of finite values".to_owned())
        }
        "exclusiveMinimum" | "exclusiveMaximum" if is_within_one(keys, key) => Some(
            "is a whole number that llguidance admits where the other bound is less than 1 away, expected bounds \
             further apart"
                .to_owned(),
        ),
        "pattern" if is_string => wrong_pattern(text),
        "format" if is_string && !FORMATS.contains(&text) => {
            let known = FORMATS.join("`, `");
            Some(format!("is {text:?}, which llguidance cannot express, expected one of `{known}`"))
        }
        "oneOf" => Some("has schemas that one value may follow, expected `anyOf`".to_owned()),
        key if UNKNOWN.contains(&key) => Some(
            "is a keyword that llguidance cannot express, expected a schema without it".to_owned(),
        ),
        _ => None,
    }
}

/// Whether the bounds of a number have the same whole part, and one of them is this part itself and left out:
/// llguidance 1.9 admits it, as `0` of the numbers over 0 and up to 0.5.
fn is_within_one(keys: &Map<String, Value>, key: &str) -> bool {
    let bound = |key: &str| keys.get(key).and_then(Value::as_f64);
    let Some(own) = bound(key) else { return false };
    let others = match key {
        "exclusiveMinimum" => ["maximum", "exclusiveMaximum"],
        _ => ["minimum", "exclusiveMinimum"],
    };
    own.fract() == 0.0
        && keys.get("type").is_none_or(|kind| kind != "integer")
        && others.into_iter().filter_map(bound).any(|other| (other - own).abs() < 1.0)
}

/// A constraint in llguidance's Lark, which names control tokens by their ids.
pub(super) fn print(constraint: &Constraint, unicode_escapes: bool) -> Result<String> {
    for (path, schema) in &constraint.schemas {
        let judge =
            |keys: &Map<String, Value>, key: &str, value: &Value| problem(schema, keys, key, value);
        keywords::check(Path::Argument(path), schema, &judge)?;
    }
    let mut printer = Printer { unicode_escapes, ..Printer::default() };
    let mut rules = OPTIONS.to_owned();
    let start = printer.expression(&constraint.start);
    let _ = writeln!(rules, "start: {start}");
    for (number, rule) in constraint.rules.iter().enumerate() {
        let rule = printer.expression(rule);
        let _ = writeln!(rules, "rule_{number}: {rule}");
    }
    rules.push_str(&printer.terminals);
    Ok(rules)
}

#[derive(Default)]
struct Printer {
    /// The lines of the terminals.
    terminals: String,
    /// The number of each terminal.
    known: HashMap<String, usize>,
    /// Whether strings of JSON may escape any character by its number.
    unicode_escapes: bool,
}

impl Printer {
    fn expression(&mut self, expression: &Expression) -> String {
        match expression {
            Expression::Sequence(parts) if parts.is_empty() => "\"\"".to_owned(),
            Expression::Sequence(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.expression(part)).collect();
                parts.join(" ")
            }
            Expression::Choice(all) => {
                let all: Vec<String> = all.iter().map(|part| self.expression(part)).collect();
                format!("({})", all.join(" | "))
            }
            Expression::Repeat(inner, least, most) => {
                let inner = self.expression(inner);
                repeated(&inner, *least, *most)
            }
            Expression::Rule(number) => format!("rule_{number}"),
            Expression::Ids(ids) | Expression::End(ids) => token(ids),
            Expression::Literal(text) => string(text),
            Expression::Text(parts) => self.text(parts),
            Expression::Json(schema) => format!("%json {}", self.spaced(schema)),
        }
    }

    /// A schema with the spacing and the escapes that JSON may have.
    fn spaced(&self, schema: &Value) -> Value {
        let mut options = json!({"whitespace_flexible": true, "whitespace_pattern": SPACE});
        if self.unicode_escapes {
            options["json_allow_general_unicode_escapes"] = true.into();
        }
        match schema {
            Value::Object(members) => {
                let mut members = members.clone();
                members.insert("x-guidance".to_owned(), options);
                Value::Object(members)
            }
            schema => json!({"allOf": [schema], "x-guidance": options}),
        }
    }

    fn text(&mut self, parts: &[Part]) -> String {
        let parts: Vec<String> = parts.iter().map(|part| self.part(part)).collect();
        match &parts[..] {
            [one] => one.clone(),
            _ => self.terminal(&parts.join(" ")),
        }
    }

    fn part(&mut self, part: &Part) -> String {
        match part {
            Part::Literal(text) => string(text),
            Part::Regex { regex, also, except } => self.matching(regex, also, except),
            Part::Any { except } => self.matching(".*", &[], except),
        }
    }

    /// Text that matches a regular expression, and others, and none of those that are left out.
    ///
    /// llguidance does not see where a complement leaves nothing that may follow, so that a text which has to end
    /// is described by what it is.
    fn matching(&mut self, regex: &str, also: &[String], except: &[String]) -> String {
        let mut text = slashed(regex);
        for regex in also {
            let _ = write!(text, " & {}", slashed(regex));
        }
        for regex in except {
            let _ = write!(text, " & ~{}", slashed(regex));
        }
        self.terminal(&text)
    }

    /// The name of a terminal.
    fn terminal(&mut self, definition: &str) -> String {
        let next = self.known.len();
        let number = *self.known.entry_ref(definition).or_insert(next);
        if number == next {
            let _ = writeln!(self.terminals, "TEXT_{number}: {definition}");
        }
        format!("TEXT_{number}")
    }
}

/// A regular expression whose `.` is any character.
fn slashed(regex: &str) -> String {
    format!("/(?s:{})/", regex.replace('/', "\\/"))
}

/// One of some control tokens.
fn token(ids: &[TokenId]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    format!("<[{}]>", ids.join(","))
}

fn string(text: &str) -> String {
    Value::from(text).to_string()
}
