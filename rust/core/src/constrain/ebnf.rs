//! Expressions as rules of EBNF, for backends whose text is characters: xgrammar and llama.cpp.
//!
//! The two write control tokens in their own ways, and say otherwise what may end. Complements and schemas are
//! printed as rules: these grammars have neither.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::Value;

use super::Constraint;
use super::automaton::{Automaton, State};
use crate::error::{Error, Result};
use crate::expression::{Expression, Part, Rules};
use crate::path::Path;
use crate::schema::values::{JSON, Values};
use chatcodec_vocab::TokenId;

/// How a backend writes what EBNF lacks.
pub(super) struct Dialect<'a> {
    /// The backend, for errors.
    pub(super) name: &'static str,
    /// Writes one of some control tokens.
    pub(super) token: fn(&[TokenId]) -> String,
    /// The only stop id that may follow where the grammar is complete; without, each may.
    pub(super) stop: Option<TokenId>,
    /// Greatest bound of a repetition.
    pub(super) most: u32,
    /// Spellings that text must not hold, because the backend takes text that spells a control token for it.
    pub(super) spellings: &'a [String],
    /// Automata without these spellings that were made before.
    pub(super) known: Option<&'a Texts>,
}

/// A text: a regular expression, others that it matches too, and those that it must not match.
type Text = (String, Vec<String>, Vec<String>);

/// Automata of texts, which take longer to make than to print.
#[derive(Debug, Default)]
pub(super) struct Texts {
    known: Mutex<HashMap<Text, Arc<Automaton>>>,
}

/// Most automata that are kept.
const MAX_TEXTS: usize = 64;
/// Most states of one that is kept.
const MAX_KEPT: usize = 2048;

impl Texts {
    fn get_or_make(
        &self,
        text: &Text,
        build: impl FnOnce() -> std::result::Result<Automaton, String>,
    ) -> std::result::Result<Arc<Automaton>, String> {
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(text) {
            return Ok(known.clone());
        }
        let made = Arc::new(build()?);
        let mut known = lock();
        if made.states.len() <= MAX_KEPT {
            if known.len() >= MAX_TEXTS {
                known.clear();
            }
            known.insert(text.clone(), made.clone());
        }
        Ok(made)
    }
}

/// A constraint as rules, `root` first. An end is where the grammar is complete: backends accept a stop id there.
///
/// # Errors
/// [`Error::Message`] for what the backend cannot express.
pub(super) fn print(constraint: &Constraint, dialect: &Dialect<'_>) -> Result<String> {
    let mut printer = Printer {
        constraint,
        dialect,
        rules: String::new(),
        texts: HashMap::new(),
        schemas: HashMap::new(),
        count: 0,
        place: Path::Argument("tools"),
    };
    let mut all = String::from("root ::= ");
    printer.expression(&constraint.start, "r", &mut all)?;
    all.push('\n');
    for (number, rule) in constraint.rules.iter().enumerate() {
        let _ = write!(all, "r{number} ::= ");
        printer.expression(rule, "r", &mut all)?;
        all.push('\n');
    }
    all.push_str(&printer.rules);
    Ok(all)
}

struct Printer<'a> {
    constraint: &'a Constraint,
    dialect: &'a Dialect<'a>,
    /// Rules of texts and schemas.
    rules: String,
    /// The rule of each text.
    texts: HashMap<Text, String>,
    /// The rule of each schema, by its address.
    schemas: HashMap<*const Value, String>,
    /// Texts and schemas up to here.
    count: usize,
    /// The place of the printed part, for errors.
    place: Path<'a>,
}

