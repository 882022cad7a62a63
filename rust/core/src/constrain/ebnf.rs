//! Expressions as rules of EBNF, for backends whose text is characters: xgrammar and llama.cpp.
//!
//! The two write control tokens in their own ways, and say otherwise what may end. Complements and schemas are
//! printed as rules: these grammars have neither.

use std::fmt::Write;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;

use super::automaton::{Automaton, State};
use super::{Constraint, repeated};
use crate::call::values::{JSON, Values};
use crate::error::{Error, Result};
use crate::expression::{Expression, Part, Rules};
use chatcodec_vocab::TokenId;

/// How a backend writes what EBNF lacks.
pub(super) struct Dialect {
    /// The backend, for errors.
    pub(super) name: &'static str,
    /// Writes one of some control tokens.
    pub(super) token: fn(&[TokenId]) -> String,
    /// Greatest bound of a repetition.
    pub(super) most: u32,
    /// Spellings that text must not hold, because the backend takes text that spells a control token for it.
    pub(super) spellings: Vec<String>,
}

/// A constraint as rules, `root` first. An end is where the grammar is complete: backends accept a stop id there.
///
/// # Errors
/// [`Error::Message`] for what the backend cannot express.
pub(super) fn print(constraint: &Constraint, dialect: &Dialect) -> Result<String> {
    let mut printer = Printer {
        constraint,
        dialect,
        rules: String::new(),
        texts: HashMap::new(),
        schemas: HashMap::new(),
        count: 0,
    };
    let start = printer.expression(&constraint.start, "r")?;
    let mut all = format!("root ::= {start}\n");
    for (number, rule) in constraint.rules.iter().enumerate() {
        let rule = printer.expression(rule, "r")?;
        let _ = writeln!(all, "r{number} ::= {rule}");
    }
    all.push_str(&printer.rules);
    Ok(all)
}

struct Printer<'a> {
    constraint: &'a Constraint,
    dialect: &'a Dialect,
    /// Rules of texts and schemas.
    rules: String,
    /// The rule of each text.
    texts: HashMap<(String, Vec<String>), String>,
    /// The rule of each schema.
    schemas: HashMap<String, String>,
    /// Texts and schemas up to here.
    count: usize,
}

impl Printer<'_> {
    /// An expression; `rules` is the beginning of the names of the rules that it refers to.
    fn expression(&mut self, expression: &Expression, rules: &str) -> Result<String> {
        Ok(match expression {
            Expression::Sequence(parts) if parts.is_empty() => "\"\"".to_owned(),
            Expression::Sequence(parts) => {
                let parts = parts.iter().map(|part| self.expression(part, rules));
                parts.collect::<Result<Vec<_>>>()?.join(" ")
            }
            Expression::Choice(all) => {
                let all = all.iter().map(|part| self.expression(part, rules));
                format!("({})", all.collect::<Result<Vec<_>>>()?.join(" | "))
            }
            Expression::Repeat(inner, least, most) => {
                let inner = self.expression(inner, rules)?;
                if (*least).max(most.unwrap_or(0)) > self.dialect.most {
                    let count = (*least).max(most.unwrap_or(0));
                    return Err(self.cannot(&format!("has a list of {count} items")));
                }
                repeated(&inner, *least, *most)
            }
            Expression::Rule(number) => format!("{rules}{number}"),
            Expression::Ids(ids) => (self.dialect.token)(ids),
            Expression::End(_) => "\"\"".to_owned(),
            Expression::Literal(text) => string(text),
            Expression::Text(parts) => {
                let parts = parts.iter().map(|part| self.part(part));
                parts.collect::<Result<Vec<_>>>()?.join(" ")
            }
            Expression::Json(schema) => self.schema(schema)?,
        })
    }

    fn part(&mut self, part: &Part) -> Result<String> {
        match part {
            Part::Literal(text) => Ok(string(text)),
            Part::Regex { regex, except } => self.text(regex, except),
            Part::Any { except } => self.text(".*", except),
        }
    }

    /// The rule of a text.
    fn text(&mut self, regex: &str, except: &[String]) -> Result<String> {
        let key = (regex.to_owned(), except.to_vec());
        if let Some(name) = self.texts.get(&key) {
            return Ok(name.clone());
        }
        let made = Automaton::new(regex, except, &self.dialect.spellings);
        let made = made.map_err(|problem| self.cannot(&problem))?;
        let name = format!("t{}", self.count);
        self.count += 1;
        for (at, state) in made.states.iter().enumerate() {
            let _ =
                writeln!(self.rules, "{} ::= {}", state_name(&name, at), rule(&name, at, state));
        }
        self.texts.insert(key, name.clone());
        Ok(name)
    }

    /// The rule of a value by its schema.
    fn schema(&mut self, schema: &Arc<Value>) -> Result<String> {
        let key = schema.to_string();
        if let Some(name) = self.schemas.get(&key) {
            return Ok(name.clone());
        }
        let given = self.constraint.schemas.iter().find(|(_, known)| Arc::ptr_eq(known, schema));
        let path = given.map_or("tools", |(path, _)| path.as_str()).to_owned();
        let mut rules = Rules::default();
        let value = Values::new(schema, &mut rules, JSON, Vec::new()).value(schema, "");
        let value = value.map_err(|problem| Error::message(&*path, problem))?;
        let rules = rules.into_vec();
        if let Some(keyword) = std::iter::once(&value).chain(&rules).find_map(restriction) {
            let problem = format!(
                "has the keyword `{keyword}`, which {} cannot express here, expected a schema without it; \
                 `strict=False` takes any arguments",
                self.dialect.name
            );
            return Err(Error::message(path, problem));
        }
        let name = format!("v{}", self.count);
        self.count += 1;
        let inner = format!("{name}r");
        let value = self.expression(&value, &inner)?;
        let _ = writeln!(self.rules, "{name} ::= {value}");
        for (number, rule) in rules.iter().enumerate() {
            let rule = self.expression(rule, &inner)?;
            let _ = writeln!(self.rules, "{inner}{number} ::= {rule}");
        }
        self.schemas.insert(key, name.clone());
        Ok(name)
    }

    fn cannot(&self, problem: &str) -> Error {
        let name = self.dialect.name;
        Error::message("tools", format!("cannot be expressed in a grammar of {name}: {problem}"))
    }
}

