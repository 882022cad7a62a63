//! Expressions in llguidance's Lark.

use std::fmt::Write;

use hashbrown::HashMap;
use serde_json::{Value, json};

use super::{Constraint, repeated, schema};
use crate::error::Result;
use crate::expression::{Expression, Part};
use chatcodec_vocab::TokenId;

/// White space between the tokens of JSON: none or one space.
const SPACE: &str = "[ ]?";

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

/// A constraint in llguidance's Lark, which names control tokens by their ids.
pub(super) fn print(constraint: &Constraint) -> Result<String> {
    for (path, schema) in &constraint.schemas {
        schema::check(path, schema, "llguidance", &UNKNOWN)?;
    }
    let mut printer = Printer::default();
    let mut rules = String::new();
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
            Expression::Json(schema) => format!("%json {}", spaced(schema)),
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
            Part::Regex { regex, except } => self.matching(regex, except),
            Part::Any { except } => self.matching(".*", except),
        }
    }

    /// Text that matches a regular expression, and none of the others.
    fn matching(&mut self, regex: &str, except: &[String]) -> String {
        let mut text = slashed(regex);
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

/// A schema with the spacing that JSON may have.
fn spaced(schema: &Value) -> Value {
    let spacing = json!({
        "whitespace_flexible": true,
        "whitespace_pattern": SPACE,
        "json_allow_general_unicode_escapes": true,
    });
    match schema {
        Value::Object(members) => {
            let mut members = members.clone();
            members.insert("x-guidance".to_owned(), spacing);
            Value::Object(members)
        }
        schema => json!({"allOf": [schema], "x-guidance": spacing}),
    }
}