impl Printer<'_> {
    /// Writes an expression; `rules` is the beginning of the names of the rules that it refers to.
    fn expression(&mut self, expression: &Expression, rules: &str, out: &mut String) -> Result<()> {
        match expression {
            Expression::Sequence(parts) if parts.is_empty() => out.push_str("\"\""),
            Expression::Sequence(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    if at > 0 {
                        out.push(' ');
                    }
                    self.expression(part, rules, out)?;
                }
            }
            Expression::Choice(all) => {
                for (at, part) in all.iter().enumerate() {
                    out.push_str(if at == 0 { "(" } else { " | " });
                    self.expression(part, rules, out)?;
                }
                out.push(')');
            }
            Expression::Repeat(inner, least, most) => {
                self.check_count((*least).max(most.unwrap_or(0)))?;
                out.push('(');
                self.expression(inner, rules, out)?;
                out.push(')');
                count(*least, *most, out);
            }
            Expression::Rule(number) => {
                let _ = write!(out, "{rules}{number}");
            }
            Expression::Ids(ids) => out.push_str(&(self.dialect.token)(ids)),
            Expression::End(ids) => self.end(ids, out),
            Expression::Literal(text) => string(text, out),
            Expression::Text(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    if at > 0 {
                        out.push(' ');
                    }
                    match part {
                        Part::Literal(text) => string(text, out),
                        Part::Regex { regex, also, except } => {
                            self.text(regex, also, except, out)?;
                        }
                        Part::Any { except } => self.text(".*", &[], except, out)?,
                    }
                }
            }
            Expression::Json(schema) => self.schema(schema, out)?,
        }
        Ok(())
    }

    /// Writes the end: the stop ids that the backend does not accept by itself where the grammar is complete.
    fn end(&self, ids: &[TokenId], out: &mut String) {
        let stop = self.dialect.stop.filter(|stop| ids.contains(stop));
        let others: Vec<TokenId> = ids
            .iter()
            .copied()
            .filter(|id| self.dialect.stop.is_some() && Some(*id) != stop)
            .collect();
        match (&others[..], stop) {
            ([], _) => out.push_str("\"\""),
            (others, None) => out.push_str(&(self.dialect.token)(others)),
            (others, Some(_)) => {
                let _ = write!(out, "({} | \"\")", (self.dialect.token)(others));
            }
        }
    }

    fn check_count(&self, count: u32) -> Result<()> {
        if count > self.dialect.most {
            let most = self.dialect.most;
            return Err(
                self.cannot(&format!("has a repetition of {count}, expected at most {most}"))
            );
        }
        Ok(())
    }

    /// Writes the name of the rule of a text.
    fn text(
        &mut self,
        regex: &str,
        also: &[String],
        except: &[String],
        out: &mut String,
    ) -> Result<()> {
        let key = (regex.to_owned(), also.to_vec(), except.to_vec());
        if let Some(name) = self.texts.get(&key) {
            out.push_str(name);
            return Ok(());
        }
        let name = format!("t{}", self.count);
        self.count += 1;
        if also.is_empty() && except.is_empty() && self.dialect.spellings.is_empty() {
            let parser = ParserBuilder::new().dot_matches_new_line(true).nest_limit(100).build();
            let hir = { parser }.parse(regex).map_err(|error| self.cannot(&error.to_string()))?;
            let mut rule = String::new();
            self.regex(&hir, &mut rule)?;
            let _ = writeln!(self.rules, "{name} ::= {rule}");
        } else {
            let spellings = self.dialect.spellings;
            let build = || Automaton::new(regex, also, except, spellings);
            let made = match self.dialect.known {
                Some(known) => known.get_or_make(&key, build),
                None => build().map(Arc::new),
            };
            let made = made.map_err(|problem| self.cannot(&problem))?;
            for (at, state) in made.states.iter().enumerate() {
                state_name(&name, at, &mut self.rules);
                self.rules.push_str(" ::= ");
                rule(&name, at, state, &mut self.rules);
                self.rules.push('\n');
            }
        }
        out.push_str(&name);
        self.texts.insert(key, name);
        Ok(())
    }

    /// Writes a regular expression, where text may spell anything.
    fn regex(&self, hir: &Hir, out: &mut String) -> Result<()> {
        match hir.kind() {
            HirKind::Empty => out.push_str("\"\""),
            HirKind::Literal(literal) => string(&String::from_utf8_lossy(&literal.0), out),
            HirKind::Class(Class::Unicode(all)) => {
                let ranges = all.iter().map(|range| (range.start() as u32, range.end() as u32));
                class(ranges, out);
            }
            HirKind::Class(Class::Bytes(_)) | HirKind::Look(_) => {
                return Err(self.cannot("has bytes or places"));
            }
            HirKind::Repetition(repeat) => {
                self.check_count(repeat.min.max(repeat.max.unwrap_or(0)))?;
                out.push('(');
                self.regex(&repeat.sub, out)?;
                out.push(')');
                count(repeat.min, repeat.max, out);
            }
            HirKind::Capture(capture) => self.regex(&capture.sub, out)?,
            HirKind::Concat(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    if at > 0 {
                        out.push(' ');
                    }
                    self.regex(part, out)?;
                }
            }
            HirKind::Alternation(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    out.push_str(if at == 0 { "(" } else { " | " });
                    self.regex(part, out)?;
                }
                out.push(')');
            }
        }
        Ok(())
    }

    /// Writes the name of the rule of a value by its schema.
    fn schema(&mut self, schema: &Arc<Value>, out: &mut String) -> Result<()> {
        if let Some(name) = self.schemas.get(&Arc::as_ptr(schema)) {
            out.push_str(name);
            return Ok(());
        }
        let constraint = self.constraint;
        let given = constraint.schemas.iter().find(|(_, known)| Arc::ptr_eq(known, schema));
        let outer = self.place;
        self.place = given.map_or(outer, |(path, _)| Path::Argument(path));
        let mut rules = Rules::default();
        let value = Values::new(schema, &mut rules, JSON, Vec::new()).value(schema, self.place)?;
        let name = format!("v{}", self.count);
        self.count += 1;
        let inner = format!("{name}r");
        let mut written = format!("{name} ::= ");
        self.expression(&value, &inner, &mut written)?;
        written.push('\n');
        for (number, rule) in rules.into_vec().iter().enumerate() {
            let _ = write!(written, "{inner}{number} ::= ");
            self.expression(rule, &inner, &mut written)?;
            written.push('\n');
        }
        self.place = outer;
        self.rules.push_str(&written);
        out.push_str(&name);
        self.schemas.insert(Arc::as_ptr(schema), name);
        Ok(())
    }

    fn cannot(&self, problem: &str) -> Error {
        let name = self.dialect.name;
        let problem = format!("cannot be expressed in a grammar of {name}: {problem}");
        Error::message(self.place, problem)
    }
}