/// A keyword that only a backend with schemas of its own follows.
fn restriction(expression: &Expression) -> Option<String> {
    match expression {
        Expression::Json(schema) => {
            let keys = schema.as_object()?.keys();
            keys.filter(|key| *key != "type").map(String::clone).next()
        }
        Expression::Sequence(all) | Expression::Choice(all) => all.iter().find_map(restriction),
        Expression::Repeat(inner, ..) => restriction(inner),
        _ => None,
    }
}

fn state_name(text: &str, at: usize) -> String {
    if at == 0 { text.to_owned() } else { format!("{text}s{at}") }
}

/// What may follow a state. An edge to itself is a repetition.
fn rule(text: &str, at: usize, state: &State) -> String {
    let own: Vec<(u32, u32)> = state
        .edges
        .iter()
        .filter(|(_, to)| *to == at)
        .flat_map(|(ranges, _)| ranges.clone())
        .collect();
    let mut alternatives = Vec::new();
    for (ranges, to) in state.edges.iter().filter(|(_, to)| *to != at) {
        alternatives.push(format!("{} {}", class(ranges), state_name(text, *to)));
    }
    if state.is_end {
        alternatives.push("\"\"".to_owned());
    }
    let rest = match &alternatives[..] {
        [one] => one.clone(),
        all => format!("({})", all.join(" | ")),
    };
    match own.is_empty() {
        true => rest,
        false if rest == "\"\"" => format!("{}*", class(&own)),
        false => format!("{}* {rest}", class(&own)),
    }
}

/// A class of characters.
fn class(ranges: &[(u32, u32)]) -> String {
    let mut written = "[".to_owned();
    for &(first, last) in ranges {
        escape(first, &mut written);
        if last > first {
            written.push('-');
            escape(last, &mut written);
        }
    }
    written.push(']');
    written
}

/// Writes a character as an escape. A letter after an escape could be a digit of it, so that all are escapes.
fn escape(c: u32, written: &mut String) {
    if c <= 0xFF {
        let _ = write!(written, "\\x{c:02X}");
    } else if c <= 0xFFFF {
        let _ = write!(written, "\\u{c:04X}");
    } else {
        let _ = write!(written, "\\U{c:08X}");
    }
}

/// A literal. A control character is a class of one character.
fn string(text: &str) -> String {
    let mut written = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' => written.push_str("\\\""),
            '\\' => written.push_str("\\\\"),
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            c if c.is_control() => {
                let c = c as u32;
                let _ = write!(written, "\" {} \"", class(&[(c, c)]));
            }
            c => written.push(c),
        }
    }
    written.push('"');
    written
}