/// Writes how often something is repeated: at least, and at most.
fn count(least: u32, most: Option<u32>, out: &mut String) {
    let _ = match (least, most) {
        (0, Some(1)) => write!(out, "?"),
        (0, None) => write!(out, "*"),
        (1, None) => write!(out, "+"),
        (least, None) => write!(out, "{{{least},}}"),
        (least, Some(most)) => write!(out, "{{{least},{most}}}"),
    };
}

fn state_name(text: &str, at: usize, out: &mut String) {
    out.push_str(text);
    if at > 0 {
        let _ = write!(out, "s{at}");
    }
}

/// Writes what may follow a state. An edge to itself is a repetition.
fn rule(text: &str, at: usize, state: &State, out: &mut String) {
    let (own, others): (Vec<_>, Vec<_>) = state.edges.iter().partition(|(_, to)| *to == at);
    if !own.is_empty() {
        class(own.iter().flat_map(|(ranges, _)| ranges.iter().copied()), out);
        out.push_str("* ");
    }
    let is_grouped = others.len() + usize::from(state.is_end) != 1;
    for (nth, (ranges, to)) in others.iter().enumerate() {
        out.push_str(match (is_grouped, nth) {
            (false, _) => "",
            (true, 0) => "(",
            (true, _) => " | ",
        });
        class(ranges.iter().copied(), out);
        out.push(' ');
        state_name(text, *to, out);
    }
    if state.is_end {
        out.push_str(if others.is_empty() { "\"\"" } else { " | \"\"" });
    }
    if is_grouped {
        out.push(')');
    }
}

/// Writes a class of characters.
fn class(ranges: impl Iterator<Item = (u32, u32)>, out: &mut String) {
    out.push('[');
    for (first, last) in ranges {
        escape(first, out);
        if last > first {
            out.push('-');
            escape(last, out);
        }
    }
    out.push(']');
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

/// Writes a literal. A control character is a class of one character.
fn string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| matches!(c, '"' | '\\') || c.is_control()) {
        let (plain, from) = rest.split_at(at);
        out.push_str(plain);
        let mut chars = from.chars();
        match chars.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some(c) => {
                out.push_str("\" ");
                class(std::iter::once((c as u32, c as u32)), out);
                out.push_str(" \"");
            }
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}
